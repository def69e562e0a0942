"""The command ``geodp audit``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from geodp.cli.common import JsonOption, one_sentence
from geodp.cli.options import (
    BoundOption,
    CenterOption,
    ColumnsOption,
    DeltaOption,
    EpsilonOption,
    HeaderOption,
    LawOption,
    LayoutOption,
    ManifoldOption,
    MechanismOption,
    MuOption,
    RadiusOption,
    RhoOption,
    check_picture,
    place_of,
)


def audit_command(
    manifold: ManifoldOption,
    radius: RadiusOption,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    mu: MuOption = None,
    n: Annotated[int | None, typer.Option("-n", "--n", "--records", help="Number of records; not with files.")] = None,
    center: CenterOption = "origin",
    first: Annotated[Path | None, typer.Option("--first", help="Records, as for geodp mean, instead of a worst case.")] = None,
    second: Annotated[
        Path | None, typer.Option("--second", help="The same records with one of them replaced, in the same order.")
    ] = None,
    columns: ColumnsOption = None,
    layout: LayoutOption = "auto",
    header: HeaderOption = None,
    mechanism: MechanismOption = "auto",
    law: LawOption = None,
    bound: BoundOption = "sharp",
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
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the histogram of the privacy loss: .png, .svg or .pdf.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Attack a release to measure how much it reveals: a lower bound on its epsilon, delta, rho or mu.

    Example: **geodp audit --manifold "Sphere(2)" --radius 0.39 --n 100 --epsilon 1**

    geodp makes many releases from two data sets that differ in one record: by default a worst case for this ball, or the
    two files you give. It chooses the event that distinguishes them best in one half of the runs and counts it in the other.

    Exit code 0: the bound does not exceed the claim. 1: the claim is refuted. 2: bad input. An audit can refute a claim but
    never prove it.
    """
    with one_sentence():
        from geodp.auditing import audit
        from geodp.files import read_records
        from geodp.privacy.notions import privacy_of

        ball = place_of(None, manifold, center, radius).ball(layout, None)
        privacy_of(epsilon, delta, rho, mu)
        if (first is None) != (second is None):
            raise ValueError("--first and --second go together: give both files or neither")
        if n is None and first is None:
            raise ValueError("give the number of records with --records, or two files with --first and --second")
        if plot is not None:
            check_picture(plot)
        pair = None
        if first is not None and second is not None:
            read = partial(read_records, manifold=ball.manifold, columns=columns, layout=layout, header=header)
            pair = read(first), read(second)
        result = audit(
            ball,
            n,
            epsilon,
            delta,
            rho,
            mu,
            mechanism=cast(Any, mechanism),
            law=cast(Any, law),
            pair=pair,
            draws=draws,
            confidence=confidence,
            path=cast(Any, path),
            bound=cast(Any, bound),
            seed=seed,
            progress=True,
        )
        print(result.to_json() if as_json else result)
        if plot is not None:
            from geodp.plots import privacy_loss

            privacy_loss(result, plot)
    if not result.consistent:
        raise typer.Exit(1)
