"""Manifolds and numbers from text."""

from __future__ import annotations

import ast
import inspect
import math
import warnings
from typing import Any

from geodp.files.messages import excerpt
from geodp.files.table import MOST_COLUMNS
from geodp.manifolds import Manifold
from geodp.manifolds.registry import find, forms, takes_manifolds

#: Nobody types a longer manifold or centre. The limit also protects the parser from deep recursion.
_LONGEST_TEXT = 20_000


def parse_manifold(text: str) -> Manifold:
    """The manifold that a text such as ``"SPD(3)"`` names. Upper and lower case do not matter.

    >>> parse_manifold("Product(sphere(2, curvature=4), Euclidean(3))")
    Product(Sphere(2, curvature=4.0), Euclidean(3))
    """
    try:
        manifold = _manifold(expression(text))
        if math.prod(manifold.point_shape) > MOST_COLUMNS:
            raise ValueError(f"its points have more than {MOST_COLUMNS} entries")
        return manifold
    except (TypeError, ValueError, ArithmeticError) as error:
        sentence = f"the manifold {excerpt(text)} cannot be read, because {error}: write one of {', '.join(forms())}"
        raise ValueError(sentence) from None


def _manifold(node: ast.expr) -> Manifold:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise ValueError("a manifold is a name with its sizes in parentheses")
    kind = find(node.func.id)
    if kind is None:
        raise ValueError(f"there is no manifold {excerpt(node.func.id)}")
    read = _manifold if takes_manifolds(kind) else literal
    positional = [read(argument) for argument in node.args]
    named = {keyword.arg or "**": read(keyword.value) for keyword in node.keywords}
    try:
        inspect.signature(kind).bind(*positional, **named)
    except TypeError:
        raise ValueError(f"{kind.__name__} takes other arguments") from None
    return kind(*positional, **named)


def literal(node: ast.expr) -> Any:
    """The value of a number, or of a list or tuple of them; nothing else is evaluated."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd) and not isinstance(node.operand, ast.UnaryOp):
        value = literal(node.operand)
        if not isinstance(value, list):
            return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.List | ast.Tuple):
        return [literal(entry) for entry in node.elts]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    raise ValueError("the parentheses may hold only numbers")


def expression(text: str) -> ast.expr:
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"it is longer than {_LONGEST_TEXT} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(" ".join(text.split()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("its parentheses and commas do not fit together") from None
