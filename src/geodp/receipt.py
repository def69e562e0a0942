"""What comes out of a request: a value with its receipt, which prints itself and is stored as JSON. All of it is public.

*A receipt* is the request, the number of members, and the draws. Everything else follows from these: :func:`replay` advances the
flow of the request with the stored draws. So a receipt is read by making it again and comparing every field, and no second
description of a release exists.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from geodp._version import __version__
from geodp.fields import plain, read
from geodp.inputs import Array, is_line
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.manifolds.notation import Notation, in_layout
from geodp.noise.mechanism import Mechanism, Noise
from geodp.privacy.cost import Cost
from geodp.privacy.neighbours import Unit
from geodp.privacy.notions import Privacy
from geodp.request import Flow, Plan, Request, Resize, Statistic, cost_of_groups, follow
from geodp.showing import RULE, Row, Shown, as_text, table_html
from geodp.verdict import SAYS_NOTHING, against_spread, percent, says_nothing, verdict

EXACT = "exact"
SIMULATED = "simulated"

#: The version of the JSON Schema that receipts follow (``geodp.data.release_schema``).
SCHEMA = "urn:geodp:release:1"
#: A stored receipt gives the error at these probabilities.
QUANTILES = (0.5, 0.95)
#: The first line of everything made from reproducible bits.
SIMULATION = "SIMULATION - NOT PRIVATE: do not publish this"

#: A ball of this radius is a point: on a curved space no records that could be read are so close together.
_POINT = 1e-4
#: More than this epsilon hides little.
_WEAK = 10.0

#: What a group may be called.
Name = str | int | float | bool


@dataclass(frozen=True, eq=False)
class Receipt(Shown):
    """What a request gave: the number of members, and the draws from which everything released follows.

    ``print`` shows it; :meth:`to_json` and :meth:`from_json` store and restore it.
    """

    request: Request
    #: The number of members that were used; None for a claimed summary.
    n: int | None
    draws: tuple[Array, ...]
    #: Whether the bits were reproducible, so that nothing is private.
    simulated: bool = False
    dataset: str | None = None
    charge: int | None = None
    #: The layout of the records, if they were read from columns. The release is written in it too.
    written: Notation | None = None
    version: str = __version__
    #: What the flow made of the draws, if that is known already.
    made: Any = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Receipt) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.request, self.n, self.charge))

    @cached_property
    def result(self) -> Any:
        """What follows from the draws; the kind of statistic says what it is."""
        return self.made if self.made is not None else replay(self.request, self.n, self.draws, exact=False)

    @property
    def statistic(self) -> Statistic:
        return self.request.statistic

    @property
    def privacy(self) -> Privacy:
        return self.request.privacy

    @property
    def notation(self) -> Notation:
        """How points and lengths are written: in the layout of the records, or else in the units of the manifold."""
        return self.written or Notation(self.manifold)

    @property
    def manifold(self) -> Manifold:
        """The manifold of the records, and of the value if it is a point."""
        return self.request.manifold

    @property
    def neighbours(self) -> str:
        """The neighbours in words."""
        return self.request.protects

    @property
    def unit(self) -> Unit:
        """What ``n`` counts: records or persons."""
        return self.request.unit

    @property
    def cost(self) -> Cost:
        """What was spent in every notion of privacy, all parts together."""
        return self.request.cost(self._at_least_one)

    @property
    def _at_least_one(self) -> int:
        return max(1, self.n or 1)

    @property
    def epsilon(self) -> float | None:
        """The requested epsilon, or None."""
        return self.privacy.parameters().get("epsilon")

    @property
    def delta(self) -> float | None:
        """The requested delta, or None."""
        return self.privacy.parameters().get("delta")

    @property
    def rho(self) -> float | None:
        """The requested rho, or None."""
        return self.privacy.parameters().get("rho")

    @property
    def mu(self) -> float | None:
        """The requested mu, or None."""
        return self.privacy.parameters().get("mu")

    @property
    def private(self) -> bool:
        """Whether the noise came from the exact sampler and the operating system's entropy."""
        return not self.simulated

    @property
    def numerics(self) -> str:
        return SIMULATED if self.simulated else EXACT

    @cached_property
    def count(self) -> Release | None:
        """The noisy count of records or persons, if their number is private; ``n`` of them were used."""
        return None if self.request.count is None else self._part(self.request.count, None, 0)

    @cached_property
    def coverage(self) -> Any:
        """Noisy counts of the valid records and of those in the ball, if they were asked for."""
        covering = self.request.covering
        return None if covering is None else self._part(covering, self.n, int(self.request.counted))

    def _part(self, request: Request, n: int | None, place: int) -> Any:
        kind = request.statistic.release or Release
        return kind(request, n, (self.draws[place],), self.simulated, version=self.version, written=self.written)

    # ------------------------------------------------------------------ JSON

    def to_json(self) -> str:
        """The release as JSON text."""
        return json.dumps(self.document(), indent=2)

    def document(self) -> dict[str, Any]:
        """The receipt for JSON: what it is about, what was released, and at the end what everything else follows from."""
        spends = {name: _finite(getattr(self.cost, name)) for name in ("epsilon", "rho", "mu", "advantage")}
        return {
            "geodp": self.version,
            "summary": self.statistic.kind,
            "private": self.private,
            "numerics": self.numerics,
            **self.privacy.parameters(),
            "notion": self.privacy.words,
            "cost": {**self.cost.to_dict(), "spends": spends},
            "neighbours": self.neighbours,
            "unit": self.unit,
            "n": self.n,
            "manifold": repr(self.manifold),
            **self.released(),
            **self._in_layout(),
            "dataset": self.dataset,
            "charge": self.charge,
            "request": plain(self.request),
            "draws": [drawn.tolist() for drawn in self.draws],
        }

    def released(self) -> dict[str, Any]:
        """What was released and what follows from it, for JSON."""
        raise NotImplementedError

    def points(self) -> dict[str, Array]:
        """The points of the manifold in the release, by name."""
        return {}

    def lengths(self) -> dict[str, float]:
        """The geodesic lengths in the release, by name."""
        return {}

    def _in_layout(self) -> dict[str, Any]:
        return in_layout(self.notation, self.points(), self.lengths())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The release that :meth:`to_json` stored. A ``ValueError`` names the first field that does not follow from the rest."""
        found = receipt_from_json(text)
        if not isinstance(found, cls):
            raise ValueError(f"this is not the JSON text of a {_name_of(cls)}: it is one of a {_name_of(type(found))}")
        return found

    # ------------------------------------------------------------------ showing

    def head(self) -> str:
        return f"PRIVATE {self.statistic.kind.upper()}" if self.private else SIMULATION

    def about_protection(self) -> list[Row]:
        """Whom it protects, and what that means."""
        return [("protects", f"{self.neighbours}: {_guesses(self.cost, self.unit)}")]

    def about_privacy(self) -> list[Row]:
        return [
            ("privacy", f"{self.privacy}, {self.privacy.words}; neighbours: {self.neighbours}"),
            ("cost", cost_in_words(self.cost)),
        ]

    def about_budget(self) -> list[Row]:
        kept = f"data set {self.dataset!r}, charge {self.charge}" if self.dataset else "not kept in a ledger"
        return [("budget", kept), ("geodp", self.version)]

    def about_members(self) -> list[Row]:
        """How many records or persons there were."""
        if self.count is not None:
            number, away = round(float(self.count.value[0])), self.count.error_quantile(0.95)
            return [(f"{self.unit}s", f"about {number}, within {away:.3g} with probability 95%; {self.n} were used")]
        return [] if self.n is None else [(f"{self.unit}s", f"{self.n}")]


@dataclass(frozen=True, eq=False)
class Release(Receipt):
    """A private summary and how it was made: public parameters and nothing else.

    ``print`` shows a receipt; :meth:`to_json` and :meth:`from_json` store and restore it. ``cost`` has the whole privacy curve.

    >>> import numpy as np
    >>> from geodp import SPD, Ball, private_mean
    >>> release = private_mean(np.tile(np.eye(2), (1000, 1, 1)), Ball(SPD(2), np.eye(2), radius=1.0), epsilon=1.0)
    >>> round(release.error_quantile(0.95), 4)  # known before the draw: the value is within this with probability 95%
    0.0126
    >>> Release.from_json(release.to_json()) == release
    True
    """

    @property
    def plan(self) -> Plan:
        return self.request.plan(self._at_least_one)

    @property
    def value(self) -> Array:
        """What was released."""
        found: Array = self.result
        return found

    @property
    def vector(self) -> Array:
        """What was drawn: the value, or the numbers that it was computed from."""
        return self.draws[-1]

    @property
    def noise(self) -> Mechanism:
        found: Mechanism = self.plan.noise
        return found

    @property
    def ball(self) -> Ball | None:
        """The public ball of the records, if there is one."""
        place = self.statistic.place
        return place if isinstance(place, Ball) else None

    @property
    def bound(self) -> str | float | None:
        """The sensitivity bound of a mean, or the bound on the norm of records of an average."""
        return getattr(self.statistic, "bound", None)

    @property
    def sensitivity(self) -> float:
        return self.plan.sensitivity

    @property
    def tolerance(self) -> float:
        """A bound on the numerical error of the computed value."""
        return self.plan.tolerance

    @property
    def mechanism(self) -> str:
        return self.noise.name

    @property
    def scale(self) -> float:
        return self.noise.scale

    @property
    def grid(self) -> float | None:
        """Exact draws were rounded to multiples of this."""
        return None if self.simulated else self.noise.grid

    @property
    def projected(self) -> bool:
        return self.noise.projected

    @property
    def truth(self) -> str:
        """The true value that the error refers to, in words."""
        words = self.statistic.words
        if self.unit == "person":
            words = words.replace("the clipped records", "the persons' means")
        return f"{words} that were used" if self.count is not None else words

    def error_quantile(self, q: float) -> float:
        """A distance that contains the true value with probability ``q``: what noise did, from what was released.

        The true value is the mean of the clipped records, or the caller's summary. ``total_error`` counts clipping too.
        """
        return self.noise.quantile_at(self.vector, q) + self.tolerance

    def expected_error(self) -> float:
        """About the mean distance that noise puts between the release and the true value."""
        return self._expected_error

    @cached_property
    def _expected_error(self) -> float:
        return self.noise.expected_at(self.vector) + self.tolerance

    @property
    def clipping(self) -> float | None:
        """With probability 95% clipping moved the mean by at most this; None if it was not measured (``coverage``)."""
        return None if self.coverage is None else float(self.coverage.clipping)

    def total_error(self, q: float) -> float | None:
        """A distance from the mean of the records themselves with probability ``q``: noise and clipping together.

        Records beyond the second radius of :class:`geodp.statistics.coverage.Coverage` count as if they were on it. None if
        clipping was not measured.
        """
        half = 0.5 * (1.0 + q)
        return None if self.coverage is None else self.error_quantile(half) + float(self.coverage.clipping_bound(half))

    @property
    def says_nothing(self) -> bool:
        """Whether the release is likely to say no more than the centre of the ball."""
        return self.n == 0 or says_nothing(self.noise, self.statistic.hull)

    def verdict(self, spread: Release | None = None) -> str:
        """One line on what the error means, compared with the radius of the ball and, if given, with the released ``spread``.

        The spread is a variance or covariance of the same records.
        """
        words = self._verdict()
        deviation = None if spread is None else spread.deviation
        if deviation is not None and self.n and not self.says_nothing:
            words = f"{words}; {against_spread(self.expected_error(), deviation, self.n, self.unit)}"
        cautions = list(self._cautions())
        return f"careful: {'; '.join(cautions)}; {words}" if cautions and not self.says_nothing else words

    def _verdict(self) -> str:
        ball = self.statistic.hull
        if self.says_nothing:
            return SAYS_NOTHING
        if ball is None:
            return f"with probability 95% the error is at most {self.notation.length(self.error_quantile(0.95))}"
        total = self.total_error(0.95)
        if total is None and self.statistic.cover is not None:
            # a wrong column makes a mean that is as precise as any
            share = percent(self.error_quantile(0.95) / ball.radius)
            return f"noise alone makes an error of at most {share} of the radius of the ball; what clipping did was not measured"
        return verdict(self.noise.likely_error(), self.error_quantile(0.95) if total is None else total, ball.radius)

    def _cautions(self) -> Iterator[str]:
        """What a reader should know before trusting the numbers."""
        ball, coverage = self.ball, self.coverage
        if coverage is not None and coverage.remark:
            yield coverage.remark
        if self.statistic.cover is not None and ball is not None:
            curved = math.isfinite(ball.manifold.diameter) or ball.manifold.lowest_curvature < 0.0
            if curved and ball.radius < _POINT:
                why = f"as if no {self.unit} could be read: check which columns were"
                yield f"the ball has a radius of only {ball.radius:.2g}, {why}"
            if coverage is None and np.array_equal(ball.center, ball.manifold.origin):
                yield f"nobody knows how many {self.unit}s are near the centre of the ball, which is the default one"
        if (self.epsilon or 0.0) > _WEAK:
            yield f"epsilon = {self.epsilon:g} protects hardly anyone"

    @property
    def deviation(self) -> float | None:
        """The released standard deviation of the records, if this is a release of one."""
        return None

    @property
    def is_point(self) -> bool:
        """Whether the value is a point of the manifold, and not a number, counts or a matrix."""
        return self.statistic.is_point

    def points(self) -> dict[str, Array]:
        return {**({"value": self.value} if self.is_point else {}), **({} if self.ball is None else {"center": self.ball.center})}

    def lengths(self) -> dict[str, float]:
        return {**({} if self.ball is None else {"radius": self.ball.radius}), **self.error_lengths()}

    def error_lengths(self) -> dict[str, float]:
        return {"expected_error": self.expected_error(), "error_95": self.error_quantile(0.95)}

    def released(self) -> dict[str, Any]:
        ball, parts = self.ball, {"count": self.count, "coverage": self.coverage}
        return {
            "center": None if ball is None else ball.center.tolist(),
            "radius": None if ball is None else ball.radius,
            "bound": self.bound,
            "mechanism": self.mechanism,
            "sensitivity": self.sensitivity,
            "tolerance": self.tolerance,
            "scale": self.scale,
            "grid": self.grid,
            "projected": self.projected,
            "error": {"expected": self.expected_error(), **{f"{q:g}": self.error_quantile(q) for q in QUANTILES}},
            "clipping": self.clipping,
            "total_error": {f"{q:g}": self.total_error(q) for q in QUANTILES},
            "verdict": self.verdict(),
            "value": self.value.tolist(),
            **{name: part.document() for name, part in parts.items() if part is not None},
            **({"coverage_share": self.request.coverage} if self.coverage is not None else {}),
            **({"noise_cost": self.noise.cost.to_dict()} if any(parts.values()) else {}),
        }

    def rows(self) -> list[Row]:
        source = f", bound: {self.bound}" if isinstance(self.bound, str) else ""
        if not self.statistic.of_records:
            source = ", as claimed by the caller, not checked"
        projected = f"; projected onto the ball: {'yes' if self.projected else 'no'}" if self.statistic.hull else ""
        rounded = (
            "floating-point simulation" if self.grid is None else f"exact arithmetic, rounded to multiples of {self.grid:.3g}"
        )
        return [
            *self.about_value(),
            *self.about_error(),
            ("verdict", self.verdict()),
            *self.about_protection(),
            *self.about_members(),
            *self._about_coverage(),
            RULE,
            *self.about_privacy(),
            ("manifold", repr(self.manifold)),
            *about_ball(self.ball, self.notation),
            ("mechanism", f"{self.mechanism}, scale {self.scale:.6g}{projected}"),
            ("sensitivity", f"{self.sensitivity:.6g}{source}; numerical error at most {self.tolerance:.2g}"),
            ("numerics", rounded),
            *self.about_budget(),
        ]

    def _about_coverage(self) -> list[Row]:
        if self.coverage is not None:
            return [*self.coverage.about_value(), *(("", text) for _, text in self.coverage.about_error())]
        return []

    def about_value(self) -> list[Row]:
        """The rows of the receipt with the released values."""
        return about_point("value", self.value, self.notation)

    def about_error(self) -> list[Row]:
        """The rows of the receipt with the error."""
        length, total = self.notation.length, self.total_error(0.95)
        noise = f"within {length(self.error_quantile(0.95))} of {self.truth} with probability 95%"
        if total is None:
            only = "noise only; clipping unknown" if self.statistic.cover is not None else "geodesic distance"
            return [("error", noise), ("", f"on average about {length(self.expected_error())} ({only})")]
        clipped = f"clipping moved it by at most {length(self.clipping or 0.0)}"
        return [
            ("error", f"within {length(total)} of the mean of the {self.unit}s with probability 95%: noise and clipping"),
            ("", f"noise alone: {noise}; {clipped}"),
        ]


@dataclass(frozen=True, eq=False)
class Receipts(Shown):
    """Several releases with one charge: what receipts of groups and of chains have in common."""

    request: Request

    if TYPE_CHECKING:
        # fields or properties of both

        @property
        def dataset(self) -> str | None: ...
        @property
        def charge(self) -> int | None: ...
        @property
        def version(self) -> str: ...
        @property
        def cost(self) -> Cost:
            """What all releases spend together, in every notion of privacy."""

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Receipts) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # groups are a mapping, like a dictionary

    @property
    def parts(self) -> Iterable[Any]:
        """The releases, in order."""
        raise NotImplementedError

    @property
    def privacy(self) -> Privacy:
        return self.request.privacy

    @property
    def neighbours(self) -> str:
        return self.request.protects

    @property
    def private(self) -> bool:
        return all(release.private for release in self.parts)

    def to_json(self) -> str:
        """The releases as JSON text."""
        return json.dumps(self.document(), indent=2)

    def document(self) -> dict[str, Any]:
        return {
            "geodp": self.version,
            "private": self.private,
            **self.privacy.parameters(),
            "notion": self.privacy.words,
            "cost": self.cost.to_dict(),
            "neighbours": self.neighbours,
            "dataset": self.dataset,
            "charge": self.charge,
            "request": plain(self.request),
        }

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The releases that :meth:`to_json` stored; raises a ``ValueError`` for other text."""
        found = receipt_from_json(text)
        if not isinstance(found, cls):
            raise ValueError(f"this is not the JSON text of a {_name_of(cls)}: it is one of a {_name_of(type(found))}")
        return found

    def about_privacy(self) -> list[Row]:
        return [
            ("privacy", f"{self.privacy}, {self.privacy.words}, for all of them; neighbours: {self.neighbours}"),
            ("cost", cost_in_words(self.cost)),
        ]


