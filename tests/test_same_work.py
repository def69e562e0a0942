"""Attacks on records while their mean is computed: by a clock, by someone who writes to them, by a reader that returns others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import random_points

from geodp import (
    SPD,
    Ball,
    Dataset,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Manifold,
    PlanarShapes,
    Rotations,
    Sphere,
    frechet_mean,
    private_mean,
)
from geodp.inputs import Array
from geodp.records import chunks
from geodp.solver import passes
from geodp.solver import records as pass_records
from geodp.solver.mean import least_passes
from geodp.statistics import variance
from geodp.statistics.mean import Mean
from geodp.statistics.variance import FrechetVariance

CHANGED = "^the records changed between two passes: give records that are the same every time they are read$"


def ball_of(manifold: Manifold, radius: float = 0.7) -> Ball:
    return Ball(manifold, manifold.origin, radius)


def inside(ball: Ball, count: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return ball.clip(random_points(ball.manifold, count, rng, 0.3 * ball.radius))


def far_outside(ball: Ball) -> Array:
    manifold = ball.manifold
    times = 1.5 if isinstance(manifold, Grassmann | PlanarShapes) else 2.5 if isinstance(manifold, Sphere | Rotations) else 8.0
    return manifold.exp(ball.center, manifold.tangent(ball.center, times * ball.radius * np.eye(manifold.dim)[0]))


# ---------------------------------------------------------------------- time

#: Enough records for compiled passes, and no more.
COMPILED = [
    (SPD(2), 26_000),
    (SPD(3), 12_000),
    (SPD(6), 3_000),
    (Sphere(2), 34_000),
    (Sphere(60), 2_000),
    (Rotations(3), 12_000),
    (Hyperbolic(5), 17_000),
    (PlanarShapes(5), 10_000),
    (Grassmann(3, 10), 4_000),
]


def compiled_evaluator(manifold: Manifold, count: int) -> passes.Evaluator:
    return passes.best_evaluator(manifold, count)


def with_odd_ones(ball: Ball, x: Array, every: int) -> dict[str, Array]:
    """The same records, some of which are no points, or outside, or (matrices) nearly singular."""
    odd: dict[str, object] = {"invalid": np.nan, "outside": far_outside(ball)}
    if isinstance(ball.manifold, SPD):
        odd["nearly singular"] = np.diag(np.geomspace(1e-6, 1e6, ball.manifold.k))
    found = {}
    for name, value in odd.items():
        found[name] = x.copy()
        found[name][len(x) // 2 :: every] = value
    return found


@pytest.mark.parametrize(("manifold", "count"), COMPILED, ids=str)
def test_no_record_sends_its_chunk_down_another_path(manifold: Manifold, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ball = ball_of(manifold)
    x = inside(ball, count)
    expected = {name: frechet_mean(ball.clip(y), ball) for name, y in with_odd_ones(ball, x, 100).items()}

    def another_path(*_: object) -> None:
        raise AssertionError("a chunk was treated in another way than the others")

    monkeypatch.setattr(Ball, "clip_with_logs", another_path)
    monkeypatch.setattr(passes.GeneralEvaluator, "evaluate", another_path)
    monkeypatch.setattr(passes.SPDLarge, "evaluate", another_path)
    monkeypatch.setattr(type(manifold), "raw_log", another_path)
    for name, y in with_odd_ones(ball, x, 100).items():
        evaluator = compiled_evaluator(manifold, count)
        kept = y.copy()
        evaluator.clip(ball, kept, None)
        moved = evaluator.evaluate(expected[name].point, kept, None)
        assert np.linalg.norm(moved.log) / count <= 1e-10


def cost_alike(first: Callable[[], object], second: Callable[[], object], rounds: int = 11, tries: int = 10) -> bool:
    """Whether the median ratio of processor times, taken in turn on one thread, is below 1.3.

    Other programs disturb both alike, and seldom long: one quiet try of several is enough. Twice the work is never quiet.
    """

    def taken(action: Callable[[], object]) -> float:
        begin = time.thread_time()
        action()
        return time.thread_time() - begin

    first(), second()
    return any(np.median([taken(second) / taken(first) for _ in range(rounds)]) < 1.3 for _ in range(tries))


@pytest.mark.parametrize(("manifold", "count"), COMPILED, ids=str)
def test_a_chunk_with_one_odd_record_costs_what_others_cost(manifold: Manifold, count: int) -> None:
    """One such record made the mean 2 to 6 times slower; 1.00 to 1.02 times were measured since."""
    ball = ball_of(manifold)
    x = inside(ball, count)
    evaluator = compiled_evaluator(manifold, count)
    for y in with_odd_ones(ball, x, count).values():
        assert cost_alike(lambda: evaluator.clip(ball, x.copy(), None), lambda y=y: evaluator.clip(ball, y.copy(), None))


SMALL = [SPD(2), SPD(5), Sphere(3), Hyperbolic(3), Rotations(3), Grassmann(2, 5), PlanarShapes(4)]


@pytest.mark.parametrize("manifold", SMALL, ids=repr)
def test_one_odd_record_of_few_costs_what_others_cost(manifold: Manifold) -> None:
    """The same where nothing is compiled; the calls for one record are seen here, and are at most a tenth."""
    ball = ball_of(manifold, 0.4)
    x = inside(ball, 2000)
    y = x.copy()
    y[1000] = np.nan
    assert cost_alike(lambda: ball.clip(x), lambda: ball.clip(y))


def test_twice_the_work_is_noticed() -> None:
    ball = ball_of(Sphere(3), 0.4)
    x = inside(ball, 2000)
    assert not cost_alike(lambda: ball.clip(x), lambda: (ball.clip(x), ball.clip(x)))


@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), Sphere(2), Sphere(6), Euclidean(2), Rotations(3)], ids=repr)
def test_data_that_need_fewer_passes_get_as_many_as_others(manifold: Manifold) -> None:
    ball = ball_of(manifold, 0.4)

    def made(x: Array) -> int:
        seen = [0]
        Mean(ball).compute(x, len(x), lambda iteration, *_: seen.append(iteration))
        return seen[-1]

    least = least_passes(ball, passes.best_evaluator(manifold, 40).hessian)
    assert made(np.repeat(ball.center[None], 40, axis=0)) == least > 1
    assert made(inside(ball, 40)) in (least, least + 1)


# ---------------------------------------------------------------------- writers

SOURCES = ["array", "memory map", "view of a memory map", "kept memory map"]


def source_of(kind: str, x: Array, path: Path, monkeypatch: pytest.MonkeyPatch) -> Array:
    if kind == "array":
        return x.copy()
    np.save(path / "x.npy", x)
    if not kind.startswith("kept"):
        monkeypatch.setattr(chunks, "_KEPT_FROM_DISK", 0)
    stored = np.load(path / "x.npy", mmap_mode="r+")
    return np.asarray(stored)[:] if kind.startswith("view") else stored


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("manifold", [SPD(3), Sphere(2), Euclidean(2), Hyperbolic(2)], ids=repr)
def test_whoever_writes_to_the_records_between_passes_moves_no_mean(
    manifold: Manifold, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records were clipped in the first pass only: this moved the mean by 1,000 times the sensitivity."""
    ball = ball_of(manifold)
    x = inside(ball, 200)
    stored = source_of(kind, x, tmp_path, monkeypatch)

    def write(iteration: int, done: int, _: int | None) -> None:
        if iteration == 1 and done == len(x):
            stored[:] = far_outside(ball)

    if kind in ("array", "kept memory map"):
        result, expected = frechet_mean(stored, ball, progress=write), frechet_mean(x, ball)
        assert manifold.dist(result.point, expected.point) <= result.error_bound + expected.error_bound
    else:
        with pytest.raises(chunks.RecordsError, match=CHANGED):
            frechet_mean(stored, ball, progress=write)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), SPD(5), Sphere(2), Sphere(5), Rotations(3)], ids=repr)
