"""The command line: every file format, every command, and one sentence for everything that can go wrong.

The only random numbers that are not seeded are those of exact releases, of which only public fields are compared.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from cases import longer, random_points
from permissions import unprivileged
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

import geodp.statistics.mean
from geodp import SPD, Ball, Ledger, Manifold, Release, Rotations, Sphere, private_mean
from geodp.cli import app
from geodp.cli.common import DEFAULT_LEDGER
from geodp.cli.options import MANIFOLDS
from geodp.inputs import Array
from geodp.manifolds.registry import registered
from geodp.programs.ball import BallRelease
from geodp.receipt import receipt_from_json

pandas = pytest.importorskip("pandas", reason="pandas writes the files of these tests")
pytest.importorskip("pyarrow", reason="pyarrow reads and writes Parquet")


def run(*arguments: object) -> Any:
    """What `geodp` with these arguments answers."""
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, [str(argument) for argument in arguments])


def fails(*arguments: object) -> str:
    """The one sentence that a command with bad input ends with."""
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit), f"{result.exception!r} was not turned into a sentence"
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
    return str(result.stderr)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A ledger with a budget of 1 for the data set d."""
    address = f"sqlite:///{tmp_path}/budget.db"
    Ledger(address).open("d", 1)
    return address


@pytest.fixture
def directions(tmp_path: Path) -> Path:
    path = tmp_path / "directions.npy"
    np.save(path, random_points(Sphere(2), 200, np.random.default_rng(0), 0.6))
    return path


SPHERE = ("--manifold", "Sphere(2)", "--radius", 0.5)


# ---------------------------------------------------------------------- file formats


def table(path: Path, rows: Array, names: list[str]) -> None:
    frame = pandas.DataFrame(rows, columns=names)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)


def array(path: Path, rows: Array, _: object = None) -> None:
    if path.suffix == ".npy":
        np.save(path, rows)
    else:
        np.savez(path, records=rows, other=np.arange(3))


WRITERS: dict[str, Callable[[Path, Array, list[str]], None]] = {".npy": array, ".npz": array, ".csv": table, ".parquet": table}


def clock_times(points: Array) -> list[str]:
    """Midnight is (0, 1) and 06:00 is (1, 0)."""
    seconds = np.round(np.arctan2(points[:, 0], points[:, 1]) / (2.0 * np.pi) * 86400.0).astype(int) % 86400
    return [f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in seconds]


def from_clock(texts: list[str]) -> Array:
    hours = np.array([sum(int(part) * unit for part, unit in zip(text.split(":"), (3600, 60, 1), strict=True)) for text in texts])
    angle = 2.0 * np.pi * hours / 86400.0
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1)


def written() -> dict[str, tuple[Manifold, float, Array, Array, list[str], str]]:
    """For each way to write records: manifold, radius, the records, the rows of the file, its header, the layout to ask for."""
    rng = np.random.default_rng(1)
    tensors, axes = random_points(SPD(3), 60, rng, 0.8), random_points(Sphere(2), 60, rng, 0.8)
    parts = rng.dirichlet([2.0, 3.0, 4.0], size=60)
    turns = Rotation.from_rotvec(rng.normal(0.0, 0.3, size=(60, 3)))
    rotations = turns.as_matrix()
    latitude = np.degrees(np.arcsin(axes[:, 2]))
    longitude = np.degrees(np.arctan2(axes[:, 1], axes[:, 0]))
    upper = tensors[:, *np.triu_indices(3)]
    entries = ["xx", "xy", "xz", "yy", "yz", "zz"]
    shuffled = [3, 0, 5, 1, 2, 4]
    return {
        "tensors, full": (SPD(3), 1.0, tensors, tensors.reshape(60, 9), [f"m{i}" for i in range(9)], "auto"),
        "tensors, upper triangle": (SPD(3), 1.0, tensors, upper, entries, "auto"),
        "tensors, named entries": (SPD(3), 1.0, tensors, upper[:, shuffled], ["D" + entries[i] for i in shuffled], "auto"),
        "directions, xyz": (Sphere(2), 0.9, axes, axes, ["x", "y", "z"], "auto"),
        "directions, lat and lon": (Sphere(2), 0.9, axes, np.stack([latitude, longitude], axis=-1), ["lat", "lon"], "latlon"),
        "compositions": (Sphere(2), 0.9, np.sqrt(parts), 100.0 * parts, ["sand", "silt", "clay"], "composition"),
        "rotations, matrices": (Rotations(3), 0.9, rotations, rotations.reshape(60, 9), [f"r{i}" for i in range(9)], "auto"),
        "rotations, quaternions": (Rotations(3), 0.9, rotations, turns.as_quat(), ["qx", "qy", "qz", "qw"], "auto"),
        "rotations, vectors": (Rotations(3), 0.9, rotations, turns.as_rotvec(), ["a", "b", "c"], "auto"),
    }


CONTENTS = written()


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """All releases of the command line use the same simulated draw."""

    @wraps(private_mean)  # commands have the options that the function takes
    def release(*arguments: Any, **named: Any) -> Release:
        return private_mean(*arguments, **named, simulate=np.random.default_rng(0))

    monkeypatch.setattr(geodp.statistics.mean, "private_mean", release)


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("suffix", longer(WRITERS, [".npy", ".csv"]))
@pytest.mark.parametrize("content", CONTENTS)
def test_every_format_gives_the_same_release_under_the_same_simulated_draw(content: str, suffix: str, tmp_path: Path) -> None:
    manifold, radius, records, rows, names, layout = CONTENTS[content]
    if content == "tensors, named entries" and suffix in (".npy", ".npz"):
        pytest.skip("an array has no header")
    path = tmp_path / f"records{suffix}"
    WRITERS[suffix](path, rows, names)
    result = run("mean", path, "-m", manifold, "-r", radius, "-e", 2, "--coverage", 0, "--layout", layout, "--json")
    assert result.exit_code == 0, result.stderr
    release = Release.from_json(result.stdout)
    expected = private_mean(records, Ball(manifold, manifold.origin, radius), 2.0, simulate=np.random.default_rng(0))
    assert (release.n, release.manifold, release.scale) == (60, manifold, expected.scale)
    np.testing.assert_allclose(release.value, expected.value, rtol=0.0, atol=1e-9)
    assert np.abs(expected.value - manifold.origin).max() > 1e-3, "the test would prove nothing"


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_clock_times_are_directions_on_the_circle(suffix: str, tmp_path: Path) -> None:
    texts = clock_times(random_points(Sphere(1), 60, np.random.default_rng(2), 1.2))
    path = tmp_path / f"arrivals{suffix}"
    if suffix == ".npy":
        np.save(path, np.array(texts))
    else:
        table(path, np.array(texts, dtype=object)[:, None], ["time"])
    result = run("mean", path, "-m", "Sphere(1)", "-r", 1.5, "-e", 2, "--coverage", 0, "--json")
    ball = Ball(Sphere(1), [0.0, 1.0], 1.5)
    seeded = np.random.default_rng(0)
    expected = private_mean(from_clock(texts), ball, 2.0, simulate=seeded)
    np.testing.assert_allclose(Release.from_json(result.stdout).value, expected.value, rtol=0.0, atol=1e-12)


