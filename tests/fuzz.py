"""Random input to every public entrance of the library, and what must hold whatever it is.

``python -m tests.fuzz --cases 100000`` runs that many cases, spread over the surfaces below, and prints what broke. A case is
drawn by hypothesis, so a failure is shown as the smallest input that still fails. What must hold in every case:

* *No traceback.* The answer is a result, or a ``ValueError``, ``TypeError`` or ``OSError`` with one sentence; a command ends
  with code 0, 1 or 2 and nothing uncaught. No warning either.
* *No hang.* A case that takes longer than :data:`PATIENCE` is stopped and counts as a failure.
* *One record.* In every kind of source, what is in one record changes nothing that others can see (:mod:`fuzz_records`).
* *No leak.* Private records carry the digits of :data:`SECRET`, which then occur in nothing that is said. Where records are
  released the case is run twice, with the same public parameters and other records: all but the released value is the same.
* *No half-written file.* After a failure a file that was to be written is absent or has its old bytes.
* *Points.* What is released is a point of its manifold.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import logging
import math
import os
import pickle
import re
import resource
import signal
import sqlite3
import struct
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.errors import Flaky

# as pytest does it: the modules beside this one are imported by their names, also under python -m tests.fuzz
sys.path.insert(0, str(Path(__file__).parent))
from cases import MANIFOLDS, random_points
from fuzz_records import check_one_record, one_record
from test_no_leaks import NUMBERS, SECRET, is_silent

from geodp import (
    ApproximateDP,
    Ball,
    ChainPlan,
    Dataset,
    Gaussian,
    GaussianDP,
    GroupedRelease,
    Laplace,
    Ledger,
    Manifold,
    PureDP,
    Release,
    Request,
    Risk,
    Session,
    ZeroConcentratedDP,
    compare,
    confidence_region,
    frechet_mean,
    frechet_means,
    plan,
    plan_chain,
    private_average,
    private_ball,
    private_covariance,
    private_coverage,
    private_kmeans,
    private_mean,
    private_median,
    private_projected_mean,
    private_summary,
    private_variance,
    risk,
    sensitivity,
)
from geodp.files import layouts, parse_center, parse_manifold, read_records
from geodp.manifolds.registry import forms
from geodp.statistics.mean import Mean

__all__ = ["SECRET", "SURFACES", "run"]

#: Seconds of processor time that one case may take: far more than any needs, also on a busy machine and with code to compile.
PATIENCE = 600
#: The exceptions that bad input may raise.
DOCUMENTED = (ValueError, TypeError, OSError)

#: Numbers that floating point treats in its own ways.
EXTREMES = [
    0.0, -0.0, 5e-324, -5e-324, 1e-310, 2.2e-308, 1e-160, 1e-17, 1.0, -1.0, 1.0 + 2.0**-52, 0.5, 1e8, 1e16, 1e154, 1e155,
    1e300, 1.7976931348623157e308, -1.7976931348623157e308, math.inf, -math.inf, math.nan,
]  # fmt: skip


class Broken(AssertionError):
    """Something that must hold does not."""


class Hang(BaseException):
    """Raised in whatever takes too long; no ``except Exception`` on the way may stop it."""


# ---------------------------------------------------------------------- what every case is watched for


@contextlib.contextmanager
def no_hang() -> Iterator[None]:
    """Stop what computes for longer than :data:`PATIENCE`, or waits six times as long: others may hold the machine."""

    def ring(*_: object) -> None:
        raise Hang

    clocks = ((signal.SIGPROF, signal.ITIMER_PROF, PATIENCE), (signal.SIGALRM, signal.ITIMER_REAL, 6 * PATIENCE))
    before = [signal.signal(bell, ring) for bell, _, _ in clocks]
    try:
        for _, clock, seconds in clocks:
            signal.setitimer(clock, seconds)
        yield
    except Hang:
        raise Broken(f"took more than {PATIENCE} s") from None
    finally:
        for (bell, clock, _), handler in zip(clocks, before, strict=True):
            signal.setitimer(clock, 0)
            signal.signal(bell, handler)


@contextlib.contextmanager
def bounded_memory(extra: int = 3 << 30) -> Iterator[None]:
    """An allocation that is far too large fails, as it does on a small machine, and does not take the machine down."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = Path("/proc/self/statm")
    if pages.exists():
        used = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + extra, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Outcome(NamedTuple):
    """What an action said, and what it returned if it did not refuse."""

    refusal: str | None
    value: Any = None


class _Logged(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def attempt(action: Callable[[], Any], length: int = 2000) -> Outcome:
    """Run it: it answers, or refuses with one sentence of at most ``length`` characters that holds no digits of a record."""
    logged = _Logged()
    logging.getLogger().addHandler(logged)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                outcome = Outcome(None, action())
            except DOCUMENTED as error:
                outcome = Outcome(f"{type(error).__name__}: {error}")
                check_sentence(str(error), length)
    except Broken:
        raise
    except Exception as error:
        raise Broken(f"an uncaught {type(error).__name__}: {error}") from error
    finally:
        logging.getLogger().removeHandler(logged)
    if warned or logged.lines:
        raise Broken(f"a warning or a line in the log: {[str(w.message) for w in warned] + logged.lines}")
    return outcome


def check_sentence(text: str, length: int = 2000) -> None:
    if not text.strip() or "\n" in text.strip() or len(text) > length:
        raise Broken(f"no single sentence of at most {length} characters: {text[:300]!r}")
    if "Traceback" in text:
        raise Broken(f"a traceback: {text!r}")
    check_silence(text)


def check_silence(text: str) -> None:
    if not is_silent(text):
        raise Broken(f"digits of a record: {text!r}")


def check_release(release: Release) -> dict[str, Any]:
    """A release is a point, its receipt is silent; returns all that it would say if the origin had been drawn."""
    wrong = release.manifold.check_point(release.value)
    if wrong is not None:
        raise Broken(f"the value is no point of {release.manifold}: {wrong}")
    stored = json.loads(release.to_json())
    if Release.from_json(json.dumps(stored)) != release:
        raise Broken("a receipt that is not the release that it was written for")
    # what the draw tells of its error is as public as the value; everything else must not depend on the records
    origin = release.manifold.origin if release.noise.kind == "intrinsic" else np.zeros(release.manifold.dim)
    elsewhere: dict[str, Any] = json.loads(replace(release, draws=(origin,), made=None).to_json())
    check_silence(json.dumps(elsewhere))
    return elsewhere


# ---------------------------------------------------------------------- numbers, manifolds, balls

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(EXTREMES),
    st.integers(-(2**70), 2**70),
    st.sampled_from([1.0, 0.5, 2.0, 10.0, 100.0]),
)
odd_numbers = numbers | st.sampled_from(
    [None, True, "1", "x", "", "1e999", b"1", 1j, [], [1.0], {}, Decimal("0.1"), Decimal("NaN"), Fraction(1, 3), np.float32(0.3),
     np.float16(2), np.int8(7), np.uint64(2**63), np.array(0.5), np.array([0.5]), np.longdouble("1e4000"), 10**400, object()]
)  # fmt: skip
small = st.sampled_from([manifold for manifold in MANIFOLDS if manifold.dim <= 6])
manifolds = small | st.sampled_from(MANIFOLDS)


def a_ball(manifold: Manifold, part: float = 0.5) -> Ball:
    """A ball about the origin whose radius is a part of 1 or of the largest one."""
    return Ball(manifold, manifold.origin, part * min(1.0, Ball(manifold, manifold.origin, 1e-3).max_radius))


def enough(manifold: Manifold) -> float:
    """An epsilon with which even one record can be released in :func:`a_ball`."""
    return 100.0 * manifold.dim


# ---------------------------------------------------------------------- arrays

