"""One pass over records that adds up numbers: counts, sums of vectors, histograms over public grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.records.chunks import RecordsError, chunks_of, is_dask, one_blas_thread
from geodp.records.persons import Indices, Persons

#: From records to vectors, a row each, each record treated by itself.
Rows = Callable[[Array], Array]
#: What is added up: an array whose shape is public, from such vectors.
Summand = Callable[[Array], Array]


def total(rows: Array) -> Array:
    """The sum of the vectors themselves."""
    return rows.sum(axis=0)


def sum_over(x: Any, manifold: Manifold, rows: Rows, n: int, summand: Summand = total) -> Array:
    """The sum of ``summand(rows(chunk))`` over the chunks of ``x``, in order, which hold ``n`` records or ``n`` persons.

    A person's vectors are averaged first. Neither ``rows`` nor ``summand`` may raise on account of a value.
    """
    if isinstance(x, Persons):
        averaged = x.each(_Averages(rows))
        dim = rows(np.full((1, *manifold.point_shape), np.nan)).shape[1]
        return sum_over(averaged, Euclidean(dim), _as_they_are, n, summand)
    counted = _Counted(rows, summand)
    if is_dask(x):
        from geodp.records.dask_arrays import sum_rows

        sums = sum_rows(x, manifold, counted)
    else:
        sums = np.zeros(1)
        with one_blas_thread(), np.errstate(all="ignore"):
            for chunk in chunks_of(x, manifold):
                sums = sums + counted(chunk)
    if sums[0] != n:
        raise RecordsError(f"{n} records were counted but {int(sums[0])} were met: give records that are the same every time")
    return sums[1:].reshape(counted.shape(manifold))


class _Counted:
    """The summand, flat, after the number of its rows."""

    def __init__(self, rows: Rows, summand: Summand) -> None:
        self._rows, self._summand = rows, summand

    def __call__(self, records: Array) -> Array:
        rows = self._rows(records)
        return np.append(float(len(rows)), np.asarray(self._summand(rows), dtype=np.float64))

    def shape(self, manifold: Manifold) -> tuple[int, ...]:
        with np.errstate(all="ignore"):
            return np.shape(self._summand(self._rows(np.full((1, *manifold.point_shape), np.nan))))


class _Averages:
    """The mean of each person's vectors."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __call__(self, records: Array, starts: Indices) -> Array:
        with np.errstate(all="ignore"):
            sizes = np.diff(starts, append=len(records))
            return np.add.reduceat(self._rows(records), starts, axis=0) / sizes[:, None]


def _as_they_are(rows: Array) -> Array:
    return rows
