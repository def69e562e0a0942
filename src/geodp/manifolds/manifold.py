"""The contract every manifold of the library keeps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodp.inputs import Array, as_numpy, refuse_unreadable
from geodp.manifolds.embedding import ConvexSet, Embedding
from geodp.manifolds.layout import Layout
from geodp.manifolds.roots import Roots, VolumeBound
from geodp.manifolds.units import LengthUnit

if TYPE_CHECKING:
    from flint import arb

#: How far off its manifold (relative to its size) an array may be and still be read as the nearest point.
#: Wide enough for float32 and for seven printed digits.
TOLERANCE = 1e-6


class Requirement(NamedTuple):
    """One condition on a point: where it holds, a number that shows by how much it fails, and a sentence with ``{}`` for it.

    If the number takes long to compute, it may be a function, which is called only for the sentence.
    """

    met: NDArray[np.bool_]
    found: Array | Callable[[], Array]
    sentence: str


class Manifold(ABC):
    """A Riemannian symmetric space whose points are real arrays of one fixed shape.

    ``exp(p, log(p, q)) == q`` and ``dist(p, q) == norm(p, log(p, q))`` wherever ``log`` is defined. Every method
    broadcasts over leading axes, computes in float64, and raises a ``ValueError`` for input that is off the manifold, which
    says by how much. Points may be off by rounding (:data:`TOLERANCE`): an array is read as the nearest point.

    A new manifold is a frozen dataclass that gives its roots, from which dimension, curvature, cut locus and volume follow,
    and its ``raw_`` maps. These take valid float64 arrays, check nothing and broadcast over leading axes. Inner loops call them.

    >>> from geodp import Sphere
    >>> sphere, north, east = Sphere(2), [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]
    >>> sphere.exp(north, sphere.log(north, east)).round(12)
    array([1., 0., 0.])
    >>> sphere.check_point([0.0, 0.0, 2.0])
    'the norm must be 1 but is 2'
    """

    # ------------------------------------------------------------------ the space

    @property
    @abstractmethod
    def roots(self) -> Roots:
        """The roots, in coordinates of the flat that :meth:`raw_radial_part` gives. Best a ``cached_property``."""

    @property
    @abstractmethod
    def point_shape(self) -> tuple[int, ...]:
        """Shape of the array that holds one point; tangent vectors have the same shape."""

    @property
    @abstractmethod
    def origin(self) -> Array:
        """The point that every ``move_origin`` starts from."""

    @property
    def scale_directions(self) -> Array:
        """Unit vectors, in coordinates, along which a change of units moves every point; rows, none by default."""
        return np.empty((0, self.dim))

    @property
    def components(self) -> tuple[Manifold, ...]:
        """The factors of a product; else the manifold itself."""
        return (self,)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The ways to write a point as a row of numbers in a file; the first has the shape of the points."""
        return (Layout("array", math.prod(self.point_shape), "the entries of a point in the order of its array", size="all"),)

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        """Everyday units of geodesic lengths, such as degrees; none by default."""
        return ()

    def in_words(self, point: Array) -> str:
        """One line that describes a point, such as the axis and the angle of a rotation; empty by default."""
        return ""

    @property
    def embedding(self) -> Embedding | None:
        """The embedding of a compact manifold in a Euclidean space, for projected means; None if it has none."""
        return None

    def convex_set(self, bound: float = math.inf) -> ConvexSet | None:
        """The convex set that ordinary averages are in; None if there is none.

        ``bound`` is the largest norm of a point. The diameter is infinite if there must be a bound, and none was given.
        """
        return None

    @property
    def plane_of_largest_curvature(self) -> Array:
        """Two orthonormal tangent vectors (one on a line), in coordinates, whose plane has the curvature :attr:`curvature`.

        The first two coordinates work if all planes are alike, and also if no curvature is positive, when any plane works.
        """
        return np.eye(self.dim)[:2]

    # ------------------------------------------------------------------ what follows from the roots

    @property
    def dim(self) -> int:
        """Dimension."""
        return self.roots.dim

    @property
    def rank(self) -> int:
        """Dimension of a maximal flat."""
        return self.roots.rank

    @property
    def curvature(self) -> float:
        """The least non-negative upper bound on the sectional curvatures."""
        return self.roots.curvature

    @property
    def lowest_curvature(self) -> float:
        """The greatest non-positive lower bound on the sectional curvatures."""
        return self.roots.lowest_curvature

    @property
    def injectivity_radius(self) -> float:
        """Below this distance geodesics are shortest, and the only shortest ones."""
        return float(self.roots.limits.min())

    @property
    def diameter(self) -> float:
        """The largest distance between two points: the largest norm inside the tangent cut locus."""
        return self.roots.diameter

    @property
    def volume_bound(self) -> VolumeBound:
        """A radial bound on ``exp(log_volume_density)``."""
        return self.roots.volume_bound

    @final
    def typical_stretch(self, distance: float) -> float:
        """The root of the mean square of the factors by which ``exp`` stretches steps at this distance from its point.

        ``d exp`` has the factors ``sn(alpha(H))``, each as often as its root ``alpha``, and 1 on the flat; their mean square over
        directions is taken where ``alpha(H)^2`` has its mean.
        """
        factors = [(f.power, math.sqrt(float(f.square_rate)) * distance, f.sign) for f in self.roots.volume_bound.factors]
        stretched = sum(power * (math.sin(x) / x if sign > 0 else math.sinh(x) / x) ** 2 for power, x, sign in factors if x > 0.0)
        rest = self.dim - sum(power for power, x, _ in factors if x > 0.0)
        return math.sqrt((rest + stretched) / self.dim)

    @property
    def volume_entropy(self) -> float:
        """``lim log(volume of a ball of radius R) / R``: 0 unless the manifold is negatively curved somewhere."""
        return self.roots.volume_entropy

    def raw_log_volume_density(self, p: Array, v: Array) -> Array:
        if not len(self.roots.forms):
            return np.zeros(self.batch_shape(p, v))
        return self.roots.log_density(self.raw_radial_part(p, v))

    def raw_inside_cut_locus(self, p: Array, v: Array) -> NDArray[np.bool_]:
        if math.isinf(self.injectivity_radius):
            return np.ones(self.batch_shape(p, v), dtype=np.bool_)
        return np.asarray((np.abs(self.raw_radial_part(p, v)) < self.roots.limits).all(axis=-1))

    @final
    def batch_shape(self, p: Array, v: Array) -> tuple[int, ...]:
        """The leading axes of points and tangent vectors together."""
        shape = np.broadcast_shapes(p.shape, v.shape)
        return shape[: len(shape) - len(self.point_shape)]

    # ------------------------------------------------------------------ implemented by each manifold: maps of floats

    @abstractmethod
    def raw_exp(self, p: Array, v: Array) -> Array:
        """The end of the geodesic that leaves ``p`` with velocity ``v``, after unit time."""

    def raw_kept_exp(self, p: Array, v: Array) -> Array:
        """:meth:`raw_exp` in the form in which private values are kept until noise is added.

        All ``raw_`` maps read it. It differs where an array of floats would lose digits that decide how far apart two values are.
        """
        return self.raw_exp(p, v)

    def raw_readable(self, points: Array) -> Array:
        """The same points in the form for people, in which :meth:`raw_exp` returns them."""
        return points

    @abstractmethod
    def raw_log(self, p: Array, q: Array) -> Array:
        """The velocity at ``p`` of the shortest geodesic to ``q``; NaN if ``q`` is in the cut locus of ``p``."""

    @abstractmethod
    def raw_dist(self, p: Array, q: Array) -> Array:
        """Geodesic distance, with small relative error also for close points."""

    def raw_inner(self, p: Array, u: Array, v: Array) -> Array:
        """The metric at ``p``; by default that of the ambient space."""
        flat = (x.reshape(*x.shape[: x.ndim - len(self.point_shape)], math.prod(self.point_shape)) for x in (u, v))
        return np.vecdot(*flat) + np.zeros(self.batch_shape(p, u))

    def raw_norm(self, p: Array, v: Array) -> Array:
        """Length of a tangent vector at ``p``."""
        return np.sqrt(self.raw_inner(p, v, v))

    def raw_radial_part(self, p: Array, v: Array) -> Array:
        """The radial part of a tangent vector at ``p``, shape ``(..., rank)``, in any order and with any signs.

        By default it is the length in rank one, and the whole vector on flat spaces. Other manifolds must implement it.
        """
        return self.raw_coordinates(p, v) if self.rank == self.dim else self.raw_norm(p, v)[..., None]

    @abstractmethod
    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        """The tangent vector with these coordinates, ``(..., dim)``, in the orthonormal frame at ``p``."""

    @abstractmethod
    def raw_coordinates(self, p: Array, v: Array) -> Array:
        """The inverse of :meth:`raw_tangent`; for any other array, the coordinates of the nearest tangent vector."""

    @abstractmethod
    def raw_move_origin(self, p: Array, x: Array) -> Array:
        """The image of ``x`` under an isometry that takes the origin to ``p``, and the frame there to the frame at ``p``."""

    @abstractmethod
    def raw_project(self, x: Array) -> Array:
        """The point nearest to an array that is close to the manifold."""

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        """The tangent vector at ``p`` nearest to an array."""
        return self.raw_tangent(p, self.raw_coordinates(p, v))

    @abstractmethod
    def log_rounding(self, p: Array, reach: float) -> float:
        """A bound on the rounding error, in the norm at ``p``, of ``raw_log(p, q)`` for every ``q`` within ``reach``.

        It holds for its coordinates too, and also bounds how far storing ``p`` in float64 may move it.
        """

    def log_rounding_in_ball(self, center: Array, radius: float) -> float:
        """The same bound for all ``p`` and ``q`` within ``radius`` of ``center``."""
        return self.log_rounding(center, 2.0 * radius)

    def reading_rounding(self, x: Array) -> float:
        """How far the point that ``raw_log`` takes ``x`` for may be from the one of its floats, beyond :meth:`log_rounding`.

        Clipping, sensitivity and noise are then about the first, which is a function of ``x`` alone.
        """
        return 0.0

    def rounding_reach(self, p: Array, v: Array) -> Array:
        """For each computed logarithm ``v`` at ``p``, a reach for which :meth:`log_rounding` holds: its length, or less.

        It is less where some directions cost fewer digits than others: ``frechet_mean`` in a wide ball is then certified better.
        """
        return self.raw_norm(p, v)

    @abstractmethod
    def requirements(self, x: Array) -> Iterator[Requirement]:
        """The conditions on a finite array of the right shape, cheapest first."""

    # ------------------------------------------------------------------ implemented by each manifold: exact draws

    # A *chart* writes a point of the manifold as a list of real coordinates that depend only on the point, not on the basis or
    # rotation that represents it. A draw is rounded in the chart, and from_chart turns the rounded numbers into the released
    # point. The law of a draw is invariant under every isometry that fixes the base point. So it does not matter which isometry
    # takes the base point to the centre, as long as the choice does not depend on the random bits and does not change with the
    # precision. The work must not depend on the centre: no branches, and balls from intervals.enclosed.

    @final
    @cached_property
    def chart_size(self) -> int:
        """Number of coordinates of the chart."""
        from geodp.arithmetic.intervals import enclosed_vector

        return len(self.exact_chart(self.origin, enclosed_vector(np.full(self.dim, 1e-3))))

    @property
    def chart_units(self) -> tuple[int | None, ...]:
        """``floor(log2)`` of the natural length of each coordinate of the chart; None for a coordinate that has none."""
        return (0,)

    @property
    def chart_limit(self) -> float:
        """At this scale and above, the coordinates of nearly all draws overflow."""
        return math.inf

    def exact_radial_part(self, v: list[arb]) -> list[arb]:
        """:meth:`raw_radial_part` for coordinates in an orthonormal frame, as real numbers in intervals."""
        from geodp.arithmetic.intervals import norm

        return v if self.rank == self.dim else [norm(v)]

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        """The chart of the point ``exp(v)`` after the base point is moved to ``center``."""
        raise NotImplementedError  # optional: laws.exact refuses manifolds without it in one sentence

    def from_chart(self, x: Array) -> Array:
        """A point of the manifold from rounded coordinates. It never fails, and depends on nothing else."""
        raise NotImplementedError  # optional too, but needed with exact_chart

    def raw_representatives(self, points: Array) -> Array:
        """The same points, each as the array that :meth:`from_chart` would return, up to rounding; same shape.

        If only one array represents a point, it is returned unchanged. Otherwise (bases of a subspace, rotations of a shape) the
        quantity that all its arrays share is rounded first, so that the result does not reveal the given array. Used by
        simulations.
        """
        return points

    # ------------------------------------------------------------------ public methods

    @final
    def exp(self, p: ArrayLike, v: ArrayLike) -> Array:
        """The end of the geodesic that leaves ``p`` with velocity ``v``, after unit time."""
        p, v = self._tangent_at(p, v)
        with np.errstate(all="ignore"):
            out = self.raw_exp(p, v)
        return self._finite(out, "exp(p, v)", lambda i: f"norm(p, v) is {self._pick(self.raw_norm(p, v), out, i):.6g}")

    @final
    def log(self, p: ArrayLike, q: ArrayLike) -> Array:
        """The velocity at ``p`` of the shortest geodesic that reaches ``q`` in unit time."""
        p, q = self.read_points(p, "p"), self.read_points(q, "q")
        with np.errstate(all="ignore"):
            out = self.raw_log(p, q)
        compact = "more than one shortest geodesic joins p and q, or nearly so"
        why = "an intermediate number overflows" if math.isinf(self.injectivity_radius) else compact
        return self._finite(
            out, "log(p, q)", lambda i: f"dist(p, q) is {self._pick(self.raw_dist(p, q), out, i):.12g}, and {why}"
        )

    @final
    def dist(self, p: ArrayLike, q: ArrayLike) -> Array | float:
        """Geodesic distance."""
        p, q = self.read_points(p, "p"), self.read_points(q, "q")
        with np.errstate(all="ignore"):
            return self._numbers(self.raw_dist(p, q), "dist(p, q)")

    @final
    def inner(self, p: ArrayLike, u: ArrayLike, v: ArrayLike) -> Array | float:
        """Riemannian inner product of two tangent vectors at ``p``."""
        with np.errstate(all="ignore"):
            return self._numbers(self.raw_inner(*self._tangent_at(p, u), self._tangent_at(p, v)[1]), "inner(p, u, v)")

    @final
    def norm(self, p: ArrayLike, v: ArrayLike) -> Array | float:
        """Riemannian length of a tangent vector at ``p``."""
        with np.errstate(all="ignore"):
            return self._numbers(self.raw_norm(*self._tangent_at(p, v)), "norm(p, v)")

    @final
    def log_volume_density(self, p: ArrayLike, v: ArrayLike) -> Array | float:
        """``log |det d exp_p|`` at ``v``, with respect to orthonormal frames; minus infinity at and beyond conjugate points."""
        with np.errstate(all="ignore"):
            return _scalar(self.raw_log_volume_density(*self._tangent_at(p, v)))

    @final
    def inside_cut_locus(self, p: ArrayLike, v: ArrayLike) -> NDArray[np.bool_] | bool:
        """Whether the geodesic with velocity ``v`` is still the only shortest one after unit time."""
        with np.errstate(all="ignore"):
            inside = self.raw_inside_cut_locus(*self._tangent_at(p, v))
        return inside if inside.ndim else bool(inside)

    @final
    def tangent(self, p: ArrayLike, coordinates: ArrayLike) -> Array:
        """The tangent vector at ``p`` with these coordinates in an orthonormal frame.

        The frame at ``p`` is the image of the frame at the origin under :meth:`move_origin`.
        """
        p, coordinates = self.read_points(p, "p"), _real(coordinates, (self.dim,), "coordinates", self)
        with np.errstate(all="ignore"):
            out = self.raw_tangent(p, coordinates)
        return self._finite(out, "tangent(p, coordinates)", lambda _: "every coordinate must be finite and of moderate size")

    @final
    def coordinates(self, p: ArrayLike, v: ArrayLike) -> Array:
        """Coordinates of a tangent vector in the orthonormal frame of :meth:`tangent`."""
        p, v = self._tangent_at(p, v)
        with np.errstate(all="ignore"):
            return np.asarray(self._numbers(self.raw_coordinates(p, v), "coordinates(p, v)"))

    @final
    def move_origin(self, p: ArrayLike, x: ArrayLike) -> Array:
        """The image of ``x`` under an isometry that takes :attr:`origin` to ``p``."""
        p, x = self.read_points(p, "p"), self.read_points(x, "x")
        with np.errstate(all="ignore"):
            out = self.raw_move_origin(p, x)
        return self._finite(out, "move_origin(p, x)", lambda _: "an intermediate number overflows")

    @final
    def project(self, x: ArrayLike) -> Array:
        """The point nearest to an array that is close to the manifold; raises a ``ValueError`` if there is none."""
        array = _real(x, self.point_shape, "x", self)
        if not np.isfinite(array).all():
            raise ValueError(f"no point of {self} is next to x: {(~np.isfinite(array)).sum()} of its entries are not finite")
        with np.errstate(all="ignore"):
            projected = self.raw_project(array)
        return self.read_points(projected, "the projection of x")

    @final
    def check_point(self, x: ArrayLike) -> str | None:
        """``None`` if ``x`` holds points of the manifold, else a sentence about the first record that is not a point."""
        x = _real(x, self.point_shape, "x", self)
        for requirement in self.all_requirements(x):
            if not requirement.met.all():
                worst = tuple(int(i) for i in np.argwhere(~requirement.met)[0])
                record = f"record {worst[0] if len(worst) == 1 else worst}: " if worst else ""
                found = requirement.found() if callable(requirement.found) else requirement.found
                return record + requirement.sentence.format(found[worst])
        return None

    @final
    def read(self, x: ArrayLike, name: str) -> Array:
        """``x`` as float64; raises if its shape or type does not fit the manifold. Does not look at its values."""
        return _real(x, self.point_shape, name, self)

    @final
    def valid(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Which records are points of the manifold: one bool a record."""
        x = _real(x, self.point_shape, "x", self)
        met = np.ones(x.shape[: x.ndim - len(self.point_shape)], dtype=np.bool_)
        for requirement in self.all_requirements(x):
            met &= requirement.met
        return met

    # ------------------------------------------------------------------ reading input

    def all_requirements(self, x: Array) -> Iterator[Requirement]:
        """:meth:`requirements`, and before them that all entries are finite."""
        axes = tuple(range(x.ndim - len(self.point_shape), x.ndim))
        finite = np.asarray(np.isfinite(x).all(axis=axes))
        missing = np.asarray((~np.isfinite(x)).sum(axis=axes), dtype=np.float64)
        yield Requirement(finite, missing, "every entry must be finite but {:.0f} are not")
        with np.errstate(all="ignore"):
            yield from self.requirements(np.where(np.isfinite(x), x, 0.0))

    def read_points(self, x: ArrayLike, name: str) -> Array:
        given = _array(x, name)
        array = _real(given, self.point_shape, name, self)
        wrong = self.check_point(array)
        if wrong is not None:
            raise ValueError(f"{name} is not a point of {self}: {wrong}")
        # in half and single precision a point is visibly off the manifold: read it as the nearest point in double precision
        return self.raw_project(array) if given.dtype.itemsize < 8 else array

    def _tangent_at(self, p: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        p = self.read_points(p, "p")
        v = _real(v, self.point_shape, "v", self)
        axes = tuple(range(-len(self.point_shape), 0))
        if not np.isfinite(v).all():
            raise ValueError(f"v is not a tangent vector of {self}: {(~np.isfinite(v)).sum()} of its entries are not finite")
        with np.errstate(all="ignore"):
            projected = self.raw_project_tangent(p, v)
        if not np.isfinite(projected).all():
            raise ValueError(f"v is too long for a tangent vector of {self} at p: an intermediate number overflows")
        off = np.abs(v - projected).max(axis=axes, initial=0.0)
        size = np.abs(v).max(axis=axes, initial=0.0)
        # the difference of two tangent vectors may consist only of their rounding errors
        rounding = 1e-12 * np.abs(p).max(axis=axes, initial=0.0)
        if (off > TOLERANCE * size + rounding).any():
            raise ValueError(
                f"v is not a tangent vector of {self} at p: it is off the tangent space by {off.max():.3g} "
                f"(entries up to {size.max():.3g})"
            )
        return p, projected

    def _finite(self, out: Array, what: str, why: Any) -> Array:
        axes = tuple(range(out.ndim - len(self.point_shape), out.ndim))
        good = np.isfinite(out).all(axis=axes)
        if not good.all():
            index = tuple(int(i) for i in np.argwhere(~good)[0])
            where = f" at {index}" if index else ""
            with np.errstate(all="ignore"):
                raise ValueError(f"{what} is not defined in float64 on {self}{where}: {why(index)}")
        return out

    def _numbers(self, values: Array, what: str) -> Array | float:
        if not np.isfinite(values).all():
            raise ValueError(f"{what} is not defined in float64 on {self}: an intermediate number overflows")
        return _scalar(values)

    def _pick(self, values: Array, out: Array, index: tuple[int, ...]) -> float:
        leading = out.shape[: out.ndim - len(self.point_shape)]
        return float(np.broadcast_to(values, leading)[index])

    def __repr__(self) -> str:
        written = []
        for field in fields(cast(Any, self)):  # every manifold is a dataclass
            value = getattr(self, field.name)
            if field.default is MISSING:
                written.append(str(value))
            elif value != field.default:
                written.append(f"{field.name}={value}")
        return f"{type(self).__name__}({', '.join(written)})"


def _scalar(values: Array) -> Array | float:
    return values if values.ndim else float(values)


def _array(x: ArrayLike, name: str) -> NDArray[Any]:
    refuse_unreadable(x, name)
    return np.asarray(as_numpy(x))


def _real(x: ArrayLike, shape: tuple[int, ...], name: str, manifold: Manifold) -> Array:
    array = _array(x, name)
    if array.dtype.kind not in "fiu":
        kind = "str" if array.dtype.kind == "U" else "bytes" if array.dtype.kind == "S" else array.dtype  # not how long they are
        raise TypeError(f"{name} must hold real numbers but has dtype {kind}")
    if array.shape[array.ndim - len(shape) :] != shape or array.ndim < len(shape):
        raise ValueError(
            f"{name} has shape {array.shape}, but {manifold} wants arrays of shape ({', '.join(['...', *map(str, shape)])})"
        )
    with np.errstate(all="ignore"):  # a warning about the conversion would reveal something about a value
        return array.astype(np.float64, copy=False)
