"""Labels of records: who a record belongs to, and which group it is in.

No label makes anything fail. What is no label, such as None, NaN, an empty text or a list, is missing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from geodp.files.cells import as_objects, text_of
from geodp.files.frames import FrameTable, as_frame
from geodp.files.messages import short
from geodp.files.options import ReadOptions
from geodp.inputs import as_numpy, is_line, is_of, refuse_unreadable
from geodp.manifolds import Euclidean
from geodp.records.chunks import each_guarded, hiding_error_text

Indices = NDArray[np.int64]

#: Whole numbers past what floats hold.
_LONG = 1 << 1024
#: JSON holds longer whole numbers, but Python does not read them.
_MOST_DIGITS = 4000


def key_of(label: Any) -> str:
    """A text by which to find labels like this one, whatever type it came in; empty if it is missing or no label at all.

    No label makes this fail: methods of a kind of label are not called, and Python writes no number of 4,300 digits as text.
    """
    try:
        return _key_of(label)
    except Exception:  # some kinds of labels can only be asked by calling their methods
        return ""


def _key_of(label: Any) -> str:
    if isinstance(label, str):
        return str.strip(label)
    if isinstance(label, bytes):
        return str(text_of(bytes(label))).strip()
    if isinstance(label, int):
        number = int.__pos__(label)
        return str(number) if abs(number) < _LONG else hex(number)
    if isinstance(label, np.integer | np.bool_) and not isinstance(label, np.timedelta64):
        return str(int(label))
    if isinstance(label, float | np.floating):
        real = float.__pos__(label) if isinstance(label, float) else float(label)
        return str(int(real)) if real.is_integer() else "" if math.isnan(real) else repr(real)
    if type(label) is UUID or (isinstance(label, date | time | timedelta) and label == label):  # NaT does not equal itself
        return str(label)
    if type(label) is Decimal and label.is_finite() and abs(label.adjusted()) < _MOST_DIGITS:
        return str(int(label)) if label == label.to_integral_value() else str(label.normalize())
    return ""


def read_labels(labels: Any, name: str, x: Any = None) -> NDArray[Any]:
    """Labels as one array in memory, in the order of the records ``x`` if both have an index."""
    if callable(labels) and not hasattr(labels, "__array__"):
        return joined([read_labels(chunk, name) for chunk in each_guarded(labels)])
    with hiding_error_text():
        if is_of(labels, "dask") or is_of(labels, "dask_expr"):
            labels = labels.compute()
    labels = _in_order_of(x, labels, name)
    refuse_unreadable(labels, name)
    with hiding_error_text():
        cells = _cells(labels)
    if cells.ndim != 1:
        raise ValueError(f"{name} has shape {cells.shape}, but one label for each record has shape (n,)")
    if cells.dtype.kind in "cV":
        raise TypeError(f"{name} has the dtype {short(cells.dtype)}, but labels are texts, numbers, identifiers or dates")
    return cells


def _cells(labels: Any) -> NDArray[Any]:
    if isinstance(labels, list | tuple):
        return as_objects(labels)
    frame = as_frame(_as_column(labels))
    if frame is not None and len(frame.collect_schema().names()) == 1:  # numpy.asarray fails for a text that is no UTF-8
        return FrameTable(frame, ReadOptions(Euclidean(1)), {}).read([], False, [0])[1][0]
    array = np.asarray(as_numpy(labels))
    return np.where(np.isnat(array), "", array.astype(str)) if array.dtype.kind in "mM" else array


def _as_column(labels: Any) -> Any:
    """Arrays and indexes of libraries of data frames as columns."""
    if is_of(labels, "pandas") and not hasattr(labels, "iloc"):
        return sys.modules["pandas"].Series(labels)
    if is_of(labels, "pyarrow") and not hasattr(labels, "column_names"):
        return sys.modules["pyarrow"].chunked_array(labels)
    return labels


def _in_order_of(x: Any, labels: Any, name: str) -> Any:
    """Labels in the order of the records, by their index. By position, a shuffled frame would have other people's labels."""
    own, theirs = _index(labels), _index(x)
    if own is None or labels is x:
        return labels
    with hiding_error_text():
        count = len(own)
        if theirs is None:
            plain = bool(np.array_equal(np.asarray(own), np.arange(count)))
        elif own.is_unique and theirs.is_unique:
            places = own.get_indexer(theirs)
            if (places >= 0).all():
                return labels.iloc[places] if hasattr(labels, "iloc") else labels[places]
            plain = False
        else:
            plain = False
    if not plain:
        raise ValueError(
            f"{name} has an index that does not lead from each record to one label: if its order is that of the records, give "
            f"{name} as an array, such as by .to_numpy(), or name a column of x"
        )
    return labels


