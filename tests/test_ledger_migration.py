"""A ledger of schema 1 can be read as it is; the first charge brings it up to date in one transaction and loses nothing."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import sqlite3
import tempfile
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path

import postgres
import pytest
from permissions import unprivileged
from sqlalchemy import Engine, NullPool, create_engine, event, text

from geodp.privacy.cost import PureCost
from geodp.privacy.ledger import SCHEMA_VERSION, Ledger, LedgerError, LedgerLocked
from geodp.privacy.notions import PureDP

# as in test_ledger_race: processes start quickly from a server that has the modules loaded
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["geodp.privacy.ledger", "pytest", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql", "psycopg"]
)

#: What schema 1 created, on either database.
SCHEMA_1 = [
    "CREATE TABLE geodp_dataset (name TEXT NOT NULL, epsilon TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (name))",
    "CREATE TABLE geodp_schema (id INTEGER NOT NULL CHECK (id = 1), version INTEGER NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE geodp_charge (id {number}, dataset TEXT NOT NULL, epsilon TEXT NOT NULL, at TEXT NOT NULL, "
    "what TEXT NOT NULL, receipt TEXT, FOREIGN KEY(dataset) REFERENCES geodp_dataset (name))",
    "CREATE INDEX geodp_charge_dataset ON geodp_charge (dataset)",
    "INSERT INTO geodp_schema (id, version) VALUES (1, 1)",
]
NUMBER = {"sqlite": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "postgresql": "BIGSERIAL NOT NULL PRIMARY KEY"}
AT = "2025-03-0{}T23:59:59.123456+00:00"
#: Charges 1 to 5, of which 4 is gone and 5 was the last number given out, and is gone too.
ENTRIES = [
    *(f"INSERT INTO geodp_dataset VALUES ('{name}', '{total}', '{AT.format(1)}')" for name, total in (("a", "1"), ("b", "2.5"))),
    f"INSERT INTO geodp_charge (dataset, epsilon, at, what) VALUES ('a', '0.1', '{AT.format(2)}', 'first')",
    f"INSERT INTO geodp_charge (dataset, epsilon, at, what, receipt) VALUES ('b', '2', '{AT.format(3)}', 'ν', '{{\"x\": 1}}')",
    f"INSERT INTO geodp_charge (dataset, epsilon, at, what) VALUES ('a', '1E-30', '{AT.format(4)}', 'third')",
    *[f"INSERT INTO geodp_charge (dataset, epsilon, at, what) VALUES ('a', '0.5', '{AT.format(5)}', 'erased')"] * 2,
    "DELETE FROM geodp_charge WHERE what = 'erased'",
]


def run(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Rows of SQL statements, without the ledger."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        results = [connection.execute(text(statement.replace(":", r"\:"))) for statement in statements]
        return [tuple(row) for row in results[-1]] if results[-1].returns_rows else []


def make_old(url: str) -> str:
    run(url, *(line.format(number=NUMBER[url.split(":")[0].split("+")[0]]) for line in SCHEMA_1), *ENTRIES)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a ledger that schema 1 wrote."""
    return make_old(f"sqlite:///{tmp_path}/budget.db" if request.param == "sqlite" else postgres.server().url())


def version(url: str) -> object:
    return run(url, "SELECT version FROM geodp_schema")[0][0]


def program_of_schema_1(url: str) -> str:
    """What a program that knows schema 1 says: it looks at the version before anything else, in every method."""
    found = version(url)
    if isinstance(found, int) and found > 1:
        return f"was written by a newer geodp (schema {found}, this one knows 1): upgrade geodp"
    [[left]] = run(url, "SELECT count(*) FROM geodp_charge")
    return f"{left} charges"


def check_entries(ledger: Ledger, more: int = 0) -> None:
    """All that schema 1 had entered is there, and so are so many new charges."""
    assert ledger.datasets() == ["a", "b"]
    assert (ledger.total("a"), ledger.total("b")) == (1, Decimal("2.5"))
    first, third, *new = ledger.history("a")
    [second] = ledger.history("b")
    assert [charge.id for charge in (first, second, third)] == [1, 2, 3]
    assert [charge.at for charge in (first, second, third)] == [date(2025, 3, day) for day in (2, 3, 4)]
    assert [charge.epsilon for charge in (first, second, third)] == [Decimal("0.1"), 2, Decimal("1E-30")]
    assert (first.receipt, second.receipt, second.what) == (None, '{"x": 1}', "ν")
    assert (first.privacy, first.cost, first.rho, first.neighbours) == (PureDP(0.1), PureCost(0.1), None, "replace one record")
    assert second.receipt_sha256 in (None, hashlib.sha256(b'{"x": 1}').hexdigest())
    assert len(new) == more


TIMES = "SELECT at FROM geodp_charge WHERE id <= 3 ORDER BY id"


