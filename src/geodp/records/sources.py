"""Turns records of any kind into points: arrays, chunks, data frames, files, directories, images, SciPy rotations."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypedDict

import numpy as np

from geodp.files import Found, plan_reading, read_file, read_points, read_table
from geodp.files.arrays import ArrayTable
from geodp.files.frames import FrameTable, as_frame
from geodp.files.messages import FileError
from geodp.files.options import ReadOptions
from geodp.files.parts import Parts, is_in_parts, open_parts
from geodp.files.table import Table
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
    return _load(x, ReadOptions.of(manifold, labels=tuple(labels), **how))


def _load(x: Any, options: ReadOptions) -> Found:
    labels = options.labels
    if is_in_parts(x):
        return _from_parts(open_parts(x, options))
    if isinstance(x, str | os.PathLike):
        return read_file(x, options)
    if options.header is not None or options.mask is not None or options.atlas is not None:
        raise ValueError("header, mask and atlas are for files, and x is not a file: leave them out")
    if isinstance(x, list | tuple) and len(x) == 0:  # no records, or no chunks of them: their number may be private
        return Found(np.empty((0, *options.manifold.point_shape)), [np.empty(0, dtype=object) for _ in labels], None)
    if is_rotation(x) and options.manifold != Rotations(3):
        raise TypeError(f"x holds SciPy rotations, which are points of Rotations(3) and not of {options.manifold}")
    if is_rotation(x):
        return _from_array(as_numpy(x), replace(options, columns=None, layout="auto"))
    if isinstance(x, np.ndarray | Labelled) or is_dask(x):
        return _from_array(x, options)
    with hiding_error_text(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a warning may quote a cell
        if (frame := as_frame(x)) is not None:
            return _with_levels(x, options, frame.collect_schema().names(), lambda options: FrameTable(frame, options))
        chunks = _chunks(x, options)
    if chunks is None:
        return _from_array(x, options)
    # each chunk is read by itself, with its labels
    written = None if options.layout == "auto" else Notation.named(options.manifold, options.layout)
    read = Labelled(lambda: ((found.x, found.labels) for found in (_load(chunk, options) for chunk in chunks())))
    return Found(read, [LabelOf(i) for i in range(len(labels))], written)


def _from_parts(parts: Parts) -> Found:
    """All parts in memory if they fit, or else one after the other."""
    readers, count = parts.readers(), len(parts.options.labels)
    if 8 * parts.rows * math.prod(parts.options.manifold.point_shape) > _KEPT_BYTES:
        return Found(Labelled(lambda: (read() for read in readers)), [LabelOf(i) for i in range(count)], parts.written)
    read = [reader() for reader in readers]
    labels = [joined([cells[i] for _, cells in read]) for i in range(count)]
    return Found(np.concatenate([points for points, _ in read]), labels, parts.written)


def _with_levels(x: Any, options: ReadOptions, columns: Sequence[Any], table: Callable[[ReadOptions], Table] | None) -> Found:
    """The records in a table, or ``x`` itself, with labels of which some may be levels of an index and not columns."""
    levels = {label: cells for label in options.labels if label not in columns and (cells := index_level(x, label)) is not None}
    asked, options = options.labels, replace(options, labels=tuple(label for label in options.labels if label not in levels))
    if table is None and options.labels:
        raise FileError(f"x is of type {type(x).__name__}, whose columns have no names: give one label for each record")
    found = Found(x, [], None) if table is None else read_table(table(options), options)
    rest = iter(found.labels)
    labels = [levels[label] if label in levels else next(rest) for label in asked]
    return Found(found.x, labels, found.written)


def _chunks(x: Any, options: ReadOptions) -> Callable[[], Iterable[Any]] | None:
    """A function that reads the chunks of ``x`` again, or None if it has no chunks."""
    if is_array_like(x) or isinstance(x, Iterator | Mapping):
        return None
    if callable(x):
        return x
    rows = not options.are_points and axes_of_first(x) > 1
    frames = isinstance(x, Sequence) and len(x) > 0 and as_frame(x[0]) is not None
    return (lambda: x) if rows or frames or (not isinstance(x, Sequence) and isinstance(x, Iterable)) else None


def _from_array(x: Any, options: ReadOptions) -> Found:
    """Rows of numbers in an array. Without a layout, the rows are the points."""
    if is_dask(x) and options.labels:
        from geodp.records.dask_files import dask_of, parts_of

        parts = parts_of(x)
        if parts is not None and options.are_points:
            return dask_of(parts.with_labels(options.labels))
    if options.are_points:
        return _with_levels(x, options, (), None)
    if is_dask(x):
        return _from_blocks(x, options)
    return _with_levels(x, options, (), lambda _: ArrayTable("x", as_array(x, hiding_error_text)))


def _from_blocks(x: Any, options: ReadOptions) -> Found:
    da = sys.modules["dask.array"]
    # all blocks have the same type and shape, so one row is enough to choose the layout
    order, choice = plan_reading(ArrayTable("x", np.empty((1, *x.shape[1:]), dtype=x.dtype)), options)
    rows = x.rechunk(dict.fromkeys(range(1, x.ndim), -1))
    shape = options.manifold.point_shape
    points = da.map_blocks(
        partial(_read_rows, options.manifold, order, choice.name),
        rows,
        chunks=(rows.chunks[0], *((size,) for size in shape)),
        drop_axis=list(range(1, x.ndim)),
        new_axis=list(range(1, 1 + len(shape))),
        dtype=np.float64,
        meta=np.empty((0,) * (1 + len(shape))),
    )
    return Found(points, [], Notation(options.manifold, choice))


def _read_rows(manifold: Manifold, order: list[int], layout: str, block: Any) -> Array:
    choice = next(choice for choice in manifold.layouts if choice.name == layout)
    return read_points(ArrayTable("x", np.asarray(block)), manifold, order, choice)[0]
