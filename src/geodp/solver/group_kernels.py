"""Compiled passes over many groups: for each group the loop of ``kernels``, at its own point.

The columns of ``rows`` are those of the loop's ``blocks`` and the largest distance, with one row for every block of every group.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds.spd import LEAST_SPREAD, MOST_LOST, MOST_SPREAD
from geodp.solver.kernels import SPD3_ROOM, cholesky, compiled, far_matrix, rotations3, spd2, spd3_pieces, sphere2

Integers = NDArray[np.int64]


@compiled
def spd2_groups(x: Array, starts: Integers, points: Array, radius: float, block: int, rows: Array) -> None:
    """2x2 positive-definite matrices."""
    row, weights = 0, np.ones(_largest(starts))
    root, inverse = np.empty((2, 2)), np.empty((2, 2))
    for g in range(len(points)):
        begin, end = starts[g], starts[g + 1]
        after = row + (end - begin + block - 1) // block
        if end > begin:
            most = factor(points[g], root, inverse)
            blocks = rows[row:after]
            blocks[:, -1] = spd2(x[begin:end], weights, points[g], root, inverse, most, radius, block, blocks)
        row = after


@compiled
def spd3_groups(x: Array, starts: Integers, points: Array, radius: float, block: int, rows: Array) -> None:
    """3x3 positive-definite matrices; takes as many groups at a time as fill a block."""
    room, sure, weights, each = np.empty((SPD3_ROOM, block)), np.empty(block, dtype=np.bool_), np.ones(block), np.empty((0, 6))
    begins, counts, places = np.empty(block, dtype=np.int64), np.empty(block, dtype=np.int64), np.zeros(block, dtype=np.int64)
    bases, roots, inverses = np.empty((block, 3, 3)), np.empty((block, 3, 3)), np.empty((block, 3, 3))
    mosts = np.empty(block)
    row = pieces = filled = 0
    for g in range(len(points)):
        for begin in range(starts[g], starts[g + 1], block):
            count = min(block, starts[g + 1] - begin)
            if filled + count > block:
                spd3_pieces(
                    x, weights, begins, places, counts[:pieces], bases, roots, inverses, mosts, radius, rows[row : row + pieces],
                    each, radius, room, sure,
                )  # fmt: skip
                row += pieces
                pieces = filled = 0
            begins[pieces], counts[pieces] = begin, count
            for i in range(3):
                for j in range(3):
                    bases[pieces, i, j] = points[g, i, j]
            mosts[pieces] = factor(points[g], roots[pieces], inverses[pieces])
            pieces += 1
            filled += count
    spd3_pieces(
        x, weights, begins, places, counts[:pieces], bases, roots, inverses, mosts, radius, rows[row : row + pieces], each,
        radius, room, sure,
    )  # fmt: skip


@compiled
def move_spd(points: Array, steps: Array, center: Array, factor: Array, inverse: Array, radius: float) -> None:
    """Moves positive-definite matrices by steps in the frames of their Cholesky factors, in place, and into the ball.

    ``factor`` and ``inverse`` are those of the centre. A point with a zero step does not change, bit for bit.
    """
    k = len(center)
    root, room, inner = np.empty((k, k)), np.empty((k, k)), np.empty((k, k))
    vectors, logs = np.empty((k, k)), np.empty(k)
    for g in range(len(points)):
        if not steps[g].any():
            continue
        _to_matrix(steps[g], inner)
        cholesky(points[g], 1.0, root)
        _diagonalise(inner, vectors)
        for i in range(k):  # the new point is F F' with F = root @ vectors @ exp(inner/2)
            for j in range(k):
                total = 0.0
                for m in range(i + 1):
                    total += root[i, m] * vectors[m, j]
                room[i, j] = total * math.exp(0.5 * inner[j, j])
        for i in range(k):
            for j in range(i + 1):
                total = 0.0
                for m in range(k):
                    total += room[i, m] * room[j, m]
                points[g, i, j] = points[g, j, i] = total
        if radius < math.inf:
            far_matrix(points[g], center, factor, inverse, radius, vectors, logs, room)


@compiled
def follow_spd(before: Array, here: Array, vectors: Array, moves: Array) -> None:
    """Tangent vectors ``(groups, m, dim)`` as the same matrices at other points, in place, and minus the logarithms back.

    All coordinates are in the frames of Cholesky factors: of ``before`` for the input, and of ``here`` for the output.
    """
    k = before.shape[1]
    old, new, inverse, across = np.empty((k, k)), np.empty((k, k)), np.empty((k, k)), np.empty((k, k))
    inner, room, turn = np.empty((k, k)), np.empty((k, k)), np.empty((k, k))
    for g in range(len(before)):
        cholesky(before[g], 1.0, old)
        factor(here[g], new, inverse)
        for i in range(k):
            for j in range(k):
                total = 0.0
                for m in range(j, i + 1):
                    total += inverse[i, m] * old[m, j]
                across[i, j] = total
        for n in range(vectors.shape[1]):
            _to_matrix(vectors[g, n], inner)
            _conjugate(across, inner, room)
            _to_vector(inner, vectors[g, n])
        for i in range(k):
            for j in range(k):
                inner[i, j] = 1.0 if i == j else 0.0
        _conjugate(across, inner, room)
        _diagonalise(inner, turn)
        for i in range(k):
            for j in range(k):
                total = 0.0
                for m in range(k):
                    total -= turn[i, m] * math.log(inner[m, m]) * turn[j, m]
                room[i, j] = total
        _to_vector(room, moves[g])


@compiled
def _to_matrix(vector: Array, matrix: Array) -> None:
    column = 0
    for i in range(len(matrix)):
        for j in range(i, len(matrix)):
            matrix[i, j] = matrix[j, i] = vector[column] * (1.0 if i == j else 0.7071067811865476)
            column += 1


@compiled
def _to_vector(matrix: Array, vector: Array) -> None:
    column = 0
    for i in range(len(matrix)):
        for j in range(i, len(matrix)):
            vector[column] = matrix[i, j] * (1.0 if i == j else 1.4142135623730951)
            column += 1


@compiled
def _conjugate(lower: Array, matrix: Array, room: Array) -> None:
    """``L A L'`` in place of the symmetric matrix ``A``, for a lower triangle ``L``."""
    k = len(matrix)
    for i in range(k):
        for j in range(k):
            total = 0.0
            for m in range(i + 1):
                total += lower[i, m] * matrix[m, j]
            room[i, j] = total
    for i in range(k):
        for j in range(i + 1):
            total = 0.0
            for m in range(j + 1):
                total += room[i, m] * lower[j, m]
            matrix[i, j] = matrix[j, i] = total