def test_an_old_ledger_is_read_as_it_is(old: str) -> None:
    ledger = Ledger(old)
    check_entries(ledger)
    assert ledger.remaining("a") == Decimal("0.899999999999999999999999999999")
    assert ledger.budget("b").cost == PureCost(2.0)
    ledger.check("a", 0.5)
    # so that an older program goes on working beside one that only reads
    assert program_of_schema_1(old) == "3 charges"


@pytest.mark.parametrize("first", ["open", "open again", "charge", "attach"])
def test_the_first_that_writes_brings_it_up_to_date_and_loses_nothing(old: str, first: str) -> None:
    ledger = Ledger(old)
    uses = {
        "open": lambda: ledger.open("c", rho=1), "open again": lambda: ledger.open("a", 1),
        "charge": lambda: ledger.charge("a", "0.5", what="new"), "attach": lambda: ledger.attach(1, "{}"),
    }  # fmt: skip
    uses[first]()
    assert version(old) == SCHEMA_VERSION == 2
    # the receipt of an old entry has got its hash, and entries without one have none
    assert [charge.receipt_sha256 for charge in ledger.history("b")] == [hashlib.sha256(b'{"x": 1}').hexdigest()]
    assert ledger.history("a")[1].receipt_sha256 is None
    if first == "open":
        assert ledger.charge("c", mu="0.1", what="new").id == 6
        assert ledger.datasets() == ["a", "b", "c"]
    elif first == "attach":
        assert [charge.receipt for charge in ledger.history("a")] == ["{}", None]
    else:
        check_entries(ledger, more=int(first == "charge"))
    # the text of the old times is as it was; new entries know the day only
    assert run(old, TIMES) == [(AT.format(day),) for day in (2, 3, 4)]
    assert all(len(str(at)) == 10 for (at,) in run(old, "SELECT at FROM geodp_charge WHERE id > 3"))


def test_numbers_of_charges_are_not_given_out_again(old: str) -> None:
    # numbers 4 and 5 were given out and erased: only the database's counter remembers
    assert Ledger(old).charge("a", "0.1", what="new").id == 6


def test_an_older_program_says_that_the_ledger_is_newer(old: str) -> None:
    Ledger(old).open("a", 1)
    assert program_of_schema_1(old) == "was written by a newer geodp (schema 2, this one knows 1): upgrade geodp"
    # should it ever write without looking, the database refuses
    with pytest.raises(Exception, match="neighbours"):
        run(old, f"INSERT INTO geodp_charge (dataset, epsilon, at, what) VALUES ('a', '0.1', '{AT.format(5)}', 'blind')")


def test_a_refusal_after_the_migration_is_the_usual_one(old: str) -> None:
    ledger = Ledger(old)
    with pytest.raises(LedgerError, match="'a' is open with a total epsilon of 1, not a total rho of 1"):
        ledger.open("a", rho=1)
    with pytest.raises(LedgerError, match=r"has 0.5 of 2.5 left, 0.6 was asked for"):
        ledger.charge("b", 0.6, what="new")
    check_entries(ledger)


# ---------------------------------------------------------------------- several at once, and killed ones


def charge_when_all_are_ready(url: str, start: object, outcomes: object) -> None:
    ledger = Ledger(url)
    start.wait(600)
    try:
        outcomes.put(ledger.charge("a", "0.1", what=f"process {os.getpid()}").id)
    except Exception as error:
        outcomes.put(repr(error))


def test_processes_that_come_at_once_migrate_it_once(old: str) -> None:
    start, outcomes = PROCESSES.Barrier(8), PROCESSES.SimpleQueue()
    processes = [PROCESSES.Process(target=charge_when_all_are_ready, args=(old, start, outcomes)) for _ in range(8)]
    for process in processes:
        process.start()
    results = [outcomes.get() for _ in processes]
    for process in processes:
        process.join(600)
    # what is left of 'a' is a little less than nine tenths
    assert sorted(results) == list(range(6, 14))
    check_entries(Ledger(old), more=8)


STEPS = ("before_cursor_execute", "after_cursor_execute", "commit")


def migrate_and_die_at_step(url: str, step: int) -> None:
    steps = iter(range(step + 1))

    def die(*_: object) -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in STEPS:
        event.listen(Engine, name, die)
    Ledger(url).open("a", 1)


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_killed_at_any_step_it_is_the_old_ledger_or_the_new_one(database: str, tmp_path: Path) -> None:
    url = make_old(f"sqlite:///{tmp_path}/budget.db" if database == "sqlite" else postgres.server().url())
    seen: list[object] = []
    # every third step: each of these processes takes a tenth of a second
    for step in range(0, 300, 3):
        process = PROCESSES.Process(target=migrate_and_die_at_step, args=(url, step))
        process.start()
        process.join(600)
        check_entries(Ledger(url))
        seen.append(version(url))
        if process.exitcode == 0 or seen[-1] == 2:
            break
        assert process.exitcode == -signal.SIGKILL
    assert seen[-1] == 2
    assert seen.count(1) >= 5
    assert Ledger(url).charge("a", "0.1", what="new").id == 6


