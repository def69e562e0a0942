"""Who the records are: persons with several records, numbers that are private, groups."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from cases import longer
from scipy.stats import chi2

from geodp import (
    SPD,
    Ball,
    Dataset,
    Euclidean,
    GroupedRelease,
    Hyperbolic,
    Ledger,
    LedgerError,
    Manifold,
    Release,
    Rotations,
    Sphere,
    frechet_mean,
    private_ball,
    private_coverage,
    private_mean,
    private_projected_mean,
    sensitivity,
)
from geodp.inputs import Array
from geodp.privacy.neighbours import KNOWN, why_not
from geodp.privacy.notions import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from geodp.privacy.splitting import set_aside, share_of
from geodp.programs.ball import BallRelease
from geodp.records.chunks import Stream
from geodp.records.persons import Persons
from geodp.records.sums import sum_over
from geodp.statistics.counts import NormalCoordinates, beyond
from geodp.statistics.coverage import Coverage
from geodp.statistics.mean import Mean

BALLS = [
    Ball(SPD(2), np.eye(2), 1.0),
    Ball(SPD(3), 2.0 * np.eye(3), 1.5),
    Ball(Sphere(2), [0.0, 0.0, 1.0], 0.7),
    Ball(Rotations(3), np.eye(3), 0.8),
    Ball(Hyperbolic(2), [1.0, 0.0, 0.0], 1.2),
    Ball(Euclidean(2), [1.0, -1.0], 2.0),
]


def records_in(ball: Ball, count: int, rng: np.random.Generator, spread: float = 0.6) -> Array:
    """Records about the centre, of which some are outside the ball and some are no points."""
    manifold = ball.manifold
    coordinates = rng.normal(0.0, spread * ball.radius, (count, manifold.dim))
    x = np.asarray(manifold.raw_exp(ball.center, manifold.raw_tangent(ball.center, coordinates)))
    x[rng.random(count) < 0.03] = np.nan
    return x


def open_persons(x: Any, ids: Any, manifold: Manifold) -> Persons:
    return Dataset(x, unit=ids).open(manifold).source


def in_chunks(x: Array, sizes: list[int]) -> Callable[[], Iterator[Array]]:
    ends = np.cumsum([*sizes, len(x)])

    def read() -> Iterator[Array]:
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            yield x[start:end]

    return read


# ---------------------------------------------------------------------- persons


@pytest.mark.parametrize("ball", BALLS, ids=lambda ball: repr(ball.manifold))
def test_the_mean_of_persons_is_the_mean_of_their_means(ball: Ball) -> None:
    """The oracle solves for one person after the other."""
    rng = np.random.default_rng(5)
    x, ids = records_in(ball, 200, rng), rng.integers(0, 60, 200)
    statistic = Mean(ball)
    persons = open_persons(x, ids, ball.manifold)
    points = np.array([frechet_mean(x[ids == person], ball).point for person in np.unique(ids)])
    assert persons.count == len(points)
    found = statistic.compute(persons, persons.count)
    assert ball.manifold.dist(found, frechet_mean(points, ball).point) <= 2.0 * statistic.tolerance("person")
    assert ball.manifold.dist(found, frechet_mean(x, ball).point) > 1e3 * statistic.tolerance("person"), (
        "one record, one vote differs"
    )


@pytest.mark.parametrize("ball", longer(BALLS[::2], BALLS[:1]), ids=lambda ball: repr(ball.manifold))
def test_all_sources_say_the_same_about_persons(ball: Ball) -> None:
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(6)
    ids = np.sort(rng.integers(0, 25, 90))
    x = records_in(ball, 90, rng)
    shuffled = rng.permutation(90)
    sources: list[Persons] = [
        open_persons(x[shuffled], ids[shuffled], ball.manifold),
        open_persons(in_chunks(x, [1, 2, 40, 0, 3]), ids, ball.manifold),
        open_persons(in_chunks(x, [7, 7, 7]), lambda: iter([ids[:50], ids[50:]]), ball.manifold),
        open_persons(da.from_array(x, chunks=(11, *x.shape[1:])), ids, ball.manifold),
        open_persons(x, np.array([f"person {i}" for i in ids], dtype=object), ball.manifold),
    ]
    first = sources[0]
    n, keep = first.count, np.array([0, 3, 4, 11])
    some = np.isin(ids, np.unique(ids)[keep])
    for statistic in (Mean(ball), Coverage(ball)):
        whole = statistic.compute(first, n)
        part = statistic.compute(open_persons(x[some], ids[some], ball.manifold), 4)
        for source in sources[:4]:
            assert source.count == n
            np.testing.assert_allclose(statistic.compute(source, n), whole, atol=1e-9)
            if source is not first:  # persons are in the order of their first records
                np.testing.assert_allclose(statistic.compute(source.select(keep), 4), part, atol=1e-9)
    padded = [Coverage(ball).compute(source.select(keep, 3), 7) for source in sources[1:4]]
    invalid = Coverage(ball).compute(np.full((1, *ball.manifold.point_shape), np.nan), 1)
    for counts in padded:
        np.testing.assert_array_equal(counts, Coverage(ball).compute(sources[1].select(keep), 4) + 3 * invalid)
    radii = ball.radius * np.array([0.2, 0.5, 0.9])
    assert len({tuple(beyond(source, ball, radii, n)) for source in sources[:4]}) == 1


def test_a_person_is_where_the_median_of_its_distances_is() -> None:
    ball = BALLS[-1]
    rng = np.random.default_rng(7)
    x, ids = records_in(ball, 300, rng), rng.integers(0, 40, 300)
    length = np.linalg.vector_norm(NormalCoordinates(ball, len(x))(x.copy()), axis=-1)
    medians = [np.sort(length[ids == person])[(np.sum(ids == person) - 1) // 2] for person in np.unique(ids)]
    radii = np.array([0.3, 1.0, 1.7])
    assert beyond(open_persons(x, ids, ball.manifold), ball, radii, len(medians)) == [
        sum(bool(m > t) for m in medians) for t in radii
    ]


@pytest.mark.parametrize("ball", BALLS, ids=lambda ball: repr(ball.manifold))
def test_no_person_moves_the_mean_farther_than_one_record_could(ball: Ball) -> None:
    """However many records it has. Moving all of them from one side to the other reaches 90% of the bound in flat space."""
    rng = np.random.default_rng(8)
    n, bound = 10, sensitivity(ball, 10)
    statistic = Mean(ball)
    farthest = 0.0
    for trial in range(12):
        rest = records_in(ball, 30, rng, 0.05 if trial < 4 else 1.0)
        side = np.zeros(ball.manifold.dim)
        side[trial % ball.manifold.dim] = ball.radius
        ends = [np.asarray(ball.manifold.raw_exp(ball.center, ball.manifold.raw_tangent(ball.center, s * side))) for s in (1, -1)]
        means = []
        for end, count in zip(ends, (1, 50), strict=True):
            x = np.concatenate([np.repeat(end[None], count, axis=0), rest])
            ids = np.concatenate([np.zeros(count, dtype=int), 1 + np.arange(30) % (n - 1)])
            means.append(statistic.compute(open_persons(x, ids, ball.manifold), n))
        farthest = max(farthest, float(ball.manifold.dist(*means)))
    assert farthest <= bound + 2.0 * statistic.tolerance("person")
    if ball.manifold.curvature == 0.0 == ball.manifold.lowest_curvature:
        assert farthest > 0.9 * bound


def test_persons_in_a_stream_need_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than a chunk and one portion of persons, here six of them, are ever held together."""
    ball = BALLS[-1]
    monkeypatch.setattr("geodp.records.persons._CHUNK_BYTES", 24 * 8 * 2)
    monkeypatch.setattr("geodp.records.rows._KEPT_BYTES", 0)
    held: list[int] = []

    def chunks() -> Iterator[Array]:
        for i in range(50):
            yield np.full((20, 2), float(i % 2))

    ids = np.repeat(np.arange(250), 4)
    persons = open_persons(chunks, ids, ball.manifold)
    assert isinstance(persons.each(lambda records, starts: records), Stream)

    def row(records: Array, starts: Any) -> Array:
        held.append(len(records))
        return np.add.reduceat(records, starts, axis=0) / 4.0

    assert sum(len(part) for part in persons.each(row)()) == 250
    assert max(held) == 24


