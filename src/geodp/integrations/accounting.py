r"""Converts costs to privacy loss distributions and events of Google's dp-accounting, and charges theirs to a ledger.

Needs the extra ``geodp[accounting]``. There are three functions:

* :func:`loss_distribution` turns a cost (of a release, or of all charges of a budget) into a ``PrivacyLossDistribution``, which
  composes with those of other mechanisms, such as training with noisy gradients. The epsilon of composed losses is usually lower
  than a sum of epsilons or of rhos gives.
* :func:`event_of` turns a cost into a ``DpEvent`` for their accountants.
* :func:`charge` charges another program's mechanism, an event or a loss distribution, to a ledger.

*Composition here assumes that every cost was fixed in advance.* If a cost depends on earlier answers, only a ledger's total is
a guarantee.

*Neighbours.* A loss distribution does not record its kind of neighbours, and composing two with different kinds is meaningless.
A budget records its own (``ledger.budget(name).neighbours``). This module avoids two traps of dp-accounting 0.6. Its
accountants mean different things by ``REPLACE_ONE``: the one for loss distributions doubles the sensitivity of an event, the one
for Rényi divergences does not. And the former ignores how often a composed ``RandomizedResponseDpEvent`` happens.

>>> from geodp.privacy.cost import LaplaceCost, compose
>>> cost = compose([LaplaceCost(0.5, 6)] * 20)
>>> round(cost.epsilon_at(1e-6), 2), round(loss_distribution(cost).get_epsilon_for_delta(1e-6), 2)
(4.71, 4.23)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from flint import arb

try:
    from dp_accounting import dp_event
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, identity
    from dp_accounting.privacy_accountant import NeighboringRelation, UnsupportedEventError
except ImportError:  # an extra that is installed wherever the tests run
    raise ImportError("geodp.integrations.accounting needs dp-accounting: pip install 'geodp[accounting]'") from None

from geodp.arithmetic.intervals import working_precision
from geodp.inputs import real_number
from geodp.privacy.cost import (
    ApproximateCost,
    ConcentratedCost,
    Cost,
    GaussianCost,
    LaplaceCost,
    PureCost,
    SumCost,
    compose,
    leaves,
)
from geodp.privacy.curves import upper_float
from geodp.privacy.groups import group_cost
from geodp.privacy.neighbours import KNOWN, Unit, sentence
from geodp.privacy.notions import ApproximateDP, Privacy, privacy_of

if TYPE_CHECKING:
    from geodp.privacy.ledger import Charge, Ledger

__all__ = ["charge", "event_of", "loss_distribution"]

#: Points of a curve that a distribution is made from, and the delta beyond which losses count as infinite.
_POINTS, _TAIL = 400, 1e-18
#: Their convolutions round to floats, which would swamp a smaller delta.
_LEAST_DELTA = 1e-11
_BITS = 160


# ---------------------------------------------------------------------- ours to theirs


def loss_distribution(cost: Cost, interval: float = 1e-4) -> PrivacyLossDistribution:
    """A privacy loss distribution that dominates the cost: in any composition with it, the epsilon is an upper bound.

    Losses are multiples of ``interval``. Distributions can be composed only if they have the same one (1e-4 is the default of
    dp-accounting too). It holds for the neighbours of the cost.

    *Theorem.* A curve ``h(a) = delta(log a)`` of a pair of laws is convex and decreasing. So it lies below the broken line
    through upper bounds at any points, and below its convex hull, and beyond the last point below that one's value. The broken
    line is itself the curve of a pair of laws, whose losses are its corners: ``p_j = a_j (slope after - slope before)``
    (Doroshenko et al. 2022). A pair with a higher curve can be turned into the given one without the data, also inside a
    composition. Points and masses are enclosed in exact arithmetic and rounded up. Later dp-accounting applies fast Fourier
    transforms, which round to floats, to the result: do not trust a delta below 1e-11.

    >>> from geodp.privacy.cost import GaussianCost
    >>> pair = loss_distribution(GaussianCost(0.3)).compose(loss_distribution(GaussianCost(0.4)))
    >>> exact, found = GaussianCost(0.5).epsilon_at(1e-6), pair.get_epsilon_for_delta(1e-6)
    >>> exact <= found < 1.001 * exact
    True
    """
    interval = real_number(interval, "the interval")
    if not 0.0 < interval <= 1.0:
        raise ValueError(f"the interval must be above 0 and at most 1 but is {interval:g}")
    whole = identity(interval)
    for part, times in _summed(cost).items():
        whole = whole.compose(PrivacyLossDistribution(_dominating(part, interval)).self_compose(times))
    return whole


def _summed(cost: Cost) -> Counter[Cost]:
    """The parts of a cost and how often each occurs. Parts whose sum is known are added up exactly."""
    parts = Counter(leaves([cost]))
    for kind, number in ((GaussianCost, "mu"), (ConcentratedCost, "rho")):
        same = {part: times for part, times in parts.items() if isinstance(part, kind)}
        if len(same) > 1 or sum(same.values()) > 1:
            total = getattr(SumCost(tuple(Counter(same).elements())), number)
            parts = Counter({part: times for part, times in parts.items() if part not in same})
            parts[kind(total)] += 1
    return parts


def _dominating(cost: Cost, interval: float) -> pld_pmf.PLDPmf:
    """The corners of the broken line above a curve, and the probability of an infinite loss."""
    # a little to the left of the points, where the curve is higher: their product with the interval is rounded
    bounds = {k: cost.delta_at(k * interval * (1.0 - 1e-15)) for k in _grid(cost, interval)}
    with working_precision(_BITS):
        width = arb(interval)
        above = {k: arb(delta) for k, delta in bounds.items()}
        # exchange the two laws: delta(-e) = 1 - exp(-e) (1 - delta(e))
        below = {-k: 1 - (-k * width).exp() * (1 - delta) for k, delta in above.items() if k > 0}
        corners = _lower_hull([(k, (k * width).exp(), delta) for k, delta in sorted({**below, **above}.items())])
        slopes = [(later[2] - first[2]) / (later[1] - first[1]) for first, later in pairwise(corners)]
        slopes = [(corners[0][2] - 1) / corners[0][1], *slopes, arb(0)]
        masses = {
            corner[0]: max(0.0, upper_float(corner[1] * (after - before)))
            for corner, before, after in zip(corners, slopes[:-1], slopes[1:], strict=True)
        }
        beyond = upper_float(corners[-1][2])
    return pld_pmf.create_pmf(masses, discretization=interval, infinity_mass=beyond, pessimistic_estimate=True)


def _grid(cost: Cost, interval: float) -> list[int]:
    """Where to evaluate a curve, as multiples of the interval from 0: evenly spaced, and on both sides of a pure epsilon."""
    pure = cost.limit if isinstance(cost, ApproximateCost) else cost.epsilon
    if isinstance(cost, PureCost | ApproximateCost):  # a straight line except for these two corners
        ends = {math.floor(pure / interval), math.floor(pure / interval) + 1}
        return sorted({0, *ends})
    end = 1.0 if math.isinf(pure) else pure
    while math.isinf(pure) and cost.delta_at(end) > _TAIL:
        end *= 2.0
    low = 0.0
    for _ in range(12):  # the end need not be exact
        middle = 0.5 * (low + end)
        low, end = (middle, end) if cost.delta_at(middle) > _TAIL else (low, middle)
    last = math.floor(end / interval) + 1
    count = _POINTS * (1 if isinstance(cost, LaplaceCost) else 8)
    return sorted({round(last * i / count) for i in range(count)} | {last - 1, last})


def _lower_hull(points: list[tuple[int, arb, arb]]) -> list[tuple[int, arb, arb]]:
    """The corners of the largest convex function below points. Keeps only points certainly below their neighbours' chord."""
    hull: list[tuple[int, arb, arb]] = []
    for point in points:
        while len(hull) > 1:
            (_, a, p), (_, b, q), (_, c, r) = hull[-2], hull[-1], point
            if (q - p) * (c - b) < (r - q) * (b - a):
                break
            hull.pop()
        hull.append(point)
    return hull


