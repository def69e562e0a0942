r"""Manifolds and points of geomstats and of pymanopt as ours, and ours as theirs. Needs the package whose objects are converted.

>>> import pymanopt
>>> from geodp.integrations.geometry import from_pymanopt
>>> match = from_pymanopt(pymanopt.manifolds.PoincareBall(2))
>>> match.ours, match.to_ours([0.0, 0.5]).round(6).tolist()
(Hyperbolic(2), [1.666667, 0.0, 1.333333])

*The metric must be the same*, because a radius, a sensitivity and an error are lengths in it. That is measured: three pairs of
fixed points are converted, and their distances compared. Where theirs are a multiple of ours (rotations of pymanopt and subspaces
of geomstats: the square root of two; scaled metrics), or the metric is another one (Bures-Wasserstein, pre-shapes that are not
taken up to rotation), the conversion is refused, and the sentence says how they differ.

>>> from_pymanopt(pymanopt.manifolds.SpecialOrthogonalGroup(3))
Traceback (most recent call last):
    ...
ValueError: the distances of pymanopt's SpecialOrthogonalGroup are 1.41421 times those of Rotations(3): use Rotations(3), ...

Points are converted one by one, by public maps; no value makes them fail. What is no point of theirs becomes no point of ours.

Rotations of SciPy are taken wherever points of ``Rotations(3)`` are, and ``Rotation.from_matrix(release.value)`` leads back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from typing import Any, final

import numpy as np

from geodp.inputs import Array, as_numpy
from geodp.manifolds import (
    HPD,
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

__all__ = ["Match", "from_geomstats", "from_pymanopt", "to_geomstats", "to_pymanopt"]

Convert = Callable[[Any], Any]


@final
@dataclass(frozen=True)
class Match:
    """A manifold of ours and one of another package with the same metric, and the isometry between their points.

    ``to_ours`` and ``to_theirs`` convert points, with any leading axes. Points of a product of pymanopt are lists with one array
    for each factor.
    """

    ours: Manifold
    theirs: Any
    to_ours: Convert
    to_theirs: Convert


@final
@dataclass(frozen=True)
class _Candidate:
    """A manifold of ours that theirs may be, and how points would be converted if it is."""

    ours: Manifold
    to_ours: Convert = lambda x: _array(x)
    to_theirs: Convert = lambda p: _array(p)


def from_pymanopt(manifold: Any) -> Match:
    """The manifold of this library that is isometric to one of pymanopt, or a ``ValueError`` that says how they differ.

    >>> import pymanopt
    >>> from_pymanopt(pymanopt.manifolds.Oblique(3, 4)).ours
    Product(Sphere(2), Sphere(2), Sphere(2), Sphere(2))
    """
    return _same(manifold, [_pymanopt_candidate(manifold)], manifold.dist, f"pymanopt's {type(manifold).__name__}")


def from_geomstats(space: Any) -> Match:
    """The manifold of this library that is isometric to a space of geomstats with its metric, or a ``ValueError``.

    ``space`` is equipped with a metric, as spaces of geomstats are by default. Shapes are
    ``PreShapeSpace(landmarks, 2)`` after ``equip_with_group_action("rotations")`` and ``equip_with_quotient()``: give its
    ``quotient``.
    """
    metric = getattr(space, "metric", None)
    if metric is None:
        raise ValueError(f"geomstats' {type(space).__name__} has no metric yet: equip it with one")
    name = f"geomstats' {type(space).__name__.lstrip('_')} with its {type(metric).__name__}"
    return _same(space, _geomstats_candidates(space), metric.dist, name)


def to_pymanopt(manifold: Manifold) -> Match:
    """The manifold of pymanopt that is isometric to one of this library, or a ``ValueError`` that says how they differ.

    >>> from geodp import Torus
    >>> match = to_pymanopt(Torus(2))
    >>> type(match.theirs).__name__, match.to_theirs(Torus(2).origin).tolist()
    ('ComplexCircle', [(1+0j), (1+0j)])
    """
    return from_pymanopt(_in_pymanopt(manifold))


def to_geomstats(manifold: Manifold) -> Match:
    """The space of geomstats that is isometric to a manifold of this library, or a ``ValueError`` that says how they differ."""
    return from_geomstats(_in_geomstats(manifold))


def _same(theirs: Any, candidates: Sequence[_Candidate], dist: Callable[[Any, Any], Any], name: str) -> Match:
    """The first candidate whose distances are theirs."""
    differences = []
    for candidate in candidates:
        ours = candidate.ours
        steps = 0.3 * np.random.default_rng(0).standard_normal((4, ours.dim)) / np.sqrt(ours.dim)
        points = ours.exp(ours.origin, ours.tangent(ours.origin, steps))
        pairs = [(points[0], points[i]) for i in (1, 2, 3)]
        try:
            found = [float(np.squeeze(dist(candidate.to_theirs(p), candidate.to_theirs(q)))) for p, q in pairs]
        except Exception as error:  # these points are public
            raise ValueError(f"{name} fails to compute a distance: convert its factors one by one, if it is a product") from error
        ratios = [distance / float(ours.dist(p, q)) for distance, (p, q) in zip(found, pairs, strict=True)]
        low, high = min(ratios), max(ratios)
        if max(abs(low - 1.0), abs(high - 1.0)) < 1e-6:
            return Match(ours, theirs, candidate.to_ours, candidate.to_theirs)
        if high - low < 1e-6 * high:
            differences.append(
                f"the distances of {name} are {low:.6g} times those of {ours}: use {ours}, where a radius of theirs is divided "
                f"by {low:.6g}"
            )
        else:
            differences.append(
                f"{name} has another metric than {ours}: distances are {low:.3g} to {high:.3g} times as long, and no conversion "
                "of points mends that"
            )
    raise ValueError(min(differences, key=lambda text: "another metric" in text))


# ---------------------------------------------------------------------- pymanopt


def _pymanopt_candidate(theirs: Any) -> _Candidate:
    import pymanopt.manifolds as known

    # their parameters have no public names
    m, n, p, k, shape = (getattr(theirs, f"_{name}", 1) for name in ("m", "n", "p", "k", "shape"))
    match theirs:
        case known.Product():
            return _product([_pymanopt_candidate(factor) for factor in theirs.manifolds])
        case known.Euclidean():
            return _flattened(Euclidean(int(np.prod(shape))), shape)
        case known.Sphere():
            return _flattened(Sphere(int(np.prod(shape)) - 1), shape)
        case known.Oblique():  # unit columns
            return _stacked([_Candidate(Sphere(m - 1))] * n, axis=-1)
        case known.ComplexCircle():
            return _Candidate(Torus(n), lambda z: _pairs(z)[..., ::-1], lambda p: _complex(_array(p)[..., ::-1]))
        case known.SymmetricPositiveDefinite():
            return _copies(_Candidate(SPD(n)), k)
        case known.HermitianPositiveDefinite():
            return _copies(_Candidate(HPD(n), _pairs, _complex), k)
        case known.Grassmann():
            return _copies(_Candidate(Grassmann(p, n)), k)
        case known.SpecialOrthogonalGroup():
            return _copies(_Candidate(Rotations(n)), k)
        case known.PoincareBall():
            return _copies(_Candidate(Hyperbolic(n), _from_poincare, _to_poincare), k)
    raise ValueError(
        f"no manifold here has the metric of pymanopt's {type(theirs).__name__}: known are Euclidean, Sphere, Oblique, "
        "ComplexCircle, SymmetricPositiveDefinite, HermitianPositiveDefinite, Grassmann, PoincareBall and products of them"
    )


def _in_pymanopt(ours: Manifold) -> Any:
    import pymanopt.manifolds as known

    match ours:
        case Product():
            return known.Product([_in_pymanopt(factor) for factor in ours.factors])
        case Euclidean():
            return known.Euclidean(ours.d)
        case Sphere() if ours.constant == 1.0:
            return known.Sphere(ours.d + 1)
        case Torus():
            return known.ComplexCircle(ours.d)
        case SPD():
            return known.SymmetricPositiveDefinite(ours.k)
        case HPD():
            return known.HermitianPositiveDefinite(ours.k)
        case Grassmann():
            return known.Grassmann(ours.m, ours.p)
        case Rotations():
            return known.SpecialOrthogonalGroup(ours.n)
        case Hyperbolic():
            return known.PoincareBall(ours.d)
    raise ValueError(f"pymanopt has no manifold with the metric of {ours}")


# ---------------------------------------------------------------------- geomstats


def _geomstats_candidates(space: Any) -> list[_Candidate]:
    # spaces are known by the names of their classes: some can only be imported by a name with an underscore
    match type(space).__name__:
        case "Euclidean":
            return [_Candidate(Euclidean(space.dim))]
        case "Hypersphere" if not space.intrinsic:
            return [_Candidate(Sphere(space.dim))]
        case "SPDMatrices":
            return [_Candidate(SPD(space.n)), _Candidate(SPDLogEuclidean(space.n))]
        case "HPDMatrices":
            return [_Candidate(HPD(space.n), _pairs, _complex)]
        case "_SpecialOrthogonalMatrices":
            return [_Candidate(Rotations(space.n))]
        case "Grassmannian":
            return [_Candidate(Grassmann(space.p, space.n), lambda x: _from_projector(x, space.p), _to_projector)]
        case "Hyperboloid":
            return [_Candidate(Hyperbolic(space.dim))]
        case "PoincareBall":
            return [_Candidate(Hyperbolic(space.dim), _from_poincare, _to_poincare)]
        case "PreShapeSpace" if space.ambient_dim == 2:
            return [_Candidate(PlanarShapes(space.k_landmarks))]
        case "NFoldManifold":
            return [_stacked([one] * space.n_copies) for one in _geomstats_candidates(space.base_manifold)]
        case "ProductManifold":
            shapes = [factor.shape for factor in space.factors]
            each = product(*(_geomstats_candidates(factor) for factor in space.factors))
            if space.shape == (len(shapes), *shapes[0]):
                return [_stacked(list(factors)) for factors in each]
            return [_laid_end_to_end(list(factors), shapes) for factors in each]
    raise ValueError(
        f"no manifold here has the metric of geomstats' {type(space).__name__.lstrip('_')} in the coordinates it uses: known are "
        "Euclidean, Hypersphere, SPDMatrices, HPDMatrices and SpecialOrthogonal in matrices, Hyperboloid, PoincareBall, the "
        "quotient of PreShapeSpace in the plane, and products of them"
    )


def _from(module: str, name: str) -> Any:
    """A class of geomstats; its modules take long to import, so each is imported when it is needed."""
    return getattr(import_module(f"geomstats.geometry.{module}"), name)


def _in_geomstats(ours: Manifold) -> Any:
    match ours:
        case Euclidean():
            return _from("euclidean", "Euclidean")(ours.d)
        case Sphere() if ours.constant == 1.0:
            return _from("hypersphere", "Hypersphere")(ours.d)
        case SPD() | SPDLogEuclidean():
            space = _from("spd_matrices", "SPDMatrices")(ours.k, equip=False)
            metric = "SPDAffineMetric" if isinstance(ours, SPD) else "SPDLogEuclideanMetric"
            space.equip_with_metric(_from("spd_matrices", metric))
            return space
        case HPD():
            return _from("hpd_matrices", "HPDMatrices")(ours.k)
        case Rotations():
            return _from("special_orthogonal", "SpecialOrthogonal")(ours.n)
        case Grassmann():
            return _from("grassmannian", "Grassmannian")(ours.m, ours.p)
        case Hyperbolic():
            return _from("hyperboloid", "Hyperboloid")(ours.d)
        case PlanarShapes():
            space = _from("pre_shape", "PreShapeSpace")(ours.landmarks, 2)
            space.equip_with_group_action("rotations")
            space.equip_with_quotient()
            return space.quotient
        case Torus() if ours.d > 1:
            return _from("nfold_manifold", "NFoldManifold")(_in_geomstats(Sphere(1)), ours.d)
        case Product():
            try:
                return _from("product_manifold", "ProductManifold")([_in_geomstats(factor) for factor in ours.factors])
            except RecursionError:
                raise ValueError(f"geomstats makes no product of products, and {ours} has one: convert its factors") from None
    raise ValueError(f"geomstats has no space with the metric of {ours}")


# ---------------------------------------------------------------------- points


def _array(x: Any) -> Array:
    return np.asarray(as_numpy(x), dtype=np.float64)


def _pairs(z: Any) -> Array:
    """Complex numbers as pairs of real ones."""
    array = np.asarray(as_numpy(z))
    return np.stack([array.real, array.imag], axis=-1)


def _complex(p: Any) -> Any:
    pairs = _array(p)
    return pairs[..., 0] + 1j * pairs[..., 1]


def _from_poincare(x: Any) -> Array:
    """The inverse of the stereographic projection of the hyperboloid from ``(-1, 0)``."""
    ball = _array(x)
    with np.errstate(all="ignore"):
        square = np.vecdot(ball, ball)[..., None]
        return np.concatenate([1.0 + square, 2.0 * ball], axis=-1) / (1.0 - square)


def _to_poincare(p: Any) -> Array:
    point = _array(p)
    return point[..., 1:] / (1.0 + point[..., :1])


def _to_projector(p: Any) -> Array:
    basis = _array(p)
    return basis @ np.swapaxes(basis, -1, -2)


def _from_projector(x: Any, p: int) -> Array:
    projector = _array(x)
    finite = np.isfinite(projector).all(axis=(-1, -2), keepdims=True)
    return np.where(finite, np.linalg.eigh(np.where(finite, projector, 0.0))[1][..., -p:], np.nan)


def _flattened(ours: Manifold, shape: Any) -> _Candidate:
    def to_ours(x: Any) -> Array:
        array = _array(x)
        return array.reshape(*array.shape[: array.ndim - len(shape)], -1)

    def to_theirs(p: Any) -> Array:
        array = _array(p)
        return array.reshape(*array.shape[:-1], *shape)

    return _Candidate(ours, to_ours, to_theirs)


def _product(factors: list[_Candidate]) -> _Candidate:
    """Their points are lists of points of the factors."""
    if all(factor.ours == Sphere(1) for factor in factors):
        torus = Torus(len(factors))
        return _Candidate(
            torus,
            lambda x: np.stack([factor.to_ours(part) for factor, part in zip(factors, x, strict=True)], axis=-2),
            lambda p: [factor.to_theirs(_array(p)[..., i, :]) for i, factor in enumerate(factors)],
        )
    whole = Product(*(factor.ours for factor in factors))
    return _Candidate(
        whole,
        lambda x: whole.raw_join([factor.to_ours(part) for factor, part in zip(factors, x, strict=True)]),
        lambda p: [factor.to_theirs(part) for factor, part in zip(factors, whole.raw_split(_array(p)), strict=True)],
    )


def _copies(one: _Candidate, count: int) -> _Candidate:
    """Their points are one if there is one copy, and else stacked along a further axis."""
    return one if count == 1 else _stacked([one] * count)


def _stacked(factors: list[_Candidate], axis: int | None = None) -> _Candidate:
    """Their points are those of the factors stacked: along the axis before those of a point, or the one that is given."""
    lists = _product(factors)
    at = -1 - np.ndim(factors[0].to_theirs(factors[0].ours.origin)) if axis is None else axis
    return _Candidate(
        lists.ours,
        lambda x: lists.to_ours(list(np.moveaxis(np.asarray(as_numpy(x)), at, 0))),
        lambda p: np.stack(lists.to_theirs(p), axis=at),
    )


def _laid_end_to_end(factors: list[_Candidate], shapes: list[tuple[int, ...]]) -> _Candidate:
    """Their points are one flat array of the factors' points."""
    lists, ends = _product(factors), np.cumsum([int(np.prod(shape)) for shape in shapes])

    def to_ours(x: Any) -> Array:
        parts = np.split(np.asarray(as_numpy(x)), ends[:-1], axis=-1)
        shaped = [part.reshape(*part.shape[:-1], *shape) for part, shape in zip(parts, shapes, strict=True)]
        return np.asarray(lists.to_ours(shaped))

    def to_theirs(p: Any) -> Any:
        parts = [
            part.reshape(*part.shape[: part.ndim - len(shape)], -1)
            for part, shape in zip(lists.to_theirs(p), shapes, strict=True)
        ]
        return np.concatenate(parts, axis=-1)

    return _Candidate(lists.ours, to_ours, to_theirs)
