"""Lower bounds on privacy parameters from counts of hits.

Each function bounds one parameter of a notion of privacy from below. The bound is wrong with probability at most ``level``; each
of the two probabilities gets half of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv, ndtri, xlog1py, xlogy

from geodp.inputs import Array
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP

#: ``bound(hits, others, draws, level)``: a lower bound on one number of a notion of privacy.
LowerBound = Callable[[ArrayLike, ArrayLike, int, float], Array]

#: The orders of the Rényi divergences that are tried; order 1 is the Kullback-Leibler divergence.
_ORDERS = (1.0, 1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
#: The orders for which step functions are tried.
WITNESS_ORDERS = (1.0, 1.2, 1.5, 2.0, 3.0)


def least_probability(hits: ArrayLike, draws: int, level: float) -> Array:
    """Clopper and Pearson's lower bound on a probability, wrong with probability at most ``level``; 0 without a hit."""
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
    """A lower bound on ``log(P/Q)``, and so on epsilon: wrong with probability at most ``level``; minus infinity without a hit.

    ``hits`` of ``draws`` outputs on one data set were in the event, and ``others`` of ``draws`` on its neighbour.
    """
    with np.errstate(divide="ignore"):
        return np.log(least_probability(hits, draws, level / 2.0) / largest_probability(others, draws, level / 2.0))


def least_delta(hits: ArrayLike, others: ArrayLike, draws: int, level: float, epsilon: float) -> Array:
    """A lower bound on ``P - exp(epsilon) Q``, and so on delta at this epsilon."""
    return least_probability(hits, draws, level / 2.0) - np.exp(epsilon) * largest_probability(others, draws, level / 2.0)


def least_mu(hits: ArrayLike, others: ArrayLike, draws: int, level: float) -> Array:
    """A lower bound on the ``mu`` of Gaussian privacy: an event of probabilities ``P`` and ``Q`` is a test with these errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mu = ndtri(least_probability(hits, draws, level / 2.0)) - ndtri(largest_probability(others, draws, level / 2.0))
    return np.nan_to_num(mu, nan=-np.inf, neginf=-np.inf)


def least_rho(hits: ArrayLike, others: ArrayLike, draws: int, level: float) -> Array:
    """A lower bound on the ``rho`` of zero-concentrated privacy.

    Whether the event happened is a function of the output, so its Rényi divergence of order ``a`` is at most ``a rho`` too. It
    grows with ``P`` and falls with ``Q`` where ``P > Q``.
    """
    p, q = least_probability(hits, draws, level / 2.0), largest_probability(others, draws, level / 2.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        best = np.zeros(np.broadcast_shapes(p.shape, q.shape))
        for order in _ORDERS:
            if order == 1.0:
                divergence = xlogy(p, p / q) + xlog1py(1.0 - p, -p) - xlog1py(1.0 - p, -q)
            else:
                log_yes = order * np.log(p) + (1.0 - order) * np.log(q)
                log_no = order * np.log1p(-p) + (1.0 - order) * np.log1p(-q)
                divergence = np.logaddexp(log_yes, log_no) / (order - 1.0)
            best = np.maximum(best, np.nan_to_num(divergence / order, nan=0.0, posinf=0.0))
    return np.where(p > q, best, -np.inf)


def least_rho_of_steps(weights: ArrayLike, hits: ArrayLike, others: ArrayLike, order: float, level: float) -> float:
    r"""A lower bound on ``rho`` from a step function ``f`` of the output that was fixed before its steps were counted.

    ``f`` has the value ``weights[i]`` on ``hits[i]`` outputs of one data set and ``others[i]`` of the other. For every bounded
    ``f`` Hölder's inequality gives (Birrell et al. 2021)

    ``D_a(P || Q)/a >= log E_P[exp((a-1) f)]/(a-1) - log E_Q[exp(a f)]/a``,

    at ``a = 1`` ``E_P[f] - log E_Q[exp(f)]`` (Donsker and Varadhan), with equality at the log ratio; and ``rho`` is at least
    ``D_a/a``. An event shows only two steps of the ratio, which for Gaussian noise is about two thirds of rho. The two means are
    bounded by Maurer and Pontil's empirical Bernstein inequality, each with half of ``level``.
    """
    f, hits, others = np.asarray(weights), np.asarray(hits), np.asarray(others)
    high = largest_mean(np.exp(order * f), others, level / 2.0)
    if order == 1.0:
        return -largest_mean(-f, hits, level / 2.0) - float(np.log(high))
    low = -largest_mean(-np.exp((order - 1.0) * f), hits, level / 2.0)
    return float(np.log(low) / (order - 1.0) - np.log(high) / order) if low > 0.0 else -np.inf


def largest_mean(values: Array, counts: ArrayLike, level: float) -> float:
    """Maurer and Pontil's upper bound on a mean, from the counts of each value; wrong with probability at most ``level``."""
    counts = np.asarray(counts, dtype=np.float64)
    draws = float(counts.sum())
    mean = float(counts @ values) / draws
    variance = float(counts @ (values - mean) ** 2) / (draws - 1.0)
    log_level, width = float(np.log(2.0 / level)), float(np.ptp(values))
    return mean + float(np.sqrt(2.0 * variance * log_level / draws)) + 7.0 * width * log_level / (3.0 * (draws - 1.0))


def lower_bound(privacy: Privacy) -> tuple[str, float, LowerBound]:
    """The number of a claim that an audit bounds from below: its name, its claimed value, and the bound."""
    match privacy:
        case PureDP():
            return "epsilon", privacy.epsilon, least_epsilon
        case ApproximateDP():
            epsilon = privacy.epsilon
            return "delta", privacy.delta, lambda hits, others, draws, level: least_delta(hits, others, draws, level, epsilon)
        case ZeroConcentratedDP():
            return "rho", privacy.rho, least_rho
        case GaussianDP():
            return "mu", privacy.mu, least_mu
    raise TypeError(f"{privacy!r} is not a notion of privacy")
