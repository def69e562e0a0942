"""Dask arrays of records from Parquet, CSV, Zarr and NumPy files, for data that are larger than memory.

A file, or a directory of parts, is cut into blocks of rows. The worker that sums a block reads it, each time it is needed. So
the workers must find the files under the same name, and the files must not change while a mean is computed. Rows are read as
in :mod:`geodp.files`: the layouts are the same, a row that is not a record becomes NaN, and messages quote only public things.

==========================  ==========================================================================================
``records.parquet``         a Parquet file; a block is one or more of its row groups
``records/*.parquet``       a directory of them, also in sub-directories, with the same columns
``records.zarr``            a Zarr array, or a group with one array, or one called ``x`` or ``records``
``records.npy``             a NumPy array
``records/*.npy``           a directory of them, also in sub-directories, with rows of the same shape
``records.csv``             a text file, also ``.tsv``; it is read once to find where its lines begin
``records/*.csv``           a directory of them, also in sub-directories, with the same header
``records/*.nii.gz``        a directory of NIfTI images of the same size; a block is an image
==========================  ==========================================================================================

Parts are read in the order of their names. Files whose name begins with a dot or an underscore are ignored.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodp.files import FileError, Found
from geodp.files.options import ReadOptions
from geodp.files.parts import Parts, open_parts
from geodp.inputs import Array
from geodp.manifolds import Manifold

try:
    import dask.array as da
    import distributed
except ImportError:  # an extra: ``from geodp import *`` must not need it
    da = distributed = None

#: How long to wait for the scheduler of a cluster.
_PATIENCE = "10s"


def read_dask(
    path: str | os.PathLike[str],
    manifold: Manifold,
    *,
    columns: Sequence[str | int] | str | None = None,
    layout: str = "auto",
    header: bool | None = None,
) -> da.Array:
    """The records in a file or directory as a Dask array of shape ``(n, *point_shape)``. They are read when needed.

    ``columns``, ``layout`` and ``header`` are those of :func:`geodp.files.read_records`. All blocks have known sizes. If the
    coordinates are named by ``columns``, the other columns may be labels: ``private_mean(x, ball, 1.0, unit="subject")``.

    >>> from geodp import SPD
    >>> read_dask("tensors", SPD(3))
    Traceback (most recent call last):
        ...
    geodp.files.FileError: there is no file or directory tensors
    """
    check_installed()
    return dask_of(open_parts(path, ReadOptions.of(manifold, columns=columns, layout=layout, header=header))).x


def dask_of(parts: Parts) -> Found:
    """The points of parts as a Dask array, and their labels as others of the same blocks, which are read together with them."""
    readers, shape = parts.readers(), parts.options.manifold.point_shape
    cells: NDArray[Any] = np.empty(len(readers), dtype=object)
    cells[:] = readers
    sizes = tuple(part.rows for part in parts.parts)
    read = da.map_blocks(_read, da.from_array(cells, chunks=1, name=False), dtype=object, meta=np.empty(0, dtype=object))
    points = da.map_blocks(
        _points_of,
        read,
        chunks=(sizes, *((size,) for size in shape)),
        new_axis=list(range(1, 1 + len(shape))),
        dtype=np.float64,
        meta=np.empty((0,) * (1 + len(shape))),
    )
    labels = [
        da.map_blocks(_label_of, read, i, chunks=(sizes,), dtype=object, meta=np.empty(0, dtype=object))
        for i in range(len(parts.options.labels))
    ]
    points.geodp_parts = parts  # so that its labels can be named later
    return Found(points, labels, parts.written)


def parts_of(x: da.Array) -> Parts | None:
    """The parts that a Dask array was read from by :func:`read_dask`."""
    parts = getattr(x, "geodp_parts", None)
    return parts if isinstance(parts, Parts) else None


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


def _read(cell: NDArray[Any]) -> NDArray[Any]:
    box = np.empty(1, dtype=object)
    box[0] = cell[0]()
    return box


def _points_of(box: NDArray[Any]) -> Array:
    return box[0][0]


def _label_of(box: NDArray[Any], place: int) -> NDArray[Any]:
    return box[0][1][place]