def test_whoever_is_in_the_middle_of_a_charge_is_waited_for(old: str) -> None:
    ledger = Ledger(old, timeout=0.3)
    engine = create_engine(old, poolclass=NullPool)
    with engine.connect() as other:
        # as schema 1 did: look at the version, lock the data set, charge, commit
        if engine.name == "sqlite":
            other.exec_driver_sql("BEGIN IMMEDIATE")
        other.exec_driver_sql("SELECT version FROM geodp_schema")
        other.exec_driver_sql("UPDATE geodp_dataset SET name = name WHERE name = 'a'")
        with pytest.raises(LedgerLocked, match="nothing was written"):
            ledger.charge("b", "0.1", what="new")
        check_entries(ledger)
        other.exec_driver_sql("INSERT INTO geodp_charge (dataset, epsilon, at, what) VALUES ('a', '0.25', '2026-01-01', 'late')")
        other.commit()
    ledger.charge("b", "0.1", what="new")
    assert [charge.what for charge in ledger.history("a")] == ["first", "third", "late"]


# ---------------------------------------------------------------------- what cannot be migrated


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o755), (0o666, 0o555)], ids=["file", "folder"])
def test_a_read_only_old_ledger_can_be_read(file_mode: int, folder_mode: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "budget.db"
        make_old(f"sqlite:///{path}")
        ledger = Ledger(f"sqlite:///{path}")
        path.chmod(file_mode)
        folder.chmod(folder_mode)
        try:
            with unprivileged():
                check_entries(ledger)
                with pytest.raises(LedgerError, match=r"read-only|allowed to write"):
                    ledger.charge("a", "0.1", what="new")
        finally:
            folder.chmod(0o755)
        check_entries(ledger)


def test_on_postgresql_only_the_owner_migrates_and_others_keep_their_rights() -> None:
    server = postgres.server()
    url = make_old(server.url())
    schema = url.rsplit("=", 1)[1]
    server.execute("DROP ROLE IF EXISTS clerk")
    server.execute("CREATE ROLE clerk LOGIN")
    for kind in ("TABLES", "SEQUENCES"):
        server.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA {schema} TO clerk")
    clerk = Ledger(url.replace("geodp@", "clerk@"))
    check_entries(clerk)
    with pytest.raises(LedgerError, match="only the owner of its tables can bring it up to date: let them open a data set once"):
        clerk.charge("a", "0.1", what="new")
    assert version(url) == 1
    Ledger(url).open("a", 1)
    assert clerk.charge("a", "0.1", what="new").id == 6
    server.execute("DROP OWNED BY clerk")
    server.execute("DROP ROLE clerk")


@pytest.mark.parametrize(
    "damage",
    ["UPDATE geodp_charge SET epsilon = '-0.5' WHERE id = 1", "UPDATE geodp_charge SET epsilon = x'00' WHERE id = 1"],
)
def test_a_damaged_entry_stays_damaged(damage: str, tmp_path: Path) -> None:
    url = make_old(f"sqlite:///{tmp_path}/budget.db")
    with closing(sqlite3.connect(tmp_path / "budget.db")) as connection, connection:
        connection.execute(damage)
    ledger = Ledger(url)
    for use in (lambda: ledger.spent("a"), lambda: ledger.charge("a", "0.1", what="new"), lambda: ledger.history("a")):
        with pytest.raises(LedgerError, match="is damaged: keep it for its history"):
            use()
    assert ledger.charge("b", "0.1", what="new").id == 6
    assert version(url) == 2
    with pytest.raises(LedgerError, match="is damaged"):
        ledger.remaining("a")


def test_an_old_ledger_without_its_charges_is_refused_and_left_alone(tmp_path: Path) -> None:
    url = make_old(f"sqlite:///{tmp_path}/budget.db")
    run(url, "DROP TABLE geodp_charge")
    before = (tmp_path / "budget.db").read_bytes()
    with pytest.raises(LedgerError, match="failed with SQLITE_ERROR"):
        Ledger(url).open("c", 1)
    assert (tmp_path / "budget.db").read_bytes() == before


def test_other_tables_and_views_of_the_database_stay(old: str) -> None:
    run(old, "CREATE TABLE mice (name TEXT)", "INSERT INTO mice VALUES ('Algernon')")
    run(old, "CREATE VIEW spending AS SELECT what, epsilon FROM geodp_charge")
    Ledger(old).open("a", 1)
    assert run(old, "SELECT * FROM mice") == [("Algernon",)]
    assert len(run(old, "SELECT * FROM spending")) == 3
