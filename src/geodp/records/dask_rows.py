"""Labelled records in Dask arrays: their labels are read together with them, and each worker computes one row a person.

Blocks that are too large to be kept are read again, and a hash with a secret key tells whether a block is what it was when its
labels were read. A block that is not has no rows any more, and that number is noticed by whatever counts them.
"""

from __future__ import annotations

import math
import secrets
from hashlib import blake2b
from typing import Any, final
from uuid import uuid4

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.records.chunks import changed, failed, is_dask
from geodp.records.dask_arrays import boxed, map_rows, sums
from geodp.records.labels import Indices, check_length, joined
from geodp.records.persons import EachPerson, Persons, chosen_rows
from geodp.records.rows import check_known
from geodp.records.sums import Stack

#: Rows of persons up to this many bytes are computed once.
_KEPT_BYTES = 1 << 29


def read_blocks(x: da.Array, labels: tuple[Any, ...], manifold: Manifold, most: int) -> tuple[Any, int, list[Any]]:
    """The records, in memory if they have at most ``most`` bytes; their number; and the labels that are Dask arrays too."""
    check_known(x, manifold)
    x = x.rechunk(dict.fromkeys(range(1, x.ndim), -1))
    beside = [label for label in labels if is_dask(label)]
    for name, label in zip(("unit", "by"), labels, strict=True):
        if is_dask(label):
            if label.ndim != 1:
                raise ValueError(f"{name} has shape {label.shape}, but one label for each record has shape (n,)")
            if not math.isnan(label.shape[0]):
                check_length(np.broadcast_to(0, label.shape), name, int(x.shape[0]))
    keep = x.size * 8 <= most
    key = b"" if keep else secrets.token_bytes(32)  # a log may show a hash
    aligned = [label if math.isnan(label.shape[0]) else label.rechunk((x.chunks[0],)) for label in beside]
    found = gather(map_rows(_ReadBlock(key, keep), x, *aligned))
    read = iter(zip(*(cells for _, cells in found), strict=True))
    both = [joined(next(read)) if is_dask(label) else label for label in labels]
    parts = [part for part, _ in found]
    if keep:
        return np.concatenate(parts), int(x.shape[0]), both
    marks: NDArray[Any] = np.empty(len(parts), dtype=object)
    marks[:] = parts
    return _blockwise(_Unchanged(key), x, marks, x.shape[1:]), int(x.shape[0]), both


def select_blocks(x: da.Array, manifold: Manifold, keep: Indices, padding: int = 0) -> da.Array:
    """The records at ``keep``, in order, followed by ``padding`` invalid ones."""
    kept = x[keep]
    invalid = da.from_array(np.full((padding, *manifold.point_shape), np.nan))
    return da.concatenate([kept, invalid]) if padding else kept


@final
class DaskPersons(Persons):
    """Records in a Dask array, in the order of their persons. In ``order`` no record is invalid: such a record holds NaN."""

    def __init__(self, x: da.Array, manifold: Manifold, starts: Indices) -> None:
        self.x, self.manifold, self.starts = x, manifold, starts
        self.order = np.arange(starts[-1])

    @classmethod
    def of(cls, x: da.Array, manifold: Manifold, order: Indices, starts: Indices, invalid: NDArray[np.bool_]) -> DaskPersons:
        if invalid.any():
            lost = da.from_array(invalid, chunks=(x.chunks[0],), name=False)
            x = da.where(lost.reshape(-1, *(1,) * (x.ndim - 1)), np.nan, x)
        return cls(x if np.array_equal(order, np.arange(x.shape[0])) else x[order], manifold, starts)

    def each(self, row: EachPerson) -> Any:
        starts, x = self.starts, self.x
        # the first person that begins at or after the end of a block begins the next one
        cuts = np.unique(np.searchsorted(starts, np.append(0, np.cumsum(x.chunks[0]))))
        x = x.rechunk({0: tuple(int(size) for size in np.diff(starts[cuts])), **dict.fromkeys(range(1, x.ndim), -1)})
        cells: NDArray[Any] = np.empty(len(cuts) - 1, dtype=object)
        for i in range(len(cells)):
            cells[i] = starts[cuts[i] : cuts[i + 1] + 1] - starts[cuts[i]]
        with np.errstate(all="ignore"):
            shape = row(np.full((1, *self.manifold.point_shape), np.nan), np.zeros(1, dtype=np.int64)).shape[1:]
        rows = _blockwise(_Rows(row, shape), x, cells, shape, tuple(int(size) for size in np.diff(cuts)))
        if 8 * self.count * math.prod(shape) > _KEPT_BYTES:
            return rows
        found = np.concatenate(gather(map_rows(_boxed_stack, rows)))
        if len(found) != self.count:
            raise changed()
        return found

    def select(self, keep: Indices, padding: int = 0) -> DaskPersons:
        rows, starts = chosen_rows(self.starts, keep, padding)
        return DaskPersons(select_blocks(self.x, self.manifold, rows, padding), self.manifold, starts)


