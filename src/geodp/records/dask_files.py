"""Dask arrays of records from Parquet, CSV, Zarr and NumPy files, for data that are larger than memory.

A file, or a directory of parts, is cut into blocks of rows. The worker that sums a block reads it, each time it is needed. So
the workers must find the files under the same name, and the files must not change while a mean is computed. Rows are read as
in :mod:`geodp.files`: the layouts are the same, a row that is not a record becomes NaN, and messages quote only public things.
The layout is chosen once for all parts, from the names and types of the columns or the shape and type of the array, before any
record is read.

==========================  ==========================================================================================
``records.parquet``         a Parquet file; a block is one or more of its row groups
``records/*.parquet``       a directory of them, also in sub-directories, with the same columns
``records.zarr``            a Zarr array, or a group with one array, or one called ``x`` or ``records``
``records.npy``             a NumPy array
``records/*.npy``           a directory of them, also in sub-directories, with rows of the same shape
``records.csv``             a text file, also ``.tsv``; it is read once to find where its lines begin
``records/*.csv``           a directory of them, also in sub-directories, with the same header
==========================  ==========================================================================================

Parts are read in the order of their names. Files whose name begins with a dot or an underscore are ignored.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from geodp.files import FileError, Found, as_labels, chosen_columns, layouts, notation_of, plan_reading, read_points
from geodp.files.arrays import ArrayTable, load_array
from geodp.files.lines import CsvTable, LineFormat, Lines, open_csv
from geodp.files.options import ReadOptions
from geodp.files.parquet import ParquetTable, arrow_for, parquet_file
from geodp.files.table import Table
from geodp.inputs import Array
from geodp.manifolds import Manifold

try:
    import dask.array as da
    import distributed
except ImportError:  # an extra: ``from geodp import *`` must not need it
    da = distributed = None

#: About how many bytes of records a block has: little compared to a worker's memory, much compared to the cost of a task.
_BLOCK_BYTES = 1 << 25

#: How long to wait for the scheduler of a cluster.
_PATIENCE = "10s"

#: Files that are read in blocks, besides Zarr.
_READ = (".parquet", ".npy", ".csv", ".tsv")
_KINDS = ", ".join(_READ)

_ZARR_MARKS = ("zarr.json", ".zarray", ".zgroup")


def read_dask(
    path: str | os.PathLike[str],
    manifold: Manifold,
    *,
    columns: Sequence[str | int] | str | None = None,
    layout: str = "auto",
    header: bool | None = None,
) -> da.Array:
    """The records in a file or directory as a Dask array of shape ``(n, *point_shape)``. They are read when needed.

    ``columns``, ``layout`` and ``header`` are those of :func:`geodp.files.read_records`. All blocks have known sizes.

    >>> from geodp import SPD
    >>> read_dask("tensors", SPD(3))
    Traceback (most recent call last):
        ...
    geodp.files.FileError: there is no file or directory tensors
    """
    return read_dask_with_labels(path, manifold, (), columns=columns, layout=layout, header=header).x


def read_dask_with_labels(
    path: str | os.PathLike[str],
    manifold: Manifold,
    labels: Sequence[str | int],
    *,
    columns: Sequence[str | int] | str | None = None,
    layout: str = "auto",
    header: bool | None = None,
) -> Found:
    """The records as in :func:`read_dask`, and the columns ``labels`` as Dask arrays with the same blocks."""
    check_installed()
    source = Path(path).absolute()
    try:
        options = ReadOptions(manifold, chosen_columns(columns), layout, header, labels=tuple(labels))
        parts = _parts(source, Path(path), options)
        sample = parts[0].sample()
        order, choice = plan_reading(sample, options)
        label_columns = sample.pick(options.labels)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None
    cells: NDArray[Any] = np.empty(len(parts), dtype=object)
    cells[:] = parts
    blocks = da.from_array(cells, chunks=1, name=False)
    sizes = tuple(part.rows for part in parts)
    shape = manifold.point_shape
    points = da.map_blocks(
        partial(_read_block, manifold, order, choice.name),
        blocks,
        chunks=(sizes, *((size,) for size in shape)),
        new_axis=list(range(1, 1 + len(shape))),
        dtype=np.float64,
        meta=np.empty((0,) * (1 + len(shape))),
    )
    found = [
        da.map_blocks(partial(_read_labels, i), blocks, chunks=(sizes,), dtype=object, meta=np.empty(0, dtype=object))
        for i in label_columns
    ]
    return Found(points, found, notation_of(sample, manifold, order, choice))


def check_installed() -> None:
    """An ``ImportError`` if Dask, which is an extra, is not installed."""
    if da is None:
        raise ImportError("Dask is not installed: pip install 'geodp[dask]'")


@contextmanager
def cluster(address: str) -> Iterator[None]:
    """Computes on the cluster with the scheduler at this address; ``local`` starts one here, with one process a core."""
    check_installed()
    if address == "local":
        with (
            # failures come back to this process; a log could leak data
            distributed.LocalCluster(
                threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
            ) as local,
            distributed.Client(local),
        ):
            yield
        return
    try:
        # a default client would stay the default if nobody answered, and everything later would wait for it
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError):
        raise FileError(f"no Dask scheduler answers at {address}: give its address, such as tcp://host:8786, or local") from None
    with client, client.as_current():
        yield


def _read_block(manifold: Manifold, order: list[int], layout: str, cell: NDArray[Any]) -> Array:
    choice = next(choice for choice in layouts(manifold) if choice.name == layout)

    def read(part: _Part) -> Array:
        table, positions = part.table(order)
        return read_points(table, manifold, positions, choice)

    return _read(cell[0], read)


def _read_labels(column: int, cell: NDArray[Any]) -> NDArray[Any]:
    def read(part: _Part) -> NDArray[Any]:
        table, positions = part.table([column])
        return as_labels(table.texts(positions[0]))

    return _read(cell[0], read)


def _read(part: _Part, read: Callable[[_Part], NDArray[Any]]) -> NDArray[Any]:
    try:
        rows = read(part)
    except FileError:
        raise
    # the reader's message about a damaged file may quote it
    except Exception as error:
        raise FileError(f"{part.path} cannot be read: {type(error).__name__}") from None
    if len(rows) != part.rows:
        raise FileError(f"{part.path} has changed since it was opened: leave files alone until the release is made")
    return rows


@dataclass(frozen=True)
class _Part(ABC):
    """Consecutive rows of a file."""

    path: Path
    rows: int

    @abstractmethod
    def sample(self) -> Table:
        """A table with the columns of this part, for choosing the layout."""

    @abstractmethod
    def table(self, columns: list[int]) -> tuple[Table, list[int]]:
        """A table with these columns of the rows, and the positions of the columns in it."""


@final
@dataclass(frozen=True)
class _ArrayPart(_Part):
    start: int
    shape: tuple[int, ...]  # of the whole array
    dtype: np.dtype[Any]
    name: str | None = None  # in a Zarr group

    def sample(self) -> Table:
        # only its type and shape matter, so all entries share one zero in memory
        return ArrayTable(self.path, np.broadcast_to(np.zeros((), dtype=self.dtype), self.shape))

    def table(self, columns: list[int]) -> tuple[Table, list[int]]:
        stored = _open_npy(self.path) if self.path.suffix == ".npy" else _zarr_array(self.path, self.name)
        rows = np.array(stored[self.start : self.start + self.rows])
        return ArrayTable(self.path, rows), columns


@final
@dataclass(frozen=True)
class _ParquetPart(_Part):
    groups: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]]

    def sample(self) -> Table:
        with parquet_file(self.path) as file:
            return ParquetTable(self.path, file.schema_arrow.empty_table(), arrow_for(self.path), self.shapes)

    def table(self, columns: list[int]) -> tuple[Table, list[int]]:
        read = sorted(set(columns))
        with parquet_file(self.path) as file:
            names = file.schema_arrow.names
            wanted = [names[i] for i in read]
            unique = len(set(names)) == len(names)
            table = file.read_row_groups(self.groups, columns=wanted if unique else None)
            table = table.select(wanted if unique else read)
        return ParquetTable(self.path, table, arrow_for(self.path), self.shapes), [read.index(i) for i in columns]


@final
@dataclass(frozen=True)
class _CsvPart(_Part):
    start: int
    stop: int
    form: LineFormat

    def sample(self) -> Table:
        return CsvTable(Lines(self.path), self.form, self.rows)

    def table(self, columns: list[int]) -> tuple[Table, list[int]]:
        return CsvTable(Lines(self.path, self.start, self.stop), self.form, self.rows), columns


def _parts(source: Path, shown: Path, options: ReadOptions) -> list[_Part]:
    """The blocks of a source with records; one without if there are none."""
    if not source.exists():
        raise FileError(f"there is no file or directory {shown}")
    block = max(1, _BLOCK_BYTES // (8 * math.prod(options.manifold.point_shape)))
    if source.is_dir() and (source.suffix == ".zarr" or any((source / mark).exists() for mark in _ZARR_MARKS)):
        parts = list(_zarr_parts(source, block))
    else:
        files = _files(source, shown)
        match files[0].suffix:
            case ".parquet":
                parts = list(_parquet_parts(files, block, options))
            case ".npy":
                parts = list(_npy_parts(files, block))
            case _:
                parts = list(_csv_parts(files, options))
    return [part for part in parts if part.rows > 0] or parts[:1]


def _files(source: Path, shown: Path) -> list[Path]:
    if source.is_dir():
        below = (path for path in source.rglob("*") if path.suffix in _READ and path.is_file())
        hidden = (".", "_")
        files = sorted(path for path in below if not any(name.startswith(hidden) for name in path.relative_to(source).parts))
        kinds = {path.suffix for path in files}
        if len(kinds) > 1:
            found = " and ".join(sorted(kinds))
            raise FileError(f"the directory {shown} holds {found} files: put each kind into its own directory")
        if not kinds:
            raise FileError(f"the directory {shown} holds no {_KINDS} files and is not a Zarr array")
        return files
    if source.suffix not in _READ:
        advice = ": unpack it first" if source.suffix == ".gz" else ""
        raise FileError(f"Dask cannot read {shown} in blocks, only {_KINDS} and .zarr files and directories{advice}")
    return [source]


def _npy_parts(files: list[Path], block: int) -> Iterator[_Part]:
    first: tuple[Path, tuple[int, ...]] | None = None
    for path in files:
        array = _open_npy(path)
        first = first or (path, array.shape)
        if array.shape[1:] != first[1][1:]:
            raise FileError(f"{path} holds an array of shape {array.shape}, but {first[0]} one of shape {first[1]}")
        if array.ndim == 0:
            raise FileError(f"{path} holds an array of shape (), which has no records")
        for start, stop in _ranges(len(array), block):
            yield _ArrayPart(path, stop - start, start, array.shape, array.dtype)


def _open_npy(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        array = load_array(path, file)[1]
    if array is None:
        raise FileError(f"{path} is not a NumPy file of one array")
    return array


def _zarr_parts(source: Path, block: int) -> Iterator[_Part]:
    name = _zarr_name(source)
    array = _zarr_array(source, name)
    if array.ndim == 0:
        raise FileError(f"{source} holds an array of shape (), which has no records")
    stored = (getattr(array, "shards", None) or array.chunks)[0]
    for start, stop in _ranges(array.shape[0], max(1, block // stored) * stored):
        yield _ArrayPart(source, stop - start, start, tuple(array.shape), np.dtype(array.dtype), name)


def _zarr_name(source: Path) -> str | None:
    """The name of the array in a group, or None if the source itself is an array."""
    stored = _open_zarr(source)
    if hasattr(stored, "shape"):
        return None
    names = sorted(name for name, _ in stored.arrays())
    likely = names if len(names) == 1 else [name for name in names if name.lower() in ("x", "records")]
    if len(likely) != 1:
        raise FileError(f"{source} holds {len(names)} arrays: call the one with the records x or records")
    return likely[0]


def _zarr_array(source: Path, name: str | None) -> Any:
    stored = _open_zarr(source)
    return stored if name is None else stored[name]


def _open_zarr(source: Path) -> Any:
    try:
        zarr = importlib.import_module("zarr")
    except ImportError:
        raise FileError(f"reading {source} needs zarr: pip install 'geodp[dask]'") from None
    try:
        return zarr.open(str(source), mode="r")
    except Exception:
        raise FileError(f"{source} is not a Zarr array or group that zarr can read") from None


def _parquet_parts(files: list[Path], block: int, options: ReadOptions) -> Iterator[_Part]:
    first: ParquetTable | None = None
    for path in files:
        with parquet_file(path) as file:
            schema = file.schema_arrow
            rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        first = first or ParquetTable(path, schema.empty_table(), arrow_for(path), options)
        if schema.names != first.table.column_names:
            raise FileError(f"the columns of {path} differ from those of {first.path}")
        for groups in _runs(rows, block):
            yield _ParquetPart(path, sum(rows[i] for i in groups), groups, first.shapes)


def _csv_parts(files: list[Path], options: ReadOptions) -> Iterator[_Part]:
    """Ranges of bytes that end at the end of a line. Finding them reads the file once, a few megabytes at a time."""
    first: CsvTable | None = None
    for path in files:
        table = open_csv(path, options)
        first = first or table
        if table.form.encoding == "utf-16":
            raise FileError(f"{path} is in UTF-16, which cannot be read in blocks: save it as UTF-8")
        if table.form != first.form:
            raise FileError(f"the header of {path} differs from that of {first.path}")
        if table.records == 0:
            yield _CsvPart(path, 0, 0, 0, table.form)
        done = -table.form.start  # the header is not a record
        for start, stop, lines in _line_ranges(path):
            rows, done = min(lines, done + lines), done + lines
            if rows > 0:
                yield _CsvPart(path, rows, start, stop, table.form)
        if done != table.records:
            raise FileError(f"{path} changed while it was read")


def _line_ranges(path: Path) -> Iterator[tuple[int, int, int]]:
    """Ranges of whole lines: the first byte, the end and the number of lines of each."""
    with path.open("rb") as file:
        start, size = 0, path.stat().st_size
        while start < size:
            file.seek(start + _BLOCK_BYTES)
            file.readline()  # move to the end of the line in which the block would end
            stop = min(file.tell(), size)
            lines = sum(len(block) for block in Lines(path, start, stop).blocks("utf-8"))
            yield start, stop, lines
            start = stop


def _runs(rows: list[int], block: int) -> Iterator[tuple[int, ...]]:
    """Consecutive row groups with at most ``block`` rows in all, or one larger row group; without empty ones, which alone are
    one run of none."""
    run: list[int] = []
    for i, count in enumerate(rows):
        if run and sum(rows[j] for j in run) + count > block:
            yield tuple(run)
            run = []
        if count:
            run.append(i)
    if run or not any(rows):
        yield tuple(run)


def _ranges(count: int, most: int) -> Iterator[tuple[int, int]]:
    for start in range(0, max(1, count), most):  # one range of none, if there are none
        yield start, min(start + most, count)
