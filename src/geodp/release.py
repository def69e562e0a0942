"""The path from private records to a release with a receipt: the only place where data, noise and budget meet.

A release checks the budget, computes the statistic, charges the budget, draws, and writes the receipt, in this order. A crash
after the charge loses budget, never privacy. If the number of records is private, it is drawn first, so the charge comes first.

*Persons.* All records of a person become one point or vector by a function of these records alone. It obeys the same bounds as a
record: a mean of points in a ball is in the ball, and a mean of vectors is no longer than the longest. So every theorem about
``n`` records holds for ``n`` persons.

*Private numbers* (``neighbours="add-remove"``). **Claim**: take a statistic of ``N`` members chosen at random out of ``n``, with
invalid members in place of missing ones. Besides the noisy count that gives ``N``, it costs no more under adding or removing a
member than under replacing one. *Proof.* Given ``N``, draw a random set of ``N`` from the longer list, of ``n + 1`` members. If
the new member is in it, replace it by one of the others that are left, at random, or by an invalid one if none is left: that is a
random set of ``N`` from the shorter list. So the two sets can be drawn together such that they differ by one replacement at most,
and a mixture of pairs that are each private is private. Under a replacement the number does not change, so neither does the law
of ``N``, and sets of the same positions differ by one replacement at most. All of this holds given ``N``, which is released.

*Groups.* If labels are public, a replacement stays in its group, and the releases of all other groups do not change: all together
cost as much as one (McSherry 2009). If they are private, adding or removing a member changes one group, and replacing one may
change two, in each of which a member is added or removed: that costs as much as two releases.

*Persons in all groups* (``unit_in="all groups"``). The release of a group is a function of the persons' records in that group
alone, and each of ``G`` groups gets a ``G``-th of the privacy. **Claim**: all together cost no more than the privacy. *Proof.*
Replacing one person replaces, in each group, at most one member by another; if labels are private it may also add one or remove
one. Each release protects that at its part of the privacy, with a noise of its own. Sequential composition of ``G`` releases adds
up the parts: epsilons and deltas, rhos, and squares of mu, of which a ``G``-th is ``mu/sqrt(G)``.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from random import Random
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar, Unpack, final, overload

import numpy as np
from numpy.typing import ArrayLike

from geodp.arithmetic.entropy import NotPrivate
from geodp.inputs import Array, as_numpy, callers_level, is_line, real_number, refuse_unreadable
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball, checked_ball
from geodp.manifolds.notation import Notation
from geodp.measurement import Measurement
from geodp.noise.choice import MechanismName
from geodp.noise.flat import Family
from geodp.noise.mechanism import Draw, Mechanism
from geodp.privacy.cost import Cost, cost_of
from geodp.privacy.neighbours import REPLACE_ONE, Unit, add_or_remove_one, change_one, replace_one
from geodp.privacy.notions import Privacy, privacy_of
from geodp.privacy.splitting import halves, one_of
from geodp.progress import Progress
from geodp.receipt import (
    EXACT,
    KINDS,
    SIMULATED,
    CoverageRelease,
    GroupedRelease,
    Name,
    ProjectedRelease,
    Release,
    cost_of_groups,
    cost_of_parts,
    groups_touched,
    parts_of,
    used,
)
from geodp.records.chunks import hiding_error_text
from geodp.records.dataset import Change, Dataset, DatasetOptions, Labels, Members
from geodp.solver.passes import reproducible
from geodp.statistics.counts import Count, Coverage
from geodp.statistics.mean import FrechetMean
from geodp.statistics.projected import ProjectedMean
from geodp.statistics.sensitivity import Bound
from geodp.statistics.statistic import ClaimedSummary, Statistic

if TYPE_CHECKING:
    from geodp.privacy.ledger import Ledger

T = TypeVar("T")


class Options(TypedDict, total=False):
    """The keyword arguments of every ``private_*`` function besides the privacy and the data set: a budget to charge."""

    ledger: Ledger | None
    dataset: str | None
    simulate: np.random.Generator | None
    unit: Any
    neighbours: Change


class MeanOptions(Options, total=False):
    """Further keyword arguments of :func:`private_mean`."""

    mechanism: MechanismName
    law: Family | None
    bound: Bound
    project: bool | None
    coverage: float
    progress: Progress | bool | None


# ---------------------------------------------------------------------- releasing


@overload
def private_mean(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    **options: Unpack[MeanOptions],
) -> Release: ...


@overload
def private_mean(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    by: Any,
    groups: Any = None,
    labels: Labels = "public",
    **options: Unpack[MeanOptions],
) -> GroupedRelease: ...


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
    coverage: float = 0.0,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    project: bool | None = None,
    simulate: np.random.Generator | None = None,
    progress: Progress | bool | None = None,
    **who: Unpack[DatasetOptions],
) -> Release | GroupedRelease:
    r"""The Fréchet mean of records in a public ball, released with differential privacy.

    *Public*: the manifold, the ball, the number of records, the privacy and all other arguments. *Private*: the values of the
    records. *Neighbours*: data sets of the same size that differ by replacing one record. ``who`` can change this: a person may
    have several records, their number may be private too, and they may be in groups. :mod:`geodp.release` has the proofs.

    Every record is clipped into the ball by itself (a record that is not a point of the manifold becomes the centre). The mean of
    the clipped records is computed to a public tolerance, and noise is added. :func:`geodp.sensitivity` says how far one record
    can move the mean; :mod:`geodp.noise.intrinsic` and :mod:`geodp.noise.tangent` prove that the noise is enough. A
    program over exact real numbers draws the noise from the operating system's entropy, and the released value is a function of
    that draw rounded to a public grid (:mod:`geodp.noise.exact`).

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
        ``"laplace"`` or ``"gaussian"``. By default the mechanism with the smallest guaranteed expected error that provides the
        privacy; :func:`geodp.plan` lists them all.
    bound
        The sensitivity bound, see :func:`geodp.sensitivity`.
    coverage
        A part of the privacy, such as 0.05, to spend on noisy counts of the records that are valid and in the ball
        (:func:`private_coverage`). Without it the release does not say how many there are.
    ledger, dataset
        A budget to charge. It is checked before any long work. The charge is made after the mean
        and before the draw: a crash in between loses budget, never privacy. If the ledger cannot store the receipt after that,
        the release is still returned, with a warning.
    project
        Whether to move a draw outside the ball to its boundary. By default that is done if it cannot
        increase the error: for tangent noise always; for intrinsic noise on simply connected spaces without positive curvature
        and on spheres up to a third of the way round.
    simulate
        A generator for fast seeded floating-point draws, for studies. The result is then NOT PRIVATE.
    progress
        As for :func:`geodp.frechet_mean`. Its arguments depend on the data and must not be published.
    who
        ``unit``, ``neighbours``, ``by``, ``groups`` and ``labels``, as for :class:`geodp.Dataset`; or give a data set for ``x``.
        With ``by`` the result is a :class:`geodp.GroupedRelease`: a mapping from the names of the groups to their releases.

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
    data = Dataset.of(x, who)
    _check_options(project, simulate)
    statistic = FrechetMean(ball, bound, persons=data.unit is not None)
    order = Order(statistic, privacy, mechanism, law, _flag(project), checked_share(coverage))
    return released(order, data, ledger, dataset, simulate, progress)


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
    r"""Your own summary, a point of a manifold, released with differential privacy.

    *Public*: the manifold and all arguments but ``value``. *Private*: ``value``, a summary ``f(D)`` of a data set ``D``.
    *Neighbours*: those of your claim, which you name in ``neighbours``. **Your claim**: ``dist(f(D), f(D')) <= sensitivity``
    for all neighbours ``D`` and ``D'``, in the geodesic distance of the manifold, including the numerical error of the computed
    values. The library cannot check this; you must. The receipt says so.

    *Theorem*: under that claim, Theorem 1 of Reimherr, Bharath and Soto (2021) for intrinsic Laplace noise, and the theorems of
    :mod:`geodp.noise.intrinsic` and :mod:`geodp.noise.tangent` for the others.

    Parameters
    ----------
    value
        One point of the manifold. Anything else raises a ``ValueError``, and nothing is charged.
    sensitivity
        Your claim.
    epsilon, delta, rho, mu, mechanism, law, ledger, dataset, simulate
        As for :func:`private_mean`.
    base, radius
        For tangent noise, on spaces without positive curvature: a second claim, that the value is within ``radius`` of the public
        point ``base`` for every data set. A value outside raises a ``ValueError``. Without them only intrinsic noise is
        available. ``base`` is the manifold's origin by default.
    neighbours
        The kind of neighbours of the claim. A ledger refuses a charge for another kind than its budget's.

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
        raise ValueError("neighbours must be a line of text that names them")
    order = Order(statistic, privacy, mechanism, law, neighbours=neighbours)
    noise = order.measurement(1).noise
    refuse_unreadable(value, "the value")
    array = _one_array(value, manifold)
    point = computed(lambda: _one_point(array, statistic, noise))
    account.check_open()
    return _one_release(_Job(order, None, simulate, true=point), account)


@overload
def private_coverage(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    **options: Unpack[Options],
) -> CoverageRelease: ...


@overload
def private_coverage(
    x: Any,
    ball: Ball,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    by: Any,
    groups: Any = None,
    labels: Labels = "public",
    **options: Unpack[Options],
) -> GroupedRelease: ...


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
    **who: Unpack[DatasetOptions],
) -> Release | GroupedRelease:
    r"""How many records are valid, and how many are in the ball: noisy counts, released with differential privacy.

    *Public*: the ball, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same size that
    differ by replacing one record. *Theorem*: one record changes each count by at most 1, so the pair moves by at most the
    root of two (:class:`geodp.statistics.counts.Coverage`), and Laplace or Gaussian noise in the plane hides it
    (:mod:`geodp.noise.intrinsic`, the flat case).

    In this way a curator may learn that a whole column was read wrongly, or that the ball does not fit. Arguments are those of
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
    order = Order(Coverage(ball), privacy_of(epsilon, delta, rho, mu))
    return released(order, Dataset.of(x, who), ledger, dataset, simulate)


