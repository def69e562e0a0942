"""Records, centres and manifolds from files and from text.

Files are ``.npy``, ``.npz`` (one array, or one named ``x`` or ``records``), ``.csv`` (comma, semicolon, tab or blanks, with
or without a header) and ``.parquet`` (one column a coordinate, or lists; ``pip install 'geodp[parquet]'``). What a row
holds follows from the number of columns and from the header; the layouts marked * are taken only when they are named.

====================  =============  ============  ====================================================================
manifold              layout         columns       what they hold
====================  =============  ============  ====================================================================
Euclidean(d)          coordinates    d             the coordinates
Sphere(d)             cartesian      d+1           the coordinates, of norm curvature**-0.5
Sphere(d)             composition *  d+1           parts, none negative: their shares of the whole, square-rooted
Sphere(2)             latlon         2             latitude and longitude in degrees; also chosen by a header lat, lon
Sphere(1)             clock          1             HH:MM or HH:MM:SS, chosen by its colons or a header time
Sphere(1)             degrees *      1             an angle in degrees
Sphere(1)             radians *      1             an angle in radians
Hyperbolic(d)         hyperboloid    d+1           the time coordinate, then the others
Hyperbolic(d)         spatial        d             the others alone: the time coordinate follows
SPD(k)                full           k*k           the matrix, row by row
SPD(k)                upper          k*(k+1)/2     its upper triangle, row by row: xx, xy, xz, yy, yz, zz
SPDLogEuclidean(k)                                 as SPD(k)
Rotations(n)          matrix         n*n           the matrix, row by row
Rotations(3)          quaternion     4             x, y, z, w, the scalar last unless the header says w, x, y, z
Rotations(3)          rotvec         3             the axis times the angle in radians
Grassmann(p, m)       orthonormal    m*p           a basis with orthonormal columns, as an m x p matrix row by row
Grassmann(p, m)       basis *        m*p           any basis, written the same way
PlanarShapes(L)       landmarks      2*L           x1, y1, x2, y2, ... in any position and size
Product(M1, ...)      factors        all theirs    the first layout of each factor, end to end
====================  =============  ============  ====================================================================

Arrays may also have the shape ``(n, *point_shape)``, such as ``(n, 3, 3)`` for SPD(3). Latitude and longitude become
``(cos lat cos lon, cos lat sin lon, sin lat)``, so that the north pole is the origin. Angles and clock times run like a
clock face of 24 hours or a compass, ``(sin a, cos a)``: midnight is the origin (0, 1), and 06:00 is (1, 0). Headers such
as ``Dxx, Dyy, Dzz, Dxy, ...`` or ``r11, r21, ...`` give the order of matrix entries.

Records are private and one record is one line (or row). What a cell holds never raises and is never quoted: a cell that
is missing or not a number, a line with too few or too many cells, a row that is no composition or spans no subspace
makes an invalid record, full of NaN, which a release maps to the centre. Public are the number of records, the header
(a first line with a word in it and no number or clock time) and the number of columns, which is
that of the header or of most lines; blank lines at the end of a file do not count.
"""

from __future__ import annotations

import ast
import csv
import importlib
import inspect
import math
import os
import re
import warnings
from abc import ABC, abstractmethod
from array import array as buffer
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

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

#: The table of layouts above, for help texts.
LAYOUTS = (__doc__ or "")[(__doc__ or "").find("====") : (__doc__ or "").rfind("====") + 4]


class FileError(ValueError):
    """A file that cannot be read as records: one sentence with what was found and what would do, and no cell of it."""


# ---------------------------------------------------------------------- manifolds from text

_FORMS: dict[type[Manifold], str] = {
    Euclidean: "Euclidean(d)",
    Sphere: "Sphere(d, curvature=1)",
    Hyperbolic: "Hyperbolic(d)",
    SPD: "SPD(k)",
    SPDLogEuclidean: "SPDLogEuclidean(k)",
    Grassmann: "Grassmann(p, m)",
    Rotations: "Rotations(n)",
    PlanarShapes: "PlanarShapes(landmarks)",
    Product: "Product(M1, M2, ...)",
}
_BY_NAME = {kind.__name__.lower(): kind for kind in _FORMS}

#: Longer texts are no manifold or centre anyone typed; the bound also keeps the parser from deep recursion.
_LONGEST_TEXT = 20_000

#: Points that large fit no memory many times over, and no use.
_MOST_COLUMNS = 10**7


