"""One pass over records: the sum of their logarithms at a point, and what the solver needs beside it.

An evaluator knows how to do this on one manifold. The general one calls the manifold's own maps; the others do the same
with less work a record.
"""

from __future__ import annotations

import importlib.util
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from geodp.inputs import EPSILON, Array
from geodp.manifolds import SPD, Sphere
from geodp.manifolds.ball import Ball
from geodp.manifolds.functions import angle_over_sine, conjugate, spectral, symmetric, transpose, two_sum
from geodp.manifolds.manifold import TOLERANCE, Manifold
from geodp.manifolds.small_eigen import eigh, eigvalsh
from geodp.manifolds.spd import cholesky, vector_from_symmetric

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


class Evaluator(ABC):
    """How to make a :class:`Pass` on one manifold."""

    @abstractmethod
    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        """The pass at ``p`` over records in the ball."""

    @abstractmethod
    def clip(self, ball: Ball, p: Array, records: Array, weights: Array | None) -> tuple[Pass, Array]:
        """The pass at ``p``, in the ball, over clipped records, and these records: the same array if none had to move.

        Records that :meth:`Ball.clip` would only tidy up, off the manifold by little more than rounding, may be left to the
        logarithm, which does not see the difference.
        """

    @abstractmethod
    def step(self, p: Array, gradient: Array, hessian: Array) -> Array:
        """A step to the mean, from the mean of what the passes say about the Hessian."""


class GeneralEvaluator(Evaluator):
    """Logarithms by the manifold's own ``raw_log``, and nothing about the Hessian."""

    def __init__(self, manifold: Manifold) -> None:
        self.manifold = manifold

    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        return self.from_logs(p, self.manifold.raw_log(p, records), weights)

    def clip(self, ball: Ball, p: Array, records: Array, weights: Array | None) -> tuple[Pass, Array]:
        clipped, logs = ball.clip_with_logs(records)
        return self.from_logs(p, logs, weights) if p is ball.center else self.evaluate(p, clipped, weights), clipped

    def step(self, p: Array, gradient: Array, hessian: Array) -> Array:
        return gradient

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


class FastEvaluator(Evaluator):
    """A closed form for the records it is sure about, and the general path for chunks with any other."""

    def __init__(self, manifold: Manifold) -> None:
        self.general = GeneralEvaluator(manifold)
        self._ones = np.ones(0)

    @abstractmethod
    def fast(self, p: Array, records: Array, weights: Array) -> Pass | None:
        """The pass at ``p``; nothing if some record is not certain to be a point on which the closed form is accurate."""

    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        result = self._try(p, records, weights)
        return self.general.evaluate(p, records, weights) if result is None else result

    def clip(self, ball: Ball, p: Array, records: Array, weights: Array | None) -> tuple[Pass, Array]:
        result = self._try(p, records, weights)
        if result is not None and result.reach + _off_center(ball, p, result.reach) <= ball.radius:
            return result, records
        if p is ball.center:
            return self.general.clip(ball, p, records, weights)
        clipped = self.clip(ball, ball.center, records, weights)[1]
        return (self.evaluate(p, clipped, weights) if result is None or clipped is not records else result), clipped

    def _try(self, p: Array, records: Array, weights: Array | None) -> Pass | None:
        if weights is None:
            ones = self._ones  # another thread may put a shorter array in its place
            if len(ones) < len(records):
                ones = self._ones = np.ones(len(records))
            weights = ones[: len(records)]
        # compiled code is kept on disk for every type it has met: a second one would tell that a record was clipped
        records = records.view(np.ndarray)
        records.flags.writeable = False
        with np.errstate(all="ignore"):
            return self.fast(p, records, weights)


def _off_center(ball: Ball, p: Array, reach: float) -> float:
    """How much farther from the centre than from ``p`` records within ``reach`` of ``p`` may be, rounding included."""
    manifold, rounding = ball.manifold, ball.manifold.log_rounding(p, reach)
    if p is ball.center:
        return rounding
    distance = float(manifold.raw_dist(ball.center, p))
    return distance + manifold.log_rounding(ball.center, distance) + rounding


class _SPDEvaluator(FastEvaluator):
    """Positive-definite matrices are whitened by the inverse of a Cholesky factor, the same for all chunks of a pass."""

    def __init__(self, manifold: Manifold) -> None:
        super().__init__(manifold)
        self._factor = np.empty(0), np.empty(0)

    def inverse(self, p: Array) -> Array:
        at, inverse = self._factor
        if at is not p:
            inverse = cholesky(p)[1]
            self._factor = p, inverse
        return inverse


