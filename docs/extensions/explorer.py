"""The numbers behind the explorer page, computed by the library when the site is built.

Everything the page shows follows from five functions of the noise scale ``sigma`` (the mean of the radius and four
quantiles), one function of the radius of the ball (the numerical tolerance) and a few constants. Each function is tabulated
as a piecewise Chebyshev interpolant, good to about eight digits, that a few lines of JavaScript evaluate.
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
from geodp import SPD, Ball, Euclidean, Grassmann, Hyperbolic, Laplace, Manifold, PlanarShapes, Rotations, Sphere
from geodp.laws import exact
from geodp.mechanisms.ambient import ambient_dimension
from geodp.statistics.mean import FrechetMean
from geodp.planning import QUANTILES

#: What the page offers, with a word on the records.
MANIFOLDS: dict[Manifold, str] = {
    Sphere(2): "directions",
    Sphere(1): "angles, clock times",
    Sphere(5): "compositions of six parts",
    Hyperbolic(2): "embeddings of trees",
    SPD(2): "2x2 covariance matrices",
    SPD(3): "diffusion tensors",
    Rotations(3): "orientations",
    Grassmann(1, 3): "axes",
    PlanarShapes(4): "outlines of four landmarks",
    Euclidean(3): "vectors",
}

#: The steps of the two sliders that run over powers of ten.
DIGITS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
EPSILONS = [0.1 * digit for digit in DIGITS] + [*DIGITS, 10.0]
RECORDS = [round(digit * 10**power) for power in range(1, 6) for digit in DIGITS] + [1_000_000]

_DEGREE = 12
#: Below this scale a manifold is flat to ten digits: curvature enters with the square of the scale.
_FLAT = 1e-5

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
    """All that the page needs to know about a manifold."""
    bounded = math.isfinite(manifold.injectivity_radius)
    limit = 0.9 * exact.largest_scale(manifold)
    largest_ball = Ball(manifold, manifold.origin, 1e-3).max_radius
    low, high = (0.02 * largest_ball, 0.95 * largest_ball) if bounded else (0.05, 3.0)

    def log_errors(log_scale: float) -> Values:
        law = Laplace(manifold, math.exp(log_scale))
        return np.log([law.mean_radius(), *np.asarray(law.radius_quantile(QUANTILES))]) - log_scale

    def log_tolerance(radius: float) -> Values:
        return np.log([FrechetMean(Ball(manifold, manifold.origin, radius)).tolerance])

    widest = min(limit, 2.0 * high / EPSILONS[0])
    # flat spaces have the same law at every scale
    scales = (_FLAT, 1.01 * _FLAT) if isinstance(manifold, Euclidean) else (_FLAT, widest)
    return {
        "name": repr(manifold),
        "records": name,
        "dim": manifold.dim,
        "curvature": manifold.curvature,
        "injectivity": manifold.injectivity_radius if bounded else None,
        "diameter": manifold.diameter if bounded else None,
        "limit": limit if math.isfinite(limit) else None,
        "radii": [_nice(low + (high - low) * i / 100) for i in range(101)],
        "ambient": ambient_dimension(Ball(manifold, manifold.origin, low)),
        "errors": fit(log_errors, math.log(scales[0]), math.log(scales[1])),
        "tolerance": fit(log_tolerance, 0.99 * low, 1.01 * high, 1e-6),
    }


def _nice(radius: float) -> float:
    return float(f"{radius:.3g}")


def data() -> dict[str, Any]:
    return {
        "quantiles": QUANTILES,
        "epsilons": [float(f"{epsilon:.3g}") for epsilon in EPSILONS],
        "records": RECORDS,
        "manifolds": [table(manifold, name) for manifold, name in MANIFOLDS.items()],
    }


def _write(app: Sphinx, error: Exception | None) -> None:
    script = Path(app.outdir) / "_static" / "explorer-data.js"
    if error is None and app.builder.format == "html" and not _up_to_date(script):
        # a script rather than JSON: pages opened from a disk may not fetch files
        script.write_text(f"window.GEODP = {json.dumps(data(), separators=(',', ':'))};\n")


def _up_to_date(made: Path) -> bool:
    """Whether the file is younger than this one and all of the library: making it takes half a minute."""
    sources = [Path(__file__), *Path(geodp.__file__).parent.rglob("*.py")]
    return made.exists() and made.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
