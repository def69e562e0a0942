"""The path from private records to a release with a receipt: the only place where records, noise and budget meet.

``run`` checks the budget, computes the first values, charges the budget, draws, and writes the receipt, in this order. A
crash after the charge loses budget, never privacy. What needs several looks at the records computes the later values after the
charge.

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

*People in several groups* (``unit_in="all groups"``). In each group a person counts with the records of that group. A replaced
person may change the release of every group, by a replacement if labels are public, and otherwise by being added, removed or
replaced, which each release with a noisy count protects at the same cost. So this is a composition of as many releases as there
are groups, each with an equal part of the privacy.

*Several looks.* Each plan of a program, and each request of a chain, is a function of public numbers and of what was drawn
before, so this is an adaptive composition, and costs add up. The whole price is known beforehand: the steps of a program declare
their costs, and a request of a chain has a part of the privacy and costs no more than that. It is charged once, before the first
draw.
"""

from __future__ import annotations

import inspect
import secrets
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial, wraps
from random import Random
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple, Required, TypedDict, TypeVar, cast

import numpy as np

from geodp.inputs import Array, callers_level
from geodp.privacy.cost import Cost, cost_of
from geodp.privacy.neighbours import Change, Unit
from geodp.privacy.notions import privacy_of
from geodp.privacy.splitting import multiple
from geodp.progress import Progress
from geodp.receipt import ChainRelease, GroupedRelease, Receipt, Release
from geodp.records.dataset import Dataset, DatasetOptions, GroupNames, MemberOptions, Members
from geodp.request import Flow, NoiseOptions, Plan, PrivacyOptions, Request, Resize, Statistic, follow
from geodp.solver.compiling import reproducible

if TYPE_CHECKING:
    from geodp.privacy.ledger import Ledger

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class AccountOptions(TypedDict, total=False):
    """A budget to charge, or a generator for a simulation, which is NOT PRIVATE."""

    ledger: Ledger | None
    dataset: str | None
    simulate: np.random.Generator | None


class Options(PrivacyOptions, AccountOptions, MemberOptions, total=False):
    """The keyword arguments of every ``private_*`` function about records.

    ``epsilon``, ``delta``, ``rho``, ``mu``: the privacy to spend: exactly one of ``epsilon`` (pure), ``epsilon`` and ``delta``,
    ``rho`` (zero-concentrated) or ``mu`` (Gaussian); see :mod:`geodp.privacy.notions`. ``ledger``, ``dataset``: a budget to
    charge; see :class:`Account`. ``simulate``: a generator for fast seeded draws, for studies; the result is then NOT PRIVATE.
    The others say whose the records are, and are those of :class:`geodp.Dataset`.
    """


class GroupedOptions(Options, GroupNames, total=False):
    """With them, the groups."""

    by: Required[Any]


def takes(*options: type[Any], **defaults: Any) -> Callable[[F], F]:
    """Gives a function with ``**options`` a signature with all of them, and one sentence for a misspelt one."""
    defaults = _DEFAULTS | defaults
    hints = {name: hint for each in options for name, hint in each.__annotations__.items()}

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        named = {name: each for name, each in own.parameters.items() if each.kind is not inspect.Parameter.VAR_KEYWORD}
        more = {
            name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=hint)
            for name, hint in hints.items()
            if name not in named
        }
        known = {**named, **more}

        @wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            for name in given:
                if name not in known:
                    near = get_close_matches(name, known, 1)
                    hint = f"did you mean {near[0]}?" if near else f"its options are {', '.join(known)}"
                    called = function.__qualname__.removesuffix(".__init__")
                    raise TypeError(f"{called} has no option {name!r}: {hint}")
            return function(*args, **given)

        cast(Any, checked).__signature__ = own.replace(parameters=list(known.values()))
        return cast(F, checked)

    return decorate


#: Options that are not None if nothing is said.
_DEFAULTS = {"neighbours": "replace", "labels": "public", "unit_in": "one group", "mechanism": "auto"}


class Unread(NamedTuple):
    """In place of records: a ``private_*`` function then gives its request, and releases nothing."""

    unit: Unit = "record"
    neighbours: Change = "replace"


def release(statistic: Statistic, x: Any, epsilon: float | None, options: Mapping[str, Any], **more: Any) -> Any:
    """The release of a statistic of some records, with the options of a ``private_*`` function."""
    own = dict(options)
    privacy = privacy_of(epsilon, *(own.pop(name, None) for name in ("delta", "rho", "mu")))
    noise = {name: own.pop(name) for name in NoiseOptions.__annotations__ if name in own}
    account = Account.of(own.pop("ledger", None), own.pop("dataset", None), simulate := own.pop("simulate", None))
    progress = more.pop("progress", None)
    if isinstance(x, Unread):
        return Request(statistic, privacy, **noise, **more, **x._asdict())
    data = Dataset.of(x, cast(DatasetOptions, own))
    return run(Request(statistic, privacy, **noise, **more, **protection(data)), data, account, simulate, progress)


