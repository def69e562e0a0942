r"""How much records vary: mean squared distances, and second moments of normal coordinates.

Below ``u_i`` are the normal coordinates of the records at the public centre of a ball of radius ``r``, each clipped to that
length: a function of each record by itself. A record that is not a point of the manifold has ``u = 0``. So every sensitivity here
is that of a sum of bounded vectors, for any curvature. If persons have several records, a person's vectors are averaged first:
the spread is that between persons.

*Sensitivity of second moments.* ``|u u' - v v'|^2 = |u|^4 + |v|^4 - 2 (u.v)^2 <= 2 r^4`` in the Frobenius norm, with equality for
orthogonal vectors of length ``r``. In one dimension it is ``(u^2 - v^2)^2 <= r^4``. A symmetric matrix becomes a vector of the
same length if the entries off its diagonal are multiplied by the root of two, so that noise for vectors can be used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.manifolds.functions import symmetric_from_vector, vector_from_symmetric
from geodp.records.sums import sum_over
from geodp.statistics.counts import NormalCoordinates
from geodp.statistics.mean import FrechetMean, one_point_each

#: A bound on the rounding of a mean of numbers up to 1. Sums over BLOCK records are plain; those over a chunk, and over chunks,
#: are compensated or by halves; in Dask those over the slices of a block are plain, and 100,000 slices would be covered.
ROUNDING = 1e-10
_BLOCK = 1024

#: A factor that covers the rounding of the operations that compute a sensitivity.
_UP = 1.0 + 1e-14


class _AboutBall:
    """The base class of statistics of records in a ball whose values are not in a ball themselves."""

    domain: Ball
    persons: bool

    @property
    def place(self) -> Ball:
        return self.domain

    @property
    def ball(self) -> None:
        """None: noise in a flat space needs no ball."""

    def check(self, n: int) -> None:
        """Raises if the means of persons' records cannot be computed in this ball. Sums can always be computed."""
        if self.persons:
            FrechetMean(self.domain).check(n)

    @property
    def of_persons(self) -> float:
        """A bound on the error of the coordinates of a person's computed mean."""
        if not self.persons:
            return 0.0
        angle = math.sqrt(self.domain.manifold.curvature) * self.domain.reach
        return FrechetMean(self.domain).tolerance * (angle / math.sin(angle) if angle > 0.0 else 1.0)


@final
@dataclass(frozen=True)
class Variance(_AboutBall):
    """The mean squared distance of the clipped records to the centre of the ball: one number, from 0 to ``r^2``.

    *Sensitivity*: ``r^2/n``, since each square is from 0 to ``r^2``. *Tolerance*: the rounding of the sum, and of persons' means.
    """

    domain: Ball
    #: Whether ``n`` counts persons, whose records are averaged first.
    persons: bool = False

    kind: ClassVar[str] = "variance about the centre"
    words: ClassVar[str] = "the mean squared distance of the clipped records to the centre"

    @property
    def codomain(self) -> Manifold:
        return Euclidean(1)

    @property
    def tolerance(self) -> float:
        return ROUNDING * self.domain.radius**2 + 2.0 * self.domain.radius * self.of_persons

    def sensitivity(self, n: int) -> float:
        return self.domain.radius**2 / n * _UP

    def compute(self, x: Any, n: int) -> Array:
        rows = NormalCoordinates(self.domain, n)
        return sum_over(one_point_each(x, self.domain), self.domain.manifold, rows, n, _squares) / n


def _squares(rows: Array) -> Array:
    return np.array([np.vecdot(rows, rows).sum()])


@final
@dataclass(frozen=True)
class FrechetVariance(_AboutBall):
    r"""The mean squared distance of the clipped records to their Fréchet mean: one number, from 0 to ``r^2``.

    *Sensitivity*: ``4 r^2/n``. The variance is the least value over points ``p`` of the ball of the mean of ``dist(p, x_i)^2``,
    each from 0 to ``(2 r)^2``. For neighbours these functions of ``p`` differ by at most ``4 r^2/n`` everywhere, and so do their
    least values. In flat space ``4 r^2/n (1 - 1/n)`` is attained.

    *Tolerance*. At a point within ``t`` of the mean the mean of the squares is larger by at most ``4 r t``. The rounding of
    distances has the same effect, and the rounding of the sum is added.
    """

    domain: Ball
    #: Whether ``n`` counts persons, whose records are averaged first.
    persons: bool = False

    kind: ClassVar[str] = "variance"
    words: ClassVar[str] = "the Fréchet variance of the clipped records"

    @property
    def codomain(self) -> Manifold:
        return Euclidean(1)

    @property
    def tolerance(self) -> float:
        ball = self.domain
        mean = FrechetMean(ball, persons=self.persons)
        rounding = mean.tolerance + ball.manifold.log_rounding_in_ball(ball.center, ball.reach)
        # the mean of a person's records is wrong by at most as much as that of all
        rounding *= 2.0 if self.persons else 1.0
        # the radius of clipped records is the reach: rounding may take them beyond the ball
        beyond = ball.reach**2 - ball.radius**2
        return 4.0 * ball.reach * rounding + 4.0 * beyond + 4.0 * ROUNDING * ball.reach**2

    def sensitivity(self, n: int) -> float:
        return 4.0 * self.domain.radius**2 / n * _UP

    def check(self, n: int) -> None:
        """Raises if means in this ball cannot be computed."""
        FrechetMean(self.domain).check(n)

    def compute(self, x: Any, n: int) -> Array:
        mean = FrechetMean(self.domain)
        records = mean.opened(x)  # once: the point must be the mean of the very records whose distances are summed
        return np.array([records.evaluate(mean.solve(records, n), lambda done: None).square / n])


