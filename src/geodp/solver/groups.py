"""One pass over the records of many groups, each at its own point: sums of logarithms, one row a group.

The records of a group are consecutive: group ``g`` has the records ``starts[g]`` to ``starts[g + 1]``. As for one mean,
the general evaluator calls the manifold's own maps and the others run compiled loops.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple, cast

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import SPD, FlatChart
from geodp.manifolds.ball import Ball
from geodp.manifolds.functions import spectral, vector_from_symmetric
from geodp.manifolds.spd import cholesky, log_of_whitened
from geodp.solver.compiling import worth_compiled_code
from geodp.solver.passes import (
    NO_WEIGHTS,
    GroupedEvaluator,
    HessianKnown,
    Integers,
    Pass,
    SmallSPD,
    contiguous,
    coordinates_in,
    flat_coordinates,
    follow,
    follow_spd,
    grouped_kind,
    mean_hessian,
    moved_in_chart,
    newton_steps,
    put_coordinates,
)

#: How many numbers are added one after another. A sum of n numbers is a tree of such sums, so its error is this times log(n).
_FAN = 32


class GroupPass(NamedTuple):
    """The result of one pass at the point of each group; zeros for a group without records.

    Tangent vectors are rows of coordinates in the orthonormal frame at the point.
    """

    points: Array
    log: Array  # mean logarithm
    square: Array  # mean squared length
    reach: Array  # largest length
    step: Array  # a step towards the mean, using the Hessian as far as the pass gives it


def segment_sums(values: Array, starts: Integers) -> Array:
    """Sums over consecutive rows, ``(groups, columns)``; the relative error is at most ``32 log_32(n)`` machine epsilons."""
    values, starts = _thinned(np.add, values, starts)
    return _reduced(np.add, values, starts)


def segment_maxima(values: Array, starts: Integers) -> Array:
    """Largest of consecutive non-negative values; 0 for an empty group."""
    return _reduced(np.maximum, values, starts)


def _thinned(operation: np.ufunc, values: Array, starts: Integers) -> tuple[Array, Integers]:
    counts = np.diff(starts)
    while counts.max(initial=0) > _FAN:
        parts = -(-counts // _FAN)
        ends = np.cumsum(parts)
        within = np.arange(ends[-1]) - np.repeat(ends - parts, parts)
        values = operation.reduceat(values, np.repeat(starts[:-1], parts) + _FAN * within, axis=0)
        starts, counts = np.concatenate([[0], ends]), parts
    return values, starts


def _reduced(operation: np.ufunc, values: Array, starts: Integers) -> Array:
    out = np.zeros((len(starts) - 1, *values.shape[1:]))
    filled = starts[1:] > starts[:-1]
    if filled.any():
        out[filled] = operation.reduceat(values, starts[:-1][filled], axis=0)
    return out


class GroupEvaluator(ABC):
    """Computes a :class:`GroupPass` on one manifold, with the same work for every record as far as possible."""

    #: How much passes say about the Hessian: the more, the fewer passes are needed.
    hessian: HessianKnown = "mean"

    def __init__(self, ball: Ball) -> None:
        self.ball, self.manifold = ball, ball.manifold

    @abstractmethod
    def clip(self, records: Array, starts: Integers) -> GroupPass:
        """Clips the records in place and computes their pass at the centre."""

    @abstractmethod
    def evaluate(self, points: Array, records: Array, starts: Integers) -> GroupPass:
        """The pass over records in the ball, at one point for each group."""

    def advance(self, points: Array, steps: Array, records: Array, starts: Integers) -> GroupPass:
        """The pass at the ends of steps, which are moved to the boundary of the ball if outside. A zero step does not move."""
        still = ~steps.any(axis=-1)
        moved = self.manifold.raw_kept_exp(points, self.manifold.raw_tangent(points, steps))
        moved[still] = points[still]
        outside = ~(self.manifold.raw_dist(self.ball.center, moved) <= self.ball.radius)
        if outside.any():
            moved[outside] = self.ball.clip_chunk(moved[outside])
        return self.evaluate(moved, records, starts)

    def follow(self, before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
        """For each group, tangent vectors ``(groups, m, dim)`` moved to another point, and the move of the point, seen there."""
        there = follow(self.manifold, before[:, None], here[:, None], vectors)[0]
        return there, follow(self.manifold, before, here, vectors[:, 0])[1]

    def centers(self, starts: Integers) -> Array:
        """The centre of the ball, once for each group."""
        return np.repeat(self.ball.center[None], len(starts) - 1, axis=0)


def scaled_step(log: Array, square: Array, hessian: Array) -> Array:
    """The gradient step over the Hessian along it."""
    along = along_gradient(log, square, hessian)
    return log / np.where(along > 0.1, along, 1.0)[:, None]  # in a wide ball, far from the mean, the Hessian is useless


def along_gradient(log: Array, square: Array, hessian: Array) -> Array:
    """The Hessian along the gradient from its mean over all directions."""
    with np.errstate(all="ignore"):
        across = np.where(square > 0.0, 1.0 - np.minimum(np.vecdot(log, log) / square, 1.0), 1.0)
    return 1.0 + across * (hessian - 1.0)


def _shares(starts: Integers) -> Array:
    """One over the number of records of each group, 0 for none."""
    counts = np.diff(starts)
    return np.where(counts > 0, 1.0 / np.maximum(counts, 1), 0.0)


class GeneralGroups(GroupEvaluator):
    """Logarithms by the manifold's own ``raw_log``. On spaces of rank one their lengths give the mean Hessian."""

    hessian = "none"

    def clip(self, records: Array, starts: Integers) -> GroupPass:
        records[:], logs = self.ball.clip_with_logs(records)
        return self._from_logs(self.centers(starts), self.manifold.raw_coordinates(self.ball.center, logs), starts)

    def evaluate(self, points: Array, records: Array, starts: Integers) -> GroupPass:
        base = np.repeat(points, np.diff(starts), axis=0)
        logs = self.manifold.raw_coordinates(base, self.manifold.raw_log(base, records))
        return self._from_logs(points, logs, starts)

    def _from_logs(self, points: Array, logs: Array, starts: Integers) -> GroupPass:
        share, squares, manifold = _shares(starts), np.vecdot(logs, logs), self.manifold
        log, square = share[:, None] * segment_sums(logs, starts), share * segment_sums(squares, starts)
        step = log
        if manifold.rank == 1 and manifold.dim > 1:
            hessian = share * segment_sums(manifold.roots.mean_hessian(np.sqrt(squares)[:, None]), starts)
            step = scaled_step(log, square, hessian)
        return GroupPass(points, log, square, np.sqrt(segment_maxima(squares, starts)), step)


