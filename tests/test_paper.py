"""The paper's experiments as a program: tasks, tables, figures, the report and the command."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

pytest.importorskip("joblib", reason="the paper's experiments need joblib and pandas: pip install '.[paper]'")
import typer
from typer.testing import CliRunner

from paper import __main__ as command
from paper import run as program
from paper.experiment import Settings, Tables
from paper.report import write_report
from paper.run import NAMES, Result, run

TINY = Settings("tiny", (25, 50), 40, 5, 2000, 2, 20, 200, 4)
#: Experiments that take next to nothing at the tiny size.
CHEAP = ("neighbours", "utility", "bounds", "subspaces", "circle")


def csv_files(folder: Path) -> dict[str, bytes]:
    """All tables but the measured times."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.csv")) if not path.name.endswith("times.csv")}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Result]]:
    """One tiny run of all experiments on two processes, with its report."""
    out = tmp_path_factory.mktemp("paper")
    results = run(NAMES, TINY, 3, out, processes=2)
    write_report(results, TINY, 3, out)
    return out, {result.name: result for result in results}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_gives_tables_figures_and_claims(everything: tuple[Path, dict[str, Result]], name: str) -> None:
    out, result = everything[0], everything[1][name]
    assert result.claims()
    assert result.tables
    for table, found in result.tables.items():
        assert len((out / f"{name}-{table}.csv").read_text().splitlines()) == 1 + len(found) > 1
    images = list(out.glob(f"{name}-*.png"))
    assert images
    for image in images:
        assert image.read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in image.with_suffix(".svg").read_bytes()


@pytest.mark.slow
def test_the_report_needs_nothing_but_itself(everything: tuple[Path, dict[str, Result]]) -> None:
    out, results = everything
    page = (out / "report.html").read_text()
    assert not re.search(r'(src|href)\s*=\s*["\'](?!data:|#)', page)
    assert not re.search(r"<(script|link|iframe|object|embed)\b|@import|url\(|https?:", page)
    assert page.count("<img ") == len(list(out.glob("*.png")))
    for result in results.values():
        assert f'id="{result.name}"' in page
        for claim in result.claims():
            assert escape(claim.sentence, quote=False) in page
    for word in ("seed", "numpy", "How these numbers were obtained", "16.8%", "25%"):
        assert word in page


@pytest.mark.slow
def test_claims_that_need_no_averaging_hold_even_in_a_tiny_run(everything: tuple[Path, dict[str, Result]]) -> None:
    """Bounds, losses and examples are exact. Averages are too noisy at this size: the quick run checks them."""
    for name, which in (("neighbours", (0, 1, 2)), ("bounds", (0, 1, 2)), ("privacy", (0, 1, 3, 4)), ("circle", (0, 1, 2))):
        claims = everything[1][name].claims()
        assert all(claims[i].holds for i in which), [claims[i] for i in which]


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
    everything: tuple[Path, dict[str, Result]], name: str, table: str, column: str, factor: float | None, claim: int
) -> None:
    result = everything[1][name]
    found = result.tables[table]
    wrong: Tables = {table: found.assign(**{column: 1 if factor is None else found[column] * factor})}
    assert not result._replace(tables=result.tables | wrong).claims()[claim].holds


@pytest.mark.slow
def test_the_number_of_processes_does_not_change_a_byte(everything: tuple[Path, dict[str, Result]], tmp_path: Path) -> None:
    run(CHEAP, TINY, 3, tmp_path, processes=1)
    together, alone = csv_files(everything[0]), csv_files(tmp_path)
    assert {name: together[name] for name in alone} == alone


def test_a_run_that_was_interrupted_computes_the_rest_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    circle = program.load("circle")
    work, ran = circle.work, []

    def counted(rng: object, n: int) -> object:
        if len(ran) == 5:
            raise KeyboardInterrupt
        ran.append(n)
        return work(rng, n)

    monkeypatch.setattr(circle, "work", counted)
    with pytest.raises(KeyboardInterrupt):
        run(["circle"], TINY, 3, tmp_path / "stopped", processes=1)
    assert csv_files(tmp_path / "stopped") == {}
    ran[:] = [None] * 6
    run(["circle"], TINY, 3, tmp_path / "stopped", processes=1)
    assert ran[6:] == [task["n"] for task in circle.tasks(TINY)][5:]
    run(["circle"], TINY, 3, tmp_path / "at once", processes=1)
    assert csv_files(tmp_path / "stopped") == csv_files(tmp_path / "at once")


def test_other_settings_and_seeds_do_not_reuse_results(tmp_path: Path) -> None:
    seen = []
    for settings, seed in ((TINY, 3), (replace(TINY, draws=3000), 3), (TINY, 4)):
        run(["subspaces"], settings, seed, tmp_path, processes=1)
        seen.append(csv_files(tmp_path)["subspaces-errors.csv"])
    assert len(set(seen)) == 3


def test_the_command_writes_a_report_and_fails_if_a_claim_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "QUICK", TINY)
    app = typer.Typer()
    app.command()(command.main)
    given = ["circle", "--out", str(tmp_path), "--processes", "1"]
    good = CliRunner().invoke(app, given)
    assert good.exit_code == 0, good.output
    assert (tmp_path / "report.html").is_file()
    monkeypatch.setattr(program.load("circle"), "NUDGE", -1.0)
    assert CliRunner().invoke(app, given).exit_code == 1
    assert CliRunner().invoke(app, ["circles"]).exit_code == 2
