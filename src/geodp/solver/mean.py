"""The Fréchet mean, with a proved bound on its numerical error."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import EPSILON, SHORTEST, Array, moderate_length, real_number
from geodp.manifolds.ball import Ball, checked_ball
from geodp.privacy.neighbours import Unit
from geodp.progress import Progress, followed
from geodp.records.labels import Indices
from geodp.records.persons import Persons
from geodp.records.sources import Columns, load
from geodp.solver.groups import GroupEvaluator, best_group_evaluator
from geodp.solver.passes import HessianKnown, Pass, sum_rounding
from geodp.solver.records import Records, open_records
from geodp.solver.secants import MEMORY, accelerated

#: In balls too wide to promise a tolerance like this, the solver still tries to reach it, if the records allow it.
FINE = 1e-7
#: The most that underflow of squares can take from a computed length.
UNDERFLOW = 1e-150
#: The smallest tolerance that callers may request. Even in the smallest balls the default one is larger.
_LEAST_TOLERANCE = 1e-20 * SHORTEST
#: A safeguard that no data set should reach: the default tolerance is met after a few passes.
MOST_PASSES = 100_000
#: In balls whose energy is flatter than this at its least curved place, means would take too many passes.
_LEAST_FLATNESS = 1e-3


@dataclass(frozen=True)
class MeanResult:
    """A Fréchet mean, an upper bound on its distance to the exact one, and the number of passes over the data.

    >>> from geodp import Ball, Euclidean
    >>> result = frechet_mean([[1.0], [2.0], [6.0]], Ball(Euclidean(1), center=[0.0], radius=10.0))
    >>> result.point, result.error_bound < 1e-10
    (array([3.]), True)
    """

    point: Array
    error_bound: float
    iterations: int


def frechet_mean(
    x: Any,
    ball: Ball,
    *,
    tolerance: float | None = None,
    weights: ArrayLike | None = None,
    progress: Progress | bool | None = None,
    **how: Unpack[Columns],
) -> MeanResult:
    r"""The point of least mean squared distance to the records, clipped into the ball.

    Parameters
    ----------
    x
        The records: an array or memory map ``(n, *point_shape)``; or chunks of such arrays, as a list or as a function
        that returns a new iterator over them (the data are read several times, a few chunks at a time); or a Dask array,
        whose blocks are read where they are, by the workers of the cluster, and must be the same every time. Or a data frame of
        pandas, polars, pyarrow and others (:mod:`geodp.files.frames`), or chunks of those; the name of a file
        (:mod:`geodp.files`); rotations of SciPy.
    ball
        The public ball; records outside it are moved to its boundary first, see :meth:`Ball.clip`.
    tolerance
        The largest acceptable ``error_bound``. By default :func:`default_tolerance`, a function of the ball alone which
        every data set meets; where that is coarse, because the ball is so wide that logarithms across it have few digits, the
        iteration goes on to what the records themselves allow, each by where it is (:meth:`Manifold.rounding_reach`), which may
        take passes of its own. A smaller one that float64 cannot meet is a ``ValueError``.
    weights
        Non-negative weights of the records, ``(n,)``; equal by default.
    progress
        True for a bar, in a terminal or a notebook. Or a function, called as ``progress(iteration, records_done,
        records_in_all_if_known)`` after every chunk.
    how
        ``columns``, ``layout``, ``header`` and ``mask``: how columns become points, as for :func:`geodp.files.read_records`.
        Arrays need a ``layout`` if their rows are not points yet, such as upper triangles.

    Notes
    -----
    *The bound.* At a point ``p`` of the ball let ``gamma`` bound the norm of the mean of ``log_p(x_i)``, rounding of the
    logarithms and of their sum included. If the curvature is non-positive the energy ``F``, half the mean squared distance,
    is 1-strongly convex and the exact mean is within ``gamma``. If it is at most ``kappa > 0``, the comparison argument of
    the sensitivity theorem bounds the Hessian along the gradient flow from ``p``, which stays in the ball, below by
    ``sqrt(b^2 - g^2)`` where ``g`` is the norm of the gradient and ``b = sqrt(kappa) r cot(sqrt(kappa) r)``; the length
    of the flow, and the distance to the mean, is therefore at most ``arcsin(gamma/b)/sqrt(kappa)`` (in the units of
    ``kappa = 1``), at every admissible radius.

    *Convergence.* The gradient step, with one over an upper bound of the Hessian for its length, lowers ``F``; the exact
    mean is the only critical point in the ball. Accelerated steps (Newton's where the evaluator has the Hessian, Anderson's
    otherwise) are shortened until they lower ``F`` as much as a gradient step must, or bring the gradient to a new low where
    it certifies the distance to the mean. Points outside the ball are moved to its boundary, which lowers ``F`` on spaces
    without positive curvature and on spheres; on the other spaces no step that left the ball has been seen.

    >>> import numpy as np
    >>> from geodp import SPD, Ball
    >>> x = [np.diag([1.0, 4.0]), np.diag([4.0, 1.0])]
    >>> result = frechet_mean(x, Ball(SPD(2), center=np.eye(2), radius=3.0))
    >>> result.point.round(12), result.error_bound < 1e-9
    (array([[2., 0.],
           [0., 2.]]), True)
    """
    points = load(x, checked_ball(ball).manifold, **how).x
    with followed(progress, "mean") as told:
        result = _Solver(open_records(points, ball, weights), told).solve(tolerance)
    return replace(result, point=ball.manifold.raw_readable(result.point))


def means_possible(ball: Ball) -> bool:
    """Whether means in this ball can be computed, so that :func:`check_means` raises nothing."""
    return _resolved(ball) and flatness(ball) >= _LEAST_FLATNESS


def check_means(ball: Ball, n: int) -> None:
    """Raises if float64 does not resolve means in this ball, or if they could take very many passes."""
    if not _resolved(ball):
        smaller = [Ball(ball.manifold, ball.center, ball.radius * 0.9**i) for i in range(1, 40)]
        largest = next((f"{each.radius:.2g}" for each in smaller if _resolved(each)), None)
        remedy = "a centre with a smaller condition number would work"
        if largest is not None:
            remedy = f"a radius of {largest} would work, and private_ball can look for a smaller ball inside this one"
        raise ValueError(
            f"float64 cannot resolve means in this ball of {ball.manifold}: rounding may move them by "
            f"{mean_tolerance(ball):.2g}, more than a tenth of the radius {ball.radius:g}; {remedy}"
        )
    if flatness(ball) < _LEAST_FLATNESS:
        raise ValueError(
            f"the radius {ball.radius:g} is too close to the largest one, {ball.max_radius:g}, for means to be computed in "
            f"bounded time, and one record could move them {2.0 / flatness(ball) / n:.3g} radii: choose a smaller one"
        )


def mean_tolerance(ball: Ball, unit: Unit = "record") -> float:
    """A bound on the distance of the computed mean from the exact one, for every data set: a function of the ball alone.

    It is the solver's tolerance plus the difference between the computed point and the exact one that its floats define. The
    mean of a person's records has the same error. Points that all move by ``t`` move their mean by at most ``t s/b``, where
    ``s`` bounds the derivative of ``log_p(x)`` in ``x`` and ``b`` the Hessian from below: both are 1 without positive
    curvature.
    """
    once = _tolerance(ball)
    return once * (1.0 + _most_stretch(ball) / flatness(ball)) if unit == "person" else once


def opened(x: Any, ball: Ball) -> Records:
    """The points of ``x``, one for each record or person, clipped into the ball whenever they are read."""
    return open_records(one_point_each(x, ball), ball, None)


def mean_of(records: Records, n: int, progress: Progress | bool | None = None) -> Array:
    """The mean of exactly ``n`` open records, to the default tolerance. What is read of them later is the same data set."""
    records.check_count(n)
    with followed(progress, "mean") as told:
        return _Solver(records, told).solve(None, least_passes(records.ball, records.evaluator.hessian)).point


def _resolved(ball: Ball) -> bool:
    return _tolerance(ball) < 0.1 * ball.radius


def _tolerance(ball: Ball) -> float:
    return default_tolerance(ball) + 4.0 * ball.manifold.log_rounding_in_ball(ball.center, ball.reach)


def default_tolerance(ball: Ball) -> float:
    """The error bound that :func:`frechet_mean` meets for every data set in the ball: a function of the ball alone.

    It is twice the largest rounding error of a gradient anywhere in the ball, turned into a distance by the certificate, and
    never more than the diameter of the ball.
    """
    rounding = _rounding(ball) + sum_rounding(2.0 * ball.reach)
    return min(2.0 * ball.reach, _certificate(ball, 8.0 * rounding))


@lru_cache(maxsize=64)
def _rounding(ball: Ball) -> float:
    """The largest rounding error of a logarithm anywhere in the ball."""
    return ball.manifold.log_rounding_in_ball(ball.center, ball.reach)


def checked_tolerance(tolerance: float) -> float:
    value = real_number(tolerance, "the tolerance")
    if not value > 0.0:
        raise ValueError(f"the tolerance must be positive but is {value}")
    return moderate_length(value, "the tolerance", _LEAST_TOLERANCE)


def least_passes(ball: Ball, hessian: HessianKnown) -> int:
    """The number of passes that a release makes even if fewer would be enough: what ordinary data need in such a ball.

    Passes take time, and time can be observed. This number is public. Only data that need more are noticeable.
    """
    manifold = ball.manifold
    extent = ball.radius * math.sqrt(max(manifold.curvature, -manifold.lowest_curvature))
    if extent == 0.0:
        return 2
    if hessian == "full":
        return 3 + (extent > 0.6)
    if hessian == "mean":
        return 4 + (extent > 0.5) + (extent > 1.6)
    return 4 + min(math.ceil(2.0 * extent), 8)


def _certificate(ball: Ball, gamma: float) -> float:
    """A bound on the distance of the exact mean from a point of the ball with a mean logarithm of at most ``gamma``."""
    root, radius = math.sqrt(ball.manifold.curvature), ball.reach
    if root == 0.0:
        return gamma
    sine = gamma * math.tan(root * radius) / radius
    return math.asin(sine) / root * (1.0 + 8.0 * EPSILON) if sine < 1.0 else math.inf


def flatness(ball: Ball) -> float:
    """A lower bound on the Hessian of half the mean squared distance at the mean: gradient steps shrink the error by it."""
    angle = math.sqrt(ball.manifold.curvature) * ball.reach
    return angle / math.tan(angle) if angle > 0.0 else 1.0


def _most_stretch(ball: Ball) -> float:
    """The largest factor by which ``log`` at one point of the ball stretches a small move of another point."""
    angle = 2.0 * math.sqrt(ball.manifold.curvature) * ball.reach
    return angle / math.sin(angle) if angle > 0.0 else 1.0


def one_point_each(x: Any, ball: Ball) -> Any:
    """A source of one point for each of ``n``: the mean of a person's records, or the record itself."""
    if not isinstance(x, Persons):
        return x
    # chosen by the number of persons, which is public, and once for all passes
    return x.each(partial(_means_of_persons, ball, type(best_group_evaluator(ball, x.count))))


