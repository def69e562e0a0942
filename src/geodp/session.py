"""A session: private records, the budget of their releases, and what was released, in one object."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from decimal import Decimal
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, Self, TypeVar, Unpack, cast, final, overload

from numpy.typing import ArrayLike

from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.planning import plan
from geodp.privacy.amounts import Number
from geodp.privacy.ledger import Budget, Charge, EpsilonDelta, Ledger
from geodp.programs.ball import BallRelease, private_ball
from geodp.programs.chain import ChainPlan, plan_chain
from geodp.programs.kmeans import private_kmeans
from geodp.programs.median import private_median
from geodp.receipt import ChainRelease, Release, receipt_from_json
from geodp.records.dataset import Dataset, DatasetOptions
from geodp.release import COVERAGE, Account, AccountOptions, protection, takes
from geodp.request import Count, Plan, Request
from geodp.showing import Row, Shown, as_html, table_html
from geodp.statistics.average import private_average
from geodp.statistics.covariance import private_covariance
from geodp.statistics.coverage import private_coverage
from geodp.statistics.mean import private_mean
from geodp.statistics.summary import private_summary
from geodp.statistics.variance import private_variance
from geodp.table import TABLE, Entry

P = ParamSpec("P")
R = TypeVar("R")

#: What a method takes in place of the records and of where they are.
_PLACES: dict[str, tuple[str, ...]] = {"ball": ("ball",), "start": ("radius", "center"), "manifold": ()}
_NO_BALL = "no ball was found yet: find one with session.ball(), or give ball=, chosen without looking"
#: Options that a session gives itself.
_OWN = {*AccountOptions.__annotations__, *DatasetOptions.__annotations__} - {"anyway"}


class Method(Generic[P, R]):
    """A ``private_*`` function as a method of sessions, with the options that the session does not give itself.

    If the session is by group, so is what it returns: a :class:`geodp.GroupedRelease`.
    """

    def __init__(self, function: Callable[Concatenate[Any, Any, P], R]) -> None:
        self._entry = TABLE[function.__name__.removeprefix("private_")]

    if TYPE_CHECKING:

        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

        @overload
        def __call__(self, *args: Any, ball: Ball | None, **kwargs: Any) -> R: ...

        @overload
        def __call__(self, *args: Any, radius: float | None, **kwargs: Any) -> R: ...

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

        def __get__(self, session: Session | None, kind: type[Session]) -> Self: ...

    else:

        def __get__(self, session: Session | None, kind: type[Session]) -> Any:
            return self if session is None else _bound(session, self._entry)


def _bound(session: Session, entry: Entry) -> Callable[..., Any]:
    """The function of an entry, for the records of a session."""
    function = entry.function
    taken = inspect.signature(function).parameters

    @wraps(function)
    def release(*arguments: Any, **options: Any) -> Any:
        given = [options.pop(name, None) for name in _PLACES[entry.place]]
        place = session._place(entry, *given)
        if place is None and "outer" not in taken:
            raise ValueError(_NO_BALL)
        if place is None:
            place = session.manifold  # a ball is found first
        elif given == [None] and options.get("coverage") is None and "coverage" in taken:
            options["coverage"] = COVERAGE  # nobody knows whether a ball that was found holds the records
        found = function(
            session.data if entry.by_group else session._everyone,
            place,
            *arguments,
            ledger=session.ledger,
            dataset=session.dataset,
            **options,
        )
        session._found = _ball_in(found) or session._found
        return found

    kept = [each for name, each in list(taken.items())[2:] if name not in _OWN]
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in _PLACES[entry.place]]
    cast(Any, release).__signature__ = inspect.Signature([*kept, *more])
    release.__name__ = entry.name
    return release


@final
class Session(Shown):
    """Private records, one budget that every release is charged to, and what was released.

    Methods are named after the ``private_*`` functions and take the same options: the privacy first, then what each function
    says. A mean, a variance, a covariance and a coverage are of the ball that was found last, or of ``ball=``. A mean finds a
    ball if there is none yet. Printing a session shows the budget and all releases; notebooks show two tables.

    *What is guaranteed*: everything released from the session together keeps the privacy of its total, however each release was
    chosen (:class:`geodp.Ledger`), as long as the same records are released in no other way. *Public*, *private* and
    *neighbours* are those of each release.

    Parameters
    ----------
    x, who
        The records and whose they are, as for :class:`geodp.Dataset`: arrays, data frames, the name of a file, or a data set.
        They are read once. With ``by`` the ball is found for all groups together, and everything else is released by group.
    manifold
        Where the records live.
    ledger, dataset
        Where the budget is kept, and its name there. Another session with the same two goes on where this one stopped, with its
        budget and its ball. Without them the budget ends with the session, and a new one starts afresh: then it is up to you that
        the same records are not released again.
    epsilon, delta, rho, mu, compose
        What may be spent in all, as for :meth:`geodp.Ledger.open`. The data set is opened with it, for the neighbours that
        ``who`` says. Leave it out if the ledger has the data set already.

    >>> import numpy as np
    >>> from geodp import SPD, Session
    >>> x = np.array([np.diag([1e-3, 2e-3]) * np.exp(u) for u in np.random.default_rng(0).normal(0.0, 0.3, 4000)])
    >>> session = Session(x, SPD(2), epsilon=2)
    >>> found = session.ball(epsilon=0.5, radius=30.0)
    >>> release = session.mean(epsilon=1.0, coverage=0.1)
    >>> session.left, bool(release.ball is not None and release.ball.radius == found.ball.radius)
    (Decimal('0.5'), True)
    >>> session.mean(epsilon=1.0)
    Traceback (most recent call last):
        ...
    geodp.privacy.ledger.BudgetExhausted: the data set 'this session only' has 0.5 of 2 left, 1 was asked for: ask for at most 0.5
    """

    @takes(DatasetOptions)
    def __init__(
        self,
        x: Any,
        manifold: Manifold,
        *,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        mu: Number | None = None,
        compose: str | None = None,
        **who: Unpack[DatasetOptions],
    ) -> None:
        if not isinstance(manifold, Manifold):
            raise TypeError(f"the manifold must be a Manifold but is of type {type(manifold).__name__}")
        Account.of(ledger, dataset, None)  # or a sentence about what is missing
        total: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
        given = any(number is not None for number in total.values())
        if ledger is None and not given:
            raise ValueError(
                "a session needs a budget: give what may be spent in all, such as epsilon=3, or a ledger and a dataset"
            )
        self.manifold = manifold
        self.data = Dataset.of(x, who).load(manifold)
        self.ledger, self.dataset = ledger or self._temporary(), dataset or "this session only"
        if given:
            self.ledger.open(self.dataset, **total, compose=compose, neighbours=self._protects)
        self.ledger.remaining(self.dataset)  # or a sentence that there is none
        self._found: Ball | None = None

    def _temporary(self) -> Ledger:
        """A ledger that is deleted with the session. A file, so that forked processes cannot spend the same budget twice."""
        folder = tempfile.mkdtemp(prefix="geodp-session-")
        weakref.finalize(self, _remove, folder, os.getpid())
        return Ledger(f"sqlite:///{(Path(folder) / 'budget.db').as_posix()}")

    @classmethod
    def read(cls, path: str | os.PathLike[str], manifold: Manifold, *, dask: bool = False, **given: Any) -> Self:
        """A session about the records of a file, with the options of :meth:`geodp.Dataset.read` and of :class:`Session`.

        >>> from geodp import Session, Sphere
        >>> Session.read("visits.csv", Sphere(2), unit="person", epsilon=3)
        Traceback (most recent call last):
            ...
        geodp.files.FileError: there is no file visits.csv
        """
        who: Any = {name: given.pop(name) for name in list(given) if name in DatasetOptions.__annotations__}
        return cls(Dataset.read(path, manifold, dask=dask, **who), manifold, **given)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session holds private records and is not pickled: keep the file of the records and the ledger")

    # ------------------------------------------------------------------ the budget

    @property
    def budget(self) -> Budget:
        """The budget as it stands. :func:`geodp.risk` says what it means to a person."""
        return self.ledger.budget(self.dataset)

    @property
    def left(self) -> Decimal | EpsilonDelta:
        """What can still be spent, in the unit of the budget."""
        return self.ledger.remaining(self.dataset)

    @property
    def releases(self) -> list[Any]:
        """What was released, oldest first: every receipt of geodp that the ledger keeps for the data set."""
        return [release for _, release in self._history() if release is not None]

    @cached_property
    def n(self) -> int | None:
        """How many records there are, or persons; None where that is private."""
        return self.data.open(self.manifold).count if self.data.neighbours == "replace" else None

    # ------------------------------------------------------------------ releases

    # a search starts from a wide radius about a public center (by default the origin), or on compact spaces from nothing; it is
    # for all groups together, and later releases are of the ball that it finds
    ball = Method(private_ball)
    mean = Method(private_mean)
    variance = Method(private_variance)
    covariance = Method(private_covariance)
    coverage = Method(private_coverage)
    average = Method(private_average)
    median = Method(private_median)
    kmeans = Method(private_kmeans)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What was added to the table since."""
            if name not in TABLE or TABLE[name].place not in _PLACES:
                raise AttributeError(f"a session has no attribute {name!r}")
            return _bound(self, TABLE[name])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name, entry in TABLE.items() if entry.place in _PLACES)]

    def summary(self, value: ArrayLike, *, sensitivity: float, **options: Any) -> Release:
        """:func:`geodp.private_summary` of a value that you computed from these records, with a sensitivity that you proved for
        the neighbours of the budget."""
        whose: Any = {"neighbours": self._protects, "ledger": self.ledger, "dataset": self.dataset}
        # twice the same name is an error, so that no option leads past the budget
        return private_summary(value, self.manifold, sensitivity=sensitivity, **whose, **options)

    def plan(
        self,
        *privacy: float,
        spread: float | None = None,
        radius: float | None = None,
        center: ArrayLike | None = None,
        ball: Ball | None = None,
        n: int | None = None,
        **options: Any,
    ) -> Plan | ChainPlan:
        """The error of a mean before anything is spent: :func:`geodp.plan` in the ball, or with a guess of the ``spread``
        :func:`geodp.plan_chain` for ball and mean together. Only the number of records is used, if that is public."""
        records = self.n if n is None else n
        if records is None:
            raise ValueError(
                "how many records there are is private here: plan with a number that anyone may know, such as n=1000"
            )
        written = self.data.notation(self.manifold)
        if written is not None and written.layout is not None:
            options = {"layout": written.layout.name, **options}
        if spread is not None:
            return plan_chain(self._outer(radius, center), records, *privacy, spread=spread, **options)
        place = self._in(ball)
        if place is None:
            raise ValueError(f"{_NO_BALL}; or plan both with a guess of the spread, such as spread=0.5")
        return plan(place, records, *privacy, **options)

    @cached_property
    def _everyone(self) -> Dataset:
        """The data without their groups."""
        return self.data.without_groups()

    @cached_property
    def _protects(self) -> str:
        """The neighbours of all releases together."""
        return Request(Count(), epsilon=1.0, **protection(self.data)).protects

    def _place(self, entry: Entry, *given: Any) -> Any:
        if entry.place == "manifold":
            return self.manifold
        return self._in(*given) if entry.place == "ball" else self._outer(*given)

    def _outer(self, radius: float | None, center: ArrayLike | None) -> Ball | Manifold:
        if radius is None:
            if center is not None:
                raise ValueError("a centre goes with a wide radius about it: give both or neither")
            return self.manifold
        return Ball(self.manifold, self.manifold.origin if center is None else center, radius)

    def _in(self, ball: Ball | None) -> Ball | None:
        """The ball that was given, or else the one that was found last, by this session or by an earlier one."""
        if ball is not None:
            return ball
        if self._found is None:
            balls = [ball for release in self.releases if (ball := _ball_in(release)) is not None]
            self._found = next((found for found in reversed(balls) if found.manifold == self.manifold), None)
        return self._found

    # ------------------------------------------------------------------ showing

    def head(self) -> str:
        return f"SESSION on {self.manifold}, data set {self.dataset!r}"

    def rows(self) -> list[Row]:
        listed = []
        for number, asked, what, value, verdict in map(_cells, self._history()):
            listed.append((f"charge {number}", "\n".join(filter(None, (f"{what}, {asked}", value, verdict)))))
        return [*self.budget.rows(), *listed]

    def _repr_html_(self) -> str:
        columns = ("charge", "asked for", "what", "released", "verdict")
        return as_html(self.head(), self.budget.rows()) + table_html("releases", columns, map(_cells, self._history()))

    def _history(self) -> list[tuple[Charge, Any]]:
        """All charges, each with its release if geodp made it and its receipt is kept."""
        return [(charge, _release_of(charge)) for charge in self.ledger.history(self.dataset)]

    def __repr__(self) -> str:
        return f"<Session on {self.manifold}, data set {self.dataset!r}>"


def _ball_in(release: Any) -> Ball | None:
    """The ball that was found, alone or with a mean in it."""
    steps = release.steps if isinstance(release, ChainRelease) else [release]
    return next((each.ball for each in steps if isinstance(each, BallRelease)), None)


def _remove(folder: str, process: int) -> None:
    """Deletes a folder at the end of the process that made it, and not at the end of one that was forked from it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _release_of(charge: Charge) -> Any:
    try:
        return None if charge.receipt is None else receipt_from_json(charge.receipt)
    except ValueError:
        return None


def _cells(entered: tuple[Charge, Any]) -> list[str]:
    """A charge for people: its number, the privacy, what for, what came out and what that means."""
    charge, release = entered
    value, verdict = "" if charge.receipt else "no release is on record", ""
    if isinstance(release, ChainRelease):
        release = release.steps[-1]
    if release is not None:
        name, text = release.rows()[0]
        value = f"{name} {text}".replace("\n", "\n" + " " * (len(name) + 1))
        verdict = dict(release.rows()).get("verdict", "")
    return [str(charge.id), str(charge.privacy), charge.what, value, verdict]
