"""The path from private records to a release with a receipt: the only place where data, noise and budget meet.

A release checks the budget, computes the statistic, charges the budget, draws, and writes the receipt, in this order. A crash
after the charge loses budget, never privacy.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from textwrap import shorten
from typing import Any, NamedTuple, Protocol, TypeVar, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from geodp._version import __version__
from geodp.arithmetic.entropy import NotPrivate
from geodp.files import parse_manifold
from geodp.inputs import Array, is_line, real_number, refuse_mask
from geodp.laws.flat import Family
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball, checked_ball
from geodp.measurement import Measurement
from geodp.mechanisms.choice import MechanismName
from geodp.mechanisms.intrinsic import IntrinsicMechanism, intrinsic_cost
from geodp.mechanisms.mechanism import Mechanism
from geodp.mechanisms.tangent import TangentMechanism, stretch_of_log, tangent_cost
from geodp.privacy.budgets import REPLACE_ONE
from geodp.privacy.cost import Cost, PureCost, cost_from_dict
from geodp.privacy.ledger import Ledger, LedgerError
from geodp.privacy.notions import Privacy, privacy_of
from geodp.records.chunks import count_records, discreet, only_the_kind
from geodp.statistics.counts import Coverage
from geodp.statistics.mean import FrechetMean, Progress
from geodp.statistics.projected import ProjectedMean
from geodp.statistics.sensitivity import Bound
from geodp.statistics.statistic import ClaimedSummary, Statistic

T = TypeVar("T")

EXACT = "exact"
SIMULATED = "simulated"

#: Probabilities for which a stored receipt holds the error.
QUANTILES = (0.5, 0.95)


@dataclass(frozen=True, eq=False)
class Release:
    """A private summary and everything that may be said about how it came about: public parameters, and nothing else.

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
    #: The vector that the value was computed from, where that is not the value itself.
    vector: Array | None = None
    version: str = __version__

    @property
    def manifold(self) -> Manifold:
        """Where the records are, and the value if it is a point."""
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
        """What the release spends, in every notion of privacy."""
        return self.noise.cost

    @property
    def epsilon(self) -> float | None:
        """The epsilon that was asked for, if one was."""
        return self.privacy.parameters().get("epsilon")

    @property
    def delta(self) -> float | None:
        """The delta that was asked for, if one was."""
        return self.privacy.parameters().get("delta")

    @property
    def rho(self) -> float | None:
        """The rho that was asked for, if one was."""
        return self.privacy.parameters().get("rho")

    @property
    def mu(self) -> float | None:
        """The mu that was asked for, if one was."""
        return self.privacy.parameters().get("mu")

    @property
    def private(self) -> bool:
        """Whether the noise came from the exact sampler and the operating system's entropy."""
        return self.numerics == EXACT

    def error_quantile(self, q: float) -> float:
        """A distance that the true value is within with probability ``q``: from public numbers alone.

        The true value is the mean of the clipped records, or the caller's summary.
        """
        return self.noise.error_quantile(q) + self.tolerance

    def expected_error(self) -> float:
        """A bound on the expected distance to the true value: from public numbers alone."""
        return self._expected_error

    @cached_property
    def _expected_error(self) -> float:
        return self.noise.expected_error() + self.tolerance

    @property
    def says_nothing(self) -> bool:
        """Whether the expected error exceeds the radius of the ball, so that its centre would have told as much."""
        return says_nothing(self.noise, self.statistic.ball)

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
                "dataset": self.dataset,
                "charge": self.charge,
                "value": self.value.tolist(),
                **({} if self.vector is None else {"vector": self.vector.tolist()}),
            },
            indent=2,
        )

    @classmethod
    def from_json(cls, text: str) -> Release:
        """The release that :meth:`to_json` stored, now or in an older version, or a ``ValueError`` that names the wrong field."""
        wrong: str | None = "pass what Release.to_json returned"
        try:
            stored: dict[str, Any] = json.loads(text)
            wrong = _first_invalid(stored)
            if wrong is None:
                return _restored(stored)
        except _InvalidField as reason:
            wrong = str(reason)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            pass
        # no field is quoted: the text may be anything, such as a file of records
        raise ValueError(f"this is not the JSON text of a release: {wrong or 'its fields contradict each other'}")

    def __str__(self) -> str:
        rows = [
            *self._results(),
            ("privacy", f"{self.privacy}, {self.privacy.words}; neighbours: {self.neighbours}"),
            ("cost", f"{self.cost}; advantage at most {self.cost.advantage:.3g}"),
            *self._errors(),
            ("manifold", repr(self.manifold)),
            *_about_ball(self.ball),
        ]
        if self.n is not None:
            rows.append(("records", f"{self.n}"))
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
        head = f"PRIVATE {self.statistic.kind.upper()}"
        head = head if self.private else "SIMULATION - NOT PRIVATE: do not publish this as a private release"
        return "\n".join([head, *(f"  {name:<12}{text}" for name, text in rows)])

    def _results(self) -> list[tuple[str, str]]:
        """What was released, for the receipt."""
        return [("value", _written(self.value))]

    def _errors(self) -> list[tuple[str, str]]:
        """How far that may be from the truth, for the receipt."""
        rows = [
            ("error", f"within {self.error_quantile(0.95):.3g} of {self.statistic.words} with probability 95%"),
            ("", f"on average at most {self.expected_error():.3g} away (geodesic distance)"),
        ]
        return [*rows, ("", SAYS_NOTHING)] if self.says_nothing else rows


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
        # a count is known to be between 0 and n: what noise makes of it beyond that is cut off
        return int(np.clip(np.round(self.value[i]), 0, self.n))

    def _results(self) -> list[tuple[str, str]]:
        return [
            ("valid", f"about {self.valid} of {self.n} records are points of {self.manifold}"),
            ("inside", f"about {self.inside} are in the ball"),
        ]

    def _errors(self) -> list[tuple[str, str]]:
        return [("error", f"both within {self.error_quantile(0.95):.3g} of the true counts with probability 95%")]


