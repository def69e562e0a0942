"""Anderson's acceleration of an iteration on a manifold, for one point or for many at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from geodp.inputs import Array

#: Secant pairs that a solver remembers.
MEMORY = 6
#: A secant is used if the sine of its angle to the span of later ones exceeds this.
_OFF_SPAN = 0.02


def accelerated(step: Array, secants: Sequence[tuple[Array, Array]]) -> Array:
    """The combination of secants that predicts the smallest residual; ``step`` itself where there are none.

    A secant is how the point moved and how its step changed by that, latest first; all in coordinates, ``(..., dim)``. Of two
    secants in one direction the later is nearer to the mean and the truer one. So the earlier ones are made orthogonal to the
    later, and left out if little remains. Zeros stand for no secant.
    """
    total, basis = step, list[tuple[Array, Array]]()
    for move, change in secants:
        length = _norm(change)
        for later, shift in basis:
            along = np.vecdot(later, change)[..., None]
            change, move = change - along * later, move - along * shift
        across = _norm(change)
        used = across > _OFF_SPAN * length
        scale = np.where(used, 1.0 / np.where(used, across, 1.0), 0.0)
        change, move = scale * change, scale * move
        basis.append((change, move))
        total = total - np.vecdot(change, step)[..., None] * (change + move)
    return total


def _norm(vectors: Array) -> Array:
    return np.sqrt(np.vecdot(vectors, vectors))[..., None]
