r"""The private median of records, or a Huber location nearer to their mean: a centre that needs no ball and few records.

*Public*: the manifold or the wide ball to start from, the number of records, the privacy, the threshold, and every answer on the
way. *Private*: the records. *Neighbours*: data sets of the same size that differ by replacing one record; with ``unit`` all
records of one person.

*Theorem.* :class:`geodp.programs.descent.Descent` asks for sums of vectors and for choices of a radius, each at a cost of its
own, which may depend on earlier answers. A sum (:class:`MedianGradient`) has sensitivity 2 and gets Laplace or Gaussian noise in
``R^(d+1)``; a choice (:class:`MedianScale`) is an exponential mechanism; the start on a compact space is a projected mean with
noise. With Laplace noise the pure epsilons of all steps add up to at most a total ``e`` that is fixed beforehand, so the whole
transcript is ``e``-private (Rogers et al. 2016). Otherwise every step has Gaussian noise, the squares of their mus add up to at
most ``m^2``, so the transcript is ``m``-Gaussian private, with its whole curve (Smith and Thakurta 2022), and so also
``m^2/2``-zero-concentrated (Feldman and Zrnic 2021). :func:`descend` adds the costs up exactly and refuses, before the draw, a
step that would pass the total: by the arithmetic of the descent that never happens. The total is charged, whatever was spent.
Everything else follows from the answers. QED

*Approximate privacy* is never split. Either the total is the largest mu whose exact curve keeps (epsilon, delta), or it is the
largest pure epsilon that does: whichever needs fewer records, and with enough of them the one with the smaller error.

*Persons.* The rows of a person are averaged and put on the grid again: one row of length at most 1, a function of that person's
records alone. So every bound holds for persons in place of records.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple, Unpack, final, overload

import numpy as np

from geodp.inputs import Array, real_number
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.mechanism import Noise
from geodp.noise.selection import Choice, Selection
from geodp.privacy.cost import Cost, GaussianCost, PureCost, gaussian_shift, pure_epsilon
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP
from geodp.programs.descent import (
    RADII,
    Check,
    Descent,
    Gradient,
    Median,
    Request,
    Scale,
    check_compact,
    closeness,
    counted,
    lifted,
    on_grid,
    start_on,
)
from geodp.receipt import QUANTILES, GroupedRelease, Receipt, about_point
from geodp.records.dataset import GroupOptions
from geodp.records.sums import sum_over
from geodp.release import GroupedOptions, Options, release, takes
from geodp.request import Flow, Plan, Program, ProgramPlan, Statistic
from geodp.showing import RULE, Row
from geodp.statistics.average import Average
from geodp.verdict import percent

#: Part of the privacy for a guaranteed error, if one is asked for.
GUARANTEE = 0.15
#: Thresholds up to this many median distances; a larger one is nearly a mean.
_MOST_THRESHOLD = 10.0
#: The spread of the records over the radius of the wide ball, by which Laplace and Gaussian noise are compared.
_TYPICAL = 1.0 / 30.0


# ---------------------------------------------------------------------- what is asked on the way


@final
@dataclass(frozen=True, eq=False)
class MedianGradient(Statistic, step=True):
    """The sum of the rows of all records at a point: directions to them, and how near they are.

    *Sensitivity* 2: each row is a function of one record, of length at most 1, on a grid on which sums are exact
    (:func:`geodp.programs.descent.on_grid`), so the tolerance is 0.
    """

    domain: Manifold
    asked: Gradient | Check

    kind = "median gradient"
    words = "the sum of the directions to the records"

    @property
    def place(self) -> Manifold:
        return self.domain

    @property
    def codomain(self) -> Manifold:
        return Euclidean(self.domain.dim + 1)

    def sensitivity(self, n: int) -> float:
        return 2.0

    def compute(self, source: Any, n: int, progress: Any = None) -> Array:
        rows = lifted if isinstance(self.asked, Gradient) else counted
        each = partial(rows, self.domain, self.asked.point, self.asked.threshold, max(1, n))
        return sum_over(source, self.domain, each, n, partial(_exact_sum, max(1, n)))


def _exact_sum(n: int, rows: Array) -> Array:
    return on_grid(rows, n).sum(axis=0)  # again, because the average of a person's rows is on no grid


@final
@dataclass(frozen=True, eq=False)
class MedianScale(Statistic, step=True):
    """How far records are from a point: a radius, by an exponential mechanism with whole scores of sensitivity 1."""

    domain: Manifold
    asked: Scale

    kind = "median scale"
    words = "the scale of the distances"

    @property
    def place(self) -> Manifold:
        return self.domain

    def noise(self, plan: Plan) -> Noise:
        return Choice(Selection(plan.privacy), (1,) * RADII)

    def compute(self, source: Any, n: int, progress: Any = None) -> list[int]:
        each = partial(closeness, self.domain, self.asked.point, self.asked.radii)
        return [int(score) for score in np.floor(sum_over(source, self.domain, each, n, _in_sixteenths))]

    def value(self, drawn: Array) -> float:
        return float(self.asked.radii[int(drawn[0])])


def _in_sixteenths(rows: Array) -> Array:
    return np.asarray(np.floor(16.0 * rows).sum(axis=0) / 16.0)


class Found(NamedTuple):
    """What a descent found, and what it asked for on the way, each with its cost."""

    median: Median
    steps: tuple[str, ...]


def descents(
    place: Ball | Manifold, n: int, privacy: Privacy, threshold: float = 1.0, guarantee: float = 0.0
) -> tuple[Descent, Cost]:
    """The descent with the noise that suits the privacy best, and the total that it never passes: public numbers alone."""
    found: list[tuple[Descent, Cost]] = []
    if isinstance(privacy, PureDP | ApproximateDP):
        epsilon = pure_epsilon(privacy)
        found.append((Descent(place, n, epsilon, True, threshold, guarantee), PureCost(epsilon)))
    if (shift := gaussian_shift(privacy)) is not None:
        found.append((Descent(place, n, 0.5 * shift**2, False, threshold, guarantee), GaussianCost(shift)))
    return min(found, key=lambda each: _likely_error(each[0]))


def in_one_notion(place: Ball | Manifold, n: int, privacy: Privacy) -> Privacy:
    """Approximate privacy as one epsilon or one mu, whichever suits a descent better. Its parts then add up to the whole.

    Steps that are accounted in parts of one epsilon, or of one mu, need less noise than with parts of epsilon and of delta.
    """
    return min(notions(privacy), key=lambda each: _likely_error(descents(place, n, each)[0]))


def notions(privacy: Privacy) -> list[Privacy]:
    """The single numbers that a program may be accounted in so that it keeps the privacy.

    The mu is that of the exact curve, which is less strict than any rho: it suits programs of Gaussian noise.
    """
    if not isinstance(privacy, ApproximateDP):
        return [privacy]
    return [PureDP(pure_epsilon(privacy)), GaussianDP(gaussian_shift(privacy) or 0.0)]


def shortage(descent: Descent) -> float:
    """How many times as many records a descent needs to arrive nine times in ten, at least 1; if they spread as usual."""
    return max(1.0, descent.enough(_usual_spread(descent.place)) / max(1, descent.n))


def _usual_spread(place: Ball | Manifold) -> float:
    return _TYPICAL * place.radius if isinstance(place, Ball) else 0.1 * place.diameter


def _likely_error(descent: Descent) -> tuple[float, float]:
    return shortage(descent), descent.expected_error(_usual_spread(descent.place))


def descend(plan: ProgramPlan, descent: Descent, total: Cost) -> Generator[tuple[Plan, ...], list[Array], Found]:
    """The flow of a descent as a part of a program: it yields what is to be drawn, and returns what was found."""
    manifold, run = descent.manifold, descent.run()
    answer, spent = None, Fraction(0)
    steps: list[str] = []
    while True:
        try:
            asked: Request = run.send(answer)
        except StopIteration as end:
            return Found(end.value, tuple(steps))
        privacy: Privacy = PureDP(asked.cost) if descent.pure else GaussianDP(math.sqrt(2.0 * asked.cost))
        step = plan.step(_statistic(manifold, asked), privacy, "laplace" if descent.pure else "gaussian")
        cost = step.own_cost
        spent += Fraction(cost.epsilon) if descent.pure else Fraction(cost.mu) ** 2
        if spent > (Fraction(total.epsilon) if descent.pure else Fraction(total.mu) ** 2):
            raise RuntimeError("the steps of the descent cost more than its total")  # known before the draw
        steps.append(f"{step.statistic.kind} ({privacy})")
        (drawn,) = yield (step,)
        answer = step.statistic.value(step.noise.finish(drawn))
        if isinstance(asked, Gradient | Check):
            answer = answer / plan.n


def _statistic(manifold: Manifold, asked: Request) -> Statistic:
    match asked:
        case Gradient() | Check():
            return MedianGradient(manifold, asked)
        case Scale():
            return MedianScale(manifold, asked)
    return Average(manifold)


# ---------------------------------------------------------------------- the release


@final
@dataclass(frozen=True, eq=False)
class MedianRelease(Receipt):
    """A private median, with how far records are from it, and how far noise may have put it from theirs."""

    @property
    def found(self) -> Median:
        """What the descent found, with all that its last answers say."""
        median: Median = self.result.median
        return median

    @property
    def value(self) -> Array:
        """The released point."""
        return self.found.point

    @property
    def scale(self) -> float:
        """About the median distance of the records from the value."""
        return self.found.scale

    @property
    def arrived(self) -> bool:
        """Whether the last answers are those of a point among the records."""
        return self.found.arrived

    @property
    def steps(self) -> tuple[str, ...]:
        """What was asked on the way, and what each step spent."""
        steps: tuple[str, ...] = self.result.steps
        return steps

    @property
    def is_point(self) -> bool:
        return True

    @property
    def threshold(self) -> float:
        return self._program.threshold

    @property
    def _program(self) -> FrechetMedian:
        found: Any = self.statistic
        return found

    def error_quantile(self, q: float = 0.95) -> float:
        """*Approximate*: a distance from the median of the records that the value is within with probability about ``q``.

        It assumes that the walk arrived (:attr:`arrived`), and knows the shape of the records only from the answers.
        """
        return self.found.error_quantile(q)

    def guaranteed(self, q: float = 0.95) -> float | None:
        """A distance that contains the Huber location of the records for twice the scale, with probability ``q``, whatever the
        records are: :meth:`geodp.programs.descent.Median.guaranteed` has the proof. None if it was not asked for, or if the
        answers guarantee nothing."""
        found = self.found.guaranteed(q)
        return found if math.isfinite(found) else None

    @property
    def says_nothing(self) -> bool:
        """Whether the walk did not arrive, or noise alone may put the value out of the records."""
        return self.n == 0 or not self.arrived or self.error_quantile() > 2.0 * self.scale

    def verdict(self) -> str:
        """One line on what the error means, compared with the distances of the records."""
        if self.n == 0 or not self.arrived:
            return (
                "the walk did not arrive: its last answers are not those of a point among the records. They are too few for this "
                f"privacy, or lie in several places; more {self.unit}s or more privacy would help"
            )
        part = f"with probability 95%, noise errs at most about {percent(self.error_quantile() / self.scale)} of the scale"
        return f"next to nothing: {part}" if self.says_nothing else f"{part}, the median distance of the {self.unit}s"

    def points(self) -> dict[str, Array]:
        return {"value": self.value}

    def lengths(self) -> dict[str, float]:
        return {"distance": self.scale, "error_95": self.error_quantile(0.95)}

    def released(self) -> dict[str, Any]:
        return {
            "center": None,
            "radius": None,
            "value": self.value.tolist(),
            "distance": self.scale,
            "arrived": self.arrived,
            "approximate_error": {f"{q:g}": self.error_quantile(q) for q in QUANTILES},
            "guaranteed_error": self.guaranteed(0.95),
            "verdict": self.verdict(),
            "steps": list(self.steps),
            **({} if self.count is None else {"count": self.count.document()}),
        }

    def about_value(self) -> list[Row]:
        return about_point("value", self.value, self.notation)

    def about_error(self) -> list[Row]:
        length = self.notation.length
        what = "the median" if self.threshold == 1.0 else f"the Huber location (threshold {self.threshold:g})"
        rows = [("error", f"within about {length(self.error_quantile(0.95))} of {what} with probability 95% (approximate)")]
        if self._program.guarantee:
            sure = self.guaranteed(0.95)
            known = "the answers guarantee no distance"
            if sure is not None:
                known = f"guaranteed: within {length(sure)} of the Huber location for {length(2.0 * self.scale)}"
            rows.append(("", known))
        return [*rows, ("scale", f"{length(self.scale)}: about the median distance of the {self.unit}s from the value")]

    def rows(self) -> list[Row]:
        start = self._program.start
        outer = f"a ball of radius {self.notation.length(start.radius)}" if isinstance(start, Ball) else f"all of {start}"
        return [
            *self.about_value(),
            *self.about_error(),
            ("verdict", self.verdict()),
            *self.about_protection(),
            *self.about_members(),
            RULE,
            *self.about_privacy(),
            ("walk", f"{len(self.steps)} steps, from {outer}"),
            ("manifold", repr(self.manifold)),
            *self.about_budget(),
        ]


@final
@dataclass(frozen=True)
class FrechetMedian(Program):
    """The point with the least mean distance to all records, smoothed near them: see the module."""

    start: Ball | Manifold
    #: That of the Huber location in median distances.
    threshold: float = 1.0
    #: Part of the privacy for a guaranteed error.
    guarantee: float = 0.0

    kind = "median"
    words = "the median"
    release = MedianRelease
    is_point = True

    def __post_init__(self) -> None:
        threshold = real_number(self.threshold, "the threshold")
        if not 1.0 <= threshold <= _MOST_THRESHOLD:
            raise ValueError(
                f"the threshold must be from 1, for the median, to {_MOST_THRESHOLD:g}, nearly the mean, but is {threshold:g}"
            )
        guarantee = real_number(self.guarantee, "the part of the privacy for a guaranteed error")
        if not 0.0 <= guarantee <= 0.5:
            raise ValueError(f"the part of the privacy for a guaranteed error must be from 0 to 0.5 but is {guarantee:g}")
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "guarantee", guarantee)
        if not isinstance(self.start, Ball):
            check_compact(self.start)

    @property
    def place(self) -> Ball | Manifold:
        return self.start

    def plan(self, request: Any, n: int) -> MedianPlan:
        return MedianPlan(request, n)


@final
@dataclass(frozen=True)
class MedianPlan(ProgramPlan):
    """What a private median will cost, and with a guess of the spread what it will be like, from public numbers alone."""

    @cached_property
    def _descent(self) -> tuple[Descent, Cost]:
        statistic: Any = self.statistic
        return descents(statistic.start, self.n, self.privacy, statistic.threshold, statistic.guarantee)

    @property
    def descent(self) -> Descent:
        return self._descent[0]

    @property
    def own_cost(self) -> Cost:
        return self._descent[1]

    @property
    def says_nothing(self) -> bool:
        """Whether the noise of a gradient is longer than any gradient, so that no walk arrives."""
        descent = self.descent
        return math.sqrt(descent.manifold.dim) * descent.deviation(descent.walking_cost) > 1.0

    def enough(self, spread: float) -> float:
        """From about how many records on a walk arrives nine times in ten, if they spread (root mean square) as was guessed."""
        return self.descent.enough(spread)

    def error(self, spread: float) -> float:
        """About the error of a median of records that spread as was guessed."""
        return self.descent.expected_error(spread)

    def check(self) -> None:
        """Raises if a step with all of the privacy has no noise: no step has more."""
        descent, cost = self._descent
        asked = Gradient(descent.manifold.origin, 1.0, descent.budget)
        privacy: Privacy = PureDP(cost.epsilon) if descent.pure else GaussianDP(cost.mu)
        self.step(_statistic(descent.manifold, asked), privacy, "laplace" if descent.pure else "gaussian").check()

    def flow(self) -> Flow:
        return (yield from descend(self, *self._descent))


class MedianOptions(Options, total=False):
    """The options of a median."""

    threshold: float
    guaranteed: bool
    outer: float | None


class GroupedMedianOptions(MedianOptions, GroupedOptions, total=False):
    """With them, the groups."""


@overload
def private_median(
    x: Any, place: Ball | Manifold, epsilon: float | None = None, **options: Unpack[MedianOptions]
) -> MedianRelease: ...


@overload
def private_median(
    x: Any, place: Ball | Manifold, epsilon: float | None = None, **options: Unpack[GroupedMedianOptions]
) -> GroupedRelease: ...


@takes(Options, GroupOptions)
def private_median(
    x: Any,
    place: Ball | Manifold,
    epsilon: float | None = None,
    *,
    threshold: float = 1.0,
    guaranteed: bool = False,
    outer: float | None = None,
    **options: Any,
) -> Any:
    r"""The median of records, released with differential privacy. It needs no ball, and a few hundred records are often enough.

    *Public*: the place, the number of records, the privacy and all other arguments. *Private*: the records. *Neighbours*: data
    sets of the same size that differ by replacing one record. ``options`` can change this, as for :func:`geodp.private_mean`.
    *Theorem*: :mod:`geodp.programs.median`; noisy steps towards the records, each a sum that one record changes by at most 2,
    with a total cost that is fixed beforehand.

    The Fréchet median is the point with the least mean distance to all records. One in ten of them may be anywhere, and it hardly
    moves. A record that is not a point of the manifold counts as 0: it pulls nowhere.

    Parameters
    ----------
    x
        The records, as for :func:`geodp.private_mean`.
    place
        The manifold. Or a wide public ball to start from, whose centre and radius were chosen without looking at the data.
    epsilon, delta, rho, mu
        The privacy to spend, as for :func:`geodp.private_mean`.
    threshold
        Records pull with their distance up to so many median distances, and beyond that with a constant force. 2 or 3 are nearer
        to the mean, and less robust.
    guaranteed
        Whether to spend 15% of the privacy on an error that holds whatever the records are, where geodesics never meet again
        and curvature is not positive (``release.guaranteed``). The usual error is approximate.
    outer
        If the place is a manifold without a cut locus: the radius of the wide ball about its origin, 30 unless said otherwise.
    options
        A budget to charge, a generator for simulations, and whose the records are: :class:`geodp.release.Options`. The whole
        cost is charged once, before anything is drawn.

    >>> import numpy as np
    >>> from geodp import SPD
    >>> x = np.array([np.diag([1e-6, 2e-6]) * np.exp(u) for u in np.random.default_rng(0).normal(0.0, 0.3, 2000)])
    >>> release = private_median(x, SPD(2), epsilon=1.0)
    >>> release.arrived, bool(SPD(2).dist(release.value, np.diag([1e-6, 2e-6])) < 0.1), release.cost.epsilon
    (True, True, 1.0)
    """
    if isinstance(place, Manifold):
        place = start_on(place, outer)
    elif not isinstance(place, Ball):
        raise TypeError(f"the place must be a manifold or a wide Ball but is of type {type(place).__name__}")
    elif outer is not None:
        raise ValueError("outer is the radius of a wide ball on a manifold: leave it out where a ball is given")
    statistic = FrechetMedian(place, threshold, GUARANTEE if guaranteed else 0.0)
    return release(statistic, x, epsilon, options)
