"""Draws per second: the comparison sampler, the paper's Markov chain, and pyRiemann's Gaussian sampler.

All columns of a row are measured in turn in the same run. Laplace laws have a tenth of the greatest scale, or 0.1 where
there is none. The chain's cost is that of one independent draw, the 10,000 steps of the paper's burn-in, timed on many
chains at once, which flatters it: the paper runs them one by one. The Gaussian columns are at scale 0.5, since pyRiemann
0.12 does not come back from small scales (SPD(3) at 0.07: no draw within two minutes), and its burn-in is shared by 100
draws.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from pyriemann.datasets import sample_gaussian_spd

from benchmarks.timing import Cell, Table, best_seconds, duration, number, times
from geodp.manifolds import SPD, Grassmann, Hyperbolic, Manifold, Rotations, Sphere
from geodp.noise import exact
from geodp.noise.families import Gaussian, Laplace, Law
from paper.metropolis import metropolis

BURN_IN = 10_000
PEER_SCALE, PEER_DRAWS = 0.5, 100
MANIFOLDS: list[Manifold] = [
    Sphere(2),
    Sphere(1000),
    SPD(3),
    SPD(10),
    SPD(30),
    Grassmann(3, 10),
    Rotations(3),
    Hyperbolic(10),
]


def sizes(manifold: Manifold) -> tuple[int, int]:
    """How many draws and how many chains to time: a fraction of a second's worth."""
    numbers = max(math.prod(manifold.point_shape), manifold.dim)
    return max(min(400_000 // numbers, 100_000), 200), max(min(20_000 // numbers, 1000), 20)


def chain(law: Law, chains: int, steps: int) -> Callable[[], object]:
    return lambda: metropolis(law, law.manifold.origin, chains, np.random.default_rng(0), steps=steps)


def pyriemann(manifold: SPD) -> Callable[[], object]:
    def action() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sample_gaussian_spd(PEER_DRAWS, np.eye(manifold.k), PEER_SCALE, random_state=0)

    return action


def row(manifold: Manifold) -> list[Cell | str]:
    sigma = 0.1 / (manifold.volume_entropy or 1.0)
    laplace, gaussian = Laplace(manifold, sigma), Gaussian(manifold, PEER_SCALE)
    draws, chains = sizes(manifold)
    steps = 20
    # pyRiemann's chain takes minutes for matrices larger than this
    has_peer = isinstance(manifold, SPD) and manifold.k <= 10
    actions: list[Callable[[], object]] = [
        lambda: laplace.sample(manifold.origin, 1, np.random.default_rng(0)),
        lambda: laplace.sample(manifold.origin, draws, np.random.default_rng(0)),
        chain(laplace, chains, steps),
    ]
    if has_peer:
        actions += [lambda: gaussian.sample(manifold.origin, draws, np.random.default_rng(0)), pyriemann(manifold)]
    one, ours, theirs, *peer = best_seconds(*actions, rounds=3)
    markov = theirs / (chains * steps) * BURN_IN
    return [
        str(manifold),
        number(laplace.acceptance_rate, ".4f"),
        duration(one),
        number(draws / ours),
        number(1.0 / markov, ",.2f"),
        times(markov * draws / ours),
        number(draws / peer[0]) if peer else "-",
        number(PEER_DRAWS / peer[1], ",.1f")
        if peer
        else "too slow to wait for"
        if isinstance(manifold, SPD)
        else "has no such law",
        times(peer[1] / PEER_DRAWS * draws / peer[0]) if peer else "-",
    ]


HEADER = [
    "manifold",
    "acceptance",
    "one Laplace draw",
    "Laplace draws/s",
    "Metropolis draws/s",
    "ratio",
    "Gaussian draws/s",
    "pyRiemann Gaussian draws/s",
    "ratio",
]


def exact_row(manifold: Manifold) -> list[Cell | str]:
    """Single draws in exact arithmetic, around a point off the origin, against one float draw."""
    sigma = 0.1 / (manifold.volume_entropy or 1.0)
    law = Laplace(manifold, sigma)
    center = law.sample(manifold.origin, 1, np.random.default_rng(1))[0]
    count = 3 if manifold.dim > 400 else 20
    exactly, plainly = best_seconds(
        lambda: [exact.sample(manifold, sigma, center) for _ in range(count)],
        lambda: [law.sample(center, 1, np.random.default_rng(0)) for _ in range(count)],
        rounds=3,
    )
    return [str(manifold), duration(exactly / count), times(exactly / plainly)]


def tables(quick: bool) -> Iterator[Table]:
    manifolds = [manifold for manifold in MANIFOLDS if not quick or manifold.dim < 60]
    note = (
        "Laplace laws have a tenth of the greatest scale, or 0.1 where there is none. The Metropolis chain's cost is that of one "
        "independent draw, the 10,000 steps of the paper's burn-in. The Gaussian columns are at scale 0.5."
    )
    yield Table("Laplace and Gaussian noise in floating point", HEADER, [row(manifold) for manifold in manifolds], note)
    header = ["manifold", "one exact draw", "times one float draw"]
    title = "Laplace noise in exact arithmetic, as a release draws it"
    yield Table(title, header, [exact_row(manifold) for manifold in manifolds])
