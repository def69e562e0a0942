"""Sums over the blocks of a Dask array, computed by the workers where the blocks are."""

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
from dask.optimization import cull
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds.manifold import Manifold
from geodp.records.chunks import LEAST_BYTES, Labelled, check_shape, failed, hiding_error_text, slices

#: The number of passes that one task adds up.
_FAN_IN = 16
#: The number of sums that the caller adds up itself, reporting progress as they arrive.
_ENOUGH = 64
#: The fewest rows that a worker converts at a time.
_LEAST_ROWS = 256
#: How often a failed task, such as a read over the network, is tried again.
_RETRIES = 3


def count_rows(x: da.Array, manifold: Manifold) -> int:
    check_shape(x, manifold)
    if not math.isnan(x.shape[0]):
        return int(x.shape[0])
    parts = map_rows(_length, x.rechunk(dict.fromkeys(range(1, x.ndim), -1)))
    return int(sum(sums(parts)))


def sum_rows(x: da.Array, manifold: Manifold, summand: Callable[[Array], Any]) -> Any:
    """The sum of ``summand(block)`` over the blocks of rows."""
    check_shape(x, manifold)
    total: Any = 0
    for part in sums(map_rows(_BlockSum(summand, manifold), x.rechunk(dict.fromkeys(range(1, x.ndim), -1)))):
        if isinstance(part, str):
            raise failed(part)
        total = total + part
    return total


def with_labels(x: da.Array, labels: list[da.Array]) -> Labelled:
    """The blocks of rows, each read together with the labels of its records, as chunks on this machine.

    A few blocks are read at a time, by the workers if there is a cluster.
    """
    x = x.rechunk(dict.fromkeys(range(1, x.ndim), -1))
    known = not any(math.isnan(each.shape[0]) for each in (x, *labels))
    (boxes,) = dask.optimize(
        map_rows(_together, x, *(label.rechunk((x.chunks[0],)) if known and label.ndim == 1 else label for label in labels))
    )

    def read() -> Iterator[tuple[Array, list[NDArray[Any]]]]:
        graph, keys = dict(boxes.__dask_graph__()), list(boxes.__dask_keys__())
        for start in range(0, len(keys), _FAN_IN):
            some = keys[start : start + _FAN_IN]
            for box in _compute(cull(graph, some)[0], some):
                if isinstance(box[0], str):
                    raise failed(box[0])
                yield box[0]

    return Labelled(read)


def _together(block: Array, *labels: NDArray[Any]) -> NDArray[Any]:
    try:
        cells = [np.asarray(label) for label in labels]
        fits = all(each.shape == (len(block),) for each in cells)
        return boxed((np.asarray(block), cells) if fits else "ValueError")
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # Dask would log its text, and the records with it
        return boxed(type(error).__name__)


class _BlockSum:
    """A sum over the records of a block. Its ``repr``, which Dask may log, shows nothing of what it holds."""

    def __init__(self, summand: Callable[[Array], Any], manifold: Manifold) -> None:
        self._summand, self._manifold = summand, manifold

    def __call__(self, block: Array) -> NDArray[Any]:
        try:
            check_shape(block, self._manifold)
            rows = max(_LEAST_ROWS, LEAST_BYTES // (8 * math.prod(self._manifold.point_shape)))
            with np.errstate(all="ignore"):
                return boxed(sum(self._summand(records) for records in slices(block, rows)))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # Dask would log its text, and the records with it
            return boxed(type(error).__name__)

    def __repr__(self) -> str:
        return "a sum over a block"


def map_rows(function: Any, x: da.Array, *beside: da.Array | None) -> da.Array:
    """One object for each block of rows. Dask fuses this with the operation that makes the block, so no block is kept."""
    axes = tuple(range(x.ndim))
    more = [part for each in beside if each is not None for part in (each, (0,))]
    meta: NDArray[Any] = np.empty(0, dtype=object)
    # by default Dask names the tasks by a hash of the function, which holds a private point, and logs the names
    name = f"geodp-{uuid4().hex}"
    return da.blockwise(
        function, (0,), x, axes, *more, name=name, concatenate=True, adjust_chunks={0: _one}, dtype=object, meta=meta
    )


def _one(_: int) -> int:
    return 1


def _length(block: Array) -> NDArray[Any]:
    return boxed(len(block))


def boxed(value: object) -> NDArray[Any]:
    box = np.empty(1, dtype=object)
    box[0] = value
    return box


def sums(parts: da.Array) -> Iterator[Any]:
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
