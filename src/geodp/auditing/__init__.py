r"""Audits: attacks on a mechanism that measure how much it reveals.

A privacy claim is a statement about the probabilities ``P(A)`` and ``Q(A)`` of every event ``A`` of the output on two
neighbouring data sets. Pure ``epsilon`` claims that ``P(A) <= exp(epsilon) Q(A)``; ``epsilon`` and ``delta`` claim that
``P(A) <= exp(epsilon) Q(A) + delta``; ``rho`` claims that the Rényi divergence of order ``a`` between the two probabilities is
at most ``a rho``; ``mu`` claims that they are the errors of a test no better than that of two normal laws ``mu`` apart. One pair
and one event can refute the claim. The audit runs the mechanism on a pair, looks for the most revealing event in one half of the
runs, and counts it in the other half, which played no part in the choice. Clopper and Pearson's bounds on the two probabilities
then bound ``epsilon``, ``delta`` at the claimed epsilon, ``rho`` or ``mu`` from below. For ``rho`` one event may show too little;
the audit then uses a step function of the output (:func:`geodp.auditing.bounds.least_rho_of_steps`).

*The confidence.* An audit reports two bounds, one for each direction (``P/Q`` and ``Q/P``). Each comes from one event (or step
function) that was fixed before its hits were counted. So four probabilities (or means) are bounded, each with a quarter of the
permitted chance of error: with probability ``confidence`` both lower bounds are true. The number of events tried in the first
half does not matter. One of them is a classifier's score: it is trained on the first part of that half, and its threshold is
chosen on the other.

*What it cannot do.* An audit can refute a claim but never prove it: it sees only one pair of data sets and the events of
:mod:`geodp.auditing.events`, :mod:`geodp.auditing.parities` and :mod:`geodp.auditing.classifier`. A secret in the XOR of three
bits passes. The proof is in ``docs/privacy.md``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final, get_args

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from geodp._version import __version__
from geodp.auditing.bounds import least_epsilon, least_rho_of_steps, lower_bound
from geodp.auditing.events import KINDS, Kind, Witness
from geodp.auditing.mechanisms import DrawPath, MeanMechanism, Mechanism, runner
from geodp.auditing.pairs import checked_pair, worst_case_pair
from geodp.auditing.search import Counted, Progress, Runs, Search
from geodp.inputs import Array, whole_number
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball, checked_ball
from geodp.noise.choice import MechanismName
from geodp.noise.flat import Family
from geodp.privacy.neighbours import REPLACE_ONE
from geodp.privacy.notions import Privacy, PureDP, privacy_of
from geodp.progress import progress_bar
from geodp.records.chunks import cores
from geodp.release import takes
from geodp.request import Plan, Request
from geodp.statistics.mean import Mean
from geodp.statistics.sensitivity import Bound

__all__ = ["AuditResult", "Finding", "MeanMechanism", "Mechanism", "audit", "worst_case_pair"]

#: The default number of runs on each of the two data sets.
DRAWS: dict[DrawPath, int] = {"float": 1_000_000, "exact": 200_000, "release": 10_000}
_BINS = 60
_MOST_DRAWS, _MOST_NUMBERS = 10_000_000, 100_000_000


@final
@dataclass(frozen=True)
class Finding:
    """How often the most revealing event of one direction happened, in runs that played no part in its choice.

    For a claim about rho it may be a step function ``witness`` with the counts on its ``steps``; ``hits`` and ``others`` then
    count the steps above zero.
    """

    direction: str
    event: str
    hits: int
    others: int
    draws: int
    confidence: float
    claim: Privacy
    witness: Witness | None = None
    steps: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @classmethod
    def of(cls, direction: str, counted: Counted, draws: int, confidence: float, claim: Privacy) -> Finding:
        witness = counted.event if isinstance(counted.event, Witness) else None
        return cls(direction, str(counted.event), counted.hits, counted.others, draws, confidence, claim, witness, counted.steps)

    @property
    def lower(self) -> float:
        """The lower bound on the number of the claim: epsilon, delta at the claimed epsilon, rho or mu."""
        return self.lower_at(self.confidence)

    def lower_at(self, confidence: float) -> float:
        """The lower bound that these counts would give at another confidence of the audit."""
        level = (1.0 - confidence) / 2.0
        if self.witness is not None and self.steps is not None:
            return max(0.0, least_rho_of_steps(self.witness.weights, *self.steps, self.witness.order, level))
        return max(0.0, float(lower_bound(self.claim)[2](self.hits, self.others, self.draws, level)))

    @property
    def epsilon_lower(self) -> float:
        """The lower bound on pure epsilon, whatever the claim."""
        return max(0.0, float(least_epsilon(self.hits, self.others, self.draws, (1.0 - self.confidence) / 2.0)))


@final
@dataclass(frozen=True)
class AuditResult:
    """What an audit found. :attr:`consistent` is its verdict.

    ``draws`` is the number of runs on each data set; half of them choose the events. ``loss_edges`` and ``loss_counts``
    are a histogram, for each data set, of the privacy loss ``log(p/q)`` that the claimed law gives to an output.

    >>> from geodp import Euclidean
    >>> result = audit(Ball(Euclidean(1), center=[0.0], radius=1.0), n=10, epsilon=1.0, draws=20_000, seed=1)
    >>> print(str(result).splitlines()[0])
    AUDIT: consistent with the claim
    """

    plan: Plan
    findings: tuple[Finding, Finding]
    confidence: float
    draws: int
    path: str
    distance: float
    own_pair: bool
    seed: int | None
    seconds: float
    loss_edges: tuple[float, ...]
    loss_counts: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def privacy(self) -> Privacy:
        """The claim."""
        return self.plan.privacy

    @property
    def epsilon(self) -> float | None:
        """The claimed epsilon, if there is one."""
        return self.privacy.parameters().get("epsilon")

    @property
    def ball(self) -> Ball | None:
        """The public ball of the records, if there is one."""
        place = self.plan.statistic.place
        return place if isinstance(place, Ball) else None

    @property
    def manifold(self) -> Manifold:
        """The manifold of the records."""
        return self.plan.request.manifold

    @property
    def n(self) -> int:
        return self.plan.n

    @property
    def sensitivity(self) -> float:
        return self.plan.sensitivity

    @property
    def scale(self) -> float:
        return self.plan.noise.scale

    @property
    def number(self) -> str:
        """The name of the number that is bounded from below: epsilon, delta, rho or mu."""
        return lower_bound(self.privacy)[0]

    @property
    def lower(self) -> float:
        """The true value of the claimed number is at least this, with probability ``confidence``."""
        return self.worst.lower

    @property
    def epsilon_lower(self) -> float:
        """The mechanism's pure epsilon is at least this, with probability ``confidence``."""
        return max(finding.epsilon_lower for finding in self.findings)

    @property
    def worst(self) -> Finding:
        """The direction that reveals more."""
        return max(self.findings, key=lambda finding: finding.lower)

    @property
    def consistent(self) -> bool:
        """Whether the audit leaves the claim standing: the lower bound does not exceed it."""
        return self.lower <= lower_bound(self.privacy)[1]

    @property
    def note(self) -> str:
        """Says whether the result may be published. A result about given records may not: it has no noise."""
        return _GIVEN if self.own_pair else _MADE_UP

    def to_json(self) -> str:
        """The result as JSON text. Its ``note`` says whether it may be published, see :attr:`note`."""
        counts = ("direction", "event", "hits", "others", "draws")
        directions = [
            {name: getattr(finding, name) for name in counts} | {f"{self.number}_lower": finding.lower}
            for finding in self.findings
        ]
        return json.dumps(
            {
                "geodp": __version__,
                "note": self.note,
                "consistent": self.consistent,
                **self.privacy.parameters(),
                f"{self.number}_lower": self.lower,
                "confidence": self.confidence,
                "directions": directions,
                "draws": self.draws,
                "path": self.path,
                "summary": self.plan.statistic.kind,
                "manifold": repr(self.manifold),
                "center": None if self.ball is None else self.ball.center.tolist(),
                "radius": None if self.ball is None else self.ball.radius,
                "n": self.n,
                "mechanism": self.plan.noise.name,
                "bound": getattr(self.plan.statistic, "bound", None),
                "sensitivity": self.sensitivity,
                "scale": self.scale,
                "pair": "given" if self.own_pair else "worst case",
                "distance_of_means": self.distance,
                "seed": self.seed,
                "seconds": round(self.seconds, 3),
                "loss_edges": self.loss_edges,
                "loss_counts": self.loss_counts,
            },
            indent=2,
        )

    def __str__(self) -> str:
        verdict = "consistent with the claim" if self.consistent else "THE CLAIM IS REFUTED"
        share = 100.0 * self.distance / self.sensitivity
        radius = "" if self.ball is None else f", radius {self.ball.radius:g}"
        values = "means" if self.plan.statistic.kind == "mean" else "values"
        lines = [
            ("claim", f"{self.privacy}, {self.manifold}{radius}, n = {self.n}"),
            ("found", f"{self._found(self.lower)} (confidence {self.confidence:g})"),
            ("noise", f"{self.plan.noise.name}, scale {self.scale:.4g}"),
            ("mechanism", _PATHS.get(self.path, self.path)),
            ("neighbours", "the two data sets given" if self.own_pair else "a worst case for this ball"),
            ("", f"their {values} are {self.distance:.4g} apart, {share:.1f}% of the sensitivity"),
            ("runs", f"{self.draws:,} on each; events chosen on one half, counted on the other; {self.seconds:.1f} s"),
        ]
        for finding in self.findings:
            lines.append((finding.direction, f"{finding.hits:,} to {finding.others:,} of {finding.draws:,}: {finding.event}"))
            lines.append(("", f"so {self._found(finding.lower)}"))
        text = "\n".join([f"AUDIT: {verdict}", *(f"  {name:<14}{line}" for name, line in lines)])
        return f"{self.note}\n{text}" if self.own_pair else text

    def _found(self, lower: float) -> str:
        at = f" at epsilon = {self.epsilon:g}" if self.number == "delta" else ""
        return f"{self.number}{at} is at least {lower:.4g}"


