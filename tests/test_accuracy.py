"""``dist`` and ``log`` against fifty-digit arithmetic, from touching points to the edge of the cut locus.

The oracle reads the stored floats without rounding, moves to the point they stand for (the unit vector, the rotation
next to the matrix, the span of the columns, ...) and evaluates the textbook formula. Its fifty digits make the cancellation
of that formula harmless, so it shares no trick with the code under test.
"""

from __future__ import annotations

import math
from functools import singledispatch

import mpmath
import numpy as np
import pytest
from cases import longer, random_points
from mpmath import mp

from geodp import SPD, Euclidean, Grassmann, Hyperbolic, Manifold, PlanarShapes, Product, Rotations, SPDLogEuclidean, Sphere
from geodp.solver.passes import GrassmannCompiled, HyperbolicCompiled, ShapesCompiled

DIGITS = 50
EPS = float(np.finfo(np.float64).eps)
SEPARATIONS = longer([1e-12, 1e-9, 1e-6, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0], [1e-12, 0.01])
SHORT_OF_THE_CUT_LOCUS = 1e-6
#: The accuracy the library promises: some four thousand machine epsilons.
PROMISE = 1e-12

COMPACT = [
    Sphere(1),
    Sphere(2),
    Sphere(5),
    Sphere(2, curvature=4.0),
    Sphere(3, curvature=0.3),
    Grassmann(1, 2),
    Grassmann(1, 4),
    Grassmann(2, 4),
    Grassmann(2, 5),
    Grassmann(3, 7),
    Rotations(2),
    Rotations(3),
    Rotations(4),
    Rotations(5),
    Rotations(6),
    PlanarShapes(3),
    PlanarShapes(4),
    PlanarShapes(7),
]
PRODUCTS = [Product(Sphere(2), Euclidean(3)), Product(Product(Hyperbolic(2), Grassmann(1, 3)), PlanarShapes(4), Rotations(3))]
UNCONDITIONAL = [Euclidean(1), Euclidean(4), Hyperbolic(1), Hyperbolic(2), Hyperbolic(5), *COMPACT, *PRODUCTS]
POSITIVE_DEFINITE = [
    SPD(1),
    SPD(2),
    SPD(3),
    SPD(5),
    SPDLogEuclidean(1),
    SPDLogEuclidean(2),
    SPDLogEuclidean(3),
    SPDLogEuclidean(4),
]


# ---------------------------------------------------------------------------------------------- high-precision arrays


def exact(x):
    """The same numbers as an array of ``mpf``: no rounding."""
    return np.array([mp.mpf(float(entry)) for entry in np.ravel(x)], dtype=object).reshape(np.shape(x))


def entrywise(function, x):
    return np.array([function(entry) for entry in np.ravel(x)], dtype=object).reshape(np.shape(x))


def dot(x, y):
    return mp.fsum(np.ravel(x) * np.ravel(y))


def length(x):
    return mp.sqrt(dot(x, x))


def symmetrised(x):
    return (x + x.T) / 2


def to_matrix(x):
    return mp.matrix(x.tolist())


def to_array(x):
    return np.array(x.tolist(), dtype=object).reshape(x.rows, x.cols)


def inverse(x):
    return to_array(mp.inverse(to_matrix(x)))


def cholesky(x):
    return to_array(mp.cholesky(to_matrix(x)))


def eigh(x):
    values, vectors = mp.eigsy(to_matrix(symmetrised(x)))
    return np.array(list(values), dtype=object), to_array(vectors)


def polar(x):
    """The matrix with orthonormal columns nearest to one that nearly has them: Newton and Schulz's iteration."""
    for _ in range(5):  # from 1e-15 the error squares each time
        x = x @ (3 * exact(np.eye(x.shape[1])) - x.T @ x) / 2
    return x


# ---------------------------------------------------------------------------------------------- the oracle


@singledispatch
def error_and_distance(manifold: Manifold, p, q, v):
    """The Riemannian length of ``v - log(p, q)``, and the distance of ``p`` and ``q``."""
    raise NotImplementedError(manifold)


@error_and_distance.register
def _(manifold: Euclidean, p, q, v):
    return length(v - (q - p)), length(q - p)


