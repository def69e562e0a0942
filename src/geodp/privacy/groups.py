r"""Group privacy: the cost of a release if data sets differ by several records or persons, or by several sensitivities.

Data sets that are ``size`` changes apart are joined by a chain of ``size`` pairs of neighbours. Along the chain

* the *centres of noise* move by at most ``size`` times the sensitivity (triangle inequality), and the curves of Laplace and
  Gaussian noise increase with that distance (:mod:`geodp.privacy.curves`);
* *pure* epsilons add up, and so do the lengths of the intervals that contain the loss of a *selection*;
* ``rho`` becomes ``size^2 rho`` (Bun and Steinke 2016, Proposition 1.9), and ``mu`` becomes ``size mu`` (Dong, Roth and Su 2022,
  Theorem 2.14);
* ``P_0(A) <= e^epsilon P_1(A) + delta <= ... <= e^(size epsilon) P_size(A) + delta (1 + e^epsilon + ... + e^((size-1) epsilon))``
  for *approximate* privacy;
* for *several releases*, each part is such a mechanism, whatever was released before it.
"""

from __future__ import annotations

import math
from fractions import Fraction

from geodp.privacy.cost import (
    ApproximateCost,
    ConcentratedCost,
    Cost,
    GaussianCost,
    LaplaceCost,
    PureCost,
    SelectionCost,
    SumCost,
)


def group_cost(cost: Cost, size: float) -> Cost:
    """The cost between data sets that are ``size >= 1`` changes apart, or whose summaries are ``size`` sensitivities apart.

    >>> group_cost(GaussianCost(0.5), 3), group_cost(ConcentratedCost(0.125), 2)
    (GaussianCost(shift=1.5), ConcentratedCost(bound=0.5))
    >>> group_cost(ApproximateCost(1.0, 0.5), 2)
    Traceback (most recent call last):
        ...
    ValueError: approximate privacy says nothing about groups of 2: delta would be 1.86
    """
    if not 1.0 <= size < math.inf:
        raise ValueError(f"the size of a group must be at least 1 and finite but is {size:g}")
    match cost:
        case LaplaceCost():
            return LaplaceCost(_product(cost.ratio, size), cost.dim)
        case GaussianCost():
            return GaussianCost(_product(cost.shift, size))
        case PureCost():
            return PureCost(_product(cost.bound, size))
        case SelectionCost():
            return SelectionCost(_product(cost.bound, size))
        case ConcentratedCost():
            return ConcentratedCost(_product(cost.bound, size, size))
        case ApproximateCost():
            limit, slack = group_parameters(cost.limit, cost.slack, math.ceil(size))
            if slack >= 1.0:
                raise ValueError(f"approximate privacy says nothing about groups of {size:g}: delta would be {slack:.3g}")
            return ApproximateCost(limit, slack)
        case SumCost():
            return SumCost(tuple(group_cost(part, size) for part in cost.parts))
    raise TypeError(f"the cost of groups is not known for a {type(cost).__name__}")


def group_parameters(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """``(size epsilon, delta (e^(size epsilon) - 1)/(e^epsilon - 1))``, rounded up; a delta that overflows is infinite.

    >>> group_parameters(0.5, 1e-6, 1)
    (0.5, 1e-06)
    >>> [round(float(number), 9) for number in group_parameters(0.5, 1e-6, 2)]
    [1.0, 2.649e-06]
    """
    if size == 1:
        return epsilon, delta
    total = _product(epsilon, size)
    if total > 700.0:
        return total, math.inf
    return total, math.nextafter(delta * math.expm1(total) / math.expm1(epsilon) * (1.0 + 1e-14), math.inf)


def _product(*factors: float) -> float:
    """The product of positive floats, rounded up."""
    exact, near = math.prod(map(Fraction, factors)), math.prod(factors)
    while near < math.inf and Fraction(near) < exact:
        near = math.nextafter(near, math.inf)
    return near
