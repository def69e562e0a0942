"""Pictures. Importing this module imports matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from geodp.ball import Ball
from geodp.manifolds._functions import Array
from geodp.planning import plan

#: Okabe and Ito's colours, which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"


def ellipsoids(tensors: dict[str, Array], title: str, path: Path) -> None:
    """3x3 positive-definite matrices as ellipsoids, side by side in the same scale: axes are square roots of eigenvalues."""
    figure = Figure(figsize=(4.2 * len(tensors), 4.4), layout="constrained")
    reach = max(float(np.sqrt(np.linalg.eigvalsh(tensor)[-1])) for tensor in tensors.values())
    for i, (name, tensor) in enumerate(tensors.items()):
        axes: Any = figure.add_subplot(1, len(tensors), i + 1, projection="3d")
        axes.plot_surface(*_surface(tensor), color=(BLUE, ORANGE, GREEN)[i % 3], alpha=0.75, linewidth=0, rstride=2, cstride=2)
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach), title=name, xlabel="x", ylabel="y", zlabel="z")
        axes.set_box_aspect((1, 1, 1))
        axes.locator_params(nbins=4)
    figure.suptitle(title, fontsize=11)
    _save(figure, path)


def _surface(tensor: Array) -> tuple[Array, Array, Array]:
    u, v = np.meshgrid(np.linspace(0.0, 2.0 * np.pi, 61), np.linspace(0.0, np.pi, 31))
    unit = np.stack([np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)])
    x, y, z = np.einsum("ij,jkl->ikl", np.linalg.cholesky(tensor), unit)
    return x, y, z


def error_against_n(ball: Ball, epsilon: float, around: int, path: Path) -> None:
    """Expected error against the number of records: ours, the paper's bound, ambient noise."""
    counts = np.unique(np.geomspace(max(around / 30.0, 5.0), around * 30.0, 13).astype(int))
    found: list[Any] = []
    for n in counts:
        try:
            found.append(plan(ball, n=int(n), epsilon=epsilon))
        except ValueError:  # no such law with so few records
            continue
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    curves = [("this release", "expected_error", BLUE, "-"), ("bound of Reimherr et al. (2021)", "paper_error", ORANGE, "--")]
    curves.append(("ambient noise (Euclidean)", "ambient_error", GREY, ":"))
    for label, name, colour, line in curves:
        points = [(p.n, getattr(p, name)) for p in found if getattr(p, name) is not None]
        if points:
            axes.loglog(*zip(*points, strict=True), line, color=colour, label=label, linewidth=2)
    axes.axvline(around, color="black", linewidth=0.8)
    axes.set(
        xlabel="number of records", ylabel="expected error", title=f"{ball.manifold}, radius {ball.radius:g}, epsilon {epsilon:g}"
    )
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(frameon=False)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=150)
