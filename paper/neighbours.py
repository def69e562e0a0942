"""Distances between the means of neighbouring data sets

The paper's Figure 1, panels 1 and 3, illustrates its Theorem 2: distances between the Fréchet means of data sets that differ
in one record, their average, and the bound. Here the sharp bound and a worst-case pair are added.

SPD(2): Wishart matrices with scale I/2 and 2 degrees of freedom, drawn again until within r = 1.5 of the identity. S^2: polar
angle uniform on [0, pi/8], uniform azimuth. The last record is replaced by a new one of the same law. Worst case: on the
sphere the other records lie half at +r and half at -r on one axis and the changing one moves from +r to -r on the other; on
SPD(2) the others lie at the centre. Bounds: geodp.sensitivity.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from geodp import sensitivity
from paper.experiment import Claim, Rows, Settings, Tables, Task, span, standard_error, where
from paper.models import EXAMPLES, means, worst_means

#: The number of pairs drawn as dots; averages use all pairs.
SHOWN = 60


def tasks(settings: Settings) -> list[Task]:
    return [{"space": space, "n": n, "pairs": settings.pairs} for space in EXAMPLES for n in settings.counts]


def work(rng: np.random.Generator, space: str, n: int, pairs: int) -> Rows:
    ball, records = EXAMPLES[space]
    x = records((pairs, n + 1), rng)
    apart = ball.manifold.raw_dist(means(ball, x[:, :-1]), means(ball, np.delete(x, n - 1, axis=1)))
    summary = {
        **{"space": space, "n": n, "pairs": pairs},
        **{"average": apart.mean(), "se": standard_error(apart), "largest": apart.max()},
        "worst_case": ball.manifold.dist(*worst_means(ball, n)),
        **{"paper_bound": sensitivity(ball, n, "reimherr2021"), "sharp_bound": sensitivity(ball, n)},
    }
    dots = [{"space": space, "n": n, "pair": i, "distance": distance} for i, distance in enumerate(apart[:SHOWN])]
    return {"summary": [summary], "distances": dots}


def claims(tables: Tables) -> Iterator[Claim]:
    found = tables["summary"]
    share = np.maximum(found["largest"], found["worst_case"]) / found["sharp_bound"]
    yield Claim(
        "No pair of neighbours, random or worst case, has means further apart than the sharp bound.",
        f"at most {share.max():.6f} of it over {found['pairs'].sum()} random pairs and {len(found)} worst cases",
        bool(share.max() <= 1.0),
    )
    reached = found["worst_case"] / found["sharp_bound"]
    yield Claim(
        "The sharp bound is attained: a worst-case pair comes within 1% of it at every n.",
        f"{span(reached)} of the bound",
        bool(reached.min() >= 0.99),
    )
    sphere = where(found, space="S^2")
    ratio = sphere["paper_bound"] / sphere["sharp_bound"]
    yield Claim(
        "On the sphere the paper's bound is 1.47 times the sharp one.", span(ratio), bool(abs(ratio - 1.4662).max() < 1e-3)
    )
