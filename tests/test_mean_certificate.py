"""The proved error bound of the mean, against the mean computed to fifty digits.

The oracle reads stored floats without rounding, moves to the point they stand for, and looks for the zero of the mean
logarithm in sixty-digit arithmetic with textbook formulas. A preconditioner in float64 makes it quick; that the result is
the mean is decided by the sixty digits alone.
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
import pytest
from cases import USUAL, longer, random_points
from mpmath import mp

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Manifold,
    PlanarShapes,
    Product,
    Rotations,
    SPDLogEuclidean,
    Sphere,
    frechet_mean,
    frechet_means,
)
from geodp.solver.mean import default_tolerance

DIGITS = 60

# ------------------------------------------------------------------------------------------ linear algebra to sixty digits


def exact(x):
    return np.array([mp.mpf(float(entry)) for entry in np.ravel(x)], dtype=object).reshape(np.shape(x))


def dot(x, y):
    return mp.fsum((np.ravel(x) * np.ravel(y)).tolist())


def length(x):
    return mp.sqrt(dot(x, x))


def inverse(a):
    return np.array(mp.inverse(mp.matrix(a.tolist())).tolist(), dtype=object)


def of_symmetric(a, function):
    """A function of a symmetric matrix."""
    values, vectors = mp.eigsy(mp.matrix(((a + a.T) / 2).tolist()))
    v = np.array(vectors.tolist(), dtype=object)
    return (v * np.array([function(value) for value in values], dtype=object)) @ v.T


def quotient(function, x):
    """``function(x)/x`` for an odd function of slope 1 at 0."""
    return function(x) / x if abs(x) > mp.mpf(10) ** -40 else mp.mpf(1)


def of_square(function):
    """``function(sqrt(s))`` for a square that rounding may have made negative."""
    return lambda s: function(mp.sqrt(max(s, mp.mpf(0))))


# ------------------------------------------------------------------------------------------ the geometry, once more


@singledispatch
def point(manifold, x):
    """The point that a stored array stands for."""
    raise NotImplementedError


@singledispatch
def log(manifold, p, q):
    raise NotImplementedError


@singledispatch
def exp(manifold, p, v):
    raise NotImplementedError


@singledispatch
def norm(manifold, p, v):
    return length(v)


@point.register
def _(manifold: Euclidean, x):
    return x


@log.register
def _(manifold: Euclidean, p, q):
    return q - p


@exp.register
def _(manifold: Euclidean, p, v):
    return p + v


@point.register
def _(manifold: Sphere, x):
    return x / (length(x) * mp.sqrt(mp.mpf(manifold.constant)))


@log.register
def _(manifold: Sphere, p, q):
    constant = mp.mpf(manifold.constant)
    cosine = dot(p, q) * constant
    across = q - cosine * p
    sine = length(across) * mp.sqrt(constant)
    return across * (mp.atan2(sine, cosine) / sine if sine else mp.mpf(0))


@exp.register
def _(manifold: Sphere, p, v):
    angle = length(v) * mp.sqrt(mp.mpf(manifold.constant))
    return mp.cos(angle) * p + quotient(mp.sin, angle) * v


def minkowski(u, v):
    return dot(u[1:], v[1:]) - u[0] * v[0]


@point.register
def _(manifold: Hyperbolic, x):
    return np.concatenate([[mp.sqrt(1 + dot(x[1:], x[1:]))], x[1:]])


@log.register
def _(manifold: Hyperbolic, p, q):
    across = q + minkowski(p, q) * p
    return across / quotient(mp.sinh, mp.asinh(norm(manifold, p, across)))


@exp.register
def _(manifold: Hyperbolic, p, v):
    distance = norm(manifold, p, v)
    return mp.cosh(distance) * p + quotient(mp.sinh, distance) * v


@norm.register
def _(manifold: Hyperbolic, p, v):
    return mp.sqrt(max(minkowski(v, v), mp.mpf(0)))


@point.register
def _(manifold: SPD, x):
    return (x + x.T) / 2


def whitening(p):
    factor = np.array(mp.cholesky(mp.matrix(p.tolist())).tolist(), dtype=object)
    return factor, inverse(factor)


@log.register
def _(manifold: SPD, p, q):
    factor, back = whitening(p)
    return factor @ of_symmetric(back @ q @ back.T, mp.log) @ factor.T


@exp.register
def _(manifold: SPD, p, v):
    factor, back = whitening(p)
    return factor @ of_symmetric(back @ v @ back.T, mp.exp) @ factor.T


@norm.register
def _(manifold: SPD, p, v):
    _, back = whitening(p)
    return length(back @ v @ back.T)


@point.register(Grassmann)
@point.register(Rotations)
def _(manifold, x):
    return x @ of_symmetric(x.T @ x, lambda s: 1 / mp.sqrt(s))


@log.register
def _(manifold: Grassmann, p, q):
    tangents = (q - p @ (p.T @ q)) @ inverse(p.T @ q)
    return tangents @ of_symmetric(tangents.T @ tangents, of_square(lambda t: quotient(mp.atan, t)))


@exp.register
def _(manifold: Grassmann, p, v):
    gram = v.T @ v
    return p @ of_symmetric(gram, of_square(mp.cos)) + v @ of_symmetric(gram, of_square(lambda t: quotient(mp.sin, t)))


@log.register
def _(manifold: Rotations, p, q):
    # Cayley: the rotation by t is (I + S)/(I - S) with S of size tan(t/2)
    relative, one = p.T @ q, exact(np.eye(manifold.n))
    cayley = (relative - one) @ inverse(relative + one)
    cayley = (cayley - cayley.T) / 2
    return 2 * p @ cayley @ of_symmetric(cayley.T @ cayley, of_square(lambda t: quotient(mp.atan, t)))


@exp.register
def _(manifold: Rotations, p, v):
    turn = p.T @ v
    turn = (turn - turn.T) / 2
    gram = turn.T @ turn
    return p @ (of_symmetric(gram, of_square(mp.cos)) + turn @ of_symmetric(gram, of_square(lambda t: quotient(mp.sin, t))))


@norm.register
def _(manifold: Rotations, p, v):
    return length(v) / mp.sqrt(2)


def as_complex(x):
    return np.array([mp.mpc(a, b) for a, b in x], dtype=object)


@point.register
def _(manifold: PlanarShapes, x):
    centred = x - x.sum(axis=0) / manifold.landmarks
    return centred / length(centred)


@log.register
def _(manifold: PlanarShapes, p, q):
    z, w = as_complex(p), as_complex(q)
    product = sum(mp.conj(a) * b for a, b in zip(z, w, strict=True))
    across = w * (mp.conj(product) / abs(product)) - abs(product) * z
    across = np.array([[a.real, a.imag] for a in across], dtype=object)
    sine = length(across)
    return across * (mp.atan2(sine, abs(product)) / sine if sine else mp.mpf(0))


@exp.register
def _(manifold: PlanarShapes, p, v):
    distance = length(v)
    return mp.cos(distance) * p + quotient(mp.sin, distance) * v


def parts(manifold, *arrays):
    ends = np.cumsum([math.prod(factor.point_shape) for factor in manifold.factors])[:-1]
    pieces = zip(*(np.split(array, ends) for array in arrays), strict=True)
    for factor, piece in zip(manifold.factors, pieces, strict=True):
        yield factor, *(array.reshape(factor.point_shape) for array in piece)


@point.register
def _(manifold: Product, x):
    return np.concatenate([point(*part).ravel() for part in parts(manifold, x)])


@log.register
def _(manifold: Product, p, q):
    return np.concatenate([log(*part).ravel() for part in parts(manifold, p, q)])


@exp.register
def _(manifold: Product, p, v):
    return np.concatenate([exp(*part).ravel() for part in parts(manifold, p, v)])


@norm.register
def _(manifold: Product, p, v):
    return mp.sqrt(mp.fsum(norm(*part) ** 2 for part in parts(manifold, p, v)))


# ------------------------------------------------------------------------------------------ the mean to fifty digits


def hessian(manifold: Manifold, p: np.ndarray, records: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Minus the derivative of the mean logarithm in the frame at ``p``, by central differences in float64."""
    small = 1e-5
    columns = []
    for axis in np.eye(manifold.dim):
        ends = [manifold.raw_exp(p, manifold.raw_tangent(p, sign * small * axis)) for sign in (1.0, -1.0)]
        logs = [np.tensordot(weights, manifold.raw_log(end, records), 1) for end in ends]
        change = manifold.raw_project_tangent(p, logs[1]) - manifold.raw_project_tangent(p, logs[0])
        columns.append(manifold.raw_coordinates(p, change) / (2.0 * small))
    return np.stack(columns, axis=-1)


