"""Theorem 3: the error is of the order d r/(n epsilon)."""

from __future__ import annotations

import math

import numpy as np

from geodp.files import parse_manifold
from geodp.inputs import Array
from geodp.manifolds.ball import Ball
from geodp.noise.families import Laplace
from geodp.statistics.sensitivity import sensitivity
from geodp.study.experiment import Claim, Experiment, Settings, Tables, Task
from geodp.study.table import ResultTable

RELEASED, PROJECTED, TRUNCATED = "as released", "projected", "truncated"
VARIANTS = (RELEASED, PROJECTED, TRUNCATED)
SPACES = {"Sphere(2)": math.pi / 8.0, "SPD(2)": 1.5, "Hyperbolic(2)": 1.0, "Rotations(3)": 0.5}
FAMILIES = {"Sphere({})": math.pi / 8.0, "Euclidean({})": 1.0, "Hyperbolic({})": 0.5}
COUNTS = (100, 200, 400, 800, 1600, 3200, 6400)
EPSILONS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DIMENSIONS = (2, 4, 8, 16, 32, 64)
#: The numbers of records where epsilon varies and where the dimension varies, large enough for noise much smaller than the ball.
RECORDS, MANY_RECORDS = 1000, 10_000


def tasks(settings: Settings) -> list[Task]:
    draws = min(settings.draws // 4, 100_000)
    named = [("n", name, r) for name, r in SPACES.items()] + [("epsilon", name, r) for name, r in SPACES.items()]
    named += [("d", name, r) for name, r in FAMILIES.items()]
    return [{"axis": a, "space": s, "radius": r, "variant": v, "draws": draws} for a, s, r in named for v in VARIANTS]


def work(task: Task, rng: np.random.Generator) -> Tables:
    axis, space, variant = (str(task[name]) for name in ("axis", "space", "variant"))
    values: tuple[float, ...] = {"n": COUNTS, "epsilon": EPSILONS, "d": DIMENSIONS}[axis]
    rows = []
    for value in values:
        manifold = parse_manifold(space.format(value))
        ball = Ball(manifold, manifold.origin, float(task["radius"]))
        n = int(value) if axis == "n" else RECORDS if axis == "epsilon" else MANY_RECORDS
        epsilon = value if axis == "epsilon" else 1.0
        sigma = sensitivity(ball, n) / epsilon * (2.0 if variant == TRUNCATED else 1.0)
        square = _squared_errors(ball, sigma, variant, int(task["draws"]), rng)
        rms = math.sqrt(square.mean())
        se = float(square.std() / math.sqrt(len(square)) / (2.0 * rms))
        flat = sigma * math.sqrt(manifold.dim * (manifold.dim + 1))
        rows.append((axis, space.format("d"), variant, value, manifold.dim, n, epsilon, sigma, rms, se, flat))
    columns = ("axis", "space", "variant", "x", "dim", "n", "epsilon", "sigma", "rms_error", "se", "flat_rms")
    return {"errors": ResultTable.of(columns, rows)}


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
    found = tables["errors"]
    rows: list[tuple[str, str, str, float, float, float, int]] = []
    for axis in ("n", "epsilon", "d"):
        for space in found.where(axis=axis).values("space"):
            for variant in VARIANTS:
                part = found.where(axis=axis, space=space, variant=variant)
                # sqrt(d (d + 1)), the flat error over sigma, is d + 1/2 up to 1/(8 d)
                x = np.log(part.column("x") + (0.5 if axis == "d" else 0.0))
                slope, se = fitted_slope(x, np.log(part.column("rms_error")), part.column("se") / part.column("rms_error"))
                rows.append((axis, str(space), variant, slope, se, 1.0 if axis == "d" else -1.0, len(part)))
    columns = ("axis", "space", "variant", "slope", "se", "expected", "points")
    return {**tables, "slopes": ResultTable.of(columns, rows)}


def fitted_slope(x: Array, y: Array, se: Array) -> tuple[float, float]:
    """The slope of the weighted least-squares line through points with these standard errors, and its own standard error."""
    weights = 1.0 / se**2
    centred = x - (weights @ x) / weights.sum()
    spread = float(weights @ centred**2)
    return float((weights * centred) @ y) / spread, 1.0 / math.sqrt(spread)


def claims(tables: Tables) -> list[Claim]:
    slopes, found = tables["slopes"], tables["errors"]

    def about(axis: str, words: str) -> Claim:
        part = slopes.where(axis=axis)
        off = np.abs(part.column("slope") - part.column("expected"))
        slope = part.column("slope")
        measured = f"{slope.min():.4f} to {slope.max():.4f}, standard errors up to {part.column('se').max():.4f}"
        return Claim(words, measured, bool((off < 0.02 + 4.0 * part.column("se")).all()))

    released, truncated = found.where(variant=RELEASED), found.where(variant=TRUNCATED)
    ratio = truncated.column("rms_error") / released.column("rms_error")
    noise = np.hypot(*(part.column("se") / part.column("rms_error") for part in (released, truncated)))
    constant = released.column("rms_error") / released.column("flat_rms")
    off = np.abs(constant - 1.0) - 4.5 * released.column("se") / released.column("rms_error")
    return [
        about("n", "Theorem 3: the error falls like 1/n (slope -1) as released, projected and truncated."),
        about("epsilon", "Theorem 3: the error falls like 1/epsilon (slope -1) as released, projected and truncated."),
        about("d", "Theorem 3: the error grows linearly with d (slope 1) as released, projected and truncated."),
        Claim(
            "The truncated law of the theorem costs a factor of two (a little less where the ball cuts into the noise).",
            f"rms error of truncated over as released: {ratio.min():.3f} to {ratio.max():.3f}, median {np.median(ratio):.3f}",
            bool((ratio < 2.05 + 9.0 * noise).all() and (ratio > 1.7).all()),
        ),
        Claim(
            "The constant is that of flat space: rms error sigma sqrt(d(d+1)), within 2% and sampling error.",
            f"{constant.min():.4f} to {constant.max():.4f} of it",
            bool(off.max() < 0.02),
        ),
    ]


EXPERIMENT = Experiment(
    name="rates",
    title="Error against n, epsilon and dimension (Theorem 3)",
    about="Theorem 3: conditioned on the ball, the private mean has E rho^2 = O(d^2 r^2/(n^2 epsilon^2)). Root-mean-square "
    "errors on logarithmic axes with fitted slopes, for the law as released, projected onto the ball, and truncated to it as in "
    "the theorem.",
    how="The mean lies half-way between the centre and the boundary of the ball. As released: scale Delta/epsilon with the "
    "sharp bound. Projected: the same draws moved to the nearest point of the ball along the geodesic to its centre. "
    "Truncated: scale 2 Delta/epsilon, draws outside the ball drawn again. n varies at epsilon = 1; epsilon varies at n = "
    f"{RECORDS}; d varies at n = {MANY_RECORDS}, epsilon = 1. Slopes: weighted least squares of log error on log n, log "
    "epsilon, log(d + 1/2) (flat space has sqrt(d(d+1)), which is d + 1/2 up to 1/(8d)), with standard errors from those of "
    "the averages.",
    tasks=tasks,
    work=work,
    derived=derived,
    claims=claims,
)
