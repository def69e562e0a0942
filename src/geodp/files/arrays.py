"""Records in NumPy files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from geodp.files.cells import seconds, text_of
from geodp.files.messages import FileError, listed, short
from geodp.files.options import ReadOptions
from geodp.files.table import MOST_COLUMNS, Table
from geodp.inputs import Array


class ArrayTable(Table):
    def __init__(self, path: Path | str, array: NDArray[Any]) -> None:
        if array.dtype.kind not in "fiuUS":
            raise FileError(f"{path} holds an array of dtype {short(array.dtype)}, but records are real numbers or clock times")
        if array.ndim == 0:
            raise FileError(f"{path} holds an array of shape (), which has no records")
        width = math.prod(array.shape[1:])
        if width > MOST_COLUMNS:
            raise FileError(f"{path} holds an array of shape {array.shape}, which has more than {MOST_COLUMNS} columns")
        self.path, self.array, self.records, self.names = path, array, len(array), None
        self.widths = (1,) * width

    def found(self, columns: Sequence[int] | None = None) -> str:
        return f"{super().found(columns)} in an array of shape {self.array.shape}"

    def holds_clock_times(self, column: int) -> bool:
        return self.array.dtype.kind in "US"

    def read(self, columns: list[int], clock: bool, labels: list[int]) -> tuple[Array, list[NDArray[Any]]]:
        rows = self._rows()
        return self._numbers(rows, columns, clock), [rows[:, i] for i in labels]

    def _numbers(self, rows: NDArray[Any], columns: list[int], clock: bool) -> Array:
        if clock != (self.array.dtype.kind in "US"):
            # the dtype of texts contains the length of the longest, which is private
            found, wanted = (short(self.array.dtype), "clock times as text") if clock else ("str", "numbers")
            raise FileError(f"{self.path} holds an array of dtype {found}, but this layout is read from {wanted}")
        rows = rows if columns == list(range(rows.shape[1])) else rows[:, columns]
        if clock:
            cells = [[seconds(text_of(cell)) for cell in row] for row in rows.tolist()]
            return np.array(cells).reshape(self.records, len(columns))
        return float64(rows)

    def _rows(self) -> NDArray[Any]:
        return self.array.reshape(self.records, len(self.widths))


def float64(array: NDArray[Any]) -> Array:
    with np.errstate(all="ignore"):
        return array.astype(np.float64, copy=False)


def open_array(path: Path, options: ReadOptions) -> Table:
    with path.open("rb") as file:
        names, array = load_array(path, file)
    if array is None:
        raise FileError(f"{path} holds {len(names)} arrays ({listed(names)}): call the one with the records x or records")
    return ArrayTable(path, array)


def load_array(path: Path, file: BinaryIO) -> tuple[list[str], NDArray[Any] | None]:
    """The array in a NumPy file and its name; all names and None if several arrays could be meant."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = np.load(file, allow_pickle=False) if _is_zip(file) else _map(path, file)
            if isinstance(loaded, np.ndarray):
                return [], loaded
            with loaded:
                names = list(loaded.files)
                likely = names if len(names) == 1 else [name for name in names if name.lower() in ("x", "records")]
                array = loaded[likely[0]] if len(likely) == 1 else None
                return names, array if isinstance(array, np.ndarray) else None
    # the loader's message about a damaged file may quote it
    except Exception:
        hint = "write one with numpy.save from an array of numbers"
        raise FileError(f"{path} is not a NumPy file that can be read without unpickling objects: {hint}") from None


def _is_zip(file: BinaryIO) -> bool:
    start = file.read(2)
    file.seek(0)
    return start == b"PK"


def _map(path: Path, file: BinaryIO) -> Any:
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except ValueError:  # an empty array cannot be mapped
        return np.load(file, allow_pickle=False)
