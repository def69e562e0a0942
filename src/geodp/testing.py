"""Checks that a manifold keeps its contract, also your own.

:data:`PROPERTIES` are functions of a manifold. Each is named after the property it checks, and raises an ``AssertionError`` that
says by how much it fails. In your own test suite::

    import pytest
    from geodp.testing import PROPERTIES

    @pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
    def test_my_manifold(holds):
        holds(MyManifold(3))

The points are random, from a seed that depends only on the manifold. Tolerances are the machine epsilon times a generous
constant; searches state their own. Every property holds exactly in real arithmetic, so a result never changes between runs, and
there are no false alarms except one in a million for each of the three tests that draw.

Sensitivity, certificate and noise depend on numbers that a manifold states about itself. Each is checked against its maps
``exp``, ``log`` and ``dist``, never against another of these numbers:

=======================================  ==========================================================================
number                                   checked against
=======================================  ==========================================================================
roots, rank, dimension                   the spectrum of the curvature operator, from Jacobi fields
largest and lowest curvature             a search for the planes of largest and lowest curvature
injectivity radius, diameter, cut locus  a search for the geodesics that stop being shortest first and last
volume density, its bound                differences of ``exp``, up to the cut locus
total volume                             the same integral seen from another point
volume entropy                           the growth of the density along geodesics
flat charts                              distances, their inverses, and hundreds of digits
rounding of ``log``                      hundreds of digits from the exact sampler's chart; the last bits of its arguments
requirements                             random arrays, points of the wrong size, projections of anything
diameter of the embedding                a search for the pair of points that are farthest apart in it
isometries                               distances, and geodesic symmetries (Cartan)
exact sampler                            ``exp``, ``dist`` and differences of ``exp``; an independent importance sampler
=======================================  ==========================================================================

A rounding bound is an inequality with a margin, and a bound that is too small by less than the margin is not noticed. If the
bounds of the library are divided by 2,000, that is noticed everywhere, and if they are divided by 100, on many manifolds; an
error of ``log`` itself is noticed wherever it exceeds the bound. Without an exact sampler the only oracle for ``log`` is its last
bits, and only a division by 100,000 is noticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

import geodp
from geodp import manifolds
from geodp.inputs import Array
from geodp.manifolds import Embedding, FlatChart, Manifold

if TYPE_CHECKING:
    from flint import arb

#: The tolerance for equal numbers of order one.
CLOSE = 2e-11


def check_manifold(manifold: Manifold, *, slow: bool = False) -> None:
    """Checks all :data:`PROPERTIES` of a manifold; an ``AssertionError`` names the first that does not hold.

    >>> from geodp import Sphere
    >>> check_manifold(Sphere(2))
    """
    for holds in (*PROPERTIES, *(SLOW_PROPERTIES if slow else ())):
        title = f"{holds.__name__.replace('_', ' ')} on {manifold}"
        try:
            holds(manifold)
        except AssertionError as error:
            raise AssertionError(f"{title}: {error}") from None
        except Exception as error:  # a mistake in one map may make another fail
            raise AssertionError(f"{title}: {type(error).__name__}: {error}") from error


def random_points(manifold: Manifold, size: int, rng: np.random.Generator, spread: float = 1.0) -> Array:
    """Points in all directions at distances of up to ``spread`` (and inside the injectivity radius) from the origin."""
    origins = np.broadcast_to(manifold.origin, (size, *manifold.point_shape))
    return manifold.exp(manifold.origin, random_tangents(manifold, origins, rng, spread))


def random_tangents(manifold: Manifold, p: Array, rng: np.random.Generator, spread: float = 1.0) -> Array:
    """Tangent vectors at each point of ``p``, uniform in direction, of length up to ``spread`` and inside the cut locus."""
    size = p.shape[: p.ndim - len(manifold.point_shape)]
    directions = rng.normal(size=(*size, manifold.dim))
    directions /= np.linalg.vector_norm(directions, axis=-1, keepdims=True)
    reach = min(spread, 0.98 * manifold.injectivity_radius)
    lengths = reach * rng.uniform(0.05, 1.0, size=(*size, 1))
    return manifold.tangent(p, directions * lengths)


def _rng(manifold: Manifold) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, repr(manifold))))


def _pairs(manifold: Manifold, count: int = 40) -> tuple[Array, Array, Array]:
    """Points ``p``, tangent vectors ``v`` inside the injectivity radius, and ``exp(p, v)``."""
    rng = _rng(manifold)
    p = random_points(manifold, count, rng)
    v = random_tangents(manifold, p, rng, spread=2.0)
    return p, v, manifold.exp(p, v)


def _norm(manifold: Manifold, p: Array, v: Array) -> Array:
    return np.asarray(manifold.norm(p, v))


def _small(values: ArrayLike, bound: float, what: str) -> None:
    largest = float(np.max(np.abs(values)))
    if not largest < bound:
        raise AssertionError(f"{what} is up to {largest:.3g}, which should be below {bound:.3g}")


def _true(condition: object, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)


# ---------------------------------------------------------------------- points, exp and log


def the_origin_and_every_exp_are_points(manifold: Manifold) -> None:
    _, _, q = _pairs(manifold)
    _true(manifold.check_point(manifold.origin) is None, f"the origin is not a point: {manifold.check_point(manifold.origin)}")
    _true(manifold.check_point(q) is None, f"an exp is not a point: {manifold.check_point(q)}")
    _true(manifold.valid(q).all(), "valid and check_point disagree")
    _true(manifold.origin.shape == manifold.point_shape, f"the origin has shape {manifold.origin.shape}")


def log_inverts_exp_inside_the_injectivity_radius(manifold: Manifold) -> None:
    p, v, q = _pairs(manifold)
    _small(_norm(manifold, p, manifold.log(p, q) - v), CLOSE, "log(p, exp(p, v)) - v")


def exp_inverts_log(manifold: Manifold) -> None:
    rng = _rng(manifold)
    p, q = random_points(manifold, 40, rng), random_points(manifold, 40, rng)
    _small(manifold.dist(manifold.exp(p, manifold.log(p, q)), q), CLOSE, "the distance from exp(p, log(p, q)) to q")


def dist_is_the_norm_of_log_and_symmetric(manifold: Manifold) -> None:
    p, v, q = _pairs(manifold)
    distances = np.asarray(manifold.dist(p, q))
    _small(distances - _norm(manifold, p, manifold.log(p, q)), CLOSE, "dist(p, q) - norm(log(p, q))")
    _small(distances - _norm(manifold, p, v), CLOSE, "dist(p, exp(p, v)) - norm(v)")
    _small(distances - manifold.dist(q, p), CLOSE, "dist(p, q) - dist(q, p)")


def dist_from_a_point_to_itself_is_zero(manifold: Manifold) -> None:
    # a point stored in floats determines a subspace or a shape only up to its last bits
    p, _, _ = _pairs(manifold)
    _small(manifold.dist(p, p), 1e-15, "dist(p, p)")
    _small(_norm(manifold, p, manifold.log(p, p)), 1e-15, "norm(log(p, p))")


def dist_obeys_the_triangle_inequality(manifold: Manifold) -> None:
    rng = _rng(manifold)
    x, y, z = (random_points(manifold, 60, rng, spread=3.0) for _ in range(3))
    excess = np.asarray(manifold.dist(x, z)) - manifold.dist(x, y) - manifold.dist(y, z)
    _true(excess.max() < CLOSE, f"a side of a triangle exceeds the other two by {excess.max():.3g}")


def geodesics_have_constant_speed_and_are_shortest(manifold: Manifold) -> None:
    p, v, _ = _pairs(manifold, 20)
    times = np.linspace(0.0, 1.0, 6).reshape(-1, *(1,) * p.ndim)
    path = manifold.exp(p, times * v)
    steps = np.asarray(manifold.dist(path[1:], path[:-1]))
    _small(steps - _norm(manifold, p, v) / 5.0, CLOSE, "a fifth of a geodesic minus a fifth of its length")


def inner_is_the_polarisation_of_the_distance(manifold: Manifold) -> None:
    # compute the metric from distances alone: |u - v|^2 of small vectors is the squared distance between their ends
    rng = _rng(manifold)
    p = random_points(manifold, 10, rng)
    u, v = random_tangents(manifold, p, rng), random_tangents(manifold, p, rng)
    small = 1e-4
    apart = np.asarray(manifold.dist(manifold.exp(p, small * u), manifold.exp(p, small * v))) / small
    polar = 0.5 * (_norm(manifold, p, u) ** 2 + _norm(manifold, p, v) ** 2 - apart**2)
    _small(polar - manifold.inner(p, u, v), 1e-6, "the inner product read off from distances minus inner")


def log_and_exp_never_return_nan_for_valid_input(manifold: Manifold) -> None:
    rng = _rng(manifold)
    p = random_points(manifold, 30, rng, spread=3.0)
    for q in (p, np.broadcast_to(manifold.origin, p.shape), random_points(manifold, 30, rng, spread=1e-200)):
        _true(np.isfinite(manifold.dist(p, q)).all(), "a distance is not finite")
        _true(np.isfinite(manifold.log(p, q)).all(), "a logarithm is not finite")
        _true(np.isfinite(manifold.exp(p, np.zeros_like(p))).all(), "exp(p, 0) is not finite")


# ---------------------------------------------------------------------- frames and isometries


def frames_are_orthonormal_and_coordinates_invert_them(manifold: Manifold) -> None:
    p, v, _ = _pairs(manifold, 5)
    frame = manifold.tangent(p[:, None], np.eye(manifold.dim))
    gram = np.asarray(manifold.inner(p[:, None, None], frame[:, :, None], frame[:, None, :]))
    _small(gram - np.eye(manifold.dim), CLOSE, "the Gram matrix of a frame minus the identity")
    coordinates = manifold.coordinates(p, v)
    _true(coordinates.shape == (5, manifold.dim), f"coordinates of five vectors have shape {coordinates.shape}")
    _small(_norm(manifold, p, manifold.tangent(p, coordinates) - v), CLOSE, "tangent(p, coordinates(p, v)) - v")


def move_origin_is_an_isometry_that_takes_the_origin_to_the_point(manifold: Manifold) -> None:
    rng = _rng(manifold)
    p, x, y = (random_points(manifold, 12, rng) for _ in range(3))
    _small(manifold.dist(manifold.move_origin(p, manifold.origin), p), CLOSE, "the distance from the moved origin to p")
    moved = np.asarray(manifold.dist(manifold.move_origin(p, x), manifold.move_origin(p, y)))
    _small(moved - manifold.dist(x, y), CLOSE, "the change of a distance under move_origin")


def the_frame_at_a_point_is_the_moved_frame_of_the_origin(manifold: Manifold) -> None:
    rng = _rng(manifold)
    p = random_points(manifold, 12, rng)
    coordinates = 0.5 * min(1.0, manifold.injectivity_radius) * rng.normal(size=(12, manifold.dim)) / manifold.dim**0.5
    here = manifold.exp(p, manifold.tangent(p, coordinates))
    there = manifold.move_origin(p, manifold.exp(manifold.origin, manifold.tangent(manifold.origin, coordinates)))
    _small(manifold.dist(here, there), CLOSE, "the distance between exp in the frame at p and the moved exp at the origin")


# ---------------------------------------------------------------------- arrays


def a_batch_equals_a_loop(manifold: Manifold) -> None:
    p, v, q = _pairs(manifold, 7)
    for name in ("exp", "norm", "log_volume_density", "inside_cut_locus", "coordinates", "log", "dist", "move_origin"):
        method, second = getattr(manifold, name), q if name in ("log", "dist", "move_origin") else v
        loop = np.array([method(a, b) for a, b in zip(p, second, strict=True)])
        _true(np.allclose(method(p, second), loop, rtol=1e-12, atol=1e-13), f"{name} of a batch is not that of its records")


def leading_axes_broadcast(manifold: Manifold) -> None:
    p, _, q = _pairs(manifold, 6)
    shape, one, zero = manifold.point_shape, p[0], np.zeros(manifold.point_shape)
    table, none = q.reshape(2, 3, *shape), np.empty((0, *shape))
    found = {
        "dist of one and a table": (np.shape(manifold.dist(one, table)), (2, 3)),
        "dist of a table and one": (np.shape(manifold.dist(table, one)), (2, 3)),
        "log of one and a table": (manifold.log(one, table).shape, table.shape),
        "log of a table and one": (manifold.log(table, one).shape, table.shape),
        "exp of a column and a table": (
            manifold.exp(p[:, None], 0.1 * manifold.log(p[:, None], q[None, :])).shape,
            (6, 6, *shape),
        ),
        "tangent of one and four": (manifold.tangent(one, np.zeros((4, manifold.dim))).shape, (4, *shape)),
        "tangent of six and one": (manifold.tangent(p, np.zeros(manifold.dim)).shape, p.shape),
        "norm of six and one": (np.shape(manifold.norm(p, zero)), (6,)),
        "log_volume_density of six and one": (np.shape(manifold.log_volume_density(p, zero)), (6,)),
        "inside_cut_locus of six and one": (np.shape(manifold.inside_cut_locus(p, zero)), (6,)),
        "exp of none": (manifold.exp(none, none).shape, none.shape),
    }
    for what, (shape_found, shape_wanted) in found.items():
        _true(shape_found == shape_wanted, f"{what} has shape {shape_found} instead of {shape_wanted}")


def project_leaves_points_and_repairs_perturbed_ones(manifold: Manifold) -> None:
    p, _, _ = _pairs(manifold, 10)
    _small(manifold.dist(manifold.project(p), p), CLOSE, "the distance from a point to its projection")
    repaired = manifold.project(p + 1e-9 * _rng(manifold).normal(size=p.shape))
    _true(manifold.check_point(repaired) is None, f"a projection is not a point: {manifold.check_point(repaired)}")
    _small(manifold.dist(repaired, p), 1e-6, "the distance from a point to the projection of a perturbed one")


def single_precision_is_read_as_the_point_next_to_it(manifold: Manifold) -> None:
    p, _, q = _pairs(manifold, 10)
    single = p.astype(np.float32)
    _small(manifold.dist(single, p), 1e-4, "the distance from a point to itself in single precision")
    answer = manifold.log(single, q)
    _true(answer.dtype == np.float64, f"the logarithm at a point in single precision is of type {answer.dtype}")
    wrong = manifold.check_point(manifold.exp(single, answer))
    _true(wrong is None, f"an exp from a point in single precision is not a point: {wrong}")


def points_are_not_written_to(manifold: Manifold) -> None:
    p, v, q = _pairs(manifold, 4)
    kept = p.copy(), v.copy(), q.copy()
    manifold.exp(p, v), manifold.log(p, q), manifold.dist(p, q), manifold.project(q), manifold.norm(p, v)
    _true(all(np.array_equal(a, b) for a, b in zip((p, v, q), kept, strict=True)), "an argument was changed")


def manifolds_compare_by_value_and_print_as_they_are_written(manifold: Manifold) -> None:
    names = vars(manifolds) | {type(manifold).__name__: type(manifold)}
    again = eval(repr(manifold), names)
    _true(again == manifold and hash(again) == hash(manifold), f"{manifold!r} written again is another one")
    _true(manifold != geodp.SPD(99), "it equals SPD(99)")


# ---------------------------------------------------------------------- the cut locus and volume


def inside_cut_locus_agrees_with_being_shortest(manifold: Manifold) -> None:
    rng = _rng(manifold)
    p = random_points(manifold, 300, rng)
    reach = manifold.diameter if math.isfinite(manifold.diameter) else 4.0
    directions = rng.normal(size=(300, manifold.dim))
    directions *= (1.2 * reach * rng.uniform(size=300) / np.linalg.vector_norm(directions, axis=-1))[:, None]
    v = manifold.tangent(p, directions)
    lengths = _norm(manifold, p, v)
    shortest = np.asarray(manifold.dist(p, manifold.exp(p, v))) > lengths - 1e-9
    _true(
        np.array_equal(manifold.inside_cut_locus(p, v), shortest),
        "a geodesic inside the cut locus is not shortest, or the reverse",
    )
    _true(lengths[shortest].max() < manifold.diameter + 1e-9, "a shortest geodesic is longer than the diameter")
    _true(shortest[lengths < manifold.injectivity_radius - 1e-9].all(), "one within the injectivity radius is not shortest")
    _true(math.isinf(manifold.diameter) or not shortest.all(), "geodesics longer than the diameter are shortest")


def log_volume_density_is_the_logarithm_of_the_jacobian_determinant_of_exp(manifold: Manifold) -> None:
    p, v, _ = _pairs(manifold, 6)
    c = 0.9 * manifold.coordinates(p, v)
    if math.isfinite(manifold.diameter):  # past the injectivity radius, too, up to next to the cut locus
        wide = _in_the_ball(manifold, 4000, _rng(manifold))
        far = manifold.tangent(manifold.origin, 1.03 * wide)
        inside = np.asarray(manifold.inside_cut_locus(manifold.origin, far))
        wide = wide[inside & (np.asarray(manifold.log_volume_density(manifold.origin, far)) > -8.0)]
        c = np.concatenate([c, wide[np.argsort(np.linalg.vector_norm(wide, axis=-1))[-6:]]])
        p = np.concatenate([p, np.broadcast_to(manifold.origin, (len(c) - 6, *manifold.point_shape))])
    density = np.asarray(manifold.log_volume_density(p, manifold.tangent(p, c)))
    jacobian = [log_jacobian(manifold, *pair) for pair in zip(p, c, strict=True)]
    _small(density - jacobian, 1e-6, "log_volume_density minus the logarithm of a Jacobian determinant by differences")
    _small(manifold.log_volume_density(p, np.zeros_like(p)), 1e-15, "log_volume_density at zero")


def log_jacobian(manifold: Manifold, p: Array, c: Array) -> float:
    """``log |det d exp_p|`` at the velocity with coordinates ``c``, from differences of ``exp`` alone."""
    return float(np.linalg.slogdet(jacobian(manifold, p, c))[1])


def jacobian(manifold: Manifold, p: Array, c: Array) -> Array:
    """The derivative of ``exp_p`` at the velocity with coordinates ``c``, in orthonormal frames, from differences."""
    end = manifold.exp(p, manifold.tangent(p, c))

    def differences(step: float) -> Array:
        shifted = manifold.exp(p, manifold.tangent(p, c + step * np.concatenate([np.eye(manifold.dim), -np.eye(manifold.dim)])))
        ahead, behind = np.split(manifold.coordinates(end, manifold.log(end, shifted)), 2)
        return (ahead - behind) / (2.0 * step)

    # Richardson's extrapolation: the error is of order step^4, about 1e-11, and that of rounding about 1e-13
    return (4.0 * differences(1e-3) - differences(2e-3)) / 3.0


# ---------------------------------------------------------------------- curvature


def curvature_operator(manifold: Manifold, c: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of ``Y -> R(Y, X)X`` at the origin, ``X`` the unit vector with coordinates ``c``.

    On a symmetric space a Jacobi field along ``X`` that starts at 0 in an eigendirection of curvature ``k`` has the length
    ``sin(sqrt(k) t)/sqrt(k)``, so the singular values of the derivative of ``exp`` at ``t X`` are ``sn(sqrt(k) t)``, of which
    ``log sn = -k t^2/6 - (k t^2)^2/180 - (k t^2)^3/2835 - ...`` for either sign of ``k``.
    """
    t = 0.1 * min(1.0, manifold.injectivity_radius)
    _, singular, right = np.linalg.svd(jacobian(manifold, manifold.origin, t * c))
    x = -6.0 * np.log(singular)
    return (x - x**2 / 30.0 + 11.0 * x**3 / 6300.0) / t**2, right


