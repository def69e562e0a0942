"""Pictures of results. Importing this module imports matplotlib.

``.plot()`` of a ball, a plan, a release of any kind, a confidence region or a ledger draws it and returns a :class:`Picture`,
which notebooks show. Everything is drawn from public numbers and from releases.

*The chart.* A release on any manifold is drawn in a plane of the tangent space at the centre of the ball: the plane through the
centre and the released point, which shows their true distance. The projection of a ball of radius ``e`` about that point stays
in the drawn disc, because ``log`` and the projection stretch no length. If the curvature is positive, ``log`` stretches by up to
:func:`geodp.noise.tangent.stretch_of_log`, and the disc is enlarged by that factor.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable
from functools import singledispatch
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from matplotlib.figure import Figure

from geodp.files.writing import write_whole
from geodp.inputs import Array
from geodp.manifolds import SPD, Manifold, PlanarShapes, SPDLogEuclidean, Sphere
from geodp.manifolds.ball import Ball
from geodp.manifolds.notation import Notation
from geodp.noise.tangent import stretch_of_log
from geodp.planning import plan
from geodp.privacy.ledger import Budget, Ledger
from geodp.privacy.notions import Privacy
from geodp.privacy.risk import Risk
from geodp.programs.ball import BallRelease
from geodp.programs.chain import ChainPlan
from geodp.programs.kmeans import KMeansRelease
from geodp.receipt import SIMULATION, GroupedRelease, Release
from geodp.regions import Comparison, ConfidenceRegion
from geodp.request import Plan
from geodp.session import Session
from geodp.showing import picture_kind
from geodp.statistics.covariance import Components, CovarianceRelease
from geodp.statistics.coverage import CoverageRelease
from geodp.statistics.variance import VarianceRelease

if TYPE_CHECKING:
    from geodp.auditing import AuditResult

#: Okabe and Ito's colours, which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"

#: Points of the unit circle, one a row.
_CIRCLE = np.stack([np.cos(np.linspace(0.0, 2.0 * np.pi, 181)), np.sin(np.linspace(0.0, 2.0 * np.pi, 181))], axis=-1)

#: Kinds of files, drawn without the time: after a release it would tell how long the mean took.
_WITHOUT_CLOCK: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


@final
class Picture:
    """A drawn figure: notebooks show it, and :meth:`save` writes it.

    >>> from geodp import Ball, Sphere
    >>> picture = Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5).plot()
    >>> picture._repr_png_()[1:4]
    b'PNG'
    """

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def _repr_png_(self) -> bytes:
        return self._drawn("png", 100)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the whole figure or nothing: .png, .svg or .pdf."""
        write_whole(Path(path), self._drawn(picture_kind(path), 150))

    def _drawn(self, kind: str, dpi: int) -> bytes:
        drawn = io.BytesIO()
        self.figure.savefig(drawn, format=kind, dpi=dpi, metadata=_WITHOUT_CLOCK[kind])
        return drawn.getvalue()


def picture(thing: Any, path: str | os.PathLike[str] | None = None) -> Picture:
    """The picture of a result, also written to ``path`` if one is given."""
    figure = _figure(thing)
    if not getattr(thing, "private", True) and not figure.get_suptitle():
        figure.suptitle(SIMULATION, color=ORANGE, fontsize=11)
    found = Picture(figure)
    if path is not None:
        found.save(path)
    return found


@singledispatch
def _figure(thing: Any) -> Figure:
    raise TypeError(f"there is no picture of a {type(thing).__name__}")


def ellipsoids(tensors: dict[str, Array], title: str, path: Path) -> None:
    """3x3 positive-definite matrices as ellipsoids, side by side in the same scale: axes are square roots of eigenvalues."""
    figure = Figure(figsize=(4.2 * len(tensors), 4.4), layout="constrained")
    reach = _longest_axis(list(tensors.values()))
    for i, (name, tensor) in enumerate(tensors.items()):
        axes = _ellipsoid_axes(figure, (1, len(tensors), i + 1), [(tensor, (BLUE, ORANGE, GREEN)[i % 3], None)], reach)
        axes.set(title=name, xlabel="x", ylabel="y", zlabel="z")
        axes.locator_params(nbins=4)
    figure.suptitle(title, fontsize=11)
    _save(figure, path)


