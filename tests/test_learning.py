"""Private classifiers, tangent spaces and clusters: like pyRiemann's where noise is small, and as private as they say."""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import longer, random_points
from numpy.typing import NDArray

pytest.importorskip("sklearn", reason="the estimators need the extra geodp[sklearn]")

import sklearn
from cases import planned
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from geodp import SPD, Ball, Euclidean, Ledger, Manifold, Rotations, Sphere, frechet_mean
from geodp.auditing.bounds import least_epsilon
from geodp.cli import app
from geodp.estimator import PrivateFrechetMean, PrivateKMeans, PrivateMDM, PrivateTangentSpace
from geodp.inputs import Array
from geodp.noise.mechanism import Mechanism
from geodp.privacy.cost import compose
from geodp.privacy.notions import PureDP, privacy_of
from geodp.programs.ball import BallRelease
from geodp.programs.clusters import ClusterSums
from geodp.programs.kmeans import KMeansRelease, private_kmeans
from geodp.receipt import receipt_from_json
from geodp.records.dataset import Dataset
from geodp.statistics.mean import Mean

#: So much that the noise is far below every tolerance here.
ALL = 1e12
DOCS = Path(__file__).parent.parent / "docs"


def two_classes(n: int = 200, seed: int = 0) -> tuple[Array, NDArray[Any]]:
    """Covariance matrices of two kinds, far enough apart to be told."""
    rng = np.random.default_rng(seed)
    y = np.array(["calm", "loud"])[np.arange(n) % 2]
    steps = SPD(3).tangent(np.eye(3), 0.3 * rng.normal(size=(n, 6)))
    return np.where(y == "calm", 1.0, 4.0)[:, None, None] * SPD(3).exp(np.eye(3), steps), y


X, Y = two_classes()


# ---------------------------------------------------------------------- beside pyRiemann


def test_with_little_noise_the_classifier_is_that_of_pyriemann() -> None:
    classification = pytest.importorskip("pyriemann.classification", reason="pyRiemann is not installed")
    other = classification.MDM().fit(X, Y)
    model = PrivateMDM(radius=5.0, epsilon=ALL).fit(X, Y)
    new, _ = two_classes(60, seed=1)
    assert model.classes_.tolist() == other.classes_.tolist()
    np.testing.assert_allclose(model.covmeans_, other.covmeans_, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.transform(new), other.transform(new), rtol=1e-5)
    np.testing.assert_array_equal(model.predict(new), other.predict(new))
    np.testing.assert_allclose(model.predict_proba(new), other.predict_proba(new), rtol=1e-4, atol=1e-12)


def test_it_takes_the_place_of_pyriemann_in_a_pipeline_and_persons_are_passed_to_it() -> None:
    estimation = pytest.importorskip("pyriemann.estimation", reason="pyRiemann is not installed")
    rng = np.random.default_rng(3)
    y = np.arange(120) % 2
    signals = np.where(y == 0, 1.0, 3.0)[:, None, None] * rng.normal(size=(120, 3, 80))
    persons = np.arange(120) // 4 * 2 + y  # each in one class
    pipeline = make_pipeline(estimation.Covariances(), PrivateMDM(radius=4.0, epsilon=50.0))
    pipeline.fit(signals, y, privatemdm__unit=persons)
    assert pipeline[-1].releases_[0][0].n == 30
    assert pipeline.score(signals, y) > 0.95
    with sklearn.config_context(enable_metadata_routing=True):
        model = PrivateMDM(radius=4.0, epsilon=50.0).set_fit_request(unit=True)
        routed = make_pipeline(estimation.Covariances(), model).fit(signals, y, unit=persons)
        assert routed[-1].releases_[0].neighbours == "replace one person, who keeps their group"


