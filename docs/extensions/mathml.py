"""Formulas as MathML, which browsers draw themselves: no script, no font, no request to another host."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def _mathml(latex: str, display: str) -> str:
    # bars are read as operators between two terms, with spaces around them; in our formulas they always enclose one
    return re.sub(
        r"<mo[^>]*>&#x0007C;</mo>", '<mo stretchy="false" lspace="0" rspace="0">|</mo>', convert(latex, display=display)
    )


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _display(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math-block"))
    writer.body.append(_mathml(node.astext(), "block"))
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
