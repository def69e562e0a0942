"""Attacks on a release as it runs: low bits, time, messages, old copies of the ledger, repeated entropy.

Each attack is also made on something that is known to be broken in that way, which it must convict.
"""

from __future__ import annotations

import copy
import datetime
import json
import pickle
import random
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import every_manifold, longer, measured, random_points
from fuzz import without_value
from scipy import stats
from test_exact_traps import proven_epsilon
from typer.testing import CliRunner

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Laplace,
    Ledger,
    Manifold,
    Product,
    Release,
    Rotations,
    Sphere,
    frechet_mean,
    private_mean,
)
from geodp.cli import app
from geodp.inputs import Array
from geodp.noise import exact

#: Chance that one of the statistical tests below rejects a correct release, were its seed drawn afresh.
LEVEL = 1e-4


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[exact.ExactDraw]:
    """Every exact draw that a release makes from now on; its bits come from a seed, so that the test can be repeated."""
    seen: list[exact.ExactDraw] = []
    source, sample = exact.NotPrivate(20), exact.sample

    def recorded(manifold: Manifold, sigma: float, center: Array, *, family: Any, entropy: Any) -> exact.ExactDraw:
        assert entropy is None, "a release leaves the entropy to the sampler, which asks the operating system"
        seen.append(sample(manifold, sigma, center, family=family, entropy=source))
        return seen[-1]

    monkeypatch.setattr(exact, "sample", recorded)
    return seen


def ball_of(manifold: Manifold, part: float = 0.4) -> Ball:
    return Ball(manifold, manifold.origin, part * min(1.0, Ball(manifold, manifold.origin, 1e-3).max_radius))


def neighbours(ball: Ball, n: int) -> tuple[Array, Array]:
    """Two data sets that differ in one record: all at one place near the rim, but one at the opposite end."""
    manifold = ball.manifold
    direction = np.linspace(1.0, 2.0, manifold.dim)
    direction *= 0.95 * ball.radius / np.linalg.vector_norm(direction)
    ends = [manifold.exp(ball.center, manifold.tangent(ball.center, sign * direction)) for sign in (1.0, -1.0)]
    one = np.repeat(ends[0][None], n, axis=0)
    two = one.copy()
    two[0] = ends[1]
    return one, two


def wide_epsilon(ball: Ball, n: int, part: float = 0.4) -> float:
    """An epsilon whose noise has this part of the largest scale there is, so that many trials are rejected."""
    return measured(ball, n, 1e3).noise.scale * 1e3 / (part * min(exact.largest_scale(ball.manifold), 1.0))


# ---------------------------------------------------------------------- granularity


@every_manifold
def test_what_is_released_is_a_function_of_whole_numbers_on_a_public_grid(
    manifold: Manifold, draws: list[exact.ExactDraw]
) -> None:
    """So no pattern of bits can belong to one data set alone: the set of possible values is the same for all of them."""
    ball = ball_of(manifold)
    for x in neighbours(ball, 5):
        for project in (False, True):
            release = private_mean(x, ball, 40.0 * manifold.dim, project=project, mechanism="intrinsic")
            grid = 2.0 ** exact.default_grid_exponent(manifold, release.scale)
            value = manifold.from_chart(np.array(draws[-1].steps) * grid)
            assert release.grid == grid
            assert np.array_equal(release.value, ball.clip(value) if project else value)


@every_manifold
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_tangent_release_is_a_function_of_whole_numbers_on_a_public_grid(
    manifold: Manifold, law: Any, draws: list[exact.ExactDraw]
) -> None:
    ball = ball_of(manifold)
    for x in neighbours(ball, 5):
        for project in (False, True):
            release = private_mean(x, ball, rho=0.5, project=project, mechanism="tangent", law=law, anyway=True)
            grid = 2.0 ** exact.default_grid_exponent(Euclidean(manifold.dim), release.scale)
            assert release.grid == draws[-1].grid == grid
            coordinates = np.array(draws[-1].steps) * grid
            length = np.linalg.vector_norm(coordinates)
            if project and length > ball.radius:
                coordinates *= ball.radius / length
            # floats cannot hold points of hyperbolic spaces that are very far away
            expected = manifold.exp(ball.center, manifold.tangent(ball.center, coordinates))
            np.testing.assert_allclose(release.value, expected, rtol=1e-12, atol=1e-12)


