"""What the estimators have in common: reading records, where they lie, counting fits, and one charge for several releases."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from geodp._version import __version__
from geodp.files import parse_manifold
from geodp.files.frames import as_frame
from geodp.finding import BallRelease, check_start, find_ball
from geodp.inputs import Array, as_numpy, real_number, refuse_unreadable
from geodp.kmeans import KMeansRelease
from geodp.manifolds import SPD, Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.privacy.cost import Cost, compose, cost_of
from geodp.privacy.neighbours import Unit, replace_one
from geodp.privacy.notions import Privacy, privacy_of
from geodp.privacy.splitting import share_of
from geodp.receipt import GroupedRelease, Release, cost_of_parts
from geodp.records.chunks import hiding_error_text
from geodp.records.dataset import Dataset
from geodp.records.labels import check_length, read_labels
from geodp.records.sources import load
from geodp.release import Account

AnyRelease = BallRelease | GroupedRelease | KMeansRelease | Release


@final
class _Uncounted:
    """What an estimator and its clones have spent without a ledger; they share this object."""

    def __init__(self) -> None:
        self.costs: list[Cost] = []
        self.warned = False

    def warn(self, privacy: Privacy) -> None:
        """Before a further fit, once: what the fits add up to. Where warnings are errors, the fit is not made."""
        if self.warned or not self.costs:
            return
        self.warned = True
        together = _in_epsilon(compose([*self.costs, cost_of(privacy)]))
        warnings.warn(
            f"with this fit the estimator and its clones have made {len(self.costs) + 1} releases without a ledger: if they "
            f"share records, together they spend up to {together}, and every further fit, such as those of a cross-validation, "
            "adds to it; give a ledger and a dataset to keep count and to stop at a total",
            stacklevel=4,
        )


def _in_epsilon(cost: Cost) -> str:
    if math.isfinite(cost.epsilon):
        return f"epsilon {cost.epsilon:.4g}"
    # some costs have an epsilon only at a delta that is large enough
    deltas = (10.0**-k for k in range(6, 0, -1))
    return next(
        (f"epsilon {cost.epsilon_at(d):.4g} at delta {d:g}" for d in deltas if cost.epsilon_at(d) < math.inf), "everything"
    )


# scikit-learn has no type hints, so its classes are Any to the checker
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The parameters and attributes that all estimators have; the functions of this module work on them."""

    manifold: Manifold | str | None
    center: ArrayLike | None
    radius: float | None
    find: float
    epsilon: float | None
    delta: float | None
    rho: float | None
    mu: float | None
    ledger: Any
    dataset: str | None
    layout: str | None
    transform_private_records: bool
    n_features_in_: int
    manifold_: Manifold
    releases_: tuple[AnyRelease, ...]
    cost_: Cost

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        copy._uncounted = _shared_count(self)
        return copy


def _shared_count(estimator: PrivateEstimator) -> _Uncounted:
    # not made by __init__, in which scikit-learn allows parameters only
    return estimator.__dict__.setdefault("_uncounted", _Uncounted())


def refuse_unless_asked(estimator: PrivateEstimator, method: Literal["fit_transform", "fit_predict"], what: str) -> None:
    """A sentence unless rows about the very records that a fit protects may be handed out."""
    if estimator.transform_private_records is not True:
        raise ValueError(
            f"{method} returns {what}, which no noise hides: call fit and publish what it learned, or set "
            "transform_private_records=True if all that follows stays with the data"
        )


# ---------------------------------------------------------------------- one fit


