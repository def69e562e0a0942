"""The commands ``geodp mean``, ``check``, ``layouts`` and ``demo``."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from geodp.cli.common import JsonOption, one_sentence, screen
from geodp.cli.options import (
    AtlasOption,
    BallOption,
    BoundOption,
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
    LawOption,
    LayoutOption,
    ManifoldOption,
    MaskOption,
    MechanismOption,
    MuOption,
    NeighboursOption,
    OptionalLedgerOption,
    OptionalManifoldOption,
    OptionalRadiusOption,
    OutOption,
    Place,
    RhoOption,
    UnitInOption,
    UnitOption,
    dataset_of,
    open_book,
    place_of,
)
from geodp.files.writing import write_whole


def mean(
    file: FileArgument,
    manifold: OptionalManifoldOption = None,
    radius: OptionalRadiusOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    mu: MuOption = None,
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
    coverage: Annotated[
        float,
        typer.Option(
            "--coverage", help="Part of the privacy, such as 0.05, for noisy counts of valid records and records in the ball."
        ),
    ] = 0.0,
    mechanism: MechanismOption = "auto",
    law: LawOption = None,
    bound: BoundOption = "sharp",
    ledger: OptionalLedgerOption = None,
    dataset: DatasetOption = None,
    out: OutOption = None,
    dask: Annotated[
        str | None,
        typer.Option("--dask", help="Compute with Dask, block by block: local, or the address of a cluster, tcp://host:port."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Release the mean of a file of records, with a receipt.

    Example: **geodp ball tensors.csv --manifold "SPD(3)" --radius 30 --epsilon 0.2 --out ball.json**,
    then **geodp mean tensors.csv --ball ball.json --epsilon 0.8 --coverage 0.05**

    The privacy to spend is exactly one of --epsilon (pure), --epsilon and --delta, --rho, or --mu.

    Without --ball, give --manifold and --radius, chosen without looking at the data; the centre defaults to the manifold's origin
    (identity matrix, north pole, first axes, regular polygon). Records outside the ball are moved to its boundary; records that
    are not points of the manifold count as the centre. --coverage publishes with noise how many these are; `geodp check` tells
    only the curator.
    """
    with one_sentence():
        from geodp.release import private_mean

        place = place_of(ball, manifold, center, radius)
        book = open_book(epsilon, delta, rho, mu, out, ledger, dataset)
        workers = nullcontext() if dask is None else _dask().cluster(dask)
        read = file, place.manifold, columns, layout, header, unit, neighbours, by, groups, labels, mask, unit_in, atlas
        x = dataset_of(*read, dask=dask is not None)
        with workers:
            release = private_mean(
                x,
                place.ball(layout, x.written),
                epsilon,
                delta,
                rho,
                mu,
                mechanism=cast(Any, mechanism),
                law=cast(Any, law),
                bound=cast(Any, bound),
                coverage=coverage,
                ledger=book,
                dataset=dataset,
                progress=True,
            )
        show_release(release, out, as_json)


def _dask() -> Any:
    import geodp.records.dask_files as dask_files

    try:
        dask_files.check_installed()
    except ImportError:
        raise ValueError("--dask needs Dask, which is not installed: pip install 'geodp[dask]'") from None
    return dask_files


