r"""The roots of a symmetric space, and the quantities that follow from them.

An isometry that fixes a point of a symmetric space takes every tangent vector ``v`` there into one maximal flat; its
coordinates ``H`` in that flat are the *radial part* of ``v``: eigenvalues, principal angles, rotation angles. Curvature acts
on the rest of the tangent space through linear forms on the flat, the positive *roots* ``alpha``, each with a multiplicity
``m`` and a sign, 1 in compact and -1 in non-compact factors (Helgason, *Differential Geometry, Lie Groups, and Symmetric
Spaces*, chapters V and VII). With ``sn(x) = sin(x)/x`` for the sign 1 and ``sinh(x)/x`` for the sign -1:

- the dimension is that of the flat (the *rank*) plus the sum of the multiplicities;
- the volume density of ``exp`` is ``J(v) = prod sn(alpha(H))^m``;
- the plane of ``X`` in the flat and a unit vector with components ``Y_alpha`` in the root spaces has curvature
  ``sum +-alpha(X)^2 |Y_alpha|^2``, and every plane can be turned so that it has an ``X`` there: the extreme curvatures are
  ``+-max |alpha|^2``;
- volume grows like ``exp(h s)`` with ``h = |sum m alpha|``, the sum over the roots of sign -1: ``prod sinh(alpha(H))^m`` grows
  like that along the sum, and no faster along any other direction;
- ``log sn(sqrt(x))`` is concave in ``x`` for either sign, so Jensen's inequality bounds ``J`` by a function of ``|v|``
  (:attr:`Roots.volume_bound`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodp.inputs import Array
from geodp.manifolds.functions import log_sinc, log_sinhc

if TYPE_CHECKING:
    from flint import arb

Integers = NDArray[np.int64]


class Factor(NamedTuple):
    """``sn(sqrt(square_rate) * s)^power``, with the ``sn`` of this ``sign``."""

    power: int
    square_rate: Fraction
    sign: int


@final
@dataclass(frozen=True)
class VolumeBound:
    """A radial upper bound on the volume density of ``exp``: ``log J(v) <= log_value(|v|)``.

    It is the smaller of the product of its ``factors`` and ``exp(growth * |v|)``, which makes it integrable against every
    Laplace law that exists. Times ``s^(dim-1)`` each of the two is log-concave, and so is the smaller of them.

    >>> from geodp import SPD
    >>> SPD(2).volume_bound
    VolumeBound(factors=(Factor(power=1, square_rate=Fraction(1, 2), sign=-1),), growth=0.7071067811865476)
    """

    factors: tuple[Factor, ...]
    growth: float

    def log_value(self, radius: ArrayLike) -> Array:
        s = np.asarray(radius, dtype=np.float64)
        total = np.zeros_like(s)
        for power, square_rate, sign in self.factors:
            total = total + power * _LOG_SN[sign](math.sqrt(square_rate) * s)
        return np.minimum(total, self.growth * s) if self.growth else total

    @property
    def square_growth(self) -> Fraction:
        """The square of ``lim log(product of the factors)/s``: exact for rates with a rational ratio, else rounded up."""
        growing = [(power, rate) for power, rate, sign in self.factors if sign < 0]
        return sum((n * m * _root_rounded_up(a * b) for n, a in growing for m, b in growing), Fraction(0))


def _root_rounded_up(square: Fraction) -> Fraction:
    product, shift = square.numerator * square.denominator, 64
    root = math.isqrt(product)
    if root * root == product:
        return Fraction(root, square.denominator)
    return Fraction(math.isqrt(product << 2 * shift) + 1, square.denominator << shift)


_LOG_SN = {1: log_sinc, -1: log_sinhc}


@final
@dataclass(frozen=True, eq=False, repr=False)
class Roots:
    """The positive roots of a symmetric space, in orthonormal coordinates of a maximal flat.

    Root ``j`` is ``sqrt(squares[j]) * forms[j] . H``. ``forms`` are whole numbers, so everything that follows is exact.
    ``cuts`` gives the cut locus: the geodesic of ``H`` is shortest as long as ``|H_i| < pi sqrt(cuts[i])`` for every
    ``i``; None means no limit.

    >>> triangles = Roots.of([[2]], [1], sign=1, cut=Fraction(1, 4))  # a sphere of curvature 4
    >>> triangles.dim, triangles.curvature, triangles.diameter
    (2, 4.0, 1.5707963267948966)
    """

    forms: Integers
    multiplicities: Integers
    squares: tuple[Fraction, ...]
    signs: Integers
    cuts: tuple[Fraction | None, ...]

    def __post_init__(self) -> None:
        if not (self.multiplicities > 0).all() or not (np.abs(self.signs) == 1).all():
            raise ValueError("the multiplicities of roots must be positive and their signs 1 or -1")
        if len(self.multiplicities) and not (self.rates @ (self.multiplicities @ self.rates) > 0.0).all():
            raise ValueError("the roots are not the positive ones of a root system: some make an obtuse angle with their sum")

    @classmethod
    def of(
        cls,
        forms: ArrayLike,
        multiplicities: Sequence[int],
        *,
        sign: int,
        square: Fraction = Fraction(1),
        cut: Fraction | None = None,
    ) -> Roots:
        """Roots of one length scale and one sign; those of multiplicity 0 are left out."""
        rows, counts = np.atleast_2d(np.asarray(forms, dtype=np.int64)), np.asarray(multiplicities, dtype=np.int64)
        used = counts != 0
        signs = np.full(used.sum(), sign, dtype=np.int64)
        return cls(rows[used], counts[used], (square,) * len(signs), signs, (cut,) * rows.shape[1])

    @classmethod
    def flat(cls, rank: int, cut: Fraction | None = None) -> Roots:
        """No roots: a Euclidean space, or a torus."""
        return cls.of(np.zeros((0, rank)), [], sign=1, cut=cut)

    @classmethod
    def direct_sum(cls, parts: Sequence[Roots]) -> Roots:
        """The roots of a product."""
        forms = np.zeros((sum(len(part.forms) for part in parts), sum(part.rank for part in parts)), dtype=np.int64)
        row = column = 0
        for part in parts:
            forms[row : row + len(part.forms), column : column + part.rank] = part.forms
            row, column = row + len(part.forms), column + part.rank
        multiplicities, signs = (np.concatenate([getattr(part, name) for part in parts]) for name in ("multiplicities", "signs"))
        return cls(forms, multiplicities, sum((p.squares for p in parts), ()), signs, sum((p.cuts for p in parts), ()))

    def blocks(self) -> list[Roots]:
        """The smallest parts whose direct sum this is, each in its own coordinates.

        Coordinates without roots or limits, a Euclidean factor, make one part together.
        """
        involved = (self.forms != 0).astype(np.float64)
        linked = (involved.T @ involved > 0.0) | np.eye(self.rank, dtype=np.bool_)
        free = ~involved.any(axis=0) & np.isinf(self.limits)
        linked |= free[:, None] & free[None, :]
        for _ in range(self.rank.bit_length()):  # paths of length 1, 2, 4, ...
            linked = linked.astype(np.float64) @ linked > 0.0
        return [self._restricted(linked[i]) for i in range(self.rank) if linked[i].argmax() == i]

    def _restricted(self, coordinates: NDArray[np.bool_]) -> Roots:
        used = np.asarray(self.forms[:, coordinates].any(axis=1))
        squares = tuple(square for square, use in zip(self.squares, used, strict=True) if use)
        cuts = tuple(cut for cut, use in zip(self.cuts, coordinates, strict=True) if use)
        return Roots(self.forms[used][:, coordinates], self.multiplicities[used], squares, self.signs[used], cuts)

    @property
    def rank(self) -> int:
        return len(self.cuts)

    @cached_property
    def dim(self) -> int:
        return self.rank + int(self.multiplicities.sum())

    @cached_property
    def rates(self) -> Array:
        """The roots as rows of floats."""
        return np.sqrt(np.array(self.squares, dtype=np.float64))[:, None] * self.forms

    # ------------------------------------------------------------------ curvature and the cut locus

    @cached_property
    def curvature(self) -> float:
        """The least non-negative upper bound on the sectional curvatures."""
        return float(max(self._square_lengths(1), default=Fraction(0)))

    @cached_property
    def lowest_curvature(self) -> float:
        """The greatest non-positive lower bound on the sectional curvatures."""
        return float(min((-length for length in self._square_lengths(-1)), default=Fraction(0)))

    def _square_lengths(self, sign: int) -> list[Fraction]:
        lengths = (self.forms**2).sum(axis=1).tolist()
        return [s * n for s, n, kind in zip(self.squares, lengths, self.signs, strict=True) if kind == sign]

    @cached_property
    def limits(self) -> Array:
        """``pi sqrt(cuts)``, infinite if there is no limit."""
        return np.array([math.inf if cut is None else math.pi * math.sqrt(cut) for cut in self.cuts])

    @cached_property
    def square_diameter(self) -> Fraction | None:
        """``(diameter / pi)^2``; None if there is no diameter."""
        known = [cut for cut in self.cuts if cut is not None]
        return sum(known, Fraction(0)) if len(known) == self.rank else None

    @property
    def diameter(self) -> float:
        return math.inf if self.square_diameter is None else math.pi * math.sqrt(self.square_diameter)

    # ------------------------------------------------------------------ volume

    @property
    def isotropic(self) -> bool:
        """Whether all directions are alike, so that ``J`` and the cut locus depend only on ``|v|``.

        This holds in rank one, where ``H`` is ``|v|`` up to its sign, and in Euclidean spaces.
        """
        return self.rank == 1 or not (len(self.forms) or np.isfinite(self.limits).any())

    def log_density(self, radial: Array) -> Array:
        """``log J`` from radial parts, shape ``(..., rank)``; minus infinity at and beyond conjugate points."""
        return self.log_product(radial @ self.rates.T)

    def log_product(self, values: Array) -> Array:
        """``log J`` from the values of the roots, shape ``(..., roots)``."""
        total = np.zeros(values.shape[:-1])
        for sign, log_sn in _LOG_SN.items():
            chosen = self.signs == sign
            if chosen.any():
                total = total + log_sn(values[..., chosen]) @ self.multiplicities[chosen].astype(np.float64)
        return total

    def mean_hessian(self, radial: Array) -> Array:
        """The mean over all directions of the Hessian of half the squared distance, from radial parts ``(..., rank)``.

        It is 1 on the flat, and ``t cot t`` (sign 1) or ``t coth t`` on the space of the root with the value ``t``.
        """
        values = np.maximum(np.abs(radial @ self.rates.T), 1e-8)
        factors = values / np.where(self.signs > 0, np.tan(values), np.tanh(values))
        return (self.rank + factors @ self.multiplicities.astype(np.float64)) / self.dim

    def exact_log_density(self, radial: Sequence[arb]) -> arb | None:
        """``log J`` for real numbers in intervals; None at and beyond the cut locus."""
        from flint import arb

        from geodp.arithmetic.intervals import less, square_root

        for h, cut in zip(radial, self.cuts, strict=True):
            if cut is not None and not less(abs(h), arb.pi() * square_root(cut)):
                return None
        scales, density = [square_root(square) for square in self._sparse[0]], arb(1)
        for form, multiplicity, scale, sign in self._sparse[1]:
            x = scales[scale] * sum((n * radial[i] for i, n in form), arb(0))
            sn = x.sinc() if sign > 0 else x.sinh() / x
            density *= sn if multiplicity == 1 else sn**multiplicity
        return density.log()

    def exact_least_log_density(self, radius: arb) -> arb | None:
        """A lower bound on ``log J`` in all directions at this distance; None if the cut locus may be there.

        ``|alpha(H)| <= |alpha| |H|``, ``sinh(x)/x >= 1``, and ``sin(x)/x`` falls up to pi.
        """
        from flint import arb

        from geodp.arithmetic.intervals import square_root

        nearest_cut, factors = self._worst
        if nearest_cut is not None and not radius < arb.pi() * square_root(nearest_cut):
            return None
        least = arb(0)
        for square, multiplicity in factors:
            x = square_root(square) * radius
            if not x < arb.pi():
                return None
            least += multiplicity * x.sinc().log()
        return least

    @cached_property
    def _worst(self) -> tuple[Fraction | None, list[tuple[Fraction, int]]]:
        """The smallest cut; and for the roots of sign 1, the squares of their lengths and their multiplicities."""
        lengths = (self.forms**2).sum(axis=1).tolist()
        found: dict[Fraction, int] = {}
        for square, length, multiplicity, sign in zip(
            self.squares, lengths, self.multiplicities.tolist(), self.signs.tolist(), strict=True
        ):
            if sign > 0:
                found[square * length] = found.get(square * length, 0) + multiplicity
        return min((cut for cut in self.cuts if cut is not None), default=None), list(found.items())

    @cached_property
    def _sparse(self) -> tuple[list[Fraction], list[tuple[list[tuple[int, int]], int, int, int]]]:
        """The squares; and for each root its form (pairs of coordinate and factor), multiplicity, index of its square, sign."""
        squares = sorted(set(self.squares))
        forms = [[(i, n) for i, n in enumerate(row) if n] for row in self.forms.tolist()]
        which = [squares.index(square) for square in self.squares]
        return squares, list(zip(forms, self.multiplicities.tolist(), which, self.signs.tolist(), strict=True))

    @cached_property
    def volume_entropy(self) -> float:
        """``lim log(volume of a ball of radius R) / R``."""
        growing = self.signs < 0
        return float(np.linalg.vector_norm(self.multiplicities[growing] @ self.rates[growing]))

    @cached_property
    def volume_bound(self) -> VolumeBound:
        r"""The density itself in rank one; Jensen's inequality over the roots in higher rank.

        ``sum m alpha(H)^2`` is ``lambda |H|^2`` on the span of an irreducible component of the roots (Schur's lemma: the Weyl
        group acts irreducibly there). If there are ``N`` roots in all and the mean square is at most (sign -1) or at least (sign
        1) ``lambda |H|^2 / N``, then ``J(v) <= sn(sqrt(lambda/N) |v|)^N``. If there are also roots of sign -1, those of sign 1
        are bounded by 1.
        """
        growing = self.signs < 0
        if self.rank == 1:
            rows = zip(self.multiplicities.tolist(), self.forms[:, 0].tolist(), self.squares, self.signs.tolist(), strict=True)
            return VolumeBound(tuple(Factor(m, s * n * n, sign) for m, n, s, sign in rows), self.volume_entropy)
        if growing.any():
            constant, power, sign = max(self._einstein_constants(growing)), int(self.multiplicities[growing].sum()), -1
        else:
            constant, power, sign = min(self._einstein_constants(~growing)), int(self.multiplicities.sum()), 1
        factors = (Factor(power, constant / power, sign),) if constant else ()
        return VolumeBound(factors, self.volume_entropy)

    def _einstein_constants(self, chosen: NDArray[np.bool_]) -> list[Fraction]:
        """``lambda`` for each irreducible component of the chosen roots, and also 0 if they do not span the flat."""
        left, constants, spanned = list(np.flatnonzero(chosen)), [], 0
        while left:
            component, rest = self._split_off_component(left)
            forms = self.forms[component].astype(np.float64)
            rank = int(np.linalg.matrix_rank(forms.T @ forms))
            squares = (self.forms[component] ** 2).sum(axis=1).tolist()
            terms = (int(self.multiplicities[i]) * self.squares[i] * n for i, n in zip(component, squares, strict=True))
            constants.append(sum(terms, Fraction(0)) / rank)
            left, spanned = rest, spanned + rank
        return [*constants, Fraction(0)] if spanned < self.rank else constants

    def _split_off_component(self, roots: list[np.intp]) -> tuple[list[np.intp], list[np.intp]]:
        """The roots linked to the first by a chain of non-orthogonal roots, and the others."""
        forms = self.forms[roots].astype(np.float64)
        linked = np.arange(len(roots)) == 0
        frontier = linked
        while frontier.any():
            frontier = (forms[frontier] @ forms.T != 0.0).any(axis=0) & ~linked
            linked = linked | frontier
        inside = [root for root, link in zip(roots, linked, strict=True) if link]
        return inside, [root for root, link in zip(roots, linked, strict=True) if not link]


def differences(rank: int) -> Integers:
    """``H_i - H_j`` for ``i < j``, as rows."""
    i, j = np.triu_indices(rank, 1)
    unit = np.eye(rank, dtype=np.int64)
    return unit[i] - unit[j]


def sums(rank: int) -> Integers:
    """``H_i + H_j`` for ``i < j``, as rows."""
    return np.abs(differences(rank))