class FlatGroups(GeneralGroups):
    """Flat charts: clipping leaves the coordinates of the records in their place."""

    @property
    def flat(self) -> FlatChart:
        return cast(FlatChart, self.manifold)

    def clip(self, records: Array, starts: Integers) -> GroupPass:
        clipped = flat_coordinates(self.flat, self.ball, records)
        put_coordinates(clipped + self.flat.raw_position(self.ball.center), records)
        return self._from_logs(self.centers(starts), clipped, starts)

    def evaluate(self, points: Array, records: Array, starts: Integers) -> GroupPass:
        base = np.repeat(self.flat.raw_position(points), np.diff(starts), axis=0)
        return self._from_logs(points, coordinates_in(records, self.flat) - base, starts)

    def advance(self, points: Array, steps: Array, records: Array, starts: Integers) -> GroupPass:
        still, moved = ~steps.any(axis=-1), moved_in_chart(self.flat, self.ball, points, steps)
        moved[still] = points[still]
        return self.evaluate(moved, records, starts)


class SPDGroups(GroupEvaluator):
    """Positive-definite matrices without a compiler: the Hessian from the spectrum of the logarithms."""

    def clip(self, records: Array, starts: Integers) -> GroupPass:
        records[:] = self.ball.clip_chunk(records)
        return self.evaluate(self.centers(starts), records, starts)

    def evaluate(self, points: Array, records: Array, starts: Integers) -> GroupPass:
        counts, share = np.diff(starts), _shares(starts)
        inverse = np.repeat(cholesky(points)[1], counts, axis=0)
        logs, vectors = log_of_whitened(inverse, np.repeat(points, counts, axis=0), records)
        squares = np.vecdot(logs, logs)
        log = share[:, None] * segment_sums(vector_from_symmetric(spectral(vectors, logs)), starts)
        square, hessian = (share * segment_sums(values, starts) for values in (squares, mean_hessian(logs)))
        return GroupPass(points, log, square, np.sqrt(segment_maxima(squares, starts)), spd_step(log, square, hessian))