def _blockwise(
    function: Any, x: da.Array, cells: NDArray[Any], shape: tuple[int, ...], sizes: tuple[int, ...] | None = None
) -> da.Array:
    """``function`` of each block of rows and of its cell, which gives rows of this shape; of as many, unless sizes are given."""
    new = range(x.ndim, x.ndim + len(shape))
    # by default Dask names the tasks by a hash of the function, which may hold a private point, and logs the names
    return da.blockwise(
        function,
        (0, *new),
        x,
        tuple(range(x.ndim)),
        da.from_array(cells, chunks=1, name=False),
        (0,),
        name=f"geodp-{uuid4().hex}",
        new_axes=dict(zip(new, shape, strict=True)),
        adjust_chunks={0: x.chunks[0] if sizes is None else sizes},
        concatenate=True,
        align_arrays=False,
        dtype=np.float64,
        meta=np.empty((0,) * (1 + len(shape))),
    )


def gather(parts: da.Array) -> list[Any]:
    """What the blocks hold, each a :class:`Stack`, in one list."""
    found: Any = Stack([])
    for part in sums(parts):
        if isinstance(part, str):
            raise failed(part)
        found = found + part
    return list(found.parts)


def _boxed_stack(block: Array) -> NDArray[Any]:
    return boxed(Stack([np.asarray(block)]))


class _ReadBlock:
    """A block and its labels: the records themselves, or a hash of them."""

    def __init__(self, key: bytes, keep: bool) -> None:
        self._key, self._keep = key, keep

    def __call__(self, block: Array, *labels: NDArray[Any]) -> NDArray[Any]:
        try:
            cells = [np.asarray(label) for label in labels]
            if any(len(each) != len(block) for each in cells):
                return boxed("ValueError")
            with np.errstate(all="ignore"):
                mark = np.array(block, dtype=np.float64) if self._keep else _hash(block, self._key)
            return boxed(Stack([(mark, cells)]))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # Dask would log its text, and the records with it
            return boxed(type(error).__name__)

    def __repr__(self) -> str:
        return "a block and its labels"


class _Unchanged:
    """A block if it is the one whose labels were read, or else one without rows."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, block: Array, expected: NDArray[Any]) -> Array:
        return block if _hash(block, self._key) == expected[0] else block[:0]

    def __repr__(self) -> str:
        return "a block"


def _hash(block: Array, key: bytes) -> bytes:
    return blake2b(np.asarray(block).tobytes(), key=key).digest()


class _Rows:
    """One row for each person of a block. Its ``repr``, which Dask may log, shows nothing of what it holds."""

    def __init__(self, row: EachPerson, shape: tuple[int, ...]) -> None:
        self._row, self._shape = row, shape

    def __call__(self, block: Any, cell: NDArray[Any]) -> Array:
        try:
            records, starts = np.array(block, dtype=np.float64), cell[0]
            if len(records) == starts[-1]:  # compiled code would read past the end
                with np.errstate(all="ignore"):
                    return self._row(records, starts[:-1])
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:  # Dask would log its text, which may quote records; the missing rows are noticed later
            pass
        return np.empty((0, *self._shape))

    def __repr__(self) -> str:
        return "rows of a block"
