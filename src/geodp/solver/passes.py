"""One pass over records: the sum of their logarithms at a point, and the other sums that the solver needs.

An evaluator does this on one manifold. The general one calls the manifold's own maps; the others do the same
with less work a record.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import EPSILON, Array
from geodp.manifolds import SPD, FlatChart, Grassmann, Hyperbolic, PlanarShapes, Rotations, Sphere
from geodp.manifolds.ball import Ball
from geodp.manifolds.functions import spectral, symmetric_from_vector, two_sum, vector_from_symmetric
from geodp.manifolds.manifold import Manifold
from geodp.manifolds.spd import cholesky, log_of_whitened
from geodp.solver.compiling import worth_compiled_code

#: Constants of fingerprints. The factors are odd, so that nothing is lost.
_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)
_MIXING = (np.uint64(0xD6E8FEB86659FD93), np.uint64(0xBF58476D1CE4E5B9))
_NONE = np.empty(0, dtype=np.uint64)

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]


@dataclass(repr=False, eq=False)  # its sums are private, and a scheduler may log the text of what a task was given
class Pass:
    """Sums over records ``x_i`` with weights ``w_i``, at a point ``p``, with ``v_i = log_p(x_i)``.

    Within blocks of at most :data:`BLOCK` records sums are plain, so that their relative error is ``BLOCK`` machine
    epsilons; between blocks they carry their rounding error along.
    """

    BLOCK: ClassVar[int] = 256

    count: int
    log: Array  # sum of w v, in the orthonormal frame at p
    log_low: Array  # its rounding error
    square: float  # sum of w |v|^2
    reach: float  # largest |v|
    hessian: Array  # sum of w times the evaluator's part of the Hessian ...
    seen: float  # ... and the weight of the records in that sum
    rounding: float = 0.0  # sum of w times a bound on the rounding error of v, if the evaluator is Roundings

    @classmethod
    def zero(cls, manifold: Manifold) -> Pass:
        nothing = np.zeros(manifold.dim)
        return cls(0, nothing, nothing, 0.0, 0.0, np.zeros(()), 0.0)

    @classmethod
    def of_blocks(cls, count: int, logs: Array, square: float, reach: float, hessian: Array, seen: float) -> Pass:
        """From the sums of logarithms over blocks, ``(blocks, dim)``."""
        if len(logs) == 1:
            return cls(count, logs[0], np.zeros(len(logs[0])), square, reach, hessian, seen)
        return cls(count, *compensated_sum(logs), square, reach, hessian, seen)

    def __add__(self, other: Pass) -> Pass:
        high, lost = two_sum(self.log, other.log)
        return Pass(
            self.count + other.count,
            high,
            self.log_low + other.log_low + lost,
            self.square + other.square,
            max(self.reach, other.reach),
            self.hessian + other.hessian,
            self.seen + other.seen,
            self.rounding + other.rounding,
        )


def compensated_sum(terms: Array) -> tuple[Array, Array]:
    """The sum along the first axis, by halves, and its rounding error."""
    if terms.shape[1] <= 8:  # for a few columns the exact sum is quicker
        high = np.array([math.fsum(column) for column in terms.T.tolist()])
        return high, np.zeros_like(high)
    low = np.zeros_like(terms[0])
    while len(terms) > 1:
        half = len(terms) // 2
        sums, lost = two_sum(terms[:half], terms[half : 2 * half])
        low = low + lost.sum(axis=0)
        terms = np.concatenate([sums, terms[2 * half :]])
    return terms[0], low


def sum_rounding(mean_length: float) -> float:
    """A bound on the rounding error of the mean of vectors of this mean (or root mean square) length: see :class:`Pass`."""
    return 2.0 * Pass.BLOCK * EPSILON * mean_length


def fingerprint(records: Array, weights: Array | None, keys: Words) -> int:
    """A sum over the records, modulo ``2^64``, of a keyed hash of each, and of its weight. Any order of records has the same.

    The upper half of a sum of whole numbers below ``2^32`` times keys below ``2^64`` is the same for two given records with
    probability ``2^-32`` (multilinear hashing). So floats are cut in halves: of a whole one times a key, modulo ``2^64``, the
    sign would be left and hardly any of the key. The sums are mixed then, because entries could change places between records.
    """
    words = as_words(records)
    hashes = np.einsum("ij,j->i", words >> _HALF, keys[4::2]) + np.einsum("ij,j->i", words & _LOWER, keys[5::2]) + keys[0]
    if weights is not None:
        own = weights.view(np.uint64)
        hashes += (own >> _HALF) * keys[2] + (own & _LOWER) * keys[3]
    for factor in _MIXING:
        hashes ^= hashes >> _HALF
        hashes *= factor
    return int((hashes ^ (hashes >> _HALF)).sum())


def as_words(records: Array) -> Words:
    """The bits of records, one row each."""
    return records.reshape(len(records), math.prod(records.shape[1:])).view(np.uint64)


HessianKnown = Literal["none", "mean", "full"]


class Evaluator(ABC):
    """Computes a :class:`Pass` on one manifold, with the same work for every record as far as possible.

    Its logarithms must be within :meth:`Manifold.log_rounding` of the exact ones, as the manifold's own are: the tolerance of a
    release is public and follows from that bound, so it must not depend on which evaluator ran.
    """

    #: How much passes say about the Hessian: the more, the fewer passes are needed.
    hessian: HessianKnown = "none"

    def __init__(self, manifold: Manifold, extent: float = math.inf) -> None:
        # no record will be farther than the extent from the point it is seen from
        self.manifold, self.extent = manifold, extent

    @abstractmethod
    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        """The pass at ``p`` over records in the ball."""

    @abstractmethod
    def clip(self, ball: Ball, records: Array, weights: Array | None) -> Pass:
        """Clips the records in place and computes their pass at the centre.

        Records that are off the manifold by less than the tolerance, which :meth:`Ball.clip` would project, may be left as they
        are: the logarithm does not see the difference.
        """

    @abstractmethod
    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        """A step towards the mean, from the mean logarithm and the mean of the passes' Hessians, in coordinates."""

    def fingerprint(self, records: Array, weights: Array | None, keys: Words) -> int:
        """The :func:`fingerprint` of records, which is the same number for every evaluator."""
        return fingerprint(records, weights, keys)

    def move(self, ball: Ball, p: Array, step: Array) -> Array:
        """The end of a step given in coordinates, moved to the boundary of the ball if it is outside."""
        manifold = ball.manifold
        point = manifold.raw_kept_exp(p, manifold.raw_tangent(p, step))
        inside = manifold.raw_dist(ball.center, point) <= ball.radius
        return point if inside else ball.clip_chunk(point[None])[0]

    def coordinates(self, ball: Ball, records: Array) -> Array:
        """Normal coordinates at the centre of the clipped records, a row each: of length at most the radius, and finite.

        A row depends only on its record and its position. The records may be changed in place.
        """
        coordinates = ball.manifold.raw_coordinates(ball.center, ball.clip_with_logs(records)[1])
        coordinates = np.where(np.isfinite(coordinates).all(axis=-1, keepdims=True), coordinates, 0.0)
        length = np.linalg.vector_norm(coordinates, axis=-1, keepdims=True)
        return coordinates * np.where(length > ball.radius, ball.radius / length * (1.0 - 1e-15), 1.0)

    def roundings(self) -> Evaluator:
        """An evaluator whose passes, over records that this one has clipped, add up their rounding errors too."""
        return Roundings(self.manifold)

    def follow(self, before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
        """Tangent vectors at one point, rows of coordinates, moved to another point, and the move of the point, seen there.

        They are moved by projection to the tangent space.
        """
        return follow(self.manifold, before, here, vectors)


def follow(manifold: Manifold, before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
    """:meth:`Evaluator.follow` by the manifold's own maps."""
    there = manifold.raw_project_tangent(here, manifold.raw_tangent(before, vectors))
    return manifold.raw_coordinates(here, there), -manifold.raw_coordinates(here, manifold.raw_log(here, before))


class GeneralEvaluator(Evaluator):
    """Logarithms by the manifold's own ``raw_log``, and nothing about the Hessian."""

    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        return self.from_logs(p, self.manifold.raw_log(p, records), weights)

    def clip(self, ball: Ball, records: Array, weights: Array | None) -> Pass:
        records[:], logs = ball.clip_with_logs(records)
        return self.from_logs(ball.center, logs, weights)

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        return log

    def from_logs(self, p: Array, logs: Array, weights: Array | None) -> Pass:
        return self.from_coordinates(self.manifold.raw_coordinates(p, logs), weights)

    @staticmethod
    def from_coordinates(coordinates: Array, weights: Array | None) -> Pass:
        squares = np.vecdot(coordinates, coordinates)
        w = np.ones(len(squares)) if weights is None else weights
        reach = math.sqrt(float(squares.max()))
        return Pass.of_blocks(len(squares), block_sums(coordinates, w), float(w @ squares), reach, np.zeros(()), 0.0)


class Roundings(GeneralEvaluator):
    """Adds up what rounding may put between the logarithms of the records and the exact ones: for each by where it is."""

    #: Records of nearly the same reach count as those of the farthest of them: there are so many steps.
    _STEPS: ClassVar[int] = 128

    def from_logs(self, p: Array, logs: Array, weights: Array | None) -> Pass:
        found = super().from_logs(p, logs, weights)
        return replace(found, rounding=self.bound(p, self.manifold.rounding_reach(p, logs), weights))

    def bound(self, p: Array, reach: Array, weights: Array | None) -> float:
        """The sum for records of these reaches."""
        farthest, bound = float(np.max(reach)), math.inf
        if math.isfinite(farthest):
            steps = np.minimum(np.ceil(reach * (self._STEPS / max(farthest, 1e-300))), self._STEPS).astype(np.int64)
            masses = np.bincount(steps, weights)
            ends = (1.0 + 1e-9) * farthest / self._STEPS * np.arange(len(masses))
            pairs = zip(masses.tolist(), ends.tolist(), strict=True)
            bound = sum(mass * self.manifold.log_rounding(p, end) for mass, end in pairs if mass)
        return bound


class FlatEvaluator(GeneralEvaluator):
    """Flat charts: clipping leaves the coordinates of the records in their place, so that each chart is computed once."""

    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        return self.from_coordinates(coordinates_in(records, self.flat) - self.flat.raw_position(p), weights)

    @property
    def flat(self) -> FlatChart:
        return cast(FlatChart, self.manifold)

    def clip(self, ball: Ball, records: Array, weights: Array | None) -> Pass:
        clipped, center = self.coordinates(ball, records), self.flat.raw_position(ball.center)
        put_coordinates(clipped + center, records)
        return self.from_coordinates(clipped, weights)

    def coordinates(self, ball: Ball, records: Array) -> Array:
        return flat_coordinates(self.flat, ball, records)

    def move(self, ball: Ball, p: Array, step: Array) -> Array:
        return moved_in_chart(self.flat, ball, p, step)

    def roundings(self) -> Evaluator:
        return _FlatRoundings(self.manifold)


class _FlatRoundings(FlatEvaluator):
    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        found = super().evaluate(p, records, weights)
        reach = np.linalg.vector_norm(coordinates_in(records, self.flat) - self.flat.raw_position(p), axis=-1)
        return replace(found, rounding=Roundings(self.manifold).bound(p, reach, weights))


def flat_coordinates(flat: FlatChart, ball: Ball, records: Array) -> Array:
    """The coordinates of the clipped records, less those of the centre, with the same work for every record."""
    with np.errstate(all="ignore"):
        away = flat.raw_reading(records) - flat.raw_position(ball.center)
        finite = np.isfinite(np.linalg.vector_norm(away, axis=-1, keepdims=True))
    return shortened(np.where(finite, away, 0.0), ball.radius)


def moved_in_chart(flat: FlatChart, ball: Ball, points: Array, steps: Array) -> Array:
    """The ends of steps from points, in the ball and as private values are kept."""
    center = flat.raw_position(ball.center)
    return flat.raw_keep(center + shortened(flat.raw_position(points) + steps - center, ball.radius))


def shortened(vectors: Array, radius: float) -> Array:
    """Vectors of at most this length."""
    length = np.linalg.vector_norm(vectors, axis=-1, keepdims=True)
    return vectors * np.where(length > radius, radius / np.where(length > 0.0, length, 1.0) * (1.0 - 1e-15), 1.0)


def put_coordinates(coordinates: Array, records: Array) -> None:
    """Overwrites records by their coordinates."""
    flat = np.zeros((len(records), math.prod(records.shape[1:])))
    flat[:, : coordinates.shape[1]] = coordinates
    records[:] = flat.reshape(records.shape)


def coordinates_in(records: Array, flat: FlatChart) -> Array:
    """What :func:`put_coordinates` has put there."""
    return records.reshape(len(records), math.prod(flat.point_shape))[:, : flat.dim]


def block_sums(values: Array, weights: Array) -> Array:
    """Weighted sums over blocks of :data:`Pass.BLOCK` records."""
    whole = len(values) // Pass.BLOCK * Pass.BLOCK
    blocks = weights[:whole].reshape(-1, 1, Pass.BLOCK) @ values[:whole].reshape(-1, Pass.BLOCK, values.shape[1])
    return np.concatenate([blocks[:, 0], (weights[whole:] @ values[whole:])[None]])


class CompiledEvaluator(Evaluator):
    """Compiled loops that read every record once, and clip on the way if the radius is finite."""

    @abstractmethod
    def run(self, p: Array, records: Array, weights: Array | None, radius: float) -> Pass:
        """The pass at ``p``. A finite radius is that of the ball about ``p`` into which the records are clipped in place."""

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        return _scaled_log(log, hessian)

    def fingerprint(self, records: Array, weights: Array | None, keys: Words) -> int:
        from geodp.solver import lanes

        return int(lanes.fingerprint(as_words(records), _NONE if weights is None else weights.view(np.uint64), keys))

    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        return self.run(p, contiguous(records), weights, math.inf)

    def clip(self, ball: Ball, records: Array, weights: Array | None) -> Pass:
        return self.run(ball.center, contiguous(records), weights, ball.radius)


def contiguous(records: Array) -> Array:
    """The same numbers in an ordinary array: compiled code is cached on disk for every type, so there must be only one."""
    if type(records) is np.ndarray and records.flags.carray:
        return records
    return np.require(records.view(np.ndarray), requirements=["C", "W"])


class GroupedEvaluator(CompiledEvaluator):
    """Loops over the records of many groups, each seen from its own point."""

    #: How many numbers a row of sums has.
    columns: int

    @abstractmethod
    def add_up(self, points: Array, records: Array, weights: Array, starts: Integers, radius: float, rows: Array) -> None:
        """Sums over blocks of records of one group, group by group. The last two columns are the weight and the largest length.

        Without weights (an empty array) all are 1.
        """

    @abstractmethod
    def logs(self, points: Array, sums: Array) -> Array:
        """From sums, a row for each point or all for one: the logarithms, in coordinates."""

    @abstractmethod
    def others(self, points: Array, sums: Array) -> tuple[Array, Array]:
        """The squared lengths, and the Hessians."""

    def run(self, p: Array, records: Array, weights: Array | None, radius: float) -> Pass:
        count, points = len(records), np.array(p)[None]
        rows = np.empty((-(-count // Pass.BLOCK), self.columns))
        self.add_up(points, records, NO_WEIGHTS if weights is None else weights, np.array([0, count]), radius, rows)
        reach = float(rows[0, -1] if len(rows) == 1 else np.maximum.reduce(rows[:, -1]))
        total = rows if len(rows) == 1 else np.add.reduce(rows)[None]
        squares, hessians = self.others(points, total)
        return Pass.of_blocks(count, self.logs(points, rows), float(squares[0]), reach, hessians[0], float(total[0, -2]))

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        return newton_steps(log[None], hessian[None])[0] if hessian.ndim else super().step(p, log, hessian)


#: Passed if all weights are 1.
NO_WEIGHTS = np.empty(0)


def newton_steps(logs: Array, hessians: Array) -> Array:
    """Newton's steps; the logarithms themselves where a Hessian is not positive, as it may be far from the mean."""
    from geodp.solver import lanes

    steps = np.empty(logs.shape)
    lanes.newton_steps(np.ascontiguousarray(hessians), np.ascontiguousarray(logs), steps)
    return steps


#: Degrees of polynomials for ``artanh(sqrt s)/sqrt s`` and for ``t/sin t``, and up to which ``t`` they are exact to rounding.
ARTANH = {10: 0.5, 14: 1.0, 18: 1.5, 22: 2.0, 30: 2.5, 38: 3.0}
ARCS = {8: 0.5, 12: 0.9, 16: 1.2, 20: 1.5, 28: 2.0}
#: Their variables ``s`` at ``t``, see :func:`geodp.solver.lanes.polynomial`.
ENDS: dict[int, Callable[[float], float]] = {1: lambda t: math.tanh(0.5 * t) ** 2, 2: lambda t: math.sin(0.5 * t) ** 2}


def _series(first: int, degrees: dict[int, float], extent: float) -> tuple[Array, float]:
    """The polynomial of the least degree that is exact to rounding up to this length; no coefficients if there is none."""
    from geodp.solver import lanes

    for degree, length in degrees.items():
        if extent <= length * (1.0 + 1e-6):  # rounding enlarges balls
            return lanes.polynomial(first, ENDS[first](length), degree)
    return np.empty(0), 0.0


#: A point, its Cholesky factor, the inverse of that, and the ratio of eigenvalues beyond which matrices are factorised there.
Frame = tuple[Array, Array, Array, float]


class _CompiledSPD(CompiledEvaluator):
    """Positive-definite matrices are whitened by the inverse of a Cholesky factor, the same for all chunks of a pass."""

    def __init__(self, manifold: Manifold, extent: float = math.inf) -> None:
        super().__init__(manifold, extent)
        self._frames: dict[int, tuple[Array, Frame]] = {}
        self._load()

    @staticmethod
    @cache
    def _load() -> None:
        """Loads all compiled functions at once, so that no later call has to compile."""
        from geodp.solver import matrix_kernels

        one, room = np.eye(2)[None], np.empty((2, 2))
        matrix_kernels.factor(one[0], room, room.copy())
        matrix_kernels.move_spd(one, np.ones((1, 3)), one[0], one[0], one[0], 1.0)
        follow_spd(one, one, np.zeros((1, 1, 3)))

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        return _scaled_step(log, hessian)

    def frame(self, p: Array) -> Frame:
        """A writable copy of the point, its Cholesky factor, the inverse of that, and which matrices to factorise."""
        at, frame = self._frames.get(id(p), (None, None))
        if at is not p or frame is None:
            from geodp.solver import matrix_kernels

            at, factor, inverse = np.array(p), np.empty(p.shape), np.empty(p.shape)
            frame = at, factor, inverse, matrix_kernels.factor(at, factor, inverse)
            self._frames = {**dict(list(self._frames.items())[-1:]), id(p): (p, frame)}  # another thread may do the same
        return frame

    def move(self, ball: Ball, p: Array, step: Array) -> Array:
        from geodp.solver import matrix_kernels

        moved = np.array(p)
        matrix_kernels.move_spd(moved[None], step[None], *self.frame(ball.center)[:3], ball.radius)
        return moved

    def follow(self, before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
        there, moves = follow_spd(before[None], here[None], vectors[None])
        return there[0], moves[0]


def follow_spd(before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
    """:meth:`Evaluator.follow` on positive-definite matrices, in compiled code, for each of several points."""
    from geodp.solver import matrix_kernels

    there, moves = np.array(vectors), np.empty((len(vectors), vectors.shape[-1]))
    matrix_kernels.follow_spd(np.array(before), np.array(here), there, moves)
    return there, moves


#: The order of coordinates among the lower entries of a matrix, and the factors of those off the diagonal.
_LOWER_ENTRIES = {2: ([0, 1, 2], np.sqrt([1.0, 2.0, 1.0])), 3: ([0, 1, 3, 2, 4, 5], np.sqrt([1.0, 2.0, 2.0, 1.0, 2.0, 1.0]))}
#: The Hessian of 2x2 matrices, in coordinates, from the last columns of their sums but the largest length.
_HESSIAN2 = np.array(
    [
        [[0.5, 0.0, -0.5], [0.0, 1.0, 0.0], [-0.5, 0.0, 0.5]],  # across
        [[0.5, 0.0, -0.5], [0.0, 0.0, 0.0], [-0.5, 0.0, 0.5]],
        [[0.0, 1.0, 0.0], [1.0, 0.0, -1.0], [0.0, -1.0, 0.0]] / np.sqrt(2.0),
        [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]],
        [[0.5, 0.0, 0.5], [0.0, 0.0, 0.0], [0.5, 0.0, 0.5]],  # along the trace
    ]
).reshape(5, 9)
_NO_COORDINATES = np.empty((0, 6))


class SmallSPD(GroupedEvaluator, _CompiledSPD):
    """2x2 and 3x3 matrices. In the first case Newton's step: the space is a hyperbolic plane times a line."""

    columns = 10

    def __init__(self, manifold: Manifold, extent: float = math.inf) -> None:
        super().__init__(manifold, extent)
        self.k = manifold.point_shape[0]
        self.hessian = "full" if self.k == 2 else "mean"
        # no eigenvalue of a logarithm is larger than its length
        # of 2x2 matrices eigenvalues are as quick as a polynomial of higher degree
        degrees = {degree: length for degree, length in ARTANH.items() if self.k == 3 or degree < 25}
        series, self._middle = _series(1, degrees, extent)
        self._series = 2.0 * series

    def add_up(self, points: Array, records: Array, weights: Array, starts: Integers, radius: float, rows: Array) -> None:
        from geodp.solver.small_spd_kernels import small_spd

        series = self._series if radius == math.inf else NO_WEIGHTS
        small_spd(records, weights, starts, points, radius, series, self._middle, rows, _NO_COORDINATES, radius)

    def logs(self, points: Array, sums: Array) -> Array:
        order, scales = _LOWER_ENTRIES[self.k]
        return sums.take(order, axis=1) * scales

    def others(self, points: Array, sums: Array) -> tuple[Array, Array]:
        return (sums[:, 3], (sums[:, 4:9] @ _HESSIAN2).reshape(-1, 3, 3)) if self.k == 2 else (sums[:, 6], sums[:, 7])

    def coordinates(self, ball: Ball, records: Array) -> Array:
        from geodp.solver.small_spd_kernels import small_spd

        points, starts = np.array(ball.center)[None], np.array([0, len(records)])
        rows, each = _rows(records, self.columns), np.empty((len(records), self.manifold.dim))
        # shortening coordinates also clips, without computing exponentials
        small_spd(contiguous(records), NO_WEIGHTS, starts, points, math.inf, NO_WEIGHTS, 0.0, rows, each, ball.radius)
        return each


def _scaled_step(log: Array, hessian: Array) -> Array:
    """On matrices of other sizes: the full step along the trace, and one over the mean Hessian across it."""
    trace, curve = _trace(len(log)), float(hessian)
    return (log + ((curve - 1.0) * float(log @ trace)) * trace) / curve


@cache
def _trace(dim: int) -> Array:
    """The unit vector along the trace, in coordinates of symmetric matrices."""
    k = math.isqrt(2 * dim)
    return vector_from_symmetric(np.eye(k)) / math.sqrt(k)


#: Matrices up to this size are diagonalised by compiled rotations; LAPACK is faster for larger ones.
_ROTATED = 12


class SPDCompiled(_CompiledSPD):
    """Matrices of any size, without eigen-decompositions of records."""

    hessian = "mean"

    def move(self, ball: Ball, p: Array, step: Array) -> Array:
        k = len(p)
        if k <= _ROTATED:
            return super().move(ball, p, step)
        values, vectors = np.linalg.eigh(symmetric_from_vector(step, k))
        root = self.frame(p)[1] @ (vectors * np.exp(0.5 * values))
        point = root @ root.T
        inverse = self.frame(ball.center)[2]
        logs = 2.0 * np.log(np.linalg.svd(inverse @ root, compute_uv=False))
        return point if math.sqrt(logs @ logs) <= ball.radius else ball.clip_chunk(point[None])[0]

    def follow(self, before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
        k = len(before)
        if k <= _ROTATED:
            return super().follow(before, here, vectors)
        across = self.frame(here)[2] @ self.frame(before)[1]
        there = across @ symmetric_from_vector(vectors, k) @ across.T
        values, basis = np.linalg.eigh(across @ across.T)
        return vector_from_symmetric(there), -vector_from_symmetric(spectral(basis, np.log(values)))

    def run(self, p: Array, records: Array, weights: Array | None, radius: float) -> Pass:
        from geodp.solver import spd_kernel

        weights = _ones_or(weights, records)
        blocks = _rows(records, self.manifold.dim + 2)
        reach = spd_kernel.spd(records, weights, *self.frame(p), radius, spd_kernel.quadrature(), Pass.BLOCK, blocks)
        logs = blocks[:, :-2] * vector_from_symmetric(np.ones(p.shape))
        square, hessian = np.add.reduce(blocks[:, -2:]).tolist()
        return Pass.of_blocks(len(records), logs, square, reach, np.asarray(hessian), float(np.add.reduce(weights)))


class SPDLarge(Evaluator):
    """Few matrices of any size, or no compiler: the manifold's own logarithm, and the Hessian from its spectrum."""

    hessian = "mean"

    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        logs, vectors = log_of_whitened(cholesky(p)[1], p, records)
        w = np.ones(len(records)) if weights is None else weights
        squares = np.vecdot(logs, logs)
        sums = block_sums(vector_from_symmetric(spectral(vectors, logs)), w)
        reach, hessian = math.sqrt(float(squares.max())), np.asarray(w @ mean_hessian(logs))
        return Pass.of_blocks(len(records), sums, float(w @ squares), reach, hessian, float(w.sum()))

    def clip(self, ball: Ball, records: Array, weights: Array | None) -> Pass:
        records[:] = ball.clip_chunk(records)
        return self.evaluate(ball.center, records, weights)

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        return _scaled_step(log, hessian)


def mean_hessian(logs: Array) -> Array:
    """The mean over trace-free directions of the Hessian of half the squared distance: ``(t/2) coth(t/2)`` over gaps ``t``."""
    k = logs.shape[-1]
    i, j = np.triu_indices(k, 1)
    halves = 0.5 * np.abs(logs[:, i] - logs[:, j])
    factors = np.where(halves > 1e-8, halves / np.tanh(np.maximum(halves, 1e-8)), 1.0)
    return (k - 1 + factors.sum(axis=-1)) / (k - 1 + len(i))


#: Where the entries of a symmetric 3x3 matrix are among sums.
_OUTER = np.array([0, 1, 3, 1, 2, 4, 3, 4, 5]) + 6


class Spheres(GroupedEvaluator):
    """Spheres of any dimension; in space Newton's step."""

    def __init__(self, manifold: Sphere, extent: float = math.inf) -> None:
        super().__init__(manifold, extent)
        self.sphere = manifold
        self.hessian = "full" if manifold.d == 2 else "mean"
        self.columns = manifold.d + 6 + 6 * (manifold.d == 2)
        self._series = _series(2, ARCS, extent / manifold.radius)

    def add_up(self, points: Array, records: Array, weights: Array, starts: Integers, radius: float, rows: Array) -> None:
        from geodp.solver.round_kernels import sphere

        length = self.sphere.radius
        units = points / np.sqrt(np.vecdot(points, points))[:, None]
        sphere(records, weights, starts, units, length, radius / length, *self._series, rows)
        rows[:, -1] *= length

    def logs(self, points: Array, sums: Array) -> Array:
        d = self.sphere.d
        return self.sphere.raw_coordinates(points, self.sphere.radius * sums[:, : d + 1] + sums[:, d + 1, None] * points)

    def others(self, points: Array, sums: Array) -> tuple[Array, Array]:
        d = self.sphere.d
        square, curve = self.sphere.radius**2 * sums[:, d + 2], sums[:, d + 3]
        if d > 2:
            return square, (sums[:, d + 4] + (d - 1) * curve) / d
        frame = self.sphere.raw_tangent(points[:, None], np.eye(2))
        outer = frame @ sums.take(_OUTER, axis=1).reshape(-1, 3, 3) @ frame.swapaxes(-1, -2)
        return square, outer + curve[:, None, None] * np.eye(2)


class Rotations3(GroupedEvaluator):
    """Rotations of space, with Newton's step."""

    columns = 13
    hessian = "full"

    def __init__(self, manifold: Manifold, extent: float = math.inf) -> None:
        super().__init__(manifold, extent)
        self._series = _series(2, ARCS, extent)

    def add_up(self, points: Array, records: Array, weights: Array, starts: Integers, radius: float, rows: Array) -> None:
        from geodp.solver.round_kernels import rotations3

        rotations3(records, weights, starts, points, radius, *self._series, rows)

    def logs(self, points: Array, sums: Array) -> Array:
        return sums[:, :3] @ _ROTATION_VECTOR.T

    def others(self, points: Array, sums: Array) -> tuple[Array, Array]:
        outer = sums.take(_OUTER - 1, axis=1).reshape(-1, 3, 3)
        return sums[:, 3], sums[:, 4, None, None] * np.eye(3) + _ROTATION_VECTOR @ outer @ _ROTATION_VECTOR.T


#: The logarithm is a rotation vector; coordinates are the entries of its matrix below the diagonal.
_ROTATION_VECTOR = np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])


def _scaled_log(log: Array, hessian: Array) -> Array:
    # in a wide ball the mean Hessian may be small or negative far from the mean; the gradient is then the better step
    return log / float(hessian) if hessian > 0.1 else log


class HyperbolicCompiled(GroupedEvaluator):
    """Hyperbolic spaces of any dimension."""

    hessian = "mean"

    def __init__(self, manifold: Manifold, extent: float = math.inf) -> None:
        super().__init__(manifold, extent)
        self.columns = manifold.dim + 4

    def add_up(self, points: Array, records: Array, weights: Array, starts: Integers, radius: float, rows: Array) -> None:
        from geodp.solver.lane_kernels import hyperbolic

        space = points[:, 1:]
        lengths = np.sqrt(np.vecdot(space, space))
        units = space / np.where(lengths > 0.0, lengths, 1.0)[:, None]
        hyperbolic(records, weights, starts, points, units, lengths + np.hypot(1.0, lengths), radius, rows)

    def logs(self, points: Array, sums: Array) -> Array:
        return sums[:, : self.manifold.dim]

    def others(self, points: Array, sums: Array) -> tuple[Array, Array]:
        d = self.manifold.dim
        return sums[:, d], (sums[:, d + 2] + (d - 1) * sums[:, d + 1]) / d


class ShapesCompiled(CompiledEvaluator):
    """Shapes of landmarks in the plane."""

    hessian = "mean"

    def run(self, p: Array, records: Array, weights: Array | None, radius: float) -> Pass:
        from geodp.solver import lane_kernels

        weights = _ones_or(weights, records)
        size = p.size
        blocks = _rows(records, 2 * size + 2)
        flat, at = records.reshape(-1, size), np.array(p)
        reach = lane_kernels.shapes(flat, weights, at.ravel(), _quarter_turn(at).ravel(), radius, Pass.BLOCK, blocks)
        real, imaginary = (blocks[:, i * size : (i + 1) * size].reshape(-1, *p.shape) for i in range(2))
        logs = self.manifold.raw_coordinates(p, real + _quarter_turn(imaginary))
        mass = float(weights.sum())
        square, curve = blocks[:, 2 * size :].sum(axis=0).tolist()
        return Pass.of_blocks(len(records), logs, square, reach, np.asarray((mass + curve) / self.manifold.dim), mass)


def _quarter_turn(configurations: Array) -> Array:
    """Points ``(..., 2)`` of the plane after a quarter turn, in an array that compiled code may change."""
    return np.stack([-configurations[..., 1], configurations[..., 0]], axis=-1)


class GrassmannCompiled(CompiledEvaluator):
    """Subspaces of any dimension."""

    hessian = "mean"

    def run(self, p: Array, records: Array, weights: Array | None, radius: float) -> Pass:
        from geodp.solver import lane_kernels

        weights = _ones_or(weights, records)
        size, rank = p.size, self.manifold.rank
        blocks = _rows(records, size + 2)
        # as many as random subspaces need, so that a group of records hardly ever takes more time than others
        rounds = int(3.3 + 1.6 * math.log2(rank)) if rank > 2 else rank
        reach = lane_kernels.subspaces(records, weights, np.array(p), rounds, radius, Pass.BLOCK, blocks)
        logs = self.manifold.raw_coordinates(p, blocks[:, :size].reshape(-1, *p.shape))
        mass = float(weights.sum())
        square, curve = blocks[:, size:].sum(axis=0).tolist()
        hessian = (rank * mass + curve) / self.manifold.dim
        return Pass.of_blocks(len(records), logs, square, reach, np.asarray(hessian), mass)


class RankOne(GeneralEvaluator):
    """Spaces of rank one: the manifold's own logarithm, and the Hessian from its lengths."""

    hessian = "mean"

    def from_logs(self, p: Array, logs: Array, weights: Array | None) -> Pass:
        found = super().from_logs(p, logs, weights)
        w = np.ones(len(logs)) if weights is None else weights
        lengths = self.manifold.raw_norm(p, logs)
        hessian = np.asarray(w @ self.manifold.roots.mean_hessian(lengths[:, None]))
        return replace(found, hessian=hessian, seen=float(w.sum()))

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        return _scaled_log(log, hessian)


def _ones_or(weights: Array | None, records: Array) -> Array:
    return np.ones(len(records)) if weights is None else weights


def _rows(records: Array, columns: int) -> Array:
    """Room for the sums over the blocks of a chunk."""
    return np.empty((-(-len(records) // Pass.BLOCK), columns))


def best_evaluator(manifold: Manifold, count: int | None, extent: float = math.inf) -> Evaluator:
    """The fastest evaluator for so many records (``None``: unknown), at most ``extent`` from the points they are seen from."""
    compiled = worth_compiled_code(math.inf if count is None else count * math.prod(manifold.point_shape))
    if isinstance(manifold, SPD) and manifold.k > 1 and not compiled:
        return SPDLarge(manifold)
    kind: type[Evaluator] = RankOne if manifold.rank == 1 and manifold.dim > 1 else GeneralEvaluator
    if isinstance(manifold, FlatChart):
        kind = FlatEvaluator
    elif compiled:
        kind = grouped_kind(manifold) or kind
        if isinstance(manifold, SPD) and manifold.k > 3:
            kind = SPDCompiled
        elif isinstance(manifold, PlanarShapes):
            kind = ShapesCompiled
        elif isinstance(manifold, Grassmann):
            kind = GrassmannCompiled
    return kind(manifold, extent)


def grouped_kind(manifold: Manifold) -> Any:
    """The kind of evaluator that takes many groups of records at once, if there is one."""
    if isinstance(manifold, SPD) and manifold.k in _LOWER_ENTRIES:
        return SmallSPD
    if isinstance(manifold, Sphere) and manifold.d > 1:
        return Spheres
    if isinstance(manifold, Hyperbolic) and manifold.d > 1:
        return HyperbolicCompiled
    return Rotations3 if manifold == Rotations(3) else None