def _longest_axis(tensors: list[Array] | Array) -> float:
    """The largest square root of an eigenvalue."""
    return float(np.sqrt(np.linalg.eigvalsh(tensors)[..., -1].max()))


def _ellipsoid_axes(
    figure: Any, panel: tuple[int, int, int], drawn: Iterable[tuple[Array, str, str | None]], reach: float, alpha: float = 0.75
) -> Any:
    """A panel with 3x3 matrices as ellipsoids, each with its colour and label."""
    axes = figure.add_subplot(*panel, projection="3d")
    u, v = np.meshgrid(np.linspace(0.0, 2.0 * np.pi, 61), np.linspace(0.0, np.pi, 31))
    unit = np.stack([np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)])
    for tensor, colour, label in drawn:
        surface = np.einsum("ij,jkl->ikl", np.linalg.cholesky(tensor), unit)
        axes.plot_surface(*surface, color=colour, alpha=alpha, linewidth=0, rstride=2, cstride=2, label=label)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
    axes.set_box_aspect((1, 1, 1))
    return axes


def error_against_n(ball: Ball, privacy: Privacy, around: int, path: Path) -> None:
    """Draw :meth:`geodp.Plan.plot` into a file."""
    _save(_error_against_n(ball, privacy, around, Notation(ball.manifold)), path)


@_figure.register
def _(planned: Plan) -> Figure:
    return _error_against_n(planned.ball, planned.privacy, planned.n, planned.notation)


@_figure.register
def _(chain: ChainPlan) -> Figure:
    return _figure(chain.mean)


def _error_against_n(ball: Ball, privacy: Privacy, around: int, notation: Notation) -> Figure:
    """Expected error against the number of records."""
    counts = np.unique(np.geomspace(max(around / 30.0, 5.0), around * 30.0, 13).astype(int))
    found: list[Any] = []
    for n in counts:
        try:
            found.append(plan(ball, int(n), **privacy.parameters()))
        except ValueError:  # with so few records the noise does not fit in a float
            continue
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    errors = [each.expected_error for each in found]
    axes.loglog([each.n for each in found], errors, color=BLUE, label="this release", linewidth=2)
    axes.axvline(around, color="black", linewidth=0.8)
    axes.axhline(ball.radius, color=GREEN, linewidth=1, label=f"radius of the ball: {notation.length(ball.radius)}")
    axes.set(xlabel="number of records", ylabel="expected error", title=f"{ball.manifold}, radius {ball.radius:g}, {privacy}")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    _unit_axis(axes, notation)
    return figure


def _unit_axis(axes: Any, notation: Notation) -> None:
    """A second vertical axis in a unit of lengths, if one is proportional to them."""
    unit = notation.proportional
    if unit is not None:
        rate = unit.convert(1.0)
        axes.secondary_yaxis("right", functions=(lambda x: x * rate, lambda x: x / rate)).set_ylabel(unit.name)


