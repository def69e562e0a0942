"""The ways in which a correct law can still leak: granularity, representatives, order, precision, time."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import FrameType

import numpy as np
import pytest
from cases import MANIFOLDS, every_manifold, random_points
from flint import acb, arb, ctx, fmpq
from scipy import stats

import geodp
from geodp import SPD, Euclidean, Grassmann, Hyperbolic, Manifold, PlanarShapes, Product, Rotations, SPDLogEuclidean, Sphere
from geodp.arithmetic import intervals
from geodp.arithmetic.entropy import Uniform
from geodp.inputs import Array
from geodp.noise import exact
from geodp.noise.tangent import TangentMechanism
from geodp.privacy.cost import GaussianCost

#: Chance that a statistical test below would reject a correct sampler, were its seed drawn afresh.
LEVEL = 1e-4


def scale(manifold: Manifold) -> float:
    """A third of the largest scale there is, 0.3 at most."""
    growth = math.sqrt(manifold.volume_bound.square_growth)
    return min(0.3, 0.3 / growth) if growth else 0.3


def centers(manifold: Manifold, count: int) -> Array:
    return random_points(manifold, count, np.random.default_rng(7), spread=1.0)


# ---------------------------------------------------------------------- bits and precision


@every_manifold
def test_the_same_bits_at_a_higher_precision_give_the_same_draw(manifold: Manifold) -> None:
    for seed, center in enumerate(centers(manifold, 5)):
        low, high = (
            exact.sample(manifold, scale(manifold), center, entropy=exact.NotPrivate(seed), precision=precision)
            for precision in (None, 700)
        )
        assert low.steps == high.steps
        assert low.trials == high.trials
        assert low.precision < high.precision
        assert np.array_equal(low.value, high.value)


def test_refinement_from_far_too_few_bits_ends_at_the_same_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    manifolds = [Sphere(2), Hyperbolic(2), SPD(3), SPDLogEuclidean(2), Grassmann(2, 5), Rotations(4), PlanarShapes(4)]
    plenty = [exact.sample(m, scale(m), centers(m, 1)[0], entropy=exact.NotPrivate(1)) for m in manifolds]
    original = exact._setting
    monkeypatch.setattr(exact, "_setting", lambda *args: original(*args)._replace(precision=8))
    for manifold, expected in zip(manifolds, plenty, strict=True):
        draw = exact.sample(manifold, scale(manifold), centers(manifold, 1)[0], entropy=exact.NotPrivate(1))
        assert (draw.steps, draw.trials) == (expected.steps, expected.trials)
        assert draw.precision >= 32


@every_manifold
def test_the_number_of_trials_does_not_depend_on_the_centre(manifold: Manifold) -> None:
    for seed in range(8):
        trials = {
            exact.sample(manifold, scale(manifold), center, entropy=exact.NotPrivate(seed)).trials
            for center in centers(manifold, 4)
        }
        assert len(trials) == 1


def turned(values: list[float]) -> Array:
    basis = stats.ortho_group(len(values), seed=1).rvs()
    matrix = basis * np.array(values) @ basis.T
    return 0.5 * (matrix + matrix.T)


def orthonormal(columns: list[list[float]]) -> Array:
    return np.linalg.qr(np.array(columns).T)[0]


NASTY: list[tuple[Manifold, Array]] = [
    (Sphere(2), np.array([0.0, 0.0, -1.0])),
    (Sphere(2), np.array([1e-17, 0.0, -1.0])),
    (Sphere(2), np.array([3e-9, -1e-300, -1.0])),
    (Sphere(2), np.array([1.0, 0.0, -0.0])),
    (Sphere(2), np.array([1.0, 0.0, -5e-324])),
    (Sphere(2), np.array([0.6, 0.8, 1e-200])),
    (Hyperbolic(2), np.array([math.cosh(25.0), math.sinh(25.0), 0.0])),
    (Hyperbolic(2), np.array([1.0, 1e-200, 0.0])),
    (SPD(3), np.diag([1e150, 1.0, 1e-150])),
    (SPD(3), turned([1.0, 1e-7, 1e-13])),
    (SPD(3), 1e-12 * np.eye(3)),
    (SPDLogEuclidean(3), np.eye(3)),
    (SPDLogEuclidean(3), turned([2.0, 2.0, 2.0])),
    (SPDLogEuclidean(3), turned([1.0, 1.0, 1e-13])),
    (SPDLogEuclidean(3), np.diag([1e15, 1.0, 1e-15])),
    (Grassmann(2, 5), np.eye(5)[:, 3:]),
    (Grassmann(2, 5), orthonormal([[1.0, 1e-16, 0.0, 0.0, 1e-17], [1e-17, 0.0, 0.0, 0.0, 1.0]])),
    (Grassmann(2, 4), orthonormal([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0]])),
    (Rotations(3), np.diag([-1.0, -1.0, 1.0])),
    (Rotations(4), -np.eye(4)),
    (PlanarShapes(4), 0.5 * np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])),
    (PlanarShapes(4), np.array([[1.0, 0.0], [-1.0, 0.0], [1e-17, 0.0], [0.0, 1e-200]]) / math.sqrt(2.0)),
]


@pytest.mark.parametrize(("manifold", "center"), NASTY, ids=lambda value: str(value) if isinstance(value, Manifold) else "")
def test_the_starting_precision_is_enough_at_nasty_centres(manifold: Manifold, center: Array) -> None:
    start = exact.starting_precision(manifold, scale(manifold))
    assert start >= 128
    source = exact.NotPrivate(1)
    for _ in range(60):
        draw = exact.sample(manifold, scale(manifold), center, entropy=source)
        assert draw.precision == start
        assert manifold.check_point(draw.value) is None


@pytest.mark.parametrize("side", [-1, 1])
def test_a_coordinate_next_to_a_rounding_boundary_is_rounded_right_however_close(side: int) -> None:
    """No largest precision: the draw is ``side * 2^-900`` away from the middle between two multiples of the grid."""
    exponent = exact.default_grid_exponent(Euclidean(1), 1.0)
    steps = 3 * 2**39
    with intervals.working_precision(4000):
        # on the line the radius is -log(1 - u), u the first number of the tape
        target = (steps + arb((1, -1))) * arb((1, exponent)) + side * arb((1, -900))
        position = (-(-target).expm1() * arb((1, 2000))).floor().unique_fmpz()
    assert position is not None
    # the numbers after it: acceptance, then length and angle of a normal variable (an angle near 0 is the positive direction)
    forced = {0: f"{int(position):02000b}", 1: "01", 2: "01", 3: "0001"}
    draw = exact.sample(Euclidean(1), 1.0, np.zeros(1), entropy=exact.NotPrivate(1, forced))
    assert draw.trials == 1
    assert draw.steps == (steps + (side > 0),)
    assert draw.precision >= 900


@pytest.mark.parametrize("side", [-1, 1])
def test_an_acceptance_on_the_brink_is_decided_right_however_close(side: int) -> None:
    manifold, sigma, bits = SPD(2), 0.8, 2000
    setting = exact._setting(manifold, sigma, "laplace", None)
    seed = 3  # its first radius is kept
    with intervals.working_precision(2 * bits):
        source = exact.NotPrivate(seed)
        law, tape = setting.law, exact.Tape(source)
        radius = law.roof().propose(law, tape)
        assert radius is not None
        v = [radius * x for x in exact._direction(manifold.dim, tape)]
        density = manifold.roots.exact_log_density(manifold.exact_radial_part(v))
        assert density is not None
        chance = (density - law.log_envelope(radius)).exp() + side * arb((1, -600))
        threshold = (chance * arb((1, bits))).floor().unique_fmpz()
        assert threshold is not None
    forced = {source.open(): f"{int(threshold):0{bits}b}"}
    draw = exact.sample(manifold, sigma, np.eye(2), entropy=exact.NotPrivate(seed, forced))
    assert (draw.trials == 1) == (side < 0)
    assert draw.trials > 1 or draw.precision >= 600


def test_a_number_on_a_rounding_boundary_is_never_decided() -> None:
    """Why rounding comes first: whatever makes atoms, such as projecting to a ball, would put numbers there."""
    for bits in (64, 256, 1024, 4096):
        with intervals.working_precision(bits):
            half = (arb(2).sqrt() * arb(2).sqrt() / 4) * arb((1, -40))
            with pytest.raises(intervals.Undecided):
                intervals.nearest(half, -40)


def test_uniform_numbers_keep_their_bits_and_enclose_them() -> None:
    number = Uniform(exact.NotPrivate(3))
    known = [number.ball(bits) for bits in (10, 64, 65, 500)]
    for wide, narrow in pairwise(known):
        assert wide.contains(narrow)
    assert known[0].rad() == arb((1, -11))
    ends = [exact.NotPrivate(3, {0: bit * 40}).read(0, 0, 40) for bit in "01"]
    assert ends == [0, 2**40 - 1]


# ---------------------------------------------------------------------- what is released


@every_manifold
def test_the_value_is_a_function_of_the_rounded_coordinates(manifold: Manifold) -> None:
    for seed, center in enumerate(centers(manifold, 4)):
        draw = exact.sample(manifold, scale(manifold), center, entropy=exact.NotPrivate(seed))
        assert len(draw.steps) == manifold.chart_size
        assert np.array_equal(manifold.from_chart(np.array(draw.steps) * draw.grid), draw.value)
        assert draw.value.shape == manifold.point_shape
        assert manifold.check_point(draw.value) is None


@every_manifold
def test_rounding_moves_a_draw_by_far_less_than_the_noise(manifold: Manifold) -> None:
    center = centers(manifold, 1)[0]
    coarse, fine = (
        exact.sample(manifold, scale(manifold), center, entropy=exact.NotPrivate(1), grid_exponent=exponent)
        for exponent in (None, -90)
    )
    assert manifold.dist(coarse.value, fine.value) < 1e-9 * scale(manifold)


EXTREMES: list[tuple[Manifold, float]] = [
    (SPD(3), 30.0), (SPD(3), 1e4), (SPD(8), 1e3), (SPDLogEuclidean(3), 30.0), (SPDLogEuclidean(3), 1e5), (Hyperbolic(2), 1e200),
    (Hyperbolic(2), 1e308), (Euclidean(2), 1e308),
]  # fmt: skip


@pytest.mark.parametrize(("manifold", "size"), EXTREMES, ids=str)
def test_every_list_of_rounded_coordinates_is_a_point(manifold: Manifold, size: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        x = size * rng.uniform(-1.0, 1.0, size=manifold.chart_size)
        assert manifold.check_point(manifold.from_chart(x)) is None


def test_draws_too_far_for_floats_are_still_points() -> None:
    source = exact.NotPrivate(1)
    for manifold, sigma in ((Hyperbolic(2), 0.998), (SPD(2), 1.4), (Hyperbolic(3), 0.4995)):
        for _ in range(3):
            assert manifold.check_point(exact.sample(manifold, sigma, manifold.origin, entropy=source).value) is None


def test_the_grid_is_public_and_has_a_limit() -> None:
    draw = exact.sample(Sphere(2), 0.1, [0.0, 0.0, 1.0], entropy=exact.NotPrivate(1), grid_exponent=-20)
    assert draw.grid == 2.0**-20
    assert abs(np.array(draw.steps) * 2.0**-20 - draw.value).max() < 2.0**-19
    with pytest.raises(ValueError, match=r"need a grid of 2\*\*-12 or finer"):
        exact.sample(Sphere(2), 0.1, [0.0, 0.0, 1.0], grid_exponent=0)


def swapped(seed: int, manifold: Manifold, one: Array, two: Array) -> bool:
    first, second = (exact.sample(manifold, 0.2, center, entropy=exact.NotPrivate(seed)) for center in (one, two))
    return first.steps == second.steps and np.array_equal(first.value, second.value)


@pytest.mark.parametrize("manifold", [Grassmann(1, 2), Grassmann(1, 4), Grassmann(2, 5), Grassmann(3, 7)], ids=str)
def test_the_basis_of_the_centre_does_not_show(manifold: Grassmann) -> None:
    rng = np.random.default_rng(1)
    nice = np.eye(manifold.m)[:, manifold.m - manifold.p :]
    for seed, center in enumerate([nice, manifold.origin, *centers(manifold, 4)]):
        signs = rng.choice([-1.0, 1.0], size=manifold.p)
        assert swapped(seed, manifold, center, -center)
        assert swapped(seed, manifold, center, (center * signs)[:, rng.permutation(manifold.p)])


@pytest.mark.parametrize("landmarks", [3, 4, 6])
def test_the_rotation_of_the_centre_does_not_show(landmarks: int) -> None:
    manifold = PlanarShapes(landmarks)
    quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])
    line = manifold.project(np.stack([np.arange(landmarks), np.zeros(landmarks)], axis=1))
    for seed, center in enumerate([line, manifold.origin, *centers(manifold, 4)]):
        assert swapped(seed, manifold, center, -center)
        assert swapped(seed, manifold, center, center @ quarter)


def test_size_and_place_of_the_floats_do_not_show() -> None:
    north = np.array([0.36, 0.48, 0.8])
    assert swapped(1, Sphere(2), north, north * (1 + 2.0**-30))
    shape = np.array([[0.5, 0.0], [-0.25, 0.25], [-0.25, -0.25], [0.0, 0.0]]) * math.sqrt(2.0)
    assert swapped(1, PlanarShapes(4), shape, shape + 2.0**-30)


# ---------------------------------------------------------------------- the attack on granularity


def fine_bits(values: Array) -> int:
    """How many draws on the sphere have a first coordinate with bits below ``2^-58``."""
    scaled = np.ldexp(values[:, 0], 58)
    return int((scaled != np.round(scaled)).sum())


def unreachable(values: Array) -> int:
    """How many matrices have an off-diagonal entry that is no float times ``exp(.025)``, rounded: a hole of the second centre."""
    factor = SPD(2).move_origin(ATTACKS[1][2], [[2.0, 0.5], [0.5, 2.0]])[0, 1] / 0.5
    entry = values[:, 0, 1]
    guess = entry / factor
    candidates = guess[:, None] + np.spacing(guess)[:, None] * np.arange(-3, 4)
    return int((candidates * factor != entry[:, None]).all(axis=1).sum())


def float_draw(manifold: Manifold, sigma: float, center: Array, size: int) -> Array:
    """The same sampler in floating point: at the origin, then moved. At so small a scale acceptance is all but certain."""
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(size, manifold.dim))
    directions /= np.linalg.vector_norm(directions, axis=1, keepdims=True)
    tangents = manifold.tangent(manifold.origin, directions * rng.gamma(manifold.dim, sigma, size=(size, 1)))
    return manifold.move_origin(center, manifold.exp(manifold.origin, tangents))


def exact_draw(manifold: Manifold, sigma: float, center: Array, size: int) -> Array:
    source = exact.NotPrivate(1)
    return np.array([exact.sample(manifold, sigma, center, entropy=source).value for _ in range(size)])


ATTACKS: list[tuple[Manifold, Array, Array, Callable[[Array], int]]] = [
    (Sphere(2), np.array([0.0, 0.0, 1.0]), np.array([math.sin(0.05), 0.0, math.cos(0.05)]), fine_bits),
    (SPD(2), np.eye(2), np.diag([math.exp(0.05), 1.0]), unreachable),
]


def proven_epsilon(first: int, second: int, size: int) -> float:
    """A lower bound on epsilon, right with probability ``1 - LEVEL``, from how often an event happened on either side."""
    low = stats.binomtest(first, size).proportion_ci(1.0 - LEVEL, method="exact").low
    high = stats.binomtest(second, size).proportion_ci(1.0 - LEVEL, method="exact").high
    return math.log(low / high) if low > 0.0 else 0.0


@pytest.mark.parametrize(
    ("manifold", "one", "two", "event", "draw", "leaks"),
    [
        pytest.param(*attack, draw, leaks, marks=pytest.mark.slow if draw is exact_draw else ())
        for attack in ATTACKS
        for draw, leaks in ((float_draw, True), (exact_draw, False))
    ],
    ids=lambda value: str(value) if isinstance(value, Manifold) else "leaks" if value is True else "",
)
def test_granularity_betrays_the_float_sampler_and_not_the_exact_one(
    manifold: Manifold,
    one: Array,
    two: Array,
    event: Callable[[Array], int],
    draw: Callable[[Manifold, float, Array, int], Array],
    leaks: bool,
) -> None:
    # centres 0.05 apart, sigma = 0.05: epsilon is claimed to be 1
    assert manifold.dist(one, two) == pytest.approx(0.05, rel=1e-12)
    size = 4000
    first, second = (event(draw(manifold, 0.05, center, size)) for center in (one, two))
    assert (max(proven_epsilon(first, second, size), proven_epsilon(second, first, size)) > 1.0) == leaks
    assert (min(first, second) == 0) == leaks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manifold", "one", "two"),
    [
        ATTACKS[0][:3],
        pytest.param(*ATTACKS[1][:3], marks=pytest.mark.slow),
    ],
    ids=["Sphere(2)", "SPD(2)"],
)
def test_rounded_coordinates_have_no_granularity_of_their_own(manifold: Manifold, one: Array, two: Array) -> None:
    """From both centres the lowest bits of the steps are fair: no pattern of bits belongs to one of them alone."""
    tests = []
    for center in (one, two):
        source = exact.NotPrivate(3)
        steps = np.array([exact.sample(manifold, 0.05, center, entropy=source).steps for _ in range(1500)])
        tests += [stats.chisquare(np.bincount(column % 8, minlength=8)).pvalue for column in steps.T]
    assert min(tests) > LEVEL / len(tests)


# ---------------------------------------------------------------------- the machine


def test_the_precision_of_the_caller_is_restored_also_after_an_error() -> None:
    before = ctx.prec
    exact.sample(Sphere(2), 0.1, [0.0, 0.0, 1.0])
    with pytest.raises(RuntimeError), intervals.working_precision(300):
        raise RuntimeError
    assert ctx.prec == before


def test_threads_do_not_disturb_each_other() -> None:
    def work(seed: int) -> tuple[int, ...]:
        return exact.sample(SPD(3), 0.1, np.eye(3), entropy=exact.NotPrivate(seed), precision=128 + 64 * seed).steps

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(24))) == [work(seed) for seed in range(24)]


def test_the_operating_system_never_repeats_itself() -> None:
    assert exact.sample(Sphere(2), 0.1, [0.0, 0.0, 1.0]).steps != exact.sample(Sphere(2), 0.1, [0.0, 0.0, 1.0]).steps


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork")
def test_a_forked_process_draws_on_its_own() -> None:
    script = """
        import os, threading, warnings
        from geodp import Sphere
        from geodp.arithmetic import intervals
        from geodp.noise import exact
        warnings.simplefilter("ignore")
        held = threading.Event()
        def hold():
            with intervals.working_precision(64):
                held.set()
                threading.Event().wait(1.0)
        threading.Thread(target=hold).start()
        held.wait()
        read, write = os.pipe()
        for _ in range(2):
            if os.fork() == 0:
                os.write(write, (repr(exact.sample(Sphere(2), 0.1, [0.0, 0.0, 1.0]).steps) + "\\n").encode())
                os._exit(0)
        os.wait(), os.wait()
        lines = os.read(read, 10000).decode().split("\\n")
        assert len(set(lines[:2])) == 2
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=600)


