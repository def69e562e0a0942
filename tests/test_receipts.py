"""Receipts as requests and draws: what can be read, what is refused, and that programs pay once for all of their steps."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import MADE

import geodp.release
from geodp import SPD, Ball, GroupedRelease, Ledger, Sphere, private_ball, private_kmeans
from geodp.privacy.cost import Cost, compose
from geodp.programs.ball import BallRelease
from geodp.receipt import Receipt, first_difference, receipt_from_json, replay

WIDE = Ball(SPD(2), np.eye(2), 8.0)
X = SPD(2).exp(np.eye(2), SPD(2).tangent(np.eye(2), np.random.default_rng(0).normal(size=(3000, 3)) * 0.2))


def entries(stored: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the numbers, texts and truths of a document are."""
    if isinstance(stored, dict | list):
        for key, value in stored.items() if isinstance(stored, dict) else enumerate(stored):
            yield from entries(value, (*path, key))
    else:
        yield path


def at(stored: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        stored = stored[key]
    return stored


def edited(stored: dict[str, Any], path: tuple[Any, ...], value: Any) -> str:
    changed = copy.deepcopy(stored)
    at(changed, path[:-1])[path[-1]] = value
    return json.dumps(changed)


def others(value: Any) -> list[Any]:
    """What may stand there instead."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, str):
        return [f"{value}x", None]
    return ["x", 1] if value is None else [2 * value + 1, None]


@pytest.mark.parametrize("kind", MADE)
def test_a_release_equals_its_copy_in_json(kind: str) -> None:
    made = MADE[kind]()
    again = type(made).from_json(made.to_json())
    assert type(again) is type(made)
    assert again == made
    assert (str(again), again.to_json()) == (str(made), made.to_json())
    assert again != MADE["mean" if kind == "summary" else "summary"]()


@pytest.mark.parametrize("kind", MADE)
def test_no_entry_of_a_receipt_can_be_edited(kind: str) -> None:
    """But the version, the data set, the charge and the names of groups, which only the ledger can vouch for.

    Some draws of a program move nothing: that of a cluster that lost all of its records, or how near the records are on the way
    to them. Another one is then no other release.
    """
    stored = json.loads(MADE[kind]().to_json())
    places = list(entries(stored))
    assert len(places) > 30
    for path in places:
        if path[0] in ("geodp", "dataset", "charge") or (path[-1] == "name" and "groups" in path):
            continue
        for value in others(at(stored, path)):
            text = edited(stored, path, value)
            if "draws" in path and value is not None and stored["summary"] in ("clusters", "ball", "median", "found"):
                with contextlib.suppress(ValueError):
                    again = json.loads(receipt_from_json(text).to_json())
                    assert first_difference(json.loads(edited(again, path, at(stored, path))), stored) is None
                continue
            with pytest.raises(ValueError, match=r"^this is not the JSON text of a release: "):
                receipt_from_json(text)


@pytest.mark.parametrize("kind", ["mean, private number and coverage", "ball", "clusters", "groups"])
def test_no_field_of_a_receipt_can_be_missing_or_added(kind: str) -> None:
    stored = json.loads(MADE[kind]().to_json())
    for field in stored:
        with pytest.raises(ValueError, match=r"^this is not the JSON text of a release: "):
            receipt_from_json(json.dumps({name: value for name, value in stored.items() if name != field}))
    for inside in ((), ("request",), ("request", "statistic"), ("request", "privacy"), ("cost",)):
        with pytest.raises(ValueError, match=r"^this is not the JSON text of a release: "):
            receipt_from_json(edited(stored, (*inside, "more"), 1.0))


def test_a_version_and_a_charge_may_be_any_that_there_can_be(tmp_path: Path) -> None:
    stored = json.loads(MADE["mean"]().to_json())
    assert receipt_from_json(json.dumps(stored | {"geodp": "0.0.9"})).version == "0.0.9"
    assert receipt_from_json(json.dumps(stored | {"dataset": "d", "charge": 7})).charge == 7


# ---------------------------------------------------------------------- programs


@pytest.mark.parametrize("asked", [{"epsilon": 2.0}, {"epsilon": 2.0, "delta": 1e-6}, {"rho": 0.2}, {"mu": 1.0}], ids=str)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("program", ["ball", "clusters"])
def test_a_program_charges_once_before_its_first_draw_and_pays_for_all_of_its_steps(
    program: str, neighbours: str, asked: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    draw, charge = geodp.release._draw, Ledger.charge

    def drawn(plan: Any, *more: Any) -> Any:
        events.append(plan.noise.cost)
        return draw(plan, *more)

    def charged(*given: Any, **more: Any) -> Any:
        events.append("charge")
        return charge(*given, **more)

    monkeypatch.setattr(geodp.release, "_draw", drawn)
    monkeypatch.setattr(Ledger, "charge", charged)
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    kind = "replace one record" if neighbours == "replace" else "add, remove or replace one record"
    ledger.open("d", **asked, neighbours=kind)
    options: dict[str, Any] = {**asked, "neighbours": neighbours, "ledger": ledger, "dataset": "d"}
    ball = Ball(SPD(2), np.eye(2), 1.0)
    found: Any = private_ball(X, WIDE, **options) if program == "ball" else private_kmeans(X, ball, 2, **options)
    assert events[0] == "charge"
    assert events.count("charge") == 1
    costs: list[Cost] = events[1:]
    assert len(costs) == len(found.draws) > (neighbours == "add-remove") + 1
    together = compose(costs)
    assert found.cost.meets(found.privacy)
    if together.meets(found.privacy):  # otherwise the parts of the privacy add up to it by themselves, and it is the cost
        assert together.rho <= found.cost.rho * (1.0 + 1e-9)
        assert together.epsilon <= found.cost.epsilon * (1.0 + 1e-9)
    else:
        assert "delta" in asked
    if neighbours == "replace" and program == "clusters":  # a search declares a total; otherwise it holds for every number
        assert found.cost.rho == pytest.approx(together.rho, rel=1e-9)
    with pytest.raises(geodp.BudgetExhausted):
        private_ball(X, WIDE, **options)
    assert events.count("charge") <= 2
    assert len(events) - events.count("charge") == len(found.draws), "nothing was drawn after a refusal"


def test_a_program_that_draws_more_than_it_says_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the test above: the cost of the steps that were drawn exceeds the cost on the receipt."""
    found = private_ball(X, WIDE, epsilon=2.0, simulate=np.random.default_rng(1))
    steps = [step.cost for step in found.search.steps]
    assert compose([*steps, steps[0]]).epsilon > found.cost.epsilon * (1.0 + 1e-9)


@pytest.mark.parametrize(("start", "x"), [(WIDE, X), (Sphere(2), np.random.default_rng(1).normal([0, 0, 3.0], 0.3, (3000, 3)))])
def test_draws_that_are_exchanged_are_refused_or_lead_to_another_ball(start: Any, x: Any) -> None:
    x = x if start is WIDE else x / np.linalg.vector_norm(x, axis=-1, keepdims=True)
    first, second = (private_ball(x, start, epsilon=1.0) for _ in range(2))
    one, two = (json.loads(each.to_json()) for each in (first, second))
    with pytest.raises(
        ValueError, match=r"its [a-z ]+ does not follow from the rest|its draws must be such as its noise can make"
    ):
        receipt_from_json(json.dumps(one | {"draws": two["draws"]}))
    # with all that follows from them it is the other receipt, and nothing of the first one is left
    follows = ("center", "radius", "in_units", "draws", "steps", "n")
    assert receipt_from_json(json.dumps(one | {name: two[name] for name in follows if name in two})) == second
    same = 0
    for i in range(min(len(first.draws), len(second.draws))):
        mixed = [*first.draws[:i], second.draws[i], *first.draws[i + 1 :]]
        with contextlib.suppress(ValueError):  # a later draw may be off the grid that follows from an earlier one
            same += replay(first.request, first.n, mixed, exact=True) == first.ball
    assert same <= len(first.draws) // 2, "some draws move nothing, but not most of them"
    for draws in (one["draws"][:-1], [*one["draws"], one["draws"][-1]], []):
        with pytest.raises(ValueError, match="this is not the JSON text of a release"):
            BallRelease.from_json(json.dumps(one | {"draws": draws}))


def test_a_receipt_is_its_request_its_number_and_its_draws() -> None:
    """Whoever has these three has everything: the other fields only say where it was charged and how it is written."""
    for kind in ("mean", "variance", "covariance", "ball", "clusters", "projected mean"):
        made = MADE[kind]()
        again = type(made)(made.request, made.n, made.draws)
        assert again == made
    own = {field.name for field in dataclasses.fields(Receipt)} - {"made"}
    assert own == {"request", "n", "draws", "simulated", "dataset", "charge", "written", "version"}
    assert {field.name for field in dataclasses.fields(GroupedRelease)} == {"request", "releases", "dataset", "charge", "version"}
