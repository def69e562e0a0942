r"""A ball found privately: where the records are, and how far they spread.

*Public*: the wide ball or the compact manifold to start from, the number of records, the privacy, and what is released.
*Private*: the records. *Neighbours*: data sets of the same size that differ by replacing one record.

The search is a chain of releases. Each looks at the records through what the earlier ones released, so their costs add up
(:func:`geodp.privacy.cost.compose`), and everything decided on the way is a function of public numbers and of earlier releases.

1. *A median* (:mod:`geodp.programs.median`): a centre, and how far records are from it. It needs no ball and few records.
2. *A radius.* The exponential mechanism over a public geometric grid of radii. ``k(t)`` records are farther than ``t`` from the
   centre, and ``k`` is a target: the score of a radius is minus the number of records by which ``k`` misses the interval between
   its own ``k(t)`` and that of the next smaller radius. Replacing one record changes it by at most 1, and some radius has the
   score 0, however suddenly ``k(t)`` falls. Only radii of balls in which a mean can be released are on the grid, so nothing fails
   later.
   If the records are too few to tell a radius, it follows from the scale that came with the median, as if they were normal: that
   costs nothing.

*The target.* A larger radius clips fewer records and needs more noise. Clipping costs at most ``k/n`` for each unit of the
radius, noise ``E'(t)``; they balance at ``k = n E'(t)``, about ``2 d/epsilon`` records for Laplace noise with ``epsilon`` for
the mean. But a target of few records cannot be told from none: it is at least ``(2/e) (log m + 3)`` for ``e`` of the exponential
mechanism, where ``m`` is the number of radii. If records are many, larger radii get smaller public weights, and ``m`` is about 6.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal, Unpack, cast, final

import numpy as np

from geodp.arithmetic.gamma import gamma_quantile
from geodp.inputs import Array, describe
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.mechanism import Noise
from geodp.noise.selection import Choice, Selection
from geodp.privacy.cost import Cost, compose, laplace_ratio, pure_epsilon, selection_epsilon
from geodp.privacy.notions import Privacy
from geodp.privacy.splitting import split
from geodp.programs.descent import Descent, Median, check_compact
from geodp.programs.median import descend, descents, in_one_notion
from geodp.receipt import Receipt, about_point
from geodp.records.dataset import GroupOptions
from geodp.release import Options, release, takes
from geodp.request import Flow, Plan, Program, ProgramPlan, Request, Statistic
from geodp.showing import Row
from geodp.solver.mean import means_possible
from geodp.statistics.counts import beyond

#: Raises a ``ValueError`` for balls that are of no use. It may depend on public numbers alone.
Check = Callable[[Ball], None]
What = Literal["median", "radius"]


def accept_all(ball: Ball) -> None:
    """The check that every ball passes."""


#: The ratio and the number of the radii.
RATIO, RADII = 1.1, 140
#: So many times a radius is divided by that ratio to find one in which floats can hold means: down to 1e-16 of it.
_MOST_TRIES = 400
#: Records are looked for up to so many times the scale of the median from it.
_FARTHEST = 20.0
#: A radius is chosen if this part of the records is enough to tell it; otherwise it follows from the scale.
_TELLING = 0.1
#: Clipping all around costs less than what all clipped records on one side do: so many times as many may be outside.
_LOOSE = 1.5
#: Radii that follow from a scale leave no fewer records outside than this part.
_LEAST_OUTSIDE = 0.02


# ---------------------------------------------------------------------- the plan


@final
@dataclass(frozen=True)
class Step:
    """One release of the search and its part of the privacy."""

    what: What
    privacy: Privacy
    cost: Cost

    def __str__(self) -> str:
        return f"{self.what} ({self.privacy})"


@final
@dataclass(frozen=True, eq=False)
class BallRelease(Receipt):
    """A ball found privately: public from now on, with the receipt of the search."""

    @property
    def ball(self) -> Ball:
        found: Ball = self.result
        return found

    @property
    def search(self) -> Search:
        """What the search did."""
        found: Any = self.request.plan(max(1, self.n or 1))
        return found

    def points(self) -> dict[str, Array]:
        return {"center": self.ball.center}

    def lengths(self) -> dict[str, float]:
        return {"radius": self.ball.radius}

    def released(self) -> dict[str, Any]:
        return {
            "center": self.ball.center.tolist(),
            "radius": self.ball.radius,
            "steps": [str(step) for step in self.search.steps],
            **({} if self.count is None else {"count": self.count.document()}),
        }

    def head(self) -> str:
        return "PRIVATE BALL: public from now on" if self.private else super().head()

    def about_value(self) -> list[Row]:
        return [("radius", self.notation.length(self.ball.radius, 6)), *about_point("center", self.ball.center, self.notation)]

    def rows(self) -> list[Row]:
        start = self.search.start
        outer = f"a ball of radius {self.notation.length(start.radius)}" if isinstance(start, Ball) else f"all of {start}"
        return [
            *self.about_value(),
            *self.about_privacy(),
            ("search", f"from {outer}: {' -> '.join(step.what for step in self.search.steps)}"),
            ("manifold", repr(self.manifold)),
            *self.about_members(),
            *self.about_budget(),
        ]


@final
@dataclass(frozen=True)
class EnclosingBall(Program):
    """A ball that holds most records: see the module."""

    start: Ball | Manifold
    #: The privacy of the mean that the ball is for: how much noise it will have decides how many records may be left outside.
    then: Privacy | None = None
    #: A request that must be possible in the ball for these numbers of members. Its own ball does not matter.
    later: Request | None = None
    sizes: tuple[int, ...] = ()

    kind = "ball"
    words = "one ball"
    release = BallRelease
    by_group = False

    def __post_init__(self) -> None:
        if self.then is not None and not isinstance(self.then, Privacy):
            raise TypeError(f"then must be the privacy of a mean, such as PureDP(0.8), but is {describe(self.then)}")
        check_start(self.start, self.accepts)

    @property
    def place(self) -> Ball | Manifold:
        return self.start

    @property
    def manifold(self) -> Manifold:
        return self.start.manifold if isinstance(self.start, Ball) else self.start

    @property
    def accepts(self) -> Check:
        """Raises for a ball in which a later request is not possible."""
        return accept_all if self.later is None else partial(_check_later, self.later, self.sizes)

    def plan(self, request: Request, n: int) -> Search:
        return Search(request, n)


def in_ball(statistic: Statistic, ball: Ball) -> Statistic:
    """The same statistic in another ball."""
    found: Statistic = replace(cast(Any, statistic), ball=ball)
    return found


def _check_later(later: Request, sizes: tuple[int, ...], ball: Ball) -> None:
    request = replace(later, statistic=in_ball(later.statistic, ball))
    for n in sizes:
        request.check(n)


@final
@dataclass(frozen=True)
class Search(ProgramPlan):
    """What a search will do, from public numbers alone: its steps, and the later release that its ball is for.

    *Which steps.* If the records are too few to tell a radius, the median alone; otherwise a radius is chosen about it.

    *Approximate privacy* is not split: the whole search is accounted in one mu or in one epsilon
    (``in_one_notion`` of :mod:`geodp.programs.median`).
    """

    @property
    def _program(self) -> EnclosingBall:
        found: Any = self.request.statistic
        return found

    @property
    def start(self) -> Ball | Manifold:
        return self._program.start

    @property
    def manifold(self) -> Manifold:
        return self._program.manifold

    @property
    def then(self) -> Privacy:
        return self._program.then or self.privacy

    @cached_property
    def _parts(self) -> tuple[tuple[What, Privacy], ...]:
        whole = in_one_notion(self.start, self.n, self.privacy)
        for parts in WAYS:
            shares = split(whole, [share for _, share in parts])
            if len(shares) == 1 or records_to_tell(shares[1], self.n) < _TELLING * self.n:
                break
        return tuple((what, share) for (what, _), share in zip(parts, shares, strict=True))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        costs = (self._descent[1] if what == "median" else Selection(part).cost for what, part in self._parts)
        return tuple(Step(*each, cost) for each, cost in zip(self._parts, costs, strict=True))

    @cached_property
    def _descent(self) -> tuple[Descent, Cost]:
        return descents(self.start, self.n, self._parts[0][1])

    @property
    def descent(self) -> Descent:
        """The descent to the median."""
        return self._descent[0]

    @cached_property
    def own_cost(self) -> Cost:
        return compose(step.cost for step in self.steps)

    def __str__(self) -> str:
        return f"{' -> '.join(step.what for step in self.steps)}, together {self.privacy}"

    def flow(self) -> Flow:
        """Each step looks at the records through what the earlier ones released."""
        manifold = self.manifold
        median: Median = (yield from descend(self, *self._descent)).median
        center, reach = self._around(median)
        if len(self.steps) == 1:
            reach = self._radii(center, self._radius_of(median))[0]
        for step in self.steps[1:]:
            plan = self.step(Radius.of(self, step, center, self._radii(center, reach)), step.privacy)
            (drawn,) = yield (plan,)
            reach = plan.statistic.value(drawn)
        return Ball(manifold, center, reach)

    def _around(self, median: Median) -> tuple[Array, float]:
        """A centre at the median, or as near as floats and the later request can be there, and how far records may be from it."""
        manifold, accepts, center, moved = self.manifold, self._program.accepts, median.point, 0.0
        if isinstance(self.start, Ball):
            away = manifold.raw_coordinates(self.start.center, manifold.raw_log(self.start.center, center))
            center, moved = moved_center(wide_ball(manifold, self.start.center, self.start.radius), away, accepts)
        reach = self.start.radius + moved if isinstance(self.start, Ball) else math.inf
        return center, min(reach, _FARTHEST * median.scale) if median.arrived else reach

    def _radii(self, center: Array, most: float) -> list[float]:
        """Radii up to ``most`` of balls in which the later request is possible, or at least one that is larger."""
        manifold, accepts = self.manifold, self._program.accepts
        widest = self.start.radius if isinstance(self.start, Ball) else math.inf
        return possible_radii(manifold, center, most, accepts) or possible_radii(manifold, center, widest, accepts)[-1:]

    def _radius_of(self, median: Median) -> float:
        """The radius for normal records with that scale: it balances clipping and noise, too."""
        d = self.manifold.dim
        outside = min(max(_LOOSE * balanced(self.then, self.manifold) / self.n, _LEAST_OUTSIDE), 0.5)
        radius = median.scale * math.sqrt(gamma_quantile(0.5 * d, 1.0 - outside) / gamma_quantile(0.5 * d, 0.5))
        return math.hypot(radius, median.noise)


#: The ways to search, best first: their steps and the parts of the privacy that these get. The last one always works.
WAYS: tuple[tuple[tuple[What, float], ...], ...] = (
    (("median", 0.7), ("radius", 0.3)),
    (("median", 1.0),),
)


def plan_search(start: Ball | Manifold, n: int, privacy: Privacy, then: Privacy | None = None) -> Search:
    """The steps that a search for a ball takes; ``then`` is the privacy of the mean that the ball is for."""
    found: Any = Request(EnclosingBall(start, then), privacy).plan(n)
    return found


# ---------------------------------------------------------------------- releasing


class BallOptions(Options, total=False):
    """The options of a search."""

    then: Privacy | None


@takes(BallOptions, GroupOptions)
def private_ball(
    x: Any, outer: Ball | Manifold, epsilon: float | None = None, *, then: Privacy | None = None, **options: Unpack[Options]
) -> BallRelease:
    r"""A ball that holds most of the records, found with differential privacy.

    *Public*: ``outer``, the number of records, the privacy, all other arguments, and the ball that comes out. *Private*: the
    records. *Neighbours*: data sets of the same size that differ by replacing one record. *Theorem*: the steps are exponential
    mechanisms and tangent mechanisms whose costs add up; see :mod:`geodp.programs.ball`.

    Parameters
    ----------
    x
        The records, as for :func:`geodp.private_mean`.
    outer
        A wide public ball, on spaces without positive curvature; a radius of 30 on matrices is a factor of ``1e13`` either way.
        Or a compact manifold: then nothing need be known.
    epsilon, delta, rho, mu
        The privacy to spend on the ball, as for :func:`geodp.private_mean`.
    then
        The privacy of the mean that the ball is for: how much noise it will have decides how many records may be left outside. By
        default as much as is spent here.
    options
        As for :func:`geodp.private_mean`, but not by group.

    >>> import numpy as np
    >>> from geodp import SPD, Ball
    >>> x = np.array([np.diag([1e-6, 2e-6]) * np.exp(u) for u in np.random.default_rng(0).normal(0.0, 0.3, 4000)])
    >>> found = private_ball(x, Ball(SPD(2), np.eye(2), radius=30.0), epsilon=1.0)
    >>> bool(found.ball.contains(x).mean() > 0.9), found.ball.radius < 3.0
    (True, True)
    """
    found: BallRelease = release(EnclosingBall(outer, then), x, epsilon, options)
    return found


def check_start(outer: Ball | Manifold, check: Check = accept_all) -> None:
    """Raises if no ball that passes the check can be found from there."""
    manifold = outer.manifold if isinstance(outer, Ball) else outer
    if not isinstance(manifold, Manifold):
        raise TypeError(f"outer must be a wide Ball or a compact manifold but is of type {type(outer).__name__}")
    if isinstance(outer, Manifold):
        check_compact(outer)
    elif not math.isinf(manifold.injectivity_radius):
        raise ValueError(f"on {manifold} no ball is needed to start from: give the manifold itself")
    center, reach = (outer.center, outer.radius) if isinstance(outer, Ball) else (manifold.origin, math.inf)
    if not possible_radii(manifold, center, reach, check):
        widest = possible_radii(manifold, center, reach)
        if not widest:
            raise ValueError(
                f"float64 resolves no mean of {manifold} near this centre: start from one with a smaller condition number"
            )
        check(Ball(manifold, center, widest[0]))  # says what is wrong


# ---------------------------------------------------------------------- the steps


def wide_ball(manifold: Manifold, center: Array, reach: float) -> Ball:
    """A ball for looking at records: its radius need not be one in which means are unique."""
    return Ball(manifold, center, min(reach, 0.999 * Ball(manifold, center, 1e-3).max_radius))


def moved_center(ball: Ball, coordinates: Array, check: Check = accept_all) -> tuple[Array, float]:
    """The point with these normal coordinates, shortened to the ball and to what floats can hold, and its distance.

    Floats must hold means in some ball about it, and some ball about it must pass the check. If they do so nowhere near, it is
    the centre.
    """
    manifold = ball.manifold
    length = float(np.linalg.vector_norm(coordinates))
    coordinates = coordinates * min(1.0, ball.radius / max(length, 1e-300))
    for _ in range(_MOST_TRIES):
        with np.errstate(all="ignore"):
            point = manifold.raw_project(manifold.raw_exp(ball.center, manifold.raw_tangent(ball.center, coordinates)))
        held = manifold.valid(point) and any(_mean_possible(manifold, point, part * ball.radius) for part in (1e-3, 0.03, 1.0))
        if held and (check is accept_all or possible_radii(manifold, point, ball.radius, check)):
            return point, float(np.linalg.vector_norm(coordinates))
        coordinates = 0.9 * coordinates
    return ball.center, 0.0


@final
@dataclass(frozen=True)
class Radius(Statistic, step=True):
    """A radius about the centre, by the exponential mechanism over those of balls in which a mean can be released."""

    #: A ball about the centre that is as wide as distances are told apart.
    ball: Ball
    radii: tuple[float, ...]
    targets: tuple[int, ...]

    kind = "radius"
    words = "the radius"

    @classmethod
    def of(cls, search: Search, step: Step, center: Array, radii: list[float]) -> Radius:
        manifold = search.manifold
        without_cut_locus = math.isinf(manifold.injectivity_radius)
        wide = Ball(manifold, center, radii[0]) if without_cut_locus else wide_ball(manifold, center, math.inf)
        root = math.sqrt(manifold.curvature)
        bends = [root * radius / math.tan(root * radius) if root > 0.0 else 1.0 for radius in radii]
        targets = (radius_target(search.then, step.privacy, manifold, search.n, bend) for bend in bends)
        return cls(wide, tuple(radii), tuple(targets))

    @property
    def place(self) -> Ball:
        return self.ball

    def noise(self, plan: Plan) -> Noise:
        preference = _preference(plan.privacy, plan.n)
        return Choice(Selection(plan.privacy), tuple(round(256.0 * RATIO ** (preference * i)) for i in range(len(self.radii))))

    def compute(self, source: Any, n: int, progress: Any = None) -> list[int]:
        counts = beyond(source, self.ball, np.array(self.radii), n)
        # that the target lies between what this radius leaves outside and what the next smaller one does
        pairs = zip(self.targets, pairwise([*counts, n]), strict=True)
        return [-max(0, outside - target, target - next_outside) for target, (outside, next_outside) in pairs]

    def value(self, drawn: Array) -> float:
        return self.radii[int(drawn[0])]


def _preference(privacy: Privacy, n: int) -> float:
    """The power of one over the radius that weighs radii when one is chosen.

    All radii beyond the farthest record have the same score. Weights make the smaller of them likelier. But a radius that is far
    too small misses half of the records or more, which must outweigh its weight by ``e^8``.
    """
    return min(2.0, max(0.0, 0.25 * n * selection_epsilon(privacy) - 8.0) / (RADII * math.log(RATIO)))


def records_to_tell(privacy: Privacy, n: int) -> float:
    """How many records must be outside so that radii beyond the farthest record are seldom chosen: one time in twenty."""
    shrink = RATIO ** -_preference(privacy, n)
    beyond_all = RADII if shrink == 1.0 else (1.0 - shrink**RADII) / (1.0 - shrink)
    return 2.0 / selection_epsilon(privacy) * (math.log(beyond_all) + 3.0)


def radius_target(then: Privacy, privacy: Privacy, manifold: Manifold, n: int, bend: float = 1.0) -> int:
    """How many records a radius is to leave outside: what balances clipping with the later noise, but enough to be told."""
    return round(min(max(balanced(then, manifold) * bend, records_to_tell(privacy, n)), 0.5 * n))


def balanced(then: Privacy, manifold: Manifold) -> float:
    """So many records outside of a ball balance clipping with the noise of a mean, where the space is flat."""
    return 2.0 * manifold.dim / (laplace_ratio(then, manifold.dim) or pure_epsilon(then))


def possible_radii(manifold: Manifold, center: Array, reach: float, check: Check = accept_all) -> list[float]:
    """A geometric grid, the largest first, of radii up to ``reach`` of balls in which means can be released and which pass the
    check; maybe empty."""
    limit = 0.999 * Ball(manifold, center, 1e-3).max_radius
    largest = min(reach, limit)
    tries = 0
    while not _mean_possible(manifold, center, largest, check):
        largest, tries = largest / RATIO, tries + 1
        if tries > _MOST_TRIES:
            return []
    radii = [largest * RATIO**-i for i in range(RADII)]
    # rounding about a far centre does not shrink with the radius, so those below some radius may be impossible
    count = bisect_left(range(1, RADII + 1), True, key=lambda i: not _mean_possible(manifold, center, radii[i - 1], check))
    return radii[:count]


def _mean_possible(manifold: Manifold, center: Array, radius: float, check: Check = accept_all) -> bool:
    try:
        ball = Ball(manifold, center, radius)  # may be so wide that distances in it overflow
        possible = means_possible(ball)
        if possible:
            check(ball)
    except ValueError:
        return False
    return possible
