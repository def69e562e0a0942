"""Compiled inner loops of the Fréchet mean.

Each function makes one pass over a chunk of records at a point: sums over blocks of records, written to ``blocks``, and
the largest distance, returned. With a finite ``radius`` the point is the centre of the ball and the records are clipped
into it on the way, in place; with an infinite one they must have been clipped already.

The time of a pass should not tell what the records hold. Every record therefore goes through the same instructions: what
is outside the ball or no point at all is picked out by selection, not by a branch. The exceptions are matrices whose
eigenvalues are so far apart that closed forms lose digits, and whatever is no matrix: :func:`far_matrix` treats these one
by one, in a few microseconds each. The functions release the interpreter lock.

Importing this module imports numba; compiled code is kept on disk between runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from geodp.inputs import EPSILON, Array
from geodp.manifolds.manifold import TOLERANCE

F = TypeVar("F", bound=Callable[..., Any])
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: The relative asymmetry up to which a matrix counts as symmetric.
SYMMETRIC = TOLERANCE


def compiled(function: F) -> F:
    # contraction and reassociation change only the order and the rounding of sums, which the error bounds allow for
    jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
    return cast(F, jit(function))


_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)
_FIRST, _SECOND = np.uint64(0xD6E8FEB86659FD93), np.uint64(0xBF58476D1CE4E5B9)


@compiled
def fingerprint(words: NDArray[np.uint64], weights: NDArray[np.uint64], keys: NDArray[np.uint64]) -> np.uint64:
    """The fingerprint of records, as :func:`geodp.solver.records.fingerprint` defines it; ``weights`` may be empty."""
    total = np.uint64(0)
    for i in range(len(words)):
        value = keys[0]
        for j in range(words.shape[1]):
            word = words[i, j]
            value += (word >> _HALF) * keys[4 + 2 * j] + (word & _LOWER) * keys[5 + 2 * j]
        if len(weights) > 0:
            value += (weights[i] >> _HALF) * keys[2] + (weights[i] & _LOWER) * keys[3]
        value = (value ^ (value >> _HALF)) * _FIRST
        value = (value ^ (value >> _HALF)) * _SECOND
        total += value ^ (value >> _HALF)
    return total


@compiled
def _twice_artanh(f: float) -> float:
    """``2 artanh(f)`` for ``|f| <= 0.172``, by its series."""
    s = f * f
    series = 1.0 / 15.0 + s * (1.0 / 17.0 + s * (1.0 / 19.0 + s * (1.0 / 21.0)))
    series = 1.0 / 7.0 + s * (1.0 / 9.0 + s * (1.0 / 11.0 + s * (1.0 / 13.0 + s * series)))
    return 2.0 * f + 2.0 * f * s * (1.0 / 3.0 + s * (1.0 / 5.0 + s * series))


@compiled
def _log(values: Array, count: int) -> None:
    """Natural logarithms of the first ``count`` values, positive and normal, in place; to about an ulp.

    ``x = 2^e m`` with ``m`` within a factor ``sqrt(2)`` of 1, and ``log m = 2 artanh((m - 1)/(m + 1))``. The library
    function would be called for one value at a time; this loop runs on several.
    """
    bits = values.view(np.int64)
    for i in range(count):
        exponent = (bits[i] >> 52) - 1023
        bits[i] = (bits[i] & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000
        large = values[i] > 1.4142135623730951
        m = 0.5 * values[i] if large else values[i]
        e = float(exponent) + (1.0 if large else 0.0)
        values[i] = e * 0.6931471805599453 + _twice_artanh((m - 1.0) / (m + 1.0))


@compiled
def asinh(values: Array, out: Array, count: int) -> None:
    """Inverse hyperbolic sines of the first ``count`` values, not negative, to a few ulps.

    ``asinh(u)`` is the logarithm of ``u + sqrt(1 + u^2)``, and ``2 artanh(u/(1 + sqrt(1 + u^2)))``, which suits small ``u``.
    """
    bits = out.view(np.int64)
    for i in range(count):
        out[i] = values[i] + math.sqrt(1.0 + values[i] * values[i])
    for i in range(count):
        exponent = (bits[i] >> 52) - 1023
        bits[i] = (bits[i] & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000
        large = out[i] > 1.4142135623730951
        m = 0.5 * out[i] if large else out[i]
        e = float(exponent) + (1.0 if large else 0.0)
        u = values[i]
        small = u / (1.0 + math.sqrt(1.0 + u * u))
        out[i] = e * 0.6931471805599453 + _twice_artanh(small if u < 0.35 else (m - 1.0) / (m + 1.0))


@compiled
def _exp(values: Array, count: int) -> None:
    """Exponentials of the first ``count`` values, at most 700 in size, in place; to a few ulps.

    ``exp(x) = 2^n exp(r)`` with ``|r| <= log(2)/2``, by the series of the exponential.
    """
    bits = values.view(np.int64)
    for i in range(count):
        n = math.floor(values[i] * 1.4426950408889634 + 0.5)
        r = (values[i] - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
        tail = 1.0 / 40320.0 + r * (1.0 / 362880.0 + r * (1.0 / 3628800.0 + r * (1.0 / 39916800.0 + r * (1.0 / 479001600.0))))
        tail = 1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0 + r * tail)))
        values[i] = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * tail)))
        bits[i] += np.int64(n) << 52


@compiled
def _arc(sine: float) -> float:
    """The arc of a sine in ``[0, 1/2]``, by the rational function of fdlibm."""
    s = sine * sine
    top = 2.01212532134862925881e-01 + s * (
        -4.00555345006794114027e-02 + s * (7.91534994289814532176e-04 + s * 3.47933107596021167570e-05)
    )
    top = s * (1.66666666666666657415e-01 + s * (-3.25565818622400915405e-01 + s * top))
    below = 2.02094576023350569471e00 + s * (-6.88283971605453293030e-01 + s * 7.70381505559019352791e-02)
    return sine + sine * (top / (1.0 + s * (-2.40339491173441421878e00 + s * below)))


@compiled
def chord_angle(chord_square: float, opposite: bool) -> tuple[float, float]:
    """The angle between unit vectors, and its sine, from the square of their distance: accurate relative to themselves.

    If they are more than a right angle apart (``opposite``), the distance is that from the antipode. Halving the arc twice
    leaves a sine below 0.39, for which no case needs to be told from another.
    """
    half = min(0.5 * math.sqrt(chord_square), 0.70711)
    cosine = math.sqrt(1.0 - half * half)
    arc = 4.0 * _arc(half / math.sqrt(2.0 + 2.0 * cosine))
    return (math.pi - arc if opposite else arc), 2.0 * half * cosine


# ------------------------------------------------------------------ matrices one by one


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


# ------------------------------------------------------------------ matrices, many at once


@compiled
def spd2(
    x: Array,
    weights: Array,
    p: Array,
    factor: Array,
    inverse: Array,
    most: float,
    radius: float,
    block: int,
    blocks: Array,
) -> float:
    """2x2 positive-definite matrices.

    The whitened matrix is ``h I + rho S`` with ``S = [[d, b], [b, -d]]`` and ``d^2 + b^2 = 1``, and its logarithm is
    ``alpha I + half S``. The Hessian on trace-free directions is 1 along ``(d, b)`` and ``half h/rho`` across. Columns of
    ``blocks``: sums of ``alpha``, ``half d``, ``half b``, squared length, and three entries of the Hessian.
    """
    l00, l10, l11 = inverse[0, 0], inverse[1, 0], inverse[1, 1]
    r00, r10, r11 = factor[0, 0], factor[1, 0], factor[1, 1]
    clip = radius < math.inf
    entries = np.empty((4, block))
    room = np.empty((8, block))
    hs, ds, bs, rhos, highs, lows = room[0], room[1], room[2], room[3], room[4], room[5]
    shrinks, more = room[6], room[7]
    squares = np.empty(block)
    sure = np.empty(block, dtype=np.bool_)
    vectors, logs, spare = np.empty((2, 2)), np.empty(2), np.empty((2, 2))
    farthest = 0.0
    for start in range(0, len(x), block):
        count = min(block, len(x) - start)
        # loops that only sort entries, or have no calls and branches, so that they run on several records at once
        for i in range(count):
            for j in range(4):
                entries[j, i] = x[start + i, j // 2, j % 2]
        unsure = 0
        for i in range(count):
            x00, x01, x10, x11 = entries[0, i], entries[1, i], entries[2, i], entries[3, i]
            even = abs(x10 - x01) <= SYMMETRIC * max(max(abs(x00), abs(x11)), abs(x10))
            x10 = 0.5 * (x10 + x01)
            half = l10 * x00 + l11 * x10
            a00, b = l00 * l00 * x00, l00 * half
            a11 = l10 * half + l11 * (l10 * x10 + l11 * x11)
            h, d = 0.5 * (a00 + a11), 0.5 * (a00 - a11)
            rho = math.sqrt(d * d + b * b)
            high, low = h + rho, h - rho
            fine = even & (high < most * low) & (high < 1e100) & (low > 1e-100)
            unsure += 0 if fine else 1
            sure[i] = fine
            inverted = 1.0 / rho if rho > 0.0 else 0.0
            hs[i], rhos[i] = (h if fine else 1.0), (rho if fine else 0.0)
            ds[i], bs[i] = (d * inverted if fine else 0.0), (b * inverted if fine else 0.0)
            highs[i], lows[i] = (high if fine else 1.0), (low if fine else 1.0)
        _log(highs, count)
        _log(lows, count)
        for i in range(count):
            squares[i] = highs[i] * highs[i] + lows[i] * lows[i]
        if clip:
            for i in range(count):
                length = math.sqrt(squares[i])
                shrink = radius / length if length > radius else 1.0
                shrinks[i] = shrink
                highs[i] *= shrink
                lows[i] *= shrink
                squares[i] *= shrink * shrink
                entries[0, i], more[i] = highs[i], lows[i]
            _exp(entries[0], count)
            _exp(more, count)
            for i in range(count):
                outside = shrinks[i] < 1.0
                h, rho = 0.5 * (entries[0, i] + more[i]), 0.5 * (entries[0, i] - more[i])
                w00, w10, w11 = h + rho * ds[i], rho * bs[i], h - rho * ds[i]
                half = r10 * w00 + r11 * w10
                y00, y10 = r00 * r00 * w00, r00 * half
                y11 = r10 * half + r11 * (r10 * w10 + r11 * w11)
                hs[i], rhos[i] = (h if outside else hs[i]), (rho if outside else rhos[i])
                j = start + i
                x[j, 0, 0], x[j, 1, 1] = (y00 if outside else x[j, 0, 0]), (y11 if outside else x[j, 1, 1])
                x[j, 1, 0], x[j, 0, 1] = (y10 if outside else x[j, 1, 0]), (y10 if outside else x[j, 0, 1])
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = 0.0
        for i in range(count):
            w, h, d, b, rho, high, low = weights[start + i], hs[i], ds[i], bs[i], rhos[i], highs[i], lows[i]
            half = 0.5 * (high - low)
            # a multiple of the identity has half = d = b = 0, and the Hessian 1
            across = half * h / rho if rho > 0.0 else 1.0
            rest = w * (across - 1.0)
            s0 += w * 0.5 * (high + low)
            s1 += w * half * d
            s2 += w * half * b
            s3 += w * squares[i]
            s4 += w * across - rest * d * d
            s5 -= rest * d * b
            s6 += w * across - rest * b * b
        if unsure > 0:
            for i in range(count):
                if not sure[i]:
                    w = weights[start + i]
                    length = far_matrix(x[start + i], p, factor, inverse, radius, vectors, logs, spare)
                    squares[i] = length * length
                    d = vectors[0, 0] * vectors[0, 0] - vectors[1, 0] * vectors[1, 0]
                    b = 2.0 * vectors[0, 0] * vectors[1, 0]
                    half = 0.5 * (logs[0] - logs[1])
                    rest = w * (curve(2.0 * half) - 1.0)  # above, it counted as 1
                    s0 += w * 0.5 * (logs[0] + logs[1])
                    s1 += w * half * d
                    s2 += w * half * b
                    s3 += w * squares[i]
                    s4 += rest * b * b
                    s5 -= rest * d * b
                    s6 += rest * d * d
        farthest = max(farthest, squares[:count].max())
        row = blocks[start // block]
        row[0], row[1], row[2], row[3], row[4], row[5], row[6] = s0, s1, s2, s3, s4, s5, s6
    return math.sqrt(farthest)


@compiled
def _across(vx: float, vy: float, vz: float) -> tuple[float, float, float, float, float, float]:
    """An orthonormal pair across a unit vector, without a singular direction (Duff and others, 2017)."""
    sign = 1.0 if vz >= 0.0 else -1.0
    s = -1.0 / (sign + vz)
    wx = vx * vy * s
    return 1.0 + sign * vx * vx * s, sign * wx, -sign * vx, wx, sign + vy * vy * s, -vy


@compiled
def spd3(
    x: Array,
    weights: Array,
    p: Array,
    factor: Array,
    inverse: Array,
    most: float,
    radius: float,
    block: int,
    blocks: Array,
    each: Array,
    limit: float,
) -> float:
    """3x3 positive-definite matrices, a block at a time: :func:`spd3_pieces` says what is in ``blocks`` and ``each``."""
    room, sure = np.empty((SPD3_ROOM, block)), np.empty(block, dtype=np.bool_)
    begins, counts, mosts = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), np.full(1, most)
    points, factors, inverses = p.reshape(1, 3, 3), factor.reshape(1, 3, 3), inverse.reshape(1, 3, 3)
    farthest = 0.0
    for start in range(0, len(x), block):
        begins[0], counts[0] = start, min(block, len(x) - start)
        row = blocks[start // block : start // block + 1]
        spd3_pieces(
            x, weights, begins, begins, counts, points, factors, inverses, mosts, radius, row, each, limit, room, sure
        )  # fmt: skip
        farthest = max(farthest, row[0, 8])
    return farthest


#: Rows of memory that :func:`spd3_pieces` works with.
SPD3_ROOM = 20


@compiled
def spd3_pieces(
    x: Array,
    weights: Array,
    begins: Integers,
    places: Integers,
    counts: Integers,
    points: Array,
    factors: Array,
    inverses: Array,
    mosts: Array,
    radius: float,
    rows: Array,
    each: Array,
    limit: float,
    room: Array,
    sure: Flags,
) -> None:
    """3x3 positive-definite matrices: the deflation of ``_small_eigen``, without forming the last two eigenvectors.

    Piece ``i`` holds the ``counts[i]`` records from ``begins[i]`` on, with the weights from ``places[i]`` on, seen from
    ``points[i]``. All together they fill ``room``, so that short pieces take no longer than long ones.

    With ``v`` the eigenvector that stands alone and ``(u, w)`` an orthonormal pair across it, ``log`` of the whitened matrix
    is ``l v v' + alpha (I - v v') + half (d (u u' - w w') + b (u w' + w u'))`` with ``d^2 + b^2 = 1``. Columns of ``rows``, one
    row a piece: sums of its six lower entries, squared length, the Hessian's mean over trace-free directions, and the largest
    length. ``each`` has no rows, or one for every record: then its coordinates go there, which are these entries, those off the
    diagonal times the root of two, shortened to the length ``limit``. That needs no clipped records: the radius may be infinite.
    """
    root_of_two = math.sqrt(2.0)
    clip = radius < math.inf
    vectors, logs, spare = np.empty((3, 3)), np.empty(3), np.empty((3, 3))
    count = 0
    for piece in range(len(counts)):
        inverse, most, number = inverses[piece], mosts[piece], counts[piece]
        # indices from 0 on, or the loops would not run on several records at once
        here, records = slice(count, count + number), x[begins[piece] : begins[piece] + number]
        a00s, a10s, a11s, a20s, a21s, a22s, limits = (
            room[12][here],
            room[13][here],
            room[14][here],
            room[15][here],
            room[16][here],
            room[17][here],
            room[19][here],
        )
        l00, l10, l11 = inverse[0, 0], inverse[1, 0], inverse[1, 1]
        l20, l21, l22 = inverse[2, 0], inverse[2, 1], inverse[2, 2]
        for i in range(number):
            y10, y20, y21 = (
                0.5 * (records[i, 1, 0] + records[i, 0, 1]),
                0.5 * (records[i, 2, 0] + records[i, 0, 2]),
                0.5 * (records[i, 2, 1] + records[i, 1, 2]),
            )
            off = max(
                max(abs(records[i, 1, 0] - records[i, 0, 1]), abs(records[i, 2, 0] - records[i, 0, 2])),
                abs(records[i, 2, 1] - records[i, 1, 2]),
            )
            a00s[i], a10s[i], a11s[i] = records[i, 0, 0], y10, records[i, 1, 1]
            a20s[i], a21s[i], a22s[i], limits[i] = y20, y21, records[i, 2, 2], off
        for i in range(number):
            y00, y10, y11, y20, y21, y22 = a00s[i], a10s[i], a11s[i], a20s[i], a21s[i], a22s[i]
            # of a positive-definite matrix the largest entry is on the diagonal
            even = limits[i] <= SYMMETRIC * max(max(abs(y00), abs(y11)), abs(y22))
            limits[i] = most if even else 0.0
            # rows of L^-1 y, then L^-1 y L^-T
            m10, m11 = l10 * y00 + l11 * y10, l10 * y10 + l11 * y11
            m20 = l20 * y00 + l21 * y10 + l22 * y20
            m21 = l20 * y10 + l21 * y11 + l22 * y21
            m22 = l20 * y20 + l21 * y21 + l22 * y22
            a00s[i], a10s[i], a20s[i] = l00 * l00 * y00, m10 * l00, m20 * l00
            a11s[i], a21s[i] = m10 * l10 + m11 * l11, m20 * l10 + m21 * l11
            a22s[i] = m20 * l20 + m21 * l21 + m22 * l22
        count += number
    vxs, vys, vzs, ds, bs, shrinks = room[0], room[1], room[2], room[3], room[4], room[5]
    e0s, e1s, e2s, f0s, f1s, f2s = room[6], room[7], room[8], room[9], room[10], room[11]
    a00s, a10s, a11s, a20s, a21s, a22s = room[12], room[13], room[14], room[15], room[16], room[17]
    lengths, limits = room[18], room[19]
    unsure = 0
    for i in range(count):
        a00, a10, a11, a20, a21, a22 = a00s[i], a10s[i], a11s[i], a20s[i], a21s[i], a22s[i]
        mean = (a00 + a11 + a22) / 3.0
        b00, b11, b22 = a00 - mean, a11 - mean, a22 - mean
        spread = math.sqrt((b00 * b00 + b11 * b11 + b22 * b22) / 6.0 + (a10 * a10 + a20 * a20 + a21 * a21) / 3.0)
        fine = (spread < 1e100) & (mean > 1e-100)
        shrink = 1.0 / max(spread, 1e-140)
        b00, b11, b22 = b00 * shrink, b11 * shrink, b22 * shrink
        b10, b20, b21 = a10 * shrink, a20 * shrink, a21 * shrink
        half_det = b00 * (b11 * b22 - b21 * b21) - b10 * (b10 * b22 - b21 * b20) + b20 * (b10 * b21 - b11 * b20)
        h = min(abs(0.5 * half_det), 1.0)
        root = 1.73206896 + h * (0.33275167 - h * (0.09171183 - h * (0.0350062 - h * 0.00812866)))
        square = root * root
        root -= ((square - 3.0) * root - 2.0 * h) / (3.0 * square - 3.0)
        square = root * root
        root -= ((square - 3.0) * root - 2.0 * h) / (3.0 * square - 3.0)
        alone = root if half_det >= 0.0 else -root
        c00, c11, c22 = b00 - alone, b11 - alone, b22 - alone
        d00, d11, d22 = c11 * c22 - b21 * b21, c00 * c22 - b20 * b20, c00 * c11 - b10 * b10
        d10, d20, d21 = b20 * b21 - b10 * c22, b10 * b21 - b20 * c11, b10 * b20 - b21 * c00
        second, third = d11 >= d00, d22 >= max(d00, d11)
        vx, vy, vz = (d10 if second else d00), (d11 if second else d10), (d21 if second else d20)
        vx, vy, vz = (d20 if third else vx), (d21 if third else vy), (d22 if third else vz)
        scale = 1.0 / math.sqrt(max(vx * vx + vy * vy + vz * vz, 1e-300))
        vx, vy, vz = vx * scale, vy * scale, vz * scale
        ux, uy, uz, wx, wy, wz = _across(vx, vy, vz)
        px, py, pz = b00 * vx + b10 * vy + b20 * vz, b10 * vx + b11 * vy + b21 * vz, b20 * vx + b21 * vy + b22 * vz
        qx, qy, qz = b00 * ux + b10 * uy + b20 * uz, b10 * ux + b11 * uy + b21 * uz, b20 * ux + b21 * uy + b22 * uz
        alone = vx * px + vy * py + vz * pz
        coupling = abs(ux * px + uy * py + uz * pz) + abs(wx * px + wy * py + wz * pz)
        fine &= coupling * spread <= 2e-15 * (mean + spread)
        p00 = ux * qx + uy * qy + uz * qz
        p11 = (b00 + b11 + b22) - alone - p00
        # back to the whitened matrix: its eigenvalue along v and its 2x2 block across
        middle, d = mean + spread * 0.5 * (p00 + p11), spread * 0.5 * (p00 - p11)
        b = spread * (wx * qx + wy * qy + wz * qz)
        rho = math.sqrt(d * d + b * b)
        e0, e1, e2 = mean + spread * alone, middle + rho, middle - rho
        fine &= max(e0, e1) < limits[i] * min(e0, e2)
        unsure += 0 if fine else 1
        sure[i] = fine
        inverted = 1.0 / rho if rho > 1e-200 else 0.0
        vxs[i], vys[i], vzs[i] = (vx if fine else 0.0), (vy if fine else 0.0), (vz if fine else 1.0)
        ds[i], bs[i] = (d * inverted if fine else 0.0), (b * inverted if fine else 0.0)
        e0s[i], e1s[i], e2s[i] = (e0 if fine else 1.0), (e1 if fine else 1.0), (e2 if fine else 1.0)
    for i in range(count):
        f0s[i], f1s[i], f2s[i] = e0s[i], e1s[i], e2s[i]
    _log(f0s, count)
    _log(f1s, count)
    _log(f2s, count)
    for i in range(count):
        lengths[i] = f0s[i] * f0s[i] + f1s[i] * f1s[i] + f2s[i] * f2s[i]
    if clip:
        g0s, g1s, g2s = a00s, a10s, a11s
        for i in range(count):
            length = math.sqrt(lengths[i])
            shrink = radius / length if length > radius else 1.0
            shrinks[i] = shrink
            f0s[i] *= shrink
            f1s[i] *= shrink
            f2s[i] *= shrink
            lengths[i] *= shrink * shrink
            g0s[i], g1s[i], g2s[i] = f0s[i], f1s[i], f2s[i]
        _exp(g0s, count)
        _exp(g1s, count)
        _exp(g2s, count)
        done = 0
        for piece in range(len(counts)):
            factor, number = factors[piece], counts[piece]
            here, records = slice(done, done + number), x[begins[piece] : begins[piece] + number]
            vxs, vys, vzs, ds, bs, shrinks = (
                room[0][here],
                room[1][here],
                room[2][here],
                room[3][here],
                room[4][here],
                room[5][here],
            )
            e0s, e1s, e2s, g0s, g1s, g2s = (
                room[6][here],
                room[7][here],
                room[8][here],
                room[12][here],
                room[13][here],
                room[14][here],
            )
            r00, r10, r11 = factor[0, 0], factor[1, 0], factor[1, 1]
            r20, r21, r22 = factor[2, 0], factor[2, 1], factor[2, 2]
            for i in range(number):
                outside = shrinks[i] < 1.0
                g0, g1, g2, vx, vy, vz = g0s[i], g1s[i], g2s[i], vxs[i], vys[i], vzs[i]
                ux, uy, uz, wx, wy, wz = _across(vx, vy, vz)
                alpha, half = 0.5 * (g1 + g2), 0.5 * (g1 - g2)
                rest, bd, bb = g0 - alpha, half * ds[i], half * bs[i]
                w00 = alpha + rest * vx * vx + bd * (ux * ux - wx * wx) + 2.0 * bb * ux * wx
                w11 = alpha + rest * vy * vy + bd * (uy * uy - wy * wy) + 2.0 * bb * uy * wy
                w22 = alpha + rest * vz * vz + bd * (uz * uz - wz * wz) + 2.0 * bb * uz * wz
                w10 = rest * vx * vy + bd * (ux * uy - wx * wy) + bb * (ux * wy + wx * uy)
                w20 = rest * vx * vz + bd * (ux * uz - wx * wz) + bb * (ux * wz + wx * uz)
                w21 = rest * vy * vz + bd * (uy * uz - wy * wz) + bb * (uy * wz + wy * uz)
                # rows of L w, then L w L'
                m00, m10, m11 = r00 * w00, r10 * w00 + r11 * w10, r10 * w10 + r11 * w11
                m20, m21 = r20 * w00 + r21 * w10 + r22 * w20, r20 * w10 + r21 * w11 + r22 * w21
                m22 = r20 * w20 + r21 * w21 + r22 * w22
                y00, y10, y20 = m00 * r00, m10 * r00, m20 * r00
                y11, y21 = m10 * r10 + m11 * r11, m20 * r10 + m21 * r11
                y22 = m20 * r20 + m21 * r21 + m22 * r22
                e0s[i], e1s[i], e2s[i] = (g0 if outside else e0s[i]), (g1 if outside else e1s[i]), (g2 if outside else e2s[i])
                records[i, 0, 0], records[i, 1, 1] = (
                    (y00 if outside else records[i, 0, 0]),
                    (y11 if outside else records[i, 1, 1]),
                )
                records[i, 1, 0], records[i, 0, 1] = (
                    (y10 if outside else records[i, 1, 0]),
                    (y10 if outside else records[i, 0, 1]),
                )
                records[i, 2, 0], records[i, 0, 2] = (
                    (y20 if outside else records[i, 2, 0]),
                    (y20 if outside else records[i, 0, 2]),
                )
                records[i, 2, 1], records[i, 1, 2] = (
                    (y21 if outside else records[i, 2, 1]),
                    (y21 if outside else records[i, 1, 2]),
                )
                records[i, 2, 2] = y22 if outside else records[i, 2, 2]
            done += number
    done = 0
    for piece in range(len(counts)):
        number, begin, place = counts[piece], begins[piece], places[piece]
        here, records, shares = slice(done, done + number), x[begin : begin + number], weights[place : place + number]
        vxs, vys, vzs, ds, bs, lengths = room[0][here], room[1][here], room[2][here], room[3][here], room[4][here], room[18][here]
        e0s, e1s, e2s, f0s, f1s, f2s = room[6][here], room[7][here], room[8][here], room[9][here], room[10][here], room[11][here]
        t00 = t10 = t11 = t20 = t21 = t22 = squares = hessian = 0.0
        for i in range(number):
            f0, f1, f2, e0, e1, e2 = f0s[i], f1s[i], f2s[i], e0s[i], e1s[i], e2s[i]
            vx, vy, vz, w = vxs[i], vys[i], vzs[i], shares[i]
            ux, uy, uz, wx, wy, wz = _across(vx, vy, vz)
            alpha, half = 0.5 * (f1 + f2), 0.5 * (f1 - f2)
            rest, bd, bb = w * (f0 - alpha), w * half * ds[i], w * half * bs[i]
            t00 += rest * vx * vx + bd * (ux * ux - wx * wx) + 2.0 * bb * ux * wx + w * alpha
            t11 += rest * vy * vy + bd * (uy * uy - wy * wy) + 2.0 * bb * uy * wy + w * alpha
            t22 += rest * vz * vz + bd * (uz * uz - wz * wz) + 2.0 * bb * uz * wz + w * alpha
            t10 += rest * vx * vy + bd * (ux * uy - wx * wy) + bb * (ux * wy + wx * uy)
            t20 += rest * vx * vz + bd * (ux * uz - wx * wz) + bb * (ux * wz + wx * uz)
            t21 += rest * vy * vz + bd * (uy * uz - wy * wz) + bb * (uy * wz + wy * uz)
            squares += w * lengths[i]
            g01, g02, g12 = e0 - e1, e0 - e2, e1 - e2
            first = 0.5 * (f0 - f1) * (e0 + e1) / (g01 if g01 != 0.0 else 1.0)
            second_factor = 0.5 * (f0 - f2) * (e0 + e2) / (g02 if g02 != 0.0 else 1.0)
            last = half * (e1 + e2) / (g12 if g12 != 0.0 else 1.0)
            hessian += (first if g01 != 0.0 else 1.0) * w
            hessian += (second_factor if g02 != 0.0 else 1.0) * w
            hessian += (last if g12 != 0.0 else 1.0) * w + 2.0 * w
        if len(each) > 0:
            for i in range(number):
                vx, vy, vz = vxs[i], vys[i], vzs[i]
                ux, uy, uz, wx, wy, wz = _across(vx, vy, vz)
                alpha, half = 0.5 * (f1s[i] + f2s[i]), 0.5 * (f1s[i] - f2s[i])
                rest, bd, bb = f0s[i] - alpha, half * ds[i], half * bs[i]
                c00 = rest * vx * vx + bd * (ux * ux - wx * wx) + 2.0 * bb * ux * wx + alpha
                c11 = rest * vy * vy + bd * (uy * uy - wy * wy) + 2.0 * bb * uy * wy + alpha
                c22 = rest * vz * vz + bd * (uz * uz - wz * wz) + 2.0 * bb * uz * wz + alpha
                c10 = root_of_two * (rest * vx * vy + bd * (ux * uy - wx * wy) + bb * (ux * wy + wx * uy))
                c20 = root_of_two * (rest * vx * vz + bd * (ux * uz - wx * wz) + bb * (ux * wz + wx * uz))
                c21 = root_of_two * (rest * vy * vz + bd * (uy * uz - wy * wz) + bb * (uy * wz + wy * uz))
                length = math.sqrt(c00 * c00 + c11 * c11 + c22 * c22 + c10 * c10 + c20 * c20 + c21 * c21)
                shrink = limit / length * (1.0 - 1e-15) if length > limit else 1.0
                row = each[begin + i]
                row[0], row[1], row[2] = shrink * c00, shrink * c10, shrink * c20
                row[3], row[4], row[5] = shrink * c11, shrink * c21, shrink * c22
        if unsure > 0:
            for i in range(number):
                if not sure[done + i]:
                    w = shares[i]
                    length = far_matrix(records[i], points[piece], factors[piece], inverses[piece], radius, vectors, logs, spare)
                    lengths[i] = length * length
                    squares += w * lengths[i]
                    for j in range(3):
                        t00 += w * logs[j] * vectors[0, j] * vectors[0, j]
                        t10 += w * logs[j] * vectors[1, j] * vectors[0, j]
                        t11 += w * logs[j] * vectors[1, j] * vectors[1, j]
                        t20 += w * logs[j] * vectors[2, j] * vectors[0, j]
                        t21 += w * logs[j] * vectors[2, j] * vectors[1, j]
                        t22 += w * logs[j] * vectors[2, j] * vectors[2, j]
                        hessian += w * (curve(logs[j] - logs[(j + 1) % 3]) - 1.0)  # above, it counted as 1
                    if len(each) > 0:
                        row, square = each[begin + i], 0.0
                        row[:] = 0.0
                        for j in range(3):
                            vx, vy, vz, f = vectors[0, j], vectors[1, j], vectors[2, j], logs[j]
                            row[0] += f * vx * vx
                            row[1] += root_of_two * f * vx * vy
                            row[2] += root_of_two * f * vx * vz
                            row[3] += f * vy * vy
                            row[4] += root_of_two * f * vy * vz
                            row[5] += f * vz * vz
                        for j in range(6):
                            square += row[j] * row[j]
                        length = math.sqrt(square)
                        shrink = limit / length * (1.0 - 1e-15) if length > limit else 1.0
                        for j in range(6):
                            row[j] *= shrink
        row, farthest = rows[piece], lengths.max()
        row[0], row[1], row[2], row[3], row[4], row[5] = t00, t10, t11, t20, t21, t22
        row[6], row[7], row[8] = squares, hessian / 5.0, math.sqrt(farthest)
        done += number


# ------------------------------------------------------------------ spheres


@compiled
def sphere2(x: Array, weights: Array, p: Array, radius: float, block: int, blocks: Array) -> float:
    """Unit vectors in space: the logarithm at ``p`` of ``x`` is ``f (x - c p)`` with ``c = p.x`` and ``f = t/sin t``.

    Columns of ``blocks``: sums of ``f x`` (three), of ``f c``, squared length, and of the six lower entries of
    ``g x x'`` with ``g = (1 - f c)/sin^2 t``: the Hessian is ``f c I`` plus that, projected. Returns the largest angle.
    """
    px, py, pz = p[0], p[1], p[2]
    clip = radius < math.inf
    far_cosine, far_sine = math.cos(min(radius, math.pi)), math.sin(min(radius, math.pi))
    room = np.empty((9, block))
    xs, ys, zs, cosines, angles, sines = room[0], room[1], room[2], room[3], room[4], room[5]
    q0s, q1s, q2s = room[6], room[7], room[8]
    farthest = 0.0
    for start in range(0, len(x), block):
        count = min(block, len(x) - start)
        for i in range(count):
            xs[i], ys[i], zs[i] = x[start + i, 0], x[start + i, 1], x[start + i, 2]
        for i in range(count):
            x0, x1, x2 = xs[i], ys[i], zs[i]
            norm = math.sqrt(x0 * x0 + x1 * x1 + x2 * x2)
            valid = abs(norm - 1.0) <= TOLERANCE
            scale = 1.0 / norm
            x0, x1, x2 = (x0 * scale if valid else px), (x1 * scale if valid else py), (x2 * scale if valid else pz)
            c = x0 * px + x1 * py + x2 * pz
            side = 1.0 if c >= 0.0 else -1.0
            q0, q1, q2 = x0 - side * px, x1 - side * py, x2 - side * pz
            angle, sine = chord_angle(q0 * q0 + q1 * q1 + q2 * q2, c < 0.0)
            xs[i], ys[i], zs[i] = x0, x1, x2
            q0s[i], q1s[i], q2s[i] = q0, q1, q2
            cosines[i], angles[i], sines[i] = min(max(c, -1.0), 1.0), angle, sine
        if clip:
            # Twice, so that what is left across is orthogonal even next to the antipode; by way of the memory, so that the
            # compiler does not make one step of the two.
            for _ in range(2):
                for i in range(count):
                    along = q0s[i] * px + q1s[i] * py + q2s[i] * pz
                    q0s[i] -= along * px
                    q1s[i] -= along * py
                    q2s[i] -= along * pz
            for i in range(count):
                q0, q1, q2 = q0s[i], q1s[i], q2s[i]
                length = math.sqrt(q0 * q0 + q1 * q1 + q2 * q2)
                outside = angles[i] > radius
                lost = outside & (length <= 4e-16)
                turn = far_sine / length
                q0, q1, q2 = far_cosine * px + turn * q0, far_cosine * py + turn * q1, far_cosine * pz + turn * q2
                q0, q1, q2 = (q0 if outside else xs[i]), (q1 if outside else ys[i]), (q2 if outside else zs[i])
                xs[i], ys[i], zs[i] = (px if lost else q0), (py if lost else q1), (pz if lost else q2)
                c, sine, angle = cosines[i], sines[i], angles[i]
                c, sine, angle = (far_cosine if outside else c), (far_sine if outside else sine), (radius if outside else angle)
                cosines[i], sines[i], angles[i] = (1.0 if lost else c), (0.0 if lost else sine), (0.0 if lost else angle)
            for i in range(count):
                x[start + i, 0], x[start + i, 1], x[start + i, 2] = xs[i], ys[i], zs[i]
        sx = sy = sz = along = squares = h00 = h10 = h11 = h20 = h21 = h22 = 0.0
        for i in range(count):
            x0, x1, x2, c, w = xs[i], ys[i], zs[i], cosines[i], weights[start + i]
            square = sines[i] * sines[i]
            f = angles[i] / sines[i] if sines[i] > 0.0 else 1.0
            g = w * ((1.0 - f * c) / square if square > 1e-8 else 1.0 / 3.0)
            f *= w
            sx += f * x0
            sy += f * x1
            sz += f * x2
            along += f * c
            squares += w * angles[i] * angles[i]
            h00 += g * x0 * x0
            h10 += g * x1 * x0
            h11 += g * x1 * x1
            h20 += g * x2 * x0
            h21 += g * x2 * x1
            h22 += g * x2 * x2
        farthest = max(farthest, angles[:count].max())
        row = blocks[start // block]
        row[0], row[1], row[2], row[3], row[4] = sx, sy, sz, along, squares
        row[5], row[6], row[7], row[8], row[9], row[10] = h00, h10, h11, h20, h21, h22
    return farthest


#: Long records taken at a time: few enough to stay in the cache between their two uses.
_FEW = 8


@compiled
def _add_eight(total: Array, records: Array, factors: Array) -> None:
    """``total += factors @ records``, with one load and one store of the total for all eight records."""
    r0, r1, r2, r3, r4, r5, r6, r7 = (
        records[0], records[1], records[2], records[3], records[4], records[5], records[6], records[7]
    )  # fmt: skip
    f0, f1, f2, f3, f4, f5, f6, f7 = (
        factors[0], factors[1], factors[2], factors[3], factors[4], factors[5], factors[6], factors[7]
    )  # fmt: skip
    for j in range(len(total)):
        first = (f0 * r0[j] + f1 * r1[j]) + (f2 * r2[j] + f3 * r3[j])
        total[j] += first + ((f4 * r4[j] + f5 * r5[j]) + (f6 * r6[j] + f7 * r7[j]))


@compiled
def _across_exactly(x: Array, p: Array, scale: float, side: float, room: Array) -> tuple[float, float]:
    """The part of ``scale x`` orthogonal to ``p``, in ``room``; its length, and the squared distance from ``side p``."""
    chord = along = 0.0
    for j in range(len(p)):
        room[j] = scale * x[j] - side * p[j]
        chord += room[j] * room[j]
        along += room[j] * p[j]
    # twice, so that what is left across is orthogonal even next to the antipode
    again = square = 0.0
    for j in range(len(p)):
        room[j] -= along * p[j]
        again += room[j] * p[j]
    for j in range(len(p)):
        room[j] -= again * p[j]
        square += room[j] * room[j]
    return math.sqrt(square), chord


@compiled
def _clip_vector(x: Array, p: Array, size: float, radius: float, room: Array) -> tuple[float, float, float, float]:
    """Brings a vector of length ``size``, or what should have been one, within an angle of the unit vector ``p``, in place.

    Returns its length, and cosine, angle and sine of the angle.
    """
    square = c = 0.0
    for j in range(len(p)):
        square += x[j] * x[j]
        c += x[j] * p[j]
    norm = math.sqrt(square)
    valid = abs(norm - size) <= TOLERANCE * size
    scale = 1.0 / norm
    c = min(max(c * scale, -1.0), 1.0)
    angle, sine = chord_angle(2.0 - 2.0 * abs(c), c < 0.0)
    far_cosine, far_sine = math.cos(radius), math.sin(radius)
    turn = size * far_sine / sine
    on, times = size * far_cosine - turn * c, turn * scale
    outside, lost = angle > radius, not valid
    # A cosine says too little about small angles, which matter in small balls, and next to the antipode, where the way to p
    # has hardly a direction. The first depends on the ball alone, the second is rare and costs as much again.
    if radius < 0.1 or (c < 0.0 and sine < 0.5 * far_sine):
        length, chord = _across_exactly(x, p, scale, 1.0 if c >= 0.0 else -1.0, room)
        angle, sine = chord_angle(chord, c < 0.0)
        outside = angle > radius
        lost |= outside and length <= 4e-16
        turn = size * far_sine / length
        for j in range(len(p)):
            moved = size * far_cosine * p[j] + turn * room[j] if outside else x[j]
            x[j] = size * p[j] if lost else moved
    else:
        for j in range(len(p)):
            moved = on * p[j] + times * x[j] if outside else x[j]
            x[j] = size * p[j] if lost else moved
    if lost:
        return size, 1.0, 0.0, 0.0
    return (size, far_cosine, radius, far_sine) if outside else (norm, c, angle, sine)


@compiled
def sphere(x: Array, weights: Array, p: Array, size: float, radius: float, block: int, blocks: Array) -> float:
    """Vectors of length ``size`` in any dimension, about the unit vector ``p``; ``radius`` is an angle.

    Columns of ``blocks``: sums of ``t/sin t`` times unit records (one an axis), of ``t cot t``, and of ``t^2``. Returns the
    largest angle.
    """
    clip = radius < math.inf
    farthest = 0.0
    total, room = np.empty(len(p)), np.empty(len(p))
    lengths, cosines, factors = np.empty(_FEW), np.empty(_FEW), np.empty(_FEW)
    angles, sines = np.empty(_FEW), np.empty(_FEW)
    for start in range(0, len(x), block):
        stop = min(start + block, len(x))
        total[:] = 0.0
        along = squares = 0.0
        for first in range(start, stop, _FEW):
            count = min(_FEW, stop - first)
            if clip:
                for i in range(count):
                    lengths[i], cosines[i], angles[i], sines[i] = _clip_vector(x[first + i], p, size, radius, room)
            else:
                for i in range(count):
                    record = x[first + i]
                    square = c = 0.0
                    for j in range(len(p)):
                        square += record[j] * record[j]
                        c += record[j] * p[j]
                    lengths[i], cosines[i] = math.sqrt(square), c
                for i in range(count):
                    c = min(max(cosines[i] / lengths[i], -1.0), 1.0)
                    chord = 2.0 - 2.0 * abs(c)
                    if c < -0.5:  # only in wide balls: t/sin t would magnify the rounding error of the cosine
                        chord = 0.0
                        for j in range(len(p)):
                            q = x[first + i, j] / lengths[i] + p[j]
                            chord += q * q
                    cosines[i] = c
                    angles[i], sines[i] = chord_angle(chord, c < 0.0)
            for i in range(count):
                w = weights[first + i]
                f = w * angles[i] / sines[i] if sines[i] > 0.0 else w
                along += f * cosines[i]
                squares += w * angles[i] * angles[i]
                farthest = max(farthest, angles[i])
                factors[i] = f / lengths[i]
            if count == _FEW:
                _add_eight(total, x[first : first + _FEW], factors)
            else:
                for i in range(count):
                    for j in range(len(p)):
                        total[j] += factors[i] * x[first + i, j]
        row = blocks[start // block]
        for j in range(len(p)):  # one by one: numba takes two seconds to compile the assignment of an array to a slice
            row[j] = total[j]
        row[len(p)], row[len(p) + 1] = along, squares
    return farthest


# ------------------------------------------------------------------ rotations


@compiled
def _quaternion(a: Array, sines: Array, q: Array) -> None:
    """The unit quaternion, scalar first and not negative, of a rotation ``a`` with the skew part of ``sines``, in ``q``.

    Of its four entries the largest is a root and the others are quotients by it, so that nothing cancels.
    """
    s0, s1, s2 = sines[2, 1] - sines[1, 2], sines[0, 2] - sines[2, 0], sines[1, 0] - sines[0, 1]
    t01, t02, t12 = a[0, 1] + a[1, 0], a[0, 2] + a[2, 0], a[1, 2] + a[2, 1]
    d0, d1, d2 = a[0, 0], a[1, 1], a[2, 2]
    dw, dx, dy, dz = 1.0 + d0 + d1 + d2, 1.0 + d0 - d1 - d2, 1.0 - d0 + d1 - d2, 1.0 - d0 - d1 + d2
    first, second = dw >= dx, dy >= dz
    w, x = (dw if first else s0), (s0 if first else dx)
    y, z = (s1 if first else t01), (s2 if first else t02)
    w2, x2 = (s1 if second else s2), (t01 if second else t02)
    y2, z2 = (dy if second else t12), (t12 if second else dz)
    other = max(dy, dz) > max(dw, dx)
    w, x, y, z = (w2 if other else w), (x2 if other else x), (y2 if other else y), (z2 if other else z)
    scale = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
    scale = -scale if w < 0.0 else scale
    q[0], q[1], q[2], q[3] = scale * w, scale * x, scale * y, scale * z


@compiled
def _times(a: Array, b: Array, out: Array) -> None:
    for i in range(3):
        for j in range(3):
            out[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + a[i, 2] * b[2, j]


@compiled
def _orthonormal(x: Array, room: Array, out: Array) -> float:
    """One step of Newton and Schulz to the rotation next to a matrix; how far its columns were from orthonormal."""
    off = 0.0
    for i in range(3):
        for j in range(3):
            product = x[0, i] * x[0, j] + x[1, i] * x[1, j] + x[2, i] * x[2, j]
            apart = abs(product - (1.0 if i == j else 0.0))
            off = apart if not apart <= off else off  # also if not a number
            room[i, j] = (1.5 if i == j else 0.0) - 0.5 * product
    _times(x, room, out)
    return off


@compiled
def _clip_rotation(x: Array, p: Array, radius: float, room: Array, once: Array, twice: Array, q: Array) -> None:
    """Brings a 3x3 matrix, or what should have been a rotation, within an angle of ``p``, in place."""
    off = _orthonormal(x, room, once)
    det = (
        x[0, 0] * (x[1, 1] * x[2, 2] - x[1, 2] * x[2, 1])
        - x[0, 1] * (x[1, 0] * x[2, 2] - x[1, 2] * x[2, 0])
        + x[0, 2] * (x[1, 0] * x[2, 1] - x[1, 1] * x[2, 0])
    )
    valid = (off <= TOLERANCE) & (det > 0.0)
    _orthonormal(once, room, twice)
    tidy = off > TIDY
    for i in range(3):
        for j in range(3):
            kept = twice[i, j] if tidy else x[i, j]
            x[i, j] = kept if valid else p[i, j]
    _relative(x, p, once, twice)
    _quaternion(once, twice, q)
    length = math.sqrt(q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    half, _ = chord_angle(2.0 * length * length / (1.0 + q[0]), False)
    outside, lost = 2.0 * half > radius, q[0] <= 1e-16
    cosine, sine = math.cos(0.5 * radius), math.sin(0.5 * radius) / max(length, 1e-300)
    a, b, c, d = cosine, sine * q[1], sine * q[2], sine * q[3]
    room[0, 0], room[0, 1], room[0, 2] = 1.0 - 2.0 * (c * c + d * d), 2.0 * (b * c - a * d), 2.0 * (b * d + a * c)
    room[1, 0], room[1, 1], room[1, 2] = 2.0 * (b * c + a * d), 1.0 - 2.0 * (b * b + d * d), 2.0 * (c * d - a * b)
    room[2, 0], room[2, 1], room[2, 2] = 2.0 * (b * d - a * c), 2.0 * (c * d + a * b), 1.0 - 2.0 * (b * b + c * c)
    _times(p, room, once)
    for i in range(3):
        for j in range(3):
            moved = once[i, j] if outside else x[i, j]
            x[i, j] = p[i, j] if lost else moved


@compiled
def _relative(x: Array, p: Array, turn: Array, difference: Array) -> None:
    """``p' x``, and ``p' (x - p)``, whose skew part is the same and keeps its digits when the two are close."""
    for i in range(3):
        for j in range(3):
            turn[i, j] = p[0, i] * x[0, j] + p[1, i] * x[1, j] + p[2, i] * x[2, j]
            difference[i, j] = p[0, i] * (x[0, j] - p[0, j]) + p[1, i] * (x[1, j] - p[1, j]) + p[2, i] * (x[2, j] - p[2, j])


#: A matrix whose columns are further from orthonormal than this is replaced by the rotation next to it.
TIDY = 32.0 * EPSILON


@compiled
def rotations3(x: Array, weights: Array, p: Array, radius: float, block: int, blocks: Array) -> float:
    """Rotations of space: with ``q`` the quaternion of ``p' x`` and ``v`` its vector part, the logarithm is ``t v/|v|``.

    The Hessian is 1 along ``v`` and ``f = (t/2) cot(t/2)`` across. Columns of ``blocks``: sums of the logarithm (three), squared
    length, ``f``, and of the six lower entries of ``(1 - f) v v'/|v|^2``. Returns the largest angle.
    """
    clip = radius < math.inf
    turn, difference, room, q = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3)), np.empty(4)
    farthest = 0.0
    for start in range(0, len(x), block):
        l0 = l1 = l2 = squares = flat = h00 = h10 = h11 = h20 = h21 = h22 = 0.0
        for i in range(start, min(start + block, len(x))):
            if clip:
                _clip_rotation(x[i], p, radius, room, turn, difference, q)
            _relative(x[i], p, turn, difference)
            _quaternion(turn, difference, q)
            w, v0, v1, v2 = weights[i], q[1], q[2], q[3]
            square = v0 * v0 + v1 * v1 + v2 * v2
            length = math.sqrt(square)
            half, _ = chord_angle(2.0 * square / (1.0 + q[0]), False)
            scale = w * (2.0 * half / length if length > 0.0 else 2.0)
            f = half * q[0] / length if length > 0.0 else 1.0
            g = w * ((1.0 - f) / square if square > 1e-8 else 1.0 / 3.0)
            l0 += scale * v0
            l1 += scale * v1
            l2 += scale * v2
            squares += w * 4.0 * half * half
            flat += w * f
            h00 += g * v0 * v0
            h10 += g * v1 * v0
            h11 += g * v1 * v1
            h20 += g * v2 * v0
            h21 += g * v2 * v1
            h22 += g * v2 * v2
            farthest = max(farthest, 2.0 * half)
        row = blocks[start // block]
        row[0], row[1], row[2], row[3], row[4] = l0, l1, l2, squares, flat
        row[5], row[6], row[7], row[8], row[9], row[10] = h00, h10, h11, h20, h21, h22
    return farthest
