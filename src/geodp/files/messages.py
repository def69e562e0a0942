"""Texts for messages about files. They quote shortened names, shapes and types, never a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class FileError(ValueError):
    """A file cannot be read as records. The message says what was found and what would work, and quotes no cell.

    Releases show this message and hide those of other exceptions. If you write your own reader and raise this error,
    you must make sure that its message holds nothing private.
    """

    __module__ = "geodp.files"  # users import it from there, and tracebacks show that name


def excerpt(text: Any) -> str:
    """A text that a caller gave, shortened; of anything else only the type, because it may hold records."""
    if not isinstance(text, str):
        return f"of type {type(text).__name__}"
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def short(kind: Any) -> str:
    text = str(kind)
    return text if len(text) <= 60 else f"{text[:57]}..."


def cut(name: str) -> str:
    return name if len(name) <= 30 else f"{name[:27]}..."


def listed(names: Sequence[str]) -> str:
    plain = [name if name.isprintable() else ascii(name) for name in map(cut, names[:12])]
    return ", ".join(plain) + (", ..." if len(names) > 12 else "")