@error_and_distance.register
def _(manifold: Sphere, p, q, v):
    radius = 1 / mp.sqrt(mp.mpf(manifold.constant))
    p, q = p / length(p), q / length(q)
    cosine = dot(p, q)
    across = q - cosine * p
    angle = mp.atan2(length(across), cosine)
    return length(v - radius * angle / length(across) * across), radius * angle


@error_and_distance.register
def _(manifold: Hyperbolic, p, q, v):
    x, y = p[1:], q[1:]
    p_time, q_time = mp.sqrt(1 + dot(x, x)), mp.sqrt(1 + dot(y, y))
    distance = mp.acosh(p_time * q_time - dot(x, y))
    space = distance / mp.sinh(distance) * (y - mp.cosh(distance) * x)
    off = v[1:] - space
    # the time component follows from the others; what is wrong with it besides is counted in full
    off_time = dot(x, off) / p_time
    loose_time = v[0] - dot(x, v[1:]) / p_time
    return mp.sqrt(dot(off, off) - off_time**2) + abs(loose_time) / p_time, distance


@error_and_distance.register
def _(manifold: SPD, p, q, v):
    whitener = inverse(cholesky(symmetrised(p)))
    values, vectors = eigh(whitener @ symmetrised(q) @ whitener.T)
    logs = entrywise(mp.log, values)
    return length(whitener @ v @ whitener.T - (vectors * logs) @ vectors.T), length(logs)


@error_and_distance.register
def _(manifold: SPDLogEuclidean, p, q, v):
    def log(values, vectors):
        return (vectors * entrywise(mp.log, values)) @ vectors.T

    def slope(a, b):
        return 1 / a if abs(a - b) < a * mp.mpf(10) ** -25 else (mp.log(a) - mp.log(b)) / (a - b)

    values, vectors = eigh(symmetrised(p))
    slopes = np.array([[slope(a, b) for b in values] for a in values], dtype=object)
    pushed = vectors @ (slopes * (vectors.T @ v @ vectors)) @ vectors.T
    wanted = log(*eigh(symmetrised(q))) - log(values, vectors)
    return length(pushed - wanted), length(wanted)


@error_and_distance.register
def _(manifold: Grassmann, p, q, v):
    p, q = polar(p), polar(q)
    tangents = q @ inverse(p.T @ q) - p  # A tan(angles) B' in the frame of p
    squares, turn = eigh(tangents.T @ tangents)
    tans = [mp.sqrt(max(square, mp.mpf(0))) for square in squares]
    ratios = np.array([mp.atan(t) / t if t else mp.mpf(1) for t in tans], dtype=object)
    return length(v - tangents @ (turn * ratios) @ turn.T), mp.sqrt(mp.fsum(mp.atan(t) ** 2 for t in tans))


@error_and_distance.register
def _(manifold: Rotations, p, q, v):
    p, q = polar(p), polar(q)
    between = p.T @ q
    identity = exact(np.eye(manifold.n))
    cayley = (between - identity) @ inverse(between + identity)  # skew, with eigenvalues i tan(angle/2)
    half_tans, vectors = mp.eighe(to_matrix(-mp.mpc(0, 1) * (cayley - cayley.T) / 2))
    angles = np.array([2 * mp.atan(t) for t in half_tans], dtype=object)
    vectors = to_array(vectors)
    log = entrywise(mp.re, (vectors * (mp.mpc(0, 1) * angles)) @ entrywise(mp.conj, vectors).T)
    return length(p.T @ v - log) / mp.sqrt(2), length(angles) / mp.sqrt(2)


@error_and_distance.register
def _(manifold: PlanarShapes, p, q, v):
    def hermitian(z, w):
        return mp.fsum(entrywise(mp.conj, z) * w)

    def shape(x):
        z = x[:, 0] + mp.mpc(0, 1) * x[:, 1]
        z = z - mp.fsum(z) / len(z)
        return z / mp.sqrt(mp.re(hermitian(z, z)))

    p, q = shape(p), shape(q)
    product = hermitian(p, q)
    aligned = q * mp.conj(product) / abs(product)
    across = aligned - abs(product) * p
    sine = mp.sqrt(mp.re(hermitian(across, across)))
    angle = mp.atan2(sine, abs(product))
    off = v[:, 0] + mp.mpc(0, 1) * v[:, 1] - angle / sine * across
    return mp.sqrt(mp.re(hermitian(off, off))), angle


