"""The public ball into which private records are clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodp.inputs import EPSILON, LONGEST, Array, moderate_length, real_number
from geodp.manifolds.manifold import Manifold
from geodp.manifolds.notation import Notation
from geodp.showing import Pictured, as_html

#: A record further from its manifold than this, relative to its size, is replaced by its projection.
_TIDY = 16.0 * EPSILON


@final
@dataclass(frozen=True, eq=False)
class Ball(Pictured):
    r"""The closed geodesic ball of radius ``radius`` about ``center``.

    Centre and radius are public: they must be chosen without looking at the data. Any radius below
    :attr:`max_radius` = ``1/2 min(injectivity radius, pi/sqrt(curvature))`` is admissible: the ball is then convex and
    every data set in it has exactly one Fréchet mean, which lies in it too (Afsari 2011).

    >>> import numpy as np
    >>> from geodp import SPD, Sphere
    >>> ball = Ball(SPD(2), center=np.eye(2), radius=1.0)
    >>> ball.clip([[np.e**2, 0.0], [0.0, 1.0]]).round(4)
    array([[2.7183, 0.    ],
           [0.    , 1.    ]])
    >>> Ball(Sphere(2), center=[0.0, 0.0, 1.0], radius=2.0)
    Traceback (most recent call last):
        ...
    ValueError: the radius is 2.0 but must be below 1.5707963267948966 on Sphere(2): in a larger ball the Fréchet mean of ...
    """

    manifold: Manifold
    center: Array
    radius: float

    def __init__(self, manifold: Manifold, center: ArrayLike, radius: float) -> None:
        if not isinstance(manifold, Manifold):
            raise TypeError(f"the manifold of a Ball must be a Manifold but is {manifold!r}")
        point = manifold.read_points(center, "the center").astype(np.float64)
        if point.shape != manifold.point_shape:
            raise ValueError(f"the center has shape {point.shape}, but one point of {manifold} has shape {manifold.point_shape}")
        projected = manifold.raw_project(point)
        if np.abs(projected - point).max() > _TIDY * np.abs(point).max():
            point = projected
        radius = real_number(radius, "the radius")
        point.setflags(write=False)
        object.__setattr__(self, "manifold", manifold)
        object.__setattr__(self, "center", point)
        object.__setattr__(self, "radius", radius)
        if not 0.0 < radius < math.inf:
            raise ValueError(f"the radius must be positive and finite but is {radius}")
        if self.reach >= self.max_radius < math.inf:
            degrees = f"; no two points are farther apart than {manifold.diameter:.6g}: are these degrees?"
            raise ValueError(
                f"the radius is {radius} but must be below {self.max_radius} on {manifold}: in a larger ball the Fréchet "
                f"mean of the records may not be unique{degrees if radius > manifold.diameter else ''}"
            )
        moderate_length(radius, "the radius")
        if not self.reach <= 2.0 * LONGEST:
            raise ValueError(
                f"floats have too few digits for a ball of radius {radius} about this centre on {manifold}: choose a smaller "
                "radius, or other units in which the centre has a moderate size"
            )

    @property
    def max_radius(self) -> float:
        """``1/2 min(injectivity radius, pi/sqrt(curvature))``: the radius must be smaller."""
        manifold = self.manifold
        conjugate = math.pi / math.sqrt(manifold.curvature) if manifold.curvature > 0.0 else math.inf
        return 0.5 * min(manifold.injectivity_radius, conjugate)

    @cached_property
    def reach(self) -> float:
        """A bound on the distance of a clipped record from the centre: the radius plus rounding error."""
        with np.errstate(all="ignore"):  # the square of a coordinate of the centre may overflow
            return self.radius + 4.0 * self.manifold.log_rounding(self.center, self.radius)

    def contains(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Which records are points of the manifold in the ball."""
        records = self.manifold.read(x, "x")
        inside = self.manifold.valid(records)
        safe = np.where(inside.reshape(inside.shape + (1,) * len(self.manifold.point_shape)), records, self.center)
        with np.errstate(all="ignore"):
            return inside & (self.manifold.raw_dist(self.center, safe) <= self.radius)

    def clip(self, x: ArrayLike) -> Array:
        """Moves every record into the ball, along the geodesic to the centre, as far as needed.

        Records inside are left as they are, bit for bit. A record that is off the manifold by more than rounding (but by less
        than the tolerance of ``check_point``) becomes the nearest point. A record that is not a point of the manifold, or has no
        unique geodesic to the centre, becomes the centre. The map treats every record by itself and never raises, whatever
        its value.
        """
        return self.manifold.raw_readable(self.clip_chunk(self.manifold.read(x, "x")))

    def clip_chunk(self, records: Array) -> Array:
        """:meth:`clip` for float64 records of the right shape, in the form in which private values are kept."""
        return self.clip_with_logs(records)[0]

    def clip_with_logs(self, records: Array) -> tuple[Array, Array]:
        """:meth:`clip_chunk`, and the logarithms at the centre of the records it returns.

        All records take the same steps, whether they have to move or not, so that the time does not reveal which do.
        """
        manifold = self.manifold
        axes = tuple(range(-len(manifold.point_shape), 0))

        def each(condition: NDArray[np.bool_]) -> NDArray[np.bool_]:
            return condition.reshape(condition.shape + (1,) * len(axes))

        invalid = ~manifold.valid(records)
        with np.errstate(all="ignore"):
            safe = np.where(each(invalid), self.center, records)
            tidy = manifold.raw_project(safe)
            off = np.abs(tidy - safe).max(axis=axes) > _TIDY * np.abs(safe).max(axis=axes)
            safe = np.where(each(off), tidy, safe)
            log = self._log(safe)
            distance = np.asarray(manifold.raw_norm(self.center, log))
            lost = invalid | ~np.isfinite(distance)
            outside = (distance > self.radius) & ~lost
            log = log * np.where(outside, self.radius / distance, 1.0).reshape(distance.shape + (1,) * len(axes))
            log = np.where(each(lost), 0.0, log)
            moved = manifold.raw_kept_exp(self.center, log)
        clipped = np.where(each(outside), moved, safe)
        return np.where(each(lost), self.center, clipped), log

    def _log(self, records: Array) -> Array:
        """Logarithms at the centre; NaN for a record so far away that linear algebra fails."""
        try:
            return self.manifold.raw_log(self.center, records)
        except np.linalg.LinAlgError:
            if len(records) == 1 or records.ndim == len(self.manifold.point_shape):
                return np.full(records.shape, np.nan)
            half = len(records) // 2
            return np.concatenate([self._log(records[:half]), self._log(records[half:])])

    def _repr_html_(self) -> str:
        center = np.array2string(self.center, precision=6, suppress_small=True, separator=", ")
        rows = [("manifold", repr(self.manifold)), ("radius", Notation(self.manifold).length(self.radius, 6)), ("center", center)]
        return as_html("Public ball", rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ball):
            return NotImplemented
        same = self.manifold == other.manifold and self.radius == other.radius
        return same and np.array_equal(self.center, other.center)

    def __hash__(self) -> int:
        return hash((self.manifold, self.center.tobytes(), self.radius))


def checked_ball(ball: Any) -> Ball:
    """The ball; raises for anything else."""
    if not isinstance(ball, Ball):
        manifold = repr(ball) if isinstance(ball, Manifold) else "manifold"
        raise TypeError(
            f"the ball must be a Ball but is of type {type(ball).__name__}: make one with Ball({manifold}, center, radius)"
        )
    return ball
