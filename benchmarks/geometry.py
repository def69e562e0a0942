"""Closed-form eigen-decompositions against ``numpy.linalg.eigh``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Cell, Table, best_seconds, duration, number, times
from geodp.manifolds.small_eigen import eigh


def residual(a: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> float:
    """The worst of ``|A - V L V'|`` and ``|V'V - I|``, relative to ``|A|`` and 1, in units of the machine epsilon."""
    turned = np.swapaxes(vectors, -1, -2)
    rest = np.abs(vectors * values[:, None, :] @ turned - a).max(axis=(1, 2)) / np.abs(a).max(axis=(1, 2))
    off = np.abs(turned @ vectors - np.eye(a.shape[-1])).max(axis=(1, 2))
    return float(max(rest.max(), off.max()) / np.finfo(float).eps)


def families(k: int, count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(k)
    g = rng.normal(size=(count, k, k))
    q = np.linalg.qr(g)[0]

    def with_eigenvalues(values: np.ndarray) -> np.ndarray:
        a = q * values[:, None, :] @ np.swapaxes(q, 1, 2)
        return 0.5 * (a + np.swapaxes(a, 1, 2))

    return {
        "covariances": g @ np.swapaxes(g, 1, 2) / k,
        "condition up to 1e12": with_eigenvalues(10.0 ** rng.uniform(-12, 0, (count, k))),
        "gaps down to 1e-16": with_eigenvalues(1.0 + 10.0 ** rng.uniform(-16, 0, (count, k))),
    }


def tables(quick: bool) -> Iterator[Table]:
    count = 20_000 if quick else 100_000
    rows: list[list[Cell | str]] = []
    for k in (2, 3):
        for name, a in families(k, count).items():
            ours, numpys = best_seconds(lambda a=a: eigh(a), lambda a=a: np.linalg.eigh(a))
            errors = residual(a, *eigh(a)), residual(a, *np.linalg.eigh(a))
            cells = duration(ours / count), duration(numpys / count), times(numpys / ours)
            rows.append([f"{k}x{k}, {name}", *cells, *(number(error, ".1f") for error in errors)])
    header = ["matrices", "geodp", "numpy eigh", "ratio", "error geodp", "error numpy"]
    title = f"Symmetric eigen-decomposition, {count:,} matrices: time a matrix, error in machine epsilons"
    yield Table(title, header, rows)
