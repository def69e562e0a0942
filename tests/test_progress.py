"""Bars in terminals and notebooks: they come, tell what is public, and go. Nothing is random."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.progress import Progress

from geodp import Ball, Sphere, audit, frechet_mean, private_mean
from geodp.progress import progress_bar

BALL = Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5)


def test_the_bar_shows_the_records_of_the_first_pass_and_not_how_many_passes_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Progress] = []

    class Seen(Progress):
        def __init__(self, *columns: Any, **options: Any) -> None:
            super().__init__(*columns, **options)
            bars.append(self)

    monkeypatch.setattr("rich.progress.Progress", Seen)
    monkeypatch.setattr("rich.console.Console.is_terminal", True)

    def shown(passes: int) -> list[list[tuple[str, float]]]:
        with progress_bar("mean") as progress:
            seen = []
            for iteration in range(1, passes + 1):
                for done in (40, 100):
                    progress(iteration, done, 100)
                    seen.append([(task.description, task.completed) for task in bars[-1].tasks if task.visible])
        return seen

    once, often = shown(1), shown(4)
    assert once[0] == [("mean: 40", 40)]
    assert len(once[-1]) == 1
    assert often == once + [once[-1]] * 6


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the output of a cell of a notebook showed, one after the other."""
    shown: list[str] = []

    def display(html: str, display_id: bool) -> Any:
        assert display_id
        shown.append(html)
        return SimpleNamespace(update=shown.append)

    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display, HTML=str))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    return shown


def test_a_notebook_shows_a_bar_without_numbers_of_records_and_clears_it(cell: list[str]) -> None:
    x = np.tile([0.0, 0.0, 1.0], (617, 1))
    frechet_mean(lambda: iter([x[:300], x[300:]]), BALL, progress=True)
    private_mean(x, BALL, epsilon=1.0, progress=True)
    assert cell.count("") == 2
    assert cell[-1] == ""
    assert "<progress" in cell[0]
    assert not any("617" in html or "300" in html for html in cell)
    cell.clear()
    audit(BALL, 100, 1.0, draws=2000, seed=1, progress=True)
    assert "audit" in cell[0]
    assert 'value="' in "".join(cell)
    assert cell[-1] == ""


def test_the_bar_of_a_notebook_goes_when_the_work_fails(cell: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), progress_bar("mean") as progress:
        progress(1, 1 // 0, 10)
    assert cell[-1] == ""


def test_without_a_terminal_or_a_notebook_nothing_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    private_mean(np.tile([0.0, 0.0, 1.0], (50, 1)), BALL, epsilon=1.0, progress=True)
    assert capfd.readouterr() == ("", "")


def test_a_log_gets_a_line_a_minute_that_depends_on_no_record(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr("geodp.progress.time.monotonic", lambda: clock[0])
    with progress_bar("mean") as progress:
        for second in range(0, 200, 5):
            clock[0] = float(second)
            progress(1 if second < 100 else 7 + second, 123456789 * second, None)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "mean: 1 min, in the first pass over the records",
        *(f"mean: {i} min, the first pass is done" for i in (2, 3)),
    ]