@pytest.mark.usefixtures("simulated")
def test_arrays_of_matrices_and_other_separators_are_read_too(tmp_path: Path) -> None:
    manifold, radius, records, rows, names, _ = CONTENTS["tensors, full"]
    frame = pandas.DataFrame(rows, columns=names)
    np.save(tmp_path / "shaped.npy", records)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(records))
    frame.to_csv(tmp_path / "semicolons.csv", sep=";", decimal=",", index=False)
    frame.to_csv(tmp_path / "tabs.csv", sep="\t", index=False)
    frame.to_csv(tmp_path / "headless.csv", header=False, index=False)
    np.savetxt(tmp_path / "blanks.csv", rows, fmt="%.17g")
    pandas.DataFrame({"tensor": list(rows)}).to_parquet(tmp_path / "lists.parquet")
    expected = private_mean(records, Ball(manifold, manifold.origin, radius), 2.0, simulate=np.random.default_rng(0))
    said = {"headless.csv": ("--no-header", "--layout", "full"), "lists.parquet": ("--layout", "full")}
    said["blanks.csv"] = said["headless.csv"]
    for path in sorted({*tmp_path.glob("*.npy"), *tmp_path.glob("*.csv"), *tmp_path.glob("*.parquet")}):
        result = run("mean", path, "-m", "SPD(3)", "-r", radius, "-e", 2, "--coverage", 0, "--json", *said.get(path.name, ()))
        assert result.exit_code == 0, (path.name, result.stderr)
        np.testing.assert_allclose(Release.from_json(result.stdout).value, expected.value, atol=1e-9, err_msg=path.name)


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize(("names", "columns"), [("id,lat,lon", "lat, lon"), ("id,lat,lon", "1,2"), ("lon,lat,id", "lat,lon")])
def test_columns_that_are_no_part_of_the_records_are_left_out(names: str, columns: str, tmp_path: Path) -> None:
    degrees = {"id": np.arange(60.0), "lat": np.linspace(70.0, 89.0, 60), "lon": np.linspace(0.0, 90.0, 60)}
    path = tmp_path / "places.csv"
    pandas.DataFrame({name: degrees[name] for name in names.split(",")}).to_csv(path, index=False)
    command = ("mean", path, "-m", "Sphere(2)", "-r", 0.5, "-e", 2, "--coverage", 0, "--json")
    assert "among them those of the layout latlon" in fails(*command)
    release = Release.from_json(run(*command, "--columns", columns).stdout)
    lat, lon = np.deg2rad(degrees["lat"]), np.deg2rad(degrees["lon"])
    records = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
    seeded = np.random.default_rng(0)
    expected = private_mean(records, Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5), 2.0, simulate=seeded)
    np.testing.assert_allclose(release.value, expected.value, rtol=0.0, atol=1e-9)
    inside = run("check", path, *SPHERE, "--columns", columns)
    assert re.search(r"not points +│ 0", inside.stdout)
    assert "no single one called 'place'" in fails(*command, "--columns", "place")


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("center", ["[[2, 0.5], [0.5, 1]]", "[2, 0.5, 1]", "center.npy", "center.csv"])
def test_the_center_is_typed_or_read(center: str, tmp_path: Path) -> None:
    point = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.save(tmp_path / "center.npy", point)
    np.savetxt(tmp_path / "center.csv", point, delimiter=",")
    np.save(tmp_path / "x.npy", np.tile(np.eye(2), (50, 1, 1)))
    center = str(tmp_path / center) if center.startswith("center") else center
    result = run("mean", tmp_path / "x.npy", "-m", "SPD(2)", "-r", 2, "-e", 1, "--center", center, "--json")
    assert json.loads(result.stdout)["center"] == point.tolist()


# ---------------------------------------------------------------------- mean


def test_the_release_is_printed_as_json_and_as_a_receipt_and_written_whole(directions: Path, url: str, tmp_path: Path) -> None:
    out = tmp_path / "release.json"
    result = run("mean", directions, *SPHERE, "-e", 0.5, "--json", "--out", out, "--ledger", url, "--dataset", "d")
    assert result.exit_code == 0
    assert result.stderr == ""
    said = json.loads(result.stdout)
    assert said == json.loads(out.read_text())
    assert not list(tmp_path.glob("*.part"))
    assert (said["private"], said["numerics"], said["neighbours"]) == (True, "exact", "replace one record")
    assert (said["n"], said["epsilon"], said["manifold"], said["radius"]) == (200, 0.5, "Sphere(2)", 0.5)
    assert (said["center"], said["dataset"], said["bound"]) == ([0.0, 0.0, 1.0], "d", "sharp")
    assert said["scale"] >= 2.0 * np.tan(0.5) / 200 / 0.5
    assert np.linalg.norm(said["value"]) == pytest.approx(1.0, abs=1e-12)
    assert said["charge"] == Ledger(url).history("d")[0].id

    receipt = run("mean", directions, *SPHERE, "-e", 0.5, "--ledger", url, "--dataset", "d")
    assert receipt.stdout.startswith("PRIVATE MEAN")
    for part in (
        "privacy     epsilon = 0.5, pure",
        "records     200",
        "Sphere(2)",
        "(the origin)",
        "replace one record",
        "data set 'd'",
    ):
        assert part in receipt.stdout
    assert Ledger(url).remaining("d") == 0


