"""Cross-validation that is paid for as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from geodp.estimator.common import PrivateEstimator
from geodp.estimator.fits import Fits
from geodp.inputs import Array, whole_number
from geodp.records.labels import coded, read_labels
from geodp.records.persons import numbered
from geodp.release import Account, prepay


def private_cross_val_score(
    model: PrivateEstimator,
    X: Any,
    y: Any = None,
    *,
    unit: Any = None,
    folds: int = 5,
    grid: Mapping[str, Iterable[Any]] | None = None,
    scoring: Any = None,
    n_jobs: int | None = None,
) -> Array:
    """The scores of a private estimator on folds of the data, as scikit-learn's ``cross_val_score``, charged as a whole.

    *Public*: all arguments but the data, and the number of records. *Private*: the records. *Neighbours*: those of a fit.
    *Theorem*: records, or persons, are dealt to the folds at random, each class by itself if labels are public. Their order has
    no part in this, so a changed one can be taken to be in the same fold as before, and the fit without that fold does not
    change. The other ``folds - 1`` fits are a composition, and their costs add up. The sum is charged to the model's ledger
    before the first fit, and nothing is fitted if the budget does not hold it.

    **The scores are private data**: each tells of records that were left out of its fit, and no noise hides that.

    Parameters
    ----------
    model
        A private estimator. Its privacy is that of each fit. Without a ledger the fits are counted as always.
    X, y, unit
        As for its ``fit``.
    folds
        How many folds there are.
    grid
        Values of parameters, as for scikit-learn's ``GridSearchCV``. Each combination costs as much as the cross-validation of
        one. The privacy, the ledger and whom the fits protect must be the same for all.
    scoring, n_jobs
        As for scikit-learn's ``cross_val_score``.

    Returns
    -------
    scores : array
        One for each fold, ``(folds,)``; with a grid ``(combinations, folds)``.

    >>> import numpy as np
    >>> from geodp.estimator import PrivateMDM
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=1000)
    >>> X = np.exp(0.2 * rng.normal(size=(1000, 1, 1)) + y[:, None, None]) * np.eye(2)
    >>> import tempfile, geodp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = geodp.Ledger(f"sqlite:///{folder}/budget.db")
    ...     ledger.open("study", epsilon=4)
    ...     model = PrivateMDM(radius=3.0, epsilon=1.0, ledger=ledger, dataset="study")
    ...     scores = private_cross_val_score(model, X, y, folds=5)
    ...     scores.shape, ledger.spent("study")
    ((5,), Decimal('4'))
    """
    folds = whole_number(folds, 2, "the number of folds")
    choices = list(ParameterGrid(grid or {}))
    if fixed := _FIXED.intersection(*choices[:1]):
        raise ValueError(f"{min(fixed)} must be the same for all fits of a cross-validation: leave it out of the grid")
    asking: PrivateEstimator = clone(model)
    request, data = asking.asked(X, y, unit)
    if request.neighbours == "add-remove":
        raise ValueError("which fold a record is in does not depend on the others only if neighbours are 'replace'")
    fold = _dealt(_members(data.x, unit, X), folds, data.by if request.labels == "public" and unit is None else None)
    paid: PrivateEstimator = clone(model)
    if model.ledger is not None:
        count = len(choices) * folds
        what = f"cross-validation, {count} fits: {request.statistic.purpose}"
        prepay(request, len(choices) * (folds - 1), Account.of(model.ledger, model.dataset, None), what)
        paid.set_params(ledger=None, dataset=None, anyway=True)  # after the charge nothing is refused
        paid._fits = Fits(count)
    fits = [(clone(paid).set_params(**choice), fold != i) for choice in choices for i in range(folds)]
    scores = Parallel(n_jobs=n_jobs)(delayed(_score)(each, X, y, unit, inside, scoring) for each, inside in fits)
    return np.array(scores).reshape((folds,) if grid is None else (len(choices), folds))


#: What the price of a fit and its neighbours depend on.
_FIXED = {"epsilon", "delta", "rho", "mu", "ledger", "dataset", "anyway", "labels", "neighbours", "unit_in", "random_state"}


def _members(records: Any, unit: Any, X: Any) -> NDArray[np.int64]:
    """The number of each record's member: the record itself, or its person."""
    if unit is None:
        return np.arange(len(records))
    return numbered(coded(read_labels(unit, "unit", X if hasattr(X, "iloc") else unit))[0])


def _dealt(members: NDArray[np.int64], folds: int, classes: Any) -> NDArray[np.int64]:
    """The fold of each record. Members are dealt in a random order, so that it says nothing which of them came first."""
    order = np.random.default_rng().permutation(members.max(initial=-1) + 1)
    if classes is not None:
        order = order[np.argsort(coded(classes)[0][order], kind="stable")]
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.arange(len(order)) % folds
    return fold[members]


def _score(model: PrivateEstimator, X: Any, y: Any, unit: Any, inside: NDArray[np.bool_], scoring: Any) -> float:
    """The score on the records of a fold of a fit to all others."""

    def part(labels: Any, keep: NDArray[np.bool_]) -> Any:
        return None if labels is None else _safe_indexing(labels, np.flatnonzero(keep))

    persons = {} if unit is None else {"unit": part(unit, inside)}
    fitted = model.fit(part(X, inside), part(y, inside), **persons)
    score: float = check_scoring(fitted, scoring)(fitted, part(X, ~inside), part(y, ~inside))
    return score