def release_of(
    request: Request, x: Any, ledger: Any = None, dataset: Any = None, simulate: Any = None, progress: Any = None, **who: Any
) -> Any:
    """:meth:`geodp.Request.release`."""
    data = Dataset.of(x, cast(DatasetOptions, who))
    for name, given in protection(data).items():
        if given != (asked := getattr(request, name)):
            raise ValueError(f"the request is made with {name}={asked!r}, but the data say {given!r}: make both the same")
    return run(request, data, Account.of(ledger, dataset, simulate), simulate, progress)


def protection(data: Dataset) -> dict[str, Any]:
    """Whom releases of these data protect, as a request says it."""
    unit: Unit = "record" if data.unit is None else "person"
    return {"unit": unit, "neighbours": data.neighbours, "labels": None if data.by is None else data.labels}


# ---------------------------------------------------------------------- the budget


class Account(NamedTuple):
    """The budget that a release is charged to, if any.

    It is checked before any long work. The charge is made after the first values are computed and before the first draw: a crash
    in between loses budget, never privacy. If the ledger cannot store the receipt after that, the release is still returned, with
    a warning.
    """

    ledger: Ledger | None
    dataset: str | None
    #: Counts what is charged to no ledger, if anybody does.
    fits: Any = None

    @classmethod
    def of(cls, ledger: Any, dataset: Any, simulate: Any) -> Account:
        """The account; raises if the arguments do not fit together."""
        if simulate is not None and not isinstance(simulate, np.random.Generator):
            raise TypeError(f"simulate must be a numpy.random.Generator but is of type {type(simulate).__name__}")
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

    def check(self, cost: Cost, request: Request) -> None:
        """Raises, before long work, if the charge would be refused now. Only the charge itself decides."""
        if self.ledger is not None and self.dataset is not None:
            self.ledger.check(self.dataset, cost=cost, privacy=request.privacy, neighbours=request.protects)
        elif self.fits is not None:
            self.fits.check(cost)

    def charge(self, cost: Cost, request: Request, what: str) -> int | None:
        """The number of the charge, which is on disk when this returns."""
        if self.fits is not None:
            self.fits.add(cost)
        if self.ledger is None or self.dataset is None:
            return None
        purpose = shorten(what, 500, placeholder=" ...")
        whom = request.protects
        return self.ledger.charge(self.dataset, cost=cost, privacy=request.privacy, neighbours=whom, what=purpose).id

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


def _is_ledger(ledger: Any) -> bool:
    from geodp.privacy.ledger import Ledger  # slow to import

    return isinstance(ledger, Ledger)


# ---------------------------------------------------------------------- the path


def run(
    request: Request,
    data: Dataset | Given,
    account: Account,
    simulate: np.random.Generator | None = None,
    progress: Progress | bool | None = None,
) -> Any:
    """The release that was requested, or one for each group."""
    account.check_open()
    members = data.open(request.manifold)
    groups = _groups(members) if request.labels else {None: (members, members.count)}
    if request.labels and data.unit_in == "all groups":  # type: ignore[union-attr]  # a given value has no groups
        request = replace(request, divided=len(groups))
    sizes = tuple(1 if request.hides_numbers else part.count for part, _ in groups.values())
    written = None if isinstance(data, Given) else members.dataset.notation(request.manifold)
    charges: list[int | None] = []

    def release(step: Request) -> Receipt | GroupedRelease:
        each = step.of_group if step.labels else step
        parts = groups if step.labels == request.labels else {None: _together(data, step)}
        runs = {name: _Run(each, part, n, simulate) for name, (part, n) in parts.items()}
        if not charges:
            account.check(cost := request.price(sizes), request)
        values = _compute(list(runs.values()), progress)
        if not charges:
            by_group = f" of {len(groups)} groups" if request.labels else ""
            charges.append(account.charge(cost, request, f"{request.statistic.purpose}{by_group}"))
        while waiting := [one for one in runs.values() if one.plans]:
            for one, own in zip(waiting, values or _compute(waiting, progress), strict=True):
                one.draw(own)
            values = []
        found: dict[Any, Receipt] = {name: one.receipt(account.dataset, charges[0], written) for name, one in runs.items()}
        return GroupedRelease(step, found, account.dataset, charges[0]) if step.labels else found[None]

    with nullcontext() if simulate is None else reproducible():
        releases = follow(request.statistic.steps(request, sizes), release)
    made = ChainRelease(request, tuple(releases)) if request.statistic.chain else releases[0]
    account.attach(charges[0], made.to_json)
    return made