DTYPES = [
    "f8", "f8", "f8", "f8", ">f8", "f4", ">f4", "f2", "g", "i1", "i4", ">i8", "u1", "u8", "c16", "O", "?", "U20", "S20", "M8[s]",
    "m8[s]", [("a", "f8"), ("b", "i4")], "V8",
]  # fmt: skip
CONTAINERS = [
    "plain", "plain", "plain", "fortran", "reversed", "every other", "read-only", "broadcast", "unaligned", "subclass", "masked",
    "matrix", "memory map", "list", "tuple", "chunks", "function",
]  # fmt: skip
SHAPES = ["right", "right", "right", "right", "flat", "one point", "another axis", "wider", "narrower", "no entries", "scalar"]
FILLS = ["points", "secrets", "extremes", "bits", "mixed", "constant"]


class OddArray(np.ndarray[Any, Any]):
    """A subclass that changes nothing."""


@dataclass(frozen=True)
class Records:
    """How to make an array of records: all but the two seeds and the kinds of values is public."""

    manifold: Manifold
    count: int
    dtype: Any
    container: str
    shape: str
    fills: tuple[str, str]
    seeds: tuple[int, int]

    def make(self, which: int = 0) -> Any:
        rng = np.random.default_rng(self.seeds[which])
        values = filled(self.manifold, self.count, self.fills[which], rng)
        return contained(converted(reshaped(values, self.manifold, self.shape), self.dtype), self.container)

    @property
    def well_formed(self) -> bool:
        """Whether these are real numbers in the right shape, so that a release must succeed."""
        kind = np.dtype(self.dtype).kind
        whole = self.shape == "right" and self.count > 0 and kind in "fiu"
        return whole and self.container not in ("masked", "matrix")


