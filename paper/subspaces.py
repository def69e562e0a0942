"""Subspaces: intrinsic against projected noise (Theorem 4)

Theorem 4: for a d-dimensional linear subspace of R^D, Euclidean Laplace noise in R^D projected onto the subspace has mean
squared error sigma^2 d(D+1), noise on the subspace itself sigma^2 d(d+1).

Scale 1, a random subspace for every pair (d, D), independent draws of both kinds; averages of squared lengths with standard
errors. (The theorem's proof needs the mean 1/D of a squared coordinate of a uniform direction, whose law is Beta(1/2,
(D-1)/2), not Beta(1, D-1) as printed; the result stands.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from geodp.noise.flat import FlatNoise
from paper.experiment import Claim, Rows, Settings, Tables, Task

DIMENSIONS = (1, 2, 5, 10)
AMBIENT = (1, 2, 5, 10, 20, 50, 100)
#: The number of draws held in memory at once.
BATCH = 20_000


def tasks(settings: Settings) -> list[Task]:
    return [{"d": d, "D": around, "draws": settings.draws // 2} for d in DIMENSIONS for around in AMBIENT if around >= d]


def work(rng: np.random.Generator, d: int, D: int, draws: int) -> Rows:
    basis = np.linalg.qr(rng.standard_normal((D, d)))[0]
    sums = np.zeros((2, 2))
    for start in range(0, draws, BATCH):
        size = min(BATCH, draws - start)
        intrinsic = (FlatNoise(d, 1.0, "laplace").sample(size, rng) ** 2).sum(axis=-1)
        projected = ((FlatNoise(D, 1.0, "laplace").sample(size, rng) @ basis) ** 2).sum(axis=-1)
        sums += [[square.sum(), (square**2).sum()] for square in (intrinsic, projected)]
    (own, other), second = sums[:, 0] / draws, sums[:, 1] / draws
    own_se, other_se = np.sqrt((second - (sums[:, 0] / draws) ** 2) / draws)
    row = {
        **{"d": d, "D": D, "draws": draws},
        **{"intrinsic": own, "intrinsic_se": own_se, "projected": other, "projected_se": other_se},
        **{"ratio": other / own, "ratio_se": other / own * math.hypot(own_se / own, other_se / other)},
        **{"intrinsic_expected": d * (d + 1), "projected_expected": d * (D + 1), "ratio_expected": (D + 1) / (d + 1)},
    }
    return {"errors": [row]}


def claims(tables: Tables) -> Iterator[Claim]:
    found = tables["errors"]
    z = (found["ratio"] - found["ratio_expected"]).abs() / found["ratio_se"]
    off = (found["ratio"] / found["ratio_expected"] - 1.0).abs()
    yield Claim(
        "Theorem 4: projecting ambient noise onto a subspace costs a factor (D+1)/(d+1) in mean squared error.",
        f"within {100.0 * off.max():.2f}% for {len(found)} pairs (d, D); largest deviation {z.max():.2f} standard errors",
        bool(z.max() < 4.5),
    )
