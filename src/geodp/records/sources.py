"""Turns records of any kind into points: arrays, chunks, data frames, files, SciPy rotations."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast, final

import numpy as np

from geodp.files import Found, chosen_columns, plan_reading, read_points, read_table, read_with_labels
from geodp.files.arrays import ArrayTable
from geodp.files.messages import FileError
from geodp.files.options import ReadOptions
from geodp.inputs import Array, as_numpy, is_array_like, is_rotation
from geodp.manifolds import Manifold, Rotations
from geodp.manifolds.notation import Notation
from geodp.records.chunks import as_array, axes_of_first, hiding_error_text, is_dask
from geodp.records.frames import FrameTable, as_frame


class Columns(TypedDict, total=False):
    """How columns become points, as for :func:`geodp.files.read_records`; ``header`` and ``mask`` are for files only."""

    columns: Sequence[str | int] | str | None
    layout: str | None
    header: bool | None
    mask: str | os.PathLike[str] | None


def is_column(label: Any) -> bool:
    """Whether this is the name of a column of labels and not the labels themselves."""
    return isinstance(label, str | int) and not isinstance(label, bool)


def load(x: Any, manifold: Manifold, labels: Sequence[str | int] = (), **how: Any) -> Found:
    """Records of any kind as points of the manifold, with their columns ``labels``."""
    return _Source(manifold, tuple(labels), **how).load(x)


@final
@dataclass(frozen=True)
class _Source:
    manifold: Manifold
    labels: tuple[str | int, ...]
    columns: Sequence[str | int] | str | None = None
    layout: str | None = None
    header: bool | None = None
    mask: str | os.PathLike[str] | None = None

    @property
    def _options(self) -> ReadOptions:
        return ReadOptions(self.manifold, chosen_columns(self.columns), self.layout or "auto", labels=self.labels)

    def load(self, x: Any) -> Found:
        if isinstance(x, str | os.PathLike):
            how = {"columns": self.columns, "layout": self.layout or "auto", "header": self.header, "mask": self.mask}
            return read_with_labels(x, self.manifold, self.labels, **cast(Any, how))
        if self.header is not None or self.mask is not None:
            raise ValueError("header and mask are for files, and x is not a file: leave them out")
        if isinstance(x, list | tuple) and len(x) == 0:  # no records, or no chunks of them: their number may be private
            return Found(np.empty((0, *self.manifold.point_shape)), [np.empty(0, dtype=object) for _ in self.labels], None)
        if is_rotation(x):
            return self._from_scipy(x)
        if isinstance(x, np.ndarray) or is_dask(x):
            return self._from_array(x)
        with hiding_error_text(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a warning may quote a cell
            if (frame := as_frame(x)) is not None:
                return read_table(FrameTable(frame, self._options), self._options)
            chunks = self._chunks(x)
        return self._from_array(x) if chunks is None else self._from_chunks(chunks)

    def _chunks(self, x: Any) -> Callable[[], Iterable[Any]] | None:
        """A function that reads the chunks of ``x`` again, or None if it has no chunks."""
        if is_array_like(x) or isinstance(x, Iterator | Mapping):
            return None
        if callable(x):
            return x
        told = self.columns is not None or self.layout is not None
        rows = told and axes_of_first(x) > 1
        frames = isinstance(x, Sequence) and len(x) > 0 and as_frame(x[0]) is not None
        return (lambda: x) if rows or frames or (not isinstance(x, Sequence) and isinstance(x, Iterable)) else None

    def _from_scipy(self, x: Any) -> Found:
        if self.manifold != Rotations(3):
            raise TypeError(f"x holds SciPy rotations, which are points of Rotations(3) and not of {self.manifold}")
        self._check_plain(x)
        return Found(as_numpy(x), [], None)

    def _from_array(self, x: Any) -> Found:
        """Rows of numbers in an array. Without a layout, the rows are the points."""
        if self.columns is None and self.layout is None:
            self._check_plain(x)
            return Found(x, [], None)
        if is_dask(x):
            return self._from_blocks(x)
        array = as_array(x, hiding_error_text)
        return read_table(ArrayTable("x", array), self._options)

    def _from_blocks(self, x: Any) -> Found:
        da = sys.modules["dask.array"]
        # all blocks have the same type and shape, so one row is enough to choose the layout
        order, choice = plan_reading(ArrayTable("x", np.empty((1, *x.shape[1:]), dtype=x.dtype)), self._options)
        read = _ReadBlock(self.manifold, order, choice.name)
        whole = x.rechunk(dict.fromkeys(range(1, x.ndim), -1))
        shape = self.manifold.point_shape
        points = da.map_blocks(
            read,
            whole,
            chunks=(whole.chunks[0], *((size,) for size in shape)),
            drop_axis=list(range(1, x.ndim)),
            new_axis=list(range(1, 1 + len(shape))),
            dtype=np.float64,
            meta=np.empty((0,) * (1 + len(shape))),
        )
        return Found(points, [], Notation(self.manifold, choice))

    def _from_chunks(self, chunks: Callable[[], Iterable[Any]]) -> Found:
        """Reads each chunk by itself. The labels come from a second function, which reads the chunks again."""

        def points() -> Iterator[Any]:
            return (self.load(chunk).x for chunk in chunks())

        def labels_of(i: int) -> Callable[[], Iterator[Any]]:
            return lambda: (self.load(chunk).labels[i] for chunk in chunks())

        written = None if self.layout in (None, "auto") else Notation.named(self.manifold, self.layout)
        return Found(points, [labels_of(i) for i in range(len(self.labels))], written)

    def _check_plain(self, x: Any) -> None:
        if self.labels:
            raise FileError(f"x is of type {type(x).__name__}, whose columns have no names: give one label for each record")


@final
@dataclass(frozen=True)
class _ReadBlock:
    manifold: Manifold
    order: list[int]
    layout: str

    def __call__(self, block: Any) -> Array:
        choice = next(choice for choice in self.manifold.layouts if choice.name == self.layout)
        return read_points(ArrayTable("x", np.asarray(block)), self.manifold, self.order, choice)
