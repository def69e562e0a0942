"""A private mean as a scikit-learn estimator. Needs the extra ``geodp[sklearn]``."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from geodp.files import parse_manifold
from geodp.inputs import Array, refuse_mask
from geodp.laws.flat import Family
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.mechanisms.choice import MechanismName
from geodp.records.chunks import only_the_kind
from geodp.release import Release, private_mean


# scikit-learn has no type hints, so its classes are Any to the checker
class PrivateFrechetMean(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Release the Fréchet mean of the rows of ``X``, and map records to normal coordinates about it.

    *Public*: all parameters, the manifold, the ball, and the number of rows and columns of ``X``. *Private*: the values in ``X``.
    *Neighbours*: data sets of the same size that differ by replacing one row. Each :meth:`fit` is one release by
    :func:`geodp.private_mean`. *Theorem*: as there, see :mod:`geodp.mechanisms.intrinsic` and :mod:`geodp.mechanisms.tangent`.
    Fits add up: two of them, such as those of a cross-validation, spend twice the privacy.

    Parameters
    ----------
    manifold : Manifold or str
        Where the records live; by default Euclidean space of as many dimensions as ``X`` has columns.
    center, radius
        The public ball; the centre is the origin of the manifold unless given.
    epsilon, delta, rho, mu : float
        The privacy that each :meth:`fit` spends, in exactly one of four ways: see :func:`geodp.private_mean`. ``epsilon = 1`` if
        nothing is said.
    mechanism, law
        As for :func:`geodp.private_mean`.
    ledger, dataset
        A budget to charge, as for :func:`geodp.private_mean`.

    Attributes
    ----------
    location_ : the private mean, an array of the manifold's ``point_shape``; it may be published.
    receipt_ : the :class:`geodp.Release`; it may be published.
    ball_ : the public ball.
    n_features_in_ : the number of entries of a record.

    ``X`` may hold records as arrays ``(n, *point_shape)`` or flattened to ``(n, entries)``, as scikit-learn likes it.
    :meth:`transform` reads private records and its output is private data, not a release.

    >>> import numpy as np
    >>> model = PrivateFrechetMean("Sphere(2)", radius=0.5, epsilon=2.0).fit(np.tile([0.0, 0.0, 1.0], (300, 1)))
    >>> model.location_.shape, model.receipt_.epsilon
    ((3,), 2.0)
    """

    def __init__(
        self,
        manifold: Manifold | str | None = None,
        *,
        center: ArrayLike | None = None,
        radius: float = 1.0,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        mechanism: MechanismName = "auto",
        law: Family | None = None,
        ledger: Any = None,
        dataset: str | None = None,
    ) -> None:
        self.manifold = manifold
        self.center = center
        self.radius = radius
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mu = mu
        self.mechanism = mechanism
        self.law = law
        self.ledger = ledger
        self.dataset = dataset

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Spend ``epsilon`` and release the mean of the records."""
        records = self._records(X)
        center = self.manifold_.origin if self.center is None else self.center
        self.ball_ = Ball(self.manifold_, center, self.radius)
        self.receipt_: Release = private_mean(
            records,
            self.ball_,
            1.0 if self.epsilon is None and self.rho is None and self.mu is None else self.epsilon,
            self.delta,
            self.rho,
            self.mu,
            mechanism=self.mechanism,
            law=self.law,
            ledger=self.ledger,
            dataset=self.dataset,
        )
        self.location_: Array = self.receipt_.value
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Normal coordinates of the records about the private mean, ``(n, dim)``; records are clipped into the ball first."""
        check_is_fitted(self, "location_")
        records = self.ball_.clip(self._records(X, fitting=False))
        return self.manifold_.coordinates(self.location_, self.manifold_.log(self.location_, records))

    def _records(self, X: ArrayLike, *, fitting: bool = True) -> Array:
        refuse_mask(X, "X")
        with only_the_kind():
            array = np.asarray(X)
        if array.ndim < 2:
            raise ValueError(f"X has shape {array.shape}; Reshape your data: one record a row")
        if fitting:
            self.n_features_in_ = int(np.prod(array.shape[1:]))
            given = Euclidean(self.n_features_in_) if self.manifold is None else self.manifold
            self.manifold_: Manifold = parse_manifold(given) if isinstance(given, str) else given
        shape = self.manifold_.point_shape
        if int(np.prod(array.shape[1:])) != int(np.prod(shape)):
            raise ValueError(
                f"X has {int(np.prod(array.shape[1:]))} features, but PrivateFrechetMean is expecting "
                f"{int(np.prod(shape))} features as input: points of {self.manifold_} have shape {shape}"
            )
        return self.manifold_.read(array.reshape(len(array), *shape), "X")
