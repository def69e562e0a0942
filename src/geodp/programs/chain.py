"""A ball and a mean in it, planned together: what the whole chain will cost and reach, before anything is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, final

import numpy as np

from geodp.arithmetic.gamma import gamma_quantile
from geodp.inputs import Array, moderate_length, real_number, whole_number
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.planning import plan
from geodp.privacy.cost import Cost, compose
from geodp.privacy.notions import Privacy, privacy_of
from geodp.programs.ball import Search, balanced, plan_search, radius_target
from geodp.programs.found import portions
from geodp.programs.median import notions
from geodp.release import takes
from geodp.request import Plan, Request
from geodp.showing import Row, Shown
from geodp.solver.mean import means_possible
from geodp.statistics.mean import Mean
from geodp.verdict import against_spread

#: Parts of the privacy for the ball among which the best is taken.
PARTS = (0.1, 0.2, 0.35, 0.5, 0.65)
#: Nodes of the quadrature for clipping, in each of two directions.
_LEVELS = 96


#: So many times an expected radius is divided by 1.1 to find one in which floats can hold means.
_MOST_TRIES = 400


@final
@dataclass(frozen=True)
class ChainPlan(Shown):
    """What a private ball and a mean in it would be like, if records spread as was guessed. No data were read.

    ``find`` is the part of the privacy that goes to the ball. ``mean`` is the plan of the mean in a ball of the radius that the
    search is expected to find. ``enough`` is the number of records from which on the search arrives among them nine times in ten;
    infinite if the way is too long for any number. ``guess`` is the radius up to which a ball that you can name
    without looking is better: it needs no search.

    >>> from geodp import Sphere, plan_chain
    >>> chain = plan_chain(Sphere(2), n=5000, epsilon=1.0, spread=0.3)
    >>> [step.what for step in chain.search.steps], chain.radius < 1.0 < chain.enough < 5000
    (['median', 'radius'], True)
    """

    search: Search
    mean: Plan
    find: float
    spread: float
    #: That of ball and mean together.
    privacy: Privacy
    #: What clipping is expected to cost: the ball is not quite where the records are, and leaves some of them outside.
    clipping: float

    @property
    def cost(self) -> Cost:
        """What ball and mean would spend together, in every notion of privacy."""
        return compose([self.search.own_cost, self.mean.cost])

    @property
    def radius(self) -> float:
        """The radius that the search is expected to find."""
        return self.mean.ball.radius

    @property
    def expected_error(self) -> float:
        """Of the mean, by its noise and by clipping; never more than the ball is wide."""
        return min(self.mean.expected_error + self.clipping, 2.0 * self.radius)

    @cached_property
    def enough(self) -> float:
        return self.search.descent.enough(self.spread)

    @cached_property
    def guess(self) -> float:
        ball = self.mean.ball
        whole = Request(Mean(ball), self.privacy).plan(self.mean.n).noise.expected_error()
        return min(self.radius * self.expected_error / whole, 0.999 * ball.max_radius)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "find": self.find,
            "spread": self.spread,
            "steps": [str(step) for step in self.search.steps],
            "cost": self.cost.to_dict(),
            "radius": self.radius,
            "expected_error": self.expected_error,
            "clipping": self.clipping,
            "enough_records": self.enough if math.isfinite(self.enough) else None,
            "guess": self.guess,
            "verdict": self.verdict(),
            "mean": self.mean.to_dict(),
        }

    def verdict(self) -> str:
        """What the error means, in a line: against the guess of the spread."""
        if self.mean.says_nothing:
            return self.mean.verdict()
        return f"if the guess is right, {against_spread(self.expected_error, self.spread, self.mean.n)}"

    def head(self) -> str:
        return f"{self.search.manifold}: n = {self.mean.n}, a ball and a mean in it"

    def rows(self) -> list[Row]:
        start, n, length = self.search.start, self.mean.n, self.mean.notation.length
        outer = f"a ball of radius {start.radius:g}" if isinstance(start, Ball) else "all of it"
        few = f"; it may not arrive, with {self.enough:g} records or more it would" if n < self.enough else ""
        return [
            ("ball", f"{100 * self.find:g}% of the privacy ({self.search.privacy}), from {outer}"),
            ("search", f"{' -> '.join(step.what for step in self.search.steps)}{few}"),
            ("radius", f"about {length(self.radius)}, if records are {length(self.spread)} from their centre (root mean square)"),
            ("mean", f"the rest of the privacy ({self.mean.privacy}): expected error {length(self.expected_error)}"),
            ("", f"{length(self.mean.expected_error)} of it from noise, the rest from clipping"),
            ("verdict", self.verdict()),
            ("together", f"{self.cost}; advantage at most {self.cost.advantage:.3g}"),
            ("or", f"name a ball without looking: better if it holds most records with a radius below {length(self.guess)}"),
        ]


@takes()
def plan_chain(
    outer: Ball | Manifold,
    n: int,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    spread: float,
    find: float | None = None,
    layout: str | None = None,
) -> ChainPlan:
    """Plan :func:`geodp.private_ball` and :func:`geodp.private_mean` in the ball that it finds. Reads no data.

    Parameters
    ----------
    outer
        The wide public ball, or the compact manifold, that the search starts from.
    n, epsilon, delta, rho, mu
        The number of records, and the privacy of ball and mean together.
    spread
        A guess of how far records are from their centre: the root of the mean squared distance. Nothing private depends on it.
    find
        The part of the privacy that goes to the ball. By default that of 10%, 20%, 35%, 50% and 65% with the smallest expected
        error: many records need little for the ball, and few need much.
    layout
        That of the records to come, as for :func:`geodp.plan`.

    Notes
    -----
    The expected error rests on the guess, and on records that are spread like a normal law. The costs do not.

    >>> import numpy as np
    >>> from geodp import SPD, Ball
    >>> outer = Ball(SPD(3), np.eye(3), radius=30.0)
    >>> chain = plan_chain(outer, n=10_000, epsilon=1.0, spread=0.5)
    >>> chain.find, chain.cost.epsilon <= 1.0, chain.expected_error < 0.01
    (0.2, True, True)
    """
    whole, n = privacy_of(epsilon, delta, rho, mu), whole_number(n, 1, "the number of records n")
    spread = real_number(spread, "the spread")
    if not 0.0 < spread < math.inf:
        raise ValueError(f"the spread must be positive and finite but is {spread:g}: how far are records from their centre?")
    moderate_length(spread, "the spread")
    if find is not None:
        find = real_number(find, "the part of the privacy for the ball")
        if not 0.001 <= find <= 0.999:
            raise ValueError(f"the part of the privacy for the ball must be from 0.001 to 0.999 but is {find:g}: 0.2 is usual")
    chains = [_planned(outer, n, whole, part, spread, layout) for part in ((find,) if find is not None else PARTS)]
    return min(chains, key=lambda chain: chain.expected_error)


def _planned(outer: Ball | Manifold, n: int, whole: Privacy, find: float, spread: float, layout: str | None) -> ChainPlan:
    _, part, rest = portions(outer, n, notions(whole), find)
    search = plan_search(outer, n, part, rest)
    manifold = search.manifold
    center = outer.center if isinstance(outer, Ball) else manifold.origin
    limit = 0.999 * Ball(manifold, center, 1e-3).max_radius
    radius, clipping = _expected_ball(search, spread, limit)
    radius = next((radius * 1.1**-i for i in range(_MOST_TRIES) if _holds_means(manifold, center, radius * 1.1**-i)), radius)
    given = rest.parameters()
    return ChainPlan(search, plan(Ball(manifold, center, radius), n, **given, layout=layout), find, spread, whole, clipping)


def _holds_means(manifold: Manifold, center: Array, radius: float) -> bool:
    try:
        return means_possible(Ball(manifold, center, radius))
    except ValueError:  # floats hold no such ball
        return False


def _expected_ball(search: Search, spread: float, limit: float) -> tuple[float, float]:
    """The radius that the search will find, and what clipping in its ball will cost, roughly."""
    manifold, n, descent = search.manifold, search.n, search.descent
    reach = search.start.radius if isinstance(search.start, Ball) else limit
    away = min(reach, descent.expected_error(spread)) if n >= descent.enough(spread) else reach
    last = search.steps[-1]
    outside = balanced(search.then, manifold) if last.what == "median" else radius_target(search.then, last.privacy, manifold, n)
    radius, pull = _clipped(manifold.dim, spread, away, min(outside / n, 0.5), reach)
    return min(radius, limit), pull


def _clipped(dim: int, spread: float, away: float, outside: float, reach: float) -> tuple[float, float]:
    """The radius of a ball that leaves a part of the records outside, and how far clipping pulls their mean towards its centre.

    By quadrature, for records that are normal about a point so far from the centre: along the line through both, and across it.
    """
    along, across = _normal_lengths(dim)
    deviation = spread / math.sqrt(dim)
    places = away + deviation * along[:, None]
    distances = np.hypot(places, deviation * across)
    radius = min(float(np.quantile(distances, 1.0 - outside)), reach)
    return radius, away - float(np.mean(places * np.minimum(1.0, radius / distances)))


@lru_cache(maxsize=64)
def _normal_lengths(dim: int) -> tuple[Array, Array]:
    """Quantiles of a coordinate of a normal vector, and of the length of the others, at evenly spread probabilities."""
    levels = [(i + 0.5) / _LEVELS for i in range(_LEVELS)]
    across = [math.sqrt(2.0 * gamma_quantile(0.5 * (dim - 1), level)) for level in levels] if dim > 1 else [0.0]
    return np.array([NormalDist().inv_cdf(level) for level in levels]), np.array(across)
