"""A durable ledger of privacy budgets that concurrent processes cannot overspend."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Integral
from typing import Any, final

from sqlalchemy import URL, Connection, Row, Select, insert, inspect, select, update
from sqlalchemy.exc import DBAPIError

from geodp.inputs import real_number
from geodp.privacy.amounts import Amount, Number, amount_of, shown, shown_above
from geodp.privacy.budgets import COLUMNS, PAIR, PURE, UNITS, Budget, EpsilonDelta, NoPrice, Terms, cost_claimed, terms_of
from geodp.privacy.cost import Cost, compose, cost_from_dict
from geodp.privacy.database import (
    CHARGES,
    DATASETS,
    SCHEMA,
    SCHEMA_VERSION,
    TABLES,
    Damaged,
    LedgerError,
    LedgerLocked,
    cost_text,
    database_of,
    sha256_of,
)
from geodp.privacy.neighbours import KNOWN, REPLACE_ONE, Neighbours, Unit, sentence, why_not
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

    No time of day is stored, because the duration of a release may depend on the data.
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
        neighbours: Neighbours | str = "replace",
        unit: Unit | None = None,
    ) -> None:
        """Opens a data set with its total budget, in exactly one notion. Opening it again with the same terms changes nothing.

        ``compose`` is for epsilon and delta: ``"sum"``, the default, adds both separately; ``"rho"`` adds rhos, up to the
        largest rho that implies the two. :func:`geodp.privacy.budgets.releases_admitted` says which admits more releases.

        ``neighbours`` ("replace" or "add-remove") and ``unit`` ("record" or "person") say whom the budget protects. It accepts
        releases that imply this (:mod:`geodp.privacy.neighbours`). Labels of groups that a release calls public are public in
        its budget, too: it then protects records that keep their groups, and :meth:`budget` says so.
        """
        name = _line(dataset, "the name of a data set")
        terms = terms_of(compose, _neighbours(neighbours, unit), epsilon=epsilon, delta=delta, rho=rho, mu=mu)
        with self._writing(create=True) as connection:
            row = connection.execute(select(DATASETS).where(DATASETS.c.name == name)).one_or_none()
            if row is None:
                entry = {"name": name, "unit": str(terms.unit), "neighbours": terms.neighbours, "at": _today()}
                connection.execute(insert(DATASETS).values(entry | terms.promise.numbers | terms.total.numbers))
            elif (granted := _terms(row)) != terms:
                raise LedgerError(
                    f"the data set {name!r} is open with a total {granted}, not {terms}: a total cannot be changed, leave it as "
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
        neighbours: Neighbours | str = "replace",
        unit: Unit | None = None,
        what: str,
    ) -> Charge:
        """Spends some of the data set's budget on ``what``, before any noise is drawn. Refuses if not enough is left.

        Give the requested privacy in one notion, as numbers or as ``privacy``. If the ``cost`` of the release is known, give it
        too: if the budget is in another unit than the request, the charge is the cost in that unit, rounded up. Without it, only
        the requested privacy is assumed of the mechanism. In the budget's own unit the charge is exactly the requested number.
        ``neighbours`` and ``unit`` say for which neighbours this holds, as in :meth:`open`, or in your own words.

        When this returns, the charge is on disk. When it raises, no noise may be drawn.
        """
        name, purpose = _line(dataset, "the name of a data set"), _line(what, "what is charged")
        asked, cost = _request({"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}, privacy, cost)
        about = _neighbours(neighbours, unit)
        with self._writing() as connection:
            price = self._price(connection, name, asked, cost, about, lock=True)
            kept = {"privacy": asked.privacy, "cost": cost, "neighbours": about}
            entry: dict[str, Any] = {"dataset": name, "what": purpose, "at": _today(), **kept, **price.numbers}
            key = connection.execute(insert(CHARGES).values(entry)).inserted_primary_key
            assert key is not None
        return Charge(id=key[0], **entry)

    def attach(self, charge_id: int, receipt_json: str) -> None:
        """Stores the receipt of a release with its charge. An attached receipt is never replaced.

        A receipt of geodp is refused if its data set, number of the charge, privacy, neighbours or cost differ from those of
        the entry. Other JSON text, such as that of another program's mechanism, is compared only in those fields that it has.
        """
        if isinstance(charge_id, bool) or not isinstance(charge_id, Integral):
            raise TypeError(f"the number of a charge must be an int but is of type {type(charge_id).__name__}")
        receipt, number = _json(receipt_json), int(charge_id)
        with self._writing() as connection:
            entry = self._entry(connection, number)
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
        with self._reading() as connection:
            entry = self._entry(connection, number)
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
        neighbours: Neighbours | str = "replace",
        unit: Unit | None = None,
    ) -> None:
        """Raises what :meth:`charge` would raise if it were called now. Nothing is charged or reserved.

        This avoids long work whose charge would be refused. Others may still spend the budget before the charge itself.
        """
        name = _line(dataset, "the name of a data set")
        asked, cost = _request({"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}, privacy, cost)
        with self._reading() as connection:
            self._price(connection, name, asked, cost, _neighbours(neighbours, unit))

    def budget(self, dataset: str) -> Budget:
        """The data set's budget: its total, what is spent and left, and what all charges together reveal."""
        name = _line(dataset, "the name of a data set")
        with self._reading() as connection:
            terms = self._find(connection, name)
            rows = connection.execute(_charges(name, "cost", "neighbours", *terms.unit.names)).all()
            amounts = [_amount(row, terms.unit.names) for row in rows]
        unit = terms.unit
        return Budget(
            dataset=name,
            unit=str(unit),
            total=unit.value(terms.total),
            spent=unit.value(unit.spent(amounts)),
            left=unit.value(unit.left(terms.total, amounts)),
            promise=terms.promise.privacy,
            rule=terms.rule,
            neighbours=_protected(terms.neighbours, [row.neighbours for row in rows]),
            cost=compose(row.cost for row in rows),
        )

    def total(self, dataset: str) -> Decimal | EpsilonDelta:
        """The data set's total in its budget's unit: a Decimal, or two of them for epsilon and delta."""
        return self.budget(dataset).total

    def spent(self, dataset: str) -> Decimal | EpsilonDelta:
        """The exact sum of the data set's charges in its budget's unit; for mu, the root of the sum of squares, rounded up."""
        return self.budget(dataset).spent

    def remaining(self, dataset: str) -> Decimal | EpsilonDelta:
        """The most that can still be charged, in its budget's unit: exact, and for mu rounded down to 30 digits."""
        return self.budget(dataset).left

    def datasets(self) -> list[str]:
        """The names of the data sets, in alphabetical order."""
        with self._reading() as connection:
            return _names(connection)

    def history(self, dataset: str) -> list[Charge]:
        """The data set's charges, oldest first."""
        name = _line(dataset, "the name of a data set")
        with self._reading() as connection:
            terms = self._find(connection, name)
            return [self._charge(row, terms) for row in connection.execute(_charges(name))]

    # ------------------------------------------------------------------ rows

    def _price(
        self, connection: Connection, name: str, asked: Amount, cost: Cost, neighbours: str, *, lock: bool = False
    ) -> Amount:
        """The charge in the budget's unit; raises if less than that is left."""
        terms = self._find(connection, name, lock=lock)
        if reason := why_not(neighbours, terms.neighbours):
            raise LedgerError(
                f"the budget of {name!r} has the neighbours {terms.neighbours!r}, and this charge {neighbours!r}, which does not "
                f"imply them, because {reason}"
            )
        try:
            price = terms.unit.price(asked, cost)
        except NoPrice as error:
            kind = PURE.words if terms.unit is PURE else terms.unit
            raise LedgerError(f"the budget of {name!r} is in {kind}, and {error}") from None
        if not any(price.numbers.values()):
            raise LedgerError(f"a charge on {name!r} must spend something: its cost is zero")
        rows = connection.execute(_charges(name, *terms.unit.names))
        charges = [_amount(row, terms.unit.names) for row in rows]
        if not terms.unit.fits(price, terms.total, charges):
            raise BudgetExhausted(_exhausted(name, terms, terms.unit.left(terms.total, charges), price, asked))
        return price

    def _find(self, connection: Connection, name: str, *, lock: bool = False) -> Terms:
        query = select(DATASETS).where(DATASETS.c.name == name)
        # the lock on the row makes others who charge this data set wait (SQLite locks the whole file)
        row = connection.execute(query.with_for_update() if lock else query).one_or_none()
        if row is None:
            known = ", ".join(map(repr, _names(connection)[:10])) or "none"
            raise LedgerError(
                f"the ledger {self._database.name} has no data set {name!r} (it has {known}): open it with its total budget"
            )
        return _terms(row)

    def _entry(self, connection: Connection, number: int) -> Charge | None:
        """The charge with that number, if there is one."""
        if not 0 < number < 2**63:  # databases cannot look up larger numbers
            return None
        row = connection.execute(select(CHARGES).where(CHARGES.c.id == number)).one_or_none()
        return None if row is None else self._charge(row, self._find(connection, row.dataset))

    def _charge(self, row: Row[Any], terms: Terms) -> Charge:
        if row.receipt_sha256 is not None and (row.receipt is None or sha256_of(row.receipt) != row.receipt_sha256):
            raise LedgerError(
                f"the receipt of charge {row.id} in the ledger {self._database.name} is not the one that was attached: someone "
                "changed it in the database, so ask for the original"
            )
        _amount(row, terms.unit.names)
        return Charge(**row._asdict())

    # ------------------------------------------------------------------ transactions

    @contextmanager
    def _transaction(self, begin: Callable[[Connection], None], *, create: bool = False) -> Iterator[Connection]:
        """A connection whose transaction is committed at the end, and rolled back by any exception."""
        # SQLite would create the file, and a mistyped path must not leave an empty ledger behind
        if not create and self._database.missing():
            raise self._absent()
        try:
            with self._database.engine.connect() as connection:
                begin(connection)
                if create:
                    self._database.lock_opening(connection)
                there = inspect(connection).has_table(SCHEMA.name)
                if create and not there:
                    TABLES.create_all(connection, checkfirst=False)
                    connection.execute(insert(SCHEMA).values(id=1, version=SCHEMA_VERSION))
                elif not there:
                    raise self._absent()
                self._check_version(connection)
                yield connection
                connection.commit()
        except DBAPIError as error:
            raise self._database.explain(error) from None
        except Damaged:
            raise self._database.damaged() from None

    def _reading(self) -> AbstractContextManager[Connection]:
        return self._transaction(self._database.begin_reading)

    def _writing(self, *, create: bool = False) -> AbstractContextManager[Connection]:
        return self._transaction(self._database.begin_writing, create=create)

    def _absent(self) -> LedgerError:
        return LedgerError(f"there is no ledger at {self._database.name} yet: open a data set with its total budget first")

    def _check_version(self, connection: Connection) -> None:
        version = connection.scalar(select(SCHEMA.c.version))
        if not isinstance(version, int) or version < 1:
            raise Damaged
        if version > SCHEMA_VERSION:
            raise LedgerError(
                f"the ledger {self._database.name} was written by a newer geodp (schema {version}, this one knows "
                f"{SCHEMA_VERSION}): upgrade geodp"
            )


