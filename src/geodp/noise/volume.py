"""The volume density of ``exp`` averaged over directions.

The law of the radius follows from the mean of the density ``J`` over all directions at each radius.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import final

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.manifolds.functions import log_sinc, log_sinhc
from geodp.manifolds.roots import Integers, Roots
from geodp.noise.flat import unit_rule
from geodp.noise.radial import Function, Piecewise, log_power

#: Numbers held at once by one batch of quadrature nodes.
_BATCH = 1 << 21


@final
@dataclass(frozen=True, eq=False)
class MeanVolume:
    """The mean of ``J`` over all directions at a radius, where ``J`` counts as 0 outside the cut locus.

    It is 0 for radii of ``diameter`` and more. ``relative_error`` estimates the error of ``exp(log_mean)``. At the radii
    ``kinks`` it need not be smooth.
    """

    dim: int
    diameter: float
    log_mean: Function
    relative_error: Function
    kinks: tuple[float, ...] = ()


def mean_volume(manifold: Manifold, farthest: float) -> MeanVolume:
    """The mean volume density of a manifold at radii up to ``farthest``.

    =====================================  ==========================================================================
    isotropic                              closed form
    roots that span 4 dimensions or less   Gauss-Legendre quadrature over a Weyl chamber, error from a coarser rule
    products                               one quadrature per factor over the split of the radius
    all others                             mean over fixed pseudo-random directions, with its standard error
    =====================================  ==========================================================================
    """
    # round up, so that laws of similar scales, and of all small ones, share one: a plan tries many scales
    return _remembered(manifold, max(2.0 ** math.ceil(math.log2(farthest)), 0.25))


@lru_cache(maxsize=64)
def _remembered(manifold: Manifold, farthest: float) -> MeanVolume:
    if len(manifold.components) > 1:
        return _of_product([(factor.roots, mean_volume(factor, farthest)) for factor in manifold.components], farthest)
    if manifold.roots.isotropic:
        return _isotropic(manifold.roots)
    parts = [(block, _by_quadrature(block, farthest)) for block in manifold.roots.blocks()]
    known = [(block, volume) for block, volume in parts if volume is not None]
    return _of_product(known, farthest) if len(known) == len(parts) else _sampled(manifold, farthest)


def _by_quadrature(block: Roots, farthest: float) -> MeanVolume | None:
    """One quadrature, and another one for a flat factor not spanned by the roots; None if there are too many dimensions."""
    if block.isotropic:
        return _isotropic(block)
    chamber = _Chamber.of(block)
    if chamber is None:
        return None
    volume = _interpolated(chamber.mean_volume(), block.volume_bound.log_value, farthest)
    flat = block.rank - chamber.rank
    return _interpolated(_convolved(volume, _flat(flat)), block.volume_bound.log_value, farthest) if flat else volume


def _of_product(factors: Sequence[tuple[Roots, MeanVolume]], farthest: float) -> MeanVolume:
    done = factors[0][1]
    for count in range(2, len(factors) + 1):
        bound = Roots.direct_sum([roots for roots, _ in factors[:count]]).volume_bound
        done = _interpolated(_convolved(done, factors[count - 1][1]), bound.log_value, farthest)
    return done


def _exact(radius: Array) -> Array:
    return np.zeros_like(radius)


def _flat(dim: int) -> MeanVolume:
    return MeanVolume(dim, math.inf, _exact, _exact)


def _isotropic(roots: Roots) -> MeanVolume:
    def log_mean(radius: Array) -> Array:
        return np.where(radius < roots.diameter, roots.volume_bound.log_value(radius), -np.inf)

    kinks = (roots.diameter,) if math.isfinite(roots.diameter) else ()
    return MeanVolume(roots.dim, roots.diameter, log_mean, _exact, kinks)


def _directions(manifold: Manifold) -> Array:
    """Radial parts of directions at the origin, drawn with a fixed seed so that they depend only on the manifold."""
    rng = np.random.default_rng(0)
    coordinates = rng.standard_normal((max((1 << 17) // manifold.dim, 256), manifold.dim))
    coordinates /= np.linalg.vector_norm(coordinates, axis=-1, keepdims=True)
    return manifold.raw_radial_part(manifold.origin, manifold.raw_tangent(manifold.origin, coordinates))


def _sampled(manifold: Manifold, farthest: float) -> MeanVolume:
    """The mean over fixed directions."""
    directions, roots, envelope = _directions(manifold), manifold.roots, manifold.volume_bound.log_value
    values, largest = directions @ roots.rates.T, (np.abs(directions) / roots.limits).max(axis=-1)

    def moments(radius: Array) -> tuple[Array, Array]:
        """The mean of ``J`` in units of the envelope, and its relative standard error."""
        means, errors = np.empty(radius.size), np.empty(radius.size)
        for k, (s, scale) in enumerate(zip(radius.ravel(), envelope(radius.ravel()), strict=True)):
            quotients = np.where(s * largest < 1.0, np.exp(roots.log_product(s * values) - scale), 0.0)
            means[k] = quotients.mean()
            errors[k] = quotients.std(ddof=1) / math.sqrt(len(quotients)) / max(means[k], 1e-300)
        return means.reshape(radius.shape), errors.reshape(radius.shape)

    def log_mean(radius: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(moments(radius)[0]) + envelope(radius)

    def relative_error(radius: Array) -> Array:
        return moments(radius)[1]

    # every direction meets the cut locus at its own radius; a fit to those jumps would only fit the sampling noise
    volume = MeanVolume(manifold.dim, manifold.diameter, log_mean, relative_error)
    return _interpolated(volume, envelope, farthest, tolerance=0.05 / math.sqrt(len(directions)))


def _interpolated(volume: MeanVolume, log_scale: Function, farthest: float, tolerance: float = 1e-12) -> MeanVolume:
    """The same function, by a piecewise polynomial for its quotient by ``exp(log_scale)``, which is smooth and mostly near 1."""

    def quotient(radius: Array) -> Array:
        return np.exp(volume.log_mean(radius) - log_scale(radius))

    farthest = min(farthest, volume.diameter)
    breaks = [0.0, *(kink for kink in volume.kinks if kink < farthest), 0.25 * farthest, 0.5 * farthest, farthest]
    fitted = Piecewise.fit(quotient, breaks, tolerance)

    def log_mean(radius: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.where(radius < volume.diameter, np.maximum(fitted(radius), 0.0), 0.0)) + log_scale(radius)

    def relative_error(radius: Array) -> Array:
        return volume.relative_error(radius) + fitted.error / farthest / np.maximum(fitted(radius), 1e-300)

    return MeanVolume(volume.dim, volume.diameter, log_mean, relative_error, volume.kinks)


# ---------------------------------------------------------------------------- products


@cache
def _rule_of_turns() -> tuple[Array, Array]:
    """Nodes and weights on a segment from 0 to 1, through a cubic whose slope is zero at both ends.

    It makes square-root behaviour there, as at a cut locus, smooth.
    """
    node, weight = unit_rule(24)
    return node**2 * (3.0 - 2.0 * node), weight * 6.0 * node * (1.0 - node)


def _convolved(first: MeanVolume, second: MeanVolume) -> MeanVolume:
    r"""The mean volume of a product.

    A uniform direction splits its radius into ``s cos(t)`` and ``s sin(t)``, with ``t`` of density proportional to
    ``cos^(d1-1) sin^(d2-1)`` on the quarter circle; the factors' directions are independent of it and uniform.
    """
    # segments about as long as the density is wide
    even = np.linspace(0.0, math.pi / 2.0, 9 + math.ceil(0.4 * math.sqrt(first.dim + second.dim)))
    log_constant = math.lgamma(first.dim / 2) + math.lgamma(second.dim / 2) - math.lgamma((first.dim + second.dim) / 2)

    def log_mean_some(radius: Array) -> Array:
        column = radius[:, None]
        with np.errstate(divide="ignore"):
            near = [np.arccos(np.minimum(np.asarray(first.kinks) / column, 1.0))] if first.kinks else []
            far = [np.arcsin(np.minimum(np.asarray(second.kinks) / column, 1.0))] if second.kinks else []
        cuts = np.sort(np.concatenate([np.broadcast_to(even, (len(radius), len(even))), *near, *far], axis=1), axis=1)
        widths = np.diff(cuts, axis=1)[..., None]
        node, weight = _rule_of_turns()
        turn = (cuts[:, :-1, None] + widths * node).reshape(len(radius), -1)
        weights = (widths * weight).reshape(turn.shape)
        cosine, sine = np.cos(turn), np.sin(turn)
        with np.errstate(divide="ignore"):
            log_terms = np.log(weights) + log_power(cosine, first.dim - 1) + log_power(sine, second.dim - 1)
        log_terms += first.log_mean(column * cosine) + second.log_mean(column * sine)
        return _log_sum(log_terms) + math.log(2.0) - log_constant

    def log_mean(radius: Array) -> Array:
        return _in_batches(log_mean_some, radius, 24 * (len(even) + len(first.kinks) + len(second.kinks)))

    def relative_error(radius: Array) -> Array:
        # the error of each factor at the root mean square of its share: far from its farthest points, where errors matter little
        shares = (math.sqrt(part.dim / (first.dim + second.dim)) * radius for part in (first, second))
        capped = [np.minimum(share, 0.8 * part.diameter) for share, part in zip(shares, (first, second), strict=True)]
        return first.relative_error(capped[0]) + second.relative_error(capped[1])

    corners = [math.hypot(a, b) for a in first.kinks for b in second.kinks]
    kinks = tuple(sorted({*first.kinks, *second.kinks, *corners}))
    diameter = math.hypot(first.diameter, second.diameter)
    return MeanVolume(first.dim + second.dim, diameter, log_mean, relative_error, kinks)


# ---------------------------------------------------------------------------- Weyl chambers


@final
@dataclass(frozen=True, eq=False)
class _Chamber:
    r"""A Weyl chamber of roots of one sign and scale, in coordinates with ``b_1 >= ... >= b_q >= 0``.

    In polar coordinates a direction is a point ``b`` of the chamber with ``b' metric b = 1``, its density is proportional to
    ``prod a(b)^m`` over the roots ``a`` with multiplicities ``m``, and ``J(s b) = prod sn(s a(b))^m``, ``sn`` being
    ``sin(x)/x`` (``sign = 1``) or ``sinh(x)/x`` (``sign = -1``). The cut locus is ``s b_1 = limit``.

    With ``b`` proportional to ``(1, y_2, y_2 y_3, ...)`` the chamber is the unit cube, every wall is a face of it, and
    inside the integrand is smooth. The cut locus is a lower limit for each ``y_k`` given the later ones: with
    ``T_q = 1``, ``T_(k-1) = 1 + y_k^2 T_k`` (so ``|b|^2 = b_1^2 T_1``), ``s < limit sqrt(T_1)`` says that
    ``y_k^2 T_k > (s/limit)^2 - (k-1)`` for every ``k``.
    """

    roots: Array
    multiplicities: Array
    sign: int
    metric: Array
    limit: float

    @classmethod
    def of(cls, block: Roots) -> _Chamber | None:
        """The chamber of roots that span at most four dimensions; None for other roots.

        With a cut locus the roots must be invariant under permutations and changes of sign of the coordinates, as those of
        types B, C, D and BC are, and the limits the same for all. Without one, ``b_i - b_(i+1)`` is simple root ``i``.
        """
        if len(set(block.squares)) > 1 or len(set(block.signs)) > 1:
            return None
        sign, multiplicities = int(block.signs[0]), block.multiplicities.astype(np.float64)
        if np.isfinite(block.limits).any():
            usable = block.rank <= 4 and len(set(block.cuts)) == 1 and _is_hyperoctahedral(block)
            return cls(block.rates, multiplicities, sign, np.eye(block.rank), float(block.limits[0])) if usable else None
        simple = _simple_roots(block.forms) if np.linalg.matrix_rank(block.forms) <= 4 else []
        if not 1 <= len(simple) <= 4:
            return None
        # the columns of the pseudo-inverse are dual to the simple roots: H = sum (b_i - b_(i+1)) times column i
        flat = np.linalg.pinv(block.rates[simple]) @ (np.eye(len(simple)) - np.eye(len(simple), k=1))
        return cls(block.rates @ flat, multiplicities, sign, flat.T @ flat, math.inf)

    @property
    def rank(self) -> int:
        return len(self.metric)

    @property
    def dim(self) -> int:
        return self.rank + int(self.multiplicities.sum())

    def mean_volume(self) -> MeanVolume:
        fine = {1: 1, 2: 64 + 2 * math.isqrt(self.dim), 3: 40 + math.isqrt(self.dim), 4: 22}[self.rank]
        coarse = max(3 * fine // 4, 1)

        def relative_error(radius: Array) -> Array:
            with np.errstate(invalid="ignore"):
                return np.nan_to_num(np.abs(np.expm1(self.log_mean(radius, coarse) - self.log_mean(radius, fine))))

        kinks = tuple(self.limit * math.sqrt(k) for k in range(1, self.rank + 1)) if math.isfinite(self.limit) else ()
        diameter = self.limit * math.sqrt(self.rank)
        return MeanVolume(self.dim, diameter, partial(self.log_mean, order=fine), relative_error, kinks)

    def log_mean(self, radius: Array, order: int) -> Array:
        log_flat = self._log_integral(np.zeros(1), order)
        nodes = order ** (self.rank - 1) * len(self.roots)
        return _in_batches(partial(self._log_integral, order=order), radius, nodes) - log_flat

    def _log_integral(self, radius: Array, order: int) -> Array:
        chamber, log_weights = self._nodes((radius / self.limit) ** 2, order)
        length = np.sqrt(np.einsum("...i,ij,...j->...", chamber, self.metric, chamber))
        log_terms = log_weights - self.rank * np.log(length)
        log_sn = log_sinc if self.sign > 0 else log_sinhc
        for root, multiplicity in zip(self.roots, self.multiplicities, strict=True):
            value = chamber @ root / length
            with np.errstate(divide="ignore", invalid="ignore"):
                log_terms = log_terms + multiplicity * (np.log(value) + log_sn(radius[:, None] * value))
        return _log_sum(log_terms)

    def _nodes(self, squared: Array, order: int) -> tuple[Array, Array]:
        """Points of the chamber with ``b_1 = 1`` and the logarithms of their weights, for each ``(s/limit)^2``."""
        node, weight = unit_rule(order)
        tail = np.ones((len(squared), 1))  # T_k
        log_weights = np.zeros((len(squared), 1))
        ratios: list[Array] = []
        for k in range(self.rank, 1, -1):
            low = np.minimum(np.sqrt(np.maximum(squared[:, None] - (k - 1), 0.0) / tail), 1.0)
            y = (low[..., None] + (1.0 - low[..., None]) * node).reshape(len(squared), -1)
            with np.errstate(divide="ignore"):
                segment = np.log((1.0 - low[..., None]) * weight).reshape(y.shape)
                log_weights = np.repeat(log_weights, order, axis=1) + segment + (self.rank - k) * np.log(y)
            tail = 1.0 + y**2 * np.repeat(tail, order, axis=1)
            ratios = [y, *(np.repeat(earlier, order, axis=1) for earlier in ratios)]
        products = np.cumprod(np.stack([np.ones_like(tail), *ratios], axis=-1), axis=-1)
        return np.asarray(products, dtype=np.float64), log_weights


def _simple_roots(forms: Integers) -> list[int]:
    """The positive roots that are not the sum of two others."""
    rows = {tuple(row) for row in forms.tolist()}
    composite = {tuple(a + b for a, b in zip(u, v, strict=True)) for u in rows for v in rows}
    return [i for i, row in enumerate(forms.tolist()) if tuple(row) not in composite]


def _is_hyperoctahedral(roots: Roots) -> bool:
    """Whether permutations and changes of sign of the coordinates permute the roots, up to sign, with their multiplicities."""

    def signless(forms: Integers) -> set[tuple[int, ...]]:
        first = forms[np.arange(len(forms)), (forms != 0).argmax(axis=1)]
        return {(*row, m) for row, m in zip((forms * np.sign(first)[:, None]).tolist(), roots.multiplicities, strict=True)}

    cycle, swap, flip = (np.arange(roots.rank) for _ in range(3))
    cycle, swap[:2] = np.roll(cycle, 1), swap[:2][::-1].copy()
    signs = np.where(flip == 0, -1, 1)
    images = (roots.forms[:, cycle], roots.forms[:, swap], roots.forms * signs)
    return all(signless(image) == signless(roots.forms) for image in images)


def _log_sum(log_terms: Array) -> Array:
    """``log(sum(exp(log_terms)))`` along the last axis."""
    top = log_terms.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(log_terms - top).sum(axis=-1)) + top[..., 0]


def _in_batches(function: Function, x: Array, width: int) -> Array:
    """``function(x)``, in batches, for a function that needs ``width`` numbers for each entry."""
    flat = x.ravel()
    step = max(_BATCH // width, 1)
    return np.concatenate([function(flat[i : i + step]) for i in range(0, len(flat), step)]).reshape(x.shape)
