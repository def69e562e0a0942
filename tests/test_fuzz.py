"""Random input to every entrance of the library: a short run here, a long one behind ``slow``. See :mod:`fuzz`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fuzz
import hypothesis.strategies as st
import numpy as np
import pytest

import geodp
from geodp import Release, private_mean
from geodp.files.writing import write_whole

#: In the normal suite, and behind the marker. ``docs/trust.py`` runs a hundred thousand.
SHORT, LONG = 500, 8_000

every_surface = pytest.mark.parametrize("surface", fuzz.SURFACES)


@every_surface
def test_nothing_breaks_on_random_input(surface: str) -> None:
    cases = fuzz.shares(SHORT, list(fuzz.SURFACES))[surface]
    report = fuzz.run(surface, cases, start=1)
    assert report.failures == []
    assert report.cases >= cases


def fuzzed_alone(surface: str, cases: int, start: int) -> dict[str, Any]:
    """What ``python -m tests.fuzz`` prints.

    Hypothesis tries the constants of all modules that happen to be imported, so within the tests the cases would depend on which
    tests ran before. In a process of its own the same command shows a failure again.
    """
    command = [sys.executable, "-m", "tests.fuzz", "--cases", str(cases), "--seed", str(start), "--json", "--surface", surface]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
@every_surface
def test_nothing_breaks_on_much_random_input(surface: str) -> None:
    """Another seed than the short run's."""
    cases = fuzz.shares(LONG, list(fuzz.SURFACES))[surface]
    report = fuzzed_alone(surface, cases, start=2)
    assert report["failures"] == []
    assert report["cases"] >= cases


def test_all_shares_together_are_what_was_asked_for() -> None:
    assert sum(fuzz.shares(100_000, list(fuzz.SURFACES)).values()) >= 100_000


# ---------------------------------------------------------------------- the fuzzer finds what it looks for


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def warning() -> None:
    warnings.warn("a record", stacklevel=1)


@pytest.mark.parametrize(
    ("action", "what"),
    [
        (raising(KeyError("x")), "an uncaught KeyError"),
        (raising(ZeroDivisionError()), "an uncaught ZeroDivisionError"),
        (raising(ValueError("two\nlines")), "no single sentence"),
        (raising(ValueError("")), "no single sentence"),
        (raising(ValueError("the record 0.8675309 is wrong")), "digits of a record"),
        (raising(OSError("8675309")), "digits of a record"),
        (warning, "a warning"),
    ],
)
def test_what_must_not_happen_is_noticed(action: Callable[[], None], what: str) -> None:
    with pytest.raises(fuzz.Broken, match=what):
        fuzz.attempt(action)


def test_a_refusal_in_one_sentence_is_no_failure() -> None:
    assert fuzz.attempt(raising(TypeError("x must hold real numbers"))).refusal == "TypeError: x must hold real numbers"
    assert fuzz.attempt(lambda: 7).value == 7


def endless() -> None:
    with fuzz.no_hang():
        try:
            while True:
                pass
        except Exception:  # as code under test may have it
            pytest.fail("a hang was swallowed")


@pytest.mark.slow
def test_a_hang_is_stopped_and_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "PATIENCE", 1)
    with pytest.raises(fuzz.Broken, match="took more than 1 s"):
        endless()


