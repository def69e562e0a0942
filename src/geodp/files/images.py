"""Records in the voxels of NIfTI images, such as diffusion tensors. nibabel is imported when it is needed.

Public are the size of an image, the meaning that its header states, the mask, and the atlas, an image of the number of the region
of each voxel.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from geodp.files.arrays import ArrayTable
from geodp.files.messages import FileError, short
from geodp.files.options import ReadOptions
from geodp.files.table import MOST_COLUMNS, Table
from geodp.inputs import Array, is_of

#: How the names of images end.
IMAGES = (".nii", ".nii.gz")
#: The code in the header of an image of symmetric matrices, stored as lower triangles row by row.
_SYMMETRIC = 1005
_TRIANGLE = ("xx", "yx", "yy", "zx", "zy", "zz")


@final
class ImageTable(ArrayTable):
    """One row for each chosen voxel of an image. Two more columns are labels: the number of the image, and the region."""

    def __init__(self, path: Path | str, voxels: Array, names: tuple[str, ...] | None, number: int, regions: Any) -> None:
        super().__init__(path, voxels)
        self.names, self._number, self._regions = names, number, regions

    def _position(self, column: str | int) -> int:
        if column == "region" and self._regions is None:
            raise FileError(f"the regions of {self.path} are those of an atlas: give one with atlas= (or --atlas)")
        labels = ("image", "region")
        return len(self.widths) + labels.index(str(column)) if column in labels else super()._position(column)

    def read(self, columns: list[int], clock: bool, labels: list[int]) -> tuple[Array, list[NDArray[Any]]]:
        known = (np.full(self.records, self._number), self._regions)
        width = len(self.widths)
        own = super().read(columns, clock, [i for i in labels if i < width])
        return own[0], [known[i - width] if i >= width else own[1].pop(0) for i in labels]


@final
@dataclass(frozen=True)
class Grid:
    """The voxels that are records, and the region of each: they are public, and the same for all images."""

    chosen: NDArray[np.bool_]
    regions: NDArray[Any] | None

    @property
    def count(self) -> int:
        return int(self.chosen.sum())

    def without_voxels(self) -> Grid:
        return Grid(np.zeros_like(self.chosen), self.regions)


def is_image(x: Any) -> bool:
    """Whether this is an image of nibabel."""
    return is_of(x, "nibabel") and hasattr(x, "dataobj")


def is_one_image(x: Any) -> bool:
    """Whether this is an image, or the name of one."""
    return is_image(x) or (isinstance(x, str | os.PathLike) and str(x).lower().endswith(IMAGES))


def open_image(path: Path, options: ReadOptions) -> Table:
    return image_table(path, open_grid(path, options), options)


def open_grid(image: Any, options: ReadOptions) -> Grid:
    """The voxels of an image that the public mask and atlas leave: those where both are above zero."""
    opened, name = _load(image)
    shape = _shape(opened)[:3]
    mask = None if options.mask is None else _public(options.mask, "mask", name, shape)
    atlas = None if options.atlas is None else _public(options.atlas, "atlas", name, shape)
    chosen = np.ones(shape, dtype=np.bool_)
    for each in (mask, atlas):
        chosen &= True if each is None else each > 0
    if atlas is not None and (atlas == np.rint(atlas)).all():
        atlas = atlas.astype(np.int64)
    return Grid(chosen, atlas)


def image_table(source: Any, grid: Grid, options: ReadOptions, number: int = 0) -> Table:
    """The chosen voxels of an image, whose header and size say how they are read."""
    image, path = _load(source)
    shape = _shape(image)
    if len(shape) < 4 or math.prod(shape[3:]) > MOST_COLUMNS:
        raise FileError(f"{path} is an image of shape {shape}, but an image with several numbers a voxel has four or five axes")
    if shape[:3] != grid.chosen.shape:
        raise FileError(f"{path} has {shape[:3]} voxels, but the first image has {grid.chosen.shape}")
    width = math.prod(shape[3:])
    stated = int(image.header["intent_code"]) == _SYMMETRIC
    names = _TRIANGLE if stated and width == len(_TRIANGLE) else None
    triangles = [choice.name for choice in options.manifold.layouts if choice.columns == width]
    if names is None and options.layout == "auto" and len(triangles) > 1:
        raise FileError(
            f"{path} has {width} numbers in a voxel and does not say in which order: name the layout, {' or '.join(triangles)}"
        )
    voxels = np.empty((grid.count, width))
    try:
        with np.errstate(all="ignore"):
            for i, where in enumerate(np.ndindex(shape[3:]) if grid.count else ()):
                voxels[:, i] = np.asarray(image.dataobj[(..., *where)])[grid.chosen]
    except Exception:
        raise _damaged(path) from None
    return ImageTable(path, voxels, names, number, None if grid.regions is None else grid.regions[grid.chosen])


def _shape(image: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in image.shape)


def _public(source: Any, what: str, path: Path | str, shape: tuple[int, ...]) -> NDArray[Any]:
    """The numbers in a public image of the same size."""
    image, name = _load(source)
    if _shape(image) not in (shape, (*shape, 1)):
        raise FileError(f"the {what} {name} has the shape {_shape(image)}, but the voxels of {path} have the shape {shape}")
    try:
        numbers: NDArray[Any] = np.asarray(image.dataobj).reshape(shape)
    except Exception:
        raise _damaged(name) from None
    if not (numbers > 0).any():
        raise FileError(f"the {what} {name} is zero everywhere, so there are no records")
    return numbers


def _load(source: Any) -> tuple[Any, Path | str]:
    """The image in a file, or the one that was given, and its name for messages."""
    path = "the image" if is_image(source) else Path(source)
    if isinstance(path, Path) and not path.is_file():
        raise FileError(f"there is no file {path}")
    try:
        nibabel = importlib.import_module("nibabel")
    except ImportError:
        raise FileError(f"reading {path} needs nibabel: pip install 'geodp[nifti]'") from None
    try:
        with _no_log(nibabel.imageglobals.logger):
            image = source if is_image(source) else nibabel.load(path)
        kind = np.dtype(image.get_data_dtype())
    except Exception:
        raise _damaged(path) from None
    if kind.kind not in "fiu":
        raise FileError(f"{path} is an image of dtype {short(kind)}, but records are real numbers")
    return image, path


@contextmanager
def _no_log(logger: logging.Logger) -> Iterator[None]:
    """Silences a library's log, because its lines may quote a file."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _damaged(path: Path | str) -> FileError:
    return FileError(f"{path} is not a NIfTI image that nibabel can read")
