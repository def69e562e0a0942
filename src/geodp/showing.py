"""Results as text for terminals, as HTML for notebooks and as pictures, from the same rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

#: A name and a text. A row without a name continues the one before.
Row = tuple[str, str]

#: Below it stand technical rows.
RULE: Row = ("-" * 10, "")

_CELL = 'style="text-align: left; vertical-align: top; white-space: pre-wrap"'


def as_text(head: str, rows: Iterable[Row], width: int = 12) -> str:
    """A head, and the rows in two columns.

    >>> print(as_text("PRIVATE MEAN", [("value", "[1,\\n 2]"), ("error", "0.1")], width=8))
    PRIVATE MEAN
      value   [1,
               2]
      error   0.1
    """
    margin = "\n" + " " * (2 + width)
    return "\n".join([head, *(f"  {name:<{width}}{text}".replace("\n", margin) for name, text in rows)])


def as_html(head: str, rows: Iterable[Row]) -> str:
    """The same as a table. Every text is escaped.

    >>> as_html("a < b", [("x", "1")]).count("a &lt; b")
    1
    """
    lines = (
        f"<tr><th {_CELL} scope='row'>{escape(name)}</th><td {_CELL}><code>{escape(text)}</code></td></tr>" for name, text in rows
    )
    return f"<table><caption {_CELL}><b>{escape(head)}</b></caption><tbody>{''.join(lines)}</tbody></table>"


def table_html(head: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with named columns. Every text is escaped."""
    names = "".join(f"<th {_CELL} scope='col'>{escape(name)}</th>" for name in columns)
    lines = ("".join(f"<td {_CELL}>{escape(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption {_CELL}><b>{escape(head)}</b></caption><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def picture_kind(path: str | os.PathLike[str]) -> str:
    """The kind of file that a picture at this path is."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise ValueError(f"{path} must end in .png, .svg or .pdf")
    return kind


class Pictured:
    """Objects with a picture. :mod:`geodp.plots` draws it; it is imported only then, because that is slow."""

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """A :class:`geodp.plots.Picture`, which notebooks show; also written to ``path`` (.png, .svg or .pdf) if one is given."""
        return import_module("geodp.plots").picture(self, path)


class Shown(Pictured):
    """Objects with a head and rows, which terminals print as text and notebooks show as a table."""

    def head(self) -> str:
        """The title."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        """The rows, each a name and a text."""
        raise NotImplementedError

    def __str__(self) -> str:
        return as_text(self.head(), self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.head(), self.rows())
