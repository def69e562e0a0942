"""Classification by the nearest of private class means."""

from __future__ import annotations

from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from geodp.estimator.common import (
    Parameters,
    PrivateEstimator,
    distances,
    in_ball,
    place_of,
    read_column,
    read_records,
    read_unit,
    refuse_unless_asked,
    release_fit,
    requested,
    takes_parameters,
)
from geodp.inputs import Array, describe
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.choice import MechanismName
from geodp.noise.flat import Family
from geodp.privacy.neighbours import Change, Labels, UnitIn
from geodp.records.dataset import Dataset
from geodp.request import Request
from geodp.statistics.average import Average
from geodp.statistics.mean import Mean


class PrivateMDM(ClassifierMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]  # scikit-learn has no types
    r"""Minimum distance to mean, with private class means: for pyRiemann's ``MDM`` in a pipeline after ``Covariances``.

    *Public*: all parameters, the manifold, the ball, the number and the shape of the records, the list of classes, and with
    ``labels="public"`` all of ``y``. *Private*: the records; with ``labels="private"`` also their classes, and so the number of
    records in each. *Neighbours*: data sets of the same size that differ by replacing one pair of a record and its class; if
    labels are public, it keeps its class. With ``unit`` all pairs of one person are replaced; if labels are public, by pairs of
    the same classes, because receipts then tell how many persons each class has.

    *Theorem*. Class means are those of :func:`geodp.private_mean` with ``by=y``; the proofs are in :mod:`geodp.release`. If
    labels are public, a replaced pair changes one class, and all means cost what one costs. If they are private it may change
    two, so each class has half of the privacy, and a noisy count is part of it. If a ball is searched for, that is a release of
    its own, and the costs add up. With ``unit_in="all groups"`` a person may be in every class, so each class is a release of
    its own about the persons in it, with an equal part of the privacy, and these costs add up too. If labels are private, a
    replaced person may leave, enter or change in each class, so each release protects all three
    (``neighbours="add-remove"``).

    *Predictions* are a function of the private means and of the record alone: how frequent a class is does not count.

    **What** ``predict``, ``transform`` **and** ``score`` **make of private records is private data**, and *fits add up*: see
    :mod:`geodp.estimator`.

    Parameters
    ----------
    manifold, mechanism, law
        As for :class:`geodp.estimator.PrivateFrechetMean`.
    labels : "public" or "private"
        Whether anyone may know the classes of the records.
    classes : list
        The names of the classes. Private labels need them: which classes there are must not depend on the records. A record of
        another class then counts nowhere. Public labels may leave them to ``y``.
    unit_in : "one group" or "all groups"
        If :meth:`fit` is given a ``unit``: whether all records of a person are of one class, such as a diagnosis, or may be of
        all, such as tasks that everybody does. If labels are private, a person of ``"one group"`` is in that of its first record.
    neighbours : "replace" or "add-remove"
        As for :class:`geodp.Dataset`. With private labels, ``"add-remove"`` protects records (or persons) that come or go, and
        the means get all of the privacy instead of half.
    parameters
        Those of every estimator: :class:`geodp.estimator.Parameters`. ``radius=None`` on a compact space takes projected means,
        which need no ball (``geodp.private_projected_mean``).

    Attributes
    ----------
    classes_ : the classes, sorted.
    means_ : the private means, ``(n_classes, *point_shape)``; also ``covmeans_``, as pyRiemann calls them.
    releases_ : the receipts of the fit; they may be published.
    cost_ : what they cost together.
    ball_ : the public ball, given or found; None with projected means.
    n_features_in_ : the number of entries of a record.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=1000)
    >>> X = np.exp(0.2 * rng.normal(size=(1000, 1, 1)) + y[:, None, None]) * np.eye(2)
    >>> model = PrivateMDM(radius=3.0, epsilon=1.0).fit(X, y)
    >>> model.means_.shape, bool(model.score(X, y) > 0.9), model.cost_.epsilon
    ((2, 2, 2), True, 1.0)
    """

    @takes_parameters
    def __init__(
        self,
        manifold: Manifold | str | None = None,
        *,
        labels: Labels = "public",
        classes: ArrayLike | None = None,
        unit_in: UnitIn = "one group",
        neighbours: Change = "replace",
        mechanism: MechanismName = "auto",
        law: Family | None = None,
        **parameters: Unpack[Parameters],
    ) -> None:
        super().__init__(manifold, **parameters)
        self.labels = labels
        self.classes = classes
        self.unit_in = unit_in
        self.neighbours = neighbours
        self.mechanism = mechanism
        self.law = law

    def fit(self, X: ArrayLike, y: ArrayLike, unit: Any = None) -> Self:
        """Spend the privacy and release the class means.

        ``unit`` says for each record whose it is: then a person has one vote in a class, however many records it has there.
        """
        means = release_fit(self, X, y, unit)
        self.classes_ = np.array(list(means))
        self.means_: Array = np.stack([release.value for release in means.values()])
        return self

    def asked(self, X: Any, y: Any, unit: Any) -> tuple[Request, Dataset]:
        records = read_records(self, X, fitting=True)
        labels, names = self._labels(y, X, records)
        ids = read_unit(unit, X, records)
        groups: Any = {"groups": names.tolist(), "labels": self.labels, "unit_in": "one group" if ids is None else self.unit_in}
        data = Dataset(records, unit=ids, by=labels, neighbours=self.neighbours, **groups)
        place = place_of(self)
        if isinstance(place, Ball) or self.find:
            return requested(self, in_ball(self, Mean), data, mechanism=self.mechanism, law=self.law), data
        if self.mechanism != "auto" or self.law is not None:
            raise ValueError("projected means, without a ball, have a noise of their own: leave out mechanism and law")
        return requested(self, Average(place), data), data

    def _labels(self, y: Any, X: Any, records: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The label of each record, and the classes. Of private labels nothing is looked at but how many there are."""
        if y is None:
            raise ValueError("PrivateMDM requires y to be passed, but the target y is None")
        names = None if self.classes is None else np.unique(np.asarray(self.classes))
        if self.labels == "private":
            if names is None:
                raise ValueError(
                    "private labels need classes, the public list of names: which there are must not depend on the records"
                )
        elif self.labels == "public":
            y = y if hasattr(y, "iloc") and hasattr(X, "iloc") else column_or_1d(y, warn=True)
            assert_all_finite(y, input_name="y")
            check_classification_targets(y)
            names = np.unique(y) if names is None else names
        else:
            raise ValueError(f"labels must be 'public' or 'private' but is {describe(self.labels)}")
        return read_column(y, "y", X, records), names

    @property
    def covmeans_(self) -> Array:
        check_is_fitted(self, "means_")
        return self.means_

    def transform(self, X: ArrayLike) -> Array:
        """The distance of each record to each class mean, ``(n, n_classes)``. Those of private records are private data."""
        check_is_fitted(self, "means_")
        return distances(self, X, self.means_, self.manifold_.origin if self.ball_ is None else self.ball_.center)

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> Array:
        """:meth:`fit`, then :meth:`transform` the same records: **the result is private data**, and refused unless asked for."""
        refuse_unless_asked(self, "fit_transform", "distances of the private records")
        return super().fit_transform(X, y, **fit_params)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class whose private mean is nearest. Predictions about private records are private data."""
        nearest = self.transform(X).argmin(axis=1)
        return self.classes_[nearest]

    def predict_proba(self, X: ArrayLike) -> Array:
        """The softmax of the negative squared distances, as pyRiemann has it; no class counts more for being frequent."""
        return np.asarray(softmax(-(self.transform(X) ** 2), axis=1))
