"""The ways to write a point of each manifold as a row of numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np

from geodp.files.cells import DAY
from geodp.files.messages import FileError, excerpt
from geodp.manifolds import (
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
)
from geodp.manifolds._functions import Array, sinc
from geodp.manifolds.manifold import EPSILON

#: For each number of a row the names its column may have, and one such list for each habit of naming.
_Names = tuple[tuple[frozenset[str], ...], ...]


@final
@dataclass(frozen=True)
class Layout:
    """One way to write a point as ``columns`` numbers; ``convert`` is ``None`` where they are the point's own entries.

    ``convert`` takes rows of finite numbers and answers NaN for a row that is no point. Without ``automatic`` the layout
    must be named, or be recognised by the ``names`` in a header or by its clock times.
    """

    name: str
    columns: int
    meaning: str
    convert: Callable[[Array], Array] | None = None
    automatic: bool = True
    names: _Names = ()
    clock: bool = False

    def order(self, header: Sequence[str]) -> list[int] | None:
        """Which column holds each number, if the header names them all."""
        plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in header]
        for candidates in (plain, _without_common_start(plain)):
            for habit in self.names:
                found = [[i for i, name in enumerate(candidates) if name in names] for names in habit]
                if all(len(places) == 1 for places in found):
                    return [places[0] for places in found]
        return None

    def __str__(self) -> str:
        return f"{self.columns} {'column' if self.columns == 1 else 'columns'} ({self.name}: {self.meaning})"


def _without_common_start(names: list[str]) -> list[str]:
    """What is left of the names Dxx, Dxy, Dyy, ... when the letter they share is taken off."""
    first, last = min(names, default=""), max(names, default="")
    shared = 0
    while shared < min(len(first), len(last)) and first[shared] == last[shared]:
        shared += 1
    return [name[shared:] for name in names]


def layouts(manifold: Manifold) -> tuple[Layout, ...]:
    """The layouts of a manifold; the first has the shape of its points.

    >>> [layout.name for layout in layouts(Rotations(3))]
    ['matrix', 'quaternion', 'rotvec']
    """
    size = math.prod(manifold.point_shape)
    match manifold:
        case Euclidean():
            return (Layout("coordinates", size, "the coordinates"),)
        case Sphere():
            return _sphere_layouts(manifold)
        case Hyperbolic():
            return (
                Layout("hyperboloid", size, "the time coordinate, then the others"),
                Layout("spatial", size - 1, "all but the time coordinate", lambda x: _with_time(manifold, x)),
            )
        case SPD() | SPDLogEuclidean():
            upper = [(i, j) for i in range(manifold.k) for j in range(i, manifold.k)]
            return (
                Layout("full", size, "the matrix, row by row", names=_entry_names(list(np.ndindex(manifold.point_shape)))),
                Layout(
                    "upper",
                    len(upper),
                    "its upper triangle, row by row",
                    lambda x: _from_upper(manifold.k, x),
                    names=_entry_names(upper, symmetric=True),
                ),
            )
        case Rotations():
            matrix = Layout("matrix", size, "the matrix, row by row", names=_entry_names(list(np.ndindex(manifold.point_shape))))
            scalar_last = (tuple(frozenset({axis, f"q{axis}"}) for axis in "xyzw"),)
            return (matrix,) if manifold.n != 3 else (
                matrix,
                Layout("quaternion", 4, "x, y, z, w with the scalar last", _from_quaternion, names=scalar_last),
                Layout("rotvec", 3, "the axis times the angle in radians", _from_rotation_vector),
            )  # fmt: skip
        case Grassmann():
            return (
                Layout("orthonormal", size, f"a {manifold.m} x {manifold.p} matrix with orthonormal columns, row by row"),
                Layout("basis", size, "any basis", lambda x: _orthonormal(x.reshape(-1, manifold.m, manifold.p)), False),
            )
        case PlanarShapes():
            places = range(manifold.landmarks)
            numbered = tuple(tuple(frozenset({f"{axis}{i + first}"}) for i in places for axis in "xy") for first in (1, 0))
            return (Layout("landmarks", size, "x1, y1, x2, y2, ...", lambda x: _shapes(manifold, x), names=numbered),)
        case Product():
            return (_product_layout(manifold),)
    raise TypeError(f"{manifold!r} has no layout in files")


def _sphere_layouts(sphere: Sphere) -> tuple[Layout, ...]:
    size, radius = sphere.d + 1, sphere.radius
    common = (
        Layout("cartesian", size, f"coordinates of norm {radius:.6g}"),
        Layout("composition", size, "parts of a whole", lambda x: radius * _square_root_shares(x), False),
    )
    if sphere.d == 2:
        names = ((frozenset({"lat", "latitude"}), frozenset({"lon", "long", "lng", "longitude"})),)
        latlon = Layout("latlon", 2, "latitude and longitude in degrees", lambda x: radius * _direction(x), False, names)
        return (*common, latlon)
    if sphere.d == 1:
        times = ((frozenset({"time", "clock", "clocktime", "timeofday"}),),)
        return (
            *common,
            Layout("clock", 1, "clock times HH:MM or HH:MM:SS", lambda x: radius * _hand(x / DAY), False, times, clock=True),
            Layout("degrees", 1, "angles in degrees", lambda x: radius * _hand(x / 360.0), False),
            Layout("radians", 1, "angles in radians", lambda x: radius * _hand(x / (2.0 * np.pi)), False),
        )
    return common


def _product_layout(product: Product) -> Layout:
    first = [layouts(factor)[0] for factor in product.factors]
    ends = np.cumsum([0, *(layout.columns for layout in first)]).tolist()

    def convert(cells: Array) -> Array:
        parts = [cells[:, start:end] for start, end in pairwise(ends)]
        points = [layout.convert(part) if layout.convert else part for layout, part in zip(first, parts, strict=True)]
        return np.concatenate([point.reshape(len(cells), -1) for point in points], axis=-1)

    meaning = "those of the factors, end to end"
    return Layout("factors", ends[-1], meaning, convert if any(layout.convert for layout in first) else None)


def _entry_names(entries: Sequence[tuple[int, ...]], symmetric: bool = False) -> _Names:
    """Names of matrix entries: xx, xy, ..., or 11, 12, ..., or 00, 01, ...; a symmetric one goes by both its names."""
    most = max((max(entry) for entry in entries), default=0)
    habits = []
    for digits in ("xyz", "123456789", "0123456789"):
        if 0 < most < len(digits):
            spelled = [(digits[i] + digits[j], digits[j] + digits[i]) for i, j in entries]
            habits.append(tuple(frozenset(both if symmetric else both[:1]) for both in spelled))
    return tuple(habits)


def _with_time(space: Hyperbolic, cells: Array) -> Array:
    return space.raw_project(np.concatenate([np.ones((len(cells), 1)), cells], axis=-1))


def _from_upper(k: int, cells: Array) -> Array:
    i, j = np.triu_indices(k)
    matrix = np.empty((len(cells), k, k))
    matrix[:, i, j] = cells
    matrix[:, j, i] = cells
    return matrix


def _square_root_shares(parts: Array) -> Array:
    # divided by the largest part first, so that no sum overflows
    parts = np.where((parts < 0.0).any(axis=-1, keepdims=True), np.nan, parts) / parts.max(axis=-1, keepdims=True)
    return np.sqrt(parts / parts.sum(axis=-1, keepdims=True))


def _direction(degrees: Array) -> Array:
    latitude, longitude = np.deg2rad(degrees).T
    latitude = np.where(np.abs(degrees[:, 0]) <= 90.0, latitude, np.nan)
    east = np.cos(latitude)
    return np.stack([east * np.cos(longitude), east * np.sin(longitude), np.sin(latitude)], axis=-1)


def _hand(turns: Array) -> Array:
    """The hand of a clock after these turns from the top."""
    angle = 2.0 * np.pi * (turns - np.round(turns))
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)


def _from_quaternion(cells: Array) -> Array:
    cells = cells / np.abs(cells).max(axis=-1, keepdims=True)
    x, y, z, w = (cells / np.linalg.vector_norm(cells, axis=-1, keepdims=True)).T
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def _from_rotation_vector(cells: Array) -> Array:
    half = 0.5 * np.linalg.vector_norm(cells, axis=-1, keepdims=True)
    return _from_quaternion(np.concatenate([0.5 * sinc(half) * cells, np.cos(half)], axis=-1))


def _orthonormal(bases: Array) -> Array:
    size = np.abs(bases).max(axis=-2, keepdims=True)
    scaled = bases / np.where(size > 0.0, size, 1.0)
    basis, triangle = np.linalg.qr(scaled)
    # the diagonal of the triangle: how far each column is from the span of those before it
    apart = np.abs(np.diagonal(triangle, axis1=-2, axis2=-1))
    rounding = 4.0 * bases.shape[-2] * EPSILON * np.linalg.vector_norm(scaled, axis=-2)
    return np.where((apart > rounding).all(axis=-1)[:, None, None], basis, np.nan)


def _shapes(shapes: PlanarShapes, configurations: Array) -> Array:
    configurations = configurations.reshape(-1, *shapes.point_shape)
    moved = configurations - configurations[:, :1]
    size = np.abs(moved).max(axis=(-1, -2), keepdims=True)
    rounding = 8.0 * EPSILON * np.abs(configurations).max(axis=(-1, -2), keepdims=True)
    return shapes.raw_project(moved / np.where(size > rounding, size, np.nan))


def choose(
    source: str, manifold: Manifold, name: str, width: int, header: Sequence[str] | None, found: str, clock: Callable[[], bool]
) -> tuple[Layout, list[int]]:
    """The layout for rows of ``width`` numbers, and which of them are its numbers, in its order."""
    choices = layouts(manifold)
    wanted = f"{manifold} is read from {' or '.join(map(str, choices))}"
    if name != "auto":
        named = [layout for layout in choices if layout.name == name]
        if not named:
            known = ", ".join(["auto", *(layout.name for layout in choices)])
            raise FileError(f"{manifold} has no layout {excerpt(name)}: name one of {known}")
        if named[0].columns != width:
            raise FileError(f"{source} has {found}, but the layout {name} of {manifold} is read from {named[0]}")
        return named[0], named[0].order(header or ()) or list(range(width))
    for layout in choices:
        order = layout.order(header) if header else None
        if order is not None and layout.columns == width:
            return layout, order
        if order is not None and not layout.automatic:
            raise FileError(f"{source} has {found}: choose those of the layout {layout.name}, which its header names, or others")
    for layout in choices:
        if layout.columns == width and (layout.automatic or (layout.clock and clock())):
            return layout, list(range(width))
    named_only = [layout.name for layout in choices if layout.columns == width]
    if named_only:
        raise FileError(
            f"{source} has {found}, which {manifold} reads only when told how: name the layout, {' or '.join(named_only)}"
        )
    raise FileError(f"{source} has {found}, but {wanted}")


def to_points(manifold: Manifold, layout: Layout, cells: Array) -> Array:
    if layout.convert is None:
        return cells.reshape(len(cells), *manifold.point_shape)
    points = np.full((len(cells), *manifold.point_shape), np.nan)
    finite = np.isfinite(cells).all(axis=-1)
    with np.errstate(all="ignore"):
        points[finite] = layout.convert(cells[finite]).reshape(-1, *manifold.point_shape)
    points[~np.isfinite(points).all(axis=tuple(range(1, points.ndim)))] = np.nan
    return points
