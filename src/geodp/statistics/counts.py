"""Counts of records: how many are valid, inside a ball, beyond a radius, or in a cell.

Each record is examined by itself, in floats, so replacing one record changes each count by at most 1, whatever its values.
If persons have several records, a person contributes the mean over their records: for example the share of valid ones,
or one vector instead of several.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from geodp.inputs import Array
from geodp.manifolds.ball import Ball
from geodp.records.sums import medians, sum_over
from geodp.solver.passes import Evaluator, best_evaluator

#: Fewer records than this are computed together with others.
_FEW = 16


@final
class NormalCoordinates:
    """A function of records: coordinates of ``log`` at the centre, one row a record, of length at most the radius (to 1e-15).

    A record that is not a point gives zero. A row depends only on its record and its position, so counts and sums of rows need no
    tolerance for rounding. ``count`` is the total number of records; it decides once for all of them how to compute. The
    records may be clipped in place.
    """

    def __init__(self, ball: Ball, count: int) -> None:
        self._ball, self._count = ball, count
        self._evaluator = best_evaluator(ball.manifold, count)

    def __call__(self, records: Array) -> Array:
        count, ball = len(records), self._ball
        if count < _FEW:
            # linear algebra treats a batch of one differently from many, and rounds differently
            more = np.empty((_FEW, *ball.manifold.point_shape))
            more[:count], more[count:] = records, ball.center
            records = more
        records = np.ascontiguousarray(records)  # the order of sums depends on the layout in memory
        with np.errstate(all="ignore"):
            return self._evaluator.coordinates(ball, records)[:count]

    def __reduce__(self) -> Any:
        """Makes other processes compute in the same way, because other ways would round differently."""
        return _coordinates_by, (self._ball, self._count, type(self._evaluator))


def _coordinates_by(ball: Ball, count: int, kind: type[Evaluator]) -> NormalCoordinates:
    made = NormalCoordinates.__new__(NormalCoordinates)
    made._ball, made._count, made._evaluator = ball, count, kind(ball.manifold)
    return made


def beyond(x: Any, center: Ball, radii: Array, n: int) -> list[int]:
    """For each radius, how many of ``n`` records are farther from the centre than that; invalid records are not.

    A person counts at the median distance of their records, because a ball for persons should contain their records.
    """

    coordinates = NormalCoordinates(center, n)

    def lengths(records: Array) -> Array:
        rows = coordinates(records)
        squares = np.zeros((len(rows), 1))
        for i in range(rows.shape[1]):
            squares[:, 0] += rows[:, i] * rows[:, i]
        return np.sqrt(squares)

    # count the records of length at most t, for each t
    def within(rows: Array) -> Array:
        return np.searchsorted(np.sort(rows[:, 0]), radii, side="right").astype(np.float64)

    counts = sum_over(x, center.manifold, lengths, n, within, medians)
    return [n - int(count) for count in counts]