def privacy_loss(result: AuditResult, path: Path) -> None:
    """An audit: how often each privacy loss occurred on each data set, and the loss that these counts imply."""
    edges = np.array(result.loss_edges)
    middles = 0.5 * (edges[1:] + edges[:-1])
    figure = Figure(figsize=(6.8, 6.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for name, counts, colour, line in zip(("first", "second"), result.loss_counts, (BLUE, ORANGE), ("-", "--"), strict=True):
        shares = np.array(counts) / sum(counts)
        above.stairs(shares, edges, color=colour, linestyle=line, linewidth=1.8, label=f"runs on the {name} data set")
    above.set(ylabel="share of the runs", yscale="log")
    verdict = "consistent" if result.consistent else "REFUTED"
    title = f"{result.manifold}, n = {result.n}, claimed {result.privacy}: {verdict}"
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
    """Trade-off curves, by their names: the largest true-positive rate of any attack against its false-positive rate."""
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
    """Draw :meth:`geodp.statistics.covariance.Components.plot` into a file, for the first ``count`` components."""
    _save(_geodesics(components, count), path)


@_figure.register
def _(release: CovarianceRelease) -> Figure:
    return _geodesics(release.components())


@_figure.register(Components)
def _geodesics(components: Components, count: int = 3) -> Figure:
    """Principal geodesics from two standard deviations below the base to two above it, one a row, the largest first.

    Small matrices are drawn as ellipses or ellipsoids along the geodesic, directions as arcs on a globe, shapes as outlines.
    Everything else, and all deviations, are drawn as bars with error bars and the level of the noise.
    """
    manifold, shown = components.manifold, min(count, len(components))
    draw, _ = _drawers(manifold)
    rows = shown if draw is _ellipsoids_along else 1
    figure = Figure(figsize=(9.6 if draw else 5.2, 2.0 + 1.7 * rows if rows > 1 else 4.2), layout="constrained")
    if draw is None:
        _deviations(figure.add_subplot(), components)
    else:
        both: Any = figure.subfigures(1, 2, width_ratios=(2, 1))
        draw(both[0], components, shown)
        _deviations(both[1].add_subplot(), components)
    figure.suptitle(_title(f"Principal geodesics on {manifold}", components.private), fontsize=11)
    return figure


def _title(text: str, private: bool) -> str:
    return text if private else f"{SIMULATION}\n{text}"


def _drawers(manifold: Manifold) -> tuple[Any, Any]:
    """The functions that draw points along geodesics, and one released point, as what they are; None where there are none."""
    if isinstance(manifold, SPD | SPDLogEuclidean) and manifold.k in (2, 3):
        return _ellipsoids_along, _ellipsoid_portrait
    if isinstance(manifold, PlanarShapes):
        return _outlines_along, _outline_portrait
    return (_arcs, _globe_portrait) if isinstance(manifold, Sphere) and manifold.d == 2 else (None, None)


_STEPS = np.linspace(-2.0, 2.0, 5)


def _deviations(axes: Any, components: Components) -> None:
    """Standard deviations with their intervals; grey ones may be only noise."""
    deviations, ends = components.standard_deviations, components.intervals
    positions = np.arange(1, len(components) + 1)
    colours = [BLUE if meaningful else GREY for meaningful in components.meaningful]
    axes.bar(positions, deviations, color=colours, alpha=0.8)
    axes.errorbar(positions, deviations, np.abs(ends.T - deviations), fmt="none", ecolor="black", elinewidth=1, capsize=2)
    axes.axhline(np.sqrt(components.level), color=ORANGE, linewidth=1, linestyle="--", label="level of the noise")
    axes.set(xlabel="component", ylabel="standard deviation")
    axes.margins(y=0.12)  # room for the legend above the bars
    if len(components) <= 8:
        axes.set_xticks(positions)
    axes.legend(frameon=False, fontsize=8)


def _ellipsoids_along(figure: Any, components: Components, shown: int) -> None:
    size = components.manifold.point_shape[0]
    points = [components.geodesic(i, _STEPS) for i in range(shown)]
    reach = _longest_axis(points)
    for i, row in enumerate(points):
        for j, (step, tensor) in enumerate(zip(_STEPS, row, strict=True)):
            place = (shown, len(_STEPS), i * len(_STEPS) + j + 1)
            colour = ORANGE if step == 0.0 else BLUE
            if size == 3:
                axes = _ellipsoid_axes(figure, place, [(tensor, colour, None)], reach)
                axes.set_box_aspect((1, 1, 1), zoom=1.7)
            else:
                axes = figure.add_subplot(*place)
                axes.fill(*(np.linalg.cholesky(tensor) @ _CIRCLE.T), color=colour, alpha=0.75)
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
    """Draws a globe with meridians and parallels, north up, seen from a point; returns the map from points to the page."""
    up = np.array([0.0, 0.0, 1.0]) - towards * (towards[2] / (towards @ towards))
    frame = np.stack([np.cross(up, towards), up]) if np.linalg.vector_norm(up) > 1e-6 else sphere.tangent(towards, np.eye(2))
    frame = frame / np.linalg.vector_norm(frame, axis=-1, keepdims=True)

    def flat(points: Array) -> Array:
        return points @ frame.T

    size = float(np.linalg.vector_norm(towards))
    axes.plot(*(size * _CIRCLE.T), color="black", linewidth=0.8)
    parallels = [np.insert(np.cos(angle) * _CIRCLE, 2, np.sin(angle), axis=1) for angle in np.radians(np.arange(-75, 90, 15))]
    towards_equator = [np.array([np.cos(turn), np.sin(turn), 0.0]) for turn in np.radians(np.arange(0, 180, 15))]
    meridians = [_CIRCLE @ np.stack([equator, [0.0, 0.0, 1.0]]) for equator in towards_equator]
    for ring in (*parallels, *meridians):
        near = np.where((ring @ towards > 0.0)[:, None], size * flat(ring), np.nan)  # the half of it that can be seen
        axes.plot(*near.T, color=GREY, linewidth=0.4, alpha=0.5)
    axes.set(aspect="equal", xlim=(-1.05 * size, 1.05 * size), ylim=(-1.05 * size, 1.05 * size))
    axes.set_axis_off()
    return flat


def confidence_regions(regions: dict[str, ConfidenceRegion], path: Path) -> None:
    """Draw confidence regions into a file, by their names."""
    _save(_regions(regions), path)


@_figure.register
def _(region: ConfidenceRegion) -> Figure:
    return _regions({f"{region.level:g}": region})


def _regions(regions: dict[str, ConfidenceRegion]) -> Figure:
    """Confidence regions, by their names: on a globe for directions, otherwise as bars of the parts of each radius.

    For 3x3 matrices also the mean and three points of the boundary as ellipsoids.
    """
    first = next(iter(regions.values()))
    manifold = first.manifold
    figure = Figure(figsize=(9.6, 4.6), layout="constrained")
    colours = (BLUE, GREEN, ORANGE, GREY)
    if isinstance(manifold, Sphere) and manifold.d == 2:
        left, right = figure.subplots(1, 2)
        flat = _globe(left, first.center, manifold)
        for (name, region), colour in zip(regions.items(), colours, strict=False):
            left.plot(*flat(region.boundary(_CIRCLE)).T, color=colour, linewidth=1.5, label=name)
            left.plot(*flat(region.center[None]).T, "o", color=colour, markersize=4)
        left.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, -0.2))
    elif isinstance(manifold, SPD | SPDLogEuclidean) and manifold.k == 3:
        both: Any = figure.subfigures(1, 2, width_ratios=(2, 1))
        points = {"private mean": first.center}
        named = {"largest": [1, 0, 0, 1, 0, 1], "least round": [1, 0, 0, -0.5, 0, -0.5], "smallest": [-1, 0, 0, -1, 0, -1]}
        points |= {name: first.boundary(np.array(direction, dtype=np.float64)) for name, direction in named.items()}
        reach = _longest_axis(list(points.values()))
        for i, (name, tensor) in enumerate(points.items()):
            axes = _ellipsoid_axes(both[0], (1, 4, i + 1), [(tensor, colours[min(i, 1)], None)], reach)
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
    _unit_axis(right, first.mean.notation)
    right.margins(y=0.12)
    right.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", handlelength=1.0, columnspacing=1.0)
    title = f"Confidence regions for the mean, {manifold}, level {first.level:g}"
    figure.suptitle(_title(title, all(region.private for region in regions.values())), fontsize=11)
    return figure


