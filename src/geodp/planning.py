"""The error of a release before anything is spent, or what an error would take."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar, final, get_args

from geodp.arithmetic.bracketing import zero_between
from geodp.inputs import moderate_length, real_number, whole_number
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.manifolds.notation import Notation
from geodp.noise.choice import Candidate, MechanismName, SensitivityBound, candidates
from geodp.noise.flat import Family, FlatNoise
from geodp.noise.intrinsic import IntrinsicMechanism, intrinsic_cost, projection_is_safe, widest_drawable
from geodp.noise.mechanism import Mechanism
from geodp.noise.tangent import TangentMechanism, tangent_cost
from geodp.privacy.cost import Cost
from geodp.privacy.notions import ApproximateDP, Privacy, PureDP, privacy_of
from geodp.release import takes
from geodp.request import Plan, Request, Statistic
from geodp.statistics.mean import Mean
from geodp.statistics.sensitivity import Bound

Found = TypeVar("Found")

#: The numbers that a plan can solve for.
Unknown = Literal["epsilon", "rho", "mu"]


@takes()
def plan(
    ball: Ball,
    n: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    error: float | None = None,
    quantile: float | None = None,
    solve: Unknown = "epsilon",
    releases: int | None = None,
    mechanism: MechanismName = "auto",
    law: Family | None = None,
    bound: Bound = "sharp",
    layout: str | None = None,
) -> Plan:
    """Plans a release from two of ``n``, the privacy and ``error``, and computes the third. Reads no data.

    Give the privacy as for :func:`geodp.private_mean`. ``error`` is the largest expected error, or with ``quantile`` the error
    that is not exceeded with that probability. If the privacy is computed, ``solve`` names its notion; you may then give a
    ``delta``, and the plan finds the epsilon for it. With ``releases`` the plan also says which budget that many
    releases need, and how it should add up. ``layout`` is the layout of the future records (``geodp layouts``): with ``"latlon"``
    the plan also gives kilometres.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> ball = Ball(Sphere(2), center=[0.0, 0.0, 1.0], radius=np.pi / 8)
    >>> round(plan(ball, n=100, epsilon=1.0).expected_error, 5)
    0.01657
    >>> plan(ball, epsilon=1.0, error=0.01).n
    166
    >>> round(plan(ball, n=100, error=0.01).epsilon, 3)
    1.657
    """
    statistic = Mean(ball, bound)
    notation = Notation(ball.manifold) if layout is None else Notation.named(ball.manifold, layout)
    privacy = None if (epsilon, rho, mu) == (None, None, None) else privacy_of(epsilon, delta, rho, mu)
    given = [name for name, value in (("n", n), ("the privacy", privacy), ("error", error)) if value is not None]
    if len(given) != 2:
        raise ValueError(f"a plan needs two of n, the privacy and error but was given {' and '.join(given) or 'none of them'}")
    quantile = None if quantile is None else real_number(quantile, "the quantile")
    if quantile is not None and (error is None or not 0.0 < quantile < 1.0):
        raise ValueError("a quantile goes with an error to reach, and lies between 0 and 1")
    if solve not in get_args(Unknown):
        raise ValueError(f"what is solved for must be one of {', '.join(get_args(Unknown))} but is {solve!r}")
    if error is not None:
        goal = _Goal(statistic, _positive(error), quantile, mechanism, law)
        if privacy is not None:
            n = goal.records(privacy)
        else:
            assert n is not None
            privacy = goal.privacy(n, solve, delta)
    assert n is not None
    assert privacy is not None
    found = Request(statistic, privacy, mechanism=mechanism, law=law).plan(n)
    found.check()
    return replace(
        found, written=notation, releases=None if releases is None else whole_number(releases, 1, "the number of releases")
    )


def _positive(error: float) -> float:
    value = real_number(error, "the error to reach")
    if not 0.0 < value < math.inf:
        raise ValueError(f"the error to reach must be positive and finite but is {value}")
    return moderate_length(value, "the error to reach")


@final
@dataclass(frozen=True)
class _Goal:
    """A target error. For each mechanism it gives the largest scale, and from that the records or the privacy needed."""

    statistic: Statistic
    error: float
    quantile: float | None
    mechanism: MechanismName
    law: Family | None

    def records(self, privacy: Privacy) -> int:
        """The fewest records for which some mechanism reaches the target error."""
        return min(_possible(self._records, self._candidates(privacy)))

    def _records(self, candidate: Candidate) -> int:
        room = self._largest_scale(candidate) * candidate.ratio * (1.0 + 1e-9)
        tolerance = self._sensitivity(candidate, 2**62)
        if tolerance >= room:
            raise ValueError(
                f"no number of records is enough: {tolerance / candidate.ratio:.3g} of the scale is rounding in this ball"
            )
        low, high = 0, 1
        while self._sensitivity(candidate, high) > room:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._sensitivity(candidate, middle) > room else (low, middle)
        return high

    def privacy(self, n: int, solve: Unknown, delta: float | None) -> Privacy:
        """The least privacy for which some mechanism reaches the target error."""
        if delta is not None and solve != "epsilon":
            raise ValueError(f"a delta goes with an epsilon, not with a {solve}")
        # any amount works here: the list of mechanisms depends only on the notion
        example = privacy_of(**{solve: 1.0}, delta=delta)

        def needed(candidate: Candidate) -> Privacy:
            ratio = self._sensitivity(candidate, n) / self._largest_scale(candidate)
            return _kept(self._cost(candidate, ratio), example)

        return min(_possible(needed, self._candidates(example)), key=lambda each: each.size)

    def _candidates(self, privacy: Privacy) -> list[Candidate]:
        return candidates(self._bound(2**62), privacy, mechanism=self.mechanism, law=self.law)

    def _bound(self, n: int) -> SensitivityBound:
        return Request(self.statistic, PureDP(1.0)).plan(n).bound

    def _sensitivity(self, candidate: Candidate, n: int) -> float:
        bound = self._bound(n)
        return bound.sensitivity if candidate.kind == "intrinsic" else bound.tangent_sensitivity or math.inf

    def _cost(self, candidate: Candidate, ratio: float) -> Cost:
        assert candidate.ratio  # raises if this notion has none
        manifold = self.statistic.codomain
        if candidate.kind == "intrinsic":
            return intrinsic_cost(manifold, candidate.family, ratio)
        return tangent_cost(manifold.dim, candidate.family, ratio)

    def _largest_scale(self, candidate: Candidate) -> float:
        """The largest scale whose error is at most the goal's."""
        manifold: Manifold = self.statistic.codomain
        ball: Any = self.statistic.hull
        cost = self._cost(candidate, 1.0)
        intrinsic = candidate.kind == "intrinsic"

        @cache
        def excess(log_scale: float) -> float:
            scale = math.exp(log_scale)
            noise: Mechanism
            if intrinsic:
                noise = IntrinsicMechanism(scale, candidate.family, cost, manifold, ball, projection_is_safe(ball))
            else:
                noise = TangentMechanism(scale, candidate.family, cost, ball)
            reached = noise.expected_error() if self.quantile is None else noise.error_quantile(self.quantile)
            return math.log(reached / self.error)

        # computing with wide noise is slow, so the search starts from the answer in a flat space
        unit = FlatNoise(manifold.dim, 1.0, candidate.family)
        flat = unit.mean_length() if self.quantile is None else unit.length_quantile(self.quantile)
        widest = widest_drawable(manifold, candidate.family) * (1.0 - 1e-12) if intrinsic else math.inf
        most = math.log(min(widest, 100.0 * self.error, 1e3 * manifold.diameter))
        low = high = min(math.log(self.error / flat), most)
        step = 0.2
        while excess(low) > 0.0:
            high, low, step = low, low - step, 2.0 * step
        while excess(high) <= 0.0:
            if high == most:
                return math.exp(most)
            low, high, step = high, min(high + step, most), 2.0 * step
        return math.exp(zero_between(excess, low, high, absolute=1e-11))


def _possible(answer: Callable[[Candidate], Found], tried: list[Candidate]) -> list[Found]:
    """The answers of the mechanisms that have one; raises the first one's reason if none has."""
    found: list[Found] = []
    reasons: list[ValueError] = []
    for candidate in tried:
        try:
            found.append(answer(candidate))
        except ValueError as reason:
            reasons.append(reason)
    if not found:
        raise ValueError(str(reasons[0])) from None
    return found


def _kept(cost: Cost, example: Privacy) -> Privacy:
    """The least privacy, in the notion of the example, that a cost stays within."""
    if isinstance(example, ApproximateDP):
        return ApproximateDP(cost.epsilon_at(example.delta), example.delta)
    return privacy_of(**{example.number: getattr(cost, example.number)})
