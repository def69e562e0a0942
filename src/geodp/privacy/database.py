"""How a ledger is stored: the tables, and the differences between SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, final

from sqlalchemy import (
    URL,
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Dialect,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    NullPool,
    Table,
    Text,
    TypeDecorator,
    create_engine,
    func,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError

from geodp.privacy.amounts import exact_number
from geodp.privacy.cost import Cost, cost_from_dict
from geodp.privacy.notions import Privacy, privacy_of

#: The version of the tables below, which is stored with them so that a library refuses tables that it does not know.
SCHEMA_VERSION = 1

#: The lock that serialises the creation of tables and data sets on PostgreSQL: any fixed number, here the letters "geodp".
_OPENING = int.from_bytes(b"geodp")


class Damaged(Exception):
    """The tables hold what this library never writes. It must not increase a budget."""


@final
class _AsText(TypeDecorator[Any]):
    """A value that is stored as text."""

    impl = Text
    cache_ok = True

    def __init__(self, write: Callable[[Any], str], read: Callable[[str], Any]) -> None:
        super().__init__()
        self.write, self.read = write, read

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else self.write(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        try:
            return None if value is None else self.read(value)
        except (ValueError, TypeError, LookupError):
            raise Damaged from None


def _amounts() -> list[Column[Any]]:
    """Exact decimals. A charge has the numbers of its budget's unit; a delta of zero is one of them."""
    read: dict[str, Callable[[str], Decimal]] = {name: partial(exact_number, name=name) for name in ("epsilon", "rho", "mu")}
    read["delta"] = lambda stored: Decimal(0) if stored == "0" else exact_number(stored, "delta")
    return [Column(name, _AsText(str, read[name])) for name in ("epsilon", "delta", "rho", "mu")]


def _privacy(stored: str) -> Privacy:
    return privacy_of(**json.loads(stored))


def _cost(stored: str) -> Cost:
    return cost_from_dict(json.loads(stored))


def cost_text(cost: Cost) -> str:
    """The stored text of a cost, after checking that it can be read back."""
    try:
        stored = json.dumps(cost.to_dict(), allow_nan=False)
        if _cost(stored) == cost:
            return stored
    except (TypeError, ValueError, KeyError):
        pass
    raise TypeError(
        f"a cost of type {type(cost).__name__} cannot be stored: use one that geodp.privacy.cost.cost_from_dict reads"
    )


TABLES = MetaData()
SCHEMA = Table(
    "geodp_schema",
    TABLES,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)
# A budget has its total in its unit, and also epsilon and delta if its total is the rho that implies the two.
DATASETS = Table(
    "geodp_dataset",
    TABLES,
    Column("name", Text, primary_key=True),
    Column("unit", Text, nullable=False),
    *_amounts(),
    Column("neighbours", Text, nullable=False),
    Column("at", _AsText(date.isoformat, date.fromisoformat), nullable=False),
)
CHARGES = Table(
    "geodp_charge",
    TABLES,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("dataset", Text, ForeignKey("geodp_dataset.name"), nullable=False),
    Column("what", Text, nullable=False),
    Column("at", _AsText(date.isoformat, date.fromisoformat), nullable=False),
    *_amounts(),
    Column("privacy", _AsText(lambda privacy: json.dumps(privacy.parameters()), _privacy), nullable=False),
    Column("cost", _AsText(cost_text, _cost), nullable=False),
    Column("neighbours", Text, nullable=False),
    Column("receipt", Text),
    # of the receipt's UTF-8 bytes, in hexadecimal digits; null where there is no receipt
    Column("receipt_sha256", Text),
    Index("geodp_charge_dataset", "dataset"),
    # the number of a charge is never given out twice
    sqlite_autoincrement=True,
)

#: Parameters of a PostgreSQL connection that are secrets themselves (the path of a key or password file is not).
_SECRETS = {"password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret"}


class LedgerError(ValueError):
    """The ledger refuses, or cannot be used. The message says why and what to do.

    >>> from geodp import Ledger
    >>> try:
    ...     Ledger("budget.db")
    ... except LedgerError as error:
    ...     print(error)
    the URL of a ledger must be sqlite:///path/to/file.db or postgresql+psycopg://user:password@host/database
    """


@final
class LedgerLocked(LedgerError):
    """Another process held the ledger for longer than the timeout. Nothing was charged; trying again is safe.

    >>> from geodp import Ledger
    >>> Ledger("sqlite:///budget.db", timeout=5.0)  # doctest: +ELLIPSIS
    <Ledger .../budget.db>
    """


def sha256_of(receipt: str) -> str:
    """The hash that the ledger stores with a receipt.

    >>> sha256_of("{}")[:16]
    '44136fa355b3678a'
    """
    return hashlib.sha256(receipt.encode()).hexdigest()