def _reopen(url: URL, timeout: float, leaves_out_secret: bool = False) -> Ledger:
    ledger = Ledger(url, timeout=timeout)
    if leaves_out_secret:
        ledger._database = database_of(url, timeout, pickled=True)
    return ledger


def _charges(name: str, *columns: str) -> Select[Any]:
    """The data set's charges, oldest first: some columns of them, or all."""
    query = select(*(CHARGES.c[column] for column in columns)) if columns else select(CHARGES)
    return query.where(CHARGES.c.dataset == name).order_by(CHARGES.c.id)


def _names(connection: Connection) -> list[str]:
    # sorted here, because databases sort text differently
    return sorted(connection.scalars(select(DATASETS.c.name)))


def _terms(row: Row[Any]) -> Terms:
    if row.unit not in UNITS:
        raise Damaged
    unit = UNITS[row.unit]
    total = _amount(row, unit.names)
    through_rho = unit.names == ("rho",) and row.epsilon is not None
    return Terms(_amount(row, PAIR.names) if through_rho else total, unit, total, row.neighbours)


def _amount(row: Row[Any], names: tuple[str, ...]) -> Amount:
    numbers = {name: row._mapping[name] for name in names}
    if None in numbers.values():
        raise Damaged
    return Amount(**numbers)


