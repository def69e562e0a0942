"""Records in the lines of a text file."""

from __future__ import annotations

import csv
import math
from array import array as buffer
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from geodp.files.cells import is_header, is_value, number, seconds
from geodp.files.messages import FileError
from geodp.files.table import Table
from geodp.manifolds._functions import Array


class CsvTable(Table):
    """Lines of cells. A line is a record whatever it holds: no quotation mark reaches into the next one."""

    def __init__(self, path: Path, wanted: frozenset[str]) -> None:
        self.path = path
        with path.open("rb") as file:
            utf16 = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
        self.encoding = "utf-16" if utf16 else "utf-8-sig"
        self.delimiter: str | None = ","
        first, lines, widths = self._survey()
        if lines == 0:
            raise FileError(f"{path} is empty: it must hold one record a line")
        cells = [cell.strip() for cell in self._cells(first.lstrip("# "))]
        widths[len(self._cells(first))] -= 1
        usual, count = max(widths.items(), key=lambda item: (item[1], item[0]))
        usual = usual if count > 0 else len(cells)
        # a lone word above several columns heads none of them
        self.plain_header = is_header(cells) and (len(cells) > 1 or usual == 1)
        header = self.plain_header or (bool(wanted) and wanted <= set(cells))
        self.names = tuple(cells) if header else None
        self.start, self.stop = int(header), lines
        self.records = lines - self.start
        if self.records == 0:
            raise FileError(f"{path} has a header but no records")
        if header and usual != len(cells) and 2 * count > self.records:
            raise FileError(f"the header of {path} names {len(cells)} columns, but most of its lines have {usual}")
        self.width = len(cells) if header else usual
        self.widths = (1,) * self.width

    def _survey(self) -> tuple[str, int, Counter[int]]:
        """Finds the delimiter; the first line, the number of lines up to the last that is not blank, how many cells they have."""
        first, read, last = "", 0, 0
        counts: dict[str | None, Counter[int]] = {delimiter: Counter() for delimiter in (";", "\t", ",", None)}
        for block in self._blocks():
            first = first if read else block[0]
            blank = [line.isspace() for line in block]
            if not all(blank):
                last = read + len(block) - blank[::-1].index(False)
            read += len(block)
            filled = [line for line, empty in zip(block, blank, strict=True) if not empty]
            quoted = any('"' in line for line in filled)
            for delimiter, counter in counts.items():
                if delimiter is None:
                    # blanks may separate cells only where nothing else does: most files need not be split twice
                    filled = [line for line in filled if not ("," in line or ";" in line or "\t" in line)]
                    counter.update([len(line.split()) for line in filled])
                elif quoted:
                    counter.update([len(_split(line, delimiter)) for line in filled])
                else:
                    counter.update([line.count(delimiter) + 1 for line in filled])
        total = counts[","].total()
        for delimiter, counter in counts.items():
            if 2 * (counter.total() - counter[1]) > total:
                self.delimiter = delimiter
                break
        chosen = counts[self.delimiter]
        return first, last, +chosen

    def _blocks(self) -> Iterator[list[str]]:
        # a byte that is no text is a value like any other: it must not raise
        with self.path.open(encoding=self.encoding, errors="replace") as file:
            while block := file.readlines(1 << 22):
                yield block

    def _lines(self) -> Iterator[str]:
        lines = (line for block in self._blocks() for line in block)
        return islice(lines, self.start, self.stop)

    def _cells(self, line: str) -> list[str]:
        return _split(line, self.delimiter)

    def shown_names(self) -> tuple[str, ...] | None:
        # if it holds a number, or none are under it, the first line may be a record, which no message quotes
        if not self.plain_header:
            return None
        sample = [any(map(is_value, self._cells(line))) for line in islice(self._lines(), 100)]
        return self.names if 2 * sum(sample) > len(sample) else None

    def holds_clock_times(self, column: int) -> bool:
        cells = (self._cells(line) for line in self._lines())
        colons = sum(":" in row[column] for row in cells if len(row) == self.width)
        return 2 * colons > self.records

    def numbers(self, columns: list[int], clock: bool) -> Array:
        every, width, delimiter = columns == list(range(self.width)), self.width, self.delimiter
        missing = [math.nan] * len(columns)
        out = buffer("d")
        for line in self._lines():
            # where semicolons separate the cells a comma is a decimal point
            cells = _split(line.replace(",", ".") if delimiter == ";" else line, delimiter)
            if len(cells) != width:
                out.extend(missing)
                continue
            picked = cells if every else [cells[column] for column in columns]
            try:
                out.extend([seconds(cell) for cell in picked] if clock else [float(cell) for cell in picked])
            except ValueError:
                out.extend([number(cell) for cell in picked])
        return np.frombuffer(out, dtype=np.float64).reshape(self.records, len(columns))


def _split(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return line.split()
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error:
        return []
