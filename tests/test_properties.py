"""What follows from the claim and must hold for the program: post-processing, composition, exchangeable and invalid records."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import MANIFOLDS, every_manifold, measured, random_points
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Ledger,
    Manifold,
    Product,
    Release,
    Sphere,
    frechet_mean,
    private_mean,
)
from geodp.files import read_records
from geodp.inputs import Array
from geodp.noise import exact
from geodp.privacy.notions import PureDP
from geodp.request import Request
from geodp.solver.mean import default_tolerance
from geodp.statistics.mean import Mean

#: Chance that a statistical test below rejects a correct program, were its seed drawn afresh.
LEVEL = 1e-4


def ball_of(manifold: Manifold, part: float = 0.4) -> Ball:
    return Ball(manifold, manifold.origin, part * min(1.0, Ball(manifold, manifold.origin, 1e-3).max_radius))


def records_of(ball: Ball, count: int = 30, seed: int = 1) -> Array:
    """Records about a place halfway to the rim, some of them outside the ball."""
    manifold = ball.manifold
    away = np.linspace(1.0, 2.0, manifold.dim)
    middle = manifold.exp(ball.center, manifold.tangent(ball.center, away * 0.5 * ball.radius / np.linalg.vector_norm(away)))
    return manifold.move_origin(middle, random_points(manifold, count, np.random.default_rng(seed), ball.radius))


def seeded(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Let the next releases draw from these bits."""
    source = exact.NotPrivate(seed)
    monkeypatch.setattr(exact, "OperatingSystem", lambda: source)


# ---------------------------------------------------------------------- post-processing


@every_manifold
def test_a_receipt_is_a_function_of_the_value_and_of_public_parameters(manifold: Manifold) -> None:
    """Someone who has the draw, but not the records, can write the receipt: it spends nothing beyond the draw."""
    ball, epsilon = ball_of(manifold), 40.0 * manifold.dim
    release = private_mean(records_of(ball), ball, epsilon)
    public = measured(ball, 30, epsilon)
    again = Release(Request(Mean(ball), PureDP(epsilon)), 30, release.draws)
    assert again.to_json() == release.to_json()
    found = again.mechanism, again.scale, again.sensitivity, again.tolerance, again.grid
    grid = 2.0 ** exact.default_grid_exponent(manifold, public.noise.scale)
    assert found == (public.noise.name, public.noise.scale, public.sensitivity, public.tolerance, grid)
    np.testing.assert_array_equal(again.value, public.noise.finish(release.draws[0]) if release.projected else release.draws[0])
    assert (again.error_quantile(0.9), again.expected_error()) == (release.error_quantile(0.9), release.expected_error())
    assert str(Release.from_json(again.to_json())) == str(release)


