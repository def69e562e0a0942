"""What compiled passes share: records side by side in the lanes of vector registers, and functions of many numbers at once.

Importing this module imports numba; compiled code is kept on disk between runs. Compiled functions release the interpreter lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array

F = TypeVar("F", bound=Callable[..., Any])
Integers = NDArray[np.int64]

#: A row of sums is of at most so many records.
BLOCK = 256
#: Numbers in the lanes: few enough to stay in the cache.
NUMBERS = 8192


def compiled(function: F) -> F:
    # contraction and reassociation change only the order and the rounding of sums, which the error bounds allow for
    jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
    return cast(F, jit(function))


_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)
_FIRST, _SECOND = np.uint64(0xD6E8FEB86659FD93), np.uint64(0xBF58476D1CE4E5B9)


@compiled
def fingerprint(words: NDArray[np.uint64], weights: NDArray[np.uint64], keys: NDArray[np.uint64]) -> np.uint64:
    """The fingerprint of records, as :func:`geodp.solver.passes.fingerprint` defines it; ``weights`` may be empty."""
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
def natural_log(values: Array, count: int) -> None:
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
def exponential(values: Array, count: int) -> None:
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


@compiled
def largest(values: Array) -> float:
    """The largest of numbers that are not negative; of their bits, because only whole numbers are compared several at once."""
    bits, most = values.view(np.int64), np.zeros(1, dtype=np.int64)
    found = most[0]
    for i in range(len(bits)):
        found = max(found, bits[i])
    most[0] = found
    return float(most.view(np.float64)[0])


# ------------------------------------------------------------------ polynomials


@cache
def polynomial(first: int, end: float, degree: int) -> tuple[Array, float]:
    """Coefficients, the highest first, of the polynomial in ``s - middle`` that is a function on ``[0, end]``, and the middle.

    The function is ``1 + r_0 s + r_0 r_1 s^2 + ...`` with ``r_k = (2k + first)/(2k + 3)``: for 1 it is ``artanh(t)/t`` with
    ``s = t^2``, for 2 ``t/sin(t)`` with ``s = sin(t/2)^2``. The nodes are Chebyshev's, the arithmetic has fifty digits.
    """
    with localcontext() as context:
        context.prec = 50
        nodes = [Decimal(0.5 * end * (1.0 - math.cos(math.pi * (i + 0.5) / (degree + 1)))) for i in range(degree + 1)]
        quotients = []
        for s in nodes:
            total = term = Decimal(1)
            for k in range(10_000):
                term *= s * (2 * k + first) / (2 * k + 3)
                total += term
                if term < Decimal("1e-40"):
                    break
            quotients.append(total)
        for j in range(1, degree + 1):  # Newton's divided differences
            for i in range(degree, j - 1, -1):
                quotients[i] = (quotients[i] - quotients[i - 1]) / (nodes[i] - nodes[i - j])
        middle = Decimal(0.5 * end)
        found = [Decimal(0)] * (degree + 1)  # the constant first
        for node, quotient in zip(reversed(nodes), reversed(quotients), strict=True):
            shifted = [(middle - node) * c for c in found]
            found = [low + high for low, high in zip(shifted, [quotient, *found], strict=False)]
        return np.array([float(c) for c in reversed(found)]), float(middle)


@compiled
def horner(coefficients: Array, at: Array, out: Array, count: int) -> None:
    """The values of a polynomial whose degree is a multiple of four."""
    for z in range(count):
        out[z] = coefficients[0]
    for k in range(1, len(coefficients), 4):
        c0, c1, c2, c3 = coefficients[k], coefficients[k + 1], coefficients[k + 2], coefficients[k + 3]
        for z in range(count):
            s = at[z]
            out[z] = (((out[z] * s + c0) * s + c1) * s + c2) * s + c3


# ------------------------------------------------------------------ records of many groups


@compiled
def next_pieces(starts: Integers, at: Integers, lanes: int, pieces: Integers) -> tuple[int, int]:
    """Fills the lanes with the next records, of one group after another: how many pieces they are, and how many lanes.

    ``at`` holds the group, the record and the row of sums to go on with. A piece, a row of ``pieces``, has a group, a first
    record, a number of records, a first lane and a row. A row is for at most :data:`BLOCK` records, all of one group.
    """
    count = filled = 0
    while at[0] < len(starts) - 1:
        begin, end = starts[at[0]], starts[at[0] + 1]
        rest = min(end - at[1], BLOCK - (at[1] - begin) % BLOCK)
        if rest == 0:
            at[0] += 1
            continue
        number = min(rest, lanes)
        if filled + number > lanes:
            break
        piece = pieces[count]
        piece[0], piece[1], piece[2], piece[3], piece[4] = at[0], at[1], number, filled, at[2]
        count, filled = count + 1, filled + number
        at[1] += number
        at[2] += number == rest
    return count, filled


@compiled
def newton_steps(hessians: Array, logs: Array, steps: Array) -> None:
    """Solves for Newton's steps; the logarithms themselves where a Hessian is not positive, as it may be far from the mean."""
    d = logs.shape[1]
    room = np.empty((d, d))
    for g in range(len(logs)):
        trace = 0.0
        for i in range(d):
            trace += hessians[g, i, i]
            steps[g, i] = logs[g, i]
            for j in range(i + 1):
                room[i, j] = hessians[g, i, j]
        good = trace < math.inf
        for j in range(d):  # the factors L D L' of the Hessian
            good &= room[j, j] > 1e-6 * trace
            for i in range(j + 1, d):
                share = room[i, j] / room[j, j]
                for m in range(j + 1, i + 1):
                    room[i, m] -= share * room[m, j]
                steps[g, i] -= share * steps[g, j]
        for j in range(d - 1, -1, -1):
            for i in range(j + 1, d):
                steps[g, j] -= room[i, j] * steps[g, i]
            steps[g, j] /= room[j, j]
        if not good:
            for i in range(d):
                steps[g, i] = logs[g, i]