def roots_are_the_spectrum_of_the_curvature_operator(manifold: Manifold) -> None:
    """The spectrum has 0 with the multiplicity of the rank, and ``+-alpha(X)^2`` with the multiplicity of each root."""
    roots, rng = manifold.roots, _rng(manifold)
    _true(manifold.dim == roots.dim, f"the dimension is {manifold.dim} but that of the roots {roots.dim}")
    _true(manifold.rank == roots.rank, f"the rank is {manifold.rank} but that of the roots {roots.rank}")
    for _ in range(3):
        c = _unit(rng.normal(size=manifold.dim))
        radial = manifold.raw_radial_part(manifold.origin, manifold.tangent(manifold.origin, c))
        _small(np.linalg.vector_norm(radial) - 1.0, CLOSE, "the length of the radial part of a unit vector minus 1")
        expected = np.repeat(roots.signs * (roots.rates @ radial) ** 2, roots.multiplicities)
        found = np.sort(curvature_operator(manifold, c)[0])
        scale = max(1.0, float(np.abs(found).max()))
        expected = np.sort(np.concatenate([np.zeros(roots.rank), expected]))
        _small((found - expected) / scale, 1e-4, "an eigenvalue of the curvature operator minus that of the roots")


def curvature_bounds_are_the_extreme_curvatures_of_planes(manifold: Manifold) -> None:
    """Alternates between ``X`` and its eigenvector of extreme curvature, until the curvature of their plane is extreme."""
    rng, found = _rng(manifold), [0.0]
    for which in (0, -1):
        for _ in range(3):
            c = _unit(rng.normal(size=manifold.dim))
            for _ in range(6 if manifold.dim > 1 else 0):
                values, vectors = curvature_operator(manifold, c)
                order = np.argsort(values)
                found.append(float(values[order[which]]))
                c = _unit(vectors[order[which]] - (vectors[order[which]] @ c) * c)
    for name, claimed, most in (
        ("curvature", manifold.curvature, max(found)),
        ("lowest_curvature", manifold.lowest_curvature, min(found)),
    ):
        tolerance = 0.02 * max(abs(most), 1e-3 * max(map(abs, found)), 1e-4)
        _true(
            abs(claimed - most) < tolerance,
            f"{name} is {claimed:.6g}, but there are planes of curvature {most:.6g} and none past",
        )
    plane = manifold.plane_of_largest_curvature
    _small(plane @ plane.T - np.eye(len(plane)), CLOSE, "the Gram matrix of the plane of largest curvature minus the identity")
    if manifold.curvature > 0.0:
        values, vectors = curvature_operator(manifold, plane[0])
        steepness = float(np.sum(values * (vectors @ plane[1]) ** 2))
        _true(abs(steepness - max(found)) < 0.02 * max(found), f"the plane of largest curvature has curvature {steepness:.6g}")


