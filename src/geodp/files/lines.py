"""Records in the lines of a text file.

One line is one record. Only the caller and the header decide how lines are read, so no record changes how another is read.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from array import array as buffer
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast, final

import numpy as np
from numpy.typing import NDArray

from geodp.files.cells import is_doubtful, is_header, number, seconds
from geodp.files.messages import FileError, excerpt
from geodp.files.options import ReadOptions
from geodp.files.table import MOST_COLUMNS, Table
from geodp.inputs import Array

_BLOCK = 1 << 22


@final
@dataclass(frozen=True)
class Lines:
    """The lines of a text file, perhaps compressed by gzip, or of a range of its bytes."""

    path: Path
    start: int = 0
    stop: int | None = None

    @property
    def suffix(self) -> str:
        """The ending of the file's name, without ``.gz``."""
        plain = self.path.with_suffix("") if self.packed else self.path
        return plain.suffix.lower()

    @property
    def packed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    def open(self) -> BinaryIO:
        if self.stop is not None:
            with self.path.open("rb") as file:
                file.seek(self.start)
                return io.BytesIO(file.read(self.stop - self.start))
        return cast(BinaryIO, gzip.open(self.path)) if self.packed else self.path.open("rb")

    def blocks(self, encoding: str) -> Iterator[list[str]]:
        """The lines, in lists of a few megabytes."""
        if self.start and encoding == "utf-8-sig":
            encoding = "utf-8"  # only the beginning of a file can have a byte order mark
        # an invalid byte is private data too: it must not raise
        with self.open() as file, io.TextIOWrapper(file, encoding=encoding, errors="replace") as text:
            while block := text.readlines(_BLOCK):
                yield block


@final
@dataclass(frozen=True)
class LineFormat:
    """How the lines of a file are read. Decided by the caller and the header alone."""

    encoding: str
    names: tuple[str, ...] | None
    #: The separator of cells. None means blanks or, without a header, the separator that each line shows itself.
    delimiter: str | None
    #: The number of cells in a line; the least number if ``longer``.
    width: int
    longer: bool
    #: Whether the first line holds only names.
    plain_header: bool

    @property
    def start(self) -> int:
        """The number of the first line that is a record."""
        return int(self.names is not None)

    def cells(self, line: str, most: int = -1) -> list[str]:
        """The cells of a line; all beyond ``most`` stay in one. Without a header each line shows its own separator."""
        delimiter = _delimiter(line) if self.names is None and self.delimiter is None else self.delimiter
        if delimiter is None and self.width == 1 and not self.longer:
            delimiter = ","  # the line is one cell, so a blank is part of it: 1:45 PM
        # between semicolons, a comma is a decimal point
        return _split(line.replace(",", ".") if delimiter == ";" else line, delimiter, most)


class CsvTable(Table):
    """Lines of cells. Every line is one record: a quotation mark left open ends with its line."""

    def __init__(self, lines: Lines, form: LineFormat, records: int, public: bool = False) -> None:
        self.path, self.lines, self.form, self.records = lines.path, lines, form, records
        self.names, self.widths = form.names, (1,) * form.width
        # only a public file may be looked at here: the cells of private records decide nothing
        self.clock = public and any(":" in line for line in islice(self._records(), 1))

    def shown_names(self) -> tuple[str, ...] | None:
        doubtful = self.names is None or any(map(is_doubtful, self.names))
        return None if doubtful or not self.form.plain_header else self.names

    def holds_clock_times(self, column: int) -> bool:
        return self.clock

    def read(self, columns: list[int], clock: bool, labels: list[int]) -> tuple[Array, list[NDArray[Any]]]:
        width, longer = self.form.width, self.form.longer
        every = columns == list(range(width))
        missing = [math.nan] * len(columns)
        out, found = buffer("d"), [[""] * self.records for _ in labels]
        for row, line in enumerate(self._records()):
            cells = self.form.cells(line, width + 1)
            if len(cells) != width and not (longer and len(cells) > width):
                out.extend(missing)
                continue
            for column, texts in zip(labels, found, strict=True):
                texts[row] = cells[column]
            picked = cells if every and not longer else [cells[column] for column in columns]
            try:
                out.extend([seconds(cell) for cell in picked] if clock else [float(cell) for cell in picked])
            except ValueError:
                out.extend([number(cell) for cell in picked])
        numbers = np.frombuffer(out, dtype=np.float64).reshape(self.records, len(columns))
        return numbers, [np.array(texts, dtype=object) for texts in found]

    def _records(self) -> Iterator[str]:
        lines = (line for block in self.lines.blocks(self.form.encoding) for line in block)
        # only the first range of bytes has the header
        start = self.form.start if self.lines.start == 0 else 0
        return islice(lines, start, start + self.records)


