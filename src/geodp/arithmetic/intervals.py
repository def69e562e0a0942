"""Decisions and linear algebra over real numbers that are known to lie in a ball.

A ball (``flint.arb``) is an interval that provably contains the number it represents, at any precision. A
question about the number is answered if the answer is the same throughout the ball; otherwise it is
:class:`Undecided`, and the caller starts again with a higher precision and more random bits.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from itertools import count, islice
from typing import NamedTuple

import numpy as np
from flint import acb_mat, arb, arb_mat, ctx, fmpq, fmpq_mat

from geodp.inputs import Array


class Undecided(Exception):
    """The working precision is too low to decide a question. This says nothing about any data."""


# The precision of flint is one number for the whole process, so only one computation at a time may set it. Even if another
# thread changed it, every ball would still enclose its number: there would only be more repetitions.
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    # a child forked while another thread holds the lock would wait forever, because that thread does not exist in the child
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Sets the precision to ``bits`` bits inside the block, and restores the caller's precision afterwards."""
    lock = _lock
    with lock:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


#: Enough bits to answer most questions about random numbers. At this precision a method may start from results in floats.
COARSE = 96


@contextmanager
def coarsely() -> Iterator[None]:
    """Lowers the precision to at most :data:`COARSE` bits inside the block."""
    before = ctx.prec
    ctx.prec = min(before, COARSE)
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
    """``x / 2^exponent`` rounded to the nearest whole number, halves up."""
    step = (x * power_of_two(-exponent) + _HALF).floor().unique_fmpz()
    if step is None:
        raise Undecided
    return int(step)


# ---------------------------------------------------------------------- numbers and vectors


def rational(x: float) -> fmpq:
    """The exact value of a float."""
    return fmpq(*float(x).as_integer_ratio())


@lru_cache(maxsize=256)
def power_of_two(exponent: int) -> arb:
    """Only for public exponents: results are cached, so the time would reveal which private exponents came before."""
    return arb((1, exponent))


_HALF = arb(0.5)


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


# Flint multiplies zeros, ones and other short numbers faster than long ones, so the time of a draw would reveal whether the
# entries of its centre are such numbers. Balls of private floats therefore have midpoints of full length, close to the float.


def enclosed(x: float, exponent: int) -> arb:
    """A ball that contains ``x`` and is ``2^(exponent + 5 - precision)`` wide; its midpoint is as long as the precision."""
    return arb(float(x)) + _long_zero(ctx.prec) * arb((1, exponent))


@lru_cache(maxsize=64)
def _long_zero(precision: int) -> arb:
    """Zero, in a ball whose midpoint has ``precision`` bits."""
    middle = (arb(2).sqrt() * arb((1, 3 - precision))).mid()
    return middle + arb(0, middle)


def enclosed_vector(x: Array) -> list[arb]:
    """A ball around each float, as in :func:`enclosed`. The widths are relative to the largest float."""
    exponent = math.frexp(max(float(np.abs(x).max()), 2.0**-1022))[1]
    return [enclosed(entry, exponent) for entry in x]


def unit_vector(x: Array) -> list[arb]:
    """The unit vector in the direction of the floats."""
    vector = enclosed_vector(x)
    length = norm(vector)
    return [entry / length for entry in vector]


def orthonormal(vectors: Sequence[Sequence[arb]]) -> list[list[arb]]:
    """The Gram-Schmidt orthonormalisation of independent vectors."""
    basis: list[list[arb]] = []
    for vector in vectors:
        rest = list(vector)
        for earlier in basis:
            along = dot(earlier, rest)
            rest = [x - along * y for x, y in zip(rest, earlier, strict=True)]
        length = norm(rest)
        basis.append([x / length for x in rest])
    return basis


def reflect(axis: Sequence[arb], x: Sequence[arb]) -> list[arb]:
    """The reflection that maps ``axis`` to ``-axis``, applied to ``x``."""
    scale = 2 * dot(axis, x) / dot(axis, axis)
    return [a - scale * b for a, b in zip(x, axis, strict=True)]


# ---------------------------------------------------------------------- matrices