def test_errors_say_nothing_about_the_centre() -> None:
    secret = 0.123456789
    for center in ([secret, 0.0, 0.0], [secret, np.nan, 1.0]):
        with pytest.raises(ValueError, match=r"^center is not a point of Sphere\(2\)$"):
            exact.sample(Sphere(2), 0.1, center)
    with pytest.raises(ValueError, match="shape"):
        exact.sample(Sphere(2), 0.1, [secret, 0.0])


def test_a_matrix_that_only_floats_take_for_positive_definite_is_refused() -> None:
    # the Schur complement of this matrix is -2^-60, but rounds to a positive number on the way
    almost = np.array([[1.0, 1.0 + 2.0**-30], [1.0 + 2.0**-30, 1.0 + 2.0**-29]])
    assert not intervals.is_positive_definite(almost)
    assert intervals.is_positive_definite(np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]))
    if SPD(2).check_point(almost) is None:
        with pytest.raises(ValueError, match="not positive definite"):
            exact.sample(SPD(2), 0.1, almost)


def test_products_of_everything() -> None:
    manifold = Product(Euclidean(1), Product(SPD(2), Grassmann(2, 4)), PlanarShapes(3), Rotations(4), Sphere(1), Hyperbolic(2))
    draw = exact.sample(manifold, 0.05, manifold.origin, entropy=exact.NotPrivate(1))
    assert manifold.check_point(draw.value) is None