def test_no_pass_meets_a_record_outside_the_ball(
    manifold: Manifold, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_records.Records, "check_same", lambda *_: None)
    ball = ball_of(manifold, 0.5)
    x = inside(ball, 300)
    stored = source_of(kind, x, tmp_path, monkeypatch)
    records = pass_records.open_records(stored, ball, None)
    for _ in range(3):
        assert records.evaluate(ball.center, lambda _: None).reach <= ball.reach
        stored[:] = far_outside(ball)


def test_an_estimator_that_is_given_a_memory_map_does_not_take_it_for_an_array(tmp_path: Path) -> None:
    estimator = pytest.importorskip("geodp.estimator")
    from geodp.estimator import common

    np.save(tmp_path / "x.npy", inside(ball_of(SPD(2)), 50).reshape(50, 4))
    stored = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert chunks._on_disk(common.read_records(estimator.PrivateFrechetMean("SPD(2)"), stored, fitting=True))
    assert not chunks._on_disk(np.array(stored))
    with (tmp_path / "x.npy").open("rb") as file:
        assert not chunks._on_disk(np.frombuffer(file.read(), dtype=np.uint8))


# ---------------------------------------------------------------------- readers


@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), SPD(5), Sphere(2), Sphere(5), Euclidean(1), Rotations(3)], ids=repr)
def test_a_reader_that_returns_other_data_is_noticed_in_the_second_pass(manifold: Manifold) -> None:
    """It ran towards 100,000 passes."""
    ball, reads = ball_of(manifold), [0]

    def read() -> Iterator[Array]:
        reads[0] += 1
        yield inside(ball, 300, seed=reads[0])

    with pytest.raises(chunks.RecordsError, match=CHANGED):
        frechet_mean(read, ball)
    assert reads == [2]
    with pytest.raises(ValueError, match=CHANGED):
        private_mean(read, ball, 1.0)


