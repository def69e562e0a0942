"""Events that might tell two data sets apart, and the search for the most revealing one.

An event is "a feature of the output lies in a half-line". Whoever attacks a release may know both data sets but for which of them
was used, so a feature may be computed from both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from geodp.auditing.bounds import LowerBound
from geodp.inputs import Array
from geodp.manifolds import Manifold, Product
from geodp.manifolds.ball import Ball
from geodp.mechanisms.mechanism import Mechanism

Feature = Callable[[Array], Array]

#: ``law``: what the claimed law says about an output. ``array``: how its point is written down. ``atoms``: values that come
#: back. ``bits``: the last bits of its floats, by themselves and as they show in features of the first two kinds.
Kind = Literal["law", "array", "atoms", "bits"]
KINDS: tuple[Kind, ...] = get_args(Kind)

#: No more entries of an output than this are looked at one by one.
_ENTRIES = 16
#: Thresholds are tried at so many ranks from either end of the outputs on either data set, and not before the fourth.
_RANKS, _FIRST_RANK = 48, 4
#: The chance of being wrong at which candidates are ranked: strict, for the best of thousands is partly luck.
_RANKING_LEVEL = 1e-4

#: Without ``bits``, features are rounded to this part of the noise.
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

    def __str__(self) -> str:
        if self.feature.startswith("whether"):
            sentence = self.feature.removeprefix("whether ")
            return sentence if self.above else sentence.replace(" is ", " is not ", 1)
        return f"{self.feature} is {'at least' if self.above else 'at most'} {self.threshold:.6g}"


# ------------------------------------------------------------------------------------------ features


def features(ball: Ball, means: tuple[Array, Array], noise: Mechanism, kinds: tuple[Kind, ...]) -> dict[str, Feature]:
    """Features by name. ``means`` are those of the two data sets, ``noise`` is the claimed mechanism.

    Where the privacy loss is constant (on a line, beyond both means) its last digits are made of the last bits of the output
    alone. So whoever does not ask about bits gets features without their last digits.
    """
    manifold = ball.manifold
    found: dict[str, Feature] = {}
    if "law" in kinds:
        found |= _law(ball, means, noise)
    if "array" in kinds:
        found |= {f"the inner product of the array with that of the {nth} mean": partial(_inner, m) for nth, m in _named(means)}
        found |= {f"entry {i} of the array": partial(_entry, i) for i in range(_entries(manifold))}
    if "bits" not in kinds:
        found = {
            name: partial(_rounded, feature, _COARSE * (1.0 if name == LOSS else noise.scale)) for name, feature in found.items()
        }
    if "atoms" in kinds:
        found |= {f"whether the output is the {nth} mean, bit for bit": partial(_equals, m) for nth, m in _named(means)}
        found["whether the output is a point of the manifold"] = lambda y: manifold.valid(y).astype(np.float64)
    if "bits" in kinds:
        found |= {f"the exponent of the lowest bit of entry {i}": partial(_lowest_bit, i) for i in range(_entries(manifold))}
        found |= {f"the last three bits of entry {i}": partial(_last_bits, i) for i in range(_entries(manifold))}
    return {name: partial(_without_errors, feature) for name, feature in found.items()}


def _named(means: tuple[Array, Array]) -> Iterator[tuple[str, Array]]:
    return zip(("first", "second"), means, strict=True)


def _entries(manifold: Manifold) -> int:
    return min(math.prod(manifold.point_shape), _ENTRIES)


def _without_errors(feature: Feature, y: Array) -> Array:
    """The values of a feature, minus infinity where it is not defined.

    What one output gets does not depend on the others: hits that come in clusters are not binomial.
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


def _rounded(feature: Feature, unit: float, y: Array) -> Array:
    return np.round(feature(y) / unit) * unit


def _law(ball: Ball, means: tuple[Array, Array], noise: Mechanism) -> dict[str, Feature]:
    manifold = ball.manifold
    first, second = means
    found: dict[str, Feature] = {
        LOSS: lambda y: noise.privacy_loss(first, second, y),
        "the distance to the centre": partial(manifold.raw_dist, ball.center),
        "the distance to the first mean": partial(manifold.raw_dist, first),
        "the distance to the second mean": partial(manifold.raw_dist, second),
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


def _inner(mean: Array, y: Array) -> Array:
    return y.reshape(len(y), -1) @ mean.reshape(-1)


def _entry(i: int, y: Array) -> Array:
    return y.reshape(len(y), -1)[:, i]


def _equals(point: Array, y: Array) -> Array:
    return (y.reshape(len(y), -1) == point.reshape(-1)).all(axis=1).astype(np.float64)


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


# ------------------------------------------------------------------------------------------ values that come back


def fingerprints(y: Array) -> NDArray[np.uint64]:
    """64 bits of every output: the same for outputs that are the same bit for bit, and hardly ever for others."""
    words = np.ascontiguousarray(y, dtype=np.float64).reshape(len(y), -1).view(np.uint64)
    total = np.zeros(len(y), dtype=np.uint64)
    for column in words.T:  # multiply and shift, as splitmix64 does
        total = (total ^ column) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def repeated(seen: NDArray[np.uint64], elsewhere: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Fingerprints that came up more than once here and never there."""
    values, counts = np.unique(seen, return_counts=True)
    several: NDArray[np.uint64] = values[counts > 1]
    return several[~np.isin(several, elsewhere)]


def returning(known: NDArray[np.uint64]) -> Feature:
    """Whether an output is one of these."""
    return lambda y: np.isin(fingerprints(y), known).astype(np.float64)


# ------------------------------------------------------------------------------------------ the search


class Candidate(NamedTuple):
    """An event, and a cautious lower bound on the number in question from the draws it was found on."""

    event: Event
    least: float


def most_revealing(feature: str, hits: Array, others: Array, bound: LowerBound) -> Candidate:
    """The half-line in which the values ``hits`` prove most against ``others``, of which there are as many."""
    hits, others = np.sort(hits), np.sort(others)
    draws = len(hits)
    ranks = np.unique(np.geomspace(min(_FIRST_RANK, draws), draws, _RANKS).astype(int)) - 1
    thresholds = np.unique(np.concatenate([values[index] for values in (hits, others) for index in (ranks, draws - 1 - ranks)]))
    best = Candidate(Event(feature, True, float(thresholds[0])), -math.inf)
    for above in (True, False):
        counts, other_counts = (
            draws - np.searchsorted(values, thresholds, "left") if above else np.searchsorted(values, thresholds, "right")
            for values in (hits, others)
        )
        bounds = bound(counts, other_counts, draws, _RANKING_LEVEL)
        top = int(np.argmax(bounds))
        if bounds[top] > best.least:
            best = Candidate(Event(feature, above, float(thresholds[top])), float(bounds[top]))
    return best
