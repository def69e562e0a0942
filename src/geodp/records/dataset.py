"""A data set: records, the person and the group each one belongs to, and what about them is public."""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypedDict, Unpack, final, get_args

import numpy as np

from geodp.files import Found
from geodp.files.images import is_one_image
from geodp.files.options import ReadOptions
from geodp.files.parts import are_images, open_parts
from geodp.inputs import callers_level, describe, refuse_unreadable
from geodp.manifolds import Manifold
from geodp.manifolds.notation import Notation
from geodp.privacy.neighbours import Change, Labels, UnitIn
from geodp.records.chunks import count_records, is_dask, with_errors_hidden
from geodp.records.labels import Indices, aligned, by_appearance, group_names, key_of, places_of, sorted_names
from geodp.records.persons import Persons, numbered, persons_of
from geodp.records.rows import Rows, check_known, read_rows, select_records
from geodp.records.sources import Columns, is_column, load


class MemberOptions(Columns, total=False):
    """Whose the records are, and whether their number is public: options of :class:`Dataset`, which documents them."""

    unit: Any
    neighbours: Change


class GroupNames(TypedDict, total=False):
    """Which groups there are."""

    groups: Sequence[Hashable] | None
    labels: Labels
    unit_in: UnitIn


class GroupOptions(GroupNames, total=False):
    """The group of each record: further options of :class:`Dataset`."""

    by: Any