# ---------------------------------------------------------------------- time, as work that can be counted


def structured(manifold: Manifold) -> list[Array]:
    """Centres whose entries are mostly zeros and ones, on which arithmetic is quicker than on others."""
    found = [manifold.origin]
    match manifold:
        case SPD(k=k) | SPDLogEuclidean(k=k):
            found.append(np.diag(np.exp(np.linspace(-0.3, 0.4, k))))
        case Sphere(d=d):
            found.append(manifold.radius * np.eye(d + 1)[0])
        case Grassmann(p=p, m=m):
            found.append(np.eye(m)[:, m - p :])
        case PlanarShapes(landmarks=landmarks):
            found.append(manifold.project(np.eye(landmarks, 2) - np.eye(landmarks, 2, 1)[:, [1, 0]]))
    return found


def digits(value: object) -> int:
    """Binary digits of the numbers in a value."""
    if isinstance(value, arb):
        return value.bits()
    if isinstance(value, acb):
        return value.real.bits() + value.imag.bits()
    if isinstance(value, fmpq):
        return value.p.bit_length() + value.q.bit_length()
    return sum(map(digits, value)) if isinstance(value, list | tuple) else 0


def work(draw: Callable[[], object]) -> tuple[int, int]:
    """How many instructions of the interpreter a draw takes in this library, and the digits of all that its functions return."""
    steps = total = 0

    def inside(frame: FrameType, event: str, result: object) -> Callable[..., object]:
        nonlocal steps, total
        steps += event == "opcode"
        total += digits(result) if event == "return" else 0
        return inside

    def enter(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        if not frame.f_globals.get("__name__", "").startswith("geodp."):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return inside

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        draw()
    finally:
        sys.settrace(before)
    return steps, total


@pytest.mark.parametrize("manifold", [*MANIFOLDS, SPDLogEuclidean(6)], ids=str)
def test_a_draw_takes_the_same_work_whatever_its_centre(manifold: Manifold) -> None:
    """Zeros in the centre once saved 80% of the steps on SPDLogEuclidean(6), and half of the digits on Grassmann(2, 4)."""

    def draw(center: Array, seed: int) -> Callable[[], object]:
        return lambda: exact.sample(manifold, scale(manifold), center, entropy=exact.NotPrivate(seed))

    # Python 3.13 reports no instructions of the first traced call of a function, nor of the first after an untraced one
    generic, special = centers(manifold, 1)[0], structured(manifold)
    for seed in range(2):
        work(draw(generic, seed))  # fills caches
        steps, total = work(draw(generic, seed))
        for center in special:
            found, sizes = work(draw(center, seed))
            assert found == steps
            assert sizes > 0.8 * total


@every_manifold
def test_tangent_noise_takes_the_same_work_wherever_the_value_is(manifold: Manifold, monkeypatch: pytest.MonkeyPatch) -> None:
    """Next to the centre of the ball, logarithms of subspaces and shapes took a tenth of a millisecond more.

    What is done with the noisy coordinates depends on these alone, and is left out: Newton's method may take a step more.
    """
    ball = geodp.Ball(manifold, manifold.origin, min(3.0, 0.9 * geodp.Ball(manifold, manifold.origin, 1e-3).max_radius))
    mechanism = TangentMechanism(0.1, "gaussian", GaussianCost(1.0), ball)
    lengths = np.array([0.5, 0.5, 1e-4, 0.0, 0.99]) * ball.radius
    along = np.random.default_rng(1).normal(size=manifold.dim)
    values = mechanism._points_at(lengths[:, None] * along / np.linalg.vector_norm(along))
    mechanism.draw(values[0], exact.NotPrivate(1))  # fills caches
    monkeypatch.setattr(TangentMechanism, "finish", lambda self, drawn: drawn)
    steps = [work(lambda value=value: mechanism.draw(value, exact.NotPrivate(1)))[0] for value in values]
    assert max(steps[1:]) <= 1.02 * min(steps[1:])  # the first call fills caches
