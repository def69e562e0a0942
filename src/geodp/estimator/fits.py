"""Fits without a ledger are counted: those of an estimator, its clones and their copies in other processes."""

from __future__ import annotations

import json
import math
import os
import tempfile
import warnings
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from geodp.inputs import callers_level
from geodp.privacy.cost import Cost, compose, cost_from_dict


@final
class Fits:
    """What an estimator and its clones have spent without a ledger.

    Clones share this object. If one is sent to another process, such as those of ``n_jobs``, a temporary file counts from then
    on: a line for each fit, with its cost and nothing else. It is removed with the estimator that made it. Processes on other
    machines count for themselves.
    """

    def __init__(self, paid: int = 0) -> None:
        #: So many were charged to a ledger beforehand; if none, they are counted without limit.
        self.paid = paid
        self._path: Path | None = None
        self._known: list[dict[str, Any]] = []

    def check(self, cost: Cost) -> None:
        """Before a fit: warns what all of them add up to, at the second, the fourth, the eighth and so on.

        Where warnings are errors, the fit is not made.
        """
        before = self._costs()
        count = len(before) + 1
        if self.paid:
            if count > self.paid:
                raise ValueError(f"{self.paid} fits were paid for beforehand, and all of them are made")
            return
        if count < 2 or count & (count - 1):
            return
        together = _in_epsilon(compose([*map(cost_from_dict, before), cost]))
        warnings.warn(
            f"with this fit the estimator and its clones have made {count} releases without a ledger: if they share records, "
            f"together they spend up to {together}, and every further fit, such as those of a cross-validation, adds to it; give "
            "a ledger and a dataset to keep count and to stop at a total",
            stacklevel=callers_level(),
        )

    def add(self, cost: Cost) -> None:
        self._known = [*self._costs(), cost.to_dict()]
        if self._path is not None:
            with suppress(OSError):  # removed, or on another machine: then this process counts for itself
                file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
                os.write(file, f"{json.dumps(cost.to_dict())}\n".encode())
                os.close(file)

    def _costs(self) -> list[dict[str, Any]]:
        if self._path is not None:
            with suppress(OSError):
                found = [json.loads(line) for line in self._path.read_text("utf-8").splitlines()]
                self._known = max(self._known, found, key=len)
        return self._known

    def __getstate__(self) -> dict[str, Any]:
        if self._path is None:
            with suppress(OSError), tempfile.NamedTemporaryFile("w", prefix="geodp-fits-", delete=False) as file:
                file.writelines(f"{json.dumps(cost)}\n" for cost in self._known)
                self._path = Path(file.name)
                weakref.finalize(self, self._path.unlink, missing_ok=True)
        return {"paid": self.paid, "_path": self._path, "_known": self._costs()}


def _in_epsilon(cost: Cost) -> str:
    if math.isfinite(cost.epsilon):
        return f"epsilon {cost.epsilon:.4g}"
    # some costs have an epsilon only at a delta that is large enough
    deltas = (10.0**-k for k in range(6, 0, -1))
    return next(
        (f"epsilon {cost.epsilon_at(d):.4g} at delta {d:g}" for d in deltas if cost.epsilon_at(d) < math.inf), "everything"
    )
