"""The Markov chains that Reimherr, Bharath and Soto sample with, for study and comparison only. They are not mechanisms.

After finitely many steps the states only approximate the law, so a release made from one has no epsilon. :meth:`Law.sample` is
exact, and faster by orders of magnitude.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import Array
from geodp.manifolds import SPD
from geodp.noise.families import Law


def metropolis(
    law: Law,
    center: ArrayLike,
    chains: int,
    rng: np.random.Generator,
    *,
    steps: int = 10_000,
    step: float | None = None,
    redraw: bool = False,
) -> Array:
    r"""The last states of independent Metropolis chains that start at the centre, shape ``(chains,) + point_shape``.

    **Not a mechanism**, see the module.

    The proposal moves along a geodesic with a random velocity: a vector of length ``step`` (by default ``law.sigma``, as
    in the paper), uniform on a sphere of one dimension more than the manifold, with its last coordinate dropped; on the
    sphere that is the paper's projection onto the tangent space. Geodesic symmetries reverse velocities, so the proposal
    is symmetric. As Metropolis' theorem requires, a rejected step repeats the state. The paper's supplement draws another
    candidate instead, so that only accepted moves count (``redraw=True``). That is a different chain: it spends too little
    time where few candidates are accepted, which is near the centre.

    >>> from geodp.manifolds import Sphere
    >>> from geodp.noise.families import Laplace
    >>> metropolis(Laplace(Sphere(2), 0.1), [0.0, 0.0, 1.0], 4, np.random.default_rng(0), steps=10).shape
    (4, 3)
    """
    manifold = law.manifold
    size = law.sigma if step is None else step
    start = manifold.read_points(center, "center")
    state = np.broadcast_to(start, (chains, *manifold.point_shape)).copy()
    log_density = law.log_kernel(np.zeros(chains))
    left = np.full(chains, steps)
    while left.any():
        velocity = rng.standard_normal((chains, manifold.dim + 1))
        velocity *= size / np.linalg.vector_norm(velocity, axis=-1, keepdims=True)
        proposal = manifold.raw_exp(state, manifold.raw_tangent(state, velocity[:, :-1]))
        proposed = law.log_kernel(manifold.raw_dist(start, proposal))
        accept = (-rng.standard_exponential(chains) < proposed - log_density) & (left > 0)
        state[accept], log_density[accept] = proposal[accept], proposed[accept]
        left -= accept if redraw else left > 0
    return manifold.raw_project(state)


def eigenvalue_chain(
    manifold: SPD, sigma: float, center: ArrayLike, chains: int, rng: np.random.Generator, *, steps: int = 10_000
) -> Array:
    r"""The chain of the paper's program for Laplace noise on positive-definite matrices, shape ``(chains, k, k)``.

    **Not a mechanism**, see the module.

    After Hajri and others (2016) the logarithms of the eigenvalues have a density proportional to
    ``exp(-|l|/sigma) prod_{i<j} sinh(|l_i - l_j|/2)`` and the eigenvectors are uniform. The program walks from a uniform
    start in the unit cube with steps that are uniform in a cube of side one, **whatever sigma is**. Once sigma is far below the
    step, nearly every candidate is rejected, and the chain stays about as far from the centre as its few accepted moves
    brought it.

    >>> eigenvalue_chain(SPD(2), 0.1, np.eye(2), 4, np.random.default_rng(0), steps=10).shape
    (4, 2, 2)
    """
    k = manifold.k
    rows, columns = np.triu_indices(k, 1)

    def log_density(logs: Array) -> Array:
        gaps = np.sinh(0.5 * np.abs(logs[:, rows] - logs[:, columns]))
        with np.errstate(divide="ignore"):
            return np.log(gaps).sum(axis=-1) - np.linalg.vector_norm(logs, axis=-1) / sigma

    state = rng.uniform(size=(chains, k))
    current = log_density(state)
    for _ in range(steps):
        proposal = state + rng.uniform(-0.5, 0.5, size=(chains, k))
        proposed = log_density(proposal)
        accept = -rng.standard_exponential(chains) < proposed - current
        state[accept], current[accept] = proposal[accept], proposed[accept]
    vectors = np.linalg.qr(rng.standard_normal((chains, k, k)))[0]
    noise = (vectors * np.exp(state)[:, None, :]) @ np.swapaxes(vectors, -1, -2)
    return manifold.raw_move_origin(manifold.read_points(center, "center"), noise)
