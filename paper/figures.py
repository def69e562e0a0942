"""The figures, one function for each experiment.

They are separate from the experiments, so that worker processes need no matplotlib, and so that changing a figure does not
require computing its numbers again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, StrMethodFormatter

from geodp.plots import BLUE, GREEN, GREY, ORANGE
from paper.beyond import REAL
from paper.bounds import SHOWN
from paper.chains import EXACT, PROGRAM, REPAIRED, WORDED
from paper.experiment import Tables, where
from paper.rates import PROJECTED, RELEASED, TRUNCATED
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


def _below(figure: Figure, axes: Axes, columns: int) -> None:
    """One legend for all panels, under them."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


def _band(axes: Axes, x: pd.Series, y: pd.Series, se: pd.Series, colour: str, label: str, line: str = "-") -> None:
    """A line with plus and minus two standard errors."""
    axes.plot(x, y, line, color=colour, label=label)
    axes.fill_between(x, y - 2.0 * se, y + 2.0 * se, color=colour, alpha=0.25, linewidth=0)


def _plain_ticks(axis: Axis, ticks: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers instead of powers of ten."""
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(FixedLocator([]))


def _bars(axes: Axes, bars: Sequence[tuple[str, float, str]]) -> None:
    """Bars from top to bottom, each with its name, length and colour."""
    names, lengths, colours = zip(*bars, strict=True)
    axes.barh(range(len(bars)), lengths, color=colours)
    axes.set_yticks(range(len(bars)), names, fontsize=7.5)
    axes.invert_yaxis()


# ---------------------------------------------------------------------- one function for each experiment


def neighbours(tables: Tables) -> Figures:
    figure, panels = _panels(2)
    for axes, space in zip(panels, ("SPD(2)", "S^2"), strict=True):
        dots, found = where(tables["distances"], space=space), where(tables["summary"], space=space)
        n = found["n"]
        axes.semilogy(dots["n"], dots["distance"], ".", color=SKY, markersize=2, alpha=0.6, label="random neighbours")
        axes.plot(n, found["average"], "-", color=BLUE, label="their average")
        axes.plot(n, found["sharp_bound"], "-", color=GREEN, linewidth=3.0, alpha=0.7, label="sharp bound")
        axes.plot(n, found["paper_bound"], "--", color=ORANGE, label="bound of the paper")
        axes.plot(n, found["worst_case"], "x", color="black", markersize=4, label="worst-case pair")
        shown = dots["distance"]
        axes.set(title=_space(space), xlabel="records n", ylim=(np.quantile(shown, 0.02), None), xlim=(0, float(n.max()) + 10))
    panels[0].set_ylabel("distance between means")
    _below(figure, panels[0], 5)
    caption = "Distances between the means of neighbouring data sets. On SPD(2) the paper's bound and the sharp one are the same."
    return {"figure1-sensitivity": (figure, caption)}


def _space(name: str) -> str:
    return {"SPD(2)": "SPD(2), $r = 1.5$", "S^2": "$S^2$, $r = \\pi/8$"}[name]


def utility(tables: Tables) -> Figures:
    return {"figure1-utility": _utility_errors(tables), "gains": _utility_gains(tables)}


def _utility_errors(tables: Tables) -> tuple[Figure, str]:
    errors = tables["errors"]
    figure, (left, right) = _panels(2, height=3.6)
    for calibration, line, words in (
        (DOUBLED, "--", r"$2\Delta/\varepsilon$"),
        (SINGLE, "-", r"$\Delta/\varepsilon$"),
    ):
        found = where(errors, space="SPD(2)", calibration=calibration)
        for side, colour in (("ambient", ORANGE), ("intrinsic", BLUE)):
            _band(left, found["n"], found[side], found[f"{side}_se"], colour, f"{side}, {words}", line)
    found = where(errors, space="S^2", calibration=EMPIRICAL)
    n = found["n"]
    _band(right, n, found["ambient"], found["ambient_se"], ORANGE, "ambient")
    right.plot(n, found["projected_precise"], ":", color=ORANGE, label="ambient, projected")
    _band(right, n, found["intrinsic"], found["intrinsic_se"], BLUE, "intrinsic, empirical bound", "--")
    found = where(errors, space="S^2", calibration=SHARP)
    _band(right, n, found["intrinsic"], found["intrinsic_se"], BLUE, "intrinsic, sharp bound")
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
    r = found["r"]
    figure, (left, middle, right) = _panels(3, width=9.6, height=3.4)
    left.plot(r, found["twice_r"], color=BLUE, label="$2r$")
    left.plot(r, found["paper_range"], "--", color=ORANGE, label="$2r(2-h)$, the paper")
    left.plot(r, found["empirical_range"], color=AMBER, label="largest found on the boundary")
    left.set(title="range of the logarithm", xlabel="radius $r$", ylim=(0, 5))
    _mark_radii(left)
    left.legend(loc="upper left", frameon=True, facecolor="white", edgecolor="none", framealpha=1.0)
    for name, colour in zip(parts["r"].unique(), (GREEN, BLUE, PINK), strict=True):
        part = where(parts, r=name)
        limit = 2.0 * math.tan(SHOWN[str(name)])
        label = f"$r = {name}$".replace("pi", r"\pi")
        middle.plot(part["t_over_r"], part["range"] / limit, "-", color=colour, label=label)
        middle.plot(part["t_over_r"], part["hessian"], "--", color=colour)
        middle.plot(part["t_over_r"], part["quotient"] / limit, ":", color=colour)
    kinds: list[tuple[Any, str]] = [("-", r"range $2R/(2\tan r)$"), ("--", "Hessian at least"), (":", r"quotient$/(2\tan r)$")]
    handles = middle.get_legend_handles_labels()[0] + [Line2D([], [], color="black", linestyle=s, label=w) for s, w in kinds]
    middle.set(title="ingredients of the sharp bound", xlabel="mean's distance from the centre, $t/r$", ylim=(0, 1.05))
    middle.legend(handles=handles, loc="lower right", ncols=1, fontsize=7)
    right.semilogy(r, found["sharp_bound"], color=GREEN, linewidth=3.0, alpha=0.7, label=r"sharp, $2\tan r$")
    right.plot(r, found["paper_bound"], "--", color=ORANGE, label="Theorem 2 of the paper")
    right.plot(r, found["empirical_bound"], color=AMBER, label="the paper's empirical bound")
    every = max(1, len(r) // 24)
    right.plot(r[::every], found["worst_case"][::every], "x", color="black", markersize=4, label="worst-case pair")
    right.set(title="$n$ times the sensitivity", xlabel="radius $r$", ylim=(0.03, 300))
    _mark_radii(right)
    right.legend(loc="lower right", fontsize=7, frameon=True, facecolor="white", edgecolor="none", framealpha=1.0)
    caption = (
        "On the unit sphere. Left: the supplement's figure. Middle: for a mean at distance t from the centre, the range of the "
        "logarithm, the Hessian and their quotient, which never exceeds 2 tan r. Right: the bounds, to pi/2."
    )
    return {"supplement": (figure, caption)}


def _mark_radii(axes: Axes) -> None:
    axes.set_xlim(0.0, math.pi / 2.0)
    axes.set_xticks(
        [0.0, math.pi / 8, math.pi / 4, 3 * math.pi / 8, math.pi / 2], ["0", r"$\pi/8$", r"$\pi/4$", r"$3\pi/8$", r"$\pi/2$"]
    )
    axes.axvline(math.pi / 4.0, color="black", linewidth=0.8, linestyle=(0, (1, 2)))


def privacy(tables: Tables) -> Figures:
    loss, truncated, ambient = tables["loss"], tables["truncated"], tables["ambient"]
    figure, (left, right) = _panels(2, width=8.6, height=4.6, shares=(1.25, 1.0))
    names = [str(name) for name in loss["manifold"].unique()]
    for epsilon, marker, colour in zip(loss["epsilon"].unique(), ("o", "x", "+"), (BLUE, ORANGE, "black"), strict=True):
        share = where(loss, epsilon=epsilon)["loss_over_epsilon"]
        left.plot(
            share, range(len(names)), marker, color=colour, label=rf"$\varepsilon = {epsilon:g}$", fillstyle="none", markersize=7
        )
    left.axvline(1.0, color="black", linewidth=1.0)
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    left.set(title="our mechanism", xlabel=r"largest privacy loss, in units of $\varepsilon$", xlim=(0.0, 1.08))
    left.legend(loc="lower left")
    bars: list[tuple[str, float, str]] = []
    for manifold in truncated["manifold"].unique():
        for factor, words in ((1.0, r"$\Delta/\varepsilon$"), (2.0, r"$2\Delta/\varepsilon$")):
            value = float(where(truncated, manifold=manifold, scale_over_sensitivity=factor)["largest_loss"][0])
            bars.append((f"truncated {manifold},\nscale {words}", value, SKY))
    bars += [
        (f"ambient noise, {manifold}", float(where(ambient, manifold=manifold)["largest_loss"].max()), AMBER)
        for manifold in ambient["manifold"].unique()
    ]
    _bars(right, bars)
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
    words = {"n": "records n", "epsilon": r"$\varepsilon$", "d": "dimension d"}
    for axes, axis in zip(panels, ("n", "epsilon", "d"), strict=True):
        for space, colour in zip(where(errors, axis=axis)["space"].unique(), (BLUE, ORANGE, GREEN, PINK), strict=False):
            slope = where(slopes, axis=axis, space=space, variant=RELEASED)
            label = f"{space}: {slope['slope'][0]:.3f} ± {slope['se'][0]:.3f}"
            for variant, style in styles.items():
                found = where(errors, axis=axis, space=space, variant=variant)
                axes.loglog(
                    found["x"],
                    found["rms_error"],
                    style,
                    color=colour,
                    markersize=4,
                    label=label if variant == RELEASED else None,
                )
        x = where(errors, axis=axis)["x"]
        _plain_ticks(axes.xaxis, sorted(set(x.tolist())))
        axes.tick_params(axis="x", labelsize=7.5)
        axes.set(xlabel=words[axis], title=f"slopes against {'d + 1/2' if axis == 'd' else words[axis].removeprefix('records ')}")
        low, high = axes.get_ylim()
        axes.set_ylim((low, 4.0 * high) if axis == "d" else (low / 8.0, high))  # room for the legend
        axes.legend(loc="upper left" if axis == "d" else "lower left", fontsize=7.5)
    panels[0].set_ylabel("root-mean-square error")
    kinds = [Line2D([], [], color=GREY, linestyle="-", label="as released")]
    kinds.append(Line2D([], [], color=GREY, linestyle="", marker="x", label="projected onto the ball"))
    kinds.append(Line2D([], [], color=GREY, linestyle=":", label=r"truncated to the ball, $2\Delta/\varepsilon$"))
    figure.legend(handles=kinds, loc="outside lower center", ncols=3)
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
    axes.set(
        xscale="log", yscale="log", xlabel="dimension D of the ambient space", ylabel="mean squared error, projected / intrinsic"
    )
    _plain_ticks(axes.xaxis, [float(x) for x in found["D"].unique()])
    _plain_ticks(axes.yaxis, [1, 2, 5, 10, 20, 50])
    axes.legend()
    return {"ratio": (figure, "Points: simulated, with two standard errors. Lines: (D + 1)/(d + 1), Theorem 4.")}


def circle(tables: Tables) -> Figures:
    found = tables["sensitivity"]
    n, odd = found["n"], found["n"] % 2 == 1
    figure, (axes,) = _panels(1, width=5.4, height=3.6)
    axes.loglog(n, found["half_turn_example"], "-", color=ORANGE, label=r"whole circle: $\pi$ for every n")
    axes.plot(n[~odd], found["published_example"][~odd], "o", color=PINK, label="whole circle: the paper's example")
    axes.plot(n, found["with_ball_bound"], "-", color=GREEN, linewidth=3.0, alpha=0.7, label="ball of radius 1: bound 2r/n")
    axes.plot(n, found["with_ball"], "x", color="black", label="ball of radius 1: worst-case pair")
    _plain_ticks(axes.xaxis, [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0])
    axes.set(xlabel="records n", ylabel="distance between means of neighbours", ylim=(0.002, 20))
    axes.legend(loc="lower left")
    return {"jump": (figure, "How far one record can move the mean of points on a circle.")}


def chains(tables: Tables) -> Figures:
    bias, times = tables["bias"], tables["times"]
    figure, (left, right) = _panels(2, width=8.6, height=3.5, shares=(1.0, 1.05))
    shown = ((PROGRAM, ORANGE, "o-"), (WORDED, PINK, "s--"), (REPAIRED, GREEN, "D:"))
    for sampler, colour, style in shown:
        part = where(bias, sampler=sampler)
        space = "SPD(2)" if sampler == PROGRAM else "$S^2$"
        left.errorbar(
            part["n"],
            part["error_over_exact"],
            2.0 * part["se"],
            fmt=style,
            color=colour,
            label=f"{space}, {sampler}",
        )
    ours = where(bias, sampler=EXACT, space="SPD(2)")
    left.plot(ours["n"], ours["error_over_exact"], "-", color=BLUE, label="ours")
    left.set(xscale="log", yscale="log", xlabel="records n", ylabel="mean error, as a multiple of the law's")
    _plain_ticks(left.xaxis, [25.0, 100.0, 500.0, 2000.0, 20000.0])
    _plain_ticks(left.yaxis, [1, 2, 5])
    left.set_title("bias")
    left.legend(loc="upper left")
    bars: list[tuple[str, float, str]] = []
    for place in times["space"].unique():
        for name in sorted(map(str, where(times, space=place)["sampler"].unique()), key=lambda name: name.startswith(EXACT)):
            seconds = float(np.median(where(times, space=place, sampler=name)["seconds_a_draw"]))
            colour = BLUE if name.startswith(EXACT) else GREY
            bars.append((f"{'$S^2$' if place == 'S^2' else place}, {name}", 1e6 * seconds, colour))
    _bars(right, bars)
    right.set(xscale="log", xlabel="microseconds a draw, in bulk (median over n)", title="time")
    caption = (
        "Left: mean distance of the draws from their centre over that of the law, with two standard errors. Right: time a draw; "
        "grey are the chains, blue is ours, in float64 and in the real arithmetic of releases."
    )
    return {"chains": (figure, caption)}


def beyond(tables: Tables) -> Figures:
    simulated, real = tables["simulated"], tables["real"]
    figure, (left, *others) = _panels(3, width=9.6, height=3.9, shares=(1.3, 1.0, 1.0))
    names = [str(name) for name in simulated["manifold"].unique()]
    for column, marker, colour, words in (
        ("ratio", "o", ORANGE, "the paper's scale"),
        ("private_ratio", "D", BLUE, "a private scale"),
    ):
        for row, name in enumerate(names):
            values = where(simulated, manifold=name)[column]
            left.plot(values, [row] * len(values), marker, color=colour, fillstyle="none", label=words if row == 0 else None)
    left.axvline(1.0, color="black", linewidth=1.0)
    left.set_yticks(range(len(names)), [_with_dimensions(simulated, name) for name in names])
    left.invert_yaxis()
    left.set(xlabel="intrinsic / ambient geodesic error", xlim=(0.0, 1.1), title="simulated, n = 50 to 800")
    left.legend(loc="upper left", title="ambient noise with", alignment="left", borderaxespad=0.2)
    titles = {"dti_tensors": "diffusion tensors, SPD(3)", "icu_arrivals": "arrival times, circle"}
    for axes, name in zip(others, REAL, strict=True):
        found = where(real, data=name)
        for column, style, colour, words in (
            ("private_ambient", "D:", BLUE, "ambient, private scale"),
            ("ambient", "o--", ORANGE, "ambient, the paper's scale"),
            ("intrinsic", "s-", GREEN, "intrinsic (ours)"),
        ):
            axes.loglog(found["epsilon"], found[column], style, color=colour, label=words)
        _plain_ticks(axes.xaxis, [float(e) for e in found["epsilon"].unique()])
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


def _with_dimensions(table: pd.DataFrame, name: str) -> str:
    part = where(table, manifold=name)
    return f"{name}  {part['d'][0]}/{part['D'][0]}"


def notions(tables: Tables) -> Figures:
    found = tables["errors"]
    names = [f"{name}, {d} dimensions" for name, d in zip(found["manifold"], found["d"], strict=True)]
    figure, (axes,) = _panels(1, width=7.6, height=4.6)
    for name, marker, colour, words in (
        ("pure", "s", GREY, "pure epsilon = 1"),
        ("gaussian", "^", ORANGE, "(1, 1e-6), Gaussian noise"),
        ("ours", "o", BLUE, "(1, 1e-6), what a release chooses"),
    ):
        axes.plot(found[name], range(len(names)), marker, color=colour, label=words)
        axes.plot(found[f"{name}_seen"], range(len(names)), "|", color=colour, markersize=9.0)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="expected geodesic error", title=f"n = {int(found['n'][0])}")
    axes.legend(loc="upper right")
    caption = (
        "Marks: the guaranteed expected error of a plan. Bars: the mean error of simulated releases. In many dimensions a delta "
        "of a millionth saves most of the noise, and calibrated Laplace noise errs less than Gaussian noise throughout."
    )
    return {"notions": (figure, caption)}


FIGURES: dict[str, Callable[[Tables], Figures]] = {
    function.__name__: function
    for function in (neighbours, utility, bounds, privacy, rates, subspaces, circle, chains, beyond, notions)
}
