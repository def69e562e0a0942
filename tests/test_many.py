"""The means of many groups at once are those of a loop, whatever the sizes and the order of the groups."""

from __future__ import annotations

import numpy as np
import pytest
from cases import every_manifold, random_points

import geodp
from geodp import SPD, Ball, Euclidean, Grassmann, Hyperbolic, Manifold, Rotations, Sphere, frechet_mean, frechet_means
from geodp.inputs import EPSILON, Array
from geodp.solver.groups import best_group_evaluator, segment_sums
from geodp.solver.many import group_means
from geodp.solver.mean import default_tolerance, least_passes

#: Sizes of groups: none, few, blocks of 256 and one more.
SIZES = [3, 1, 0, 2, 7, 257, 30, 1, 0]


def ball_of(manifold: Manifold, share: float = 0.6) -> Ball:
    return Ball(manifold, manifold.origin, share * min(Ball(manifold, manifold.origin, 1e-3).max_radius, 2.0))


def grouped(ball: Ball, sizes: list[int], seed: int = 0) -> tuple[Array, Array]:
    """Records, some of them outside the ball, in no order, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    x = random_points(ball.manifold, len(labels), rng, 1.2 * ball.radius)
    order = rng.permutation(len(labels))
    return x[order], labels[order]


def compile_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEODP_COMPILE", "always")


def agree_with_a_loop(x: Array, labels: Array, ball: Ball, results: geodp.MeanResults) -> None:
    for i, label in enumerate(results.groups):
        chosen = x[labels == label]
        if len(chosen) == 0:
            assert (results.points[i] == ball.center).all()
            continue
        one = frechet_mean(chosen, ball)
        assert ball.manifold.dist(one.point, results.points[i]) <= one.error_bound + results.error_bounds[i]
        assert results.error_bounds[i] <= default_tolerance(ball)


@every_manifold
def test_the_means_are_those_of_a_loop(manifold: Manifold) -> None:
    ball = ball_of(manifold)
    x, labels = grouped(ball, SIZES)
    agree_with_a_loop(x, labels, ball, frechet_means(x, ball, labels, groups=range(len(SIZES))))


@pytest.mark.parametrize("share", [0.05, 0.6, 0.95])
@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), Sphere(2), Sphere(40), Rotations(3), Hyperbolic(3)], ids=repr)
def test_compiled_means_are_those_of_a_loop(manifold: Manifold, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    ball = ball_of(manifold, share)
    x, labels = grouped(ball, SIZES * 3)
    x[::7] = np.nan
    compile_all(monkeypatch)
    results = frechet_means(x, ball, labels, groups=range(len(SIZES * 3)))
    monkeypatch.undo()
    agree_with_a_loop(x, labels, ball, results)


@pytest.mark.parametrize("manifold", [SPD(2), SPD(3)], ids=repr)
def test_wide_balls_and_centers_of_a_bad_condition_are_certified_too(manifold: Manifold, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices so far apart that the closed forms give up on some of them."""
    center = np.diag(np.geomspace(1.0, 1e3, manifold.point_shape[0]))
    ball, rng = Ball(manifold, center, 4.0), np.random.default_rng(5)
    labels = rng.integers(20, size=300)
    v = rng.normal(size=(300, manifold.dim))
    v *= 5.0 * rng.uniform(0.5, 1.0, size=(300, 1)) / np.linalg.vector_norm(v, axis=-1, keepdims=True)
    x = manifold.exp(center, manifold.tangent(center, v))
    for compiled in (False, True):
        if compiled:
            compile_all(monkeypatch)
        agree_with_a_loop(x, labels, ball, frechet_means(x, ball, labels))