def ball(
    file: FileArgument,
    manifold: ManifoldOption,
    radius: Annotated[
        float | None,
        typer.Option("--radius", "-r", help="A wide public radius to start from, such as 30; leave it out on compact spaces."),
    ] = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    mu: MuOption = None,
    center: CenterOption = "origin",
    columns: ColumnsOption = None,
    layout: LayoutOption = "auto",
    header: HeaderOption = None,
    mask: MaskOption = None,
    unit: UnitOption = None,
    neighbours: NeighboursOption = "replace",
    ledger: OptionalLedgerOption = None,
    dataset: DatasetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Privately find a ball that contains most of the records: the centre and radius that `geodp mean` needs.

    Example: **geodp ball tensors.csv --manifold "SPD(3)" --radius 30 --epsilon 0.2 --out ball.json**

    On spaces without positive curvature give a wide radius: 30 on matrices is a factor of 1e13 either way. On spheres, rotations,
    subspaces and shapes you need no radius. The output is public from then on; its cost and that of a mean add up.
    """
    with one_sentence():
        from geodp.files import parse_manifold
        from geodp.finding import private_ball

        space = parse_manifold(manifold)
        book = open_book(epsilon, delta, rho, mu, out, ledger, dataset)
        x = dataset_of(file, space, columns, layout, header, unit, neighbours, mask=mask)
        outer = space if radius is None else Place(space, center, radius).ball(layout, x.written)
        release = private_ball(x, outer, epsilon, delta, rho, mu, ledger=book, dataset=dataset)
        show_release(release, out, as_json)


def coverage(
    file: FileArgument,
    manifold: OptionalManifoldOption = None,
    radius: OptionalRadiusOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    mu: MuOption = None,
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
    """Count, with noise, how many records are valid and how many are in the ball. The counts may be published.

    Example: **geodp coverage tensors.csv --manifold "SPD(3)" --radius 1.5 --epsilon 0.05**
    """
    with one_sentence():
        from geodp.release import private_coverage

        place = place_of(ball, manifold, center, radius)
        book = open_book(epsilon, delta, rho, mu, out, ledger, dataset)
        x = dataset_of(file, place.manifold, columns, layout, header, unit, neighbours, by, groups, labels, mask, unit_in, atlas)
        release = private_coverage(x, place.ball(layout, x.written), epsilon, delta, rho, mu, ledger=book, dataset=dataset)
        show_release(release, out, as_json)


def show_release(release: Any, out: Path | None, as_json: bool) -> None:
    """Writes and prints a release. The budget is spent, so neither a full disk nor a closed pipe may lose both copies."""
    try:
        if out is not None:
            write_whole(out, _content(release, out))
    finally:
        print(release.to_json() if as_json else release)


def _content(release: Any, out: Path) -> bytes:
    if out.suffix != ".parquet":
        return f"{release.to_json()}\n".encode()
    from geodp.integrations.arrow import parquet_bytes

    return parquet_bytes(release)


def layouts() -> None:
    """Show what the columns of a file may hold, for every manifold."""
    with one_sentence():
        from geodp.files import LAYOUTS

        print(LAYOUTS)
        print("\n* only when named with --layout; arrays may also have the shape (n, *point_shape)")


#: What may be done about the output of ``geodp check``; the guide on balls has examples.
_MAY_FIX = (
    "You may fix how the file is read, if a document outside it says how and for all records alike; but no single record, nor "
    "the ball, nor whether to release. geodp coverage tells the same with noise, for any use."
)


def check(
    file: Annotated[Path, typer.Argument(help="Records, as for geodp mean.")],
    manifold: OptionalManifoldOption = None,
    radius: OptionalRadiusOption = None,
    ball: BallOption = None,
    center: CenterOption = "origin",
    columns: ColumnsOption = None,
    layout: LayoutOption = "auto",
    header: HeaderOption = None,
    mask: MaskOption = None,
) -> None:
    """Show which records are invalid or outside the ball, for the curator only. **The output is not private.**

    Example: **geodp check tensors.csv --manifold "SPD(3)" --radius 1.5**

    Use it to find a wrong column or unit. Fix how the file is read, never what a record says.
    """
    with one_sentence():
        import numpy as np

        place = place_of(ball, manifold, center, radius)
        data = dataset_of(file, place.manifold, columns, layout, header, None, "replace", mask=mask)
        public, x = place.ball(layout, data.written), np.asarray(data.x, dtype=np.float64)
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


def demo(
    directory: Annotated[Path, typer.Option("--dir", help="Where to put the ledger, the receipt and the picture.")] = Path(
        "geodp-demo"
    ),
) -> None:
    """Try it on shipped diffusion tensors of brain tissue: find a ball, then release a mean in it, with receipts.

    The picture shows the true mean next to the private one, which only a demonstration may do. (A voxel is not a person: these
    data only show how it works.)
    """
    with one_sentence():
        import numpy as np

        from geodp import data
        from geodp.finding import private_ball
        from geodp.manifolds import SPD
        from geodp.manifolds.ball import Ball
        from geodp.plots import Picture, before_and_after
        from geodp.privacy.ledger import Ledger
        from geodp.release import private_mean
        from geodp.statistics.mean import frechet_mean

        x = data.load("dti_tensors")
        directory.mkdir(parents=True, exist_ok=True)
        book = Ledger(f"sqlite:///{(directory / 'budget.db').as_posix()}")
        # every run is a demonstration of its own, with a full budget
        known = book.datasets() if (directory / "budget.db").exists() else []
        name = next(name for name in chain(["demo"], (f"demo {i}" for i in count(2))) if name not in known)
        book.open(name, epsilon="3")
        # nothing is known but that these are 3x3 matrices: a radius of 30 is a factor of 1e13 either way
        found = private_ball(x, Ball(SPD(3), np.eye(3), radius=30.0), epsilon=0.2, ledger=book, dataset=name)
        release = private_mean(x, found.ball, epsilon=0.8, coverage=0.1, ledger=book, dataset=name)
        print(f"{found}\n\n{release}")
        write_whole(directory / "ball.json", f"{found.to_json()}\n".encode())
        write_whole(directory / "receipt.json", f"{release.to_json()}\n".encode())
        true = frechet_mean(x, Ball(SPD(3), found.ball.center, 10.0)).point
        away = release.notation.length(float(found.ball.manifold.dist(true, release.value)))
        figure = before_and_after(release, x, true)
        title = f"DEMONSTRATION, not private: {len(x)} records and their true mean, {away} from the released one"
        figure.suptitle(title, fontsize=11)
        Picture(figure).save(directory / "tensors.png")
        print(f"\nbudget      {book.remaining(name)} of {book.total(name)} left for {name!r} in {directory / 'budget.db'}")
        print(f"receipts    {directory / 'ball.json'} and {directory / 'receipt.json'}")
        print(f"picture     {directory / 'tensors.png'} (demonstration only: it shows the true mean, {away} away)")
        print(f"again       geodp receipt {directory / 'receipt.json'} prints and checks the receipt; a new demo starts afresh")