def bits_below(values: Array, exponent: int = -54) -> int:
    """How many values next to 0 are no multiple of ``2^exponent``."""
    scaled = np.ldexp(values[np.abs(values) < 0.25], -exponent)
    return int((scaled != np.round(scaled)).sum())


@pytest.mark.slow
@pytest.mark.parametrize("leaky", [False, True], ids=["release", "floating point"])
def test_mironovs_attack_on_the_line_convicts_floating_point_and_not_the_release(
    leaky: bool, draws: list[exact.ExactDraw]
) -> None:
    """Around 0 floats are fine, around 1 they are coarse, and a sum remembers: values near 0 with low bits come from 0 alone.

    False-alarm rate 1e-4 (Clopper and Pearson on either side).
    """
    ball, size = Ball(Euclidean(1), [0.0], 1.0), 1500
    scale = measured(ball, 1, 1.0).noise.scale
    counts = []
    for record in (0.0, 1.0):
        if leaky:
            values = Laplace(Euclidean(1), scale).sample([record], size, np.random.default_rng(3))
        else:
            values = np.array([private_mean([[record]], ball, 1.0, project=False, anyway=True).value for _ in range(size)])
        counts.append(bits_below(values))
    assert (proven_epsilon(*counts, size) > 1.0) == leaky
    assert counts[1] == 0
    assert (counts[0] == 0) == (not leaky)


@pytest.mark.parametrize(
    "manifold",
    longer([Euclidean(2), Sphere(2), Sphere(5), Hyperbolic(2), SPD(2), Rotations(3), Grassmann(1, 2)], [Sphere(2)]),
    ids=repr,
)
def test_the_low_bits_of_a_release_are_fair_for_both_neighbours(manifold: Manifold, draws: list[exact.ExactDraw]) -> None:
    """Chi-square over the three lowest bits of every coordinate. False-alarm rate 1e-4 (Bonferroni)."""
    ball = ball_of(manifold)
    for x in neighbours(ball, 5):
        for _ in range(150):
            private_mean(x, ball, 40.0 * manifold.dim)
    steps = np.array([draw.steps for draw in draws])
    columns = [half[:, i] for half in np.split(steps, 2) for i in range(steps.shape[1])]
    tests = [stats.chisquare(np.bincount((column % 8).astype(int), minlength=8)).pvalue for column in columns]
    assert min(tests) > LEVEL / len(tests)


# ---------------------------------------------------------------------- time