def _means_of_persons(ball: Ball, kind: type[GroupEvaluator], records: Array, starts: Indices) -> Array:
    """The mean of each person's records, clipped into the ball."""
    from geodp.solver.many import group_means

    return group_means(records, np.append(starts, len(records)), ball, steady=True, kind=kind).points


class _State(NamedTuple):
    """The result of one pass at a point. Tangent vectors are coordinates in the orthonormal frame there."""

    point: Array
    log: Array  # mean logarithm: minus the gradient
    step: Array  # a step towards the mean, using the Hessian as far as the pass gives it
    gamma: float
    energy: float
    bound: float
    rounding: float  # rounding error of the gradient, for the records of this pass
    reach: float  # distance of the farthest record


class _Solver:
    def __init__(self, records: Records, progress: Progress | None) -> None:
        ball = records.ball
        self.ball, self.manifold, self.records, self.progress = ball, ball.manifold, records, progress
        self.most_rounding, self.goal = _rounding(ball), default_tolerance(ball)
        self.dim, self.root = self.manifold.dim, math.sqrt(-self.manifold.lowest_curvature)
        self.target = self.goal
        # in the widest balls the energy has curved valleys with an almost flat floor, where Newton's steps lead astray
        self.uses_hessian = records.evaluator.hessian != "full" or flatness(ball) > 0.01
        self.tight = False
        self.passes = 0
        self.trust = 2.0 * ball.reach
        self.lowest = math.inf
        # near the mean rounding hides changes of the energy, but there a gradient step shrinks the gradient by more than this
        self.slow = 1.0 - 0.25 * flatness(ball) / self._steepest(math.inf)
        self.secants: list[tuple[Array, Array]] = []

    def solve(self, tolerance: float | None, least: int = 1) -> MeanResult:
        if tolerance is not None:
            self.target = tolerance = checked_tolerance(tolerance)
        state = self._evaluate(self.ball.center)
        stalled = 0
        while state.bound > self.target:
            if tolerance is not None and stalled >= 3 and state.bound <= self.goal:
                raise ValueError(
                    f"the tolerance {tolerance:.3g} is below what float64 can certify for these records; "
                    f"{self.goal:.3g} can always be met in this ball"
                )
            if self.passes >= MOST_PASSES:
                raise RuntimeError(f"no convergence in {self.passes} passes")
            self.lowest = min(self.lowest, state.gamma)
            trial = self._advance(state)
            # while the evaluator's own step works well, a long secant would mislead it, but a short one helps
            useful = self.secants or trial.gamma > 0.1 * state.gamma or state.gamma < 1e-3 * self.ball.reach
            if self._soon(state.gamma, trial.gamma):
                self.secants = []
            elif trial.bound > self.target and useful:
                self._remember(state, trial)
            stalled = 0 if trial.gamma < 0.7 * self.lowest else stalled + 1
            state = trial
        if tolerance is None and least == 1:
            state = self._refined(state)
        while self.passes < least:
            self._evaluate(state.point)  # for the time it takes only
        return MeanResult(state.point, (state if self.tight else self._tightly_bounded(state)).bound, self.passes)

    def _soon(self, before: float, gamma: float) -> bool:
        """Whether one more step that shrinks the gradient like the last will do, or two where a secant would not save one."""
        if not gamma < 0.01 * before:
            return False
        one, two = gamma * (gamma / before), gamma * (gamma / before) ** 2
        return one < 0.3 * self.target or two < 0.3 * self.target < 0.01 * one

    def _refined(self, state: _State) -> _State:
        """Continues from a point that meets the tolerance of a wide ball, as far as the records allow. Must not fail."""
        if self.goal > FINE:
            self.tight = True
            state = self._tightly_bounded(state)
        best = state
        # far from the records nothing may be certified, and yet the way to them be clear: the gradient says whether it is. One
        # record without digits may keep everything from being certified: then the others decide where to stop
        while best.bound > FINE and state.gamma > 0.01 * min(state.rounding, 1e-3):
            try:
                trial = self._advance(state)
            except np.linalg.LinAlgError:  # a point whose floats have no correct digits left
                break
            if not trial.gamma < 0.9 * state.gamma:
                break
            state = trial
            # bounds past the diameter of the ball say nothing, and the gradient decides
            best = min(best, state, key=lambda each: (min(each.bound, 2.0 * self.ball.radius), each.gamma))
        return best

    def _advance(self, state: _State) -> _State:
        """An accelerated step, shortened until it proves itself, or else the gradient step."""
        step = accelerated(state.step, self.secants)
        length = math.sqrt(step @ step)
        steepest = self._steepest(state.reach)
        safe = state.gamma / steepest
        while math.isfinite(length):
            taken = min(length, self.trust)
            trial = self._move(state, step if taken == length else step * (taken / length))
            if self._proves_itself(state, trial, steepest):
                self.trust = min(2.0 * taken, 2.0 * self.ball.reach) if taken < length else self.trust
                return trial
            self.trust = 0.25 * taken
            if self.trust <= safe:
                break
        self.trust = max(self.trust, 2.0 * safe)
        self.secants = []  # these led in a wrong direction
        return self._move(state, state.log / steepest)

    def _proves_itself(self, state: _State, trial: _State, steepest: float) -> bool:
        """Whether the energy fell as much as by a gradient step, or the gradient did where it bounds the distance to the mean."""
        certified = trial.bound < 1.99 * self.ball.reach and trial.gamma <= self.slow * self.lowest
        return certified or trial.energy < state.energy - 0.25 * state.gamma**2 / steepest

    def _steepest(self, reach: float) -> float:
        """An upper bound on the Hessian of ``F`` along a gradient step: the inverse of a safe step length.

        No record is farther than the ball's diameter from a point in it. Nor is it farther from any point of a gradient step
        than twice the distance of the farthest record, because the step is no longer than that distance.
        """
        length = min(4.0 * self.ball.reach, 2.0 * reach) * self.root
        return length / math.tanh(length) if length > 0.0 else 1.0

    def _move(self, state: _State, step: Array) -> _State:
        return self._evaluate(self.records.evaluator.move(self.ball, state.point, step))

    def _remember(self, old: _State, new: _State) -> None:
        """Moves the secants to the new point, and puts the latest first."""
        vectors = np.array([old.step, *(vector for pair in self.secants for vector in pair)])
        moved, move = self.records.evaluator.follow(old.point, new.point, vectors)
        latest = move, new.step - moved[0]
        secants = [(moved[i], moved[i + 1]) for i in range(1, len(moved), 2)]
        if math.isfinite(latest[0].sum() + latest[1].sum()):
            secants = [latest, *secants]
        self.secants = secants[:MEMORY]

    def _evaluate(self, p: Array) -> _State:
        self.passes += 1
        total = self.records.evaluate(p, self._report)
        mass = 1.0 if self.records.weights is not None else 1.0 / total.count
        log = mass * (total.log + total.log_low)
        gamma = math.sqrt(log @ log)
        square, reach = mass * total.square, 1.0001 * total.reach
        told = self.uses_hessian and total.seen > 0.0
        step = self.records.evaluator.step(p, log, self._hessian(total, square, gamma)) if told else log
        # the rounding bound for the whole ball is known at once; the one for this point costs more, so use it only if it may
        # decide
        bound, rounding = self._bound(gamma, square, self.most_rounding)
        state = _State(p, log, step, gamma, 0.5 * square, bound, rounding, reach)
        decides = bound > self.target and _certificate(self.ball, gamma) <= self.target
        return self._tightly_bounded(state) if decides or self.tight else state

    def _bound(self, gamma: float, square: float, rounding: float) -> tuple[float, float]:
        """The error bound that follows from this rounding bound of logarithms, and the total rounding error of the gradient."""
        upper = gamma * (1.0 + self.dim * EPSILON) + rounding + UNDERFLOW + sum_rounding(math.sqrt(square))
        return min(2.0 * self.ball.reach, _certificate(self.ball, upper)), upper - gamma

    def _tightly_bounded(self, state: _State) -> _State:
        rounding = min(self.manifold.log_rounding(state.point, state.reach), self.most_rounding)
        bound, total = self._bound(state.gamma, 2.0 * state.energy, rounding)
        if self.tight and bound > FINE and total > 0.01 * state.gamma:
            # a few records far out lose many digits, but of their own logarithms alone
            self.passes += 1
            bound, total = self._bound(state.gamma, 2.0 * state.energy, min(rounding, self.records.rounding(state.point)))
        return state._replace(bound=bound, rounding=total)

    @staticmethod
    def _hessian(total: Pass, square: float, gamma: float) -> Array:
        """The mean Hessian; if the evaluator gives only its mean over directions, an estimate along the gradient.

        The Hessian is 1 in the direction of a record, and the mean one across. If the records are close together and far from the
        point, little of the squared distances is across the gradient, and the gradient leads to them directly.
        """
        if total.hessian.ndim:
            return total.hessian / total.seen
        across = 1.0 - min(gamma**2 / square, 1.0) if square > 0.0 else 1.0
        return np.asarray(1.0 + across * (float(total.hessian) / total.seen - 1.0))

    def _report(self, done: int) -> None:
        if self.progress is not None:
            self.progress(self.passes, done, self.records.count)