def enclosed_matrix(p: Array) -> arb_mat:
    """The symmetric part of a float matrix with a positive diagonal, as in :func:`enclosed`. Widths scale with the diagonal."""
    size = len(p)
    floats = arb_mat(size, size, p.ravel().tolist())
    sizes = arb_mat(size, 1, [math.ldexp(1.0, math.frexp(entry)[1] // 2) for entry in np.diagonal(p).tolist()])
    return (floats + floats.transpose()) * _HALF + sizes * sizes.transpose() * _long_zero(ctx.prec)


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


def lower_triangle(rows: Sequence[Sequence[arb]]) -> arb_mat:
    """The square matrix with these entries up to its diagonal, and zeros to the right of it."""
    size = len(rows)
    return arb_mat([[*row, *[arb(0)] * (size - len(row))] for row in rows])


def refuse_indefinite(p: Array) -> None:
    """Raises if a float matrix is not positive definite, since no precision would be enough. Called when one was not enough."""
    if not is_positive_definite(p):
        raise ValueError("the center is not positive definite")


def is_positive_definite(p: Array) -> bool:
    """Whether the symmetric part of a float matrix is positive definite, by exact and slow elimination over the rationals."""
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
    """Real and imaginary parts of the eigenvalues, each in its own ball.

    Equal eigenvalues could never be separated. For the random matrices here that has probability zero.
    """
    try:
        values = acb_mat(matrix).eig()
    except ValueError:
        raise Undecided from None
    return [(value.real, value.imag) for value in values]


def symmetric_eigenvalues(matrix: arb_mat) -> list[arb]:
    """The eigenvalues of a symmetric matrix, in balls around the results in floats: about 13 digits at any precision.

    With ``V`` the eigenvectors in floats, ``|V'V - I| <= g`` and ``|V'AV - d| <= e`` for a diagonal ``d``, in the Frobenius norm.
    By Ostrowski's theorem the eigenvalues of ``V'AV`` are those of ``A`` times numbers in ``[1 - g, 1 + g]``, and by Weyl's they
    are within ``e`` of ``d``.
    """
    size = matrix.nrows()
    floats = np.array([float(entry.mid()) for entry in matrix.entries()]).reshape(size, size)
    if not np.isfinite(floats).all():
        raise Undecided
    vectors = arb_mat(size, size, np.linalg.eigh(floats)[1].ravel().tolist())
    turned = (vectors.transpose() * matrix * vectors).tolist()
    off = norm([entry for i, row in enumerate(turned) for j, entry in enumerate(row) if i != j])
    skew = _length_of_defect(vectors.transpose() * vectors)
    stretch = 1 / (1 + arb(0, skew.upper()))
    return [(turned[i][i] + arb(0, off.upper())) * stretch for i in range(size)]


def log_of_positive_definite(p: Array) -> list[list[arb]]:
    """The matrix logarithm of a symmetric positive-definite float matrix with distinct eigenvalues; only checks use it."""
    values, vectors = acb_mat(enclosed_matrix(p)).eig(right=True)
    scaled = acb_mat([[entry * value.log() for entry, value in zip(row, values, strict=True)] for row in vectors.tolist()])
    return [[entry.real for entry in row] for row in (scaled * vectors.inv()).tolist()]


def _length_of_defect(matrix: arb_mat) -> arb:
    """The distance of a matrix from the identity in the Frobenius norm, which must be less than 1."""
    length = norm([(entry - (i == j)).abs_upper() for i, row in enumerate(matrix.tolist()) for j, entry in enumerate(row)])
    if not length < 1:
        raise Undecided
    return length


# ---------------------------------------------------------------------- a frame in general position to every float matrix


class Frame(NamedTuple):
    """Orthonormal ``vectors``, and the ``axes`` of reflections whose product maps unit vectors to them (the first outermost)."""

    vectors: list[list[arb]]
    axes: list[list[arb]]

    def place(self, x: list[arb]) -> list[arb]:
        """``x`` after the reflections."""
        for axis in reversed(self.axes):
            x = reflect(axis, x)
        return x


@lru_cache(maxsize=64)
def public_frame(size: int, count: int, precision: int) -> Frame:
    """The same ``count`` vectors of ``R^size`` at every precision, by Householder reflections from square roots of primes.

    No ``count`` independent rational vectors are all orthogonal to one combination of these. Otherwise a determinant of
    products would vanish, which would be a rational relation between roots of products of different primes, and there is none
    (Besicovitch 1940). ``precision`` must be the working precision; it is an argument so that the result can be cached.
    """
    roots = ((arb(prime).sqrt(), round(math.sqrt(prime))) for prime in _primes_from(size + 2))
    entries = (root - nearest for root, nearest in roots)
    axes: list[list[arb]] = []
    for i in range(count):
        column = list(islice(entries, size))
        for axis in axes:
            column = reflect(axis, column)
        tail = column[i:]
        tail[0] += (1 if less(arb(0), tail[0]) else -1) * norm(tail)
        axes.append([arb(0)] * i + tail)
    frame = Frame([], axes)
    return frame._replace(vectors=[frame.place([arb(int(i == j)) for j in range(size)]) for i in range(count)])


def _primes_from(start: int) -> Iterator[int]:
    return (n for n in count(max(start, 2)) if all(n % divisor for divisor in range(2, math.isqrt(n) + 1)))
