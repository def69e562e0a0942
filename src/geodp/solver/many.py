"""Fréchet means of many groups at once, each with a proved bound on its numerical error."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodp.inputs import EPSILON, Array, as_numpy, refuse_unreadable
from geodp.manifolds.ball import Ball, checked_ball
from geodp.records.chunks import as_array, check_shape, in_order, one_blas_thread, pool
from geodp.records.labels import aligned
from geodp.records.sources import Columns, is_column, load
from geodp.solver.groups import GroupEvaluator, GroupPass, best_group_evaluator
from geodp.solver.mean import (
    FINE,
    MOST_PASSES,
    UNDERFLOW,
    MeanResult,
    checked_tolerance,
    default_tolerance,
    flatness,
    least_passes,
)
from geodp.solver.passes import Integers, contiguous, sum_rounding
from geodp.solver.secants import MEMORY, accelerated

Flags = NDArray[np.bool_]

#: Bytes of records that one thread solves together, few enough to stay in the cache for all passes.
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, eq=False)
class MeanResults:
    """The Fréchet means of groups: one row for each of ``groups``, in their order.

    ``results[label]`` is the :class:`geodp.MeanResult` of one group, and iterating gives the labels.

    >>> from geodp import Ball, Euclidean
    >>> ball = Ball(Euclidean(1), center=[0.0], radius=10.0)
    >>> results = frechet_means([[1.0], [2.0], [5.0]], ball, by=["a", "b", "a"])
    >>> results["a"].point, list(results)
    (array([3.]), ['a', 'b'])
    """

    groups: NDArray[Any]
    points: Array
    error_bounds: Array
    iterations: Integers

    def __getitem__(self, label: Any) -> MeanResult:
        found = np.flatnonzero(self.groups == label)
        if len(found) != 1:
            raise KeyError(label)
        i = int(found[0])
        return MeanResult(self.points[i], float(self.error_bounds[i]), int(self.iterations[i]))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.groups.tolist())

    def __len__(self) -> int:
        return len(self.groups)


def frechet_means(
    x: Any,
    ball: Ball,
    by: Any,
    *,
    groups: ArrayLike | None = None,
    tolerance: float | None = None,
    **how: Unpack[Columns],
) -> MeanResults:
    """The Fréchet mean of every group of records, clipped into the ball: :func:`geodp.frechet_mean` for all of them at once.

    Parameters
    ----------
    x
        The records, an array ``(n, *point_shape)``, a data frame or the name of a file.
    ball
        The public ball, the same for all groups.
    by
        The label of each record's group, ``(n,)``: whole numbers or text; or the name of their column.
    groups
        The labels, in the order of the result; records with another label are left out. A group without records has the
        centre of the ball for its mean. By default the labels that occur, sorted.
    tolerance
        The largest acceptable error bound of any group, as for :func:`geodp.frechet_mean`.
    how
        How columns become points, as for :func:`geodp.frechet_mean`.

    >>> import numpy as np
    >>> from geodp import SPD, Ball
    >>> x = [np.diag([1.0, 4.0]), np.diag([4.0, 1.0]), np.eye(2)]
    >>> results = frechet_means(x, Ball(SPD(2), center=np.eye(2), radius=3.0), by=[0, 0, 1])
    >>> results.points.round(9).tolist(), bool((results.error_bounds < 1e-9).all())
    ([[[2.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]], True)
    """
    found = load(x, checked_ball(ball).manifold, [by] if is_column(by) else (), **how)
    records = as_array(found.x)
    check_shape(records, ball.manifold)
    labels, codes = _coded(np.array(found.labels[0].tolist()) if found.labels else aligned(by, "by", x), groups, len(records))
    order: Any = slice(None)
    if (codes[1:] < codes[:-1]).any() or (codes < 0).any():
        order = np.argsort(codes, kind="stable")
        order = order[np.searchsorted(codes[order], 0) :]
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes[order], minlength=len(labels)))])
    with np.errstate(all="ignore"):  # a warning about the conversion would reveal something about a value
        chosen = records[order].astype(np.float64, order="C")
    means = group_means(chosen, starts, ball, tolerance=tolerance)
    return MeanResults(labels, *means._replace(points=ball.manifold.raw_readable(means.points)))


def _coded(by: ArrayLike, groups: ArrayLike | None, count: int) -> tuple[NDArray[Any], Integers]:
    """The labels, and for each record the index of its own among them, -1 if it is not there."""
    refuse_unreadable(by, "by")
    keys = np.asarray(as_numpy(by))
    if keys.shape != (count,):
        raise ValueError(f"by has shape {keys.shape} but must hold one label a record, shape ({count},)")
    if groups is None:
        labels, codes = np.unique(keys, return_inverse=True)
        return labels, codes.astype(np.int64)
    labels = np.asarray(groups)
    if labels.ndim != 1 or len(np.unique(labels)) != len(labels):
        raise ValueError("groups must be a list of labels, each of which occurs once")
    if len(labels) == 0:
        return labels, np.full(count, -1)
    rank = np.argsort(labels, kind="stable")
    at = np.minimum(np.searchsorted(labels, keys, sorter=rank), len(labels) - 1)
    codes = rank[at]
    return labels, np.where(labels[codes] == keys, codes, -1)


class Means(NamedTuple):
    """For each group: the mean, a bound on its error, and the number of passes."""

    points: Array
    error_bounds: Array
    iterations: Integers


def group_means(
    records: Array,
    starts: Integers,
    ball: Ball,
    *,
    tolerance: float | None = None,
    steady: bool = False,
    kind: type[GroupEvaluator] | None = None,
) -> Means:
    """The Fréchet mean of the records ``starts[g]`` to ``starts[g + 1]`` for every ``g``, clipped into the ball.

    ``records`` is float64, ``(n, *point_shape)``, and may be clipped in place. The mean of no records is the centre. A release
    sets ``steady``: every group gets the passes that ordinary data need in such a ball, so that the time reveals less about it.
    If the number of records is private, it also sets the ``kind`` of evaluator, because evaluators differ for records that are
    barely points.
    """
    manifold, count = ball.manifold, len(starts) - 1
    records = contiguous(records)  # only here: clipping in a later copy would be lost
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    goal = None if tolerance is None else checked_tolerance(tolerance)
    evaluator = best_group_evaluator(ball, len(records)) if kind is None else kind(ball)
    # few records are often less symmetric about their mean than many, so steps with the average Hessian need more passes
    least = (least_passes(ball, evaluator.hessian) + 2 * (evaluator.hessian != "full")) if steady else 1
    out = Means(np.empty((count, *manifold.point_shape)), np.empty(count), np.empty(count, dtype=np.int64))

    def work(part: tuple[int, int]) -> None:
        begin, end = part
        rows, places = records[starts[begin] : starts[end]], starts[begin : end + 1] - starts[begin]
        solved = _Solver(evaluator, ball, goal, least).solve(rows, places)
        for whole, piece in zip(out, solved, strict=True):
            whole[begin:end] = piece

    with one_blas_thread(), np.errstate(all="ignore"):
        for _ in in_order(pool(os.getpid()), work, _parts(starts, 8 * math.prod(manifold.point_shape))):
            pass
    return out


def _parts(starts: Integers, record: int) -> Iterator[tuple[int, int]]:
    """Ranges of groups with about :data:`_CHUNK_BYTES` of records; an empty group counts like one record."""
    weights = starts + np.arange(len(starts))
    begin = 0
    while begin < len(starts) - 1:
        end = int(np.searchsorted(weights, weights[begin] + max(_CHUNK_BYTES // record, 1), side="right")) - 1
        end = max(end, begin + 1)
        yield begin, end
        begin = end


class _States(NamedTuple):
    """The result of the last pass at the point of each group, like ``_State`` of one mean."""

    point: Array
    log: Array
    step: Array
    gamma: Array
    energy: Array
    bound: Array
    rounding: Array
    reach: Array

    def where(self, chosen: Flags, other: _States) -> _States:
        return _States(*(np.where(_each(chosen, a), b, a) for a, b in zip(self, other, strict=True)))

    def take(self, chosen: Flags) -> _States:
        return _States(*(a[chosen] for a in self))


def _each(flags: Flags, like: Array) -> Flags:
    return flags.reshape(len(flags), *(1,) * (like.ndim - 1))


class _Solver:
    """The iteration of :func:`geodp.frechet_mean` for all groups together: the same steps, tests and bounds, one row a group."""

    def __init__(self, evaluator: GroupEvaluator, ball: Ball, tolerance: float | None, least: int) -> None:
        self.evaluator, self.ball, self.manifold = evaluator, ball, ball.manifold
        self.tolerance, self.least = tolerance, least
        self.goal = default_tolerance(ball)
        self.target = self.goal if tolerance is None else tolerance
        self.most_rounding = self.manifold.log_rounding_in_ball(ball.center, ball.reach)
        # a rounding bound for the whole ball is enough for the default tolerance, and avoids one for each point
        self.refines = tolerance is None and least == 1 and self.goal > FINE
        self.rounds_by_point = self.refines or (tolerance is not None and tolerance < self.goal)
        self.slow = 1.0 - 0.25 * flatness(ball) / float(self._steepest(np.array(math.inf)))

    def solve(self, records: Array, starts: Integers) -> Means:
        count = len(starts) - 1
        out = Means(np.empty((count, *self.manifold.point_shape)), np.empty(count), np.empty(count, dtype=np.int64))
        which = np.arange(count)
        state = self._state(self.evaluator.clip(records, starts))
        trust, lowest = np.full(count, 2.0 * self.ball.reach), np.full(count, math.inf)
        plain, stalled, refining = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.int64), np.full(count, self.refines)
        history, done, passes = _History(self.evaluator, count), np.ones(count, dtype=np.int64), 1
        while True:
            rough = state.bound > self.target
            going = rough | (refining & (state.bound > FINE) & (state.gamma > state.rounding))
            if passes >= self.least and not going.all():
                finished = ~going
                for whole, piece in zip(out, (state.point, state.bound, done), strict=True):
                    whole[which[finished]] = piece[finished]
                if not going.any():
                    return out
                sizes = np.diff(starts)
                if 2 * sizes[going].sum() <= sizes.sum():  # drop the groups that are done
                    records = records[np.repeat(going, sizes)]
                    starts = np.concatenate([[0], np.cumsum(sizes[going])])
                    which, state, history = which[going], state.take(going), history.take(going)
                    trust, lowest, plain, stalled = trust[going], lowest[going], plain[going], stalled[going]
                    refining, done, rough, going = refining[going], done[going], rough[going], going[going]
            if (rough & (stalled >= 3) & (state.bound <= self.goal)).any():
                raise ValueError(
                    f"the tolerance {self.tolerance:.3g} is below what float64 can certify for these records; "
                    f"{self.goal:.3g} can always be met in this ball"
                )
            if passes >= MOST_PASSES:
                raise RuntimeError(f"no convergence in {passes} passes")
            lowest = np.minimum(lowest, state.gamma)
            steepest = self._steepest(state.reach)
            step = history.accelerated(state.step)
            length = np.linalg.vector_norm(step, axis=-1)
            plain |= ~np.isfinite(length)
            taken = np.minimum(length, trust)
            shorter = np.where(taken < length, taken / np.where(length > 0.0, length, 1.0), 1.0)
            move = np.where(plain[:, None], state.log / steepest[:, None], step * shorter[:, None])
            move = np.where(going[:, None], move, 0.0)
            trial = self._state(self.evaluator.advance(state.point, move, records, starts))
            passes += 1
            done[going | (passes <= self.least)] += 1

            better = trial.bound < 0.9 * state.bound
            certified = (trial.bound < 1.99 * self.ball.reach) & (trial.gamma <= self.slow * lowest)
            lower = trial.energy < state.energy - 0.25 * state.gamma**2 / steepest
            accepted = going & np.where(rough, plain | certified | lower, better)
            refining &= ~(going & ~rough & ~better)
            rejected = rough & ~accepted
            safe = state.gamma / steepest
            trust = np.where(accepted & ~plain & (taken < length), np.minimum(2.0 * taken, 2.0 * self.ball.reach), trust)
            trust = np.where(rejected, 0.25 * taken, trust)
            plain = rejected & (trust <= safe)
            trust = np.where(plain, np.maximum(trust, 2.0 * safe), trust)
            history.forget(plain)
            far = (trial.gamma > 0.1 * state.gamma) | (state.gamma < 1e-3 * self.ball.reach)
            history.follow(accepted & (trial.bound > self.target) & (history.any | far), state, trial)
            stalled = np.where(accepted, np.where(trial.gamma < 0.7 * lowest, 0, stalled + 1), stalled)
            state = state.where(accepted, trial)

    def _steepest(self, reach: Array) -> Array:
        """An upper bound on the Hessian along a gradient step, as for one mean."""
        length = np.minimum(4.0 * self.ball.reach, 2.0 * reach) * math.sqrt(-self.manifold.lowest_curvature)
        return np.where(length > 1e-8, length / np.tanh(np.maximum(length, 1e-8)), 1.0 + length)

    def _state(self, found: GroupPass) -> _States:
        gamma, reach = np.linalg.vector_norm(found.log, axis=-1), 1.0001 * found.reach
        rounding = np.full(len(gamma), self.most_rounding)
        if self.rounds_by_point:
            here = [self.manifold.log_rounding(p, float(r)) for p, r in zip(found.points, reach, strict=True)]
            rounding = np.minimum(here, rounding)
        upper = gamma * (1.0 + self.manifold.dim * EPSILON) + (rounding + UNDERFLOW) + sum_rounding(1.0) * np.sqrt(found.square)
        bound = np.minimum(2.0 * self.ball.reach, self._certificate(upper))
        return _States(found.points, found.log, found.step, gamma, 0.5 * found.square, bound, upper - gamma, reach)

    def _certificate(self, gamma: Array) -> Array:
        """A bound on the distance of the exact means from points of the ball with mean logarithms of at most ``gamma``."""
        root, radius = math.sqrt(self.manifold.curvature), self.ball.reach
        if root == 0.0:
            return np.where(np.isfinite(gamma), gamma, math.inf)
        sine = gamma * math.tan(root * radius) / radius
        return np.where(sine < 1.0, np.arcsin(np.minimum(sine, 1.0)) / root * (1.0 + 8.0 * EPSILON), math.inf)


class _History:
    """The latest secants of each group, moved along with its point, for :func:`geodp.solver.secants.accelerated`."""

    def __init__(self, evaluator: GroupEvaluator, count: int) -> None:
        self.evaluator, self.any = evaluator, np.zeros(count, dtype=np.bool_)
        self.secants = np.zeros((count, 0, 2, evaluator.manifold.dim))

    def take(self, chosen: Flags) -> _History:
        part = _History(self.evaluator, 0)
        part.any, part.secants = self.any[chosen], self.secants[chosen]
        return part

    def forget(self, groups: Flags) -> None:
        """Forgets the secants of these groups, because they led in a wrong direction."""
        self.any &= ~groups
        self.secants[groups] = 0.0

    def follow(self, moved: Flags, old: _States, new: _States) -> None:
        """Moves the secants of groups that have moved to their new points, and puts the latest first."""
        groups = np.flatnonzero(moved)
        if len(groups) == 0:
            return
        count, memory, _, dim = self.secants.shape
        if memory < MEMORY:
            self.secants = np.concatenate([self.secants, np.zeros((count, 1, 2, dim))], axis=1)
        earlier = self.secants[groups, :-1].reshape(len(groups), -1, dim)
        vectors = np.concatenate([old.step[groups, None], earlier], axis=1)
        there, move = self.evaluator.follow(old.point[groups], new.point[groups], vectors)
        latest = np.stack([move, new.step[groups] - there[:, 0]], axis=1)
        finite = np.isfinite(latest).all(axis=(1, 2), keepdims=True)
        self.secants[groups, 0] = np.where(finite, latest, 0.0)
        self.secants[groups, 1:] = there[:, 1:].reshape(len(groups), -1, 2, dim)
        self.any[groups] = True

    def accelerated(self, step: Array) -> Array:
        if not self.any.any():
            return step
        return accelerated(step, [(self.secants[:, i, 0], self.secants[:, i, 1]) for i in range(self.secants.shape[1])])
