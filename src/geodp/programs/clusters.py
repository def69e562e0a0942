r"""Sums of records by the nearest of several public points: what one round of k-means needs.

The points ``m_1 ... m_k`` are public: a start, or what an earlier round released. A record ``x`` belongs to the nearest of them,
``m_j``, and becomes a vector of ``k`` blocks of ``d + 1`` numbers: block ``j`` is ``(w, u)``, and all others are zero. ``u`` are
the normal coordinates of ``x`` at ``m_j``, shortened to a public length ``r``, and ``w`` is a constant. So the mean of these
vectors holds the share of the records in each cluster, times ``w``, and the sum of their coordinates. What is no point of the
manifold becomes zero. The vector is a function of the record alone, in floats too: which centre is nearest to a record must not
depend on how others round (``NormalCoordinates`` in ``geodp.statistics.counts``).

*Sensitivity, one noise for all blocks.* Replacing one record moves the sum by ``|v - v'|``. In the same block that is ``|u - u'|
<= 2 r``, since ``w`` cancels; in two blocks the vectors are orthogonal, so it is at most ``sqrt(2 (w^2 + r^2))``. With ``w = r``
both are ``2 r``: the counts come free.

*Sensitivity, one noise for each block.* Independent Laplace noise of scale ``s`` in every block has a density in proportion to
``exp(-sum_j |z_j|/s)``, so the privacy loss is at most the sum of the lengths of the blocks of ``v - v'``, over ``s``. Each
vector has one block, of length at most ``sqrt(w^2 + r^2)``, so that sum is at most twice this. With ``w = r/2`` it is ``sqrt(5)
r``, whatever ``k`` is, where one noise for all blocks grows with the root of ``k``. This is a bound on the loss, so it is for
pure differential privacy.

*Persons.* A person's vectors are averaged. Both bounds are about the largest distance of two vectors in a norm, which no average
of vectors exceeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from geodp.arithmetic.entropy import Entropy
from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.choice import choose
from geodp.noise.mechanism import Mechanism, Noise
from geodp.privacy.cost import Cost, PureCost, pure_epsilon
from geodp.privacy.neighbours import Unit
from geodp.records.sums import sum_over
from geodp.request import Plan, Statistic
from geodp.statistics.counts import NormalCoordinates

#: Rounding up of a sensitivity: lengths are shortened to ``r`` up to 1e-15.
_UP = 1.0 + 1e-14


@final
@dataclass(frozen=True)
class ClusterSums(Statistic):
    """The mean of the vectors of all records, as the module has them.

    *Tolerance*: the rounding of the sum. The rounding errors of all blocks add up to no more than that of one vector.
    """

    #: Balls about the points; records beyond all of them belong to the first.
    around: tuple[Ball, ...]
    #: The length ``r`` to which normal coordinates are shortened.
    reach: float
    #: Whether each block has a noise of its own.
    apart: bool

    kind = "cluster sums"
    words = "the counts and tangent sums of clusters"

    @property
    def place(self) -> Manifold:
        return self.around[0].manifold

    @property
    def codomain(self) -> Manifold:
        return Euclidean((1 if self.apart else len(self.around)) * (self.place.dim + 1))

    @property
    def weight(self) -> float:
        """What a record counts in the joint vector."""
        return self.reach * (0.5 if self.apart else 1.0)

    def tolerance(self, unit: Unit = "record") -> float:
        return 2e-9 * self.reach

    def sensitivity(self, n: int) -> float:
        longest = 2.0 * math.hypot(self.weight, self.reach) if self.apart else 2.0 * self.reach
        return longest / n * _UP

    def noise(self, plan: Plan) -> Blocks:
        mechanism = choose(plan.bound, plan.privacy)
        # the bound of the module on the loss is all that is known of several noises together
        cost = PureCost(pure_epsilon(plan.privacy)) if self.apart else mechanism.cost
        return Blocks(mechanism, cost, (len(self.around), self.place.dim + 1), self.weight)

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        """A row a cluster, ``(k, d + 1)``."""
        rows = _Blocks(list(self.around), self.reach, self.weight, n)
        return sum_over(source, self.place, rows, n).reshape(len(self.around), -1) / n


@final
@dataclass(frozen=True)
class Blocks(Noise):
    """Noise in a flat space for several vectors: one for all of them together, or one for each."""

    mechanism: Mechanism
    cost: Cost
    shape: tuple[int, int]
    #: What a record counts.
    weight: float

    def draws(self, values: Sequence[Any], entropy: Entropy | None = None) -> list[Array]:
        return [np.stack(self.mechanism.draws(self._vectors(value), entropy)).reshape(self.shape) for value in values]

    def simulations(self, values: Sequence[Any], rng: np.random.Generator) -> list[Array]:
        return [np.stack(self.mechanism.simulations(self._vectors(value), rng)).reshape(self.shape) for value in values]

    def possible(self, drawn: Array) -> bool:
        return drawn.shape == self.shape and all(map(self.mechanism.possible, self._vectors(drawn)))

    def _vectors(self, rows: Array) -> list[Array]:
        return list(rows.reshape(-1, self.mechanism.manifold.dim))


@final
class _Blocks:
    """A function of records: their vectors of blocks, a row a record."""

    def __init__(self, around: list[Ball], reach: float, weight: float, n: int) -> None:
        self._manifold = around[0].manifold
        self._about = [NormalCoordinates(ball, n) for ball in around]
        self._reach, self._weight = reach, weight

    def __call__(self, records: Array) -> Array:
        valid = self._manifold.valid(records)
        vectors = np.stack([about(records.copy()) for about in self._about], axis=1)
        count, clusters, dim = vectors.shape
        squares = np.zeros((count, clusters))
        for i in range(dim):  # one coordinate after the other: a sum along an axis may round a row by where it stands
            squares += vectors[:, :, i] * vectors[:, :, i]
        lengths = np.sqrt(squares)
        nearest, each = lengths.argmin(axis=1), np.arange(count)
        length = lengths[each, nearest]
        weight = np.where(valid, self._weight, 0.0)  # what is no point has the coordinates zero and counts nowhere
        rows = np.zeros((count, clusters, 1 + dim))
        rows[each, nearest, 0] = weight
        rows[each, nearest, 1:] = vectors[each, nearest] * (self._reach / np.maximum(length, self._reach))[:, None]
        return rows.reshape(count, -1)
