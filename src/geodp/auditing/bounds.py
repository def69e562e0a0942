"""What counts of hits prove about epsilon."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from geodp.inputs import Array


def least_probability(hits: ArrayLike, draws: int, level: float) -> Array:
    """Clopper and Pearson's lower bound on a probability: it is wrong with a chance of at most ``level``. 0 without a hit."""
    hits = np.asarray(hits, dtype=np.float64)
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1.0), draws - hits + 1.0, level), 0.0)


def largest_probability(hits: ArrayLike, draws: int, level: float) -> Array:
    """Clopper and Pearson's upper bound; without a hit it is ``1 - level**(1/draws)``.

    >>> round(float(largest_probability(0, 1000, 0.05)), 6), round(1 - 0.05 ** (1 / 1000), 6)
    (0.002991, 0.002991)
    """
    hits = np.asarray(hits, dtype=np.float64)
    return np.where(hits < draws, betainccinv(hits + 1.0, np.maximum(draws - hits, 1.0), level), 1.0)


def least_epsilon(hits: ArrayLike, others: ArrayLike, draws: int, level: float) -> Array:
    """A lower bound on ``log(P/Q)``, and so on epsilon: wrong with a chance of at most ``level``; minus infinity without a hit.

    ``hits`` of ``draws`` outputs on one data set were in the event and ``others`` of as many on its neighbour. Each of the two
    probabilities gets half of the level.
    """
    with np.errstate(divide="ignore"):
        return np.log(least_probability(hits, draws, level / 2.0) / largest_probability(others, draws, level / 2.0))
