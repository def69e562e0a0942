"""``check_manifold`` notices a mistake in every number that privacy rests on: of 10% and of 100%, in either direction.

Every test plants one mistake in a manifold that is right; that it is right, `test_manifolds.py` says. Mistakes of 10%, which are
harder to notice, are in the normal suite, the larger ones behind the marker. Nothing is random but the last test, whose false
alarms are one in a million and whose power is stated there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cases import MANIFOLDS, ONE_OF_EACH, every_manifold, longer

from geodp import (
    HPD,
    SPD,
    Correlation,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Manifold,
    PlanarShapes,
    Product,
    Rotations,
    Simplex,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Torus,
    testing,
)
from geodp.manifolds import FlatChart, Requirement, VolumeBound
from geodp.manifolds.roots import Roots
from geodp.noise import exact
from geodp.testing import SLOW_PROPERTIES, check_manifold

WRONG = [0.0, 0.5, 0.9, 1.1, 2.0]
CURVED = [Sphere(2), Sphere(3, curvature=0.3), Grassmann(2, 5), Rotations(4), PlanarShapes(4), Product(Sphere(2), Euclidean(3))]
LARGE = [Rotations(4), Grassmann(2, 5), Product(SPD(2), Sphere(1), Rotations(3))]
OPEN = [Hyperbolic(3), SPD(3), HPD(2), Product(SPD(2), Sphere(1), Rotations(3))]


def mistaken(monkeypatch: pytest.MonkeyPatch, manifold: Manifold, name: str, value: object) -> None:
    monkeypatch.setattr(type(manifold), name, property(lambda self: value))


def is_noticed(manifold: Manifold, holds: Callable[[Manifold], None], match: str | None = None) -> bool:
    """By this property, which ``check_manifold`` has."""
    assert holds in testing.PROPERTIES
    with pytest.raises(AssertionError, match=match):
        holds(manifold)
    return True


def times(manifolds: list[Manifold], factors: list[float], names: list[str]) -> pytest.MarkDecorator:
    cases = [
        pytest.param(manifold, name, factor, marks=() if is_small(factor) and manifold not in LARGE else pytest.mark.slow)
        for manifold in manifolds
        for name in names
        for factor in factors
    ]
    return pytest.mark.parametrize(("manifold", "name", "factor"), cases, ids=str)


def is_small(factor: float) -> bool:
    """Whether a number that is wrong by this factor is wrong by a tenth or a fifth only."""
    return 0.8 <= factor <= 1.25


def factors(*wrong: float) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("factor", longer(wrong, filter(is_small, wrong)))


# ---------------------------------------------------------------------- numbers


@times(CURVED, WRONG, ["curvature"])
def test_a_wrong_curvature_is_noticed(manifold, name, factor, monkeypatch):
    mistaken(monkeypatch, manifold, name, factor * manifold.curvature)
    assert is_noticed(manifold, testing.curvature_bounds_are_the_extreme_curvatures_of_planes)


@times(OPEN, WRONG, ["lowest_curvature", "volume_entropy"])
def test_a_wrong_lowest_curvature_or_growth_of_volume_is_noticed(manifold, name, factor, monkeypatch):
    mistaken(monkeypatch, manifold, name, factor * getattr(manifold, name))
    bounds, growth = (
        testing.curvature_bounds_are_the_extreme_curvatures_of_planes,
        testing.volume_entropy_is_the_fastest_growth_of_the_volume_density,
    )
    assert is_noticed(manifold, bounds if name == "lowest_curvature" else growth, name)


def test_curvature_where_there_is_none_is_noticed(monkeypatch):
    for manifold in (Euclidean(3), SPD(2), Torus(2)):
        with monkeypatch.context() as patch:
            mistaken(patch, manifold, "curvature", 0.1)
            assert is_noticed(manifold, testing.curvature_bounds_are_the_extreme_curvatures_of_planes, "curvature is 0.1")
    mistaken(monkeypatch, Torus(2), "volume_entropy", 0.1)
    assert is_noticed(Torus(2), testing.volume_entropy_is_the_fastest_growth_of_the_volume_density, "volume_entropy is 0.1")


@times([*CURVED[:5], Sphere(1), Torus(3)], WRONG[1:], ["injectivity_radius", "diameter"])
def test_a_wrong_injectivity_radius_or_diameter_is_noticed(manifold, name, factor, monkeypatch):
    mistaken(monkeypatch, manifold, name, factor * getattr(manifold, name))
    assert is_noticed(manifold, testing.injectivity_radius_and_diameter_are_the_extreme_cut_times, name.replace("_", " "))


@pytest.mark.parametrize("manifold", [Sphere(2), Torus(2), Rotations(3)], ids=repr)
def test_a_compact_space_that_claims_to_be_infinite_is_noticed(manifold, monkeypatch):
    mistaken(monkeypatch, manifold, "injectivity_radius", np.inf)
    assert is_noticed(manifold, testing.injectivity_radius_and_diameter_are_the_extreme_cut_times, "is infinite")


@pytest.mark.parametrize("wrong", [1, 2, 4])
def test_a_wrong_rank_is_noticed(wrong, monkeypatch):
    mistaken(monkeypatch, SPD(3), "rank", wrong)
    assert is_noticed(SPD(3), testing.roots_are_the_spectrum_of_the_curvature_operator, "the rank is")


# ---------------------------------------------------------------------- roots


def scaled(roots: Roots, factor: float) -> Roots:
    return replace(roots, squares=tuple(square * Fraction(factor) for square in roots.squares))


@factors(0.5, 0.8, 0.9, 1.1, 1.2, 2.0)
@pytest.mark.parametrize("manifold", [*CURVED[:5], *OPEN[:3]], ids=repr)
def test_roots_of_the_wrong_length_are_noticed(manifold, factor, monkeypatch):
    mistaken(monkeypatch, manifold, "roots", scaled(manifold.roots, factor))
    assert is_noticed(manifold, testing.roots_are_the_spectrum_of_the_curvature_operator)


@pytest.mark.parametrize("manifold", [*CURVED[:5], *OPEN[:3]], ids=repr)
def test_roots_of_the_wrong_sign_or_multiplicity_are_noticed(manifold, monkeypatch):
    right = manifold.roots
    with monkeypatch.context() as patch:
        mistaken(patch, manifold, "roots", replace(right, signs=-right.signs))
        assert is_noticed(manifold, testing.roots_are_the_spectrum_of_the_curvature_operator)
    for multiplicities in (right.multiplicities + 1, 2 * right.multiplicities):
        with monkeypatch.context() as patch:
            mistaken(patch, manifold, "roots", replace(right, multiplicities=multiplicities))
            # the dimension is another, so that not even the arrays fit
            with pytest.raises((AssertionError, ValueError)):
                check_manifold(manifold)


@factors(0.5, 0.81, 1.21, 2.0)
@pytest.mark.parametrize("manifold", longer([*CURVED[:5], Torus(3)], [CURVED[0], CURVED[4], Torus(3)]), ids=repr)
def test_a_cut_locus_in_the_wrong_place_is_noticed(manifold, factor, monkeypatch):
    right = manifold.roots
    mistaken(monkeypatch, manifold, "roots", replace(right, cuts=tuple(cut and cut * Fraction(factor) for cut in right.cuts)))
    assert is_noticed(manifold, testing.injectivity_radius_and_diameter_are_the_extreme_cut_times)
    assert is_noticed(manifold, testing.the_exact_sampler_has_the_geometry_of_the_manifold)


def test_a_rank_one_space_with_two_lengths_of_roots_given_one_is_noticed(monkeypatch):
    """The mistake that once passed: dimension, diameter and curvature of complex projective space, and a wrong sampler."""
    right = PlanarShapes(4).roots
    mistaken(monkeypatch, PlanarShapes(4), "roots", Roots.of([[1]], [3], sign=1, cut=right.cuts[0]))
    mistaken(monkeypatch, PlanarShapes(4), "curvature", 4.0)
    assert is_noticed(PlanarShapes(4), testing.roots_are_the_spectrum_of_the_curvature_operator)
    assert is_noticed(PlanarShapes(4), testing.the_exact_sampler_has_the_geometry_of_the_manifold)


# ---------------------------------------------------------------------- volume


@factors(0.0, 0.5, 0.9, 1.1, 2.0)
@pytest.mark.parametrize("manifold", [Sphere(3), Grassmann(2, 4), SPD(3), PlanarShapes(4)], ids=repr)
def test_a_wrong_volume_density_is_noticed(manifold, factor, monkeypatch):
    right = type(manifold).raw_log_volume_density
    monkeypatch.setattr(type(manifold), "raw_log_volume_density", lambda self, p, v: factor * right(self, p, v))
    assert is_noticed(manifold, testing.log_volume_density_is_the_logarithm_of_the_jacobian_determinant_of_exp)


@pytest.mark.parametrize("factor", longer(WRONG, [0.9, 1.1]))
@pytest.mark.parametrize("manifold", [Grassmann(2, 4), Rotations(4)], ids=repr)
def test_a_volume_density_that_is_wrong_past_the_injectivity_radius_alone_is_noticed(manifold, factor, monkeypatch):
    """Of 10% by differences of ``exp``; half or twice as much also by what another point sees of all the volume."""
    right = type(manifold).raw_log_volume_density

    def wrong(self, p, v):
        density = right(self, p, v)
        scaled = np.where(density == -np.inf, -np.inf, factor * np.maximum(density, -1e300))
        return np.where(self.raw_norm(p, v) > self.injectivity_radius, scaled, density)

    monkeypatch.setattr(type(manifold), "raw_log_volume_density", wrong)
    assert is_noticed(manifold, testing.log_volume_density_is_the_logarithm_of_the_jacobian_determinant_of_exp)
    if not 0.8 < factor < 1.2:
        assert is_noticed(manifold, testing.volume_is_the_same_seen_from_every_point, "times itself")


@pytest.mark.parametrize("factor", longer([0.5, 2.0], [2.0]))
@pytest.mark.parametrize("manifold", [Sphere(2), Grassmann(2, 4), Rotations(4), PlanarShapes(4), Torus(2)], ids=repr)
def test_volume_that_is_missing_or_there_twice_is_noticed(manifold, factor, monkeypatch):
    """Cut loci that are too near or too far, against distances alone; past conjugate points there is nothing to count twice."""
    right = manifold.roots
    testing.volume_is_the_same_seen_from_every_point(manifold)
    mistaken(monkeypatch, manifold, "roots", replace(right, cuts=tuple(cut and cut * Fraction(factor) for cut in right.cuts)))
    if factor < 1.0 or not len(right.forms):
        assert is_noticed(manifold, testing.volume_is_the_same_seen_from_every_point, "times itself")


@factors(0.5, 0.9, 1.1, 2.0)
@pytest.mark.parametrize("manifold", [Sphere(3), Hyperbolic(3), Grassmann(2, 4), SPD(3), PlanarShapes(4)], ids=repr)
def test_a_bound_that_the_density_exceeds_or_that_is_no_density_where_it_should_be_is_noticed(manifold, factor, monkeypatch):
    bound = manifold.volume_bound
    factors = tuple(each._replace(square_rate=each.square_rate * Fraction(factor)) for each in bound.factors)
    too_low = factor > 1.0 if bound.factors[0].sign > 0 else factor < 1.0
    if too_low or manifold.roots.isotropic:
        mistaken(monkeypatch, manifold, "volume_bound", VolumeBound(factors, 2.0 * bound.growth))
        assert is_noticed(manifold, testing.volume_bound_bounds_the_volume_density)


# ---------------------------------------------------------------------- rounding and points

every_small_manifold = pytest.mark.parametrize("manifold", longer([m for m in MANIFOLDS if m.dim < 10], ONE_OF_EACH), ids=repr)


@pytest.mark.parametrize("factor", longer([0.0, 1e-14, 1e-5], [1e-5]))
@every_manifold
def test_a_rounding_bound_below_what_floats_can_know_is_noticed(manifold, factor, monkeypatch):
    """The bounds are generous: a hundred-thousandth of one is below what is seen, on every manifold of the library."""
    right, in_ball, reading = type(manifold).log_rounding, type(manifold).log_rounding_in_ball, type(manifold).reading_rounding
    monkeypatch.setattr(type(manifold), "reading_rounding", lambda self, x: factor * reading(self, x))
    with monkeypatch.context() as patch:
        patch.setattr(type(manifold), "log_rounding", lambda self, p, reach: factor * right(self, p, reach))
        assert is_noticed(manifold, testing.log_rounding_covers_the_last_bits_of_its_arguments, "log_rounding is")
    if any(isinstance(part, FlatChart) and part.keeps_coordinates for part in manifold.components):
        return  # its bound in balls is about coordinates, which have no last bits: see the next test
    monkeypatch.setattr(
        type(manifold), "log_rounding_in_ball", lambda self, center, radius: factor * in_ball(self, center, radius)
    )
    assert is_noticed(manifold, testing.log_rounding_covers_the_last_bits_of_its_arguments, "log_rounding_in_ball is")


@pytest.mark.parametrize("factor", longer([0.0, 0.0005], [0.0005]))
@every_small_manifold
def test_a_rounding_bound_below_the_errors_of_log_is_noticed(manifold, factor, monkeypatch):
    """Errors are hundredths of the bounds, or thousandths on some spaces: a two-thousandth of a bound is below them."""
    right, in_ball = type(manifold).log_rounding, type(manifold).log_rounding_in_ball
    holds = testing.log_rounding_covers_the_error_of_log
    with monkeypatch.context() as patch:
        patch.setattr(type(manifold), "log_rounding", lambda self, p, reach: factor * right(self, p, reach))
        assert is_noticed(manifold, holds, "log_rounding is")
    monkeypatch.setattr(
        type(manifold), "log_rounding_in_ball", lambda self, center, radius: factor * in_ball(self, center, radius)
    )
    assert is_noticed(manifold, holds, "log_rounding_in_ball is")


CHARTS = [SPDLogEuclidean(2), SPDLogCholesky(2), Correlation(3), Simplex(3)]
#: Maps of a chart whose result is wrong, or one of whose arguments is.
MAPS = [
    *[(name, None) for name in ("raw_chart", "raw_difference", "raw_log", "raw_coordinates", "exact_coordinates")],
    *[("raw_inverse", 0), ("raw_keep", 0), ("raw_tangent", 1), ("from_chart", 0)],
]


@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize(("name", "argument"), MAPS)
@pytest.mark.parametrize("manifold", longer(CHARTS, CHARTS[2:]), ids=repr)
def test_a_chart_that_is_wrong_by_a_tenth_in_any_map_is_noticed(manifold, name, argument, factor, monkeypatch):
    if name == "raw_keep" and not manifold.keeps_coordinates:
        pytest.skip("keeps points as they are")
    right = getattr(type(manifold), name)

    def wrong(self, *arguments):
        if argument is not None:
            return right(self, *(factor * x if i == argument else x for i, x in enumerate(arguments)))
        found = right(self, *arguments)
        return [x * factor for x in found] if isinstance(found, list) else factor * found

    monkeypatch.setattr(type(manifold), name, wrong)
    with pytest.raises(AssertionError, match="on " + re.escape(repr(manifold))):
        check_manifold(manifold)


@pytest.mark.parametrize("manifold", CHARTS, ids=repr)
def test_a_bound_on_the_rounding_of_a_chart_that_is_much_too_small_is_noticed(manifold, monkeypatch):
    right, reading = type(manifold).log_rounding, type(manifold).reading_rounding
    monkeypatch.setattr(type(manifold), "log_rounding", lambda self, p, reach: 1e-4 * right(self, p, reach))
    monkeypatch.setattr(type(manifold), "reading_rounding", lambda self, x: 1e-4 * reading(self, x))
    assert is_noticed(manifold, testing.reading_rounding_covers_the_error_of_the_chart, "the chart errs by")


@pytest.mark.parametrize("factor", [0.0, 0.3])
@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), HPD(2)], ids=repr)
def test_a_reach_of_rounding_that_is_too_small_is_noticed(manifold, factor, monkeypatch):
    """A record that counts as if it were nearer than it is: the bound grows exponentially with the distance."""
    right = type(manifold).rounding_reach
    monkeypatch.setattr(type(manifold), "rounding_reach", lambda self, p, v: factor * right(self, p, v))
    assert is_noticed(manifold, testing.log_rounding_covers_the_error_of_log, "log_rounding is")


@every_small_manifold
def test_a_logarithm_that_loses_four_digits_is_noticed(manifold, monkeypatch):
    """Of sixteen; the other properties allow for five."""
    right = type(manifold).raw_log
    monkeypatch.setattr(type(manifold), "raw_log", lambda self, p, q: (1.0 + 3e-12) * right(self, p, q))
    testing.log_inverts_exp_inside_the_injectivity_radius(manifold)
    assert is_noticed(manifold, testing.log_rounding_covers_the_error_of_log, "log_rounding is")


@pytest.mark.parametrize("manifold", [m for m in MANIFOLDS if not isinstance(m, Euclidean)], ids=repr)
def test_requirements_that_ask_for_nothing_are_noticed(manifold, monkeypatch):
    monkeypatch.setattr(type(manifold), "requirements", lambda self, x: iter(()))
    assert is_noticed(manifold, testing.requirements_accept_points_and_nothing_else)


@pytest.mark.parametrize(
    "manifold", [Sphere(2), PlanarShapes(4), Rotations(3), Grassmann(2, 5), Hyperbolic(2), Torus(2)], ids=repr
)
def test_requirements_that_are_met_by_what_is_ten_per_cent_off_are_noticed(manifold, monkeypatch):
    def loose(self, x):
        with np.errstate(all="ignore"):
            off = np.abs(self.raw_project(x) - x).max(axis=tuple(range(x.ndim - len(self.point_shape), x.ndim)))
        yield Requirement(np.asarray(off <= 0.1), off, "off by {}")

    monkeypatch.setattr(type(manifold), "requirements", loose)
    assert is_noticed(manifold, testing.requirements_accept_points_and_nothing_else, "taken for a point")


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.9, 1.1, 2.0])
@pytest.mark.parametrize("manifold", longer(ONE_OF_EACH, ONE_OF_EACH[:4]), ids=repr)
def test_an_isometry_that_moves_the_origin_too_far_or_not_far_enough_is_noticed(manifold, factor, monkeypatch):
    right = type(manifold).raw_move_origin

    def wrong(self, p, x):
        return right(self, self.raw_exp(self.origin, factor * self.raw_log(self.origin, p)), x)

    monkeypatch.setattr(type(manifold), "raw_move_origin", wrong)
    assert is_noticed(manifold, testing.move_origin_is_an_isometry_that_takes_the_origin_to_the_point)


def test_an_isometry_that_is_none_is_noticed(monkeypatch):
    right = Sphere.raw_move_origin
    stretch = np.array([1.0, 1.1, 1.0])
    monkeypatch.setattr(Sphere, "raw_move_origin", lambda self, p, x: self.raw_project(right(self, p, stretch * x)))
    assert is_noticed(Sphere(2), testing.move_origin_is_an_isometry_that_takes_the_origin_to_the_point)


# ---------------------------------------------------------------------- the embedding

EMBEDDED = [Sphere(2), Sphere(3, curvature=0.3), Grassmann(2, 5), Rotations(4), PlanarShapes(4), Torus(3),
            Product(Sphere(2), Rotations(3))]  # fmt: skip


def misplaced(monkeypatch: pytest.MonkeyPatch, manifold: Manifold, **wrong: object) -> bool:
    mistaken(monkeypatch, manifold, "embedding", replace(manifold.embedding, **wrong))
    return is_noticed(manifold, testing.the_embedding_has_the_diameter_and_the_nearest_points_it_says)


@factors(0.0, 0.5, 0.9, 1.1, 2.0)
@pytest.mark.parametrize("manifold", EMBEDDED, ids=repr)
def test_an_embedding_of_the_wrong_diameter_is_noticed(manifold, factor, monkeypatch):
    assert misplaced(monkeypatch, manifold, diameter=factor * manifold.embedding.diameter)


@factors(0.0, 0.5, 0.9)
@pytest.mark.parametrize("manifold", EMBEDDED, ids=repr)
def test_nearest_points_that_turn_farther_than_is_said_are_noticed(manifold, factor, monkeypatch):
    right = manifold.embedding.turn
    assert misplaced(monkeypatch, manifold, turn=lambda vector, q: factor * right(vector, q))


@pytest.mark.parametrize("manifold", EMBEDDED, ids=repr)
def test_points_that_are_not_nearest_or_vectors_that_isometries_change_are_noticed(manifold, monkeypatch):
    embedding = manifold.embedding
    with monkeypatch.context() as patch:
        away = np.linspace(0.01, 0.02, embedding.dim)
        assert misplaced(patch, manifold, nearest=lambda vector: embedding.nearest(vector + away))
    stretch = np.where(np.arange(embedding.dim) == 0, 1.1, 1.0)
    assert misplaced(monkeypatch, manifold, write=lambda points: stretch * embedding.write(points))


# ---------------------------------------------------------------------- the exact sampler


@factors(0.5, 0.9, 1.1, 2.0)
@pytest.mark.parametrize(
    "manifold", [Sphere(2), SPD(2), HPD(2), Grassmann(2, 4), Rotations(4), PlanarShapes(4), Torus(2)], ids=repr
)
def test_an_exact_sampler_of_the_wrong_width_or_density_is_noticed(manifold, factor, monkeypatch):
    chart, radial = type(manifold).exact_chart, type(manifold).exact_radial_part
    with monkeypatch.context() as patch:
        patch.setattr(type(manifold), "exact_chart", lambda self, center, v: chart(self, center, [factor * x for x in v]))
        assert is_noticed(manifold, testing.the_exact_sampler_has_the_geometry_of_the_manifold)
    monkeypatch.setattr(type(manifold), "exact_radial_part", lambda self, v: [factor * h for h in radial(self, v)])
    if manifold.rank > 1:  # else it is never asked for
        assert is_noticed(manifold, testing.the_exact_sampler_has_the_geometry_of_the_manifold)


def test_an_exact_sampler_that_ignores_the_centre_is_noticed(monkeypatch):
    right = SPD.exact_chart
    monkeypatch.setattr(SPD, "exact_chart", lambda self, center, v: right(self, self.origin, v))
    assert is_noticed(SPD(2), testing.the_exact_sampler_has_the_geometry_of_the_manifold, "from its centre")


@pytest.mark.slow
@every_manifold
@pytest.mark.parametrize("holds", SLOW_PROPERTIES, ids=lambda holds: holds.__name__)
def test_exact_draws_agree_with_an_independent_sampler(holds, manifold):
    holds(manifold)


@pytest.mark.slow
@factors(0.9, 1.1)
def test_exact_draws_of_the_wrong_scale_disagree_with_an_independent_sampler(factor, monkeypatch):
    """In five dimensions the mean of 4,000 distances is known to 0.8%, the integral to 0.6%: 10% is ten standard errors."""
    right = exact.sample
    monkeypatch.setattr(exact, "sample", lambda manifold, scale, *rest, **named: right(manifold, factor * scale, *rest, **named))
    with pytest.raises(AssertionError, match="integral over the tangent space"):
        testing.exact_draws_have_the_mean_distance_of_an_independent_sampler(Sphere(5), draws=4000)
