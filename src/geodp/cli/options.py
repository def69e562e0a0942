"""All options that commands share, each written once, and functions that read them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast, final

import typer

from geodp.cli.common import DEFAULT_LEDGER, one_sentence
from geodp.files.writing import check_place
from geodp.manifolds.registry import form, own
from geodp.showing import picture_kind

if TYPE_CHECKING:
    from geodp.manifolds import Manifold
    from geodp.manifolds.ball import Ball
    from geodp.manifolds.notation import Notation
    from geodp.privacy.ledger import Ledger

#: Manifolds of other packages work too, but finding them takes too long for a help text.
MANIFOLDS = ", ".join(form(kind) for kind in own())

#: The default of options without which a command does nothing.
REQUIRED = inspect.Parameter.empty


@final
class Option(NamedTuple):
    """An option: the type of its value, its help, its default, and its names if they are others than ``--`` and its key."""

    type: Any
    help: str
    default: Any = None
    names: tuple[str, ...] = ()

    def parameter(self, key: str, required: bool) -> inspect.Parameter:
        """The same for typer."""
        names = self.names or (f"--{key.replace('_', '-')}",)
        info = typer.Argument(help=self.help) if key == "file" else typer.Option(*names, help=self.help)
        default = REQUIRED if required else self.default
        return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[self.type, info])


#: In the order in which help shows them. A command that releases has those that its function takes, and those of ``AROUND``.
OPTIONS: dict[str, Option] = {
    "file": Option(
        Path,
        "Records, one a row: .csv, .tsv (or .gz of these), .parquet, .xlsx, .jsonl, .npy, .npz, .nii; with --dask also .zarr or "
        "a directory.",
        REQUIRED,
    ),
    "ball": Option(Path | None, "Instead of --manifold, --radius and --center: a ball that geodp ball --out found."),
    "manifold": Option(str | None, f"Where the records live: {MANIFOLDS}.", None, ("--manifold", "-m")),
    "radius": Option(float | None, "Public radius of the ball. Choose it without looking at the data.", None, ("--radius", "-r")),
    "wide": Option(
        float | None,
        "A wide public radius to start from, such as 30; leave it out on compact spaces.",
        None,
        ("--radius", "-r"),
    ),
    "center": Option(
        str,
        "Public centre: 'origin', numbers such as '[0, 0, 1]', or a file with one point.",
        "origin",
        ("--center", "-c"),
    ),
    "epsilon": Option(float | None, "Privacy to spend: epsilon.", None, ("--epsilon", "-e")),
    "delta": Option(float | None, "With --epsilon: approximate privacy, such as 1e-6."),
    "rho": Option(float | None, "Instead of --epsilon: zero-concentrated privacy."),
    "mu": Option(float | None, "Instead of --epsilon: Gaussian privacy."),
    "clusters": Option(int, "How many centres there are.", REQUIRED),
    "rounds": Option(int, "How often the centres move, each time with an equal part of the privacy.", 3),
    "reach": Option(float | None, "How far from its centre a record may pull. Default: half of the radius."),
    "seed": Option(int, "Of the public random directions in which the centres start.", 0),
    "about": Option(str, "center: about the centre of the ball, with less noise; mean: about the mean of the records.", "center"),
    "threshold": Option(float, "From 1 for the median to 3, nearer to the mean: in median distances of the records.", 1.0),
    "guaranteed": Option(bool, "Spend 15% of the privacy on an error bar that always holds.", False, ("--guaranteed",)),
    "coverage": Option(float, "Part of the privacy to measure how many records are valid and what clipping did; 0: none.", 0.05),
    "outer": Option(float | None, "Without --radius: a public radius about the origin that holds all records. Default: 30."),
    "find": Option(float | None, "Without --radius: the part of the privacy for the search. Default: by a public rule."),
    "anyway": Option(bool, "Release even what is likely to say nothing.", False, ("--anyway",)),
    "mechanism": Option(
        str,
        "Where to add the noise: intrinsic (on the manifold), tangent (in the tangent space at the centre), or auto, the one "
        "with the smaller guaranteed error.",
        "auto",
    ),
    "law": Option(str | None, "laplace or gaussian; by default the one with the smaller error."),
    "bound": Option(str, "Sensitivity bound: sharp, or reimherr2021 for the paper's.", "sharp"),
    "average_bound": Option(
        float | None,
        "Of positive-definite matrices the largest Frobenius norm, public: longer records are shortened to it.",
        None,
        ("--bound",),
    ),
    "columns": Option(str | None, "Which columns to read, by name or by position from 0: 'lat, lon'. Default: all."),
    "layout": Option(str, "What the columns mean; 'auto' goes by their number and names. List: geodp layouts.", "auto"),
    "header": Option(
        bool | None,
        "Whether the first line of a .csv names its columns, which are public, or is a record. Not needed if that line holds "
        "only names.",
        None,
        ("--header/--no-header",),
    ),
    "mask": Option(
        Path | None, "For a NIfTI image: a second, public image, above zero where a voxel is a record. Default: all voxels."
    ),
    "atlas": Option(
        Path | None, "For a NIfTI image: a second, public image with the number of each voxel's region, for --by region."
    ),
    "unit": Option(str | None, "Column with the person of each record; each person counts once. Default: one record a person."),
    "neighbours": Option(
        str,
        "replace: the number of records is public; add-remove: it is private, and a noisy count is part of the release.",
        "replace",
    ),
    "by": Option(str | None, "Column with the group of each record: one release for each group."),
    "groups": Option(str | None, "With --by: the names of all groups, such as 'a, b, c'."),
    "labels": Option(str, "With --by: whether it is public who is in which group, or private (needs --groups).", "public"),
    "unit_in": Option(
        str,
        "With --unit and --by: whether a person may be in one group or in all groups, over which the privacy is then divided.",
        "one group",
    ),
    "ledger": Option(
        str | None,
        f"Where budgets are kept: a file such as budget.db, or postgresql+psycopg://... Default: {DEFAULT_LEDGER}",
    ),
    "dataset": Option(str | None, "Data set whose budget is charged. Default: none."),
    "out": Option(
        Path | None,
        "Also write the release to this file: as JSON, or as a table if its name ends in .parquet.",
        None,
        ("--out", "-o"),
    ),
    "plot": Option(Path | None, "Draw it: .png, .svg or .pdf."),
    "dask": Option(str | None, "Compute with Dask, block by block: local, or the address of a cluster, tcp://host:port."),
    "as_json": Option(bool, "Print JSON, for programs.", False, ("--json",)),
}

#: The options of every command that releases which are not those of its function.
AROUND = ("file", "out", "plot", "dask", "as_json")
#: The privacy to spend.
PRIVACY = ("epsilon", "delta", "rho", "mu")
#: How noise is chosen.
NOISE = ("mechanism", "law", "bound")
#: How columns become points.
COLUMNS = ("columns", "layout", "header", "mask", "atlas")


def command(*shared: str, required: tuple[str, ...] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a command of a function: with options of the table besides its own, and one sentence for every error."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        parameters = [OPTIONS[name].parameter(name, name in required) for name in shared]
        for each in inspect.signature(function, eval_str=True).parameters.values():
            if each.name not in shared and each.kind is not inspect.Parameter.VAR_KEYWORD:
                parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        @wraps(function)
        def run(**given: Any) -> None:
            with one_sentence():
                function(**given)

        cast(Any, run).__signature__ = inspect.Signature(parameters)
        return run

    return decorate


def ball_of(manifold: Manifold, center: str, radius: float, layout: str) -> tuple[Ball, Notation]:
    """The public ball that the options describe, and the layout of its centre."""
    from geodp.files import center_and_notation
    from geodp.manifolds.ball import Ball

    point, written = center_and_notation(center, manifold, layout)
    return Ball(manifold, point, radius), written


@final
@dataclass(frozen=True)
class Place:
    """Where the records are: a stored ball, the ball that the options describe, or a whole manifold.

    The centre is read in the layout of the records, which is known only after opening their file.
    """

    manifold: Manifold
    center: str
    radius: float | None
    found: Ball | None = None

    def public(self, layout: str, written: Notation | None) -> Any:
        """The public ball or manifold. ``layout`` comes from the options, and ``written`` from the file."""
        if self.found is not None:
            return self.found
        if self.radius is None:
            return self.manifold
        known = written.layout if layout == "auto" and written is not None else None
        return ball_of(self.manifold, self.center, self.radius, layout if known is None else known.name)[0]


def place_of(found: Path | None, manifold: str | None, center: str, radius: float | None, *, whole: bool = False) -> Place:
    """Where the records are; raises if an option is missing. Without a radius it is the manifold if that may be ``whole``."""
    from geodp.files import parse_manifold

    if found is None:
        if manifold is None or (radius is None and not whole):
            known = ", with --radius if you know a ball" if whole else " and --radius"
            raise ValueError(f"where are the records? Give --ball FILE, found by geodp ball --out FILE, or --manifold{known}")
        if radius is None and center != "origin":
            raise ValueError("a centre goes with a radius about it: give --radius, or leave out --center")
        return Place(parse_manifold(manifold), center, radius)
    if manifold is not None or radius is not None or center != "origin":
        raise ValueError("--ball says where the records are: leave out --manifold, --radius and --center")
    from geodp.programs.ball import BallRelease

    try:
        ball = BallRelease.from_json(found.read_text(encoding="utf-8")).ball
    except ValueError:
        raise ValueError(f"{found} is no ball: give a file that geodp ball --out wrote") from None
    return Place(ball.manifold, center, ball.radius, ball)


def check_out(out: Path | None) -> None:
    """Checks, before long work, that a release can be written there."""
    if out is not None:
        check_place(out)
        if out.suffix == ".parquet" and find_spec("pyarrow") is None:
            raise ValueError("--out to a .parquet file needs pyarrow, which is not installed: pip install 'geodp[parquet]'")


def check_picture(path: Path | None) -> None:
    """Checks, before long work, that a picture can be written there."""
    if path is not None:
        picture_kind(path)
        check_place(path)


def open_ledger(ledger: str | None) -> Ledger:
    """The ledger at a URL or in a file, or else the default one."""
    from geodp.privacy.ledger import Ledger  # slow to import

    url = ledger or DEFAULT_LEDGER
    return Ledger(url if ":" in url else f"sqlite:///{url}")
