"""Records that can be read again and again: arrays, memory maps, chunks and Dask arrays behind one contract."""

from __future__ import annotations

import math
import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import ThreadpoolController

from geodp._passes import Evaluator, Pass, best_evaluator
from geodp.ball import Ball
from geodp.manifolds._functions import Array
from geodp.manifolds.manifold import Manifold, refuse_mask

#: Bytes of records read at a time by each core: fewer if there are not enough records to go round.
_CHUNK_BYTES, _LEAST_BYTES = 1 << 22, 1 << 18

Report = Callable[[int], None]
A = TypeVar("A")
B = TypeVar("B")


class Records(ABC):
    """Private records and their weights (equal if ``None``), of which a solver sees nothing but a :class:`Pass` at a time."""

    def __init__(self, ball: Ball, weights: Array | None, count: int | None) -> None:
        self.ball, self.weights, self.count = ball, weights, count
        self.evaluator = best_evaluator(ball.manifold, count)

    @abstractmethod
    def evaluate(self, p: Array, report: Report) -> Pass:
        """One pass over the clipped records at ``p``; ``report`` is told how many are done."""

    def check_count(self, done: int) -> None:
        """Every pass must meet as many records as the one before it, and there must be some."""
        if done == 0:
            raise ValueError("the mean needs at least one record but there are 0")
        if self.weights is not None and done != len(self.weights):
            raise ValueError(f"there are {len(self.weights)} weights but {done} records")
        if self.count is not None and done != self.count:
            raise ValueError(f"the chunks held {self.count} records when first read but {done} later")
        self.count = done


def open_records(x: Any, ball: Ball, weights: ArrayLike | None) -> Records:
    """The records of anything that :func:`geodp.frechet_mean` takes."""
    checked = None if weights is None else _checked_weights(weights)
    if is_dask(x):
        from geodp._dask import DaskRecords

        return DaskRecords(x, ball, checked)
    return ChunkedRecords(x, ball, checked)


def count_records(x: Any, manifold: Manifold) -> int:
    """How many records ``x`` holds, without looking at their values."""
    if is_dask(x):
        from geodp._dask import count_rows

        return count_rows(x, manifold)
    if isinstance(x, np.ndarray):
        check_shape(x, manifold)
        return len(x)
    return sum(len(chunk) for chunk in _source(x, manifold)[0]())


def is_dask(x: Any) -> bool:
    """Whether ``x`` is a Dask array, without importing Dask for those who do not use it."""
    return "dask.array" in sys.modules and isinstance(x, sys.modules["dask.array"].Array)


class ChunkedRecords(Records):
    """Records on this machine, a few chunks in memory at a time, on all cores."""

    def __init__(self, x: Any, ball: Ball, weights: Array | None) -> None:
        super().__init__(ball, weights, len(x) if isinstance(x, np.ndarray) else None)
        self._open, self._may_keep = _source(x, ball.manifold)
        self._clipped = False

    def evaluate(self, p: Array, report: Report) -> Pass:
        total, chunks = Pass.zero(self.ball.manifold), []

        def work(item: tuple[Array | None, Array]) -> tuple[Pass, Array]:
            weights, chunk = item
            if self._clipped:
                return self.evaluator.evaluate(p, chunk, weights), chunk
            return self.evaluator.clip(self.ball, p, chunk, weights)

        with one_blas_thread():
            for part, chunk in _in_order(_pool(os.getpid()), work, self._chunks()):
                total = total + part
                if self._may_keep:
                    chunks.append(chunk)
                report(total.count)
        if self._may_keep and not self._clipped:
            self._open, self._clipped = (lambda: iter(chunks)), True
        return total

    def _chunks(self) -> Iterator[tuple[Array | None, Array]]:
        """Weights and records, a chunk at a time."""
        done = 0
        for chunk in self._open():
            end = done + len(chunk)
            if self.weights is not None and end > len(self.weights):
                raise ValueError(f"there are {len(self.weights)} weights but at least {end} records")
            yield (None if self.weights is None else self.weights[done:end]), chunk
            done = end
        self.check_count(done)


