"""Runs tasks on all cores, keeps the result of every finished one, and joins the tables.

The result of a task is a file under ``tasks/`` whose name is a digest of everything it depends on: the experiment, the task,
the seed, the source code of the parts of the library it uses and the versions of NumPy and SciPy. An interrupted run can be
started again: it finds those files and computes the rest. Results of other settings, seeds or code are never mixed in.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import final

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from geodp._version import __version__
from geodp.files.writing import write_whole
from geodp.records.chunks import cores
from geodp.solver.compiling import reproducible
from geodp.study.experiment import Experiment, Settings, Task
from geodp.study.table import ResultTable

#: The experiments, in the order of the report; each is a module of this package.
NAMES = ("neighbours", "utility", "bounds", "privacy", "rates", "subspaces", "circle", "chains", "beyond", "notions")

#: Modules that only show results. Changing them does not make results invalid.
_PRESENTATION = ("figures.py", "report.py", "runner.py", "plots.py")

#: ``progress(done, in_all, what)`` after every task.
Progress = Callable[[int, int, str], None]


def load(name: str) -> Experiment:
    """The experiment with this name."""
    if name not in NAMES:
        raise ValueError(f"there is no experiment {name!r}: name some of {', '.join(NAMES)}")
    experiment: Experiment = import_module(f"geodp.study.{name}").EXPERIMENT
    return experiment


class Interrupted(Exception):
    """The run was stopped. The results of finished tasks are kept."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"{done} of {total} tasks are done")
        self.done, self.total = done, total


@final
@dataclass(frozen=True)
class Result:
    """The tables of an experiment, and the total processor time of its tasks in seconds."""

    experiment: Experiment
    tables: dict[str, ResultTable]
    seconds: float


def run(
    names: Sequence[str],
    settings: Settings,
    seed: int,
    out: Path,
    *,
    processes: int | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Runs the experiments and writes their tables to ``out`` as CSV. Tasks already finished there are not run again.

    The tables depend only on the seed, not on the number of processes or on interruptions.
    """
    experiments = [load(name) for name in dict.fromkeys(names)]
    (out / "tasks").mkdir(parents=True, exist_ok=True)
    jobs = [_job(e, index, task, seed, out / "tasks") for e in experiments for index, task in enumerate(e.tasks(settings))]
    missing = [job for job in jobs if job.result() is None]
    done = len(jobs) - len(missing)
    if progress is not None:
        progress(done, len(jobs), "")
    try:
        for job in _finished(missing, processes or cores()):
            done += 1
            if progress is not None:
                progress(done, len(jobs), job.experiment)
    except KeyboardInterrupt:
        raise Interrupted(sum(job.result() is not None for job in jobs), len(jobs)) from None
    results = [_assembled(e, [job for job in jobs if job.experiment == e.name]) for e in experiments]
    for result in results:
        for name, table in result.tables.items():
            write_whole(out / f"{result.experiment.name}-{name}.csv", table.to_csv().encode())
    return results


def versions() -> dict[str, str]:
    """The versions of the software that computed the results."""
    import matplotlib

    found = {"geodp": __version__, "NumPy": np.__version__, "SciPy": scipy.__version__, "matplotlib": matplotlib.__version__}
    return {**found, "Python": platform.python_version(), "machine": f"{platform.machine()}, {cores()} cores"}


# ---------------------------------------------------------------------- tasks


@final
@dataclass(frozen=True)
class _Job:
    """One task, and the file that holds its result once it is finished."""

    experiment: str
    index: int
    task: Task
    seed: int
    path: Path

    def result(self) -> tuple[dict[str, ResultTable], float] | None:
        """The tables and the seconds they took; None if the file is missing or not a result."""
        try:
            content = json.loads(self.path.read_text())
            return {name: ResultTable.from_csv(text) for name, text in content["tables"].items()}, float(content["seconds"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None

    def run(self) -> None:
        started = time.process_time()
        # the generator depends only on seed, experiment and task, not on the worker or the order
        sequence = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(self.experiment.encode()), self.index))
        with threadpool_limits(limits=1, user_api="blas"), reproducible():
            tables = load(self.experiment).work(self.task, np.random.default_rng(sequence))
        texts = {name: table.to_csv() for name, table in tables.items()}
        write_whole(self.path, json.dumps({"tables": texts, "seconds": time.process_time() - started}).encode())


def _job(experiment: Experiment, index: int, task: Task, seed: int, folder: Path) -> _Job:
    key = {"experiment": experiment.name, "index": index, "task": dict(task), "seed": seed, "code": code_digest()}
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:20]
    return _Job(experiment.name, index, task, seed, folder / f"{experiment.name}-{index:03d}-{digest}.json")


def _finished(jobs: list[_Job], processes: int) -> Iterator[_Job]:
    """Runs the jobs and yields each one when it is finished."""
    if processes == 1 or len(jobs) < 2:
        for job in jobs:
            job.run()
            yield job
        return
    # start a new interpreter for every worker: a forked one would inherit the threads of this process
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=get_context("spawn"), initializer=_quiet_worker) as pool:
        futures = {pool.submit(job.run): job for job in jobs}
        try:
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)  # running tasks end within seconds, and their results are kept
            raise


def _quiet_worker() -> None:
    """Makes a worker ignore Ctrl-C, which its parent handles, and end when its parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _assembled(experiment: Experiment, jobs: list[_Job]) -> Result:
    joined: dict[str, ResultTable] = {}
    total = 0.0
    for job in jobs:
        found = job.result()
        if found is None:
            raise OSError(f"the result {job.path} was removed while the study ran: run it again")
        tables, seconds = found
        total += seconds
        for name, table in tables.items():
            joined[name] = joined[name] + table if name in joined else table
    return Result(experiment, dict(experiment.derived(joined)), total)


@cache
def code_digest() -> str:
    """A digest of the source code and the versions that the numbers depend on."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256(f"{__version__} {np.__version__} {scipy.__version__}".encode())
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".csv") and path.name not in _PRESENTATION:
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:20]
