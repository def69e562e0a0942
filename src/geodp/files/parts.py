"""Records in several files, or in a file that is too large to be read at once: ranges of rows, called parts, read one by one.

The layout is chosen once for all parts, from the names and types of the columns or the shape and type of the array, before any
record is read. Parts are in the order of the names of their files. Files whose name begins with a dot or an
underscore are ignored.
"""

from __future__ import annotations

import importlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from geodp.files import FileError, layouts, notation_of, plan_reading, read_points
from geodp.files.arrays import ArrayTable, load_array
from geodp.files.images import IMAGES, Grid, image_table, is_image, open_grid
from geodp.files.lines import CsvTable, LineFormat, Lines, open_csv
from geodp.files.options import ReadOptions
from geodp.files.parquet import ParquetTable, parquet_file
from geodp.files.table import Table
from geodp.inputs import Array
from geodp.manifolds.notation import Notation

#: About how many bytes of records a part has: little compared to the memory of a machine, much compared to the cost of a task.
_PART_BYTES = 1 << 25

#: Files that are read in parts, besides Zarr.
_READ = (".parquet", ".npy", ".csv", ".tsv", *IMAGES)

_ZARR_MARKS = ("zarr.json", ".zarray", ".zgroup")


@final
@dataclass(frozen=True)
class Parts:
    """The parts of a source, and how all of them are read."""

    parts: tuple[Part, ...]
    options: ReadOptions

    @property
    def written(self) -> Notation:
        order, choice = plan_reading(self._sample, self.options)
        return notation_of(self._sample, self.options.manifold, order, choice)

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def _sample(self) -> Table:
        return self.parts[0].sample()

    def with_labels(self, labels: Sequence[str | int]) -> Parts:
        """The same parts, of which the columns ``labels`` are read too."""
        order, choice = plan_reading(self._sample, self.options)
        chosen = self.options.columns or (order if choice.columns == len(order) else None)
        return Parts(self.parts, replace(self.options, columns=chosen, layout=choice.name, labels=tuple(labels)))

    def readers(self) -> list[PartReader]:
        """What reads each part: small, and fit to be sent to a worker."""
        sample = self._sample
        order, choice = plan_reading(sample, self.options)
        labels = sample.pick(self.options.labels)
        return [PartReader(part, self.options, tuple(order), choice.name, tuple(labels)) for part in self.parts]


@final
@dataclass(frozen=True)
class PartReader:
    part: Part
    options: ReadOptions
    order: tuple[int, ...]
    layout: str
    labels: tuple[int, ...]

    def __call__(self) -> tuple[Array, list[NDArray[Any]]]:
        """The points and labels of the part, from one read."""
        part, manifold = self.part, self.options.manifold
        choice = next(choice for choice in layouts(manifold) if choice.name == self.layout)
        try:
            table, positions = part.table([*self.order, *self.labels])
            points, labels = read_points(table, manifold, positions[: len(self.order)], choice, positions[len(self.order) :])
        except FileError:
            raise
        # the reader's message about a damaged file may quote it
        except Exception as error:
            raise FileError(f"{part.path} cannot be read: {type(error).__name__}") from None
        if len(points) != part.rows:
            raise FileError(f"{part.path} has changed since it was opened: leave files alone until the release is made")
        return points, labels


@dataclass(frozen=True)
class Part(ABC):
    """Consecutive rows of a file."""

    path: Path
    rows: int

    @abstractmethod
    def sample(self) -> Table:
        """A table with the columns of this part, for choosing the layout."""

    @abstractmethod
    def table(self, columns: list[int]) -> tuple[Table, list[int]]:
        """A table with these columns of the rows, and the positions of the columns in it."""


def is_in_parts(x: Any) -> bool:
    """Whether this is a directory, an image in memory, or a list of files or images."""
    if isinstance(x, str | os.PathLike):
        return Path(x).is_dir()
    if type(x) in (list, tuple):  # a kind of list may be somebody's reader
        return len(x) > 0 and all(isinstance(each, str | os.PathLike) or is_image(each) for each in x)
    return is_image(x)


def are_images(x: Any) -> bool:
    """Whether this is a directory or a list of images, each of which is of one person."""
    if not is_in_parts(x) or is_image(x):
        return False
    first = next(Path(x).iterdir(), "") if isinstance(x, str | os.PathLike) else x[0]
    return is_image(first) or str(first).lower().endswith(IMAGES)


