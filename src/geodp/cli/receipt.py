"""The command ``geodp receipt``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geodp.cli.common import DEFAULT_LEDGER, JsonOption, one_sentence, url_of

if TYPE_CHECKING:
    from geodp.finding import BallRelease
    from geodp.receipt import GroupedRelease, Release

#: No receipt is longer, in bytes; a file of records may be.
_LONGEST = 2**26


def receipt_command(
    file: Annotated[Path, typer.Argument(help="The receipt: JSON, as geodp mean --out writes it.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Ask the ledger whether it keeps this very text; say yes or no.")
    ] = False,
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", help=f"With --verify: where budgets are kept. Default: {DEFAULT_LEDGER}", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the receipt of a release, or --verify it against the ledger.

    Example: **geodp receipt mean.json --verify --ledger sqlite:///study.db**

    Without --verify a receipt is printed if its numbers agree with each other; anyone can write one that does. With --verify the
    exit code is 0 for yes, 1 for no, and 2 if there is no answer, such as when the ledger cannot be read.
    """
    with one_sentence():
        if ledger is not None and not verify:
            raise ValueError("--ledger goes with --verify")
        text = _text_of(file)
        if not verify:
            release = _read(text)
            print(release.to_json() if as_json else release)
            return
        from geodp.privacy.ledger import Ledger

        reason = Ledger(url_of(ledger or DEFAULT_LEDGER)).check_receipt(text)
        if reason is None:
            reason = _contradicts_itself(text)
        if as_json:
            print(json.dumps({"verified": reason is None, "reason": reason}, indent=2))
        else:
            print("yes: the ledger keeps this very receipt" if reason is None else f"no: {reason}")
        if reason is not None:
            raise typer.Exit(1)


def read_release(file: Path) -> Release | BallRelease | GroupedRelease:
    """The release that a file holds, or a sentence."""
    return _read(_text_of(file))


def _text_of(file: Path) -> str:
    with file.open("rb") as stream:
        content = stream.read(_LONGEST + 1)
    try:
        if len(content) <= _LONGEST:
            return content.decode()
    except UnicodeDecodeError:
        pass
    raise ValueError(f"{file} is no receipt: give a file that geodp mean --out wrote")


def _read(text: str) -> Release | BallRelease | GroupedRelease:
    """A release of any kind, or a sentence that quotes nothing: the text may be anything, such as a file of records."""
    from geodp.finding import BallRelease
    from geodp.receipt import GroupedRelease, Release

    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict) or "geodp" not in stored:
        raise ValueError("this file is no receipt of geodp: give one that geodp mean --out wrote, or what to_json returned")
    kinds: dict[Any, type[Release | BallRelease | GroupedRelease]] = {"ball": BallRelease, "groups": GroupedRelease}
    return kinds.get(stored.get("summary"), Release).from_json(text)


def _contradicts_itself(text: str) -> str | None:
    try:
        _read(text)
    except ValueError as error:
        return f"the ledger keeps this text, but {error}"
    return None