def _guesses(cost: Cost, unit: Unit) -> str:
    """What a cost means to a person."""
    right = 50.0 * (1.0 + cost.advantage)
    return f"who guesses whether a {unit} is in the data is right at most {right:.0f}% of the time, instead of 50%"


@final
@dataclass(frozen=True, eq=False)
class ChainRelease(Receipts):
    """The releases of a chain, charged together: each was requested with what the earlier ones released.

    What the last of them has, such as its value, is found here too.
    """

    steps: tuple[Any, ...]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "steps":
            raise AttributeError(name)
        return getattr(self.steps[-1], name)

    @property
    def parts(self) -> Iterable[Any]:
        return self.steps

    @property
    def cost(self) -> Cost:
        return self.request.price(self.sizes)

    @property
    def dataset(self) -> str | None:
        return self.steps[-1].dataset

    @property
    def charge(self) -> int | None:
        return self.steps[-1].charge

    @property
    def version(self) -> str:
        return self.steps[-1].version

    @property
    def sizes(self) -> tuple[int, ...]:
        """The public numbers of members for which the last step was planned: that of each group, or the only one."""
        last = self.steps[-1]
        each = list(last.values()) if isinstance(last, GroupedRelease) else [last]
        return tuple(1 if one.request.counted else max(1, one.n or 0) for one in each)

    def document(self) -> dict[str, Any]:
        return {
            "summary": self.request.statistic.kind,
            **super().document(),
            "releases": [each.document() for each in self.steps],
        }

    def __getitem__(self, name: Name) -> Any:
        return self.steps[-1][name]

    def __iter__(self) -> Iterator[Name]:
        return iter(self.steps[-1])

    def __len__(self) -> int:
        return len(self.steps[-1])

    def __str__(self) -> str:
        return "\n".join([str(self.steps[-1]), "", as_text("TOGETHER", self.rows())])

    def _repr_html_(self) -> str:
        return self.steps[-1]._repr_html_() + super()._repr_html_()

    def plot(self, path: Any = None) -> Any:
        return self.steps[-1].plot(path)

    def head(self) -> str:
        return "TOGETHER" if self.private else SIMULATION

    def rows(self) -> list[Row]:
        """What all steps cost together, and what the earlier ones released."""
        rows = [("protects", f"{self.neighbours}: {_guesses(self.cost, self.request.unit)}"), *self.about_privacy()]
        for step in self.steps[:-1]:
            rows += [(f"found {step.statistic.kind}", f"with {step.privacy}"), *step.about_value()]
        return rows


