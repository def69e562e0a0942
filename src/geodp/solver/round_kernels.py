"""Compiled passes on spheres and over rotations of space.

Every record takes the same instructions, several records at once: what is outside the ball or no point at all is picked out by
selection, not by a branch. A finite ``radius`` is that of a ball about the points into which the records are clipped in place;
with an infinite one they must have been clipped already. ``rows`` gets sums over blocks of records of one group, in its columns
their weight and the largest distance come last.
"""

from __future__ import annotations

import math

import numpy as np

from geodp.inputs import EPSILON, Array
from geodp.manifolds.manifold import TOLERANCE
from geodp.solver.lanes import BLOCK, NUMBERS, Integers, chord_angle, compiled, horner, largest, next_pieces

#: A matrix whose columns are further from orthonormal than this is replaced by the rotation next to it.
TIDY = 32.0 * EPSILON
#: Of a vector shorter than this, floats do not know the direction.
_LOST = 4e-16


@compiled
def _arcs(u: Array, v: Array, series: Array, middle: float, factors: Array, room: Array, count: int) -> None:
    """``t/sin t`` from ``u = 1 - cos t`` and ``v = 1 + cos t``: by a polynomial if there is one, or else by the arc itself."""
    if len(series) > 0:
        for z in range(count):
            room[z] = 0.5 * u[z] - middle
        horner(series, room, factors, count)
    else:
        for z in range(count):
            angle, _ = chord_angle(2.0 * min(u[z], v[z]), v[z] < u[z])
            sine = math.sqrt(u[z] * v[z])
            factors[z] = angle / sine if sine > 0.0 else 1.0


# ------------------------------------------------------------------ spheres


@compiled
def sphere(
    x: Array, weights: Array, starts: Integers, points: Array, size: float, radius: float, series: Array, middle: float,
    rows: Array,
) -> None:  # fmt: skip
    """Vectors of length ``size``, seen from unit vectors; ``radius`` is an angle.

    The logarithm at ``p`` of a unit vector is ``f (x - p) + f u p`` with ``u = |x - p|^2/2 = 1 - cos t`` and ``f = t/sin t``.
    Columns: sums of ``f (x - p)`` (one an axis), of ``f u``, of ``t^2`` and of ``f cos t``. In space then those of the six
    lower entries of ``g (x - p)(x - p)'`` with ``g = (1 - f cos t)/sin^2 t``: the Hessian is ``f cos t`` plus that, projected.
    """
    m, last, clip, lanes = x.shape[1], rows.shape[1] - 1, radius < math.inf, BLOCK
    while lanes > 8 and lanes * m > NUMBERS:
        lanes //= 2
    near, across, room = np.empty((m, lanes)), np.empty((m, lanes)), np.empty((6, lanes))
    u, v, factors, shares, squares, spare = room[0], room[1], room[2], room[3], room[4], room[5]
    at, pieces = np.zeros(3, dtype=np.int64), np.empty((lanes, 5), dtype=np.int64)
    at[1], shares[:] = starts[0], 1.0
    rows[:] = 0.0
    while True:
        count, filled = next_pieces(starts, at, lanes, pieces)
        if count == 0:
            return
        for i in range(count):
            g, first, number, lane, row = pieces[i]
            _load_vectors(x, first, number, points[g], 1.0 / size, clip, near, lane, u, v)
            for z in range(min(number, len(weights))):  # none if all are 1
                shares[lane + z] = weights[first + z]
        _arcs(u, v, series, middle, factors, spare, filled)
        if clip:
            for i in range(count):
                g, first, number, lane, row = pieces[i]
                here = slice(lane, lane + number)
                _clip_vectors(x, first, points[g], size, radius, near, across, lane, u[here], v[here], factors[here], spare[here])
        for z in range(filled):
            squares[z] = factors[z] * factors[z] * (u[z] * v[z])
        for i in range(count):
            g, first, number, lane, row = pieces[i]
            here, total = slice(lane, lane + number), rows[row]
            us, vs, fs, ws, ss, gs = u[here], v[here], factors[here], shares[here], squares[here], spare[here]
            along = square = curve = mass = 0.0
            for z in range(number):
                sine_square, cosine = us[z] * vs[z], 1.0 - us[z]
                gs[z] = ws[z] * ((1.0 - fs[z] * cosine) / sine_square if sine_square > 1e-8 else 1.0 / 3.0)
                fs[z] *= ws[z]
            for z in range(number):
                along += fs[z] * us[z]
                square += ws[z] * ss[z]
                curve += fs[z] * (1.0 - us[z])
                mass += ws[z]
            for j in range(m):
                ds, sum_ = near[j][here], 0.0
                for z in range(number):
                    sum_ += fs[z] * ds[z]
                total[j] += sum_
            total[m] += along
            total[m + 1] += square
            total[m + 2] += curve
            if m == 3:
                column = m + 3
                for j in range(m):
                    for k in range(j + 1):
                        ds, es, sum_ = near[j][here], near[k][here], 0.0
                        for z in range(number):
                            sum_ += gs[z] * (ds[z] * es[z])
                        total[column] += sum_
                        column += 1
            total[last - 1] += mass
            total[last] = max(total[last], math.sqrt(largest(ss)))


