"""Draw the pictures of the documentation: ``python docs/pictures.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import geodp
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

    figure = Figure(figsize=(9.6, 4.6), layout="constrained")
    for column, (title, zoom) in enumerate((("records in a public ball", 1.0), ("the mean and 600 private releases", 0.12))):
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
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.12), ncols=1, frameon=False, fontsize=9)
    figure.savefig(IMAGES / "overview.png", dpi=150)


def _view(middle: np.ndarray):  # type: ignore[no-untyped-def]
    """The sphere as seen from above ``middle``: coordinates in its tangent plane."""
    sphere = geodp.Sphere(2)
    frame = sphere.tangent(middle, np.eye(2))
    return lambda points: points @ frame.T


def _circle(sphere: geodp.Sphere, center: np.ndarray, radius: float) -> np.ndarray:
    angle = np.linspace(0.0, 2.0 * np.pi, 200)
    return sphere.exp(center, sphere.tangent(center, radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)))


def _globe(axes, flat) -> None:  # type: ignore[no-untyped-def]
    """The near side of the sphere: outline, parallels and meridians."""
    turn = np.linspace(0.0, 2.0 * np.pi, 400)
    axes.plot(np.cos(turn), np.sin(turn), color="black", linewidth=0.8)
    lines = [np.stack([np.cos(turn) * np.cos(a), np.sin(turn) * np.cos(a), np.full_like(turn, np.sin(a))]) for a in np.arange(-1.2, 1.3, 0.4)]
    lines += [np.stack([np.sin(turn) * np.cos(a), np.sin(turn) * np.sin(a), np.cos(turn)]) for a in np.arange(0.0, np.pi, np.pi / 8)]
    frame = np.array([flat(np.eye(3)[i][None])[0] for i in range(3)])
    toward = np.cross(frame[:, 0], frame[:, 1])
    for line in lines:
        for side in (1.0, -1.0):
            near = side * (toward @ line) > 0.0
            if side * (toward @ geodp.Sphere(2).project([0.45, -0.55, 0.7])) > 0.0:
                axes.plot(*np.where(near, flat(line.T).T, np.nan), color=GREY, linewidth=0.4, alpha=0.7)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    overview()
