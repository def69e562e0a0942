"""Records behind one contract for solvers: a pass at a point over arrays, memory maps, chunks or a Dask array."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import Array, as_numpy, refuse_unreadable
from geodp.manifolds.ball import Ball, checked_ball
from geodp.records.chunks import (
    LEAST_BYTES,
    Memory,
    changed,
    check_shape,
    in_order,
    is_dask,
    one_blas_thread,
    pool,
    slices,
    source_of,
)
from geodp.solver.passes import Evaluator, Pass, Words, best_evaluator

Report = Callable[[int], None]


def open_records(x: Any, ball: Ball, weights: ArrayLike | None) -> Records:
    """The records of anything that :func:`geodp.frechet_mean` takes."""
    checked_ball(ball)
    checked = None if weights is None else _checked_weights(weights)
    if is_dask(x):
        from geodp.solver.dask_records import DaskRecords

        return DaskRecords(x, ball, checked)
    return ChunkedRecords(x, ball, checked)


@dataclass(frozen=True, repr=False)
class Reading:
    """The result of reading records once: the pass over them, and their :func:`geodp.solver.passes.fingerprint`."""

    asked: Pass
    mark: int

    def __add__(self, other: Reading) -> Reading:
        return Reading(self.asked + other.asked, self.mark + other.mark)


class Records(ABC):
    """Private records and their weights (equal if ``None``). A solver sees only one :class:`Pass` at a time."""

    def __init__(self, ball: Ball, weights: Array | None, count: int | None) -> None:
        self.ball, self.weights, self.count = ball, weights, count
        self.evaluator = best_evaluator(ball.manifold, count, 2.0 * ball.reach)
        self._mark: int | None = None

    @abstractmethod
    def evaluate(self, p: Array, report: Report) -> Pass:
        """One pass over the clipped records at ``p``; calls ``report`` with the number of records done."""

    def rounding(self, p: Array) -> float:
        """The mean over the records of what rounding may put between their logarithms at ``p`` and the exact ones: a pass."""
        usual, self.evaluator = self.evaluator, self.evaluator.roundings()
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


def read_once(evaluator: Evaluator, ball: Ball, p: Array, records: Array, weights: Array | None, keys: Words | None) -> Reading:
    """Clips the records in place and computes their pass at ``p``; with keys also the fingerprint of the records as they were."""
    mark = 0 if keys is None else evaluator.fingerprint(records, weights, keys)
    center = evaluator.clip(ball, records, weights)
    return Reading(center if p is ball.center else evaluator.evaluate(p, records, weights), mark)


class ChunkedRecords(Records):
    """Records on this machine, a few chunks in memory at a time, on all cores.

    An array that fits is copied, and clipped, in the first pass. Everything else is clipped in every pass.
    """

    def __init__(self, x: Any, ball: Ball, weights: Array | None) -> None:
        super().__init__(ball, weights, len(x) if isinstance(x, np.ndarray) else None)
        self._memory = Memory()
        self._open, self._may_keep = source_of(x, ball.manifold, self._memory.take)
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
        return self.count is not None and 8 * self.count * math.prod(self.ball.manifold.point_shape) <= LEAST_BYTES

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


def read_block(evaluator: Evaluator, ball: Ball, p: Array, block: Any, weights: Array | None, keys: Words) -> Reading:
    """Reads a block in memory, on one core, in slices that fit the cache."""
    check_shape(block, ball.manifold)
    if weights is not None and len(weights) != len(block):  # compiled code would read past the end
        raise ValueError(f"a block holds {len(block)} records but was declared to hold {len(weights)}")
    rows = max(Pass.BLOCK, LEAST_BYTES // (8 * math.prod(ball.manifold.point_shape)))
    total, done = Reading(Pass.zero(ball.manifold), 0), 0
    with one_blas_thread():
        for records in slices(block, rows):
            part = None if weights is None else weights[done : done + len(records)]
            total = total + read_once(evaluator, ball, p, records, part, keys)
            done += len(records)
    return total


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
