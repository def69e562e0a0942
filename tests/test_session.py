"""A session is the ``private_*`` functions with one data set and one budget, and shows what was released.

Releases draw from the operating system's entropy; what is checked holds for every draw.
"""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import geodp
from geodp import SPD, Ball, Dataset, Ledger, Session, Sphere
from geodp.privacy.ledger import BudgetExhausted, LedgerError
from geodp.programs.ball import BallRelease
from geodp.receipt import receipt_from_json

NORTH = Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5)


def directions(n: int = 600, seed: int = 0) -> Any:
    steps = 0.1 * np.random.default_rng(seed).normal(size=(n, 2))
    return Sphere(2).exp([0.0, 0.0, 1.0], Sphere(2).tangent([0.0, 0.0, 1.0], steps))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path}/budget.db")


def test_every_release_is_charged_to_the_one_budget_and_what_is_left_is_exact() -> None:
    session = Session(directions(), Sphere(2), epsilon="3")
    found = session.ball(0.3)
    releases = [
        session.mean(0.5, coverage=0.1),
        session.variance(epsilon=0.2),
        session.covariance(epsilon=0.2),
        session.coverage(epsilon=0.1),
        session.average(epsilon=0.4),
        session.summary([0.0, 0.0, 1.0], sensitivity=0.01, epsilon=0.1),
    ]
    assert session.left == Decimal("1.2")
    assert [release.charge for release in (found, *releases)] == [1, 2, 3, 4, 5, 6, 7]
    assert [release.to_json() for release in session.releases] == [release.to_json() for release in (found, *releases)]
    for release in releases[:4]:
        assert release.ball is not None
        assert np.array_equal(release.ball.center, found.ball.center)
        assert release.ball.radius == found.ball.radius
    with pytest.raises(BudgetExhausted, match=r"1\.2 of 3 left"):
        session.mean(1.3)
    assert session.left == Decimal("1.2")


@pytest.mark.parametrize("name", ["mean", "variance", "covariance", "coverage"])
def test_a_release_of_a_session_is_that_of_the_function_of_the_same_name(name: str, ledger: Ledger) -> None:
    x, whose = directions(), np.repeat(np.arange(200), 3)
    session = Session(x, Sphere(2), unit=whose, ledger=ledger, dataset="study", epsilon=2)
    here = getattr(session, name)(epsilon=0.5, ball=NORTH)
    there = getattr(geodp, f"private_{name}")(x, NORTH, epsilon=0.5, unit=whose, ledger=ledger, dataset="study")
    assert (type(here), here.n, here.cost, here.scale, here.neighbours) == (
        type(there),
        there.n,
        there.cost,
        there.scale,
        there.neighbours,
    )
    assert here.neighbours == "replace one person"
    assert session.left == 1


@pytest.mark.parametrize("name", ["ball", "mean", "variance", "covariance", "coverage", "average", "kmeans"])
def test_the_signature_of_a_method_is_that_of_the_function_without_what_the_session_says(name: str) -> None:
    session = Session(directions(), Sphere(2), epsilon=1)
    own = {*inspect.signature(getattr(session, name)).parameters}
    whole = {*inspect.signature(getattr(geodp, f"private_{name}")).parameters}
    assert {"epsilon", "delta", "rho", "mu"} <= own
    assert own.isdisjoint({"x", "ledger", "dataset", "simulate", "unit", "neighbours", "by", "groups", "labels", "layout"})
    assert own - whole <= {"ball", "radius", "center"}
    assert name in dir(session)


def test_another_session_goes_on_with_the_budget_and_the_ball_of_the_ledger(ledger: Ledger) -> None:
    first = Session(directions(), Sphere(2), ledger=ledger, dataset="study", epsilon=2)
    found = first.ball(epsilon=0.5)
    again = Session(directions(), Sphere(2), ledger=ledger, dataset="study")
    assert again.left == Decimal("1.5")
    assert again.mean(epsilon=0.5).ball.radius == found.ball.radius
    assert first.left == 1
    # the same total again changes nothing, and another one is refused
    Session(directions(), Sphere(2), ledger=ledger, dataset="study", epsilon=2)
    with pytest.raises(LedgerError, match="cannot be changed"):
        Session(directions(), Sphere(2), ledger=ledger, dataset="study", epsilon=3)


