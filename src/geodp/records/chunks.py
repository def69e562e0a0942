"""Records that can be read several times: arrays, memory maps, chunks and Dask arrays behind one contract."""

from __future__ import annotations

import math
import mmap
import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import ThreadpoolController

from geodp.files import FileError
from geodp.inputs import Array, as_numpy, is_array_like, refuse_unreadable
from geodp.manifolds.ball import Ball, checked_ball
from geodp.manifolds.manifold import Manifold
from geodp.solver.passes import Evaluator, Pass, Roundings, best_evaluator

#: Bytes of records that each core reads at a time; less if there are too few records for all cores.
_CHUNK_BYTES, _LEAST_BYTES = 1 << 22, 1 << 18
#: A core reads a multiple of this many records at a time, however large they are: compiled loops take as many at once.
_MULTIPLE = 32
#: Arrays up to this many bytes are copied and clipped once; larger ones are clipped in every pass. On disk the limit is lower.
_KEPT_IN_MEMORY, _KEPT_FROM_DISK = 1 << 30, 1 << 26

#: Constants of fingerprints. The factors are odd, so that nothing is lost.
_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)
_MIXING = (np.uint64(0xD6E8FEB86659FD93), np.uint64(0xBF58476D1CE4E5B9))
_NONE = np.empty(0, dtype=np.uint64)

Words = NDArray[np.uint64]
Report = Callable[[int], None]
Room = Callable[[tuple[int, ...]], Array]
A = TypeVar("A")
B = TypeVar("B")


class RecordsError(ValueError):
    """Records could not be read or summed. The message gives only the kind of the error."""


@dataclass(frozen=True, repr=False)
class Reading:
    """The result of reading records once: the pass over them, and their fingerprint (:func:`fingerprint`)."""

    asked: Pass
    mark: int

    def __add__(self, other: Reading) -> Reading:
        return Reading(self.asked + other.asked, self.mark + other.mark)


class Records(ABC):
    """Private records and their weights (equal if ``None``). A solver sees only one :class:`Pass` at a time."""

    def __init__(self, ball: Ball, weights: Array | None, count: int | None) -> None:
        self.ball, self.weights, self.count = ball, weights, count
        self.evaluator = best_evaluator(ball.manifold, count)
        self._mark: int | None = None

    @abstractmethod
    def evaluate(self, p: Array, report: Report) -> Pass:
        """One pass over the clipped records at ``p``; calls ``report`` with the number of records done."""

    def rounding(self, p: Array) -> float:
        """The mean over the records of what rounding may put between their logarithms at ``p`` and the exact ones: a pass."""
        usual, self.evaluator = self.evaluator, Roundings(self.ball.manifold)
        try:
            with np.errstate(all="ignore"):
                total = self.evaluate(p, lambda done: None)
        finally:
            self.evaluator = usual
        return total.rounding / (total.count if self.weights is None else 1.0)

    def check_count(self, done: int) -> None:
        """Checks that every pass sees the same number of records, at least one."""
        if self.count is not None and done != self.count:
            raise changed()
        if done == 0:
            raise ValueError("the mean needs at least one record but there are 0")
        if self.weights is not None and done != len(self.weights):
            raise ValueError(f"there are {len(self.weights)} weights but {done} records")
        self.count = done

    def check_same(self, mark: int) -> None:
        """Checks that every pass sees the same records, to the last bit: the mean is then that of one data set.

        To compare sums of the records would not do: other records may have the same sums and another mean.
        """
        mark %= 1 << 64
        if self._mark is None:
            self._mark = mark
        if mark != self._mark:
            raise changed()

    @cached_property
    def keys(self) -> Words:
        """The key of the fingerprints of these records, which nobody can know before they are read."""
        count = 4 + 2 * math.prod(self.ball.manifold.point_shape)
        return np.random.default_rng().integers(1 << 64, size=count, dtype=np.uint64)


def fingerprint(records: Array, weights: Array | None, keys: Words) -> int:
    """A sum over the records, modulo ``2^64``, of a keyed hash of each, and of its weight. Any order of records has the same.

    The upper half of a sum of whole numbers below ``2^32`` times keys below ``2^64`` is the same for two given records with
    probability ``2^-32`` (multilinear hashing). So floats are cut in halves: of a whole one times a key, modulo ``2^64``, the
    sign would be left and hardly any of the key. The sums are mixed then, because entries could change places between records.
    """
    words = records.reshape(len(records), math.prod(records.shape[1:])).view(np.uint64)
    # the same number in a quarter of the time, if another thread is not just loading it
    compiled = getattr(sys.modules.get("geodp.solver.kernels"), "fingerprint", None)
    if compiled is not None:
        return int(compiled(words, _NONE if weights is None else weights.view(np.uint64), keys))
    hashes = np.einsum("ij,j->i", words >> _HALF, keys[4::2]) + np.einsum("ij,j->i", words & _LOWER, keys[5::2]) + keys[0]
    if weights is not None:
        own = weights.view(np.uint64)
        hashes += (own >> _HALF) * keys[2] + (own & _LOWER) * keys[3]
    for factor in _MIXING:
        hashes ^= hashes >> _HALF
        hashes *= factor
    return int((hashes ^ (hashes >> _HALF)).sum())


