"""The error of a release before anything is spent."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from scipy.optimize import brentq
from scipy.special import gammaincinv

from geodp.inputs import real_number
from geodp.laws import exact
from geodp.laws.families import Laplace
from geodp.manifolds.ball import Ball, checked_ball
from geodp.mechanisms.ambient import ambient_expected_error
from geodp.mechanisms.intrinsic import Calibration, calibrate, checked_epsilon, numerical_tolerance
from geodp.statistics.sensitivity import Bound, sensitivity

QUANTILES = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Plan:
    """What a release with these public parameters would be like. No data were read.

    Errors are geodesic distances between the release and the mean of the clipped records. ``paper_error`` is the expected
    error with the sensitivity bound of the paper, ``ambient_error`` the expected Euclidean length of the paper's ambient noise;
    both are None where they do not apply.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> result = plan(Ball(Sphere(2), center=[0.0, 0.0, 1.0], radius=np.pi / 8), n=100, epsilon=1.0)
    >>> round(result.scale, 6), round(result.quantiles[0.95], 4)
    (0.008284, 0.0393)
    """

    calibration: Calibration
    expected_error: float
    quantiles: dict[float, float]
    paper_error: float | None
    ambient_error: float | None

    @property
    def n(self) -> int:
        return self.calibration.n

    @property
    def epsilon(self) -> float:
        return self.calibration.epsilon

    @property
    def scale(self) -> float:
        return self.calibration.scale

    @property
    def sensitivity(self) -> float:
        return self.calibration.sensitivity

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        parts = asdict(self)
        calibration = parts.pop("calibration")
        ball = self.calibration.ball
        place = {"manifold": repr(ball.manifold), "center": ball.center.tolist(), "radius": ball.radius}
        calibration.pop("ball")
        parts["quantiles"] = {f"{q:g}": error for q, error in self.quantiles.items()}
        return {**place, **calibration, **parts}

    def __str__(self) -> str:
        ball = self.calibration.ball
        tolerance = self.calibration.tolerance
        # said only where it counts: in most balls it is some 1e-12
        why = f" = ({self.sensitivity:.6g} + 2 * {tolerance:.2g})/epsilon" if 2.0 * tolerance > 0.01 * self.sensitivity else ""
        rows = {
            "sensitivity": f"{self.sensitivity:.6g}",
            "noise scale": f"{self.scale:.6g}{why}",
            "expected error": f"{self.expected_error:.4g}",
            **{f"{100 * q:g}% within": f"{error:.4g}" for q, error in self.quantiles.items()},
        }
        lines = [
            f"{ball.manifold}, radius {ball.radius:g}: n = {self.n}, epsilon = {self.epsilon:g}",
            *(f"  {name:<17}{value}" for name, value in rows.items()),
        ]
        if self.paper_error is not None:
            lines.append(f"  with the bound of Reimherr et al. (2021): expected error {self.paper_error:.4g}")
        if self.ambient_error is not None:
            lines.append(f"  ambient noise instead: expected Euclidean error {self.ambient_error:.4g}")
        return "\n".join(lines)


def plan(
    ball: Ball,
    n: int | None = None,
    epsilon: float | None = None,
    *,
    error: float | None = None,
    quantile: float | None = None,
    bound: Bound = "sharp",
) -> Plan:
    """Plan a release from two of ``n``, ``epsilon`` and ``error``; the third follows.

    ``error`` is the expected error to reach, or with ``quantile`` the error not to be exceeded with that probability. Reads no
    data.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> ball = Ball(Sphere(2), center=[0.0, 0.0, 1.0], radius=np.pi / 8)
    >>> round(plan(ball, n=100, epsilon=1.0).expected_error, 5)
    0.01657
    >>> plan(ball, epsilon=1.0, error=0.01).n
    166
    >>> round(plan(ball, n=100, error=0.01).epsilon, 3)
    1.657
    """
    checked_ball(ball)
    given = [name for name, value in (("n", n), ("epsilon", epsilon), ("error", error)) if value is not None]
    if len(given) != 2:
        raise ValueError(f"a plan needs two of n, epsilon and error but was given {' and '.join(given) or 'none of them'}")
    quantile = None if quantile is None else real_number(quantile, "the quantile")
    if quantile is not None and (error is None or not 0.0 < quantile < 1.0):
        raise ValueError("a quantile goes with an error to reach, and lies between 0 and 1")
    if error is not None:
        scale = _scale_for(ball, error, quantile)
        if n is None:
            n = _records_for(ball, scale, checked_epsilon(0.0 if epsilon is None else epsilon), bound)
        else:
            epsilon = _epsilon_for(ball, scale, n, bound)
    assert n is not None
    assert epsilon is not None
    calibration = calibrate(ball, n, epsilon, bound)
    quantiles = {q: float(calibration.law.radius_quantile(q)) for q in QUANTILES}
    return Plan(
        calibration,
        calibration.law.mean_radius(),
        quantiles,
        _paper_error(ball, calibration.n, calibration.epsilon),
        ambient_expected_error(ball, calibration.n, calibration.epsilon),
    )


def _paper_error(ball: Ball, n: int, epsilon: float) -> float | None:
    try:
        return calibrate(ball, n, epsilon, "reimherr2021").law.mean_radius()
    except ValueError:  # the radius is past the paper's limit, or the scale past the existence of the law
        return None


def _scale_for(ball: Ball, error: float, quantile: float | None) -> float:
    """The largest scale whose error is at most this."""
    error = real_number(error, "the error to reach")
    if not 0.0 < error < math.inf:
        raise ValueError(f"the error to reach must be positive and finite but is {error}")
    manifold = ball.manifold

    @cache
    def excess(log_scale: float) -> float:
        law = Laplace(manifold, math.exp(log_scale))
        reached = law.mean_radius() if quantile is None else float(law.radius_quantile(quantile))
        return math.log(reached / error)

    # wide noise takes long to compute with, so the search starts from the answer in a flat space
    flat = float(manifold.dim if quantile is None else gammaincinv(manifold.dim, quantile))
    most = math.log(min(0.9 * exact.largest_scale(manifold) * (1.0 - 1e-12), 100.0 * error, 1e3 * manifold.diameter))
    low = high = min(math.log(error / flat), most)
    step = 0.2
    while excess(low) > 0.0:
        high, low, step = low, low - step, 2.0 * step
    while excess(high) <= 0.0:
        if high == most:
            return math.exp(most)
        low, high, step = high, min(high + step, most), 2.0 * step
    return math.exp(brentq(excess, low, high, xtol=1e-11))


def _records_for(ball: Ball, scale: float, epsilon: float, bound: Bound) -> int:
    tolerance = numerical_tolerance(ball)
    room = scale * epsilon - 2.0 * tolerance
    if room <= 0.0:
        raise ValueError(f"no number of records is enough: {2.0 * tolerance / epsilon:.3g} of the scale is rounding in this ball")
    if sensitivity(ball, 1, bound) <= room * (1.0 + 1e-9):  # as far as the ball is wide, which bounds it for few records
        return 1
    many = 10**9
    return max(1, math.ceil(many * sensitivity(ball, many, bound) / room * (1.0 - 1e-9)))


def _epsilon_for(ball: Ball, scale: float, n: int, bound: Bound) -> float:
    return (sensitivity(ball, n, bound) + 2.0 * numerical_tolerance(ball)) / scale
