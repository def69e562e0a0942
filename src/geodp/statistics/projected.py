"""The projected mean: an average in the ambient space of a compact manifold, for records anywhere on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Embedding, Euclidean, Manifold
from geodp.records.sums import sum_over


def embedding_of(manifold: Manifold) -> Embedding:
    """The embedding of a manifold; raises if there is none."""
    if manifold.embedding is None:
        raise ValueError(
            f"{manifold} is not compact, so it has no projected mean: start from a wide ball, such as one of radius=30"
        )
    return manifold.embedding


@final
@dataclass(frozen=True)
class ProjectedMean:
    """The mean of the records as vectors of the ambient space of their manifold. Invalid records count as the origin.

    *Sensitivity.* Replacing one record moves one of ``n`` vectors by at most the diameter of the manifold in that space.
    *Tolerance*: the rounding of the sum. The point nearest to the mean estimates where the records are; it is computed
    from the released vector.
    """

    domain: Manifold
    kind: ClassVar[str] = "projected mean"
    words: ClassVar[str] = "the projected mean"

    @property
    def place(self) -> Manifold:
        return self.domain

    @property
    def embedding(self) -> Embedding:
        return embedding_of(self.domain)

    @property
    def codomain(self) -> Manifold:
        return Euclidean(self.embedding.dim)

    @property
    def ball(self) -> None:
        """None: noise in a flat space needs no ball."""

    @property
    def tolerance(self) -> float:
        return 1e-9 * self.embedding.diameter

    def sensitivity(self, n: int) -> float:
        return self.embedding.diameter / n * (1.0 + 1e-14)

    def check(self, n: int) -> None:
        """Sums can always be computed."""

    def compute(self, x: Any, n: int) -> Array:
        manifold, write = self.domain, self.embedding.write

        def vectors(records: Array) -> Array:
            invalid = ~manifold.valid(records)
            mask = invalid.reshape(-1, *(1,) * len(manifold.point_shape))
            return write(manifold.raw_project(np.where(mask, manifold.origin, records)))

        return sum_over(x, manifold, vectors, n) / n
