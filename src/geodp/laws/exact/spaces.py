r"""The manifolds of the library over exact real numbers.

A :class:`Space` says three things about its manifold. *How volume grows*: the density ``J`` of the exponential map
at a base point and a radial bound on it. *Where a draw lands*: the image of ``exp(v)`` under an isometry that takes
the base point to the centre. *How the landing point is written down*: a chart, that is a list of real coordinates
that depend on the point of the manifold alone, to be rounded, and the way back from rounded coordinates to floats.

The law of ``v`` is invariant under every isometry that fixes the base point. So the law of the image does not
depend on which isometry takes the base point to the centre, nor on which basis or rotation represents the centre,
as long as the choice is made without looking at the random bits and does not change with the precision. All choices
below (a sign, a pivot) are made from the floats of the centre, in exact rational arithmetic where ties can occur.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, singledispatch
from itertools import accumulate
from typing import NamedTuple, final

import numpy as np
from flint import acb, arb, arb_mat, fmpq, fmpq_mat
from numpy.typing import NDArray

from geodp.arithmetic.intervals import (
    Undecided,
    ball,
    cholesky,
    dot,
    eigenvalues,
    is_positive_definite,
    less,
    log_of_positive_definite,
    norm,
    rational,
    reflect,
    symmetric_ball,
)
from geodp.inputs import Array
from geodp.laws.exact.radius import Envelope, Factor
from geodp.manifolds import (
    SPD,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Manifold,
    PlanarShapes,
    Product,
    Rotations,
    SPDLogEuclidean,
    Sphere,
)


class Constants(NamedTuple):
    """What is known about a manifold without looking at any of its points.

    ``sign`` is 1 if the volume density is at most 1 (compact), -1 if it is at least 1 (non-compact), 0 if it is 1
    (flat). ``roots`` counts the positive roots ``alpha`` with multiplicity, and ``einstein`` is ``lambda`` in ``sum
    alpha(H)^2 = lambda |H|^2``.
    """

    dim: int
    #: Number of coordinates of the chart.
    chart: int
    sign: int = 0
    roots: int = 0
    einstein: Fraction = Fraction(0)
    #: ``(diameter / pi)^2``; None on unbounded manifolds.
    square_turns: Fraction | None = None
    #: Whether the volume density depends on the length of ``v`` only, so that the envelope *is* the density.
    radial: bool = True
    #: ``floor(log2)`` of the length that measures the coordinates of the chart; None if there is no such length.
    unit_exponent: int | None = 0
    #: Size of the arrays that the way back from the chart decomposes: bounds how errors of rounding add up.
    width: int = 1


class Space(ABC):
    """One manifold over exact real numbers; everything but ``center`` and ``v`` is public."""

    @property
    @abstractmethod
    def constants(self) -> Constants: ...

    @cached_property
    def envelope(self) -> Envelope:
        """Jensen's inequality over the roots; an equality where all roots agree."""
        about = self.constants
        bound = Factor(about.roots, about.einstein / about.roots, about.sign) if about.roots and about.einstein else None
        return Envelope(about.dim, (bound,) if bound else (), about.square_turns)

    def log_density(self, v: list[arb]) -> arb | None:
        """``log J(v)`` for coordinates in an orthonormal frame; None from the tangent cut locus on."""
        length = norm(v)
        end = self.envelope.diameter()
        if end is not None and not less(length, end):
            return None
        return self.envelope.log_value(length)

    @abstractmethod
    def land(self, center: Array, v: list[arb]) -> list[arb]:
        """The chart of the point where ``exp(v)`` lands when the base point is moved to ``center``."""

    @abstractmethod
    def finish(self, x: Array) -> Array:
        """A point of the manifold from rounded coordinates: never fails, and sees nothing else."""

    def representatives(self, points: Array) -> Array:
        """The same points, each as the array that :meth:`finish` would write it as, up to rounding; shape as given.

        Where a point has one array only, that is the array given. Elsewhere (bases of a subspace, rotations of a shape) the chart
        is rounded, so that the array given does not show.
        """
        return points


