"""Compiled inner loops of the Fréchet mean on hyperbolic spaces, shapes and subspaces.

Like those of ``kernels``: sums over blocks of records are written to ``blocks`` and the largest distance is returned; with a
finite ``radius`` the point is the centre and the records are clipped on the way, in place. Every record goes through the
same instructions, several at once. Logarithms are summed after what they have along the point was taken away, so that the
rounding of sums is relative to their lengths.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds.manifold import TOLERANCE
from geodp.solver.lanes import BLOCK, NUMBERS, Integers, asinh, chord_angle, compiled, largest, next_pieces
from geodp.solver.round_kernels import TIDY

Flags = NDArray[np.bool_]

#: Records handled at once: enough to fill vector registers, few enough to stay in the cache.
LANES = 32
#: Below this cosine two points are at each other's cut locus, as far as floats can tell.
_LOST = 4e-16


# ------------------------------------------------------------------ hyperbolic spaces


@compiled
def hyperbolic(
    x: Array, weights: Array, starts: Integers, points: Array, units: Array, growths: Array, radius: float, rows: Array
) -> None:
    """Points of the hyperboloid, those of every group seen from its point at distance ``a`` from the origin in a direction.

    ``growths`` are ``exp(a)``, ``units`` the directions. Let ``y`` be the part of a record across the direction,
    ``h = sqrt(1 + |y|^2)``, and ``h sinh(b)`` its part along it. Seen from the point the record has the same part across, and
    ``h sinh(b - a)`` along: no two large numbers cancel. The Hessian is 1 towards a record and ``t coth(t)`` across. Columns of
    ``rows``: sums of the logarithm (one an axis), of ``t^2`` and of ``t coth(t)``; the weight and the largest ``t``.
    """
    d, clip, lanes = units.shape[1], radius < math.inf, BLOCK
    while lanes > LANES and lanes * d > NUMBERS:
        lanes //= 2
    space, room = np.empty((d, lanes)), np.empty((9, lanes))
    times, along, across, sines, lengths, curves, factors, shares, growth = (
        room[0], room[1], room[2], room[3], room[4], room[5], room[6], room[7], room[8]
    )  # fmt: skip
    lost, outside = np.zeros(lanes, dtype=np.bool_), np.zeros(lanes, dtype=np.bool_)
    far_sine, far_cosine, far_curve = 0.0, 1.0, 1.0
    if clip:
        far_sine, far_cosine, far_curve = math.sinh(radius), math.cosh(radius), radius / math.tanh(radius)
    at, pieces = np.zeros(3, dtype=np.int64), np.empty((lanes, 5), dtype=np.int64)
    at[1], shares[:], rows[:] = starts[0], 1.0, 0.0
    while True:
        count, filled = next_pieces(starts, at, lanes, pieces)
        if count == 0:
            return
        for i in range(count):
            g, first, number, lane, row = pieces[i]
            for z in range(min(number, len(weights))):  # none if all are 1
                shares[lane + z] = weights[first + z]
            growth[lane : lane + number] = growths[g]
            here = slice(lane, lane + number)
            _load_hyperbolic(
                x[first : first + number], points[g], units[g], clip, space, lane, lost[here], along[here], across[here]
            )
        for z in range(filled):
            h = math.sqrt(1.0 + across[z])
            grown = (abs(along[z]) + math.sqrt(1.0 + across[z] + along[z] * along[z])) / h  # exp |b|
            ratio = (grown if along[z] >= 0.0 else 1.0 / grown) / growth[z]
            along[z] = 0.5 * h * (ratio - 1.0 / ratio)
            sines[z] = math.sqrt(along[z] * along[z] + across[z])
        asinh(sines, lengths, filled)
        for z in range(filled):
            factors[z] = lengths[z] / sines[z] if sines[z] > 0.0 else 1.0
            curves[z] = factors[z] * math.sqrt(1.0 + sines[z] * sines[z])
        if clip:
            for z in range(filled):
                outside[z] = lengths[z] > radius
                shrink = far_sine / sines[z]
                s = shrink * along[z]
                h = math.sqrt(1.0 + shrink * shrink * across[z])
                grown = (abs(s) + far_cosine) / h
                grown = (grown if s >= 0.0 else 1.0 / grown) * growth[z]
                times[z] = 0.5 * h * (grown + 1.0 / grown)
                sines[z], across[z] = shrink, 0.5 * h * (grown - 1.0 / grown)
                factors[z] = radius * (shrink / far_sine) if outside[z] else factors[z]
                curves[z] = far_curve if outside[z] else curves[z]
                lengths[z] = radius if outside[z] else lengths[z]
                factors[z], curves[z] = (0.0 if lost[z] else factors[z]), (1.0 if lost[z] else curves[z])
                lengths[z] = 0.0 if lost[z] else lengths[z]
            for i in range(count):
                g, first, number, lane, row = pieces[i]
                for z in range(number):
                    record, y = x[first + z], lane + z
                    moved = times[y] if outside[y] else record[0]
                    record[0] = points[g, 0] if lost[y] else moved
                    for j in range(d):
                        moved = units[g, j] * across[y] + sines[y] * space[j, y] if outside[y] else record[1 + j]
                        record[1 + j] = points[g, 1 + j] if lost[y] else moved
        for i in range(count):
            g, first, number, lane, row = pieces[i]
            here, total = slice(lane, lane + number), rows[row]
            ws, fs, ts, cs, bs = shares[here], factors[here], lengths[here], curves[here], along[here]
            ahead = squares = hessian = mass = 0.0
            for z in range(number):
                squares += ws[z] * ts[z] * ts[z]
                hessian += ws[z] * cs[z]
                mass += ws[z]
                fs[z] *= ws[z]
                ahead += fs[z] * bs[z]
            for j in range(d):
                ys, sum_ = space[j][here], 0.0
                for z in range(number):
                    sum_ += fs[z] * ys[z]
                total[j] += sum_ + ahead * units[g, j]
            total[d] += squares
            total[d + 1] += hessian
            total[d + 2] += mass
            total[d + 3] = max(total[d + 3], largest(ts))


@compiled
def _load_hyperbolic(
    records: Array, p: Array, unit: Array, tidy: bool, space: Array, lane: int, lost: Flags, along: Array, across: Array
) -> None:
    """Parts of records across a direction, in the lanes, their squared lengths, and parts along; no points become ``p``."""
    number, d = len(records), len(unit)
    here = slice(lane, lane + number)
    for j in range(d):
        ys = space[j][here]
        for z in range(number):
            ys[z] = records[z, 1 + j]
    if tidy:
        across[:] = 0.0
        for j in range(d):
            ys = space[j][here]
            for z in range(number):
                across[z] += ys[z] * ys[z]
        for z in range(number):
            time = math.sqrt(1.0 + across[z])
            lost[z] = not ((abs(records[z, 0] - time) <= TOLERANCE * time) & (across[z] < math.inf))
        for j in range(d):
            ys = space[j][here]
            for z in range(number):
                ys[z] = p[1 + j] if lost[z] else ys[z]
    along[:] = 0.0
    across[:] = 0.0
    for j in range(d):
        ys = space[j][here]
        for z in range(number):
            along[z] += unit[j] * ys[z]
    for j in range(d):
        ys = space[j][here]
        for z in range(number):
            ys[z] -= along[z] * unit[j]
            across[z] += ys[z] * ys[z]


# ------------------------------------------------------------------ shapes

#: Long records taken at a time: few enough to stay in the cache between their uses.
_FEW = 8


@compiled
def shapes(x: Array, weights: Array, p: Array, turned: Array, radius: float, block: int, blocks: Array) -> float:
    """Shapes of landmarks, as vectors ``x1, y1, x2, y2, ...``; ``turned`` is the point ``p`` after a quarter turn.

    With the complex product ``c = <p, x>`` and ``d = x - c p`` the logarithm is ``(t/sin t) conj(c)/|c| d``, ``cos t = |c|`` and
    ``sin t = |d|``. The Hessian is 1 towards a record, ``2t cot(2t)`` a quarter turn from there, and ``t cot t`` in the other
    directions. Columns of ``blocks``: sums of ``d`` times the real part of its factor, and times the imaginary part, then
    of ``t^2``, and of the trace of the Hessian without its 1.
    """
    size, clip = len(p), radius < math.inf
    far_cosine, far_sine, far_curve = 1.0, 0.0, 0.0
    if clip:
        far_cosine, far_sine = math.cos(radius), math.sin(radius)
        far_curve = (size - 6) * radius / math.tan(radius) + 2.0 * radius / math.tan(2.0 * radius)
    first_axis, second_axis = np.zeros(size), np.zeros(size)
    first_axis[::2] = 1.0
    second_axis[1::2] = 1.0
    rest, real, imaginary = np.empty((_FEW, size)), np.empty(size), np.empty(size)
    reals, imaginaries, squares = np.empty(_FEW), np.empty(_FEW), np.empty(_FEW)
    ons, turns, offs = np.empty(_FEW), np.empty(_FEW), np.empty(_FEW)
    lost, outside = np.zeros(_FEW, dtype=np.bool_), np.zeros(_FEW, dtype=np.bool_)
    farthest = 0.0
    for start in range(0, len(x), block):
        stop = min(start + block, len(x))
        real[:] = 0.0
        imaginary[:] = 0.0
        lengths = hessian = 0.0
        for first in range(start, stop, _FEW):
            count = min(_FEW, stop - first)
            for i in range(count):
                record = x[first + i]
                lost[i] = clip and not _tidied_shape(record, p, first_axis, second_axis)
                c = s = 0.0
                for j in range(size):
                    c += p[j] * record[j]
                    s += turned[j] * record[j]
                square, d = 0.0, rest[i]
                for j in range(size):
                    d[j] = record[j] - c * p[j] - s * turned[j]
                    square += d[j] * d[j]
                reals[i], imaginaries[i], squares[i] = c, s, square
            for i in range(count):
                w, sine = weights[first + i], math.sqrt(squares[i])
                cosine = math.sqrt(reals[i] * reals[i] + imaginaries[i] * imaginaries[i])
                apart = 1.0 - cosine
                angle, _ = chord_angle(squares[i] + apart * apart, False)
                lost[i] |= cosine <= _LOST
                outside[i] = (angle > radius) & (not lost[i])
                reals[i] /= cosine
                imaginaries[i] /= cosine
                ons[i], turns[i], offs[i] = far_cosine * reals[i], far_cosine * imaginaries[i], far_sine / sine
                factor = angle / sine if sine > 0.0 else 1.0
                curve = factor * ((size - 5) * cosine - squares[i] / cosine)
                curve = far_curve if outside[i] else curve
                factor = radius / sine if outside[i] else factor
                angle = radius if outside[i] else angle
                factor, angle = (0.0 if lost[i] else factor), (0.0 if lost[i] else angle)
                reals[i] *= w * factor
                imaginaries[i] *= -w * factor
                lengths += w * angle * angle
                hessian += w * (float(size - 5) if lost[i] else curve)
                farthest = max(farthest, angle)
            if clip:
                for i in range(count):
                    record, d = x[first + i], rest[i]
                    for j in range(size):
                        moved = ons[i] * p[j] + turns[i] * turned[j] + offs[i] * d[j] if outside[i] else record[j]
                        record[j] = p[j] if lost[i] else moved
                        d[j] = 0.0 if lost[i] else d[j]
            for i in range(count):
                a, b, d = reals[i], imaginaries[i], rest[i]
                for j in range(size):
                    real[j] += a * d[j]
                    imaginary[j] += b * d[j]
        row = blocks[start // block]
        for j in range(size):
            row[j], row[size + j] = real[j], imaginary[j]
        row[2 * size], row[2 * size + 1] = lengths, hessian
    return farthest


@compiled
def _tidied_shape(record: Array, p: Array, first: Array, second: Array) -> bool:
    """Centres and scales a record that is off by more than rounding, in place; no, and ``p`` in its place, if it is no shape.

    ``first`` and ``second`` are 1 at the first and at the second coordinates of landmarks, and 0 elsewhere.
    """
    size = len(record)
    left = up = square = 0.0
    for j in range(size):
        left += first[j] * record[j]
        up += second[j] * record[j]
        square += record[j] * record[j]
    left, up = 2.0 * left / size, 2.0 * up / size
    middle, norm = math.sqrt(left * left + up * up), math.sqrt(square)
    valid = (middle <= TOLERANCE) & (abs(norm - 1.0) <= TOLERANCE)
    tidy = (middle > TIDY) | (abs(norm - 1.0) > TIDY)
    left, up = (left if tidy else 0.0), (up if tidy else 0.0)
    scale = 1.0 / math.sqrt(square - 0.5 * size * (left * left + up * up)) if tidy else 1.0
    for j in range(size):
        kept = scale * (record[j] - left * first[j] - up * second[j])
        record[j] = kept if valid else p[j]
    return valid


# ------------------------------------------------------------------ subspaces

#: Between two columns the square of the cosine of whose angle is above this, one more round of rotations is made.
_ALMOST_ORTHOGONAL = 1e-18


@compiled
def subspaces(x: Array, weights: Array, p: Array, rounds: int, radius: float, block: int, blocks: Array) -> float:
    """Subspaces, as orthonormal bases.

    Rotations ``V`` make the columns of ``(p'x) V = W`` orthogonal: their lengths are the cosines of the principal angles ``t``,
    and those of ``(x - p p'x) V = D`` the sines. The logarithm is the sum of ``t/(sin t cos t)`` times a column of ``D`` times
    that of ``W``. Columns of ``blocks``: sums of the entries of the logarithm, of its squared length, and of the trace of the
    Hessian without the ones in the flat. ``rounds`` of rotations are made for all, and more only where these were not enough.
    """
    m, k, clip = x.shape[1], x.shape[2], radius < math.inf
    basis, rest, total = np.empty((m, k, LANES)), np.empty((m, k, LANES)), np.empty((m, k, LANES))
    inner, turn = np.empty((k, k, LANES)), np.empty((k, k, LANES))
    cosines, sines, angles, factors = np.empty((k, LANES)), np.empty((k, LANES)), np.empty((k, LANES)), np.empty((k, LANES))
    shares, lengths, curves, room = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty((4, LANES))
    one, two = room[0], room[1]
    lost, outside = np.zeros(LANES, dtype=np.bool_), np.zeros(LANES, dtype=np.bool_)
    farthest = 0.0
    for start in range(0, len(x), block):
        stop = min(start + block, len(x))
        total[:] = 0.0
        squares = hessian = 0.0
        for first in range(start, stop, LANES):
            count = min(LANES, stop - first)
            for z in range(LANES):
                record = x[first + min(z, count - 1)]
                for a in range(m):
                    for j in range(k):
                        basis[a, j, z] = record[a, j]
            if clip:
                _tidied_bases(basis, p, inner, turn, rest, lost)
            _products(basis, p, inner)
            _across(basis, p, inner, rest)
            _orthogonalise(inner, turn, rounds, room)
            for a in range(m):  # rest V, in place
                for j in range(k):
                    factors[j, :] = 0.0
                    for i in range(k):
                        for z in range(LANES):
                            factors[j, z] += rest[a, i, z] * turn[i, j, z]
                for i in range(k):
                    for z in range(LANES):
                        rest[a, i, z] = factors[i, z]
            lengths[:] = 0.0
            for j in range(k):
                one[:] = 0.0
                two[:] = 0.0
                for i in range(k):
                    for z in range(LANES):
                        one[z] += inner[i, j, z] * inner[i, j, z]
                for a in range(m):
                    for z in range(LANES):
                        two[z] += rest[a, j, z] * rest[a, j, z]
                for z in range(LANES):
                    cosine, sine = math.sqrt(one[z]), math.sqrt(two[z])
                    apart = 1.0 - cosine
                    angle, _ = chord_angle(two[z] + apart * apart, False)
                    lost[z] |= cosine <= _LOST
                    cosines[j, z], sines[j, z], angles[j, z] = cosine, sine, angle
                    factors[j, z] = (angle / sine if sine > 0.0 else 1.0) / cosine
                    lengths[z] += angle * angle
            if clip:
                for z in range(LANES):
                    length = math.sqrt(lengths[z])
                    outside[z] = (length > radius) & (not lost[z])
                    one[z] = radius / length if outside[z] else 1.0
                    one[z] = 0.0 if lost[z] else one[z]
                    lengths[z] *= one[z] * one[z]
                _moved_bases(rest, p, inner, cosines, sines, angles, factors, one, outside, basis)
                for z in range(count):
                    record = x[first + z]
                    for a in range(m):
                        for j in range(k):
                            record[a, j] = p[a, j] if lost[z] else basis[a, j, z]
                for z in range(LANES):
                    for j in range(k):
                        factors[j, z] = 0.0 if lost[z] else factors[j, z]
            _curves(cosines, sines, angles, m, curves)
            for z in range(LANES):
                shares[z] = weights[first + z] if z < count else 0.0
                squares += shares[z] * lengths[z]
                hessian += shares[z] * curves[z]
            for j in range(k):
                for z in range(LANES):
                    factors[j, z] *= shares[z]
            for a in range(m):
                for j in range(k):
                    for z in range(LANES):
                        rest[a, j, z] *= factors[j, z]
                for i in range(k):
                    for j in range(k):
                        for z in range(LANES):
                            total[a, i, z] += rest[a, j, z] * inner[i, j, z]
            farthest = max(farthest, lengths.max())
        row = blocks[start // block]
        for a in range(m):
            for i in range(k):
                row[a * k + i] = total[a, i].sum()
        row[m * k], row[m * k + 1] = squares, hessian
    return math.sqrt(farthest)


@compiled
def _products(basis: Array, p: Array, inner: Array) -> None:
    """``p' x``."""
    m, k = p.shape
    inner[:] = 0.0
    for a in range(m):
        for i in range(k):
            for j in range(k):
                for z in range(LANES):
                    inner[i, j, z] += p[a, i] * basis[a, j, z]


@compiled
def _across(basis: Array, p: Array, inner: Array, rest: Array) -> None:
    """``x - p inner``."""
    m, k = p.shape
    for a in range(m):
        for j in range(k):
            for z in range(LANES):
                rest[a, j, z] = basis[a, j, z]
            for i in range(k):
                for z in range(LANES):
                    rest[a, j, z] -= p[a, i] * inner[i, j, z]


@compiled
def _orthogonalise(columns: Array, turn: Array, rounds: int, room: Array) -> None:
    """Makes the columns orthogonal, in place, by one-sided rotations of Jacobi, whose product it leaves in ``turn``."""
    k = len(columns)
    off, a, b, c = room[0], room[1], room[2], room[3]
    for i in range(k):
        for j in range(k):
            turn[i, j, :] = 1.0 if i == j else 0.0
    made = 0
    while made < 40:
        off[:] = 0.0
        for i in range(k):
            for j in range(i + 1, k):
                a[:] = 0.0
                b[:] = 0.0
                c[:] = 0.0
                for n in range(k):
                    for z in range(LANES):
                        x, y = columns[n, i, z], columns[n, j, z]
                        a[z] += x * x
                        b[z] += y * y
                        c[z] += x * y
                for z in range(LANES):
                    off[z] = max(off[z], c[z] * c[z] / (a[z] * b[z] + 1e-300))
                    apart, twice = b[z] - a[z], 2.0 * c[z]
                    tangent = twice / (abs(apart) + math.sqrt(apart * apart + twice * twice) + 1e-300)
                    tangent = tangent if apart >= 0.0 else -tangent
                    a[z] = 1.0 / math.sqrt(1.0 + tangent * tangent)  # cosine and sine of the rotation
                    b[z] = a[z] * tangent
                _rotate(columns, i, j, a, b)
                _rotate(turn, i, j, a, b)
        made += 1
        if made >= rounds and off.max() <= _ALMOST_ORTHOGONAL:  # the last round has squared it
            return


@compiled
def _rotate(columns: Array, i: int, j: int, cosines: Array, sines: Array) -> None:
    for n in range(len(columns)):
        for z in range(LANES):
            x, y = columns[n, i, z], columns[n, j, z]
            columns[n, i, z], columns[n, j, z] = cosines[z] * x - sines[z] * y, sines[z] * x + cosines[z] * y


@compiled
def _tidied_bases(basis: Array, p: Array, gram: Array, step: Array, room: Array, lost: Flags) -> None:
    """Two steps of Newton and Schulz where bases are off by more than rounding, and ``p`` in the place of what is none."""
    m, k = p.shape
    off = np.empty(LANES)
    for time in range(2):
        _grams(basis, gram)
        if time == 0:
            off[:] = 0.0
            lost[:] = False
            for i in range(k):
                for j in range(k):
                    for z in range(LANES):
                        apart = abs(gram[i, j, z] - (1.0 if i == j else 0.0))
                        off[z] = max(off[z], apart)
                        lost[z] |= not apart <= TOLERANCE  # also if not a number
        for i in range(k):
            for j in range(k):
                for z in range(LANES):
                    step[i, j, z] = (1.5 if i == j else 0.0) - 0.5 * gram[i, j, z]
        for a in range(m):
            for j in range(k):
                for z in range(LANES):
                    room[a, j, z] = basis[a, 0, z] * step[0, j, z]
                for i in range(1, k):
                    for z in range(LANES):
                        room[a, j, z] += basis[a, i, z] * step[i, j, z]
        for a in range(m):
            for j in range(k):
                for z in range(LANES):
                    kept = room[a, j, z] if off[z] > TIDY else basis[a, j, z]
                    basis[a, j, z] = p[a, j] if lost[z] else kept


@compiled
def _grams(basis: Array, gram: Array) -> None:
    m, k = basis.shape[:2]
    gram[:] = 0.0
    for a in range(m):
        for i in range(k):
            for j in range(k):
                for z in range(LANES):
                    gram[i, j, z] += basis[a, i, z] * basis[a, j, z]


@compiled
def _moved_bases(
    rest: Array, p: Array, inner: Array, cosines: Array, sines: Array, angles: Array, factors: Array, shrinks: Array,
    outside: Flags, basis: Array,
) -> None:  # fmt: skip
    """Moves the bases that are outside along geodesics to the point, by shrinking the angles; all arrays then speak of them."""
    m, k = p.shape
    ons, offs, moved = np.empty((k, LANES)), np.empty((k, LANES)), np.empty(LANES)
    mixed, inner_scaled = np.empty((k, k, LANES)), np.empty((k, k, LANES))
    for j in range(k):
        for z in range(LANES):
            angle, old = shrinks[z] * angles[j, z], sines[j, z]
            sine, cosine = math.sin(angle), math.cos(angle)
            # the columns of W are as long as the old cosines, and those of the rest as the old sines
            ons[j, z] = cosine / (cosines[j, z] * cosines[j, z])
            offs[j, z] = (sine / old if old > 0.0 else shrinks[z]) / cosines[j, z]
            factors[j, z] *= shrinks[z]
            cosines[j, z], sines[j, z], angles[j, z] = cosine, sine, angle
    mixed[:] = 0.0
    for i in range(k):
        for n in range(k):
            for j in range(k):
                for z in range(LANES):
                    mixed[i, n, z] += inner[i, j, z] * ons[j, z] * inner[n, j, z]
    for j in range(k):
        for n in range(k):
            for z in range(LANES):
                inner_scaled[n, j, z] = inner[n, j, z] * offs[j, z]
    for a in range(m):
        for n in range(k):
            moved[:] = 0.0
            for j in range(k):
                for z in range(LANES):
                    moved[z] += p[a, j] * mixed[j, n, z] + rest[a, j, z] * inner_scaled[n, j, z]
            for z in range(LANES):
                basis[a, n, z] = moved[z] if outside[z] else basis[a, n, z]


@compiled
def _curves(cosines: Array, sines: Array, angles: Array, m: int, curves: Array) -> None:
    """The sum of ``t cot t`` over all sums and differences ``t`` of two angles, and ``m - 2k`` times over the angles."""
    k = len(angles)
    curves[:] = 0.0
    for j in range(k):
        for z in range(LANES):
            ratio = angles[j, z] / sines[j, z] if angles[j, z] > 1e-4 else 1.0
            curves[z] += (m - 2 * k) * ratio * cosines[j, z]
        for i in range(j):
            for z in range(LANES):
                cc, ss = cosines[i, z] * cosines[j, z], sines[i, z] * sines[j, z]
                sc, cs = sines[i, z] * cosines[j, z], cosines[i, z] * sines[j, z]
                both, apart = angles[i, z] + angles[j, z], angles[i, z] - angles[j, z]
                curves[z] += both * (cc - ss) / (sc + cs) if both > 1e-4 else 1.0
                curves[z] += apart * (cc + ss) / (sc - cs) if abs(apart) > 1e-4 else 1.0
