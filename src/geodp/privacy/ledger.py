"""A durable ledger of privacy budgets that concurrent processes cannot overspend."""

from __future__ import annotations

import json
import math
import reprlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import reduce
from numbers import Integral
from pathlib import Path
from typing import Any, final

from sqlalchemy import (
    URL,
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    NullPool,
    Row,
    Table,
    Text,
    create_engine,
    func,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError

from geodp.inputs import real_number

#: Digits an epsilon may have after the point, and the largest epsilon.
_PLACES, _LARGEST = 30, Decimal(10**9)
# sums of admissible numbers below the largest need 40 digits; should that ever be wrong, Inexact raises and nothing is rounded
_EXACT = Context(prec=60, traps=[Inexact, InvalidOperation])
_UNIT = Decimal(1).scaleb(-_PLACES)

#: The layout of the tables below. Every layout keeps ``geodp_schema.version``, so that any version of the library can refuse.
SCHEMA_VERSION = 1

_TABLES = MetaData()
_SCHEMA = Table(
    "geodp_schema",
    _TABLES,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)
_DATASETS = Table(
    "geodp_dataset",
    _TABLES,
    Column("name", Text, primary_key=True),
    Column("epsilon", Text, nullable=False),
    Column("at", Text, nullable=False),
)
_CHARGES = Table(
    "geodp_charge",
    _TABLES,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("dataset", Text, ForeignKey("geodp_dataset.name"), nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("receipt", Text),
    Index("geodp_charge_dataset", "dataset"),
    # the number of a charge is never given out twice
    sqlite_autoincrement=True,
)

#: What serialises the creation of tables and data sets on PostgreSQL: any fixed number, here the letters "geodp".
_OPENING = int.from_bytes(b"geodp")


class LedgerError(ValueError):
    """The ledger refuses, or cannot be used; the sentence says why and what to do."""


@final
class BudgetExhausted(LedgerError):
    """A charge asked for more than is left. Nothing was charged."""


@final
class LedgerLocked(LedgerError):
    """Another process held the ledger for longer than the timeout. Nothing was charged; trying again is safe."""


@final
@dataclass(frozen=True)
class Charge:
    """One entry of a ledger: ``epsilon`` of the data set's budget was spent at ``at`` (UTC) on ``what``.

    ``receipt`` is the JSON text of the release, or None as long as none is attached: the release may have failed, or its
    process may have died, after the charge. The budget is spent all the same, since noise may have been drawn.
    """

    id: int
    dataset: str
    epsilon: Decimal
    at: datetime
    what: str
    receipt: str | None = None


def exact_epsilon(epsilon: int | float | str | Decimal) -> Decimal:
    """The decimal number that is charged for ``epsilon``: a float stands for its shortest decimal form.

    A mechanism that is charged by a ledger must calibrate its noise to this number, rounding in the safe direction: the
    float 0.1 is larger than what is charged for it.

    >>> exact_epsilon(0.1), exact_epsilon("1e-3"), exact_epsilon(2)
    (Decimal('0.1'), Decimal('0.001'), Decimal('2'))
    """
    value = _decimal(epsilon)
    if not value.is_finite() or value <= 0:
        raise ValueError(f"epsilon must be positive and finite but is {value:.12g}")
    if value > _LARGEST:
        raise ValueError(f"epsilon must be at most {_LARGEST} but is {value:.12g}")
    try:
        value = _EXACT.quantize(value, _UNIT)
    except Inexact:
        message = f"epsilon may have {_PLACES} digits after the point but {value:.12g} has more: round it first"
        raise ValueError(message) from None
    return _canonical(value)


def _decimal(epsilon: object) -> Decimal:
    match epsilon:
        case bool():
            pass
        case Decimal():
            return epsilon
        case float():
            return Decimal(repr(float(epsilon)))
        case Integral():
            return Decimal(int(epsilon))
        case str():
            try:
                return Decimal(epsilon, _EXACT)
            except InvalidOperation:
                raise ValueError(f"epsilon must be a number but is {reprlib.repr(epsilon)}") from None
    raise TypeError(f"epsilon must be an int, a float, a str or a Decimal but is of type {type(epsilon).__name__}")


def _canonical(value: Decimal) -> Decimal:
    """The same number as people write it: 0.5 for 0.50, and 1000 for 1E+3."""
    return Decimal(format(_EXACT.normalize(value), "f"))


def _line(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str but is of type {type(text).__name__}")
    if not text or text != text.strip() or not text.isprintable() or len(text) > 500:
        raise ValueError(f"{what} must be one line of 1 to 500 characters without blanks around it but is {reprlib.repr(text)}")
    return text


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


class _Database(ABC):
    """What differs between the databases: how a transaction starts, and what their errors mean."""

    name: str
    engine: Engine

    def missing(self) -> bool:
        """Whether it is certain, without connecting, that there is no ledger."""
        return False

    @abstractmethod
    def begin_reading(self, connection: Connection) -> None: ...

    @abstractmethod
    def begin_writing(self, connection: Connection) -> None:
        """Start a transaction whose commit is on disk when it returns."""

    @abstractmethod
    def lock_opening(self, connection: Connection) -> None:
        """Let no other process create tables or data sets until the transaction ends."""

    @abstractmethod
    def explain(self, error: DBAPIError) -> LedgerError: ...

    def locked(self, timeout: float) -> LedgerError:
        return LedgerLocked(
            f"the ledger {self.name} was held by another process for {timeout:g} s: nothing was written, try again"
        )

    def damaged(self) -> LedgerError:
        return LedgerError(
            f"the ledger {self.name} is damaged: keep it for its history, and open a new one whose totals leave out "
            "what was spent"
        )


@final
class _SQLite(_Database):
    def __init__(self, url: URL, timeout: float) -> None:
        if url.host or url.query or not url.database or url.database == ":memory:" or "\0" in url.database:
            raise LedgerError("a SQLite ledger is a file and takes no options: write sqlite:/// and the path of the file")
        # an absolute path: after a change of directory the same ledger is meant, not a new one with a fresh budget
        self.path = Path(url.database).absolute()
        file = str(self.path)
        # a line break in the name of the file must not break a sentence in two
        self.name = file if file.isprintable() else ascii(file)
        self.timeout = timeout
        self.engine = create_engine(
            URL.create("sqlite", database=file),
            # a connection for each transaction: none is ever shared with a forked process
            poolclass=NullPool,
            hide_parameters=True,
            # isolation_level None: the driver starts no transactions of its own
            connect_args={"timeout": timeout, "isolation_level": None},
        )

    def missing(self) -> bool:
        try:
            return not self.path.exists()
        except OSError:
            return False

    def begin_reading(self, connection: Connection) -> None:
        self._be_durable(connection)
        connection.exec_driver_sql("BEGIN")

    def begin_writing(self, connection: Connection) -> None:
        self._be_durable(connection)
        # the write lock comes before the budget is read: with a plain BEGIN two processes could both read the old one
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    @staticmethod
    def _be_durable(connection: Connection) -> None:
        # A transaction is committed by deleting its rollback journal. FULL, the default, does not sync the directory after
        # that: power lost right after a draw could bring the journal back, and with it undo the charge. EXTRA syncs it.
        connection.exec_driver_sql("PRAGMA synchronous = EXTRA")
        # where a plain fsync stops short of the disk (macOS), ask for the one that does not
        connection.exec_driver_sql("PRAGMA fullfsync = ON")

    def lock_opening(self, connection: Connection) -> None:
        """BEGIN IMMEDIATE has locked the whole file."""

    def explain(self, error: DBAPIError) -> LedgerError:
        # the low byte is the error, what is above it the variety
        match getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return self.locked(self.timeout)
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
                return LedgerError(f"the ledger {self.name} is read-only: make the file and its folder writable")
            case sqlite3.SQLITE_CANTOPEN:
                return LedgerError(
                    f"the ledger {self.name} cannot be opened: its folder must exist, and you must be allowed to write to both"
                )
            case sqlite3.SQLITE_NOTADB:
                return LedgerError(f"{self.name} is no ledger but some other kind of file: name another file")
            case sqlite3.SQLITE_FULL:
                return LedgerError(f"the disk of the ledger {self.name} is full: make room and try again")
            case sqlite3.SQLITE_CORRUPT:
                return self.damaged()
        reason = getattr(error.orig, "sqlite_errorname", type(error.orig).__name__)
        return LedgerError(f"the ledger {self.name} failed with {reason}: check the file and its disk")


@final
class _PostgreSQL(_Database):
    def __init__(self, url: URL, timeout: float) -> None:
        # no password, and no options since they may hold one
        self.name = url.set(query={}).render_as_string(hide_password=True)
        self.timeout = timeout
        patience = {} if "connect_timeout" in url.query else {"connect_timeout": max(2, math.ceil(timeout))}
        try:
            self.engine = create_engine(
                url.set(drivername="postgresql+psycopg"),
                poolclass=NullPool,
                hide_parameters=True,
                # Each statement must see what was committed before it: under REPEATABLE READ, which a server may have as its
                # default, the sum of the charges would be read as it was before the lock was waited for.
                isolation_level="READ COMMITTED",
                connect_args=patience,
            )
        except ImportError:
            raise LedgerError("a PostgreSQL ledger needs the driver psycopg: pip install 'geodp[postgres]'") from None

    def begin_reading(self, connection: Connection) -> None:
        """The driver starts a transaction with the first statement."""

    def begin_writing(self, connection: Connection) -> None:
        connection.execute(select(func.set_config("lock_timeout", str(math.ceil(1000.0 * self.timeout)), True)))
        # where commits need not reach the disk, this one still must
        setting = "synchronous_commit"
        connection.execute(select(func.set_config(setting, "on", True)).where(func.current_setting(setting) == "off"))

    def lock_opening(self, connection: Connection) -> None:
        connection.execute(select(func.pg_advisory_xact_lock(_OPENING)))

    def explain(self, error: DBAPIError) -> LedgerError:
        match getattr(error.orig, "sqlstate", None):
            case "55P03" | "40001" | "40P01":
                return self.locked(self.timeout)
            case "25006" | "42501":
                return LedgerError(
                    f"the ledger {self.name} is read-only for this user: connect as one who may write, to a primary server"
                )
            case "53100":
                return LedgerError(f"the disk of the ledger {self.name} is full: make room and try again")
            case str(code) if not code.startswith(("08", "57P")):
                return LedgerError(f"the ledger {self.name} failed with SQLSTATE {code}: check the server's log")
        return LedgerError(
            f"no connection to the ledger {self.name}: check that the server runs, and the host, database, user and password; "
            "if it broke off during a charge, the history shows whether that was entered"
        )


@final
class Ledger:
    r"""Budgets of data sets, each a total epsilon, and the charges against them, in a SQLite file or a PostgreSQL database.

    ``url`` is ``sqlite:///`` and a path, or ``postgresql+psycopg://user:password@host/database``. Nothing is read or written
    before the first method is called; :meth:`open` creates file and tables. Every method is one transaction, which gives up
    with :class:`LedgerLocked` when another process holds the ledger for longer than ``timeout`` seconds.

    What is guaranteed: the charges of a data set never add up to more than its total, in exact decimal arithmetic, whatever
    number of processes, threads and machines charge it at once. When :meth:`charge` returns, the charge is on disk, and only
    then may noise be drawn: a crash between the two loses budget, never privacy. A crash at any other moment leaves the
    charge entered or not, and nothing in between. By sequential composition all releases charged to one data set together
    are differentially private with its total epsilon.

    What that assumes: every release from the data is charged, to the same ledger and data set; the disk keeps what it
    has reported as synced, and PostgreSQL runs with its default ``fsync = on``; a SQLite file lies on a local disk (locks
    on network file systems are unreliable: use PostgreSQL there). The ledger guards against mistakes, not against those who
    may write to it: deleting it or putting back an older copy of it brings spent budget back.

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
    >>> folder.cleanup()
    """

    def __init__(self, url: str | URL = "sqlite:///geodp-budget.db", *, timeout: float = 30.0) -> None:
        if not isinstance(url, str | URL):
            raise TypeError(f"the URL of a ledger must be a str but is of type {type(url).__name__}")
        self._timeout = real_number(timeout, "the timeout")
        if not 0.0 < self._timeout <= 1e6:
            raise ValueError(f"the timeout must be positive and at most a million seconds but is {timeout}")
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):
            parsed = URL.create("unknown")
        match parsed.drivername:
            case "sqlite" | "sqlite+pysqlite":
                self._database: _Database = _SQLite(parsed, self._timeout)
            case "postgresql" | "postgresql+psycopg":
                self._database = _PostgreSQL(parsed, self._timeout)
            case _:
                # the URL is not quoted: what cannot be parsed may hold a password
                raise LedgerError(
                    "the URL of a ledger must be sqlite:///path/to/file.db or postgresql+psycopg://user:password@host/database"
                )

    def __repr__(self) -> str:
        return f"<Ledger {self._database.name}>"

    def __reduce__(self) -> tuple[Callable[[URL, float], Ledger], tuple[URL, float]]:
        # by the engine's URL, whose path is absolute: the process that unpickles may have another working directory
        return _reopen, (self._database.engine.url, self._timeout)

    def open(self, dataset: str, epsilon: int | float | str | Decimal) -> None:
        """Enter a data set with its total budget; again with the same total is allowed and changes nothing."""
        name, total = _line(dataset, "the name of a data set"), exact_epsilon(epsilon)
        with self._connection() as connection:
            self._database.begin_writing(connection)
            self._database.lock_opening(connection)
            self._create_tables(connection)
            granted = connection.scalar(select(_DATASETS.c.epsilon).where(_DATASETS.c.name == name))
            if granted is None:
                connection.execute(insert(_DATASETS).values(name=name, epsilon=str(total), at=_now()))
            elif self._read(granted) != total:
                raise LedgerError(
                    f"the data set {name!r} is open with a total epsilon of {granted}, not {total}: a total cannot be changed, "
                    f"leave it at {granted}"
                )

    def charge(self, dataset: str, epsilon: int | float | str | Decimal, *, what: str) -> Charge:
        """Spend ``epsilon`` of the data set's budget on ``what``, before any noise is drawn; what is not left is refused.

        When this returns, the charge is on disk. When it raises, no noise may be drawn.
        """
        name, asked, purpose = _line(dataset, "the name of a data set"), exact_epsilon(epsilon), _line(what, "what is charged")
        with self._writing() as connection:
            self._check_left(connection, name, asked, lock=True)
            entry = {"dataset": name, "epsilon": str(asked), "at": _now(), "what": purpose}
            key = connection.execute(insert(_CHARGES).values(entry)).inserted_primary_key
            assert key is not None
        return Charge(key[0], name, asked, datetime.fromisoformat(entry["at"]), purpose)

    def check(self, dataset: str, epsilon: int | float | str | Decimal) -> None:
        """Raise what :meth:`charge` would raise if it were called now; nothing is charged, and nothing is set aside.

        It saves long work whose charge would be refused. Only the charge itself is safe against others who spend meanwhile.
        """
        name, asked = _line(dataset, "the name of a data set"), exact_epsilon(epsilon)
        with self._reading() as connection:
            self._check_left(connection, name, asked)

    def attach(self, charge_id: int, receipt_json: str) -> None:
        """Keep the receipt of a release with its charge, once: an attached receipt is never replaced."""
        if isinstance(charge_id, bool) or not isinstance(charge_id, Integral):
            raise TypeError(f"the number of a charge must be an int but is of type {type(charge_id).__name__}")
        receipt, number = _json(receipt_json), int(charge_id)
        with self._writing() as connection:
            # no database could even look for a number past 64 bits
            entry = select(_CHARGES.c.id).where(_CHARGES.c.id == number)
            if not 0 < number < 2**63 or connection.scalar(entry) is None:
                raise LedgerError(f"the ledger {self._database.name} has no charge of that number: see its history")
            here = update(_CHARGES).where(_CHARGES.c.id == number, _CHARGES.c.receipt.is_(None))
            if connection.execute(here.values(receipt=receipt)).rowcount != 1:
                raise LedgerError(f"charge {number} has its receipt already: attach another release to its own charge")

    def total(self, dataset: str) -> Decimal:
        """The budget the data set was opened with."""
        return self._account(dataset)[0]

    def spent(self, dataset: str) -> Decimal:
        """The exact sum of the data set's charges."""
        return self._account(dataset)[1]

    def remaining(self, dataset: str) -> Decimal:
        """What is left of the data set's budget: its total less what is spent."""
        return _canonical(_EXACT.subtract(*self._account(dataset)))

    def datasets(self) -> list[str]:
        """The names of the data sets, in alphabetical order."""
        with self._reading() as connection:
            return _names(connection)

    def history(self, dataset: str) -> list[Charge]:
        """The data set's charges, oldest first."""
        name = _line(dataset, "the name of a data set")
        with self._reading() as connection:
            self._total(connection, name)
            rows = connection.execute(select(_CHARGES).where(_CHARGES.c.dataset == name).order_by(_CHARGES.c.id)).all()
            return [self._charge(row) for row in rows]

    def _account(self, dataset: str) -> tuple[Decimal, Decimal]:
        name = _line(dataset, "the name of a data set")
        with self._reading() as connection:
            return self._total(connection, name), self._spent(connection, name)

    def _check_left(self, connection: Connection, name: str, asked: Decimal, *, lock: bool = False) -> None:
        total = self._total(connection, name, lock=lock)
        left = _canonical(_EXACT.subtract(total, self._spent(connection, name)))
        if asked > left:
            remedy = f"ask for at most {left}" if left > 0 else "no further release from it is possible"
            raise BudgetExhausted(f"the data set {name!r} has {left} of {total} left, {asked} was asked for: {remedy}")

    def _total(self, connection: Connection, name: str, *, lock: bool = False) -> Decimal:
        query = select(_DATASETS.c.epsilon).where(_DATASETS.c.name == name)
        # the lock on the row (SQLite has the whole file locked) makes all others wait who would charge this data set
        total = connection.scalar(query.with_for_update() if lock else query)
        if total is None:
            known = ", ".join(map(repr, _names(connection)[:10])) or "none"
            raise LedgerError(
                f"the ledger {self._database.name} has no data set {name!r} (it has {known}): open it with its total epsilon"
            )
        return self._read(total)

    def _spent(self, connection: Connection, name: str) -> Decimal:
        charges = connection.scalars(select(_CHARGES.c.epsilon).where(_CHARGES.c.dataset == name))
        return _canonical(reduce(_EXACT.add, map(self._read, charges), Decimal(0)))

    def _read(self, stored: str) -> Decimal:
        # a negative or unreadable entry was not written by this class, and must not bring budget back
        try:
            return exact_epsilon(stored)
        except (ValueError, TypeError):
            raise self._database.damaged() from None

    def _charge(self, row: Row[Any]) -> Charge:
        try:
            at = datetime.fromisoformat(row.at)
        except (ValueError, TypeError):
            raise self._database.damaged() from None
        return Charge(row.id, row.dataset, self._read(row.epsilon), at, row.what, row.receipt)

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
    def _reading(self) -> Iterator[Connection]:
        self._check_exists()
        with self._connection() as connection:
            self._database.begin_reading(connection)
            self._check_schema(connection)
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        self._check_exists()
        with self._connection() as connection:
            self._database.begin_writing(connection)
            self._check_schema(connection)
            yield connection

    def _check_exists(self) -> None:
        # SQLite would create the file; a mistyped path must not leave an empty ledger behind
        if self._database.missing():
            raise self._absent()

    def _absent(self) -> LedgerError:
        return LedgerError(f"there is no ledger at {self._database.name} yet: open a data set with its total epsilon first")

    def _check_schema(self, connection: Connection) -> None:
        if not inspect(connection).has_table(_SCHEMA.name):
            raise self._absent()
        version = connection.scalar(select(_SCHEMA.c.version))
        if not isinstance(version, int) or version < 1:
            raise self._database.damaged()
        if version > SCHEMA_VERSION:
            raise LedgerError(
                f"the ledger {self._database.name} was written by a newer geodp (schema {version}, this one knows "
                f"{SCHEMA_VERSION}): upgrade geodp"
            )

    def _create_tables(self, connection: Connection) -> None:
        if inspect(connection).has_table(_SCHEMA.name):
            return self._check_schema(connection)
        _TABLES.create_all(connection, checkfirst=False)
        connection.execute(insert(_SCHEMA).values(id=1, version=SCHEMA_VERSION))


def _reopen(url: URL, timeout: float) -> Ledger:
    return Ledger(url, timeout=timeout)


def _names(connection: Connection) -> list[str]:
    # sorted here: databases differ in their alphabets
    return sorted(connection.scalars(select(_DATASETS.c.name)))


def _json(receipt: object) -> str:
    if not isinstance(receipt, str):
        raise TypeError(f"a receipt must be JSON text but is of type {type(receipt).__name__}")
    try:
        json.loads(receipt)
        receipt.encode()
    except (ValueError, RecursionError):
        raise ValueError("a receipt must be JSON text: pass what Release.to_json returns") from None
    return receipt