def _save(figure: Figure, path: Path) -> None:
    Picture(figure).save(path)


# ---------------------------------------------------------------------- balls and releases


class _Chart:
    """A plane of the tangent space at the centre of a ball, through a point if one is given; lengths in everyday units.

    On ``Sphere(2)`` the plane is the whole tangent space, with north up. In one dimension it is a line.
    """

    def __init__(self, ball: Ball, notation: Notation, through: Array | None = None) -> None:
        self.ball, self.notation, manifold = ball, notation, ball.manifold
        axes = np.concatenate([manifold.scale_directions, np.eye(manifold.dim)])
        towards = None if through is None else self.coordinates(through[None])[0]
        if towards is not None and np.linalg.vector_norm(towards) > 1e-12:
            axes = np.concatenate([axes[:1], towards[None], axes[1:]])
        if isinstance(manifold, Sphere) and manifold.d == 2:
            up = manifold.raw_project_tangent(ball.center, np.array([0.0, 0.0, 1.0]))
            if np.linalg.vector_norm(up) > 1e-6:
                axes = manifold.raw_coordinates(ball.center, np.stack([np.cross(up, ball.center), up]))
        self.frame = _orthonormal_rows(axes, min(2, manifold.dim))
        unit = notation.proportional
        self.rate, self.unit = (1.0, "geodesic distance") if unit is None else (unit.convert(1.0), unit.name)
        self.stretch = stretch_of_log(ball)

    def coordinates(self, points: Array) -> Array:
        """Normal coordinates at the centre."""
        manifold, center = self.ball.manifold, self.ball.center
        return manifold.raw_coordinates(center, manifold.raw_log(center, points))

    def places(self, points: Array) -> Array:
        """The positions of points in the plane."""
        flat = self.rate * self.coordinates(points) @ self.frame.T
        return flat if flat.shape[-1] == 2 else np.concatenate([flat, np.zeros_like(flat)], axis=-1)

    def disc(self, axes: Any, place: Array, radius: float, colour: str, label: str, **style: Any) -> None:
        """Draws a disc that contains the points within a distance of a place."""
        if len(self.frame) == 1:
            ends = place[0] + self.rate * radius * np.array([-1.0, 1.0])
            axes.plot(ends, place[[1, 1]], color=colour, label=label, linewidth=6, solid_capstyle="butt", alpha=0.6)
            return
        ring = place + self.rate * radius * _CIRCLE
        axes.plot(*ring.T, color=colour, label=label, **style)
        axes.fill(*ring.T, color=colour, alpha=0.10, linewidth=0)

    def label(self, axes: Any, title: str, place: Array, reach: float) -> None:
        """Sets the limits around a place, the labels and the legend."""
        half, two = 1.15 * self.rate * reach, len(self.frame) == 2
        axes.set(xlim=(place[0] - half, place[0] + half), xlabel=f"{self.unit} from the centre of the ball")
        axes.set_title(title, fontsize=10)
        axes.grid(True, alpha=0.25)
        if two:
            axes.set(ylim=(place[1] - half, place[1] + half), aspect="equal")
        else:
            axes.set(ylim=(-1.0, 1.0), yticks=[], xlabel=", ".join(self.notation.names) or axes.get_xlabel())
            if self.notation.layout is not None:
                axes.xaxis.set_major_formatter(lambda x, _: self._cell(x))
        axes.locator_params(axis="x", nbins=5 if two else 3)
        below = (0.5, -0.14 if two else -0.75)
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=below, borderaxespad=0.0)

    def _cell(self, x: float) -> str:
        """The text in a file for a position on the line."""
        manifold, center = self.ball.manifold, self.ball.center
        point = manifold.raw_exp(center, manifold.raw_tangent(center, np.array([x / self.rate]) @ self.frame))
        cell = self.notation.cells(point)[0]
        return cell if isinstance(cell, str) else f"{cell:.6g}"