@final
@dataclass(frozen=True, eq=False)
class GroupedRelease(Receipts, Mapping[Name, Receipt]):
    """One release for each group, by its name. They were charged together: every record, or person, is in only one group.

    If labels are private, a replacement may change two groups, so all together cost as much as two of the releases. If a person
    may be in all groups, each release has an equal part of the privacy.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere, private_mean
    >>> x = np.tile([0.0, 0.0, 1.0], (600, 1))
    >>> means = private_mean(x, Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5), epsilon=1.0, by=["a", "b", "b"] * 200)
    >>> {name: release.n for name, release in means.items()}, means.cost.epsilon
    ({'a': 200, 'b': 400}, 1.0)
    """

    releases: Mapping[Name, Any]
    dataset: str | None = None
    charge: int | None = None
    version: str = __version__

    def __getitem__(self, name: Name) -> Any:
        return self.releases[name]

    def __iter__(self) -> Iterator[Name]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    __eq__ = Receipts.__eq__

    @property
    def parts(self) -> Iterable[Any]:
        return self.values()

    @property
    def cost(self) -> Cost:
        return cost_of_groups([release.cost for release in self.values()], self.request)

    def document(self) -> dict[str, Any]:
        groups = [{"name": name, "release": release.document()} for name, release in self.items()]
        return {"summary": "groups", **super().document(), "groups": groups}

    def __str__(self) -> str:
        parts = (f"\ngroup {name}: {release}" for name, release in self.items())
        return "\n".join([as_text(self.head(), self.rows()), *parts])

    def _repr_html_(self) -> str:
        def cells(name: Name, release: Any) -> list[str]:
            values, errors = (next(iter(rows), ("", ""))[1] for rows in (release.about_value(), release.about_error()))
            return [str(name), str(release.n), values, errors, release.verdict()]

        table = table_html("groups", ["group", "n", "value", "error", "verdict"], (cells(*item) for item in self.items()))
        return super()._repr_html_() + table

    def head(self) -> str:
        return "PRIVATE RELEASES BY GROUP" if self.private else SIMULATION

    @property
    def _whose(self) -> str:
        """How many groups a person may be in, for the receipt."""
        if self.request.divided > 1:
            return f"; a person may be in every group, so each has 1/{self.request.divided} of the privacy"
        private = self.request.unit == "person" and self.request.labels == "private"
        return "; a person counts in the group of their first record" if private else ""

    def rows(self) -> list[Row]:
        return [
            ("groups", f"{len(self)}; it is {self.request.labels} who is in which{self._whose}"),
            *self.about_privacy(),
        ]


