"""What a review with fresh eyes refuted, each as a test that failed on the code it was found in."""

from __future__ import annotations

import json
import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from cases import every_manifold, random_points

import geodp
from geodp import (
    SPD,
    Ball,
    Dataset,
    Euclidean,
    Hyperbolic,
    Ledger,
    LedgerError,
    Manifold,
    Product,
    Release,
    Rotations,
    Sphere,
    private_mean,
    private_summary,
)
from geodp.inputs import Array
from geodp.noise import exact
from geodp.noise.choice import SensitivityBound, choose
from geodp.noise.intrinsic import why_not_drawable
from geodp.privacy.cost import ConcentratedCost, GaussianCost, LaplaceCost, PureCost, SumCost
from geodp.privacy.notions import PureDP
from geodp.records.labels import key_of
from geodp.request import Request
from geodp.statistics.counts import NormalCoordinates
from geodp.statistics.mean import Mean


def test_two_arrays_that_stand_for_one_rotation_get_the_same_noise() -> None:
    """Arrays a millionth off the group stand for the rotation next to them; the sampler took another one, 1e-6 away."""
    off = np.zeros((3, 3))
    off[0, 1] = off[1, 0] = 4.9e-7
    first, second = np.eye(3) + off, np.eye(3) - off
    assert Rotations(3).dist(first, second) == 0.0
    values = [
        [private_summary(x, Rotations(3), sensitivity=1e-8, epsilon=1.0).value[1, 0] for _ in range(40)] for x in (first, second)
    ]
    # by the sign of one entry they were told apart every time; now a difference this large has a chance of 2^-30
    assert abs(np.mean(np.array(values[0]) > 0.0) - np.mean(np.array(values[1]) > 0.0)) < 0.9


