"""Attacks on the reading of records, kept: other people's containers, labels joined by position, names that forge a receipt."""

from __future__ import annotations

import datetime
import json
import re
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geodp import (
    Ball,
    Dataset,
    Euclidean,
    GroupedRelease,
    Ledger,
    Sphere,
    frechet_means,
    private_coverage,
    private_mean,
    private_projected_mean,
    private_variance,
)
from geodp.inputs import Array
from geodp.records.chunks import RecordsError

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

BALL = Ball(Euclidean(1), [0.0], 1.0)
#: So little noise that a release shows what was computed.
EXACT = 1e9


# ---------------------------------------------------------------------- labels joined by position


class Shuffling:
    """A reader of frames that returns the same frames in another order every time it is called."""

    def __init__(self, frames: list[Any]) -> None:
        self.frames, self.reads = frames, 0

    def __call__(self) -> Iterator[Any]:
        self.reads += 1
        turn = (self.reads - 1) % len(self.frames)
        yield from [*self.frames[turn:], *self.frames[:turn]]


def one_with_many() -> list[Any]:
    """Person 0 has 99 records at one end, and 99 others have one each at the other."""
    many = pandas.DataFrame({"x": np.ones(99), "who": 0, "site": "a"})
    others = pandas.DataFrame({"x": -np.ones(99), "who": np.arange(1, 100), "site": "b"})
    return [many, others]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("release", [private_mean, private_variance, private_coverage])
