"""A session: private records, the budget of their releases, and what was released, in one object."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Self, Unpack, final

from numpy.typing import ArrayLike

from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.planning import plan
from geodp.privacy.amounts import Number
from geodp.privacy.ledger import Budget, Charge, EpsilonDelta, Ledger
from geodp.programs.ball import BallRelease, private_ball
from geodp.programs.chain import ChainPlan, plan_chain
from geodp.programs.kmeans import KMeansRelease
from geodp.programs.median import MedianRelease, private_median
from geodp.receipt import GroupedRelease, Release
from geodp.records.dataset import Dataset, DatasetOptions
from geodp.release import Account, protection
from geodp.request import Plan, Request
from geodp.showing import Row, Shown, as_html, table_html
from geodp.statistics.covariance import private_covariance
from geodp.statistics.coverage import private_coverage
from geodp.statistics.frechet import private_mean
from geodp.statistics.projected import private_projected_mean
from geodp.statistics.summary import private_summary
from geodp.statistics.variance import private_variance

#: A release of any kind, as a file may hold one.
AnyRelease = BallRelease | GroupedRelease | KMeansRelease | MedianRelease | Release
#: What receipts call the data set of a session without a ledger.
UNKEPT = "this session only"


@final
class Session(Shown):
    """Private records, one budget that every release is charged to, and what was released.

    Methods are named after the ``private_*`` functions and take the same options: the privacy first, then what each function
    says. A mean, a variance, a covariance and a coverage are of the ball that :meth:`ball` found last, or of ``ball=``. Printing
    a session shows the budget and all releases; notebooks show two tables.

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
        self.ledger, self.dataset = ledger or self._temporary(), dataset or UNKEPT
        if given:
            self.ledger.open(self.dataset, **total, compose=compose, neighbours=_protects(self.data))
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
    def releases(self) -> list[AnyRelease]:
        """What was released, oldest first: every receipt of geodp that the ledger keeps for the data set."""
        return [release for charge in self.ledger.history(self.dataset) if (release := _released(charge)) is not None]

    @cached_property
    def n(self) -> int | None:
        """How many records there are, or persons; None where that is private."""
        return self.data.open(self.manifold).count if self.data.neighbours == "replace" else None

    # ------------------------------------------------------------------ releases

    def ball(self, *privacy: float, radius: float | None = None, center: ArrayLike | None = None, **options: Any) -> BallRelease:
        """Find a ball by :func:`geodp.private_ball`, from a wide ``radius`` about a public centre (by default the origin), or on
        compact spaces from nothing. Later releases are of this ball."""
        everyone = replace(self.data, by=None, groups=None, labels="public")
        release: BallRelease = self._charged(private_ball, everyone, self._outer(radius, center), privacy, options)
        self._found = release.ball
        return release

    def mean(self, *privacy: float, ball: Ball | None = None, **options: Any) -> Any:
        """:func:`geodp.private_mean`."""
        return self._charged(private_mean, self.data, self._in(ball), privacy, options)

    def median(self, *privacy: float, radius: float | None = None, center: ArrayLike | None = None, **options: Any) -> Any:
        """:func:`geodp.private_median`, which needs no ball: from a wide ``radius`` about a public centre, or from nothing."""
        return self._charged(private_median, self.data, self._outer(radius, center), privacy, options)

    def variance(self, *privacy: float, ball: Ball | None = None, **options: Any) -> Any:
        """:func:`geodp.private_variance`."""
        return self._charged(private_variance, self.data, self._in(ball), privacy, options)

    def covariance(self, *privacy: float, ball: Ball | None = None, **options: Any) -> Any:
        """:func:`geodp.private_covariance`."""
        return self._charged(private_covariance, self.data, self._in(ball), privacy, options)

    def coverage(self, *privacy: float, ball: Ball | None = None, **options: Any) -> Any:
        """:func:`geodp.private_coverage`."""
        return self._charged(private_coverage, self.data, self._in(ball), privacy, options)

    def projected_mean(self, *privacy: float, **options: Any) -> Any:
        """:func:`geodp.private_projected_mean`, which needs no ball."""
        return self._charged(private_projected_mean, self.data, self.manifold, privacy, options)

    def summary(self, value: ArrayLike, *, sensitivity: float, **options: Any) -> Release:
        """:func:`geodp.private_summary` of a value that you computed from these records, with a sensitivity that you proved for
        the neighbours of the budget."""
        about: Any = {"neighbours": _protects(self.data), **options}
        return private_summary(value, self.manifold, sensitivity=sensitivity, **self._account, **about)

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
        return plan(self._in(ball), records, *privacy, **options)

    @property
    def _account(self) -> dict[str, Any]:
        return {"ledger": self.ledger, "dataset": self.dataset}

    def _charged(self, release: Callable[..., Any], data: Dataset, place: Any, privacy: Any, options: dict[str, Any]) -> Any:
        return release(data, place, *privacy, **self._account, **options)

    def _outer(self, radius: float | None, center: ArrayLike | None) -> Ball | Manifold:
        if radius is None:
            if center is not None:
                raise ValueError("a centre goes with a wide radius about it: give both or neither")
            return self.manifold
        return Ball(self.manifold, self.manifold.origin if center is None else center, radius)

    def _in(self, ball: Ball | None) -> Ball:
        """The ball that was given, or else the one that was found last, by this session or by an earlier one."""
        if ball is not None:
            return ball
        if self._found is None:
            balls = [release.ball for release in self.releases if isinstance(release, BallRelease)]
            self._found = next((found for found in reversed(balls) if found.manifold == self.manifold), None)
        if self._found is None:
            raise ValueError("no ball was found yet: find one with session.ball(), or give ball=, chosen without looking")
        return self._found

    # ------------------------------------------------------------------ showing

    def head(self) -> str:
        return f"SESSION on {self.manifold}, data set {self.dataset!r}"

    def rows(self) -> list[Row]:
        listed = []
        for charge in self._charges:
            asked, *told = _told(charge)
            listed.append((f"charge {charge.id}", "\n".join(filter(None, [f"{told[0]}, {asked}", *told[1:]]))))
        return [*self.budget.rows(), *listed]

    def _repr_html_(self) -> str:
        columns = ("charge", "asked for", "what", "released", "verdict")
        cells = [[str(charge.id), *_told(charge)] for charge in self._charges]
        return as_html(self.head(), self.budget.rows()) + table_html("releases", columns, cells)

    @property
    def _charges(self) -> list[Charge]:
        return self.ledger.history(self.dataset)

    def __repr__(self) -> str:
        return f"<Session on {self.manifold}, data set {self.dataset!r}>"


