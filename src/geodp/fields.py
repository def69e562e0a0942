"""Public objects as plain JSON and back, from the fields of their dataclasses: one writer and one reader for all of them.

Balls, manifolds and amounts of privacy have forms of their own. Statistics are told apart by their kinds. A field that has its
default value is left out. The reader takes nothing but what the type of a field allows.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from geodp.files import parse_manifold
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.privacy.notions import Privacy, privacy_of
from geodp.request import Request, Statistic


def plain(value: Any) -> Any:
    """Numbers, texts, lists and dictionaries for a public object."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.ndarray():
            return value.tolist()
        case list() | tuple():
            return [plain(each) for each in value]
        case Manifold():
            return repr(value)
        case Ball():
            return {"manifold": repr(value.manifold), "center": value.center.tolist(), "radius": value.radius}
        case Privacy():
            return dict(value.parameters())
    kind = {"kind": value.kind} if isinstance(value, Statistic) else {}
    return kind | {each.name: plain(found) for each in fields(value) if not _is_default(each, found := getattr(value, each.name))}


def _is_default(each: Any, value: Any) -> bool:
    return each.default is not MISSING and type(value) is type(each.default) and bool(value == each.default)


def read(hint: Any, stored: Any) -> Any:
    """The object of this type that :func:`plain` wrote. Raises a ``ValueError`` for anything else."""
    for choice in _choices(hint):
        if (reader := _reader(choice, stored)) is not None:
            return reader(stored)
    raise ValueError("a field has a value of the wrong type")


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _reader(hint: Any, stored: Any) -> Callable[[Any], Any] | None:
    """A function that reads what is stored as this type, or None if it cannot be."""
    origin = get_origin(hint)
    if hint in (None, type(None)):
        return _same if stored is None else None
    if origin is Literal:
        return _same if isinstance(stored, str) and stored in get_args(hint) else None
    if hint in (bool, str):
        return _same if type(stored) is hint else None
    if hint is int:
        return _same if type(stored) is int and abs(stored) <= 2**63 else None
    if hint is float:
        return float if type(stored) in (int, float) else None
    if origin is tuple:
        return (lambda found: tuple(read(get_args(hint)[0], each) for each in found)) if isinstance(stored, list) else None
    if not isinstance(hint, type):
        return None
    if issubclass(hint, Manifold):
        return parse_manifold if isinstance(stored, str) else None
    if not isinstance(stored, dict):
        return None
    if issubclass(hint, Ball):
        return lambda found: Ball(parse_manifold(found["manifold"]), found["center"], found["radius"])
    if issubclass(hint, Privacy):
        return lambda found: privacy_of(**found)
    if issubclass(hint, Statistic):
        return _statistic
    return (lambda found: _instance(hint, found)) if is_dataclass(hint) else None


def _same(stored: Any) -> Any:
    return stored


def _statistic(stored: dict[str, Any]) -> Statistic:
    kind = stored.get("kind")
    if not isinstance(kind, str) or kind not in Statistic.known:
        raise ValueError("there is no such statistic")
    found: Statistic = _instance(Statistic.known[kind], {name: value for name, value in stored.items() if name != "kind"})
    return found


def _instance(kind: Any, stored: dict[str, Any]) -> Any:
    hints = field_types(kind)
    if unknown := set(stored) - set(hints):
        raise ValueError(
            f"a {kind.__name__} has no {min(unknown)}" if min(unknown).isidentifier() else "there is an unknown field"
        )
    return kind(**{name: read(hints[name], value) for name, value in stored.items()})


@cache
def field_types(kind: Any) -> dict[str, Any]:
    """The types of the fields of a dataclass."""
    hints = get_type_hints(kind, localns={"Statistic": Statistic, "Request": Request})
    return {each.name: hints[each.name] for each in fields(kind)}
