"""Compiled inner loops of the Fréchet mean.

Each function makes one pass over a chunk of records at a point: sums over blocks of records, written to ``blocks``, and
the largest distance, returned. A negative return says that some record is not certain to be a point for which the closed
form keeps its digits: the caller then takes the general path for that chunk. The functions release the interpreter lock.

Importing this module imports numba; compiled code is kept on disk between runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from geodp.manifolds._functions import Array

F = TypeVar("F", bound=Callable[..., Any])

UNSURE = -1.0
#: Past this ratio of eigenvalues the general path, which works with factors, is more accurate.
MOST_SPREAD = 1e4
#: Twice the relative asymmetry below which a matrix counts as symmetric to rounding.
_TIDY = 128.0 * 2.0**-52


def _compiled(function: F) -> F:
    # contraction and reassociation change only the order and the rounding of sums, which the error bounds allow for
    jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
    return cast(F, jit(function))


@_compiled
def spd2(x: Array, weights: Array, inverse: Array, block: int, blocks: Array) -> float:
    """2x2 positive-definite matrices.

    ``log`` of the whitened matrix ``[[h + d, b], [b, h - d]]`` is ``alpha I + beta [[d, b], [b, -d]]``, and the Hessian on
    trace-free directions is 1 along ``(d, b)`` and ``beta h`` across. Columns of ``blocks``: sums of ``alpha``, ``beta d``,
    ``beta b``, squared length, and three entries of the Hessian.
    """
    l00, l10, l11 = inverse[0, 0], inverse[1, 0], inverse[1, 1]
    farthest = 0.0
    sure = True
    for start in range(0, len(x), block):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = 0.0
        for i in range(start, min(start + block, len(x))):
            x00, x10, x01, x11 = x[i, 0, 0], x[i, 1, 0], x[i, 0, 1], x[i, 1, 1]
            sure = sure and abs(x10 - x01) <= _TIDY * abs(x10)
            x10 = 0.5 * (x10 + x01)
            half = l10 * x00 + l11 * x10
            a00, b = l00 * l00 * x00, l00 * half
            a11 = l10 * half + l11 * (l10 * x10 + l11 * x11)
            h, d = 0.5 * (a00 + a11), 0.5 * (a00 - a11)
            rho = math.sqrt(d * d + b * b)
            high, low = h + rho, h - rho
            sure = sure and high < MOST_SPREAD * low and high < 1e100 and low > 1e-100
            log_high, log_low = math.log(high), math.log(low)
            w = weights[i]
            beta = 0.5 * (log_high - log_low) / rho if rho > 0.0 else 1.0 / h
            square = log_high * log_high + log_low * log_low
            farthest = max(farthest, square)
            across = beta * h
            turn = (across - 1.0) / (rho * rho) if rho > 0.0 else 0.0
            s0 += w * 0.5 * (log_high + log_low)
            s1 += w * beta * d
            s2 += w * beta * b
            s3 += w * square
            s4 += w * (across - turn * d * d)
            s5 -= w * turn * d * b
            s6 += w * (across - turn * b * b)
        row = blocks[start // block]
        row[0], row[1], row[2], row[3], row[4], row[5], row[6] = s0, s1, s2, s3, s4, s5, s6
    return math.sqrt(farthest) if sure else UNSURE


@_compiled
def spd3(x: Array, weights: Array, inverse: Array, block: int, blocks: Array) -> float:
    """3x3 positive-definite matrices: the deflation of ``_small_eigen``, without forming the last two eigenvectors.

    With ``v`` the eigenvector that stands alone and ``(u, w)`` an orthonormal pair across it, ``log`` of the whitened matrix
    is ``l v v' + alpha (I - v v') + beta (d (u u' - w w') + b (u w' + w u'))``. Columns of ``blocks``: sums of its six
    lower entries, squared length, and the Hessian's mean over trace-free directions.
    """
    l00, l10, l11 = inverse[0, 0], inverse[1, 0], inverse[1, 1]
    l20, l21, l22 = inverse[2, 0], inverse[2, 1], inverse[2, 2]
    farthest = 0.0
    sure = True
    for start in range(0, len(x), block):
        t00 = t10 = t11 = t20 = t21 = t22 = squares = hessian = 0.0
        for i in range(start, min(start + block, len(x))):
            y00, y11, y22 = x[i, 0, 0], x[i, 1, 1], x[i, 2, 2]
            y10, y20, y21 = 0.5 * (x[i, 1, 0] + x[i, 0, 1]), 0.5 * (x[i, 2, 0] + x[i, 0, 2]), 0.5 * (x[i, 2, 1] + x[i, 1, 2])
            off = abs(x[i, 1, 0] - x[i, 0, 1]) + abs(x[i, 2, 0] - x[i, 0, 2]) + abs(x[i, 2, 1] - x[i, 1, 2])
            sure = sure and off <= _TIDY * (abs(y10) + abs(y20) + abs(y21))
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
            sure = sure and spread < 1e100 and mean < 1e100 and mean > 1e-100
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
            vx = d20 if third else (d10 if second else d00)
            vy = d21 if third else (d11 if second else d10)
            vz = d22 if third else (d21 if second else d20)
            scale = 1.0 / math.sqrt(max(vx * vx + vy * vy + vz * vz, 1e-300))
            vx, vy, vz = vx * scale, vy * scale, vz * scale
            sign = 1.0 if vz >= 0.0 else -1.0
            s = -1.0 / (sign + vz)
            wx, wy, wz = vx * vy * s, sign + vy * vy * s, -vy
            ux, uy, uz = 1.0 + sign * vx * vx * s, sign * wx, -sign * vx
            px, py, pz = b00 * vx + b10 * vy + b20 * vz, b10 * vx + b11 * vy + b21 * vz, b20 * vx + b21 * vy + b22 * vz
            qx, qy, qz = b00 * ux + b10 * uy + b20 * uz, b10 * ux + b11 * uy + b21 * uz, b20 * ux + b21 * uy + b22 * uz
            alone = vx * px + vy * py + vz * pz
            coupling = abs(ux * px + uy * py + uz * pz) + abs(wx * px + wy * py + wz * pz)
            sure = sure and coupling * spread <= 2e-15 * (mean + spread)
            p00 = ux * qx + uy * qy + uz * qz
            p11 = (b00 + b11 + b22) - alone - p00
            # back to the whitened matrix: its eigenvalue along v and its 2x2 block across
            middle, d = mean + spread * 0.5 * (p00 + p11), spread * 0.5 * (p00 - p11)
            b = spread * (wx * qx + wy * qy + wz * qz)
            rho = math.sqrt(d * d + b * b)
            e0, e1, e2 = mean + spread * alone, middle + rho, middle - rho
            lowest = min(e0, e2)
            sure = sure and max(e0, e1) < MOST_SPREAD * lowest and lowest > 1e-100
            f0, f1, f2 = math.log(e0), math.log(e1), math.log(e2)
            alpha = 0.5 * (f1 + f2)
            beta = 0.5 * (f1 - f2) / rho if rho > 0.0 else 1.0 / middle
            w = weights[i]
            rest, bd, bb = w * (f0 - alpha), w * beta * d, w * beta * b
            t00 += rest * vx * vx + bd * (ux * ux - wx * wx) + 2.0 * bb * ux * wx + w * alpha
            t11 += rest * vy * vy + bd * (uy * uy - wy * wy) + 2.0 * bb * uy * wy + w * alpha
            t22 += rest * vz * vz + bd * (uz * uz - wz * wz) + 2.0 * bb * uz * wz + w * alpha
            t10 += rest * vx * vy + bd * (ux * uy - wx * wy) + bb * (ux * wy + wx * uy)
            t20 += rest * vx * vz + bd * (ux * uz - wx * wz) + bb * (ux * wz + wx * uz)
            t21 += rest * vy * vz + bd * (uy * uz - wy * wz) + bb * (uy * wz + wy * uz)
            square = f0 * f0 + f1 * f1 + f2 * f2
            farthest = max(farthest, square)
            squares += w * square
            g01, g02 = e0 - e1, e0 - e2
            curve = beta * middle
            curve += 0.5 * (f0 - f1) * (e0 + e1) / g01 if g01 != 0.0 else 1.0
            curve += 0.5 * (f0 - f2) * (e0 + e2) / g02 if g02 != 0.0 else 1.0
            hessian += w * (2.0 + curve) / 5.0
        row = blocks[start // block]
        row[0], row[1], row[2], row[3], row[4], row[5] = t00, t10, t11, t20, t21, t22
        row[6], row[7] = squares, hessian
    return math.sqrt(farthest) if sure else UNSURE


@_compiled
def sphere2(x: Array, weights: Array, p: Array, block: int, blocks: Array) -> float:
    """Unit vectors in space: the logarithm at ``p`` of ``x`` is ``f (x - c p)`` with ``c = p.x`` and ``f = t/sin t``.

    Columns of ``blocks``: sums of ``f x`` (three), of ``f c``, squared length, and of the six lower entries of
    ``g x x'`` with ``g = (1 - f c)/sin^2 t``: the Hessian is ``f c I`` plus that, projected.
    """
    px, py, pz = p[0], p[1], p[2]
    farthest = 1.0
    sure = True
    for start in range(0, len(x), block):
        sx = sy = sz = along = squares = h00 = h10 = h11 = h20 = h21 = h22 = 0.0
        for i in range(start, min(start + block, len(x))):
            x0, x1, x2 = x[i, 0], x[i, 1], x[i, 2]
            norm = x0 * x0 + x1 * x1 + x2 * x2
            sure = sure and abs(norm - 1.0) <= _TIDY
            # one Newton step for the inverse root: the norm is 1 to rounding
            scale = 1.5 - 0.5 * norm
            x0, x1, x2 = x0 * scale, x1 * scale, x2 * scale
            c = min(x0 * px + x1 * py + x2 * pz, 1.0)
            farthest = min(farthest, c)
            square = (1.0 - c) * (1.0 + c)
            angle = math.acos(c)
            f = angle / math.sqrt(square) if square > 0.0 else 1.0
            w = weights[i]
            g = w * ((1.0 - f * c) / square if square > 1e-8 else 1.0 / 3.0)
            f *= w
            sx += f * x0
            sy += f * x1
            sz += f * x2
            along += f * c
            squares += w * angle * angle
            h00 += g * x0 * x0
            h10 += g * x1 * x0
            h11 += g * x1 * x1
            h20 += g * x2 * x0
            h21 += g * x2 * x1
            h22 += g * x2 * x2
        row = blocks[start // block]
        row[0], row[1], row[2], row[3], row[4] = sx, sy, sz, along, squares
        row[5], row[6], row[7], row[8], row[9], row[10] = h00, h10, h11, h20, h21, h22
    return math.acos(farthest) if sure else UNSURE