def test_a_broken_surface_is_reported_with_its_smallest_case(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(case: int) -> None:
        if case >= 100:
            raise fuzz.Broken("too large")

    monkeypatch.setitem(fuzz.SURFACES, "planted", fuzz.Surface(st.integers(0, 10**6), check, 1))
    report = fuzz.run("planted", 200)
    assert report.failures
    assert "too large in the case 100" in report.failures[0]


@pytest.mark.slow
def test_a_release_that_tells_how_many_records_are_invalid_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receipt that depends on the records is found even if it quotes none of them."""

    def talkative(x: Any, *given: Any, **named: Any) -> Release:
        release = private_mean(x, *given, **named)
        numbers = x if isinstance(x, np.ndarray) and x.dtype.kind == "f" else np.zeros(1)
        return replace(release, version=f"0.{np.isnan(numbers).sum()}")

    monkeypatch.setattr(fuzz, "private_mean", talkative)
    failures = fuzz.run("releases", 200).failures
    assert any("what is said depends on the records" in failure for failure in failures)


@pytest.mark.slow
def test_a_mask_that_is_ignored_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "private_mean", lambda x, *given, **named: private_mean(np.ma.getdata(x), *given, **named))
    monkeypatch.setattr(fuzz, "CONTAINERS", ["masked", "plain"])  # of all kinds, one case in a hundred would be of use here
    failures = fuzz.run("releases", 200).failures
    assert any("a mask was ignored" in failure for failure in failures)


@pytest.mark.slow
def test_a_reader_that_unpickles_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(path: Path, *_: object, **__: object) -> None:
        try:
            np.load(path, allow_pickle=True)
        except Exception:
            raise ValueError("no file") from None
        raise ValueError("some file")

    monkeypatch.setattr(fuzz, "read_records", careless)
    failures = fuzz.run("files", 400).failures
    assert any("an object was unpickled" in failure for failure in failures)


# ---------------------------------------------------------------------- all of the surface


def test_every_command_and_every_option_is_fuzzed_with_values_made_for_it() -> None:
    for path, command in fuzz.COMMANDS.items():
        for parameter in command.params:
            known = parameter.is_eager or getattr(parameter, "is_flag", False) or parameter.name in fuzz.OPTION_VALUES
            assert known, f"{' '.join(path)} has an option {parameter.name} that fuzz.OPTION_VALUES does not know"


def test_every_public_name_is_fuzzed() -> None:
    """By its own name in the fuzzer, or as one of the manifolds."""
    text = Path(fuzz.__file__).read_text()
    kinds = {name for manifold in fuzz.MANIFOLDS for name in re.findall(r"[A-Za-z]+(?=\()", repr(manifold))}
    # audits and the reader for Dask are fuzzed through their commands; results are returned and exceptions raised, not called
    elsewhere = {"__version__", "MeanResult", "MeanResults", "Plan", "AuditResult", "audit", "read_dask"}
    elsewhere |= {
        name for name in geodp.__all__ if isinstance(kind := getattr(geodp, name), type) and issubclass(kind, Exception)
    }
    assert set(geodp.__all__) - kinds - elsewhere - set(re.findall(r"\w+", text)) == set()


@pytest.mark.slow
def test_the_entry_point_prints_what_programs_read() -> None:
    report = fuzzed_alone("manifold texts", 40, start=3)
    assert report["cases"] == sum(report["surfaces"].values()) >= 40
    assert set(report["surfaces"]) == {"manifold texts"}
    assert report["failures"] == []


# ---------------------------------------------------------------------- files are whole or not there


@pytest.mark.parametrize("before", [None, "the old bytes"])
def test_a_file_that_cannot_be_written_whole_is_left_as_it_was(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk turns out to be full when the bytes are to reach it."""
    out = tmp_path / "out.json"
    if before is not None:
        out.write_text(before)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(out, b"0123456789")
    assert (out.read_text() if out.exists() else None) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == (["out.json"] if before else [])


# ---------------------------------------------------------------------- the list of invariants


def test_every_invariant_names_a_test_that_exists() -> None:
    """docs/invariants.md says what must hold; each line names what checks it."""
    folder = Path(__file__).parent
    lines = [line for line in (folder.parent / "docs" / "invariants.md").read_text().splitlines() if line.startswith("- ")]
    assert len(lines) > 20
    for line in lines:
        named = re.findall(r"`(tests/\w+\.py)(?:::(\w+))?`", line)
        assert named, line
        for file, test in named:
            text = (folder.parent / file).read_text()
            assert not test or re.search(rf"^def {test}\(", text, re.MULTILINE), f"{file} has no {test}"