def database_of(url: str | URL, timeout: float, *, pickled: bool = False) -> Database:
    """The database that a URL names. ``pickled`` means that a pickle left out a secret of the URL."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = URL.create("unknown")
    match parsed.drivername:
        case "sqlite" | "sqlite+pysqlite":
            return SQLite(parsed, timeout)
        case "postgresql" | "postgresql+psycopg":
            return PostgreSQL(parsed, timeout, pickled=pickled)
    # the URL is not quoted: what cannot be parsed may hold a password
    raise LedgerError("the URL of a ledger must be sqlite:///path/to/file.db or postgresql+psycopg://user:password@host/database")


class Database(ABC):
    """The differences between databases: how a transaction starts, and what their errors mean."""

    name: str
    engine: Engine

    @property
    def address(self) -> URL:
        """The URL without its secrets."""
        return self.engine.url

    @property
    def leaves_out_secret(self) -> bool:
        """Whether :attr:`address` leaves out a secret that a connection may need."""
        return False

    def missing(self) -> bool:
        """Whether it is certain, without connecting, that there is no ledger."""
        return False

    @abstractmethod
    def begin_reading(self, connection: Connection) -> None: ...

    @abstractmethod
    def begin_writing(self, connection: Connection) -> None:
        """Starts a transaction whose commit returns only when it is on disk."""

    @abstractmethod
    def lock_opening(self, connection: Connection) -> None:
        """Prevents other processes from creating tables or data sets until the transaction ends."""

    @abstractmethod
    def explain(self, error: DBAPIError) -> LedgerError: ...

    def locked(self, timeout: float) -> LedgerError:
        return LedgerLocked(
            f"the ledger {self.name} was held by another process for {timeout:g} s: nothing was written, try again"
        )

    def damaged(self) -> LedgerError:
        return LedgerError(
            f"the ledger {self.name} is damaged: keep it for its history, and open a new one with totals reduced by "
            "what was spent"
        )


@final
class SQLite(Database):
    def __init__(self, url: URL, timeout: float) -> None:
        if url.host or url.query or not url.database or url.database == ":memory:" or "\0" in url.database:
            raise LedgerError("a SQLite ledger is a file and takes no options: write sqlite:/// and the path of the file")
        # an absolute path: after a change of directory it must be the same ledger, not a new one with a fresh budget
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
        # take the write lock before reading the budget: with a plain BEGIN two processes could both read the old one
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    @staticmethod
    def _be_durable(connection: Connection) -> None:
        # A transaction is committed by deleting its rollback journal. FULL, the default, does not sync the directory after
        # that: power lost right after a draw could bring the journal back, and with it undo the charge. EXTRA syncs it.
        connection.exec_driver_sql("PRAGMA synchronous = EXTRA")
        # on macOS a plain fsync does not reach the disk, and this one does
        connection.exec_driver_sql("PRAGMA fullfsync = ON")

    def lock_opening(self, connection: Connection) -> None:
        """BEGIN IMMEDIATE has locked the whole file."""

    def explain(self, error: DBAPIError) -> LedgerError:
        # low byte: primary code; the rest: extended code
        match getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return self.locked(self.timeout)
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
                return LedgerError(f"the ledger {self.name} is read-only: make the file and its folder writable")
            case sqlite3.SQLITE_CANTOPEN:
                return LedgerError(
                    f"the ledger {self.name} cannot be opened: its folder must exist, and you need write access to both"
                )
            case sqlite3.SQLITE_NOTADB:
                return LedgerError(f"{self.name} is not a ledger but some other kind of file: name another file")
            case sqlite3.SQLITE_FULL:
                return LedgerError(f"the disk of the ledger {self.name} is full: make room and try again")
            case sqlite3.SQLITE_CORRUPT:
                return self.damaged()
        reason = getattr(error.orig, "sqlite_errorname", type(error.orig).__name__)
        return LedgerError(f"the ledger {self.name} failed with {reason}: check the file and its disk")


@final
class PostgreSQL(Database):
    def __init__(self, url: URL, timeout: float, *, pickled: bool = False) -> None:
        if "@" in (url.host or ""):
            # the URL was cut at the first @, so its host may contain the end of a password
            raise LedgerError("an @ in the user or password of a ledger's URL must be written as %40")
        # leave out the password, and the options, which may contain one
        self.name = url.set(query={}).render_as_string(hide_password=True)
        self.timeout, self.pickled = timeout, pickled
        patience = {} if "connect_timeout" in url.query else {"connect_timeout": max(2, math.ceil(timeout))}
        try:
            self.engine = create_engine(
                url.set(drivername="postgresql+psycopg"),
                poolclass=NullPool,
                hide_parameters=True,
                # Each statement must see what was committed before it. Under REPEATABLE READ, which may be a server's default,
                # the sum of the charges would be the one from before the wait for the lock.
                isolation_level="READ COMMITTED",
                connect_args=patience,
            )
        except ImportError:
            raise LedgerError("a PostgreSQL ledger needs the driver psycopg: pip install 'geodp[postgres]'") from None

    @property
    def address(self) -> URL:
        url = self.engine.url
        query = {name: value for name, value in url.query.items() if name.lower() not in _SECRETS}
        return URL.create(url.drivername, url.username, None, url.host, url.port, url.database, query)

    @property
    def leaves_out_secret(self) -> bool:
        return self.pickled or self.address != self.engine.url

    def begin_reading(self, connection: Connection) -> None:
        """The driver starts a transaction with the first statement."""

    def begin_writing(self, connection: Connection) -> None:
        connection.execute(select(func.set_config("lock_timeout", str(math.ceil(1000.0 * self.timeout)), True)))
        # even if the server does not sync commits by default, this one must reach the disk
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
                    f"the ledger {self.name} is read-only for this user: connect to a primary server as a user who may write"
                )
            case "53100":
                return LedgerError(f"the disk of the ledger {self.name} is full: make room and try again")
            case str(code) if not code.startswith(("08", "28", "57P")):
                return LedgerError(f"the ledger {self.name} failed with SQLSTATE {code}: check the server's log")
        if self.pickled:
            return LedgerError(
                f"no connection to the ledger {self.name}, which was pickled without its password: set PGPASSWORD or "
                "PGPASSFILE in the environment, or open it again with geodp.Ledger(url)"
            )
        return LedgerError(
            f"no connection to the ledger {self.name}: check that the server runs, and the host, database, user and password; "
            "if the connection broke during a charge, the history shows whether the charge was entered"
        )
