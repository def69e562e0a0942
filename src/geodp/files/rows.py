"""Records in which every cell has its own type: lines of JSON, and the rows of a spreadsheet.

As in other text files, one row is one record, and nothing outside the row changes how it is read.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import warnings
from abc import abstractmethod
from array import array as buffer
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from geodp.files.cells import as_objects, flat, is_doubtful, is_header, number, seconds
from geodp.files.lines import Lines
from geodp.files.messages import FileError, listed
from geodp.files.options import ReadOptions
from geodp.files.table import Table
from geodp.inputs import Array

#: How many rows a sheet of Excel may have.
_MOST_ROWS = 1 << 20


class RowTable(Table):
    """Rows of cells. Every method reads the file again."""

    @abstractmethod
    def rows(self) -> Iterator[Sequence[Any] | None]:
        """The cells of each row, one a column, or None for a row that is not a record."""

    def holds_clock_times(self, column: int) -> bool:
        return False  # only the cells have types, not the columns

    def read(self, columns: list[int], clock: bool, labels: list[int]) -> tuple[Array, list[NDArray[Any]]]:
        missing = [math.nan] * sum(self.widths[i] for i in columns)
        out = buffer("d")
        found: list[list[Any]] = [[] for _ in labels]
        for row in self.rows():
            for column, cells in zip(labels, found, strict=True):
                cells.append(None if row is None else row[column])
            if row is None:
                out.extend(missing)
                continue
            for i in columns:
                if self.widths[i] > 1:
                    out.extend(flat(row[i], self.widths[i]))
                else:
                    out.append(seconds(row[i]) if clock else number(row[i]))
        return np.frombuffer(out, dtype=np.float64).reshape(self.records, len(missing)), list(map(as_objects, found))


# ---------------------------------------------------------------------- lines of JSON


@final
class JsonTable(RowTable):
    """One JSON value a line: an object whose fields are the columns, or an array."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path, self.lines = path, Lines(path)
        self.records = sum(len(block) for block in self._blocks())
        arrays = options.header is False or options.public
        if options.columns is None and not arrays:
            raise FileError(
                f"{path} has no header: name the fields to read, such as columns='lat, lon' (--columns), or say header=False "
                "(--no-header) if every line is an array"
            )
        self.names = None if arrays else tuple(dict.fromkeys(str(name) for name in (*(options.columns or ()), *options.labels)))
        if arrays and options.columns is not None:
            raise FileError(
                f"{path} is read without a header, so each line is an array with one whole record: leave out columns= (--columns)"
            )
        if self.names is None:
            self.widths = (self._longest() if options.public else options.width(path, "has no header"),)
        else:
            coordinates = [str(name) for name in options.columns or ()]
            width = options.width(path, "has no types") if len(coordinates) == 1 else 1
            self.widths = tuple(width if [name] == coordinates else 1 for name in self.names)

    def _blocks(self) -> Iterator[list[str]]:
        return self.lines.blocks("utf-8-sig")

    def _longest(self) -> int:
        """The number of numbers in the first line of a public file."""
        row = next(self.rows(), None)
        value = [] if row is None else row[0]
        return int(np.size(np.array(value, dtype=object)))

    def rows(self) -> Iterator[Sequence[Any] | None]:
        for block in self._blocks():
            for line in block:
                yield self._row(line)

    def _row(self, line: str) -> Sequence[Any] | None:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if self.names is None:
            return (value,)
        return [value.get(name) for name in self.names] if isinstance(value, dict) else None


# ---------------------------------------------------------------------- spreadsheets


