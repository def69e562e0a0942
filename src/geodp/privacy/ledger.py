"""A durable ledger of privacy budgets that concurrent processes cannot overspend."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Integral
from typing import Any, final

from sqlalchemy import URL, Connection, Row, insert, inspect, select, update
from sqlalchemy.exc import DBAPIError

from geodp.inputs import real_number
from geodp.privacy.amounts import Amount, Number, amount_of, exact_epsilon, exact_number, shown, shown_above
from geodp.privacy.budgets import COLUMNS, PAIR, PURE, UNITS, Budget, EpsilonDelta, NoPrice, Terms, cost_claimed, terms_of
from geodp.privacy.cost import Cost, PureCost, compose, cost_from_dict
from geodp.privacy.database import (
    CHARGES,
    CURRENT,
    DATASETS,
    SCHEMA,
    SCHEMA_1,
    SCHEMA_VERSION,
    TABLES,
    Layout,
    LedgerError,
    LedgerLocked,
    database_of,
    sha256_of,
)
from geodp.privacy.neighbours import REPLACE_ONE, covers
from geodp.privacy.notions import Privacy
from geodp.showing import Pictured, as_html, table_html

__all__ = [
    "SCHEMA_VERSION",
    "Budget",
    "BudgetExhausted",
    "Charge",
    "EpsilonDelta",
    "Ledger",
    "LedgerError",
    "LedgerLocked",
    "exact_epsilon",
]


@final
class BudgetExhausted(LedgerError):
    """A charge asked for more than is left. Nothing was charged.

    >>> import tempfile, geodp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = geodp.Ledger(f"sqlite:///{folder}/budget.db")
    ...     ledger.open("study", rho=0.5)
    ...     try:
    ...         ledger.charge("study", rho=0.6, what="mean")
    ...     except geodp.BudgetExhausted as error:
    ...         print(error)
    the data set 'study' has rho 0.5 of 0.5 left, rho 0.6 was asked for: ask for at most rho 0.5
    """


@final
@dataclass(frozen=True, kw_only=True)
class Charge:
    """One entry of a ledger: on the day ``at`` (UTC), some of the data set's budget was spent on ``what``.

    ``epsilon``, ``delta``, ``rho`` and ``mu`` are what was charged: exact decimals for those in the budget's unit, None for the
    others. ``privacy`` is what was asked for, and ``cost`` is the whole curve of the release (for a charge entered by hand, the
    curve that follows from its claim). ``neighbours`` says between which data sets all this holds.

    ``receipt`` is the JSON text of the release, or None while none is attached: the release may have failed, or its
    process may have died, after the charge. The budget is spent anyway, because noise may have been drawn.
    ``receipt_sha256`` is the SHA-256 of its UTF-8 bytes, in hexadecimal digits. If you note it elsewhere, you can check later
    that the receipt has not changed.

    No time of day is stored, because the duration of a release may depend on the data. Entries of older versions keep theirs in
    the database but show only the day.
    """

    id: int
    dataset: str
    what: str
    at: date
    epsilon: Decimal | None = None
    delta: Decimal | None = None
    rho: Decimal | None = None
    mu: Decimal | None = None
    privacy: Privacy
    cost: Cost
    neighbours: str = REPLACE_ONE
    receipt: str | None = None
    receipt_sha256: str | None = None


@final
class Ledger(Pictured):
    r"""Budgets of data sets, and the charges against them, in a SQLite file or a PostgreSQL database.

    ``url`` is ``sqlite:///`` and a path, or ``postgresql+psycopg://user:password@host/database``. Nothing is read or written
    before the first method is called; :meth:`open` creates file and tables. Every method is one transaction, which gives up
    with :class:`LedgerLocked` when another process holds the ledger for longer than ``timeout`` seconds.

    A budget is a total of pure epsilon, of epsilon and delta, of rho or of mu (:mod:`geodp.privacy.budgets`).

    The ledger guarantees that the charges of a data set never add up to more than its total, in exact decimal arithmetic, for
    any number of processes, threads and machines that charge it at once. When :meth:`charge` returns, the charge is on disk, and
    only then may noise be drawn: a crash between the two loses budget, never privacy. A crash at any other moment leaves the
    charge either entered or not entered. By sequential composition all releases charged to one data set together keep the
    privacy that it was opened with, even if each release, and its cost, is chosen after seeing the earlier ones
    (the theorems are in :mod:`geodp.privacy.budgets`).

    This assumes that every release from the data is charged, to the same ledger and data set; that what a charge claims is true
    of its release; that the disk keeps what it has reported as synced, and PostgreSQL runs with its default ``fsync = on``; and
    that a SQLite file lies on a local disk (locks on network file systems are unreliable: use PostgreSQL there). The ledger
    protects against mistakes, not against people who may write to it: deleting it or restoring an older copy brings spent budget
    back.

    A pickle of a ledger, or of an estimator that has one, keeps the address without its password, so that someone who receives a
    model cannot write to the budget. When it is loaded, PostgreSQL looks for the password in ``PGPASSWORD``, ``PGPASSFILE`` or
    ``~/.pgpass``; or open the ledger again with its URL. Programs that send ledgers to other processes must set one of these.
    Copies within a process (``copy.deepcopy``, :func:`sklearn.base.clone`) are the ledger itself and need nothing.

    A ledger written by an older version can be read as it is. The first method that writes upgrades its tables, in one
    transaction that keeps every entry; from then on older versions refuse it and say why.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"sqlite:///{folder.name}/budget.db")
    >>> ledger.open("scanner-study", epsilon=1)
    >>> charge = ledger.charge("scanner-study", 0.7, what="mean tensor, controls")
    >>> ledger.remaining("scanner-study")
    Decimal('0.3')
    >>> ledger.attach(charge.id, '{"epsilon": 0.7}')
    >>> [(entry.epsilon, entry.what, entry.receipt) for entry in ledger.history("scanner-study")]
    [(Decimal('0.7'), 'mean tensor, controls', '{"epsilon": 0.7}')]
    >>> ledger.charge("scanner-study", 0.5, what="mean tensor, patients")
    Traceback (most recent call last):
        ...
    geodp.privacy.ledger.BudgetExhausted: the data set 'scanner-study' has 0.3 of 1 left, 0.5 was asked for: ask for at most 0.3
    >>> ledger.open("cohort", epsilon=1, delta=1e-6, compose="rho")
    >>> charge = ledger.charge("cohort", mu="0.1", what="somebody else's Gaussian mechanism")
    >>> print(ledger.budget("cohort"))
    budget      cohort: epsilon = 1, delta = 1e-06; neighbours: replace one record
    spent       rho 0.005 of 0.024356 (rhos add up, to the largest rho that implies epsilon 1 and delta 1e-06)
    left        0.019356
    all of it   advantage at most 0.0398776, epsilon 0.396857 at delta 1e-6
    >>> folder.cleanup()
    """

    def __init__(self, url: str | URL = "sqlite:///geodp-budget.db", *, timeout: float = 30.0) -> None:
        if not isinstance(url, str | URL):
            raise TypeError(f"the URL of a ledger must be a str but is of type {type(url).__name__}")
        self._timeout = real_number(timeout, "the timeout")
        if not 0.0 < self._timeout <= 1e6:
            raise ValueError(f"the timeout must be positive and at most a million seconds but is {timeout}")
        self._database = database_of(url, self._timeout)

    def __repr__(self) -> str:
        return f"<Ledger {self._database.name}>"

    def _repr_html_(self) -> str:
        try:
            rows = [self.budget(name).cells() for name in self.datasets()]
        except LedgerError as error:
            return as_html(f"Ledger {self._database.name}", [("", str(error))])
        return table_html(f"Ledger {self._database.name}", COLUMNS, rows)

    def __reduce__(self) -> tuple[Callable[[URL, float, bool], Ledger], tuple[URL, float, bool]]:
        # the engine's URL has an absolute path: the process that unpickles may have another working directory
        return _reopen, (self._database.address, self._timeout, self._database.leaves_out_secret)

    def __copy__(self) -> Ledger:
        # a pickle would lose the password, and scikit-learn copies estimators for every fit of a cross-validation
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    # ------------------------------------------------------------------ writing

    def open(
        self,
        dataset: str,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        rho: Number | None = None,
        mu: Number | None = None,
        compose: str | None = None,
        neighbours: str = REPLACE_ONE,
    ) -> None:
        """Opens a data set with its total budget, in exactly one notion. Opening it again with the same terms changes nothing.

        ``compose`` is for epsilon and delta: ``"sum"``, the default, adds both separately; ``"rho"`` adds rhos, up to the
        largest rho that implies the two. :func:`geodp.privacy.budgets.releases_admitted` says which admits more releases.
        """
        name = _line(dataset, "the name of a data set")
        terms = terms_of(epsilon, delta, rho, mu, compose, _line(neighbours, "the kind of neighbours"))
        with self._writing(create=True) as connection:
            row = connection.execute(select(DATASETS).where(DATASETS.c.name == name)).one_or_none()
            if row is None:
                unit = " and ".join(terms.unit.names)
                entry = {"name": name, "unit": unit, "neighbours": terms.neighbours, "at": _today()}
                connection.execute(insert(DATASETS).values(entry | _texts(terms.promise) | _texts(terms.total)))
            elif not (granted := self._terms(row)).same(terms):
                alike = granted.unit is terms.unit is not PAIR and granted.neighbours == terms.neighbours
                plain = alike and not granted.through_rho and not terms.through_rho
                other = next(iter(terms.promise.numbers.values())) if plain else f"a total {terms}"
                raise LedgerError(
                    f"the data set {name!r} is open with a total {granted}, not {other}: a total cannot be changed, leave it as "
                    "it is"
                )

    def charge(
        self,
        dataset: str,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        rho: Number | None = None,
        mu: Number | None = None,
        cost: Cost | None = None,
        privacy: Privacy | None = None,
        neighbours: str = REPLACE_ONE,
        what: str,
    ) -> Charge:
        """Spends some of the data set's budget on ``what``, before any noise is drawn. Refuses if not enough is left.

        Give the requested privacy in one notion, as numbers or as ``privacy``. If the ``cost`` of the release is known, give it
        too: if the budget is in another unit than the request, the charge is the cost in that unit, rounded up. Without it, only
        the requested privacy is assumed of the mechanism. In the budget's own unit the charge is exactly the requested number.

        When this returns, the charge is on disk. When it raises, no noise may be drawn.
        """
        name, purpose = _line(dataset, "the name of a data set"), _line(what, "what is charged")
        asked, cost = _request({"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}, privacy, cost)
        about = _line(neighbours, "the kind of neighbours")
        with self._writing() as connection:
            price = self._price(connection, CURRENT, name, asked, cost, about, lock=True)
            kept = {"asked": json.dumps(_texts(asked)), "cost": _cost_text(cost)}
            entry = {"dataset": name, "neighbours": about, "at": _today(), "what": purpose, **kept, **_texts(price)}
            key = connection.execute(insert(CHARGES).values(entry)).inserted_primary_key
            assert key is not None
        return Charge(
            id=key[0],
            dataset=name,
            what=purpose,
            at=date.fromisoformat(entry["at"]),
            epsilon=price.epsilon,
            delta=price.delta,
            rho=price.rho,
            mu=price.mu,
            privacy=asked.privacy,
            cost=cost,
            neighbours=about,
        )

    def attach(self, charge_id: int, receipt_json: str) -> None:
        """Stores the receipt of a release with its charge. An attached receipt is never replaced.

        A receipt of geodp is refused if its data set, number of the charge, privacy, neighbours or cost differ from those of
        the entry. Other JSON text, such as that of another program's mechanism, is compared only in those fields that it has.
        """
        if isinstance(charge_id, bool) or not isinstance(charge_id, Integral):
            raise TypeError(f"the number of a charge must be an int but is of type {type(charge_id).__name__}")
        receipt, number = _json(receipt_json), int(charge_id)
        with self._writing() as connection:
            entry = self._entry(connection, CURRENT, number)
            if entry is None:
                raise LedgerError(f"the ledger {self._database.name} has no charge with that number: see its history")
            if entry.receipt is not None:
                raise LedgerError(f"charge {number} has its receipt already: attach another release to its own charge")
            other = _contradicted(json.loads(receipt), entry)
            if other is not None:
                raise LedgerError(f"this receipt has another {other} than charge {number}: attach it to its own charge")
            here = update(CHARGES).where(CHARGES.c.id == number, CHARGES.c.receipt.is_(None))
            if connection.execute(here.values(receipt=receipt, receipt_sha256=sha256_of(receipt))).rowcount != 1:
                raise LedgerError(f"charge {number} has its receipt already: attach another release to its own charge")

    # ------------------------------------------------------------------ reading

    def check_receipt(self, receipt_json: str) -> str | None:
        """``None`` if the ledger keeps exactly this text as the receipt of the charge that it names, else a sentence why not.

        A newline at the end, as files have it, does not count. People who may write to the ledger can change what it keeps, so
        the answer is only as trustworthy as the ledger.
        """
        receipt = _json(receipt_json)
        stored = json.loads(receipt)
        dataset, number = (stored.get("dataset"), stored.get("charge")) if isinstance(stored, dict) else (None, None)
        if not isinstance(dataset, str) or isinstance(number, bool) or not isinstance(number, int):
            return "this text names no charge of a ledger"
        with self._reading() as (connection, layout):
            entry = self._entry(connection, layout, number)
        if entry is None or entry.dataset != dataset:
            return f"the ledger {self._database.name} has no charge of the number and the data set that this receipt names"
        if entry.receipt is None:
            return f"charge {number} of {dataset!r} has no receipt in the ledger {self._database.name}"
        if entry.receipt not in (receipt, receipt.removesuffix("\n")):
            return f"the ledger {self._database.name} keeps another receipt for charge {number} of {dataset!r}"
        other = _contradicted(stored, entry)
        return None if other is None else f"the ledger keeps this text, which has another {other} than charge {number} of it"

    def check(
        self,
        dataset: str,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        rho: Number | None = None,
        mu: Number | None = None,
        cost: Cost | None = None,
        privacy: Privacy | None = None,
        neighbours: str = REPLACE_ONE,
    ) -> None:
        """Raises what :meth:`charge` would raise if it were called now. Nothing is charged or reserved.

        This avoids long work whose charge would be refused. Others may still spend the budget before the charge itself.
        """
        name = _line(dataset, "the name of a data set")
        asked, cost = _request({"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}, privacy, cost)
        about = _line(neighbours, "the kind of neighbours")
        with self._reading() as (connection, layout):
            self._price(connection, layout, name, asked, cost, about)

    def budget(self, dataset: str) -> Budget:
        """The data set's budget: its total, what is spent and left, and what all charges together reveal."""
        name = _line(dataset, "the name of a data set")
        with self._reading() as (connection, layout):
            terms = self._find(connection, layout, name)
            charges = [self._charge(row, terms) for row in _rows(connection, layout, name)]
        amounts = [Amount(charge.epsilon, charge.delta, charge.rho, charge.mu) for charge in charges]
        unit = terms.unit
        return Budget(
            dataset=name,
            unit=" and ".join(unit.names),
            total=unit.value(terms.total),
            spent=unit.value(unit.spent(amounts)),
            left=unit.value(unit.left(terms.total, amounts)),
            promise=terms.promise.privacy,
            rule=terms.rule,
            neighbours=terms.neighbours,
            cost=compose(charge.cost for charge in charges),
        )

    def total(self, dataset: str) -> Decimal | EpsilonDelta:
        """The data set's total in its budget's unit: a Decimal, or two of them for epsilon and delta."""
        terms, _ = self._account(dataset)
        return terms.unit.value(terms.total)

    def spent(self, dataset: str) -> Decimal | EpsilonDelta:
        """The exact sum of the data set's charges in its budget's unit; for mu, the root of the sum of squares, rounded up."""
        terms, charges = self._account(dataset)
        return terms.unit.value(terms.unit.spent(charges))

    def remaining(self, dataset: str) -> Decimal | EpsilonDelta:
        """The most that can still be charged, in its budget's unit: exact, and for mu rounded down to 30 digits."""
        terms, charges = self._account(dataset)
        return terms.unit.value(terms.unit.left(terms.total, charges))

    def datasets(self) -> list[str]:
        """The names of the data sets, in alphabetical order."""
        with self._reading() as (connection, layout):
            return _names(connection, layout)

    def history(self, dataset: str) -> list[Charge]:
        """The data set's charges, oldest first."""
        name = _line(dataset, "the name of a data set")
        with self._reading() as (connection, layout):
            terms = self._find(connection, layout, name)
            return [self._charge(row, terms) for row in _rows(connection, layout, name)]

    # ------------------------------------------------------------------ rows

    def _account(self, dataset: str) -> tuple[Terms, list[Amount]]:
        name = _line(dataset, "the name of a data set")
        with self._reading() as (connection, layout):
            terms = self._find(connection, layout, name)
            return terms, self._amounts(connection, layout, name, terms)

    def _price(
        self, connection: Connection, layout: Layout, name: str, asked: Amount, cost: Cost, neighbours: str, *, lock: bool = False
    ) -> Amount:
        """The charge in the budget's unit; raises if less than that is left."""
        terms = self._find(connection, layout, name, lock=lock)
        if not covers(neighbours, terms.neighbours):
            whose = "say whose each record is with unit= (or --unit), or " if terms.neighbours.endswith("person") else ""
            raise LedgerError(
                f"the budget of {name!r} has the neighbours {terms.neighbours!r}, and this charge {neighbours!r}, which does not "
                f"imply them: {whose}charge a budget opened for the same neighbours"
            )
        try:
            price = terms.unit.price(asked, cost)
        except NoPrice as error:
            kind = " and ".join(terms.unit.names) if terms.unit is not PURE else PURE.words
            raise LedgerError(f"the budget of {name!r} is in {kind}, and {error}") from None
        if not any(price.numbers.values()):
            raise LedgerError(f"a charge on {name!r} must spend something: its cost is zero")
        charges = self._amounts(connection, layout, name, terms)
        if not terms.unit.fits(price, terms.total, charges):
            raise BudgetExhausted(_exhausted(name, terms, terms.unit.left(terms.total, charges), price, asked))
        return price

    def _find(self, connection: Connection, layout: Layout, name: str, *, lock: bool = False) -> Terms:
        query = select(layout.datasets).where(layout.datasets.c.name == name)
        # the lock on the row makes others who charge this data set wait (SQLite locks the whole file)
        row = connection.execute(query.with_for_update() if lock else query).one_or_none()
        if row is None:
            known = ", ".join(map(repr, _names(connection, layout)[:10])) or "none"
            raise LedgerError(
                f"the ledger {self._database.name} has no data set {name!r} (it has {known}): open it with its total budget"
            )
        return self._terms(row)

    def _terms(self, row: Row[Any]) -> Terms:
        unit = UNITS.get(row.unit)
        if unit is None:
            raise self._database.damaged()
        total = self._amount(row, unit.names)
        through_rho = unit.names == ("rho",) and row.epsilon is not None
        promise = self._amount(row, PAIR.names) if through_rho else total
        return Terms(promise, unit, total, row.neighbours)

    def _amounts(self, connection: Connection, layout: Layout, name: str, terms: Terms) -> list[Amount]:
        columns = [layout.charges.c[column] for column in terms.unit.names]
        rows = connection.execute(select(*columns).where(layout.charges.c.dataset == name))
        return [self._amount(row, terms.unit.names) for row in rows]

    def _amount(self, row: Row[Any], names: tuple[str, ...]) -> Amount:
        # a negative or unreadable entry was not written by this class, and must not increase the budget
        try:
            return Amount(**{name: _read(row._mapping[name], name) for name in names})
        except (ValueError, TypeError):
            raise self._database.damaged() from None

    def _entry(self, connection: Connection, layout: Layout, number: int) -> Charge | None:
        """The charge with that number, if there is one."""
        if not 0 < number < 2**63:  # databases cannot look up larger numbers
            return None
        row = connection.execute(select(layout.charges).where(layout.charges.c.id == number)).one_or_none()
        return None if row is None else self._charge(row, self._find(connection, layout, row.dataset))

    def _charge(self, row: Row[Any], terms: Terms) -> Charge:
        price = self._amount(row, terms.unit.names)
        if row.receipt_sha256 is not None and (row.receipt is None or sha256_of(row.receipt) != row.receipt_sha256):
            raise LedgerError(
                f"the receipt of charge {row.id} in the ledger {self._database.name} is not the one that was attached: someone "
                "changed it in the database, so ask for the original"
            )
        try:
            asked = price if row.asked is None else amount_of(**json.loads(row.asked))
            cost = cost_claimed(asked) if row.cost is None else cost_from_dict(json.loads(row.cost))
            at = datetime.fromisoformat(row.at).date()
        except (ValueError, TypeError, KeyError):
            raise self._database.damaged() from None
        return Charge(
            id=row.id,
            dataset=row.dataset,
            what=row.what,
            at=at,
            epsilon=price.epsilon,
            delta=price.delta,
            rho=price.rho,
            mu=price.mu,
            privacy=asked.privacy,
            cost=cost,
            neighbours=row.neighbours,
            receipt=row.receipt,
            receipt_sha256=row.receipt_sha256,
        )

    # ------------------------------------------------------------------ transactions

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """A connection whose transaction is committed at the end, and rolled back by any exception."""
        try:
            with self._database.engine.connect() as connection:
                yield connection
                connection.commit()
        except DBAPIError as error:
            raise self._database.explain(error) from None

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, Layout]]:
        self._check_exists()
        with self._connection() as connection:
            self._database.begin_reading(connection)
            yield connection, CURRENT if self._version(connection) == SCHEMA_VERSION else SCHEMA_1

    @contextmanager
    def _writing(self, *, create: bool = False) -> Iterator[Connection]:
        if not create:
            self._check_exists()
        with self._connection() as connection:
            if self._begin_writing(connection, create) < SCHEMA_VERSION:
                connection.rollback()
                self._migrate()
                self._begin_writing(connection, create)
            yield connection

    def _begin_writing(self, connection: Connection, create: bool) -> int:
        """Starts a transaction, creates missing tables if ``create``, and returns the version of the schema."""
        self._database.begin_writing(connection)
        if create:
            self._database.lock_opening(connection)
            if not inspect(connection).has_table(SCHEMA.name):
                TABLES.create_all(connection, checkfirst=False)
                connection.execute(insert(SCHEMA).values(id=1, version=SCHEMA_VERSION))
        return self._version(connection)

    def _migrate(self) -> None:
        """Upgrades an old ledger in a separate transaction. If several processes try, only one does it."""
        with self._connection() as connection:
            self._database.begin_writing(connection)
            self._database.lock_opening(connection)
            if self._version(connection) < SCHEMA_VERSION:
                self._database.migrate(connection)
                self._database.hash_receipts(connection)
                connection.execute(update(SCHEMA).values(version=SCHEMA_VERSION))

    def _check_exists(self) -> None:
        # SQLite would create the file, and a mistyped path must not leave an empty ledger behind
        if self._database.missing():
            raise self._absent()

    def _absent(self) -> LedgerError:
        return LedgerError(f"there is no ledger at {self._database.name} yet: open a data set with its total budget first")

    def _version(self, connection: Connection) -> int:
        if not inspect(connection).has_table(SCHEMA.name):
            raise self._absent()
        version = connection.scalar(select(SCHEMA.c.version))
        if not isinstance(version, int) or version < 1:
            raise self._database.damaged()
        if version > SCHEMA_VERSION:
            raise LedgerError(
                f"the ledger {self._database.name} was written by a newer geodp (schema {version}, this one knows "
                f"{SCHEMA_VERSION}): upgrade geodp"
            )
        return version


