"""One pass over the records that adds up numbers: counts, sums of vectors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.functions import two_sum
from geodp.records.chunks import Memory, changed, chunks_of, in_order, is_dask, one_blas_thread, pool
from geodp.records.labels import Indices
from geodp.records.persons import EachPerson, Persons

#: A function from records to vectors, one row a record, that treats each record by itself.
Rows = Callable[[Array], Array]
#: A function of such vectors that returns the array to add up. Its shape is public.
Summand = Callable[[Array], Array]
Part = TypeVar("Part")


def total(rows: Array) -> Array:
    """The sum of the vectors themselves."""
    return rows.sum(axis=0)


def averages(rows: Array, starts: Indices) -> Array:
    """The mean of each person's vectors."""
    return np.add.reduceat(rows, starts, axis=0) / np.diff(starts, append=len(rows))[:, None]


def medians(rows: Array, starts: Indices) -> Array:
    """The lower median of each person's numbers. ``rows`` has one column."""
    sizes = np.diff(starts, append=len(rows))
    order = np.lexsort((rows[:, 0], np.repeat(np.arange(len(starts)), sizes)))
    return rows[order[starts + (sizes - 1) // 2]]


def sum_over(x: Any, manifold: Manifold, rows: Rows, n: int, summand: Summand = total, of_person: EachPerson = averages) -> Array:
    """The sum of ``summand(rows(chunk))`` over the chunks of ``x``, in order, which hold ``n`` records or ``n`` persons.

    ``of_person`` makes one vector from each person's. None of the three functions may raise for any value; ``rows`` may
    change the records, which are copies.
    """
    if isinstance(x, Persons):
        return sum_over(*_averaged(x, manifold, rows, of_person), identity, n, summand)
    counted = _Counted(rows, summand)
    if is_dask(x):
        from geodp.records.dask_arrays import sum_rows

        sums = np.asarray(sum_rows(x, manifold, counted), dtype=np.float64)
    else:
        # keep the rounding errors of the sum and add them at the end
        high, low = np.zeros(1), np.zeros(1)
        for part in _of_chunks(x, manifold, counted):
            high, lost = two_sum(high, part)
            low = low + lost
        sums = high + low
    _check_count(int(sums[0]), n)
    return sums[1:].reshape(counted.shape(manifold))


def _averaged(x: Persons, manifold: Manifold, rows: Rows, of_person: EachPerson) -> tuple[Any, Euclidean]:
    """The vectors of persons, as a source of points."""
    dim = rows(np.full((1, *manifold.point_shape), np.nan)).shape[1]
    return x.each(_OfPersons(rows, of_person)), Euclidean(dim)


def _check_count(met: int, n: int) -> None:
    if met != n:
        raise changed()


def _of_chunks(x: Any, manifold: Manifold, function: Callable[[Array], Part]) -> Iterator[Part]:
    """The function's result for each chunk, in order, computed on all cores."""
    memory = Memory()

    def work(chunk: Array) -> tuple[Part, Array]:
        with np.errstate(all="ignore"):
            return function(chunk), chunk

    with one_blas_thread():
        for part, chunk in in_order(pool(os.getpid()), work, chunks_of(x, manifold, memory.take)):
            memory.give(chunk)
            yield part


class _Counted:
    """The number of rows, followed by the flattened summand."""

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


def identity(rows: Array) -> Array:
    return rows
