"""Between which data sets a release protects: who is a neighbour of whom.

A release says its neighbours in words, and a budget says for which it was opened. Some imply others at the same cost, because
every pair of the one kind is a pair of the other. Persons do not imply records that are replaced: such a record may be another
person's afterwards, and then two persons change.
"""

from __future__ import annotations

from typing import Literal, get_args

#: What may be one of ``n``: a record, or a person with several.
Unit = Literal["record", "person"]

#: Who the neighbours of a data set are, unless said otherwise.
REPLACE_ONE = "replace one record"


def replace_one(unit: Unit) -> str:
    """Neighbours have equally many units; one of them has other records."""
    return f"replace one {unit}"


def add_or_remove_one(unit: Unit) -> str:
    """One of the neighbours has one unit more."""
    return f"add or remove one {unit}"


def change_one(unit: Unit) -> str:
    """Both of these: what protects the number of units at some cost, and replaced ones at no higher cost."""
    return f"add, remove or replace one {unit}"


def covers(released: str, budget: str) -> bool:
    """Whether a release about some neighbours is, at the same cost, also about those of a budget.

    >>> covers("add, remove or replace one person", "replace one person"), covers("replace one person", "replace one record")
    (True, False)
    """
    implied = {change_one(unit): {replace_one(unit), add_or_remove_one(unit)} for unit in get_args(Unit)}
    implied[change_one("person")].add(add_or_remove_one("record"))  # one record more or less is one person changed
    return budget == released or budget in implied.get(released, ())
