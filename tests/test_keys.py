"""Secrets stay out of pickles, and receipts belong to their charges: each of these failed on the code it was found in."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import postgres
import pytest
from cases import longer
from sqlalchemy import make_url
from typer.testing import CliRunner

from geodp import (
    SPD,
    Ball,
    Ledger,
    LedgerError,
    Release,
    Sphere,
    private_covariance,
    private_coverage,
    private_mean,
    private_projected_mean,
    private_summary,
    private_variance,
)
from geodp.cli import app
from geodp.privacy.ledger import Charge
from geodp.programs.ball import BallRelease, private_ball

NORTH = np.tile([0.0, 0.0, 1.0], (500, 1))
BALL = Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5)

# passwords

SECRET = "hunter2"
WITH_SECRETS = {
    "in the address": f"postgresql://geodp:{SECRET}@/budgets?host=/nowhere",
    "as a parameter": f"postgresql://geodp@/budgets?host=/nowhere&password={SECRET}",
    "of a key": f"postgresql://geodp@/budgets?host=/nowhere&sslkey=/home/key&sslpassword={SECRET}",
}


@pytest.mark.parametrize("url", WITH_SECRETS.values(), ids=WITH_SECRETS.keys())
def test_a_pickle_of_a_ledger_holds_no_password_and_says_so_when_it_is_missed(url: str) -> None:
    pytest.importorskip("psycopg")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert SECRET.encode() not in pickle.dumps(Ledger(url, timeout=2.0), protocol)
    ledger = pickle.loads(pickle.dumps(Ledger(url, timeout=2.0)))
    again = pickle.loads(pickle.dumps(ledger))
    for sent in (ledger, again):
        with pytest.raises(
            LedgerError, match=r"pickled without its password: set PGPASSWORD or PGPASSFILE .* geodp\.Ledger\(url\)"
        ):
            sent.remaining("study")
        assert SECRET not in repr(sent) + repr(vars(sent)) + str(vars(vars(sent)["_database"]))


def test_a_pickle_without_a_password_says_nothing_about_one() -> None:
    pytest.importorskip("psycopg")
    ledger = pickle.loads(pickle.dumps(Ledger("postgresql://geodp@/budgets?host=/nowhere", timeout=2.0)))
    with pytest.raises(LedgerError, match="check that the server runs"):
        ledger.remaining("study")


@pytest.mark.parametrize("name", ["PrivateFrechetMean", "PrivateTangentSpace", "PrivateMDM", "PrivateKMeans"])
def test_a_pickle_of_an_estimator_holds_no_password_either(name: str) -> None:
    pytest.importorskip("psycopg")
    pytest.importorskip("sklearn")
    from sklearn.base import clone

    from geodp import estimator

    ledger = Ledger(WITH_SECRETS["in the address"])
    model = getattr(estimator, name)(manifold="Sphere(2)", ledger=ledger, dataset="study")
    assert SECRET.encode() not in pickle.dumps(model)
    assert SECRET not in repr(model) + model._repr_html_()
    # a clone works in this process: it has the ledger itself
    assert clone(model).ledger is copy.copy(ledger) is copy.deepcopy(ledger) is ledger


def test_what_follows_a_second_at_sign_is_not_shown_as_a_host() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(LedgerError, match="written as %40") as caught:
        Ledger(f"postgresql://geodp:p@{SECRET}@localhost/budgets")
    assert SECRET not in str(caught.value)
    assert make_url("postgresql://geodp:p%40ss@localhost/budgets").password == "p@ss"


def test_on_postgresql_a_sent_ledger_works_with_the_password_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    server = postgres.server()
    server.execute(f"CREATE ROLE keeper LOGIN CREATEROLE PASSWORD '{SECRET}'")
    url = server.url("keeper")
    schema = url.rpartition("search_path=")[2]
    server.execute(f"GRANT ALL ON SCHEMA {schema} TO keeper")
    rules = Path(server.data, "pg_hba.conf")
    before = rules.read_bytes()
    try:
        rules.write_bytes(b"local all keeper scram-sha-256\n" + before)
        server.execute("SELECT pg_reload_conf()")
        ledger = Ledger(url.replace("keeper@", f"keeper:{SECRET}@"))
        ledger.open("study", 1)
        sent = pickle.loads(pickle.dumps(ledger))
        with pytest.raises(LedgerError, match="pickled without its password"):
            sent.remaining("study")
        monkeypatch.setenv("PGPASSWORD", SECRET)
        # the same schema as before: only secrets are left out of the address
        assert sent.charge("study", "0.25", what="mean").id == ledger.history("study")[0].id
    finally:
        rules.write_bytes(before)
        server.execute("SELECT pg_reload_conf()")


# receipts


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", 10)
    ledger.open("other", 10)
    return ledger


@pytest.fixture
def bare(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Release:
    """A release whose receipt is not attached yet: charge 1."""
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "attach", lambda *_: None)
        return private_mean(NORTH, BALL, 1.0, ledger=ledger, dataset="study")


def edited(release: Release, **fields: Any) -> str:
    stored = {**json.loads(release.to_json()), **fields}
    return json.dumps({name: value for name, value in stored.items() if value is not ...})


EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "another data set": ({"dataset": "other"}, "data set"),
    "no data set": ({"dataset": None, "charge": None}, "data set"),
    "data set left out": ({"dataset": ...}, "data set"),
    "another charge": ({"charge": 2}, "number"),
    "truth for a number": ({"charge": True}, "number"),
    "another epsilon": ({"epsilon": 0.1}, "privacy"),
    "another notion": ({"epsilon": None, "rho": 1.0}, "privacy"),
    "two notions": ({"rho": 1.0}, "privacy"),
    "privacy left out": ({"epsilon": ...}, "privacy"),
    "other neighbours": ({"neighbours": "add or remove one record"}, "kind of neighbours"),
    "another cost": ({"cost": {"kind": "pure", "bound": 0.1}}, "cost"),
    "no such cost": ({"cost": {"kind": "none"}}, "cost"),
    "no cost at all": ({"cost": 1}, "cost"),
}


@pytest.mark.parametrize(("edit", "said"), EDITS.values(), ids=EDITS.keys())
def test_a_receipt_of_another_charge_is_not_attached(ledger: Ledger, bare: Release, edit: dict[str, Any], said: str) -> None:
    with pytest.raises(LedgerError, match=f"this receipt has another {said} than charge 1: attach it to its own charge"):
        ledger.attach(1, edited(bare, **edit))
    assert ledger.history("study")[0].receipt is None
    ledger.attach(1, bare.to_json())


def test_a_receipt_goes_to_its_own_charge_and_no_other(ledger: Ledger, bare: Release) -> None:
    second = ledger.charge("study", 1.0, cost=bare.cost, what="the same mean again")
    elsewhere = ledger.charge("other", 1.0, cost=bare.cost, what="the same mean of other data")
    for number in (second.id, elsewhere.id):
        with pytest.raises(LedgerError, match="this receipt has another"):
            ledger.attach(number, bare.to_json())
    ledger.attach(1, bare.to_json())
    assert [charge.receipt for charge in ledger.history("study")] == [bare.to_json(), None]


def test_receipts_of_other_mechanisms_are_compared_in_what_they_say(ledger: Ledger) -> None:
    ledger.charge("study", rho=None, epsilon="0.7", what="somebody else's mechanism")
    for receipt in ('{"epsilon": 0.5}', '{"charge": 2}', '{"dataset": "other"}'):
        with pytest.raises(LedgerError, match="this receipt has another"):
            ledger.attach(1, receipt)
    ledger.attach(1, '{"epsilon": 0.70, "value": [1.5]}')


@pytest.mark.parametrize("given", [{"epsilon": 1.0}, {"epsilon": 0.3, "delta": 1e-7}], ids=str)
def test_every_kind_of_release_attaches_its_own_receipt(ledger: Ledger, given: dict[str, float]) -> None:
    ledger.open("pairs", 10, delta=1e-3)
    charged: dict[str, Any] = {"ledger": ledger, "dataset": "pairs"}
    releases = [
        private_mean(NORTH, BALL, **given, **charged),
        private_summary([0.0, 0.0, 1.0], Sphere(2), sensitivity=0.01, **given, **charged),
        private_ball(np.tile(np.eye(2), (4000, 1, 1)), Ball(SPD(2), np.eye(2), 10.0), **given, **charged),
    ]
    history = ledger.history("pairs")
    assert [charge.receipt for charge in history] == [release.to_json() for release in releases]
    for charge in history:
        assert charge.receipt is not None
        assert charge.receipt_sha256 == hashlib.sha256(charge.receipt.encode()).hexdigest()
        assert ledger.check_receipt(charge.receipt) is None


def test_a_receipt_that_was_changed_in_the_database_is_noticed(ledger: Ledger, bare: Release, tmp_path: Path) -> None:
    ledger.attach(1, bare.to_json())
    for change in ("receipt = replace(receipt, '500', '501')", "receipt = NULL"):
        with closing(sqlite3.connect(tmp_path / "budget.db")) as connection, connection:
            connection.execute(f"UPDATE geodp_charge SET {change}")
        with pytest.raises(LedgerError, match=r"the receipt of charge 1 .* is not the one that was attached"):
            ledger.history("study")
        # the budget itself goes by the amounts
        assert ledger.remaining("study") == 9


def test_an_answer_about_a_receipt_says_why_not(ledger: Ledger, bare: Release) -> None:
    text = bare.to_json()
    assert "charge 1 of 'study' has no receipt" in str(ledger.check_receipt(text))
    ledger.attach(1, text)
    assert ledger.check_receipt(text) is None
    assert ledger.check_receipt(f"{text}\n") is None
    assert "keeps another receipt for charge 1" in str(ledger.check_receipt(json.dumps(json.loads(text))))
    for edit in ({"charge": 7}, {"dataset": "other"}, {"dataset": "none"}, {"charge": 10**30}, {"charge": -1}):
        assert "has no charge of the number and the data set" in str(ledger.check_receipt(edited(bare, **edit)))
    for other in ("[]", "{}", "1", '{"dataset": "study", "charge": true}'):
        assert ledger.check_receipt(other) == "this text names no charge of a ledger"
    with pytest.raises(ValueError, match="must be JSON text"):
        ledger.check_receipt("PRIVATE MEAN")


# balls


BALL_EDITS: dict[str, Any] = {
    "private": 1,
    "steps": ["radius (epsilon = 0.001)"],
    "neighbours": "nobody",
    "notion": "Gaussian differential privacy",
    "dataset": "study",
    "charge": 3,
    "geodp": None,
    "cost": {"kind": "pure", "bound": 0.1},
    "epsilon": 0.1,
    "n": 0,
}


SIMULATED: dict[str, Any] = {
    "mean": private_mean,
    "coverage": private_coverage,
    "variance": private_variance,
    "covariance": private_covariance,
    "projected mean": lambda x, ball, *given, **more: private_projected_mean(x, ball.manifold, *given, **more),
    "private number": lambda *given, **more: private_mean(*given, neighbours="add-remove", **more),
}


@pytest.mark.parametrize("kind", SIMULATED)
def test_a_simulation_that_is_called_exact_does_not_load(kind: str) -> None:
    """Any grid will not do: it follows from the noise. Where the right one is written too, flat values are not on it."""
    simulated = SIMULATED[kind](NORTH, BALL, 1.0, simulate=np.random.default_rng(1))
    stored = json.loads(simulated.to_json())
    assert Release.from_json(json.dumps(stored)).private is False
    flat = kind != "mean"
    for grid in (2.0**-50, *([simulated.noise.grid] if flat else [])):
        edited = stored | {"private": True, "numerics": "exact", "grid": grid}
        for part in ("count",) if "count" in stored else ():
            edited[part] = stored[part] | {"private": True, "numerics": "exact", "grid": simulated.count.noise.grid}
        with pytest.raises(ValueError, match=r"its grid does not follow|its draws must be such as its noise can make"):
            Release.from_json(json.dumps(edited))


DERIVED = ("error", "spends", "in_units", "verdict", "notion")


def leaves(stored: dict[str, Any], below: bool = False, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where everything is that follows from the rest of a receipt or of its parts."""
    for name, value in stored.items():
        inside = below or name in DERIVED
        if isinstance(value, dict):
            yield from leaves(value, inside, (*path, name))
        elif inside:
            yield (*path, name)


