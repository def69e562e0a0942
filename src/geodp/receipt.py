"""The result of a release: a value and its receipt, and how receipts are stored and read. All of it is public."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, final, get_args

import numpy as np

from geodp._version import __version__
from geodp.files import parse_manifold
from geodp.inputs import Array, is_line
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.manifolds.notation import Notation
from geodp.noise.flat import Family
from geodp.noise.intrinsic import IntrinsicMechanism, intrinsic_cost
from geodp.noise.mechanism import Mechanism
from geodp.noise.tangent import TangentMechanism, stretch_of_log, tangent_cost
from geodp.privacy.cost import Cost, PureCost, compose, cost_from_dict, cost_of
from geodp.privacy.neighbours import REPLACE_ONE, Unit, add_or_remove_one, change_one, replace_one
from geodp.privacy.notions import Privacy, privacy_of
from geodp.privacy.splitting import halves, one_of, set_aside
from geodp.showing import Row, Shown, as_text, table_html
from geodp.statistics.counts import Count, Coverage
from geodp.statistics.mean import FrechetMean
from geodp.statistics.projected import ProjectedMean
from geodp.statistics.sensitivity import Bound
from geodp.statistics.statistic import ClaimedSummary, Statistic
from geodp.verdict import SAYS_NOTHING, against_spread, verdict

EXACT = "exact"
SIMULATED = "simulated"

#: The version of the JSON Schema that receipts follow (``geodp.data.release_schema``).
SCHEMA = "urn:geodp:release:1"
#: A stored receipt gives the error at these probabilities.
QUANTILES = (0.5, 0.95)
#: The first line of everything made from reproducible bits.
SIMULATION = "SIMULATION - NOT PRIVATE: do not publish this"
#: The part of the privacy for a noisy count, if the number of records is private.
COUNT_SHARE = 0.1

#: What a group may be called.
Name = str | int | float | bool

#: A receipt as JSON.
Stored = dict[str, Any]


def parts_of(privacy: Privacy, counted: bool, coverage: float) -> tuple[list[Privacy], Privacy]:
    """The parts of the privacy for the counts in a release (records first, then coverage), and the rest."""
    return set_aside(privacy, [COUNT_SHARE] * counted + [coverage] * (coverage > 0.0))


def used(noise: Mechanism, count: Array, least: int) -> int:
    """How many members to use after a noisy count, with a margin so that members are dropped rather than added.

    An added member is invalid, so it counts as the centre of the ball and would pull the mean towards it.
    """
    return max(least, math.floor(float(count[0]) - noise.error_quantile(0.9)))


@dataclass(frozen=True, eq=False)
class Release(Shown):
    """A private summary and how it was made: public parameters and nothing else.

    ``print`` shows a receipt; :meth:`to_json` and :meth:`from_json` store and restore it. ``cost`` has the whole privacy curve.

    >>> import numpy as np
    >>> from geodp import SPD, Ball, private_mean
    >>> release = private_mean(np.tile(np.eye(2), (1000, 1, 1)), Ball(SPD(2), np.eye(2), radius=1.0), epsilon=1.0)
    >>> round(release.error_quantile(0.95), 4)  # known before the draw: the value is within this with probability 95%
    0.0126
    >>> np.array_equal(Release.from_json(release.to_json()).value, release.value)
    True
    """

    value: Array
    privacy: Privacy
    noise: Mechanism
    statistic: Statistic
    n: int | None
    sensitivity: float
    tolerance: float
    numerics: str
    grid: float | None
    dataset: str | None = None
    charge: int | None = None
    neighbours: str = REPLACE_ONE
    #: What ``n`` counts: records or persons.
    unit: Unit = "record"
    #: The vector that the value was computed from, if it is not the value itself.
    vector: Array | None = None
    #: The noisy count of records or persons, if their number is private; ``n`` of them were used.
    count: Release | None = None
    #: Noisy counts of the valid records and of those in the ball, if requested, and their part of the privacy.
    coverage: CoverageRelease | None = None
    coverage_share: float = 0.0
    #: The layout of the records, if they were read from columns. The release is written in it too.
    written: Notation | None = None
    version: str = __version__

    @property
    def notation(self) -> Notation:
        """How points and lengths are written: in the layout of the records, or else in the units of the manifold."""
        return self.written or Notation(self.manifold)

    @property
    def manifold(self) -> Manifold:
        """The manifold of the records, and of the value if it is a point."""
        place = self.statistic.place
        return place.manifold if isinstance(place, Ball) else place

    @property
    def ball(self) -> Ball | None:
        """The public ball of the records, if there is one."""
        place = self.statistic.place
        return place if isinstance(place, Ball) else None

    @property
    def bound(self) -> Bound | None:
        """The sensitivity bound of a mean; None for a summary whose sensitivity is the caller's claim."""
        return self.statistic.bound if isinstance(self.statistic, FrechetMean) else None

    @property
    def mechanism(self) -> str:
        return self.noise.name

    @property
    def scale(self) -> float:
        return self.noise.scale

    @property
    def projected(self) -> bool:
        return self.noise.projected

    @property
    def cost(self) -> Cost:
        """What the release spends in every notion of privacy, including the counts that are part of it."""
        return cost_of_parts([*(part.cost for part in self._parts), self._own_cost], self.privacy)

    @property
    def _own_cost(self) -> Cost:
        # if the number of records was drawn first, the noise was not yet known when the budget was charged
        return self.noise.cost if self.count is None else cost_of(self._own_privacy)

    @property
    def _own_privacy(self) -> Privacy:
        """The part of the privacy that was spent on the value itself."""
        return parts_of(self.privacy, self.count is not None, self.coverage_share)[1]

    @property
    def _parts(self) -> list[Release]:
        return [part for part in (self.count, self.coverage) if part is not None]

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
        return self.numerics == EXACT

    @property
    def truth(self) -> str:
        """The true value that the error refers to, in words."""
        words = self.statistic.words
        if self.unit == "person":
            words = words.replace("the clipped records", "the persons' means")
        return f"{words} that were used" if self.count is not None else words

    def error_quantile(self, q: float) -> float:
        """A distance that contains the true value with probability ``q``, from public numbers alone.

        The true value is the mean of the clipped records, or the caller's summary.
        """
        return self.noise.error_quantile(q) + self.tolerance

    def expected_error(self) -> float:
        """A bound on the expected distance to the true value, from public numbers alone."""
        return self._expected_error

    @cached_property
    def _expected_error(self) -> float:
        return self.noise.expected_error() + self.tolerance

    @property
    def says_nothing(self) -> bool:
        """Whether the expected error exceeds the radius of the ball, so that the release says no more than its centre."""
        return self.n == 0 or says_nothing(self.noise, self.statistic.ball)

    def verdict(self, spread: Release | None = None) -> str:
        """One line on what the error means, compared with the radius of the ball and, if given, with the released ``spread``.

        The spread is a variance or covariance of the same records.
        """
        said = self._verdict()
        deviation = None if spread is None else spread.deviation
        if deviation is not None and self.n and not self.says_nothing:
            said = f"{said}; {against_spread(self.expected_error(), deviation, self.n, self.unit)}"
        if self.coverage is not None:
            return f"careful: {self.coverage.remark}; as to noise, {said}" if self.coverage.remark else said
        if isinstance(self.statistic, FrechetMean) and not self.says_nothing:
            # a wrong column makes a mean that is as precise as any
            return f"{said}; how many {self.unit}s were valid and in the ball was not checked"
        return said

    def _verdict(self) -> str:
        ball = self.statistic.ball
        if self.says_nothing:
            return SAYS_NOTHING
        if ball is None:
            return f"with probability 95% the error is at most {self.notation.length(self.error_quantile(0.95))}"
        return verdict(self.expected_error(), self.error_quantile(0.95), ball.radius)

    @property
    def deviation(self) -> float | None:
        """The released standard deviation of the records, if this is a release of one."""
        return None

    def lengths(self) -> dict[str, float]:
        """The geodesic lengths in the release, by name."""
        radius = {} if self.ball is None else {"radius": self.ball.radius}
        return {**radius, **self._error_lengths()}

    def _error_lengths(self) -> dict[str, float]:
        return {"expected_error": self.expected_error(), "error_95": self.error_quantile(0.95)}

    def to_json(self) -> str:
        """The release as JSON text."""
        ball = self.ball
        errors = {"expected": self.expected_error(), **{f"{q:g}": self.error_quantile(q) for q in QUANTILES}}
        cost = {
            **self.cost.to_dict(),
            "spends": {name: _finite(getattr(self.cost, name)) for name in ("epsilon", "rho", "mu", "advantage")},
        }
        return json.dumps(
            {
                "geodp": self.version,
                "summary": self.statistic.kind,
                "mechanism": self.mechanism,
                "private": self.private,
                "numerics": self.numerics,
                **self.privacy.parameters(),
                "notion": self.privacy.words,
                "cost": cost,
                "neighbours": self.neighbours,
                "unit": self.unit,
                "n": self.n,
                "manifold": repr(self.manifold),
                "center": None if ball is None else ball.center.tolist(),
                "radius": None if ball is None else ball.radius,
                "bound": self.bound,
                "sensitivity": self.sensitivity,
                "tolerance": self.tolerance,
                "scale": self.scale,
                "grid": self.grid,
                "projected": self.projected,
                "error": errors,
                "verdict": self.verdict(),
                "dataset": self.dataset,
                "charge": self.charge,
                "value": self.value.tolist(),
                **self._in_layout(),
                **({} if self.vector is None else {"vector": self.vector.tolist()}),
                **({} if self.count is None else {"count": json.loads(self.count.to_json())}),
                **({} if self.coverage is None else {"coverage": json.loads(self.coverage.to_json())}),
                **({} if self.coverage is None else {"coverage_share": self.coverage_share}),
                **({} if not self._parts else {"noise_cost": self.noise.cost.to_dict()}),
            },
            indent=2,
        )

    def _in_layout(self) -> dict[str, Any]:
        """The points and lengths of the release in the layout of the records and in units, for JSON."""
        points = {"value": self.value} if self.is_point else {}
        return in_layout(self.notation, {**points, **({} if self.ball is None else {"center": self.ball.center})}, self.lengths())

    @property
    def is_point(self) -> bool:
        """Whether the value is a point of the manifold, and not a number, counts or a matrix."""
        return self.statistic.kind in _POINTS

    @classmethod
    def from_json(cls, text: str) -> Release:
        """The release that :meth:`to_json` stored, also in an older version. A ``ValueError`` names the first invalid field."""
        wrong: str | None = "pass what Release.to_json returned"
        try:
            stored: dict[str, Any] = json.loads(text)
            wrong = _first_invalid(stored) or _about_whom(stored)
            if wrong is None:
                release = _restored(stored)
                _check_derived(stored, release)
                return release
        except _InvalidField as reason:
            wrong = str(reason)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            pass
        # no field is quoted: the text may be anything, such as a file of records
        raise ValueError(f"this is not the JSON text of a release: {wrong or 'its fields contradict each other'}")

    def head(self) -> str:
        return f"PRIVATE {self.statistic.kind.upper()}" if self.private else SIMULATION

    def rows(self) -> list[Row]:
        rows = [
            *self._results(),
            ("privacy", f"{self.privacy}, {self.privacy.words}; neighbours: {self.neighbours}"),
            ("cost", cost_in_words(self.cost)),
            *self._errors(),
            ("verdict", self.verdict()),
            ("manifold", repr(self.manifold)),
            *about_ball(self.ball, self.notation),
        ]
        rows += self._about_records()
        claimed = isinstance(self.statistic, ClaimedSummary)
        source = ", as claimed by the caller, not checked" if claimed else f", bound: {self.bound}" if self.bound else ""
        projected = f"; projected onto the ball: {'yes' if self.projected else 'no'}" if self.statistic.ball else ""
        rows += [
            ("mechanism", f"{self.mechanism}, scale {self.scale:.6g}{projected}"),
            ("sensitivity", f"{self.sensitivity:.6g}{source}; numerical error at most {self.tolerance:.2g}"),
            (
                "numerics",
                f"exact arithmetic, rounded to multiples of {self.grid:.3g}" if self.private else "floating-point simulation",
            ),
            ("budget", f"data set {self.dataset!r}, charge {self.charge}" if self.dataset else "not kept in a ledger"),
            ("geodp", self.version),
        ]
        return rows

    def _about_records(self) -> list[Row]:
        rows = []
        if self.count is not None:
            number, away = round(float(self.count.value[0])), self.count.error_quantile(0.95)
            rows.append((f"{self.unit}s", f"about {number}, within {away:.3g} with probability 95%; {self.n} were used"))
        elif self.n is not None:
            rows.append((f"{self.unit}s", f"{self.n}"))
        if self.coverage is not None:
            rows += [*self.coverage._results(), *(("", text) for _, text in self.coverage._errors())]
        elif isinstance(self.statistic, FrechetMean):
            rows.append(("coverage", f"nothing is known about how many {self.unit}s were valid or in the ball"))
        return rows

    def _results(self) -> list[Row]:
        """The rows of the receipt with the released values."""
        return about_point("value", self.value, self.notation)

    def _errors(self) -> list[Row]:
        """The rows of the receipt with the error."""
        within, away = (self.notation.length(length) for length in (self.error_quantile(0.95), self.expected_error()))
        return [
            ("error", f"within {within} of {self.truth} with probability 95%"),
            ("", f"on average at most {away} away (geodesic distance)"),
        ]


