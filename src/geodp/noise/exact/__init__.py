r"""Draws from the Laplace and the Gaussian law as a program over exact real numbers.

**Claim.** Let ``y`` be a draw from the law with density proportional to ``exp(-dist(eta, y)/sigma)`` on the
manifold, ``eta`` the exact point that the floats of the centre define. What :func:`sample` returns is a function of
``round(chart(y))``, where ``chart`` writes a point of the manifold as a list of real coordinates and ``round``
takes each to the nearest multiple of a power of two. The chart, the grid and the function are fixed by public
parameters. The distribution of the output is *exactly* that, not approximately. So whatever differential privacy
the ideal law has (``epsilon = Delta/sigma`` for two centres at a distance of at most ``Delta``), the output has by
post-processing, with no term for floating point.

**Proof.** *The ideal algorithm* is rejection sampling over real numbers. A trial draws independent uniform numbers,
each the binary fraction of an infinite string of fair bits. From them it makes a radius ``s`` with density proportional to
``g(s) s^(d-1) G(s)`` (:mod:`~geodp.noise.exact.radius`), a direction uniform on the unit sphere of an orthonormal
frame (a normalised vector of Box and Muller's normal variables), and their product ``v``. It accepts ``v``
with probability ``J(v)/G(s)``, which is at most 1 by Jensen's inequality, and never beyond the tangent cut locus. That is, it
accepts if ``u < J(v)/G(s)`` for one more uniform number ``u``; if ``u G(s)`` is below the least ``J`` at this radius, the answer
is known without ``J(v)``. Accepted ``v`` have density proportional to ``g(|v|) J(v)`` inside the cut locus, and ``J`` is the
density of Riemannian volume, so ``exp(v)`` has the law at the base point, and its image under an isometry has the law at ``eta``
(:meth:`~geodp.Manifold.exact_chart`).

*The program* evaluates the same formulas in balls. Every ball contains the true real number, because it is computed from
the intervals given by the bits revealed so far, by operations that enclose their results.
A comparison is answered only if it has the same answer throughout the ball, and a coordinate is rounded only if all
of the ball rounds to one multiple; otherwise the trial starts again with twice the precision and the same bits
followed by new ones. So every answer given is the answer of the ideal algorithm on the infinite strings, whatever
precision happened to produce it. The isometry and the roof of the radial sampler are the same real objects at every
precision.

*It ends.* A trial stays undecided at every precision only if a comparison is an equality or a coordinate lies exactly
on a boundary between two multiples (or two eigenvalues coincide). Each is the zero of an analytic function that is
not constant, in variables with a density, and so has probability zero. For this reason coordinates are rounded before
anything else happens to them: a draw that was first projected to a ball would lie on its boundary with positive
probability, and rounding might never end. There is no largest precision and no fallback; either would be a
``delta``.

**What is not claimed.** The bits come from the operating system's generator, so "independent and fair"
holds for everyone who cannot break it. The number of trials is independent of the centre: the accept and reject
decisions never see it. It is not proved that the *time* of a draw is independent of the centre. A draw takes the same steps for
every centre, with numbers of the same length (``enclosed`` of ``geodp.arithmetic.intervals``); the tests count them. But a
coordinate that needs a repetition lies near a boundary. At the starting precision that is an event of probability about
``2^-80``, for every centre of a condition number that floats can hold. In Euclidean space the spare bits cover centres up to
about ``2^80`` times the scale. In a flat chart the exact centre is the point with the coordinates that floats compute for it, and
noise is added to these; the tolerance of a statistic covers the difference.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from geodp.arithmetic.entropy import Entropy, NotPrivate, OperatingSystem, Tape
from geodp.arithmetic.intervals import Undecided, coarsely, less, nearest, norm, working_precision
from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.noise.exact.radius import RARE, RadialLaw, usual_bits
from geodp.noise.flat import Family

__all__ = [
    "Entropy",
    "ExactDraw",
    "NotPrivate",
    "OperatingSystem",
    "default_grid_exponent",
    "sample",
    "starting_precision",
]

#: The grid is this many bits finer than the noise, unless floats cannot hold that.
_GRID_BITS = 40
_FLOAT_BITS = 52
#: Bits that rounding takes from the result of a draw, whatever its radius: 8 to 20 of them on matrices of moderate size.
_SPARE_BITS = 32
#: A release that would take many more trials than this is refused.
MOST_TRIALS = 2000


class ExactDraw(NamedTuple):
    """One draw.

    ``value`` is the point to release, a function of ``steps`` and public parameters. ``steps`` are the coordinates
    of the chart in units of ``grid``. ``trials`` depends only on public parameters and the random bits.
    ``precision``, the number of bits that were finally enough, is for tests: it may depend on the centre and
    must not be released.
    """

    value: Array
    steps: tuple[int, ...]
    grid: float
    trials: int
    precision: int


def sample(
    manifold: Manifold,
    sigma: float,
    center: ArrayLike,
    *,
    family: Family = "laplace",
    entropy: Entropy | None = None,
    grid_exponent: int | None = None,
    precision: int | None = None,
) -> ExactDraw:
    """One draw from the law of scale ``sigma`` around ``center``, rounded to multiples of ``2^grid_exponent``.

    ``sigma`` is the exact value of the float. ``grid_exponent`` must be public; the default is
    :func:`default_grid_exponent`. ``precision`` raises the number of bits to start with, which changes only the time.

    >>> from geodp import Sphere
    >>> draw = sample(Sphere(2), 0.1, [0.0, 0.0, 1.0])
    >>> Sphere(2).check_point(draw.value)
    >>> again = [sample(Sphere(2), 0.1, [0.0, 0.0, 1.0], entropy=NotPrivate(7)).steps for _ in range(2)]
    >>> again[0] == again[1]
    True
    """
    setting = _setting(manifold, float(sigma), family, grid_exponent)
    point = np.asarray(center, dtype=np.float64)
    # the message must not reveal anything about the center, not even which entry is wrong
    if point.shape != manifold.point_shape:
        raise ValueError(f"center has shape {point.shape}, but points of {manifold} have shape {manifold.point_shape}")
    if not manifold.valid(point):
        raise ValueError(f"center is not a point of {manifold}")
    source = OperatingSystem() if entropy is None else entropy
    start = max(setting.precision, precision or 0)
    trials = 0
    while True:
        trials += 1
        steps, used = _trial(setting, point, Tape(source), start)
        if steps is not None:
            rounded = np.array([_to_float(step, setting.exponent) for step in steps])
            return ExactDraw(manifold.from_chart(rounded), steps, math.ldexp(1.0, setting.exponent), trials, used)


def default_grid_exponent(manifold: Manifold, sigma: float) -> int:
    """The exponent of the grid: 40 bits below the noise or the size of the manifold, whichever is smaller.

    It is never more than 52 bits below the size of the manifold (the radius of a sphere; 1 for matrices, subspaces,
    shapes and hyperbolic space), because floats could not hold the result. Euclidean space has no such size. There a
    grid finer than the spacing of floats does no harm, since the nearest float is a function of the rounded number.

    >>> from geodp import Sphere
    >>> default_grid_exponent(Sphere(2), 0.25), default_grid_exponent(Sphere(2), 1e-12), default_grid_exponent(Sphere(2), 8.0)
    (-42, -52, -40)
    """
    noise = math.frexp(sigma)[1] - 1
    return min(
        noise - _GRID_BITS if unit is None else max(min(noise, unit) - _GRID_BITS, unit - _FLOAT_BITS)
        for unit in manifold.chart_units
    )


def largest_scale(manifold: Manifold, family: Family = "laplace") -> float:
    """A law of this scale or more cannot be drawn.

    Nearly all draws would overflow, or the envelope of the Laplace law has infinite mass.
    """
    _require_chart(manifold)
    growth = manifold.volume_bound.square_growth if family == "laplace" else 0
    return min(manifold.chart_limit, 1.0 / math.sqrt(growth) if growth else math.inf)


def _require_chart(manifold: Manifold) -> None:
    for component in manifold.components:
        if component is not manifold:
            _require_chart(component)
        elif type(component).exact_chart is Manifold.exact_chart:
            raise TypeError(f"there is no exact sampler for {component}: write its methods exact_chart and from_chart")


@lru_cache(maxsize=256)
def is_drawable(manifold: Manifold, sigma: float, family: Family = "laplace") -> bool:
    """Whether a rehearsal with fixed bits accepts one of its first trials, and (one may be luck) three of four times as many.

    There are :data:`MOST_TRIALS` first trials, or fewer if each is long. Acceptance depends only on public parameters and bits,
    so this does too. If the envelope ignores the cut locus, for example on products of a wide and a narrow space, the acceptance
    probability falls with a power of the scale, and near :func:`largest_scale` exponentially with the dimension. A draw would
    then never end.
    """
    if manifold.dim * sigma < 0.25 * min(manifold.injectivity_radius, largest_scale(manifold, family)):
        return True
    setting, source = _setting(manifold, float(sigma), family, None), NotPrivate(0)
    most = max(MOST_TRIALS // 32, MOST_TRIALS * 6 // max(manifold.dim, 6))
    accepted = 0
    for trial in range(4 * most):
        if trial == most and accepted == 0:
            return False
        accepted += _trial(setting, None, Tape(source), setting.precision)[0] is not None
        if accepted == 3:
            return True
    return False


def starting_precision(manifold: Manifold, sigma: float, family: Family = "laplace", grid_exponent: int | None = None) -> int:
    """The number of bits a draw starts with, a function of public parameters."""
    return _setting(manifold, float(sigma), family, grid_exponent).precision


class _Setting(NamedTuple):
    """Everything a draw depends on, except its centre and its bits."""

    manifold: Manifold
    law: RadialLaw
    exponent: int
    precision: int


@lru_cache(maxsize=256)
def _setting(manifold: Manifold, sigma: float, family: Family, grid_exponent: int | None) -> _Setting:
    if not 0.0 < sigma < math.inf:
        raise ValueError(f"sigma must be positive and finite but is {sigma}")
    if family not in ("laplace", "gaussian"):
        raise ValueError(f"family must be 'laplace' or 'gaussian' but is {family!r}")
    _require_chart(manifold)
    law = RadialLaw.on(manifold, Fraction(sigma), family)
    growth = law.bound.square_growth
    if family == "laplace" and law.sigma**2 * growth >= Fraction(1 - 1e-6):
        raise ValueError(
            f"the exact sampler for {manifold} needs sigma < {1.0 / math.sqrt(growth):.6g} but sigma is {sigma:.6g}: "
            "its volume grows too fast. More records, a larger epsilon or a smaller ball make sigma smaller"
        )
    exponent = default_grid_exponent(manifold, sigma) if grid_exponent is None else int(grid_exponent)
    unit = min((unit for unit in manifold.chart_units if unit is not None), default=None)
    coarsest = None if unit is None else unit - 10 - max(manifold.point_shape).bit_length()
    if coarsest is not None and exponent > coarsest:
        raise ValueError(f"grid_exponent is {exponent}, but points of {manifold} need a grid of 2**{coarsest} or finer")
    # exp(v) spreads over exp(1.5 s): a few bits for each unit of the radius
    spreads = growth or manifold.chart_limit < math.inf
    size = max(unit or 0, 0) + manifold.dim.bit_length() + (usual_bits(law, 3.0) if spreads else 0.0)
    return _Setting(manifold, law, exponent, 64 * math.ceil((_SPARE_BITS + RARE + max(size - exponent, 0.0)) / 64))


def _trial(setting: _Setting, center: Array | None, tape: Tape, precision: int) -> tuple[tuple[int, ...] | None, int]:
    """The rounded chart coordinates of an accepted draw, or None if it was rejected; and the precision that was enough.

    Without a centre, for a rehearsal, an accepted draw has no coordinates.
    """
    while True:
        try:
            with working_precision(precision):
                v = _propose(setting, tape)
                if v is None or center is None:
                    return None if v is None else (), precision
                return tuple(nearest(x, setting.exponent) for x in setting.manifold.exact_chart(center, v)), precision
        except Undecided:
            precision *= 2
            tape.rewind()


def _propose(setting: _Setting, tape: Tape) -> list[arb] | None:
    """A tangent vector at the base point, or None if it was rejected. Does not depend on the centre."""
    manifold, law = setting.manifold, setting.law
    radius = law.roof().propose(law, tape)
    if radius is None:
        return None
    v = [radius * x for x in _direction(manifold.dim, tape)]
    if manifold.roots.isotropic:
        return v
    chance = tape.uniform()
    try:
        with coarsely():
            accepted = _accepted(setting, radius, v, chance)
    except Undecided:
        accepted = _accepted(setting, radius, v, chance)
    return v if accepted else None


def _accepted(setting: _Setting, radius: arb, v: list[arb], chance: arb) -> bool:
    """Whether the uniform number ``chance`` is below the density divided by its envelope."""
    manifold, law = setting.manifold, setting.law
    needed = chance.log() + law.log_envelope(radius)
    least = manifold.roots.exact_least_log_density(radius)
    if least is not None and needed < least:
        return True
    density = manifold.roots.exact_log_density(manifold.exact_radial_part(v))
    return density is not None and less(needed, density)


def _direction(dim: int, tape: Tape) -> list[arb]:
    """A point uniform on the unit sphere of ``R^dim``."""
    normal: list[arb] = []
    while len(normal) < dim:
        length = (-2 * tape.uniform().log()).sqrt()
        sine, cosine = (2 * tape.uniform()).sin_cos_pi()
        normal += [length * cosine, length * sine]
    del normal[dim:]
    total = norm(normal)
    return [x / total for x in normal]


def _to_float(step: int, exponent: int) -> float:
    """The float nearest to ``step * 2^exponent``, or the largest float."""
    try:
        return float(step << exponent) if exponent >= 0 else step / (1 << -exponent)
    except OverflowError:
        return sys.float_info.max if step > 0 else -sys.float_info.max