def _protected(budget: str, charged: list[str]) -> str:
    """The neighbours that a budget protects: those it was opened for, with their groups if a charge calls those public."""
    opened, releases = KNOWN.get(budget), (KNOWN.get(line) for line in charged)
    if opened is None or not any(release is not None and release.keeps_group for release in releases):
        return budget
    return str(replace(opened, keeps_group=True))


def _neighbours(neighbours: Neighbours | str, unit: Unit | None) -> str:
    return _line(sentence(neighbours, unit), "the kind of neighbours")


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
    cost_text(cost)
    return asked, cost


def _contradicted(receipt: object, entry: Charge) -> str | None:
    """The first field in which a receipt differs from its charge, or None. A receipt of geodp must have all fields."""
    if not isinstance(receipt, dict):
        return None
    ours = "geodp" in receipt
    for key, kept, name in (
        ("dataset", entry.dataset, "data set"),
        ("charge", entry.id, "number"),
        ("neighbours", entry.neighbours, "kind of neighbours"),
    ):
        if (ours or key in receipt) and (type(receipt.get(key)) is not type(kept) or receipt[key] != kept):
            return name
    asked = {name: receipt[name] for name in ("epsilon", "delta", "rho", "mu") if receipt.get(name) is not None}
    try:
        if (ours or asked) and amount_of(**asked).privacy != entry.privacy:
            return "privacy"
    except (ValueError, TypeError):
        return "privacy"
    if not ours and "cost" not in receipt:
        return None
    try:
        stated = cost_from_dict({name: value for name, value in receipt["cost"].items() if name != "spends"})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "cost"
    return None if stated == entry.cost else "cost"


