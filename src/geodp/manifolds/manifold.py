"""The contract every manifold of the library keeps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodp.inputs import Array, refuse_mask
from geodp.manifolds.functions import log_sinc, log_sinhc

#: How far off its manifold (relative to its size) an array may be and still be read as the point next to it.
#: Wide enough for float32 and for seven printed digits.
TOLERANCE = 1e-6


class Requirement(NamedTuple):
    """One condition on a point: where it holds, the number it is about, and a sentence with a ``{}`` for that number."""

    met: NDArray[np.bool_]
    found: Array
    sentence: str


@dataclass(frozen=True)
class VolumeBound:
    """A radial upper bound on the volume density of ``exp``: ``log J(v) <= power * log sn(rate * |v|)``.

    ``sn`` is ``sin(x)/x`` for ``sign = 1`` (compact), ``sinh(x)/x`` for ``sign = -1`` (non-compact) and 1 for
    ``sign = 0`` (flat).

    >>> from geodp import SPD
    >>> SPD(2).volume_bound
    VolumeBound(power=1, rate=0.7071067811865476, sign=-1)
    """

    power: int
    rate: float
    sign: int

    @classmethod
    def from_roots(cls, power: int, einstein: float, sign: int) -> VolumeBound:
        """From the number of roots ``N`` and the constant of ``sum alpha(H)^2 = einstein * |H|^2``.

        ``log sn(sqrt(x))`` is concave in ``x``, so Jensen's inequality bounds the sum over the roots by ``N`` times
        the value at their mean square.
        """
        return cls(power, float(np.sqrt(einstein / power)), sign) if power and einstein else cls(0, 0.0, 0)

    def log_value(self, radius: ArrayLike) -> Array:
        x = self.rate * np.asarray(radius, dtype=np.float64)
        if self.sign == 0:
            return np.zeros_like(x)
        return self.power * (log_sinc(x) if self.sign > 0 else log_sinhc(x))


class Manifold(ABC):
    """A complete homogeneous Riemannian manifold whose points are real arrays of one fixed shape.

    ``exp(p, log(p, q)) == q`` and ``dist(p, q) == norm(p, log(p, q))`` wherever ``log`` is defined. Every method
    broadcasts over leading axes, computes in float64, and answers input that is off the manifold with a
    ``ValueError`` that says by how much. Points may be off by rounding (:data:`TOLERANCE`): an array stands for the
    point next to it.

    A new manifold is a frozen dataclass that gives the constants and the ``raw_`` maps. The ``raw_`` maps take float64
    arrays that are known to be good, check nothing, and are what inner loops call.

    >>> from geodp import Sphere
    >>> sphere, north, east = Sphere(2), [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]
    >>> sphere.exp(north, sphere.log(north, east)).round(12)
    array([1., 0., 0.])
    >>> sphere.check_point([0.0, 0.0, 2.0])
    'the norm must be 1 but is 2'
    """

    # ------------------------------------------------------------------ constants

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension."""

    @property
    @abstractmethod
    def point_shape(self) -> tuple[int, ...]:
        """Shape of the array that holds one point; tangent vectors have the same shape."""

    @property
    @abstractmethod
    def origin(self) -> Array:
        """The point that every ``move_origin`` starts from."""

    @property
    @abstractmethod
    def curvature(self) -> float:
        """The least non-negative upper bound on the sectional curvatures."""

    @property
    @abstractmethod
    def lowest_curvature(self) -> float:
        """The greatest non-positive lower bound on the sectional curvatures."""

    @property
    @abstractmethod
    def injectivity_radius(self) -> float:
        """Below this distance geodesics are shortest, and the only shortest ones."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """The largest distance between two points: the largest norm inside the tangent cut locus."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Dimension of a maximal flat."""

    @property
    @abstractmethod
    def volume_bound(self) -> VolumeBound:
        """A radial bound on ``exp(log_volume_density)``."""

    @property
    @abstractmethod
    def volume_entropy(self) -> float:
        """``lim log(volume of a ball of radius R) / R``: 0 unless the manifold is negatively curved somewhere."""

    @property
    def scale_directions(self) -> Array:
        """Unit vectors, in coordinates, along which a change of units moves every point; rows, none by default."""
        return np.empty((0, self.dim))

    @property
    def cut_locus(self) -> str:
        """What a pair of points without a unique shortest geodesic looks like, in words."""
        return "empty"

    # ------------------------------------------------------------------ what a manifold writes

    @abstractmethod
    def raw_exp(self, p: Array, v: Array) -> Array: ...

    @abstractmethod
    def raw_log(self, p: Array, q: Array) -> Array:
        """Not a number where ``q`` is in the cut locus of ``p``."""

    @abstractmethod
    def raw_dist(self, p: Array, q: Array) -> Array: ...

    @abstractmethod
    def raw_inner(self, p: Array, u: Array, v: Array) -> Array: ...

    @abstractmethod
    def raw_log_volume_density(self, p: Array, v: Array) -> Array: ...

    @abstractmethod
    def raw_inside_cut_locus(self, p: Array, v: Array) -> NDArray[np.bool_]: ...

    @abstractmethod
    def raw_tangent(self, p: Array, coordinates: Array) -> Array: ...

    @abstractmethod
    def raw_coordinates(self, p: Array, v: Array) -> Array: ...

    @abstractmethod
    def raw_move_origin(self, p: Array, x: Array) -> Array: ...

    @abstractmethod
    def raw_project(self, x: Array) -> Array: ...

    @abstractmethod
    def raw_project_tangent(self, p: Array, v: Array) -> Array: ...

    @abstractmethod
    def log_rounding(self, p: Array, reach: float) -> float:
        """A bound on the rounding error, in the norm at ``p``, of ``raw_log(p, q)`` for every ``q`` within ``reach``.

        It also bounds how far storing ``p`` in float64 may move it.
        """

    def log_rounding_in_ball(self, center: Array, radius: float) -> float:
        """The same bound for all ``p`` and ``q`` within ``radius`` of ``center``."""
        return self.log_rounding(center, 2.0 * radius)

    @abstractmethod
    def requirements(self, x: Array) -> Iterator[Requirement]:
        """The conditions on a finite array of the right shape, cheapest first."""

    # ------------------------------------------------------------------ what a user calls

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
        return self._finite(
            out,
            "log(p, q)",
            lambda i: f"dist(p, q) is {self._pick(self.raw_dist(p, q), out, i):.12g}; cut locus: {self.cut_locus}",
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
        """``log |det d exp_p|`` at ``v``, with respect to orthonormal frames; minus infinity on and past conjugate points."""
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
        return self._finite(out, "move_origin(p, x)", lambda _: "a number on the way is past what floats hold")

    @final
    def project(self, x: ArrayLike) -> Array:
        """The point next to an array that is near the manifold, or a ``ValueError`` if there is none."""
        array = _real(x, self.point_shape, "x", self)
        if not np.isfinite(array).all():
            raise ValueError(f"no point of {self} is next to x: {(~np.isfinite(array)).sum()} of its entries are not finite")
        with np.errstate(all="ignore"):
            projected = self.raw_project(array)
        return self.read_points(projected, "the projection of x")

    @final
    def check_point(self, x: ArrayLike) -> str | None:
        """``None`` if ``x`` holds points of the manifold, else a sentence about the first record that is none."""
        x = _real(x, self.point_shape, "x", self)
        for requirement in self._all_requirements(x):
            if not requirement.met.all():
                worst = tuple(int(i) for i in np.argwhere(~requirement.met)[0])
                record = f"record {worst[0] if len(worst) == 1 else worst}: " if worst else ""
                return record + requirement.sentence.format(requirement.found[worst])
        return None

    @final
    def read(self, x: ArrayLike, name: str) -> Array:
        """``x`` as float64 if its shape and type fit the manifold, or a sentence; its values are not looked at."""
        return _real(x, self.point_shape, name, self)

    @final
    def valid(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Which records are points of the manifold: one truth value a record."""
        x = _real(x, self.point_shape, "x", self)
        met = np.ones(x.shape[: x.ndim - len(self.point_shape)], dtype=np.bool_)
        for requirement in self._all_requirements(x):
            met &= requirement.met
        return met

    def raw_norm(self, p: Array, v: Array) -> Array:
        return np.sqrt(self.raw_inner(p, v, v))

    # ------------------------------------------------------------------ reading input

    def _all_requirements(self, x: Array) -> Iterator[Requirement]:
        axes = tuple(range(x.ndim - len(self.point_shape), x.ndim))
        finite = np.asarray(np.isfinite(x).all(axis=axes))
        missing = np.asarray((~np.isfinite(x)).sum(axis=axes), dtype=np.float64)
        yield Requirement(finite, missing, "every entry must be finite but {:.0f} are not")
        with np.errstate(all="ignore"):
            yield from self.requirements(np.where(np.isfinite(x), x, 0.0))

    def read_points(self, x: ArrayLike, name: str) -> Array:
        array = _real(x, self.point_shape, name, self)
        wrong = self.check_point(array)
        if wrong is not None:
            raise ValueError(f"{name} is not a point of {self}: {wrong}")
        # half and single precision leave a point visibly off the manifold: it means the double-precision one next to it
        return self.raw_project(array) if getattr(x, "dtype", array.dtype).itemsize < 8 else array

    def _tangent_at(self, p: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        p = self.read_points(p, "p")
        v = _real(v, self.point_shape, "v", self)
        axes = tuple(range(-len(self.point_shape), 0))
        if not np.isfinite(v).all():
            raise ValueError(f"v is not a tangent vector of {self}: {(~np.isfinite(v)).sum()} of its entries are not finite")
        with np.errstate(all="ignore"):
            projected = self.raw_project_tangent(p, v)
        if not np.isfinite(projected).all():
            raise ValueError(f"v is too long for a tangent vector of {self} at p: a number on the way is past what floats hold")
        off = np.abs(v - projected).max(axis=axes, initial=0.0)
        size = np.abs(v).max(axis=axes, initial=0.0)
        # the difference of two tangent vectors may be nothing but their rounding errors
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
            raise ValueError(f"{what} is not defined in float64 on {self}: a number on the way is past what floats hold")
        return _scalar(values)

    def _pick(self, values: Array, out: Array, index: tuple[int, ...]) -> float:
        leading = out.shape[: out.ndim - len(self.point_shape)]
        return float(np.broadcast_to(values, leading)[index])

    def __repr__(self) -> str:
        parameters = fields(cast(Any, self))  # every manifold is a dataclass
        return f"{type(self).__name__}({', '.join(str(getattr(self, parameter.name)) for parameter in parameters)})"


class HadamardManifold(Manifold):
    """Complete, simply connected, without positive curvature: every two points are joined by one geodesic."""

    @property
    def curvature(self) -> float:
        return 0.0

    @property
    def injectivity_radius(self) -> float:
        return math.inf

    @property
    def diameter(self) -> float:
        return math.inf

    def raw_inside_cut_locus(self, p: Array, v: Array) -> NDArray[np.bool_]:
        leading = np.broadcast_shapes(p.shape, v.shape)
        return np.ones(leading[: len(leading) - len(self.point_shape)], dtype=np.bool_)


class CompactManifold(Manifold):
    """Of finite volume and without negative curvature."""

    @property
    def lowest_curvature(self) -> float:
        return 0.0

    @property
    def volume_entropy(self) -> float:
        return 0.0


def _scalar(values: Array) -> Array | float:
    return values if values.ndim else float(values)


def _real(x: ArrayLike, shape: tuple[int, ...], name: str, manifold: Manifold) -> Array:
    refuse_mask(x, name)
    array = np.asarray(x)
    if array.dtype.kind not in "fiu":
        kind = "str" if array.dtype.kind == "U" else "bytes" if array.dtype.kind == "S" else array.dtype  # not how long they are
        raise TypeError(f"{name} must hold real numbers but has dtype {kind}")
    if array.shape[array.ndim - len(shape) :] != shape or array.ndim < len(shape):
        raise ValueError(
            f"{name} has shape {array.shape}, but {manifold} wants arrays of shape ({', '.join(['...', *map(str, shape)])})"
        )
    with np.errstate(all="ignore"):  # a warning of the conversion would tell about a value
        return array.astype(np.float64, copy=False)
