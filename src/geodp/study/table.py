"""Tables of results: named columns, rows of numbers and words, reading and writing CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from geodp.inputs import Array

Cell = str | int | float


@final
@dataclass(frozen=True)
class ResultTable:
    """Rows of cells in named columns. Equal tables give the same bytes of CSV, and reading those gives the same table.

    >>> table = ResultTable.of(("n", "error"), [(10, 0.5), (20, 0.25)])
    >>> ResultTable.from_csv(table.to_csv()) == table
    True
    >>> table.where(n=20).column("error")
    array([0.25])
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> ResultTable:
        """A table from rows whose cells may be NumPy scalars."""
        cells = tuple(tuple(cell.item() if isinstance(cell, np.generic) else cell for cell in row) for row in rows)
        for row in cells:
            if len(row) != len(columns):
                raise ValueError(f"a row has {len(row)} cells but the table has {len(columns)} columns")
        return cls(tuple(columns), cells)

    def __add__(self, other: ResultTable) -> ResultTable:
        if self.columns != other.columns:
            raise ValueError(f"tables with the columns {self.columns} and {other.columns} do not fit together")
        return ResultTable(self.columns, self.rows + other.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Array:
        """One column, as an array of numbers or of words."""
        place = self.columns.index(name)
        return np.array([row[place] for row in self.rows])

    def where(self, **wanted: Cell) -> ResultTable:
        """The rows whose named cells equal the wanted ones."""
        places = [(self.columns.index(name), value) for name, value in wanted.items()]
        return ResultTable(self.columns, tuple(row for row in self.rows if all(row[i] == value for i, value in places)))

    def only(self, *names: str) -> ResultTable:
        """Some of the columns."""
        places = [self.columns.index(name) for name in names]
        return ResultTable(names, tuple(tuple(row[i] for i in places) for row in self.rows))

    def values(self, name: str) -> list[Cell]:
        """The different cells of a column, in the order of their first appearance."""
        return list(dict.fromkeys(self.column(name).tolist()))

    def to_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        # repr is the shortest text that reads back as the same double
        writer.writerows([repr(cell) if isinstance(cell, float) else cell for cell in row] for row in self.rows)
        return text.getvalue()

    @classmethod
    def from_csv(cls, text: str) -> ResultTable:
        columns, *rows = csv.reader(io.StringIO(text))
        return cls(tuple(columns), tuple(tuple(_cell(cell) for cell in row) for row in rows))


def _cell(text: str) -> Cell:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
