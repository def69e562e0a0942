"""One pass over records: the sum of their logarithms at a point, and what the solver needs beside it.

An evaluator knows how to do this on one manifold. The general one calls the manifold's own maps; the others do the same
with less work a record.
"""

from __future__ import annotations

import importlib.util
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Literal

import numpy as np

from geodp.inputs import EPSILON, Array
from geodp.manifolds import SPD, Sphere
from geodp.manifolds.ball import Ball
from geodp.manifolds.functions import conjugate, spectral, two_sum
from geodp.manifolds.manifold import Manifold
from geodp.manifolds.small_eigen import eigvalsh
from geodp.manifolds.spd import cholesky, log_of_whitened, vector_from_symmetric

#: Fewer numbers than this are not worth loading compiled code for.
_WORTH_COMPILING = 100_000


@dataclass(frozen=True, repr=False)  # its sums are private, and a scheduler may log the text of what a task was given
class Pass:
    """Sums over records ``x_i`` with weights ``w_i``, at a point ``p``, with ``v_i = log_p(x_i)``.

    Within blocks of at most :data:`BLOCK` records sums are plain, so that their relative error is ``BLOCK`` machine
    epsilons; between blocks they carry their rounding error along.
    """

    BLOCK: ClassVar[int] = 256

    count: int
    log: Array  # sum of w v, in the orthonormal frame at p
    log_low: Array  # what rounding has lost of it
    square: float  # sum of w |v|^2
    reach: float  # largest |v|
    hessian: Array  # sum of w times what the evaluator says about the Hessian ...
    seen: float  # ... and the weight of the records it speaks of

    @classmethod
    def zero(cls, manifold: Manifold) -> Pass:
        nothing = np.zeros(manifold.dim)
        return cls(0, nothing, nothing, 0.0, 0.0, np.zeros(()), 0.0)

    @classmethod
    def of_blocks(cls, count: int, logs: Array, square: float, reach: float, hessian: Array, seen: float) -> Pass:
        """From the sums of logarithms over blocks, ``(blocks, dim)``."""
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
        )


def compensated_sum(terms: Array) -> tuple[Array, Array]:
    """The sum along the first axis, by halves, and what rounding has lost of it."""
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


HessianKnown = Literal["not at all", "its mean over directions", "in full"]