@pytest.mark.parametrize("mechanism", ["intrinsic", "tangent"])
@pytest.mark.parametrize("manifold", [Sphere(2), SPD(2), Grassmann(2, 4)], ids=repr)
def test_projecting_is_done_to_the_finished_draw(manifold: Manifold, mechanism: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same bits the projected release is the projection of the other one: a function of it alone."""
    ball = ball_of(manifold)
    moved = 0
    for seed in range(20):
        values = []
        for project in (False, True):
            seeded(monkeypatch, seed)
            values.append(private_mean(records_of(ball, 4), ball, 2.0, project=project, mechanism=mechanism, anyway=True).value)
        if mechanism == "intrinsic":
            assert np.array_equal(ball.clip(values[0]), values[1])
        else:  # moved in the tangent space, before exp
            np.testing.assert_allclose(ball.clip(values[0]), values[1], atol=1e-12)
        moved += not np.array_equal(*values)
    assert 0 < moved < 20


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", "null", '{"manifold": "SPD(2)"}', "[" * 100_000, '"' * 3, "9" * 5000])
def test_a_text_that_is_no_receipt_is_one_sentence(damage: str) -> None:
    with pytest.raises(ValueError, match=r"^this is not the JSON text of a release: ") as caught:
        Release.from_json(damage)
    reason = str(caught.value).removeprefix("this is not the JSON text of a release: ")
    assert reason in ("it is not a receipt of geodp", "pass what to_json returned", "its request is none that geodp makes")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("value", [0.0, 0.0, 2.0]), ("value", [1.0]), ("value", "x"), ("n", "30"), ("scale", None), ("center", [9.0]),
        ("radius", 9.0),
        ("manifold", ["SPD(2)"]), ("projected", "yes"), ("epsilon", "1"), ("charge", "one"),
    ],
)  # fmt: skip
def test_a_receipt_with_a_field_that_cannot_be_is_refused(field: str, value: object) -> None:
    ball = ball_of(Sphere(2))
    stored = json.loads(private_mean(records_of(ball), ball, 1.0).to_json())
    assert Release.from_json(json.dumps(stored)).n == 30
    with pytest.raises(ValueError, match="not the JSON text of a release"):
        Release.from_json(json.dumps({**stored, field: value}))


# ---------------------------------------------------------------------- composition


@settings(max_examples=8, deadline=None, derandomize=True)
@given(epsilons=st.lists(st.floats(1e-12, 1e3) | st.sampled_from([0.1, 0.2, 0.3, 1e-9, 1 / 3]), min_size=1, max_size=6))
def test_releases_compose_by_adding_what_was_charged_and_each_has_the_noise_for_its_charge(
    epsilons: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In rational numbers: the charges add up to what is spent, and no release is louder than its charge.

    The float 0.1 is larger than the 0.1 that is charged for it; the scale must cover the charge all the same:
    ``scale * charge >= sensitivity + 2 tolerance`` exactly.
    """
    ledger = Ledger(f"sqlite:///{tmp_path_factory.mktemp('ledger')}/budget.db")
    ledger.open("d", 10**9)
    ball = ball_of(Sphere(2))
    for epsilon in epsilons:
        private_mean(records_of(ball), ball, epsilon, ledger=ledger, dataset="d", anyway=True)
    history = ledger.history("d")
    assert [Fraction(charge.epsilon) for charge in history] == [Fraction(repr(epsilon)) for epsilon in epsilons]
    assert Fraction(ledger.spent("d")) == sum(Fraction(repr(epsilon)) for epsilon in epsilons)
    for charge in history:
        receipt = json.loads(charge.receipt or "")
        needed = Fraction(receipt["sensitivity"]) + 2 * Fraction(receipt["tolerance"])
        assert Fraction(receipt["scale"]) * Fraction(charge.epsilon) >= needed


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    part=st.floats(0.01, 0.99), n=st.integers(1, 10**12), epsilon=st.floats(1e-3, 1e6),
    manifold=st.sampled_from(MANIFOLDS),
)  # fmt: skip
def test_the_scale_covers_sensitivity_and_tolerance_in_rational_numbers(
    part: float, n: int, epsilon: float, manifold: Manifold
) -> None:
    try:
        public = measured(ball_of(manifold, part), n, epsilon)
        scale = public.noise.scale
    except ValueError:  # no such law
        return
    assert Fraction(scale) * Fraction(repr(epsilon)) >= Fraction(public.sensitivity) + 2 * Fraction(public.tolerance)
    assert scale * epsilon < (public.sensitivity + 2 * public.tolerance) * (1.0 + 1e-13)