# ---------------------------------------------------------------------- reading receipts


def replay(request: Request, n: int | None, draws: Sequence[Array], *, exact: bool) -> Any:
    """What follows from the draws of a request about ``n`` members. Raises a ``ValueError`` if they cannot be its draws."""
    flow: Flow = request.flow(0 if request.counted or n is None else n)
    left = list(draws)
    answer: Any = None
    try:
        while True:
            asked = flow.send(answer)
            if isinstance(asked, Resize):
                if n != asked.n:
                    raise ValueError("its n must be the number that follows from its count")
                answer = None
                continue
            answer, left = left[: len(asked)], left[len(asked) :]
            for plan, drawn in zip(asked, answer, strict=True):
                noise: Noise = plan.noise
                if exact and not noise.possible(drawn):
                    raise ValueError("its draws must be such as its noise can make")
    except StopIteration as end:
        if left:
            raise ValueError("it has more draws than its request makes") from None
        return end.value


def receipt_from_json(text: str) -> Receipt | Receipts:
    """A release of any kind. The error quotes nothing, because the text may be anything, even a file of records."""
    wrong = "it is not a receipt of geodp"
    try:
        stored: Any = json.loads(text)
        if isinstance(stored, dict) and "geodp" in stored:
            wrong = "pass what to_json returned"
            found = _read(stored)
            different = first_difference(json.loads(found.to_json()), stored)
            if different is None:
                return found
            wrong = f"its {different} does not follow from the rest"
    except _Unreadable as reason:
        wrong = str(reason)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, AssertionError):
        pass
    raise ValueError(f"this is not the JSON text of a release: {wrong}")


