"""The commands that release: one for each entry of the table. Also ``geodp layouts`` and ``geodp demo``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

import typer

from geodp.cli.options import (
    AROUND,
    OPTIONS,
    PRIVACY,
    check_out,
    check_picture,
    command,
    open_ledger,
    place_of,
)
from geodp.files.writing import write_whole
from geodp.table import Entry

#: The options that say where the records are.
PLACES = {"ball": ("ball", "manifold", "radius", "center"), "start": ("manifold", "wide", "center"), "manifold": ("manifold",)}


def release_command(entry: Entry) -> Callable[..., None]:
    """The command of an entry, with the options that its function takes."""
    from geodp.records.dataset import Dataset, DatasetOptions, GroupOptions

    taken = {*list(inspect.signature(entry.function).parameters)[2:]}
    if entry.place == "start":  # a search is for all groups together
        taken -= {*GroupOptions.__annotations__}
    # options that mean something else here than elsewhere
    own = {f"{entry.name}_{name}": name for name in taken if f"{entry.name}_{name}" in OPTIONS}
    names = [name for name in OPTIONS if name in (taken - {*own.values()}) | {*own, *PLACES[entry.place], *AROUND}]

    @command(*names, required=() if entry.place == "ball" else ("manifold",))
    def release(file: Any, out: Any, plot: Any, dask: Any, as_json: Any, **given: Any) -> None:
        from geodp.privacy.notions import privacy_of

        given |= {name: given.pop(key) for key, name in own.items()}
        ball, manifold, center = given.pop("ball", None), given.pop("manifold"), given.pop("center", "origin")
        radius = given.pop("radius", None) if entry.place == "ball" else given.pop("wide", None)
        place = place_of(ball, manifold, center, radius, whole=entry.place != "ball" or "outer" in taken)
        privacy_of(*(given[name] for name in PRIVACY))
        check_out(out)
        check_picture(plot)
        if plot is not None and given.get("by") is not None:
            raise ValueError("--plot draws one release: leave out --by, or draw the groups with geodp.plots")
        if given["dataset"] is not None:
            given["ledger"] = open_ledger(given["ledger"])
        elif given["ledger"] is not None:
            raise ValueError("--ledger goes with --dataset, the name of a data set in it")
        workers = nullcontext() if dask is None else _dask().cluster(dask)
        who: Any = {name: given.pop(name) for name in DatasetOptions.__annotations__ if name in given}
        if who.get("groups") is not None:
            who["groups"] = [name.strip() for name in who["groups"].split(",")]
        x = Dataset.read(file, place.manifold, dask=dask is not None, **who)
        if "progress" in taken:
            given["progress"] = True
        with workers:
            found = entry.function(x, place.public(who["layout"], x.written), **given)
        show_release(found, out, as_json)
        if plot is not None:
            found.plot(plot)

    return release


def _dask() -> Any:
    import geodp.records.dask_files as dask_files

    try:
        dask_files.check_installed()
    except ImportError:
        raise ValueError("--dask needs Dask, which is not installed: pip install 'geodp[dask]'") from None
    return dask_files


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


@command()
def layouts() -> None:
    """Show what the columns of a file may hold, for every manifold."""
    from geodp.files import LAYOUTS

    print(LAYOUTS)
    print("\n* only when named with --layout; arrays may also have the shape (n, *point_shape)")


@command()
def demo(
    directory: Annotated[Path, typer.Option("--dir", help="Where to put the ledger, the receipt and the picture.")] = Path(
        "geodp-demo"
    ),
) -> None:
    """Try it on shipped diffusion tensors of brain tissue: find a ball, then release a mean in it, with receipts.

    The picture shows the true mean next to the private one, which only a demonstration may do. (A voxel is not a person: these
    data only show how it works.)
    """
    import numpy as np

    from geodp import data
    from geodp.manifolds import SPD
    from geodp.manifolds.ball import Ball
    from geodp.plots import Picture, before_and_after
    from geodp.privacy.ledger import Ledger
    from geodp.programs.ball import private_ball
    from geodp.solver.mean import frechet_mean
    from geodp.statistics.mean import private_mean

    x = data.load("dti_tensors")
    directory.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(f"sqlite:///{(directory / 'budget.db').as_posix()}")
    # every run is a demonstration of its own, with a full budget
    known = ledger.datasets() if (directory / "budget.db").exists() else []
    name = next(name for name in chain(["demo"], (f"demo {i}" for i in count(2))) if name not in known)
    ledger.open(name, epsilon="3")
    # nothing is known but that these are 3x3 matrices: a radius of 30 is a factor of 1e13 either way
    found = private_ball(x, Ball(SPD(3), np.eye(3), radius=30.0), epsilon=0.2, ledger=ledger, dataset=name)
    release = private_mean(x, found.ball, epsilon=0.8, coverage=0.1, ledger=ledger, dataset=name)
    print(f"{found}\n\n{release}")
    write_whole(directory / "ball.json", f"{found.to_json()}\n".encode())
    write_whole(directory / "receipt.json", f"{release.to_json()}\n".encode())
    true = frechet_mean(x, Ball(SPD(3), found.ball.center, 10.0)).point
    away = release.notation.length(float(found.ball.manifold.dist(true, release.value)))
    figure = before_and_after(release, x, true)
    title = f"DEMONSTRATION, not private: {len(x)} records and their true mean, {away} from the released one"
    figure.suptitle(title, fontsize=11)
    Picture(figure).save(directory / "tensors.png")
    print(f"\nbudget      {ledger.remaining(name)} of {ledger.total(name)} left for {name!r} in {directory / 'budget.db'}")
    print(f"receipts    {directory / 'ball.json'} and {directory / 'receipt.json'}")
    print(f"picture     {directory / 'tensors.png'} (demonstration only: it shows the true mean, {away} away)")
    print(f"again       geodp receipt {directory / 'receipt.json'} prints and checks the receipt; a new demo starts afresh")