@overload
def private_projected_mean(
    x: Any,
    manifold: Manifold,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    **options: Unpack[Options],
) -> ProjectedRelease: ...


@overload
def private_projected_mean(
    x: Any,
    manifold: Manifold,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    by: Any,
    groups: Any = None,
    labels: Labels = "public",
    **options: Unpack[Options],
) -> GroupedRelease: ...


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
    **who: Unpack[DatasetOptions],
) -> Release | GroupedRelease:
    r"""The projected mean of records on a compact space. It needs no ball, and the records may be anywhere.

    *Public*: the manifold, the number of records, the privacy. *Private*: the records. *Neighbours*: data sets of the same
    size that differ by replacing one record. *Theorem*: the records are averaged as vectors of a space around the manifold,
    where one record moves the mean by at most the diameter of the manifold over ``n``
    (:class:`geodp.statistics.projected.ProjectedMean`). Laplace or Gaussian noise is added to that vector, and the nearest point
    of the manifold is computed from the result. Records that are not points of the manifold count as its origin.

    The error bar is computed from the release itself: if the records agree, the mean vector is long and the same noise turns it
    less. Arguments are those of :func:`private_mean`.

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
    assert statistic.embedding  # raises if the manifold has none
    order = Order(statistic, privacy_of(epsilon, delta, rho, mu))
    return released(order, Dataset.of(x, who), ledger, dataset, simulate)


def _summary_ball(manifold: Manifold, base: ArrayLike | None, radius: float | None) -> Ball | None:
    if radius is None:
        if base is not None:
            raise ValueError("a base point needs a radius about it that contains the value: give both or neither")
        return None
    if not math.isinf(manifold.injectivity_radius):
        raise ValueError(
            f"tangent noise for summaries is for spaces without positive curvature, which {manifold} is not: leave out base and "
            "radius"
        )
    return Ball(manifold, manifold.origin if base is None else base, radius)


def _one_array(value: ArrayLike, manifold: Manifold) -> Array:
    """The value as floats of the shape of a point; nothing else is looked at."""
    with hiding_error_text():
        array = np.asarray(as_numpy(value))
    point = manifold.read(array, "the value")
    if point.shape != manifold.point_shape:
        raise ValueError(f"the value has shape {point.shape}, but one point of {manifold} has shape {manifold.point_shape}")
    return point


def _one_point(point: Array, statistic: ClaimedSummary, noise: Mechanism) -> Array:
    """The point that the value describes. It is private, so no message quotes it."""
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
        # the exact sampler may refuse a value that passes in floats, such as a nearly singular matrix: find out before the charge
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
        """The account; raises if the arguments do not fit together."""
        if (ledger is None) != (dataset is None):
            raise ValueError("a ledger and the name of a data set in it go together: give both or neither")
        if ledger is not None and not _is_ledger(ledger):
            raise TypeError(f"the ledger must be a Ledger but is of type {type(ledger).__name__}: open it with geodp.Ledger(url)")
        if ledger is not None and simulate is not None:
            raise ValueError("a simulation is not private and spends no budget: leave out the ledger or simulate")
        return cls(ledger, dataset)

    def check_open(self) -> None:
        """Checks, before any work, that there is such a budget."""
        if self.ledger is not None and self.dataset is not None:
            self.ledger.remaining(self.dataset)

    def check(self, cost: Cost, privacy: Privacy, neighbours: str = REPLACE_ONE) -> None:
        """Raises, before long work, if the charge would be refused now. Only the charge itself decides."""
        if self.ledger is not None and self.dataset is not None:
            self.ledger.check(self.dataset, cost=cost, privacy=privacy, neighbours=neighbours)

    def charge(self, cost: Cost, privacy: Privacy, what: str, neighbours: str = REPLACE_ONE) -> int | None:
        """The number of the charge, which is on disk when this returns."""
        if self.ledger is None or self.dataset is None:
            return None
        purpose = shorten(what, 500, placeholder=" ...")
        return self.ledger.charge(self.dataset, cost=cost, privacy=privacy, neighbours=neighbours, what=purpose).id

    def attach(self, charge: int | None, receipt: Callable[[], str]) -> None:
        """Stores the receipt with its charge. The budget is spent and the value drawn, so a failure must not lose the value."""
        if self.ledger is None or charge is None:
            return
        try:
            self.ledger.attach(charge, receipt())
        except Exception as error:
            # quote only what happened: the ledger's advice, to try again, would be wrong here
            from geodp.privacy.ledger import LedgerError

            why = str(error).partition(": ")[0] if isinstance(error, LedgerError) else type(error).__name__
            with warnings.catch_warnings():
                warnings.simplefilter("always")  # a warning turned into an error would lose the value
                warnings.warn(
                    f"charge {charge} is entered and the release is made, but its receipt could not be kept in the ledger "
                    f"({why}). Do not release again: store this one with ledger.attach(release.charge, release.to_json())",
                    stacklevel=callers_level(),
                )


# ---------------------------------------------------------------------- the path


@final
@dataclass(frozen=True)
class Order:
    """A request for a release: everything except the records, and all of it public."""

    statistic: Statistic
    privacy: Privacy
    mechanism: MechanismName = "auto"
    law: Family | None = None
    project: bool | None = None
    coverage: float = 0.0
    #: Whether the number of records is private, so that a noisy count takes its place.
    counted: bool = False
    unit: Unit = "record"
    neighbours: str = REPLACE_ONE
    #: How the records were written, if they were read from columns.
    written: Notation | None = None

    @property
    def manifold(self) -> Manifold:
        place = self.statistic.place
        return place.manifold if isinstance(place, Ball) else place

    @property
    def own(self) -> Privacy:
        """The part of the privacy that is spent on the statistic itself."""
        return parts_of(self.privacy, self.counted, self.coverage)[1]

    @cached_property
    def count(self) -> Order | None:
        """The noisy count, if there is one."""
        parts = parts_of(self.privacy, self.counted, self.coverage)[0]
        return self._part(Count(), parts[0]) if self.counted else None

    @cached_property
    def cover(self) -> Order | None:
        """The coverage, if it was asked for."""
        parts = parts_of(self.privacy, self.counted, self.coverage)[0]
        ball = self.statistic.ball
        return self._part(Coverage(ball), parts[-1]) if self.coverage and ball is not None else None

    def _part(self, statistic: Statistic, privacy: Privacy) -> Order:
        return Order(statistic, privacy, unit=self.unit, neighbours=self.neighbours)

    def measurement(self, n: int) -> Measurement:
        # cached, because many groups have the same number of members
        if n not in self._made:
            options = self.mechanism, self.law, self.project, self.neighbours
            self._made[n] = Measurement(self.statistic, n, self.own, *options)
        return self._made[n]

    @cached_property
    def _made(self) -> dict[int, Measurement]:
        return {}

    def cost(self, n: int) -> Cost:
        """The cost of a release about ``n`` members; if ``n`` is private, a cost that holds for every number."""
        own = cost_of(self.own) if self.counted else self.measurement(n).noise.cost
        parts = [part.cost(1) for part in (self.count, self.cover) if part is not None]
        return cost_of_parts([*parts, own], self.privacy)

    def check(self, n: int) -> None:
        """Raises if there is no noise for ``n`` members or, if that number is private, for no number of them."""
        if self.counted:
            self.least()
        else:
            self.measurement(n).check()

    def about(self, data: Dataset) -> Order:
        """The same order for these data: whom it protects."""
        counted = data.neighbours == "add-remove"
        return replace(self, unit=unit_of(data), counted=counted, neighbours=protected_neighbours(data))

    def of_group(self, data: Dataset, groups: int) -> Order:
        """What each group gets of an order about these data, of which there are this many groups."""
        if data.unit_in == "all groups":
            # a member that is replaced may change, enter or leave every group
            counted = data.labels == "private"
            neighbours = change_one(self.unit) if counted else self.neighbours
            return replace(self, privacy=one_of(self.privacy, groups), counted=counted, neighbours=neighbours)
        if data.labels == "public":
            return self
        # a record that changes its group leaves one group and enters another, so two releases must each protect it
        share = self.privacy if self.counted else halves(self.privacy)
        return replace(self, privacy=share, counted=True, neighbours=add_or_remove_one(self.unit))

    def least(self) -> int:
        """The smallest number of members for which there is noise. On compact spaces it may be more than one."""
        least = 1
        while True:
            try:
                self.measurement(least).check()
                return least
            except ValueError:
                least *= 2
                if least > 1 << 40:
                    raise


class _Job:
    """A release in progress: an order and its members. It is first computed, then charged, then drawn."""

    def __init__(
        self,
        order: Order,
        members: Members | None,
        simulate: np.random.Generator | None,
        progress: Progress | bool | None = None,
        true: Array | None = None,
    ) -> None:
        self.order, self.members, self.simulate, self.progress = order, members, simulate, progress
        self.n = 1 if members is None else members.count
        self.true = true
        self._count: Release | None = None
        self._least = order.least() if order.counted else 1  # raises before anything is charged

    @cached_property
    def cost(self) -> Cost:
        return self.order.cost(self._used)

    @property
    def _used(self) -> int:
        return self.n if self.members is None else self.members.count

    def resize(self) -> None:
        """Draws how many members to use, and drops some at random or adds invalid ones."""
        order, members = self.order, self.members
        assert members is not None
        assert order.count is not None
        self._count = self._drawn(order.count, np.array([float(members.count)]), n=None)
        self.n = used(self._count.noise, self._count.value, self._least)
        chance = secrets.SystemRandom() if self.simulate is None else Random(int(self.simulate.integers(2**63)))
        self.members = members.resized(self.n, chance)

    def compute(self, order: Order) -> Array:
        """The private value, to which noise will be added."""
        statistic: Any = order.statistic
        members = self.members
        assert members is not None
        more = (self.progress,) if isinstance(statistic, FrechetMean) else ()
        return computed(lambda: statistic.compute(members.source, members.count, *more))

    @property
    def measurement(self) -> Measurement:
        return self.order.measurement(max(1, self._used))

    def draw(self, account: Account, charge: int | None, drawn: Draw | None) -> Release:
        """The release with its noise, which is drawn now unless it is given."""
        order, cover = self.order, None
        if order.cover is not None:
            cover = self._drawn(order.cover, self.compute(order.cover))
        named = {"dataset": account.dataset, "charge": charge, "count": self._count}
        return self._drawn(order, self.true, drawn, **named, coverage=cover, coverage_share=order.coverage)

    def _drawn(self, order: Order, true: Array | None, drawn: Draw | None = None, **more: Any) -> Release:
        measurement = order.measurement(max(1, self._used))
        noise, simulate = measurement.noise, self.simulate
        assert true is not None
        value, grid = computed(lambda: _drawn(noise, true, simulate), said=()) if drawn is None else drawn
        kind = KINDS[order.statistic.kind]
        named = {"n": None if self.members is None else self.n, **more}
        return kind.release(
            value=value if kind.value is None else kind.value(order.statistic, value),
            vector=None if kind.value is None else value,
            privacy=order.privacy,
            noise=noise,
            statistic=order.statistic,
            sensitivity=measurement.sensitivity,
            tolerance=measurement.tolerance,
            numerics=EXACT if simulate is None else SIMULATED,
            grid=grid,
            neighbours=order.neighbours,
            unit=order.unit,
            written=order.written,
            **named,
        )


def released(
    order: Order, data: Dataset, ledger: Any, dataset: Any, simulate: Any, progress: Progress | bool | None = None
) -> Any:
    """The release that was ordered, or one for each group."""
    account = Account.of(ledger, dataset, simulate)
    _check_options(None, simulate)
    account.check_open()
    members = data.open(order.manifold)
    whole = replace(order.about(data), written=members.dataset.notation(order.manifold))
    if data.by is None:
        return _one_release(_Job(whole, members, simulate, progress), account)
    groups = members.groups()
    order = whole.of_group(data, len(groups))
    jobs: dict[Any, _Job] = {name: _Job(order, members.select(keep), simulate) for name, keep in groups.items()}
    for job in jobs.values():
        if job.n == 0 and not order.counted:
            # a public group without records: its release says nothing, and that is public
            job.members = members.select(np.arange(0), 1)
    return _group_releases(jobs, whole, data, account)


def unit_of(data: Dataset) -> Unit:
    """What each of ``n`` is."""
    return "record" if data.unit is None else "person"


def protected_neighbours(data: Dataset) -> str:
    """The neighbours that a release of these records is about; if it is by group, that of all groups together."""
    unit = unit_of(data)
    if data.neighbours == "replace":
        return replace_one(unit)
    return change_one(unit) if data.by is None or data.unit_in == "all groups" else add_or_remove_one(unit)


def _one_release(job: _Job, account: Account) -> Release:
    order = job.order
    charge, (release,) = _releases([job], job.cost, order, f"{order.statistic.kind} on {order.manifold}", account)
    account.attach(charge, release.to_json)
    return release


def _group_releases(jobs: dict[Name, _Job], whole: Order, data: Dataset, account: Account) -> GroupedRelease:
    touched = groups_touched(data.unit_in, next(iter(jobs.values())).order.privacy != whole.privacy, len(jobs))
    cost = cost_of_groups([job.cost for job in jobs.values()], whole.privacy, touched)
    what = f"{whole.statistic.kind} on {whole.manifold} of {len(jobs)} groups"
    charge, releases = _releases(list(jobs.values()), cost, whole, what, account)
    named = dict(zip(jobs, releases, strict=True))
    release = GroupedRelease(named, whole.privacy, whole.neighbours, account.dataset, charge, unit_in=data.unit_in)
    account.attach(charge, release.to_json)
    return release


def _releases(jobs: list[_Job], cost: Cost, whole: Order, what: str, account: Account) -> tuple[int | None, list[Release]]:
    """Checks the budget, computes, charges, draws. If the numbers of members are private, they are drawn first."""
    if jobs[0].simulate is not None:
        with reproducible():
            return _made(jobs, cost, whole, what, account)
    return _made(jobs, cost, whole, what, account)


def _made(jobs: list[_Job], cost: Cost, whole: Order, what: str, account: Account) -> tuple[int | None, list[Release]]:
    account.check(cost, whole.privacy, whole.neighbours)
    counted = jobs[0].order.counted
    if not counted:
        _compute(jobs)
    charge = account.charge(cost, whole.privacy, what, whole.neighbours)
    if counted:
        for job in jobs:
            job.resize()
        _compute(jobs)
    return charge, [job.draw(account, charge, drawn) for job, drawn in zip(jobs, _draws(jobs), strict=True)]


def _draws(jobs: list[_Job]) -> list[Draw | None]:
    """Exact draws for many jobs, made together for equal noise. A single job and simulations draw by themselves."""
    drawn: list[Draw | None] = [None] * len(jobs)
    if len(jobs) == 1 or jobs[0].simulate is not None:
        return drawn
    alike: dict[int, list[int]] = {}
    for i, job in enumerate(jobs):
        alike.setdefault(id(job.measurement), []).append(i)
    for places in alike.values():
        noise, values = jobs[places[0]].measurement.noise, np.stack([true for i in places if (true := jobs[i].true) is not None])
        for i, draw in zip(places, computed(partial(noise.draw_each, values), said=()), strict=True):
            drawn[i] = draw
    return drawn


def _compute(jobs: list[_Job]) -> None:
    """Computes the private value of every job. Means of many groups are computed together, which is much faster."""
    statistic = jobs[0].order.statistic
    arrays = [job.members.source for job in jobs if job.members is not None]
    if len(jobs) > 1 and isinstance(statistic, FrechetMean) and all(isinstance(array, np.ndarray) for array in arrays):
        points = computed(lambda: statistic.compute_each(arrays))
        for job, point in zip(jobs, points, strict=True):
            job.true = point
        return
    for job in jobs:
        if job.true is None:
            job.true = job.compute(job.order)


def checked_share(share: Any) -> float:
    value = real_number(share, "the part of the privacy for coverage")
    if not 0.0 <= value <= 0.5:
        raise ValueError(f"the part of the privacy for coverage must be from 0 to 0.5 but is {value:g}: 0.05 is usual")
    return value


def _drawn(noise: Mechanism, true: Array, simulate: np.random.Generator | None) -> tuple[Array, float | None]:
    return noise.draw(true) if simulate is None else (noise.simulate(true, 1, simulate)[0], None)


def computed(compute: Callable[[], T], said: tuple[type[Exception], ...] = (ValueError,)) -> T:
    """The result of ``compute``. If it fails, the text of the exception is hidden, because it may quote data.

    The text is shown only for exceptions in ``said``, which quote public things: the shape or the number of records, the kind of
    a failure to read them.
    """
    try:
        # if the caller has set floating-point errors to raise, the underflow of one record would raise
        with np.errstate(all="ignore"):
            return compute()
    except np.linalg.LinAlgError as error:  # a ValueError, but not one of geodp
        raise RuntimeError(_HIDDEN.format(type(error).__name__)) from None
    except said:
        raise
    except Exception as error:
        raise RuntimeError(_HIDDEN.format(type(error).__name__)) from None


_HIDDEN = "the release failed with {}; its text is hidden because it may hold data"


def _check_options(project: Any, simulate: Any) -> None:
    if simulate is not None and not isinstance(simulate, np.random.Generator):
        raise TypeError(f"simulate must be a numpy.random.Generator but is of type {type(simulate).__name__}")
    if not isinstance(project, bool | np.bool_ | None):
        raise TypeError(f"project must be True, False or None but is of type {type(project).__name__}")


def _flag(project: Any) -> bool | None:
    return None if project is None else bool(project)


def _is_ledger(ledger: Any) -> bool:
    from geodp.privacy.ledger import Ledger  # slow to import

    return isinstance(ledger, Ledger)
