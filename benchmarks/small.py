"""Small means, many means at once, small releases, and how soon a new process is ready."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from pyriemann.geometry.mean import mean_riemann

from benchmarks.mean import case, papers_descent
from benchmarks.timing import Cell, Table, best_seconds, duration, number, times
from geodp import SPD, Ball, Grassmann, Hyperbolic, Manifold, PlanarShapes, Rotations, Sphere, frechet_mean, frechet_means
from geodp import private_mean as release

#: Calls after which compiled code is loaded from the disk, or made.
_WARM = 250

SIZES = (20, 100, 300, 1_000, 10_000)


def warmed(x: np.ndarray, ball: Ball) -> None:
    """The state of a process that computes many means; the first calls of a process do without compiled code."""
    for _ in range(_WARM):
        frechet_mean(x[:20], ball)


def small(quick: bool) -> Table:
    rows: list[list[Cell | str]] = []
    for k in (2, 3, 8, 22):
        found: list[Cell | str] = [f"SPD({k})"]
        for count in SIZES:
            if count * k * k > (2_000_000 if quick else 6_000_000):
                found.append("not measured")
                continue
            x, ball = case(SPD(k), count, 0.6, 2.0)
            warmed(x, ball)
            rounds = 200 if count * k * k < 10_000 else 20 if count * k * k < 100_000 else 3
            ours, peer = best_seconds(
                lambda x=x, ball=ball: frechet_mean(x, ball), lambda x=x: mean_riemann(x, tol=1e-8), rounds=rounds
            )
            found.append(Cell(f"{duration(ours).text}, {times(peer / ours).text}", peer / ours))
        rows.append(found)
    note = "In a process that has computed a few means before: the first ten do without compiled code, in 2 to 10 ms."
    header = ["", *(f"n = {count:,}" for count in SIZES)]
    return Table("One small mean, default tolerance: our time, and how many times that pyRiemann takes", header, rows, note)


MANY = [
    (SPD(3), 10_000, 30, 2.0),
    (SPD(3), 1_000, 100, 2.0),
    (SPD(3), 30_000, 3, 2.0),
    (SPD(2), 10_000, 30, 2.0),
    (Sphere(2), 10_000, 30, 1.0),
    (Rotations(3), 10_000, 30, 1.0),
    (Hyperbolic(3), 1_000, 30, 2.0),
    (Grassmann(2, 5), 1_000, 30, 0.7),
]


def many(quick: bool) -> Table:
    rows: list[list[Cell | str]] = []
    for manifold, groups, size, radius in MANY:
        groups = groups // 10 if quick else groups
        x, ball = case(manifold, groups * size, 0.4, radius)
        by = np.repeat(np.arange(groups), size)
        result = frechet_means(x, ball, by)
        ours, together = best_seconds(partial(frechet_means, x, ball, by), partial(frechet_mean, x, ball), rounds=5)
        few = [x[i * size : (i + 1) * size] for i in range(30)]
        is_spd = isinstance(manifold, SPD)
        (peer,) = best_seconds(
            lambda few=few, is_spd=is_spd, manifold=manifold: [
                mean_riemann(part, tol=1e-8) if is_spd else papers_descent(manifold, part) for part in few
            ],
            rounds=3,
        )
        loop = peer / len(few) * groups
        rows.append(
            [
                f"{manifold}, {groups:,} groups of {size}",
                duration(ours),
                times(loop / ours),
                "pyRiemann" if is_spd else "the paper's descent",
                times(ours / together),
                number(int(result.iterations.max())),
                number(float(result.error_bounds.max()), ".0e"),
            ]
        )
    header = [
        "case",
        "geodp",
        "a loop over the peer",
        "peer",
        "over one mean of all records",
        "most passes",
        "largest error bound",
    ]
    return Table("Many means at once: `frechet_means`", header, rows, "The loop is measured on 30 groups.")


def releases() -> Table:
    rows: list[list[Cell | str]] = []
    for k, count, epsilon, rounds in ((3, 100, 5.0, 30), (22, 300, 5.0, 10), (64, 200, 100.0, 2)):
        x, ball = case(SPD(k), count, 0.6, 1.0)
        if k < 64:
            warmed(x, ball)
        first = release(x, ball, epsilon=epsilon)
        (seconds,) = best_seconds(lambda x=x, ball=ball, epsilon=epsilon: release(x, ball, epsilon=epsilon), rounds=rounds)
        rows.append([f"SPD({k}), n = {count}", first.mechanism, duration(seconds)])
    return Table(
        "A small release: `private_mean`, the exact draw included",
        ["case", "noise", "time"],
        rows,
        "The first of its kind in a process calibrates, and takes longer.",
    )


def others(quick: bool) -> Table:
    rows: list[list[Cell | str]] = []
    cases: list[tuple[Manifold, float]] = [
        (Rotations(3), 1.0),
        (Hyperbolic(5), 1.5),
        (PlanarShapes(20), 0.6),
        (Grassmann(3, 10), 0.7),
    ]
    for manifold, radius in cases:
        x, ball = case(manifold, 10_000 if quick else 100_000, 0.4, radius)
        result = frechet_mean(x, ball)
        ours, paper = best_seconds(
            lambda x=x, ball=ball: frechet_mean(x, ball), lambda x=x, manifold=manifold: papers_descent(manifold, x), rounds=2
        )
        rows.append([f"{manifold}, n = {len(x):,}", duration(ours), number(result.iterations), times(paper / ours)])
    return Table("Other manifolds, default tolerance", ["case", "geodp", "passes", "the paper's descent"], rows)


def starts() -> Table:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "directions.csv"
        x = np.random.default_rng(0).normal([0.0, 0.0, 5.0], size=(200, 3))
        np.savetxt(file, x / np.linalg.norm(x, axis=1, keepdims=True), delimiter=",", header="x,y,z", comments="")
        sphere = ["--manifold", "Sphere(2)", "--radius", "0.4", "--epsilon", "1"]
        program = [sys.executable, "-m", "geodp"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import numpy": [sys.executable, "-c", "import numpy"],
            "import geodp": [sys.executable, "-c", "import geodp"],
            "geodp --version": [*program, "--version"],
            "geodp plan": [*program, "plan", *sphere, "--records", "1000"],
            "geodp mean of 200 rows of a CSV": [*program, "mean", str(file), *sphere],
        }
        rows: list[list[Cell | str]] = []
        for name, command in commands.items():
            (seconds,) = best_seconds(lambda command=command: subprocess.run(command, check=True, capture_output=True), rounds=7)
            rows.append([name, duration(seconds)])
    return Table("A new process, from its start to its end", ["", "time"], rows)


def tables(quick: bool) -> Iterator[Table]:
    yield small(quick)
    yield many(quick)
    yield releases()
    yield others(quick)
    yield starts()
