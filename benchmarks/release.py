"""What a user waits for: importing, the command line, compiling, a whole release."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.mean import case
from benchmarks.timing import Cell, Table, best_seconds, duration
from geodp import SPD, private_mean
from geodp.noise import exact
from geodp.privacy.notions import PureDP
from geodp.request import Request
from geodp.statistics.mean import Mean

FIRST_MEAN = """
import time
import numpy as np
from geodp import SPD, Ball, frechet_mean
x, ball = np.tile(np.eye({k}), (100_000, 1, 1)), Ball(SPD({k}), np.eye({k}), 2.0)
start = time.perf_counter()
frechet_mean(x, ball)
print(time.perf_counter() - start)
"""

FIRST_RELEASE = """
import time
import numpy as np
import geodp
x, ball = np.tile(np.eye(3), (1000, 1, 1)), geodp.Ball(geodp.SPD(3), np.eye(3), 1.5)
start = time.perf_counter()
str(geodp.private_mean(x, ball, epsilon=1.0))
print(time.perf_counter() - start)
"""


def process(*arguments: str) -> float:
    """The time from starting a process to its end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def printed(program: str, **environment: str) -> float:
    """The seconds that a program in a process of its own prints."""
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return float(run.stdout)


def tables(quick: bool) -> Iterator[Table]:
    rounds = 3 if quick else 7
    python = min(process("-c", "pass") for _ in range(rounds))
    rows: list[list[Cell | str]] = [
        ["`python -c pass`", duration(python), "no limit of ours"],
        ["import geodp, in a new process", duration(min(process("-c", "import geodp") for _ in range(rounds))), "0.5 s"],
        ["`geodp --help`", duration(min(process("-m", "geodp", "--help") for _ in range(rounds))), "0.7 s"],
        ["first private_mean of 1,000 SPD(3) and its receipt", duration(min(printed(FIRST_RELEASE) for _ in range(rounds))), "-"],
    ]
    yield Table("Before anything is computed", ["what", "time", "limit"], rows)

    x, ball = case(SPD(3), 1000, 0.4, 1.5)
    release = private_mean(x, ball, 1.0)
    scale = Request(Mean(ball), PureDP(1.0)).plan(len(x)).noise.scale
    whole, drawn, shown = best_seconds(
        lambda: private_mean(x, ball, 1.0),
        lambda: exact.sample(ball.manifold, scale, release.value),
        lambda: str(private_mean(x, ball, 1.0)),
        rounds=5 * rounds,
    )
    rows = [
        ["private_mean", duration(whole), "0.1 s"],
        ["of which the exact draw", duration(drawn), "-"],
        ["private_mean and its printed receipt", duration(shown), "-"],
    ]
    yield Table("A release of 1,000 SPD(3) records, after import", ["what", "time", "limit"], rows)

    rows = []
    for k in (2, 3) if quick else (2, 3, 10):
        with tempfile.TemporaryDirectory() as folder:
            cold = printed(FIRST_MEAN.format(k=k), NUMBA_CACHE_DIR=folder)
            cached = min(printed(FIRST_MEAN.format(k=k), NUMBA_CACHE_DIR=folder) for _ in range(3))
        rows.append([f"SPD({k})", duration(cold), duration(cached)])
    header = ["manifold", "compiled for the first time on a machine", "in later processes"]
    note = "Importing numba is part of both. Smaller data sets are not compiled for: there the first call is like any other."
    yield Table("The first mean of a process, 100,000 matrices", header, rows, note)