def spd_step(log: Array, square: Array, hessian: Array) -> Array:
    """The full step along the trace, and one over the Hessian across it."""
    k = math.isqrt(2 * log.shape[-1])
    trace = vector_from_symmetric(np.eye(k)) / math.sqrt(k)
    along, slope = (log @ trace)[:, None] * trace, along_gradient(log, square, hessian)
    return along + (log - along) / np.where(slope > 0.0, slope, 1.0)[:, None]


class CompiledGroups(GroupEvaluator):
    """Compiled loops over the groups, which clip on the way if the radius is finite."""

    def __init__(self, ball: Ball) -> None:
        super().__init__(ball)
        self.evaluator: GroupedEvaluator = grouped_kind(ball.manifold)(ball.manifold, 2.0 * ball.reach)
        self.hessian = self.evaluator.hessian

    def clip(self, records: Array, starts: Integers) -> GroupPass:
        return self._pass(self.centers(starts), records, starts, self.ball.radius)

    def evaluate(self, points: Array, records: Array, starts: Integers) -> GroupPass:
        return self._pass(points, records, starts, math.inf)

    def _pass(self, points: Array, records: Array, starts: Integers, radius: float) -> GroupPass:
        points = contiguous(points)
        blocks = np.concatenate([[0], np.cumsum(-(-np.diff(starts) // Pass.BLOCK))])
        rows = np.empty((blocks[-1], self.evaluator.columns))
        self.evaluator.add_up(points, contiguous(records), NO_WEIGHTS, starts, radius, rows)
        sums, reach = _shares(starts)[:, None] * segment_sums(rows[:, :-1], blocks), segment_maxima(rows[:, -1], blocks)
        log, (square, hessian) = self.evaluator.logs(points, sums), self.evaluator.others(points, sums)
        if self.hessian == "full":
            step = newton_steps(log, hessian)
        else:
            step = (spd_step if isinstance(self.manifold, SPD) else scaled_step)(log, square, hessian)
        return GroupPass(points, log, square, reach, step)

    def advance(self, points: Array, steps: Array, records: Array, starts: Integers) -> GroupPass:
        if not isinstance(self.evaluator, SmallSPD):
            return super().advance(points, steps, records, starts)
        from geodp.solver import matrix_kernels

        # the loop over records also clips points, several at once
        moved, still, center = np.array(points), ~steps.any(axis=-1), np.array(self.ball.center)
        matrix_kernels.move_spd(moved, np.ascontiguousarray(steps), *self.evaluator.frame(self.ball.center)[:3], math.inf)
        rows = np.empty((-(-len(moved) // Pass.BLOCK), self.evaluator.columns))
        self.evaluator.add_up(center[None], moved, NO_WEIGHTS, np.array([0, len(moved)]), self.ball.radius, rows)
        moved[still] = points[still]
        return self.evaluate(moved, records, starts)

    def follow(self, before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
        return (follow_spd if isinstance(self.evaluator, SmallSPD) else super().follow)(before, here, vectors)


def best_group_evaluator(ball: Ball, count: int) -> GroupEvaluator:
    """The fastest evaluator for this many records in groups."""
    manifold, numbers = ball.manifold, count * math.prod(ball.manifold.point_shape)
    if grouped_kind(manifold) is not None and worth_compiled_code(numbers):
        return CompiledGroups(ball)
    if isinstance(manifold, FlatChart):
        return FlatGroups(ball)
    return SPDGroups(ball) if isinstance(manifold, SPD) and manifold.k > 1 else GeneralGroups(ball)
