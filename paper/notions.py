"""Other notions of privacy

Beyond the paper: the mean of the same records with pure epsilon = 1, with epsilon = 1 and delta = 1e-6, with rho = 0.05 and
with mu = 0.3, on manifolds of 2 to 406 dimensions.

2000 records: distance to the centre uniform on [0, r], uniform direction. Guaranteed: the bound on the expected geodesic
error that a plan shows, from public numbers alone. Seen: mean distance of simulated releases to the mean. Gaussian and
Laplace: tangent noise, calibrated by the exact privacy curve. Ours: the noise that private_mean chooses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from geodp import Ball, frechet_mean, plan
from geodp.files import parse_manifold
from paper.experiment import Claim, Rows, Settings, Tables, Task, span, standard_error
from paper.models import ball_records

#: Manifolds and the radii of their balls about the origin.
SPACES = {
    **{"SPD(2)": 1.0, "SPD(3)": 1.0, "SPD(6)": 1.0, "SPD(12)": 1.0, "SPD(28)": 1.0},
    **{"Sphere(2)": 0.4, "Sphere(100)": 0.4, "Grassmann(2, 12)": 0.4, "Rotations(3)": 0.8},
}
RECORDS = 2000

#: Columns of the table: the privacy and the noise that provides it.
COLUMNS: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": 1.0},
    "gaussian": {"epsilon": 1.0, "delta": 1e-6, "mechanism": "tangent", "law": "gaussian"},
    "laplace": {"epsilon": 1.0, "delta": 1e-6, "mechanism": "tangent", "law": "laplace"},
    "ours": {"epsilon": 1.0, "delta": 1e-6},
    "rho": {"rho": 0.05},
    "mu": {"mu": 0.3},
}


def tasks(settings: Settings) -> list[Task]:
    draws = max(settings.draws // 40, 1000)
    return [{"space": space, "radius": radius, "n": RECORDS, "draws": draws} for space, radius in SPACES.items()]


def work(rng: np.random.Generator, space: str, radius: float, n: int, draws: int) -> Rows:
    manifold = parse_manifold(space)
    ball = Ball(manifold, manifold.origin, radius)
    center = frechet_mean(ball_records(ball, (n,), rng), ball).point
    draws = max(200, draws * 20 // max(manifold.dim, 20))
    row = {"manifold": str(manifold), "d": manifold.dim, "radius": radius, "n": n}
    for name, options in COLUMNS.items():
        # errors here are guaranteed ones, for a mean anywhere in the ball
        asked = [each for each in plan(ball, n, **options).candidates() if options.get("law") in (None, each.family)]
        usable = [each.mechanism for each in asked if each.refusal is None]
        noise = min(usable, key=lambda each: each.expected_error())
        seen = manifold.raw_dist(center, noise.simulate(center, draws, rng))
        row |= {f"{name}_mechanism": noise.name, name: noise.expected_error()}
        row |= {f"{name}_seen": float(seen.mean()), f"{name}_seen_se": standard_error(seen)}
    return {"errors": [row]}


def claims(tables: Tables) -> Iterator[Claim]:
    found = tables["errors"]
    over_gaussian = found["ours"] / found["gaussian"]
    yield Claim(
        "At (1, 1e-6) our guaranteed error is below that of Gaussian noise on every manifold.",
        f"{span(over_gaussian, '.3f')} of it",
        bool(over_gaussian.max() < 1.0),
    )
    over_pure = found["ours"] / found["pure"]
    large = over_pure[found["d"] >= 78]
    yield Claim(
        "It is never above that of pure epsilon = 1, and less than half of it from 78 dimensions on.",
        f"at most {over_pure.max():.3f} of it; from 78 dimensions on at most {large.max():.3f}",
        bool(over_pure.max() < 1.0 + 1e-9 and large.max() < 0.5),
    )
    excess = max(((found[f"{name}_seen"] - 5.0 * found[f"{name}_seen_se"]) / found[name]).max() for name in COLUMNS)
    yield Claim(
        "No observed error exceeds the guaranteed one.",
        f"at most {excess:.3f} of it, with five standard errors of tolerance",
        bool(excess <= 1.0),
    )