@final
@dataclass(frozen=True, eq=False)
class CoverageRelease(Release):
    """Noisy counts: how many records are points of the manifold, and how many are in the ball."""

    @property
    def valid(self) -> int:
        """About how many records are points of the manifold."""
        return self._count(0)

    @property
    def inside(self) -> int:
        """About how many records are points in the ball."""
        return self._count(1)

    def _count(self, i: int) -> int:
        # a count is between 0 and n, so a noisy count outside is cut off
        return int(np.clip(np.round(self.value[i]), 0, self.n))

    @property
    def remark(self) -> str:
        """A warning about a mean of these records, if the counts call for one; else an empty text."""
        n, error = self.n or 0, self.error_quantile(0.95)
        if self.value[0] + error < 0.9 * n:
            return f"only about {self.valid} of {n} {self.unit}s are points of {self.manifold}, so check which columns were read"
        if self.value[1] + error < 0.95 * n:
            return f"only about {self.inside} of {n} {self.unit}s are in the ball, and the others were moved to its edge"
        return ""

    def _verdict(self) -> str:
        return self.remark or "no sign that many records are invalid or outside the ball"

    def _error_lengths(self) -> dict[str, float]:
        return {}

    def _results(self) -> list[Row]:
        return [
            ("valid", f"about {self.valid} of {self.n} {self.unit}s are points of {self.manifold}"),
            ("inside", f"about {self.inside} are in the ball"),
        ]

    def _errors(self) -> list[Row]:
        return [("error", f"both within {self.error_quantile(0.95):.3g} of the true counts with probability 95%")]