def test_with_little_noise_tangent_vectors_are_those_of_pyriemann_in_another_basis() -> None:
    tangentspace = pytest.importorskip("pyriemann.tangentspace", reason="pyRiemann is not installed")
    other = tangentspace.TangentSpace().fit(X)
    model = PrivateTangentSpace(radius=5.0, epsilon=ALL, transform_private_records=True)
    vectors, theirs = model.fit_transform(X), other.transform(X)
    np.testing.assert_allclose(model.reference_, other.reference_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(vectors @ vectors.T, theirs @ theirs.T, atol=1e-5)
    np.testing.assert_allclose(model.inverse_transform(vectors), X, rtol=1e-9, atol=1e-9)


def test_tangent_vectors_are_not_clipped_where_there_is_no_cut_locus_and_what_is_no_point_is_zero() -> None:
    model = PrivateTangentSpace(radius=0.5, epsilon=ALL).fit(X)
    far = np.array([np.diag([1e4, 1.0, 1.0]), np.full((3, 3), np.nan)])
    vectors = model.transform(far)
    assert np.linalg.vector_norm(vectors[0]) == pytest.approx(SPD(3).dist(model.reference_, far[0]))
    assert not vectors[1].any()
    with pytest.raises(ValueError, match="fit_transform returns the private records in other coordinates"):
        model.fit_transform(X)


# ---------------------------------------------------------------------- clusters


@pytest.mark.parametrize("manifold", longer([Euclidean(2), Sphere(2), SPD(2), Rotations(3)], [Sphere(2), SPD(2)]), ids=repr)
@pytest.mark.parametrize("clusters", longer([2, 3], [3]))
def test_with_little_noise_centres_are_the_means_of_blobs_that_are_far_apart(manifold: Manifold, clusters: int) -> None:
    rng, d = np.random.default_rng(4), manifold.dim
    ball = Ball(manifold, manifold.origin, 0.9 * min(1.5, Ball(manifold, manifold.origin, 1e-3).max_radius))
    angles = 2.0 * np.pi * np.arange(clusters) / clusters
    places = 0.7 * ball.radius * np.stack([np.cos(angles), np.sin(angles)], axis=1) @ np.eye(2, d)
    means = manifold.exp(ball.center, manifold.tangent(ball.center, places))
    blobs = [manifold.exp(m, manifold.tangent(m, 0.02 * rng.normal(size=(80, d)))) for m in means]
    model = PrivateKMeans(clusters, manifold, radius=ball.radius, epsilon=ALL, rounds=25, reach=ball.radius)
    model.fit(np.concatenate(blobs))
    for blob in blobs:
        # Lloyd's rounds move by tangent means, which near a mean shrink the error by what curvature leaves
        assert manifold.dist(frechet_mean(blob, ball).point, model.cluster_centers_).min() < 1e-5
        assert len(set(model.predict(blob))) == 1
    np.testing.assert_allclose(model.counts_, 80.0, atol=1e-3)


def vectors_of(sums: ClusterSums, members: list[Array], persons: bool) -> Array:
    """What each record, or person, adds to the sums: ``(members, k, d + 1)``."""
    found = []
    for x in members:
        opened = Dataset(x, unit=np.zeros(len(x)) if persons else None).open(sums.place)
        found.append(sums.compute(opened.source, 1))
    return np.array(found)


@pytest.mark.parametrize("manifold", longer([Euclidean(1), Sphere(2), SPD(2)], [Sphere(2)]), ids=repr)
@pytest.mark.parametrize("persons", [False, True], ids=["records", "persons"])
def test_no_record_moves_the_sums_of_clusters_farther_than_said_and_some_do(manifold: Manifold, persons: bool) -> None:
    """The norms of the two kinds of noise, at all pairs of some members with records inside, outside and invalid."""
    rng, reach, n = np.random.default_rng(5), 0.4, 7
    centers = random_points(manifold, 3, rng, 0.8)
    around = tuple(Ball(manifold, center, min(3.0, 0.99 * Ball(manifold, center, 1e-3).max_radius)) for center in centers)
    members = [np.repeat(random_points(manifold, 1, rng, 1.5), 1 + 2 * persons, axis=0) for _ in range(30)]
    members += [random_points(manifold, 3, rng, 1.5) for _ in range(5 * persons)]  # a person in several clusters
    members.append(np.full_like(members[0], np.nan))
    for apart in (False, True):
        sums = ClusterSums(around, reach, apart)
        vectors = vectors_of(sums, members, persons)
        differences = np.linalg.vector_norm(vectors[:, None] - vectors[None], axis=-1)
        moved = differences.sum(axis=-1) if apart else np.linalg.vector_norm(differences, axis=-1)
        assert 0.95 * sums.sensitivity(1) < moved.max() <= sums.sensitivity(1)
        assert sums.sensitivity(n) >= sums.sensitivity(1) / n
    together = ClusterSums(around, reach, True).compute(np.concatenate([each[:1] for each in members]), len(members))
    if not persons:
        np.testing.assert_allclose(together, vectors.mean(axis=0), atol=1e-12)


def test_what_is_no_point_counts_in_no_cluster() -> None:
    x = np.concatenate([np.tile([0.0, 0.0, 1.0], (30, 1)), np.full((10, 3), np.nan)])
    found = private_kmeans(x, Ball(Sphere(2), [0.0, 0.0, 1.0], 1.0), 2, epsilon=ALL)
    assert found.counts.sum() == pytest.approx(30.0, abs=1e-3)
    assert found.n == 40


def test_a_cluster_without_records_is_handled_by_what_was_released() -> None:
    """One record only: all clusters but one are empty, and with noise the others may count less than nothing."""
    for seed in range(5):
        found = private_kmeans(np.eye(2)[None], Ball(SPD(2), np.eye(2), 1.0), 4, epsilon=0.1, seed=seed)
        assert SPD(2).valid(found.centers).all()
        assert all(SPD(2).dist(np.eye(2), center) <= 1.0 + 1e-9 for center in found.centers)


def test_clusters_keep_neither_labels_nor_squares_and_their_start_is_public() -> None:
    model = PrivateKMeans(2, radius=3.0, epsilon=2.0)
    with pytest.raises(ValueError, match="fit_predict returns labels of the private records, which no noise hides"):
        model.fit_predict(X)
    model.fit(X)
    assert {name for name in vars(model) if name.endswith("_") and not name.startswith("_")} == {
        "n_features_in_", "manifold_", "ball_", "releases_", "cost_", "cluster_centers_", "counts_",
    }  # fmt: skip
    starts = [private_kmeans(x, Ball(SPD(3), np.eye(3), 3.0), 2, epsilon=1e-9, rounds=1).centers for x in (X, X[::-1] ** 2)]
    # at so little privacy noise alone would throw centres to the boundary: a sum no longer than its noise moves nothing
    assert all(np.isfinite(start).all() for start in starts)


# ---------------------------------------------------------------------- what a fit costs


GIVEN: list[dict[str, float]] = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}, {"mu": 0.5}]
FITS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "mean": (PrivateFrechetMean, {}),
    "mean, ball found": (PrivateFrechetMean, {"find": 0.3}),
    "tangent space, ball found": (PrivateTangentSpace, {"find": 0.2}),
    "classifier": (PrivateMDM, {}),
    "classifier, ball found": (PrivateMDM, {"find": 0.35}),
    "classifier, private labels": (PrivateMDM, {"find": 0.2, "labels": "private", "classes": ["loud", "calm"]}),
    "clusters": (PrivateKMeans, {}),
    "clusters, ball found": (PrivateKMeans, {"n_clusters": 3, "find": 0.2}),
}


