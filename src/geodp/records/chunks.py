"""Reads records a chunk at a time: arrays, memory maps, lists of chunks and functions that return them."""

from __future__ import annotations

import math
import mmap
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from geodp.files import FileError
from geodp.inputs import Array, as_numpy, is_array_like, refuse_unreadable
from geodp.manifolds.manifold import Manifold

#: Bytes of records that each core reads at a time; less if there are too few records for all cores.
_CHUNK_BYTES, LEAST_BYTES = 1 << 22, 1 << 18
#: A core reads a multiple of this many records at a time, however large they are: compiled loops take as many at once.
_MULTIPLE = 32
#: Arrays up to this many bytes are copied and clipped once; larger ones are clipped in every pass. On disk the limit is lower.
_KEPT_IN_MEMORY, _KEPT_FROM_DISK = 1 << 30, 1 << 26

Room = Callable[[tuple[int, ...]], Array]
A = TypeVar("A")
B = TypeVar("B")


class RecordsError(ValueError):
    """Records could not be read or summed. The message gives only the kind of the error."""


def changed() -> RecordsError:
    """The error for records that are not the same in every pass. It has no numbers, because how many there are may be private."""
    return RecordsError("the records changed between two passes: give records that are the same every time they are read")


def failed(kind: str) -> RecordsError:
    """The error that reports a failure of this kind."""
    dead = kind == "KilledWorker"
    hint = (
        "the workers died, most often for lack of memory: use smaller blocks"
        if dead
        else "to see it, read them without a release, such as with numpy.asarray"
    )
    return RecordsError(f"reading the records failed with {kind}; its text is hidden because it may hold data: {hint}")


@contextmanager
def hiding_error_text() -> Iterator[None]:
    """Replaces exceptions of foreign code by errors that show only their kind, because their text may quote a record."""
    try:
        yield
    except (FileError, RecordsError):  # their texts are public
        raise
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # a panic in a Rust library is not an Exception
        raise failed(type(error).__name__) from None


def count_records(x: Any, manifold: Manifold) -> int:
    """The number of records in ``x``, without looking at their values."""
    if is_dask(x):
        from geodp.records.dask_arrays import count_rows

        return count_rows(x, manifold)
    if isinstance(x, np.ndarray):
        check_shape(x, manifold)
        return len(x)
    return sum(len(chunk) for chunk in source_of(x, manifold)[0]())


def chunks_of(x: Any, manifold: Manifold, room: Room = np.empty) -> Iterator[Array]:
    """Copies of the records, one chunk at a time, as float64 in arrays from ``room``. Not for Dask arrays."""
    _refuse(x)
    chunks = _chunks_of(x, manifold)
    return split([as_array(x)] if chunks is None else chunks(), manifold, room)


def with_errors_hidden(x: Any, manifold: Manifold) -> Any:
    """The same records. If foreign code reads them, such as the caller's function, its exceptions show only their kind."""
    if is_dask(x) or isinstance(x, np.memmap):
        return x
    if isinstance(x, Labelled):
        return Labelled(lambda: ((as_array(points, hiding_error_text), cells) for points, cells in each_guarded(x.read)))
    if isinstance(x, np.ndarray):
        return np.asarray(x)  # drops the methods of a subclass, which are foreign code
    with hiding_error_text():
        is_array_like(x)  # fails here, with its text hidden, if it fails at all
    _refuse(x)
    with hiding_error_text():
        chunks = _chunks_of(x, manifold)
    if chunks is None:
        return as_array(x, hiding_error_text)
    return lambda: (as_array(chunk, hiding_error_text) for chunk in each_guarded(chunks))


def each_guarded(chunks: Callable[[], Iterable[A]]) -> Iterator[A]:
    """What foreign code yields. Its exceptions show only their kind."""
    with hiding_error_text():
        source = iter(chunks())
    while True:
        with hiding_error_text():
            try:
                chunk = next(source)
            except StopIteration:
                return
        yield chunk


@final
@dataclass(frozen=True, eq=False, repr=False)
class Stream:
    """A known number of records in chunks, which can be read again."""

    read: Callable[[], Iterator[Array]]
    count: int

    def __call__(self) -> Iterator[Array]:
        return self.read()


@final
@dataclass(frozen=True, repr=False)
class Labelled:
    """Chunks of points, each read together with labels of the same records. Without the labels they are chunks like others."""

    read: Callable[[], Iterable[tuple[Any, list[NDArray[Any]]]]]

    def __call__(self) -> Iterator[Any]:
        return (points for points, _ in self.read())


@final
@dataclass(frozen=True)
class LabelOf:
    """The label at this place among those of :class:`Labelled` chunks."""

    place: int


def is_dask(x: Any) -> bool:
    """Whether ``x`` is a Dask array. Does not import Dask."""
    return "dask.array" in sys.modules and isinstance(x, sys.modules["dask.array"].Array)