@error_and_distance.register
def _(manifold: Product, p, q, v):
    ends = np.cumsum([math.prod(factor.point_shape) for factor in manifold.factors])[:-1]
    parts = zip(manifold.factors, *(np.split(x, ends) for x in (p, q, v)), strict=True)
    found = [error_and_distance(factor, *(x.reshape(factor.point_shape) for x in arrays)) for factor, *arrays in parts]
    errors, distances = zip(*found, strict=True)
    return length(np.array(errors)), length(np.array(distances))


def relative_errors(manifold: Manifold, p, q):
    """Relative error of ``dist(p, q)``, and Riemannian error of ``log(p, q)`` over the distance."""
    with mpmath.workdps(DIGITS):
        error, distance = error_and_distance(manifold, *map(exact, (p, q, manifold.log(p, q))))
        return float(abs(exact(manifold.dist(p, q)).item() - distance) / distance), float(error / distance)


# ---------------------------------------------------------------------------------------------- cases


def unit_tangents(manifold: Manifold, p, rng):
    coordinates = rng.normal(size=(len(p), manifold.dim))
    return manifold.tangent(p, coordinates / np.linalg.vector_norm(coordinates, axis=-1, keepdims=True))


def distance_to_the_cut_locus(manifold: Manifold, p, v):
    """How far the geodesic with unit velocity ``v`` runs before a principal or rotation angle is as large as it can be."""
    if isinstance(manifold, Sphere):
        return np.full(len(p), np.pi / math.sqrt(manifold.constant)), 1.0
    if isinstance(manifold, PlanarShapes):
        return np.full(len(p), np.pi / 2), 1.0
    if isinstance(manifold, Grassmann):
        fastest = np.linalg.norm(v, ord=2, axis=(-2, -1))
        return np.pi / 2 / fastest, fastest
    fastest = np.linalg.norm(np.swapaxes(p, -1, -2) @ v, ord=2, axis=(-2, -1))
    return np.pi / fastest, fastest


def other_representatives(manifold: Manifold, q, rng):
    """The same subspaces in other bases, the same shapes turned: equal points, different floats."""
    if isinstance(manifold, Grassmann):
        return q @ np.linalg.qr(rng.normal(size=(len(q), manifold.p, manifold.p)))[0]
    angle = rng.uniform(0.0, 2.0 * np.pi, size=len(q))
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return q @ np.moveaxis(turn, -1, 0)


def seeded(*labels):
    return np.random.default_rng(list(repr(labels).encode()))


def assert_promise_kept(manifold: Manifold, points, others):
    for p, q in zip(points, others, strict=True):
        dist_error, log_error = relative_errors(manifold, p, q)
        assert dist_error <= PROMISE
        assert log_error <= PROMISE


@pytest.mark.parametrize("separation", SEPARATIONS)
@pytest.mark.parametrize("manifold", UNCONDITIONAL, ids=repr)
def test_dist_and_log_are_good_to_twelve_digits_at_every_separation(manifold, separation):
    rng = seeded(manifold, separation)
    p = random_points(manifold, 3, rng, spread=4.0)
    assert_promise_kept(manifold, p, manifold.exp(p, separation * unit_tangents(manifold, p, rng)))


@pytest.mark.parametrize("manifold", COMPACT, ids=repr)
def test_dist_and_log_are_good_to_twelve_digits_just_short_of_the_cut_locus(manifold):
    rng = seeded(manifold)
    p = random_points(manifold, 4, rng)
    v = unit_tangents(manifold, p, rng)
    reach, speed = distance_to_the_cut_locus(manifold, p, v)
    reach = (reach - SHORT_OF_THE_CUT_LOCUS / speed).reshape(-1, *np.ones(len(manifold.point_shape), dtype=int))
    assert_promise_kept(manifold, p, manifold.exp(p, reach * v))


@pytest.mark.parametrize("separation", SEPARATIONS)
@pytest.mark.parametrize("manifold", [m for m in COMPACT if isinstance(m, Grassmann | PlanarShapes)], ids=repr)
def test_closeness_does_not_depend_on_the_representative(manifold, separation):
    rng = seeded(manifold, separation)
    p = random_points(manifold, 3, rng)
    q = manifold.exp(p, separation * unit_tangents(manifold, p, rng))
    assert_promise_kept(manifold, p, other_representatives(manifold, q, rng))


