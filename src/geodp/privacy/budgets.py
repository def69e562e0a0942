"""How budgets add up: in pure epsilon, in epsilon and delta separately, in rho, or in mu.

In each of these units the costs of releases add up even if every query, and its cost, is chosen after seeing the earlier
answers, as long as a total that was fixed in advance is never exceeded (a *privacy filter*):

======================  ===============================================  ======================================================
unit                    what must not exceed the total                   theorem
======================  ===============================================  ======================================================
epsilon                 the sum of the epsilons                          Rogers, Roth, Ullman and Vadhan 2016
epsilon and delta       the sum of the epsilons, and that of the deltas  Rogers, Roth, Ullman and Vadhan 2016
rho                     the sum of the rhos                              Feldman and Zrnic 2021; Whitehouse et al. 2023
mu                      the sum of the squares of mu                     Smith and Thakurta 2022
======================  ===============================================  ======================================================

A budget in epsilon and delta may also be kept *through rho*: its total is then the largest rho that implies the two (Canonne,
Kamath and Steinke 2020). That admits more releases if they are many and small, and fewer if they are few.
:func:`releases_admitted` counts them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple, Unpack, final

from geodp.inputs import describe
from geodp.privacy.amounts import (
    Amount,
    Numbers,
    amount_of,
    decimal_above,
    decimal_below,
    exact_number,
    float_above,
    float_below,
    in_steps,
    root,
    shown_above,
)
from geodp.privacy.cost import ApproximateCost, ConcentratedCost, Cost, GaussianCost, PureCost, SumCost, concentrated_rho, cost_of
from geodp.privacy.neighbours import REPLACE_ONE
from geodp.privacy.notions import ApproximateDP, Privacy
from geodp.showing import Row

#: The names of the kinds of cost in messages.
_CALLED = {
    PureCost.kind: "a claim of epsilon",
    GaussianCost.kind: "Gaussian noise",
    ConcentratedCost.kind: "a claim of rho",
    ApproximateCost.kind: "a claim of epsilon and delta",
    SumCost.kind: "this sum of costs",
}


class NoPrice(ValueError):
    """A release has no finite amount in a budget's unit. The message says why and what would work."""


class EpsilonDelta(NamedTuple):
    """An amount of a budget that adds epsilons and deltas separately."""

    epsilon: Decimal
    delta: Decimal


@final
@dataclass(frozen=True)
class Unit:
    """The numbers ``names`` that a budget adds up, each separately and to the power ``power``."""

    names: tuple[str, ...]
    power: int
    #: Its name in messages.
    words: str
    #: How charges add up, in words.
    rule: str
    #: Advice for a release that has no amount in this unit.
    remedy: str

    def price(self, asked: Amount, cost: Cost) -> Amount:
        """What a release costs in this unit: the requested amount if it is in this unit, else a bound from its cost."""
        if tuple(asked.numbers) == self.names:
            return asked
        pair = len(self.names) == 2
        if pair and asked.epsilon is not None:
            return Amount(epsilon=asked.epsilon, delta=Decimal(0))
        found: float = getattr(cost, self.names[0])
        if not math.isfinite(found):
            called = _CALLED.get(cost.kind, "this mechanism")
            raise NoPrice(f"{called} has no {'pure epsilon' if pair else self.words}: {self.remedy}")
        price = Amount(**{self.names[0]: decimal_above(found)})
        return Amount(epsilon=price.epsilon, delta=Decimal(0)) if pair else price

    def spent(self, charges: Iterable[Amount]) -> Amount:
        """The exact sum; for mu its root, rounded up."""
        return self._of(root(steps, self.power, up=True) for steps in self._sums(charges))

    def left(self, total: Amount, charges: Iterable[Amount]) -> Amount:
        """The largest amount that may still be charged: exact; for mu rounded down."""
        sums = zip(self._sums([total]), self._sums(charges), strict=True)
        return self._of(root(max(most - spent, 0), self.power) for most, spent in sums)

    def fits(self, price: Amount, total: Amount, charges: Iterable[Amount]) -> bool:
        """Whether one more charge does not exceed the total, in exact arithmetic."""
        sums = zip(self._sums([*charges, price]), self._sums([total]), strict=True)
        return all(spent <= most for spent, most in sums)

    def value(self, amount: Amount) -> Decimal | EpsilonDelta:
        """The number, or the pair of numbers, for callers."""
        numbers = [amount.numbers[name] for name in self.names]
        return EpsilonDelta(*numbers) if len(numbers) == 2 else numbers[0]

    def __str__(self) -> str:
        """As ledgers store it."""
        return " and ".join(self.names)

    def _sums(self, amounts: Iterable[Amount]) -> list[int]:
        """For each name the exact sum of powers, in steps to that power."""
        listed = [amount.numbers for amount in amounts]
        return [sum(in_steps(numbers[name]) ** self.power for numbers in listed) for name in self.names]

    def _of(self, numbers: Iterable[Decimal]) -> Amount:
        return Amount(**dict(zip(self.names, numbers, strict=True)))


