"""Events that might tell two data sets apart, and the search for the most revealing one.

An event is "a feature of the output lies in a half-line". An attacker may know both data sets, but not which of them was used,
so a feature may be computed from both. Here every entry of an output is examined by itself; pairs of bits are in
:mod:`geodp.auditing.parities`, and combinations of everything in :mod:`geodp.auditing.classifier`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from geodp.auditing.bounds import WITNESS_ORDERS, LowerBound, least_rho_of_steps
from geodp.inputs import Array
from geodp.manifolds import Manifold, Product
from geodp.manifolds.ball import Ball
from geodp.noise.mechanism import Mechanism

Feature = Callable[[Array], Array]

#: ``law``: what the claimed law says about an output. ``array``: the numbers of the array. ``atoms``: values that occur
#: repeatedly. ``bits``: the last bits of its floats, by themselves, in pairs, and in features of the other kinds.
#: ``classifier``: what a classifier learns from the entries, their products and the features of the chosen kinds.
Kind = Literal["law", "array", "atoms", "bits", "classifier"]
KINDS: tuple[Kind, ...] = get_args(Kind)

#: Thresholds are tried at this many ranks from each end of the outputs on each data set, starting at the fourth.
_RANKS, _FIRST_RANK = 48, 4
#: The error probability of the bounds that rank candidates. It is small, because the best of thousands is partly luck.
RANKING_LEVEL = 1e-4
#: Witnesses are cut off at these values. A larger value sees more of the divergence, but with less certainty.
_CLIPS = (1.0, 2.0, 3.0, 4.0, 6.0, 9.0)

#: Without ``bits``, features are rounded to this fraction of the noise.
_COARSE = 2.0**-20

LOSS = "the privacy loss of the claimed law"


@dataclass(frozen=True)
class Event:
    """The outputs whose feature is at least (``above``) or at most a threshold."""

    feature: str
    above: bool
    threshold: float

    def holds(self, values: Array) -> NDArray[np.bool_]:
        return values >= self.threshold if self.above else values <= self.threshold

    def counts(self, values: Array) -> NDArray[np.int64]:
        """The number of values for which the event does not hold, and the number for which it does."""
        return np.bincount(self.holds(values).astype(np.int64), minlength=2)

    def __str__(self) -> str:
        if self.feature.startswith("whether"):
            sentence = self.feature.removeprefix("whether ")
            return sentence if self.above else sentence.replace(" is ", " is not ", 1)
        return f"{self.feature} is {'at least' if self.above else 'at most'} {self.threshold:.6g}"


# ------------------------------------------------------------------------------------------ features


def features_of_points(ball: Ball, means: tuple[Array, Array], noise: Mechanism, kinds: tuple[Kind, ...]) -> dict[str, Feature]:
    """The features of an output as a whole, by name, about a dozen.

    ``means`` are those of the two data sets, ``noise`` is the claimed mechanism. Where the privacy loss is constant (on a line,
    beyond both means) its last digits depend only on the last bits of the output. So features are rounded unless the caller asks
    for ``bits``.
    """
    manifold = ball.manifold
    found: dict[str, Feature] = {}
    if "law" in kinds:
        found |= _law(ball, means, noise)
    if "array" in kinds:
        found |= {f"the inner product of the array with that of the {nth} mean": partial(_inner, m) for nth, m in _named(means)}
    if "bits" not in kinds:
        found = {name: _rounded(feature, 1.0 if name == LOSS else noise.scale) for name, feature in found.items()}
    if "atoms" in kinds:
        found |= {f"whether the output is the {nth} mean, bit for bit": partial(_equals, m) for nth, m in _named(means)}
        found["whether the output is a point of the manifold"] = lambda y: manifold.valid(y).astype(np.float64)
    return {name: partial(_without_errors, feature) for name, feature in found.items()}


def features_of_entries(manifold: Manifold, noise: Mechanism, kinds: tuple[Kind, ...]) -> dict[str, Feature]:
    """Up to three for every entry of the array."""
    found: dict[str, Feature] = {}
    for i in range(math.prod(manifold.point_shape)):
        if "array" in kinds:
            entry: Feature = partial(_entry, i)
            found[f"entry {i} of the array"] = entry if "bits" in kinds else _rounded(entry, noise.scale)
        if "bits" in kinds:
            found[f"the exponent of the lowest bit of entry {i}"] = partial(_lowest_bit, i)
            found[f"the last three bits of entry {i}"] = partial(_last_bits, i)
    return {name: partial(_without_errors, feature) for name, feature in found.items()}


def entries(noise: Mechanism, kinds: tuple[Kind, ...]) -> Feature:
    """All entries of the outputs, shape ``(outputs, entries)``; rounded unless ``bits`` is among the kinds."""
    return _flat if "bits" in kinds else _rounded(_flat, noise.scale)


def _named(means: tuple[Array, Array]) -> Iterator[tuple[str, Array]]:
    return zip(("first", "second"), means, strict=True)


def _without_errors(feature: Feature, y: Array) -> Array:
    """The values of a feature, minus infinity where it is not defined.

    The value of one output does not depend on the others, because hits are binomial only if they are independent.
    """
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(feature(y), dtype=np.float64)
    except np.linalg.LinAlgError:
        if len(y) == 1:
            return np.full(1, -np.inf)
        half = len(y) // 2
        return np.concatenate([_without_errors(feature, y[:half]), _without_errors(feature, y[half:])])
    return np.where(np.isnan(values), -np.inf, values)


def _rounded(feature: Feature, size: float) -> Feature:
    """The feature without its last digits; ``size`` is how far the noise moves it."""
    unit = _COARSE * size
    return lambda y: np.round(feature(y) / unit) * unit


def _law(ball: Ball, means: tuple[Array, Array], noise: Mechanism) -> dict[str, Feature]:
    manifold = ball.manifold
    first, second = means
    found: dict[str, Feature] = {
        LOSS: lambda y: noise.privacy_loss(first, second, y),
        "the distance to the centre": partial(manifold.raw_dist, ball.center),
        "the distance to the first mean": partial(manifold.raw_dist, first),
        "the distance to the second mean": partial(manifold.raw_dist, second),
        # the privacy loss of intrinsic noise, even if other noise is claimed
        "the distance to the second mean less that to the first": lambda y: (
            manifold.raw_dist(second, y) - manifold.raw_dist(first, y)
        ),
    }
    if isinstance(manifold, Product) and len(manifold.factors) > 1:
        for nth, mean in _named(means):
            for i in range(len(manifold.factors)):
                found[f"the distance to the {nth} mean in factor {i}"] = partial(_factor_distance, manifold, i, mean)
    towards = manifold.raw_log(first, second)
    length = float(manifold.raw_norm(first, towards))
    if math.isfinite(length) and length > 0.0:
        found["the coordinate along the geodesic from the first mean to the second"] = lambda y: manifold.raw_inner(
            first, manifold.raw_log(first, y), towards / length
        )
    return found


def _factor_distance(product: Product, i: int, mean: Array, y: Array) -> Array:
    return product.factors[i].raw_dist(product.raw_split(mean)[i], product.raw_split(y)[i])


def _flat(y: Array) -> Array:
    return y.reshape(len(y), -1)


def _inner(mean: Array, y: Array) -> Array:
    return _flat(y) @ mean.reshape(-1)


def _entry(i: int, y: Array) -> Array:
    return _flat(y)[:, i]


def _equals(point: Array, y: Array) -> Array:
    return (_flat(y) == point.reshape(-1)).all(axis=1).astype(np.float64)


def words(y: Array) -> NDArray[np.uint64]:
    """The 64 stored bits of every entry, one row an output; bit 0 is the last of the significand."""
    return _flat(np.ascontiguousarray(y, dtype=np.float64)).view(np.uint64)


def _significands(i: int, y: Array) -> tuple[NDArray[np.int64], NDArray[np.intc]]:
    """Whole numbers of 53 bits and exponents ``e`` such that entry ``i`` is ``significand * 2**(e - 53)``."""
    fraction, exponent = np.frexp(np.nan_to_num(_entry(i, y), posinf=0.0, neginf=0.0))
    return np.ldexp(fraction, 53).astype(np.int64), exponent


def _lowest_bit(i: int, y: Array) -> Array:
    significand, exponent = _significands(i, y)
    place = np.frexp((significand & -significand).astype(np.float64))[1] - 1
    return np.where(significand == 0, 2000.0, exponent - 53.0 + place)


def _last_bits(i: int, y: Array) -> Array:
    return (np.abs(_significands(i, y)[0]) & 7).astype(np.float64)


# ------------------------------------------------------------------------------------------ repeated values


def fingerprints(y: Array) -> NDArray[np.uint64]:
    """A 64-bit hash of every output: equal for outputs that are equal bit for bit, and hardly ever for others."""
    total = np.zeros(len(y), dtype=np.uint64)
    for column in words(y).T:  # multiply and shift, as splitmix64 does
        total = (total ^ column) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def repeated(seen: NDArray[np.uint64], elsewhere: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Fingerprints that occur more than once in ``seen`` and never in ``elsewhere``."""
    values, counts = np.unique(seen, return_counts=True)
    several: NDArray[np.uint64] = values[counts > 1]
    return several[~np.isin(several, elsewhere)]


