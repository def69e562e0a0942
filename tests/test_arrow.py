"""Releases in Parquet files: what another language reads there is what the receipt says, and nothing else."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra: pip install 'geodp[parquet]'")

from geodp import SPD, Ball, Release, private_ball, private_covariance, private_coverage, private_mean  # noqa: E402
from geodp.cli import app  # noqa: E402
from geodp.data import release_schema  # noqa: E402
from geodp.integrations.arrow import parquet_bytes, release_table  # noqa: E402

BALL, X = Ball(SPD(2), np.eye(2), 1.0), np.tile(np.eye(2), (60, 1, 1))


def read(content: bytes) -> Any:
    return parquet.read_table(io.BytesIO(content))


@pytest.mark.parametrize("name", ["mean", "covariance", "coverage"])
def test_a_row_is_what_the_receipt_says(name: str) -> None:
    private = {"mean": private_mean, "covariance": private_covariance, "coverage": private_coverage}[name]
    release: Any = private(X, BALL, epsilon=1.0, delta=1e-6)
    (row,) = read(parquet_bytes(release)).to_pylist()
    stored = json.loads(release.to_json())
    assert np.array_equal(np.reshape(row["value"], row["shape"]), stored["value"])
    assert row["error_95"] == stored["error"]["0.95"]
    assert row["expected_error"] == stored["error"]["expected"]
    for field in (
        "summary",
        "notion",
        "epsilon",
        "delta",
        "neighbours",
        "manifold",
        "n",
        "radius",
        "mechanism",
        "dataset",
        "geodp",
    ):
        assert row[field] == stored[field], field
    assert row["rho"] is row["mu"] is row["group"] is None
    assert row["receipt"] == release.to_json()
    assert Release.from_json(row["receipt"]).to_json() == release.to_json()


def test_groups_are_rows_and_the_whole_is_in_the_metadata() -> None:
    release = private_mean(X, BALL, epsilon=1.0, by=["a", "b"] * 30)
    table = read(parquet_bytes(release))
    assert table.column("group").to_pylist() == ["a", "b"]
    assert [json.loads(text) for text in table.column("receipt").to_pylist()] == [
        json.loads(each.to_json()) for each in release.values()
    ]
    assert table.schema.metadata[b"geodp.receipt"].decode() == release.to_json()
    assert table.schema.metadata[b"geodp.schema"].decode() == release_schema()["$id"]


def test_every_kind_of_release_has_the_same_columns() -> None:
    found = private_ball(X, Ball(SPD(2), np.eye(2), 5.0), epsilon=1.0)
    ball, mean = release_table(found), release_table(private_mean(X, BALL, epsilon=1.0))
    assert ball.schema.equals(mean.schema)
    (row,) = ball.to_pylist()
    assert row["value"] is None
    assert (row["center"], row["radius"]) == (found.ball.center.ravel().tolist(), found.ball.radius)


def test_the_command_writes_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    command = ["mean", "x.npy", "--manifold", "SPD(2)", "--radius", "1", "--epsilon", "1", "--out", "mean.parquet", "--json"]
    run = CliRunner().invoke(app, command)
    assert run.exit_code == 0, run.output
    (row,) = parquet.read_table("mean.parquet").to_pylist()
    assert json.loads(row["receipt"]) == json.loads(run.stdout)


def test_a_missing_library_is_said_before_anything_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    monkeypatch.setattr("geodp.cli.options.find_spec", lambda name: None)
    CliRunner().invoke(app, ["budget", "open", "cohort", "--epsilon", "1", "--ledger", "budget.db"])
    options = ["--radius", "1", "--epsilon", "1", "--out", "mean.parquet", "--ledger", "budget.db", "--dataset", "cohort"]
    run = CliRunner().invoke(app, ["mean", "x.npy", "--manifold", "SPD(2)", *options])
    assert run.exit_code == 2
    assert "needs pyarrow" in run.output
    shown = CliRunner().invoke(app, ["budget", "show", "--ledger", "budget.db", "--json"])
    assert '"spent": "0"' in shown.stdout
