"""Choosing the layout of the columns of a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from geodp.files.messages import FileError, excerpt, listed
from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.manifolds.layout import Layout
from geodp.manifolds.registry import form, smallest


def order(layout: Layout, header: Sequence[str]) -> list[int] | None:
    """The column of each number, if the header names them all, else None."""
    for match in _matches(layout, header):
        if all(len(places) == 1 for places in match.places):
            return [places[0] for places in match.places]
    return None


def _shortfall(layout: Layout, header: Sequence[str]) -> str:
    """The complaint about a header that names some of the numbers but not all, which is probably a mistake."""
    # a single name after a long prefix is a coincidence: pro-xy is not a matrix entry
    near = [match for match in _matches(layout, header) if match.found > 1 or (match.found == 1 and len(match.start) < 2)]
    if not near:
        return ""
    best = max(near, key=lambda match: (match.found, len(match.start)))
    if best.found == len(best.places):
        return ""
    named = [header[i] for i in sorted(places[0] for places in best.places if places)]
    missing = [
        _alike(named[0], best.start, names[0]) for names, places in zip(best.convention, best.places, strict=True) if not places
    ]
    return (
        f"names {listed(named)} but not {listed(missing)}: "
        f"name each of the {len(best.places)} numbers of the layout {layout.name} once, or none"
    )


def _matches(layout: Layout, header: Sequence[str]) -> list[_Match]:
    """The matching columns for each naming convention and each prefix that the names may share."""
    plain = [_plain(name) for name in header]
    matches = []
    for convention in () if _is_count(plain) else layout.names:
        which = {name: entry for entry, names in enumerate(convention) for name in names}
        lengths = {len(name) for name in which}
        found: dict[str, list[list[int]]] = {}
        for i, name in enumerate(plain):
            for length in lengths & set(range(len(name) + 1)):
                start, entry = name[:-length], which.get(name[-length:])
                # a single name shares no prefix with others
                if entry is not None and (start == "" or len(convention) > 1):
                    found.setdefault(start, [[] for _ in convention])[entry].append(i)
        matches += [_Match(start, convention, found[start]) for start in sorted(found)]
    return matches


@final
@dataclass(frozen=True)
class _Match:
    """For each number of a row, the columns called ``start`` followed by its name in the convention ``convention``."""

    start: str
    convention: tuple[tuple[str, ...], ...]
    places: list[list[int]]

    @property
    def found(self) -> int:
        return sum(map(bool, self.places))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is_count(names: list[str]) -> bool:
    """Whether the names just count the columns, as c0, c1, ..., c15 do, and so are not matrix entries."""
    numbered = [re.fullmatch(r"(.*?)([0-9]{1,9})", name) for name in names]
    counts = [(match[1], int(match[2]) - i) for i, match in enumerate(numbered) if match]
    return len(counts) == len(names) and len(set(counts)) == 1


def _alike(example: str, start: str, name: str) -> str:
    """The prefix and the name, in upper or lower case like the example: Dyz next to Dxx."""
    if _plain(example) != example.lower():
        return start + name
    rest = example[len(start) :]
    return example[: len(start)] + (name.upper() if rest.isupper() else name)


def layouts(manifold: Manifold) -> tuple[Layout, ...]:
    """The layouts of a manifold; the first has the shape of its points.

    >>> from geodp import Rotations
    >>> [layout.name for layout in layouts(Rotations(3))]
    ['matrix', 'quaternion', 'rotvec']
    """
    return manifold.layouts


def layout_table(kinds: Iterable[type[Manifold]]) -> str:
    """A table of what the columns of a file may hold for these manifolds, one line a layout."""
    rows = {}
    for kind in kinds:
        for manifold in smallest(kind):
            known: set[frozenset[str]] = set()
            for layout in manifold.layouts:
                names = {frozenset(entry) for convention in layout.names for entry in convention}
                found = layout.automatic or not names <= known  # by its number of columns, or by names that no other has
                known |= names
                of = layout.of or form(kind)
                rows[of, layout.name] = (
                    layout.name if found else f"{layout.name} *",
                    layout.size,
                    layout.details or layout.meaning,
                )
    lines = [("manifold", "layout", "columns", "what they hold"), *((of, *row) for (of, _), row in rows.items())]
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    rule = "  ".join("=" * width for width in widths)
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([rule, text[0], rule, *text[1:], rule])


#: How to select columns, in Python and on the command line.
PICK = "choose the columns of a record with columns= (or --columns)"


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
    """The layout for rows of ``width`` numbers, and the position in the row of each of its numbers."""
    choices = layouts(manifold)
    names = header or ()
    if name != "auto":
        named = [layout for layout in choices if layout.name == name]
        if not named:
            known = ", ".join(["auto", *(layout.name for layout in choices)])
            raise FileError(f"{manifold} has no layout {excerpt(name)}: name one of {known}")
        if named[0].columns != width:
            raise FileError(f"{source} has {found}, but the layout {name} of {manifold} is read from {named[0]}{hint}")
        return named[0], order(named[0], names) or _positions(source, named[0], names)
    orders = [(layout, order(layout, names)) for layout in choices]
    for layout, places in orders:
        if places is not None and layout.columns == width:
            return layout, places
    for layout, places in orders:
        if places is not None:
            chosen = listed([names[i] for i in places])
            raise FileError(
                f"{source} has {found}, among them those of the layout {layout.name}: "
                f"read these with columns='{chosen}' (or --columns)"
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
    """The numbers in the order of the file, for a header that names none of them."""
    if shortfall := _shortfall(layout, header):
        raise FileError(f"the header of {source} {shortfall}")
    return list(range(layout.columns))


def to_points(manifold: Manifold, layout: Layout, cells: Array) -> Array:
    if layout.convert is None:
        return cells.reshape(len(cells), *manifold.point_shape)
    finite = np.asarray(np.isfinite(cells).all(axis=-1))
    with np.errstate(all="ignore"):
        # convert all rows, also invalid ones: their number must not change how the others are rounded
        points = layout.convert(np.where(finite[:, None], cells, 0.0)).reshape(len(cells), *manifold.point_shape)
    bad = ~(finite & np.isfinite(points).all(axis=tuple(range(1, points.ndim))))
    points[bad] = np.nan
    return points