def filled(manifold: Manifold, count: int, fill: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    shape = (count, *manifold.point_shape)
    points = random_points(manifold, count, rng) if count else np.zeros(shape)
    secrets = rng.choice(np.array(NUMBERS), size=shape)
    extremes = rng.choice(np.array(EXTREMES), size=shape)
    match fill:
        case "points":
            return points
        case "secrets":
            return secrets
        case "extremes":
            return extremes
        case "bits":
            return np.frombuffer(rng.bytes(8 * math.prod(shape)), dtype=np.float64).reshape(shape)
        case "constant":
            return np.broadcast_to(points[:1] if count else points, shape).copy()
    which = rng.integers(0, 4, size=(count, *(1,) * len(manifold.point_shape)))
    with np.errstate(all="ignore"):
        scaled = points * rng.choice(np.array(EXTREMES))
    return np.select([which == 0, which == 1, which == 2], [secrets, extremes, scaled], points)


def reshaped(values: np.ndarray[Any, Any], manifold: Manifold, shape: str) -> np.ndarray[Any, Any]:
    match shape:
        case "flat":
            return values.reshape(-1)
        case "one point":
            return values[0] if len(values) else values
        case "another axis":
            return values[None]
        case "wider":
            return np.concatenate([values, values], axis=-1)
        case "narrower":
            return values[..., :-1]
        case "no entries":
            return values[..., :0]
        case "scalar":
            return np.array(NUMBERS[0])
    return values


def converted(values: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = np.dtype(dtype)
        if kind.names is not None:
            out = np.zeros(values.shape, dtype=kind)
            out["a"] = values
            return out
        if kind.kind in "iuMmV":
            return np.nan_to_num(values, nan=3.0, posinf=7.0, neginf=-7.0).clip(0.0, 200.0).astype("i8").astype(kind)
        return values.astype(kind)


def contained(x: np.ndarray[Any, Any], container: str) -> Any:
    match container:
        case "fortran":
            return np.asfortranarray(x)
        case "reversed":
            return np.ascontiguousarray(x[::-1])[::-1] if x.ndim else x
        case "every other":
            return np.repeat(x, 2, axis=0)[::2] if x.ndim else x
        case "read-only":
            x = x.copy()
            x.setflags(write=False)
        case "broadcast":
            return np.broadcast_to(x[:1], x.shape) if x.ndim else x
        case "unaligned" if not x.dtype.hasobject:
            return np.frombuffer(b"\0" + x.tobytes(), dtype=x.dtype, offset=1).reshape(x.shape) if x.size else x
        case "subclass":
            return x.view(OddArray)
        case "masked":
            return np.ma.masked_array(x, mask=np.arange(x.size).reshape(x.shape) % 2)
        case "matrix" if x.ndim <= 2:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return x.view(np.matrix)
        case "memory map" if x.size and not x.dtype.hasobject:
            np.save("mapped.npy", x)
            return np.lib.format.open_memmap("mapped.npy", mode="r") if x.dtype.names is None and x.dtype.kind != "V" else x
        case "list":
            return x.tolist()
        case "tuple":
            return tuple(x) if x.ndim else x
        case "chunks":
            return [x[:1], x[1:]] if x.ndim else [x]
        case "function":
            return lambda: iter([x])
    return x


@st.composite
def records(draw: st.DrawFn, of: st.SearchStrategy[Manifold] = manifolds) -> Records:
    return Records(
        draw(of),
        draw(st.sampled_from([0, 1, 2, 3, 20, 20, 300])),
        draw(st.sampled_from(DTYPES)),
        draw(st.sampled_from(CONTAINERS)),
        draw(st.sampled_from(SHAPES)),
        (draw(st.sampled_from(FILLS)), draw(st.sampled_from(FILLS))),
        (draw(st.integers(0, 2**32)), draw(st.integers(0, 2**32))),
    )


def check_release_of_arrays(case: tuple[Records, Any, Any]) -> None:
    """Two releases with the same public parameters: whatever is said of them is the same."""
    given_records, epsilon, project = case
    manifold = given_records.manifold
    ball, budget = a_ball(manifold), enough(manifold) if epsilon is None else epsilon
    said = []
    for which in (0, 1):
        x = given_records.make(which)
        outcome = attempt(lambda x=x: private_mean(x, ball, budget, project=project, anyway=True))
        said.append((outcome.refusal, check_release(outcome.value) if outcome.refusal is None else None))
        if given_records.well_formed and epsilon is None and outcome.refusal is not None:
            raise Broken(f"refused: {outcome.refusal}")
        if given_records.container == "masked" and outcome.refusal is None:
            raise Broken("a mask was ignored")
    # a list shows the type of its entries, which is the known limit of lists: only arrays are compared
    if given_records.container not in ("list", "tuple") and said[0] != said[1]:
        raise Broken(f"what is said depends on the records: {said}")


def check_curator_with_arrays(case: tuple[Records, Any, Any]) -> None:
    """What only the curator sees may describe the data, but neither fails nor changes a record that is in the ball."""
    given_records, tolerance, weights = case
    manifold = given_records.manifold
    ball, x = a_ball(manifold), given_records.make()
    clipped = attempt(lambda: ball.clip(x))
    inside = attempt(lambda: ball.contains(x))
    valid = attempt(lambda: manifold.valid(x))
    if len({outcome.refusal is None for outcome in (clipped, inside, valid)}) != 1:
        raise Broken("clip, contains and valid do not agree on what is an array of records")
    if clipped.refusal is None:
        if manifold.check_point(clipped.value) is not None or not attempt(lambda: ball.clip(clipped.value)).value.shape:
            raise Broken("clipping makes no points")
        away = manifold.raw_dist(ball.center, clipped.value)
        if away.size and not (away <= ball.reach).all():
            raise Broken("a clipped record is outside the ball")
        if not (clipped.value[~valid.value] == ball.center).all():
            raise Broken("an invalid record did not become the centre")
    mean = attempt(lambda: frechet_mean(x, ball, tolerance=tolerance, weights=weights))
    if mean.refusal is None and manifold.check_point(mean.value.point) is not None:
        raise Broken("the mean is no point")
    if given_records.well_formed and tolerance is None and weights is None and mean.refusal is not None:
        raise Broken(f"no mean: {mean.refusal}")
    means = attempt(lambda: frechet_means(x, ball, np.arange(given_records.count) % 3, tolerance=tolerance))
    if means.refusal is None and manifold.check_point(means.value.points) is not None:
        raise Broken("one of the means is no point")
    if (
        given_records.well_formed
        and given_records.container not in ("chunks", "function")
        and tolerance is None
        and means.refusal
    ):
        raise Broken(f"no means: {means.refusal}")


def check_summary(case: tuple[Records, Any, dict[str, Any], Any]) -> None:
    """Two summaries with the same public parameters: whatever is said of them is the same, unless one is no point."""
    given_records, claim, asked, radius = case
    manifold = given_records.manifold
    said = []
    for which in (0, 1):
        x = given_records.make(which)
        value = x[0] if isinstance(x, np.ndarray) and x.ndim and len(x) else x
        outcome = attempt(
            lambda value=value: private_summary(value, manifold, sensitivity=claim, radius=radius, anyway=True, **asked)
        )
        if outcome.refusal is None and isinstance(value, np.ma.MaskedArray):
            raise Broken("a mask was ignored")
        if outcome.refusal is None:
            said.append(check_release(outcome.value))
        elif not re.search(r"is not a point of|is not within", outcome.refusal):
            said.append({"refusal": outcome.refusal})
    if len(said) == 2 and said[0] != said[1]:
        raise Broken(f"what is said depends on the value: {said}")


def check_surveys(case: tuple[Records, Any]) -> None:
    """Searches for a ball, coverage and projected means: whatever is refused is refused for public reasons."""
    given_records, epsilon = case
    manifold = given_records.manifold
    wide = math.isinf(manifold.injectivity_radius)
    outer = Ball(manifold, manifold.origin, 30.0) if wide else manifold
    for survey in (
        lambda x: private_ball(x, outer, epsilon),
        lambda x: private_kmeans(x, a_ball(manifold), 2, epsilon),
        lambda x: Request(Mean(a_ball(manifold)), epsilon=epsilon).release(x, anyway=True),
        lambda x: private_mean(x, a_ball(manifold), epsilon),
        lambda x: private_mean(x, manifold, epsilon),
        lambda x: private_median(x, outer, epsilon),
        lambda x: private_coverage(x, a_ball(manifold), epsilon),
        lambda x: private_projected_mean(x, manifold, epsilon, anyway=True),
        lambda x: private_average(x, manifold, epsilon, bound=5.0, anyway=True),
        lambda x: private_variance(x, a_ball(manifold), epsilon, about="mean", anyway=True),
        lambda x: private_covariance(x, a_ball(manifold), epsilon, anyway=True),
        lambda x: Session(x, manifold, epsilon=1e6).mean(epsilon, ball=a_ball(manifold), anyway=True),
        lambda x: private_covariance(x, a_ball(manifold), epsilon, about="mean", anyway=True),
    ):
        made = [given_records.make(which) for which in (0, 1)]
        outcomes = [attempt(lambda x=x, survey=survey: survey(x)) for x in made]
        if given_records.container not in ("list", "tuple") and outcomes[0].refusal != outcomes[1].refusal:
            raise Broken(f"a refusal depends on the records: {[outcome.refusal for outcome in outcomes]}")
        if given_records.container == "masked" and outcomes[0].refusal is None:
            raise Broken("a mask was ignored")
        if outcomes[0].refusal is None:
            json.loads(outcomes[0].value.to_json())
            if not str(outcomes[0].value).startswith("PRIVATE"):
                raise Broken("no receipt")
    x, ball = given_records.make(0), a_ball(manifold)
    mean, spread = (attempt(lambda kind=kind: kind(x, ball, epsilon, anyway=True)) for kind in (private_mean, private_covariance))
    if mean.refusal is None and spread.refusal is None:
        for about in (confidence_region, compare):
            given = (spread.value,) if about is confidence_region else (mean.value, spread.value, None)
            outcome = attempt(lambda about=about, given=given: about(mean.value, *given))
            if outcome.refusal is not None or not math.isfinite(json.loads(outcome.value.to_json()).get("radius", 0.0)):
                raise Broken(f"nothing is said about the population: {outcome.refusal}")


def check_who(case: tuple[Records, Any, dict[str, Any], int]) -> None:
    """Persons, private numbers and groups: whatever is said is the same for other records of the same persons and groups."""
    given_records, epsilon, who, seed = case
    manifold = given_records.manifold
    ball = a_ball(manifold)
    count = given_records.count
    rng = np.random.default_rng(seed)
    ids = {
        "none": None,
        "many": rng.integers(0, 3, count),
        "one": np.zeros(count),
        "short": np.zeros(count // 2),
        "texts": ["p"] * count,
    }
    by: dict[str, Any] = {"two": rng.integers(0, 2, count), "odd": ["x"] * count, "short": [0]}
    options = {
        "neighbours": who["neighbours"],
        **({} if who["unit"] == "none" else {"unit": ids[who["unit"]]}),
        **({} if who["by"] == "none" else {"by": by[who["by"]], "groups": who["groups"], "labels": who["labels"]}),
    }
    said = []
    for which in (0, 1):
        x = given_records.make(which)
        outcome = attempt(lambda x=x: private_mean(Dataset(x, **options), ball, epsilon, coverage=who["coverage"], anyway=True))
        if outcome.refusal is not None:
            said.append(outcome.refusal)
            continue
        release = outcome.value
        kind = GroupedRelease if isinstance(release, GroupedRelease) else Release
        if str(kind.from_json(release.to_json())) != str(release):
            raise Broken("a receipt that does not say the same when it is read again")
        said.append(f"{release.neighbours} {release.privacy}")
    if given_records.container not in ("list", "tuple") and said[0] != said[1]:
        raise Broken(f"what is said depends on the records: {said}")


def check_chains(case: tuple[Manifold, Any, Any, Any, Any]) -> None:
    """Plans of a ball and a mean: what they say is finite, and their parts keep the privacy."""
    manifold, n, epsilon, spread, find = case
    outer = Ball(manifold, manifold.origin, 30.0) if math.isinf(manifold.injectivity_radius) else manifold
    outcome = attempt(lambda: plan_chain(outer, n, epsilon, spread=spread, find=find))
    if outcome.refusal is None:
        chain: ChainPlan = outcome.value
        if not (math.isfinite(chain.radius + chain.expected_error + chain.guess) and chain.cost.meets(chain.privacy)):
            raise Broken(f"a plan that says {chain}")


def check_notions(case: tuple[Any, Any, Any, Any]) -> None:
    epsilon, delta, rho, mu = case
    attempt(lambda: PureDP(epsilon))
    attempt(lambda: ApproximateDP(epsilon, delta))
    attempt(lambda: ZeroConcentratedDP(rho))
    attempt(lambda: GaussianDP(mu))
    for asked in ({"epsilon": epsilon, "delta": delta}, {"rho": rho}, {"mu": mu}, {"epsilon": epsilon, "rho": rho}):
        planned = attempt(lambda asked=asked: plan(a_ball(MANIFOLDS[3]), 30, **asked))
        if planned.refusal is None and not planned.value.cost.meets(planned.value.privacy):
            raise Broken(f"a plan that costs {planned.value.cost}")
        if planned.refusal is None:
            found: Risk = risk(planned.value.cost)
            for answer in (
                attempt(lambda found=found: found.posterior(delta, epsilon)),
                attempt(lambda found=found: found.true_positive_rate(delta)),
                attempt(lambda found=found: " ".join(found.sentences()) and found.accuracy),
            ):
                if answer.refusal is None and not 0.0 <= answer.value <= 1.0:
                    raise Broken(f"a chance of {answer.value}")


def check_estimator(case: Records) -> None:
    from geodp.estimator import PrivateFrechetMean

    manifold = case.manifold
    said = []
    for which in (0, 1):
        x = case.make(which)
        model = PrivateFrechetMean(manifold, radius=a_ball(manifold).radius, epsilon=enough(manifold))
        outcome = attempt(lambda x=x, model=model: model.fit(x))
        said.append((outcome.refusal, check_release(model.receipt_) if outcome.refusal is None else None))
        if outcome.refusal is None and case.container == "masked":
            raise Broken("a mask was ignored")
        if outcome.refusal is None:
            # it describes the data to the curator: how it refuses is watched, what it says is not
            with contextlib.suppress(*DOCUMENTED):
                model.transform(x)
    if case.container not in ("list", "tuple") and said[0] != said[1]:
        raise Broken(f"what is said depends on the records: {said}")


GEOMETRY = ["exp", "log", "dist", "inner", "norm", "log_volume_density", "inside_cut_locus", "tangent", "coordinates"]
GEOMETRY += ["move_origin", "project", "check_point", "valid"]


def check_geometry(case: tuple[str, Records, int]) -> None:
    """Errors of the geometry quote numbers: they are the caller's own. They are still sentences, and results are finite."""
    name, given_records, picks = case
    manifold, x = given_records.manifold, given_records.make()
    points = filled(manifold, max(given_records.count, 1), "points", np.random.default_rng(picks))
    p = manifold.origin if picks % 2 else points
    arguments = [p, x] if picks % 3 else [x, p]
    if name in ("project", "check_point", "valid"):
        arguments = arguments[1:]
    if name == "inner":
        arguments.append(x)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = getattr(manifold, name)(*arguments)
    except DOCUMENTED as error:
        if "\n" in str(error) or len(str(error)) > 2000 or isinstance(error, np.linalg.LinAlgError):
            raise Broken(f"no sentence: {type(error).__name__}: {error}") from error
        return
    except Exception as error:
        raise Broken(f"an uncaught {type(error).__name__}: {error}") from error
    if name in ("exp", "project", "move_origin") and manifold.check_point(value) is not None:
        raise Broken(f"{name} gives no point: {manifold.check_point(value)}")
    if name in ("log", "dist") and np.isnan(value).any():
        raise Broken(f"{name} is not a number")


# ---------------------------------------------------------------------- public numbers


def check_public_numbers(case: tuple[Manifold, Any, Any, Any, Any, Any, Any]) -> None:
    manifold, center, radius, n, epsilon, bound, quantile = case
    attempt(lambda: Ball(manifold, manifold.origin if center is None else center, radius))
    ball = a_ball(manifold, 0.3)
    delta = attempt(lambda: sensitivity(ball, n, bound))
    if delta.refusal is None and not 0.0 < delta.value <= 2.0 * ball.reach * (1.0 + 1e-12):
        raise Broken(f"a sensitivity of {delta.value}")
    planned = attempt(lambda: plan(ball, n, epsilon, bound=bound))
    if planned.refusal is None:
        errors = list(planned.value.quantiles.values())
        if not (math.isfinite(planned.value.expected_error) and errors == sorted(errors)):
            raise Broken(f"a plan with the errors {errors}")
        attempt(lambda: json.dumps(planned.value.to_dict()))
    attempt(lambda: plan(ball, n, error=epsilon, quantile=quantile))
    for family in (Laplace, Gaussian):
        law = attempt(lambda family=family: family(manifold, epsilon))
        if law.refusal is None:
            drawn = attempt(lambda law=law.value: law.sample(manifold.origin, (2,), np.random.default_rng(1)))
            if drawn.refusal is None and manifold.check_point(drawn.value) is not None:
                raise Broken(f"{law.value!r} draws no point: {manifold.check_point(drawn.value)}")
            attempt(lambda law=law.value: law.radius_quantile(quantile))
            attempt(lambda law=law.value: law.radius_cdf(radius))


# ---------------------------------------------------------------------- texts

_names = st.sampled_from([form.partition("(")[0] for form in forms()])
_sizes = st.sampled_from(["0", "1", "2", "3", "4", "7", "-1", "2.5", "1e3", "nan", "10**9", "999999999999", "1_0", "0x10", "'2'"])
_arguments = st.lists(_sizes | st.sampled_from(["k=2", "curvature=4", "*x", "**x", "x for x in y", "[1]"]), max_size=3)
_flat = st.builds(lambda name, arguments: f"{name}({', '.join(arguments)})", _names, _arguments)
_products = st.lists(_flat, max_size=4).map(lambda parts: f"Product({', '.join(parts)})")
_alphabet = st.characters(codec="utf-8") | st.sampled_from(list("SPDspdroductGa(),=.0123456789 -*[]'\"\\\0\n"))
_junk = st.text(_alphabet, max_size=60)


def _spoilt(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The text with a piece of it replaced by junk."""
    return st.builds(
        lambda text, at, junk, cut: text[:at] + junk + text[at + cut :], texts, st.integers(0, 40), _junk, st.integers(0, 5)
    )


manifold_texts = st.one_of(
    st.sampled_from(MANIFOLDS).map(repr),
    _flat,
    _products,
    _products.map(lambda text: f"Product({text}, {text})"),
    _spoilt(_flat | _products),
    _junk,
    st.sampled_from(
        ["(" * 5000, "Product(" * 90 + "SPD(2)" + ")" * 90, "-" * 9000 + "1", "SPD(" + "9" * 5000 + ")", "__import__('os')"]
    ),
)


def check_manifold_text(text: str) -> None:
    outcome = attempt(lambda: parse_manifold(text))
    if outcome.refusal is None:
        if not isinstance(outcome.value, Manifold) or parse_manifold(repr(outcome.value)) != outcome.value:
            raise Broken("no manifold, or not the one it says it is")
        if math.prod(outcome.value.point_shape) > 10**7:
            raise Broken("a manifold whose points fill the memory")


_number_texts = numbers.map(repr) | st.sampled_from(["1e400", "١", "1_000", "0b1", "1j", "True", "None", "''"])
_lists = st.lists(_number_texts, max_size=12).map(lambda parts: f"[{', '.join(parts)}]")
center_texts = st.one_of(
    st.sampled_from(["origin", "ORIGIN ", "", " ", "06:00", "24:00", "24:01", "99:99", "no.csv", "no.npy", ".parquet", "\0.csv"]),
    st.sampled_from(["a" * 300 + ".csv", "/.csv", "~/.npz", "[" * 9000, "[[1, 0], [0, 1]]", "[[1, 0], [0]]", "1, 2, 3", "-[1]"]),
    _lists,
    st.lists(_lists, max_size=4).map(lambda parts: f"[{', '.join(parts)}]"),
    _spoilt(_lists),
    _junk,
)
_layout_names = st.sampled_from(
    ["auto", "auto", *sorted({layout.name for m in MANIFOLDS for layout in layouts(m)}), "no such", ""]
)


def check_center_text(case: tuple[str, Manifold, str]) -> None:
    text, manifold, layout = case
    outcome = attempt(lambda: parse_center(text, manifold, layout=layout))
    if outcome.refusal is None and manifold.check_point(outcome.value) is not None:
        raise Broken("the centre is no point")


# ---------------------------------------------------------------------- files


class Bomb:
    """Unpickled, it leaves a file behind."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("unpickled"),)


def _npy(rng: np.random.Generator, rows: np.ndarray[Any, Any]) -> bytes:
    stream = io.BytesIO()
    kind = rng.choice(["f8", ">f8", "f4", "f2", "i4", "u8", "c16", "?", "U12", "S12", "O", "g", "bomb", "header"])
    if kind == "bomb":
        array = np.empty(rows.shape, dtype=object)
        array.fill(Bomb())
        np.save(stream, array, allow_pickle=True)
    elif kind == "header":
        said = rng.choice(["(9999999999, 3)", "(-1, 3)", "(2, 3)", "(3,", "(10**5,)", "(2, 99999999999)"])
        text = f"{{'descr': '<f8', 'fortran_order': {rng.choice(['False', 'True', '7'])}, 'shape': {said}, }}".ljust(117) + "\n"
        stream.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + rows.tobytes())
    else:
        np.save(stream, np.asarray(converted(rows, kind), order=rng.choice(["C", "F"])), allow_pickle=True)
    return stream.getvalue()


def _npz(rng: np.random.Generator, rows: np.ndarray[Any, Any]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in rng.choice(["x", "X", "records", "y", " ", "../x", "a.npy"], size=rng.integers(0, 3), replace=False):
            archive.writestr(f"{name}.npy" if rng.random() < 0.8 else str(name), _npy(rng, rows))
    return stream.getvalue()


CELLS = [
    "",
    "nan",
    "inf",
    "-",
    "NA",
    "1e999",
    "0x10",
    "1_0",
    '"',
    '"a',
    "06:30",
    "25:99",
    "x",
    "é",
    "\0",
    "--1",
    "1,5",
    "1;2",
    "=1+1",
]


def _csv(rng: np.random.Generator, rows: np.ndarray[Any, Any]) -> bytes:
    separator = str(rng.choice([",", ";", "\t", " ", "|"]))
    cells = [[repr(float(value)) for value in row] for row in rows.reshape(len(rows), -1)]
    for row in cells:
        if row and rng.random() < 0.2:
            row[rng.integers(len(row))] = str(rng.choice(CELLS))
        if rng.random() < 0.05:
            row.append("1")
    lines = [separator.join(row) for row in cells]
    if rng.random() < 0.4:
        lines.insert(0, separator.join(rng.choice(["lat", "lon", "time", "x", "y", "xx", "xy", "q w", ""], size=rows[0].size)))
    text = str(rng.choice(["\n", "\r\n", "\r", "\n\n"])).join(lines)
    return text.encode(str(rng.choice(["utf-8", "utf-8", "utf-16", "utf-8-sig", "latin-1", "utf-32"])), errors="replace")


def _parquet(rng: np.random.Generator, rows: np.ndarray[Any, Any]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    stream = io.BytesIO()
    flat = rows.reshape(len(rows), -1)
    columns: dict[str, Any] = {f"c{i}": flat[:, i] for i in range(flat.shape[1])}
    match rng.integers(6):
        case 0:
            columns = {"x": flat.tolist()}
        case 1:
            columns = {"x": [row[: rng.integers(len(row) + 1)] or None for row in flat.tolist()]}
        case 2:
            columns["c0"] = [SECRET] * len(flat)
        case 3:
            columns["c0"] = [b"\xff" + SECRET.encode()] * len(flat)
        case 4:
            columns["c0"] = [None] * len(flat)
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    return stream.getvalue()


def _jsonl(rng: np.random.Generator, rows: np.ndarray[Any, Any]) -> bytes:
    odd = [
        "",
        "{}",
        "[]",
        "null",
        '{"x": ',
        '{"x": [[1, 2], 3]}',
        '{"x": "' + SECRET + '"}',
        "[" * 5000,
        '{"x": 1e999, "lat": true}',
    ]
    lines = []
    for row in rows.tolist():
        held = {"x": row, "lat": 3.0, "lon": SECRET} if rng.random() < 0.7 else row
        lines.append(str(rng.choice(odd)) if rng.random() < 0.2 else json.dumps(held))
    return "\n".join(lines).encode()


def _xlsx(rng: np.random.Generator, rows: np.ndarray[Any, Any]) -> bytes:
    import openpyxl

    book, stream = openpyxl.Workbook(), io.BytesIO()
    flat = rows.reshape(len(rows), -1)
    if rng.random() < 0.6:
        book.active.append([str(rng.choice(["lat", "lon", "time", "x", "xx"])) + str(i) for i in range(flat.shape[1])])
    for row in flat:
        cells = [float(value) if np.isfinite(value) else None for value in row]
        if cells and rng.random() < 0.2:
            cells[0] = rng.choice(["", SECRET, "#N/A", "=1/0", "06:30"])  # type: ignore[call-overload]
        book.active.append(cells)
    book.save(stream)
    return stream.getvalue()


def _nii(rng: np.random.Generator, rows: np.ndarray[Any, Any]) -> bytes:
    import nibabel

    flat = rows.reshape(len(rows), 1, 1, -1) if rng.random() < 0.8 else rows.reshape(len(rows), -1)
    with np.errstate(all="ignore"):
        return nibabel.Nifti1Image(flat.astype(str(rng.choice(["f8", "f4", "i2"]))), np.eye(4)).to_bytes()


WRITERS: dict[str, Callable[[np.random.Generator, np.ndarray[Any, Any]], bytes]] = {
    ".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet, ".tsv": _csv, ".jsonl": _jsonl, ".xlsx": _xlsx, ".nii": _nii,
    ".csv.gz": lambda rng, rows: gzip.compress(_csv(rng, rows)),
}  # fmt: skip


@dataclass(frozen=True)
class Content:
    """A file: what it holds, and how it was damaged."""

    suffix: str
    manifold: Manifold
    count: int
    fill: str
    seed: int
    damage: str
    noise: bytes

    def write(self) -> Path:
        rng = np.random.default_rng(self.seed)
        rows = filled(self.manifold, self.count, self.fill, rng)
        rows = rows.reshape(self.count, -1) if rng.random() < 0.7 else rows
        whole = WRITERS[self.suffix](rng, rows)
        at = int(rng.integers(len(whole) + 1))
        content = {
            "none": whole,
            "cut": whole[:at],
            "noise": self.noise,
            "spliced": whole[:at] + self.noise + whole[at:],
            "overwritten": whole[:at] + self.noise + whole[at + len(self.noise) :],
            "twice": whole + whole,
            "other": WRITERS[sorted(WRITERS)[self.seed % len(WRITERS)]](rng, rows),
            "pickle": pickle.dumps(Bomb()),
        }[self.damage]
        path = Path(f"records{self.suffix}")
        path.write_bytes(content)
        return path


files = st.builds(
    Content,
    st.sampled_from([".npy", ".csv", ".csv", ".csv", ".parquet", *WRITERS]),
    manifolds,
    st.sampled_from([1, 2, 5, 20]),
    st.sampled_from(FILLS),
    st.integers(0, 2**32),
    st.sampled_from(["none", "none", "none", "cut", "noise", "spliced", "overwritten", "twice", "other", "pickle"]),
    st.binary(max_size=40),
)
columns_chosen = st.one_of(
    st.none(), st.none(), st.none(), st.lists(st.integers(-3, 9) | st.sampled_from(["lat", "lon", "x", "0", "٣"]), max_size=4),
    st.sampled_from(["lat, lon", "0,1,2", "", ",", "x", SECRET[:3]]),
)  # fmt: skip


def check_file(case: tuple[Content, Manifold | None, str, Any]) -> None:
    content, other, layout, columns = case
    manifold = other or content.manifold
    path = content.write()
    before = path.read_bytes()
    header = (None, False, True)[content.seed % 3]
    mask = path if content.seed % 7 == 0 else None
    read = attempt(lambda: read_records(path, manifold, layout=layout, columns=columns, header=header, mask=mask))
    if read.refusal is None:
        x = read.value
        if x.dtype != np.float64 or x.shape[1:] != manifold.point_shape:
            raise Broken(f"records of dtype {x.dtype} and shape {x.shape} were read for {manifold}")
        released = attempt(lambda: private_mean(x, a_ball(manifold), enough(manifold)))
        if released.refusal is None:
            check_release(released.value)
        elif len(x):  # a header alone is a file without records
            raise Broken(f"what was read cannot be released: {released.refusal}")
    center = attempt(lambda: parse_center(path, manifold, layout=layout))
    if center.refusal is None and manifold.check_point(center.value) is not None:
        raise Broken("the centre is no point")
    if Path("unpickled").exists():
        Path("unpickled").unlink()
        raise Broken("an object was unpickled")
    if path.read_bytes() != before:
        raise Broken("reading changed the file")


# ---------------------------------------------------------------------- the ledger

_plain_path = st.text(st.characters(codec="utf-8", exclude_characters="/\\"), max_size=20)
ledger_urls = st.one_of(
    st.just("sqlite:///budget.db"),
    _plain_path.map(lambda path: f"sqlite:///{path}"),
    st.sampled_from(
        ["", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///.", "sqlite:///no/such/folder/x.db", "sqlite:////dev/null",
         "sqlite:///budget.db?mode=memory", "sqlite:///file:x?mode=memory&uri=true", "sqlite+aiosqlite:///x.db", "mysql://u:p@h/d",
         "sqlite:///" + "a" * 300, "sqlite:///junk.db", "sqlite:///empty.db", "sqlite:///old.db", "sqlite:///view.db",
         "postgresql://", "postgresql+psycopg2://u:p@127.0.0.1:1/d", "postgresql+psycopg://u:sesame@127.0.0.1:1/d",
         "postgresql://127.0.0.1:1/d?sslmode=no", "postgresql://127.0.0.1:1/d?connect_timeout=x", "postgresql:///d?host=/no/such",
         "postgresql://127.0.0.1:99999/d", "postgresql://u:sesame@127.0.0.1:x/d", "postgresql://127.0.0.1:1/d?nonsense=1",
         "postgresql://127.0.0.1:1/\0?password=sesame"]
    ),
    _plain_path,
    _spoilt(st.just("sqlite:///budget.db")).filter(lambda url: "/" not in url.replace("sqlite:///", "")),
)  # fmt: skip
dataset_names = st.sampled_from(
    ["d", "d", "e", "", " d", "d\n", "\ud800", "a" * 501, "'; DROP TABLE geodp_charge; --"]
) | st.text(max_size=8)
epsilons = odd_numbers | st.sampled_from(
    ["0.1", "1e-30", "1e-31", "1e9", "1000000001", "Infinity", "sNaN", "1" * 5000, "0.1", 0.1, 0.1]
)


def damaged_ledgers() -> None:
    """Files that are no ledgers, or no longer."""
    Path("junk.db").write_bytes(os.urandom(5000))
    Path("empty.db").write_bytes(b"")
    for name, statement in (
        ("old.db", "CREATE TABLE geodp_schema (id INTEGER, version TEXT)"),
        ("view.db", "CREATE VIEW geodp_schema AS SELECT 1 AS version"),
    ):
        Path(name).unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(name)) as connection:
            connection.execute(statement)
            connection.commit()


def check_ledger_url(case: tuple[str, Any, Any, Any]) -> None:
    url, dataset, total, asked = case
    if not Path("junk.db").exists():
        damaged_ledgers()
    made = attempt(lambda: Ledger(url, timeout=0.2))
    if made.refusal is not None:
        return check_password(made.refusal)
    ledger = made.value
    check_password(repr(ledger))
    for action in (
        lambda: ledger.open(dataset, total),
        lambda: ledger.charge(dataset, asked, what="fuzz"),
        lambda: ledger.datasets(),
        lambda: ledger.history(dataset),
        lambda: ledger.remaining(dataset),
    ):
        check_password(attempt(action).refusal or "")
    return None


def check_password(text: str) -> None:
    if "sesame" in text:
        raise Broken(f"a password is shown: {text!r}")


def check_ledger_calls(calls: list[tuple[str, Any, Any]]) -> None:
    """Any sequence of calls: what is spent is the exact sum of what was charged, and never more than the total."""
    Path("calls.db").unlink(missing_ok=True)
    ledger = Ledger("sqlite:///calls.db", timeout=1.0)
    totals: dict[str, Fraction] = {}
    spent: dict[str, Fraction] = {}
    for name, dataset, value in calls:
        match name:
            case "open":
                if attempt(lambda d=dataset, v=value: ledger.open(d, v)).refusal is None:
                    totals.setdefault(dataset, Fraction(ledger.total(dataset)))
                    spent.setdefault(dataset, Fraction(0))
            case "charge":
                charged = attempt(lambda d=dataset, v=value: ledger.charge(d, v, what="fuzz"))
                if charged.refusal is None:
                    spent[dataset] += Fraction(charged.value.epsilon)
            case "attach":
                attempt(lambda d=dataset, v=value: ledger.attach(v, d))
            case "what":
                charged = attempt(lambda d=dataset: ledger.charge("d", "0.125", what=d))
                if charged.refusal is None:
                    spent["d"] += Fraction(1, 8)
    for dataset, total in totals.items():
        if not Fraction(ledger.spent(dataset)) == spent[dataset] <= total:
            raise Broken(f"{ledger.spent(dataset)} spent of {total}, but {spent[dataset]} was charged")
        if Fraction(ledger.remaining(dataset)) != total - spent[dataset]:
            raise Broken("what is left and what is spent do not add up")


# ---------------------------------------------------------------------- receipts


def _receipt(manifold: Manifold) -> dict[str, Any]:
    simulated = private_mean(manifold.origin[None], a_ball(manifold), enough(manifold), simulate=np.random.default_rng(1))
    return dict(json.loads(simulated.to_json()))


_json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-(10**20), 10**20) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def receipts(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 4)) == 0:
        return draw(
            st.one_of(
                _json_values.map(json.dumps), _junk, st.sampled_from(["1" * 5000, '{"geodp": ' * 3000, "[" * 9000 + "]" * 9000])
            )
        )
    stored = _receipt(draw(small))
    for key in draw(st.lists(st.sampled_from(sorted(stored)), max_size=3)):
        if draw(st.booleans()):
            stored.pop(key, None)
        else:
            stored[key] = draw(_json_values)
    return json.dumps(stored)


def check_receipt(text: str) -> None:
    outcome = attempt(lambda: Release.from_json(text))
    if outcome.refusal is None:
        if attempt(lambda: Release.from_json(outcome.value.to_json()).to_json()).value != outcome.value.to_json():
            raise Broken("a receipt that was read is not written as it was")
        attempt(lambda: str(outcome.value), length=10**9)


# ---------------------------------------------------------------------- the command line

OPTION_VALUES: dict[str, st.SearchStrategy[str]] = {
    "file": st.sampled_from(
        ["good.csv", "good.csv", "good.csv", "secret.npy", "secret.npy", "junk.npy", "no.csv", "folder", "x.txt", ""]
    ),
    "manifold": st.sampled_from(
        ["Sphere(2)"] * 6 + ["Euclidean(3)", "sphere(2, 4)", "SPD(2)", "Sphere(0)", "Sphere(10**9)", "Sphere(999999999)"]
    )
    | manifold_texts.filter(lambda text: len(text) < 200),
    "radius": st.sampled_from(["0.5"] * 6 + ["0", "-1", "nan", "inf", "2", "1e-300", "x"]),
    "outer": st.sampled_from(["0.5", "30", "0", "-1", "nan", "inf", "x"]),
    "wide": st.sampled_from(["0.5", "30", "0", "-1", "nan", "inf", "x"]),
    "clusters": st.sampled_from(["2"] * 4 + ["1", "0", "-1", "x"]),
    "rounds": st.sampled_from(["1", "3", "0", "101", "-1", "x"]),
    "reach": st.sampled_from(["0.2", "0", "-1", "nan", "1e300", "x"]),
    "epsilon": st.sampled_from(["2"] * 6 + ["0", "-1", "nan", "inf", "1e-300", "1e300", "x", "0.1", "1e10"]),
    "delta": st.sampled_from(["1e-6"] * 4 + ["0", "1", "-1e-6", "nan", "1e-300", "x"]),
    "rho": st.sampled_from(["0.1"] * 4 + ["0", "-1", "nan", "inf", "1e-300", "1e300", "x"]),
    "mu": st.sampled_from(["0.5"] * 4 + ["0", "-1", "nan", "inf", "1e-300", "1e300", "x"]),
    "threshold": st.sampled_from(["1", "1", "2.5", "0", "4", "nan", "x"]),
    "mechanism": st.sampled_from(["auto", "auto", "intrinsic", "tangent", "ambient", ""]),
    "law": st.sampled_from(["laplace", "gaussian", "cauchy", ""]),
    "compose": st.sampled_from(["plain", "rho", "sum", "x", ""]),
    "releases": st.sampled_from(["3", "1", "0", "-1", "x"]),
    "solve": st.sampled_from(["epsilon", "rho", "mu", "delta", ""]),
    "center": st.sampled_from(["origin"] * 4 + ["secret.npy", "good.csv", "[0, 0, 1]"])
    | center_texts.filter(lambda text: len(text) < 500),
    "columns": st.sampled_from(["0,1,2"] * 4 + ["2, 1, 0", "0", "0,0,0", "9", "-1", "x, y, z", "", ","]),
    "layout": _layout_names,
    "mask": st.sampled_from(["good.csv", "no.nii", "folder", ""]),
    "atlas": st.sampled_from(["good.csv", "no.nii", "folder", ""]),
    "average_bound": st.sampled_from(["3", "3", "0", "-1", "nan", "1e300", "1e-300", "x"]),
    "bound": st.sampled_from(["sharp", "sharp", "reimherr2021", "blunt", ""]),
    "ledger": st.sampled_from(["sqlite:///cli.db"] * 4) | ledger_urls,
    "dataset": st.sampled_from(["d"] * 4 + ["e", "", "\n", "[bold]"]),
    "out": st.sampled_from(["out.json", "out.json", "folder", "no/where.json", "a" * 300, "/dev/full/x"]),
    "n": st.sampled_from(["100"] * 4 + ["0", "-1", "1", "10000000000000000000000", "x"]),
    "error": st.sampled_from(["0.1", "0", "nan", "1e-300", "1e300", "x"]),
    "quantile": st.sampled_from(["0.9", "0", "1", "nan", "x"]),
    "plot": st.sampled_from(["plot.xyz", "folder", "no/where.png", ""]),
    "directory": st.sampled_from(["good.csv", "good.csv/x", "/dev/null/x"]),
    "first": st.sampled_from(["good.csv", "good.csv", "secret.npy", "no.csv", "folder"]),
    "second": st.sampled_from(["good.csv", "good.csv", "secret.npy", "no.csv", "folder"]),
    "unit": st.sampled_from(["0", "x", "person", "9", ""]),
    "neighbours": st.sampled_from(["replace", "replace", "add-remove", "add", "replace one person", ""]),
    "by": st.sampled_from(["0", "x", "site", ""]),
    "groups": st.sampled_from(["a, b", "1", ",", ""]),
    "labels": st.sampled_from(["public", "private", "secret", ""]),
    "unit_in": st.sampled_from(["one group", "all groups", "no group", ""]),
    "coverage": st.sampled_from(["0.05", "0", "0.9", "-1", "nan", "x"]),
    "ball": st.sampled_from(["good.csv", "secret.npy", "no.json", "folder", ""]),
    "spread": st.sampled_from(["0.5", "0", "-1", "nan", "1e300", "x", "no.json", "good.csv", "folder"]),
    "find": st.sampled_from(["0.2", "0", "1", "nan", "x"]),
    **dict.fromkeys(("prior", "false_positives", "chance"), st.sampled_from(["0.1", "0", "1", "1e-300", "-1", "nan", "x"])),
    "about": st.sampled_from(["center", "mean", "median", ""]),
    "first_spread": st.sampled_from(["good.csv", "no.csv", "folder", ""]),
    "second_spread": st.sampled_from(["good.csv", "secret.npy", "folder", ""]),
    "path": st.sampled_from(["float", "float", "exact", "release", "x", ""]),
    "draws": st.sampled_from(["50", "50", "1", "0", "-1", "x"]),
    "confidence": st.sampled_from(["0.99", "0.99", "0", "1", "-1", "nan", "x"]),
    "seed": st.sampled_from(["1", "0", "-1", "99999999999999999999999", "x"]),
    # addresses that are refused at once: none is waited for
    "dask": st.sampled_from(["", "x://y", "tcp://127.0.0.1:x", "tcp://"]),
}

#: Proper use of these takes long: an option that shortens it, or has it refused, is always given.
ALWAYS = {"audit": "draws", "demo": "directory"}


class Command(NamedTuple):
    path: tuple[str, ...]
    arguments: tuple[str, ...]


def commands() -> dict[tuple[str, ...], Any]:
    """Every command of the program, found in the program itself."""
    import typer

    from geodp.cli import app

    found: dict[tuple[str, ...], Any] = {}

    def walk(group: Any, prefix: tuple[str, ...]) -> None:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                walk(command, (*prefix, name))
            else:
                found[(*prefix, name)] = command

    walk(typer.main.get_command(app), ())
    return found


COMMANDS = commands()


@st.composite
def command_lines(draw: st.DrawFn) -> Command:
    path = draw(st.sampled_from([*sorted(COMMANDS), ("mean",), ("mean",), ("mean",)]))
    arguments: list[str] = []
    for parameter in COMMANDS[path].params:
        often = 30 if parameter.required else 2
        if parameter.name != ALWAYS.get(path[0]) and not draw(st.integers(0, often)):
            continue
        value = draw(OPTION_VALUES.get(parameter.name, _junk))
        if parameter.param_type_name == "argument":
            arguments.append(value)
        elif parameter.is_flag:
            arguments.append(parameter.opts[0])
        else:
            arguments += [draw(st.sampled_from(parameter.opts)), value]
    if draw(st.integers(0, 15)) == 0:
        arguments.insert(draw(st.integers(0, len(arguments))), draw(_junk | st.sampled_from(["--help", "--", "-", "--no-such"])))
    return Command(path, tuple(arguments))


def set_stage() -> None:
    """The files that the command lines name."""
    Path("folder").mkdir(exist_ok=True)
    Path("x.txt").write_text(SECRET)
    Path("junk.npy").write_text(SECRET * 30)
    points = np.tile([0.8675309, 0.0, math.sqrt(1.0 - 0.8675309**2)], (40, 1))
    np.savetxt("good.csv", points, delimiter=",", header="x,y,z", comments="")
    np.save("secret.npy", np.resize(np.array(NUMBERS), (30, 3)))
    Ledger("sqlite:///cli.db").open("d", 10**8)


def without_value(text: str) -> str:
    """What a command printed, less what it released and what follows from that."""
    with contextlib.suppress(ValueError):
        return json.dumps(_less(json.loads(text)))
    if text.startswith("PRIVATE ") and "\n  protects " in text:
        rest = text[text.index("\n  protects ") :]
        return text[: text.index("\n")] + re.sub(r"\n  valid .*?(?=\n  ---)", "", rest, flags=re.DOTALL)
    return text


_RELEASED = {
    *("value", "centers", "draws", "layout", "in_units"),
    *("error", "total_error", "clipping", "verdict", "valid", "moved"),
}


def _less(stored: Any) -> Any:
    """JSON without what was released, at any depth."""
    if isinstance(stored, dict):
        return {name: _less(part) for name, part in stored.items() if name not in _RELEASED}
    return [_less(part) for part in stored] if isinstance(stored, list) else stored


def check_command(case: Command) -> None:
    from typer.testing import CliRunner

    from geodp.cli import app

    if not Path("good.csv").exists():
        set_stage()
    old = "the old bytes"
    Path("out.json").write_text(old)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [*case.path, *case.arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise Broken(f"an uncaught {type(result.exception).__name__}: {result.exception}")
    if result.exit_code not in (0, 1, 2) or "Traceback" in result.output or "failed inside" in result.output:
        raise Broken(f"exit code {result.exit_code}: {result.output[-500:]}")
    if warned:
        raise Broken(f"warnings: {[str(w.message) for w in warned]}")
    # what the user typed may be shown to him again
    typed = any(not is_silent(argument) for argument in case.arguments)
    if not typed:
        check_silence(without_value(result.stdout))
        check_silence(result.stderr)
    if result.exit_code == 2 and not result.stderr.strip():
        raise Broken("refused without a word")
    written = Path("out.json").read_text()
    asked = any(value == "out.json" for value in case.arguments)
    if written != old and (result.exit_code != 0 or not asked or not json.loads(written)["epsilon"]):
        raise Broken("a file was written by a command that failed or was not asked to")
    if list(Path().glob("*.part")):
        raise Broken("a half-written file was left behind")


# ---------------------------------------------------------------------- running


class Surface(NamedTuple):
    """An entrance: what goes in, what must hold, and its share of the cases."""

    strategy: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    share: int


_tolerances = st.none() | st.none() | st.sampled_from([1e-3, 1e-30, 0.0, -1.0, math.nan, math.inf])
_weights = st.none() | st.none() | st.sampled_from([[1.0], np.ones(20), -np.ones(20), np.zeros(3), np.full(2, np.nan), "x", 1.0])
SURFACES: dict[str, Surface] = {
    "one record": Surface(one_record, check_one_record, 25),
    "manifold texts": Surface(manifold_texts, check_manifold_text, 20),
    "centre texts": Surface(st.tuples(center_texts, manifolds, _layout_names), check_center_text, 15),
    "files": Surface(st.tuples(files, st.none() | st.none() | small, _layout_names, columns_chosen), check_file, 15),
    "releases": Surface(
        st.tuples(records(), st.none() | st.none() | st.none() | odd_numbers, st.sampled_from([None, True, False])),
        check_release_of_arrays,
        15,
    ),
    "summaries": Surface(
        st.tuples(
            records(small),
            st.sampled_from([0.01, 0.1]) | odd_numbers,
            st.sampled_from([{"epsilon": 50.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 1.0}, {"mu": 1.0}])
            | st.fixed_dictionaries({}, optional=dict.fromkeys(("epsilon", "delta", "rho", "mu"), odd_numbers)),
            st.none() | st.none() | st.just(1.0) | odd_numbers,
        ),
        check_summary,
        5,
    ),
    "who": Surface(
        st.tuples(
            records(small),
            st.sampled_from([5.0, 50.0]) | odd_numbers,
            st.fixed_dictionaries(
                {
                    "unit": st.sampled_from(["none", "many", "many", "one", "short", "texts"]),
                    "neighbours": st.sampled_from(["replace", "add-remove", "add-remove", "add"]),
                    "by": st.sampled_from(["none", "two", "two", "odd", "short"]),
                    "groups": st.sampled_from([None, [0, 1], [0, 1, 2], ["x"], [0, 0], []]),
                    "labels": st.sampled_from(["public", "private"]),
                    "coverage": st.sampled_from([0.0, 0.0, 0.1, 0.7, math.nan]),
                }
            ),
            st.integers(0, 100),
        ),
        check_who,
        3,
    ),
    "chains": Surface(
        st.tuples(
            small,
            st.sampled_from([1, 100, 10_000, 10**9]) | odd_numbers,
            st.sampled_from([0.5, 5.0]) | odd_numbers,
            st.sampled_from([0.1, 1.0]) | odd_numbers,
            st.sampled_from([None, 0.2]) | odd_numbers,
        ),
        check_chains,
        3,
    ),
    "surveys": Surface(st.tuples(records(small), st.sampled_from([0.5, 5.0]) | odd_numbers), check_surveys, 3),
    "notions": Surface(st.tuples(odd_numbers, odd_numbers, odd_numbers, odd_numbers), check_notions, 2),
    "curator": Surface(st.tuples(records(), _tolerances, _weights), check_curator_with_arrays, 10),
    "estimator": Surface(records(), check_estimator, 4),
    "geometry": Surface(st.tuples(st.sampled_from(GEOMETRY), records(), st.integers(0, 100)), check_geometry, 20),
    "public numbers": Surface(
        st.tuples(
            small,
            st.none() | odd_numbers,
            odd_numbers,
            odd_numbers,
            odd_numbers,
            st.sampled_from(["sharp", "sharp", "reimherr2021", "x", None]),
            odd_numbers,
        ),
        check_public_numbers,
        2,
    ),
    "ledger addresses": Surface(st.tuples(ledger_urls, dataset_names, epsilons, epsilons), check_ledger_url, 3),
    "ledger calls": Surface(
        st.lists(
            st.tuples(st.sampled_from(["open", "open", "charge", "charge", "charge", "attach", "what"]), dataset_names, epsilons),
            max_size=8,
        ),
        check_ledger_calls,
        2,
    ),
    "receipts": Surface(receipts(), check_receipt, 10),
    "command line": Surface(command_lines(), check_command, 10),
}

#: Cases that share one run of hypothesis: each run starts from its own seed.
_BATCH = 500


class Report(NamedTuple):
    cases: int
    failures: list[str]


def run(name: str, cases: int, start: int = 0, most_failures: int = 10) -> Report:
    """Run at least ``cases`` cases of a surface, in a folder of its own."""
    surface = SURFACES[name]
    done, last, failures = 0, None, []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), bounded_memory():
        for batch in range(10 * cases):
            if done >= cases or len(failures) >= most_failures:
                break
            size = min(_BATCH, cases - done)

            @seed(start * 1_000_003 + batch)
            @settings(
                max_examples=size,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                report_multiple_bugs=False,
                phases=[Phase.generate, Phase.shrink],
                verbosity=Verbosity.quiet,
                print_blob=False,
            )
            @given(surface.strategy)
            def check(case: Any) -> None:
                nonlocal done, last
                done, last = done + 1, case
                with no_hang():
                    surface.check(case)

            try:
                check()
            except (AssertionError, Flaky) as error:
                # hypothesis runs the smallest failing case last
                causes = "; ".join(map(str, error.exceptions)) if isinstance(error, BaseExceptionGroup) else str(error)
                failures.append(f"{causes} in the case {repr(last)[:1000]}")
    return Report(done, failures)


def shares(cases: int, chosen: list[str]) -> dict[str, int]:
    """How many cases each surface gets."""
    total = sum(SURFACES[name].share for name in chosen)
    return {name: max(1, math.ceil(cases * SURFACES[name].share / total)) for name in chosen}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the public surface of geodp.")
    parser.add_argument("--cases", type=int, default=10_000, help="how many cases in all")
    parser.add_argument("--surface", action="append", choices=sorted(SURFACES), help="only this surface (may be repeated)")
    parser.add_argument("--seed", type=int, default=0, help="where the random cases start")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    options = parser.parse_args(arguments)
    counts: dict[str, int] = {}
    failures: list[dict[str, str]] = []
    for name, cases in shares(options.cases, options.surface or list(SURFACES)).items():
        report = run(name, cases, options.seed)
        counts[name] = report.cases
        failures += [{"surface": name, "failure": text} for text in report.failures]
        if not options.json:
            print(f"{name:<18}{report.cases:>8} cases {len(report.failures):>4} failures", flush=True)
            for text in report.failures:
                print(f"    {text}", flush=True)
    if options.json:
        print(json.dumps({"cases": sum(counts.values()), "surfaces": counts, "failures": failures}, indent=2))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
