"""Auditors that share no code with ``geodp.auditing``: a second opinion on the same outputs.

Each is given outputs of a mechanism on two neighbouring data sets, as arrays of numbers, and what the mechanism claims. They are
written from the ideas of published auditors:

- *classifier* (DP-Sniper; Bichsel, Steffen, Bogunovic and Vechev 2021): train a classifier, take the outputs it is surest of as
  the event, bound ``log((P - delta)/Q)`` from below.
- *hockey stick* (the test of dp_auditorium; Kong et al. 2024): ``P(score > e) - exp(e) Q(score > e)`` at several ``e``, each a
  lower bound on ``delta(e)``, compared with the whole privacy curve of the claim.
- *two samples*: outputs of the exact sampler and of the simulator of the same law are to be the same in law.
- *privacy-estimates* (Zanella-Béguelin et al. 2023), the package, if it is installed: its interval for the classifier's event.

A part of the outputs trains, a second chooses thresholds, a third is counted. Every auditor accuses a sound mechanism with a
chance of at most ``level``: an auditor that looks at several numbers shares it out over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
Curve = Callable[[float], float]

#: Where hockey sticks are looked at.
EPSILONS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
#: Parts of the chance that the outputs of the surest event have on the data set they are for.
SHARES = (0.05, 0.1, 0.2, 0.35, 0.5)


@dataclass(frozen=True)
class Opinion:
    """What an auditor says: a lower bound ``found`` on a number that the claim puts at ``claimed``, or a p-value."""

    auditor: str
    number: str
    found: float
    claimed: float
    convicts: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Scored:
    """A classifier's log odds for outputs that it was not trained on: some to choose thresholds, the rest to count.

    Of logistic regression on entries and products, and boosted trees on entries and last bits, the one that predicts held-out
    outputs better is taken.
    """

    def __init__(self, first: Array, second: Array, seed: int) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import log_loss
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import PolynomialFeatures, RobustScaler, StandardScaler

        parts = [np.split(_columns(y), [2 * len(y) // 5, 3 * len(y) // 5]) for y in (first, second)]
        entries = first.reshape(len(first), -1).shape[1]

        def smooth(columns: Array) -> Array:
            return np.clip(columns[:, :entries], -1e6, 1e6)

        models = [
            (smooth, make_pipeline(RobustScaler(), PolynomialFeatures(2), StandardScaler(), LogisticRegression(max_iter=500))),
            (np.asarray, HistGradientBoostingClassifier(max_iter=60, learning_rate=0.08, max_leaf_nodes=8, random_state=seed)),
        ]
        training = np.concatenate([parts[0][0], parts[1][0]])
        labels = np.repeat([1, 0], [len(parts[0][0]), len(parts[1][0])])
        choosing = np.concatenate([parts[0][1], parts[1][1]])
        truth = np.repeat([1, 0], [len(parts[0][1]), len(parts[1][1])])
        best = math.inf
        for look, model in models:
            model.fit(look(training), labels)
            loss = log_loss(truth, model.predict_proba(look(choosing))[:, 1])
            if loss < best:
                best, chosen = loss, (look, model)
        look, model = chosen

        def score(columns: Array) -> Array:
            chance = np.clip(model.predict_proba(look(columns))[:, 1], 1e-9, 1.0 - 1e-9)
            return np.log(chance / (1.0 - chance))

        #: Scores on the first and the second data set, for choosing and for counting.
        self.choosing = score(parts[0][1]), score(parts[1][1])
        self.counting = score(parts[0][2]), score(parts[1][2])

    def reversed(self) -> Scored:
        """The same with the data sets in the other order."""
        turned = object.__new__(Scored)
        turned.choosing = -self.choosing[1], -self.choosing[0]
        turned.counting = -self.counting[1], -self.counting[0]
        return turned


def _columns(y: Array) -> Array:
    """Entries and their last bits."""
    flat = np.ascontiguousarray(y.reshape(len(y), -1), dtype=np.float64)
    return np.concatenate([flat, (flat.view(np.uint64) & np.uint64(1)).astype(np.float64)], axis=1)


def _interval(hits: int, draws: int, level: float) -> tuple[float, float]:
    """Clopper and Pearson's lower and upper bound, each wrong with a chance of at most ``level``."""
    low = stats.beta.ppf(level, hits, draws - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1.0 - level, hits + 1, draws - hits) if hits < draws else 1.0
    return float(low), float(high)


def _surest(scored: Scored, delta: float) -> tuple[int, int, int]:
    """Hits on either data set and draws of the event that looks best on the outputs for choosing."""
    mine, theirs = scored.choosing
    best, threshold = -math.inf, 0.0
    for share in SHARES:
        cut = float(np.quantile(mine, 1.0 - share))
        low = _interval(int((mine >= cut).sum()), len(mine), 0.05)[0] - delta
        ratio = math.log(low / _interval(int((theirs >= cut).sum()), len(theirs), 0.05)[1]) if low > 0.0 else -math.inf
        if ratio > best:
            best, threshold = ratio, cut
    hits, others = (int((scores >= threshold).sum()) for scores in scored.counting)
    return hits, others, len(scored.counting[0])