def read_once(evaluator: Evaluator, ball: Ball, p: Array, records: Array, weights: Array | None, keys: Words | None) -> Reading:
    """Clips the records in place and computes their pass at ``p``; with keys also the fingerprint of the records as they were."""
    mark = 0 if keys is None else fingerprint(records, weights, keys)
    center = evaluator.clip(ball, records, weights)
    return Reading(center if p is ball.center else evaluator.evaluate(p, records, weights), mark)


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
    except FileError:  # its text is public
        raise
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # a panic in a Rust library is not an Exception
        raise failed(type(error).__name__) from None


def open_records(x: Any, ball: Ball, weights: ArrayLike | None) -> Records:
    """The records of anything that :func:`geodp.frechet_mean` takes."""
    checked_ball(ball)
    checked = None if weights is None else _checked_weights(weights)
    if is_dask(x):
        from geodp.records.dask_arrays import DaskRecords

        return DaskRecords(x, ball, checked)
    return ChunkedRecords(x, ball, checked)


def count_records(x: Any, manifold: Manifold) -> int:
    """The number of records in ``x``, without looking at their values."""
    if is_dask(x):
        from geodp.records.dask_arrays import count_rows

        return count_rows(x, manifold)
    if isinstance(x, np.ndarray):
        check_shape(x, manifold)
        return len(x)
    return sum(len(chunk) for chunk in _source(x, manifold)[0]())


def chunks_of(x: Any, manifold: Manifold, room: Room = np.empty) -> Iterator[Array]:
    """Copies of the records, one chunk at a time, as float64 in arrays from ``room``. Not for Dask arrays."""
    _refuse(x)
    chunks = _chunks_of(x, manifold)
    return _split([as_array(x)] if chunks is None else chunks(), manifold, room)


def with_errors_hidden(x: Any, manifold: Manifold) -> Any:
    """The same records. If foreign code reads them, such as the caller's function, its exceptions show only their kind."""
    if is_dask(x) or isinstance(x, np.memmap):
        return x
    if isinstance(x, np.ndarray):
        return np.asarray(x)  # drops the methods of a subclass, which are foreign code
    with hiding_error_text():
        is_array_like(x)  # fails here, with its text hidden, if it fails at all
    _refuse(x)
    with hiding_error_text():
        chunks = _chunks_of(x, manifold)
    if chunks is None:
        return as_array(x, hiding_error_text)

    def read() -> Iterator[Any]:
        end = object()
        with hiding_error_text():
            source = iter(chunks())
        while True:
            with hiding_error_text():
                chunk = next(source, end)
            if chunk is end:
                return
            yield as_array(chunk, hiding_error_text)

    return read


def is_dask(x: Any) -> bool:
    """Whether ``x`` is a Dask array. Does not import Dask."""
    return "dask.array" in sys.modules and isinstance(x, sys.modules["dask.array"].Array)


class ChunkedRecords(Records):
    """Records on this machine, a few chunks in memory at a time, on all cores.

    An array that fits is copied, and clipped, in the first pass. Everything else is clipped in every pass.
    """

    def __init__(self, x: Any, ball: Ball, weights: Array | None) -> None:
        super().__init__(ball, weights, len(x) if isinstance(x, np.ndarray) else None)
        self._memory = Memory()
        self._open, self._may_keep = _source(x, ball.manifold, self._memory.take)
        self._kept: list[Array] | None = None

    def evaluate(self, p: Array, report: Report) -> Pass:
        return self._evaluate_again(p, report) if self._kept is None else self._evaluate_kept(p, self._kept, report)

    def _evaluate_again(self, p: Array, report: Report) -> Pass:
        """Reads and clips every record. So the pass never sees a record outside the ball, even if someone changes the data."""
        if self._is_small and self._may_keep:
            for weights, chunk in self._chunks(self._open()):
                self._kept = [chunk]
                alone = read_once(self.evaluator, self.ball, p, chunk, weights, None).asked
            report(alone.count)
            return alone
        total: Reading | None = None
        clipped = []
        keys = None if self._may_keep else self.keys  # what is kept is not read again

        def work(item: tuple[Array | None, Array]) -> tuple[Reading, Array]:
            weights, chunk = item
            return read_once(self.evaluator, self.ball, p, chunk, weights, keys), chunk

        with one_blas_thread():
            for part, chunk in in_order(pool(os.getpid()), work, self._chunks(self._open())):
                total = part if total is None else total + part
                if self._may_keep:
                    clipped.append(chunk)
                else:
                    self._memory.give(chunk)
                report(total.asked.count)
        assert total is not None  # empty data are refused earlier
        if self._may_keep:
            self._kept = clipped
        else:
            self.check_same(total.mark)
        return total.asked

    def _evaluate_kept(self, p: Array, kept: list[Array], report: Report) -> Pass:
        if len(kept) == 1:
            alone = self.evaluator.evaluate(p, kept[0], self.weights)
            report(alone.count)
            return alone
        total = Pass.zero(self.ball.manifold)

        def work(item: tuple[Array | None, Array]) -> Pass:
            return self.evaluator.evaluate(p, item[1], item[0])

        with one_blas_thread():
            for part in in_order(pool(os.getpid()), work, self._chunks(iter(kept))):
                total = total + part
                report(total.count)
        return total

    @property
    def _is_small(self) -> bool:
        """Whether there is only one chunk, which needs no threads."""
        return self.count is not None and 8 * self.count * math.prod(self.ball.manifold.point_shape) <= _LEAST_BYTES

    def _chunks(self, chunks: Iterator[Array]) -> Iterator[tuple[Array | None, Array]]:
        """Weights and records, a chunk at a time."""
        done = 0
        for chunk in chunks:
            end = done + len(chunk)
            if self.count is not None and end > self.count:
                raise changed()
            if self.weights is not None and end > len(self.weights):
                raise ValueError(f"there are {len(self.weights)} weights but at least {end} records")
            yield (None if self.weights is None else self.weights[done:end]), chunk
            done = end
        self.check_count(done)


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