class SPD2(_SPDEvaluator):
    """2x2 matrices, compiled; Newton's step: the space is a hyperbolic plane times a line."""

    def fast(self, p: Array, records: Array, weights: Array) -> Pass | None:
        from geodp.compute import kernels

        blocks = _rows(records, 7)
        reach = kernels.spd2(records, weights, self.inverse(p), Pass.BLOCK, blocks)
        if reach == kernels.UNSURE:
            return None
        a, d, b = blocks[:, 0], blocks[:, 1], blocks[:, 2]
        logs = np.stack([a + d, math.sqrt(2.0) * b, a - d], axis=-1)
        square, *hessian = blocks[:, 3:].sum(axis=0)
        return Pass.of_blocks(len(records), logs, float(square), reach, np.array(hessian), float(weights.sum()))

    def step(self, p: Array, gradient: Array, hessian: Array) -> Array:
        factor, inverse = cholesky(p)
        g = conjugate(inverse, gradient)
        h00, h01, h11 = hessian
        middle, off = 0.5 * (g[0, 0] + g[1, 1]), (0.5 * (g[0, 0] - g[1, 1]), g[0, 1])
        d, b = np.linalg.solve([[h00, h01], [h01, h11]], off)
        return conjugate(factor, np.array([[middle + d, b], [b, middle - d]]))


class _ScaledSPD(_SPDEvaluator):
    """Matrices of other sizes: the full step along the trace, and one over the mean Hessian across it."""

    def step(self, p: Array, gradient: Array, hessian: Array) -> Array:
        along = float(np.trace(np.linalg.solve(p, gradient))) / len(p) * p
        return along + (gradient - along) / float(hessian)


class SPD3(_ScaledSPD):
    """3x3 matrices, compiled."""

    def fast(self, p: Array, records: Array, weights: Array) -> Pass | None:
        from geodp.compute import kernels

        blocks = _rows(records, 8)
        reach = kernels.spd3(records, weights, self.inverse(p), Pass.BLOCK, blocks)
        if reach == kernels.UNSURE:
            return None
        root = math.sqrt(2.0)
        logs = blocks[:, [0, 1, 3, 2, 4, 5]] * [1.0, root, root, 1.0, root, 1.0]
        square, hessian = blocks[:, 6:].sum(axis=0)
        return Pass.of_blocks(len(records), logs, float(square), reach, np.asarray(hessian), float(weights.sum()))


class SPDLarge(_ScaledSPD):
    """Matrices of any size: whitening as two products over the whole chunk, then ``eigh``."""

    def fast(self, p: Array, records: Array, weights: Array) -> Pass | None:
        n = len(records)
        off = np.abs(records - transpose(records)).max(axis=(1, 2))
        if not (off <= 16.0 * EPSILON * np.abs(records).max(axis=(1, 2))).all():
            return None
        whitened = self.whitened(p, records)
        if not np.isfinite(whitened).all():
            return None
        values, vectors = eigh(whitened)
        if not (values[:, -1] < 1e4 * values[:, 0]).all():
            return None
        logs = np.log(values)
        squares = np.vecdot(logs, logs)
        sums = block_sums(vector_from_symmetric(spectral(vectors, logs)), weights)
        hessian = weights @ _mean_hessian(values, logs)
        reach = math.sqrt(float(squares.max()))
        return Pass.of_blocks(n, sums, float(weights @ squares), reach, np.asarray(hessian), float(weights.sum()))

    def whitened(self, p: Array, records: Array) -> Array:
        n, k = records.shape[:2]
        inverse = self.inverse(p)
        half = (records.reshape(-1, k) @ inverse.T).reshape(n, k, k)
        return symmetric((np.ascontiguousarray(transpose(half)).reshape(-1, k) @ inverse.T).reshape(n, k, k))


