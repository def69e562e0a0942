"""Chooses the noise for a value and an amount of privacy: lists the mechanisms that can do it, and picks the most accurate.

All decisions here depend only on public numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, final, get_args

from geodp.inputs import EPSILON, describe
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.families import GREATEST_SCALE, LEAST_SCALE
from geodp.noise.flat import Family
from geodp.noise.intrinsic import (
    IntrinsicMechanism,
    intrinsic_cost,
    is_flat_space,
    projection_is_safe,
    why_no_gaussian,
    why_not_drawable,
    widest_drawable,
)
from geodp.noise.mechanism import Kind, Mechanism
from geodp.noise.tangent import TangentMechanism, tangent_cost
from geodp.privacy.cost import concentrated_rho, gaussian_shift, laplace_ratio, pure_epsilon
from geodp.privacy.notions import GaussianDP, Privacy, PureDP

MechanismName = Literal["auto", "intrinsic", "tangent"]

#: If two errors differ by less than this fraction, the intrinsic mechanism is chosen: it does not depend on the ball.
_TIE = 0.01


@final
@dataclass(frozen=True)
class SensitivityBound:
    """A value to hide, described by how far neighbouring data sets can move it: public numbers that include all numerical error.

    ``sensitivity`` is a geodesic distance. ``tangent_sensitivity`` is a distance in normal coordinates at the centre of ``ball``,
    which contains the value; without both there is no tangent mechanism.
    """

    manifold: Manifold
    sensitivity: float
    ball: Ball | None = None
    tangent_sensitivity: float | None = None


class Unsuitable(ValueError):
    """A mechanism cannot do what was requested. The message says why."""


@final
@dataclass(frozen=True)
class Candidate:
    """One of the four mechanisms for a value and an amount of privacy: ready to use, or with the reason why not."""

    kind: Kind
    family: Family
    bound: SensitivityBound
    privacy: Privacy
    project: bool | None = None

    @property
    def name(self) -> str:
        made = IntrinsicMechanism if self.kind == "intrinsic" else TangentMechanism
        return f"{made.adjective} {self.family.capitalize()}"

    @cached_property
    def refusal(self) -> str | None:
        """Why it cannot be used, or None if it can."""
        try:
            assert self.mechanism
        except Unsuitable as reason:
            return str(reason)
        return None

    @cached_property
    def ratio(self) -> float:
        """The largest ratio of sensitivity to scale that keeps the privacy."""
        ratio = self._tangent_ratio() if self.kind == "tangent" else self._intrinsic_ratio()
        if ratio is None and self.family == "gaussian" and isinstance(self.privacy, PureDP):
            raise Unsuitable(
                "Gaussian noise has no pure epsilon: give a delta with it, or a rho or a mu, or use law='laplace'",
            )
        if ratio is None:
            remedy = "ask for rho, or for epsilon" if self.bound.tangent_sensitivity is None else "use tangent Gaussian noise"
            raise Unsuitable(f"{self.name} noise is not known to keep {self.privacy.words}: {remedy}")
        return ratio

    @property
    def keeps_notion(self) -> bool:
        """Whether it can provide this notion of privacy at any scale."""
        try:
            return self.ratio > 0.0
        except Unsuitable:
            return False

    def _tangent_ratio(self) -> float | None:
        return laplace_ratio(self.privacy, self.bound.manifold.dim) if self.family == "laplace" else gaussian_shift(self.privacy)

    def _intrinsic_ratio(self) -> float | None:
        if is_flat_space(self.bound.manifold):
            return self._tangent_ratio()
        if self.family == "laplace":
            # Gaussian privacy follows from a pure epsilon, but the bound is poor
            return None if isinstance(self.privacy, GaussianDP) else pure_epsilon(self.privacy)
        reason = why_no_gaussian(self.bound.manifold)
        if reason is not None:
            raise Unsuitable(reason)
        rho = concentrated_rho(self.privacy)
        return None if rho is None else math.sqrt(2.0 * rho) * (1.0 - 4.0 * EPSILON)

    @cached_property
    def scale(self) -> float:
        """The scale of the noise, rounded up."""
        sensitivity = self.bound.sensitivity
        if self.kind == "tangent":
            if self.bound.tangent_sensitivity is None:
                raise Unsuitable(
                    f"tangent noise on {self.bound.manifold} needs a public base point and a radius about it that holds the "
                    "value: give base= and radius="
                    if math.isinf(self.bound.manifold.injectivity_radius)
                    else f"there is no tangent noise for a summary on {self.bound.manifold}, where it cannot be claimed to be "
                    "in a ball: give an epsilon or a rho"
                )
            sensitivity = self.bound.tangent_sensitivity
        scale = sensitivity / self.ratio * (1.0 + 8.0 * EPSILON)
        # beyond these limits the numbers in a receipt would overflow, and a receipt must never fail after the charge
        if not LEAST_SCALE <= scale <= GREATEST_SCALE:
            size = "little" if scale > 1.0 else "much"
            raise Unsuitable(
                f"{self.privacy} is too {size} privacy to spend here: the scale of the noise would not fit in a float"
            )
        return scale

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism, or :class:`Unsuitable`."""
        ball, manifold = self.bound.ball, self.bound.manifold
        if self.kind == "tangent":
            cost = tangent_cost(manifold.dim, self.family, self.ratio)
            scale = self.scale
            assert ball is not None
            return TangentMechanism(scale, self.family, cost, ball, True if self.project is None else self.project)
        cost = intrinsic_cost(manifold, self.family, self.ratio)
        reason = why_not_drawable(manifold, self.scale, self.family)
        if reason is not None:
            raise Unsuitable(f"{reason}. {self._remedy()}")
        into_ball = ball is not None and (projection_is_safe(ball) if self.project is None else self.project)
        return IntrinsicMechanism(self.scale, self.family, cost, manifold, ball, into_ball)

    def _remedy(self) -> str:
        tangent = "" if self.bound.tangent_sensitivity is None else ", or mechanism='tangent', which has no such limit"
        limit = widest_drawable(self.bound.manifold, self.family)
        if isinstance(self.privacy, PureDP) and self.scale >= limit:
            enough = self.privacy.epsilon * (self.scale / limit)
            return f"An epsilon above {enough:.6g} would be enough, or more records{tangent}"
        return f"More records or more privacy to spend would be enough{tangent}"


