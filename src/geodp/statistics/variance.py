"""The mean squared distance of records to the centre of a ball or to their mean, released with differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack, final, overload

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.parts import coordinate_quantile, flat_noise
from geodp.privacy.neighbours import Unit
from geodp.receipt import GroupedRelease, Release
from geodp.records.dataset import GroupOptions
from geodp.records.sums import sum_over
from geodp.release import GroupedOptions, Options, release, takes
from geodp.showing import Row
from geodp.solver.mean import check_means, mean_of, mean_tolerance, one_point_each, opened
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
        ball, vector, error = ball_of(self), self.vector, self.error_quantile(q)
        middle, most = float(vector[0]), ball.radius**2
        return min(max(0.0, middle - error), most), max(0.0, min(most, middle + error))

    def upper(self, q: float) -> float:
        """An upper bound on the variance of the clipped records, with probability ``q`` of at least a half."""
        q = more_than_half(q)
        ball, vector = ball_of(self), self.vector
        return max(0.0, min(ball.radius**2, float(vector[0]) + coordinate_quantile(flat_noise(self.noise), q) + self.tolerance))

    @property
    def says_nothing(self) -> bool:
        """Whether the expected error exceeds half of the squared radius, so that a guess would be as good."""
        return self.expected_error() > 0.5 * ball_of(self).radius ** 2

    @property
    def deviation(self) -> float:
        return self.standard_deviation

    def error_lengths(self) -> dict[str, float]:
        low, high = self.interval()
        return {"standard_deviation": self.deviation, "at_least": math.sqrt(low), "at_most": math.sqrt(high)}

    def _verdict(self) -> str:
        low, high = self.interval()
        if self.says_nothing:
            return NOTHING
        if low == 0.0:
            return f"only a bound: the standard deviation is at most {self.notation.length(math.sqrt(high))}"
        return f"the standard deviation is known up to a factor of {math.sqrt(high / low):.2f} between the ends of its interval"

    def about_value(self) -> list[Row]:
        to = "the centre of the ball" if self.about == "center" else "the mean of the records"
        low, high = self.interval()
        return [
            ("variance", f"{self.variance:.6g}, the mean squared distance to {to}"),
            ("", f"from {low:.3g} to {high:.3g} with probability 95%"),
            ("deviation", f"{self.notation.length(self.standard_deviation)}, its root"),
            ("", f"from {self.notation.length(math.sqrt(low))} to {self.notation.length(math.sqrt(high))}"),
        ]

    def about_error(self) -> list[Row]:
        return [("error", f"within {self.error_quantile(0.95):.3g} of {self.truth} with probability 95%")]


@final
@dataclass(frozen=True)
class Variance(AboutBall):
    """The mean squared distance of the clipped records to the centre of the ball: one number, from 0 to ``r^2``.

    *Sensitivity*: ``r^2/n``, since each square is from 0 to ``r^2``. *Tolerance*: the rounding of the sum, and of persons' means.
    """

    kind = "variance about the centre"
    words = "the mean squared distance of the clipped records to the centre"
    release = VarianceRelease

    @property
    def codomain(self) -> Manifold:
        return Euclidean(1)

    def tolerance(self, unit: Unit = "record") -> float:
        return ROUNDING * self.ball.radius**2 + 2.0 * self.ball.radius * error_of_points(self.ball, unit)

    def sensitivity(self, n: int) -> float:
        return self.ball.radius**2 / n * UP

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        rows = NormalCoordinates(self.ball, n)
        return sum_over(one_point_each(source, self.ball), self.ball.manifold, rows, n, _squares) / n

    def value(self, drawn: Array) -> Array:
        return within_range(self.ball, drawn)


@final
@dataclass(frozen=True)
class FrechetVariance(AboutBall):
    r"""The mean squared distance of the clipped records to their Fréchet mean: one number, from 0 to ``r^2``.

    *Sensitivity*: ``4 r^2/n``. The variance is the least value over points ``p`` of the ball of the mean of ``dist(p, x_i)^2``,
    each from 0 to ``(2 r)^2``. For neighbours these functions of ``p`` differ by at most ``4 r^2/n`` everywhere, and so do their
    least values. In flat space ``4 r^2/n (1 - 1/n)`` is attained.

    *Tolerance*. At a point within ``t`` of the mean the mean of the squares is larger by at most ``4 r t``. The rounding of
    distances has the same effect, and the rounding of the sum is added.
    """

    kind = "variance"
    words = "the Fréchet variance of the clipped records"
    release = VarianceRelease

    @property
    def codomain(self) -> Manifold:
        return Euclidean(1)

    def tolerance(self, unit: Unit = "record") -> float:
        ball = self.ball
        rounding = mean_tolerance(ball, unit) + ball.manifold.log_rounding_in_ball(ball.center, ball.reach)
        # the mean of a person's records is wrong by at most as much as that of all
        rounding *= 2.0 if unit == "person" else 1.0
        # the radius of clipped records is the reach: rounding may take them beyond the ball
        beyond = ball.reach**2 - ball.radius**2
        return 4.0 * ball.reach * rounding + 4.0 * beyond + 4.0 * ROUNDING * ball.reach**2

    def sensitivity(self, n: int) -> float:
        return 4.0 * self.ball.radius**2 / n * UP

    def check(self, n: int, unit: Unit = "record") -> None:
        """Raises if means in this ball cannot be computed."""
        check_means(self.ball, n)

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        records = opened(source, self.ball)  # once: the point must be the mean of the very records whose distances are summed
        return np.array([records.evaluate(mean_of(records, n), lambda done: None).square / n])

    def value(self, drawn: Array) -> Array:
        return within_range(self.ball, drawn)


def _squares(rows: Array) -> Array:
    return np.array([np.vecdot(rows, rows).sum()])


def within_range(ball: Ball, drawn: Array) -> Array:
    """A noisy variance, moved into the interval of possible ones."""
    return np.asarray(np.clip(drawn[0], 0.0, ball.radius**2))


class SpreadOptions(Options, total=False):
    """The options of a variance."""

    about: About


class GroupedSpreadOptions(SpreadOptions, GroupedOptions, total=False):
    """With them, the groups."""


@overload
def private_variance(x: Any, ball: Ball, epsilon: float | None = None, **options: Unpack[SpreadOptions]) -> VarianceRelease: ...


@overload
def private_variance(
    x: Any, ball: Ball, epsilon: float | None = None, **options: Unpack[GroupedSpreadOptions]
) -> GroupedRelease: ...


@takes(SpreadOptions, GroupOptions)
def private_variance(x: Any, ball: Ball, epsilon: float | None = None, *, about: About = "center", **options: Any) -> Any:
    r"""The mean squared distance of records to the centre of a public ball, or to their mean, with differential privacy.

    *Public*: the ball, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same size that
    differ by replacing one record. *Theorem*: one record moves the mean squared distance to the centre by at most ``r^2/n``
    (:class:`geodp.statistics.variance.Variance`), and the Fréchet variance by at most ``4 r^2/n``
    (:class:`geodp.statistics.variance.FrechetVariance`); Laplace or Gaussian noise on the line is added.

    Every record is clipped into the ball by itself; a record that is not a point of the manifold counts as the centre. The error
    bar does not depend on the data.

    Parameters
    ----------
    about
        ``"center"``: distances to the centre of the ball, with a quarter of the noise; in a ball about an earlier private mean
        that is nearly the variance. ``"mean"``: the Fréchet variance, about the mean of the records themselves.
    x, ball, epsilon, options
        As for :func:`geodp.private_mean`. If persons have several records, it is the spread between the means of persons.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> angles = np.random.default_rng(0).normal(0.0, 0.3, 5000)
    >>> x = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    >>> release = private_variance(x, Ball(Sphere(1), [0.0, 1.0], 1.2), epsilon=1.0)
    >>> round(release.standard_deviation, 1), release.error_quantile(0.95) < 0.001
    (0.3, True)
    """
    kind = Variance if checked_about(about) == "center" else FrechetVariance
    return release(kind(ball), x, epsilon, options)