def distance_to_the_mean(manifold: Manifold, guess: np.ndarray, records: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The distance from the point that ``guess`` stands for to the mean of those that ``records`` stand for."""
    count = len(records)
    weights = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    with mp.workdps(DIGITS):
        if isinstance(manifold, SPDLogEuclidean):
            logs = [of_symmetric(exact(record), mp.log) for record in records]
            middle = sum(w * v for w, v in zip(exact(weights), logs, strict=True)) / mp.fsum(weights.tolist())
            return float(length(of_symmetric(exact(guess), mp.log) - middle))
        start = point(manifold, exact(guess))
        ends = [point(manifold, exact(record)) for record in records]
        total = mp.fsum(exact(weights).tolist())
        curvature = hessian(manifold, guess, records, weights / weights.sum())
        p = start
        for _ in range(60):
            gradient = sum(w * log(manifold, p, end) for w, end in zip(exact(weights), ends, strict=True)) / total
            size = norm(manifold, p, gradient)
            if size < mp.mpf(10) ** -45:
                return float(norm(manifold, start, log(manifold, start, p)))
            direction = np.array((gradient / size).tolist(), dtype=np.float64)
            coordinates = np.linalg.solve(curvature, manifold.raw_coordinates(guess, direction))
            p = point(manifold, exp(manifold, p, size * exact(manifold.raw_tangent(guess, coordinates))))
    raise AssertionError("the oracle has not converged")


FAMILIES = [
    Euclidean(2),
    Sphere(1),
    Sphere(2),
    Sphere(4),
    Sphere(2, curvature=3.0),
    Hyperbolic(2),
    Hyperbolic(3),
    SPD(1),
    SPD(2),
    SPD(3),
    SPDLogEuclidean(2),
    SPDLogEuclidean(3),
    Grassmann(1, 2),
    Grassmann(1, 3),
    Grassmann(2, 4),
    Rotations(2),
    Rotations(3),
    Rotations(4),
    PlanarShapes(3),
    PlanarShapes(4),
    Product(Sphere(2), SPD(2)),
    Product(Hyperbolic(2), Rotations(3), Euclidean(1)),
]
every_family = pytest.mark.parametrize("manifold", longer(FAMILIES, [*USUAL, *FAMILIES[:1], *FAMILIES[-1:]]), ids=repr)


def public_ball(manifold: Manifold, share: float) -> Ball:
    center = random_points(manifold, 1, np.random.default_rng(3), spread=0.7)[0]
    largest = Ball(manifold, center, 0.01).max_radius
    return Ball(manifold, center, share * (largest if math.isfinite(largest) else 3.0))


def records_in(ball: Ball, lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Clipped records in random directions from the centre, at these multiples of the radius."""
    manifold = ball.manifold
    directions = rng.normal(size=(len(lengths), manifold.dim))
    directions *= (ball.radius * lengths / np.linalg.vector_norm(directions, axis=-1))[:, None]
    return ball.clip(manifold.exp(ball.center, manifold.tangent(ball.center, directions)))


def check(records: np.ndarray, ball: Ball, weights: np.ndarray | None = None) -> None:
    result = frechet_mean(records, ball, weights=weights)
    assert result.error_bound <= default_tolerance(ball)
    if np.ptp(records, axis=0).max() == 0.0:
        with mp.workdps(DIGITS):
            p, end = point(ball.manifold, exact(result.point)), point(ball.manifold, exact(records[0]))
            assert norm(ball.manifold, p, log(ball.manifold, p, end)) <= result.error_bound
    else:
        assert distance_to_the_mean(ball.manifold, result.point, records, weights) <= result.error_bound


def cases_in(ball: Ball) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    once = records_in(ball, np.array([0.8]), rng)
    return [
        records_in(ball, np.array([1.0, 1.0]), rng),
        records_in(ball, np.array([0.2, 0.9]), rng),
        records_in(ball, rng.uniform(size=5), rng),
        records_in(ball, np.ones(5), rng),
        np.concatenate([once, once, once, records_in(ball, np.array([1.0]), rng)]),
    ]


@every_family
@pytest.mark.parametrize("share", [*(pytest.param(share, marks=pytest.mark.slow) for share in (0.3, 0.9)), 0.999])
def test_the_exact_mean_is_within_the_bound_and_the_bound_within_the_tolerance(manifold: Manifold, share: float) -> None:
    ball = public_ball(manifold, share)
    for records in cases_in(ball):
        check(records, ball)


@pytest.mark.parametrize("manifold", [SPD(2), Sphere(2), Rotations(3), Hyperbolic(2), PlanarShapes(4), Grassmann(2, 4)], ids=repr)
def test_the_bounds_hold_of_means_by_compiled_passes(manifold: Manifold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEODP_COMPILE", "always")
    ball = public_ball(manifold, 0.999)
    for records in cases_in(ball):
        check(records, ball)


@pytest.mark.parametrize("manifold", longer(FAMILIES), ids=repr)
@pytest.mark.parametrize("compiled", longer([False, True], [True]))
def test_the_bounds_of_many_means_at_once_hold(manifold: Manifold, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled:
        monkeypatch.setenv("GEODP_COMPILE", "always")
    ball = public_ball(manifold, 0.9)
    groups = cases_in(ball)
    labels = np.repeat(np.arange(len(groups)), [len(records) for records in groups])
    results = frechet_means(np.concatenate(groups), ball, labels)
    for records, mean, bound in zip(groups, results.points, results.error_bounds, strict=True):
        assert distance_to_the_mean(manifold, mean, records) <= bound <= default_tolerance(ball)


@every_family
@pytest.mark.parametrize("share", [0.3, 0.999])
def test_the_mean_of_one_record_or_of_copies_of_it_is_that_record(manifold: Manifold, share: float) -> None:
    if isinstance(manifold, SPDLogEuclidean):
        pytest.skip("its logarithm has no sixty-digit form here; the test of two records covers it")
    ball = public_ball(manifold, share)
    record = records_in(ball, np.array([1.0]), np.random.default_rng(2))
    check(record, ball)
    check(np.repeat(record, 7, axis=0), ball)


@pytest.mark.parametrize("manifold", [Sphere(2), SPD(2), Hyperbolic(2), Rotations(3), PlanarShapes(3)], ids=repr)
def test_the_bound_holds_for_weights_of_any_size(manifold: Manifold) -> None:
    ball = public_ball(manifold, 0.9)
    rng = np.random.default_rng(8)
    records = records_in(ball, rng.uniform(0.5, 1.0, size=4), rng)
    for weights in ([1.0, 2.0, 3.0, 4.0], [1e-300, 1.0, 1.0, 0.0], [1e-9, 1e-9, 1e-9, 1.0], [1e300, 1e299, 1e-300, 1e300]):
        check(records, ball, np.array(weights))


@pytest.mark.parametrize("manifold", [Sphere(2), Sphere(4), PlanarShapes(4), Rotations(3), Grassmann(2, 4)], ids=repr)
def test_the_bound_holds_where_clusters_are_nearly_opposite(manifold: Manifold) -> None:
    ball = public_ball(manifold, 0.99)
    axes = ball.radius * np.eye(manifold.dim)[:2]
    cluster = np.stack([axes[0], -axes[0], axes[1], -axes[1]])
    records = ball.clip(manifold.exp(ball.center, manifold.tangent(ball.center, cluster)))
    for weights in ([10.0, 10.0, 1.0, 0.0], [5.0, 4.0, 1.0, 1.0], [1.0, 1.0, 1e-3, 0.0]):
        check(records, ball, np.array(weights))


@pytest.mark.parametrize("condition", [1e4, 1e8])
def test_the_bound_holds_about_an_ill_conditioned_center(condition: float) -> None:
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    center = (turn * [1.0, condition**0.5, condition]) @ turn.T
    ball = Ball(SPD(3), 0.5 * (center + center.T), 1.0)
    check(records_in(ball, np.array([1.0, 0.7, 0.9, 0.4]), rng), ball)


def test_the_bound_holds_when_some_records_are_clipped_and_some_are_no_points() -> None:
    ball = Ball(Sphere(2), [0.0, 0.0, 1.0], 0.8)
    rng = np.random.default_rng(6)
    records = rng.normal(size=(6, 3))
    records /= np.linalg.vector_norm(records, axis=-1, keepdims=True)
    records[2] = np.nan
    result = frechet_mean(records, ball)
    assert distance_to_the_mean(ball.manifold, result.point, ball.clip(records)) <= result.error_bound


# ------------------------------------------------------------------------------------------ the inequality behind the bound


@pytest.mark.parametrize("radius", [0.5, 1.0, 1.3, 1.49, 1.56])
def test_the_arcsine_bound_holds_where_the_linear_one_is_false(radius: float) -> None:
    # two equal clusters on the boundary of a ball of the sphere, at the angles +-turn from an axis; everything on that axis,
    # the mean included, is a function of the signed distance from the centre
    slope = radius / math.tan(radius)
    worst = 0.0
    at = np.linspace(-radius, radius, 401)
    for turn in np.linspace(0.01, math.pi - 0.01, 401):
        across = math.sin(radius) * math.cos(turn)
        mean = math.atan2(across, math.cos(radius))
        distance = np.arccos(np.cos(at) * math.cos(radius) + np.sin(at) * across)
        gamma = np.abs(distance / np.sin(distance) * (np.cos(at) * across - np.sin(at) * math.cos(radius)))
        usable = (gamma < slope) & (gamma > 1e-9)
        error, gamma = np.abs(at - mean)[usable], gamma[usable]
        assert (error <= np.arcsin(gamma / slope) * (1.0 + 1e-9)).all()
        worst = max(worst, float((error * slope / gamma).max(initial=0.0)))
    assert worst > (1.28 if radius >= 1.49 else 1.0)
