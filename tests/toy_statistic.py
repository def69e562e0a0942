"""A statistic as another package might add it, in one short file: the share of the records in one half of the ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geodp import Ball, Euclidean
from geodp.records.dataset import GroupOptions
from geodp.records.sums import sum_over
from geodp.release import Options, release, takes
from geodp.statistics.spread import AboutBall


@dataclass(frozen=True)
class UpperHalf(AboutBall):
    """The share of the records whose first coordinate is positive. One record changes it by at most ``1/n``."""

    kind = "share"
    words = "the share of the records in the upper half"
    codomain = Euclidean(1)

    def sensitivity(self, n: int) -> float:
        return (1.0 + 1e-12) / n

    def compute(self, source: Any, n: int, progress: Any = None) -> Any:
        return sum_over(source, self.ball.manifold, self._rows, n) / n

    def _rows(self, records: Any) -> Any:
        manifold, center = self.ball.manifold, self.ball.center
        return (manifold.coordinates(center, manifold.log(center, self.ball.clip(records)))[:, :1] > 0.0).astype(np.float64)


@takes(Options, GroupOptions)
def private_share(x: Any, ball: Ball, epsilon: float | None = None, **options: Any) -> Any:
    """The share of the records in the upper half of the ball."""
    return release(UpperHalf(ball), x, epsilon, options)
