"""The estimators behave as scikit-learn expects wherever that does not contradict privacy."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import every_manifold, random_points

sklearn = pytest.importorskip("sklearn", reason="the estimator needs the extra geodp[sklearn]")

from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

from geodp import SPD, Ball, BudgetExhausted, Euclidean, Ledger, Manifold, Product, Release, Rotations, Sphere  # noqa: E402
from geodp.estimator import (  # noqa: E402
    PrivateFrechetMean,
    PrivateKMeans,
    PrivateMDM,
    PrivateTangentSpace,
    private_cross_val_score,
)
from geodp.estimator.fits import Fits  # noqa: E402
from geodp.estimator.validation import _dealt, _members  # noqa: E402
from geodp.privacy.cost import PureCost  # noqa: E402

#: Checks of scikit-learn that contradict something the library must do.
NOT_APPLICABLE = {
    "check_estimators_nan_inf": "values never raise: a record that is no point counts as the centre",
    "check_dtype_object": "an array of objects is refused by its dtype, without looking at the values",
    "check_complex_data": "complex numbers are refused as a TypeError, as everywhere in the library",
    "check_estimators_empty_data_messages": "no columns make no manifold, which is said in other words",
    "check_array_api_input": "NumPy arrays only",
    "check_clustering": "labels of the records that a fit protects are not kept",
}


# With so large an epsilon the noise is 1e-12: what scikit-learn compares between two fits agrees to its tolerance.
def conforms(*kinds: Any) -> Any:
    if not hasattr(estimator_checks, "estimator_checks_generator"):
        return pytest.mark.skip("this scikit-learn is too old to be told which checks do not apply")
    return estimator_checks.parametrize_with_checks(
        [made(radius=1e3, epsilon=1e15, transform_private_records=True) for made in kinds],
        expected_failed_checks=lambda _: NOT_APPLICABLE,
    )


# the checks fit again and again, some of them with a seed
refitted = pytest.mark.filterwarnings("ignore:with this fit the estimator", "ignore:random_state seeds the noise")


@pytest.mark.slow
@refitted
@conforms(PrivateTangentSpace, PrivateKMeans)
def test_scikit_learn_is_content_with_the_others(estimator: Any, check: Any) -> None:
    check(estimator)


@refitted
@conforms(PrivateFrechetMean, PrivateMDM)
def test_scikit_learn_is_content(estimator: Any, check: Any) -> None:
    check(estimator)


def flat_records(manifold: Manifold, size: int = 80) -> np.ndarray:
    return random_points(manifold, size, np.random.default_rng(0), 0.4).reshape(size, -1)


@pytest.mark.parametrize("manifold", [Sphere(2), SPD(2), SPD(3), Rotations(3), Product(Sphere(2), Euclidean(3))], ids=repr)
@pytest.mark.parametrize("flat", [True, False], ids=["flat", "shaped"])
@pytest.mark.parametrize("as_text", [True, False], ids=["text", "manifold"])
def test_the_location_is_a_private_mean_of_records_flat_or_shaped(manifold: Manifold, flat: bool, as_text: bool) -> None:
    x = flat_records(manifold)
    x = x if flat else x.reshape(-1, *manifold.point_shape)
    model = PrivateFrechetMean(repr(manifold) if as_text else manifold, radius=0.5, epsilon=20.0)
    assert model.fit(x) is model
    assert model.location_.shape == manifold.point_shape
    assert manifold.check_point(model.location_) is None
    assert isinstance(model.receipt_, Release)
    assert model.receipt_.private
    assert (model.receipt_.epsilon, model.receipt_.n, model.receipt_.manifold) == (20.0, 80, manifold)
    np.testing.assert_array_equal(model.receipt_.value, model.location_)
    assert model.receipt_.ball == Ball(manifold, manifold.origin, 0.5)
    assert model.n_features_in_ == np.prod(manifold.point_shape)
    # 50 times the expected error is passed less than once in 10^9 runs
    assert manifold.dist(manifold.origin, model.location_) < 0.5 + 50.0 * model.receipt_.expected_error()


@every_manifold
def test_transform_gives_normal_coordinates_about_the_location(manifold: Manifold) -> None:
    radius = 0.3 * min(1.0, Ball(manifold, manifold.origin, 1e-3).max_radius)
    x = random_points(manifold, 30, np.random.default_rng(1), 0.9 * radius)
    model = PrivateFrechetMean(manifold, radius=radius, epsilon=50.0).fit(x)
    coordinates = model.transform(x.reshape(30, -1))
    assert coordinates.shape == (30, manifold.dim)
    lengths = np.linalg.vector_norm(coordinates, axis=-1)
    np.testing.assert_allclose(lengths, manifold.dist(model.location_, x), rtol=1e-7, atol=1e-9)


def test_records_that_are_no_points_count_as_the_center() -> None:
    x = np.tile([0.0, 0.0, 1.0], (40, 1))
    x[::4] = np.nan
    model = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=5.0).fit(x)
    assert model.receipt_.n == 40
    coordinates = model.transform(x)
    np.testing.assert_allclose(coordinates[0], coordinates[1], atol=1e-12)


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp == 1024, reason="long doubles are doubles here")
def test_numbers_past_the_floats_are_records_like_any_other() -> None:
    """A warning of their conversion would tell that there is one; warnings are errors in these tests."""
    x = np.tile(np.array([0.0, 0.0, 1.0], dtype=np.longdouble), (40, 1))
    x[3] = np.longdouble("1e4000")
    model = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=5.0).fit(x)
    np.testing.assert_allclose(model.transform(x)[3], model.transform(x)[0], atol=1e-12)
    ball = model.receipt_.ball
    assert ball.contains(x).sum() == 39
    np.testing.assert_array_equal(ball.clip(x)[3], ball.center)


def test_the_docstring_says_what_is_private_and_by_which_theorem() -> None:
    text = PrivateFrechetMean.__doc__ or ""
    for word in ("*Public*", "*Private*", "*Neighbours*", "Theorem", "replacing one row"):
        assert word in text


def test_every_fit_draws_anew() -> None:
    model, x = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=1.0), flat_records(Sphere(2))
    first = model.fit(x).location_.copy()
    with pytest.warns(UserWarning, match="2 releases without a ledger"):
        model.fit(x)
    assert not np.array_equal(first, model.location_)


def test_parameters_can_be_read_set_and_cloned() -> None:
    model = PrivateFrechetMean(SPD(2), center=np.eye(2), radius=0.7, epsilon=2.0)
    assert model.get_params().keys() == {
        "manifold", "center", "radius", "find", "epsilon", "delta", "rho", "mu", "mechanism", "law", "ledger", "dataset",
        "anyway", "layout", "random_state", "transform_private_records",
    }  # fmt: skip
    other = clone(model)
    assert (other.manifold, other.radius, other.epsilon) == (SPD(2), 0.7, 2.0)
    assert not hasattr(other, "location_")
    other.set_params(epsilon=3.0, manifold="SPD(2)")
    assert other.fit(flat_records(SPD(2))).receipt_.epsilon == 3.0
    assert model.epsilon == 2.0
    again = pickle.loads(pickle.dumps(other))
    np.testing.assert_array_equal(again.location_, other.location_)
    with pytest.raises(ValueError, match="epsilonn"):
        model.set_params(epsilonn=3.0)


def test_it_takes_its_place_in_a_pipeline() -> None:
    angles = np.random.default_rng(2).normal(0.0, 0.1, size=(60, 2))
    to_sphere = FunctionTransformer(lambda a: np.column_stack([np.sin(a), np.sqrt(1.0 - (np.sin(a) ** 2).sum(axis=1))]))
    model = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=50.0)
    pipeline = make_pipeline(to_sphere, model).fit(angles)
    assert pipeline[-1].receipt_.n == 60
    for refused in (make_pipeline(to_sphere, model).fit_transform, make_pipeline(to_sphere, model, FunctionTransformer()).fit):
        with pytest.raises(ValueError, match="returns the private records in other coordinates, which no noise hides: call fit"):
            refused(angles)
    asked = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=50.0, transform_private_records=True)
    pipeline = make_pipeline(to_sphere, asked, FunctionTransformer())
    assert pipeline.fit_transform(angles).shape == (60, 2)
    with pytest.warns(UserWarning, match="2 releases without a ledger"):
        clone(pipeline).fit(angles)


@pytest.mark.parametrize("flag", [False, None, 0, "yes", 1])
def test_a_refused_transformation_fits_nothing_and_spends_nothing(flag: Any, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("d", 2)
    model = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=1.0, ledger=ledger, dataset="d", transform_private_records=flag)
    with pytest.raises(ValueError, match="fit_transform returns the private records"):
        model.fit_transform(flat_records(Sphere(2)))
    assert ledger.spent("d") == 0
    assert not hasattr(model, "location_")


def test_what_is_no_release_is_said_where_it_is_used() -> None:
    for method in (PrivateFrechetMean.transform, PrivateFrechetMean.fit_transform):
        assert "private data" in (method.__doc__ or "")


def score(model: PrivateFrechetMean, x: np.ndarray, y: object = None) -> float:
    return -float(np.linalg.vector_norm(model.location_))


def test_with_a_ledger_a_cross_validation_is_counted_and_stopped(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("d", 7)
    model = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=1.0, ledger=ledger, dataset="d")
    x = flat_records(Sphere(2))
    cross_val_score(model, x, scoring=score, cv=5)
    assert len(ledger.history("d")) == 5
    with pytest.raises(ValueError, match="0 of 7 left"):
        GridSearchCV(model, {"radius": [0.4, 0.5]}, scoring=score, cv=2, error_score="raise").fit(x)
    assert ledger.remaining("d") == 0


@pytest.mark.parametrize(
    ("given", "total"),
    [
        ({"epsilon": 0.5}, "epsilon 1,"),
        ({"rho": 0.1}, r"epsilon \d\S* at delta 1e-06,"),
        ({"epsilon": 1.0, "delta": 1e-7}, r"epsilon \d"),
        ({"epsilon": 1.0, "delta": 1e-4}, r"epsilon \d"),
    ],
)
def test_without_a_ledger_fits_warn_what_they_add_up_to_whenever_their_number_doubles(
    given: dict[str, float], total: str
) -> None:
    x = flat_records(Sphere(2))
    model = PrivateFrechetMean("Sphere(2)", radius=0.5, **given)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        cross_val_score(model, x, scoring=score, cv=4)
        clone(clone(model)).fit(x)
    second, fourth = (str(warning.message) for warning in warned)
    assert re.search(f"2 releases without a ledger: if they share records, together they spend up to {total}", second)
    assert "4 releases without a ledger" in fourth
    assert "inf" not in second + fourth
    assert "\n" not in second
    # another estimator has a count of its own
    PrivateFrechetMean("Sphere(2)", radius=0.5, **given).fit(x)


def test_fits_in_other_processes_are_counted_with_the_others() -> None:
    x = flat_records(Sphere(2))
    model = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=0.25)
    with warnings.catch_warnings():  # of the workers
        warnings.simplefilter("ignore")
        cross_val_score(model, x, scoring=score, cv=7, n_jobs=2)
    with pytest.warns(UserWarning, match="made 8 releases without a ledger: .* up to epsilon 2,"):
        model.fit(x)


def test_the_file_that_counts_is_removed_with_the_estimator() -> None:
    model = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=1.0).fit(flat_records(Sphere(2)))
    sent = pickle.loads(pickle.dumps(model))
    path = model.fits._path
    assert path is not None
    assert path.exists()
    assert set(json.loads(path.read_text())) == set(model.cost_.to_dict())
    del model
    gc.collect()
    assert not path.exists()
    with pytest.warns(UserWarning, match="made 2 releases"):  # it still knows of the one before
        sent.fit(flat_records(Sphere(2)))


@pytest.mark.parametrize("made", [PrivateFrechetMean, PrivateTangentSpace, PrivateMDM, PrivateKMeans])
def test_without_an_amount_of_privacy_nothing_is_fitted(made: Any) -> None:
    with pytest.raises(ValueError, match="give the privacy to spend: exactly one of epsilon, epsilon and delta, rho, or mu"):
        made().fit(flat_records(SPD(2)).reshape(-1, 2, 2), np.arange(80) % 2)


@pytest.mark.parametrize("seed", [7, np.random.RandomState(7), np.random.default_rng(7)], ids=["int", "old", "new"])
def test_a_seed_makes_a_fit_reproducible_and_not_private_and_charges_nothing(seed: Any, tmp_path: Path) -> None:
    x = flat_records(Sphere(2))
    found = []
    for state in (copy.deepcopy(seed), copy.deepcopy(seed)):
        model = PrivateFrechetMean("Sphere(2)", radius=0.5, find=0.2, epsilon=5.0, random_state=state)
        with pytest.warns(UserWarning, match="random_state seeds the noise, so this fit is NOT PRIVATE"):
            found.append(model.fit(x).location_)
        assert not any(release.private for release in model.releases_)
        assert "NOT PRIVATE" in str(model.receipt_)
    np.testing.assert_array_equal(*found)
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("d", 5)
    model.set_params(ledger=ledger, dataset="d")
    with (
        pytest.warns(UserWarning, match="NOT PRIVATE"),
        pytest.raises(ValueError, match="a simulation is not private and spends no budget"),
    ):
        model.fit(x)
    assert ledger.spent("d") == 0


def test_where_warnings_are_errors_the_second_fit_is_not_made() -> None:
    x, model = flat_records(Sphere(2)), PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=1.0)
    first = model.fit(x).location_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="without a ledger"):
            model.fit(x)
    assert model.location_ is first


def test_the_count_goes_with_a_pickle_and_holds_no_records() -> None:
    x, model = flat_records(Sphere(2)), PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=1.0)
    sent = pickle.loads(pickle.dumps(model.fit(x)))
    with pytest.warns(UserWarning, match="2 releases without a ledger"):
        sent.fit(x)


def test_the_ledger_is_charged_for_every_fit(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("d", 2)
    model = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=1.0, ledger=ledger, dataset="d")
    x = flat_records(Sphere(2))
    assert model.fit(x).fit(x).receipt_.dataset == "d"
    with pytest.raises(ValueError, match="0 of 2 left"):
        model.fit(x)
    assert len(ledger.history("d")) == 2


BAD: list[tuple[dict[str, Any], Any, str]] = [
    ({"manifold": "Sphere(2)"}, np.zeros((5, 4)), "4 features, but PrivateFrechetMean is expecting 3"),
    ({"manifold": "Sfere(2)"}, np.zeros((5, 3)), "there is no manifold 'Sfere'"),
    ({"manifold": "Sphere(2)", "epsilon": 0.0}, np.zeros((5, 3)), "epsilon must be positive"),
    ({"manifold": "Sphere(2)", "radius": 2.0}, np.zeros((5, 3)), "the radius is 2.0 but must be below"),
    ({"manifold": "Sphere(2)", "center": [0.0, 1.0, 1.0], "radius": 0.5}, np.zeros((5, 3)), "the center"),
    ({}, np.zeros(5), "Reshape your data"),
    ({}, np.zeros((0, 3)), "must be at least 1 but is 0"),
]


@pytest.mark.parametrize(("given", "x", "sentence"), BAD, ids=[sentence for *_, sentence in BAD])
def test_bad_public_input_is_a_sentence(given: dict[str, Any], x: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        PrivateFrechetMean(**{"epsilon": 1.0, **given}).fit(x)


def test_nothing_can_be_transformed_before_a_fit() -> None:
    with pytest.raises(NotFittedError):
        PrivateFrechetMean("Sphere(2)").transform(flat_records(Sphere(2)))


# ---------------------------------------------------------------------- cross-validation as a whole


def classes_of(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) % 2
    steps = SPD(2).tangent(np.eye(2), 0.2 * np.random.default_rng(1).normal(size=(n, 3)))
    return np.where(y == 0, 1.0, 5.0)[:, None, None] * SPD(2).exp(np.eye(2), steps), y


@pytest.mark.parametrize(
    ("given", "total"),
    [
        ({"epsilon": 0.7}, {"epsilon": "2.1"}),
        ({"rho": 0.01}, {"rho": "0.03"}),
        ({"epsilon": 0.7, "delta": 1e-7}, {"epsilon": "2.1", "delta": "3e-7"}),
    ],
    ids=str,
)
def test_a_cross_validation_is_one_charge_of_all_folds_but_one(
    given: dict[str, float], total: dict[str, str], tmp_path: Path
) -> None:
    ledger, (x, y) = Ledger(f"sqlite:///{tmp_path}/budget.db"), classes_of()
    ledger.open("d", **total)
    model = PrivateMDM(radius=3.0, **given, ledger=ledger, dataset="d")
    assert private_cross_val_score(model, x, y, folds=4).shape == (4,)
    (charge,) = ledger.history("d")
    assert charge.what == "cross-validation, 4 fits: mean on SPD(2)"
    assert charge.neighbours == "replace one record, which keeps its group"
    assert not hasattr(model, "means_")


def test_a_fit_that_can_say_nothing_is_refused_before_the_charge_and_never_after_it(tmp_path: Path) -> None:
    ledger, (x, y) = Ledger(f"sqlite:///{tmp_path}/budget.db"), classes_of()
    ledger.open("d", epsilon=1)
    model = PrivateMDM(radius=3.0, epsilon=0.01, ledger=ledger, dataset="d")
    with pytest.raises(ValueError, match="nothing was released or charged"):
        model.fit(x, y)
    assert ledger.spent("d") == 0
    assert private_cross_val_score(model, x, y, folds=4).shape == (4,)
    assert clone(model).set_params(anyway=True).fit(x, y).cost_.epsilon == 0.01


@pytest.mark.parametrize("more", [{}, {"grid": {"radius": [2.0, 3.0]}}], ids=["alone", "grid"])
def test_a_cross_validation_that_the_budget_does_not_hold_makes_no_fit(more: dict[str, Any], tmp_path: Path) -> None:
    ledger, (x, y) = Ledger(f"sqlite:///{tmp_path}/budget.db"), classes_of()
    ledger.open("d", epsilon="3.9" if not more else "7.9")
    model = PrivateMDM(radius=3.0, epsilon=1.0, ledger=ledger, dataset="d")
    with pytest.raises(BudgetExhausted):
        private_cross_val_score(model, x, y, folds=5, **more)
    assert ledger.spent("d") == 0
    ledger.open("e", epsilon=8)
    scores = private_cross_val_score(model.set_params(dataset="e"), x, y, folds=5, n_jobs=2, **more)
    assert scores.shape == ((2, 5) if more else (5,))
    assert scores.mean() > 0.9


def test_every_record_of_a_person_is_in_the_same_fold_and_classes_are_dealt_evenly() -> None:
    persons = np.repeat(np.arange(40), 3)
    fold = _dealt(_members(persons, persons, persons), 4, None)
    assert len({(person, i) for person, i in zip(persons, fold, strict=True)}) == 40
    assert np.bincount(fold).tolist() == [30] * 4
    y = np.array(["a"] * 20 + ["b"] * 60)
    fold = _dealt(np.arange(80), 4, y)
    assert np.bincount(fold[y == "a"]).tolist() == [5] * 4
    # records without a person are persons of their own
    assert len(set(_members(persons, [None] * 120, persons))) == 120


def test_which_fold_a_record_is_in_says_nothing_of_its_place() -> None:
    """Each of ten records is in the first of two folds in half of 400 deals: off by 6 deviations in one of 10^8 runs."""
    inside = sum((_dealt(np.arange(10), 2, None) == 0).astype(int) for _ in range(400))
    assert np.abs(inside - 200).max() < 60
    # a deal by place, such as that of scikit-learn's KFold without shuffling, would be seen
    assert np.abs(400 * (np.arange(10) % 2 == 0) - 200).max() > 60


def test_a_cross_validation_of_private_numbers_or_of_different_amounts_of_privacy_is_refused() -> None:
    x, y = classes_of()
    model = PrivateMDM(radius=3.0, epsilon=1.0, labels="private", classes=[0, 1], neighbours="add-remove")
    with pytest.raises(ValueError, match="only if neighbours are 'replace'"):
        private_cross_val_score(model, x, y)
    with pytest.raises(ValueError, match="epsilon must be the same for all fits of a cross-validation"):
        private_cross_val_score(PrivateMDM(radius=3.0), x, y, grid={"epsilon": [0.1, 1.0]})
    with pytest.raises(ValueError, match="the number of folds must be at least 2 but is 1"):
        private_cross_val_score(model, x, y, folds=1)


def test_no_more_fits_are_made_than_were_paid_for() -> None:
    fits = Fits(paid=2)
    for _ in range(2):
        fits.check(PureCost(1.0))
        fits.add(PureCost(1.0))
    with pytest.raises(ValueError, match="2 fits were paid for beforehand, and all of them are made"):
        pickle.loads(pickle.dumps(fits)).check(PureCost(1.0))