class _Unreadable(ValueError):
    """A receipt cannot be read. The message quotes nothing."""


def _read(stored: dict[str, Any]) -> Receipt | Receipts:
    import_module("geodp.table").load()  # all statistics
    try:
        request: Request = read(Request, stored["request"])
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise _Unreadable("its request is none that geodp makes") from None
    dataset, charge, version = stored["dataset"], stored["charge"], stored["geodp"]
    if (dataset is None) != (charge is None) or not (dataset is None or is_line(dataset)):
        raise _Unreadable("its dataset and its charge go together")
    if charge is not None and not (type(charge) is int and 1 <= charge <= 2**63):
        raise _Unreadable("its charge must be a whole number from 1 to 2^63")
    if not is_line(version):
        raise _Unreadable("its geodp must be a line of text")
    if request.statistic.chain:
        return _chain(request, stored)
    if "groups" not in stored:
        return _one(request, stored, dataset, charge, version)
    releases = {each["name"]: _one(request.of_group, each["release"], dataset, charge, version) for each in stored["groups"]}
    if request.labels is None or not releases or len(releases) != len(stored["groups"]) or not all(map(_is_name, releases)):
        raise _Unreadable("its groups must have names, each a different one")
    return GroupedRelease(request, releases, dataset, charge, version)


