"""The ledger adds exactly, refuses in one sentence and keeps what was entered, on SQLite and on PostgreSQL."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import pickle
import sqlite3
import sys
import tempfile
import traceback
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import ROUND_UP, Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import postgres
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from permissions import unprivileged
from sqlalchemy import event

from geodp.privacy.amounts import exact_number
from geodp.privacy.ledger import SCHEMA_VERSION, BudgetExhausted, Ledger, LedgerError, LedgerLocked


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/budget.db" if request.param == "sqlite" else postgres.server().url()


@pytest.fixture
def ledger(url: str) -> Ledger:
    return Ledger(url, timeout=600.0)


def quarter_spent(path: Path) -> Ledger:
    ledger = Ledger(f"sqlite:///{path}")
    ledger.open("scans", 1)
    ledger.charge("scans", "0.25", what="mean")
    return ledger


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a SQLite ledger with one data set, of which a quarter is spent."""
    quarter_spent(tmp_path / "budget.db")
    return tmp_path / "budget.db"


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """Such a ledger, for many tests that must not change it."""
    return quarter_spent(tmp_path_factory.mktemp("untouched") / "budget.db")


def in_one_sentence(error: BaseException) -> str:
    """The error's text, after checking that it is one line and that its traceback shows no other error."""
    text = str(error)
    assert "\n" not in text
    assert len(text) < 400
    shown = "".join(traceback.format_exception(error))
    assert "sqlalchemy.exc" not in shown
    assert "sqlite3." not in shown
    assert "psycopg." not in shown
    return text


