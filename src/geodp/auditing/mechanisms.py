"""Running a mechanism many times on one data set, for an audit."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Any, Literal, NamedTuple, final

import numpy as np

from geodp.inputs import Array
from geodp.noise import exact
from geodp.request import Plan
from geodp.solver.compiling import reproducible

DrawPath = Literal["float", "exact", "release"]

#: ``mechanism(x, size, rng)``: outputs of ``size`` independent runs on the data set ``x``, as one array.
Mechanism = Callable[[Array, int, np.random.Generator], Array]


@final
@dataclass(frozen=True)
class MeanMechanism:
    """A planned release, such as that of :func:`geodp.private_mean`, made many times of one data set.

    ``path="release"`` makes all of it for each draw. The other two compute the statistic once for many draws. *That is the same
    law.* A release is ``draw(value(x), bits)``. The value takes no random input and is the same each time it is computed, so
    releases of one ``x`` are independent draws about one value, whether it was computed once or every time. The audit calls the
    same parts as the release: the statistic and the mechanism of the plan.

    ``"exact"`` draws with :mod:`geodp.noise.exact`, as a release does; ``"float"`` with the vectorised floating-point
    simulator of the same law, thousands of times faster, which ``private_mean(simulate=...)`` uses.

    ``seeded`` takes the bits of the exact sampler from the generator; otherwise, and always with ``"release"``, they come from
    the operating system.
    """

    plan: Plan
    path: DrawPath = "float"
    seeded: bool = False
    #: The most recent data sets and their values.
    _known: list[tuple[Array, Array]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __call__(self, x: Array, size: int, rng: np.random.Generator) -> Array:
        made = self.plan
        if self.path == "float":
            return made.noise.simulate(self._value(x), size, rng)
        out = np.empty((size, *made.noise.manifold.point_shape))
        if self.path == "release":
            for i in range(size):
                out[i] = made.noise.finish(made.request.release(x, anyway=True).vector)
            return out
        entropy = exact.NotPrivate(int(rng.integers(2**62))) if self.seeded else exact.OperatingSystem()
        for i in range(size):
            out[i] = made.noise.draw(self._value(x), entropy).value
        return out

    def _value(self, x: Array) -> Array:
        for known, found in self._known:
            if np.array_equal(known, x, equal_nan=True):
                return found
        with reproducible():
            computed: Array = self.plan.statistic.compute(x, self.plan.n)
        self._known[:] = [*self._known[-1:], (x.copy(), computed)]
        return computed


# ------------------------------------------------------------------------------------------ many draws, on all cores


class Task(NamedTuple):
    """Runs on one of the two data sets."""

    side: int
    size: int
    seed: np.random.SeedSequence


Runner = Callable[[Sequence[Task]], Iterator[tuple[Task, Array]]]


@contextmanager
def runner(mechanism: Mechanism, pair: tuple[Array, Array], processes: int) -> Iterator[Runner]:
    """A function that yields tasks and their outputs in order, computed in this process or by several at once."""
    if processes == 1:
        yield lambda tasks: ((task, _run(mechanism, pair, task)) for task in tasks)
        return
    workers = [_Worker(mechanism, pair) for _ in range(processes)]
    idle: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def work(task: Task) -> Array:
        worker = idle.get()
        try:
            return worker.run(task)
        finally:
            idle.put(worker)

    try:
        with ThreadPoolExecutor(processes) as pool:
            try:
                yield lambda tasks: zip(tasks, pool.map(work, tasks), strict=True)
            finally:  # also after an interrupt, so that no thread waits for a worker forever
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in workers:
                    worker.kill()
    finally:
        for worker in workers:
            worker.close()


def _run(mechanism: Mechanism, pair: tuple[Array, Array], task: Task) -> Array:
    return mechanism(pair[task.side], task.size, np.random.default_rng(task.seed))


class _Worker:
    """A separate Python process that runs tasks. Unlike those of ``multiprocessing`` it does not import the caller's script."""

    def __init__(self, mechanism: Mechanism, pair: tuple[Array, Array]) -> None:
        # one process a core: the threads of the linear algebra library would compete for the cores
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", "from geodp.auditing.mechanisms import serve; serve()"]
        pipe = subprocess.PIPE
        # a new session, so that Ctrl-C reaches only the parent process, which then ends its workers
        self._process: Any = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, start_new_session=True)
        self._send((mechanism, pair))

    def _send(self, message: object) -> None:
        pickle.dump(message, self._process.stdin)
        self._process.stdin.flush()

    def run(self, task: Task) -> Array:
        self._send(task)
        try:
            answer = pickle.load(self._process.stdout)
        except EOFError:
            raise RuntimeError("a process of the audit ended before its work was done") from None
        if isinstance(answer, str):
            raise RuntimeError(f"the audited mechanism failed with {answer}")
        return answer

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.communicate()


def serve() -> None:
    """The main loop of a worker: reads tasks from one pipe and writes outputs to the other, until the first is closed."""
    messages: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_receive, args=(messages,), daemon=True).start()
    mechanism, pair = messages.get()
    while True:
        task: Task = messages.get()
        try:
            answer: Array | str = _run(mechanism, pair, task)
        except Exception as error:  # its text may hold records
            answer = type(error).__name__
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _receive(messages: SimpleQueue[Any]) -> None:
    """Reads tasks in a separate thread, which notices at once when the pipe closes because the parent was killed."""
    try:
        while True:
            messages.put(pickle.load(sys.stdin.buffer))
    finally:  # the parent is gone, so stop at once
        os._exit(0)