def _chain(request: Request, stored: dict[str, Any]) -> ChainRelease:
    made = ChainRelease(request, tuple(map(_read, stored["releases"])))
    left = list(made.steps)

    def next_of(step: Request) -> Any:
        if not left or left[0].request != step:
            raise _Unreadable("its steps must be those of its request")
        return left.pop(0)

    follow(request.statistic.steps(request, made.sizes), next_of)
    alike = len({(each.dataset, each.charge, each.version, each.private) for each in made.steps}) == 1
    if left or not alike or not _same_members(made):
        raise _Unreadable("its steps must be those of its request")
    return made


def _same_members(made: ChainRelease) -> bool:
    """Whether the public numbers of members can be those of the same records in all steps."""
    if made.request.hides_numbers:
        return True
    total, *others = (_total(step) for step in made.steps)
    if made.request.divided > 1:  # a person may be in several groups
        return all(max(made.sizes) <= total <= other for other in others)
    return all(total == other for other in others)


def _total(step: Any) -> int:
    return sum(each.n or 0 for each in (step.values() if isinstance(step, GroupedRelease) else [step]))


def _is_name(name: Any) -> bool:
    return isinstance(name, str | int | float) and is_line(str(name))


def _one(request: Request, stored: dict[str, Any], dataset: str | None, charge: int | None, version: str) -> Receipt:
    n, draws = stored["n"], tuple(np.asarray(drawn, dtype=np.float64) for drawn in stored["draws"])
    if not (n is None if not request.statistic.of_records else type(n) is int and 0 <= n <= 2**63):
        raise _Unreadable("its n must be a whole number from 0 to 2^63")
    if not all(np.isfinite(drawn).all() for drawn in draws):
        raise _Unreadable("its draws must be numbers")
    simulated = stored["numerics"] == SIMULATED
    if simulated and dataset is not None:
        raise _Unreadable("a simulation charges no budget")
    layout = stored.get("layout")
    written = None if layout is None else Notation.from_dict(request.manifold, layout)
    try:
        made = replay(request, n, draws, exact=not simulated)
    except ValueError as reason:
        raise _Unreadable(str(reason)) from None
    kind = request.statistic.release or Release
    found: Receipt = kind(request, n, draws, simulated, dataset, charge, written, version, made)
    return found


