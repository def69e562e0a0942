"""What a cell of text holds. None of these functions raises, whatever it is."""

from __future__ import annotations

import math
import re

#: Seconds.
DAY = 24.0 * 60.0 * 60.0

#: HH:MM or HH:MM:SS
CLOCK = re.compile(r"\s*(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:\.\d*)?))?\s*", re.ASCII)
_MISSING = frozenset({"na", "n/a", "nil", "none", "null", "missing"})


def number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def seconds(cell: str | None) -> float:
    """Seconds since midnight, or NaN."""
    time = CLOCK.fullmatch(cell or "")
    if time is None:
        return math.nan
    total = 3600.0 * int(time[1]) + 60.0 * int(time[2]) + float(time[3] or 0.0)
    return total if total <= DAY else math.nan


def _is_name(cell: str) -> bool:
    return any(map(str.isalpha, cell)) and cell.lower() not in _MISSING and not is_value(cell)


def is_value(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return CLOCK.fullmatch(cell) is not None
    return True


def is_header(cells: list[str]) -> bool:
    # pandas numbers nameless columns, after a nameless one for its index
    numbered = len(cells) > 2 and cells == ["", *map(str, range(len(cells) - 1))]
    return numbered or (any(map(_is_name, cells)) and not any(map(is_value, cells)))