def returning(known: NDArray[np.uint64]) -> Feature:
    """Whether an output is one of these."""
    return lambda y: np.isin(fingerprints(y), known).astype(np.float64)


# ------------------------------------------------------------------------------------------ the search


@dataclass(frozen=True)
class Witness:
    """A step function of a feature, for a divergence that a single event shows only in part.

    ``weights[i]`` is its value between ``thresholds[i - 1]`` and ``thresholds[i]``. It estimates the log ratio of the two laws
    from the first half of the runs, and ``order`` is the order of the Rényi divergence that it bounds best.
    """

    feature: str
    thresholds: tuple[float, ...]
    weights: tuple[float, ...]
    order: float

    def counts(self, values: Array) -> NDArray[np.int64]:
        """The number of values on each step."""
        return np.bincount(np.searchsorted(self.thresholds, values, "right"), minlength=len(self.weights))

    def __str__(self) -> str:
        return f"{self.feature}, in {len(self.weights)} steps, by which data set is likelier (divergence of order {self.order:g})"


class Candidate(NamedTuple):
    """An event or a step function, and a cautious lower bound on the claimed number, from the draws it was found on."""

    event: Event | Witness
    least: float


def most_revealing(feature: str, hits: Array, others: Array, bound: LowerBound) -> Candidate:
    """The half-line that gives the largest lower bound for the values ``hits`` against equally many ``others``."""
    hits, others = np.sort(hits), np.sort(others)
    draws = len(hits)
    thresholds = _thresholds(hits, others)
    best = Candidate(Event(feature, True, float(thresholds[0])), -math.inf)
    for above in (True, False):
        counts, other_counts = (
            draws - np.searchsorted(values, thresholds, "left") if above else np.searchsorted(values, thresholds, "right")
            for values in (hits, others)
        )
        bounds = bound(counts, other_counts, draws, RANKING_LEVEL)
        top = int(np.argmax(bounds))
        if bounds[top] > best.least:
            best = Candidate(Event(feature, above, float(thresholds[top])), float(bounds[top]))
    return best


def best_witness(feature: str, hits: Array, others: Array) -> Candidate:
    """The step function of the feature that proves the largest rho."""
    thresholds = _thresholds(np.sort(hits), np.sort(others))
    counts, other_counts = (
        np.bincount(np.searchsorted(thresholds, values, "right"), minlength=len(thresholds) + 1) for values in (hits, others)
    )
    ratio = np.log((counts + 0.5) / (other_counts + 0.5))
    tried = []
    for most in _CLIPS:
        weights = np.clip(ratio, -most, most)
        for order in WITNESS_ORDERS:
            least = least_rho_of_steps(weights, counts, other_counts, order, RANKING_LEVEL)
            witness = Witness(feature, tuple(thresholds.tolist()), tuple(weights.tolist()), order)
            tried.append(Candidate(witness, least))
    return max(tried, key=lambda candidate: candidate.least)


def _thresholds(hits: Array, others: Array) -> Array:
    """Thresholds at ranks from each end of the sorted values, dense in the tails."""
    draws = len(hits)
    ranks = np.unique(np.geomspace(min(_FIRST_RANK, draws), draws, _RANKS).astype(int)) - 1
    return np.unique(np.concatenate([values[index] for values in (hits, others) for index in (ranks, draws - 1 - ranks)]))
