r"""Clusters of records on a manifold, found with differential privacy: k-means in a few rounds.

*Public*: the ball, the number of records and of clusters, the number of rounds, the start, the privacy, and what is released.
*Private*: the records. *Neighbours*: data sets of the same size that differ by replacing one record.

Each round looks at the records through the centres that the round before released. It adds up, for each centre, how many records
are nearest to it and where they are as seen from it (:mod:`geodp.programs.clusters`, which bounds what one record can do to
this), and hides both with noise. The new centre is the end of the noisy mean vector.

*Theorem*. Given the centres, a round is a Laplace or Gaussian mechanism in a flat space with that sensitivity, and keeps its part
of the privacy (:mod:`geodp.noise.intrinsic`, the flat case). The centres of the next round are a function of what was
released, of public numbers and of public random numbers. So the rounds are an adaptive composition, and their costs add up
(:func:`geodp.privacy.cost.compose`). The number of rounds is fixed: nothing stops when the data say so. Nothing else leaves: no
labels of records and no sum of squared distances.

*Clusters that lose their records.* A noisy count below its own noise tells nothing, and a step divided by it could end anywhere.
Steps are therefore divided by at least the size of that noise, and a sum no longer than its noise moves nothing. Before the next
round a centre that lost its records starts again next to the one with the largest noisy count. All of this is computed from what
was released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack, final

import numpy as np

from geodp.inputs import LONGEST, SHORTEST, Array, moderate_length, real_number, whole_number
from geodp.manifolds.ball import Ball, checked_ball
from geodp.noise.mechanism import Mechanism
from geodp.privacy.cost import Cost
from geodp.privacy.neighbours import Unit
from geodp.privacy.notions import Privacy, PureDP
from geodp.privacy.splitting import split
from geodp.programs.ball import moved_center, wide_ball
from geodp.programs.clusters import Blocks, ClusterSums
from geodp.receipt import Receipt
from geodp.records.dataset import GroupOptions
from geodp.release import Options, release, takes
from geodp.request import Flow, Plan, Program, ProgramPlan, Request, cost_of_parts
from geodp.showing import Row
from geodp.solver.mean import check_means

#: Records are told apart up to so many radii from a centre.
_WIDE = 4.0
#: More rounds than this are refused.
_MOST_ROUNDS = 100
#: The start is this part of the radius from the centre of the ball.
_APART = 0.5
#: A centre that starts again is this part of the radius from the centre of the largest cluster.
_AGAIN = 0.25


@final
@dataclass(frozen=True, eq=False)
class KMeansRelease(Receipt):
    """Private centres of clusters, and noisy numbers of their records in the last round, with the receipt."""

    @property
    def centers(self) -> Array:
        found: Array = self.result[0]
        return found

    @property
    def counts(self) -> Array:
        found: Array = self.result[1]
        return found

    @property
    def ball(self) -> Ball:
        found: Any = self.statistic.place
        return found

    @property
    def reach(self) -> float:
        return self._program.length

    @property
    def rounds(self) -> int:
        return self._program.rounds

    @property
    def _program(self) -> KMeans:
        found: Any = self.statistic
        return found

    def released(self) -> dict[str, Any]:
        return {
            "center": self.ball.center.tolist(),
            "radius": self.ball.radius,
            "reach": self.reach,
            "rounds": self.rounds,
            "scale": _round(self.request.plan(max(1, self.n or 1)), 0).mechanism.scale,
            "centers": self.centers.tolist(),
            "counts": self.counts.tolist(),
            **({} if self.count is None else {"count": self.count.document()}),
        }

    def head(self) -> str:
        return "PRIVATE CLUSTERS" if self.private else super().head()

    def about_value(self) -> list[Row]:
        sizes = ", ".join(f"{max(0.0, count):.0f}" for count in self.counts)
        return [("clusters", f"{len(self.centers)}, of about {sizes} {self.unit}s")]

    def rows(self) -> list[Row]:
        return [
            *self.about_value(),
            *self.about_privacy(),
            ("rounds", f"{self.rounds}, each with a part of the privacy"),
            ("manifold", repr(self.manifold)),
            *self.about_members(),
            *self.about_budget(),
        ]


@final
@dataclass(frozen=True)
class KMeans(Program):
    """Centres of clusters: see the module.

    *Centres anywhere in the ball.* Each of them needs a ball of four radii about it that floats hold. Means are possible in a
    ball only if rounding is less than a tenth of its radius, for which curvature limits the radius to about 20. About every point
    of such a ball, floats hold one of four radii with many orders of magnitude to spare, if its radius is a moderate length.
    """

    ball: Ball
    clusters: int
    rounds: int = 3
    #: How far from its centre a record may pull; half of the radius if None.
    reach: float | None = None
    #: Of the public random numbers.
    seed: int = 0

    kind = "clusters"
    words = "the centres of clusters"
    release = KMeansRelease

    def __post_init__(self) -> None:
        radius = checked_ball(self.ball).radius
        least, most = SHORTEST / _AGAIN, LONGEST / _WIDE
        numbers = {
            "clusters": whole_number(self.clusters, 1, "the number of clusters"),
            "rounds": whole_number(self.rounds, 1, "the number of rounds"),
            "seed": whole_number(self.seed, 0, "the seed"),
        }
        for name, number in numbers.items():
            object.__setattr__(self, name, number)
        if self.rounds > _MOST_ROUNDS:
            raise ValueError(
                f"the number of rounds must be at most {_MOST_ROUNDS} but is {self.rounds}: few rounds have less noise each"
            )
        if not least <= radius <= most:
            raise ValueError(
                f"the radius must be between {least:g} and {most:g} for clusters but is {radius:g}: choose other units"
            )
        if self.reach is not None:
            object.__setattr__(self, "reach", moderate_length(real_number(self.reach, "the reach"), "the reach"))
        if not 0.0 < self.length <= 2.0 * radius:
            raise ValueError(f"the reach must be above 0 and at most twice the radius {radius:g} but is {self.length:g}")

    @property
    def length(self) -> float:
        """The reach in use."""
        return 0.5 * self.ball.radius if self.reach is None else self.reach

    @property
    def place(self) -> Ball:
        return self.ball

    @property
    def purpose(self) -> str:
        return f"{self.clusters} clusters on {self.ball.manifold}"

    def check(self, n: int, unit: Unit) -> None:
        check_means(self.ball, n)

    def plan(self, request: Request, n: int) -> KMeansPlan:
        return KMeansPlan(request, n)


@final
@dataclass(frozen=True)
class KMeansPlan(ProgramPlan):
    """What :func:`private_kmeans` will do, from public numbers alone."""

    @property
    def program(self) -> KMeans:
        found: Any = self.request.statistic
        return found

    @cached_property
    def parts(self) -> list[Privacy]:
        """The privacy of each round."""
        rounds = self.program.rounds
        return split(self.privacy, [1.0 / rounds] * rounds)

    @cached_property
    def own_cost(self) -> Cost:
        return cost_of_parts([_round(self, i).cost for i in range(self.program.rounds)], self.privacy)

    def check(self) -> None:
        assert self.own_cost  # raises if a round has no noise

    def sums(self, around: tuple[Ball, ...]) -> ClusterSums:
        apart = len(around) > 2 and isinstance(self.privacy, PureDP)
        return ClusterSums(around, self.program.length, apart)

    def flow(self) -> Flow:
        program, ball = self.program, self.program.ball
        manifold, radius = ball.manifold, ball.radius
        rng = np.random.default_rng(program.seed)
        directions = _spread_directions(program.clusters, manifold.dim, rng)
        centers = np.stack([moved_center(ball, _APART * radius * each)[0] for each in directions])
        for i, part in enumerate(self.parts):
            around = tuple(wide_ball(manifold, center, _WIDE * radius) for center in centers)
            plan = self.step(self.sums(around), part)
            (drawn,) = yield (plan,)
            counts, sums = drawn[:, 0] * self.n / plan.noise.weight, drawn[:, 1:] * self.n
            steps = _shrunk(plan, sums) / np.maximum(counts, _least_count(plan))[:, None]
            near = [wide_ball(manifold, center, program.length) for center in centers]
            ends = [moved_center(each, step)[0] for each, step in zip(near, steps, strict=True)]
            centers = ball.clip(np.stack(ends))
            if i < program.rounds - 1:
                lost = np.flatnonzero(counts < _least_count(plan)).tolist()
                centers = _start_again(ball, centers, lost, int(np.argmax(counts)), rng)
        return centers, counts


def _round(plan: Any, i: int) -> Blocks:
    """The noise of a round, which does not depend on where the centres are."""
    program: KMeans = plan.program
    around = (wide_ball(program.ball.manifold, program.ball.center, _WIDE * program.ball.radius),) * program.clusters
    found: Blocks = plan.step(plan.sums(around), plan.parts[i]).noise
    return found


def _least_count(plan: Plan) -> float:
    """The size of the noise in a count, of all directions one; at least one record."""
    mechanism: Mechanism = plan.noise.mechanism
    return max(1.0, mechanism.expected_error() / math.sqrt(mechanism.manifold.dim) * plan.n / plan.noise.weight)


def _shrunk(plan: Plan, sums: Array) -> Array:
    """Noisy sums, shortened by what noise adds to their squared lengths on average; those shorter than that to zero."""
    mechanism: Mechanism = plan.noise.mechanism
    noise = mechanism.expected_error() * plan.n * math.sqrt(sums.shape[1] / mechanism.manifold.dim)
    lengths = np.linalg.vector_norm(sums, axis=-1, keepdims=True)
    return np.asarray(sums * (1.0 - (noise / np.maximum(lengths, noise)) ** 2))


def _start_again(ball: Ball, centers: Array, lost: list[int], largest: int, rng: np.random.Generator) -> Array:
    """Centres that lost their records start again next to the largest cluster."""
    for j in lost:
        if j != largest:
            near = wide_ball(ball.manifold, centers[largest], _AGAIN * ball.radius)
            (direction,) = _spread_directions(1, ball.manifold.dim, rng)
            centers[j] = moved_center(near, near.radius * direction)[0]
    return ball.clip(centers)


def _spread_directions(count: int, dim: int, rng: np.random.Generator) -> Array:
    """Unit vectors at random: the corners of a regular simplex if they fit, which are farthest from each other."""
    vectors = rng.normal(size=(count, dim))
    if 1 < count <= dim + 1:
        corners = np.eye(count) - 1.0 / count
        basis = np.linalg.svd(corners)[2][: count - 1]
        turn = np.linalg.qr(rng.normal(size=(dim, count - 1)))[0]
        vectors = corners @ basis.T @ turn.T
    return vectors / np.linalg.vector_norm(vectors, axis=1, keepdims=True)


class KMeansOptions(Options, GroupOptions, total=False):
    """The options of clusters."""

    rounds: int
    reach: float | None
    seed: int


@takes(KMeansOptions)
def private_kmeans(
    x: Any,
    ball: Ball,
    clusters: int,
    epsilon: float | None = None,
    *,
    rounds: int = 3,
    reach: float | None = None,
    seed: int = 0,
    **options: Unpack[Options],
) -> KMeansRelease:
    r"""Centres of clusters of records, released with differential privacy: k-means on a manifold.

    *Public*: all arguments but ``x``, and the number of records. *Private*: the records. *Neighbours*: data sets of the same size
    that differ by replacing one record; with ``unit`` all records of one person. *Theorem*: each round is a Laplace or Gaussian
    mechanism, and the costs of the rounds add up; see :mod:`geodp.programs.kmeans`.

    Parameters
    ----------
    x
        The records, as for :func:`geodp.private_mean`.
    ball
        A public ball that holds most records: chosen without looking, or found by :func:`geodp.private_ball`. The centres stay
        in it.
    clusters
        How many centres there are.
    epsilon, delta, rho, mu
        The privacy of all rounds together, as for :func:`geodp.private_mean`.
    rounds
        How often centres move. Each round has an equal part of the privacy.
    reach
        How far from its centre a record may pull: what is farther pulls as if it were so far. The noise is in proportion to it.
        By default half of the radius.
    seed
        Of the public random directions in which the centres start, evenly spread about the centre of the ball.
    options
        As for :func:`geodp.private_mean`. The whole cost is charged once, before anything is drawn.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> sphere, rng = Sphere(2), np.random.default_rng(0)
    >>> x = np.concatenate([sphere.project(p + 0.05 * rng.normal(size=(500, 3))) for p in ([0.6, 0, 0.8], [-0.6, 0, 0.8])])
    >>> found = private_kmeans(x, Ball(sphere, [0.0, 0.0, 1.0], 1.2), clusters=2, epsilon=2.0)
    >>> bool(sphere.dist(x[0], found.centers).min() < 0.3), found.cost.epsilon <= 2.0
    (True, True)
    """
    found: KMeansRelease = release(KMeans(ball, clusters, rounds, reach, seed), x, epsilon, options)
    return found