@final
@dataclass(frozen=True, eq=False)
class ProjectedRelease(Release):
    """A projected mean: the point next to a noisy mean vector, with an error that the vector itself tells."""

    def error_quantile(self, q: float) -> float:
        """A geodesic distance that the projected mean of the records is within with probability ``q``.

        Noise moved the mean vector by no more than a quantile of its length, so the true vector is that close to the released
        one: :meth:`geodp.statistics.embedding.Embedding.turn` says how far apart their nearest points can be. At most the
        diameter of the space, which says nothing.
        """
        assert isinstance(self.statistic, ProjectedMean)
        assert self.vector is not None
        reach = self.noise.error_quantile(q) + self.tolerance
        return min(self.statistic.embedding.turn(self.vector, reach), self.manifold.diameter)

    def expected_error(self) -> float:
        """The mean of :meth:`error_quantile` over all probabilities: a bound on the expected distance."""
        levels = (np.arange(64) + 0.5) / 64.0
        return float(np.mean([self.error_quantile(float(q)) for q in levels]))

    @property
    def says_nothing(self) -> bool:
        """Whether noise of a size that is not rare can have turned the mean anywhere."""
        return self.error_quantile(0.95) >= self.manifold.diameter

    def _errors(self) -> list[tuple[str, str]]:
        if self.says_nothing:
            return [("error", "this release cannot tell any direction: the records point everywhere, or are too few")]
        return super()._errors()


SAYS_NOTHING = "this release says nothing about the data: its expected error exceeds the radius of the ball"


def says_nothing(noise: Mechanism, ball: Ball | None) -> bool:
    """Whether a release with this noise would tell no more than the public centre of the ball."""
    return ball is not None and noise.expected_error() > ball.radius


def _written(point: Array) -> str:
    # all of it, however long: on a screen there may be no other copy
    every = point.size + 1
    return np.array2string(point, precision=6, suppress_small=True, separator=", ", prefix=" " * 14, threshold=every)


def _about_ball(ball: Ball | None) -> list[tuple[str, str]]:
    if ball is None:
        return []
    origin = " (the origin)" if np.array_equal(ball.center, ball.manifold.origin) else ""
    center = np.array2string(ball.center, precision=6, suppress_small=True, separator=", ", prefix=" " * 14)
    return [("radius", f"{ball.radius:g}, of the public ball"), ("center", f"{center}{origin}")]


# ---------------------------------------------------------------------- releasing


