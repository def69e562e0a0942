"""The commands ``geodp audit`` and ``geodp check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from geodp.cli.common import screen
from geodp.cli.options import COLUMNS, NOISE, PRIVACY, check_picture, command, place_of

#: What may be done about the output of ``geodp check``; the guide on balls has examples.
_MAY_FIX = (
    "You may fix how the file is read, if a document outside it says how and for all records alike; but no single record, nor "
    "the ball, nor whether to release. geodp coverage tells the same with noise, for any use."
)


@command(
    *("manifold", "radius", "center", *PRIVACY, "columns", "layout", "header", *NOISE, "plot", "as_json"),
    required=("manifold", "radius"),
)
def audit(
    n: Annotated[int | None, typer.Option("-n", "--n", "--records", help="Number of records; not with files.")] = None,
    first: Annotated[Path | None, typer.Option("--first", help="Records, as for geodp mean, instead of a worst case.")] = None,
    second: Annotated[
        Path | None, typer.Option("--second", help="The same records with one of them replaced, in the same order.")
    ] = None,
    path: Annotated[
        str,
        typer.Option(
            "--path",
            help="float: fast simulator of the law. exact: the sampler of private releases. release: a whole release each time.",
        ),
    ] = "float",
    draws: Annotated[
        int | None,
        typer.Option("--draws", help="Runs on each data set. Default: 1,000,000 (float), 200,000 (exact), 10,000 (release)."),
    ] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="Probability that the reported bound holds.")] = 0.99,
    seed: Annotated[int | None, typer.Option("--seed", help="Repeat an audit: the same seed gives the same result.")] = None,
    **given: Any,
) -> None:
    """Attack a release to measure how much it reveals: a lower bound on its epsilon, delta, rho or mu.

    Example: **geodp audit --manifold "Sphere(2)" --radius 0.39 --n 100 --epsilon 1**

    geodp makes many releases from two data sets that differ in one record: by default a worst case for this ball, or the
    two files you give. It chooses the event that distinguishes them best in one half of the runs and counts it in the other.
    --plot draws the histogram of the privacy loss.

    Exit code 0: the bound does not exceed the claim. 1: the claim is refuted. 2: bad input. An audit can refute a claim but
    never prove it.
    """
    from geodp.auditing import audit
    from geodp.files import read_records
    from geodp.privacy.notions import privacy_of

    plot, as_json = given.pop("plot"), given.pop("as_json")
    how: Any = {name: given.pop(name) for name in ("columns", "layout", "header")}
    place = place_of(None, given.pop("manifold"), given.pop("center"), given.pop("radius"))
    ball = place.public(how["layout"], None)
    privacy_of(*(given[name] for name in PRIVACY))
    if (first is None) != (second is None):
        raise ValueError("--first and --second go together: give both files or neither")
    if n is None and first is None:
        raise ValueError("give the number of records with --records, or two files with --first and --second")
    check_picture(plot)
    pair: Any = None
    if first is not None and second is not None:
        pair = tuple(read_records(file, ball.manifold, **how) for file in (first, second))
    chosen: Any = {"pair": pair, "draws": draws, "confidence": confidence, "path": path, "seed": seed}
    result = audit(ball, n, **given, **chosen, progress=True)
    print(result.to_json() if as_json else result)
    if plot is not None:
        from geodp.plots import privacy_loss

        privacy_loss(result, plot)
    if not result.consistent:
        raise typer.Exit(1)


@command("file", "ball", "manifold", "radius", "center", *COLUMNS)
def check(file: Any, ball: Any, manifold: Any, radius: Any, center: Any, **how: Any) -> None:
    """Show which records are invalid or outside the ball, for the curator only. **The output is not private.**

    Example: **geodp check tensors.csv --manifold "SPD(3)" --radius 1.5**

    Use it to find a wrong column or unit. Fix how the file is read, never what a record says.
    """
    import numpy as np

    from geodp.records.dataset import Dataset

    place = place_of(ball, manifold, center, radius)
    data = Dataset.read(file, place.manifold, **how)
    public, x = place.public(how["layout"], data.written), np.asarray(data.x, dtype=np.float64)
    valid = public.manifold.valid(x)
    outside = valid & ~public.contains(x)
    warning = "NOT PRIVATE: this describes individual records. Do not publish it, and do not tune the ball by it."
    screen.print(f"[bold red]{warning}[/]", soft_wrap=True)
    table = Table("records", "count", "first rows (from 0)")
    for name, which in (("valid and in the ball", valid & ~outside), ("outside the ball", outside), ("not points", ~valid)):
        rows = np.flatnonzero(which)
        table.add_row(name, str(len(rows)), ", ".join(map(str, rows[:10])) + (" ..." if len(rows) > 10 else ""))
    screen.print(table)
    if len(x) > 0 and not valid.any():
        print("None of the records is a point. Check that rows match the header, and set --layout.")
    print(_MAY_FIX)
