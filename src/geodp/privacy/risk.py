r"""What a release means for a person: how sure others can become of something about one record.

Everything here follows from the privacy curve, for an attacker who knows everything but one record and has unlimited computing
power. Let ``P`` and ``Q`` be the laws of the output for two neighbouring data sets.

* *Advantage*: the probabilities of guessing "this one" under ``P`` and under ``Q`` differ by at most ``delta(0)``. So a guess
  between two equally likely data sets is right with probability at most ``(1 + delta(0))/2``.
* *Accusing*: an attacker who says "this one" with probability ``a`` under ``Q`` says so with probability at most ``1 - f(a)``
  under ``P``. Here ``f`` is the trade-off function (:meth:`geodp.privacy.cost.Cost.tradeoff`).
* *Becoming sure*: the odds after seeing an answer are the odds before times ``exp(L)``, with the loss ``L = log dP/dQ`` of that
  answer. It is at most the pure epsilon, if there is one. In any case, for every ``e < l``,

  .. math:: P(L > l) \le \frac{\delta(e)}{1 - \exp(e - l)},

  since ``delta(e) = E_P (1 - exp(e - L))_+``. This bounds the probability that the loss exceeds ``l``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

from geodp.inputs import real_number
from geodp.privacy.budgets import Budget
from geodp.privacy.cost import Cost
from geodp.privacy.curves import minimum
from geodp.privacy.neighbours import KNOWN, REPLACE_ONE, Neighbours

#: The probability with which a statement about becoming sure may fail, if there is no pure epsilon.
CHANCE = 1e-5


@runtime_checkable
class Costed(Protocol):
    """A release: it has a cost and a kind of neighbours."""

    @property
    def cost(self) -> Cost: ...

    @property
    def neighbours(self) -> str: ...


@final
@dataclass(frozen=True)
class Risk:
    """Upper bounds, from public numbers alone, on what anyone can learn about one record or person from releases.

    ``bounds`` are costs that each hold for the releases. Every answer is the best bound that follows from one of them.

    >>> from geodp.privacy.cost import LaplaceCost
    >>> found = Risk((LaplaceCost(1.0, 6),))
    >>> round(found.advantage, 3), round(found.true_positive_rate(0.01), 4), round(found.posterior(0.5), 3)
    (0.168, 0.0236, 0.731)
    >>> print(found)
    someone who guesses which of two possible records a person has is right at most 58.5% of the time, instead of 50%
    someone who is 50% sure of it may become at most 73.2% sure
    an attack with a false-positive rate of 1% has a true-positive rate of at most 2.4%
    """

    bounds: tuple[Cost, ...]
    neighbours: str = REPLACE_ONE

    @property
    def advantage(self) -> float:
        """How much better than chance anyone can guess which of two neighbouring data sets was used: 0 to 1."""
        return min(cost.advantage for cost in self.bounds)

    @property
    def accuracy(self) -> float:
        """The largest probability of a right guess between two neighbouring data sets that were equally likely."""
        return 0.5 + 0.5 * self.advantage

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """The largest true-positive rate of an attack with this false-positive rate.

        >>> from geodp.privacy.cost import PureCost
        >>> round(Risk((PureCost(1.0),)).true_positive_rate(0.01), 4)  # e times as many
        0.0272
        """
        rate = real_number(false_positive_rate, "the false-positive rate")
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"the false-positive rate must be from 0 to 1 but is {rate:g}")
        return min(1.0, 1.0 - max(cost.tradeoff(rate) for cost in self.bounds))

    def loss(self, chance: float = 0.0) -> float:
        """A privacy loss that is exceeded with at most this probability; infinite if none is known."""
        chance = real_number(chance, "the chance")
        if not 0.0 <= chance < 1.0:
            raise ValueError(f"the chance must be from 0 to below 1 but is {chance:g}")
        return min(_loss(cost, chance) for cost in self.bounds)

    def posterior(self, prior: float, chance: float = 0.0) -> float:
        """How sure someone may become of a true fact who was ``prior`` sure of it, except with probability ``chance``.

        >>> from geodp.privacy.cost import GaussianCost, PureCost
        >>> round(Risk((PureCost(1.0),)).posterior(0.5), 3), round(Risk((PureCost(1.0),)).posterior(0.01), 4)
        (0.731, 0.0267)
        >>> Risk((GaussianCost(0.2),)).posterior(0.5), round(Risk((GaussianCost(0.2),)).posterior(0.5, chance=1e-5), 3)
        (1.0, 0.714)
        """
        prior = real_number(prior, "the prior")
        if not 0.0 <= prior <= 1.0:
            raise ValueError(f"the prior must be from 0 to 1 but is {prior:g}")
        loss = self.loss(chance)
        if prior in (0.0, 1.0) or math.isinf(loss):
            return 1.0 if prior > 0.0 else 0.0
        return min(1.0, prior / (prior + (1.0 - prior) * math.exp(-loss)) * (1.0 + 1e-14))

    def sentences(self, prior: float = 0.5, false_positive_rate: float = 0.01, chance: float = CHANCE) -> list[str]:
        """The bounds in words, with percentages rounded up. ``chance`` is used only if there is no pure epsilon."""
        sure = math.isfinite(self.loss())
        becomes = self.posterior(prior, 0.0 if sure else chance)
        known = sure or becomes < 1.0 or prior == 1.0
        unless = "" if sure else f", except with probability {chance:g}"
        bound = f"someone who is {_percent(prior)} sure of it may become at most {_percent(becomes)} sure{unless}"
        return [
            f"someone who guesses {self._secret} is right at most {_percent(self.accuracy)} of the time, instead of 50%",
            bound if known else f"with probability {chance:g} someone may become certain of it: a larger probability has a bound",
            f"an attack with a false-positive rate of {_percent(false_positive_rate)} has a true-positive rate of at most "
            f"{_percent(self.true_positive_rate(false_positive_rate))}",
        ]

    @property
    def _secret(self) -> str:
        neighbours = KNOWN.get(self.neighbours, Neighbours())
        persons = neighbours.unit == "person"
        if neighbours.change == "add-remove":
            return f"whether a person's {'records are' if persons else 'record is'} among the data"
        return f"which of two possible {'sets of records' if persons else 'records'} a person has"

    def to_dict(self, prior: float = 0.5, false_positive_rate: float = 0.01, chance: float = CHANCE) -> dict[str, float | None]:
        """The numbers of :meth:`sentences`, for programs. ``posterior`` is null if it is known only up to ``chance``."""
        sure = math.isfinite(self.loss())
        return {
            "advantage": self.advantage,
            "accuracy": self.accuracy,
            "prior": prior,
            "posterior": self.posterior(prior) if sure else None,
            "chance": chance,
            "posterior_except_with_chance": self.posterior(prior, chance),
            "false_positive_rate": false_positive_rate,
            "true_positive_rate": self.true_positive_rate(false_positive_rate),
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def risk(released: Cost | Budget | Costed) -> Risk:
    """What anyone can learn about one record from a release of any kind, from all charges of a budget, or from a cost.

    >>> import numpy as np
    >>> from geodp import SPD, Ball, private_mean, risk
    >>> release = private_mean(np.tile(np.eye(2), (1000, 1, 1)), Ball(SPD(2), np.eye(2), radius=1.0), epsilon=0.5)
    >>> print(risk(release))
    someone who guesses which of two possible records a person has is right at most 62.3% of the time, instead of 50%
    someone who is 50% sure of it may become at most 62.3% sure
    an attack with a false-positive rate of 1% has a true-positive rate of at most 1.7%
    """
    match released:
        case Cost():
            return Risk((released,))
        case Budget():
            return Risk(tuple(released.bounds), released.neighbours)
        case Costed():
            return Risk((released.cost,), released.neighbours)
    raise TypeError(f"risk takes a release, a budget or a cost, not an object of type {type(released).__name__}")


def _loss(cost: Cost, chance: float) -> float:
    if chance == 0.0 or math.isinf(least := cost.epsilon_at(chance)):
        return cost.epsilon

    def passed(e: float) -> float:
        """A loss that is exceeded with at most the chance, by the inequality above. Any ``e`` gives a true bound."""
        part = cost.delta_at(e) / chance
        return e - math.log1p(-part) if part < 1.0 else 1e300

    most = min(cost.epsilon, least + 20.0)
    best = minimum(passed, least, most, steps=60)
    return min(passed(best) * (1.0 + 1e-14), passed(most) * (1.0 + 1e-14), cost.epsilon)


def _percent(part: Any) -> str:
    """A fraction in percent, rounded up to three digits, or to more near 100%."""
    number = 100.0 * float(part)
    if number <= 0.0:
        return "0%"
    digits = 1 if number < 99.0 else min(1 - math.floor(math.log10(max(100.0 - number, 1e-9))), 9)
    scale = 10.0 ** max(digits, 1 - math.floor(math.log10(number)) if number < 1.0 else 0)
    # twelve digits first: 50 as a float may be a little more than 50
    return f"{min(math.ceil(float(f'{number * scale:.12g}')) / scale, 100.0):.12g}%"
