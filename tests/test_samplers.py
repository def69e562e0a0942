"""Draws against the law: radius, eigenvalues, directions; and the same tests against samplers that are wrong.

Each goodness-of-fit statement below has a false-alarm probability of ``LEVEL = 1e-4`` (about 300 of them: 3% for the whole
file), with fixed seeds. The laws they are tested against are themselves tested, against independent integrals, in
``test_laws.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from cases import MANIFOLDS, ONE_OF_EACH, every_manifold, longer, random_points
from scipy import stats

from geodp.inputs import Array
from geodp.manifolds import SPD, Euclidean, Grassmann, Hyperbolic, Manifold, PlanarShapes, Product, Rotations, Sphere, VolumeBound
from geodp.noise.comparison import Comparison
from geodp.noise.families import Gaussian, Laplace, Law
from paper.metropolis import metropolis

LEVEL = 1e-4


def off_center(manifold: Manifold) -> Array:
    return random_points(manifold, 1, np.random.default_rng(3))[0]


def sigmas(manifold: Manifold) -> Iterator[float]:
    """Small, medium, and near the existence limit or, where there is none, wider than the manifold."""
    entropy = manifold.volume_entropy
    if entropy:
        yield from (0.01 / entropy, 0.3 / entropy)
        # with a compact factor the envelope is loose, and a law this wide leaves it long before the limit
        yield (0.4 if isinstance(manifold, Product) else 0.75) / entropy
    else:
        yield from (1e-9, 0.1, 2.0)


CASES = [(manifold, sigma) for manifold in MANIFOLDS for sigma in sigmas(manifold)]


# ---------------------------------------------------------------------------- the tests that must pass, and must fail


def radius_fits(law: Law, radius: Array) -> float:
    """Kolmogorov and Smirnov: the p-value of these distances from the centre."""
    return float(stats.kstest(radius, law.radius_cdf).pvalue)


def directions_fit(law: Law, center: Array, x: Array) -> float:
    """Every coordinate of a uniform unit vector follows one beta law; the least p-value, Bonferroni-corrected."""
    coordinates = law.manifold.coordinates(center, law.manifold.log(center, x))
    unit = coordinates / np.linalg.vector_norm(coordinates, axis=-1, keepdims=True)
    if law.manifold.dim == 1:
        return float(stats.binomtest(int((unit > 0.0).sum()), unit.size).pvalue)
    half = 0.5 * (law.manifold.dim - 1)
    values = [stats.kstest(0.5 * (column + 1.0), stats.beta(half, half).cdf).pvalue for column in unit.T[:8]]
    return float(min(values)) * len(values)


def eigenvalues_fit(law: Law, x: Array) -> float:
    """The joint law of the eigenvalues of ``log x`` on ``SPD(2)`` and ``SPD(3)``, centred at the identity.

    Rosenblatt's transform to independent uniform numbers: the length ``w`` of the traceless part, then given it the trace
    part and (for three) the angle in the Weyl chamber, each by brute-force summation of its density.
    """
    k = law.manifold.point_shape[0]
    eigenvalues = np.log(np.linalg.eigvalsh(x))
    along = eigenvalues.sum(axis=1) / math.sqrt(k)
    traceless = eigenvalues - eigenvalues.mean(axis=1, keepdims=True)
    w = np.linalg.vector_norm(traceless, axis=1)
    angles = (np.arange(200) + 0.5) / 200 * math.pi / 3.0
    grid = (np.arange(1500) + 0.5) / 1500 * 1.2 * max(w.max(), np.abs(along).max())

    def interaction(length: Array, angle: Array) -> Array:
        parts = [length * math.sqrt(2.0 / 3.0) * np.cos(angle + 2.0 * math.pi / 3.0 * j) for j in range(3)]
        return np.prod([np.abs(np.sinh(0.5 * (parts[i] - parts[j]))) for i, j in ((0, 1), (0, 2), (1, 2))], axis=0)

    shell = np.sinh(grid / math.sqrt(2.0)) if k == 2 else grid * interaction(grid[:, None], angles).sum(axis=1)
    line = np.exp(law.log_kernel(np.hypot(grid[:, None], np.concatenate([-grid[::-1], grid]))))
    density = shell * line.sum(axis=1)
    step = grid[1] - grid[0]
    uniforms = [np.interp(w, grid + 0.5 * step, density.cumsum() / density.sum())]
    rows = np.clip((w / step).astype(int), 0, len(grid) - 1)
    conditional = line.cumsum(axis=1) / line.sum(axis=1, keepdims=True)
    columns = np.concatenate([-grid[::-1], grid]) + 0.5 * step
    uniforms.append(np.array([np.interp(a, columns, conditional[r]) for a, r in zip(along, rows, strict=True)]))
    if k == 3:
        weights = interaction(w[:, None], angles)
        middle = eigenvalues[:, 1] - eigenvalues.mean(axis=1)
        # the chamber angle from the middle eigenvalue, w sqrt(2/3) cos(angle + 4 pi/3) on this chamber
        angle = np.arccos(np.clip(middle / (w * math.sqrt(2.0 / 3.0)), -1.0, 1.0)) - math.pi / 3.0
        cumulative = weights.cumsum(axis=1) / weights.sum(axis=1, keepdims=True)
        right = angles + 0.5 * (angles[1] - angles[0])
        uniforms.append(np.array([np.interp(a, right, c) for a, c in zip(angle, cumulative, strict=True)]))
    values = [stats.kstest(u, "uniform").pvalue for u in uniforms]
    correlations = [stats.spearmanr(uniforms[0], u).pvalue for u in uniforms[1:]]
    return float(min(values + correlations)) * len(values + correlations)


# ---------------------------------------------------------------------------- every manifold


@pytest.mark.parametrize("law_type", [Laplace, Gaussian])
@pytest.mark.parametrize(
    ("manifold", "sigma"),
    [pytest.param(*case, marks=() if case[0] in ONE_OF_EACH else pytest.mark.slow) for case in CASES],
    ids=str,
)
def test_radius_follows_the_law(manifold: Manifold, sigma: float, law_type: type[Law]) -> None:
    law = law_type(manifold, sigma)
    # lengths of the tangent vectors themselves: near the limit the points leave float64 (condition numbers past 1e16)
    coordinates = law._comparison._accepted(math.ceil(2500 / law.acceptance_rate), np.random.default_rng(17))
    assert radius_fits(law, np.linalg.vector_norm(coordinates, axis=-1)) > LEVEL


@pytest.mark.parametrize("law_type", [Laplace, Gaussian])
@pytest.mark.parametrize("manifold", longer(MANIFOLDS), ids=str)
def test_points_follow_the_law_around_any_center(manifold: Manifold, law_type: type[Law]) -> None:
    sigma = 0.2 / manifold.volume_entropy if manifold.volume_entropy else 0.2
    law, center = law_type(manifold, sigma), off_center(manifold)
    x = law.sample(center, 2500, np.random.default_rng(18))
    assert manifold.check_point(x) is None
    assert radius_fits(law, manifold.dist(center, x)) > LEVEL
    if manifold.roots.isotropic:
        assert directions_fit(law, center, x) > LEVEL


@pytest.mark.parametrize("manifold", longer([m for m in MANIFOLDS if not m.roots.isotropic]), ids=str)
def test_acceptance_rate_is_what_happens(manifold: Manifold) -> None:
    for sigma in list(sigmas(manifold))[:2]:
        law = Laplace(manifold, sigma)
        trials = 4000
        accepted = len(law._comparison._accepted(trials, np.random.default_rng(19)))
        assert stats.binomtest(accepted, trials, min(law.acceptance_rate, 1.0)).pvalue > LEVEL


@pytest.mark.parametrize("manifold", [m for m in MANIFOLDS if m.roots.isotropic], ids=str)
def test_isotropic_manifolds_accept_every_trial_because_the_envelope_is_the_density(manifold: Manifold) -> None:
    rng = np.random.default_rng(20)
    coordinates = rng.normal(size=(200, manifold.dim))
    length = rng.uniform(0.01, 0.99, size=200) * min(manifold.diameter, 5.0)
    coordinates *= (length / np.linalg.vector_norm(coordinates, axis=-1))[:, None]
    density = manifold.log_volume_density(manifold.origin, manifold.tangent(manifold.origin, coordinates))
    np.testing.assert_allclose(manifold.volume_bound.log_value(length), density, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "manifold", [m for m in MANIFOLDS if not m.roots.isotropic] + [SPD(10), Product(Hyperbolic(2), Hyperbolic(5))], ids=str
)
def test_the_envelope_bounds_the_volume_density(manifold: Manifold) -> None:
    rng = np.random.default_rng(21)
    coordinates = rng.normal(size=(2000, manifold.dim))
    length = rng.uniform(0.0, 1.0, size=2000) * min(manifold.diameter, 40.0)
    coordinates *= (length / np.linalg.vector_norm(coordinates, axis=-1))[:, None]
    vectors = manifold.tangent(manifold.origin, coordinates)
    density = np.asarray(manifold.log_volume_density(manifold.origin, vectors))
    inside = np.asarray(manifold.inside_cut_locus(manifold.origin, vectors))
    assert (density[inside] <= manifold.volume_bound.log_value(length)[inside] + 1e-9).all()


# ---------------------------------------------------------------------------- positive-definite matrices


@pytest.mark.parametrize("law_type", [Laplace, Gaussian])
@pytest.mark.parametrize(("k", "sigma"), longer([(2, 0.05), (2, 0.4), (3, 0.05), (3, 0.3)], [(2, 0.4), (3, 0.05)]))
def test_spd_eigenvalues_follow_their_joint_law(k: int, sigma: float, law_type: type[Law]) -> None:
    law = law_type(SPD(k), sigma)
    assert eigenvalues_fit(law, law.sample(np.eye(k), 4000, np.random.default_rng(22))) > LEVEL


@pytest.mark.parametrize("k", [2, 3, 5])
def test_spd_eigenvectors_are_uniform(k: int) -> None:
    x = Laplace(SPD(k), 0.1).sample(np.eye(k), 4000, np.random.default_rng(23))
    vectors = np.linalg.eigh(x)[1]
    squares = vectors[:, 0, -1] ** 2
    assert stats.kstest(squares, stats.beta(0.5, 0.5 * (k - 1)).cdf).pvalue > LEVEL


# ---------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(("n", "expected"), [(25, 0.08198), (100, 0.02053), (500, 0.00411)])
def test_mean_distance_on_the_two_sphere(n: int, expected: float) -> None:
    law = Laplace(Sphere(2), 1.02645 / n)
    assert law.mean_radius() == pytest.approx(expected, abs=6e-6)
    radius = Sphere(2).dist([0.0, 0.0, 1.0], law.sample([0.0, 0.0, 1.0], 100_000, np.random.default_rng(24)))
    assert radius.mean() == pytest.approx(expected, abs=6e-6 + 4.0 * radius.std() / math.sqrt(len(radius)))


@pytest.mark.parametrize(("n", "expected"), [(25, 0.7390), (100, 0.1803), (500, 0.0360)])
def test_mean_distance_on_spd2(n: int, expected: float) -> None:
    law = Laplace(SPD(2), 6.0 / n)
    radius = SPD(2).dist(np.eye(2), law.sample(np.eye(2), 50_000, np.random.default_rng(25)))
    assert radius.mean() == pytest.approx(expected, abs=5e-5 + 4.0 * radius.std() / math.sqrt(len(radius)))


# ---------------------------------------------------------------------------- wrong samplers are caught

WRONG_SCALE = [Euclidean(4), Sphere(2), Hyperbolic(5), SPD(2), SPD(3), Grassmann(2, 5), Rotations(4), PlanarShapes(7)]


@pytest.mark.parametrize("manifold", WRONG_SCALE, ids=str)
def test_a_scale_three_percent_off_is_rejected(manifold: Manifold) -> None:
    sigma = 0.1 / (manifold.volume_entropy or 1.0)
    rng = np.random.default_rng(26)
    right, wrong = (
        np.linalg.vector_norm(Laplace(manifold, s)._comparison._accepted(40_000, rng), axis=-1) for s in (sigma, 1.03 * sigma)
    )
    assert radius_fits(Laplace(manifold, sigma), right) > LEVEL
    assert radius_fits(Laplace(manifold, sigma), wrong) < LEVEL


@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), Grassmann(2, 5), Rotations(4), Product(Sphere(2), Euclidean(3))], ids=str)
def test_a_skipped_acceptance_step_is_rejected(manifold: Manifold, monkeypatch: pytest.MonkeyPatch) -> None:
    law = Laplace(manifold, 0.5 / (manifold.volume_entropy or 1.0))
    trials = 40_000
    expected = law.acceptance_rate
    monkeypatch.setattr(type(manifold), "raw_log_volume_density", lambda self, p, v: np.inf)
    monkeypatch.setattr(type(manifold), "raw_inside_cut_locus", lambda self, p, v: np.True_)
    coordinates = law._comparison._accepted(trials, np.random.default_rng(27))
    assert len(coordinates) == trials
    assert expected < 0.99
    assert radius_fits(law, np.linalg.vector_norm(coordinates, axis=-1)) < LEVEL


@pytest.mark.parametrize("manifold", [Sphere(2), Sphere(5), Hyperbolic(2), Hyperbolic(5), PlanarShapes(4), Rotations(3)], ids=str)
def test_a_missing_jacobian_is_rejected(manifold: Manifold, monkeypatch: pytest.MonkeyPatch) -> None:
    law = Laplace(manifold, 0.3 / (manifold.volume_entropy or 1.0))
    honest = law.sample(manifold.origin, 40_000, np.random.default_rng(28))
    assert radius_fits(law, manifold.dist(manifold.origin, honest)) > LEVEL
    monkeypatch.setattr(VolumeBound, "log_value", lambda self, radius: np.zeros_like(radius))
    flat = Comparison(manifold, law.log_kernel).sample(manifold.origin, 40_000, np.random.default_rng(28))
    assert radius_fits(law, manifold.dist(manifold.origin, flat)) < LEVEL


def test_a_wrong_eigenvalue_law_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the acceptance step the radius is nearly right at this scale; the eigenvalues are not."""
    law = Laplace(SPD(3), 0.35)
    monkeypatch.setattr(SPD, "raw_log_volume_density", lambda self, p, v: np.inf)
    x = law.sample(np.eye(3), 6000, np.random.default_rng(29))
    assert eigenvalues_fit(law, x) < LEVEL


