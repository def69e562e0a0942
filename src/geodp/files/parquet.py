"""Records in Parquet files. pyarrow is imported when it is needed."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodp.files.cells import seconds
from geodp.files.messages import FileError, listed, short
from geodp.files.table import Table
from geodp.manifolds._functions import Array


class ParquetTable(Table):
    """Columns of numbers, or of lists of numbers of the lengths ``shapes``, by name of the column; by default the usual ones."""

    def __init__(self, path: Path, table: Any, arrow: Any, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
        self.path, self.table, self.arrow, self.records = path, table, arrow, table.num_rows
        if self.records == 0:
            raise FileError(f"{path} has no records")
        # the index of a pandas table is no column of the data
        self.names = tuple("" if re.fullmatch(r"__index_level_\d+__", name) else name for name in table.column_names)
        lists = [i for i in range(len(self.names)) if self._is_list(table.schema.field(i).type)]
        columns = {i: table.column(i).combine_chunks() for i in lists}
        self.shapes = {table.column_names[i]: self._shape(columns[i]) for i in lists} if shapes is None else shapes
        self.lists = {i: self._matrix(i, columns[i], self.shapes[table.column_names[i]]) for i in lists}
        self.widths = tuple(self.lists[i].shape[1] if i in self.lists else 1 for i in range(len(self.names)))

    def _is_list(self, kind: Any) -> bool:
        """Whether this is a type of lists, or of lists of lists, of numbers."""
        types = self.arrow.types
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            return self._is_number(kind.value_type) or self._is_list(kind.value_type)
        return False

    def _is_number(self, kind: Any) -> bool:
        types = self.arrow.types
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind))

    def _is_text(self, kind: Any) -> bool:
        types = self.arrow.types
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_time(kind))

    def _plain(self, column: int) -> Any:
        values = self.table.column(column)
        return values.cast(values.type.value_type) if self.arrow.types.is_dictionary(values.type) else values

    def holds_clock_times(self, column: int) -> bool:
        return column not in self.lists and self._is_text(self._plain(column).type)

    def numbers(self, columns: list[int], clock: bool) -> Array:
        parts = [self.lists[i] if i in self.lists and not clock else self._column(i, self._plain(i), clock) for i in columns]
        return np.concatenate([part.reshape(self.records, -1) for part in parts], axis=1)

    def _column(self, column: int, values: Any, clock: bool) -> Array:
        arrow, kind = self.arrow, values.type
        if clock and arrow.types.is_time(kind):
            micros = values.cast(arrow.time64("us"), safe=False).cast(arrow.int64()).cast(arrow.float64(), safe=False)
            return 1e-6 * np.asarray(micros.to_numpy(zero_copy_only=False), dtype=np.float64)
        if clock and self._is_text(kind):
            return np.array([seconds(cell) for cell in values.to_pylist()])
        if not clock and self._is_number(kind):
            return np.asarray(values.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
        wanted = "clock times as text" if clock else "numbers"
        name = listed([self.names[column]]) if self.names else str(column)
        raise FileError(f"the column {name} of {self.path} has the type {short(kind)}, but this layout is read from {wanted}")

    def _shape(self, values: Any) -> tuple[int, ...]:
        """The most frequent length of the lists, and of the lists in them."""
        if not self._is_list(values.type):
            return ()
        lengths = self._lengths(values)
        usual = max(Counter(lengths[lengths > 0].tolist()).most_common(1), default=(0, 0))[0]
        return usual, *self._shape(values.flatten())

    def _lengths(self, values: Any) -> NDArray[np.int64]:
        counted = self.arrow.compute.list_value_length(values).fill_null(0)
        return np.asarray(counted.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _matrix(self, column: int, values: Any, shape: tuple[int, ...]) -> Array:
        """Lists of the lengths ``shape`` as rows; NaN for others."""
        if not shape:
            return self._column(column, values, False).reshape(len(values), 1)
        entries, lengths, width = self._matrix(column, values.flatten(), shape[1:]), self._lengths(values), shape[0]
        rows = np.full((len(lengths), width * entries.shape[1]), np.nan)
        usual = lengths == width
        starts = (np.cumsum(lengths) - lengths)[usual]
        rows[usual] = entries[starts[:, None] + np.arange(width)].reshape(len(starts), rows.shape[1])
        return rows


def open_parquet(path: Path, wanted: frozenset[str]) -> Table:
    with parquet_file(path) as file:
        table = file.read()
    return ParquetTable(path, table, arrow_for(path))


def arrow_for(path: Path) -> Any:
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.compute")
        importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise FileError(f"reading {path} needs pyarrow: pip install 'geodp[parquet]'") from None
    return arrow


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """An open Parquet file; whatever pyarrow says about a damaged one may quote it and is not shown."""
    arrow = arrow_for(path)
    try:
        with arrow.parquet.ParquetFile(path) as file:
            yield file
    except FileError:
        raise
    except Exception:
        raise FileError(f"{path} is not a Parquet file that pyarrow can read") from None