def _unit(x: Array) -> Array:
    return x / np.linalg.vector_norm(x, axis=-1, keepdims=True)


def geodesic_symmetries_are_isometries(manifold: Manifold) -> None:
    """Cartan's definition of a symmetric space; together with ``move_origin`` it makes the manifold homogeneous."""
    rng, spread = _rng(manifold), 0.3 * min(manifold.injectivity_radius, 3.0)
    center = random_points(manifold, 1, rng, spread)[0]
    x, y = (manifold.exp(center, random_tangents(manifold, np.stack([center] * 12), rng, spread)) for _ in range(2))
    mirrored = [manifold.exp(center, -manifold.log(center, points)) for points in (x, y)]
    _small(
        np.asarray(manifold.dist(*mirrored)) - manifold.dist(x, y), CLOSE, "the change of a distance under a geodesic symmetry"
    )


def injectivity_radius_and_diameter_are_the_extreme_cut_times(manifold: Manifold) -> None:
    """Searches over directions for the geodesics from the origin that stop being shortest first and last.

    The result is a bound from one side, and accurate to a few per cent from the other.
    """
    if math.isinf(manifold.injectivity_radius) or math.isinf(manifold.diameter):
        directions = manifold.tangent(manifold.origin, _unit(_rng(manifold).normal(size=(64, manifold.dim))))
        far = np.asarray(manifold.dist(manifold.origin, manifold.exp(manifold.origin, 6.0 * directions)))
        _true(
            math.isinf(manifold.injectivity_radius) <= bool((far > 6.0 - 1e-6).all()),
            f"the injectivity radius is infinite, but a geodesic of length 6 ends at distance {far.min():.6g}",
        )
    if math.isfinite(manifold.injectivity_radius):
        first = _extreme_cut_time(manifold, -1.0)
        ratio = manifold.injectivity_radius / first
        _true(0.97 < ratio < 1.0 + 1e-4, f"the injectivity radius is {manifold.injectivity_radius:.6g}, but a geodesic "
              f"is shortest up to {first:.6g} only, and none found stops before")  # fmt: skip
    if math.isfinite(manifold.diameter):
        last = _extreme_cut_time(manifold, 1.0)
        ratio = manifold.diameter / last
        _true(1.0 - 1e-4 < ratio < 1.06, f"the diameter is {manifold.diameter:.6g}, but a geodesic is shortest up to {last:.6g}, "
              "and none found goes on")  # fmt: skip


