"""The command line: ``geodp --help``."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from geodp._version import __version__
from geodp.cli_budget import budget
from geodp.cli_common import DEFAULT_LEDGER as DEFAULT_LEDGER
from geodp.cli_common import JsonOption, errors, one_sentence, say, screen
from geodp.files.writing import check_place, write_whole

#: A command line that the parser refuses; typer exports only the class below it.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


class _Commands(typer.core.TyperGroup):
    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """What the parser refuses is one sentence like all the others."""
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _UsageError as error:
            if not standalone_mode:
                raise
            if type(error).__name__ != "NoArgsIsHelpError":  # the help has been printed by then
                say(_usage(error))
            code = 2
        except typer.Abort:
            if not standalone_mode:
                raise
            code = 2
        if standalone_mode:
            sys.exit(code)
        return code


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    help="Release means of data on curved spaces with pure differential privacy.",
)
app.add_typer(budget, name="budget")


MANIFOLDS = (
    "Euclidean(d), Sphere(d), Hyperbolic(d), SPD(k), SPDLogEuclidean(k), Grassmann(p, m), Rotations(n), "
    "PlanarShapes(landmarks) or Product(...)"
)

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
        help="Whether the first line of a .csv names its columns, which are public, or is a record. It need not be said if "
        "that line is all names.",
    ),
]
ColumnsOption = Annotated[
    str | None, typer.Option("--columns", help="Which columns to read, by name or by position from 0: 'lat, lon'. Default: all.")
]
BoundOption = Annotated[str, typer.Option("--bound", help="Sensitivity bound: sharp, or reimherr2021 for the paper's.")]


def _usage(error: Any) -> str:
    sentence = " ".join(error.format_message().split()).rstrip(".")
    option = re.match(r"Invalid value for .*?(--[\w-]+)", sentence)
    for python, kind in {"valid (number|float)": "a number", "valid int(eger)?": "a whole number"}.items():
        if option and re.search(python, sentence):
            sentence = f"{option[1]} must be {kind}"
    command = error.ctx.command_path if error.ctx is not None else "geodp"
    return f"{sentence[:1].lower()}{sentence[1:]}; see {command} --help"


def _ball(manifold: str, center: str, radius: float, layout: str) -> Any:
    from geodp.files import parse_center, parse_manifold
    from geodp.manifolds.ball import Ball

    space = parse_manifold(manifold)
    return Ball(space, parse_center(center, space, layout=layout), radius)


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int, int, int | None], None]]:
    """A bar for long passes over the data, on the error stream; gone when done.

    It counts the records of the first pass, which are public, and not the passes, which depend on the data.
    """
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        first, further = bar.add_task(title, total=None), bar.add_task(f"{title}: to the last digit", total=None, visible=False)

        def show(iteration: int, done: int, total: int | None) -> None:
            if iteration == 1 and (total is None or done < total):
                bar.update(first, description=f"{title}: {done:,} records", completed=done, total=total)
            else:
                bar.update(first, visible=False)
                bar.update(further, visible=True)

        yield show


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"geodp {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    # what the terminal has no letter for must not keep a receipt from it: by then the budget is spent
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@app.command()
def mean(
    file: Annotated[
        Path,
        typer.Argument(help="Records: .npy, .npz, .csv or .parquet, one record a row; with --dask also .zarr or a directory."),
    ],
    manifold: ManifoldOption,
    radius: RadiusOption,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="The privacy to spend.")],
    center: CenterOption = "origin",
    columns: ColumnsOption = None,
    layout: LayoutOption = "auto",
    header: HeaderOption = None,
    bound: BoundOption = "sharp",
    ledger: Annotated[
        str | None, typer.Option("--ledger", help="Budget to charge: sqlite:///FILE or postgresql+psycopg://...")
    ] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="Name of the data set in the ledger.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write the release as JSON to this file.")] = None,
    dask: Annotated[
        str | None,
        typer.Option("--dask", help="Compute with Dask, block by block: local, or the address of a cluster, tcp://host:port."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Release the mean of a file of records, with a receipt.

    Example: **geodp mean tensors.csv --manifold "SPD(3)" --radius 1.5 --epsilon 1**

    The centre defaults to the manifold's origin (identity matrix, north pole, first axes, regular polygon). Records outside
    the ball are moved to its boundary; records that are not points of the manifold count as the centre. Neither is reported:
    `geodp check` tells the curator.
    """
    with one_sentence():
        from geodp.files import read_records
        from geodp.privacy.ledger import Ledger
        from geodp.release import private_mean

        ball = _ball(manifold, center, radius, layout)
        if out is not None:
            check_place(out)
        if (ledger is None) != (dataset is None):
            raise ValueError("--ledger and --dataset go together: give both or neither")
        book = Ledger(ledger) if ledger is not None else None
        if dask is None:
            x = read_records(file, ball.manifold, columns=columns, layout=layout, header=header)
        else:
            x = _dask().read_dask(file, ball.manifold, columns=columns, layout=layout)
        with nullcontext() if dask is None else _dask().cluster(dask), _progress("mean") as progress:
            release = private_mean(x, ball, epsilon, bound=cast(Any, bound), ledger=book, dataset=dataset, progress=progress)
        try:
            if out is not None:
                write_whole(out, f"{release.to_json()}\n".encode())
        finally:  # the budget is spent: neither a full disk nor a closed pipe may take both copies of the value
            print(release.to_json() if as_json else release)


