r"""Releases as OpenDP measurements. Needs the extra ``geodp[opendp]``.

Each constructor returns a :class:`opendp.mod.Measurement`, which OpenDP's compositors, privacy filters and ``Context`` take. Its
function is the release of the same name in this library, exact sampler included, and what it returns is that
:class:`geodp.Release`. Its privacy map follows from the cost of the release:

* with ``epsilon``: maximum divergence;
* with ``epsilon`` and ``delta``: approximate maximum divergence;
* with ``rho``: zero-concentrated divergence.

OpenDP's metric says who the *neighbours* are. With ``change_one_distance`` and ``hamming_distance`` the number of records is
public and part of the domain. With ``symmetric_distance`` and ``insert_delete_distance`` it is private, and a noisy count is part
of the release. ``change_one_id_distance`` and ``symmetric_id_distance`` are the same for persons; the data are then a
:class:`geodp.Dataset` whose ``unit`` names the person of each record. For neighbours several changes apart the map is that of
:mod:`geodp.privacy.groups`.

OpenDP calls a function from outside "honest-but-curious", since it cannot check the privacy map. It also does not check
that data are members of their domain. So the functions here check it themselves: they refuse a wrong shape, or another number of
records than the public one.

The constructors are made from the table of releases (:mod:`geodp.table`), and take the same options as the functions. ``ball`` is
by default that of the domain; give another one if an earlier release found it. Without any privacy a constructor makes a query.

>>> import numpy as np, opendp.prelude as dp
>>> from geodp import SPD, Ball, Sphere
>>> from geodp.integrations.opendp import make_frechet_mean, record_domain
>>> dp.enable_features("contrib", "honest-but-curious")
>>> domain = record_domain(Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5), n=500)
>>> mean = make_frechet_mean(domain, dp.change_one_distance(), rho=0.05)
>>> round(mean.map(1), 6), round(mean.map(2), 6), mean(np.tile([0.0, 0.0, 1.0], (500, 1))).value.shape
(0.05, 0.2, (3,))

Importing this module registers all constructors with ``dp.Context``, where the privacy comes from the context:

>>> x = np.tile(np.eye(2), (500, 1, 1))
>>> context = dp.Context.compositor(
...     x, dp.unit_of(changes=1), dp.loss_of(epsilon=1.0), domain=record_domain(Ball(SPD(2), np.eye(2), radius=1.0), n=500)
... )
>>> release = context.query(epsilon=0.2).frechet_mean().release()
>>> release.epsilon, context.current_privacy_loss()
(0.2, 0.2)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast, final

try:
    import opendp.prelude as dp
    from opendp.context import PartialChain, constructors
    from opendp.mod import Domain, Measure, Measurement, Metric
except ImportError:  # an extra that is installed wherever the tests run
    raise ImportError("geodp.integrations.opendp needs OpenDP: pip install 'geodp[opendp]'") from None

from geodp.inputs import whole_number
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.choice import MechanismName
from geodp.noise.flat import Family
from geodp.privacy.cost import Cost
from geodp.privacy.groups import group_cost, group_parameters
from geodp.privacy.neighbours import Change, Unit
from geodp.privacy.notions import ApproximateDP, Privacy, PureDP, ZeroConcentratedDP, privacy_of
from geodp.receipt import Release
from geodp.records.dataset import Dataset, GroupOptions, MemberOptions
from geodp.release import Account, AccountOptions, Unread, run
from geodp.request import PrivacyOptions, Request
from geodp.statistics.summary import ClaimedSummary, private_summary
from geodp.table import TABLE, Entry

__all__ = [
    "geodesic_distance",
    "make_geodesic_noise",
    "point_domain",
    "record_domain",
]


# ---------------------------------------------------------------------- domains and metrics


@final
@dataclass(frozen=True, eq=False)
class Records:
    """The domain of records: the ball or manifold they lie in, and their number if it is public."""

    place: Ball | Manifold
    n: int | None

    @property
    def manifold(self) -> Manifold:
        return self.place.manifold if isinstance(self.place, Ball) else self.place


def record_domain(place: Ball | Manifold, n: int | None = None) -> Domain:
    """Arrays of records, ``(n, *point_shape)``: in a public ball, or anywhere on a manifold.

    Records outside the ball and invalid records are members too: releases clip them. ``n`` is the public number of records, or
    of persons; leave it out if the metric is about adding and removing. The domain holds the ball so that a query need not
    repeat it.

    >>> from geodp import Sphere
    >>> record_domain(Sphere(2), n=100)
    geodp.records(Sphere(2), n=100)
    """
    if not isinstance(place, Ball | Manifold):
        raise TypeError(f"records are in a Ball or on a Manifold, but this is of type {type(place).__name__}")
    known = Records(place, None if n is None else whole_number(n, 1, "the number of records n"))
    where = f"{place.manifold!r}, center={place.center.tolist()}, radius={place.radius!r}" if isinstance(place, Ball) else place
    return dp.user_domain(
        f"geodp.records({where}{'' if n is None else f', n={known.n}'})", lambda x: _number_of(x, known) is not None, known
    )


def point_domain(manifold: Manifold) -> Domain:
    """One point of a manifold, such as a summary that a transformation computes.

    >>> from geodp import Sphere
    >>> point_domain(Sphere(2))
    geodp.point(Sphere(2))
    """
    return dp.user_domain(f"geodp.point({manifold!r})", lambda x: manifold.check_point(x) is None, manifold)


def geodesic_distance(manifold: Manifold) -> Metric:
    """The geodesic distance between points as a metric of OpenDP, whose distances are floats.

    >>> from geodp import Sphere
    >>> geodesic_distance(Sphere(2))
    geodp.geodesic_distance(Sphere(2))
    """
    return dp.user_distance(f"geodp.geodesic_distance({manifold!r})")


#: The kind of neighbours for each type of metric.
_NEIGHBOURS: dict[str, tuple[Change, Unit]] = {
    "ChangeOneDistance": ("replace", "record"),
    "HammingDistance": ("replace", "record"),
    "SymmetricDistance": ("add-remove", "record"),
    "InsertDeleteDistance": ("add-remove", "record"),
    "ChangeOneIdDistance": ("replace", "person"),
    "SymmetricIdDistance": ("add-remove", "person"),
}


@final
@dataclass(frozen=True, eq=False)
class _Space:
    """An input space of OpenDP in the terms of this library."""

    domain: Domain
    metric: Metric
    records: Records
    change: Change
    unit: Unit

    @classmethod
    def of(cls, domain: Domain, metric: Metric) -> _Space:
        records = getattr(domain, "descriptor", None)
        if not isinstance(records, Records):
            raise TypeError(f"the input domain must be a record_domain(...) but is {domain}")
        kind = str(metric.type)
        if kind not in _NEIGHBOURS:
            raise ValueError(f"the input metric must be one of {', '.join(_NEIGHBOURS)} but is {kind}")
        change, unit = _NEIGHBOURS[kind]
        if (change == "replace") != (records.n is not None):
            what = "needs n in record_domain(..., n)" if change == "replace" else "keeps n private: leave it out of record_domain"
            raise ValueError(f"{kind} {what}")
        return cls(domain, metric, records, change, unit)

    @property
    def n(self) -> int:
        """The public number; an arbitrary number if it is private, because then no cost depends on it."""
        return self.records.n or 1

    def place(self, entry: Entry, given: Ball | None) -> Ball | Manifold:
        """Where the records of a release are: a ball, the manifold, or whatever a search can start from."""
        place = self.records.place if given is None else given
        if entry.place == "manifold":
            return self.records.manifold
        if entry.place != "ball":
            return place
        if not isinstance(place, Ball):
            raise ValueError(f"this release needs a ball, but the domain is all of {place}: give ball=, or a domain with a ball")
        if place.manifold != self.records.manifold:
            raise ValueError(f"the ball is on {place.manifold} and the records on {self.records.manifold}")
        return place

    def dataset(self, x: Any) -> Dataset:
        """The data; raises if they are not members of the domain, which OpenDP does not check."""
        persons = isinstance(x, Dataset) and x.unit is not None
        if persons != (self.unit == "person"):
            raise TypeError(
                "this metric is about persons: pass geodp.Dataset(x, unit=...)"
                if self.unit == "person"
                else "this metric is about records: pass an array of records"
            )
        if isinstance(x, Dataset) and (x.by is not None or x.neighbours != "replace"):
            raise ValueError("the metric says who the neighbours are: give the Dataset only x and unit")
        data = x if isinstance(x, Dataset) else Dataset(x)
        if self.records.n is not None and data.open(self.records.manifold).count != self.records.n:
            raise ValueError(f"the domain has {self.records.n} {self.unit}s, but the data have another number")
        return replace(data, neighbours=self.change)


def _number_of(x: Any, known: Records) -> int | None:
    """The number of members of the data, or None if they are not in the domain."""
    try:
        count = (x if isinstance(x, Dataset) else Dataset(x)).open(known.manifold).count
    except (TypeError, ValueError):
        return None
    return count if known.n in (None, count) else None


# ---------------------------------------------------------------------- privacy maps


def _measurement(
    domain: Domain,
    metric: Metric,
    privacy: Privacy,
    cost: Cost,
    function: Callable[[Any], Any],
    unit: float | None = None,
) -> Measurement:
    """A measurement from its cost for one change, or for a distance of ``unit``."""

    def loss(distance: Any) -> Any:
        if distance == 0:
            return (0.0, 0.0) if isinstance(privacy, ApproximateDP) else 0.0
        # a shorter distance costs no more than ``unit``, and the quotient is rounded up to be safe
        size = distance if unit is None else max(1.0, math.nextafter(distance / unit, math.inf) if distance > unit else 1.0)
        whole = group_cost(cost, size)
        match privacy:
            case PureDP():
                return whole.epsilon
            case ZeroConcentratedDP():
                return whole.rho
        assert isinstance(privacy, ApproximateDP)
        epsilon, delta = group_parameters(privacy.epsilon, privacy.delta, math.ceil(size))
        if delta >= 1.0:
            raise ValueError(f"approximate privacy says nothing about {size:g} changes: delta would be {delta:.3g}")
        return min(epsilon, whole.epsilon_at(delta)), delta

    return dp.m.make_user_measurement(domain, metric, _measure_of(privacy), function, loss)


def _measure_of(privacy: Privacy) -> Measure:
    match privacy:
        case PureDP():
            return dp.max_divergence()
        case ZeroConcentratedDP():
            return dp.zero_concentrated_divergence()
        case ApproximateDP():
            return dp.approximate(dp.max_divergence())
    raise ValueError("OpenDP has no measure for Gaussian privacy: ask for rho, which is mu^2/2")


class _AwaitsPrivacy(PartialChain):
    """A measurement that gets its privacy from the context of a query. OpenDP need not search: the library calibrates itself."""

    def __init__(self, make: Callable[[Privacy], Measurement]) -> None:
        super().__init__(make)  # type: ignore[no-untyped-call]

    def fix(self, d_in: Any, d_out: Any, output_measure: Any = None, bounds: Any = None, T: Any = None) -> Measurement:
        make: Any = self.partial
        return cast(Measurement, make(_privacy_for(str(output_measure.type), d_in, d_out)))


def _privacy_for(measure: str, distance: int, loss: Any) -> Privacy:
    """The privacy for one change that gives this loss for ``distance`` changes, rounded down so that the map stays below."""
    safe = 1.0 if distance == 1 else 1.0 - 1e-12
    match measure:
        case "MaxDivergence":
            return PureDP(loss / distance * safe)
        case "ZeroConcentratedDivergence":
            return ZeroConcentratedDP(loss / distance**2 * safe)
        case "Approximate<ZeroConcentratedDivergence>":
            return ZeroConcentratedDP(loss[0] / distance**2 * safe)
        case "Approximate<MaxDivergence>":
            epsilon, delta = loss[0] / distance * safe, loss[1]
            if delta == 0.0:
                return PureDP(epsilon)
            share = 1.0 if distance == 1 else math.expm1(epsilon) / math.expm1(epsilon * distance) * safe
            return ApproximateDP(epsilon, delta * share)
    raise ValueError(f"geodp has no privacy map for {measure}: use epsilon, epsilon and delta, or rho")


# ---------------------------------------------------------------------- constructors

#: Options of functions that a domain, a metric or OpenDP itself settles.
_SETTLED = {
    name
    for each in (PrivacyOptions, AccountOptions, MemberOptions, GroupOptions)
    for name in (*each.__annotations__, "x", "epsilon", "progress")
}


def _constructor(entry: Entry) -> Callable[..., Any]:
    """The constructor of a line of the table: the function's request for the members of the domain, as a measurement."""
    function = entry.function
    place, *options = (each for name, each in inspect.signature(function).parameters.items() if name not in _SETTLED)

    def make(
        input_domain: Domain,
        input_metric: Metric,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        **given: Any,
    ) -> Any:
        signature.bind(input_domain, input_metric, epsilon, delta, rho, **given)  # raises for options that there are not
        space = _Space.of(input_domain, input_metric)
        where = space.place(entry, given.pop("ball", None))

        def measurement(privacy: Privacy) -> Measurement:
            request = function(Unread(space.unit, space.change), where, **privacy.parameters(), **given)
            return _measurement(
                *(input_domain, input_metric, privacy, request.cost(space.n)),
                lambda x: run(request, space.dataset(x), Account(None, None)),
            )

        return (
            measurement(privacy_of(epsilon, delta, rho)) if (epsilon, delta, rho) != (None,) * 3 else _AwaitsPrivacy(measurement)
        )

    own = list(inspect.signature(make).parameters.values())[:-1]
    ball = [place.replace(kind=place.KEYWORD_ONLY, default=None)] if entry.place == "ball" else []
    signature = inspect.Signature([*own, *ball, *(each.replace(kind=each.KEYWORD_ONLY) for each in options)])
    make.__name__ = make.__qualname__ = f"make_{entry.opendp}"
    make.__doc__ = f":func:`geodp.{function.__name__}` as a measurement; without any privacy, as a query of a ``dp.Context``."
    cast(Any, make).__signature__ = signature
    return make


