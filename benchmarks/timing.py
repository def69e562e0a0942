"""Times, tables, and the limits of the machine they are held against."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np


def best_seconds(*actions: Callable[[], object], rounds: int = 5) -> list[float]:
    """The fastest of several rounds for each action, the actions taking turns, so that a busy machine slows all of them."""
    best = [float("inf")] * len(actions)
    for _ in range(rounds):
        for i, action in enumerate(actions):
            start = time.perf_counter()
            action()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


class Cell(NamedTuple):
    """What a table shows, and the number behind it."""

    text: str
    value: float | None = None


def duration(seconds: float) -> Cell:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return Cell(f"{seconds / size:.3g} {unit}", seconds)
    return Cell(f"{seconds / 1e-9:.3g} ns", seconds)


def times(ratio: float) -> Cell:
    return Cell(f"{ratio:,.0f}x" if ratio >= 100.0 else f"{ratio:.3g}x", ratio)


def number(value: float, form: str = ",.0f") -> Cell:
    return Cell(format(value, form), value)


@dataclass(frozen=True)
class Table:
    """Side-by-side measurements of one run."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        rows = [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in self.rows]
        cells = [[{"text": cell.text, "value": cell.value} for cell in row] for row in rows]
        return {"title": self.title, "header": list(self.header), "rows": cells, "note": self.note}


def markdown(table: dict[str, Any]) -> str:
    """A table, from :meth:`Table.to_dict`, as text."""
    rows = [[cell["text"] for cell in row] for row in table["rows"]]
    lines = [table["header"], ["---"] * len(table["header"]), *rows]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join(part for part in (f"**{table['title']}**", text, table["note"]) if part)


@cache
def bytes_per_second() -> float:
    """What one core reads from memory: the fastest of some scalar products of 256 MB with themselves, one BLAS thread."""
    from threadpoolctl import threadpool_limits

    x = np.ones(1 << 25)
    with threadpool_limits(1, user_api="blas"):
        (seconds,) = best_seconds(lambda: x @ x, rounds=7)
    return x.nbytes / seconds
