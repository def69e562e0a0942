"""Runs the tasks of experiments on all cores, keeps the result of every finished one, and joins the tables.

joblib keeps the results under ``tasks/``, by everything that they depend on: experiment, task, seed, and the source code and
versions of what computed them. A run that was interrupted can be started again, and computes the rest.
"""

from __future__ import annotations

import hashlib
import platform
import time
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import geodp
from geodp.solver.compiling import reproducible
from paper.experiment import Claim, Rows, Settings, Tables, Task

#: The experiments, in the order of the report; each is a module of this package.
NAMES = ("neighbours", "utility", "bounds", "privacy", "rates", "subspaces", "circle", "chains", "beyond", "notions")

#: Modules that only show results. Changing them does not make results invalid.
_PRESENTATION = ("figures.py", "report.py", "run.py", "__main__.py", "plots.py")


class Result(NamedTuple):
    """An experiment, its tables, and the processor time of its tasks in seconds."""

    name: str
    experiment: ModuleType
    tables: Tables
    seconds: float

    def claims(self) -> list[Claim]:
        return list(self.experiment.claims(self.tables))


def load(name: str) -> ModuleType:
    """The experiment with this name."""
    return import_module(f"paper.{name}")


def finished(name: str, index: int, task: Task, seed: int, code: str) -> tuple[Rows, float]:
    """The rows of one task and the seconds they took. The generator depends only on seed, experiment and place of the task."""
    started = time.process_time()
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()), index)))
    with threadpool_limits(limits=1, user_api="blas"), reproducible():
        rows = load(name).work(rng, **task)
    return rows, time.process_time() - started


def run(names: Sequence[str], settings: Settings, seed: int, out: Path, processes: int = -1) -> list[Result]:
    """Runs the experiments and writes their tables to ``out`` as CSV. Tasks already finished there are not run again.

    The tables depend only on the seed, not on the number of processes or on interruptions.
    """
    names = tuple(dict.fromkeys(names))
    kept = joblib.Memory(out / "tasks", verbose=0).cache(finished)
    jobs = [(name, i, task, seed, code_digest()) for name in names for i, task in enumerate(load(name).tasks(settings))]
    computed = joblib.Parallel(n_jobs=processes, return_as="generator")(joblib.delayed(kept)(*job) for job in jobs)
    console = Console(stderr=True)
    shown = track(computed, "tasks", len(jobs), console=console, transient=True, disable=not console.is_terminal)
    found: dict[str, list[tuple[Rows, float]]] = {name: [] for name in names}
    for job, result in zip(jobs, shown, strict=True):
        found[job[0]].append(result)
    results = [_joined(name, parts) for name, parts in found.items()]
    for result in results:
        for table, frame in result.tables.items():
            frame.to_csv(out / f"{result.name}-{table}.csv", index=False, na_rep="nan")
    return results


def _joined(name: str, parts: list[tuple[Rows, float]]) -> Result:
    experiment = load(name)
    joined: Rows = {}
    for rows, _ in parts:
        for table, more in rows.items():
            joined.setdefault(table, []).extend(more)
    tables = {table: pd.DataFrame(rows) for table, rows in joined.items()}
    if hasattr(experiment, "derived"):
        tables |= experiment.derived(tables)
    return Result(name, experiment, tables, sum(seconds for _, seconds in parts))


def versions() -> dict[str, str]:
    """The versions of the software that computed the results."""
    found = {name: version(name) for name in ("numpy", "scipy", "numba", "pandas", "matplotlib")}
    machine = {"Python": platform.python_version(), "machine": f"{platform.machine()}, {joblib.cpu_count()} cores"}
    return {"source code": code_digest(), "geodp": geodp.__version__, **found, **machine}


@cache
def code_digest() -> str:
    """A digest of the source code and the versions that the numbers depend on."""
    digest = hashlib.sha256(f"{geodp.__version__} {np.__version__} {version('scipy')}".encode())
    for root in (Path(geodp.__file__).parent, Path(__file__).parent):
        for path in sorted(root.rglob("*")):
            if path.suffix in (".py", ".csv") and path.name not in _PRESENTATION:
                digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:20]