def first_difference(derived: Any, stored: Any, name: str = "", most: float = 0.0) -> str | None:
    """The name of the first field in which two documents differ, numbers up to the rounding of another machine."""
    if isinstance(derived, dict) and isinstance(stored, dict):
        for key in [*derived, *stored]:
            if key not in derived or key not in stored:
                return name or (key if key in derived else "further field")
            if first_difference(derived[key], stored[key], name or key) is not None:
                return name or key
        return None
    if isinstance(derived, list) and isinstance(stored, list) and len(derived) == len(stored):
        # entries of an array are as exact as its largest ones
        most = max(most, _largest(derived))
        pairs = zip(derived, stored, strict=True)
        same = all(first_difference(one, other, name or "list", most) is None for one, other in pairs)
    elif isinstance(derived, float) and isinstance(stored, float):
        same = math.isclose(stored, derived, rel_tol=1e-6, abs_tol=1e-12 * most)
    elif isinstance(derived, float) and type(stored) is int:  # as other programs may write it
        same = stored == derived
    else:
        same = type(derived) is type(stored) and derived == stored
    return None if same else name or "text"


def _largest(value: Any) -> float:
    """The largest number in nested lists."""
    return max(map(_largest, value), default=0.0) if isinstance(value, list) else abs(value) if isinstance(value, float) else 0.0


