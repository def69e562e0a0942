"""The command line: ``geodp --help``."""

from geodp.cli.app import app

__all__ = ["app"]