@final
class Fit:
    """The releases of one fit and what pays for them: a search for a ball, if there is one, and what is done in that ball.

    An only release charges the ledger itself. Several are charged once, before the first of them draws, as the privacy that was
    asked for.
    """

    def __init__(self, estimator: PrivateEstimator, unit: Unit) -> None:
        self._estimator, self.unit = estimator, unit
        self._start = _start_of(estimator)
        self.neighbours = replace_one(unit)
        unsaid = estimator.epsilon is None and estimator.rho is None and estimator.mu is None
        self._privacy = privacy_of(1.0 if unsaid else estimator.epsilon, estimator.delta, estimator.rho, estimator.mu)
        self._search, self.own = _search_and_rest(self._privacy, estimator.find)
        self._account = Account.of(estimator.ledger, estimator.dataset, None)
        self._charge: int | None = None
        self._cost: Cost | None = None
        self.releases: list[AnyRelease] = []
        if estimator.ledger is None:
            _shared_count(estimator).warn(self._privacy)

    def pay(self, parts: Sequence[Privacy], check: Callable[[Ball | Manifold], None]) -> None:
        """Charge what the parts of ``own``, and a search before them, cost together; nothing if there is one release only.

        ``check`` raises, from public numbers alone, if what is to be released cannot be in a place. So nothing fails that is paid
        for: the public place is checked now, and only balls that pass are searched for.
        """
        self._check = check
        if self._search is None:
            check(self._start)
        else:
            check_start(self._start, check)
        parts = [*([] if self._search is None else [self._search]), *parts]
        if len(parts) > 1:
            self._cost = cost_of_parts([cost_of(part) for part in parts], self._privacy)
            what = f"{type(self._estimator).__name__} on {self._estimator.manifold_}"
            self._account.check(self._cost, self._privacy, self.neighbours)
            self._charge = self._account.charge(self._cost, self._privacy, what, self.neighbours)
            self._count(self._cost)

    def _count(self, cost: Cost) -> None:
        if self._estimator.ledger is None:
            _shared_count(self._estimator).costs.append(cost)

    @property
    def options(self) -> dict[str, Any]:
        """How a release is to be charged."""
        return {} if self._cost is not None else {"ledger": self._account.ledger, "dataset": self._account.dataset}

    def place(self, x: Any, **whose: Any) -> Ball | Manifold:
        """The ball, found now if it is to be; or a compact manifold, if neither a radius nor a search was asked for."""
        if self._search is None:
            return self._start
        paid = Account.of(None, None, None)  # with the rest
        found = find_ball(Dataset(x, **whose), self._start, self._search, self.own, paid, check=self._check)
        self.releases.append(found)
        return found.ball

    def end(self) -> None:
        """Keep the releases with their charge, and what they cost together. Several are one receipt in the ledger."""
        estimator, cost = self._estimator, self._cost
        if cost is None:
            cost = self.releases[0].cost
            self._count(cost)
        else:
            self.releases = [_charged(release, self._account.dataset, self._charge) for release in self.releases]
            self._account.attach(self._charge, self._receipt)
        estimator.releases_, estimator.cost_ = tuple(self.releases), cost

    def _receipt(self) -> str:
        assert self._cost is not None
        return json.dumps(
            {
                "geodp": __version__,
                "estimator": type(self._estimator).__name__,
                **self._privacy.parameters(),
                "notion": self._privacy.words,
                "cost": self._cost.to_dict(),
                "neighbours": self.neighbours,
                "dataset": self._account.dataset,
                "charge": self._charge,
                "releases": [json.loads(release.to_json()) for release in self.releases],
            },
            indent=2,
        )


def needed_ball(place: Ball | Manifold) -> Ball:
    """The ball, for what cannot do without one."""
    if not isinstance(place, Ball):
        raise ValueError(f"give the radius of a public ball on {place}, or find=0.2 to find one with a fifth of the privacy")
    return place


def _charged(release: AnyRelease, dataset: str | None, charge: int | None) -> AnyRelease:
    if isinstance(release, GroupedRelease):
        groups = {name: replace(each, dataset=dataset, charge=charge) for name, each in release.items()}
        return replace(release, releases=groups, dataset=dataset, charge=charge)
    return replace(release, dataset=dataset, charge=charge)


