"""The Markov chain that Reimherr, Bharath and Soto sample with: for study and comparison, not a mechanism."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from geodp.manifolds._functions import Array
from geodp.noise.laws import Law


def metropolis(
    law: Law, center: ArrayLike, chains: int, rng: np.random.Generator, *, steps: int = 10_000, step: float | None = None
) -> Array:
    r"""The last states of independent Metropolis chains that start at the centre, shape ``(chains,) + point_shape``.

    **Not a mechanism**: after finitely many steps the states only approximate the law, so a release made of one has no
    epsilon. :meth:`Law.sample` is exact, and faster by orders of magnitude.

    The proposal moves along a geodesic with a random velocity: a vector of length ``step`` (by default ``law.sigma``, as
    in the paper), uniform on a sphere of one dimension more than the manifold, with its last coordinate dropped; on the
    sphere that is the paper's projection onto the tangent space. Geodesic symmetries reverse velocities, so the proposal
    is symmetric. After a rejection the paper's supplement draws a new candidate, which is a different chain with another
    limit; here, as Metropolis' theorem wants it, a rejected step repeats the state.

    >>> from geodp.manifolds import Sphere
    >>> from geodp.noise import Laplace
    >>> metropolis(Laplace(Sphere(2), 0.1), [0.0, 0.0, 1.0], 4, np.random.default_rng(0), steps=10).shape
    (4, 3)
    """
    manifold = law.manifold
    size = law.sigma if step is None else step
    start = manifold._points(center, "center")
    state = np.broadcast_to(start, (chains, *manifold.point_shape)).copy()
    log_density = law.log_kernel(np.zeros(chains))
    for _ in range(steps):
        velocity = rng.standard_normal((chains, manifold.dim + 1))
        velocity *= size / np.linalg.vector_norm(velocity, axis=-1, keepdims=True)
        proposal = manifold.raw_exp(state, manifold.raw_tangent(state, velocity[:, :-1]))
        proposed = law.log_kernel(manifold.raw_dist(start, proposal))
        accept = -rng.standard_exponential(chains) < proposed - log_density
        state[accept], log_density[accept] = proposal[accept], proposed[accept]
    return manifold.raw_project(state)
