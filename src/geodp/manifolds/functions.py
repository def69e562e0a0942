"""Functions for geometry: of numbers, without the loss of digits of the textbook formulas, and of matrices."""

from __future__ import annotations

import math
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array

Complex = NDArray[np.complex128]
Matrix = TypeVar("Matrix", Array, Complex)


def sinc(x: Array) -> Array:
    """``sin(x)/x``, equal to 1 at 0."""
    return np.sinc(x / np.pi)


def sinhc(x: Array) -> Array:
    """``sinh(x)/x``, equal to 1 at 0, and infinite where it overflows."""
    safe = np.where(x == 0.0, 1.0, x)
    with np.errstate(over="ignore"):
        return np.where(x == 0.0, 1.0, np.sinh(safe) / safe)


def log_sinc(x: Array) -> Array:
    """``log(sin(x)/x)`` for ``|x| <= pi``; minus infinity at ``pi`` and beyond."""
    with np.errstate(divide="ignore"):
        return np.log(np.where(np.abs(x) < np.pi, sinc(x), 0.0))


def log_sinhc(x: Array) -> Array:
    """``log(sinh(x)/x)``, without overflow."""
    x = np.abs(x)
    large = np.maximum(x, 1.0)
    far = large - np.log(2.0 * large) + np.log1p(-np.exp(-2.0 * large))
    return np.where(x > 1.0, far, np.log(sinhc(np.minimum(x, 1.0))))


def angle_over_sine(cosine: Array) -> Array:
    """``t/sin(t)`` as a function of ``cos(t)``, for ``t`` in ``[0, pi)``: smooth at ``cos(t) = 1``."""
    half_sine = np.sqrt(0.5 * (1.0 - np.minimum(cosine, 1.0)))
    half_cosine = np.sqrt(0.5 * (1.0 + np.minimum(cosine, 1.0)))
    safe = np.where(half_sine == 0.0, 1.0, half_sine)
    with np.errstate(divide="ignore"):
        ratio = np.arctan2(half_sine, half_cosine) / (safe * half_cosine)
    return np.where(half_sine == 0.0, 1.0, ratio)


def log_difference_quotient(a: Array, b: Array) -> Array:
    """``(log a - log b)/(a - b)`` for positive numbers, ``1/a`` where they agree."""
    z = (a - b) / (a + b)
    near = np.abs(z) < 0.5
    # log(a/b) = 2 artanh(z), whose quotient by z is smooth; far apart the two logarithms do not cancel
    small = np.where(near & (z != 0.0), z, 0.25)
    smooth = np.where(z == 0.0, 1.0, np.arctanh(small) / small)
    return np.where(near, 2.0 * smooth / (a + b), (np.log(a) - np.log(b)) / np.where(near, 1.0, a - b))


def coarse(x: Array) -> Array:
    """Rounds to multiples of ``2^-40``, much coarser than floats."""
    return np.ldexp(np.round(np.ldexp(x, 40)), -40)


def transpose(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)


# The functions below take real and complex matrices; for complex ones read Hermitian for symmetric.


def adjoint(matrix: Matrix) -> Matrix:
    """The conjugate transpose; for a real matrix, a view."""
    return np.swapaxes(matrix, -1, -2).conj()


def symmetric(matrix: Matrix) -> Matrix:
    half = 0.5 * matrix  # halve first, so that the sum of large entries does not overflow
    return half + adjoint(half)


def frobenius(matrix: Array | Complex) -> Array:
    return np.sqrt(np.einsum("...ij,...ij->...", matrix.conj(), matrix).real)


def shortened(vectors: Array, length: float) -> Array:
    """Vectors, those longer than this shortened to it. No length overflows."""
    size = np.maximum(np.abs(vectors).max(axis=-1, keepdims=True), 1e-300)
    units = vectors / size
    longest = np.maximum(np.linalg.vector_norm(units, axis=-1, keepdims=True), 1e-300)
    return units * np.minimum(size, length / longest)


def conjugate(factor: Matrix, middle: Matrix) -> Matrix:
    """``F M F*``, symmetric to the last bit for symmetric ``M``."""
    return symmetric(factor @ middle @ adjoint(factor))


def spectral(vectors: Matrix, values: Array) -> Matrix:
    """``V diag(values) V*``."""
    return symmetric((vectors * values[..., None, :]) @ adjoint(vectors))


def symmetric_from_vector(vector: Array, k: int) -> Array:
    """The symmetric matrix with these coordinates in the orthonormal basis of diagonal and scaled off-diagonal units."""
    i, j, scale = _upper(k)
    matrix = np.zeros((*vector.shape[:-1], k, k))
    entries = vector / scale
    matrix[..., i, j] = entries
    matrix[..., j, i] = entries
    return matrix


def vector_from_symmetric(matrix: Array) -> Array:
    i, j, scale = _upper(matrix.shape[-1])
    entries: Array = matrix[..., i, j] * scale
    return entries


@cache
def _upper(k: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Rows and columns of the entries of the upper triangle, and the lengths of their units."""
    i, j = np.triu_indices(k)
    return i, j, np.where(i == j, 1.0, math.sqrt(2.0))


def hermitian_from_vector(vector: Array, k: int) -> Complex:
    """The Hermitian matrix with these coordinates in an orthonormal basis: the diagonal, then real, then imaginary parts."""
    i, j = np.triu_indices(k, 1)
    matrix = np.zeros((*vector.shape[:-1], k, k), dtype=np.complex128)
    matrix[..., range(k), range(k)] = vector[..., :k]
    real, imaginary = np.split(vector[..., k:] * math.sqrt(0.5), 2, axis=-1)
    matrix[..., i, j], matrix[..., j, i] = real + 1j * imaginary, real - 1j * imaginary
    return matrix


def vector_from_hermitian(matrix: Complex) -> Array:
    k = matrix.shape[-1]
    i, j = np.triu_indices(k, 1)
    above = math.sqrt(2.0) * matrix[..., i, j]
    return np.concatenate([matrix[..., range(k), range(k)].real, above.real, above.imag], axis=-1)


def complex_of_pairs(x: Array) -> Complex:
    """Complex numbers from their real and imaginary parts, the last axis."""
    return x[..., 0] + 1j * x[..., 1]


def pairs_of_complex(z: Complex) -> Array:
    """The inverse."""
    return np.stack([z.real, z.imag], axis=-1)


def subtract_product(v: Array, u: Array, r: Array) -> Array:
    """``v - u @ r`` evaluated in twice the working precision, then rounded once.

    The difference of two nearly equal subspaces or shapes is a residual of this form; in plain arithmetic its
    relative accuracy is the machine epsilon divided by the separation.
    """
    high = v.copy()
    low = np.zeros_like(high)
    for k in range(u.shape[-1]):
        product, error = _two_product(u[..., :, k, None], -r[..., None, k, :])
        high, lost = two_sum(high, product)
        low += lost + error
    return high + low


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Dekker's product: ``a * b`` and its rounding error, both exact in binary64 away from overflow."""
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _upper_half(a: Array) -> Array:
    scaled = 134217729.0 * a  # 2^27 + 1
    return scaled - (scaled - a)


def row_by_row(rows: Array, matrix: Array) -> Array:
    """``rows @ matrix``, with the same bits for a row wherever it stands: a matrix product may round the last one differently."""
    total = rows[..., :1] * matrix[0]
    for i in range(1, len(matrix)):
        total = total + rows[..., i : i + 1] * matrix[i]
    return total
