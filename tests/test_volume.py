"""The volume density of ``exp``: a Jacobian determinant, the volume of the whole space, a radial bound, a growth rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import MANIFOLDS, every_manifold, longer, random_points
from numpy.polynomial.legendre import leggauss
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import minimize

from geodp import SPD, Euclidean, Grassmann, Hyperbolic, PlanarShapes, Product, Rotations, SPDLogEuclidean, Sphere
from geodp.noise.volume import mean_volume
from geodp.testing import log_jacobian


def seeded(*labels):
    return np.random.default_rng(list(repr(labels).encode()))


def velocities_inside_the_cut_locus(manifold, size, rng, longest=4.0):
    """Coordinates at random points: directions of all kinds, and lengths up to the cut locus (or ``longest``) in each."""
    p = random_points(manifold, size, rng)
    directions = rng.normal(size=(size, manifold.dim)) ** 3  # cubes: many directions are near a few axes
    directions /= np.linalg.vector_norm(directions, axis=-1, keepdims=True)
    low, high = np.zeros(size), np.full(size, min(longest, 1.1 * manifold.diameter))
    for _ in range(40):
        middle = 0.5 * (low + high)
        inside = manifold.inside_cut_locus(p, manifold.tangent(p, middle[:, None] * directions))
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return p, directions * (low * rng.uniform(0.02, 0.98, size=size))[:, None]


# ---------------------------------------------------------------------------------------------- a determinant


@every_manifold
def test_log_volume_density_is_the_logarithm_of_the_jacobian_determinant_of_exp(manifold):
    rng = seeded(manifold)
    points, coordinates = velocities_inside_the_cut_locus(manifold, 6, rng)
    # Keep the shifted velocities of the differences inside the cut locus too.
    coordinates *= 0.97
    for p, c in zip(points, coordinates, strict=True):
        density = manifold.log_volume_density(p, manifold.tangent(p, c))
        assert density == pytest.approx(log_jacobian(manifold, p, c), abs=1e-6)


# ---------------------------------------------------------------------------------------------- the volume of the whole


def unit_sphere_area(d):
    """Area of the unit sphere of dimension ``d``."""
    return 2.0 * math.pi ** ((d + 1) / 2) / math.gamma((d + 1) / 2)


@pytest.mark.parametrize(
    ("manifold", "cut", "volume"),
    [
        (Sphere(1), math.pi, 2 * math.pi),
        (Sphere(2), math.pi, 4 * math.pi),
        (Sphere(3), math.pi, 2 * math.pi**2),
        (Sphere(5), math.pi, math.pi**3),
        (Sphere(1, curvature=4.0), math.pi / 2, 2 * math.pi / 2),
        (Sphere(2, curvature=4.0), math.pi / 2, 4 * math.pi / 2**2),
        (Sphere(3, curvature=4.0), math.pi / 2, 2 * math.pi**2 / 2**3),
        (Sphere(5, curvature=4.0), math.pi / 2, math.pi**3 / 2**5),
        (Rotations(2), math.pi, 2 * math.pi),
        (Rotations(3), math.pi, 8 * math.pi**2),  # half of a three-sphere of radius 2
        (PlanarShapes(3), math.pi / 2, math.pi),  # a two-sphere of curvature 4
        (PlanarShapes(4), math.pi / 2, math.pi**2 / 2),
        (PlanarShapes(7), math.pi / 2, math.pi**5 / math.factorial(5)),
        (Grassmann(1, 2), math.pi / 2, math.pi),
        (Grassmann(1, 3), math.pi / 2, 2 * math.pi),  # half of a two-sphere
        (Grassmann(1, 6), math.pi / 2, math.pi**3 / 2),
    ],
    ids=repr,
)
def test_the_density_of_a_space_of_rank_one_integrates_to_its_volume(manifold, cut, volume):
    rng = seeded(manifold)
    p = random_points(manifold, 1, rng)[0]
    direction = rng.normal(size=manifold.dim)
    direction /= np.linalg.norm(direction)

    def shell(s):
        return s ** (manifold.dim - 1) * math.exp(manifold.log_volume_density(p, manifold.tangent(p, s * direction)))

    integral, _ = quad(shell, 0.0, cut, epsabs=0.0, epsrel=1e-11)
    assert unit_sphere_area(manifold.dim - 1) * integral == pytest.approx(volume, rel=1e-9)


def frame_volume(n):
    """Volume of ``SO(n)``: a rotation is a unit vector, then a rotation of its complement."""
    return math.prod(unit_sphere_area(i) for i in range(1, n))


def subspace_volume(k, m):
    """Volume of ``Gr(k, m) = O(m)/(O(k) x O(m - k))``, with ``O(n)`` twice as large as ``SO(n)``."""
    return 2 * frame_volume(m) / (2 * frame_volume(k) * 2 * frame_volume(m - k))


def skew_with_angles(n, first, second):
    a = np.zeros((*first.shape, n, n))
    a[..., 1, 0], a[..., 3, 2] = first, second
    return a - np.swapaxes(a, -1, -2)


def block_with_angles(k, m, first, second):
    v = np.zeros((*first.shape, m, k))
    v[..., k, 0], v[..., k + 1, 1] = first, second
    return v


@pytest.mark.parametrize(
    ("manifold", "cut", "volume", "velocity", "orbit"),
    [
        (Grassmann(2, 4), math.pi / 2, subspace_volume(2, 4), block_with_angles, lambda s, t: s**2 - t**2),
        (Grassmann(2, 5), math.pi / 2, subspace_volume(2, 5), block_with_angles, lambda s, t: (s**2 - t**2) * s * t),
        (Grassmann(2, 7), math.pi / 2, subspace_volume(2, 7), block_with_angles, lambda s, t: (s**2 - t**2) * (s * t) ** 3),
        (Rotations(4), math.pi, frame_volume(4), skew_with_angles, lambda s, t: (s**2 - t**2) ** 2),
        (Rotations(5), math.pi, frame_volume(5), skew_with_angles, lambda s, t: ((s**2 - t**2) * s * t) ** 2),
    ],
    ids=lambda value: repr(value) if not callable(value) else "",
)
def test_the_density_of_a_space_of_rank_two_integrates_to_its_volume(manifold, cut, volume, velocity, orbit):
    """Integrate over the angles ``first >= second >= 0``.

    All velocities with the same angles fill an orbit whose size is ``orbit`` up to a constant; the constant follows
    from the Gaussian integral over the tangent space, ``(2 pi)^(dim/2)``.
    """

    def over_triangle(function, end, nodes=120):
        x, weight = leggauss(nodes)
        x, weight = 0.5 * (x + 1.0), 0.5 * weight
        first, ratio = np.meshgrid(end * x, x, indexing="ij")
        return float(np.sum(np.outer(end * weight, weight) * first * function(first, first * ratio)))

    gauss = over_triangle(lambda s, t: orbit(s, t) * np.exp(-0.5 * (s**2 + t**2)), 14.0)
    constant = (2.0 * math.pi) ** (manifold.dim / 2) / gauss
    shape = manifold.point_shape[::-1] if isinstance(manifold, Grassmann) else manifold.point_shape[:1]

    def density(s, t):
        return orbit(s, t) * np.exp(manifold.log_volume_density(manifold.origin, velocity(*shape, s, t)))

    assert constant * over_triangle(density, cut) == pytest.approx(volume, rel=1e-9)


# ---------------------------------------------------------------------------------------------- a radial bound


MORE_PRODUCTS = [
    Product(Sphere(2), Sphere(3)),
    Product(SPD(3), SPD(2), Hyperbolic(4)),
    Product(Grassmann(2, 4), Rotations(3), PlanarShapes(3)),
    Product(Hyperbolic(3), Sphere(4)),
]


@pytest.mark.parametrize("manifold", longer([*MANIFOLDS, *MORE_PRODUCTS]), ids=repr)
def test_the_volume_bound_is_never_exceeded_inside_the_cut_locus(manifold):
    p, c = velocities_inside_the_cut_locus(manifold, 2000, seeded(manifold), longest=12.0)
    density = manifold.log_volume_density(p, manifold.tangent(p, c))
    bound = manifold.volume_bound.log_value(np.linalg.vector_norm(c, axis=-1))
    assert np.isfinite(density).all()
    assert (density <= bound + 1e-9).all()


@pytest.mark.parametrize(
    "manifold",
    [
        Euclidean(3),
        SPDLogEuclidean(3),
        Sphere(1),
        Sphere(2),
        Sphere(4, curvature=0.3),
        Hyperbolic(1),
        Hyperbolic(2),
        Hyperbolic(6),
        SPD(2),
        Rotations(2),
        Rotations(3),
        Grassmann(1, 2),
        Grassmann(1, 5),
        PlanarShapes(3),
    ],
    ids=repr,
)
def test_the_volume_bound_is_attained_where_all_roots_are_equal(manifold):
    p, c = velocities_inside_the_cut_locus(manifold, 50, seeded(manifold))
    if manifold == SPD(2):
        c = np.array([1.0, 0.0, -1.0]) * c[:, :1]  # the flat direction of scaling aside, SPD(2) is a hyperbolic plane
    density = manifold.log_volume_density(p, manifold.tangent(p, c))
    assert_allclose(manifold.volume_bound.log_value(np.linalg.vector_norm(c, axis=-1)), density, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------------------------------- a growth rate


def growth_rate(manifold, direction):
    """``lim log(density)/radius`` along a unit vector of coordinates at the origin.

    The density is ``exp(rate * s)`` over a power of ``s``, and three radii in geometric progression tell the two apart.
    """
    s = np.array([400.0, 800.0, 1600.0])
    one, two, three = manifold.log_volume_density(manifold.origin, manifold.tangent(manifold.origin, s[:, None] * direction))
    return ((three - two) - (two - one)) / (s[1] - s[0])


@pytest.mark.parametrize(
    "manifold",
    longer(
        [
            SPD(1),
            SPD(2),
            SPD(3),
            SPD(5),
            Hyperbolic(1),
            Hyperbolic(2),
            Hyperbolic(5),
            Product(SPD(3), Hyperbolic(3)),
            Product(SPD(2), Euclidean(2)),
            Euclidean(2),
            SPDLogEuclidean(2),
        ],
        [SPD(2), Hyperbolic(2), Product(SPD(2), Euclidean(2))],
    ),
    ids=repr,
)
def test_the_volume_entropy_is_the_fastest_growth_of_the_density_over_all_directions(manifold):
    rng = seeded(manifold)

    def negative_rate(x):
        return -growth_rate(manifold, x / np.linalg.norm(x))

    starts = rng.normal(size=(4, manifold.dim))
    assert max(-negative_rate(x) for x in starts) <= manifold.volume_entropy + 1e-6
    best = min((minimize(negative_rate, x, tol=1e-10) for x in starts), key=lambda found: found.fun)
    # the growth rate is flat at its maximum, so an inexact maximiser still gives the maximum
    assert -best.fun == pytest.approx(manifold.volume_entropy, abs=1e-5)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_volume_on_positive_definite_matrices_grows_fastest_along_equally_spaced_eigenvalues(k):
    manifold = SPD(k)
    extremal = np.diag(np.arange(k) - (k - 1) / 2)
    extremal /= np.linalg.norm(extremal)
    rate = growth_rate(manifold, manifold.coordinates(manifold.origin, extremal))
    assert rate == pytest.approx(manifold.volume_entropy, rel=1e-9)


@pytest.mark.parametrize("manifold", [Sphere(3), Rotations(4), Grassmann(2, 5), PlanarShapes(4)], ids=repr)
def test_compact_spaces_have_no_volume_entropy(manifold):
    assert manifold.volume_entropy == 0.0


# ---------------------------------------------------------------------------------------------- its mean over directions


FIXED = [SPD(6), SPD(9), Grassmann(5, 11), Grassmann(5, 10), Rotations(10), Rotations(11)]


@pytest.mark.parametrize("manifold", longer(FIXED, [SPD(6), Grassmann(5, 10), Rotations(10)]), ids=repr)
def test_the_mean_along_fixed_directions_is_that_of_the_density_in_them(manifold):
    """Along the very same directions, by the density of every tangent vector: the two differ by interpolation alone.

    That is as good as their number makes worth while.
    """
    reach = 4.0
    coordinates = np.random.default_rng(0).standard_normal((max((1 << 17) // manifold.dim, 256), manifold.dim))
    coordinates /= np.linalg.vector_norm(coordinates, axis=-1, keepdims=True)
    volume = mean_volume(manifold, reach)
    for radius in np.linspace(0.05, 0.95, 7) * min(reach, manifold.injectivity_radius):
        vectors = manifold.tangent(manifold.origin, radius * coordinates)
        densities = np.exp(manifold.log_volume_density(manifold.origin, vectors))
        error = densities.std(ddof=1) / densities.mean() / math.sqrt(len(densities))
        at = np.array([radius])
        assert math.exp(volume.log_mean(at)[0]) == pytest.approx(densities.mean(), rel=2e-3)
        assert -1e-9 < volume.relative_error(at)[0] - error < 5e-3  # interpolation adds what it may be wrong by
    assert abs(math.log(densities.mean())) > 0.1


def test_the_mean_volume_of_a_shorter_reach_is_part_of_that_of_a_longer_one():
    manifold, radii = SPD(4), np.array([0.001, 0.01, 0.1, 0.2])
    short, long = mean_volume(manifold, 0.2), mean_volume(manifold, 3.0)
    assert short is mean_volume(manifold, 0.001)
    assert_allclose(short.log_mean(radii), long.log_mean(radii), atol=1e-11)
