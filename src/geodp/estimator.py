"""A private mean as a scikit-learn estimator. Needs the extra ``geodp[sklearn]``."""

from __future__ import annotations

import math
import warnings
from typing import Any, Self, final

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
from geodp.privacy.cost import Cost, compose, cost_of
from geodp.privacy.notions import Privacy, privacy_of
from geodp.receipt import Release
from geodp.records.chunks import hiding_error_text
from geodp.records.frames import as_frame
from geodp.records.sources import load
from geodp.release import private_mean


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
            stacklevel=3,
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
class PrivateFrechetMean(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Release the Fréchet mean of the rows of ``X``, and map records to normal coordinates about it.

    *Public*: all parameters, the manifold, the ball, and the number of rows and columns of ``X``. *Private*: the values in ``X``.
    *Neighbours*: data sets of the same size that differ by replacing one row. Each :meth:`fit` is one release by
    :func:`geodp.private_mean`. *Theorem*: see there.

    *Fits add up.* A cross-validation with five folds and a grid of four parameters is 20 releases from nearly the same records,
    and one more for the best. With a ``ledger`` each of them is charged, clones included, and the fit that would pass the total
    is refused. Without one the second fit of an estimator, or of its clones in the same process, warns once what they add up to;
    fits in other processes (``n_jobs``) are not seen.

    *What is private and what is not.* ``location_``, ``receipt_`` and ``ball_`` may be published. **The output of**
    :meth:`transform` **is private data**: every row is one record in other coordinates, and no noise hides it. So is whatever a
    later step of a pipeline learns from it. :meth:`fit_transform`, which pipelines call, therefore refuses unless
    ``transform_private_records`` is true.

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
    layout : str
        What the columns of ``X`` hold, such as ``"upper"`` for upper triangles, as for :func:`geodp.files.read_records`. In data
        frames it goes by their names, if nothing is said.
    transform_private_records : bool
        Whether :meth:`fit_transform` may hand out the records in coordinates, such as to the next step of a pipeline that stays
        with the data.

    Attributes
    ----------
    location_ : the private mean, an array of the manifold's ``point_shape``; it may be published.
    receipt_ : the :class:`geodp.Release`; it may be published.
    ball_ : the public ball.
    n_features_in_ : the number of entries of a record.

    ``X`` may be an array ``(n, *point_shape)``, flattened to ``(n, entries)`` if you like, or a data frame.

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
        layout: str | None = None,
        transform_private_records: bool = False,
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
        self.layout = layout
        self.transform_private_records = transform_private_records

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        copy._uncounted = self._shared_count()
        return copy

    def _shared_count(self) -> _Uncounted:
        # not made by __init__, in which scikit-learn allows parameters only
        return self.__dict__.setdefault("_uncounted", _Uncounted())

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Spend the privacy and release the mean of the records; the mean may be published."""
        records = self._records(X)
        center = self.manifold_.origin if self.center is None else self.center
        self.ball_ = Ball(self.manifold_, center, self.radius)
        epsilon = 1.0 if self.epsilon is None and self.rho is None and self.mu is None else self.epsilon
        privacy = privacy_of(epsilon, self.delta, self.rho, self.mu)
        if self.ledger is None:
            self._shared_count().warn(privacy)
        self.receipt_: Release = private_mean(
            records,
            self.ball_,
            epsilon,
            self.delta,
            self.rho,
            self.mu,
            mechanism=self.mechanism,
            law=self.law,
            ledger=self.ledger,
            dataset=self.dataset,
        )
        self.location_: Array = self.receipt_.value
        if self.ledger is None:
            self._shared_count().costs.append(self.receipt_.cost)
        return self

    def fit_transform(self, X: ArrayLike, y: object = None, **fit_params: Any) -> Array:
        """:meth:`fit`, then :meth:`transform` the same records: **the result is private data**, and refused unless asked for."""
        if self.transform_private_records is not True:
            raise ValueError(
                "fit_transform returns the private records in other coordinates, which no noise hides: call fit and publish "
                "location_, or set transform_private_records=True if all that follows stays with the data"
            )
        return super().fit_transform(X, y, **fit_params)

    def transform(self, X: ArrayLike) -> Array:
        """Normal coordinates of the records about the private mean, ``(n, dim)``: **private data, not a release**.

        Every row of the result is one row of ``X``, clipped into the ball, in other coordinates. No noise is added to it.
        """
        check_is_fitted(self, "location_")
        records = self.ball_.clip(self._records(X, fitting=False))
        return self.manifold_.coordinates(self.location_, self.manifold_.log(self.location_, records))

    def _records(self, X: ArrayLike, *, fitting: bool = True) -> Array:
        refuse_mask(X, "X")
        with hiding_error_text():
            frame = as_frame(X)
            X = np.asarray(X) if frame is None else X
            shape = np.shape(X) if frame is None else (-1, len(frame.collect_schema().names()))
        if len(shape) < 2:
            raise ValueError(f"X has shape {shape}; Reshape your data: one record a row")
        features = int(np.prod(shape[1:]))
        if fitting:
            self.n_features_in_ = features
            given = Euclidean(features) if self.manifold is None else self.manifold
            self.manifold_: Manifold = parse_manifold(given) if isinstance(given, str) else given
        manifold = self.manifold_
        expected = self.n_features_in_ if self.layout is not None or frame is not None else int(np.prod(manifold.point_shape))
        if features != expected:
            raise ValueError(
                f"X has {features} features, but PrivateFrechetMean is expecting {expected} features as input: points of "
                f"{manifold} have shape {manifold.point_shape}"
            )
        if self.layout is not None or frame is not None:
            return load(X, manifold, layout=self.layout).x
        array = np.asarray(X)
        return manifold.read(array.reshape(len(array), *manifold.point_shape), "X")
