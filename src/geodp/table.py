"""The table of everything that can be released: one line each.

A line names the function that releases it. From that the command line, :class:`geodp.Session`, OpenDP, the schema of receipts and
the public names follow. It holds names and no modules, because importing all of them takes long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, final


@final
@dataclass(frozen=True)
class Entry:
    """One thing that can be released: the command and the method of sessions are called like it."""

    name: str
    module: str
    #: What the function takes besides the records: a ``"ball"``, a compact ``"manifold"``, a wide ``"start"``.
    place: str = "ball"
    #: Its name in OpenDP, if it is there.
    opendp: str | None = None

    @property
    def function(self) -> Callable[..., Any]:
        """The ``private_*`` function."""
        found: Callable[..., Any] = getattr(import_module(self.module), f"private_{self.name}")
        return found


TABLE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("mean", "geodp.statistics.frechet", opendp="frechet_mean"),
        Entry("variance", "geodp.statistics.variance", opendp="frechet_variance"),
        Entry("covariance", "geodp.statistics.covariance", opendp="tangent_covariance"),
        Entry("coverage", "geodp.statistics.coverage", opendp="coverage"),
        Entry("projected_mean", "geodp.statistics.projected", "manifold", opendp="projected_mean"),
        Entry("summary", "geodp.statistics.summary", "value"),
        Entry("ball", "geodp.programs.ball", "start", opendp="enclosing_ball"),
        Entry("kmeans", "geodp.programs.kmeans"),
    )
}


def load() -> None:
    """Imports all statistics, so that receipts of every kind can be read."""
    for entry in TABLE.values():
        import_module(entry.module)