@final
@dataclass(frozen=True, eq=False)
class ProjectedRelease(Release):
    """A projected mean: the point nearest to a noisy mean vector, with an error that follows from the vector."""

    def error_quantile(self, q: float) -> float:
        """A geodesic distance that contains the projected mean of the records with probability ``q``.

        Noise moved the mean vector by at most a quantile of its length, so the true vector is that close to the released
        one. ``turn`` of :class:`geodp.manifolds.Embedding` says how far apart their nearest points can be. The result is at most
        the diameter of the space, which says nothing.
        """
        assert isinstance(self.statistic, ProjectedMean)
        assert self.vector is not None
        reach = self.noise.error_quantile(q) + self.tolerance
        return min(self.statistic.embedding.turn(self.vector, reach), self.manifold.diameter)

    def expected_error(self) -> float:
        """The mean of :meth:`error_quantile` over all probabilities: a bound on the expected distance."""
        return self._expected_error

    @cached_property
    def _expected_error(self) -> float:
        levels = (np.arange(64) + 0.5) / 64.0
        return float(np.mean([self.error_quantile(float(q)) for q in levels]))

    @property
    def says_nothing(self) -> bool:
        """Whether noise of an ordinary size could have turned the mean anywhere."""
        return self.error_quantile(0.95) >= self.manifold.diameter

    def _errors(self) -> list[Row]:
        return [] if self.says_nothing else super()._errors()

    def _verdict(self) -> str:
        if self.says_nothing:
            return "this release cannot tell any direction: the records point everywhere, or are too few"
        return verdict(self.expected_error(), self.error_quantile(0.95), self.manifold.diameter, "the largest distance there is")


