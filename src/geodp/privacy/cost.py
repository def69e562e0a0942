r"""The cost of a release as a whole privacy curve, and the least noise for a given amount of privacy.

A :class:`Cost` bounds everything anyone can learn about whether a data set or its neighbour was used. Every number errs on
the safe side: bounds on a loss are rounded up. :func:`compose` adds costs. :func:`laplace_ratio`, :func:`gaussian_shift`,
:func:`pure_epsilon` and :func:`concentrated_rho` go the other way, from an amount of privacy to the noise that it requires.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, ClassVar, final

from flint import arb

from geodp.arithmetic.bracketing import zero_between
from geodp.arithmetic.intervals import working_precision
from geodp.inputs import real_number
from geodp.privacy.curves import (
    LaplaceCurve,
    concentrated_delta,
    gaussian_delta,
    minimum,
    pure_delta,
    selection_delta,
    upper_float,
)
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP

#: Searches end within this relative distance of the best parameter, on the side where the claim holds.
_CLOSE = 1e-11
#: Ratios of sensitivity to scale beyond which there is practically no privacy.
_HUGE = 1e4


@dataclass(frozen=True)
class Cost(ABC):
    """The privacy that one release, or several together, spend."""

    #: The name that receipts and ledgers store.
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float | int) and not 0.0 < value < math.inf:
                raise ValueError(f"the {field.name} of a cost must be positive and finite but is {value}")

    @property
    def epsilon(self) -> float:
        """The pure epsilon; infinite if there is none."""
        return math.inf

    @property
    def rho(self) -> float:
        """The rho of zero-concentrated privacy; infinite if there is none."""
        return math.inf

    @property
    def mu(self) -> float:
        """The mu of Gaussian privacy; infinite if none is known."""
        return math.inf

    @abstractmethod
    def delta_enclosure(self, epsilon: float) -> arb:
        """An enclosure of a bound on ``delta`` at ``epsilon >= 0``."""

    @final
    def delta_at(self, epsilon: float) -> float:
        """A ``delta`` for which this cost is ``(epsilon, delta)``-private.

        >>> round(GaussianCost(1.0).delta_at(1.0), 6)
        0.126937
        """
        epsilon = real_number(epsilon, "epsilon")
        if not 0.0 <= epsilon < math.inf:
            raise ValueError(f"epsilon must be at least 0 and finite but is {epsilon}")
        found = self.delta_enclosure(epsilon)
        return 0.0 if found == 0 else min(max(upper_float(found), 0.0), 1.0)

    @final
    def epsilon_at(self, delta: float) -> float:
        """An ``epsilon`` for which this cost is ``(epsilon, delta)``-private; infinite if none is known.

        >>> round(GaussianCost(1.0).epsilon_at(1e-6), 4), LaplaceCost(1.0, 2).epsilon_at(1e-6) < 1.0
        (4.8866, True)
        """
        delta = ApproximateDP(1.0, real_number(delta, "delta")).delta
        if self.delta_at(0.0) <= delta:
            return 0.0
        most = 1.0
        while self.delta_at(most) > delta:
            most *= 2.0
            if most > 1e12:  # some costs reveal everything with probability above delta
                return self.epsilon

        def excess(epsilon: float) -> float:
            return math.log(max(self.delta_at(epsilon), 1e-320) / delta)

        epsilon = zero_between(excess, 0.0, most, absolute=1e-300, relative=1e-11)
        step = _CLOSE
        while self.delta_at(epsilon) > delta:  # move to the side where the claim holds
            epsilon, step = epsilon * (1.0 + step), 2.0 * step
        return min(epsilon, self.epsilon)

    @property
    @final
    def advantage(self) -> float:
        """How much better than guessing anyone can tell which of two neighbouring data sets was used: ``delta`` at 0."""
        return self.delta_at(0.0)

    @final
    def tradeoff(self, alpha: float) -> float:
        """The least type-II error (false negatives) of a test between neighbours with type-I error (false positives) ``alpha``.

        ``sup 1 - delta(e) - exp(e) alpha`` over the curve. For ``e < 0`` the curve follows by exchanging the two data sets:
        ``delta(-e) = 1 - exp(-e) (1 - delta(e))``. Any ``e`` gives a true bound.

        >>> round(GaussianCost(1.0).tradeoff(0.05), 4)
        0.7405
        """
        alpha = real_number(alpha, "alpha")
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"alpha must be between 0 and 1 but is {alpha}")

        def miss(e: float) -> float:
            delta = self.delta_at(abs(e))
            return 1.0 - delta - math.exp(e) * alpha if e >= 0.0 else math.exp(e) * (1.0 - delta - alpha)

        # miss is concave in exp(e), so it has one peak; beyond these ends it is not positive, or the curve is known to end
        far = min(self.epsilon, 40.0)
        best = minimum(lambda e: -miss(e), -far, far, steps=50)
        # less what rounding may have added
        return max(0.0, max(miss(best), miss(-far), miss(far)) * (1.0 - 1e-14) - 1e-15)

    @final
    def meets(self, privacy: Privacy) -> bool:
        """Whether this cost stays within an amount of privacy."""
        if isinstance(privacy, ApproximateDP):
            return self.delta_at(privacy.epsilon) <= privacy.delta
        spent: float = getattr(self, privacy.number)
        return spent <= privacy.size

    def to_dict(self) -> dict[str, Any]:
        """Its kind and parameters, for receipts and ledgers."""
        return {"kind": self.kind, **asdict(self)}

    def __str__(self) -> str:
        named = {"epsilon": self.epsilon, "rho": self.rho, "mu": self.mu}
        return ", ".join(f"{name} {value:.4g}" for name, value in named.items() if math.isfinite(value))


@final
@dataclass(frozen=True)
class PureCost(Cost):
    """Only ``epsilon`` is known, so the curve is that of randomised response, which reveals most.

    *Gaussian privacy.* The trade-off function of randomised response consists of two lines that meet where both errors are
    ``1/(1 + exp(epsilon))``. The trade-off function of ``N(0, 1)`` against ``N(mu, 1)`` is convex, has the same ends, and passes
    through that point if ``Phi(-mu/2) = 1/(1 + exp(epsilon))``, that is ``erf(mu/sqrt(8)) = tanh(epsilon/2)``. So it lies below.

    >>> cost = PureCost(1.0)
    >>> round(cost.advantage, 4), round(cost.rho, 4), round(cost.mu, 4)
    (0.4621, 0.4621, 1.232)
    """

    bound: float
    kind: ClassVar[str] = "pure"

    @property
    def epsilon(self) -> float:
        return self.bound

    @property
    def rho(self) -> float:
        return _up(self.bound * math.tanh(0.5 * self.bound))

    @property
    def mu(self) -> float:
        if self.bound < 1.0:  # Phi(-mu/2) is near 1/2, where the other formula loses digits
            with working_precision(96):
                return _up(math.sqrt(8.0) * float((arb(self.bound) / 2).tanh().erfinv()))
        return _up(-2.0 * NormalDist().inv_cdf(1.0 / (1.0 + math.exp(self.bound)))) if self.bound < 36.0 else math.inf

    def delta_enclosure(self, epsilon: float) -> arb:
        return pure_delta(self.bound, epsilon)


@final
@dataclass(frozen=True)
class SelectionCost(Cost):
    """A choice by the exponential mechanism: the privacy loss lies in an interval of length ``bound`` that contains 0.

    So it is ``bound``-private, and ``bound^2/8``-zero-concentrated (Cesar and Rogers 2021, by Hoeffding's lemma). Its curve is
    the largest one under this condition (:mod:`geodp.privacy.curves`).

    >>> SelectionCost(0.4).rho
    0.020000000000000004
    """

    bound: float
    kind: ClassVar[str] = "selection"

    @property
    def epsilon(self) -> float:
        return self.bound

    @property
    def rho(self) -> float:
        return _float_above(Fraction(self.bound) ** 2 / 8)

    @property
    def mu(self) -> float:
        return PureCost(self.bound).mu

    def delta_enclosure(self, epsilon: float) -> arb:
        return selection_delta(self.bound, epsilon)


@final
@dataclass(frozen=True)
class LaplaceCost(Cost):
    """Laplace noise in ``R^dim`` whose centres are at most ``ratio`` scales apart (:mod:`geodp.privacy.curves`).

    >>> [round(LaplaceCost(1.0, dim).advantage, 3) for dim in (1, 2, 3, 6)]
    [0.393, 0.296, 0.242, 0.168]
    """

    ratio: float
    dim: int
    kind: ClassVar[str] = "laplace"

    @property
    def epsilon(self) -> float:
        return self.ratio

    @property
    def rho(self) -> float:
        return _laplace_rho(self.ratio, self.dim)

    @property
    def mu(self) -> float:
        return PureCost(self.ratio).mu

    def delta_enclosure(self, epsilon: float) -> arb:
        return _laplace_delta(self.ratio, self.dim, epsilon)


@lru_cache(maxsize=1024)
def _laplace_rho(ratio: float, dim: int) -> float:
    # the loss is at most the ratio; for huge ratios that is as good as any bound, and their Bessel functions overflow
    return ratio if ratio > _HUGE else upper_float(LaplaceCurve(ratio, dim).mean_loss())


@lru_cache(maxsize=1024)
def _laplace_delta(ratio: float, dim: int, epsilon: float) -> arb:
    return pure_delta(ratio, epsilon) if ratio > _HUGE else LaplaceCurve(ratio, dim).delta(epsilon)


@final
@dataclass(frozen=True)
class GaussianCost(Cost):
    """Gaussian noise in ``R^d`` whose centres are at most ``shift`` standard deviations apart; the dimension does not matter."""

    shift: float
    kind: ClassVar[str] = "gaussian"

    @property
    def rho(self) -> float:
        return _float_above(Fraction(self.shift) ** 2 / 2)

    @property
    def mu(self) -> float:
        return self.shift

    def delta_enclosure(self, epsilon: float) -> arb:
        return gaussian_delta(self.shift, epsilon)


@final
@dataclass(frozen=True)
class ConcentratedCost(Cost):
    """Only ``rho`` is known."""

    bound: float
    kind: ClassVar[str] = "concentrated"

    @property
    def rho(self) -> float:
        return self.bound

    def delta_enclosure(self, epsilon: float) -> arb:
        return concentrated_delta(self.bound, epsilon)


@final
@dataclass(frozen=True)
class ApproximateCost(Cost):
    """Only one pair ``(limit, slack)`` is known: ``epsilon`` and ``delta`` of another mechanism.

    The worst such mechanism reveals everything with probability ``delta``, and is randomised response otherwise.
    """

    limit: float
    slack: float
    kind: ClassVar[str] = "approximate"

    def delta_enclosure(self, epsilon: float) -> arb:
        return arb(self.slack) + (1 - arb(self.slack)) * pure_delta(self.limit, epsilon)


@final
@dataclass(frozen=True)
class SumCost(Cost):
    """Several costs together; each query may be chosen after seeing what the earlier ones released.

    Pure epsilons add up, and so do rhos and the squares of mus (Rogers et al. 2016; Feldman and Zrnic 2021; Smith and Thakurta
    2022). The curve is the lowest of the bounds that follow from these sums.

    *Parts of which only one* ``(epsilon_i, delta_i)`` *is known.* Such a mechanism can be made, without the data, from one that
    reveals everything with probability ``delta_i`` and otherwise is randomised response with ``epsilon_i`` (Kairouz, Oh and
    Viswanath 2015). For any data, the probability that any of them reveals everything is at most ``D``, the sum of the
    ``delta_i``. If none does, the parts compose like pure ones with ``epsilon_i``, so
    ``delta(epsilon) <= D + (1 - D) delta'(epsilon)``, where ``delta'`` is the curve with the ``epsilon_i`` in their place.

    *What is fixed.* These are the costs that were paid. If the costs themselves were chosen after seeing earlier answers, the
    guarantee is only a total that was fixed in advance and never exceeded, as a ledger keeps it.

    >>> total = compose([LaplaceCost(0.5, 6)] * 4)
    >>> total.epsilon, round(total.rho, 4), round(total.epsilon_at(1e-6), 3)
    (2.0, 0.0832, 1.938)
    >>> round(compose([GaussianCost(0.6), GaussianCost(0.8)]).mu, 9)
    1.0
    >>> round(compose([ApproximateCost(1.0, 1e-7), PureCost(1.0)]).epsilon_at(1e-6), 3)
    2.0
    """

    parts: tuple[Cost, ...]
    kind: ClassVar[str] = "sum"

    @property
    def epsilon(self) -> float:
        return _sum_above(part.epsilon for part in self.parts)

    @property
    def rho(self) -> float:
        return _sum_above(part.rho for part in self.parts)

    @property
    def mu(self) -> float:
        return _norm_above(part.mu for part in self.parts)

    def delta_enclosure(self, epsilon: float) -> arb:
        slack, total_epsilon, rho, mu = self._sums
        bounds = [arb(1)]
        if math.isfinite(total_epsilon):
            bounds.append(pure_delta(total_epsilon, epsilon))
        if 0.0 < rho < math.inf:
            bounds.append(concentrated_delta(rho, epsilon))
        if 0.0 < mu < math.inf:
            bounds.append(gaussian_delta(mu, epsilon))
        best = min(bounds, key=upper_float)
        return slack + (1 - slack) * best if slack < 1 else arb(1)

    @cached_property
    def _sums(self) -> tuple[arb, float, float, float]:
        """The sum of the deltas of approximate parts, and epsilon, rho and mu of everything else."""
        parts = list(leaves(self.parts))
        slack = sum((arb(part.slack) for part in parts if isinstance(part, ApproximateCost)), arb(0))
        rest = SumCost(tuple(PureCost(part.limit) if isinstance(part, ApproximateCost) else part for part in parts))
        return slack, rest.epsilon, rest.rho, rest.mu

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}


def leaves(parts: Iterable[Cost]) -> Iterator[Cost]:
    """The costs that sums consist of, including those of nested sums."""
    for part in parts:
        if isinstance(part, SumCost):
            yield from leaves(part.parts)
        else:
            yield part


_KINDS: dict[str, type[Cost]] = {
    cost.kind: cost for cost in (PureCost, SelectionCost, LaplaceCost, GaussianCost, ConcentratedCost, ApproximateCost)
}


def cost_from_dict(stored: dict[str, Any]) -> Cost:
    """The cost that :meth:`Cost.to_dict` describes.

    >>> cost_from_dict(LaplaceCost(1.0, 3).to_dict())
    LaplaceCost(ratio=1.0, dim=3)
    """
    parameters = dict(stored)
    kind = parameters.pop("kind")
    if kind == SumCost.kind:
        return SumCost(tuple(cost_from_dict(part) for part in parameters["parts"]))
    return _KINDS[kind](**parameters)


def compose(costs: Iterable[Cost]) -> Cost:
    """The cost of all of them together. A single cost is returned as it is."""
    parts = tuple(costs)
    return parts[0] if len(parts) == 1 else SumCost(parts)


def cost_of(privacy: Privacy) -> Cost:
    """The cost of a mechanism of which only the claimed privacy is known."""
    match privacy:
        case PureDP():
            return PureCost(privacy.epsilon)
        case ApproximateDP():
            return ApproximateCost(privacy.epsilon, privacy.delta)
        case ZeroConcentratedDP():
            return ConcentratedCost(privacy.rho)
        case GaussianDP():
            return GaussianCost(privacy.mu)
    raise TypeError(f"{privacy!r} is not a notion of privacy")


# ---------------------------------------------------------------------- from privacy to noise


def laplace_ratio(privacy: Privacy, dim: int) -> float | None:
    """The largest ratio of sensitivity to scale at which Laplace noise in ``R^dim`` keeps the privacy; None if none is known.

    >>> [round(laplace_ratio(ApproximateDP(1.0, 1e-6), dim), 3) for dim in (2, 21, 78)]
    [1.0, 1.314, 2.205]
    """
    return None if isinstance(privacy, GaussianDP) else _affordable(LaplaceCost, privacy, dim)


def gaussian_shift(privacy: Privacy) -> float | None:
    """The largest ratio of sensitivity to standard deviation at which Gaussian noise keeps the privacy; None for pure privacy.

    >>> round(gaussian_shift(ApproximateDP(1.0, 1e-6)), 4), round(gaussian_shift(ZeroConcentratedDP(0.5)), 4)
    (0.2367, 1.0)
    """
    return None if isinstance(privacy, PureDP) else _affordable(GaussianCost, privacy)


def pure_epsilon(privacy: Privacy) -> float:
    """The largest pure epsilon that implies the privacy.

    >>> pure_epsilon(PureDP(1.0)), round(pure_epsilon(ZeroConcentratedDP(0.5)), 4)
    (1.0, 1.0436)
    """
    return _affordable(PureCost, privacy)


def selection_epsilon(privacy: Privacy) -> float:
    """The largest epsilon of an exponential mechanism that keeps the privacy.

    >>> round(selection_epsilon(ZeroConcentratedDP(0.02)), 9)
    0.4
    """
    return _affordable(SelectionCost, privacy)


def concentrated_rho(privacy: Privacy) -> float | None:
    """The largest rho that implies the privacy; None if none does.

    >>> round(concentrated_rho(ApproximateDP(1.0, 1e-6)), 5)
    0.02436
    """
    return _affordable(ConcentratedCost, privacy) if isinstance(privacy, ApproximateDP | ZeroConcentratedDP) else None


@lru_cache(maxsize=1024)
def _affordable(kind: Callable[..., Cost], privacy: Privacy, *dim: int) -> float:
    """The largest parameter of a kind of cost that meets the privacy, found by search and checked by enclosures."""

    def cost(parameter: float) -> Cost:
        return kind(parameter, *dim)

    def excess(parameter: float) -> float:
        """The logarithm of the spent amount over the allowed amount, cut off far below zero."""
        if isinstance(privacy, ApproximateDP):
            return max(math.log(max(cost(parameter).delta_at(privacy.epsilon), 1e-320) / privacy.delta), -50.0)
        return math.log(max(getattr(cost(parameter), privacy.number), 1e-320) / privacy.size)

    return _largest(lambda parameter: cost(parameter).meets(privacy), excess, _guess(kind, privacy, *dim))


def _guess(kind: Callable[..., Cost], privacy: Privacy, dim: int = 1) -> float:
    """A starting value. In many dimensions Laplace noise is nearly Gaussian with variance ``ratio^2 / dim``."""
    match privacy:
        case PureDP():
            return privacy.epsilon
        case ApproximateDP() if kind is LaplaceCost:
            flat = _affordable(GaussianCost, privacy) * math.sqrt(dim)
            return max(flat, privacy.epsilon * (1.0 + 1e-9))
        case ApproximateDP():
            # delta falls like exp(-(epsilon/mu)^2 / 2)
            mu = min(privacy.epsilon / math.sqrt(2.0 * math.log(2.0 / privacy.delta) + privacy.epsilon), 1e150)
            guesses: dict[Callable[..., Cost], float] = {GaussianCost: mu, ConcentratedCost: 0.5 * mu**2}
            return guesses.get(kind, privacy.epsilon)
        case ZeroConcentratedDP():
            guesses = {ConcentratedCost: privacy.rho, SelectionCost: math.sqrt(8.0 * privacy.rho)}
            return guesses.get(kind, math.sqrt(2.0 * privacy.rho * dim))
    return privacy.size


def _largest(kept: Callable[[float], bool], excess: Callable[[float], float], guess: float) -> float:
    """The largest parameter for which ``kept`` holds, up to :data:`_CLOSE`. ``excess`` increases, and is positive beyond it."""
    for near in (guess, guess * (1.0 - 4e-16), guess * (1.0 - 2e-15)):  # exact guesses from closed forms, up to rounding
        if kept(near) and not kept(near * (1.0 + _CLOSE)):
            return near
    low = high = guess
    step = 0.01
    if excess(guess) > 0.0:
        while excess(low) > 0.0:
            high, low, step = low, low / (1.0 + step), 4.0 * step
    else:
        while excess(high) <= 0.0:
            low, high, step = high, high * (1.0 + step), 4.0 * step
    found = zero_between(excess, low, high, absolute=1e-300, relative=0.1 * _CLOSE)
    step = _CLOSE
    while not kept(found):
        found, step = found * (1.0 - step), 2.0 * step
    return float(found)


# ---------------------------------------------------------------------- rounding up


def _up(value: float) -> float:
    """The value increased by more than a few rounding errors."""
    return math.nextafter(value * (1.0 + 1e-14), math.inf)


def _float_above(value: Fraction) -> float:
    if value > sys.float_info.max:
        return math.inf
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _sum_above(values: Iterable[float]) -> float:
    listed = list(values)
    return _float_above(sum(map(Fraction, listed), Fraction(0))) if all(map(math.isfinite, listed)) else math.inf


def _norm_above(values: Iterable[float]) -> float:
    listed = list(values)
    if not all(map(math.isfinite, listed)):
        return math.inf
    square = sum((Fraction(value) ** 2 for value in listed), Fraction(0))
    near = math.hypot(*listed)
    while Fraction(near) ** 2 < square:
        near = math.nextafter(near, math.inf)
    return near
