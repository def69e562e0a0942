"""The manifolds that can be named in text, in files and on the command line.

The library's own manifolds register themselves. Your own package can do the same when it is imported, or name its class as an
entry point, ``[project.entry-points."geodp.manifolds"]`` in its ``pyproject.toml``; then it need not be imported first.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import TypeVar

from geodp.manifolds.manifold import Manifold

GROUP = "geodp.manifolds"

_KINDS: dict[str, type[Manifold]] = {}
_Kind = TypeVar("_Kind", bound=type[Manifold])


def register(kind: _Kind) -> _Kind:
    """Registers a manifold by the name of its class; case does not matter. Use it as a class decorator or as a function."""
    known = _KINDS.get(kind.__name__.lower(), kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"the name {kind.__name__} is taken by {known.__module__}.{known.__qualname__}")
    _KINDS[kind.__name__.lower()] = kind
    return kind


@cache
def _load_entry_points() -> None:
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    for point in entry_points(group=GROUP):
        try:
            register(point.load())
        except Exception as error:
            warnings.warn(f"the manifold {point.name} of {point.value} could not be loaded: {error!r}", stacklevel=3)


def registered() -> tuple[type[Manifold], ...]:
    """All manifolds known by name, the library's own first."""
    _load_entry_points()
    return tuple(_KINDS.values())


def own() -> tuple[type[Manifold], ...]:
    """The manifolds that have been imported: the library's own, and others that registered themselves."""
    return tuple(_KINDS.values())


def find(name: str) -> type[Manifold] | None:
    """The manifold of this name."""
    if name.lower() not in _KINDS:
        _load_entry_points()
    return _KINDS.get(name.lower())


def takes_manifolds(kind: type[Manifold]) -> bool:
    """Whether the arguments of a class are manifolds, as for a product, and not numbers."""
    return any(parameter.kind is parameter.VAR_POSITIONAL for parameter in inspect.signature(kind).parameters.values())


def form(kind: type[Manifold]) -> str:
    """How the manifolds of a class are written.

    >>> from geodp import Product, Sphere
    >>> form(Sphere), form(Product)
    ('Sphere(d, curvature=1)', 'Product(M1, M2, ...)')
    """
    if takes_manifolds(kind):
        return f"{kind.__name__}(M1, M2, ...)"
    parameters = inspect.signature(kind).parameters.values()
    written = (p.name if p.default is p.empty else f"{p.name}={p.default:g}" for p in parameters)
    return f"{kind.__name__}({', '.join(written)})"


def forms() -> list[str]:
    """How every known manifold is written, for help texts and messages."""
    return [form(kind) for kind in registered()]


def smallest(kind: type[Manifold]) -> Iterator[Manifold]:
    """The manifolds of a class whose sizes are whole numbers up to four; a product of one line."""
    make: Callable[..., Manifold] = kind
    sizes = sum(p.default is p.empty for p in inspect.signature(kind).parameters.values())
    one = next(iter(_KINDS.values()))
    for arguments in [[next(smallest(one))]] if takes_manifolds(kind) else itertools.product(range(1, 5), repeat=sizes):
        with suppress(TypeError, ValueError):
            yield make(*arguments)
