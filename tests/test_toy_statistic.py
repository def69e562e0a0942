"""A statistic in one file and a line in the table has a command, a method, a plan, a receipt, a schema and an audit."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import toy_statistic
from toy_statistic import UpperHalf, private_share
from typer.testing import CliRunner

import geodp.cli
from geodp import Ball, Release, Request, Session, Sphere, audit
from geodp.receipt import receipt_from_json
from geodp.schema import release_schema
from geodp.table import TABLE, Entry, add

BALL = Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5)


@pytest.fixture(autouse=True)
def _added() -> Iterator[None]:
    add(Entry("share", "toy_statistic", text="Release the share of the records in the upper half of the ball."))
    yield
    del TABLE["share"]


def directions(upper: int = 30, lower: int = 70) -> Any:
    """Records of which so many are in the upper half, and so many in the lower one."""
    first = np.repeat([0.1, -0.1], [upper, lower])[:, None] * BALL.manifold.tangent(BALL.center, np.array([1.0, 0.0]))
    return BALL.manifold.exp(BALL.center, first)


def run(*arguments: object) -> Any:
    return CliRunner(env={"COLUMNS": "160"}).invoke(geodp.cli.app, [str(argument) for argument in arguments])


def test_it_is_one_short_file() -> None:
    assert len(Path(toy_statistic.__file__).read_text().splitlines()) <= 40


def test_it_has_a_command_with_help_and_all_options_of_a_release(tmp_path: Path) -> None:
    text = run("share", "--help").stdout
    assert "Release the share of the records in the upper half of the ball." in text
    assert all(option in text for option in ("--ball", "--rho", "--unit", "--by", "--ledger", "--layout", "--out", "--dask"))
    assert "--mechanism" not in text
    assert "share" in run("--help").stdout
    np.save(tmp_path / "x.npy", directions())
    done = run("share", tmp_path / "x.npy", "-m", "Sphere(2)", "-r", 0.5, "-e", 100, "--json", "--out", tmp_path / "share.json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["value"] == pytest.approx([0.3], abs=0.01)  # noise of 1e-4: wrong once in e^100
    assert run("receipt", tmp_path / "share.json").stdout.startswith("PRIVATE SHARE\n")


def test_sessions_have_a_method_with_its_signature() -> None:
    session = Session(directions(), Sphere(2), epsilon=2)
    assert "share" in dir(session)
    assert {"epsilon", "rho", "ball"} <= {*inspect.signature(session.share).parameters}
    release = session.share(0.5, ball=BALL)
    assert (release.n, release.charge, session.left) == (100, 1, 1.5)
    assert session.releases == [release]
    assert "share on Sphere(2)" in str(session)
    with pytest.raises(TypeError, match="private_share has no option 'epsilom': did you mean epsilon"):
        session.share(epsilom=0.5, ball=BALL)
    with pytest.raises(AttributeError, match="no attribute 'shares'"):
        _ = session.shares


def test_it_is_planned_from_public_numbers() -> None:
    plan = Request(UpperHalf(BALL), epsilon=0.5).plan(100)
    assert plan.scale == pytest.approx(1.0 / 50.0)
    assert plan.cost.epsilon == pytest.approx(0.5)
    assert "mechanism" in str(plan)


def test_its_receipt_is_read_back_and_compared() -> None:
    release = private_share(directions(), BALL, epsilon=1.0)
    assert receipt_from_json(release.to_json()) == release
    assert isinstance(release, Release)
    forged = json.loads(release.to_json()) | {"scale": 0.5 * release.scale}
    with pytest.raises(ValueError, match="its scale does not follow"):
        receipt_from_json(json.dumps(forged))


def test_the_schema_of_receipts_describes_it() -> None:
    receipt = json.loads(private_share(directions(), BALL, epsilon=1.0).to_json())
    validator = jsonschema.Draft202012Validator(release_schema())
    validator.validate(receipt)
    assert not validator.is_valid(receipt | {"scale": -1.0})


def test_groups_have_one_each() -> None:
    shares = private_share(directions(), BALL, epsilon=100.0, by=["a"] * 30 + ["b"] * 70)
    assert {name: round(float(each.value[0])) for name, each in shares.items()} == {"a": 1, "b": 0}


class TooLittleNoise(UpperHalf):
    """One that claims a quarter of what a record can do."""

    def sensitivity(self, n: int) -> float:
        return 0.25 / n


@pytest.mark.parametrize(("statistic", "consistent"), [(UpperHalf, True), (TooLittleNoise, False)])
def test_an_audit_of_its_request_finds_whether_its_noise_is_enough(statistic: type[UpperHalf], consistent: bool) -> None:
    # with confidence 0.99 for each bound and fixed seeds
    pair = directions(30, 70), directions(31, 69)
    result = audit(Request(statistic(BALL), epsilon=1.0), pair=pair, draws=20_000, seed=1)
    assert result.consistent is consistent
    assert result.lower > 0.7
    assert "share" in result.to_json()
    with pytest.raises(ValueError, match="give a pair of neighbouring data sets"):
        audit(Request(statistic(BALL), epsilon=1.0), 100)
    with pytest.raises(ValueError, match="leave them out"):
        audit(Request(statistic(BALL), epsilon=1.0), pair=pair, rho=1.0)


def test_a_name_in_the_table_is_taken() -> None:
    with pytest.raises(ValueError, match="there is another mean in the table"):
        add(Entry("mean", "toy_statistic"))