def permutation_test(first: Array, second: Array, rounds: int = 20_000) -> float:
    """The chance, were the two samples exchangeable, of mean ranks at least as far apart. Smallest possible value: 1/20001."""
    rng = np.random.default_rng(11)
    ranks = stats.rankdata(np.concatenate([first, second]))
    ranks -= ranks.mean()
    seen = abs(ranks[: len(first)].sum())
    signs = np.concatenate([np.ones(len(first)), np.zeros(len(second))])
    sums = [np.abs(rng.permuted(np.tile(signs, (2000, 1)), axis=1) @ ranks) for _ in range(rounds // 2000)]
    return float((1 + (np.concatenate(sums) >= seen - 1e-9).sum()) / (rounds + 1))


WIDE = [SPD(2), Grassmann(2, 4), Rotations(4), Product(SPD(2), Sphere(2))]


@pytest.mark.parametrize("manifold", longer(WIDE, WIDE[:1]), ids=repr)
def test_the_number_of_trials_does_not_tell_where_the_records_are(manifold: Manifold, draws: list[exact.ExactDraw]) -> None:
    """Whoever times a release sees, above all, how often the sampler started again.

    That number may not depend on the private mean, and does not: acceptance is decided in the tangent space at a fixed
    base point, before the mean is looked at (:func:`geodp.noise.exact.sample`), so the number of trials is a function of
    public parameters and random bits. Here the attacker has 150 releases of each of two data sets, one at the centre of the
    ball and one at its rim. False-alarm rate 1e-4.
    """
    ball, n = ball_of(manifold), 4
    rim = neighbours(ball, n)[0]
    for x in (np.repeat(ball.center[None], n, axis=0), rim):
        for _ in range(150):
            private_mean(x, ball, wide_epsilon(ball, n), mechanism="intrinsic", anyway=True)
    trials = np.array([draw.trials for draw in draws], dtype=float)
    assert trials.mean() > 1.1, "there must be something to see"
    assert permutation_test(trials[:150], trials[150:]) > LEVEL


def test_the_attack_on_trials_convicts_a_sampler_that_starts_again_outside_the_ball() -> None:
    """The usual way to truncate a law: then the number of trials tells how near the rim the mean is."""
    ball, source = ball_of(Sphere(2)), exact.NotPrivate(5)

    def truncated(center: Array) -> int:
        trials = 0
        while True:
            draw = exact.sample(Sphere(2), 0.3, center, entropy=source)
            trials += draw.trials
            if ball.contains(draw.value):
                return trials

    rim = neighbours(ball, 1)[0][0]
    counts = [np.array([truncated(center) for _ in range(150)], dtype=float) for center in (ball.center, rim)]
    assert permutation_test(*counts) < LEVEL


class Counting(exact.Entropy):
    """Counts the numbers and the bits that are asked for."""

    def __init__(self, seed: int) -> None:
        self.source, self.numbers, self.bits = exact.NotPrivate(seed), 0, 0

    def open(self) -> int:
        self.numbers += 1
        return self.source.open()

    def read(self, stream: int, start: int, count: int) -> int:
        self.bits += count
        return self.source.read(stream, start, count)


@every_manifold
def test_the_randomness_a_draw_uses_does_not_depend_on_the_private_mean(manifold: Manifold) -> None:
    """With the same bits every mean takes the same trials, the same random numbers and the same bits of them."""
    ball = ball_of(manifold)
    centers = [ball.center, neighbours(ball, 1)[0][0], *random_points(manifold, 2, np.random.default_rng(4), ball.radius)]
    scale = 0.3 * min(1.0, exact.largest_scale(manifold))
    for seed in range(4):
        used = set()
        for center in centers:
            source = Counting(seed)
            draw = exact.sample(manifold, scale, center, entropy=source)
            used.add((draw.trials, source.numbers, source.bits))
        assert len(used) == 1


def draw_times(draw: Callable[[int], object], rounds: int) -> tuple[Array, Array]:
    """Processor time of both draws, in an order that is tossed for every round."""
    toss = np.random.default_rng(8).integers(2, size=rounds)
    times = np.empty((rounds, 2))
    for i, first in enumerate(toss):
        for which in (first, 1 - first):
            begin = time.thread_time_ns()
            draw(int(which))
            times[i, which] = time.thread_time_ns() - begin
    return times[:, 0], times[:, 1]


@pytest.mark.slow
@pytest.mark.parametrize("manifold", longer([Sphere(2), SPD(2), Rotations(3)], [Sphere(2)]), ids=repr)
def test_the_time_of_a_draw_does_not_tell_neighbours_apart(manifold: Manifold) -> None:
    """Processor time of 400 exact draws about each of two neighbouring means, by permutation. False-alarm rate 1e-4.

    The time is not claimed to be free of the data, see the known limits: numbers of the same precision are multiplied in a
    time that depends on how many of their words are zero. Between neighbouring means there is no such difference to see.
    """
    ball = ball_of(manifold)
    means = [frechet_mean(x, ball).point for x in neighbours(ball, 40)]
    source = exact.NotPrivate(3)
    for mean in means:
        exact.sample(manifold, 0.1, mean, entropy=source)
    first, second = draw_times(lambda which: exact.sample(manifold, 0.1, means[which], entropy=source), 400)
    assert permutation_test(first, second) > LEVEL


@pytest.mark.slow
def test_the_attack_on_time_convicts_a_sampler_that_works_a_quarter_longer_for_one_mean() -> None:
    source = exact.NotPrivate(3)

    def slower(which: int) -> None:
        begin = time.thread_time_ns()
        exact.sample(Sphere(2), 0.1, Sphere(2).origin, entropy=source)
        end = time.thread_time_ns() + (time.thread_time_ns() - begin) * 0.25 * which
        while time.thread_time_ns() < end:
            pass

    assert permutation_test(*draw_times(slower, 400)) < LEVEL


# ---------------------------------------------------------------------- messages


def private_pairs() -> dict[str, tuple[Array, Array]]:
    """Data sets on the sphere with the same public parameters, as different as can be."""
    rng = np.random.default_rng(5)
    good = np.tile([0.0, 0.0, 1.0], (30, 1))
    far = random_points(Sphere(2), 30, rng, spread=3.0)
    return {
        "outside": (good, far),
        "invalid": (good, np.full((30, 3), np.nan)),
        "infinite": (good, np.full((30, 3), np.inf)),
        "huge": (good, rng.normal(size=(30, 3)) * 1e300),
        "antipodes": (good, -good),
        "zero": (good, 0.0 * good),
        "denormal": (good, np.full((30, 3), 5e-324)),
    }


def said(action: Callable[[], object]) -> tuple[str, list[str]]:
    """Type and text of the exception, or nothing, and all warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            action()
            text = ""
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
    return text, [str(warning.message) for warning in warned]


def in_half_precision(x: Array) -> np.ndarray[Any, np.dtype[np.float16]]:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


CALLS: dict[str, Callable[[Array, Ledger], object]] = {
    "works": lambda x, _: private_mean(x, CAP, 1.0),
    "epsilon": lambda x, _: private_mean(x, CAP, -1.0),
    "shape": lambda x, _: private_mean(x[:, :2], CAP, 1.0),
    "type": lambda x, _: private_mean(x.astype(str), CAP, 1.0),
    "objects": lambda x, _: private_mean(x.astype(object), CAP, 1.0),
    "complex": lambda x, _: private_mean(x + 1j, CAP, 1.0),
    "half precision": lambda x, _: private_mean(in_half_precision(x), CAP, 1.0),
    "masked": lambda x, _: private_mean(np.ma.masked_invalid(x), CAP, 1.0),
    "bound": lambda x, _: private_mean(x, CAP, 1.0, bound="blunt"),
    "project": lambda x, _: private_mean(x, CAP, 1.0, project=True),
    "charged": lambda x, ledger: private_mean(x, CAP, 0.4, ledger=ledger, dataset="d"),
    "says nothing": lambda x, ledger: private_mean(x, CAP, 0.01, ledger=ledger, dataset="d"),
    "anyway": lambda x, ledger: private_mean(x, CAP, 0.01, ledger=ledger, dataset="d", anyway=True),
    "exhausted": lambda x, ledger: private_mean(x, CAP, 9.0, ledger=ledger, dataset="d"),
    "not open": lambda x, ledger: private_mean(x, CAP, 1.0, ledger=ledger, dataset="e"),
    "epsilon of no ledger": lambda x, ledger: private_mean(x, CAP, 1e-35, ledger=ledger, dataset="d"),
    "another manifold": lambda x, _: private_mean(x, Ball(SPD(3), np.eye(3), 1.0), 1.0),
}
CAP = Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5)


@pytest.mark.parametrize("pair", private_pairs())
@pytest.mark.parametrize("call", CALLS)
def test_every_message_is_the_same_for_all_records(pair: str, call: str, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("d", 1)
    one, two = (said(lambda x=x: CALLS[call](x, ledger)) for x in private_pairs()[pair])
    assert one == two
    assert (one[0] == "") == (call in ("works", "half precision", "project", "charged", "anyway"))
    assert one[1] == []


def test_the_comparison_of_messages_notices_one_that_depends_on_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ball, "clip_chunk", lambda _self, records: warnings.warn(f"{np.isnan(records).sum()} lost", stacklevel=1))
    one, two = (said(lambda x=x: CAP.clip_chunk(x)) for x in private_pairs()["invalid"])
    assert one != two


COMMANDS: dict[str, list[str]] = {
    "receipt": [],
    "json": ["--json"],
    "file": ["--out", "out.json"],
    "charged": ["--ledger", "sqlite:///budget.db", "--dataset", "d"],
    "exhausted": ["--ledger", "sqlite:///budget.db", "--dataset", "small"],
    "no such layout": ["--layout", "upper"],
    "bound": ["--bound", "blunt"],
    "not writable": ["--out", "no/where.json"],
    "centre": ["--center", "[0, 1, 0, 0]"],
}


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_a_picture_of_a_release_does_not_tell_when_it_was_drawn(suffix: str, tmp_path: Path) -> None:
    release = private_mean(np.tile([0.0, 0.0, 1.0], (50, 1)), Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5), 1.0)
    release.plot(tmp_path / f"release.{suffix}")
    content = (tmp_path / f"release.{suffix}").read_bytes()
    this_year = str(datetime.date.today().year).encode()
    assert this_year + b"-" not in content  # as matplotlib writes it to SVG
    assert b"D:" + this_year not in content  # and to PDF
    with pytest.raises(ValueError, match=r"release.ps must end in .png, .svg or .pdf$"):
        release.plot(tmp_path / "release.ps")


@pytest.mark.parametrize("suffix", longer([".npy", ".csv"], [".csv"]))
@pytest.mark.parametrize("command", longer(COMMANDS, ["receipt", "file", "charged", "exhausted"]))
def test_everything_a_command_prints_and_writes_but_the_value_is_the_same_for_all_records(
    suffix: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pair in ("outside", "invalid", "huge"):
        printed = []
        for i, x in enumerate(private_pairs()[pair]):
            folder = tmp_path / f"{pair}{i}"
            folder.mkdir()
            monkeypatch.chdir(folder)
            Ledger("sqlite:///budget.db").open("d", 5)
            Ledger("sqlite:///budget.db").open("small", "0.1")
            if suffix == ".npy":
                np.save("x.npy", x)
            else:
                np.savetxt("x.csv", x, delimiter=",", header="x,y,z", comments="")
            arguments = ["mean", f"x{suffix}", "-m", "Sphere(2)", "-r", "0.5", "-e", "2", *COMMANDS[command]]
            result = CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments)
            assert isinstance(result.exception, SystemExit | None)
            files = {path.name: path.read_text() for path in sorted(Path().iterdir()) if path.suffix == ".json"}
            stored = [json.loads(without_value(charge.receipt or "{}")) for charge in Ledger("sqlite:///budget.db").history("d")]
            shown = without_value(result.stdout), result.stderr, {name: without_value(text) for name, text in files.items()}
            printed.append((result.exit_code, shown, stored, sorted(path.name for path in Path().iterdir())))
        assert printed[0] == printed[1]


# ---------------------------------------------------------------------- the ledger, put back


def release_with(ledger: Ledger) -> Release:
    return private_mean(np.tile([0.0, 0.0, 1.0], (30, 1)), CAP, 0.75, ledger=ledger, dataset="d")


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("d", 1)
    return ledger


def test_an_old_copy_put_back_brings_the_budget_back_and_the_receipts_prove_it(book: Ledger, tmp_path: Path) -> None:
    """The ledger guards against mistakes, not against those who may write to it. This is the limit that the docs state.

    What it cannot hide: receipts name their charge. Two of them with the same number, or one that the ledger does not hold, say
    that the ledger was put back.
    """
    shutil.copy(tmp_path / "budget.db", tmp_path / "old.db")
    first = release_with(book)
    with pytest.raises(ValueError, match=r"has 0\.25 of 1 left"):
        release_with(book)
    shutil.copy(tmp_path / "old.db", tmp_path / "budget.db")
    assert book.remaining("d") == 1
    second = release_with(book)
    assert first.charge == second.charge
    assert not np.array_equal(first.value, second.value)
    kept = [charge.receipt for charge in book.history("d")]
    assert second.to_json() in kept
    assert first.to_json() not in kept


def test_a_ledger_of_two_copies_has_two_budgets(book: Ledger, tmp_path: Path) -> None:
    """Why the guarantee assumes that every release is charged to the same ledger."""
    shutil.copy(tmp_path / "budget.db", tmp_path / "copy.db")
    other = Ledger(f"sqlite:///{tmp_path}/copy.db")
    release_with(book)
    release_with(other)
    assert book.remaining("d") == other.remaining("d") == Decimal("0.25")


def test_one_file_under_several_names_has_one_budget(book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "budget.db")
    monkeypatch.chdir(tmp_path / "folder")
    release_with(book)
    for name in ("../budget.db", "../folder/../link.db", f"{tmp_path}/link.db"):
        with pytest.raises(ValueError, match=r"has 0\.25 of 1 left"):
            release_with(Ledger(f"sqlite:///{name}"))


def test_an_erased_charge_leaves_a_gap_in_the_numbers(book: Ledger, tmp_path: Path) -> None:
    number = book.charge("d", "0.5", what="mean").id
    with closing(sqlite3.connect(tmp_path / "budget.db")) as connection:
        connection.execute("DELETE FROM geodp_charge")
        connection.commit()
    assert book.charge("d", "0.5", what="mean").id == number + 1


# ---------------------------------------------------------------------- entropy, repeated


def draw_once(_: object = None) -> tuple[float, ...]:
    """A release after the seeds of all generators a program may have were set."""
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - the global state that must not reach the noise
    return tuple(private_mean(np.tile([0.0, 0.0, 1.0], (30, 1)), CAP, 1.0).value.tolist())


def test_no_seed_of_the_program_repeats_a_release() -> None:
    assert len({draw_once() for _ in range(20)}) == 20


def test_threads_never_draw_the_same_noise() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(draw_once, range(64)))) == 64


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "deep", "pickle"]
)
def test_a_cloned_source_of_entropy_does_not_repeat_itself(clone: Callable[[Any], Any]) -> None:
    source = exact.OperatingSystem()
    exact.sample(Sphere(2), 0.1, [0.0, 0.0, 1.0], entropy=source)
    twin = clone(source)
    one, two = (exact.sample(Sphere(2), 0.1, [0.0, 0.0, 1.0], entropy=entropy).steps for entropy in (source, twin))
    assert one != two
    assert vars(source) == {}


def test_a_cloned_generator_repeats_a_simulation_which_says_that_it_is_not_private() -> None:
    generator = np.random.default_rng(1)
    twin = pickle.loads(pickle.dumps(generator))
    one, two = (private_mean(np.tile([0.0, 0.0, 1.0], (30, 1)), CAP, 1.0, simulate=rng) for rng in (generator, twin))
    assert np.array_equal(one.value, two.value)
    assert not one.private
    assert not two.private


FORKS = """
    import multiprocessing, os, random, sys, warnings
    import numpy as np
    from geodp import SPD, Ball, private_mean
    warnings.simplefilter("ignore")

    BALL = Ball(SPD(2), np.eye(2), 1.0)
    # several chunks: the threads that share out the work were started before the fork
    X = np.tile(np.eye(2), (60_000, 1, 1))

    def draw(_=None):
        random.seed(1), np.random.seed(1)
        return repr(private_mean(X, BALL, 1.0).value.tolist())

    if __name__ == "__main__":
        values = [draw()]
        if sys.argv[1] == "os.fork":
            read, write = os.pipe()
            for _ in range(3):
                if os.fork() == 0:
                    os.write(write, (draw() + "\\n" + draw() + "\\n").encode())
                    os._exit(0)
            for _ in range(3):
                assert os.wait()[1] == 0
            values += os.read(read, 100_000).decode().split("\\n")[:6]
        else:
            with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
                values += pool.map(draw, range(6), chunksize=3)
        values.append(draw())
        assert len(values) == len(set(values)) == 8, values
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork")
@pytest.mark.parametrize(
    "method",
    ["os.fork", "spawn", "fork", "forkserver"],
)
def test_processes_never_draw_the_same_noise_however_they_are_started(method: str, tmp_path: Path) -> None:
    """Forked after the library was loaded, had drawn and had started its threads; nothing hangs either."""
    (tmp_path / "forks.py").write_text(textwrap.dedent(FORKS))
    done = subprocess.run(
        [sys.executable, "forks.py", method], cwd=tmp_path, capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr
