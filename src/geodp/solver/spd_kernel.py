r"""Compiled inner loop of the Fréchet mean of positive-definite matrices larger than 3x3, without an eigen-decomposition.

A whitened matrix is brought to tridiagonal form, ``A = Q T Q'``, by reflections. Its logarithm is

.. math:: \log T = (T - I) \int_0^1 (I + t (T - I))^{-1} dt,

by the quadrature of Gauss and Legendre, which is the diagonal Padé approximant: if all eigenvalues of ``T`` are between
``exp(-L)`` and ``exp(L)``, then ``m`` nodes leave an error of about ``2 pi tanh(L/4)^(2m+1)``. The pivots of ``T - exp(-L)`` and
``exp(L) - T`` say for certain whether they are. The inverse of a tridiagonal positive-definite matrix takes one division a
row and one product an entry, and no step can lose digits by cancellation.

Everything is done on :data:`LANES` matrices at once: the last axis of every array is the matrix, and the innermost loops
run along it, so that they become vector instructions. This takes a fifth of the time of LAPACK's eigen-decomposition of
10x10 matrices, and has a smaller error.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds.spd import MOST_SPREAD
from geodp.solver.lanes import compiled
from geodp.solver.matrix_kernels import SYMMETRIC, curve, far_matrix

Flags = NDArray[np.bool_]

#: Matrices handled at once: enough to fill vector registers, few enough to stay in the cache.
LANES = 32


class Quadrature(NamedTuple):
    """For each reach ``L``: how many nodes make the logarithm exact to rounding, the nodes in (0, 1), and their weights."""

    reaches: Array
    counts: NDArray[np.int64]
    nodes: Array
    weights: Array


@cache
def quadrature() -> Quadrature:
    reaches = np.append(np.arange(0.25, 4.6, 0.25), 0.5 * math.log(MOST_SPREAD))
    counts = np.ceil(math.log(1e-17 / (2.0 * math.pi)) / (2.0 * np.log(np.tanh(reaches / 4.0)))).astype(np.int64)
    nodes, weights = np.zeros((2, len(reaches), counts.max()))
    for row, count in enumerate(counts):
        x, w = np.polynomial.legendre.leggauss(count)
        nodes[row, :count], weights[row, :count] = 0.5 + 0.5 * x, 0.5 * w
    return Quadrature(reaches, counts, nodes, weights)


@compiled
def spd(
    x: Array, weights: Array, p: Array, factor: Array, inverse: Array, most: float, radius: float, rule: Quadrature,
    block: int, blocks: Array,
) -> float:  # fmt: skip
    """Sums over blocks: columns of ``blocks`` are the lower entries of the logarithms, column by column, the squared length, and
    the Hessian's mean over trace-free directions, from the mean gap between the logarithms of eigenvalues.

    ``factor`` and ``inverse`` are the Cholesky factor of the point ``p`` at which logarithms are taken, and its inverse; matrices
    with a ratio of eigenvalues above ``most`` are factorised. With a finite radius the records are clipped in place, as in
    ``kernels``. Returns the largest length.
    """
    k = len(inverse)
    square = (k, k, LANES)
    matrix, room, logs, total = np.empty(square), np.empty(square), np.empty(square), np.empty(square)
    diagonal, off, scales = np.empty((k, LANES)), np.empty((k, LANES)), np.empty((k, LANES))
    one, two = np.empty((k, LANES)), np.empty((k, LANES))
    lane_weights, lengths, traces = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    sure, inside = np.empty(LANES, dtype=np.bool_), np.empty(LANES, dtype=np.bool_)
    vectors, spectrum, spare = np.empty((k, k)), np.empty(k), np.empty((k, k))
    widest = len(rule.reaches) - 1
    while widest > 0 and rule.reaches[widest] > 0.5 * math.log(most) + 1e-9:
        widest -= 1
    farthest, row = 0.0, 0
    for start in range(0, len(x), block):
        stop = min(start + block, len(x))
        total[:] = 0.0
        squares = hessian = 0.0
        for first in range(start, stop, LANES):
            count = min(LANES, stop - first)
            _whiten(x[first : first + count], inverse, room, matrix, sure)
            _tridiagonalise(matrix, diagonal, off, scales, one)
            _within(diagonal, off, rule.reaches[widest], one[0], one[1], sure)
            _leave_to_later(sure, diagonal, off, scales, matrix)
            # from the rule of the last group, so that one record with a wide spread costs the groups after it nothing
            if _all_within(diagonal, off, rule.reaches[row], one[0], one[1], inside):
                while row > 0 and _all_within(diagonal, off, rule.reaches[row - 1], one[0], one[1], inside):
                    row -= 1
            else:
                row += 1
                while row < widest and not _all_within(diagonal, off, rule.reaches[row], one[0], one[1], inside):
                    row += 1
            _integrate(diagonal, off, rule.nodes[row], rule.weights[row], rule.counts[row], one, two, room)
            _times_shifted(diagonal, off, room, logs)
            _turn_back(matrix, scales, one, logs)
            lengths[:] = 0.0
            traces[:] = 0.0
            for i in range(k):
                for z in range(LANES):
                    traces[z] += logs[i, i, z]
                for j in range(i + 1):
                    times = 1.0 if i == j else 2.0
                    for z in range(LANES):
                        lengths[z] += times * logs[i, j, z] * logs[i, j, z]
            for z in range(LANES):
                sure[z] &= lengths[z] <= radius * radius
                lane_weights[z] = weights[first + z] if (z < count) & sure[z] else 0.0
                lengths[z] = lengths[z] if sure[z] else 0.0
                squares += lane_weights[z] * lengths[z]
                hessian += lane_weights[z] * _mean_curve(k, lengths[z], traces[z])
            for i in range(k):
                for j in range(i + 1):
                    for z in range(LANES):
                        total[i, j, z] += lane_weights[z] * logs[i, j, z]
            for z in range(count):
                if not sure[z]:
                    w = weights[first + z]
                    length = far_matrix(x[first + z], p, factor, inverse, radius, vectors, spectrum, spare)
                    lengths[z] = length * length
                    squares += w * lengths[z]
                    hessian += w * _mean_curve(k, lengths[z], spectrum.sum())
                    for i in range(k):
                        for j in range(i + 1):
                            for m in range(k):
                                total[i, j, z] += w * spectrum[m] * vectors[i, m] * vectors[j, m]
            farthest = max(farthest, lengths.max())
        column = 0
        for j in range(k):
            for i in range(j, k):
                blocks[start // block, column] = total[i, j].sum()
                column += 1
        blocks[start // block, column] = squares
        blocks[start // block, column + 1] = hessian
    return math.sqrt(farthest)


@compiled
def _mean_curve(k: int, square: float, trace: float) -> float:
    """The Hessian across two eigenvalues whose gap is the root mean square of all gaps; along the others it is 1.

    ``square`` is the sum of the squared logarithms of the eigenvalues and ``trace`` their sum.
    """
    pairs = 0.5 * k * (k - 1)
    gaps = max(k * square - trace * trace, 0.0)
    return (k - 1 + pairs * curve(math.sqrt(gaps / pairs))) / (k - 1 + pairs)


@compiled
def _whiten(x: Array, inverse: Array, room: Array, matrix: Array, sure: Flags) -> None:
    """The lower triangles of ``inverse x inverse'``, the last repeated to fill the lanes; ``sure`` says which are symmetric."""
    k, count = len(inverse), len(x)
    for z in range(count):
        largest = apart = 0.0
        for i in range(k):
            for j in range(i + 1):
                largest = max(largest, abs(x[z, i, j]))
                apart = max(apart, abs(x[z, i, j] - x[z, j, i]))
                room[i, j, z] = room[j, i, z] = 0.5 * (x[z, i, j] + x[z, j, i])
        sure[z] = apart <= SYMMETRIC * largest
    for z in range(count, LANES):
        sure[z] = sure[count - 1]
    for i in range(k):
        for j in range(k):
            for z in range(count, LANES):
                room[i, j, z] = room[i, j, count - 1]
    for i in range(k - 1, -1, -1):  # inverse x in place: row i needs the rows above it only
        for j in range(k):
            for z in range(LANES):
                room[i, j, z] *= inverse[i, i]
        for m in range(i):
            for j in range(k):
                for z in range(LANES):
                    room[i, j, z] += inverse[i, m] * room[m, j, z]
    for i in range(k):
        for j in range(i + 1):
            for z in range(LANES):
                matrix[i, j, z] = inverse[j, 0] * room[i, 0, z]
            for m in range(1, j + 1):
                for z in range(LANES):
                    matrix[i, j, z] += inverse[j, m] * room[i, m, z]


