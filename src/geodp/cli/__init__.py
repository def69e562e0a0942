"""The command line: ``geodp --help``."""

import os
import sys
from typing import TYPE_CHECKING

from geodp._version import __version__

if TYPE_CHECKING:
    import typer

    app: typer.Typer

__all__ = ["app", "main"]


def main() -> None:
    """Runs the program. ``--version`` alone is answered without loading the rest."""
    arguments = sys.argv[1:] or ["--help"]
    if arguments == ["--version"]:
        print(f"geodp {__version__}")
        return
    from geodp.cli.commands import program

    program(None if "_GEODP_COMPLETE" in os.environ else arguments[0])(prog_name="geodp")


def __getattr__(name: str) -> object:
    if name != "app":
        raise AttributeError(f"module 'geodp.cli' has no attribute {name!r}")
    from geodp.cli.commands import program

    return program()