def open_parts(x: Any, options: ReadOptions) -> Parts:
    """The parts of a file, a directory, or a list of files or of images; one without rows if there are no records."""
    block = max(1, _PART_BYTES // (8 * math.prod(options.manifold.point_shape)))
    try:
        parts = list(_parts_of(x, block, options))
    except OSError as error:
        raise FileError(f"the records cannot be read: {error.strerror or type(error).__name__}") from None
    return Parts(tuple([part for part in parts if part.rows > 0] or parts[:1]), options)


def _parts_of(x: Any, block: int, options: ReadOptions) -> Iterator[Part]:
    if isinstance(x, list | tuple) or is_image(x):
        files: list[Any] = list(x) if isinstance(x, list | tuple) else [x]
    else:
        source = Path(x).absolute()
        if not source.exists():
            raise FileError(f"there is no file or directory {x}")
        if source.is_dir() and (source.suffix == ".zarr" or any((source / mark).exists() for mark in _ZARR_MARKS)):
            return _zarr_parts(source, block)
        files = _files(source, Path(x))
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise FileError(f"these are {' and '.join(sorted(kinds))} files: give files of one kind")
    kind = next(iter(kinds))
    if kind == ".nii":
        return _image_parts(files, options)
    options.refuse_masks(files[0])
    paths = [Path(file) for file in files]
    if missing := [path for path in paths if not path.is_file()]:
        raise FileError(f"there is no file {missing[0]}")
    if kind == ".parquet":
        return _parquet_parts(paths, block, options)
    return _npy_parts(paths, block) if kind == ".npy" else _csv_parts(paths, options)


def _kind(file: Any) -> str:
    """The ending of the name of a file that can be read in parts."""
    if is_image(file):
        return ".nii"
    name = Path(file).name.lower()
    kind = next((kind for kind in sorted(_READ, key=len, reverse=True) if name.endswith(kind)), None)
    if kind is None:
        advice = ": unpack it first" if name.endswith(".gz") else ""
        raise FileError(f"{file} cannot be read in parts, only {', '.join(_READ)} and .zarr files and directories{advice}")
    return ".nii" if kind == ".nii.gz" else kind


def _files(source: Path, shown: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    below = (path for path in source.rglob("*") if path.name.lower().endswith(_READ) and path.is_file())
    hidden = (".", "_")
    files = sorted(path for path in below if not any(name.startswith(hidden) for name in path.relative_to(source).parts))
    kinds = {_kind(path) for path in files}
    if len(kinds) > 1:
        found = " and ".join(sorted(kinds))
        raise FileError(f"the directory {shown} holds {found} files: put each kind into its own directory")
    if not kinds:
        raise FileError(f"the directory {shown} holds no {', '.join(_READ)} files and is not a Zarr array")
    return files


@final
@dataclass(frozen=True)
class _ImagePart(Part):
    image: Any
    number: int
    grid: Grid
    options: ReadOptions

    def sample(self) -> Table:
        return image_table(self.image, replace(self.grid, chosen=np.zeros_like(self.grid.chosen)), self.options, self.number)

    def table(self, columns: list[int]) -> tuple[Table, list[int]]:
        return image_table(self.image, self.grid, self.options, self.number), columns


def _image_parts(images: list[Any], options: ReadOptions) -> Iterator[Part]:
    """A part for each image. They have the same voxels, and the place of an image in the list is its label."""
    grid = open_grid(images[0], options)
    for i, image in enumerate(images):
        path = Path(f"image {i}" if is_image(image) else image)
        yield _ImagePart(path, grid.count, image, i, grid, options)


@final
@dataclass(frozen=True)
class _ArrayPart(Part):
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
class _ParquetPart(Part):
    groups: tuple[int, ...]
    options: ReadOptions
    shapes: Mapping[str, tuple[int, ...]]

    def sample(self) -> Table:
        with parquet_file(self.path) as file:
            return ParquetTable(self.path, file.schema_arrow.empty_table(), self.options, self.shapes)

    def table(self, columns: list[int]) -> tuple[Table, list[int]]:
        read = sorted(set(columns))
        with parquet_file(self.path) as file:
            table = file.read_row_groups(self.groups, columns=[file.schema_arrow.names[i] for i in read])
        return ParquetTable(self.path, table, self.options, self.shapes), [read.index(i) for i in columns]


@final
@dataclass(frozen=True)
class _CsvPart(Part):
    start: int
    stop: int
    form: LineFormat

    def sample(self) -> Table:
        return CsvTable(Lines(self.path), self.form, self.rows)

    def table(self, columns: list[int]) -> tuple[Table, list[int]]:
        return CsvTable(Lines(self.path, self.start, self.stop), self.form, self.rows), columns


def _npy_parts(files: list[Path], block: int) -> Iterator[Part]:
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


def _zarr_parts(source: Path, block: int) -> Iterator[Part]:
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


def _parquet_parts(files: list[Path], block: int, options: ReadOptions) -> Iterator[Part]:
    first: ParquetTable | None = None
    for path in files:
        with parquet_file(path) as file:
            schema = file.schema_arrow
            rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        first = first or ParquetTable(path, schema.empty_table(), options)
        if schema.names != first.frame.columns:
            raise FileError(f"the columns of {path} differ from those of {first.path}")
        for groups in _runs(rows, block):
            yield _ParquetPart(path, sum(rows[i] for i in groups), groups, options, first.shapes)


def _csv_parts(files: list[Path], options: ReadOptions) -> Iterator[Part]:
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
            file.seek(start + _PART_BYTES)
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
