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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

from geodp.inputs import real_number
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.privacy.cost import Cost, cost_of
from geodp.privacy.neighbours import Unit
from geodp.privacy.notions import Privacy
from geodp.privacy.splitting import share_of
from geodp.programs.ball import EnclosingBall, in_ball, wide_ball
from geodp.request import ProgramPlan, Request, Statistic, Steps, cost_of_parts


def start_of(place: Ball | Manifold) -> Ball:
    """The widest ball to start from: what stands for the ball that is not found yet."""
    return place if isinstance(place, Ball) else wide_ball(place, place.origin, math.inf)


@final
@dataclass(frozen=True)
class InFoundBall(Statistic):
    """A statistic in a ball that is found first with a part of the privacy: see the module."""

    start: Ball | Manifold
    #: The statistic, in the ball of ``start_of``.
    then: Statistic
    #: The part of the privacy for the search.
    find: float = 0.2

    kind = "found"
    words = "a ball and what is released in it"
    chain = True

    def __post_init__(self) -> None:
        find = real_number(self.find, "find, the part of the privacy for the ball,")
        if not 0.0 < find <= 0.9:
            raise ValueError(f"find, the part of the privacy for the ball, must be from 0 to 0.9 but is {find:g}: 0.2 is usual")
        if self.then.place != start_of(self.start):
            raise ValueError("the statistic must be in the ball that the search starts from")
        object.__setattr__(self, "find", find)

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
        later = self.later(request, start_of(self.start))
        each = later if later.labels is None else later.of_group
        statistic = EnclosingBall(self.start, later.privacy, each, tuple(sorted(set(sizes))))
        one: Any = {"mechanism": "auto", "law": None, "project": None, "coverage": 0.0, "labels": None, "divided": 1}
        return replace(request, statistic=statistic, privacy=_share(request.privacy, self.find), **one)

    def later(self, request: Request, ball: Ball) -> Request:
        """The request for the statistic in the ball that was found."""
        rest = 1.0 - self.find
        privacy, coverage = _share(request.privacy, rest), min(0.5, request.coverage / rest)
        return replace(request, statistic=in_ball(self.then, ball), privacy=privacy, coverage=coverage)

    def steps(self, request: Request, sizes: tuple[int, ...]) -> Steps:
        found = yield self.search(request, sizes)
        yield self.later(request, found.ball)


def _share(privacy: Privacy, part: float) -> Privacy:
    return share_of(privacy, part * (1.0 - 1e-12))  # sums of floats round up


@final
@dataclass(frozen=True)
class FoundPlan(ProgramPlan):
    """What the chain will cost, whichever ball is found: each step at most its part of the privacy."""

    @cached_property
    def own_cost(self) -> Cost:
        request, statistic = self.request, self.statistic
        assert isinstance(statistic, InFoundBall)
        parts = (_share(request.privacy, part) for part in (statistic.find, 1.0 - statistic.find))
        return cost_of_parts([cost_of(part) for part in parts], request.privacy)

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
        rest = statistic.later(self.request, start_of(statistic.start)).privacy
        return f"a ball by {self.search}; then {statistic.then.words} in it, {rest}"