def _search_and_rest(privacy: Privacy, find: Any) -> tuple[Privacy | None, Privacy]:
    part = real_number(find, "find, the part of the privacy for the ball,")
    if not 0.0 <= part <= 0.9:
        raise ValueError(f"find, the part of the privacy for the ball, must be from 0 to 0.9 but is {part:g}: 0.2 is usual")
    if part == 0.0:
        return None, privacy
    safe = 1.0 - 1e-12  # sums of floats round up
    return share_of(privacy, part * safe), share_of(privacy, (1.0 - part) * safe)


def _start_of(estimator: PrivateEstimator) -> Ball | Manifold:
    """The public ball, or all of a space with a cut locus, which needs none for a search or a projected mean."""
    manifold, radius = estimator.manifold_, estimator.radius
    if math.isfinite(manifold.injectivity_radius) and (estimator.find or radius is None):
        return manifold
    if radius is None:
        raise ValueError(
            f"give the radius of a public ball on {manifold}; with find=0.2 it may be as wide as 30, and a fifth of the privacy "
            "finds a smaller one"
        )
    return Ball(manifold, manifold.origin if estimator.center is None else estimator.center, radius)


# ---------------------------------------------------------------------- records


def read_records(estimator: PrivateEstimator, X: ArrayLike, *, fitting: bool) -> Array:
    """The records as an array of the shape of points; what values they hold is not looked at."""
    refuse_unreadable(X, "X")
    with hiding_error_text():
        frame = as_frame(X)
        X = np.asarray(as_numpy(X)) if frame is None else X
        shape = np.shape(X) if frame is None else (-1, len(frame.collect_schema().names()))
    if len(shape) < 2:
        raise ValueError(f"X has shape {shape}; Reshape your data: one record a row")
    features = int(np.prod(shape[1:]))
    if fitting:
        estimator.n_features_in_ = features
        given = _usual_manifold(shape) if estimator.manifold is None else estimator.manifold
        estimator.manifold_ = parse_manifold(given) if isinstance(given, str) else given
    manifold, layout = estimator.manifold_, estimator.layout
    expected = estimator.n_features_in_ if layout is not None or frame is not None else int(np.prod(manifold.point_shape))
    if features != expected:
        raise ValueError(
            f"X has {features} features, but {type(estimator).__name__} is expecting {expected} features as input: points of "
            f"{manifold} have shape {manifold.point_shape}"
        )
    if layout is not None or frame is not None:
        return load(X, manifold, layout=layout).x
    array = np.asarray(X)
    return manifold.read(array.reshape(len(array), *manifold.point_shape), "X")


def read_unit(unit: Any, records: Any, X: Any) -> NDArray[Any] | None:
    """The persons of the records, as many as these: said before anything is paid."""
    if unit is None:
        return None
    ids = read_labels(unit, "unit", X)
    check_length(ids, "unit", len(records))
    return ids


def read_points(estimator: PrivateEstimator, X: ArrayLike, otherwise: Array) -> Array:
    """Records as points; what is none becomes another point. They are not moved into any ball."""
    records, manifold = read_records(estimator, X, fitting=False), estimator.manifold_
    valid = manifold.valid(records).reshape(-1, *[1] * len(manifold.point_shape))
    with np.errstate(all="ignore"):
        return manifold.raw_project(np.where(valid, records, otherwise))


def distances(estimator: PrivateEstimator, X: ArrayLike, points: Array, otherwise: Array) -> Array:
    """The distances of records to some points, a row a record."""
    records = read_points(estimator, X, otherwise)
    with np.errstate(all="ignore"):
        return np.stack([estimator.manifold_.raw_dist(point, records) for point in points], axis=1)


def _usual_manifold(shape: tuple[int, ...]) -> Manifold:
    """Square arrays are covariance matrices, and rows are vectors: the shape of the data is public."""
    if len(shape) == 3 and shape[1] == shape[2]:
        return SPD(shape[1])
    return Euclidean(int(np.prod(shape[1:])))
