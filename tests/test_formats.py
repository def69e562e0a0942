"""Files people have: tab-separated, packed, lines of JSON, spreadsheets, images of tensors, and times as people write them."""

from __future__ import annotations

import datetime
import gzip
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geodp import SPD, Dataset, Manifold, Sphere, Torus
from geodp.files import FileError, parse_center, read_records

openpyxl = pytest.importorskip("openpyxl")

SECRET = "987654321.5"
FACTORS = np.eye(2) + 0.2 * np.random.default_rng(7).normal(size=(40, 2, 2))
MATRICES = FACTORS @ FACTORS.transpose(0, 2, 1)
UPPER = MATRICES[:, [0, 0, 1], [0, 1, 1]]
NAMES = ["id", "yy", "xx", "xy"]
Rows = list[list[Any]]


def rows(cell: Any = None, at: int = 5) -> Rows:
    """A table with its columns in another order than the layout's; ``cell`` stands in one place of it."""
    made: Rows = [[f"p{i % 7}", *(float(number) for number in row)] for i, row in enumerate(UPPER[:, [2, 0, 1]])]
    if cell is not None:
        made[at][1] = cell
    return made


def write_separated(mark: str, opener: Callable[..., Any] = open) -> Callable[[Path, Rows], None]:
    def write(path: Path, table: Rows) -> None:
        with opener(path, "wt", encoding="utf-8") as file:
            for row in [NAMES, *table]:
                file.write(mark.join(cell if isinstance(cell, str) else repr(cell) for cell in row) + "\n")

    return write


def write_json(opener: Callable[..., Any] = open) -> Callable[[Path, Rows], None]:
    def write(path: Path, table: Rows) -> None:
        with opener(path, "wt", encoding="utf-8") as file:
            for row in table:
                file.write(json.dumps(dict(zip(NAMES, row, strict=True)), default=str) + "\n")

    return write


def write_sheet(path: Path, table: Rows) -> None:
    book = openpyxl.Workbook()
    for row in [NAMES, *table]:
        book.active.append(row)
    book.save(path)


FORMATS: dict[str, Callable[[Path, Rows], None]] = {
    "x.tsv": write_separated("\t"),
    "x.csv.gz": write_separated(",", gzip.open),
    "X.TSV.GZ": write_separated("\t", gzip.open),
    "x.jsonl": write_json(),
    "x.jsonl.gz": write_json(gzip.open),
    "x.xlsx": write_sheet,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_holds_the_same_points_and_labels(name: str, tmp_path: Path) -> None:
    FORMATS[name](tmp_path / name, rows())
    data = Dataset.read(tmp_path / name, SPD(2), columns="xx, xy, yy", unit="id")
    np.testing.assert_allclose(data.x, MATRICES, rtol=1e-15)  # a spreadsheet keeps sixteen digits
    assert data.unit.tolist() == [row[0] for row in rows()]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("cell", ["no number", "", "1.5.2", '"', "\\", "{", "=1/0", "#N/A", "9" * 5000])
def test_one_malformed_cell_is_one_invalid_record(name: str, cell: str, tmp_path: Path) -> None:
    """And every other record keeps every bit; the first record is no different from the others."""
    write = FORMATS[name]
    write(tmp_path / name, rows())
    good = read_records(tmp_path / name, SPD(2), columns="xx, xy, yy")
    for at in (0, 5):
        write(tmp_path / name, rows(cell, at))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            points = read_records(tmp_path / name, SPD(2), columns="xx, xy, yy")
        np.testing.assert_array_equal(np.delete(points, at, axis=0), np.delete(good, at, axis=0))
        assert not SPD(2).valid(points[at])


def test_a_tab_separates_and_nothing_else_does_in_a_tsv_file(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a;b\tc,d\n1\t2\n3;4\t5\n")
    points = read_records(tmp_path / "x.tsv", Sphere(1), layout="cartesian")
    np.testing.assert_array_equal(points[0], [1.0, 2.0])
    assert np.isnan(points[1, 0])


@pytest.mark.parametrize(
    "content",
    [b"\x1f\x8b", b"no gzip", gzip.compress(b"a,b\n1,2\n")[:-6], gzip.compress(b"a,b\n1,2\n")[:12]],
    ids=["a mark", "a text", "without its end", "a beginning"],  # the bytes tell the time, which differs between processes
)
def test_a_damaged_archive_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(content)
    with pytest.raises(FileError, match=r"x\.csv\.gz cannot be read: \w+$"):
        read_records(tmp_path / "x.csv.gz", Sphere(1))


@pytest.mark.slow
def test_an_archive_is_read_some_megabytes_at_a_time(tmp_path: Path) -> None:
    tracemalloc = pytest.importorskip("tracemalloc")
    with gzip.open(tmp_path / "x.csv.gz", "wt", compresslevel=1) as file:
        file.write("note,time\n")
        for _ in range(40):
            file.write((" " * 9_990 + ",06:00\n") * 100)
    tracemalloc.start()
    read_records(tmp_path / "x.csv.gz", Sphere(1), columns="time")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25e6 < 40e6  # the unpacked file has 40 MB


def test_lines_of_json_say_by_themselves_what_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lists = [{"tensor": row, "id": i} for i, row in enumerate(MATRICES.tolist())]
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in lists))
    data = Dataset.read(path, SPD(2), columns="tensor", layout="full", unit="id")
    np.testing.assert_array_equal(data.x, MATRICES)
    assert data.unit.tolist() == list(range(40))
    with pytest.raises(FileError, match="has no types, so nothing public says how many numbers a record has"):
        read_records(path, SPD(2), columns="tensor")
    with pytest.raises(FileError, match="has no header: name the fields to read, such as columns='lat, lon'"):
        read_records(path, SPD(2), layout="full")
    path.write_text("".join(f"{row}\n" for row in UPPER.tolist()) + "[1, [2, 3], 4]\n" + "[" * 100_000 + "\n")
    points = read_records(path, SPD(2), header=False, layout="upper")
    np.testing.assert_array_equal(points[:40], MATRICES)
    assert np.isnan(points[40:]).all()
    path.write_text("[2, 0, 1]\n")
    np.testing.assert_array_equal(parse_center(str(path), SPD(2)), [[2.0, 0.0], [0.0, 1.0]])