def prepay(request: Request, times: int, account: Account, what: str) -> None:
    """Charges so many releases at once, before the first of them; they are then made without an account.

    Each member of the data must be in at most so many of them, and in which must not depend on the records. Then the others do
    not change with it, and those it is in are a composition.
    """
    account.check_open()
    whole = replace(request, privacy=multiple(request.privacy, times))
    account.charge(cost_of(whole.privacy), whole, what)


@dataclass(frozen=True, eq=False)
class Given:
    """A value that the caller computed, in place of records."""

    source: Array
    count: int = 1

    def open(self, manifold: Any) -> Any:
        return self


def _groups(members: Members) -> dict[Any, tuple[Members, int]]:
    """The members of each group, and their number. A public group without any gets one invalid member, and says nothing."""
    padding = 1 if members.dataset.labels == "public" else 0
    return {name: (members.select(keep, 0 if len(keep) else padding), len(keep)) for name, keep in members.groups().items()}


def _together(data: Any, step: Request) -> tuple[Members, int]:
    """The members of all groups together, for a step of a chain that is not by group."""
    members = data.without_groups().open(step.manifold)
    return members, members.count


class _Run:
    """A request on its way: the members, the plans that wait for their draws, and what was drawn."""

    def __init__(self, request: Request, members: Any, n: int, simulate: np.random.Generator | None) -> None:
        request.check(members.count)
        self.request, self.members, self.n, self.simulate = request, members, n, simulate
        self.draws: list[Array] = []
        self.plans: tuple[Plan, ...] = ()
        self.made: Any = None
        self._flow: Flow = request.flow(self.n)
        self._advance(None)

    def _advance(self, drawn: list[Array] | None) -> None:
        try:
            asked = self._flow.send(cast(Any, drawn))
            while isinstance(asked, Resize):
                chance = secrets.SystemRandom() if self.simulate is None else Random(int(self.simulate.integers(2**63)))
                self.n = asked.n
                self.members = self.members.resized(self.n, chance)
                asked = next(self._flow)
            self.plans = asked
        except StopIteration as end:
            self.plans, self.made = (), end.value

    def compute(self, plan: Plan, progress: Progress | bool | None) -> Any:
        """The value of a waiting plan."""
        return hide_errors(partial(plan.statistic.compute, self.members.source, self.members.count, progress))

    def draw(self, values: list[Any]) -> None:
        """Hides the values of the waiting plans, and goes on."""
        drawn = [
            hide_errors(partial(_draw, plan, value, self.simulate), show=())
            for plan, value in zip(self.plans, values, strict=True)
        ]
        self.draws += drawn
        hide_errors(partial(self._advance, drawn), show=())

    def receipt(self, dataset: str | None, charge: int | None, written: Any) -> Receipt:
        kind = self.request.statistic.release or Release
        n = self.n if self.request.statistic.of_records else None
        simulated = self.simulate is not None
        found: Receipt = kind(self.request, n, tuple(self.draws), simulated, dataset, charge, written, made=self.made)
        return found


def _draw(plan: Plan, value: Any, simulate: np.random.Generator | None) -> Array:
    noise = plan.noise
    found: Array = noise.draws([value])[0] if simulate is None else noise.simulations([value], simulate)[0]
    return found


def _compute(runs: list[_Run], progress: Progress | bool | None) -> list[list[Any]]:
    """The values of all waiting plans. Those of many groups are computed together where that is faster."""
    sources = [one.members.source for one in runs]
    values: list[list[Any]] = [[] for _ in runs]
    for i, first in enumerate(runs[0].plans):
        alike = all(len(one.plans) == len(runs[0].plans) and one.plans[i].statistic == first.statistic for one in runs)
        together = None
        if len(runs) > 1 and alike and all(isinstance(source, np.ndarray) for source in sources):
            together = hide_errors(partial(first.statistic.compute_each, sources))
        if together is None:
            return [[one.compute(plan, progress) for plan in one.plans] for one in runs]
        for own, value in zip(values, together, strict=True):
            own.append(value)
    return values


def hide_errors(compute: Callable[[], T], show: tuple[type[Exception], ...] = (ValueError,)) -> T:
    """The result of ``compute``. If it fails, the text of the exception is hidden, because it may quote data.

    The text is shown only for exceptions in ``show``, which quote public things: the shape or the number of records, the kind of
    a failure to read them.
    """
    try:
        # if the caller has set floating-point errors to raise, the underflow of one record would raise
        with np.errstate(all="ignore"):
            return compute()
    except np.linalg.LinAlgError as error:  # a ValueError, but not one of geodp
        raise RuntimeError(_HIDDEN.format(type(error).__name__)) from None
    except show:
        raise
    except Exception as error:
        raise RuntimeError(_HIDDEN.format(type(error).__name__)) from None


_HIDDEN = "the release failed with {}; its text is hidden because it may hold data"
