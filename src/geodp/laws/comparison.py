r"""The comparison sampler.

On a symmetric space the law with density ``g(dist(center, .))`` is, in the tangent space at the centre, the density
``g(|v|) J(v)`` inside the cut locus, ``J`` the volume density of ``exp``. A radial bound ``J(v) <= G(|v|)`` turns that
into one-dimensional work: draw the radius from ``g(s) s^(d-1) G(s)``, which is log-concave, draw the direction
uniformly, and accept with probability ``J/G``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import final

import numpy as np

from geodp.inputs import Array
from geodp.laws.radial import Function, LogConcave, log_power
from geodp.manifolds import Manifold, PlanarShapes, Product
from geodp.manifolds.functions import log_sinc

#: Numbers held at once by one batch of trials.
_BATCH = 1 << 21

#: A sampler that accepts fewer than one in so many trials gives up: its law is far wider than any use of it.
_PATIENCE = 1 << 12


def is_isotropic(manifold: Manifold) -> bool:
    """Whether all directions at a point are alike, so that ``J`` and the cut locus depend on the radius alone.

    The two-point homogeneous spaces: Euclidean spaces, and symmetric spaces of rank one.
    """
    return manifold.rank == 1 or (manifold.rank == manifold.dim and math.isinf(manifold.injectivity_radius))


@singledispatch
def log_envelope(manifold: Manifold, radius: Array) -> Array:
    r"""``log G``: the least upper bound we know on ``log J`` that depends on the radius alone.

    Of two bounds the lower one: Jensen's over the roots (:class:`~geodp.manifolds.VolumeBound`), and
    ``prod sinh(a)/a <= exp(sum a) <= exp(h |v|)`` with the volume entropy ``h``, which makes the envelope integrable
    whenever the law itself is. Either one times ``s^(d-1)`` is log-concave, hence so is the lower of them.
    On spaces of constant curvature Jensen's bound is attained.
    """
    bound = manifold.volume_bound.log_value(radius)
    return np.minimum(bound, manifold.volume_entropy * radius) if manifold.volume_entropy else bound


@log_envelope.register
def _(manifold: PlanarShapes, radius: Array) -> Array:
    # complex projective space has rank one but two curvatures: J is radial, and its own best bound
    multiplicity = manifold.dim - 2
    return log_sinc(2.0 * radius) + (multiplicity * log_sinc(radius) if multiplicity else 0.0)


@log_envelope.register
def _(manifold: Product, radius: Array) -> Array:
    # a product of one is as isotropic as its factor, and its envelope must be as tight
    only = manifold.factors[0] if len(manifold.factors) == 1 else None
    return log_envelope.dispatch(Manifold)(manifold, radius) if only is None else log_envelope(only, radius)


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """Exact draws from the law with density ``exp(log_kernel(dist(center, .)))``; ``log_kernel`` concave and decreasing."""

    manifold: Manifold
    log_kernel: Function

    @cached_property
    def radius(self) -> LogConcave:
        """The envelope's radius. On an isotropic manifold it is the law's own."""

        def log_density(s: Array) -> Array:
            return self.log_kernel(s) + log_power(s, self.manifold.dim - 1) + log_envelope(self.manifold, s)

        return LogConcave(log_density, self.manifold.diameter)

    def sample(self, center: Array, size: int, rng: np.random.Generator) -> Array:
        """``size`` independent points. How many trials they take does not depend on the centre."""
        shape = self.manifold.point_shape
        out = np.empty((size, *shape))
        batch = max(_BATCH // max(math.prod(shape), self.manifold.dim), 1)
        done, tried, passed = 0, 1, 1
        while done < size:
            expected = math.ceil((size - done) * tried / passed)
            count = min(expected + (0 if is_isotropic(self.manifold) else math.isqrt(expected) + 8), batch)
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
        """Coordinates, in the orthonormal frame that every isometry carries along, of the accepted ones among some trials."""
        manifold = self.manifold
        radius = self.radius.sample(trials, rng)
        coordinates = rng.standard_normal((trials, manifold.dim))
        coordinates *= (radius / np.linalg.vector_norm(coordinates, axis=-1))[:, None]
        if is_isotropic(manifold):
            return coordinates
        vectors = manifold.raw_tangent(manifold.origin, coordinates)
        margin = manifold.raw_log_volume_density(manifold.origin, vectors) - log_envelope(manifold, radius)
        accept = -rng.standard_exponential(trials) < margin
        far = accept & (radius >= manifold.injectivity_radius)
        accept[far] = manifold.raw_inside_cut_locus(manifold.origin, vectors[far])
        return coordinates[accept]
