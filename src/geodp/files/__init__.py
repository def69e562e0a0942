"""Reads records, centres and manifolds from files and from text.

Files are ``.npy``, ``.npz`` (one array, or one named ``x`` or ``records``), ``.csv`` (comma, semicolon, tab or blanks, with
a header unless you say that there is none) and ``.parquet`` (one column a coordinate, or lists; ``pip install
'geodp[parquet]'``). The number of columns and the header decide how a row is read. A layout marked * is used only if you
name it.

{layouts}

Arrays may also have the shape ``(n, *point_shape)``, such as ``(n, 3, 3)`` for SPD(3). Latitude and longitude become
``(cos lat cos lon, cos lat sin lon, sin lat)``, so that the north pole is the origin. Angles and clock times run like a
clock face of 24 hours or a compass, ``(sin a, cos a)``: midnight is the origin (0, 1), and 06:00 is (1, 0). Headers such
as ``Dxx, Dyy, Dzz, Dxy, ...`` or ``r11, r21, ...`` give the order of matrix entries. If a header has some names of a
layout but not all, the file is refused. If it has none, the numbers are read in their order.

Records are private, and one record is one line (or row). A bad cell never raises an error and is never quoted. A record
becomes invalid, which means all NaN, if a cell is missing or not a number, if its line has too few or too many cells, or
if its row is not a composition or spans no subspace. A release maps invalid records to the centre.

The contents of the records never decide how they are read, not even by majority: replacing one record could tip the
vote and so change all the others. Only the caller decides, and the following things, which are **public**:

- of every file: its name, its format and the number of its records. In a ``.csv`` every line after the header is a record,
  also a blank one. A trailing newline does not add a record;
- of a ``.csv``: its encoding (UTF-16 if it has a header and begins with a byte order mark, else UTF-8) and its first line, which
  is the header unless ``header=False`` says that it is a record. The header names the columns. The separator in the header
  (semicolons, else tabs, else commas, else blanks) is the separator in all lines. If the first line does not hold only names,
  the file is refused until ``header`` is given;
- of a ``.csv`` without a header: nothing more. Each line then shows its own separator. The layout says how many cells a line
  has; name it if the layouts of the manifold have different numbers of columns. If you give ``columns``, the other cells of a
  line and their number do not matter;
- of ``.npy``, ``.npz`` and Zarr arrays: the shape and the type. The type says whether they hold numbers or clock times;
- of ``.parquet``: the names and types of the columns. The lengths of lists are public if the type fixes them. If not, the
  lists must have the length of the layout, which you name as above, and their column must be the only one.

Types are public, so they must not depend on the records. Some programs make a whole column text because one cell is not a
number, or make an array of objects because one cell is missing; the type then reveals that cell. Set the types when you
write the file.

If semicolons separate the cells of a line, a comma is a decimal point. The file of a centre is public, so its contents do
decide whether it has a header, whether it holds clock times and how long its lists are.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from geodp.files.arrays import ArrayTable, float64, open_array
from geodp.files.cells import CLOCK, seconds
from geodp.files.images import open_image
from geodp.files.layout import PICK, choose, layout_table, layouts, to_points
from geodp.files.lines import open_csv
from geodp.files.messages import FileError, cut, excerpt
from geodp.files.naming import expression, literal, parse_manifold
from geodp.files.options import ReadOptions
from geodp.files.parquet import open_parquet
from geodp.files.rows import JsonTable, SheetTable
from geodp.files.table import Table
from geodp.inputs import Array, is_line
from geodp.manifolds import Layout, Manifold
from geodp.manifolds.notation import Notation
from geodp.manifolds.registry import own, registered

__all__ = ["LAYOUTS", "FileError", "Layout", "layouts", "parse_center", "parse_manifold", "read_records"]

#: The table of layouts, for help texts.
LAYOUTS: str


def __getattr__(name: str) -> str:
    if name == "LAYOUTS":  # made on demand, because other packages may add layouts
        return layout_table(registered())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__doc__ = (__doc__ or "").replace("{layouts}", layout_table(own()))

_OPENERS: dict[str, Callable[[Path, ReadOptions], Table]] = {
    ".npy": open_array,
    ".npz": open_array,
    ".csv": open_csv,
    ".csv.gz": open_csv,
    ".tsv": open_csv,
    ".tsv.gz": open_csv,
    ".parquet": open_parquet,
    ".jsonl": JsonTable,
    ".jsonl.gz": JsonTable,
    ".xlsx": SheetTable,
    ".nii": open_image,
    ".nii.gz": open_image,
}

_AS_FRAME = "read it with another program and save it as CSV or Parquet, or read it in Python and give the data frame"
#: Advice for files that are not supported.
_ADVICE = {
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar", ".bz2", ".xz", ".zst", ".gz"), "unpack it first"),
    **dict.fromkeys((".xls", ".xlsm", ".xlsb", ".ods", ".numbers"), "save it as CSV or as .xlsx"),
    **dict.fromkeys((".txt", ".dat", ".tab"), "if its lines are records, call it .csv, or .tsv if tabs separate the cells"),
    ".json": "write one record a line and call it .jsonl, such as with DataFrame.to_json(path, orient='records', lines=True)",
    ".ndjson": "its lines are records of JSON: call it .jsonl",
    ".pq": "call it .parquet",
    **dict.fromkeys((".feather", ".arrow", ".h5", ".hdf5", ".mat", ".rds", ".rdata", ".sav", ".dta", ".sas7bdat"), _AS_FRAME),
    **dict.fromkeys((".pkl", ".pickle"), "opening a pickle can run any code: save the records as .npy or .parquet"),
}


def is_readable(name: str | os.PathLike[str]) -> bool:
    """Whether this is the name of a file of records."""
    return _ending(Path(name)) in _OPENERS


def _ending(path: Path) -> str:
    last = path.suffix.lower()
    return f"{path.with_suffix('').suffix.lower()}{last}" if last == ".gz" else last


def _open(path: Path, options: ReadOptions) -> Table:
    opener = _OPENERS.get(_ending(path))
    if opener is None:
        advice = _ADVICE.get(path.suffix.lower())
        # not quoted: a text that does not name a file may be a record
        known = f"a file of records must be a {', '.join(_OPENERS)} file, and its name must say so"
        raise FileError(f"geodp cannot read {path} as it is: {advice}" if advice else known)
    if opener is not open_image:
        options.refuse_masks(path)
    if not path.is_file():
        raise FileError(f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}")
    if path.stat().st_size == 0 and opener not in (open_csv, JsonTable):  # no lines are no records
        raise FileError(f"{path} is empty, which no file of its kind is: write it again")
    return opener(path, options)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None
    except (ValueError, EOFError, zlib.error) as error:  # the message may quote a cell, so only its kind is shown
        raise FileError(f"{path} cannot be read: {type(error).__name__}") from None


def read_records(
    path: str | os.PathLike[str],
    manifold: Manifold,
    *,
    columns: Sequence[str | int] | str | None = None,
    layout: str = "auto",
    header: bool | None = None,
    mask: str | os.PathLike[str] | None = None,
) -> Array:
    """The records in a file, as float64 of shape ``(n, *point_shape)``; see the table above for the layouts.

    ``columns`` chooses columns by name, or by position from 0, as a list or a text such as ``"lat, lon"``. ``header`` says
    whether the first line of a ``.csv`` file is a header; it is not needed if that line holds only names. Records that are
    not points are kept; those that cannot be read at all are full of NaN. A float64 ``.npy`` array that holds the
    points as they are stays on disk, mapped read-only. ``mask`` is a second, public image: a voxel is a record where the mask
    is above zero. Every :class:`FileError` quotes only public things: names, shapes, types.

    >>> from geodp import Sphere
    >>> read_records("arrivals.csv", Sphere(1))
    Traceback (most recent call last):
        ...
    geodp.files.FileError: there is no file arrivals.csv
    """
    options = ReadOptions.of(manifold, columns=columns, layout=layout, header=header, mask=mask)
    return read_file(path, options).x


@final
@dataclass(frozen=True)
class Found:
    """Records as points, their labels, and the layout they were written in if they came in columns."""

    x: Any
    labels: list[Any]
    written: Notation | None


def read_file(path: str | os.PathLike[str], options: ReadOptions) -> Found:
    """The records in a file, and the columns of labels that the options name."""
    with _reading(Path(path)):
        return read_table(_open(Path(path), options), options)


def read_table(table: Table, options: ReadOptions) -> Found:
    """The records and labels in a table, from one read."""
    order, choice = plan_reading(table, options)
    points, labels = read_points(table, options.manifold, order, choice, table.pick(options.labels))
    return Found(points, labels, notation_of(table, options.manifold, order, choice))


def plan_reading(table: Table, options: ReadOptions) -> tuple[list[int], Layout]:
    """The layout that fits the columns, and the positions of the columns in its order."""
    manifold = options.manifold
    array = table.array if isinstance(table, ArrayTable) else None
    if array is not None and array.ndim > 2 and (array.shape[1:] != manifold.point_shape or options.columns is not None):
        shape = ", ".join(["n", *map(str, manifold.point_shape)])
        raise FileError(
            f"{table.path} holds an array of shape {array.shape}, but {manifold} is read from arrays of shape ({shape}) "
            f"or from rows, whose columns you may choose{_flipped(array.shape, manifold)}"
        )
    picked = table.coordinates(options.columns, options.labels)
    width = sum(table.widths[i] for i in picked)
    header = [table.names[i] for i in picked] if table.names and width == len(picked) else None

    def clock() -> bool:
        return len(picked) == 1 and table.holds_clock_times(picked[0])

    hint = _hint(table, width, options)
    choice, order = choose(str(table.path), manifold, options.layout, width, header, table.found(picked), clock, hint)
    return ([picked[i] for i in order] if width == len(picked) else picked), choice


def notation_of(table: Table, manifold: Manifold, order: list[int], choice: Layout) -> Notation:
    """The layout of records and the names of their columns in its order, if every name is one line of text."""
    names = [table.names[i] for i in order] if table.names else []
    known = len(names) == choice.columns and all(map(is_line, names))
    return Notation(manifold, choice, tuple(cut(name) for name in names) if known else ())


def _flipped(shape: tuple[int, ...], manifold: Manifold) -> str:
    for axis in range(1, len(shape)):
        if (*shape[:axis], *shape[axis + 1 :]) == manifold.point_shape:
            moved = (shape[axis], *manifold.point_shape)
            return f": it looks transposed; numpy.moveaxis(x, {axis}, 0) has the shape {moved}"
    return ""


def _hint(table: Table, width: int, options: ReadOptions) -> str:
    """Advice for when the number of columns does not fit."""
    if options.columns is None and table.records in options.widths and width > table.records:
        return f": with {table.records} rows and {width} columns it looks transposed; write one record a row"
    return f": {PICK}" if width > min(options.widths) else ""


def read_points(
    table: Table, manifold: Manifold, columns: list[int], choice: Layout, labels: Sequence[int] = ()
) -> tuple[Array, list[NDArray[Any]]]:
    """The points in these columns of a table, and the cells in the columns ``labels`` of the same rows."""
    array = table.array if isinstance(table, ArrayTable) else None
    if array is not None and array.ndim > 2 and choice.convert is None and array.dtype.kind in "fiu":
        return float64(array), []
    numbers, cells = table.read(columns, choice.clock, list(labels))
    return to_points(manifold, choice, numbers), cells


def parse_center(text: str | os.PathLike[str], manifold: Manifold, *, layout: str = "auto") -> Array:
    """The point that a text describes: ``origin``, numbers, a clock time on the circle, or the name of a file.

    Numbers and files hold one point in a layout of :func:`read_records`: the one called ``layout`` if it has that many
    numbers, or else the only layout that has. A file may also hold a matrix as it is printed, or a vector as a column.

    >>> from geodp import SPD, Sphere
    >>> parse_center("[2, 0, 1]", SPD(2))
    array([[2., 0.],
           [0., 1.]])
    >>> parse_center("06:00", Sphere(1)).round(12)
    array([1., 0.])
    """
    return center_and_notation(text, manifold, layout)[0]


def center_and_notation(text: str | os.PathLike[str], manifold: Manifold, layout: str = "auto") -> tuple[Array, Notation]:
    """The point that a text describes, as in :func:`parse_center`, and the layout it was written in."""
    if not isinstance(text, str) or is_readable(text.strip()):
        path = Path(text.strip() if isinstance(text, str) else text)
        (point, written), source = _read_center(path, manifold, layout), f"the centre in {path}"
        # the file may be one of records, given by mistake: the message leaves out the number that was found
        wrong = (manifold.check_point(point) or "").partition(" but ")[0]
    else:
        (point, written), source = _type_center(text.strip(), manifold, layout), f"the centre {excerpt(text)}"
        wrong = manifold.check_point(point) or ""
    if wrong:
        raise ValueError(f"{source} is not a point of {manifold}: {wrong}")
    return point, written


def _type_center(text: str, manifold: Manifold, layout: str) -> tuple[Array, Notation]:
    if text.lower() == "origin":
        return manifold.origin, Notation(manifold) if layout == "auto" else Notation.named(manifold, layout)
    source = f"the centre {excerpt(text)}"
    clock = [choice for choice in layouts(manifold) if choice.clock]
    if clock and CLOCK.fullmatch(text):
        return to_points(manifold, clock[0], np.array([[seconds(text)]]))[0], Notation(manifold, clock[0])
    try:
        numbers = np.array(literal(expression(text)), dtype=np.float64)
    except (ValueError, ArithmeticError):
        hint = f"write origin, numbers such as [0, 0, 1], or the name of a {', '.join(_OPENERS)} file"
        raise ValueError(f"{source} is neither origin nor numbers nor a file: {hint}") from None
    if numbers.ndim > 1 and numbers.shape != manifold.point_shape:
        raise ValueError(f"{source} has shape {numbers.shape}, but one point of {manifold} has shape {manifold.point_shape}")
    count = f"{numbers.size} {'number' if numbers.size == 1 else 'numbers'}"
    name = _center_layout(manifold, layout, numbers.size)
    choice, order = choose(source, manifold, name, numbers.size, None, count, lambda: False)
    return to_points(manifold, choice, numbers.reshape(1, -1)[:, order])[0], Notation(manifold, choice)


def _read_center(path: Path, manifold: Manifold, layout: str) -> tuple[Array, Notation]:
    with _reading(path):
        options = ReadOptions(manifold, layout=layout, public=True)
        table = _open(path, options)
        columns = table.pick(None)
        width = sum(table.widths[i] for i in columns)
        as_printed = (table.records, width) == (manifold.point_shape[0], math.prod(manifold.point_shape[1:]))
        in_a_column = width == 1 and table.records in {choice.columns for choice in layouts(manifold)}
        if as_printed or (table.records > 1 and in_a_column):
            table, width = ArrayTable(path, table.read(columns, False, [])[0].reshape(1, -1)), table.records * width
        if table.records != 1:
            raise FileError(f"{path} holds {table.records} records, but the centre is one point of {manifold}")
        found = read_table(table, replace(options, layout=_center_layout(manifold, layout, width)))
        assert found.written is not None
        return np.array(found.x[0]), found.written


def _center_layout(manifold: Manifold, layout: str, width: int) -> str:
    """The layout of the records, unless only one other layout has as many numbers as the centre."""
    fitting = [choice.name for choice in layouts(manifold) if choice.columns == width]
    if layout in fitting or not any(choice.name == layout for choice in layouts(manifold)):
        return fitting[0] if layout == "auto" and len(fitting) == 1 else layout
    return fitting[0] if len(fitting) == 1 else "auto"
