"""What the estimators have in common: their parameters, reading records, and the one request of a fit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from geodp.estimator.fits import Fits
from geodp.files import parse_manifold
from geodp.files.frames import as_frame
from geodp.inputs import Array, as_numpy, callers_level, real_number, refuse_unreadable
from geodp.manifolds import SPD, Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.privacy.cost import Cost
from geodp.privacy.notions import privacy_of
from geodp.programs.found import InFoundBall, start_of
from geodp.receipt import ChainRelease
from geodp.records.chunks import hiding_error_text
from geodp.records.dataset import Dataset
from geodp.records.labels import check_length, read_labels
from geodp.records.sources import load
from geodp.release import Account, protection, run, takes
from geodp.request import Request, Statistic


class Parameters(TypedDict, total=False):
    """The parameters of every estimator, beside its own.

    center, radius
        The public ball; the centre is the origin of the manifold unless given.
    find : float
        The part of the privacy, such as 0.2, that goes to a search for a smaller ball in that wide one. On compact spaces such
        as spheres the search needs no ball, and ``center`` and ``radius`` do not matter.
    epsilon, delta, rho, mu : float
        The privacy that each ``fit`` spends, in exactly one of four ways: see :func:`geodp.private_mean`.
    ledger, dataset
        A budget to charge, as for :func:`geodp.private_mean`.
    anyway : bool
        Whether to release what is likely to say nothing, which is otherwise refused before anything is charged.
    layout : str
        What the columns of ``X`` hold, such as ``"upper"`` for upper triangles, as for :func:`geodp.files.read_records`. In data
        frames it goes by their names, if nothing is said.
    random_state : int or generator
        A seed for the noise, for studies: **the fit is then not private**, and says so.
    transform_private_records : bool
        Whether ``fit_transform`` (and ``fit_predict``) may hand out rows about the very records that the fit protects, such as to
        the next step of a pipeline that stays with the data.
    """

    center: ArrayLike | None
    radius: float | None
    find: float
    epsilon: float | None
    delta: float | None
    rho: float | None
    mu: float | None
    ledger: Any
    dataset: str | None
    anyway: bool
    layout: str | None
    random_state: Any
    transform_private_records: bool


#: Those that are not None by default.
_DEFAULTS: dict[str, Any] = {"radius": 1.0, "find": 0.0, "anyway": False, "transform_private_records": False}

#: Gives a constructor with ``**parameters`` a signature with all of them, which scikit-learn reads and clones by.
takes_parameters = takes(Parameters, **_DEFAULTS)


# scikit-learn has no type hints, so its classes are Any to the checker
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of all estimators: a fit is one release of one request (:func:`geodp.release.run`), charged once."""

    n_features_in_: int
    manifold_: Manifold
    releases_: tuple[Any, ...]
    cost_: Cost
    #: None with projected means.
    ball_: Any

    def __init__(self, manifold: Manifold | str | None, **parameters: Unpack[Parameters]) -> None:
        self.manifold = manifold
        for name in Parameters.__annotations__:
            setattr(self, name, parameters.get(name, _DEFAULTS.get(name)))

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        copy._fits = self.fits
        return copy

    @property
    def fits(self) -> Fits:
        """What this estimator and its clones have spent without a ledger; they share it."""
        # not made by __init__, in which scikit-learn allows parameters only
        found: Fits = self.__dict__.setdefault("_fits", Fits())
        return found

    def asked(self, X: Any, y: Any, unit: Any) -> tuple[Request, Dataset]:
        """What a fit requests, and the data it is about."""
        raise NotImplementedError


# ---------------------------------------------------------------------- one fit


def place_of(estimator: PrivateEstimator) -> Ball | Manifold:
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


def requested(estimator: PrivateEstimator, statistic: Statistic, data: Dataset, **noise: Any) -> Request:
    """The request of an estimator for a statistic of its data."""
    privacy = privacy_of(estimator.epsilon, estimator.delta, estimator.rho, estimator.mu)
    return Request(statistic, privacy, **noise, **protection(data))


def in_ball(estimator: PrivateEstimator, statistic: Callable[[Ball], Statistic]) -> Statistic:
    """A statistic in the public ball, or in one that is found first."""
    place, find = place_of(estimator), real_number(estimator.find, "find, the part of the privacy for the ball,")
    return statistic(needed_ball(place)) if find == 0.0 else InFoundBall(place, statistic(start_of(place)), find)


def release_fit(estimator: PrivateEstimator, X: Any, y: Any, unit: Any) -> Any:
    """The release of a fit; of several the last."""
    request, data = estimator.asked(X, y, unit)
    simulate = _generator(estimator.random_state)
    account = Account.of(estimator.ledger, estimator.dataset, simulate)
    if estimator.ledger is None and simulate is None:
        account = account._replace(fits=estimator.fits)
    made = run(request, data, account, simulate, anyway=estimator.anyway)
    estimator.releases_ = made.steps if isinstance(made, ChainRelease) else (made,)
    last = estimator.releases_[-1]
    place = last.request.statistic.place
    estimator.cost_, estimator.ball_ = made.cost, place if isinstance(place, Ball) else None
    return last


def _generator(state: Any) -> np.random.Generator | None:
    if state is None:
        return None
    warnings.warn("random_state seeds the noise, so this fit is NOT PRIVATE: for studies alone", stacklevel=callers_level())
    return state if isinstance(state, np.random.Generator) else np.random.default_rng(check_random_state(state).randint(2**31))


def refuse_unless_asked(estimator: PrivateEstimator, method: Literal["fit_transform", "fit_predict"], what: str) -> None:
    """Raises unless rows about the very records that a fit protects may be handed out."""
    if estimator.transform_private_records is not True:
        raise ValueError(
            f"{method} returns {what}, which no noise hides: call fit and publish what it learned, or set "
            "transform_private_records=True if all that follows stays with the data"
        )


def needed_ball(place: Ball | Manifold) -> Ball:
    """The ball, for what cannot do without one."""
    if not isinstance(place, Ball):
        raise ValueError(f"give the radius of a public ball on {place}, or find=0.2 to find one with a fifth of the privacy")
    return place


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


def read_data(estimator: PrivateEstimator, X: ArrayLike, unit: Any) -> Dataset:
    """The records of a fit, and whose they are."""
    records = read_records(estimator, X, fitting=True)
    return Dataset(records, unit=read_unit(unit, X, records))


def read_unit(unit: Any, X: Any, records: Any) -> NDArray[Any] | None:
    """The persons of the records, as many as these: checked before anything is paid."""
    return None if unit is None else read_column(unit, "unit", X, records)


def read_column(labels: Any, name: str, X: Any, records: Any) -> NDArray[Any]:
    """A label for each record: by the index if ``X`` is a frame with one, otherwise by position, as scikit-learn has it."""
    array = read_labels(labels, name, X if hasattr(X, "iloc") else labels)
    check_length(array, name, len(records))
    return array


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
