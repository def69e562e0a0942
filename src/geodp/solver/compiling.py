"""Whether passes over records run in compiled code: a rule about sizes, and a switch for servers."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from geodp.manifolds import Manifold

#: So many numbers at once are worth compiled code: loading it takes half a second once in a process, and making it some seconds
#: more once after installation.
WORTH_COMPILING = 100_000
#: The environment variable that overrides the rule, and what it may say.
SETTING, SETTINGS = "GEODP_COMPILE", ("always", "never", "by size")


def compile(*manifolds: Manifold | str) -> None:
    """Prepare compiled code, and use it for data of every size in this process and those it starts.

    By default only means of 100,000 numbers or more run in compiled code, because loading it takes half a second. A process that
    computes many small means is ten times faster with it. Setting the environment variable ``GEODP_COMPILE`` to ``always``
    does the same without a call, ``never`` does without compiled code.

    Parameters
    ----------
    manifolds
        The manifolds to prepare, or their names; by default all that have compiled code, which takes up to a minute once
        after installation. Others are prepared when they are first used.

    >>> import geodp
    >>> geodp.compile("Sphere(2)")  # doctest: +SKIP
    """
    from geodp.files import parse_manifold
    from geodp.manifolds import SPD, Grassmann, Hyperbolic, PlanarShapes, Rotations, Sphere
    from geodp.manifolds.ball import Ball
    from geodp.solver.groups import best_group_evaluator
    from geodp.solver.passes import best_evaluator

    every = SPD(2), SPD(3), SPD(4), Sphere(2), Sphere(3), Rotations(3), Hyperbolic(2), PlanarShapes(3), Grassmann(2, 4)
    chosen = [parse_manifold(each) if isinstance(each, str) else each for each in manifolds] or every
    os.environ[SETTING] = "always"
    for manifold in chosen:
        ball = Ball(manifold, manifold.origin, 0.1)
        record = np.array(ball.center[None])
        best_evaluator(manifold, None).clip(ball, record, None)
        best_group_evaluator(ball, 1).clip(record, np.array([0, 1]))


def worth_compiled_code(numbers: float) -> bool:
    """Whether to run passes over so many numbers in compiled code. This depends on public things alone."""
    if not _numba_is_there():
        return False
    setting = os.environ.get(SETTING, "by size")
    if setting not in SETTINGS:
        raise ValueError(f"the environment variable {SETTING} is {setting!r} but must be one of {', '.join(SETTINGS)}")
    if setting == "always" and not _reproducible.get():
        return True
    return setting != "never" and numbers >= WORTH_COMPILING


_reproducible: ContextVar[bool] = ContextVar("reproducible", default=False)


@contextmanager
def reproducible() -> Iterator[None]:
    """Whether compiled code is used depends on sizes alone, even after :func:`compile`: the same bits in every process."""
    token = _reproducible.set(True)
    try:
        yield
    finally:
        _reproducible.reset(token)


@cache
def _numba_is_there() -> bool:
    return importlib.util.find_spec("numba") is not None
