"""The page docs/trust.md says what its results say, and the results are what the library promises."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from broken import BATTERY
from cases import MANIFOLDS

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def trust() -> ModuleType:
    spec = importlib.util.spec_from_file_location("trust", DOCS / "trust.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return json.loads((DOCS / "trust.json").read_text())


def test_the_page_is_made_from_the_stored_results(trust: ModuleType, found: dict[str, Any]) -> None:
    assert (DOCS / "trust.md").read_text() == trust.page(found)
    assert "{{" not in trust.page(found)


def test_the_published_audits_have_power(found: dict[str, Any]) -> None:
    rows = found["power"]["rows"]
    assert {(row["manifold"], row["path"]) for row in rows} == {
        (m, p) for m in ("Sphere(2)", "SPD(2)") for p in ("float", "exact")
    }
    assert all(0.8 <= row["epsilon_lower"] <= row["epsilon"] == 1.0 for row in rows)


def test_the_published_grid_is_complete_and_acquits(found: dict[str, Any]) -> None:
    rows = found["simulator"]["rows"] + found["exact"]["rows"]
    complete = {(repr(m), e, p) for m in MANIFOLDS for e in (0.1, 1.0, 5.0) for p in ("float", "exact")}
    assert {(row["manifold"], row["epsilon"], row["path"]) for row in rows} == complete
    assert all(row["consistent"] and row["epsilon_lower"] <= row["epsilon"] for row in rows)


def test_the_published_battery_convicts_the_faulty_ones_only(found: dict[str, Any]) -> None:
    rows = found["battery"]["rows"]
    assert [row["fault"] for row in rows if row["faulty"]] == [case.fault for case in BATTERY]
    assert all(row["consistent"] != row["faulty"] for row in rows)


def test_the_published_attacks_and_fuzz_cases_found_nothing(found: dict[str, Any]) -> None:
    assert all(row["failures"] == row["errors"] == 0 < row["tests"] for row in found["attacks"]["rows"])
    assert found["fuzz"]["cases"] >= 100_000
    assert found["fuzz"]["failures"] == []


@pytest.mark.slow
def test_the_page_can_be_made_again(tmp_path: Path) -> None:
    command = [sys.executable, DOCS / "trust.py", "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, timeout=7200)
    assert "{{" not in (tmp_path / "trust.md").read_text()
    assert json.loads((tmp_path / "trust.json").read_text()).keys() == {
        "power",
        "simulator",
        "exact",
        "battery",
        "attacks",
        "fuzz",
    }