@pytest.mark.parametrize("manifold", [m for m in COMPACT if isinstance(m, Grassmann | PlanarShapes)], ids=repr)
def test_the_edge_of_the_cut_locus_does_not_depend_on_the_representative(manifold):
    rng = seeded(manifold)
    p = random_points(manifold, 4, rng)
    v = unit_tangents(manifold, p, rng)
    reach, speed = distance_to_the_cut_locus(manifold, p, v)
    q = manifold.exp(p, (reach - SHORT_OF_THE_CUT_LOCUS / speed)[:, None, None] * v)
    assert_promise_kept(manifold, p, other_representatives(manifold, q, rng))


@pytest.mark.parametrize("manifold", [Hyperbolic(1), Hyperbolic(2), Hyperbolic(5)], ids=repr)
def test_points_on_all_sides_of_the_hyperbolic_origin_are_good_to_twelve_digits(manifold):
    rng = seeded(manifold)
    assert_promise_kept(manifold, random_points(manifold, 8, rng, spread=4.0), random_points(manifold, 8, rng, spread=4.0))


def skew_with_angles(n, angles):
    a = np.zeros((n, n))
    for i, angle in enumerate(angles):
        a[2 * i + 1, 2 * i], a[2 * i, 2 * i + 1] = angle, -angle
    return a


@pytest.mark.parametrize(
    ("n", "short"), [(4, [1, 1]), (4, [1, -1]), (4, [1, 2]), (5, [1, 2]), (6, [1, 2, 2e6]), (6, [1, 1, 1])], ids=str
)
def test_rotations_with_several_angles_just_short_of_a_half_turn_are_good_to_twelve_digits(n, short):
    manifold, rng = Rotations(n), seeded(n, short)
    angles = [math.copysign(math.pi, s) - SHORT_OF_THE_CUT_LOCUS * s for s in short]
    p, axes = (manifold.project(np.linalg.qr(rng.normal(size=(4, n, n)))[0]) for _ in range(2))
    v = p @ axes @ skew_with_angles(n, angles) @ np.swapaxes(axes, -1, -2)
    assert_promise_kept(manifold, p, manifold.exp(p, v))


@pytest.mark.parametrize(
    ("k", "m", "short"), [(2, 4, [1, 1]), (2, 5, [1, 2]), (3, 7, [1, 1, 1]), (3, 7, [1, 2, 1e6]), (3, 6, [1, 8e5, 1e6])], ids=str
)
def test_subspaces_with_several_angles_just_short_of_a_right_one_are_good_to_twelve_digits(k, m, short):
    manifold, rng = Grassmann(k, m), seeded(k, m, short)
    frames = np.linalg.qr(rng.normal(size=(4, m, m)))[0]
    p, across = frames[..., :k], frames[..., k : 2 * k]
    turn = np.linalg.qr(rng.normal(size=(4, k, k)))[0]
    v = (across * (math.pi / 2 - SHORT_OF_THE_CUT_LOCUS * np.array(short))) @ turn
    assert_promise_kept(manifold, p, other_representatives(manifold, manifold.exp(p, v), rng))


# ---------------------------------------------------------------------------------------------- positive-definite matrices

CONDITIONS = longer([1e0, 1e3, 1e6, 1e9, 1e12], [1e3, 1e12])


def with_condition(size: int, k: int, condition: float, rng):
    """Random eigenvectors; eigenvalues over the whole range, the ends among them, around a scale that varies."""
    axes = np.linalg.qr(rng.normal(size=(size, k, k)))[0]
    exponents = rng.uniform(0.0, 1.0, size=(size, k))
    exponents[:, 0], exponents[:, -1] = 0.0, 1.0
    values = condition ** (exponents - 0.5) * np.exp(rng.normal(size=(size, 1)))
    matrix = (axes * values[:, None, :]) @ np.swapaxes(axes, -1, -2)
    return 0.5 * (matrix + np.swapaxes(matrix, -1, -2))


