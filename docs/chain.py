"""Measure a ball that was found and a mean in it against the best ball: ``python docs/chain.py`` writes ``chain.json``.

``python docs/chain.py --page`` only writes the table of ``guides/ball.md`` again from it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tables import write_table

from geodp import Ball, Manifold, PureDP, data, frechet_mean, plan_chain, private_ball, private_mean
from geodp.files import parse_manifold
from geodp.inputs import Array

HERE = Path(__file__).parent
FILE, PAGE = HERE / "chain.json", HERE / "guides" / "ball.md"
RUNS = 15
COUNTS = (1_000, 3_000, 10_000)
TENSORS = "965 diffusion tensors, in µm²/ms"


class Case(NamedTuple):
    """Records with a normal law about a point off the centre of a wide ball; without a radius, on a compact space."""

    space: str
    spread: float
    distance: float
    radius: float | None


CASES = [
    Case("SPD(3)", 0.5, 8.0, 12.0),
    Case("SPD(3)", 0.5, 8.0, 30.0),
    Case("Hyperbolic(3)", 0.4, 4.0, 12.0),
    Case("Hyperbolic(3)", 0.4, 4.0, 18.0),
    Case("Euclidean(2)", 2.0, 20.0, 100.0),
    Case("Euclidean(2)", 2.0, 20.0, 1e6),
    Case("Euclidean(10)", 6.3, 300.0, 1e3),
    Case("Euclidean(10)", 6.3, 300.0, 1e5),
    Case("Sphere(2)", 0.25, 1.0, None),
    Case("Rotations(3)", 0.25, 1.0, None),
]


def sample(manifold: Manifold, case: Case, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    direction = rng.normal(size=manifold.dim)
    direction *= case.distance / np.linalg.vector_norm(direction)
    center = manifold.raw_exp(manifold.origin, manifold.raw_tangent(manifold.origin, direction))
    steps = rng.normal(0.0, case.spread / np.sqrt(manifold.dim), (n, manifold.dim))
    return center, manifold.raw_exp(center, manifold.raw_tangent(center, steps))


def best(x: Array, center: Array, manifold: Manifold, rng: np.random.Generator) -> float:
    """The median error with all of epsilon 1 in the best of many balls about the true centre."""
    distances = manifold.dist(center, x)
    limit = 0.98 * Ball(manifold, center, 1e-3).max_radius
    mean = frechet_mean(x, Ball(manifold, center, min(1.01 * float(distances.max()), limit))).point
    errors = []
    for q in (0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0):
        ball = Ball(manifold, center, min(float(np.quantile(distances, q)), limit))
        means = [private_mean(x, ball, 1.0, simulate=rng).value for _ in range(4 * RUNS)]
        errors.append(float(np.median(manifold.dist(np.stack(means), mean))))
    return min(errors)


def chain(x: Array, outer: Any, find: float, mean: Array, seed: int, rng: np.random.Generator) -> float:
    """The error of a mean in a ball that was found, with epsilon 1 in all, of which the search has a part."""
    found = private_ball(x, outer, find, then=PureDP(1.0 - find), simulate=np.random.default_rng(seed))
    value = private_mean(x, found.ball, 1.0 - find, simulate=rng).value
    return float(found.ball.manifold.dist(value, mean))


def measure(case: Case, n: int) -> dict[str, Any]:
    manifold, rng = parse_manifold(case.space), np.random.default_rng(n)
    outer: Any = manifold if case.radius is None else Ball(manifold, manifold.origin, case.radius)
    errors, planned = [], plan_chain(outer, n, 1.0, spread=case.spread)
    for seed in range(RUNS):
        center, x = sample(manifold, case, n, rng)
        limit = 0.98 * Ball(manifold, center, 1e-3).max_radius
        mean = frechet_mean(x, Ball(manifold, center, min(8.0 * case.spread, limit))).point
        errors.append(chain(x, outer, planned.find, mean, seed, rng))
    return row(case, n, errors, best(x, center, manifold, rng), planned)


def measure_tensors() -> dict[str, Any]:
    x, rng = data.load("dti_tensors"), np.random.default_rng(0)
    case = Case("SPD(3)", 1.5, 0.0, 30.0)
    manifold = parse_manifold(case.space)
    mean = frechet_mean(x, Ball(manifold, np.eye(3), 8.0)).point
    outer = Ball(manifold, np.eye(3), 30.0)
    planned = plan_chain(outer, len(x), 1.0, spread=case.spread)
    errors = [chain(x, outer, planned.find, mean, seed, rng) for seed in range(2 * RUNS)]
    return row(case, len(x), errors, best(x, mean, manifold, rng), planned) | {"space": TENSORS}


def row(case: Case, n: int, errors: list[float], least: float, planned: Any) -> dict[str, Any]:
    ratios = np.array(errors) / least
    return case._asdict() | {
        "n": n,
        "runs": len(errors),
        "best": least,
        "median": float(np.median(ratios)),
        "nine in ten": float(np.quantile(ratios, 0.9)),
        "find": planned.find,
        "steps": [step.what for step in planned.search.steps],
    }


def table(found: list[dict[str, Any]]) -> str:
    titles = ["records", "from", *(f"{n:,} records" for n in COUNTS)]
    lines = [f"| {' | '.join(titles)} |", f"| {' | '.join(['---'] * len(titles))} |"]
    for case in dict.fromkeys((each["space"], each["spread"], each["distance"], each["radius"]) for each in found):
        rows = [each for each in found if (each["space"], each["spread"], each["distance"], each["radius"]) == case]
        space, spread, distance, radius = case
        where = f"at distance {distance:g}" if radius else "anywhere"
        name = space if space == TENSORS else f"`{space}`, spread {spread:g}, {where}"
        cells = []
        for n in COUNTS:
            at = next((each for each in rows if each["n"] == n or (each["n"] == 965 and n == 1_000)), None)
            cells.append("" if at is None else f"{100 * at['find']:g}%: {at['median']:.1f} ({at['nine in ten']:.2g})")
        lines.append(f"| {name} | {f'radius {radius:,g}' if radius else 'nothing'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    if "--page" not in sys.argv:
        found = []
        for n in COUNTS:
            for case in CASES:
                found.append(measure(case, n))
                print(found[-1], flush=True)
        found.append(measure_tensors())
        FILE.write_text(json.dumps(found, indent=1) + "\n")
    write_table(PAGE, "docs/chain.py", table(json.loads(FILE.read_text())))


if __name__ == "__main__":
    main()
