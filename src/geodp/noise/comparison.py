r"""The comparison sampler.

On a symmetric space the law with density ``g(dist(center, .))`` has, in the tangent space at the centre, the density
``g(|v|) J(v)`` inside the cut locus, where ``J`` is the volume density of ``exp``. A radial bound ``J(v) <= G(|v|)`` makes
the problem one-dimensional: draw the radius from ``g(s) s^(d-1) G(s)``, which is log-concave, draw the direction
uniformly, and accept with probability ``J/G``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.noise.radial import Function, LogConcave, log_power

#: Numbers held at once by one batch of trials.
_BATCH = 1 << 21

#: A sampler that accepts fewer than one in this many trials gives up: its law is far too wide to be useful.
_PATIENCE = 1 << 12


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """Exact draws from the law with density ``exp(log_kernel(dist(center, .)))``; ``log_kernel`` concave and decreasing."""

    manifold: Manifold
    log_kernel: Function

    @cached_property
    def radius(self) -> LogConcave:
        """The law of the envelope's radius. On an isotropic manifold it is the radius of the law itself."""

        def log_density(s: Array) -> Array:
            return self.log_kernel(s) + log_power(s, self.manifold.dim - 1) + self.manifold.volume_bound.log_value(s)

        return LogConcave(log_density, self.manifold.diameter)

    def sample(self, center: Array, size: int, rng: np.random.Generator) -> Array:
        """``size`` independent points. The number of trials does not depend on the centre."""
        shape = self.manifold.point_shape
        out = np.empty((size, *shape))
        batch = max(_BATCH // max(math.prod(shape), self.manifold.dim), 1)
        done, tried, passed = 0, 1, 1
        while done < size:
            expected = math.ceil((size - done) * tried / passed)
            count = min(expected + (0 if self.manifold.roots.isotropic else math.isqrt(expected) + 8), batch)
            accepted = self._accepted(count, rng)
            tried, passed = tried + count, passed + len(accepted)
            if tried > 32 * _PATIENCE and tried > _PATIENCE * passed:
                raise ValueError(
                    f"only {passed} of {tried} trials were accepted on {self.manifold}: the law is too wide for its envelope"
                )
            kept = accepted[: size - done]
            out[done : done + len(kept)] = self.manifold.raw_exp(center, self.manifold.raw_tangent(center, kept))
            done += len(kept)
        return out

    def _accepted(self, trials: int, rng: np.random.Generator) -> Array:
        """Coordinates of the accepted trials, in the orthonormal frame that isometries carry along."""
        manifold = self.manifold
        radius = self.radius.sample(trials, rng)
        coordinates = rng.standard_normal((trials, manifold.dim))
        coordinates *= (radius / np.linalg.vector_norm(coordinates, axis=-1))[:, None]
        if manifold.roots.isotropic:
            return coordinates
        vectors = manifold.raw_tangent(manifold.origin, coordinates)
        margin = manifold.raw_log_volume_density(manifold.origin, vectors) - manifold.volume_bound.log_value(radius)
        accept = -rng.standard_exponential(trials) < margin
        far = accept & (radius >= manifold.injectivity_radius)
        accept[far] = manifold.raw_inside_cut_locus(manifold.origin, vectors[far])
        return coordinates[accept]