def event_of(cost: Cost, accountant: Literal["pld", "rdp"] = "pld") -> dp_event.DpEvent:
    """A cost as an event for one of their accountants, ``PLDAccountant`` or ``RdpAccountant``, never with a smaller epsilon.

    The accountant's own relation must be ``ADD_OR_REMOVE_ONE``, for any kind of neighbours: the cost already includes it, and
    with ``REPLACE_ONE`` an accountant of loss distributions would double it. Laplace noise in several dimensions has no event.
    For loss distributions it is charged as pure, for Rényi divergences as zero-concentrated; :func:`loss_distribution` is
    tighter than either.

    >>> from geodp.privacy.cost import GaussianCost
    >>> event_of(GaussianCost(0.5))
    GaussianDpEvent(noise_multiplier=2.0)
    """
    if accountant not in ("pld", "rdp"):
        raise ValueError(f"accountant must be 'pld' or 'rdp' but is {accountant!r}")
    made = [
        event if times == 1 else dp_event.SelfComposedDpEvent(event, times)
        for part, times in Counter(leaves([cost])).items()
        for event in [_event(part, accountant)]
    ]
    return made[0] if len(made) == 1 else dp_event.ComposedDpEvent(made)


def _event(cost: Cost, accountant: str) -> dp_event.DpEvent:
    if isinstance(cost, GaussianCost):
        return dp_event.GaussianDpEvent(_inverse_below(cost.shift))
    if accountant == "rdp" and math.isfinite(cost.rho):
        return dp_event.ZCDpEvent(cost.rho)
    if isinstance(cost, LaplaceCost) and cost.dim == 1:
        return dp_event.LaplaceDpEvent(_inverse_below(cost.ratio))
    if accountant == "pld" and math.isfinite(cost.epsilon):
        # its loss is plus or minus its parameter, like that of randomised response, and it may be composed many times
        return dp_event.DiscreteLaplaceDpEvent(cost.epsilon, 1)
    kind = {"pld": "their privacy loss distributions", "rdp": "their Rényi divergences"}[accountant]
    raise ValueError(f"a claim of {type(cost).__name__.removesuffix('Cost').lower()} privacy has no event for {kind}")


