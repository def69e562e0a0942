"""Options that several commands share, and functions that read them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, final

import typer

from geodp.cli.common import DEFAULT_LEDGER, url_of
from geodp.files.writing import check_place
from geodp.manifolds.registry import form, own
from geodp.showing import picture_kind

if TYPE_CHECKING:
    from geodp.manifolds import Manifold
    from geodp.manifolds.ball import Ball
    from geodp.manifolds.notation import Notation

#: Manifolds of other packages work too, but finding them takes too long for a help text.
MANIFOLDS = ", ".join(form(kind) for kind in own())

FileArgument = Annotated[
    Path,
    typer.Argument(
        help="Records, one a row: .csv, .tsv (or .gz of these), .parquet, .xlsx, .jsonl, .npy, .npz, .nii; a mean with --dask "
        "also .zarr or a directory."
    ),
]
OptionalLedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        help=f"Budget to charge: a file such as budget.db, or postgresql+psycopg://... Default: {DEFAULT_LEDGER}",
        show_default=False,
    ),
]
DatasetOption = Annotated[str | None, typer.Option("--dataset", help="Data set whose budget is charged. Default: none.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Also write the release to this file: as JSON, or as a table if its name ends in .parquet."),
]
ManifoldOption = Annotated[str, typer.Option("--manifold", "-m", help=f"Where the records live: {MANIFOLDS}.")]
RadiusOption = Annotated[
    float, typer.Option("--radius", "-r", help="Public radius of the ball. Choose it without looking at the data.")
]
CenterOption = Annotated[
    str, typer.Option("--center", "-c", help="Public centre: 'origin', numbers such as '[0, 0, 1]', or a file with one point.")
]
LayoutOption = Annotated[
    str, typer.Option("--layout", help="What the columns mean; 'auto' goes by their number and names. List: geodp layouts.")
]
HeaderOption = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a .csv names its columns, which are public, or is a record. Not needed if that "
        "line holds only names.",
    ),
]
MaskOption = Annotated[
    Path | None,
    typer.Option(
        "--mask", help="For a NIfTI image: a second, public image, above zero where a voxel is a record. Default: all voxels."
    ),
]
ColumnsOption = Annotated[
    str | None, typer.Option("--columns", help="Which columns to read, by name or by position from 0: 'lat, lon'. Default: all.")
]
BoundOption = Annotated[str, typer.Option("--bound", help="Sensitivity bound: sharp, or reimherr2021 for the paper's.")]
EpsilonOption = Annotated[float | None, typer.Option("--epsilon", "-e", help="Privacy to spend: epsilon.")]
DeltaOption = Annotated[float | None, typer.Option("--delta", help="With --epsilon: approximate privacy, such as 1e-6.")]
RhoOption = Annotated[float | None, typer.Option("--rho", help="Instead of --epsilon: zero-concentrated privacy.")]
MuOption = Annotated[float | None, typer.Option("--mu", help="Instead of --epsilon: Gaussian privacy.")]
MechanismOption = Annotated[
    str,
    typer.Option(
        "--mechanism",
        help="Where to add the noise: intrinsic (on the manifold), tangent (in the tangent space at the centre), or auto, the "
        "one with the smaller guaranteed error.",
    ),
]
UnitOption = Annotated[
    str | None,
    typer.Option("--unit", help="Column with the person of each record; each person counts once. Default: one record a person."),
]
NeighboursOption = Annotated[
    str,
    typer.Option(
        "--neighbours",
        help="replace: the number of records is public; add-remove: it is private, and a noisy count is part of the release.",
    ),
]
ByOption = Annotated[str | None, typer.Option("--by", help="Column with the group of each record: one release for each group.")]
GroupsOption = Annotated[str | None, typer.Option("--groups", help="With --by: the names of all groups, such as 'a, b, c'.")]
LabelsOption = Annotated[
    str, typer.Option("--labels", help="With --by: whether it is public who is in which group, or private (needs --groups).")
]
UnitInOption = Annotated[
    str,
    typer.Option(
        "--unit-in",
        help="With --unit and --by: one group: persons are in one; all groups: they may be in all, which divides the privacy.",
    ),
]
AtlasOption = Annotated[
    Path | None,
    typer.Option("--atlas", help="For NIfTI images: a public image of the number of the region of each voxel; then --by region."),
]
BallOption = Annotated[
    Path | None,
    typer.Option("--ball", help="Instead of --manifold, --radius and --center: a ball that geodp ball --out found."),
]
OptionalManifoldOption = Annotated[
    str | None, typer.Option("--manifold", "-m", help=f"Where the records live: {MANIFOLDS}. Not needed with --ball.")
]
OptionalRadiusOption = Annotated[
    float | None,
    typer.Option("--radius", "-r", help="Public radius of the ball, chosen without looking at the data. Not needed with --ball."),
]
LawOption = Annotated[str | None, typer.Option("--law", help="laplace or gaussian; by default the one with the smaller error.")]


def ball_of(manifold: Manifold, center: str, radius: float, layout: str) -> tuple[Ball, Notation]:
    """The public ball that the options describe, and the layout of its centre."""
    from geodp.files import center_and_notation
    from geodp.manifolds.ball import Ball

    point, written = center_and_notation(center, manifold, layout)
    return Ball(manifold, point, radius), written


@final
@dataclass(frozen=True)
class Place:
    """Where the records are: a stored ball, or the ball that the options describe.

    The centre is read in the layout of the records, which is known only after opening their file.
    """

    manifold: Manifold
    center: str
    radius: float
    found: Ball | None = None

    def ball(self, layout: str, written: Notation | None) -> Ball:
        """The public ball. ``layout`` comes from the options, and ``written`` from the file."""
        if self.found is not None:
            return self.found
        known = written.layout if layout == "auto" and written is not None else None
        return ball_of(self.manifold, self.center, self.radius, layout if known is None else known.name)[0]


def place_of(found: Path | None, manifold: str | None, center: str, radius: float | None) -> Place:
    """Where the records are; raises if an option is missing."""
    from geodp.files import parse_manifold

    if found is None:
        if manifold is None or radius is None:
            raise ValueError(
                "where are the records? Give --ball FILE, found by geodp ball --out FILE, or --manifold and --radius"
            )
        return Place(parse_manifold(manifold), center, radius)
    if manifold is not None or radius is not None or center != "origin":
        raise ValueError("--ball says where the records are: leave out --manifold, --radius and --center")
    from geodp.finding import BallRelease

    try:
        ball = BallRelease.from_json(found.read_text(encoding="utf-8")).ball
    except ValueError:
        raise ValueError(f"{found} is no ball: give a file that geodp ball --out wrote") from None
    return Place(ball.manifold, center, ball.radius, ball)


def dataset_of(
    file: Path,
    space: Any,
    columns: str | None,
    layout: str,
    header: bool | None,
    unit: str | None,
    neighbours: str,
    by: str | None = None,
    groups: str | None = None,
    labels: str = "public",
    mask: Path | None = None,
    unit_in: str = "one group",
    atlas: Path | None = None,
    dask: bool = False,
) -> Any:
    """The data set in a file, with its persons and groups."""
    from geodp.records.dataset import Dataset

    named = None if groups is None else [name.strip() for name in groups.split(",")]
    return Dataset.read(
        file,
        space,
        columns=columns,
        layout=layout,
        header=header,
        unit=unit,
        by=by,
        neighbours=cast(Any, neighbours),
        groups=named,
        labels=cast(Any, labels),
        mask=mask,
        unit_in=cast(Any, unit_in),
        atlas=atlas,
        dask=dask,
    )


def open_book(
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    mu: float | None,
    out: Path | None,
    ledger: str | None,
    dataset: str | None,
) -> Any:
    """The ledger, if a data set in it is named. Reports mistakes in the options before the file is read."""
    from geodp.privacy.notions import privacy_of

    privacy_of(epsilon, delta, rho, mu)
    if out is not None:
        check_place(out)
        if out.suffix == ".parquet" and find_spec("pyarrow") is None:
            raise ValueError("--out to a .parquet file needs pyarrow, which is not installed: pip install 'geodp[parquet]'")
    if dataset is None and ledger is not None:
        raise ValueError("--ledger goes with --dataset, the name of a data set in it")
    if dataset is None:
        return None
    from geodp.privacy.ledger import Ledger  # which takes long to load

    return Ledger(url_of(ledger or DEFAULT_LEDGER))


def check_picture(path: Path) -> None:
    """Checks, before long work, that a picture can be written there."""
    picture_kind(path)
    check_place(path)