def test_persons_are_released_in_all_functions_and_the_receipt_says_so() -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(300, 3)) * 0.2 + [0.0, 0.0, 1.0]
    x /= np.linalg.vector_norm(x, axis=-1, keepdims=True)
    who: Any = {"unit": np.repeat(np.arange(100), 3)}
    ball = Ball(Sphere(2), [0.0, 0.0, 1.0], 0.7)
    for release in (
        private_mean(x, ball, epsilon=1.0, **who),
        private_coverage(x, ball, epsilon=1.0, **who),
        private_projected_mean(x, Sphere(2), epsilon=1.0, **who),
        private_ball(x, Sphere(2), epsilon=1.0, **who),
    ):
        assert (release.n, release.unit, release.neighbours) == (100, "person", "replace one person")
        assert "\n  records" not in str(release), "their number is nobody's business"
        assert "persons     100" in str(release)


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (np.arange(7), "unit must have one label for each record, but it has fewer"),
        (np.zeros((8, 1)), r"unit has shape \(8, 1\), but one label for each record has shape \(n,\)"),
        (np.ma.masked_array(np.arange(8)), "masked"),
        (np.zeros(8, dtype=complex), "unit has the dtype complex128, but labels are texts, numbers, identifiers or dates"),
    ],
)
def test_ids_that_do_not_fit_are_one_sentence(ids: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        private_mean(np.zeros((8, 2)), BALLS[-1], epsilon=1.0, unit=ids)


def test_chunks_must_be_sorted_by_person() -> None:
    with pytest.raises(ValueError, match="must be sorted by person"):
        private_mean(in_chunks(np.zeros((4, 2)), [2]), BALLS[-1], epsilon=1.0, unit=[1, 2, 1, 2])


def test_a_record_without_an_id_is_an_invalid_member() -> None:
    """In arrays, chunks and Dask arrays, also between the records of a person: what a record holds changes no other member."""
    da = pytest.importorskip("dask.array")
    x, ball = np.arange(10.0).reshape(5, 2), Ball(Euclidean(2), [0.0, 0.0], 100.0)
    for ids in ([None, "a", "a", "b", float("nan")], np.array([1.0, np.nan, 1.0, 2.0, np.nan]), ["7", "", 7.0, "8", b""]):
        rows = [each for each in range(5) if str(ids[each]) not in ("None", "nan", "", "b''")]
        for source in (x, in_chunks(x, [2, 2]), da.from_array(x, chunks=(2, 2))):
            persons = open_persons(source, ids, Euclidean(2))
            assert persons.count == 4
            # an invalid record counts as the centre, which is zero
            expected = (x[rows[0]] + x[rows[1]]) / 2 + x[rows[2]]
            np.testing.assert_allclose(sum_over(persons, Euclidean(2), NormalCoordinates(ball, 4), 4), expected)
            invalid = Coverage(ball).compute(np.full((1, 2), np.nan), 1)
            np.testing.assert_array_equal(Coverage(ball).compute(persons, 4), 2 * invalid)


def test_no_label_changes_what_the_others_are() -> None:
    """A list becomes an array label by label: as a whole, one text would make texts of all numbers."""
    x = np.zeros((1000, 2))
    for last in (2, "2", "unknown", None, float("nan"), [1], np.zeros(3)):
        members = Dataset(x, by=[1] * 500 + [2] * 499 + [last], groups=[1, 2], labels="private").open(Euclidean(2))
        here = isinstance(last, int | str) and str(last) == "2"
        assert [len(keep) for keep in members.groups().values()] == [500, 500 if here else 499]
    for last in (2**60 + 999, "x", None, float("nan")):
        assert open_persons(x, [2**60 + i for i in range(999)] + [last], Euclidean(2)).count >= 999


class OwnText(str):
    def strip(self, *_: Any) -> str:
        raise RuntimeError("8675309")


class OwnInt(int):
    def __int__(self) -> int:
        raise RuntimeError("8675309")

    __index__ = __abs__ = __pos__ = __int__


class OwnFloat(float):
    def __float__(self) -> float:
        raise RuntimeError("8675309")

    is_integer = __pos__ = __float__


@pytest.mark.parametrize(
    "odd",
    [10**5000, -(10**5000), OwnText("7"), OwnInt(7), OwnFloat(7.5), float("inf"), "\ud800", b"\xff", object(), {}],
    ids=lambda odd: type(odd).__name__,
)
def test_no_label_makes_a_release_fail(odd: Any) -> None:
    """Python refuses to write whole numbers of more than 4,300 digits, and kinds of numbers and texts may have methods."""
    labels = np.empty(6, dtype=object)
    labels[:] = [1, 2, 3, 4, 5, odd]
    x, ball = np.zeros((6, 2)), BALLS[-1]
    private_mean(x, ball, epsilon=1.0, unit=labels)
    private_mean(in_chunks(x, [3, 3]), ball, epsilon=1.0, unit=lambda: [labels[:3], labels[3:]])
    private_mean(x, ball, epsilon=1.0, by=labels, groups=[1, 2], labels="private")


# ---------------------------------------------------------------------- private numbers


def test_members_are_dropped_uniformly_at_random() -> None:
    """Every set of 2 of 5 is equally likely; false alarms: 1e-6."""
    members = Dataset(np.arange(5.0)[:, None]).open(Euclidean(1))
    chance = Random(11)
    seen = Counter(tuple(members.resized(2, chance).source[:, 0]) for _ in range(5000))
    assert set(seen) == {tuple(map(float, pair)) for pair in combinations(range(5), 2)}
    assert sum((count - 500) ** 2 / 500 for count in seen.values()) < chi2.isf(1e-6, 9)


@pytest.mark.parametrize(
    "ids", [[UUID(int=i // 2) for i in range(6)], np.array([True, False] * 3, dtype=object)], ids=["uuid", "bool"]
)
def test_persons_may_be_named_by_identifiers_and_truth_values(ids: Any) -> None:
    """They counted as missing, so nobody was left."""
    assert open_persons(np.ones((6, 1)), ids, Euclidean(1)).count == len({str(each) for each in ids})


def test_missing_members_are_no_points() -> None:
    members = Dataset(np.ones((3, 1))).open(Euclidean(1)).resized(5, Random(1))
    assert members.count == 5
    np.testing.assert_array_equal(np.isnan(members.source[:, 0]), [False, False, False, True, True])


@pytest.mark.parametrize(
    "privacy", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}, {"mu": 0.7}], ids=lambda p: " ".join(p)
)
def test_a_private_number_is_part_of_the_release_and_of_its_cost(privacy: dict[str, float]) -> None:
    rng = np.random.default_rng(12)
    release = private_mean(records_in(BALLS[0], 900, rng), BALLS[0], **privacy, neighbours="add-remove", simulate=rng)
    assert release.count is not None
    assert release.n is not None
    assert abs(float(release.count.value[0]) - 900) <= release.count.error_quantile(1.0 - 1e-6)
    assert release.n < release.count.value[0], "a margin is taken off"
    assert release.cost.meets(release.privacy)
    assert not release.cost.meets(type(release.privacy)(*(0.95 * v for v in release.privacy.parameters().values())))
    assert release.sensitivity == sensitivity(BALLS[0], release.n)
    assert str(Release.from_json(release.to_json())) == str(release)
    assert "add, remove or replace one record" in str(release)


@pytest.mark.parametrize("manifold", [Sphere(2), Euclidean(2), SPD(2)], ids=repr)
def test_even_no_records_at_all_give_a_release_if_their_number_is_private(manifold: Any) -> None:
    ball = Ball(manifold, manifold.origin, 0.5)
    release = private_mean(np.empty((0, *manifold.point_shape)), ball, epsilon=1.0, neighbours="add-remove")
    assert release.n is not None
    assert release.n >= 1
    found = private_ball(np.empty((0, 2)), Ball(Euclidean(2), [0.0, 0.0], 50.0), epsilon=1.0, neighbours="add-remove")
    assert found.n >= 1


def test_the_parts_of_privacy_keep_the_whole() -> None:
    for privacy in (PureDP(1.0), ApproximateDP(0.7, 1e-6), ZeroConcentratedDP(0.2), GaussianDP(0.4)):
        parts, rest = set_aside(privacy, [0.1, 0.05])
        each = share_of(privacy, 0.5 * (1.0 - 1e-12))
        match privacy:
            case PureDP():
                assert sum(Fraction(part.epsilon) for part in (*parts, rest)) <= Fraction(1.0)
                assert 2 * Fraction(each.epsilon) <= Fraction(1.0)
            case ApproximateDP():
                assert sum(Fraction(part.epsilon) for part in (*parts, rest)) <= Fraction(0.7)
                assert rest.delta == 1e-6
                assert 2 * Fraction(each.delta) <= Fraction(1e-6)
            case ZeroConcentratedDP():
                assert sum(Fraction(part.rho) for part in (*parts, rest)) <= Fraction(0.2)
            case GaussianDP():
                assert sum(Fraction(part.mu) ** 2 for part in (*parts, rest)) <= Fraction(0.4) ** 2
                assert 2 * Fraction(each.mu) ** 2 <= Fraction(0.4) ** 2


# ---------------------------------------------------------------------- groups


def grouped(labels: str = "public", neighbours: str = "replace", **more: Any) -> GroupedRelease:
    rng = np.random.default_rng(13)
    x, by = records_in(BALLS[0], 300, rng), np.array(["a", "b", "c"])[rng.integers(0, 3, 300)]
    options = {"groups": ["a", "b", "c", "none"], "labels": labels, "neighbours": neighbours, "simulate": rng} | more
    return private_mean(x, BALLS[0], epsilon=1.0, by=by, **options)


@pytest.mark.parametrize("labels", ["public", "private"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_groups_cost_what_the_theorem_says(labels: str, neighbours: str) -> None:
    if (labels, neighbours) == ("public", "add-remove"):
        with pytest.raises(ValueError, match="public labels show how many records each group has"):
            grouped(labels, neighbours)
        return
    release = grouped(labels, neighbours)
    assert list(release) == ["a", "b", "c", "none"]
    assert release.cost.epsilon == pytest.approx(1.0)
    halved = labels == "private" and neighbours == "replace"
    assert all(group.epsilon == pytest.approx(0.5 if halved else 1.0) for group in release.values())
    counted = labels == "private" or neighbours == "add-remove"
    assert all((group.count is not None) == counted for group in release.values())
    assert (
        release.neighbours
        == {
            ("public", "replace"): "replace one record, which keeps its group",
            ("private", "replace"): "replace one record",
            ("private", "add-remove"): "add or remove one record",
        }[labels, neighbours]
    )
    assert str(GroupedRelease.from_json(release.to_json())) == str(release)


def test_the_means_of_groups_are_those_of_their_records() -> None:
    rng = np.random.default_rng(14)
    for ball in BALLS:
        x, by = records_in(ball, 120, rng), rng.integers(0, 4, 120)
        release = private_mean(x, ball, epsilon=1e7, by=by, simulate=rng)
        for group in range(4):
            assert ball.manifold.dist(release[group].value, frechet_mean(x[by == group], ball).point) < 1e-4
            assert release[group].n == np.sum(by == group)


def test_a_public_group_without_records_says_nothing() -> None:
    empty = grouped()["none"]
    assert empty.n == 0
    assert empty.says_nothing
    assert "this release says nothing" in str(empty)


def test_an_unknown_label_is_an_error_where_labels_are_public_and_nothing_where_they_are_private() -> None:
    x = np.zeros((4, 2))
    with pytest.raises(ValueError, match="some labels in by are not among the 1 groups") as caught:
        private_mean(x, BALLS[-1], epsilon=1.0, by=["a", "secret", "a", "a"], groups=["a"])
    assert "secret" not in str(caught.value)
    release = private_mean(x, BALLS[-1], epsilon=1.0, by=["a", "secret", "a", "a"], groups=["a"], labels="private")
    assert list(release) == ["a"]


def test_a_person_is_in_one_group_only() -> None:
    x, ids, by = np.zeros((4, 2)), [1, 1, 2, 2], ["a", "b", "b", "b"]
    with pytest.raises(ValueError, match="a person has records in several groups"):
        private_mean(x, BALLS[-1], epsilon=1.0, unit=ids, by=by)
    members = Dataset(x, unit=ids, by=by, groups=["a", "b"], labels="private").open(Euclidean(2))
    assert {name: list(keep) for name, keep in members.groups().items()} == {"a": [0], "b": [1]}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"groups": ["a"]}, "groups and labels describe by"),
        ({"labels": "private"}, "groups and labels describe by"),
        ({"by": ["a", "b"], "labels": "private"}, "private labels need groups"),
        ({"by": ["a", "b"], "labels": "secret"}, "labels must be 'public' or 'private' but is 'secret'"),
        ({"by": ["a", "b"], "groups": ["a", "a", "b"]}, "groups must be a list of at least one name"),
        ({"by": ["a", "b"], "groups": "ab"}, "groups must be a list of at least one name"),
        ({"by": ["a"]}, "by must have one label for each record, but it has fewer"),
        ({"neighbours": "add"}, "neighbours must be 'replace' or 'add-remove' but is 'add'"),
        ({"coverage": 0.7}, "the part of the privacy for coverage must be from 0 to 0.5 but is 0.7"),
    ],
)
def test_bad_input_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        private_mean(np.zeros((2, 2)), BALLS[-1], epsilon=1.0, **options)


