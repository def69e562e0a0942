"""What follows from the roots, against formulas of its own for every family."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from cases import every_manifold
from numpy.testing import assert_allclose
from scipy.integrate import quad

from geodp import SPD, Euclidean, Grassmann, Hyperbolic, Manifold, PlanarShapes, Product, Rotations, SPDLogEuclidean, Sphere
from geodp.manifolds.roots import Factor, Roots, differences
from geodp.noise.volume import mean_volume

PI = math.pi

#: dimension, rank, largest and lowest curvature, injectivity radius, diameter, volume entropy: from the literature.
TABLE: list[tuple[Manifold, int, int, float, float, float, float, float]] = [
    (Euclidean(4), 4, 4, 0.0, 0.0, math.inf, math.inf, 0.0),
    (SPDLogEuclidean(3), 6, 6, 0.0, 0.0, math.inf, math.inf, 0.0),
    (Sphere(1), 1, 1, 0.0, 0.0, PI, PI, 0.0),
    (Sphere(5), 5, 1, 1.0, 0.0, PI, PI, 0.0),
    (Sphere(3, curvature=0.25), 3, 1, 0.25, 0.0, 2 * PI, 2 * PI, 0.0),
    (Hyperbolic(1), 1, 1, 0.0, 0.0, math.inf, math.inf, 0.0),
    (Hyperbolic(4), 4, 1, 0.0, -1.0, math.inf, math.inf, 3.0),
    (SPD(1), 1, 1, 0.0, 0.0, math.inf, math.inf, 0.0),
    (SPD(2), 3, 2, 0.0, -0.5, math.inf, math.inf, math.sqrt(0.5)),
    (SPD(10), 55, 10, 0.0, -0.5, math.inf, math.inf, math.sqrt(10 * 99 / 12)),
    (Grassmann(1, 2), 1, 1, 0.0, 0.0, PI / 2, PI / 2, 0.0),
    (Grassmann(1, 4), 3, 1, 1.0, 0.0, PI / 2, PI / 2, 0.0),
    (Grassmann(2, 4), 4, 2, 2.0, 0.0, PI / 2, PI / 2 * math.sqrt(2), 0.0),
    (Grassmann(3, 7), 12, 3, 2.0, 0.0, PI / 2, PI / 2 * math.sqrt(3), 0.0),
    (Rotations(2), 1, 1, 0.0, 0.0, PI, PI, 0.0),
    (Rotations(3), 3, 1, 0.25, 0.0, PI, PI, 0.0),
    (Rotations(4), 6, 2, 0.5, 0.0, PI, PI * math.sqrt(2), 0.0),
    (Rotations(7), 21, 3, 0.5, 0.0, PI, PI * math.sqrt(3), 0.0),
    (PlanarShapes(3), 2, 1, 4.0, 0.0, PI / 2, PI / 2, 0.0),
    (PlanarShapes(6), 8, 1, 4.0, 0.0, PI / 2, PI / 2, 0.0),
    (Product(Hyperbolic(3), SPD(2)), 6, 3, 0.0, -1.0, math.inf, math.inf, math.sqrt(4.5)),
    (Product(Sphere(2), Rotations(3)), 5, 2, 1.0, 0.0, PI, PI * math.sqrt(2), 0.0),
    (Product(Sphere(2, curvature=9.0), Hyperbolic(2)), 4, 2, 9.0, -1.0, PI / 3, math.inf, 1.0),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: repr(row[0]))
def test_the_constants_of_every_family_follow_from_its_roots(row):
    manifold, *expected = row
    found = [manifold.dim, manifold.rank, manifold.curvature, manifold.lowest_curvature, manifold.injectivity_radius]
    assert_allclose([*found, manifold.diameter, manifold.volume_entropy], expected, rtol=1e-15)


@every_manifold
def test_the_bound_is_jensens_with_the_extreme_eigenvalue_of_the_sum_of_squares_of_the_roots(manifold):
    roots = manifold.roots
    if roots.rank == 1 or not len(roots.forms):
        return
    growing = roots.signs < 0
    chosen = growing if growing.any() else ~growing
    weighted = (roots.multiplicities[chosen, None] * roots.rates[chosen]).T @ roots.rates[chosen]
    eigenvalues = np.linalg.eigvalsh(weighted)
    extreme = eigenvalues[-1] if growing.any() else eigenvalues[0]
    power = int(roots.multiplicities[chosen].sum())
    if extreme < 1e-12:
        assert roots.volume_bound.factors == ()
    else:
        ((found, square_rate, _),) = roots.volume_bound.factors
        assert (found, float(square_rate)) == (power, pytest.approx(extreme / power, rel=1e-12))


def test_roots_of_one_length_in_rank_one_or_none_at_all_are_isotropic_and_no_others():
    isotropic = [Sphere(3), Hyperbolic(3), Rotations(3), Grassmann(1, 4), PlanarShapes(5), Euclidean(3), SPDLogEuclidean(2)]
    assert all(manifold.roots.isotropic for manifold in [*isotropic, Product(Euclidean(1), SPD(1)), Product(Sphere(2))])
    others = [SPD(2), Rotations(4), Grassmann(2, 4), Product(Sphere(1), Sphere(1)), Product(Sphere(2), Euclidean(1))]
    assert not any(manifold.roots.isotropic for manifold in others)


def test_a_rank_one_space_with_two_root_lengths_is_bounded_by_its_own_density():
    complex_hyperbolic = Roots.of([[1], [2]], [4, 1], sign=-1)  # of complex dimension 3
    s = np.linspace(0.1, 5.0, 20)
    density = (np.sinh(s) / s) ** 4 * np.sinh(2 * s) / (2 * s)
    assert_allclose(complex_hyperbolic.log_density(s[:, None]), np.log(density), rtol=1e-13)
    assert_allclose(complex_hyperbolic.volume_bound.log_value(s), np.log(density), rtol=1e-13)
    assert complex_hyperbolic.volume_entropy == 6.0
    assert complex_hyperbolic.volume_bound.square_growth == 36
    assert complex_hyperbolic.lowest_curvature == -4.0


def test_the_growth_of_incommensurable_factors_is_rounded_up():
    hyperbolic = Roots.of([[1]], [2], sign=-1, square=Fraction(2))
    both = Roots(*(np.concatenate([getattr(hyperbolic, n), [[3]] if n == "forms" else [1]]) for n in ("forms", "multiplicities")),
                 (Fraction(2), Fraction(1)), np.array([-1, -1]), (None,))  # fmt: skip
    exact = (2 * math.sqrt(2) + 3) ** 2
    assert 0 <= float(both.volume_bound.square_growth) / exact - 1 < 1e-15


def test_blocks_take_a_direct_sum_apart():
    manifold = Product(Euclidean(2), SPD(3), Sphere(1), Rotations(5), Euclidean(1))
    blocks = manifold.roots.blocks()
    assert sorted((block.rank, block.dim) for block in blocks) == [(1, 1), (2, 10), (3, 3), (3, 6)]
    assert [block.dim for block in Roots.flat(3, cut=Fraction(1)).blocks()] == [1, 1, 1]
    assert [block.dim for block in Roots.flat(3).blocks()] == [3]


def test_the_mean_volume_over_a_chamber_is_an_integral_over_eigenvalues():
    """SPD(2): the direction's eigenvalue gap is ``sqrt(2) sin t`` with ``t`` uniform on a sphere in three dimensions."""
    for s in (0.3, 2.0, 5.0):
        mean, _ = quad(lambda t, s=s: math.sinh(s * math.sin(t) / math.sqrt(2)) / (s * math.sin(t) / math.sqrt(2))
                       * math.sin(t) / 2, 0.0, PI)  # fmt: skip
        assert mean != pytest.approx(1.0, abs=1e-3)
        assert mean_volume(SPD(2), 8.0).log_mean(np.array([s]))[0] == pytest.approx(math.log(mean), abs=1e-9)


def test_what_is_no_positive_system_is_refused():
    Roots.of(differences(3), [1, 1, 1], sign=-1)
    with pytest.raises(ValueError, match="obtuse angle"):
        Roots.of([[1, -1, 0], [0, 1, -1], [-1, 0, 1]], [1, 1, 1], sign=-1)
    with pytest.raises(ValueError, match="must be positive"):
        Roots.of([[1]], [-1], sign=1)
    with pytest.raises(ValueError, match="1 or -1"):
        Roots.of([[1]], [1], sign=0)


def test_a_bound_prints_its_factors():
    assert PlanarShapes(4).volume_bound.factors == (Factor(2, Fraction(1), 1), Factor(1, Fraction(4), 1))
