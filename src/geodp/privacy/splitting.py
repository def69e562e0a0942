"""Splitting an amount of privacy among the parts of a release."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    match privacy:
        case PureDP():
            return [PureDP(privacy.epsilon * share) for share in safe]
        case ZeroConcentratedDP():
            return [ZeroConcentratedDP(privacy.rho * share) for share in safe]
        case GaussianDP():
            return [GaussianDP(privacy.mu * math.sqrt(share)) for share in safe]
        case ApproximateDP():
            rho = concentrated_rho(privacy) or 0.0
            pure, concentrated = PureDP(privacy.epsilon * min(safe)), ZeroConcentratedDP(rho * min(safe))
            better = selection_epsilon(concentrated) > selection_epsilon(pure)
            return split(ZeroConcentratedDP(rho) if better else PureDP(privacy.epsilon), shares)
    raise TypeError(f"{privacy!r} is not a notion of privacy")


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
    match privacy:
        case GaussianDP():
            return GaussianDP(privacy.mu * math.sqrt(share))
        case ApproximateDP():
            return ApproximateDP(privacy.epsilon * share, privacy.delta * share)
        case ZeroConcentratedDP():
            return ZeroConcentratedDP(privacy.rho * share)
        case PureDP():
            return PureDP(privacy.epsilon * share)
    raise TypeError(f"{privacy!r} is not a notion of privacy")


def multiple(privacy: Privacy, times: int) -> Privacy:
    """What so many releases spend together, if each spends this.

    >>> multiple(PureDP(0.1), 3), multiple(ApproximateDP(0.5, 1e-6), 4)
    (PureDP(epsilon=0.3), ApproximateDP(epsilon=2.0, delta=4e-06))
    """
    match privacy:
        case GaussianDP():
            return GaussianDP(math.nextafter(privacy.mu * math.sqrt(times), math.inf))
        case ApproximateDP():
            return ApproximateDP(_times(privacy.epsilon, times), _times(privacy.delta, times))
        case ZeroConcentratedDP():
            return ZeroConcentratedDP(_times(privacy.rho, times))
        case PureDP():
            return PureDP(_times(privacy.epsilon, times))
    raise TypeError(f"{privacy!r} is not a notion of privacy")


def _times(amount: float, times: int) -> float:
    """A multiple of the decimal number that stands for a float, such as 0.3 for 3 times 0.1; never less than that."""
    exact = Decimal(repr(amount)) * times
    found = float(exact)
    return found if Decimal(repr(found)) >= exact else math.nextafter(found, math.inf)


def half(privacy: Privacy) -> Privacy:
    """What each of two releases may spend so that both together stay within an amount of privacy.

    >>> half(ApproximateDP(1.0, 1e-6)).delta < 5.1e-7, half(GaussianDP(1.0)).mu < 0.70711
    (True, True)
    """
    return one_of(privacy, 2)


def one_of(privacy: Privacy, releases: int) -> Privacy:
    """What each of some releases may spend so that all together stay within an amount of privacy.

    >>> one_of(PureDP(1.0), 50).epsilon <= 0.02, one_of(GaussianDP(1.0), 4).mu <= 0.5
    (True, True)
    """
    return share_of(privacy, (1.0 - 1e-12) / releases)  # sums of floats round up