def _extreme_cut_time(manifold: Manifold, sign: float) -> float:
    rng, best = _rng(manifold), -math.inf
    centers = np.concatenate([np.eye(manifold.dim)[:32], rng.normal(size=(64, manifold.dim))])
    for size in np.geomspace(0.5, 0.01, 40):
        times = sign * _cut_times(manifold, _unit(centers))
        if times.max() > best:
            best, leader = float(times.max()), _unit(centers)[times.argmax()]
        centers = leader + size * rng.normal(size=(48, manifold.dim)) / math.sqrt(manifold.dim)
    return sign * best


def _cut_times(manifold: Manifold, directions: Array) -> Array:
    """The lengths up to which geodesics from the origin are shortest, by bisection, from distances alone."""
    vectors = manifold.tangent(manifold.origin, directions)
    shape = (-1, *(1,) * len(manifold.point_shape))
    finite = [reach for reach in (manifold.injectivity_radius, manifold.diameter) if math.isfinite(reach)]
    low, high = np.zeros(len(directions)), np.full(len(directions), 4.0 * max(finite))
    for _ in range(20):
        middle = 0.5 * (low + high)
        ends = manifold.raw_exp(manifold.origin, middle.reshape(shape) * vectors)
        shortest = manifold.raw_dist(manifold.origin, ends) > middle - 1e-7
        low, high = np.where(shortest, middle, low), np.where(shortest, high, middle)
    return 0.5 * (low + high)


# ---------------------------------------------------------------------- volume


def volume_bound_bounds_the_volume_density(manifold: Manifold) -> None:
    rng = _rng(manifold)
    reach = manifold.diameter if math.isfinite(manifold.diameter) else 6.0
    directions = rng.normal(size=(2000, manifold.dim)) ** 3  # cubes: many directions are near a few axes
    directions *= (reach * rng.uniform(size=2000) / np.linalg.vector_norm(directions, axis=-1))[:, None]
    v = manifold.tangent(manifold.origin, directions)
    inside = np.asarray(manifold.inside_cut_locus(manifold.origin, v))
    density = np.asarray(manifold.log_volume_density(manifold.origin, v))[inside]
    excess = density - manifold.volume_bound.log_value(_norm(manifold, manifold.origin, v)[inside])
    _true(excess.max() < 1e-9, f"the logarithm of the volume density exceeds that of its bound by {excess.max():.3g}")
    if manifold.roots.isotropic:
        _small(excess, 1e-9, "in an isotropic space, the logarithm of the volume density minus that of its bound")


def _in_the_ball(manifold: Manifold, count: int, rng: np.random.Generator) -> Array:
    """Coordinates of velocities that are uniform among those no longer than the diameter."""
    lengths = manifold.diameter * rng.uniform(size=(count, 1)) ** (1.0 / manifold.dim)
    return _unit(rng.normal(size=(count, manifold.dim))) * lengths


