"""What concerns all tests: which are in the normal suite, threads of linear algebra, the command line, compiled loops."""

from __future__ import annotations

import math
import os
from functools import cache

import numpy as np
import pytest
import typer.main
import typer.testing
from cases import random_points
from threadpoolctl import threadpool_limits

from geodp import SPD, Ball, Grassmann, Hyperbolic, Manifold, PlanarShapes, Rotations, Sphere, frechet_mean, frechet_means
from geodp.solver.passes import reproducible

WORKER, WORKERS = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

#: A tool of its own: python -m tests.golden.
collect_ignore = ["golden"]

GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)

#: What has compiled loops, in an order in which two workers that take turns have about the same to do.
LOOPS: list[Manifold] = [
    SPD(2), SPD(3), Grassmann(2, 5), SPD(5), Sphere(5), Rotations(3), Sphere(2), Hyperbolic(3), PlanarShapes(5),
]  # fmt: skip

# Typer would prepare every command anew for each call, which takes a tenth of a second.
typer.testing._get_command = cache(typer.main.get_command)

if WORKERS > 1:  # threads of linear algebra would wait for cores that other workers hold, a hundred times as long as they compute
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for the processes that tests start, and for libraries that are not loaded yet
    threadpool_limits(1, "blas")


#: A test with more cases than this runs about half of them in the normal suite.
MANY = 8


@pytest.hookimpl(tryfirst=True)  # before the marked ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts about half of the cases of tests that have many behind the marker."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in cases.values():
        if len(each) > MANY:
            for i, item in enumerate(each):
                # by the golden ratio: every second case might leave out one value of a parameter altogether
                if i * GOLDEN % 1.0 >= 0.5:
                    item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def _loops_are_compiled(request: pytest.FixtureRequest) -> None:
    """In a run of many tests each worker first compiles its part of the loops, and later finds the others on disk."""
    if WORKERS == 1 or request.session.testscollected < 1000:
        return
    for manifold in LOOPS[int(WORKER.removeprefix("gw")) :: WORKERS]:
        ball = Ball(manifold, manifold.origin, 0.1)
        x = random_points(manifold, 120_000 // math.prod(manifold.point_shape), np.random.default_rng(0), 0.1)
        with reproducible():  # then large data are compiled for, whatever this process did before
            frechet_mean(x, ball)
            frechet_means(x, by=np.zeros(len(x), dtype=int), ball=ball)
