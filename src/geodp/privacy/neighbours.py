"""Kinds of neighbours: the pairs of data sets between which a release protects.

A release states its kind of neighbours in words, and a budget is opened for one kind. Some kinds imply others at the same cost,
because every pair of the one kind is a pair of the other. Replacing a person does not imply replacing a record: the new record
may belong to another person, and then two persons change.
"""

from __future__ import annotations

from typing import Literal, get_args

#: What ``n`` counts: records, or persons with several records.
Unit = Literal["record", "person"]

#: The default kind of neighbours.
REPLACE_ONE = "replace one record"


def replace_one(unit: Unit) -> str:
    """Neighbours have equally many units, and one unit has different records."""
    return f"replace one {unit}"


def add_or_remove_one(unit: Unit) -> str:
    """One of the neighbours has one unit more than the other."""
    return f"add or remove one {unit}"


def change_one(unit: Unit) -> str:
    """Both kinds: one unit is added, removed or replaced, all at the same cost."""
    return f"add, remove or replace one {unit}"


def covers(released: str, budget: str) -> bool:
    """Whether protection between ``released`` neighbours implies, at the same cost, protection between those of a budget.

    >>> covers("add, remove or replace one person", "replace one person"), covers("replace one person", "replace one record")
    (True, False)
    """
    implied = {change_one(unit): {replace_one(unit), add_or_remove_one(unit)} for unit in get_args(Unit)}
    implied[change_one("person")].add(add_or_remove_one("record"))  # adding or removing one record changes one person
    return budget == released or budget in implied.get(released, ())
