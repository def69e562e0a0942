"""Every example of the site and of the README runs.

Blocks of one page share a namespace and a folder. ``python`` blocks are run; ``pycon`` blocks are doctests; of ``console`` blocks
every ``$ geodp`` command must succeed, and its output is compared with the one shown, where ``...`` stands for anything.
Installing and building cannot be run here: such commands stand in ``sh`` blocks, and each must be in the list below. Random
parts are fixed or checked by properties, so these tests have no false alarms but those their pages state.
"""

from __future__ import annotations

import doctest
import re
import shlex
import sys
import textwrap
import tomllib
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from cases import longer
from typer.testing import CliRunner

import geodp
from geodp.cli import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
#: Pages whose examples take a second or more.
SECONDS = {"learning.md", "manifold.md", "risk.md", "spread.md"}
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)

#: Commands that install, build, or take long; what they run is tested elsewhere.
LONG = re.compile(r"python3? -m venv|(\.venv/bin/)?(pip|python|pytest|ruff) |python3? (-m|docs/)|bash \.ci/run|geodp audit")
#: A cluster that is not there: such a block is compiled; the same on this machine is run in the guide on clusters.
CLUSTER = re.compile(r"(tls|tcp)://scheduler")
LANGUAGES = {"python", "pycon", "console", "sh", "text", "csv"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """Language, text and line of every block."""
    text = page.read_text()
    return [(match[1], match[2], text.count("\n", 0, match.start()) + 1) for match in BLOCK.finditer(text)]


@pytest.mark.parametrize(
    "page",
    longer([*PAGES, ROOT / "README.md"], [page for page in [*PAGES, ROOT / "README.md"] if page.name not in SECONDS]),
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # where dataclasses look for their annotations
    namespace = vars(module)
    for language, text, line in blocks(page):
        where = f"{page.name}, line {line}"
        if language == "python":
            # empty lines in front: tracebacks show the line of the page
            program = compile("\n" * line + text, str(page), "exec")
            if not CLUSTER.search(text):
                exec(program, namespace)
        elif language == "pycon":
            run_session(text, namespace, where)
        elif language == "console":
            run_commands(text, where)
        elif language == "sh":
            commands = [command for command in text.splitlines() if command and not command.startswith("#")]
            assert all(LONG.match(command) for command in commands), f"{where}: not in the list of commands that are not run"


def run_session(text: str, namespace: dict[str, Any], where: str) -> None:
    session = doctest.DocTestParser().get_doctest(text, namespace, where, where, 0)
    session.globs = namespace  # what a block defines is there for the next one
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(session, out=report.append, clear_globs=False)
    assert result.failed == 0, "".join(report)


def run_commands(text: str, where: str) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, wanted = part.partition("\n")
        program, *arguments = shlex.split(command)
        assert program == "geodp", f"{where}: only geodp is run, not {program}"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{where}: {command}\n{result.output}"
        found = "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n"
        assert not wanted or doctest.OutputChecker().check_output(wanted, found, FLAGS), f"{where}: {command} printed\n{found}"


def test_ten_usual_mistakes_are_answered_as_the_start_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = re.findall(r"^\| `geodp (.*?)` \| (.*?) \|$", (DOCS / "start.md").read_text(), flags=re.MULTILINE)
    assert len(rows) == 10
    text = "patient,xx,xy,yy\n" + "".join(f"{i // 3},{1 + i % 7 / 20},0,1\n" for i in range(900))
    for name in ("covariances.csv", "covariances.zip"):
        Path(name).write_text(text)
    ledger = geodp.Ledger("sqlite:///geodp-budget.db")
    session = geodp.Session.read("covariances.csv", geodp.SPD(2), unit="patient", ledger=ledger, dataset="clinic", epsilon=2)
    Path("ball.json").write_text(session.ball(epsilon=1.0, radius=30.0).to_json())
    Path("release.json").write_text(session.mean(epsilon=0.7).to_json())
    for arguments, answer in rows:
        result = CliRunner().invoke(app, shlex.split(arguments))
        assert result.exit_code == 2, arguments
        assert doctest.OutputChecker().check_output(f"error: {answer}\n", result.stderr, FLAGS), f"{arguments}\n{result.stderr}"
    assert session.left == Decimal("0.3")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_are_of_a_kind_that_is_run_or_known(page: Path) -> None:
    known = re.findall(r"^```(\w+)", page.read_text(), flags=re.MULTILINE)
    assert set(known) <= LANGUAGES, page


def test_a_wrong_output_and_a_failing_block_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError):
        run_session(">>> 1 + 1\n3\n", {}, "here")
    with pytest.raises(AssertionError):
        run_commands('$ geodp plan --manifold "SPD(2)" --radius 1 -n 100 -e 1\nSPD(2), radius 2\n...\n', "here")
    with pytest.raises(AssertionError):
        run_commands("$ geodp mean nothing.csv --manifold SPD(2) --radius 1 -e 1\n", "here")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != DOCS / "index.md"], ids=lambda page: str(page.relative_to(DOCS))
)
def test_every_page_says_first_what_its_reader_can_do_after_it(page: Path) -> None:
    title, first = page.read_text().split("\n\n")[:2]
    assert title.startswith("# ")
    assert re.match(r"After (reading )?this page you ", first)