def parse_manifold(text: str) -> Manifold:
    """The manifold that a text such as ``"SPD(3)"`` names; upper and lower case are the same.

    >>> parse_manifold("Product(sphere(2, curvature=4), Euclidean(3))")
    Product(Sphere(2, curvature=4.0), Euclidean(3))
    """
    try:
        manifold = _manifold(_expression(text))
        if math.prod(manifold.point_shape) > _MOST_COLUMNS:
            raise ValueError(f"its points have more than {_MOST_COLUMNS} entries")
        return manifold
    except (TypeError, ValueError, ArithmeticError) as error:
        sentence = f"the manifold {_excerpt(text)} cannot be read, because {error}: write one of {', '.join(_FORMS.values())}"
        raise ValueError(sentence) from None


def _manifold(node: ast.expr) -> Manifold:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise ValueError("a manifold is a name with its sizes in parentheses")
    kind = _BY_NAME.get(node.func.id.lower())
    if kind is None:
        raise ValueError(f"there is no manifold {_excerpt(node.func.id)}")
    read = _manifold if kind is Product else _literal
    positional = [read(argument) for argument in node.args]
    named = {keyword.arg or "**": read(keyword.value) for keyword in node.keywords}
    try:
        inspect.signature(kind).bind(*positional, **named)
    except TypeError:
        raise ValueError(f"{kind.__name__} takes other arguments") from None
    return kind(*positional, **named)