@lru_cache(maxsize=256)
def space_of(manifold: Manifold) -> Space:
    """The exact counterpart of a manifold, made once."""
    return exact_space(manifold)


@singledispatch
def exact_space(manifold: Manifold) -> Space:
    """The exact counterpart of a manifold. ``exact_space.register(YourManifold, YourSpace)`` adds one."""
    raise TypeError(f"there is no exact sampler for {manifold}: write a Space and register it with exact_space of {__name__}")


# ---------------------------------------------------------------------- vectors


@final
@dataclass(frozen=True)
class _Euclidean(Space):
    """Chart: the coordinates themselves."""

    manifold: Euclidean

    @cached_property
    def constants(self) -> Constants:
        return Constants(dim=self.manifold.d, chart=self.manifold.d, unit_exponent=None)

    def land(self, center: Array, v: list[arb]) -> list[arb]:
        return [arb(float(c)) + x for c, x in zip(center, v, strict=True)]

    def finish(self, x: Array) -> Array:
        return x


@final
@dataclass(frozen=True)
class _Sphere(Space):
    """Chart: the ambient coordinates. The centre is the direction of its floats."""

    manifold: Sphere

    @cached_property
    def constants(self) -> Constants:
        d, curvature = self.manifold.d, Fraction(self.manifold.constant)
        return Constants(
            dim=d,
            chart=d + 1,
            sign=1 if d > 1 else 0,
            roots=d - 1,
            einstein=(d - 1) * curvature,
            square_turns=1 / curvature,
            unit_exponent=math.frexp(self.manifold.radius)[1] - 1,
            width=d + 1,
        )

    def land(self, center: Array, v: list[arb]) -> list[arb]:
        rate = ball(Fraction(self.manifold.constant)).sqrt()
        angle = rate * norm(v)
        scale = angle.sinc()
        x = [*(scale * entry for entry in v), angle.cos() / rate]
        # plus or minus a reflection takes the north pole to the centre; the sign keeps its axis longer than sqrt(2)
        axis = [arb(float(c)) for c in center]
        length = norm(axis)
        axis = [c / length for c in axis]
        sign = -1 if center[-1] < 0.0 else 1
        axis[-1] += sign
        return [-sign * entry for entry in reflect(axis, x)]

    def finish(self, x: Array) -> Array:
        return self.manifold.raw_project(x)


@final
@dataclass(frozen=True)
class _Hyperbolic(Space):
    """Chart: the spatial coordinates. They do not shorten distances, so rounding them moves the point by no more."""

    manifold: Hyperbolic

    @cached_property
    def constants(self) -> Constants:
        d = self.manifold.d
        return Constants(dim=d, chart=d, sign=-1 if d > 1 else 0, roots=d - 1, einstein=Fraction(d - 1))

    def land(self, center: Array, v: list[arb]) -> list[arb]:
        length = norm(v)
        sinh, time = length.sinh_cosh()
        x = [sinh / length * entry for entry in v]
        boost = [arb(float(c)) for c in center[1:]]
        shift = time + dot(boost, x) / (1 + (1 + dot(boost, boost)).sqrt())
        return [entry + shift * b for entry, b in zip(x, boost, strict=True)]

    def finish(self, x: Array) -> Array:
        # beyond 2^500, a distance of 347 from the origin, the time coordinate would overflow: shorten, keep the direction
        largest = float(np.abs(x).max())
        x = x * (2.0**500 / largest) if largest > 2.0**500 else x
        return self.manifold.raw_project(np.concatenate([[0.0], x]))


# ---------------------------------------------------------------------- positive-definite matrices


def _symmetric_matrix(v: list[arb], size: int) -> arb_mat:
    """The symmetric matrix with these coordinates in the orthonormal basis of diagonal and scaled off-diagonal units."""
    half = arb((1, -1)).sqrt()
    matrix = arb_mat(size, size)
    entries = iter(v)
    for i in range(size):
        for j in range(i, size):
            entry = next(entries)
            matrix[i, j] = matrix[j, i] = entry if i == j else half * entry
    return matrix