def test_the_bound_of_the_paper_can_be_asked_for(directions: Path) -> None:
    said = json.loads(run("mean", directions, *SPHERE, "-e", 1, "--bound", "reimherr2021", "--json").stdout)
    assert said["bound"] == "reimherr2021"
    assert said["scale"] > 1.2 * 2.0 * np.tan(0.5) / 200


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("mean", SPHERE),
        ("coverage", SPHERE),
        ("variance", SPHERE),
        ("covariance", SPHERE),
        ("kmeans", (*SPHERE, "--clusters", 2)),
        ("average", SPHERE[:2]),
        ("ball", SPHERE[:2]),
    ],
)
def test_every_release_is_written_drawn_charged_and_read_back(
    command: str, more: tuple[object, ...], directions: Path, url: str, tmp_path: Path
) -> None:
    out, plot = tmp_path / "release.json", tmp_path / "release.png"
    done = run(command, directions, *more, "-e", 0.5, "--out", out, "--plot", plot, "--ledger", url, "--dataset", "d")
    assert done.exit_code == 0, done.stderr
    assert f"{receipt_from_json(out.read_text())}\n" == done.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert Ledger(url).spent("d") == 0.5
    if command != "ball":
        assert "leave out --by" in fails(command, directions, *more, "-e", 0.5, "--plot", plot, "--by", 0)


def test_one_record_is_enough_where_the_law_exists(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", [[0.0, 0.0, 1.0]])
    assert json.loads(run("mean", tmp_path / "one.npy", *SPHERE, "-e", 1, "--anyway", "--json").stdout)["n"] == 1


# ---------------------------------------------------------------------- budget, plan, check, demo


def test_budgets_are_opened_shown_and_told(directions: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    opened = run("budget", "open", "scans", "--epsilon", "1.5", "--ledger", url)
    assert opened.exit_code == 0
    assert opened.stdout == f"scans: 1.5 to spend, kept in {tmp_path}/new.db\n"
    assert run("budget", "open", "scans", "--epsilon", "1.50", "--ledger", url).exit_code == 0
    release = json.loads(run("mean", directions, *SPHERE, "-e", 0.25, "--ledger", url, "--dataset", "scans", "--json").stdout)
    shown = json.loads(run("budget", "show", "--ledger", url, "--json").stdout)
    numbers = {"dataset": "scans", "unit": "epsilon", "total": "1.5", "spent": "0.25", "left": "1.25"}
    assert shown[0].items() >= numbers.items()
    for number in ("scans", "1.5", "0.25", "1.25"):
        assert number in run("budget", "show", "--ledger", url).stdout
    [charge] = json.loads(run("budget", "history", "scans", "--ledger", url, "--json").stdout)
    assert charge["receipt"] == release
    assert (charge["id"], charge["epsilon"]) == (release["charge"], "0.25")
    assert "0.25" in run("budget", "history", "scans", "--ledger", url).stdout


def test_budgets_are_opened_and_shown_in_every_notion(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    wanted = {
        "pure": (["-e", "3"], "epsilon", "3"),
        "pair": (["-e", "3", "--delta", "1e-6"], "epsilon and delta", {"epsilon": "3", "delta": "0.000001"}),
        "through": (["-e", "1", "--delta", "1e-6", "--compose", "rho"], "rho", "0.0243559703592"),
        "rho": (["--rho", "0.5"], "rho", "0.5"),
        "mu": (["--mu", "1"], "mu", "1"),
    }
    for name, (options, _, _) in wanted.items():
        assert "to spend" in run("budget", "open", name, *options, "--ledger", url).stdout
    book = Ledger(url)
    book.charge("pure", 0.5, what="mean")
    book.charge("pair", epsilon=1, delta=1e-6, what="somebody else's")
    book.charge("mu", mu=0.6, what="Gaussian")
    shown = {row["dataset"]: row for row in json.loads(run("budget", "show", "--ledger", url, "--json").stdout)}
    for name, (_, unit, total) in wanted.items():
        assert (shown[name]["unit"], shown[name]["total"]) == (unit, total)
    assert shown["mu"]["left"] == "0.8"
    assert shown["pair"]["left"] == {"epsilon": "2", "delta": "0"}
    # randomised response: tanh(epsilon/2); two normal laws mu apart: 2 Phi(mu/2) - 1
    assert shown["pure"]["advantage"] == pytest.approx(math.tanh(0.25))
    assert shown["mu"]["advantage"] == pytest.approx(0.2358228)
    assert (shown["rho"]["advantage"], shown["pair"]["epsilon_at_delta_1e-6"]) == (0.0, 1.0)
    table = run("budget", "show", "--ledger", url).stdout
    assert all(word in table for word in ("advantage", "through", "0.024356", "0.2359"))
    [charge] = json.loads(run("budget", "history", "pair", "--ledger", url, "--json").stdout)
    assert (charge["epsilon"], charge["delta"], charge["asked"]) == ("1", "0.000001", {"epsilon": 1.0, "delta": 1e-6})
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", charge["at"])
    assert "advantage" in run("budget", "show", "--help").stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "exactly one of --epsilon, --epsilon and --delta, --rho, or --mu"),
        (["-e", 1, "--rho", 1], "given were --epsilon and --rho"),
        (["--rho", 1, "--compose", "rho"], "--compose is for budgets in epsilon and delta"),
        (["-e", 1, "--delta", 0], "delta must be above 0"),
        (["-e", 1, "--delta", 1e-6, "--compose", "renyi"], "--compose must be 'sum' or 'rho'"),
    ],
)
def test_a_budget_that_cannot_be_is_one_sentence(options: list[object], sentence: str, tmp_path: Path) -> None:
    assert sentence in fails("budget", "open", "d", *options, "--ledger", f"sqlite:///{tmp_path}/new.db")
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("name", ["[/x]", "[red]scans", "Ärzte", "a:b"])
def test_a_data_set_may_have_any_name(name: str, directions: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    assert name in run("budget", "open", name, "-e", 2, "--ledger", url).stdout
    assert run("mean", directions, *SPHERE, "-e", 1, "--ledger", url, "--dataset", name).exit_code == 0
    assert name in run("budget", "show", "--ledger", url).stdout
    assert run("budget", "history", name, "--ledger", url).exit_code == 0
    assert name in fails("mean", directions, *SPHERE, "-e", 5, "--ledger", url, "--dataset", name)


def test_no_password_is_shown_when_a_budget_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "open", lambda *_, **__: None)
    pytest.importorskip("psycopg", reason="the driver of PostgreSQL")
    result = run("budget", "open", "d", "-e", 1, "--ledger", "postgresql+psycopg://curator:open-sesame@localhost/db")
    assert result.exit_code == 0
    assert "open-sesame" not in result.output


