"""Private records of persons who may have several each.

The records of a person become one point or vector, by a function of these records alone. From then on each person counts as
one record of ``n``. The result is an array, or a stream if the records are one, with one record a person. A record without an id
is somebody's who is not known: it counts as a person of its own, whose only record is invalid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.records.chunks import Stream
from geodp.records.labels import Indices, by_appearance
from geodp.records.rows import Rows, at_places

#: A function of records, and of where each person's records start, that returns one row a person.
EachPerson = Callable[[Array, Indices], Array]

#: Bytes of records that are processed together.
_CHUNK_BYTES = 1 << 23


@final
@dataclass(frozen=True, eq=False, repr=False)
class Persons:
    """Records of ``count`` persons, in an array or a stream. Of a stream a few megabytes of persons are in memory at a time.

    ``order`` lists the places of the records person by person, -1 for an invalid record, and ``starts`` says where in ``order``
    each person starts, followed by the length of ``order``.
    """

    x: Any
    manifold: Manifold
    order: Indices
    starts: Indices

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    def each(self, row: EachPerson) -> Any:
        """A source of one row for each person. ``row`` must treat each person by itself, and must not raise for any value."""

        def read() -> Iterator[Array]:
            # persons are together who are so whatever the chunks are: a mean may depend, in its last bits, on the others
            portions = list(_portions(self.starts, self.manifold))
            places = (self.order[self.starts[first] : self.starts[last]] for first, last in portions)
            for (first, last), records in zip(portions, at_places(self.x, self.manifold, places), strict=True):
                yield row(records, self.starts[first:last] - self.starts[first])

        return np.concatenate(list(read())) if isinstance(self.x, np.ndarray) else Stream(read, self.count)

    def select(self, keep: Indices, padding: int = 0) -> Persons:
        """The persons ``keep``, in order, followed by ``padding`` persons whose only record is invalid."""
        rows, starts = chosen_rows(self.starts, keep, padding)
        return Persons(self.x, self.manifold, np.append(self.order[rows], np.full(padding, -1)), starts)


def persons_of(rows: Rows, members: Indices, manifold: Manifold) -> Persons:
    """The persons to whom records belong, from the number of each record's person (-1 for a record that is left out).

    So what the records of one person hold, and how many they are, changes only that person.
    """
    assert rows.persons is not None
    order = np.argsort(members, kind="stable").astype(np.int64)
    order = order[np.searchsorted(members[order], 0) :]
    starts = np.append(np.flatnonzero(np.diff(members[order], prepend=-1)), len(order)).astype(np.int64)
    return Persons(rows.x, manifold, np.where(rows.persons[order] < 0, -1, order), starts)


def numbered(persons: Indices) -> Indices:
    """The number of each record's person, where every record without an id has a number of its own."""
    missing = persons < 0
    if not missing.any():
        return persons
    return by_appearance(np.where(missing, persons.max(initial=-1) + np.cumsum(missing), persons))


def chosen_rows(starts: Indices, keep: Indices, padding: int) -> tuple[Indices, Indices]:
    """The rows of the persons ``keep``, and where each of them starts, with ``padding`` more persons of one record each.

    The records of all persons start at ``starts``.
    """
    sizes = np.diff(starts)[keep]
    ends = np.cumsum(sizes)
    rows = np.repeat(starts[keep] - (ends - sizes), sizes) + np.arange(sizes.sum())
    return rows, np.concatenate([[0], ends, len(rows) + 1 + np.arange(padding)]).astype(np.int64)


def _portions(starts: NDArray[np.int64], manifold: Manifold) -> Iterator[tuple[int, int]]:
    """Ranges of at least one person, with few enough records to be processed together."""
    most = max(1, _CHUNK_BYTES // (8 * math.prod(manifold.point_shape)))
    first = 0
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + most, side="right")) - 1)
        yield first, last
        first = last
