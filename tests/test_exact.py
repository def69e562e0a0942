"""The exact sampler follows its law: every test has a fixed seed, and would reject a correct sampler with probability
``LEVEL`` at most if the seed were drawn afresh (about sixty such tests: one false alarm in 160 suites)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from cases import random_points
from flint import arb
from scipy import stats

from geodp import SPD, Euclidean, Grassmann, Hyperbolic, Manifold, PlanarShapes, Product, Rotations, SPDLogEuclidean, Sphere
from geodp.arithmetic import intervals
from geodp.inputs import Array
from geodp.manifolds.roots import Roots
from geodp.noise import exact
from geodp.noise.exact import radius
from geodp.noise.families import Gaussian, Laplace

LEVEL = 1e-4

# ---------------------------------------------------------------------- oracles: areas of geodesic spheres, up to a constant


@lru_cache
def nodes(low: float, high: float) -> tuple[Array, Array]:
    x, weights = np.polynomial.legendre.leggauss(200)
    return 0.5 * (high - low) * x + 0.5 * (high + low), 0.5 * (high - low) * weights


def on_circle(density: Callable[[Array, Array], Array], s: Array) -> Array:
    """Integral of a density of the radial part of rank two over the arc of radius ``s`` in the positive quadrant."""
    angle, weights = nodes(0.0, math.pi / 2.0)
    return s * (density(s[:, None] * np.cos(angle), s[:, None] * np.sin(angle)) @ weights)


def area(manifold: Manifold, s: Array) -> Array:
    """From the densities of the radial parts (Helgason), not from the volume density the sampler uses."""
    match manifold:
        case Euclidean() | Sphere() | Hyperbolic():
            return np.exp(log_area(manifold, s))
        case SPDLogEuclidean():
            return s ** (manifold.dim - 1)
        case SPD(k=1):
            return np.ones_like(s)
        case SPD(k=2):
            # trace and difference of the eigenvalues: a sphere in R^3 cut into circles
            angle, weights = nodes(0.0, math.pi)
            return s * (np.sinh(s[:, None] * np.sin(angle) / math.sqrt(2.0)) @ weights)
        case SPD(k=3):
            polar, polar_weights = nodes(0.0, math.pi)
            around = np.linspace(0.0, 2.0 * math.pi, 300, endpoint=False)
            first, second = np.array([1.0, -1.0, 0.0]) / math.sqrt(2.0), np.array([1.0, 1.0, -2.0]) / math.sqrt(6.0)
            plane = np.cos(around)[:, None] * first + np.sin(around)[:, None] * second
            gaps = np.abs(plane[:, [0, 0, 1]] - plane[:, [1, 2, 2]])
            size = s[:, None] * np.sin(polar)
            mean = np.array([np.prod(np.sinh(0.5 * row[:, None, None] * gaps), axis=-1).mean(axis=-1) for row in size])
            return s**2 * (mean @ (polar_weights * np.sin(polar)))
        case Grassmann(p=1, m=m):
            return np.sin(s) ** (m - 2)
        case Grassmann(p=2, m=m):
            return on_circle(
                lambda a, b: (
                    np.abs(np.sin(a - b) * np.sin(a + b)) * (np.sin(a) * np.sin(b)) ** (m - 4) * (np.maximum(a, b) < math.pi / 2)
                ),
                s,
            )
        case Rotations(n=2):
            return np.ones_like(s)
        case Rotations(n=3):
            return np.sin(s / 2.0) ** 2
        case Rotations(n=n):
            assert n in (4, 5)
            return on_circle(
                lambda a, b: (
                    (np.sin((a - b) / 2) * np.sin((a + b) / 2)) ** 2
                    * (np.sin(a / 2) * np.sin(b / 2)) ** (2 * (n - 4))
                    * (np.maximum(a, b) < math.pi)
                ),
                s,
            )
        case PlanarShapes(landmarks=landmarks):
            return np.sin(s) ** (2 * landmarks - 6) * np.sin(2.0 * s)
        case Product(factors=(one, two)):
            return on_circle(
                lambda a, b: (
                    area(one, a.ravel()).reshape(a.shape)
                    * area(two, b.ravel()).reshape(b.shape)
                    * (a < one.diameter)
                    * (b < two.diameter)
                ),
                s,
            )
        case _:
            raise NotImplementedError(manifold)


def log_area(manifold: Manifold, s: Array) -> Array:
    """The same without overflow in high dimension."""
    match manifold:
        case Euclidean(d=d):
            return (d - 1) * np.log(s)
        case Sphere(d=d, constant=curvature):
            return (d - 1) * np.log(np.sin(math.sqrt(curvature) * s).clip(1e-300))
        case Hyperbolic(d=d):
            return (d - 1) * np.log(np.sinh(s))
        case _:
            return np.log(area(manifold, s))


def radius_cdf(manifold: Manifold, sigma: float, family: str, furthest: float) -> Callable[[Array], Array]:
    end = min(manifold.diameter, 40.0 * furthest)
    s = np.concatenate([np.linspace(0.0, min(1.5 * furthest, end), 1500), np.linspace(min(1.5 * furthest, end), end, 500)])
    s[0] = 1e-12 * s[1]
    log_kernel = -s / sigma if family == "laplace" else -0.5 * (s / sigma) ** 2
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_density = log_kernel + log_area(manifold, s)
    density = np.exp(
        log_density - log_density[np.isfinite(log_density)].max(), where=np.isfinite(log_density), out=np.zeros_like(s)
    )
    total = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(s))])
    return lambda t: np.interp(t, s, total / total[-1])


# ---------------------------------------------------------------------- draws


def draws(manifold: Manifold, sigma: float, size: int, seed: int, family: str = "laplace") -> tuple[Array, Array]:
    """A centre off the origin, and draws around it."""
    rng = np.random.default_rng(seed)
    center = random_points(manifold, 1, rng, spread=0.7)[0]
    source = exact.NotPrivate(seed)
    return center, np.array([exact.sample(manifold, sigma, center, family=family, entropy=source).value for _ in range(size)])


def fit(manifold: Manifold, sigma: float, radii: Array, family: str = "laplace") -> float:
    return float(stats.kstest(radii, radius_cdf(manifold, sigma, family, float(radii.max()))).pvalue)


#: Manifold, scale, law and number of draws: a few kinds of space, and more that are behind the marker.
FITS: list[tuple[Manifold, float, str, int]] = [
    (Euclidean(4), 0.1, "laplace", 1500),
    (Sphere(1), 1e6, "gaussian", 1500),
    (Hyperbolic(3), 0.45, "laplace", 1500),
    (SPD(2), 0.9, "laplace", 1000),
]
MORE_FITS: list[tuple[Manifold, float, str, int]] = [
    (Sphere(2), 0.4, "laplace", 3000),
    (Grassmann(2, 4), 0.3, "laplace", 1000),
    (PlanarShapes(5), 0.3, "gaussian", 1000),
    (SPD(2), 0.9, "laplace", 2000),
    (SPDLogEuclidean(2), 0.5, "laplace", 1000),
    (Rotations(4), 3.0, "laplace", 1000),
    (Product(Sphere(2), Euclidean(3)), 0.5, "laplace", 1000),
    (Euclidean(1), 2.0, "laplace", 1500),
    (Euclidean(3), 1e-12, "gaussian", 1500),
    (Sphere(1), 0.8, "laplace", 1500),
    (Sphere(2), 1e-9, "laplace", 1500),
    (Sphere(2), 50.0, "laplace", 1500),
    (Sphere(5), 0.2, "gaussian", 1500),
    (Sphere(2, curvature=4.0), 0.3, "laplace", 1500),
    (Sphere(3, curvature=0.3), 3.0, "gaussian", 1500),
    (Hyperbolic(1), 0.5, "laplace", 1500),
    (Hyperbolic(3), 0.05, "laplace", 1500),
    (Hyperbolic(3), 1.5, "gaussian", 1500),
    (SPD(1), 0.7, "laplace", 1500),
    (SPD(2), 0.02, "laplace", 1500),
    (SPD(2), 1.2, "gaussian", 1500),
    (SPD(3), 0.1, "laplace", 1000),
    (SPD(3), 0.4, "laplace", 1000),
    (Grassmann(1, 2), 0.6, "laplace", 1000),
    (Grassmann(1, 4), 0.6, "laplace", 1000),
    (Grassmann(2, 5), 5.0, "gaussian", 1000),
    (Rotations(2), 2.0, "laplace", 1000),
    (Rotations(3), 1.0, "laplace", 1500),
    (Rotations(5), 0.5, "gaussian", 1000),
    (PlanarShapes(3), 0.5, "laplace", 1000),
    (Product(Hyperbolic(2), Rotations(3)), 0.6, "laplace", 1000),
    (Product(Sphere(1), Rotations(2)), 4.0, "laplace", 1000),
]


@pytest.mark.parametrize(
    ("manifold", "sigma", "family", "size"),
    [*FITS, *(pytest.param(*fitted, marks=pytest.mark.slow) for fitted in MORE_FITS)],
    ids=lambda value: str(value),
)
def test_radii_follow_the_radial_law(manifold: Manifold, sigma: float, family: str, size: int) -> None:
    center, values = draws(manifold, sigma, size, seed=11, family=family)
    assert manifold.check_point(values) is None
    assert fit(manifold, sigma, manifold.dist(center, values), family) > LEVEL


@pytest.mark.parametrize(
    ("manifold", "sigma"),
    [
        (Hyperbolic(300), 1e-3),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((Euclidean(2000), 0.1), (Sphere(1000), 1e-3))),
    ],
    ids=lambda value: str(value),
)
def test_radii_follow_the_radial_law_in_high_dimension(manifold: Manifold, sigma: float) -> None:
    center, values = draws(manifold, sigma, 60, seed=3)
    assert fit(manifold, sigma, manifold.dist(center, values)) > LEVEL


@pytest.mark.slow
def test_closed_forms_on_the_sphere_and_in_flat_space() -> None:
    s = 0.3
    center, values = draws(Sphere(2), s, 4000, seed=2)
    mean = 2 * s / (1 + s * s) + math.pi / (math.exp(math.pi / s) + 1)
    radii = Sphere(2).dist(center, values)
    assert abs(radii.mean() - mean) < stats.norm.isf(LEVEL / 2) * radii.std() / math.sqrt(len(radii))

    def cdf(t: Array) -> Array:
        return (1 - np.exp(-t / s) * (np.cos(t) + np.sin(t) / s)) / (1 + math.exp(-math.pi / s))

    assert stats.kstest(radii, cdf).pvalue > LEVEL
    center, values = draws(Euclidean(7), 0.01, 2000, seed=2)
    assert stats.kstest(Euclidean(7).dist(center, values), stats.gamma(7, scale=0.01).cdf).pvalue > LEVEL


@pytest.mark.slow
def test_mean_distances_on_positive_definite_matrices() -> None:
    # sigma = 6/n at n = 25 and 100: .7390 and .1803, by quadrature
    for n, mean in ((25, 0.7390), (100, 0.1803)):
        center, values = draws(SPD(2), 6.0 / n, 1200, seed=n)
        radii = SPD(2).dist(center, values)
        assert abs(radii.mean() - mean) < stats.norm.isf(LEVEL / 2) * radii.std() / math.sqrt(len(radii)) + 5e-5


@pytest.mark.parametrize(
    ("manifold", "sigma"),
    [(Sphere(2), 0.5), (Hyperbolic(3), 0.3), (Rotations(3), 0.5),
     *(pytest.param(*case, marks=pytest.mark.slow) for case in
       ((Euclidean(3), 1.0), (Sphere(4), 0.2), (Grassmann(1, 4), 0.2), (PlanarShapes(4), 0.2), (SPDLogEuclidean(2), 0.3)))],
    ids=lambda value: str(value),
)  # fmt: skip
def test_directions_are_uniform(manifold: Manifold, sigma: float) -> None:
    center, values = draws(manifold, sigma, 1200, seed=5)
    coordinates = manifold.coordinates(center, manifold.log(center, values))
    directions = coordinates / np.linalg.vector_norm(coordinates, axis=-1, keepdims=True)
    d = manifold.dim
    # a coordinate of a uniform direction is a square root of Beta(1/2, (d-1)/2) with a random sign
    tests = [stats.kstest(column**2, stats.beta(0.5, 0.5 * (d - 1)).cdf).pvalue for column in directions.T]
    tests += [stats.binomtest(int((column > 0).sum()), len(column)).pvalue for column in directions.T]
    spun = directions @ stats.ortho_group(d, seed=1).rvs()
    tests += [stats.kstest(column**2, stats.beta(0.5, 0.5 * (d - 1)).cdf).pvalue for column in spun.T]
    assert min(tests) > LEVEL / len(tests)


@pytest.mark.parametrize("kind", ["random", "close", "repeated", "graded"])
def test_balls_about_eigenvalues_that_floats_find_hold_the_exact_ones(kind: str) -> None:
    """Against eigenvalues to sixty digits; and the balls are small."""
    from flint import arb_mat
    from mpmath import mp

    rng, k = np.random.default_rng(5), 6
    turn = np.linalg.qr(rng.normal(size=(k, k)))[0]
    spectrum = {
        "random": rng.normal(size=k),
        "close": 1.0 + 1e-13 * np.arange(k),
        "repeated": np.array([1.0, 1.0, 1.0, 2.0, 2.0, -3.0]),
        "graded": np.geomspace(1e-9, 1e3, k),
    }[kind]
    a = (turn * spectrum) @ turn.T
    a = 0.5 * (a + a.T)
    with intervals.working_precision(intervals.COARSE):
        balls = intervals.symmetric_eigenvalues(arb_mat(a.tolist()))
        ends = sorted((float(ball.lower()), float(ball.upper())) for ball in balls)
    with mp.workdps(60):
        exact = sorted(float(value) for value in mp.eigsy(mp.matrix(a.tolist()), eigvals_only=True))
    size = np.abs(spectrum).max()
    for (low, high), value in zip(ends, exact, strict=True):
        assert low - 1e-16 * size <= value <= high + 1e-16 * size
        assert high - low <= 1e-12 * size


@pytest.mark.slow
def test_eigenvalues_and_axes_on_positive_definite_matrices() -> None:
    manifold, sigma = SPD(2), 0.9
    center, values = draws(manifold, sigma, 2500, seed=8)
    x, scaled, y = manifold.coordinates(center, manifold.log(center, values)).T
    length = np.sqrt(x**2 + scaled**2 + y**2)
    height = (x + y) / math.sqrt(2.0) / length  # cosine of the angle to the axis of traces
    # given the length, the density of the cosine c is sinhc(length sqrt((1 - c^2)/2))
    position = []
    for s, c in zip(length, height, strict=True):
        grid = np.linspace(-1.0, 1.0, 801)
        z = s * np.sqrt((1 - grid**2) / 2) + 1e-12
        density = np.sinh(z) / z
        total = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        position.append(np.interp(c, grid, total / total[-1]))
    assert stats.kstest(position, "uniform").pvalue > LEVEL
    axis = np.arctan2(math.sqrt(2.0) * scaled, x - y) / (2.0 * math.pi) + 0.5
    assert stats.kstest(axis, "uniform").pvalue > LEVEL


@pytest.mark.parametrize(
    ("law", "family"),
    [
        (Laplace(Sphere(2), 0.4), "laplace"),
        (Gaussian(SPD(3), 0.7), "gaussian"),
        *(
            pytest.param(law, "laplace", marks=pytest.mark.slow)
            for law in (
                Laplace(SPD(4), 0.15),
                Laplace(Grassmann(3, 7), 0.1),
                Laplace(Product(SPD(2), Sphere(1), Rotations(3)), 0.4),
                Laplace(Product(Product(Hyperbolic(2), Grassmann(1, 3)), PlanarShapes(4)), 0.3),
            )
        ),
    ],
    ids=str,
)
def test_the_exact_and_the_float_sampler_agree(law: Laplace | Gaussian, family: str) -> None:
    manifold = law.manifold
    center, values = draws(manifold, law.sigma, 700, seed=6, family=family)
    simulated = law.sample(center, 6000, np.random.default_rng(1))
    # the distances to the centre and to two other points see radius and direction
    others = [center, *random_points(manifold, 2, np.random.default_rng(2))]
    tests = [stats.ks_2samp(manifold.dist(point, values), manifold.dist(point, simulated)).pvalue for point in others]
    assert min(tests) > LEVEL / len(tests)


# ---------------------------------------------------------------------- what the tests must notice


@pytest.mark.slow
@pytest.mark.parametrize(("off", "size"), [(0.06, 5500), (0.03, 22_000)])
def test_a_scale_a_few_percent_off_is_noticed_on_the_sphere(off: float, size: int) -> None:
    # relative deviation .7 of one radius, so 22,000 radii tell 3% from 0 with power .99 at level 1e-4, and 5,500 twice as much
    s = 0.1
    center, values = draws(Sphere(2), s, size, seed=4)
    radii = Sphere(2).dist(center, values)

    def z_score(scale: float) -> float:
        mean = 2 * scale / (1 + scale * scale) + math.pi / (math.exp(math.pi / scale) + 1)
        return float(abs(radii.mean() - mean) / radii.std() * math.sqrt(len(radii)))

    assert z_score(s) < stats.norm.isf(LEVEL / 2)
    assert min(z_score((1.0 + off) * s), z_score((1.0 - off) * s)) > stats.norm.isf(LEVEL / 2)


def test_a_skipped_acceptance_step_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    law = radius.RadialLaw.on(SPD(2), Fraction(0.9), "laplace")
    monkeypatch.setattr(Roots, "exact_log_density", lambda self, radial: law.log_envelope(intervals.norm(radial)))
    center, values = draws(SPD(2), 0.9, 2000, seed=11)
    assert fit(SPD(2), 0.9, SPD(2).dist(center, values)) < LEVEL


def test_a_missing_jacobian_is_noticed() -> None:
    source = exact.NotPrivate(1)
    flat = [np.linalg.norm(exact.sample(Euclidean(2), 0.4, np.zeros(2), entropy=source).value) for _ in range(3000)]
    assert fit(Sphere(2), 0.4, np.minimum(flat, math.pi)) < LEVEL


# ---------------------------------------------------------------------- the parts


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("sigma", [1e-12, 1e-4, 0.3, 0.999, 40.0, 1e9])
@pytest.mark.parametrize(
    "manifold",
    [Euclidean(1), Euclidean(10_000), Sphere(1), Sphere(2), Sphere(10_000), Hyperbolic(2), Hyperbolic(10_000), SPD(2), SPD(5),
     SPD(30), Grassmann(3, 7), Rotations(9), PlanarShapes(3), PlanarShapes(500), Product(Sphere(1), Rotations(2), Sphere(1))],
    ids=str,
)  # fmt: skip
def test_the_roof_is_tight_for_every_dimension_and_scale(manifold: Manifold, sigma: float, family: radius.Family) -> None:
    growth = math.sqrt(manifold.volume_bound.square_growth)
    if family == "laplace" and sigma * growth >= 1.0:
        sigma = 0.999 / growth if sigma < 1.0 else 1e-7
    if family == "gaussian" and sigma**2 * growth > 1e3:
        sigma = math.sqrt(1e3 / growth)
    law = exact._setting(manifold, sigma, family, None).law
    source = exact.NotPrivate(1)
    with intervals.working_precision(192):
        roof = law.roof()
        kept = sum(roof.propose(law, exact.Tape(source)) is not None for _ in range(60))
    assert kept >= 25  # the acceptance rate is .65 or more: a chance of 1e-4


@pytest.mark.parametrize(
    "manifold", [SPD(2), SPD(4), Grassmann(2, 4), Grassmann(3, 7), Rotations(4), Rotations(5), Product(SPD(2), Sphere(2)),
                 Product(Sphere(2), Rotations(3)), Sphere(3, curvature=0.3), PlanarShapes(5), Product(SPD(1), Sphere(2))],
    ids=str,
)  # fmt: skip
def test_densities_agree_with_the_manifolds_and_stay_below_the_envelope(manifold: Manifold) -> None:
    rng = np.random.default_rng(1)
    law = radius.RadialLaw.on(manifold, Fraction(1), "laplace")
    for _ in range(30):
        v = rng.normal(size=manifold.dim)
        v *= rng.uniform(0.1, 1.0) * min(4.0, manifold.diameter) / np.linalg.norm(v)
        tangent = manifold.tangent(manifold.origin, v)
        with intervals.working_precision(128):
            density = manifold.roots.exact_log_density(manifold.exact_radial_part([arb(x) for x in v]))
            bound = law.log_envelope(arb(np.linalg.norm(v)))
        inside = manifold.inside_cut_locus(manifold.origin, tangent)
        assert (density is not None) == inside
        if density is not None:
            assert float(density) == pytest.approx(manifold.log_volume_density(manifold.origin, tangent), abs=1e-12)
            assert float(density) <= float(bound) + 1e-12


def test_a_law_that_does_not_exist_is_refused_with_its_limit() -> None:
    with pytest.raises(ValueError, match=r"needs sigma < 0.5 but sigma is 0.5"):
        exact.sample(Hyperbolic(3), 0.5, Hyperbolic(3).origin)
    with pytest.raises(ValueError, match=r"needs sigma < 0\.666667 but sigma is 0\.7"):
        exact.sample(SPD(3), 0.7, SPD(3).origin)
    with pytest.raises(ValueError, match="positive and finite"):
        exact.sample(Sphere(2), 0.0, Sphere(2).origin)
    with pytest.raises(ValueError, match="too far for floats"):
        exact.sample(SPD(3), 1e9, SPD(3).origin, family="gaussian")
    exact.sample(SPD(3), 0.7, SPD(3).origin, family="gaussian")


@pytest.mark.parametrize(
    ("manifold", "share", "expected"),
    [
        (Product(SPD(3), Euclidean(20)), 0.3, True),
        pytest.param(Product(SPD(3), Euclidean(20)), 0.89, False, marks=pytest.mark.slow),
        (Product(Hyperbolic(3), Euclidean(10)), 0.89, False),
        (SPD(3), 0.89, True),
    ],
    ids=str,
)
def test_laws_that_would_take_for_ever_are_told_from_the_others(manifold: Manifold, share: float, expected: bool) -> None:
    """Next to the largest scale: 11,633 trials on the second accepted none."""
    assert exact.is_drawable(manifold, share * exact.largest_scale(manifold)) is expected
