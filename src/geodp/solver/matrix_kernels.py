"""Compiled functions of positive-definite matrices one by one: spectra that the loops are not sure of, and steps of points."""

from __future__ import annotations

import math

import numpy as np

from geodp.inputs import Array
from geodp.manifolds.manifold import TOLERANCE
from geodp.manifolds.spd import LEAST_SPREAD, MOST_LOST, MOST_SPREAD
from geodp.solver.lanes import compiled

#: The relative asymmetry up to which a matrix counts as symmetric.
SYMMETRIC = TOLERANCE


@compiled
def cholesky(matrix: Array, scale: float, factor: Array) -> bool:
    """The Cholesky factor of ``scale`` times the symmetric part of a matrix; no if there is none in float64."""
    k = len(matrix)
    for j in range(k):
        for i in range(j, k):
            factor[j, i] = 0.0
            rest = 0.5 * scale * matrix[i, j] + 0.5 * scale * matrix[j, i]
            for m in range(j):
                rest -= factor[i, m] * factor[j, m]
            if i == j:
                if not 0.0 < rest < math.inf:
                    return False
                factor[j, j] = math.sqrt(rest)
            else:
                factor[i, j] = rest / factor[j, j]
    return True


@compiled
def _spectrum(matrix: Array, inverse: Array, vectors: Array, logs: Array) -> bool:
    """Logarithms of the eigenvalues of ``inverse @ matrix @ inverse.T``, and its eigenvectors; no if it is not positive definite.

    One-sided Jacobi rotations of the factor ``inverse @ L``, ``matrix = L L'``, whose singular values are the roots of the
    eigenvalues: they keep their digits however far apart they are.
    """
    k = len(matrix)
    size = apart = 0.0
    for i in range(k):
        for j in range(k):
            if not abs(matrix[i, j]) < math.inf:
                return False
            size = max(size, abs(matrix[i, j]))
            apart = max(apart, abs(matrix[i, j] - matrix[j, i]))
    # the factor of the matrix as it is must exist: that is what makes a record valid
    if not (apart <= SYMMETRIC * size and size > 0.0 and cholesky(matrix, 1.0, vectors)):
        return False
    if not cholesky(matrix, 1.0 / size, vectors):
        return False
    for i in range(k - 1, -1, -1):
        for j in range(k):
            total = 0.0
            for m in range(j, i + 1):
                total += inverse[i, m] * vectors[m, j]
            vectors[i, j] = total
    for _ in range(40):
        turned = False
        for i in range(k):
            for j in range(i + 1, k):
                a = b = c = 0.0
                for m in range(k):
                    a += vectors[m, i] * vectors[m, i]
                    b += vectors[m, j] * vectors[m, j]
                    c += vectors[m, i] * vectors[m, j]
                if not abs(c) > 1e-16 * k * math.sqrt(a) * math.sqrt(b):
                    continue
                turned = True
                z = 0.5 * (b - a) / c
                t = (1.0 if z >= 0.0 else -1.0) / (abs(z) + math.sqrt(1.0 + z * z))
                cosine = 1.0 / math.sqrt(1.0 + t * t)
                sine = cosine * t
                for m in range(k):
                    x, y = vectors[m, i], vectors[m, j]
                    vectors[m, i], vectors[m, j] = cosine * x - sine * y, sine * x + cosine * y
        if not turned:
            break
    for j in range(k):
        square = 0.0
        for m in range(k):
            square += vectors[m, j] * vectors[m, j]
        if not 0.0 < square < math.inf:
            return False
        logs[j] = math.log(square) + math.log(size)
        for m in range(k):
            vectors[m, j] /= math.sqrt(square)
    return True


@compiled
def far_matrix(
    x: Array, center: Array, factor: Array, inverse: Array, radius: float, vectors: Array, logs: Array, room: Array
) -> float:
    """The spectrum of the logarithm of one matrix that the closed forms are not sure of, and its length.

    Clips the matrix in place if the radius is finite; what is not positive definite becomes the centre.
    """
    k = len(x)
    length = math.inf
    if _spectrum(x, inverse, vectors, logs):
        length = 0.0
        for j in range(k):
            length += logs[j] * logs[j]
        length = math.sqrt(length)
    if length <= radius and length < math.inf:
        return length
    good = length < math.inf
    if good:
        for j in range(k):
            logs[j] *= radius / length
        for i in range(k):  # the matrix is F F' with F = factor @ vectors @ exp(logs/2)
            for j in range(k):
                total = 0.0
                for m in range(i + 1):
                    total += factor[i, m] * vectors[m, j]
                room[i, j] = total * math.exp(0.5 * logs[j])
        for i in range(k):
            for j in range(i + 1):
                total = 0.0
                for m in range(k):
                    total += room[i, m] * room[j, m]
                x[i, j] = x[j, i] = total
        good = cholesky(x, 1.0, room)  # later passes rely on it
    if good:
        return radius
    for i in range(k):
        logs[i] = 0.0
        for j in range(k):
            x[i, j] = center[i, j]
            vectors[i, j] = 1.0 if i == j else 0.0
    return 0.0


@compiled
def curve(gap: float) -> float:
    """``(t/2) coth(t/2)`` of the gap ``t`` between the logarithms of two eigenvalues: the Hessian across them."""
    half = 0.5 * abs(gap)
    return half / math.tanh(half) if half > 1e-8 else 1.0


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
