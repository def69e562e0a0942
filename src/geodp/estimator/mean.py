"""A private mean, and coordinates about it."""

from __future__ import annotations

from typing import Any, Self, Unpack

from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from geodp.estimator.common import (
    Parameters,
    PrivateEstimator,
    in_ball,
    read_data,
    read_points,
    read_records,
    refuse_unless_asked,
    release_fit,
    requested,
    takes_parameters,
)
from geodp.inputs import Array
from geodp.manifolds import Manifold
from geodp.noise.choice import MechanismName
from geodp.noise.flat import Family
from geodp.receipt import Release
from geodp.records.dataset import Dataset
from geodp.request import Request
from geodp.statistics.mean import Mean


class PrivateFrechetMean(TransformerMixin, PrivateEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Release the Fréchet mean of the rows of ``X``, and map records to normal coordinates about it.

    *Public*: all parameters, the manifold, the ball, and the number of rows and columns of ``X``. *Private*: the values in ``X``.
    *Neighbours*: data sets of the same size that differ by replacing one row; with ``unit`` all rows of one person. Each
    :meth:`fit` is one release by :func:`geodp.private_mean`, after one by :func:`geodp.private_ball` if ``find`` says so; then
    their costs add up. *Theorem*: see there.

    *Fits add up*, and what :meth:`transform` returns **is private data**: every row is one record in other coordinates, and no
    noise hides it. So is whatever a later step of a pipeline learns from it. :meth:`fit_transform`, which pipelines call,
    therefore refuses unless ``transform_private_records`` is true. See :mod:`geodp.estimator`.

    Parameters
    ----------
    manifold : Manifold or str
        Where the records live. By default matrices of shape ``(n, k, k)`` are points of ``SPD(k)``, and rows are vectors of a
        Euclidean space.
    mechanism, law
        As for :func:`geodp.private_mean`.
    parameters
        Those of every estimator: :class:`geodp.estimator.Parameters`.

    Attributes
    ----------
    location_ : the private mean, an array of the manifold's ``point_shape``; it may be published.
    receipt_ : the :class:`geodp.Release` of the mean; it may be published.
    releases_ : all releases of the fit, that of the ball included.
    cost_ : what they cost together.
    ball_ : the public ball, given or found.
    n_features_in_ : the number of entries of a record.

    ``X`` may be an array ``(n, *point_shape)``, flattened to ``(n, entries)`` if you like, or a data frame.

    >>> import numpy as np
    >>> model = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=2.0).fit(np.tile([0.0, 0.0, 1.0], (300, 1)))
    >>> model.location_.shape, model.receipt_.epsilon
    ((3,), 2.0)
    """

    @takes_parameters
    def __init__(
        self,
        manifold: Manifold | str | None = None,
        *,
        mechanism: MechanismName = "auto",
        law: Family | None = None,
        **parameters: Unpack[Parameters],
    ) -> None:
        super().__init__(manifold, **parameters)
        self.mechanism = mechanism
        self.law = law

    def fit(self, X: ArrayLike, y: object = None, unit: Any = None) -> Self:
        """Spend the privacy and release the mean of the records; the mean may be published.

        ``unit`` says for each record whose it is: then a person has one vote, however many records it has.
        """
        self.receipt_: Release = release_fit(self, X, y, unit)
        self.location_: Array = self.receipt_.value
        return self

    def asked(self, X: Any, y: Any, unit: Any) -> tuple[Request, Dataset]:
        data = read_data(self, X, unit)
        return requested(self, in_ball(self, Mean), data, mechanism=self.mechanism, law=self.law), data

    def fit_transform(self, X: ArrayLike, y: object = None, **fit_params: Any) -> Array:
        """:meth:`fit`, then :meth:`transform` the same records: **the result is private data**, and refused unless asked for."""
        refuse_unless_asked(self, "fit_transform", "the private records in other coordinates")
        return super().fit_transform(X, y, **fit_params)

    def transform(self, X: ArrayLike) -> Array:
        """Normal coordinates of the records about the private mean, ``(n, dim)``: **private data, not a release**.

        Every row of the result is one row of ``X``, clipped into the ball, in other coordinates. No noise is added to it.
        """
        check_is_fitted(self, "location_")
        return self._coordinates(self.ball_.clip(read_records(self, X, fitting=False)))

    def _coordinates(self, points: Array) -> Array:
        return self.manifold_.coordinates(self.location_, self.manifold_.log(self.location_, points))


class PrivateTangentSpace(PrivateFrechetMean):
    """Coordinates of records about a private reference point: for pyRiemann's ``TangentSpace`` in a pipeline.

    *Public*, *private*, *neighbours*, *theorem* and parameters are those of :class:`PrivateFrechetMean`: the reference point is
    its private mean. What the fit learned may be published; **what** :meth:`transform` **returns is private data**, as there.

    Differences to pyRiemann's: it is for any manifold; ``transform_private_records=True`` says that you know what goes on in the
    pipeline; on matrices the coordinates are in another orthonormal basis, so that lengths and inner products of rows are the
    same. Records are moved into the ball only where a space has a cut locus. What is no point becomes the zero vector.

    Attributes
    ----------
    reference_ : the private reference point; it may be published.
    receipt_ : the :class:`geodp.Release` of that point; the other attributes are those of :class:`PrivateFrechetMean`.

    >>> import numpy as np
    >>> x = np.tile(np.eye(2), (500, 1, 1))
    >>> space = PrivateTangentSpace(radius=2.0, epsilon=1.0, transform_private_records=True)
    >>> vectors = space.fit_transform(x)
    >>> vectors.shape, bool(np.allclose(space.inverse_transform(vectors), x))
    ((500, 3), True)
    """

    @property
    def reference_(self) -> Array:
        check_is_fitted(self, "location_")
        return self.location_

    def transform(self, X: ArrayLike) -> Array:
        """Normal coordinates of the records about the reference point, ``(n, dim)``: **private data, not a release**."""
        check_is_fitted(self, "location_")
        if self.manifold_.injectivity_radius < float("inf"):
            return super().transform(X)
        return self._coordinates(read_points(self, X, self.location_))

    def inverse_transform(self, X: ArrayLike) -> Array:
        """The points with these coordinates, ``(n, *point_shape)``. Those of private records are private data."""
        check_is_fitted(self, "location_")
        return self.manifold_.exp(self.location_, self.manifold_.tangent(self.location_, X))
