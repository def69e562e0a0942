r"""How many records are valid, and how far clipping into a ball moves them: one small release.

*How far clipping moves a mean.* A mean in a ball of radius ``r`` about ``c`` is one of clipped records. Let ``a(x)`` be the
distance by which clipping moves ``x``. Without positive curvature the mean of the clipped records is within ``mean a(x_i)`` of
that of the records (the Fréchet mean is 1-Lipschitz in the Wasserstein distance: Sturm 2003). If the curvature is at most ``kappa
> 0`` and all records are within ``R`` of ``c``, below the largest radius of a ball, it is within that times ``1/cos^2(sqrt(kappa)
R)``: move the records along their geodesics; the mean moves with velocity ``H^-1 mean(D log_m x_i')``, with ``|D log_m| <= 2R/sin
2R`` and ``H >= R cot R`` (:func:`geodp.sensitivity` has the bound on ``H``; here ``kappa = 1``).

*What is counted.* There is a second public radius ``R``, two fifths larger than the first where that can be. A record counts by
``a(x)/(R - r)``, and by 1 if it is beyond ``R``. So the bound is about the records with those beyond ``R`` moved to it, and the
mean of these numbers also bounds the share of those beyond. A record that is not a point counts as invalid; it counts as the
centre in the mean.

*Sensitivity.* Every record becomes a point of an equilateral triangle with sides of length 1: on one side, by its number from 0
to 1, or at the opposite corner if it is invalid. Replacing one record moves the sum of these points by at most 1, and so does
adding or removing one, since a corner is the origin. Coordinates are rounded to multiples of ``2^-20``, so that sums are exact in
any order. A person's points are averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack, final, overload

import numpy as np

from geodp.arithmetic.bracketing import zero_between
from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball, checked_ball
from geodp.noise.parts import coordinate_quantile, flat_noise
from geodp.receipt import GroupedRelease, Release
from geodp.records.dataset import GroupOptions
from geodp.records.labels import Indices
from geodp.records.sums import averages, sum_over
from geodp.release import GroupedOptions, Options, release, takes
from geodp.request import Statistic
from geodp.showing import Row
from geodp.verdict import percent

#: Coordinates are multiples of this.
_GRID = 2.0**-20
#: The second radius is larger than the first by this part of it. The wider the gap, the more noise is in what clipping did; the
#: narrower, the fewer records outside are taken at their distance.
_GAP = 0.4
#: The corner of the triangle for invalid records.
_INVALID = (0.5, math.sqrt(0.75))
#: How the number of invalid records, and the sum of the numbers of the others, follow from a sum of points.
_DECODE = np.linalg.inv(np.array([_INVALID, (1.0, 0.0)]).T)
#: With this probability a remark on the counts is right.
_SURE = 0.95


@final
@dataclass(frozen=True, eq=False)
class CoverageRelease(Release):
    """Noisy counts: how many records are points of the manifold, and how far clipping moved them."""

    @property
    def valid(self) -> int:
        """About how many records are points of the manifold."""
        # a count is between 0 and n, so a noisy count outside is cut off
        return self._members - int(np.clip(np.round(self._totals[0]), 0, self._members))

    @property
    def valid_margin(self) -> float:
        """With probability 95% the number of valid records is within this of the noisy one."""
        return self._margin(0, 0.975)

    @property
    def moved(self) -> float:
        """About how far clipping moved the records, on average; those beyond the second radius count as if they were on it."""
        return self._gap * self._share(0.0)

    @property
    def clipping(self) -> float:
        """With probability 95% clipping moved the mean by at most this."""
        return self.clipping_bound(0.95)

    def clipping_bound(self, q: float) -> float:
        """With probability ``q`` clipping moved the mean by at most this; records beyond the second radius count as if on it."""
        statistic = self._statistic
        return min(self._gap * self._share(self._margin(1, q)) * statistic.amplification, 2.0 * statistic.outer)

    @property
    def _statistic(self) -> Coverage:
        found: Any = self.statistic
        return found

    @property
    def _members(self) -> int:
        return max(1, self.n or 0)

    @property
    def _gap(self) -> float:
        return self._statistic.outer - self._statistic.ball.radius

    @property
    def _totals(self) -> Array:
        """The noisy number of invalid records, and the noisy sum of the numbers of the others."""
        return np.asarray(_DECODE @ self.vector)

    def _share(self, margin: float) -> float:
        return min(max(0.0, (float(self._totals[1]) + margin) / self._members), 1.0)

    def _margin(self, i: int, q: float) -> float:
        """With probability ``q`` a total is at most so much above its noisy one; and with probability ``q`` so much below."""
        return float(np.linalg.vector_norm(_DECODE[i])) * coordinate_quantile(flat_noise(self.noise), max(q, 0.5))

    @property
    def remark(self) -> str:
        """A warning about a mean of these records, if the counts call for one; else an empty text."""
        n, whose = self._members, f"{self.unit}s"
        invalid, moved = (self._totals[i] - self._margin(i, _SURE) for i in range(2))
        if invalid > 0.1 * n:
            return f"only about {self.valid} of {n} {whose} are points of {self.manifold}, so check which columns were read"
        if moved > 0.05 * n:
            far = self.notation.length(self._statistic.outer)
            return f"many {whose} are outside of the ball, and those farther than {far} from its centre do not count in full"
        if self._margin(0, _SURE) > 0.25 * n:
            return f"too little privacy was spent to tell how many {whose} are valid and in the ball"
        return ""

    def _verdict(self) -> str:
        return self.remark or "no sign that many records are invalid or far outside of the ball"

    def error_lengths(self) -> dict[str, float]:
        return {}

    def released(self) -> dict[str, Any]:
        return {**super().released(), "valid": self.valid, "moved": self.moved, "outer": self._statistic.outer}

    def about_value(self) -> list[Row]:
        length = self.notation.length
        most = percent(self._share(self._margin(1, _SURE)))
        return [
            ("valid", f"about {self.valid} of {self._members} {self.unit}s are points of {self.manifold}"),
            ("clipped", f"on average by about {length(self.moved)}; at most {most} are beyond {length(self._statistic.outer)}"),
        ]

    def about_error(self) -> list[Row]:
        return [("error", f"the number of valid {self.unit}s is within {self.valid_margin:.3g} with probability 95%")]


@final
@dataclass(frozen=True)
class Coverage(Statistic):
    """How many records are valid, and how far clipping moves them: see the module."""

    ball: Ball

    kind = "coverage"
    words = "the counts"
    release = CoverageRelease

    def __post_init__(self) -> None:
        checked_ball(self.ball)

    @property
    def place(self) -> Ball:
        return self.ball

    @property
    def codomain(self) -> Manifold:
        return Euclidean(2)

    @cached_property
    def outer(self) -> float:
        """The second radius: two fifths larger than the first, or less, where curvature makes more of what lies between them."""
        radius, curvature = self.ball.radius, self.ball.manifold.curvature
        most = min((1.0 + _GAP) * radius, 0.5 * (radius + self.ball.max_radius))

        def excess(outer: float) -> float:
            return (outer - radius) * _amplification(curvature, outer) - 0.5 * _GAP * radius

        if curvature == 0.0 or excess(most) <= 0.0:
            return most
        return zero_between(excess, radius, most, absolute=1e-12)

    @property
    def amplification(self) -> float:
        """How much farther a mean may move than its records do on average."""
        return _amplification(self.ball.manifold.curvature, self.outer)

    def sensitivity(self, n: int) -> float:
        # coordinates are rounded, those of a person twice
        return 1.0 + 8.0 * _GRID

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        ball, gap = self.ball, self.outer - self.ball.radius

        def points(records: Array) -> Array:
            manifold = ball.manifold
            valid = manifold.valid(records)
            safe = np.where(valid.reshape(-1, *(1,) * len(manifold.point_shape)), records, ball.center)
            with np.errstate(all="ignore"):
                distances = np.asarray(manifold.raw_dist(ball.center, safe))
            valid &= np.isfinite(distances)
            moved = np.clip((distances - ball.radius) / gap, 0.0, 1.0)
            inside = np.stack([moved, np.zeros(len(records))], axis=1)
            return np.round(np.where(valid[:, None], inside, np.array(_INVALID)) / _GRID) * _GRID

        return sum_over(source, ball.manifold, points, n, of_person=_rounded)


def _amplification(curvature: float, radius: float) -> float:
    return math.cos(math.sqrt(curvature) * radius) ** -2.0


def _rounded(rows: Array, starts: Indices) -> Array:
    """The mean of each person's points, rounded so that sums are exact in any order."""
    return np.round(averages(rows, starts) / _GRID) * _GRID


