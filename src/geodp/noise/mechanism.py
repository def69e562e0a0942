"""The base class of mechanisms: noise for one value, with its cost and its error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np

from geodp.arithmetic.entropy import Entropy
from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.noise.flat import Family
from geodp.privacy.cost import Cost

Kind = Literal["intrinsic", "tangent"]


class Draw(NamedTuple):
    """A released point, and the grid that the exact draw behind it was rounded to."""

    value: Array
    grid: float


@dataclass(frozen=True, eq=False)
class Mechanism(ABC):
    """Noise of one scale for a value on a manifold. Everything stored here is public.

    ``cost`` holds for every two values within the distance that the mechanism was made for. The class of a mechanism states its
    theorem; :mod:`geodp.noise.choice` chooses scales.
    """

    scale: float
    family: Family
    cost: Cost

    #: The space of the noise, and the name of its law there.
    kind: ClassVar[Kind]
    adjective: ClassVar[str]

    def __getstate__(self) -> dict[str, Any]:
        # pickles leave out cached laws, which hold functions: audits send mechanisms to other processes
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    @abstractmethod
    def manifold(self) -> Manifold: ...

    @property
    @abstractmethod
    def projected(self) -> bool:
        """Whether draws are moved into a public ball."""

    @property
    @abstractmethod
    def grid(self) -> float:
        """Exact draws are rounded to multiples of this, a function of public numbers."""

    @property
    def name(self) -> str:
        return f"{self.adjective} {self.family.capitalize()}"

    @final
    def draw(self, value: Array, entropy: Entropy | None = None) -> Draw:
        """One draw about ``value``, in exact arithmetic, by default with the operating system's entropy."""
        return self.draw_each(value[None], entropy)[0]

    @abstractmethod
    def draw_each(self, values: Array, entropy: Entropy | None = None) -> list[Draw]:
        """One draw about each of several values, independent of each other."""

    @abstractmethod
    def simulate(self, value: Array, size: int, rng: np.random.Generator) -> Array:
        """Many draws of the same law in floating point, for studies and never for a release.

        If many arrays represent one point (a subspace, a shape), the point is written as a release would write it, as a function
        of the point.
        """

    @abstractmethod
    def expected_error(self) -> float:
        """A bound, from public numbers alone, on the mean distance of a draw from its value, for any value."""

    @abstractmethod
    def quick_error(self) -> float:
        """A bound on :meth:`expected_error` that is quick to compute."""

    @abstractmethod
    def error_quantile(self, q: float) -> float:
        """A distance from the value that a draw is within with probability at least ``q``."""

    @abstractmethod
    def privacy_loss(self, first: Array, second: Array, y: Array) -> Array:
        """``log(p/q)`` at outputs ``y``, for the laws about two values: what an attacker would compute."""