def classifier(scored: Scored, epsilon: float, delta: float, level: float) -> Opinion:
    """Four probabilities are bounded: two directions with one event each."""
    found = 0.0
    for turned in (scored, scored.reversed()):
        hits, others, draws = _surest(turned, delta)
        low, high = _interval(hits, draws, level / 4.0)[0], _interval(others, draws, level / 4.0)[1]
        found = max(found, math.log((low - delta) / high)) if low > delta else found
    return Opinion("classifier", "epsilon", found, epsilon, found > epsilon)


def hockey_stick(scored: Scored, curve: Curve, level: float) -> Opinion:
    """For each epsilon the score from which on an output counts is chosen on outputs that are not counted.

    Reported is the epsilon at which delta exceeds the curve most, or comes closest to it.
    """
    each = level / (4.0 * len(EPSILONS))
    said = []
    for turned in (scored, scored.reversed()):
        mine, theirs = (np.sort(scores) for scores in turned.choosing)
        cuts = np.quantile(np.concatenate([mine, theirs]), np.linspace(0.02, 0.98, 49))
        above = [1.0 - np.searchsorted(scores, cuts) / len(scores) for scores in (mine, theirs)]
        for epsilon in EPSILONS:
            cut = cuts[np.argmax(above[0] - math.exp(epsilon) * above[1])]
            hits, others = (int((scores >= cut).sum()) for scores in turned.counting)
            draws = len(turned.counting[0])
            delta = _interval(hits, draws, each)[0] - math.exp(epsilon) * _interval(others, draws, each)[1]
            said.append((max(delta, 0.0), curve(epsilon), epsilon))
    found, claimed, at = max(said, key=lambda one: one[0] - one[1])
    return Opinion("hockey stick", f"delta at epsilon {at:g}", found, claimed, found > claimed)


def two_samples(released: Array, simulated: Array, level: float, seed: int) -> Opinion:
    """Kolmogorov and Smirnov on every entry and on the distance to the mean of both samples, and a classifier's accuracy.

    The p-value is the smallest, times their number. Entries are compared after rounding to a millionth of their spread: the
    simulator's last bits are known to differ.
    """
    both = [y.reshape(len(y), -1) for y in (released, simulated)]
    pooled = np.concatenate(both)
    unit = 1e-6 * np.maximum(pooled.std(axis=0), 1e-300)
    both = [np.round(y / unit) * unit for y in both]
    lengths = [np.linalg.vector_norm(y - pooled.mean(axis=0), axis=1) for y in both]
    values = [stats.ks_2samp(*columns).pvalue for columns in [lengths, *zip(both[0].T, both[1].T, strict=True)]]
    scored = Scored(both[0], both[1], seed)
    right = int((scored.counting[0] > 0.0).sum() + (scored.counting[1] <= 0.0).sum())
    values.append(stats.binomtest(right, sum(map(len, scored.counting)), 0.5, alternative="greater").pvalue)
    found = min(1.0, len(values) * min(values))
    return Opinion("two samples", "p-value", float(found), level, bool(found < level))


def privacy_estimates(scored: Scored, epsilon: float, delta: float, level: float) -> Opinion | None:
    """The package's bound at the event of :func:`classifier`; None if it is not installed. Its two directions share the level."""
    if find_spec("privacy_estimates") is None:
        return None
    from privacy_estimates import AttackResults, compute_eps_lo

    found = 0.0
    for turned in (scored, scored.reversed()):
        hits, others, draws = _surest(turned, delta)
        counts = AttackResults(FN=draws - hits, FP=others, TN=draws - others, TP=hits)
        found = max(found, float(compute_eps_lo(count=counts, delta=delta, alpha=level / 2.0, method="beta")))
    return Opinion("privacy-estimates", "epsilon", found, epsilon, found > epsilon)


def opinions(
    first: Array,
    second: Array,
    simulated: Array | None,
    curve: Curve,
    epsilon: float,
    delta: float,
    seed: int = 1,
    level: float = 0.01,
) -> list[Opinion]:
    """What all auditors say about outputs on two data sets, of a mechanism that claims ``curve``, so ``epsilon`` at ``delta``.

    ``simulated`` are draws of the claimed law on the first data set, if it can be simulated.
    """
    scored = Scored(first, second, seed)
    said = [classifier(scored, epsilon, delta, level), hockey_stick(scored, curve, level)]
    said += [] if simulated is None else [two_samples(first, simulated, level, seed)]
    package = privacy_estimates(scored, epsilon, delta, level)
    return said if package is None else [*said, package]
