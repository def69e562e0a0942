"""Budgets in every notion: what a release costs in each, exact sums, one sentence for what cannot be, and what it all means."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tempfile
from decimal import ROUND_UP, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import mpmath
import numpy as np
import postgres
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geodp
from geodp.privacy.budgets import PAIR, EpsilonDelta, releases_admitted, terms_of
from geodp.privacy.cost import (
    ApproximateCost,
    ConcentratedCost,
    Cost,
    GaussianCost,
    LaplaceCost,
    PureCost,
    SumCost,
    compose,
    gaussian_shift,
    laplace_ratio,
)
from geodp.privacy.ledger import BudgetExhausted, Ledger, LedgerError
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP

ASKED = ApproximateDP(1.0, 1e-6)
TANGENT = LaplaceCost(laplace_ratio(ASKED, 78) or 0.0, 78)
NORMAL = GaussianCost(gaussian_shift(ASKED) or 0.0)

#: How each kind of budget is opened; a thousandth of it, in its own unit, can be charged.
BUDGETS: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": 3},
    "epsilon and delta": {"epsilon": 3, "delta": "1e-5"},
    "rho": {"rho": "0.5"},
    "through rho": {"epsilon": 3, "delta": "1e-5", "compose": "rho"},
    "mu": {"mu": 2},
}


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path}/budget.db" if request.param == "sqlite" else postgres.server().url())


@pytest.fixture
def books(tmp_path: Path) -> Ledger:
    """A ledger with a data set for every kind of budget."""
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    for name, terms in BUDGETS.items():
        ledger.open(name, **terms)
    return ledger


def amounts(charge: Any) -> dict[str, Decimal]:
    found = {name: getattr(charge, name) for name in ("epsilon", "delta", "rho", "mu")}
    return {name: value for name, value in found.items() if value is not None}


# ---------------------------------------------------------------------- opening


def test_the_errors_are_public_names() -> None:
    assert (geodp.BudgetExhausted, geodp.LedgerError) == (BudgetExhausted, LedgerError)
    assert issubclass(geodp.LedgerLocked, geodp.LedgerError)


@pytest.mark.parametrize("kind", BUDGETS)
def test_opening_again_on_the_same_terms_changes_nothing(ledger: Ledger, kind: str) -> None:
    ledger.open("scans", **BUDGETS[kind])
    before = ledger.budget("scans")
    ledger.open("scans", **{name: f"{value}0" if "." in str(value) else value for name, value in BUDGETS[kind].items()})
    assert ledger.budget("scans") == before
    assert before.spent == before.cost.epsilon == 0 or before.spent == (0, 0)


def test_compose_defaults_to_the_plain_sum(ledger: Ledger) -> None:
    ledger.open("scans", epsilon=3, delta=1e-5)
    ledger.open("scans", epsilon=3, delta=1e-5, compose="sum")
    assert ledger.total("scans") == EpsilonDelta(Decimal(3), Decimal("0.00001"))
    assert ledger.remaining("scans").delta == Decimal("0.00001")


@pytest.mark.parametrize(("kind", "other"), list(itertools.permutations(BUDGETS, 2)))
def test_opening_again_in_another_unit_is_refused(books: Ledger, kind: str, other: str) -> None:
    with pytest.raises(LedgerError, match=f"'{kind}' is open with a total .*: a total cannot be changed") as caught:
        books.open(kind, **BUDGETS[other])
    assert len(str(caught.value)) < 300
    with pytest.raises(LedgerError, match="neighbours: add or remove one record"):
        books.open(kind, **BUDGETS[kind], neighbours="add or remove one record")


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ({}, "exactly one of epsilon, epsilon and delta, rho, or mu"),
        ({"epsilon": 1, "rho": 1}, "given were epsilon and rho"),
        ({"rho": 1, "delta": 1e-6}, "given were delta and rho"),
        ({"delta": 1e-6}, "a delta goes with an epsilon"),
        ({"epsilon": 1, "delta": 0}, "delta must be above 0 and below 1 but is 0: for pure"),
        ({"epsilon": 1, "delta": 1}, "delta must be above 0 and below 1 but is 1"),
        ({"epsilon": 1, "delta": "1e-31"}, "30 digits"),
        ({"epsilon": 1, "delta": "nan"}, "delta must be positive and finite"),
        ({"rho": -1}, "rho must be positive and finite but is -1"),
        ({"mu": "inf"}, "mu must be positive and finite"),
        ({"rho": "half"}, "rho must be a number"),
        ({"epsilon": 1, "compose": "rho"}, "compose is for budgets in epsilon and delta"),
        ({"rho": 1, "compose": "sum"}, "compose is for budgets in epsilon and delta"),
        ({"epsilon": 1, "delta": 1e-6, "compose": "moments"}, "compose must be 'sum' or 'rho'"),
        ({"epsilon": "1e-30", "delta": "1e-30", "compose": "rho"}, "no rho of 30 digits implies"),
    ],
)
def test_terms_that_cannot_be_are_one_sentence_and_open_nothing(books: Ledger, terms: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        books.open("new", **terms)
    assert "\n" not in str(caught.value)
    assert "new" not in books.datasets()
    if "compose" not in terms:
        for spend in (books.check, lambda *args, **options: books.charge(*args, what="mean", **options)):
            with pytest.raises(ValueError, match=sentence):
                spend("rho", **terms)


def test_the_rho_of_a_budget_in_epsilon_and_delta_is_the_largest_that_implies_them() -> None:
    def delta(rho: float, epsilon: float) -> float:
        """Proposition 12 of Canonne, Kamath and Steinke (2020), on a dense grid of orders."""
        a = 1.0 + np.exp(np.linspace(-8.0, 12.0, 400_001))
        return float(np.exp(((a - 1) * (a * rho - epsilon) - np.log(a - 1) + a * np.log1p(-1 / a)).min()))

    for epsilon, wanted in ((1.0, 1e-6), (3.0, 1e-5), (0.1, 1e-9)):
        rho = float(terms_of(epsilon=epsilon, delta=wanted, compose="rho").total.rho or 0)
        assert delta(rho, epsilon) <= wanted * (1.0 + 1e-6)
        assert delta(rho * (1.0 + 1e-4), epsilon) > wanted
    assert round(float(terms_of(epsilon=1, delta=1e-6, compose="rho").total.rho or 0), 5) == 0.02436


# ---------------------------------------------------------------------- what a release costs in each unit

#: What is charged for a release in epsilon, in epsilon and delta, in rho and in mu; None if it is refused.
PRICES: dict[str, tuple[Cost | None, Privacy, tuple[Any, ...]]] = {
    # t = 2.205 and rho = .0312 in 78 dimensions; mu would be 2.57, which is more than the budget of 2
    "Laplace": (TANGENT, ASKED, (2.2053, (1, 1e-6), 0.03117, "exhausted")),
    "Gaussian": (NORMAL, ASKED, (None, (1, 1e-6), 0.2367044**2 / 2, 0.2367044)),
    "Gaussian in rho": (GaussianCost(0.2), ZeroConcentratedDP(0.02000001), (None, None, 0.02000001, 0.2)),
    "Laplace in rho": (LaplaceCost(1.0, 3), ZeroConcentratedDP(0.2), (1, (1, 0), 0.2, 1.23203)),
    "pure by hand": (
        None,
        PureDP(0.5),
        (0.5, (0.5, 0), 0.5 * math.tanh(0.25), -2 * NormalDist().inv_cdf(1 / (1 + math.exp(0.5)))),
    ),
    "pair by hand": (None, ASKED, (None, (1, 1e-6), None, None)),
    "rho by hand": (None, ZeroConcentratedDP(0.02), (None, None, 0.02, None)),
    "mu by hand": (None, GaussianDP(0.2), (None, None, 0.02, 0.2)),
}
COLUMNS = {"epsilon": 0, "epsilon and delta": 1, "rho": 2, "through rho": 2, "mu": 3}
NO_PRICE = r"the budget of '.*' is in .*, and .* has no (pure epsilon|rho|known mu): \w+"


@pytest.mark.parametrize("release", PRICES)
@pytest.mark.parametrize("kind", BUDGETS)
def test_a_charge_is_the_cost_in_the_budgets_unit_or_refused_with_the_reason(books: Ledger, kind: str, release: str) -> None:
    cost, privacy, prices = PRICES[release]
    wanted = prices[COLUMNS[kind]]
    if wanted in (None, "exhausted"):
        for spend in (books.check, lambda *args, **options: books.charge(*args, what="mean", **options)):
            with pytest.raises(LedgerError, match=NO_PRICE if wanted is None else "this release costs") as caught:
                spend(kind, cost=cost, privacy=privacy)
            assert isinstance(caught.value, BudgetExhausted) == (wanted is not None)
        assert books.history(kind) == []
        return
    books.check(kind, cost=cost, privacy=privacy)
    charge = books.charge(kind, cost=cost, privacy=privacy, what="mean")
    assert books.history(kind) == [charge]
    found = [float(value) for value in amounts(charge).values()]
    assert found == pytest.approx(np.atleast_1d(wanted).tolist(), rel=1e-4)
    assert charge.privacy == privacy
    if cost is not None:
        assert charge.cost == cost


def test_a_pure_budget_says_why_it_takes_no_gaussian(books: Ledger) -> None:
    with pytest.raises(LedgerError) as caught:
        books.charge("epsilon", cost=NORMAL, privacy=ASKED, what="mean")
    assert str(caught.value) == (
        "the budget of 'epsilon' is in pure epsilon, and Gaussian noise has no pure epsilon: ask for epsilon alone, or charge a "
        "budget in epsilon and delta, rho or mu"
    )


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, 1 / 3, 1e-9])
def test_what_is_asked_for_in_the_budgets_unit_is_charged_as_written_and_all_else_is_rounded_up(value: float) -> None:
    for names, privacy in (("epsilon", PureDP(value)), ("rho", ZeroConcentratedDP(value)), ("mu", GaussianDP(value))):
        price = terms_of(**{names: 1}).unit.price(terms_of(**privacy.parameters()).promise, PureCost(value))
        assert price.numbers == {names: Decimal(repr(value))}
    asked = terms_of(epsilon=1, delta=1e-6).promise
    for cost in (LaplaceCost(value, 6), GaussianCost(value)):
        rho = terms_of(rho=1).unit.price(asked, cost).numbers["rho"]
        assert Fraction(cost.rho) <= Fraction(rho) < Fraction(cost.rho) + Fraction(1, 10**30)
    # by hand: 0.3 is a little more than the float 0.3, and so is what follows from it
    exact = Fraction(repr(value)) ** 2 / 2
    from geodp.privacy.budgets import cost_claimed

    by_hand = terms_of(rho=1).unit.price(terms_of(mu=value).promise, cost_claimed(terms_of(mu=value).promise)).numbers["rho"]
    assert exact <= Fraction(by_hand) < exact * (1 + Fraction(1, 10**15)) + Fraction(1, 10**30)


def test_a_cost_above_what_was_asked_for_is_refused(books: Ledger) -> None:
    for cost, privacy in (
        (LaplaceCost(1.001, 3), PureDP(1.0)),
        (LaplaceCost(TANGENT.ratio * 1.001, 78), ASKED),
        (GaussianCost(0.2001), ZeroConcentratedDP(0.02)),
        (GaussianCost(0.2001), GaussianDP(0.2)),
    ):
        with pytest.raises(ValueError, match="exceeds the requested privacy"):
            books.charge("rho", cost=cost, privacy=privacy, what="mean")
    with pytest.raises(ValueError, match="exactly one of"):
        books.charge("rho", cost=NORMAL, what="mean")
    with pytest.raises(ValueError, match="given twice"):
        books.charge("rho", 1, privacy=ASKED, what="mean")
    with pytest.raises(TypeError, match="the cost must be a Cost"):
        books.charge("rho", 1, cost=1.0, what="mean")
    with pytest.raises(TypeError, match="the privacy must be a notion"):
        books.charge("rho", privacy=1.0, what="mean")
    assert books.history("rho") == []


@dataclasses.dataclass(frozen=True)
class OwnCost(Cost):
    """A cost that no ledger could read back."""

    kind = "own"
    epsilon = rho = mu = 0.5

    def delta_enclosure(self, epsilon: float) -> Any:
        return PureCost(0.5).delta_enclosure(epsilon)


def test_a_cost_that_could_not_be_read_back_is_refused_before_the_charge(books: Ledger) -> None:
    for cost in (OwnCost(), LaplaceCost(0.5, np.int64(3))):
        for spend in (books.check, lambda *args, **options: books.charge(*args, what="mean", **options)):
            with pytest.raises(TypeError, match="cannot be stored"):
                spend("epsilon", 0.5, cost=cost)
    kept = compose([GaussianCost(0.1), compose([LaplaceCost(0.1, 3), ApproximateCost(0.1, 1e-9)])])
    charge = books.charge("epsilon and delta", epsilon=1, delta=1e-6, cost=kept, what="three at once")
    assert books.history("epsilon and delta") == [charge]


def test_exact_decimals_may_go_with_a_cost(books: Ledger) -> None:
    charge = books.charge("epsilon", Decimal("0.1000000000000000000000000001"), cost=LaplaceCost(0.1, 2), what="mean")
    assert (charge.epsilon, charge.cost) == (Decimal("0.1000000000000000000000000001"), LaplaceCost(0.1, 2))


def test_a_charge_about_other_neighbours_is_refused(ledger: Ledger) -> None:
    ledger.open("scans", rho=1)
    ledger.open("visits", rho=1, neighbours="add or remove one record")
    whys = "to replace a record is to remove one and to add another", "the number of records is public in this release"
    for name, other, why in (("scans", "add or remove one record", whys[0]), ("visits", "replace one record", whys[1])):
        for spend in (ledger.check, lambda *args, **options: ledger.charge(*args, what="mean", **options)):
            with pytest.raises(
                LedgerError, match=f"has the neighbours .*, and this charge '{other}', which does not imply them, because {why}"
            ):
                spend(name, rho=0.1, neighbours=other)
    assert ledger.charge("visits", rho=0.1, neighbours="add or remove one record", what="mean").neighbours.startswith("add")
    assert ledger.budget("visits").neighbours == "add or remove one record"


# ---------------------------------------------------------------------- exact sums


def test_three_and_four_make_five_in_mu(ledger: Ledger) -> None:
    ledger.open("scans", mu="0.5")
    ledger.charge("scans", mu=0.3, what="mean")
    assert ledger.remaining("scans") == Decimal("0.4")
    for more in ("0.400000000000000000000000000001", 0.5):
        with pytest.raises(BudgetExhausted, match=r"has mu 0.4 of 0.5 left, mu 0.\d+ was asked for: ask for at most mu 0.4"):
            ledger.charge("scans", mu=more, what="mean")
    ledger.charge("scans", mu=0.4, what="mean")
    assert (ledger.spent("scans"), ledger.remaining("scans")) == (Decimal("0.5"), 0)
    with pytest.raises(BudgetExhausted, match="no further release from it is possible"):
        ledger.charge("scans", mu="1e-30", what="mean")


def test_what_is_left_of_mu_is_rounded_down_and_can_be_charged(ledger: Ledger) -> None:
    ledger.open("scans", mu=1)
    ledger.charge("scans", mu=0.5, what="mean")
    left, spent = ledger.remaining("scans"), ledger.spent("scans")
    assert Fraction(left) ** 2 < Fraction(3, 4) < (Fraction(left) + Fraction(1, 10**30)) ** 2
    assert spent == Decimal("0.5")
    ledger.charge("scans", mu=left, what="mean")
    assert 0 < 1 - sum(Fraction(charge.mu) ** 2 for charge in ledger.history("scans")) < Fraction(2, 10**30)
    # the root of what is spent is no longer a decimal: rounded up, it is all
    assert ledger.spent("scans") == 1
    with pytest.raises(BudgetExhausted):
        ledger.charge("scans", mu="1e-14", what="mean")


def test_epsilon_and_delta_are_each_limited(ledger: Ledger) -> None:
    ledger.open("scans", epsilon=1, delta="3e-6")
    ledger.charge("scans", epsilon=0.5, delta=1e-6, what="mean")
    with pytest.raises(BudgetExhausted) as caught:
        ledger.charge("scans", epsilon=0.1, delta=2.5e-6, what="mean")
    assert str(caught.value) == (
        "the data set 'scans' has epsilon 0.5 of 1 and delta 0.000002 of 0.000003 left, epsilon 0.1 and delta 0.0000025 was "
        "asked for: ask for at most epsilon 0.5 and delta 0.000002"
    )
    with pytest.raises(BudgetExhausted):
        ledger.charge("scans", epsilon=0.6, delta=1e-6, what="mean")
    ledger.charge("scans", epsilon=0.1, delta="2e-6", what="mean")
    ledger.charge("scans", epsilon=0.4, what="pure")
    assert ledger.remaining("scans") == (0, 0)
    assert [charge.delta for charge in ledger.history("scans")] == [Decimal("0.000001"), Decimal("0.000002"), 0]


def first(value: Any) -> Fraction:
    return Fraction(value[0] if isinstance(value, tuple) else value)


numbers = st.integers(1, 10**12).map(lambda units: Decimal(units).scaleb(-12))


@pytest.mark.parametrize("kind", BUDGETS)
@given(parts=st.lists(st.one_of(numbers, st.sampled_from(["half", "all", "a unit too much"])), max_size=6))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_any_charges_add_exactly_and_never_pass_the_total(kind: str, parts: list[Any]) -> None:
    name = "rho" if "rho" in kind else kind.split()[0]
    power = 2 if name == "mu" else 1
    step = Fraction(1, 10**30)
    with tempfile.TemporaryDirectory() as folder, localcontext(prec=3, rounding=ROUND_UP):
        ledger = Ledger(f"sqlite:///{folder}/budget.db")
        ledger.open("scans", **BUDGETS[kind])
        total, spent = first(ledger.total("scans")) ** power, Fraction(0)
        for part in [*parts, "a unit too much", "all"]:
            left = first(ledger.remaining("scans"))
            # an oracle in fractions: the largest multiple of 1e-30 that fits
            assert left**power <= total - spent < (left + step) ** power
            asked = {"half": left / 2 // step * step, "all": left, "a unit too much": left + step}.get(part, part)
            if asked == 0:
                continue
            text = f"{int(Fraction(asked) / step)}e-30"
            fits = spent + Fraction(asked) ** power <= total
            try:
                charge = ledger.charge("scans", **{name: text}, what="mean")
            except BudgetExhausted:
                assert not fits
            else:
                assert fits
                assert Fraction(getattr(charge, name)) == Fraction(asked)
                spent += Fraction(asked) ** power
            known = first(ledger.spent("scans"))
            assert known**power >= spent
            assert known == 0 or (known - step) ** power < spent
        assert spent <= total
        if power == 1:
            assert spent == total


def test_a_cost_past_all_totals_is_refused_like_any_other(books: Ledger) -> None:
    with pytest.raises(BudgetExhausted, match="this release costs"):
        books.charge("rho", 10**9, what="mean")
    for epsilon in (36, 10**9):
        with pytest.raises(LedgerError, match="has no known mu"):
            books.charge("mu", epsilon, what="mean")


# ---------------------------------------------------------------------- how many fit


@pytest.mark.parametrize("privacy", [ASKED, PureDP(0.5), ZeroConcentratedDP(0.05), GaussianDP(0.3)])
@pytest.mark.parametrize("kind", BUDGETS)
def test_as_many_releases_are_admitted_as_the_ledger_takes(kind: str, privacy: Privacy, books: Ledger) -> None:
    cost: Cost = PureCost(privacy.epsilon) if isinstance(privacy, PureDP) else GaussianCost(gaussian_shift(privacy) or 0.0)
    promised = releases_admitted(cost, privacy, **BUDGETS[kind])
    taken = 0
    try:
        while taken <= promised:
            books.charge(kind, cost=cost, privacy=privacy, what="mean")
            taken += 1
    except LedgerError:
        pass
    assert taken == promised < 100


def test_which_way_admits_more_depends_on_the_releases() -> None:
    def counts(privacy: Privacy, dim: int) -> list[int]:
        cost = LaplaceCost(laplace_ratio(privacy, dim) or 0.0, dim)
        return [releases_admitted(cost, privacy, epsilon=1, delta=1e-6, compose=way) for way in ("sum", "rho")]

    # one release at (1, 1e-6) in 78 dimensions has rho = .0312, more than the .0244 of the whole budget
    assert counts(ASKED, 78) == [1, 0]
    plain, through = counts(ApproximateDP(0.01, 1e-9), 78)
    assert plain == 100 < through


# ---------------------------------------------------------------------- what it means


def exact_delta(laws: list[list[tuple[float, float]]], epsilon: float) -> float:
    """The largest gap between two products of finite laws, by listing all outcomes."""
    total = 0.0
    for outcome in itertools.product(*laws):
        p, q = math.prod(pair[0] for pair in outcome), math.prod(pair[1] for pair in outcome)
        total += max(p - math.exp(epsilon) * q, 0.0)
    return total


def worst(epsilon: float, delta: float) -> list[tuple[float, float]]:
    """Outcomes of the worst mechanism with (epsilon, delta), under either data set."""
    often, seldom = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    return [(delta, 0.0), (0.0, delta), (often, seldom), (seldom, often)]


def test_claims_of_epsilon_and_delta_compose_above_the_worst_mechanisms() -> None:
    claims = [(0.5, 0.01), (0.3, 0.02), (0.8, 0.005), (0.2, 0.0)]
    parts = [ApproximateCost(*claim) if claim[1] else PureCost(claim[0]) for claim in claims]
    total = compose([compose(parts[:2]), compose(parts[2:])])  # sums within sums
    for epsilon in np.linspace(0.0, 2.5, 26):
        assert exact_delta([worst(*claim) for claim in claims], epsilon) <= total.delta_at(epsilon)
    # and close to it where it matters: beyond the sum of the epsilons only the deltas are left
    assert total.delta_at(1.81) == pytest.approx(0.035, abs=1e-9)
    # without the deltas the bound would be wrong
    assert exact_delta([worst(*claim) for claim in claims], 1.8) > SumCost(tuple(PureCost(e) for e, _ in claims)).delta_at(1.8)
    assert total.epsilon_at(0.03) == math.inf
    assert ApproximateCost(1.0, 1e-3).epsilon_at(1e-6) == math.inf


def test_gaussians_compose_by_their_squares() -> None:
    total = compose([GaussianCost(0.3), GaussianCost(0.4)])
    assert total.mu == pytest.approx(0.5, rel=1e-12)
    assert Fraction(total.mu) ** 2 >= Fraction(0.3) ** 2 + Fraction(0.4) ** 2
    for epsilon in (0.0, 0.5, 2.0):
        assert total.delta_at(epsilon) == pytest.approx(GaussianCost(0.5).delta_at(epsilon), rel=1e-9)
    assert compose([GaussianCost(1e-200)] * 2).mu == pytest.approx(math.sqrt(2) * 1e-200)
    assert (compose([GaussianCost(0.3), ConcentratedCost(0.1)]).mu, compose([]).advantage) == (math.inf, 0.0)


@pytest.mark.parametrize("epsilon", [1e-20, 1e-9, 1e-4, 0.3, 0.99, 1.0, 3.0, 20.0, 35.0])
def test_the_mu_of_a_pure_claim_is_a_bound_to_the_last_digit(epsilon: float) -> None:
    with mpmath.workdps(60):
        wanted = mpmath.sqrt(8) * mpmath.erfinv(mpmath.tanh(mpmath.mpf(epsilon) / 2))
        assert wanted <= mpmath.mpf(PureCost(epsilon).mu) <= wanted * (1 + mpmath.mpf("1e-12"))


def test_a_budget_says_what_all_its_charges_mean(ledger: Ledger) -> None:
    ledger.open("scans", epsilon=3, delta="2e-6")
    assert ledger.budget("scans").advantage == 0.0
    ledger.charge("scans", epsilon=1, delta=1e-6, what="somebody else's")
    ledger.charge("scans", cost=NORMAL, privacy=ApproximateDP(1.0, 1e-6), what="mean")
    budget = ledger.budget("scans")
    assert budget.spent == (2, Decimal("0.000002"))
    assert (budget.unit, budget.left) == ("epsilon and delta", (1, 0))
    # the float 1e-6 is a little less than what was claimed
    assert budget.cost == compose([ApproximateCost(1.0, math.nextafter(1e-6, 1.0)), NORMAL])
    # what is spent is true at its own delta; below the claim's delta nothing is known
    assert budget.epsilon_at(2e-6) <= 2.0
    assert budget.epsilon_at(0.9e-6) == math.inf
    assert math.tanh(0.5) < budget.advantage < math.tanh(0.5) + NORMAL.advantage
    assert str(budget).splitlines()[:3] == [
        "budget      scans: epsilon = 3, delta = 2e-06; neighbours: replace one record",
        "spent       epsilon 2 of 3 and delta 2e-06 of 2e-06 (epsilons add up, and so do deltas)",
        "left        1 and 0",
    ]
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.unit = "rho"  # that it cannot be set is what is tested


@pytest.mark.parametrize("kind", BUDGETS)
def test_a_full_budget_means_no_more_than_it_promised(kind: str, books: Ledger) -> None:
    name = "rho" if "rho" in kind else kind.split()[0]
    total = books.total(kind)
    books.charge(kind, **(total._asdict() if isinstance(total, tuple) else {name: total}), what="all of it")
    budget = books.budget(kind)
    assert budget.left == 0 or budget.left == (0, 0)
    if isinstance(budget.promise, ApproximateDP):
        assert budget.epsilon_at(budget.promise.delta) <= budget.promise.epsilon * (1 + 1e-9)
    assert PAIR.words in str(budget) or kind != "epsilon and delta"
    assert budget.rule in str(budget)


# ---------------------------------------------------------------------- whom a budget protects


def test_a_budget_is_opened_and_charged_in_the_words_of_releases(ledger: Ledger) -> None:
    ledger.open("visits", 3, neighbours="add-remove", unit="person")
    ledger.open("visits", 3, neighbours="add or remove one person")
    charge = ledger.charge("visits", 1, neighbours="add-remove", unit="person", what="mean")
    assert charge.neighbours == "add or remove one person"
    ledger.open("scans", 1, unit="person")
    with pytest.raises(LedgerError, match=r"a person may have several records: say whose each record is with unit="):
        ledger.check("visits", 1, neighbours="add-remove")
    with pytest.raises(LedgerError, match="to replace a person is to remove one and to add another"):
        ledger.check("scans", 1, neighbours="add-remove", unit="person")
    for wrong in ({"unit": "family"}, {"neighbours": "replace one record", "unit": "person"}):
        with pytest.raises(ValueError, match="unit"):
            ledger.open("other", 1, **wrong)


def test_neighbours_in_your_own_words_imply_the_same_words_alone(ledger: Ledger) -> None:
    ledger.open("wards", 1, neighbours="replace one ward")
    assert ledger.charge("wards", "0.5", neighbours="replace one ward", what="mean").neighbours == "replace one ward"
    for name in ("replace", "replace one hospital"):
        with pytest.raises(LedgerError, match="imply only the same words"):
            ledger.check("wards", "0.5", neighbours=name)


def test_a_charge_whose_labels_are_public_is_taken_and_the_budget_says_so(ledger: Ledger) -> None:
    kept = "replace one record, which keeps its group"
    ledger.open("scans", 1)
    ledger.charge("scans", "0.5", what="mean")
    assert ledger.budget("scans").neighbours == "replace one record"
    assert ledger.charge("scans", "0.5", neighbours=kept, what="means by group").neighbours == kept
    assert ledger.budget("scans").neighbours == kept
    ledger.open("hidden", 1, neighbours="add-remove")
    with pytest.raises(LedgerError, match="the number of records is public in this release and private in the budget"):
        ledger.check("hidden", 1, neighbours=kept)