@compiled
def _load_vectors(
    x: Array, first: int, number: int, p: Array, scale: float, tidy: bool, near: Array, lane: int, u: Array, v: Array
) -> None:
    """Unit records minus ``p``, ``|x - p|^2/2`` and ``|x + p|^2/2``. Tidied, they have length 1, and no points become ``p``."""
    here, records = slice(lane, lane + number), x[first : first + number]
    us, vs = u[here], v[here]
    for z in range(number):
        us[z] = vs[z] = 0.0
    for j in range(len(p)):
        xs = near[j][here]
        for z in range(number):
            xs[z] = scale * records[z, j]
        if tidy:
            for z in range(number):
                vs[z] += xs[z] * xs[z]
    if tidy:
        for z in range(number):
            norm = math.sqrt(vs[z])
            vs[z] = 1.0 / norm if abs(norm - 1.0) <= TOLERANCE else 0.0
        for j in range(len(p)):
            xs = near[j][here]
            for z in range(number):
                xs[z] = vs[z] * xs[z] if vs[z] > 0.0 else p[j]
        for z in range(number):
            vs[z] = 0.0
    for j in range(len(p)):
        xs, pj = near[j][here], p[j]
        for z in range(number):
            d, s = xs[z] - pj, xs[z] + pj
            us[z] += 0.5 * d * d
            vs[z] += 0.5 * s * s
            xs[z] = d


@compiled
def _clip_vectors(
    x: Array, first: int, p: Array, size: float, radius: float, near: Array, across: Array, lane: int,
    u: Array, v: Array, factors: Array, along: Array,
) -> None:  # fmt: skip
    """Brings unit vectors within an angle of ``p``, and writes them to the records; next to the antipode they become ``p``."""
    number, far_sine, far_u = len(u), math.sin(radius), 2.0 * math.sin(0.5 * radius) ** 2
    here, records = slice(lane, lane + number), x[first : first + number]
    for z in range(number):
        along[z] = 0.0
    for j in range(len(p)):
        ds, qs, pj = near[j][here], across[j][here], p[j]
        for z in range(number):
            q = ds[z] + u[z] * pj
            qs[z] = q
            along[z] += q * pj
    squares = np.zeros(number)
    # once more, so that what is left across is orthogonal even next to the antipode
    for j in range(len(p)):
        qs, pj = across[j][here], p[j]
        for z in range(number):
            q = qs[z] - along[z] * pj
            qs[z] = q
            squares[z] += q * q
    for z in range(number):
        length, outside = math.sqrt(squares[z]), u[z] > far_u
        lost = outside & (length <= _LOST)
        # how much of the direction across to take; negative for what has none, zero inside
        turn = far_sine / length if outside else 0.0
        along[z] = -1.0 if lost else turn
        far, f = (0.0 if lost else far_u), (1.0 if lost else radius / far_sine)
        u[z], v[z], factors[z] = (far if outside else u[z]), (2.0 - far if outside else v[z]), (f if outside else factors[z])
    for j in range(len(p)):
        ds, qs, pj = near[j][here], across[j][here], p[j]
        for z in range(number):
            d = along[z] * qs[z] - far_u * pj if along[z] > 0.0 else ds[z]
            ds[z] = 0.0 if along[z] < 0.0 else d
        for z in range(number):
            records[z, j] = size * (pj + ds[z])