class Memory:
    """Reuses the memory of chunks, because allocating it takes longer than computing with it."""

    def __init__(self) -> None:
        self._free: list[Array] = []

    def take(self, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        flat = self._free.pop() if self._free else np.empty(size)
        return (flat if flat.size >= size else np.empty(size))[:size].reshape(shape)

    def give(self, chunk: Array) -> None:
        assert isinstance(chunk.base, np.ndarray)
        self._free.append(chunk.base)


def source_of(x: Any, manifold: Manifold, room: Room = np.empty) -> tuple[Callable[[], Iterator[Array]], bool]:
    """A function that copies the chunks of ``x`` again, to ``room``, and whether clipped chunks may be kept in memory."""
    _refuse(x)
    chunks = _chunks_of(x, manifold)
    if chunks is not None:
        fits = isinstance(x, Stream) and 8 * x.count * math.prod(manifold.point_shape) <= _KEPT_IN_MEMORY
        return (lambda: split(chunks(), manifold, room)), fits
    array = as_array(x)
    keep = 8 * array.size <= (_KEPT_FROM_DISK if _on_disk(array) else _KEPT_IN_MEMORY)
    if not keep:
        return (lambda: split([array], manifold, room)), False

    def parts() -> Iterator[Array]:
        rest = np.empty(array.size)  # one large allocation is much faster than many small ones

        def next_part(shape: tuple[int, ...]) -> Array:
            nonlocal rest
            part, rest = rest[: math.prod(shape)].reshape(shape), rest[math.prod(shape) :]
            return part

        return split([array], manifold, next_part)

    return parts, True


def _on_disk(array: Any) -> bool:
    """Whether the array is a view of a file, perhaps through other views, such as ``numpy.asarray`` of a memory map."""
    # follow only bases made by NumPy and Python themselves: other objects may name themselves as their base
    while isinstance(array, np.ndarray | memoryview) and not isinstance(array, np.memmap):
        array = array.obj if isinstance(array, memoryview) else array.base
    return isinstance(array, np.memmap | mmap.mmap)


def _refuse(x: Any) -> None:
    """Raises for objects that cannot be records or cannot be read twice."""
    if is_array_like(x):
        return
    if isinstance(x, Mapping):
        raise TypeError("x is a mapping, but records are an array, a list of chunks or a function")
    if isinstance(x, Iterator):
        raise TypeError(
            "x is an iterator, which can be read only once, but the mean reads the data several times: "
            "give a list of chunks, or a function that returns a new iterator"
        )


def _chunks_of(x: Any, manifold: Manifold) -> Callable[[], Iterable[Any]] | None:
    """A function that reads the chunks of ``x`` again, or None if ``x`` is one array."""
    if is_array_like(x):
        return None
    if callable(x):
        return x
    axes = len(manifold.point_shape) + 1
    if axes_of_first(x) == axes or (isinstance(x, Iterable) and not isinstance(x, Sequence)):
        return lambda: x
    return None


def axes_of_first(x: Any) -> int:
    """How many axes the first of a list of arrays has, of any maker; 0 for anything else."""
    first: Any = x[0] if isinstance(x, Sequence) and len(x) > 0 else None
    return len(first.shape) if is_array_like(first) and hasattr(first, "shape") else 0


def split(chunks: Iterable[Any], manifold: Manifold, room: Room) -> Iterator[Array]:
    """Copies the chunks, as float64, cut into smaller ones."""
    record = 8 * math.prod(manifold.point_shape)
    for chunk in chunks:
        array = as_array(chunk)
        check_shape(array, manifold)
        size = len(array) * record
        # two chunks a core, so that none waits long for the other; of few records one, which costs less
        parts = cores() if size <= 4 * cores() * LEAST_BYTES else 2 * cores()
        share = min(max(size // parts + 1, LEAST_BYTES), _CHUNK_BYTES)
        yield from slices(array, -(-share // (record * _MULTIPLE)) * _MULTIPLE, room)


def as_array(x: Any, guard: Callable[[], AbstractContextManager[None]] = nullcontext) -> Any:
    """``x`` as an array, converted under ``guard``. Masked arrays are refused, also inside lists."""
    if type(x) is np.ndarray:
        return x
    nested = isinstance(x, list | tuple)
    with guard():
        parts = list(x) if nested else [x]
    for part in parts:
        refuse_unreadable(part, "x")
    with guard():
        array = as_numpy([as_numpy(part) if is_array_like(part) else part for part in parts] if nested else x)
    refuse_unreadable(array, "x")
    return array if isinstance(array, np.memmap) else np.asarray(array)


def slices(array: Array, rows: int, room: Room = np.empty) -> Iterator[Array]:
    """Copies of ``rows`` rows at a time, as float64. Copies, because others may write to the array at any time."""
    for start in range(0, len(array), rows):
        part = array[start : start + rows]
        records = room(part.shape)
        with np.errstate(all="ignore"):  # a warning about the conversion would reveal something about a value
            np.copyto(records, part, casting="unsafe")
        yield records


def check_shape(array: Any, manifold: Manifold) -> None:
    refuse_unreadable(array, "x")
    if array.ndim != len(manifold.point_shape) + 1 or tuple(array.shape[1:]) != manifold.point_shape:
        expected = ", ".join(["n", *map(str, manifold.point_shape)])
        rows = [choice.name for choice in manifold.layouts if array.ndim == 2 and choice.columns == array.shape[1]]
        hint = f": if its rows are records, say how with layout=, {' or '.join(rows)}" if rows else ""
        raise ValueError(f"x has shape {array.shape}, but records of {manifold} have shape ({expected}){hint}")
    manifold.read(np.empty((0, *manifold.point_shape), dtype=array.dtype), "x")


def one_blas_thread() -> Any:
    # the threads of the linear algebra library would compete with those that work on the chunks
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process. A forked child does not inherit them and starts its own."""
    return ThreadPoolExecutor(cores(), thread_name_prefix="geodp")


def cores() -> int:
    """The cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # some systems cannot say
        return os.cpu_count() or 1


def in_order(threads: ThreadPoolExecutor, work: Callable[[A], B], items: Iterator[A]) -> Iterator[B]:
    """``map(work, items)`` in threads, with at most two items a core in memory; a single item gets no thread."""
    first_two = list(islice(items, 2))
    if len(first_two) < 2:
        yield from map(work, first_two)
        return
    waiting = deque(threads.submit(work, item) for item in first_two)
    for item in items:
        if len(waiting) >= 2 * cores():
            yield waiting.popleft().result()
        waiting.append(threads.submit(work, item))
    while waiting:
        yield waiting.popleft().result()