def _panels(count: int, dim: int = 2) -> tuple[Figure, list[Any]]:
    """A figure with panels side by side (low ones for a line) and room for their legends below."""
    width, height = 4.6 * count + 0.4, 5.6 if dim > 1 else 2.9
    figure = Figure(figsize=(width, height))
    figure.subplots_adjust(left=0.62 / width + 0.02, right=0.98, top=1.0 - 0.75 / height, bottom=1.45 / height, wspace=0.26)
    return figure, [(1, count, i + 1) for i in range(count)]


def _orthonormal_rows(vectors: Array, count: int) -> Array:
    """The first ``count`` orthonormal directions of these vectors, skipping those in the span of earlier ones."""
    found: list[Array] = []
    for vector in vectors:
        rest = vector / np.linalg.vector_norm(vector)
        for row in found:
            rest = rest - (rest @ row) * row
        length = float(np.linalg.vector_norm(rest))
        if length > 1e-6 and len(found) < count:
            found.append(rest / length)
    return np.array(found)


def _written_point(point: Array, notation: Notation) -> str:
    """A point for a legend: in its layout if that is short, else in words."""
    written = notation.point(point)
    return written if written and "\n" not in written and len(written) < 60 else notation.manifold.in_words(point)


@_figure.register
def _(ball: Ball) -> Figure:
    (figure, places), chart = _panels(1, ball.manifold.dim), _Chart(ball, Notation(ball.manifold))
    axes = figure.add_subplot(*places[0])
    chart.disc(axes, np.zeros(2), ball.radius, GREY, f"radius {chart.notation.length(ball.radius)}")
    axes.plot(0.0, 0.0, "+", color="black", label="centre")
    chart.label(axes, f"Public ball on {ball.manifold}", np.zeros(2), ball.radius)
    return figure