# ------------------------------------------------------------------ rotations


@compiled
def rotations3(
    x: Array, weights: Array, starts: Integers, points: Array, radius: float, series: Array, middle: float, rows: Array
) -> None:
    """Rotations of space: the logarithm is ``f a/2`` with ``a`` the skew part of ``p'x``, twice the sine of the angle ``t`` long.

    ``f = t/sin t``, and ``u = |x - p|^2/4 = 1 - cos t``. The Hessian is 1 along ``a`` and ``h = (t/2) cot(t/2)`` across. Columns:
    sums of the logarithm (three), squared length, ``h``, and of the six lower entries of ``(1 - h) a a'/|a|^2``.
    """
    last, clip = rows.shape[1] - 1, radius < math.inf
    entries, skew, room = np.empty((9, BLOCK)), np.empty((3, BLOCK)), np.empty((15, BLOCK))
    u, v, factors, shares, valid, spare = room[9], room[10], room[11], room[12], room[13], room[14]
    valid[:] = 1.0
    at, pieces = np.zeros(3, dtype=np.int64), np.empty((BLOCK, 5), dtype=np.int64)
    at[1], shares[:] = starts[0], 1.0
    rows[:] = 0.0
    while True:
        count, filled = next_pieces(starts, at, BLOCK, pieces)
        if count == 0:
            return
        for i in range(count):
            g, first, number, lane, row = pieces[i]
            for z in range(min(number, len(weights))):  # none if all are 1
                shares[lane + z] = weights[first + z]
            for j in range(3):
                for k in range(3):
                    xs = entries[3 * j + k][lane : lane + number]
                    for z in range(number):
                        xs[z] = x[first + z, j, k]
        if clip:
            _tidy_rotations(entries, room, valid, filled)
        for i in range(count):
            g, first, number, lane, row = pieces[i]
            _load_turns(entries, valid, points[g], skew, u, v, lane, number)
        _arcs(u, v, series, middle, factors, spare, filled)
        if clip:
            for i in range(count):
                g, first, number, lane, row = pieces[i]
                _clip_turns(x, first, points[g], radius, entries, skew, u, v, factors, lane, number)
        for i in range(count):
            g, first, number, lane, row = pieces[i]
            here, total = slice(lane, lane + number), rows[row]
            a0s, a1s, a2s = skew[0][here], skew[1][here], skew[2][here]
            us, vs, fs, ws = u[here], v[here], factors[here], shares[here]
            l0 = l1 = l2 = squares = flat = h00 = h10 = h11 = h20 = h21 = h22 = mass = 0.0
            for z in range(number):
                a0, a1, a2, w, f = a0s[z], a1s[z], a2s[z], ws[z], fs[z]
                square = f * f * (us[z] * vs[z])
                curve = 0.5 * f * vs[z]
                size = a0 * a0 + a1 * a1 + a2 * a2
                g_ = w * ((1.0 - curve) / size if size > 1e-8 else 1.0 / 48.0)
                us[z] = square
                l0 += w * (0.5 * f * a0)
                l1 += w * (0.5 * f * a1)
                l2 += w * (0.5 * f * a2)
                squares += w * square
                flat += w * curve
                mass += w
                h00 += g_ * a0 * a0
                h10 += g_ * a1 * a0
                h11 += g_ * a1 * a1
                h20 += g_ * a2 * a0
                h21 += g_ * a2 * a1
                h22 += g_ * a2 * a2
            total[0], total[1], total[2], total[3], total[4] = l0, l1, l2, squares, flat
            total[5], total[6], total[7], total[8], total[9], total[10] = h00, h10, h11, h20, h21, h22
            total[last - 1], total[last] = mass, math.sqrt(largest(us))


