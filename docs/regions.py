"""Measure confidence regions and comparisons on synthetic populations: ``python docs/regions.py`` writes ``regions.json``.

``python docs/regions.py --page`` only writes the tables of ``theory/regions.md`` again from it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tables import write_table

from geodp import Ball, compare, confidence_region, private_covariance, private_mean
from geodp.files import parse_manifold
from geodp.inputs import Array

HERE = Path(__file__).parent
FILE, PAGE = HERE / "regions.json", HERE / "theory" / "regions.md"

#: Manifolds and the radii of their balls.
SPACES = {
    "Sphere(2)": 1.0,
    "SPD(3)": 1.5,
    "Rotations(3)": 1.2,
    "Product(Hyperbolic(2), Euclidean(1))": 1.5,
    "PlanarShapes(4)": 0.7,
}
COUNTS = (200, 2_000, 20_000)
RUNS = 300
#: The privacy of each of the two releases.
PRIVACY = {"epsilon": 1.0, "delta": 1e-6}
ABOUT = ("center", "mean")


class Population:
    """A normal law in the tangent space at a point off the centre, with equal deviations or nearly on a line.

    It is cut off so that no record is outside the ball. It is symmetric about the point, which is therefore its mean.
    """

    def __init__(self, ball: Ball, correlated: bool) -> None:
        manifold, self.ball = ball.manifold, ball
        d = manifold.dim
        off = np.eye(d)[-1] * 0.25 * ball.radius
        self.mean = manifold.exp(ball.center, manifold.tangent(ball.center, off))
        self.most = 0.74 * ball.radius
        turn = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))[0]
        deviations = np.full(d, 0.3 * ball.radius / math.sqrt(d))
        if correlated:
            deviations = np.full(d, 0.03 * ball.radius / math.sqrt(d))
            deviations[0] = 0.3 * ball.radius
        self.factor = turn * deviations

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        steps = rng.normal(size=(n, len(self.factor))) @ self.factor.T
        length = np.linalg.vector_norm(steps, axis=-1, keepdims=True)
        steps *= np.minimum(1.0, self.most / np.maximum(length, self.most))
        manifold = self.ball.manifold
        return manifold.raw_exp(self.mean, manifold.raw_tangent(self.mean, steps))


def measure(space: str, radius: float, correlated: bool, n: int, about: Any, runs: int, seed: int) -> dict[str, Any]:
    """How often regions cover, how much larger they are than necessary, and how often equal groups appear to differ."""
    manifold = parse_manifold(space)
    ball = Ball(manifold, manifold.origin, radius)
    population, rng = Population(ball, correlated), np.random.default_rng(seed)
    radii, away, p_values = [], [], []
    before = None
    for _ in range(runs):
        x = population.sample(n, rng)
        mean = private_mean(x, ball, **PRIVACY, simulate=rng)
        spread = private_covariance(x, ball, **PRIVACY, about=about, simulate=rng)
        radii.append(confidence_region(mean, spread).radius)
        away.append(float(manifold.dist(mean.value, population.mean)))
        if before is not None:
            p_values.append(compare(*before[:1], mean, *before[1:], spread).p_value)
        before = (mean, spread) if before is None else None
    found, distances = np.array(radii), np.array(away)
    necessary = float(np.quantile(distances, 0.95))
    return {
        "space": space, "radius": radius, "correlated": correlated, "n": n, "about": about, "runs": runs,
        "covered": float(np.mean(distances <= found)), "region": float(np.median(found)), "necessary": necessary,
        "larger": float(np.median(found)) / necessary, "rejected": float(np.mean(np.array(p_values) <= 0.05)),
    }  # fmt: skip


def table(found: list[dict[str, Any]]) -> str:
    titles = ["population", "n", "covered", "radius", "larger than necessary", "equal groups, p ≤ 0.05"]
    lines = [f"| {' | '.join(titles)} |", f"| {' | '.join(['---'] * len(titles))} |"]
    for row in sorted(found, key=lambda row: (list(SPACES).index(row["space"]), row["correlated"], row["n"])):
        shape = "on a line" if row["correlated"] else "round"
        about = "centre" if row["about"] == "center" else "mean"
        cells = [f"`{row['space']}`, {shape}, about the {about}", f"{row['n']:,}", f"{100 * row['covered']:.1f}%"]
        cells += [f"{row['region']:.3g}", f"{row['larger']:.2f}", f"{100 * row['rejected']:.1f}%"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def cells() -> Iterator[tuple[str, bool, int, Any, int]]:
    """All cases: every space and shape, with every number of records and one of the two covariances."""
    for n in COUNTS:
        for seed, space in enumerate(SPACES):
            for correlated in (False, True):
                yield space, correlated, n, ABOUT[(seed + correlated) % 2], seed


def main() -> None:
    if "--page" not in sys.argv:
        found = []
        for space, correlated, n, about, seed in cells():
            found.append(measure(space, SPACES[space], correlated, n, about, RUNS, seed))
            print(found[-1], flush=True)
            FILE.write_text(json.dumps(found, indent=1) + "\n")
    write_table(PAGE, "docs/regions.py", table(json.loads(FILE.read_text())))


if __name__ == "__main__":
    main()
