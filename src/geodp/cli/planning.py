"""The command ``geodp plan``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from geodp.cli.common import JsonOption, one_sentence
from geodp.cli.options import (
    BoundOption,
    CenterOption,
    DeltaOption,
    EpsilonOption,
    LawOption,
    ManifoldOption,
    MechanismOption,
    MuOption,
    RadiusOption,
    RhoOption,
    ball_of,
    check_picture,
)


def plan_command(
    manifold: ManifoldOption,
    radius: RadiusOption,
    n: Annotated[int | None, typer.Option("-n", "--records", help="Number of records.")] = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    mu: MuOption = None,
    error: Annotated[
        float | None, typer.Option("--error", help="Error to reach: expected, or with --quantile that quantile.")
    ] = None,
    quantile: Annotated[float | None, typer.Option("--quantile", help="With --error: probability of staying within it.")] = None,
    center: CenterOption = "origin",
    layout: Annotated[str, typer.Option("--layout", help="What the numbers of the centre mean, as for geodp mean.")] = "auto",
    solve: Annotated[
        str, typer.Option("--solve", help="With --records and --error: the number to find, epsilon, rho or mu.")
    ] = "epsilon",
    releases: Annotated[
        int | None, typer.Option("--releases", help="How many such releases are intended: which budget they need.")
    ] = None,
    mechanism: MechanismOption = "auto",
    law: LawOption = None,
    bound: BoundOption = "sharp",
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw error against the number of records: .png, .svg or .pdf.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The error of a release before spending: give two of --records, the privacy and --error.

    Reads no data. Example: **geodp plan --manifold "Sphere(2)" --radius 0.39 -n 1000 -e 1**

    The privacy is one of --epsilon, --epsilon and --delta, --rho, or --mu. All mechanisms are shown side by side; the one that a
    release would use is marked.
    """
    with one_sentence():
        from geodp.planning import plan

        options = {"--records": n, "--epsilon": epsilon, "--rho": rho, "--mu": mu, "--error": error}
        given = [name for name, value in options.items() if value is not None]
        if len(given) < 2 or {"--records", "--error"} < set(given):
            raise ValueError(f"give two of --records, the privacy (such as --epsilon) and --error: {_given(given)}")
        if quantile is not None and error is None:
            raise ValueError("--quantile goes with --error")
        ball = ball_of(manifold, center, radius, layout)
        if plot is not None:
            check_picture(plot)
        result = plan(
            ball,
            n,
            epsilon,
            delta,
            rho,
            mu,
            error=error,
            quantile=quantile,
            solve=cast(Any, solve),
            releases=releases,
            mechanism=cast(Any, mechanism),
            law=cast(Any, law),
            bound=cast(Any, bound),
        )
        if plot is not None:
            from geodp.plots import error_against_n

            error_against_n(ball, result.privacy, result.n, plot)
        print(json.dumps(result.to_dict(), indent=2) if as_json else result)


def _given(names: list[str]) -> str:
    if not names:
        return "given was none of them"
    return f"given was {names[0]} alone" if len(names) == 1 else f"given were {', '.join(names)}"
