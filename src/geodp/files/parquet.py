"""Records in Parquet files. pyarrow is imported when it is needed."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodp.files.cells import seconds
from geodp.files.messages import FileError, listed, short
from geodp.files.options import ReadOptions
from geodp.files.table import Table
from geodp.inputs import Array


class ParquetTable(Table):
    """Columns of numbers, or of lists of numbers. The lengths of the lists, ``shapes``, come from their types or the options.

    The actual lengths of the lists are private data, so they never decide how long the lists should be.
    """

    def __init__(self, path: Path | str, table: Any, arrow: Any, options: ReadOptions | Mapping[str, tuple[int, ...]]) -> None:
        self.path, self.table, self.arrow, self.records = path, table, arrow, table.num_rows
        # pandas stores the index of a data frame as a column; it is not a coordinate
        self.names = tuple("" if re.fullmatch(r"__index_level_\d+__", name) else name for name in table.column_names)
        self.widths = (1,) * len(self.names)
        self.shapes = self._shapes(options) if isinstance(options, ReadOptions) else options
        lists = {i: self.shapes[name] for i, name in enumerate(table.column_names) if name in self.shapes}
        self.lists = {i: self._matrix(i, table.column(i).combine_chunks(), shape) for i, shape in lists.items()}
        self.widths = tuple(math.prod(lists.get(i, ())) for i in range(len(self.names)))

    def _shapes(self, options: ReadOptions) -> dict[str, tuple[int, ...]]:
        """The lengths of the lists, and of lists nested in them, for every column of lists that is read."""
        picked = self.coordinates(options.columns, options.labels)
        kinds = {i: self.table.schema.field(i).type for i in picked if self._is_list(self.table.schema.field(i).type)}
        return {
            self.table.column_names[i]: self._fixed(kind) or self._told(i, kind, picked, options) for i, kind in kinds.items()
        }

    def _fixed(self, kind: Any) -> tuple[int, ...] | None:
        """The lengths of the lists if their type fixes them, else None."""
        if not self.arrow.types.is_fixed_size_list(kind):
            return None
        inner = self._fixed(kind.value_type) if self._is_list(kind.value_type) else ()
        return None if inner is None else (kind.list_size, *inner)

    def _told(self, column: int, kind: Any, picked: list[int], options: ReadOptions) -> tuple[int, ...]:
        if options.public:
            return self._usual(self.table.column(column).combine_chunks())
        depth, inner = 0, kind
        while self._is_list(inner):
            depth, inner = depth + 1, inner.value_type
        return options.list_shape(self.path, self.table.column_names[column], depth, len(picked) == 1)

    def _is_list(self, kind: Any) -> bool:
        """Whether values of this type are lists of numbers, or lists of such lists."""
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
        shapes = ((self.records, self.widths[i]) for i in columns)
        return np.concatenate([part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)], axis=1)

    def texts(self, column: int) -> list[str]:
        kind = self._plain(column).type
        if not (self._is_number(kind) or self._is_text(kind)):
            raise FileError(f"a column of {self.path} has the type {short(kind)}, but labels are texts or numbers")
        cells = self._plain(column).cast(self.arrow.large_string()).cast(self.arrow.large_binary()).to_pylist()
        return ["" if cell is None else cell.decode("latin-1").strip() for cell in cells]

    def _column(self, column: int, values: Any, clock: bool) -> Array:
        arrow, kind = self.arrow, values.type
        if clock and arrow.types.is_time(kind):
            micros = values.cast(arrow.time64("us"), safe=False).cast(arrow.int64()).cast(arrow.float64(), safe=False)
            return 1e-6 * np.asarray(micros.to_numpy(zero_copy_only=False), dtype=np.float64)
        if clock and self._is_text(kind):
            # invalid bytes are private data too: they must not raise
            cells = values.cast(arrow.large_binary()).to_pylist()
            return np.array([math.nan if cell is None else seconds(cell.decode("latin-1")) for cell in cells])
        if not clock and self._is_number(kind):
            return np.asarray(values.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
        wanted = "clock times as text" if clock else "numbers"
        name = listed([self.names[column]]) if self.names else str(column)
        raise FileError(f"the column {name} of {self.path} has the type {short(kind)}, but this layout is read from {wanted}")

    def _usual(self, values: Any) -> tuple[int, ...]:
        """The length of the longest list, and of lists nested in them, in a public file."""
        if not self._is_list(values.type):
            return ()
        return int(self._lengths(values).max(initial=0)), *self._usual(values.flatten())

    def _lengths(self, values: Any) -> NDArray[np.int64]:
        counted = self.arrow.compute.list_value_length(values).fill_null(0)
        return np.asarray(counted.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _matrix(self, column: int, values: Any, shape: tuple[int, ...]) -> Array:
        """The lists as rows; a list whose lengths are not ``shape`` becomes NaN."""
        if not shape:
            return self._column(column, values, False).reshape(len(values), 1)
        entries, lengths, width = self._matrix(column, values.flatten(), shape[1:]), self._lengths(values), shape[0]
        rows = np.full((len(lengths), width * entries.shape[1]), np.nan)
        usual = lengths == width
        starts = (np.cumsum(lengths) - lengths)[usual]
        rows[usual] = entries[starts[:, None] + np.arange(width)].reshape(len(starts), rows.shape[1])
        return rows


def open_parquet(path: Path, options: ReadOptions) -> Table:
    with parquet_file(path) as file:
        table = file.read()
    return ParquetTable(path, table, arrow_for(path), options)


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
    """An open Parquet file. The messages of pyarrow are hidden, because they may quote the file."""
    arrow = arrow_for(path)
    try:
        with arrow.parquet.ParquetFile(path) as file:
            yield file
    except FileError:
        raise
    except Exception:
        raise FileError(f"{path} is not a Parquet file that pyarrow can read") from None