def _definite(center: Array) -> arb_mat:
    """The symmetric part of the centre. It must be positive definite, or no precision would ever be enough."""
    matrix = symmetric_ball(center)
    try:
        cholesky(matrix)
    except Undecided:
        if not is_positive_definite(center):
            raise ValueError("the center is not positive definite") from None
        raise
    return matrix


@final
@dataclass(frozen=True)
class _SPD(Space):
    """Chart: the Cholesky factor ``C`` of the matrix, as ``log C_ii`` and ``C_ij / C_ii``, row by row.

    These coordinates are free and do not feel a change of units: scaling the variables moves the first by constants
    and leaves the second alone. Every rounded list is a positive-definite matrix. In floats its condition number
    may exceed what a Cholesky factorisation bears, for instance after a draw at distance 40; then the second kind
    are halved until it does not.
    """

    manifold: SPD

    @cached_property
    def constants(self) -> Constants:
        k, d = self.manifold.k, self.manifold.dim
        if k == 1:
            return Constants(dim=1, chart=1)
        return Constants(dim=d, chart=d, sign=-1, roots=d - k, einstein=Fraction(k, 4), radial=False)

    def log_density(self, v: list[arb]) -> arb | None:
        values = [real for real, _ in eigenvalues(_symmetric_matrix(v, self.manifold.k))]
        density = arb(1)
        for i, a in enumerate(values):
            for b in values[:i]:
                half = (a - b) / 2
                density *= half.sinh() / half
        return density.log()

    def land(self, center: Array, v: list[arb]) -> list[arb]:
        k = self.manifold.k
        near = cholesky(_definite(center))
        step = cholesky(_symmetric_matrix(v, k).exp())
        chart: list[arb] = []
        for i in range(k):
            row = [dot(near[i][j:], [step[m][j] for m in range(j, i + 1)]) for j in range(i + 1)]
            chart += [*(entry / row[i] for entry in row[:i]), row[i].log()]
        return chart

    def finish(self, x: Array) -> Array:
        k = self.manifold.k
        mixing = np.eye(k)
        mixing[np.tril_indices(k)] = x
        scales = np.exp(np.clip(np.diagonal(mixing), -340.0, 340.0))
        np.fill_diagonal(mixing, 1.0)
        below = np.tril(mixing, -1)
        while True:
            with np.errstate(all="ignore"):
                factor = scales[:, None] * (np.eye(k) + below)
                matrix = self.manifold.raw_project(factor @ factor.T)
            if self.manifold.valid(matrix):
                return matrix
            below *= 0.5


@final
@dataclass(frozen=True)
class _SPDLogEuclidean(Space):
    """Chart: the entries of the matrix logarithm on and above the diagonal.

    Every rounded list is a positive-definite matrix. If its condition number is too large for floats, the logarithm
    is shrunk towards its mean until it is not.
    """

    manifold: SPDLogEuclidean

    @cached_property
    def constants(self) -> Constants:
        return Constants(dim=self.manifold.dim, chart=self.manifold.dim)

    def land(self, center: Array, v: list[arb]) -> list[arb]:
        k = self.manifold.k
        log = log_of_positive_definite(_definite(center)) + _symmetric_matrix(v, k)
        return [log[i, j] for i in range(k) for j in range(i, k)]

    def finish(self, x: Array) -> Array:
        k = self.manifold.k
        log = np.zeros((k, k))
        log[np.triu_indices(k)] = np.clip(x, -1e6, 1e6)
        values, vectors = np.linalg.eigh(np.triu(log) + np.triu(log, 1).T)
        middle = float(np.clip(values.mean(), -600.0, 600.0))
        spread = values - values.mean()
        while True:
            with np.errstate(all="ignore"):
                factor = vectors * np.exp(0.5 * (middle + spread))
                matrix = self.manifold.raw_project(factor @ factor.T)
            if self.manifold.valid(matrix):
                return matrix
            spread *= 0.75


