"""Counts of records: how many are valid, inside a ball, beyond a radius, or below a threshold.

Each record is looked at by itself, in floats: whatever that says about it, replacing one record changes each count by at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from geodp.compute.passes import best_evaluator
from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.records.sums import sum_over


@final
@dataclass(frozen=True)
class Coverage:
    """How many records are points of the manifold, and how many of them are in the ball: two numbers.

    *Sensitivity.* Replacing one record changes each number by at most 1, so the pair moves by at most the root of two.
    """

    domain: Ball

    kind: ClassVar[str] = "coverage"
    words: ClassVar[str] = "the two counts"

    @property
    def place(self) -> Ball:
        return self.domain

    @property
    def codomain(self) -> Manifold:
        return Euclidean(2)

    @property
    def ball(self) -> None:
        """None: the counts themselves are in no ball."""

    @property
    def tolerance(self) -> float:
        return 0.0

    def sensitivity(self, n: int) -> float:
        return math.sqrt(2.0) * (1.0 + 1e-15)

    def check(self, n: int) -> None:
        """Counts can always be computed."""

    def compute(self, x: Any, n: int) -> Array:
        ball = self.domain

        def counts(records: Array) -> Array:
            return np.array([ball.manifold.valid(records).sum(), ball.contains(records).sum()], dtype=np.float64)

        return sum_over(x, ball.manifold, counts)


def normal_coordinates(ball: Ball, records: Array, count: int | None = None) -> Array:
    """Coordinates of ``log`` at the centre, a row a record, of length at most the radius (to 1e-15); zero for what is no point.

    A function of each record and its place, in floats, so that counts and sums of it need no tolerance for how it rounds.
    ``count`` is the number of records in all, of which these may be a part: it decides whether compiled code is worth loading.
    That may clip the records in place.
    """
    evaluator = best_evaluator(ball.manifold, len(records) if count is None else count)
    with np.errstate(all="ignore"):
        return evaluator.coordinates(ball, records)


def beyond(x: Any, center: Ball, radii: Array) -> list[int]:
    """For each radius, how many records are farther from the centre than that; invalid records are not."""

    # as many records as have a length of at most t, counted at each t
    def within(records: Array) -> Array:
        length = np.sort(np.linalg.vector_norm(normal_coordinates(center, records), axis=-1))
        return np.append(np.searchsorted(length, radii, side="right"), len(records)).astype(np.float64)

    counts = sum_over(x, center.manifold, within)
    return [int(counts[-1] - count) for count in counts[:-1]]


def below(x: Any, ball: Ball, directions: Array, thresholds: Array) -> list[list[int]]:
    """For each direction (a row) and threshold, how many records have a coordinate along it below that."""

    def counts(records: Array) -> Array:
        along = np.sort(normal_coordinates(ball, records) @ directions.T, axis=0)
        return np.stack([np.searchsorted(column, thresholds) for column in along.T]).astype(np.float64)

    return [[int(count) for count in row] for row in sum_over(x, ball.manifold, counts)]


@final
@dataclass(frozen=True)
class TangentMean:
    """The mean of the records' normal coordinates at the centre of a ball, each clipped to its radius: a vector.

    *Sensitivity.* Every record contributes a vector of length at most ``r``, a function of that record alone: the mean moves by
    at most ``2 r/n``. *Tolerance*: the rounding of the sum. So the ball may be as wide as one likes.
    """

    domain: Ball

    kind: ClassVar[str] = "tangent mean"
    words: ClassVar[str] = "the mean of the normal coordinates"

    @property
    def place(self) -> Ball:
        return self.domain

    @property
    def codomain(self) -> Manifold:
        return Euclidean(self.domain.manifold.dim)

    @property
    def ball(self) -> Ball:
        return Ball(self.codomain, np.zeros(self.domain.manifold.dim), self.domain.radius)

    @property
    def tolerance(self) -> float:
        # sums over chunks of at most a few million records, and over the chunks: pairwise within, plain between
        return 1e-9 * self.domain.radius

    def sensitivity(self, n: int) -> float:
        return 2.0 * self.domain.radius / n * (1.0 + 1e-15)

    def check(self, n: int) -> None:
        """Sums can always be computed."""

    def compute(self, x: Any, n: int) -> Array:
        total = sum_over(x, self.domain.manifold, lambda records: normal_coordinates(self.domain, records, n).sum(axis=0))
        return total / n