def _exhausted(name: str, terms: Terms, left: Amount, price: Amount, asked: Amount) -> str:
    names = terms.unit.names

    def listed(texts: Iterable[str]) -> str:
        # a budget in pure epsilon needs no name for its number
        return " and ".join(text if terms.unit is PURE else f"{each} {text}" for each, text in zip(names, texts, strict=True))

    exact = all(asked.numbers.get(each, 0) == price.numbers[each] for each in names)
    has = listed(f"{shown(left.numbers[each])} of {terms.total.numbers[each]}" for each in names)
    costs = listed(shown_above(price.numbers[each]) for each in names)
    wanted = f"{costs} was asked for" if exact else f"this release costs {costs}"
    remedy = "no further release from it is possible"
    if left.numbers[names[0]] > 0:
        fits = listed(shown(left.numbers[each]) for each in names)
        remedy = f"ask for {'at most' if exact else 'less, so that it costs at most'} {fits}"
    return f"the data set {name!r} has {has} left, {wanted}: {remedy}"


def _line(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str but is of type {type(text).__name__}")
    if not text or text != text.strip() or not text.isprintable() or len(text) > 500:
        raise ValueError(f"{what} must be one line of 1 to 500 characters without blanks around it but is {reprlib.repr(text)}")
    return text


def _today() -> date:
    # only the day: the time of a charge shows how long the work before it took, which may depend on the data
    return datetime.now(UTC).date()


def _json(receipt: object) -> str:
    if not isinstance(receipt, str):
        raise TypeError(f"a receipt must be JSON text but is of type {type(receipt).__name__}")
    try:
        json.loads(receipt)
        receipt.encode()
    except (ValueError, RecursionError):
        raise ValueError("a receipt must be JSON text: pass what Release.to_json returns") from None
    return receipt
