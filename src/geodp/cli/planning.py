"""The command ``geodp plan``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from geodp.cli.options import NOISE, PRIVACY, ball_of, check_picture, command


@command("manifold", *PRIVACY, "center", *NOISE, "as_json", required=("manifold",))
def plan(
    radius: Annotated[
        float | None,
        typer.Option("--radius", "-r", help="Public radius of the ball; with --spread, a wide one, or none on compact spaces."),
    ] = None,
    n: Annotated[int | None, typer.Option("-n", "--records", help="Number of records.")] = None,
    error: Annotated[
        float | None, typer.Option("--error", help="Largest acceptable error: expected, or with --quantile that quantile.")
    ] = None,
    quantile: Annotated[float | None, typer.Option("--quantile", help="With --error: probability of staying within it.")] = None,
    layout: Annotated[str, typer.Option("--layout", help="What the numbers of the centre mean, as for geodp mean.")] = "auto",
    solve: Annotated[
        str, typer.Option("--solve", help="With --records and --error: the number to find, epsilon, rho or mu.")
    ] = "epsilon",
    spread: Annotated[
        float | None,
        typer.Option(
            "--spread",
            help="Plan geodp ball and geodp mean together: a guess of how far records are from their centre (root mean square).",
        ),
    ] = None,
    find: Annotated[
        float | None, typer.Option("--find", help="With --spread: the part of the privacy for the ball. Default: the best.")
    ] = None,
    releases: Annotated[
        int | None, typer.Option("--releases", help="How many such releases you intend; shows the budget they need.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw error against the number of records: .png, .svg or .pdf.")
    ] = None,
    **given: Any,
) -> None:
    """Compute the error of a release before spending: give two of --records, the privacy and --error.

    Reads no data. Example: **geodp plan --manifold "Sphere(2)" --radius 0.39 -n 1000 -e 1**

    Without a ball, plan the search for one and the mean together, from a guess of the spread:
    **geodp plan --manifold "SPD(3)" --radius 30 -n 10000 -e 1 --spread 0.5**

    The privacy is one of --epsilon, --epsilon and --delta, --rho, or --mu. The plan lists all mechanisms and marks the one that
    a release would use.
    """
    from geodp.files import parse_manifold

    space, center, as_json = parse_manifold(given.pop("manifold")), given.pop("center"), given.pop("as_json")
    asked = {f"--{name}": given[name] for name in ("epsilon", "rho", "mu")}
    if spread is not None:
        others = {"--error": error, "--quantile": quantile, "--releases": releases, "--plot": plot, "--law": given["law"]}
        unused = _given(others)
        if n is None or unused:
            raise ValueError(f"--spread goes with --records and the privacy{', not with ' if unused else ''}{', '.join(unused)}")
        from geodp.programs.chain import plan_chain

        outer: Any = space
        spoken = None if layout == "auto" else layout
        if radius is not None:
            outer, written = ball_of(space, center, radius, layout)
            spoken = _spoken(written)
        privacy = {name: given[name] for name in PRIVACY}
        _print(plan_chain(outer, n, **privacy, spread=spread, find=find, layout=spoken), as_json)
        return
    if find is not None:
        raise ValueError("--find goes with --spread, a guess of how far records are from their centre")
    if radius is None:
        raise ValueError("a plan needs --radius, the public radius of the ball, or --spread to plan the search for one")
    names = _given({"--records": n, **asked, "--error": error})
    if len(names) < 2 or {"--records", "--error"} < set(names):
        listed = {0: "was none of them", 1: f"was {''.join(names)} alone"}.get(len(names), f"were {', '.join(names)}")
        raise ValueError(f"give two of --records, the privacy (such as --epsilon) and --error: given {listed}")
    if quantile is not None and error is None:
        raise ValueError("--quantile goes with --error")
    from geodp.planning import plan

    ball, written = ball_of(space, center, radius, layout)
    check_picture(plot)
    sought: Any = {"error": error, "quantile": quantile, "solve": solve, "releases": releases, "layout": _spoken(written)}
    result = plan(ball, n, **given, **sought)
    if plot is not None:
        from geodp.plots import error_against_n

        error_against_n(ball, result.privacy, result.n, plot)
    _print(result, as_json)


def _given(options: dict[str, Any]) -> list[str]:
    return [name for name, value in options.items() if value is not None]


def _print(result: Any, as_json: bool) -> None:
    print(json.dumps(result.to_dict(), indent=2) if as_json else result)


def _spoken(written: Any) -> str | None:
    """The layout of the centre, in which the plan is written too."""
    return None if written.layout is None else str(written.layout.name)
