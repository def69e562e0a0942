"""How a plan is shown: its noise and error, all mechanisms beside it, and the budgets that many such releases need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from geodp.inputs import whole_number
from geodp.manifolds.ball import Ball
from geodp.manifolds.notation import in_layout
from geodp.noise.choice import Candidate
from geodp.noise.mechanism import Mechanism
from geodp.privacy.cost import ConcentratedCost, Cost, compose
from geodp.privacy.notions import ApproximateDP, PureDP
from geodp.showing import Row, Shown, as_text, table_html
from geodp.verdict import says_nothing, verdict

#: A plan gives the error at these probabilities.
QUANTILES = (0.5, 0.9, 0.95, 0.99)

#: The head of a plan's table of mechanisms.
_HEAD = f"    {'all mechanisms':<20} expected error 95% within     noise scale    rho spent"


@final
@dataclass(frozen=True)
class Option:
    """One mechanism for a planned release: its error and cost, or why it cannot be used."""

    name: str
    scale: float | None
    expected_error: float | None
    error_95: float | None
    cost: Cost | None
    refusal: str | None

    @classmethod
    def of(cls, candidate: Candidate) -> Option:
        if candidate.refusal is not None:
            return cls(candidate.name, None, None, None, None, candidate.refusal)
        noise = candidate.mechanism
        return cls(candidate.name, noise.scale, noise.expected_error(), noise.error_quantile(0.95), noise.cost, None)


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
        place = self.statistic.place
        assert isinstance(place, Ball)
        return place

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
    def quantiles(self) -> dict[float, float]:
        """The error that is not exceeded with these probabilities."""
        return {q: self.noise.error_quantile(q) for q in QUANTILES}

    @property
    def says_nothing(self) -> bool:
        """Whether the expected error exceeds the radius of the ball, so that the release would say no more than its centre."""
        return says_nothing(self.noise, self.statistic.hull)

    def verdict(self) -> str:
        """One line on what the error means, compared with the radius of the ball."""
        return verdict(self.expected_error, self.quantiles[0.95], self.ball.radius).replace("says", "will say", 1)

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
        return {
            "manifold": repr(self.ball.manifold),
            "center": self.ball.center.tolist(),
            "radius": self.ball.radius,
            "n": self.n,
            **self.privacy.parameters(),
            "notion": self.privacy.words,
            "bound": getattr(self.statistic, "bound", None),
            "sensitivity": self.sensitivity,
            "tolerance": self.tolerance,
            "mechanism": self.noise.name,
            "scale": self.scale,
            "cost": self.cost.to_dict(),
            "expected_error": self.expected_error,
            "quantiles": {f"{q:g}": error for q, error in self.quantiles.items()},
            "says_nothing": self.says_nothing,
            "verdict": self.verdict(),
            **in_layout(self.notation, {"center": self.ball.center}, self._lengths()),
            "options": [
                {
                    "mechanism": option.name,
                    "scale": option.scale,
                    "expected_error": option.expected_error,
                    "error_95": option.error_95,
                    "cost": None if option.cost is None else option.cost.to_dict(),
                    "refusal": option.refusal,
                }
                for option in self.options
            ],
        }

    def _lengths(self) -> dict[str, float]:
        quantiles = {f"error_{100 * q:g}": error for q, error in self.quantiles.items()}
        return {"radius": self.ball.radius, "expected_error": self.expected_error, **quantiles}

    def head(self) -> str:
        return f"{self.ball.manifold}, radius {self.notation.length(self.ball.radius, 6)}: n = {self.n}, {self.privacy}"

    def rows(self) -> list[Row]:
        tolerance = self.tolerance
        # shown only if it matters: in most balls it is about 1e-12
        rounding = f", and 2 * {tolerance:.2g} for rounding" if 2.0 * tolerance > 0.01 * self.sensitivity else ""
        return [
            ("mechanism", self.noise.name),
            ("sensitivity", f"{self.sensitivity:.6g}{rounding}"),
            ("noise scale", f"{self.scale:.6g}"),
            ("expected error", self.notation.length(self.expected_error)),
            *((f"{100 * q:g}% within", self.notation.length(error)) for q, error in self.quantiles.items()),
            ("verdict", self.verdict()),
            ("cost", f"{self.cost}; advantage at most {self.cost.advantage:.3g}"),
        ]

    def _repr_html_(self) -> str:
        columns = ["mechanism", "expected error", "95% within", "noise scale", "rho spent"]
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
        if option.expected_error is None or option.error_95 is None or option.scale is None:
            # show only the reason: the remedy after it is for callers who asked for this mechanism
            return [name, (option.refusal or "").partition(": ")[0]]
        numbers = (option.expected_error, option.error_95, option.scale, math.inf if option.cost is None else option.cost.rho)
        return [name, *(f"{number:.4g}" for number in numbers)]
