from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from geodp.arithmetic.gamma import gamma_probabilities, gamma_quantile
from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball

#: The radii of a scale.
RATIO, RADII = 1.2, 100
_BITS = 40
_SHRINK = 1.0 - 2.0**-30


def grid(n: int) -> float:
    return 2.0 ** min(_BITS, 52 - (n - 1).bit_length())


def on_grid(rows: Array, n: int) -> Array:
    cells = grid(n)
    rounded = np.trunc(rows * (_SHRINK * cells)) / cells
    kept = np.vecdot(rounded, rounded) <= 1.0 - 2.0**-31
    return np.where(kept[..., None], rounded, 0.0)


def logarithms(manifold: Manifold, point: Array, records: Array) -> Array:
    """Coordinates of the logarithms, NaN for what has none."""
    mask = manifold.valid(records).reshape(-1, *(1,) * len(manifold.point_shape))
    with np.errstate(all="ignore"):
        rows = _logarithms(manifold, point, np.where(mask, records, manifold.origin))
    return np.where(mask.reshape(-1, 1) & np.isfinite(rows).all(axis=1, keepdims=True), rows, np.nan)


def _logarithms(manifold: Manifold, point: Array, records: Array) -> Array:
    try:
        return manifold.raw_coordinates(point, manifold.raw_log(point, records))
    except np.linalg.LinAlgError:
        if len(records) == 1:
            return np.full((1, manifold.dim), np.nan)
        half = len(records) // 2
        return np.concatenate([_logarithms(manifold, point, part) for part in (records[:half], records[half:])])


def psi(manifold: Manifold, point: Array, threshold: float, n: int, records: Array) -> Array:
    rows = logarithms(manifold, point, records)
    with np.errstate(all="ignore"):
        length = np.linalg.vector_norm(rows, axis=1, keepdims=True)
        rows = rows / np.maximum(length, threshold)
    return on_grid(np.where(np.isfinite(rows), rows, 0.0), n)


def closeness(manifold: Manifold, point: Array, radii: Array, records: Array) -> Array:
    rows = logarithms(manifold, point, records)
    with np.errstate(all="ignore"):
        length = np.maximum(np.linalg.vector_norm(rows, axis=1, keepdims=True), radii[-1])
        off = np.abs(np.log(length / radii))
        near = np.minimum(1.0, (math.log(4.0) - off) / math.log(4.0 / 1.3))
        return np.floor(16.0 * np.where(near > 0.0, near, 0.0)) / 16.0


@final
@dataclass(frozen=True, eq=False)
class Start:
    cost: float


@final
@dataclass(frozen=True, eq=False)
class Scale:
    point: Array
    top: float
    cost: float

    @property
    def radii(self) -> Array:
        return self.top * RATIO ** -np.arange(RADII)


@final
@dataclass(frozen=True, eq=False)
class Gradient:
    point: Array
    threshold: float
    cost: float


@final
@dataclass(frozen=True, eq=False)
class Near:
    point: Array
    radius: float
    cost: float


@final
@dataclass(frozen=True)
class Prices:
    """What noise and choices cost."""

    n: int
    dim: int
    pure: bool
    sensitivity: float = 2.0

    def noise(self, cost: float, dim: int | None = None) -> float:
        """Root mean square length of the noise of a mean of psi."""
        d = self.dim
        return self.sensitivity / self.n * (math.sqrt(d * (d + 1.0)) / cost if self.pure else math.sqrt(d / (2.0 * cost)))

    def of_noise(self, length: float) -> float:
        unit = self.noise(1.0)
        return unit / length if self.pure else (unit / length) ** 2

    def of_choice(self, epsilon: float) -> float:
        return epsilon if self.pure else epsilon**2 / 8.0


def clamp(x, low, high):
    return min(max(x, low), high)


def slope(dim: int, threshold: float = 1.0) -> float:
    """Slope of the mean of psi."""
    median = 2.0 * gamma_quantile(0.5 * dim, 0.5)
    x = 0.5 * median * threshold**2
    inside = gamma_probabilities(0.5 * dim, x)[0]
    if dim == 1:
        return inside
    inverse = math.exp(math.lgamma(0.5 * dim - 0.5) - math.lgamma(0.5 * dim)) / math.sqrt(2.0)
    return inside + (1.0 - 1.0 / dim) * math.sqrt(2.0 * x) * inverse * gamma_probabilities(0.5 * dim - 0.5, x)[1]