def test_a_data_set_says_itself_who_the_records_are() -> None:
    data = Dataset(np.zeros((2, 2)), unit=[1, 2])
    assert private_mean(data, BALLS[-1], epsilon=1.0, anyway=True).unit == "person"
    with pytest.raises(ValueError, match="which has its own settings: leave out unit"):
        private_mean(data, BALLS[-1], epsilon=1.0, unit=[1, 2])
    with pytest.raises(TypeError, match="units"):
        private_mean(np.zeros((2, 2)), BALLS[-1], epsilon=1.0, units=[1, 2])
    assert "0." not in repr(data), "no record is shown"


# ---------------------------------------------------------------------- receipts and budgets


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "family"},
        {"neighbours": "replace one record"},
        {"unit": "person", "neighbours": "add, remove or replace one person"},
        {"tolerance": 0.0},
        {"coverage_share": 0.01},
        {"coverage": None},
        {"count": None},
        {"n": 5},
        {"noise_cost": {"kind": "pure", "bound": 0.1}},
    ],
    ids=str,
)
def test_a_receipt_whose_parts_do_not_agree_is_refused(change: dict[str, Any]) -> None:
    rng = np.random.default_rng(15)
    release = private_mean(records_in(BALLS[0], 300, rng), BALLS[0], epsilon=1.0, neighbours="add-remove", coverage=0.05)
    stored = json.loads(release.to_json())
    assert Release.from_json(json.dumps(stored)).n == release.n
    with pytest.raises(ValueError, match="not the JSON text of a release"):
        Release.from_json(json.dumps(stored | change))