@compiled
def _leave_to_later(sure: Flags, diagonal: Array, off: Array, scales: Array, matrix: Array) -> None:
    """Puts the identity in the place of what the quadrature is not sure of: its logarithm is zero."""
    k = len(diagonal)
    for z in range(LANES):
        if not sure[z]:
            for i in range(k):
                diagonal[i, z], off[i, z], scales[i, z] = 1.0, 0.0, 0.0
                for j in range(k):
                    matrix[i, j, z] = 0.0


@compiled
def _tridiagonalise(matrix: Array, diagonal: Array, off: Array, scales: Array, p: Array) -> None:
    """Householder's reduction of lower triangles in place.

    The reflection ``I - scale v v'`` that clears a column leaves its ``v`` there.
    """
    k = len(matrix)
    for c in range(k - 2):
        p[c, :] = 0.0
        for i in range(c + 1, k):
            for z in range(LANES):
                p[c, z] += matrix[i, c, z] * matrix[i, c, z]
        for z in range(LANES):
            top, norm = matrix[c + 1, c, z], math.sqrt(p[c, z])
            off[c, z] = -norm if top >= 0.0 else norm
            matrix[c + 1, c, z] = top - off[c, z]
            half_square = -off[c, z] * matrix[c + 1, c, z]
            scales[c, z] = 1.0 / half_square if half_square > 0.0 else 0.0
        for i in range(c + 1, k):
            for z in range(LANES):
                p[i, z] = matrix[i, i, z] * matrix[i, c, z]
        for i in range(c + 2, k):
            for j in range(c + 1, i):
                for z in range(LANES):
                    p[i, z] += matrix[i, j, z] * matrix[j, c, z]
                    p[j, z] += matrix[i, j, z] * matrix[i, c, z]
        _reflect(matrix, c, scales, p, matrix)
    for i in range(k):
        for z in range(LANES):
            diagonal[i, z] = matrix[i, i, z]
    for z in range(LANES):
        off[k - 2, z] = matrix[k - 1, k - 2, z]


