"""Positions and orientations of rigid bodies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from geodp.inputs import Array, real_number
from geodp.manifolds.flat import FlatChart
from geodp.manifolds.layout import Layout
from geodp.manifolds.manifold import Requirement
from geodp.manifolds.product import Product
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots
from geodp.manifolds.rotations import Rotations
from geodp.manifolds.units import LengthUnit, short


@final
@dataclass(frozen=True, repr=False)
class Positions(FlatChart):
    """Positions in space, in units of a length.

    >>> Positions(0.5).dist([0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    2.0
    """

    length: float

    @cached_property
    def roots(self) -> Roots:
        return Roots.flat(3)

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (3,)

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        return (LengthUnit("distance", lambda x: x * self.length, lambda x: f"{short(x)} in position"),)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        return iter(())

    def raw_chart(self, x: Array) -> Array:
        return x / self.length

    def raw_inverse(self, coordinates: Array) -> Array:
        return coordinates * self.length

    def raw_difference(self, p: Array, q: Array) -> Array:
        return (q - p) / self.length


@register
@final
@dataclass(frozen=True, repr=False, init=False)
class Poses(Product):
    r"""A rotation and a position in space, with a public ``length`` that weighs them.

    A point is the ``(3, 4)`` array ``[R | t]``: the first three rows of the usual ``4 x 4`` matrix. The squared distance is the
    squared angle between the rotations, in radians, plus the squared distance of the positions over ``length``. So a turn by one
    radian is as far as a move by ``length``. Tangent vectors are arrays ``[R A | u]`` with ``A`` skew-symmetric.

    >>> import numpy as np
    >>> there = np.eye(3, 4)
    >>> there[:, 3] = [0.0, 3.0, 4.0]
    >>> Poses(length=10.0).dist(np.eye(3, 4), there)
    0.5
    """

    length: float

    def __init__(self, length: float = 1.0) -> None:
        value = real_number(length, "the length of Poses")
        if not 0.0 < value < math.inf:
            raise ValueError(f"the length of Poses must be positive and finite but is {length}")
        super().__init__(Rotations(3), Positions(value))
        object.__setattr__(self, "length", value)

    def __repr__(self) -> str:
        return "Poses()" if self.length == 1.0 else f"Poses(length={self.length})"

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (3, 4)

    def raw_join(self, parts: list[Array]) -> Array:
        rotation, position = parts
        shape = np.broadcast_shapes(rotation.shape[:-2], position.shape[:-1])
        return np.concatenate(
            [np.broadcast_to(rotation, (*shape, 3, 3)), np.broadcast_to(position, (*shape, 3))[..., None]], axis=-1
        )

    def raw_split(self, x: Array) -> list[Array]:
        return [x[..., :3], x[..., 3]]

    @property
    def layouts(self) -> tuple[Layout, ...]:
        quaternion = Rotations(3).layouts[1]
        named = ((("x",), ("y",), ("z",)), (("px",), ("py",), ("pz",)), (("tx",), ("ty",), ("tz",)))

        def from_quaternion(cells: Array) -> Array:
            assert quaternion.convert is not None
            return self.raw_join([quaternion.convert(cells[:, 3:]), cells[:, :3]])

        def to_quaternion(poses: Array) -> Array:
            assert quaternion.write is not None
            turn, position = self.raw_split(poses)
            return np.concatenate([position, quaternion.write(turn)], axis=-1)

        def from_square(cells: Array) -> Array:
            square = np.abs(cells[:, 12:] - [0.0, 0.0, 0.0, 1.0]).max(axis=-1, keepdims=True) < 1e-6
            return np.where(square, cells[:, :12], np.nan).reshape(-1, 3, 4)

        def to_square(poses: Array) -> Array:
            last = np.broadcast_to([0.0, 0.0, 0.0, 1.0], (len(poses), 4))
            return np.concatenate([poses.reshape(-1, 12), last], axis=-1)

        return (
            Layout("rows", 12, "the first three rows of the 4 x 4 matrix", size="12"),
            Layout("matrix", 16, "the 4 x 4 matrix, row by row", from_square, size="16", write=to_square),
            Layout("quaternion", 7, "the position, then the quaternion x, y, z, w", from_quaternion, size="7",
                   write=to_quaternion, names=tuple((*place, *(names[1:] for names in quaternion.names[0])) for place in named),
                   details="x, y, z of the position and qx, qy, qz, qw of the quaternion, unless a header says otherwise"),
        )  # fmt: skip

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        # the distance in a factor is at most that in the product
        return tuple(unit for factor in self.factors for unit in factor.units)

    def in_words(self, point: Array) -> str:
        return self.factors[0].in_words(point[:, :3])
