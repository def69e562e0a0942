"""Releases as tables of Arrow, and as Parquet files for R, Julia, DuckDB and others. Needs the extra ``geodp[parquet]``.

A release is one row, a release by groups one row for each group. Columns hold what the receipt says, under the same names where
it is a number or a text. Arrays are lists of numbers, row by row, and ``shape`` says how many rows and columns they make.
``receipt`` is the JSON text of the row. The metadata of the table have the JSON text of the whole release as ``geodp.receipt``,
and the version of its schema (:func:`geodp.data.release_schema`) as ``geodp.schema``. All of it is public, as the receipt is.
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:  # an extra that is installed wherever the tests run
    raise ImportError("geodp.integrations.arrow needs pyarrow: pip install 'geodp[parquet]'") from None

from geodp.receipt import SCHEMA, ChainRelease, GroupedRelease

__all__ = ["parquet_bytes", "release_table"]

_TEXT, _NUMBER, _LIST = pyarrow.string(), pyarrow.float64(), pyarrow.list_(pyarrow.float64())
#: The columns and their types, which are the same for every release.
_COLUMNS = {
    "group": _TEXT,
    "summary": _TEXT,
    "notion": _TEXT,
    **dict.fromkeys(("epsilon", "delta", "rho", "mu"), _NUMBER),
    "neighbours": _TEXT,
    "manifold": _TEXT,
    "n": pyarrow.int64(),
    "value": _LIST,
    "shape": pyarrow.list_(pyarrow.int64()),
    "expected_error": _NUMBER,
    "error_95": _NUMBER,
    "center": _LIST,
    "radius": _NUMBER,
    "mechanism": _TEXT,
    "dataset": _TEXT,
    "geodp": _TEXT,
    "receipt": _TEXT,
}


def release_table(release: Any) -> Any:
    """A release of any kind as a ``pyarrow.Table``.

    >>> import numpy as np
    >>> from geodp import SPD, Ball, private_mean
    >>> release = private_mean(np.tile(np.eye(2), (600, 1, 1)), Ball(SPD(2), np.eye(2), 1.0), epsilon=1.0, by=["a", "b"] * 300)
    >>> table = release_table(release)
    >>> table.column("group").to_pylist(), table.column("n").to_pylist(), table.column("shape").to_pylist()
    (['a', 'b'], [300, 300], [[2, 2], [2, 2]])
    """
    last = release.steps[-1] if isinstance(release, ChainRelease) else release
    named = last.items() if isinstance(last, GroupedRelease) else [(None, last)]
    rows = [_row(name, each.to_json()) for name, each in named]
    kept = {"geodp.schema": SCHEMA, "geodp.receipt": release.to_json()}
    return pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(_COLUMNS.items(), metadata=kept))


def parquet_bytes(release: Any) -> bytes:
    """The content of a Parquet file with :func:`release_table`."""
    file = io.BytesIO()
    pyarrow.parquet.write_table(release_table(release), file)
    return file.getvalue()


def _row(name: Any, text: str) -> dict[str, Any]:
    stored = json.loads(text)
    row = {column: stored.get(column) for column in _COLUMNS} | {"group": None if name is None else str(name), "receipt": text}
    error = stored.get("error", {})
    row |= {"expected_error": error.get("expected"), "error_95": error.get("0.95")}
    if stored.get("value") is not None:
        row["shape"] = list(np.shape(stored["value"]))
    return row | {column: _flat(stored.get(column)) for column in ("value", "center")}


def _flat(nested: Any) -> list[float] | None:
    return None if nested is None else np.ravel(nested).tolist()
