r"""A ball found privately, and a statistic of the same records in it.

*Public*: the wide ball or the compact manifold to start from, the number of records, the privacy and its part for the search.
*Private*: the records. *Neighbours*: as for the statistic.

*Theorem*. The ball is released first (:mod:`geodp.programs.ball`), and the statistic is requested in the released ball. So this
is an adaptive composition of two releases, each of which keeps its part of the privacy. By group there is one ball, found from
the records of all groups together: a change of one record, or person, changes these by one member, and the releases of the groups
keep their part of the privacy together (:mod:`geodp.release`). Where the neighbours keep their groups, they are also neighbours
of the search.

*Nothing fails after the charge.* The search looks only at balls in which the statistic can be released, for the public numbers of
members of all groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

from geodp.inputs import real_number
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.privacy.cost import Cost, cost_of, gaussian_shift, laplace_ratio, pure_epsilon
from geodp.privacy.neighbours import Unit
from geodp.privacy.notions import GaussianDP, Privacy, PureDP
from geodp.privacy.splitting import split
from geodp.programs.ball import EnclosingBall, in_ball, wide_ball
from geodp.programs.descent import start_on
from geodp.programs.median import descents, notions, shortage
from geodp.request import ProgramPlan, Request, Statistic, Steps, cost_of_parts


def start_of(place: Ball | Manifold) -> Ball:
    """The widest ball to start from: what stands for the ball that is not found yet."""
    return place if isinstance(place, Ball) else wide_ball(place, place.origin, math.inf)


#: Parts of the privacy for the search.
FINDS = (0.2, 0.35, 0.5)


class Portions(NamedTuple):
    """How the privacy is divided: the part for the search, what it is, and the rest for the statistic."""

    find: float
    search: Privacy
    rest: Privacy


def portions(start: Ball | Manifold, n: int, kept: list[Privacy], find: float | None = None) -> Portions:
    """The parts of the privacy, in one of the notions: with the least noise for a mean among those with which the search arrives.

    If none of them is enough to arrive, half of the privacy goes to the search.
    """
    dim = (start.manifold if isinstance(start, Ball) else start).dim

    def badness(each: Portions) -> tuple[float, float]:
        ratio = laplace_ratio(each.rest, dim) or pure_epsilon(each.rest)
        least = [dim / ratio]
        if (shift := gaussian_shift(each.rest)) is not None:
            least.append(math.sqrt(dim) / shift)
        return shortage(descents(start, n, each.search)[0]), min(least)

    parts = FINDS if find is None else (find,)
    found = (Portions(part, *split(one, [part, 1.0 - part])) for one in kept for part in parts)
    return min(found, key=badness)


@final
@dataclass(frozen=True)
class InFoundBall(Statistic):
    """A statistic in a ball that is found first with a part of the privacy: see the module."""

    start: Ball | Manifold
    #: The statistic, in the ball of ``start_of``.
    then: Statistic
    #: The part of the privacy for the search; by default one of ``FINDS``.
    find: float | None = None

    kind = "found"
    words = "a ball and what is released in it"
    chain = True

    def __post_init__(self) -> None:
        find = FINDS[0] if self.find is None else real_number(self.find, "find, the part of the privacy for the ball,")
        if not 0.0 < find <= 0.9:
            raise ValueError(f"find, the part of the privacy for the ball, must be from 0 to 0.9 but is {find:g}: 0.2 is usual")
        if self.then.place != start_of(self.start):
            raise ValueError("the statistic must be in the ball that the search starts from")
        object.__setattr__(self, "find", None if self.find is None else find)

    @property
    def place(self) -> Ball | Manifold:
        return self.start

    @property
    def cover(self) -> Statistic | None:
        return self.then.cover

    @property
    def purpose(self) -> str:
        return f"ball, then {self.then.purpose}"

    def plan(self, request: Request, n: int) -> FoundPlan:
        return FoundPlan(request, n)

    def check(self, n: int, unit: Unit) -> None:
        """Whatever may be wrong is said when the search is planned."""

    def search(self, request: Request, sizes: tuple[int, ...]) -> Request:
        """The search for a ball in which the statistic of groups of these sizes, or of all members, can be released."""
        later = self.later(request, start_of(self.start), sizes)
        each = later if later.labels is None else later.of_group
        statistic = EnclosingBall(self.start, later.privacy, each, tuple(sorted(set(sizes))))
        one: Any = {"mechanism": "auto", "law": None, "project": None, "coverage": 0.0, "labels": None, "divided": 1}
        return replace(request, statistic=statistic, privacy=self.portions(request, sizes[0]).search, **one)

    def portions(self, request: Request, n: int) -> Portions:
        """The parts of the privacy, in a notion in which the noise that was asked for exists."""
        no_epsilon, no_mu = request.law == "gaussian", request.law == "laplace" or request.mechanism == "intrinsic"
        kept = [
            each
            for each in notions(request.privacy)
            if not (no_epsilon and isinstance(each, PureDP)) and not (no_mu and isinstance(each, GaussianDP))
        ]
        return portions(self.start, max(1, n), kept or [request.privacy], self.find)

    def later(self, request: Request, ball: Ball, sizes: tuple[int, ...]) -> Request:
        """The request for the statistic in the ball that was found."""
        parts = self.portions(request, sizes[0])
        coverage = min(0.5, request.coverage / (1.0 - parts.find))
        return replace(request, statistic=in_ball(self.then, ball), privacy=parts.rest, coverage=coverage)

    def steps(self, request: Request, sizes: tuple[int, ...]) -> Steps:
        found = yield self.search(request, sizes)
        yield self.later(request, found.ball, sizes)


@final
@dataclass(frozen=True)
class FoundPlan(ProgramPlan):
    """What the chain will cost, whichever ball is found: each step at most its part of the privacy."""

    @cached_property
    def own_cost(self) -> Cost:
        request, statistic = self.request, self.statistic
        assert isinstance(statistic, InFoundBall)
        return cost_of_parts([cost_of(part) for part in statistic.portions(request, self.n)[1:]], request.privacy)

    @cached_property
    def search(self) -> Any:
        """The plan of the search."""
        statistic = self.statistic
        assert isinstance(statistic, InFoundBall)
        return statistic.search(self.request, (self.n,)).plan(self.n)

    def check(self) -> None:
        self.search.check()

    def __str__(self) -> str:
        statistic = self.statistic
        assert isinstance(statistic, InFoundBall)
        rest = statistic.portions(self.request, self.n).rest
        return f"a ball by {self.search}; then {statistic.then.words} in it, {rest}"


def in_found_ball(
    manifold: Manifold, make: Callable[[Ball], Statistic], outer: float | None = None, find: float | None = None
) -> InFoundBall:
    """A statistic in a ball that is found on this manifold."""
    start = start_on(manifold, outer)
    return InFoundBall(start, make(start_of(start)), find)