def _protects(data: Dataset) -> str:
    from geodp.request import Count

    return Request(Count(), epsilon=1.0, **protection(data)).protects


def _remove(folder: str, process: int) -> None:
    """Deletes a folder at the end of the process that made it, and not at the end of one that was forked from it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _told(charge: Charge) -> tuple[str, str, str, str]:
    """A charge for people: the privacy, what for, what came out and what that means."""
    release = _released(charge)
    if release is None:
        return str(charge.privacy), charge.what, "" if charge.receipt else "no release is on record", ""
    rows = release.rows()
    name, text = rows[0]
    result = f"{name} {text}".replace("\n", "\n" + " " * (len(name) + 1))
    return str(charge.privacy), charge.what, result, dict(rows).get("verdict", "")


def _released(charge: Charge) -> AnyRelease | None:
    """The release of a charge, if geodp made it and its receipt is kept."""
    try:
        return None if charge.receipt is None else release_from_json(charge.receipt)
    except ValueError:
        return None


def release_from_json(text: str) -> AnyRelease:
    """A release of any kind. The error quotes nothing, because the text may be anything, even a file of records."""
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict) or "geodp" not in stored or not isinstance(stored.get("summary", ""), str):
        raise ValueError("this file is not a receipt of geodp: give one that geodp mean --out or to_json wrote")
    if "estimator" in stored:
        raise ValueError("this is the receipt of a fit, of several releases: give one of them, or --verify it")
    kinds: dict[Any, type[AnyRelease]] = {
        "ball": BallRelease,
        "clusters": KMeansRelease,
        "groups": GroupedRelease,
        "median": MedianRelease,
    }
    return kinds.get(stored.get("summary"), Release).from_json(text)