def _reopen(url: URL, timeout: float, leaves_out_secret: bool = False) -> Ledger:
    ledger = Ledger(url, timeout=timeout)
    if leaves_out_secret:
        ledger._database = database_of(url, timeout, pickled=True)
    return ledger


def _rows(connection: Connection, layout: Layout, name: str) -> list[Row[Any]]:
    charges = layout.charges
    return list(connection.execute(select(charges).where(charges.c.dataset == name).order_by(charges.c.id)))


def _names(connection: Connection, layout: Layout) -> list[str]:
    # sorted here, because databases sort text differently
    return sorted(connection.scalars(select(layout.datasets.c.name)))


def _request(numbers: dict[str, Number | None], privacy: object, cost: object) -> tuple[Amount, Cost]:
    """The requested amount, and its cost."""
    if privacy is not None and not isinstance(privacy, Privacy):
        raise TypeError(f"the privacy must be a notion of privacy but is of type {type(privacy).__name__}")
    if cost is not None and not isinstance(cost, Cost):
        raise TypeError(f"the cost must be a Cost but is of type {type(cost).__name__}")
    if privacy is not None and any(value is not None for value in numbers.values()):
        raise ValueError("the privacy asked for is given twice, as numbers and as privacy: give one of them")
    asked = amount_of(**(numbers if privacy is None else privacy.parameters()))
    if cost is None:
        return asked, cost_claimed(asked)
    if not cost.meets(asked.privacy):
        raise ValueError(f"the cost ({cost}) exceeds the requested privacy, {asked.privacy}: charge what the release costs")
    _cost_text(cost)
    return asked, cost


