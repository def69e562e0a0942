"""Agreement with pyRiemann, SciPy and pymanopt inside the injectivity radius.

The other libraries use ``arccos``, matrix square roots and general logarithms, which lose up to half the digits when
points nearly coincide; at distances of the order of one all of them are good to the tolerance used here.
"""

from __future__ import annotations

import numpy as np
import pymanopt.manifolds
import pytest
from cases import random_points, random_tangents
from numpy.testing import assert_allclose
from pyriemann.geometry.distance import distance_logeuclid, distance_riemann
from pyriemann.geometry.tangentspace import exp_map_logeuclid, exp_map_riemann, log_map_logeuclid, log_map_riemann
from scipy.linalg import subspace_angles
from scipy.spatial import procrustes
from scipy.spatial.transform import Rotation

from geodp import SPD, Grassmann, Hyperbolic, PlanarShapes, Rotations, SPDLogEuclidean, Sphere

RELATIVE = 1e-9
PAIRS = 20


def pairs(manifold, spread=1.5):
    """Points with tangent vectors inside the cut locus, and where the vectors lead."""
    rng = np.random.default_rng(20240607)
    p = random_points(manifold, PAIRS, rng, spread)
    v = random_tangents(manifold, p, rng, spread)
    return p, v, manifold.exp(p, v)


def each(function, *arrays):
    return np.array([function(*args) for args in zip(*arrays, strict=True)])


def assert_agree(ours, theirs):
    assert_allclose(ours, theirs, rtol=RELATIVE, atol=RELATIVE * np.abs(theirs).max())


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_affine_invariant_geometry_agrees_with_pyriemann(k):
    manifold = SPD(k)
    p, v, q = pairs(manifold, spread=3.0)
    assert_agree(manifold.dist(p, q), each(distance_riemann, p, q))
    assert_agree(manifold.log(p, q), each(lambda a, b: log_map_riemann(b, a, C12=True), p, q))
    assert_agree(q, each(lambda a, u: exp_map_riemann(u, a, Cm12=True), p, v))


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_log_euclidean_geometry_agrees_with_pyriemann(k):
    manifold = SPDLogEuclidean(k)
    p, v, q = pairs(manifold, spread=3.0)
    assert_agree(manifold.dist(p, q), each(distance_logeuclid, p, q))
    assert_agree(manifold.log(p, q), each(lambda a, b: log_map_logeuclid(b, a), p, q))
    assert_agree(q, each(lambda a, u: exp_map_logeuclid(u, a), p, v))


@pytest.mark.parametrize("k", [2, 4])
def test_affine_invariant_inner_products_agree_with_pymanopt(k):
    manifold, other = SPD(k), pymanopt.manifolds.SymmetricPositiveDefinite(k)
    p, v, q = pairs(manifold)
    u = manifold.log(p, np.roll(p, 1, axis=0))
    assert_agree(manifold.inner(p, u, v), each(other.inner_product, p, u, v))
    assert_agree(manifold.norm(p, v), each(other.norm, p, v))
    assert_agree(manifold.dist(p, q), each(other.dist, p, q))


def test_three_dimensional_rotations_agree_with_scipy():
    manifold = Rotations(3)
    p, v, q = pairs(manifold, spread=3.0)
    between = Rotation.from_matrix(p).inv() * Rotation.from_matrix(q)
    assert_agree(manifold.dist(p, q), between.magnitude())
    x, y, z = np.moveaxis(between.as_rotvec(), -1, 0)
    zero = np.zeros(PAIRS)
    skew = np.moveaxis(np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]), -1, 0)
    assert_agree(manifold.log(p, q), p @ skew)
    assert_agree(manifold.norm(p, v), np.linalg.vector_norm(between.as_rotvec(), axis=-1))


@pytest.mark.parametrize("n", [2, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 5))])
def test_rotation_groups_agree_with_pymanopt_up_to_its_scale(n):
    # there the metric is tr(A'B), twice ours, and tangent vectors are the skew matrices themselves
    manifold, other = Rotations(n), pymanopt.manifolds.SpecialOrthogonalGroup(n)
    p, v, q = pairs(manifold)
    skew = np.swapaxes(p, -1, -2) @ v
    assert_agree(np.sqrt(2.0) * manifold.dist(p, q), each(other.dist, p, q))
    assert_agree(manifold.log(p, q), p @ each(other.log, p, q))
    assert_agree(q, each(other.exp, p, skew))
    assert_agree(2.0 * manifold.inner(p, v, v), each(other.inner_product, p, skew, skew))


