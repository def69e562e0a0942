"""Records in data frames of every library that narwhals knows: pandas, polars, pyarrow, Modin, DuckDB, Ibis, PySpark and others.

They are read like files (:mod:`geodp.files`). Only the caller and the names and types of the columns, which are **public**,
decide how. Types must not depend on the records. But pandas guesses types from the records when it reads a file without given
types. So columns of text and of objects are treated alike here: each cell is read by itself, also a number written as text.
A cell that is missing or not a number makes its record invalid and changes nothing else.

Some conversions of a whole column fail, or print a cell, if one cell is a text that is not UTF-8 or a date that Python does not
have. None of these is used here: texts are read as bytes, and times as whole numbers.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodp.files.cells import as_objects, clock_seconds, flat, number, seconds, text_of
from geodp.files.messages import FileError, listed, short
from geodp.files.options import ReadOptions
from geodp.files.table import Table
from geodp.inputs import Array, is_of

#: Packages whose objects may be data frames. narwhals is imported only for objects of these.
_MAKERS = {
    "pandas", "polars", "pyarrow", "modin", "cudf", "dask", "dask_expr", "duckdb", "_duckdb", "ibis", "pyspark", "sqlframe",
    "narwhals",
}  # fmt: skip
#: Types of columns that are read cell by cell. In pandas the cells decide whether a column is text or objects.
_CELLS = ("String", "Object", "Categorical", "Enum", "Binary")
_TIMES = ("Datetime", "Time", "Duration")


def as_frame(x: Any) -> Any:
    """``x`` as a narwhals object, if it is a data frame or a column of one; otherwise None."""
    kind = type(x)
    ours = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if not (ours & _MAKERS or hasattr(kind, "__narwhals_dataframe__") or hasattr(kind, "__narwhals_lazyframe__")):
        return None
    nw = importlib.import_module("narwhals.stable.v2")
    try:
        frame = nw.from_native(x, pass_through=True, allow_series=True)
        frame = frame.to_frame() if isinstance(frame, nw.Series) else frame
        return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None
    except importlib.import_module("narwhals.exceptions").DuplicateError:
        raise FileError("the data frame has several columns of the same name: rename them") from None


class FrameTable(Table):
    """The columns of a data frame; ``frame`` comes from :func:`as_frame`.

    ``shapes`` are the lengths of lists, and of lists nested in them, by column. They come from the types or from the options.
    The actual lengths of the lists are private data, so they never decide how long the lists should be.
    """

    path: Path | str = "the data frame"

    def __init__(self, frame: Any, options: ReadOptions, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
        labels = list(frame.collect_schema().names())
        if not hasattr(frame, "get_column"):  # not in memory yet: load only the columns that are needed
            needed = dict.fromkeys((*(options.columns or labels), *options.labels))
            labels = [name for name in labels if name in needed] if all(name in labels for name in needed) else labels
            frame = frame.select(labels).collect()
        self.frame, self._labels, self.records = frame, labels, len(frame)
        self.names: tuple[str, ...] = tuple(str(name) for name in labels)
        self.widths = (1,) * len(labels)
        picked = self.coordinates(options.columns, options.labels) if shapes is None else []
        found = shapes or {self.names[i]: shape for i in picked if (shape := self._shape(i, picked, options))}
        self.shapes: Mapping[str, tuple[int, ...]] = found
        self.widths = tuple(math.prod(found.get(name, ())) for name in self.names)

    def _position(self, column: str | int) -> int:
        # pandas allows numbers as names
        return self._labels.index(column) if self._labels.count(column) == 1 else super()._position(column)

    def kind(self, column: int) -> str:
        """The type of a column in one word."""
        dtype = self._type(column)
        if dtype.is_numeric():
            return "number"
        name = type(dtype).__name__
        if name == "Unknown":
            native = str(_type_of(self.native(column))).lower()
            return "number" if "half" in native else "cells" if "null" in native or "string" in native else name
        return "cells" if name in _CELLS else "time" if name in _TIMES else "list" if name in ("List", "Array") else name

    def _shape(self, column: int, picked: list[int], options: ReadOptions) -> tuple[int, ...]:
        """The lengths of the lists in a column, according to its type or the caller; nothing for a column of numbers."""
        kind, alone = self.kind(column), len(picked) == 1
        if kind == "cells":
            # in pandas, lists are objects; what the cells really hold must not matter
            several = alone and 1 not in options.widths
            return (options.width(self.path, "has a column of text or objects"),) if several else ()
        shape, inner = [], self._type(column)
        while kind == "list" and type(inner).__name__ in ("List", "Array"):
            shape.append(getattr(inner, "size", 0))
            inner = inner.inner
        if kind == "list" and not inner.is_numeric():
            raise self._refused(column, "numbers")
        return tuple(shape) if all(shape) else self.list_lengths(column, len(shape), alone, options)

    def list_lengths(self, column: int, depth: int, alone: bool, options: ReadOptions) -> tuple[int, ...]:
        return options.list_shape(self.path, self.names[column], depth, alone)

    def holds_clock_times(self, column: int) -> bool:
        return self.kind(column) == "time"

    def read(self, columns: list[int], clock: bool, labels: list[int]) -> tuple[Array, list[NDArray[Any]]]:
        parts = [self.numbers(i, clock).reshape(self.records, self.widths[i]) for i in columns]
        return np.concatenate([np.empty((self.records, 0)), *parts], axis=1), [self._label(i) for i in labels]

    def numbers(self, column: int, clock: bool) -> Array:
        kind, native = self.kind(column), self.native(column)
        shape = self.shapes.get(self.names[column])
        if clock and kind == "time":
            return self._times(column)
        if shape and not clock:
            arrow = _arrow_of(native)
            if kind == "cells" or arrow is None:
                return np.array([flat(cell, math.prod(shape)) for cell in cells_of(native)]).reshape(-1, math.prod(shape))
            return _rows_of_lists(arrow, shape)
        if kind == "cells":
            read = seconds if clock else number
            return np.array([read(cell) for cell in cells_of(native)], dtype=np.float64)
        if clock or kind != "number":
            raise self._refused(column, "clock times" if clock else "numbers")
        return _numbers(native)

    def _label(self, column: int) -> NDArray[Any]:
        """The cells of a column as labels, for :func:`geodp.records.labels.coded`."""
        name = type(self._type(column)).__name__
        native = self.native(column)
        if name in (*_TIMES, "Date"):
            count, unit, missing = _as_integers(native)
            if name == "Duration":
                return np.where(missing, "", count.astype(str))
            texts = np.where(missing, np.datetime64("NaT"), count.view(f"M8[{unit}]")).astype(str)
            return np.where(missing, "", np.char.partition(texts, "T")[:, 2]) if name == "Time" else texts
        plain = isinstance(getattr(native, "dtype", None), np.dtype) and native.dtype.kind in "iuf"
        return np.asarray(native.to_numpy()) if plain else as_objects(cells_of(native))

    def _times(self, column: int) -> Array:
        """Seconds since midnight."""
        dtype = self._type(column)
        count, unit, missing = _as_integers(self.native(column))
        zone = getattr(dtype, "time_zone", None)
        read = clock_seconds(count, unit, zone, type(dtype).__name__ == "Duration")
        return np.where(missing, math.nan, read)

    def native(self, column: int) -> Any:
        return self.frame.get_column(self._labels[column]).to_native()

    def _type(self, column: int) -> Any:
        return self.frame.schema[self._labels[column]]

    def shown_type(self, column: int) -> Any:
        return self._type(column)

    def _refused(self, column: int, wanted: str) -> FileError:
        found = f"the column {listed([self.names[column]])} of {self.path} has the type {short(self.shown_type(column))}"
        return FileError(f"{found}, but this layout is read from {wanted}")


def _numbers(column: Any) -> Array:
    """A column of numbers as floats; NaN for a missing one."""
    arrow = _arrow_of(column)
    if arrow is not None:
        return np.asarray(arrow.cast("float64", safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    if is_of(column, "polars"):
        return np.asarray(column.cast(importlib.import_module("polars").Float64, strict=False).to_numpy(), dtype=np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=math.nan))


def _rows_of_lists(column: Any, shape: tuple[int, ...]) -> Array:
    """The lists in an Arrow column as rows; a list whose lengths are not ``shape`` becomes NaN."""
    if not shape:
        return _numbers(column).reshape(-1, 1)
    compute = importlib.import_module("pyarrow.compute")
    lengths = np.asarray(compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    entries, width = _rows_of_lists(compute.list_flatten(column), shape[1:]), shape[0]
    rows = np.full((len(lengths), width * entries.shape[1]), np.nan)
    usual = lengths == width
    starts = (np.cumsum(lengths) - lengths)[usual]
    rows[usual] = entries[starts[:, None] + np.arange(width)].reshape(len(starts), rows.shape[1])
    return rows


def cells_of(column: Any) -> list[Any]:
    """The cells of a column of any library, each by itself: None for a cell that Python cannot hold."""
    arrow = _arrow_of(column)
    if arrow is not None:
        return _arrow_cells(arrow)
    if is_of(column, "polars"):
        polars = importlib.import_module("polars")
        if column.dtype in (polars.Categorical, polars.Enum):
            column = column.cast(polars.String)
        if column.dtype == polars.String:
            column = column.cast(polars.Binary)
        return [text_of(cell) for cell in column.to_list()]
    return list(column.astype(object))


def _arrow_cells(column: Any) -> list[Any]:
    """The cells of an Arrow column, of which one may be a text that is no UTF-8 or a time that Python does not have."""
    arrow = importlib.import_module("pyarrow")
    if arrow.types.is_dictionary(column.type):
        found: list[Any] = []
        for chunk in getattr(column, "chunks", [column]):
            values, places = _arrow_cells(chunk.dictionary), chunk.indices.to_pylist()
            found += [None if place is None else values[place] for place in places]
        return found
    if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type) or arrow.types.is_string_view(column.type):
        column = column.cast("binary_view" if arrow.types.is_string_view(column.type) else "large_binary")
    if (arrow.types.is_primitive(column.type) and not arrow.types.is_temporal(column.type)) or "binary" in str(column.type):
        return [text_of(cell) for cell in column.to_pylist()]
    return [_or_none(cell) for cell in column]


def _or_none(cell: Any) -> Any:
    try:
        return cell.as_py()
    except Exception:
        return None


def _as_integers(column: Any) -> tuple[NDArray[np.int64], str, NDArray[np.bool_]]:
    """Times as whole numbers of a unit since 1970 or midnight, in UTC, and which are missing."""
    arrow = _arrow_of(column)
    if arrow is not None:
        kind = str(arrow.type)
        unit = "D" if kind.startswith("date32") else "ms" if kind.startswith("date64") else kind.partition("[")[2].rstrip("]")
        width = "int32" if kind.startswith(("date32", "time32")) else "int64"
        count = arrow.cast(width).cast("int64").fill_null(0).to_numpy(zero_copy_only=False)
        missing = arrow.is_null().to_numpy(zero_copy_only=False)
        return np.array(count, dtype=np.int64), unit.partition(",")[0], np.array(missing, dtype=np.bool_)
    if is_of(column, "polars"):
        kind = type(column.dtype).__name__
        unit = "D" if kind == "Date" else getattr(column.dtype, "time_unit", "ns")
        count = column.to_physical().cast(importlib.import_module("polars").Int64).fill_null(0).to_numpy()
        return np.array(count), unit, np.asarray(column.is_null().to_numpy(), dtype=np.bool_)
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    times = np.array(column.to_numpy())
    return times.view(np.int64), np.datetime_data(times.dtype)[0], np.isnat(times)


def _arrow_of(column: Any) -> Any:
    """A column in the memory of Arrow, or None."""
    if is_of(column, "pyarrow"):
        return column
    kind = getattr(column, "dtype", None)
    if "pyarrow" in f"{type(kind).__module__} {getattr(kind, 'storage', '')}" or type(kind).__name__ == "ArrowDtype":
        return importlib.import_module("pyarrow").chunked_array(column.array.__arrow_array__())
    return None


def _type_of(column: Any) -> Any:
    return getattr(column, "dtype", None) or column.type
