"""What a sentence about a file may quote: names, shapes and types, shortened, and no cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class FileError(ValueError):
    """A file that cannot be read as records: one sentence with what was found and what would do, and no cell of it.

    Releases show this sentence and hide those of other exceptions, so a reader of your own that raises it vouches for it.
    """

    __module__ = "geodp.files"  # where it is imported from, and what a traceback shows


def excerpt(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def short(kind: Any) -> str:
    text = str(kind)
    return text if len(text) <= 60 else f"{text[:57]}..."


def cut(name: str) -> str:
    return name if len(name) <= 30 else f"{name[:27]}..."


def listed(names: Sequence[str]) -> str:
    plain = [name if name.isprintable() else ascii(name) for name in map(cut, names[:12])]
    return ", ".join(plain) + (", ..." if len(names) > 12 else "")
