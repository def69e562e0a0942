"""One pass over the records of many groups, each at its own point: sums of logarithms, one row a group.

The records of a group are consecutive: group ``g`` has the records ``starts[g]`` to ``starts[g + 1]``. As for one mean,
the general evaluator calls the manifold's own maps and the others run compiled loops.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds import SPD, FlatChart, Rotations, Sphere
from geodp.manifolds.ball import Ball
from geodp.manifolds.functions import spectral, vector_from_symmetric
from geodp.manifolds.manifold import Manifold
from geodp.manifolds.spd import cholesky, log_of_whitened, most_spread
from geodp.solver.compiling import worth_compiled_code
from geodp.solver.passes import (
    NO_ROWS,
    HessianKnown,
    Pass,
    as_compiled_code_knows_it,
    coordinates_in,
    flat_coordinates,
    follow,
    follow_spd,
    mean_hessian,
    moved_in_chart,
    put_coordinates,
    rotations3_sums,
    solved,
    spd3_coordinates,
)

Integers = NDArray[np.int64]

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
    hessian: ClassVar[HessianKnown] = "its mean over directions"

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

    hessian = "not at all"

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

    #: Columns of sums that the loop writes for every block of records; the largest length comes after them.
    columns: int

    @abstractmethod
    def run(self, points: Array, records: Array, starts: Integers, radius: float, rows: Array) -> None:
        """One pass: sums over blocks of records, and the largest length in the last column."""

    @abstractmethod
    def from_sums(self, points: Array, sums: Array, reach: Array) -> GroupPass:
        """A pass from the mean of every column and the largest length."""

    def clip(self, records: Array, starts: Integers) -> GroupPass:
        return self.run_blocks(self.centers(starts), records, starts, self.ball.radius)

    def evaluate(self, points: Array, records: Array, starts: Integers) -> GroupPass:
        return self.run_blocks(points, records, starts, math.inf)

    def run_blocks(self, points: Array, records: Array, starts: Integers, radius: float) -> GroupPass:
        points, records = as_compiled_code_knows_it(points), as_compiled_code_knows_it(records)
        blocks = np.concatenate([[0], np.cumsum(-(-np.diff(starts) // Pass.BLOCK))])
        rows = np.empty((blocks[-1], self.columns + 1))
        self.run(points, records, starts, radius, rows)
        sums = _shares(starts)[:, None] * segment_sums(rows[:, :-1], blocks)
        return self.from_sums(points, sums, segment_maxima(rows[:, -1], blocks))


class _CompiledSPDGroups(CompiledGroups):
    """Positive-definite matrices: points are moved in compiled code too."""

    def __init__(self, ball: Ball) -> None:
        super().__init__(ball)
        self._center = np.array(ball.center), *cholesky(ball.center)

    def advance(self, points: Array, steps: Array, records: Array, starts: Integers) -> GroupPass:
        from geodp.solver import group_kernels

        moved = np.array(points)
        group_kernels.move_spd(moved, np.ascontiguousarray(steps), *self._center, self.ball.radius)
        return self.evaluate(moved, records, starts)

    def follow(self, before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
        return follow_spd(before, here, vectors)


class SPD2Groups(_CompiledSPDGroups):
    """2x2 matrices, with Newton's step."""

    columns, hessian = 7, "in full"

    def run(self, points: Array, records: Array, starts: Integers, radius: float, rows: Array) -> None:
        from geodp.solver import group_kernels

        group_kernels.spd2_groups(records, starts, points, radius, Pass.BLOCK, rows)

    def from_sums(self, points: Array, sums: Array, reach: Array) -> GroupPass:
        middle, d, b, square, h00, h01, h11 = sums.T
        log = np.stack([middle + d, math.sqrt(2.0) * b, middle - d], axis=-1)
        d, b = _solved(h00, h01, h11, d, b)
        return GroupPass(points, log, square, reach, np.stack([middle + d, math.sqrt(2.0) * b, middle - d], axis=-1))


