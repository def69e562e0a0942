"""One pass over records that adds up numbers: counts, sums of vectors, histograms over public grids."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.functions import two_sum
from geodp.records.chunks import Memory, RecordsError, chunks_of, in_order, is_dask, one_blas_thread, pool
from geodp.records.persons import EachPerson, Indices, Persons

#: From records to vectors, a row each, each record treated by itself.
Rows = Callable[[Array], Array]
#: What is added up: an array whose shape is public, from such vectors.
Summand = Callable[[Array], Array]


def total(rows: Array) -> Array:
    """The sum of the vectors themselves."""
    return rows.sum(axis=0)


def averages(rows: Array, starts: Indices) -> Array:
    """The mean of each person's vectors."""
    return np.add.reduceat(rows, starts, axis=0) / np.diff(starts, append=len(rows))[:, None]


def medians(rows: Array, starts: Indices) -> Array:
    """The lower median of each person's numbers, which are the only column."""
    sizes = np.diff(starts, append=len(rows))
    order = np.lexsort((rows[:, 0], np.repeat(np.arange(len(starts)), sizes)))
    return rows[order[starts + (sizes - 1) // 2]]


def sum_over(x: Any, manifold: Manifold, rows: Rows, n: int, summand: Summand = total, of_person: EachPerson = averages) -> Array:
    """The sum of ``summand(rows(chunk))`` over the chunks of ``x``, in order, which hold ``n`` records or ``n`` persons.

    ``of_person`` makes one vector of each person's. None of the three functions may raise on account of a value; ``rows`` may
    change the records, which are copies.
    """
    if isinstance(x, Persons):
        averaged = x.each(_OfPersons(rows, of_person))
        dim = rows(np.full((1, *manifold.point_shape), np.nan)).shape[1]
        return sum_over(averaged, Euclidean(dim), _as_they_are, n, summand)
    counted = _Counted(rows, summand)
    if is_dask(x):
        from geodp.records.dask_arrays import sum_rows

        sums = sum_rows(x, manifold, counted)
    else:
        sums = _sum_of_chunks(x, manifold, counted)
    if sums[0] != n:
        raise RecordsError(f"{n} records were counted but {int(sums[0])} were met: give records that are the same every time")
    return sums[1:].reshape(counted.shape(manifold))


def _sum_of_chunks(x: Any, manifold: Manifold, summand: Summand) -> Array:
    """The sum over chunks, shared out over the cores and added up in order; rounding is carried along."""
    memory = Memory()

    def work(chunk: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            return summand(chunk), chunk

    high, low = np.zeros(1), np.zeros(1)
    with one_blas_thread():
        for part, chunk in in_order(pool(os.getpid()), work, chunks_of(x, manifold, memory.take)):
            memory.give(chunk)
            high, lost = two_sum(high, part)
            low = low + lost
    return high + low


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


class _OfPersons:
    """One vector for each person."""

    def __init__(self, rows: Rows, of_person: EachPerson) -> None:
        self._rows, self._of_person = rows, of_person

    def __call__(self, records: Array, starts: Indices) -> Array:
        with np.errstate(all="ignore"):
            return self._of_person(self._rows(records), starts)


def _as_they_are(rows: Array) -> Array:
    return rows
