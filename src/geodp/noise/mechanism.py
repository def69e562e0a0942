"""The base classes of noise: for anything that is released, and for one point or vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, final

import numpy as np

from geodp.arithmetic.entropy import Entropy, NotPrivate
from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.noise.flat import Family
from geodp.privacy.cost import Cost

Kind = Literal["intrinsic", "tangent"]


class Draw(NamedTuple):
    """A released point, and the grid that the exact draw behind it was rounded to."""

    value: Array
    grid: float


class Noise(ABC):
    """Randomness that hides a computed value: a law, a choice from a public list, or several laws. All of it is public.

    What is drawn is an array of numbers, from which everything released follows by :meth:`finish` and by the statistic.
    """

    if TYPE_CHECKING:
        # at run time a field of a subclass would take this property for its default

        @property
        def cost(self) -> Cost:
            """What one draw spends, for values of neighbours."""

    @abstractmethod
    def draws(self, values: Sequence[Any], entropy: Entropy | None = None) -> list[Array]:
        """One exact draw for each of several computed values, by default with the operating system's entropy."""

    def simulations(self, values: Sequence[Any], rng: np.random.Generator) -> list[Array]:
        """The same with reproducible bits, for studies and never for a release."""
        return self.draws(values, NotPrivate(int(rng.integers(2**63))))

    @abstractmethod
    def possible(self, drawn: Array) -> bool:
        """Whether these numbers can have been drawn."""

    def finish(self, drawn: Array) -> Array:
        """What follows from a draw, as the statistic knows it."""
        return drawn

    @property
    def grid(self) -> float | None:
        """Exact draws are rounded to multiples of this, if to any."""
        return None


@dataclass(frozen=True, eq=False)
class Mechanism(Noise):
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

    @final
    def draw_each(self, values: Array, entropy: Entropy | None = None) -> list[Draw]:
        """One draw about each of several values, independent of each other."""
        points = self.finish(np.stack(self.draws(list(values), entropy)))
        return [Draw(point, self.grid) for point in points]

    @final
    def simulate(self, value: Array, size: int, rng: np.random.Generator) -> Array:
        """Many draws of the same law in floating point, for studies and never for a release.

        If many arrays represent one point (a subspace, a shape), the point is written as a release would write it, as a function
        of the point.
        """
        return self.finish(self.floats(value, size, rng))

    @final
    def simulations(self, values: Sequence[Any], rng: np.random.Generator) -> list[Array]:
        return [self.floats(value, 1, rng)[0] for value in values]

    @abstractmethod
    def floats(self, value: Array, size: int, rng: np.random.Generator) -> Array:
        """Draws in floating point before :meth:`finish`."""

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


def is_multiple(numbers: Array, step: float) -> bool:
    """Whether finite numbers are whole multiples of a power of two."""
    with np.errstate(over="ignore"):
        steps = numbers / step
    return bool(np.isfinite(steps).all() and (steps == np.round(steps)).all())
