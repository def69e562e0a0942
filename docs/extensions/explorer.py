"""The numbers behind the explorer page, computed by the library when the site is built.

Everything the page shows follows from three things: the volume density of a manifold averaged over directions, as a function of
the radius; the numerical tolerance, as a function of the radius of the ball; and the noise that each mechanism needs for each
amount of privacy. The two functions are tabulated as piecewise Chebyshev interpolants, and JavaScript evaluates and integrates
them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from sphinx.application import Sphinx

import geodp
from geodp import SPD, Ball, Euclidean, Grassmann, Hyperbolic, Manifold, PlanarShapes, Rotations, SPDLogEuclidean, Sphere
from geodp.noise import exact
from geodp.noise.choice import Candidate, SensitivityBound, Unsuitable, candidates
from geodp.noise.intrinsic import intrinsic_cost
from geodp.noise.tangent import tangent_cost
from geodp.noise.volume import mean_volume
from geodp.plans import QUANTILES
from geodp.privacy.notions import privacy_of
from geodp.programs.chain import plan_chain
from geodp.statistics.mean import Mean

#: The manifolds that the page offers, with examples of records.
MANIFOLDS: dict[Manifold, str] = {
    Sphere(2): "directions",
    Sphere(1): "angles, clock times",
    Sphere(5): "compositions of six parts",
    Sphere(30): "compositions of 31 parts",
    Hyperbolic(2): "embeddings of trees",
    SPD(2): "2x2 covariance matrices",
    SPD(3): "diffusion tensors",
    SPDLogEuclidean(6): "6x6 covariance matrices, flat metric",
    Rotations(3): "orientations",
    Grassmann(1, 3): "axes",
    PlanarShapes(4): "outlines of four landmarks",
    Euclidean(3): "vectors",
}

#: The steps of the two sliders that run over powers of ten.
DIGITS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
EPSILONS = [0.1 * digit for digit in DIGITS] + [*DIGITS, 10.0]
#: None is pure privacy.
DELTAS = [None, 1e-9, 1e-6, 1e-5]
RECORDS = [round(digit * 10**power) for power in range(1, 6) for digit in DIGITS] + [1_000_000]

#: A ball that is found privately is tabulated for these: the wide radius to start from (none on compact spaces), and spreads.
SEARCHED: dict[Manifold, tuple[float | None, tuple[float, ...]]] = {
    Sphere(2): (None, (0.1, 0.3, 0.6)),
    SPD(2): (30.0, (0.3, 0.6, 1.5)),
    SPD(3): (30.0, (0.3, 0.6, 1.5)),
    Rotations(3): (None, (0.1, 0.3, 0.6)),
}
SEARCH_EPSILONS = (0.5, 1.0, 2.0)
SEARCH_RECORDS = (100, 1000, 10_000, 100_000, 1_000_000)
#: The part of epsilon that is spent on the ball.
FIND = 0.2

_DEGREE = 12

Values = NDArray[np.float64]


def fit(function: Callable[[float], Values], low: float, high: float, tolerance: float = 1e-8) -> dict[str, Any]:
    """Piecewise Chebyshev coefficients of a function with several values; segments are halved until nodes between fit."""
    nodes = chebyshev.chebpts1(_DEGREE + 1)
    between = np.array([-0.97, -0.55, 0.03, 0.61, 0.96])
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    values = np.stack([function(middle + half * node) for node in nodes])
    coefficients = chebyshev.chebfit(nodes, values, _DEGREE)
    wanted = np.stack([function(middle + half * node) for node in between])
    if np.abs(chebyshev.chebval(between, coefficients).T - wanted).max() <= tolerance or high - low < 1e-3:
        return {"edges": [low, high], "coefficients": [coefficients.T.tolist()]}
    left, right = fit(function, low, middle, tolerance), fit(function, middle, high, tolerance)
    return {"edges": left["edges"] + right["edges"][1:], "coefficients": left["coefficients"] + right["coefficients"]}


def table(manifold: Manifold, name: str) -> dict[str, Any]:
    """The data that the page needs for a manifold."""
    bounded = math.isfinite(manifold.injectivity_radius)
    limit = 0.9 * exact.largest_scale(manifold)
    largest_ball = Ball(manifold, manifold.origin, 1e-3).max_radius
    low, high = (0.02 * largest_ball, 0.95 * largest_ball) if bounded else (0.05, 3.0)
    # wide noise is drawn up to this scale, where its tail is hundreds of times as long
    farthest = manifold.diameter if bounded else 700.0 / max(manifold.volume_entropy, 1.0)
    density = mean_volume(manifold, farthest)
    # on spheres a power of a function that is not small: the table needs fewer digits
    power = max(manifold.dim - 1, 1) if isinstance(manifold, Sphere) else 1

    def volume(radius: float) -> Values:
        log_mean = density.log_mean(np.array([radius]))
        return np.exp(log_mean / power) if bounded else log_mean

    def log_rounding(radius: float) -> Values:
        ball = Ball(manifold, manifold.origin, radius)
        return np.log([Mean(ball).tolerance(), 16.0 * manifold.log_rounding(ball.center, ball.reach)])

    return {
        "name": repr(manifold),
        "records": name,
        "dim": manifold.dim,
        "curvature": manifold.curvature,
        "bend": math.sqrt(-manifold.lowest_curvature),
        "factors": [[f.power, math.sqrt(float(f.square_rate)), f.sign] for f in manifold.roots.volume_bound.factors],
        "entropy": manifold.volume_entropy,
        "injectivity": manifold.injectivity_radius if bounded else None,
        "diameter": manifold.diameter if bounded else None,
        "limit": limit if math.isfinite(limit) else None,
        "projected": math.pi / 3.0 if isinstance(manifold, Sphere) else (0.0 if bounded else None),
        "radii": [_nice(low + (high - low) * i / 100) for i in range(101)],
        "ambient": manifold.dim + isinstance(manifold, Sphere) if isinstance(manifold, Sphere | SPD) else None,
        "power": power,
        "volume": fit(volume, 1e-9, farthest * (1.0 - 1e-12), 1e-11 if bounded else 1e-9),
        "rounding": fit(log_rounding, 0.99 * low, 1.01 * high, 1e-6),
        "unit": _unit(manifold),
        "searched": searched(manifold),
        "mechanisms": [[affordable(manifold, epsilon, delta) for epsilon in EPSILONS] for delta in DELTAS],
    }


def searched(manifold: Manifold) -> dict[str, Any] | None:
    """For each spread, number of records and epsilon, the radius of a ball found privately and the error of a mean in it."""
    if manifold not in SEARCHED:
        return None
    radius, spreads = SEARCHED[manifold]
    outer = manifold if radius is None else Ball(manifold, manifold.origin, radius)

    def chain(spread: float, n: int, epsilon: float) -> list[float]:
        found = plan_chain(outer, n, epsilon, spread=spread, find=FIND)
        return [found.radius, found.expected_error]

    plans = [[[chain(spread, n, epsilon) for epsilon in SEARCH_EPSILONS] for n in SEARCH_RECORDS] for spread in spreads]
    return {"radius": radius, "spreads": spreads, "plans": plans}


def _unit(manifold: Manifold) -> dict[str, str] | None:
    """The unit of lengths, and what a percentage is of."""
    unit = next(iter(manifold.units), None)
    return None if unit is None else {"name": unit.name, "of": unit.say(0.01).partition("% ")[2]}


def affordable(manifold: Manifold, epsilon: float, delta: float | None) -> list[tuple[float, float] | None]:
    """For each of the four mechanisms the largest ratio of sensitivity to scale, and its advantage; None if it cannot be used."""
    privacy = privacy_of(float(f"{epsilon:.3g}"), delta)
    bound = SensitivityBound(manifold, 1.0, Ball(manifold, manifold.origin, 0.1), 1.0)
    return [_affordable(candidate) for candidate in candidates(bound, privacy)]


def _affordable(candidate: Candidate) -> tuple[float, float] | None:
    manifold = candidate.bound.manifold
    try:
        ratio = candidate.ratio
    except Unsuitable:
        return None
    intrinsic = candidate.kind == "intrinsic"
    cost = intrinsic_cost(manifold, candidate.family, ratio) if intrinsic else tangent_cost(manifold.dim, candidate.family, ratio)
    return ratio, cost.advantage


def _nice(radius: float) -> float:
    return float(f"{radius:.3g}")


def data() -> dict[str, Any]:
    return {
        "quantiles": QUANTILES,
        "epsilons": [float(f"{epsilon:.3g}") for epsilon in EPSILONS],
        "deltas": DELTAS,
        "records": RECORDS,
        "search": {"epsilons": SEARCH_EPSILONS, "records": SEARCH_RECORDS, "find": FIND},
        "manifolds": [table(manifold, name) for manifold, name in MANIFOLDS.items()],
    }


def _write(app: Sphinx, error: Exception | None) -> None:
    script = Path(app.outdir) / "_static" / "explorer-data.js"
    if error is None and app.builder.format == "html" and not _up_to_date(script):
        # a script rather than JSON: pages opened from a disk may not fetch files
        script.write_text(f"window.GEODP = {json.dumps(data(), separators=(',', ':'))};\n")


def _up_to_date(made: Path) -> bool:
    """Whether the file is newer than this program and the library. Making it takes half a minute."""
    sources = [Path(__file__), *Path(geodp.__file__).parent.rglob("*.py")]
    return made.exists() and made.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