def test_a_count_that_does_not_lead_to_the_number_of_members_is_refused() -> None:
    release = private_mean(np.zeros((400, 2)), Ball(Euclidean(2), [0.0, 0.0], 1.0), epsilon=1.0, neighbours="add-remove")
    stored = json.loads(release.to_json())
    assert Release.from_json(json.dumps(stored)).n == release.n
    stored["draws"][0][0] *= 2.0  # still on its grid
    with pytest.raises(ValueError, match="its n must be the number that follows from its count"):
        Release.from_json(json.dumps(stored))
    stored["draws"][0][0] /= 2.0
    for part in ("value", "draws"):
        changed = stored | {"count": stored["count"] | {part: np.multiply(stored["count"][part], 2.0).tolist()}}
        with pytest.raises(ValueError, match="its count does not follow from the rest"):
            Release.from_json(json.dumps(changed))


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.5},
        {"neighbours": "add or remove one record"},
        {"neighbours": "add, remove or replace one record"},
        {"charge": 3},
        {"groups": []},
        {"cost": {"kind": "pure", "bound": 0.5}},
    ],
    ids=str,
)
def test_a_receipt_of_groups_that_does_not_agree_is_refused(change: dict[str, Any]) -> None:
    stored = json.loads(grouped("private").to_json())
    with pytest.raises(ValueError, match="not the JSON text of a release"):
        GroupedRelease.from_json(json.dumps(stored | change))