@final
@dataclass(frozen=True)
class SecondMoment(_AboutBall):
    """The mean of ``u u'`` as a vector: the covariance about the centre, of dimension ``d (d + 1)/2``.

    *Sensitivity*: the root of two times ``r^2/n``; ``r^2/n`` in one dimension. *Tolerance*: the rounding of the sum, and of
    persons' means.
    """

    domain: Ball
    #: Whether ``n`` counts persons, whose records are averaged first.
    persons: bool = False

    kind: ClassVar[str] = "covariance about the centre"
    words: ClassVar[str] = "the second moment of the clipped records about the centre"

    @property
    def codomain(self) -> Manifold:
        d = self.domain.manifold.dim
        return Euclidean(d * (d + 1) // 2)

    @property
    def tolerance(self) -> float:
        return ROUNDING * self.domain.radius**2 + 2.0 * self.domain.radius * self.of_persons

    def sensitivity(self, n: int) -> float:
        root = 1.0 if self.domain.manifold.dim == 1 else math.sqrt(2.0)
        return root * self.domain.radius**2 / n * _UP

    def compute(self, x: Any, n: int) -> Array:
        return vector_from_symmetric(_summed(x, self.domain, n)[0] / n)

    def covariance(self, vector: Array) -> Array:
        """The matrix that a vector represents."""
        return symmetric_from_vector(vector, self.domain.manifold.dim)


#: The weight of the mean against the second moment: this times the radius is the length of its unit in the joint vector.
WEIGHT = 0.5


@final
@dataclass(frozen=True)
class Covariance(_AboutBall):
    r"""The mean of ``u u'`` and the mean of ``u``, as one vector: the covariance about the mean is a function of both.

    Two releases would each need their own noise. Here one noise covers both: lift every ``u`` to ``(u, h)`` with a constant
    ``h = w r/sqrt(2)``. The second moment of the lifted vectors contains that of ``u`` and ``h`` times the mean. As a
    vector it is ``(vec(mean u u'), w r mean u)`` and a constant. It has dimension ``d (d + 3)/2``.

    *Sensitivity*: lifted vectors have squared length at most ``r^2 (1 + w^2/2)``, so the root of two times that, over ``n``;
    reached where ``u.v = -h^2``. In one dimension ``(u - v)^2 ((u + v)^2 + (w r)^2)`` is largest for ``u = r`` and ``v = t r``
    with ``2 t^2 + 2 t + w^2 = 0``.

    *The weight.* With ``w = 1/2`` the second moment has an eighth more noise than by itself. It would have the same noise if a
    fifth of a Gaussian budget went to a separate mean, but that mean would have 1.37 times the noise it has here.

    *Tolerance*: the rounding of the sum, and of persons' means.
    """

    domain: Ball
    #: Whether ``n`` counts persons, whose records are averaged first.
    persons: bool = False

    kind: ClassVar[str] = "covariance"
    words: ClassVar[str] = "the covariance of the clipped records about their tangent mean"

    @property
    def codomain(self) -> Manifold:
        d = self.domain.manifold.dim
        return Euclidean(d * (d + 3) // 2)

    @property
    def unit(self) -> float:
        """The length of a mean of length 1 in the joint vector."""
        return WEIGHT * self.domain.radius

    @property
    def tolerance(self) -> float:
        return 2.0 * ROUNDING * self.domain.radius**2 + (2.0 + WEIGHT) * self.domain.radius * self.of_persons

    def sensitivity(self, n: int) -> float:
        if self.domain.manifold.dim > 1:
            most = math.sqrt(2.0) * (1.0 + 0.5 * WEIGHT**2)
        else:
            t = 0.5 * (math.sqrt(1.0 - 2.0 * WEIGHT**2) - 1.0)
            most = (1.0 - t) * math.hypot(1.0 + t, WEIGHT)
        return most * self.domain.radius**2 / n * _UP

    def compute(self, x: Any, n: int) -> Array:
        moments, means = _summed(x, self.domain, n)
        return np.concatenate([vector_from_symmetric(moments / n), self.unit * means / n])

    def mean(self, vector: Array) -> Array:
        """The mean of the normal coordinates in a vector, shortened to the radius, which no true mean exceeds."""
        mean = vector[-self.domain.manifold.dim :] / self.unit
        return np.asarray(mean * min(1.0, self.domain.radius / max(float(np.linalg.vector_norm(mean)), 1e-300)))

    def second_moment(self, vector: Array) -> Array:
        """The second moment about the centre in a vector."""
        d = self.domain.manifold.dim
        return symmetric_from_vector(vector[:-d], d)

    def covariance(self, vector: Array) -> Array:
        """The covariance about the mean that follows from a vector. Noise may make some of its eigenvalues negative."""
        mean = self.mean(vector)
        return self.second_moment(vector) - np.outer(mean, mean)


def _summed(x: Any, ball: Ball, n: int) -> tuple[Array, Array]:
    """The sums of ``u u'`` and of ``u``, in one pass."""

    total = sum_over(one_point_each(x, ball), ball.manifold, NormalCoordinates(ball, n), n, _moments)
    return total[:-1], total[-1]


def _moments(rows: Array) -> Array:
    # matrix products sum without compensation, so use short blocks
    whole = len(rows) // _BLOCK * _BLOCK
    blocks, rest = rows[:whole].reshape(-1, _BLOCK, rows.shape[1]), rows[whole:]
    moments = (blocks.mT @ blocks).sum(axis=0) + rest.T @ rest
    means = (np.ones(_BLOCK) @ blocks).sum(axis=0) + rest.sum(axis=0)
    return np.concatenate([moments, means[None]])