def assert_good_for_their_condition(manifold: Manifold, points, others):
    # Rounding the entries of a matrix of condition number c moves it by eps*c: no algorithm can do better. The factor
    # leaves a few roundings for each of the k terms of each sum; the worst seen on many more seeds is 18.
    for p, q in zip(points, others, strict=True):
        condition = max(np.linalg.cond(p), np.linalg.cond(q))
        dist_error, log_error = relative_errors(manifold, p, q)
        assert dist_error <= 32 * EPS * condition
        assert log_error <= 32 * EPS * condition


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("separation", [*SEPARATIONS, 8.0])
@pytest.mark.parametrize("manifold", POSITIVE_DEFINITE, ids=repr)
def test_matrices_near_each_other_are_as_good_as_their_condition_allows(manifold, separation, condition):
    rng = seeded(manifold, separation, condition)
    p = with_condition(3, manifold.k, condition, rng)
    # of two opposite directions one makes a matrix near the edge of float64 no worse conditioned
    v = separation * unit_tangents(manifold, p, rng)
    ends = manifold.exp(np.stack([p, p]), np.stack([v, -v]))
    q = ends[np.linalg.cond(ends).argmin(axis=0), np.arange(len(p))]
    far_enough = (p != q).any(axis=(-2, -1))  # a step below the spacing of floats may round to none
    assert far_enough.any()
    assert_good_for_their_condition(manifold, p[far_enough], q[far_enough])


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("manifold", POSITIVE_DEFINITE, ids=repr)
def test_two_unrelated_ill_conditioned_matrices_are_as_good_as_their_condition_allows(manifold, condition):
    rng = seeded(manifold, condition)
    first, second = with_condition(6, manifold.k, condition, rng), with_condition(6, manifold.k, condition, rng)
    assert_good_for_their_condition(manifold, first, second)


@pytest.mark.parametrize("smallest", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("manifold", [SPD(3), SPD(5), SPDLogEuclidean(3), SPDLogEuclidean(4)], ids=repr)
def test_a_nearly_singular_matrix_with_small_entries_off_the_identity_is_as_good_as_its_condition_allows(manifold, smallest):
    # I - (1 - smallest) u u' with u spread over all axes: entrywise near the identity, yet at the edge of the cone
    rng = seeded(manifold, smallest)
    u = np.sign(rng.normal(size=(4, manifold.k, 1))) / math.sqrt(manifold.k)
    q = np.eye(manifold.k) - (1.0 - smallest) * u @ np.swapaxes(u, -1, -2)
    identity = np.broadcast_to(np.eye(manifold.k), q.shape)
    assert_good_for_their_condition(manifold, identity, q)
    assert_good_for_their_condition(manifold, q, identity)


# ---------------------------------------------------------------------------------------------- compiled passes

COMPILED = {Hyperbolic: HyperbolicCompiled, PlanarShapes: ShapesCompiled, Grassmann: GrassmannCompiled}


@pytest.mark.parametrize(
    "manifold", [Hyperbolic(2), Hyperbolic(5), PlanarShapes(3), PlanarShapes(7), Grassmann(1, 4), Grassmann(3, 7)], ids=repr
)
def test_compiled_passes_err_less_than_the_rounding_bound_says(manifold):
    """Of pairs near and far, near the cut locus, and far from the hyperbolic origin: at most 0.03 of the bound was seen."""
    rng, evaluator = seeded(manifold, "compiled"), COMPILED[type(manifold)](manifold)
    hyperbolic = isinstance(manifold, Hyperbolic)
    origins = np.broadcast_to(manifold.origin, (4, *manifold.point_shape))
    for far in (0.0, 1.0, 10.0) if hyperbolic else (0.5,):
        points = manifold.raw_exp(origins, far * unit_tangents(manifold, origins, rng))
        for separation in (1e-9, 1e-3, 0.1, 1.0, 16.0 if hyperbolic else 1.5):
            others = manifold.raw_exp(points, separation * unit_tangents(manifold, points, rng))
            for p, q in zip(points, others if hyperbolic else other_representatives(manifold, others, rng), strict=True):
                found = evaluator.evaluate(p, q[None], None)
                with mpmath.workdps(DIGITS):
                    v = manifold.raw_tangent(p, found.log + found.log_low)
                    error, distance = error_and_distance(manifold, *map(exact, (p, q, v)))
                    assert error <= 0.2 * manifold.log_rounding(p, float(distance))
                    assert abs(found.reach - distance) <= 0.2 * manifold.log_rounding(p, float(distance))
