"""The figures, one function for each experiment.

They are separate from the experiments, so that worker processes need no matplotlib, and so that changing a figure does not
require computing its numbers again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, StrMethodFormatter

from geodp.plots import BLUE, GREEN, GREY, ORANGE
from paper.beyond import REAL as DATA
from paper.bounds import SHOWN
from paper.chains import EXACT, FLOAT, PROGRAM, REAL, REPAIRED, WORDED
from paper.experiment import Tables, where
from paper.rates import AXES, PROJECTED, RELEASED, TRUNCATED
from paper.utility import DOUBLED, EMPIRICAL, SHARP, SINGLE
from paper.utility import PROGRAM as SECOND_PROGRAM

#: More of Okabe and Ito's colours, which colour-blind readers can tell apart.
SKY, AMBER, PINK = "#56B4E9", "#E69F00", "#CC79A7"

STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.hashsalt": "geodp",
}


Figures = dict[str, tuple[Figure, str]]
Panels = tuple[Figure, list[Axes]]


def _panels(count: int, width: float = 7.4, height: float = 3.3, shares: Sequence[float] | None = None) -> Panels:
    """A figure with panels side by side, whose widths are in proportion to ``shares``."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False, width_ratios=shares)[0])


def _line(axes: Axes, table: pd.DataFrame, x: str, y: str, style: str, colour: str, label: str = "", **more: Any) -> None:
    """One column of a table against another."""
    axes.plot(table[x], table[y], style, color=colour, label=label, **more)


def _band(axes: Axes, table: pd.DataFrame, column: str, colour: str, label: str, line: str = "-") -> None:
    """A column against n, with plus and minus two standard errors."""
    n, mean, width = table["n"], table[column], 2.0 * table[f"{column}_se"]
    axes.plot(n, mean, line, color=colour, label=label)
    axes.fill_between(n, mean - width, mean + width, color=colour, alpha=0.25, linewidth=0)


