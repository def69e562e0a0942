"""Reading single cells. These functions never raise, whatever the cell holds."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

#: Seconds.
DAY = 24.0 * 60.0 * 60.0

#: A time of day. An ISO date before it and a time zone after it are ignored: 13:45, 1:45:30 PM, 2024-05-01T13:45Z
CLOCK = re.compile(
    r"\s*(?:\d{4}-\d\d-\d\d[T ]\s*)?(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:[.,]\d*)?))?(?:\s*([ap])\.?m\.?)?"
    r"\s*(?:Z|[+-]\d\d(?::?\d\d)?)?\s*",
    re.ASCII | re.IGNORECASE,
)
_MISSING = frozenset({"na", "n/a", "nil", "none", "null", "missing"})


def number(cell: Any) -> float:
    """The number in a cell, or NaN. True and False are not numbers."""
    if isinstance(cell, bool | np.bool_):
        return math.nan
    try:
        return float(cell)
    except Exception:  # of any object there is
        return math.nan


def seconds(cell: Any) -> float:
    """Seconds since midnight, or NaN."""
    if isinstance(cell, datetime | time):
        return 3600.0 * cell.hour + 60.0 * cell.minute + cell.second + 1e-6 * cell.microsecond
    if isinstance(cell, timedelta):  # some databases return a time of day like this
        return _within_a_day(cell.total_seconds())
    found = CLOCK.fullmatch(cell) if isinstance(cell, str) else None
    if found is None:
        return math.nan
    hours = int(found[1])
    if found[4]:
        if not 1 <= hours <= 12:
            return math.nan
        hours = hours % 12 + (12 if found[4].lower() == "p" else 0)
    return _within_a_day(3600.0 * hours + 60.0 * int(found[2]) + float((found[3] or "0").replace(",", ".")))


def _within_a_day(total: float) -> float:
    return total if 0.0 <= total <= DAY else math.nan


def flat(cell: Any, width: int) -> list[float]:
    """The ``width`` numbers in a list, which may be nested; all NaN if there are more or fewer."""
    found: list[Any] = []
    try:
        _collect(cell, found, width)
    except Exception:  # any object may raise anything, and deep lists exceed the recursion limit
        found = []
    return [number(entry) for entry in found] if len(found) == width else [math.nan] * width


def _collect(cell: Any, found: list[Any], most: int) -> None:
    if isinstance(cell, np.ndarray):
        cell = cell.tolist() if cell.size <= most else []
    if not isinstance(cell, list | tuple):
        found.append(cell)
        return
    for entry in cell:
        _collect(entry, found, most)
        if len(found) > most:
            return


def text_of(cell: Any) -> Any:
    """Bytes as a text that differs for different bytes, also if they are not UTF-8; any other cell unchanged."""
    return cell.decode("utf-8", "surrogateescape") if isinstance(cell, bytes) else cell


def as_objects(cells: Sequence[Any]) -> NDArray[Any]:
    """Labels as an array of objects, so that one text among numbers does not turn them all into texts."""
    labels = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):  # not at once: lists would become further axes
        labels[i] = cell
    return labels


def clock_seconds(count: NDArray[np.int64], unit: str, zone: str | None, duration: bool) -> NDArray[np.float64]:
    """Seconds since midnight of times that are whole numbers of a unit, in UTC; NaN for durations of more than a day."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    if duration:
        total = count / per_second
        return np.where((total >= 0.0) & (total <= DAY), total, math.nan)
    if zone not in (None, "UTC"):
        ahead = np.array([_offset(int(moment), zone) for moment in count // per_second], dtype=np.int64)
        count = count % (int(DAY) * per_second) + ahead * per_second  # cut to a day before, so that nothing overflows
    return (count % (int(DAY) * per_second)) / per_second


def _offset(moment: int, zone: str) -> int:
    """The seconds by which clocks in a time zone are ahead of UTC; 0 in years that Python does not have."""
    try:
        offset = datetime.fromtimestamp(moment, ZoneInfo(zone)).utcoffset()
        return 0 if offset is None else round(offset.total_seconds())
    except Exception:
        return 0


def _is_name(cell: str) -> bool:
    return any(map(str.isalpha, cell)) and cell.lower() not in _MISSING and not is_value(cell)


def is_value(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return CLOCK.fullmatch(cell) is not None
    return True


def is_header(cells: list[str]) -> bool:
    # pandas leaves the name of its index empty and numbers columns that have no names
    numbered = len(cells) > 2 and cells == ["", *map(str, range(len(cells) - 1))]
    return numbered or (any(map(_is_name, cells)) and not any(map(is_value, cells)))


def is_doubtful(name: str) -> bool:
    """Whether a name in a header may really be a cell of a record. Such names are not quoted."""
    return re.search(r"\d{3}|\d\.\d", name) is not None
