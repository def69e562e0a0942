"""The contract of a summary that can be released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, final

from geodp.inputs import moderate_length
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball


class Statistic(Protocol):
    """A deterministic summary of private records, a point of a manifold. All attributes here are public."""

    #: Its name on receipts, and what an error is an error of.
    kind: ClassVar[str]
    words: ClassVar[str]

    @property
    def place(self) -> Ball | Manifold:
        """Where the records are: the public ball, or the manifold if there is none."""

    @property
    def codomain(self) -> Manifold:
        """The manifold of its value."""

    @property
    def ball(self) -> Ball | None:
        """A public ball that contains every value, or None."""

    @property
    def tolerance(self) -> float:
        """A bound on the numerical error of the value, met for every data set."""

    def sensitivity(self, n: int) -> float:
        """A bound on the geodesic distance between the exact values of neighbouring data sets of ``n`` records."""

    def check(self, n: int) -> None:
        """Raises if its values cannot be computed."""


@final
@dataclass(frozen=True)
class ClaimedSummary:
    """The caller's own summary. Its sensitivity is the caller's claim, and includes the numerical error of the value.

    If there is a ball, the claim includes that it contains the value of every data set.
    """

    codomain: Manifold
    claim: float
    ball: Ball | None = None

    kind: ClassVar[str] = "summary"
    words: ClassVar[str] = "your summary"

    def __post_init__(self) -> None:
        moderate_length(self.claim, "the sensitivity")

    @property
    def place(self) -> Ball | Manifold:
        return self.ball or self.codomain

    @property
    def tolerance(self) -> float:
        """Zero: the claim is about the computed values."""
        return 0.0

    def sensitivity(self, n: int) -> float:
        return self.claim if self.ball is None else min(self.claim, 2.0 * self.ball.reach)

    def check(self, n: int) -> None:
        ball = self.ball
        rounding = 0.0 if ball is None else self.codomain.log_rounding(ball.center, ball.reach)
        if ball is not None and not rounding < 0.01 * ball.radius:
            raise ValueError(
                f"float64 cannot resolve this ball of {self.codomain}: rounding may move points by {rounding:.2g}, more than a "
                f"hundredth of the radius {ball.radius:g}. A smaller radius would work"
            )
