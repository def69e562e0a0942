"""What concerns all tests: threads of linear algebra and compiled loops."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from cases import random_points
from threadpoolctl import threadpool_limits

from geodp import SPD, Ball, Grassmann, Hyperbolic, Manifold, PlanarShapes, Rotations, Sphere, frechet_mean, frechet_means

WORKER, WORKERS = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

#: A tool of its own: python -m tests.golden.
collect_ignore = ["golden"]

#: What has compiled loops, in an order in which two workers that take turns have about the same to do.
LOOPS: list[Manifold] = [
    SPD(2), SPD(3), Grassmann(2, 5), SPD(5), Sphere(5), Rotations(3), Sphere(2), Hyperbolic(3), PlanarShapes(5),
]  # fmt: skip

if WORKERS > 1:  # threads of linear algebra would wait for cores that other workers hold, a hundred times as long as they compute
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for the processes that tests start, and for libraries that are not loaded yet
    threadpool_limits(1, "blas")


@pytest.fixture(scope="session", autouse=True)
def _loops_are_compiled(request: pytest.FixtureRequest) -> None:
    """In a run of many tests each worker first compiles its part of the loops, and later finds the others on disk."""
    if WORKERS == 1 or request.session.testscollected < 1000:
        return
    for manifold in LOOPS[int(WORKER.removeprefix("gw")) :: WORKERS]:
        ball = Ball(manifold, manifold.origin, 0.1)
        x = random_points(manifold, 120_000 // math.prod(manifold.point_shape), np.random.default_rng(0), 0.1)
        frechet_mean(x, ball)
        frechet_means(x, by=np.zeros(len(x), dtype=int), ball=ball)
