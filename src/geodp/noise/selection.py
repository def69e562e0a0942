r"""A choice from a public list: the exponential mechanism.

*Public*: the list, epsilon. *Private*: the scores. *Neighbours*: data sets whose scores differ by at most 1 each.

**Theorem** (McSherry and Talwar 2007). Choosing ``i`` with probability proportional to ``exp(epsilon score_i/2)`` is
epsilon-differentially private: numerator and normaliser each change by a factor of at most ``exp(epsilon/2)``. The privacy
loss lies in an interval of length ``epsilon`` that does not depend on the output, so the cost is also ``epsilon^2/8`` in rho.
Both statements also hold if each item has a public weight, for example because it counts several times.

Scores are whole numbers and epsilon is the exact value of its float, so the probabilities are exact
(:mod:`geodp.arithmetic.choosing`): no rounded number decides anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from geodp.arithmetic.choosing import choose
from geodp.arithmetic.entropy import Entropy
from geodp.inputs import Array
from geodp.noise.mechanism import Noise
from geodp.privacy.cost import Cost, SelectionCost, selection_epsilon
from geodp.privacy.notions import Privacy


@final
@dataclass(frozen=True)
class Selection:
    """The exponential mechanism with an amount of privacy, for scores of sensitivity 1.

    >>> from geodp.arithmetic.entropy import NotPrivate
    >>> from geodp.privacy.notions import PureDP
    >>> Selection(PureDP(1.0)).draw([-50, 0, -40], NotPrivate(1))
    1
    """

    privacy: Privacy

    @property
    def epsilon(self) -> float:
        # slightly less than allowed, because the ledger charges the decimal number next to the float
        return selection_epsilon(self.privacy) * (1.0 - 1e-15)

    @property
    def cost(self) -> Cost:
        return SelectionCost(selection_epsilon(self.privacy))

    def draw(self, scores: Sequence[int], entropy: Entropy | None = None, weights: Sequence[int] | None = None) -> int:
        """The index of the chosen item; ``weights`` are public whole numbers."""
        return choose([int(score) for score in scores], Fraction(self.epsilon) / 2, entropy, weights)


@final
@dataclass(frozen=True)
class Choice(Noise):
    """The exponential mechanism as noise: what is drawn is the position of the chosen item. The weights are public."""

    selection: Selection
    weights: tuple[int, ...]

    @property
    def cost(self) -> Cost:
        return self.selection.cost

    def draws(self, values: Sequence[Any], entropy: Entropy | None = None) -> list[Array]:
        return [np.array([float(self.selection.draw(scores, entropy, self.weights))]) for scores in values]

    def possible(self, drawn: Array) -> bool:
        return drawn.shape == (1,) and bool(np.isin(drawn[0], np.arange(len(self.weights))))
