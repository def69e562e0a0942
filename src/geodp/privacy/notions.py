"""Four notions of privacy, and one way to ask for any of them.

A mechanism is private if its output distributions ``P`` and ``Q`` on neighbouring data sets are close. The notions say how close:

=============================  ======================  ==================================================================
:class:`PureDP`                ``epsilon``             ``P(A) <= exp(epsilon) Q(A)`` for every event ``A``
:class:`ApproximateDP`         ``epsilon``, ``delta``  ``P(A) <= exp(epsilon) Q(A) + delta``
:class:`ZeroConcentratedDP`    ``rho``                 the Rényi divergence of every order ``a > 1`` is at most ``a rho``
:class:`GaussianDP`            ``mu``                  telling ``P`` from ``Q`` is no easier than ``N(0, 1)`` from ``N(mu, 1)``
=============================  ======================  ==================================================================
"""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypedDict, cast, final

from geodp.inputs import real_number


class Parameters(TypedDict, total=False):
    """The numbers of one notion of privacy."""

    epsilon: float
    delta: float
    rho: float
    mu: float


@dataclass(frozen=True)
class Privacy(ABC):
    """An amount of privacy in one of the four notions."""

    #: The notion in words, for receipts.
    words: ClassVar[str]

    def __post_init__(self) -> None:
        """Sets the numbers to floats; raises if one is not positive and finite."""
        for field in fields(self):
            value = real_number(getattr(self, field.name), field.name)
            if field.name != "delta" and not 0.0 < value < math.inf:
                raise ValueError(f"{field.name} must be positive and finite but is {value}")
            object.__setattr__(self, field.name, value)

    def parameters(self) -> Parameters:
        """Its numbers by name, as :func:`privacy_of` takes them."""
        return cast(Parameters, asdict(self))

    @property
    @final
    def number(self) -> str:
        """The name of the number that grows with what is spent: epsilon, rho or mu."""
        return fields(self)[0].name

    @property
    @final
    def size(self) -> float:
        """That number."""
        return float(getattr(self, self.number))

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value:g}" for name, value in self.parameters().items())


@final
@dataclass(frozen=True)
class PureDP(Privacy):
    """``epsilon``-differential privacy.

    >>> print(PureDP(1.0))
    epsilon = 1
    """

    epsilon: float
    words = "pure differential privacy"


@final
@dataclass(frozen=True)
class ApproximateDP(Privacy):
    """``(epsilon, delta)``-differential privacy.

    >>> print(ApproximateDP(1.0, 1e-6))
    epsilon = 1, delta = 1e-06
    """

    epsilon: float
    delta: float
    words = "approximate differential privacy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.delta < 1.0:
            remedy = ": for pure differential privacy leave it out" if self.delta == 0.0 else ""
            raise ValueError(f"delta must be above 0 and below 1 but is {self.delta:g}{remedy}")


@final
@dataclass(frozen=True)
class ZeroConcentratedDP(Privacy):
    """``rho``-zero-concentrated differential privacy (Bun and Steinke 2016).

    >>> print(ZeroConcentratedDP(0.05))
    rho = 0.05
    """

    rho: float
    words = "zero-concentrated differential privacy"


@final
@dataclass(frozen=True)
class GaussianDP(Privacy):
    """``mu``-Gaussian differential privacy (Dong, Roth and Su 2022).

    >>> print(GaussianDP(0.3))
    mu = 0.3
    """

    mu: float
    words = "Gaussian differential privacy"


def privacy_of(epsilon: Any = None, delta: Any = None, rho: Any = None, mu: Any = None) -> Privacy:
    """The privacy for the given numbers, in exactly one of four notions.

    >>> privacy_of(epsilon=1.0, delta=1e-6)
    ApproximateDP(epsilon=1.0, delta=1e-06)
    >>> privacy_of(epsilon=1.0, rho=0.1)
    Traceback (most recent call last):
        ...
    ValueError: give exactly one of epsilon, epsilon and delta, rho, or mu: given were epsilon and rho
    """
    values = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
    given = {name: real_number(value, name) for name, value in values.items() if value is not None}
    match list(given):
        case ["epsilon"]:
            return PureDP(**given)
        case ["epsilon", "delta"]:
            return ApproximateDP(**given)
        case ["rho"]:
            return ZeroConcentratedDP(**given)
        case ["mu"]:
            return GaussianDP(**given)
        case ["delta"]:
            raise ValueError("a delta goes with an epsilon: give both, or one of epsilon, rho, or mu")
        case []:
            raise ValueError("give the privacy to spend: exactly one of epsilon, epsilon and delta, rho, or mu")
        case names:
            listed = ", ".join(names[:-1]) + f" and {names[-1]}"
            raise ValueError(f"give exactly one of epsilon, epsilon and delta, rho, or mu: given were {listed}")
