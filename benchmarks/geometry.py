"""Closed-form eigen-decompositions against ``numpy.linalg.eigh``: ``python -m benchmarks.geometry``."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import best_seconds, markdown
from geodp.manifolds._small_eigen import eigh


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


def main(count: int = 100_000) -> None:
    rows = []
    for k in (2, 3):
        for name, a in families(k, count).items():
            ours, numpys = best_seconds(lambda a=a: eigh(a), lambda a=a: np.linalg.eigh(a))
            errors = residual(a, *eigh(a)), residual(a, *np.linalg.eigh(a))
            cells = f"{ours / count * 1e9:.0f} ns", f"{numpys / count * 1e9:.0f} ns", f"{numpys / ours:.1f}x"
            rows.append([f"{k}x{k}, {name}", *cells, f"{errors[0]:.1f}", f"{errors[1]:.1f}"])
    print(f"\nSymmetric eigen-decomposition, {count:,} matrices (time a matrix; error in machine epsilons)\n")
    print(markdown(["matrices", "geodp", "numpy eigh", "ratio", "error geodp", "error numpy"], rows))


if __name__ == "__main__":
    main()