@overload
def private_coverage(x: Any, ball: Ball, epsilon: float | None = None, **options: Unpack[Options]) -> CoverageRelease: ...


@overload
def private_coverage(x: Any, ball: Ball, epsilon: float | None = None, **options: Unpack[GroupedOptions]) -> GroupedRelease: ...


@takes(Options, GroupOptions)
def private_coverage(x: Any, ball: Ball, epsilon: float | None = None, **options: Any) -> Any:
    r"""How many records are valid, and how far clipping into the ball moves them, released with differential privacy.

    *Public*: the ball, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same size that
    differ by replacing one record. *Theorem*: every record becomes a point of a triangle with sides of length 1, so one record
    moves the sum by at most 1 (:mod:`geodp.statistics.coverage`), and Laplace or Gaussian noise in the plane hides it
    (:mod:`geodp.noise.intrinsic`, the flat case).

    In this way a curator may learn that a column was read wrongly, or that the ball does not fit, and a reader how far clipping
    may have moved a mean. Arguments are those of :func:`geodp.private_mean`.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> x = np.tile([0.0, 0.0, 1.0], (500, 1))
    >>> x[:100] = np.nan
    >>> release = private_coverage(x, Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5), epsilon=1.0)
    >>> abs(release.valid - 400) < 50, release.clipping < 0.1
    (True, True)
    """
    return release(Coverage(ball), x, epsilon, options)
