"""The parts of an experiment: independent seeded tasks, tables of their results, figures and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from geodp.study.table import ResultTable

#: The parameters of one task. Its result depends on these and the seed, and on nothing else.
Task = Mapping[str, str | int | float]
Tables = Mapping[str, ResultTable]

#: The numbers of records of the paper's Figure 1.
PAPER_COUNTS = tuple(range(25, 501, 25))


@final
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


@final
@dataclass(frozen=True)
class Claim:
    """Something the study must show: the sentence, what was measured, and whether it holds."""

    sentence: str
    measured: str
    holds: bool


@final
@dataclass(frozen=True)
class Experiment:
    """One experiment. ``work`` runs in another process, with a generator that depends only on seed, experiment and task.

    Its figures are drawn by the function of the same name in :mod:`geodp.study.figures`. Tables whose name ends in ``times``
    hold measured durations; all others are the same for the same seed.
    """

    name: str
    title: str
    about: str
    """What it reproduces from the paper, and what it adds."""
    how: str
    """How the numbers were obtained."""
    tasks: Callable[[Settings], list[Task]]
    work: Callable[[Task, np.random.Generator], Tables]
    claims: Callable[[Tables], list[Claim]]
    derived: Callable[[Tables], Tables] = lambda tables: tables
    """Adds tables that are computed from the joined results of all tasks."""
    notes: Callable[[Tables], list[str]] = lambda _: []
    """Paragraphs on what was found, with the measured numbers."""