PURE = Unit(
    ("epsilon",),
    1,
    "pure epsilon",
    "epsilons add up",
    "ask for epsilon alone, or charge a budget in epsilon and delta, rho or mu",
)
PAIR = Unit(
    ("epsilon", "delta"),
    1,
    "epsilon and delta",
    "epsilons add up, and so do deltas",
    "ask for epsilon and delta, or charge a budget in rho or one opened with compose='rho'",
)
RHO = Unit(
    ("rho",),
    1,
    "rho",
    "rhos add up",
    "state its epsilon alone, rho or mu, or charge a budget in epsilon and delta opened with compose='sum'",
)
MU = Unit(
    ("mu",),
    2,
    "known mu",
    "squares of mu add up",
    "ask for mu or for epsilon alone, or charge a budget in rho or in epsilon and delta",
)

#: Units by the names that ledgers store.
UNITS = {str(unit): unit for unit in (PURE, PAIR, RHO, MU)}


@final
@dataclass(frozen=True)
class Terms:
    """A total, the unit in which it is spent, and the neighbours it protects.

    ``promise`` is the privacy that was asked for. It equals the total, except for epsilon and delta that are kept through rho.
    Terms are equal if they mean the same budget: a rho that follows from epsilon and delta may differ in its last digits.
    """

    promise: Amount
    unit: Unit
    total: Amount = field(compare=False)
    neighbours: str = REPLACE_ONE

    @property
    def through_rho(self) -> bool:
        """Whether the total is a rho computed from epsilon and delta."""
        return self.promise != self.total

    @property
    def rule(self) -> str:
        """How charges add up, in words."""
        return f"{self.unit.rule}, to the largest rho that implies {self.promise}" if self.through_rho else self.unit.rule

    def __str__(self) -> str:
        """As in "open with a total epsilon of 1"."""
        numbers = " and ".join(f"{name} of {value}" for name, value in self.promise.numbers.items())
        added = ", added through rho" if self.through_rho else ", added plainly" if self.unit is PAIR else ""
        about = "" if self.neighbours == REPLACE_ONE else f", neighbours: {self.neighbours}"
        return f"{numbers}{added}{about}"


def terms_of(compose: str | None = None, neighbours: str = REPLACE_ONE, **numbers: Unpack[Numbers]) -> Terms:
    """The terms of a budget that is given in exactly one notion.

    >>> print(terms_of(epsilon=1, delta=1e-6, compose="rho").rule)
    rhos add up, to the largest rho that implies epsilon 1 and delta 1e-06
    >>> terms_of(epsilon=1, delta=1e-6, compose="rho").total.rho
    Decimal('0.0243559703592')
    """
    promise = amount_of(**numbers)
    unit = UNITS[" and ".join(promise.numbers)]
    if compose not in (None, "sum", "rho"):
        raise ValueError(f"compose must be 'sum' or 'rho' but is {describe(compose)}")
    if compose is not None and unit is not PAIR:
        raise ValueError(f"compose is for budgets in epsilon and delta, and this one is in {unit.names[0]}: leave it out")
    if compose == "rho":
        return Terms(promise, RHO, Amount(rho=_rho_that_implies(promise)), neighbours)
    return Terms(promise, unit, promise, neighbours)


def _rho_that_implies(promise: Amount) -> Decimal:
    """The largest rho that implies epsilon and delta, rounded down. The search uses floats no larger than the two."""
    floats = [float_below(promise.numbers[name]) for name in ("epsilon", "delta")]
    found = concentrated_rho(ApproximateDP(*floats))
    total = decimal_below(found or 0.0)
    if total <= 0:
        raise ValueError(f"no rho of 30 digits implies {promise}: add them up plainly, with compose='sum'")
    return total