def _literal(node: ast.expr) -> Any:
    """The value of a number, or of a list or tuple of them; nothing else is evaluated."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd) and not isinstance(node.operand, ast.UnaryOp):
        value = _literal(node.operand)
        if not isinstance(value, list):
            return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(entry) for entry in node.elts]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    raise ValueError("only numbers may stand between the parentheses")


def _expression(text: str) -> ast.expr:
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"it is longer than {_LONGEST_TEXT} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(" ".join(text.split()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("its parentheses and commas do not fit together") from None


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


# ---------------------------------------------------------------------- layouts

#: For each number of a row the names its column may have, and one such list for each habit of naming.
_Names = tuple[tuple[frozenset[str], ...], ...]

_DAY = 24.0 * 60.0 * 60.0


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
            Layout("clock", 1, "clock times HH:MM or HH:MM:SS", lambda x: radius * _hand(x / _DAY), False, times, clock=True),
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


def _choose(
    source: str, manifold: Manifold, name: str, width: int, header: Sequence[str] | None, found: str, clock: Callable[[], bool]
) -> tuple[Layout, list[int]]:
    """The layout for rows of ``width`` numbers, and which of them are its numbers, in its order."""
    choices = layouts(manifold)
    wanted = f"{manifold} is read from {' or '.join(map(str, choices))}"
    if name != "auto":
        named = [layout for layout in choices if layout.name == name]
        if not named:
            known = ", ".join(["auto", *(layout.name for layout in choices)])
            raise FileError(f"{manifold} has no layout {_excerpt(name)}: name one of {known}")
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


def _to_points(manifold: Manifold, layout: Layout, cells: Array) -> Array:
    if layout.convert is None:
        return cells.reshape(len(cells), *manifold.point_shape)
    points = np.full((len(cells), *manifold.point_shape), np.nan)
    finite = np.isfinite(cells).all(axis=-1)
    with np.errstate(all="ignore"):
        points[finite] = layout.convert(cells[finite]).reshape(-1, *manifold.point_shape)
    points[~np.isfinite(points).all(axis=tuple(range(1, points.ndim)))] = np.nan
    return points


# ---------------------------------------------------------------------- cells

_CLOCK = re.compile(r"\s*(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:\.\d*)?))?\s*", re.ASCII)
_MISSING = frozenset({"na", "n/a", "nil", "none", "null", "missing"})


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _seconds(cell: str | None) -> float:
    """Seconds since midnight, or NaN."""
    time = _CLOCK.fullmatch(cell or "")
    if time is None:
        return math.nan
    seconds = 3600.0 * int(time[1]) + 60.0 * int(time[2]) + float(time[3] or 0.0)
    return seconds if seconds <= _DAY else math.nan


def _is_name(cell: str) -> bool:
    return any(map(str.isalpha, cell)) and cell.lower() not in _MISSING and not _is_value(cell)


def _is_value(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return _CLOCK.fullmatch(cell) is not None
    return True


def _is_header(cells: list[str]) -> bool:
    # pandas numbers nameless columns, after a nameless one for its index
    numbered = len(cells) > 2 and cells == ["", *map(str, range(len(cells) - 1))]
    return numbered or (any(map(_is_name, cells)) and not any(map(_is_value, cells)))


# ---------------------------------------------------------------------- formats


class Table(ABC):
    """The records of a file before anything is known of a manifold: ``records`` rows in columns of one or more numbers."""

    path: Path
    records: int
    names: tuple[str, ...] | None
    widths: tuple[int, ...]

    @abstractmethod
    def numbers(self, columns: list[int], clock: bool) -> Array:
        """The numbers in these columns, or with ``clock`` the seconds since midnight, as rows."""

    @abstractmethod
    def holds_clock_times(self, column: int) -> bool: ...

    def shown_names(self) -> tuple[str, ...] | None:
        return self.names

    def found(self, columns: Sequence[int] | None = None) -> str:
        """What a sentence says about the columns."""
        chosen = range(len(self.widths)) if columns is None else columns
        width = sum(self.widths[i] for i in chosen)
        shown = self.shown_names()
        names = f" ({_listed([shown[i] for i in chosen])})" if shown else ""
        return f"{width} {'column' if width == 1 else 'columns'}{names}"

    def pick(self, columns: Sequence[str | int] | None) -> list[int]:
        """Positions of columns given by name or by position from 0; all that have a name, if none are given."""
        if columns is None:
            return [i for i in range(len(self.widths)) if self.names is None or self.names[i]]
        return [self._position(column) for column in columns]

    def _position(self, column: str | int) -> int:
        name = str(column)
        if isinstance(column, str) and self.names is not None and self.names.count(name) == 1:
            return self.names.index(name)
        if name.isdecimal() and int(name) < len(self.widths):
            return int(name)
        raise FileError(f"{self.path} has {self.found()} and no single one called {_excerpt(name)}")


class ArrayTable(Table):
    def __init__(self, path: Path, array: NDArray[Any]) -> None:
        if array.dtype.kind not in "fiuUS":
            raise FileError(f"{path} holds an array of dtype {_short(array.dtype)}, but records are real numbers or clock times")
        if array.ndim == 0 or len(array) == 0:
            raise FileError(f"{path} holds an array of shape {array.shape}, which has no records")
        width = math.prod(array.shape[1:])
        if width > _MOST_COLUMNS:
            raise FileError(f"{path} holds an array of shape {array.shape}, which has more than {_MOST_COLUMNS} columns")
        self.path, self.array, self.records, self.names = path, array, len(array), None
        self.widths = (1,) * width

    def found(self, columns: Sequence[int] | None = None) -> str:
        return f"{super().found(columns)} in an array of shape {self.array.shape}"

    def holds_clock_times(self, column: int) -> bool:
        return self.array.dtype.kind in "US"

    def numbers(self, columns: list[int], clock: bool) -> Array:
        if clock != (self.array.dtype.kind in "US"):
            wanted = "clock times as text" if clock else "numbers"
            raise FileError(
                f"{self.path} holds an array of dtype {_short(self.array.dtype)}, but this layout is read from {wanted}"
            )
        rows = self.array.reshape(self.records, -1)
        rows = rows if columns == list(range(rows.shape[1])) else rows[:, columns]
        if clock:
            texts = np.char.decode(rows, "latin-1") if rows.dtype.kind == "S" else rows
            return np.array([[_seconds(cell) for cell in row] for row in texts.tolist()]).reshape(self.records, len(columns))
        return _float64(rows)


class _CsvTable(Table):
    """Lines of cells. A line is a record whatever it holds: no quotation mark reaches into the next one."""

    def __init__(self, path: Path, wanted: frozenset[str]) -> None:
        self.path = path
        with path.open("rb") as file:
            utf16 = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
        self.encoding = "utf-16" if utf16 else "utf-8-sig"
        self.delimiter: str | None = ","
        first, lines, widths = self._survey()
        if lines == 0:
            raise FileError(f"{path} is empty: it must hold one record a line")
        cells = [cell.strip() for cell in self._cells(first.lstrip("# "))]
        widths[len(self._cells(first))] -= 1
        usual, count = max(widths.items(), key=lambda item: (item[1], item[0]))
        usual = usual if count > 0 else len(cells)
        # a lone word above several columns heads none of them
        self.plain_header = _is_header(cells) and (len(cells) > 1 or usual == 1)
        header = self.plain_header or (bool(wanted) and wanted <= set(cells))
        self.names = tuple(cells) if header else None
        self.start, self.stop = int(header), lines
        self.records = lines - self.start
        if self.records == 0:
            raise FileError(f"{path} has a header but no records")
        if header and usual != len(cells) and 2 * count > self.records:
            raise FileError(f"the header of {path} names {len(cells)} columns, but most of its lines have {usual}")
        self.width = len(cells) if header else usual
        self.widths = (1,) * self.width

    def _survey(self) -> tuple[str, int, Counter[int]]:
        """Finds the delimiter; the first line, the number of lines up to the last that is not blank, how many cells they have."""
        first, read, last = "", 0, 0
        counts: dict[str | None, Counter[int]] = {delimiter: Counter() for delimiter in (";", "\t", ",", None)}
        for block in self._blocks():
            first = first if read else block[0]
            blank = [line.isspace() for line in block]
            if not all(blank):
                last = read + len(block) - blank[::-1].index(False)
            read += len(block)
            filled = [line for line, empty in zip(block, blank, strict=True) if not empty]
            quoted = any('"' in line for line in filled)
            for delimiter, counter in counts.items():
                if delimiter is None:
                    # blanks may separate cells only where nothing else does: most files need not be split twice
                    filled = [line for line in filled if not ("," in line or ";" in line or "\t" in line)]
                    counter.update([len(line.split()) for line in filled])
                elif quoted:
                    counter.update([len(_split(line, delimiter)) for line in filled])
                else:
                    counter.update([line.count(delimiter) + 1 for line in filled])
        total = counts[","].total()
        for delimiter, counter in counts.items():
            if 2 * (counter.total() - counter[1]) > total:
                self.delimiter = delimiter
                break
        chosen = counts[self.delimiter]
        return first, last, +chosen

    def _blocks(self) -> Iterator[list[str]]:
        # a byte that is no text is a value like any other: it must not raise
        with self.path.open(encoding=self.encoding, errors="replace") as file:
            while block := file.readlines(1 << 22):
                yield block

    def _lines(self) -> Iterator[str]:
        lines = (line for block in self._blocks() for line in block)
        return islice(lines, self.start, self.stop)

    def _cells(self, line: str) -> list[str]:
        return _split(line, self.delimiter)

    def shown_names(self) -> tuple[str, ...] | None:
        # if it holds a number, or none are under it, the first line may be a record, which no message quotes
        if not self.plain_header:
            return None
        sample = [any(map(_is_value, self._cells(line))) for line in islice(self._lines(), 100)]
        return self.names if 2 * sum(sample) > len(sample) else None

    def holds_clock_times(self, column: int) -> bool:
        cells = (self._cells(line) for line in self._lines())
        colons = sum(":" in row[column] for row in cells if len(row) == self.width)
        return 2 * colons > self.records

    def numbers(self, columns: list[int], clock: bool) -> Array:
        every, width, delimiter = columns == list(range(self.width)), self.width, self.delimiter
        missing = [math.nan] * len(columns)
        out = buffer("d")
        for line in self._lines():
            # where semicolons separate the cells a comma is a decimal point
            cells = _split(line.replace(",", ".") if delimiter == ";" else line, delimiter)
            if len(cells) != width:
                out.extend(missing)
                continue
            picked = cells if every else [cells[column] for column in columns]
            try:
                out.extend([_seconds(cell) for cell in picked] if clock else [float(cell) for cell in picked])
            except ValueError:
                out.extend([_number(cell) for cell in picked])
        return np.frombuffer(out, dtype=np.float64).reshape(self.records, len(columns))


class ParquetTable(Table):
    """Columns of numbers, or of lists of numbers of the lengths ``shapes``, by name of the column; by default the usual ones."""

    def __init__(self, path: Path, table: Any, arrow: Any, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
        self.path, self.table, self.arrow, self.records = path, table, arrow, table.num_rows
        if self.records == 0:
            raise FileError(f"{path} has no records")
        # the index of a pandas table is no column of the data
        self.names = tuple("" if re.fullmatch(r"__index_level_\d+__", name) else name for name in table.column_names)
        lists = [i for i in range(len(self.names)) if self._is_list(table.schema.field(i).type)]
        columns = {i: table.column(i).combine_chunks() for i in lists}
        self.shapes = {table.column_names[i]: self._shape(columns[i]) for i in lists} if shapes is None else shapes
        self.lists = {i: self._matrix(i, columns[i], self.shapes[table.column_names[i]]) for i in lists}
        self.widths = tuple(self.lists[i].shape[1] if i in self.lists else 1 for i in range(len(self.names)))

    def _is_list(self, kind: Any) -> bool:
        """Whether this is a type of lists, or of lists of lists, of numbers."""
        types = self.arrow.types
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            return self._is_number(kind.value_type) or self._is_list(kind.value_type)
        return False

    def _is_number(self, kind: Any) -> bool:
        types = self.arrow.types
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind))

    def _is_text(self, kind: Any) -> bool:
        types = self.arrow.types
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_time(kind))

    def _plain(self, column: int) -> Any:
        values = self.table.column(column)
        return values.cast(values.type.value_type) if self.arrow.types.is_dictionary(values.type) else values

    def holds_clock_times(self, column: int) -> bool:
        return column not in self.lists and self._is_text(self._plain(column).type)

    def numbers(self, columns: list[int], clock: bool) -> Array:
        parts = [self.lists[i] if i in self.lists else self._column(i, self._plain(i), clock) for i in columns]
        return np.concatenate([part.reshape(self.records, -1) for part in parts], axis=1)

    def _column(self, column: int, values: Any, clock: bool) -> Array:
        arrow, kind = self.arrow, values.type
        if clock and arrow.types.is_time(kind):
            micros = values.cast(arrow.time64("us"), safe=False).cast(arrow.int64()).cast(arrow.float64(), safe=False)
            return 1e-6 * np.asarray(micros.to_numpy(zero_copy_only=False), dtype=np.float64)
        if clock and self._is_text(kind):
            return np.array([_seconds(cell) for cell in values.to_pylist()])
        if not clock and self._is_number(kind):
            return np.asarray(values.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
        wanted = "clock times as text" if clock else "numbers"
        name = _listed([self.names[column]]) if self.names else str(column)
        raise FileError(f"the column {name} of {self.path} has the type {_short(kind)}, but this layout is read from {wanted}")

    def _shape(self, values: Any) -> tuple[int, ...]:
        """The most frequent length of the lists, and of the lists in them."""
        if not self._is_list(values.type):
            return ()
        lengths = self._lengths(values)
        usual = max(Counter(lengths[lengths > 0].tolist()).most_common(1), default=(0, 0))[0]
        return usual, *self._shape(values.flatten())

    def _lengths(self, values: Any) -> NDArray[np.int64]:
        counted = self.arrow.compute.list_value_length(values).fill_null(0)
        return np.asarray(counted.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _matrix(self, column: int, values: Any, shape: tuple[int, ...]) -> Array:
        """Lists of the lengths ``shape`` as rows; NaN for others."""
        if not shape:
            return self._column(column, values, False).reshape(len(values), 1)
        entries, lengths, width = self._matrix(column, values.flatten(), shape[1:]), self._lengths(values), shape[0]
        rows = np.full((len(lengths), width * entries.shape[1]), np.nan)
        usual = lengths == width
        starts = (np.cumsum(lengths) - lengths)[usual]
        rows[usual] = entries[starts[:, None] + np.arange(width)].reshape(len(starts), rows.shape[1])
        return rows


def _split(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return line.split()
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error:
        return []


def _float64(array: NDArray[Any]) -> Array:
    with np.errstate(all="ignore"):
        return array.astype(np.float64, copy=False)


def _short(kind: Any) -> str:
    text = str(kind)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _listed(names: Sequence[str]) -> str:
    short = [name if len(name) <= 30 else f"{name[:27]}..." for name in names[:12]]
    plain = [name if name.isprintable() else ascii(name) for name in short]
    return ", ".join(plain) + (", ..." if len(names) > 12 else "")


def _open_array(path: Path, wanted: frozenset[str]) -> Table:
    with path.open("rb") as file:
        names, array = load_array(path, file)
    if array is None:
        raise FileError(f"{path} holds {len(names)} arrays ({_listed(names)}): call the one with the records x or records")
    return ArrayTable(path, array)


def load_array(path: Path, file: BinaryIO) -> tuple[list[str], NDArray[Any] | None]:
    """The array in a NumPy file and its name, or all names if it is not clear which one is meant."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = np.load(file, allow_pickle=False) if _is_zip(file) else _map(path, file)
            if isinstance(loaded, np.ndarray):
                return [], loaded
            with loaded:
                names = list(loaded.files)
                likely = names if len(names) == 1 else [name for name in names if name.lower() in ("x", "records")]
                array = loaded[likely[0]] if len(likely) == 1 else None
                return names, array if isinstance(array, np.ndarray) else None
    # whatever a damaged file makes the loader say may quote it
    except Exception:
        hint = "write one with numpy.save from an array of numbers"
        raise FileError(f"{path} is not a NumPy file that can be read without unpickling objects: {hint}") from None


