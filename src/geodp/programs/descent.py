r"""The median of few records, by noisy steps towards them: no ball, no clipping, no theorem about curvature.

*Public*: the manifold or the wide ball, the number of records ``n``, the budget, and every answer. *Private*: the records.
*Neighbours*: data sets of the same size that differ by replacing one record.

**One kind of request.** At a point ``p`` with a threshold ``h`` a record ``x`` with ``v = log_p(x)`` becomes the vector
``(v/max(|v|, h), sqrt(1 - min(|v|/h, 1)^2))`` in ``R^(d+1)``. It has length 1 or less: a near record points up, a far one
points to where it is. The mean of the first part is the gradient of the median, smoothed near the records (Huber's location).
That of the last coordinate, the *nearness*, says whether the threshold is too wide, and costs nothing: a record still moves
within the unit ball.

**Theorem.** With noise for a sum of sensitivity 2, all answers together cost at most the budget: Gaussian noise in rho (and in
Gaussian privacy: the squares of mu add up to twice that), Laplace noise in epsilon. *Proof.* Given the earlier answers, point,
threshold and cost are constants. Each row is a function of one record alone, whatever the manifold, and has length at most 1
(:func:`on_grid`), so replacing a record moves the sum by at most 2; opposite records beyond the threshold reach this. Costs may
be chosen as one goes, because their sum never exceeds a total fixed beforehand (Feldman and Zrnic 2021; Smith and Thakurta
2022; Rogers et al. 2016). A choice of a scale is an exponential mechanism (:func:`closeness`), and a start is a projected mean
with noise: both cost what they say. Everything else is computed from public numbers and answers. QED

A record that is invalid, or has no logarithm, counts as 0. Curvature and the accuracy of logarithms matter for the error only.
With several records a person, average the rows of each, put the averages on the grid again, and let ``n`` be the number of
persons.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, final

import numpy as np

from geodp.arithmetic.gamma import gamma_quantile
from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball

#: Radii of the first scale: each is this many times smaller than the one before.
RATIO, RADII = 1.2, 100
#: No program asks more often: a gradient costs at least :data:`_LEAST` of the budget.
MOST_REQUESTS = 54
#: The least and the most of the budget for a gradient on the way, and the most for the first scale.
_LEAST, _MOST, _MOST_SCALE = 0.02, 0.25, 0.1
#: A choice with ``epsilon = _TOLD/n`` finds the scale.
_TOLD = 22.2
#: Part of the budget for the projected mean, where there is one.
_START = 0.1
#: On the way: the length of the noise of a gradient (1 is that of the gradient far away), Laplace and Gaussian, ...
_NOISE = (0.45, 0.7)
#: ... and the most for one coordinate.
_MOST_DEVIATION = 0.25
#: After each round among the records the next one costs so many times as much, with Laplace and with Gaussian noise.
_GROWTH = (2.0, 1.6)
#: A wider threshold waits for a round of so much of the budget.
_SETTLED = 0.1
#: Part of the budget that the way may take if records are to be enough, and part of the rest that counts in the result.
_WAY, _COUNTS = (0.65, 0.4), (0.6, 1.0)
#: Thresholds are not below this part of the first one.
_FINEST = 1e-10


#: The radius of the wide ball to start from if nothing is said: on matrices a factor of 1e13 either way.
OUTER = 30.0


def start_on(manifold: Manifold, outer: float | None = None) -> Ball | Manifold:
    """What a search starts from: the manifold if it has a cut locus, else a wide ball about its origin."""
    if math.isfinite(manifold.injectivity_radius):
        if outer is not None:
            raise ValueError(f"on {manifold} a search needs no outer radius: leave it out")
        return manifold
    if outer is None and isinstance(manifold, Euclidean):
        raise ValueError(
            f"nobody can know how far from 0 points of {manifold} are: give outer= (or --outer), a radius that holds the records"
        )
    return Ball(manifold, manifold.origin, OUTER if outer is None else outer)


def check_compact(manifold: Manifold) -> None:
    """Raises if a search cannot start from all of the manifold."""
    if manifold.embedding is None:
        raise ValueError(f"{manifold} is not compact: start from a wide ball, such as one of radius=30")


# ---------------------------------------------------------------------- rows of records


def on_grid(rows: Array, n: int) -> Array:
    """Rows of length at most 1, as multiples of ``2^-g`` that are *exactly* no longer than 1, and whose sums are exact.

    *Length.* Rows shrink by ``2^-30`` and are rounded towards zero. Then a row is kept only if its squared length, in
    floats, is at most ``1 - 2^-31``. A float sum of ``d`` squares is off by a relative ``(d + 1) 2^-53`` at most, which is below
    ``2^-31`` up to millions of dimensions. So the true length is at most 1, however the row came about; all else is 0.

    *Sums.* ``n 2^g <= 2^52``, so every partial sum of ``n`` rows is a multiple of ``2^-g`` below ``2^53 2^-g``, which a float
    holds: no sum is rounded, in any order, and the released sum needs no allowance for rounding.
    """
    cells = 2.0 ** min(40, 52 - (n - 1).bit_length())
    with np.errstate(all="ignore"):
        rounded = np.trunc(rows * ((1.0 - 2.0**-30) * cells)) / cells
        kept = np.vecdot(rounded, rounded) <= 1.0 - 2.0**-31  # false for NaN
    return np.where(kept[..., None], rounded, 0.0)


def lifted(manifold: Manifold, point: Array, threshold: float, n: int, records: Array) -> Array:
    """The row of each record, ``d + 1`` numbers on the grid. Never raises for any value."""
    logs = logarithms(manifold, point, records)
    with np.errstate(all="ignore"):
        length = np.linalg.vector_norm(logs, axis=1, keepdims=True)
        height = np.sqrt(np.maximum(1.0 - (length / threshold) ** 2, 0.0))
        return on_grid(np.concatenate([logs / np.maximum(length, threshold), height], axis=1), n)


def counted(manifold: Manifold, point: Array, threshold: float, n: int, records: Array) -> Array:
    """Like :func:`lifted`, but records within half the threshold have height ``sqrt(3)/2``, and others none: a count."""
    logs = logarithms(manifold, point, records)
    with np.errstate(all="ignore"):
        length = np.linalg.vector_norm(logs, axis=1, keepdims=True)
        height = np.where(length <= 0.5 * threshold, math.sqrt(0.75), 0.0)
        return on_grid(np.concatenate([logs / np.maximum(length, threshold), height], axis=1), n)


def closeness(manifold: Manifold, point: Array, radii: Array, records: Array) -> Array:
    """For each record and radius, how well the radius fits its distance: a multiple of 1/16 from 0 to 1.

    It is 1 up to a factor of 1.3 and 0 from a factor of 4 on. Replacing one record changes a sum over records by at most 1, so
    also the sum rounded down to a whole number: the score of a radius in the exponential mechanism. The sums are exact.
    """
    logs = logarithms(manifold, point, records)
    with np.errstate(all="ignore"):
        length = np.maximum(np.linalg.vector_norm(logs, axis=1, keepdims=True), radii.min())
        fit = (math.log(4.0) - np.abs(np.log(length / radii))) / math.log(4.0 / 1.3)
        return np.floor(16.0 * np.where(fit > 0.0, np.minimum(fit, 1.0), 0.0)) / 16.0


def logarithms(manifold: Manifold, point: Array, records: Array) -> Array:
    """Coordinates of the logarithms at a point; NaN for records that are invalid or have none."""
    valid = manifold.valid(records)
    safe = np.where(valid.reshape(-1, *(1,) * len(manifold.point_shape)), records, manifold.origin)
    with np.errstate(all="ignore"):
        return np.where(valid[:, None], _coordinates(manifold, point, safe), np.nan)


def _coordinates(manifold: Manifold, point: Array, records: Array) -> Array:
    # A row may depend on its place among the rows, as products of matrices do, but not on the other records: so where linear
    # algebra fails for one record, the others are computed again in their places.
    def direct(x: Array) -> Array:
        return manifold.raw_coordinates(point, manifold.raw_log(point, x))

    def fails(x: Array) -> bool:
        try:
            direct(x)
        except np.linalg.LinAlgError:
            return True
        return False

    try:
        return direct(records)
    except np.linalg.LinAlgError:
        failed = np.array([fails(records[i : i + 1]) for i in range(len(records))])
        mask = failed.reshape(-1, *(1,) * len(manifold.point_shape))
        return np.where(failed[:, None], np.nan, direct(np.where(mask, point, records)))


# ---------------------------------------------------------------------- requests


@final
@dataclass(frozen=True, eq=False)
class Start:
    """Asks for a first point on a compact space: the projected mean. Its answer is a point."""

    cost: float


@final
@dataclass(frozen=True, eq=False)
class Scale:
    """Asks for the scale of distances from a point: a radius chosen by :func:`closeness`. Its answer is a radius."""

    point: Array
    top: float
    cost: float

    @property
    def radii(self) -> Array:
        return self.top * RATIO ** -np.arange(RADII, dtype=np.float64)


@final
@dataclass(frozen=True, eq=False)
class Gradient:
    """Asks for the sum of :func:`lifted` rows. Its answer is that sum with noise, divided by ``n``: ``d + 1`` numbers."""

    point: Array
    threshold: float
    cost: float


@final
@dataclass(frozen=True, eq=False)
class Check:
    """Asks for the sum of :func:`counted` rows, like :class:`Gradient`."""

    point: Array
    threshold: float
    cost: float


Request = Start | Scale | Gradient | Check


# ---------------------------------------------------------------------- the program


@final
@dataclass(frozen=True)
class Shape:
    """Gaussian records in ``R^dim``, and a threshold of so many times their median distance.

    ``nearness`` is the mean height of their rows. ``slope``, over the threshold, is the derivative of their gradient at the
    centre: a step of ``threshold/slope`` times the gradient leads to it (Newton). ``median`` is for standard deviation 1.
    """

    dim: int
    threshold: float = 1.0

    @cached_property
    def median(self) -> float:
        return math.sqrt(2.0 * gamma_quantile(0.5 * self.dim, 0.5))

    @cached_property
    def _law(self) -> tuple[Array, Array]:
        """Distances over the threshold, and their probabilities."""
        v = (np.arange(20_000) + 0.5) / 20_000 * (self.median + 12.0)
        log = (self.dim - 1.0) * np.log(v / self.median) - 0.5 * (v**2 - self.median**2)
        return v / (self.threshold * self.median), np.exp(log) / np.exp(log).sum()

    @cached_property
    def nearness(self) -> float:
        t, weights = self._law
        return float(weights @ np.sqrt(np.maximum(1.0 - t**2, 0.0)))

    @cached_property
    def inside(self) -> float:
        """The part of the records within the threshold."""
        t, weights = self._law
        return float(weights[t < 1.0].sum())

    @cached_property
    def slope(self) -> float:
        t, weights = self._law
        return float(weights @ np.where(t < 1.0, 1.0, (1.0 - 1.0 / self.dim) / t))


standard = lru_cache(maxsize=64)(Shape)


@final
@dataclass(frozen=True, eq=False)
class Answer:
    """An answered gradient; ``deviation`` is the standard deviation of the noise in each number of ``value``."""

    point: Array
    threshold: float
    value: Array
    deviation: float

    @property
    def gradient(self) -> Array:
        return self.value[:-1]

    @property
    def nearness(self) -> float:
        return float(self.value[-1])

    @property
    def concentration(self) -> float:
        """The squared length without noise: 1 if all records are far, or all are near, and less for a point among them."""
        return float(self.value @ self.value) - len(self.value) * self.deviation**2

    @property
    def is_among(self) -> bool:
        """Whether this point is more likely among the records than far from them."""
        return self.concentration < 0.5


@final
@dataclass(frozen=True, eq=False)
class Median:
    """What a descent found. Everything here is computed from answers.

    ``scale`` is about the median distance of the records from the point, and ``noise`` the root mean square length of the noise
    in it. ``bias`` is what the steps may have left of the way, if each went two thirds of its own. ``last`` is the answer of
    the last round, and ``check`` that of the gradient for a guarantee, if there is one.
    """

    point: Array
    scale: float
    noise: float
    bias: float
    last: Answer
    check: Answer | None
    descent: Descent

    @property
    def arrived(self) -> bool:
        """Whether the last answer is that of a point among the records, and noise far from them would hardly give such a one."""
        last, nearness = self.last, self.descent.shape.nearness
        far = math.sqrt(4.0 * last.deviation**2 + 2.0 * len(last.value) * last.deviation**4)  # its standard deviation there
        concentrated = last.concentration >= min(0.5 * (1.0 + nearness**2), 1.0 - 2.0 * far)
        return not concentrated and last.nearness > 0.5 * nearness

    def error_quantile(self, q: float = 0.95) -> float:
        """*Approximate*: the distance from the Huber location of the records is above this with probability ``1 - q``.

        The steps are right for Gaussian records. Others bend the sum of distances less: this counts half of what Gaussian
        records beyond the threshold contribute, and of those within it as many as the nearness shows, less two deviations.
        It assumes that the walk arrived.
        """
        shape, last = self.descent.shape, self.last
        near = min(max(last.nearness - 2.0 * last.deviation, 0.1 * shape.nearness), shape.nearness) / shape.nearness
        factor = shape.slope / (near * 0.5 * (shape.inside + shape.slope))
        return math.hypot(factor * self.noise * self.descent.tail(q, len(last.gradient)), self.bias)

    def guaranteed(self, q: float = 0.95) -> float:
        """How far from the point the Huber location for ``check.threshold`` may be, with probability ``q``.

        Infinite if nothing can be guaranteed, and where curvature may be positive or geodesics may close.

        *Proof.* Write ``h`` for that threshold. Let ``F`` be the mean over records of ``f(dist)`` with ``f(t) = t^2/(2h)`` up to
        ``h`` and ``t - h/2`` beyond. It is convex, and its gradient is minus the mean of the first parts of the rows. By Hessian
        comparison a record adds at least ``1/h`` to the second derivative along a geodesic wherever it is within ``h``.
        Within ``r h`` of the point, ``r <= 1/2``, that holds for all records within ``h/2`` of it. If their part of all is ``m``
        and the gradient at the point is shorter than ``r m``, then on the geodesic to the least point of ``F`` the derivative is
        positive at ``r h``, so the least point is nearer. Gradient and ``sqrt(3)/2 m`` are both off by at most the length of
        the noise, whose law is known. QED
        """
        if self.check is None or math.isfinite(self.descent.manifold.injectivity_radius):
            return math.inf
        check = self.check
        off = math.sqrt(len(check.value)) * check.deviation * self.descent.tail(q, len(check.value)) + 2.0**-20  # the grid
        gradient, near = float(np.linalg.norm(check.gradient)) + off, (check.nearness - off) / math.sqrt(0.75)
        return check.threshold * gradient / near if 2.0 * gradient <= near else math.inf


@final
@dataclass(frozen=True, eq=False)
class Descent:
    """The program: it asks, and is sent the answers.

    *The way.* It starts at the centre of the wide ball, or at the projected mean. Each round asks for a gradient at a low cost,
    and steps by the threshold times the gradient, shortened for its noise; on negatively curved spaces no step is longer than one
    at a slightly wrong angle may be. Then the threshold shrinks by ``exp(-nearness)``. With Laplace noise the first threshold
    is a scale chosen privately, because rounds are dear. With Gaussian noise it is the radius, and the program consists of
    Gaussian noise alone, so that under (epsilon, delta) its exact curve can be used.

    *Among the records.* Far from the records the mean of all rows has length 1: they all point one way, or up. Among them it is
    short, because they point in all directions. Once the answer is shorter than ``sqrt(1/2)``, less its noise, the next
    round costs more, steps are those of Newton, and the threshold follows the records:
    the nearness settles where that of Gaussian records would. A longer answer returns to the low cost. The last round takes
    what is left of the budget.

    *The result* is the mean of the points proposed since then, with weights ``1/(noise^2 + (step/3)^2)``.

    ``threshold`` is that of the Huber location in median distances: 2 or 3 are nearer to the mean, and less robust. Others than
    1 are used in the last round alone, which then decides by itself.
    ``guarantee`` is the part of the budget for a last gradient at the result, for :meth:`Median.guaranteed`.
    ``sensitivity`` is 2 for replacing a record, and 1 if ``n`` was itself released.
    """

    place: Ball | Manifold
    n: int
    budget: float
    pure: bool
    threshold: float = 1.0
    guarantee: float = 0.0
    sensitivity: float = 2.0

    @property
    def manifold(self) -> Manifold:
        return self.place.manifold if isinstance(self.place, Ball) else self.place

    @property
    def shape(self) -> Shape:
        return standard(self.manifold.dim, self.threshold)

    def deviation(self, cost: float) -> float:
        """Standard deviation of each number of an answer to a gradient of this cost."""
        unit = self.sensitivity / self.n
        return unit * math.sqrt(self.manifold.dim + 2.0) / cost if self.pure else unit / math.sqrt(2.0 * cost)

    def tail(self, q: float, d: int) -> float:
        """The quantile of the length of noise in ``R^d`` over its root mean square."""
        return gamma_quantile(d, q) / math.sqrt(d * (d + 1.0)) if self.pure else math.sqrt(2.0 * gamma_quantile(0.5 * d, q) / d)

    @property
    def _walking_deviation(self) -> float:
        return min(_NOISE[not self.pure] / math.sqrt(self.manifold.dim), _MOST_DEVIATION)

    @cached_property
    def walking_cost(self) -> float:
        """What a gradient costs on the way."""
        unit = self.deviation(1.0) / self._walking_deviation
        return min(max(unit if self.pure else unit**2, _LEAST * self.budget), _MOST * self.budget)

    # ------------------------------------------------------------------ plans

    def rounds(self, spread: float) -> float:
        """About how many rounds the way takes to records that are ``spread`` (root mean square) from their centre."""
        first = self.place.radius if isinstance(self.place, Ball) else 0.25 * self.manifold.diameter
        rounds = 4.0 + max(0.0, math.log(first / spread))
        if not isinstance(self.place, Ball):
            return rounds
        far = first / 3.0 / self._stride(math.inf, math.sqrt(self.manifold.dim) * self._walking_deviation)
        return rounds + far - (1.4 if self.pure else 0.0)

    def enough(self, spread: float) -> float:
        """From about how many records on the walk arrives nine times in ten; infinite if it is too long for any number."""
        each = _WAY[not self.pure] * self.budget / self.rounds(spread)
        if each < _LEAST * self.budget:
            return math.inf
        needed = self.n * self.deviation(each) / self._walking_deviation
        return math.ceil(needed) if needed < math.inf else math.inf

    def expected_error(self, spread: float) -> float:
        """About the distance that noise puts between the result and the Huber location, if the walk arrives."""
        left = (1.0 - _START - self.guarantee) * self.budget - self.rounds(spread) * self.walking_cost
        counts = _COUNTS[not self.pure] * max(left, 0.1 * self.budget)
        h = self.threshold * self.shape.median * spread / math.sqrt(self.manifold.dim)
        return h / self.shape.slope * self.deviation(counts) * math.sqrt(self.manifold.dim)

    # ------------------------------------------------------------------ the run

    def run(self) -> Generator[Request, Any, Median]:
        left = self.budget * (1.0 - 1e-12 - self.guarantee)  # the sum of all costs is rounded, and must not pass the budget
        if isinstance(self.place, Ball):
            point, h = self.place.center, self.place.radius
            if self.pure:
                cost = min(max(_TOLD / self.n, 0.01 * self.budget), _MOST_SCALE * self.budget)
                h = yield Scale(point, 2.0 * self.place.radius, cost)
                left -= cost
        else:
            point, h = (yield Start(_START * self.budget)), 0.25 * self.manifold.diameter
            left -= _START * self.budget
        least, cost = _FINEST * h, self.walking_cost
        wide, root, growth = self.threshold != 1.0, math.sqrt(self.manifold.dim), _GROWTH[not self.pure]
        proposals, last, shape = _Proposals(self), False, standard(self.manifold.dim, 1.0)
        while not last:
            last = left <= (1.0 + growth) * cost or (wide and cost > _SETTLED * self.budget)
            if last:
                cost, shape, h = left, self.shape, h * self.threshold
                proposals = _Proposals(self) if wide else proposals
            answer = Answer(point, h, (yield Gradient(point, h, cost)), self.deviation(cost))
            left -= cost
            among, noise = answer.is_among or last, answer.deviation * root
            gradient = answer.gradient / max(1.0, float(np.linalg.norm(answer.gradient)))
            step = h / shape.slope if among else self._stride(h, noise)
            point = self.move(point, step * gradient)
            if among:
                proposals.add(point, step * noise, step * float(np.linalg.norm(gradient)))
                cost *= growth
            else:
                proposals, cost = _Proposals(self), self.walking_cost
            target = shape.nearness if among else 0.0
            h = max(h * math.exp(target - min(max(answer.nearness, -0.2), 1.0)), least)
        scale, check = h / self.threshold, None
        if self.guarantee > 0.0:
            point, h, cost = proposals.point, 2.0 * h, self.guarantee * self.budget
            check = Answer(point, h, (yield Check(point, h, cost)), self.deviation(cost))
        return Median(proposals.point, scale, proposals.noise, proposals.bias, answer, check, self)

    def _stride(self, h: float, noise: float) -> float:
        stride = h / (1.0 + noise**2)
        curvature = math.sqrt(-self.manifold.lowest_curvature)
        if curvature == 0.0:
            return stride
        # at an angle a off, a geodesic comes nearer to its aim only up to the length -log tan(a/2) (the angle of parallelism)
        return min(stride, 1.5 * max(1.0, -math.log(math.tan(0.5 * math.atan(noise)))) / curvature)

    def move(self, point: Array, step: Array) -> Array:
        """The end of a step, in the wide ball; a shorter step where floats cannot hold it, and in the end none."""
        manifold = self.manifold
        for _ in range(8):
            try:
                with np.errstate(all="ignore"):
                    end = manifold.raw_project(manifold.raw_exp(point, manifold.raw_tangent(point, step)))
                    if isinstance(self.place, Ball):
                        end = self.place.clip_chunk(end[None])[0]
                    back = np.linalg.norm(manifold.raw_coordinates(end, manifold.raw_log(end, point)))
                    if back <= 1.01 * np.linalg.norm(step) and manifold.valid(end[None])[0]:
                        return end
            except np.linalg.LinAlgError:
                pass
            step = 0.5 * step
        return point


class _Proposals:
    """The weighted mean of points, one after the other."""

    def __init__(self, descent: Descent) -> None:
        self._descent, self._weight, self._square, self._left = descent, 0.0, 0.0, 0.0
        self.point: Array = descent.manifold.origin

    def add(self, point: Array, noise: float, length: float) -> None:
        weight = 1.0 / (noise**2 + (length / 3.0) ** 2)
        self._weight += weight
        self._square += (weight * noise) ** 2
        self._left += weight * length / 3.0
        with np.errstate(all="ignore"):
            manifold = self._descent.manifold
            apart = manifold.raw_coordinates(self.point, manifold.raw_log(self.point, point))
        if weight == self._weight or not np.isfinite(apart).all():
            self.point = point
        else:
            self.point = self._descent.move(self.point, weight / self._weight * apart)

    @property
    def noise(self) -> float:
        return math.sqrt(self._square) / self._weight

    @property
    def bias(self) -> float:
        return self._left / self._weight