def test_a_budget_takes_what_implies_its_neighbours_and_refuses_the_rest(tmp_path: Path) -> None:
    book = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    book.open("records", 10)
    book.open("persons", 10, neighbours="replace one person")
    book.open("numbers", 10, neighbours="add or remove one record")
    x, ids = np.zeros((6, 2)), [1, 1, 2, 2, 3, 3]

    def spend(name: str, **who: Any) -> Release:
        return private_mean(x, BALLS[-1], epsilon=1.0, ledger=book, dataset=name, anyway=True, **who)

    spend("records")
    spend("records", neighbours="add-remove")
    spend("persons", unit=ids)
    spend("persons", unit=ids, neighbours="add-remove")
    spend("numbers", neighbours="add-remove")
    refused: list[tuple[str, dict[str, Any]]] = [("persons", {}), ("numbers", {}), ("numbers", {"unit": ids})]
    refused += [("persons", {"neighbours": "add-remove"}), ("records", {"unit": ids})]
    for name, who in refused:
        with pytest.raises(LedgerError, match="does not imply them"):
            spend(name, **who)
    assert [float(book.spent(name)) for name in ("records", "persons", "numbers")] == [2.0, 2.0, 1.0]
    for charge in book.history("records"):
        assert charge.receipt is not None
        assert book.check_receipt(charge.receipt) is None


