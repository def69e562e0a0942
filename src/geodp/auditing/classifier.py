"""A classifier that learns to tell the outputs on two data sets apart: its score is one more feature.

The idea is from DP-Sniper (Bichsel, Steffen, Bogunovic and Vechev 2021): the outputs that a good classifier is most certain of
are nearly the most revealing event. It is trained on separate outputs, which neither choose its threshold nor are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from geodp.auditing.events import Feature, words
from geodp.inputs import Array

SCORE = "the score of a classifier trained on other runs"

#: The largest number of outputs of each data set for training; fewer if the outputs are large.
MOST_OUTPUTS, _MOST_NUMBERS = 20_000, 1 << 22
#: The largest number of inputs. For larger points, this many random combinations replace the entries.
_ENTRIES, _INPUTS = 64, 256
#: Inputs are cut off at this many interquartile ranges, so that a few far outputs do not dominate.
_FAR = 6.0
_STEPS = 10


def outputs_to_train_on(entries: int) -> int:
    """The number of outputs of each data set to train on, for points with this many entries."""
    return min(MOST_OUTPUTS, max(_MOST_NUMBERS // entries, 1000))


@final
@dataclass(frozen=True)
class Classifier:
    """Logistic regression on entries, their squares and products, last bits, and the features ``others``.

    ``entries`` gives the entries of an output as a matrix. Inputs are centred at their median and divided by their
    interquartile range. Products are added in the order of the entries until there are ``_INPUTS`` inputs. The parameters have a
    normal prior that gets weaker as the number of outputs grows.
    """

    entries: Feature
    others: Sequence[Feature]
    bits: bool
    center: Array
    spread: Array
    weights: Array

    @classmethod
    def trained(cls, entries: Feature, others: Sequence[Feature], bits: bool, first: Array, second: Array) -> Classifier:
        """A classifier trained to give high scores to the outputs ``first`` and low ones to ``second``."""
        y = np.concatenate([first, second])
        raw = _raw(entries, others, y)
        with np.errstate(all="ignore"):
            low, center, high = np.quantile(raw, [0.25, 0.5, 0.75], axis=0)
            spread = np.where(high > low, high - low, np.maximum(np.abs(raw - center).max(axis=0), 1e-300))
        untrained = cls(entries, others, bits, center, spread, np.zeros(0))
        inputs = untrained._inputs(y)
        labels = np.repeat([1.0, 0.0], [len(first), len(second)])
        return cls(entries, others, bits, center, spread, _logistic(inputs, labels))

    def __call__(self, y: Array) -> Array:
        return self._inputs(y) @ self.weights

    def _inputs(self, y: Array) -> Array:
        with np.errstate(all="ignore"):
            z = np.clip((_raw(self.entries, self.others, y) - self.center) / self.spread, -_FAR, _FAR)
        count = z.shape[1] - len(self.others)
        rows, columns = np.triu_indices(count)
        # squares of all entries come before any other product
        order = np.argsort(rows != columns, kind="stable")
        room = max(_INPUTS - z.shape[1] - (count if self.bits else 0), 0)
        rows, columns = rows[order][:room], columns[order][:room]
        parts = [np.ones((len(y), 1)), z, z[:, rows] * z[:, columns]]
        if self.bits:
            parts.append(1.0 - 2.0 * (words(y)[:, :count] & np.uint64(1)).astype(np.float64))
        return np.concatenate(parts, axis=1)


def _raw(entries: Feature, others: Sequence[Feature], y: Array) -> Array:
    """The entries (or random combinations, if there are many) and the other features, one row an output; all finite."""
    with np.errstate(all="ignore"):
        values = np.nan_to_num(np.asarray(entries(y), dtype=np.float64), nan=0.0, posinf=1e300, neginf=-1e300)
        if values.shape[1] > _ENTRIES:
            mixed = np.random.default_rng(0).standard_normal((values.shape[1], _ENTRIES))
            values = np.nan_to_num(values @ mixed)
        columns = [np.nan_to_num(feature(y), neginf=-1e300, posinf=1e300)[:, None] for feature in others]
    return np.concatenate([values, *columns], axis=1)


def _logistic(inputs: Array, labels: Array) -> Array:
    """The most probable weights, by Newton's method. The precision of the prior is the square root of the number of outputs."""
    precision = np.full(inputs.shape[1], np.sqrt(len(inputs)))
    precision[0] = 1e-6
    weights = np.zeros(inputs.shape[1])
    for _ in range(_STEPS):
        chance = expit(inputs @ weights)
        gradient = inputs.T @ (labels - chance) - precision * weights
        curvature = (inputs * (chance * (1.0 - chance) + 1e-9)[:, None]).T @ inputs + np.diag(precision)
        step = np.linalg.solve(curvature, gradient)
        weights = weights + step
        if float(np.abs(step).max()) < 1e-6:
            break
    return weights