def _is_zip(file: BinaryIO) -> bool:
    start = file.read(2)
    file.seek(0)
    return start == b"PK"


def _map(path: Path, file: BinaryIO) -> Any:
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except ValueError:  # an empty array cannot be mapped
        return np.load(file, allow_pickle=False)


def _open_parquet(path: Path, wanted: frozenset[str]) -> Table:
    with parquet_file(path) as file:
        table = file.read()
    return ParquetTable(path, table, arrow_for(path))


def arrow_for(path: Path) -> Any:
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.compute")
        importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise FileError(f"reading {path} needs pyarrow: pip install 'geodp[parquet]'") from None
    return arrow


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """An open Parquet file; whatever pyarrow says about a damaged one may quote it and is not shown."""
    arrow = arrow_for(path)
    try:
        with arrow.parquet.ParquetFile(path) as file:
            yield file
    except FileError:
        raise
    except Exception:
        raise FileError(f"{path} is not a Parquet file that pyarrow can read") from None


_OPENERS: dict[str, Callable[[Path, frozenset[str]], Table]] = {
    ".npy": _open_array,
    ".npz": _open_array,
    ".csv": _CsvTable,
    ".parquet": _open_parquet,
}


def _open(path: Path, wanted: frozenset[str]) -> Table:
    opener = _OPENERS.get(path.suffix.lower())
    if opener is None:
        raise FileError(f"{path} must be a {', '.join(_OPENERS)} file, and its name must say so")
    if not path.is_file():
        raise FileError(f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}")
    if path.stat().st_size == 0:
        raise FileError(f"{path} is empty: it must hold one record a line or row")
    return opener(path, wanted)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None


