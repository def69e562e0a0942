"""How a plan is shown: its noise and error, all mechanisms beside it, and the budgets that many such releases need."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from geodp.inputs import whole_number
from geodp.manifolds.ball import Ball
from geodp.manifolds.notation import in_layout
from geodp.manifolds.units import short
from geodp.noise.choice import Candidate
from geodp.noise.mechanism import Mechanism
from geodp.privacy.cost import ConcentratedCost, Cost, compose
from geodp.privacy.notions import ApproximateDP, PureDP
from geodp.showing import Row, Shown, as_text, table_html
from geodp.verdict import says_nothing, verdict

#: A plan gives the error at these probabilities.
QUANTILES = (0.5, 0.9, 0.95, 0.99)

#: The head of a plan's table of mechanisms.
_HEAD = f"    {'all mechanisms':<20} likely error   worst case     95% within     noise scale    rho spent"


@final
@dataclass(frozen=True)
class Option:
    """One mechanism for a planned release: its error and cost, or why it cannot be used."""

    name: str
    scale: float | None
    likely_error: float | None
    expected_error: float | None
    error_95: float | None
    cost: Cost | None
    refusal: str | None

    @classmethod
    def of(cls, candidate: Candidate) -> Option:
        if candidate.refusal is not None:
            return cls(candidate.name, None, None, None, None, None, candidate.refusal)
        noise = candidate.mechanism
        errors = noise.likely_error(), noise.expected_error(), noise.error_quantile(0.95)
        return cls(candidate.name, noise.scale, *errors, noise.cost, None)


class ShownPlan(Shown):
    """What every plan with one noise says of itself."""

    if TYPE_CHECKING:
        n: int
        releases: int | None
        # what a plan computes; cached or not
        notation = statistic = noise = property(lambda self: self.made)
        sensitivity = tolerance = privacy = cost = options = property(lambda self: self.made)

    @property
    def ball(self) -> Ball:
        """The public ball of the records."""
        assert self._ball is not None
        return self._ball

    @property
    def _ball(self) -> Ball | None:
        place = self.statistic.place
        return place if isinstance(place, Ball) else None

    @property
    def epsilon(self) -> float | None:
        return self.privacy.parameters().get("epsilon")

    @property
    def scale(self) -> float:
        noise: Mechanism = self.noise
        return noise.scale

    @property
    def expected_error(self) -> float:
        """A bound on the expected distance between the release and the mean of the clipped records."""
        noise: Mechanism = self.noise
        return noise.expected_error()

    @property
    def likely_error(self) -> float:
        """The mean error for a value at a third of the radius from the centre of the ball, which decides between mechanisms."""
        noise: Mechanism = self.noise
        return noise.likely_error()

    @property
    def quantiles(self) -> dict[float, float]:
        """The error that is not exceeded with these probabilities."""
        return {q: self.noise.error_quantile(q) for q in QUANTILES}

    @property
    def says_nothing(self) -> bool:
        """Whether the expected error exceeds the radius of the ball, so that the release would say no more than its centre."""
        return says_nothing(self.noise, self.statistic.hull)

    def verdict(self) -> str:
        """One line on what the error means, compared with the radius of the ball."""
        if self._ball is not None:
            return verdict(self.likely_error, self.quantiles[0.95], self.ball.radius).replace("says", "will say", 1)
        if self.says_nothing:
            return "this release will say nothing about the data: the noise is as large as all there is"
        return f"with probability 95% noise moves it by at most {self.quantiles[0.95]:.3g}"

    def budgets(self, releases: int, delta: float = 1e-6) -> dict[str, float]:
        """The total epsilon that ``releases`` releases like this one need at a total ``delta``, for each way of adding up.

        ``epsilon``: pure epsilons, without any delta. ``sum``: epsilons and deltas separately. ``rho``: through rho. The smallest
        total is the best choice. It is infinite if that kind of budget refuses such releases.
        """
        costs = compose([self.cost] * whole_number(releases, 1, "the number of releases"))
        asked = self.privacy
        plain = releases * asked.epsilon if isinstance(asked, PureDP) else math.inf
        if isinstance(asked, ApproximateDP) and releases * asked.delta <= delta * (1.0 + 1e-9):
            plain = releases * asked.epsilon
        return {"epsilon": costs.epsilon, "sum": plain, "rho": ConcentratedCost(costs.rho).epsilon_at(delta)}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        ball = self._ball
        return {
            "manifold": repr(self.notation.manifold),
            "center": None if ball is None else ball.center.tolist(),
            "radius": None if ball is None else ball.radius,
            "n": self.n,
            **self.privacy.parameters(),
            "notion": self.privacy.words,
            "bound": getattr(self.statistic, "bound", None),
            "sensitivity": self.sensitivity,
            "tolerance": self.tolerance,
            "mechanism": self.noise.name,
            "scale": self.scale,
            "cost": self.cost.to_dict(),
            "likely_error": self.likely_error,
            "expected_error": self.expected_error,
            "quantiles": {f"{q:g}": error for q, error in self.quantiles.items()},
            "says_nothing": self.says_nothing,
            "verdict": self.verdict(),
            **({} if ball is None else in_layout(self.notation, {"center": ball.center}, self._lengths(ball))),
            "options": [
                {
                    "mechanism": option.name,
                    "scale": option.scale,
                    "likely_error": option.likely_error,
                    "expected_error": option.expected_error,
                    "error_95": option.error_95,
                    "cost": None if option.cost is None else option.cost.to_dict(),
                    "refusal": option.refusal,
                }
                for option in self.options
            ],
        }

    def _lengths(self, ball: Ball) -> dict[str, float]:
        quantiles = {f"error_{100 * q:g}": error for q, error in self.quantiles.items()}
        return {"radius": ball.radius, "expected_error": self.expected_error, **quantiles}

    def head(self) -> str:
        ball = self._ball
        where = f"the {self.statistic.kind}" if ball is None else f"radius {self.notation.length(ball.radius, 6)}"
        return f"{self.notation.manifold}, {where}: n = {self.n}, {self.privacy}"

    def rows(self) -> list[Row]:
        tolerance = self.tolerance
        # shown only if it matters: in most balls it is about 1e-12
        # without a ball errors are lengths of the noise, which have no units
        length = self.notation.length if self._ball is not None else short
        rounding = f", and 2 * {tolerance:.2g} for rounding" if 2.0 * tolerance > 0.01 * self.sensitivity else ""
        return [
            ("mechanism", self.noise.name),
            ("sensitivity", f"{self.sensitivity:.6g}{rounding}"),
            ("noise scale", f"{self.scale:.6g}"),
            *self._about_error(length),
            *((f"{100 * q:g}% within", length(error)) for q, error in self.quantiles.items()),
            ("verdict", self.verdict()),
            ("cost", f"{self.cost}; advantage at most {self.cost.advantage:.3g}"),
        ]

    def _about_error(self, length: Callable[[float], str]) -> list[Row]:
        if self._ball is None:
            return [("expected error", length(self.expected_error))]
        return [
            ("likely error", f"{length(self.likely_error)}, for a value at a third of the radius"),
            ("worst case", f"{length(self.expected_error)}, for a value anywhere in the ball"),
        ]

    def _repr_html_(self) -> str:
        columns = ["mechanism", "likely error", "worst case", "95% within", "noise scale", "rho spent"]
        return super()._repr_html_() + table_html("all mechanisms", columns, map(self._cells, self.options))

    def __str__(self) -> str:
        lines = [as_text(self.head(), self.rows(), width=17), _HEAD, *map(self._row, self.options)]
        if self.releases is not None:
            lines += self._about_budgets(self.releases)
        return "\n".join(lines)

    def _about_budgets(self, releases: int) -> list[str]:
        asked = self.privacy.delta * releases if isinstance(self.privacy, ApproximateDP) else 1e-6
        needed = self.budgets(releases, asked)
        ways = {
            "epsilon": f"a budget of epsilon {needed['epsilon']:.4g} alone",
            "sum": f"of epsilon {needed['sum']:.4g} and delta {asked:.2g}, added plainly",
            "rho": f"of epsilon {needed['rho']:.4g} and delta {asked:.2g}, added through rho",
        }
        listed = [ways[name] for name, epsilon in needed.items() if math.isfinite(epsilon)]
        best = min(("sum", "rho"), key=lambda name: needed[name])
        return [
            f"  {releases} such releases need {'; or '.join(listed)}",
            f"  of the last two, compose='{best}' admits more of them",
        ]

    def _row(self, option: Option) -> str:
        name, *cells = self._cells(option)
        return f"  {name:<22} {' '.join(f'{cell:<14}' for cell in cells)}".rstrip()

    def _cells(self, option: Option) -> list[str]:
        name = f"{'*' if option.name == self.noise.name else ' '} {option.name}"
        numbers = (option.likely_error, option.expected_error, option.error_95, option.scale)
        if option.cost is None or None in numbers:
            # show only the reason: the remedy after it is for callers who asked for this mechanism
            return [name, (option.refusal or "").partition(": ")[0]]
        return [name, *(f"{number:.4g}" for number in (*numbers, option.cost.rho))]
