"""Compiled passes over many groups: for each group the loop of ``kernels``, at a point of its own.

Columns of ``rows`` are those of the loop's ``blocks``, one row for every block of every group, and the largest distance.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from geodp.compute.kernels import cholesky, compiled, far_matrix, spd2, spd3, sphere2
from geodp.inputs import Array
from geodp.manifolds.spd import LEAST_SPREAD, MOST_LOST, MOST_SPREAD

Integers = NDArray[np.int64]


@compiled
def spd2_groups(x: Array, starts: Integers, points: Array, radius: float, block: int, rows: Array) -> None:
    """2x2 positive-definite matrices."""
    row, weights = 0, np.ones(_largest(starts))
    factor, inverse = np.empty((2, 2)), np.empty((2, 2))
    for g in range(len(points)):
        begin, end = starts[g], starts[g + 1]
        after = row + (end - begin + block - 1) // block
        if end > begin:
            most = _factor(points[g], factor, inverse)
            blocks = rows[row:after]
            blocks[:, -1] = spd2(x[begin:end], weights, points[g], factor, inverse, most, radius, block, blocks)
        row = after


@compiled
def spd3_groups(x: Array, starts: Integers, points: Array, radius: float, block: int, rows: Array) -> None:
    """3x3 positive-definite matrices."""
    row, weights = 0, np.ones(_largest(starts))
    factor, inverse, each = np.empty((3, 3)), np.empty((3, 3)), np.empty((0, 6))
    for g in range(len(points)):
        begin, end = starts[g], starts[g + 1]
        after = row + (end - begin + block - 1) // block
        if end > begin:
            most = _factor(points[g], factor, inverse)
            blocks = rows[row:after]
            blocks[:, -1] = spd3(x[begin:end], weights, points[g], factor, inverse, most, radius, block, blocks, each)
        row = after


@compiled
def move_spd(points: Array, steps: Array, center: Array, factor: Array, inverse: Array, radius: float) -> None:
    """Moves positive-definite matrices by steps in the frames of their Cholesky factors, in place, and into the ball.

    ``factor`` and ``inverse`` belong to the centre. A point with no step stays where it is, bit for bit.
    """
    k = len(center)
    root, room, inner = np.empty((k, k)), np.empty((k, k)), np.empty((k, k))
    vectors, logs = np.empty((k, k)), np.empty(k)
    for g in range(len(points)):
        still, column = True, 0
        for i in range(k):
            for j in range(i, k):
                still &= steps[g, column] == 0.0
                inner[i, j] = inner[j, i] = steps[g, column] * (1.0 if i == j else 0.7071067811865476)
                column += 1
        if still:
            continue
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
        far_matrix(points[g], center, factor, inverse, radius, vectors, logs, room)


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
def _factor(point: Array, factor: Array, inverse: Array) -> float:
    """The Cholesky factor of a positive-definite matrix, and the inverse of that; returned is :func:`most_spread` of them."""
    cholesky(point, 1.0, factor)
    k = len(point)
    for j in range(k):
        for i in range(k):
            inverse[i, j] = 0.0
        inverse[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, k):
            rest = 0.0
            for m in range(j, i):
                rest += factor[i, m] * inverse[m, j]
            inverse[i, j] = -rest / factor[i, i]
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