def _inverse_below(value: float) -> float:
    found = 1.0 / value
    return found if found * value <= 1.0 and 1.0 / found >= value else math.nextafter(found, 0.0)


# ---------------------------------------------------------------------- theirs to ours


def charge(
    ledger: Ledger,
    dataset: str,
    theirs: dp_event.DpEvent | PrivacyLossDistribution,
    *,
    what: str,
    neighbours: str,
    unit: Unit | None = None,
    delta: float | None = None,
) -> Charge:
    """Charges another program's mechanism to a ledger, before it is run.

    ``theirs`` is a ``DpEvent``, such as an optimiser's record of its training, or a ``PrivacyLossDistribution``. ``neighbours``
    (``"replace"`` or ``"add-remove"``) and ``unit`` (``"record"`` or ``"person"``) say for which neighbours; the library cannot
    check this. Gaussian, Laplace and zero-concentrated events
    have a cost in every unit. Others (subsampling, mixtures, a distribution) are charged as the epsilon that dp-accounting
    finds at ``delta``, and only to a budget in epsilon and delta. Its discretisation makes that an upper bound, and we ask for
    it at 0.999 ``delta``, which leaves room for the rounding of its transforms.

    Events describe a sum to which one record adds at most 1. If neighbours replace a record, the sum moves by at most 2.

    >>> import tempfile, geodp
    >>> from dp_accounting import dp_event
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = geodp.Ledger(f"sqlite:///{folder}/budget.db")
    ...     ledger.open("cohort", epsilon=3, delta=1e-5, neighbours="add-remove")
    ...     step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    ...     training = dp_event.SelfComposedDpEvent(step, 500)
    ...     entry = charge(ledger, "cohort", training, what="a classifier", neighbours="add-remove", delta=1e-6)
    >>> print(round(entry.epsilon, 2), entry.delta)
    1.58 0.000001
    """
    about = sentence(neighbours, unit)
    cost = _cost(theirs, about, delta)
    privacy = _privacy_to_charge(cost, ledger.budget(dataset).unit, delta)
    return ledger.charge(dataset, cost=cost, privacy=privacy, neighbours=about, what=what)


