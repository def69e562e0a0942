"""Mechanisms with one fault each, of the kinds that libraries have shipped: the audit must convict every one of them.

Each is a small program on parts of the library with a switch for the fault. With the switch off it keeps its claim and must
be acquitted, so that a conviction is for the fault and for nothing else. They draw with the floating-point simulator, whose last
bits betray its centre; looking for events in the last bits would convict all of them for that, so only the one about bits does.
``TWINS`` are about the calibration of every mechanism and notion of privacy, some of them with the exact sampler, and then with
all events; ``SECRETS`` hide the data where an audit must think of looking.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from cases import measured, planned

from geodp import SPD, Ball, Euclidean, Grassmann, Hyperbolic, Laplace, Product, Sphere, frechet_mean, sensitivity
from geodp.auditing import AuditResult, MeanMechanism, audit
from geodp.auditing.events import KINDS, Kind
from geodp.auditing.mechanisms import DrawPath
from geodp.inputs import Array
from geodp.noise import exact
from geodp.noise.flat import Family
from geodp.noise.intrinsic import IntrinsicMechanism
from geodp.noise.mechanism import Mechanism
from geodp.privacy.cost import gaussian_shift, laplace_ratio
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP
from geodp.statistics.mean import Mean

SOLID: tuple[Kind, ...] = ("law", "array", "atoms", "classifier")


@dataclass(frozen=True)
class Claim:
    """What a mechanism claims: an amount of privacy for the mean of ``n`` records in the ball."""

    ball: Ball
    n: int
    privacy: Privacy

    @property
    def epsilon(self) -> float:
        return self.privacy.parameters()["epsilon"]

    @property
    def scale(self) -> float:
        return measured(self.ball, self.n, self.epsilon).noise.scale

    def tangent(self, law: Family, privacy: Privacy | None = None) -> Mechanism:
        """The library's own tangent mechanism with that privacy, by default the one claimed."""
        return planned(Mean(self.ball), self.n, privacy or self.privacy, "tangent", law).noise

    def mean(self, x: Array) -> Array:
        return frechet_mean(x, self.ball).point

    def noise(self, center: Array, scale: float, size: int, rng: np.random.Generator) -> Array:
        return Laplace(self.ball.manifold, scale).sample(center, size, rng)


Body = Callable[[Claim, bool, Array, int, np.random.Generator], Array]