@final
@dataclass(frozen=True, eq=False)
class GroupedRelease(Shown, Mapping[Name, Release]):
    """One release for each group, by its name. They were charged together: every record, or person, is in only one group.

    If labels are private, a replacement may change two groups, so all together cost as much as two of the releases.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere, private_mean
    >>> x = np.tile([0.0, 0.0, 1.0], (600, 1))
    >>> means = private_mean(x, Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5), epsilon=1.0, by=["a", "b", "b"] * 200)
    >>> {name: release.n for name, release in means.items()}, means.cost.epsilon
    ({'a': 200, 'b': 400}, 1.0)
    """

    releases: Mapping[Name, Release]
    privacy: Privacy
    neighbours: str
    dataset: str | None = None
    charge: int | None = None
    version: str = __version__
    unit_in: str = "one group"

    def __getitem__(self, name: Name) -> Release:
        return self.releases[name]

    def __iter__(self) -> Iterator[Name]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    @property
    def cost(self) -> Cost:
        """What all releases spend together, in every notion of privacy."""
        touched = groups_touched(self.unit_in, self.halved, len(self))
        return cost_of_groups([release.cost for release in self.values()], self.privacy, touched)

    @property
    def halved(self) -> bool:
        """Whether each group has half of the privacy, because a replacement may change two."""
        return self.unit_in == "one group" and any(release.privacy != self.privacy for release in self.values())

    @property
    def private(self) -> bool:
        return all(release.private for release in self.values())

    def to_json(self) -> str:
        """The releases as JSON text."""
        return json.dumps(
            {
                "geodp": self.version,
                "summary": "groups",
                "private": self.private,
                **self.privacy.parameters(),
                "notion": self.privacy.words,
                "cost": self.cost.to_dict(),
                "neighbours": self.neighbours,
                "unit_in": self.unit_in,
                "dataset": self.dataset,
                "charge": self.charge,
                "groups": [{"name": name, "release": json.loads(release.to_json())} for name, release in self.items()],
            },
            indent=2,
        )

    @classmethod
    def from_json(cls, text: str) -> GroupedRelease:
        """The releases that :meth:`to_json` stored; raises a ``ValueError`` for other text."""
        try:
            stored = json.loads(text)
            privacy = privacy_of(*(stored.get(name) for name in ("epsilon", "delta", "rho", "mu")))
            groups = {group["name"]: Release.from_json(json.dumps(group["release"])) for group in stored["groups"]}
            found = cls(groups, privacy, *(stored[name] for name in ("neighbours", "dataset", "charge", "geodp", "unit_in")))
            if (
                stored["summary"] == "groups"
                and found.unit_in in ("one group", "all groups")
                and groups
                and len(groups) == len(stored["groups"])
                and stored["private"] is found.private
                and cost_from_dict(stored["cost"]) == found.cost
                and stored["notion"] == privacy.words
                and is_line(found.version)
                and found.consistent
            ):
                return found
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            pass
        # no field is quoted: the text may be anything, such as a file of records
        raise ValueError("this is not the JSON text of releases by group: pass what GroupedRelease.to_json returned")

    @property
    def consistent(self) -> bool:
        """Whether the releases agree with the neighbours, the privacy and the charge of the whole."""
        first = next(iter(self.values()))
        own = (first.unit, first.neighbours)
        whole = {replace_one(first.unit): replace_one(first.unit)}
        if self.halved:
            whole = {add_or_remove_one(first.unit): replace_one(first.unit)}
        elif first.neighbours == add_or_remove_one(first.unit):
            whole = {first.neighbours: first.neighbours}
        share = halves(self.privacy) if self.halved else self.privacy
        if self.unit_in == "all groups":
            whole = {replace_one(first.unit): replace_one(first.unit)}
            if first.count is not None:
                whole = {change_one(first.unit): self.neighbours}
            share = one_of(self.privacy, len(self))
            if self.neighbours not in (replace_one(first.unit), change_one(first.unit)):
                return False
        return whole.get(first.neighbours) == self.neighbours and all(
            is_line(str(name))
            and (release.unit, release.neighbours) == own
            and release.statistic.kind == first.statistic.kind
            and _same_place(release.statistic.place, first.statistic.place)
            and release.privacy == share
            and (release.dataset, release.charge) == (self.dataset, self.charge)
            for name, release in self.items()
        )

    def __str__(self) -> str:
        parts = (f"\ngroup {name}: {release}" for name, release in self.items())
        return "\n".join([as_text(self.head(), self.rows()), *parts])

    def _repr_html_(self) -> str:
        def cells(name: Name, release: Release) -> list[str]:
            results, errors = (next(iter(rows), ("", ""))[1] for rows in (release._results(), release._errors()))
            return [str(name), str(release.n), results, errors, release.verdict()]

        table = table_html("groups", ["group", "n", "value", "error", "verdict"], (cells(*item) for item in self.items()))
        return super()._repr_html_() + table

    def _membership(self) -> str:
        """How many groups a person may be in, if persons are released."""
        first = next(iter(self.values()))
        if self.unit_in == "all groups":
            return f"; a person may be in all of them, and each has 1/{len(self)} of the privacy"
        return "; a person is in the group of their first record" if first.unit == "person" and first.count is not None else ""

    def head(self) -> str:
        return "PRIVATE RELEASES BY GROUP" if self.private else SIMULATION

    def rows(self) -> list[Row]:
        public = next(iter(self.values())).count is None
        return [
            ("groups", f"{len(self)}; it is {'public' if public else 'private'} who is in which{self._membership()}"),
            ("privacy", f"{self.privacy}, {self.privacy.words}, for all of them; neighbours: {self.neighbours}"),
            ("cost", cost_in_words(self.cost)),
        ]


