"""Draw the pictures of the documentation: ``python docs/pictures.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import geodp
from geodp.manifolds._functions import Array
from geodp.plots import BLUE, GREY, ORANGE

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

    figure = Figure(figsize=(9.6, 5.2), layout="constrained")
    for column, (title, zoom) in enumerate(
        (("records in a public ball", 1.0), ("the mean and 600 private releases, 18 times closer", 0.055))
    ):
        axes = figure.add_subplot(1, 2, column + 1)
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
        axes.set(xlim=(-1.05 * zoom, 1.05 * zoom), ylim=(-1.05 * zoom, 1.05 * zoom), aspect="equal", title=title)
        axes.set_axis_off()
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.2), ncols=1, frameon=False, fontsize=9)
    figure.savefig(IMAGES / "overview.png", dpi=150)


def _view(middle: Array) -> Callable[[Array], Array]:
    """The sphere as seen from above ``middle``: points to coordinates in its tangent plane, not a number if behind it."""
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


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    overview()
