"""Pictures. Importing this module imports matplotlib."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from geodp.files.writing import write_whole
from geodp.inputs import Array
from geodp.manifolds.ball import Ball
from geodp.planning import plan
from geodp.privacy.notions import Privacy

if TYPE_CHECKING:
    from geodp.auditing import AuditResult

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


def error_against_n(ball: Ball, privacy: Privacy, around: int, path: Path) -> None:
    """Expected error against the number of records: the release, every mechanism by itself, the paper's bound, ambient noise."""
    counts = np.unique(np.geomspace(max(around / 30.0, 5.0), around * 30.0, 13).astype(int))
    found: list[Any] = []
    for n in counts:
        try:
            found.append(plan(ball, int(n), **privacy.parameters()))
        except ValueError:  # so few records that floats cannot hold the noise
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
    axes.set(xlabel="number of records", ylabel="expected error", title=f"{ball.manifold}, radius {ball.radius:g}, {privacy}")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(frameon=False)
    _save(figure, path)


def privacy_loss(result: AuditResult, path: Path) -> None:
    """An audit: how often each privacy loss came up on either data set, and the loss that these counts show."""
    edges = np.array(result.loss_edges)
    middles = 0.5 * (edges[1:] + edges[:-1])
    figure = Figure(figsize=(6.8, 6.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for name, counts, colour, line in zip(("first", "second"), result.loss_counts, (BLUE, ORANGE), ("-", "--"), strict=True):
        shares = np.array(counts) / sum(counts)
        above.stairs(shares, edges, color=colour, linestyle=line, linewidth=1.8, label=f"runs on the {name} data set")
    above.set(ylabel="share of the runs", yscale="log")
    verdict = "consistent" if result.consistent else "REFUTED"
    title = f"{result.ball.manifold}, n = {result.n}, claimed {result.privacy}: {verdict}"
    if result.own_pair:
        figure.suptitle("NOT PRIVATE: this describes the records that were given", color=ORANGE, fontsize=11)
    above.set_title(f"{title}\n{result.number} is at least {result.lower:.3g} (confidence {result.confidence:g})", fontsize=11)
    first, second = (np.array(counts, dtype=np.float64) for counts in result.loss_counts)
    enough = (first >= 20) & (second >= 20)
    seen, error = np.log(first[enough] / second[enough]), 2.0 * np.sqrt(1.0 / first[enough] + 1.0 / second[enough])
    below.errorbar(middles[enough], seen, error, fmt="o", color=GREEN, markersize=3.5, elinewidth=1, label="seen, with 2 SE")
    below.plot(edges[[0, -1]], edges[[0, -1]], color=GREY, linewidth=1, label="the claimed law")
    for limit in () if result.epsilon is None else (-result.epsilon, result.epsilon):
        below.axhline(limit, color="black", linewidth=0.9, linestyle=":", label="claimed epsilon" if limit > 0 else None)
    below.set(xlabel="privacy loss of the claimed law, log(p/q)", ylabel="log ratio of the shares")
    for axes in (above, below):
        axes.grid(True, alpha=0.25)
        axes.legend(frameon=False, fontsize=9)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.removeprefix("."), dpi=150)
    write_whole(path, picture.getvalue())
