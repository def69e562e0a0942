"""The published JSON Schema against receipts of every kind: it takes them, describes every field, and refuses wrong ones."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

jsonschema = pytest.importorskip("jsonschema", reason="the validator is not installed: pip install jsonschema")

from kinds import BALL, MADE, X  # noqa: E402

from geodp import Ledger, private_mean  # noqa: E402
from geodp.data import release_schema  # noqa: E402
from geodp.noise.intrinsic import IntrinsicMechanism  # noqa: E402
from geodp.noise.tangent import TangentMechanism  # noqa: E402
from geodp.request import Statistic  # noqa: E402

SCHEMA = release_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture(scope="module")
def receipts() -> dict[str, dict[str, Any]]:
    return {name: json.loads(make().to_json()) for name, make in MADE.items()}


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", MADE)
def test_every_kind_of_release_is_valid(name: str, receipts: dict[str, dict[str, Any]]) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(receipts[name])] == []


def test_a_charged_release_is_valid(tmp_path: Any) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("cohort", epsilon=1)
    stored = json.loads(private_mean(X, BALL, epsilon=0.5, ledger=ledger, dataset="cohort").to_json())
    VALIDATOR.validate(stored)
    assert not VALIDATOR.is_valid(stored | {"charge": None})


def test_the_schema_knows_every_kind_and_every_mechanism(receipts: dict[str, dict[str, Any]]) -> None:
    kinds = set(SCHEMA["properties"]["summary"]["enum"])
    assert kinds == {name for name, kind in Statistic.known.items() if kind.__module__.startswith("geodp.")} | {"groups"}
    names = {f"{kind.adjective} {law}" for kind in (IntrinsicMechanism, TangentMechanism) for law in ("Laplace", "Gaussian")}
    assert set(SCHEMA["$defs"]["mean"]["properties"]["mechanism"]["enum"]) == names
    # a count is part of other releases only, and these are steps of programs
    steps = {"cluster sums"}
    assert {receipt["summary"] for receipt in receipts.values()} | {"count"} | steps == kinds


def parts(receipt: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects that a receipt is made of, and the definitions that describe them."""
    yield receipt["summary"], receipt
    for part in ("count", "coverage"):
        if isinstance(receipt.get(part), dict):
            yield from parts(receipt[part])
    for group in receipt.get("groups", []):
        yield from parts(group["release"])
    for step in receipt.get("releases", []):
        yield from parts(step)


@pytest.mark.parametrize("name", MADE)
def test_every_field_is_described(name: str, receipts: dict[str, dict[str, Any]]) -> None:
    for definition, stored in parts(receipts[name]):
        assert set(stored) <= set(SCHEMA["$defs"][definition]["properties"]), definition


@pytest.mark.parametrize("name", MADE)
def test_no_required_field_may_be_missing(name: str, receipts: dict[str, dict[str, Any]]) -> None:
    definition, stored = next(parts(receipts[name]))
    asked = [field for field in ("epsilon", "delta", "rho", "mu") if field in stored]
    for field in [*SCHEMA["$defs"][definition]["required"], *asked]:
        assert not VALIDATOR.is_valid({key: value for key, value in stored.items() if key != field}), field


def changed(receipt: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copied: Any = copy.deepcopy(receipt)
    inner = copied
    *way, last = path.split("/")
    for step in way:
        inner = inner[int(step) if isinstance(inner, list) else step]
    inner[last] = value
    return dict(copied)


WRONG: list[tuple[str, str, Any]] = [
    ("mean", "summary", "median"),
    ("mean", "epsilon", -1.0),
    ("mean", "epsilon", "1"),
    ("mean", "rho", 0.1),
    ("mean", "notion", "zero-concentrated differential privacy"),
    ("mean", "delta", 1e-6),  # the notion says pure
    ("mean, tangent", "delta", 1.0),
    ("mean", "cost/kind", "free"),
    ("mean", "cost/bound", 0.0),
    ("mean", "cost/spends/advantage", 1.5),
    ("mean", "cost/spends/rho", -0.1),
    ("mean", "n", None),
    ("mean", "n", 1.5),
    ("mean", "bound", None),
    ("mean", "radius", None),
    ("mean", "center", None),
    ("mean", "value", [["1", "0"], ["0", "1"]]),
    ("mean", "value", None),
    ("mean", "private", False),
    ("mean", "grid", None),
    ("mean", "mechanism", "Riemannian Cauchy"),
    ("mean", "error/0.95", -1.0),
    ("mean", "dataset", "cohort"),
    ("mean", "draws", [["1"]]),
    ("mean", "draws", []),
    ("mean", "request/privacy", {"epsilon": 1.0, "rho": 0.1}),
    ("mean", "request/statistic/kind", "variance"),
    ("mean", "request/statistic/bound", "blunt"),
    ("mean", "request/statistic/ball/radius", -1.0),
    ("mean", "request/law", "cauchy"),
    ("mean", "request/more", 1.0),
    ("mean", "manifold", ""),
    ("mean", "neighbours", "a\nb"),
    ("mean, simulated", "private", True),
    ("mean, simulated", "numerics", "exact"),
    ("mean, private number and coverage", "count/epsilon", 0.0),
    ("mean, private number and coverage", "count/summary", "coverage"),
    ("mean, private number and coverage", "coverage_share", 0.7),
    ("mean, private number and coverage", "cost/parts/0/dim", 0),
    ("coverage", "bound", "sharp"),
    ("summary", "radius", 1.0),
    ("projected mean", "draws", "x"),
    ("ball", "radius", 0.0),
    ("ball", "steps", []),
    ("ball", "request/statistic/then", {"sigma": 1.0}),
    ("ball, private number", "count", "47"),
    ("groups", "groups", []),
    ("groups", "groups/0/name", None),
    ("groups", "groups/1/release/scale", 0.0),
]


@pytest.mark.parametrize(("name", "path", "value"), WRONG, ids=lambda part: str(part)[:40])
def test_a_wrong_field_is_refused(name: str, path: str, value: Any, receipts: dict[str, dict[str, Any]]) -> None:
    assert VALIDATOR.is_valid(receipts[name])
    assert not VALIDATOR.is_valid(changed(receipts[name], path, value))


@pytest.mark.parametrize("other", [[], "mean", 3, None, {}, {"summary": "mean"}, {"geodp": "0.1.0"}])
def test_what_is_no_receipt_is_refused(other: Any) -> None:
    assert not VALIDATOR.is_valid(other)
