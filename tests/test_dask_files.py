"""Dask arrays from files hold what the reader of whole files reads, and one sentence says what is wrong with the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import random_points
from typer.testing import CliRunner

from geodp import SPD, Ball, Dataset, Euclidean, Ledger, Rotations, Sphere, private_mean, read_dask
from geodp.cli import app
from geodp.files import FileError, read_records

distributed = pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")
arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
dask_files = pytest.importorskip("geodp.records.dask_files")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geodp.files.parts._PART_BYTES", 8 * 9 * 40)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def tensors() -> np.ndarray:
    x = random_points(SPD(3), 250, np.random.default_rng(0))
    x[3], x[200] = np.nan, -x[200]
    return x


def entries(x: np.ndarray) -> dict[str, np.ndarray]:
    """Columns in an order of their own, which only their names tell."""
    names = {"Dzz": (2, 2), "Dxx": (0, 0), "Dxy": (0, 1), "Dyy": (1, 1), "Dyz": (1, 2), "Dxz": (0, 2)}
    return {name: x[:, i, j] for name, (i, j) in names.items()}


@pytest.mark.usefixtures("small_blocks")
def test_a_directory_of_numpy_arrays(tensors: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for path, rows in {
        "a.npy": slice(0, 90),
        "b.npy": slice(90, 90),
        "c.npy": slice(90, 100),
        "deep/d.npy": slice(100, 250),
    }.items():
        np.save(tmp_path / path, tensors[rows])
    np.save(tmp_path / "_draft.npy", tensors)
    x = read_dask(tmp_path, SPD(3))
    assert x.shape == (250, 3, 3)
    assert max(x.chunks[0]) <= 40
    np.testing.assert_array_equal(x.compute(), tensors)
    upper = tensors[:, *np.triu_indices(3)]
    np.save(tmp_path / "upper.npy", upper.astype(np.float32))
    flat = read_dask(tmp_path / "upper.npy", SPD(3))
    np.testing.assert_array_equal(flat.compute(), read_records(tmp_path / "upper.npy", SPD(3)))


@pytest.mark.usefixtures("small_blocks")
def test_parquet_files_with_a_column_a_coordinate(tensors: np.ndarray, tmp_path: Path) -> None:
    table = arrow.table({**entries(tensors), "age": np.arange(250)})
    (tmp_path / "parts").mkdir()
    parquet.write_table(table.slice(0, 130), tmp_path / "parts" / "0.parquet", row_group_size=17)
    parquet.write_table(table.slice(130, 0), tmp_path / "parts" / "1.parquet")
    parquet.write_table(table.slice(130), tmp_path / "parts" / "2.parquet", row_group_size=1000)
    parquet.write_table(table, tmp_path / "whole.parquet")
    names = "Dxx, Dyy, Dzz, Dxy, Dxz, Dyz"
    x = read_dask(tmp_path / "parts", SPD(3), columns=names)
    assert x.chunks[0] == (34, 34, 34, 28, 120)
    np.testing.assert_array_equal(x.compute(), read_records(tmp_path / "whole.parquet", SPD(3), columns=names))
    np.testing.assert_array_equal(x.compute()[10], tensors[10])
    with pytest.raises(FileError, match="has 7 columns"):
        read_dask(tmp_path / "parts", SPD(3))


@pytest.mark.usefixtures("small_blocks")
def test_lists_of_odd_lengths_are_invalid_records_even_where_a_block_holds_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], None, [0.0, 0.0, 1.0], [1.0], [1.0, 0.0], [1.0, 2.0], None]
    parquet.write_table(arrow.table({"v": rows}), tmp_path / "x.parquet", row_group_size=4)
    monkeypatch.setattr("geodp.files.parts._PART_BYTES", 3 * 8 * 4)
    x = read_dask(tmp_path / "x.parquet", Sphere(2), layout="cartesian")
    assert x.chunks[0] == (4, 4)
    expected = np.full((8, 3), np.nan)
    expected[[0, 1, 3]] = np.eye(3)
    np.testing.assert_array_equal(x.compute(), expected)


def test_no_list_of_the_first_block_decides_how_long_the_others_should_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geodp.files.parts._PART_BYTES", 3 * 8)
    rows = [[1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    parquet.write_table(arrow.table({"v": rows}), tmp_path / "x.parquet", row_group_size=1)
    x = read_dask(tmp_path / "x.parquet", Sphere(2), layout="cartesian").compute()
    np.testing.assert_array_equal(x, [[np.nan] * 3, [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(FileError, match="nothing public says how many numbers a record has: name the layout, cartesian or"):
        read_dask(tmp_path / "x.parquet", Sphere(2))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("grouped", [False, True])
def test_zarr_arrays(tensors: np.ndarray, tmp_path: Path, grouped: bool) -> None:
    arrays = {"records": tensors, "mask": np.zeros(3)} if grouped else {None: tensors}
    for name, values in arrays.items():
        chunks = (7, *values.shape[1:]) if grouped else (7, 3, 2)
        array = zarr.open_array(str(tmp_path / "x.zarr"), path=name, mode="w", shape=values.shape, chunks=chunks, dtype="f8")
        array[...] = values
    x = read_dask(tmp_path / "x.zarr", SPD(3))
    assert x.chunks[0][:2] == (35, 35)  # whole chunks
    np.testing.assert_array_equal(x.compute(), tensors)


def test_the_layout_is_converted_block_by_block(tmp_path: Path) -> None:
    turns = np.random.default_rng(1).normal(size=(100, 4))
    turns[7] = 0.0
    for i in range(4):
        np.save(tmp_path / f"{i}.npy", turns[25 * i : 25 * i + 25])
    np.save(tmp_path.parent / "all.npy", turns)
    x = read_dask(tmp_path, Rotations(3), layout="quaternion").compute()
    np.testing.assert_array_equal(x, read_records(tmp_path.parent / "all.npy", Rotations(3), layout="quaternion"))
    assert np.isnan(x[7]).all()


def test_bad_input_is_one_sentence(tensors: np.ndarray, tmp_path: Path) -> None:
    def refused(path: str, sentence: str) -> None:
        with pytest.raises(FileError, match=sentence):
            read_dask(tmp_path / path, SPD(3))

    for name in ("none", "mixed", "shapes", "columns"):
        (tmp_path / name).mkdir()
    refused("missing", "there is no file or directory")
    refused("none", "holds no .parquet, .npy, .csv, .tsv, .nii, .nii.gz files")
    (tmp_path / "x.csv.gz").write_text("1,2,3\n")
    refused("x.csv.gz", "in parts, only .* directories: unpack it first")
    (tmp_path / "x.csv").write_bytes("xx\n1\n".encode("utf-16"))
    refused("x.csv", "is in UTF-16, which cannot be read in blocks: save it as UTF-8")
    np.save(tmp_path / "mixed" / "a.npy", tensors)
    parquet.write_table(arrow.table(entries(tensors)), tmp_path / "mixed" / "b.parquet")
    refused("mixed", "put each kind into its own directory")
    np.save(tmp_path / "shapes" / "a.npy", tensors)
    np.save(tmp_path / "shapes" / "b.npy", tensors[:, :2])
    refused("shapes", r"b.npy holds an array of shape \(250, 2, 3\), but .*a.npy one of shape \(250, 3, 3\)")
    parquet.write_table(arrow.table({"a": [1.0]}), tmp_path / "columns" / "a.parquet")
    parquet.write_table(arrow.table({"b": [1.0]}), tmp_path / "columns" / "b.parquet")
    refused("columns", "b.parquet differ from those of .*a.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 secret")
    refused("damaged.parquet", "is not a Parquet file")
    (tmp_path / "damaged.zarr").mkdir()
    refused("damaged.zarr", "is not a Zarr array")
    np.save(tmp_path / "wide.npy", np.zeros((5, 7)))
    refused("wide.npy", r"7 columns in an array of shape \(5, 7\), but SPD\(3\) is read from")


def test_a_file_that_shrinks_or_goes_is_refused_without_quoting_it(tensors: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", tensors)
    x = read_dask(tmp_path / "x.npy", SPD(3))
    np.save(tmp_path / "x.npy", tensors[:100])
    with pytest.raises(FileError, match=r"has changed since it was opened: leave files alone until the release is made$"):
        x.compute()
    (tmp_path / "x.npy").unlink()
    with pytest.raises(FileError, match="cannot be read: FileNotFoundError"):
        x.compute()


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_line_releases_from_a_cluster_and_charges_once(scheduler: str, tensors: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    np.save(tmp_path / "x" / "a.npy", tensors)
    url = f"sqlite:///{tmp_path}/budget.db"
    Ledger(url).open("study", epsilon="3")
    options = ("--manifold", "SPD(3)", "--radius", 1.5, "--epsilon", 1, "--json", "--ledger", url, "--dataset", "study")
    result = run("mean", tmp_path / "x", *options, "--dask", scheduler)
    assert result.exit_code == 0, result.output
    receipt = json.loads(result.stdout)
    assert receipt["n"] == 250
    assert receipt["private"]
    assert len(Ledger(url).history("study")) == 1


def write_csv(path: Path, x: np.ndarray, separator: str = ",") -> None:
    """Records of 50 persons and odd lines: bytes that are no text, a byte order mark, too many cells, a carriage return."""
    columns = entries(x)
    rows = np.stack([*columns.values()], axis=-1).tolist()
    lines = [separator.join(["person", *columns])]
    lines += [separator.join([f"p{i // 5}", *map(repr, row)]) for i, row in enumerate(rows)]
    lines[11], lines[90] = "p2", lines[90] + f"{separator}7"
    content = "\n".join(lines).replace("p4", "\ufeffp4").encode()
    path.write_bytes(content.replace(b"p7", b"\xffp7").replace(b"p20\n", b"p20\r\n"))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_lines_of_text_are_read_in_blocks_as_they_are_read_whole(suffix: str, tensors: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    write_csv(path, tensors, "\t" if suffix == ".tsv" else ",")
    whole = Dataset.read(path, SPD(3), unit="person")
    blocks = Dataset.read(path, SPD(3), unit="person", dask=True)
    assert blocks.x.numblocks[0] > 5
    np.testing.assert_array_equal(blocks.x.compute(), whole.x)
    assert blocks.unit.compute().tolist() == whole.unit.tolist()
    assert blocks.unit.chunks[0] == blocks.x.chunks[0]
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[1:]))
    told: Any = {"header": False, "columns": [2, 3, 6, 4, 5, 1], "layout": "upper"}
    np.testing.assert_array_equal(read_dask(path, SPD(3), **told).compute(), read_records(path, SPD(3), **told))


def test_the_command_line_reads_lines_and_persons_in_blocks(scheduler: str, tensors: np.ndarray, tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv", tensors)
    options = ("-m", "SPD(3)", "-r", 1.5, "-e", 1, "--json", "--unit", "person", "--dask", scheduler)
    result = run("mean", tmp_path / "x.csv", *options)
    assert result.exit_code == 0, result.output
    receipt = json.loads(result.stdout)
    persons = Dataset.read(tmp_path / "x.csv", SPD(3), unit="person").unit
    assert (receipt["n"], receipt["unit"]) == (len(set(persons.tolist()) - {""}) + persons.tolist().count(""), "person")


@pytest.mark.slow
def test_the_command_line_starts_a_cluster_of_its_own(tensors: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", tensors)
    result = run("mean", tmp_path / "x.npy", "-m", "SPD(3)", "-r", 1.5, "-e", 1, "--json", "--dask", "local")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["n"] == 250
    assert distributed.client._get_global_client() is None


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", ""])
def test_an_address_where_nobody_answers_is_one_sentence(
    address: str, tensors: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_files, "_PATIENCE", "0.5s")
    np.save(tmp_path / "x.npy", tensors)
    result = run("mean", tmp_path / "x.npy", "-m", "SPD(3)", "-r", 1.5, "-e", 1, "--dask", address)
    assert result.exit_code == 2
    assert "no Dask scheduler answers" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_without_dask_one_sentence_says_what_to_install(
    tensors: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", tensors)
    monkeypatch.setattr("geodp.records.dask_files.da", None)
    result = run("mean", tmp_path / "x.npy", "-m", "SPD(3)", "-r", 1.5, "-e", 1, "--dask", "local")
    assert result.exit_code == 2
    assert "pip install 'geodp[dask]'" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_numbers_of_any_width_are_read_as_float64(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(12, dtype=np.int16).reshape(6, 2))
    x = read_dask(tmp_path / "x.npy", Euclidean(2))
    assert x.dtype == np.float64
    assert x.compute().dtype == np.float64


@pytest.mark.parametrize("name", ["x.npy", "x.csv", "bare.csv", "x.parquet", "x.zarr"])
def test_a_file_without_records_is_one_empty_block(name: str, tensors: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / name
    match name:
        case "x.npy":
            np.save(path, tensors[:0])
        case "x.csv":
            path.write_text(",".join(entries(tensors)) + "\n")
        case "bare.csv":
            path.touch()
        case "x.parquet":
            parquet.write_table(arrow.table(entries(tensors[:0])), path)
        case "x.zarr":
            zarr.save_array(str(path), tensors[:0])
    how: Any = {"header": False, "layout": "upper"} if name == "bare.csv" else {}
    x = read_dask(path, SPD(3), **how)
    assert x.compute().shape == x.shape == (0, 3, 3)
    ball = Ball(SPD(3), np.eye(3), 1.0)
    assert private_mean(x, ball, epsilon=1.0, neighbours="add-remove").n >= 1
    with pytest.raises(ValueError, match=r"^the number of records n must be at least 1 but is 0$"):
        private_mean(x, ball, epsilon=1.0)
