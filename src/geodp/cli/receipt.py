"""The command ``geodp receipt``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geodp.cli.common import DEFAULT_LEDGER, JsonOption, one_sentence, url_of
from geodp.cli.options import check_picture

if TYPE_CHECKING:
    from geodp.finding import BallRelease
    from geodp.receipt import GroupedRelease, Release

#: The longest receipt in bytes. A longer file is not a receipt, and may be a file of records.
_LONGEST = 2**26


def receipt_command(
    file: Annotated[Path, typer.Argument(help="The receipt: JSON, as geodp mean --out writes it.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Ask the ledger whether it keeps exactly this text; answers yes or no.")
    ] = False,
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", help=f"With --verify: where budgets are kept. Default: {DEFAULT_LEDGER}", show_default=False),
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the release: .png, .svg or .pdf.")] = None,
    spread: Annotated[
        Path | None,
        typer.Option("--spread", help="A variance or covariance of the same records, to compare the error of a mean with."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print and check the receipt of a release, draw it with --plot, or --verify it against the ledger.

    Example: **geodp receipt mean.json --spread variance.json --plot mean.png**

    Without --verify, geodp prints a receipt if its numbers agree with each other; anyone can write such a receipt. With --verify
    the exit code is 0 for yes, 1 for no, and 2 if there is no answer, for example because the ledger cannot be read:
    **geodp receipt mean.json --verify --ledger study.db**
    """
    with one_sentence():
        if ledger is not None and not verify:
            raise ValueError("--ledger goes with --verify")
        if verify and (plot is not None or spread is not None):
            raise ValueError("--verify answers yes or no: leave out --plot and --spread")
        if plot is not None:
            check_picture(plot)
        text = _text_of(file)
        if not verify:
            from geodp.session import release_from_json

            release = release_from_json(text)
            beside = None if spread is None else _beside(release, read_release(spread))
            if plot is not None:
                release.plot(plot)
            print(release.to_json() if as_json else release)
            if beside is not None and not as_json:
                print(f"  {'spread':<12}{beside}")
            if not as_json:
                print(f"  {'checked':<12}its numbers agree with each other; --verify asks a ledger whether it keeps this text")
            return
        from geodp.privacy.ledger import Ledger

        reason = Ledger(url_of(ledger or DEFAULT_LEDGER)).check_receipt(text)
        if reason is None:
            reason = _contradicts_itself(text)
        if as_json:
            print(json.dumps({"verified": reason is None, "reason": reason}, indent=2))
        else:
            print("yes: the ledger keeps exactly this receipt" if reason is None else f"no: {reason}")
        if reason is not None:
            raise typer.Exit(1)


def _beside(release: object, spread: object) -> str:
    """The error of a mean compared with a released spread."""
    from geodp.receipt import Release

    if not isinstance(release, Release) or not isinstance(spread, Release) or spread.deviation is None:
        raise ValueError("--spread goes with the receipt of a mean: a variance or a covariance of the same records")
    if (release.manifold, release.n, release.dataset) != (spread.manifold, spread.n, spread.dataset):
        raise ValueError("the receipt of --spread is for other records: its number of records or its data set differs")
    return release.verdict(spread)


def read_release(file: Path) -> Release | BallRelease | GroupedRelease:
    """The release in a file; raises if it is not one."""
    from geodp.session import release_from_json

    return release_from_json(_text_of(file))


def _text_of(file: Path) -> str:
    with file.open("rb") as stream:
        content = stream.read(_LONGEST + 1)
    try:
        if len(content) <= _LONGEST:
            return content.decode()
    except UnicodeDecodeError:
        pass
    raise ValueError(f"{file} is not a receipt: give a file that geodp mean --out wrote")


def _contradicts_itself(text: str) -> str | None:
    from geodp.session import release_from_json

    try:
        release_from_json(text)
    except ValueError as error:
        return f"the ledger keeps this text, but {error}"
    return None