@pytest.mark.parametrize("kind", longer(SIMULATED, ["mean", "private number"]))
def test_nothing_that_follows_from_the_rest_of_a_receipt_can_be_edited(kind: str) -> None:
    """Errors, costs in other units, verdicts: whoever reads the JSON text reads what the printed receipt says."""
    options = {"coverage": 0.1} if kind == "private number" else {}
    stored = json.loads(SIMULATED[kind](NORTH, BALL, 1.0, **options).to_json())
    Release.from_json(json.dumps(stored))
    places = list(leaves(stored))
    assert {place[-1] for place in places} >= {"expected", "0.95", "verdict", "notion", "advantage"}
    for *path, name in places:
        changed = copy.deepcopy(stored)
        inner = changed
        for part in path:
            inner = inner[part]
        inner[name] = 1.0 + inner[name] if isinstance(inner[name], float) else "none"
        with pytest.raises(ValueError, match="this is not the JSON text of a release"):
            Release.from_json(json.dumps(changed))


def test_the_parts_of_a_receipt_are_about_its_own_records() -> None:
    stored = json.loads(private_mean(NORTH, BALL, 1.0, neighbours="add-remove", coverage=0.1).to_json())
    for part, edit in (("coverage", {"n": 7}), ("coverage", {"radius": 0.4}), ("count", {"n": 500})):
        with pytest.raises(ValueError, match=f"its {part} does not follow from the rest"):
            Release.from_json(json.dumps(stored | {part: stored[part] | edit}))


