r"""Privacy curves, each with a bound on every rounding and quadrature error.

The curve of a pair of laws ``P``, ``Q`` with privacy loss ``L = log(dP/dQ)`` is

.. math:: \delta(\varepsilon) = E_P\,(1 - e^{\varepsilon - L})_+,

the smallest ``delta`` for which ``P(A) <= exp(epsilon) Q(A) + delta`` holds for all events.

**Tangent Laplace.** Noise ``z`` in ``R^d`` with density proportional to ``exp(-|z|/sigma)``, centres at distance
``t sigma``. About the two centres, in prolate coordinates ``xi = (r1 + r2)/t >= 1`` and ``eta = (r2 - r1)/t``, the loss is
``t eta``, volume is proportional to ``(xi^2 - eta^2) ((xi^2 - 1)(1 - eta^2))^((d-3)/2)`` and the density of ``P`` to
``exp(-t (xi - eta)/2)``. Integrating ``xi`` out leaves

.. math:: e^{t \eta/2}\,(1-\eta^2)^{(d-3)/2}\,(A - \eta^2), \qquad
          A = 1 + \frac{2(d-1)}{t}\,\frac{K_{d/2}(t/2)}{K_{d/2-1}(t/2)},

which with ``eta = sin(theta)`` is an entire function of ``theta``: ``flint.acb.integral`` integrates it over
complex intervals and returns an enclosure of the true value, not an estimate. Over the full range of ``theta`` the integral is,
with ``z = t/2`` and by the Wronskian of ``I`` and ``K``, ``sqrt(pi) Gamma((d+1)/2) (2/z)^(d/2)/(z K_{d/2-1}(z))``. On a line (``d
= 1``) ``delta(epsilon) = 1 - exp((epsilon - t)/2)``.

*Worst pair.* ``delta(epsilon)`` increases with the distance between the centres. On every line parallel to the shift the density
is log-concave, so there ``int (f(x - te) - g f(x))_+`` is ``F(a(t) - t) - g F(a(t))`` with ``F`` the upper tail, whose derivative
in ``t`` is a density. So a bound on the distance between the centres is enough. By symmetry ``P`` and ``Q`` may be exchanged.

*Concentrated.* ``sup D_a/a`` over the orders ``a > 1`` is the limit at 1, the Kullback-Leibler divergence ``E_P L``.
``E exp((a-1)L) = Phi((a-1/2) t)/Phi(t/2)`` with ``Phi(z)`` proportional to ``z^(-d/2) (z I'_{d/2}(z) + b I_{d/2}(z))``,
``b > 0`` (on a line ``cosh(z) + t sinh(z)/(2 z)``), a Dini function with imaginary zeros only. So ``log Phi`` is concave in
``z^2``, and since ``(a-1/2)^2 - 1/4 = a (a-1)``, ``D_a/a`` is the slope of a secant of a concave function and decreases.
From the density above, ``E_P L = (t^2/2) (I_{d/2}(t/2) K_{d/2}(t/2) + I_{d/2+1}(t/2) K_{d/2-1}(t/2))``, about ``t^2/(2 d)``.

**Gaussian.** ``delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)`` (Balle and Wang 2018).

**Pure.** Of all ``epsilon``-private mechanisms randomised response reveals most (Kairouz, Oh and Viswanath 2015): its curve
bounds theirs. For its Rényi divergences ``D_a/a`` decreases, which gives ``epsilon tanh(epsilon/2)``-zero-concentrated privacy.

**Selection.** Let the loss lie between ``s - b`` and ``s``. Then ``delta(epsilon) = E_Q (e^L - e^epsilon)_+`` is largest, among
laws with ``E_Q e^L = 1``, if ``L`` takes only these two values, by convexity in ``e^L``. It is then
``(e^b - e^s)(1 - e^(epsilon - s))/(e^b - 1)``. The worst ``s`` is ``(b + epsilon)/2``, which leaves
``(e^(b/2) - e^(epsilon/2))^2/(e^b - 1)`` (Dong, Durfee and Rogers 2020).

**Concentrated.** ``delta <= inf_a exp((a-1)(a rho - epsilon)) (1 - 1/a)^a/(a-1)`` (Canonne, Kamath and Steinke 2020).

All functions return enclosures (``flint.arb``). To compare safely, use the upper or the lower end.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from flint import acb, arb, ctx

from geodp.arithmetic.intervals import working_precision

#: Bits of the enclosures.
_BITS = 160
#: Integrals are enclosed to this relative width, or to that part of the smallest delta of interest.
_WIDTH = arb("1e-13")
#: The smallest delta of interest.
_LEAST = arb("1e-40")
#: Bits that a function may lose.
_LOST = 32


def upper_float(x: arb) -> float:
    """A float that is at least the number enclosed by ``x``."""
    near = float(x.upper())
    return near if x <= arb(near) else math.nextafter(near, math.inf)


# ---------------------------------------------------------------------- Laplace noise in R^d


class LaplaceCurve:
    """The privacy loss of Laplace noise in ``R^dim`` between centres ``ratio`` scales apart.

    >>> [round(upper_float(LaplaceCurve(1.0, dim).mean_loss()), 4) for dim in (1, 2, 3, 6, 21, 78)]
    [0.3679, 0.2283, 0.1606, 0.0827, 0.0238, 0.0064]
    """

    def __init__(self, ratio: float, dim: int) -> None:
        self.ratio, self.dim = ratio, dim

    def delta(self, epsilon: float) -> arb:
        """An enclosure of ``delta(epsilon)`` for ``epsilon >= 0``."""
        if epsilon >= self.ratio:
            return arb(0)
        with working_precision(_BITS):
            t, start = arb(self.ratio), arb(epsilon)
            if self.dim == 1:
                return -((start - t) / 2).expm1()
            spread, mass = _constant_intervals(self.ratio, self.dim)
            power = self.dim - 2

            def integrand(theta: acb, analytic: bool) -> acb:
                sine = theta.sin()
                half_loss = t / 2 * sine
                return (half_loss.exp() - (start - half_loss).exp()) * theta.cos() ** power * (spread - sine * sine)

            found = acb.integral(integrand, (start / t).asin(), arb.pi() / 2, rel_tol=_WIDTH, abs_tol=_WIDTH * mass * _LEAST)
            if not found.is_finite():
                raise ArithmeticError(f"no enclosure of the privacy curve at a ratio of {self.ratio:g} in dimension {self.dim}")
            return found.real / mass

    def mean_loss(self) -> arb:
        """An enclosure of ``E_P L``."""
        with working_precision(_BITS):
            t, order = arb(self.ratio), arb(self.dim) / 2
            half = t / 2
            first = half.bessel_i(order) * _bessel_k(half, order)
            return t * half * (first + half.bessel_i(order + 1) * _bessel_k(half, order - 1))


def _constant_intervals(ratio: float, dim: int) -> tuple[arb, arb]:
    """``A``, and the integral of the density over ``theta``, at the working precision."""
    half, order = arb(ratio) / 2, arb(dim) / 2
    below = _bessel_k(half, order - 1)
    spread = 1 + (dim - 1) / half * _bessel_k(half, order) / below
    return spread, arb.pi().sqrt() * (order + arb((1, -1))).gamma() * (2 / half) ** order / (half * below)


def _bessel_k(x: arb, order: arb) -> arb:
    """``K_order(x)`` for exact arguments, to nearly the working precision.

    Where its series cancels (at 160 bits up to about ``x = 80``) the enclosure is much wider than that, or infinite, so more bits
    are used until it is narrow.
    """
    bits = wanted = ctx.prec
    while True:
        with ctx.workprec(bits):
            found = x.bessel_k(order)
        if found.rel_accuracy_bits() >= wanted - _LOST:
            return found
        bits *= 2


# ---------------------------------------------------------------------- the others


def gaussian_delta(mu: float, epsilon: float) -> arb:
    """An enclosure of ``delta(epsilon)`` between unit normal laws ``mu`` apart."""
    with working_precision(_BITS):
        m, e = arb(mu), arb(epsilon)
        return _normal(m / 2 - e / m) - e.exp() * _normal(-m / 2 - e / m)


def _normal(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def pure_delta(bound: float, epsilon: float) -> arb:
    """An enclosure of the largest ``delta(epsilon)`` of a mechanism with pure epsilon ``bound``."""
    if epsilon >= bound:
        return arb(0)
    with working_precision(_BITS):
        b, e = arb(bound), arb(epsilon)
        return (e - b).expm1() * -1 / (1 + (-b).exp())


def selection_delta(bound: float, epsilon: float) -> arb:
    """An enclosure of the largest ``delta(epsilon)`` if the loss lies in an interval of length ``bound`` that holds 0."""
    if epsilon >= bound:
        return arb(0)
    with working_precision(_BITS):
        b, e = arb(bound), arb(epsilon)
        # divided by e^b, which may overflow
        return ((e - b) / 2).expm1() ** 2 / -(-b).expm1()


def concentrated_delta(rho: float, epsilon: float) -> arb:
    """An enclosure of a bound on ``delta(epsilon)`` under zero-concentrated privacy: every order ``a > 1`` gives one."""
    order = _best_order(rho, epsilon)
    with working_precision(_BITS):
        a, r, e = arb(order), arb(rho), arb(epsilon)
        bound = ((a - 1) * (a * r - e)).exp() / (a - 1) * (1 - 1 / a) ** a
        return bound if bound < 1 else arb(1)


def _best_order(rho: float, epsilon: float) -> float:
    """The order with the smallest bound, by golden section in ``log(a - 1)``. An inexact order only gives a larger bound."""

    def log_bound(u: float) -> float:
        a = 1.0 + math.exp(u)
        return (a - 1.0) * (a * rho - epsilon) - u + a * math.log1p(-1.0 / a)

    low, high = -25.0, max(math.log(max(epsilon, 1.0) / rho + 2.0) + 5.0, 0.0)
    return 1.0 + math.exp(minimum(log_bound, low, high))


def minimum(function: Callable[[float], float], low: float, high: float, steps: int = 90) -> float:
    """The minimiser of a function with a single minimum between ``low`` and ``high``, by golden section."""
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(steps):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
    return 0.5 * (low + high)