def test_groups_are_charged_once(tmp_path: Path) -> None:
    book = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    book.open("d", 10)
    who: dict[str, Any] = {"by": [0, 0, 1, 1, 2, 2], "ledger": book, "dataset": "d"}
    release = private_mean(np.zeros((6, 2)), BALLS[-1], epsilon=1.0, **who, anyway=True)
    assert float(book.spent("d")) == 1.0
    (charge,) = book.history("d")
    assert charge.receipt == release.to_json()
    assert book.check_receipt(release.to_json()) is None
    assert {group.charge for group in release.values()} == {charge.id}


def test_which_neighbours_imply_which() -> None:
    """Every pair of the smaller relation must be a pair of the larger one: enumerated on data sets of rows with two ids.

    A row is a person, a group and a value. A record that is replaced may be another person's afterwards.
    """
    rows = [(person, group, value) for person in "pq" for group in "ab" for value in (0, 1)]
    data = [tuple(sorted(chosen)) for size in range(4) for chosen in combinations_with_replacement(rows, size)]

    def of(kind: str, first: Any, second: Any) -> bool:
        if "person" in kind:
            moved = [
                person
                for person in "pq"
                if Counter(r for r in first if r[0] == person) != Counter(r for r in second if r[0] == person)
            ]
            if len(moved) != 1:
                return False
            groups = [{row[1] for row in x if row[0] == moved[0]} for x in (first, second)]
            replaced, added, kept = all(groups), sum(map(bool, groups)) == 1, groups[0] == groups[1]
        else:
            lost, won = Counter(first) - Counter(second), Counter(second) - Counter(first)
            replaced = lost.total() == won.total() == 1
            added = lost.total() + won.total() == 1
            kept = [row[1] for row in lost] == [row[1] for row in won]
        if "group" in kind:
            return replaced and kept
        return replaced if kind.startswith("replace") else added if kind.startswith("add or") else replaced or added

    pairs = {kind: {(a, b) for a in data for b in data if of(kind, a, b)} for kind in KNOWN}
    assert len(pairs) == 8
    for released, budget in product(KNOWN, KNOWN):
        assert (KNOWN[budget].pairs <= KNOWN[released].pairs) == (pairs[budget] <= pairs[released]), (released, budget)
        # where a release calls labels public, they are public in its budget
        whole = released.partition(",")[0] if "group" in released else released
        assert (why_not(released, budget) is None) == (pairs[budget] <= pairs[whole]), (released, budget)