def _dask() -> Any:
    try:
        import geodp.records.dask_files as dask_files
    except ImportError:
        raise ValueError("--dask needs Dask, which is not installed: pip install 'geodp[dask]'") from None
    return dask_files


@app.command()
def layouts() -> None:
    """What the columns of a file may hold, for every manifold."""
    with one_sentence():
        from geodp.files import LAYOUTS

        print(LAYOUTS)
        print("\n* only when named with --layout; arrays may also have the shape (n, *point_shape)")


@app.command(name="plan")
def plan_command(
    manifold: ManifoldOption,
    radius: RadiusOption,
    n: Annotated[int | None, typer.Option("-n", "--records", help="Number of records.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="The privacy to spend.")] = None,
    error: Annotated[
        float | None, typer.Option("--error", help="Error to reach: expected, or with --quantile that quantile.")
    ] = None,
    quantile: Annotated[float | None, typer.Option("--quantile", help="With --error: probability of staying within it.")] = None,
    center: CenterOption = "origin",
    layout: Annotated[str, typer.Option("--layout", help="What the numbers of the centre mean, as for geodp mean.")] = "auto",
    bound: BoundOption = "sharp",
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw error against the number of records: .png, .svg or .pdf.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The error of a release before spending: give two of --records, --epsilon and --error.

    Reads no data. Example: **geodp plan --manifold "Sphere(2)" --radius 0.39 -n 1000 -e 1**
    """
    with one_sentence():
        from geodp.planning import plan

        given = {"--records": n, "--epsilon": epsilon, "--error": error}
        names = [name for name, value in given.items() if value is not None]
        if len(names) != 2:
            raise ValueError(f"give two of --records, --epsilon and --error: given {_were(names)}")
        if quantile is not None and error is None:
            raise ValueError("--quantile goes with --error")
        ball = _ball(manifold, center, radius, layout)
        if plot is not None:
            _check_picture(plot)
        result = plan(ball, n, epsilon, error=error, quantile=quantile, bound=cast(Any, bound))
        if plot is not None:
            from geodp.plots import error_against_n

            error_against_n(ball, result.privacy, result.n, plot)
        print(json.dumps(result.to_dict(), indent=2) if as_json else result)


def _were(names: list[str]) -> str:
    return "was none of them" if not names else f"was {names[0]} alone" if len(names) == 1 else f"were {', '.join(names)}"


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Records, as for geodp mean.")],
    manifold: ManifoldOption,
    radius: RadiusOption,
    center: CenterOption = "origin",
    columns: ColumnsOption = None,
    layout: LayoutOption = "auto",
    header: HeaderOption = None,
) -> None:
    """For the curator only: which records are invalid or outside the ball. **The output is not private.**"""
    with one_sentence():
        import numpy as np

        from geodp.files import read_records

        ball = _ball(manifold, center, radius, layout)
        x = np.asarray(read_records(file, ball.manifold, columns=columns, layout=layout, header=header), dtype=np.float64)
        valid = ball.manifold.valid(x)
        outside = valid & ~ball.contains(x)
        warning = "NOT PRIVATE: this describes individual records. Do not publish it, nor tune the ball by it."
        screen.print(f"[bold red]{warning}[/]", soft_wrap=True)
        table = Table("records", "count", "first rows (from 0)")
        for name, which in (("valid and in the ball", valid & ~outside), ("outside the ball", outside), ("not points", ~valid)):
            rows = np.flatnonzero(which)
            table.add_row(name, str(len(rows)), ", ".join(map(str, rows[:10])) + (" ..." if len(rows) > 10 else ""))
        screen.print(table)
        if not valid.any():
            print("Not one is a point: has a line as many cells as the header has names, and which layout is meant?")


@app.command(name="audit")
def audit_command(
    manifold: ManifoldOption,
    radius: RadiusOption,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="The privacy that is claimed.")],
    n: Annotated[int | None, typer.Option("-n", "--n", "--records", help="Number of records; not with files.")] = None,
    center: CenterOption = "origin",
    first: Annotated[Path | None, typer.Option("--first", help="Records, as for geodp mean, instead of a worst case.")] = None,
    second: Annotated[
        Path | None, typer.Option("--second", help="The same records with one of them replaced, in the same order.")
    ] = None,
    columns: ColumnsOption = None,
    layout: LayoutOption = "auto",
    header: HeaderOption = None,
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
    """Attack a release and say how much it reveals: a lower bound on its epsilon.

    Example: **geodp audit --manifold "Sphere(2)" --radius 0.39 --n 100 --epsilon 1**

    Releases are made many times from two data sets that differ in one record: by default a worst case for this ball, or the
    two files given. The event that tells them apart best is chosen in one half of the runs and counted in the other.

    Exit code 0: the bound does not exceed the claim. 1: the claim is refuted. 2: bad input. An audit can refute a claim, never
    prove it.
    """
    with one_sentence():
        from geodp.auditing import audit
        from geodp.files import read_records

        ball = _ball(manifold, center, radius, layout)
        if (first is None) != (second is None):
            raise ValueError("--first and --second go together: give both files or neither")
        if n is None and first is None:
            raise ValueError("give the number of records with --records, or two files with --first and --second")
        if plot is not None:
            _check_picture(plot)
        pair = None
        if first is not None and second is not None:
            read = partial(read_records, manifold=ball.manifold, columns=columns, layout=layout, header=header)
            pair = read(first), read(second)
        with _progress("audit") as progress:
            result = audit(
                ball,
                n,
                epsilon,
                pair=pair,
                draws=draws,
                confidence=confidence,
                path=cast(Any, path),
                bound=cast(Any, bound),
                seed=seed,
                progress=lambda done, total: progress(0, done, total),
            )
        print(result.to_json() if as_json else result)
        if plot is not None:
            from geodp.plots import privacy_loss

            privacy_loss(result, plot)
    if not result.consistent:
        raise typer.Exit(1)


def _check_picture(path: Path) -> None:
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"{path} must end in .png, .svg or .pdf")
    check_place(path)


@app.command()
def study(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments to run; all of them if none is named.")] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Averages over many draws, or over enough to see.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Where tables, figures and the report go.")] = Path("geodp-study"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same tables.")] = 0,
    processes: Annotated[int | None, typer.Option("--processes", min=1, help="Worker processes; one a core by default.")] = None,
) -> None:
    """Run the experiments of the paper again, beside ours, and check its theorems and our claims.

    Experiments: neighbours, utility, bounds, privacy, rates, subspaces, circle, chains, beyond. Tables (CSV), figures (PNG, SVG)
    and a self-contained **report.html** go to the output folder. A run that was interrupted continues where it stopped. The exit
    code is 1 if a claim does not hold. Processor time, over all cores: about 70 s with --quick, 8 minutes with --full.
    """
    with one_sentence():
        from geodp.study.experiment import FULL, QUICK
        from geodp.study.report import write_report
        from geodp.study.runner import NAMES, Interrupted, run

        settings = FULL if full else QUICK
        columns = TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        try:
            with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
                task = bar.add_task("study", total=None)

                def progress(done: int, total: int, what: str) -> None:
                    bar.update(task, completed=done, total=total, description=what or "study")

                results = run(names or NAMES, settings, seed, out, processes=processes, progress=progress)
                bar.update(task, description="figures")
                held = write_report(results, settings, seed, out)
        except (Interrupted, KeyboardInterrupt) as stop:
            kept = f"{stop}: they" if isinstance(stop, Interrupted) else "Finished tasks"
            sentence = f"stopped. {kept} are kept in {out}, and the same command continues from there"
            errors.print(escape(sentence), highlight=False, soft_wrap=True)
            raise typer.Exit(130) from None
        table = Table("experiment", "claim", "measured", "holds")
        for result in results:
            for claim in result.experiment.claims(result.tables):
                verdict = "[green]yes[/]" if claim.holds else "[bold red]no[/]"
                table.add_row(result.experiment.name, escape(claim.sentence), escape(claim.measured), verdict)
        screen.print(table)
        print(f"report      {out / 'report.html'}")
        if not held:
            raise typer.Exit(1)


@app.command()
def demo(
    directory: Annotated[Path, typer.Option("--dir", help="Where to put the ledger, the receipt and the picture.")] = Path(
        "geodp-demo"
    ),
) -> None:
    """A release from start to end, on shipped diffusion tensors of brain tissue.

    The picture shows the true mean beside the private one, which only a demonstration may do. (A voxel is not a person: the data
    show the machinery.)
    """
    with one_sentence():
        import numpy as np

        from geodp import data
        from geodp.manifolds import SPD
        from geodp.manifolds.ball import Ball
        from geodp.plots import ellipsoids
        from geodp.privacy.ledger import Ledger
        from geodp.release import private_mean
        from geodp.statistics.mean import frechet_mean

        x = data.load("dti_tensors")
        # public knowledge: free water at body temperature diffuses at 3 um^2/ms and tissue at about a quarter of that
        ball = Ball(SPD(3), 0.75 * np.eye(3), radius=1.5)
        directory.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{(directory / 'budget.db').as_posix()}"
        book = Ledger(url)
        book.open("demo", epsilon="3")
        release = private_mean(x, ball, epsilon=1.0, ledger=book, dataset="demo")
        print(release)
        write_whole(directory / "receipt.json", f"{release.to_json()}\n".encode())
        true = frechet_mean(x, ball).point
        away = float(ball.manifold.dist(true, release.value))
        title = f"DEMONSTRATION, not private: it shows the true mean. Geodesic distance {away:.3f}, epsilon 1, n = {len(x)}"
        ellipsoids({"true mean": true, "private mean": release.value}, title, directory / "tensors.png")
        print(f"\nbudget      {book.remaining('demo')} of {book.total('demo')} left for 'demo' in {directory / 'budget.db'}")
        print(f"receipt     {directory / 'receipt.json'}")
        print(f"picture     {directory / 'tensors.png'} (demonstration only: it shows the true mean, {away:.3f} away)")


if __name__ == "__main__":
    app()