class DatasetOptions(MemberOptions, GroupOptions, total=False):
    """The keyword arguments of the ``private_*`` functions that :class:`Dataset` takes too."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Private records, and the person and the group of each. Every ``private_*`` function takes one for ``x``.

    Parameters
    ----------
    x
        The records, as for :func:`geodp.frechet_mean`: arrays, data frames, the name of a file or directory, or a list of files.
    unit
        The id of the person that each record belongs to: numbers or texts, or the name of their column, of a level of the index
        of a data frame, or of a coordinate of an xarray array. Each person then counts once among ``n``: the records of a person
        are averaged first. *Neighbours* differ by all records of one person, however many. In an array the records may come in
        any order; in chunks and Dask arrays those of a person must come together. A function may return the ids in chunks, in
        the order of the records. The number of persons is public (unless ``neighbours`` says otherwise). The number of records
        is not published, but somebody who can measure time and memory may guess it. A record without an id counts as a person
        of its own, whose only record is invalid. Of several images each is a person: ``unit="image"``.
    neighbours
        ``"replace"``: neighbours have equally many records (or persons), so their number is public. ``"add-remove"``: one has
        one more than the other, so the number is private, and a noisy count is part of the release and of its cost.
    by
        The group of each record, or the name of their column. There is then one release for each group, and all
        together cost as much as one, because every record, or person, is in only one group.
    groups
        The names of the groups. They are public, and each group gets a release, even if it has no records.
    labels
        ``"public"``: everyone may know who is in which group; the changed record keeps its group. ``"private"``: the changed
        record, or person, may also change its group. The numbers of records in the groups are then private too, and a noisy
        count is part of each release. Replacing one record changes two groups, so each gets half of the privacy (with
        ``neighbours="add-remove"`` nothing is halved). Records whose label is not in ``groups`` are left out silently. A person
        belongs to the group of their first record.
    unit_in
        ``"one group"``: each person is in one group. ``"all groups"``: a person may be in every group, with records in each,
        such as a patient in whom many regions were measured. The privacy is then divided over the groups. Do not name persons by
        group instead, such as "region 3, person 7": that would protect one region of a person and not the person.
    columns, layout, header, mask, atlas
        How columns become points, as for :func:`geodp.files.read_records`. Arrays whose rows are not yet points, such as upper
        triangles, need a ``layout``. The columns of ``unit`` and ``by`` hold no coordinates. An ``atlas`` is a public image of
        the number of the region of each voxel: the regions are then the groups (``by="region"``), and voxels of region 0 are
        left out. Labels with an index, such as a column of another data frame, find their records by it.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere, private_mean
    >>> x = np.tile([0.0, 0.0, 1.0], (600, 1))
    >>> visits = Dataset(x, unit=np.repeat(np.arange(200), 3))
    >>> release = private_mean(visits, Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5), epsilon=1.0)
    >>> release.n, release.neighbours
    (200, 'replace one person')
    """

    x: Any
    unit: Any = None
    neighbours: Change = "replace"
    by: Any = None
    groups: Sequence[Hashable] | None = None
    labels: Labels = "public"
    columns: Sequence[str | int] | str | None = None
    layout: str | None = None
    header: bool | None = None
    mask: Any = None
    atlas: Any = None
    unit_in: UnitIn = "one group"
    #: The layout of the records, if they were read from columns. Releases are written in it too.
    written: Notation | None = None

    def __post_init__(self) -> None:
        if self.unit is None and are_images(self.x):
            object.__setattr__(self, "unit", "image")
        if self.by is None and self.atlas is not None:
            object.__setattr__(self, "by", "region")
        if self.neighbours not in get_args(Change):
            raise ValueError(f"neighbours must be 'replace' or 'add-remove' but is {describe(self.neighbours)}")
        if self.labels not in get_args(Labels):
            raise ValueError(f"labels must be 'public' or 'private' but is {describe(self.labels)}")
        if self.by is None and (self.groups is not None or self.labels == "private"):
            raise ValueError("groups and labels describe by, the group of each record: give by too")
        if self.by is not None and self.labels == "public" and self.neighbours == "add-remove":
            raise ValueError(
                "public labels show how many records each group has, which add-remove keeps private: make labels private, and "
                "give groups"
            )
        if self.unit_in not in get_args(UnitIn):
            raise ValueError(f"unit_in must be 'one group' or 'all groups' but is {describe(self.unit_in)}")
        if self.unit_in == "all groups" and (self.unit is None or self.by is None):
            raise ValueError("unit_in says how many groups a person may be in: give unit and by too")
        if self.groups is not None:
            names = list(self.groups) if not isinstance(self.groups, str) else []
            keys = {key_of(name) for name in names}
            if not names or len(keys) != len(names) or "" in keys:
                raise ValueError("groups must be a list of at least one name, all different, each a text or a number")
            object.__setattr__(self, "groups", tuple(group_names(names)))
        elif self.labels == "private":
            raise ValueError(
                "private labels need groups, the public list of their names, because that list must not depend on the records"
            )

    @classmethod
    def of(cls, x: Any, who: DatasetOptions) -> Dataset:
        """``x`` itself if it is a data set, else a data set made from it."""
        if not isinstance(x, Dataset):
            return cls(x, **who)
        if who:
            raise ValueError(f"x is a Dataset, which has its own settings: leave out {', '.join(who)}")
        return x

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        manifold: Manifold,
        *,
        dask: bool = False,
        **who: Unpack[DatasetOptions],
    ) -> Dataset:
        """Reads the records in a file. ``who`` is as for :class:`Dataset`; ``unit`` and ``by`` are columns.

        With ``dask`` the records are read in blocks when they are needed, and may be larger than memory: :func:`geodp.read_dask`.

        >>> from geodp import Sphere
        >>> Dataset.read("visits.csv", Sphere(2), unit="person")
        Traceback (most recent call last):
            ...
        geodp.files.FileError: there is no file visits.csv
        """
        data = cls(path, **who)
        if not dask:
            return data.load(manifold)
        from geodp.records.dask_files import check_installed, dask_of

        check_installed()
        options = ReadOptions.of(manifold, labels=tuple(data._named), **data._how)
        return data._filled(dask_of(open_parts(path, options)))

    def load(self, manifold: Manifold) -> Dataset:
        """The same data set with its records as points of the manifold, and with its labels beside them."""
        if self.unit is None and is_one_image(self.x):
            warnings.warn(
                "the records of one image are voxels of one person, and each is protected by itself: give a list of images, "
                "one a person, or say in unit whose each voxel is",
                stacklevel=callers_level(),
            )
        return self._filled(load(self.x, manifold, self._named, **self._how))

    @property
    def _how(self) -> dict[str, Any]:
        """How columns become points."""
        return {name: getattr(self, name) for name in ("columns", "layout", "header", "mask", "atlas")}

    @property
    def _named(self) -> list[str | int]:
        """The labels that are given as names of columns."""
        return [column for column in (self.unit, self.by) if is_column(column)]

    def _filled(self, found: Found) -> Dataset:
        known = dict(zip(self._named, found.labels, strict=True))
        unit, by = (
            known[label] if is_column(label) else aligned(label, name, self.x)
            for name, label in (("unit", self.unit), ("by", self.by))
        )
        who: Any = {name: getattr(self, name) for name in ("neighbours", "groups", "labels", "unit_in")}
        return Dataset(found.x, unit, by=by, written=found.written or self.written, **who)

    def without_groups(self) -> Dataset:
        """The same records and persons, of no groups."""
        return replace(self, by=None, groups=None, labels="public", unit_in="one group")

    def __repr__(self) -> str:
        labels = [f"{name}=..." for name in ("unit", "by") if getattr(self, name) is not None]
        return f"Dataset({', '.join(['...', *labels])}, neighbours={self.neighbours!r})"

    def notation(self, manifold: Manifold) -> Notation | None:
        """The layout the records were written in, if it is one of this manifold."""
        return self.written if self.written is not None and self.written.manifold == manifold else None

    def open(self, manifold: Manifold) -> Members:
        """The members: records, or persons."""
        data = self.load(manifold)
        refuse_unreadable(data.x, "x")
        x = with_errors_hidden(data.x, manifold)
        if data.unit is None and data.by is None:
            if is_dask(x) and self.neighbours == "add-remove":
                check_known(x, manifold)
            return Members(x, manifold, count_records(x, manifold), data, {})
        rows = read_rows(x, data.unit, data.by, manifold)
        own = None if rows.persons is None else numbered(rows.persons)
        by_group: Mapping[Hashable, Indices] = {}
        if rows.groups is not None:
            groups, names = _codes_of_groups(rows, data)
            own, groups = _members(own, groups, data)
            by_group = _places(groups, names)
        source = rows.x if own is None else persons_of(rows, own, manifold)
        return Members(source, manifold, source.count if isinstance(source, Persons) else rows.count, data, by_group)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Members:
    """The members of a data set, records or persons, from which a statistic is computed.

    If persons may be in every group, who is in several is a member in each, with the records of that group.
    """

    source: Any
    manifold: Manifold
    count: int
    dataset: Dataset
    by_group: Mapping[Hashable, Indices]

    def select(self, keep: Indices, padding: int = 0) -> Members:
        """The members ``keep``, in order, followed by ``padding`` invalid ones."""
        if padding == 0 and len(keep) == self.count:
            return self
        source = (
            self.source.select(keep, padding)
            if isinstance(self.source, Persons)
            else select_records(self.source, self.manifold, self.count, keep, padding)
        )
        return Members(source, self.manifold, len(keep) + padding, self.dataset, {})

    def resized(self, n: int, chance: Random) -> Members:
        """``n`` members chosen at random; if there are fewer, all of them and invalid ones up to ``n``."""
        keep = (
            np.arange(self.count) if n >= self.count else np.sort(np.array(chance.sample(range(self.count), n), dtype=np.int64))
        )
        return self.select(keep, n - len(keep))

    def groups(self) -> Mapping[Hashable, Indices]:
        """The members of each group."""
        return self.by_group