def test_nobody_gets_the_records_of_others_from_a_reader_that_changes_the_order(
    release: Callable[..., Any], kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one read would be enough for the statistic. Person 0 moved a mean of 100 persons by 1.98."""
    if not kept:
        monkeypatch.setattr("geodp.records.rows._KEPT_BYTES", 0, raising=False)
    frames = one_with_many()
    expected = np.atleast_1d(release(pandas.concat(frames, ignore_index=True), BALL, EXACT, unit="who", columns="x").value)
    try:
        found = release(Shuffling(frames), BALL, EXACT, unit="who", columns="x").value
    except RecordsError:
        return
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_readers_of_records_and_of_persons_must_keep_their_order() -> None:
    """What belongs together is only known if each of two readers gives the same whenever it is called."""
    frames = one_with_many()
    for shuffles in ("records", "persons"):
        x = Shuffling([frame[["x"]].to_numpy() for frame in frames])
        unit = Shuffling([frame["who"].to_numpy() for frame in frames])
        records = x if shuffles == "records" else x.frames
        persons = unit if shuffles == "persons" else lambda unit=unit: iter(unit.frames)
        with pytest.raises(RecordsError, match="the records changed between two passes"):
            private_mean(records, BALL, 1.0, unit=persons)
    release = private_mean([frame[["x"]].to_numpy() for frame in frames], BALL, EXACT, unit=lambda: iter(unit.frames))
    np.testing.assert_allclose(release.value, [-0.98], atol=1e-4)


@pytest.mark.parametrize("kept", [True, False])
def test_one_record_changes_one_group_of_a_reader_that_changes_the_order(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kept:
        monkeypatch.setattr("geodp.records.rows._KEPT_BYTES", 0, raising=False)
    who: Any = {"by": "site", "groups": ["a", "b"], "labels": "private", "columns": "x"}
    try:
        found = private_mean(Shuffling(one_with_many()), BALL, EXACT, **who)
    except RecordsError:
        return
    np.testing.assert_allclose([found["a"].value[0], found["b"].value[0]], [1.0, -1.0], atol=1e-4)


def test_groups_of_a_stream_are_read_together() -> None:
    """Twenty groups of four chunks took 324 reads of a chunk."""
    reads = [0]

    def chunks() -> Iterator[Array]:
        for i in range(4):
            reads[0] += 1
            yield np.full((50, 1), 0.1 * i)

    release = private_mean(chunks, BALL, 1.0, by=np.arange(200) % 20)
    assert len(release) == 20
    assert reads[0] == 4


@pytest.mark.parametrize("who", [{"by": np.arange(200) % 20}, {"by": np.arange(200) % 20, "unit": np.arange(200) // 4}], ids=len)
def test_groups_of_a_stream_that_is_too_large_are_read_once_each(who: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geodp.records.rows._KEPT_BYTES", 8 * 100)
    reads = [0]

    def chunks() -> Iterator[Array]:
        for i in range(4):
            reads[0] += 1
            yield np.full((50, 1), 0.1 * i)

    if "unit" in who:
        who = who | {"by": who["unit"] % 20}
    release = private_mean(chunks, BALL, 1.0, **who)
    expected = private_mean(np.concatenate(list(chunks())), BALL, EXACT, **who)
    assert reads[0] <= 4 * (1 + 20) + 4
    assert {name: each.n for name, each in release.items()} == {name: each.n for name, each in expected.items()}


# ---------------------------------------------------------------------- one cell of a frame


def bad_text() -> Any:
    """Three texts, of which the last is no UTF-8."""
    data = b"ab\xff"
    return pyarrow.Array.from_buffers(
        pyarrow.string(), 3, [None, pyarrow.py_buffer(np.arange(4, dtype=np.int32).tobytes()), pyarrow.py_buffer(data)]
    )


def arrow_column(kind: str) -> Any:
    far = 2**62
    match kind:
        case "text":
            return bad_text()
        case "dictionary":
            return pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, 2], pyarrow.int32()), bad_text())
        case "timestamp[s]":
            return pyarrow.array([0, 86400, 2**50], pyarrow.int64()).view(pyarrow.timestamp("s"))
        case "timestamp[us]":
            return pyarrow.array([0, 86400 * 10**6, far], pyarrow.int64()).view(pyarrow.timestamp("us"))
        case "timestamp[us, zone]":
            return pyarrow.array([0, 86400 * 10**6, far], pyarrow.int64()).view(pyarrow.timestamp("us", "Europe/Berlin"))
        case "date32":
            return pyarrow.array([0, 1, 2**31 - 1], pyarrow.int32()).view(pyarrow.date32())
        case "date64":
            return pyarrow.array([0, 86400000, far], pyarrow.int64()).view(pyarrow.date64())
        case "time64[us]":
            return pyarrow.array([0, 3600 * 10**6, far], pyarrow.int64()).view(pyarrow.time64("us"))
        case "duration[us]":
            return pyarrow.array([0, 3600 * 10**6, far], pyarrow.int64()).view(pyarrow.duration("us"))
    raise AssertionError(kind)


KINDS = [
    "text", "dictionary", "timestamp[s]", "timestamp[us]", "timestamp[us, zone]", "date32", "date64", "time64[us]",
    "duration[us]",
]  # fmt: skip


def as_pandas(table: Any) -> Any:
    return pandas.DataFrame({name: pandas.arrays.ArrowExtensionArray(table.column(name)) for name in table.column_names})


MAKERS: dict[str, Callable[[Any], Any]] = {
    "pyarrow": lambda table: table,
    "pandas": as_pandas,
    "polars": polars.from_arrow,
    "polars, lazy": lambda table: polars.from_arrow(table).lazy(),
    "chunks": lambda table: [table],
}


def without_unknown_types(maker: str, column: Any) -> Any:
    try:
        return MAKERS[maker](column)
    except BaseException as error:  # polars refuses some columns itself, which may be a panic of Rust
        pytest.skip(f"the library refuses it: {type(error).__name__}")


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_label_in_arrow_stops_a_release(kind: str, maker: str, capfd: pytest.CaptureFixture[str]) -> None:
    table = pyarrow.table({"x": [0.1, 0.2, 0.3], "label": arrow_column(kind)})
    capfd.readouterr()
    frame = without_unknown_types(maker, table)
    assert private_mean(frame, BALL, 1.0, unit="label", columns="x").n == 3
    known = {"by": "label", "groups": ["a", "1970-01-01 00:00:00"], "labels": "private", "columns": "x"}
    assert len(private_mean(frame, BALL, 1.0, **known)) == 2
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("date")])
def test_no_clock_time_in_arrow_stops_a_release(kind: str, maker: str) -> None:
    frame = without_unknown_types(maker, pyarrow.table({"at": arrow_column(kind)}))
    assert private_projected_mean(frame, Sphere(1), 1.0, layout="clock").n == 3


def test_labels_and_times_of_parquet_files_may_hold_anything(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for kind in KINDS:
        if kind == "date64":
            continue  # Parquet has no such type
        parquet.write_table(pyarrow.table({"x": [0.1, 0.2, 0.3], "label": arrow_column(kind)}), tmp_path / "x.parquet")
        assert private_mean(tmp_path / "x.parquet", BALL, 1.0, unit="label", columns="x").n == 3


def test_duckdb_is_read_cell_by_cell() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("SELECT 0.5 AS x, '294247-01-10'::DATE AS day UNION ALL SELECT 0.1, '2024-01-01'")
    assert private_mean(relation, BALL, 1.0, unit="day", columns="x").n == 2


def test_labels_that_are_texts_mean_the_same_in_every_container(tmp_path: Path) -> None:
    """Parquet made two characters of every one that is not ASCII."""
    names = ["Zürich", "Wien", "Zürich"]
    frame = pandas.DataFrame({"x": [0.1, 0.2, 0.3], "site": names})
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "x.csv", index=False)
    coded = np.char.encode(np.array(names), "utf-8")
    sources: list[tuple[Any, Any]] = [(tmp_path / "x.parquet", "site"), (tmp_path / "x.csv", "site"), (frame, "site")]
    for x, by in [*sources, (frame[["x"]].to_numpy(), coded), (frame[["x"]].to_numpy(), pyarrow.array(names))]:
        release = private_mean(x, BALL, 1.0, by=by, groups=["Zürich", "Wien"], columns=None if isinstance(x, np.ndarray) else "x")
        assert {name: each.n for name, each in release.items()} == {"Zürich": 2, "Wien": 1}


# ---------------------------------------------------------------------- byte strings


@pytest.mark.parametrize("container", ["array", "npy", "npz", "list"])
def test_no_byte_string_stops_a_release(container: str, tmp_path: Path) -> None:
    labels = np.array([b"a", b"b", b"\xff\x80"])
    x = np.array([[0.1], [0.2], [0.3]])
    if container in ("array", "list"):
        unit: Any = labels if container == "array" else labels.tolist()
        assert private_mean(x, BALL, 1.0, unit=unit).n == 3
        assert len(private_mean(x, BALL, 1.0, by=unit, groups=["a", "b"], labels="private")) == 2
        return
    times = np.array([[b"a", b"06:00"], [b"b", b"07:00"], [b"\xff\x80", b"\xff"]])
    path = tmp_path / f"x.{container}"
    np.save(path, times) if container == "npy" else np.savez(path, x=times)
    assert private_projected_mean(path, Sphere(1), 1.0, layout="clock", unit=0, columns=[1]).n == 3


# ---------------------------------------------------------------------- Excel

CELLS = {
    "no number": '<c r="A3"><v>abc</v></c>',
    "no text": '<c r="A3" t="s"><v>999999</v></c>',
    "a bad text": '<c r="A3" t="s"><v>x</v></c>',
    "no truth": '<c r="A3" t="b"><v>maybe</v></c>',
    "no date": '<c r="A3" t="d"><v>yesterday</v></c>',
    "no style": '<c r="A3" s="x"><v>1</v></c>',
    "no place": '<c r="3A"><v>1</v></c>',
    "another style": '<c r="A3" s="99999"><v>1</v></c>',
    "an error": '<c r="A3" t="e"><v>#DIV/0!</v></c>',
    "too long": f'<c r="A3"><v>{"9" * 5000}</v></c>',
    "empty": "",
}


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_of_excel_is_read_by_itself(cell: str, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["x", "who"], [0.25, "a"], [0.5, "b"], [0.75, "c"]):
        book.active.append(row)
    book.save(tmp_path / "whole.xlsx")
    with zipfile.ZipFile(tmp_path / "whole.xlsx") as stored, zipfile.ZipFile(tmp_path / "x.xlsx", "w") as odd:
        for name in stored.namelist():
            content = stored.read(name)
            if name.endswith("sheet1.xml"):
                content = re.sub(rb'<c r="A3"[^>]*>.*?</c>', CELLS[cell].encode(), content)
                assert content != stored.read(name)
            odd.writestr(name, content)
    points = Dataset(tmp_path / "x.xlsx", unit="who", columns="x").load(Euclidean(1))
    np.testing.assert_array_equal(points.x[[0, 2], 0], [0.25, 0.75])
    assert points.unit.tolist() == ["a", "b", "c"]


# ---------------------------------------------------------------------- an index


@pytest.mark.parametrize("option", ["unit", "by"])
def test_labels_with_an_index_find_their_records(option: str) -> None:
    """By position a person with many records took those of all others: a loss of 8.9 where 1 was claimed."""
    frame = pandas.concat(one_with_many(), ignore_index=True)
    labels = frame["who"] if option == "unit" else frame["site"]
    shuffled = frame.sample(frac=1.0, random_state=1)
    expected = private_mean(frame[["x"]], BALL, EXACT, **{option: labels.to_numpy()})
    if option == "by":
        means = frechet_means(shuffled[["x"]], BALL, by=labels)
        assert [means[name].point[0] for name in ("a", "b")] == [1.0, -1.0]
    for x, own in ((shuffled[["x"]], labels), (frame[["x"]], labels.sample(frac=1.0, random_state=2)), (shuffled["x"], labels)):
        found = private_mean(x, BALL, EXACT, **{option: own})
        if option == "unit":
            np.testing.assert_allclose(found.value, expected.value, atol=1e-4)
        else:
            assert [each.value[0] for each in found.values()] == pytest.approx([1.0, -1.0], abs=1e-4)


def test_labels_whose_index_does_not_lead_to_them_are_refused() -> None:
    frame = pandas.DataFrame({"x": [0.1, 0.2, 0.3], "who": ["a", "b", "c"]})
    twice = pandas.DataFrame(frame, index=[0, 1, 2]).set_axis([0, 0, 1])
    refused: list[tuple[Any, Any]] = [
        (twice[["x"]], twice["who"]),
        (frame[["x"]], frame["who"].set_axis([5, 6, 7])),
        (frame[["x"]].to_numpy(), frame["who"].set_axis([2, 1, 0])),
        ([frame[["x"]]], frame["who"].sample(frac=1.0, random_state=1)),
    ]
    for x, unit in refused:
        with pytest.raises(ValueError, match=r"^unit has an index that does not lead from each record to one label: .*to_numpy"):
            private_mean(x, BALL, 1.0, unit=unit)
    assert private_mean(frame[["x"]].to_numpy(), BALL, 1.0, unit=frame["who"]).n == 3
    assert private_mean(frame[["x"]].to_numpy(), BALL, 1.0, unit=polars.Series(["a", "b", "b"])).n == 2


def test_labels_may_be_levels_of_an_index_or_coordinates() -> None:
    frame = pandas.DataFrame({"x": [0.1, 0.2, 0.3], "who": ["a", "b", "b"], "site": ["n", "n", "s"]})
    assert private_mean(frame.set_index(["who", "site"]), BALL, 9.0, unit="who").n == 2
    by = private_mean(frame.set_index(["who", "site"]), BALL, 9.0, by="site")
    assert {name: each.n for name, each in by.items()} == {"n": 2, "s": 1}
    mixed = private_mean(frame.set_index("site"), BALL, 9.0, unit="who", by="site", unit_in="all groups", columns="x")
    assert {name: each.n for name, each in mixed.items()} == {"n": 2, "s": 1}
    assert private_mean(frame.drop(columns="site").set_index("who"), BALL, 9.0, unit="who").n == 2
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(
        np.array([[0.1], [0.2], [0.3]]), dims=("scan", "axis"), coords={"who": ("scan", ["a", "b", "b"]), "scan": [7, 8, 9]}
    )
    assert private_mean(array, BALL, 9.0, unit="who").n == 2
    shuffled = array.isel(scan=[2, 0, 1])
    found = private_mean(shuffled, BALL, EXACT, unit=array["who"])
    np.testing.assert_allclose(found.value, [(0.1 + 0.25) / 2], atol=1e-4)
    with pytest.raises(ValueError, match="whose columns have no names"):
        private_mean(array, BALL, EXACT, unit="patient")


# ---------------------------------------------------------------------- names of groups


FORGED = "east\n  privacy     epsilon 0.001"


@pytest.mark.parametrize(
    "name",
    [FORGED, "\x1b[2J", "a\u202eb", 10**5000, float("inf"), b"\xff", "\ud800"],
    ids=["line break", "escape", "direction", "long", "infinite", "bytes", "surrogate"],
)
@pytest.mark.parametrize("public", [True, False])
def test_names_of_groups_are_one_printable_line_or_refused_before_the_charge(name: Any, public: bool, tmp_path: Path) -> None:
    book = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    book.open("d", 10)
    who: dict[str, Any] = {"by": [name, "b"] if isinstance(name, str) else [name, 1]}
    if not public:
        who |= {"groups": who["by"], "labels": "private"}
    with pytest.raises(ValueError, match="the name of a group must be one printable line"):
        private_mean(np.zeros((2, 1)), BALL, 1.0, ledger=book, dataset="d", **who)
    assert not book.spent("d")


@pytest.mark.parametrize(
    "labels",
    [
        [uuid.UUID(int=1), uuid.UUID(int=2)],
        [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
        np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]"),
        np.array([b"a", b"b"]),
        np.array([1, 2], dtype=np.int8),
        np.array([1.5, 2.5], dtype=np.float32),
        [True, False],
    ],
    ids=lambda labels: type(labels[0]).__name__,
)
def test_names_that_are_refused_by_nobody_are_in_the_receipt(labels: Any) -> None:
    release = private_mean(np.zeros((2, 1)), BALL, 1.0, by=labels, anyway=True)
    again = GroupedRelease.from_json(release.to_json())
    assert list(again) == list(release)
    json.loads(release.to_json())


def test_public_labels_of_two_kinds_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="some labels in by are texts and others are numbers"):
        private_mean(np.zeros((4, 1)), BALL, 1.0, by=[1, "b", 1, "b"])
    assert len(private_mean(np.zeros((4, 1)), BALL, 9.0, by=[1, "b", 1, "b"], groups=[1, "b"])) == 2


# ---------------------------------------------------------------------- persons in several groups

#: Ten persons, each with two records in each of four regions.
OVERLAP: dict[str, Any] = {"unit": np.repeat(np.arange(10), 8), "by": np.tile(np.repeat(list("wxyz"), 2), 10)}
SPREAD = np.linspace(-0.9, 0.9, 80)[:, None]


def test_persons_in_several_groups_are_refused_and_offered_the_right_way() -> None:
    with pytest.raises(ValueError, match=r"unit_in='all groups' \(--unit-in\), which divides the privacy over the groups$"):
        private_mean(SPREAD, BALL, 1.0, **OVERLAP)
    with pytest.raises(ValueError, match="unit_in must be 'one group' or 'all groups' but is 'some'"):
        private_mean(SPREAD, BALL, 1.0, **OVERLAP, unit_in="some")
    with pytest.raises(ValueError, match="unit_in says how many groups a person may be in: give unit and by too"):
        private_mean(SPREAD, BALL, 1.0, by=OVERLAP["by"], unit_in="all groups")


@pytest.mark.parametrize("labels", ["public", "private"])
@pytest.mark.parametrize(
    "privacy",
    [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.5}, {"mu": 1.0}],
    ids=lambda privacy: "-".join(privacy),
)
def test_the_privacy_is_divided_over_the_groups_of_a_person(privacy: dict[str, float], labels: Any, tmp_path: Path) -> None:
    book = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    book.open("d", **privacy, neighbours="replace one person")
    who = OVERLAP | {"unit_in": "all groups", "labels": labels, "groups": list("wxyz")}
    release = private_mean(SPREAD, BALL, **privacy, **who, ledger=book, dataset="d")
    for each in release.values():
        parts = each.privacy.parameters()
        shares = {"epsilon": 0.25, "delta": 0.25, "rho": 0.25, "mu": 0.5}
        assert {name: value for name, value in parts.items() if value} == {
            name: pytest.approx(value * shares[name]) for name, value in privacy.items()
        }
        assert each.n == 10 or labels == "private"
    assert release.cost.meets(release.privacy)
    assert not release.cost.meets(next(iter(release.values())).privacy)
    assert release.neighbours == ("replace one person, who keeps their group" if labels == "public" else "replace one person")
    assert "a person may be in every group, so each has 1/4 of the privacy" in str(release)
    again = GroupedRelease.from_json(release.to_json())
    assert str(again) == str(release)
    stored = json.loads(release.to_json())
    stored["request"]["divided"] = 2
    with pytest.raises(ValueError, match="this is not the JSON text of"):
        GroupedRelease.from_json(json.dumps(stored))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("kind", ["array", "stream", "dask"])
def test_in_each_group_a_person_has_the_records_of_that_group(kind: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle is a release of the records of each group by themselves."""
    if not kept:
        monkeypatch.setattr("geodp.records.rows._KEPT_BYTES", 0)
    x: Any = SPREAD
    if kind == "stream":
        x = lambda: iter([SPREAD[:30], SPREAD[30:33], SPREAD[33:]])  # noqa: E731 - a reader
    if kind == "dask":
        x = pytest.importorskip("dask.array").from_array(SPREAD, chunks=(13, 1))
    release = private_mean(x, BALL, 4 * EXACT, **OVERLAP, unit_in="all groups")
    for name, each in release.items():
        inside = OVERLAP["by"] == name
        alone = private_mean(SPREAD[inside], BALL, EXACT, unit=OVERLAP["unit"][inside])
        assert (each.n, each.privacy.parameters()["epsilon"]) == (10, pytest.approx(EXACT))
        np.testing.assert_allclose(each.value, alone.value, atol=1e-6)


def test_private_labels_say_which_group_a_person_is_in() -> None:
    who = OVERLAP | {"labels": "private", "groups": list("wxyz")}
    assert "a person counts in the group of their first record" in str(private_mean(SPREAD, BALL, 1.0, **who))
    assert "first record" not in str(private_mean(SPREAD, BALL, 1.0, by=OVERLAP["by"], labels="private", groups=list("wxyz")))


# ---------------------------------------------------------------------- directories and images


def test_directories_are_read_like_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pandas.DataFrame({"x": np.linspace(-0.9, 0.9, 30), "who": np.arange(30) // 3, "site": np.repeat(["a", "b", "a"], 10)})
    for kind in ("csv", "parquet"):
        (tmp_path / kind).mkdir()
        for i in range(3):
            part = frame[10 * i : 10 * i + 10]
            name = tmp_path / kind / f"{i}.{kind}"
            part.to_csv(name, index=False) if kind == "csv" else part.to_parquet(name, index=False)
    how: dict[str, Any] = {"unit": "who", "columns": "x"}
    expected = private_mean(frame, BALL, EXACT, **how).value
    from typer.testing import CliRunner

    from geodp.cli import app

    for kept in (1 << 29, 0):
        for limit in ("sources", "rows"):
            monkeypatch.setattr(f"geodp.records.{limit}._KEPT_BYTES", kept)
        for kind in ("csv", "parquet"):
            source = tmp_path / kind
            np.testing.assert_allclose(private_mean(source, BALL, EXACT, **how).value, expected, atol=1e-6)
            np.testing.assert_allclose(private_mean(sorted(source.iterdir()), BALL, EXACT, **how).value, expected, atol=1e-6)
            dask_files = pytest.importorskip("geodp.records.dask_files")
            lazily = dask_files.read_dask(source, Euclidean(1), columns="x")
            np.testing.assert_allclose(private_mean(lazily, BALL, EXACT, unit="who").value, expected, atol=1e-6)
            options = ["-m", "Euclidean(1)", "-r", "1", "-e", "1", "--unit", "who", "--columns", "x", "--json"]
            run = CliRunner().invoke(app, ["mean", str(source), *options])
            assert run.exit_code == 0, run.output
            assert json.loads(run.stdout)["n"] == 10


@pytest.fixture
def images(tmp_path: Path) -> tuple[list[Path], Path, np.ndarray]:
    """Three images of diffusion tensors, and an atlas of two regions."""
    nibabel = pytest.importorskip("nibabel")
    rng = np.random.default_rng(0)
    paths, voxels = [], np.exp(rng.normal(0.0, 0.2, (3, 4, 5, 2, 6)))
    voxels[..., [1, 3, 4]] = 0.1 * rng.normal(size=(3, 4, 5, 2, 3))
    (tmp_path / "images").mkdir()
    for i in range(3):
        image = nibabel.Nifti1Image(voxels[i][..., None, :], np.eye(4))
        image.header.set_intent("symmetric matrix", (3,))
        paths.append(tmp_path / "images" / f"{i}.nii.gz")
        nibabel.save(image, paths[-1])
    atlas = np.zeros((4, 5, 2))
    atlas[:2], atlas[2, :3] = 1.0, 7.0
    nibabel.save(nibabel.Nifti1Image(atlas, np.eye(4)), tmp_path / "atlas.nii.gz")
    return paths, tmp_path / "atlas.nii.gz", voxels


def test_regions_of_images_are_groups_and_subjects_are_persons(
    images: tuple[list[Path], Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    from geodp import SPD, frechet_mean

    paths, atlas, voxels = images
    ball = Ball(SPD(3), np.eye(3), 2.0)
    lower = np.zeros((3, 4, 5, 2, 3, 3))
    rows, columns = np.tril_indices(3)
    lower[..., rows, columns] = lower[..., columns, rows] = voxels
    in_region = lower[:, :2].reshape(3, -1, 3, 3)
    expected = frechet_mean(np.stack([frechet_mean(each, ball).point for each in in_region]), ball).point
    who: dict[str, Any] = {"atlas": atlas, "unit_in": "all groups"}
    nibabel = pytest.importorskip("nibabel")
    for kept in (1 << 29, 0):
        for limit in ("sources", "rows"):
            monkeypatch.setattr(f"geodp.records.{limit}._KEPT_BYTES", kept)
        for x in (paths, list(map(str, paths)), paths[0].parent, [nibabel.load(path) for path in paths]):
            release = private_mean(x, ball, EXACT, **who)
            assert {name: (each.n, each.unit) for name, each in release.items()} == {1: (3, "person"), 7: (3, "person")}
            np.testing.assert_allclose(release[1].value, expected, atol=1e-6)
            assert private_mean(x, ball, 1.0, anyway=True).n == 3
    with pytest.raises(ValueError, match="unit_in='all groups'"):
        private_mean(paths, ball, 1.0, atlas=atlas)


def test_the_voxels_of_one_image_are_records_of_one_person(images: tuple[list[Path], Path, np.ndarray]) -> None:
    from geodp import SPD

    with pytest.warns(UserWarning, match="the records of one image are voxels of one person"):
        assert private_mean(images[0][0], Ball(SPD(3), np.eye(3), 2.0), 1.0).n == 40