@pytest.mark.parametrize(
    ("name", "given"), [(name, GIVEN[0]) for name in FITS] + [("classifier, ball found", given) for given in GIVEN[1:]], ids=str
)
def test_a_fit_is_one_charge_of_what_was_asked_for_with_a_receipt_and_a_second_is_refused(
    name: str, given: dict[str, float], tmp_path: Path
) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", **given)
    made, more = FITS[name]
    model = made(radius=6.0, **more, **given, ledger=ledger, dataset="study").fit(X, Y)
    (charge,) = ledger.history("study")
    assert charge.receipt is not None
    (tmp_path / "receipt.json").write_text(charge.receipt)
    ask = ["receipt", str(tmp_path / "receipt.json"), "--verify", "--ledger", f"sqlite:///{tmp_path}/budget.db"]
    assert CliRunner().invoke(app, ask).output == "yes: the ledger keeps exactly this receipt\n"
    assert model.cost_ == charge.cost
    assert all(release.private and (release.dataset, release.charge) == ("study", charge.id) for release in model.releases_)
    assert isinstance(model.releases_[0], BallRelease) == bool(more.get("find"))
    assert compose([release.cost for release in model.releases_]).meets(privacy_of(**given))
    assert receipt_from_json(charge.receipt).to_json() == charge.receipt
    assert all(receipt_from_json(release.to_json()) == release for release in model.releases_)
    before = {key: np.copy(value) for key, value in vars(model).items() if isinstance(value, np.ndarray)}
    with pytest.raises(ValueError, match="left"):
        model.fit(X, Y)
    assert len(ledger.history("study")) == 1
    for key, value in before.items():
        np.testing.assert_array_equal(getattr(model, key), value)