def _same_place(first: Ball | Manifold, second: Ball | Manifold) -> bool:
    if isinstance(first, Ball) and isinstance(second, Ball):
        same = first.manifold == second.manifold and np.array_equal(first.center, second.center)
        return same and first.radius == second.radius
    return first == second


def cost_of_parts(costs: list[Cost], privacy: Privacy) -> Cost:
    """The cost of the parts of a release together, which were given parts of its epsilon and all of its delta.

    The bounds for a sum of costs may exceed the privacy. Then the cost is the privacy itself.
    """
    if len(costs) == 1:
        return costs[0]
    whole = compose(costs)
    return whole if whole.meets(privacy) else cost_of(privacy)


def groups_touched(unit_in: str, halved: bool, groups: int) -> int:
    """How many groups one change of the records may change."""
    return groups if unit_in == "all groups" else 1 + halved


def cost_of_groups(costs: list[Cost], privacy: Privacy, touched: int) -> Cost:
    """The cost of the releases of groups together, of which a change of the records changes so many.

    If the groups have different costs, each is within its part of the requested privacy, and so are all together.
    """
    same = all(cost == costs[0] for cost in costs)
    return cost_of_parts(costs[:1] * touched, privacy) if same else cost_of(privacy)


def says_nothing(noise: Mechanism, ball: Ball | None) -> bool:
    """Whether a release with this noise would say no more than the public centre of the ball."""
    return ball is not None and noise.expected_error() > ball.radius


def cost_in_words(cost: Cost) -> str:
    """The cost in one line. A cost that is known only at a delta is shown at one."""
    known = str(cost) or f"epsilon {cost.epsilon_at(1e-6):.4g} at delta 1e-6"
    return f"{known}; advantage at most {cost.advantage:.3g}"


def written(array: Array) -> str:
    """The whole array as text, however long, because the screen may be the only copy."""
    return np.array2string(array, precision=6, suppress_small=True, separator=", ", threshold=array.size + 1)


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


def in_layout(notation: Notation, points: dict[str, Array], lengths: dict[str, float]) -> dict[str, Any]:
    """Points in the layout of the records, and lengths in units, for JSON. Left out if there is no layout or no unit."""
    about: dict[str, Any] = {}
    if notation.layout is not None:
        cells = {name: notation.cells(point) for name, point in points.items()}
        about["layout"] = {**(notation.to_dict() or {}), **cells}
    if notation.units:
        about["in_units"] = {name: notation.lengths(length) for name, length in lengths.items()}
    return about


def from_layout(stored: Stored, manifold: Manifold, points: dict[str, Array]) -> Notation | None:
    """The notation that :func:`in_layout` stored; raises a ``ValueError`` if the points differ."""
    layout = stored.get("layout")
    if layout is None:
        return None
    notation = Notation.from_dict(manifold, layout)
    if not all(notation.agrees(layout[name], point) for name, point in points.items() if name in layout):
        raise _InvalidField("its layout must hold its own value and centre")
    return notation


