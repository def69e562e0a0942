"""The paper's Markov chains against exact draws

The supplement describes a Metropolis chain of 10,000 steps for the sphere; the published program
(github.com/otosjc/DifferentialPrivacyManifolds) walks one for SPD(2), and for the sphere it has a rejection sampler as well.
Error and time a draw of the two chains, as n grows, against the exact sampler of the library. The paper stops at n = 500.

SPD(2): scale 4r/n as published, r = 1.5, independent chains of the published program. S^2: scale 1.0265/n (the empirical
bound), chains of the supplement, which start at the centre with steps of length sigma projected to the tangent plane; as
worded, only accepted moves count. Error: mean distance to the centre over its exact value (an integral over the radius).
Times are wall-clock seconds a draw with all chains or draws made together in NumPy, which favours the chains: one chain alone
takes far longer. They are measured while other cores work and are not reproducible to the digit. 'Real arithmetic' is what a
release uses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from geodp import SPD, Laplace, Sphere
from geodp.inputs import Array
from geodp.noise import exact
from paper.bounds import empirical_bound
from paper.experiment import Claim, Rows, Settings, Tables, Task, standard_error, where
from paper.metropolis import eigenvalue_chain, metropolis
from paper.models import CAP, MATRICES

PROGRAM, WORDED, REPAIRED, EXACT = "program: fixed step", "supplement: as worded", "supplement: repaired", "exact"
FLOAT, REAL = f"{EXACT} law, float64", f"{EXACT} law, real arithmetic"
MATRIX_COUNTS = (25, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
SPHERE_COUNTS = (25, 500, 20_000)


def tasks(settings: Settings) -> list[Task]:
    sizes = {"chains": settings.chains, "steps": settings.steps, "draws": settings.draws}
    matrices = [{"space": "SPD(2)", "n": n, "sampler": PROGRAM, **sizes} for n in MATRIX_COUNTS]
    return matrices + [{"space": "S^2", "n": n, "sampler": s, **sizes} for n in SPHERE_COUNTS for s in (WORDED, REPAIRED)]


def work(rng: np.random.Generator, space: str, n: int, sampler: str, chains: int, steps: int, draws: int) -> Rows:
    matrices = space == "SPD(2)"
    law = Laplace(SPD(2), 4.0 * MATRICES.radius / n) if matrices else Laplace(Sphere(2), empirical_bound(CAP.radius) / n)
    origin = law.manifold.origin

    def chain() -> Array:
        if matrices:
            return eigenvalue_chain(SPD(2), law.sigma, origin, chains, rng, steps=steps)
        return metropolis(law, origin, chains, rng, steps=steps, redraw=sampler == WORDED)

    bias, times = [], []
    ways: tuple[tuple[str, Callable[[], Any], int], ...] = (
        (sampler, chain, chains),
        (FLOAT, lambda: law.sample(origin, draws, rng), draws),
        (REAL, lambda: [exact.sample(law.manifold, law.sigma, origin) for _ in range(20)], 20),
    )
    for name, draw, count in ways:
        started = time.perf_counter()
        points = draw()
        times.append({"space": space, "sampler": name, "n": n, "seconds_a_draw": (time.perf_counter() - started) / count})
        if name != REAL:
            error = law.manifold.raw_dist(origin, points) / law.mean_radius()
            row = {"space": space, "sampler": EXACT if name == FLOAT else name, "n": n, "sigma": law.sigma, "draws": count}
            bias.append({**row, "error_over_exact": error.mean(), "se": standard_error(error)})
    return {"bias": bias, "times": times}


def claims(tables: Tables) -> Iterator[Claim]:
    bias, times = tables["bias"], tables["times"]
    program = bias[bias["sampler"] == PROGRAM].set_index("n")
    frozen, early = program.loc[20_000], program.loc[500]
    yield Claim(
        "The published chain freezes: at n = 20,000 its error is several times the exact one.",
        f"{frozen['error_over_exact']:.2f} times (at n = 500: {early['error_over_exact']:.3f} +- {early['se']:.3f})",
        bool(frozen["error_over_exact"] > 3.0),
    )
    worded, worded_se = _pooled(where(bias, sampler=WORDED))
    repaired, repaired_se = _pooled(where(bias, sampler=REPAIRED))
    yield Claim(
        "The supplement's chain as worded (rejected steps drawn again) makes errors about 4% too large; a repeated state "
        "mends it.",
        f"as worded {worded:.4f} +- {worded_se:.4f} of the exact error, repaired {repaired:.4f} +- {repaired_se:.4f}",
        abs(worded - 1.04) < 0.01 + 4.0 * worded_se and abs(repaired - 1.0) < 4.0 * repaired_se,
    )
    ours = where(bias, sampler=EXACT)
    z = (ours["error_over_exact"] - 1.0).abs() / ours["se"]
    yield Claim(
        "Our draws have the exact error at every n: no average is more than 4.5 standard errors off.",
        f"largest of {len(z)}: {z.max():.2f} standard errors",
        bool(z.max() < 4.5),
    )
    seconds = times.groupby(["space", "sampler"])["seconds_a_draw"].median()
    slower = [seconds[space, sampler] / seconds[space, FLOAT] for space, sampler in seconds.index if sampler not in (FLOAT, REAL)]
    yield Claim(
        "Our sampler takes less than a hundredth of the time of a chain.",
        f"{min(slower):.0f} to {max(slower):.0f} times faster in bulk",
        bool(min(slower) > 100.0),
    )


def _pooled(table: pd.DataFrame) -> tuple[float, float]:
    """The average over all n, since the chain is the same at every n up to scale."""
    weights = 1.0 / table["se"] ** 2
    return float(weights @ table["error_over_exact"] / weights.sum()), float(weights.sum() ** -0.5)


def notes(tables: Tables) -> list[str]:
    return [
        "The published program for SPD(2) walks on the logarithms of the eigenvalues, from a random start in the unit square, "
        "with steps uniform in a square of side one whatever the scale is. When n is large the target is far smaller than a "
        "step: after 10,000 steps the chain is about as near to the centre as the nearest of its proposals, not as near as the "
        "law wants it. Nothing in the output shows this.",
        "The supplement says to draw another candidate after a rejection. That is not Metropolis' chain, which repeats the "
        "state. Near the centre candidates are rejected most, so the chain as worded spends too little time there.",
    ]