@pytest.mark.parametrize(
    "given",
    [
        ["-n", 100, "-e", 1],
        pytest.param(["-e", 1, "--error", 0.02], marks=pytest.mark.slow),
        pytest.param(["-n", 100, "--error", 0.02], marks=pytest.mark.slow),
        ["-n", 50, "--error", 0.1, "--quantile", 0.9],
    ],
    ids=str,
)
def test_plans_are_made_in_every_direction(given: list[object], tmp_path: Path) -> None:
    plot = tmp_path / "plan.png"
    result = run("plan", *SPHERE, *given, "--json", "--plot", plot)
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["scale"] == pytest.approx(2.0 * np.tan(0.5) / (said["n"] * said["epsilon"]), rel=1e-6)
    s = said["scale"]
    assert said["expected_error"] == pytest.approx(2.0 * s / (1.0 + s * s), rel=1e-6)
    if "--quantile" in given:
        assert said["quantiles"]["0.9"] == pytest.approx(0.1, rel=1e-6)
    elif "--error" in given:
        assert said["expected_error"] <= 0.02 * (1.0 + 1e-7)
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert f"n = {said['n']}" in run("plan", *SPHERE, *given).stdout


def test_check_counts_records_and_says_loudly_that_it_is_not_private(tmp_path: Path) -> None:
    x = np.tile([0.0, 0.0, 1.0], (6, 1))
    x[1], x[4], x[5] = [0.0, 1.0, 0.0], np.nan, [0.0, 0.0, 2.0]
    np.save(tmp_path / "x.npy", x)
    result = run("check", tmp_path / "x.npy", *SPHERE)
    assert result.exit_code == 0
    assert "NOT PRIVATE" in result.stdout.splitlines()[0]
    assert "You may fix how the file is read" in result.stdout.splitlines()[-1]
    lines = [line.split("│") for line in result.stdout.splitlines() if line.startswith("│")]
    rows = {line[1].strip(): [cell.strip() for cell in line[2:4]] for line in lines}
    assert rows == {"valid and in the ball": ["3", "0, 2, 3"], "outside the ball": ["1", "1"], "not points": ["2", "4, 5"]}


def test_a_wrong_column_does_not_become_a_confident_answer(tmp_path: Path) -> None:
    # places near (50, 10), and ages: read as latitudes and longitudes most ages are valid, and none is where it should be.
    # The counts are off by 200 or more with a chance below exp(-15).
    rng = np.random.default_rng(0)
    rows = "".join(
        f"{50 + a:.3f},{10 + b:.3f},{20 + c:.0f},{c:.0f}\n" for a, b, c in rng.uniform([-1, -1, 0], [1, 1, 60], (1000, 3))
    )
    (tmp_path / "x.csv").write_text("lat,lon,age,score\n" + rows)
    public = ["-m", "Sphere(2)", "-c", "50, 10", "-r", "0.1", "-e", "3"]

    def said(*more: str) -> str:
        done = run("mean", tmp_path / "x.csv", *public, *more)
        assert done.exit_code == 0, done.stderr
        return next(line for line in done.stdout.splitlines() if line.startswith("  verdict"))

    right = ["--columns", "lat, lon"]
    wrong = ["--columns", "age, score", "--layout", "latlon"]
    assert said(*right, "--coverage", "0.1").startswith("  verdict     precise")
    assert "careful" not in said(*right, "--coverage", "0.1")
    assert said(*wrong, "--coverage", "0.1").startswith("  verdict     careful: many records are outside of the ball")
    assert said(*wrong).startswith("  verdict     careful: many records are outside of the ball"), "without being asked"
    assert said(*wrong, "--coverage", "0").endswith("what clipping did was not measured")


def test_check_takes_a_ball_that_was_found(tmp_path: Path) -> None:
    x = Sphere(2).exp([0.0, 0.0, 1.0], np.column_stack([np.random.default_rng(0).normal(0.0, 0.1, (500, 2)), np.zeros(500)]))
    np.save(tmp_path / "x.npy", x)
    found = geodp.private_ball(x, Sphere(2), epsilon=2.0)
    (tmp_path / "ball.json").write_text(found.to_json())
    inside = int(found.ball.contains(x).sum())
    result = run("check", tmp_path / "x.npy", "--ball", tmp_path / "ball.json")
    assert result.exit_code == 0
    assert re.search(rf"valid and in the ball │ {inside} ", result.stdout)


def test_the_demonstration_works_in_two_directories_and_keeps_a_budget(tmp_path: Path) -> None:
    for name in ("one", "two/deeper"):
        result = run("demo", "--dir", tmp_path / name)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("PRIVATE BALL")
        assert "\nPRIVATE MEAN\n" in result.stdout
        assert "demonstration" in result.stdout.lower()
        assert "2 of 3 left" in result.stdout
        release = Release.from_json((tmp_path / name / "receipt.json").read_text())
        assert release.private
        assert release.epsilon == 0.8
        assert release.manifold == SPD(3)
        found = BallRelease.from_json((tmp_path / name / "ball.json").read_text())
        assert release.ball is not None
        assert release.ball.radius == found.ball.radius
        assert (tmp_path / name / "tensors.png").read_bytes().startswith(b"\x89PNG")
        assert Ledger(f"sqlite:///{tmp_path / name}/budget.db").spent("demo") == 1


