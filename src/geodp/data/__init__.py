"""What is shipped besides code: two small real data sets, and the JSON Schema of releases.

The origin and the licences of the data are in README.md beside them.
"""

from __future__ import annotations

from importlib import resources

from geodp.files import read_records
from geodp.inputs import Array
from geodp.manifolds import SPD, Manifold, Sphere
from geodp.schema import release_schema

__all__ = ["MANIFOLDS", "load", "release_schema"]

#: The data sets, and the manifolds their records are points of.
MANIFOLDS: dict[str, Manifold] = {"dti_tensors": SPD(3), "icu_arrivals": Sphere(1)}


def load(name: str) -> Array:
    """The records of a shipped data set, as float64 of shape ``(n, *point_shape)``.

    ``"dti_tensors"`` are 965 diffusion tensors of one brain in um^2/ms, points of ``SPD(3)``. A voxel is not a person:
    they show how things work, and protecting one of them protects nobody. ``"icu_arrivals"`` are the times of day of 254
    arrivals at an intensive-care unit, points of ``Sphere(1)`` with midnight at (0, 1) and 06:00 at (1, 0).

    >>> load("dti_tensors").shape, load("icu_arrivals").shape
    ((965, 3, 3), (254, 2))
    """
    if name not in MANIFOLDS:
        raise ValueError(f"there is no data set {name!r}: name one of {', '.join(MANIFOLDS)}")
    with resources.as_file(resources.files(__name__) / f"{name}.csv") as path:
        return read_records(path, MANIFOLDS[name])
