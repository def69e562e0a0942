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

from geodp import Ball, Manifold, data, frechet_mean, private_mean
from geodp.files import parse_manifold
from geodp.inputs import Array

HERE = Path(__file__).parent
FILE, PAGE = HERE / "chain.json", HERE / "guides" / "ball.md"
RUNS = 11
COUNTS = (300, 1_000, 10_000)
PRIVACIES: dict[str, dict[str, float]] = {"1": {"epsilon": 1.0}, "1, 1e-6": {"epsilon": 1.0, "delta": 1e-6}}
TENSORS = "965 diffusion tensors, in µm²/ms"


class Case(NamedTuple):
    """Records with a normal law about a point off the centre of a wide ball; without a radius, on a compact space."""

    space: str
    spread: float
    distance: float
    radius: float | None


CASES = [
    Case("SPD(3)", 0.5, 8.0, 30.0),
    Case("Hyperbolic(3)", 0.4, 4.0, 12.0),
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


def best(x: Array, center: Array, mean: Array, manifold: Manifold, privacy: dict[str, float], rng: np.random.Generator) -> float:
    """The median error with all of the privacy in the best of many balls about the true centre."""
    distances = manifold.dist(center, x)
    limit = 0.98 * Ball(manifold, center, 1e-3).max_radius
    errors = []
    for q in (0.7, 0.8, 0.9, 0.95, 0.98, 1.0):
        ball = Ball(manifold, center, min(float(np.quantile(distances, q)), limit))
        means = [private_mean(x, ball, **privacy, simulate=rng, anyway=True).value for _ in range(2 * RUNS)]
        errors.append(float(np.median(manifold.dist(np.stack(means), mean))))
    return min(errors)


def measure(case: Case, n: int, x: Array | None = None) -> list[dict[str, Any]]:
    manifold, rng = parse_manifold(case.space), np.random.default_rng(n)
    given: dict[str, Any] = {} if case.radius is None else {"outer": case.radius}
    errors: dict[str, list[float]] = {name: [] for name in PRIVACIES}
    for seed in range(RUNS):
        center, records = sample(manifold, case, n, rng) if x is None else (manifold.origin, x)
        limit = 0.98 * Ball(manifold, center, 1e-3).max_radius
        mean = frechet_mean(records, Ball(manifold, center, min(8.0 * case.spread, limit))).point
        for name, privacy in PRIVACIES.items():
            chance = np.random.default_rng(seed)
            found = private_mean(records, manifold, **privacy, **given, coverage=0.0, simulate=chance, anyway=True)
            errors[name].append(float(manifold.dist(found.value, mean)))
    about = mean if x is not None else center
    return [
        row(case, n, name, errors[name], best(records, about, mean, manifold, privacy, rng))
        for name, privacy in PRIVACIES.items()
    ]


def row(case: Case, n: int, privacy: str, errors: list[float], least: float) -> dict[str, Any]:
    ratios = np.array(errors) / least
    return case._asdict() | {
        "n": n,
        "privacy": privacy,
        "runs": len(errors),
        "best": least,
        "median": float(np.median(ratios)),
        "nine in ten": float(np.quantile(ratios, 0.9)),
    }


def table(found: list[dict[str, Any]]) -> str:
    titles = ["records", "from", "privacy", *(f"{n:,} records" for n in COUNTS)]
    lines = [f"| {' | '.join(titles)} |", f"| {' | '.join(['---'] * len(titles))} |"]
    keys = ("space", "spread", "distance", "radius", "privacy")
    for case in dict.fromkeys(tuple(each[key] for key in keys) for each in found):
        space, spread, distance, radius, privacy = case
        rows = {each["n"]: each for each in found if tuple(each[key] for key in keys) == case}
        where = f"at distance {distance:g}" if radius else "anywhere"
        name = TENSORS if 965 in rows else f"`{space}`, spread {spread:g}, {where}"
        cells = []
        for n in COUNTS:
            at = rows.get(n) or (rows.get(965) if n == 1_000 else None)
            cells.append("" if at is None else f"{at['median']:.1f} ({at['nine in ten']:.2g})")
        lines.append(f"| {name} | {f'radius {radius:,g}' if radius else 'nothing'} | {privacy} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    if "--page" not in sys.argv:
        found = []
        for case in CASES:
            for n in COUNTS:
                found += measure(case, n)
                print(found[-1], flush=True)
        found += measure(Case("SPD(3)", 1.5, 0.0, 30.0), 965, data.load("dti_tensors"))
        FILE.write_text(json.dumps(found, indent=1) + "\n")
    write_table(PAGE, "docs/chain.py", table(json.loads(FILE.read_text())))


if __name__ == "__main__":
    main()
