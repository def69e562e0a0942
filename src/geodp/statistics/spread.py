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
from typing import Literal, get_args

from geodp.inputs import real_number
from geodp.manifolds.ball import Ball, checked_ball
from geodp.privacy.neighbours import Unit
from geodp.receipt import Receipt
from geodp.request import Statistic
from geodp.solver.mean import check_means, mean_tolerance

About = Literal["center", "mean"]

#: A bound on the rounding of a mean of numbers up to 1. Sums over BLOCK records are plain; those over a chunk, and over chunks,
#: are compensated or by halves; in Dask those over the slices of a block are plain, and 100,000 slices would be covered.
ROUNDING = 1e-10

#: A factor that covers the rounding of the operations that compute a sensitivity.
UP = 1.0 + 1e-14
#: Radii whose squares leave twenty orders of magnitude, up to the largest and the smallest noise, to the privacy and to ``n``.
_SMALLEST, _LARGEST = 1e-60, 1e60

NOTHING = "this release says nothing about the spread: its expected error is as large as the largest possible spread"


@dataclass(frozen=True)
class AboutBall(Statistic):
    """The base class of statistics of records in a ball whose values are not in a ball themselves."""

    ball: Ball

    def __post_init__(self) -> None:
        """Raises if floats do not hold noise for squares of the radius, with room for all usual numbers of records."""
        radius = checked_ball(self.ball).radius
        if not _SMALLEST <= radius <= _LARGEST:
            raise ValueError(
                f"the radius must be between {_SMALLEST:g} and {_LARGEST:g} for a variance or a covariance but is {radius:g}: "
                "floats hold no noise for other squares, choose other units"
            )

    @property
    def place(self) -> Ball:
        return self.ball

    def check(self, n: int, unit: Unit = "record") -> None:
        """Raises if the means of persons' records cannot be computed in this ball. Sums can always be computed."""
        if unit == "person":
            check_means(self.ball, n)


def error_of_points(ball: Ball, unit: Unit) -> float:
    """A bound on the error of the coordinates of a person's computed mean."""
    if unit == "record":
        return 0.0
    angle = math.sqrt(ball.manifold.curvature) * ball.reach
    return mean_tolerance(ball) * (angle / math.sin(angle) if angle > 0.0 else 1.0)


def ball_of(release: Receipt) -> Ball:
    """The public ball of a release of a spread."""
    place = release.statistic.place
    assert isinstance(place, Ball)
    return place


def checked_about(about: About) -> About:
    if about not in get_args(About):
        raise ValueError(f"about must be one of {', '.join(get_args(About))} but is {about!r}")
    return about


def more_than_half(q: float) -> float:
    """The probability of an upper bound."""
    q = real_number(q, "the probability q")
    if not 0.5 <= q < 1.0:
        raise ValueError(f"the probability q of an upper bound must be at least 0.5 and below 1 but is {q:g}: 0.95 is usual")
    return q