def test_a_spreadsheet_may_hold_times_and_needs_one_sheet_of_records(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    book = openpyxl.Workbook()
    stamps = [datetime.time(6, 0), datetime.datetime(2024, 5, 1, 18, 0), "noon", None, 0.25]
    for cell in ["time", *stamps]:
        book.active.append([cell])
    book.save(path)
    points = read_records(path, Sphere(1))
    np.testing.assert_allclose(points[:2], [[1.0, 0.0], [-1.0, 0.0]], atol=1e-15)
    assert np.isnan(points[2:]).all()
    book.create_sheet("notes")
    book.save(path)
    with pytest.raises(FileError, match=r"has 2 sheets \(Sheet, notes\): call the one with the records x or records"):
        read_records(path, Sphere(1))
    path.write_text(SECRET)
    with pytest.raises(FileError, match=r"is not an Excel file that openpyxl can read: save it as CSV$"):
        read_records(path, Sphere(1))
    book = openpyxl.Workbook()
    book.active.append([float(SECRET), 1.0])
    book.active.append([3.0, 4.0])
    book.save(path)
    with pytest.raises(FileError, match=r"the first row of .* must name the columns") as caught:
        read_records(path, Sphere(1))
    assert "98765" not in str(caught.value)
    np.testing.assert_array_equal(read_records(path, Sphere(1), header=False, layout="cartesian")[1], [3.0, 4.0])
    np.testing.assert_array_equal(read_records(path, Sphere(1), header=False, columns="1, 0")[1], [4.0, 3.0])


# ---------------------------------------------------------------------- times

TIMES = {
    "06:00": 6.0,
    "6:00 AM": 6.0,
    "6:00am": 6.0,
    "12:00 a.m.": 0.0,
    "12:15 PM": 12.25,
    "11:59:59.5 pm": 24.0 - 0.5 / 3600.0,
    "2024-05-01T13:45": 13.75,
    "2024-05-01 13:45:30": 13.75 + 30.0 / 3600.0,
    "2024-05-01T13:45:00.250Z": 13.75 + 0.25 / 3600.0,
    "2024-05-01T13:45+02:00": 13.75,
    "24:00": 0.0,
}
NO_TIMES = ["13:00 PM", "0:30 AM", "25:00", "12:60", "13", "2024-05-01", "T13:45", "13:45 o'clock", "", "nan"]


def test_times_of_day_are_read_as_they_are_written(tmp_path: Path) -> None:
    """The oracle: the angle of the hour on a face of 24 hours. A time zone is not converted."""
    path = tmp_path / "x.csv"
    path.write_text("time\n" + "".join(f"{time}\n" for time in [*TIMES, *NO_TIMES]))
    points = read_records(path, Sphere(1))
    hours = np.array(list(TIMES.values()))
    np.testing.assert_allclose(
        points[: len(hours)], np.stack([np.sin(np.pi * hours / 12), np.cos(np.pi * hours / 12)], -1), atol=1e-12
    )
    assert np.isnan(points[len(hours) :]).all()
    both = tmp_path / "both.csv"
    both.write_text("bed,rise\n10:30 PM,06:30\n23:30,no\n")
    torus = read_records(both, Torus(2), layout="clock")
    np.testing.assert_allclose(Torus.angles(torus[0]) * 12 / np.pi, [-1.5, 6.5], atol=1e-12)
    assert np.isnan(torus[1]).all()


@pytest.mark.parametrize("manifold", [Sphere(1), Torus(1)], ids=repr)
def test_hours_with_a_fraction_are_a_layout_of_their_own(manifold: Manifold, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("when\n6\n13.75\n24\n-1\n24.5\nnoon\n")
    points = read_records(path, manifold, layout="hours").reshape(-1, 2)
    angles = np.arctan2(points[:3, 0], points[:3, 1]) * 12 / np.pi
    np.testing.assert_allclose(angles, [6.0, 13.75 - 24.0, 0.0], atol=1e-12)
    assert np.isnan(points[3:]).all()


# ---------------------------------------------------------------------- images

TENSORS = np.array([[[1.0, 0.1, 0.2], [0.1, 2.0, 0.3], [0.2, 0.3, 3.0]], [[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 4.0]]])
#: The orders of FSL, of DIPY and the standard, and of MRtrix.
ORDERS = {
    "upper": [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)],
    "lower": [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)],
    "diagonal": [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)],
}


