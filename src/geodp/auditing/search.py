"""The two halves of an audit: the first finds the most revealing event, the second counts it.

The first half has two parts. Events are looked for in both, except that the classifier is trained on the first part and its
threshold chosen on the second. The choice never uses the second half, so the hits there are binomial.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from geodp.auditing.bounds import LowerBound
from geodp.auditing.classifier import SCORE, Classifier, outputs_to_train_on
from geodp.auditing.events import (
    LOSS,
    Candidate,
    Event,
    Kind,
    Witness,
    best_witness,
    entries,
    features_of_entries,
    features_of_points,
    fingerprints,
    most_revealing,
    repeated,
    returning,
)
from geodp.auditing.mechanisms import Runner, Task
from geodp.auditing.parities import Parities
from geodp.inputs import Array
from geodp.manifolds.ball import Ball
from geodp.noise.mechanism import Mechanism

Progress = Callable[[int, int], None]

#: The number of runs of one task: few enough to show progress and to keep the outputs below this many numbers in memory.
_LEAST_CHUNK, _CHUNKS, _NUMBERS = 1000, 24, 1 << 18
#: The number of values of single-entry features that the search keeps on each data set. For large points that covers only the
#: first outputs; the event found is still counted on all of the other half.
_KEPT, _LEAST_KEPT = 1 << 24, 4000


class Runs:
    """The runs of a mechanism on both data sets, cut into tasks with their own seeds."""

    def __init__(
        self, run: Runner, half: int, seeds: np.random.SeedSequence, progress: Progress | None, shape: tuple[int, ...]
    ) -> None:
        self.run, self.half, self.seeds, self.progress, self.shape = run, half, seeds, progress, shape
        self.done = 0

    def take(self, count: int) -> Iterator[tuple[int, Array]]:
        """The outputs of ``count`` new runs on each data set, in pieces, each with the number of its data set."""
        size = max(_LEAST_CHUNK, min(_NUMBERS // math.prod(self.shape), math.ceil(self.half / _CHUNKS)))
        sizes = [min(size, count - start) for start in range(0, count, size)]
        tasks = [Task(side, length, self.seeds.spawn(1)[0]) for length in sizes for side in (0, 1)]
        for task, found in self.run(tasks):
            y = np.asarray(found, dtype=np.float64)
            if y.shape != (task.size, *self.shape):
                raise ValueError(f"the mechanism returned an array of shape {y.shape} instead of {(task.size, *self.shape)}")
            self.done += task.size
            if self.progress is not None:
                self.progress(self.done, 4 * self.half)
            yield task.side, y


class Counted(NamedTuple):
    """The event chosen for one direction, and how often it happened in the other half of the runs.

    ``steps`` are the counts on every step of a :class:`Witness`, on each data set.
    """

    event: Event | Witness
    hits: int
    others: int
    steps: tuple[tuple[int, ...], tuple[int, ...]] | None = None


class Search:
    """Looks for the most revealing event in each direction, or for a claim about ``rho`` the most revealing step function.

    ``means`` are those of the two data sets, ``noise`` is the claimed mechanism, ``bound`` computes what an event proves.
    """

    def __init__(
        self,
        ball: Ball,
        means: tuple[Array, Array],
        noise: Mechanism,
        kinds: tuple[Kind, ...],
        bound: LowerBound,
        *,
        steps: bool,
    ) -> None:
        self.kinds, self.bound, self.steps = kinds, bound, steps
        self.whole = features_of_points(ball, means, noise, kinds)
        self.single = features_of_entries(ball.manifold, noise, kinds)
        self.entries = entries(noise, kinds)
        self.loss = features_of_points(ball, means, noise, ("law",))[LOSS]
        self.size = math.prod(ball.manifold.point_shape)
        #: Chosen events refer to these by name.
        self.features = self.whole | self.single

    def explore(self, runs: Runs) -> list[Array]:
        """Searches one half of the runs, and returns the privacy losses of its outputs on each data set."""
        values: tuple[dict[str, list[Array]], ...] = (defaultdict(list), defaultdict(list))
        seen: tuple[list[NDArray[np.uint64]], ...] = ([], [])
        losses: tuple[list[Array], ...] = ([], [])
        known: tuple[list[Array], ...] = ([], [])
        parities = Parities(self.size) if "bits" in self.kinds else None
        most = max(_KEPT // max(len(self.single), 1), _LEAST_KEPT)
        kept = [0, 0]
        to_train = outputs_to_train_on(self.size)
        parts = (runs.half // 2, runs.half - runs.half // 2)
        for part, count in enumerate(parts):
            if part == 1 and "classifier" in self.kinds:
                first, second = (np.concatenate(outputs)[:to_train] for outputs in known)
                others = [feature for name, feature in self.whole.items() if not name.startswith("whether")]
                self.features[SCORE] = Classifier.trained(self.entries, others, "bits" in self.kinds, first, second)
                self.whole = self.whole | {SCORE: self.features[SCORE]}
            for side, y in runs.take(count):
                for name, feature in self.whole.items():
                    values[side][name].append(feature(y))
                few = y[: max(most - kept[side], 0)]
                kept[side] += len(few)
                for name, feature in self.single.items() if len(few) else ():
                    values[side][name].append(feature(few))
                losses[side].append(values[side][LOSS][-1] if LOSS in self.whole else self.loss(y))
                if "atoms" in self.kinds:
                    seen[side].append(fingerprints(y))
                if parities is not None:
                    parities.add(side, y)
                if part == 0 and "classifier" in self.kinds and sum(map(len, known[side])) < to_train:
                    known[side].append(y)
        joined = [{name: np.concatenate(parts) for name, parts in side.items()} for side in values]
        if "atoms" in self.kinds:
            self._add_returning(joined, [np.concatenate(parts) for parts in seen])
        self.chosen = tuple(self._best(side, joined, parities) for side in (0, 1))
        return [np.concatenate(parts) for parts in losses]

    def _best(self, side: int, joined: list[dict[str, Array]], parities: Parities | None) -> Event | Witness:
        mine, theirs = joined[side], joined[1 - side]
        tried = [most_revealing(name, mine[name], theirs[name], self.bound) for name in mine]
        if self.steps:
            tried += [best_witness(name, mine[name], theirs[name]) for name in self.whole]
        if parities is not None:
            candidate, feature = parities.most_revealing(side, self.bound)
            self.features[candidate.event.feature] = feature
            tried.append(candidate)
        best: Candidate = max(tried, key=lambda candidate: candidate.least)
        return best.event

    def _add_returning(self, joined: list[dict[str, Array]], seen: list[NDArray[np.uint64]]) -> None:
        """Adds a feature for values that occur repeatedly on one data set only."""
        for side, nth in enumerate(("first", "second")):
            known = repeated(seen[side], seen[1 - side])
            if len(known):
                name = f"whether the output is one of {len(known)} values that occurred repeatedly on the {nth} data set only"
                self.features[name] = returning(known)
                for other in (0, 1):
                    joined[other][name] = np.isin(seen[other], known).astype(np.float64)

    def count(self, runs: Runs) -> tuple[Counted, Counted]:
        """How often the chosen events happen in the other half of the runs."""
        counts: list[list[Any]] = [[0, 0], [0, 0]]
        for side, y in runs.take(runs.half):
            for row, event in enumerate(self.chosen):
                counts[row][side] += event.counts(self.features[event.feature](y))
        first, second = (_counted(event, counts[row][row], counts[row][1 - row]) for row, event in enumerate(self.chosen))
        return first, second


def _counted(event: Event | Witness, hits: NDArray[np.int64], others: NDArray[np.int64]) -> Counted:
    if isinstance(event, Event):
        return Counted(event, int(hits[1]), int(others[1]))
    likelier = np.asarray(event.weights) > 0.0
    steps = tuple(hits.tolist()), tuple(others.tolist())
    return Counted(event, int(hits[likelier].sum()), int(others[likelier].sum()), steps)