def sql(path: Path, *statements: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return [row for statement in statements for row in connection.execute(statement)]


# entries


def test_a_new_data_set_has_its_whole_budget_left(ledger: Ledger) -> None:
    ledger.open("scans", 3)
    assert (ledger.total("scans"), ledger.spent("scans"), ledger.remaining("scans")) == (3, 0, 3)
    assert ledger.history("scans") == []


def test_a_charge_is_what_the_history_shows_later(ledger: Ledger, url: str) -> None:
    ledger.open("scans", 3)
    before = datetime.now(UTC).date()
    first = ledger.charge("scans", 0.5, what="mean of ν, “controls”; 100 % ' \" \\")
    second = ledger.charge("scans", "0.25", what="mean")
    assert first.epsilon == Decimal("0.5")
    assert type(first.at) is date
    assert before <= first.at <= datetime.now(UTC).date()
    assert Ledger(url).history("scans") == [first, second]
    assert second.id > first.id
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.epsilon = Decimal(0)


def test_data_sets_have_separate_budgets_and_are_listed_in_order(ledger: Ledger) -> None:
    for name, total in [("b", 1), ("a", 2), ("Äpfel & Birnen", 3)]:
        ledger.open(name, total)
    ledger.charge("b", 1, what="all of it")
    assert ledger.datasets() == ["a", "b", "Äpfel & Birnen"]
    assert [ledger.remaining(name) for name in ledger.datasets()] == [2, 0, 3]
    assert ledger.history("a") == []


def test_a_check_says_what_a_charge_would_say_and_charges_nothing(ledger: Ledger) -> None:
    with pytest.raises(LedgerError):
        ledger.check("scans", 1)
    ledger.open("scans", 1)
    ledger.charge("scans", "0.7", what="mean")
    for name, epsilon in (("scans", "0.300000000000000000000000000001"), ("scans", 5), ("other", "0.1"), ("scans", 0), ("", 1)):
        with pytest.raises(ValueError, match=r"\w+ .* (is|has) .*") as checked:
            ledger.check(name, epsilon)
        with pytest.raises(ValueError, match=r"\w+ .* (is|has) .*") as charged:
            ledger.charge(name, epsilon, what="mean")
        assert (type(checked.value), str(checked.value)) == (type(charged.value), str(charged.value))
    ledger.check("scans", "0.3")
    ledger.check("scans", "0.3")
    assert len(ledger.history("scans")) == 1
    ledger.charge("scans", "0.3", what="mean")


def test_opening_again_with_the_same_total_changes_nothing(ledger: Ledger) -> None:
    ledger.open("scans", 1)
    ledger.charge("scans", "0.25", what="mean")
    for same in (1, 1.0, "1.000", Decimal("10e-1"), np.float64(1.0), np.int64(1)):
        ledger.open("scans", same)
    assert ledger.remaining("scans") == Decimal("0.75")


@pytest.mark.parametrize("other", [2, 0.5, "1.000000000000000000000000000001"])
def test_opening_again_with_another_total_is_refused(ledger: Ledger, other: object) -> None:
    ledger.open("scans", 1)
    with pytest.raises(LedgerError, match="'scans' is open with a total epsilon of 1, not") as caught:
        ledger.open("scans", other)
    in_one_sentence(caught.value)
    assert ledger.total("scans") == 1


def test_a_receipt_is_attached_once(ledger: Ledger) -> None:
    ledger.open("scans", 1)
    charge, other = (ledger.charge("scans", "0.5", what="mean") for _ in range(2))
    ledger.attach(charge.id, '{"value": [1.5], "note": "Fréchet"}')
    with pytest.raises(LedgerError, match=f"charge {charge.id} has its receipt already") as caught:
        ledger.attach(charge.id, '{"value": [2.5]}')
    assert "2.5" not in in_one_sentence(caught.value)
    receipt = '{"value": [1.5], "note": "Fréchet"}'
    hashed = hashlib.sha256(receipt.encode()).hexdigest()
    assert ledger.history("scans") == [dataclasses.replace(charge, receipt=receipt, receipt_sha256=hashed), other]


@pytest.mark.parametrize(
    "number", [2, 0, -1, 2**31, 2**63, 10**5000], ids=lambda number: f"{number:.0e}" if number < 2**64 else "huge"
)
def test_a_receipt_without_a_charge_is_refused(ledger: Ledger, number: int) -> None:
    ledger.open("scans", 1)
    assert ledger.charge("scans", "0.5", what="mean").id == 1
    with pytest.raises(LedgerError, match="has no charge") as caught:
        ledger.attach(number, "{}")
    in_one_sentence(caught.value)


# exact arithmetic


def test_a_tenth_ten_times_exhausts_one(ledger: Ledger) -> None:
    ledger.open("scans", 1)
    for _ in range(10):
        ledger.charge("scans", 0.1, what="mean")
    assert ledger.remaining("scans") == 0
    with pytest.raises(BudgetExhausted) as caught:
        ledger.charge("scans", "1e-30", what="mean")
    expected = "the data set 'scans' has 0 of 1 left, 1E-30 was asked for: no further release from it is possible"
    assert in_one_sentence(caught.value) == expected


def test_too_much_is_refused_with_what_is_left_and_nothing_is_charged(ledger: Ledger) -> None:
    ledger.open("scans", 1)
    ledger.charge("scans", 0.7, what="mean")
    with pytest.raises(BudgetExhausted) as caught:
        ledger.charge("scans", 0.5, what="mean")
    assert in_one_sentence(caught.value) == "the data set 'scans' has 0.3 of 1 left, 0.5 was asked for: ask for at most 0.3"
    assert ledger.remaining("scans") == Decimal("0.3")
    ledger.charge("scans", "0.3", what="mean")
    assert ledger.remaining("scans") == 0


# numbers of every admissible size, written in every admissible way
digits = st.integers(1, 39).flatmap(lambda count: st.integers(10 ** (count - 1), 10**count))
epsilons = st.one_of(
    st.integers(1, 10**9),
    st.floats(1e-12, 1e9),
    digits.map(lambda units: Decimal(units).scaleb(-30, Context(prec=60))),
    digits.map(lambda units: f"{units}e-30"),
)


def as_fraction(epsilon: object) -> Fraction:
    return Fraction(repr(epsilon) if isinstance(epsilon, float) else str(epsilon))


# what to ask for at the boundary, which numbers drawn at random would miss, in units of the last digit that are left
SHARES = {"half": lambda left: left // 2, "all": lambda left: left, "a unit too much": lambda left: left + 1}


@given(
    total=epsilons, parts=st.lists(st.one_of(epsilons, st.sampled_from(sorted(SHARES))), max_size=6), precision=st.integers(1, 30)
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_any_charges_add_exactly_and_never_pass_the_total(total: object, parts: list[object], precision: int) -> None:
    left = as_fraction(total)
    # the precision and rounding a program sets for its own sums must not matter
    with tempfile.TemporaryDirectory() as folder, localcontext(prec=precision, rounding=ROUND_UP):
        ledger = Ledger(f"sqlite:///{folder}/budget.db")
        ledger.open("scans", total)
        for part in [*parts, "a unit too much", "all"]:
            asked = f"{SHARES[part](int(left * 10**30))}e-30" if part in SHARES else part
            if as_fraction(asked) == 0:
                continue
            fits = as_fraction(asked) <= left
            try:
                charge = ledger.charge("scans", asked, what="mean")
            except BudgetExhausted:
                assert not fits
            else:
                assert fits
                assert Fraction(charge.epsilon) == as_fraction(asked)
                left -= as_fraction(asked)
            assert Fraction(ledger.remaining("scans")) == left
        assert left == 0
        assert Fraction(ledger.spent("scans")) == as_fraction(total)
        assert sum(Fraction(entry.epsilon) for entry in ledger.history("scans")) == as_fraction(total)


@given(epsilons)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_what_is_charged_is_the_number_that_was_written(epsilon: object) -> None:
    exact = exact_number(epsilon, "epsilon")
    assert Fraction(exact) == as_fraction(epsilon)
    assert exact_number(str(exact), "epsilon") == exact
    assert "E+" not in str(exact)


@pytest.mark.parametrize(
    ("epsilon", "exact"),
    [
        (0.1, "0.1"), (np.float64(0.1), "0.1"), (1e-6, "0.000001"), (1, "1"), (10**9, "1000000000"), (np.int8(3), "3"),
        ("1e3", "1000"), (" 0.50 ", "0.5"), ("0." + "0" * 29 + "1" + "0" * 5000, "1E-30"),
        (Decimal("1E+2"), "100"), (0.1 + 0.2, "0.30000000000000004"),
    ],
)  # fmt: skip
def test_numbers_are_kept_as_people_write_them(epsilon: object, exact: str) -> None:
    assert str(exact_number(epsilon, "epsilon")) == exact


BAD_EPSILONS = [
    *[(value, ValueError, "positive and finite") for value in (0, -1, -0.0, math.nan, math.inf, -math.inf)],
    *[(text, ValueError, "positive and finite") for text in ("0", "-1e-9", "nan", "sNaN", "-NaN", "inf", "-Infinity", "0e999")],
    *[(Decimal(text), ValueError, "positive and finite") for text in ("NaN", "sNaN", "Infinity", "-0")],
    *[(text, ValueError, "must be a number but is") for text in ("", "a", "1,5", "1/2", "0x1", "1e", "z" * 10**5, "1\0")],
    *[(value, ValueError, "at most 1000000000") for value in (10**9 + 1, 1e10, "1e999999999", 10**4200, "9" * 10**4)],
    *[(value, ValueError, "30 digits") for value in ("1e-31", 5e-324, "1e-999999999", "1." + "0" * 30 + "1", Decimal(2) ** -31)],
    *[(value, TypeError, "of type") for value in (True, np.True_, 1j, b"1", [1], np.array([1.0]), np.float32(0.1))],
    (Fraction(1, 2), TypeError, "of type Fraction"),
]


@pytest.mark.parametrize(("epsilon", "kind", "reason"), BAD_EPSILONS, ids=lambda value: repr(value)[:20])
def test_what_is_no_epsilon_is_refused_and_changes_nothing(
    untouched: Ledger, epsilon: object, kind: type[Exception], reason: str
) -> None:
    for spend in (lambda: untouched.open("new", epsilon), lambda: untouched.charge("scans", epsilon, what="mean")):
        with pytest.raises(kind, match=reason) as caught:
            spend()
        in_one_sentence(caught.value)
    assert untouched.datasets() == ["scans"]
    assert untouched.remaining("scans") == Decimal("0.75")


BAD_LINES = [
    *[(text, ValueError, "one line") for text in ("", " ", " a", "a\n", "a\nb", "a\0b", "\ud800", "a\tb", "a" * 501)],
    *[(value, TypeError, "must be a str") for value in (None, 1, b"scans", ["scans"])],
]


@pytest.mark.parametrize(("text", "kind", "reason"), BAD_LINES, ids=lambda value: ascii(value)[:20])
def test_what_is_no_name_or_purpose_is_refused(untouched: Ledger, text: object, kind: type[Exception], reason: str) -> None:
    uses = [
        lambda: untouched.open(text, 1), lambda: untouched.charge(text, 1, what="mean"),
        lambda: untouched.charge("scans", 0.1, what=text), lambda: untouched.remaining(text), lambda: untouched.total(text),
        lambda: untouched.spent(text), lambda: untouched.history(text),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(kind, match=reason) as caught:
            use()
        in_one_sentence(caught.value)
    assert len(untouched.history("scans")) == 1


@pytest.mark.parametrize(
    "receipt", ["", "{", "value: 3.14159", '"\ud800"', "[" * 10**5, '"\0"'], ids=lambda text: ascii(text)[:20]
)
def test_a_receipt_that_is_no_json_is_refused_without_quoting_it(untouched: Ledger, receipt: str) -> None:
    with pytest.raises(ValueError, match="a receipt must be JSON text") as caught:
        untouched.attach(1, receipt)
    assert "3.14159" not in in_one_sentence(caught.value)
    assert untouched.history("scans")[0].receipt is None


@pytest.mark.parametrize(
    ("number", "receipt"), [("1", "{}"), (1.0, "{}"), (True, "{}"), (None, "{}"), (1, None), (1, b"{}"), (1, {})]
)
def test_numbers_and_receipts_of_the_wrong_type_are_refused(untouched: Ledger, number: object, receipt: object) -> None:
    with pytest.raises(TypeError, match="of type"):
        untouched.attach(number, receipt)


# ledgers that are absent, unknown or out of order


def test_before_the_first_data_set_there_is_no_ledger_and_none_is_left_behind(ledger: Ledger, tmp_path: Path) -> None:
    uses = [
        ledger.datasets, lambda: ledger.remaining("scans"), lambda: ledger.history("scans"), lambda: ledger.attach(1, "{}"),
        lambda: ledger.charge("scans", 1, what="mean"),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(LedgerError, match=r"there is no ledger at .* yet: open a data set") as caught:
            use()
        in_one_sentence(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_data_set_is_refused_with_those_there_are(ledger: Ledger) -> None:
    ledger.open("a", 1)
    ledger.open("b", 1)
    uses = [
        lambda: ledger.remaining("A"), lambda: ledger.total("A"), lambda: ledger.spent("A"), lambda: ledger.history("A"),
        lambda: ledger.charge("A", 1, what="mean"),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(LedgerError, match=r"has no data set 'A' \(it has 'a', 'b'\): open it") as caught:
            use()
        in_one_sentence(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "", "budget.db", "/tmp/budget.db", "mysql://geodp:hunter2@host/db", "postgres://geodp:hunter2@host/db", "oracle://hunter2",
        "postgresql+psycopg2://geodp:hunter2@host/db", "postgresql+psycopg://geodp:hunter2@host:port/db", "sqlite+aiosqlite:///a.db",
        "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://budget.db", "sqlite:///a.db?mode=ro&uri=true", "sqlite:///a\0b",
        "sqlite:///file:a.db?nolock=1&uri=true",
    ],
)  # fmt: skip
def test_a_url_of_no_durable_ledger_is_refused_with_the_right_form(url: str) -> None:
    with pytest.raises(LedgerError, match="sqlite:///") as caught:
        Ledger(url)
    assert "hunter2" not in in_one_sentence(caught.value)


@pytest.mark.parametrize("url", [None, 1, b"sqlite:///budget.db", Path("budget.db")])
def test_a_url_is_text(url: object) -> None:
    with pytest.raises(TypeError, match="the URL of a ledger must be a str"):
        Ledger(url)


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, 1e7])
def test_a_timeout_is_positive_and_finite(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must be positive"):
        Ledger(timeout=timeout)


def test_a_missing_driver_is_named_with_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerError, match=r"pip install 'geodp\[postgres\]'") as caught:
        Ledger("postgresql://geodp@localhost/geodp")
    in_one_sentence(caught.value)


def test_a_server_that_does_not_answer_is_named_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    ledger = Ledger(f"postgresql://geodp:hunter2@/budgets?host={tmp_path}&password=hunter3", timeout=2.0)
    assert "hunter" not in repr(ledger)
    with pytest.raises(LedgerError, match=r"no connection to the ledger .*budgets: check that the server runs") as caught:
        ledger.open("scans", 1)
    assert "hunter" not in in_one_sentence(caught.value)


def test_a_newer_schema_is_refused_and_left_alone(file: Path) -> None:
    sql(file, f"UPDATE geodp_schema SET version = {SCHEMA_VERSION + 1}")
    before = file.read_bytes()
    ledger = Ledger(f"sqlite:///{file}")
    for use in (ledger.datasets, lambda: ledger.open("scans", 1), lambda: ledger.charge("scans", "0.1", what="mean")):
        with pytest.raises(LedgerError, match=r"newer geodp \(schema 2, this one knows 1\): upgrade geodp") as caught:
            use()
        in_one_sentence(caught.value)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM geodp_schema", "UPDATE geodp_schema SET version = 0", "UPDATE geodp_schema SET version = 'one'",
        "UPDATE geodp_charge SET epsilon = '-0.5'", "UPDATE geodp_charge SET epsilon = 'NaN'",
        "UPDATE geodp_charge SET epsilon = ''", "UPDATE geodp_charge SET epsilon = x'00'",
        "UPDATE geodp_dataset SET epsilon = 'Infinity'", "UPDATE geodp_dataset SET unit = 'zeta'",
        "UPDATE geodp_dataset SET unit = 'rho'", "UPDATE geodp_dataset SET unit = 'rho', rho = '1'",
        "UPDATE geodp_dataset SET unit = 'epsilon and delta'", "UPDATE geodp_charge SET epsilon = NULL",
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_right_stops_all_charges(file: Path, damage: str) -> None:
    sql(file, damage)
    ledger = Ledger(f"sqlite:///{file}")
    for use in (lambda: ledger.charge("scans", "0.1", what="mean"), lambda: ledger.remaining("scans")):
        with pytest.raises(LedgerError, match="is damaged: keep it for its history") as caught:
            use()
        in_one_sentence(caught.value)


def test_a_table_that_is_gone_stops_all_charges(file: Path) -> None:
    sql(file, "DROP TABLE geodp_charge")
    with pytest.raises(LedgerError, match="failed with SQLITE_ERROR") as caught:
        Ledger(f"sqlite:///{file}").charge("scans", "0.1", what="mean")
    in_one_sentence(caught.value)


@pytest.mark.parametrize(
    "damage", ["at = 'yesterday'", "cost = '{}'", 'cost = \'{"kind": "free"}\'', "cost = 'x'", "privacy = '{\"z\": 1}'"]
)
def test_a_time_or_a_cost_that_cannot_be_read_is_damage(file: Path, damage: str) -> None:
    sql(file, f"UPDATE geodp_charge SET {damage}")
    ledger = Ledger(f"sqlite:///{file}")
    for use in (ledger.history, *([ledger.budget] if "cost" in damage else [])):
        with pytest.raises(LedgerError, match="is damaged"):
            use("scans")


def test_pages_of_rubbish_are_damage_and_not_a_budget(file: Path) -> None:
    pages = bytearray(file.read_bytes())
    pages[4096:] = b"\xff" * (len(pages) - 4096)
    file.write_bytes(pages)
    with pytest.raises(LedgerError, match="is damaged") as caught:
        Ledger(f"sqlite:///{file}").charge("scans", "0.1", what="mean")
    in_one_sentence(caught.value)


def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("x,y,z\n" * 200)
    ledger = Ledger(f"sqlite:///{path}")
    for use in (ledger.datasets, lambda: ledger.open("scans", 1)):
        with pytest.raises(LedgerError, match="is not a ledger but some other kind of file") as caught:
            use()
        in_one_sentence(caught.value)
    assert path.read_text() == "x,y,z\n" * 200


def test_a_ledger_may_share_a_database_with_other_tables(tmp_path: Path) -> None:
    path = tmp_path / "lab.db"
    sql(path, "CREATE TABLE mice (name TEXT)", "INSERT INTO mice VALUES ('Algernon')")
    ledger = Ledger(f"sqlite:///{path}")
    with pytest.raises(LedgerError, match="there is no ledger"):
        ledger.datasets()
    ledger.open("scans", 1)
    assert ledger.datasets() == ["scans"]
    assert sql(path, "SELECT * FROM mice") == [("Algernon",)]


@pytest.mark.parametrize("place", ["missing/budget.db", "."])
def test_a_path_where_no_file_can_be_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(LedgerError, match="cannot be opened: its folder must exist") as caught:
        Ledger(f"sqlite:///{tmp_path / place}").open("scans", 1)
    in_one_sentence(caught.value)


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o755), (0o666, 0o555)], ids=["file", "folder"])
def test_a_read_only_ledger_can_be_read_but_not_charged(file_mode: int, folder_mode: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "budget.db"
        ledger = Ledger(f"sqlite:///{path}")
        ledger.open("scans", 1)
        path.chmod(file_mode)
        folder.chmod(folder_mode)
        try:
            with unprivileged():
                assert ledger.remaining("scans") == 1
                for use in (lambda: ledger.charge("scans", 1, what="mean"), lambda: ledger.open("other", 1)):
                    with pytest.raises(LedgerError, match=r"read-only|allowed to write") as caught:
                        use()
                    in_one_sentence(caught.value)
        finally:
            folder.chmod(0o755)
        assert ledger.remaining("scans") == 1


def test_on_postgresql_a_user_who_may_only_read_is_told_so() -> None:
    server = postgres.server()
    url = server.url()
    Ledger(url).open("scans", 1)
    server.execute("DROP ROLE IF EXISTS reader")
    server.execute("CREATE ROLE reader LOGIN")
    schema = url.rsplit("=", 1)[1]
    server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
    for reader in (Ledger(url.replace("geodp@", "reader@")), Ledger(f"{url}%20-cdefault_transaction_read_only=on")):
        assert reader.remaining("scans") == 1
        for use in (reader.charge, reader.open):
            with pytest.raises(LedgerError, match="is read-only for this user") as caught:
                use("scans", "0.1", what="mean") if use == reader.charge else use("other", 1)
            in_one_sentence(caught.value)
    server.execute("DROP OWNED BY reader")
    server.execute("DROP ROLE reader")


# transactions


def test_a_held_ledger_is_waited_for_and_then_reported(file: Path) -> None:
    ledger = Ledger(f"sqlite:///{file}", timeout=0.3)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert ledger.remaining("scans") == Decimal("0.75")
        for use in (
            lambda: ledger.charge("scans", "0.1", what="mean"),
            lambda: ledger.open("x", 1),
            lambda: ledger.attach(1, "{}"),
        ):
            with pytest.raises(LedgerLocked, match=r"was held by another process for 0.3 s: nothing was written") as caught:
                use()
            in_one_sentence(caught.value)
        other.execute("ROLLBACK")
        # a reader in the middle of a transaction stops the commit, and with it the whole charge
        other.execute("BEGIN")
        other.execute("SELECT * FROM geodp_charge").fetchall()
        with pytest.raises(LedgerLocked) as caught:
            ledger.charge("scans", "0.1", what="mean")
        in_one_sentence(caught.value)
    assert ledger.remaining("scans") == Decimal("0.75")
    ledger.charge("scans", "0.75", what="mean")


def test_on_postgresql_a_held_row_is_waited_for_and_then_reported() -> None:
    server = postgres.server()
    import psycopg

    url = server.url()
    ledger, schema = Ledger(url, timeout=0.3), url.rsplit("=", 1)[1]
    ledger.open("scans", 1)
    ledger.open("free", 1)
    with psycopg.connect(host=str(server.folder), user="geodp", dbname="postgres") as other:
        other.execute(f"SELECT * FROM {schema}.geodp_dataset WHERE name = 'scans' FOR UPDATE")
        with pytest.raises(LedgerLocked, match=r"was held by another process for 0.3 s") as caught:
            ledger.charge("scans", "0.1", what="mean")
        in_one_sentence(caught.value)
        assert ledger.remaining("scans") == 1
        ledger.charge("free", "0.1", what="mean")
        other.rollback()
        other.execute("SELECT pg_advisory_xact_lock(%s)", [int.from_bytes(b"geodp", "big")])
        with pytest.raises(LedgerLocked):
            ledger.open("third", 1)
    ledger.charge("scans", 1, what="mean")


def test_a_commit_is_synced_to_the_disk_and_its_folder(file: Path) -> None:
    ledger = Ledger(f"sqlite:///{file}")
    levels = []

    @event.listens_for(ledger._database.engine, "commit")
    def read_level(connection: object) -> None:
        levels.append(connection.exec_driver_sql("PRAGMA synchronous").scalar())

    ledger.charge("scans", "0.1", what="mean")
    assert levels == [3]


def test_on_postgresql_a_commit_is_synced_where_the_server_would_not() -> None:
    for setting, expected in [("off", "on"), ("remote_apply", "remote_apply"), ("local", "local")]:
        ledger = Ledger(postgres.server().url(synchronous_commit=setting))
        levels = []

        @event.listens_for(ledger._database.engine, "commit")
        def read_level(connection: object, levels: list[object] = levels) -> None:
            levels.append(connection.exec_driver_sql("SHOW synchronous_commit").scalar())

        ledger.open("scans", 1)
        ledger.charge("scans", "0.1", what="mean")
        assert levels == [expected, expected]


def test_the_ledger_stays_the_same_after_a_change_of_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger()
    ledger.open("scans", 1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert ledger.remaining("scans") == 1
    assert pickle.loads(pickle.dumps(ledger)).remaining("scans") == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["geodp-budget.db"]


@pytest.mark.parametrize("name", ["with blank.db", "100%.db", "q?x=1.db", "hash#.db", "ü.db", "a%20b.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    from sqlalchemy import URL

    ledger = Ledger(URL.create("sqlite", database=str(tmp_path / name)))
    ledger.open("scans", 1)
    assert pickle.loads(pickle.dumps(ledger)).remaining("scans") == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]
