"""Counts of records: how many are valid, inside a ball, beyond a radius, or below a threshold.

Each record is looked at by itself, in floats: whatever that says about it, replacing one record changes each count by at most 1.
Where the records are those of persons, a person counts by the mean of what its records say: a share of records that are valid,
say, or one vector instead of several.
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
from geodp.records.sums import medians, sum_over


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

        def valid_and_inside(records: Array) -> Array:
            return np.stack([ball.manifold.valid(records), ball.contains(records)], axis=-1).astype(np.float64)

        return sum_over(x, ball.manifold, valid_and_inside, n)


@final
@dataclass(frozen=True)
class Count:
    """How many records, or persons, there are: one number, which adding or removing one of them changes by 1."""

    kind: ClassVar[str] = "count"
    words: ClassVar[str] = "the count"

    @property
    def place(self) -> Manifold:
        return self.codomain

    @property
    def codomain(self) -> Manifold:
        return Euclidean(1)

    @property
    def ball(self) -> None:
        """None: a count is in no ball."""

    @property
    def tolerance(self) -> float:
        return 0.0

    def sensitivity(self, n: int) -> float:
        return 1.0

    def check(self, n: int) -> None:
        """Counts can always be computed."""


@final
class NormalCoordinates:
    """A function of records: coordinates of ``log`` at the centre, a row a record, of length at most the radius (to 1e-15).

    Zero for what is no point. A row depends on its record and its place alone, so that counts and sums of rows need no tolerance
    for how they round. ``count`` is the number of records in all, by which the way to compute is chosen once for all of them. The
    records may be clipped in place.
    """

    def __init__(self, ball: Ball, count: int) -> None:
        self._ball, self._count = ball, count
        self._evaluator = best_evaluator(ball.manifold, count)

    def __call__(self, records: Array) -> Array:
        with np.errstate(all="ignore"):
            return self._evaluator.coordinates(self._ball, records)

    def __reduce__(self) -> Any:
        """Another process chooses by itself: it may have no compiler."""
        return NormalCoordinates, (self._ball, self._count)


def normal_coordinates(ball: Ball, records: Array) -> Array:
    """The normal coordinates of these records."""
    return NormalCoordinates(ball, len(records))(records)


def beyond(x: Any, center: Ball, radii: Array, n: int) -> list[int]:
    """For each radius, how many of ``n`` records are farther from the centre than that; invalid records are not.

    A person is where the median of the distances of its records is: a ball for persons is to hold their records.
    """

    coordinates = NormalCoordinates(center, n)

    def lengths(records: Array) -> Array:
        return np.linalg.vector_norm(coordinates(records), axis=-1, keepdims=True)

    # as many as have a length of at most t, counted at each t
    def within(rows: Array) -> Array:
        return np.searchsorted(np.sort(rows[:, 0]), radii, side="right").astype(np.float64)

    counts = sum_over(x, center.manifold, lengths, n, within, medians)
    return [n - int(count) for count in counts]


def below(x: Any, ball: Ball, directions: Array, thresholds: Array, n: int) -> list[list[int]]:
    """For each direction (a row) and threshold, how many of ``n`` records have a coordinate along it below that."""

    def counts(rows: Array) -> Array:
        along = np.sort(rows @ directions.T, axis=0)
        return np.stack([np.searchsorted(column, thresholds) for column in along.T]).astype(np.float64)

    table = sum_over(x, ball.manifold, NormalCoordinates(ball, n), n, counts)
    return [[int(count) for count in row] for row in table]


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
        return sum_over(x, self.domain.manifold, NormalCoordinates(self.domain, n), n) / n
