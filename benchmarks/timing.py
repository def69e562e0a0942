"""Time two things in turn, so that a busy machine slows both."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def best_seconds(*actions: Callable[[], object], rounds: int = 5) -> list[float]:
    """The fastest of several rounds for each action, the actions taking turns."""
    best = [float("inf")] * len(actions)
    for _ in range(rounds):
        for i, action in enumerate(actions):
            start = time.perf_counter()
            action()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