@pytest.mark.parametrize("distance", [1.5, 355.6])
def test_a_value_outside_the_claimed_ball_is_refused_and_never_moved_to_its_centre(distance: float, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    value = [math.cosh(distance), math.sinh(distance), 0.0]
    with pytest.raises(ValueError, match=r"not within 1 of the base point, as was claimed"):
        private_summary(
            value, Hyperbolic(2), sensitivity=0.1, epsilon=0.5, delta=1e-6, radius=1.0, ledger=ledger, dataset="study"
        )
    assert ledger.spent("study") == 0


def test_a_matrix_that_is_positive_definite_in_floats_only_is_refused_before_the_charge(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    manifold = SPD(2)
    while True:  # a matrix of condition 1e16 that passes a Cholesky factorisation in floats and has a negative determinant
        a, b = rng.uniform(1.0, 2.0, 2)
        matrix = np.array([[a, b], [b, np.nextafter(b * b / a, rng.choice([0.0, 4.0]))]])
        exact = Fraction(matrix[0, 0]) * Fraction(matrix[1, 1]) - Fraction(b) ** 2
        if exact <= 0 and manifold.valid(matrix):
            break
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    with pytest.raises(ValueError, match=r"the value is not a point of SPD\(2\)"):
        private_summary(matrix, manifold, sensitivity=0.1, epsilon=0.5, ledger=ledger, dataset="study")
    assert ledger.spent("study") == 0


EDITS: list[dict[str, Any]] = [
    {"cost": {"kind": "sum", "parts": []}},
    {"cost": {"kind": "pure", "bound": 1e-9}},
    {"cost": {"kind": "pure", "bound": -3.0}},
    {"epsilon": 0.01, "cost": {"kind": "pure", "bound": 0.01}},
    {"sensitivity": 1e-9},
    {"scale": 1e-6},
    {"n": 10},
]


@pytest.mark.parametrize("edit", EDITS, ids=str)
@pytest.mark.parametrize("given", [{"epsilon": 1.0}, {"rho": 0.1}, {"epsilon": 1.0, "mechanism": "tangent"}], ids=str)
def test_a_receipt_that_contradicts_itself_does_not_load(edit: dict[str, Any], given: dict[str, Any]) -> None:
    release = private_mean(np.tile(np.eye(3), (500, 1, 1)), Ball(SPD(3), np.eye(3), 1.0), **given)
    stored = json.loads(release.to_json())
    assert Release.from_json(json.dumps(stored)).cost == release.cost
    with pytest.raises(ValueError, match="this is not the JSON text of a release"):
        Release.from_json(json.dumps(stored | edit))


def test_a_cost_of_nothing_or_less_is_no_cost_and_no_charge(tmp_path: Path) -> None:
    for make in (
        lambda: PureCost(-1.0),
        lambda: GaussianCost(0.0),
        lambda: LaplaceCost(math.nan, 3),
        lambda: LaplaceCost(1.0, 0),
    ):
        with pytest.raises(ValueError, match="must be positive and finite"):
            make()
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    with pytest.raises(LedgerError, match="must spend something"):
        ledger.charge("study", rho=0.1, cost=SumCost(()), what="nothing")
    assert ledger.spent("study") == 0
    assert ledger.history("study") == []


def test_trade_offs_are_rounded_down_and_rhos_up() -> None:
    rng = np.random.default_rng(0)
    for epsilon, alpha in zip(rng.uniform(0.01, 4.0, 300), rng.uniform(0.0, 1.0, 300), strict=True):
        true = max(1 - Fraction(math.exp(epsilon)) * Fraction(alpha), Fraction(math.exp(-epsilon)) * (1 - Fraction(alpha)), 0)
        assert Fraction(PureCost(float(epsilon)).tradeoff(float(alpha))) <= true + Fraction(1, 10**16)
    assert PureCost(1e-170).rho > 0.0
    assert math.isinf(GaussianCost(1e200).rho)
    assert LaplaceCost(1e300, 3).rho == 1e300
    assert LaplaceCost(1e300, 3).delta_at(1.0) == 1.0
    assert ConcentratedCost(1e-3).tradeoff(0.5) < 0.5


def test_a_claim_about_other_neighbours_is_not_charged_to_a_budget_about_these(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    with pytest.raises(geodp.LedgerError, match="neighbours"):
        private_summary(
            np.eye(2), SPD(2), sensitivity=0.1, epsilon=0.5, neighbours="add or remove one record", ledger=ledger, dataset="study"
        )
    assert ledger.spent("study") == 0


def test_linear_algebra_that_gives_up_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object) -> None:
        raise np.linalg.LinAlgError("record 8675309 is singular")

    monkeypatch.setattr("geodp.statistics.mean.Mean.compute", give_up)
    with pytest.raises(RuntimeError, match="LinAlgError") as caught:
        private_mean(np.tile(np.eye(2), (50, 1, 1)), Ball(SPD(2), np.eye(2), 1.0), epsilon=1.0)
    assert "8675309" not in str(caught.value)


# estimators, sessions, clusters and reading


def test_public_labels_do_not_tell_who_came_or_went() -> None:
    """``classes_`` was taken from the labels of persons whose presence was said to be private."""
    from geodp.estimator import PrivateMDM

    x, y = np.tile(np.eye(2), (20, 1, 1)), np.arange(20) % 2
    for unit_in in ("one group", "all groups"):
        model = PrivateMDM(radius=1.0, epsilon=1.0, labels="public", neighbours="add-remove", unit_in=unit_in)
        with pytest.raises(ValueError, match="make labels private"):
            model.fit(x, y, unit=np.arange(20) // 2)
        assert not hasattr(model, "classes_")


@pytest.mark.parametrize("value", [2**53, 2**53 + 1, 2**62 + 1])
def test_a_whole_number_that_arrow_would_not_round_makes_no_release_fail(value: int) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Arrow is an extra: pip install 'geodp[parquet]'")
    table = arrow.table({"a": arrow.array([1] * 19 + [value], arrow.int64()), "b": [1.0] * 20})
    ball = Ball(geodp.Euclidean(2), [0.0, 0.0], 2.0)
    assert private_mean(table, ball, epsilon=1.0).n == 20


SECRETS = ["flu 8675309", "none"] * 10


@pytest.mark.parametrize("option", ["labels", "neighbours", "mechanism", "law", "bound", "layout"])
def test_a_private_list_given_for_another_argument_is_not_quoted(option: str) -> None:
    options: Any = {option: SECRETS}
    with pytest.raises((ValueError, TypeError)) as caught:
        private_mean(np.tile(np.eye(2), (20, 1, 1)), Ball(SPD(2), np.eye(2), 1.0), epsilon=1.0, **options)
    assert "8675309" not in str(caught.value)


def test_no_option_takes_a_summary_past_the_budget_of_its_session() -> None:
    session = geodp.Session(np.tile(np.eye(2), (20, 1, 1)), SPD(2), epsilon=1)
    with pytest.raises(TypeError, match="multiple values"):
        session.summary(np.eye(2), sensitivity=0.1, epsilon=50.0, ledger=None, dataset=None)
    assert session.left == 1


def test_a_part_of_a_request_is_not_released_without_its_noisy_count() -> None:
    asked: Any = {"epsilon": 9.0, "neighbours": "add-remove"}
    x, mean = np.tile(np.eye(2), (20, 1, 1)), Mean(Ball(SPD(2), np.eye(2), 1.0))
    assert Request(mean, **asked).release(x, neighbours="add-remove").count is not None
    for switch in ({"is_part": True}, {"group": True}):
        with pytest.raises(ValueError, match="a part of a request is not released by itself"):
            Request(mean, **asked, **switch).release(x, neighbours="add-remove")


def test_a_process_that_was_forked_does_not_delete_the_budget_of_a_session(tmp_path: Path) -> None:
    from geodp.session import _remove

    session = geodp.Session(np.tile(np.eye(2), (20, 1, 1)), SPD(2), epsilon=1)
    folder = tmp_path / "budget"
    folder.mkdir()
    _remove(str(folder), process=-1)  # as in a child, whose number is another one
    assert folder.exists()
    _remove(str(folder), process=os.getpid())
    assert not folder.exists()
    assert session.left == 1


def test_clusters_far_from_the_origin_are_found_and_the_search_for_centres_ends() -> None:
    """Times in milliseconds: no float is within a thousandth of the centre, and the loop went on for ever, after the charge."""
    from geodp.programs.kmeans import private_kmeans

    ball = Ball(geodp.Euclidean(1), [1.7e12], 1e10)
    assert private_kmeans(np.full((50, 1), 1.7e12), ball, 2, epsilon=1.0).centers.shape == (2, 1)


def test_records_at_the_only_centre_are_counted() -> None:
    from geodp.programs.kmeans import private_kmeans

    found = private_kmeans(np.zeros((10_000, 1)), Ball(geodp.Euclidean(1), [0.0], 1.0), 1, epsilon=10.0, rounds=1)
    assert abs(found.counts[0] - 10_000) < 100  # noise of a few records


def test_a_text_with_an_odd_kind_is_no_receipt() -> None:
    from geodp.receipt import receipt_from_json

    with pytest.raises(ValueError, match="not the JSON text of a release"):
        receipt_from_json('{"geodp": "1", "summary": []}')


def test_parts_of_a_planned_privacy_fit_into_a_budget_of_just_that() -> None:
    from decimal import Decimal

    for epsilon in (0.55, 1.0, 1.3, 2.7):
        chain = geodp.plan_chain(geodp.Sphere(2), n=5000, epsilon=epsilon, spread=0.3)
        parts = [chain.search.privacy.epsilon, chain.mean.privacy.epsilon]
        assert sum(Decimal(repr(part)) for part in parts) <= Decimal(repr(epsilon))


@pytest.mark.parametrize("distance", [0.0, 30.0])
def test_draws_on_the_hyperbolic_line_start_with_enough_digits_wherever_the_centre_is(distance: float) -> None:
    """Its volume does not grow, but its coordinates do: at this scale a third of the draws were repeated."""
    line, center = Hyperbolic(1), [math.cosh(distance), math.sinh(distance)]
    enough = exact.starting_precision(line, 89.0)
    used = [exact.sample(line, 89.0, center, entropy=exact.NotPrivate(i)).precision for i in range(40)]
    assert set(used) == {enough}


def test_one_lucky_trial_does_not_make_noise_drawable() -> None:
    """One of the first two thousand trials was accepted, and then one in 25,000."""
    sentence = "takes thousands of trials a draw"
    assert sentence in (why_not_drawable(Product(Euclidean(5), Sphere(2)), 75.0, "laplace") or "")
    assert why_not_drawable(Product(Euclidean(5), Sphere(2)), 0.75, "laplace") is None


def test_noise_that_goes_too_far_for_floats_is_a_refusal_and_leaves_other_mechanisms() -> None:
    space = Product(Hyperbolic(2), Euclidean(1400))
    assert "too far for floats" in (why_not_drawable(space, 0.89, "laplace") or "")
    hidden = SensitivityBound(space, 0.89, Ball(space, space.origin, 1.0), 0.95)
    assert choose(hidden, PureDP(1.0), "auto", "laplace").kind == "tangent"


@pytest.mark.parametrize("word", ["dense", "sparse", "bfloat16"])
def test_no_label_that_looks_like_a_kind_of_array_is_refused(word: str) -> None:
    """The text of a method quotes the object that it belongs to, and that of a category its values."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")

    class Labels(pandas.Series):
        @property
        def _constructor(self) -> Any:
            return Labels

        def layout(self) -> int:
            return 0

    x, ball = np.zeros((4, 2)), Ball(Euclidean(2), [0.0, 0.0], 1.0)
    for unit in (Labels([word, "a", "b", "c"]), polars.Series([word, "a", "b", "c"], dtype=polars.Enum([word, "a", "b", "c"]))):
        assert private_mean(x, ball, epsilon=1.0, unit=unit).private


# ---------------------------------------------------------------------- labels of many kinds


@pytest.mark.parametrize(
    ("most", "last", "other"),
    [(np.ones(20), 1.0, "x"), (np.ones(20, dtype=bool), True, "x"), (np.full(20, 2**53 + 1), 5, 5.0), (np.ones(20), 1.0, None)],
    ids=["text among floats", "text among truth values", "a float among long numbers", "nothing among floats"],
)
def test_one_label_does_not_change_those_of_other_chunks(most: np.ndarray, last: Any, other: Any) -> None:
    """One array of all chunks turned 2,000 labels 1.0 into texts '1.0' for one that was a text: all left their group."""
    groups = [int(most[0]), 5]

    def sizes(label: Any) -> int:
        data = Dataset(np.zeros((21, 1)), by=lambda: iter([most, np.array([label])]), groups=groups, labels="private")
        return len(data.open(Euclidean(1)).groups()[groups[0]])

    assert abs(sizes(last) - sizes(other)) <= 1


@pytest.mark.parametrize("x", [[], (), lambda: iter([])], ids=["list", "tuple", "reader"])
def test_no_records_at_all_are_refused_only_if_their_number_is_public(x: Any) -> None:
    ball = Ball(Euclidean(2), np.zeros(2), 1.0)
    hidden = private_mean(x, ball, 1.0, neighbours="add-remove")
    assert hidden.count is not None
    by = private_mean(x, ball, 1.0, neighbours="add-remove", by=lambda: iter([]), groups=["a"], labels="private")
    assert list(by) == ["a"]
    with pytest.raises(ValueError, match=r"at least (1|one)"):
        private_mean(x, ball, 1.0)


class Odd(np.float64):
    def __float__(self) -> float:
        raise ArithmeticError("a label")

    is_integer = None


class Liar:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("a label")


@pytest.mark.parametrize(
    "made",
    [lambda: np.timedelta64(1, "D"), lambda: np.timedelta64("NaT"), lambda: Odd(1.0), Liar, lambda: UUID.__new__(UUID)],
    ids=["days", "no days", "a number that raises", "no class", "half an identifier"],
)
def test_no_label_makes_a_release_fail(made: Any) -> None:
    """A duration is a whole number to NumPy, and no whole number to Python: one of them stopped the release."""
    label, labels = made(), np.array(["u", "v", None], dtype=object)
    labels[2] = label
    ball = Ball(Euclidean(1), np.zeros(1), 1.0)
    assert isinstance(key_of(label), str)
    private_mean(np.zeros((3, 1)), ball, 1.0, by=labels, groups=["u", "v"], labels="private")
    private_mean(np.zeros((3, 1)), ball, 1.0, unit=labels, neighbours="add-remove")


@every_manifold
def test_what_is_computed_of_a_record_does_not_depend_on_where_it_stands(manifold: Manifold) -> None:
    """A matrix product rounded the last of an odd number of compositions by one bit: too much for the sensitivity of counts."""
    ball = Ball(manifold, manifold.origin, 0.4 * min(1.0, Ball(manifold, manifold.origin, 1e-3).max_radius))
    x = random_points(manifold, 40, np.random.default_rng(3), 1.5 * ball.radius)
    coordinates = NormalCoordinates(ball, 40)

    def computed(records: Array) -> Array:
        rows, far = coordinates(records.copy()), np.asarray(manifold.raw_dist(ball.center, records))
        return np.concatenate([rows, far[:, None]], axis=1)

    together = computed(x)
    for size in range(1, 40):
        for start in {0, 1, 40 - size}:
            if start + size <= 40:
                assert computed(x[start : start + size]).tobytes() == together[start : start + size].tobytes(), (size, start)
