"""What is recorded of a release: every number to the last bit, and what a ledger keeps of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from geodp import Ledger

from .entropy import seeded

#: What a release of any kind may have, as far as it does.
_FIELDS = (
    *("value", "vector", "centers", "counts", "n", "private", "neighbours", "unit", "mechanism", "scale", "ball"),
    *("dataset", "charge", "count", "coverage", "valid", "inside"),
)
#: Of a receipt: what is not about the release.
_UNRECORDED = ("geodp",)
#: The budgets that cases charge, wide enough for all of them.
TOTALS = {"epsilon": 20, "delta": "0.001", "rho": 20, "mu": 20}


class Book:
    """A ledger in a folder of its own, with one data set, and what a case leaves in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger(f"sqlite:///{(folder / 'budget.db').as_posix()}")
        self.opened = False

    def open(self, neighbours: str = "replace one record", **total: Any) -> dict[str, Any]:
        """Opens the data set; the arguments that charge a release to it."""
        self.ledger.open("study", neighbours=neighbours, **total)
        self.opened = True
        return {"ledger": self.ledger, "dataset": "study"}

    def charged(self) -> str:
        """How many charges there are: noise is drawn after them."""
        return f"bytes read after {len(self.ledger.history('study')) if self.opened else 0} charges"

    def described(self) -> dict[str, Any]:
        charges = [
            {
                **{name: getattr(charge, name) for name in ("id", "what", "epsilon", "delta", "rho", "mu", "neighbours")},
                "privacy": str(charge.privacy),
                "cost": _cost(charge.cost),
                "has_receipt": charge.receipt is not None,
            }
            for charge in self.ledger.history("study")
        ]
        return plain({"spent": str(self.ledger.spent("study")), "left": str(self.ledger.remaining("study")), "charges": charges})


def recorded(name: str, run: Callable[[Book], Any]) -> dict[str, Any]:
    """The record of a case. An exception is its result."""
    with TemporaryDirectory(prefix="geodp-golden-") as folder:
        book = Book(Path(folder))
        return _recorded(book, name, run)


def _recorded(book: Book, name: str, run: Callable[[Book], Any]) -> dict[str, Any]:
    with seeded(name, book.charged) as stream:
        receipts: dict[str, Any] = {}
        try:
            found = {"result": described(run(book), receipts, "")}
        except Exception as error:
            found = {"raises": f"{type(error).__name__}: {error}".replace(str(book.folder), "FOLDER")}
        found["entropy"] = dict(stream.read)
        if book.opened:
            found["ledger"] = book.described()
        return found | {"receipt": receipts}


def described(thing: Any, receipts: dict[str, Any], place: str) -> Any:
    """Releases, and whatever holds them, as plain values; their receipts go into a section of their own."""
    if isinstance(thing, list | tuple):
        return [described(each, receipts, f"{place}[{i}]") for i, each in enumerate(thing)]
    if isinstance(thing, dict):
        return {str(name): described(each, receipts, f"{place}/{name}") for name, each in thing.items()}
    if hasattr(thing, "center") and hasattr(thing, "radius") and not hasattr(thing, "to_json"):
        return {"center": plain(thing.center), "radius": plain(thing.radius)}
    if not hasattr(thing, "to_json"):
        return plain(thing)
    text = thing.to_json()
    receipts[place or "/"] = {name: value for name, value in json.loads(text).items() if name not in _UNRECORDED}
    return {**_fields(thing), "reads_back": _reads_back(type(thing), text)}


def _fields(thing: Any) -> dict[str, Any]:
    found = {name: _part(getattr(thing, name)) for name in _FIELDS if hasattr(thing, name)}
    found["cost"] = _cost(thing.cost)
    if isinstance(thing, Mapping):
        found["groups"] = {str(name): _fields(each) for name, each in thing.items()}
    if hasattr(thing, "expected_error"):
        found["expected_error"] = plain(thing.expected_error())
        found["error_quantile"] = plain(thing.error_quantile(0.95))
    return found


def _part(thing: Any) -> Any:
    """What a release holds: its receipt is part of the whole one."""
    return _fields(thing) if hasattr(thing, "to_json") else described(thing, {}, "")


def _reads_back(kind: Any, text: str) -> Any:
    """Whether the receipt is read, and written as it was; or why not."""
    try:
        return kind.from_json(text).to_json() == text
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _cost(cost: Any) -> Any:
    numbers = {name: getattr(cost, name) for name in ("epsilon", "rho", "mu", "advantage")}
    return plain({**numbers, "delta at 0.5": cost.delta_at(0.5), "epsilon at 1e-6": cost.epsilon_at(1e-6)})


def plain(thing: Any) -> Any:
    """Numbers as hexadecimal text, which loses no bit."""
    match thing:
        case None | bool() | str():
            return thing
        case np.bool_():
            return bool(thing)
        case int() | np.integer():
            return int(thing)
        case float() | np.floating():
            return float(thing).hex()
        case np.ndarray():
            return [plain(each) for each in thing.tolist()] if thing.ndim else plain(thing.item())
        case Mapping():
            return {str(name): plain(each) for name, each in thing.items()}
        case list() | tuple():
            return [plain(each) for each in thing]
    return str(thing)