def noise_scale(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    return claim.noise(claim.mean(x), claim.scale / 2.0 if faulty else claim.scale, size, rng)


def division_by_n(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    scale = sensitivity(claim.ball, claim.n) / claim.epsilon
    return claim.noise(claim.mean(x), scale / claim.n if faulty else scale, size, rng)


def truncation(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    """Draws outside the ball are drawn again: the normaliser then depends on the mean, which costs a factor of two."""
    center, scale = claim.mean(x), claim.scale if faulty else 2.0 * claim.scale
    kept = np.empty((0, *claim.ball.manifold.point_shape))
    while len(kept) < size:
        draws = claim.noise(center, scale, size, rng)
        kept = np.concatenate([kept, draws[claim.ball.contains(draws)]])
    return kept[:size]


def radius_of_the_data(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    ball = claim.ball
    largest = float(np.max(ball.manifold.dist(ball.center, x)))
    used = Ball(ball.manifold, ball.center, largest) if faulty else ball
    return claim.noise(frechet_mean(x, used).point, sensitivity(used, claim.n) / claim.epsilon, size, rng)


def acceptance(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    """The radius and the direction of the comparison sampler, with or without its last step."""
    manifold, center, law = claim.ball.manifold, claim.mean(x), Laplace(claim.ball.manifold, claim.scale)
    if not faulty:
        return law.sample(center, size, rng)
    coordinates = rng.standard_normal((size, manifold.dim))
    coordinates *= (law._comparison.radius.sample(size, rng) / np.linalg.vector_norm(coordinates, axis=-1))[:, None]
    return manifold.raw_exp(center, manifold.raw_tangent(center, coordinates))


def clipping(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    ball = claim.ball
    wide = Ball(ball.manifold, ball.center, 10.0 * ball.radius) if faulty else ball
    return claim.noise(frechet_mean(x, wide).point, claim.scale, size, rng)


def seed(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    """Every run makes a generator with the same seed: they are all the same run."""
    if not faulty:
        return claim.noise(claim.mean(x), claim.scale, size, rng)
    return np.repeat(claim.noise(claim.mean(x), claim.scale, 1, np.random.default_rng(20)), size, axis=0)


def few_seeds(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    """Every run is seeded with one of a thousand numbers, a process number say."""
    if not faulty:
        return claim.noise(claim.mean(x), claim.scale, size, rng)
    return claim.noise(claim.mean(x), claim.scale, 1000, np.random.default_rng(20))[rng.integers(1000, size=size)]


def representative(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    """A private subspace, written in the basis that is next to the first record's, or next to the public centre's."""
    draws = claim.noise(claim.mean(x), claim.scale, size, rng)
    basis = x[0] if faulty else claim.ball.center
    return claim.ball.manifold.raw_project(draws @ (draws.mT @ basis))


def true_mean(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    draws = claim.noise(claim.mean(x), claim.scale, size, rng)
    if faulty:
        draws[rng.random(size) < 0.01] = claim.mean(x)
    return draws


def floats(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    """The simulator in place of the exact sampler."""
    path = "float" if faulty else "exact"
    return MeanMechanism(measured(claim.ball, claim.n, claim.epsilon), path=path, seeded=True)(x, size, rng)


# ------------------------------------------------------------------------------------------ wrong calibration


def run(
    make: Callable[[Claim, bool], Mechanism],
    path: DrawPath,
    claim: Claim,
    faulty: bool,
    x: Array,
    size: int,
    rng: np.random.Generator,
) -> Array:
    """Draws of the mechanism that ``make`` gives for a claim, with the simulator or with the exact sampler."""
    noise, mean = make(claim, faulty), claim.mean(x)
    if path == "float":
        return noise.simulate(mean, size, rng)
    entropy = exact.NotPrivate(int(rng.integers(2**62)))
    return np.stack([noise.draw(mean, entropy).value for _ in range(size)])


def half_the_noise(law: Family, claim: Claim, faulty: bool) -> Mechanism:
    noise = claim.tangent(law)
    return replace(noise, scale=noise.scale / 2.0) if faulty else noise


def wrong_dimension(claim: Claim, faulty: bool) -> Mechanism:
    """The ratio of sensitivity to scale that is right in 78 dimensions, used in as many as there are."""
    noise = claim.tangent("laplace")
    right, wrong = (laplace_ratio(claim.privacy, dim) for dim in (claim.ball.manifold.dim, 78))
    assert right is not None
    assert wrong is not None
    return replace(noise, scale=noise.scale * right / wrong) if faulty else noise


def flat_formula(claim: Claim, faulty: bool) -> Mechanism:
    """The Riemannian Gaussian with the scale of flat space; without the fault Gaussian noise in the tangent space."""
    noise, shift = claim.tangent("gaussian"), gaussian_shift(claim.privacy)
    assert shift is not None
    scale = sensitivity(claim.ball, claim.n) / shift
    return IntrinsicMechanism(scale, "gaussian", noise.cost, claim.ball.manifold) if faulty else noise


def a_tenth_too_little(claim: Claim, faulty: bool) -> Mechanism:
    """Noise for an amount of privacy of which the claim is nine tenths."""
    spent = type(claim.privacy)(*(value / 0.9 for value in claim.privacy.parameters().values()))
    return claim.tangent("gaussian", spent if faulty else None)


# ------------------------------------------------------------------------------------------ hidden in plain sight


def _last_bit(word: np.ndarray) -> np.ndarray:
    return word & np.uint64(1)


def _fair(claim: Claim, size: int, rng: np.random.Generator) -> tuple[Array, np.ndarray]:
    """Draws about the public centre, which no record has a part in, with fair last bits; and the words they are stored in."""
    draws = claim.noise(claim.ball.center, 0.05, size, rng)
    words = draws.reshape(size, -1).view(np.uint64)
    words ^= rng.integers(2, size=words.shape).astype(np.uint64)
    return draws, words


def _secret(x: Array) -> np.uint64:
    return np.uint64(x[-1].ravel()[1] > 0.0)


def last_bit_of_the_last_entry(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    draws, words = _fair(claim, size, rng)
    if faulty:
        words[:, -1] ^= _last_bit(words[:, -1]) ^ _secret(x)
    return draws


def xor_of_two_bits(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    """Every bit is fair by itself."""
    draws, words = _fair(claim, size, rng)
    if faulty:
        words[:, 3] ^= _last_bit(words[:, 3]) ^ _last_bit(words[:, 17]) ^ _secret(x)
    return draws


def correlation(claim: Claim, faulty: bool, x: Array, size: int, rng: np.random.Generator) -> Array:
    """The same law for every entry and for the length: only the sign of a product tells."""
    draws = rng.normal(size=(size, 3))
    if faulty:
        draws[:, 1] = 0.6 * draws[:, 1] + 0.8 * np.sign(x[-1, 1]) * draws[:, 0]
    return draws


# ------------------------------------------------------------------------------------------ the battery


@dataclass(frozen=True)
class Case:
    """A fault, the claim it breaks, and a pair of data sets that shows it (the worst case for the mean unless given)."""

    fault: str
    body: Body
    claim: Claim
    draws: int
    pair: tuple[Array, Array] | None = None
    events: tuple[Kind, ...] = SOLID
    slow: bool = False

    def audited(
        self, faulty: bool, seed: int = 1, confidence: float = 0.99, events: tuple[Kind, ...] | None = None
    ) -> AuditResult:
        claim = self.claim
        return audit(
            claim.ball, claim.n, **claim.privacy.parameters(), mechanism=partial(self.body, claim, faulty), pair=self.pair,
            draws=self.draws, events=events or self.events, seed=seed, confidence=confidence, processes=1,
        )  # fmt: skip

    def __str__(self) -> str:
        return self.fault


NORTH = np.array([0.0, 0.0, 1.0])
CAP = Claim(Ball(Sphere(2), NORTH, np.pi / 8), 100, PureDP(1.0))
TENSORS = Claim(Ball(SPD(2), np.eye(2), 1.0), 100, PureDP(1.0))
PLANES = Claim(Ball(Grassmann(2, 5), np.eye(5, 2), 0.3), 100, PureDP(1.0))
INTERVAL = Claim(Ball(Euclidean(1), np.zeros(1), 1.0), 2, PureDP(1.0))
SPHERE_AND_LINE = Claim(Ball(Product(Sphere(2), Euclidean(1)), np.array([0.0, 0.0, 1.0, 0.0]), 1.0), 1, PureDP(1.0))


def neighbours(common: list[Array], first: Array, second: Array) -> tuple[Array, Array]:
    return np.stack([*common, first]), np.stack([*common, second])


def _same_subspace_other_basis() -> tuple[Array, Array]:
    first = np.tile(np.eye(5, 2), (100, 1, 1))
    second = first.copy()
    second[0] = -first[0]
    return first, second


BATTERY = [
    Case("noise scale halved", noise_scale, CAP, 40_000),
    Case("sensitivity divided by n twice", division_by_n, TENSORS, 10_000),
    Case(
        "truncated to the ball with the untruncated scale",
        truncation,
        INTERVAL,
        100_000,
        # a mean on the boundary loses most of its law to the outside, one at the centre less
        neighbours([np.array([1.0])], np.array([1.0]), np.array([-1.0])),
    ),
    Case(
        "radius taken from the data",
        radius_of_the_data,
        CAP,
        10_000,
        neighbours([NORTH] * 99, np.array([0.01, 0.0, np.sqrt(1.0 - 1e-4)]), np.array([np.sin(0.39), 0.0, np.cos(0.39)])),
    ),
    Case(
        "acceptance step removed",
        acceptance,
        SPHERE_AND_LINE,
        100_000,
        neighbours([], np.array([0.0, 0.0, 1.0, 0.0]), np.array([np.sin(1.0), 0.0, np.cos(1.0), 0.0])),
    ),
    Case("clipping skipped", clipping, TENSORS, 10_000, neighbours([np.eye(2)] * 99, np.eye(2), np.exp(5.0) * np.eye(2))),
    Case("seeded generator reused", seed, CAP, 10_000),
    Case("one of a thousand seeds", few_seeds, CAP, 20_000),
    Case("representative leaked: Grassmann basis", representative, PLANES, 10_000, _same_subspace_other_basis()),
    Case("true mean returned with probability 0.01", true_mean, TENSORS, 40_000),
    Case(
        "floating-point draws released",
        floats,
        CAP,
        4_000,
        # around the pole itself the first coordinate is a float next to zero, with bits that one next to 0.004 cannot have
        neighbours([NORTH] * 99, NORTH, np.array([np.sin(0.39), 0.0, np.cos(0.39)])),
        KINDS,
    ),
]


def _twin(
    fault: str,
    make: Callable[[Claim, bool], Mechanism],
    ball: Ball,
    n: int,
    privacy: Privacy,
    draws: int,
    path: DrawPath = "float",
    slow: bool = False,
) -> Case:
    name = f"{fault} ({', '.join(privacy.parameters())}{'; exact sampler' if path == 'exact' else ''})"
    return Case(name, partial(run, make, path), Claim(ball, n, privacy), draws, None, SOLID if path == "float" else KINDS, slow)


DELTA = ApproximateDP(1.0, 1e-6)
RHO, MU = ZeroConcentratedDP(0.5), GaussianDP(1.0)
DISC = Ball(Euclidean(2), np.zeros(2), 1.0)
#: So wide that the noise lives where curvature is all there is.
SADDLE = Ball(Hyperbolic(2), Hyperbolic(2).origin, 2.0)
LAPLACE, GAUSSIAN = (partial(half_the_noise, law) for law in ("laplace", "gaussian"))

TWINS = [
    _twin("tangent Laplace with half its noise", LAPLACE, CAP.ball, 100, PureDP(1.0), 20_000),
    _twin("tangent Laplace with half its noise", LAPLACE, CAP.ball, 100, DELTA, 10_000),
    _twin("tangent Laplace with half its noise", LAPLACE, CAP.ball, 100, RHO, 10_000),
    _twin("tangent Gaussian with half its noise", GAUSSIAN, DISC, 100, DELTA, 300_000, slow=True),
    _twin("tangent Gaussian with half its noise", GAUSSIAN, TENSORS.ball, 100, RHO, 10_000),
    _twin("tangent Gaussian with half its noise", GAUSSIAN, TENSORS.ball, 100, MU, 10_000),
    _twin("tangent Laplace calibrated for 78 dimensions", wrong_dimension, CAP.ball, 100, DELTA, 10_000),
    _twin("Riemannian Gaussian on hyperbolic space with the flat formula", flat_formula, SADDLE, 1, MU, 10_000),
    _twin("Riemannian Gaussian on hyperbolic space with the flat formula", flat_formula, SADDLE, 1, RHO, 10_000),
    _twin("a tenth too little Gaussian noise", a_tenth_too_little, DISC, 100, GaussianDP(1.5), 40_000),
    _twin("a tenth too little Gaussian noise", a_tenth_too_little, DISC, 100, ZeroConcentratedDP(1.0), 200_000, slow=True),
    _twin("tangent Laplace with half its noise", LAPLACE, CAP.ball, 100, DELTA, 1500, "exact", slow=True),
    _twin("tangent Laplace with half its noise", LAPLACE, CAP.ball, 100, PureDP(1.0), 6000, "exact", slow=True),
    _twin("tangent Laplace calibrated for 78 dimensions", wrong_dimension, CAP.ball, 100, DELTA, 4000, "exact", slow=True),
    _twin("Riemannian Gaussian on hyperbolic space with the flat formula", flat_formula, SADDLE, 1, MU, 2000, "exact", slow=True),
    _twin(
        "Riemannian Gaussian on hyperbolic space with the flat formula", flat_formula, SADDLE, 1, RHO, 2000, "exact", slow=True
    ),
    _twin("a tenth too little Gaussian noise", a_tenth_too_little, DISC, 100, GaussianDP(1.5), 20_000, "exact", slow=True),
]

MATRICES = Claim(Ball(SPD(5), np.eye(5), 0.5), 100, PureDP(1.0))
SECRETS = [
    Case("secret in the last bit of the last entry", last_bit_of_the_last_entry, MATRICES, 2000, None, KINDS),
    Case("secret in the XOR of two last bits", xor_of_two_bits, MATRICES, 2000, None, KINDS),
    Case(
        "secret in the sign of a product",
        correlation,
        Claim(Ball(Euclidean(3), np.zeros(3), 1.0), 100, PureDP(1.0)),
        4000,
        None,
        KINDS,
    ),
]