@compiled
def _load_turns(entries: Array, valid: Array, p: Array, skew: Array, u: Array, v: Array, lane: int, number: int) -> None:
    """The skew part of ``p'x``, and ``|x - p|^2/4`` and 2 minus that. Records that are not valid become ``p``."""
    here = slice(lane, lane + number)
    good, a0s, a1s, a2s, us, vs = valid[here], skew[0][here], skew[1][here], skew[2][here], u[here], v[here]
    for z in range(number):
        a0s[z] = a1s[z] = a2s[z] = us[z] = 0.0
    for k in range(3):
        x0s, x1s, x2s = entries[3 * k][here], entries[3 * k + 1][here], entries[3 * k + 2][here]
        p0, p1, p2 = p[k, 0], p[k, 1], p[k, 2]
        for z in range(number):
            x0s[z], x1s[z] = (x0s[z] if good[z] > 0.0 else p0), (x1s[z] if good[z] > 0.0 else p1)
            x2s[z] = x2s[z] if good[z] > 0.0 else p2
            # the difference has the same skew part, and keeps its digits where the two are close
            d0, d1, d2 = x0s[z] - p0, x1s[z] - p1, x2s[z] - p2
            us[z] += 0.25 * (d0 * d0 + d1 * d1 + d2 * d2)
            a0s[z] += p2 * d1 - p1 * d2
            a1s[z] += p0 * d2 - p2 * d0
            a2s[z] += p1 * d0 - p0 * d1
    for z in range(number):
        vs[z] = max(2.0 - us[z], 0.0)


@compiled
def _tidy_rotations(x: Array, y: Array, valid: Array, count: int) -> None:
    """Two steps of Newton and Schulz to the next rotation where a matrix is off by more than rounding; 1 or 0: is it one?"""
    off = np.zeros(count)
    for z in range(count):
        minors = x[0][z] * (x[4][z] * x[8][z] - x[5][z] * x[7][z]) - x[1][z] * (x[3][z] * x[8][z] - x[5][z] * x[6][z])
        minors += x[2][z] * (x[3][z] * x[7][z] - x[4][z] * x[6][z])
        valid[z] = 1.0 if minors > 0.0 else 0.0
    for i in range(3):
        for j in range(i + 1):
            one = 1.0 if i == j else 0.0
            for z in range(count):
                apart = abs(x[i][z] * x[j][z] + x[3 + i][z] * x[3 + j][z] + x[6 + i][z] * x[6 + j][z] - one)
                off[z] = apart if not apart <= off[z] else off[z]  # also if not a number
    for j in range(9):
        for z in range(count):
            y[j][z] = x[j][z]
    for _ in range(2):
        for z in range(count):
            y0, y1, y2, y3, y4, y5, y6, y7, y8 = (
                y[0][z], y[1][z], y[2][z], y[3][z], y[4][z], y[5][z], y[6][z], y[7][z], y[8][z]
            )  # fmt: skip
            g00, g11, g22 = y0 * y0 + y3 * y3 + y6 * y6, y1 * y1 + y4 * y4 + y7 * y7, y2 * y2 + y5 * y5 + y8 * y8
            g10, g20, g21 = y1 * y0 + y4 * y3 + y7 * y6, y2 * y0 + y5 * y3 + y8 * y6, y2 * y1 + y5 * y4 + y8 * y7
            g00, g11, g22 = 1.5 - 0.5 * g00, 1.5 - 0.5 * g11, 1.5 - 0.5 * g22
            g10, g20, g21 = -0.5 * g10, -0.5 * g20, -0.5 * g21
            y[0][z], y[1][z], y[2][z] = (
                y0 * g00 + y1 * g10 + y2 * g20,
                y0 * g10 + y1 * g11 + y2 * g21,
                y0 * g20 + y1 * g21 + y2 * g22,
            )
            y[3][z], y[4][z], y[5][z] = (
                y3 * g00 + y4 * g10 + y5 * g20,
                y3 * g10 + y4 * g11 + y5 * g21,
                y3 * g20 + y4 * g21 + y5 * g22,
            )
            y[6][z], y[7][z], y[8][z] = (
                y6 * g00 + y7 * g10 + y8 * g20,
                y6 * g10 + y7 * g11 + y8 * g21,
                y6 * g20 + y7 * g21 + y8 * g22,
            )
    for j in range(9):
        for z in range(count):
            x[j][z] = y[j][z] if off[z] > TIDY else x[j][z]
    for z in range(count):
        valid[z] = valid[z] if off[z] <= TOLERANCE else 0.0


