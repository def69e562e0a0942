"""The releases: every kind, notion of privacy, family of manifolds, kind of neighbours and source of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import opendp.prelude as dp
import pandas as pd

import geodp
from geodp import (
    HPD,
    SPD,
    Ball,
    Dataset,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Manifold,
    PlanarShapes,
    Product,
    Rotations,
    Session,
    SPDLogEuclidean,
    Sphere,
    Torus,
)

from .record import TOTALS, Book

CASES: dict[str, Callable[[Book], Any]] = {}

EPSILON = {"epsilon": 1.0}
DELTA = {"epsilon": 0.8, "delta": 1e-6}
RHO = {"rho": 0.1}
MU = {"mu": 0.5}
NOTIONS = {"epsilon": EPSILON, "delta": DELTA, "rho": RHO, "mu": MU}

#: Neighbours of budgets, and what says that numbers are private, with the neighbours of the budget; of groups all together.
RECORD, PERSON = "replace one record", "replace one person"
ADDED = {"neighbours": "add-remove", "protects": "add, remove or replace one record"}
PERSON_ADDED = {"neighbours": "add-remove", "protects": "add, remove or replace one person"}
GROUPS_ADDED = {"neighbours": "add-remove", "protects": "add or remove one record"}
PERSON_GROUPS_ADDED = {"neighbours": "add-remove", "protects": "add or remove one person"}


def case(name: str, release: Callable[..., Any], *place: Any, protects: str = RECORD, total: Any = None, **options: Any) -> None:
    """A release that is charged to a budget in the unit of its privacy, or in that of ``total``, for these neighbours."""

    def run(book: Book) -> Any:
        if "simulate" in options:  # charges nothing
            return release(*place, **{**options, "simulate": np.random.default_rng(options["simulate"])})
        given = total or {notion: TOTALS[notion] for notion in ("epsilon", "delta", "rho", "mu") if notion in options}
        return release(*place, **options, **book.open(protects, **given))

    add(name, run)


def add(name: str, run: Callable[[Book], Any]) -> None:
    assert name not in CASES, name
    CASES[name] = run


def ball_of(manifold: Manifold, radius: float = 0.6) -> Ball:
    return Ball(manifold, center_of(manifold), radius)


def center_of(manifold: Manifold) -> np.ndarray:
    """A point that is not the origin."""
    return manifold.exp(manifold.origin, manifold.tangent(manifold.origin, 0.1 * np.cos(np.arange(manifold.dim))))


def records(manifold: Manifold, count: int, spread: float = 0.25, seed: int = 0, at: np.ndarray | None = None) -> np.ndarray:
    """Records about a point, with an invalid one and one far away."""
    steps = np.random.default_rng(seed).standard_normal((count, manifold.dim)) * spread / math.sqrt(manifold.dim)
    steps[count // 3] *= 3.0
    center = center_of(manifold) if at is None else at
    x = manifold.exp(center, manifold.tangent(center, steps))
    x[count // 2] = np.nan
    return x


def persons(count: int, each: int = 3) -> np.ndarray:
    """The person of each record, in no order."""
    return np.random.default_rng(5).permutation(np.arange(count) // each)


# ---------------------------------------------------------------------- means of every family

FAMILIES = [
    *(Euclidean(3), Sphere(1), Sphere(2), Sphere(3, curvature=0.3), Hyperbolic(2), SPD(2), SPD(3), SPDLogEuclidean(2)),
    *(Grassmann(2, 4), Rotations(3), PlanarShapes(4), Product(Sphere(2), Euclidean(2)), HPD(2), Torus(2)),
]
for i, manifold in enumerate(FAMILIES):
    two = ("epsilon", ("rho", "delta", "mu")[i % 3])
    for notion in two:
        case(f"mean {manifold} {notion}", geodp.private_mean, records(manifold, 300), ball_of(manifold), **NOTIONS[notion])

# ---------------------------------------------------------------------- options of a mean

spd, sphere, plane = SPD(2), Sphere(2), Euclidean(2)
x_spd, x_sphere, x_plane = records(spd, 400), records(sphere, 400), records(plane, 400)
in_spd, in_sphere, in_plane = ball_of(spd, 0.8), ball_of(sphere), ball_of(plane)
for law, privacy in (("laplace", EPSILON), ("gaussian", RHO)):
    for mechanism, x, ball in (("intrinsic", x_sphere, in_sphere), ("tangent", x_spd, in_spd)):
        case(f"mean option {mechanism} {law}", geodp.private_mean, x, ball, mechanism=mechanism, law=law, **privacy)
case("mean refused: intrinsic Gaussian", geodp.private_mean, x_spd, in_spd, mechanism="intrinsic", law="gaussian", **RHO)
case("mean option reimherr2021", geodp.private_mean, x_sphere, in_sphere, bound="reimherr2021", **EPSILON)
case("mean option reimherr2021 rho", geodp.private_mean, x_spd, in_spd, bound="reimherr2021", **RHO)
few = records(spd, 12)
case("mean option project", geodp.private_mean, few, in_spd, project=True, mechanism="intrinsic", **EPSILON)
case("mean option no project", geodp.private_mean, few, in_spd, project=False, mechanism="tangent", **EPSILON)
for notion, privacy in NOTIONS.items():
    case(f"mean coverage {notion}", geodp.private_mean, x_spd, in_spd, coverage=0.1, **privacy)
unit = persons(400)
case("mean persons", geodp.private_mean, x_spd, in_spd, unit=unit, protects=PERSON, **EPSILON)
case("mean persons coverage rho", geodp.private_mean, x_sphere, in_sphere, unit=unit, coverage=0.05, protects=PERSON, **RHO)
case("mean budget in rho", geodp.private_mean, x_spd, in_spd, total={"rho": 5}, **EPSILON)
case("mean budget pair by rho", geodp.private_mean, x_spd, in_spd, total={"epsilon": 9, "delta": "1e-5", "compose": "rho"}, **RHO)
case("mean refused: no budget", geodp.private_mean, x_spd, in_spd, total={"epsilon": "0.5"}, **EPSILON)
case("mean refused: other neighbours", geodp.private_mean, x_spd, in_spd, protects=PERSON, **EPSILON)
case("mean refused: pure Gaussian", geodp.private_mean, x_spd, in_spd, law="gaussian", **EPSILON)
for notion, privacy in NOTIONS.items():
    case(f"mean add-remove {notion}", geodp.private_mean, x_spd, in_spd, **ADDED, **privacy)
case("mean add-remove coverage", geodp.private_mean, x_sphere, in_sphere, coverage=0.1, **ADDED, **EPSILON)
case("mean add-remove persons", geodp.private_mean, x_spd, in_spd, unit=unit, coverage=0.1, **PERSON_ADDED, **DELTA)
case("mean add-remove few", geodp.private_mean, few, in_spd, **ADDED, epsilon=0.2)

# ---------------------------------------------------------------------- groups

names = np.array(["north", "south", "west"])[np.random.default_rng(3).integers(3, size=400)]
of_person = np.array(["a", "b"])[unit % 2]
sites = ["north", "south", "nowhere"]


case("groups public", geodp.private_mean, x_spd, in_spd, by=names, **EPSILON)
case("groups public coverage rho", geodp.private_mean, x_sphere, in_sphere, by=names, coverage=0.1, **RHO)
case("groups public one empty", geodp.private_mean, x_spd, in_spd, by=names, groups=["west", *sites], **EPSILON)
case("groups public persons", geodp.private_mean, x_spd, in_spd, by=of_person, unit=unit, protects=PERSON, **EPSILON)
hidden: dict[str, Any] = {"by": names, "groups": sites, "labels": "private"}
of_hidden: dict[str, Any] = {"by": names, "groups": sites, "labels": "private", "unit": unit}
for notion, privacy in NOTIONS.items():
    case(f"groups private {notion}", geodp.private_mean, x_spd, in_spd, **hidden, **privacy)
case("groups private coverage", geodp.private_mean, x_sphere, in_sphere, coverage=0.1, **hidden, **EPSILON)
case("groups private persons", geodp.private_mean, x_spd, in_spd, protects=PERSON, **of_hidden, **EPSILON)
case("groups private persons coverage", geodp.private_mean, x_spd, in_spd, coverage=0.1, protects=PERSON, **of_hidden, **RHO)
case("groups private add-remove", geodp.private_mean, x_spd, in_spd, **GROUPS_ADDED, **hidden, **EPSILON)
case(
    *("groups private add-remove persons", geodp.private_mean, x_spd, in_spd),
    **{**PERSON_GROUPS_ADDED, "coverage": 0.1, **of_hidden, **DELTA},
)
case("groups variance", geodp.private_variance, x_spd, in_spd, by=names, **EPSILON)
case("groups variance private", geodp.private_variance, x_spd, in_spd, about="mean", **hidden, **RHO)
case("groups covariance private", geodp.private_covariance, x_plane, in_plane, **hidden, **EPSILON)
case("groups coverage", geodp.private_coverage, x_spd, in_spd, by=names, **EPSILON)
case("groups projected mean private", geodp.private_projected_mean, x_sphere, sphere, **hidden, **EPSILON)

# ---------------------------------------------------------------------- other kinds

for notion, privacy in NOTIONS.items():
    case(f"coverage {notion}", geodp.private_coverage, x_spd, in_spd, **privacy)
    case(f"variance {notion}", geodp.private_variance, x_spd, in_spd, **privacy)
    case(f"covariance {notion}", geodp.private_covariance, x_sphere, in_sphere, **privacy)
    case(f"projected mean {notion}", geodp.private_projected_mean, x_sphere, sphere, **privacy)
case("coverage persons", geodp.private_coverage, x_spd, in_spd, unit=unit, protects=PERSON, **RHO)
case("variance about the mean", geodp.private_variance, x_sphere, in_sphere, about="mean", **EPSILON)
case("variance persons", geodp.private_variance, x_spd, in_spd, about="mean", unit=unit, protects=PERSON, **MU)
case("covariance about the mean", geodp.private_covariance, x_spd, in_spd, about="mean", **DELTA)
case("covariance persons", geodp.private_covariance, x_spd, in_spd, about="mean", unit=unit, protects=PERSON, **EPSILON)
case("coverage add-remove", geodp.private_coverage, x_spd, in_spd, **ADDED, **EPSILON)
case("variance add-remove", geodp.private_variance, x_spd, in_spd, **ADDED, **RHO)
case("covariance add-remove", geodp.private_covariance, x_spd, in_spd, about="mean", **ADDED, **EPSILON)
case("projected mean add-remove", geodp.private_projected_mean, x_sphere, sphere, **ADDED, **EPSILON)
case("projected mean persons", geodp.private_projected_mean, x_sphere, sphere, unit=unit, protects=PERSON, **RHO)
for manifold in (Rotations(3), Grassmann(2, 4), PlanarShapes(4), Torus(2)):
    case(f"projected mean {manifold}", geodp.private_projected_mean, records(manifold, 300), manifold, **EPSILON)
case("summary", geodp.private_summary, center_of(sphere), sphere, sensitivity=0.01, **EPSILON)
case("summary rho", geodp.private_summary, center_of(SPD(3)), SPD(3), sensitivity=0.02, **RHO)
in_claim: dict[str, Any] = {"sensitivity": 0.02, "base": spd.origin, "radius": 2.0}
case("summary tangent", geodp.private_summary, center_of(spd), spd, mechanism="tangent", **in_claim, **EPSILON)
case("summary mu", geodp.private_summary, center_of(spd), spd, **in_claim, **MU)


case(
    *("summary of persons", geodp.private_summary, center_of(spd), spd),
    **{"sensitivity": 0.02, "neighbours": PERSON, "protects": PERSON, **EPSILON},
)

# ---------------------------------------------------------------------- simulations

x_wide = records(Hyperbolic(3), 300)
case("simulated mean", geodp.private_mean, x_wide, ball_of(Hyperbolic(3)), simulate=1, **EPSILON)
case("simulated mean rho coverage", geodp.private_mean, x_spd, in_spd, coverage=0.1, simulate=2, **RHO)
case("simulated add-remove", geodp.private_mean, x_spd, in_spd, neighbours="add-remove", simulate=3, **EPSILON)
case("simulated groups", geodp.private_mean, x_sphere, in_sphere, simulate=4, **hidden, **EPSILON)
case("simulated variance", geodp.private_variance, x_spd, in_spd, simulate=5, **EPSILON)
case("simulated covariance", geodp.private_covariance, x_spd, in_spd, about="mean", simulate=6, **DELTA)
case("simulated projected mean", geodp.private_projected_mean, x_sphere, sphere, simulate=7, **MU)
case("simulated coverage", geodp.private_coverage, x_spd, in_spd, simulate=8, **EPSILON)
case("simulated summary", geodp.private_summary, center_of(sphere), sphere, sensitivity=0.01, simulate=9, **EPSILON)

# ---------------------------------------------------------------------- balls, chains and clusters

many_spd = records(spd, 3000, 0.4, at=spd.exp(spd.origin, spd.tangent(spd.origin, [2.0, 1.0, 0.5])))
many_sphere = records(sphere, 3000)
many_unit = persons(3000)
wide = Ball(spd, spd.origin, 30.0)
for notion, privacy in NOTIONS.items():
    case(f"ball {notion}", geodp.private_ball, many_spd, wide, **privacy)
case("ball few", geodp.private_ball, x_spd, wide, epsilon=0.3)
case("ball next to none", geodp.private_ball, few, wide, epsilon=0.3)
case("ball then", geodp.private_ball, many_spd, wide, then=geodp.ZeroConcentratedDP(0.01), **RHO)
case("ball Euclidean", geodp.private_ball, records(plane, 2000), Ball(plane, plane.origin, 1000.0), **EPSILON)
case(
    "ball Hyperbolic", geodp.private_ball, records(Hyperbolic(2), 2000), Ball(Hyperbolic(2), Hyperbolic(2).origin, 8.0), **EPSILON
)
case("ball compact", geodp.private_ball, many_sphere, sphere, **EPSILON)
case("ball compact rho", geodp.private_ball, records(Rotations(3), 2000), Rotations(3), **RHO)
case("ball compact mu", geodp.private_ball, records(Grassmann(1, 3), 2000), Grassmann(1, 3), **MU)
case("ball persons", geodp.private_ball, many_spd, wide, unit=many_unit, protects=PERSON, **EPSILON)
case("ball add-remove", geodp.private_ball, many_spd, wide, **ADDED, **EPSILON)
case("ball add-remove compact", geodp.private_ball, many_sphere, sphere, **ADDED, **RHO)
case(*("ball add-remove persons", geodp.private_ball, many_sphere, sphere), **{"unit": many_unit, **PERSON_ADDED, **EPSILON})


def chain(x: Any, manifold: Manifold, radius: float | None, privacy: dict[str, float], **who: Any) -> Callable[[Book], Any]:
    """A session that looks for a ball and releases all it can in it."""

    def run(book: Book) -> Any:
        book.opened = True
        total = {name: TOTALS[name] for name in privacy}
        session = Session(x, manifold, ledger=book.ledger, dataset="study", **total, **who)
        found = [session.ball(**privacy, radius=radius)]
        found += [session.mean(**privacy, coverage=0.1), session.variance(**privacy), session.covariance(**privacy)]
        found.append(session.coverage(**privacy))
        return {"releases": found, "left": str(session.left), "kept": [type(each).__name__ for each in session.releases]}

    return run


add("session", chain(many_spd, spd, 30.0, EPSILON))
add("session compact rho", chain(many_sphere, sphere, None, RHO))
add("session persons", chain(many_spd, spd, 30.0, EPSILON, unit=many_unit))
add("session groups add-remove", chain(many_spd, spd, 30.0, EPSILON, by=persons(3000, 1000), groups=[0, 1], labels="private"))


def kmeans(*data: Any, **options: Any) -> Any:
    place = geodp if hasattr(geodp, "private_kmeans") else import_module("geodp.programs.kmeans")
    return place.private_kmeans(*data, **options)


three = np.concatenate([records(sphere, 300, 0.1, i, at=x_sphere[i]) for i in (1, 2, 3)])
case("clusters", kmeans, three, ball_of(sphere, 1.0), 3, **EPSILON)
case("clusters rho", kmeans, three, ball_of(sphere, 1.0), 3, rounds=2, reach=0.3, seed=1, **RHO)
case("clusters persons", kmeans, three, ball_of(sphere, 1.0), 3, unit=persons(900), protects=PERSON, **EPSILON)
case("clusters simulated", kmeans, three, ball_of(sphere, 1.0), 3, simulate=1, **EPSILON)
case("two clusters mu", kmeans, three, ball_of(sphere, 1.0), 2, **MU)

# ---------------------------------------------------------------------- estimators


def fitted(name: str, *data: Any, unit: Any = None, **options: Any) -> Any:
    """What a fit learned. A ledger goes to the estimator."""
    model = getattr(import_module("geodp.estimator"), name)(**options).fit(*data, **({} if unit is None else {"unit": unit}))
    learned = ("location_", "means_", "cluster_centers_", "counts_", "ball_", "releases_")
    return {name: getattr(model, name) for name in learned if hasattr(model, name)}


x_class = np.concatenate([records(spd, 200, 0.3, 1), records(spd, 200, 0.3, 2, at=2.0 * spd.origin)])
y = np.repeat([0, 1], 200)
case("estimator mean", fitted, "PrivateFrechetMean", x_spd, radius=1.5, **EPSILON)
case("estimator mean found", fitted, "PrivateFrechetMean", many_spd, radius=30.0, find=0.3, **EPSILON)
case("estimator mean persons", fitted, "PrivateFrechetMean", x_spd, radius=1.5, unit=unit, protects=PERSON, **RHO)
case("estimator tangent space", fitted, "PrivateTangentSpace", x_sphere, manifold="Sphere(2)", radius=0.8, **DELTA)
case("estimator classes", fitted, "PrivateMDM", x_class, y, radius=3.0, **EPSILON)
case("estimator classes found", fitted, "PrivateMDM", x_class, y, radius=10.0, find=0.3, epsilon=3.0)
case("estimator classes private", fitted, "PrivateMDM", x_class, y, radius=3.0, labels="private", classes=[0, 1], **EPSILON)
case("estimator classes projected", fitted, "PrivateMDM", x_sphere, names, manifold=sphere, radius=None, **RHO)
case(
    *("estimator classes of persons", fitted, "PrivateMDM", x_class, y),
    **{"radius": 3.0, "unit": np.arange(400) % 130, "unit_in": "all groups", "protects": PERSON, **EPSILON},
)
case("estimator clusters", fitted, "PrivateKMeans", x_class, radius=3.0, **EPSILON)
case("estimator clusters found", fitted, "PrivateKMeans", many_sphere, manifold="Sphere(2)", find=0.3, epsilon=2.0)

# ---------------------------------------------------------------------- sources of records

upper = x_spd[:, *np.triu_indices(2)]


def parts(x: np.ndarray, size: int = 90) -> Callable[[], Iterator[np.ndarray]]:
    return lambda: (x[i : i + size] for i in range(0, len(x), size))


case("source callable", geodp.private_mean, parts(x_spd), in_spd, **EPSILON)
sorted_unit = np.arange(400) // 3
case(
    *("source callable persons", geodp.private_mean, parts(x_spd), in_spd),
    **{"unit": parts(sorted_unit, 70), "protects": PERSON, **EPSILON},
)
case("source callable groups", geodp.private_mean, parts(x_spd), in_spd, by=parts(names, 50), **RHO)
case("source callable add-remove", geodp.private_mean, parts(x_spd), in_spd, **ADDED, **EPSILON)
case("source callable ball", geodp.private_ball, parts(many_spd, 700), wide, **EPSILON)
case("source Dask", geodp.private_mean, da.from_array(x_spd, chunks=(90, 2, 2)), in_spd, **EPSILON)
case("source Dask variance", geodp.private_variance, da.from_array(x_spd, chunks=(90, 2, 2)), in_spd, about="mean", **EPSILON)
case("source Dask groups", geodp.private_mean, da.from_array(x_spd, chunks=(90, 2, 2)), in_spd, **hidden, **EPSILON)
case("source layout", geodp.private_mean, upper, in_spd, layout="upper", **EPSILON)
case("source list", geodp.private_mean, list(x_spd), in_spd, **EPSILON)
case("source data set", geodp.private_mean, Dataset(x_spd, unit=unit), in_spd, protects=PERSON, **EPSILON)
frame = pd.DataFrame(upper, columns=["xx", "xy", "yy"]).assign(site=names, person=unit)
case("source frame", geodp.private_mean, frame, in_spd, columns="xx, xy, yy", layout="upper", by="site", **EPSILON)


def written(folder: Path) -> dict[str, Path]:
    """Files of records in several layouts, in a folder that a case deletes."""
    found = {name: folder / f"{name}.csv" for name in ("places", "hours", "tensors")}
    degrees = np.degrees([np.arcsin(x_sphere[:, 2]), np.arctan2(x_sphere[:, 1], x_sphere[:, 0])])
    rows = pd.DataFrame({"lat": degrees[0], "lon": degrees[1], "site": names, "person": unit})
    rows.to_csv(found["places"], index=False)
    minutes = np.random.default_rng(8).normal(540, 60, 300).astype(int)
    found["hours"].write_text("\n".join(["time", *(f"{each // 60:02d}:{each % 60:02d}" for each in minutes)]) + "\n")
    frame.to_csv(found["tensors"], index=False)
    return found


def of_file(release: Callable[..., Any], name: str, place: Any, **options: Any) -> Callable[[Book], Any]:
    def run(book: Book) -> Any:
        asked = book.open(PERSON if "unit" in options else RECORD, epsilon=20)
        return release(written(book.folder)[name], place, **options, **EPSILON, **asked)

    return run


def by_dask(path: Path, place: Ball, **options: Any) -> Any:
    return geodp.private_mean(geodp.read_dask(path, place.manifold, columns="xx, xy, yy", layout="upper"), place, **options)


def by_session(book: Book) -> Any:
    book.opened = True
    about = {"unit": "person", "ledger": book.ledger, "dataset": "study", "epsilon": 20}
    session = Session.read(written(book.folder)["places"], sphere, columns="lat, lon", **about)
    return [session.ball(epsilon=1.0), session.mean(epsilon=1.0)]


clock = Ball(Sphere(1), [0.0, 1.0], 1.2)
add("source file latlon", of_file(geodp.private_mean, "places", in_sphere, columns="lat, lon", by="site"))
add("source file latlon persons", of_file(geodp.private_mean, "places", in_sphere, columns="lat, lon", unit="person"))
add("source file clock", of_file(geodp.private_mean, "hours", clock, coverage=0.1))
add("source file clock variance", of_file(geodp.private_variance, "hours", clock))
add("source file upper covariance", of_file(geodp.private_covariance, "tensors", in_spd, columns="xx, xy, yy", layout="upper"))
add("source file ball", of_file(geodp.private_ball, "places", sphere, columns="lat, lon"))
add("source file Dask", of_file(by_dask, "tensors", in_spd))
add("source file session", by_session)

# ---------------------------------------------------------------------- OpenDP

dp.enable_features("contrib", "honest-but-curious")


def measured(name: str, place: Any, metric: Any, x: Any, n: int | None = None, **options: Any) -> Callable[[Book], Any]:
    def run(book: Book) -> Any:
        constructors = import_module("geodp.integrations.opendp")
        measurement = getattr(constructors, f"make_{name}")(constructors.record_domain(place, n=n), metric(), **options)
        return {"release": measurement(x), "map": [str(measurement.map(distance)) for distance in (1, 2)]}

    return run


add("OpenDP mean", measured("frechet_mean", in_spd, dp.change_one_distance, x_spd, 400, **RHO))
add("OpenDP mean symmetric", measured("frechet_mean", in_spd, dp.symmetric_distance, x_spd, coverage=0.1, **DELTA))
add("OpenDP covariance", measured("tangent_covariance", in_spd, dp.change_one_distance, x_spd, 400, **EPSILON))
add("OpenDP ball", measured("enclosing_ball", sphere, dp.change_one_distance, many_sphere, 3000, **EPSILON))
add("OpenDP projected mean", measured("projected_mean", sphere, dp.change_one_distance, x_sphere, 400, **EPSILON))

# ---------------------------------------------------------------------- plans

add("plan mean", lambda book: geodp.plan(in_spd, 400, **EPSILON).to_dict())
add("plan mean delta", lambda book: geodp.plan(in_sphere, 400, **DELTA).to_dict())
add("plan chain", lambda book: geodp.plan_chain(wide, 3000, spread=0.4, **EPSILON).to_dict())
add("plan chain compact", lambda book: geodp.plan_chain(sphere, 3000, spread=0.3, **RHO).to_dict())