def test_a_projected_mean_is_the_point_next_to_its_vector() -> None:
    stored = json.loads(private_projected_mean(NORTH, Sphere(2), 1.0).to_json())
    with pytest.raises(ValueError, match="its value does not follow from the rest"):
        Release.from_json(json.dumps(stored | {"value": [1.0, 0.0, 0.0]}))


@pytest.mark.parametrize("field", BALL_EDITS)
def test_the_receipt_of_a_ball_that_contradicts_itself_does_not_load(field: str) -> None:
    found = private_ball(np.tile(np.eye(2), (4000, 1, 1)), Ball(SPD(2), np.eye(2), 10.0), epsilon=1.0)
    stored = json.loads(found.to_json())
    assert str(BallRelease.from_json(json.dumps(stored))) == str(found)
    with pytest.raises(ValueError, match="this is not the JSON text of a release"):
        BallRelease.from_json(json.dumps({**stored, field: BALL_EDITS[field]}))


def test_a_simulated_ball_cannot_claim_a_charge() -> None:

    found = private_ball(
        np.tile(np.eye(2), (4000, 1, 1)), Ball(SPD(2), np.eye(2), 10.0), epsilon=1.0, simulate=np.random.default_rng(0)
    )
    with pytest.raises(ValueError, match="this is not the JSON text of a release"):
        BallRelease.from_json(dataclasses.replace(found, dataset="study", charge=1).to_json())