@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), Sphere(2), Rotations(3), Hyperbolic(3)], ids=repr)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_group_does_not_feel_the_others(manifold: Manifold, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit: neither that another is odd, nor that it needs more passes or fewer."""
    if compiled:
        compile_all(monkeypatch)
    ball = ball_of(manifold, 0.9)
    x, labels = grouped(ball, [5, 40, 3, 1])
    before = frechet_means(x, ball, labels)
    x[labels == 2] = np.nan
    after = frechet_means(x, ball, labels)
    for g in (0, 1, 3):
        assert (before.points[g] == after.points[g]).all()
    assert (after.points[2] == ball.center).all()


def test_a_tolerance_is_met_by_every_group_or_refused() -> None:
    ball = Ball(SPD(3), np.eye(3), 2.0)
    x, labels = grouped(ball, [30] * 20)
    asked = 0.3 * default_tolerance(ball)
    results = frechet_means(x, ball, labels, tolerance=asked)
    assert (results.error_bounds <= asked).all()
    with pytest.raises(ValueError, match=r"^the tolerance 1e-17 is below what float64 can certify for these records; "):
        frechet_means(x, ball, labels, tolerance=1e-17)


def test_in_a_ball_so_wide_that_little_is_promised_the_means_are_as_fine_as_one_by_one() -> None:
    ball = Ball(SPD(2), np.eye(2), 20.0)
    x = np.concatenate([random_points(SPD(2), 40, np.random.default_rng(3), spread) for spread in (0.5, 1.0, 2.0)])
    labels = np.repeat([0, 1, 2], 40)
    assert default_tolerance(ball) > 1e-2
    results = frechet_means(x, ball, labels)
    assert (results.error_bounds < 1e-6).all()
    agree_with_a_loop(x, labels, ball, results)


def test_labels_choose_and_order_the_groups() -> None:
    ball = Ball(Euclidean(1), [0.0], 10.0)
    x = np.array([[1.0], [2.0], [3.0], [4.0]])
    results = frechet_means(x, ball, ["b", "a", "b", "c"], groups=["c", "none", "b"])
    assert list(results) == ["c", "none", "b"]
    assert len(results) == 3
    assert results.points.tolist() == [[4.0], [0.0], [2.0]]
    assert results["b"].point.tolist() == [2.0]
    assert results["b"].iterations >= 1
    assert list(frechet_means(x, ball, [3, 1, 3, 2])) == [1, 2, 3]
    assert len(frechet_means(x[:0], ball, [])) == 0
    assert frechet_means(x[:0], ball, [], groups=[1]).points.tolist() == [[0.0]]
    with pytest.raises(KeyError):
        results["a"]


def test_what_cannot_be_labels_is_said() -> None:
    ball = Ball(Euclidean(1), [0.0], 10.0)
    with pytest.raises(ValueError, match=r"^by has shape \(2,\) but must hold one label a record, shape \(1,\)$"):
        frechet_means([[1.0]], ball, [1, 2])
    with pytest.raises(ValueError, match=r"^groups must be a list of labels, each of which occurs once$"):
        frechet_means([[1.0]], ball, [1], groups=[1, 1])
    with pytest.raises(ValueError, match=r"^x has shape \(1, 2\), but records of Euclidean\(1\) have shape \(n, 1\)$"):
        frechet_means([[1.0, 2.0]], ball, [1])


@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), Sphere(2), Hyperbolic(3)], ids=repr)
@pytest.mark.parametrize("compiled", [False, True])
def test_groups_that_need_fewer_passes_get_as_many_as_others(
    manifold: Manifold, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled:
        compile_all(monkeypatch)
    ball = ball_of(manifold, 0.3)
    x, labels = grouped(ball, [10] * 6)
    x[labels == 0] = ball.center  # which the first pass certifies
    order, starts = np.argsort(labels, kind="stable"), np.arange(0, 61, 10)
    hasty, steady = (group_means(x[order], starts, ball, steady=steady) for steady in (False, True))
    hessian = best_group_evaluator(ball, 60).hessian
    least = least_passes(ball, hessian) + (0 if hessian == "full" else 2)
    assert hasty.iterations[0] == 1
    assert steady.iterations[0] == least > 1
    assert set(steady.iterations[1:].tolist()) <= {least, least + 1}
    assert (hasty.points == steady.points).all()


def test_sums_over_segments_keep_the_error_of_a_tree() -> None:
    """Against exact sums; one long segment would lose a thousand times as much if added up one by one."""
    rng = np.random.default_rng(0)
    starts = np.array([0, 0, 1, 1, 40, 1100, 200_000, 200_000])
    values = 1.0 + rng.uniform(size=(200_000, 2))
    sums = segment_sums(values, starts)
    for g in range(len(starts) - 1):
        part = values[starts[g] : starts[g + 1]].astype(np.longdouble)
        exact = part.sum(axis=0)
        assert (np.abs(sums[g] - exact) <= 32 * 4 * EPSILON * exact).all()


def test_a_group_of_more_records_than_a_chunk_holds() -> None:
    ball = Ball(Sphere(3), [0.0, 0.0, 0.0, 1.0], 0.8)
    x, labels = grouped(ball, [150_000, 3])
    agree_with_a_loop(x, labels, ball, frechet_means(x, ball, labels))


def test_grassmannians_in_a_wide_ball_converge() -> None:
    ball = ball_of(Grassmann(2, 5), 0.97)
    x, labels = grouped(ball, [4] * 12)
    agree_with_a_loop(x, labels, ball, frechet_means(x, ball, labels))


def test_compiled_code_meets_one_type_of_arrays_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept on disk for every type it has met: those files must not tell what the records were like."""
    from geodp.solver import lanes, matrix_kernels, round_kernels, small_spd_kernels

    compile_all(monkeypatch)
    for manifold in (SPD(2), SPD(3), Sphere(2), Rotations(3)):
        ball = ball_of(manifold, 0.9)
        x, labels = grouped(ball, SIZES)
        x[labels == 4] = np.nan
        for given in (x, np.asfortranarray(x), x.astype(np.float32), x[::-1]):
            frechet_means(given, ball, labels)
            frechet_mean(given[:3], ball)
        group_means(x.copy(), np.array([0, 5, len(x)]), ball, steady=True)
    modules = lanes, matrix_kernels, round_kernels, small_spd_kernels
    kernels = [value for module in modules for value in vars(module).values() if hasattr(value, "signatures")]
    assert len(kernels) >= 8
    # the loops alone call next_pieces, and never with records: its types are those of the loops that were compiled
    names = {kernel.py_func.__name__ for kernel in kernels if len(kernel.signatures) > 1}
    assert names <= {"next_pieces"}