# ---------------------------------------------------------------------- reading receipts


class Kind(NamedTuple):
    """How releases of one kind of statistic are made from a draw, and read from a receipt."""

    release: type[Release]
    #: The statistic of a receipt.
    statistic: Callable[[Stored, Manifold, Ball | None], Statistic]
    #: The function from the drawn vector to the value; None if they are the same.
    value: Callable[[Any, Array], Array] | None = None
    #: Fields of a receipt that must not be null.
    needs: tuple[str, ...] = ()


def _projected_value(statistic: ProjectedMean, vector: Array) -> Array:
    return statistic.embedding.nearest(vector)


#: The kinds of releases, by the names of their statistics. Modules above this one add theirs when they are imported.
KINDS: dict[str, Kind] = {
    FrechetMean.kind: Kind(
        Release,
        lambda stored, manifold, ball: FrechetMean(_given(ball), stored["bound"], stored["unit"] == "person"),
        needs=("n", "bound", "radius"),
    ),
    ClaimedSummary.kind: Kind(Release, lambda stored, manifold, ball: ClaimedSummary(manifold, stored["sensitivity"], ball)),
    Count.kind: Kind(Release, lambda stored, manifold, ball: Count()),
    Coverage.kind: Kind(CoverageRelease, lambda stored, manifold, ball: Coverage(_given(ball)), needs=("n", "radius")),
    ProjectedMean.kind: Kind(
        ProjectedRelease, lambda stored, manifold, ball: ProjectedMean(manifold), _projected_value, ("vector",)
    ),
}
#: Modules that add kinds. Reading a receipt imports them, because they may not have been imported yet.
_ADD_KINDS: tuple[str, ...] = ("geodp.spread",)


def _given(ball: Ball | None) -> Ball:
    assert ball is not None
    return ball


#: Kinds whose values are points of the manifold.
_POINTS = (FrechetMean.kind, ClaimedSummary.kind, ProjectedMean.kind)


class _InvalidField(ValueError):
    """A field contradicts the others. The message quotes nothing but the manifold."""


class _FieldRule(NamedTuple):
    """A rule for a field of a stored release, in words and as a test."""

    words: str
    met: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 2**63


def _is_positive(value: Any) -> bool:
    # this is false for NaN, infinity and whole numbers that do not fit in a float
    return isinstance(value, float | int) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def _or_null(rule: _FieldRule) -> _FieldRule:
    return _FieldRule(f"{rule.words}, or null", lambda value: value is None or rule.met(value))


_POSITIVE = _FieldRule("a positive and finite number", _is_positive)
_LINE = _FieldRule("a line of text", is_line)
_WHOLE = _FieldRule("a whole number from 1 to 2^63", _is_whole)
_MECHANISMS = {
    f"{mechanism.adjective} {family.capitalize()}": (mechanism, family)
    for mechanism in (IntrinsicMechanism, TangentMechanism)
    for family in get_args(Family)
}

#: The rules for the fields of a stored release, except its value and its ball.
_STORED: dict[str, _FieldRule] = {
    **dict.fromkeys(("sensitivity", "scale"), _POSITIVE),
    **dict.fromkeys(("neighbours", "geodp", "manifold"), _LINE),
    **dict.fromkeys(("epsilon", "delta", "rho", "mu", "radius"), _or_null(_POSITIVE)),
    "tolerance": _FieldRule("a number from 0 on", lambda value: _is_positive(value) or (value == 0 and value is not False)),
    "mechanism": _FieldRule(f"one of {', '.join(_MECHANISMS)}", lambda value: isinstance(value, str) and value in _MECHANISMS),
    "bound": _or_null(_FieldRule(f"one of {', '.join(get_args(Bound))}", lambda value: value in get_args(Bound))),
    "numerics": _FieldRule(f"{EXACT} or {SIMULATED}", lambda value: value in (EXACT, SIMULATED)),
    "n": _or_null(
        _FieldRule("a whole number from 0 to 2^63", lambda value: _is_whole(value) or (value == 0 and value is not False))
    ),
    "unit": _FieldRule("record or person", lambda value: value in get_args(Unit)),
    "coverage_share": _FieldRule("a number from 0 to 0.5", lambda value: value == 0 or (_is_positive(value) and value <= 0.5)),
    "projected": _FieldRule("true or false", lambda value: isinstance(value, bool)),
    "dataset": _or_null(_LINE),
    "charge": _or_null(_WHOLE),
}

#: Fields that receipts of earlier versions lack, because there was no choice.
_BEFORE: dict[str, Any] = {
    **{"summary": "mean", "epsilon": None, "delta": None, "rho": None, "mu": None},
    **{"unit": "record", "count": None, "coverage": None, "coverage_share": 0.0},
}


