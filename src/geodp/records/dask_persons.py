"""Persons in a Dask array: blocks are cut where persons end, and each worker computes one row a person for its blocks."""

from __future__ import annotations

from typing import Any, final
from uuid import uuid4

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.records.chunks import count_records
from geodp.records.persons import (
    EachPerson,
    Indices,
    Persons,
    check_known,
    check_length,
    chosen_rows,
    key_of,
    runs_of,
    select_records,
)


@final
class DaskPersons(Persons):
    """Records in a Dask array, sorted by person."""

    def __init__(self, x: da.Array, manifold: Manifold, order: Indices, starts: Indices, records: int) -> None:
        self.x, self.manifold, self.order, self.starts, self.records = x, manifold, order, starts, records

    @classmethod
    def of(cls, x: da.Array, ids: NDArray[Any], manifold: Manifold) -> DaskPersons:
        check_known(x, manifold)
        check_length(ids, "unit", count_records(x, manifold))
        runs, keep = runs_of(map(key_of, ids.tolist()))
        whole = cls(x, manifold, np.arange(len(ids)), runs, len(ids))
        return whole if len(keep) == whole.count else whole.select(keep)

    def each(self, row: EachPerson) -> da.Array:
        starts, x = self.starts, self.x
        # the first person that begins at or after the end of a block begins the next one
        cuts = np.unique(np.searchsorted(starts, np.append(0, np.cumsum(x.chunks[0]))))
        sizes = tuple(int(size) for size in np.diff(starts[cuts]))
        x = x.rechunk({0: sizes, **dict.fromkeys(range(1, x.ndim), -1)})
        cells: NDArray[Any] = np.empty(len(sizes), dtype=object)
        for i in range(len(sizes)):
            cells[i] = starts[cuts[i] : cuts[i + 1]] - starts[cuts[i]]
        with np.errstate(all="ignore"):
            shape = row(np.full((1, *self.manifold.point_shape), np.nan), np.zeros(1, dtype=np.int64)).shape[1:]
        new = range(x.ndim, x.ndim + len(shape))
        # by default Dask names the tasks by a hash of the function, which may hold a private point, and logs the names
        return da.blockwise(
            _Rows(row, shape),
            (0, *new),
            x,
            tuple(range(x.ndim)),
            da.from_array(cells, chunks=1, name=False),
            (0,),
            name=f"geodp-{uuid4().hex}",
            new_axes=dict(zip(new, shape, strict=True)),
            adjust_chunks={0: tuple(int(size) for size in np.diff(cuts))},
            concatenate=True,
            align_arrays=False,
            dtype=np.float64,
            meta=np.empty((0,) * (1 + len(shape))),
        )

    def select(self, keep: Indices, padding: int = 0) -> DaskPersons:
        rows, starts = chosen_rows(self.starts, keep, padding)
        x = select_records(self.x, self.manifold, self.records, rows, padding)
        return DaskPersons(x, self.manifold, self.order[rows], starts, self.records)


class _Rows:
    """One row for each person of a block. Its ``repr``, which Dask may log, shows nothing of what it holds."""

    def __init__(self, row: EachPerson, shape: tuple[int, ...]) -> None:
        self._row, self._shape = row, shape

    def __call__(self, block: Any, starts: NDArray[Any]) -> Array:
        try:
            records = np.array(block, dtype=np.float64)
            with np.errstate(all="ignore"):
                return self._row(records, starts[0])
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:  # Dask would log its text, which may quote records; the missing rows are noticed later
            return np.empty((0, *self._shape))

    def __repr__(self) -> str:
        return "rows of a block"
