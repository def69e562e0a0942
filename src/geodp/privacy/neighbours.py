"""Neighbours: the pairs of data sets that nobody can tell apart after a release.

A release states its neighbours, and a budget is opened for some. Some neighbours imply others at the same cost, because every
pair of the one kind is a pair of the other:

* *Add, remove or replace* one record implies *replace* one record and *add or remove* one record.
* *Add, remove or replace* one person also implies *add or remove* one record, since that changes the records of one person. It
  does not imply *replace* one record: the new record may belong to another person, and then two persons change.
* *Replace* implies *replace one which keeps its group*. The converse holds only where labels are public.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final, get_args

#: How the data sets differ: one record or person is replaced, or one of them has one more.
Change = Literal["replace", "add-remove"]

#: What ``n`` counts: records, or persons with several records.
Unit = Literal["record", "person"]

#: Whether everyone may know who is in which group.
Labels = Literal["public", "private"]

#: Whether a person is in one group only, or may be in all.
UnitIn = Literal["one group", "all groups"]


@final
@dataclass(frozen=True)
class Neighbours:
    """Data sets that differ in one record, or in all records of one person.

    With ``change="replace"`` both have equally many, so their number is public. ``keeps_group`` means that labels of groups are
    public, too: the new record has the label of the old one. With ``change="add-remove"`` one of them has one more;
    ``or_replace`` means that replacing one costs no more than that. ``str`` is the sentence that receipts and ledgers keep.

    >>> print(Neighbours("replace", "person"))
    replace one person
    >>> print(Neighbours("add-remove", or_replace=True))
    add, remove or replace one record
    """

    change: Change = "replace"
    unit: Unit = "record"
    keeps_group: bool = False
    or_replace: bool = False

    def __str__(self) -> str:
        if self.change == "add-remove":
            return f"add, remove or replace one {self.unit}" if self.or_replace else f"add or remove one {self.unit}"
        group = {"record": ", which keeps its group", "person": ", who keeps their group"}[self.unit]
        return f"replace one {self.unit}{group if self.keeps_group else ''}"

    @property
    def pairs(self) -> frozenset[tuple[str, Unit]]:
        """The kinds of pairs of data sets that are neighbours."""
        found: set[tuple[str, Unit]] = {("replace in its group", self.unit)}
        if not self.keeps_group:
            found.add(("replace", self.unit))
        if self.change == "replace":
            return frozenset(found)
        more: set[tuple[str, Unit]] = {("add-remove", self.unit)}
        if self.or_replace:
            more |= found | {("add-remove", "record")}
        return frozenset(more)


#: The default of all releases and budgets.
REPLACE_ONE = str(Neighbours())

#: By their sentences: all neighbours that the library knows.
KNOWN = {
    str(each): each
    for unit in get_args(Unit)
    for each in (
        *(Neighbours("replace", unit, keeps_group=keeps) for keeps in (False, True)),
        *(Neighbours("add-remove", unit, or_replace=also) for also in (False, True)),
    )
}


def sentence(neighbours: Neighbours | str, unit: Unit | None = None) -> str:
    """The sentence for ``"replace"`` or ``"add-remove"`` and a unit, by default a record. Other lines of text are returned.

    >>> sentence("add-remove", "person"), sentence("replace one hospital")
    ('add or remove one person', 'replace one hospital')
    """
    if unit is not None and unit not in get_args(Unit):
        raise ValueError("unit must be 'record' or 'person': what the neighbours differ in")
    match neighbours:
        case "replace" | "add-remove":
            return str(Neighbours(neighbours, unit or "record"))
        case Neighbours() | str() if unit is None:
            return str(neighbours)
        case Neighbours() | str():
            raise ValueError("unit goes with the neighbours 'replace' and 'add-remove': other words name it themselves")
    raise TypeError(f"the neighbours must be a str but are of type {type(neighbours).__name__}")


def why_not(released: str, budget: str) -> str | None:
    """Why protection between ``released`` neighbours does not imply, at the same cost, that of a budget; None if it does.

    Labels that a release calls public are public in its budget, too: the budget then protects records that keep their groups.

    >>> why_not("add, remove or replace one person", "replace one person") is None
    True
    >>> why_not("replace one person", "replace one record")
    'a new record may belong to another person, and then two persons change: charge a budget opened for the same neighbours'
    """
    ours, theirs = KNOWN.get(released), KNOWN.get(budget)
    if released == budget:
        return None
    remedy = "charge a budget opened for the same neighbours"
    if ours is None or theirs is None:
        return f"neighbours in your own words imply only the same words: {remedy}"
    if theirs.pairs <= replace(ours, keeps_group=False).pairs:
        return None
    if (ours.unit, theirs.unit) == ("record", "person"):
        return f"a person may have several records: say whose each record is with unit= (or --unit), or {remedy}"
    if ours.unit != theirs.unit and theirs.change == "replace":
        return f"a new record may belong to another person, and then two persons change: {remedy}"
    if ours.unit != theirs.unit:
        return f"a record that is added may be of a new person or of one who is there already: {remedy}"
    if ours.change == "replace":
        more = "release with neighbours='add-remove' (or --neighbours)"
        return f"the number of {ours.unit}s is public in this release and private in the budget: {more}, or {remedy}"
    return f"to replace a {ours.unit} is to remove one and to add another, which are two changes: {remedy}"