def test_fits_without_a_ledger_are_counted_clones_included() -> None:
    model = PrivateMDM(radius=3.0, epsilon=1.0)
    with pytest.warns(UserWarning, match="2 releases without a ledger: .* up to epsilon 2, "):
        cross_val_score(model, X, Y, cv=3)
    sent = pickle.loads(pickle.dumps(PrivateKMeans(radius=3.0, epsilon=1.0).fit(X)))
    with pytest.warns(UserWarning, match="2 releases without a ledger"):
        clone(sent).fit(X)


def test_no_record_goes_with_a_pickle() -> None:
    x = X.copy()
    x[0] = 8.675309 * np.eye(3)
    for model in (
        PrivateMDM(radius=3.0, epsilon=1.0),
        PrivateKMeans(radius=3.0, epsilon=1.0),
        PrivateTangentSpace(radius=3.0, epsilon=1.0),
    ):
        text = pickle.dumps(model.fit(x, Y))
        assert np.float64(8.675309).tobytes() not in text
        assert len(text) < 100_000


# ---------------------------------------------------------------------- classes and persons


def test_of_private_labels_nothing_is_told_but_through_noise() -> None:
    """Whatever ``y`` holds, the classes are those of the public list and nothing is said: no warning, no error."""
    classes = ["loud", "calm"]
    strange: list[Any] = [
        Y,
        np.full(200, "calm"),
        np.full(200, "other"),
        [None] * 200,
        np.linspace(0.0, 1.0, 200),
        [np.nan] * 200,
    ]
    for unit, unit_in in ((None, "one group"), (np.arange(200) // 2, "one group"), (np.arange(200) // 2, "all groups")):
        for y in strange:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model = PrivateMDM(radius=3.0, labels="private", classes=classes, unit_in=unit_in, epsilon=1.0).fit(
                    X, y, unit=unit
                )
            assert model.classes_.tolist() == ["calm", "loud"]
            assert model.means_.shape == (2, 3, 3)
    with pytest.raises(ValueError, match="private labels need classes, the public list of names"):
        PrivateMDM(radius=3.0, labels="private", epsilon=1.0).fit(X, Y)


def test_predictions_depend_on_the_means_alone_not_on_how_frequent_a_class_is() -> None:
    rare = np.concatenate([np.flatnonzero(Y == "calm"), np.flatnonzero(Y == "loud")[:5]])
    model = PrivateMDM(radius=5.0, epsilon=ALL).fit(X[rare], Y[rare])
    middle = SPD(3).exp(model.means_[0], 0.501 * SPD(3).log(*model.means_))
    assert model.predict(middle[None]).tolist() == ["loud"]
    assert model.predict_proba(middle[None]) == pytest.approx(0.5, abs=0.02)


def test_a_person_in_all_classes_is_protected_in_all_of_them() -> None:
    person = np.arange(200) // 4  # each has two records of each class
    with pytest.raises(ValueError, match="a person has records in several groups"):
        PrivateMDM(radius=3.0, epsilon=1.0).fit(X, Y, unit=person)
    model = PrivateMDM(radius=3.0, epsilon=1.0, unit_in="all groups").fit(X, Y, unit=person)
    (means,) = model.releases_
    assert [(release.n, release.neighbours) for release in means.values()] == [
        (50, "replace one person, who keeps their group")
    ] * 2
    assert sum(release.epsilon for release in means.values()) <= 1.0
    hidden = PrivateMDM(radius=3.0, epsilon=1.0, unit_in="all groups", labels="private", classes=["calm", "loud"])
    hidden.fit(X, Y, unit=person)
    (means,) = hidden.releases_
    assert all(release.neighbours == "add, remove or replace one person" for release in means.values())
    assert all(release.count is not None for release in means.values())
    assert sum(release.epsilon for release in means.values()) <= 1.0


@pytest.mark.parametrize("classes", [["calm"], ["calm", "loud"]], ids=len)
@pytest.mark.parametrize("labels", ["public", "private"])
def test_persons_in_all_classes_are_charged_once_however_many_classes_there_are(
    classes: list[str], labels: str, tmp_path: Path
) -> None:
    ledger, here = Ledger(f"sqlite:///{tmp_path}/budget.db"), np.isin(Y, classes)
    ledger.open("study", epsilon=1, neighbours="replace one person")
    model = PrivateMDM(radius=3.0, epsilon=1.0, unit_in="all groups", labels=labels, classes=classes)
    model.set_params(ledger=ledger, dataset="study").fit(X[here], Y[here], unit=np.arange(200)[here] // 4)
    (charge,) = ledger.history("study")
    assert float(charge.epsilon) == pytest.approx(1.0)
    assert all(release.charge == charge.id for release in model.releases_)


def test_on_compact_spaces_no_ball_is_needed() -> None:
    rng = np.random.default_rng(6)
    y = np.arange(400) % 2
    x = Sphere(2).project(np.where(y[:, None] == 0, [1.0, 0.0, 0.0], [-1.0, 0.3, 0.0]) + 0.3 * rng.normal(size=(400, 3)))
    projected = PrivateMDM("Sphere(2)", radius=None, epsilon=2.0).fit(x, y)
    assert projected.ball_ is None
    assert projected.score(x, y) > 0.95
    found = PrivateMDM("Sphere(2)", radius=None, find=0.3, epsilon=20.0).fit(x, y)
    assert isinstance(found.releases_[0], BallRelease)
    with pytest.raises(ValueError, match="leave out mechanism and law"):
        PrivateMDM("Sphere(2)", radius=None, law="laplace", epsilon=1.0).fit(x, y)
    with pytest.raises(ValueError, match=r"^give the radius of a public ball on Sphere\(2\), or find=0\.2 to find one"):
        PrivateKMeans(2, "Sphere(2)", radius=None, epsilon=1.0).fit(x)


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (
        PrivateMDM(radius=None, epsilon=1.0),
        {},
        r"^give the radius of a public ball on SPD\(3\); with find=0\.2 it may be as wide as 30",
    ),
    (
        PrivateMDM(find=1.0, epsilon=1.0),
        {},
        r"^find, the part of the privacy for the ball, must be from 0 to 0\.9 but is 1: 0\.2 is usual$",
    ),
    (PrivateMDM(labels="secret", epsilon=1.0), {}, "^labels must be 'public' or 'private' but is 'secret'$"),
    (
        PrivateMDM(unit_in="some", epsilon=1.0),
        {"unit": np.arange(200)},
        "^unit_in must be 'one group' or 'all groups' but is 'some'$",
    ),
    (PrivateMDM(epsilon=1.0), {"unit": np.arange(7)}, "^unit must have one label for each record, but it has fewer$"),
    (PrivateMDM(classes=["calm"], find=0.2, epsilon=1.0), {}, "some labels in by are not among the 1 groups"),
    (PrivateMDM(find=0.2, epsilon=1.0), {"unit": np.arange(200) // 4}, "a person has records in several groups"),
    (PrivateMDM(neighbours="add-remove", epsilon=1.0), {}, "public labels show how many records each group has"),
    (PrivateKMeans(0, epsilon=1.0), {}, "the number of clusters must be at least 1 but is 0"),
    (PrivateKMeans(rounds=0, epsilon=1.0), {}, "the number of rounds must be at least 1 but is 0"),
    (PrivateKMeans(reach=3.0, epsilon=1.0), {}, "^the reach must be above 0 and at most twice the radius 1 but is 3$"),
]


@pytest.mark.parametrize(("model", "more", "sentence"), BAD, ids=[sentence for *_, sentence in BAD])
def test_bad_public_input_is_a_sentence_and_spends_nothing(
    model: Any, more: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=5)
    with pytest.raises(ValueError, match=sentence):
        clone(model).set_params(ledger=ledger, dataset="study").fit(X, Y, **more)
    assert ledger.spent("study") == 0


@pytest.mark.parametrize("made", [PrivateTangentSpace, PrivateMDM, PrivateKMeans])
def test_every_docstring_says_what_is_public_and_private_and_which_theorem(made: type) -> None:
    for word in ("public*", "private*", "neighbours*", "theorem*"):
        assert word in (made.__doc__ or "").lower()
    assert "private data" in (made.transform.__doc__ or "")  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- audits: each with a twin that must be convicted

#: An honest mechanism is accused with at most this chance, here and below.
LEVEL = 1e-6


def label_events(labels: str, draws: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """How many records of class 0 a receipt names, on two data sets that differ by the class of one of five records."""
    x, outputs = np.array([[0.9], [0.9], [0.0], [0.0], [0.0]]), []
    for y in ([0, 0, 1, 1, 1], [0, 1, 1, 1, 1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PrivateMDM(radius=1.0, epsilon=1.0, labels=labels, classes=[0, 1])
            fits = (model.fit(x, y).releases_[0][0] for _ in range(draws))
            outputs.append(np.array([release.n for release in fits]))
    return outputs[0], outputs[1]


@pytest.mark.slow
def test_private_labels_priced_as_public_ones_are_convicted_and_private_ones_are_not() -> None:
    """False alarms: at most ``LEVEL``. The twin tells the number of records in a class as it is, so 60 draws convict it."""
    first, second = label_events("public", 60)
    assert least_epsilon(np.sum(first == 2), np.sum(second == 2), 60, LEVEL) > 1.0
    first, second = label_events("private", 120)
    for event in np.unique(first):
        assert least_epsilon(np.sum(first >= event), np.sum(second >= event), 120, LEVEL) <= 1.0


def cluster_losses(noise: Mechanism, first: Array, second: Array, draws: int) -> tuple[Array, Array]:
    """The true privacy loss at outputs on two data sets: noise of its own for each block."""
    rng, losses = np.random.default_rng(7), []
    for true in (first, second):
        outputs = [noise.simulate(row, draws, rng) for row in true]
        each = [noise.privacy_loss(a, b, y) for a, b, y in zip(first, second, outputs, strict=True)]
        losses.append(np.sum(each, axis=0))
    return losses[0], losses[1]


def convicted(losses: tuple[Array, Array], claimed: float) -> bool:
    """Whether one of a few thresholds on the loss proves more than was claimed; each is wrong with a share of the level."""
    thresholds = np.linspace(0.5 * claimed, 1.9 * claimed, 8)
    draws = len(losses[0])
    found = [least_epsilon(np.sum(losses[0] > t), np.sum(losses[1] > t), draws, LEVEL / 8) for t in thresholds]
    return bool(max(found) > claimed)


def test_a_round_that_forgets_that_a_record_leaves_one_cluster_and_enters_another_is_convicted() -> None:
    """At the worst neighbours the true round reaches its claim and does not pass it; the twin, with half of the noise, does."""
    around = tuple(Ball(Euclidean(1), [place], 4.0) for place in (-3.0, 0.0, 3.0))
    sums, n = ClusterSums(around, 1.0, apart=True), 5
    x = np.array([[-4.0], [0.0], [0.0], [0.0], [0.0]])
    z = x.copy()
    z[0] = 4.0
    first, second = (sums.compute(data, n) for data in (x, z))
    honest = planned(sums, n, PureDP(2.0)).noise.mechanism
    losses = cluster_losses(honest, first, second, 40_000)
    assert 0.97 * 2.0 < losses[0].max() <= 2.0
    assert not convicted(losses, 2.0)
    twin = planned(sums, n, PureDP(4.0)).noise.mechanism  # half of the scale
    assert convicted(cluster_losses(twin, first, second, 40_000), 2.0)


@pytest.mark.slow
def test_clusters_that_tell_their_counts_are_convicted_and_noisy_counts_are_not() -> None:
    """The number of records in the first cluster, exact or noisy, on two data sets of which one record changes its cluster."""
    ball, draws = Ball(Euclidean(1), [0.0], 4.0), 150
    x = np.array([[-2.0], [-2.0], [2.0], [2.0]])
    z = np.array([[-2.0], [2.0], [2.0], [2.0]])
    counts, exact = [], []
    for data in (x, z):
        found = [private_kmeans(data, ball, 2, epsilon=1.0, rounds=1) for _ in range(draws)]
        left = int(np.argmin(private_kmeans(x, ball, 2, epsilon=ALL, rounds=1).centers[:, 0]))
        counts.append(np.array([release.counts[left] for release in found]))
        exact.append(np.full(draws, np.sum(data < 0.0)))
    assert least_epsilon(np.sum(exact[0] > 1), np.sum(exact[1] > 1), draws, LEVEL) > 1.0
    for threshold in (-2.0, 0.0, 1.5, 3.0, 6.0):
        hits = [int(np.sum(each > threshold)) for each in counts]
        assert least_epsilon(hits[0], hits[1], draws, LEVEL / 5) <= 1.0


def test_a_release_of_clusters_says_what_it_is() -> None:
    found = private_kmeans(X, Ball(SPD(3), np.eye(3), 4.0), 3, epsilon=3.0, unit=np.arange(200) // 2)
    assert isinstance(found, KMeansRelease)
    assert (found.n, found.neighbours, found.private) == (100, "replace one person", True)
    again = KMeansRelease.from_json(found.to_json())
    assert again.to_json() == found.to_json()
    stored = json.loads(found.to_json())
    wrong: list[tuple[str, Any]] = [
        ("epsilon", 1.0),
        ("rounds", 2),
        ("n", 0),
        ("unit", "record"),
        ("counts", [1.0]),
        ("charge", 3),
    ]
    # what follows from other fields, and types that Python takes for numbers
    wrong += [("n", 101), ("n", 200), ("n", True), ("radius", "4.0"), ("radius", 1e-3), ("reach", 2.5), ("private", 1)]
    wrong += [("counts", [count + 1.0 for count in stored["counts"]]), ("center", (1e6 * np.eye(3)).tolist())]
    for field, value in wrong:
        with pytest.raises(ValueError, match="not the JSON text of a release: its"):
            KMeansRelease.from_json(json.dumps(stored | {field: value}))
    assert (stored["summary"], stored["epsilon"], stored["rounds"]) == ("clusters", 3.0, 3)
    assert "PRIVATE CLUSTERS" in str(found)
    seeded = [private_kmeans(X, Ball(SPD(3), np.eye(3), 4.0), 3, 3.0, simulate=np.random.default_rng(1)) for _ in range(2)]
    np.testing.assert_array_equal(seeded[0].centers, seeded[1].centers)
    assert not seeded[0].private
    assert "NOT PRIVATE" in str(seeded[0])


# ---------------------------------------------------------------------- real data


def test_the_guide_shows_what_was_measured_and_noise_costs_what_it_says() -> None:
    found = json.loads((DOCS / "learning.json").read_text())
    page = (DOCS / "guides" / "learning.md").read_text()
    for name, row in found["classifiers"].items():
        assert f"| {name} | {' | '.join(f'{100 * each:.0f}%' for each in row)} |" in page
    window = found["classifiers"]["a window, ball given"]
    assert window[-1] > found["MDM"] - 0.03
    assert max(found["classifiers"]["a person, ball given"]) < 0.5
    assert found["Kmeans"] < found["clusters"][-1] < found["one"]


@pytest.mark.skipif(find_spec("geomstats") is None, reason="the muscle signals come with geomstats: pip install '.[bench]'")
@pytest.mark.slow
def test_on_muscle_signals_the_private_classifier_nearly_reaches_that_of_pyriemann() -> None:
    """At epsilon 4 for a window, a third would be guessing.

    Of 100 fits on this split, at 0.719 for pyRiemann, the mean was 0.696, the standard deviation 0.019 and the least 0.601. The
    limit is nine deviations below the mean, so a false alarm is far rarer than 1 in 100.
    """
    classification = pytest.importorskip("pyriemann.classification", reason="pyRiemann is not installed")
    sys.path.insert(0, str(DOCS))
    try:
        import learning
    finally:
        sys.path.remove(str(DOCS))
    data = learning.muscle_signals()
    assert data.x.shape == (1152, 8, 8)
    assert SPD(8).valid(data.x).all()
    assert [len(np.unique(each)) for each in (data.gesture, data.hold, data.person)] == [3, 72, 2]
    test = next(learning.splits(data, 1))
    assert not set(data.hold[test]) & set(data.hold[~test])
    other = learning.accuracy(classification.MDM(), data, test, None)
    assert learning.accuracy(PrivateMDM(**learning.BALL, epsilon=4.0), data, test, None) > other - 0.2


@pytest.mark.parametrize(
    ("ball", "sentence"),
    [
        *(
            (Ball(Euclidean(2), [0.0, 0.0], r), "must be between 4e-100 and 2.5e\\+99 for clusters")
            for r in (1e100, 3e99, 1e-100)
        ),
        (Ball(SPD(2), np.eye(2), 150.0), "a radius of 20 would work"),
    ],
    ids=repr,
)
def test_clusters_in_a_ball_that_floats_cannot_hold_are_refused_before_the_charge(
    ball: Ball, sentence: str, tmp_path: Path
) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger.open("d", epsilon=1)
    with pytest.raises(ValueError, match=sentence):
        private_kmeans(np.stack([ball.center] * 50), ball, 2, 1.0, ledger=ledger, dataset="d")
    assert ledger.spent("d") == 0


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (PrivateKMeans(rounds=1000, epsilon=1.0), "at most 100 but is 1000"),
        (PrivateKMeans(reach=50.0, epsilon=1.0), "at most twice the radius 4 but is 50"),
        (PrivateKMeans(seed=-1, epsilon=1.0), "the seed must be at least 0 but is -1"),
        (PrivateKMeans(n_clusters=0, epsilon=1.0), "the number of clusters must be at least 1 but is 0"),
        (PrivateFrechetMean(manifold="Euclidean(9)", epsilon=1.0), "the number of records n must be at least 1 but is 0"),
        (PrivateFrechetMean(mechanism="foo", epsilon=1.0), "the mechanism must be one of"),
        (PrivateFrechetMean(law="foo", epsilon=1.0), "the law must be one of"),
        (PrivateFrechetMean(mechanism="tangent", law="gaussian", epsilon=1.0), "Gaussian noise has no pure epsilon"),
        (PrivateMDM(law="foo", epsilon=1.0), "the law must be one of"),
        (PrivateMDM(mechanism="tangent", law="gaussian", epsilon=1.0), "Gaussian noise has no pure epsilon"),
    ],
)
def test_what_can_be_wrong_is_said_before_a_fit_is_charged(model: Any, sentence: str, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger.open("d", epsilon=1)
    model = clone(model).set_params(find=0.2, radius=4.0, ledger=ledger, dataset="d")
    with pytest.raises(ValueError, match=sentence):
        model.fit(X[:0] if model.manifold else X, Y)
    assert ledger.spent("d") == 0


def test_a_search_finds_only_balls_in_which_the_fit_can_go_on() -> None:
    """Three records and little privacy: noise on the manifold exists for small balls only, and a reach needs a large one."""
    few = X[:3, :2, :2]
    with pytest.raises(ValueError, match="An epsilon above"):
        PrivateFrechetMean(radius=1.0, epsilon=0.001, mechanism="intrinsic").fit(few)
    means = [PrivateFrechetMean(find=0.2, radius=30.0, epsilon=0.001, mechanism="intrinsic").fit(few) for _ in range(3)]
    assert all(mean.ball_.radius < 1e-2 for mean in means)
    same = np.tile(np.eye(2), (500, 1, 1))
    assert PrivateKMeans(find=0.2, radius=10.0, reach=3.0, epsilon=1.0).fit(same).ball_.radius >= 1.5


def test_a_fit_that_fails_after_it_was_paid_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("of a secret")

    model = PrivateFrechetMean(find=0.2, radius=4.0, epsilon=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(Mean, "compute", fail)
        with pytest.raises(RuntimeError, match=r"^the release failed with MemoryError; its text is hidden"):
            model.fit(X)
    with pytest.warns(UserWarning, match="have made 2 releases without a ledger"):
        model.fit(X)


def test_persons_of_a_lazy_frame_are_counted_in_what_was_read() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [0.1] * 40, "b": [0.2] * 40}).lazy()
    for model in (PrivateFrechetMean(epsilon=1.0), PrivateKMeans(epsilon=1.0)):
        assert model.fit(frame, unit=np.arange(40) // 2).releases_[0].n == 20
        with pytest.raises(ValueError, match="unit must have one label for each record, but it has fewer"):
            clone(model).fit(frame, unit=np.arange(20))
