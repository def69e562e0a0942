"""Which mechanism a release takes: the one that errs least where values usually are, from public numbers alone, or a sentence."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import every_manifold, planned, random_points

from geodp import (
    SPD,
    ApproximateDP,
    Ball,
    Euclidean,
    GaussianDP,
    Grassmann,
    Hyperbolic,
    Manifold,
    PureDP,
    Rotations,
    SPDLogEuclidean,
    Sphere,
    ZeroConcentratedDP,
    plan,
    private_mean,
)
from geodp.noise.choice import least_error
from geodp.privacy.notions import Privacy
from geodp.statistics.mean import Mean

NOTIONS: list[Privacy] = [PureDP(1.0), ApproximateDP(1.0, 1e-6), ZeroConcentratedDP(0.05), GaussianDP(0.3)]
every_notion = pytest.mark.parametrize("privacy", NOTIONS, ids=str)
CHOSEN_FROM: list[Manifold] = [
    Euclidean(3),
    Sphere(2),
    Sphere(8),
    Hyperbolic(3),
    SPD(2),
    SPD(5),
    SPDLogEuclidean(3),
    Grassmann(2, 5),
    Rotations(4),
]


def ball_of(manifold: Manifold, part: float = 0.5) -> Ball:
    return Ball(manifold, manifold.origin, part * min(1.0, Ball(manifold, manifold.origin, 1e-3).max_radius))


# ---------------------------------------------------------------------- the smallest error where values usually are


@every_notion
@pytest.mark.parametrize("n", [3, 200])
@pytest.mark.parametrize("manifold", CHOSEN_FROM, ids=repr)
def test_no_candidate_has_a_likely_error_that_is_one_percent_smaller(manifold: Manifold, n: int, privacy: Privacy) -> None:
    measurement = planned(Mean(ball_of(manifold)), n, privacy)
    chosen = measurement.noise
    usable = [candidate.mechanism for candidate in measurement.candidates() if candidate.refusal is None]
    assert chosen.name in [each.name for each in usable]
    least = min(each.likely_error() for each in usable)
    assert chosen.likely_error() <= least * 1.01 * (1.0 + 1e-9)
    if chosen.kind == "tangent":
        assert chosen.likely_error() == least, "only an intrinsic one may be a little worse"
        assert all(each.likely_error() > 1.01 * least for each in usable if each.kind == "intrinsic")
    assert all(each.likely_error() <= each.expected_error() * (1.0 + 1e-9) for each in usable), "the worst case is no better"
    assert chosen.cost.meets(privacy)
    assert all(each.cost.meets(privacy) for each in usable)
    assert measurement.noise.expected_error() <= chosen.quick_error() * (1.0 + 1e-9), "the quick bound is a bound"


@pytest.mark.parametrize("manifold", [Euclidean(3), SPDLogEuclidean(2), SPD(1)], ids=repr)
def test_on_a_tie_the_noise_is_intrinsic(manifold: Manifold) -> None:
    """On flat spaces the two are one law, but the intrinsic one does not depend on the centre of the ball."""
    measurement = planned(Mean(ball_of(manifold)), 300, PureDP(1.0))
    errors = {each.kind: each.mechanism.expected_error() for each in measurement.candidates() if each.refusal is None}
    assert errors["intrinsic"] == pytest.approx(errors["tangent"], rel=1e-3)
    assert measurement.noise.kind == "intrinsic"


def test_a_tie_is_one_percent_wide() -> None:
    class Stub:
        def __init__(self, kind: str, error: float) -> None:
            self.kind, self.error = kind, error

        def likely_error(self) -> float:
            return self.error

        quick_error = likely_error

    def taken(intrinsic: float, tangent: float) -> str:
        return least_error([Stub("intrinsic", intrinsic), Stub("tangent", tangent)]).kind

    assert [taken(error, 1.0) for error in (0.5, 1.0, 1.009, 1.011, 2.0)] == ["intrinsic"] * 3 + ["tangent"] * 2


@pytest.mark.parametrize("k", [10, 28])
def test_a_pure_mean_of_few_large_matrices_is_drawn_in_the_tangent_space_and_says_that_it_says_nothing(k: int) -> None:
    ball, n = Ball(SPD(k), np.eye(k), 1.0), 5
    planned = plan(ball, n, 1.0)
    release = private_mean(np.tile(np.eye(k), (n, 1, 1)), ball, 1.0, anyway=True)
    assert planned.noise.name == release.mechanism == "tangent Laplace"
    assert release.cost.epsilon == 1.0
    assert release.private
    assert SPD(k).check_point(release.value) is None
    assert SPD(k).dist(ball.center, release.value) <= ball.reach * (1.0 + 1e-9)
    assert "this release will say nothing about the data: its likely error exceeds the radius of the ball" in str(planned)
    assert planned.to_dict()["says_nothing"] is True
    assert release.says_nothing
    assert "this release says nothing about the data: its likely error exceeds the radius of the ball" in str(release)
    assert ball.radius < release.expected_error() <= 2.0 * ball.reach + release.tolerance
    enough = plan(ball, 10**6, 1.0)
    assert "nothing about the data" not in str(enough)
    assert enough.to_dict()["says_nothing"] is False


@pytest.mark.parametrize("k", [6, 12, 28])
def test_with_a_delta_large_matrices_get_laplace_noise_in_the_tangent_space_below_the_gaussian(k: int) -> None:
    found = plan(Ball(SPD(k), np.eye(k), 1.0), 2000, 1.0, 1e-6)
    errors = {option.name: option.expected_error for option in found.options}
    assert found.noise.name == "tangent Laplace"
    assert errors["tangent Laplace"] < errors["tangent Gaussian"]
    assert found.expected_error < plan(Ball(SPD(k), np.eye(k), 1.0), 2000, 1.0).expected_error


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize("manifold", [Hyperbolic(2), SPD(3)], ids=repr)
@pytest.mark.parametrize("asked", [{"rho": 0.1}, {"epsilon": 1.0, "delta": 1e-6}, {"mu": 0.5}], ids=str)
def test_the_intrinsic_gaussian_is_refused_where_curvature_is_negative(manifold: Manifold, asked: dict[str, float]) -> None:
    ball = ball_of(manifold)
    with pytest.raises(ValueError, match=r"has no known privacy: where curvature is negative.*mechanism='tangent'"):
        plan(ball, 50, **asked, mechanism="intrinsic", law="gaussian")
    assert plan(ball, 50, **asked, law="gaussian").noise.name == "tangent Gaussian"


@pytest.mark.parametrize("manifold", [Euclidean(2), Sphere(2), SPD(2)], ids=repr)
@pytest.mark.parametrize("mechanism", ["auto", "tangent"])
def test_gaussian_noise_has_no_pure_epsilon(manifold: Manifold, mechanism: Any) -> None:
    for act in (
        lambda: plan(ball_of(manifold), 50, 1.0, mechanism=mechanism, law="gaussian"),
        lambda: private_mean(manifold.origin[None], ball_of(manifold), 1.0, mechanism=mechanism, law="gaussian"),
    ):
        with pytest.raises(ValueError, match=r"Gaussian") as caught:
            act()
        assert "\n" not in str(caught.value)
    with pytest.raises(
        ValueError, match=r"^Gaussian noise has no pure epsilon: give a delta with it, or a rho or a mu, or use law"
    ):
        plan(ball_of(manifold), 50, 1.0, mechanism="tangent", law="gaussian")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"mechanism": "ambient"}, r"^the mechanism must be one of auto, intrinsic, tangent but is 'ambient'$"),
        ({"mechanism": None}, r"^the mechanism must be one of auto, intrinsic, tangent but is None$"),
        ({"law": "cauchy"}, r"^the law must be one of laplace, gaussian but is 'cauchy'$"),
        ({"law": "Laplace"}, r"^the law must be one of laplace, gaussian but is 'Laplace'$"),
    ],
    ids=str,
)
def test_unknown_names_are_refused_with_the_known_ones_before_any_record_is_read(given: dict[str, Any], sentence: str) -> None:
    def read() -> Any:
        yield np.tile([0.0, 0.0, 1.0], (20, 1))

    for act in (lambda: private_mean(read, ball_of(Sphere(2)), 1.0, **given), lambda: plan(ball_of(Sphere(2)), 20, 1.0, **given)):
        with pytest.raises(ValueError, match=sentence):
            act()


def test_of_several_refusals_the_one_told_is_of_a_mechanism_that_knows_the_notion() -> None:
    with pytest.raises(
        ValueError, match=r"^mu = 1e-300 is too little privacy to spend here: the scale of the noise would not fit"
    ):
        plan(ball_of(Sphere(2)), 20, mu=1e-300)
    with pytest.raises(ValueError, match=r"^noise of scale .* is too wide to draw on SPD\(3\)"):
        plan(ball_of(SPD(3)), 1, 0.1, mechanism="intrinsic")


# ---------------------------------------------------------------------- nothing depends on the records


@every_notion
@pytest.mark.parametrize("manifold", [Sphere(2), SPD(2), Grassmann(2, 4), Hyperbolic(2)], ids=repr)
def test_two_unlike_data_sets_get_the_same_noise_object(manifold: Manifold, privacy: Privacy) -> None:
    ball = ball_of(manifold)
    spread = random_points(manifold, 30, np.random.default_rng(1), 2.0 * ball.radius)
    spread[:3] = np.nan
    same = np.broadcast_to(ball.center, spread.shape).copy()
    one, other = (
        private_mean(x, ball, **privacy.parameters(), simulate=np.random.default_rng(1), anyway=True) for x in (spread, same)
    )
    assert one.noise is other.noise, "chosen once for the public numbers"
    assert not np.array_equal(one.draws[0], other.draws[0])
    exchanged = replace(other, draws=one.draws, made=None)
    assert str(exchanged) == str(one), "everything else that is said follows from the draw"
    assert exchanged.to_json() == one.to_json()
    assert one.plan.expected_error == plan(ball, 30, **privacy.parameters()).expected_error


@every_manifold
def test_every_manifold_has_a_mechanism_for_every_notion(manifold: Manifold) -> None:
    for privacy in NOTIONS:
        noise = planned(Mean(ball_of(manifold)), 1, privacy).noise
        assert math.isfinite(noise.expected_error()), privacy