# ---------------------------------------------------------------------- orthogonal matrices and subspaces


@final
@dataclass(frozen=True)
class _Rotations(Space):
    """Chart: the entries of the matrix. The centre is what Gram and Schmidt make of the columns of its floats.

    (The polar factor would do as well; both are within the distance of the floats from the group, up to a factor.)
    """

    manifold: Rotations

    @cached_property
    def constants(self) -> Constants:
        n, d, rank = self.manifold.n, self.manifold.dim, self.manifold.rank
        return Constants(
            dim=d,
            chart=n * n,
            sign=1 if n > 2 else 0,
            roots=d - rank,
            einstein=Fraction(n - 2, 2),
            square_turns=Fraction(rank),
            radial=n <= 3,
            width=n,
        )

    def _skew_matrix(self, v: list[arb]) -> arb_mat:
        matrix = arb_mat(self.manifold.n, self.manifold.n)
        entries = iter(v)
        for i in range(self.manifold.n):
            for j in range(i):
                entry = next(entries)
                matrix[i, j], matrix[j, i] = entry, -entry
        return matrix

    def log_density(self, v: list[arb]) -> arb | None:
        if self.constants.radial:
            return super().log_density(v)
        angles = [imaginary for _, imaginary in eigenvalues(self._skew_matrix(v)) if imaginary > 0]
        if len(angles) != self.manifold.rank:
            raise Undecided
        if not all(less(angle, arb.pi()) for angle in angles):
            return None
        density = arb(1)
        for i, a in enumerate(angles):
            for b in angles[:i]:
                density *= ((a - b) / 2).sinc() * ((a + b) / 2).sinc()
            if self.manifold.n % 2:
                density *= (a / 2).sinc()
        return 2 * density.log()

    def land(self, center: Array, v: list[arb]) -> list[arb]:
        n = self.manifold.n
        columns: list[list[arb]] = []
        for j in range(n):
            column = [arb(float(entry)) for entry in center[:, j]]
            for earlier in columns:
                along = dot(earlier, column)
                column = [x - along * y for x, y in zip(column, earlier, strict=True)]
            length = norm(column)
            columns.append([entry / length for entry in column])
        return (arb_mat(columns).transpose() * self._skew_matrix(v).exp()).entries()

    def finish(self, x: Array) -> Array:
        return self.manifold.raw_project(x.reshape(self.manifold.point_shape))


