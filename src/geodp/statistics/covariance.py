r"""Covariances and principal geodesics of records, released with differential privacy.

*Public*: the ball, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same size that
differ by replacing one record. *Theorem*: how far one record can move a covariance is in
:mod:`geodp.statistics.spread`; Laplace or Gaussian noise in a flat space is added (:mod:`geodp.noise.intrinsic`, the flat
case), with the exact privacy curve of that noise. Everything else here is computed from the release.

*Which eigenvalues mean something.* The released matrix is the true one plus a symmetric matrix ``E`` of noise whose law is
public: as a vector its direction is uniform and its length has a Gamma or a chi law. By Weyl's inequality no eigenvalue is
further from the true one than the largest eigenvalue of ``E`` in absolute value, ``|E|``. So a component whose eigenvalue is
below the 95% quantile of ``|E|`` may be only noise. The quantile is computed from the law of the length and from the spectra of
random matrices of length 1, drawn with a fixed seed. About the mean, ``E`` also contains the contribution of the noise ``e`` of
the mean ``m``, at most ``|e| (2 |m| + |e|)``: then each part is bounded with probability 97.5%.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack, final, overload

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import Array, whole_number
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.manifolds.functions import symmetric_from_vector, vector_from_symmetric
from geodp.manifolds.notation import Notation
from geodp.noise.parts import coordinate_quantile, flat_noise, norm_quantile, part_quantile
from geodp.privacy.neighbours import Unit
from geodp.receipt import SIMULATION, GroupedRelease, Release, written
from geodp.records.dataset import GroupOptions
from geodp.records.sums import sum_over
from geodp.release import GroupedOptions, Options, release, takes
from geodp.showing import Pictured, Row, table_html
from geodp.solver.mean import one_point_each
from geodp.statistics.counts import NormalCoordinates
from geodp.statistics.spread import (
    NOTHING,
    ROUNDING,
    UP,
    About,
    AboutBall,
    ball_of,
    checked_about,
    error_of_points,
    more_than_half,
)
from geodp.verdict import percent

#: With this probability no eigenvalue is further from the true one than the level of the noise.
CONFIDENCE = 0.95
#: Sums over so many records are plain, because matrix products sum without compensation.
_BLOCK = 1024


@final
@dataclass(frozen=True, eq=False)
class CovarianceRelease(Release):
    """A private covariance of normal coordinates at the centre of the ball, with negative eigenvalues removed.

    ``value`` is the matrix, ``(d, d)``, in the orthonormal frame of :meth:`geodp.Manifold.tangent` at the centre. Errors are
    distances in the Frobenius norm.
    """

    @property
    def about(self) -> About:
        """The point of reference: the centre of the ball, or the mean of the normal coordinates."""
        return "center" if isinstance(self.statistic, SecondMoment) else "mean"

    @property
    def mean(self) -> Array:
        """The released mean of the normal coordinates; zero if the covariance is about the centre."""
        statistic = self.statistic
        return statistic.mean(self.vector) if isinstance(statistic, Covariance) else np.zeros(self.manifold.dim)

    @cached_property
    def base(self) -> Array:
        """The point that the covariance refers to: the one with the released mean of normal coordinates, or the centre."""
        ball = ball_of(self)
        return ball.manifold.exp(ball.center, ball.manifold.tangent(ball.center, self.mean))

    @property
    def variance(self) -> float:
        """The sum of all variances: the trace of the matrix."""
        return float(np.trace(self.value))

    def error_quantile(self, q: float) -> float:
        r"""A distance in the Frobenius norm that contains the true covariance with probability ``q``.

        About the centre it is a quantile of the length of the noise: removing negative eigenvalues never moves a matrix further
        from one that has none. About the mean the noise ``(E, w e)``, of length ``Z``, moves the covariance by at most
        ``|E| + |e| (2 |m| + |e|) <= Z sqrt(1 + (2 |m|/w)^2) + (Z/w)^2`` with the released mean ``m``.
        """
        return float(self._moved(self.noise.error_quantile(q))) + self.tolerance

    def _moved(self, length: Any) -> Any:
        if not isinstance(self.statistic, Covariance):
            return length
        unit = self.statistic.unit
        # the error of a mean that is shortened to the radius is at most its noise, and at most twice the radius
        error = np.minimum(length / unit, 2.0 * ball_of(self).radius)
        return length * math.hypot(1.0, 2.0 * float(np.linalg.vector_norm(self.mean)) / unit) + error**2

    def expected_error(self) -> float:
        """A bound on the expected distance to the true covariance, at the released mean."""
        return flat_noise(self.noise).expected(self._moved) * (1.0 + 1e-4) + self.tolerance

    @property
    def says_nothing(self) -> bool:
        """Whether the expected error exceeds the squared radius, the largest norm of a covariance of records in the ball."""
        return self.expected_error() > ball_of(self).radius ** 2

    @cached_property
    def level(self) -> float:
        """With probability 95% no eigenvalue is further than this from the true one. A smaller one may be only noise."""
        noise, d = flat_noise(self.noise), self.manifold.dim
        if not isinstance(self.statistic, Covariance):
            return norm_quantile(noise, d, CONFIDENCE) + self.tolerance
        half = 0.5 * (1.0 + CONFIDENCE)
        error = min(part_quantile(noise, d, half) / self.statistic.unit, 2.0 * ball_of(self).radius)
        mean = float(np.linalg.vector_norm(self.mean))
        return norm_quantile(noise, d, half) + error * (2.0 * mean + error) + self.tolerance

    def components(self, k: int | None = None) -> Components:
        """The first ``k`` principal geodesics (all by default): directions, standard deviations and shares of the variance.

        About the mean they pass through the point with the released mean of normal coordinates. About the centre they pass
        through the centre, and are principal only if the mean is close to it. Each says whether its variance exceeds the level of
        noise.

        >>> import numpy as np
        >>> from geodp import Ball, Sphere, private_covariance
        >>> sphere = Sphere(2)
        >>> steps = np.random.default_rng(0).normal(size=(5000, 2)) * [0.3, 0.05]
        >>> x = sphere.exp(sphere.origin, sphere.tangent(sphere.origin, steps))
        >>> found = private_covariance(x, Ball(sphere, sphere.origin, 1.0), epsilon=1.0).components(1)
        >>> round(float(found.standard_deviations[0]), 1), bool(found.shares[0] > 0.8), bool(found.meaningful[0])
        (0.3, True, True)
        """
        count = self.manifold.dim if k is None else whole_number(k, 1, "the number of components k")
        if count > self.manifold.dim:
            raise ValueError(f"there are only {self.manifold.dim} components on {self.manifold}, but k is {count}")
        return Components.of(self, count)

    def upper_traces(self, q: float) -> tuple[float, float]:
        """Upper bounds on the sum of all variances about the centre, and about :attr:`mean`: both hold with probability ``q``.

        The trace of the noise is the root of ``d`` times its coordinate along the identity matrix. About the mean, the true mean
        is shorter than the released one by at most the length of its noise.
        """
        q = more_than_half(q)
        ball, vector, noise, d = ball_of(self), self.vector, flat_noise(self.noise), self.manifold.dim
        least = 0.0
        if isinstance(self.statistic, Covariance):
            q = 0.5 * (1.0 + q)
            error = part_quantile(noise, d, q) / self.statistic.unit
            least = max(0.0, float(np.linalg.vector_norm(self.mean)) - error)
        # the second moment comes first in both vectors
        second = symmetric_from_vector(vector[: d * (d + 1) // 2], d)
        trace = float(np.trace(second)) + math.sqrt(d) * coordinate_quantile(noise, q) + self.tolerance
        trace = max(0.0, min(trace, ball.radius**2))
        return trace, max(0.0, trace - least**2)

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)

    def error_lengths(self) -> dict[str, float]:
        largest = float(self.components(1).standard_deviations[0])
        return {"standard_deviation": self.deviation, "largest_component": largest}

    def _verdict(self) -> str:
        if self.says_nothing:
            return NOTHING
        found = self.components()
        shown = found.meaningful
        share = percent(float(found.shares[shown].sum()))
        return f"{int(shown.sum())} of {len(shown)} components stand out of the noise, with {share} of the released variance"

    def about_value(self) -> list[Row]:
        about = "the centre of the ball" if self.about == "center" else "the mean of the normal coordinates"
        found = self.components()
        rows = [("about", about)]
        shown = int(found.meaningful.sum())
        for i in range(min(max(shown, 1), 6)):
            rows.append(("deviation" if i == 0 else "", found.line(i)))
        if shown > 6:
            rows.append(("", f"and {shown - 6} more above the level of the noise"))
        rest = len(found.meaningful) - max(shown, 1)
        if rest > 0:
            rows.append(("", f"{rest} of {len(found.meaningful)} components are below the level of the noise"))
        return [*rows, ("covariance", written(self.value))]

    def about_error(self) -> list[Row]:
        return [
            ("error", f"within {self.error_quantile(0.95):.3g} of {self.truth} with probability 95% (Frobenius)"),
            ("", f"every eigenvalue within {self.level:.3g} of the true one with probability 95%"),
        ]


@final
@dataclass(frozen=True, eq=False)
class Components(Pictured):
    """Principal geodesics of a covariance: rows of ``coordinates`` are unit directions, the largest variance first.

    ``tangents`` are the velocities at ``base`` of geodesics that go one standard deviation in unit time. ``shares`` are fractions
    of the sum of all variances. ``meaningful`` says which variances exceed ``level``, below which noise alone stays with
    probability 95%; ``intervals`` contain the true standard deviations with that probability.
    """

    notation: Notation
    base: Array
    coordinates: Array
    variances: Array
    shares: Array
    tangents: Array
    level: float
    #: Whether it comes from a release, and not from a simulation.
    private: bool = True

    @classmethod
    def of(cls, release: CovarianceRelease, count: int) -> Components:
        values, vectors = np.linalg.eigh(release.value)
        values = np.maximum(values[::-1], 0.0)
        directions = vectors.T[::-1]
        total = float(values.sum())
        shares = values / total if total > 0.0 else np.zeros_like(values)
        variances, directions = values[:count], directions[:count]
        steps = np.sqrt(variances)[:, None] * directions
        return cls(
            release.notation,
            release.base,
            directions,
            variances,
            shares[:count],
            _carried(release, steps),
            release.level,
            release.private,
        )

    @property
    def manifold(self) -> Manifold:
        return self.notation.manifold

    @property
    def standard_deviations(self) -> Array:
        return np.sqrt(self.variances)

    @property
    def meaningful(self) -> Any:
        return self.variances > self.level

    @property
    def intervals(self) -> Array:
        """Lower and upper ends for the standard deviations, a row each."""
        return np.sqrt(np.maximum(np.stack([self.variances - self.level, self.variances + self.level], axis=-1), 0.0))

    def geodesic(self, i: int, t: ArrayLike) -> Array:
        """Points of the ``i``-th principal geodesic, ``t`` standard deviations from the base."""
        times = np.asarray(t, dtype=np.float64)
        shape = times.shape + (1,) * len(self.manifold.point_shape)
        return self.manifold.exp(self.base, times.reshape(shape) * self.tangents[i])

    def line(self, i: int) -> str:
        """One line about a component."""
        low, high = self.intervals[i]
        known = f"from {low:.3g} to {high:.3g}" if self.meaningful[i] else f"at most {high:.3g}, and perhaps noise alone"
        deviation = self.notation.length(float(self.standard_deviations[i]))
        return f"{deviation} ({known}), {100.0 * self.shares[i]:.0f}% of the variance"

    def __len__(self) -> int:
        return len(self.variances)

    def __str__(self) -> str:
        lines = [f"component {i + 1}: {self.line(i)}" for i in range(len(self))]
        return "\n".join(lines if self.private else [SIMULATION, *lines])

    def _repr_html_(self) -> str:
        columns = ["component", "standard deviation", "from", "to", "share", "above the noise"]
        length = self.notation.length
        rows = (
            [
                str(i + 1),
                length(float(deviation)),
                *map(length, ends.tolist()),
                percent(float(share)),
                "yes" if meaningful else "perhaps noise alone",
            ]
            for i, (deviation, ends, share, meaningful) in enumerate(
                zip(self.standard_deviations, self.intervals, self.shares, self.meaningful, strict=True)
            )
        )
        title = f"Principal geodesics on {self.manifold}"
        return table_html(title if self.private else f"{SIMULATION}: {title}", columns, rows)


def _carried(release: CovarianceRelease, steps: Array) -> Array:
    """Steps in normal coordinates from the mean, as tangent vectors at the point of the mean."""
    ball = ball_of(release)
    manifold, center = ball.manifold, ball.center
    if release.about == "center":
        return manifold.tangent(center, steps)
    start = manifold.coordinates(center, manifold.log(center, release.base))
    small = 1e-4 * ball.radius
    length = np.linalg.vector_norm(steps, axis=-1, keepdims=True)
    units = steps / np.maximum(length, 1e-300)
    # the differential of exp, by a central difference
    ends = (manifold.exp(center, manifold.tangent(center, start + side * small * units)) for side in (1.0, -1.0))
    ahead, behind = (manifold.log(release.base, end) for end in ends)
    return (ahead - behind) * (length / (2.0 * small)).reshape(-1, *(1,) * len(manifold.point_shape))


@final
@dataclass(frozen=True)
class SecondMoment(AboutBall):
    """The mean of ``u u'`` as a vector: the covariance about the centre, of dimension ``d (d + 1)/2``.

    *Sensitivity*: the root of two times ``r^2/n``; ``r^2/n`` in one dimension. *Tolerance*: the rounding of the sum, and of
    persons' means.
    """

    kind = "covariance about the centre"
    words = "the second moment of the clipped records about the centre"
    release = CovarianceRelease

    @property
    def codomain(self) -> Manifold:
        d = self.ball.manifold.dim
        return Euclidean(d * (d + 1) // 2)

    def tolerance(self, unit: Unit = "record") -> float:
        return ROUNDING * self.ball.radius**2 + 2.0 * self.ball.radius * error_of_points(self.ball, unit)

    def sensitivity(self, n: int) -> float:
        root = 1.0 if self.ball.manifold.dim == 1 else math.sqrt(2.0)
        return root * self.ball.radius**2 / n * UP

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        return vector_from_symmetric(_summed(source, self.ball, n)[0] / n)

    def covariance(self, vector: Array) -> Array:
        """The matrix that a vector represents."""
        return symmetric_from_vector(vector, self.ball.manifold.dim)

    def value(self, drawn: Array) -> Array:
        return without_negative(self.covariance(drawn))


#: The weight of the mean against the second moment: this times the radius is the length of its unit in the joint vector.
WEIGHT = 0.5


@final
@dataclass(frozen=True)
class Covariance(AboutBall):
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

    kind = "covariance"
    words = "the covariance of the clipped records about their tangent mean"
    release = CovarianceRelease

    @property
    def codomain(self) -> Manifold:
        d = self.ball.manifold.dim
        return Euclidean(d * (d + 3) // 2)

    @property
    def unit(self) -> float:
        """The length of a mean of length 1 in the joint vector."""
        return WEIGHT * self.ball.radius

    def tolerance(self, unit: Unit = "record") -> float:
        return 2.0 * ROUNDING * self.ball.radius**2 + (2.0 + WEIGHT) * self.ball.radius * error_of_points(self.ball, unit)

    def sensitivity(self, n: int) -> float:
        if self.ball.manifold.dim > 1:
            most = math.sqrt(2.0) * (1.0 + 0.5 * WEIGHT**2)
        else:
            t = 0.5 * (math.sqrt(1.0 - 2.0 * WEIGHT**2) - 1.0)
            most = (1.0 - t) * math.hypot(1.0 + t, WEIGHT)
        return most * self.ball.radius**2 / n * UP

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        moments, means = _summed(source, self.ball, n)
        return np.concatenate([vector_from_symmetric(moments / n), self.unit * means / n])

    def mean(self, vector: Array) -> Array:
        """The mean of the normal coordinates in a vector, shortened to the radius, which no true mean exceeds."""
        mean = vector[-self.ball.manifold.dim :] / self.unit
        return np.asarray(mean * min(1.0, self.ball.radius / max(float(np.linalg.vector_norm(mean)), 1e-300)))

    def second_moment(self, vector: Array) -> Array:
        """The second moment about the centre in a vector."""
        d = self.ball.manifold.dim
        return symmetric_from_vector(vector[:-d], d)

    def covariance(self, vector: Array) -> Array:
        """The covariance about the mean that follows from a vector. Noise may make some of its eigenvalues negative."""
        mean = self.mean(vector)
        return self.second_moment(vector) - np.outer(mean, mean)

    def value(self, drawn: Array) -> Array:
        return without_negative(self.covariance(drawn))


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


def without_negative(matrix: Array) -> Array:
    """The nearest symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


