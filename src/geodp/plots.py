"""Pictures. Importing this module imports matplotlib."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from geodp.files.writing import write_whole
from geodp.inputs import Array
from geodp.manifolds import SPD, Manifold, PlanarShapes, SPDLogEuclidean, Sphere
from geodp.manifolds.ball import Ball
from geodp.planning import plan
from geodp.privacy.notions import Privacy
from geodp.privacy.risk import Risk
from geodp.receipt import SIMULATION

if TYPE_CHECKING:
    from geodp.auditing import AuditResult
    from geodp.regions import ConfidenceRegion
    from geodp.spread import Components

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


def trade_off(risks: dict[str, Risk], path: Path) -> None:
    """Trade-off curves, by their names: how many of the guilty any attack can find, against the innocent it accuses."""
    figure = Figure(figsize=(9.6, 4.6), layout="constrained")
    plain, small = figure.subplots(1, 2)
    rates = np.concatenate([np.geomspace(1e-6, 0.02, 60), np.linspace(0.02, 1.0, 80)[1:]])
    for (name, risk), colour in zip(risks.items(), (BLUE, ORANGE, GREEN), strict=False):
        found = np.array([risk.true_positive_rate(float(rate)) for rate in rates])
        for axes in (plain, small):
            axes.plot(rates, found, color=colour, linewidth=2, label=f"{name}: advantage {risk.advantage:.3g}")
    for axes in (plain, small):
        axes.plot(rates, rates, color=GREY, linewidth=1, linestyle="--", label="guessing without the release")
        axes.set(xlabel="wrongly accused: false-positive rate", ylabel="found: true-positive rate, at most")
        axes.grid(True, alpha=0.25)
    plain.legend(frameon=False, fontsize=9, loc="lower right")
    small.set(xscale="log", yscale="log", xlim=(1e-5, 1.0), ylim=(1e-5, 1.2))
    figure.suptitle("What any attack on one record can do", fontsize=11)
    _save(figure, path)


# ---------------------------------------------------------------------- spread


def principal_geodesics(components: Components, path: Path, count: int = 3) -> None:
    """Principal geodesics, from two standard deviations below the base to two above it, a row each, the largest first.

    Small matrices are drawn as ellipses or ellipsoids along the geodesic, directions as arcs on a globe, shapes as outlines;
    everything else, and all deviations, as bars with their error bars and the level of the noise.
    """
    manifold, shown = components.manifold, min(count, len(components))
    draw = _draws(manifold)
    rows = shown if draw is _ellipsoids_along else 1
    figure = Figure(figsize=(9.6 if draw else 5.2, 2.0 + 1.7 * rows if rows > 1 else 4.2), layout="constrained")
    if draw is None:
        _deviations(figure.add_subplot(), components)
    else:
        both: Any = figure.subfigures(1, 2, width_ratios=(2, 1))
        draw(both[0], components, shown)
        _deviations(both[1].add_subplot(), components)
    figure.suptitle(_title(f"Principal geodesics on {manifold}", components.private), fontsize=11)
    _save(figure, path)


def _title(text: str, private: bool) -> str:
    return text if private else f"{SIMULATION}\n{text}"


def _draws(manifold: Manifold) -> Callable[[Any, Components, int], None] | None:
    """How points of the manifold are drawn, if they can be."""
    if isinstance(manifold, SPD | SPDLogEuclidean) and manifold.k in (2, 3):
        return _ellipsoids_along
    if isinstance(manifold, PlanarShapes):
        return _outlines_along
    return _arcs if isinstance(manifold, Sphere) and manifold.d == 2 else None


_STEPS = np.linspace(-2.0, 2.0, 5)


def _deviations(axes: Any, components: Components) -> None:
    """Standard deviations with their intervals; grey ones may be noise alone."""
    deviations, ends = components.standard_deviations, components.intervals
    positions = np.arange(1, len(components) + 1)
    colours = [BLUE if meaningful else GREY for meaningful in components.meaningful]
    axes.bar(positions, deviations, color=colours, alpha=0.8)
    axes.errorbar(positions, deviations, np.abs(ends.T - deviations), fmt="none", ecolor="black", elinewidth=1, capsize=2)
    axes.axhline(np.sqrt(components.level), color=ORANGE, linewidth=1, linestyle="--", label="level of the noise")
    axes.set(xlabel="component", ylabel="standard deviation")
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False, fontsize=8)


def _ellipsoids_along(figure: Any, components: Components, shown: int) -> None:
    size = components.manifold.point_shape[0]
    points = [components.geodesic(i, _STEPS) for i in range(shown)]
    reach = max(float(np.sqrt(np.linalg.eigvalsh(row)[..., -1].max())) for row in points)
    for i, row in enumerate(points):
        for j, (step, tensor) in enumerate(zip(_STEPS, row, strict=True)):
            place = (shown, len(_STEPS), i * len(_STEPS) + j + 1)
            axes: Any = figure.add_subplot(*place, projection="3d") if size == 3 else figure.add_subplot(*place)
            colour = ORANGE if step == 0.0 else BLUE
            if size == 3:
                axes.plot_surface(*_surface(tensor), color=colour, alpha=0.75, linewidth=0, rstride=3, cstride=3)
                axes.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
                axes.set_box_aspect((1, 1, 1), zoom=1.7)
            else:
                angles = np.linspace(0.0, 2.0 * np.pi, 100)
                axes.fill(*(np.linalg.cholesky(tensor) @ np.stack([np.cos(angles), np.sin(angles)])), color=colour, alpha=0.75)
                axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
            axes.set_axis_off()
            if i == 0:
                axes.set_title(f"{step:+.0f} sd", fontsize=8)


def _outlines_along(figure: Any, components: Components, shown: int) -> None:
    for i in range(shown):
        axes = figure.add_subplot(1, shown, i + 1)
        for step, shape in zip(_STEPS, components.geodesic(i, _STEPS), strict=True):
            closed = np.concatenate([shape, shape[:1]])
            colour = ORANGE if step == 0.0 else BLUE
            axes.plot(*closed.T, color=colour, alpha=0.35 + 0.3 * (2.0 - abs(step)) / 2.0, linewidth=2.0 if step == 0.0 else 1.2)
        axes.set(aspect="equal", title=f"component {i + 1}")
        axes.set_axis_off()


def _arcs(figure: Any, components: Components, shown: int) -> None:
    axes = figure.add_subplot()
    flat = _globe(axes, components.base, components.manifold)
    for i, colour in zip(range(shown), (BLUE, GREEN), strict=False):
        label = f"component {i + 1}, two deviations each way"
        axes.plot(*flat(components.geodesic(i, np.linspace(-2.0, 2.0, 101))).T, color=colour, linewidth=2, label=label)
    axes.plot(*flat(components.base[None]).T, "o", color=ORANGE, markersize=6, label="base")
    axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, -0.2))


def _globe(axes: Any, towards: Array, sphere: Manifold) -> Callable[[Array], Array]:
    """Draws a globe with its meridians and parallels, seen from a point; returns how points become places on the page."""
    frame = sphere.tangent(towards, np.eye(2))
    frame = frame / np.linalg.vector_norm(frame, axis=-1, keepdims=True)

    def flat(points: Array) -> Array:
        return points @ frame.T

    size = float(np.linalg.vector_norm(towards))
    angles = np.linspace(0.0, 2.0 * np.pi, 181)
    axes.plot(size * np.cos(angles), size * np.sin(angles), color="black", linewidth=0.8)
    for height in np.sin(np.radians(np.arange(-75, 90, 15))):
        ring = np.sqrt(1.0 - height**2)
        _seen(
            axes,
            np.stack([ring * np.cos(angles), ring * np.sin(angles), np.full_like(angles, height)], axis=-1),
            towards,
            flat,
            size,
        )
    for turn in np.radians(np.arange(0, 180, 15)):
        ring_points = np.stack([np.cos(angles) * np.cos(turn), np.cos(angles) * np.sin(turn), np.sin(angles)], axis=-1)
        _seen(axes, ring_points, towards, flat, size)
    axes.set(aspect="equal", xlim=(-1.05 * size, 1.05 * size), ylim=(-1.05 * size, 1.05 * size))
    axes.set_axis_off()
    return flat


def _seen(axes: Any, ring: Array, towards: Array, flat: Callable[[Array], Array], size: float) -> None:
    """The part of a ring that is on the near side."""
    near = np.where((ring @ towards > 0.0)[:, None], size * flat(ring), np.nan)
    axes.plot(*near.T, color=GREY, linewidth=0.4, alpha=0.5)


def confidence_regions(regions: dict[str, ConfidenceRegion], path: Path) -> None:
    """Confidence regions, by their names: on a globe for directions, elsewhere the parts that radii are made of.

    For 3x3 matrices also the mean and three points of the boundary as ellipsoids.
    """
    first = next(iter(regions.values()))
    manifold = first.manifold
    figure = Figure(figsize=(9.6, 4.6), layout="constrained")
    colours = (BLUE, GREEN, ORANGE, GREY)
    if isinstance(manifold, Sphere) and manifold.d == 2:
        left, right = figure.subplots(1, 2)
        flat = _globe(left, first.center, manifold)
        angles = np.linspace(0.0, 2.0 * np.pi, 181)
        for (name, region), colour in zip(regions.items(), colours, strict=False):
            circle = region.boundary(np.stack([np.cos(angles), np.sin(angles)], axis=-1))
            left.plot(*flat(circle).T, color=colour, linewidth=1.5, label=name)
            left.plot(*flat(region.center[None]).T, "o", color=colour, markersize=4)
        left.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, -0.2))
    elif isinstance(manifold, SPD | SPDLogEuclidean) and manifold.k == 3:
        both: Any = figure.subfigures(1, 2, width_ratios=(2, 1))
        points = {"private mean": first.center}
        named = {"largest": [1, 0, 0, 1, 0, 1], "least round": [1, 0, 0, -0.5, 0, -0.5], "smallest": [-1, 0, 0, -1, 0, -1]}
        points |= {name: first.boundary(np.array(direction, dtype=np.float64)) for name, direction in named.items()}
        reach = max(float(np.sqrt(np.linalg.eigvalsh(tensor)[-1])) for tensor in points.values())
        for i, (name, tensor) in enumerate(points.items()):
            axes: Any = both[0].add_subplot(1, 4, i + 1, projection="3d")
            axes.plot_surface(*_surface(tensor), color=colours[min(i, 1)], alpha=0.75, linewidth=0, rstride=3, cstride=3)
            axes.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
            axes.set_title(name, fontsize=8)
            axes.set_box_aspect((1, 1, 1), zoom=1.4)
            axes.set_axis_off()
        right = both[1].add_subplot()
    else:
        right = figure.add_subplot()
    positions = np.arange(len(regions))
    for shift, part, colour in ((-0.25, "sampling", GREEN), (0.0, "noise", ORANGE), (0.25, "radius", BLUE)):
        heights = [getattr(region, part) for region in regions.values()]
        right.bar(positions + shift, heights, width=0.22, color=colour, label=part)
    right.set_xticks(positions, list(regions))
    right.set(ylabel="geodesic distance", title="radius")
    right.legend(frameon=False, fontsize=8)
    title = f"Confidence regions for the mean, {manifold}, level {first.level:g}"
    figure.suptitle(_title(title, all(region.private for region in regions.values())), fontsize=11)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.removeprefix("."), dpi=150)
    write_whole(path, picture.getvalue())
