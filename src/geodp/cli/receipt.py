"""The commands ``geodp receipt`` and ``geodp compare``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from geodp.cli.options import check_picture, command, open_ledger

#: The longest receipt in bytes. A longer file is not a receipt, and may be a file of records.
_LONGEST = 2**26


@command("ledger", "plot", "as_json")
def receipt(
    file: Annotated[Path, typer.Argument(help="The receipt: JSON, as geodp mean --out writes it.")],
    ledger: Any,
    plot: Any,
    as_json: Any,
    verify: Annotated[
        bool, typer.Option("--verify", help="Ask the ledger whether it keeps exactly this text; answers yes or no.")
    ] = False,
    spread: Annotated[
        Path | None,
        typer.Option("--spread", help="A variance or covariance of the same records, to compare the error of a mean with."),
    ] = None,
) -> None:
    """Print and check the receipt of a release, draw it with --plot, or --verify it against the ledger.

    Example: **geodp receipt mean.json --spread variance.json --plot mean.png**

    Without --verify, geodp prints a receipt if its numbers agree with each other; anyone can write such a receipt. With --verify
    the exit code is 0 for yes, 1 for no, and 2 if there is no answer, for example because the ledger cannot be read:
    **geodp receipt mean.json --verify --ledger study.db**
    """
    if ledger is not None and not verify:
        raise ValueError("--ledger goes with --verify")
    if verify and (plot is not None or spread is not None):
        raise ValueError("--verify answers yes or no: leave out --plot and --spread")
    check_picture(plot)
    text = _text_of(file)
    if verify:
        reason = open_ledger(ledger).check_receipt(text) or _contradiction(text)
        if as_json:
            print(json.dumps({"verified": reason is None, "reason": reason}, indent=2))
        else:
            print("yes: the ledger keeps exactly this receipt" if reason is None else f"no: {reason}")
        if reason is not None:
            raise typer.Exit(1)
        return
    from geodp.receipt import receipt_from_json

    release = receipt_from_json(text)
    beside = None if spread is None else _beside(release, read_release(spread))
    if plot is not None:
        release.plot(plot)
    print(release.to_json() if as_json else release)
    if beside is not None and not as_json:
        print(f"  {'spread':<12}{beside}")
    if not as_json:
        print(f"  {'checked':<12}its numbers agree with each other; --verify asks a ledger whether it keeps this text")


@command("as_json")
def compare(
    first: Annotated[Path, typer.Argument(help="A mean, as geodp mean --out writes it.")],
    second: Annotated[Path, typer.Argument(help="The mean of another group, in the same ball.")],
    as_json: Any,
    first_spread: Annotated[
        Path | None, typer.Option("--first-spread", help="Variance or covariance of the first group, in the same ball.")
    ] = None,
    second_spread: Annotated[
        Path | None, typer.Option("--second-spread", help="Variance or covariance of the second group, in the same ball.")
    ] = None,
) -> None:
    """Do two groups have the same mean? Compares two released means; reads no data and costs no privacy.

    Example: **geodp compare a.json b.json --first-spread a-covariance.json --second-spread b-covariance.json**

    It says how far apart the means are, how far apart sampling and noise alone would put them, and how often they would put them
    this far apart (the p-value). Without a spread it assumes the largest one that the ball allows, and detects only large
    differences.
    """
    from geodp.regions import compare

    releases: Any = [None if file is None else read_release(file) for file in (first, second, first_spread, second_spread)]
    found = compare(*releases)
    print(found.to_json() if as_json else found)


def _beside(release: Any, spread: Any) -> str:
    """The error of a mean compared with a released spread."""
    if getattr(spread, "deviation", None) is None or not hasattr(release, "deviation"):
        raise ValueError("--spread goes with the receipt of a mean: a variance or a covariance of the same records")
    if (release.manifold, release.n, release.dataset) != (spread.manifold, spread.n, spread.dataset):
        raise ValueError("the receipt of --spread is for other records: its number of records or its data set differs")
    return str(release.verdict(spread))


def read_release(file: Path) -> Any:
    """The release in a file; raises if it is not one."""
    from geodp.receipt import receipt_from_json

    return receipt_from_json(_text_of(file))


def _text_of(file: Path) -> str:
    with file.open("rb") as stream:
        content = stream.read(_LONGEST + 1)
    try:
        if len(content) <= _LONGEST:
            return content.decode()
    except UnicodeDecodeError:
        pass
    raise ValueError(f"{file} is not a receipt: give a file that geodp mean --out wrote")


def _contradiction(text: str) -> str | None:
    """What in a receipt contradicts the rest of it, or None."""
    from geodp.receipt import receipt_from_json

    stored = json.loads(text)
    try:
        for release in stored["releases"] if isinstance(stored, dict) and "estimator" in stored else [stored]:
            receipt_from_json(json.dumps(release))
    except ValueError as error:
        return f"the ledger keeps this text, but {error}"
    return None
