"""Cubes of many sizes, and how many vectors are in each: where records are, if next to nothing is known about it.

A cube of side ``2 R/2^l`` is cut from ``[-R, R]^d`` by each of several grids, shifted against each other, for every level ``l``
up to a last one. Each vector is looked at by itself, in floats: replacing one changes the number in each cube by at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array

#: Grids of one size are shifted against each other by a part of a cube; so many are enough for most records to be in one cube.
MOST_GRIDS = 7

Whole = NDArray[np.int64]


class Cube(NamedTuple):
    """One cube: its level, its grid and its place in it."""

    level: int
    grid: int
    place: tuple[int, ...]


@final
@dataclass(frozen=True)
class Cubes:
    """All cubes of ``levels + 1`` sizes in ``[-radius, radius]^dim``. A cube of level ``l`` counts ``4^l`` times.

    >>> cubes = Cubes(dim=2, radius=1.0, levels=3)
    >>> cubes.total == sum(4**level * 3 * (2**level + 1) ** 2 for level in range(4))
    True
    >>> cubes.at(cubes.total - 1)
    Cube(level=3, grid=2, place=(8, 8))
    >>> cubes.middle(Cube(0, 0, (0, 0)))
    array([0., 0.])
    """

    dim: int
    radius: float
    levels: int

    @property
    def grids(self) -> int:
        return min(self.dim + 1, MOST_GRIDS)

    @property
    def total(self) -> int:
        """How many cubes there are, each as often as it counts."""
        return sum(self._counted())

    def at(self, position: int) -> Cube:
        """The cube at a position among all."""
        level, counted = 0, self._counted()
        while position >= counted[level]:
            position -= counted[level]
            level += 1
        rest, place = position // weight(level), []
        for _ in range(self.dim):
            rest, last = divmod(rest, 2**level + 1)
            place.append(last)
        return Cube(level, rest, tuple(reversed(place)))

    def middle(self, cube: Cube) -> Array:
        return (np.array(cube.place) + 0.5 - cube.grid / self.grids) * self.side(cube.level) - self.radius

    def side(self, level: int) -> float:
        return 2.0 * self.radius / 2**level

    def occupied(self, vectors: Array, level: int, grid: int) -> tuple[Whole, Whole]:
        """The places in one grid that hold vectors, a row each, and how many."""
        places = np.floor((vectors + self.radius) / self.side(level) + grid / self.grids).astype(np.int64)
        np.clip(places, 0, 2**level, out=places)
        # one coordinate after the other, so that numbers of cubes stay small and are never confused
        found = np.zeros(len(places), dtype=np.int64)
        for column in places.T:
            found = np.unique(found * (2**level + 1) + column, return_inverse=True)[1]
        _, first, counts = np.unique(found, return_index=True, return_counts=True)
        return places[first], counts

    def _counted(self) -> list[int]:
        return [weight(level) * self.grids * (2**level + 1) ** self.dim for level in range(self.levels + 1)]


def weight(level: int) -> int:
    """How often a cube counts: of two that hold the records, the smaller one is to be preferred."""
    return int(4**level)


@final
class Scored:
    """The cubes that hold vectors, by their score: the number of vectors, but at most ``most``.

    Only how many cubes of each level have each score is kept, so that time and memory hardly depend on the vectors.
    """

    def __init__(self, cubes: Cubes, vectors: Array, most: int) -> None:
        self._cubes, self._vectors, self._most = cubes, vectors, most
        self._table = np.zeros((cubes.levels + 1, most), dtype=np.int64)
        for level, row in enumerate(self._table):
            for grid in range(cubes.grids):
                row += np.bincount(self._scores(level, grid)[1] - 1, minlength=most)

    @property
    def counts(self) -> list[int]:
        """For each score from 1 on, how many cubes have it, each as often as it counts."""
        weights = [weight(level) for level in range(len(self._table))]
        return [sum(w * count for w, count in zip(weights, column, strict=True)) for column in self._table.T.tolist()]

    def at(self, score: int, position: int) -> Cube:
        """The cube at a position among those with a score."""
        level, counted = 0, [weight(i) * count for i, count in enumerate(self._table[:, score - 1].tolist())]
        while position >= counted[level]:
            position -= counted[level]
            level += 1
        position //= weight(level)
        grid = 0
        while True:
            places, scores = self._scores(level, grid)
            those = places[scores == score]
            if position < len(those):
                return Cube(level, grid, tuple(those[position].tolist()))
            position -= len(those)
            grid += 1

    def pass_by(self, cube: Cube) -> None:
        """Takes the same steps as :meth:`at` does to find this cube: the time must not tell whether it holds vectors."""
        for grid in range(cube.grid + 1):
            self._scores(cube.level, grid)

    def _scores(self, level: int, grid: int) -> tuple[Whole, Whole]:
        places, counts = self._cubes.occupied(self._vectors, level, grid)
        return places, np.minimum(counts, self._most)
