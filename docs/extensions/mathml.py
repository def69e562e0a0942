"""Formulas as MathML, which browsers draw without scripts, fonts or requests to another host."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

_NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
_NAMED = re.compile(r"[a-zA-Z]{2,}")  # cos, log, sinc, ...: names of functions, set upright
_INDEXED = {_NAMESPACE + tag for tag in ("msub", "msup", "msubsup")}


def _is_named(element: ElementTree.Element) -> bool:
    """Whether an element is the name of a function, perhaps with indices: cos, log_m, sin^2."""
    if element.tag in _INDEXED:
        return _is_named(element[0])
    return element.tag == _NAMESPACE + "mi" and _NAMED.fullmatch(element.text or "") is not None


def _is_term(element: ElementTree.Element) -> bool:
    return element.tag not in {_NAMESPACE + "mo", _NAMESPACE + "mspace"}


def _space_named_functions(root: ElementTree.Element) -> None:
    """Puts TeX's thin space between the name of a function and its neighbour: browsers would write cos s cos t as cosscost."""
    for row in list(root.iter()):
        if row.tag not in {_NAMESPACE + "mrow", _NAMESPACE + "math"}:
            continue
        children = list(row)
        for i in range(len(children) - 1, 0, -1):
            before, after = children[i - 1], children[i]
            if _is_term(before) and _is_term(after) and (_is_named(before) or _is_named(after)):
                row.insert(i, ElementTree.Element(_NAMESPACE + "mspace", width="0.167em"))


def _mathml(latex: str, display: str) -> str:
    root = ElementTree.fromstring(convert(latex, display=display))
    _space_named_functions(root)
    ElementTree.register_namespace("", _NAMESPACE[1:-1])
    text = ElementTree.tostring(root, encoding="unicode")
    # bars are read as operators between two terms, with spaces around them; in our formulas they always enclose a term
    return re.sub(r"<mo[^>]*>\|</mo>", '<mo stretchy="false" lspace="0" rspace="0">|</mo>', text)


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
