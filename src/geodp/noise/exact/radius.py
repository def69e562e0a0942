r"""The distance of a draw from its centre, as an exact real number.

The radial density is ``f(s) = g(s) s^(d-1) G(s)`` on ``(0, D)``, with ``g`` the Laplace or the Gaussian kernel and
``G(s) = prod_j sn_j(b_j s)^(N_j)``, ``sn(x) = sin(x)/x`` or ``sinh(x)/x``. Each factor of ``f(s) = const * g(s)
s^(d-1-N) prod_j sin_j(b_j s)^(N_j)`` is log-concave where it is positive, so ``h = log f`` is concave and lies
below each of its tangents. Two of them, at points ``a`` and ``b`` to the left and to the right of the mode, make a
roof: two exponential densities, back to back, which are easy to draw from. A draw ``s`` from the roof is kept with
probability ``f(s) / roof(s)``.

The points ``a`` and ``b`` are found in floating point, which is harmless: *any* two floats with ``h'(a) > 0 >
h'(b)`` make a valid roof, because height and slope are then computed at exactly those two points, in balls. The
choice affects only the speed. Everything here is a function of the manifold, the scale and the family, which are public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple, final

from flint import arb, ctx

from geodp.arithmetic.entropy import Tape
from geodp.arithmetic.intervals import Undecided, interval, less, square_root
from geodp.manifolds import Manifold
from geodp.manifolds.roots import VolumeBound
from geodp.noise.flat import Family

#: How far below the mode (in ``h``) the tangents touch. 1/2 is best for a bell shape and good for others.
_DROP = 0.5

#: If volume grows exponentially, coordinates of points farther out than this have thousands of digits.
FARTHEST = 1e4


@final
@dataclass(frozen=True)
class RadialLaw:
    """The law of the radius: an envelope, a scale given as an exact rational number, and a kernel.

    The envelope is the product ``G`` of the factors of ``bound``, in dimension ``dim`` and out to the diameter of the manifold.
    ``square_diameter`` is ``(diameter / pi)^2``; None: no diameter.
    """

    dim: int
    bound: VolumeBound
    square_diameter: Fraction | None
    sigma: Fraction
    family: Family

    @classmethod
    def on(cls, manifold: Manifold, sigma: Fraction, family: Family) -> RadialLaw:
        roots = manifold.roots
        return cls(manifold.dim, roots.volume_bound, roots.square_diameter, sigma, family)

    def log_envelope(self, radius: arb) -> arb:
        """``log G``."""
        total = arb(0)
        for factor, rate in zip(self.bound.factors, self._constants()[1], strict=True):
            x = rate * radius
            total += factor.power * (x.sinc() if factor.sign > 0 else x.sinh() / x).log()
        return total

    def end(self) -> arb | None:
        return None if self.square_diameter is None else arb.pi() * square_root(self.square_diameter)

    def _constants(self) -> tuple[arb, list[arb]]:
        """The scale, and the rates of the factors."""
        if ctx.prec not in self._kept_constants:
            rates = [square_root(factor.square_rate) for factor in self.bound.factors]
            self._kept_constants[ctx.prec] = interval(self.sigma), rates
        return self._kept_constants[ctx.prec]

    @cached_property
    def _kept_constants(self) -> dict[int, tuple[arb, list[arb]]]:
        """By precision."""
        return {}

    def roof(self) -> Roof:
        """The roof in balls of the working precision."""
        if ctx.prec not in self._kept_roofs:
            self._kept_roofs[ctx.prec] = _roof(self)
        return self._kept_roofs[ctx.prec]

    @cached_property
    def _kept_roofs(self) -> dict[int, Roof]:
        """By precision."""
        return {}

    @cached_property
    def origin_power(self) -> int:
        """The power of ``s`` that is left besides the factors."""
        return self.dim - 1 - sum(factor.power for factor in self.bound.factors)

    def height(self, s: arb) -> arb:
        """``h(s)``, up to a constant."""
        sigma, rates = self._constants()
        x = s / sigma
        total = -x if self.family == "laplace" else -x * x / 2
        if self.origin_power:
            total += self.origin_power * s.log()
        for factor, rate in zip(self.bound.factors, rates, strict=True):
            x = rate * s
            total += factor.power * (x.sin() if factor.sign > 0 else x.sinh()).log()
        return total

    def slope(self, s: arb) -> arb:
        """``h'(s)``."""
        sigma, rates = self._constants()
        total = -1 / sigma if self.family == "laplace" else -s / (sigma * sigma)
        if self.origin_power:
            total += self.origin_power / s
        for factor, rate in zip(self.bound.factors, rates, strict=True):
            total += factor.power * rate * ((rate * s).cot() if factor.sign > 0 else (rate * s).coth())
        return total


class Tangent(NamedTuple):
    """The line ``start + slope * s`` that touches ``h`` at a float."""

    slope: arb
    start: arb

    @classmethod
    def at(cls, law: RadialLaw, point: float) -> Tangent:
        s = arb(point)
        slope = law.slope(s)
        return cls(slope, law.height(s) - slope * s)


