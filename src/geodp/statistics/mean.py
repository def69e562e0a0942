"""The Fréchet mean of records in a public ball, released with differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack, final, overload

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball, checked_ball
from geodp.privacy.neighbours import Unit
from geodp.progress import Progress
from geodp.receipt import GroupedRelease, Release
from geodp.records.dataset import GroupOptions
from geodp.release import GroupedOptions, Options, PlaceOptions, release_in, takes
from geodp.request import NoiseOptions, Statistic
from geodp.solver.mean import check_means, mean_of, mean_tolerance, opened
from geodp.statistics.coverage import Coverage
from geodp.statistics.sensitivity import Bound, sensitivity


@final
@dataclass(frozen=True)
class Mean(Statistic):
    """The Fréchet mean of records clipped into a public ball.

    *Conditions checked by* :meth:`check`: float64 resolves the ball (the tolerance is small against the radius), and the
    radius is not so close to the largest one that a mean could take very many passes.
    """

    ball: Ball
    bound: Bound = "sharp"

    kind = "mean"
    words = "the mean of the clipped records"
    is_point = True

    def __post_init__(self) -> None:
        checked_ball(self.ball)

    @property
    def place(self) -> Ball:
        return self.ball

    @property
    def codomain(self) -> Manifold:
        return self.ball.manifold

    @property
    def hull(self) -> Ball:
        return self.ball

    @property
    def cover(self) -> Coverage:
        return Coverage(self.ball)

    def sensitivity(self, n: int) -> float:
        """How far apart the exact means of neighbouring data sets of ``n`` records may be: :func:`geodp.sensitivity`."""
        return sensitivity(self.ball, n, self.bound)

    def tolerance(self, unit: Unit = "record") -> float:
        return mean_tolerance(self.ball, unit)

    def check(self, n: int, unit: Unit = "record") -> None:
        check_means(self.ball, n)

    def compute(self, source: Any, n: int, progress: Progress | bool | None = None) -> Array:
        """The mean of exactly ``n`` records, to the default tolerance; raises if there is another number of them."""
        return mean_of(opened(source, self.ball), n, progress)

    def compute_each(self, sources: list[Array]) -> list[Array]:
        """The means of several data sets, computed together."""
        from geodp.solver.many import group_means

        starts = np.append(0, np.cumsum([len(array) for array in sources]))
        with np.errstate(all="ignore"):
            records = np.concatenate([array.astype(np.float64) for array in sources])
        return list(group_means(records, starts, self.ball, steady=True).points)


class MeanOptions(Options, NoiseOptions, PlaceOptions, total=False):
    """The options of a mean."""

    bound: Bound
    coverage: float | None
    progress: Progress | bool | None


class GroupedMeanOptions(MeanOptions, GroupedOptions, total=False):
    """With them, the groups."""


@overload
def private_mean(x: Any, ball: Ball | Manifold, epsilon: float | None = None, **options: Unpack[MeanOptions]) -> Release: ...


@overload
def private_mean(
    x: Any, ball: Ball | Manifold, epsilon: float | None = None, **options: Unpack[GroupedMeanOptions]
) -> GroupedRelease: ...


@takes(MeanOptions, GroupOptions)
def private_mean(
    x: Any,
    ball: Ball | Manifold,
    epsilon: float | None = None,
    *,
    bound: Bound = "sharp",
    coverage: float | None = None,
    progress: Progress | bool | None = None,
    **options: Any,
) -> Any:
    r"""The Fréchet mean of records, in a public ball or in one that is found first, released with differential privacy.

    *Public*: the manifold, the ball, the number of records, the privacy and all other arguments. *Private*: the values of the
    records. *Neighbours*: data sets of the same size that differ by replacing one record. ``options`` can change this: a person
    may have several records, their number may be private too, and they may be in groups. :mod:`geodp.release` has the proofs.

    The Fréchet mean of matrices or shares is not their average and may be smaller: :func:`geodp.private_average` releases that.

    Every record is clipped into the ball by itself (a record that is not a point of the manifold becomes the centre). The mean of
    the clipped records is computed to a public tolerance, and noise is added. :func:`geodp.sensitivity` says how far one record
    can move the mean; :mod:`geodp.noise.intrinsic` and :mod:`geodp.noise.tangent` prove that the noise is enough. A
    program over exact real numbers draws the noise from the operating system's entropy, and the released value is a function of
    that draw rounded to a public grid (:mod:`geodp.noise.exact`).

    Parameters
    ----------
    x
        The records, as for :func:`geodp.frechet_mean`.
    ball
        A ball whose centre and radius were chosen without looking at the data. Or the manifold: then a ball is found first, with
        a part of the privacy (``outer``, ``find``: ``geodp.release.PlaceOptions``; :mod:`geodp.programs.found` has the
        proof).
    epsilon, delta, rho, mu
        The privacy to spend: exactly one of ``epsilon`` (pure), ``epsilon`` and ``delta``, ``rho`` (zero-concentrated) or ``mu``
        (Gaussian). See :mod:`geodp.privacy.notions`.
    mechanism, law
        ``"intrinsic"`` noise on the manifold, or ``"tangent"`` noise in the tangent space at the centre of the ball;
        ``"laplace"`` or ``"gaussian"``. By default the mechanism with the smallest guaranteed expected error that provides the
        privacy; :func:`geodp.plan` lists them all.
    bound
        The sensitivity bound, see :func:`geodp.sensitivity`.
    coverage
        A part of the privacy, such as 0.05, to measure how many records are valid and how far clipping moved them
        (:func:`private_coverage`), so that ``release.total_error`` counts clipping too. It is 0.05 if a ball is found,
        and 0 in a ball of yours unless you say so.
    project
        Whether to move a draw outside the ball to its boundary. By default that is done if it cannot
        increase the error: for tangent noise always; for intrinsic noise on simply connected spaces without positive curvature
        and on spheres up to a third of the way round.
    progress
        As for :func:`geodp.frechet_mean`. Its arguments depend on the data and must not be published.
    options
        A budget to charge, a generator for simulations, and whose the records are: :class:`geodp.release.Options`.
        With ``by`` the result is a :class:`geodp.GroupedRelease`: a mapping from the names of the groups to their releases.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> ball = Ball(Sphere(2), center=[0.0, 0.0, 1.0], radius=np.pi / 8)
    >>> x = np.tile([0.0, 0.0, 1.0], (500, 1))
    >>> release = private_mean(x, ball, epsilon=1.0)
    >>> release.epsilon, release.n, Sphere(2).check_point(release.value)
    (1.0, 500, None)
    >>> private_mean(x, ball, rho=0.05).mechanism
    'Riemannian Gaussian'
    """
    return release_in(lambda found: Mean(found, bound), ball, x, epsilon, options, coverage=coverage, progress=progress)