def _first_invalid(stored: Stored) -> str | None:
    """A sentence about the first invalid field, or None."""
    for module in _ADD_KINDS:
        import_module(module)
    for name, default in _BEFORE.items():
        stored.setdefault(name, default)
    if stored["summary"] not in KINDS:
        return f"its summary must be one of {', '.join(KINDS)}"
    for name, (words, met) in _STORED.items():
        if not met(stored[name]):
            return f"its {name} must be {words}"
    private = stored["numerics"] == EXACT
    if stored["private"] is not private:
        return f"its private must be true if its numerics are {EXACT} and false otherwise"
    if not (_is_positive(stored["grid"]) if private else stored["grid"] is None):
        return f"its grid must be {_POSITIVE.words} if its numerics are {EXACT} and null otherwise"
    if (stored["dataset"] is None) != (stored["charge"] is None):
        return "its dataset and its charge go together"
    for name in KINDS[stored["summary"]].needs:
        if stored[name] is None:
            return f"its {name} belongs to a {stored['summary']}"
    if (stored["coverage"] is None) != (stored["coverage_share"] == 0):
        return "its coverage and its coverage_share go together"
    return None


def _about_whom(stored: Stored) -> str | None:
    """A complaint if the neighbours contradict the rest: only a release with a noisy count protects the number."""
    if stored["summary"] == ClaimedSummary.kind:
        return None
    unit = stored["unit"]
    allowed = [replace_one(unit)] if stored["count"] is None else [change_one(unit), add_or_remove_one(unit)]
    return None if stored["neighbours"] in allowed else f"its neighbours must be {' or '.join(allowed)}"


def _restored(stored: Stored) -> Release:
    manifold = parse_manifold(stored["manifold"])
    privacy = privacy_of(*(stored[name] for name in ("epsilon", "delta", "rho", "mu")))
    ball = None if stored["radius"] is None else Ball(manifold, stored["center"], stored["radius"])
    made = KINDS[stored["summary"]]
    statistic = made.statistic(stored, manifold, ball)
    value, vector = _stored_value(stored, made, statistic, manifold)
    parts = _stored_parts(stored, privacy, ball)
    own = parts_of(privacy, stored["count"] is not None, stored["coverage_share"])[1]
    kind, family = _MECHANISMS[stored["mechanism"]]
    cost = _stored_cost(stored, parts, own, privacy)
    noise: Mechanism
    if kind is TangentMechanism:
        if ball is None or statistic.ball is None:
            raise _InvalidField("its mechanism must be Riemannian: tangent noise belongs to a ball")
        noise = TangentMechanism(stored["scale"], family, cost, ball, stored["projected"])
    else:
        noise = IntrinsicMechanism(stored["scale"], family, cost, statistic.codomain, statistic.ball, stored["projected"])
        _check_law(noise)
    _check_consistent(stored, statistic, own, noise)
    if stored["numerics"] == EXACT:
        _check_grid(stored, statistic, noise, value if vector is None else vector)
    points = {"value": value} if stored["summary"] in _POINTS else {}
    layout = from_layout(stored, manifold, {**points, **({} if ball is None else {"center": ball.center})})
    names = ("n", "sensitivity", "tolerance", "numerics", "grid", "dataset", "charge", "neighbours", "unit", "coverage_share")
    return made.release(
        value=value,
        vector=vector,
        privacy=privacy,
        noise=noise,
        statistic=statistic,
        written=layout,
        version=stored["geodp"],
        **parts,
        **{name: stored[name] for name in names},
    )


def _stored_parts(stored: Stored, privacy: Privacy, ball: Ball | None) -> dict[str, Any]:
    """The counts that are part of a release. Each must have its part of the privacy."""
    found: dict[str, Any] = {}
    shares = iter(parts_of(privacy, stored["count"] is not None, stored["coverage_share"])[0])
    for name in ("count", "coverage"):
        if stored[name] is None:
            continue
        if wrong := _first_invalid(stored[name]):
            raise _InvalidField(f"of its {name} {wrong}")
        part = found[name] = _restored(stored[name])
        same = (part.privacy, part.numerics, part.neighbours, part.unit) == (
            next(shares),
            *(stored[each] for each in ("numerics", "neighbours", "unit")),
        )
        whom = (None, None) if name == "count" else (stored["n"], ball)
        if part.statistic.kind != name or not same or part.dataset is not None or not _is_about(part, *whom):
            raise _InvalidField(f"its {name} must be a {name} of the same data with its part of the privacy")
        if name == "count" and part.version == __version__ and not _used_after(part, stored["n"]):
            raise _InvalidField("its n must be the number that follows from its count")
    return found


def _used_after(count: Release, n: Any) -> bool:
    """Whether so many members can have been used after a count. The least number that noise may need is a power of two."""
    usual = used(count.noise, count.value, 1)
    return bool(n == usual or (_is_whole(n) and n > usual and n.bit_count() == 1))


def _is_about(part: Release, n: int | None, ball: Ball | None) -> bool:
    if ball is None or part.ball is None:
        return part.n == n and part.ball is ball
    return part.n == n and _same_place(part.ball, ball)


def _check_derived(stored: Stored, release: Release) -> None:
    """Compare everything that follows from the rest, such as errors and costs in other units, with what is stored."""
    if release.version == __version__ and not agrees(stored, json.loads(release.to_json())):
        raise ValueError("what is stored does not follow from the rest")