class SPDCompiled(SPDLarge):
    """The same, compiled, without eigen-decompositions: those for the Hessian are made for a few records of each chunk."""

    def fast(self, p: Array, records: Array, weights: Array) -> Pass | None:
        from geodp.compute import kernels, spd_kernel

        k = len(p)
        blocks = _rows(records, k * (k + 1) // 2 + 1)
        reach = spd_kernel.spd(records, weights, self.inverse(p), spd_kernel.quadrature(), Pass.BLOCK, blocks)
        if reach == kernels.UNSURE:
            return None
        few = slice(None, None, -(-len(records) // _FEW))
        values: Array = eigvalsh(self.whitened(p, records[few]))
        hessian, seen = weights[few] @ _mean_hessian(values, np.log(values)), float(weights[few].sum())
        logs = blocks[:, :-1] * vector_from_symmetric(np.ones((k, k)))
        return Pass.of_blocks(len(records), logs, float(blocks[:, -1].sum()), reach, np.asarray(hessian), seen)


#: Records of a chunk whose eigenvalues are taken for the mean Hessian, which need not be exact.
_FEW = 64


def _mean_hessian(values: Array, logs: Array) -> Array:
    """The mean over trace-free directions of the Hessian of half the squared distance: ``(t/2) coth(t/2)`` over gaps ``t``."""
    k = values.shape[-1]
    i, j = np.triu_indices(k, 1)
    gaps = values[:, i] - values[:, j]
    apart = np.where(gaps == 0.0, 1.0, gaps)
    factors = np.where(gaps == 0.0, 1.0, 0.5 * (logs[:, i] - logs[:, j]) * (values[:, i] + values[:, j]) / apart)
    return (k - 1 + factors.sum(axis=-1)) / (k - 1 + len(i))


class Sphere2(FastEvaluator):
    """The unit sphere in space, compiled, with Newton's step."""

    def fast(self, p: Array, records: Array, weights: Array) -> Pass | None:
        from geodp.compute import kernels

        blocks = _rows(records, 11)
        lowest = kernels.sphere2(records, weights, p / np.linalg.vector_norm(p), Pass.BLOCK, blocks)
        reach = _angle_at_most(lowest, 3)
        if not reach <= _FAR:
            return None
        totals = blocks[:, 3:].sum(axis=0)
        along, square = totals[:2]
        outer = totals[[2, 3, 5, 3, 4, 6, 5, 6, 7]].reshape(3, 3)
        logs = self.general.manifold.raw_coordinates(p, blocks[:, :3] - blocks[:, 3:4] * p)
        return Pass.of_blocks(len(records), logs, float(square), reach, along * np.eye(3) + outer, float(weights.sum()))

    def step(self, p: Array, gradient: Array, hessian: Array) -> Array:
        across = np.eye(3) - np.outer(p, p)
        return np.asarray(np.linalg.solve(across @ hessian @ across + np.outer(p, p), gradient), dtype=np.float64)


class SphereAny(FastEvaluator):
    """Spheres of any dimension: cosines and gradient are two products of the chunk with a vector."""

    def __init__(self, manifold: Sphere) -> None:
        super().__init__(manifold)
        self.sphere = manifold

    def fast(self, p: Array, records: Array, weights: Array) -> Pass | None:
        radius = self.sphere.radius
        norms = np.sqrt(np.vecdot(records, records))
        if not (np.abs(norms - radius) <= 0.5 * TOLERANCE * radius).all():
            return None
        cosines = np.minimum((records @ p) / (norms * np.linalg.vector_norm(p)), 1.0)
        factors = angle_over_sine(cosines)
        angles = factors * np.sqrt((1.0 - cosines) * (1.0 + cosines))
        products = block_sums(records, weights * factors / norms)
        along = block_sums((factors * cosines)[:, None], weights)
        return self.result(p, products, along, float(weights @ angles**2), float(cosines.min()), weights)

    def result(self, p: Array, products: Array, along: Array, square: float, lowest: float, weights: Array) -> Pass | None:
        """From sums over blocks of ``t/sin t`` times unit records and of ``t cot t``, and the lowest cosine."""
        radius, d = self.sphere.radius, self.sphere.d
        reach = _angle_at_most(lowest, d + 1)
        if not reach <= _FAR:
            return None
        mass = float(weights.sum())
        logs = self.sphere.raw_coordinates(p, radius * products - along * p)
        hessian = (mass + (d - 1) * float(along.sum())) / d
        return Pass.of_blocks(len(weights), logs, radius**2 * square, radius * reach, np.asarray(hessian), mass)

    def step(self, p: Array, gradient: Array, hessian: Array) -> Array:
        # on a wide ball the mean Hessian may be small or negative away from the mean: then the gradient is the better step
        return gradient / float(hessian) if hessian > 0.1 else gradient


class SphereLarge(SphereAny):
    """The same, compiled: every record is read once."""

    def fast(self, p: Array, records: Array, weights: Array) -> Pass | None:
        from geodp.compute import kernels

        size = self.sphere.d + 1
        blocks = _rows(records, size + 2)
        lowest = kernels.sphere(records, weights, p / np.linalg.vector_norm(p), self.sphere.radius, Pass.BLOCK, blocks)
        if lowest == kernels.UNSURE:
            return None
        return self.result(p, blocks[:, :size], blocks[:, size, None], float(blocks[:, size + 1].sum()), lowest, weights)


#: Past this angle the factor t/sin t magnifies rounding errors of the cosine, and logarithms are taken one by one.
_FAR = 2.0


def _angle_at_most(cosine: float, terms: int) -> float:
    """An upper bound on the angle whose cosine was computed as a product of so many terms."""
    return math.acos(max(min(cosine - (terms + 8) * EPSILON, 1.0), -1.0))


def _rows(records: Array, columns: int) -> Array:
    """Room for the sums over the blocks of a chunk."""
    return np.empty((-(-len(records) // Pass.BLOCK), columns))


def best_evaluator(manifold: Manifold, count: int | None) -> Evaluator:
    """The fastest evaluator for so many records (``None``: unknown) of a manifold."""
    size = math.prod(manifold.point_shape)
    compile_it = (count is None or count * size >= _WORTH_COMPILING) and _numba_is_there()
    if isinstance(manifold, SPD) and manifold.k > 1 and not compile_it:
        return SPDLarge(manifold)
    if isinstance(manifold, SPD) and manifold.k > 3:
        return SPDCompiled(manifold)
    compiled: dict[Manifold, type[FastEvaluator]] = {SPD(2): SPD2, SPD(3): SPD3, Sphere(2): Sphere2}
    if compile_it and manifold in compiled:
        return compiled[manifold](manifold)
    if isinstance(manifold, Sphere) and manifold.d > 1:
        return SphereLarge(manifold) if compile_it else SphereAny(manifold)
    return GeneralEvaluator(manifold)


@cache
def _numba_is_there() -> bool:
    return importlib.util.find_spec("numba") is not None
