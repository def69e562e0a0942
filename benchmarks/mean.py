"""Fréchet means against pyRiemann and the paper's gradient descent: ``python -m benchmarks.mean``."""

from __future__ import annotations

import warnings

import numpy as np
from pyriemann.geometry.mean import mean_riemann
from threadpoolctl import threadpool_limits

from benchmarks.timing import best_seconds, markdown
from geodp import SPD, Ball, Manifold, Sphere, frechet_mean

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
    (SPD(10), 100_000, 1.5, 4.0),
    (SPD(30), 10_000, 2.0, 4.0),
    (Sphere(2), 1_000_000, 0.3, 1.5),
    (Sphere(1000), 10_000, 0.3, 1.0),
]


def compare() -> None:
    rows = []
    for manifold, count, spread, radius in CASES:
        x, ball = case(manifold, count, spread, radius)
        result = frechet_mean(x, ball, tolerance=TOLERANCE)
        rounds = 10 if count * manifold.dim < 1e6 else 2
        ours, peer, paper = best_seconds(
            lambda x=x, ball=ball: frechet_mean(x, ball, tolerance=TOLERANCE),
            lambda x=x, m=manifold: mean_riemann(x, tol=1e-8) if isinstance(m, SPD) else None,
            lambda x=x, m=manifold: papers_descent(m, x),
            rounds=rounds,
        )
        against_peer = f"{peer / ours:.1f}x" if isinstance(manifold, SPD) else "-"
        cells = f"{ours * 1e3:.1f} ms", f"{result.iterations}", f"{result.error_bound:.0e}"
        rows.append([f"{manifold}, n = {count:,}", *cells, against_peer, f"{paper / ours:.1f}x"])
    print(f"\nFréchet means, ours certified to {TOLERANCE:g}, clipping included (how many times longer others take)\n")
    print(markdown(["case", "geodp", "passes", "error bound", "pyRiemann, tol 1e-8", "the paper's descent"], rows))


def growth() -> None:
    rows = []
    for exponent in range(3, 8):
        x, ball = case(SPD(2), 10**exponent, 0.8, 4.0)
        frechet_mean(x, ball)
        (seconds,) = best_seconds(lambda x=x, ball=ball: frechet_mean(x, ball), rounds=3)
        rows.append([f"1e{exponent}", f"{seconds * 1e3:.2f} ms", f"{seconds / len(x) * 1e9:.0f} ns"])
    print("\nSPD(2), default tolerance: cost against the number of records\n")
    print(markdown(["n", "time", "time a record"], rows))


def main() -> None:
    # one BLAS thread for everybody: on small matrices more of them only wait for each other
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore")
        compare()
        growth()


if __name__ == "__main__":
    main()
