"""One record, changed in every way it can be, in every kind of source: nothing that others can see may depend on it.

A case is a source (how thirty records and their labels are held), a place (a coordinate, a clock time, the person or the group of
one record), and what is put there. The source is made twice, with and without it. What must hold: there is a release both times,
it costs the same, what a receipt says besides what the noise covers is the same, a reader is called as often, and nothing is
printed, warned or logged.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import math
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import numpy as np

from geodp import Ball, Euclidean, Sphere, private_coverage, private_mean, private_projected_mean, private_variance

COUNT = 30
BALL = Ball(Euclidean(2), [0.0, 0.0], 1.0)

NUMBERS = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1e-310, 1.7976931348623157e308, -1e300, 1e17, 0.1 + 2**-50]
TEXTS = [
    b"", b" ", b"abc", b"\xff", b"a\xffb", b"\x80\x81", b"1,5", b"1;5", b"1\t5", b'"', b'"a', b"a'b", b"nan", b"inf", b"1e999",
    b"0x10", b"1_000", b"9" * 400, b"9" * 5000, b"06:00", b"24:00", b"25:61", b"2024-05-01T06:00Z", b"\xef\xbb\xbf1",
    b"\xd9\xa3", b"NULL", b"None", b"<NA>", b"#DIV/0!", b"=1/0", b"[1, 2]", b"{}", b"true", b"\x00", b"\x1b[2J", b"a" * 10_000,
    b"p1",
]  # fmt: skip


class Angry:
    """An object of which every method fails with a text that quotes it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("8675309")

    def _fail(self, *_: Any) -> Any:
        raise RuntimeError("8675309")

    __float__ = __int__ = __str__ = __repr__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __index__ = _fail