# ---------------------------------------------------------------------- what a user calls


def read_records(
    path: str | os.PathLike[str],
    manifold: Manifold,
    *,
    columns: Sequence[str | int] | str | None = None,
    layout: str = "auto",
) -> Array:
    """The records in a file, as float64 of shape ``(n, *point_shape)``; see the table above for the layouts.

    ``columns`` picks columns by name, or by position from 0, as a list or a text such as ``"lat, lon"``. Records that are
    no points are kept: those that cannot be written down at all are full of NaN. A float64 ``.npy`` array that holds the
    points as they are stays on disk, mapped read-only. Every :class:`FileError` is about public things: names, shapes, types.

    >>> from geodp import Sphere
    >>> read_records("arrivals.csv", Sphere(1))
    Traceback (most recent call last):
        ...
    geodp.files.FileError: there is no file arrivals.csv
    """
    chosen = chosen_columns(columns)
    wanted = frozenset(name for name in chosen or () if isinstance(name, str) and not name.isdecimal())
    with _reading(Path(path)):
        return _records(_open(Path(path), wanted), manifold, chosen, layout)


def chosen_columns(columns: Sequence[str | int] | str | None) -> Sequence[str | int] | None:
    return [name.strip() for name in columns.split(",")] if isinstance(columns, str) else columns


