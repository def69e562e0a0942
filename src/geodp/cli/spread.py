"""The commands ``geodp variance``, ``covariance`` and ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from geodp.cli.common import JsonOption, one_sentence
from geodp.cli.options import (
    AtlasOption,
    BallOption,
    ByOption,
    CenterOption,
    ColumnsOption,
    DatasetOption,
    DeltaOption,
    EpsilonOption,
    FileArgument,
    GroupsOption,
    HeaderOption,
    LabelsOption,
    LayoutOption,
    MaskOption,
    MuOption,
    NeighboursOption,
    OptionalLedgerOption,
    OptionalManifoldOption,
    OptionalRadiusOption,
    OutOption,
    RhoOption,
    UnitInOption,
    UnitOption,
    check_picture,
    dataset_of,
    open_book,
    place_of,
)
from geodp.cli.receipt import read_release
from geodp.cli.releasing import show_release

AboutOption = Annotated[
    str,
    typer.Option("--about", help="center: about the centre of the ball, with less noise; mean: about the mean of the records."),
]


def variance(
    file: FileArgument,
    manifold: OptionalManifoldOption = None,
    radius: OptionalRadiusOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    mu: MuOption = None,
    about: AboutOption = "center",
    ball: BallOption = None,
    center: CenterOption = "origin",
    columns: ColumnsOption = None,
    layout: LayoutOption = "auto",
    header: HeaderOption = None,
    mask: MaskOption = None,
    unit: UnitOption = None,
    neighbours: NeighboursOption = "replace",
    by: ByOption = None,
    groups: GroupsOption = None,
    labels: LabelsOption = "public",
    unit_in: UnitInOption = "one group",
    atlas: AtlasOption = None,
    ledger: OptionalLedgerOption = None,
    dataset: DatasetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Release how much the records vary: their mean squared distance to the centre of the ball, or to their mean.

    Example: **geodp variance tensors.csv --ball ball.json --epsilon 0.2**

    This is one number, so it costs little. Its square root is a standard deviation, a distance. Give the ball, the privacy and
    the file as for `geodp mean`.
    """
    with one_sentence():
        from geodp.spread import private_variance

        place = place_of(ball, manifold, center, radius)
        book = open_book(epsilon, delta, rho, mu, out, ledger, dataset)
        x = dataset_of(file, place.manifold, columns, layout, header, unit, neighbours, by, groups, labels, mask, unit_in, atlas)
        named = {"about": cast(Any, about), "ledger": book, "dataset": dataset}
        show_release(private_variance(x, place.ball(layout, x.written), epsilon, delta, rho, mu, **named), out, as_json)


def covariance(
    file: FileArgument,
    manifold: OptionalManifoldOption = None,
    radius: OptionalRadiusOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    mu: MuOption = None,
    about: AboutOption = "center",
    ball: BallOption = None,
    center: CenterOption = "origin",
    columns: ColumnsOption = None,
    layout: LayoutOption = "auto",
    header: HeaderOption = None,
    mask: MaskOption = None,
    unit: UnitOption = None,
    neighbours: NeighboursOption = "replace",
    by: ByOption = None,
    groups: GroupsOption = None,
    labels: LabelsOption = "public",
    unit_in: UnitInOption = "one group",
    atlas: AtlasOption = None,
    ledger: OptionalLedgerOption = None,
    dataset: DatasetOption = None,
    out: OutOption = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the principal geodesics: .png, .svg or .pdf. Not with --by.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Release the covariance of records in the tangent space at the centre of the ball, with its principal geodesics.

    Example: **geodp covariance tensors.csv --ball ball.json --epsilon 1 --delta 1e-6 --about mean --plot geodesics.png**

    The receipt says which standard deviations are above the level of the noise. With --about mean the mean of the normal
    coordinates is released too, with the same noise; the privacy covers both together.
    """
    with one_sentence():
        from geodp.spread import private_covariance

        if plot is not None:
            if by is not None:
                raise ValueError("--plot draws one covariance: leave out --by, or draw the groups with geodp.plots")
            check_picture(plot)
        place = place_of(ball, manifold, center, radius)
        book = open_book(epsilon, delta, rho, mu, out, ledger, dataset)
        x = dataset_of(file, place.manifold, columns, layout, header, unit, neighbours, by, groups, labels, mask, unit_in, atlas)
        named = {"about": cast(Any, about), "ledger": book, "dataset": dataset}
        release = private_covariance(x, place.ball(layout, x.written), epsilon, delta, rho, mu, **named)
        show_release(release, out, as_json)
        if plot is not None:
            from geodp.plots import principal_geodesics

            principal_geodesics(release.components(), plot)


def compare_command(
    first: Annotated[Path, typer.Argument(help="A mean, as geodp mean --out writes it.")],
    second: Annotated[Path, typer.Argument(help="The mean of another group, in the same ball.")],
    first_spread: Annotated[
        Path | None, typer.Option("--first-spread", help="Variance or covariance of the first group, in the same ball.")
    ] = None,
    second_spread: Annotated[
        Path | None, typer.Option("--second-spread", help="Variance or covariance of the second group, in the same ball.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Do two groups have the same mean? Compares two released means; reads no data and costs no privacy.

    Example: **geodp compare a.json b.json --first-spread a-covariance.json --second-spread b-covariance.json**

    It says how far apart the means are, how far apart sampling and noise alone would put them, and how often they would put them
    this far apart (the p-value). Without a spread it assumes the largest one that the ball allows, and detects only large
    differences.
    """
    with one_sentence():
        from geodp.regions import compare

        releases = [None if file is None else read_release(file) for file in (first, second, first_spread, second_spread)]
        found = compare(*cast(Any, releases))
        print(found.to_json() if as_json else found)