@final
@dataclass(frozen=True)
class _Grassmann(Space):
    r"""Chart: the entries of the projector, on and above the diagonal. The centre is the span of the columns.

    *The isometry.* Let ``P`` be the projector onto the centre. Gram and Schmidt with pivots: ``j`` is the index of
    the largest diagonal entry of ``P``, ``q = P e_j / sqrt(P_jj)``, then ``P - q q'`` takes the place of ``P``, and
    so on ``p`` times. Entry ``j`` of ``q`` is ``sqrt(P_jj) > 0`` and the later ``q``'s vanish there. So the
    reflection with axis ``q_i + e_(j_i)`` takes ``e_(j_i)`` to ``-q_i``, its axis is longer than ``sqrt(2)``, and
    it fixes the axes ``e_(j_l)`` of the earlier steps and the vectors ``q_l`` of the later ones: the product of the
    reflections, the first one outermost, takes every ``e_(j_i)`` to ``-q_i``. The pivots are found over the
    rational numbers, so that the isometry is a function of the subspace, whatever its basis.
    """

    manifold: Grassmann

    @cached_property
    def constants(self) -> Constants:
        p, m, d = self.manifold.p, self.manifold.m, self.manifold.dim
        return Constants(
            dim=d,
            chart=m * (m + 1) // 2,
            sign=1 if m > 2 else 0,
            roots=d - p,
            einstein=Fraction(m - 2),
            square_turns=Fraction(p, 4),
            radial=p == 1,
            width=m,
        )

    def log_density(self, v: list[arb]) -> arb | None:
        if self.constants.radial:
            return super().log_density(v)
        p, m = self.manifold.p, self.manifold.m
        block = arb_mat(m - p, p, v)
        angles = [real.sqrt() for real, _ in eigenvalues(block.transpose() * block)]
        if not all(less(angle, arb.pi() / 2) for angle in angles):
            return None
        density = arb(1)
        for i, a in enumerate(angles):
            for b in angles[:i]:
                density *= (a - b).sinc() * (a + b).sinc()
            density *= a.sinc() ** (m - 2 * p)
        return density.log()

    def land(self, center: Array, v: list[arb]) -> list[arb]:
        p, m = self.manifold.p, self.manifold.m
        # exp(v) is the span of cos(sqrt W) on the base axes and B sinc(sqrt W) on the others, W = B'B, and
        # exp [[0, -W], [I, 0]] = [[cos sqrt W, *], [sinc sqrt W, *]]
        block = arb_mat(m - p, p, v)
        square = block.transpose() * block
        generator = arb_mat(2 * p, 2 * p)
        for i in range(p):
            generator[p + i, i] = 1
            for j in range(p):
                generator[i, p + j] = -square[i, j]
        turned = generator.exp()
        cosine = [[turned[i, j] for j in range(p)] for i in range(p)]
        across = (block * arb_mat([[turned[p + i, j] for j in range(p)] for i in range(p)])).tolist()
        pivots, basis = _pivoted_basis(center)
        others = [i for i in range(m) if i not in pivots]
        rows = dict(zip([*pivots, *others], [*cosine, *across], strict=True))
        columns = [[rows[i][j] for i in range(m)] for j in range(p)]
        for pivot, vector in reversed(list(zip(pivots, basis, strict=True))):
            axis = list(vector)
            axis[pivot] += 1
            columns = [reflect(axis, column) for column in columns]
        moved = arb_mat(columns)
        projector = (moved.transpose() * moved).tolist()
        return [entry for i, row in enumerate(projector) for entry in row[i:]]

    def finish(self, x: Array) -> Array:
        m = self.manifold.m
        projector = np.zeros((m, m))
        projector[np.triu_indices(m)] = x
        return self._basis(projector)

    def representatives(self, points: Array) -> Array:
        return self._basis(_rounded(points @ np.swapaxes(points, -1, -2)))

    def _basis(self, projectors: Array) -> Array:
        """Orthonormal bases of the spans, from the upper triangles of the projectors ``(..., m, m)``."""
        vectors = np.linalg.eigh(projectors, UPLO="U")[1][..., self.manifold.m - self.manifold.p :]
        longest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=-2)[..., None, :], axis=-2)
        return np.ascontiguousarray(vectors * np.sign(longest))


def _rounded(chart: Array) -> Array:
    """To multiples of ``2^-40``: far above the rounding of floats, which depends on the array a point was given as."""
    return np.ldexp(np.round(np.ldexp(chart, 40)), -40)


def _pivoted_basis(center: Array) -> tuple[list[int], list[list[arb]]]:
    """The pivots and the orthonormal basis of the span of the columns that :class:`_Grassmann` describes."""
    m, p = center.shape
    u = fmpq_mat(m, p, [rational(entry) for entry in center.ravel()])
    weighted = u * (u.transpose() * u).inv()
    diagonal = [sum((weighted[i, j] * u[i, j] for j in range(p)), fmpq(0)) for i in range(m)]
    pivots: list[int] = []
    columns: list[tuple[list[fmpq], fmpq]] = []
    for _ in range(p):
        pivot = max(range(m), key=lambda i: (diagonal[i], -i))
        column = [sum((weighted[i, j] * u[pivot, j] for j in range(p)), fmpq(0)) for i in range(m)]
        for earlier, square in columns:
            factor = earlier[pivot] / square
            column = [x - factor * y for x, y in zip(column, earlier, strict=True)]
        square = column[pivot]
        diagonal = [x - y * y / square for x, y in zip(diagonal, column, strict=True)]
        pivots.append(pivot)
        columns.append((column, square))
    return pivots, [[arb(x) / arb(square).sqrt() for x in column] for column, square in columns]


