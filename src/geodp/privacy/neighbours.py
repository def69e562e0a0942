"""Between which data sets a release protects: who is a neighbour of whom.

A release says its neighbours in words, and a budget says for which it was opened. Some imply others at the same cost, because
every pair of the one kind is a pair of the other: what hides all records of a person hides each of them.
"""

from __future__ import annotations

from typing import Literal

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

    Adding a record is adding a person, or replacing one by a person with one record more. So whatever hides every change of a
    person hides every change of a record.

    >>> covers("replace one person", "replace one record"), covers("replace one record", "replace one person")
    (True, False)
    """
    known = {released}
    if released == change_one("person"):
        known |= {change_one("record"), replace_one("person"), add_or_remove_one("person")}
    if change_one("record") in known:
        known |= {replace_one("record"), add_or_remove_one("record")}
    if replace_one("person") in known:
        known.add(replace_one("record"))
    return budget in known