class Evaluator(ABC):
    """How to make a :class:`Pass` on one manifold, with the same work for every record as far as that can be had."""

    #: What passes say about the Hessian: the more, the fewer of them are needed.
    hessian: ClassVar[HessianKnown] = "not at all"

    def __init__(self, manifold: Manifold) -> None:
        self.manifold = manifold

    @abstractmethod
    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        """The pass at ``p`` over records in the ball."""

    @abstractmethod
    def clip(self, ball: Ball, records: Array, weights: Array | None) -> Pass:
        """Clips the records, in place, and makes the pass at the centre over them.

        Records that :meth:`Ball.clip` would only tidy up, off the manifold by less than the tolerance, may be left to the
        logarithm, which does not see the difference.
        """

    @abstractmethod
    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        """A step to the mean from the mean logarithm and the mean of what the passes say about the Hessian, in coordinates."""

    def move(self, ball: Ball, p: Array, step: Array) -> Array:
        """The end of a step, given in coordinates; outside the ball, the point of its boundary next to it."""
        manifold = ball.manifold
        point = manifold.raw_exp(p, manifold.raw_tangent(p, step))
        inside = manifold.raw_dist(ball.center, point) <= ball.radius
        return point if inside else ball.clip_chunk(point[None])[0]

    def follow(self, before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
        """Tangent vectors at one point, rows of coordinates, taken to another; and how the point moved, seen from there.

        They are projected to the tangent space as they are.
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
        coordinates = self.manifold.raw_coordinates(p, logs)
        squares = np.vecdot(coordinates, coordinates)
        w = np.ones(len(logs)) if weights is None else weights
        reach = math.sqrt(float(squares.max()))
        return Pass.of_blocks(len(logs), block_sums(coordinates, w), float(w @ squares), reach, np.zeros(()), 0.0)


def block_sums(values: Array, weights: Array) -> Array:
    """Weighted sums over blocks of :data:`Pass.BLOCK` records."""
    whole = len(values) // Pass.BLOCK * Pass.BLOCK
    blocks = weights[:whole].reshape(-1, 1, Pass.BLOCK) @ values[:whole].reshape(-1, Pass.BLOCK, values.shape[1])
    return np.concatenate([blocks[:, 0], (weights[whole:] @ values[whole:])[None]])


class CompiledEvaluator(Evaluator):
    """Compiled loops that read every record once, and clip on the way if the radius is finite."""

    def __init__(self, manifold: Manifold) -> None:
        super().__init__(manifold)
        self._ones = np.ones(0)

    @abstractmethod
    def run(self, p: Array, records: Array, weights: Array, radius: float) -> Pass:
        """The pass at ``p``. A finite radius is that of the ball about ``p`` into which the records are clipped in place."""

    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        return self._run(p, records, weights, math.inf)

    def clip(self, ball: Ball, records: Array, weights: Array | None) -> Pass:
        return self._run(ball.center, records, weights, ball.radius)

    def _run(self, p: Array, records: Array, weights: Array | None, radius: float) -> Pass:
        if weights is None:
            ones = self._ones  # another thread may put a shorter array in its place
            if len(ones) < len(records):
                ones = self._ones = np.ones(len(records))
            weights = ones[: len(records)]
        # compiled code is kept on disk for every type it has met: there is to be one type, whatever the source of the records
        records = np.require(records.view(np.ndarray), requirements=["C", "W"])
        with np.errstate(all="ignore"):
            return self.run(p, records, weights, radius)


class _CompiledSPD(CompiledEvaluator):
    """Positive-definite matrices are whitened by the inverse of a Cholesky factor, the same for all chunks of a pass."""

    def __init__(self, manifold: Manifold) -> None:
        super().__init__(manifold)
        self._frames: dict[int, tuple[Array, tuple[Array, Array, Array]]] = {}

    def frame(self, p: Array) -> tuple[Array, Array, Array]:
        """A writable copy of the point, its Cholesky factor, and the inverse of that."""
        at, frame = self._frames.get(id(p), (None, None))
        if at is not p or frame is None:
            from geodp.compute import group_kernels

            frame = np.array(p), np.empty(p.shape), np.empty(p.shape)
            group_kernels.factor(*frame)
            self._frames = {**dict(list(self._frames.items())[-1:]), id(p): (p, frame)}  # another thread may do the same
        return frame

    def move(self, ball: Ball, p: Array, step: Array) -> Array:
        from geodp.compute import group_kernels

        moved = np.array(p)
        group_kernels.move_spd(moved[None], step[None], *self.frame(ball.center), ball.radius)
        return moved

    def follow(self, before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
        there, moves = follow_spd(before[None], here[None], vectors[None])
        return there[0], moves[0]


def follow_spd(before: Array, here: Array, vectors: Array) -> tuple[Array, Array]:
    """:meth:`Evaluator.follow` on positive-definite matrices, in compiled code, for each of several points."""
    from geodp.compute import group_kernels

    there, moves = np.array(vectors), np.empty((len(vectors), vectors.shape[-1]))
    group_kernels.follow_spd(np.array(before), np.array(here), there, moves)
    return there, moves


class SPD2(_CompiledSPD):
    """2x2 matrices; Newton's step: the space is a hyperbolic plane times a line."""

    hessian = "in full"

    def run(self, p: Array, records: Array, weights: Array, radius: float) -> Pass:
        from geodp.compute import kernels

        blocks = _rows(records, 7)
        reach = kernels.spd2(records, weights, *self.frame(p), radius, Pass.BLOCK, blocks)
        a, d, b = blocks[:, 0], blocks[:, 1], blocks[:, 2]
        logs = np.stack([a + d, math.sqrt(2.0) * b, a - d], axis=-1)
        square, *hessian = blocks[:, 3:].sum(axis=0)
        return Pass.of_blocks(len(records), logs, float(square), reach, np.array(hessian), float(weights.sum()))

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        h00, h01, h11 = hessian.tolist()
        first, off, last = log.tolist()
        middle, d, b, det = 0.5 * (first + last), 0.5 * (first - last), math.sqrt(0.5) * off, h00 * h11 - h01 * h01
        if not det > 0.0:  # a singular Hessian says nothing
            return log
        d, b = (h11 * d - h01 * b) / det, (h00 * b - h01 * d) / det
        return np.array([middle + d, math.sqrt(2.0) * b, middle - d])


def _scaled_step(log: Array, hessian: Array) -> Array:
    """On matrices of other sizes: the full step along the trace, and one over the mean Hessian across it."""
    trace = _trace(len(log))
    along = (log @ trace) * trace
    return along + (log - along) / float(hessian)


@cache
def _trace(dim: int) -> Array:
    """The unit vector along the trace, in coordinates of symmetric matrices."""
    k = math.isqrt(2 * dim)
    return vector_from_symmetric(np.eye(k)) / math.sqrt(k)


class SPD3(_CompiledSPD):
    """3x3 matrices."""

    hessian = "its mean over directions"

    def run(self, p: Array, records: Array, weights: Array, radius: float) -> Pass:
        from geodp.compute import kernels

        blocks = _rows(records, 8)
        reach = kernels.spd3(records, weights, *self.frame(p), radius, Pass.BLOCK, blocks)
        root = math.sqrt(2.0)
        logs = blocks[:, [0, 1, 3, 2, 4, 5]] * [1.0, root, root, 1.0, root, 1.0]
        square, hessian = blocks[:, 6:].sum(axis=0)
        return Pass.of_blocks(len(records), logs, float(square), reach, np.asarray(hessian), float(weights.sum()))

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        return _scaled_step(log, hessian)


class SPDCompiled(_CompiledSPD):
    """Matrices of any size, without eigen-decompositions: those for the Hessian are made for a few records of each chunk."""

    hessian = "its mean over directions"

    def run(self, p: Array, records: Array, weights: Array, radius: float) -> Pass:
        from geodp.compute import spd_kernel

        k = len(p)
        blocks = _rows(records, k * (k + 1) // 2 + 1)
        frame = self.frame(p)
        reach = spd_kernel.spd(records, weights, *frame, radius, spd_kernel.quadrature(), Pass.BLOCK, blocks)
        few = slice(None, None, -(-len(records) // _FEW))
        values: Array = eigvalsh(conjugate(frame[2], records[few]))
        values = np.maximum(values, EPSILON * values[:, -1:])  # rounding may make a small one negative
        hessian, seen = weights[few] @ mean_hessian(np.log(values)), float(weights[few].sum())
        logs = blocks[:, :-1] * vector_from_symmetric(np.ones((k, k)))
        return Pass.of_blocks(len(records), logs, float(blocks[:, -1].sum()), reach, np.asarray(hessian), seen)

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        return _scaled_step(log, hessian)


#: Records of a chunk whose eigenvalues are taken for the mean Hessian, which need not be exact.
_FEW = 64


class SPDLarge(Evaluator):
    """Few matrices of any size, or no compiler: the manifold's own logarithm, and the Hessian from its spectrum."""

    hessian = "its mean over directions"

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


class Sphere2(CompiledEvaluator):
    """The unit sphere in space, with Newton's step."""

    hessian = "in full"

    def run(self, p: Array, records: Array, weights: Array, radius: float) -> Pass:
        from geodp.compute import kernels

        blocks = _rows(records, 11)
        reach = kernels.sphere2(records, weights, p / np.linalg.vector_norm(p), radius, Pass.BLOCK, blocks)
        totals = blocks[:, 3:].sum(axis=0)
        along, square = totals[:2]
        outer = totals[[2, 3, 5, 3, 4, 6, 5, 6, 7]].reshape(3, 3)
        logs = self.manifold.raw_coordinates(p, blocks[:, :3] - blocks[:, 3:4] * p)
        return Pass.of_blocks(len(records), logs, float(square), reach, along * np.eye(3) + outer, float(weights.sum()))

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        frame = self.manifold.raw_tangent(p, np.eye(2))
        try:
            return np.asarray(np.linalg.solve(frame @ hessian @ frame.T, log), dtype=np.float64)
        except np.linalg.LinAlgError:  # a singular Hessian says nothing
            return log


def _sphere_step(log: Array, hessian: Array) -> Array:
    # on a wide ball the mean Hessian may be small or negative away from the mean: then the gradient is the better step
    return log / float(hessian) if hessian > 0.1 else log


class SphereLarge(CompiledEvaluator):
    """Spheres of any dimension."""

    hessian = "its mean over directions"

    def __init__(self, manifold: Sphere) -> None:
        super().__init__(manifold)
        self.sphere = manifold

    def run(self, p: Array, records: Array, weights: Array, radius: float) -> Pass:
        from geodp.compute import kernels

        length, d = self.sphere.radius, self.sphere.d
        blocks = _rows(records, d + 3)
        unit = p / np.linalg.vector_norm(p)
        reach = kernels.sphere(records, weights, unit, length, radius / length, Pass.BLOCK, blocks)
        along, mass = blocks[:, d + 1, None], float(weights.sum())
        logs = self.sphere.raw_coordinates(p, length * blocks[:, : d + 1] - along * p)
        hessian = (mass + (d - 1) * float(along.sum())) / d
        square = length**2 * float(blocks[:, d + 2].sum())
        return Pass.of_blocks(len(weights), logs, square, length * reach, np.asarray(hessian), mass)

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        return _sphere_step(log, hessian)


class SphereAny(GeneralEvaluator):
    """Few records on a sphere, or no compiler: the manifold's own logarithm, and the Hessian from its lengths."""

    hessian = "its mean over directions"

    def __init__(self, manifold: Sphere) -> None:
        super().__init__(manifold)
        self.sphere = manifold

    def from_logs(self, p: Array, logs: Array, weights: Array | None) -> Pass:
        d, w = self.sphere.d, np.ones(len(logs)) if weights is None else weights
        angles = np.linalg.vector_norm(logs, axis=-1) / self.sphere.radius
        cotangents = np.where(angles > 1e-8, angles / np.tan(np.maximum(angles, 1e-8)), 1.0)
        hessian = np.asarray(w @ (1.0 + (d - 1) * cotangents) / d)
        return replace(super().from_logs(p, logs, weights), hessian=hessian, seen=float(w.sum()))

    def step(self, p: Array, log: Array, hessian: Array) -> Array:
        return _sphere_step(log, hessian)


def _rows(records: Array, columns: int) -> Array:
    """Room for the sums over the blocks of a chunk."""
    return np.empty((-(-len(records) // Pass.BLOCK), columns))


def best_evaluator(manifold: Manifold, count: int | None) -> Evaluator:
    """The fastest evaluator for so many records (``None``: unknown) of a manifold."""
    size = math.prod(manifold.point_shape)
    compile_it = compiled_code_is_there(math.inf if count is None else count * size)
    if isinstance(manifold, SPD) and manifold.k > 1 and not compile_it:
        return SPDLarge(manifold)
    if isinstance(manifold, SPD) and manifold.k > 3:
        return SPDCompiled(manifold)
    compiled: dict[Manifold, type[CompiledEvaluator]] = {SPD(2): SPD2, SPD(3): SPD3, Sphere(2): Sphere2}
    if compile_it and manifold in compiled:
        return compiled[manifold](manifold)
    if isinstance(manifold, Sphere) and manifold.d > 1:
        return SphereLarge(manifold) if compile_it else SphereAny(manifold)
    return GeneralEvaluator(manifold)


def compiled_code_is_there(numbers: float) -> bool:
    """Whether there is compiled code, and so many numbers are worth loading it."""
    return numbers >= _WORTH_COMPILING and _numba_is_there()


@cache
def _numba_is_there() -> bool:
    return importlib.util.find_spec("numba") is not None
