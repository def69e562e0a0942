"""Records in data frames of every library that narwhals knows: pandas, polars, pyarrow, Modin, DuckDB, Ibis, PySpark and others.

They are read like files (:mod:`geodp.files`). Only the caller and the names and types of the columns, which are **public**,
decide how. Types must not depend on the records. But pandas guesses types from the records when it reads a file without given
types. So columns of text and of objects are treated alike here: each cell is read by itself, also a number written as text.
A cell that is missing or not a number makes its record invalid and changes nothing else.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, final

import numpy as np

from geodp.files.cells import flat, label, number, seconds
from geodp.files.messages import FileError, listed, short
from geodp.files.options import ReadOptions
from geodp.files.table import Table
from geodp.inputs import Array

#: Packages whose objects may be data frames. narwhals is imported only for objects of these.
_MAKERS = frozenset(
    (
        "pandas",
        "polars",
        "pyarrow",
        "modin",
        "cudf",
        "dask",
        "dask_expr",
        "duckdb",
        "_duckdb",
        "ibis",
        "pyspark",
        "sqlframe",
        "narwhals",
    )
)
#: Types of columns that are read cell by cell. In pandas the cells decide whether a column is text or objects.
_CELLS = ("String", "Object", "Categorical", "Enum")
_TIMES = ("Datetime", "Time", "Duration")


def as_frame(x: Any) -> Any:
    """``x`` as a narwhals object, if it is a data frame or a column of one; otherwise None."""
    kind = type(x)
    ours = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if not (
        ours & (_MAKERS | {"narwhals"}) or hasattr(kind, "__narwhals_dataframe__") or hasattr(kind, "__narwhals_lazyframe__")
    ):
        return None
    nw = importlib.import_module("narwhals.stable.v2")
    try:
        frame = nw.from_native(x, pass_through=True, allow_series=True)
        frame = frame.to_frame() if isinstance(frame, nw.Series) else frame
        return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None
    except importlib.import_module("narwhals.exceptions").DuplicateError:
        raise FileError("the data frame has several columns of the same name: rename them") from None


@final
class FrameTable(Table):
    """The columns of a data frame; ``frame`` comes from :func:`as_frame`."""

    def __init__(self, frame: Any, options: ReadOptions) -> None:
        self.path = "the data frame"
        labels = list(frame.collect_schema().names())
        if not hasattr(frame, "get_column"):  # not in memory yet: load only the columns that are needed
            needed = dict.fromkeys((*(options.columns or labels), *options.labels))
            labels = [name for name in labels if name in needed] if all(name in labels for name in needed) else labels
            frame = frame.select(labels).collect()
        self.frame, self._labels, self.records = frame, labels, len(frame)
        self.names = tuple(str(name) for name in labels)
        self.widths = (1,) * len(labels)
        picked = self.coordinates(options.columns, options.labels)
        self.widths = tuple(self._width(i, picked, options) if i in picked else 1 for i in range(len(labels)))

    def _position(self, column: str | int) -> int:
        # pandas allows numbers as names
        return self._labels.index(column) if self._labels.count(column) == 1 else super()._position(column)

    def _kind(self, column: int) -> str:
        """The type of a column in one word."""
        dtype = self.frame.schema[self._labels[column]]
        if dtype.is_numeric():
            return "number"
        name = type(dtype).__name__
        if name == "Unknown":
            native = self._series(column).to_native()
            return "cells" if "null" in str(getattr(native, "dtype", None) or native.type).lower() else name
        return "cells" if name in _CELLS else "time" if name in _TIMES else "list" if name in ("List", "Array") else name

    def _width(self, column: int, picked: list[int], options: ReadOptions) -> int:
        """How many numbers a cell of the column has, according to its type or the caller."""
        kind, alone = self._kind(column), len(picked) == 1
        if kind == "cells":
            # in pandas, lists are objects; what the cells really hold must not matter
            return options.width(self.path, "has a column of text or objects") if alone and 1 not in options.widths else 1
        if kind != "list":
            return 1
        depth, inner = 0, self.frame.schema[self._labels[column]]
        fixed = getattr(inner, "shape", None)
        while type(inner).__name__ in ("List", "Array"):
            depth, inner = depth + 1, inner.inner
        if not inner.is_numeric():
            raise self._refused(column, "numbers")
        return math.prod(fixed or options.list_shape(self.path, str(self._labels[column]), depth, alone))

    def holds_clock_times(self, column: int) -> bool:
        return self._kind(column) == "time"

    def numbers(self, columns: list[int], clock: bool) -> Array:
        return np.concatenate([self._column(i, clock).reshape(self.records, self.widths[i]) for i in columns], axis=1)

    def _column(self, column: int, clock: bool) -> Array:
        kind, width = self._kind(column), self.widths[column]
        if kind in ("cells", "list") and width > 1 and not clock:
            return np.array([flat(cell, width) for cell in self._series(column).to_list()])
        if kind == "cells" or (clock and kind == "time"):
            read = seconds if clock else number
            return np.array([read(cell) for cell in self._series(column).to_list()])
        if clock or kind != "number":
            raise self._refused(column, "clock times" if clock else "numbers")
        series = self._series(column)
        native = series.to_native()
        if not series.dtype.is_float() and "pyarrow" in f"{type(native).__module__} {getattr(native, 'dtype', '')}":
            # Arrow refuses to round whole numbers past 2^53: one record would make the release fail
            return np.array([number(cell) for cell in series.to_list()])
        float64 = importlib.import_module("narwhals.stable.v2").Float64
        return np.asarray(series.cast(float64).to_numpy(), dtype=np.float64)

    def texts(self, column: int) -> list[Any]:
        return [label(cell) for cell in self._series(column).to_list()]

    def _series(self, column: int) -> Any:
        return self.frame.get_column(self._labels[column])

    def _refused(self, column: int, wanted: str) -> FileError:
        name = self._labels[column]
        found = f"the column {listed([str(name)])} of {self.path} has the type {short(self.frame.schema[name])}"
        return FileError(f"{found}, but this layout is read from {wanted}")