OBJECTS: list[Any] = [
    None, "", "abc", "\ud800", "\udcff", "1.5", b"\xff", b"p1", True, False, 10**400, -(10**5000), 1j, [], [1.0], [1.0, 2.0], {},
    {"a": 1}, {1, 2}, object(), Angry(), Decimal("1e999999"), Decimal("NaN"), Decimal("sNaN"), Decimal("7.00"), UUID(int=7),
    float("nan"), float("inf"), np.float32(2.5), np.int8(7), np.datetime64("NaT"), np.datetime64("30000-01-01"),
    np.timedelta64(1, "s"), datetime.date(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59), datetime.time(6),
    datetime.timedelta(days=999999999), np.zeros(3), np.array("p1"), range(3), "a" * 10_000, "\x1b[2J", "06:00", int,
    lambda: 1 / 0,
]  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Thirty records as columns: coordinates ``a`` and ``b``, a clock time, a person and a group, each a list of cells."""

    a: list[Any]
    b: list[Any]
    at: list[Any]
    who: list[Any]
    site: list[Any]


def rows_of(place: str, row: int, cell: Any, kind: str, lines: bool) -> tuple[Rows, Rows]:
    """The same records without and with the odd cell. In ``lines`` one cell may take the whole record with it, person and all."""
    rng = np.random.default_rng(row)
    texts = kind == "texts"

    def written(values: list[Any]) -> list[Any]:
        return [str(value).encode() for value in values] if texts else values

    columns: dict[str, list[Any]] = {
        "a": written(rng.uniform(-0.5, 0.5, COUNT).tolist()),
        "b": written(rng.uniform(-0.5, 0.5, COUNT).tolist()),
        "at": written([f"{hour % 24:02}:30" for hour in range(COUNT)]),
        # persons of three records and, from the nineteenth record on, of one: a person with one more would change others
        "who": written([f"p{i}" if i >= 18 else f"q{i // 3}" for i in range(COUNT)]),
        "site": written([["north", "south"][i % 2] for i in range(COUNT)]),
    }
    changed = {name: list(cells) for name, cells in columns.items()}
    changed[place][row if place != "who" and not lines else 18 + row % 12] = cell
    return Rows(**columns), Rows(**changed)


# ---------------------------------------------------------------------- sources


class Reader:
    """A function that returns chunks, and counts how often it is called."""

    def __init__(self, chunks: Callable[[], list[Any]]) -> None:
        self.chunks, self.reads = chunks, 0

    def __call__(self) -> Iterator[Any]:
        self.reads += 1
        return iter(self.chunks())


def decoded(cells: list[Any]) -> list[Any]:
    return [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in cells]


def arrow_text(cells: list[bytes], kind: Any) -> Any:
    """A column of texts, of which some may be no UTF-8."""
    import pyarrow

    return pyarrow.array(cells, pyarrow.large_binary() if kind == pyarrow.large_string() else pyarrow.binary()).view(kind)


def arrow_table(rows: Rows, kind: str = "string") -> Any:
    import pyarrow

    made = getattr(pyarrow, kind)()
    return pyarrow.table({name: arrow_text(cells, made) for name, cells in vars(rows).items()})


def arrow_dictionaries(rows: Rows) -> Any:
    import pyarrow

    places = pyarrow.array(range(COUNT), pyarrow.int32())
    texts = {name: arrow_text(cells, pyarrow.string()) for name, cells in vars(rows).items()}
    return pyarrow.table({name: pyarrow.DictionaryArray.from_arrays(places, column) for name, column in texts.items()})


def pandas_of(table: Any) -> Any:
    import pandas

    return pandas.DataFrame({name: pandas.arrays.ArrowExtensionArray(table.column(name)) for name in table.column_names})


def pandas_objects(rows: Rows) -> Any:
    import pandas

    columns = {}
    for name, cells in vars(rows).items():
        column = np.empty(COUNT, dtype=object)
        for i, cell in enumerate(cells):
            column[i] = cell
        columns[name] = pandas.Series(column, dtype=object)
    return pandas.DataFrame(columns)


def polars_of(rows: Rows) -> Any:
    import polars

    return polars.DataFrame({name: polars.Series(decoded(cells), dtype=polars.String) for name, cells in vars(rows).items()})


def delimited(rows: Rows, suffix: str) -> Path:
    mark = b"\t" if "tsv" in suffix else b","
    lines = [mark.join(name.encode() for name in vars(rows))]
    for cells in zip(*vars(rows).values(), strict=True):
        # a line break in a cell would be another record
        lines.append(mark.join(cell.replace(b"\n", b" ").replace(b"\r", b" ") for cell in cells))
    path = Path(f"x{suffix}")
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def directory(rows: Rows) -> Path:
    whole = delimited(rows, ".csv").read_bytes().split(b"\n")
    folder = Path("parts")
    folder.mkdir(exist_ok=True)
    for i in range(3):
        (folder / f"{i}.csv").write_bytes(b"\n".join([whole[0], *whole[1 + 10 * i : 11 + 10 * i]]) + b"\n")
    return folder


def json_lines(rows: Rows) -> Path:
    def line(cells: tuple[Any, ...]) -> bytes:
        try:
            return json.dumps(dict(zip(vars(rows), cells, strict=True))).encode()
        except Exception:  # what is no JSON stands there as it is
            return b'{"a": ' + repr(type(cells[0])).encode()

    path = Path("x.jsonl")
    path.write_bytes(b"\n".join(map(line, zip(*vars(rows).values(), strict=True))) + b"\n")
    return path


def excel(rows: Rows) -> Path:
    """Texts are put into the cells as they are, without looking at what Excel would make of them."""
    import openpyxl

    stream = io.BytesIO()
    book = openpyxl.Workbook()
    book.active.append(list(vars(rows)))
    for _ in range(COUNT):
        book.active.append([1.0] * 5)
    book.save(stream)
    path = Path("x.xlsx")
    with zipfile.ZipFile(stream) as stored, zipfile.ZipFile(path, "w") as odd:
        for name in stored.namelist():
            content = stored.read(name)
            if name.endswith("sheet1.xml"):
                for i, cells in enumerate(zip(*vars(rows).values(), strict=True)):
                    for letter, cell in zip("ABCDE", cells, strict=True):
                        text = "".join(c for c in cell.decode("latin-1") if c.isprintable())[:1000]
                        text = text.replace("&", "&amp;").replace("<", "&lt;")
                        kind = "" if letter in "AB" else ' t="str"'
                        old = f'<c r="{letter}{i + 2}" t="n"><v>1</v></c>'.encode()
                        assert old in content
                        content = content.replace(old, f'<c r="{letter}{i + 2}"{kind}><v>{text}</v></c>'.encode())
            odd.writestr(name, content)
    return path


def parquet(rows: Rows) -> Path:
    import pyarrow
    import pyarrow.parquet

    table = arrow_table(rows)
    # texts are no numbers in Parquet
    numbers = {name: [_number(cell) for cell in getattr(rows, name)] for name in ("a", "b")}
    for i, name in enumerate(("a", "b")):
        table = table.set_column(i, name, pyarrow.array(numbers[name]))
    pyarrow.parquet.write_table(table, "x.parquet")
    return Path("x.parquet")


def _number(cell: bytes) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def points(rows: Rows, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return np.array([rows.a, rows.b], dtype=np.float64).T.astype(dtype)


def labels(cells: list[Any], dtype: Any = object) -> np.ndarray[Any, Any]:
    out = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        out[i] = cell
    return out if dtype is object else np.array(decoded(cells) if dtype == "U" else cells, dtype=dtype)


def mapped(rows: Rows) -> Any:
    np.save("mapped.npy", points(rows))
    return np.load("mapped.npy", mmap_mode="r")


def dask_array(rows: Rows) -> Any:
    import dask.array

    return dask.array.from_array(points(rows), chunks=(11, 2))


def xarray_of(rows: Rows) -> Any:
    import xarray

    return xarray.DataArray(points(rows), dims=("n", "axis"))


def image(rows: Rows) -> Any:
    import nibabel

    return nibabel.Nifti1Image(points(rows, np.float64).reshape(COUNT, 1, 1, 2), np.eye(4))


#: For each source: what its cells may hold, and how it is made. Those of numbers have their labels beside them.
TABLES: dict[str, tuple[str, Callable[[Rows], Any]]] = {
    "pyarrow": ("texts", arrow_table),
    "pyarrow, large": ("texts", lambda rows: arrow_table(rows, "large_string")),
    "pyarrow, dictionaries": ("texts", arrow_dictionaries),
    "pandas on Arrow": ("texts", lambda rows: pandas_of(arrow_table(rows))),
    "pandas categories": ("texts", lambda rows: pandas_objects(Rows(*map(decoded, vars(rows).values()))).astype("category")),
    "pandas objects": ("objects", pandas_objects),
    "polars": ("texts", polars_of),
    "polars, lazy": ("texts", lambda rows: polars_of(rows).lazy()),
    "csv": ("texts", lambda rows: delimited(rows, ".csv")),
    "tsv": ("texts", lambda rows: delimited(rows, ".tsv")),
    "directory": ("texts", directory),
    "jsonl": ("objects", json_lines),
    "xlsx": ("texts", excel),
    "parquet": ("texts", parquet),
    "reader of frames": ("texts", lambda rows: Reader(lambda: [polars_of(rows)[:13], polars_of(rows)[13:]])),
    "reader of Arrow": ("texts", lambda rows: Reader(lambda: [arrow_table(rows)[:20], arrow_table(rows)[20:]])),
    "chunks of pandas": ("objects", lambda rows: [pandas_objects(rows)[:7], pandas_objects(rows)[7:]]),
}
LINES = ("csv", "tsv", "directory", "jsonl")
ARRAYS: dict[str, Callable[[Rows], Any]] = {
    "float64": points,
    "float32": lambda rows: points(rows, np.float32),
    "float16": lambda rows: points(rows, np.float16),
    "longdouble": lambda rows: points(rows, np.longdouble),
    "swapped": lambda rows: points(rows, ">f8"),
    "nested lists": lambda rows: points(rows).tolist(),
    "chunks": lambda rows: [points(rows)[:5], points(rows)[5:]],
    "reader": lambda rows: Reader(lambda: [points(rows)[:5], points(rows)[5:]]),
    "memory map": mapped,
    "Dask": dask_array,
    "xarray": xarray_of,
    "image": image,
}
LABELS: dict[str, tuple[str, Callable[[list[Any]], Any]]] = {
    "objects": ("objects", labels),
    "list": ("objects", lambda cells: list(cells)),
    "text array": ("texts", lambda cells: labels(cells, "U")),
    "byte array": ("texts", lambda cells: labels(cells, "S")),
    "Arrow": ("texts", lambda cells: __import__("pyarrow").array(cells, __import__("pyarrow").binary()).view("string")),
    "pandas": ("objects", lambda cells: __import__("pandas").Series(labels(cells), dtype=object)),
    "polars": ("texts", lambda cells: __import__("polars").Series(decoded(cells))),
    "Dask": ("objects", lambda cells: __import__("dask.array").array.from_array(labels(cells), chunks=9)),
    "reader": ("objects", lambda cells: lambda: iter([labels(cells[:12]), labels(cells[12:])])),
}


@dataclass(frozen=True)
class OneRecord:
    source: str
    beside: str
    place: str
    row: int
    odd: int
    question: str

    @property
    def kind(self) -> str:
        """What the cell that is changed may hold."""
        if self.source in TABLES:
            return TABLES[self.source][0]
        return "numbers" if self.place in ("a", "b", "at") else LABELS[self.beside][0]

    @property
    def cell(self) -> Any:
        cells = {"numbers": NUMBERS, "texts": TEXTS, "objects": OBJECTS}[self.kind]
        return cells[self.odd % len(cells)]


one_record = st.builds(
    OneRecord,
    st.sampled_from([*TABLES, *ARRAYS]),
    st.sampled_from([*LABELS]),
    st.sampled_from(["a", "b", "at", "who", "site"]),
    st.integers(0, COUNT - 1),
    st.integers(0, 999),
    st.sampled_from(["plain", "persons", "groups", "groups of persons", "numbers", "coverage", "variance", "clock"]),
)


def asked(case: OneRecord, rows: Rows) -> tuple[Any, Callable[[], Any]]:
    """The source, and the release of it."""
    table = case.source in TABLES
    x = TABLES[case.source][1](rows) if table else ARRAYS[case.source](rows)
    beside = LABELS[case.beside][1]
    how: dict[str, Any] = {"columns": "a, b", "layout": "coordinates"} if table else {}
    unit = "who" if table else beside(rows.who)
    by = "site" if table else beside(rows.site)
    grouped = {"by": by, "groups": ["north", "south"], "labels": "private"}
    rng = np.random.default_rng(1)
    match case.question:
        case "clock" if table:
            return x, lambda: private_projected_mean(x, Sphere(1), 5.0, columns="at", layout="clock", simulate=rng)
        case "persons":
            return x, lambda: private_mean(x, BALL, 5.0, unit=unit, simulate=rng, **how)
        case "coverage":
            return x, lambda: private_coverage(x, BALL, 5.0, unit=unit, simulate=rng, **how)
        case "variance":
            return x, lambda: private_variance(x, BALL, 5.0, simulate=rng, about="mean", **how)
        case "groups":
            return x, lambda: private_mean(x, BALL, 5.0, simulate=rng, **grouped, **how)
        case "groups of persons":
            return x, lambda: private_mean(x, BALL, 5.0, unit=unit, unit_in="all groups", simulate=rng, **grouped, **how)
        case "numbers":
            return x, lambda: private_mean(x, BALL, 5.0, unit=unit, neighbours="add-remove", simulate=rng, **how)
    return x, lambda: private_mean(x, BALL, 5.0, simulate=rng, **how)


def seen(case: OneRecord, rows: Rows) -> dict[str, Any]:
    """All that others can see of a release besides what the noise covers."""
    out, err = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        warnings.simplefilter("always")
        x, release = asked(case, rows)
        warned.clear()  # those of the libraries that make the source
        found = json.loads(release().to_json())
    told = [str(each.message) for each in warned if "voxels of one person" not in str(each.message)]
    groups = [(each["name"], _public(each["release"])) for each in found.get("groups", [])]
    return _public(found) | {"groups": groups, "reads": getattr(x, "reads", 0), "said": (told, out.getvalue(), err.getvalue())}


def _public(receipt: dict[str, Any]) -> dict[str, Any]:
    """A receipt without the value, and without what follows from a noisy count."""
    same = ["geodp", "summary", "private", "epsilon", "notion", "neighbours", "unit", "unit_in", "dataset", "charge", "manifold"]
    if receipt.get("count") is None and "groups" not in receipt:
        same += ["n", "scale", "mechanism", "sensitivity", "cost", "center", "radius", "tolerance", "columns"]
    return {name: receipt.get(name) for name in same if name in receipt}


def check_one_record(case: OneRecord) -> None:
    """Both releases succeed, and look the same."""
    rows = rows_of(case.place, case.row, case.cell, case.kind, case.source in LINES)
    try:
        before, after = (seen(case, each) for each in rows)
    except Exception as error:
        raise AssertionError(f"{case}: {type(error).__name__}: {error}") from error
    other = {name: (value, after.get(name)) for name, value in before.items() if repr(value) != repr(after.get(name))}
    assert not other, f"{case}: {other}"
