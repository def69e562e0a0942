"""Normalisers and radial laws against closed forms, random-matrix theory, known volumes and independent integrals."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from cases import MANIFOLDS, every_manifold, longer
from scipy import integrate, special, stats

from geodp.inputs import Array
from geodp.manifolds import (
    SPD,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Manifold,
    PlanarShapes,
    Product,
    Rotations,
    SPDLogEuclidean,
    Sphere,
    Torus,
)
from geodp.noise.families import Gaussian, Laplace, Law

# ---------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("sigma", [1e-9, 0.01, 0.3, 1.0, 50.0])
def test_laplace_on_the_two_sphere_has_its_closed_form(sigma: float) -> None:
    law = Laplace(Sphere(2), sigma)
    whole = 1.0 + math.exp(-math.pi / sigma)
    assert law.log_normalizer == pytest.approx(math.log(2.0 * math.pi * whole / (1.0 + sigma**-2)), abs=1e-11)
    expected = 2.0 * sigma / (1.0 + sigma**2) + math.pi * math.exp(-math.pi / sigma) / whole
    assert law.mean_radius() == pytest.approx(expected, rel=1e-12)
    if sigma > 1e-3:  # below, this textbook form cancels
        t = np.linspace(0.0, math.pi, 9)
        cdf = (1.0 - np.exp(-t / sigma) * (np.cos(t) + np.sin(t) / sigma)) / whole
        np.testing.assert_allclose(law.radius_cdf(t), cdf, atol=1e-11)


@pytest.mark.parametrize("sigma", [1e-12, 1.0, 1e5])
@pytest.mark.parametrize("dim", [1, 2, 3, 50, 10_000])
def test_flat_laws_have_gamma_and_chi_radii(dim: int, sigma: float) -> None:
    laplace, gaussian = Laplace(Euclidean(dim), sigma), Gaussian(Euclidean(dim), sigma)
    q = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    np.testing.assert_allclose(laplace.radius_quantile(q) / sigma, stats.gamma(dim).ppf(q), rtol=1e-8)
    np.testing.assert_allclose(gaussian.radius_quantile(q) / sigma, stats.chi(dim).ppf(q), rtol=1e-8)
    assert laplace.mean_radius() == pytest.approx(dim * sigma, rel=1e-12)
    sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)
    assert laplace.log_normalizer == pytest.approx(sphere + math.lgamma(dim) + dim * math.log(sigma), abs=1e-9)
    assert gaussian.log_normalizer == pytest.approx(0.5 * dim * math.log(2.0 * math.pi * sigma**2), abs=1e-9)


@pytest.mark.parametrize("fraction", [1e-6, 0.1, 0.9, 0.9999])
def test_laplace_on_hyperbolic_three_space_has_its_closed_form(fraction: float) -> None:
    law = Laplace(Hyperbolic(3), 0.5 * fraction)
    rate = 2.0 / fraction
    # sinh^2 = (e^2s - 2 + e^-2s)/4
    assert law.log_normalizer == pytest.approx(math.log(8.0 * math.pi / (rate * (rate**2 - 4.0))), abs=1e-8)
    t = np.linspace(0.0, 4.0, 9) * law.mean_radius()

    def tail(shift: float) -> Array:
        return np.exp((shift - rate) * t) / (rate - shift)

    survival = (tail(2.0) - 2.0 * tail(0.0) + tail(-2.0)) * rate * (rate**2 - 4.0) / 8.0
    np.testing.assert_allclose(law.radius_cdf(t), 1.0 - survival, atol=1e-9 if fraction > 1e-3 else 1e-3)


@pytest.mark.parametrize("sigma", [0.2, 1.0, 3.0])
def test_gaussian_on_hyperbolic_three_space_has_its_closed_form(sigma: float) -> None:
    expected = (2.0 * math.pi) ** 1.5 * sigma * math.exp(sigma**2) * math.sinh(sigma**2)
    # int 4 pi sinh^2 s exp(-s^2/(2 sigma^2)) ds = sqrt(2 pi) pi sigma (e^(2 sigma^2) - 1)
    assert expected == pytest.approx(math.sqrt(2.0 * math.pi) * math.pi * sigma * math.expm1(2.0 * sigma**2), rel=1e-12)
    assert Gaussian(Hyperbolic(3), sigma).log_normalizer == pytest.approx(math.log(expected), abs=1e-11)


# ---------------------------------------------------------------------------- positive-definite matrices


def spd_gaussian_normalizer(k: int, sigma: mpmath.mpf) -> mpmath.mpf:
    """De Bruijn's integral: the ordered eigenvalue integral of ``det exp(rho_j l_i)`` is a Pfaffian of error functions.

    Divided by Mehta's integral, its flat limit, and multiplied by the flat normaliser.
    """
    rho = [mpmath.mpf(k - 1) / 2 - j for j in range(k)]
    size = k + k % 2
    matrix = mpmath.zeros(size)
    for i in range(size):
        for j in range(i):
            entry = mpmath.erf(sigma * (rho[j] - rho[i]) / 2) if i < k else mpmath.mpf(1)
            matrix[j, i], matrix[i, j] = entry, -entry
    pfaffian = mpmath.sqrt(mpmath.det(matrix))
    curved = sigma**k * mpmath.exp(sigma**2 * sum(r * r for r in rho) / 2) * pfaffian
    mehta = mpmath.mpf(1)
    for j in range(1, k + 1):
        mehta *= mpmath.gamma(1 + mpmath.mpf(j) / 2) / mpmath.gamma(mpmath.mpf(3) / 2)
    flat = sigma ** (k + mpmath.mpf(k * (k - 1)) / 2) * mehta / mpmath.factorial(k)
    return (2 * mpmath.pi * sigma**2) ** (mpmath.mpf(k * (k + 1)) / 4) * curved / flat


def spd_laplace_normalizer(k: int, sigma: float) -> mpmath.mpf:
    """``exp(-r/sigma)`` is a mixture of Gaussians in ``r``, with the exponential law for their variance."""
    rate = 1 / mpmath.mpf(sigma)

    def integrand(scale: mpmath.mpf) -> mpmath.mpf:
        weight = rate * mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-((rate * scale) ** 2) / 2)
        return weight * spd_gaussian_normalizer(k, scale)

    dim = k * (k + 1) // 2
    middle = sigma * math.sqrt(dim + 1)
    return mpmath.quad(
        integrand, [1e-9 * sigma, middle / 4, middle / 2, middle, 2 * middle, 4 * middle, 10 * middle, 40 * middle]
    )


@pytest.mark.parametrize("sigma", [0.05, 0.5, 1.5])
@pytest.mark.parametrize("k", longer([2, 3, 4, 5], [2, 3]))
def test_gaussian_normalizers_on_spd_are_pfaffians(k: int, sigma: float) -> None:
    with mpmath.workdps(60):
        expected = float(mpmath.log(spd_gaussian_normalizer(k, mpmath.mpf(sigma))))
    assert Gaussian(SPD(k), sigma).log_normalizer == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("k", "fraction"), longer([(2, 0.05), (2, 0.6), (3, 0.05), (3, 0.6), (4, 0.4), (5, 0.4)], [(2, 0.6)]))
def test_laplace_normalizers_on_spd_are_mixtures_of_pfaffians(k: int, fraction: float) -> None:
    sigma = fraction / SPD(k).volume_entropy
    with mpmath.workdps(40):
        expected = float(mpmath.log(spd_laplace_normalizer(k, sigma)))
    assert Laplace(SPD(k), sigma).log_normalizer == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("k", [6, 10])
def test_the_sampled_normalizer_of_large_matrices_is_within_its_stated_error(k: int) -> None:
    law = Gaussian(SPD(k), 0.5 / SPD(k).volume_entropy)
    with mpmath.workdps(150):
        expected = float(mpmath.log(spd_gaussian_normalizer(k, mpmath.mpf(law.sigma))))
    assert 0.0 < law.log_normalizer_error < 1e-3
    assert abs(law.log_normalizer - expected) < 4.0 * law.log_normalizer_error


@pytest.mark.parametrize("sigma", [0.03, 0.4, 1.2])
def test_spd2_is_a_line_times_a_hyperbolic_plane(sigma: float) -> None:
    law = Laplace(SPD(2), sigma)
    root = math.sqrt(2.0)

    def integrand(w: float) -> float:
        # the line is integrated out: int exp(-sqrt(t^2 + w^2)/sigma) dt = 2 w K_1(w/sigma)
        circle = math.pi * root * (math.exp(w / root - w / sigma) - math.exp(-w / root - w / sigma))
        return circle * 2.0 * w * special.k1e(w / sigma)

    value, _ = integrate.quad(integrand, 0.0, np.inf, epsabs=0.0, epsrel=1e-12, limit=500)
    assert law.log_normalizer == pytest.approx(math.log(value), abs=1e-9)


@pytest.mark.parametrize("n", [25, 50, 100, 200, 500])
def test_spd2_mean_radii(n: int) -> None:
    expected = {25: 0.7390, 50: 0.3623, 100: 0.1803, 200: 0.0900, 500: 0.0360}[n]
    assert Laplace(SPD(2), 6.0 / n).mean_radius() == pytest.approx(expected, abs=5.1e-5)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.5])
def test_spd3_against_a_double_integral_over_eigenvalues(sigma: float) -> None:
    """Polar coordinates for the traceless eigenvalues, the trace integrated out; Mehta's integral for the constant."""

    def interaction(w: float, angle: float, curved: bool) -> float:
        eigenvalues = w * math.sqrt(2.0 / 3.0) * np.cos(angle + 2.0 * math.pi / 3.0 * np.arange(3))
        gaps = [abs(eigenvalues[i] - eigenvalues[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
        return math.prod(2.0 * math.sinh(g / 2.0) if curved else g for g in gaps)

    def integral(curved: bool, kernel: object, reach: float) -> float:
        value, _ = integrate.dblquad(
            lambda angle, w: interaction(w, angle, curved) * w * kernel(w),
            0.0,
            reach,
            0.0,
            math.pi / 3.0,
            epsabs=0.0,
            epsrel=1e-10,
        )
        return value

    constant = (2.0 * math.pi) ** 2.5 / integral(False, lambda w: math.exp(-0.5 * w * w), 12.0)
    laplace = constant * integral(
        True, lambda w: 2.0 * w * special.k1(w / sigma) if w else 0.0, 45.0 / (1.0 / sigma - 1.0 / 0.7072)
    )
    assert Laplace(SPD(3), sigma).log_normalizer == pytest.approx(math.log(laplace), abs=1e-8)
    gaussian = (
        math.sqrt(2.0 * math.pi) * sigma * constant * integral(True, lambda w: math.exp(-0.5 * (w / sigma) ** 2), 14.0 * sigma)
    )
    assert Gaussian(SPD(3), sigma).log_normalizer == pytest.approx(math.log(gaussian), abs=1e-8)


# ---------------------------------------------------------------------------- compact manifolds


def sphere_volume(dim: int) -> float:
    return 2.0 * math.pi ** (0.5 * (dim + 1)) / math.gamma(0.5 * (dim + 1))


def rotations_volume(n: int) -> float:
    return math.prod(sphere_volume(k) for k in range(1, n))


def volume(manifold: Manifold) -> float:
    """From the fibrations ``SO(n) -> S^(n-1)``, ``O(m) -> Gr(p, m)`` and ``S^(2n+1) -> CP^n``."""
    match manifold:
        case Sphere():
            return sphere_volume(manifold.dim) * manifold.radius**manifold.dim
        case Rotations():
            return rotations_volume(manifold.n)
        case Grassmann():
            return rotations_volume(manifold.m) / (2.0 * rotations_volume(manifold.p) * rotations_volume(manifold.m - manifold.p))
        case PlanarShapes():
            return math.pi ** (manifold.dim // 2) / math.factorial(manifold.dim // 2)
        case Torus():
            return (2.0 * math.pi) ** manifold.d
        case Product():
            return math.prod(map(volume, manifold.factors))
    raise TypeError(manifold)


COMPACT = [manifold for manifold in MANIFOLDS if math.isfinite(manifold.diameter)] + [
    Rotations(6),
    Rotations(7),
    Rotations(8),
    Grassmann(3, 6),
    Grassmann(3, 10),
    Grassmann(4, 9),
    Grassmann(2, 60),
    Product(Sphere(1), Sphere(1)),
    Product(Sphere(2), Rotations(4)),
    Product(Sphere(1), Sphere(3), Grassmann(2, 4)),
]


@pytest.mark.parametrize("manifold", longer(COMPACT, [each for each in COMPACT if each.rank < 4]), ids=str)
def test_a_very_wide_law_has_the_volume_for_its_normalizer(manifold: Manifold) -> None:
    law = Gaussian(manifold, 1e8)
    tolerance = 1e-6 if manifold.rank == 4 and not isinstance(manifold, Product) else 1e-9
    assert law.log_normalizer == pytest.approx(math.log(volume(manifold)), abs=tolerance)
    assert abs(law.log_normalizer - math.log(volume(manifold))) < 10.0 * law.log_normalizer_error + 1e-10


def test_a_sampled_volume_is_within_its_stated_error() -> None:
    manifold = Grassmann(5, 11)
    law = Gaussian(manifold, 1e8)
    assert 1e-4 < law.log_normalizer_error < 0.05
    assert abs(law.log_normalizer - math.log(volume(manifold))) < 4.0 * law.log_normalizer_error


# ---------------------------------------------------------------------------- products


def test_a_flat_torus_is_a_product_of_circles() -> None:
    sigma = 0.8
    one = math.sqrt(2.0 * math.pi) * sigma * math.erf(math.pi / (sigma * math.sqrt(2.0)))
    for count in (2, 3, 4):
        torus = Product(*(Sphere(1) for _ in range(count)))
        assert Gaussian(torus, sigma).log_normalizer == pytest.approx(count * math.log(one), abs=1e-9)


@pytest.mark.parametrize("manifold", [m for m in MANIFOLDS if isinstance(m, Product)] + [Product(Hyperbolic(3), SPD(3))], ids=str)
@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_gaussian_normalizers_multiply_over_factors(manifold: Product, sigma: float) -> None:
    total = sum(Gaussian(factor, sigma).log_normalizer for factor in manifold.factors)
    assert Gaussian(manifold, sigma).log_normalizer == pytest.approx(total, abs=1e-9)


def test_products_of_flat_spaces_are_flat() -> None:
    flat = Product(Euclidean(2), SPDLogEuclidean(2))
    assert Laplace(flat, 0.3).mean_radius() == pytest.approx(5 * 0.3, rel=1e-12)
    assert Laplace(flat, 0.3).acceptance_rate == 1.0


# ---------------------------------------------------------------------------- every manifold


def medium(manifold: Manifold) -> float:
    return 0.3 / manifold.volume_entropy if manifold.volume_entropy else 0.3 * min(manifold.diameter, 3.0)


@pytest.mark.parametrize("law_type", [Laplace, Gaussian])
@pytest.mark.parametrize("manifold", longer(MANIFOLDS), ids=str)
def test_radial_law_against_the_contract(manifold: Manifold, law_type: type[Law]) -> None:
    """The radial distribution from ``log_volume_density`` and ``inside_cut_locus`` along random geodesics.

    Shares no formula with the quadrature over Weyl chambers. Its Monte Carlo error is estimated from the spread over
    geodesics; five standard errors and a small allowance for the radial rule must cover the difference.
    """
    law = law_type(manifold, medium(manifold))
    rng = np.random.default_rng(11)
    count = 300
    directions = rng.normal(size=(count, 1, manifold.dim))
    directions /= np.linalg.vector_norm(directions, axis=-1, keepdims=True)
    edges = np.asarray(law.radius_quantile([1e-9, 0.2, 0.5, 0.8, 1.0 - 1e-9]))
    node, weight = np.polynomial.legendre.leggauss(24)
    s = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * node).ravel()
    weights = (0.5 * np.diff(edges)[:, None] * weight).ravel()
    vectors = manifold.tangent(manifold.origin, directions * s[:, None])
    log_terms = law.log_kernel(s) + (manifold.dim - 1) * np.log(s) + manifold.log_volume_density(manifold.origin, vectors)
    terms = np.where(manifold.inside_cut_locus(manifold.origin, vectors), np.exp(log_terms - np.max(log_terms)), 0.0) * weights
    masses = terms.reshape(count, 4, 24).sum(axis=2)
    cumulative = masses.mean(axis=0).cumsum() / masses.mean(axis=0).sum()
    for part, target in zip(range(3), (0.2, 0.5, 0.8), strict=True):
        residual = masses[:, : part + 1].sum(axis=1) - cumulative[part] * masses.sum(axis=1)
        error = residual.std() / math.sqrt(count) / masses.sum(axis=1).mean()
        assert abs(cumulative[part] - target) < 5.0 * error + (1e-6 if manifold.rank == 1 else 2e-3)


@pytest.mark.parametrize("law_type", [Laplace, Gaussian])
@every_manifold
def test_radial_law_is_consistent(manifold: Manifold, law_type: type[Law]) -> None:
    law = law_type(manifold, medium(manifold))
    q = np.array([0.01, 0.3, 0.5, 0.99])
    np.testing.assert_allclose(law.radius_cdf(law.radius_quantile(q)), q, atol=1e-10)
    assert law.radius_cdf(0.0) == 0.0
    assert law.radius_cdf(1e9) == 1.0
    assert law.radius_quantile(0.0) == 0.0
    assert law.radius_quantile(1.0) == manifold.diameter
    assert isinstance(law.radius_cdf(0.1), float)
    assert isinstance(law.radius_quantile(0.5), float)
    survival, _ = integrate.quad(lambda t: 1.0 - law.radius_cdf(t), 0.0, law.radius_quantile(1.0 - 1e-12), limit=200)
    assert law.mean_radius() == pytest.approx(survival, rel=1e-6)
    assert 0.0 < law.acceptance_rate <= 1.0
    assert law.log_normalizer_error < 1e-8
    # the density at the centre, found from the probability of a small ball and the volume of that ball
    small = 1e-3 * law.mean_radius()
    ball = 0.5 * manifold.dim * math.log(math.pi) - math.lgamma(0.5 * manifold.dim + 1.0) + manifold.dim * math.log(small)
    log_density = law.log_prob(manifold.origin, manifold.origin)
    probability = law.radius_cdf(small)
    if probability > 1e-7:
        assert math.log(probability) - ball == pytest.approx(log_density, abs=0.02 * manifold.dim)


# ---------------------------------------------------------------------------- what a user meets


def test_log_prob_broadcasts_and_is_normalised() -> None:
    law = Laplace(Sphere(2), 0.4)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200_000, 3))
    x /= np.linalg.vector_norm(x, axis=-1, keepdims=True)
    density = np.exp(law.log_prob([0.0, 1.0, 0.0], x))
    assert density.shape == (200_000,)
    assert density.mean() * 4.0 * math.pi == pytest.approx(1.0, abs=5.0 * 4.0 * math.pi * density.std() / math.sqrt(len(x)))
    assert isinstance(law.log_prob([0.0, 1.0, 0.0], [0.0, 0.0, 1.0]), float)


@pytest.mark.parametrize(("manifold", "limit"), [(SPD(2), 2.0**0.5), (SPD(3), 0.5**0.5), (SPD(10), (12 / 990) ** 0.5)], ids=str)
def test_laplace_exists_exactly_below_the_limit(manifold: Manifold, limit: float) -> None:
    Laplace(manifold, limit * (1.0 - 1e-12))
    with pytest.raises(ValueError, match=rf"sigma = {1.25 * limit:.6g}, only for sigma below {limit:.6g}.*more than 1\.25 times"):
        Laplace(manifold, 1.25 * limit)
    Gaussian(manifold, 100.0 * limit)


def test_the_limit_of_a_product_and_the_absence_of_one() -> None:
    with pytest.raises(ValueError, match="does not exist"):
        Laplace(Product(Hyperbolic(2), Hyperbolic(2), Sphere(2)), 0.5**0.5)
    for manifold in (Euclidean(3), Sphere(2), Hyperbolic(1), SPD(1), SPDLogEuclidean(3)):
        Laplace(manifold, 1e6)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("law_type", [Laplace, Gaussian])
def test_sigma_must_be_positive_and_finite(law_type: type[Law], sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma must be positive and finite"):
        law_type(Sphere(2), sigma)


def test_a_law_needs_a_manifold() -> None:
    with pytest.raises(TypeError, match="needs a manifold"):
        Laplace(3, 1.0)


def test_probabilities_must_be_probabilities() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Laplace(Sphere(2), 1.0).radius_quantile(1.5)


def test_a_law_far_wider_than_a_compact_factor_is_refused_in_words() -> None:
    law = Laplace(Product(Euclidean(500), Sphere(300)), 0.9)
    with pytest.raises(ValueError, match="too large to compute with"):
        law.mean_radius()


def test_laws_are_values() -> None:
    assert Laplace(SPD(3), 0.1) == Laplace(SPD(3), 0.1)
    assert Laplace(SPD(3), 0.1) != Gaussian(SPD(3), 0.1)
    assert repr(Gaussian(SPD(3), 0.1)) == "Gaussian(manifold=SPD(3), sigma=0.1)"