def _index(x: Any) -> Any:
    """The index of a pandas object, or of the first axis of one of xarray, or None."""
    if any(is_of(x, package) for package in ("pandas", "modin", "cudf")) and hasattr(type(x), "index"):
        return x.index
    if is_of(x, "xarray") and hasattr(x, "dims") and x.dims:
        return x.indexes.get(x.dims[0])
    return None


def aligned(labels: Any, name: str, x: Any) -> Any:
    """Labels that have an index as an array in the order of the records ``x``; other labels unchanged."""
    return labels if _index(labels) is None else read_labels(labels, name, x)


def index_level(x: Any, name: Any) -> NDArray[Any] | None:
    """The level of a pandas index, or the coordinate of the first axis in xarray, that has this name; None if none has."""
    if not isinstance(name, str) or (_index(x) is None and not is_of(x, "xarray")):
        return None
    with hiding_error_text():
        if not is_of(x, "xarray"):
            return _cells(x.index.get_level_values(name)) if name in list(x.index.names) else None
        along = name in x.coords and x.coords[name].dims == x.dims[:1]
        return _cells(x.coords[name].values) if along else None


def coded(labels: NDArray[Any]) -> tuple[Indices, list[Any]]:
    """A whole number for each label, equal for equal labels and -1 for a missing one; and the first label of each number."""
    if labels.dtype.kind in "iubf":
        found, which = np.unique(labels, return_inverse=True)
        count = len(found) - int(np.isnan(found).sum())  # not a number comes last
        return np.where(which < count, which, -1), found[:count].tolist()
    if labels.dtype.kind in "US":
        found, which = np.unique(labels, return_inverse=True)
        codes, first = coded(as_objects([text_of(label) for label in found.tolist()]))
        return codes[which], first
    known, texts, first = {"": -1}, dict[str, int](), list[Any]()
    out = np.empty(len(labels), dtype=np.int64)
    for i, label in enumerate(labels.tolist()):
        code = texts.get(label) if type(label) is str else None
        if code is None:
            code = known.setdefault(key_of(label), len(first))
            first += [label] if code == len(first) else []
            if type(label) is str:
                texts[label] = code
        out[i] = code
    return out, first


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Labels in one array. In one of a common type, one text would turn the numbers of all other records into texts."""
    kinds = {part.dtype if part.dtype.kind not in "US" else part.dtype.kind for part in parts}
    return np.concatenate(parts if len(kinds) == 1 else [np.empty(0, dtype=object), *(part.astype(object) for part in parts)])


def by_appearance(numbers: Indices) -> Indices:
    """The same numbers in the order in which they appear first, from 0 without gaps; -1 stays -1."""
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    absent = int(numbers.min(initial=0) < 0)
    rank[np.append(np.arange(absent), absent + np.argsort(first[absent:], kind="stable"))] = np.arange(len(first)) - absent
    return rank[which]


def places_of(labels: Iterable[Any], names: Iterable[Any]) -> Indices:
    """For each label, which of the names it is; -1 if none, also in the last place, which -1 leads to."""
    place = {key_of(name): i for i, name in enumerate(names)}
    return np.array([*(place.get(key_of(label), -1) for label in labels), -1], dtype=np.int64)


def group_names(names: Sequence[Any]) -> list[Hashable]:
    """The names of groups as texts and numbers, which receipts show on one line and JSON holds; raises for others."""
    found = [_name(name) for name in names]
    if any(name is None for name in found):
        raise ValueError(
            "the name of a group must be one printable line of text, a finite number, or a date, such as 'north' or 7"
        )
    return found


def _name(name: Any) -> Hashable:
    match name:
        case np.generic() if not isinstance(name, str | bytes):
            return _name(name.item())
        case str():
            return name if is_line(name) and is_line(name.strip()) else None
        case int():
            return name if abs(name) < 10**_MOST_DIGITS else None
        case float():
            return name if math.isfinite(name) else None
        case bytes():
            return None
        case _:
            return key_of(name) or None


def sorted_names(labels: Sequence[Any]) -> list[Hashable]:
    """The names of the groups that public labels name, sorted."""
    names = group_names([str.strip(label) if isinstance(label, str) else label for label in labels])
    if len({isinstance(name, str) for name in names}) > 1:
        raise ValueError("some labels in by are texts and others are numbers: make all of them texts, or name the groups")
    return sorted(names, key=lambda name: name)  # type: ignore[arg-type, return-value]  # all are texts, or all are numbers


def check_length(labels: NDArray[Any], name: str, count: int) -> None:
    if len(labels) != count:
        raise ValueError(f"{name} must have one label for each record, but it has {'more' if len(labels) > count else 'fewer'}")