def volume_is_the_same_seen_from_every_point(manifold: Manifold) -> None:
    """An integral of ``exp(-dist(p, x)/diameter)`` over all of a compact manifold does not depend on ``p``: it is homogeneous.

    For two points ``p`` it is computed from velocities at one of them, with the volume density and the cut locus that the
    manifold says it has there: where these are wrong, mass is missing or there twice, and the other point sees it elsewhere. The
    two differ by more than 4.9 standard errors in one of a million seeds. Left out where fewer than 500 of the 40,000 draws
    count, from about ten dimensions on.
    """
    if len(manifold.components) > 1:
        for factor in manifold.components:
            volume_is_the_same_seen_from_every_point(factor)
        return
    if math.isinf(manifold.diameter):
        return
    rng, origin, scale = _rng(manifold), manifold.origin, manifold.diameter
    c = _in_the_ball(manifold, 40_000, rng)
    v, lengths = manifold.raw_tangent(origin, c), np.linalg.vector_norm(c, axis=-1)
    inside = manifold.raw_inside_cut_locus(origin, v)
    v, lengths = v[inside], lengths[inside]
    weights = np.exp(manifold.raw_log_volume_density(origin, v) - lengths / scale)
    if weights.sum() ** 2 < 500.0 * (weights @ weights):
        return
    other = manifold.exp(origin, manifold.tangent(origin, 0.5 * scale * _unit(rng.normal(size=manifold.dim))))
    ratios = np.exp((lengths - manifold.raw_dist(other, manifold.raw_exp(origin, v))) / scale)
    ratio = float(weights @ ratios / weights.sum())
    error = float(np.linalg.vector_norm(weights * (ratios - ratio)) / weights.sum())
    _true(abs(ratio - 1.0) < 4.9 * error, f"an integral over the manifold, {error:.2g} accurate, is {ratio:.6g} times itself "
          "when seen from another point")  # fmt: skip


def volume_entropy_is_the_fastest_growth_of_the_volume_density(manifold: Manifold) -> None:
    """Growth is ``log J(s X)/s`` for large ``s``, searched over directions ``X`` in each factor; 0 if the diameter is finite."""
    found = math.hypot(*(_fastest_growth(factor) for factor in manifold.components))
    _true(
        -1e-6 < manifold.volume_entropy - found < 0.03 * found + 1e-6,
        f"volume_entropy is {manifold.volume_entropy:.6g}, but the volume density was seen to grow at the rate {found:.6g}",
    )


def _fastest_growth(manifold: Manifold) -> float:
    if len(manifold.components) > 1:
        return math.hypot(*map(_fastest_growth, manifold.components))
    if math.isfinite(manifold.diameter):
        return 0.0
    lengths, rng = np.array([400.0, 800.0, 1600.0])[:, None, None], _rng(manifold)
    directions, fastest = _unit(rng.normal(size=(256, manifold.dim))), -math.inf
    for size in np.geomspace(0.5, 0.01, 40):
        vectors = manifold.raw_tangent(manifold.origin, lengths * directions)
        one, two, three = manifold.raw_log_volume_density(manifold.origin, vectors)
        rates = ((three - two) - (two - one)) / 400.0  # powers of the length cancel
        if rates.max() > fastest:
            fastest, leader = float(rates.max()), directions[rates.argmax()]
        directions = _unit(leader + size * rng.normal(size=(64, manifold.dim)) / math.sqrt(manifold.dim))
    return fastest


# ---------------------------------------------------------------------- rounding, and what is a point


def log_rounding_covers_the_last_bits_of_its_arguments(manifold: Manifold) -> None:
    """A logarithm cannot be more accurate than ``q``, and its bound, with that of reading, also covers the rounding of ``p``.

    The last bits of ``p`` and ``q`` are changed at random, enlarged a million times so that other rounding does not matter. A
    bound on the rounding of ``log`` must not be below their effect: also far away, near the cut locus, and at all points of a
    ball.
    """
    rng, enlarged = _rng(manifold), 2.0**20
    for reach in (0.1, 0.45, 0.9):
        longest = reach * min(manifold.injectivity_radius, 6.0)
        p = random_points(manifold, 30, rng)
        v = random_tangents(manifold, p, rng, longest)
        q = manifold.exp(p, v)
        base, flipped = manifold.raw_log(p, q), _flipped(manifold, q, enlarged, rng)
        moved = _norm(manifold, p, manifold.raw_project_tangent(p, manifold.raw_log(p, flipped) - base)) / enlarged
        stored = np.asarray(manifold.dist(p, _flipped(manifold, p, enlarged, rng))) / enlarged
        lengths = _norm(manifold, p, v)
        bounds = np.array([manifold.log_rounding(at, float(length)) for at, length in zip(p, lengths, strict=True)])
        bounds += [manifold.reading_rounding(start) + manifold.reading_rounding(end) for start, end in zip(p, q, strict=True)]
        for seen, what in ((moved, "q change log(p, q)"), (stored, "p move it")):
            worst = int(np.argmax(seen - bounds))
            _true(
                seen[worst] <= bounds[worst],
                f"log_rounding is {bounds[worst]:.3g}, but the last bits of {what} by {seen[worst]:.3g}",
            )
    radius = 0.45 * min(manifold.injectivity_radius, 4.0)
    p, q = random_points(manifold, 60, rng, radius), random_points(manifold, 60, rng, radius)
    moved = manifold.raw_log(p, _flipped(manifold, q, enlarged, rng)) - manifold.raw_log(p, q)
    most = float(np.nanmax(_norm(manifold, p, manifold.raw_project_tangent(p, moved)))) / enlarged
    bound = manifold.log_rounding_in_ball(manifold.origin, radius) + max(map(manifold.reading_rounding, q))
    _true(most <= bound, f"log_rounding_in_ball is {bound:.3g}, but last bits change log(p, q) by {most:.3g} in the ball")


def log_rounding_covers_the_error_of_log(manifold: Manifold) -> None:
    """Compares logarithms in floats with exact ones, the velocities that ``exact_chart`` maps to the chart of ``q``."""
    if not _has_exact_sampler(manifold):
        return
    rng, count = _rng(manifold), manifold.dim + 4
    for reach, spread, scaled in (
        (0.1, 1.0, 0.0),
        (0.45, 1.0, 0.0),
        (0.9, 1.0, 0.0),
        (2.5, 1.0, 0.0),
        (0.1, 3.0, 0.0),
        (0.1, 1.0, 20.0),
    ):
        p = random_points(manifold, 1, rng, spread)[0]
        v = random_tangents(manifold, np.stack([p] * count), rng, reach * min(manifold.injectivity_radius, 6.0))
        # records in other units, too, where rounding_reach may know that they lose no digits
        v = v + manifold.tangent(p, scaled * manifold.scale_directions.sum(axis=0))
        q = manifold.exp(p, v)
        bounds = [manifold.log_rounding(p, float(r)) for r in manifold.rounding_reach(p, manifold.raw_log(p, q))]
        error, bound = _error_of_logs(manifold, p, q), math.hypot(*bounds)
        _true(error <= bound, f"log_rounding is {bound / math.sqrt(count):.3g} and log errs by {error / math.sqrt(count):.3g}")
    for radius in (0.05, 0.2, 0.45):
        radius *= min(manifold.injectivity_radius, 4.0)
        p, q = random_points(manifold, 1, rng, radius)[0], random_points(manifold, count, rng, radius)
        error, bound = _error_of_logs(manifold, p, q) / math.sqrt(count), manifold.log_rounding_in_ball(manifold.origin, radius)
        _true(error <= bound, f"log_rounding_in_ball is {bound:.3g}, but log errs by {error:.3g} in the ball")