# the command


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_the_command_prints_every_kind_of_receipt(tmp_path: Path) -> None:
    releases = [
        private_mean(NORTH, BALL, 1.0),
        private_mean(NORTH, BALL, 1.0, simulate=np.random.default_rng(0)),
        private_summary([0.0, 0.0, 1.0], Sphere(2), sensitivity=0.01, epsilon=1.0),
        private_ball(np.tile(np.eye(2), (4000, 1, 1)), Ball(SPD(2), np.eye(2), 10.0), epsilon=1.0),
    ]
    heads = ["PRIVATE MEAN", "SIMULATION - NOT PRIVATE", "PRIVATE SUMMARY", "PRIVATE BALL"]
    for release, head in zip(releases, heads, strict=True):
        (tmp_path / "receipt.json").write_text(f"{release.to_json()}\n")
        code, out, _ = run("receipt", tmp_path / "receipt.json")
        assert code == 0
        assert out.startswith(head)
        assert out.startswith(f"{release}\n")
        code, out, _ = run("receipt", tmp_path / "receipt.json", "--json")
        assert json.loads(out) == json.loads(release.to_json())


def test_the_command_says_yes_or_no(ledger: Ledger, tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/budget.db", tmp_path / "receipt.json"
    release = private_mean(NORTH, BALL, 1.0, ledger=ledger, dataset="study")
    file.write_text(f"{release.to_json()}\n")
    assert run("receipt", file, "--verify", "--ledger", url)[:2] == (0, "yes: the ledger keeps exactly this receipt\n")
    file.write_text(release.to_json().replace('"n": 500', '"n": 501'))
    code, out, _ = run("receipt", file, "--verify", "--ledger", url)
    assert (code, out[:3]) == (1, "no:")
    assert json.loads(run("receipt", file, "--verify", "--json", "--ledger", url)[1])["verified"] is False
    file.write_text(private_mean(NORTH, BALL, 1.0).to_json())
    assert run("receipt", file, "--verify", "--ledger", url)[:2] == (1, "no: this text names no charge of a ledger\n")


def test_a_receipt_that_the_ledger_keeps_but_that_contradicts_itself_is_not_verified(
    ledger: Ledger, bare: Release, tmp_path: Path
) -> None:
    text = edited(bare, scale=1e-6)
    ledger.attach(1, text)
    (tmp_path / "receipt.json").write_text(text)
    code, out, _ = run("receipt", tmp_path / "receipt.json", "--verify", "--ledger", f"sqlite:///{tmp_path}/budget.db")
    assert code == 1
    assert "the ledger keeps this text, but this is not the JSON text of a release" in out


def test_without_an_answer_the_command_ends_with_code_2(ledger: Ledger, tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/budget.db", tmp_path / "receipt.json"
    cases: list[tuple[bytes, list[str], str]] = [
        (b"8675309,1,2\n", [], "not a receipt"),
        (b"8675309,1,2\n", ["--verify", "--ledger", url], "must be JSON text"),
        (b"[8675309]", [], "not a receipt"),
        (b"\xff8675309", [], "not a receipt"),
        (b'{"geodp": "8675309"}', [], "not the JSON text of a release"),
        (b'{"geodp": "8675309", "summary": "ball"}', [], "not the JSON text of a release"),
        (b'{"dataset": "study", "charge": 1}', ["--verify", "--ledger", f"{url}x"], "there is no ledger"),
        (b"{}", ["--ledger", url], "--ledger goes with --verify"),
    ]
    for content, options, sentence in cases:
        file.write_bytes(content)
        code, out, said = run("receipt", file, *options)
        assert (code, out) == (2, "")
        assert sentence in said
        assert "8675309" not in said
    assert run("receipt", tmp_path / "none.json")[0] == 2


def test_the_api_says_what_the_ledger_keeps() -> None:
    assert "receipt_sha256" in {field.name for field in dataclasses.fields(Charge)}
