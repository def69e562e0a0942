"""Compiled inner loops of the Fréchet mean.

Each function makes one pass over a chunk of records at a point: sums over blocks of records, written to ``blocks``, and
the largest distance, returned. :data:`UNSURE` instead says that some record is not certain to be a point for which the
closed form keeps its digits: the caller then takes the general path for that chunk. The functions release the
interpreter lock.

Importing this module imports numba; compiled code is kept on disk between runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from geodp.inputs import Array

F = TypeVar("F", bound=Callable[..., Any])

UNSURE = -2.0
#: Past this ratio of eigenvalues the general path, which works with factors, is more accurate.
MOST_SPREAD = 1e4
#: Twice the relative asymmetry below which a matrix counts as symmetric to rounding.
TIDY = 32.0 * 2.0**-52


def compiled(function: F) -> F:
    # contraction and reassociation change only the order and the rounding of sums, which the error bounds allow for
    jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
    return cast(F, jit(function))


@compiled
def _log(values: Array, count: int) -> None:
    """Natural logarithms of the first ``count`` values, positive and normal, in place; to about an ulp.

    ``x = 2^e m`` with ``m`` within a factor ``sqrt(2)`` of 1, and ``log m = 2 artanh((m - 1)/(m + 1))`` by its series. The
    library function would be called for one value at a time; this loop runs on several.
    """
    bits = values.view(np.int64)
    for i in range(count):
        exponent = (bits[i] >> 52) - 1023
        bits[i] = (bits[i] & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000
        large = values[i] > 1.4142135623730951
        m = 0.5 * values[i] if large else values[i]
        e = float(exponent) + (1.0 if large else 0.0)
        f = (m - 1.0) / (m + 1.0)
        s = f * f
        series = 1.0 / 15.0 + s * (1.0 / 17.0 + s * (1.0 / 19.0 + s * (1.0 / 21.0)))
        series = 1.0 / 7.0 + s * (1.0 / 9.0 + s * (1.0 / 11.0 + s * (1.0 / 13.0 + s * series)))
        values[i] = e * 0.6931471805599453 + (2.0 * f + 2.0 * f * s * (1.0 / 3.0 + s * (1.0 / 5.0 + s * series)))


@compiled
def _across(vx: float, vy: float, vz: float) -> tuple[float, float, float, float, float, float]:
    """An orthonormal pair across a unit vector, without a singular direction (Duff and others, 2017)."""
    sign = 1.0 if vz >= 0.0 else -1.0
    s = -1.0 / (sign + vz)
    wx = vx * vy * s
    return 1.0 + sign * vx * vx * s, sign * wx, -sign * vx, wx, sign + vy * vy * s, -vy


@compiled
def spd2(x: Array, weights: Array, inverse: Array, block: int, blocks: Array) -> float:
    """2x2 positive-definite matrices.

    ``log`` of the whitened matrix ``[[h + d, b], [b, h - d]]`` is ``alpha I + beta [[d, b], [b, -d]]``, and the Hessian on
    trace-free directions is 1 along ``(d, b)`` and ``beta h`` across. Columns of ``blocks``: sums of ``alpha``, ``beta d``,
    ``beta b``, squared length, and three entries of the Hessian.
    """
    l00, l10, l11 = inverse[0, 0], inverse[1, 0], inverse[1, 1]
    entries = np.empty((4, block))
    room = np.empty((6, block))
    hs, ds, bs, rhos, highs, lows = room[0], room[1], room[2], room[3], room[4], room[5]
    squares = np.empty(block)
    farthest, doubts = 0.0, 0
    for start in range(0, len(x), block):
        count = min(block, len(x) - start)
        # loops that only sort entries, or have no calls and branches, so that they run on several records at once
        for i in range(count):
            for j in range(4):
                entries[j, i] = x[start + i, j // 2, j % 2]
        for i in range(count):
            x00, x01, x10, x11 = entries[0, i], entries[1, i], entries[2, i], entries[3, i]
            tidy = abs(x10 - x01) <= TIDY * abs(x10)
            x10 = 0.5 * (x10 + x01)
            half = l10 * x00 + l11 * x10
            a00, b = l00 * l00 * x00, l00 * half
            a11 = l10 * half + l11 * (l10 * x10 + l11 * x11)
            h, d = 0.5 * (a00 + a11), 0.5 * (a00 - a11)
            rho = math.sqrt(d * d + b * b)
            high, low = h + rho, h - rho
            doubts += 0 if tidy & (high < MOST_SPREAD * low) & (high < 1e100) & (low > 1e-100) else 1
            hs[i], ds[i], bs[i], rhos[i], highs[i], lows[i] = h, d, b, rho, high, low
        if doubts > 0:
            return UNSURE
        _log(highs, count)
        _log(lows, count)
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = 0.0
        for i in range(count):
            w, h, d, b, rho, high, low = weights[start + i], hs[i], ds[i], bs[i], rhos[i], highs[i], lows[i]
            inverted = 1.0 / (rho if rho > 0.0 else 1.0)
            # a multiple of the identity has d = b = 0, and any beta will do
            beta = 0.5 * (high - low) * inverted if rho > 0.0 else 1.0 / h
            across, turn_d, turn_b = beta * h, d * inverted, b * inverted
            squares[i] = high * high + low * low
            rest = w * (across - 1.0)
            s0 += w * 0.5 * (high + low)
            s1 += w * beta * d
            s2 += w * beta * b
            s3 += w * squares[i]
            s4 += w * across - rest * turn_d * turn_d
            s5 -= rest * turn_d * turn_b
            s6 += w * across - rest * turn_b * turn_b
        farthest = max(farthest, squares[:count].max())
        row = blocks[start // block]
        row[0], row[1], row[2], row[3], row[4], row[5], row[6] = s0, s1, s2, s3, s4, s5, s6
    return math.sqrt(farthest)


@compiled
def spd3(x: Array, weights: Array, inverse: Array, block: int, blocks: Array) -> float:
    """3x3 positive-definite matrices: the deflation of ``_small_eigen``, without forming the last two eigenvectors.

    With ``v`` the eigenvector that stands alone and ``(u, w)`` an orthonormal pair across it, ``log`` of the whitened matrix
    is ``l v v' + alpha (I - v v') + beta (d (u u' - w w') + b (u w' + w u'))``. Columns of ``blocks``: sums of its six
    lower entries, squared length, and the Hessian's mean over trace-free directions.
    """
    l00, l10, l11 = inverse[0, 0], inverse[1, 0], inverse[1, 1]
    l20, l21, l22 = inverse[2, 0], inverse[2, 1], inverse[2, 2]
    entries = np.empty((6, block))
    room = np.empty((12, block))
    vxs, vys, vzs, ds, bs, rhos = room[0], room[1], room[2], room[3], room[4], room[5]
    e0s, e1s, e2s, f0s, f1s, f2s = room[6], room[7], room[8], room[9], room[10], room[11]
    lengths = np.empty(block)
    farthest = doubts = 0.0
    for start in range(0, len(x), block):
        count = min(block, len(x) - start)
        for i in range(count):
            j = start + i
            y10, y20, y21 = 0.5 * (x[j, 1, 0] + x[j, 0, 1]), 0.5 * (x[j, 2, 0] + x[j, 0, 2]), 0.5 * (x[j, 2, 1] + x[j, 1, 2])
            off = abs(x[j, 1, 0] - x[j, 0, 1]) + abs(x[j, 2, 0] - x[j, 0, 2]) + abs(x[j, 2, 1] - x[j, 1, 2])
            doubts += 0.0 if off <= TIDY * (abs(y10) + abs(y20) + abs(y21)) else 1.0
            entries[0, i], entries[1, i], entries[2, i] = x[j, 0, 0], y10, x[j, 1, 1]
            entries[3, i], entries[4, i], entries[5, i] = y20, y21, x[j, 2, 2]
        for i in range(count):
            y00, y10, y11 = entries[0, i], entries[1, i], entries[2, i]
            y20, y21, y22 = entries[3, i], entries[4, i], entries[5, i]
            # rows of L^-1 y, then L^-1 y L^-T
            m10, m11 = l10 * y00 + l11 * y10, l10 * y10 + l11 * y11
            m20 = l20 * y00 + l21 * y10 + l22 * y20
            m21 = l20 * y10 + l21 * y11 + l22 * y21
            m22 = l20 * y20 + l21 * y21 + l22 * y22
            a00, a10, a20 = l00 * l00 * y00, m10 * l00, m20 * l00
            a11, a21 = m10 * l10 + m11 * l11, m20 * l10 + m21 * l11
            a22 = m20 * l20 + m21 * l21 + m22 * l22
            mean = (a00 + a11 + a22) / 3.0
            b00, b11, b22 = a00 - mean, a11 - mean, a22 - mean
            spread = math.sqrt((b00 * b00 + b11 * b11 + b22 * b22) / 6.0 + (a10 * a10 + a20 * a20 + a21 * a21) / 3.0)
            doubts += 0.0 if spread < 1e100 else 1.0
            doubts += 0.0 if mean > 1e-100 else 1.0
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
            doubts += 0.0 if coupling * spread <= 2e-15 * (mean + spread) else 1.0
            p00 = ux * qx + uy * qy + uz * qz
            p11 = (b00 + b11 + b22) - alone - p00
            # back to the whitened matrix: its eigenvalue along v and its 2x2 block across
            middle, d = mean + spread * 0.5 * (p00 + p11), spread * 0.5 * (p00 - p11)
            b = spread * (wx * qx + wy * qy + wz * qz)
            rho = math.sqrt(d * d + b * b)
            e0, e1, e2 = mean + spread * alone, middle + rho, middle - rho
            doubts += 0.0 if max(e0, e1) < MOST_SPREAD * min(e0, e2) else 1.0
            vxs[i], vys[i], vzs[i], ds[i], bs[i], rhos[i] = vx, vy, vz, d, b, rho
            e0s[i], e1s[i], e2s[i] = e0, e1, e2
        if doubts > 0.0:
            return UNSURE
        for i in range(count):
            f0s[i], f1s[i], f2s[i] = e0s[i], e1s[i], e2s[i]
        _log(f0s, count)
        _log(f1s, count)
        _log(f2s, count)
        t00 = t10 = t11 = t20 = t21 = t22 = squares = hessian = 0.0
        for i in range(count):
            f0, f1, f2, e0, e1, e2 = f0s[i], f1s[i], f2s[i], e0s[i], e1s[i], e2s[i]
            vx, vy, vz, w = vxs[i], vys[i], vzs[i], weights[start + i]
            ux, uy, uz, wx, wy, wz = _across(vx, vy, vz)
            alpha, middle = 0.5 * (f1 + f2), 0.5 * (e1 + e2)
            beta = 0.5 * (f1 - f2) / max(rhos[i], 1e-200) if rhos[i] > 0.0 else 1.0 / middle
            rest, bd, bb = w * (f0 - alpha), w * beta * ds[i], w * beta * bs[i]
            t00 += rest * vx * vx + bd * (ux * ux - wx * wx) + 2.0 * bb * ux * wx + w * alpha
            t11 += rest * vy * vy + bd * (uy * uy - wy * wy) + 2.0 * bb * uy * wy + w * alpha
            t22 += rest * vz * vz + bd * (uz * uz - wz * wz) + 2.0 * bb * uz * wz + w * alpha
            t10 += rest * vx * vy + bd * (ux * uy - wx * wy) + bb * (ux * wy + wx * uy)
            t20 += rest * vx * vz + bd * (ux * uz - wx * wz) + bb * (ux * wz + wx * uz)
            t21 += rest * vy * vz + bd * (uy * uz - wy * wz) + bb * (uy * wz + wy * uz)
            lengths[i] = f0 * f0 + f1 * f1 + f2 * f2
            squares += w * lengths[i]
            g01, g02 = e0 - e1, e0 - e2
            first = 0.5 * (f0 - f1) * (e0 + e1) / (g01 if g01 != 0.0 else 1.0)
            second_factor = 0.5 * (f0 - f2) * (e0 + e2) / (g02 if g02 != 0.0 else 1.0)
            curve = beta * middle + (first if g01 != 0.0 else 1.0) + (second_factor if g02 != 0.0 else 1.0)
            hessian += w * (2.0 + curve) / 5.0
        farthest = max(farthest, lengths[:count].max())
        row = blocks[start // block]
        row[0], row[1], row[2], row[3], row[4], row[5] = t00, t10, t11, t20, t21, t22
        row[6], row[7] = squares, hessian
    return math.sqrt(farthest)


@compiled
def sphere2(x: Array, weights: Array, p: Array, block: int, blocks: Array) -> float:
    """Unit vectors in space: the logarithm at ``p`` of ``x`` is ``f (x - c p)`` with ``c = p.x`` and ``f = t/sin t``.

    Columns of ``blocks``: sums of ``f x`` (three), of ``f c``, squared length, and of the six lower entries of
    ``g x x'`` with ``g = (1 - f c)/sin^2 t``: the Hessian is ``f c I`` plus that, projected. Returns the smallest cosine.
    """
    px, py, pz = p[0], p[1], p[2]
    room = np.empty((5, block))
    xs, ys, zs, cosines, angles = room[0], room[1], room[2], room[3], room[4]
    lowest, doubts = 1.0, 0.0
    for start in range(0, len(x), block):
        count = min(block, len(x) - start)
        for i in range(count):
            x0, x1, x2 = x[start + i, 0], x[start + i, 1], x[start + i, 2]
            norm = x0 * x0 + x1 * x1 + x2 * x2
            doubts += 0.0 if abs(norm - 1.0) <= 1e-8 else 1.0
            # one Newton step for the inverse root, whose error is the square of what the norm is off
            scale = 1.5 - 0.5 * norm
            xs[i], ys[i], zs[i] = x0 * scale, x1 * scale, x2 * scale
            cosines[i] = min(xs[i] * px + ys[i] * py + zs[i] * pz, 1.0)
            lowest = min(lowest, cosines[i])
        if doubts > 0.0:
            return UNSURE
        for i in range(count):
            angles[i] = math.acos(cosines[i])
        sx = sy = sz = along = squares = h00 = h10 = h11 = h20 = h21 = h22 = 0.0
        for i in range(count):
            x0, x1, x2, c, w = xs[i], ys[i], zs[i], cosines[i], weights[start + i]
            square = (1.0 - c) * (1.0 + c)
            f = angles[i] / math.sqrt(max(square, 1e-300)) if square > 0.0 else 1.0
            g = w * ((1.0 - f * c) / max(square, 1e-8) if square > 1e-8 else 1.0 / 3.0)
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
        row = blocks[start // block]
        row[0], row[1], row[2], row[3], row[4] = sx, sy, sz, along, squares
        row[5], row[6], row[7], row[8], row[9], row[10] = h00, h10, h11, h20, h21, h22
    return lowest


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
def sphere(x: Array, weights: Array, p: Array, radius: float, block: int, blocks: Array) -> float:
    """Vectors of length ``radius`` in any dimension, about the unit vector ``p``: every record is read once.

    Columns of ``blocks``: sums of ``t/sin t`` times unit records (one an axis), of ``t cot t``, and of ``t^2``. Returns the
    smallest cosine.
    """
    size = len(p)
    lowest, doubts = 1.0, 0
    total = np.empty(size)
    lengths, cosines, factors = np.empty(_FEW), np.empty(_FEW), np.empty(_FEW)
    for start in range(0, len(x), block):
        stop = min(start + block, len(x))
        total[:] = 0.0
        along = squares = 0.0
        for first in range(start, stop, _FEW):
            count = min(_FEW, stop - first)
            for i in range(count):
                record = x[first + i]
                square = c = 0.0
                for j in range(size):
                    square += record[j] * record[j]
                    c += record[j] * p[j]
                lengths[i], cosines[i] = math.sqrt(square), c
            for i in range(count):
                doubts += 0 if abs(lengths[i] - radius) <= 5e-7 * radius else 1
                c, w = min(cosines[i] / lengths[i], 1.0), weights[first + i]
                lowest = min(lowest, c)
                sine, angle = math.sqrt((1.0 - c) * (1.0 + c)), math.acos(c)
                f = w * angle / sine if sine > 0.0 else w
                along += f * c
                squares += w * angle * angle
                factors[i] = f / lengths[i]
            if count == _FEW:
                _add_eight(total, x[first : first + _FEW], factors)
            else:
                for i in range(count):
                    for j in range(size):
                        total[j] += factors[i] * x[first + i, j]
        if doubts > 0:
            return UNSURE
        row = blocks[start // block]
        row[:size] = total
        row[size], row[size + 1] = along, squares
    return lowest
