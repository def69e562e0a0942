"""Compiled passes over 2x2 and 3x3 positive-definite matrices.

``x`` is seen from ``p = L L'`` as ``M = L^-1 x L^-T``. Two ways lead to ``log M``. If all its eigenvalues are known to be near 1,
a polynomial gives it without eigenvalues, logarithms or branches. Otherwise, and where records are clipped, it takes the
eigenvalues: every record still goes through the same instructions, but for matrices whose eigenvalues are so far apart that
closed forms lose digits, and whatever is no matrix. :func:`far_matrix` treats these one by one, in a few microseconds each.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.solver.lanes import BLOCK, Integers, compiled, exponential, largest, natural_log, next_pieces
from geodp.solver.matrix_kernels import SYMMETRIC, curve, factor, far_matrix

Flags = NDArray[np.bool_]


@compiled
def small_spd(
    x: Array, weights: Array, starts: Integers, points: Array, radius: float, series: Array, middle: float, rows: Array,
    each: Array, limit: float,
) -> None:  # fmt: skip
    """A pass over matrices ``(n, k, k)``, those of every group at its own point; clips them in place if the radius is finite.

    Columns of ``rows``, one for every block of a group: sums of the lower entries of ``log M``, of its squared length, and of its
    curve. That is the mean of the Hessian over trace-free directions if ``k = 3``. If ``k = 2`` it is the Hessian ``c`` across
    the trace-free part ``v = (d, b)`` of the logarithm, and sums of ``(1 - c) v v'/|v|^2`` follow (three). Last come the weight
    and the largest length. ``each`` has no rows, or one for every record: then its coordinates go there, which are these
    entries, those off the diagonal times the root of two, shortened to the length ``limit``. That needs no clipped records.

    The polynomial is used if ``series`` has coefficients; then the radius must be infinite.
    """
    k, clip, by_series = x.shape[1], radius < math.inf, len(series) > 0
    entries, room, sure = np.empty((6, BLOCK)), np.empty((20, BLOCK)), np.ones(BLOCK, dtype=np.bool_)
    squares, curves, shares, limits, shrinks, frame = room[0], room[1], room[2], room[3], room[4], room[5:10]
    roots, inverses, mosts = np.empty((BLOCK, k, k)), np.empty((BLOCK, k, k)), np.empty(BLOCK)
    vectors, logs, spare = np.empty((k, k)), np.empty(k), np.empty((k, k))
    at, pieces, known, unsure = np.zeros(3, dtype=np.int64), np.empty((BLOCK, 5), dtype=np.int64), -1, 0
    at[1], shares[:] = starts[0], 1.0
    while True:
        count, filled = next_pieces(starts, at, BLOCK, pieces)
        if count == 0:
            return
        for i in range(count):
            g, first, number, lane, row = pieces[i]
            if count > 1 or g != known:
                mosts[i] = factor(points[g], roots[i], inverses[i])
            known = g if count == 1 else -1
            for z in range(min(number, len(weights))):  # none if all are 1
                shares[lane + z] = weights[first + z]
            if k == 2:
                _whiten2(x, first, number, points[g], inverses[i], mosts[i], by_series, entries, limits, lane)
            else:
                _whiten3(x, first, number, points[g], inverses[i], mosts[i], by_series, entries, limits, lane)
        if by_series and k == 2:
            _by_series2(entries, series, middle, room[10:], squares, curves, frame, filled)
        elif by_series:
            _by_series3(entries, series, middle, room[10:], squares, curves, filled)
        else:
            e, f, g_ = room[10:13], room[13:16], room[16:19]
            if k == 2:
                unsure = _spectra2(entries, limits, frame, e, sure, filled)
            else:
                unsure = _spectra3(entries, limits, frame, e, sure, filled)
            for z in range(filled):
                squares[z] = 0.0
            for j in range(k):
                for z in range(filled):
                    f[j][z] = e[j][z]
                natural_log(f[j], filled)
                for z in range(filled):
                    squares[z] += f[j][z] * f[j][z]
            if clip:
                for z in range(filled):
                    length = math.sqrt(squares[z])
                    shrinks[z] = radius / length if length > radius else 1.0
                    squares[z] *= shrinks[z] * shrinks[z]
                for j in range(k):
                    for z in range(filled):
                        f[j][z] *= shrinks[z]
                        g_[j][z] = f[j][z]
                    exponential(g_[j], filled)
                    for z in range(filled):
                        e[j][z] = g_[j][z] if shrinks[z] < 1.0 else e[j][z]
                _from_spectra(k, frame, e, entries, filled)
                for i in range(count):
                    g, first, number, lane, row = pieces[i]
                    if k == 2:
                        _write2(x, first, number, roots[i], entries, shrinks, lane)
                    else:
                        _write3(x, first, number, roots[i], entries, shrinks, lane)
            _from_spectra(k, frame, f, entries, filled)
            _curves(k, e, f, curves, frame[2], filled)
        for i in range(count):
            g, first, number, lane, row = pieces[i]
            here, total = slice(lane, lane + number), rows[row]
            if unsure > 0:
                for z in range(lane, lane + number):
                    if not sure[z]:
                        length = far_matrix(x[first + z - lane], points[g], roots[i], inverses[i], radius, vectors, logs, spare)
                        squares[z] = length * length
                        _far_entries(vectors, logs, entries, curves, frame, z)
            if k == 2:
                _add_up2(shares[here], entries, frame, lane, squares[here], curves[here], total)
            else:
                _add_up3(shares[here], entries, lane, squares[here], curves[here], total)
            if len(each) > 0:
                for z in range(number):
                    _shortened(entries, lane + z, limit, each[first + z])


@compiled
def _add_up2(ws: Array, entries: Array, frame: Array, lane: int, squares: Array, curves: Array, total: Array) -> None:
    here = slice(lane, lane + len(ws))
    l00s, l10s, l11s = entries[0][here], entries[1][here], entries[2][here]
    ds, bs, parts = frame[0][here], frame[1][here], frame[2][here]
    s00 = s10 = s11 = square = curve_ = dd = db = bb = mass = 0.0
    for z in range(len(ws)):  # in two loops, because vector registers do not hold so many sums
        w = ws[z]
        s00 += w * l00s[z]
        s10 += w * l10s[z]
        s11 += w * l11s[z]
        square += w * squares[z]
        curve_ += w * curves[z]
        mass += w
    for z in range(len(ws)):
        part, d, b = ws[z] * parts[z], ds[z], bs[z]
        dd += part * d * d
        db += part * d * b
        bb += part * b * b
    total[0], total[1], total[2], total[3], total[4] = s00, s10, s11, square, curve_
    total[5], total[6], total[7], total[8], total[9] = dd, db, bb, mass, math.sqrt(largest(squares))


@compiled
def _add_up3(ws: Array, entries: Array, lane: int, squares: Array, curves: Array, total: Array) -> None:
    here = slice(lane, lane + len(ws))
    for j in range(6):
        ls, total_ = entries[j][here], 0.0
        for z in range(len(ws)):
            total_ += ws[z] * ls[z]
        total[j] = total_
    square = curve_ = mass = 0.0
    for z in range(len(ws)):
        square += ws[z] * squares[z]
        curve_ += ws[z] * curves[z]
        mass += ws[z]
    total[6], total[7], total[8], total[9] = square, curve_, mass, math.sqrt(largest(squares))


@compiled
def _shortened(entries: Array, z: int, limit: float, out: Array) -> None:
    """The coordinates of the matrix in one lane, no longer than the limit."""
    column, square, k = 0, 0.0, 2 if len(out) == 3 else 3
    for i in range(k):
        for j in range(i, k):
            entry = entries[j * (j + 1) // 2 + i][z] * (1.0 if i == j else 1.4142135623730951)
            out[column] = entry
            square += entry * entry
            column += 1
    length = math.sqrt(square)
    shrink = limit / length * (1.0 - 1e-15) if length > limit else 1.0
    for j in range(len(out)):
        out[j] *= shrink


@compiled
def _far_entries(vectors: Array, logs: Array, entries: Array, curves: Array, frame: Array, z: int) -> None:
    k, column = len(logs), 0
    for i in range(k):
        for j in range(i + 1):
            total = 0.0
            for m in range(k):
                total += logs[m] * vectors[i, m] * vectors[j, m]
            entries[column][z] = total
            column += 1
    if k == 2:
        curves[z] = curve(logs[0] - logs[1])
        frame[0][z] = vectors[0, 0] * vectors[0, 0] - vectors[1, 0] * vectors[1, 0]
        frame[1][z], frame[2][z] = 2.0 * vectors[0, 0] * vectors[1, 0], 1.0 - curves[z]
    else:
        curves[z] = 0.2 * (2.0 + curve(logs[0] - logs[1]) + curve(logs[1] - logs[2]) + curve(logs[2] - logs[0]))


# ------------------------------------------------------------------ to the frame of a point and back


@compiled
def _whiten2(
    x: Array, first: int, number: int, p: Array, inverse: Array, most: float, moved: bool, entries: Array, limits: Array,
    lane: int,
) -> None:  # fmt: skip
    """The lower entries of ``M``, or of ``(M - I)/2`` if moved; and which ratio of eigenvalues is too large, or 0."""
    here, records, scale = slice(lane, lane + number), x[first : first + number], math.sqrt(0.5) if moved else 1.0
    a00s, a10s, a11s, most_of = entries[0][here], entries[1][here], entries[2][here], limits[here]
    l00, l10, l11 = scale * inverse[0, 0], scale * inverse[1, 0], scale * inverse[1, 1]
    p00, p10, p11 = (p[0, 0], p[1, 0], p[1, 1]) if moved else (0.0, 0.0, 0.0)
    for z in range(number):
        x00, x01, x10, x11 = records[z, 0, 0], records[z, 0, 1], records[z, 1, 0], records[z, 1, 1]
        # of a positive-definite matrix the largest entry is on the diagonal
        most_of[z] = most if abs(x10 - x01) <= SYMMETRIC * max(abs(x00), abs(x11)) else 0.0
        x00, x10, x11 = x00 - p00, 0.5 * (x10 + x01) - p10, x11 - p11
        half = l10 * x00 + l11 * x10
        a00s[z], a10s[z], a11s[z] = l00 * l00 * x00, l00 * half, l10 * half + l11 * (l10 * x10 + l11 * x11)


@compiled
def _whiten3(
    x: Array, first: int, number: int, p: Array, inverse: Array, most: float, moved: bool, entries: Array, limits: Array,
    lane: int,
) -> None:  # fmt: skip
    here, records, scale = slice(lane, lane + number), x[first : first + number], math.sqrt(0.5) if moved else 1.0
    a00s, a10s, a11s, a20s, a21s, a22s, most_of = (
        entries[0][here], entries[1][here], entries[2][here], entries[3][here], entries[4][here], entries[5][here], limits[here]
    )  # fmt: skip
    l00, l10, l11 = scale * inverse[0, 0], scale * inverse[1, 0], scale * inverse[1, 1]
    l20, l21, l22 = scale * inverse[2, 0], scale * inverse[2, 1], scale * inverse[2, 2]
    p00, p10, p11 = (p[0, 0], p[1, 0], p[1, 1]) if moved else (0.0, 0.0, 0.0)
    p20, p21, p22 = (p[2, 0], p[2, 1], p[2, 2]) if moved else (0.0, 0.0, 0.0)
    for z in range(number):  # loops that only sort entries are separate, so that both run on several records at once
        x01, x10, x02, x20 = records[z, 0, 1], records[z, 1, 0], records[z, 0, 2], records[z, 2, 0]
        x12, x21 = records[z, 1, 2], records[z, 2, 1]
        most_of[z] = max(max(abs(x10 - x01), abs(x20 - x02)), abs(x21 - x12))
        a00s[z], a11s[z], a22s[z] = records[z, 0, 0], records[z, 1, 1], records[z, 2, 2]
        a10s[z], a20s[z], a21s[z] = 0.5 * (x10 + x01), 0.5 * (x20 + x02), 0.5 * (x21 + x12)
    for z in range(number):
        y00, y10, y11, y20, y21, y22 = a00s[z], a10s[z], a11s[z], a20s[z], a21s[z], a22s[z]
        most_of[z] = most if most_of[z] <= SYMMETRIC * max(max(abs(y00), abs(y11)), abs(y22)) else 0.0
        y00, y10, y11, y20, y21, y22 = y00 - p00, y10 - p10, y11 - p11, y20 - p20, y21 - p21, y22 - p22
        # rows of L^-1 y, then L^-1 y L^-T
        m10, m11 = l10 * y00 + l11 * y10, l10 * y10 + l11 * y11
        m20, m21 = l20 * y00 + l21 * y10 + l22 * y20, l20 * y10 + l21 * y11 + l22 * y21
        m22 = l20 * y20 + l21 * y21 + l22 * y22
        a00s[z], a10s[z], a20s[z] = l00 * l00 * y00, m10 * l00, m20 * l00
        a11s[z], a21s[z] = m10 * l10 + m11 * l11, m20 * l10 + m21 * l11
        a22s[z] = m20 * l20 + m21 * l21 + m22 * l22


@compiled
def _write2(x: Array, first: int, number: int, root: Array, entries: Array, shrinks: Array, lane: int) -> None:
    """The inverse, to the records that were outside."""
    here, records = slice(lane, lane + number), x[first : first + number]
    a00s, a10s, a11s, outside = entries[0][here], entries[1][here], entries[2][here], shrinks[here]
    r00, r10, r11 = root[0, 0], root[1, 0], root[1, 1]
    for z in range(number):
        moved, half = outside[z] < 1.0, r10 * a00s[z] + r11 * a10s[z]
        y10, y11 = r00 * half, r10 * half + r11 * (r10 * a10s[z] + r11 * a11s[z])
        records[z, 0, 0] = r00 * r00 * a00s[z] if moved else records[z, 0, 0]
        records[z, 1, 0], records[z, 0, 1] = (y10 if moved else records[z, 1, 0]), (y10 if moved else records[z, 0, 1])
        records[z, 1, 1] = y11 if moved else records[z, 1, 1]


@compiled
def _write3(x: Array, first: int, number: int, root: Array, entries: Array, shrinks: Array, lane: int) -> None:
    here, records = slice(lane, lane + number), x[first : first + number]
    a00s, a10s, a11s, a20s, a21s, a22s, outside = (
        entries[0][here], entries[1][here], entries[2][here], entries[3][here], entries[4][here], entries[5][here], shrinks[here]
    )  # fmt: skip
    r00, r10, r11, r20, r21, r22 = root[0, 0], root[1, 0], root[1, 1], root[2, 0], root[2, 1], root[2, 2]
    for z in range(number):
        w00, w10, w11, w20, w21, w22, moved = a00s[z], a10s[z], a11s[z], a20s[z], a21s[z], a22s[z], outside[z] < 1.0
        m10, m11 = r10 * w00 + r11 * w10, r10 * w10 + r11 * w11
        m20, m21 = r20 * w00 + r21 * w10 + r22 * w20, r20 * w10 + r21 * w11 + r22 * w21
        m22 = r20 * w20 + r21 * w21 + r22 * w22
        y10, y20, y21 = m10 * r00, m20 * r00, m20 * r10 + m21 * r11
        records[z, 0, 0] = r00 * w00 * r00 if moved else records[z, 0, 0]
        records[z, 1, 1] = m10 * r10 + m11 * r11 if moved else records[z, 1, 1]
        records[z, 2, 2] = m20 * r20 + m21 * r21 + m22 * r22 if moved else records[z, 2, 2]
        records[z, 1, 0], records[z, 0, 1] = (y10 if moved else records[z, 1, 0]), (y10 if moved else records[z, 0, 1])
        records[z, 2, 0], records[z, 0, 2] = (y20 if moved else records[z, 2, 0]), (y20 if moved else records[z, 0, 2])
        records[z, 2, 1], records[z, 1, 2] = (y21 if moved else records[z, 2, 1]), (y21 if moved else records[z, 1, 2])


# ------------------------------------------------------------------ logarithms by polynomials
# With F = (M - I)/2 and Z = F (I + F)^-1 = (M - I)(M + I)^-1, log M = 2 artanh(Z) = Z h(Z^2) for an even series h, which is a
# polynomial here. Modulo the characteristic polynomial of Z^2 it has degree k - 1, and so has log M in F.
#
# Rounding. F is whitened from x - p, so its error is relative to its own size, times the condition of p. What follows are sums
# and products of the invariants of F over det(I + F) = prod (1 + exp t)/2, which are products of tanh(t/2) and of numbers between
# 0 and 2: none exceeds 12, and those of order m are of order |log M|^m. Near p the first term, q1 F, is all that matters, and
# equal eigenvalues are no special case, because no difference of them is divided by. So the error is a multiple of
# epsilon |log M| times the condition of p; the largest one seen was 7.2 (tests/test_passes.py, fifty digits). Whitening
# itself allows 4 (k + 4) exp(sqrt(2) |log M|) epsilon times the condition, which exceeds 50 |log M| at every length.


@compiled
def _by_series2(
    entries: Array, series: Array, middle: float, room: Array, squares: Array, curves: Array, frame: Array, count: int
) -> None:
    """From the entries of ``F`` those of ``log M``, its squared length, and ``(t/2) coth(t/2)`` of the gap of its eigenvalues."""
    traces, dets, b0s, b1s, rs = room[0], room[1], room[2], room[3], room[4]
    for z in range(count):
        a, b, d = entries[0][z], entries[1][z], entries[2][z]
        f1, f2 = a + d, a * d - b * b
        r = 1.0 / (1.0 + f1 + f2)
        z1, z2 = r * (f1 + 2.0 * f2), r * f2
        s1, s2 = z1 * z1 - 2.0 * z2, z2 * z2
        rs[z], traces[z], dets[z] = r, s1 - 2.0 * middle, s2 - middle * (s1 - middle)
        b1s[z], b0s[z] = series[0], series[1]
    for k in range(2, len(series) - 3, 4):
        c0, c1, c2, c3 = series[k], series[k + 1], series[k + 2], series[k + 3]
        for z in range(count):
            b0, b1, s1, s2 = b0s[z], b1s[z], traces[z], dets[z]
            b0, b1 = c0 - b1 * s2, b0 + b1 * s1
            b0, b1 = c1 - b1 * s2, b0 + b1 * s1
            b0, b1 = c2 - b1 * s2, b0 + b1 * s1
            b0s[z], b1s[z] = c3 - b1 * s2, b0 + b1 * s1
    c0 = series[len(series) - 1]
    for z in range(count):
        a, b, d, b0, b1 = entries[0][z], entries[1][z], entries[2][z], b0s[z], b1s[z]
        b0, b1 = c0 - b1 * dets[z], b0 + b1 * traces[z]  # one step is left, because the degree is 2 more than a multiple of 4
        b0 -= middle * b1
        f1, f2, r = a + d, a * d - b * b, rs[z]
        z1, z2 = r * (f1 + 2.0 * f2), r * f2
        c1 = b0 + b1 * (z1 * z1 - z2)
        q0, q1 = c1 * z2 - b1 * z1 * z2, c1 * r
        l00, l10, l11 = q0 + q1 * a, q1 * b, q0 + q1 * d
        entries[0][z], entries[1][z], entries[2][z] = l00, l10, l11
        squares[z] = l00 * l00 + l11 * l11 + 2.0 * l10 * l10
        c, v = 0.5 * q1 * (1.0 + f1), 0.5 * q1 * (a - d)
        length = v * v + l10 * l10
        curves[z], frame[0][z], frame[1][z] = c, v, l10
        frame[2][z] = (1.0 - c) / length if length > 1e-8 else -1.0 / 3.0  # c is nearly 1 + |v|^2/3 if v is short


@compiled
def _by_series3(entries: Array, series: Array, middle: float, room: Array, squares: Array, curves: Array, count: int) -> None:
    """The same, and the mean of ``(t/2) coth(t/2)`` over all trace-free directions. ``A`` is the adjugate of ``F``."""
    s1s, s2s, s3s, b0s, b1s, b2s, rs = room[0], room[1], room[2], room[3], room[4], room[5], room[6]
    a00s, a10s, a11s, a20s, a21s, a22s = entries[0], entries[1], entries[2], entries[3], entries[4], entries[5]
    for z in range(count):
        a, b, d, e, h, k = a00s[z], a10s[z], a11s[z], a20s[z], a21s[z], a22s[z]
        f1, f2 = a + d + k, (d * k - h * h) + (a * k - e * e) + (a * d - b * b)
        f3 = a * (d * k - h * h) + b * (e * h - b * k) + e * (b * h - d * e)
        r = 1.0 / (1.0 + f1 + f2 + f3)
        z3, z2 = f3 * r, 3.0 * (f3 * r) + f2 * r
        z1 = z2 + f2 * r + f1 * r
        s1, s2, s3 = z1 * z1 - 2.0 * z2, z2 * z2 - 2.0 * z1 * z3, z3 * z3
        rs[z], s1s[z], s2s[z] = r, s1 - 3.0 * middle, s2 - middle * (2.0 * s1 - 3.0 * middle)
        s3s[z] = s3 - middle * (s2 - middle * (s1 - middle))
        b2s[z], b1s[z], b0s[z] = series[0], series[1], series[2]
    for k in range(3, len(series), 4):
        c0, c1, c2, c3 = series[k], series[k + 1], series[k + 2], series[k + 3]
        for z in range(count):
            b0, b1, b2, s1, s2, s3 = b0s[z], b1s[z], b2s[z], s1s[z], s2s[z], s3s[z]
            b0, b1, b2 = c0 + b2 * s3, b0 - b2 * s2, b1 + b2 * s1
            b0, b1, b2 = c1 + b2 * s3, b0 - b2 * s2, b1 + b2 * s1
            b0, b1, b2 = c2 + b2 * s3, b0 - b2 * s2, b1 + b2 * s1
            b0s[z], b1s[z], b2s[z] = c3 + b2 * s3, b0 - b2 * s2, b1 + b2 * s1
    for z in range(count):
        a, b, d, e, h, k = a00s[z], a10s[z], a11s[z], a20s[z], a21s[z], a22s[z]
        d00, d11, d22, d10, d20, d21 = d * k - h * h, a * k - e * e, a * d - b * b, e * h - b * k, b * h - d * e, b * e - a * h
        f1, f2, f3, r = a + d + k, d00 + d11 + d22, a * d00 + b * d10 + e * d20, rs[z]
        z3, z2 = f3 * r, 3.0 * (f3 * r) + f2 * r
        z1 = z2 + f2 * r + f1 * r
        b2 = b2s[z]
        b0, b1 = b0s[z] - middle * (b1s[z] - middle * b2), b1s[z] - 2.0 * middle * b2
        # log M = c0 + c1 Z + c2 Z^2 = q0 + q1 F + q2 A
        w = b1 + (z1 * z1 - z2) * b2
        c0, c1, c2 = z3 * w, b0 - z2 * w + z1 * z3 * b2, z1 * w + (z3 - z1 * z2) * b2
        h1 = c1 + z1 * c2
        q0, q1, q2 = c0 - z2 * c2 + h1 * (z3 + f2 * r) + c2 * z3, r * h1, r * (c2 - h1)
        l00, l11, l22 = q0 + q1 * a + q2 * d00, q0 + q1 * d + q2 * d11, q0 + q1 * k + q2 * d22
        l10, l20, l21 = q1 * b + q2 * d10, q1 * e + q2 * d20, q1 * h + q2 * d21
        a00s[z], a10s[z], a11s[z], a20s[z], a21s[z], a22s[z] = l00, l10, l11, l20, l21, l22
        squares[z] = l00 * l00 + l11 * l11 + l22 * l22 + 2.0 * (l10 * l10 + l20 * l20 + l21 * l21)
        curves[z] = 0.4 + 0.1 * (c1 * (3.0 - z2) + c2 * (2.0 * z1 + 3.0 * z3 - z1 * z2))


# ------------------------------------------------------------------ logarithms by eigenvalues


@compiled
def _spectra2(entries: Array, limits: Array, frame: Array, e: Array, sure: Flags, count: int) -> int:
    """``M = h I + rho (d S + b T)`` with ``d^2 + b^2 = 1``: ``d``, ``b`` and the eigenvalues ``h +- rho``; how many are not sure.

    ``S`` has 1 and -1 on its diagonal, ``T`` 1 off it.
    """
    unsure = 0
    for z in range(count):
        a00, b, a11 = entries[0][z], entries[1][z], entries[2][z]
        h, d = 0.5 * (a00 + a11), 0.5 * (a00 - a11)
        rho = math.sqrt(d * d + b * b)
        high, low = h + rho, h - rho
        fine = (high < limits[z] * low) & (high < 1e100) & (low > 1e-100)
        unsure += 0 if fine else 1
        sure[z] = fine
        inverted = 1.0 / rho if rho > 0.0 else 0.0
        frame[0][z], frame[1][z] = (d * inverted if fine else 0.0), (b * inverted if fine else 0.0)
        e[0][z], e[1][z] = (high if fine else 1.0), (low if fine else 1.0)
    return unsure


@compiled
def _across(vx: float, vy: float, vz: float) -> tuple[float, float, float, float, float, float]:
    """An orthonormal pair across a unit vector, without a singular direction (Duff and others, 2017)."""
    sign = 1.0 if vz >= 0.0 else -1.0
    s = -1.0 / (sign + vz)
    wx = vx * vy * s
    return 1.0 + sign * vx * vx * s, sign * wx, -sign * vx, wx, sign + vy * vy * s, -vy


@compiled
def _spectra3(entries: Array, limits: Array, frame: Array, e: Array, sure: Flags, count: int) -> int:
    """The deflation of ``geodp.manifolds.small_eigen``, without forming the last two eigenvectors: how many are not sure.

    With ``v`` the eigenvector that stands alone and ``(u, w)`` an orthonormal pair across it, ``M`` is
    ``e0 v v' + h (I - v v') + rho (d (u u' - w w') + b (u w' + w u'))`` with ``d^2 + b^2 = 1``, and its eigenvalues are ``e0``
    and ``h +- rho``. ``frame`` gets ``v``, ``d`` and ``b``.
    """
    unsure = 0
    for z in range(count):
        a00, a10, a11, a20, a21, a22 = entries[0][z], entries[1][z], entries[2][z], entries[3][z], entries[4][z], entries[5][z]
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
        fine &= max(e0, e1) < limits[z] * min(e0, e2)
        unsure += 0 if fine else 1
        sure[z] = fine
        inverted = 1.0 / rho if rho > 1e-200 else 0.0
        frame[0][z], frame[1][z], frame[2][z] = (vx if fine else 0.0), (vy if fine else 0.0), (vz if fine else 1.0)
        frame[3][z], frame[4][z] = (d * inverted if fine else 0.0), (b * inverted if fine else 0.0)
        e[0][z], e[1][z], e[2][z] = (e0 if fine else 1.0), (e1 if fine else 1.0), (e2 if fine else 1.0)
    return unsure


@compiled
def _from_spectra(k: int, frame: Array, e: Array, entries: Array, count: int) -> None:
    """The lower entries of the matrix with these eigenvalues in that frame."""
    if k == 2:
        for z in range(count):
            h, rho = 0.5 * (e[0][z] + e[1][z]), 0.5 * (e[0][z] - e[1][z])
            entries[0][z], entries[1][z], entries[2][z] = h + rho * frame[0][z], rho * frame[1][z], h - rho * frame[0][z]
        return
    for z in range(count):
        vx, vy, vz, e0, e1, e2 = frame[0][z], frame[1][z], frame[2][z], e[0][z], e[1][z], e[2][z]
        ux, uy, uz, wx, wy, wz = _across(vx, vy, vz)
        h, rho = 0.5 * (e1 + e2), 0.5 * (e1 - e2)
        rest, d, b = e0 - h, rho * frame[3][z], rho * frame[4][z]
        entries[0][z] = rest * vx * vx + d * (ux * ux - wx * wx) + 2.0 * b * ux * wx + h
        entries[2][z] = rest * vy * vy + d * (uy * uy - wy * wy) + 2.0 * b * uy * wy + h
        entries[5][z] = rest * vz * vz + d * (uz * uz - wz * wz) + 2.0 * b * uz * wz + h
        entries[1][z] = rest * vx * vy + d * (ux * uy - wx * wy) + b * (ux * wy + wx * uy)
        entries[3][z] = rest * vx * vz + d * (ux * uz - wx * wz) + b * (ux * wz + wx * uz)
        entries[4][z] = rest * vy * vz + d * (uy * uz - wy * wz) + b * (uy * wz + wy * uz)


@compiled
def _curves(k: int, e: Array, f: Array, curves: Array, parts: Array, count: int) -> None:
    """From eigenvalues and their logarithms: ``(t/2) coth(t/2)`` of the gap ``t``, or the mean over trace-free directions."""
    for z in range(count):
        curves[z] = 0.0 if k == 2 else 2.0
    for i in range(k):
        for j in range(i):
            for z in range(count):
                gap = e[i][z] - e[j][z]
                quotient = 0.5 * (f[i][z] - f[j][z]) * (e[i][z] + e[j][z]) / (gap if gap != 0.0 else 1.0)
                curves[z] += quotient if gap != 0.0 else 1.0
    for z in range(count):
        parts[z] = 1.0 - curves[z] if k == 2 else parts[z]
        curves[z] = curves[z] if k == 2 else 0.2 * curves[z]