def agrees(stored: Any, derived: Any) -> bool:
    """Whether two documents say the same in every field that both have, numbers up to the rounding of another machine."""
    if isinstance(derived, dict):
        return isinstance(stored, dict) and all(agrees(stored[name], derived[name]) for name in derived if name in stored)
    if isinstance(derived, list):
        return isinstance(stored, list) and len(stored) == len(derived) and all(map(agrees, stored, derived))
    if isinstance(derived, float) and isinstance(stored, float | int) and not isinstance(stored, bool):
        return math.isclose(stored, derived, rel_tol=1e-6, abs_tol=1e-12)
    return isinstance(stored, bool) == isinstance(derived, bool) and bool(stored == derived)


def _stored_value(stored: Stored, made: Kind, statistic: Statistic, manifold: Manifold) -> tuple[Array, Array | None]:
    """The value, and the vector that it was computed from, if any; raises if they do not agree."""
    if made.value is None:
        return _stored_point(stored["value"], statistic.codomain), None
    vector = _stored_point(stored["vector"], statistic.codomain)
    if isinstance(statistic, ProjectedMean):
        point, nearest = _stored_point(stored["value"], manifold), made.value(statistic, vector)
        if manifold.dist(point, nearest) > 1e-6 * manifold.diameter:
            raise _InvalidField("its value must be the point next to its vector")
        return point, vector
    value, shown = made.value(statistic, vector), np.asarray(stored["value"], dtype=np.float64)
    if shown.shape != value.shape or not np.allclose(shown, value, rtol=1e-9, atol=1e-9 * float(np.abs(vector).max())):
        raise _InvalidField("its value must be the one that follows from its vector")
    return value, vector


def _check_consistent(stored: Stored, statistic: Statistic, privacy: Privacy, noise: Mechanism) -> None:
    """Compares the stored sensitivity, cost and privacy with those that follow from the other fields."""
    apart, ball = stored["sensitivity"] + 2.0 * stored["tolerance"], statistic.ball
    if isinstance(noise, TangentMechanism):
        assert ball is not None
        apart = min(stretch_of_log(ball) * apart, 2.0 * ball.radius)
        true = tangent_cost(noise.manifold.dim, noise.family, apart / noise.scale)
    else:
        true = intrinsic_cost(noise.manifold, noise.family, apart / noise.scale)
    stated = noise.cost if isinstance(noise.cost, type(true)) else PureCost(noise.cost.epsilon)
    # the numbers of a receipt are rounded to floats, and other versions used other tolerances
    enough = statistic.sensitivity(stored["n"] or 1) * (1.0 - 1e-9) <= stored["sensitivity"]
    if stored["geodp"] == __version__:
        enough = enough and statistic.tolerance * (1.0 - 1e-9) <= stored["tolerance"]
        enough = enough and stored["sensitivity"] <= statistic.sensitivity(stored["n"] or 1) * (1.0 + 1e-9)
    if not (
        enough
        and stated.meets(privacy)
        and true.rho <= stated.rho * (1.0 + 1e-6)
        and true.epsilon <= stated.epsilon * (1.0 + 1e-6)
    ):
        raise ValueError("the cost, the noise and the sensitivity contradict each other")


def _check_grid(stored: Stored, statistic: Statistic, noise: Mechanism, drawn: Array) -> None:
    """Checks the grid, which follows from the noise. In flat spaces the drawn vector itself must lie on it."""
    if stored["geodp"] == __version__ and stored["grid"] != noise.grid:
        raise _InvalidField("its grid must be the one that follows from its noise")
    if statistic.ball is None and isinstance(noise.manifold, Euclidean):
        steps = drawn / stored["grid"]
        if (steps != np.round(steps)).any():
            raise _InvalidField("its value must be on its grid")


def _stored_point(stored: Any, manifold: Manifold) -> Array:
    try:
        value = manifold.read_points(stored, "the value")
    except (TypeError, ValueError):
        value = None
    if value is None or value.shape != manifold.point_shape:
        raise _InvalidField(f"its value must be a point of {manifold}")
    return value


def _check_law(noise: IntrinsicMechanism) -> None:
    try:
        assert noise.law  # raises unless the law exists at this scale
    except ValueError:
        raise _InvalidField(f"there is no noise of its scale on {noise.manifold}") from None


def _stored_cost(stored: Stored, parts: dict[str, Release], own: Privacy, privacy: Privacy) -> Cost:
    """The cost of the noise of the value itself."""
    if "cost" not in stored:
        return PureCost(float(stored["epsilon"]))
    whole = cost_from_dict({name: value for name, value in stored["cost"].items() if name != "spends"})
    if not parts:
        return whole
    noise = cost_from_dict(stored["noise_cost"])
    spent = [*(part.cost for part in parts.values()), cost_of(own) if "count" in parts else noise]
    if cost_of_parts(spent, privacy) != whole:
        raise _InvalidField("its cost must be that of its parts together")
    return noise


def _finite(value: float) -> float | None:
    """None for infinity, which JSON does not have: null means that there is no such bound."""
    return value if math.isfinite(value) else None