def _cost_text(cost: Cost) -> str:
    """The stored text of a cost, after checking that it can be read back."""
    try:
        stored = json.dumps(cost.to_dict(), allow_nan=False)
        if cost_from_dict(json.loads(stored)) == cost:
            return stored
    except (TypeError, ValueError, KeyError):
        pass
    raise TypeError(
        f"a cost of type {type(cost).__name__} cannot be stored: use one that geodp.privacy.cost.cost_from_dict reads"
    )


def _contradicted(receipt: object, entry: Charge) -> str | None:
    """The first field in which a receipt differs from its charge, or None. A receipt of geodp must have all fields."""
    if not isinstance(receipt, dict):
        return None
    ours = "geodp" in receipt
    said = {name: receipt[name] for name in ("epsilon", "delta", "rho", "mu") if receipt.get(name) is not None}
    for key, kept, name in (
        ("dataset", entry.dataset, "data set"),
        ("charge", entry.id, "number"),
        ("neighbours", entry.neighbours, "kind of neighbours"),
    ):
        if (ours or key in receipt) and (type(receipt.get(key)) is not type(kept) or receipt[key] != kept):
            return name
    try:
        if (ours or said) and amount_of(**said).privacy != entry.privacy:
            return "privacy"
    except (ValueError, TypeError):
        return "privacy"
    if not ours and "cost" not in receipt:
        return None
    try:
        # receipts of earlier versions have only epsilon, since there was nothing else
        stated = receipt.get("cost", {"kind": PureCost.kind, "bound": said.get("epsilon")})
        same = cost_from_dict({name: value for name, value in stated.items() if name != "spends"}) == entry.cost
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        same = False
    return None if same else "cost"


