"""The base class of tables of records, whether files or data frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from geodp.files.messages import FileError, excerpt, listed
from geodp.inputs import Array

#: Larger points would not fit in memory, and nobody uses them.
MOST_COLUMNS = 10**7


class Table(ABC):
    """Records before they are read as points: ``records`` rows in columns of one or more numbers.

    ``path`` is their file. For records that are not in a file it is the name that messages use.
    """

    path: Path | str
    records: int
    names: tuple[str, ...] | None
    widths: tuple[int, ...]

    @abstractmethod
    def read(self, columns: list[int], clock: bool, labels: list[int]) -> tuple[Array, list[NDArray[Any]]]:
        """The numbers in ``columns`` and the cells in the columns ``labels`` of the same rows, from one read.

        There is one row of numbers a record; with ``clock``, they are seconds since midnight. A cell that is no number is NaN.
        """

    @abstractmethod
    def holds_clock_times(self, column: int) -> bool: ...

    def shown_names(self) -> tuple[str, ...] | None:
        return self.names

    def found(self, columns: Sequence[int] | None = None) -> str:
        """The number of columns and their names, for messages."""
        chosen = range(len(self.widths)) if columns is None else columns
        width = sum(self.widths[i] for i in chosen)
        shown = self.shown_names()
        names = f" ({listed([shown[i] for i in chosen])})" if shown else ""
        return f"{width} {'column' if width == 1 else 'columns'}{names}"

    def pick(self, columns: Sequence[str | int] | None) -> list[int]:
        """Positions of the columns given by name or by position from 0. If none are given, all columns that have a name."""
        if columns is None:
            return [i for i in range(len(self.widths)) if self.names is None or self.names[i]]
        return [self._position(column) for column in columns]

    def coordinates(self, columns: Sequence[str | int] | None, labels: Sequence[str | int]) -> list[int]:
        """Positions of the columns that hold coordinates: those given, or else all that do not hold labels."""
        excluded = [] if columns is not None else self.pick(labels)
        return [i for i in self.pick(columns) if i not in excluded]

    def _position(self, column: str | int) -> int:
        name = str(column)
        if isinstance(column, str) and self.names is not None and self.names.count(name) == 1:
            return self.names.index(name)
        if name.isdecimal() and int(name) < len(self.widths):
            return int(name)
        raise FileError(f"{self.path} has {self.found()} and no single one called {excerpt(name)}: name some of these")