@pytest.mark.parametrize(("k", "m"), [(1, 2), (1, 5), (2, 4), (2, 6), (3, 7)])
def test_subspaces_agree_with_pymanopt_and_with_the_principal_angles_of_scipy(k, m):
    manifold, other = Grassmann(k, m), pymanopt.manifolds.Grassmann(m, k)
    p, v, q = pairs(manifold)
    assert_agree(manifold.dist(p, q), each(other.dist, p, q))
    assert_agree(manifold.dist(p, q), each(lambda a, b: np.linalg.norm(subspace_angles(a, b)), p, q))
    assert_agree(manifold.log(p, q), each(other.log, p, q))
    ended = each(other.exp, p, v)
    assert_agree(q @ np.swapaxes(q, -1, -2), ended @ np.swapaxes(ended, -1, -2))
    assert_agree(manifold.inner(p, v, v), each(other.inner_product, p, v, v))


@pytest.mark.parametrize("d", [1, 2, 6])
def test_unit_spheres_agree_with_pymanopt(d):
    manifold, other = Sphere(d), pymanopt.manifolds.Sphere(d + 1)
    p, v, q = pairs(manifold, spread=3.0)
    assert_agree(manifold.dist(p, q), each(other.dist, p, q))
    assert_agree(manifold.log(p, q), each(other.log, p, q))
    assert_agree(q, each(other.exp, p, v))


@pytest.mark.parametrize("curvature", [0.3, 4.0])
def test_other_spheres_are_scaled_copies_of_the_unit_sphere_of_pymanopt(curvature):
    manifold, other = Sphere(3, curvature=curvature), pymanopt.manifolds.Sphere(4)
    scale = np.sqrt(curvature)
    p, _, q = pairs(manifold)
    assert_agree(scale * manifold.dist(p, q), each(other.dist, scale * p, scale * q))
    assert_agree(scale * manifold.log(p, q), each(other.log, scale * p, scale * q))


@pytest.mark.parametrize("d", [1, 2, 5])
def test_hyperbolic_space_agrees_with_the_poincare_ball_of_pymanopt(d):
    manifold, other = Hyperbolic(d), pymanopt.manifolds.PoincareBall(d)

    def ball(x):  # stereographic projection from (-1, 0)
        return x[..., 1:] / (1.0 + x[..., :1])

    def pushed(x, u):  # and its derivative
        return u[..., 1:] / (1.0 + x[..., :1]) - x[..., 1:] * u[..., :1] / (1.0 + x[..., :1]) ** 2

    p, v, q = pairs(manifold)
    assert_agree(manifold.dist(p, q), each(other.dist, ball(p), ball(q)))
    assert_agree(pushed(p, manifold.log(p, q)), each(other.log, ball(p), ball(q)))
    assert_agree(ball(q), each(other.exp, ball(p), pushed(p, v)))
    assert_agree(manifold.norm(p, v), each(other.norm, ball(p), pushed(p, v)))


@pytest.mark.parametrize("landmarks", [3, 4, 9])
def test_the_sine_of_the_distance_of_two_shapes_is_their_procrustes_disparity_in_scipy(landmarks):
    # SciPy's best fit may reflect, so each pair is compared with the nearer of a shape and its mirror image
    manifold = PlanarShapes(landmarks)
    p, _, q = pairs(manifold)
    mirrored = q * np.array([1.0, -1.0])
    nearer = np.minimum(manifold.dist(p, q), manifold.dist(p, mirrored))
    assert_agree(np.sin(nearer) ** 2, each(lambda a, b: procrustes(a, b)[2], p, q))


@pytest.mark.parametrize("landmarks", [3, 4, 9])
def test_shapes_agree_with_the_complex_lines_of_pymanopt(landmarks):
    # the centred configurations are a complex hyperplane; the line through one of them is its shape
    manifold, other = PlanarShapes(landmarks), pymanopt.manifolds.ComplexGrassmann(landmarks, 1)
    p, v, q = pairs(manifold)
    line, end, velocity = (x[..., :1] + 1j * x[..., 1:] for x in (p, q, v))
    assert_agree(manifold.dist(p, q), each(other.dist, line, end))
    log = each(other.log, line, end)
    assert_agree(manifold.log(p, q), np.concatenate([log.real, log.imag], axis=-1))
    ended = each(other.exp, line, velocity)
    assert_agree(end @ end.conj().swapaxes(-1, -2), ended @ ended.conj().swapaxes(-1, -2))
