"""What an experiment of the study is: independent seeded tasks, tables made of their results, figures and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from geodp.study.table import Table

#: The parameters of one task: everything its result depends on besides the seed.
Task = Mapping[str, str | int | float]
Tables = Mapping[str, Table]

#: The numbers of records of the paper's Figure 1.
PAPER_COUNTS = tuple(range(25, 501, 25))


@final
@dataclass(frozen=True)
class Settings:
    """How much work to do. Only the amount of averaging differs between the quick and the full study, and some grids."""

    name: str
    counts: tuple[int, ...]
    """Numbers of records for Figure 1."""
    replicates: int
    """Simulated data sets for each of them."""
    pairs: int
    """Pairs of neighbours for each of them."""
    draws: int
    """Draws of noise behind an average that should be precise."""
    releases: int
    """Releases through the whole program, exact noise included."""
    chains: int
    """Markov chains run side by side."""
    steps: int
    """Steps of a Markov chain."""
    grid: int
    """Points of a curve."""


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
    """One experiment. ``work`` runs in another process, with a generator that depends on seed, experiment and task alone.

    Its figures are drawn by the function of the same name in :mod:`geodp.study.figures`. Tables whose name ends in ``times``
    hold measured durations; all others are the same for the same seed.
    """

    name: str
    title: str
    about: str
    """What of the paper it reproduces, and what beyond."""
    how: str
    """How the numbers were obtained."""
    tasks: Callable[[Settings], list[Task]]
    work: Callable[[Task, np.random.Generator], Tables]
    claims: Callable[[Tables], list[Claim]]
    finish: Callable[[Tables], Tables] = lambda tables: tables
    """Tables from the joined results of all tasks."""
    notes: Callable[[Tables], list[str]] = lambda _: []
    """Paragraphs on what was found, with the measured numbers."""