@final
@dataclass(frozen=True, eq=False)
class Centre:
    point: Array
    scale: float
    noise: float
    gradient: Array
    gradient_noise: float
    extra: Any = None


@dataclass(frozen=True, eq=False)
class Descent:
    place: Any
    n: int
    budget: float
    pure: bool
    threshold: float = 1.0
    tune: Any = None

    @cached_property
    def manifold(self):
        return self.place.manifold if isinstance(self.place, Ball) else self.place

    @cached_property
    def prices(self):
        return Prices(self.n, self.manifold.dim, self.pure)

    def t(self, name, default):
        return (self.tune or {}).get(name, default)

    def move(self, point, step):
        m = self.manifold
        with np.errstate(all="ignore"):
            there = m.raw_project(m.raw_exp(point, m.raw_tangent(point, step)))
        if not (np.isfinite(there).all() and m.valid(there[None])[0]):
            return point
        return self.place.clip_chunk(there[None])[0] if isinstance(self.place, Ball) else there

    def run(self):
        m, B = self.manifold, self.budget * (1 - 1e-12)
        choice = self.prices.of_choice(self.t("ec", 22.2) / self.n)
        if isinstance(self.place, Ball):
            point, top = self.place.center, 2 * self.place.radius
            cost = clamp(choice, 0.01 * B, 0.1 * B)
            scale = yield Scale(point, top, cost)
            left = B - cost
            point, left = yield from self.walk(point, scale, left, B)
            rounds_left = left
        else:
            top = m.diameter
            cost = self.t("start", 0.1) * B
            point = yield Start(cost)
            left = B - cost
        return (yield from self.refine(point, top, left))

    def walk(self, point, scale, left, B):
        p = self.prices
        want = self.t("nu", 0.5 if self.pure else 0.6)
        cost = clamp(p.of_noise(want), (0.01 if self.pure else 0.02) * B, 0.25 * B)
        nu = p.noise(cost)
        k = math.sqrt(-self.manifold.lowest_curvature)
        longest = scale
        if k > 0:
            longest = min(scale, 1.5 * max(1.0, -math.log(math.tan(math.atan(nu) / 2))) / k)
        stride, last, turns = longest, None, 0
        end = B * (1 - self.t("walkpart", 0.5))
        for r in range(60):
            if left - cost < end: break
            g = yield Gradient(point, stride / 2, cost)
            left -= cost
            length = float(np.linalg.norm(g))
            if length > 1: g = g / length
            c = 1.0 if last is None else float(g @ last)
            if last is None: pass
            elif c < 0.3:
                stride *= max(0.3, nu / math.sqrt(1 + nu * nu)); turns += 1
                if turns >= 2 and length**2 - nu**2 < 0.16:
                    break
            elif c > 0.6: stride = min(1.5 * stride, longest)
            last = g / np.linalg.norm(g)
            point = self.move(point, stride / (1 + nu * nu) * g)
        return point, left

    def refine(self, point, top, left):
        p, m, rest = self.prices, self.manifold, left
        sc = clamp(p.of_choice(self.t("ec", 22.2) / self.n), 0.02 * rest, 0.08 * rest)
        N = slope(m.dim, self.threshold)
        left = rest - 2 * sc
        if self.pure:
            f = clamp(p.of_noise(0.15) / left, 0.05, 0.5)
            shares = [f, 0.15, 0.85 - f]
        else:
            K = self.t("K", 4)
            shares = [0.1] + [0.3 / (K - 2)] * (K - 2) + [0.6]
        W = 0; mean = None; var = 0
        for j, share in enumerate(shares):
            if j < 2:
                scale = yield Scale(point, top, sc)
            h = scale * self.threshold
            g = yield Gradient(point, h, share * left)
            nu = p.noise(share * left)
            length = float(np.linalg.norm(g))
            raw = g
            if length > 1: g = g / length
            q = self.move(point, h / N * g)
            e = h / N * min(length, 1)
            w = 1 / ((nu * h / N) ** 2 + (e / 3) ** 2)
            if mean is None: mean = q; W = w
            else:
                W += w
                step = m.raw_coordinates(mean, m.raw_log(mean, q))
                if np.isfinite(step).all(): mean = self.move(mean, w / W * step)
            var += w * w * (nu * h / N) ** 2
            point = q
        return Centre(mean, scale, math.sqrt(var) / W, raw, nu)