def _records(table: Table, manifold: Manifold, columns: Sequence[str | int] | None, layout: str) -> Array:
    return read_points(table, manifold, *plan_reading(table, manifold, columns, layout))


def plan_reading(table: Table, manifold: Manifold, columns: Sequence[str | int] | None, layout: str) -> tuple[list[int], Layout]:
    """Positions of the columns to read, in the order of the layout that fits them, and this layout."""
    array = table.array if isinstance(table, ArrayTable) else None
    if array is not None and array.ndim > 2 and (array.shape[1:] != manifold.point_shape or columns is not None):
        shape = ", ".join(["n", *map(str, manifold.point_shape)])
        raise FileError(
            f"{table.path} holds an array of shape {array.shape}, but {manifold} is read from arrays of shape ({shape}) "
            "or from rows of which columns may be chosen"
        )
    picked = table.pick(columns)
    width = sum(table.widths[i] for i in picked)
    header = [table.names[i] for i in picked] if table.names and width == len(picked) else None

    def clock() -> bool:
        return len(picked) == 1 and table.holds_clock_times(picked[0])

    choice, order = _choose(str(table.path), manifold, layout, width, header, table.found(picked), clock)
    return ([picked[i] for i in order] if width == len(picked) else picked), choice


def read_points(table: Table, manifold: Manifold, columns: list[int], choice: Layout) -> Array:
    array = table.array if isinstance(table, ArrayTable) else None
    if array is not None and array.ndim > 2 and choice.convert is None and array.dtype.kind in "fiu":
        return _float64(array)
    return _to_points(manifold, choice, table.numbers(columns, choice.clock))


