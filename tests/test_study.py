"""The study as a program: tasks, stores, tables, figures, the report and the command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from geodp.cli import app
from geodp.study.experiment import QUICK, Settings
from geodp.study.report import write_report
from geodp.study.runner import NAMES, Result, load, run
from geodp.study.table import ResultTable

TINY = Settings("tiny", (25, 50), 40, 5, 2000, 2, 20, 200, 4)
#: Experiments that take next to nothing at the tiny size.
CHEAP = ("neighbours", "utility", "bounds", "subspaces", "circle")

SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_study import CHEAP, TINY, run
if __name__ == "__main__":
    run(CHEAP, TINY, 3, Path(sys.argv[2]), processes=2)
"""


def csv_files(folder: Path) -> dict[str, bytes]:
    """All tables but the measured times."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.csv")) if not path.name.endswith("times.csv")}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Result]]:
    """One tiny run of all experiments on two processes, with its report."""
    out = tmp_path_factory.mktemp("study")
    results = run(NAMES, TINY, 3, out, processes=2)
    write_report(results, TINY, 3, out)
    return out, results


@pytest.fixture(scope="module")
def cheap(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The tables of the cheap experiments from one process that was not interrupted."""
    out = tmp_path_factory.mktemp("cheap")
    run(CHEAP, TINY, 3, out, processes=1)
    return csv_files(out)


# ---------------------------------------------------------------------- tables


def test_tables_come_back_from_csv_to_the_last_bit() -> None:
    rows = [("a, b", 1, 0.1 + 0.2), ("S^2", -3, 1e-300), ("x", 2**60, float("inf"))]
    table = ResultTable.of(("name", "count", "value"), rows)
    again = ResultTable.from_csv(table.to_csv())
    assert again == table
    assert [type(cell) for cell in again.rows[1]] == [str, int, float]
    assert ResultTable.from_csv(ResultTable.of(("x",), [(float("nan"),)]).to_csv()).to_csv() == "x\nnan\n"


def test_tables_of_numpy_scalars_are_tables_of_numbers() -> None:
    table = ResultTable.of(("n", "x", "word"), [(np.int64(3), np.float64(0.5), np.str_("w"))])
    assert [type(cell) for cell in table.rows[0]] == [int, float, str]


def test_tables_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="2 cells"):
        ResultTable.of(("n",), [(1, 2)])
    with pytest.raises(ValueError, match="do not fit"):
        _ = ResultTable.of(("n",), [(1,)]) + ResultTable.of(("m",), [(1,)])


# ---------------------------------------------------------------------- every experiment


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_gives_tables_figures_and_claims(everything: tuple[Path, list[Result]], name: str) -> None:
    out, results = everything
    result = next(r for r in results if r.experiment.name == name)
    assert result.tables
    for table_name, table in result.tables.items():
        assert len(table) > 0
        assert ResultTable.from_csv((out / f"{name}-{table_name}.csv").read_text()).to_csv() == table.to_csv()
    assert result.experiment.claims(result.tables)
    images = list(out.glob(f"{name}-*.png"))
    assert images
    for image in images:
        assert image.read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in image.with_suffix(".svg").read_bytes()


@pytest.mark.slow
def test_the_report_needs_nothing_but_itself(everything: tuple[Path, list[Result]]) -> None:
    out, results = everything
    page = (out / "report.html").read_text()
    assert not re.search(r'(src|href)\s*=\s*["\'](?!data:|#)', page)
    assert not re.search(r"<(script|link|iframe|object|embed)\b|@import|url\(|https?:", page)
    assert page.count("<img ") == len(list(out.glob("*.png")))
    for result in results:
        assert f'id="{result.experiment.name}"' in page
        for claim in result.experiment.claims(result.tables):
            assert escape(claim.sentence) in page
    for word in ("seed", "NumPy", "How these numbers were obtained", "16.8%", "25%"):
        assert word in page


@pytest.mark.slow
def test_claims_that_need_no_averaging_hold_even_in_a_tiny_run(everything: tuple[Path, list[Result]]) -> None:
    """Bounds, losses and examples are exact. Averages are too noisy at this size and are tested elsewhere."""
    _, results = everything
    tables = {result.experiment.name: result for result in results}
    for name, which in (("neighbours", (0, 1, 2)), ("bounds", (0, 1, 2)), ("privacy", (0, 1, 3, 4)), ("circle", (0, 1, 2))):
        claims = tables[name].experiment.claims(tables[name].tables)
        assert all(claims[i].holds for i in which), [claims[i] for i in which]


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "table", "column", "factor", "claim"),
    [
        ("neighbours", "summary", "worst_case", 1.001, 0),
        ("neighbours", "summary", "worst_case", 0.98, 1),
        ("utility", "reductions", "reduction", 0.97, 0),
        ("utility", "reductions", "reduction", 1.1, 1),
        ("utility", "reductions", "ratio", 1.1, 3),
        ("utility", "releases", "not_on_manifold", None, 4),
        ("bounds", "curves", "sharp_product", 1.0001, 1),
        ("bounds", "curves", "worst_case", 1.001, 2),
        ("privacy", "loss", "loss_over_epsilon", 1.01, 0),
        ("privacy", "loss", "normaliser_ratio", 1.3, 2),
        ("privacy", "truncated", "largest_loss", 1.5, 3),
        ("rates", "slopes", "slope", 1.3, 0),
        ("rates", "slopes", "slope", 0.7, 2),
        ("subspaces", "errors", "ratio", 2.0, 0),
        ("circle", "sensitivity", "with_ball", 1.001, 1),
        ("chains", "bias", "error_over_exact", 0.05, 0),
        ("beyond", "simulated", "private_ratio", 8.0, 0),
        ("notions", "errors", "ours", 1.3, 0),
        ("notions", "errors", "pure", 0.4, 1),
        ("notions", "errors", "laplace_seen", 1.3, 2),
    ],
)
def test_a_wrong_number_turns_a_claim_down(
    everything: tuple[Path, list[Result]], name: str, table: str, column: str, factor: float | None, claim: int
) -> None:
    result = next(r for r in everything[1] if r.experiment.name == name)
    found = result.tables[table]
    place = found.columns.index(column)
    rows = [(*row[:place], 1 if factor is None else float(row[place]) * factor, *row[place + 1 :]) for row in found.rows]
    claims = result.experiment.claims({**result.tables, table: ResultTable.of(found.columns, rows)})
    assert not claims[claim].holds