def _source(x: Any, manifold: Manifold) -> tuple[Callable[[], Iterator[Array]], bool]:
    """A function that reads the chunks of ``x`` anew, and whether clipped chunks may be kept in memory."""
    axes = len(manifold.point_shape) + 1
    if isinstance(x, memoryview) or callable(getattr(x, "__array__", None)):
        x = _as_array(x)  # a table of pandas, say, which would otherwise be taken for chunks
    if isinstance(x, Mapping):
        raise TypeError("x is a mapping from names to something, but records are an array, a list of chunks or a function")
    if callable(x):
        return (lambda: _split(x(), manifold)), False
    if isinstance(x, Sequence) and len(x) and isinstance(x[0], np.ndarray) and x[0].ndim == axes:
        return (lambda: _split(x, manifold)), False
    if isinstance(x, Iterable) and not isinstance(x, np.ndarray | Sequence):
        if isinstance(x, Iterator):
            raise TypeError(
                "x is an iterator, which can be read only once, and the mean reads the data several times: "
                "give a list of chunks, or a function that returns a new iterator"
            )
        return (lambda: _split(x, manifold)), False
    array = _as_array(x)
    return (lambda: _split([array], manifold)), not isinstance(array, np.memmap)


def _split(chunks: Iterable[Any], manifold: Manifold) -> Iterator[Array]:
    """Smaller chunks, in float64."""
    record = 8 * math.prod(manifold.point_shape)
    for chunk in chunks:
        array = _as_array(chunk)
        check_shape(array, manifold)
        share = min(max(len(array) * record // (2 * _cores()) + 1, _LEAST_BYTES), _CHUNK_BYTES)
        yield from slices(array, max(Pass.BLOCK, share // record))


def _as_array(x: Any) -> Any:
    """An array, if it is none yet. A masked one is refused wherever it hides."""
    for part in x if isinstance(x, list | tuple) else (x,):
        refuse_mask(part, "x")
    array = np.asanyarray(x)
    refuse_mask(array, "x")
    return array


def slices(array: Array, rows: int) -> Iterator[Array]:
    """So many rows at a time, in float64."""
    for start in range(0, len(array), rows):
        with np.errstate(all="ignore"):  # a warning of the conversion would tell about a value
            records = np.ascontiguousarray(array[start : start + rows], dtype=np.float64)
        yield records


def pass_over_block(evaluator: Evaluator, ball: Ball, p: Array, block: Any, weights: Array | None) -> Pass:
    """One pass over a block in memory, on one core, in slices that fit the cache."""
    check_shape(block, ball.manifold)
    if weights is not None and len(weights) != len(block):  # compiled code would read past the end
        raise ValueError(f"a block holds {len(block)} records but was declared to hold {len(weights)}")
    rows = max(Pass.BLOCK, _LEAST_BYTES // (8 * math.prod(ball.manifold.point_shape)))
    total, done = Pass.zero(ball.manifold), 0
    with one_blas_thread():
        for records in slices(block, rows):
            part = None if weights is None else weights[done : done + len(records)]
            total = total + evaluator.clip(ball, p, records, part)[0]
            done += len(records)
    return total


def check_shape(array: Any, manifold: Manifold) -> None:
    refuse_mask(array, "x")
    if array.ndim != len(manifold.point_shape) + 1:
        expected = ", ".join(["n", *map(str, manifold.point_shape)])
        raise ValueError(f"x has shape {array.shape}, but records of {manifold} have shape ({expected})")
    manifold.read(np.empty((0, *array.shape[1:]), dtype=array.dtype), "x")


def _checked_weights(weights: ArrayLike) -> Array:
    refuse_mask(weights, "weights")
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.full(1, np.nan)
    if array.ndim != 1:
        raise ValueError(f"the weights have shape {array.shape} but must have shape (n,)")
    if not (np.isfinite(array).all() and (array >= 0.0).all() and (array > 0.0).any()):
        raise ValueError("the weights must be finite and non-negative, with a positive sum")
    array = array / array.max()  # so that the sum stays finite
    return array / array.sum()


def one_blas_thread() -> Any:
    # the threads of the linear algebra library would only get in the way of those that share out the chunks
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process; a forked child has none of its parent's and starts its own."""
    return ThreadPoolExecutor(_cores(), thread_name_prefix="geodp")


@cache
def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can tell
        return os.cpu_count() or 1


def _in_order(pool: ThreadPoolExecutor, work: Callable[[A], B], items: Iterator[A]) -> Iterator[B]:
    """``map(work, items)`` in the pool, holding at most two items a core; a single item is not worth a thread."""
    first_two = list(islice(items, 2))
    if len(first_two) < 2:
        yield from map(work, first_two)
        return
    waiting = deque(pool.submit(work, item) for item in first_two)
    for item in items:
        if len(waiting) >= 2 * _cores():
            yield waiting.popleft().result()
        waiting.append(pool.submit(work, item))
    while waiting:
        yield waiting.popleft().result()
