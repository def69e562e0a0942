r"""How much records vary, released with differential privacy: variances, covariances and principal geodesics.

*Public*: the ball, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same size that
differ by replacing one record. *Theorem*: how far one record can move a variance or a covariance is in
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
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack, final, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import Array, real_number, whole_number
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball, checked_ball
from geodp.manifolds.functions import symmetric_from_vector
from geodp.manifolds.notation import Notation
from geodp.noise.flat import FlatNoise
from geodp.privacy.notions import privacy_of
from geodp.receipt import KINDS, SIMULATION, GroupedRelease, Kind, Release, written
from geodp.records.dataset import Dataset, DatasetOptions, Labels
from geodp.release import Options, Order, released
from geodp.showing import Pictured, Row, table_html
from geodp.statistics.spread import Covariance, FrechetVariance, SecondMoment, Variance
from geodp.verdict import percent

if TYPE_CHECKING:
    from geodp.privacy.ledger import Ledger

About = Literal["center", "mean"]

#: With this probability no eigenvalue is further from the true one than the level of the noise.
CONFIDENCE = 0.95
#: Radii whose squares leave twenty orders of magnitude, up to the largest and the smallest noise, to the privacy and to ``n``.
_SMALLEST, _LARGEST = 1e-60, 1e60
#: The number of random matrices for the law of the largest eigenvalue of noise, and the limit for the sum of their cubed sizes.
_SPECTRA, _MOST_WORK = 4000, 40_000_000


@final
@dataclass(frozen=True, eq=False)
class VarianceRelease(Release):
    """A private mean squared distance, to the centre of the ball or to the Fréchet mean of the records."""

    @property
    def variance(self) -> float:
        """The released variance, moved into the interval from 0 to the squared radius."""
        return float(self.value)

    @property
    def standard_deviation(self) -> float:
        """Its square root: a distance."""
        return math.sqrt(self.variance)

    @property
    def about(self) -> About:
        """The point of reference of the distances: the centre or the mean."""
        return "center" if isinstance(self.statistic, Variance) else "mean"

    def interval(self, q: float = 0.95) -> tuple[float, float]:
        """An interval that contains the variance of the clipped records with probability ``q``."""
        (ball, vector), error = _given(self), self.error_quantile(q)
        middle, most = float(vector[0]), ball.radius**2
        return min(max(0.0, middle - error), most), max(0.0, min(most, middle + error))

    def upper(self, q: float) -> float:
        """An upper bound on the variance of the clipped records, with probability ``q`` of at least a half."""
        q = _more_than_half(q)
        ball, vector = _given(self)
        return max(0.0, min(ball.radius**2, float(vector[0]) + _coordinate_quantile(_flat(self), q) + self.tolerance))

    @property
    def says_nothing(self) -> bool:
        """Whether the expected error exceeds half of the squared radius, so that a guess would be as good."""
        return self.expected_error() > 0.5 * _given(self).ball.radius ** 2

    @property
    def deviation(self) -> float:
        return self.standard_deviation

    def _error_lengths(self) -> dict[str, float]:
        low, high = self.interval()
        return {"standard_deviation": self.deviation, "at_least": math.sqrt(low), "at_most": math.sqrt(high)}

    def _verdict(self) -> str:
        low, high = self.interval()
        if self.says_nothing:
            return _NOTHING
        if low == 0.0:
            return f"only a bound: the standard deviation is at most {self.notation.length(math.sqrt(high))}"
        return f"the standard deviation is known up to a factor of {math.sqrt(high / low):.2f} between the ends of its interval"

    def _results(self) -> list[Row]:
        to = "the centre of the ball" if self.about == "center" else "the mean of the records"
        low, high = self.interval()
        return [
            ("variance", f"{self.variance:.6g}, the mean squared distance to {to}"),
            ("", f"from {low:.3g} to {high:.3g} with probability 95%"),
            ("deviation", f"{self.notation.length(self.standard_deviation)}, its root"),
            ("", f"from {self.notation.length(math.sqrt(low))} to {self.notation.length(math.sqrt(high))}"),
        ]

    def _errors(self) -> list[Row]:
        return [("error", f"within {self.error_quantile(0.95):.3g} of {self.truth} with probability 95%")]


_NOTHING = "this release says nothing about the spread: its expected error is as large as the largest possible spread"


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
        return statistic.mean(_given(self).vector) if isinstance(statistic, Covariance) else np.zeros(self.manifold.dim)

    @cached_property
    def base(self) -> Array:
        """The point that the covariance refers to: the one with the released mean of normal coordinates, or the centre."""
        ball = _given(self).ball
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
        error = np.minimum(length / unit, 2.0 * _given(self).ball.radius)
        return length * math.hypot(1.0, 2.0 * float(np.linalg.vector_norm(self.mean)) / unit) + error**2

    def expected_error(self) -> float:
        """A bound on the expected distance to the true covariance, at the released mean."""
        return _flat(self).expected(self._moved) * (1.0 + 1e-4) + self.tolerance

    @property
    def says_nothing(self) -> bool:
        """Whether the expected error exceeds the squared radius, the largest norm of a covariance of records in the ball."""
        return self.expected_error() > _given(self).ball.radius ** 2

    @cached_property
    def level(self) -> float:
        """With probability 95% no eigenvalue is further than this from the true one. A smaller one may be only noise."""
        noise, d = _flat(self), self.manifold.dim
        if not isinstance(self.statistic, Covariance):
            return _norm_quantile(noise, d, CONFIDENCE) + self.tolerance
        half = 0.5 * (1.0 + CONFIDENCE)
        error = min(_part_quantile(noise, d, half) / self.statistic.unit, 2.0 * _given(self).ball.radius)
        mean = float(np.linalg.vector_norm(self.mean))
        return _norm_quantile(noise, d, half) + error * (2.0 * mean + error) + self.tolerance

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
        q = _more_than_half(q)
        (ball, vector), noise, d = _given(self), _flat(self), self.manifold.dim
        least = 0.0
        if isinstance(self.statistic, Covariance):
            q = 0.5 * (1.0 + q)
            error = _part_quantile(noise, d, q) / self.statistic.unit
            least = max(0.0, float(np.linalg.vector_norm(self.mean)) - error)
        # the second moment comes first in both vectors
        second = symmetric_from_vector(vector[: d * (d + 1) // 2], d)
        trace = float(np.trace(second)) + math.sqrt(d) * _coordinate_quantile(noise, q) + self.tolerance
        trace = max(0.0, min(trace, ball.radius**2))
        return trace, max(0.0, trace - least**2)

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)

    def _error_lengths(self) -> dict[str, float]:
        largest = float(self.components(1).standard_deviations[0])
        return {"standard_deviation": self.deviation, "largest_component": largest}

    def _verdict(self) -> str:
        if self.says_nothing:
            return _NOTHING
        found = self.components()
        told = found.meaningful
        share = percent(float(found.shares[told].sum()))
        return f"{int(told.sum())} of {len(told)} components stand out of the noise, with {share} of the released variance"

    def _results(self) -> list[Row]:
        about = "the centre of the ball" if self.about == "center" else "the mean of the normal coordinates"
        found = self.components()
        rows = [("about", about)]
        told = int(found.meaningful.sum())
        for i in range(min(max(told, 1), 6)):
            rows.append(("deviation" if i == 0 else "", found.line(i)))
        if told > 6:
            rows.append(("", f"and {told - 6} more above the level of the noise"))
        rest = len(found.meaningful) - max(told, 1)
        if rest > 0:
            rows.append(("", f"{rest} of {len(found.meaningful)} components are below the level of the noise"))
        return [*rows, ("covariance", written(self.value))]

    def _errors(self) -> list[Row]:
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
                "yes" if told else "perhaps noise alone",
            ]
            for i, (deviation, ends, share, told) in enumerate(
                zip(self.standard_deviations, self.intervals, self.shares, self.meaningful, strict=True)
            )
        )
        title = f"Principal geodesics on {self.manifold}"
        return table_html(title if self.private else f"{SIMULATION}: {title}", columns, rows)


def _carried(release: CovarianceRelease, steps: Array) -> Array:
    """Steps in normal coordinates from the mean, as tangent vectors at the point of the mean."""
    ball = _given(release).ball
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


# ---------------------------------------------------------------------- releasing


@overload
def private_variance(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    about: About = "center",
    **options: Unpack[Options],
) -> VarianceRelease: ...


@overload
def private_variance(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    about: About = "center",
    by: Any,
    groups: Any = None,
    labels: Labels = "public",
    **options: Unpack[Options],
) -> GroupedRelease: ...


def private_variance(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    about: About = "center",
    ledger: Ledger | None = None,
    dataset: str | None = None,
    simulate: np.random.Generator | None = None,
    **who: Unpack[DatasetOptions],
) -> Release | GroupedRelease:
    r"""The mean squared distance of records to the centre of a public ball, or to their mean, with differential privacy.

    *Public*: the ball, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same size that
    differ by replacing one record. *Theorem*: one record moves the mean squared distance to the centre by at most ``r^2/n``
    (:class:`geodp.statistics.spread.Variance`), and the Fréchet variance by at most ``4 r^2/n``
    (:class:`geodp.statistics.spread.FrechetVariance`); Laplace or Gaussian noise on the line is added.

    Every record is clipped into the ball by itself; a record that is not a point of the manifold counts as the centre. The error
    bar does not depend on the data.

    Parameters
    ----------
    about
        ``"center"``: distances to the centre of the ball, with a quarter of the noise; in a ball about an earlier private mean
        that is nearly the variance. ``"mean"``: the Fréchet variance, about the mean of the records themselves.
    x, ball, epsilon, delta, rho, mu, ledger, dataset, simulate, unit, neighbours, by, groups, labels
        As for :func:`geodp.private_mean`. If persons have several records, it is the spread between the means of persons.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> angles = np.random.default_rng(0).normal(0.0, 0.3, 5000)
    >>> x = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    >>> release = private_variance(x, Ball(Sphere(1), [0.0, 1.0], 1.2), epsilon=1.0)
    >>> round(release.standard_deviation, 1), release.error_quantile(0.95) < 0.001
    (0.3, True)
    """
    data = Dataset.of(x, who)
    kind = Variance if _checked(about) == "center" else FrechetVariance
    statistic = kind(_with_squares(ball), data.unit is not None)
    return released(Order(statistic, privacy_of(epsilon, delta, rho, mu)), data, ledger, dataset, simulate)


@overload
def private_covariance(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    about: About = "center",
    **options: Unpack[Options],
) -> CovarianceRelease: ...


@overload
def private_covariance(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    about: About = "center",
    by: Any,
    groups: Any = None,
    labels: Labels = "public",
    **options: Unpack[Options],
) -> GroupedRelease: ...


def private_covariance(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    about: About = "center",
    ledger: Ledger | None = None,
    dataset: str | None = None,
    simulate: np.random.Generator | None = None,
    **who: Unpack[DatasetOptions],
) -> Release | GroupedRelease:
    r"""The covariance of records in the tangent space at the centre of a public ball, with differential privacy.

    *Public*: the ball, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same size that
    differ by replacing one record. *Theorem*: one record moves the mean of ``u u'`` by at most ``sqrt(2) r^2/n`` in the
    Frobenius norm (:class:`geodp.statistics.spread.SecondMoment`), where ``u`` are normal coordinates at the centre; together
    with the mean of ``u`` by at most ``(9/8) sqrt(2) r^2/n`` in a joint vector (:class:`geodp.statistics.spread.Covariance`).
    Laplace or Gaussian noise is added to that vector. Negative eigenvalues, which noise may cause, are removed afterwards.

    Every record is clipped into the ball by itself; a record that is not a point of the manifold counts as the centre. This takes
    one pass over the records. :meth:`geodp.spread.CovarianceRelease.components` has the principal geodesics.

    Parameters
    ----------
    about
        ``"center"``: the second moment about the centre of the ball. ``"mean"``: the covariance about the mean of the normal
        coordinates. Both are then released, as one vector with one noise, and the privacy covers both together. The
        covariance then has an eighth more noise than by itself.
    x, ball, epsilon, delta, rho, mu, ledger, dataset, simulate, unit, neighbours, by, groups, labels
        As for :func:`geodp.private_mean`. If persons have several records, it is the spread between the means of persons.

    >>> import numpy as np
    >>> from geodp import SPD, Ball
    >>> x = [np.diag(np.exp(u)) for u in np.random.default_rng(0).normal(size=(4000, 2)) * [0.5, 0.1]]
    >>> release = private_covariance(x, Ball(SPD(2), np.eye(2), 2.0), epsilon=1.0, delta=1e-6)
    >>> release.value.shape, bool(abs(release.value[0, 0] - 0.25) < 0.1)
    ((3, 3), True)
    """
    data = Dataset.of(x, who)
    kind = SecondMoment if _checked(about) == "center" else Covariance
    statistic = kind(_with_squares(ball), data.unit is not None)
    return released(Order(statistic, privacy_of(epsilon, delta, rho, mu)), data, ledger, dataset, simulate)


def _with_squares(ball: Ball) -> Ball:
    """The ball, if floats hold noise for squares of its radius, with room for every usual number of records and privacy."""
    radius = checked_ball(ball).radius
    if not _SMALLEST <= radius <= _LARGEST:
        raise ValueError(
            f"the radius must be between {_SMALLEST:g} and {_LARGEST:g} for a variance or a covariance but is {radius:g}: "
            "floats hold no noise for other squares, choose other units"
        )
    return ball


def _checked(about: About) -> About:
    if about not in get_args(About):
        raise ValueError(f"about must be one of {', '.join(get_args(About))} but is {about!r}")
    return about


# ---------------------------------------------------------------------- the law of the noise


class _Given(NamedTuple):
    """The parts that every release of a spread has."""

    ball: Ball
    vector: Array


def _given(release: Release) -> _Given:
    assert release.ball is not None
    assert release.vector is not None
    return _Given(release.ball, release.vector)


def _flat(release: Release) -> FlatNoise:
    noise = release.noise
    return FlatNoise(noise.manifold.dim, noise.scale, noise.family)


@cache
def _unit_norms(d: int) -> Array:
    """Largest absolute eigenvalues of random symmetric matrices of length 1 and uniform direction, drawn with a fixed seed."""
    dim = d * (d + 1) // 2
    rng = np.random.default_rng(20)
    size = int(min(_SPECTRA, max(50, _MOST_WORK // d**3)))  # the largest eigenvalues of larger matrices differ less
    found = []
    for start in range(0, size, 500):
        vectors = rng.standard_normal((min(500, size - start), dim))
        vectors /= np.linalg.vector_norm(vectors, axis=-1, keepdims=True)
        found.append(np.abs(np.linalg.eigvalsh(symmetric_from_vector(vectors, d))).max(axis=-1))
    return np.concatenate(found)


def _parts(whole: int, part: int, norms: Array) -> Array:
    """``norms`` times evenly spaced quantiles of the length of ``part`` coordinates of a uniform direction among ``whole``."""
    if part == whole:
        return norms
    from scipy.special import betaincinv  # which takes long to import

    levels = np.random.default_rng(21).permutation((np.arange(len(norms)) + 0.5) / len(norms))
    return norms * np.sqrt(betaincinv(0.5 * part, 0.5 * (whole - part), levels))


def _product_quantile(noise: FlatNoise, factors: Array, q: float) -> float:
    """The quantile of the noise's length times an independent factor, given by a sample; by bisection."""

    def below(x: float) -> float:
        return float(np.mean(noise.length_probability(x / factors)))

    low, high = 0.0, noise.length_quantile(0.5 * (1.0 + q)) * float(factors.max())
    while below(high) < q:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if below(middle) < q else (low, middle)
    return high


