"""Processes that charge one budget at the same time, or are killed while they do, never spend more than was granted."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import postgres
import pytest
from sqlalchemy import Engine, event

from geodp.privacy.ledger import BudgetExhausted, Charge, Ledger, LedgerError

# each process is forked from a small server that has the modules loaded: quick to start, and nothing of pytest in it
PROCESSES: ForkServerContext = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["geodp.privacy.ledger", "pytest", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql", "psycopg"]
)


def new_url(database: str, folder: Path) -> str:
    if database == "sqlite":
        return f"sqlite:///{folder}/budget.db"
    # a server may have another isolation level as its default, under which a lock alone would not do
    settings = {"default_transaction_isolation": "repeatable%5C%20read"} if "repeatable" in database else {}
    return postgres.server().url(**settings)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_url(request.param, tmp_path)


def join(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.join(600)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert codes == [0] * len(processes)


#: Every kind of budget, and a charge that fits ten times.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "epsilon": ({"epsilon": 1}, {"epsilon": 0.1}),
    "epsilon and delta": ({"epsilon": 5, "delta": "1e-5"}, {"epsilon": 0.1, "delta": 1e-6}),
    "rho": ({"rho": 1}, {"rho": 0.1}),
    "through rho": ({"epsilon": 1, "delta": 1e-6, "compose": "rho"}, {"rho": "0.0024"}),
    # squares add up: 9 + ... + 9 = 90 < 91 < 99
    "mu": ({"mu": "9.53"}, {"mu": 3}),
}


def open_and_charge(url: str, kind: str, start: Barrier, outcomes: SimpleQueue[int | str]) -> None:
    ledger = Ledger(url)
    total, asked = KINDS[kind]
    start.wait(600)
    try:
        ledger.open("scans", **total)
        # opening lets them through one by one: line up again
        start.wait(600)
        outcomes.put(ledger.charge("scans", **asked, what=f"process {os.getpid()}").id)
    except BudgetExhausted as error:
        outcomes.put(str(error))
    except Exception as error:
        outcomes.put(f"unexpected: {error!r}")


DATABASES = ["sqlite", "postgresql", "postgresql, repeatable read"]


@pytest.mark.parametrize(
    ("database", "kind"),
    [
        # one kind on each of two databases in the normal suite, every pair of them behind the marker
        pytest.param(database, kind, marks=() if i == j < 2 else pytest.mark.slow)
        for j, database in enumerate(DATABASES)
        for i, kind in enumerate(KINDS)
    ],
)
def test_of_sixteen_processes_exactly_ten_get_a_tenth_each(database: str, kind: str, tmp_path: Path) -> None:
    url = new_url(database, tmp_path)
    start, outcomes = PROCESSES.Barrier(16), PROCESSES.SimpleQueue()
    processes: list[BaseProcess] = [
        PROCESSES.Process(target=open_and_charge, args=(url, kind, start, outcomes)) for _ in range(16)
    ]
    for process in processes:
        process.start()
    results = [outcomes.get() for _ in processes]
    join(processes)
    granted = sorted(result for result in results if isinstance(result, int))
    ledger = Ledger(url)
    refused = [result for result in results if isinstance(result, str)]
    assert len(refused) == 6
    assert len(set(refused)) == 1
    if kind == "epsilon":
        assert refused[0] == "the data set 'scans' has 0 of 1 left, 0.1 was asked for: no further release from it is possible"
    assert refused[0].startswith("the data set 'scans' has ")
    assert [charge.id for charge in ledger.history("scans")] == granted
    assert len({charge.what for charge in ledger.history("scans")}) == 10
    with pytest.raises(BudgetExhausted):
        ledger.charge("scans", **KINDS[kind][1], what="one more")


def test_threads_are_as_safe_as_processes(url: str) -> None:
    ledger = Ledger(url)
    ledger.open("scans", 1)
    granted: list[int] = []

    def charge() -> None:
        for _ in range(3):
            try:
                granted.append(ledger.charge("scans", 0.1, what="thread").id)
            except BudgetExhausted:
                return

    threads = [threading.Thread(target=charge) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert sorted(granted) == [charge.id for charge in ledger.history("scans")]
    assert len(granted) == 10


def charge_a_quarter(ledger: Ledger) -> Charge:
    return ledger.charge("scans", "0.25", what="mean")


def test_a_ledger_can_be_sent_to_another_process(url: str) -> None:
    ledger = Ledger(url)
    ledger.open("scans", 1)
    charge_a_quarter(ledger)
    with PROCESSES.Pool(1) as pool:
        charge = pool.apply(charge_a_quarter, (ledger,))
    assert ledger.history("scans")[1:] == [charge]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_shares_no_connection(url: str) -> None:
    ledger = Ledger(url)
    ledger.open("scans", 1)
    charge_a_quarter(ledger)
    child = os.fork()
    if child == 0:
        try:
            charge_a_quarter(ledger)
        except BaseException:
            os._exit(1)
        os._exit(0)
    charge_a_quarter(ledger)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ledger.remaining("scans") == Decimal("0.25")


# kill -9


#: A kind of budget for the tests that kill, and the name of its number.
UNIT = {"sqlite": "mu", "postgresql": "rho"}


def release(ledger: Ledger, amount: str, released: Path) -> int:
    """Charge, then draw: here a line in a file, on disk before anything else happens."""
    charge = ledger.charge("scans", **{UNIT[ledger._database.engine.name]: amount}, what="mean")
    descriptor = os.open(released, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{charge.id}\n".encode())
    os.fsync(descriptor)
    os.close(descriptor)
    return charge.id


def release_until_exhausted(ledger: Ledger, released: Path, amount: str, start: Barrier) -> None:
    start.wait(600)
    try:
        while True:
            number = release(ledger, amount, released)
            if number % 3 == 0:
                ledger.attach(number, "{}")
    except BudgetExhausted:
        pass
    except LedgerError as error:
        # only a server that was made to crash takes the connection away
        if "no connection" not in str(error):
            raise


def check(ledger: Ledger, released: Path) -> int:
    """The ledger is whole and not overspent, and every release has its charge; returns how many charges there are."""
    file = ledger._database.engine.url.database
    if ledger._database.engine.name == "sqlite" and file is not None:
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    charges = ledger.history("scans")
    releases = [int(line) for line in released.read_text().split()] if released.exists() else []
    assert len(set(releases)) == len(releases)
    assert set(releases) <= {charge.id for charge in charges}
    unit = UNIT[ledger._database.engine.name]
    power = 2 if unit == "mu" else 1
    spent = sum(Fraction(getattr(charge, unit)) ** power for charge in charges)
    assert spent <= Fraction(ledger.spent("scans")) ** power <= Fraction(ledger.total("scans")) ** power
    return len(charges)


def kill_at_random(ledger: Ledger, released: Path, rounds: int) -> None:
    ledger.open("scans", **{UNIT[ledger._database.engine.name]: 1000})
    begin = time.perf_counter()
    for _ in range(5):
        release(ledger, "0.001", released)
    duration = (time.perf_counter() - begin) / 5
    moments = random.Random(5)
    for number in range(rounds):
        start = PROCESSES.Barrier(3)
        processes: list[BaseProcess] = [
            PROCESSES.Process(target=release_until_exhausted, args=(ledger, released, "0.001", start)) for _ in range(2)
        ]
        for process in processes:
            process.start()
        size = released.stat().st_size
        start.wait(600)
        # every other time the moment is counted from the first release, so that there are some however slow the machine is
        while number % 2 and released.stat().st_size == size:
            time.sleep(0.001)
        for process in processes:
            time.sleep(moments.uniform(0.0, 4.0 * duration))
            process.kill()
        for process in processes:
            process.join(600)
            assert process.exitcode == -signal.SIGKILL
        assert check(ledger, released) >= 5 + (number + 1) // 2


def test_killed_at_random_moments_every_release_keeps_its_charge(url: str, tmp_path: Path) -> None:
    kill_at_random(Ledger(url), tmp_path / "released", 8)


@pytest.mark.slow
def test_killed_at_many_random_moments_every_release_keeps_its_charge(url: str, tmp_path: Path) -> None:
    kill_at_random(Ledger(url), tmp_path / "released", 60)


STEPS = ("before_cursor_execute", "after_cursor_execute", "commit")


def release_and_die_at_step(ledger: Ledger, released: Path, step: int) -> None:
    """Kill this very process at a step of the transaction: before or after a statement, or before the commit."""
    steps: Iterator[int] = iter(range(step + 1))

    def die(*_: object) -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in STEPS:
        event.listen(Engine, name, die)
    release(ledger, "0.25", released)


def test_killed_at_every_step_of_a_charge_the_ledger_is_as_before(url: str, tmp_path: Path) -> None:
    ledger = Ledger(url)
    ledger.open("scans", **{UNIT[ledger._database.engine.name]: 1})
    for step in range(100):
        process = PROCESSES.Process(target=release_and_die_at_step, args=(ledger, tmp_path / "released", step))
        process.start()
        process.join(600)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        assert check(ledger, tmp_path / "released") == 0
    # the transaction had steps to die at, and the first process to outlive them all was charged
    assert step >= 8
    assert check(ledger, tmp_path / "released") == 1


@pytest.mark.slow
def test_after_a_crash_of_the_server_every_release_keeps_its_charge(tmp_path: Path) -> None:
    server = postgres.server()
    ledger, released = Ledger(server.url()), tmp_path / "released"
    ledger.open("scans", rho=100)
    start = PROCESSES.Barrier(2)
    process = PROCESSES.Process(target=release_until_exhausted, args=(ledger, released, "0.001", start))
    process.start()
    start.wait(600)
    while not released.exists() or released.read_text().count("\n") < 3:
        time.sleep(0.01)
    server.crash()
    join([process])
    with pytest.raises(LedgerError, match="no connection to the ledger"):
        ledger.spent("scans")
    server.start()
    assert check(ledger, released) > 1
    ledger.charge("scans", rho=1, what="mean")
