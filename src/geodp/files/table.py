"""What all tables of records have in common, be they files or data frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geodp.files.messages import FileError, excerpt, listed
from geodp.inputs import Array

#: Points that large fit no memory many times over, and no use.
MOST_COLUMNS = 10**7


class Table(ABC):
    """Records before anything is known of a manifold: ``records`` rows in columns of one or more numbers.

    ``path`` is the file they are in, or what a sentence calls them otherwise.
    """

    path: Path | str
    records: int
    names: tuple[str, ...] | None
    widths: tuple[int, ...]

    @abstractmethod
    def numbers(self, columns: list[int], clock: bool) -> Array:
        """The numbers in these columns, or with ``clock`` the seconds since midnight, as rows."""

    @abstractmethod
    def holds_clock_times(self, column: int) -> bool: ...

    @abstractmethod
    def texts(self, column: int) -> list[Any]:
        """The cells of a column as labels: texts without blanks around them, or numbers; an empty text for what is missing."""

    def shown_names(self) -> tuple[str, ...] | None:
        return self.names

    def found(self, columns: Sequence[int] | None = None) -> str:
        """What a sentence says about the columns."""
        chosen = range(len(self.widths)) if columns is None else columns
        width = sum(self.widths[i] for i in chosen)
        shown = self.shown_names()
        names = f" ({listed([shown[i] for i in chosen])})" if shown else ""
        return f"{width} {'column' if width == 1 else 'columns'}{names}"

    def pick(self, columns: Sequence[str | int] | None) -> list[int]:
        """Positions of columns given by name or by position from 0; all that have a name, if none are given."""
        if columns is None:
            return [i for i in range(len(self.widths)) if self.names is None or self.names[i]]
        return [self._position(column) for column in columns]

    def coordinates(self, columns: Sequence[str | int] | None, beside: Sequence[str | int]) -> list[int]:
        """Positions of the columns that hold coordinates: those given, or else all that do not hold labels."""
        labels = [] if columns is not None else self.pick(beside)
        return [i for i in self.pick(columns) if i not in labels]

    def _position(self, column: str | int) -> int:
        name = str(column)
        if isinstance(column, str) and self.names is not None and self.names.count(name) == 1:
            return self.names.index(name)
        if name.isdecimal() and int(name) < len(self.widths):
            return int(name)
        raise FileError(f"{self.path} has {self.found()} and no single one called {excerpt(name)}: name some of these")
