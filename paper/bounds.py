"""What goes into the bounds on the sensitivity

The supplement's figure on the unit sphere: 2r, the paper's 2r(2 - h) and the empirical maximum of |log_x(y) - log_x(z)| over
the boundary of the ball. Beside it the ingredients of the sharp bound, which exists up to pi/2.

h = 2r cot(2r). Empirical maximum: all pairs out of 720 points of the boundary circle, one of them the footpoint. Sharp bound:
for a mean at distance t from the centre the logarithm's range is at most 2R(t) and the Hessian at least s* cot s* with cos s*
= cos r/cos t (docs/sensitivity.md); the largest range, the smallest Hessian and the largest quotient at one t over 2,001
values of t. Worst case: n times the distance of the means of a worst-case pair of n = 100,001 records, by geodp.frechet_mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from geodp import Ball, Sphere, frechet_mean
from geodp.auditing import worst_case_pair
from geodp.inputs import Array
from paper.experiment import Claim, Rows, Settings, Tables, Task, span
from paper.models import NORTH

#: The number of records of the worst-case pairs, large enough to nearly attain the bound.
RECORDS = 100_001
#: Radii for which the ingredients of the sharp bound are shown as functions of the mean's distance from the centre.
SHOWN = {"pi/8": math.pi / 8.0, "pi/4": math.pi / 4.0, "3 pi/8": 3.0 * math.pi / 8.0}
#: The largest radius, as a fraction of pi/2, where the bounds end.
LARGEST = 0.96


def paper_h(radius: float) -> float:
    """The paper's lower bound on the Hessian on the unit sphere, ``2 r cot(2 r)``."""
    return 2.0 * radius / math.tan(2.0 * radius)


def empirical_range(radius: float, points: int = 720) -> float:
    """The largest ``|log_x(y) - log_x(z)|`` over points ``x, y, z`` of the boundary of a ball on the unit sphere.

    A grid search as in the supplement. By symmetry ``x`` is fixed.
    """
    turn = np.arange(points) * (2.0 * math.pi / points)
    circle = np.stack([math.sin(radius) * np.cos(turn), math.sin(radius) * np.sin(turn), np.full(points, math.cos(radius))], -1)
    logs = Sphere(2).raw_log(circle[0], circle[1:])
    plane = Sphere(2).raw_coordinates(circle[0], logs)
    return float(np.hypot(*(plane[:, None] - plane[None, :]).transpose(2, 0, 1)).max())


def empirical_bound(radius: float) -> float:
    """``n`` times the sensitivity that the paper's sphere experiments use: the empirical range over ``h``."""
    return empirical_range(radius) / paper_h(radius)


def sharp_ingredients(radius: float, away: Array) -> tuple[Array, Array, Array]:
    """For a mean ``t`` away from the centre: the range ``2 R`` of the logarithm, the Hessian's lower bound, their quotient."""
    star = np.arccos(np.minimum(math.cos(radius) / np.cos(away), 1.0))
    reach = 2.0 * np.sqrt(star**2 + np.tan(away) ** 2)
    hessian = np.where(star > 0.0, star / np.tan(np.where(star > 0.0, star, 1.0)), 1.0)
    return reach, hessian, reach / hessian


def _worst_case(ball: Ball) -> float:
    """``n`` times the distance between the means of a worst-case pair, computed from three weighted records."""
    weights = [0.5 * (RECORDS - 1), 0.5 * (RECORDS - 1), 1.0]
    sides = (frechet_mean(side, ball, weights=weights).point for side in worst_case_pair(ball, 3))
    return RECORDS * float(ball.manifold.dist(*sides))


def tasks(settings: Settings) -> list[Task]:
    return [{"r": float(r)} for r in np.linspace(0.0, LARGEST * math.pi / 2.0, settings.grid + 1)[1:]]


def work(rng: np.random.Generator, r: float) -> Rows:
    h = paper_h(r) if r < math.pi / 4.0 else math.nan
    measured = empirical_range(r)
    reach, hessian, product = sharp_ingredients(r, np.linspace(0.0, r, 2001))
    row = {
        **{"r": r, "twice_r": 2.0 * r, "paper_range": 2.0 * r * (2.0 - h), "empirical_range": measured, "h": h},
        **{"paper_bound": 2.0 * r * (2.0 - h) / h, "empirical_bound": measured / h},
        **{"sharp_range": reach.max(), "sharp_hessian": hessian.min(), "sharp_product": product.max()},
        **{"sharp_bound": 2.0 * math.tan(r), "worst_case": _worst_case(Ball(Sphere(2), NORTH, r))},
    }
    return {"curves": [row]}


def derived(tables: Tables) -> Tables:
    """Adds the ingredients of the sharp bound at three radii."""
    parts = []
    for name, r in SHOWN.items():
        away = np.linspace(0.0, r, 61)
        reach, hessian, quotient = sharp_ingredients(r, away)
        columns = {"r": name, "t_over_r": away / r, "range": reach, "hessian": hessian, "quotient": quotient}
        parts.append(pd.DataFrame(columns))
    return {"ingredients": pd.concat(parts)}


def claims(tables: Tables) -> Iterator[Claim]:
    found = tables["curves"]
    published = found[found["r"] < math.pi / 4.0]
    ordered = published["empirical_range"].between(published["twice_r"], published["paper_range"])
    yield Claim(
        "As in the supplement, 2r < empirical maximum < 2r(2 - h) for every r below pi/4.",
        f"{ordered.sum()} of {len(published)} radii",
        bool(ordered.all()),
    )
    product = (found["sharp_product"] / found["sharp_bound"] - 1.0).abs()
    yield Claim(
        "The sharp bound's two ingredients multiply to exactly 2 tan r, for every r below pi/2.",
        f"largest relative difference {product.max():.1e}",
        bool(product.max() < 1e-12),
    )
    reached = found["worst_case"] / found["sharp_bound"]
    yield Claim(
        f"Means of worst-case neighbours come within 1% of 2 tan(r)/n at every radius up to {LARGEST:g} pi/2 and do not pass it.",
        f"{span(reached, '.6f')} of the bound with n = {RECORDS}",
        bool(reached.min() >= 0.99 and reached.max() <= 1.0 + 1e-6),
    )
