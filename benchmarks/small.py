"""Small means, many means at once, small releases, and how soon a new process is ready."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from pyriemann.geometry.mean import mean_riemann

from benchmarks.mean import case, kernel_seconds, papers_descent
from benchmarks.timing import Cell, Table, best_seconds, bytes_per_second, duration, number, times
from geodp import SPD, Grassmann, Hyperbolic, Manifold, PlanarShapes, Rotations, Sphere, compile, frechet_mean, frechet_means
from geodp import private_mean as release
from geodp.noise import exact
from geodp.solver.compiling import SETTING

SIZES = (20, 100, 300, 1_000, 10_000)


def small(quick: bool) -> Table:
    rows: list[list[Cell | str]] = []
    for k in (2, 3, 8, 22):
        found: list[Cell | str] = [f"SPD({k})"]
        for count in SIZES:
            if count * k * k > (2_000_000 if quick else 6_000_000):
                found.append("not measured")
                continue
            x, ball = case(SPD(k), count, 0.6, 2.0)
            rounds = 200 if count * k * k < 10_000 else 20 if count * k * k < 100_000 else 3 if count * k * k < 1_000_000 else 2
            ours, peer = best_seconds(
                lambda x=x, ball=ball: frechet_mean(x, ball), lambda x=x: mean_riemann(x, tol=1e-8), rounds=rounds
            )
            found.append(Cell(f"{duration(ours).text}, {times(peer / ours).text}", peer / ours))
        rows.append(found)
    note = "In a process that has called `geodp.compile()`: by default so few records do without compiled code, in 2 to 10 ms."
    header = ["", *(f"n = {count:,}" for count in SIZES)]
    return Table("One small mean, default tolerance: our time, and how many times that pyRiemann takes", header, rows, note)


def growth(most: int) -> Table:
    rows: list[list[Cell | str]] = []
    frechet_mean(*case(SPD(2), 100_000, 0.8, 4.0))  # loads it
    for exponent in range(2, most + 1):
        x, ball = case(SPD(2), 10**exponent, 0.8, 4.0)
        frechet_mean(x, ball)
        (seconds,) = best_seconds(lambda x=x, ball=ball: frechet_mean(x, ball), rounds=5)
        rows.append([f"1e{exponent}", duration(seconds), duration(seconds / len(x))])
    note = "In a process that has loaded compiled code."
    return Table(
        "SPD(2) in memory, default tolerance: cost against the number of records", ["n", "time", "time a record"], rows, note
    )


MANY = [
    (SPD(3), 10_000, 30, 2.0),
    (SPD(3), 1_000, 100, 2.0),
    (SPD(3), 30_000, 3, 2.0),
    (SPD(2), 10_000, 30, 2.0),
    (Sphere(2), 10_000, 30, 1.0),
    (Rotations(3), 10_000, 30, 1.0),
    (Hyperbolic(3), 1_000, 30, 2.0),
    (Grassmann(2, 5), 1_000, 30, 0.7),
]


def many(quick: bool) -> Table:
    rows: list[list[Cell | str]] = []
    for manifold, groups, size, radius in MANY:
        groups = groups // 10 if quick else groups
        x, ball = case(manifold, groups * size, 0.4, radius)
        by = np.repeat(np.arange(groups), size)
        result = frechet_means(x, ball, by)
        ours, together = best_seconds(partial(frechet_means, x, ball, by), partial(frechet_mean, x, ball), rounds=5)
        few = [x[i * size : (i + 1) * size] for i in range(30)]
        is_spd = isinstance(manifold, SPD)
        (peer,) = best_seconds(
            lambda few=few, is_spd=is_spd, manifold=manifold: [
                mean_riemann(part, tol=1e-8) if is_spd else papers_descent(manifold, part) for part in few
            ],
            rounds=3,
        )
        loop = peer / len(few) * groups
        rows.append(
            [
                f"{manifold}, {groups:,} groups of {size}",
                duration(ours),
                times(loop / ours),
                "pyRiemann" if is_spd else "the paper's descent",
                times(ours / together),
                number(int(result.iterations.max())),
                number(float(result.error_bounds.max()), ".0e"),
            ]
        )
    header = [
        "case",
        "geodp",
        "a loop over the peer",
        "peer",
        "over one mean of all records",
        "most passes",
        "largest error bound",
    ]
    return Table("Many means at once: `frechet_means`", header, rows, "The loop is measured on 30 groups.")


def releases() -> Table:
    rows: list[list[Cell | str]] = []
    for k, count, epsilon, rounds in ((3, 100, 5.0, 100), (22, 300, 5.0, 40), (64, 200, 100.0, 2)):
        x, ball = case(SPD(k), count, 0.6, 1.0)
        first = release(x, ball, epsilon=epsilon)
        (seconds,) = best_seconds(lambda x=x, ball=ball, epsilon=epsilon: release(x, ball, epsilon=epsilon), rounds=rounds)
        rows.append([f"SPD({k}), n = {count}", first.mechanism, duration(seconds)])
    return Table(
        "A small release: `private_mean`, the exact draw included",
        ["case", "noise", "time"],
        rows,
        "The first of its kind in a process calibrates, and takes longer.",
    )


def grouped(quick: bool) -> Table:
    """Releases of many groups, beside one of all their records."""
    groups = 100 if quick else 1_000
    x, ball = case(SPD(3), 100 * groups, 0.4, 2.0)
    by = np.repeat(np.arange(groups), 100)
    release(x, ball, 1.0, by=by, groups=range(groups), labels="public")
    mean, means, one, all_of_them = best_seconds(
        partial(frechet_mean, x, ball),
        partial(frechet_means, x, ball, by),
        partial(release, x, ball, 1.0),
        partial(release, x, ball, 1.0, by=by, groups=range(groups), labels="public"),
        rounds=5,
    )
    rows: list[list[Cell | str]] = [
        ["the mean, or the means", duration(mean), duration(means), times(means / mean)],
        ["the release, or the releases, exact draws included", duration(one), duration(all_of_them), times(all_of_them / one)],
    ]
    header = ["", "all records at once", "by group", "ratio"]
    note = f"A release of groups draws {groups:,} times: {duration((all_of_them - means) / groups).text} each, all else included."
    return Table(f"{groups:,} groups of 100 SPD(3) records: `private_mean(by=...)`", header, rows, note)


OTHERS: list[tuple[Manifold, float]] = [
    (Rotations(3), 1.0),
    (Hyperbolic(5), 1.5),
    (PlanarShapes(20), 0.6),
    (Grassmann(3, 10), 0.7),
]


def others(quick: bool) -> Table:
    rows: list[list[Cell | str]] = []
    for manifold, radius in OTHERS:
        x, ball = case(manifold, 10_000 if quick else 100_000, 0.4, radius)
        with without_compiled_code():
            result = frechet_mean(x, ball)
            (general,) = best_seconds(lambda x=x, ball=ball: frechet_mean(x, ball), rounds=1)
        result = frechet_mean(x, ball)
        (ours,) = best_seconds(lambda x=x, ball=ball: frechet_mean(x, ball), rounds=5)
        again, paper = best_seconds(
            lambda x=x, ball=ball: frechet_mean(x, ball), lambda x=x, manifold=manifold: papers_descent(manifold, x), rounds=1
        )
        ours = min(ours, again)
        reading, kernel = x[0].nbytes / bytes_per_second(), kernel_seconds(manifold, x)
        peer: Cell | str = "has none"
        if isinstance(manifold, Grassmann):
            few = x[: len(x) // 100]
            mean, slow = best_seconds(partial(frechet_mean, few, ball), partial(pymanopt_descent, manifold, few), rounds=1)
            peer = times(slow / mean)
        rows.append(
            [
                f"{manifold}, n = {len(x):,}",
                duration(ours),
                number(result.iterations),
                number(result.error_bound, ".0e"),
                times(general / ours),
                times(paper / ours),
                peer,
                duration(reading),
                duration(kernel),
                times(ours / (result.iterations * len(x) * max(reading, kernel))),
            ]
        )
    header = ["case", "geodp", "passes", "error bound", "without compiled code", "the paper's descent", "pymanopt"]
    header += ["reading a record", "kernel, a record", "time over passes x floor"]
    note = "pymanopt minimises the same sum of squares by steepest descent with NumPy, on a hundredth of the records."
    return Table("Other manifolds, default tolerance", header, rows, note)


@contextmanager
def without_compiled_code() -> Iterator[None]:
    os.environ[SETTING] = "never"
    try:
        yield
    finally:
        os.environ[SETTING] = "always"


def pymanopt_descent(manifold: Grassmann, x: np.ndarray) -> np.ndarray:
    """Half the mean squared distance and its gradient, by pymanopt's own distance and logarithm, one record after another."""
    import pymanopt

    space = pymanopt.manifolds.Grassmann(manifold.m, manifold.p)

    @pymanopt.function.numpy(space)
    def energy(p: np.ndarray) -> float:
        return 0.5 * sum(space.dist(p, each) ** 2 for each in x) / len(x)

    @pymanopt.function.numpy(space)
    def gradient(p: np.ndarray) -> np.ndarray:
        return -sum(space.log(p, each) for each in x) / len(x)

    problem = pymanopt.Problem(space, energy, riemannian_gradient=gradient)
    optimizer = pymanopt.optimizers.SteepestDescent(min_gradient_norm=1e-8, max_iterations=50, verbosity=0)
    return optimizer.run(problem, initial_point=x[0]).point


