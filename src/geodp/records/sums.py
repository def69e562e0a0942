"""One pass over records that adds up numbers: counts, sums of vectors, histograms over public grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.manifolds.functions import two_sum
from geodp.records.chunks import Memory, chunks_of, in_order, is_dask, one_blas_thread

#: What is added up: an array whose shape is public, from records that are treated each by itself.
Summand = Callable[[Array], Array]


def sum_over(x: Any, manifold: Manifold, summand: Summand) -> Array:
    """The sum of ``summand(chunk)`` over the chunks of ``x``, in order: arrays, chunks and Dask arrays as for a mean.

    Chunks are shared out over the cores. ``summand`` must never raise on account of a value, and may change its chunk, a copy.
    """
    if is_dask(x):
        from geodp.records.dask_arrays import sum_rows

        return sum_rows(x, manifold, summand)

    memory = Memory()

    def work(chunk: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            return np.asarray(summand(chunk), dtype=np.float64), chunk

    total: Any = 0.0
    lost: Any = 0.0
    with one_blas_thread():
        for part, chunk in in_order(work, chunks_of(x, manifold, memory.take)):
            memory.give(chunk)
            total, rest = two_sum(total, part)
            lost = lost + rest
    return np.asarray(total + lost, dtype=np.float64)
