"""The circle whose mean jumps (Example 1)

The paper's Example 1: on the whole circle the sensitivity of the Fréchet mean does not decrease with n. In a ball it is 2r/n.

Means on the whole circle: all n candidates 'average plus a multiple of 2 pi/n' are compared by their energy, so that the
global minimum is certain. Even n in the half-turn example: n/2 records at 0, n/2 - 1 at pi, and the last one at pi - 0.0001
or pi + 0.0001. With the ball: radius 1, the others at the centre, the last record at +r or -r, geodp.frechet_mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from geodp import Ball, Sphere, sensitivity
from geodp.inputs import Array
from paper.experiment import Claim, Rows, Settings, Tables, Task, span
from paper.models import worst_means

COUNTS = (4, 5, 6, 7, 8, 9, 12, 13, 20, 21, 50, 51, 100, 101, 200, 201, 500, 501)
RADIUS = 1.0
#: The angle between the changing record of the two-cluster example and the point opposite.
NUDGE = 1e-4


def circle_means(angles: Array) -> Array:
    """All Fréchet means of angles on the whole circle.

    Up to full turns, a mean is the average of the angles plus a multiple of ``2 pi/n``: those are all critical points.
    """
    n = len(angles)
    candidates = angles.mean() + 2.0 * math.pi * np.arange(n) / n
    apart = np.remainder(angles[None] - candidates[:, None] + math.pi, 2.0 * math.pi) - math.pi
    energy = (apart**2).mean(axis=1)
    return np.remainder(candidates[energy <= energy.min() + 1e-10], 2.0 * math.pi)


def apart(a: float, b: float) -> float:
    """The distance between two angles."""
    return abs((a - b + math.pi) % (2.0 * math.pi) - math.pi)


def published_pair(n: int) -> tuple[Array, Array]:
    """The paper's pair: n - 1 equally spaced points, with one point doubled in one set and the farthest from it in the other."""
    regular = 2.0 * math.pi * np.arange(1, n) / (n - 1)
    other = regular[(n - 1) // 2 - 1] + regular[0]
    return np.append(regular, regular[0]), np.append(regular, other)


def half_turn_pair(n: int) -> tuple[Array, Array]:
    """A pair whose means are half a turn apart (odd n) or as nearly so as one likes (even n)."""
    if n % 2:  # an even number of equally spaced points: the energy is least midway between them, and the last record decides
        regular = 2.0 * math.pi * np.arange(1, n) / (n - 1)
        middle = math.pi / (n - 1)
        return np.append(regular, middle), np.append(regular, middle + math.pi)
    clusters = np.repeat([0.0, math.pi], [n // 2, n // 2 - 1])
    return np.append(clusters, math.pi - NUDGE), np.append(clusters, math.pi + NUDGE)


def tasks(settings: Settings) -> list[Task]:
    return [{"n": n} for n in COUNTS]


def work(rng: np.random.Generator, n: int) -> Rows:
    published, ours = ([circle_means(side) for side in pair(n)] for pair in (published_pair, half_turn_pair))
    unique = all(len(side) == 1 for side in published)
    (first,), (second,) = ours
    ball = Ball(Sphere(1), [0.0, 1.0], RADIUS)
    row = {
        **{"n": n, "published_means_unique": int(unique)},
        "published_example": apart(published[0][0], published[1][0]) if unique else math.nan,
        "half_turn_example": apart(first, second),
        **{"with_ball": float(ball.manifold.dist(*worst_means(ball, n))), "with_ball_bound": sensitivity(ball, n)},
    }
    return {"sensitivity": [row]}


def claims(tables: Tables) -> Iterator[Claim]:
    found = tables["sensitivity"]
    without = found["half_turn_example"]
    yield Claim(
        "Without the ball the sensitivity is pi for every n.",
        f"{span(without, '.5f')} over n = {found['n'].min()} to {found['n'].max()}",
        bool(without.min() > math.pi - 2.0 * NUDGE),
    )
    share = found["with_ball"] / found["with_ball_bound"]
    yield Claim(
        "With the ball it is 2r/n: the bound holds and is attained.",
        f"{span(share, '.9f')} of it",
        bool((found["with_ball"] <= found["with_ball_bound"]).all() and share.min() > 0.999999),
    )
    odd = found["n"] % 2 == 1
    off = (found["published_example"] - math.pi * (1.0 - 1.0 / (found["n"] - 1.0)))[~odd].abs().max()
    unique = "" if found["published_means_unique"][odd].any() else "not "
    yield Claim(
        "The paper's own example has means pi (1 - 1/(n-1)) apart for even n.",
        f"largest difference {off:.1e}; for odd n its means are {unique}unique",
        bool(off < 1e-9),
    )


def notes(tables: Tables) -> list[str]:
    return [
        "The paper says that for even n the points of its example are up to pi apart. For even n there are n - 1 equally "
        "spaced points, an odd number: no two are opposite, and the furthest are pi (1 - 1/(n-1)) apart, which tends to pi. "
        "With n odd the means of the example are not unique, because the least energy is midway between points. Half a turn is "
        "reached by placing the last record midway (odd n), and approached by two opposite clusters and a record next to one of "
        "them (even n). The example's conclusion stands: the sensitivity does not decrease.",
    ]
