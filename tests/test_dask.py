"""Means of Dask arrays on a real cluster of two processes: the same as in memory, whatever the blocks, and whoever dies."""

from __future__ import annotations

import functools
import math
import operator
import os
import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import longer, random_points
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from geodp import SPD, Ball, Euclidean, Grassmann, Ledger, Manifold, Sphere, frechet_mean, private_mean
from geodp.cli import app
from geodp.solver.passes import Pass
from geodp.statistics.mean import Mean

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
import geodp.records.dask_arrays  # noqa: E402 - it needs Dask
import geodp.records.dask_files  # noqa: E402 - likewise

BALLS = [Ball(SPD(3), np.eye(3), 1.2), Ball(Sphere(2), Sphere(2).origin, 1.0), Ball(Grassmann(2, 5), Grassmann(2, 5).origin, 0.6)]
every_ball = pytest.mark.parametrize("ball", longer(BALLS, BALLS[:1]), ids=lambda ball: repr(ball.manifold))


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cluster Dask computes in threads of this process."""
    monkeypatch.setattr(geodp.records.dask_arrays, "_client", lambda: None)


def records(ball: Ball, count: int = 8_000) -> np.ndarray:
    """Points around the centre, a quarter of them outside the ball, and some that are none."""
    x = random_points(ball.manifold, count, np.random.default_rng(count), 1.35 * ball.radius)
    x[::701], x[5], x[6] = np.nan, np.inf, 0.0
    return x


def same(manifold: Manifold, first: Any, second: Any) -> bool:
    return float(manifold.dist(first.point, second.point)) <= first.error_bound + second.error_bound


@every_ball
def test_the_mean_is_that_of_the_array_in_memory(client: Any, ball: Ball) -> None:
    x = records(ball)
    plain = frechet_mean(x, ball)
    blocks = da.from_array(x, chunks=(711, *x.shape[1:]))
    result = frechet_mean(blocks, ball)
    assert same(ball.manifold, result, plain)
    # a mean without the clipping, or without one block, would be told apart
    less = frechet_mean(x[:-711], ball)
    assert not same(ball.manifold, less, plain)
    # and so it is for whoever keeps the blocks in the memory of the workers
    assert same(ball.manifold, frechet_mean(blocks.persist(), ball), plain)


@pytest.mark.slow
@every_ball
def test_weights_are_those_of_the_records(threads: None, ball: Ball) -> None:
    x = records(ball, 6000)
    weights = np.random.default_rng(0).exponential(size=len(x)) ** 3
    blocks = da.from_array(x, chunks=(997, *x.shape[1:]))
    plain = frechet_mean(x, ball, weights=weights)
    assert same(ball.manifold, frechet_mean(blocks, ball, weights=weights), plain)
    assert not same(ball.manifold, frechet_mean(blocks, ball), plain)
    with pytest.raises(ValueError, match="there are 5999 weights but 6000 records"):
        frechet_mean(blocks, ball, weights=weights[1:])


def test_blocks_may_be_of_unknown_size_empty_or_cut_across_other_axes(threads: None) -> None:
    ball = BALLS[0]
    x = records(ball, 6000)
    plain = frechet_mean(x, ball)
    whole = da.from_array(x, chunks=(1000, 3, 3))
    unknown = whole[whole[:, 0, 0] > -math.inf]  # what is not a number goes
    assert math.isnan(unknown.shape[0])
    kept = x[x[:, 0, 0] > -math.inf]
    assert same(ball.manifold, frechet_mean(unknown, ball), frechet_mean(kept, ball))
    assert private_mean(unknown, ball, 1.0).n == len(kept)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        frechet_mean(unknown, ball, weights=np.ones(len(kept)))
    empty = da.concatenate([whole[:0], whole[:2500], da.zeros((0, 3, 3)), whole[2500:]])
    assert same(ball.manifold, frechet_mean(empty, ball), plain)
    hollow = whole[:0].map_blocks(lambda block: block, chunks=((math.nan,), (3,), (3,)), dtype=float)
    with pytest.raises(ValueError, match="at least one record but there are 0"):
        frechet_mean(hollow, ball)
    assert same(ball.manifold, frechet_mean(da.from_array(x, chunks=(700, 2, 1)), ball), plain)
    assert same(ball.manifold, frechet_mean(whole.astype(np.float32), ball), frechet_mean(x.astype(np.float32), ball))


@pytest.mark.parametrize("dtype", [complex, "U5", object])
def test_blocks_that_do_not_hold_numbers_are_refused_before_they_are_read(dtype: Any) -> None:
    ball = Ball(Euclidean(2), np.zeros(2), 1.0)
    with pytest.raises((ValueError, TypeError), match="x"):
        frechet_mean(da.zeros((10, 2), chunks=5).astype(dtype), ball)


def test_the_wrong_shape_is_one_sentence() -> None:
    ball = BALLS[0]
    with pytest.raises(ValueError, match=r"x has shape \(4, 3\), but records of SPD\(3\) have shape \(n, 3, 3\)"):
        frechet_mean(da.zeros((4, 3)), ball)


def test_no_cluster_is_needed() -> None:
    ball = BALLS[1]
    x = records(ball, 3000)
    assert same(ball.manifold, frechet_mean(da.from_array(x, chunks=(500, 3)), ball), frechet_mean(x, ball))


def with_a_worker_killed(client: Any, compute: Callable[[Any, Any], Any]) -> Any:
    """The second pass is under way, blocks of it done and others not, when one of the two processes is killed."""

    def slow(block: np.ndarray) -> np.ndarray:
        time.sleep(0.02)
        return block

    x = records(BALLS[1], 4000)
    blocks = da.from_array(x, chunks=(160, 3)).map_blocks(slow, dtype=float)
    before = set(client.run(os.getpid).values())
    killed: list[int] = []

    def kill(iteration: int, done: int, total: int | None) -> None:
        if iteration == 2 and done < len(x) and not killed:
            killed.append(min(before))
            os.kill(killed[0], signal.SIGKILL)

    result = compute(blocks, kill)
    assert killed
    client.wait_for_workers(2, timeout=600)
    assert killed[0] not in client.run(os.getpid).values()
    return result


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_changes_nothing(client: Any) -> None:
    result = with_a_worker_killed(client, lambda blocks, kill: frechet_mean(blocks, BALLS[1], progress=kill))
    assert same(BALLS[1].manifold, result, frechet_mean(records(BALLS[1], 4000), BALLS[1]))


@pytest.mark.slow
def test_with_a_worker_killed_in_the_middle_the_charge_is_made_once(client: Any, tmp_path: Path) -> None:
    book = Ledger(f"sqlite:///{tmp_path}/budget.db")
    book.open("study", epsilon="3")
    release = with_a_worker_killed(
        client, lambda blocks, kill: private_mean(blocks, BALLS[1], 1.0, ledger=book, dataset="study", progress=kill)
    )
    assert [str(charge.epsilon) for charge in book.history("study")] == ["1"]
    assert str(book.remaining("study")) == "2"
    assert release.charge == book.history("study")[0].id


def test_a_block_that_cannot_be_summed_reveals_nothing_and_costs_nothing(client: Any, tmp_path: Path) -> None:
    ball = Ball(Euclidean(2), np.zeros(2), 1.0)
    book = Ledger(f"sqlite:///{tmp_path}/budget.db")
    book.open("study", epsilon="3")

    def lie(block: np.ndarray) -> np.ndarray:
        return np.array([["secret-text", "1"]] * len(block), dtype=object)

    def fail(block: np.ndarray) -> np.ndarray:
        raise ValueError(f"secret-text {block[0]}")

    for function in (lie, fail):
        blocks = da.zeros((40, 2), chunks=10).map_blocks(function, dtype=float, meta=np.empty((0, 0)))
        for release in (
            lambda blocks=blocks: frechet_mean(blocks, ball),
            lambda blocks=blocks: private_mean(blocks, ball, 1.0, ledger=book, dataset="study"),
        ):
            with pytest.raises(ValueError, match="is hidden because it may hold data") as failure:
                release()
            assert "secret-text" not in "".join(traceback.format_exception(failure.value))
        if function is lie:  # of what fails in a function of their own, users write to Dask's log what they like
            assert "secret-text" not in repr(client.get_worker_logs())
    assert book.history("study") == []


@pytest.mark.slow
def test_what_became_of_dead_workers_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask gives up on a block whose workers died again and again; here a scheduler says so."""

    def scheduler(graph: dict[Any, Any], keys: list[Any], **_: object) -> Any:
        raise distributed.KilledWorker("geodp-secret-text", None, 3)

    ball = BALLS[1]
    x = da.from_array(records(ball, 1000), chunks=(100, 3))
    of_unknown_size = x[x[:, 0] > -math.inf]
    sentence = (
        r"reading the records failed with KilledWorker; .* because it may hold data: the workers died, .*: use smaller blocks$"
    )
    monkeypatch.setattr(geodp.records.dask_arrays, "_client", lambda: None)
    monkeypatch.setattr(geodp.records.dask_files, "cluster", lambda _: nullcontext())
    np.save(tmp_path / "x.npy", records(ball, 1000))
    with dask.config.set(scheduler=scheduler):
        for blocks in (x, of_unknown_size):
            for mean in (lambda x: frechet_mean(x, ball), lambda x: private_mean(x, ball, 1.0)):
                with pytest.raises(ValueError, match=f"^{sentence}") as failure:
                    mean(blocks)
                assert "secret-text" not in "".join(traceback.format_exception(failure.value))
        command = ["mean", str(tmp_path / "x.npy"), "--dask", "local", "-m", "Sphere(2)", "-r", "1", "-e", "1"]
        done = CliRunner(env={"COLUMNS": "200"}).invoke(app, command)
    assert done.exit_code == 2
    assert re.search(sentence, done.stderr.strip())


