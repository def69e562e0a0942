"""Records in several files, or in a file that is too large to be read at once: ranges of rows, called parts, read one by one.

The layout is chosen once for all parts, from the names and types of the columns or the shape and type of the array, before any
record is read. Parts are in the order of the names of their files. Files whose name begins with a dot or an
underscore are ignored.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from geodp.files import FileError, layouts, notation_of, plan_reading, read_points
from geodp.files.arrays import ArrayTable, load_array
from geodp.files.images import IMAGES, Grid, image_table, is_image, open_grid
from geodp.files.lines import CsvTable, LineFormat, Lines, open_csv
from geodp.files.options import ReadOptions
from geodp.files.parquet import ParquetTable, arrow_for, parquet_file
from geodp.files.table import Table
from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.manifolds.notation import Notation

#: About how many bytes of records a part has: little compared to the memory of a machine, much compared to the cost of a task.
_PART_BYTES = 1 << 25

#: Files that are read in parts, besides Zarr.
_READ = (".parquet", ".npy", ".csv", ".tsv", *IMAGES)

_ZARR_MARKS = ("zarr.json", ".zarray", ".zgroup")


@final
@dataclass(frozen=True)
class Part:
    """Consecutive rows of a file. ``open`` makes a table of them, of which only the columns it is given will be read."""

    path: Path
    rows: int
    open: Callable[[Sequence[int]], Table]


@final
@dataclass(frozen=True)
class Parts:
    """The parts of a source, a table with their columns, and how all of them are read."""

    parts: list[Part]
    sample: Table
    options: ReadOptions

    @property
    def written(self) -> Notation:
        return notation_of(self.sample, self.options.manifold, *plan_reading(self.sample, self.options))

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def with_labels(self, labels: Sequence[str | int]) -> Parts:
        """The same parts, of which the columns ``labels`` are read too."""
        order, choice = plan_reading(self.sample, self.options)
        chosen = self.options.columns or (order if choice.columns == len(order) else None)
        return replace(self, options=replace(self.options, columns=chosen, layout=choice.name, labels=tuple(labels)))

    def readers(self) -> list[Callable[[], tuple[Array, list[NDArray[Any]]]]]:
        """What reads the points and labels of each part, from one read: small, and fit to be sent to a worker."""
        order, choice = plan_reading(self.sample, self.options)
        labels = self.sample.pick(self.options.labels)
        return [partial(_read, part, self.options.manifold, order, choice.name, labels) for part in self.parts]


def _read(part: Part, manifold: Manifold, order: list[int], layout: str, labels: list[int]) -> tuple[Array, list[NDArray[Any]]]:
    choice = next(choice for choice in layouts(manifold) if choice.name == layout)
    try:
        points, cells = read_points(part.open([*order, *labels]), manifold, order, choice, labels)
    except FileError:
        raise
    # the reader's message about a damaged file may quote it
    except Exception as error:
        raise FileError(f"{part.path} cannot be read: {type(error).__name__}") from None
    if len(points) != part.rows:
        raise FileError(f"{part.path} has changed since it was opened: leave files alone until the release is made")
    return points, cells


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
        sample, parts = _parts_of(x, block, options)
    except OSError as error:
        raise FileError(f"the records cannot be read: {error.strerror or type(error).__name__}") from None
    return Parts([part for part in parts if part.rows > 0] or parts[:1], sample, options)


def _parts_of(x: Any, block: int, options: ReadOptions) -> tuple[Table, list[Part]]:
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


def _image_parts(images: list[Any], options: ReadOptions) -> tuple[Table, list[Part]]:
    """A part for each image. They have the same voxels, and the place of an image in the list is its label."""
    grid = open_grid(images[0], options)
    names = [Path(f"image {i}" if is_image(image) else image) for i, image in enumerate(images)]
    parts = [Part(names[i], grid.count, partial(_voxels, images[i], grid, options, i)) for i in range(len(images))]
    return image_table(images[0], grid.without_voxels(), options), parts


def _voxels(image: Any, grid: Grid, options: ReadOptions, number: int, _: Sequence[int]) -> Table:
    return image_table(image, grid, options, number)


def _npy_parts(files: list[Path], block: int) -> tuple[Table, list[Part]]:
    first, parts = _open_npy(files[0]), list[Part]()
    for path in files:
        array = _open_npy(path)
        if array.shape[1:] != first.shape[1:]:
            raise FileError(f"{path} holds an array of shape {array.shape}, but {files[0]} one of shape {first.shape}")
        if array.ndim == 0:
            raise FileError(f"{path} holds an array of shape (), which has no records")
        parts += [Part(path, stop - start, partial(_npy_rows, path, start, stop)) for start, stop in _ranges(len(array), block)]
    return ArrayTable(files[0], first), parts


def _npy_rows(path: Path, start: int, stop: int, _: Sequence[int]) -> Table:
    return ArrayTable(path, np.array(_open_npy(path)[start:stop]))


def _open_npy(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        array = load_array(path, file)[1]
    if array is None:
        raise FileError(f"{path} is not a NumPy file of one array")
    return array


def _zarr_parts(source: Path, block: int) -> tuple[Table, list[Part]]:
    name = _zarr_name(source)
    array = _zarr_array(source, name)
    if array.ndim == 0:
        raise FileError(f"{source} holds an array of shape (), which has no records")
    stored = (getattr(array, "shards", None) or array.chunks)[0]
    ranges = _ranges(array.shape[0], max(1, block // stored) * stored)
    # only its type and shape matter, so all entries share one zero in memory
    sample = ArrayTable(source, np.broadcast_to(np.zeros((), dtype=np.dtype(array.dtype)), tuple(array.shape)))
    return sample, [Part(source, stop - start, partial(_zarr_rows, source, name, start, stop)) for start, stop in ranges]


def _zarr_rows(source: Path, name: str | None, start: int, stop: int, _: Sequence[int]) -> Table:
    return ArrayTable(source, np.array(_zarr_array(source, name)[start:stop]))


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


def _parquet_parts(files: list[Path], block: int, options: ReadOptions) -> tuple[Table, list[Part]]:
    first, parts = None, list[Part]()
    for path in files:
        with parquet_file(path) as file:
            schema = file.schema_arrow
            rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        first = first or ParquetTable(path, schema.empty_table(), options)
        if schema.names != first.frame.columns:
            raise FileError(f"the columns of {path} differ from those of {first.path}")
        for run in _runs(rows, block):
            parts.append(Part(path, sum(rows[i] for i in run), partial(_row_groups, path, run, options, first.shapes)))
    assert first is not None
    return first, parts


def _row_groups(path: Path, run: Sequence[int], options: ReadOptions, shapes: Any, columns: Sequence[int]) -> Table:
    with parquet_file(path) as file:
        names = file.schema_arrow.names
        read = file.read_row_groups(run, columns=[names[i] for i in sorted(set(columns))])
        nothing = arrow_for(path).nulls(read.num_rows)
    table = arrow_for(path).table([read[name] if name in read.column_names else nothing for name in names], names)
    return ParquetTable(path, table, options, shapes)


def _csv_parts(files: list[Path], options: ReadOptions) -> tuple[Table, list[Part]]:
    """Ranges of bytes that end at the end of a line. Finding them reads the file once, a few megabytes at a time."""
    first, parts = None, list[Part]()
    for path in files:
        table = open_csv(path, options)
        first = first or table
        if table.form.encoding == "utf-16":
            raise FileError(f"{path} is in UTF-16, which cannot be read in blocks: save it as UTF-8")
        if table.form != first.form:
            raise FileError(f"the header of {path} differs from that of {first.path}")
        done = -table.form.start  # the header is not a record
        for start, stop, lines in [*_line_ranges(path)] or [(0, 0, 0)]:
            rows, done = min(lines, done + lines), done + lines
            parts.append(Part(path, max(0, rows), partial(_lines, path, start, stop, table.form, max(0, rows))))
        if done != table.records:
            raise FileError(f"{path} changed while it was read")
    assert first is not None
    return first, parts


def _lines(path: Path, start: int, stop: int, form: LineFormat, rows: int, _: Sequence[int]) -> Table:
    return CsvTable(Lines(path, start, stop), form, rows)


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
