"""Eigen-decompositions of many small symmetric matrices at once.

``numpy.linalg.eigh`` spends most of its time on the overhead of each matrix. For 2x2 and 3x3 matrices a closed form for the whole
batch is several times faster at the same backward error. Matrices for which the closed form is not accurate to the last digits
go to ``eigh``.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds.functions import Matrix

#: Records in a chunk, few enough to stay in the second-level cache.
_CHUNK = 4096
_EPS = float(np.finfo(np.float64).eps)


def eigh(a: Matrix) -> tuple[Array, Matrix]:
    """Ascending eigenvalues and orthonormal eigenvectors (columns) of symmetric or Hermitian matrices ``(..., k, k)``."""
    k = a.shape[-1]
    if k > 3 or a.dtype == np.complex128:
        finite, zeroed = _finite(a)
        values, vectors = np.linalg.eigh(zeroed)
        return np.where(finite, values.real, np.nan), cast(Matrix, vectors)
    if k == 1:
        return a[..., 0].real.copy(), np.ones_like(a)
    flat = np.asarray(a, dtype=np.float64).reshape(-1, k, k)
    values, vectors = np.empty(flat.shape[:-1]), np.empty(flat.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(flat), _CHUNK):
            part = slice(start, start + _CHUNK)
            (_eigh2 if k == 2 else _eigh3)(flat[part], values[part], vectors[part])
    return values.reshape(a.shape[:-1]), cast(Matrix, vectors.reshape(a.shape))


def eigvalsh(a: Matrix) -> Array:
    """Ascending eigenvalues of symmetric or Hermitian matrices ``(..., k, k)``."""
    if a.shape[-1] > 3 or a.dtype == np.complex128:
        finite, zeroed = _finite(a)
        return np.where(finite, np.linalg.eigvalsh(zeroed).real, np.nan)
    return eigh(a)[0]


def _finite(a: Matrix) -> tuple[NDArray[np.bool_], Matrix]:
    """Which matrices are finite, with the others set to zero: LAPACK would fail for the whole batch because of one."""
    finite = np.asarray(np.isfinite(a).all(axis=(-1, -2), keepdims=True))
    return finite[..., 0], np.where(finite, a, 0.0)


def _eigh2(a: Array, values: Array, vectors: Array) -> None:
    turn_cosine, turn_sine, low, high = _rotate2(a[:, 0, 0], a[:, 1, 0], a[:, 1, 1])
    values[:, 0], values[:, 1] = low, high
    vectors[:, 0, 1], vectors[:, 1, 1] = turn_cosine, turn_sine
    vectors[:, 0, 0], vectors[:, 1, 0] = -turn_sine, turn_cosine


def _rotate2(a00: Array, a10: Array, a11: Array) -> tuple[Array, Array, Array, Array]:
    """Cosine and sine of the upper eigenvector of a symmetric 2x2 matrix, and both eigenvalues, lower first."""
    half_sum = 0.5 * (a00 + a11)
    half_difference = 0.5 * (a00 - a11)
    radius = np.sqrt(half_difference * half_difference + a10 * a10)
    odd = ~((radius > 1e-140) & (radius < 1e140))
    if odd.any():  # a square left the range of binary64, or the matrix is a multiple of I
        radius[odd] = np.hypot(half_difference[odd], a10[odd])
    # Every matrix is treated by itself: its values must not change the result for another one.
    zero = ~(radius > 0.0)
    any_zero = bool(zero.any())
    safe = np.where(zero, 1.0, radius) if any_zero else radius
    # cos 2t = half_difference/radius and sin 2t = a10/radius; compute the larger of cos t and sin t as a root and the other
    # as a quotient, so that nothing cancels
    larger = np.sqrt(0.5 + np.abs(0.5 * half_difference / safe))
    if any_zero:
        larger[zero] = 1.0
    smaller = 0.5 * (a10 / safe) / larger
    wide = half_difference >= 0.0
    return np.where(wide, larger, smaller), np.where(wide, smaller, larger), half_sum - radius, half_sum + radius


def _eigh3(a: Array, values: Array, vectors: Array) -> None:
    """One eigenvector from the adjugate, the other two from the 2x2 problem in its orthogonal complement.

    One eigenvalue (the largest or the smallest, by the sign of the determinant of the deviatoric part) is at least half the
    spread away from the others, so its vector is well determined. The remaining coupling is measured: a matrix with too
    much of it goes to ``eigh``.
    """
    a00, a10, a11, a20, a21, a22 = np.ascontiguousarray(a.reshape(-1, 9).T)[[0, 3, 4, 6, 7, 8]]
    mean = (a00 + a11 + a22) / 3.0
    b00, b11, b22 = a00 - mean, a11 - mean, a22 - mean
    spread = np.sqrt((b00 * b00 + b11 * b11 + b22 * b22) / 6.0 + (a10 * a10 + a20 * a20 + a21 * a21) / 3.0)
    # a square that left the range of binary64, or a multiple of the identity: the guard below sends it to eigh
    shrink = 1.0 / np.clip(spread, 1e-140, 1e140)
    b00, b11, b22, b10, b20, b21 = b00 * shrink, b11 * shrink, b22 * shrink, a10 * shrink, a20 * shrink, a21 * shrink
    half_det = 0.5 * (b00 * (b11 * b22 - b21 * b21) - b10 * (b10 * b22 - b21 * b20) + b20 * (b10 * b21 - b11 * b20))
    top = half_det >= 0.0
    root = _largest_root(np.minimum(np.abs(half_det), 1.0))
    alone = np.where(top, root, -root)

    # the adjugate of b - alone*I is a multiple of v v': its column with the largest diagonal entry is v
    c00, c11, c22 = b00 - alone, b11 - alone, b22 - alone
    d00, d11, d22 = c11 * c22 - b21 * b21, c00 * c22 - b20 * b20, c00 * c11 - b10 * b10
    d10, d20, d21 = b20 * b21 - b10 * c22, b10 * b21 - b20 * c11, b10 * b20 - b21 * c00
    second, third = d11 >= d00, d22 >= np.maximum(d00, d11)
    vx = np.where(third, d20, np.where(second, d10, d00))
    vy = np.where(third, d21, np.where(second, d11, d10))
    vz = np.where(third, d22, np.where(second, d21, d20))
    length = 1.0 / np.sqrt(np.maximum(vx * vx + vy * vy + vz * vz, 1e-300))
    vx, vy, vz = vx * length, vy * length, vz * length
    # an orthonormal pair (u, w) across v, without a singular direction (Duff and others, 2017)
    sign = np.copysign(1.0, vz)
    s = -1.0 / (sign + vz)
    wx, wy, wz = vx * vy * s, sign + vy * vy * s, -vy
    ux, uy, uz = 1.0 + sign * vx * vx * s, sign * wx, -sign * vx

    bvx, bvy, bvz = b00 * vx + b10 * vy + b20 * vz, b10 * vx + b11 * vy + b21 * vz, b20 * vx + b21 * vy + b22 * vz
    bux, buy, buz = b00 * ux + b10 * uy + b20 * uz, b10 * ux + b11 * uy + b21 * uz, b20 * ux + b21 * uy + b22 * uz
    alone = vx * bvx + vy * bvy + vz * bvz
    coupling = np.abs(ux * bvx + uy * bvy + uz * bvz) + np.abs(wx * bvx + wy * bvy + wz * bvz)
    p00 = ux * bux + uy * buy + uz * buz
    p11 = (b00 + b11 + b22) - alone - p00
    cosine, sine, low, high = _rotate2(p00, wx * bux + wy * buy + wz * buz, p11)

    alone, low, high = mean + spread * alone, mean + spread * low, mean + spread * high
    values[:, 0] = np.where(top, low, np.minimum(alone, low))
    values[:, 1] = np.where(top, high, low)
    values[:, 2] = np.where(top, np.maximum(alone, high), high)
    for i, (u, w, v) in enumerate(((ux, wx, vx), (uy, wy, vy), (uz, wz, vz))):
        lower, upper = cosine * w - sine * u, cosine * u + sine * w
        vectors[:, i, 0] = np.where(top, lower, v)
        vectors[:, i, 1] = np.where(top, upper, lower)
        vectors[:, i, 2] = np.where(top, v, upper)

    in_range = (spread > 1e-140) & (spread < 1e140)
    sure: NDArray[np.bool_] = in_range & (coupling * spread <= 8.0 * _EPS * (np.abs(mean) + spread))
    if not sure.all():
        odd = a[~sure]
        finite = np.asarray(np.isfinite(odd).all(axis=(-1, -2)))
        some, turned = np.linalg.eigh(np.where(finite[:, None, None], odd, 0.0))
        values[~sure], vectors[~sure] = np.where(finite[:, None], some, np.nan), turned


def _largest_root(h: Array) -> Array:
    """The root ``2 cos(arccos(h)/3)`` of ``x^3 - 3 x = 2 h`` in ``[sqrt(3), 2]``, for ``h`` in ``[0, 1]``."""
    x = 1.73206896 + h * (0.33275167 - h * (0.09171183 - h * (0.0350062 - h * 0.00812866)))  # to 2e-5
    for _ in range(2):  # Newton: to 3e-10, to the last digit
        square = x * x
        x = x - ((square - 3.0) * x - 2.0 * h) / (3.0 * square - 3.0)
    return x
