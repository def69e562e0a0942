"""Decisions and linear algebra over real numbers that are known to lie in a ball.

A ball (``flint.arb``) is an interval that provably contains the number it stands for, whatever the precision. A
question about the number is answered if the answer is the same throughout the ball; otherwise it is
:class:`Undecided`, and the caller starts again with a higher precision and more random bits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction

from flint import acb_mat, arb, arb_mat, ctx, fmpq, fmpq_mat

from geodp.inputs import Array


class Undecided(Exception):
    """The working precision is too low to answer; no statement about any data."""


# The precision of flint is one number for the whole process, so one computation at a time sets it. Were another thread
# to change it all the same, every ball would still be a true enclosure: only the number of repetitions could grow.
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    # a child forked while another thread computes would wait forever for a thread it does not have
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Balls of ``bits`` bits inside, the caller's precision again afterwards."""
    lock = _lock
    with lock:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


# ---------------------------------------------------------------------- questions


def less(a: arb, b: arb) -> bool:
    """Whether ``a < b``."""
    difference = a - b
    if difference < 0:
        return True
    if difference > 0:
        return False
    raise Undecided


def nearest(x: arb, exponent: int) -> int:
    """The whole number next to ``x / 2^exponent``; halves go up."""
    step = (x * arb((1, -exponent)) + arb((1, -1))).floor().unique_fmpz()
    if step is None:
        raise Undecided
    return int(step)


# ---------------------------------------------------------------------- numbers and vectors


def rational(x: float) -> fmpq:
    """A float, exactly."""
    return fmpq(*float(x).as_integer_ratio())