@compiled
def _diagonalise(matrix: Array, vectors: Array) -> None:
    """Jacobi's rotations of a symmetric matrix, in place: eigenvalues on its diagonal, and the eigenvectors in columns."""
    k = len(matrix)
    for i in range(k):
        for j in range(k):
            vectors[i, j] = 1.0 if i == j else 0.0
    for _ in range(30):
        turned = False
        for i in range(k):
            for j in range(i + 1, k):
                c = matrix[i, j]
                if not abs(c) > 1e-17 * (abs(matrix[i, i]) + abs(matrix[j, j])):
                    continue
                turned = True
                z = 0.5 * (matrix[j, j] - matrix[i, i]) / c
                t = (1.0 if z >= 0.0 else -1.0) / (abs(z) + math.sqrt(1.0 + z * z))
                cosine = 1.0 / math.sqrt(1.0 + t * t)
                sine = cosine * t
                for m in range(k):
                    a, b = matrix[m, i], matrix[m, j]
                    matrix[m, i], matrix[m, j] = cosine * a - sine * b, sine * a + cosine * b
                for m in range(k):
                    a, b = matrix[i, m], matrix[j, m]
                    matrix[i, m], matrix[j, m] = cosine * a - sine * b, sine * a + cosine * b
                for m in range(k):
                    a, b = vectors[m, i], vectors[m, j]
                    vectors[m, i], vectors[m, j] = cosine * a - sine * b, sine * a + cosine * b
        if not turned:
            return


@compiled
def factor(point: Array, root: Array, inverse: Array) -> float:
    """Computes the Cholesky factor of a positive-definite matrix and its inverse, and returns :func:`most_spread` of them."""
    cholesky(point, 1.0, root)
    k = len(point)
    for j in range(k):
        for i in range(k):
            inverse[i, j] = 0.0
        inverse[j, j] = 1.0 / root[j, j]
        for i in range(j + 1, k):
            rest = 0.0
            for m in range(j, i):
                rest += root[i, m] * inverse[m, j]
            inverse[i, j] = -rest / root[i, i]
    trace = square = 0.0
    for i in range(k):
        trace += point[i, i]
        for j in range(i + 1):
            square += inverse[i, j] * inverse[i, j]
    return min(max(MOST_LOST / (trace * square), LEAST_SPREAD), MOST_SPREAD)


@compiled
def sphere2_groups(x: Array, starts: Integers, points: Array, radius: float, block: int, rows: Array) -> None:
    """Unit vectors in space."""
    row, weights = 0, np.ones(_largest(starts))
    for g in range(len(points)):
        begin, end = starts[g], starts[g + 1]
        after = row + (end - begin + block - 1) // block
        if end > begin:
            blocks = rows[row:after]
            blocks[:, -1] = sphere2(x[begin:end], weights, points[g], radius, block, blocks)
        row = after


@compiled
def _largest(starts: Integers) -> int:
    most = 0
    for g in range(len(starts) - 1):
        most = max(most, starts[g + 1] - starts[g])
    return most


@compiled
def rotations3_groups(x: Array, starts: Integers, points: Array, radius: float, block: int, rows: Array) -> None:
    """Rotations of space."""
    row, weights = 0, np.ones(_largest(starts))
    for g in range(len(points)):
        begin, end = starts[g], starts[g + 1]
        after = row + (end - begin + block - 1) // block
        if end > begin:
            blocks = rows[row:after]
            blocks[:, -1] = rotations3(x[begin:end], weights, points[g], radius, block, blocks)
        row = after