def _privacy_to_charge(cost: Cost, unit: str, delta: float | None) -> Privacy:
    """The privacy to charge: in the unit of the budget if the cost has it, else epsilon at a delta."""
    number = unit.partition(" ")[0]
    if math.isfinite(value := getattr(cost, number)):
        return privacy_of(**{number: value})
    if isinstance(cost, ApproximateCost):
        return ApproximateDP(cost.limit, cost.slack)
    if delta is None:
        raise ValueError(f"this mechanism has no {number} of its own: charge a budget in epsilon and delta, and give delta")
    return ApproximateDP(cost.epsilon_at(delta), delta)


def _cost(theirs: Any, neighbours: str, delta: float | None) -> Cost:
    """The cost that is known for their mechanism."""
    if isinstance(theirs, PrivacyLossDistribution):
        return _at(theirs.get_epsilon_for_delta, delta)
    if not isinstance(theirs, dp_event.DpEvent):
        raise TypeError(f"charge a DpEvent or a PrivacyLossDistribution, not an object of type {type(theirs).__name__}")
    size = _changes(neighbours)
    events = [event for event in _events(theirs) if not isinstance(event, dp_event.NoOpDpEvent)]
    if not events:
        raise ValueError("this event does nothing: there is nothing to charge")
    known = [_known(event) for event in events]
    if None not in known:
        return group_cost(compose(cost for cost in known if cost is not None), size)
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE if size == 1 else NeighboringRelation.REPLACE_ONE
    accountant = PLDAccountant(relation)
    try:
        accountant.compose(dp_event.ComposedDpEvent(events))
    except UnsupportedEventError:
        raise ValueError(
            f"dp-accounting has no privacy loss distribution of this event for the neighbours {neighbours!r}: make one yourself, "
            "and charge that"
        ) from None
    return _at(accountant.get_epsilon, delta)


def _changes(neighbours: str) -> int:
    """How many records are added to or removed from a sum between neighbours."""
    known = KNOWN.get(neighbours)
    if known is None or known.or_replace:
        raise ValueError(f"neighbours must be 'replace' or 'add-remove' but is {neighbours!r}")
    return 1 if known.change == "add-remove" else 2


def _events(event: dp_event.DpEvent) -> Iterator[dp_event.DpEvent]:
    """The events that an event consists of. Randomised response is repeated one by one, since its count would be ignored."""
    match event:
        case dp_event.ComposedDpEvent():
            for part in event.events:
                yield from _events(part)
        case dp_event.SelfComposedDpEvent():
            inner = list(_events(event.event))
            if len(inner) == 1 and not isinstance(inner[0], dp_event.RandomizedResponseDpEvent):
                yield dp_event.SelfComposedDpEvent(inner[0], event.count)
            else:
                for _ in range(event.count):
                    yield from inner
        case _:
            yield event


def _known(event: dp_event.DpEvent) -> Cost | None:
    """The cost for adding or removing one record, for an event whose curve this library knows; else None."""
    match event:
        case dp_event.SelfComposedDpEvent():
            inner = _known(event.event)
            return None if inner is None else compose([inner] * event.count)
        case dp_event.GaussianDpEvent() if event.noise_multiplier > 0.0:
            return GaussianCost(math.nextafter(1.0 / event.noise_multiplier, math.inf))
        case dp_event.LaplaceDpEvent() if event.noise_multiplier > 0.0:
            return LaplaceCost(math.nextafter(1.0 / event.noise_multiplier, math.inf), 1)
        case dp_event.ZCDpEvent() if event.xi == 0.0:
            return ConcentratedCost(event.rho)
    return None


def _at(epsilon_at: Any, delta: float | None) -> Cost:
    if delta is None:
        raise ValueError("the epsilon of this mechanism is known only at a delta: give delta")
    slack = ApproximateDP(1.0, delta).delta
    if slack < _LEAST_DELTA:
        raise ValueError(f"delta must be at least {_LEAST_DELTA:g}, since dp-accounting rounds to floats, but is {slack:g}")
    epsilon = float(epsilon_at(0.999 * slack))
    if not epsilon < math.inf:
        raise ValueError(f"this mechanism has no epsilon at delta {slack:g}: it reveals everything with a larger probability")
    return ApproximateCost(max(epsilon, 1e-12), slack)