# ---------------------------------------------------------------------- coverage, balls and files


def test_coverage_is_part_of_a_receipt_and_a_receipt_without_it_says_so() -> None:
    rng = np.random.default_rng(16)
    x = records_in(BALLS[0], 1000, rng)
    release = private_mean(x, BALLS[0], epsilon=1.0, coverage=0.2)
    assert release.coverage is not None
    assert abs(release.coverage.valid - int(BALLS[0].manifold.valid(x).sum())) <= 4.0 * release.coverage.valid_margin
    assert release.cost.epsilon == pytest.approx(1.0)
    assert f"are points of {BALLS[0].manifold}" in str(release)
    without = str(private_mean(x, BALLS[0], epsilon=1.0))
    assert "noise only; clipping unknown" in without
    assert "what clipping did was not measured" in without


@pytest.mark.parametrize("who", [{}, {"unit": np.arange(900) // 3}, {"neighbours": "add-remove"}], ids=lambda who: str(list(who)))
def test_a_ball_is_found_for_everyone(who: dict[str, Any]) -> None:
    rng = np.random.default_rng(17)
    x = rng.normal(5.0, 0.3, (900, 2))
    found = private_ball(x, Ball(Euclidean(2), [0.0, 0.0], 100.0), epsilon=20.0, simulate=np.random.default_rng(3), **who)
    assert found.ball.contains(x).mean() > 0.5
    assert found.ball.radius < 3.0
    again = BallRelease.from_json(found.to_json())
    assert (str(again), again.cost, again.neighbours) == (str(found), found.cost, found.neighbours)
    with pytest.raises(ValueError, match="one ball is found for all groups together"):
        private_ball(x, Ball(Euclidean(2), [0.0, 0.0], 100.0), epsilon=1.0, by=np.zeros(900))


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_persons_and_groups_are_columns_of_files(kind: str, tmp_path: Path) -> None:
    rows = [("7", "north", 50.0, 10.0), ("7", "north", 51.0, 11.0), ("8", "south", 40.0, 9.0), (" 9 ", "south", 41.0, 9.5)]
    path = tmp_path / f"visits.{kind}"
    unit, by = "person", "site"
    if kind == "csv":
        path.write_text("person,site,lat,lon\n" + "".join(f"{p},{s},{a},{b}\n" for p, s, a, b in rows))
    elif kind == "parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(
            arrow.table(dict(zip(("person", "site", "lat", "lon"), zip(*rows, strict=True), strict=True))), path
        )
    else:
        np.save(path, np.array([[float(p), float(s == "south"), a, b] for p, s, a, b in rows]))
        unit, by = "0", "1"
    data = Dataset.read(path, Sphere(2), unit=unit, by=by, layout="latlon")
    members = data.open(Sphere(2))
    assert members.count == 3
    assert sorted(len(keep) for keep in members.groups().values()) == [1, 2]
    assert np.allclose(np.linalg.vector_norm(np.asarray(data.x), axis=-1), 1.0)


@pytest.mark.parametrize("ball", BALLS, ids=lambda ball: repr(ball.manifold))
def test_a_record_gives_the_same_floats_wherever_it_stands(ball: Ball) -> None:
    """A person with more or fewer records moves the rows of all others along: their coordinates stay the same to the last bit."""
    rng = np.random.default_rng(18)
    x = records_in(ball, 500, rng)
    directions = np.linalg.qr(rng.normal(size=(ball.manifold.dim, ball.manifold.dim)))[0]
    coordinates = NormalCoordinates(ball, 500)
    here = coordinates(x.copy())
    for before in (1, 2, 3, 5, 7, 8, 13):
        moved = coordinates(np.concatenate([records_in(ball, before, rng), x]))[before:]
        np.testing.assert_array_equal(moved, here)
        np.testing.assert_array_equal(np.linalg.vector_norm(moved, axis=-1), np.linalg.vector_norm(here, axis=-1))
        np.testing.assert_array_equal((moved @ directions.T), (here @ directions.T))


# ---------------------------------------------------------------------- refuted once


def test_how_persons_are_computed_does_not_depend_on_how_many_records_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled and general code do not agree about records next to no points: a choice by the number of records told it."""
    from geodp.solver import many, mean

    chosen: list[Any] = []
    right = mean.best_group_evaluator
    monkeypatch.setattr(mean, "best_group_evaluator", lambda ball, count: chosen.append(count) or right(ball, count))
    monkeypatch.setattr(many, "best_group_evaluator", lambda *_: pytest.fail("chosen by a private number"))
    ball = BALLS[2]
    for more in (1, 20000):
        x = np.tile([0.0, 0.0, 1.0], (99 + more, 1))
        private_mean(x, ball, epsilon=1.0, unit=np.append(np.arange(99), np.full(more, 99)))
        private_mean(in_chunks(x, [50, 60]), ball, epsilon=1.0, unit=np.append(np.arange(99), np.full(more, 99)))
    assert set(chosen) == {100}


@pytest.mark.parametrize("manifold", [SPD(2), SPD(4), SPD(8), Rotations(5), Euclidean(7)], ids=repr)
def test_counts_do_not_depend_on_where_a_record_stands(manifold: Any) -> None:
    """Products of matrices round the last rows of a chunk, and batches of one, in their own way."""
    rng = np.random.default_rng(19)
    ball = Ball(manifold, manifold.origin, 1.0)
    one = records_in(ball, 1, rng)
    assert ball.manifold.valid(one).all()
    rows = NormalCoordinates(ball, 40)(np.repeat(one, 40, axis=0))
    length = np.array([float(np.sqrt(sum(r * r for r in rows[0])))])
    for sizes in ([], [1], [1, 1, 1], [7, 7, 7, 7], [5, 3, 2, 1], [16, 15]):
        x = in_chunks(np.repeat(one, 40, axis=0), sizes)
        assert set(beyond(x, ball, length, 40)) <= {0, 40}, sizes


def test_shares_of_persons_add_up_exactly() -> None:
    """Thirds would not: counts have no tolerance."""
    x = np.zeros((3000, 2))
    x[::3] = np.nan
    counts = Coverage(BALLS[-1]).compute(open_persons(x, np.repeat(np.arange(1000), 3), Euclidean(2)), 1000)
    invalid = Coverage(BALLS[-1]).compute(x[:1], 1)
    assert counts.tolist() == (1000 * np.round(invalid / 3 * 2**20) / 2**20).tolist()


def test_a_dask_array_of_unknown_blocks_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    da = pytest.importorskip("dask.array")
    book = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    book.open("d", 10, neighbours="add or remove one record")
    x = da.from_array(np.zeros((40, 2)), chunks=(10, 2))
    x = x[x[:, 0] < 1.0]
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        private_mean(x, BALLS[-1], epsilon=1.0, neighbours="add-remove", ledger=book, dataset="d")
    assert not book.spent("d")


def test_coverage_goes_with_delta_and_a_ledger(tmp_path: Path) -> None:
    book = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    book.open("d", 1, delta="1e-6")
    release = private_mean(
        records_in(BALLS[0], 50, np.random.default_rng(1)),
        BALLS[0],
        1.0,
        delta=1e-6,
        coverage=0.1,
        mechanism="tangent",
        ledger=book,
        dataset="d",
    )
    assert release.cost.meets(release.privacy)
    assert str(Release.from_json(release.to_json())) == str(release)


def test_errors_are_of_what_was_used() -> None:
    rng = np.random.default_rng(20)
    x = records_in(BALLS[0], 300, rng)
    counted = private_mean(x, BALLS[0], epsilon=1.0, neighbours="add-remove", simulate=rng)
    persons = private_mean(x, BALLS[0], epsilon=1.0, unit=np.arange(300) // 3, simulate=rng)
    assert "of the mean of the clipped records that were used with probability 95%" in str(counted)
    assert "of the mean of the persons' means with probability 95%" in str(persons)
    stored = json.loads(private_coverage(x, BALLS[0], epsilon=1.0).to_json()) | {"mechanism": "tangent Laplace"}
    with pytest.raises(ValueError, match="its mechanism does not follow from the rest"):
        Release.from_json(json.dumps(stored))