@pytest.mark.slow
def test_the_installed_command_runs_the_demonstration_in_the_working_directory(tmp_path: Path) -> None:
    command = shutil.which("geodp", path=str(Path(sys.executable).parent)) or shutil.which("geodp")
    if command is None:
        pytest.skip("geodp is not installed as a command here")
    done = subprocess.run([command, "demo"], cwd=tmp_path, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "geodp-demo").iterdir()) == [
        "ball.json",
        "budget.db",
        "receipt.json",
        "tensors.png",
    ]


@pytest.mark.slow
def test_a_demonstration_after_another_starts_afresh(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("demo", 3)
    ledger.charge("demo", 3, what="earlier runs")
    assert run("demo", "--dir", tmp_path).exit_code == 0
    assert ledger.spent("demo") == 3
    assert ledger.spent("demo 2") == 1


# ---------------------------------------------------------------------- bad input


def npy(path: Path, x: Any) -> Path:
    np.save(path, x)
    return path


def mean(path: object, *, manifold: str = "Sphere(2)", radius: float = 0.5, epsilon: object = 1, more: Any = ()) -> list[object]:
    return ["mean", path, "-m", manifold, "-r", radius, f"--epsilon={epsilon}", *more]


BAD: dict[str, tuple[Callable[[Path], list[object]], str]] = {
    "missing file": (lambda here: mean(here / "gone.npy"), "there is no file"),
    "a folder": (lambda here: mean(here / "folder.npy"), r"the directory .* holds no \.parquet"),
    "unknown ending": (lambda here: mean(here / "x.abc"), r"must be a \.npy"),
    "empty file": (lambda here: mean(here / "empty.csv"), "is empty"),
    "a header alone": (lambda here: mean(here / "header.csv"), "the number of records n must be at least 1 but is 0"),
    "no array": (lambda here: mean(here / "junk.npy"), "is not a NumPy file"),
    "no parquet": (lambda here: mean(here / "junk.parquet"), "is not a Parquet file"),
    "wrong columns": (lambda here: mean(here / "x.npy", manifold="SPD(3)"), "3 columns .*SPD\\(3\\) is read from"),
    "wrong columns in csv": (lambda here: mean(here / "x.csv", manifold="Sphere(4)"), "3 columns"),
    "unknown layout": (lambda here: mean(here / "x.npy", more=["--layout", "polar"]), "has no layout 'polar'"),
    "wrong manifold": (lambda here: mean(here / "x.npy", manifold="Sfere(2)"), "there is no manifold 'Sfere'"),
    "half a manifold": (lambda here: mean(here / "x.npy", manifold="Sphere(2"), "parentheses"),
    "a program": (lambda here: mean(here / "x.npy", manifold="__import__('os').getcwd()"), "cannot be read"),
    "no dimension": (lambda here: mean(here / "x.npy", manifold="Sphere(0)"), "must be at least 1 but is 0"),
    "radius too large": (lambda here: mean(here / "x.npy", radius=2.0), r"must be below 1\.57"),
    "radius 0": (lambda here: mean(here / "x.npy", radius=0.0), "the radius must be positive"),
    "radius nan": (lambda here: mean(here / "x.npy", radius=float("nan")), "the radius must be positive"),
    "epsilon 0": (lambda here: mean(here / "x.npy", epsilon=0), "epsilon must be positive and finite but is 0"),
    "epsilon -1": (lambda here: mean(here / "x.npy", epsilon=-1), "epsilon must be positive and finite but is -1"),
    "epsilon nan": (lambda here: mean(here / "x.npy", epsilon="nan"), "epsilon must be positive and finite but is nan"),
    "epsilon inf": (lambda here: mean(here / "x.npy", epsilon="inf"), "epsilon must be positive and finite but is inf"),
    "past the floats": (
        lambda here: mean(here / "flat.npy", manifold="Euclidean(3)", radius=1e100, epsilon=1e-60),
        "scale|sigma",
    ),
    "no records": (lambda here: mean(here / "none.npy"), "the number of records n must be at least 1 but is 0"),
    "center off": (lambda here: mean(here / "x.npy", more=["-c", "[0, 1, 1]"]), "is not a point of"),
    "center not there": (lambda here: mean(here / "x.npy", more=["-c", "gone.npy"]), "there is no file"),
    "center of records": (lambda here: mean(here / "x.npy", more=["-c", here / "x.npy"]), "the centre is one point"),
    "unknown bound": (lambda here: mean(here / "x.npy", more=["--bound", "blunt"]), "sharp, reimherr2021"),
    "budget exhausted": (lambda here: mean(here / "x.npy", epsilon=1.5), "has 1 of 1 left, 1.5 was asked for"),
    "out nowhere": (
        lambda here: mean(here / "x.npy", more=["--out", here / "no" / "r.json"]),
        "no directory .*/no: make it first",
    ),
    "out is a folder": (lambda here: mean(here / "x.npy", more=["--out", here / "folder.npy"]), "folder|directory"),
}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    x = np.tile([0.0, 0.0, 1.0], (100, 1))
    identities = np.tile(np.eye(3), (50, 1, 1))
    npy(tmp_path / "x.npy", x)
    npy(tmp_path / "flat.npy", x)
    npy(tmp_path / "none.npy", x[:0])
    npy(tmp_path / "one.npy", identities[:1])
    npy(tmp_path / "two.npy", identities[:2])
    npy(tmp_path / "fifty.npy", identities)
    pandas.DataFrame(x, columns=["x", "y", "z"]).to_csv(tmp_path / "x.csv", index=False)
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "empty.csv").touch()
    (tmp_path / "x.abc").write_bytes(b"PK")
    (tmp_path / "header.csv").write_text("x,y,z\n")
    (tmp_path / "junk.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr'")
    (tmp_path / "junk.parquet").write_bytes(b"PAR1 and no more")
    return tmp_path


@pytest.mark.parametrize("case", BAD)
def test_bad_input_to_mean_is_one_sentence_and_charges_nothing(case: str, here: Path, url: str) -> None:
    arguments, sentence = BAD[case]
    before = sorted(here.iterdir())
    assert re.search(sentence, fails(*arguments(here), "--ledger", url, "--dataset", "d"))
    assert Ledger(url).spent("d") == 0
    assert sorted(here.iterdir()) == before, "and leaves no file behind"