def _plain_ticks(axis: Axis, ticks: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers instead of powers of ten."""
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(FixedLocator([]))


def _rows(axes: Axes, names: Sequence[str], **style: Any) -> None:
    """Names from top to bottom."""
    axes.set_yticks(range(len(names)), names, **style)
    axes.invert_yaxis()


def _bars(axes: Axes, bars: Sequence[tuple[str, float, str]]) -> None:
    """Bars from top to bottom, each with its name, length and colour."""
    names, lengths, colours = zip(*bars, strict=True)
    axes.barh(range(len(bars)), lengths, color=colours)
    _rows(axes, names, fontsize=7.5)


# ---------------------------------------------------------------------- one function for each experiment


def neighbours(tables: Tables) -> Figures:
    figure, panels = _panels(2)
    for axes, space in zip(panels, ("SPD(2)", "S^2"), strict=True):
        dots, found = where(tables["distances"], space=space), where(tables["summary"], space=space)
        axes.semilogy(dots["n"], dots["distance"], ".", color=SKY, markersize=2, alpha=0.6, label="random neighbours")
        _line(axes, found, "n", "average", "-", BLUE, "their average")
        _line(axes, found, "n", "sharp_bound", "-", GREEN, "sharp bound", linewidth=3.0, alpha=0.7)
        _line(axes, found, "n", "paper_bound", "--", ORANGE, "bound of the paper")
        _line(axes, found, "n", "worst_case", "x", "black", "worst-case pair", markersize=4)
        lowest = dots["distance"].quantile(0.02)
        axes.set(title=_space(space), xlabel="records n", ylim=(lowest, None), xlim=(0, found["n"].max() + 10))
    panels[0].set_ylabel("distance between means")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    caption = "Distances between the means of neighbouring data sets. On SPD(2) the paper's bound and the sharp one are the same."
    return {"figure1-sensitivity": (figure, caption)}


def _space(name: str) -> str:
    return {"SPD(2)": "SPD(2), $r = 1.5$", "S^2": "$S^2$, $r = \\pi/8$"}[name]


def utility(tables: Tables) -> Figures:
    return {"figure1-utility": _utility_errors(tables), "gains": _utility_gains(tables)}


def _utility_errors(tables: Tables) -> tuple[Figure, str]:
    errors = tables["errors"]
    figure, (left, right) = _panels(2, height=3.6)
    for calibration, line, words in ((DOUBLED, "--", r"$2\Delta/\varepsilon$"), (SINGLE, "-", r"$\Delta/\varepsilon$")):
        for side, colour in (("ambient", ORANGE), ("intrinsic", BLUE)):
            _band(left, where(errors, calibration=calibration), side, colour, f"{side}, {words}", line)
    found = where(errors, calibration=EMPIRICAL)
    _band(right, found, "ambient", ORANGE, "ambient")
    _line(right, found, "n", "projected_precise", ":", ORANGE, "ambient, projected")
    _band(right, found, "intrinsic", BLUE, "intrinsic, empirical bound", "--")
    _band(right, where(errors, calibration=SHARP), "intrinsic", BLUE, "intrinsic, sharp bound")
    for axes, space in ((left, "SPD(2)"), (right, "S^2")):
        axes.set(title=_space(space), xlabel="records n", yscale="log")
        axes.legend()
    left.set_ylabel("Euclidean error of the private mean")
    caption = (
        "Average Euclidean error of the private mean, epsilon = 1, with bands of two standard errors. Dashed blue: the paper's "
        "calibration; solid blue: ours."
    )
    return figure, caption


def _utility_gains(tables: Tables) -> tuple[Figure, str]:
    reductions, shares = tables["reductions"], tables["not_definite"]
    figure, (left, right) = _panels(2, height=3.4)
    for calibration, colour, words in (
        (SHARP, BLUE, "sharp bound"),
        (SECOND_PROGRAM, PINK, "tan(2r)/n (program)"),
        (EMPIRICAL, AMBER, "empirical bound"),
    ):
        found = where(reductions, space="S^2", calibration=calibration)
        n = found["n"]
        left.plot(n, 100.0 * found["reduction"], "-", color=colour, label=words)
        if calibration != SECOND_PROGRAM:
            spread = 200.0 * found["reduction_simulated_se"]
            left.errorbar(n, 100.0 * found["reduction_simulated"], spread, fmt=".", color=colour, alpha=0.5, linewidth=0.8)
    left.plot([25, 150], [16.8, 16.8], color="black", linewidth=1.0)
    left.plot([350, 500], [12.0, 12.0], color="black", linewidth=1.0, label="text of the paper")
    left.set(title="$S^2$: error saved against ambient noise", xlabel="records n", ylabel="per cent", ylim=(0, 46))
    left.legend(ncols=2, loc="upper center")
    for calibration, colour, words in (
        (DOUBLED, AMBER, r"scale $4(e^r-1)/n$ (program)"),
        (SINGLE, ORANGE, r"scale $2(e^r-1)/n$"),
    ):
        found = where(shares, calibration=calibration)
        right.plot(found["n"], 100.0 * found["ambient"], "o-", color=colour, label=words)
    found = where(shares, calibration=SINGLE)
    right.plot(found["n"], 100.0 * found["intrinsic"], "s-", color=BLUE, label="intrinsic: none")
    right.plot([20, 40], [25.0, 25.0], color="black", linewidth=1.0, label="text of the paper")
    right.set(title="SPD(2): draws that are not positive definite", xlabel="records n", ylabel="per cent", xlim=(10, 210))
    right.legend()
    caption = (
        "Left: how much smaller the intrinsic error is; lines are exact, points are the published number of replicates with two "
        "standard errors. Right: share of ambient draws outside the manifold."
    )
    return figure, caption


def bounds(tables: Tables) -> Figures:
    found, parts = tables["curves"], tables["ingredients"]
    figure, (left, middle, right) = _panels(3, width=9.6, height=3.4)
    _line(left, found, "r", "twice_r", "-", BLUE, "$2r$")
    _line(left, found, "r", "paper_range", "--", ORANGE, "$2r(2-h)$, the paper")
    _line(left, found, "r", "empirical_range", "-", AMBER, "largest found on the boundary")
    left.set(title="range of the logarithm", ylim=(0, 5))
    for name, colour in zip(parts["r"].unique(), (GREEN, BLUE, PINK), strict=True):
        part = where(parts, r=name)
        limit = 2.0 * math.tan(SHOWN[str(name)])
        label = f"$r = {name}$".replace("pi", r"\pi")
        middle.plot(part["t_over_r"], part["range"] / limit, "-", color=colour, label=label)
        middle.plot(part["t_over_r"], part["hessian"], "--", color=colour)
        middle.plot(part["t_over_r"], part["quotient"] / limit, ":", color=colour)
    for style, words in (("-", r"range $2R/(2\tan r)$"), ("--", "Hessian at least"), (":", r"quotient$/(2\tan r)$")):
        middle.plot([], [], style, color="black", label=words)
    middle.set(title="ingredients of the sharp bound", xlabel="mean's distance from the centre, $t/r$", ylim=(0, 1.05))
    middle.legend(loc="lower right", ncols=1, fontsize=7)
    _line(right, found, "r", "sharp_bound", "-", GREEN, r"sharp, $2\tan r$", linewidth=3.0, alpha=0.7)
    _line(right, found, "r", "paper_bound", "--", ORANGE, "Theorem 2 of the paper")
    _line(right, found, "r", "empirical_bound", "-", AMBER, "the paper's empirical bound")
    _line(right, found[:: max(1, len(found) // 24)], "r", "worst_case", "x", "black", "worst-case pair", markersize=4)
    right.set(title="$n$ times the sensitivity", yscale="log", ylim=(0.03, 300))
    for axes in (left, right):
        axes.set(xlabel="radius $r$", xlim=(0.0, math.pi / 2.0))
        axes.set_xticks([i * math.pi / 8.0 for i in range(5)], ["0", r"$\pi/8$", r"$\pi/4$", r"$3\pi/8$", r"$\pi/2$"])
        axes.axvline(math.pi / 4.0, color="black", linewidth=0.8, linestyle=(0, (1, 2)))
        axes.legend(fontsize=7, frameon=True, facecolor="white", edgecolor="none", framealpha=1.0)
    caption = (
        "On the unit sphere. Left: the supplement's figure. Middle: for a mean at distance t from the centre, the range of the "
        "logarithm, the Hessian and their quotient, which never exceeds 2 tan r. Right: the bounds, to pi/2."
    )
    return {"supplement": (figure, caption)}


def privacy(tables: Tables) -> Figures:
    loss, truncated, ambient = tables["loss"], tables["truncated"], tables["ambient"]
    figure, (left, right) = _panels(2, width=8.6, height=4.6, shares=(1.25, 1.0))
    for epsilon, marker, colour in zip(loss["epsilon"].unique(), ("o", "x", "+"), (BLUE, ORANGE, "black"), strict=True):
        share = where(loss, epsilon=epsilon)["loss_over_epsilon"]
        words = rf"$\varepsilon = {epsilon:g}$"
        left.plot(share, range(len(share)), marker, color=colour, label=words, fillstyle="none", markersize=7)
    left.axvline(1.0, color="black", linewidth=1.0)
    _rows(left, loss["manifold"].unique())
    left.set(title="our mechanism", xlabel=r"largest privacy loss, in units of $\varepsilon$", xlim=(0.0, 1.08))
    left.legend(loc="lower left")
    scales = {1.0: r"scale $\Delta/\varepsilon$", 2.0: r"scale $2\Delta/\varepsilon$"}
    columns = zip(truncated["manifold"], truncated["scale_over_sensitivity"], truncated["largest_loss"], strict=True)
    bars = [(f"truncated {manifold},\n{scales[factor]}", value, SKY) for manifold, factor, value in columns]
    worst = ambient.groupby("manifold", sort=False)["largest_loss"].max()
    _bars(right, bars + [(f"ambient noise, {manifold}", value, AMBER) for manifold, value in worst.items()])
    right.axvline(1.0, color="black", linewidth=1.0)
    right.set(title="other mechanisms", xlabel=r"largest privacy loss, $\varepsilon = 1$ claimed")
    caption = (
        "Left: the largest privacy loss found between worst-case neighbours never passes epsilon. Right: the law conditioned on "
        "the ball needs twice the scale, and the paper's ambient noise on the Fréchet mean exceeds its epsilon."
    )
    return {"loss": (figure, caption)}


def rates(tables: Tables) -> Figures:
    errors, slopes = tables["errors"], tables["slopes"]
    figure, panels = _panels(3, width=9.6, height=3.9)
    styles = {RELEASED: "-", PROJECTED: "x", TRUNCATED: ":"}
    names = {"n": "records n", "epsilon": r"$\varepsilon$", "d": "dimension d"}
    for axes, axis in zip(panels, ("n", "epsilon", "d"), strict=True):
        for space, colour in zip(where(errors, axis=axis)["space"].unique(), (BLUE, ORANGE, GREEN, PINK), strict=False):
            slope = where(slopes, axis=axis, space=space, variant=RELEASED)
            label = f"{space}: {slope['slope'][0]:.3f} ± {slope['se'][0]:.3f}"
            for variant, style in styles.items():
                found = where(errors, axis=axis, space=space, variant=variant)
                _line(axes, found, "x", "rms_error", style, colour, label if variant == RELEASED else "")
        axes.set(xscale="log", yscale="log")
        _plain_ticks(axes.xaxis, AXES[axis])
        axes.tick_params(axis="x", labelsize=7.5)
        axes.set(xlabel=names[axis], title=f"slopes against {'d + 1/2' if axis == 'd' else names[axis].removeprefix('records ')}")
        low, high = axes.get_ylim()
        axes.set_ylim((low, 4.0 * high) if axis == "d" else (low / 8.0, high))  # room for the legend
        axes.legend(loc="upper left" if axis == "d" else "lower left", fontsize=7.5)
    panels[0].set_ylabel("root-mean-square error")
    words = ("as released", "projected onto the ball", r"truncated to the ball, $2\Delta/\varepsilon$")
    handles = [
        panels[0].plot([], [], style, color=GREY, label=label)[0] for style, label in zip(styles.values(), words, strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    caption = "Root-mean-square error on logarithmic axes, with the fitted slopes of the law as released. Expected: -1, -1 and 1."
    return {"rates": (figure, caption)}


def subspaces(tables: Tables) -> Figures:
    found = tables["errors"]
    figure, (axes,) = _panels(1, width=5.2, height=3.6)
    for d, colour, marker in zip(found["d"].unique(), (BLUE, ORANGE, GREEN, PINK), "osD^", strict=True):
        part = where(found, d=d)
        axes.errorbar(part["D"], part["ratio"], 2.0 * part["ratio_se"], fmt=marker, color=colour, label=f"d = {d}")
        around = np.geomspace(float(part["D"].min()), 100.0, 60)
        axes.plot(around, (around + 1.0) / (float(d) + 1.0), "-", color=colour, linewidth=1.0)
    axes.set(xscale="log", yscale="log", xlabel="dimension D of the ambient space")
    axes.set_ylabel("mean squared error, projected / intrinsic")
    _plain_ticks(axes.xaxis, [float(x) for x in found["D"].unique()])
    _plain_ticks(axes.yaxis, [1, 2, 5, 10, 20, 50])
    axes.legend()
    return {"ratio": (figure, "Points: simulated, with two standard errors. Lines: (D + 1)/(d + 1), Theorem 4.")}


def circle(tables: Tables) -> Figures:
    found = tables["sensitivity"]
    figure, (axes,) = _panels(1, width=5.4, height=3.6)
    _line(axes, found, "n", "half_turn_example", "-", ORANGE, r"whole circle: $\pi$ for every n")
    _line(axes, found[found["n"] % 2 == 0], "n", "published_example", "o", PINK, "whole circle: the paper's example")
    _line(axes, found, "n", "with_ball_bound", "-", GREEN, "ball of radius 1: bound 2r/n", linewidth=3.0, alpha=0.7)
    _line(axes, found, "n", "with_ball", "x", "black", "ball of radius 1: worst-case pair")
    axes.set(xscale="log", yscale="log", xlabel="records n", ylabel="distance between means of neighbours", ylim=(0.002, 20))
    _plain_ticks(axes.xaxis, [5, 10, 20, 50, 100, 200, 500])
    axes.legend(loc="lower left")
    return {"jump": (figure, "How far one record can move the mean of points on a circle.")}


def chains(tables: Tables) -> Figures:
    bias, times = tables["bias"], tables["times"]
    figure, (left, right) = _panels(2, width=8.6, height=3.5, shares=(1.0, 1.05))
    spaces = {"SPD(2)": "SPD(2)", "S^2": "$S^2$"}
    for sampler, colour, style in ((PROGRAM, ORANGE, "o-"), (WORDED, PINK, "s--"), (REPAIRED, GREEN, "D:")):
        part = where(bias, sampler=sampler)
        label = f"{spaces[part['space'][0]]}, {sampler}"
        left.errorbar(part["n"], part["error_over_exact"], 2.0 * part["se"], fmt=style, color=colour, label=label)
    _line(left, where(bias, sampler=EXACT, space="SPD(2)"), "n", "error_over_exact", "-", BLUE, "ours")
    left.set(xscale="log", yscale="log", xlabel="records n", ylabel="mean error, as a multiple of the law's")
    _plain_ticks(left.xaxis, [25, 100, 500, 2000, 20000])
    _plain_ticks(left.yaxis, [1, 2, 5])
    left.set_title("bias")
    left.legend(loc="upper left")
    medians = times.groupby(["space", "sampler"])["seconds_a_draw"].median()
    order = [*((space, sampler) for space in spaces for sampler in (PROGRAM, WORDED, REPAIRED, FLOAT, REAL))]
    shown = [(spaces[s], name, 1e6 * medians[s, name]) for s, name in order if (s, name) in medians.index]
    _bars(right, [(f"{space}, {name}", time, BLUE if name in (FLOAT, REAL) else GREY) for space, name, time in shown])
    right.set(xscale="log", xlabel="microseconds a draw, in bulk (median over n)", title="time")
    caption = (
        "Left: mean distance of the draws from their centre over that of the law, with two standard errors. Right: time a draw; "
        "grey are the chains, blue is ours, in float64 and in the real arithmetic of releases."
    )
    return {"chains": (figure, caption)}


def beyond(tables: Tables) -> Figures:
    simulated, real = tables["simulated"], tables["real"]
    figure, (left, *others) = _panels(3, width=9.6, height=3.9, shares=(1.3, 1.0, 1.0))
    names = simulated["manifold"] + "  " + simulated["d"].astype(str) + "/" + simulated["D"].astype(str)
    rows, shown = pd.factorize(names)
    left.plot(simulated["ratio"], rows, "o", color=ORANGE, fillstyle="none", label="the paper's scale")
    left.plot(simulated["private_ratio"], rows, "D", color=BLUE, fillstyle="none", label="a private scale")
    left.axvline(1.0, color="black", linewidth=1.0)
    _rows(left, shown)
    left.set(xlabel="intrinsic / ambient geodesic error", xlim=(0.0, 1.1), title="simulated, n = 50 to 800")
    left.legend(loc="upper left", title="ambient noise with", alignment="left", borderaxespad=0.2)
    titles = {"dti_tensors": "diffusion tensors, SPD(3)", "icu_arrivals": "arrival times, circle"}
    for axes, name in zip(others, DATA, strict=True):
        found = where(real, data=name)
        _line(axes, found, "epsilon", "private_ambient", "D:", BLUE, "ambient, private scale")
        _line(axes, found, "epsilon", "ambient", "o--", ORANGE, "ambient, the paper's scale")
        _line(axes, found, "epsilon", "intrinsic", "s-", GREEN, "intrinsic (ours)")
        axes.set(xscale="log", yscale="log")
        _plain_ticks(axes.xaxis, found["epsilon"])
        low, high = axes.get_ylim()
        axes.set(xlabel=r"$\varepsilon$", title=f"{titles[name]}, n = {found['n'][0]}", ylim=(low / 2.5, high))
        _plain_ticks(axes.yaxis, [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
        axes.title.set_fontsize(9.0)
    others[0].set_ylabel("mean geodesic error")
    others[0].legend(loc="lower left", fontsize=7.5)
    caption = (
        "Left: one mark for each n; below 1 the intrinsic error is smaller. d/D: dimensions of manifold and ambient space. "
        "Middle and right: two real data sets."
    )
    return {"other-manifolds": (figure, caption)}


def notions(tables: Tables) -> Figures:
    found = tables["errors"]
    figure, (axes,) = _panels(1, width=7.6, height=4.6)
    for name, marker, colour, words in (
        ("pure", "s", GREY, "pure epsilon = 1"),
        ("gaussian", "^", ORANGE, "(1, 1e-6), Gaussian noise"),
        ("ours", "o", BLUE, "(1, 1e-6), what a release chooses"),
    ):
        axes.plot(found[name], found.index, marker, color=colour, label=words)
        axes.plot(found[f"{name}_seen"], found.index, "|", color=colour, markersize=9.0)
    _rows(axes, found["manifold"] + ", " + found["d"].astype(str) + " dimensions")
    axes.set(xscale="log", xlabel="expected geodesic error", title=f"n = {int(found['n'][0])}")
    axes.legend(loc="upper right")
    caption = (
        "Marks: the guaranteed expected error of a plan. Bars: the mean error of simulated releases. In many dimensions a delta "
        "of a millionth saves most of the noise, and calibrated Laplace noise errs less than Gaussian noise throughout."
    )
    return {"notions": (figure, caption)}
