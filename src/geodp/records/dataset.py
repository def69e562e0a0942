"""A data set: records, the person and the group each one belongs to, and what about them is public."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypedDict, Unpack, final, get_args

import numpy as np
from numpy.typing import NDArray

from geodp.files import Found
from geodp.inputs import describe, refuse_unreadable
from geodp.manifolds import Manifold
from geodp.manifolds.notation import Notation
from geodp.privacy.neighbours import Change
from geodp.records.chunks import count_records, hiding_error_text, is_dask, with_errors_hidden
from geodp.records.persons import (
    Indices,
    Persons,
    check_known,
    check_length,
    distinct,
    key_of,
    open_persons,
    select_records,
    whole,
)
from geodp.records.sources import Columns, is_column, load

Labels = Literal["public", "private"]


class MemberOptions(Columns, total=False):
    """Whose the records are, and whether their number is public: options of :class:`Dataset`, which documents them."""

    unit: Any
    neighbours: Change


class GroupOptions(TypedDict, total=False):
    """The group of each record: further options of :class:`Dataset`."""

    by: Any
    groups: Sequence[Hashable] | None
    labels: Labels


class DatasetOptions(MemberOptions, GroupOptions, total=False):
    """The keyword arguments of the ``private_*`` functions that :class:`Dataset` takes too."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Private records, and the person and the group of each. Every ``private_*`` function takes one for ``x``.

    Parameters
    ----------
    x
        The records, as for :func:`geodp.frechet_mean`: arrays, data frames, or the name of a file.
    unit
        The id of the person that each record belongs to: numbers or texts, or the name of their column. Each person then
        counts once among ``n``: the records of a person are averaged first. *Neighbours* differ by all records of one person,
        however many. In an array the records may come in any order; in chunks and Dask arrays those of a person must come
        together. A function may return the ids in chunks. The number of persons is public (unless ``neighbours`` says
        otherwise). The number of records is not published, but somebody who can measure time and memory may guess it. Records
        without an id are left out.
    neighbours
        ``"replace"``: neighbours have equally many records (or persons), so their number is public. ``"add-remove"``: one has
        one more than the other, so the number is private, and a noisy count is part of the release and of its cost.
    by
        The group of each record, or the name of the column of groups. There is then one release for each group, and all
        together cost as much as one, because every record, or person, is in only one group.
    groups
        The names of the groups. They are public, and each group gets a release, even if it has no records.
    labels
        ``"public"``: everyone may know who is in which group; the changed record keeps its group. ``"private"``: the changed
        record, or person, may also change its group. The numbers of records in the groups are then private too, and a noisy
        count is part of each release. Replacing one record changes two groups, so each gets half of the privacy (with
        ``neighbours="add-remove"`` nothing is halved). Records whose label is not in ``groups`` are left out silently. A person
        belongs to the group of their first record.
    columns, layout, header, mask
        How columns become points, as for :func:`geodp.files.read_records`. Arrays whose rows are not yet points, such as upper
        triangles, need a ``layout``. The columns of ``unit`` and ``by`` hold no coordinates.

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
    mask: str | os.PathLike[str] | None = None
    #: The layout of the records, if they were read from columns. Releases are written in it too.
    written: Notation | None = None

    def __post_init__(self) -> None:
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
        if self.groups is not None:
            names = list(self.groups) if not isinstance(self.groups, str) else []
            keys = {key_of(name) for name in names}
            if not names or len(keys) != len(names) or "" in keys:
                raise ValueError("groups must be a list of at least one name, all different, each a text or a number")
            object.__setattr__(self, "groups", tuple(names))
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
        from geodp.records.dask_files import read_dask_with_labels

        if data.mask is not None:
            raise ValueError("Dask cannot read images: leave out the mask, or Dask")
        how: Any = {"columns": data.columns, "layout": data.layout or "auto", "header": data.header}
        return data._filled(read_dask_with_labels(path, manifold, data._named, **how))

    def load(self, manifold: Manifold) -> Dataset:
        """The same data set in memory: its records as points of the manifold, and its labels as arrays."""
        how: Any = {"columns": self.columns, "layout": self.layout, "header": self.header, "mask": self.mask}
        return self._filled(load(self.x, manifold, self._named, **how))

    @property
    def _named(self) -> list[str | int]:
        """The labels that are given as names of columns."""
        return [column for column in (self.unit, self.by) if is_column(column)]

    def _filled(self, found: Found) -> Dataset:
        known = dict(zip(self._named, found.labels, strict=True))
        unit, by = (known[label] if is_column(label) else label for label in (self.unit, self.by))
        written = found.written or self.written
        return Dataset(found.x, unit, self.neighbours, by, self.groups, self.labels, written=written)

    def __repr__(self) -> str:
        said = [f"{name}=..." for name in ("unit", "by") if getattr(self, name) is not None]
        return f"Dataset({', '.join(['...', *said])}, neighbours={self.neighbours!r})"

    def notation(self, manifold: Manifold) -> Notation | None:
        """The layout the records were written in, if it is one of this manifold."""
        return self.written if self.written is not None and self.written.manifold == manifold else None

    def open(self, manifold: Manifold) -> Members:
        """The members: records, or persons."""
        data = self.load(manifold)
        refuse_unreadable(data.x, "x")
        x = with_errors_hidden(data.x, manifold)
        if is_dask(x) and (self.neighbours == "add-remove" or self.by is not None):
            check_known(x, manifold)
        if data.unit is None:
            return Members(x, manifold, count_records(x, manifold), data)
        persons = open_persons(x, data.unit, manifold)
        return Members(persons, manifold, persons.count, data)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Members:
    """The members of a data set, records or persons, from which a statistic is computed."""

    source: Any
    manifold: Manifold
    count: int
    dataset: Dataset

    def select(self, keep: Indices, padding: int = 0) -> Members:
        """The members ``keep``, in order, followed by ``padding`` invalid ones."""
        if padding == 0 and len(keep) == self.count:
            return self
        source = (
            self.source.select(keep, padding)
            if isinstance(self.source, Persons)
            else select_records(self.source, self.manifold, self.count, keep, padding)
        )
        return Members(source, self.manifold, len(keep) + padding, self.dataset)

    def resized(self, n: int, chance: Random) -> Members:
        """``n`` members chosen at random; if there are fewer, all of them and invalid ones up to ``n``."""
        keep = (
            np.arange(self.count) if n >= self.count else np.sort(np.array(chance.sample(range(self.count), n), dtype=np.int64))
        )
        return self.select(keep, n - len(keep))

    def groups(self) -> dict[Hashable, Indices]:
        """The members of each group."""
        data = self.dataset
        labels = _labels(data.by)
        check_length(labels, "by", self.source.records if isinstance(self.source, Persons) else self.count)
        public = data.labels == "public"
        found, which = distinct(labels)
        names = _sorted(value for key, value in found.items() if key) if data.groups is None else list(data.groups)
        index = {key_of(name): i for i, name in enumerate(names)}
        codes = np.array([index.get(key, -1) for key in found], dtype=np.int64)[which]
        if public and (codes < 0).any():
            raise ValueError(
                f"some labels in by are not among the {len(names)} groups: name all groups, or leave those records out"
            )
        if isinstance(self.source, Persons):
            codes = self._of_persons(codes, public)
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(names) + 1))
        return {name: order[starts[i] : starts[i + 1]] for i, name in enumerate(names)}

    def _of_persons(self, codes: Indices, public: bool) -> Indices:
        by_person, starts = codes[self.source.order], self.source.starts[:-1]
        first = by_person[starts]
        if public and not np.array_equal(np.repeat(first, np.diff(self.source.starts)), by_person):
            raise ValueError(
                "a person has records in two groups, and would be protected only within each: name persons by group in unit, "
                "such as 'site 1, person 7', or make labels private, which puts a person in the group of their first record"
            )
        return first


def _labels(by: Any) -> NDArray[Any]:
    if callable(by):
        chunks: Callable[[], Any] = by
        with hiding_error_text():
            # as objects: in one array of a common type, one text would turn the numbers of all other records into texts
            return np.concatenate([np.empty(0, dtype=object), *(whole(chunk, "by").astype(object) for chunk in chunks())])
    return whole(by, "by")


def _sorted(names: Iterable[Any]) -> list[Any]:
    try:
        return sorted(names)
    except TypeError:  # labels of several types
        return sorted(names, key=lambda name: (type(name).__name__, str(name)))
