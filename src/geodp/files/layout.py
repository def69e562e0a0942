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
from geodp.files.messages import FileError, excerpt, listed
from geodp.inputs import EPSILON, Array
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
from geodp.manifolds.functions import sinc

#: For each number of a row the names its column may have, the usual one first, and one such list for each habit of naming.
_Names = tuple[tuple[tuple[str, ...], ...], ...]


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
        for match in self._matches(header):
            if all(len(places) == 1 for places in match.places):
                return [places[0] for places in match.places]
        return None

    def shortfall(self, header: Sequence[str]) -> str:
        """What to say about a header that names some of the numbers but not all: so near a miss is no accident."""
        # one name behind a long beginning is an accident: pro-xy is no entry of a matrix
        near = [match for match in self._matches(header) if match.found > 1 or (match.found == 1 and len(match.start) < 2)]
        if not near:
            return ""
        best = max(near, key=lambda match: (match.found, len(match.start)))
        if best.found == len(best.places):
            return ""
        named = [header[i] for i in sorted(places[0] for places in best.places if places)]
        missing = [
            _alike(named[0], best.start, names[0]) for names, places in zip(best.habit, best.places, strict=True) if not places
        ]
        return (
            f"names {listed(named)} but not {listed(missing)}: "
            f"name each of the {len(best.places)} numbers of the layout {self.name} once, or none"
        )

    def _matches(self, header: Sequence[str]) -> list[_Match]:
        """For each habit of naming, and each beginning that the names may have in common, the columns so named."""
        plain = [_plain(name) for name in header]
        matches = []
        for habit in () if _is_count(plain) else self.names:
            which = {name: entry for entry, names in enumerate(habit) for name in names}
            lengths = {len(name) for name in which}
            found: dict[str, list[list[int]]] = {}
            for i, name in enumerate(plain):
                for length in lengths & set(range(len(name) + 1)):
                    start, entry = name[:-length], which.get(name[-length:])
                    # a lone name has nothing in common with others
                    if entry is not None and (start == "" or len(habit) > 1):
                        found.setdefault(start, [[] for _ in habit])[entry].append(i)
            matches += [_Match(start, habit, found[start]) for start in sorted(found)]
        return matches

    def __str__(self) -> str:
        return f"{self.columns} {'column' if self.columns == 1 else 'columns'} ({self.name}: {self.meaning})"


@final
@dataclass(frozen=True)
class _Match:
    """The columns called ``start`` and a name of ``habit``, for each number of a row."""

    start: str
    habit: tuple[tuple[str, ...], ...]
    places: list[list[int]]

    @property
    def found(self) -> int:
        return sum(map(bool, self.places))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is_count(names: list[str]) -> bool:
    """Whether the names are c0, c1, ..., c15: numbers of columns, and of no matrix entries."""
    numbered = [re.fullmatch(r"(.*?)([0-9]{1,9})", name) for name in names]
    counts = [(match[1], int(match[2]) - i) for i, match in enumerate(numbered) if match]
    return len(counts) == len(names) and len(set(counts)) == 1


def _alike(example: str, start: str, name: str) -> str:
    """The name behind the beginning, written as in the example: Dyz beside Dxx."""
    if _plain(example) != example.lower():
        return start + name
    rest = example[len(start) :]
    return example[: len(start)] + (name.upper() if rest.isupper() else name)


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
            scalar_last = (tuple((axis, f"q{axis}") for axis in "xyzw"),)
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
            numbered = tuple(tuple((f"{axis}{i + first}",) for i in places for axis in "xy") for first in (1, 0))
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
        names = ((("lat", "latitude"), ("lon", "long", "lng", "longitude")),)
        latlon = Layout("latlon", 2, "latitude and longitude in degrees", lambda x: radius * _direction(x), False, names)
        return (*common, latlon)
    if sphere.d == 1:
        times = ((("time", "clock", "clocktime", "timeofday"),),)
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
            habits.append(tuple(both if symmetric else both[:1] for both in spelled))
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


#: The way to leave columns out, for those who program and those who type.
PICK = "pick those of a record with columns= (or --columns)"


def choose(
    source: str,
    manifold: Manifold,
    name: str,
    width: int,
    header: Sequence[str] | None,
    found: str,
    clock: Callable[[], bool],
    hint: str = "",
) -> tuple[Layout, list[int]]:
    """The layout for rows of ``width`` numbers, and which of them are its numbers, in its order."""
    choices = layouts(manifold)
    names = header or ()
    if name != "auto":
        named = [layout for layout in choices if layout.name == name]
        if not named:
            known = ", ".join(["auto", *(layout.name for layout in choices)])
            raise FileError(f"{manifold} has no layout {excerpt(name)}: name one of {known}")
        if named[0].columns != width:
            raise FileError(f"{source} has {found}, but the layout {name} of {manifold} is read from {named[0]}{hint}")
        return named[0], named[0].order(names) or _positions(source, named[0], names)
    orders = [(layout, layout.order(names)) for layout in choices]
    for layout, order in orders:
        if order is not None and layout.columns == width:
            return layout, order
    for layout, order in orders:
        if order is not None:
            raise FileError(
                f"{source} has {found}: choose those of the layout {layout.name}, which its header names, or others; {PICK}"
            )
    for layout in choices:
        if layout.columns == width and (layout.automatic or (layout.clock and clock())):
            return layout, _positions(source, layout, names)
    named_only = [layout.name for layout in choices if layout.columns == width]
    if named_only:
        raise FileError(
            f"{source} has {found}, which {manifold} reads only when told how: name the layout, {' or '.join(named_only)}"
        )
    raise FileError(f"{source} has {found}, but {manifold} is read from {' or '.join(map(str, choices))}{hint}")


def _positions(source: str, layout: Layout, header: Sequence[str]) -> list[int]:
    """The numbers as they stand, for a header that names none of them."""
    if shortfall := layout.shortfall(header):
        raise FileError(f"the header of {source} {shortfall}")
    return list(range(layout.columns))


def to_points(manifold: Manifold, layout: Layout, cells: Array) -> Array:
    if layout.convert is None:
        return cells.reshape(len(cells), *manifold.point_shape)
    finite = np.asarray(np.isfinite(cells).all(axis=-1))
    with np.errstate(all="ignore"):
        # all rows at once, whatever they hold: how many are invalid must not change how the others are rounded
        points = layout.convert(np.where(finite[:, None], cells, 0.0)).reshape(len(cells), *manifold.point_shape)
    bad = ~(finite & np.isfinite(points).all(axis=tuple(range(1, points.ndim))))
    points[bad] = np.nan
    return points
