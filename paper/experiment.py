"""What experiments have in common.

An experiment is a module. Its docstring has three paragraphs: a title, what it reproduces and adds, and how its numbers were
obtained. It has these functions:

- ``tasks(settings)``: the arguments of independent tasks;
- ``work(rng, **task)``: one task, which returns rows for each of its tables, in a process of its own;
- ``claims(tables)``: what the experiment must show;
- ``derived(tables)``, if there is one: adds tables that are computed from those of all tasks;
- ``notes(tables)``, if there is one: paragraphs on what was found.

Its figures are drawn by the function of the same name in ``paper/figures.py``. A table whose name ends in ``times`` holds
measured durations; all others are the same for the same seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from geodp.inputs import Array

#: The arguments of one task. Its result depends on these, the seed and the place of the task, and on nothing else.
Task = dict[str, Any]
Rows = dict[str, list[dict[str, Any]]]
Tables = dict[str, pd.DataFrame]

#: The numbers of records of the paper's Figure 1.
PAPER_COUNTS = tuple(range(25, 501, 25))


@dataclass(frozen=True)
class Settings:
    """How much work to do. The quick and the full study differ only in the amount of averaging and in some grids."""

    name: str
    counts: tuple[int, ...]
    """The numbers of records n in Figure 1."""
    replicates: int
    """The number of simulated data sets for each n."""
    pairs: int
    """The number of pairs of neighbours for each n."""
    draws: int
    """The number of draws of noise for a precise average."""
    releases: int
    """The number of releases through the whole program, with exact noise."""
    chains: int
    """The number of Markov chains run in parallel."""
    steps: int
    """The number of steps of a Markov chain."""
    grid: int
    """The number of points of a curve."""


QUICK = Settings("quick", PAPER_COUNTS, 1000, 60, 40_000, 10, 600, 10_000, 48)
FULL = Settings("full", PAPER_COUNTS, 1000, 1000, 1_000_000, 200, 4000, 10_000, 192)


class Claim(NamedTuple):
    """Something the study must show: the sentence, what was measured, and whether it holds."""

    sentence: str
    measured: str
    holds: bool


def where(table: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    """The rows whose named cells equal the wanted ones, numbered anew."""
    for name, value in wanted.items():
        table = table[table[name] == value]
    return table.reset_index(drop=True)


def standard_error(values: Array) -> float:
    """The standard error of the mean of independent values."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def span(values: Any, form: str = ".4f") -> str:
    """The smallest and the largest value, in words."""
    return f"{np.min(values):{form}} to {np.max(values):{form}}"
