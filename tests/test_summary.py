"""A summary of the caller's own: released in every notion with the claim on the receipt, or refused in one sentence."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import random_points
from scipy import stats

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Ledger,
    Manifold,
    PlanarShapes,
    Product,
    Release,
    Rotations,
    SPDLogEuclidean,
    Sphere,
    private_mean,
    private_summary,
)
from geodp.inputs import Array
from geodp.noise import exact

NOTIONS: list[dict[str, float]] = [{"epsilon": 30.0}, {"epsilon": 30.0, "delta": 1e-6}, {"rho": 20.0}, {"mu": 5.0}]
every_notion = pytest.mark.parametrize("asked", NOTIONS, ids=str)
CLAIM = 0.05

HADAMARD: list[Manifold] = [Euclidean(3), Hyperbolic(2), SPD(2), SPDLogEuclidean(2), Product(SPD(2), Euclidean(1))]
COMPACT: list[Manifold] = [Sphere(1), Sphere(2), Grassmann(1, 3), Grassmann(2, 4), Rotations(3), PlanarShapes(4)]


def value_on(manifold: Manifold) -> Array:
    return random_points(manifold, 1, np.random.default_rng(2), 0.3)[0]


# ---------------------------------------------------------------------- what is released


@every_notion
@pytest.mark.parametrize("manifold", HADAMARD, ids=repr)
def test_in_a_claimed_ball_every_notion_has_noise(manifold: Manifold, asked: dict[str, float]) -> None:
    release = private_summary(value_on(manifold), manifold, sensitivity=CLAIM, radius=2.0, **asked)
    assert manifold.check_point(release.value) is None
    assert release.private
    assert release.ball == Ball(manifold, manifold.origin, 2.0)
    assert release.cost.meets(release.privacy)
    assert {name: getattr(release, name) for name in asked} == asked
    assert (release.n, release.bound, release.sensitivity) == (None, None, CLAIM)
    again = Release.from_json(release.to_json())
    assert again.to_json() == release.to_json()
    assert str(again) == str(release)


@every_notion
@pytest.mark.parametrize("manifold", COMPACT, ids=repr)
def test_without_a_ball_noise_is_on_the_manifold_or_there_is_a_sentence(manifold: Manifold, asked: dict[str, float]) -> None:
    if "mu" in asked:
        with pytest.raises(ValueError, match=r"there is no tangent noise for a summary on .*: give an epsilon or a rho$"):
            private_summary(value_on(manifold), manifold, sensitivity=CLAIM, **asked)
        return
    release = private_summary(value_on(manifold), manifold, sensitivity=CLAIM, **asked)
    assert manifold.check_point(release.value) is None
    assert release.mechanism.startswith("Riemannian")
    assert release.ball is None
    assert not release.projected
    assert release.cost.meets(release.privacy)
    assert Release.from_json(release.to_json()).to_json() == release.to_json()


@pytest.mark.parametrize("radius", [None, 2.0])
def test_the_receipt_says_that_the_sensitivity_is_the_callers_claim(radius: float | None) -> None:
    release = private_summary(np.eye(2), SPD(2), sensitivity=CLAIM, epsilon=1.0, radius=radius)
    lines = str(release).splitlines()
    assert lines[0] == "PRIVATE SUMMARY"
    assert any(line.startswith("  sensitivity 0.05, as claimed by the caller, not checked") for line in lines)
    assert any("of your summary with probability 95%" in line for line in lines)
    assert not any(line.startswith("  records") for line in lines)
    stored = json.loads(release.to_json())
    assert (stored["summary"], stored["n"], stored["bound"], stored["sensitivity"]) == ("summary", None, None, CLAIM)
    mean = private_mean(np.eye(2)[None], Ball(SPD(2), np.eye(2), 0.3), epsilon=1.0, anyway=True)
    assert "claimed" not in str(mean), "and a mean's is proved"


def test_the_scale_is_the_claim_over_epsilon() -> None:
    assert private_summary([0.0, 0.0, 1.0], Sphere(2), sensitivity=0.01, epsilon=0.5).scale == pytest.approx(0.02, rel=1e-14)
    assert private_summary(np.zeros(2), Euclidean(2), sensitivity=0.01, rho=0.5, law="gaussian").scale == pytest.approx(
        0.01, rel=1e-9
    )


@pytest.mark.slow
def test_draws_have_the_claimed_law_about_the_value() -> None:
    """Lengths on a line, 3,000 simulated draws against the exponential law. False-alarm rate 1e-4; 15% more noise is seen."""
    rng = np.random.default_rng(6)
    drawn = [private_summary([3.0], Euclidean(1), sensitivity=0.5, epsilon=2.0, simulate=rng).value[0] for _ in range(3000)]
    lengths = np.abs(np.array(drawn) - 3.0)
    assert stats.kstest(lengths, stats.expon(scale=0.25).cdf).pvalue > 1e-4
    assert stats.kstest(lengths, stats.expon(scale=0.2875).cdf).pvalue < 1e-4


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
def test_a_value_in_other_numbers_is_the_point_next_to_it(dtype: type) -> None:
    release = private_summary(np.array([0, 0, 1], dtype=dtype), Sphere(2), sensitivity=1e-9, epsilon=1e3)
    assert Sphere(2).dist(release.value, [0.0, 0.0, 1.0]) < 1e-6


# ---------------------------------------------------------------------- what is refused


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(f"sqlite:///{tmp_path}/budget.db")
    book.open("d", epsilon=3)
    return book


NORTH = np.array([0.0, 0.0, 1.0])
FINE: dict[str, Any] = {"value": NORTH, "manifold": Sphere(2), "sensitivity": 0.1, "epsilon": 0.5}
SECRET = 0.8675309
MATRIX = {"manifold": SPD(2), "value": np.eye(2)}
BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "sensitivity 0": (
        {"sensitivity": 0.0},
        ValueError,
        r"^the sensitivity must be positive and finite but is 0: how far can one",
    ),
    "sensitivity negative": ({"sensitivity": -0.1}, ValueError, r"^the sensitivity must be positive and finite but is -0\.1"),
    "sensitivity nan": ({"sensitivity": math.nan}, ValueError, r"^the sensitivity must be positive and finite but is nan"),
    "sensitivity inf": ({"sensitivity": math.inf}, ValueError, r"^the sensitivity must be positive and finite but is inf"),
    "sensitivity text": ({"sensitivity": "x"}, ValueError, r"^the sensitivity must be a number but is 'x'$"),
    "no manifold": ({"manifold": "Sphere(2)"}, TypeError, r"^the manifold must be a Manifold but is of type str$"),
    "off the sphere": (
        {"value": [SECRET, 0.0, 1.0]},
        ValueError,
        r"^the value is not a point of Sphere\(2\): manifold\.check_point",
    ),
    "not a number": ({"value": [math.nan, 0.0, 1.0]}, ValueError, r"^the value is not a point of Sphere\(2\): "),
    "not symmetric": (MATRIX | {"value": [[1.0, SECRET], [0.0, 1.0]]}, ValueError, r"^the value is not a point of SPD\(2\)"),
    "indefinite": (MATRIX | {"value": [[1.0, 0.0], [0.0, -SECRET]]}, ValueError, r"^the value is not a point of SPD\(2\)"),
    "outside the ball": (
        MATRIX | {"value": np.eye(2) * SECRET * 9, "radius": 1.0},
        ValueError,
        r"^the value is not within 1 of the",
    ),
    "wrong width": ({"value": [SECRET, 1.0]}, ValueError, r"^the value has shape \(2,\), but Sphere\(2\) wants arrays of shape"),
    "several points": (
        {"value": np.tile(NORTH, (4, 1))},
        ValueError,
        r"^the value has shape \(4, 3\), but one point of Sphere\(2\)",
    ),
    "text": ({"value": ["0.8675309", "0", "1"]}, TypeError, "must hold real numbers"),
    "complex": ({"value": NORTH + SECRET * 1j}, TypeError, "must hold real numbers"),
    "masked": ({"value": np.ma.masked_array(NORTH, mask=[0, 0, 1])}, TypeError, "is a masked array"),
    "ragged": ({"value": [[SECRET], 1.0, [2.0, 3.0]]}, ValueError, "ValueError"),
    "radius on a sphere": ({"radius": 0.5}, ValueError, r"for spaces without positive curvature, which Sphere\(2\) is not"),
    "base without radius": (MATRIX | {"base": np.eye(2)}, ValueError, r"^a base point needs a radius about it that contains"),
    "base off the manifold": (MATRIX | {"base": -np.eye(2), "radius": 1.0}, ValueError, r"^the center is not a point of SPD"),
    "radius 0": (MATRIX | {"radius": 0.0}, ValueError, r"^the radius must be positive and finite but is 0"),
    "no privacy": ({"epsilon": None}, ValueError, r"^give the privacy to spend: exactly one of epsilon, epsilon and delta, rho"),
    "two notions": ({"rho": 0.1}, ValueError, r"exactly one of .*: given were epsilon and rho$"),
    "three notions": ({"rho": 0.1, "mu": 1.0}, ValueError, r"given were epsilon, rho and mu$"),
    "delta alone": ({"epsilon": None, "delta": 1e-6}, ValueError, r"^a delta goes with an epsilon"),
    "delta 0": (
        {"delta": 0.0},
        ValueError,
        r"^delta must be above 0 and below 1 but is 0: for pure differential privacy leave it out$",
    ),
    "delta 1": ({"delta": 1.0}, ValueError, r"^delta must be above 0 and below 1 but is 1$"),
    "delta negative": ({"delta": -1e-6}, ValueError, r"^delta must be above 0 and below 1 but is -1e-06$"),
    "rho negative": ({"epsilon": None, "rho": -0.1}, ValueError, r"^rho must be positive and finite but is -0\.1$"),
    "mu 0": ({"epsilon": None, "mu": 0.0}, ValueError, r"^mu must be positive and finite but is 0"),
    "epsilon nan": ({"epsilon": math.nan}, ValueError, r"^epsilon must be positive and finite but is nan$"),
    "pure Gaussian": (
        MATRIX | {"radius": 1.0, "law": "gaussian", "mechanism": "tangent"},
        ValueError,
        r"^Gaussian noise has no pure",
    ),
    "tangent on a sphere": ({"mechanism": "tangent"}, ValueError, r"no tangent noise for a summary on Sphere\(2\)"),
    "tangent without a ball": (
        MATRIX | {"mechanism": "tangent"},
        ValueError,
        r"needs a public base point .*: give base= and radius=$",
    ),
    "simulate": ({"simulate": 7}, TypeError, r"simulate must be a numpy\.random\.Generator but is of type int"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_that_quotes_no_value_and_charges_nothing(case: str, ledger: Ledger) -> None:
    changed, kind, sentence = BAD[case]
    given = {**FINE, **changed}
    book: dict[str, Any] = {} if case == "simulate" else {"ledger": ledger, "dataset": "d"}
    with pytest.raises(kind, match=sentence) as caught:
        private_summary(given.pop("value"), given.pop("manifold"), **given, **book)
    assert "\n" not in str(caught.value)
    assert "8675309" not in str(caught.value)
    assert "7.8077781" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert ledger.spent("d") == 0
    assert ledger.history("d") == []


def test_what_is_fine_is_charged_once_and_its_receipt_kept(ledger: Ledger) -> None:
    release = private_summary(NORTH, Sphere(2), sensitivity=0.1, epsilon=0.5, ledger=ledger, dataset="d")
    (charge,) = ledger.history("d")
    assert str(ledger.spent("d")) == "0.5"
    assert charge.id == release.charge
    assert charge.receipt == release.to_json()
    assert charge.what == "summary on Sphere(2)"
    assert f"data set 'd', charge {charge.id}" in str(release)


def test_nothing_but_the_value_depends_on_the_value() -> None:
    points = random_points(SPD(2), 2, np.random.default_rng(3), 0.4)
    stored = []
    for point in points:
        release = private_summary(point, SPD(2), sensitivity=CLAIM, epsilon=1.0, delta=1e-6, radius=3.0)
        fields = json.loads(release.to_json())
        assert fields.pop("value") == release.value.tolist()
        assert fields.pop("draws") == [drawn.tolist() for drawn in release.draws]
        stored.append(fields)
    assert stored[0] == stored[1]


@pytest.mark.parametrize("asked", [{"epsilon": 1.0, "delta": 1e-6}, {"rho": 1.0}], ids=str)
@pytest.mark.parametrize("claim", [500.0, 4e15])
def test_gaussian_noise_that_overflows_on_the_hyperbolic_line_is_refused_before_any_trial(
    asked: dict[str, float], claim: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial there needs as many bits as the noise is long."""

    def trial(*_: object) -> None:
        pytest.fail("a trial was made")

    monkeypatch.setattr(exact, "_trial", trial)
    exact.is_drawable.cache_clear()
    with pytest.raises(ValueError, match=r"^noise of scale \S+ is too wide to draw on Hyperbolic\(1\): .* below 90\b"):
        private_summary([1.0, 0.0], Hyperbolic(1), sensitivity=claim, law="gaussian", mechanism="intrinsic", **asked)


def test_gaussian_noise_below_that_limit_is_drawn_on_the_hyperbolic_line() -> None:
    release = private_summary([1.0, 0.0], Hyperbolic(1), sensitivity=100.0, rho=1.0, law="gaussian", mechanism="intrinsic")
    assert 70.0 < release.scale < 71.0
