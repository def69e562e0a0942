"""One-dimensional laws known up to a constant: exact draws if they are log-concave, and integrals of any."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray

from geodp.inputs import Array

Function = Callable[[Array], Array]

#: The smallest radius that is searched for a mode. Every law of the library is wider by many orders of magnitude.
_LEAST = 1e-300
#: The largest radius that is searched. Every law of the library is narrower by many orders of magnitude.
_GREATEST = 1e200

#: The hat touches the density this far below the mode, on a logarithmic scale, on each side. The knot at 1 alone bounds
#: the rejection rate for every log-concave density; the others bring it near zero for the usual ones.
_KNOT_DROPS = (0.1, 0.4, 1.0, 2.2, 4.5)


class _Pieces(NamedTuple):
    """Exponential pieces of a hat, each decaying at ``rate`` from its higher end ``anchor`` over ``width``."""

    anchor: Array
    direction: Array
    rate: Array
    width: Array
    log_height: Array

    def log_areas(self) -> Array:
        decay = self.rate * self.width
        with np.errstate(all="ignore"):
            length = np.where(decay < 1e-12, self.width, -np.expm1(-decay) / self.rate)
            return self.log_height + np.log(length)


@final
@dataclass(frozen=True, eq=False)
class LogConcave:
    r"""The law on ``(0, end)`` with density proportional to ``exp(log_density)``, which must be log-concave.

    ``log_density`` takes and returns arrays, may be minus infinity at the ends, and need not be smooth.

    Draws are exact up to the rounding of ``log_density`` itself: rejection from a hat made of secants. A concave
    function lies below the secant through two of its points everywhere outside them, so the secants of neighbouring
    knots, each extended over the next gap, bound it from above whatever the knots are. With knots at the mode and
    where the density has fallen by the factor ``e`` on either side, at least ``(e - 1)/(e + 1) = 46%`` of the trials
    are accepted for *any* log-concave density (Devroye's argument); about 97% are with the knots used here.

    >>> gamma = LogConcave(lambda s: 2.0 * np.log(s) - s, math.inf)
    >>> round(gamma.mode, 6)
    2.0
    >>> gamma.sample(3, np.random.default_rng(0)).shape
    (3,)
    """

    log_density: Function
    end: float

    def __call__(self, s: ArrayLike) -> Array:
        """``log_density``, with NaN (a difference of infinities far out) replaced by minus infinity."""
        with np.errstate(all="ignore"):
            return np.nan_to_num(self.log_density(np.asarray(s, dtype=np.float64)), nan=-np.inf, posinf=-np.inf, neginf=-np.inf)

    @cached_property
    def mode(self) -> float:
        """The point of greatest density, which may be 0 or ``end``."""
        low, high = math.log(_LEAST), math.log(min(self.end, _GREATEST))
        # A concave function is unimodal on a logarithmic axis too; the best of a grid and its neighbours bracket the mode.
        while high - low > 1e-14 * max(1.0, abs(low), abs(high)):
            grid = np.linspace(low, high, 65)
            best = int(np.argmax(self(np.minimum(np.exp(grid), self.end))))
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, 64)] if best else grid[0]
        found = min(math.exp(0.5 * (low + high)), self.end)
        candidates = [0.0, found, self.end] if math.isfinite(self.end) else [0.0, found]
        return candidates[int(np.argmax(self(np.array(candidates))))]

    @cached_property
    def peak(self) -> float:
        """``log_density`` at the mode."""
        return float(self(self.mode))

    def span(self, drop: float) -> tuple[float, float]:
        """The interval on which ``log_density`` is within ``drop`` of its peak, or one up to five per cent longer."""
        return self._distance_within(drop, -1.0, self.mode), self._distance_within(drop, 1.0, self.end - self.mode)

    def _distance_within(self, drop: float, direction: float, room: float) -> float:
        """The distance on one side within which ``log_density`` is within ``drop`` of its peak, slightly more, or the end."""
        if room <= 0.0:
            return self.mode
        low, high = math.log(_LEAST), math.log(min(room, _GREATEST))
        for _ in range(12):
            grid = np.linspace(low, high, 65)
            points = self.mode + direction * np.minimum(np.exp(grid), room)
            drops = self.peak - self(points)
            first = int(np.argmax(drops > drop))
            if not drops[first] > drop:
                return self.mode + direction * room
            if drops[first] < 1.05 * drop:
                break
            low, high = grid[max(first - 1, 0)], grid[first]
        return float(points[first])

    @cached_property
    def _hat(self) -> _Pieces:
        knots = {self.mode}
        for drop in _KNOT_DROPS:
            knots.update(self.span(drop))
        # if an end cuts a side short, its middle replaces the knots beyond the end
        knots.update(0.5 * (self.mode + side) for side in self.span(_KNOT_DROPS[-1]))
        x = np.array(sorted(knots))
        x = x[np.isfinite(x)]
        x = x[np.isfinite(self(x))]
        return _secant_hat(x, self(x) - self.peak, self.end)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """``size`` independent draws."""
        pieces = self._hat
        cumulative = np.cumsum(np.exp(pieces.log_areas()))
        out = np.empty(size)
        done = 0
        while done < size:
            count = (size - done) + (size - done) // 16 + 8
            choice = np.searchsorted(cumulative, cumulative[-1] * rng.random(count), side="right")
            rate, width = pieces.rate[choice], pieces.width[choice]
            uniform = rng.random(count)
            with np.errstate(all="ignore"):
                bent = -np.log1p(uniform * np.expm1(-rate * width)) / rate
            offset = np.where(rate * width < 1e-12, uniform * width, bent)
            s = pieces.anchor[choice] + pieces.direction[choice] * offset
            margin = self(s) - self.peak - (pieces.log_height[choice] - rate * offset)
            kept = s[-rng.standard_exponential(count) < margin][: size - done]
            out[done : done + len(kept)] = kept
            done += len(kept)
        return out


def _secant_hat(x: Array, y: Array, end: float) -> _Pieces:
    """The exponential pieces that bound a log-concave density with logarithms ``y`` at the knots ``x``, on ``(0, end)``."""
    slope = np.diff(y) / np.diff(x)
    # Lines that bound the density beyond each knot, to its right and to its left: the secant from the knot before. At the
    # mode the horizontal line is a tighter bound; at the outermost knots there is no secant.
    mode = int(np.argmax(y))
    rightward, leftward = np.append(np.nan, slope), np.append(slope, np.nan)
    rightward[mode], leftward[mode] = 0.0, 0.0
    edges: list[tuple[float, float, int, float]] = []  # a piece from, to, and its line: through which knot, how steep
    if x[0] > 0.0:
        edges.append((0.0, x[0], 0, leftward[0]))
    for i in range(len(slope)):
        up, down = rightward[i], leftward[i + 1]
        # where the two lines meet; each is a bound on the whole gap, so rounding is harmless
        meet = x[i] + (y[i + 1] - y[i] - down * (x[i + 1] - x[i])) / (up - down) if up > down else x[i]
        meet = x[i] if np.isnan(up) else x[i + 1] if np.isnan(down) else min(max(meet, x[i]), x[i + 1])
        edges += [(x[i], meet, i, up), (meet, x[i + 1], i + 1, down)]
    if x[-1] < end:
        edges.append((x[-1], end, len(x) - 1, rightward[-1]))
    start, stop, knot, steep = (np.array(column) for column in zip(*(edge for edge in edges if edge[0] < edge[1]), strict=True))
    anchor = np.where(steep > 0.0, stop, start)
    direction = np.where(steep > 0.0, -1.0, 1.0)
    return _Pieces(anchor, direction, np.abs(steep), stop - start, y[knot] + steep * (anchor - x[knot]))


# ---------------------------------------------------------------------------- integrals

_ORDER = 16
_NODES, _WEIGHTS = legendre.leggauss(_ORDER)
#: The matrix from values at the nodes to Legendre coefficients.
_ANALYSIS = (legendre.legvander(_NODES, _ORDER - 1) * _WEIGHTS[:, None]).T * (np.arange(_ORDER) + 0.5)[:, None]
_DEEPEST = 60


@final
@dataclass(frozen=True, eq=False)
class Piecewise:
    """A function on an interval as a polynomial of degree 15 on each of adaptively halved panels.

    ``error`` estimates the integral of the absolute error: the last Legendre coefficients, summed over the panels.

    >>> wave = Piecewise.fit(np.sin, [0.0, np.pi], tolerance=1e-12)
    >>> round(wave.integral(), 12)
    2.0
    """

    edges: Array
    values: Array
    error: float

    @classmethod
    def fit(cls, function: Function, breaks: ArrayLike, tolerance: float) -> Piecewise:
        """Halves panels, starting from ``breaks``, until the error of each is below ``tolerance`` times the whole integral."""
        points = np.array(sorted(set(np.asarray(breaks, dtype=np.float64).tolist())))
        left, right = points[:-1], points[1:]
        done: list[tuple[Array, Array, Array, Array]] = []
        settled = 0.0
        for depth in range(_DEEPEST):
            x = 0.5 * (left + right)[:, None] + 0.5 * (right - left)[:, None] * _NODES
            values = function(x.ravel()).reshape(x.shape)
            widths = right - left
            mass = settled + float((np.abs(values) @ _WEIGHTS) @ widths) / 2.0
            if not math.isfinite(mass):
                raise FloatingPointError(f"the function is not finite on [{points[0]}, {points[-1]}]")
            errors = np.abs(values @ _ANALYSIS[-3:].T).max(axis=1) * widths
            middle = 0.5 * (left + right)
            good = (errors <= tolerance * mass) | (middle <= left) | (middle >= right) | (depth == _DEEPEST - 1)
            done.append((left[good], right[good], values[good], errors[good]))
            settled += float((np.abs(values[good]) @ _WEIGHTS) @ widths[good]) / 2.0
            left, middle, right = left[~good], middle[~good], right[~good]
            if not len(left):
                break
            left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        lefts, rights, panels, leftover = (np.concatenate(parts) for parts in zip(*done, strict=True))
        order = np.argsort(lefts)
        return cls(np.append(lefts[order], rights.max()), panels[order], float(leftover.sum()))

    def __call__(self, x: Array) -> Array:
        """The value of the function; beyond an end, the value at that end."""
        panel, t = self._locate(x)
        return np.asarray(legendre.legval(t, self._coefficients[:, panel], tensor=False))

    def integral(self, weight: Function | None = None) -> float:
        """The integral of the function, times ``weight`` if there is one."""
        widths, middles = np.diff(self.edges), 0.5 * (self.edges[1:] + self.edges[:-1])
        values = self.values if weight is None else self.values * weight(middles[:, None] + 0.5 * widths[:, None] * _NODES)
        return float((values @ _WEIGHTS) @ widths) / 2.0

    def integral_to(self, x: Array) -> Array:
        """The integral from the left end to ``x``: 0 to the left of it, constant beyond the right end."""
        panel, t = self._locate(x)
        partial = legendre.legval(t, self._antiderivative[:, panel], tensor=False)
        return np.asarray(self._cumulative[panel] + 0.5 * np.diff(self.edges)[panel] * partial)

    def solve_integral(self, area: Array) -> Array:
        """The ``x`` with ``integral_to(x) == area``, for a function that is not negative.

        Newton's method on the panel that holds ``x``; a step that leaves the bracket, or is not half as long as the one before
        the last, is replaced by halving the bracket.
        """
        panel = np.clip(np.searchsorted(self._cumulative, area, side="right") - 1, 0, len(self.values) - 1)
        left, half = self.edges[panel], 0.5 * np.diff(self.edges)[panel]
        missing = np.clip((area - self._cumulative[panel]) / half, 0.0, None)
        series = self._integral_and_value[:, :, panel]
        low, high = np.full(panel.shape, -1.0), np.full(panel.shape, 1.0)
        t, step, before = np.zeros(panel.shape), np.full(panel.shape, 2.0), np.full(panel.shape, 2.0)
        for _ in range(200):
            integral, slope = legendre.legval(t, series, tensor=False)
            low, high = np.where(integral < missing, t, low), np.where(integral < missing, high, t)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                newton = (missing - integral) / slope
            good = (low <= t + newton) & (t + newton <= high) & (np.abs(newton) <= 0.5 * np.abs(before))
            step, before = np.where(good, newton, 0.5 * (low + high) - t), step
            t = t + step
            if (np.abs(step) <= 1e-15).all():
                break
        return np.asarray(left + half * (t + 1.0))

    @cached_property
    def _coefficients(self) -> Array:
        return _ANALYSIS @ self.values.T

    @cached_property
    def _antiderivative(self) -> Array:
        return np.asarray(legendre.legint(self._coefficients, lbnd=-1))

    @cached_property
    def _integral_and_value(self) -> Array:
        """The coefficients of both: one evaluation gives what Newton's method needs."""
        return np.stack([self._antiderivative, np.pad(self._coefficients, ((0, 1), (0, 0)))], axis=1)

    @cached_property
    def _cumulative(self) -> Array:
        return np.concatenate([[0.0], np.cumsum((self.values @ _WEIGHTS) * np.diff(self.edges) / 2.0)])

    def _locate(self, x: Array) -> tuple[NDArray[np.intp], Array]:
        x = np.clip(x, self.edges[0], self.edges[-1])
        panel = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.values) - 1)
        left, right = self.edges[panel], self.edges[panel + 1]
        return panel, 2.0 * (x - left) / (right - left) - 1.0


def log_power(x: Array, power: int) -> Array:
    """``log(x**power)``, also for ``0**0``."""
    return power * np.log(x) if power else np.zeros_like(x)