def open_csv(path: Path, options: ReadOptions) -> CsvTable:
    lines = Lines(path)
    encoding = _encoding(lines, options)
    first, count = _survey(lines, encoding, options.public)
    form = line_format(lines, encoding, first, count, options)
    return CsvTable(lines, form, count - form.start, options.public)


def _encoding(lines: Lines, options: ReadOptions) -> str:
    with lines.open() as file:
        # without a header the byte order mark would be part of a record
        utf16 = options.header is not False and file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    return "utf-16" if utf16 else "utf-8-sig"


def _survey(lines: Lines, encoding: str, public: bool) -> tuple[str, int]:
    """The first line and the number of lines. Blank lines at the end count, unless the file is public."""
    first, read, last = "", 0, 0
    for block in lines.blocks(encoding):
        first = first if read else block[0]
        if public:
            last = max((read + i for i, line in enumerate(block, 1) if not line.isspace()), default=last)
        read += len(block)
    return first, last if public else read


def line_format(lines: Lines, encoding: str, first: str, count: int, options: ReadOptions) -> LineFormat:
    """How the ``count`` lines of a file are read; raises if its header is unclear."""
    path = lines.path
    if count == 0 and (options.public or options.header is not False):
        raise FileError(f"{path} is empty: its first line must name the columns")
    title = first.strip().lstrip("# ")
    tabs = "\t" if lines.suffix == ".tsv" else None
    delimiter = tabs or _delimiter(title)
    cells = [cell.strip() for cell in _split(title, delimiter)]
    plain = is_header(cells)
    header = plain if options.public else options.header is not False
    if header and options.header is None and not plain:
        _check_names(path, cells, count, options)
    if not header:
        form = LineFormat(encoding, None, tabs, 0, options.columns is not None, plain)
        if options.public:
            return LineFormat(encoding, None, tabs, len(form.cells(first)), False, plain)
        return LineFormat(encoding, None, tabs, _width(path, options), form.longer, plain)
    if delimiter is None and len(cells) > 1 and not first.startswith("#") and 1 in options.widths:
        hint = "separate the names by commas, or put the one name in quotation marks"
        raise FileError(f"the header of {path} may name {len(cells)} columns, or one column whose name has blanks: {hint}")
    return LineFormat(encoding, tuple(cells), delimiter, len(cells), False, plain)


def _check_names(path: Path, cells: list[str], lines: int, options: ReadOptions) -> None:
    """Raises unless the caller names columns of this line. Not called if the line holds only names."""
    if options.names and options.names <= set(cells):
        return
    flipped = lines in options.widths and len(cells) not in options.widths
    raise FileError(
        f"the first line of {path} must name the columns, but it has a number or an empty cell: write names above the "
        "records, or say header=False (--no-header) if it is a record, header=True (--header) if these are the names"
        + (f"; with {lines} lines of {len(cells)} cells it looks transposed: write one record a line" if flipped else "")
    )


def _width(path: Path, options: ReadOptions) -> int:
    """The number of cells in a line without a header; if columns were chosen, the least number."""
    if options.columns is None:
        if options.labels:
            raise FileError(f"{path} is read without a header: say which columns hold coordinates, such as columns='0, 1'")
        return options.width(path, "has no header")
    positions = [str(column) for column in (*options.columns, *options.labels)]
    for position in positions:
        if not position.isdecimal() or int(position) >= MOST_COLUMNS:
            raise FileError(f"{path} is read without a header: pick columns by position from 0, not {excerpt(position)}")
    return 1 + max(map(int, positions), default=0)


def _delimiter(line: str) -> str | None:
    """The separator of the cells of this line: semicolons, else tabs, else commas, else blanks."""
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
