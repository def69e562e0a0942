"""The ways to write a point of a manifold as a row of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from geodp.inputs import Array
from geodp.manifolds.units import LengthUnit

#: For each naming convention and each number of a row, the names its column may have, the usual one first.
Names = tuple[tuple[tuple[str, ...], ...], ...]

#: Examples of cells of clock times.
CLOCK_TIMES = "13:45, 13:45:30, 1:45 PM or 2024-05-01T13:45"


@final
@dataclass(frozen=True)
class Layout:
    """One way to write a point as ``columns`` numbers; ``convert`` is ``None`` if they are the point's own entries.

    ``convert`` takes rows of finite numbers and returns NaN for a row that is not a point. Without ``automatic`` the layout
    must be named, or recognised by the ``names`` in a header or by its clock times. For tables, ``of`` says which manifolds
    have it (by default all of their class), ``size`` the number of columns in their parameters, and ``details`` what they hold.

    ``write`` goes back from points to rows of numbers. ``text`` writes a number in its usual form, such as a time of day.
    ``units`` are the units of geodesic lengths in this layout; None for those of the manifold.
    """

    name: str
    columns: int
    meaning: str
    convert: Callable[[Array], Array] | None = None
    automatic: bool = True
    names: Names = ()
    clock: bool = False
    of: str = ""
    size: str = ""
    details: str = ""
    write: Callable[[Array], Array] | None = None
    text: Callable[[float], str] | None = None
    units: tuple[LengthUnit, ...] | None = None

    def row(self, point: Array) -> Array:
        """The numbers of one point."""
        return (point if self.write is None else self.write(point[None])).reshape(self.columns)

    def __str__(self) -> str:
        return f"{self.columns} {'column' if self.columns == 1 else 'columns'} ({self.name}: {self.meaning})"


def symmetric_layout(layout: Layout, k: int, entries: Sequence[tuple[int, ...]]) -> Layout:
    """A layout of these entries of symmetric ``k x k`` matrices, in which all others are 1."""
    i, j = np.array(entries).T

    def convert(cells: Array) -> Array:
        matrix = np.ones((len(cells), k, k))
        matrix[:, i, j] = matrix[:, j, i] = cells
        return matrix

    return replace(layout, convert=convert, write=lambda matrices: matrices[:, i, j])


def entry_names(entries: Sequence[tuple[int, ...]], symmetric: bool = False) -> Names:
    """Names of matrix entries: xx, xy, ..., or 11, 12, ..., or 00, 01, ...; entries of a symmetric matrix have both names."""
    most = max((max(entry) for entry in entries), default=0)
    habits = []
    for digits in ("xyz", "123456789", "0123456789"):
        if 0 < most < len(digits):
            spelled = [(digits[i] + digits[j], digits[j] + digits[i]) for i, j in entries]
            habits.append(tuple(both if symmetric else both[:1] for both in spelled))
    return tuple(habits)
