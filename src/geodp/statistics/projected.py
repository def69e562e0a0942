"""The projected mean: an average in the ambient space of a compact manifold, for records anywhere on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack, final, overload

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Embedding, Euclidean, Manifold
from geodp.privacy.neighbours import Unit
from geodp.receipt import GroupedRelease, Release
from geodp.records.dataset import GroupOptions
from geodp.records.sums import sum_over
from geodp.release import GroupedOptions, Options, release, takes
from geodp.request import Statistic
from geodp.showing import Row
from geodp.verdict import verdict


def embedding_of(manifold: Manifold) -> Embedding:
    """The embedding of a manifold; raises if there is none."""
    if manifold.embedding is None:
        raise ValueError(
            f"{manifold} is not compact, so it has no projected mean: start from a wide ball, such as one of radius=30"
        )
    return manifold.embedding


@final
@dataclass(frozen=True, eq=False)
class ProjectedRelease(Release):
    """A projected mean: the point nearest to a noisy mean vector, with an error that follows from the vector."""

    def error_quantile(self, q: float) -> float:
        """A geodesic distance that contains the projected mean of the records with probability ``q``.

        Noise moved the mean vector by at most a quantile of its length, so the true vector is that close to the released
        one. ``turn`` of :class:`geodp.manifolds.Embedding` says how far apart their nearest points can be. The result is at most
        the diameter of the space, which says nothing.
        """
        assert isinstance(self.statistic, ProjectedMean)
        reach = self.noise.error_quantile(q) + self.tolerance
        return min(self.statistic.embedding.turn(self.vector, reach), self.manifold.diameter)

    def expected_error(self) -> float:
        """The mean of :meth:`error_quantile` over all probabilities: a bound on the expected distance."""
        return self._expected_error

    @cached_property
    def _expected_error(self) -> float:
        levels = (np.arange(64) + 0.5) / 64.0
        return float(np.mean([self.error_quantile(float(q)) for q in levels]))

    @property
    def says_nothing(self) -> bool:
        """Whether noise of an ordinary size could have turned the mean anywhere."""
        return self.error_quantile(0.95) >= self.manifold.diameter

    def about_error(self) -> list[Row]:
        return [] if self.says_nothing else super().about_error()

    def _verdict(self) -> str:
        if self.says_nothing:
            return "this release cannot tell any direction: the records point everywhere, or are too few"
        return verdict(self.expected_error(), self.error_quantile(0.95), self.manifold.diameter, "the largest distance there is")


@final
@dataclass(frozen=True)
class ProjectedMean(Statistic):
    """The mean of the records as vectors of the ambient space of their manifold. Invalid records count as the origin.

    *Sensitivity.* Replacing one record moves one of ``n`` vectors by at most the diameter of the manifold in that space.
    *Tolerance*: the rounding of the sum. The point nearest to the mean estimates where the records are; it is computed
    from the released vector.
    """

    domain: Manifold
    kind = "projected mean"
    words = "the projected mean"
    release = ProjectedRelease
    is_point = True

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Manifold):
            raise TypeError(f"the manifold must be a Manifold but is of type {type(self.domain).__name__}")
        embedding_of(self.domain)

    @property
    def place(self) -> Manifold:
        return self.domain

    @property
    def embedding(self) -> Embedding:
        return embedding_of(self.domain)

    @property
    def codomain(self) -> Manifold:
        return Euclidean(self.embedding.dim)

    def tolerance(self, unit: Unit = "record") -> float:
        return 1e-9 * self.embedding.diameter

    def sensitivity(self, n: int) -> float:
        return self.embedding.diameter / n * (1.0 + 1e-14)

    def value(self, drawn: Array) -> Array:
        return self.embedding.nearest(drawn)

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        manifold, write = self.domain, self.embedding.write

        def vectors(records: Array) -> Array:
            invalid = ~manifold.valid(records)
            mask = invalid.reshape(-1, *(1,) * len(manifold.point_shape))
            return write(manifold.raw_project(np.where(mask, manifold.origin, records)))

        return sum_over(source, manifold, vectors, n) / n


@overload
def private_projected_mean(
    x: Any, manifold: Manifold, epsilon: float | None = None, **options: Unpack[Options]
) -> ProjectedRelease: ...


@overload
def private_projected_mean(
    x: Any, manifold: Manifold, epsilon: float | None = None, **options: Unpack[GroupedOptions]
) -> GroupedRelease: ...


@takes(Options, GroupOptions)
def private_projected_mean(x: Any, manifold: Manifold, epsilon: float | None = None, **options: Any) -> Any:
    r"""The projected mean of records on a compact space. It needs no ball, and the records may be anywhere.

    *Public*: the manifold, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same
    size that differ by replacing one record. *Theorem*: the records are averaged as vectors of a space around the manifold,
    where one record moves the mean by at most the diameter of the manifold over ``n``
    (:class:`geodp.statistics.projected.ProjectedMean`). Laplace or Gaussian noise is added to that vector, and the nearest point
    of the manifold is computed from the result. Records that are not points of the manifold count as its origin.

    The error bar is computed from the release itself: if the records agree, the mean vector is long and the same noise turns it
    less. Arguments are those of :func:`private_mean`.

    >>> import numpy as np
    >>> from geodp import Sphere
    >>> angles = np.random.default_rng(0).normal(2.0, 0.7, 2000)
    >>> release = private_projected_mean(np.stack([np.cos(angles), np.sin(angles)], axis=-1), Sphere(1), epsilon=1.0)
    >>> bool(abs(np.arctan2(release.value[1], release.value[0]) - 2.0) < 0.1), release.error_quantile(0.95) < 0.02
    (True, True)
    """
    return release(ProjectedMean(manifold), x, epsilon, options)
