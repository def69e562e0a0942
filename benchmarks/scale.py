"""Means of records that never are in memory together: generated block by block on a cluster of two processes of this machine."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from benchmarks.mean import case, kernel_seconds
from benchmarks.timing import Cell, Table, best_seconds, bytes_per_second, duration, number, times
from geodp import SPD, Ball, Manifold, frechet_mean
from geodp.solver.passes import best_evaluator

BALL = Ball(SPD(2), np.eye(2), 3.0)
BLOCK = 500_000


def matrices(block_id: tuple[int, ...] = (0, 0, 0), rows: int = 0) -> np.ndarray:
    """``L L'`` for triangles of uniform numbers from a counter-based generator: the same for the same block, whoever makes it."""
    generator = np.random.Generator(np.random.Philox(key=block_id[0]))
    x = np.empty((rows, 2, 2))
    for start in range(0, rows, 10_000):  # slices stay in the cache
        part = x[start : start + 10_000]
        a, b, c = generator.random((3, len(part)))
        a += 0.5
        c += 0.5
        b -= 0.3
        part[:, 0, 0] = a * a
        part[:, 0, 1] = part[:, 1, 0] = a * b
        part[:, 1, 1] = b * b + c * c
    return x


def records(count: int, block: int = BLOCK) -> Any:
    rows = min(block, max(1, count // 4))
    assert count % rows == 0
    chunks = ((rows,) * (count // rows), (2,), (2,))
    return da.map_blocks(matrices, rows=rows, chunks=chunks, dtype=float, meta=np.empty((0, 0, 0)))


def peak_megabytes(client: Client) -> float:
    """The largest resident memory so far of this process, with the scheduler in it, and of all workers, added up."""
    return _peak() + sum(client.run(_peak).values())


def _peak() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024.0


def timed(action: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def growth(client: Client, most: int) -> Table:
    floor = max(32 / bytes_per_second(), kernel_seconds(SPD(2), matrices(rows=20_000)))
    frechet_mean(records(100_000), BALL)  # workers load the compiled code
    rows: list[list[Cell | str]] = []
    for exponent in range(5, most + 1):
        count = 10**exponent
        x = records(count)
        result = frechet_mean(x, BALL)
        generation, seconds = best_seconds(
            lambda x=x: x[:, 0, 0].sum().compute(), lambda x=x: frechet_mean(x, BALL), rounds=5 if exponent < 7 else 1
        )
        pass_seconds = seconds / result.iterations
        rows.append(
            [
                f"1e{exponent}",
                number(x.numblocks[0]),
                duration(seconds),
                number(result.iterations),
                duration(pass_seconds / count),
                duration(generation / count),
                times(pass_seconds / (generation + count * floor)),
                number(result.error_bound, ".0e"),
                Cell(f"{peak_megabytes(client):,.0f} MB", peak_megabytes(client)),
            ]
        )
    header = ["n", "blocks", "time", "passes", "a pass, a record", "generating alone, a record"]
    header += ["a pass over generating and one core's floor", "error bound", "peak memory"]
    note = (
        "Every pass generates all records anew; the array of 1e8 would be 3.2 GB. Peak memory is the sum of the largest resident "
        "sizes of the client, the scheduler and both workers since they started."
    )
    return Table("SPD(2) records generated block-wise through Dask, two workers of one thread", header, rows, note)


def overhead(client: Client, blocks: int) -> Table:
    """Blocks so small that only the scheduling counts; and what travels for each."""
    seconds, result = timed(lambda: frechet_mean(records(1000 * blocks, 1000), BALL))
    cost = duration(seconds / result.iterations / blocks)
    rows: list[list[Cell | str]] = [["a block of a pass over 1,000 matrices, which take about 10 us", cost]]
    plain = min(timed(lambda: client.gather(client.map(float, range(blocks), pure=False)))[0] for _ in range(2))
    rows.append(["a task of Dask that does nothing", duration(plain / blocks)])
    for manifold in (SPD(2), SPD(3), SPD(10), SPD(30)):
        size = pass_bytes(manifold)
        rows.append([f"a pass over a block of {manifold}, to be sent", Cell(f"{size:,} bytes", size)])
    return Table(f"What a block costs, {blocks:,} blocks on two workers", ["what", "cost"], rows)


def pass_bytes(manifold: Manifold) -> int:
    x, _ = case(manifold, 300, 0.3, 2.0)
    return len(pickle.dumps(best_evaluator(manifold, None).evaluate(manifold.origin, x, None)))


def workers(count: int) -> Table:
    rows: list[list[Cell | str]] = []
    first = 0.0
    for size in (1, 2):
        with cluster(size):
            frechet_mean(records(100_000), BALL)
            seconds, result = min((timed(lambda: frechet_mean(records(count), BALL)) for _ in range(2)), key=lambda pair: pair[0])
        first = first or seconds
        rows.append([str(size), duration(seconds), duration(seconds / result.iterations), times(first / seconds)])
    return Table(f"More workers, {count:,} SPD(2) records", ["workers", "time", "a pass", "speed-up"], rows)


@contextmanager
def cluster(size: int) -> Iterator[Client]:
    with (
        LocalCluster(n_workers=size, threads_per_worker=1, dashboard_address="127.0.0.1:0") as local,
        Client(local) as client,
    ):
        yield client


def tables(quick: bool) -> Iterator[Table]:
    with cluster(2) as client:
        yield growth(client, 6 if quick else 8)
        yield overhead(client, 200 if quick else 2000)
    yield workers(1_000_000 if quick else 20_000_000)