def candidates(
    bound: SensitivityBound,
    privacy: Privacy,
    project: bool | None = None,
    mechanism: MechanismName = "auto",
    law: Family | None = None,
) -> list[Candidate]:
    """The mechanisms of the requested kind and law, by default all four: intrinsic and tangent, Laplace and Gaussian."""
    check_names(mechanism, law)
    kinds = [kind for kind in get_args(Kind) if mechanism in ("auto", kind)]
    families = [family for family in get_args(Family) if law in (None, family)]
    return [Candidate(kind, family, bound, privacy, project) for kind in kinds for family in families]


def choose(
    bound: SensitivityBound,
    privacy: Privacy,
    mechanism: MechanismName = "auto",
    law: Family | None = None,
    project: bool | None = None,
) -> Mechanism:
    """The mechanism with the smallest error where values usually are, among those of the requested kind and law.

    >>> import numpy as np
    >>> from geodp import SPD, Ball
    >>> from geodp.privacy.notions import ApproximateDP
    >>> bound = SensitivityBound(SPD(12), 0.01, Ball(SPD(12), np.eye(12), 2.0), 0.01)
    >>> choose(bound, PureDP(1.0)).name, choose(bound, ApproximateDP(1.0, 1e-6)).name
    ('Riemannian Laplace', 'tangent Laplace')
    """
    check_names(mechanism, law)
    return _chosen(bound, privacy, mechanism, law, project)


def check_names(mechanism: MechanismName, law: Family | None) -> None:
    if mechanism not in get_args(MechanismName):
        raise ValueError(f"the mechanism must be one of {', '.join(get_args(MechanismName))} but is {describe(mechanism)}")
    if law is not None and law not in get_args(Family):
        raise ValueError(f"the law must be one of {', '.join(get_args(Family))} but is {describe(law)}")


@lru_cache(maxsize=256)
def _chosen(
    bound: SensitivityBound, privacy: Privacy, mechanism: MechanismName, law: Family | None, project: bool | None
) -> Mechanism:
    return least_error(usable(bound, privacy, mechanism, law, project))


def usable(
    bound: SensitivityBound, privacy: Privacy, mechanism: MechanismName, law: Family | None, project: bool | None
) -> list[Mechanism]:
    """The mechanisms of the requested kind and law, at least one; raises if there is none. Quick: no error is computed."""
    asked = candidates(bound, privacy, project, mechanism, law)
    found = [candidate.mechanism for candidate in asked if candidate.refusal is None]
    if not found:
        # the reason of a mechanism that can provide this notion of privacy is more helpful than that another cannot
        raise ValueError(max(asked, key=lambda candidate: candidate.keeps_notion).refusal)
    return found


def least_error(usable: list[Mechanism]) -> Mechanism:
    """The mechanism with the smallest error where values usually are; on a near tie, an intrinsic one."""
    if len(usable) == 1:
        return usable[0]
    tangent = min((each for each in usable if each.kind == "tangent"), key=lambda each: each.likely_error(), default=None)
    intrinsic = [each for each in usable if each.kind == "intrinsic"]
    if tangent is None or not intrinsic:
        return tangent or min(intrinsic, key=lambda each: each.likely_error())
    most = tangent.likely_error() * (1.0 + _TIE)
    # try the quick bounds first: the law of the radius on a large space takes long to compute
    nearest = min(intrinsic, key=lambda each: each.quick_error())
    if len(intrinsic) > 1 or nearest.quick_error() > most:
        nearest = min(intrinsic, key=lambda each: each.likely_error())
        return nearest if nearest.likely_error() <= most else tangent
    return nearest