def _error_of_logs(manifold: Manifold, p: Array, q: Array) -> float:
    """The root of the sum of the squared errors of the logarithms of all ``q`` at ``p``, or less.

    The frame of the exact sampler may be rotated against that of ``raw_tangent``. The rotation with the smallest errors is used.
    """
    from flint import arb, arb_mat

    from geodp.arithmetic.intervals import working_precision

    found = manifold.raw_coordinates(p, manifold.raw_log(p, q))
    axes = np.linalg.qr(_rng(manifold).normal(size=(manifold.dim, manifold.dim)))[0]
    step = 0.1 * min(1.0, manifold.injectivity_radius)
    with working_precision(400):
        ends = [manifold.exact_chart(p, _exact(step * axis)) for axis in axes]
        points = np.stack([manifold.from_chart(np.array([float(x) for x in end])) for end in ends])
        turn = manifold.raw_coordinates(p, manifold.raw_log(p, points)).T @ axes / step
        exact = arb_mat([_exact_log(manifold, p, end, start) for end, start in zip(q, found @ turn, strict=True)])
        floats = arb_mat(found.tolist())
        best = exact.transpose() * floats
        for _ in range(40):  # converges to the orthogonal polar factor (Higham)
            best = arb_mat([[x.mid() for x in row] for row in ((best + best.inv().transpose()) / arb(2)).tolist()])
        return math.sqrt(sum(float(x) ** 2 for x in (floats - exact * best).entries()))


def _exact(x: Array) -> list[arb]:
    from flint import arb

    return [arb(float(entry)) for entry in x]


def _exact_log(manifold: Manifold, p: Array, q: Array, start: Array) -> list[arb]:
    """The velocity whose exact chart at ``p`` is that of ``q``: three steps of Newton's method from the one in floats."""
    from flint import arb

    target = manifold.exact_chart(q, _exact(np.full(manifold.dim, 1e-100)))  # not 0: some divide by the length
    v, small = _exact(start), arb(2) ** -100

    def missing(v: list[arb]) -> list[arb]:
        return [b - a for a, b in zip(manifold.exact_chart(p, v), target, strict=True)]

    here = missing(v)
    beside = [missing([x + small if i == j else x for j, x in enumerate(v)]) for i in range(manifold.dim)]
    slopes = np.array([[float((a - b) / small) for a, b in zip(here, there, strict=True)] for there in beside])
    for _ in range(3):
        steps = np.linalg.pinv(slopes.T) @ np.array([float(x) for x in here])
        v = [x.mid() + float(dx) for x, dx in zip(v, steps, strict=True)]
        here = missing(v)
    _small(
        [float(x) for x in here], 1e-25 * (1.0 + float(np.abs(slopes).max())), "what exact_chart at log(p, q) is off that of q"
    )
    return [x.mid() for x in v]


def _flipped(manifold: Manifold, x: Array, enlarged: float, rng: np.random.Generator) -> Array:
    """Points with entries off by ``enlarged`` half units in the last place of the largest, or on a flat chart in their own."""
    size = np.abs(x) if isinstance(manifold, FlatChart) else np.abs(x).max(axis=tuple(range(1, x.ndim)), keepdims=True)
    return manifold.raw_project(x + enlarged * 2.0**-53 * size * rng.uniform(-1.0, 1.0, size=x.shape))


def the_chart_is_an_isometry_onto_a_euclidean_space(manifold: Manifold) -> None:
    """For a :class:`~geodp.manifolds.FlatChart`: distances, the way back, and private values that are kept as coordinates."""
    if not isinstance(manifold, FlatChart):
        return
    rng, origin = _rng(manifold), np.zeros(manifold.dim)
    c, d = (spread * _unit(rng.normal(size=(20, manifold.dim))) for spread in (1.0, 2.5))
    p, q = manifold.raw_inverse(c), manifold.raw_inverse(d)
    _true(manifold.check_point(p) is None, f"the inverse of the chart is not a point: {manifold.check_point(p)}")
    _small(manifold.raw_chart(p) - c, CLOSE, "the chart of its inverse minus the coordinates")
    _small(manifold.raw_chart(manifold.origin) - origin, CLOSE, "the chart of the origin")
    _small(
        np.linalg.vector_norm(c - d, axis=-1) - manifold.dist(p, q), CLOSE, "the distance in the chart minus that of the points"
    )
    _small(manifold.coordinates(p, manifold.log(p, q)) - (d - c), CLOSE, "coordinates of a logarithm minus those in the chart")
    kept = manifold.raw_keep(c)
    rounding = max(map(manifold.reading_rounding, p)) + 4.0 * manifold.log_rounding(manifold.origin, 2.5)
    _small(manifold.raw_position(kept) - c, rounding, "what is read from kept coordinates minus these")
    _small(manifold.raw_dist(manifold.raw_readable(kept), p), rounding, "the distance from a point to its kept coordinates")
    _small(
        manifold.raw_dist(manifold.raw_kept_exp(p, manifold.raw_log(p, q)), q), CLOSE, "the distance from a kept exp to its end"
    )


def reading_rounding_covers_the_error_of_the_chart(manifold: Manifold) -> None:
    """Compares the chart in floats with ``exact_coordinates``, in 400 bits, at points near and far."""
    if not isinstance(manifold, FlatChart):
        return
    from geodp.arithmetic.intervals import working_precision

    for p in np.concatenate([random_points(manifold, 8, _rng(manifold), spread) for spread in (0.1, 1.0, 5.0)]):
        with working_precision(400):
            exact = manifold.exact_coordinates(p)
            error = math.hypot(*(float(a - b) for a, b in zip(_exact(manifold.raw_chart(p)), exact, strict=True)))
        bound = manifold.reading_rounding(p) + manifold.log_rounding(p, 0.0)
        _true(error <= bound, f"the chart errs by {error:.3g}, but the bounds on its rounding are {bound:.3g}")


def requirements_accept_points_and_nothing_else(manifold: Manifold) -> None:
    """An array that passes is a point: it equals its projection, and ``exp`` of its logarithm leads back to it.

    Tried with arrays of random numbers of many sizes, projections of them, and points made longer by 3% and by half.
    """
    rng, shape = _rng(manifold), manifold.point_shape
    points = random_points(manifold, 20, rng)
    arrays = [scale * rng.normal(size=(60, *shape)) for scale in (1e-3, 0.3, 1.0, 3.0)]
    with np.errstate(all="ignore"):
        arrays += [manifold.raw_project(x) for x in arrays]
    arrays += [factor * points for factor in (0.5, 0.97, 1.03, 1.5, -1.0)] + [points + 0.03 * rng.normal(size=points.shape)]
    _true(manifold.valid(points).all(), "a point is refused")
    for x in map(np.nan_to_num, arrays):
        x = x[manifold.valid(x)]
        if not len(x):
            continue
        size = np.abs(x).max(axis=tuple(range(1, x.ndim)))
        try:
            with np.errstate(all="ignore"):
                off = np.abs(manifold.raw_project(x) - x).max(axis=tuple(range(1, x.ndim)))
                distance = manifold.raw_dist(manifold.origin, x)
                log = manifold.raw_log(manifold.origin, x)
                back = manifold.raw_dist(manifold.raw_exp(manifold.origin, np.nan_to_num(log)), x)
        except np.linalg.LinAlgError as error:
            raise AssertionError(f"an array is taken for a point, but has no logarithm: {error}") from None
        _true((off <= 1e-5 * size).all(), f"an array is taken for a point, but its projection is {off.max():.3g} away")
        _true(np.isfinite(distance).all(), "an array is taken for a point, but has no distance from the origin")
        _true((distance <= manifold.diameter + 1e-9).all(), "an array is taken for a point, but is farther than the diameter")
        known = np.isfinite(log).all(axis=tuple(range(1, x.ndim)))  # not where the origin is in its cut locus
        _true(known.mean() > 0.5, "an array is taken for a point, but has no logarithm")
        _true((back[known] < 1e-4 * (1.0 + distance[known])).all(), "an array is taken for a point that its logarithm misses")


