"""Measure private classifiers and clusters on real data: ``python docs/learning.py`` writes ``learning.json``.

``python docs/learning.py --page`` only writes the tables of ``guides/learning.md`` anew from it. The data are the muscle signals
that come with geomstats (``pip install '.[bench]'``; it need not be importable): two persons held hand gestures 120 times, six
times each of five in each of two sessions, with eight electrodes on the forearm.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tables import write_table

from geodp import SPD, Ball, frechet_mean
from geodp.estimator import PrivateKMeans, PrivateMDM
from geodp.inputs import Array

HERE = Path(__file__).parent
FILE, PAGE = HERE / "learning.json", HERE / "guides" / "learning.md"

GESTURES = ("paper", "rock", "scissors")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
SPLITS, FITS = 20, 20
#: Chosen with these data in view, which a study must not do: variances from a fifth to two hundred squared steps of the sensor.
BALL = {"center": 20.0 * np.eye(8), "radius": 5.0}
WIDE = {"radius": 30.0, "find": 0.2}

#: What is compared: the parameters of the classifier, and who has one vote.
CLASSIFIERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "a window, ball given": (BALL, None),
    "a window, ball found from radius 30": (WIDE, None),
    "a window and its gesture (private labels), ball given": ({**BALL, "labels": "private", "classes": GESTURES}, None),
    "a held gesture of 16 windows, ball given": (BALL, "hold"),
    "a person, ball given": ({**BALL, "unit_in": "all groups"}, "person"),
}


class Windows(NamedTuple):
    """Covariance matrices of short windows, their gestures, and which time a gesture was held, by whom."""

    x: Array
    gesture: NDArray[Any]
    hold: NDArray[np.int64]
    person: NDArray[Any]


def muscle_signals(length: int = 250, margin: int = 1000) -> Windows:
    """Windows of ``length`` samples (3 ms each) of rock, paper and scissors, without the beginning and the end of each hold."""
    import pandas as pd

    found = find_spec("geomstats")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("the muscle signals come with geomstats: pip install '.[bench]'")
    table = pd.read_csv(Path(found.submodule_search_locations[0]) / "datasets" / "data" / "emg" / "emg.csv")
    signals = table[[f"c{i}" for i in range(8)]].to_numpy(np.float64)
    label, session = table["label"].to_numpy(str), table["exp"].to_numpy(str)
    changes = np.flatnonzero((label[1:] != label[:-1]) | (session[1:] != session[:-1])) + 1
    rows: list[tuple[Array, Any, int, Any]] = []
    for hold, (begin, end) in enumerate(zip([0, *changes], [*changes, len(label)], strict=True)):
        if label[begin] in GESTURES:
            starts = range(begin + margin, end - margin - length, length)
            rows += [(np.cov(signals[i : i + length].T), label[i], hold, session[i][:2]) for i in starts]
    x, gesture, holds, person = zip(*rows, strict=True)
    return Windows(np.array(x), np.array(gesture), np.array(holds), np.array(person))


def splits(data: Windows, count: int, seed: int = 0) -> Iterator[NDArray[np.bool_]]:
    """Which windows are for testing: a quarter of the holds of each gesture, whole holds only."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        chosen: list[int] = []
        for gesture in GESTURES:
            holds = np.unique(data.hold[data.gesture == gesture])
            chosen += rng.choice(holds, len(holds) // 4, replace=False).tolist()
        yield np.isin(data.hold, chosen)


def accuracy(model: Any, data: Windows, test: NDArray[np.bool_], unit: str | None) -> float:
    more = {} if unit is None else {"unit": getattr(data, unit)[~test]}
    return float(model.fit(data.x[~test], data.gesture[~test], **more).score(data.x[test], data.gesture[test]))


def spread(centers: Array, x: Array) -> float:
    """The mean squared distance to the nearest centre: what k-means makes small."""
    return float(np.mean(np.stack([SPD(8).dist(center, x) for center in centers], axis=1).min(axis=1) ** 2))


def measure(data: Windows, count: int, fits: int) -> dict[str, Any]:
    from pyriemann.classification import MDM
    from pyriemann.clustering import Kmeans

    tests = list(splits(data, count))
    found: dict[str, Any] = {"windows": len(data.x), "epsilons": EPSILONS, "splits": count, "fits": fits}
    found["MDM"] = float(np.mean([accuracy(MDM(), data, test, None) for test in tests]))
    found["classifiers"] = {}
    for name, (parameters, unit) in CLASSIFIERS.items():
        rows = [[accuracy(PrivateMDM(**parameters, epsilon=e), data, test, unit) for test in tests] for e in EPSILONS]
        found["classifiers"][name] = np.mean(rows, axis=1).tolist()
        print(name, found["classifiers"][name], flush=True)
    ball = Ball(SPD(8), **BALL)
    found["one"] = spread(frechet_mean(data.x, ball).point[None], data.x)
    found["Kmeans"] = spread(Kmeans(3, n_init=5, random_state=0).fit(data.x).centroids(), data.x)
    found["clusters"] = [
        np.mean(
            [
                spread(PrivateKMeans(3, **BALL, epsilon=e, random_state=s).fit(data.x).cluster_centers_, data.x)
                for s in range(fits)
            ]
        )
        for e in EPSILONS
    ]
    return found


def table(found: dict[str, Any]) -> str:
    titles = ["accuracy; protected is", *(f"ε = {e:g}" for e in found["epsilons"]), "pyRiemann"]
    lines = [f"| {' | '.join(titles)} |", f"| --- |{' ---: |' * (len(titles) - 1)}"]
    for name, row in found["classifiers"].items():
        cells = [name, *(f"{100 * each:.0f}%" for each in (*row, found["MDM"]))]
        lines.append(f"| {' | '.join(cells)} |")
    titles[0] = "mean squared distance to the nearest of 3 centres"
    lines += ["", f"| {' | '.join(titles)} |", f"| --- |{' ---: |' * (len(titles) - 1)}"]
    cells = [f"{each:.1f}" for each in (*found["clusters"], found["Kmeans"])]
    lines.append(f"| a window, ball given (one centre: {found['one']:.1f}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    if "--page" not in sys.argv:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = measure(muscle_signals(), SPLITS, FITS)
        FILE.write_text(json.dumps(found, indent=1) + "\n")
    write_table(PAGE, "docs/learning.py", table(json.loads(FILE.read_text())))


if __name__ == "__main__":
    main()
