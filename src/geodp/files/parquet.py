"""Records in Parquet files. pyarrow is imported when it is needed."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from geodp.files.cells import seconds
from geodp.files.frames import FrameTable, as_frame, cells_of
from geodp.files.messages import FileError
from geodp.files.options import ReadOptions
from geodp.files.table import Table
from geodp.inputs import Array


class ParquetTable(FrameTable):
    """The columns of a Parquet file. Its types are those of the file: texts may be clock times, but are no numbers."""

    def __init__(self, path: Path, table: Any, options: ReadOptions, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
        self.path = path
        super().__init__(as_frame(table), options, shapes)
        # pandas stores the index of a data frame as a column; it is not a coordinate
        self.names = tuple("" if re.fullmatch(r"__index_level_\d+__", name) else name for name in table.column_names)

    def kind(self, column: int) -> str:
        # a column without any cell has no type
        kind = super().kind(column)
        return ("number" if str(self.shown_type(column)) == "null" else "text") if kind == "cells" else kind

    def holds_clock_times(self, column: int) -> bool:
        return self.kind(column) in ("text", "time")

    def numbers(self, column: int, clock: bool) -> Array:
        if clock and self.kind(column) == "text":
            return np.array([seconds(cell) for cell in cells_of(self.native(column))], dtype=np.float64)
        return super().numbers(column, clock)

    def shown_type(self, column: int) -> Any:
        return self.native(column).type

    def list_lengths(self, column: int, depth: int, alone: bool, options: ReadOptions) -> tuple[int, ...]:
        if not options.public:
            return super().list_lengths(column, depth, alone, options)
        return (max((len(np.ravel(cell)) for cell in cells_of(self.native(column))), default=0),)


def open_parquet(path: Path, options: ReadOptions) -> Table:
    with parquet_file(path) as file:
        table = file.read()
    return ParquetTable(path, table, options)


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