def image(order: str, *axes: int) -> Any:
    """Two tensors in the corners of a grid of 2x3x2 voxels."""
    nibabel = pytest.importorskip("nibabel")
    grid = np.zeros((2, 3, 2, *axes, 6))
    for where, tensor in zip(((0, 0, 0), (1, 2, 1)), TENSORS, strict=True):
        grid[where] = [tensor[entry] for entry in ORDERS[order]]
    return nibabel.Nifti1Image(grid, np.eye(4))


def mask_file(path: Path) -> Path:
    nibabel = pytest.importorskip("nibabel")
    mask = np.zeros((2, 3, 2), dtype=np.uint8)
    mask[0, 0, 0] = mask[1, 2, 1] = 1
    nibabel.save(nibabel.Nifti1Image(mask, np.eye(4)), path / "mask.nii")
    return path / "mask.nii"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("name", "axes"), [("x.nii", ()), ("x.nii.gz", (1,))])
def test_tensors_of_an_image_are_read_in_the_order_that_is_named(
    order: str, name: str, axes: tuple[int, ...], tmp_path: Path
) -> None:
    nibabel = pytest.importorskip("nibabel")
    nibabel.save(image(order, *axes), tmp_path / name)
    points = read_records(tmp_path / name, SPD(3), layout=order, mask=mask_file(tmp_path))
    np.testing.assert_array_equal(points, TENSORS)
    every = read_records(tmp_path / name, SPD(3), layout=order)
    assert [len(every), SPD(3).valid(every).sum()] == [12, 2]
    with pytest.raises(FileError, match="does not say in which order: name the layout, upper or lower or diagonal"):
        read_records(tmp_path / name, SPD(3))


def test_an_image_that_says_that_it_holds_symmetric_matrices_needs_no_layout(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    tensors = image("lower", 1)
    tensors.header.set_intent("symmetric matrix", (3,))
    nibabel.save(tensors, tmp_path / "x.nii.gz")
    np.testing.assert_array_equal(read_records(tmp_path / "x.nii.gz", SPD(3), mask=mask_file(tmp_path)), TENSORS)


def test_a_bad_image_or_mask_is_one_sentence(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    nibabel.save(image("upper"), tmp_path / "x.nii")
    mask = mask_file(tmp_path)
    for bad, options, sentence in (
        ("mask.nii", {}, "an image with several numbers a voxel has four or five axes"),
        ("x.nii", {"layout": "full"}, "the layout full of SPD(3) is read from 9 columns"),
        ("x.nii", {"layout": "upper", "mask": tmp_path / "no.nii"}, "there is no file"),
        ("x.nii", {"layout": "upper", "mask": tmp_path / "x.nii"}, "has the shape (2, 3, 2, 6), but the voxels of"),
        ("empty.nii", {"layout": "upper", "mask": mask}, "is not a NIfTI image that nibabel can read"),
    ):
        (tmp_path / "empty.nii").write_text(SECRET)
        with pytest.raises(FileError) as caught:
            read_records(tmp_path / bad, SPD(3), **options)
        assert sentence in str(caught.value)
        assert "98765" not in str(caught.value)
