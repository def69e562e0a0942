"""Records in a Dask array: one map-reduce over its blocks for each pass.

Workers read, clip and sum their blocks where the blocks are. They receive the point and send back one :class:`Pass` for each
group of blocks. Sums keep track of their rounding error at every level of the reduction, so the error bound of the mean does
not grow with the number of blocks. If a worker is lost, another reads its blocks again: the same blocks give the same pass.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import dask.threaded
import numpy as np
from dask.base import get_scheduler
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds.ball import Ball
from geodp.manifolds.manifold import Manifold
from geodp.records.chunks import Reading, Records, Report, Words, check_shape, failed, hiding_error_text, read_block, slices
from geodp.solver.passes import Evaluator, Pass

#: The number of passes that one task adds up.
_FAN_IN = 16
#: The number of sums that the caller adds up itself, reporting progress as they arrive.
_ENOUGH = 64
#: How often a failed task, such as a read over the network, is tried again.
_RETRIES = 3


class DaskRecords(Records):
    """Records in the blocks of a Dask array, which may be larger than memory. They must be the same in every pass."""

    def __init__(self, x: da.Array, ball: Ball, weights: Array | None) -> None:
        check_shape(x, ball.manifold)
        known = not math.isnan(x.shape[0])
        super().__init__(ball, weights, int(x.shape[0]) if known else None)
        self._x = x.rechunk(dict.fromkeys(range(1, x.ndim), -1))
        if weights is not None and not known:
            raise ValueError("with weights the sizes of the blocks must be known: call x.compute_chunk_sizes() first")
        if weights is not None and len(weights) != x.shape[0]:
            raise ValueError(f"there are {len(weights)} weights but {x.shape[0]} records")
        self._weights = None if weights is None else da.from_array(weights, chunks=(x.chunks[0],), name=False)

    def evaluate(self, p: Array, report: Report) -> Pass:
        parts = _map_rows(_BlockPass(self.ball, p, type(self.evaluator), self.keys), self._x, self._weights)
        total = Reading(Pass.zero(self.ball.manifold), 0)
        for part in _sums(parts):
            if isinstance(part, str):
                raise failed(part)
            total = total + part
            report(total.asked.count)
        self.check_count(total.asked.count)
        self.check_same(total.mark)
        return total.asked


def count_rows(x: da.Array, manifold: Manifold) -> int:
    check_shape(x, manifold)
    if not math.isnan(x.shape[0]):
        return int(x.shape[0])
    parts = _map_rows(_length, x.rechunk(dict.fromkeys(range(1, x.ndim), -1)), None)
    return int(sum(_sums(parts)))


def sum_rows(x: da.Array, manifold: Manifold, summand: Callable[[Array], Any]) -> Any:
    """The sum of ``summand(block)`` over the blocks of rows."""
    check_shape(x, manifold)
    total: Any = 0
    for part in _sums(_map_rows(_BlockSum(summand, manifold), x.rechunk(dict.fromkeys(range(1, x.ndim), -1)), None)):
        if isinstance(part, str):
            raise failed(part)
        total = total + part
    return total


class _BlockSum:
    """A sum over the records of a block. Its ``repr``, which Dask may log, shows nothing of what it holds."""

    def __init__(self, summand: Callable[[Array], Any], manifold: Manifold) -> None:
        self._summand, self._manifold = summand, manifold

    def __call__(self, block: Array) -> NDArray[Any]:
        try:
            check_shape(block, self._manifold)
            rows = max(Pass.BLOCK, (1 << 18) // (8 * math.prod(self._manifold.point_shape)))
            with np.errstate(all="ignore"):
                return _boxed(sum(self._summand(records) for records in slices(block, rows)))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # Dask would log its text, and the records with it
            return _boxed(type(error).__name__)

    def __repr__(self) -> str:
        return "a sum over a block"


def _map_rows(function: Any, x: da.Array, weights: da.Array | None) -> da.Array:
    """One object for each block of rows. Dask fuses this with the operation that makes the block, so no block is kept."""
    axes = tuple(range(x.ndim))
    more = () if weights is None else (weights, (0,))
    meta: NDArray[Any] = np.empty(0, dtype=object)
    # by default Dask names the tasks by a hash of the function, which holds a private point, and logs the names
    name = f"geodp-{uuid4().hex}"
    return da.blockwise(
        function, (0,), x, axes, *more, name=name, concatenate=True, adjust_chunks={0: _one}, dtype=object, meta=meta
    )


def _one(_: int) -> int:
    return 1


def _length(block: Array) -> NDArray[Any]:
    return _boxed(len(block))


class _BlockPass:
    """The pass over a block at a point. The point depends on the data, so ``repr``, which Dask may log, does not show it."""

    def __init__(self, ball: Ball, p: Array, kind: type[Evaluator], keys: Words) -> None:
        # all workers must use the same kind, because their sums are added
        self._ball, self._p, self._kind, self._keys = ball, p, kind, keys

    def __call__(self, block: Array, weights: Array | None = None) -> NDArray[Any]:
        ball = self._ball
        p = (
            ball.center if np.array_equal(self._p, ball.center) else self._p
        )  # evaluators test by identity whether it is the centre
        try:
            return _boxed(read_block(self._kind(ball.manifold), ball, p, block, weights, self._keys))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # Dask would log its text, and the records with it
            return _boxed(type(error).__name__)

    def __repr__(self) -> str:
        return "a pass over a block"


def _boxed(value: object) -> NDArray[Any]:
    box = np.empty(1, dtype=object)
    box[0] = value
    return box


def _sums(parts: da.Array) -> Iterator[Any]:
    """Adds :data:`_FAN_IN` parts at a time, and their sums again, until few are left; yields those in order as they arrive."""
    (parts,) = dask.optimize(parts)
    graph, keys, name = dict(parts.__dask_graph__()), list(parts.__dask_keys__()), f"geodp-sum-{uuid4().hex}"
    start = 0
    while start == 0 or len(keys) > _ENOUGH:
        groups = [keys[i : i + _FAN_IN] for i in range(0, len(keys), _FAN_IN)]
        keys = [(name, start + i) for i in range(len(groups))]
        graph.update({key: (_add, group) for key, group in zip(keys, groups, strict=True)})
        start += len(groups)
    return _compute(graph, keys)


def _add(parts: list[Any]) -> Any:
    flat = [part[0] if isinstance(part, np.ndarray) else part for part in parts]
    failed = next((part for part in flat if isinstance(part, str)), None)
    return failed if failed is not None else sum(flat[1:], start=flat[0])


def _compute(graph: dict[Any, Any], keys: list[Any]) -> Iterator[Any]:
    """The results in order, as they arrive, from the cluster of the active client, or else from threads of this process."""
    client = _client()
    with hiding_error_text():
        if client is None:
            yield from (get_scheduler() or dask.threaded.get)(graph, keys)
        else:
            for future in client.get(graph, keys, sync=False, retries=_RETRIES):
                yield future.result()


def _client() -> Any:
    if "distributed" not in sys.modules:
        return None
    try:
        return sys.modules["distributed"].get_client()
    except ValueError:
        return None
