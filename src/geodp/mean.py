"""The Fréchet mean, with a proved bound on its numerical error."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import ThreadpoolController

from geodp._passes import Pass, best_evaluator
from geodp.ball import Ball
from geodp.manifolds._functions import Array
from geodp.manifolds.manifold import EPSILON, Manifold

#: Bytes of records read at a time by each core: fewer if there are not enough records to go round.
_CHUNK_BYTES, _LEAST_BYTES = 1 << 22, 1 << 18
#: Secant pairs the solver remembers.
_MEMORY = 6
#: A safeguard that no data set reaches: the error bound of the default tolerance is met after a few passes.
_MOST_PASSES = 100_000

Progress = Callable[[int, int, int | None], None]
A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class MeanResult:
    """A Fréchet mean, an upper bound on its distance to the exact one, and the passes over the data it took."""

    point: Array
    error_bound: float
    iterations: int


def frechet_mean(
    x: Any,
    ball: Ball,
    *,
    tolerance: float | None = None,
    weights: ArrayLike | None = None,
    progress: Progress | None = None,
) -> MeanResult:
    r"""The point of least mean squared distance to the records, clipped into the ball.

    Parameters
    ----------
    x
        The records: an array or memory map ``(n, *point_shape)``; or chunks of such arrays, as a list or as a function
        that returns a new iterator over them (the data are read several times, a few chunks at a time).
    ball
        The public ball; records outside it are moved to its boundary first, see :meth:`Ball.clip`.
    tolerance
        The largest acceptable ``error_bound``. By default :func:`default_tolerance`, a function of the ball alone which
        every data set meets. A smaller one that float64 cannot meet is a ``ValueError``.
    weights
        Non-negative weights of the records, ``(n,)``; equal by default.
    progress
        Called as ``progress(iteration, records_done, records_in_all_if_known)`` after every chunk.

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
    return _mean(_Records(x, ball, weights), progress, tolerance)


def mean_of_counted(x: Any, ball: Ball, count: int, progress: Progress | None = None) -> Array:
    """The mean of exactly ``count`` records, to the default tolerance; refused if ``x`` holds another number of them."""
    records = _Records(x, ball, None)
    records.count = count
    return _mean(records, progress, None).point


def _mean(records: _Records, progress: Progress | None, tolerance: float | None) -> MeanResult:
    with _libraries().limit(limits=1, user_api="blas"):
        return _Solver(records.ball, records, _pool(os.getpid()), progress).solve(tolerance)


@cache
def _libraries() -> ThreadpoolController:
    # the threads of the linear algebra library would only get in the way of those that share out the chunks
    return ThreadpoolController()


def default_tolerance(ball: Ball) -> float:
    """The error bound that :func:`frechet_mean` meets for every data set in the ball: a function of the ball alone.

    Twice what rounding may put between a computed and an exact gradient anywhere in the ball, turned into a distance by
    the certificate; never more than the diameter of the ball.
    """
    rounding = ball.manifold.log_rounding_in_ball(ball.center, ball.reach) + _sum_rounding(2.0 * ball.reach)
    return min(2.0 * ball.reach, _certificate(ball, 8.0 * rounding))


def count_records(x: Any, manifold: Manifold) -> int:
    """How many records ``x`` holds, without looking at their values."""
    if isinstance(x, np.ndarray):
        _checked_shape(x, manifold)
        return len(x)
    return sum(len(chunk) for chunk in _source(x, manifold)[0]())


def _sum_rounding(mean_length: float) -> float:
    """A bound on the rounding error of the mean of vectors of this mean (or root mean square) length: see ``Pass``."""
    return 2.0 * Pass.BLOCK * EPSILON * mean_length


def _certificate(ball: Ball, gamma: float) -> float:
    """How far the exact mean may be from a point of the ball where the mean logarithm is at most ``gamma``."""
    root, radius = math.sqrt(ball.manifold.curvature), ball.reach
    if root == 0.0:
        return gamma
    sine = gamma * math.tan(root * radius) / radius
    return math.asin(sine) / root * (1.0 + 8.0 * EPSILON) if sine < 1.0 else math.inf


class _Records:
    """The records as a source of clipped chunks that can be read again and again."""

    def __init__(self, x: Any, ball: Ball, weights: ArrayLike | None) -> None:
        self.ball = ball
        self.count: int | None = None
        self._open, self._kept = _source(x, ball.manifold)
        if isinstance(x, np.ndarray):
            self.count = len(x)
        self.weights = None if weights is None else _checked_weights(weights)

    def chunks(self) -> Iterator[tuple[Array | None, Array]]:
        """Weights (``None`` if equal) and records, a chunk at a time; records not clipped yet unless kept."""
        done = 0
        for chunk in self._open():
            end = done + len(chunk)
            if self.weights is not None and end > len(self.weights):
                raise ValueError(f"there are {len(self.weights)} weights but at least {end} records")
            yield (None if self.weights is None else self.weights[done:end]), chunk
            done = end
        if done == 0:
            raise ValueError("the mean needs at least one record but there are 0")
        if self.weights is not None and done != len(self.weights):
            raise ValueError(f"there are {len(self.weights)} weights but {done} records")
        if self.count is not None and done != self.count:
            raise ValueError(f"the chunks held {self.count} records when first read but {done} later")
        self.count = done

    def keep(self, chunks: list[Array]) -> None:
        """Read these clipped chunks from now on."""
        if self._kept:
            self._open = lambda: iter(chunks)

    @property
    def kept(self) -> bool:
        return self._kept