@_figure.register
def _(release: BallRelease) -> Figure:
    (figure, places), notation = _panels(1, release.ball.manifold.dim), release.notation
    start, found = release.search.start, release.ball
    outer = start if isinstance(start, Ball) else found
    axes, chart = figure.add_subplot(*places[0]), _Chart(outer, notation, found.center)
    place = chart.places(found.center[None])[0]
    if isinstance(start, Ball):
        chart.disc(axes, np.zeros(2), start.radius, GREY, f"before: radius {notation.length(start.radius)}")
    chart.disc(axes, place, found.radius, BLUE, f"after: radius {notation.length(found.radius)}")
    axes.plot(*place, "+", color="black", label=_written_point(found.center, notation) or "centre")
    chart.label(axes, f"Private ball on {found.manifold}", np.zeros(2) if isinstance(start, Ball) else place, outer.radius)
    return figure


@_figure.register
def _(release: KMeansRelease) -> Figure:
    (figure, places), chart = _panels(1, release.manifold.dim), _Chart(release.ball, release.notation, release.centers[0])
    axes = figure.add_subplot(*places[0])
    chart.disc(axes, np.zeros(2), release.ball.radius, GREY, "the public ball")
    for place, count in zip(chart.places(release.centers), release.counts, strict=True):
        axes.plot(*place, "o", label=f"about {max(0.0, count):.0f} {release.unit}s")
    chart.label(axes, f"Private clusters on {release.manifold}", np.zeros(2), release.ball.radius)
    return figure


@_figure.register
def _(release: Release) -> Figure:
    return before_and_after(release) if release.is_point else _number(release)


def before_and_after(release: Release, records: Array | None = None, true: Array | None = None) -> Figure:
    """A picture of a released point, of the public ball before, and of the point with its error after.

    ``records`` and ``true`` are for demonstrations, which are not private.
    """
    notation, point, error = release.notation, release.value, _error(release)
    ball = release.ball or _about(point, error, release.manifold)
    chart, (_, portrait) = _Chart(ball, notation, point), _drawers(release.manifold)
    titles = ["before: the public ball"] * (release.ball is not None) + ["after: the error"]
    figure, panels = _panels(len(titles) + (portrait is not None), release.manifold.dim)
    if portrait is not None:
        portrait(figure, panels.pop(0), release, true)
    place, reach = chart.places(point[None])[0], min(chart.stretch * error, 2.0 * ball.radius)
    said = _written_point(point, notation)
    for title, panel in zip(titles, panels, strict=True):
        axes = figure.add_subplot(*panel)
        if release.ball is not None:
            chart.disc(axes, np.zeros(2), ball.radius, GREY, f"public ball: radius {notation.length(ball.radius)}")
        if records is not None:
            places = chart.places(ball.clip(records))
            axes.plot(*places.T, ".", color=GREY, markersize=3, alpha=0.5, label="records, moved into the ball")
        chart.disc(axes, place, reach, BLUE, f"95% error: {notation.length(error)}", linewidth=1.5)
        axes.plot(*place, "o", color=BLUE, markersize=5, label=f"released: {said}" if said else "released")
        if true is not None:
            axes.plot(*chart.places(true[None])[0], "x", color=ORANGE, markersize=8, label="true mean")
        before = title.startswith("before")
        chart.label(axes, title, np.zeros(2) if before else place, ball.radius if before else 1.5 * reach)
    title = f"{release.statistic.kind.capitalize()} on {release.manifold}, {release.privacy}"
    figure.suptitle(_title(title, release.private), fontsize=11)
    return figure