def _codes_of_groups(rows: Rows, data: Dataset) -> tuple[Indices, list[Any]]:
    """The number of each record's group, -1 for a record in none, and the names of the groups."""
    assert rows.groups is not None
    names = sorted_names(rows.labels) if data.groups is None else list(data.groups)
    groups = places_of(rows.labels, names)[rows.groups]
    if data.labels == "public" and (groups < 0).any():
        raise ValueError(f"some labels in by are not among the {len(names)} groups: name all groups, or leave those records out")
    return groups, names


def _members(own: Indices | None, groups: Indices, data: Dataset) -> tuple[Indices | None, Indices]:
    """The number of each record's member, and the group of each member: of records if there are no persons."""
    if own is None:
        return None, groups
    if data.unit_in == "all groups":
        pairs = by_appearance(np.where(groups < 0, -1, own * (groups.max(initial=0) + 1) + groups))
        return pairs, _first(groups, pairs)
    of_person = _first(groups, own)
    if data.labels == "public" and not np.array_equal(of_person[own], groups):
        raise ValueError(
            "a person has records in several groups, and would be protected only within each: say unit_in='all groups' "
            "(--unit-in), which divides the privacy over the groups"
        )
    return own, of_person


def _first(groups: Indices, members: Indices) -> Indices:
    """The group of the first record of each member."""
    found = np.zeros(members.max(initial=-1) + 1, dtype=np.int64)
    inside = members >= 0
    found[members[inside][::-1]] = groups[inside][::-1]  # the last value that is put into a place stays
    return found


def _places(groups: Indices, names: list[Any]) -> dict[Hashable, Indices]:
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(len(names) + 1))
    return {name: order[starts[i] : starts[i + 1]] for i, name in enumerate(names)}