class SpreadOptions(Options, total=False):
    """The options of a covariance."""

    about: About


class GroupedSpreadOptions(SpreadOptions, GroupedOptions, total=False):
    """With them, the groups."""


@overload
def private_covariance(
    x: Any, ball: Ball, epsilon: float | None = None, **options: Unpack[SpreadOptions]
) -> CovarianceRelease: ...


@overload
def private_covariance(
    x: Any, ball: Ball, epsilon: float | None = None, **options: Unpack[GroupedSpreadOptions]
) -> GroupedRelease: ...


@takes(SpreadOptions, GroupOptions)
def private_covariance(x: Any, ball: Ball, epsilon: float | None = None, *, about: About = "center", **options: Any) -> Any:
    r"""The covariance of records in the tangent space at the centre of a public ball, with differential privacy.

    *Public*: the ball, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same size that
    differ by replacing one record. *Theorem*: one record moves the mean of ``u u'`` by at most ``sqrt(2) r^2/n`` in the
    Frobenius norm (:class:`geodp.statistics.covariance.SecondMoment`), where ``u`` are normal coordinates at the centre; together
    with the mean of ``u`` by at most ``(9/8) sqrt(2) r^2/n`` in a joint vector (:class:`geodp.statistics.covariance.Covariance`).
    Laplace or Gaussian noise is added to that vector. Negative eigenvalues, which noise may cause, are removed afterwards.

    Every record is clipped into the ball by itself; a record that is not a point of the manifold counts as the centre. This takes
    one pass over the records. :meth:`geodp.statistics.covariance.CovarianceRelease.components` has the principal geodesics.

    Parameters
    ----------
    about
        ``"center"``: the second moment about the centre of the ball. ``"mean"``: the covariance about the mean of the normal
        coordinates. Both are then released, as one vector with one noise, and the privacy covers both together. The
        covariance then has an eighth more noise than by itself.
    x, ball, epsilon, options
        As for :func:`geodp.private_mean`. If persons have several records, it is the spread between the means of persons.

    >>> import numpy as np
    >>> from geodp import SPD, Ball
    >>> x = [np.diag(np.exp(u)) for u in np.random.default_rng(0).normal(size=(4000, 2)) * [0.5, 0.1]]
    >>> release = private_covariance(x, Ball(SPD(2), np.eye(2), 2.0), epsilon=1.0, delta=1e-6)
    >>> release.value.shape, bool(abs(release.value[0, 0] - 0.25) < 0.1)
    ((3, 3), True)
    """
    kind = SecondMoment if checked_about(about) == "center" else Covariance
    return release(kind(ball), x, epsilon, options)