def _solved(h00: Array, h01: Array, h11: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """The solution for a 2x2 Hessian; the right-hand side itself if the Hessian is not positive, as it may be in a wide ball."""
    det = h00 * h11 - h01 * h01
    good = (det > 1e-4 * (h00 + h11) ** 2) & (h00 + h11 > 0.0)
    safe = np.where(good, det, 1.0)
    return np.where(good, (h11 * a - h01 * b) / safe, a), np.where(good, (h00 * b - h01 * a) / safe, b)


class SPD3Groups(_CompiledSPDGroups):
    """3x3 matrices."""

    columns = 8

    def advance(self, points: Array, steps: Array, records: Array, starts: Integers) -> GroupPass:
        from geodp.solver import group_kernels, kernels

        # the loop over records also clips points, several at once
        moved, (center, factor, inverse) = np.array(points), self._center
        group_kernels.move_spd(moved, np.ascontiguousarray(steps), *self._center, math.inf)
        rows, most = np.empty((-(-len(moved) // Pass.BLOCK), 9)), float(most_spread(center, inverse))
        kernels.spd3(
            moved, np.ones(len(moved)), center, factor, inverse, most, self.ball.radius, Pass.BLOCK, rows, NO_ROWS, math.inf
        )
        still = ~steps.any(axis=-1)
        moved[still] = points[still]
        return self.evaluate(moved, records, starts)

    def run(self, points: Array, records: Array, starts: Integers, radius: float, rows: Array) -> None:
        from geodp.solver import group_kernels

        group_kernels.spd3_groups(records, starts, points, radius, Pass.BLOCK, rows)

    def from_sums(self, points: Array, sums: Array, reach: Array) -> GroupPass:
        log, square = spd3_coordinates(sums), sums[:, 6]
        return GroupPass(points, log, square, reach, spd_step(log, square, sums[:, 7]))


class Sphere2Groups(CompiledGroups):
    """The unit sphere in space, with Newton's step."""

    columns, hessian = 11, "in full"

    def run(self, points: Array, records: Array, starts: Integers, radius: float, rows: Array) -> None:
        from geodp.solver import group_kernels

        unit = points / np.linalg.vector_norm(points, axis=-1, keepdims=True)
        group_kernels.sphere2_groups(records, starts, unit, radius, Pass.BLOCK, rows)

    def from_sums(self, points: Array, sums: Array, reach: Array) -> GroupPass:
        along, square = sums[:, 3], sums[:, 4]
        log = self.manifold.raw_coordinates(points, sums[:, :3] - along[:, None] * points)
        outer = sums[:, 5:][:, [0, 1, 3, 1, 2, 4, 3, 4, 5]].reshape(-1, 3, 3)
        frame = self.manifold.raw_tangent(points[:, None], np.eye(2))
        hessian = frame @ outer @ np.swapaxes(frame, -1, -2)
        step = _solved(along + hessian[:, 0, 0], hessian[:, 0, 1], along + hessian[:, 1, 1], *log.T)
        return GroupPass(points, log, square, reach, np.stack(step, axis=-1))


class Rotations3Groups(CompiledGroups):
    """Rotations of space, with Newton's step."""

    columns, hessian = 11, "in full"

    def run(self, points: Array, records: Array, starts: Integers, radius: float, rows: Array) -> None:
        from geodp.solver import group_kernels

        group_kernels.rotations3_groups(records, starts, points, radius, Pass.BLOCK, rows)

    def from_sums(self, points: Array, sums: Array, reach: Array) -> GroupPass:
        log, square, hessian = rotations3_sums(sums)
        return GroupPass(points, log, square, reach, solved(hessian, log))


def best_group_evaluator(ball: Ball, count: int) -> GroupEvaluator:
    """The fastest evaluator for this many records in groups."""
    manifold, numbers = ball.manifold, count * math.prod(ball.manifold.point_shape)
    compiled: dict[Manifold, type[CompiledGroups]] = {
        SPD(2): SPD2Groups, SPD(3): SPD3Groups, Sphere(2): Sphere2Groups, Rotations(3): Rotations3Groups
    }  # fmt: skip
    if manifold in compiled and worth_compiled_code(numbers):
        return compiled[manifold](ball)
    if isinstance(manifold, FlatChart):
        return FlatGroups(ball)
    return SPDGroups(ball) if isinstance(manifold, SPD) and manifold.k > 1 else GeneralGroups(ball)
