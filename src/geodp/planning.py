"""The error of a release before anything is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, final, get_args

import numpy as np

from geodp.arithmetic.bracketing import zero_between
from geodp.inputs import moderate_length, real_number, whole_number
from geodp.manifolds import SPD, Sphere
from geodp.manifolds.ball import Ball, checked_ball
from geodp.manifolds.notation import Notation
from geodp.measurement import Measurement
from geodp.noise.choice import Candidate, Hidden, MechanismName, candidates
from geodp.noise.flat import Family, FlatNoise
from geodp.noise.intrinsic import IntrinsicMechanism, intrinsic_cost, projection_is_safe, widest_drawable
from geodp.noise.mechanism import Mechanism
from geodp.noise.tangent import TangentMechanism, tangent_cost
from geodp.privacy.cost import ConcentratedCost, Cost, compose
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP, privacy_of
from geodp.receipt import in_layout, says_nothing
from geodp.showing import Row, Shown, as_text, table_html
from geodp.statistics.mean import FrechetMean
from geodp.statistics.sensitivity import Bound
from geodp.verdict import verdict

QUANTILES = (0.5, 0.9, 0.95, 0.99)

#: The head of a plan's table of mechanisms.
_HEAD = f"    {'all mechanisms':<20} expected error 95% within     noise scale    rho spent"

#: The numbers that a plan can solve for.
Unknown = Literal["epsilon", "rho", "mu"]


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


@final
@dataclass(frozen=True)
class Plan(Shown):
    """The error and cost of a release with these public parameters. A plan reads no data.

    Errors are geodesic distances between the release and the mean of the clipped records. ``options`` lists all mechanisms.
    ``paper_error`` is the expected error with the sensitivity bound of the paper, ``ambient_error`` the expected Euclidean
    length of the paper's ambient noise; both are None if they do not apply.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> result = plan(Ball(Sphere(2), center=[0.0, 0.0, 1.0], radius=np.pi / 8), n=100, epsilon=1.0)
    >>> round(result.scale, 6), round(result.quantiles[0.95], 4)
    (0.008284, 0.0393)
    """

    measurement: Measurement
    expected_error: float
    quantiles: dict[float, float]
    options: tuple[Option, ...]
    paper_error: float | None
    ambient_error: float | None
    releases: int | None = None
    #: How points and lengths are written.
    notation: Notation = field(kw_only=True)

    @property
    def noise(self) -> Mechanism:
        """The mechanism that a release would use."""
        return self.measurement.noise

    @property
    def ball(self) -> Ball:
        ball = self.measurement.statistic.ball
        assert ball is not None
        return ball

    @property
    def n(self) -> int:
        return self.measurement.n

    @property
    def privacy(self) -> Privacy:
        return self.measurement.privacy

    @property
    def epsilon(self) -> float | None:
        return self.privacy.parameters().get("epsilon")

    @property
    def scale(self) -> float:
        return self.noise.scale

    @property
    def sensitivity(self) -> float:
        return self.measurement.sensitivity

    @property
    def cost(self) -> Cost:
        """What the release would spend, in every notion of privacy."""
        return self.noise.cost

    @property
    def says_nothing(self) -> bool:
        """Whether the expected error exceeds the radius of the ball, so that the release would say no more than its centre."""
        return says_nothing(self.noise, self.ball)

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
            "bound": self.measurement.statistic.bound if isinstance(self.measurement.statistic, FrechetMean) else None,
            "sensitivity": self.sensitivity,
            "tolerance": self.measurement.tolerance,
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
            "paper_error": self.paper_error,
            "ambient_error": self.ambient_error,
        }

    def _lengths(self) -> dict[str, float]:
        quantiles = {f"error_{100 * q:g}": error for q, error in self.quantiles.items()}
        return {"radius": self.ball.radius, "expected_error": self.expected_error, **quantiles}

    def head(self) -> str:
        return f"{self.ball.manifold}, radius {self.notation.length(self.ball.radius, 6)}: n = {self.n}, {self.privacy}"

    def rows(self) -> list[Row]:
        tolerance = self.measurement.tolerance
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
        if self.paper_error is not None:
            lines.append(f"  with the bound of Reimherr et al. (2021): expected error {self.paper_error:.4g}")
        if self.ambient_error is not None:
            lines.append(f"  ambient noise instead: expected Euclidean error {self.ambient_error:.4g}")
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


def plan(
    ball: Ball,
    n: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    *,
    error: float | None = None,
    quantile: float | None = None,
    solve: Unknown = "epsilon",
    releases: int | None = None,
    mechanism: MechanismName = "auto",
    law: Family | None = None,
    bound: Bound = "sharp",
    layout: str | None = None,
) -> Plan:
    """Plans a release from two of ``n``, the privacy and ``error``, and computes the third. Reads no data.

    Give the privacy as for :func:`geodp.private_mean`. ``error`` is the largest expected error, or with ``quantile`` the error
    that is not exceeded with that probability. If the privacy is computed, ``solve`` names its notion; you may then give a
    ``delta``, and the plan finds the epsilon for it. With ``releases`` the plan also says which budget that many
    releases need, and how it should add up. ``layout`` is the layout of the future records (``geodp layouts``): with ``"latlon"``
    the plan also gives kilometres.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> ball = Ball(Sphere(2), center=[0.0, 0.0, 1.0], radius=np.pi / 8)
    >>> round(plan(ball, n=100, epsilon=1.0).expected_error, 5)
    0.01657
    >>> plan(ball, epsilon=1.0, error=0.01).n
    166
    >>> round(plan(ball, n=100, error=0.01).epsilon, 3)
    1.657
    """
    checked_ball(ball)
    notation = Notation(ball.manifold) if layout is None else Notation.named(ball.manifold, layout)
    statistic = FrechetMean(ball, bound)
    privacy = None if (epsilon, rho, mu) == (None, None, None) else privacy_of(epsilon, delta, rho, mu)
    given = [name for name, value in (("n", n), ("the privacy", privacy), ("error", error)) if value is not None]
    if len(given) != 2:
        raise ValueError(f"a plan needs two of n, the privacy and error but was given {' and '.join(given) or 'none of them'}")
    quantile = None if quantile is None else real_number(quantile, "the quantile")
    if quantile is not None and (error is None or not 0.0 < quantile < 1.0):
        raise ValueError("a quantile goes with an error to reach, and lies between 0 and 1")
    if solve not in get_args(Unknown):
        raise ValueError(f"what is solved for must be one of {', '.join(get_args(Unknown))} but is {solve!r}")
    if error is not None:
        goal = _Goal(statistic, _positive(error), quantile, mechanism, law)
        if privacy is not None:
            n = goal.records(privacy)
        else:
            assert n is not None
            privacy = goal.privacy(n, solve, delta)
    assert n is not None
    assert privacy is not None
    measurement = Measurement(statistic, n, privacy, mechanism, law)
    return Plan(
        measurement,
        measurement.noise.expected_error(),
        {q: measurement.noise.error_quantile(q) for q in QUANTILES},
        tuple(Option.of(candidate) for candidate in measurement.candidates()),
        _paper_error(measurement),
        _ambient_error(measurement),
        None if releases is None else whole_number(releases, 1, "the number of releases"),
        notation=notation,
    )


def _positive(error: float) -> float:
    value = real_number(error, "the error to reach")
    if not 0.0 < value < math.inf:
        raise ValueError(f"the error to reach must be positive and finite but is {value}")
    return moderate_length(value, "the error to reach")


def _paper_error(measurement: Measurement) -> float | None:
    """The expected error of the paper's mechanism with the paper's bound, for pure privacy."""
    ball = measurement.statistic.ball
    if ball is None or not isinstance(measurement.privacy, PureDP):
        return None
    try:
        paper = FrechetMean(ball, "reimherr2021")
        return Measurement(paper, measurement.n, measurement.privacy, "intrinsic", "laplace").noise.expected_error()
    except ValueError:  # the radius exceeds the paper's limit, or there is no law of this scale
        return None


def _ambient_error(measurement: Measurement) -> float | None:
    """The mean Euclidean length of the paper's ambient noise: its scale ``2 r_E/(n epsilon)`` times the number of coordinates.

    On the manifolds of the paper, spheres and matrices about the identity, a Euclidean ball of radius ``r_E`` holds the records.
    """
    ball, privacy = measurement.statistic.ball, measurement.privacy
    if ball is None or not isinstance(privacy, PureDP):
        return None
    manifold = ball.manifold
    if isinstance(manifold, Sphere):
        coordinates, radius = manifold.d + 1, 2.0 * manifold.radius * math.sin(ball.radius / (2.0 * manifold.radius))
    elif isinstance(manifold, SPD) and np.array_equal(ball.center, manifold.origin):
        coordinates, radius = manifold.dim, math.expm1(ball.radius)
    else:
        return None
    return coordinates * (2.0 * radius / measurement.n / privacy.epsilon)


@final
@dataclass(frozen=True)
class _Goal:
    """A target error. For each mechanism it gives the largest scale, and from that the records or the privacy needed."""

    statistic: FrechetMean
    error: float
    quantile: float | None
    mechanism: MechanismName
    law: Family | None

    def records(self, privacy: Privacy) -> int:
        """The fewest records for which some mechanism reaches the target error."""
        found: list[int] = []
        reasons: list[str] = []
        for candidate in self._candidates(privacy):
            try:
                found.append(self._records(candidate))
            except ValueError as reason:
                reasons.append(str(reason))
        if not found:
            raise ValueError(reasons[0])
        return min(found)

    def _records(self, candidate: Candidate) -> int:
        room = self._largest_scale(candidate) * candidate.ratio * (1.0 + 1e-9)
        tolerance = self._sensitivity(candidate, 2**62)
        if tolerance >= room:
            raise ValueError(
                f"no number of records is enough: {tolerance / candidate.ratio:.3g} of the scale is rounding in this ball"
            )
        low, high = 0, 1
        while self._sensitivity(candidate, high) > room:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._sensitivity(candidate, middle) > room else (low, middle)
        return high

    def privacy(self, n: int, solve: Unknown, delta: float | None) -> Privacy:
        """The least privacy for which some mechanism reaches the target error."""
        if delta is not None and solve != "epsilon":
            raise ValueError(f"a delta goes with an epsilon, not with a {solve}")
        # any amount works here: the list of mechanisms depends only on the notion
        example: Privacy = {
            "epsilon": PureDP(1.0) if delta is None else privacy_of(1.0, delta),
            "rho": ZeroConcentratedDP(1.0),
            "mu": GaussianDP(1.0),
        }[solve]
        found: list[Privacy] = []
        reasons: list[str] = []
        for candidate in self._candidates(example):
            try:
                ratio = self._sensitivity(candidate, n) / self._largest_scale(candidate)
                found.append(_kept(self._cost(candidate, ratio), example))
            except ValueError as reason:
                reasons.append(str(reason))
        if not found:
            raise ValueError(reasons[0])
        return min(found, key=lambda each: each.size)

    def _candidates(self, privacy: Privacy) -> list[Candidate]:
        asked = [
            candidate
            for candidate in candidates(self._hidden(2**62), privacy)
            if self.mechanism in ("auto", candidate.kind) and self.law in (None, candidate.family)
        ]
        if not asked:
            raise ValueError(f"there is no mechanism {self.mechanism!r} with the law {self.law!r}")
        return asked

    def _hidden(self, n: int) -> Hidden:
        return Measurement(self.statistic, n, PureDP(1.0)).hidden

    def _sensitivity(self, candidate: Candidate, n: int) -> float:
        hidden = self._hidden(n)
        return hidden.sensitivity if candidate.kind == "intrinsic" else hidden.tangent_sensitivity or math.inf

    def _cost(self, candidate: Candidate, ratio: float) -> Cost:
        assert candidate.ratio  # raises if this notion has none
        manifold = self.statistic.codomain
        make = intrinsic_cost if candidate.kind == "intrinsic" else lambda m, *rest: tangent_cost(m.dim, *rest)
        return make(manifold, candidate.family, ratio)

    def _largest_scale(self, candidate: Candidate) -> float:
        """The largest scale whose error is at most the goal's."""
        ball, manifold = self.statistic.ball, self.statistic.codomain
        cost = self._cost(candidate, 1.0)

        @cache
        def excess(log_scale: float) -> float:
            scale = math.exp(log_scale)
            noise: Mechanism
            if candidate.kind == "intrinsic":
                noise = IntrinsicMechanism(scale, candidate.family, cost, manifold, ball, projection_is_safe(ball))
            else:
                noise = TangentMechanism(scale, candidate.family, cost, ball)
            reached = noise.expected_error() if self.quantile is None else noise.error_quantile(self.quantile)
            return math.log(reached / self.error)

        # computing with wide noise is slow, so the search starts from the answer in a flat space
        unit = FlatNoise(manifold.dim, 1.0, candidate.family)
        flat = unit.mean_length() if self.quantile is None else unit.length_quantile(self.quantile)
        most = math.log(min(self._widest(candidate), 100.0 * self.error, 1e3 * manifold.diameter))
        low = high = min(math.log(self.error / flat), most)
        step = 0.2
        while excess(low) > 0.0:
            high, low, step = low, low - step, 2.0 * step
        while excess(high) <= 0.0:
            if high == most:
                return math.exp(most)
            low, high, step = high, min(high + step, most), 2.0 * step
        return math.exp(zero_between(excess, low, high, absolute=1e-11))

    def _widest(self, candidate: Candidate) -> float:
        if candidate.kind == "tangent":
            return math.inf
        return widest_drawable(self.statistic.codomain, candidate.family) * (1.0 - 1e-12)


def _kept(cost: Cost, example: Privacy) -> Privacy:
    """The least privacy, in the notion of the example, that a cost stays within."""
    match example:
        case PureDP():
            return PureDP(cost.epsilon)
        case ApproximateDP():
            return ApproximateDP(cost.epsilon_at(example.delta), example.delta)
        case ZeroConcentratedDP():
            return ZeroConcentratedDP(cost.rho)
        case _:
            return GaussianDP(cost.mu)