def test_one_epsilon_more_than_is_left_is_refused_to_the_last_digit(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("d", "1")
    ledger.charge("d", "0.7", what="mean")
    with pytest.raises(ValueError, match=r"has 0\.3 of 1 left"):
        ledger.charge("d", "0.300000000000000000000000000001", what="mean")
    ledger.charge("d", "0.3", what="mean")
    assert ledger.remaining("d") == 0


# ---------------------------------------------------------------------- the order of the records


@every_manifold
def test_the_order_of_the_records_moves_the_mean_by_no_more_than_the_scale_allows_for(manifold: Manifold) -> None:
    """Two orders, or two cuts into chunks, give means within twice the tolerance: the calibration has that in it."""
    ball = ball_of(manifold)
    x = records_of(ball, 200)
    rng = np.random.default_rng(3)
    orders: list[Any] = [x, x[::-1], x[rng.permutation(200)], np.sort(x, axis=0) if x.ndim == 2 and x.shape[1] == 1 else x]
    orders += [[x[:1], x[1:150], x[150:]], lambda: iter(np.array_split(x[rng.permutation(200)], 7))]
    means = [frechet_mean(order, ball).point for order in orders]
    allowed = 2.0 * default_tolerance(ball)
    for first, second in pairwise(means):
        assert manifold.dist(first, second) <= allowed
    assert allowed < 1e-6 * ball.radius


def distances(release: Callable[[], Array], manifold: Manifold, origin: Array, size: int) -> tuple[Array, Array]:
    """How far releases are from a public point, and one of their coordinates about it."""
    values = np.array([release() for _ in range(size)])
    return np.asarray(manifold.dist(origin, values)), manifold.coordinates(origin, manifold.log(origin, values))[:, 0]


@pytest.mark.slow
@pytest.mark.parametrize("manifold", [Sphere(2), SPD(2)], ids=repr)
@pytest.mark.parametrize("permuted", [True, False], ids=["permuted", "first half only"])
def test_releases_of_permuted_records_have_one_law(manifold: Manifold, permuted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kolmogorov and Smirnov's test on distances and on a coordinate, 250 releases of either order.

    False-alarm rate 1e-4 (Bonferroni). A release that depends on the order, of the first half of the records say, is found out.
    """
    ball, epsilon = ball_of(manifold, 0.8), 20.0
    seeded(monkeypatch, 9)
    x = np.concatenate([records_of(ball, 20, seed) for seed in (1, 2)])
    x[:20] = x[0]
    shuffled = x[::-1]
    used = 40 if permuted else 20
    samples = [
        distances(lambda y=y: private_mean(y[:used], ball, epsilon).value, manifold, ball.center, 250) for y in (x, shuffled)
    ]
    smallest = min(stats.ks_2samp(one, two).pvalue for one, two in zip(*samples, strict=True))
    assert (smallest > LEVEL / 2) == permuted


# ---------------------------------------------------------------------- invalid records


def spoil(x: Array, manifold: Manifold) -> Array:
    """Every third record replaced by something that is no point."""
    bad = [np.nan, np.inf, -np.inf, 1e308, 0.0, -1e300]
    out = x.copy()
    for i in range(0, len(x), 3):
        out[i] = bad[(i // 3) % len(bad)]
    return out


def paths(x: Array, folder: Path, manifold: Manifold) -> dict[str, Any]:
    """The same records on every way into the library."""
    np.save(folder / "x.npy", x)
    np.savez(folder / "x.npz", x=x)
    rows = x.reshape(len(x), -1)
    names = ",".join(f"c{i}" for i in range(rows.shape[1]))
    np.savetxt(folder / "x.csv", rows, delimiter=",", fmt="%.17g", header=names, comments="")
    mapped = np.lib.format.open_memmap(folder / "x.npy", mode="r")
    ways: dict[str, Any] = {
        "array": x,
        "fortran": np.asfortranarray(x),
        "big-endian": x.astype(">f8"),
        "chunks": [x[:7], x[7:]],
        "function": lambda: iter([x[:4], x[4:]]),
        "memory map": mapped,
        "nested list": x.tolist(),
    }
    for suffix in ("npy", "npz"):
        ways[suffix] = read_records(folder / f"x.{suffix}", manifold)
    # of text every layout makes points its own way, except where the cells are the entries of the point
    if "PlanarShapes" not in repr(manifold):
        ways["csv"] = read_records(folder / "x.csv", manifold)
    return ways


@every_manifold
def test_an_invalid_record_is_the_centre_on_every_way_into_the_library(manifold: Manifold, tmp_path: Path) -> None:
    """The mean with invalid records is the mean with the centre in their place, to the tolerance that the noise allows for."""
    ball = ball_of(manifold)
    x = spoil(records_of(ball), manifold)
    replaced = x.copy()
    replaced[~manifold.valid(x)] = ball.center
    assert np.array_equal(ball.clip(x), ball.clip(replaced))
    expected = frechet_mean(replaced, ball).point
    for name, records in paths(x, tmp_path, manifold).items():
        mean = frechet_mean(records, ball).point
        assert manifold.dist(mean, expected) <= 2.0 * default_tolerance(ball), name


@pytest.mark.parametrize("manifold", [Sphere(2), SPD(2)], ids=repr)
def test_the_estimator_treats_invalid_records_as_the_release_does(manifold: Manifold, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="the estimator needs scikit-learn")
    from geodp.estimator import PrivateFrechetMean

    ball = ball_of(manifold)
    x = spoil(records_of(ball), manifold)
    seeded(monkeypatch, 4)
    expected = private_mean(x, ball, 40.0).value
    for shape in (x.shape, (len(x), -1)):
        model = PrivateFrechetMean(manifold, radius=ball.radius, epsilon=40.0)
        seeded(monkeypatch, 4)
        assert np.array_equal(model.fit(x.reshape(shape)).location_, expected)


# ---------------------------------------------------------------------- arrays and numbers that are not what they seem


@every_manifold
def test_a_masked_array_is_refused_because_what_is_masked_must_not_be_read(manifold: Manifold) -> None:
    ball = ball_of(manifold)
    x = np.ma.masked_array(records_of(ball), mask=False)
    x[3] = np.ma.masked
    ways: list[Callable[[], object]] = [
        lambda: private_mean(x, ball, 40.0 * manifold.dim),
        lambda: ball.clip(x),
        lambda: ball.contains(x),
        lambda: manifold.dist(manifold.origin, x),
    ]
    for way in ways:
        with pytest.raises(TypeError, match="is a masked array, and masked entries must not be read: fill it first"):
            way()
    private_mean(x.filled(np.nan), ball, 40.0 * manifold.dim)


class _Hidden:
    """What turns into a masked array when it is read."""

    def __init__(self, x: np.ma.MaskedArray) -> None:
        self.x = x

    def __array__(self, dtype: object = None, copy: object = None) -> np.ma.MaskedArray:
        return self.x


@pytest.mark.parametrize(
    "way",
    [
        lambda x, ball: frechet_mean(x, ball),
        lambda x, ball: frechet_mean(list(x), ball),
        lambda x, ball: frechet_mean(lambda: iter([list(x)]), ball),
        lambda x, ball: frechet_mean(_Hidden(x), ball),
        lambda x, ball: frechet_mean(x.filled(0.0), ball, weights=np.ma.masked_array(np.ones(len(x)))),
        lambda x, ball: private_mean([x[:5], x[5:]], ball, 9.0),
        lambda x, ball: private_mean(list(x), ball, 9.0),
    ],
)
def test_masked_chunks_are_refused_too(way: Callable[[Any, Ball], object]) -> None:
    ball = ball_of(Sphere(2))
    with pytest.raises(TypeError, match="masked array"):
        way(np.ma.masked_array(records_of(ball), mask=False), ball)


def test_the_estimator_refuses_a_masked_array() -> None:
    pytest.importorskip("sklearn", reason="the estimator needs scikit-learn")
    from geodp.estimator import PrivateFrechetMean

    with pytest.raises(TypeError, match="is a masked array"):
        PrivateFrechetMean("Sphere(2)", radius=0.5).fit(np.ma.masked_array(np.tile([0.0, 0.0, 1.0], (9, 1)), mask=False))


@pytest.mark.parametrize("manifold", MANIFOLDS[:2] + MANIFOLDS[14:16] + MANIFOLDS[3:4] + MANIFOLDS[29:30], ids=repr)
@pytest.mark.parametrize("epsilon", [1e-320, 1e-300, 1e-200, 1e-145, 1e-100, 1e100, 1e150, 1e200, 1e300, 1.7e308])
def test_a_receipt_can_be_printed_whatever_the_epsilon_or_nothing_is_charged(
    manifold: Manifold, epsilon: float, tmp_path: Path
) -> None:
    """A receipt that fails after the charge would lose a release that was paid for."""
    ball = ball_of(manifold)
    release = None
    with contextlib.suppress(ValueError):
        release = private_mean(ball.center[None], ball, epsilon)
    assert release is not None or not 1e-100 <= epsilon <= 1e100 or epsilon < 1.0
    if release is not None:
        assert "NaN" not in release.to_json()
        assert "within nan" not in str(release)


@pytest.mark.parametrize("number", [10**400, "x", [1.0], np.array([0.5]), None, 1j, object()], ids=lambda x: type(x).__name__)
def test_a_public_number_that_is_none_is_one_sentence(number: Any) -> None:
    from geodp import Gaussian, Laplace, plan

    ball = ball_of(Sphere(2))
    for way in (
        lambda: Ball(Sphere(2), [0.0, 0.0, 1.0], number),
        lambda: Sphere(2, curvature=number),
        lambda: private_mean(records_of(ball), ball, number),
        lambda: plan(ball, n=10, error=0.1, quantile=number if number is not None else 2.0),
        lambda: plan(ball, n=10, error=number) if number is not None else plan(ball, n=10),
        lambda: Laplace(Sphere(2), number),
        lambda: Gaussian(Sphere(2), number),
        lambda: Ledger(timeout=number),
    ):
        with pytest.raises(
            (ValueError, TypeError),
            match=r"must be a number|too large for a float|two of|between 0 and 1|give the privacy to spend",
        ):
            way()


@pytest.mark.parametrize("n", [10**400, 10**5000, -(10**5000)], ids=["400 digits", "5000 digits", "negative"])
def test_a_number_of_records_past_64_bits_is_one_sentence(n: int) -> None:
    """Found by the long fuzzing: a plan of a chain and of a search multiplied it with a float."""
    from geodp import audit, plan, plan_chain, sensitivity
    from geodp.programs.ball import plan_search

    ball = ball_of(Sphere(2))
    for way in (
        lambda: sensitivity(ball, n),
        lambda: plan(ball, n, 1.0),
        lambda: plan_search(Sphere(2), n, PureDP(1.0)),
        lambda: plan_chain(Sphere(2), n, 1.0, spread=0.1),
        lambda: audit(ball, n, 1.0, draws=100),
    ):
        with pytest.raises(ValueError, match=r"the number of records n must be at (most 2\^63|least 1)$"):
            way()


def test_geometry_past_the_floats_is_one_sentence_and_no_infinity() -> None:
    """Squares of these numbers overflow: an infinite distance would be wrong, and a warning is no answer."""
    far = np.array([1e200, 0.0])
    ways: list[Callable[[], object]] = [
        lambda: Euclidean(2).dist(np.zeros(2), far),
        lambda: Euclidean(2).norm(np.zeros(2), far),
        lambda: Euclidean(2).inner(np.zeros(2), far, far),
        lambda: Hyperbolic(2).exp([np.sqrt(2.0), 1.0, 0.0], [1e308 / np.sqrt(2.0), 1e308, 0.0]),
    ]
    for way in ways:
        with pytest.raises(ValueError, match=r"too large for a float|is not defined in float64"):
            way()
    assert Euclidean(2).log_volume_density(np.zeros(2), far) == 0.0


def test_laws_too_wide_for_floats_are_refused_at_once() -> None:
    from geodp import Gaussian, Laplace

    for compute in (lambda law: law.mean_radius(), lambda law: law.sample(np.eye(2), 3, np.random.default_rng(1))):
        with pytest.raises(ValueError, match="is concentrated near distance"):
            compute(Gaussian(SPD(2), 1e4))
    with pytest.raises(ValueError, match="a draw overflows"):
        Laplace(Hyperbolic(1), 1e4).sample([1.0, 0.0], 100, np.random.default_rng(1))
    # a draw whose smallest eigenvalue is lost to rounding is no point either
    with pytest.raises(ValueError, match="a draw overflows"):
        Gaussian(SPD(2), 6.0).sample(np.eye(2), 100, np.random.default_rng(1))
    for law in (Laplace, Gaussian):
        with pytest.raises(ValueError, match="between 1e-140 and 1e"):
            law(SPD(1), 1e200)


@every_manifold
def test_the_projection_of_what_is_not_finite_is_one_sentence(manifold: Manifold) -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"no point of .* is next to x: .* of its entries are not finite"):
            manifold.project(np.full((2, *manifold.point_shape), bad))
        with pytest.raises(ValueError, match="every coordinate must be finite"):
            manifold.tangent(manifold.origin, np.full(manifold.dim, bad))


@pytest.mark.parametrize("text", ["Sphere(999999999)", "SPD(100000)", "Product(SPD(3000), SPD(3000))", "Grassmann(1000, 999999)"])
def test_a_typed_manifold_whose_points_fill_the_memory_is_refused(text: str) -> None:
    from geodp.files import parse_manifold

    with pytest.raises(ValueError, match="its points have more than 10000000 entries"):
        parse_manifold(text)


def test_a_line_break_in_the_name_of_a_ledger_does_not_break_its_sentences(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/a\nb.db")
    with pytest.raises(ValueError, match="there is no ledger at") as caught:
        ledger.spent("d")
    assert "\n" not in str(caught.value)
    ledger.open("d", 1)
    assert (tmp_path / "a\nb.db").exists()


def test_numbers_of_every_type_make_a_plan_that_can_be_written_as_json() -> None:
    from geodp import plan

    for number in (np.float32(0.5), np.float64(0.5), np.int8(2), 2):
        json.dumps(plan(ball_of(Sphere(2)), n=np.int16(30), epsilon=number).to_dict())


def test_noise_that_would_take_for_ever_is_refused_before_the_charge(tmp_path: Path) -> None:
    """On a product of a bounded and an unbounded space nearly every trial of a wide law misses the bounded one.

    On the hyperbolic line a draw at distance ``s`` has ``s`` digits.
    """
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("d", 1)
    for manifold, reason in (
        (Product(Sphere(2), Euclidean(3)), "takes thousands of trials a draw"),
        (Hyperbolic(1), "must be below 90"),
    ):
        ball = ball_of(manifold)
        with pytest.raises(ValueError, match=reason):
            private_mean(ball.center[None], ball, 1e-6, mechanism="intrinsic", ledger=ledger, dataset="d")
        assert ledger.spent("d") == 0
        private_mean(ball.center[None], ball, 0.5, mechanism="intrinsic", anyway=True)
        assert private_mean(ball.center[None], ball, 1e-6, anyway=True).mechanism == "tangent Laplace"