def test_one_record_that_changes_is_noticed() -> None:
    ball = ball_of(SPD(2))
    x = inside(ball, 5000)
    reads = [0]

    def read() -> Iterator[Array]:
        reads[0] += 1
        y = x.copy()
        y[7, 0, 0] *= 1.0 + 1e-3 * reads[0]
        yield y

    with pytest.raises(chunks.RecordsError, match=CHANGED):
        frechet_mean(read, ball)


@pytest.mark.parametrize("change", [1, 2, 3])
def test_other_records_with_the_same_sums_are_noticed(change: int) -> None:
    """On the sphere they have another mean, 0.18 away, while the sums of their logarithms at the centre are the same."""
    ball = ball_of(Sphere(2), 1.2)
    turned = [np.repeat([axis, -axis], 100, axis=0) for axis in 1.15 * np.eye(2)]
    last = np.tile([0.6, 0.6], (101, 1))
    data = [Sphere(2).exp(ball.center, Sphere(2).tangent(ball.center, np.concatenate([each, last]))) for each in turned]
    assert Sphere(2).dist(*(frechet_mean(x, ball).point for x in data)) > 0.1
    reads = [0]

    def read() -> Iterator[Array]:
        reads[0] += 1
        yield data[reads[0] > change]

    with pytest.raises(chunks.RecordsError, match=CHANGED):
        frechet_mean(read, ball)


