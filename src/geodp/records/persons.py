"""Private records of persons who may have several each.

The records of a person become one point or vector, by a function of these records alone. From then on each person counts as
one record of ``n``. The result is a source of records of the same kind as the input (an array, a function that returns chunks,
or a Dask array), with one record a person.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array, as_numpy, refuse_unreadable
from geodp.manifolds import Manifold
from geodp.records.chunks import changed, check_shape, chunks_of, count_records, hiding_error_text, is_dask

Indices = NDArray[np.int64]
#: A function of records, and of where each person's records start, that returns one row a person.
EachPerson = Callable[[Array, Indices], Array]

#: Whole numbers past what floats hold.
_LONG = 1 << 1024
#: Bytes of records that are processed together.
_CHUNK_BYTES = 1 << 23


class Persons(ABC):
    """Records of ``count`` persons.

    ``order`` lists the records person by person, and ``starts`` says where in ``order`` each person starts.
    """

    manifold: Manifold
    order: Indices
    starts: Indices
    #: The number of records in the source, which is private.
    records: int

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @abstractmethod
    def each(self, row: EachPerson) -> Any:
        """A source of one row for each person. ``row`` must treat each person by itself, and must not raise for any value."""

    @abstractmethod
    def select(self, keep: Indices, padding: int = 0) -> Persons:
        """The persons ``keep``, in order, followed by ``padding`` persons whose only record is invalid."""


def open_persons(x: Any, ids: Any, manifold: Manifold) -> Persons:
    """The persons that records belong to, by an id for each record: an array or, for records in chunks, a function too.

    The function returns the ids in chunks. Records without an id (``None``, NaN, an empty text) are left out. So what the
    records of one person hold, and how many they are, changes only that person.
    """
    if is_dask(x):
        from geodp.records.dask_persons import DaskPersons

        return DaskPersons.of(x, whole(ids, "unit"), manifold)
    if isinstance(x, np.ndarray):
        codes = coded(whole(ids, "unit"), "unit", count_records(x, manifold))
        order = np.argsort(codes, kind="stable").astype(np.int64)
        order = order[np.searchsorted(codes[order], 0) :]
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1)).astype(np.int64)
        return ArrayPersons(x, manifold, order, np.append(starts, len(order)), len(codes))
    if callable(ids):
        return StreamPersons.of(x, ids, manifold)
    array = whole(ids, "unit")
    return StreamPersons.of(x, lambda: [array], manifold)


def whole(labels: Any, name: str) -> NDArray[Any]:
    """Labels as one array in memory."""
    if is_dask(labels):
        with hiding_error_text():
            labels = labels.compute()
    refuse_unreadable(labels, name)
    with hiding_error_text():
        if isinstance(labels, list | tuple):
            # an array of objects: otherwise one text among numbers would turn them all into texts
            array = np.empty(len(labels), dtype=object)
            for i, label in enumerate(labels):
                array[i] = label
        else:
            array = np.asarray(as_numpy(labels))
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}, but one label for each record has shape (n,)")
    return array


def coded(labels: NDArray[Any], name: str, count: int) -> Indices:
    """A whole number for each label: equal for equal labels, -1 for a missing one."""
    check_length(labels, name, count)
    keys, which = distinct(labels)
    known: dict[str, int] = {}
    return np.array([known.setdefault(key, len(known)) if key else -1 for key in keys], dtype=np.int64)[which]


def distinct(labels: NDArray[Any]) -> tuple[dict[str, Any], Indices]:
    """The different labels by their keys, in any order, and for each label the number of its key."""
    if labels.dtype.kind in "iubfUS":
        found, which = np.unique(labels, return_inverse=True)
        values = found.tolist()
    else:
        values, which = labels.tolist(), np.arange(len(labels))
    named: dict[str, Any] = {}
    places = [named.setdefault(key_of(value), (len(named), value))[0] for value in values]
    return {key: value for key, (_, value) in named.items()}, np.array(places, dtype=np.int64)[which]


def check_length(labels: NDArray[Any], name: str, count: int) -> None:
    if len(labels) != count:
        raise ValueError(f"{name} must have one label for each record, but it has {'more' if len(labels) > count else 'fewer'}")


def key_of(label: Any) -> str:
    """A text by which to find labels like this one, whatever type it came in; empty if it is missing or no label at all.

    No label makes this fail: methods of a kind of label are not called, and Python writes no number of 4,300 digits as text.
    """
    try:
        return _key_of(label)
    except Exception:  # some kinds of labels can only be asked by calling their methods
        return ""


def _key_of(label: Any) -> str:
    if isinstance(label, str):
        return str.strip(label)
    if isinstance(label, bytes):
        return bytes.decode(label, "latin-1").strip()
    if isinstance(label, int):
        number = int.__pos__(label)
        return str(number) if abs(number) < _LONG else hex(number)
    if isinstance(label, np.integer | np.bool_) and not isinstance(label, np.timedelta64):
        return str(int(label))
    if type(label) is UUID:
        return str(label)
    if isinstance(label, float | np.floating):
        real = float.__pos__(label) if isinstance(label, float) else float(label)
        return str(int(real)) if real.is_integer() else "" if math.isnan(real) else repr(real)
    return ""


# ---------------------------------------------------------------------- arrays


@final
class ArrayPersons(Persons):
    """Records in an array. In ``order``, -1 stands for an invalid record."""

    def __init__(self, x: NDArray[Any], manifold: Manifold, order: Indices, starts: Indices, records: int) -> None:
        self.x, self.manifold, self.order, self.starts, self.records = x, manifold, order, starts, records

    def each(self, row: EachPerson) -> Array:
        return np.concatenate(list(self._rows(row)))

    def _rows(self, row: EachPerson) -> Iterator[Array]:
        for first, last in _portions(self.starts, self.manifold):
            begin, end = self.starts[first], self.starts[last]
            rows = self.order[begin:end]
            records = np.full((len(rows), *self.manifold.point_shape), np.nan)
            with np.errstate(all="ignore"):  # a warning about the conversion would reveal something about a value
                records[rows >= 0] = self.x[rows[rows >= 0]]
            yield row(records, self.starts[first:last] - begin)

    def select(self, keep: Indices, padding: int = 0) -> ArrayPersons:
        rows, starts = chosen_rows(self.starts, keep, padding)
        order = np.append(self.order[rows], np.full(padding, -1))
        return ArrayPersons(self.x, self.manifold, order, starts, self.records)


def chosen_rows(starts: Indices, keep: Indices, padding: int) -> tuple[Indices, Indices]:
    """The rows of the persons ``keep``, and where each of them starts, with ``padding`` more persons of one record each.

    The records of all persons start at ``starts``.
    """
    sizes = np.diff(starts)[keep]
    ends = np.cumsum(sizes)
    rows = np.repeat(starts[keep] - (ends - sizes), sizes) + np.arange(sizes.sum())
    return rows, np.concatenate([[0], ends, len(rows) + 1 + np.arange(padding)]).astype(np.int64)


def _portions(starts: Indices, manifold: Manifold) -> Iterator[tuple[int, int]]:
    """Ranges of at least one person, with few enough records to be processed together."""
    most = max(1, _CHUNK_BYTES // (8 * math.prod(manifold.point_shape)))
    first = 0
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + most, side="right")) - 1)
        yield first, last
        first = last


# ---------------------------------------------------------------------- streams


@final
class StreamPersons(Persons):
    """Records in chunks, sorted by person. Only one chunk and a few megabytes of whole persons are in memory at a time."""

    def __init__(self, x: Any, manifold: Manifold, runs: Indices, keep: Indices, padding: int = 0) -> None:
        self._x, self.manifold, self._runs, self._keep, self._padding = x, manifold, runs, keep, padding
        self.order, self.starts = chosen_rows(runs, keep, padding)
        self.records = int(runs[-1])

    @classmethod
    def of(cls, x: Any, ids: Callable[[], Iterable[Any]], manifold: Manifold) -> StreamPersons:
        runs, keep = runs_of(key_of(label) for chunk in _chunks(ids) for label in chunk.tolist())
        if count_records(x, manifold) != runs[-1]:
            raise ValueError("unit must have one label for each record, but their numbers differ")
        return cls(x, manifold, runs, keep)

    def each(self, row: EachPerson) -> Callable[[], Iterator[Array]]:
        def read() -> Iterator[Array]:
            for records, starts in self._portions():
                yield row(records, starts)

        return read

    def _portions(self) -> Iterator[tuple[Array, Indices]]:
        """Persons together who are so whatever the chunks are: a person's mean may depend, in its last bits, on the others."""
        source = (records for records, _ in self._whole_persons())
        held = np.empty((0, *self.manifold.point_shape))
        for first, last in _portions(self.starts, self.manifold):
            begin, end = self.starts[first], self.starts[last]
            waiting, count = [held], len(held)
            while count < end - begin:
                waiting.append(next(source))
                count += len(waiting[-1])
            held = np.concatenate(waiting)
            portion, held = held[: end - begin], held[end - begin :]
            yield portion, self.starts[first:last] - begin
        for _ in source:  # nothing is left, but whether the source has changed is known at its end
            pass

    def select(self, keep: Indices, padding: int = 0) -> StreamPersons:
        return StreamPersons(self._x, self.manifold, self._runs, self._keep[keep], self._padding + padding)

    def _whole_persons(self) -> Iterator[tuple[Array, Indices]]:
        wanted = np.zeros(len(self._runs) - 1, dtype=bool)
        wanted[self._keep] = True
        first = 0
        for records, starts in self._all_persons():
            take = wanted[first : first + len(starts)]
            first += len(starts)
            if take.all():
                yield records, starts
            elif take.any():
                sizes = np.diff(starts, append=len(records))
                yield records[np.repeat(take, sizes)], np.append(0, np.cumsum(sizes[take])[:-1])
        if self._padding:
            yield np.full((self._padding, *self.manifold.point_shape), np.nan), np.arange(self._padding)

    def _all_persons(self) -> Iterator[tuple[Array, Indices]]:
        """Chunks cut where persons end; the rest of a chunk is joined to the next."""
        waiting: list[Array] = []
        first = 0
        for chunk in chunks_of(self._x, self.manifold):
            inside = self._runs[np.searchsorted(self._runs, first) : np.searchsorted(self._runs, first + len(chunk))] - first
            first += len(chunk)
            if len(inside) == 0:
                waiting.append(chunk)
                continue
            head, held = np.concatenate([*waiting, chunk[: inside[-1]]]), sum(map(len, waiting))
            starts = np.append(0, held + inside[:-1]) if held else inside[:-1]
            waiting = [chunk[inside[-1] :]]
            if len(starts):
                yield head, starts
        if first != self._runs[-1]:
            raise changed()
        if waiting:
            yield np.concatenate(waiting), np.zeros(1, dtype=np.int64)


