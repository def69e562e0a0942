r"""A request: what is to be released, with how much privacy, for whom. All of it is public, and no data are needed to plan it.

*Statistics.* A :class:`Statistic` says what is computed from records, how far one record can move it, and what follows from a
draw.

*Plans.* ``request.plan(n)`` is what would be done with ``n`` records: which noise, its cost and its error. It raises whatever may
be wrong, so that nothing fails after a charge.

*Parts.* A request may hold a noisy count (where the number of records is private) and a coverage; each is a request of its own
with a part of the privacy, and their costs add up.

*Flows.* :meth:`geodp.Request.flow` is a generator that yields plans whose statistics are to be computed and drawn, and receives
what was drawn. It knows neither records nor noise nor budget. :mod:`geodp.release` advances it with records, and a receipt is
read by advancing it with the stored draws.

*Chains.* Some statistics take several requests about all of the records one after the other, each made from what the earlier
ones released, such as a ball and a mean in it. ``Statistic.steps`` yields them and receives their releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypedDict, final, get_args

import numpy as np

from geodp.inputs import Array, describe, is_line, real_number, whole_number
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.manifolds.notation import Notation
from geodp.noise.choice import Candidate, MechanismName, SensitivityBound, candidates, check_names, choose, usable
from geodp.noise.flat import Family
from geodp.noise.mechanism import Mechanism, Noise
from geodp.noise.tangent import stretch_of_log
from geodp.plans import Option, ShownPlan
from geodp.privacy.cost import Cost, compose, cost_of
from geodp.privacy.neighbours import Labels, Neighbours, Unit
from geodp.privacy.notions import Privacy, privacy_of
from geodp.privacy.splitting import set_aside, share_of

#: The part of the privacy for a noisy count, if the number of records is private.
COUNT_SHARE = 0.1
#: More members than this are never asked for, when the least number that noise needs is looked for.
_MOST_LEAST = 1 << 40


class PrivacyOptions(TypedDict, total=False):
    """The privacy to spend, with an ``epsilon`` in exactly one of four notions."""

    delta: float | None
    rho: float | None
    mu: float | None


class NoiseOptions(TypedDict, total=False):
    """Where the noise is added, its law, and whether draws are moved into the ball."""

    mechanism: MechanismName
    law: Family | None
    project: bool | None


class Resize(NamedTuple):
    """From here on a flow is about so many members: some are dropped at random, or invalid ones are added."""

    n: int


#: What a flow yields, what it receives, and what follows from all draws.
Flow = Generator["tuple[Plan, ...] | Resize", "list[Array]", Any]


#: The requests of a chain, and the release that each gave.
Steps = Generator["Request", Any, None]


def follow(steps: Steps, release: Callable[[Request], Any]) -> list[Any]:
    """The releases of all requests of a chain."""
    releases = [release(next(steps))]
    while True:
        try:
            request = steps.send(releases[-1])
        except StopIteration:
            return releases
        releases.append(release(request))


class Statistic:
    """A deterministic summary of private records. Everything here is public.

    Subclasses are frozen dataclasses. ``place``, ``codomain`` and ``hull`` are fields or properties of theirs.
    """

    #: Its name in receipts, and what an error is an error of.
    kind: ClassVar[str]
    words: ClassVar[str]
    #: The class of its releases; :class:`geodp.Release` if None.
    release: ClassVar[type[Any] | None] = None
    #: Whether it is about records, of which there are ``n``.
    of_records: ClassVar[bool] = True
    #: Whether groups may have one each.
    by_group: ClassVar[bool] = True
    #: Whether it is several requests one after the other, each with a noisy count of its own if there must be one.
    chain: ClassVar[bool] = False
    #: Whether its value is a point of the manifold of the records.
    is_point: ClassVar[bool] = False

    if TYPE_CHECKING:
        # at run time a field of a subclass would take these properties for its default

        @property
        def place(self) -> Ball | Manifold:
            """Where the records are: the public ball, or the manifold if there is none."""

        @property
        def codomain(self) -> Manifold:
            """The manifold of the value to which noise is added."""

    @property
    def hull(self) -> Ball | None:
        """A public ball that contains every value, or None."""
        return None

    @property
    def cover(self) -> Statistic | None:
        """The statistic that says how many records this one speaks of, if ``coverage`` may be asked for."""
        return None

    @property
    def purpose(self) -> str:
        """What a ledger notes about a charge."""
        place = self.place
        return f"{self.kind} on {place.manifold if isinstance(place, Ball) else place}"

    #: All statistics that have been imported, by their kinds, but for those that only occur as steps of programs.
    known: ClassVar[dict[str, type[Statistic]]] = {}

    def __init_subclass__(cls, step: bool = False) -> None:
        if "kind" in cls.__dict__ and not step:
            Statistic.known[cls.kind] = cls

    def sensitivity(self, n: int) -> float:
        """A bound on the geodesic distance between the exact values of neighbouring data sets of ``n`` members."""
        raise NotImplementedError(f"{type(self).__name__} has no sensitivity: it is a program")

    def tolerance(self, unit: Unit) -> float:
        """A bound on the numerical error of the value, met for every data set."""
        return 0.0

    def check(self, n: int, unit: Unit) -> None:
        """Raises if its values cannot be computed."""

    def compute(self, source: Any, n: int, progress: Any = None) -> Any:
        """The value for exactly ``n`` members, to which noise will be added."""
        raise NotImplementedError(f"{type(self).__name__} is not computed at once")

    def compute_each(self, sources: list[Any]) -> list[Any] | None:
        """The values of several arrays of records, if they are faster to compute together."""
        return None

    def noise(self, plan: Plan) -> Noise:
        """What hides the value; raises if nothing can."""
        request = plan.request
        return choose(plan.bound, plan.privacy, request.mechanism, request.law, request.project)

    def value(self, drawn: Array) -> Any:
        """What is released, from what was drawn."""
        return drawn

    def plan(self, request: Request, n: int) -> Plan:
        return Plan(request, n)

    def steps(self, request: Request, sizes: tuple[int, ...]) -> Steps:
        """The requests that a request for it takes, about groups of these sizes or one whole: one, unless it is a chain."""
        yield request


@final
@dataclass(frozen=True)
class Count(Statistic):
    """The number of records or persons, which adding or removing one of them changes by 1."""

    kind = "count"
    words = "the count"
    place = codomain = Euclidean(1)

    def sensitivity(self, n: int) -> float:
        return 1.0

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        return np.array([float(n)])


@final
@dataclass(frozen=True, init=False)
class Request:
    """What is to be released: a statistic, an amount of privacy, how the noise is chosen, and whom it protects.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> from geodp.statistics.mean import Mean
    >>> request = Request(Mean(Ball(Sphere(2), [0.0, 0.0, 1.0], np.pi / 8)), epsilon=2.0)
    >>> round(request.plan(100).noise.scale, 9), request.protects
    (0.004142136, 'replace one record')
    """

    statistic: Statistic
    privacy: Privacy
    mechanism: MechanismName = "auto"
    law: Family | None = None
    project: bool | None = None
    #: The part of the privacy for noisy counts of the valid records and of those in the ball.
    coverage: float = 0.0
    #: What ``n`` counts.
    unit: Unit = "record"
    #: ``"replace"`` or ``"add-remove"``; for a claimed summary any line of text.
    neighbours: str = "replace"
    #: With releases by group: whether it is public who is in which.
    labels: Labels | None = None
    #: Over how many groups the privacy is divided, because each person may be in all of them; 1 if in one only.
    divided: int = 1
    #: Whether this is what one group gets of a request by group.
    group: bool = False
    #: Whether it is a part of another request, which has settled how many members there are.
    is_part: bool = False

    def __init__(
        self,
        statistic: Statistic,
        privacy: Privacy | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        mechanism: MechanismName = "auto",
        law: Family | None = None,
        project: bool | None = None,
        coverage: float = 0.0,
        unit: Unit = "record",
        neighbours: str = "replace",
        labels: Labels | None = None,
        divided: int = 1,
        group: bool = False,
        is_part: bool = False,
    ) -> None:
        if not isinstance(statistic, Statistic):
            raise TypeError(
                f"a request is for a statistic, such as Mean(ball), but was given one of type {type(statistic).__name__}"
            )
        if privacy is None or (epsilon, delta, rho, mu) != (None,) * 4:
            privacy = privacy_of(epsilon, delta, rho, mu)
        check_names(mechanism, law)
        if not isinstance(project, bool | np.bool_ | None):
            raise TypeError(f"project must be True, False or None but is of type {type(project).__name__}")
        coverage = real_number(coverage, "the part of the privacy for coverage")
        if not 0.0 <= coverage <= 0.5:
            raise ValueError(f"the part of the privacy for coverage must be from 0 to 0.5 but is {coverage:g}: 0.05 is usual")
        if coverage and statistic.cover is None:
            raise ValueError(f"coverage is for means in a ball, not for {statistic.words}")
        for name, asked, known in (("unit", unit, get_args(Unit)), ("labels", labels, (None, *get_args(Labels)))):
            if asked not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(str, known))} but is {describe(asked)}")
        if labels is not None and not statistic.by_group:
            raise ValueError(f"{statistic.words} is found for all groups together: leave out by, groups and labels")
        if neighbours not in ("replace", "add-remove") and (statistic.of_records or not is_line(neighbours)):
            choices = "replace or add-remove" if statistic.of_records else "a line of text that names them"
            raise ValueError(f"neighbours must be {choices} but is {describe(neighbours)}")
        fields = {
            "statistic": statistic, "privacy": privacy, "mechanism": mechanism, "law": law, "coverage": coverage, "unit": unit,
            "project": None if project is None else bool(project), "neighbours": neighbours, "labels": labels, "group": group,
            "divided": whole_number(divided, 1, "the number of groups"), "is_part": is_part,
        }  # fmt: skip
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    # ------------------------------------------------------------------ whom it protects

    @property
    def manifold(self) -> Manifold:
        """The manifold of the records."""
        place = self.statistic.place
        return place.manifold if isinstance(place, Ball) else place

    @property
    def hides_numbers(self) -> bool:
        """Whether the number of members, or those of the groups, are private."""
        return self.neighbours == "add-remove" or self.labels == "private"

    @property
    def counted(self) -> bool:
        """Whether the number of members is private, so that a noisy count is drawn first."""
        hidden = self.neighbours == "add-remove" or (self.labels == "private" and self.group)
        return hidden and self.statistic.of_records and not self.is_part and not self.statistic.chain

    @property
    def protects(self) -> str:
        """The neighbours in words; of a request by group those of all groups together."""
        if self.neighbours not in ("replace", "add-remove"):
            return self.neighbours
        change: Any = "add-remove" if self.labels == "private" and self.group else self.neighbours
        also = change == "add-remove" and (self.labels is None or self.divided > 1)
        return str(Neighbours(change, self.unit, keeps_group=self.labels == "public", or_replace=also))

    @cached_property
    def of_group(self) -> Request:
        """What each group gets. :mod:`geodp.release` says why.

        If labels are private, a record that changes its group leaves one group and enters another, so two releases must each
        protect it. If persons may be in all groups, all releases must protect each of them.
        """
        changes = self.divided if self.divided > 1 else 2 if self.labels == "private" and self.neighbours == "replace" else 1
        part = self.privacy if changes == 1 else share_of(self.privacy, (1.0 - 1e-12) / changes)  # sums of floats round up
        return replace(self, privacy=part, group=True)

    # ------------------------------------------------------------------ parts

    @cached_property
    def _shares(self) -> tuple[list[Privacy], Privacy]:
        shares = [COUNT_SHARE] * self.counted + [self.coverage] * (self.coverage > 0.0)
        return set_aside(self.privacy, [] if self.statistic.chain else shares)

    @property
    def own(self) -> Privacy:
        """The part of the privacy that is spent on the statistic itself."""
        return self._shares[1]

    @cached_property
    def count(self) -> Request | None:
        """The noisy count, if there is one."""
        return self.part(Count(), self._shares[0][0]) if self.counted else None

    @cached_property
    def covering(self) -> Request | None:
        """The coverage, if it was asked for."""
        cover = None if self.statistic.chain else self.statistic.cover
        return self.part(cover, self._shares[0][-1]) if self.coverage and cover else None

    def part(self, statistic: Statistic, privacy: Privacy, law: Family | None = None) -> Request:
        """A request for something else about the same members, with a part of the privacy."""
        return replace(
            self, statistic=statistic, privacy=privacy, mechanism="auto", law=law, project=None, coverage=0.0, is_part=True
        )

    # ------------------------------------------------------------------ plans

    def plan(self, n: int) -> Plan:
        """What would be done with ``n`` members. Raises if that cannot be."""
        # cached, because many groups have the same number of members
        if n not in self._plans:
            self._plans[n] = self.statistic.plan(self, n)
        return self._plans[n]

    @cached_property
    def _plans(self) -> dict[int, Plan]:
        return {}

    def cost(self, n: int) -> Cost:
        """The cost of a release about ``n`` members; if ``n`` is private, a cost that holds for every number."""
        own = cost_of(self.own) if self.counted else self.plan(n).own_cost
        return cost_of_parts([*(part.plan(1).own_cost for part in (self.count, self.covering) if part), own], self.privacy)

    def price(self, sizes: tuple[int, ...]) -> Cost:
        """The cost of the releases of groups of these sizes together, or of the only one."""
        if self.labels is None or self.statistic.chain:
            return self.cost(sizes[0])
        each = self.of_group
        return cost_of_groups([each.cost(n) for n in sizes], self)

    def check(self, n: int) -> None:
        """Raises if there is no noise for ``n`` members or, if that number is private, for no number of them."""
        if self.counted:
            assert self.least
        else:
            self.plan(n).check()

    @cached_property
    def least(self) -> int:
        """The smallest power of two of members for which there is noise. On compact spaces it may be more than one."""
        least = 1
        while True:
            try:
                self.plan(least).check()
                return least
            except ValueError:
                least *= 2
                if least > _MOST_LEAST:
                    raise

    def release(self, x: Any, **options: Any) -> Any:
        """The release of records ``x``, or of a :class:`geodp.Dataset`; ``options`` are a ``ledger`` and a ``dataset`` in it or a
        generator to ``simulate`` with, ``progress``, and whose the records are."""
        if self.is_part or self.group:
            raise ValueError("a part of a request is not released by itself, because the whole says how many members there are")
        return import_module("geodp.release").release_of(self, x, **options)

    # ------------------------------------------------------------------ flows

    def flow(self, n: int) -> Flow:
        """The draws that this request needs, about ``n`` members if their number is public."""
        if self.count is not None:
            noise = self.count.plan(1).noise
            assert isinstance(noise, Mechanism)
            (counted,) = yield (self.count.plan(1),)
            n = members_used(noise, counted, self.least)
            yield Resize(n)
        return (yield from self.plan(max(1, n)).flow())


def members_used(noise: Mechanism, count: Array, least: int) -> int:
    """How many members to use after a noisy count, with a margin so that members are dropped rather than added.

    An added member is invalid, so it counts as the centre of the ball and would pull the mean towards it.
    """
    return max(least, math.floor(float(count[0]) - noise.error_quantile(0.9)))


def cost_of_parts(costs: list[Cost], privacy: Privacy) -> Cost:
    """The cost of the parts of a release together, which were given parts of its epsilon and all of its delta.

    The bounds for a sum of costs may exceed the privacy. Then the cost is the privacy itself.
    """
    if len(costs) == 1:
        return costs[0]
    together = compose(costs)
    return together if together.meets(privacy) else cost_of(privacy)


def cost_of_groups(costs: list[Cost], request: Request) -> Cost:
    """The cost of the releases of groups together: a record changes one group, two if it may change its group, or all.

    If the groups have different costs, each is within the requested privacy, and so are all together.
    """
    if request.divided > 1:
        return cost_of_parts(costs, request.privacy)
    if any(cost != costs[0] for cost in costs):
        return cost_of(request.privacy)
    return cost_of_parts([costs[0]] * (1 if request.of_group.privacy == request.privacy else 2), request.privacy)


@dataclass(frozen=True)
class Plan(ShownPlan):
    r"""A request about ``n`` members: its noise, its cost and its error, from public numbers alone.

    *Neighbours*: data sets whose exact values are at most ``sensitivity`` apart, and so their computed values at most

    ``Delta = sensitivity + 2 * tolerance``.

    The normal coordinates of computed values at the centre of the ball are at most ``L Delta`` apart, with the Lipschitz constant
    ``L`` of ``log`` (:func:`geodp.noise.tangent.stretch_of_log`), plus the rounding errors of both. ``noise`` is made for
    these distances, and its docstring has the theorem that gives the privacy.

    >>> from geodp import Ball, Sphere, plan
    >>> plan(Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5), n=1000, epsilon=1.0).noise.name
    'Riemannian Laplace'
    """

    request: Request
    n: int
    #: How points and lengths are written.
    written: Notation | None = None
    #: So many such releases are planned, if more than one.
    releases: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole_number(self.n, 1, "the number of records n"))
        self.request.statistic.check(self.n, self.request.unit)

    @property
    def statistic(self) -> Statistic:
        return self.request.statistic

    @property
    def privacy(self) -> Privacy:
        """What is spent on the statistic itself."""
        return self.request.own

    @cached_property
    def sensitivity(self) -> float:
        """The sensitivity of the exact statistic."""
        return self.statistic.sensitivity(self.n)

    @cached_property
    def tolerance(self) -> float:
        return self.statistic.tolerance(self.request.unit)

    @cached_property
    def bound(self) -> SensitivityBound:
        """How far neighbouring data sets can move the computed value."""
        distance, ball = self.sensitivity + 2.0 * self.tolerance, self.statistic.hull
        if ball is None:
            return SensitivityBound(self.statistic.codomain, distance)
        rounding = 8.0 * ball.manifold.log_rounding(ball.center, ball.reach)
        apart = min(stretch_of_log(ball) * distance, 2.0 * ball.reach)
        return SensitivityBound(ball.manifold, distance, ball, apart + 2.0 * rounding)

    @cached_property
    def noise(self) -> Any:
        """The noise; raises if there is none."""
        return self.statistic.noise(self)

    @property
    def own_cost(self) -> Cost:
        """The cost of the statistic itself, without a count or a coverage."""
        cost: Cost = self.noise.cost
        return cost

    @property
    def cost(self) -> Cost:
        """What the release would spend, in every notion of privacy."""
        return self.request.cost(self.n)

    def check(self) -> None:
        """Raises if there is no noise, as :attr:`noise` does, but computes no errors."""
        request = self.request
        usable(self.bound, self.privacy, request.mechanism, request.law, request.project)

    def candidates(self) -> list[Candidate]:
        """All mechanisms. Those that cannot be used have a reason."""
        return candidates(self.bound, self.privacy, self.request.project)

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """All mechanisms with their errors and costs."""
        return tuple(map(Option.of, self.candidates()))

    @property
    def notation(self) -> Notation:
        return self.written or Notation(self.request.manifold)

    def flow(self) -> Flow:
        """A coverage if there is one, and the value, in one batch."""
        covering = self.request.covering
        before = () if covering is None else (covering.plan(self.n),)
        *_, drawn = yield (*before, self)
        return self.statistic.value(self.noise.finish(drawn))


class Program(Statistic):
    """Several requests about the same members, each through what the earlier ones released.

    Its plan says from public numbers alone which steps it takes, what each of them costs and what they cost together.
    """

    @property
    def codomain(self) -> Manifold:
        raise TypeError(f"{self.words} is found in several steps, and has no noise of its own")


@dataclass(frozen=True)
class ProgramPlan(Plan):
    """The plan of a program: its steps, each with a part of the privacy."""

    @property
    def own_cost(self) -> Cost:
        """What all steps cost together."""
        raise NotImplementedError

    @property
    def says_nothing(self) -> bool:
        return False

    def check(self) -> None:
        """Raises whatever may be wrong: everything is checked when the plan is made."""

    def step(self, statistic: Statistic, privacy: Privacy, law: Family | None = None) -> Plan:
        """The plan of a step."""
        return self.request.part(statistic, privacy, law).plan(self.n)