@compiled
def _reflect(vectors: Array, c: int, scales: Array, p: Array, matrix: Array) -> None:
    """``H A H`` in the rows and columns past ``c``, for ``H = I - scale v v'``, given ``p = A v``, which is overwritten."""
    k = len(matrix)
    p[c, :] = 0.0
    for i in range(c + 1, k):
        for z in range(LANES):
            p[i, z] *= scales[c, z]
            p[c, z] += p[i, z] * vectors[i, c, z]
    for i in range(c + 1, k):
        for z in range(LANES):
            p[i, z] -= 0.5 * scales[c, z] * p[c, z] * vectors[i, c, z]
    for i in range(c + 1, k):
        for j in range(c + 1, i + 1):
            for z in range(LANES):
                matrix[i, j, z] -= vectors[i, c, z] * p[j, z] + p[i, z] * vectors[j, c, z]


@compiled
def _within(diagonal: Array, off: Array, reach: float, above: Array, below: Array, inside: Flags) -> None:
    """Clears ``inside`` where an eigenvalue is not between ``exp(-reach)`` and ``exp(reach)``, by the signs of pivots."""
    low, high = math.exp(-reach), math.exp(reach)
    for z in range(LANES):
        above[z], below[z] = diagonal[0, z] - low, high - diagonal[0, z]
        inside[z] &= (above[z] > 0.0) & (below[z] > 0.0)  # no if not a number
    for i in range(1, len(diagonal)):
        for z in range(LANES):
            square = off[i - 1, z] * off[i - 1, z]
            above[z] = (diagonal[i, z] - low) - square / above[z]
            below[z] = (high - diagonal[i, z]) - square / below[z]
            inside[z] &= (above[z] > 0.0) & (below[z] > 0.0)