class Side(NamedTuple):
    """One half of the roof: it falls at ``rate`` over ``length`` (None: infinite), with ``sense`` -1 to the left, 1 to the right.

    ``fade`` is ``exp(-rate * length) - 1`` and ``mass`` the area below, in units of the height of the ridge.
    """

    sense: int
    rate: arb
    fade: arb
    mass: arb

    @classmethod
    def of(cls, sense: int, rate: arb, length: arb | None) -> Side:
        if rate <= 0:
            raise ArithmeticError("a tangent of the radial law touches on the wrong side of its mode")
        if not rate > 0:
            raise Undecided
        fade = arb(-1) if length is None else (-rate * length).expm1()
        return cls(sense, rate, fade, -fade / rate)


class Roof(NamedTuple):
    """Two tangents of ``h`` that meet at ``ridge``, or one of them if ``h`` is monotone."""

    ridge: arb
    top: arb
    sides: tuple[Side, ...]

    def propose(self, law: RadialLaw, tape: Tape) -> arb | None:
        """One trial: a radius, or None if it was rejected."""
        side = self.sides[0]
        if len(self.sides) == 2:
            left, right = self.sides
            side = left if less(tape.uniform() * (left.mass + right.mass), left.mass) else right
        fall = -(tape.uniform() * side.fade).log1p()  # an exponential variable, truncated at the end of the side
        radius = self.ridge + side.sense * fall / side.rate
        return radius if less(tape.uniform().log(), law.height(radius) - (self.top - fall)) else None


def _roof(law: RadialLaw) -> Roof:
    points = touching_points(law)
    end = law.end()
    left = None if points.left is None else Tangent.at(law, points.left)
    right = None if points.right is None else Tangent.at(law, points.right)
    if left and right:
        ridge = (right.start - left.start) / (left.slope - right.slope)
        rest = None if end is None else end - ridge
        return Roof(ridge, left.start + left.slope * ridge, (Side.of(-1, left.slope, ridge), Side.of(1, -right.slope, rest)))
    if right:
        return Roof(arb(0), right.start, (Side.of(1, -right.slope, end),))
    assert left is not None
    assert end is not None
    return Roof(end, left.start + left.slope * end, (Side.of(-1, left.slope, end),))


class TouchingPoints(NamedTuple):
    """Where the tangents touch: left and right of the mode, None on a side where ``h`` does not fall."""

    left: float | None
    right: float | None


@lru_cache(maxsize=256)
def touching_points(law: RadialLaw) -> TouchingPoints:
    """Points about :data:`_DROP` below the mode, by bisection in floating point."""
    height, slope = _in_floats(law)
    turns = law.square_diameter
    end = math.inf if turns is None else math.pi * math.sqrt(turns)
    if law.origin_power == 0 and not law.bound.factors:
        mode = 0.0
    else:
        low = high = min(float(law.sigma), 0.5 * end)
        while slope(low) <= 0.0:
            low *= 0.5
        while high < end and slope(high) > 0.0:
            high *= 2.0
        mode = _bisect(lambda s: slope(s) > 0.0, low, min(high, end))
    if law.bound.square_growth and mode > FARTHEST:
        raise ValueError(f"at sigma = {float(law.sigma):.6g} noise would go as far as {mode:.6g}, which is too far for floats")
    top = height(mode) if mode > 0.0 else 0.0
    left = _bisect(lambda s: height(s) < top - _DROP, 0.0, mode) if mode > 0.0 else None
    if end - mode <= 1e-3 * end < math.inf:
        return TouchingPoints(left, None)
    far = mode + float(law.sigma)
    while far < end and height(far) > top - _DROP:
        far = 2.0 * far - mode
    if far >= end and height(end) > top - _DROP:
        return TouchingPoints(left, 0.5 * (mode + end))
    return TouchingPoints(left, _bisect(lambda s: height(s) > top - _DROP, mode, min(far, end)))


def usual_bits(law: RadialLaw, rate: float) -> float:
    """Bits that are enough, but for one draw in ``2^RARE``, if rounding takes ``rate`` of them for each unit of the radius.

    With so many, and ``RARE`` more, that is true of draws up to the right tangent's point. Past it the density falls at least as
    fast as that tangent does, mostly faster than rounding takes bits; if not, draws up to some multiple of it are counted. For
    laws without an end. Decides the speed alone.
    """
    right = touching_points(law).right
    assert right is not None
    fall = -_in_floats(law)[1](right) / math.log(2.0)
    farther = min(7.0 * right, RARE / fall)
    return rate * right + max(rate - fall, 0.0) * farther


#: A draw may take twice its time once in two to this power.
RARE = 80.0


def _bisect(on_the_left: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(64):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if on_the_left(middle) else (low, middle)
    return 0.5 * (low + high)


def _in_floats(law: RadialLaw) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """``h`` and ``h'`` in ordinary arithmetic."""
    sigma, power = float(law.sigma), law.origin_power
    factors = [(f.power, math.sqrt(f.square_rate), f.sign) for f in law.bound.factors]

    def height(s: float) -> float:
        if s <= 0.0:
            return -math.inf
        x = s / sigma
        total = (-x if law.family == "laplace" else -0.5 * x * x) + power * math.log(s)
        for n, rate, sign in factors:
            x = rate * s
            if sign > 0:
                total += n * math.log(math.sin(x)) if math.sin(x) > 0.0 else -math.inf
            else:
                total += n * (x + math.log(-math.expm1(-2.0 * x)))
        return total

    def slope(s: float) -> float:
        total = (-1.0 / sigma if law.family == "laplace" else -s / sigma / sigma) + power / s
        return total + sum(n * rate / (math.tan(rate * s) if sign > 0 else math.tanh(rate * s)) for n, rate, sign in factors)

    return height, slope