@cache
def _norm_quantile(noise: FlatNoise, d: int, q: float) -> float:
    """The ``q``-quantile of the largest absolute eigenvalue of the matrix in the first ``d (d + 1)/2`` coordinates of noise."""
    return _product_quantile(noise, _parts(noise.dim, d * (d + 1) // 2, _unit_norms(d)), q)


@cache
def _part_quantile(noise: FlatNoise, part: int, q: float) -> float:
    """The ``q``-quantile of the length of ``part`` coordinates of noise."""
    return _product_quantile(noise, _parts(noise.dim, part, np.ones(_SPECTRA)), q)


def _more_than_half(q: float) -> float:
    q = real_number(q, "the probability q")
    if not 0.5 <= q < 1.0:
        raise ValueError(f"the probability q of an upper bound must be at least 0.5 and below 1 but is {q:g}: 0.95 is usual")
    return q


@cache
def _coordinate_quantile(noise: FlatNoise, q: float) -> float:
    """The ``q``-quantile, ``q`` at least a half, of one coordinate of noise, in any direction."""
    return _part_quantile(noise, 1, 2.0 * q - 1.0)


# ---------------------------------------------------------------------- kinds of releases


def _within_range(statistic: Variance | FrechetVariance, vector: Array) -> Array:
    return np.asarray(np.clip(vector[0], 0.0, statistic.domain.radius**2))


def _without_negative(statistic: SecondMoment | Covariance, vector: Array) -> Array:
    """The nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(statistic.covariance(vector))
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def _about(ball: Ball | None) -> Ball:
    assert ball is not None
    return ball


_NEEDS = ("n", "radius", "vector")
KINDS.update(
    {
        Variance.kind: Kind(
            VarianceRelease,
            lambda stored, manifold, ball: Variance(_about(ball), stored["unit"] == "person"),
            _within_range,
            _NEEDS,
        ),
        FrechetVariance.kind: Kind(
            VarianceRelease,
            lambda stored, manifold, ball: FrechetVariance(_about(ball), stored["unit"] == "person"),
            _within_range,
            _NEEDS,
        ),
        SecondMoment.kind: Kind(
            CovarianceRelease,
            lambda stored, manifold, ball: SecondMoment(_about(ball), stored["unit"] == "person"),
            _without_negative,
            _NEEDS,
        ),
        Covariance.kind: Kind(
            CovarianceRelease,
            lambda stored, manifold, ball: Covariance(_about(ball), stored["unit"] == "person"),
            _without_negative,
            _NEEDS,
        ),
    }
)