def test_a_ball_on_another_manifold_is_not_taken(ledger: Ledger) -> None:
    Session(directions(), Sphere(2), ledger=ledger, dataset="study", epsilon=2).ball(epsilon=0.5)
    matrices = Session(np.tile(np.eye(2), (50, 1, 1)), SPD(2), ledger=ledger, dataset="study")
    with pytest.raises(ValueError, match="no ball was found yet"):
        matrices.variance(epsilon=0.1)


def test_a_receipt_that_geodp_did_not_write_is_listed_and_not_read(ledger: Ledger) -> None:
    session = Session(directions(), Sphere(2), ledger=ledger, dataset="study", epsilon=2)
    charge = ledger.charge("study", 0.5, what="somebody else's count")
    ledger.charge("study", 0.1, what="a crash")
    ledger.attach(charge.id, '{"count": 3}')
    assert session.releases == []
    assert "somebody else's count" in str(session)
    assert "no release is on record" in str(session)


def test_the_ball_is_for_all_groups_together_and_the_rest_is_by_group() -> None:
    session = Session(directions(), Sphere(2), by=["a", "b", "b"] * 200, epsilon=2)
    assert isinstance(session.ball(epsilon=0.5), BallRelease)
    means = session.mean(epsilon=0.5)
    assert {name: release.n for name, release in means.items()} == {"a": 200, "b": 400}
    assert session.left == 1
    assert isinstance(session.releases[1], geodp.GroupedRelease)


@pytest.mark.parametrize(
    ("who", "neighbours"),
    [
        ({}, "replace one record"),
        ({"unit": np.repeat(np.arange(200), 3)}, "replace one person"),
        ({"neighbours": "add-remove"}, "add, remove or replace one record"),
        (
            {"neighbours": "add-remove", "by": ["a", "b", "b"] * 200, "groups": ["a", "b"], "labels": "private"},
            "add or remove one record",
        ),
        ({"by": ["a", "b", "b"] * 200, "groups": ["a", "b"], "labels": "private"}, "replace one record"),
    ],
)
def test_the_budget_is_opened_for_the_neighbours_of_the_data_and_takes_all_their_releases(
    who: dict[str, Any], neighbours: str
) -> None:
    session = Session(directions(), Sphere(2), epsilon=4, **who)
    assert session.budget.neighbours == neighbours
    session.ball(epsilon=1.0)
    session.mean(epsilon=1.0)
    session.coverage(epsilon=1.0)
    session.summary([0.0, 0.0, 1.0], sensitivity=0.01, epsilon=1.0)
    assert session.left == 0


def test_a_private_number_of_records_is_not_told_and_plans_ask_for_another() -> None:
    session = Session(directions(617), Sphere(2), neighbours="add-remove", epsilon=1)
    assert session.n is None
    with pytest.raises(ValueError, match="private here"):
        session.plan(epsilon=1.0, ball=NORTH)
    assert "n = 500" in str(session.plan(epsilon=1.0, ball=NORTH, n=500))
    assert "617" not in f"{session}{session!r}{session._repr_html_()}"


def test_plans_use_the_public_number_and_spend_nothing() -> None:
    session = Session(directions(), Sphere(2), unit=np.repeat(np.arange(200), 3), epsilon=1)
    plan, chain = session.plan(epsilon=1.0, ball=NORTH), session.plan(epsilon=1.0, spread=0.2)
    assert isinstance(plan, geodp.Plan)
    assert isinstance(chain, geodp.ChainPlan)
    assert plan.expected_error == geodp.plan(NORTH, 200, epsilon=1.0).expected_error
    assert chain.expected_error == geodp.plan_chain(Sphere(2), 200, epsilon=1.0, spread=0.2).expected_error
    assert session.left == 1


def test_files_are_read_and_answers_are_in_their_layout(tmp_path: Path) -> None:
    file = tmp_path / "places.csv"
    steps = np.random.default_rng(0).normal(size=(300, 2))
    file.write_text("id,lat,lon\n" + "".join(f"{i // 3},{50 + a:.3f},{10 + b:.3f}\n" for i, (a, b) in enumerate(steps)))
    session = Session.read(file, Sphere(2), unit="id", epsilon=2)
    assert session.n == 100
    assert " km" in str(session.plan(epsilon=1.0, ball=Ball(Sphere(2), [1.0, 0.0, 0.0], 1.0)))
    assert re.search(r"lat \S+, lon", str(session.mean(epsilon=1.0, ball=Ball(Sphere(2), [1.0, 0.0, 0.0], 1.0))))
    assert re.search(r"lat \S+, lon", str(session))
    by_name = Session(str(file), Sphere(2), unit="id", epsilon=2)
    assert by_name.n == 100


