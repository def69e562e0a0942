"""Draw the pictures of the documentation: ``python docs/pictures.py``, or name some: ``python docs/pictures.py clock torus``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

import geodp
from geodp.auditing import worst_case_pair
from geodp.files import parse_manifold
from geodp.inputs import Array
from geodp.noise import exact
from geodp.plots import BLUE, GREEN, GREY, ORANGE, ellipsoids, error_against_n, principal_geodesics
from geodp.privacy.cost import Cost, LaplaceCost, PureCost

IMAGES = Path(__file__).parent / "images"


def overview() -> None:
    """Records in a public cap of the sphere, private means of many releases, and their 95% circle."""
    rng = np.random.default_rng(4)
    sphere = geodp.Sphere(2)
    center = sphere.project([0.45, -0.55, 0.7])
    ball = geodp.Ball(sphere, center, radius=0.6)
    spread = rng.normal(size=(400, 2)) * [0.28, 0.16] + [0.12, 0.05]
    records = ball.clip(sphere.exp(center, sphere.tangent(center, spread)))
    mean = geodp.frechet_mean(records, ball).point
    release = geodp.private_mean(records, ball, epsilon=1.0, simulate=rng)
    draws = geodp.Laplace(sphere, release.scale).sample(mean, 600, rng)

    figure = Figure(figsize=(7.4, 5.0))
    titles = (("records in a public ball", 1.0), ("600 private releases,\n18 times closer", 0.055))
    for column, (title, zoom) in enumerate(titles):
        axes = figure.add_axes((0.01 + 0.5 * column, 0.25, 0.48, 0.62))
        flat = _view(center if column == 0 else mean)
        if column == 0:
            _globe(axes, flat)
            axes.plot(*flat(records).T, ".", color=GREY, markersize=3, label="400 records (private)")
            axes.plot(*flat(_circle(sphere, center, ball.radius)).T, color="black", linewidth=1.2, label="public ball")
        else:
            axes.plot(*flat(draws).T, ".", color=ORANGE, markersize=3, alpha=0.6, label="private means, epsilon = 1")
            circle = _circle(sphere, mean, release.error_quantile(0.95))
            axes.plot(*flat(circle).T, color="black", linewidth=1.2, label="95% error, known beforehand")
        axes.plot(*flat(mean[None]).T, "o", color=BLUE, markersize=7, label="Fréchet mean")
        axes.set(xlim=(-1.05 * zoom, 1.05 * zoom), ylim=(-1.05 * zoom, 1.05 * zoom), aspect="equal")
        axes.set_title(title, fontsize=14)
        axes.set_axis_off()
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=1, frameon=False, fontsize=13, handlelength=1.2)
    figure.savefig(IMAGES / "overview.png", dpi=150)


def _view(middle: Array) -> Callable[[Array], Array]:
    """The sphere as seen from above ``middle``: maps points to coordinates in its tangent plane, NaN if they are behind it."""
    frame = geodp.Sphere(2).tangent(middle, np.eye(2))
    return lambda points: np.where((points @ middle > 0.0)[:, None], points @ frame.T, np.nan)


def _circle(sphere: geodp.Sphere, center: Array, radius: float) -> Array:
    angle = np.linspace(0.0, 2.0 * np.pi, 200)
    return sphere.exp(center, sphere.tangent(center, radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)))


def _globe(axes: Axes, flat: Callable[[Array], Array]) -> None:
    """Outline, parallels and meridians."""
    turn = np.linspace(0.0, 2.0 * np.pi, 400)
    axes.plot(np.cos(turn), np.sin(turn), color="black", linewidth=0.8)
    latitudes, longitudes = np.arange(-1.2, 1.3, 0.4), np.arange(0.0, np.pi, np.pi / 8)
    parallels = [np.stack([np.cos(turn) * np.cos(a), np.sin(turn) * np.cos(a), 0.0 * turn + np.sin(a)]) for a in latitudes]
    meridians = [np.stack([np.sin(turn) * np.cos(a), np.sin(turn) * np.sin(a), np.cos(turn)]) for a in longitudes]
    for line in parallels + meridians:
        axes.plot(*flat(line.T).T, color=GREY, linewidth=0.4, alpha=0.7)


# ---------------------------------------------------------------------- guides


def radius() -> None:
    """A ball that is too small biases the mean; one that is too large adds noise."""
    rng = np.random.default_rng(11)
    sphere, north = geodp.Sphere(2), np.array([0.0, 0.0, 1.0])
    widest = geodp.Ball(sphere, north, 1.4)
    x = sphere.exp(north, sphere.tangent(north, rng.normal(size=(500, 2)) * 0.2 + [0.25, 0.0]))
    whole = geodp.frechet_mean(x, widest).point
    radii = np.linspace(0.08, 1.4, 34)
    balls = [geodp.Ball(sphere, north, r) for r in radii]
    bias = [float(sphere.dist(whole, geodp.frechet_mean(x, ball).point)) for ball in balls]
    figure, axes = _figure()
    for epsilon, line in ((0.2, "-"), (1.0, "--"), (5.0, ":")):
        noise = [geodp.plan(ball, n=500, epsilon=epsilon).expected_error for ball in balls]
        axes.semilogy(radii, noise, line, color=ORANGE, linewidth=2, label=f"noise, epsilon = {epsilon:g} (public)")
    axes.semilogy(radii, bias, color=BLUE, linewidth=2, label="bias from clipping (private, shown for simulated data)")
    axes.set(
        xlabel="radius of the ball", ylabel="distance from the mean", ylim=(1e-5, 2.0), title="Sphere(2), 500 simulated records"
    )
    _finish(figure, axes, "radius.png")


def covariances() -> None:
    """Two channels: ellipses of the true mean and of private ones."""
    rng = np.random.default_rng(1)
    spread = np.array([[1.6, 0.7], [0.7, 0.9]])
    factors = np.linalg.cholesky(spread) @ (np.eye(2) + 0.25 * rng.normal(size=(400, 2, 2)))
    x = factors @ np.swapaxes(factors, -1, -2)
    ball = geodp.Ball(geodp.SPD(2), np.eye(2), radius=3.0)
    mean = geodp.frechet_mean(x, ball).point
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    for column, epsilon in enumerate((0.1, 1.0)):
        axes = figure.add_subplot(1, 2, column + 1)
        for tensor in x[:40]:
            axes.plot(*_ellipse(tensor), color=GREY, linewidth=0.4, alpha=0.5)
        for i in range(12):
            private = geodp.private_mean(x, ball, epsilon, simulate=rng).value
            axes.plot(*_ellipse(private), color=ORANGE, linewidth=1.2, label="private means" if i == 0 else None)
        axes.plot(*_ellipse(mean), color=BLUE, linewidth=2.2, label="true mean")
        axes.plot([], [], color=GREY, linewidth=0.6, label="40 of 400 records")
        axes.set(
            aspect="equal",
            title=f"epsilon = {epsilon:g}",
            xlabel="first channel",
            ylabel="second channel",
            xlim=(-2.1, 2.1),
            ylim=(-2.1, 2.1),
        )
        axes.legend(frameon=False, fontsize=9, loc="upper left")
    figure.savefig(IMAGES / "covariance.png", dpi=130)


def connectome() -> None:
    """Twenty regions in five networks: the mean correlations, private ones, and which of these are above noise."""
    rng = np.random.default_rng(0)
    people, network = 200, np.arange(20) // 4
    strength = 0.7 * np.exp(0.2 * rng.normal(size=(people, 1, 20)))
    signals = strength * rng.normal(size=(people, 400, 5))[:, :, network] + 0.7 * rng.normal(size=(people, 400, 20))
    x = np.stack([np.corrcoef(signal, rowvar=False) for signal in signals])
    atlas = np.where(network[:, None] == network, 0.4, 0.0) + 0.6 * np.eye(20)
    ball = geodp.Ball(geodp.Correlation(20), atlas, radius=2.0)
    release = geodp.private_mean(x, ball, 5.0, 1e-5, simulate=rng)
    around = geodp.Laplace(ball.manifold, release.scale).sample(release.value, 400, rng)
    shown = [
        ("mean of 200 simulated people", geodp.frechet_mean(x, ball).point),
        ("private, epsilon 5, delta 1e-5", release.value),
        ("private, edges above noise", np.where(np.abs(release.value) > 3.5 * around.std(axis=0), release.value, np.nan)),
    ]
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    for column, (title, matrix) in enumerate(shown):
        axes = figure.add_subplot(1, 3, column + 1)
        picture = axes.imshow(matrix, cmap="RdBu_r", vmin=-1.0, vmax=1.0)
        axes.set_title(title, fontsize=10)
        axes.set(xticks=[], yticks=[])
    figure.colorbar(picture, ax=figure.axes, shrink=0.8, label="correlation")
    figure.savefig(IMAGES / "connectome.png", dpi=130)


def _ellipse(tensor: Array) -> Array:
    angle = np.linspace(0.0, 2.0 * np.pi, 120)
    return np.linalg.cholesky(tensor) @ np.stack([np.cos(angle), np.sin(angle)])


def tensors() -> None:
    x, ball = geodp.data.load("dti_tensors"), geodp.Ball(geodp.SPD(3), 0.75 * np.eye(3), radius=1.5)
    mean = geodp.frechet_mean(x, ball).point
    rng = np.random.default_rng(2)
    shown = {"true mean": mean} | {
        f"private, epsilon = {epsilon:g}": geodp.private_mean(x, ball, epsilon, simulate=rng).value for epsilon in (1.0, 0.1)
    }
    ellipsoids(shown, "Mean of 965 diffusion tensors (a demonstration: it shows the true mean)", IMAGES / "tensors.png")


def clock() -> None:
    """Arrival times around a clock face of 24 hours."""
    x = geodp.data.load("icu_arrivals")
    mean = x.mean(axis=0) / np.linalg.vector_norm(x.mean(axis=0))
    release = geodp.private_projected_mean(x, geodp.Sphere(1), epsilon=1.0, simulate=np.random.default_rng(5))
    figure = Figure(figsize=(6.4, 5.6), layout="constrained")
    axes: Any = figure.add_subplot(projection="polar")
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    angles = np.arctan2(x[:, 0], x[:, 1])
    counts, edges = np.histogram(angles % (2.0 * np.pi), bins=24, range=(0.0, 2.0 * np.pi))
    axes.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=GREY, alpha=0.45, label="254 arrivals")
    top = counts.max() * 1.1
    within = release.error_quantile(0.95)
    for point, colour, name in ((mean, BLUE, "projected mean"), (release.value, ORANGE, "private one, epsilon = 1")):
        axes.plot([np.arctan2(*point)] * 2, [0.0, top], color=colour, linewidth=2.4, label=name)
    arc = np.linspace(-within, within, 30) + np.arctan2(*release.value)
    axes.plot(arc, np.full(30, 0.97 * top), color=ORANGE, linewidth=5, alpha=0.5, solid_capstyle="butt", label="95% error bar")
    axes.set_xticks(np.arange(8) * np.pi / 4.0, [f"{3 * i:02d}:00" for i in range(8)])
    axes.set_yticks([])
    axes.set_ylim(0.0, 1.06 * top)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.08, 0.5), fontsize=9)
    figure.savefig(IMAGES / "clock.png", dpi=130)


def rotations() -> None:
    """The three axes of each pose as points on a globe."""
    rng = np.random.default_rng(5)
    space = geodp.Rotations(3)
    pose = space.exp(np.eye(3), space.tangent(np.eye(3), [0.3, 0.1, 0.2]))
    x = space.exp(pose, space.tangent(pose, 0.15 * rng.normal(size=(600, 3))))
    ball = geodp.Ball(space, np.eye(3), radius=1.0)
    mean = geodp.frechet_mean(x, ball).point
    private = np.array([geodp.private_mean(x, ball, 0.2, simulate=rng).value for _ in range(60)])
    flat = _view(geodp.Sphere(2).project([1.0, 1.0, 1.0]))
    figure = Figure(figsize=(6.2, 5.8), layout="constrained")
    axes = figure.add_subplot()
    _globe(axes, flat)
    for axis in range(3):
        first = axis == 0
        axes.plot(*flat(x[:, :, axis]).T, ".", color=GREY, markersize=2, label="axes of 600 poses" if first else None)
        axes.plot(
            *flat(private[:, :, axis]).T,
            ".",
            color=ORANGE,
            markersize=5,
            label="60 private means, epsilon = 0.2" if first else None,
        )
        axes.plot(*flat(mean[None, :, axis]).T, "o", color=BLUE, markersize=6, label="mean pose" if first else None)
        axes.annotate("xyz"[axis], 0.78 * flat(mean[None, :, axis])[0], fontsize=15, weight="bold")
    _globe_frame(axes, "Where the three axes of a pose point")
    figure.savefig(IMAGES / "rotations.png", dpi=130)


def axes_without_direction() -> None:
    rng = np.random.default_rng(6)
    space = geodp.Grassmann(1, 3)
    ball = geodp.Ball(space, space.project([[0.3], [0.4], [1.0]]), radius=0.7)
    lines = space.exp(ball.center, space.tangent(ball.center, rng.normal(size=(400, 2)) * [0.25, 0.12]))
    mean = geodp.frechet_mean(lines, ball).point
    private = np.array([geodp.private_mean(lines, ball, 0.2, simulate=rng).value for _ in range(80)])
    middle = geodp.Sphere(2).project(ball.center[:, 0])
    flat = _view(middle)

    def upward(x: Array) -> Array:
        ends = x[..., 0]
        return ends * np.sign(ends @ middle)[..., None]

    figure = Figure(figsize=(6.2, 5.8), layout="constrained")
    plot = figure.add_subplot()
    _globe(plot, flat)
    plot.plot(*flat(upward(lines)).T, ".", color=GREY, markersize=3, label="400 axes, one end of each")
    plot.plot(*flat(upward(private)).T, ".", color=ORANGE, markersize=5, label="80 private mean axes, epsilon = 0.2")
    plot.plot(*flat(upward(mean[None])).T, "o", color=BLUE, markersize=7, label="mean axis")
    plot.plot(*flat(_circle(geodp.Sphere(2), middle, 0.7)).T, color="black", linewidth=1.2, label="public ball")
    _globe_frame(plot, "Axes without a direction: Grassmann(1, 3)")
    figure.savefig(IMAGES / "axes.png", dpi=130)


def shapes() -> None:
    rng = np.random.default_rng(8)
    space = geodp.PlanarShapes(6)
    template = space.project([[0.0, 0.0], [2.0, 0.0], [3.0, 1.0], [2.0, 2.0], [0.0, 2.0], [-0.6, 1.0]])
    x = space.exp(template, space.tangent(template, 0.06 * rng.normal(size=(300, space.dim)) + 0.03))
    ball = geodp.Ball(space, template, radius=0.35)
    mean = geodp.frechet_mean(x, ball).point
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    for column, epsilon in enumerate((0.3, 2.0)):
        axes = figure.add_subplot(1, 2, column + 1)
        for i in range(15):
            private = geodp.private_mean(x, ball, epsilon, simulate=rng).value
            axes.plot(
                *_outline(private, template), color=ORANGE, linewidth=1.0, alpha=0.8, label="private means" if i == 0 else None
            )
        axes.plot(*_outline(mean, template), "o-", color=BLUE, linewidth=2.0, label="mean of 300 outlines")
        axes.plot(*_outline(template, template), "--", color="black", linewidth=1.0, label="template (public centre)")
        axes.set(aspect="equal", title=f"epsilon = {epsilon:g}", ylim=(-0.45, 0.8))
        axes.set_axis_off()
        axes.legend(frameon=False, fontsize=9, loc="upper left")
    figure.savefig(IMAGES / "shapes.png", dpi=130)


def _outline(shape: Array, template: Array) -> Array:
    """A closed outline, turned to lie on the template."""
    z, w = shape @ [1.0, 1.0j], template @ [1.0, 1.0j]
    overlap = np.conj(z) @ w
    z = np.append(z, z[0]) * overlap / np.abs(overlap)
    return np.stack([z.real, z.imag])


def budget() -> None:
    figure, axes = _figure(height=2.4)
    charges = [("mean, wave 1", 0.5), ("mean, wave 2", 0.5), ("subgroup", 0.4), ("refused", 0.8)]
    spent = 0.0
    for (name, epsilon), colour in zip(charges, (BLUE, GREEN, "#CC79A7", "white"), strict=True):
        refused = name == "refused"
        axes.barh(
            0.0,
            epsilon,
            left=spent,
            height=0.5,
            color=colour,
            edgecolor=ORANGE if refused else "white",
            hatch="//" if refused else None,
        )
        axes.text(
            spent + epsilon / 2.0,
            0.0,
            f"{name}\n{epsilon:g}",
            ha="center",
            va="center",
            color=ORANGE if refused else "white",
            bbox={"facecolor": "white", "edgecolor": "none"} if refused else None,
        )
        spent += 0.0 if refused else epsilon
    axes.axvline(2.0, color="black", linewidth=2)
    axes.text(2.0, 0.33, " total 2", va="bottom")
    axes.set(xlabel="epsilon", yticks=[], xlim=(0.0, 2.4), ylim=(-0.35, 0.55))
    figure.savefig(IMAGES / "budget.png", dpi=130)


def notions() -> None:
    """The expected error of one mean in three ways, from plans alone."""
    radii = {"Sphere(2)": 0.4, "SPD(2)": 1.0, "Rotations(3)": 0.8, "SPD(3)": 1.0, "Grassmann(2, 12)": 0.4, "SPD(6)": 1.0}
    radii |= {"SPD(12)": 1.0, "Sphere(100)": 0.4, "SPD(28)": 1.0}
    asked: dict[str, tuple[str, str, dict[str, Any]]] = {
        "pure, epsilon = 1": ("o", ORANGE, {"epsilon": 1.0}),
        "Gaussian, (1, 1e-6)": ("s", GREY, {"epsilon": 1.0, "delta": 1e-6, "mechanism": "tangent", "law": "gaussian"}),
        "Laplace, (1, 1e-6)": ("D", BLUE, {"epsilon": 1.0, "delta": 1e-6, "mechanism": "tangent", "law": "laplace"}),
    }
    spaces = [parse_manifold(name) for name in radii]
    balls = [geodp.Ball(space, space.origin, radius) for space, radius in zip(spaces, radii.values(), strict=True)]
    figure, axes = _figure(7.4, 4.8)
    rows = np.arange(len(balls))
    found = {}
    for name, (marker, colour, options) in asked.items():
        found[name] = [geodp.plan(ball, n=2000, **options).expected_error / ball.radius for ball in balls]
        hollow = {"markerfacecolor": "white", "markeredgewidth": 1.6} if marker == "s" else {}
        axes.plot(found[name], rows, marker, color=colour, markersize=7, label=name, zorder=3, **hollow)
    errors = np.array(list(found.values()))
    axes.hlines(rows, errors.min(axis=0), errors.max(axis=0), color=GREY, linewidth=1.0, alpha=0.6)
    axes.set_xscale("log")
    axes.set_xticks([0.003, 0.01, 0.03, 0.1, 0.3], ["0.3%", "1%", "3%", "10%", "30%"])
    axes.set_yticks(rows, [f"{space}, d = {space.dim}" for space in spaces])
    axes.invert_yaxis()
    axes.set(xlabel="guaranteed expected error, in per cent of the radius of the ball", title="The mean of 2,000 records")
    _finish(figure, axes, "notions.png", loc="upper right")


def tradeoff() -> None:
    """How well an attacker can tell two neighbouring data sets apart: Laplace noise of pure epsilon 1 in several dimensions."""
    figure, axes = _figure(5.8, 5.4)
    alphas = np.concatenate([np.linspace(0.0, 0.2, 41), np.linspace(0.21, 1.0, 80)])
    curves: list[tuple[str, Cost, str]] = [("all that epsilon = 1 says", PureCost(1.0), "black")]
    shades = ("#D55E00", "#CC79A7", "#0072B2", "#009E73")
    curves += [(f"{d} dimensions", LaplaceCost(1.0, d), shade) for d, shade in zip((2, 6, 21, 78), shades, strict=True)]
    for name, cost, colour in curves:
        found = [1.0 - cost.tradeoff(float(alpha)) for alpha in alphas]
        axes.plot(alphas, found, "--" if colour == "black" else "-", color=colour, linewidth=2, label=name)
    axes.plot([0.0, 1.0], [0.0, 1.0], ":", color=GREY, linewidth=1.5, label="guessing")
    axes.set(
        xlabel="false positive rate",
        ylabel="true positive rate, at most",
        xlim=(0.0, 1.0),
        ylim=(0.0, 1.0),
        aspect="equal",
        title="Laplace noise of pure epsilon 1",
    )
    _finish(figure, axes, "tradeoff.png", loc="lower right")


def surer() -> None:
    """How sure an attacker can become, against how sure they were: any release of pure epsilon."""
    figure, axes = _figure(5.8, 5.4)
    priors = np.linspace(0.0, 1.0, 201)
    for epsilon, colour in zip((3.0, 2.0, 1.0, 0.5, 0.1), ("black", "#D55E00", "#0072B2", "#009E73", "#CC79A7"), strict=True):
        found = geodp.Risk((PureCost(epsilon),))
        axes.plot(priors, [found.posterior(float(prior)) for prior in priors], color=colour, linewidth=2, label=f"{epsilon:g}")
    axes.plot([0.0, 1.0], [0.0, 1.0], ":", color=GREY, linewidth=1.5, label="nothing learned")
    percents = np.arange(0.0, 1.01, 0.2), [f"{percent}%" for percent in range(0, 101, 20)]
    axes.set_xticks(*percents)
    axes.set_yticks(*percents)
    axes.set(
        xlabel="how sure the attacker was",
        ylabel="how sure after everything that was released, at most",
        xlim=(0.0, 1.0),
        ylim=(0.0, 1.0),
        aspect="equal",
        title="What a total can reveal about one person",
    )
    _finish(figure, axes, "surer.png", loc="lower right", title="total epsilon")


def summary() -> None:
    """The mean change between two scans of each person: records, their mean, and private releases of it."""
    rng = np.random.default_rng(12)
    space, limit, people = geodp.SPDLogEuclidean(3), 0.5, 400
    changes = rng.normal(size=(people, 6)) * 0.12 + space.coordinates(np.eye(3), space.log(np.eye(3), np.diag([1.1, 1.03, 0.97])))
    changes *= np.minimum(1.0, limit / np.linalg.norm(changes, axis=1, keepdims=True))
    mean = space.exp(np.eye(3), space.tangent(np.eye(3), changes.mean(axis=0)))
    private = [
        geodp.private_summary(mean, space, sensitivity=2.0 * limit / people, epsilon=1.0, simulate=rng).value for _ in range(80)
    ]

    def percent(points: Array) -> Array:
        logs = space.log(np.eye(3), points)
        return 100.0 * np.expm1(np.diagonal(logs, axis1=-2, axis2=-1))

    figure, axes = _figure(6.8, 4.0)
    people_shown = percent(space.exp(np.eye(3), space.tangent(np.eye(3), changes)))
    for axis in range(3):
        jitter = rng.uniform(-0.06, 0.06, people)
        first = axis == 0
        axes.plot(
            axis - 0.2 + jitter, people_shown[:, axis], ".", color=GREY, markersize=3, label="400 people" if first else None
        )
        axes.plot(
            axis + 0.2 + jitter[:80],
            percent(np.array(private))[:, axis],
            ".",
            color=ORANGE,
            markersize=5,
            label="80 private summaries, epsilon = 1" if first else None,
        )
        middle = percent(mean)[axis]
        axes.plot([axis - 0.35, axis + 0.35], [middle] * 2, color=BLUE, linewidth=2, label="mean change" if first else None)
    axes.set_xticks(range(3), ["x", "y", "z"])
    axes.set(ylabel="change of diffusivity in %", title="Mean change between two scans (simulated)")
    _finish(figure, axes, "summary.png", loc="upper right")


def geodesics() -> None:
    """Principal geodesics of the shipped tensors."""
    x = geodp.data.load("dti_tensors")
    ball = geodp.Ball(geodp.SPD(3), 0.75 * np.eye(3), radius=1.5)
    release = geodp.private_covariance(x, ball, 1.0, 1e-6, about="mean", simulate=np.random.default_rng(5))
    principal_geodesics(release.components(), IMAGES / "geodesics.png")


def people() -> None:
    """What it costs to protect persons, a private number, and private groups: the same records each time."""
    ball = geodp.Ball(geodp.SPD(3), 0.75 * np.eye(3), radius=1.5)
    records, each = 3000, np.array([1, 2, 3, 5, 10, 20, 30])
    figure, axes = _figure()
    one = geodp.plan(ball, n=records, epsilon=1.0).expected_error
    axes.loglog(each, np.full(len(each), one), color=GREY, linewidth=2, label="protects a record")
    persons = [geodp.plan(ball, n=records // k, epsilon=1.0).expected_error for k in each]
    axes.loglog(each, persons, "o-", color=BLUE, linewidth=2, label="protects a person")
    # a tenth of the privacy goes to the count, and about 23 persons are left out as a margin
    numbers = [geodp.plan(ball, n=records // k - 23, epsilon=0.9).expected_error for k in each]
    axes.loglog(each, numbers, "s--", color=ORANGE, linewidth=2, label="protects a person, and how many there are")
    axes.set(
        xlabel=f"records a person ({records} records in all)",
        ylabel="expected error of the mean",
        title="SPD(3), radius 1.5, epsilon = 1",
    )
    axes.set_xticks(each, [str(k) for k in each], minor=False)
    axes.minorticks_off()
    _finish(figure, axes, "people.png")


def learning() -> None:
    """The accuracy of private classifiers on muscle signals, as ``docs/learning.py`` measured it."""
    found = json.loads((IMAGES.parent / "learning.json").read_text())
    figure, axes = _figure()
    axes.axhline(found["MDM"], color="black", linewidth=1.4, label="pyRiemann, not private")
    for (name, row), colour, line in zip(
        found["classifiers"].items(), (BLUE, GREEN, BLUE, ORANGE, GREY), ("o-", "o-", "s--", "o-", "o-"), strict=True
    ):
        axes.semilogx(found["epsilons"], row, line, color=colour, linewidth=2, label=name)
    axes.axhline(1.0 / 3.0, color="black", linewidth=1.0, linestyle=":", label="guessing")
    axes.set(xlabel="epsilon", ylabel="accuracy", ylim=(0.2, 0.8), title="Rock, paper, scissors: SPD(8), what is protected")
    axes.set_xticks(found["epsilons"], [f"{epsilon:g}" for epsilon in found["epsilons"]], minor=False)
    axes.minorticks_off()
    figure.set_size_inches(9.6, 4.6)
    _finish(figure, axes, "learning.png", loc="center left", bbox_to_anchor=(1.0, 0.5))


def many_records() -> None:
    figure, axes = _figure()
    counts = np.geomspace(1e3, 1e9, 25).astype(int)
    ball = geodp.Ball(geodp.Sphere(2), [0.0, 0.0, 1.0], radius=0.5)
    for epsilon, colour in ((0.1, ORANGE), (1.0, BLUE)):
        errors = [geodp.plan(ball, n=int(n), epsilon=epsilon).expected_error for n in counts]
        axes.loglog(counts, errors, color=colour, linewidth=2, label=f"privacy, epsilon = {epsilon:g}")
    axes.loglog(
        counts, 0.1 * np.sqrt(2.0 / counts), "--", color=GREY, linewidth=2, label="sampling error of records with spread 0.1"
    )
    axes.set(xlabel="number of records", ylabel="expected error (radians)", title="Sphere(2), radius 0.5")
    _finish(figure, axes, "many_records.png")


def torus() -> None:
    """Draws of the Laplace law on the torus of two circles, as a square whose edges are glued."""
    rng = np.random.default_rng(3)
    space = geodp.Torus(2)
    center = space.from_angles(np.array([0.93, 0.2]) * 2.0 * np.pi)
    turns = space.angles(geodp.Laplace(space, 2.0 * np.pi * 0.06).sample(center, 2500, rng)).T / (2.0 * np.pi) % 1.0
    figure, axes = _figure(width=5.2, height=5.0)
    axes.plot(*turns, ".", color=ORANGE, markersize=2.5, label="2,500 draws")
    axes.plot(0.93, 0.2, "o", color=BLUE, label="centre")
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
        xlabel="first angle, in turns",
        ylabel="second",
        title="Torus(2): opposite edges are one",
    )
    axes.legend(loc=(0.28, 0.62))
    figure.savefig(IMAGES / "torus.png", dpi=130)


# ---------------------------------------------------------------------- theory


def sensitivity_curves() -> None:
    radii = np.linspace(0.02, 1.5, 200)
    north = [0.0, 0.0, 1.0]
    figure, axes = _figure()
    sharp = [geodp.sensitivity(geodp.Ball(geodp.Sphere(2), north, r), 10**6) * 1e6 for r in radii]
    below = radii[radii < 0.78]
    paper = [geodp.sensitivity(geodp.Ball(geodp.Sphere(2), north, r), 10**6, "reimherr2021") * 1e6 for r in below]
    axes.plot(radii, sharp, color=BLUE, linewidth=2.2, label="sphere, sharp: 2 tan r")
    axes.plot(below, paper, "--", color=ORANGE, linewidth=2, label="sphere, Reimherr et al. (2021), below pi/4")
    axes.plot(radii, 2.0 * radii, ":", color=GREEN, linewidth=2.2, label="no positive curvature: 2 r (both bounds)")
    worst = [_worst_case(r) for r in (0.3, 0.6, 0.9, 1.1, 1.25)]
    axes.plot(*zip(*worst, strict=True), "o", color="black", markersize=5, label="a worst case, n = 200, computed")
    axes.axvline(np.pi / 4.0, color=GREY, linewidth=0.8)
    axes.set(
        xlabel="radius of the ball", ylabel="n times the sensitivity", ylim=(0.0, 8.0), title="How far one record moves the mean"
    )
    _finish(figure, axes, "sensitivity.png", loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False)


def _worst_case(r: float) -> tuple[float, float]:
    ball, n = geodp.Ball(geodp.Sphere(2), [0.0, 0.0, 1.0], r), 200
    means = [geodp.frechet_mean(x, ball).point for x in worst_case_pair(ball, n)]
    return r, n * float(ball.manifold.dist(*means))


def acceptance() -> None:
    figure, axes = _figure()
    fractions = np.linspace(0.01, 0.9, 24)
    for k, colour in ((2, BLUE), (3, GREEN), (5, ORANGE)):
        space = geodp.SPD(k)
        rates = [geodp.Laplace(space, f * exact.largest_scale(space)).acceptance_rate for f in fractions]
        axes.plot(fractions, rates, color=colour, linewidth=2, label=f"SPD({k})")
    axes.axhline(1.0, color=GREY, linestyle="--", label="spheres, hyperbolic, Euclidean, shapes")
    axes.set(
        xlabel="scale, as a fraction of the largest one",
        ylabel="trials accepted",
        ylim=(0.0, 1.05),
        title="The comparison sampler",
    )
    _finish(figure, axes, "acceptance.png")


def low_bits() -> None:
    """How often the first coordinate of a draw has bits below a threshold, from two centres 0.05 apart."""
    sphere, sigma, size = geodp.Sphere(2), 0.05, 4000
    centers = [np.array([0.0, 0.0, 1.0]), np.array([np.sin(0.05), 0.0, np.cos(0.05)])]
    exponents = np.arange(-64, -44)
    figure, axes = _figure()
    for i, (center, colour) in enumerate(zip(centers, (BLUE, ORANGE), strict=True)):
        floats = geodp.Laplace(sphere, sigma).sample(center, size, np.random.default_rng(i))[:, 0]
        exacts = [exact.sample(sphere, sigma, center, entropy=exact.NotPrivate(5000 * i + j)) for j in range(600)]
        steps = np.array([draw.steps[0] * draw.grid for draw in exacts])
        for values, line, name in ((floats, "-", "floating point"), (steps, "--", "exact, rounded to a grid")):
            share = [float(np.mean(values / 2.0 ** float(e) != np.round(values / 2.0 ** float(e)))) for e in exponents]
            axes.plot(exponents, share, line, color=colour, linewidth=2, label=f"{name}, centre {i + 1}")
    axes.set(
        xlabel="exponent b",
        ylabel="share of draws with bits below 2^b",
        title="What the last bits of a coordinate reveal about the centre",
    )
    _finish(figure, axes, "low_bits.png")


# ---------------------------------------------------------------------- the architecture


def architecture() -> None:
    """A diagram of the path that data take."""
    figure = Figure(figsize=(9.6, 3.3))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    boxes = [
        (0.4, "records", "private", ORANGE),
        (2.4, "Ball.clip", "public ball,\none by one", ORANGE),
        (4.4, "statistic", "a mean, or your own;\npublic tolerance", ORANGE),
        (6.4, "mechanism", "exact noise,\nintrinsic or tangent", BLUE),
        (8.4, "Release", "value, receipt, error\nbar, privacy curve", GREEN),
    ]
    for x, name, words, colour in boxes:
        _box(axes, x, 1.15, name, words, colour)
    for (left, *_), (right, *_) in pairwise(boxes):
        _arrow(axes, (left + 1.55, 1.6), (right - 0.02, 1.6))
    _box(axes, 4.4, 2.45, "sensitivity", "of public numbers\nalone", GREEN)
    _box(axes, 6.4, 0.0, "Ledger", "charged before\nthe draw", GREEN, 0.75)
    _arrow(axes, (5.95, 2.8), (6.9, 2.08))
    _arrow(axes, (7.17, 0.78), (7.17, 1.12))
    axes.text(0.4, 3.05, "private", color=ORANGE, fontsize=11, weight="bold")
    axes.text(1.25, 3.05, "noised", color=BLUE, fontsize=11, weight="bold")
    axes.text(2.05, 3.05, "public", color=GREEN, fontsize=11, weight="bold")
    axes.set(xlim=(0.2, 10.15), ylim=(-0.1, 3.4))
    axes.set_axis_off()
    figure.savefig(IMAGES / "architecture.svg", metadata={"Date": None}, facecolor="white")


def _box(axes: Axes, x: float, y: float, name: str, words: str, colour: str, height: float = 0.9) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x, y), 1.53, height, boxstyle="round,pad=0,rounding_size=0.08", facecolor="white", edgecolor=colour, linewidth=2
        )
    )
    axes.text(x + 0.765, y + 0.72 * height, name, ha="center", va="center", fontsize=11, family="monospace", weight="bold")
    axes.text(x + 0.765, y + 0.3 * height, words, ha="center", va="center", fontsize=8.5)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "black", "linewidth": 1.4})


def _figure(width: float = 6.8, height: float = 4.3) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _finish(figure: Figure, axes: Axes, name: str, **legend: Any) -> None:
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=9, **legend)
    figure.savefig(IMAGES / name, dpi=130)


def _globe_frame(axes: Axes, title: str) -> None:
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal", title=title)
    axes.set_axis_off()
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False, fontsize=9)


PICTURES = {
    picture.__name__: picture
    for picture in (
        overview,
        radius,
        covariances,
        connectome,
        tensors,
        clock,
        rotations,
        axes_without_direction,
        shapes,
        budget,
        notions,
        tradeoff,
        surer,
        summary,
        geodesics,
        people,
        learning,
        many_records,
        torus,
        sensitivity_curves,
        acceptance,
        low_bits,
        architecture,
    )
}


def main(names: list[str]) -> None:
    """Draw the pictures named, or all of them."""
    IMAGES.mkdir(exist_ok=True)
    matplotlib.rcParams["svg.hashsalt"] = "geodp"  # the same file every time
    matplotlib.rcParams["svg.fonttype"] = "none"
    for name in names or [*PICTURES, "error_against_n"]:
        if name == "error_against_n":
            ball = geodp.Ball(geodp.Sphere(2), [0.0, 0.0, 1.0], 0.6)
            error_against_n(ball, geodp.PureDP(1.0), 500, IMAGES / "error_against_n.png")
        else:
            PICTURES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
