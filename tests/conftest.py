"""What is prepared once for all tests: the commands of the command line, and the compiled loops."""

from __future__ import annotations

import math
import os
from functools import cache

import numpy as np
import pytest
import typer.main
import typer.testing
from cases import random_points

from geodp import SPD, Ball, Grassmann, Hyperbolic, Manifold, PlanarShapes, Rotations, Sphere, frechet_mean, frechet_means
from geodp.compute.passes import reproducible

# Typer would prepare every command anew for each call, which takes a tenth of a second.
typer.testing._get_command = cache(typer.main.get_command)

#: What has compiled loops, in an order in which two workers that take turns have about the same to do.
LOOPS: list[Manifold] = [SPD(2), Grassmann(2, 5), SPD(5), SPD(3), Sphere(5), Rotations(3), Hyperbolic(3), PlanarShapes(5), Sphere(2)]


@pytest.fixture(scope="session", autouse=True)
def _loops_are_compiled(request: pytest.FixtureRequest) -> None:
    """In a run of many tests each worker compiles its part of the loops first, and finds the others on disk when it needs them."""
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1 or request.session.testscollected < 1000:
        return
    for manifold in LOOPS[int(worker.removeprefix("gw")) :: workers]:
        ball = Ball(manifold, manifold.origin, 0.1)
        x = random_points(manifold, 120_000 // math.prod(manifold.point_shape), np.random.default_rng(0), 0.1)
        with reproducible():  # then large data are compiled for, whatever this process did before
            frechet_mean(x, ball)
            frechet_means(x, by=np.zeros(len(x), dtype=int), ball=ball)