def test_without_a_ledger_the_budget_is_deleted_with_the_session() -> None:
    session = Session(directions(), Sphere(2), epsilon=1)
    folder = Path(repr(session.ledger).removeprefix("<Ledger ").removesuffix(">")).parent
    assert (folder / "budget.db").exists()
    assert session.mean(epsilon=0.5, ball=NORTH).dataset == "this session only"
    del session
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_session_is_not_copied(duplicate: Any) -> None:
    # a copy of a session without a ledger would have its budget twice, and one in a file the records
    with pytest.raises(TypeError, match="holds private records"):
        duplicate(Session(directions(), Sphere(2), epsilon=1))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda x, m: Session(x, m), "needs a budget"),
        (lambda x, m: Session(x, "Sphere(2)", epsilon=1), "must be a Manifold"),
        (lambda x, m: Session(x, m, dataset="study", epsilon=1), "go together"),
        (lambda x, m: Session(x, m, ledger="budget.db", dataset="study"), "must be a Ledger"),
        (lambda x, m: Session(x, m, epsilon=1).variance(epsilon=1), "no ball was found yet"),
        (lambda x, m: Session(x, m, epsilon=1).ball(1.0, center=[0.0, 0.0, 1.0]), "give both or neither"),
        (lambda x, m: Session(np.tile(np.eye(2), (9, 1, 1)), SPD(2), epsilon=1).ball(1.0), "start from a wide ball.*radius=30"),
        (lambda x, m: Session(x, m, units=[1] * len(x), epsilon=1), "Session has no option 'units': did you mean unit"),
        (lambda x, m: Session(x, m, epsilon=1).mean(epsilom=1, ball=NORTH), "has no option 'epsilom': did you mean epsilon"),
        (lambda x, m: Session(x, m, epsilon=1).plan(epsilom=1, ball=NORTH), "has no option 'epsilom': did you mean epsilon"),
        (lambda x, m: Session(Dataset(x), m, unit=[1] * len(x), epsilon=1), "leave out unit"),
    ],
)
def test_mistakes_are_answered_by_a_sentence(wrong: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        wrong(directions(), Sphere(2))


def test_no_record_is_shown(tmp_path: Path) -> None:
    # the digits of one record that no release can have: the ball leaves it outside
    x = directions()
    x[7] = [0.6123724356957945, 0.6123724356957945, -0.5]
    session = Session(x, Sphere(2), epsilon=3)
    session.mean(epsilon=1.0, ball=NORTH, coverage=0.1)
    shown = f"{session}{session!r}{session._repr_html_()}"
    assert "0.61237" not in shown
    assert session.plot()._repr_png_()[1:4] == b"PNG"


def test_notebooks_show_the_budget_and_the_releases_as_tables() -> None:
    session = Session(directions(), Sphere(2), epsilon=3)
    session.ball(epsilon=0.5)
    session.mean(epsilon=0.5)
    html = session._repr_html_()
    assert html.count("<table>") == 2
    assert html.count("<tr>") == 4 + 1 + 2
    assert "mean on Sphere(2)" in html
    assert "epsilon 1 of 3" in html


def test_a_mean_finds_a_ball_if_there_is_none_and_later_releases_are_in_it(ledger: Ledger) -> None:
    x = SPD(2).exp(np.eye(2), SPD(2).tangent(np.eye(2), 0.3 * np.random.default_rng(1).normal(size=(4000, 3))))
    session = Session(x, SPD(2), ledger=ledger, dataset="study", epsilon=3)
    first = session.mean(epsilon=1.0)
    (charge,) = ledger.history("study")
    assert ledger.spent("study") == 1
    assert receipt_from_json(str(charge.receipt)) == first
    later = session.mean(epsilon=1.0)
    assert later.ball == first.steps[0].ball == session.variance(epsilon=0.5).ball
    assert first.coverage is not None
    assert later.coverage is not None, "nobody knows whether a ball that was found holds the records"
    named = session.mean(epsilon=0.4, ball=Ball(SPD(2), np.eye(2), 2.0))
    assert named.coverage is None
    # another session goes on in the same ball
    again = Session(x, SPD(2), ledger=ledger, dataset="study")
    assert again.coverage(epsilon=0.1).ball == first.steps[0].ball
    assert str(first.value[0, 0])[:4] in str(session).partition("charge 2")[0]
