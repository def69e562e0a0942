"""A measurement: a statistic, an amount of privacy, and the noise for them. Everything except the data.

``private_mean`` makes a measurement and applies it to records; ``plan`` and ``audit`` examine one without records.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

from geodp.inputs import whole_number
from geodp.noise.choice import Candidate, Hidden, MechanismName, candidates, choose, usable
from geodp.noise.flat import Family
from geodp.noise.mechanism import Mechanism
from geodp.noise.tangent import stretch_of_log
from geodp.privacy.neighbours import REPLACE_ONE
from geodp.privacy.notions import Privacy
from geodp.statistics.statistic import Statistic


@final
@dataclass(frozen=True)
class Measurement:
    r"""A statistic of ``n`` records, to be released with an amount of privacy. All of this is public.

    *Neighbours*: data sets of ``n`` records that differ by replacing one. Their exact values are at most ``sensitivity``
    apart, and their computed values at most

    ``Delta = sensitivity + 2 * tolerance``.

    The normal coordinates of computed values at the centre of the ball are at most ``L Delta`` apart, with the Lipschitz constant
    ``L`` of ``log`` (:func:`geodp.noise.tangent.stretch_of_log`), plus the rounding errors of both. ``noise`` is made for
    these distances, and its docstring has the theorem that gives the privacy.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> from geodp.privacy.notions import PureDP
    >>> from geodp.statistics.mean import FrechetMean
    >>> mean = FrechetMean(Ball(Sphere(2), [0.0, 0.0, 1.0], np.pi / 8))
    >>> round(Measurement(mean, 100, PureDP(2.0)).noise.scale, 9)
    0.004142136
    """

    statistic: Statistic
    n: int
    privacy: Privacy
    mechanism: MechanismName = "auto"
    law: Family | None = None
    project: bool | None = None
    neighbours: str = REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole_number(self.n, 1, "the number of records n"))
        self.statistic.check(self.n)

    @cached_property
    def sensitivity(self) -> float:
        """The sensitivity of the exact statistic."""
        return self.statistic.sensitivity(self.n)

    @cached_property
    def tolerance(self) -> float:
        return self.statistic.tolerance

    @cached_property
    def hidden(self) -> Hidden:
        """How far neighbouring data sets can move the computed value."""
        distance, ball = self.sensitivity + 2.0 * self.tolerance, self.statistic.ball
        if ball is None:
            return Hidden(self.statistic.codomain, distance)
        rounding = 8.0 * ball.manifold.log_rounding(ball.center, ball.reach)
        apart = min(stretch_of_log(ball) * distance, 2.0 * ball.reach)
        return Hidden(ball.manifold, distance, ball, apart + 2.0 * rounding)

    @cached_property
    def noise(self) -> Mechanism:
        """The mechanism; raises if there is none."""
        return choose(self.hidden, self.privacy, self.mechanism, self.law, self.project)

    def check(self) -> None:
        """Raises if there is no mechanism, as :attr:`noise` does, but computes no errors."""
        usable(self.hidden, self.privacy, self.mechanism, self.law, self.project)

    def candidates(self) -> list[Candidate]:
        """All mechanisms. Those that cannot be used have a reason."""
        return candidates(self.hidden, self.privacy, self.project)