@final
class SheetTable(RowTable):
    """The rows of a sheet of an Excel file. The first row names the columns, unless the caller says that it is a record."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path: Path = path
        self._sheet = _sheet_name(path)
        self._start = 0
        with closing(self._stored()) as rows:
            cells = ["" if cell is None else str(cell).strip() for cell in next(rows, ())]
        while cells and not cells[-1]:
            cells.pop()
        plain = is_header(cells)
        header = plain if options.public else options.header is not False
        if header and options.header is None and not plain and not (options.names and options.names <= set(cells)):
            raise FileError(
                f"the first row of {path} must name the columns, but it has a number or an empty cell: write names above the "
                "records, or say header=False (--no-header) if it is a record, header=True (--header) if these are the names"
            )
        self._shown = plain and not any(map(is_doubtful, cells))
        self._start = int(header)
        self.names = tuple(cells) if header else None
        self.widths = (1,) * (len(cells) if header or options.public else _width(path, options))
        with closing(self._stored()) as rows:
            self.records = sum(1 for _ in rows)

    def shown_names(self) -> tuple[str, ...] | None:
        return self.names if self._shown else None

    def rows(self) -> Iterator[Sequence[Any] | None]:
        width = len(self.widths)
        with closing(self._stored()) as rows:
            for row in rows:
                yield (*row, *(None,) * (width - len(row)))

    def _stored(self) -> Generator[Sequence[Any]]:
        """The rows as they are stored, including empty ones at the end."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning may quote a cell
            book = _workbook(self.path)
            try:
                for i, row in enumerate(_rows_of(book[self._sheet])):
                    if i >= self._start:
                        yield row
            except Exception:
                raise _damaged(self.path) from None
            finally:
                book.close()


def _rows_of(sheet: Any) -> Iterator[Sequence[Any]]:
    """The rows of a sheet. A cell that openpyxl cannot convert is empty: its own loop would give up the whole sheet."""
    reader = importlib.import_module("openpyxl.worksheet._reader")
    book, place, strings = attrgetter("parent", "_worksheet_path", "_shared_strings")(sheet)
    archive, dates, spans = attrgetter("_archive", "_date_formats", "_timedelta_formats")(book)
    done = 0
    with archive.open(place) as source:
        parser = reader.WorkSheetParser(source, strings, True, book.epoch, dates, spans)
        for _, element in reader.iterparse(source):
            if element.tag != reader.ROW_TAG:
                continue
            number = element.get("r", "")
            place = min(int(number), _MOST_ROWS) if number.isdecimal() else done + 1
            yield from ((),) * (place - done - 1)
            done = max(done + 1, place)
            yield _cells_of(parser, element)
            element.clear()
    yield from ((),) * ((sheet.max_row or 0) - done)


def _cells_of(parser: Any, row: Any) -> list[Any]:
    """The cells of a row, each read by itself and put into its column."""
    cells: list[Any] = []
    for element in row:
        letters = re.match("[A-Z]{1,3}", element.get("r", ""))
        column = _column_number(letters[0]) if letters else len(cells) + 1
        cells += [None] * (column - len(cells))
        with suppress(Exception):
            cells[column - 1] = parser.parse_cell(element)["value"]
    return cells


def _column_number(letters: str) -> int:
    return sum((ord(letter) - 64) * 26**i for i, letter in enumerate(reversed(letters)))


def _width(path: Path, options: ReadOptions) -> int:
    if options.columns is None and options.labels:
        raise FileError(f"{path} is read without a header: say which columns hold coordinates, such as columns='0, 1'")
    positions = [int(text) for text in map(str, (*(options.columns or ()), *options.labels)) if text.isdecimal()]
    return 1 + max(positions, default=-1) if options.columns is not None else options.width(path, "has no header")


def _sheet_name(path: Path) -> str:
    book = _workbook(path)
    names: list[str] = list(book.sheetnames)
    book.close()
    likely = names if len(names) == 1 else [name for name in names if name.lower() in ("x", "records")]
    if len(likely) != 1:
        raise FileError(f"{path} has {len(names)} sheets ({listed(names)}): call the one with the records x or records")
    return likely[0]


def _workbook(path: Path) -> Any:
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise FileError(f"reading {path} needs openpyxl: pip install 'geodp[excel]', or save it as CSV") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception:
        raise _damaged(path) from None


def _damaged(path: Path) -> FileError:
    return FileError(f"{path} is not an Excel file that openpyxl can read: save it as CSV")