CHANGES: dict[str, Callable[[Array], Array]] = {
    "all signs": lambda x: -x,
    "two signs": lambda x: x * np.array([1.0, -1.0, -1.0, 1.0]),
    "two entries of one record": lambda x: np.concatenate([x[:1, [1, 0, 2, 3]], x[1:]]),
    "entries of two records": lambda x: np.concatenate([np.column_stack([x[1::-1, :1], x[:2, 1:]]), x[2:]]),
    "two records by as much": lambda x: np.concatenate([x[:1] + 1.0, x[1:2] - 1.0, x[2:]]),
    "a last bit": lambda x: np.concatenate([np.nextafter(x[:1], 999.0), x[1:]]),
    "a record twice": lambda x: np.concatenate([x[1:2], x[1:]]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("values", ["whole numbers", "floats"])
def test_fingerprints_differ_with_every_key(change: Callable[[Array], Array], values: str) -> None:
    """Two changed signs went unnoticed with every key. A change is missed with one key in ``2^32``."""
    rng = np.random.default_rng(4)
    x = rng.permutation(200).reshape(50, 4).astype(float) if values == "whole numbers" else rng.normal(size=(50, 4))
    for seed in range(300):
        keys = np.random.default_rng(seed).integers(1 << 64, size=12, dtype=np.uint64)
        mark = passes.fingerprint(x, None, keys)
        assert mark != passes.fingerprint(np.ascontiguousarray(change(x)), None, keys)
        assert mark == passes.fingerprint(rng.permutation(x), None, keys)


@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_fingerprints_are_the_same(weighted: bool) -> None:
    rng = np.random.default_rng(5)
    keys = rng.integers(1 << 64, size=22, dtype=np.uint64)
    for count in (0, 1, 7, 1000):
        x, weights = rng.normal(size=(count, 3, 3)), rng.uniform(size=count) if weighted else None
        compiled = passes.SmallSPD(SPD(3)).fingerprint(x, weights, keys)
        assert passes.fingerprint(x, weights, keys) == compiled


def test_a_reader_that_turns_its_records_around_is_noticed() -> None:
    ball, reads = ball_of(Euclidean(2), 5.0), [0]
    x = np.random.default_rng(0).normal(3.0, 0.1, size=(1000, 2))

    def read() -> Iterator[Array]:
        reads[0] += 1
        yield x * (-1.0) ** reads[0]

    with pytest.raises(chunks.RecordsError, match=CHANGED):
        frechet_mean(read, ball)


@pytest.mark.parametrize("more", [{}, {"weights": np.ones(300)}], ids=["equal weights", "weights"])
@pytest.mark.parametrize("later", [0, 299, 301])
def test_another_number_of_records_is_a_change_too(more: dict[str, Any], later: int) -> None:
    ball, reads = ball_of(Sphere(2)), [0]
    x = inside(ball, 400)

    def read() -> Iterator[Array]:
        reads[0] += 1
        yield x[: 300 if reads[0] == 1 else later]

    with pytest.raises(chunks.RecordsError, match=CHANGED):
        frechet_mean(read, ball, **more)


def test_persons_may_come_in_other_chunks_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a batch with others a mean of matrices has other last bits, so the batches must not follow the chunks."""
    monkeypatch.setattr("geodp.records.rows._KEPT_BYTES", 0)
    ball, rng = ball_of(SPD(3), 1.5), np.random.default_rng(1)
    x, ids = random_points(SPD(3), 600, rng, 1.0), np.arange(600) // 4

    def read() -> Iterator[Array]:
        yield from np.split(x, np.sort(rng.integers(len(x), size=9)))

    in_chunks, whole = (FrechetVariance(ball).compute(Dataset(y, unit=ids).open(SPD(3)).source, 150) for y in (read, x))
    assert in_chunks == pytest.approx(whole)


def test_with_weights_the_order_of_the_records_may_not_change() -> None:
    ball, reads = ball_of(Sphere(2)), [0]
    x, weights = inside(ball, 300), np.arange(1.0, 301.0)

    def read() -> Iterator[Array]:
        reads[0] += 1
        yield x if reads[0] == 1 else x[::-1]

    with pytest.raises(chunks.RecordsError, match=CHANGED):
        frechet_mean(read, ball, weights=weights)


def test_the_variance_sums_distances_of_the_records_whose_mean_it_took() -> None:
    """Every record at one place, then every record at another: the variance of both is 0, and 4 radii squared came out."""
    ball = ball_of(Euclidean(1), 1.0)
    places = [np.full((100, 1), place) for place in (1.0, -1.0)]
    counted = [0]

    def reader(change: int) -> Callable[[], Iterator[Array]]:
        reads = [0]

        def read() -> Iterator[Array]:
            reads[0] += 1
            counted[0] = reads[0]
            yield places[reads[0] > change]

        return read

    assert FrechetVariance(ball).compute(reader(1000), 100) == 0.0
    for change in range(1, counted[0]):
        with pytest.raises(chunks.RecordsError, match=CHANGED):
            FrechetVariance(ball).compute(reader(change), 100)


@pytest.mark.parametrize("kind", ["array", "memory map"])
def test_whoever_writes_to_the_records_after_the_mean_moves_no_variance(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ball = ball_of(Euclidean(1), 1.0)
    stored = source_of(kind, np.full((100, 1), 1.0), tmp_path, monkeypatch)
    solve = variance.mean_of

    def solve_and_write(*arguments: Any) -> Array:
        found = solve(*arguments)
        stored[:] = -1.0
        return found

    monkeypatch.setattr(variance, "mean_of", solve_and_write)
    if kind == "array":
        assert FrechetVariance(ball).compute(stored, 100) == 0.0
    else:
        with pytest.raises(chunks.RecordsError, match=CHANGED):
            FrechetVariance(ball).compute(stored, 100)


@pytest.mark.parametrize("who", [{"unit": np.arange(60) // 2}, {"neighbours": "add-remove"}, {"by": np.arange(60) % 2}], ids=str)
@pytest.mark.parametrize("later", [59, 61, 70])
def test_a_reader_that_returns_more_or_fewer_records_later_is_noticed(
    who: dict[str, Any], later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the part of them that a release uses, nothing may have changed."""
    monkeypatch.setattr("geodp.records.rows._KEPT_BYTES", 0)
    ball, reads = ball_of(Sphere(2)), [0]
    x = inside(ball, 100)

    def read() -> Iterator[Array]:
        reads[0] += 1
        yield x[: 60 if reads[0] == 1 else later]

    with pytest.raises(ValueError, match=CHANGED):
        private_mean(read, ball, 1.0, **who)


@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), SPD(5), Sphere(2), Sphere(5), Rotations(3)], ids=repr)
def test_a_reader_may_return_its_records_in_other_chunks_and_another_order(manifold: Manifold) -> None:
    ball, rng = ball_of(manifold), np.random.default_rng(2)
    x = ball.clip(random_points(manifold, 4000, rng, 0.6))

    def read() -> Iterator[Array]:
        at = np.sort(rng.integers(len(x), size=6))
        yield from np.split(rng.permutation(x), at)

    result, expected = frechet_mean(read, ball), frechet_mean(x, ball)
    assert manifold.dist(result.point, expected.point) <= result.error_bound + expected.error_bound


def test_blocks_of_dask_that_change_are_noticed() -> None:
    da = pytest.importorskip("dask.array")
    ball, seeds = ball_of(Sphere(2)), iter(range(1000))
    blocks = da.from_array(inside(ball, 300), chunks=(100, 3)).map_blocks(
        lambda block: inside(ball, len(block), next(seeds)), dtype=float
    )
    with pytest.raises(chunks.RecordsError, match=CHANGED):
        frechet_mean(blocks, ball)


def test_memory_whose_owner_names_itself_as_its_base_is_no_file() -> None:
    """Compiled libraries hand out arrays whose base is an object of their own; looking for a file behind it must end."""

    class Owner:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array
            self.__array_interface__ = array.__array_interface__

        @property
        def base(self) -> Owner:
            return self

    x = np.asarray(Owner(np.tile([0.0, 0.0, 1.0], (50, 1))))
    assert frechet_mean(x, Ball(Sphere(2), [0.0, 0.0, 1.0], 0.5)).point.round(9).tolist() == [0.0, 0.0, 1.0]
