"""Splitting an amount of privacy among the parts of a release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from decimal import Decimal

from geodp.privacy.cost import concentrated_rho, selection_epsilon
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP


def split(privacy: Privacy, shares: Sequence[float]) -> list[Privacy]:
    """Splits an amount of privacy by ``shares``; the parts together cost at most the whole.

    Approximate privacy is split through pure epsilon or through rho, whichever leaves a selection the larger epsilon.

    >>> split(PureDP(1.0), [0.5, 0.5])[0].epsilon < 0.5, split(ZeroConcentratedDP(0.1), [1.0])[0].rho <= 0.1
    (True, True)
    """
    safe = [share * (1.0 - 1e-12) for share in shares]  # sums of floats round up
    if not isinstance(privacy, ApproximateDP):
        return [share_of(privacy, share) for share in safe]
    ways = PureDP(privacy.epsilon), ZeroConcentratedDP(concentrated_rho(privacy) or 0.0)
    return split(max(ways, key=lambda way: selection_epsilon(share_of(way, min(safe)))), shares)


def set_aside(privacy: Privacy, shares: Sequence[float]) -> tuple[list[Privacy], Privacy]:
    """Small parts of an amount of privacy, and the rest. Together they cost at most the whole. All of delta stays with the rest.

    >>> (count,), rest = set_aside(ApproximateDP(1.0, 1e-6), [0.1])
    >>> count.epsilon < 0.1, rest.epsilon < 0.9, rest.delta
    (True, True, 1e-06)
    """
    if not shares:
        return [], privacy
    rest = 1.0 - sum(shares)
    if isinstance(privacy, ApproximateDP):
        *parts, last = split(PureDP(privacy.epsilon), [*shares, rest])
        assert isinstance(last, PureDP)
        return parts, ApproximateDP(last.epsilon, privacy.delta)
    *parts, last = split(privacy, [*shares, rest])
    return parts, last


def share_of(privacy: Privacy, share: float) -> Privacy:
    """A part of an amount of privacy, including delta. This part and the remaining one together cost at most the whole.

    >>> share_of(ApproximateDP(1.0, 1e-6), 0.2)
    ApproximateDP(epsilon=0.2, delta=2e-07)
    """
    factor = math.sqrt(share) if isinstance(privacy, GaussianDP) else share  # the squares of mu add up
    return type(privacy)(*(value * factor for value in astuple(privacy)))


def multiple(privacy: Privacy, times: int) -> Privacy:
    """What so many releases spend together, if each spends this.

    >>> multiple(PureDP(0.1), 3), multiple(ApproximateDP(0.5, 1e-6), 4)
    (PureDP(epsilon=0.3), ApproximateDP(epsilon=2.0, delta=4e-06))
    """
    if isinstance(privacy, GaussianDP):
        return GaussianDP(math.nextafter(privacy.mu * math.sqrt(times), math.inf))
    return type(privacy)(*(_times(value, times) for value in astuple(privacy)))


def _times(amount: float, times: int) -> float:
    """A multiple of the decimal number that stands for a float, such as 0.3 for 3 times 0.1; never less than that."""
    exact = Decimal(repr(amount)) * times
    found = float(exact)
    return found if Decimal(repr(found)) >= exact else math.nextafter(found, math.inf)
