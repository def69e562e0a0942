"""The commands ``geodp budget open``, ``show``, ``history`` and ``risk``."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.markup import escape
from rich.table import Table

from geodp.cli.common import screen
from geodp.cli.options import check_picture, command, open_ledger

if TYPE_CHECKING:
    from geodp.privacy.ledger import Budget, Charge

budget = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Open and inspect privacy budgets.")


@budget.command(name="open")
@command("ledger")
def open_budget(
    ledger: Any,
    dataset: Annotated[str, typer.Argument(help="A name for the data set.")],
    epsilon: Annotated[str | None, typer.Option("--epsilon", "-e", help="Total epsilon that may ever be spent.")] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="With --epsilon: total delta.")] = None,
    rho: Annotated[str | None, typer.Option("--rho", help="Total rho of zero-concentrated privacy.")] = None,
    mu: Annotated[str | None, typer.Option("--mu", help="Total mu of Gaussian privacy.")] = None,
    compose: Annotated[
        str | None,
        typer.Option(
            "--compose",
            help="With --delta, how releases add up: 'sum' (default) adds epsilons and deltas, good for a few releases; 'rho' "
            "adds rhos up to the largest that implies epsilon and delta, good for many.",
        ),
    ] = None,
    neighbours: Annotated[
        str,
        typer.Option(
            "--neighbours",
            help="'replace' (default): the number of records is public; 'add-remove': it is private. The budget accepts releases "
            "that imply this.",
        ),
    ] = "replace",
    unit: Annotated[str | None, typer.Option("--unit", help="Who is protected: 'record' (default) or 'person'.")] = None,
) -> None:
    """Give a data set a total budget: --epsilon, --epsilon and --delta, --rho, or --mu.

    Example: **geodp budget open cohort-7 --epsilon 3 --delta 1e-6**

    You cannot change a total later. A budget in epsilon alone refuses Gaussian noise, which has no pure epsilon.
    """
    book = open_ledger(ledger)
    book.open(dataset, epsilon, delta=delta, rho=rho, mu=mu, compose=compose, neighbours=neighbours, unit=cast(Any, unit))
    given = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
    named = [f"{name} {value}" for name, value in given.items() if value is not None]
    total = epsilon if len(named) == 1 and epsilon is not None else " and ".join(named)
    how = ", added through rho" if compose == "rho" else ""
    place = repr(book).removeprefix("<Ledger ").removesuffix(">")  # without a password
    print(f"{dataset}: {total} to spend{how}, kept in {place}")


@budget.command()
@command("ledger", "as_json")
def show(ledger: Any, as_json: Any) -> None:
    """Show all data sets: what is spent and left, and what all releases so far reveal.

    **budget, spent, left**: in the budget's own unit. **advantage**: how much better than chance anyone can guess from all
    releases which of two possible records a person has, 0 for not at all and 1 for always right. **epsilon at delta 1e-6**: the
    same releases in epsilon and delta. Both are upper bounds, for releases whose cost was chosen in advance.
    """
    from geodp.privacy.budgets import COLUMNS

    book = open_ledger(ledger)
    budgets = [book.budget(name) for name in book.datasets()]
    if as_json:
        print(json.dumps([_budget_as_dict(each) for each in budgets], indent=2))
        return
    table = Table(*COLUMNS)
    for each in budgets:
        table.add_row(*map(escape, each.cells()))
    screen.print(table)


def _budget_as_dict(budget: Budget) -> dict[str, Any]:
    epsilon = budget.epsilon_at(1e-6)
    return {
        "dataset": budget.dataset,
        "unit": budget.unit,
        "total": _as_text(budget.total),
        "spent": _as_text(budget.spent),
        "left": _as_text(budget.left),
        "privacy": budget.promise.parameters(),
        "adds_up": budget.rule,
        "neighbours": budget.neighbours,
        "advantage": budget.advantage,
        "epsilon_at_delta_1e-6": epsilon if math.isfinite(epsilon) else None,
    }


def _as_text(amount: Any) -> str | dict[str, str]:
    """Exact decimals as text: one, or epsilon and delta."""
    return str(amount) if isinstance(amount, Decimal) else {name: str(value) for name, value in amount._asdict().items()}


@budget.command()
@command("ledger", "as_json")
def history(dataset: Annotated[str, typer.Argument(help="The data set.")], ledger: Any, as_json: Any) -> None:
    """Show every charge of a data set, and whether its receipt is on record."""
    charges = open_ledger(ledger).history(dataset)
    if as_json:
        print(json.dumps([_charge_as_dict(charge) for charge in charges], indent=2))
        return
    table = Table("charge", "day (UTC)", "charged", "asked for", "for", "receipt")
    for charge in charges:
        charged = " and ".join(f"{name} {value:.6g}" for name, value in _charged(charge).items())
        receipt = "yes" if charge.receipt else "none: no release is on record"
        table.add_row(str(charge.id), str(charge.at), charged, str(charge.privacy), escape(charge.what), receipt)
    screen.print(table)


def _charged(charge: Charge) -> dict[str, Decimal]:
    amounts = {"epsilon": charge.epsilon, "delta": charge.delta, "rho": charge.rho, "mu": charge.mu}
    return {name: value for name, value in amounts.items() if value is not None}


def _charge_as_dict(charge: Charge) -> dict[str, Any]:
    return {
        "id": charge.id,
        "at": charge.at.isoformat(),
        **{name: str(value) for name, value in _charged(charge).items()},
        "asked": charge.privacy.parameters(),
        "cost": charge.cost.to_dict(),
        "neighbours": charge.neighbours,
        "what": charge.what,
        "receipt": json.loads(charge.receipt) if charge.receipt else None,
        "receipt_sha256": charge.receipt_sha256,
    }


@budget.command()
@command("ledger", "as_json")
def risk(
    dataset: Annotated[str, typer.Argument(help="The data set.")],
    ledger: Any,
    as_json: Any,
    prior: Annotated[float, typer.Option("--prior", help="How sure someone is already, from 0 to 1.")] = 0.5,
    false_positives: Annotated[
        float, typer.Option("--false-positives", help="The false-positive rate of an attack, from 0 to 1.")
    ] = 0.01,
    chance: Annotated[
        float,
        typer.Option("--chance", help="Probability that the bound on becoming sure fails, if there is no pure epsilon."),
    ] = 1e-5,
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw the trade-off curve: .png, .svg or .pdf.")] = None,
) -> None:
    """Say what a budget means for the people in the data: how sure anyone can become about one of them.

    Example: **geodp budget risk cohort-7 --prior 0.1**

    **so far** covers all charges, if their costs were chosen in advance. **at most, ever** is what the total allows,
    however you spend it. Both are upper bounds, for attackers who know every other record.
    """
    from geodp.privacy.cost import cost_of
    from geodp.privacy.risk import Risk
    from geodp.privacy.risk import risk as risk_of

    check_picture(plot)
    opened = open_ledger(ledger).budget(dataset)
    risks = {"so far": risk_of(opened), "at most, ever": Risk((cost_of(opened.promise),), opened.neighbours)}
    asked = prior, false_positives, chance
    texts = {name: each.sentences(*asked) for name, each in risks.items()}
    if plot is not None:
        from geodp.plots import trade_off

        trade_off(risks, plot)
    if as_json:
        named = {"so_far": risks["so far"].to_dict(*asked), "ever": risks["at most, ever"].to_dict(*asked)}
        print(json.dumps({"dataset": opened.dataset, "neighbours": opened.neighbours, **named}, indent=2))
        return
    for name, sentences in texts.items():
        print(f"{name}:")
        print("\n".join(f"  {sentence}" for sentence in sentences))
