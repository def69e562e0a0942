"""One pass over records that adds up numbers: counts, sums of vectors, histograms over public grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.records.chunks import chunks_of, is_dask, one_blas_thread

#: What is added up: an array whose shape is public, from records that are treated each by itself.
Summand = Callable[[Array], Array]


def sum_over(x: Any, manifold: Manifold, summand: Summand) -> Array:
    """The sum of ``summand(chunk)`` over the chunks of ``x``, in order: arrays, chunks and Dask arrays as for a mean.

    ``summand`` must never raise on account of a value.
    """
    if is_dask(x):
        from geodp.records.dask_arrays import sum_rows

        return sum_rows(x, manifold, summand)
    total: Any = 0.0
    with one_blas_thread(), np.errstate(all="ignore"):
        for chunk in chunks_of(x, manifold):
            total = total + summand(chunk)
    return np.asarray(total, dtype=np.float64)
