"""Turns records of any kind into points: arrays, chunks, data frames, files, directories, images, SciPy rotations."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast, final

import numpy as np
from numpy.typing import NDArray

from geodp.files import Found, chosen_columns, plan_reading, read_points, read_table, read_with_labels
from geodp.files.arrays import ArrayTable
from geodp.files.frames import FrameTable, as_frame
from geodp.files.messages import FileError
from geodp.files.options import ReadOptions
from geodp.files.parts import Parts, is_in_parts, open_parts
from geodp.inputs import Array, as_numpy, is_array_like, is_rotation
from geodp.manifolds import Manifold, Rotations
from geodp.manifolds.notation import Notation
from geodp.records.chunks import Labelled, LabelOf, as_array, axes_of_first, hiding_error_text, is_dask
from geodp.records.labels import index_level, joined

#: Files in parts are read into memory if their points take at most this many bytes.
_KEPT_BYTES = 1 << 29


class Columns(TypedDict, total=False):
    """How columns become points, as for :func:`geodp.files.read_records`; ``header``, ``mask`` and ``atlas`` are for files."""

    columns: Sequence[str | int] | str | None
    layout: str | None
    header: bool | None
    mask: Any
    atlas: Any


def is_column(label: Any) -> bool:
    """Whether this is the name of a column of labels and not the labels themselves."""
    return isinstance(label, str | int) and not isinstance(label, bool)


def load(x: Any, manifold: Manifold, labels: Sequence[str | int] = (), **how: Any) -> Found:
    """Records of any kind as points of the manifold, with their columns ``labels``.

    Labels of records in chunks come with the chunks: they are of the type :class:`geodp.records.chunks.LabelOf`.
    """
    return _Source(manifold, tuple(labels), **how).load(x)


@final
@dataclass(frozen=True)
class _Source:
    manifold: Manifold
    labels: tuple[str | int, ...]
    columns: Sequence[str | int] | str | None = None
    layout: str | None = None
    header: bool | None = None
    mask: Any = None
    atlas: Any = None

    @property
    def _options(self) -> ReadOptions:
        columns, layout = chosen_columns(self.columns), self.layout or "auto"
        return ReadOptions(self.manifold, columns, layout, self.header, labels=self.labels, mask=self.mask, atlas=self.atlas)

    def load(self, x: Any) -> Found:
        if is_in_parts(x):
            return self._from_parts(open_parts(x, self._options))
        if isinstance(x, str | os.PathLike):
            how = {"columns": self.columns, "layout": self.layout or "auto", "header": self.header}
            return read_with_labels(x, self.manifold, self.labels, **cast(Any, how), mask=self.mask, atlas=self.atlas)
        if self.header is not None or self.mask is not None or self.atlas is not None:
            raise ValueError("header, mask and atlas are for files, and x is not a file: leave them out")
        if isinstance(x, list | tuple) and len(x) == 0:  # no records, or no chunks of them: their number may be private
            return Found(np.empty((0, *self.manifold.point_shape)), [np.empty(0, dtype=object) for _ in self.labels], None)
        if is_rotation(x):
            return self._from_scipy(x)
        if isinstance(x, np.ndarray | Labelled) or is_dask(x):
            return self._from_array(x)
        with hiding_error_text(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a warning may quote a cell
            if (frame := as_frame(x)) is not None:
                return self._from_frame(x, frame)
            chunks = self._chunks(x)
        return self._from_array(x) if chunks is None else self._from_chunks(chunks)

    def _from_parts(self, parts: Parts) -> Found:
        """All parts in memory if they fit, or else one after the other."""
        readers = parts.readers()
        if 8 * parts.rows * math.prod(self.manifold.point_shape) > _KEPT_BYTES:
            return Found(Labelled(lambda: (read() for read in readers)), self._labels_of_chunks(), parts.written)
        read = [reader() for reader in readers]
        labels = [joined([cells[i] for _, cells in read]) for i in range(len(self.labels))]
        return Found(np.concatenate([points for points, _ in read]), labels, parts.written)

    def _from_frame(self, x: Any, frame: Any) -> Found:
        """The columns of a frame; a label may also be a level of its index."""
        columns = frame.collect_schema().names()
        levels = {label: cells for label in self.labels if label not in columns and (cells := index_level(x, label)) is not None}
        options = self._without(levels)
        found = read_table(FrameTable(frame, options), options)
        return Found(found.x, self._merged(found.labels, levels), found.written)

    def _without(self, known: Mapping[Any, Any]) -> ReadOptions:
        own = _Source(self.manifold, tuple(label for label in self.labels if label not in known), self.columns, self.layout)
        return own._options

    def _merged(self, labels: list[Any], known: Mapping[Any, Any]) -> list[Any]:
        rest = iter(labels)
        return [known[label] if label in known else next(rest) for label in self.labels]

    def _chunks(self, x: Any) -> Callable[[], Iterable[Any]] | None:
        """A function that reads the chunks of ``x`` again, or None if it has no chunks."""
        if is_array_like(x) or isinstance(x, Iterator | Mapping):
            return None
        if callable(x):
            return x
        rows = (self.columns is not None or self.layout is not None) and axes_of_first(x) > 1
        frames = isinstance(x, Sequence) and len(x) > 0 and as_frame(x[0]) is not None
        return (lambda: x) if rows or frames or (not isinstance(x, Sequence) and isinstance(x, Iterable)) else None

    def _from_scipy(self, x: Any) -> Found:
        if self.manifold != Rotations(3):
            raise TypeError(f"x holds SciPy rotations, which are points of Rotations(3) and not of {self.manifold}")
        self._check_plain(x)
        return Found(as_numpy(x), [], None)

    def _from_array(self, x: Any) -> Found:
        """Rows of numbers in an array. Without a layout, the rows are the points."""
        if is_dask(x) and self.labels:
            return self._from_blocks_of_files(x)
        levels = {label: cells for label in self.labels if (cells := index_level(x, label)) is not None}
        if self.columns is None and self.layout is None and len(levels) == len(self.labels):
            return Found(x, self._merged([], levels), None)
        if self.columns is None and self.layout is None:
            self._check_plain(x)
        if is_dask(x):
            return self._from_blocks(x)
        options = self._without(levels)
        found = read_table(ArrayTable("x", as_array(x, hiding_error_text)), options)
        return Found(found.x, self._merged(found.labels, levels), found.written)

    def _from_blocks_of_files(self, x: Any) -> Found:
        from geodp.records.dask_files import dask_of, parts_of

        parts = parts_of(x)
        if parts is None or self.columns is not None or self.layout is not None:
            self._check_plain(x)
        assert parts is not None
        found = dask_of(parts.with_labels(self.labels))
        return Found(found.x, found.labels, found.written)

    def _from_blocks(self, x: Any) -> Found:
        da = sys.modules["dask.array"]
        # all blocks have the same type and shape, so one row is enough to choose the layout
        order, choice = plan_reading(ArrayTable("x", np.empty((1, *x.shape[1:]), dtype=x.dtype)), self._options)
        rows = x.rechunk(dict.fromkeys(range(1, x.ndim), -1))
        shape = self.manifold.point_shape
        points = da.map_blocks(
            _ReadBlock(self.manifold, order, choice.name),
            rows,
            chunks=(rows.chunks[0], *((size,) for size in shape)),
            drop_axis=list(range(1, x.ndim)),
            new_axis=list(range(1, 1 + len(shape))),
            dtype=np.float64,
            meta=np.empty((0,) * (1 + len(shape))),
        )
        return Found(points, [], Notation(self.manifold, choice))

    def _from_chunks(self, chunks: Callable[[], Iterable[Any]]) -> Found:
        """Reads each chunk by itself, with its labels."""

        def read() -> Iterator[tuple[Any, list[NDArray[Any]]]]:
            return ((found.x, found.labels) for found in map(self.load, chunks()))

        written = None if self.layout in (None, "auto") else Notation.named(self.manifold, self.layout)
        return Found(Labelled(read), self._labels_of_chunks(), written)

    def _labels_of_chunks(self) -> list[Any]:
        return [LabelOf(i) for i in range(len(self.labels))]

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
        return read_points(ArrayTable("x", np.asarray(block)), self.manifold, self.order, choice)[0]