def interval(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def square_root(x: Fraction) -> arb:
    return interval(x).sqrt()


def dot(u: Sequence[arb], v: Sequence[arb]) -> arb:
    total = arb(0)
    for a, b in zip(u, v, strict=True):
        total += a * b
    return total


def norm(u: Sequence[arb]) -> arb:
    return dot(u, u).sqrt()


def exact_vector(x: Array) -> list[arb]:
    """The floats, as they are."""
    return [arb(float(entry)) for entry in x]


def unit_vector(x: Array) -> list[arb]:
    """The direction of the floats."""
    vector = exact_vector(x)
    length = norm(vector)
    return [entry / length for entry in vector]


def reflect(axis: Sequence[arb], x: Sequence[arb]) -> list[arb]:
    """The reflection that turns ``axis`` round, applied to ``x``."""
    scale = 2 * dot(axis, x) / dot(axis, axis)
    return [a - scale * b for a, b in zip(x, axis, strict=True)]


# ---------------------------------------------------------------------- matrices


def positive_definite(p: Array) -> arb_mat:
    """The symmetric part of a float matrix. It must be positive definite, or no precision would ever be enough."""
    size = range(len(p))
    matrix = arb_mat([[(arb(float(p[i, j])) + arb(float(p[j, i]))) / 2 for j in size] for i in size])
    try:
        cholesky(matrix)
    except Undecided:
        if not is_positive_definite(p):
            raise ValueError("the center is not positive definite") from None
        raise
    return matrix


def cholesky(matrix: arb_mat) -> list[list[arb]]:
    """The lower triangular factor with a positive diagonal."""
    factor: list[list[arb]] = []
    for i in range(matrix.nrows()):
        row: list[arb] = []
        for j in range(i):
            row.append((matrix[i, j] - dot(row, factor[j][:j])) / factor[j][j])
        pivot = matrix[i, i] - dot(row, row)
        if not pivot > 0:
            raise Undecided
        factor.append([*row, pivot.sqrt()])
    return factor


def is_positive_definite(p: Array) -> bool:
    """Whether the symmetric part of a float matrix is, by elimination over the rational numbers: exact, and slow."""
    size = len(p)
    rest = fmpq_mat(size, size, [rational(p[i, j]) + rational(p[j, i]) for i in range(size) for j in range(size)])
    for i in range(size):
        pivot = rest[i, i]
        if pivot <= 0:
            return False
        for row in range(i + 1, size):
            quotient = rest[row, i] / pivot
            for column in range(i + 1, size):
                rest[row, column] = rest[row, column] - quotient * rest[i, column]
    return True


def eigenvalues(matrix: arb_mat | acb_mat) -> list[tuple[arb, arb]]:
    """Real and imaginary parts of the eigenvalues, each in a ball of its own.

    Two eigenvalues that coincide could never be told apart. For the random matrices here that has probability zero.
    """
    try:
        values = acb_mat(matrix).eig()
    except ValueError:
        raise Undecided from None
    return [(value.real, value.imag) for value in values]


def log_of_positive_definite(p: arb_mat) -> arb_mat:
    """The matrix logarithm of a symmetric positive-definite matrix, repeated eigenvalues included.

    An approximation ``Y`` comes from Jacobi rotations without error bounds; the bound comes afterwards. The matrix
    exponential does not shorten distances, ``|log p - Y| <= dist(p, exp Y)`` with the affine-invariant distance on
    the right (Bhatia, *Positive Definite Matrices*, chapter 6), and that distance is the Frobenius norm of ``log(I
    + E)``, ``E = exp(-Y/2) p exp(-Y/2) - I``, which is at most ``|E| / (1 - |E|)``.
    """
    size = p.nrows()
    values, vectors = _jacobi(p)
    scaled = arb_mat([[vectors[i][j] * values[j].log() for j in range(size)] for i in range(size)])
    product = (scaled * arb_mat(vectors).transpose()).mid()
    guess = ((product + product.transpose()) / 2).mid()
    half = (guess / -2).exp()
    error = half * p * half - arb_mat(size, size, [int(i == j) for i in range(size) for j in range(size)])
    length = norm([entry.abs_upper() for entry in error.entries()])
    if not length < 1:
        raise Undecided
    bound = arb(0, (length / (1 - length)).upper())
    return arb_mat([[guess[i, j] + bound for j in range(size)] for i in range(size)])


def _jacobi(p: arb_mat) -> tuple[list[arb], list[list[arb]]]:
    """Approximate eigenvalues and orthonormal eigenvectors (columns), without error bounds."""
    size = p.nrows()
    a = [[p[i, j].mid() for j in range(size)] for i in range(size)]
    vectors = [[arb(int(i == j)) for j in range(size)] for i in range(size)]
    small = arb((1, -ctx.prec))
    # every sweep squares the off-diagonal part once it is small: the number of sweeps grows like log(precision)
    for _ in range(6 + ctx.prec.bit_length()):
        done = True
        for i in range(size):
            for j in range(i + 1, size):
                if abs(a[i][j]) <= small * (abs(a[i][i] * a[j][j])).sqrt().mid():
                    continue
                done = False
                ratio = ((a[j][j] - a[i][i]) / (2 * a[i][j])).mid()
                tangent = (1 if ratio >= 0 else -1) / (abs(ratio) + (1 + ratio * ratio).sqrt())
                cosine = (1 + tangent * tangent).rsqrt().mid()
                sine = (tangent * cosine).mid()
                for row in (*a, *vectors):
                    x, y = row[i], row[j]
                    row[i], row[j] = (cosine * x - sine * y).mid(), (sine * x + cosine * y).mid()
                a[i], a[j] = (
                    [(cosine * x - sine * y).mid() for x, y in zip(a[i], a[j], strict=True)],
                    [(sine * x + cosine * y).mid() for x, y in zip(a[i], a[j], strict=True)],
                )
        if done:
            break
    return [a[i][i] for i in range(size)], vectors


def pivoted_basis(center: Array) -> tuple[list[int], list[list[arb]]]:
    """The pivots and the orthonormal basis of the span of the columns that :class:`~geodp.manifolds.Grassmann` describes."""
    m, p = center.shape
    u = fmpq_mat(m, p, [rational(entry) for entry in center.ravel()])
    weighted = u * (u.transpose() * u).inv()
    diagonal = [sum((weighted[i, j] * u[i, j] for j in range(p)), fmpq(0)) for i in range(m)]
    pivots: list[int] = []
    columns: list[tuple[list[fmpq], fmpq]] = []
    for _ in range(p):
        pivot = max(range(m), key=lambda i: (diagonal[i], -i))
        column = [sum((weighted[i, j] * u[pivot, j] for j in range(p)), fmpq(0)) for i in range(m)]
        for earlier, square in columns:
            factor = earlier[pivot] / square
            column = [x - factor * y for x, y in zip(column, earlier, strict=True)]
        square = column[pivot]
        diagonal = [x - y * y / square for x, y in zip(diagonal, column, strict=True)]
        pivots.append(pivot)
        columns.append((column, square))
    return pivots, [[arb(x) / arb(square).sqrt() for x in column] for column, square in columns]
