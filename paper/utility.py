"""Error of the private mean, intrinsic against ambient

The paper's Figure 1, panels 2 and 4: average Euclidean error of the private mean with epsilon = 1 and its band of two
standard errors, noise on the manifold against noise in the ambient space; with the paper's calibration and with ours.

Data as in the first experiment, a new data set for every replicate. Error: Euclidean distance of upper triangles (SPD) or
Cartesian coordinates (sphere) between mean and private mean. SPD(2), published: scale 2 Delta/epsilon on the manifold and, as
in the published program, twice 2(e^r - 1)/(n epsilon) in the ambient space; factor one: half of both. S^2: the paper's
empirical bound, its Theorem 2, and the sharp bound, against 4 sin(r/2)/(n epsilon). The columns intrinsic and ambient average
one draw a replicate, as published. intrinsic_precise averages many draws a replicate; intrinsic_exact is an integral over the
radius (sphere) and ambient_exact the mean of a Gamma law; projected_precise and projected_exact are for ambient noise
projected back onto the sphere. Gains use the exact numbers where there are any, else the precise ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import roots_genlaguerre

from geodp import SPD, Ball, Laplace, Sphere, private_mean, sensitivity
from geodp.inputs import Array
from geodp.noise.flat import FlatNoise
from paper.ambient import AmbientLaplace
from paper.bounds import empirical_bound
from paper.experiment import Claim, Rows, Settings, Tables, Task, span, standard_error, where
from paper.models import CAP, EXAMPLES, MATRICES, laplace_for, means, noisy

#: The numbers of records for which the paper mentions ambient matrices that are not positive definite.
SMALL_COUNTS = (20, 30, 40)
DOUBLED, SINGLE = "2 Delta/epsilon (published)", "Delta/epsilon (geodp)"
EMPIRICAL, THEOREM, PROGRAM, SHARP = "empirical (paper)", "Theorem 2 (paper)", "tan(2r)/n (program)", "sharp (geodp)"


def tasks(settings: Settings) -> list[Task]:
    sizes = {"replicates": settings.replicates, "draws": settings.draws, "releases": settings.releases}
    matrices = [{"space": "SPD(2)", "n": n, **sizes} for n in sorted({*SMALL_COUNTS, *settings.counts})]
    return matrices + [{"space": "S^2", "n": n, **sizes} for n in settings.counts]


def work(rng: np.random.Generator, space: str, n: int, replicates: int, draws: int, releases: int) -> Rows:
    ball, draw_records = EXAMPLES[space]
    records = draw_records((replicates, n), rng)
    compare = _matrices if ball is MATRICES else _sphere
    rows = compare(records, means(ball, records), max(1, draws // replicates), rng)
    return {**rows, "releases": [_releases(ball, records, releases)]}


def _averages(intrinsic: Array, ambient: Array) -> dict[str, float]:
    """The averages over one draw a replicate, as published, with standard errors, and over all draws."""
    return {
        **{"intrinsic": intrinsic[:, 0].mean(), "intrinsic_se": standard_error(intrinsic[:, 0])},
        **{"ambient": ambient[:, 0].mean(), "ambient_se": standard_error(ambient[:, 0])},
        **{"intrinsic_precise": intrinsic.mean(), "intrinsic_precise_se": standard_error(intrinsic.mean(axis=1))},
    }


# ---------------------------------------------------------------------- SPD(2)


def _matrices(records: Array, centers: Array, each: int, rng: np.random.Generator) -> Rows:
    replicates, n = records.shape[:2]
    ambient = AmbientLaplace(MATRICES, n, 1.0)
    farthest = MATRICES.manifold.raw_dist(MATRICES.center, records).max(axis=1)
    written = ambient.coordinates(centers)[:, None]
    errors, shares = [], []
    for calibration, sigma, factor in (
        (DOUBLED, 2.0 * sensitivity(MATRICES, n), 2.0),
        (SINGLE, laplace_for(MATRICES, n, 1.0).sigma, 1.0),
    ):
        draws = noisy(Laplace(SPD(2), sigma), centers, each, rng)
        apart = np.linalg.vector_norm(ambient.coordinates(draws) - written, axis=-1)
        noise = FlatNoise(3, 1.0, "laplace").sample(replicates * each, rng).reshape(replicates, each, 3)
        scale = factor * ambient.scale
        errors.append(
            {
                **{"space": "SPD(2)", "calibration": calibration, "n": n, "sigma": sigma, "ambient_sigma": scale},
                **{"replicates": replicates, **_averages(apart, scale * np.linalg.vector_norm(noise, axis=-1))},
                **{"intrinsic_exact": math.nan, "ambient_exact": 3.0 * scale},
            }
        )
        data_scale = factor * 2.0 * np.expm1(farthest)[:, None, None] / n
        share = _not_definite(written + scale * noise).mean(axis=1)
        shares.append(
            {
                **{"n": n, "calibration": calibration, "draws": replicates * each},
                **{"ambient": share.mean(), "ambient_se": standard_error(share)},
                "ambient_radius_from_data": _not_definite(written + data_scale * noise).mean(),
                "intrinsic": 1.0 - MATRICES.manifold.valid(draws).mean(),
            }
        )
    return {"errors": errors, "not_definite": shares}


def _not_definite(upper: Array) -> NDArray[np.bool_]:
    """Which matrices, given by their upper triangles, are not positive definite."""
    return (upper[..., 0] <= 0.0) | (upper[..., 0] * upper[..., 2] <= upper[..., 1] ** 2)


# ---------------------------------------------------------------------- the sphere


def exact_chord(sigma: float) -> float:
    """The mean Euclidean distance of the Laplace law on the unit sphere from its centre, by quadrature."""
    reach = min(math.pi, 60.0 * sigma)
    mass, chord = (
        quad(
            lambda s, f=f: f(s) * math.sin(s) * math.exp(-s / sigma), 0.0, reach, points=[2.0 * sigma], epsabs=0.0, epsrel=1e-11
        )[0]
        for f in (lambda s: 1.0, lambda s: 2.0 * math.sin(0.5 * s))
    )
    return chord / mass


def exact_projected_chord(sigma: float) -> float:
    """The mean Euclidean error of ambient noise in R^3 that is projected back onto the unit sphere, by quadrature.

    The integral is over the length of the noise, whose density is proportional to ``t^2 exp(-t)`` in units of sigma, and over
    the cosine of its angle with the mean, which is uniform.
    """
    length, length_weight = roots_genlaguerre(80, 2.0)
    cosine, cosine_weight = np.polynomial.legendre.leggauss(80)
    along, across = 1.0 + sigma * np.outer(length, cosine), sigma * np.outer(length, np.sqrt(1.0 - cosine**2))
    chord = 2.0 * np.sin(0.5 * np.arctan2(across, along))
    return float(length_weight @ chord @ cosine_weight / (2.0 * length_weight.sum()))


def _sphere(records: Array, centers: Array, each: int, rng: np.random.Generator) -> Rows:
    replicates, n = records.shape[:2]
    ambient = AmbientLaplace(CAP, n, 1.0)

    def error(points: Array) -> Array:
        return np.linalg.vector_norm(points - centers[:, None], axis=-1)

    rows = []
    for calibration, sigma in (
        (EMPIRICAL, empirical_bound(CAP.radius) / n),
        (THEOREM, sensitivity(CAP, n, "reimherr2021")),
        (PROGRAM, math.tan(2.0 * CAP.radius) / n),
        (SHARP, laplace_for(CAP, n, 1.0).sigma),
    ):
        draws = noisy(Laplace(Sphere(2), sigma), centers, each, rng)
        noise = ambient.sample(np.repeat(centers[:, None], each, axis=1), rng)
        back = error(ambient.nearest(noise))
        rows.append(
            {
                **{"space": "S^2", "calibration": calibration, "n": n, "sigma": sigma, "ambient_sigma": ambient.scale},
                **{"replicates": replicates, **_averages(error(draws), error(noise))},
                **{"intrinsic_exact": exact_chord(sigma), "ambient_exact": 3.0 * ambient.scale},
                **{"projected_precise": back.mean(), "projected_precise_se": standard_error(back.mean(axis=1))},
                "projected_exact": exact_projected_chord(ambient.scale),
            }
        )
    return {"errors": rows}


def _releases(ball: Ball, records: Array, count: int) -> dict[str, object]:
    """Whether releases through the whole program, with exact noise from the operating system, are points of the manifold."""
    values = [private_mean(x, ball, 1.0).value for x in records[:count]]
    outside = sum(ball.manifold.check_point(value) is not None for value in values)
    return {"space": str(ball.manifold), "n": records.shape[1], "releases": len(values), "not_on_manifold": outside}


# ---------------------------------------------------------------------- claims and notes


def derived(tables: Tables) -> Tables:
    """Adds how much smaller the intrinsic error is: from exact or precise averages, and from the published number of draws."""
    found = tables["errors"]
    gains = found[["space", "calibration", "n"]].copy()
    gains["ratio"] = found["intrinsic_exact"].fillna(found["intrinsic_precise"]) / found["ambient_exact"]
    gains["reduction"] = 1.0 - gains["ratio"]
    simulated = found["intrinsic"] / found["ambient"]
    gains["reduction_simulated"] = 1.0 - simulated
    spread = np.hypot(found["intrinsic_se"] / found["intrinsic"], found["ambient_se"] / found["ambient"])
    gains["reduction_simulated_se"] = simulated * spread
    return {"reductions": gains}


def claims(tables: Tables) -> Iterator[Claim]:
    reductions, shares = tables["reductions"], tables["not_definite"]
    empirical, sharp = (100.0 * where(reductions, calibration=name)["reduction"] for name in (EMPIRICAL, SHARP))
    yield Claim(
        "S^2 with the paper's empirical bound: 12.3 to 12.5% less error than ambient at every n.",
        f"{span(empirical, '.2f')}%",
        bool(empirical.between(12.25, 12.55).all()),
    )
    yield Claim(
        "S^2 with the sharp bound: 28 to 31% less error than ambient at every n.",
        f"{span(sharp, '.2f')}%",
        bool(sharp.between(28.0, 31.0).all()),
    )
    small = _shares_at_small_counts(tables, SINGLE, "ambient")
    yield Claim(
        "SPD(2): about 33%, 15% and 7% of the ambient outputs are not positive definite at n = 20, 30, 40.",
        ", ".join(f"{share:.1f}%" for share in small),
        bool((np.abs(small - np.array([33.0, 15.0, 7.0])) < 2.0).all()),
    )
    ratio = where(reductions, calibration=SINGLE)["ratio"]
    yield Claim(
        "SPD(2): with factor-one calibration the intrinsic error is at most 0.40 of the ambient one for n >= 20.",
        span(ratio, ".3f"),
        bool(ratio.max() <= 0.40),
    )
    releases = tables["releases"]
    left = releases["not_on_manifold"].sum() + shares["intrinsic"].sum()
    yield Claim(
        "Our release never leaves the manifold.",
        f"{left:g} of {releases['releases'].sum()} releases with exact noise and {shares['draws'].sum()} simulated draws",
        bool(left == 0),
    )
    sphere = where(tables["errors"], space="S^2")
    z = np.array(
        [(sphere[f"{k}_precise"] - sphere[f"{k}_exact"]) / sphere[f"{k}_precise_se"] for k in ("intrinsic", "projected")]
    )
    yield Claim(
        "Samplers agree with quadrature on the sphere: no average is more than 4.5 standard errors off.",
        f"largest of {z.size}: {np.abs(z).max():.2f} standard errors",
        bool(np.abs(z).max() < 4.5),
    )


def _shares_at_small_counts(tables: Tables, calibration: str, column: str) -> Array:
    """Percentages of matrices that are not positive definite, for the numbers of records that the paper mentions."""
    shares = where(tables["not_definite"], calibration=calibration).set_index("n")[column]
    return 100.0 * shares.loc[list(SMALL_COUNTS)].to_numpy()


def notes(tables: Tables) -> list[str]:
    reductions = tables["reductions"]
    per_n = 100.0 * where(reductions, calibration=EMPIRICAL)["reduction_simulated_se"].mean()
    program = 100.0 * where(reductions, calibration=PROGRAM)["reduction"]
    few = per_n / math.sqrt(5.0)

    def listed(calibration: str, column: str) -> str:
        found = _shares_at_small_counts(tables, calibration, column)
        return ", ".join(f"{share:.0f}%" for share in found) + f" (average {found.mean():.0f}%)"

    def against_projected(calibration: str) -> str:
        found = where(tables["errors"], calibration=calibration)
        return f"{span(found['intrinsic_exact'] / found['projected_exact'], '.3f')} of its error"

    return [
        "Where the paper's text differs: 16.8%. The paper reports about 15% less error on the sphere, 16.8% at the smaller and "
        "12% at the larger sample sizes. The exact laws give no such trend: both errors are proportional to 1/n up to terms of "
        "order 1/n^2, so the gain is the same at every n. With the empirical bound it is 12.3 to 12.5%. The published program "
        f"holds a second calibration, tan(2r)/n (2r/h without the factor 2 - h), which gives {span(program, '.1f')}% and would "
        f"explain 'about 15%'. With {tables['errors']['replicates'][0]} replicates the gain at one n has a standard error of "
        f"{per_n:.1f} points (the simulated points in the figure), and its average over five sample sizes one of {few:.1f}: "
        f"16.8% is {(16.8 - 14.6) / few:.1f} standard errors from 14.6% and {(16.8 - 12.4) / few:.1f} from 12.4%.",
        "Where the paper's text differs: 25%. The paper finds about 25% of the ambient matrices not positive definite at n = "
        f"20 to 40. With its stated scale 2(e^r - 1)/n the shares at n = 20, 30, 40 are {listed(SINGLE, 'ambient')}. The "
        "published program doubles that scale and takes r as the largest distance in the private data: "
        f"{listed(DOUBLED, 'ambient_radius_from_data')}; with r from the data and no doubling: "
        f"{listed(SINGLE, 'ambient_radius_from_data')}. The text's number is of the right order but belongs to none of these: "
        "it is the share at n = 24 or so of the first.",
        "The published intrinsic noise on SPD(2) uses 2 Delta/epsilon, which is needed only where the normaliser depends on the "
        "centre. It does not here (see the experiment on privacy), so Delta/epsilon is enough and halves the error.",
        "Projecting the ambient draw back onto the sphere, which the paper does not do, is post-processing. It leaves about "
        f"pi/4 of the error. Against that the paper's empirical bound loses ({against_projected(EMPIRICAL)}); the sharp bound "
        f"still wins ({against_projected(SHARP)}).",
        "The comparison is lenient to the ambient method: its scale bounds the arithmetic mean, but the noise is added to the "
        "Fréchet mean, which one record can move further. The experiment on privacy measures by how much its epsilon is "
        "exceeded.",
    ]
