"""Check that a manifold keeps its contract, also one that is not part of the library.

:data:`PROPERTIES` are functions of a manifold, each named after what must hold and each raising an ``AssertionError`` that says
by how much it does not. In a test suite of your own::

    import pytest
    from geodp.testing import PROPERTIES

    @pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
    def test_my_manifold(holds):
        holds(MyManifold(3))

The points are random, from a seed that depends on the manifold alone. Tolerances are in units of the machine epsilon times a
generous constant: every property holds exactly in real arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

import geodp
from geodp import manifolds
from geodp.inputs import Array
from geodp.manifolds import Manifold

#: What "equal" means for numbers of order one.
CLOSE = 2e-11


def check_manifold(manifold: Manifold) -> None:
    """Check all :data:`PROPERTIES` of a manifold; an ``AssertionError`` names the first that does not hold.

    >>> from geodp import Sphere
    >>> check_manifold(Sphere(2))
    """
    for holds in PROPERTIES:
        try:
            holds(manifold)
        except AssertionError as error:
            raise AssertionError(f"{holds.__name__.replace('_', ' ')} on {manifold}: {error}") from None


def random_points(manifold: Manifold, size: int, rng: np.random.Generator, spread: float = 1.0) -> Array:
    """Points at distances of up to ``spread`` (and inside the injectivity radius) from the origin, all directions."""
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
    _true(manifold.check_point(manifold.origin) is None, f"the origin is no point: {manifold.check_point(manifold.origin)}")
    _true(manifold.check_point(q) is None, f"an exp is no point: {manifold.check_point(q)}")
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
    # the metric read off from distances alone: |u - v|^2 of small vectors is the squared distance of their ends
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
    _true(manifold.check_point(repaired) is None, f"a projection is no point: {manifold.check_point(repaired)}")
    _small(manifold.dist(repaired, p), 1e-6, "the distance from a point to the projection of a perturbed one")


def single_precision_is_read_as_the_point_next_to_it(manifold: Manifold) -> None:
    p, _, q = _pairs(manifold, 10)
    single = p.astype(np.float32)
    _small(manifold.dist(single, p), 1e-4, "the distance from a point to itself in single precision")
    answer = manifold.log(single, q)
    _true(answer.dtype == np.float64, f"the logarithm at a point in single precision is of type {answer.dtype}")
    wrong = manifold.check_point(manifold.exp(single, answer))
    _true(wrong is None, f"an exp from a point in single precision is no point: {wrong}")


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
    density = np.asarray(manifold.log_volume_density(p, manifold.tangent(p, c)))
    jacobian = [log_jacobian(manifold, *pair) for pair in zip(p, c, strict=True)]
    _small(density - jacobian, 1e-6, "log_volume_density minus the logarithm of a Jacobian determinant by differences")
    _small(manifold.log_volume_density(p, np.zeros_like(p)), 1e-15, "log_volume_density at zero")


def log_jacobian(manifold: Manifold, p: Array, c: Array) -> float:
    """``log |det d exp_p|`` at the velocity with coordinates ``c``, from differences of ``exp`` alone."""
    end = manifold.exp(p, manifold.tangent(p, c))

    def differences(step: float) -> Array:
        shifted = manifold.exp(p, manifold.tangent(p, c + step * np.concatenate([np.eye(manifold.dim), -np.eye(manifold.dim)])))
        ahead, behind = np.split(manifold.coordinates(end, manifold.log(end, shifted)), 2)
        return (ahead - behind) / (2.0 * step)

    # Richardson's extrapolation: the error is of order step^4, about 1e-11, and that of rounding about 1e-13
    return float(np.linalg.slogdet((4.0 * differences(1e-3) - differences(2e-3)) / 3.0)[1])


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


def draws_follow_the_law(manifold: Manifold) -> None:
    """Kolmogorov and Smirnov's test of 4,000 distances. A right sampler fails for one seed in a million; the seed is fixed."""
    scale = 0.2 * min(1.0, manifold.injectivity_radius) / manifold.dim
    law = geodp.Laplace(manifold, scale)
    center = random_points(manifold, 1, _rng(manifold))[0]
    draws = law.sample(center, 4000, _rng(manifold))
    probability = np.sort(np.asarray(law.radius_cdf(np.asarray(manifold.dist(center, draws)))))
    steps = np.arange(4001) / 4000
    distance = max(np.abs(probability - steps[1:]).max(), np.abs(probability - steps[:-1]).max())
    _small(distance, 2.7 / math.sqrt(4000), "the distance between the radii of draws and their law")


def the_mean_is_certified_and_a_critical_point(manifold: Manifold) -> None:
    rng = _rng(manifold)
    radius = 0.4 * min(1.0, geodp.Ball(manifold, manifold.origin, 1e-3).max_radius)
    ball = geodp.Ball(manifold, manifold.origin, radius)
    x = random_points(manifold, 50, rng, spread=radius)
    result = geodp.frechet_mean(x, ball)
    gradient = manifold.log(result.point, x).mean(axis=0)
    _small(manifold.norm(result.point, gradient), 1e-9, "the mean logarithm at the mean")
    _small(result.error_bound, 1e-8, "the certified error of the mean")


#: All of the above.
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
    inside_cut_locus_agrees_with_being_shortest,
    log_volume_density_is_the_logarithm_of_the_jacobian_determinant_of_exp,
    volume_bound_bounds_the_volume_density,
    draws_follow_the_law,
    the_mean_is_certified_and_a_critical_point,
)
