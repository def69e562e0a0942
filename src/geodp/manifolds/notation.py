"""How points and lengths of a manifold are written for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from geodp.inputs import Array, describe, is_line
from geodp.manifolds.layout import Layout
from geodp.manifolds.manifold import Manifold
from geodp.manifolds.units import LengthUnit, short

#: How many cells of a row fit on one line of text.
_PER_LINE = 6


@final
@dataclass(frozen=True)
class Notation:
    """The layout of the records, and the names of its columns. All of this is public.

    Without a layout (for records given as arrays) points are written as arrays, and lengths in the units of the manifold, if any.

    >>> from geodp import Sphere
    >>> places = Notation.named(Sphere(2), "latlon")
    >>> places.point(Sphere(2).origin), places.length(0.00587)
    ('lat 90, lon 0', '0.00587 (0.336 degrees, 37.4 km)')
    """

    manifold: Manifold
    layout: Layout | None = None
    #: In the order of the layout; empty if they have no names.
    columns: tuple[str, ...] = ()

    @classmethod
    def named(cls, manifold: Manifold, layout: str, columns: Sequence[str] = ()) -> Notation:
        """The notation of a layout given by its name; raises if there is no such layout."""
        found = [choice for choice in manifold.layouts if choice.name == layout]
        if not found:
            known = ", ".join(choice.name for choice in manifold.layouts)
            raise ValueError(f"{manifold} has no layout {describe(layout)}: name one of {known}")
        if columns and len(columns) != found[0].columns:
            raise ValueError(f"the layout {layout} has {found[0].columns} columns, but {len(columns)} names were given")
        return cls(manifold, found[0], tuple(columns))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns: those of the file, or the usual ones of the layout."""
        if self.columns or self.layout is None or not self.layout.names:
            return self.columns
        return tuple(names[0] for names in self.layout.names[0])

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        """The units of lengths: those of the layout, or else of the manifold."""
        own = None if self.layout is None else self.layout.units
        return self.manifold.units if own is None else own

    @property
    def proportional(self) -> LengthUnit | None:
        """The last unit that is proportional to lengths, for axes of pictures: kilometres rather than degrees."""
        found = (unit for unit in reversed(self.units) if math.isclose(unit.convert(1.0), 1e3 * unit.convert(1e-3), rel_tol=1e-9))
        return next(found, None)

    @property
    def writes(self) -> bool:
        """Whether points are written differently from the manifold's own arrays."""
        return self.layout is not None and (self.layout.write is not None or bool(self.columns))

    def cells(self, point: Array) -> list[float | str]:
        """A point as a row of the file: numbers, or texts such as clock times."""
        assert self.layout is not None
        row = self.layout.row(point)
        return row.tolist() if self.layout.text is None else [self.layout.text(number) for number in row.tolist()]

    def point(self, point: Array) -> str:
        """A point in words, in lines of six columns; empty if it is written as an array."""
        if not self.writes:
            return ""
        texts = [cell if isinstance(cell, str) else f"{cell:.6g}" for cell in self.cells(point)]
        names = self.names or ("",) * len(texts)
        named = [f"{name} {text}".strip() for name, text in zip(names, texts, strict=True)]
        return ",\n".join(", ".join(named[i : i + _PER_LINE]) for i in range(0, len(named), _PER_LINE))

    def length(self, length: float, digits: int = 3) -> str:
        """A length in words, with all its units; ``digits`` are those of the length itself.

        >>> from geodp import SPD, Euclidean
        >>> Notation(SPD(3)).length(0.0702), Notation(Euclidean(2)).length(0.0702)
        ('0.0702 (3.57% in standard deviations)', '0.0702')
        """
        said = [unit.say(length) for unit in self.units if math.isfinite(unit.convert(length))]
        number = short(length) if digits == 3 else f"{length:.{digits}g}"
        return f"{number} ({', '.join(said)})" if said else number

    def lengths(self, length: float) -> dict[str, float]:
        """A length by the names of its units, for JSON."""
        found = {unit.name: unit.convert(length) for unit in self.units}
        return {name: value for name, value in found.items() if math.isfinite(value)}

    def to_dict(self) -> dict[str, Any] | None:
        """The layout and the columns, for JSON; None if there is no layout."""
        return None if self.layout is None else {"name": self.layout.name, "columns": list(self.columns)}

    @classmethod
    def from_dict(cls, manifold: Manifold, stored: Any) -> Notation:
        """The notation that :meth:`to_dict` stored; raises a ``ValueError`` for anything else."""
        if stored is None:
            return cls(manifold)
        columns = stored["columns"]
        if not isinstance(columns, list) or not all(map(is_line, columns)):
            raise ValueError("the columns of a layout must be lines of text")
        return cls.named(manifold, stored["name"], columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Notation):
            return NotImplemented
        return (self.manifold, self.to_dict()) == (other.manifold, other.to_dict())

    def __hash__(self) -> int:
        return hash((self.manifold, self.columns))


def in_layout(notation: Notation, points: dict[str, Array], lengths: dict[str, float]) -> dict[str, Any]:
    """Points in the layout of the records, and lengths in units, for JSON. Left out if there is no layout or no unit."""
    about: dict[str, Any] = {}
    if notation.layout is not None:
        cells = {name: notation.cells(point) for name, point in points.items()}
        about["layout"] = {**(notation.to_dict() or {}), **cells}
    if notation.units:
        about["in_units"] = {name: notation.lengths(length) for name, length in lengths.items()}
    return about