def parse_center(text: str | os.PathLike[str], manifold: Manifold, *, layout: str = "auto") -> Array:
    """The point that a text stands for: ``origin``, numbers, a clock time on the circle, or the name of a file.

    Numbers and files hold one point in any layout of :func:`read_records`, in the one called ``layout`` if their number
    fits it. In a file a matrix may also stand as it is printed, and a vector as a column.

    >>> from geodp import SPD, Sphere
    >>> parse_center("[2, 0, 1]", SPD(2))
    array([[2., 0.],
           [0., 1.]])
    >>> parse_center("06:00", Sphere(1)).round(12)
    array([1., 0.])
    """
    if not isinstance(text, str) or Path(text.strip()).suffix.lower() in _OPENERS:
        path = Path(text.strip() if isinstance(text, str) else text)
        point, source = _read_center(path, manifold, layout), f"the centre in {path}"
        # a file of records given by mistake must not be quoted: the condition is said without the number found
        wrong = (manifold.check_point(point) or "").partition(" but ")[0]
    else:
        point, source = _type_center(text.strip(), manifold, layout), f"the centre {_excerpt(text)}"
        wrong = manifold.check_point(point) or ""
    if wrong:
        raise ValueError(f"{source} is not a point of {manifold}: {wrong}")
    return point


def _type_center(text: str, manifold: Manifold, layout: str) -> Array:
    if text.lower() == "origin":
        return manifold.origin
    source = f"the centre {_excerpt(text)}"
    clock = [choice for choice in layouts(manifold) if choice.clock]
    if clock and _CLOCK.fullmatch(text):
        return _to_points(manifold, clock[0], np.array([[_seconds(text)]]))[0]
    try:
        numbers = np.array(_literal(_expression(text)), dtype=np.float64)
    except (ValueError, ArithmeticError):
        hint = f"write origin, numbers such as [0, 0, 1], or the name of a {', '.join(_OPENERS)} file"
        raise ValueError(f"{source} is neither origin nor numbers nor a file: {hint}") from None
    if numbers.ndim > 1 and numbers.shape != manifold.point_shape:
        raise ValueError(f"{source} has shape {numbers.shape}, but one point of {manifold} has shape {manifold.point_shape}")
    count = f"{numbers.size} {'number' if numbers.size == 1 else 'numbers'}"
    name = _center_layout(manifold, layout, numbers.size)
    choice, order = _choose(source, manifold, name, numbers.size, None, count, lambda: False)
    return _to_points(manifold, choice, numbers.reshape(1, -1)[:, order])[0]


def _read_center(path: Path, manifold: Manifold, layout: str) -> Array:
    with _reading(path):
        table = _open(path, frozenset())
        columns = table.pick(None)
        width = sum(table.widths[i] for i in columns)
        as_printed = (table.records, width) == manifold.point_shape
        in_a_column = width == 1 and table.records in {choice.columns for choice in layouts(manifold)}
        if table.records > 1 and (as_printed or in_a_column):
            table, width = ArrayTable(path, table.numbers(columns, False).reshape(1, -1)), table.records * width
        if table.records != 1:
            raise FileError(f"{path} holds {table.records} records, but the centre is one point of {manifold}")
        return np.array(_records(table, manifold, None, _center_layout(manifold, layout, width))[0])


def _center_layout(manifold: Manifold, layout: str, width: int) -> str:
    """The layout of the records, unless the centre is plainly written in another."""
    other = [choice for choice in layouts(manifold) if choice.name == layout and choice.columns != width]
    return "auto" if other else layout