_GIVEN = "NOT PRIVATE: this describes the records that were given. Do not publish it."
_MADE_UP = "The data sets were made from public numbers: this describes no records."

_PATHS = {
    "float": "the release, with the floating-point simulator of its law",
    "exact": "the release, with its exact sampler",
    "release": "whole releases, one for every run",
}


@takes()
def audit(
    ball: Ball | Request,
    n: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    mechanism: Mechanism | MechanismName = "auto",
    law: Family | None = None,
    pair: tuple[ArrayLike, ArrayLike] | None = None,
    draws: int | None = None,
    confidence: float = 0.99,
    path: DrawPath = "float",
    events: tuple[Kind, ...] | None = None,
    bound: Bound = "sharp",
    seed: int | None = None,
    processes: int | None = None,
    progress: Progress | bool | None = None,
) -> AuditResult:
    r"""Attacks a mechanism and bounds its epsilon, its delta, its rho or its mu from below.

    Without your own ``mechanism`` and ``pair`` it attacks :func:`geodp.private_mean` with these public parameters, on
    neighbouring data sets whose means are about as far apart as one record can move them (:func:`worst_case_pair`).

    Parameters
    ----------
    ball, n, epsilon, delta, rho, mu, law, bound
        The claim, as for :func:`geodp.private_mean`; by default ``epsilon = 1``. ``n`` may be left out if a pair is given. Or in
        place of the ball a :class:`geodp.Request` for any statistic with noise, without the other options; if it is not for a
        mean, with a ``pair``.
    mechanism
        ``"auto"``, ``"intrinsic"`` or ``"tangent"``, as for :func:`geodp.private_mean`, or your own mechanism with that claim:
        ``mechanism(x, size, rng)`` returns the outputs of ``size`` independent runs on the
        data set ``x`` as an array ``(size, *point_shape)``; ``rng`` is a seeded generator that it may use.
    pair
        Two data sets that differ by replacing one record. The result then describes them and is not private.
    draws
        Runs on each data set; by default a million, 200,000 with the exact sampler and 10,000 whole releases.
    confidence
        The probability that the reported lower bounds hold.
    path
        How to draw outputs: ``"exact"`` like a private release, ``"float"`` with the fast simulator of the same law, or
        ``"release"`` by a whole release every time. See :class:`MeanMechanism`.
    events
        Which kinds of events to look for: some of ``"law"``, ``"array"``, ``"atoms"``, ``"bits"``, ``"classifier"``; all by
        default. The last bits of the simulator depend on the private mean, so it is never used for a release;
        ``path="float"`` audits only the law it draws from, and leaves out ``"bits"`` unless you ask for them.
    seed
        Makes the audit repeatable (not with ``path="release"``, which always takes its bits from the operating system).
    processes
        The number of processes for the exact sampler; by default one for each core.
    progress
        True for a bar, in a terminal or a notebook; or a function, called as ``progress(runs_done, runs_in_all)``.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> ball = Ball(Sphere(2), center=[0.0, 0.0, 1.0], radius=np.pi / 8)
    >>> result = audit(ball, n=100, epsilon=1.0, draws=40_000, seed=1)
    >>> result.consistent, 0.5 < result.epsilon_lower < 1.0
    (True, True)
    """
    started = time.perf_counter()
    given = mechanism if callable(mechanism) else None
    name: MechanismName = "auto" if callable(mechanism) else mechanism
    if isinstance(ball, Request):
        if (epsilon, delta, rho, mu, name, law, bound) != (None, None, None, None, "auto", None, "sharp"):
            raise ValueError("a request says its privacy, mechanism, law and bound: leave them out, or give a ball")
        request = ball
    else:
        privacy = PureDP(1.0) if (epsilon, delta, rho, mu) == (None,) * 4 else privacy_of(epsilon, delta, rho, mu)
        request = Request(Mean(checked_ball(ball), bound), privacy, mechanism=name, law=law)
    records, plan = _claim(request, n, pair)
    budget = _budget(draws, path, confidence)
    kinds = _kinds(events, path, given)
    seeds = np.random.SeedSequence(None if seed is None else whole_number(seed, 0, "the seed", most=math.inf))
    audited = given or MeanMechanism(plan, path, seed is not None)
    everywhere = cores() if processes is None else whole_number(processes, 1, "the number of processes")
    workers = everywhere if given is None and path != "float" else 1
    first, second = (plan.statistic.compute(x, plan.n) for x in records)
    space: Manifold = plan.statistic.codomain
    # where no ball holds all values, distances are told from the first value
    hull = plan.statistic.hull or Ball(space, first, 1.0)
    distance = float(space.raw_dist(first, second))
    number, _, least = lower_bound(plan.privacy)
    # threads in the linear algebra library cost more than they gain on arrays of small matrices
    with threadpool_limits(1, "blas"), runner(audited, records, workers) as run, _told(progress) as told:
        runs = Runs(run, budget // 2, seeds, told, space.point_shape)
        search = Search(hull, (first, second), plan.noise, kinds, least, steps=number == "rho")
        loss = search.explore(runs)
        found = search.count(runs)
    edges = _edges(loss)
    return AuditResult(
        plan=plan,
        findings=(
            Finding.of("first/second", found[0], runs.half, confidence, plan.privacy),
            Finding.of("second/first", found[1], runs.half, confidence, plan.privacy),
        ),
        confidence=confidence,
        draws=2 * runs.half,
        path=path if given is None else "a mechanism that was given",
        distance=distance,
        own_pair=pair is not None,
        seed=seed,
        seconds=time.perf_counter() - started,
        loss_edges=tuple(edges.tolist()),
        loss_counts=(_histogram(loss[0], edges), _histogram(loss[1], edges)),
    )


# ------------------------------------------------------------------------------------------ reading the arguments


@contextmanager
def _told(progress: Progress | bool | None) -> Iterator[Progress | None]:
    if progress is True:
        with progress_bar("audit") as bar:
            yield lambda done, total: bar(1, done, total)
    else:
        yield progress or None


def _claim(request: Request, n: int | None, pair: tuple[ArrayLike, ArrayLike] | None) -> tuple[tuple[Array, Array], Plan]:
    """The two data sets, and what is claimed of a release of either."""
    if request.protects != REPLACE_ONE:
        raise ValueError(f"an audit compares data sets that differ in one record, but the request is to {request.protects}")
    if pair is not None:
        records = checked_pair(pair, request.manifold)
        if n is not None and n != len(records[0]):
            raise ValueError(f"n is {n} but the data sets hold {len(records[0])} records: leave n out")
        return records, request.plan(len(records[0]))
    if n is None:
        raise ValueError("an audit needs the number of records n, or a pair of neighbouring data sets")
    ball = request.statistic.hull
    if ball is None or ball != request.statistic.place:
        raise ValueError(
            f"a worst case is known for means alone: give a pair of neighbouring data sets for {request.statistic.words}"
        )
    plan = request.plan(n)
    most = _MOST_NUMBERS // math.prod(ball.manifold.point_shape)
    if n > most:
        raise ValueError(f"n is {n}, but worst-case data sets of more than {most} records would not fit in memory")
    return worst_case_pair(ball, n), plan


def _budget(draws: int | None, path: DrawPath, confidence: float) -> int:
    if path not in get_args(DrawPath):
        raise ValueError(f"the path must be one of {', '.join(get_args(DrawPath))} but is {path!r}")
    if not 0.5 <= confidence < 1.0:
        raise ValueError(f"the confidence must be at least 0.5 and below 1 but is {confidence}")
    budget = DRAWS[path] if draws is None else whole_number(draws, 100, "the number of draws")
    if budget > _MOST_DRAWS:
        raise ValueError(
            f"the number of draws must be at most {_MOST_DRAWS} but is {budget}, because half of them stay in memory"
        )
    return budget


def _kinds(events: tuple[Kind, ...] | None, path: DrawPath, mechanism: Mechanism | None) -> tuple[Kind, ...]:
    if events is None:
        return tuple(kind for kind in KINDS if kind != "bits") if mechanism is None and path == "float" else KINDS
    kinds = (events,) if isinstance(events, str) else tuple(events)
    if not kinds or not set(kinds) <= set(KINDS):
        raise ValueError(f"events must be some of {', '.join(KINDS)} but are {', '.join(map(str, kinds)) or 'none'}")
    return kinds


# ------------------------------------------------------------------------------------------ the histogram


def _edges(loss: list[Array]) -> Array:
    """Edges of a histogram that covers all losses of a bounded law, or all but a few of an unbounded one."""
    sizes = np.abs(np.concatenate(loss))
    reach = float(np.quantile(sizes[np.isfinite(sizes)], 0.9999)) if np.isfinite(sizes).any() else 1.0
    return np.linspace(-reach, reach, _BINS + 1) * (1.0 + 1e-9)


def _histogram(loss: Array, edges: Array) -> tuple[int, ...]:
    return tuple(np.histogram(np.clip(loss, edges[0], edges[-1]), edges)[0].tolist())
