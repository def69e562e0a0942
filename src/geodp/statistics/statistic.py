"""What a summary must say about itself to be released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball


class Statistic(Protocol):
    """A deterministic summary of private records that lives on a manifold. All it says here is public."""

    @property
    def codomain(self) -> Manifold:
        """Where its value lives."""

    @property
    def ball(self) -> Ball | None:
        """A public ball that holds every value, if there is one."""

    @property
    def tolerance(self) -> float:
        """A bound on the numerical error of the value, met for every data set."""

    def sensitivity(self, n: int) -> float:
        """A bound on the geodesic distance of the exact values of neighbouring data sets of ``n`` records."""

    def check(self, n: int) -> None:
        """A sentence if its values cannot be computed."""


@final
@dataclass(frozen=True)
class ClaimedSummary:
    """A summary of the caller's: its sensitivity is the caller's claim, numerical error of the value included.

    If there is a ball, the value is moved into it first. That is offered on Hadamard manifolds only, where the map is
    1-Lipschitz: the claim holds for the moved value as well.
    """

    codomain: Manifold
    claim: float
    ball: Ball | None = None

    @property
    def tolerance(self) -> float:
        """What moving the value into the ball may round away."""
        ball = self.ball
        return 0.0 if ball is None else 8.0 * self.codomain.log_rounding_in_ball(ball.center, ball.reach)

    def sensitivity(self, n: int) -> float:
        return self.claim if self.ball is None else min(self.claim, 2.0 * self.ball.reach)

    def check(self, n: int) -> None:
        if self.ball is not None and not self.tolerance < 0.1 * self.ball.radius:
            raise ValueError(
                f"float64 cannot resolve this ball of {self.codomain}: rounding may move points by {self.tolerance:.2g}, more "
                f"than a tenth of the radius {self.ball.radius:g}. A smaller radius would work"
            )