def test_no_name_of_a_task_is_made_from_a_private_point(monkeypatch: pytest.MonkeyPatch) -> None:
    # Dask names tasks by hashes of their arguments, and logs the names: the same pass twice must not get the same names
    ball = BALLS[1]
    x = records(ball, 2000)
    blocks, weights = da.from_array(x, chunks=(500, 3)), np.arange(1.0, 2001.0)
    given_names, seen, compute = {str(key) for key in blocks.__dask_graph__()}, [], geodp.records.dask_arrays._compute

    def watched(graph: dict[Any, Any], keys: list[Any]) -> Any:
        seen.append({str(key) for key in graph} - given_names)
        return compute(graph, keys)

    monkeypatch.setattr(geodp.records.dask_arrays, "_compute", watched)
    for _ in range(2):
        frechet_mean(blocks, ball, weights=weights)
    assert len(seen) > 2
    half = len(seen) // 2
    weight_names = set.intersection(*seen[:half])
    assert all(seen)
    assert not (set.union(*seen[:half]) - weight_names) & set.union(*seen[half:])
    assert not weight_names & set.union(*seen[half:])


@pytest.mark.parametrize("blocks", longer([1, 16, 17, 300, 20_000], [1, 16, 17, 300]))
def test_the_tree_adds_every_block_once_and_leaves_few(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: list[tuple[dict[Any, Any], list[Any]]] = []
    monkeypatch.setattr(geodp.records.dask_arrays, "_compute", lambda graph, keys: graphs.append((graph, keys)) or iter(()))
    x = da.zeros((blocks, 2), chunks=(1, 2))
    list(geodp.records.dask_arrays.sums(geodp.records.dask_arrays.map_rows(geodp.records.dask_arrays._length, x, None)))
    ((graph, keys),) = graphs
    assert len(keys) <= 64
    below, leaves = list(keys), []
    while below:
        key = below.pop()
        is_sum = key[0].startswith("geodp-sum")
        (below.extend(graph[key][1]) if is_sum else leaves.append(key))
    assert len(leaves) == len(set(leaves)) == blocks


def test_a_data_set_that_changes_between_counting_and_summing_is_refused(client: Any) -> None:
    ball = BALLS[1]
    x = da.from_array(records(ball, 1000), chunks=(100, 3)).map_blocks(
        lambda b: b[1:], chunks=((math.nan,) * 10, (3,)), dtype=float
    )
    with pytest.raises(ValueError, match=r"^the records changed between two passes: "):
        Mean(ball).compute(x, 1000)


terms = st.lists(
    st.tuples(st.floats(-1.0, 1.0), st.integers(-40, 40)).map(lambda pair: math.ldexp(*pair)), min_size=1, max_size=200
)


@given(terms, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_passes_add_up_to_the_exact_sum_in_any_tree(values: list[float], random: Any) -> None:
    """Against :func:`math.fsum`: the error may be of second order only, ``(n eps)^2`` of the sum of absolute values."""
    parts = [one_pass(value) for value in values]
    while len(parts) > 1:
        i = random.randrange(len(parts) - 1)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    total, exact, eps = parts[0], math.fsum(values), 2.0**-53
    allowed = 2.0 * (len(values) * eps) ** 2 * math.fsum(map(abs, values))
    assert abs(math.fsum([float(total.log[0]), float(total.log_low[0]), -exact])) <= allowed + eps * abs(exact)
    assert total.count == len(values)
    assert total.square == pytest.approx(math.fsum(value**2 for value in values))


@pytest.mark.slow
def test_a_plain_tree_would_not_pass_that_test() -> None:
    values = [1.0, *[2.0**-54] * 1000]
    total = sum((one_pass(value) for value in values), start=Pass.zero(Euclidean(1)))
    exact = math.fsum(values)
    assert total.log[0] + total.log_low[0] == exact
    assert functools.reduce(operator.add, values) != exact  # the built-in sum compensates from Python 3.12 on


def one_pass(value: float) -> Pass:
    return Pass(1, np.array([value]), np.zeros(1), value**2, abs(value), np.zeros(()), 0.0)
