"""``python -m paper``: the experiments of the paper, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from paper.experiment import FULL, QUICK
from paper.report import claims_of, write_report
from paper.run import NAMES, run


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Experiments to run, all by default: {', '.join(NAMES)}.")] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Average over many draws, or enough for a first look.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same tables.")] = 0,
    out: Annotated[Path, typer.Option(help="Where tables, figures and the report go.")] = Path("paper-results"),
    processes: Annotated[int, typer.Option(help="Worker processes; -1 for one a core.")] = -1,
) -> None:
    """Run the experiments of the paper again, next to ours, and check its theorems and our claims.

    Tables (CSV), figures (PNG, SVG) and a self-contained report.html go to the output folder. An interrupted run continues
    where it stopped. The exit code is 1 if a claim does not hold. Processor time, over all cores: about 70 s with --quick, 8
    minutes with --full.
    """
    for name in names or ():
        if name not in NAMES:
            raise typer.BadParameter(f"there is no experiment {name!r}: name some of {', '.join(NAMES)}")
    settings = FULL if full else QUICK
    try:
        results = run(names or NAMES, settings, seed, out, processes)
        held = write_report(results, settings, seed, out)
    except KeyboardInterrupt:
        typer.echo(f"stopped. Finished tasks are kept in {out}, and the same command continues from there", err=True)
        raise typer.Exit(130) from None
    table = Table("experiment", "claim", "measured", "holds")
    for name, claim, measured, holds in claims_of(results).itertuples(index=False):
        table.add_row(name, escape(claim), escape(measured), "yes" if holds else "no")
    Console().print(table)
    typer.echo(f"report      {out / 'report.html'}")
    raise typer.Exit(0 if held else 1)


if __name__ == "__main__":
    typer.run(main)
