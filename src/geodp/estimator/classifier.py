"""Classification by the nearest of private class means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from geodp.estimator.common import Fit, PrivateEstimator, distances, read_records, read_unit, refuse_unless_asked
from geodp.inputs import Array, said
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.choice import MechanismName
from geodp.noise.flat import Family
from geodp.privacy.neighbours import add_or_remove_one, change_one
from geodp.privacy.notions import Privacy
from geodp.privacy.splitting import split
from geodp.records.dataset import Change, Dataset, Labels, Members, UnitIn
from geodp.records.labels import check_length, key_of, read_labels
from geodp.release import Order, private_mean, private_projected_mean
from geodp.statistics.mean import FrechetMean
from geodp.statistics.projected import ProjectedMean


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
    manifold, center, radius, find, epsilon, delta, rho, mu, mechanism, law, ledger, dataset, layout
        As for :class:`geodp.estimator.PrivateFrechetMean`. ``radius=None`` on a compact space takes projected means, which need
        no ball (:func:`geodp.private_projected_mean`).
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
    transform_private_records : bool
        Whether :meth:`fit_transform` may hand out distances of the very records that the fit protects.

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

    def __init__(
        self,
        manifold: Manifold | str | None = None,
        *,
        center: ArrayLike | None = None,
        radius: float | None = 1.0,
        find: float = 0.0,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        labels: Labels = "public",
        classes: ArrayLike | None = None,
        unit_in: UnitIn = "one group",
        neighbours: Change = "replace",
        mechanism: MechanismName = "auto",
        law: Family | None = None,
        ledger: Any = None,
        dataset: str | None = None,
        layout: str | None = None,
        transform_private_records: bool = False,
    ) -> None:
        self.manifold = manifold
        self.center = center
        self.radius = radius
        self.find = find
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mu = mu
        self.labels = labels
        self.classes = classes
        self.unit_in = unit_in
        self.neighbours = neighbours
        self.mechanism = mechanism
        self.law = law
        self.ledger = ledger
        self.dataset = dataset
        self.layout = layout
        self.transform_private_records = transform_private_records

    def fit(self, X: ArrayLike, y: ArrayLike, unit: Any = None) -> Self:
        """Spend the privacy and release the class means.

        ``unit`` says for each record whose it is: then a person has one vote in a class, however many records it has there.
        """
        records = read_records(self, X, fitting=True)
        if self.labels == "public" and self.neighbours == "add-remove":
            raise ValueError("public labels show which classes there are, which add-remove keeps private: make labels private")
        labels, names = self._labels(y, len(records))
        ids = read_unit(unit, records, X)
        fit = Fit(self, "record" if ids is None else "person")
        together = self._one_class_each() or ids is None
        if self.neighbours == "add-remove":
            fit.neighbours = add_or_remove_one(fit.unit) if together else change_one(fit.unit)
        if together:
            groups: Any = {"by": labels, "groups": names.tolist(), "labels": self.labels, "neighbours": self.neighbours}
            asked = [(Dataset(records, unit=ids, **groups), fit.own)]
        else:
            each = split(fit.own, [1.0 / len(names)] * len(names))
            asked = list(zip(self._classes(records, labels, ids, names), each, strict=True))
        # a sentence about public labels comes before anything is paid
        sizes = [_sizes(data.open(self.manifold_)) for data, _ in asked]

        def check(place: Ball | Manifold) -> None:
            for (data, part), counts in zip(asked, sizes, strict=True):
                order = self._order(place, part, ids is not None).about(data).of_group(data, len(names))
                for n in counts:
                    order.check(n)

        fit.pay([part for _, part in asked], check)
        place = fit.place(records, unit=ids, neighbours=self.neighbours)
        means = [self._means(data, place, part, **fit.options) for data, part in asked]
        fit.releases += means
        fit.end()
        self.classes_, self.ball_ = names, place if isinstance(place, Ball) else None
        values = [means[0][name] for name in names.tolist()] if together else means
        self.means_: Array = np.stack([release.value for release in values])
        return self

    def _order(self, place: Ball | Manifold, part: Privacy, persons: bool) -> Order:
        if isinstance(place, Ball):
            return Order(FrechetMean(place, persons=persons), part, self.mechanism, self.law)
        if self.mechanism != "auto" or self.law is not None:
            raise ValueError("projected means, without a ball, have a noise of their own: leave out mechanism and law")
        return Order(ProjectedMean(place), part)

    def _means(self, data: Dataset, place: Ball | Manifold, part: Privacy, **more: Any) -> Any:
        if isinstance(place, Ball):
            return private_mean(data, place, **part.parameters(), mechanism=self.mechanism, law=self.law, **more)
        return private_projected_mean(data, place, **part.parameters(), **more)

    def _classes(self, x: Array, labels: NDArray[Any], ids: Any, names: NDArray[Any]) -> Iterator[Dataset]:
        """The records of each class, about persons who may be in others too."""
        keys = np.array([key_of(label) for label in labels.tolist()])
        # who is in a class is private with its labels: then the number of persons is, too
        hidden: Change = "add-remove" if self.labels == "private" else self.neighbours
        for name in names.tolist():
            inside = np.flatnonzero(keys == key_of(name))
            if self.labels == "public" and len(inside) == 0:
                raise ValueError(f"no record is of class {name!r}: leave it out, or make labels private")
            yield Dataset(x[inside], unit=ids[inside], neighbours=hidden)

    def _labels(self, y: Any, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The label of each record, and the classes. Of private labels nothing is looked at but how many there are."""
        if y is None:
            raise ValueError("PrivateMDM requires y to be passed, but the target y is None")
        if self.labels not in get_args(Labels):
            raise ValueError(f"labels must be 'public' or 'private' but is {said(self.labels)}")
        names = None if self.classes is None else np.unique(np.asarray(self.classes))
        if self.labels == "private":
            if names is None:
                raise ValueError(
                    "private labels need classes, the public list of names: which there are must not depend on the records"
                )
            labels = read_labels(y, "y", y)  # in the order of X, as everywhere in scikit-learn
        else:
            labels = column_or_1d(y, warn=True)
            assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
            names = np.unique(labels) if names is None else names
        check_length(labels, "y", n)
        return labels, names

    def _one_class_each(self) -> bool:
        if self.unit_in not in get_args(UnitIn):
            raise ValueError(f"unit_in must be 'one group' or 'all groups' but is {said(self.unit_in)}")
        return self.unit_in == "one group"

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


def _sizes(members: Members) -> list[int]:
    """The number of members or, with groups, of those of each; an empty group has a release that says nothing."""
    return [members.count] if members.dataset.by is None else [max(1, len(keep)) for keep in members.groups().values()]
