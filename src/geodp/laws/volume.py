"""The volume density of ``exp`` averaged over directions.

Everything about the law of the radius follows from the mean, over all directions at a radius, of the density ``J``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial, singledispatch
from typing import final

import numpy as np
from numpy.polynomial import legendre

from geodp.inputs import Array
from geodp.laws.comparison import is_isotropic, log_envelope
from geodp.laws.radial import Function, Piecewise, log_power
from geodp.manifolds import SPD, Grassmann, Manifold, Product, Rotations
from geodp.manifolds.functions import log_sinc, log_sinhc
from geodp.manifolds.small_eigen import eigvalsh

#: Numbers held at once by one batch of quadrature nodes.
_BATCH = 1 << 21


@final
@dataclass(frozen=True, eq=False)
class MeanVolume:
    """The mean of ``J`` over all directions at a radius, counting 0 outside the cut locus.

    It is 0 from the radius ``diameter`` on. ``relative_error`` estimates the error of ``exp(log_mean)``; ``kinks`` are the
    radii where it need not be smooth.
    """

    dim: int
    diameter: float
    log_mean: Function
    relative_error: Function
    kinks: tuple[float, ...] = ()


def mean_volume(manifold: Manifold, reach: float) -> MeanVolume:
    """The mean volume density of a manifold at radii up to ``reach``.

    =====================================  ==========================================================================
    isotropic                              closed form
    SPD(k <= 5), SO(n <= 9), Gr(p <= 4)    Gauss-Legendre quadrature over a Weyl chamber, error from a coarser rule
    products                               one quadrature per factor over how the radius is shared out
    all others                             mean over fixed pseudo-random directions, with its standard error
    =====================================  ==========================================================================
    """
    # laws of all small scales share one, and those of similar scales: a plan tries many
    return _remembered(manifold, max(2.0 ** math.ceil(math.log2(reach)), 0.25))


@lru_cache(maxsize=64)
def _remembered(manifold: Manifold, reach: float) -> MeanVolume:
    return _isotropic(manifold) if is_isotropic(manifold) else _mean_volume(manifold, reach)


@singledispatch
def _mean_volume(manifold: Manifold, reach: float) -> MeanVolume:
    """For a manifold of which only the contract is known."""
    directions = _directions(manifold)

    def log_density(radius: float) -> Array:
        vectors = radius * directions
        inside = radius < manifold.injectivity_radius or manifold.raw_inside_cut_locus(manifold.origin, vectors)
        return np.where(inside, manifold.raw_log_volume_density(manifold.origin, vectors), -np.inf)

    return _sampled(manifold, log_density, reach)


@_mean_volume.register
def _(manifold: SPD, reach: float) -> MeanVolume:
    k = manifold.k
    # a line, the logarithm of the determinant, times the matrices of determinant one
    i, j = np.triu_indices(k, 1)
    roots = 0.5 * (np.eye(k)[i] - np.eye(k)[j])[:, :-1]
    chamber = _Chamber(roots, np.ones(len(roots)), -1, np.eye(k - 1) - 1.0 / k, math.inf)
    if k > 5:
        values = eigvalsh(_directions(manifold))[:, ::-1]
        return _sampled(manifold, chamber.along(values[:, :-1] - values[:, -1:]), reach)
    unimodular = _interpolated(chamber.mean_volume(), partial(log_envelope, manifold), reach)
    return _interpolated(_convolved(unimodular, _flat(1)), partial(log_envelope, manifold), reach)


@_mean_volume.register
def _(manifold: Grassmann, reach: float) -> MeanVolume:
    p = manifold.p
    multiplicities = np.append(np.ones(p * (p - 1)), np.full(p, manifold.m - 2.0 * p))
    chamber = _Chamber(_signed_roots(p), multiplicities, 1, np.eye(p), math.pi / 2.0)
    if p > 4:
        angles = np.asarray(np.linalg.svd(_directions(manifold), compute_uv=False), dtype=np.float64)
        return _sampled(manifold, chamber.along(angles), reach)
    return _interpolated(chamber.mean_volume(), partial(log_envelope, manifold), reach)


@_mean_volume.register
def _(manifold: Rotations, reach: float) -> MeanVolume:
    q = manifold.rank
    multiplicities = np.append(np.full(q * (q - 1), 2.0), np.full(q, 2.0 * (manifold.n % 2)))
    chamber = _Chamber(0.5 * _signed_roots(q), multiplicities, 1, np.eye(q), math.pi)
    if q > 4:
        return _sampled(manifold, chamber.along(manifold.raw_angles(manifold.origin, _directions(manifold))), reach)
    return _interpolated(chamber.mean_volume(), partial(log_envelope, manifold), reach)


@_mean_volume.register
def _(manifold: Product, reach: float) -> MeanVolume:
    done = mean_volume(manifold.factors[0], reach)
    for count in range(2, len(manifold.factors) + 1):
        part = Product(*manifold.factors[:count])
        both = _convolved(done, mean_volume(part.factors[-1], reach))
        done = _interpolated(both, partial(log_envelope, part), reach)
    return done


def _exact(radius: Array) -> Array:
    return np.zeros_like(radius)


def _flat(dim: int) -> MeanVolume:
    return MeanVolume(dim, math.inf, _exact, _exact)


def _isotropic(manifold: Manifold) -> MeanVolume:
    def log_mean(radius: Array) -> Array:
        return np.where(radius < manifold.diameter, log_envelope(manifold, radius), -np.inf)

    kinks = (manifold.diameter,) if math.isfinite(manifold.diameter) else ()
    return MeanVolume(manifold.dim, manifold.diameter, log_mean, _exact, kinks)


def _directions(manifold: Manifold) -> Array:
    """Directions at the origin drawn with a fixed seed, so that they are a function of the manifold alone."""
    rng = np.random.default_rng(0)
    coordinates = rng.standard_normal((max((1 << 17) // manifold.dim, 256), manifold.dim))
    coordinates /= np.linalg.vector_norm(coordinates, axis=-1, keepdims=True)
    return manifold.raw_tangent(manifold.origin, coordinates)


def _sampled(manifold: Manifold, log_density: Callable[[float], Array], reach: float) -> MeanVolume:
    """The mean over fixed directions, from ``log J`` along each of them at a radius: minus infinity past the cut locus."""

    def moments(radius: Array) -> tuple[Array, Array]:
        """The mean of ``J`` in units of the envelope, and its relative standard error."""
        means, errors = np.empty(radius.size), np.empty(radius.size)
        for k, (s, scale) in enumerate(zip(radius.ravel(), log_envelope(manifold, radius.ravel()), strict=True)):
            quotients = np.exp(log_density(float(s)) - scale)
            means[k] = quotients.mean()
            errors[k] = quotients.std(ddof=1) / math.sqrt(len(quotients)) / max(means[k], 1e-300)
        return means.reshape(radius.shape), errors.reshape(radius.shape)

    def log_mean(radius: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(moments(radius)[0]) + log_envelope(manifold, radius)

    def relative_error(radius: Array) -> Array:
        return moments(radius)[1]

    count = len(log_density(0.0))
    # every direction leaves the cut locus at a radius of its own: following those jumps would be following the noise
    volume = MeanVolume(manifold.dim, manifold.diameter, log_mean, relative_error)
    return _interpolated(volume, partial(log_envelope, manifold), reach, tolerance=0.05 / math.sqrt(count))


def _interpolated(volume: MeanVolume, log_scale: Function, reach: float, tolerance: float = 1e-12) -> MeanVolume:
    """The same, from a piecewise polynomial for its quotient by ``exp(log_scale)``, which is smooth and mostly near 1."""

    def quotient(radius: Array) -> Array:
        return np.exp(volume.log_mean(radius) - log_scale(radius))

    reach = min(reach, volume.diameter)
    breaks = [0.0, *(kink for kink in volume.kinks if kink < reach), 0.25 * reach, 0.5 * reach, reach]
    fitted = Piecewise.fit(quotient, breaks, tolerance)

    def log_mean(radius: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.where(radius < volume.diameter, np.maximum(fitted(radius), 0.0), 0.0)) + log_scale(radius)

    def relative_error(radius: Array) -> Array:
        return volume.relative_error(radius) + fitted.error / reach / np.maximum(fitted(radius), 1e-300)

    return MeanVolume(volume.dim, volume.diameter, log_mean, relative_error, volume.kinks)


# ---------------------------------------------------------------------------- products

_TURN_NODES, _TURN_WEIGHTS = legendre.leggauss(24)
_TURN_NODES, _TURN_WEIGHTS = 0.5 * (_TURN_NODES + 1.0), 0.5 * _TURN_WEIGHTS
#: A cubic that flattens out at both ends of a segment: square-root behaviour there, as at a cut locus, becomes smooth.
_TURN_WEIGHTS = _TURN_WEIGHTS * 6.0 * _TURN_NODES * (1.0 - _TURN_NODES)
_TURN_NODES = _TURN_NODES**2 * (3.0 - 2.0 * _TURN_NODES)


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
        turn = (cuts[:, :-1, None] + widths * _TURN_NODES).reshape(len(radius), -1)
        weights = (widths * _TURN_WEIGHTS).reshape(turn.shape)
        cosine, sine = np.cos(turn), np.sin(turn)
        with np.errstate(divide="ignore"):
            log_terms = np.log(weights) + log_power(cosine, first.dim - 1) + log_power(sine, second.dim - 1)
        log_terms += first.log_mean(column * cosine) + second.log_mean(column * sine)
        return _log_sum(log_terms) + math.log(2.0) - log_constant

    def log_mean(radius: Array) -> Array:
        return _in_batches(log_mean_some, radius, 24 * (len(even) + len(first.kinks) + len(second.kinks)))

    def relative_error(radius: Array) -> Array:
        # each factor's at the root mean square of its share, away from its farthest points, where little is left to be wrong
        shares = (math.sqrt(part.dim / (first.dim + second.dim)) * radius for part in (first, second))
        capped = [np.minimum(share, 0.8 * part.diameter) for share, part in zip(shares, (first, second), strict=True)]
        return first.relative_error(capped[0]) + second.relative_error(capped[1])

    corners = [math.hypot(a, b) for a in first.kinks for b in second.kinks]
    kinks = tuple(sorted({*first.kinks, *second.kinks, *corners}))
    diameter = math.hypot(first.diameter, second.diameter)
    return MeanVolume(first.dim + second.dim, diameter, log_mean, relative_error, kinks)


# ---------------------------------------------------------------------------- Weyl chambers


def _signed_roots(q: int) -> Array:
    """``t_i - t_j`` and ``t_i + t_j`` for ``i < j``, then ``t_i``, as rows."""
    i, j = np.triu_indices(q, 1)
    unit = np.eye(q)
    return np.concatenate([unit[i] - unit[j], unit[i] + unit[j], unit])


@final
@dataclass(frozen=True, eq=False)
class _Chamber:
    r"""A Weyl chamber of an irreducible symmetric space, in coordinates with ``b_1 >= ... >= b_q >= 0``.

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

    def along(self, directions: Array) -> Callable[[float], Array]:
        """``log J`` along given directions ``b``, one a row, as a function of the radius."""
        used = self.multiplicities > 0.0
        values, log_sn = directions @ self.roots[used].T, log_sinc if self.sign > 0 else log_sinhc

        def log_density(radius: float) -> Array:
            return np.where(radius * directions[:, 0] < self.limit, log_sn(radius * values) @ self.multiplicities[used], -np.inf)

        return log_density

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
            if multiplicity:
                value = chamber @ root / length
                with np.errstate(divide="ignore"):
                    log_terms = log_terms + multiplicity * (np.log(value) + log_sn(radius[:, None] * value))
        return _log_sum(log_terms)

    def _nodes(self, squared: Array, order: int) -> tuple[Array, Array]:
        """Points of the chamber with ``b_1 = 1`` and the logarithms of their weights, for each ``(s/limit)^2``."""
        node, weight = legendre.leggauss(order)
        node, weight = 0.5 * (node + 1.0), 0.5 * weight
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


def _log_sum(log_terms: Array) -> Array:
    """``log(sum(exp(log_terms)))`` along the last axis."""
    top = log_terms.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(log_terms - top).sum(axis=-1)) + top[..., 0]


def _in_batches(function: Function, x: Array, width: int) -> Array:
    """``function(x)`` for one that needs ``width`` numbers for each entry."""
    flat = x.ravel()
    step = max(_BATCH // width, 1)
    return np.concatenate([function(flat[i : i + step]) for i in range(0, len(flat), step)]).reshape(x.shape)
