r"""A ball found privately: where the records are, and how far they spread.

*Public*: the wide ball or the compact manifold to start from, the number of records, the privacy, and what is released.
*Private*: the records. *Neighbours*: data sets of the same size that differ by replacing one record.

The search is a chain of releases. Each looks at the records through what the earlier ones released, so their costs add up
(:func:`geodp.privacy.cost.compose`), and everything decided on the way is a function of public numbers and of earlier releases.

1. *A first centre.* On compact spaces the projected mean (:mod:`geodp.statistics.projected`). Elsewhere medians of normal
   coordinates at the centre of the wide ball, each by the exponential mechanism over the cells of a fine public grid: the error
   in rank grows with the logarithm of the radius over the spread only. If the records are too few for that, one cube of normal
   coordinates, by one exponential mechanism over all cubes of many sizes (:mod:`geodp.statistics.cells`): the score of a cube is
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

import json
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from secrets import SystemRandom
from typing import TYPE_CHECKING, Any, Literal, Unpack, final, get_args

import numpy as np

from geodp._version import __version__
from geodp.arithmetic.entropy import Entropy
from geodp.files import parse_manifold
from geodp.inputs import Array, describe, is_line, whole_number
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.manifolds.notation import Notation
from geodp.measurement import Measurement
from geodp.noise.flat import Family
from geodp.noise.mechanism import Mechanism
from geodp.noise.selection import Selection
from geodp.privacy.cost import (
    Cost,
    GaussianCost,
    compose,
    cost_from_dict,
    cost_of,
    laplace_ratio,
    pure_epsilon,
    selection_epsilon,
)
from geodp.privacy.neighbours import Neighbours, Unit
from geodp.privacy.notions import Privacy, privacy_of
from geodp.privacy.splitting import split
from geodp.receipt import SIMULATION, about_point, agrees, cost_in_words, cost_of_parts, from_layout, in_layout, parts_of, used
from geodp.records.dataset import Dataset, DatasetOptions
from geodp.records.sums import rows_over
from geodp.release import Account, computed
from geodp.showing import Row, Shown
from geodp.statistics.cells import Cubes, Scored, Whole
from geodp.statistics.counts import Count, NormalCoordinates, TangentMean, beyond, histograms
from geodp.statistics.mean import FrechetMean
from geodp.statistics.projected import ProjectedMean, embedding_of
from geodp.statistics.statistic import Statistic

if TYPE_CHECKING:
    from geodp.privacy.ledger import Ledger

#: Raises a ``ValueError`` for balls that are of no use. It may depend on public numbers alone.
Check = Callable[[Ball], None]
What = Literal["scale", "medians", "cube", "projected mean", "mean", "radius"]


def anywhere(ball: Ball) -> None:
    """The check that every ball passes."""


#: The ratio and the number of the radii.
RATIO, RADII = 1.1, 140
#: So many times a radius is divided by that ratio to find one in which floats can hold means: down to 1e-16 of it.
_MOST_TRIES = 400
#: Cells in all of the grids on which medians are looked for, and the largest number of a single one.
_CELLS = 2**20, 2**18
#: The logarithm of all cells over the good ones, where records spread over a thousandth of the wide ball.
_TOLD = 7.6
#: Part of the records by which the rank of a median may be wrong before another way is better.
_RANK = 0.3
#: A cube needs no more than this part of the records. Of the finest cubes at least so many levels must be affordable to tell
#: anything, and at most so many are looked at; and so many records are looked at one by one.
_HELD, _LEVELS, _MOST_RECORDS = 0.5, (3, 24), 200_000
#: Records for which the law of a step is chosen.
_MANY = 10**7
#: In more dimensions a cube that holds half of the records is so wide from corner to corner that its middle may be far from them.
_MOST_DIMENSIONS = 10


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
@dataclass(frozen=True)
class Search:
    """What a search will do, from public numbers alone: its steps, and the later release that its ball is for."""

    start: Ball | Manifold
    n: int
    privacy: Privacy
    then: Privacy
    steps: tuple[Step, ...]

    @property
    def manifold(self) -> Manifold:
        return self.start.manifold if isinstance(self.start, Ball) else self.start

    @property
    def cost(self) -> Cost:
        return compose(step.cost for step in self.steps)

    def __str__(self) -> str:
        return f"{' -> '.join(step.what for step in self.steps)}, together {self.privacy}"


def plan_search(start: Ball | Manifold, n: int, privacy: Privacy, then: Privacy | None = None) -> Search:
    """The steps that a search for a ball takes; ``then`` is the privacy of the mean that the ball is for.

    *Which first centre.* With ``e`` of privacy for each of ``d`` medians their ranks are wrong by about ``(2/e) log(R/s)`` where
    records spread over ``s`` in a wide ball of radius ``R``; with a thousand or two for that ratio, by ``15/e``.
    If that is a small part of the records, all medians are taken; otherwise a cube, if one of an eighth of the wide ball's width
    can be told; otherwise the medians of the units of measurement alone, if the manifold has such and they pass; otherwise a
    mean, if its noise is small against the radius; otherwise the centre stays where it is.

    *Which parts.* Selections of a radius need little. Of what is spent, four parts go to the first centre, one to a first radius,
    four to the second centre and one to the last radius; without a second round, half and half.
    """
    n = whole_number(n, 1, "the number of records n")
    manifold = start.manifold if isinstance(start, Ball) else start
    then = privacy if then is None else then
    tries = _ways(start)
    parts = next((parts for parts in tries[:-1] if _all_tell(parts, manifold, n, privacy)), tries[-1])
    return Search(start, n, privacy, then, _steps(parts, manifold, privacy))


def _steps(parts: list[tuple[What, float]], manifold: Manifold, privacy: Privacy) -> tuple[Step, ...]:
    shares = split(privacy, _shares(parts))
    return tuple(Step(what, share, _cost(what, share, manifold)) for (what, _), share in zip(parts, shares, strict=True))


def _search_again(start: Ball | Manifold, n: int, privacy: Privacy, then: Privacy, steps: list[str]) -> Search:
    """The search that took these steps; which way it goes has not been chosen by the same rule at all times."""
    manifold = start.manifold if isinstance(start, Ball) else start
    ways = (_steps(parts, manifold, privacy) for parts in _ways(start))
    taken = next((way for way in ways if [str(step) for step in way] == steps), None)
    if taken is None:
        raise ValueError("no search takes these steps")
    return Search(start, whole_number(n, 1, "the number of records n"), privacy, then, taken)


def _ways(start: Ball | Manifold) -> list[list[tuple[What, float]]]:
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
    manifold, best = (start.manifold if isinstance(start, Ball) else start), _ways(start)[0]
    most = 1
    while not _all_tell(best, manifold, most, privacy):
        most *= 2
    least = most // 2
    while most - least > 1:
        middle = (most + least) // 2
        least, most = (least, middle) if _all_tell(best, manifold, middle, privacy) else (middle, most)
    return most


def _shares(parts: list[tuple[What, float]]) -> list[float]:
    total = sum(part for _, part in parts)
    return [part / total for _, part in parts]


def _all_tell(parts: list[tuple[What, float]], manifold: Manifold, n: int, privacy: Privacy) -> bool:
    """Whether every step, with its part of the privacy, would tell something about ``n`` records."""
    shares = split(privacy, _shares(parts))
    steps = [what for what, _ in parts]
    return all(_tells(what, share, manifold, n, first=i == 0) for i, (what, share) in enumerate(zip(steps, shares, strict=True)))


def _tells(what: What, privacy: Privacy, manifold: Manifold, n: int, *, first: bool) -> bool:
    """Whether a step with this privacy would tell anything about ``n`` records: from public numbers alone."""
    match what:
        case "medians" | "scale":
            count = manifold.dim if what == "medians" else len(manifold.scale_directions)
            each = selection_epsilon(split(privacy, [1.0 / count] * count)[0])
            return 2.0 / each * _TOLD < _RANK * n
        case "cube":
            possible = manifold.dim <= _MOST_DIMENSIONS and n <= _MOST_RECORDS
            return possible and cubes_for(privacy, manifold.dim, 1.0, n).levels >= _LEVELS[0]
        case "mean":
            # in the wide ball its noise is to be small; later any centre is better than a rough one
            return _noise_over_radius(privacy, manifold.dim, n) < (0.125 if first else 0.25)
        case "projected mean":
            embedding = embedding_of(manifold)
            return 0.5 * _noise_over_radius(privacy, embedding.dim, n) < 0.25
    return _told(privacy, n) < 0.5 * n


def cubes_for(privacy: Privacy, dim: int, radius: float, n: int) -> Cubes:
    """Cubes as fine as can be told: with half of the records in one of them, no other one is chosen but with chance ``e^-4``."""
    affordable = 0.5 * selection_epsilon(privacy) * (_HELD * n) - 4.0
    levels = 0
    while levels < _LEVELS[1] and math.log(Cubes(dim, radius, levels + 1).total) < affordable:
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
    return Measurement(statistic, _MANY, privacy).noise.cost


def step_noise(statistic: Statistic, n: int, step: Step) -> Mechanism:
    """The noise of a step, of the law that it is charged for."""
    law: Family = "gaussian" if isinstance(step.cost, GaussianCost) else "laplace"
    noise = Measurement(statistic, n, step.privacy, law=law).noise
    if noise.cost != step.cost:
        raise RuntimeError(f"the noise of a step, {noise.cost}, is not the one that is charged, {step.cost}")
    return noise


# ---------------------------------------------------------------------- the search


@final
@dataclass(frozen=True, eq=False)
class BallRelease(Shown):
    """A ball found privately: public from now on, with the receipt of the search."""

    ball: Ball
    search: Search
    dataset: str | None = None
    charge: int | None = None
    private: bool = True
    unit: Unit = "record"
    #: The noisy count, where the number of records is private, and the privacy of search and count together.
    count: float | None = None
    whole: Privacy | None = None
    #: How the records were written, if they were read from columns.
    written: Notation | None = None
    version: str = __version__

    @property
    def notation(self) -> Notation:
        """How points and lengths are written: as the records were, or else in the units of the manifold."""
        return self.written or Notation(self.ball.manifold)

    @property
    def neighbours(self) -> str:
        return _neighbours(self.unit, counted=self.whole is not None)

    @property
    def cost(self) -> Cost:
        """What the search spent, in every notion of privacy."""
        return self.search.cost if self.whole is None else search_cost(self.whole)

    @property
    def privacy(self) -> Privacy:
        return self.whole or self.search.privacy

    @property
    def n(self) -> int:
        return self.search.n

    def to_json(self) -> str:
        """The release as JSON text."""
        start = self.search.start
        return json.dumps(
            {
                "geodp": self.version,
                "summary": "ball",
                "private": self.private,
                **self.privacy.parameters(),
                "notion": self.privacy.words,
                "cost": self.cost.to_dict(),
                "neighbours": self.neighbours,
                "unit": self.unit,
                "n": self.n,
                **({} if self.count is None else {"count": self.count}),
                "manifold": repr(self.ball.manifold),
                "center": self.ball.center.tolist(),
                "radius": self.ball.radius,
                **in_layout(self.notation, {"center": self.ball.center}, {"radius": self.ball.radius}),
                "outer_center": start.center.tolist() if isinstance(start, Ball) else None,
                "outer_radius": start.radius if isinstance(start, Ball) else None,
                "then": self.search.then.parameters(),
                "steps": [str(step) for step in self.search.steps],
                "dataset": self.dataset,
                "charge": self.charge,
            },
            indent=2,
        )

    @classmethod
    def from_json(cls, text: str) -> BallRelease:
        """The release that :meth:`to_json` stored, or a ``ValueError``."""
        try:
            stored = json.loads(text)
            manifold = parse_manifold(stored["manifold"])
            ball = Ball(manifold, stored["center"], stored["radius"])
            outer = None if stored["outer_radius"] is None else Ball(manifold, stored["outer_center"], stored["outer_radius"])
            asked = privacy_of(*(stored.get(name) for name in ("epsilon", "delta", "rho", "mu")))
            unit, count = stored.get("unit", "record"), stored.get("count")
            own = asked if count is None else parts_of(asked, True, 0.0)[1]
            search = _search_again(outer or manifold, stored["n"], own, privacy_of(**stored["then"]), stored["steps"])
            dataset, charge = stored["dataset"], stored["charge"]
            written = from_layout(stored, manifold, {"center": ball.center})
            whole = None if count is None else asked
            found = cls(ball, search, dataset, charge, stored["private"], unit, count, whole, written, stored["geodp"])
            if (
                stored["summary"] == "ball"
                and found.cost == cost_from_dict(stored["cost"])
                and stored["notion"] == asked.words
                and unit in get_args(Unit)
                and (count is None or isinstance(count, float))
                and stored["neighbours"] == found.neighbours
                and isinstance(stored["private"], bool)
                and (charge is None if dataset is None else is_line(dataset) and type(charge) is int and charge > 0)
                # a search with reproducible bits charges no budget
                and (stored["private"] or dataset is None)
                and is_line(stored["geodp"])
                and (count is None or found.n == _used_after_count(asked, count))
                and _reachable(ball, outer)
                and (found.version != __version__ or agrees(stored, json.loads(found.to_json())))
            ):
                return found
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            pass
        # no field is quoted: the text may be anything, such as a file of records
        raise ValueError("this is not the JSON text of a ball that was found: pass what BallRelease.to_json returned")

    def head(self) -> str:
        return "PRIVATE BALL: public from now on" if self.private else SIMULATION

    def rows(self) -> list[Row]:
        start = self.search.start
        outer = f"a ball of radius {self.notation.length(start.radius)}" if isinstance(start, Ball) else f"all of {start}"
        return [
            ("radius", self.notation.length(self.ball.radius, 6)),
            *about_point("center", self.ball.center, self.notation),
            ("privacy", f"{self.privacy}, {self.privacy.words}; neighbours: {self.neighbours}"),
            ("cost", cost_in_words(self.cost)),
            ("search", f"from {outer}: {' -> '.join(step.what for step in self.search.steps)}"),
            ("manifold", repr(self.ball.manifold)),
            (f"{self.unit}s", f"{self.n}" if self.count is None else f"about {self.count:.0f}; {self.n} were used"),
            ("budget", f"data set {self.dataset!r}, charge {self.charge}" if self.dataset else "not kept in a ledger"),
            ("geodp", self.version),
        ]


def _reachable(ball: Ball, outer: Ball | None) -> bool:
    """Whether a search from the outer ball can end in a ball. Each of two centres is in the ball before it, and a radius may then
    be as large as both together."""
    return outer is None or (
        float(ball.manifold.dist(outer.center, ball.center)) <= 3.01 * outer.radius and ball.radius <= 4.01 * outer.radius
    )


def private_ball(
    x: Any,
    outer: Ball | Manifold,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    then: Privacy | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    entropy: Entropy | None = None,
    **who: Unpack[DatasetOptions],
) -> BallRelease:
    r"""A ball that holds most of the records, found with differential privacy.

    *Public*: ``outer``, the number of records, the privacy, all other arguments, and the ball that comes out. *Private*: the
    records. *Neighbours*: data sets of the same size that differ by replacing one record. *Theorem*: the steps are exponential
    mechanisms and tangent mechanisms whose costs add up; see :mod:`geodp.finding`.

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
    ledger, dataset
        A budget to charge, before anything is drawn.
    entropy
        Reproducible bits for studies: then the result is NOT PRIVATE.
    who
        ``unit`` and ``neighbours``, as for :class:`geodp.Dataset`; or give a data set for ``x``.

    >>> import numpy as np
    >>> from geodp import SPD, Ball
    >>> x = np.array([np.diag([1e-6, 2e-6]) * np.exp(u) for u in np.random.default_rng(0).normal(0.0, 0.3, 4000)])
    >>> found = private_ball(x, Ball(SPD(2), np.eye(2), radius=30.0), epsilon=1.0)
    >>> bool(found.ball.contains(x).mean() > 0.9), found.ball.radius < 3.0
    (True, True)
    """
    check_start(outer)
    privacy = privacy_of(epsilon, delta, rho, mu)
    if then is not None and not isinstance(then, Privacy):
        raise TypeError(f"then must be the privacy of a mean, such as PureDP(0.8), but is {describe(then)}")
    return find_ball(Dataset.of(x, who), outer, privacy, then, Account.of(ledger, dataset, entropy), entropy)


def find_ball(
    data: Dataset,
    outer: Ball | Manifold,
    privacy: Privacy,
    then: Privacy | None,
    account: Account,
    entropy: Entropy | None = None,
    check: Check = anywhere,
) -> BallRelease:
    """:func:`private_ball`, of balls that pass a check: one of a later release, so that this does not fail when all is paid.

    The check depends on public numbers alone. The balls about a centre that it accepts must have all radii between two, at least
    twenty per cent apart, that are about the same for every centre.
    """
    manifold = check_start(outer, check)
    if data.by is not None:
        raise ValueError("one ball is found for all groups together: leave out by, groups and labels")
    account.check_open()
    members = data.open(manifold)
    unit: Unit = "record" if data.unit is None else "person"
    counted = data.neighbours == "add-remove"
    parts, own = parts_of(privacy, counted, 0.0)
    cost = search_cost(privacy) if counted else plan_search(outer, members.count, privacy, then).cost
    neighbours = _neighbours(unit, counted=counted)
    account.check(cost, privacy, neighbours)
    charge = account.charge(cost, privacy, f"ball on {manifold}", neighbours)
    count = None
    if counted:
        noise = Measurement(Count(), 1, parts[0]).noise
        value = computed(lambda: noise.draw(np.array([float(members.count)]), entropy).value, said=())
        count = float(value[0])
        members = members.resized(
            _used_after_count(privacy, count), SystemRandom() if entropy is None else Random(entropy.read(entropy.open(), 0, 64))
        )
    search = plan_search(outer, members.count, own, then)
    ball = computed(lambda: _found(members.source, search, entropy, check))
    whole = privacy if counted else None
    written = members.dataset.notation(manifold)
    release = BallRelease(ball, search, account.dataset, charge, entropy is None, unit, count, whole, written)
    account.attach(charge, release.to_json)
    return release


def _neighbours(unit: Unit, *, counted: bool) -> str:
    return str(Neighbours("add-remove", unit, or_replace=True) if counted else Neighbours("replace", unit))


def check_start(outer: Ball | Manifold, check: Check = anywhere) -> Manifold:
    """The manifold of what a search starts from; raises if no ball that passes the check can be found."""
    manifold = outer.manifold if isinstance(outer, Ball) else outer
    if not isinstance(manifold, Manifold):
        raise TypeError(f"outer must be a wide Ball or a compact manifold but is of type {type(outer).__name__}")
    if isinstance(outer, Manifold):
        embedding_of(outer)  # a sentence for spaces without one
    elif not math.isinf(manifold.injectivity_radius):
        raise ValueError(f"on {manifold} no ball is needed to start from: give the manifold itself")
    center, reach = (outer.center, outer.radius) if isinstance(outer, Ball) else (manifold.origin, math.inf)
    if not _possible_radii(manifold, center, reach, check):
        widest = _possible_radii(manifold, center, reach)
        if not widest:
            raise ValueError(
                f"float64 resolves no mean of {manifold} near this centre: start from one with a smaller condition number"
            )
        check(Ball(manifold, center, widest[0]))  # says what is wrong
    return manifold


def _used_after_count(privacy: Privacy, count: float) -> int:
    """How many members a search uses after a noisy count of them."""
    (part,), _ = parts_of(privacy, True, 0.0)
    return used(Measurement(Count(), 1, part).noise, np.array([count]), 1)


def search_cost(privacy: Privacy) -> Cost:
    """What a search costs before whose first step, a noisy count, nobody knows which steps it will take."""
    (count,), own = parts_of(privacy, True, 0.0)
    return cost_of_parts([Measurement(Count(), 1, count).noise.cost, cost_of(own)], privacy)


def _found(x: Any, search: Search, entropy: Entropy | None, check: Check) -> Ball:
    manifold = search.manifold
    ball = search.start if isinstance(search.start, Ball) else None
    center = manifold.origin if ball is None else ball.center
    reach = math.inf if ball is None else ball.radius
    last = len(search.steps) - 1
    for i, step in enumerate(search.steps):
        match step.what:
            case "projected mean":
                statistic = ProjectedMean(manifold)
                noise = step_noise(statistic, search.n, step)
                center = statistic.embedding.nearest(noise.draw(statistic.compute(x, search.n), entropy).value)
            case "radius":
                reach = _radius(x, center, reach, search, step, entropy, check, final=i == last)
            case _:
                wide = wide_ball(manifold, center, reach)
                center, moved = moved_center(wide, _coordinates(x, wide, step, search.n, entropy), check)
                reach += moved
    return Ball(manifold, center, reach)


def _coordinates(x: Any, wide: Ball, step: Step, n: int, entropy: Entropy | None) -> Array:
    """Normal coordinates of a better centre."""
    match step.what:
        case "scale":
            return _medians(x, wide, wide.manifold.scale_directions, step, n, entropy)
        case "medians":
            return _medians(x, wide, np.eye(wide.manifold.dim), step, n, entropy)
        case "cube":
            return _cube(x, wide, step, n, entropy)
        case _:
            statistic = TangentMean(wide)
            return step_noise(statistic, n, step).draw(statistic.compute(x, n), entropy).value


def wide_ball(manifold: Manifold, center: Array, reach: float) -> Ball:
    """A ball for looking at records: its radius need not be one in which means are unique."""
    return Ball(manifold, center, min(reach, 0.999 * Ball(manifold, center, 1e-3).max_radius))


def cells_for(count: int) -> int:
    """Cells of the grid on which each of so many medians is looked for."""
    return min(2 ** int(math.log2(_CELLS[0] / count)), _CELLS[1])


def _medians(x: Any, ball: Ball, directions: Array, step: Step, n: int, entropy: Entropy | None) -> Array:
    """The medians along directions, by exponential mechanisms over the cells of a grid.

    The score of a cell is minus the number of records by which it misses the median: the records below its lower end must not be
    more than half, nor those below its upper end fewer. Scores so low that all such cells together are next to never chosen
    count as one score. Cells may be as fine as one likes: records in many of them make many good ones.
    """
    cells, half = cells_for(len(directions)), n // 2
    chosen = []
    counts = histograms(x, ball, directions, cells, n)
    for row, part in zip(counts, split(step.privacy, [1.0 / len(directions)] * len(directions)), strict=True):
        selection = Selection(part)
        most = min(n, math.ceil(2.0 / selection.epsilon * (math.log(cells) + 20.0)))
        scores = median_scores(row, half, most)
        score, position = selection.draw_among_many(cells, np.bincount(scores, minlength=most + 1)[1:].tolist(), entropy)
        those = np.flatnonzero(scores == score)  # also where they are not needed: the time must not tell
        cell = position if score == 0 else int(those[position])
        chosen.append((cell + 0.5) * 2.0 * ball.radius / cells - ball.radius)
    return np.array(chosen) @ directions


def median_scores(row: Whole, half: int, most: int) -> Whole:
    """For each cell, ``most`` less the number of records by which it misses the median, and 0 if those are ``most`` or more.

    Replacing one record changes the number below either end of a cell by at most 1, and so the score.
    """
    high = np.cumsum(row)
    return most - np.minimum(most, np.maximum(0, np.maximum(high - row - half, half - high)))


def _cube(x: Any, ball: Ball, step: Step, n: int, entropy: Entropy | None) -> Array:
    """The middle of a cube of normal coordinates that holds many records, by one exponential mechanism over all cubes."""
    cubes = cubes_for(step.privacy, ball.manifold.dim, ball.radius, n)
    vectors = rows_over(x, ball.manifold, NormalCoordinates(ball, n), n)
    scored = Scored(cubes, vectors, max(1, int(_HELD * n)))
    score, position = Selection(step.privacy).draw_among_many(cubes.total, scored.counts, entropy)
    if score > 0:
        cube = scored.at(score, position)
    else:
        cube = cubes.at(position)
        scored.pass_by(cube)
    return cubes.middle(cube)


def moved_center(ball: Ball, coordinates: Array, check: Check = anywhere) -> tuple[Array, float]:
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
        if held and (check is anywhere or _possible_radii(manifold, point, ball.radius, check)):
            return point, float(np.linalg.vector_norm(coordinates))
        coordinates = 0.9 * coordinates
    return ball.center, 0.0


def _radius(
    x: Any, center: Array, reach: float, search: Search, step: Step, entropy: Entropy | None, check: Check, *, final: bool
) -> float:
    """A radius about the centre, by the exponential mechanism over those of balls in which a mean can be released."""
    manifold, n = search.manifold, search.n
    radii = _possible_radii(manifold, center, reach, check)
    without_cut_locus = math.isinf(manifold.injectivity_radius)
    wide = Ball(manifold, center, radii[0]) if without_cut_locus else wide_ball(manifold, center, math.inf)
    counts = beyond(x, wide, np.array(radii), n)
    root = math.sqrt(manifold.curvature)
    scores, preference = [], _preference(step.privacy, n)
    for radius, (outside, next_outside) in zip(radii, pairwise([*counts, n]), strict=True):
        bend = root * radius / math.tan(root * radius) if root > 0.0 else 1.0
        target = radius_target(search.then, step.privacy, manifold, n, final, bend)
        # that the target lies between what this radius leaves outside and what the next smaller one does
        scores.append(-max(0, outside - target, target - next_outside))
    weights = [round(256.0 * RATIO ** (preference * i)) for i in range(len(radii))]
    return radii[Selection(step.privacy).draw(scores, entropy, weights)]


def _preference(privacy: Privacy, n: int) -> float:
    """The power of one over the radius that weighs radii when one is chosen.

    All radii beyond the farthest record have the same score. Weights make the smaller of them likelier. But a radius that is far
    too small misses half of the records or more, which must outweigh its weight by ``e^8``.
    """
    return min(2.0, max(0.0, 0.25 * n * selection_epsilon(privacy) - 8.0) / (RADII * math.log(RATIO)))


def _told(privacy: Privacy, n: int) -> float:
    """How many records must be outside so that radii beyond the farthest record are seldom chosen: one time in twenty."""
    shrink = RATIO ** -_preference(privacy, n)
    beyond_all = RADII if shrink == 1.0 else (1.0 - shrink**RADII) / (1.0 - shrink)
    return 2.0 / selection_epsilon(privacy) * (math.log(beyond_all) + 3.0)


def radius_target(then: Privacy, privacy: Privacy, manifold: Manifold, n: int, final: bool, bend: float = 1.0) -> int:
    """How many records a radius is to leave outside: what balances clipping with the later noise, but enough to be told."""
    ratio = laplace_ratio(then, manifold.dim) or pure_epsilon(then)
    balanced = 2.0 * manifold.dim / ratio * bend if final else 0.0
    return round(min(max(balanced, _told(privacy, n)), 0.5 * n))


def _possible_radii(manifold: Manifold, center: Array, reach: float, check: Check = anywhere) -> list[float]:
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


def _mean_possible(manifold: Manifold, center: Array, radius: float, check: Check = anywhere) -> bool:
    try:
        ball = Ball(manifold, center, radius)  # may be so wide that distances in it overflow
        possible = FrechetMean(ball).possible
        if possible:
            check(ball)
    except ValueError:
        return False
    return possible