def releases_admitted(cost: Cost, privacy: Privacy, *, compose: str | None = None, **numbers: Unpack[Numbers]) -> int:
    """How many releases of one cost, each requested as ``privacy``, a new budget admits; 0 if it admits none.

    For a few releases at (1, 1e-6) in 78 dimensions the plain sum admits more, for many at (0.1, 1e-8) the sum through rho:

    >>> from geodp.privacy.cost import LaplaceCost, laplace_ratio
    >>> for privacy in (ApproximateDP(1.0, 1e-6), ApproximateDP(0.1, 1e-8)):
    ...     cost = LaplaceCost(laplace_ratio(privacy, 78), 78)
    ...     print([releases_admitted(cost, privacy, epsilon=1, delta=1e-6, compose=compose) for compose in ("sum", "rho")])
    [1, 0]
    [10, 90]
    """
    terms = terms_of(compose, **numbers)
    try:
        price = terms.unit.price(amount_of(**privacy.parameters()), cost)
    except NoPrice:
        return 0
    power = terms.unit.power
    each = {name: in_steps(value) ** power for name, value in price.numbers.items() if value > 0}
    return min(in_steps(terms.total.numbers[name]) ** power // steps for name, steps in each.items())


@final
@dataclass(frozen=True)
class Budget:
    """The current state of a data set's budget.

    ``total``, ``spent`` and ``left`` are in the budget's ``unit``: a :class:`~decimal.Decimal`, or for "epsilon and delta" an
    :class:`EpsilonDelta` of two. They are exact, except for mu: its squares add up, so ``spent`` is a root rounded up and
    ``left`` a root rounded down, to 30 digits after the point. ``promise`` is the privacy the budget was opened with: someone
    who sees everything that is ever charged to it learns no more than that, however each release was chosen. ``rule`` says how
    charges add up, and ``neighbours`` who is protected against what.

    ``cost`` is the cost of all charges so far together (:func:`geodp.privacy.cost.compose`). :attr:`advantage` and
    :meth:`epsilon_at` say what the charges revealed: the lower of the bounds from their costs and from the sum spent. These
    bounds hold if the costs of the releases were chosen in advance. If they depended on earlier answers, rely on ``promise``.
    """

    dataset: str
    unit: str
    total: Decimal | EpsilonDelta
    spent: Decimal | EpsilonDelta
    left: Decimal | EpsilonDelta
    promise: Privacy
    rule: str
    neighbours: str
    cost: Cost

    @property
    def advantage(self) -> float:
        """How much better than chance anyone can guess which of two neighbouring data sets was used: 0 to 1."""
        return min(cost.advantage for cost in self.bounds)

    def epsilon_at(self, delta: float) -> float:
        """An epsilon for which all charges so far are ``(epsilon, delta)``-private; infinite if none is known."""
        found = min(cost.epsilon_at(delta) for cost in self.bounds)
        if isinstance(self.spent, EpsilonDelta) and self.spent.delta <= exact_number(delta, "delta"):
            # compare with the sum spent: the curve rounds delta, which would lose this bound
            return min(found, float_above(self.spent.epsilon))
        return found

    @property
    def bounds(self) -> list[Cost]:
        """The cost of all charges, and the cost of one mechanism that claims their sum. Each bounds what was revealed."""
        numbers = dict(zip(self.unit.split(" and "), _numbers(self.spent), strict=True))
        spent = Amount(**{name: value for name, value in numbers.items() if value > 0})
        return [self.cost, cost_claimed(spent)] if spent.numbers else [self.cost]

    def cells(self) -> list[str]:
        """The budget as a row of a table with the columns :data:`COLUMNS`."""
        promised = " and ".join(f"{name} {value:.6g}" for name, value in self.promise.parameters().items())
        if self.unit not in promised.split() and " and " not in self.unit:
            promised = f"{promised} as rho {described(self.total)}"
        bounds = map(_above, (self.advantage, self.epsilon_at(1e-6)))
        return [self.dataset, promised, described(self.spent), described(self.left), *bounds]

    @property
    def used(self) -> float:
        """The fraction that is spent, from 0 to 1; for epsilon and delta, the larger fraction."""
        pairs = zip(_numbers(self.spent), _numbers(self.total), strict=True)
        return float(max(spent / total if total else Decimal(0) for spent, total in pairs))

    def rows(self) -> list[Row]:
        """The budget in four rows."""
        pairs = zip(self.unit.split(" and "), _numbers(self.spent), _numbers(self.total), strict=True)
        spent = " and ".join(f"{name} {_short(spent)} of {_short(total)}" for name, spent, total in pairs)
        advantage, epsilon = (_short(bound) for bound in (self.advantage, self.epsilon_at(1e-6)))
        return [
            ("budget", f"{self.dataset}: {self.promise}; neighbours: {self.neighbours}"),
            ("spent", f"{spent} ({self.rule})"),
            ("left", described(self.left)),
            ("all of it", f"advantage at most {advantage}, epsilon {epsilon} at delta 1e-6"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<12}{text}" for name, text in self.rows())


#: The columns of :meth:`Budget.cells`.
COLUMNS = ("data set", "budget", "spent", "left", "advantage", "epsilon at delta 1e-6")


def _above(bound: float) -> str:
    """A bound to a few digits, rounded up."""
    # twelve digits first: 1.3 as a float is a little more than 1.3, and would be shown as 1.301
    return shown_above(Decimal(f"{bound:.12g}"), digits=4) if math.isfinite(bound) else "none known"


def _numbers(value: Decimal | EpsilonDelta) -> tuple[Decimal, ...]:
    return value if isinstance(value, EpsilonDelta) else (value,)


def _short(number: Decimal | float) -> str:
    return f"{float(number):.6g}"


def described(value: Decimal | EpsilonDelta) -> str:
    """An amount spent or left, to six digits, for people to read.

    >>> described(Decimal("0.022831234567890123456789")), described(EpsilonDelta(Decimal(3), Decimal("1E-6")))
    ('0.0228312', '3 and 1e-06')
    """
    return " and ".join(map(_short, _numbers(value)))


def cost_claimed(asked: Amount) -> Cost:
    """The cost of another mechanism, of which only the claimed privacy is known."""
    return cost_of(asked.privacy_above)
