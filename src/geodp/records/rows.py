"""Records with the person and the group of each, from one read that counts the records and codes the labels.

Nothing is joined by position afterwards: a source is read again only if it is too large to be kept, and then a hash tells
whether it has given the same records in the same order as in the read that had the labels.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.records.chunks import (
    Labelled,
    LabelOf,
    Stream,
    changed,
    check_shape,
    chunks_of,
    count_records,
    is_dask,
    split,
)
from geodp.records.labels import Indices, by_appearance, check_length, coded, joined, key_of, read_labels

#: Labelled records up to this many bytes are kept from the read that has their labels.
_KEPT_BYTES = 1 << 29
#: Bytes of records that are processed together.
_CHUNK_BYTES = 1 << 23


@final
@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Records and, for each, the number of its person and of the label of its group (-1 if it has none)."""

    x: Any
    count: int
    persons: Indices | None
    groups: Indices | None
    #: The label of each number of a group.
    labels: list[Any]


def read_rows(x: Any, unit: Any, by: Any, manifold: Manifold) -> Rows:
    """The records ``x`` with their persons and groups, of which at least one is given."""
    in_chunks, labels = not isinstance(x, np.ndarray), [unit, by]
    if is_dask(x):
        from geodp.records.dask_arrays import with_labels

        check_shape(x, manifold)
        x, places = with_labels(x, [label for label in labels if is_dask(label)]), iter((0, 1))
        labels = [LabelOf(next(places)) if is_dask(label) else label for label in labels]
    if in_chunks:
        x, count, labels = _read_stream(x, labels, manifold)
    else:
        count = count_records(x, manifold)
    persons, _ = _coded(labels[0], "unit", count)
    groups, found = _coded(labels[1], "by", count)
    if persons is not None and in_chunks:
        _check_together(persons)
        persons = by_appearance(persons)
    return Rows(x, count, persons, groups, found)


def _coded(labels: Any, name: str, count: int) -> tuple[Indices | None, list[Any]]:
    if labels is None:
        return None, []
    cells = read_labels(labels, name)
    check_length(cells, name, count)
    codes, found = coded(cells)
    if callable(labels):
        again, same = coded(read_labels(labels, name))
        if not np.array_equal(codes, again) or list(map(key_of, found)) != list(map(key_of, same)):
            raise changed()
    return codes, found


def _check_together(persons: Indices) -> None:
    """Raises unless the records of each person come together."""
    known = persons[persons >= 0]
    if np.count_nonzero(np.diff(known, prepend=-1)) != known.max(initial=-1) + 1:
        raise ValueError("records in chunks must be sorted by person, so that the records of each come together")


def _read_stream(x: Any, labels: list[Any], manifold: Manifold) -> tuple[Any, int, list[Any]]:
    """The records of a stream, or the stream if there are too many to keep; their number; and the labels that come with them."""
    seen, kept, count, size = blake2b(), list[Array](), 0, math.prod(manifold.point_shape) * 8
    found: list[list[NDArray[Any]]] = [[], []]
    source: Iterable[tuple[Any, list[NDArray[Any]]]]
    source = x.read() if isinstance(x, Labelled) else ((chunk, []) for chunk in chunks_of(x, manifold))
    for points, cells in source:
        for label, parts in zip(labels, found, strict=True):
            if isinstance(label, LabelOf):
                parts.append(cells[label.place])
        for chunk in split([points], manifold, np.empty):
            seen.update(chunk.tobytes())
            count += len(chunk)
            kept = [*kept, chunk] if count * size <= _KEPT_BYTES else []
    both = [joined(parts) if isinstance(label, LabelOf) else label for label, parts in zip(labels, found, strict=True)]
    if any(callable(label) for label in labels):
        # two readers belong together only if each gives the same, in the same order, whenever it is called
        for _ in _read_again(x, manifold, seen.digest()):
            pass
    if count * size <= _KEPT_BYTES:
        return np.concatenate([np.empty((0, *manifold.point_shape)), *kept]), count, both
    return Stream(lambda: _read_again(x, manifold, seen.digest()), count), count, both


def _read_again(x: Any, manifold: Manifold, expected: bytes) -> Iterator[Array]:
    seen = blake2b()
    for chunk in chunks_of(x, manifold):
        seen.update(chunk.tobytes())
        yield chunk
    if seen.digest() != expected:
        raise changed()


def at_places(x: Any, manifold: Manifold, wanted: Iterable[Indices]) -> Iterator[Array]:
    """For each list of places the records there, with an invalid record for a place of -1. Not for Dask arrays.

    In a stream each list must be beyond those before it; only the records between its ends are in memory.
    """
    source = None if isinstance(x, np.ndarray) else chunks_of(x, manifold)
    held, first = x, 0
    waiting: list[Array] = []
    for places in wanted:
        real = places >= 0
        if source is not None:
            low, high = (places[real].min(), places[real].max() + 1) if real.any() else (first, first)
            end = first + sum(map(len, waiting))
            while end < high:
                chunk = next(source, None)
                if chunk is None:
                    raise changed()
                waiting, first = (waiting, first) if end > low else ([], end)
                waiting.append(chunk)
                end += len(chunk)
            held = np.concatenate([np.empty((0, *manifold.point_shape)), *waiting])
            held, first = held[max(0, low - first) :], max(first, int(low))
            waiting = [held]
        records = np.full((len(places), *manifold.point_shape), np.nan)
        with np.errstate(all="ignore"):  # a warning about the conversion would reveal something about a value
            records[real] = held[places[real] - first]
        yield records
    for _ in source or ():  # whether the source has changed is known at its end
        pass


def select_records(x: Any, manifold: Manifold, count: int, keep: Indices, padding: int = 0) -> Any:
    """Of ``count`` records those at ``keep``, in order, followed by ``padding`` invalid ones: a source of the same kind."""
    if is_dask(x):
        da = sys.modules["dask.array"]
        return da.concatenate([x[keep], da.from_array(np.full((padding, *manifold.point_shape), np.nan))])
    places = np.append(keep, np.full(padding, -1))
    if isinstance(x, np.ndarray):
        return next(at_places(x, manifold, [places]))
    rows = max(1, _CHUNK_BYTES // (8 * math.prod(manifold.point_shape)))
    wanted = [places[start : start + rows] for start in range(0, len(places), rows)]
    counted = _counted(x, manifold, count)
    return Stream(lambda: at_places(counted, manifold, wanted), len(places))


def _counted(x: Any, manifold: Manifold, count: int) -> Callable[[], Iterator[Array]]:
    """The chunks of a source, of which every read must have ``count`` records."""

    def read() -> Iterator[Array]:
        done = 0
        for chunk in chunks_of(x, manifold):
            done += len(chunk)
            yield chunk
        if done != count:
            raise changed()

    return read


def check_known(x: Any, manifold: Manifold) -> None:
    """Raises if the sizes of the blocks of a Dask array are unknown, since its parts cannot be selected then."""
    check_shape(x, manifold)
    if math.isnan(x.shape[0]):
        raise ValueError("the sizes of the blocks must be known here: call x.compute_chunk_sizes() first")