def _source(x: Any, manifold: Manifold, room: Room = np.empty) -> tuple[Callable[[], Iterator[Array]], bool]:
    """A function that copies the chunks of ``x`` again, to ``room``, and whether clipped chunks may be kept in memory."""
    _refuse(x)
    chunks = _chunks_of(x, manifold)
    if chunks is not None:
        return (lambda: _split(chunks(), manifold, room)), False
    array = as_array(x)
    keep = 8 * array.size <= (_KEPT_FROM_DISK if _on_disk(array) else _KEPT_IN_MEMORY)
    if not keep:
        return (lambda: _split([array], manifold, room)), False

    def parts() -> Iterator[Array]:
        rest = np.empty(array.size)  # one large allocation is much faster than many small ones

        def next_part(shape: tuple[int, ...]) -> Array:
            nonlocal rest
            part, rest = rest[: math.prod(shape)].reshape(shape), rest[math.prod(shape) :]
            return part

        return _split([array], manifold, next_part)

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


def _split(chunks: Iterable[Any], manifold: Manifold, room: Room) -> Iterator[Array]:
    """Copies the chunks, as float64, cut into smaller ones."""
    record = 8 * math.prod(manifold.point_shape)
    for chunk in chunks:
        array = as_array(chunk)
        check_shape(array, manifold)
        whole = len(array) * record
        # two chunks a core, so that none waits long for the other; of few records one, which costs less
        parts = cores() if whole <= 4 * cores() * _LEAST_BYTES else 2 * cores()
        share = min(max(whole // parts + 1, _LEAST_BYTES), _CHUNK_BYTES)
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


def read_block(evaluator: Evaluator, ball: Ball, p: Array, block: Any, weights: Array | None, keys: Words) -> Reading:
    """Reads a block in memory, on one core, in slices that fit the cache."""
    check_shape(block, ball.manifold)
    if weights is not None and len(weights) != len(block):  # compiled code would read past the end
        raise ValueError(f"a block holds {len(block)} records but was declared to hold {len(weights)}")
    rows = max(Pass.BLOCK, _LEAST_BYTES // (8 * math.prod(ball.manifold.point_shape)))
    total, done = Reading(Pass.zero(ball.manifold), 0), 0
    with one_blas_thread():
        for records in slices(block, rows):
            part = None if weights is None else weights[done : done + len(records)]
            total = total + read_once(evaluator, ball, p, records, part, keys)
            done += len(records)
    return total


def check_shape(array: Any, manifold: Manifold) -> None:
    refuse_unreadable(array, "x")
    if array.ndim != len(manifold.point_shape) + 1 or tuple(array.shape[1:]) != manifold.point_shape:
        expected = ", ".join(["n", *map(str, manifold.point_shape)])
        rows = [choice.name for choice in manifold.layouts if array.ndim == 2 and choice.columns == array.shape[1]]
        hint = f": if its rows are records, say how with layout=, {' or '.join(rows)}" if rows else ""
        raise ValueError(f"x has shape {array.shape}, but records of {manifold} have shape ({expected}){hint}")
    manifold.read(np.empty((0, *manifold.point_shape), dtype=array.dtype), "x")


def _checked_weights(weights: ArrayLike) -> Array:
    refuse_unreadable(weights, "weights")
    try:
        array = np.asarray(as_numpy(weights), dtype=np.float64)
    except (TypeError, ValueError):
        array = np.full(1, np.nan)
    if array.ndim != 1:
        raise ValueError(f"the weights have shape {array.shape} but must have shape (n,)")
    if not (np.isfinite(array).all() and (array >= 0.0).all() and (array > 0.0).any()):
        raise ValueError("the weights must be finite and non-negative, with a positive sum")
    array = array / array.max()  # keeps the sum finite
    return array / array.sum()


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
