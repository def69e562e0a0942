r"""Clusters of records on a manifold, found with differential privacy: k-means in a few rounds.

*Public*: the ball, the number of records and of clusters, the number of rounds, the start, the privacy, and what is released.
*Private*: the records. *Neighbours*: data sets of the same size that differ by replacing one record.

Each round looks at the records through the centres that the round before released. It adds up, for each centre, how many records
are nearest to it and where they are as seen from it (:mod:`geodp.statistics.clusters`, which bounds what one record can do to
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

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack, final, get_args

import numpy as np

from geodp._version import __version__
from geodp.files import parse_manifold
from geodp.finding import moved_center, wide_ball
from geodp.inputs import LONGEST, SHORTEST, Array, is_line, moderate_length, real_number, whole_number
from geodp.manifolds.ball import Ball, checked_ball
from geodp.measurement import Measurement
from geodp.noise.mechanism import Mechanism
from geodp.privacy.cost import Cost, PureCost, cost_from_dict, pure_epsilon
from geodp.privacy.neighbours import Unit, replace_one
from geodp.privacy.notions import Privacy, PureDP, privacy_of
from geodp.privacy.splitting import split
from geodp.receipt import SIMULATION, agrees, cost_in_words, cost_of_parts
from geodp.records.dataset import Dataset, DatasetOptions
from geodp.release import Account, computed
from geodp.showing import Row, Shown
from geodp.solver.compiling import reproducible
from geodp.statistics.clusters import ClusterSums
from geodp.statistics.mean import FrechetMean

if TYPE_CHECKING:
    from geodp.privacy.ledger import Ledger

#: Records are told apart up to so many radii from a centre.
_WIDE = 4.0
#: More rounds than this are refused.
_MOST_ROUNDS = 100
#: The start is this part of the radius from the centre of the ball, and a centre that starts again from another one.
_APART, _AGAIN = 0.5, 0.25


@final
@dataclass(frozen=True, eq=False)
class KMeansRelease(Shown):
    """Private centres of clusters, and noisy numbers of their records in the last round, with the receipt."""

    centers: Array
    counts: Array
    ball: Ball
    reach: float
    rounds: int
    n: int
    privacy: Privacy
    cost: Cost
    unit: Unit = "record"
    dataset: str | None = None
    charge: int | None = None
    private: bool = True
    version: str = __version__

    @property
    def neighbours(self) -> str:
        return replace_one(self.unit)

    def to_json(self) -> str:
        """The release as JSON text."""
        return json.dumps(
            {
                "geodp": self.version,
                "summary": "clusters",
                "private": self.private,
                **self.privacy.parameters(),
                "notion": self.privacy.words,
                "cost": self.cost.to_dict(),
                "neighbours": self.neighbours,
                "unit": self.unit,
                "n": self.n,
                "manifold": repr(self.ball.manifold),
                "centers": self.centers.tolist(),
                "counts": self.counts.tolist(),
                "center": self.ball.center.tolist(),
                "radius": self.ball.radius,
                "reach": self.reach,
                "rounds": self.rounds,
                "scale": _plans(self.ball, len(self.centers), self.reach, self.n, self.privacy, self.rounds)[0].noise.scale,
                "dataset": self.dataset,
                "charge": self.charge,
            },
            indent=2,
        )

    @classmethod
    def from_json(cls, text: str) -> KMeansRelease:
        """The release that :meth:`to_json` stored, or a ``ValueError``."""
        try:
            stored = json.loads(text)
            manifold = parse_manifold(stored["manifold"])
            ball = Ball(manifold, stored["center"], stored["radius"])
            privacy = privacy_of(*(stored.get(name) for name in ("epsilon", "delta", "rho", "mu")))
            centers, counts = np.asarray(stored["centers"], dtype=np.float64), np.asarray(stored["counts"], dtype=np.float64)
            plan = plan_kmeans(ball, len(centers), stored["n"], privacy, stored["rounds"], stored["reach"])
            unit, dataset, charge = stored["unit"], stored["dataset"], stored["charge"]
            found = cls(
                centers, counts, ball, plan.reach, len(plan.rounds), plan.n, privacy, plan.cost, unit, dataset, charge,
                stored["private"], stored["geodp"],
            )  # fmt: skip
            if (
                stored["summary"] == "clusters"
                and found.cost == cost_from_dict(stored["cost"])
                and stored["notion"] == privacy.words
                and centers.shape == (len(counts), *manifold.point_shape)
                and manifold.valid(centers).all()
                and np.all(manifold.dist(ball.center, centers) <= ball.radius * (1.0 + 1e-6))
                and counts.ndim == 1
                and np.isfinite(counts).all()
                and (not found.private or found.version != __version__ or plan.could_release(counts))
                and unit in get_args(Unit)
                and stored["neighbours"] == found.neighbours
                and isinstance(stored["private"], bool)
                and (charge is None if dataset is None else is_line(dataset) and type(charge) is int and charge > 0)
                and (stored["private"] or dataset is None)  # a simulation charges no budget
                and is_line(stored["geodp"])
                and (found.version != __version__ or agrees(stored, json.loads(found.to_json())))
            ):
                return found
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            pass
        # no field is quoted: the text may be anything, such as a file of records
        raise ValueError("this is not the JSON text of clusters that were found: pass what KMeansRelease.to_json returned")

    def head(self) -> str:
        return "PRIVATE CLUSTERS" if self.private else SIMULATION

    def rows(self) -> list[Row]:
        sizes = ", ".join(f"{max(0.0, count):.0f}" for count in self.counts)
        return [
            ("clusters", f"{len(self.centers)}, of about {sizes} {self.unit}s"),
            ("privacy", f"{self.privacy}, {self.privacy.words}; neighbours: {self.neighbours}"),
            ("cost", cost_in_words(self.cost)),
            ("rounds", f"{self.rounds}, each with a part of the privacy"),
            ("manifold", repr(self.ball.manifold)),
            (f"{self.unit}s", f"{self.n}"),
            ("budget", f"data set {self.dataset!r}, charge {self.charge}" if self.dataset else "not kept in a ledger"),
            ("geodp", self.version),
        ]


def private_kmeans(
    x: Any,
    ball: Ball,
    clusters: int,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    rounds: int = 3,
    reach: float | None = None,
    seed: int = 0,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    simulate: np.random.Generator | None = None,
    **who: Unpack[DatasetOptions],
) -> KMeansRelease:
    r"""Centres of clusters of records, released with differential privacy: k-means on a manifold.

    *Public*: all arguments but ``x``, and the number of records. *Private*: the records. *Neighbours*: data sets of the same size
    that differ by replacing one record; with ``unit`` all records of one person. *Theorem*: each round is a Laplace or Gaussian
    mechanism, and the costs of the rounds add up; see :mod:`geodp.kmeans`.

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
    ledger, dataset, simulate
        As for :func:`geodp.private_mean`. The whole cost is charged once, before anything is drawn.
    who
        ``unit``, as for :class:`geodp.Dataset`.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> sphere, rng = Sphere(2), np.random.default_rng(0)
    >>> x = np.concatenate([sphere.project(p + 0.05 * rng.normal(size=(500, 3))) for p in ([0.6, 0, 0.8], [-0.6, 0, 0.8])])
    >>> found = private_kmeans(x, Ball(sphere, [0.0, 0.0, 1.0], 1.2), clusters=2, epsilon=2.0)
    >>> bool(sphere.dist(x[0], found.centers).min() < 0.3), found.cost.epsilon <= 2.0
    (True, True)
    """
    checked_ball(ball)
    privacy = privacy_of(epsilon, delta, rho, mu)
    account = Account.of(ledger, dataset, simulate)
    if simulate is not None and not isinstance(simulate, np.random.Generator):
        raise TypeError(f"simulate must be a numpy.random.Generator but is of type {type(simulate).__name__}")
    data = Dataset.of(x, who)
    if data.by is not None or data.neighbours != "replace":
        raise ValueError("clusters are found among all records, whose number is public: leave out by, groups and neighbours")
    account.check_open()
    members = data.open(ball.manifold)
    unit: Unit = "record" if data.unit is None else "person"
    plan = plan_kmeans(ball, clusters, members.count, privacy, rounds, reach, seed)
    cost, moves = plan.cost, plan.rounds
    account.check(cost, privacy, replace_one(unit))
    search = _Search(ball, plan.clusters, np.random.default_rng(plan.seed))
    charge = account.charge(cost, privacy, f"{plan.clusters} clusters on {ball.manifold}", replace_one(unit))
    if simulate is not None:
        with reproducible():
            counts = computed(lambda: search.run(members.source, moves, simulate))
    else:
        counts = computed(lambda: search.run(members.source, moves, None))
    release = KMeansRelease(
        search.centers,
        counts,
        ball,
        plan.reach,
        len(moves),
        members.count,
        privacy,
        cost,
        unit,
        dataset,
        charge,
        simulate is None,
    )
    account.attach(charge, release.to_json)
    return release


@final
@dataclass(frozen=True)
class KMeansPlan:
    """What :func:`private_kmeans` will do, from public numbers alone."""

    clusters: int
    n: int
    reach: float
    seed: int
    rounds: list[_Round]
    cost: Cost

    def could_release(self, counts: Array) -> bool:
        """Whether the last round can have drawn these counts: exact draws in a flat space are on a public grid."""
        last = self.rounds[-1]
        unit = last.sums.weight / self.n
        steps = np.round(counts * unit / last.noise.grid)
        # the same operations as those on a draw; where steps are many, the division may be wrong by one
        near = [(steps + i) * last.noise.grid * self.n / last.sums.weight for i in (-1.0, 0.0, 1.0)]
        return bool((np.stack(near) == counts).any(axis=0).all())


def plan_kmeans(
    ball: Ball, clusters: Any, n: int, privacy: Privacy, rounds: Any = 3, reach: Any = None, seed: Any = 0
) -> KMeansPlan:
    """The plan of clusters among ``n`` records. Raises whatever may be wrong, so that nothing fails after a charge.

    *Centres anywhere in the ball.* Each of them needs a ball of four radii about it that floats hold. Means are possible in a
    ball only if rounding is less than a tenth of its radius, for which curvature limits the radius to about 20. About every point
    of such a ball, floats hold one of four radii with many orders of magnitude to spare, if its radius is a moderate length.
    """
    clusters, rounds = whole_number(clusters, 1, "the number of clusters"), checked_rounds(rounds)
    seed = whole_number(seed, 0, "the seed")
    least, most = SHORTEST / _AGAIN, LONGEST / _WIDE
    if not least <= ball.radius <= most:
        raise ValueError(
            f"the radius must be between {least:g} and {most:g} for clusters but is {ball.radius:g}: choose other units"
        )
    reach = 0.5 * ball.radius if reach is None else moderate_length(real_number(reach, "the reach"), "the reach")
    if not 0.0 < reach <= 2.0 * ball.radius:
        raise ValueError(f"the reach must be above 0 and at most twice the radius {ball.radius:g} but is {reach:g}")
    n = whole_number(n, 1, "the number of records n")
    FrechetMean(ball).check(n)
    moves = _plans(ball, clusters, reach, n, privacy, rounds)
    return KMeansPlan(clusters, n, reach, seed, moves, cost_of_parts([move.cost for move in moves], privacy))


def checked_rounds(rounds: Any) -> int:
    number = whole_number(rounds, 1, "the number of rounds")
    if number > _MOST_ROUNDS:
        raise ValueError(f"the number of rounds must be at most {_MOST_ROUNDS} but is {number}: few rounds have less noise each")
    return number


@final
@dataclass(frozen=True)
class _Round:
    """One round without its data: the sums, their noise, and what it costs."""

    sums: ClusterSums
    n: int
    noise: Mechanism
    cost: Cost

    @classmethod
    def of(cls, ball: Ball, clusters: int, reach: float, n: int, privacy: Privacy) -> _Round:
        if clusters > 2 and isinstance(privacy, PureDP):
            sums = ClusterSums(ball.manifold, clusters, reach, apart=True)
            # the bound of the module on the loss is all that is known of several noises together
            return cls(sums, n, Measurement(sums, n, privacy).noise, PureCost(pure_epsilon(privacy)))
        sums = ClusterSums(ball.manifold, clusters, reach, apart=False)
        noise = Measurement(sums, n, privacy).noise
        return cls(sums, n, noise, noise.cost)

    @property
    def count_noise(self) -> float:
        """The size of the noise in a count: of all directions it is one."""
        return self.noise.expected_error() / math.sqrt(self.sums.codomain.dim) * self.n / self.sums.weight

    def shrunk(self, sums: Array) -> Array:
        """Noisy sums, shortened by what noise adds to their squared lengths on average; those shorter than that to zero."""
        noise = self.noise.expected_error() * self.n * math.sqrt(self.sums.manifold.dim / self.sums.codomain.dim)
        lengths = np.linalg.vector_norm(sums, axis=-1, keepdims=True)
        return sums * (1.0 - (noise / np.maximum(lengths, noise)) ** 2)

    def drawn(self, x: Any, around: list[Ball], simulate: np.random.Generator | None) -> tuple[Array, Array]:
        """Noisy counts and noisy sums of coordinates, a row a cluster."""
        rows = self.sums.compute(x, self.n, around)
        true = rows if self.sums.apart else rows.reshape(1, -1)
        if simulate is None:
            noisy = np.stack([draw.value for draw in self.noise.draw_each(true)])
        else:
            noisy = np.stack([self.noise.simulate(row, 1, simulate)[0] for row in true])
        noisy = noisy.reshape(rows.shape) * self.n
        return noisy[:, 0] / self.sums.weight, noisy[:, 1:]


def _plans(ball: Ball, clusters: int, reach: float, n: int, privacy: Privacy, rounds: int) -> list[_Round]:
    return [_Round.of(ball, clusters, reach, n, part) for part in split(privacy, [1.0 / rounds] * rounds)]


@final
class _Search:
    """Centres on their way through the rounds. All random numbers here are public."""

    def __init__(self, ball: Ball, clusters: int, rng: np.random.Generator) -> None:
        self._ball, self._rng = ball, rng
        directions = _spread_directions(clusters, ball.manifold.dim, rng)
        self.centers = np.stack([moved_center(ball, _APART * ball.radius * each)[0] for each in directions])

    def run(self, x: Any, plans: list[_Round], simulate: np.random.Generator | None) -> Array:
        manifold, radius = self._ball.manifold, self._ball.radius
        for plan in plans:
            around = [wide_ball(manifold, center, _WIDE * radius) for center in self.centers]
            counts, sums = plan.drawn(x, around, simulate)
            least = max(1.0, plan.count_noise)
            steps = plan.shrunk(sums) / np.maximum(counts, least)[:, None]
            near = [wide_ball(manifold, center, plan.sums.reach) for center in self.centers]
            ends = [moved_center(ball, step)[0] for ball, step in zip(near, steps, strict=True)]
            self.centers = self._ball.clip(np.stack(ends))
            if plan is not plans[-1]:
                self._start_again(np.flatnonzero(counts < least).tolist(), int(np.argmax(counts)))
        return counts

    def _start_again(self, lost: list[int], largest: int) -> None:
        for j in lost:
            if j != largest:
                near = wide_ball(self._ball.manifold, self.centers[largest], _AGAIN * self._ball.radius)
                (direction,) = _spread_directions(1, self._ball.manifold.dim, self._rng)
                self.centers[j] = moved_center(near, near.radius * direction)[0]
        self.centers = self._ball.clip(self.centers)


def _spread_directions(count: int, dim: int, rng: np.random.Generator) -> Array:
    """Unit vectors at random: the corners of a regular simplex if they fit, which are farthest from each other."""
    vectors = rng.normal(size=(count, dim))
    if 1 < count <= dim + 1:
        corners = np.eye(count) - 1.0 / count
        basis = np.linalg.svd(corners)[2][: count - 1]
        turn = np.linalg.qr(rng.normal(size=(dim, count - 1)))[0]
        vectors = corners @ basis.T @ turn.T
    return vectors / np.linalg.vector_norm(vectors, axis=1, keepdims=True)