# ---------------------------------------------------------------------- the embedding


def the_embedding_has_the_diameter_and_the_nearest_points_it_says(manifold: Manifold) -> None:
    """Vectors of points keep their distances under isometries and do not depend on how a point is written.

    Searches check the rest: for the farthest point from the origin (the diameter), for nearer points (nearest points), and for
    the shift of the vector that turns the nearest point most (its bound).
    """
    embedding = manifold.embedding
    if embedding is None:
        return
    rng, origin = _rng(manifold), manifold.origin
    x, y = random_points(manifold, 40, rng, 3.0), random_points(manifold, 40, rng, 3.0)
    vectors = embedding.write(x)
    _true(vectors.shape == (40, embedding.dim), f"40 points have vectors of shape {vectors.shape}, but dim is {embedding.dim}")
    _small(
        embedding.write(manifold.exp(y, manifold.log(y, x))) - vectors, 1e-9, "the change of a vector with how a point is written"
    )
    apart = np.linalg.vector_norm(vectors - embedding.write(y), axis=-1)
    moved = np.linalg.vector_norm(np.subtract(*(embedding.write(manifold.move_origin(x[0], z)) for z in (x, y))), axis=-1)
    _small(moved - apart, 1e-9, "the change of a distance in the space under an isometry of the manifold")

    def from_origin(points: Array) -> Array:
        return np.asarray(np.linalg.vector_norm(embedding.write(points) - embedding.write(origin), axis=-1))

    most = float(from_origin(_climb(manifold, x, from_origin, rng)[None])[0])
    _true(
        0.97 * embedding.diameter < most < embedding.diameter * (1.0 + 1e-9),
        f"the diameter of the embedding is {embedding.diameter:.6g}, but the farthest point from the origin is {most:.6g} away",
    )
    for vector, size in zip(vectors[:6], (0.0, 0.01, 0.1, 0.3, 1.0, 3.0), strict=True):
        vector = vector + size * rng.normal(size=embedding.dim) / math.sqrt(embedding.dim)
        nearest = embedding.nearest(vector)
        _true(manifold.check_point(nearest) is None, f"the nearest point is not a point: {manifold.check_point(nearest)}")

        def closeness(points: Array, to: Array = vector) -> Array:
            return -np.asarray(np.linalg.vector_norm(embedding.write(points) - to, axis=-1))

        better = _climb(manifold, nearest[None], closeness, rng)
        gain = float(closeness(better) - closeness(nearest))
        _true(gain < 1e-9, f"a point is nearer to a vector than the nearest one, by {gain:.3g}")
        if size == 0.1:
            _turns(manifold, embedding, vector, rng)
    _true(manifold.check_point(embedding.nearest(np.zeros(embedding.dim))) is None, "no point is nearest to the zero vector")


def _turns(manifold: Manifold, embedding: Embedding, vector: Array, rng: np.random.Generator) -> None:
    nearest = embedding.nearest(vector)
    for share in (0.02, 0.5):
        q = share * 0.1 * embedding.diameter
        bound, shift = embedding.turn(vector, q), _unit(rng.normal(size=embedding.dim))
        if math.isinf(bound):
            continue
        turned = 0.0
        for step in np.geomspace(2.0, 0.02, 40):
            for trial in _unit(shift + step * _unit(rng.normal(size=(8, embedding.dim)))):
                angle = float(np.asarray(manifold.dist(nearest, embedding.nearest(vector + q * trial))))
                if angle > turned:
                    turned, shift = angle, trial
        _true(turned <= bound * (1.0 + 1e-9) + 1e-12, f"a nearest point turns by {turned:.6g}, but its bound is {bound:.6g}")


def _climb(manifold: Manifold, points: Array, height: Callable[[Array], Array], rng: np.random.Generator) -> Array:
    """The highest of these points, improved by climbing."""
    best = points[np.argmax(height(points))]
    reach = min(1.0, 0.5 * manifold.injectivity_radius)
    for size in np.geomspace(reach, 1e-3 * reach, 50):
        steps = size * _unit(rng.normal(size=(48, manifold.dim)))
        trials = np.concatenate([best[None], manifold.exp(best, manifold.tangent(best, steps))])
        best = trials[np.argmax(height(trials))]
    return best


# ---------------------------------------------------------------------- draws


def draws_follow_the_law(manifold: Manifold) -> None:
    """Kolmogorov-Smirnov test of 4,000 distances. A correct sampler fails for one seed in a million; the seed is fixed."""
    scale = 0.2 * min(1.0, manifold.injectivity_radius) / manifold.dim
    law = geodp.Laplace(manifold, scale)
    center = random_points(manifold, 1, _rng(manifold))[0]
    draws = law.sample(center, 4000, _rng(manifold))
    probability = np.sort(np.asarray(law.radius_cdf(np.asarray(manifold.dist(center, draws)))))
    steps = np.arange(4001) / 4000
    distance = max(np.abs(probability - steps[1:]).max(), np.abs(probability - steps[:-1]).max())
    _small(distance, 2.7 / math.sqrt(4000), "the distance between the radii of draws and their law")


def the_exact_sampler_has_the_geometry_of_the_manifold(manifold: Manifold) -> None:
    """Checks the parts of a draw against ``exp``, ``dist`` and differences of ``exp``. Nothing here is random.

    For velocities of many lengths in an orthonormal frame: the density by which a draw is accepted is the Jacobian determinant
    of ``exp``, at most its envelope, and zero beyond where geodesics stop being shortest. The distances of draws from the centre
    and from each other are those of their velocities.
    """
    if not _has_exact_sampler(manifold):
        return
    rng, origin = _rng(manifold), manifold.origin
    center = random_points(manifold, 1, rng)[0]
    reach = min(3.0, 1.05 * manifold.diameter)
    c = _unit(rng.normal(size=(12, manifold.dim))) * np.linspace(0.05, 1.0, 12)[:, None] * reach
    if math.isfinite(manifold.injectivity_radius):
        axes = _unit(np.eye(manifold.dim)[:2] + 0.02 * rng.normal(size=(min(manifold.dim, 2), manifold.dim)))
        c = np.concatenate([c, *(part * manifold.injectivity_radius * axes for part in (0.97, 1.03))])
    ends = manifold.exp(origin, manifold.tangent(origin, c))
    lengths = np.linalg.vector_norm(c, axis=-1)
    shortest = np.asarray(manifold.dist(origin, ends)) > lengths - 1e-9
    landed = []
    for velocity, length, inside in zip(c, lengths, shortest, strict=True):
        density, envelope, point = _exactly(manifold, center, velocity)
        _true(
            (density is not None) == inside,
            f"a draw of length {length:.4g} is {'refused' if inside else 'let'} past the cut locus",
        )
        landed.append(point)
        if density is not None:
            found = log_jacobian(manifold, origin, velocity) if length < 0.9 * reach else density
            _small(density - found, 1e-5, "the logarithm of the density of a draw minus that of a Jacobian determinant")
            _true(density < envelope + 1e-9, f"the envelope of a draw is below its density, {envelope:.6g} below {density:.6g}")
            _true(
                not manifold.roots.isotropic or density > envelope - 1e-9, "the density is not its envelope, but none is refused"
            )
    points = np.stack(landed)
    _true(manifold.valid(points).all(), "a draw is not a point")
    off = np.abs(np.asarray(manifold.dist(center, points)) - manifold.dist(origin, ends))
    _small(off, 1e-7, "the distance of a draw from its centre minus that of exp")
    apart = np.asarray(manifold.dist(points[:, None], points)) - manifold.dist(ends[:, None], ends)
    _small(apart, 1e-6, "the distance of two draws minus that of the ends of their geodesics")