def _exhausted(name: str, terms: Terms, left: Amount, price: Amount, asked: Amount) -> str:
    def listed(text: Callable[[str], str]) -> str:
        # a budget in pure epsilon needs no name for its number
        return " and ".join(text(each) if terms.unit is PURE else f"{each} {text(each)}" for each in terms.unit.names)

    exact = all(asked.numbers.get(each, 0) == price.numbers[each] for each in terms.unit.names)
    has = listed(lambda each: f"{shown(left.numbers[each])} of {terms.total.numbers[each]}")
    costs = listed(lambda each: shown_above(price.numbers[each]))
    fits = listed(lambda each: shown(left.numbers[each]))
    if left.numbers[terms.unit.names[0]] == 0:
        remedy = "no further release from it is possible"
    else:
        remedy = f"ask for {'at most' if exact else 'less, so that it costs at most'} {fits}"
    said = f"{costs} was asked for" if exact else f"this release costs {costs}"
    return f"the data set {name!r} has {has} left, {said}: {remedy}"


def _line(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str but is of type {type(text).__name__}")
    if not text or text != text.strip() or not text.isprintable() or len(text) > 500:
        raise ValueError(f"{what} must be one line of 1 to 500 characters without blanks around it but is {reprlib.repr(text)}")
    return text


def _read(stored: object, name: str) -> Decimal:
    """A stored amount. A release without delta is stored with a zero."""
    if name == "delta" and stored == "0":
        return Decimal(0)
    if not isinstance(stored, str):
        raise TypeError
    return exact_number(stored, name)


def _texts(amount: Amount) -> dict[str, str]:
    return {name: str(value) for name, value in amount.numbers.items()}


def _today() -> str:
    # only the day: the time of a charge shows how long the work before it took, which may depend on the data
    return datetime.now(UTC).date().isoformat()


def _json(receipt: object) -> str:
    if not isinstance(receipt, str):
        raise TypeError(f"a receipt must be JSON text but is of type {type(receipt).__name__}")
    try:
        json.loads(receipt)
        receipt.encode()
    except (ValueError, RecursionError):
        raise ValueError("a receipt must be JSON text: pass what Release.to_json returns") from None
    return receipt
