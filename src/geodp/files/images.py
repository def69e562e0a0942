"""Records in the voxels of a NIfTI image, such as diffusion tensors. nibabel is imported when it is needed.

Public are the size of the image, the meaning that its header states, and the mask.
"""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodp.files.arrays import ArrayTable
from geodp.files.messages import FileError, short
from geodp.files.options import ReadOptions
from geodp.files.table import MOST_COLUMNS, Table
from geodp.inputs import Array

#: The code in the header of an image of symmetric matrices, stored as lower triangles row by row.
_SYMMETRIC = 1005
_TRIANGLE = ("xx", "yx", "yy", "zx", "zy", "zz")


class ImageTable(ArrayTable):
    """One row for each voxel of the mask, or of the whole image."""

    def __init__(self, path: Path, voxels: Array, names: tuple[str, ...] | None) -> None:
        super().__init__(path, voxels)
        self.names = names


def open_image(path: Path, options: ReadOptions) -> Table:
    image = _load(path)
    shape = tuple(int(size) for size in image.shape)
    if len(shape) < 4 or math.prod(shape[3:]) > MOST_COLUMNS:
        raise FileError(f"{path} is an image of shape {shape}, but an image with several numbers a voxel has four or five axes")
    width = math.prod(shape[3:])
    stated = int(image.header["intent_code"]) == _SYMMETRIC
    names = _TRIANGLE if stated and width == len(_TRIANGLE) else None
    triangles = [choice.name for choice in options.manifold.layouts if choice.columns == width]
    if names is None and options.layout == "auto" and len(triangles) > 1:
        raise FileError(
            f"{path} has {width} numbers in a voxel and does not say in which order: name the layout, {' or '.join(triangles)}"
        )
    chosen = np.ones(shape[:3], dtype=bool) if options.mask is None else _mask(options.mask, path, shape[:3])
    voxels = np.empty((int(chosen.sum()), width))
    try:
        with np.errstate(all="ignore"):
            for i, where in enumerate(np.ndindex(shape[3:])):
                voxels[:, i] = np.asarray(image.dataobj[(..., *where)])[chosen]
    except Exception:
        raise _damaged(path) from None
    return ImageTable(path, voxels, names)


def _mask(mask: Path, path: Path, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which voxels are records: those where the public mask is above zero."""
    if not mask.is_file():
        raise FileError(f"there is no file {mask}")
    image = _load(mask)
    found = tuple(int(size) for size in image.shape)
    if found not in (shape, (*shape, 1)):
        raise FileError(f"the mask {mask} has the shape {found}, but the voxels of {path} have the shape {shape}")
    try:
        chosen: NDArray[np.bool_] = np.asarray(image.dataobj).reshape(shape) > 0
    except Exception:
        raise _damaged(mask) from None
    if not chosen.any():
        raise FileError(f"the mask {mask} is zero everywhere, so there are no records")
    return chosen


def _load(path: Path) -> Any:
    try:
        nibabel = importlib.import_module("nibabel")
    except ImportError:
        raise FileError(f"reading {path} needs nibabel: pip install 'geodp[nifti]'") from None
    try:
        with _no_log(nibabel.imageglobals.logger):
            image = nibabel.load(path)
        kind = np.dtype(image.get_data_dtype())
    except Exception:
        raise _damaged(path) from None
    if kind.kind not in "fiu":
        raise FileError(f"{path} is an image of dtype {short(kind)}, but records are real numbers")
    return image


@contextmanager
def _no_log(logger: logging.Logger) -> Iterator[None]:
    """Silences a library's log, because its lines may quote a file."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _damaged(path: Path) -> FileError:
    return FileError(f"{path} is not a NIfTI image that nibabel can read")