@pytest.mark.parametrize(("file", "epsilon"), [("one.npy", 1.0), ("two.npy", 1.0), ("fifty.npy", 0.058)])
def test_past_the_existence_of_the_law_the_release_is_drawn_in_the_tangent_space_and_says_nothing(
    file: str, epsilon: float, here: Path
) -> None:
    arguments = mean(here / file, manifold="SPD(3)", radius=1.0, epsilon=epsilon)
    assert "nothing was released or charged, because" in fails(*arguments)
    assert "; --anyway releases it nevertheless" in fails(*arguments)
    done = run(*arguments, "--anyway")
    assert done.exit_code == 0
    assert "mechanism   tangent Laplace, scale" in done.stdout
    assert "this release says nothing about the data: its likely error exceeds the radius of the ball" in done.stdout


def test_a_data_set_needs_a_ledger_and_a_ledger_a_data_set(here: Path, url: str) -> None:
    assert "--ledger goes with --dataset" in fails(*mean(here / "x.npy"), "--ledger", url)
    assert "there is no ledger at" in fails(*mean(here / "x.npy"), "--dataset", "d"), "the default one"
    assert "has no data set 'e' (it has 'd')" in fails(*mean(here / "x.npy"), "--ledger", url, "--dataset", "e")
    assert Ledger(url).spent("d") == 0


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("sqlite:///{here}/new.db", "there is no ledger at"),
        ("sqlite:///{here}/gone/new.db", "there is no ledger at"),
        ("sqlite:///{here}/x.npy", "is not a ledger"),
        ("mysql://root@localhost/db", "the URL of a ledger must be"),
        ("{here}/new.db", "there is no ledger at"),
        ("nonsense://x", "the URL of a ledger must be"),
    ],
)
def test_a_ledger_that_is_none_is_one_sentence(address: str, sentence: str, here: Path) -> None:
    before = sorted(here.iterdir())
    named = ("--ledger", address.format(here=here))
    assert sentence in fails(*mean(here / "x.npy"), *named, "--dataset", "d")
    assert sentence in fails("budget", "show", *named)
    assert sentence in fails("budget", "history", "d", *named)
    assert sorted(here.iterdir()) == before


def test_a_locked_ledger_is_one_sentence(here: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Ledger.__init__.__kwdefaults__, "timeout", 0.2)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "held by another process" in fails(*mean(here / "x.npy"), "--ledger", url, "--dataset", "d")
        assert "held by another process" in fails("budget", "open", "e", "-e", 1, "--ledger", url)
        assert "held by another process" in fails("budget", "show", "--ledger", url)
        other.execute("ROLLBACK")
    assert Ledger(url).spent("d") == 0


def test_a_ledger_of_a_newer_version_is_one_sentence(here: Path, url: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        file.execute("UPDATE geodp_schema SET version = 99")
        file.commit()
    for command in (
        [*mean(here / "x.npy"), "--dataset", "d"],
        ["budget", "open", "e", "-e", 1],
        ["budget", "show"],
        ["budget", "history", "d"],
    ):
        assert "was written by a newer geodp" in fails(*command, "--ledger", url)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        assert file.execute("SELECT count(*) FROM geodp_charge").fetchone() == (0,)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions work differently here")
def test_a_read_only_ledger_is_one_sentence() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "budget.db"
        ledger = Ledger(f"sqlite:///{path}")
        ledger.open("d", 2)
        x = npy(folder / "x.npy", np.tile([0.0, 0.0, 1.0], (100, 1)))
        command = [*mean(x), "--ledger", f"sqlite:///{path}", "--dataset", "d"]
        # once as oneself, so that no module is left to be loaded as the other user
        assert run(*command).exit_code == 0
        path.chmod(0o444)
        folder.chmod(0o755)
        with unprivileged():
            assert re.search("read-only|allowed to write", fails(*command))
        assert ledger.spent("d") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-n", 5], "two of --records, the privacy .such as --epsilon. and --error: given was --records alone"),
        (["-n", 0, "-e", 1], "must be at least 1 but is 0"),
        (["-n", 10, "-e", 0], "epsilon must be positive"),
        (["-n", 10, "-e", "nan"], "epsilon must be positive"),
        (["-n", 10, "-e", "inf"], "epsilon must be positive"),
        (["-n", 10, "--error", -1], "the error to reach must be positive"),
        (["-n", 10, "--error", 0.1, "--quantile", 2], "lies between 0 and 1"),
        (["-n", 10, "-e", 1, "--bound", "blunt"], "sharp, reimherr2021"),
        (["-n", 10, "-e", 1, "--plot", "plan.docx"], "docx"),
        (["-n", 10, "-e", 1, "--plot", "no/where/plan.png"], "there is no directory no/where: make it first"),
        (["-n", 10, "-e", 1, "--plot", "plan"], "must end in .png, .svg or .pdf"),
        (["-n", 10**400, "-e", 1], "records"),
        (["-n", 10, "-e", 1e-320], "scale|sigma|epsilon"),
    ],
    ids=lambda value: " ".join(map(str, value))[:40] if isinstance(value, list) else "",
)
def test_bad_input_to_plan_is_one_sentence(arguments: list[object], sentence: str) -> None:
    assert re.search(sentence, fails("plan", "-m", "Euclidean(2)", "-r", 0.5, *arguments))


@pytest.mark.parametrize("epsilon", longer(["1e-29", "1e29"], ["1e29"]))
def test_an_absurd_epsilon_is_answered_at_once(epsilon: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "geodp", "plan", "-m", "Euclidean(2)", "-r", "1", "-n", "2", "-e", epsilon]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "one", "1e400", "", "1e-40"])
def test_a_budget_must_be_a_positive_number(epsilon: str, tmp_path: Path) -> None:
    assert "epsilon" in fails("budget", "open", "d", f"--epsilon={epsilon}", "--ledger", f"sqlite:///{tmp_path}/new.db")
    assert not (tmp_path / "new.db").exists()


def test_a_total_cannot_be_changed(url: str) -> None:
    assert "is open with a total epsilon of 1, not epsilon of 2" in fails("budget", "open", "d", "-e", 2, "--ledger", url)


