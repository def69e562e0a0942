"""Anderson's acceleration of an iteration on a manifold, for one point or for many at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from geodp.inputs import Array

#: The number of secant pairs that a solver remembers.
MEMORY = 6
#: A secant is used if the sine of its angle to the span of later ones exceeds this.
_OFF_SPAN = 0.02


def accelerated(step: Array, secants: Sequence[tuple[Array, Array]]) -> Array:
    """The combination of secants that predicts the smallest residual; ``step`` itself if there are none.

    A secant is a move of the point and the change of its step, latest first; all in coordinates, ``(..., dim)``. Of two
    secants in the same direction, the later is nearer to the mean and more accurate. So the earlier ones are made orthogonal to
    the later ones, and left out if little remains. A row of zeros means no secant.
    """
    dot: Any = np.dot if step.ndim == 1 else _dots
    inverted: Any = _inverted_number if step.ndim == 1 else _inverted
    total, basis = step, list[tuple[Array, Array]]()
    for move, change in secants:
        square = dot(change, change)
        for later, shift in basis:
            along = dot(later, change)
            change, move = change - along * later, move - along * shift
        scale = inverted(dot(change, change), _OFF_SPAN**2 * square)
        change, move = scale * change, scale * move
        basis.append((change, move))
        total = total - dot(change, step) * (change + move)
    return total


def _inverted_number(square: float, least: float) -> float:
    """One over the root, 0 if the square is not above the least."""
    return 1.0 / math.sqrt(square) if square > least else 0.0


def _inverted(squares: Array, least: Array) -> Array:
    used = squares > least
    return np.where(used, 1.0 / np.sqrt(np.where(used, squares, 1.0)), 0.0)


def _dots(a: Array, b: Array) -> Array:
    return np.vecdot(a, b)[..., None]