# ---------------------------------------------------------------------- shapes


@final
@dataclass(frozen=True)
class _PlanarShapes(Space):
    """Chart: the matrix ``z z*`` of the centred, normalised landmarks, on and above the diagonal.

    In Helmert's coordinates ``w`` of centred configurations shapes are lines of ``C^(landmarks - 1)``, and the
    isometry is that of :class:`_Grassmann` with one column, over the complex numbers: the pivot is the entry of
    largest modulus, and turned to be positive.
    """

    manifold: PlanarShapes

    @cached_property
    def constants(self) -> Constants:
        landmarks, d = self.manifold.landmarks, self.manifold.dim
        return Constants(
            dim=d,
            chart=landmarks**2,
            sign=1,
            roots=d - 1,
            einstein=Fraction(d + 2),
            square_turns=Fraction(1, 4),
            width=landmarks,
        )

    @cached_property
    def envelope(self) -> Envelope:
        """The density itself, ``sinc(s)^(d-2) sinc(2s)``."""
        d = self.constants.dim
        wide = (Factor(d - 2, Fraction(1), 1),) if d > 2 else ()
        return Envelope(d, (*wide, Factor(1, Fraction(4), 1)), self.constants.square_turns)

    def land(self, center: Array, v: list[arb]) -> list[arb]:
        length = norm(v)
        scale = length.sinc()
        pivot, target = _pivoted_helmert(center)
        x = [acb(scale * a, scale * b) for a, b in zip(v[0::2], v[1::2], strict=True)]
        x.insert(pivot, acb(length.cos()))
        axis = list(target)
        axis[pivot] += 1
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

    def finish(self, x: Array) -> Array:
        landmarks = self.manifold.landmarks
        outer = np.zeros((landmarks, landmarks), dtype=np.complex128)
        entries = iter(x)
        for i in range(landmarks):
            outer[i, i] = next(entries)
            for j in range(i + 1, landmarks):
                outer[i, j] = next(entries) + 1j * next(entries)
        return self._configuration(outer)

    def representatives(self, points: Array) -> Array:
        z = points[..., 0] + 1j * points[..., 1]
        outer = z[..., :, None] * z[..., None, :].conj()
        return self._configuration(_rounded(outer.real) + 1j * _rounded(outer.imag))

    def _configuration(self, outer: NDArray[np.complex128]) -> Array:
        """Landmarks whose longest one is on the positive real axis, from the upper triangles of ``z z*``."""
        z = np.linalg.eigh(outer, UPLO="U")[1][..., -1]
        longest = np.take_along_axis(z, np.abs(z).argmax(axis=-1)[..., None], axis=-1)
        z = z * (np.conj(longest) / np.abs(longest))
        return self.manifold.raw_project(np.stack([z.real, z.imag], axis=-1))


def _pivoted_helmert(center: Array) -> tuple[int, list[acb]]:
    """The entry of largest modulus of the unit vector ``w``, and ``w`` turned so that this entry is positive."""
    parts = []
    for axis in range(2):
        entries = [rational(entry) for entry in center[:, axis]]
        sums = list(accumulate(entries))
        parts.append([sums[j - 1] - j * entries[j] for j in range(1, len(entries))])
    # entry j of w is (real + i imaginary) / sqrt(j (j + 1)), counted from 1
    squares = [(a * a + b * b) / (j * (j + 1)) for j, (a, b) in enumerate(zip(*parts, strict=True), start=1)]
    pivot = max(range(len(squares)), key=lambda i: (squares[i], -i))
    length = arb(sum(squares, fmpq(0))).sqrt()
    w = [acb(arb(a), arb(b)) / (arb(j * (j + 1)).sqrt() * length) for j, (a, b) in enumerate(zip(*parts, strict=True), start=1)]
    turn = w[pivot].conjugate() / (arb(squares[pivot]).sqrt() / length)
    return pivot, [entry * turn for entry in w]


