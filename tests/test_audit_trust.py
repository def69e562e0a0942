"""The page docs/trust.md says what its results say, and the results are what the library promises."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from broken import BATTERY, SECRETS, TWINS
from cases import MANIFOLDS

from geodp.privacy.cost import GaussianCost

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def trust() -> ModuleType:
    spec = importlib.util.spec_from_file_location("trust", DOCS / "trust.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
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
    published = {row["manifold"] for row in rows}
    assert published <= set(map(repr, MANIFOLDS))  # one added since then is audited by tests/test_audit.py until the next time
    assert len(published) >= 32
    complete = {(m, e, p) for m in published for e in (0.1, 1.0, 5.0) for p in ("float", "exact")}
    assert {(row["manifold"], row["epsilon"], row["path"]) for row in rows} == complete
    assert all(row["consistent"] and row["epsilon_lower"] <= row["epsilon"] for row in rows)


def test_the_published_battery_convicts_the_faulty_ones_only(found: dict[str, Any]) -> None:
    rows = found["battery"]["rows"]
    assert [row["fault"] for row in rows if row["faulty"]] == [case.fault for case in (*BATTERY, *TWINS, *SECRETS)]
    assert all(row["consistent"] != row["faulty"] for row in rows)


def test_the_independent_auditors_acquit_every_mechanism_and_convict_each_with_too_little_noise(
    trust: ModuleType, found: dict[str, Any]
) -> None:
    rows = found["independent"]["rows"]
    names = [(mechanism.name, str(mechanism.privacy), faulty) for mechanism in trust.EXAMINED for faulty in (False, True)]
    assert [(row["mechanism"], row["claim"], row["faulty"]) for row in rows] == names
    for row in rows:
        assert any(opinion["convicts"] for opinion in row["opinions"]) == row["faulty"], row


@pytest.mark.slow
@pytest.mark.parametrize("shift", [1.0, 2.0])
def test_independent_auditors_tell_a_normal_law_that_keeps_its_curve_from_one_that_does_not(shift: float) -> None:
    """Claimed is mu = 1; false-alarm rate 1% an auditor. Outputs are on a grid: floats added to noise betray their sum."""
    pytest.importorskip("sklearn")
    from auditors import opinions

    rng, curve = np.random.default_rng(1), GaussianCost(1.0).delta_at

    def drawn(center: float, scale: float = 1.0) -> np.ndarray:
        return np.round((scale * rng.normal(size=(3000, 2)) + np.array([center, 0.0])) * 2.0**20) / 2.0**20

    said = opinions(drawn(0.0), drawn(shift), drawn(0.0, shift), curve, 1.0, curve(1.0))
    assert {opinion.auditor for opinion in said} >= {"classifier", "hockey stick", "two samples"}
    assert all(opinion.convicts == (shift > 1.0) for opinion in said), said


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
        "independent",
        "attacks",
        "fuzz",
    }