def private_mean(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    mechanism: MechanismName = "auto",
    law: Family | None = None,
    bound: Bound = "sharp",
    ledger: Ledger | None = None,
    dataset: str | None = None,
    project: bool | None = None,
    simulate: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Release:
    r"""The Fréchet mean of records in a public ball, released with differential privacy.

    *Public*: the manifold, the ball, the number of records, the privacy and all other arguments. *Private*: the values of the
    records. *Neighbours*: data sets of the same size that differ by replacing one record.

    Every record is clipped into the ball by itself (what is no point of the manifold becomes its centre); the mean of the
    clipped records is computed to a public tolerance; noise hides it. How far one record can move the mean:
    :func:`geodp.sensitivity`. Why the noise is enough: :mod:`geodp.mechanisms.intrinsic` and :mod:`geodp.mechanisms.tangent`.
    It is drawn by a program over exact real numbers from the operating system's entropy, and what is released is a function of
    that draw rounded to a public grid (:mod:`geodp.laws.exact`).

    Parameters
    ----------
    x
        The records, as for :func:`geodp.frechet_mean`.
    ball
        Centre and radius must be chosen without looking at the data.
    epsilon, delta, rho, mu
        The privacy to spend: exactly one of ``epsilon`` (pure), ``epsilon`` and ``delta``, ``rho`` (zero-concentrated) or ``mu``
        (Gaussian). See :mod:`geodp.privacy.notions`.
    mechanism, law
        ``"intrinsic"`` noise on the manifold, or ``"tangent"`` noise in the tangent space at the centre of the ball;
        ``"laplace"`` or ``"gaussian"``. By default, of all that keep the privacy, the one with the smallest guaranteed
        expected error; :func:`geodp.plan` shows them side by side.
    bound
        The sensitivity bound, see :func:`geodp.sensitivity`.
    ledger, dataset
        A budget to charge. What is left is looked at before any long work. The charge is made after the mean
        and before the draw: a crash in between loses budget, never privacy. If the ledger cannot keep the receipt after that,
        the release is returned all the same, with a warning.
    project
        Whether to move a draw that fell outside the ball to its boundary. By default that is done where it cannot
        increase the error: for tangent noise always; for intrinsic noise on simply connected spaces without positive curvature
        and on spheres up to a third of the way round.
    simulate
        A generator for fast seeded floating-point draws, for studies. The result is then NOT PRIVATE.
    progress
        As for :func:`geodp.frechet_mean`; what it is told about passes depends on the data and must not be published.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> ball = Ball(Sphere(2), center=[0.0, 0.0, 1.0], radius=np.pi / 8)
    >>> x = np.tile([0.0, 0.0, 1.0], (500, 1))
    >>> release = private_mean(x, ball, epsilon=1.0)
    >>> release.epsilon, release.n, Sphere(2).check_point(release.value)
    (1.0, 500, None)
    >>> private_mean(x, ball, rho=0.05).mechanism
    'Riemannian Gaussian'
    """
    checked_ball(ball)
    privacy = privacy_of(epsilon, delta, rho, mu)
    account = Account.of(ledger, dataset, simulate)
    _check_options(project, simulate)
    refuse_mask(x, "x")
    statistic = FrechetMean(ball, bound)
    account.check_open()
    x = discreet(x, ball.manifold)
    measurement = Measurement(statistic, count_records(x, ball.manifold), privacy, mechanism, law, _flag(project))
    return _release(measurement, lambda: statistic.compute(x, measurement.n, progress), account, simulate)


def private_summary(
    value: ArrayLike,
    manifold: Manifold,
    *,
    sensitivity: float,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    base: ArrayLike | None = None,
    radius: float | None = None,
    neighbours: str = REPLACE_ONE,
    mechanism: MechanismName = "auto",
    law: Family | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    simulate: np.random.Generator | None = None,
) -> Release:
    r"""A summary of your own that lives on a manifold, released with differential privacy.

    *Public*: the manifold and all arguments but ``value``. *Private*: ``value``, a summary ``f(D)`` of a data set ``D``.
    *Neighbours*: those of your claim; say who they are in ``neighbours``. **Your claim**: ``dist(f(D), f(D')) <= sensitivity``
    for all neighbours ``D`` and ``D'``, in the geodesic distance of the manifold, numerical error of the computed values
    included. The library cannot check this; you must. The receipt says so.

    *Theorem*: under that claim, Theorem 1 of Reimherr, Bharath and Soto (2021) for intrinsic Laplace noise, and the theorems of
    :mod:`geodp.mechanisms.intrinsic` and :mod:`geodp.mechanisms.tangent` for the others.

    Parameters
    ----------
    value
        One point of the manifold. If it is none, that is a ``ValueError``, and nothing is charged.
    sensitivity
        Your claim.
    epsilon, delta, rho, mu, mechanism, law, ledger, dataset, simulate
        As for :func:`private_mean`.
    base, radius
        For tangent noise, on spaces without positive curvature: a second claim, that the value is within ``radius`` of the public
        point ``base`` for every data set. A value that is not is a ``ValueError``. Without them there is intrinsic noise only.
        ``base`` is the manifold's origin by default.
    neighbours
        Who the claim is about. A ledger refuses a charge about other neighbours than its budget's.

    >>> import numpy as np
    >>> from geodp import Sphere
    >>> release = private_summary([0.0, 0.0, 1.0], Sphere(2), sensitivity=0.01, epsilon=1.0)
    >>> release.mechanism, round(release.scale, 9)
    ('Riemannian Laplace', 0.01)
    """
    if not isinstance(manifold, Manifold):
        raise TypeError(f"the manifold must be a Manifold but is of type {type(manifold).__name__}")
    privacy = privacy_of(epsilon, delta, rho, mu)
    account = Account.of(ledger, dataset, simulate)
    _check_options(None, simulate)
    claim = real_number(sensitivity, "the sensitivity")
    if not 0.0 < claim < math.inf:
        raise ValueError(f"the sensitivity must be positive and finite but is {claim:g}: how far can one record move the value?")
    statistic = ClaimedSummary(manifold, claim, _summary_ball(manifold, base, radius))
    if not is_line(neighbours):
        raise ValueError("neighbours must be a line of text that says who they are")
    measurement = Measurement(statistic, 1, privacy, mechanism, law, neighbours=neighbours)
    refuse_mask(value, "the value")
    array = _one_array(value, manifold)
    point = computed(lambda: _one_point(array, statistic, measurement.noise))
    account.check_open()
    return _release(measurement, lambda: point, account, simulate)


def private_coverage(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    simulate: np.random.Generator | None = None,
) -> CoverageRelease:
    r"""How many records are valid, and how many are in the ball: noisy counts, released with differential privacy.

    *Public*: the ball, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same size that
    differ by replacing one record. *Theorem*: one record changes each count by at most 1, so the pair moves by at most the
    root of two (:class:`geodp.statistics.counts.Coverage`), and Laplace or Gaussian noise in the plane hides it
    (:mod:`geodp.mechanisms.intrinsic`, the flat case).

    This is how a curator may learn that a whole column was read wrongly, or that a ball was guessed badly. Arguments are those of
    :func:`private_mean`.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> x = np.tile([0.0, 0.0, 1.0], (500, 1))
    >>> x[:100] = np.nan
    >>> release = private_coverage(x, Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5), epsilon=1.0)
    >>> abs(release.valid - 400) < 50, abs(release.inside - 400) < 50
    (True, True)
    """
    checked_ball(ball)
    release = release_of_sum(Coverage(ball), x, privacy_of(epsilon, delta, rho, mu), ledger, dataset, simulate)
    assert isinstance(release, CoverageRelease)
    return release


def private_projected_mean(
    x: Any,
    manifold: Manifold,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    simulate: np.random.Generator | None = None,
) -> ProjectedRelease:
    r"""Where records on a compact space point on average: no ball is needed, and they may be anywhere.

    *Public*: the manifold, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same
    size that differ by replacing one record. *Theorem*: the records are averaged as vectors of a space around the manifold,
    where one of them moves the mean by at most the diameter of the manifold over ``n``
    (:class:`geodp.statistics.projected.ProjectedMean`); Laplace or Gaussian noise hides that vector, and the point next to it
    is computed from what was released. What is no point of the manifold counts as its origin.

    The error bar is computed from the release itself: a long mean vector, of records that agree, is turned less by the same
    noise. Arguments are those of :func:`private_mean`.

    >>> import numpy as np
    >>> from geodp import Sphere
    >>> angles = np.random.default_rng(0).normal(2.0, 0.7, 2000)
    >>> release = private_projected_mean(np.stack([np.cos(angles), np.sin(angles)], axis=-1), Sphere(1), epsilon=1.0)
    >>> bool(abs(np.arctan2(release.value[1], release.value[0]) - 2.0) < 0.1), release.error_quantile(0.95) < 0.02
    (True, True)
    """
    if not isinstance(manifold, Manifold):
        raise TypeError(f"the manifold must be a Manifold but is of type {type(manifold).__name__}")
    statistic = ProjectedMean(manifold)
    assert statistic.embedding  # or a sentence why there is none
    release = release_of_sum(statistic, x, privacy_of(epsilon, delta, rho, mu), ledger, dataset, simulate)
    assert isinstance(release, ProjectedRelease)
    return release


class Computable(Statistic, Protocol):
    """A statistic that needs nothing but the records to be computed, such as a sum over them."""

    def compute(self, x: Any, n: int) -> Array:
        """Its value for exactly ``n`` records; what is private never shows but in that value."""


def release_of_sum(
    statistic: Computable, x: Any, privacy: Privacy, ledger: Ledger | None, dataset: str | None, simulate: Any
) -> Release:
    """Release a statistic such as a sum over records. Its kind is one of :data:`KINDS`."""
    account = Account.of(ledger, dataset, simulate)
    _check_options(None, simulate)
    refuse_mask(x, "x")
    account.check_open()
    place = statistic.place
    manifold = place.manifold if isinstance(place, Ball) else place
    x = discreet(x, manifold)
    measurement = Measurement(statistic, count_records(x, manifold), privacy)
    return _release(measurement, lambda: statistic.compute(x, measurement.n), account, simulate)


def _summary_ball(manifold: Manifold, base: ArrayLike | None, radius: float | None) -> Ball | None:
    if radius is None:
        if base is not None:
            raise ValueError("a base point goes with a radius about it that holds the value: give both or neither")
        return None
    if not math.isinf(manifold.injectivity_radius):
        raise ValueError(
            f"tangent noise for summaries is for spaces without positive curvature, and {manifold} is none: leave out base and "
            "radius"
        )
    return Ball(manifold, manifold.origin if base is None else base, radius)


def _one_array(value: ArrayLike, manifold: Manifold) -> Array:
    """The value as floats of the shape of a point; nothing else is looked at."""
    with only_the_kind():
        array = np.asarray(value)
    point = manifold.read(array, "the value")
    if point.shape != manifold.point_shape:
        raise ValueError(f"the value has shape {point.shape}, but one point of {manifold} has shape {manifold.point_shape}")
    return point


def _one_point(point: Array, statistic: ClaimedSummary, noise: Mechanism) -> Array:
    """The point that the value stands for. It is private: no sentence tells a number of it."""
    manifold, ball = statistic.codomain, statistic.ball
    wrong = ValueError(f"the value is not a point of {manifold}: manifold.check_point(value) tells you, and only you, why")
    if not manifold.valid(point):
        raise wrong
    point = manifold.raw_project(point)
    if ball is not None:
        if not ball.contains(point):
            raise ValueError(f"the value is not within {ball.radius:g} of the base point, as was claimed: claim a larger radius")
        return point
    try:
        # the exact sampler may refuse what passes in floats, such as a matrix that is all but singular: not after the charge
        noise.draw(point, NotPrivate(0))
    except ValueError:
        raise wrong from None
    return point


class Account(NamedTuple):
    """The budget that a release is charged to, if any."""

    ledger: Ledger | None
    dataset: str | None

    @classmethod
    def of(cls, ledger: Any, dataset: Any, simulate: Any) -> Account:
        """The account, or a sentence about what does not go together."""
        if (ledger is None) != (dataset is None):
            raise ValueError("a ledger and the name of a data set in it go together: give both or neither")
        if ledger is not None and not isinstance(ledger, Ledger):
            raise TypeError(f"the ledger must be a Ledger but is of type {type(ledger).__name__}: open it with geodp.Ledger(url)")
        if ledger is not None and simulate is not None:
            raise ValueError("a simulation is not private and spends no budget: leave out the ledger or simulate")
        return cls(ledger, dataset)

    def check_open(self) -> None:
        """Before any work: whether there is such a budget."""
        if self.ledger is not None and self.dataset is not None:
            self.ledger.remaining(self.dataset)

    def check(self, cost: Cost, privacy: Privacy, neighbours: str = REPLACE_ONE) -> None:
        """Before long work: whether the charge would be refused now. What counts is the charge."""
        if self.ledger is not None and self.dataset is not None:
            self.ledger.check(self.dataset, cost=cost, privacy=privacy, neighbours=neighbours)

    def charge(self, cost: Cost, privacy: Privacy, what: str, neighbours: str = REPLACE_ONE) -> int | None:
        """The number of the charge, which is on disk when this returns."""
        if self.ledger is None or self.dataset is None:
            return None
        purpose = shorten(what, 500, placeholder=" ...")
        return self.ledger.charge(self.dataset, cost=cost, privacy=privacy, neighbours=neighbours, what=purpose).id

    def attach(self, charge: int | None, receipt: Callable[[], str]) -> None:
        """Keep the receipt with its charge. The budget is spent and the value drawn: a failure must not take the value along."""
        if self.ledger is None or charge is None:
            return
        try:
            self.ledger.attach(charge, receipt())
        except Exception as error:
            # of the ledger's sentence only what happened: its advice, to try again, would be wrong here
            why = str(error).partition(": ")[0] if isinstance(error, LedgerError) else type(error).__name__
            with warnings.catch_warnings():
                warnings.simplefilter("always")  # where warnings are errors it would take the value along after all
                warnings.warn(
                    f"charge {charge} is entered and the release is made, but its receipt could not be kept in the ledger "
                    f"({why}). Do not release again: store this one with ledger.attach(release.charge, release.to_json())",
                    stacklevel=4,
                )


def _release(
    measurement: Measurement, compute: Callable[[], Array], account: Account, simulate: np.random.Generator | None
) -> Release:
    """Check the budget, compute, charge, draw, write the receipt."""
    noise = measurement.noise
    account.check(noise.cost, measurement.privacy, measurement.neighbours)
    true = computed(compute)
    statistic = measurement.statistic
    what = f"{statistic.kind} on {statistic.place if isinstance(statistic.place, Manifold) else statistic.place.manifold}"
    charge = account.charge(noise.cost, measurement.privacy, what, measurement.neighbours)
    value, grid = computed(lambda: _drawn(noise, true, simulate), said=())
    kind = KINDS[statistic.kind]
    release = kind.release(
        value=value if kind.value is None else kind.value(statistic, value),
        vector=None if kind.value is None else value,
        privacy=measurement.privacy,
        noise=noise,
        statistic=statistic,
        n=None if isinstance(statistic, ClaimedSummary) else measurement.n,
        sensitivity=measurement.sensitivity,
        tolerance=measurement.tolerance,
        numerics=EXACT if simulate is None else SIMULATED,
        grid=grid,
        dataset=account.dataset,
        charge=charge,
        neighbours=measurement.neighbours,
    )
    account.attach(charge, release.to_json)
    return release


def _drawn(noise: Mechanism, true: Array, simulate: np.random.Generator | None) -> tuple[Array, float | None]:
    return noise.draw(true) if simulate is None else (noise.simulate(true, 1, simulate)[0], None)


def computed(compute: Callable[[], T], said: tuple[type[Exception], ...] = (ValueError,)) -> T:
    """What ``compute`` returns; if it fails for a reason of its own, the text of the exception, which may quote data, is lost.

    Those ``said`` are about public things: the shape or the number of records, the kind of a failure to read them.
    """
    try:
        # where the caller has floating-point errors raise, an underflow of one record would
        with np.errstate(all="ignore"):
            return compute()
    except np.linalg.LinAlgError as error:  # a ValueError, but not of ours
        raise RuntimeError(_HIDDEN.format(type(error).__name__)) from None
    except said:
        raise
    except Exception as error:
        raise RuntimeError(_HIDDEN.format(type(error).__name__)) from None


_HIDDEN = "the release failed with {}, whose text may hold data and is not shown"


def _check_options(project: Any, simulate: Any) -> None:
    if simulate is not None and not isinstance(simulate, np.random.Generator):
        raise TypeError(f"simulate must be a numpy.random.Generator but is of type {type(simulate).__name__}")
    if not isinstance(project, bool | np.bool_ | None):
        raise TypeError(f"project must be True, False or None but is of type {type(project).__name__}")


def _flag(project: Any) -> bool | None:
    return None if project is None else bool(project)


# ---------------------------------------------------------------------- reading receipts

Stored = dict[str, Any]


class Kind(NamedTuple):
    """How releases of one kind of statistic are made from a draw, and read from a receipt."""

    release: type[Release]
    #: The statistic that a receipt is about.
    statistic: Callable[[Stored, Manifold, Ball | None], Statistic]
    #: The value, from the vector that was drawn; None if they are the same.
    value: Callable[[Any, Array], Array] | None = None
    #: Fields of a receipt that must not be null.
    needs: tuple[str, ...] = ()


def _projected_value(statistic: ProjectedMean, vector: Array) -> Array:
    return statistic.embedding.nearest(vector)


#: The kinds of releases, by the names of their statistics. Modules above this one add theirs when they are loaded.
KINDS: dict[str, Kind] = {
    FrechetMean.kind: Kind(
        Release, lambda stored, manifold, ball: FrechetMean(_given(ball), stored["bound"]), needs=("n", "bound", "radius")
    ),
    ClaimedSummary.kind: Kind(Release, lambda stored, manifold, ball: ClaimedSummary(manifold, stored["sensitivity"], ball)),
    Coverage.kind: Kind(CoverageRelease, lambda stored, manifold, ball: Coverage(_given(ball)), needs=("n", "radius")),
    ProjectedMean.kind: Kind(
        ProjectedRelease, lambda stored, manifold, ball: ProjectedMean(manifold), _projected_value, ("vector",)
    ),
}
#: Modules that add kinds. They are loaded when a receipt is read, since whoever reads one may have loaded nothing else.
_ADD_KINDS = ("geodp.spread",)


def _given(ball: Ball | None) -> Ball:
    assert ball is not None
    return ball


class _InvalidField(ValueError):
    """A field that does not go with the others; the sentence quotes nothing but the manifold."""


class _Requirement(NamedTuple):
    """What a field of a stored release must be, in words and as a test."""

    words: str
    met: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 2**63


def _is_positive(value: Any) -> bool:
    # not a number compares false, and neither infinity nor a whole number past the floats is at most the largest float
    return isinstance(value, float | int) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def _or_null(requirement: _Requirement) -> _Requirement:
    return _Requirement(f"{requirement.words}, or null", lambda value: value is None or requirement.met(value))


_POSITIVE = _Requirement("a positive and finite number", _is_positive)
_LINE = _Requirement("a line of text", is_line)
_WHOLE = _Requirement("a whole number from 1 to 2^63", _is_whole)
_MECHANISMS = {
    f"{mechanism.adjective} {family.capitalize()}": (mechanism, family)
    for mechanism in (IntrinsicMechanism, TangentMechanism)
    for family in get_args(Family)
}

#: What a stored release must hold besides its value and its ball, each by itself.
_STORED: dict[str, _Requirement] = {
    **dict.fromkeys(("sensitivity", "scale"), _POSITIVE),
    **dict.fromkeys(("neighbours", "geodp", "manifold"), _LINE),
    **dict.fromkeys(("epsilon", "delta", "rho", "mu", "radius"), _or_null(_POSITIVE)),
    "tolerance": _Requirement("a number from 0 on", lambda value: _is_positive(value) or (value == 0 and value is not False)),
    "mechanism": _Requirement(f"one of {', '.join(_MECHANISMS)}", lambda value: isinstance(value, str) and value in _MECHANISMS),
    "bound": _or_null(_Requirement(f"one of {', '.join(get_args(Bound))}", lambda value: value in get_args(Bound))),
    "numerics": _Requirement(f"{EXACT} or {SIMULATED}", lambda value: value in (EXACT, SIMULATED)),
    "n": _or_null(_WHOLE),
    "projected": _Requirement("true or false", lambda value: isinstance(value, bool)),
    "dataset": _or_null(_LINE),
    "charge": _or_null(_WHOLE),
}

#: What receipts of earlier versions did not say, because there was no choice.
_BEFORE: dict[str, Any] = {"summary": "mean", "delta": None, "rho": None, "mu": None}


def _first_invalid(stored: Stored) -> str | None:
    """A sentence about the first invalid field, or None."""
    for module in _ADD_KINDS:
        import_module(module)
    for name, default in _BEFORE.items():
        stored.setdefault(name, default)
    stored.setdefault("epsilon", None)
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
    return None


def _restored(stored: Stored) -> Release:
    manifold = parse_manifold(stored["manifold"])
    privacy = privacy_of(*(stored[name] for name in ("epsilon", "delta", "rho", "mu")))
    ball = None if stored["radius"] is None else Ball(manifold, stored["center"], stored["radius"])
    made = KINDS[stored["summary"]]
    statistic = made.statistic(stored, manifold, ball)
    value, vector = _stored_value(stored, made, statistic, manifold)
    kind, family = _MECHANISMS[stored["mechanism"]]
    cost = _stored_cost(stored)
    noise: Mechanism
    if kind is TangentMechanism:
        assert ball is not None
        noise = TangentMechanism(stored["scale"], family, cost, ball, stored["projected"])
    else:
        noise = IntrinsicMechanism(stored["scale"], family, cost, statistic.codomain, statistic.ball, stored["projected"])
        _check_law(noise)
    _check_consistent(stored, statistic, privacy, noise)
    return made.release(
        value=value,
        vector=vector,
        privacy=privacy,
        noise=noise,
        statistic=statistic,
        version=stored["geodp"],
        **{
            name: stored[name]
            for name in ("n", "sensitivity", "tolerance", "numerics", "grid", "dataset", "charge", "neighbours")
        },
    )


def _stored_value(stored: Stored, made: Kind, statistic: Statistic, manifold: Manifold) -> tuple[Array, Array | None]:
    """The value, and the vector that it was computed from if it was: then they must agree."""
    if made.value is None:
        return _stored_point(stored["value"], statistic.codomain), None
    vector = _stored_point(stored["vector"], statistic.codomain)
    value = made.value(statistic, vector)
    if isinstance(statistic, ProjectedMean):
        return _stored_point(stored["value"], manifold), vector
    shown = np.asarray(stored["value"], dtype=np.float64)
    if shown.shape != value.shape or not np.allclose(shown, value, rtol=1e-9, atol=1e-9 * float(np.abs(vector).max())):
        raise _InvalidField("its value must be the one that follows from its vector")
    return shown, vector


def _check_consistent(stored: dict[str, Any], statistic: Statistic, privacy: Privacy, noise: Mechanism) -> None:
    """Compare what is stored with what follows from the rest: the sensitivity, the cost of the noise, and the privacy."""
    apart, ball = stored["sensitivity"] + 2.0 * stored["tolerance"], statistic.ball
    if isinstance(noise, TangentMechanism):
        assert ball is not None
        apart = min(stretch_of_log(ball) * apart, 2.0 * ball.radius)
        true = tangent_cost(noise.manifold.dim, noise.family, apart / noise.scale)
    else:
        true = intrinsic_cost(noise.manifold, noise.family, apart / noise.scale)
    stated = noise.cost if isinstance(noise.cost, type(true)) else PureCost(noise.cost.epsilon)
    # the numbers of a receipt are rounded to floats, and tolerances were other ones in other versions
    enough = statistic.sensitivity(stored["n"] or 1) * (1.0 - 1e-9) <= stored["sensitivity"]
    if not (
        enough
        and stated.meets(privacy)
        and true.rho <= stated.rho * (1.0 + 1e-6)
        and true.epsilon <= stated.epsilon * (1.0 + 1e-6)
    ):
        raise ValueError("the cost, the noise and the sensitivity contradict each other")


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
        assert noise.law  # which exists only for some scales
    except ValueError:
        raise _InvalidField(f"there is no noise of its scale on {noise.manifold}") from None


def _stored_cost(stored: dict[str, Any]) -> Cost:
    if "cost" not in stored:
        return PureCost(float(stored["epsilon"]))
    return cost_from_dict({name: value for name, value in stored["cost"].items() if name != "spends"})


def _finite(value: float) -> float | None:
    """Infinity has no place in JSON: null says that there is no such bound."""
    return value if math.isfinite(value) else None