@compiled
def _clip_turns(
    x: Array, first: int, p: Array, radius: float, entries: Array, skew: Array, u: Array, v: Array, factors: Array,
    lane: int, number: int,
) -> None:  # fmt: skip
    """Brings rotations within an angle of ``p``, and writes them to the records; without a unique geodesic they become ``p``."""
    far_sine, far_u = math.sin(radius), 2.0 * math.sin(0.5 * radius) ** 2
    here = slice(lane, lane + number)
    a0s, a1s, a2s, us, vs, fs = skew[0][here], skew[1][here], skew[2][here], u[here], v[here], factors[here]
    ons, records = np.empty(number), x[first : first + number]
    for z in range(number):
        length = math.sqrt(a0s[z] * a0s[z] + a1s[z] * a1s[z] + a2s[z] * a2s[z])
        outside = us[z] > far_u
        lost = outside & (length <= _LOST)
        scale = 2.0 * far_sine / length if outside else 1.0
        scale = 0.0 if lost else scale
        a0s[z], a1s[z], a2s[z] = scale * a0s[z], scale * a1s[z], scale * a2s[z]
        far, f = (0.0 if lost else far_u), (1.0 if lost else radius / far_sine)
        ons[z] = 1.0 if outside else 0.0
        us[z], vs[z], fs[z] = (far if outside else us[z]), (2.0 - far if outside else vs[z]), (f if outside else fs[z])
    turn, twice = 0.5, 0.25 * far_u / (far_sine * far_sine)
    for k in range(3):
        x0s, x1s, x2s = entries[3 * k][here], entries[3 * k + 1][here], entries[3 * k + 2][here]
        p0, p1, p2 = p[k, 0], p[k, 1], p[k, 2]
        for z in range(number):
            # the row p of the centre times I + A/2 + A^2 (1 - cos)/(4 sin^2), where pA = p x a
            a0, a1, a2 = a0s[z], a1s[z], a2s[z]
            c0, c1, c2 = p1 * a2 - p2 * a1, p2 * a0 - p0 * a2, p0 * a1 - p1 * a0
            m0 = p0 + turn * c0 + twice * (c1 * a2 - c2 * a1)
            m1 = p1 + turn * c1 + twice * (c2 * a0 - c0 * a2)
            m2 = p2 + turn * c2 + twice * (c0 * a1 - c1 * a0)
            outside = ons[z] > 0.0
            x0s[z], x1s[z], x2s[z] = (m0 if outside else x0s[z]), (m1 if outside else x1s[z]), (m2 if outside else x2s[z])
        for z in range(number):
            records[z, k, 0], records[z, k, 1], records[z, k, 2] = x0s[z], x1s[z], x2s[z]
