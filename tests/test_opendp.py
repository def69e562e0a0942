"""Releases as measurements of the real OpenDP: its compositors, filters and contexts take them, and their maps are true.

Oracles are the exact privacy curves, group privacy by the chain of its definition, and OpenDP's own arithmetic of composition.
Draws are not tested here: the functions are the releases themselves. The checks of values allow for noise at a chance of a false
alarm below 1e-6 each, by the release's own error quantile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

dp = pytest.importorskip("opendp.prelude", reason="OpenDP is an extra: pip install 'geodp[opendp]'")

from geodp import SPD, Ball, Dataset, Euclidean, Release, Sphere, Torus, private_mean  # noqa: E402
from geodp.integrations import opendp as bridge  # noqa: E402
from geodp.privacy.cost import ApproximateCost, GaussianCost, LaplaceCost, PureCost, SelectionCost, compose  # noqa: E402
from geodp.privacy.groups import group_cost, group_parameters  # noqa: E402

dp.enable_features("contrib", "honest-but-curious")

BALL = Ball(SPD(2), np.eye(2), 1.0)
N = 400
X = np.array([np.diag(np.exp(u)) for u in np.random.default_rng(0).normal(0.0, 0.2, (N, 2))])
CAP = Ball(Sphere(2), [0.0, 0.0, 1.0], 0.7)
CHANGE = dp.change_one_distance()

Make = Callable[..., Any]
#: Every constructor of records, with a place that suits it.
RECORDS: dict[str, tuple[Make, Any]] = {
    "mean": (bridge.make_frechet_mean, BALL),
    "mean on a sphere": (bridge.make_frechet_mean, CAP),
    "coverage": (bridge.make_coverage, BALL),
    "variance": (bridge.make_frechet_variance, BALL),
    "covariance": (bridge.make_tangent_covariance, BALL),
    "average": (bridge.make_average, Torus(2)),
    "average of matrices": (partial(bridge.make_average, bound=3.0), SPD(2)),
    "ball": (bridge.make_enclosing_ball, Ball(SPD(2), np.eye(2), 5.0)),
}


def records_of(place: Any) -> np.ndarray:
    manifold = place.manifold if isinstance(place, Ball) else place
    return X if manifold == SPD(2) else np.broadcast_to(manifold.origin, (N, *manifold.point_shape))


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("asked", [{"epsilon": 0.5}, {"epsilon": 0.5, "delta": 1e-6}, {"rho": 0.02}], ids=str)
def test_the_map_says_what_was_asked_for_and_the_function_releases_it(name: str, asked: dict[str, float]) -> None:
    make, place = RECORDS[name]
    measurement = make(bridge.record_domain(place, N), CHANGE, **asked)
    spent, wanted = measurement.map(1), tuple(asked.values())
    found = spent if isinstance(spent, tuple) else (spent,)
    assert all(0.0 < a <= b for a, b in zip(found, wanted, strict=True))
    assert measurement.map(0) == (0.0 if len(wanted) == 1 else (0.0, 0.0))
    assert (
        str(measurement.output_measure)
        == {
            ("epsilon",): "MaxDivergence",
            ("epsilon", "delta"): "Approximate(MaxDivergence)",
            ("rho",): "ZeroConcentratedDivergence",
        }[tuple(asked)]
    )
    release = measurement(records_of(place))
    assert release.private
    assert release.cost.meets(release.privacy)
    assert release.privacy.parameters() == asked


def test_the_map_for_several_changes_is_the_curve_of_noise_that_many_times_as_far_away() -> None:
    # tangent Laplace noise: the exact curve for centres k times as far apart is the truth, and the map is neither below nor loose
    domain = bridge.record_domain(Ball(Euclidean(3), np.zeros(3), 1.0), 50)
    pure = bridge.make_frechet_mean(domain, CHANGE, epsilon=0.3)
    release = pure(np.zeros((50, 3)))
    assert release.cost == LaplaceCost(release.cost.epsilon, 3)
    for k in (1, 2, 5):
        assert 0.3 * k * (1 - 1e-9) <= pure.map(k) <= 0.3 * k * (1 + 1e-12)
    concentrated = bridge.make_frechet_mean(domain, CHANGE, rho=0.01)
    for k in (1, 2, 5):
        assert 0.01 * k**2 * (1 - 1e-6) <= concentrated.map(k) <= 0.01 * k**2 * (1 + 1e-12)
    both = bridge.make_frechet_mean(domain, CHANGE, epsilon=0.3, delta=1e-6)
    noise = both(np.zeros((50, 3))).cost
    assert isinstance(noise, LaplaceCost)
    for k in (2, 5):
        epsilon, delta = both.map(k)
        true = LaplaceCost(noise.ratio * k, 3)
        assert true.delta_at(epsilon) <= delta
        assert true.delta_at(epsilon * (1 - 1e-6)) > delta


@pytest.mark.parametrize(
    "cost", [PureCost(0.4), GaussianCost(0.3), LaplaceCost(0.5, 2), SelectionCost(0.2), ApproximateCost(0.1, 1e-7)], ids=str
)
@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_group_costs_imply_the_chain_of_the_definition_and_never_less_than_it_must(cost: Any, k: int) -> None:
    # the chain P0 <= e^e P1 + d <= ... gives a bound for every epsilon of one change: the group's curve must not be above
    # the best of them, and for noise and pure privacy it is far below. It must also not be below the curve of one change.
    group = group_cost(cost, k)
    for epsilon in (0.2, 0.5, 1.0):
        e, d = group_parameters(epsilon, cost.delta_at(epsilon), k)
        assert group.delta_at(e) <= d * (1 + 1e-9)
        assert group.delta_at(epsilon) >= cost.delta_at(epsilon)
    assert group.rho >= k * cost.rho


def test_group_parameters_are_tight_for_the_mechanism_that_attains_them() -> None:
    # on 0, 1, ..., k a mechanism that attains (epsilon, delta) for neighbours: P_i({1}) = f_i with f_(i+1) = e^eps f_i + delta
    epsilon, delta, k = 0.3, 1e-4, 4
    chance = 0.0
    for _ in range(k):
        chance = math.exp(epsilon) * chance + delta
    assert group_parameters(epsilon, delta, k)[1] == pytest.approx(chance, rel=1e-12)
    assert group_parameters(epsilon, delta, k)[0] == pytest.approx(1.2, rel=1e-12)


def test_a_wrong_group_rule_would_be_noticed() -> None:
    # linear rho, which is not true: the exact Gaussian curve at distance 3 is above that of 3 rho
    truth, wrong = GaussianCost(3 * 0.3), compose([GaussianCost(0.3)] * 3)
    assert truth.delta_at(0.5) > wrong.delta_at(0.5)
    assert group_cost(GaussianCost(0.3), 3).delta_at(0.5) >= truth.delta_at(0.5)


def test_approximate_privacy_for_many_changes_is_refused_where_delta_would_be_one() -> None:
    both = bridge.make_frechet_mean(bridge.record_domain(BALL, N), CHANGE, epsilon=2.0, delta=1e-3)
    assert both.map(2)[1] < 1.0
    with pytest.raises(dp.OpenDPException, match="says nothing about 9 changes"):
        both.map(9)


# ---------------------------------------------------------------------- in OpenDP's own machines


def test_adaptive_composition_takes_releases_and_refuses_one_that_costs_more() -> None:
    domain = bridge.record_domain(BALL, N)
    composition = dp.c.make_adaptive_composition(domain, CHANGE, dp.max_divergence(), d_in=1, d_mids=[0.4, 0.6])
    assert composition.map(1) == pytest.approx(1.0)
    queryable = composition(X)
    first: Release = queryable(bridge.make_coverage(domain, CHANGE, epsilon=0.4))
    assert np.linalg.vector_norm(first.value) <= first.error_quantile(1 - 1e-7), "all are valid and in the ball"
    with pytest.raises(dp.OpenDPException):
        queryable(bridge.make_frechet_mean(domain, CHANGE, epsilon=0.7))
    mean = queryable(bridge.make_frechet_mean(domain, CHANGE, epsilon=0.6))
    assert mean.epsilon == 0.6


def test_a_privacy_filter_stops_releases_when_the_budget_is_spent() -> None:
    domain = bridge.record_domain(BALL, N)
    odometer = dp.c.make_fully_adaptive_composition(domain, CHANGE, dp.zero_concentrated_divergence())
    queryable = dp.c.make_privacy_filter(odometer, d_in=1, d_out=0.1)(X)
    mean = bridge.make_frechet_mean(domain, CHANGE, rho=0.04)
    assert queryable(mean).rho == queryable(mean).rho == 0.04
    with pytest.raises(dp.OpenDPException, match="exhausted"):
        queryable(mean)


LOSSES: list[tuple[dict[str, float], dict[str, float]]] = [
    ({"epsilon": 1.0}, {"epsilon": 0.25}),
    ({"rho": 0.1}, {"rho": 0.02}),
    ({"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 0.3, "delta": 1e-7}),
    ({"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 0.3, "delta": 0.0}),
]


@pytest.mark.parametrize(("total", "query"), LOSSES, ids=str)
@pytest.mark.parametrize("changes", [1, 3])
def test_a_context_gives_a_query_its_privacy(total: dict[str, float], query: dict[str, float], changes: int) -> None:
    context = dp.Context.compositor(X, dp.unit_of(changes=changes), dp.loss_of(**total), domain=bridge.record_domain(BALL, N))
    release = context.query(**query).frechet_mean().release()
    parameters = release.privacy.parameters()
    first = next(iter(query))
    share = changes**2 if first == "rho" else changes
    assert parameters[first] == pytest.approx(query[first] / share, rel=1e-9)
    spent = context.current_privacy_loss()
    spent = spent if isinstance(spent, tuple) else (spent,)
    # never more than the query was given, and not much less; approximate privacy of groups has some slack in it
    assert all(a <= b for a, b in zip(spent, query.values(), strict=True))
    if len(query) == 1 or changes == 1:
        assert spent == pytest.approx(tuple(query.values()), rel=1e-3)
    assert spent[0] > 0.5 * query[first]


def test_a_context_with_shares_and_a_ball_that_a_query_found() -> None:
    outer = Ball(SPD(2), np.eye(2), 5.0)
    context = dp.Context.compositor(
        X, dp.unit_of(changes=1), dp.loss_of(epsilon=4.0), split_by_weights=[1, 1, 2], domain=bridge.record_domain(outer, N)
    )
    found = context.query().enclosing_ball().release()
    assert context.query().frechet_variance(ball=found.ball).release().epsilon == pytest.approx(1.0)
    mean = context.query().frechet_mean(ball=found.ball, law="laplace").release()
    assert mean.epsilon == pytest.approx(2.0)
    assert mean.ball is found.ball
    with pytest.raises(ValueError, match="exhausted"):
        context.query()


def test_private_numbers_and_persons_follow_the_metric() -> None:
    whole = bridge.make_frechet_mean(bridge.record_domain(BALL), dp.symmetric_distance(), epsilon=1.0)
    release = whole(X)
    assert release.neighbours == "add, remove or replace one record"
    assert release.count is not None
    assert whole.map(1) <= 1.0
    assert whole.map(2) == pytest.approx(2 * whole.map(1), rel=1e-9)
    ids = np.repeat(np.arange(N // 4), 4)
    persons = bridge.make_frechet_mean(bridge.record_domain(BALL, N // 4), dp.change_one_id_distance("id"), epsilon=1.0)
    assert persons(Dataset(X, unit=ids)).neighbours == "replace one person"
    private = bridge.make_frechet_variance(bridge.record_domain(BALL), dp.symmetric_id_distance("id"), rho=0.1)
    assert private(Dataset(X, unit=ids)).neighbours == "add, remove or replace one person"
    with pytest.raises(dp.OpenDPException, match="about persons"):
        persons(X)
    with pytest.raises(dp.OpenDPException, match="about records"):
        whole(Dataset(X, unit=ids))
    ball = bridge.make_enclosing_ball(
        bridge.record_domain(Ball(SPD(2), np.eye(2), 5.0)), dp.insert_delete_distance(), epsilon=2.0
    )
    assert ball(X).cost.epsilon <= ball.map(1) <= 2.0


# ---------------------------------------------------------------------- summaries of one's own


def test_geodesic_noise_after_a_transformation_has_the_map_of_both() -> None:
    sphere = Sphere(2)
    space = bridge.point_domain(sphere), bridge.geodesic_distance(sphere)

    def first_axis(x: Any) -> Any:
        point = x.mean(axis=0)
        return point / np.linalg.norm(point)

    summary = dp.t.make_user_transformation(
        bridge.record_domain(sphere, 100), CHANGE, *space, function=first_axis, stability_map=lambda k: 0.02 * k
    )
    chained = summary >> bridge.make_geodesic_noise(*space, 0.02, epsilon=1.0)
    assert chained.map(1) == pytest.approx(1.0)
    assert 2.0 <= chained.map(2) <= 2.0 * (1 + 1e-12)
    release = chained(np.tile([0.0, 0.6, 0.8], (100, 1)))
    assert sphere.dist(release.value, [0.0, 0.6, 0.8]) <= release.error_quantile(1 - 1e-7)
    assert summary >> bridge.make_geodesic_noise(*space, 0.02, rho=0.1)
    concentrated = bridge.make_geodesic_noise(*space, 0.02, rho=0.1)
    assert concentrated.map(0.06) == pytest.approx(0.9)
    assert concentrated.map(0.001) <= concentrated.map(0.02)  # shorter distances cost no more


# ---------------------------------------------------------------------- what is refused


def test_what_does_not_fit_is_refused_with_a_sentence() -> None:
    domain = bridge.record_domain(BALL, N)
    with pytest.raises(ValueError, match="keeps n private"):
        bridge.make_frechet_mean(domain, dp.symmetric_distance(), epsilon=1.0)
    with pytest.raises(ValueError, match="needs n"):
        bridge.make_frechet_mean(bridge.record_domain(BALL), CHANGE, epsilon=1.0)
    with pytest.raises(ValueError, match="needs a ball"):
        bridge.make_frechet_mean(bridge.record_domain(SPD(2), N), CHANGE, epsilon=1.0)
    with pytest.raises(ValueError, match="metric must be one of"):
        bridge.make_frechet_mean(domain, dp.discrete_distance(), epsilon=1.0)
    with pytest.raises(TypeError, match="record_domain"):
        bridge.make_frechet_mean(dp.atom_domain(T=int), CHANGE, epsilon=1.0)
    with pytest.raises(ValueError, match="the ball is on"):
        bridge.make_frechet_mean(domain, CHANGE, epsilon=1.0, ball=CAP)
    with pytest.raises(ValueError, match="exactly one"):
        bridge.make_frechet_mean(domain, CHANGE, epsilon=1.0, rho=0.1)
    with pytest.raises(ValueError, match="about must be"):
        bridge.make_frechet_variance(domain, CHANGE, epsilon=1.0, about="here")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Ball or on a Manifold"):
        bridge.record_domain(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="input metric must be geodesic_distance"):
        bridge.make_geodesic_noise(bridge.point_domain(Sphere(2)), bridge.geodesic_distance(Sphere(3)), 0.1, epsilon=1.0)


def test_data_that_are_no_members_are_refused_although_opendp_does_not_look() -> None:
    measurement = bridge.make_frechet_mean(bridge.record_domain(BALL, N), CHANGE, epsilon=1.0)
    with pytest.raises(dp.OpenDPException, match="another number"):
        measurement(X[:-1])
    with pytest.raises(dp.OpenDPException, match="shape"):
        measurement(X[:, :1])
    assert bridge.record_domain(BALL, N).member(X)
    assert not bridge.record_domain(BALL, N).member(X[1:])
    assert bridge.record_domain(BALL).member(X[1:])


def test_a_record_that_is_no_point_changes_nothing_but_the_value() -> None:
    # neither an exception nor anything public may depend on it
    spoilt = X.copy()
    spoilt[0] = np.nan
    measurement = bridge.make_frechet_mean(bridge.record_domain(BALL, N), CHANGE, epsilon=1.0)
    one, other = measurement(X), measurement(spoilt)
    assert (one.scale, one.grid, one.sensitivity, one.tolerance) == (other.scale, other.grid, other.sensitivity, other.tolerance)


def test_the_measurement_is_the_release_of_the_same_name() -> None:
    mine = private_mean(X, BALL, epsilon=0.5)
    theirs = bridge.make_frechet_mean(bridge.record_domain(BALL, N), CHANGE, epsilon=0.5)(X)
    assert (mine.scale, mine.mechanism, mine.sensitivity, mine.cost) == (
        theirs.scale,
        theirs.mechanism,
        theirs.sensitivity,
        theirs.cost,
    )