def draws() -> Table:
    """100 exact draws in one process, and by two processes of which each makes half."""
    rows: list[list[Cell | str]] = []
    with ProcessPoolExecutor(2) as workers:
        list(workers.map(_drawn, [3, 3], [1, 1]))  # starts them
        for k, count in ((3, 100), (10, 100)):
            alone, together = best_seconds(
                partial(_drawn, k, count), lambda k=k, count=count: list(workers.map(_drawn, [k] * 2, [count // 2] * 2)), rounds=5
            )
            rows.append([f"SPD({k})", duration(alone), duration(together), times(alone / together)])
    return Table("100 exact draws", ["manifold", "in one process", "in two", "ratio"], rows)


def _drawn(k: int, count: int) -> int:
    return sum(exact.sample(SPD(k), 0.02, np.eye(k)).trials for _ in range(count))


def starts() -> Table:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "directions.csv"
        x = np.random.default_rng(0).normal([0.0, 0.0, 5.0], size=(200, 3))
        np.savetxt(file, x / np.linalg.norm(x, axis=1, keepdims=True), delimiter=",", header="x,y,z", comments="")
        sphere = ["--manifold", "Sphere(2)", "--radius", "0.4", "--epsilon", "1"]
        program = [sys.executable, "-m", "geodp"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import numpy": [sys.executable, "-c", "import numpy"],
            "import geodp": [sys.executable, "-c", "import geodp"],
            "geodp --version": [*program, "--version"],
            "geodp plan": [*program, "plan", *sphere, "--records", "1000"],
            "geodp mean of 200 rows of a CSV": [*program, "mean", str(file), *sphere],
        }
        # with byte code, as an installer leaves it
        as_installed = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        as_installed.pop("PYTHONDONTWRITEBYTECODE", None)
        rows: list[list[Cell | str]] = []
        for name, command in commands.items():
            (seconds,) = best_seconds(
                lambda command=command: subprocess.run(command, check=True, capture_output=True, env=as_installed), rounds=7
            )
            rows.append([name, duration(seconds)])
    return Table("A new process, from its start to its end", ["", "time"], rows)


def tables(quick: bool) -> Iterator[Table]:
    compile()
    yield small(quick)
    yield growth(6 if quick else 7)
    yield many(quick)
    yield releases()
    yield grouped(quick)
    yield draws()
    yield others(quick)
    yield starts()
