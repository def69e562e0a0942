"""Your own summary of private data, released with noise on its manifold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack, final

import numpy as np
from numpy.typing import ArrayLike

from geodp.arithmetic.entropy import NotPrivate
from geodp.inputs import Array, as_numpy, moderate_length, real_number, refuse_unreadable
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.mechanism import Noise
from geodp.privacy.neighbours import Unit
from geodp.privacy.notions import privacy_of
from geodp.receipt import Release
from geodp.records.chunks import hiding_error_text
from geodp.release import Account, AccountOptions, Given, hide_errors, run, takes
from geodp.request import NoiseOptions, PrivacyOptions, Request, Statistic


class SummaryOptions(PrivacyOptions, NoiseOptions, AccountOptions, total=False):
    """The privacy, how the noise is chosen, and a budget to charge."""

    epsilon: float | None


@final
@dataclass(frozen=True)
class ClaimedSummary(Statistic):
    """The caller's own summary. Its sensitivity is the caller's claim, and includes the numerical error of the value.

    If there is a ball, the claim includes that it contains the value of every data set.
    """

    codomain: Manifold
    claim: float
    ball: Ball | None = None

    kind = "summary"
    words = "your summary"
    of_records = False
    is_point = True

    def __post_init__(self) -> None:
        moderate_length(self.claim, "the sensitivity")

    @property
    def place(self) -> Ball | Manifold:
        return self.ball or self.codomain

    @property
    def hull(self) -> Ball | None:
        return self.ball

    def sensitivity(self, n: int) -> float:
        return self.claim if self.ball is None else min(self.claim, 2.0 * self.ball.reach)

    def check(self, n: int, unit: Unit) -> None:
        ball = self.ball
        rounding = 0.0 if ball is None else self.codomain.log_rounding(ball.center, ball.reach)
        if ball is not None and not rounding < 0.01 * ball.radius:
            raise ValueError(
                f"float64 cannot resolve this ball of {self.codomain}: rounding may move points by {rounding:.2g}, more than a "
                f"hundredth of the radius {ball.radius:g}. A smaller radius would work"
            )

    def compute(self, source: Any, n: int, progress: Any = None) -> Any:
        return source


@takes(SummaryOptions)
def private_summary(
    value: ArrayLike,
    manifold: Manifold,
    *,
    sensitivity: float,
    base: ArrayLike | None = None,
    radius: float | None = None,
    neighbours: str = "replace",
    **options: Unpack[SummaryOptions],
) -> Release:
    r"""Your own summary, a point of a manifold, released with differential privacy.

    *Public*: the manifold and all arguments but ``value``. *Private*: ``value``, a summary ``f(D)`` of a data set ``D``.
    *Neighbours*: those of your claim, which you name in ``neighbours``. **Your claim**: ``dist(f(D), f(D')) <= sensitivity``
    for all neighbours ``D`` and ``D'``, in the geodesic distance of the manifold, including the numerical error of the computed
    values. The library cannot check this; you must. The receipt says so.

    *Theorem*: under that claim, Theorem 1 of Reimherr, Bharath and Soto (2021) for intrinsic Laplace noise, and the theorems of
    :mod:`geodp.noise.intrinsic` and :mod:`geodp.noise.tangent` for the others.

    Parameters
    ----------
    value
        One point of the manifold. Anything else raises a ``ValueError``, and nothing is charged.
    sensitivity
        Your claim.
    epsilon, options
        The privacy, how the noise is chosen, and a budget to charge, as for :func:`private_mean`.
    base, radius
        For tangent noise, on spaces without positive curvature: a second claim, that the value is within ``radius`` of the public
        point ``base`` for every data set. A value outside raises a ``ValueError``. Without them only intrinsic noise is
        available. ``base`` is the manifold's origin by default.
    neighbours
        The kind of neighbours of the claim. A ledger refuses a charge for another kind than its budget's.

    >>> import numpy as np
    >>> from geodp import Sphere
    >>> release = private_summary([0.0, 0.0, 1.0], Sphere(2), sensitivity=0.01, epsilon=1.0)
    >>> release.mechanism, round(release.scale, 9)
    ('Riemannian Laplace', 0.01)
    """
    if not isinstance(manifold, Manifold):
        raise TypeError(f"the manifold must be a Manifold but is of type {type(manifold).__name__}")
    privacy = privacy_of(*(options.get(name) for name in ("epsilon", *PrivacyOptions.__annotations__)))
    account = Account.of(options.get("ledger"), options.get("dataset"), simulate := options.get("simulate"))
    claim = real_number(sensitivity, "the sensitivity")
    if not 0.0 < claim < math.inf:
        raise ValueError(f"the sensitivity must be positive and finite but is {claim:g}: how far can one record move the value?")
    statistic = ClaimedSummary(manifold, claim, _summary_ball(manifold, base, radius))
    noise: Any = {name: options[name] for name in NoiseOptions.__annotations__ if name in options}  # type: ignore[literal-required]
    request = Request(statistic, privacy, neighbours=neighbours, **noise)
    refuse_unreadable(value, "the value")
    array = _one_array(value, manifold)
    point = hide_errors(lambda: _one_point(array, statistic, request.plan(1).noise))
    found: Release = run(request, Given(point), account, simulate)
    return found


def _summary_ball(manifold: Manifold, base: ArrayLike | None, radius: float | None) -> Ball | None:
    if radius is None:
        if base is not None:
            raise ValueError("a base point needs a radius about it that contains the value: give both or neither")
        return None
    if not math.isinf(manifold.injectivity_radius):
        raise ValueError(
            f"tangent noise for summaries is for spaces without positive curvature, which {manifold} is not: leave out base and "
            "radius"
        )
    return Ball(manifold, manifold.origin if base is None else base, radius)


def _one_array(value: ArrayLike, manifold: Manifold) -> Array:
    """The value as floats of the shape of a point; nothing else is looked at."""
    with hiding_error_text():
        array = np.asarray(as_numpy(value))
    point = manifold.read(array, "the value")
    if point.shape != manifold.point_shape:
        raise ValueError(f"the value has shape {point.shape}, but one point of {manifold} has shape {manifold.point_shape}")
    return point


def _one_point(point: Array, statistic: ClaimedSummary, noise: Noise) -> Array:
    """The point that the value describes. It is private, so no message quotes it."""
    manifold, ball = statistic.codomain, statistic.ball
    wrong = ValueError(f"the value is not a point of {manifold}: manifold.check_point(value) tells you, and only you, why")
    if not manifold.valid(point):
        raise wrong
    point = manifold.raw_project(point)
    if ball is not None:
        if not ball.contains(point):
            raise ValueError(f"the value is not within {ball.radius:g} of the base point, as was claimed: claim a larger radius")
        return point
    try:
        # the exact sampler may refuse a value that passes in floats, such as a nearly singular matrix: find out before the charge
        noise.draws([point], NotPrivate(0))
    except ValueError:
        raise wrong from None
    return point