@compiled
def _all_within(diagonal: Array, off: Array, reach: float, above: Array, below: Array, inside: Flags) -> bool:
    """Whether all eigenvalues of all lanes are between ``exp(-reach)`` and ``exp(reach)``."""
    inside[:] = True
    _within(diagonal, off, reach, above, below, inside)
    return bool(inside.all())


@compiled
def _integrate(
    diagonal: Array, off: Array, nodes: Array, weights: Array, count: int, inverted: Array, ratios: Array, total: Array
) -> None:
    """The lower triangle of the sum of ``weight (I + node (T - I))^-1``.

    With ``1/g`` the pivots from the last row up, the inverse ``G`` has ``G[i+1, i+1] = g[i+1] + r[i]^2 G[i, i]`` on its
    diagonal and ``G[i+1, j] = r[i] G[i, j]`` below it, where ``r[i] = -node off[i] g[i+1]``.
    """
    k = len(diagonal)
    for i in range(k):
        total[i, : i + 1] = 0.0
    for n in range(count):
        t, w = nodes[n], weights[n]
        for z in range(LANES):
            inverted[k - 1, z] = 1.0 / (1.0 + t * (diagonal[k - 1, z] - 1.0))
        for i in range(k - 2, -1, -1):
            for z in range(LANES):
                ratios[i, z] = -t * off[i, z] * inverted[i + 1, z]
                inverted[i, z] = 1.0 / (1.0 + t * (diagonal[i, z] - 1.0) + t * off[i, z] * ratios[i, z])
        for z in range(LANES):
            inverted[0, z] *= w
        for i in range(1, k):
            for z in range(LANES):
                inverted[i, z] = w * inverted[i, z] + ratios[i - 1, z] * ratios[i - 1, z] * inverted[i - 1, z]
        for j in range(k):
            for z in range(LANES):
                total[j, j, z] += inverted[j, z]
            for i in range(j + 1, k):
                for z in range(LANES):
                    inverted[j, z] *= ratios[i - 1, z]
                    total[i, j, z] += inverted[j, z]


@compiled
def _times_shifted(diagonal: Array, off: Array, integral: Array, logs: Array) -> None:
    """The lower triangle of ``(T - I) R`` from that of ``R``, which is symmetric and commutes with ``T``."""
    k = len(diagonal)
    for i in range(k):
        for j in range(i + 1):
            for z in range(LANES):
                logs[i, j, z] = (diagonal[i, z] - 1.0) * integral[i, j, z]
            if i > 0:
                for z in range(LANES):
                    logs[i, j, z] += off[i - 1, z] * (integral[i - 1, j, z] if i > j else integral[i, i - 1, z])
            if i < k - 1:
                for z in range(LANES):
                    logs[i, j, z] += off[i, z] * integral[i + 1, j, z]


@compiled
def _turn_back(vectors: Array, scales: Array, p: Array, logs: Array) -> None:
    """``Q A Q'`` in place of the lower triangle ``A``, where ``Q`` is the product of the reflections."""
    k = len(logs)
    for c in range(k - 3, -1, -1):
        p[:] = 0.0
        for i in range(c + 1, k):
            for j in range(i):
                for z in range(LANES):
                    p[j, z] += logs[i, j, z] * vectors[i, c, z]
            for j in range(c + 1, i + 1):
                for z in range(LANES):
                    p[i, z] += logs[i, j, z] * vectors[j, c, z]
        for i in range(c + 1, k):
            for j in range(c + 1):
                for z in range(LANES):
                    logs[i, j, z] -= scales[c, z] * p[j, z] * vectors[i, c, z]
        _reflect(vectors, c, scales, p, logs)
