"""Error against n, epsilon and dimension (Theorem 3)

Theorem 3: conditioned on the ball, the private mean has E rho^2 = O(d^2 r^2/(n^2 epsilon^2)). Root-mean-square errors on
logarithmic axes with fitted slopes, for the law as released, projected onto the ball, and truncated to it as in the theorem.

The mean lies half-way between the centre and the boundary of the ball. As released: scale Delta/epsilon with the sharp bound.
Projected: the same draws moved to the nearest point of the ball along the geodesic to its centre. Truncated: scale 2
Delta/epsilon, draws outside the ball drawn again. n varies at epsilon = 1; epsilon varies at n = 1000; d varies at n = 10000,
epsilon = 1. Slopes: weighted least squares of log error on log n, log epsilon, log(d + 1/2) (flat space has sqrt(d(d+1)),
which is d + 1/2 up to 1/(8d)), with standard errors from those of the averages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from geodp import Ball, Laplace, sensitivity
from geodp.files import parse_manifold
from geodp.inputs import Array
from paper.experiment import Claim, Rows, Settings, Tables, Task, span, where

RELEASED, PROJECTED, TRUNCATED = "as released", "projected", "truncated"
VARIANTS = (RELEASED, PROJECTED, TRUNCATED)
SPACES = {"Sphere(2)": math.pi / 8.0, "SPD(2)": 1.5, "Hyperbolic(2)": 1.0, "Rotations(3)": 0.5}
FAMILIES = {"Sphere({})": math.pi / 8.0, "Euclidean({})": 1.0, "Hyperbolic({})": 0.5}
#: What varies on each axis.
AXES: dict[str, tuple[float, ...]] = {
    "n": (100, 200, 400, 800, 1600, 3200, 6400),
    "epsilon": (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "d": (2, 4, 8, 16, 32, 64),
}
#: The numbers of records where epsilon varies and where the dimension varies, large enough for noise much smaller than the ball.
RECORDS, MANY_RECORDS = 1000, 10_000


def tasks(settings: Settings) -> list[Task]:
    draws = min(settings.draws // 4, 100_000)
    named = [(axis, *space) for axis, spaces in zip(AXES, (SPACES, SPACES, FAMILIES), strict=True) for space in spaces.items()]
    return [{"axis": a, "space": s, "radius": r, "variant": v, "draws": draws} for a, s, r in named for v in VARIANTS]


def work(rng: np.random.Generator, axis: str, space: str, radius: float, variant: str, draws: int) -> Rows:
    rows: list[dict[str, Any]] = []
    for x in AXES[axis]:
        manifold = parse_manifold(space.format(x))
        ball = Ball(manifold, manifold.origin, radius)
        n = int(x) if axis == "n" else RECORDS if axis == "epsilon" else MANY_RECORDS
        epsilon = x if axis == "epsilon" else 1.0
        sigma = sensitivity(ball, n) / epsilon * (2.0 if variant == TRUNCATED else 1.0)
        square = _squared_errors(ball, sigma, variant, draws, rng)
        rms = math.sqrt(square.mean())
        rows.append(
            {
                **{"axis": axis, "space": space.format("d"), "variant": variant, "x": x, "dim": manifold.dim, "n": n},
                **{"epsilon": epsilon, "sigma": sigma, "rms_error": rms},
                "se": float(square.std() / math.sqrt(len(square)) / (2.0 * rms)),
                "flat_rms": sigma * math.sqrt(manifold.dim * (manifold.dim + 1)),
            }
        )
    return {"errors": rows}


def _squared_errors(ball: Ball, sigma: float, variant: str, draws: int, rng: np.random.Generator) -> Array:
    """Squared errors of draws about a point half-way between the centre and the boundary, which plays the part of the mean."""
    manifold = ball.manifold
    coordinates = np.zeros(manifold.dim)
    coordinates[0] = 0.5 * ball.radius
    mean = manifold.raw_exp(ball.center, manifold.raw_tangent(ball.center, coordinates))
    law = Laplace(manifold, sigma)
    x = law.sample(mean, draws, rng)
    if variant == PROJECTED:
        x = ball.clip(x)
    while variant == TRUNCATED and (outside := ~ball.contains(x)).any():
        x[outside] = law.sample(mean, int(outside.sum()), rng)
    return manifold.raw_dist(mean, x) ** 2


def derived(tables: Tables) -> Tables:
    """Adds slopes of log error on log n, log epsilon and log(d + 1/2), by weighted least squares, with standard errors."""
    rows = []
    for (axis, space, variant), part in tables["errors"].groupby(["axis", "space", "variant"], sort=False):
        # sqrt(d (d + 1)), the flat error over sigma, is d + 1/2 up to 1/(8 d)
        x = np.log(part["x"] + (0.5 if axis == "d" else 0.0))
        slope, se = fitted_slope(x, np.log(part["rms_error"]), part["se"] / part["rms_error"])
        expected = 1.0 if axis == "d" else -1.0
        rows.append((axis, space, variant, slope, se, expected, len(part)))
    return {"slopes": pd.DataFrame(rows, columns=["axis", "space", "variant", "slope", "se", "expected", "points"])}


def fitted_slope(x: Array, y: Array, se: Array) -> tuple[float, float]:
    """The slope of the weighted least-squares line through points with these standard errors, and its own standard error."""
    weights = 1.0 / se**2
    centred = x - (weights @ x) / weights.sum()
    spread = float(weights @ centred**2)
    return float((weights * centred) @ y) / spread, 1.0 / math.sqrt(spread)


def claims(tables: Tables) -> Iterator[Claim]:
    slopes, found = tables["slopes"], tables["errors"]
    for axis, law in (
        ("n", "falls like 1/n (slope -1)"),
        ("epsilon", "falls like 1/epsilon (slope -1)"),
        ("d", "grows linearly with d (slope 1)"),
    ):
        part = where(slopes, axis=axis)
        yield Claim(
            f"Theorem 3: the error {law} as released, projected and truncated.",
            f"{span(part['slope'])}, standard errors up to {part['se'].max():.4f}",
            bool(((part["slope"] - part["expected"]).abs() < 0.02 + 4.0 * part["se"]).all()),
        )
    released, truncated = where(found, variant=RELEASED), where(found, variant=TRUNCATED)
    ratio = truncated["rms_error"] / released["rms_error"]
    noise = np.hypot(released["se"] / released["rms_error"], truncated["se"] / truncated["rms_error"])
    yield Claim(
        "The truncated law of the theorem costs a factor of two (a little less where the ball cuts into the noise).",
        f"rms error of truncated over as released: {span(ratio, '.3f')}, median {ratio.median():.3f}",
        bool((ratio < 2.05 + 9.0 * noise).all() and (ratio > 1.7).all()),
    )
    constant = released["rms_error"] / released["flat_rms"]
    off = (constant - 1.0).abs() - 4.5 * released["se"] / released["rms_error"]
    yield Claim(
        "The constant is that of flat space: rms error sigma sqrt(d(d+1)), within 2% and sampling error.",
        f"{span(constant)} of it",
        bool(off.max() < 0.02),
    )
