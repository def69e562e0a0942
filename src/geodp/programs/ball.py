r"""A ball found privately: where the records are, and how far they spread.

*Public*: the wide ball or the compact manifold to start from, the number of records, the privacy, and what is released.
*Private*: the records. *Neighbours*: data sets of the same size that differ by replacing one record.

The search is a chain of releases. Each looks at the records through what the earlier ones released, so their costs add up
(:func:`geodp.privacy.cost.compose`), and everything decided on the way is a function of public numbers and of earlier releases.

1. *A first centre.* On compact spaces the projected mean (:mod:`geodp.statistics.projected`). Elsewhere medians of normal
   coordinates at the centre of the wide ball, each by the exponential mechanism over the cells of a fine public grid: the error
   in rank grows with the logarithm of the radius over the spread only. If the records are too few for that, one cube of normal
   coordinates, by one exponential mechanism over all cubes of many sizes (:mod:`geodp.programs.cells`): the score of a cube is
   the number of its records, but at most half of all, and the smaller of two cubes counts more. Empty cubes need not be listed,
   and ``N`` cubes in all need about ``(2/e) log N`` records in the right one. If the records are too few for that as well, a
   median along the directions in which units of measurement shift the space (for matrices the logarithm of the determinant), or
   nothing.
2. *A radius.* The exponential mechanism over a public geometric grid of radii. ``k(t)`` records are farther than ``t`` from the
   centre, and ``k`` is a target: the score of a radius is minus the number of records by which ``k`` misses the interval between
   its own ``k(t)`` and that of the next smaller radius. Replacing one record changes it by at most 1, and some radius has the
   score 0, however suddenly ``k(t)`` falls. Only radii of balls in which a mean can be released are on the grid, so nothing fails
   later.
3. *Again*: the mean of the normal coordinates in that ball, with Laplace or Gaussian noise, is a better centre, and about it the
   radius is smaller.

*The target.* A larger radius clips fewer records and needs more noise. Clipping costs at most ``k/n`` for each unit of the
radius, noise ``E'(t)``; they balance at ``k = n E'(t)``, about ``2 d/epsilon`` records for Laplace noise with ``epsilon`` for
the mean. But a target of few records cannot be told from none: it is at least ``(2/e) (log m + 3)`` for ``e`` of the exponential
mechanism, where ``m`` is the number of radii. If records are many, larger radii get smaller public weights, and ``m`` is about 6.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal, Unpack, cast, final

import numpy as np

from geodp.arithmetic.entropy import Entropy
from geodp.inputs import Array, describe
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.flat import Family
from geodp.noise.mechanism import Noise
from geodp.noise.selection import Choice, Selection
from geodp.privacy.cost import Cost, GaussianCost, compose, laplace_ratio, pure_epsilon, selection_epsilon
from geodp.privacy.notions import Privacy
from geodp.privacy.splitting import split
from geodp.programs.cells import Cube, Cubes, Scored, Whole
from geodp.receipt import Receipt, about_point
from geodp.records.dataset import GroupOptions
from geodp.records.sums import rows_over
from geodp.release import Options, release, takes
from geodp.request import Flow, Plan, Program, ProgramPlan, Request, Statistic
from geodp.showing import Row
from geodp.solver.mean import means_possible
from geodp.statistics.counts import NormalCoordinates, TangentMean, beyond, histograms
from geodp.statistics.projected import ProjectedMean, embedding_of

#: Raises a ``ValueError`` for balls that are of no use. It may depend on public numbers alone.
Check = Callable[[Ball], None]
What = Literal["scale", "medians", "cube", "projected mean", "mean", "radius"]


def accept_all(ball: Ball) -> None:
    """The check that every ball passes."""


#: The ratio and the number of the radii.
RATIO, RADII = 1.1, 140
#: So many times a radius is divided by that ratio to find one in which floats can hold means: down to 1e-16 of it.
_MOST_TRIES = 400
#: Cells in all of the grids on which medians are looked for, and the largest number of a single one.
_ALL_CELLS, _MOST_CELLS = 2**20, 2**18
#: The logarithm of all cells over the good ones, where records spread over a thousandth of the wide ball.
_LOG_CELLS = 7.6
#: Part of the records by which the rank of a median may be wrong before another way is better.
_RANK = 0.3
#: A cube needs no more than this part of the records.
_NEEDED_SHARE = 0.5
#: Of the finest cubes at least so many levels must be affordable to tell anything, and at most so many are looked at.
_LEAST_LEVELS, _MOST_LEVELS = 3, 24
#: So many records are looked at one by one.
_MOST_RECORDS = 200_000
#: Records for which the law of a step is chosen.
_MANY = 10**7
#: In more dimensions a cube that holds half of the records is so wide from corner to corner that its middle may be far from them.
_MOST_DIMENSIONS = 10


# ---------------------------------------------------------------------- the plan


@final
@dataclass(frozen=True)
class Step:
    """One release of the search and its part of the privacy."""

    what: What
    privacy: Privacy
    cost: Cost

    @property
    def law(self) -> Family:
        """The law of its noise, if it has one: that which is charged for."""
        return "gaussian" if isinstance(self.cost, GaussianCost) else "laplace"

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

    *Which first centre.* With ``e`` of privacy for each of ``d`` medians their ranks are wrong by about ``(2/e) log(R/s)`` where
    records spread over ``s`` in a wide ball of radius ``R``; with a thousand or two for that ratio, by ``15/e``.
    If that is a small part of the records, all medians are taken; otherwise a cube, if one of an eighth of the wide ball's width
    can be told; otherwise the medians of the units of measurement alone, if the manifold has such and they pass; otherwise a
    mean, if its noise is small against the radius; otherwise the centre stays where it is.

    *Which parts.* Selections of a radius need little. Of what is spent, four parts go to the first centre, one to a first radius,
    four to the second centre and one to the last radius; without a second round, half and half.
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
    def steps(self) -> tuple[Step, ...]:
        tries = ways(self.start)
        parts = next((each for each in tries[:-1] if all_tell(each, self.manifold, self.n, self.privacy)), tries[-1])
        shares = split(self.privacy, shares_of(parts))
        return tuple(Step(what, part, _cost(what, part, self.manifold)) for (what, _), part in zip(parts, shares, strict=True))

    @cached_property
    def own_cost(self) -> Cost:
        return compose(step.cost for step in self.steps)

    def __str__(self) -> str:
        return f"{' -> '.join(step.what for step in self.steps)}, together {self.privacy}"

    def flow(self) -> Flow:
        """Each step looks at the records through what the earlier ones released."""
        manifold, ball = self.manifold, self.start if isinstance(self.start, Ball) else None
        center, reach = (manifold.origin, math.inf) if ball is None else (ball.center, ball.radius)
        for i, step in enumerate(self.steps):
            statistic = self._statistic(step, center, reach, final=i == len(self.steps) - 1)
            plan = self.step(statistic, step.privacy, step.law)
            if plan.own_cost != step.cost:
                raise RuntimeError(f"the noise of a step, {plan.own_cost}, is not the one that is charged, {step.cost}")
            (drawn,) = yield (plan,)
            value = statistic.value(plan.noise.finish(drawn))
            if step.what == "projected mean":
                center = value
            elif step.what == "radius":
                reach = value
            else:
                center, moved = moved_center(wide_ball(manifold, center, reach), value, self._program.accepts)
                reach += moved
        return Ball(manifold, center, reach)

    def _statistic(self, step: Step, center: Array, reach: float, *, final: bool) -> Statistic:
        if step.what == "projected mean":
            return ProjectedMean(self.manifold)
        if step.what == "radius":
            return Radius.of(self, step, center, reach, final)
        wide = wide_ball(self.manifold, center, reach)
        if step.what == "mean":
            return TangentMean(wide)
        return MiddleCube(wide) if step.what == "cube" else Medians(wide, step.what == "scale")


def plan_search(start: Ball | Manifold, n: int, privacy: Privacy, then: Privacy | None = None) -> Search:
    """The steps that a search for a ball takes; ``then`` is the privacy of the mean that the ball is for."""
    found: Any = Request(EnclosingBall(start, then), privacy).plan(n)
    return found


def ways(start: Ball | Manifold) -> list[list[tuple[What, float]]]:
    """The ways to search, best first: their steps and the parts of the privacy that these get. The last one always works."""
    firsts: list[What] = ["projected mean"]
    if isinstance(start, Ball):
        firsts = ["medians", "cube", "scale", "mean"] if len(start.manifold.scale_directions) else ["medians", "cube", "mean"]
    ways: list[list[tuple[What, float]]] = []
    for first in firsts:
        ways.append([(first, 4.0), ("radius", 1.0), ("mean", 4.0), ("radius", 1.0)])
        if first in ("scale", "projected mean"):
            ways.append([(first, 1.0), ("radius", 1.0)])
    return [*ways, [("radius", 1.0)]] if isinstance(start, Ball) else ways


def enough_records(start: Ball | Manifold, privacy: Privacy) -> int:
    """From how many records on a search goes the best way."""
    manifold, best = (start.manifold if isinstance(start, Ball) else start), ways(start)[0]
    most = 1
    while not all_tell(best, manifold, most, privacy):
        most *= 2
    least = most // 2
    while most - least > 1:
        middle = (most + least) // 2
        least, most = (least, middle) if all_tell(best, manifold, middle, privacy) else (middle, most)
    return most


def shares_of(parts: list[tuple[What, float]]) -> list[float]:
    total = sum(part for _, part in parts)
    return [part / total for _, part in parts]


def all_tell(parts: list[tuple[What, float]], manifold: Manifold, n: int, privacy: Privacy) -> bool:
    """Whether every step, with its part of the privacy, would tell something about ``n`` records."""
    shares = split(privacy, shares_of(parts))
    steps = [what for what, _ in parts]
    return all(_tells(what, share, manifold, n, first=i == 0) for i, (what, share) in enumerate(zip(steps, shares, strict=True)))


def _tells(what: What, privacy: Privacy, manifold: Manifold, n: int, *, first: bool) -> bool:
    """Whether a step with this privacy would tell anything about ``n`` records: from public numbers alone."""
    match what:
        case "medians" | "scale":
            count = manifold.dim if what == "medians" else len(manifold.scale_directions)
            each = selection_epsilon(split(privacy, [1.0 / count] * count)[0])
            return 2.0 / each * _LOG_CELLS < _RANK * n
        case "cube":
            possible = manifold.dim <= _MOST_DIMENSIONS and n <= _MOST_RECORDS
            return possible and cubes_for(privacy, manifold.dim, 1.0, n).levels >= _LEAST_LEVELS
        case "mean":
            # in the wide ball its noise is to be small; later any centre is better than a rough one
            return _noise_over_radius(privacy, manifold.dim, n) < (0.125 if first else 0.25)
        case "projected mean":
            embedding = embedding_of(manifold)
            return 0.5 * _noise_over_radius(privacy, embedding.dim, n) < 0.25
    return records_to_tell(privacy, n) < 0.5 * n


def cubes_for(privacy: Privacy, dim: int, radius: float, n: int) -> Cubes:
    """Cubes as fine as can be told: with half of the records in one of them, no other one is chosen but with chance ``e^-4``."""
    affordable = 0.5 * selection_epsilon(privacy) * (_NEEDED_SHARE * n) - 4.0
    levels = 0
    while levels < _MOST_LEVELS and math.log(Cubes(dim, radius, levels + 1).total) < affordable:
        levels += 1
    return Cubes(dim, radius, levels)


def _noise_over_radius(privacy: Privacy, dim: int, n: int) -> float:
    ratio = laplace_ratio(privacy, dim) or pure_epsilon(privacy)
    return 2.0 * dim / (n * ratio)


def _cost(what: What, privacy: Privacy, manifold: Manifold) -> Cost:
    match what:
        case "medians":
            return compose(Selection(part).cost for part in split(privacy, [1.0 / manifold.dim] * manifold.dim))
        case "scale":
            count = len(manifold.scale_directions)
            return compose(Selection(part).cost for part in split(privacy, [1.0 / count] * count))
        case "radius" | "cube":
            return Selection(privacy).cost
        case "mean":
            statistic: Any = TangentMean(Ball(manifold, manifold.origin, 1e-3))
        case _:
            statistic = ProjectedMean(manifold)
    # the law is chosen for many records, where no noise is as wide as the ball; then the cost depends on neither
    return Request(statistic, privacy).plan(_MANY).own_cost


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
        embedding_of(outer)  # a sentence for spaces without one
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


def cells_for(count: int) -> int:
    """Cells of the grid on which each of so many medians is looked for."""
    return min(2 ** int(math.log2(_ALL_CELLS / count)), _MOST_CELLS)


@final
@dataclass(frozen=True)
class Medians(Statistic):
    """The medians along directions, by exponential mechanisms over the cells of a grid: all coordinates, or the scale alone.

    The score of a cell is minus the number of records by which it misses the median: the records below its lower end must not be
    more than half, nor those below its upper end fewer. Scores so low that all such cells together are next to never chosen
    count as one score. Cells may be as fine as one likes: records in many of them make many good ones.
    """

    ball: Ball
    scale: bool

    kind = "medians"
    words = "the medians of the coordinates"

    @property
    def place(self) -> Ball:
        return self.ball

    @property
    def directions(self) -> Array:
        return self.ball.manifold.scale_directions if self.scale else np.eye(self.ball.manifold.dim)

    @property
    def cells(self) -> int:
        return cells_for(len(self.directions))

    def noise(self, plan: Plan) -> Noise:
        count = len(self.directions)
        return MedianChoice(tuple(split(plan.privacy, [1.0 / count] * count)), self.cells, plan.n)

    def compute(self, source: Any, n: int, progress: Any = None) -> Any:
        return histograms(source, self.ball, self.directions, self.cells, n)

    def value(self, drawn: Array) -> Array:
        """Normal coordinates of the medians."""
        chosen = (drawn + 0.5) * 2.0 * self.ball.radius / self.cells - self.ball.radius
        return np.asarray(chosen @ self.directions)


@final
@dataclass(frozen=True)
class MedianChoice(Noise):
    """An exponential mechanism for each of several medians."""

    parts: tuple[Privacy, ...]
    cells: int
    n: int

    @property
    def cost(self) -> Cost:
        return compose(Selection(part).cost for part in self.parts)

    def draws(self, values: Sequence[Any], entropy: Entropy | None = None) -> list[Array]:
        return [np.array([self._cell(row, part, entropy) for row, part in zip(rows, self.parts, strict=True)]) for rows in values]

    def _cell(self, row: Whole, part: Privacy, entropy: Entropy | None) -> float:
        selection = Selection(part)
        most = min(self.n, math.ceil(2.0 / selection.epsilon * (math.log(self.cells) + 20.0)))
        scores = median_scores(row, self.n // 2, most)
        score, position = selection.draw_among_many(self.cells, np.bincount(scores, minlength=most + 1)[1:].tolist(), entropy)
        those = np.flatnonzero(scores == score)  # also where they are not needed: the time must not tell
        return float(position if score == 0 else those[position])

    def possible(self, drawn: Array) -> bool:
        return drawn.shape == (len(self.parts),) and bool(np.isin(drawn, np.arange(self.cells)).all())


def median_scores(row: Whole, half: int, most: int) -> Whole:
    """For each cell, ``most`` less the number of records by which it misses the median, and 0 if those are ``most`` or more.

    Replacing one record changes the number below either end of a cell by at most 1, and so the score.
    """
    high = np.cumsum(row)
    return most - np.minimum(most, np.maximum(0, np.maximum(high - row - half, half - high)))


@final
@dataclass(frozen=True)
class MiddleCube(Statistic):
    """The middle of a cube of normal coordinates that holds many records, by one exponential mechanism over all cubes."""

    ball: Ball

    kind = "cube"
    words = "the cube with the most records"

    @property
    def place(self) -> Ball:
        return self.ball

    def noise(self, plan: Plan) -> Noise:
        return CubeChoice(plan.privacy, cubes_for(plan.privacy, self.ball.manifold.dim, self.ball.radius, plan.n), plan.n)

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        return rows_over(source, self.ball.manifold, NormalCoordinates(self.ball, n), n)


@final
@dataclass(frozen=True)
class CubeChoice(Noise):
    """An exponential mechanism over cubes of many sizes."""

    privacy: Privacy
    cubes: Cubes
    n: int

    @property
    def cost(self) -> Cost:
        return Selection(self.privacy).cost

    def draws(self, values: Sequence[Any], entropy: Entropy | None = None) -> list[Array]:
        return [self._cube(vectors, entropy) for vectors in values]

    def _cube(self, vectors: Array, entropy: Entropy | None) -> Array:
        scored = Scored(self.cubes, vectors, max(1, int(_NEEDED_SHARE * self.n)))
        score, position = Selection(self.privacy).draw_among_many(self.cubes.total, scored.counts, entropy)
        if score > 0:
            cube = scored.at(score, position)
        else:
            cube = self.cubes.at(position)
            scored.pass_by(cube)
        return np.array([cube.level, cube.grid, *cube.place], dtype=np.float64)

    def possible(self, drawn: Array) -> bool:
        if drawn.shape != (2 + self.cubes.dim,) or (drawn != np.floor(drawn)).any() or (drawn < 0.0).any():
            return False
        level, grid, *place = drawn
        return bool(level <= self.cubes.levels and grid < self.cubes.grids and max(place) <= 2**level)

    def finish(self, drawn: Array) -> Array:
        level, grid, *place = (int(number) for number in drawn)
        return self.cubes.middle(Cube(level, grid, tuple(place)))


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
class Radius(Statistic):
    """A radius about the centre, by the exponential mechanism over those of balls in which a mean can be released."""

    #: A ball about the centre that is as wide as distances are told apart.
    ball: Ball
    radii: tuple[float, ...]
    targets: tuple[int, ...]

    kind = "radius"
    words = "the radius"

    @classmethod
    def of(cls, search: Search, step: Step, center: Array, reach: float, final: bool) -> Radius:
        manifold = search.manifold
        radii = possible_radii(manifold, center, reach, search.statistic.accepts)  # type: ignore[attr-defined]
        without_cut_locus = math.isinf(manifold.injectivity_radius)
        wide = Ball(manifold, center, radii[0]) if without_cut_locus else wide_ball(manifold, center, math.inf)
        root = math.sqrt(manifold.curvature)
        bends = [root * radius / math.tan(root * radius) if root > 0.0 else 1.0 for radius in radii]
        targets = (radius_target(search.then, step.privacy, manifold, search.n, final, bend) for bend in bends)
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


def radius_target(then: Privacy, privacy: Privacy, manifold: Manifold, n: int, final: bool, bend: float = 1.0) -> int:
    """How many records a radius is to leave outside: what balances clipping with the later noise, but enough to be told."""
    ratio = laplace_ratio(then, manifold.dim) or pure_epsilon(then)
    balanced = 2.0 * manifold.dim / ratio * bend if final else 0.0
    return round(min(max(balanced, records_to_tell(privacy, n)), 0.5 * n))


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