def _source(x: Any, manifold: Manifold) -> tuple[Callable[[], Iterator[Array]], bool]:
    """A function that reads the chunks of ``x`` anew, and whether clipped chunks may be kept in memory."""
    axes = len(manifold.point_shape) + 1
    if callable(x):
        return (lambda: _split(x(), manifold)), False
    if isinstance(x, Sequence) and len(x) and isinstance(x[0], np.ndarray) and x[0].ndim == axes:
        return (lambda: _split(x, manifold)), False
    if isinstance(x, Iterable) and not isinstance(x, np.ndarray | Sequence):
        if isinstance(x, Iterator):
            raise TypeError(
                "x is an iterator, which can be read only once, and the mean reads the data several times: "
                "give a list of chunks, or a function that returns a new iterator"
            )
        return (lambda: _split(x, manifold)), False
    array = x if isinstance(x, np.ndarray) else np.asarray(x)
    return (lambda: _split([array], manifold)), not isinstance(array, np.memmap)


def _split(chunks: Iterable[Any], manifold: Manifold) -> Iterator[Array]:
    """Smaller chunks, in float64."""
    record = 8 * math.prod(manifold.point_shape)
    for chunk in chunks:
        array = chunk if isinstance(chunk, np.ndarray) else np.asarray(chunk)
        _checked_shape(array, manifold)
        share = min(max(len(array) * record // (2 * _cores()) + 1, _LEAST_BYTES), _CHUNK_BYTES)
        rows = max(Pass.BLOCK, share // record)
        for start in range(0, len(array), rows):
            with np.errstate(all="ignore"):  # a warning of the conversion would tell about a value
                records = np.ascontiguousarray(array[start : start + rows], dtype=np.float64)
            yield records


def _checked_shape(array: np.ndarray[Any, Any], manifold: Manifold) -> None:
    if array.ndim != len(manifold.point_shape) + 1:
        expected = ", ".join(["n", *map(str, manifold.point_shape)])
        raise ValueError(f"x has shape {array.shape}, but records of {manifold} have shape ({expected})")
    manifold.read(array[:0], "x")


def _checked_weights(weights: ArrayLike) -> Array:
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"the weights have shape {array.shape} but must have shape (n,)")
    if not (np.isfinite(array).all() and (array >= 0.0).all() and (array > 0.0).any()):
        raise ValueError("the weights must be finite and non-negative, with a positive sum")
    array = array / array.max()  # so that the sum stays finite
    return array / array.sum()


class _State(NamedTuple):
    """What one pass over the data says about a point."""

    point: Array
    gradient: Array
    step: Array
    gamma: float
    energy: float
    bound: float


class _Solver:
    def __init__(self, ball: Ball, records: _Records, pool: ThreadPoolExecutor, progress: Progress | None) -> None:
        self.ball, self.manifold, self.records, self.pool, self.progress = ball, ball.manifold, records, pool, progress
        self.evaluator = best_evaluator(self.manifold, records.count)
        self.most_rounding = self.manifold.log_rounding_in_ball(ball.center, ball.reach)
        self.passes = 0
        self.trust = 2.0 * ball.reach
        self.lowest = math.inf
        self.history: deque[tuple[Array, Array]] = deque(maxlen=_MEMORY)

    def solve(self, tolerance: float | None) -> MeanResult:
        goal = default_tolerance(self.ball)
        if tolerance is not None and not tolerance > 0.0:
            raise ValueError(f"the tolerance must be positive but is {tolerance}")
        state = self._evaluate(self.ball.center)
        stalled = 0
        while state.bound > (goal if tolerance is None else tolerance):
            if tolerance is not None and stalled >= 3 and state.bound <= goal:
                raise ValueError(
                    f"the tolerance {tolerance:.3g} is below what float64 can certify for these records; "
                    f"{goal:.3g} can always be met in this ball"
                )
            if self.passes >= _MOST_PASSES:
                raise RuntimeError(f"no convergence in {self.passes} passes")
            self.lowest = min(self.lowest, state.gamma)
            trial = self._advance(state)
            # while the evaluator's own step does well, a secant over a long way would only mislead it; one over a short way helps
            if self.history or trial.gamma > 0.1 * state.gamma or state.gamma < 1e-3 * self.ball.reach:
                self._remember(state, trial)
            stalled = 0 if trial.gamma < 0.7 * self.lowest else stalled + 1
            state = trial
        return MeanResult(state.point, state.bound, self.passes)

    def _advance(self, state: _State) -> _State:
        """An accelerated step, shortened until it proves itself, or else the gradient step."""
        step = self._accelerated(state)
        length = float(self.manifold.raw_norm(state.point, step))
        safe = state.gamma / self._steepest()
        while math.isfinite(length):
            taken = min(length, self.trust)
            trial = self._move(state, step if taken == length else step * (taken / length))
            if self._proves_itself(state, trial):
                self.trust = min(2.0 * taken, 2.0 * self.ball.reach) if taken < length else self.trust
                return trial
            self.trust = 0.25 * taken
            if self.trust <= safe:
                break
        self.trust = max(self.trust, 2.0 * safe)
        return self._move(state, state.gradient / self._steepest())

    def _proves_itself(self, state: _State, trial: _State) -> bool:
        """The energy fell as much as a gradient step must lower it; or the gradient did, where it says how far the mean is."""
        certified = trial.bound < 1.99 * self.ball.reach and trial.gamma <= 0.7 * self.lowest
        return certified or trial.energy < state.energy - 0.25 * state.gamma**2 / self._steepest()

    def _steepest(self) -> float:
        """An upper bound on the Hessian of ``F`` wherever a gradient step may pass: the inverse of a safe step."""
        length = 4.0 * self.ball.reach * math.sqrt(-self.manifold.lowest_curvature)
        return length / math.tanh(length) if length > 0.0 else 1.0

    def _move(self, state: _State, step: Array) -> _State:
        point = self.manifold.raw_exp(state.point, step)
        inside = self.manifold.raw_dist(self.ball.center, point) <= self.ball.radius
        return self._evaluate(point if inside else self.ball.clip_chunk(point[None])[0])

    def _accelerated(self, state: _State) -> Array:
        """Anderson's step: the combination of past secants that predicts the smallest residual."""
        if not self.history:
            return state.step
        manifold, p = self.manifold, state.point
        coordinates = [[manifold.raw_coordinates(p, manifold.raw_project_tangent(p, a)) for a in pair] for pair in self.history]
        moves = np.stack([move for move, _ in coordinates], axis=-1)
        changes = np.stack([change for _, change in coordinates], axis=-1)
        residual = manifold.raw_coordinates(p, state.step)
        mix = np.linalg.lstsq(changes, residual, rcond=1e-8)[0]
        return manifold.raw_tangent(p, residual - (moves + changes) @ mix)

    def _remember(self, old: _State, new: _State) -> None:
        manifold, p = self.manifold, new.point
        move = -manifold.raw_log(p, old.point)
        change = new.step - manifold.raw_project_tangent(p, old.step)
        if np.isfinite(move).all() and np.isfinite(change).all():
            self.history.append((move, change))

    def _evaluate(self, p: Array) -> _State:
        self.passes += 1
        total = self._sum(p)
        mass = 1.0 if self.records.weights is not None else 1.0 / total.count
        coordinates = mass * (total.log + total.log_low)
        gamma = float(np.linalg.vector_norm(coordinates))
        rounding = min(self.manifold.log_rounding(p, 1.0001 * total.reach), self.most_rounding)
        upper = gamma * (1.0 + self.manifold.dim * EPSILON) + rounding + _sum_rounding(math.sqrt(mass * total.square))
        gradient = self.manifold.raw_tangent(p, coordinates)
        try:
            step = self.evaluator.step(p, gradient, total.hessian / total.seen) if total.seen > 0.0 else gradient
        except np.linalg.LinAlgError:  # a singular Hessian says nothing
            step = gradient
        bound = min(2.0 * self.ball.reach, _certificate(self.ball, upper))
        return _State(p, gradient, step, gamma, 0.5 * mass * total.square, bound)

    def _sum(self, p: Array) -> Pass:
        """One pass over the data, on all cores, a few chunks at a time."""
        first = self.passes == 1
        total, kept = Pass.zero(self.manifold), []

        def work(item: tuple[Array | None, Array]) -> tuple[Pass, Array]:
            weights, chunk = item
            if first:
                return self.evaluator.clip(self.ball, chunk, weights)
            chunk = chunk if self.records.kept else self.ball.clip_chunk(chunk)
            return self.evaluator.evaluate(p, chunk, weights), chunk

        for part, chunk in _in_order(self.pool, work, self.records.chunks()):
            total = total + part
            if first and self.records.kept:
                kept.append(chunk)
            if self.progress is not None:
                self.progress(self.passes, total.count, self.records.count)
        if kept:
            self.records.keep(kept)
        return total


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process; a forked child has none of its parent's and starts its own."""
    return ThreadPoolExecutor(_cores(), thread_name_prefix="geodp")


@cache
def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can tell
        return os.cpu_count() or 1


def _in_order(pool: ThreadPoolExecutor, work: Callable[[A], B], items: Iterator[A]) -> Iterator[B]:
    """``map(work, items)`` in the pool, holding at most two items a core; a single item is not worth a thread."""
    first_two = list(islice(items, 2))
    if len(first_two) < 2:
        yield from map(work, first_two)
        return
    waiting = deque(pool.submit(work, item) for item in first_two)
    for item in items:
        if len(waiting) >= 2 * _cores():
            yield waiting.popleft().result()
        waiting.append(pool.submit(work, item))
    while waiting:
        yield waiting.popleft().result()