def test_directions_that_favour_an_axis_are_rejected() -> None:
    law = Laplace(Sphere(5), 0.3)
    x = law.sample(Sphere(5).origin, 10_000, np.random.default_rng(30))
    stretched = Sphere(5).project(x * np.array([1.1, 1.0, 1.0, 1.0, 1.0, 1.0]))
    assert directions_fit(law, Sphere(5).origin, x) > LEVEL
    assert directions_fit(law, Sphere(5).origin, stretched) < LEVEL


# ---------------------------------------------------------------------------- the centre does not matter


@every_manifold
def test_trials_do_not_depend_on_the_center(manifold: Manifold) -> None:
    law = Laplace(manifold, 0.2 / (manifold.volume_entropy or 1.0))
    here, there = np.random.default_rng(31), np.random.default_rng(31)
    center = off_center(manifold)
    at_origin, elsewhere = law.sample(manifold.origin, 50, here), law.sample(center, 50, there)
    assert here.bit_generator.state == there.bit_generator.state
    np.testing.assert_allclose(manifold.dist(center, elsewhere), manifold.dist(manifold.origin, at_origin), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", [0, 1, 5, (2, 3), ()])
@pytest.mark.parametrize("manifold", [Sphere(2), SPD(3), Product(Sphere(2), Euclidean(3))], ids=str)
def test_sample_shape(manifold: Manifold, size: int | tuple[int, ...]) -> None:
    x = Laplace(manifold, 0.1).sample(manifold.origin, size, np.random.default_rng(0))
    assert x.shape == ((size,) if isinstance(size, int) else size) + manifold.point_shape


def test_sample_wants_one_point_of_the_manifold() -> None:
    law = Laplace(Sphere(2), 0.1)
    with pytest.raises(ValueError, match="center is not a point"):
        law.sample([0.0, 0.0, 2.0], 1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="center must be one point"):
        law.sample(np.eye(3), 1, np.random.default_rng(0))


def test_a_hopeless_envelope_is_an_error_and_not_an_endless_loop() -> None:
    law = Laplace(SPD(5), 0.97 / SPD(5).volume_entropy)
    with pytest.raises(ValueError, match="trials were accepted"):
        law.sample(np.eye(5), 100, np.random.default_rng(0))


def test_large_dimensions_and_tiny_scales() -> None:
    for manifold in (Sphere(1000), Hyperbolic(1000), Euclidean(10_000)):
        law = Laplace(manifold, 1e-12)
        x = law.sample(manifold.origin, 50, np.random.default_rng(0))
        assert manifold.dist(manifold.origin, x).mean() == pytest.approx(manifold.dim * 1e-12, rel=0.05)


# ---------------------------------------------------------------------------- the paper's chain


@pytest.mark.parametrize(
    "law", longer([Laplace(Sphere(2), 0.2), Gaussian(SPD(2), 0.3), Laplace(Rotations(4), 0.1)], [Gaussian(SPD(2), 0.3)]), ids=str
)
def test_the_chain_converges_to_the_law(law: Law) -> None:
    center = off_center(law.manifold)
    step = 2.0 * law.mean_radius() / math.sqrt(law.manifold.dim)
    x = metropolis(law, center, 1000, np.random.default_rng(32), steps=250, step=step)
    assert law.manifold.check_point(x) is None
    assert radius_fits(law, law.manifold.dist(center, x)) > LEVEL


def test_a_short_chain_is_caught() -> None:
    law = Laplace(Sphere(2), 0.2)
    x = metropolis(law, [0.0, 0.0, 1.0], 1500, np.random.default_rng(33), steps=3, step=0.1)
    assert radius_fits(law, law.manifold.dist([0.0, 0.0, 1.0], x)) < LEVEL