def __getattr__(name: str) -> Any:
    """``make_frechet_mean`` and all others of the table."""
    for entry in TABLE.values():
        if entry.opendp is not None and name == f"make_{entry.opendp}":
            return _constructor(entry)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def make_geodesic_noise(
    input_domain: Domain,
    input_metric: Metric,
    sensitivity: float,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    *,
    mechanism: MechanismName = "auto",
    law: Family | None = None,
) -> Measurement:
    """:func:`geodp.private_summary` as a measurement: noise that hides one point of a manifold.

    The requested privacy holds for points that are ``sensitivity`` apart; the map says what holds for others. Chain it
    after a transformation into :func:`point_domain` and :func:`geodesic_distance`. Its stability map is then your claim.

    >>> import numpy as np, opendp.prelude as dp
    >>> from geodp import Sphere
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> noise = make_geodesic_noise(point_domain(Sphere(2)), geodesic_distance(Sphere(2)), 0.01, epsilon=1.0)
    >>> noise.map(0.01), round(noise.map(0.02), 9), noise(np.array([0.0, 0.0, 1.0])).value.shape
    (1.0, 2.0, (3,))
    """
    manifold = getattr(input_domain, "descriptor", None)
    if not isinstance(manifold, Manifold):
        raise TypeError(f"the input domain must be a point_domain(...) but is {input_domain}")
    if input_metric != geodesic_distance(manifold):
        raise ValueError(f"the input metric must be geodesic_distance({manifold}) but is {input_metric}")
    privacy = privacy_of(epsilon, delta, rho)
    cost = Request(ClaimedSummary(manifold, sensitivity), privacy, mechanism=mechanism, law=law).cost(1)
    asked = privacy.parameters()

    def function(point: Any) -> Release:
        return private_summary(point, manifold, sensitivity=sensitivity, mechanism=mechanism, law=law, **asked)

    return _measurement(input_domain, input_metric, privacy, cost, function, sensitivity)


for _make in (*(_constructor(entry) for entry in TABLE.values() if entry.opendp), make_geodesic_noise):
    if _make.__name__.removeprefix("make_") not in constructors:
        dp.register(_make)
