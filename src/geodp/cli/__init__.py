"""The command line: ``geodp --help``."""

import sys
from typing import TYPE_CHECKING

from geodp._version import __version__

if TYPE_CHECKING:
    from geodp.cli.commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Runs the program. ``--version`` alone is answered without loading the rest."""
    if sys.argv[1:] == ["--version"]:
        print(f"geodp {__version__}")
        return
    from geodp.cli.commands import app

    app(prog_name="geodp")


def __getattr__(name: str) -> object:
    if name != "app":
        raise AttributeError(f"module 'geodp.cli' has no attribute {name!r}")
    from geodp.cli.commands import app

    return app
