r"""Ordinary averages: records are averaged as vectors of a linear space, noise is added there, and the result is moved back.

*Convex sets* (:class:`geodp.manifolds.ConvexSet`): matrices without negative eigenvalues and of bounded norm, shares,
correlation matrices. They hold the averages of their points. Moving a noisy average into the set brings it no farther from the
true one, so errors are lengths of the noise in the norm of the space, not geodesic distances.

*Compact manifolds* (:class:`geodp.manifolds.Embedding`). The average of points of a sphere is not on the sphere; the nearest
point to it is the *projected mean*. How far noise may turn it follows from the noisy vector.

The average is not the Fréchet mean. The average of matrices may be several times larger than their Fréchet mean, which is closer
to a geometric mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack, final, overload

import numpy as np

from geodp.inputs import Array, moderate_length, real_number
from geodp.manifolds import ConvexSet, Embedding, Euclidean, Manifold
from geodp.privacy.neighbours import Unit
from geodp.receipt import GroupedRelease, Release, about_point
from geodp.records.dataset import GroupOptions
from geodp.records.sums import sum_over
from geodp.release import GroupedOptions, Options, release, takes
from geodp.request import Plan, Request, Statistic
from geodp.showing import Row
from geodp.verdict import WORDS, percent, verdict

#: A record with such an entry is invalid. Charts keep coordinates, of which anything may be true, behind one of this size.
_HUGE = 2.0**1000


def averaging_space(manifold: Manifold, bound: float | None = None) -> ConvexSet | Embedding:
    """Where records are averaged; raises if there is no such space, or if the bound is missing or not needed."""
    unbounded = manifold.convex_set()
    needed = unbounded is not None and math.isinf(unbounded.diameter)
    if unbounded is None and manifold.embedding is None:
        raise ValueError(
            f"{manifold} has no average but the Fréchet mean: private_mean releases it. Averages are of matrices, shares, "
            "correlations and points of compact spaces"
        )
    if needed and bound is None:
        assert unbounded is not None
        raise ValueError(
            f"an average on {manifold} needs a bound on the {unbounded.norm} of a record, such as bound=10, chosen without "
            "looking at the data: longer records are shortened to it"
        )
    if bound is None:
        found = unbounded or manifold.embedding
        assert found is not None
        return found
    if not needed:
        raise ValueError(f"points of {manifold} are bounded by themselves: leave out the bound")
    bounded = manifold.convex_set(bound)
    assert bounded is not None
    return bounded


@final
@dataclass(frozen=True, eq=False)
class AverageRelease(Release):
    """A private average. On compact spaces it is the point nearest to a noisy mean vector, with an error that follows from it."""

    @property
    def space(self) -> ConvexSet | Embedding:
        assert isinstance(self.statistic, Average)
        return self.statistic.space

    @property
    def is_point(self) -> bool:
        """Whether it is a point of the manifold: an average of matrices may be singular."""
        return isinstance(self.space, Embedding)

    @property
    def truth(self) -> str:
        kind = "average" if isinstance(self.space, ConvexSet) else "projected mean"
        of = "the records" if self.bound is None else "the shortened records"
        of = "the persons' averages" if self.unit == "person" else of
        return super().truth.replace(self.statistic.words, f"the {kind} of {of}")

    def error_quantile(self, q: float) -> float:
        """A distance that contains the average of the records, or its nearest point, with probability ``q``.

        In a convex set it is a quantile of the length of the noise, in the norm of the set: the move into the set brings a vector
        no farther from the average, which is in it.

        On compact spaces it is a geodesic distance. Noise moved the mean vector by at most a quantile of its length, so the true
        vector is that close to the released one. ``turn`` of :class:`geodp.manifolds.Embedding` says how far apart their nearest
        points can be. The result is at most the diameter, which says nothing.
        """
        reach = self.noise.error_quantile(q) + self.tolerance
        if isinstance(self.space, Embedding):
            reach = self.space.turn(self.vector, reach)
        return min(reach, self._farthest)

    @property
    def _farthest(self) -> float:
        return self.space.diameter if isinstance(self.space, ConvexSet) else self.manifold.diameter

    def expected_error(self) -> float:
        """A bound on the expected distance; on compact spaces the mean of :meth:`error_quantile` over all probabilities."""
        return self._expected_error

    @cached_property
    def _expected_error(self) -> float:
        if isinstance(self.space, ConvexSet):
            return min(self.noise.expected_error() + self.tolerance, self._farthest)
        levels = (np.arange(64) + 0.5) / 64.0
        return float(np.mean([self.error_quantile(float(q)) for q in levels]))

    @property
    def says_nothing(self) -> bool:
        """Whether noise of an ordinary size could have moved the average anywhere."""
        return self.error_quantile(0.95) >= self._farthest

    def points(self) -> dict[str, Array]:
        return {"value": self.value}

    def released(self) -> dict[str, Any]:
        norm = self.space.norm if isinstance(self.space, ConvexSet) else "geodesic distance"
        return {**super().released(), "norm": norm}

    def lengths(self) -> dict[str, float]:
        """None where errors are not geodesic distances, which have units."""
        return super().lengths() if isinstance(self.space, Embedding) else {}

    def about_value(self) -> list[Row]:
        rows = about_point("value", self.value, self.notation)
        if self.bound is None or not isinstance(self.space, ConvexSet):
            return rows
        how = "longer records were shortened to it; how many were is unknown"
        return [*rows, ("bound", f"{self.bound:g} for the {self.space.norm} of a record: {how}")]

    def about_error(self) -> list[Row]:
        if isinstance(self.space, Embedding):
            return [] if self.says_nothing else super().about_error()
        within = f"within {self.error_quantile(0.95):.3g} of {self.truth} with probability 95%, in the {self.space.norm}"
        clipped = "" if self.bound is None else "; noise only; shortening unknown"
        kind = f"the ordinary average, not the Fréchet mean{clipped}"
        return [("error", within), ("", f"on average at most {self.expected_error():.3g} away ({kind})")]

    def _verdict(self) -> str:
        error = self.error_quantile(0.95)
        if isinstance(self.space, Embedding):
            if self.says_nothing:
                return "this release cannot tell any direction: the records point everywhere, or are too few"
            return verdict(self.expected_error(), error, self._farthest, "the largest distance there is")
        if self.says_nothing:
            return "this release says nothing about the data: the noise is as large as the set of all averages"
        share = error / max(float(np.linalg.vector_norm(self.value)), 1e-300)
        part = f"{percent(share)} of the norm of the average"
        if self.bound is not None:
            return f"noise alone makes an error of at most {part}; what shortening records to the bound did was not measured"
        word = next((word for most, word in WORDS if share < most), "next to nothing")
        return f"{word}: the 95% error is {part}"


@final
@dataclass(frozen=True)
class AveragePlan(Plan):
    """The plan of an average. Its errors are lengths of the noise, in the space where records are averaged."""

    @property
    def says_nothing(self) -> bool:
        """Whether the noise is as large as the set of all averages."""
        assert isinstance(self.statistic, Average)
        return self.expected_error > self.statistic.space.diameter


@final
@dataclass(frozen=True)
class Average(Statistic):
    r"""The average of the records as vectors of a linear space. Invalid records count as the origin.

    *Sensitivity.* Each record counts as a vector of a bounded set, a function of that record alone. Replacing one record moves
    one of ``n`` vectors by at most the diameter of the set. These diameters are ``sqrt(2) bound`` for positive-definite
    matrices (``bound`` for numbers), ``sqrt(2)`` for shares and ``sqrt(2) k`` for correlation matrices; ``convex_set`` of each
    manifold has the proof. Those of compact spaces are in their ``embedding``.

    *Validity*: singular matrices and shares of zero are on the edge of a convex set, and count. Records outside are invalid.

    *Tolerance*: the rounding of the sum, and the move of records inside. The vector is released; the value is computed from it.
    """

    manifold: Manifold
    #: The largest norm of a record, where there must be a bound.
    bound: float | None = None

    kind = "average"
    words = "the average of the records"
    release = AverageRelease
    is_point = True

    def __post_init__(self) -> None:
        if not isinstance(self.manifold, Manifold):
            raise TypeError(f"the manifold must be a Manifold but is of type {type(self.manifold).__name__}")
        if self.bound is not None:
            found = moderate_length(real_number(self.bound, "the bound"), "the bound")
            object.__setattr__(self, "bound", found)
        assert averaging_space(self.manifold, self.bound)

    @property
    def place(self) -> Manifold:
        return self.manifold

    @property
    def space(self) -> ConvexSet | Embedding:
        """Where records are averaged."""
        return averaging_space(self.manifold, self.bound)

    @property
    def codomain(self) -> Manifold:
        return Euclidean(self.space.dim)

    def tolerance(self, unit: Unit = "record") -> float:
        return 1e-9 * self.space.diameter

    def sensitivity(self, n: int) -> float:
        return self.space.diameter / n * (1.0 + 1e-14)

    def value(self, drawn: Array) -> Array:
        return self.space.nearest(drawn)

    def plan(self, request: Request, n: int) -> AveragePlan:
        return AveragePlan(request, n)

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        manifold, space = self.manifold, self.space

        def vectors(records: Array) -> Array:
            if isinstance(space, ConvexSet):
                records = space.inside(records)
            usual = np.abs(records).max(axis=tuple(range(1, records.ndim))) < _HUGE
            good = (manifold.valid(records) & usual).reshape(-1, *(1,) * len(manifold.point_shape))
            return space.write(manifold.raw_project(np.where(good, records, manifold.origin)))

        return sum_over(source, manifold, vectors, n) / n


class AverageOptions(Options, total=False):
    """The options of an average."""

    bound: float | None


class GroupedAverageOptions(AverageOptions, GroupedOptions, total=False):
    """With them, the groups."""


@overload
def private_average(
    x: Any, place: Manifold, epsilon: float | None = None, **options: Unpack[AverageOptions]
) -> AverageRelease: ...


@overload
def private_average(
    x: Any, place: Manifold, epsilon: float | None = None, **options: Unpack[GroupedAverageOptions]
) -> GroupedRelease: ...


@takes(AverageOptions, GroupOptions)
def private_average(x: Any, place: Manifold, epsilon: float | None = None, *, bound: float | None = None, **options: Any) -> Any:
    r"""The ordinary average of matrices, shares or correlations; on a compact space the projected mean. It needs no ball.

    *Public*: the manifold, the bound, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the
    same size that differ by replacing one record. *Theorem*: the records are averaged as vectors of a bounded set of a linear
    space, where one record moves the average by at most the diameter of the set over ``n``
    (:class:`geodp.statistics.average.Average`). Laplace or Gaussian noise is added to that vector, and the value is computed
    from the result: the nearest point of the set. Records outside of it count as the origin of the manifold; singular matrices
    and shares of zero are in it.

    This is not the Fréchet mean of :func:`private_mean`, which may be several times smaller. On convex sets the error is in the
    norm of the vectors. On compact spaces it is an angle, and computed from the release itself: if the records agree, the mean
    vector is long and the same noise turns it less. There ``private_projected_mean`` is another name for this function.

    Parameters
    ----------
    place
        ``SPD(k)`` or another space of positive-definite matrices (the metric does not matter), ``Simplex(parts)``,
        ``Correlation(k)``, or a compact space, such as a sphere. An average of matrices may be singular.
    bound
        For positive-definite matrices: the largest Frobenius norm of a record, public. Longer records are shortened to it, and
        the receipt cannot tell how many were. Too small a bound makes the average too small, and too large a one adds noise.
    x, epsilon, options
        As for :func:`private_mean`.

    >>> import numpy as np
    >>> from geodp import SPD, Sphere
    >>> x = np.array([np.diag(np.exp(u)) for u in np.random.default_rng(0).normal(size=(4000, 2))])
    >>> release = private_average(x, SPD(2), epsilon=1.0, bound=10.0)
    >>> bool(abs(release.value[0, 0] - np.exp(0.5)) < 0.2), bool(release.error_quantile(0.95) < 0.05)
    (True, True)
    >>> angles = np.random.default_rng(0).normal(2.0, 0.7, 2000)
    >>> release = private_average(np.stack([np.cos(angles), np.sin(angles)], axis=-1), Sphere(1), epsilon=1.0)
    >>> bool(abs(np.arctan2(release.value[1], release.value[0]) - 2.0) < 0.1), release.error_quantile(0.95) < 0.02
    (True, True)
    """
    return release(Average(place, bound), x, epsilon, options)


#: The same, by the name that it has on compact spaces.
private_projected_mean = private_average