def _ellipsoid_portrait(figure: Figure, panel: tuple[int, int, int], release: Release, true: Array | None) -> None:
    """The released matrix, and outlines of those with all standard deviations at the ends of the error."""
    tensors = [(release.value, BLUE, "released"), *([] if true is None else [(true, ORANGE, "true mean")])]
    ends = np.exp(0.5 * _error(release) * np.array([-1.0, 1.0]))
    reach = float(ends[1]) * _longest_axis([tensor for tensor, _, _ in tensors])
    if len(release.value) == 3:
        axes = _ellipsoid_axes(figure, panel, tensors, reach, alpha=0.35)
    else:
        axes = figure.add_subplot(*panel)
        for tensor, colour, name in tensors:
            ellipse = np.linalg.cholesky(tensor) @ _CIRCLE.T
            axes.fill(*ellipse, color=colour, alpha=0.35, label=name)
            for end in ends if colour == BLUE else ():
                axes.plot(*(end * ellipse), color=colour, linewidth=1, linestyle="--")
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axes.locator_params(nbins=4)
    axes.set_title("the matrix: axes are standard deviations", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.04))


def _outline_portrait(figure: Figure, panel: tuple[int, int, int], release: Release, true: Array | None) -> None:
    axes = figure.add_subplot(*panel)
    for shape, colour, name in [(release.value, BLUE, "released"), *([] if true is None else [(true, ORANGE, "true mean")])]:
        axes.plot(*np.concatenate([shape, shape[:1]]).T, "o-", color=colour, markersize=4, label=name)
    axes.set(aspect="equal", title="the shape, of size 1")
    axes.legend(frameon=False, fontsize=8)


def _globe_portrait(figure: Figure, panel: tuple[int, int, int], release: Release, true: Array | None) -> None:
    axes, manifold = figure.add_subplot(*panel), release.manifold
    center = release.value if release.ball is None else release.ball.center
    flat = _globe(axes, center, manifold)
    for base, radius, colour in (
        (center, 0.0 if release.ball is None else release.ball.radius, GREY),
        (release.value, min(_error(release), 0.5 * manifold.diameter), BLUE),
    ):
        axes.plot(*flat(manifold.exp(base, manifold.tangent(base, radius * _CIRCLE))).T, color=colour, linewidth=1.5)
    axes.plot(*flat(release.value[None]).T, "o", color=BLUE, markersize=4)
    axes.set_title("where it is", fontsize=10)


def _about(point: Array, reach: float, manifold: Manifold) -> Ball:
    """A ball to draw in, if the release has none."""
    most = Ball(manifold, point, 1e-3).max_radius
    return Ball(manifold, point, min(max(2.0 * reach, 1e-6), 0.9 * most))


def _error(release: Release) -> float:
    """The error with probability 95%: noise and clipping, where this was measured, else noise alone."""
    total = release.total_error(0.95)
    return release.error_quantile(0.95) if total is None else total


def _number(release: Release) -> Figure:
    """Released numbers with their error bars."""
    figure = Figure(figsize=(5.2, 3.0), layout="constrained")
    axes = figure.add_subplot()
    values, error = np.atleast_1d(release.value).ravel(), release.error_quantile(0.95)
    axes.errorbar(values, np.arange(len(values)), xerr=error, fmt="o", color=BLUE, capsize=3)
    axes.set(yticks=[], title=f"{release.statistic.kind} on {release.manifold}: within {error:.3g} with probability 95%")
    return figure


@_figure.register
def _(release: CoverageRelease) -> Figure:
    figure = Figure(figsize=(5.6, 2.6), layout="constrained")
    axes, n, error = figure.add_subplot(), release.n or 0, release.valid_margin
    axes.barh(["valid"], [release.valid], xerr=error, color=GREEN, alpha=0.8, capsize=3)
    axes.axvline(n, color="black", linewidth=1, label=f"all {n} {release.unit}s")
    moved = f"clipping moved the mean by at most {release.notation.length(release.clipping)}"
    axes.set(xlim=(0, 1.05 * max(n, 1) + error), xlabel=f"{release.unit}s, with the 95% error", title=moved)
    axes.legend(frameon=False, fontsize=8)
    return figure


@_figure.register
def _(release: VarianceRelease) -> Figure:
    return _intervals({"about the centre" if release.about == "center" else "about the mean": release})