def _from_helmert(w: list[acb]) -> list[acb]:
    """The centred configuration with these coordinates."""
    scaled = [entry / arb(j * (j + 1)).sqrt() for j, entry in enumerate(w, start=1)]
    tails = list(accumulate(reversed(scaled)))[::-1]
    later = [*tails[1:], acb(0)]
    return [tails[0], *(tail - j * entry for j, (tail, entry) in enumerate(zip(later, scaled, strict=True), start=1))]


# ---------------------------------------------------------------------- products


@final
@dataclass(frozen=True)
class _Product(Space):
    """One radius and one direction for all factors together, since distances add up in squares; charts end to end.

    Jensen's inequality runs over the roots of all factors. With a non-compact factor the compact ones are bounded
    by 1 and the largest Einstein constant serves for all; otherwise the smallest one does, which is 0 if a factor
    is flat.
    """

    manifold: Product
    factors: tuple[Space, ...]

    @cached_property
    def constants(self) -> Constants:
        each = [factor.constants for factor in self.factors]
        growing = [about for about in each if about.sign < 0]
        turns = [about.square_turns for about in each if about.square_turns is not None]
        return Constants(
            dim=sum(about.dim for about in each),
            chart=sum(about.chart for about in each),
            sign=-1 if growing else min(about.sign for about in each),
            roots=sum(about.roots for about in growing or each),
            einstein=max(about.einstein for about in growing) if growing else min(about.einstein for about in each),
            square_turns=sum(turns, Fraction(0)) if len(turns) == len(each) else None,
            radial=False,
            unit_exponent=min((about.unit_exponent for about in each if about.unit_exponent is not None), default=None),
            width=max(about.width for about in each),
        )

    def _parts(self, v: list[arb]) -> list[list[arb]]:
        ends = list(accumulate(factor.constants.dim for factor in self.factors))
        return [v[end - factor.constants.dim : end] for factor, end in zip(self.factors, ends, strict=True)]

    def log_density(self, v: list[arb]) -> arb | None:
        total = arb(0)
        for factor, part in zip(self.factors, self._parts(v), strict=True):
            density = factor.log_density(part)
            if density is None:
                return None
            total += density
        return total

    def land(self, center: Array, v: list[arb]) -> list[arb]:
        chart: list[arb] = []
        start = 0
        for factor, manifold, part in zip(self.factors, self.manifold.factors, self._parts(v), strict=True):
            end = start + math.prod(manifold.point_shape)
            chart += factor.land(center[start:end].reshape(manifold.point_shape), part)
            start = end
        return chart

    def finish(self, x: Array) -> Array:
        ends = np.cumsum([factor.constants.chart for factor in self.factors])[:-1]
        parts = zip(self.factors, np.split(x, ends), strict=True)
        return np.concatenate([factor.finish(part).ravel() for factor, part in parts])

    def representatives(self, points: Array) -> Array:
        leading = points.shape[:-1]
        parts = zip(self.factors, self.manifold.raw_split(points), strict=True)
        return np.concatenate([factor.representatives(part).reshape(*leading, -1) for factor, part in parts], axis=-1)


exact_space.register(Euclidean, _Euclidean)
exact_space.register(Sphere, _Sphere)
exact_space.register(Hyperbolic, _Hyperbolic)
exact_space.register(SPD, _SPD)
exact_space.register(SPDLogEuclidean, _SPDLogEuclidean)
exact_space.register(Grassmann, _Grassmann)
exact_space.register(Rotations, _Rotations)
exact_space.register(PlanarShapes, _PlanarShapes)
exact_space.register(Product, lambda product: _Product(product, tuple(space_of(factor) for factor in product.factors)))