def runs_of(keys: Iterable[str]) -> tuple[Indices, Indices]:
    """Where runs of equal labels start, followed by the number of labels; and which runs belong to a person."""
    starts: list[int] = []
    persons: list[int] = []
    last, seen, count = None, set(), 0
    for key in keys:
        if key != last:
            if key:
                if key in seen:
                    raise ValueError("records in chunks must be sorted by person, so that the records of each come together")
                seen.add(key)
                persons.append(len(starts))
            starts.append(count)
            last = key
        count += 1
    return np.array([*starts, count], dtype=np.int64), np.array(persons, dtype=np.int64)


def _chunks(ids: Callable[[], Iterable[Any]]) -> Iterator[NDArray[Any]]:
    with hiding_error_text():
        source = iter(ids())
    end = object()
    while True:
        with hiding_error_text():
            chunk = next(source, end)
        if chunk is end:
            return
        yield whole(chunk, "unit")


# ---------------------------------------------------------------------- records without persons


def check_known(x: Any, manifold: Manifold) -> None:
    """Raises if the sizes of the blocks of a Dask array are unknown, since its parts cannot be selected then."""
    check_shape(x, manifold)
    if math.isnan(x.shape[0]):
        raise ValueError("the sizes of the blocks must be known here: call x.compute_chunk_sizes() first")


def select_records(x: Any, manifold: Manifold, count: int, keep: Indices, padding: int = 0) -> Any:
    """Of ``count`` records those at ``keep``, in order, followed by ``padding`` invalid ones: a source of the same kind."""
    pad = np.full((padding, *manifold.point_shape), np.nan)
    if is_dask(x):
        da = sys.modules["dask.array"]
        kept = x[keep]
        return da.concatenate([kept, da.from_array(pad)]) if padding else kept
    if isinstance(x, np.ndarray):
        kept = np.empty((len(keep) + padding, *manifold.point_shape))
        with np.errstate(all="ignore"):
            np.copyto(kept[: len(keep)], x[keep], casting="unsafe")
        kept[len(keep) :] = np.nan
        return kept
    wanted = np.zeros(int(keep.max(initial=-1)) + 1, dtype=bool)
    wanted[keep] = True

    def read() -> Iterator[Array]:
        first = 0
        for chunk in chunks_of(x, manifold):
            here = wanted[first : first + len(chunk)]
            first += len(chunk)
            yield chunk[: len(here)][here]
        if first != count:
            raise changed()
        if padding:
            yield pad.copy()

    return read