def _has_exact_sampler(manifold: Manifold) -> bool:
    return all(type(factor).exact_chart is not Manifold.exact_chart for factor in manifold.components)


def _exactly(manifold: Manifold, center: Array, velocity: Array) -> tuple[float | None, float, Array]:
    """The logarithms of density (None: refused) and envelope of a draw with this velocity, and its point."""
    from fractions import Fraction

    from geodp.arithmetic.intervals import enclosed_vector, norm, working_precision
    from geodp.noise.exact.radius import RadialLaw

    with working_precision(200):
        v = enclosed_vector(velocity)
        density = manifold.roots.exact_log_density(manifold.exact_radial_part(v))
        envelope = RadialLaw.on(manifold, Fraction(1), "laplace").log_envelope(norm(v))
        chart = np.array([float(x) for x in manifold.exact_chart(center, v)])
    return None if density is None else float(density), float(envelope), manifold.from_chart(chart)


def exact_draws_have_the_mean_distance_of_an_independent_sampler(manifold: Manifold, draws: int = 400) -> None:
    """Compares distances of exact draws with an integral over the tangent space. A correct sampler fails once in a million.

    The integral is by importance sampling with the Jacobian determinants of differences of ``exp`` and with distances for the
    cut locus, so it uses nothing of the library's law. Slow: :data:`SLOW_PROPERTIES`.
    """
    from geodp.noise import exact

    rng, dim, origin = _rng(manifold), manifold.dim, manifold.origin
    scale = 0.4 * min(exact.largest_scale(manifold), 0.5 * manifold.diameter / dim, 3.0 / dim)
    center = random_points(manifold, 1, rng)[0]
    source = exact.NotPrivate(1)
    found = np.array([manifold.dist(center, exact.sample(manifold, scale, center, entropy=source).value) for _ in range(draws)])
    # draw radii from the density s^(dim-1) exp(-s/wide), wider than the law, and correct by weights
    wide, count = 1.2 * scale, 3 * draws
    radii = rng.gamma(dim, wide, size=count)
    c = _unit(rng.normal(size=(count, dim))) * radii[:, None]
    shortest = np.asarray(manifold.dist(origin, manifold.exp(origin, manifold.tangent(origin, c)))) > radii - 1e-9
    logs = np.array([log_jacobian(manifold, origin, x) if inside else -np.inf for x, inside in zip(c, shortest, strict=True)])
    weights = np.exp(logs - radii / scale + radii / wide)
    mean = float(weights @ radii / weights.sum())
    error = math.hypot(
        float(np.sqrt(np.sum(weights**2 * (radii - mean) ** 2))) / float(weights.sum()), found.std() / math.sqrt(draws)
    )
    _true(abs(found.mean() - mean) < 4.9 * error, f"exact draws are {found.mean():.6g} from their centre on the average, "
          f"where an integral over the tangent space says {mean:.6g} up to {error:.2g}")  # fmt: skip


def the_mean_is_certified_and_a_critical_point(manifold: Manifold) -> None:
    rng = _rng(manifold)
    radius = 0.4 * min(1.0, geodp.Ball(manifold, manifold.origin, 1e-3).max_radius)
    ball = geodp.Ball(manifold, manifold.origin, radius)
    x = random_points(manifold, 50, rng, spread=radius)
    result = geodp.frechet_mean(x, ball)
    gradient = manifold.log(result.point, x).mean(axis=0)
    _small(manifold.norm(result.point, gradient), 1e-9, "the mean logarithm at the mean")
    _small(result.error_bound, 1e-8, "the certified error of the mean")


#: All properties above that are quick.
PROPERTIES: tuple[Callable[[Manifold], None], ...] = (
    the_origin_and_every_exp_are_points,
    log_inverts_exp_inside_the_injectivity_radius,
    exp_inverts_log,
    dist_is_the_norm_of_log_and_symmetric,
    dist_from_a_point_to_itself_is_zero,
    dist_obeys_the_triangle_inequality,
    geodesics_have_constant_speed_and_are_shortest,
    inner_is_the_polarisation_of_the_distance,
    log_and_exp_never_return_nan_for_valid_input,
    frames_are_orthonormal_and_coordinates_invert_them,
    move_origin_is_an_isometry_that_takes_the_origin_to_the_point,
    the_frame_at_a_point_is_the_moved_frame_of_the_origin,
    a_batch_equals_a_loop,
    leading_axes_broadcast,
    project_leaves_points_and_repairs_perturbed_ones,
    single_precision_is_read_as_the_point_next_to_it,
    points_are_not_written_to,
    manifolds_compare_by_value_and_print_as_they_are_written,
    geodesic_symmetries_are_isometries,
    inside_cut_locus_agrees_with_being_shortest,
    injectivity_radius_and_diameter_are_the_extreme_cut_times,
    roots_are_the_spectrum_of_the_curvature_operator,
    curvature_bounds_are_the_extreme_curvatures_of_planes,
    log_volume_density_is_the_logarithm_of_the_jacobian_determinant_of_exp,
    volume_bound_bounds_the_volume_density,
    volume_is_the_same_seen_from_every_point,
    volume_entropy_is_the_fastest_growth_of_the_volume_density,
    log_rounding_covers_the_last_bits_of_its_arguments,
    log_rounding_covers_the_error_of_log,
    the_chart_is_an_isometry_onto_a_euclidean_space,
    reading_rounding_covers_the_error_of_the_chart,
    requirements_accept_points_and_nothing_else,
    the_embedding_has_the_diameter_and_the_nearest_points_it_says,
    the_exact_sampler_has_the_geometry_of_the_manifold,
    draws_follow_the_law,
    the_mean_is_certified_and_a_critical_point,
)

#: Properties that need many exact draws: seconds to minutes each. ``check_manifold(manifold, slow=True)`` checks them too.
SLOW_PROPERTIES: tuple[Callable[[Manifold], None], ...] = (exact_draws_have_the_mean_distance_of_an_independent_sampler,)