def _name_of(kind: type[Any]) -> str:
    return "release" if kind in (Receipt, Release) else kind.__name__


# ---------------------------------------------------------------------- words


def about_point(name: str, point: Array, notation: Notation) -> list[Row]:
    """Rows for a released point: in the layout of the records, as an array, and in words."""
    texts = [notation.point(point), written(point), notation.manifold.in_words(point)]
    shown = [text for text in texts if text]
    return [(name, shown[0]), *(("", text) for text in shown[1:])]


def about_ball(ball: Ball | None, notation: Notation) -> list[Row]:
    """The public ball."""
    if ball is None:
        return []
    origin = " (the origin)" if np.array_equal(ball.center, ball.manifold.origin) else ""
    center = notation.point(ball.center) or np.array2string(ball.center, precision=6, suppress_small=True, separator=", ")
    return [("radius", f"{notation.length(ball.radius, 6)}, of the public ball"), ("center", f"{center}{origin}")]


def cost_in_words(cost: Cost) -> str:
    """The cost in one line. A cost that is known only at a delta is shown at one."""
    known = str(cost) or f"epsilon {cost.epsilon_at(1e-6):.4g} at delta 1e-6"
    return f"{known}; advantage at most {cost.advantage:.3g}"


def written(array: Array) -> str:
    """The complete array as text, however long, because the screen may be the only copy."""
    return np.array2string(array, precision=6, suppress_small=True, separator=", ", threshold=array.size + 1)


def _finite(value: float) -> float | None:
    """None for infinity, which JSON does not have: null means that there is no such bound."""
    return value if math.isfinite(value) else None
