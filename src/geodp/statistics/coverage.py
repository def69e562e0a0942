"""How many records are valid, and how many are in a ball: noisy counts.

Each record is examined by itself, in floats, so replacing one record changes each count by at most 1, whatever its values.
If persons have several records, a person contributes the share of those that are valid, or in the ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack, final, overload

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball, checked_ball
from geodp.receipt import GroupedRelease, Release
from geodp.records.dataset import GroupOptions
from geodp.records.labels import Indices
from geodp.records.sums import averages, sum_over
from geodp.release import GroupedOptions, Options, release, takes
from geodp.request import Statistic
from geodp.showing import Row


@final
@dataclass(frozen=True, eq=False)
class CoverageRelease(Release):
    """Noisy counts: how many records are points of the manifold, and how many are in the ball."""

    @property
    def valid(self) -> int:
        """About how many records are points of the manifold."""
        return self._count(0)

    @property
    def inside(self) -> int:
        """About how many records are points in the ball."""
        return self._count(1)

    def _count(self, i: int) -> int:
        # a count is between 0 and n, so a noisy count outside is cut off
        return int(np.clip(np.round(self.value[i]), 0, self.n))

    @property
    def remark(self) -> str:
        """A warning about a mean of these records, if the counts call for one; else an empty text."""
        n, error = self.n or 0, self.error_quantile(0.95)
        if self.value[0] + error < 0.9 * n:
            return f"only about {self.valid} of {n} {self.unit}s are points of {self.manifold}, so check which columns were read"
        if self.value[1] + error < 0.95 * n:
            return f"only about {self.inside} of {n} {self.unit}s are in the ball, and the others were moved to its edge"
        return ""

    def _verdict(self) -> str:
        return self.remark or "no sign that many records are invalid or outside the ball"

    def error_lengths(self) -> dict[str, float]:
        return {}

    def about_value(self) -> list[Row]:
        return [
            ("valid", f"about {self.valid} of {self.n} {self.unit}s are points of {self.manifold}"),
            ("inside", f"about {self.inside} are in the ball"),
        ]

    def about_error(self) -> list[Row]:
        return [("error", f"both within {self.error_quantile(0.95):.3g} of the true counts with probability 95%")]


@final
@dataclass(frozen=True)
class Coverage(Statistic):
    """How many records are points of the manifold, and how many of them are in the ball: two numbers.

    *Sensitivity.* Replacing one record changes each number by at most 1, so the pair moves by at most the root of two.
    """

    ball: Ball

    kind = "coverage"
    words = "the two counts"
    release = CoverageRelease

    def __post_init__(self) -> None:
        checked_ball(self.ball)

    @property
    def place(self) -> Ball:
        return self.ball

    @property
    def codomain(self) -> Manifold:
        return Euclidean(2)

    def sensitivity(self, n: int) -> float:
        return math.sqrt(2.0) * (1.0 + 1e-15)

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        ball = self.ball

        def valid_and_inside(records: Array) -> Array:
            return np.stack([ball.manifold.valid(records), ball.contains(records)], axis=-1).astype(np.float64)

        return sum_over(source, ball.manifold, valid_and_inside, n, of_person=_shares)


def _shares(rows: Array, starts: Indices) -> Array:
    """The shares of each person's records, as whole multiples of ``2^-20``, whose sums are exact in any order."""
    return np.round(averages(rows, starts) * 2.0**20) * 2.0**-20


@overload
def private_coverage(x: Any, ball: Ball, epsilon: float | None = None, **options: Unpack[Options]) -> CoverageRelease: ...


@overload
def private_coverage(x: Any, ball: Ball, epsilon: float | None = None, **options: Unpack[GroupedOptions]) -> GroupedRelease: ...


@takes(Options, GroupOptions)
def private_coverage(x: Any, ball: Ball, epsilon: float | None = None, **options: Any) -> Any:
    r"""How many records are valid, and how many are in the ball: noisy counts, released with differential privacy.

    *Public*: the ball, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same size that
    differ by replacing one record. *Theorem*: one record changes each count by at most 1, so the pair moves by at most the
    root of two (:class:`geodp.statistics.counts.Coverage`), and Laplace or Gaussian noise in the plane hides it
    (:mod:`geodp.noise.intrinsic`, the flat case).

    In this way a curator may learn that a whole column was read wrongly, or that the ball does not fit. Arguments are those of
    :func:`private_mean`.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> x = np.tile([0.0, 0.0, 1.0], (500, 1))
    >>> x[:100] = np.nan
    >>> release = private_coverage(x, Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5), epsilon=1.0)
    >>> abs(release.valid - 400) < 50, abs(release.inside - 400) < 50
    (True, True)
    """
    return release(Coverage(ball), x, epsilon, options)
