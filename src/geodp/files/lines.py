"""Records in the lines of a text file.

A line is a record, and only a function of this one line: how all lines are read is told by the caller and by the header.
"""

from __future__ import annotations

import csv
import math
import re
from array import array as buffer
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from geodp.files.asked import Asked
from geodp.files.cells import is_header, number, seconds
from geodp.files.messages import FileError, excerpt
from geodp.files.table import MOST_COLUMNS, Table
from geodp.inputs import Array


class CsvTable(Table):
    """Lines of cells. A line is a record whatever it holds: no quotation mark reaches into the next one."""

    def __init__(self, path: Path, asked: Asked) -> None:
        self.path = path
        with path.open("rb") as file:
            # without a header the mark would be part of a record
            utf16 = asked.header is not False and file.read(2) in (b"\xff\xfe", b"\xfe\xff")
        self.encoding = "utf-16" if utf16 else "utf-8-sig"
        first, lines = self._survey(asked.public)
        if lines == 0:
            raise FileError(f"{path} is empty: it must hold one record a line")
        title = first.strip().lstrip("# ")
        delimiter = _delimiter(title)
        cells = [cell.strip() for cell in _split(title, delimiter)]
        self.plain_header = is_header(cells)
        header = self.plain_header if asked.public else asked.header is not False
        if header and asked.header is None and not self.plain_header:
            self._check_names(cells, lines, asked)
        self.start, self.stop = int(header), lines
        self.records = lines - self.start
        if self.records == 0:
            raise FileError(f"{path} has a header but no records")
        if header:
            if delimiter is None and len(cells) > 1 and not first.startswith("#") and 1 in asked.widths:
                hint = "separate the names by commas, or put the one name between quotation marks"
                raise FileError(f"the header of {path} may name {len(cells)} columns or one with blanks in its name: {hint}")
            self.names, self.delimiter = tuple(cells), delimiter
            self.width, self.longer = len(cells), False
        else:
            self.names, self.delimiter = None, None
            self.width, self.longer = self._width(asked), asked.columns is not None
        self.widths = (1,) * self.width
        # of a file of records no cell is looked at before it is read
        self.clock = asked.public and any(":" in line for line in islice(self._lines(), 1))

    def _check_names(self, cells: list[str], lines: int, asked: Asked) -> None:
        """A header is what the caller says it is, and that goes without saying where the first line is all names."""
        if asked.names and asked.names <= set(cells):
            return
        flipped = lines in asked.widths and len(cells) not in asked.widths
        raise FileError(
            f"the first line of {self.path} must name the columns, and it holds a number or no name: write names above the "
            "records, or say header=False (--no-header) if it is a record, header=True (--header) if it names them all the same"
            + (f"; with {lines} lines of {len(cells)} cells it looks transposed: one record a line is wanted" if flipped else "")
        )

    def _width(self, asked: Asked) -> int:
        """The number of cells in the line of a record, or with columns chosen the least number, without a header."""
        if asked.public:
            return max(len(self._cells(line)) for line in islice(self._lines(), 1))
        if asked.columns is None:
            if asked.beside:
                raise FileError(
                    f"{self.path} is read without a header: say which columns hold coordinates, such as columns='0, 1'"
                )
            return asked.width(self.path, "has no header")
        positions = [str(column) for column in (*asked.columns, *asked.beside)]
        for position in positions:
            if not position.isdecimal() or int(position) >= MOST_COLUMNS:
                raise FileError(f"{self.path} is read without a header: pick columns by position from 0, not {excerpt(position)}")
        return 1 + max(map(int, positions), default=0)

    def _survey(self, public: bool) -> tuple[str, int]:
        """The first line and the number of lines; those at the end that are blank count, unless the whole file is public."""
        first, read, last = "", 0, 0
        for block in self._blocks():
            first = first if read else block[0]
            if public:
                last = max((read + i for i, line in enumerate(block, 1) if not line.isspace()), default=last)
            read += len(block)
        return first, last if public else read

    def _blocks(self) -> Iterator[list[str]]:
        # a byte that is no text is a value like any other: it must not raise
        with self.path.open(encoding=self.encoding, errors="replace") as file:
            while block := file.readlines(1 << 22):
                yield block

    def _lines(self) -> Iterator[str]:
        lines = (line for block in self._blocks() for line in block)
        return islice(lines, self.start, self.stop)

    def _cells(self, line: str, most: int = -1) -> list[str]:
        """The cells of a line, all past ``most`` in one; without a header a line says itself what separates them."""
        delimiter = _delimiter(line) if self.names is None else self.delimiter
        # where semicolons separate the cells a comma is a decimal point
        return _split(line.replace(",", ".") if delimiter == ";" else line, delimiter, most)

    def shown_names(self) -> tuple[str, ...] | None:
        # a first line that may be a record after all is not quoted
        doubtful = self.names is None or any(re.search(r"\d{3}|\d\.\d", name) for name in self.names)
        return None if doubtful or not self.plain_header else self.names

    def holds_clock_times(self, column: int) -> bool:
        return self.clock

    def numbers(self, columns: list[int], clock: bool) -> Array:
        every, width, longer = columns == list(range(self.width)), self.width, self.longer
        missing = [math.nan] * len(columns)
        out = buffer("d")
        for line in self._lines():
            cells = self._cells(line, width + 1)
            if len(cells) != width and not (longer and len(cells) > width):
                out.extend(missing)
                continue
            picked = cells if every and not longer else [cells[column] for column in columns]
            try:
                out.extend([seconds(cell) for cell in picked] if clock else [float(cell) for cell in picked])
            except ValueError:
                out.extend([number(cell) for cell in picked])
        return np.frombuffer(out, dtype=np.float64).reshape(self.records, len(columns))

    def texts(self, column: int) -> list[str]:
        found = []
        for line in self._lines():
            cells = self._cells(line, self.width + 1)
            whole = len(cells) == self.width or (self.longer and len(cells) > self.width)
            found.append(cells[column].strip() if whole else "")
        return found


def _delimiter(line: str) -> str | None:
    """What separates the cells of this line: semicolons, else tabs, else commas, else blanks."""
    return next((mark for mark in (";", "\t", ",") if mark in line and len(_split(line, mark, 1)) > 1), None)


def _split(line: str, delimiter: str | None, most: int = -1) -> list[str]:
    if '"' not in line:
        return line.split(delimiter, most)
    try:
        if delimiter is None:
            return next(csv.reader([line.strip()], delimiter=" ", skipinitialspace=True))
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error:
        return []
