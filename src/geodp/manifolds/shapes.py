"""Kendall's shapes of labelled points in the plane."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import EPSILON, Array, whole_number
from geodp.manifolds.embedding import Embedding, turn_across_gap
from geodp.manifolds.functions import (
    Complex,
    coarse,
    complex_of_pairs,
    frobenius,
    hermitian_from_vector,
    pairs_of_complex,
    sinc,
    subtract_product,
    vector_from_hermitian,
)
from geodp.manifolds.layout import Layout
from geodp.manifolds.manifold import TOLERANCE, Manifold, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots
from geodp.manifolds.units import LengthUnit, percent_of_size

if TYPE_CHECKING:
    from flint import acb, arb


@register
@final
@dataclass(frozen=True, repr=False)
class PlanarShapes(Manifold):
    r"""Configurations of ``landmarks`` labelled points in the plane, up to translation, size and rotation.

    A point is a ``(landmarks, 2)`` array of coordinates with mean zero and Euclidean norm 1; turning it about the
    origin gives the same point, and :meth:`project` takes any raw configuration to its shape. As complex vectors these
    are the points of the complex projective space of complex dimension ``landmarks - 2``. Tangent vectors at ``z``
    have mean zero and are complex-orthogonal to ``z``, with the Euclidean inner product: distances run from 0 to
    ``pi/2`` (Fubini-Study, curvatures between 1 and 4). The origin is the regular polygon.

    >>> triangle = PlanarShapes(3)
    >>> flat = triangle.project([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    >>> round(triangle.dist(triangle.origin, flat), 12)
    0.785398163397
    """

    landmarks: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "landmarks", whole_number(self.landmarks, 3, "the number of landmarks of PlanarShapes"))

    @cached_property
    def roots(self) -> Roots:
        # one complex line, of curvature 4, and landmarks - 3 others, of curvature 1
        return Roots.of([[1], [2]], [2 * self.landmarks - 6, 1], sign=1, cut=Fraction(1, 4))

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.landmarks, 2)

    @property
    def origin(self) -> Array:
        return pairs_of_complex(self._modes()[:, 1])

    @property
    def embedding(self) -> Embedding:
        """The projectors ``z z*``. Noise along translations is left out before the nearest shape is taken."""
        centred = np.eye(self.landmarks) - 1.0 / self.landmarks

        def outer(vector: Array) -> Complex:
            return centred @ hermitian_from_vector(vector, self.landmarks) @ centred

        def turn(vector: Array, q: float) -> float:
            # the smallest eigenvalue is that of the translations, which are not part of the space
            values = np.linalg.eigvalsh(outer(vector) - 1e3 / self.landmarks)
            return turn_across_gap(float(values[-1] - values[-2]), q, 0.5)

        return Embedding(
            self.landmarks**2,
            math.sqrt(2.0),
            lambda points: vector_from_hermitian(_outer(complex_of_pairs(points))),
            lambda vector: self._configuration(outer(vector)),
            turn,
        )

    @property
    def layouts(self) -> tuple[Layout, ...]:
        places = range(self.landmarks)
        numbered = tuple(tuple((f"{axis}{i + first}",) for i in places for axis in "xy") for first in (1, 0))
        return (
            Layout("landmarks", 2 * self.landmarks, "x1, y1, x2, y2, ...", self._from_configurations, names=numbered,
                   size="2*landmarks", details="x1, y1, x2, y2, ... in any position and size"),
        )  # fmt: skip

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        return (percent_of_size(),)

    def _from_configurations(self, configurations: Array) -> Array:
        configurations = configurations.reshape(-1, *self.point_shape)
        moved = configurations - configurations[:, :1]
        size = np.abs(moved).max(axis=(-1, -2), keepdims=True)
        rounding = 8.0 * EPSILON * np.abs(configurations).max(axis=(-1, -2), keepdims=True)
        return self.raw_project(moved / np.where(size > rounding, size, np.nan))

    def raw_exp(self, p: Array, v: Array) -> Array:
        length = frobenius(v)[..., None, None]
        return np.cos(length) * p + sinc(length) * v

    def raw_log(self, p: Array, q: Array) -> Array:
        across, product = _across(p, q)
        cosine, sine = np.abs(product), frobenius(across)
        # rotate the residual so that q is aligned with p; if the product vanishes, the angle is arbitrary
        turn = np.conj(product) / np.where(cosine > 4e-16, cosine, np.nan)
        scale = np.arctan2(sine, cosine) / np.where(sine > 0.0, sine, 1.0)
        return pairs_of_complex((turn * scale)[..., None] * complex_of_pairs(across))

    def raw_dist(self, p: Array, q: Array) -> Array:
        across, product = _across(p, q)
        return np.arctan2(frobenius(across), np.abs(product))

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        # the polygon is the first Fourier mode and the constant the zeroth: the others span its horizontal space
        modes = coordinates[..., 0::2] + 1j * coordinates[..., 1::2]
        return self._turn(p, pairs_of_complex(modes @ self._modes()[:, 2:].T))

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        # einsum, because a product of matrices may round a row differently depending on its position
        modes = np.einsum("...i,ij->...j", complex_of_pairs(self._turn(p, v, inverse=True)), self._modes()[:, 2:].conj())
        return np.stack([modes.real, modes.imag], axis=-1).reshape(*modes.shape[:-1], self.dim)

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        origin = complex_of_pairs(self.origin)
        mirrored = complex_of_pairs(x) - 2.0 * origin * np.vecdot(origin, complex_of_pairs(x))[..., None]
        return self._turn(p, pairs_of_complex(mirrored))

    def _modes(self) -> Complex:
        index = np.arange(self.landmarks)
        turns = (index[:, None] * index[None, :]) % self.landmarks
        modes: Complex = np.exp(2j * np.pi * turns / self.landmarks) / math.sqrt(self.landmarks)
        return modes

    def _turn(self, p: Array, x: Array, inverse: bool = False) -> Array:
        """A unitary map of centred configurations that takes minus the polygon to ``p``, or its inverse, applied to ``x``.

        A complex Householder reflection times a phase, with the sign that keeps its axis away from zero. If ``p`` is the polygon,
        it fixes everything orthogonal to it, so that the frame there is the Fourier basis.
        """
        origin, target, moved = complex_of_pairs(self.origin), complex_of_pairs(p), complex_of_pairs(x)
        product = np.vecdot(origin, target)
        phase = np.where(product == 0.0, 1.0, product / np.where(product == 0.0, 1.0, np.abs(product)))[..., None]
        axis = target + phase * origin
        reflected = moved - axis * (2.0 * np.vecdot(axis, moved) / np.vecdot(axis, axis))[..., None]
        return pairs_of_complex((np.conj(phase) if inverse else phase) * reflected)

    def raw_project(self, x: Array) -> Array:
        centred = x - x.mean(axis=-2, keepdims=True)
        return centred / frobenius(centred)[..., None, None]

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        z, u = complex_of_pairs(p), complex_of_pairs(v - v.mean(axis=-2, keepdims=True))
        return pairs_of_complex(u - z * np.vecdot(z, u)[..., None])

    def log_rounding(self, p: Array, reach: float) -> float:
        if reach >= self.injectivity_radius:
            return math.inf
        return 4.0 * (self.landmarks + 8) * EPSILON / math.cos(reach)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        centre = np.linalg.vector_norm(x.mean(axis=-2), axis=-1)
        yield Requirement(centre <= TOLERANCE, centre, "the mean of the landmarks must be 0 but is {:.3g} away from it")
        norm = frobenius(x)
        yield Requirement(np.abs(norm - 1.0) <= TOLERANCE, norm, "the norm must be 1 but is {:.12g}")

    # ------------------------------------------------------------------ chart: the upper triangle of z z*
    # In Helmert's coordinates w of centred configurations shapes are lines of C^(landmarks - 1), and the isometry is that of
    # Grassmann with one column, over the complex numbers: w is turned until its product with the public vector is positive.

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        from flint import acb, arb, ctx

        from geodp.arithmetic.intervals import dot, norm, public_frame

        length = norm(v)
        scale = length.sinc()
        frame = public_frame(self.landmarks - 1, 1, ctx.prec)
        real = frame.place([length.cos(), *(scale * entry for entry in v[0::2])])
        imaginary = frame.place([arb(0), *(scale * entry for entry in v[1::2])])
        x = [acb(a, b) for a, b in zip(real, imaginary, strict=True)]
        w, start = _helmert(center), frame.vectors[0]
        product = acb(dot([a.real for a in w], start), dot([a.imag for a in w], start))
        turn = product.conjugate() / abs(product)
        axis = [turn * a + b for a, b in zip(w, start, strict=True)]
        square = sum((a.real * a.real + a.imag * a.imag for a in axis), arb(0))
        along = sum((a.conjugate() * b for a, b in zip(axis, x, strict=True)), acb(0)) * 2 / square
        z = _from_helmert([b - along * a for a, b in zip(axis, x, strict=True)])
        chart: list[arb] = []
        for i, a in enumerate(z):
            chart.append(a.real * a.real + a.imag * a.imag)
            for b in z[i + 1 :]:
                product = a * b.conjugate()
                chart += [product.real, product.imag]
        return chart

    def from_chart(self, x: Array) -> Array:
        outer = np.zeros((self.landmarks, self.landmarks), dtype=np.complex128)
        entries = iter(x)
        for i in range(self.landmarks):
            outer[i, i] = next(entries)
            for j in range(i + 1, self.landmarks):
                outer[i, j] = next(entries) + 1j * next(entries)
        return self._configuration(outer)

    def raw_representatives(self, points: Array) -> Array:
        outer = _outer(complex_of_pairs(points))
        return self._configuration(coarse(outer.real) + 1j * coarse(outer.imag))

    def _configuration(self, outer: NDArray[np.complex128]) -> Array:
        """Landmarks from the upper triangles of ``z z*``, turned so that the longest is on the positive real axis."""
        z = np.linalg.eigh(outer, UPLO="U")[1][..., -1]
        longest = np.take_along_axis(z, np.abs(z).argmax(axis=-1)[..., None], axis=-1)
        return self.raw_project(pairs_of_complex(z * (np.conj(longest) / np.abs(longest))))


def _helmert(center: Array) -> list[acb]:
    """The unit vector of a configuration."""
    from flint import acb, arb

    from geodp.arithmetic.intervals import enclosed_vector, norm

    parts = []
    entries = enclosed_vector(center.ravel())
    for axis in (entries[0::2], entries[1::2]):
        sums = accumulate(axis)
        parts.append(
            [(total - j * x) / arb(j * (j + 1)).sqrt() for j, (total, x) in enumerate(zip(sums, axis[1:], strict=False), 1)]
        )
    length = norm([*parts[0], *parts[1]])
    return [acb(a / length, b / length) for a, b in zip(*parts, strict=True)]


def _from_helmert(w: list[acb]) -> list[acb]:
    """The centred configuration with these coordinates."""
    from flint import acb, arb

    scaled = [entry / arb(j * (j + 1)).sqrt() for j, entry in enumerate(w, start=1)]
    tails = list(accumulate(reversed(scaled)))[::-1]
    later = [*tails[1:], acb(0)]
    return [tails[0], *(tail - j * entry for j, (tail, entry) in enumerate(zip(later, scaled, strict=True), start=1))]


def _outer(z: Complex) -> Complex:
    return z[..., :, None] * z[..., None, :].conj()


def _across(p: Array, q: Array) -> tuple[Array, Complex]:
    """The part of ``q`` complex-orthogonal to ``p``, and their complex product."""
    product = np.atleast_1d(np.vecdot(complex_of_pairs(p), complex_of_pairs(q))).reshape(
        np.broadcast_shapes(p.shape, q.shape)[:-2]
    )
    far = np.abs(product) < 0.01
    if far.any():
        # near the cut locus the phase of the product aligns the two shapes, so it needs relative accuracy
        base, end = (np.broadcast_to(x, (*product.shape, *x.shape[-2:]))[far] for x in (p, q))
        rows = base.reshape(-1, 1, 2 * base.shape[-2])
        turned = np.stack([end[..., 1], -end[..., 0]], axis=-1)  # -i times q
        columns = np.stack([end.reshape(-1, rows.shape[-1]), turned.reshape(-1, rows.shape[-1])], axis=-1)
        exact = -subtract_product(np.zeros((len(base), 1, 2)), rows, columns)[:, 0]
        product[far] = exact[:, 0] + 1j * exact[:, 1]
    multiplier = np.stack([product.real, product.imag, -product.imag, product.real], axis=-1)
    multiplier = multiplier.reshape(*product.shape, 2, 2)
    across = q - p @ multiplier
    near = np.abs(across).max(axis=(-1, -2)) < 0.01
    if near.any():
        base = np.broadcast_to(p, across.shape)[near]
        across[near] = subtract_product(np.broadcast_to(q, across.shape)[near], base, multiplier[near])
    # remove rounding errors along p and along the constants
    z, w = complex_of_pairs(p), complex_of_pairs(across - across.mean(axis=-2, keepdims=True))
    return pairs_of_complex(w - z * np.vecdot(z, w)[..., None]), product
