"""Records in a Dask array: one map-reduce over its blocks for each pass.

Workers read, clip and sum their blocks where the blocks are. They receive the point and send back one :class:`Pass` for each
group of blocks. Sums keep track of their rounding error at every level of the reduction, so the error bound of the mean does
not grow with the number of blocks. If a worker is lost, another reads its blocks again: the same blocks give the same pass.
"""

from __future__ import annotations

import math
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds.ball import Ball
from geodp.records.chunks import check_shape, failed
from geodp.records.dask_arrays import boxed, map_rows, sums
from geodp.solver.passes import Evaluator, Pass, Words
from geodp.solver.records import Reading, Records, Report, read_block


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
        parts = map_rows(_BlockPass(self.ball, p, type(self.evaluator), self.keys), self._x, self._weights)
        total = Reading(Pass.zero(self.ball.manifold), 0)
        for part in sums(parts):
            if isinstance(part, str):
                raise failed(part)
            total = total + part
            report(total.asked.count)
        self.check_count(total.asked.count)
        self.check_same(total.mark)
        return total.asked


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
            return boxed(read_block(self._kind(ball.manifold, 2.0 * ball.reach), ball, p, block, weights, self._keys))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # Dask would log its text, and the records with it
            return boxed(type(error).__name__)

    def __repr__(self) -> str:
        return "a pass over a block"