# ---------------------------------------------------------------------- the same tables, whatever happens


@pytest.mark.slow
def test_the_number_of_processes_does_not_change_a_byte(everything: tuple[Path, list[Result]], cheap: dict[str, bytes]) -> None:
    together = csv_files(everything[0])
    assert {name: together[name] for name in cheap} == cheap


@pytest.mark.slow
def test_another_seed_gives_other_numbers(tmp_path: Path, cheap: dict[str, bytes]) -> None:
    run(["neighbours"], TINY, 4, tmp_path, processes=1)
    assert csv_files(tmp_path)["neighbours-summary.csv"] != cheap["neighbours-summary.csv"]


@pytest.mark.slow
def test_a_run_that_was_killed_continues_to_the_same_tables(tmp_path: Path, cheap: dict[str, bytes]) -> None:
    """Killed without warning (its workers leave with it), then run again with another number of processes."""
    script, out = tmp_path / "killed.py", tmp_path / "out"
    script.write_text(SCRIPT)
    with subprocess.Popen([sys.executable, str(script), str(Path(__file__).parent), str(out)]) as victim:
        wait_for_tasks(out, 3, victim)
        victim.kill()
    kept = {path: path.stat().st_mtime_ns for path in (out / "tasks").glob("*.json")}
    assert not list(out.glob("*.csv"))
    seen: list[int] = []
    run(CHEAP, TINY, 3, out, processes=1, progress=lambda done, total, what: seen.append(done))
    assert seen[0] >= len(kept) >= 3
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert csv_files(out) == cheap


def wait_for_tasks(out: Path, count: int, process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 1200.0
    while len(list((out / "tasks").glob("*.json"))) < count:
        assert process.poll() is None, "the run ended before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("broken", ['{"tables": {"sens', "{}", "null", '{"tables": [], "seconds": 1}'])
def test_a_broken_result_is_computed_again(broken: str, tmp_path: Path) -> None:
    run(["circle"], TINY, 3, tmp_path, processes=1)
    before = csv_files(tmp_path)
    first = min((tmp_path / "tasks").glob("*.json"))
    first.write_text(broken)
    ran: list[str] = []
    run(["circle"], TINY, 3, tmp_path, processes=1, progress=lambda done, total, what: ran.append(what))
    assert ran == ["", "circle"]
    assert csv_files(tmp_path) == before


def test_other_settings_do_not_reuse_results(tmp_path: Path) -> None:
    run(["subspaces"], TINY, 3, tmp_path, processes=1)
    before = csv_files(tmp_path)
    run(["subspaces"], replace(TINY, draws=3000), 3, tmp_path, processes=1)
    assert csv_files(tmp_path) != before


# ---------------------------------------------------------------------- the command


@pytest.mark.slow
def test_ctrl_c_leaves_with_a_sentence_and_the_command_continues(tmp_path: Path) -> None:
    out = tmp_path / "[" / "red]"  # which a terminal library might take for a colour
    # a shell starts what runs in the background with Ctrl-C ignored, and so would everything that this test starts
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from geodp.cli import app; app()"
    command = [
        sys.executable,
        "-c",
        program,
        "study",
        "bounds",
        "--quick",
        "--processes",
        "2",
        "--out",
        str(out),
    ]
    environment = {**os.environ, "COLUMNS": "200"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        wait_for_tasks(out, 2, process)
        process.send_signal(signal.SIGINT)
        message = process.communicate(timeout=1200)[1]
    assert process.returncode == 130
    assert "Traceback" not in message
    kept = re.escape(str(out))
    assert re.search(
        rf"stopped\. \d+ of 48 tasks are done: they are kept in {kept}, and the same command continues from there", message
    )
    finished = len(list((out / "tasks").glob("*.json")))
    again = CliRunner().invoke(app, [*command[3:6], "--processes", "1", "--out", str(out)])
    assert again.exit_code == 0, again.output
    assert "report.html" in again.output
    assert 2 <= finished < 48 == len(list((out / "tasks").glob("*.json")))


def test_an_unknown_experiment_is_one_sentence() -> None:
    result = CliRunner().invoke(app, ["study", "circles"])
    assert result.exit_code == 2
    assert "there is no experiment 'circles': name some of neighbours, utility" in result.output.replace("\n", " ")


def test_the_help_names_every_experiment() -> None:
    text = CliRunner().invoke(app, ["study", "--help"]).output
    assert all(name in text for name in NAMES)


@pytest.mark.slow
def test_every_claim_holds_in_the_quick_study(tmp_path: Path) -> None:
    """Random claims have limits of 4 to 4.5 standard errors over some hundred averages: false alarms below 1%."""
    results = run(NAMES, QUICK, 0, tmp_path)
    wrong = [claim for result in results for claim in load(result.experiment.name).claims(result.tables) if not claim.holds]
    assert not wrong
