"""Sections of docstrings (a title underlined with dashes) as reStructuredText, and short types in signatures.

Napoleon would read ``name: text`` in the docstring of a property as a type, and an example after the parameters as
another parameter. Here a section of parameters ends where the examples begin, and nothing else is changed.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

#: Sections whose entries become fields, and the name of the field.
_FIELDS = {"Parameters": "param", "Attributes": "ivar"}


def _sections(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    out: list[str] = []
    field = None
    for i, line in enumerate(lines):
        below = lines[i + 1] if i + 1 < len(lines) else ""
        if re.fullmatch(r"-{4,}", line) and i > 0:
            continue
        if line and re.fullmatch(r"-{4,}", below):
            field = _FIELDS.get(line)
            out += [f".. rubric:: {line}", ""] if field is None else []
        elif field and (line.startswith(">>>") or (field == "ivar" and line and " : " not in line)):
            field = None
            out += ["", line]
        elif field == "ivar" and " : " in line:
            out.append(":ivar {}: {}".format(*line.split(" : ", 1)))
        elif field == "param" and line and not line.startswith(" "):
            out.append(f":param {line.split(' : ')[0].replace(', ', ',')}:")  # a blank would end a type
        else:
            out.append(line)
    lines[:] = out


def _short_types(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Restores the short names of array types, which Sphinx spells out."""

    def short(text: str | None) -> str | None:
        if text is None:
            return None
        text = re.sub(r"(?:[\w.]*\.)?TypeAliasForwardRef\('(\w+)'\)", r"\1", text)
        return re.sub(
            r"(?:~?numpy\.)?ndarray\[tuple\[(?:~?typing\.)?Any, \.\.\.\], (?:~?numpy\.)?dtype\[(?:~?numpy\.)?\w+\]\]",
            "NDArray",
            text,
        )

    return short(signature), short(returns)


def _public_place(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement) -> nodes.reference | None:
    """Resolves a name that a docstring uses as in its module to the name on its page: ``Ball`` to ``geodp.Ball``."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or ("." in target and not target.startswith("geodp.")):
        return None
    domain = env.domains.python_domain
    places = [name for name in domain.objects if name.rsplit(".", 1)[-1] == target.rsplit(".", 1)[-1]]
    if not places:
        return None
    place = min(places, key=len)
    entry = domain.objects[place]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, [content], place)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("missing-reference", _public_place)
    app.connect("autodoc-process-docstring", _sections)
    app.connect("autodoc-process-signature", _short_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
