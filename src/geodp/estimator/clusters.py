"""Private k-means."""

from __future__ import annotations

from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from geodp.estimator.common import (
    Parameters,
    PrivateEstimator,
    distances,
    in_ball,
    read_data,
    refuse_unless_asked,
    release_fit,
    requested,
    takes_parameters,
)
from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.programs.kmeans import KMeans
from geodp.records.dataset import Dataset
from geodp.request import Request


class PrivateKMeans(ClusterMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Clusters of records on any manifold, by k-means in a few private rounds.

    *Public*: all parameters, the manifold, the ball, and the number and the shape of the records. *Private*: the records.
    *Neighbours*: data sets of the same size that differ by replacing one record; with ``unit`` all records of one person.
    *Theorem*: each :meth:`fit` is :func:`geodp.programs.kmeans.private_kmeans`, after a release by :func:`geodp.private_ball` if
    ``find`` says so; then their costs add up. See :mod:`geodp.programs.kmeans`.

    There is no ``labels_`` and no ``inertia_``: labels of the records that the fit protects are private data, and a sum of their
    squared distances would need noise of its own. :meth:`predict` gives labels to those who may see the records. *Fits add up*:
    see :mod:`geodp.estimator`.

    Parameters
    ----------
    n_clusters : int
        How many clusters there are.
    manifold : Manifold or str
        As for :class:`geodp.estimator.PrivateFrechetMean`.
    rounds : int
        How often centres move. Each round has an equal part of the privacy, and their number is fixed.
    reach : float
        How far from its centre a record may pull; by default half of the radius. The noise is in proportion to it. With
        ``find`` the ball that is found has a radius of at least half of it.
    seed : int
        Of the public directions in which the centres start. Another one costs another fit.
    parameters
        Those of every estimator: :class:`geodp.estimator.Parameters`.

    Attributes
    ----------
    cluster_centers_ : the private centres, ``(n_clusters, *point_shape)``.
    counts_ : noisy numbers of the records of each cluster in the last round.
    releases_ : the receipts of the fit; they may be published.
    cost_ : what they cost together.
    ball_ : the public ball, given or found.
    n_features_in_ : the number of entries of a record.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.exp(0.2 * rng.normal(size=(2000, 1, 1)) + 2.0 * rng.integers(2, size=(2000, 1, 1))) * np.eye(2)
    >>> model = PrivateKMeans(2, radius=4.0, epsilon=2.0).fit(X)
    >>> model.cluster_centers_.shape, hasattr(model, "labels_"), model.cost_.epsilon <= 2.0
    ((2, 2, 2), False, True)
    """

    @takes_parameters
    def __init__(
        self,
        n_clusters: int = 2,
        manifold: Manifold | str | None = None,
        *,
        rounds: int = 3,
        reach: float | None = None,
        seed: int = 0,
        **parameters: Unpack[Parameters],
    ) -> None:
        super().__init__(manifold, **parameters)
        self.n_clusters = n_clusters
        self.rounds = rounds
        self.reach = reach
        self.seed = seed

    def fit(self, X: ArrayLike, y: object = None, unit: Any = None) -> Self:
        """Spend the privacy and release the centres.

        ``unit`` says for each record whose it is: then a person counts once, shared out over the clusters of its records.
        """
        found = release_fit(self, X, y, unit)
        self.cluster_centers_, self.counts_ = found.centers, found.counts
        return self

    def asked(self, X: Any, y: Any, unit: Any) -> tuple[Request, Dataset]:
        data = read_data(self, X, unit)
        clusters = in_ball(self, lambda ball: KMeans(ball, self.n_clusters, self.rounds, self.reach, self.seed))
        return requested(self, clusters, data), data

    def transform(self, X: ArrayLike) -> Array:
        """The distance of each record to each centre, ``(n, n_clusters)``. Those of private records are private data."""
        check_is_fitted(self, "cluster_centers_")
        return distances(self, X, self.cluster_centers_, self.ball_.center)

    def fit_transform(self, X: ArrayLike, y: object = None, **fit_params: Any) -> Array:
        """:meth:`fit`, then :meth:`transform` the same records: **the result is private data**, and refused unless asked for."""
        refuse_unless_asked(self, "fit_transform", "distances of the private records")
        return super().fit_transform(X, y, **fit_params)

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """The number of the nearest centre. Labels of private records are private data."""
        return self.transform(X).argmin(axis=1)

    def fit_predict(self, X: ArrayLike, y: object = None, **fit_params: Any) -> NDArray[np.int64]:
        """:meth:`fit`, then :meth:`predict` the same records: **the result is private data**, and refused unless asked for."""
        refuse_unless_asked(self, "fit_predict", "labels of the private records")
        return self.fit(X, **fit_params).predict(X)