# ---------------------------------------------------------------------- what people are told agrees


@pytest.mark.parametrize("name", [name for name in geodp.__all__ if not name.startswith("__")])
def test_every_public_name_has_an_example(name: str) -> None:
    # that it runs is checked by the doctests of the suite
    assert ">>> " in textwrap.dedent(getattr(geodp, name).__doc__ or "")


def test_every_public_name_is_on_an_api_page() -> None:
    pages = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    missing = [name for name in geodp.__all__ if not name.startswith("__") and not re.search(rf"geodp\.{name}\b", pages)]
    assert not missing


def command_names() -> set[str]:
    single = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    return single | {str(group.name) for group in app.registered_groups}


def test_readme_news_and_site_name_every_command() -> None:
    assert {"demo", "mean", "plan", "check", "layouts", "budget", "audit"} <= command_names()
    table = (DOCS / "api" / "command_line.md").read_text()
    news = re.sub(r"\s+", " ", (ROOT / "NEWS.md").read_text())
    for name in command_names():
        assert f"`geodp {name}" in table, name
        assert re.search(rf"[`| ]{name}[`| ]", news), name


def test_readme_and_site_name_every_manifold_and_news_every_public_name() -> None:
    readme, news = (ROOT / "README.md").read_text(), (ROOT / "NEWS.md").read_text()
    for name in geodp.__all__:
        value = getattr(geodp, name)
        if isinstance(value, type) and issubclass(value, geodp.Manifold) and value is not geodp.Manifold:
            assert f"`{name}(" in readme, name
        if not name.startswith("__") and name not in ("MeanResult", "MeanResults", "Plan", "Release", "AuditResult", "Manifold"):
            assert re.search(rf"`{name}\b", news), name


def test_the_explorer_offers_manifolds_whose_names_python_reads() -> None:
    sys.path.insert(0, str(DOCS / "extensions"))
    try:
        explorer = pytest.importorskip("explorer", reason="the site needs its generator: pip install '.[docs]'")
    finally:
        sys.path.pop(0)
    from geodp.files import parse_manifold

    assert all(parse_manifold(repr(manifold)) == manifold for manifold in explorer.MANIFOLDS)
    # the interpolation: a function with a kink near the middle is refused until the pieces are short
    fitted = explorer.fit(lambda x: np.array([np.sin(3.0 * x), np.exp(x)]), -1.0, 2.0)
    x = np.linspace(-1.0, 2.0, 301)
    for i, wanted in enumerate((np.sin(3.0 * x), np.exp(x))):
        pieces = np.clip(np.searchsorted(fitted["edges"], x) - 1, 0, len(fitted["coefficients"]) - 1)
        low, high = np.array(fitted["edges"])[pieces], np.array(fitted["edges"])[pieces + 1]
        t = (2.0 * x - low - high) / (high - low)
        found = [np.polynomial.chebyshev.chebval(a, fitted["coefficients"][piece][i]) for a, piece in zip(t, pieces, strict=True)]
        assert np.abs(found - wanted).max() < 1e-7


def test_the_extra_for_the_site_is_declared() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(line.startswith("sphinx") for line in extras["docs"])


def test_every_picture_of_a_page_is_drawn_by_code_and_every_guide_ends_with_one() -> None:
    drawn = set(re.findall(r'IMAGES / "([\w.]+)"|_finish\(figure, axes, "([\w.]+)"[,)]', (DOCS / "pictures.py").read_text()))
    names = {first or second for first, second in drawn}
    assert names == {picture.name for picture in (DOCS / "images").iterdir()}
    shown = {Path(target).name for page in PAGES for target in re.findall(r"!\[[^]]*\]\(([^)]*images/[^)]*)\)", page.read_text())}
    assert shown == names
    for guide in (DOCS / "guides").glob("*.md"):
        assert guide.read_text().rstrip().splitlines()[-1].startswith("!["), guide.name
