"""Fréchet means against pyRiemann, the paper's gradient descent, and the floor."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from pyriemann.geometry.mean import mean_riemann

from benchmarks.timing import Cell, Table, best_seconds, bytes_per_second, duration, number, times
from geodp import SPD, Ball, Manifold, Sphere, frechet_mean
from geodp.solver.passes import CompiledEvaluator, Pass, best_evaluator
from geodp.solver.records import open_records
from geodp.statistics.covariance import Covariance, SecondMoment
from geodp.statistics.variance import Variance

TOLERANCE = 1e-11


def papers_descent(manifold: Manifold, x: np.ndarray) -> np.ndarray:
    """Reimherr, Bharath and Soto (2021), supplement: from a data point, step 0.5, until a step is below 1e-5."""
    mean = x[0]
    for _ in range(500):
        moved = manifold.raw_exp(mean, 0.5 * manifold.raw_log(mean, x).mean(axis=0))
        if manifold.raw_dist(mean, moved) < 1e-5:
            return moved
        mean = moved
    return mean


def case(manifold: Manifold, count: int, spread: float, radius: float) -> tuple[np.ndarray, Ball]:
    """Records around a point off the centre, Gaussian in normal coordinates."""
    rng = np.random.default_rng(count)
    offset = rng.normal(size=manifold.dim)
    middle = manifold.exp(manifold.origin, manifold.tangent(manifold.origin, 0.2 * offset / np.linalg.norm(offset)))
    parts = []
    for start in range(0, count, 100_000):
        size = min(100_000, count - start)
        coordinates = spread * rng.normal(size=(size, manifold.dim)) / np.sqrt(manifold.dim)
        parts.append(manifold.raw_exp(middle, manifold.raw_tangent(middle, coordinates)))
    return np.concatenate(parts), Ball(manifold, manifold.origin, radius)


CASES = [
    (SPD(2), 100_000, 0.8, 4.0),
    (SPD(2), 1_000_000, 0.8, 4.0),
    (SPD(3), 100_000, 0.8, 4.0),
    (SPD(3), 1_000_000, 0.8, 4.0),
    (SPD(10), 100_000, 1.5, 4.0),
    (SPD(30), 10_000, 2.0, 4.0),
    (Sphere(2), 1_000_000, 0.3, 1.5),
    (Sphere(1000), 10_000, 0.3, 1.0),
]


def kernel_seconds(manifold: Manifold, x: np.ndarray) -> float:
    """One pass of the compiled loop alone over a record: on one core, over a chunk of half a megabyte, again and again."""
    chunk = np.ascontiguousarray(x[: max(Pass.BLOCK, (1 << 19) // x[0].nbytes)])
    weights, p = np.ones(len(chunk)), manifold.origin
    evaluator = best_evaluator(manifold, None)
    assert isinstance(evaluator, CompiledEvaluator)

    def action() -> object:
        return evaluator.run(p, chunk, weights, math.inf)

    action()
    (seconds,) = best_seconds(action, rounds=20)
    return seconds / len(chunk)


def eigh_seconds(manifold: SPD, x: np.ndarray) -> float:
    chunk = x[:1000]
    (seconds,) = best_seconds(lambda: np.linalg.eigh(chunk), rounds=5)
    return seconds / len(chunk)


def row(manifold: Manifold, count: int, spread: float, radius: float) -> list[Cell | str]:
    x, ball = case(manifold, count, spread, radius)
    result = frechet_mean(x, ball, tolerance=TOLERANCE)
    is_spd = isinstance(manifold, SPD)
    (ours,) = best_seconds(lambda: frechet_mean(x, ball, tolerance=TOLERANCE), rounds=10)
    again, paper, *peer = best_seconds(
        lambda: frechet_mean(x, ball, tolerance=TOLERANCE),
        lambda: papers_descent(manifold, x),
        *([lambda: mean_riemann(x, tol=1e-8)] if is_spd else []),
        rounds=5 if count * manifold.dim < 1e6 else 1,
    )
    ours = min(ours, again)
    floor = max(x[0].nbytes / bytes_per_second(), kernel_seconds(manifold, x))
    over = ours / (result.iterations * count * floor)
    return [
        f"{manifold}, n = {count:,}",
        duration(ours),
        number(result.iterations),
        number(result.error_bound, ".0e"),
        times(peer[0] / ours) if peer else "has no spheres",
        times(paper / ours),
        duration(floor),
        times(over),
        times(eigh_seconds(manifold, x) * result.iterations * count / ours) if is_spd else "needs none",
    ]


def spread(count: int) -> Table:
    """A covariance against one pass of a mean, which clips too: both read every record once."""
    x, ball = case(SPD(3), count, 0.8, 1.5)
    kinds = (Variance, SecondMoment, Covariance)
    once, *each = best_seconds(
        lambda: open_records(x, ball, None).evaluate(ball.center, lambda done: None),
        *(lambda kind=kind: kind(ball).compute(x, count) for kind in kinds),
        rounds=10,
    )
    rows: list[list[Cell | str]] = [["one pass of the mean", duration(once), times(1.0)]]
    rows += [[kind.kind, duration(seconds), times(seconds / once)] for kind, seconds in zip(kinds, each, strict=True)]
    note = "The limit is two passes."
    return Table(f"Spread of SPD(3), n = {count:,}, before noise", ["what", "time", "over one pass"], rows, note)


def tables(quick: bool) -> Iterator[Table]:
    header = ["case", "geodp", "passes", "error bound", "pyRiemann, tol 1e-8", "the paper's descent"]
    header += ["floor of a pass, a record", "time over passes x floor", "eigh alone, passes x records"]
    cases = [case for case in CASES if not quick or case[1] * case[0].dim <= 1_000_000]
    note = (
        "Columns of peers and of `eigh`: how many times our time they take. The floor is that of one core, and passes use all "
        "cores: a ratio below one over the cores is not possible."
    )
    yield Table(f"Fréchet means certified to {TOLERANCE:g}, clipping included", header, [row(*case) for case in cases], note)
    yield spread(1_000_000)