def _intervals(releases: dict[str, VarianceRelease]) -> Figure:
    """Standard deviations with their intervals, on an axis from 0 to the radius of the ball."""
    figure = Figure(figsize=(6.4, 1.8 + 0.35 * len(releases)), layout="constrained")
    axes = figure.add_subplot()
    first = next(iter(releases.values()))
    for i, release in enumerate(releases.values()):
        low, high = (math.sqrt(end) for end in release.interval())
        axes.plot([low, high], [i, i], color=BLUE, linewidth=3)
        axes.plot(release.standard_deviation, i, "o", color=BLUE)
        said = first.notation.length(release.standard_deviation)
        axes.annotate(said, (release.standard_deviation, i), (0, 8), textcoords="offset points", ha="center", fontsize=8)
    assert first.ball is not None
    label = f"radius of the ball: {first.notation.length(first.ball.radius)}"
    axes.axvline(first.ball.radius, color=GREY, linewidth=1, label=label)
    axes.set_yticks(range(len(releases)), list(releases))
    axes.set(xlim=(0, 1.05 * first.ball.radius), ylim=(-0.6, len(releases) - 0.4), xlabel="standard deviation, 95% interval")
    axes.legend(frameon=False, fontsize=8)
    return figure


@_figure.register
def _(groups: GroupedRelease) -> Figure:
    named: dict[str, Any] = {str(name): release for name, release in groups.items()}
    first = next(iter(named.values()))
    if isinstance(first, VarianceRelease):
        return _intervals({name: release for name, release in named.items() if isinstance(release, VarianceRelease)})
    if first.ball is not None and first.is_point:
        return _means(named, "Means of groups")
    figure = Figure(figsize=(6.4, 1.8 + 0.35 * len(named)), layout="constrained")
    axes = figure.add_subplot()
    errors = [_error(release) for release in named.values()]
    axes.barh(list(named), errors, color=BLUE)
    axes.set(xlabel="95% error", title=f"{first.statistic.kind} on {first.manifold}")
    return figure


@_figure.register
def _(found: Comparison) -> Figure:
    title = f"Distance {found.first.notation.length(found.distance)}, p-value {found.p_value:.2g}"
    return _means({"first": found.first, "second": found.second}, title)


def _means(releases: dict[str, Release], title: str) -> Figure:
    """Several means in one ball, with their errors."""
    first = next(iter(releases.values()))
    ball = first.ball
    assert ball is not None
    (figure, panels), chart = _panels(1, ball.manifold.dim), _Chart(ball, first.notation, first.value)
    axes = figure.add_subplot(*panels[0])
    errors = [_error(release) for release in releases.values()]
    places = chart.places(np.stack([release.value for release in releases.values()]))
    reaches = np.minimum(chart.stretch * np.array(errors), 2.0 * ball.radius)
    colours = cycle((BLUE, ORANGE, GREEN, GREY))
    for name, error, place, reach, colour in zip(releases, errors, places, reaches, colours, strict=False):
        label = f"{name}: 95% error {first.notation.length(error)}" if len(releases) <= 6 else ""
        chart.disc(axes, place, reach, colour, label)
        axes.annotate(name, place, (4, 4), textcoords="offset points", fontsize=8)
        axes.plot(*place, "o", color=colour, markersize=4)
    middle = places.mean(axis=0)
    away = np.linalg.vector_norm(places - middle, axis=-1) / chart.rate
    chart.label(axes, title, middle, float((away + reaches).max()))
    return figure


@_figure.register
def _(ledger: Ledger) -> Figure:
    return _budgets([ledger.budget(name) for name in ledger.datasets()])


@_figure.register
def _(session: Session) -> Figure:
    return _budgets([session.budget])


def _budgets(budgets: list[Budget]) -> Figure:
    """How much of every budget is spent."""
    figure = Figure(figsize=(6.4, 1.6 + 0.35 * len(budgets)), layout="constrained")
    axes = figure.add_subplot()
    names = [budget.dataset for budget in budgets]
    used = np.array([100.0 * budget.used for budget in budgets])
    axes.barh(names, used, color=ORANGE, label="spent")
    axes.barh(names, 100.0 - used, left=used, color=GREEN, alpha=0.4, label="left")
    for i, budget in enumerate(budgets):
        axes.annotate(f"{budget.promise}", (2, i), va="center", fontsize=8)
    axes.set(xlim=(0, 100), xlabel="percent of the budget")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=2)
    return figure
