"""Figure 1, panels 2 and 4: the error of the private mean, intrinsic against ambient."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import roots_genlaguerre

from geodp.inputs import Array
from geodp.manifolds import SPD, Sphere
from geodp.manifolds.ball import Ball
from geodp.noise.ambient import AmbientLaplace
from geodp.noise.families import Laplace
from geodp.noise.flat import FlatNoise
from geodp.release import private_mean
from geodp.statistics.sensitivity import sensitivity
from geodp.study.bounds import empirical_bound
from geodp.study.experiment import Claim, Experiment, Settings, Tables, Task
from geodp.study.models import CAP, EXAMPLES, MATRICES, laplace_for, means, noisy, standard_error
from geodp.study.table import ResultTable

#: The numbers of records for which the paper mentions ambient matrices that are not positive definite.
SMALL_COUNTS = (20, 30, 40)
DOUBLED, SINGLE = "2 Delta/epsilon (published)", "Delta/epsilon (geodp)"
EMPIRICAL, THEOREM, PROGRAM, SHARP = "empirical (paper)", "Theorem 2 (paper)", "tan(2r)/n (program)", "sharp (geodp)"
COLUMNS = (
    *("space", "calibration", "n", "sigma", "ambient_sigma", "replicates", "intrinsic", "intrinsic_se", "ambient", "ambient_se"),
    *("intrinsic_precise", "intrinsic_precise_se", "intrinsic_exact", "ambient_exact"),
    *("projected_precise", "projected_precise_se", "projected_exact"),
)


def tasks(settings: Settings) -> list[Task]:
    sizes = {"replicates": settings.replicates, "draws": settings.draws, "releases": settings.releases}
    matrices: list[Task] = [{"space": "SPD(2)", "n": n, **sizes} for n in sorted({*SMALL_COUNTS, *settings.counts})]
    sphere: list[Task] = [{"space": "S^2", "n": n, **sizes} for n in settings.counts]
    return matrices + sphere


def work(task: Task, rng: np.random.Generator) -> Tables:
    ball, draw_records = EXAMPLES[str(task["space"])]
    replicates = int(task["replicates"])
    records = draw_records((replicates, int(task["n"])), rng)
    compare = _matrices if ball is MATRICES else _sphere
    tables = compare(records, means(ball, records), max(1, int(task["draws"]) // replicates), rng)
    return {**tables, "releases": _releases(ball, records, int(task["releases"]))}


# ---------------------------------------------------------------------- SPD(2)


def _matrices(records: Array, centers: Array, each: int, rng: np.random.Generator) -> Tables:
    replicates, n = records.shape[:2]
    ambient = AmbientLaplace(MATRICES, n, 1.0)
    farthest = MATRICES.manifold.raw_dist(MATRICES.center, records).max(axis=1)
    rows, shares = [], []
    for calibration, sigma, factor in (
        (DOUBLED, 2.0 * sensitivity(MATRICES, n), 2.0),
        (SINGLE, laplace_for(MATRICES, n, 1.0).sigma, 1.0),
    ):
        draws = noisy(Laplace(SPD(2), sigma), centers, each, rng)
        errors = np.linalg.vector_norm(ambient.coordinates(draws) - ambient.coordinates(centers)[:, None], axis=-1)
        noise = FlatNoise(3, 1.0, "laplace").sample(replicates * each, rng).reshape(replicates, each, 3)
        scale = factor * ambient.scale
        row = _compared(errors, scale * np.linalg.vector_norm(noise, axis=-1))
        rows.append(
            ("SPD(2)", calibration, n, sigma, scale, replicates, *row, math.nan, 3.0 * scale, math.nan, math.nan, math.nan)
        )
        data_scale = factor * 2.0 * np.expm1(farthest)[:, None, None] / n
        shares.append(_shares(n, calibration, ambient.coordinates(centers)[:, None], scale * noise, data_scale * noise, draws))
    return {
        "errors": ResultTable.of(COLUMNS, rows),
        "not_definite": ResultTable.of(
            ("n", "calibration", "draws", "ambient", "ambient_se", "ambient_radius_from_data", "intrinsic"), shares
        ),
    }


def _compared(errors: Array, ambient: Array) -> tuple[float, ...]:
    """The averages over one draw a replicate, as published, with standard errors, and over all draws."""
    first, other, precise = errors[:, 0], ambient[:, 0], errors.mean(axis=1)
    published = float(first.mean()), standard_error(first), float(other.mean()), standard_error(other)
    return *published, float(precise.mean()), standard_error(precise)


def _shares(n: int, calibration: str, centers: Array, noise: Array, data_noise: Array, draws: Array) -> tuple[object, ...]:
    """How often a draw is not positive definite."""

    def outside(upper: Array) -> NDArray[np.bool_]:
        return (upper[..., 0] <= 0.0) | (upper[..., 0] * upper[..., 2] <= upper[..., 1] ** 2)

    share = outside(centers + noise).mean(axis=1)
    ours = 1.0 - MATRICES.manifold.valid(draws).mean()
    from_data = outside(centers + data_noise).mean()
    return n, calibration, math.prod(noise.shape[:2]), share.mean(), standard_error(share), from_data, ours


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


def _sphere(records: Array, centers: Array, each: int, rng: np.random.Generator) -> Tables:
    replicates, n = records.shape[:2]
    ambient = AmbientLaplace(CAP, n, 1.0)
    rows = []
    for calibration, sigma in (
        (EMPIRICAL, empirical_bound(CAP.radius) / n),
        (THEOREM, sensitivity(CAP, n, "reimherr2021")),
        (PROGRAM, math.tan(2.0 * CAP.radius) / n),
        (SHARP, laplace_for(CAP, n, 1.0).sigma),
    ):
        draws = noisy(Laplace(Sphere(2), sigma), centers, each, rng)
        errors = np.linalg.vector_norm(draws - centers[:, None], axis=-1)
        noise = ambient.sample(np.repeat(centers[:, None], each, axis=1), rng)
        row = _compared(errors, np.linalg.vector_norm(noise - centers[:, None], axis=-1))
        back = np.linalg.vector_norm(ambient.nearest(noise) - centers[:, None], axis=-1).mean(axis=1)
        projected = float(back.mean()), standard_error(back), exact_projected_chord(ambient.scale)
        exact = exact_chord(sigma), 3.0 * ambient.scale
        rows.append(("S^2", calibration, n, sigma, ambient.scale, replicates, *row, *exact, *projected))
    return {"errors": ResultTable.of(COLUMNS, rows)}


def _releases(ball: Ball, records: Array, count: int) -> ResultTable:
    """Whether releases through the whole program, with exact noise from the operating system, are points of the manifold."""
    values = [private_mean(x, ball, 1.0).value for x in records[:count]]
    outside = sum(ball.manifold.check_point(value) is not None for value in values)
    row = str(ball.manifold), records.shape[1], len(values), outside
    return ResultTable.of(("space", "n", "releases", "not_on_manifold"), [row])


# ---------------------------------------------------------------------- claims and notes


def derived(tables: Tables) -> Tables:
    """Adds how much smaller the intrinsic error is: from exact or precise averages, and from the published number of draws."""
    found = tables["errors"]
    best = np.where(np.isnan(found.column("intrinsic_exact")), found.column("intrinsic_precise"), found.column("intrinsic_exact"))
    ratio, simulated = best / found.column("ambient_exact"), found.column("intrinsic") / found.column("ambient")
    spread = np.hypot(
        found.column("intrinsic_se") / found.column("intrinsic"), found.column("ambient_se") / found.column("ambient")
    )
    keys = found.only("space", "calibration", "n").rows
    rows = [(*key, *values) for key, *values in zip(keys, ratio, 1.0 - ratio, 1.0 - simulated, simulated * spread, strict=True)]
    columns = ("space", "calibration", "n", "ratio", "reduction", "reduction_simulated", "reduction_simulated_se")
    return {**tables, "reductions": ResultTable.of(columns, rows)}


def claims(tables: Tables) -> list[Claim]:
    reductions, shares = tables["reductions"], tables["not_definite"]
    empirical, sharp = (100.0 * reductions.where(calibration=c).column("reduction") for c in (EMPIRICAL, SHARP))
    ratio = reductions.where(calibration=SINGLE).column("ratio")
    small = [float(shares.where(calibration=SINGLE, n=n).column("ambient")[0]) for n in SMALL_COUNTS]
    sphere = tables["errors"].where(space="S^2")
    z = np.concatenate(
        [
            (sphere.column(f"{k}_precise") - sphere.column(f"{k}_exact")) / sphere.column(f"{k}_precise_se")
            for k in ("intrinsic", "projected")
        ]
    )
    releases = tables["releases"]
    left = int(releases.column("not_on_manifold").sum()) + float(shares.column("intrinsic").sum())
    return [
        Claim(
            "S^2 with the paper's empirical bound: 12.3 to 12.5% less error than ambient at every n.",
            f"{empirical.min():.2f} to {empirical.max():.2f}%",
            bool(empirical.min() >= 12.25 and empirical.max() <= 12.55),
        ),
        Claim(
            "S^2 with the sharp bound: 28 to 31% less error than ambient at every n.",
            f"{sharp.min():.2f} to {sharp.max():.2f}%",
            bool(sharp.min() >= 28.0 and sharp.max() <= 31.0),
        ),
        Claim(
            "SPD(2): about 33%, 15% and 7% of the ambient outputs are not positive definite at n = 20, 30, 40.",
            ", ".join(f"{100.0 * share:.1f}%" for share in small),
            all(abs(share - expected) < 0.02 for share, expected in zip(small, (0.33, 0.15, 0.07), strict=True)),
        ),
        Claim(
            "SPD(2): with factor-one calibration the intrinsic error is at most 0.40 of the ambient one for n >= 20.",
            f"{ratio.min():.3f} to {ratio.max():.3f}",
            bool(ratio.max() <= 0.40),
        ),
        Claim(
            "Our release never leaves the manifold.",
            f"{left:g} of {int(releases.column('releases').sum())} releases with exact noise and "
            f"{int(shares.column('draws').sum())} simulated draws",
            left == 0,
        ),
        Claim(
            "Samplers agree with quadrature on the sphere: no average is more than 4.5 standard errors off.",
            f"largest of {len(z)}: {np.abs(z).max():.2f} standard errors",
            bool(np.abs(z).max() < 4.5),
        ),
    ]


def notes(tables: Tables) -> list[str]:
    reductions, shares = tables["reductions"], tables["not_definite"]
    per_n = 100.0 * float(reductions.where(calibration=EMPIRICAL).column("reduction_simulated_se").mean())
    program = 100.0 * reductions.where(calibration=PROGRAM).column("reduction")
    replicates = int(tables["errors"].column("replicates")[0])
    few = per_n / math.sqrt(5.0)
    off = (16.8 - 14.6) / few, (16.8 - 12.4) / few

    def listed(calibration: str, column: str) -> str:
        found = [float(shares.where(calibration=calibration, n=n).column(column)[0]) for n in SMALL_COUNTS]
        return ", ".join(f"{100.0 * share:.0f}%" for share in found) + f" (average {100.0 * float(np.mean(found)):.0f}%)"

    return [
        "Where the paper's text differs: 16.8%. The paper reports about 15% less error on the sphere, 16.8% at the smaller and "
        "12% at the larger sample sizes. The exact laws give no such trend: both errors are proportional to 1/n up to terms of "
        "order 1/n^2, so the gain is the same at every n. With the empirical bound it is 12.3 to 12.5%. The published program "
        f"holds a second calibration, tan(2r)/n (2r/h without the factor 2 - h), which gives {program.min():.1f} to "
        f"{program.max():.1f}% and would explain 'about 15%'. With {replicates} replicates the gain at one n has a standard "
        f"error of {per_n:.1f} points (the simulated points in the figure), and its average over five sample sizes one of "
        f"{few:.1f}: 16.8% is {off[0]:.1f} standard errors from 14.6% and {off[1]:.1f} from 12.4%.",
        "Where the paper's text differs: 25%. The paper finds about 25% of the ambient matrices not positive definite at n = "
        f"20 to 40. With its stated scale 2(e^r - 1)/n the shares at n = 20, 30, 40 are {listed(SINGLE, 'ambient')}. The "
        "published program doubles that scale and takes r as the largest distance in the private data: "
        f"{listed(DOUBLED, 'ambient_radius_from_data')}; with r from the data and no doubling: "
        f"{listed(SINGLE, 'ambient_radius_from_data')}. The text's number is of the right order but belongs to none of these: "
        "it is the share at n = 24 or so of the first.",
        "The published intrinsic noise on SPD(2) uses 2 Delta/epsilon, which is needed only where the normaliser depends on the "
        "centre. It does not here (see the experiment on privacy), so Delta/epsilon is enough and halves the error.",
        "Projecting the ambient draw back onto the sphere, which the paper does not do, is post-processing. It leaves about "
        f"pi/4 of the error. Against that the paper's empirical bound loses ({_against_projected(tables, EMPIRICAL)}); the "
        f"sharp bound still wins ({_against_projected(tables, SHARP)}).",
        "The comparison is lenient to the ambient method: its scale bounds the arithmetic mean, but the noise is added to the "
        "Fréchet mean, which one record can move further. The experiment on privacy measures by how much its epsilon is "
        "exceeded.",
    ]


def _against_projected(tables: Tables, calibration: str) -> str:
    found = tables["errors"].where(calibration=calibration)
    ratio = found.column("intrinsic_exact") / found.column("projected_exact")
    return f"{ratio.min():.3f} to {ratio.max():.3f} of its error"


EXPERIMENT = Experiment(
    name="utility",
    title="Error of the private mean, intrinsic against ambient",
    about="The paper's Figure 1, panels 2 and 4: average Euclidean error of the private mean with epsilon = 1 and its band of "
    "two standard errors, noise on the manifold against noise in the ambient space; with the paper's calibration and with ours.",
    how="Data as in the first experiment, a new data set for every replicate. Error: Euclidean distance of upper triangles "
    "(SPD) or Cartesian coordinates (sphere) between mean and private mean. SPD(2), published: scale 2 Delta/epsilon on the "
    "manifold and, as in the published program, twice 2(e^r - 1)/(n epsilon) in the ambient space; factor one: half of both. "
    "S^2: the paper's empirical bound, its Theorem 2, and the sharp bound, against 4 sin(r/2)/(n epsilon). The columns "
    "intrinsic and ambient average one draw a replicate, as published. intrinsic_precise averages many draws a replicate; "
    "intrinsic_exact is an integral over the radius (sphere) and ambient_exact the mean of a Gamma law; projected_precise and "
    "projected_exact are for ambient noise projected back onto the sphere. Gains use the exact numbers where there are any, "
    "else the precise ones.",
    tasks=tasks,
    work=work,
    derived=derived,
    claims=claims,
    notes=notes,
)