def test_bad_input_to_check_is_one_sentence(here: Path) -> None:
    assert "there is no file" in fails("check", here / "gone.csv", *SPHERE)
    assert "must be below" in fails("check", here / "x.npy", "-m", "Sphere(2)", "-r", 9)


@pytest.mark.parametrize("name", ["[/red]", "[bold]x", "a[b]c"])
def test_brackets_in_the_name_of_a_file_are_shown_as_they_are(name: str, tmp_path: Path) -> None:
    assert name in fails("mean", f"{name}.npy", *SPHERE, "-e", 1)
    taken = tmp_path / name.replace("/", "-")
    taken.touch()
    assert taken.name in fails("demo", "--dir", taken)
    assert name in fails("plan", "-m", "Sphere(2)", "-r", 0.5, "-n", 10, "-e", 1, "--plot", f"{tmp_path}/gone{name}/p.png")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mean"], "(?i)missing argument 'file'"),
        (["mean", "x.npy", "-m", "Sphere(2)", "-r", "wide", "-e", "1"], "--radius must be a number; see .*mean --help"),
        (["mean", "x.npy", "-m", "Sphere(2)", "-r", "1", "-e", "abc"], "--epsilon must be a number; see"),
        (["plan", *SPHERE, "-n", "1.5", "-e", "1"], "--records must be a whole number; see"),
        (["plan", *SPHERE, "-n", "[red]", "-e", "1"], "--records must be a whole number; see"),
        (["mean", "x.npy", "--epsilom", "1"], r"no such option: --epsilom \(did you mean --epsilon\?\); see"),
        (["meen"], r"no such command 'meen' \(did you mean 'mean'"),
        (["budget", "shut"], "no such command 'shut'; see .*budget --help"),
        (["unknown"], "no such command 'unknown'"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_what_the_parser_refuses_is_one_sentence_too(arguments: list[object], sentence: str) -> None:
    assert re.search(sentence, fails(*arguments))


def test_without_a_command_there_is_help() -> None:
    for command in ((), ("budget",)):
        assert "--help" in run(*command).output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plan", *SPHERE], "give two of --records, the privacy (such as --epsilon) and --error: given was none of them"),
        (["plan", *SPHERE, "-n", 5], "given was --records alone"),
        (["plan", *SPHERE, "-n", 5, "-e", 1, "--error", 1], "given were --records, --epsilon, --error"),
        (["plan", *SPHERE, "-n", 5, "-e", 1, "--quantile", 0.5], "--quantile goes with --error"),
        (["plan", "-m", "Sphere(2)", "-r", 1.2, "-n", 5, "-e", 1, "--bound", "reimherr2021"], "; --bound sharp holds up to"),
        (["audit", *SPHERE, "-e", 1], "with --records, or two files with --first and --second"),
        (["audit", *SPHERE, "-e", 1, "-n", 10**12], "error: --records is 1000000000000, but"),
        (["audit", *SPHERE, "-e", 1, "-n", 7, "--first", "x.npy", "--second", "x.npy"], "leave --records out"),
        (["mean", "x.npy", *SPHERE, "-e", 1, "--ledger", "sqlite:///b.db"], "--ledger goes with --dataset"),
        (["mean", "wide.csv", *SPHERE, "-e", 1], ": choose the columns of a record with --columns"),
        (["mean", "bare.csv", *SPHERE, "-e", 1], "say --no-header if it is a record, --header if"),
        (["mean", "bare.csv", *SPHERE, "-e", 1, "--no-header"], "name the layout with --layout, cartesian or"),
        (["budget", "show", "--ledger", "sqlite:///new.db"], "open a data set with geodp budget open first"),
    ],
    ids=lambda value: " ".join(map(str, value))[:60] if isinstance(value, list) else "",
)
def test_the_command_line_speaks_of_its_own_options(
    arguments: list[object], sentence: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    (here / "wide.csv").write_text("a,b,c,d\n1,2,3,4\n")
    (here / "bare.csv").write_text("0,0,1\n0,0,1\n")
    said = fails(*arguments)
    assert sentence in said
    assert not re.search(r"\w=", said), "an argument of Python"


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("header", [False, True])
def test_whether_the_first_line_is_a_record_is_said_and_not_guessed(header: bool, here: Path) -> None:
    axes = random_points(Sphere(2), 40, np.random.default_rng(3), 0.6)
    np.savetxt(here / "axes.csv", axes, delimiter=",")
    said = ("--layout", "cartesian", "--header" if header else "--no-header")
    result = run("mean", here / "axes.csv", *SPHERE, "-e", 2, "--json", *said)
    assert json.loads(result.stdout)["n"] == (39 if header else 40)
    assert run("check", here / "axes.csv", *SPHERE, *said).exit_code == 0
    (here / "axes.csv").write_text("a,b,c\n" + "0,0,1,\n" * 5)
    checked = run("check", here / "axes.csv", *SPHERE)
    assert "None of the records is a point" in checked.stdout


def test_a_release_is_not_lost_when_its_file_cannot_be_written(here: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By then the budget is spent: the value must still reach the screen."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "release.json")

    monkeypatch.setattr("geodp.cli.releasing.write_whole", full)
    result = run(*mean(here / "x.npy"), "--json", "--out", here / "r.json", "--ledger", url, "--dataset", "d")
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert json.loads(result.stdout)["charge"] == Ledger(url).history("d")[0].id


def piped(arguments: list[object], **how: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "geodp", *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=600, check=False, **how)


@contextmanager
def broken_pipe() -> Iterator[int]:
    """A pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


@pytest.mark.parametrize("unbuffered", longer(["", "1"], ["1"]))
def test_a_release_is_not_lost_when_nobody_reads_the_screen(unbuffered: str, here: Path) -> None:
    """By then the budget is spent: the file must be there."""
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with broken_pipe() as pipe:
        done = piped([*mean(here / "x.npy"), "--out", here / "r.json"], stdout=pipe, env=environment)
    assert (done.returncode, done.stderr) == (2, "error: Broken pipe\n")
    assert Release.from_json((here / "r.json").read_text()).n == 100


@pytest.mark.parametrize(
    "command", longer([["layouts"], ["check", "x.npy", *SPHERE], ["plan", *SPHERE, "-n", 10, "-e", 1]], [["layouts"]]), ids=str
)
def test_a_pipe_that_nobody_reads_is_one_sentence_and_no_verdict(command: list[object], here: Path) -> None:
    """Exit code 1 would say that a claim is refuted."""
    with broken_pipe() as pipe:
        done = piped(command, stdout=pipe, cwd=here)
    assert (done.returncode, done.stderr) == (2, "error: Broken pipe\n")


def test_a_screen_without_the_letters_of_a_name_still_shows_the_receipt(here: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/letters.db"
    Ledger(url).open("Ärzte", 1)
    command = [*mean(here / "x.npy"), "--ledger", url, "--dataset", "Ärzte"]
    done = piped(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "data set '\\xc4rzte', charge 1" in done.stdout


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_or_a_device_is_not_replaced_by_a_file(here: Path, url: str) -> None:
    os.mkfifo(here / "pipe.png")
    for command in (
        [*mean(here / "x.npy"), "--ledger", url, "--dataset", "d", "--out", here / "pipe.png"],
        ["plan", *SPHERE, "-n", 10, "-e", 1, "--plot", here / "pipe.png"],
        ["audit", *SPHERE, "-n", 10, "-e", 1, "--plot", here / "pipe.png"],
    ):
        assert "is not an ordinary file: name a file" in fails(*command)
    assert (here / "pipe.png").is_fifo()
    assert Ledger(url).spent("d") == 0


def test_the_picture_of_an_audit_says_when_it_shows_records(tmp_path: Path) -> None:
    for name, end in (("first", [0.0, 0.0, 1.0]), ("second", [0.0, 0.6, 0.8])):
        npy(tmp_path / f"{name}.npy", np.array([[0.0, 0.0, 1.0]] * 9 + [end]))
    audit = ("audit", *SPHERE, "-e", 1, "--draws", 1000, "--seed", 1, "--plot", tmp_path / "loss.svg")
    given = ("--first", tmp_path / "first.npy", "--second", tmp_path / "second.npy")
    for more, shown in ((given, True), (("-n", 10), False)):
        assert run(*audit, *more).exit_code == 0
        assert ("NOT PRIVATE" in (tmp_path / "loss.svg").read_text()) is shown


def test_a_picture_that_cannot_be_written_whole_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in fails("plan", *SPHERE, "-n", 10, "-e", 1, "--plot", tmp_path / "plan.png")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- help


def commands(group: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield prefix, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*prefix, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_names_every_option_and_says_what_it_does(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    for parameter in COMMANDS[path].params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            assert option.lower() in result.stdout.lower(), option
        assert parameter.name == "help" or getattr(parameter, "help", None), f"{parameter.name} is not explained"
    for name, command in getattr(COMMANDS[path], "commands", {}).items():
        assert name in result.stdout
        assert command.help


def test_the_help_names_every_manifold_and_the_usual_ledger() -> None:
    assert set(re.findall(r"(\w+)\(", MANIFOLDS)) <= {kind.__name__ for kind in registered()}
    assert inspect.signature(Ledger).parameters["url"].default == DEFAULT_LEDGER


def test_the_commands_are_those_of_the_contract() -> None:
    named = {" ".join(path) for path in COMMANDS}
    assert {"demo", "mean", "plan", "check", "budget open", "budget show", "budget history"} <= named


def test_the_version_is_shown() -> None:
    assert run("--version").stdout.strip() == f"geodp {geodp.__version__}"


def test_the_module_can_be_run(tmp_path: Path) -> None:
    command = partial(subprocess.run, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
    done = command([sys.executable, "-m", "geodp", "mean", "gone.npy", "-m", "Sphere(2)", "-r", "0.5", "-e", "1"])
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: there is no file gone.npy\n")


def test_a_paid_release_whose_receipt_cannot_be_kept_is_printed_with_a_warning(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{here / 'budget.db'}"
    run("budget", "open", "d", "--epsilon", 2, "--ledger", url)

    def refuse(self: Ledger, number: int, receipt: str) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(Ledger, "attach", refuse)
    result = run(*mean(here / "x.npy", more=["--ledger", url, "--dataset", "d", "--json"]))
    assert result.exit_code == 0
    assert json.loads(result.stdout)["charge"] == 1
    assert re.fullmatch(r"warning: charge 1 is entered [^\n]+Do not release again[^\n]+\n", result.stderr), result.stderr


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "geodp", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"geodp {geodp.__version__}\n"


def test_a_mean_without_a_ball_finds_one_and_is_written_drawn_and_read_back(tmp_path: Path) -> None:
    x = SPD(2).exp(np.eye(2), SPD(2).tangent(np.eye(2), 0.3 * np.random.default_rng(1).normal(size=(3000, 3))))
    np.save(tmp_path / "x.npy", x)
    arguments = ("mean", tmp_path / "x.npy", "-m", "SPD(2)", "-e", 2)
    done = run(*arguments, "-o", tmp_path / "a.json", "--plot", tmp_path / "a.png", "--outer", 20, "--find", 0.3)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("PRIVATE MEAN")
    found = geodp.receipt.receipt_from_json((tmp_path / "a.json").read_text())
    assert (found.request.statistic.find, found.request.statistic.start.radius, found.request.coverage) == (0.3, 20.0, 0.05)
    assert found.cost.epsilon <= 2.0
    assert run("receipt", tmp_path / "a.json").stdout.startswith("PRIVATE MEAN")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert run(*arguments, "-o", tmp_path / "a.parquet").exit_code == 0
    row = pandas.read_parquet(tmp_path / "a.parquet").iloc[0]
    assert (row["summary"], row["n"], len(row["value"])) == ("mean", 3000, 4)
    assert "a centre goes with a radius about it" in fails(*arguments, "-c", "[1, 0, 1]")
    assert "give the manifold in place of the ball" in fails(*arguments, "-r", 2, "--outer", 30)
    np.save(tmp_path / "y.npy", x.reshape(-1, 4))
    assert "give --outer, a radius" in fails("mean", tmp_path / "y.npy", "-m", "Euclidean(4)", "-e", 1)
