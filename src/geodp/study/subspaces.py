"""Theorem 4: noise on a subspace against noise in the ambient space."""

from __future__ import annotations

import math

import numpy as np

from geodp.noise.flat import FlatNoise
from geodp.study.experiment import Claim, Experiment, Settings, Tables, Task
from geodp.study.table import ResultTable

DIMENSIONS = (1, 2, 5, 10)
AMBIENT = (1, 2, 5, 10, 20, 50, 100)
#: The number of draws held in memory at once.
BATCH = 20_000


def tasks(settings: Settings) -> list[Task]:
    draws = settings.draws // 2
    return [{"d": d, "D": around, "draws": draws} for d in DIMENSIONS for around in AMBIENT if around >= d]


def work(task: Task, rng: np.random.Generator) -> Tables:
    d, around, draws = int(task["d"]), int(task["D"]), int(task["draws"])
    basis = np.linalg.qr(rng.standard_normal((around, d)))[0]
    sums = np.zeros((2, 2))
    for start in range(0, draws, BATCH):
        size = min(BATCH, draws - start)
        intrinsic = (FlatNoise(d, 1.0, "laplace").sample(size, rng) ** 2).sum(axis=-1)
        projected = ((FlatNoise(around, 1.0, "laplace").sample(size, rng) @ basis) ** 2).sum(axis=-1)
        sums += [[square.sum(), (square**2).sum()] for square in (intrinsic, projected)]
    (own, projected_mean), second = sums[:, 0] / draws, sums[:, 1] / draws
    se = np.sqrt((second - (sums[:, 0] / draws) ** 2) / draws)
    ratio = projected_mean / own
    ratio_se = ratio * math.hypot(se[0] / own, se[1] / projected_mean)
    measured = (own, se[0], projected_mean, se[1], ratio, ratio_se)
    row = (d, around, draws, *measured, d * (d + 1), d * (around + 1), (around + 1) / (d + 1))
    columns = ("d", "D", "draws", "intrinsic", "intrinsic_se", "projected", "projected_se", "ratio", "ratio_se")
    return {"errors": ResultTable.of((*columns, "intrinsic_expected", "projected_expected", "ratio_expected"), [row])}


def claims(tables: Tables) -> list[Claim]:
    found = tables["errors"]
    z = np.abs(found.column("ratio") - found.column("ratio_expected")) / found.column("ratio_se")
    off = np.abs(found.column("ratio") / found.column("ratio_expected") - 1.0)
    return [
        Claim(
            "Theorem 4: projecting ambient noise onto a subspace costs a factor (D+1)/(d+1) in mean squared error.",
            f"within {100.0 * off.max():.2f}% for {len(found)} pairs (d, D); largest deviation {z.max():.2f} standard errors",
            bool(z.max() < 4.5),
        )
    ]


EXPERIMENT = Experiment(
    name="subspaces",
    title="Subspaces: intrinsic against projected noise (Theorem 4)",
    about="Theorem 4: for a d-dimensional linear subspace of R^D, Euclidean Laplace noise in R^D projected onto the subspace "
    "has mean squared error sigma^2 d(D+1), noise on the subspace itself sigma^2 d(d+1).",
    how="Scale 1, a random subspace for every pair (d, D), independent draws of both kinds; averages of squared lengths with "
    "standard errors. (The theorem's proof needs the mean 1/D of a squared coordinate of a uniform direction, whose law is "
    "Beta(1/2, (D-1)/2), not Beta(1, D-1) as printed; the result stands.)",
    tasks=tasks,
    work=work,
    claims=claims,
)
