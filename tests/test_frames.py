"""Data frames, rows of plain arrays and rotations of SciPy: the same points as from the array they were made of."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geodp import (
    SPD,
    Ball,
    Dataset,
    Euclidean,
    Rotations,
    Sphere,
    frechet_mean,
    frechet_means,
    private_ball,
    private_covariance,
    private_coverage,
    private_mean,
    private_projected_mean,
    private_variance,
)
from geodp.files import FileError

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

SECRET = 123456789.25
RNG = np.random.default_rng(7)
FACTORS = np.eye(2) + 0.2 * RNG.normal(size=(60, 2, 2))
MATRICES = FACTORS @ FACTORS.transpose(0, 2, 1)
UPPER = MATRICES[:, [0, 0, 1], [0, 1, 1]]
PERSONS = np.repeat(np.arange(20), 3)
SITES = np.array(["east", "west"])[PERSONS % 2]
BALL = Ball(SPD(2), np.eye(2), 3.0)

MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "pyarrow": pyarrow.table,
    "polars, lazy": polars.LazyFrame,
}


def columns(**more: Any) -> dict[str, Any]:
    # in another order than the layout's
    return {"yy": UPPER[:, 2], "xx": UPPER[:, 0], "xy": UPPER[:, 1], **more}


def loaded(frame: Any, manifold: Any = BALL.manifold, **who: Any) -> Dataset:
    return Dataset(frame, **who).load(manifold)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_data_frame_is_read_by_the_names_of_its_columns(maker: str) -> None:
    frame = MAKERS[maker](columns(person=PERSONS, site=SITES))
    whole = loaded(frame, columns="xx, xy, yy", unit="person", by="site")
    # the oracle: the arrays that the frame was made of
    np.testing.assert_array_equal(whole.x, MATRICES)
    assert [whole.unit.tolist(), whole.by.tolist()] == [PERSONS.tolist(), SITES.tolist()]
    # columns of labels hold no coordinates, so these need not be named
    np.testing.assert_array_equal(loaded(frame, unit="person", by="site").x, MATRICES)
    with pytest.raises(
        FileError, match=r"^the data frame has 5 columns \(yy, xx, xy, person, site\), among them those of the layout"
    ):
        loaded(frame)
    with pytest.raises(FileError, match="no single one called 'patient'"):
        loaded(frame, unit="patient")


@pytest.mark.parametrize("maker", MAKERS)
def test_every_release_takes_a_data_frame(maker: str) -> None:
    frame = MAKERS[maker](columns(person=PERSONS, site=SITES))
    told = {"columns": "xx, xy, yy", "epsilon": 1.0, "unit": "person"}
    for release in (private_mean, private_coverage, private_variance, private_covariance):
        assert release(frame, BALL, **told).n == 20
    assert private_ball(frame, Ball(SPD(2), np.eye(2), 30.0), **told).n == 20
    grouped = private_mean(frame, BALL, **told, by="site")
    assert {name: release.n for name, release in grouped.items()} == {"east": 10, "west": 10}
    means = frechet_means(frame, BALL, by="site", columns=["xx", "xy", "yy"])
    for site in ("east", "west"):
        expected = frechet_mean(MATRICES[site == SITES], BALL).point
        np.testing.assert_allclose(means[site].point, expected, rtol=1e-9)
    point = frechet_mean(frame, BALL, columns="xx, xy, yy").point
    np.testing.assert_array_equal(point, frechet_mean(MATRICES, BALL).point)


#: What may be in one cell of a column of numbers, in frames that hold such a thing.
CELLS = ("no number", "", None, float("inf"), "1,5", [1.0, 2.0], {"a": 1}, True, object, datetime.date(2024, 5, 1), b"\xff", 1j)


@pytest.mark.parametrize("cell", CELLS, ids=repr)
def test_one_cell_changes_no_other_record(cell: Any) -> None:
    """pandas makes objects of the whole column; all other records keep every bit."""
    kept = UPPER[:, 0].astype(object)
    kept[7] = cell
    frame = pandas.DataFrame(columns()).assign(xx=kept)
    points = loaded(frame).x
    np.testing.assert_array_equal(np.delete(points, 7, axis=0), np.delete(MATRICES, 7, axis=0))
    assert not SPD(2).valid(points[7])
    if isinstance(cell, str | None):
        texts = [repr(float(number)) for number in UPPER[:, 0]]
        texts[7] = cell
        for maker in MAKERS.values():
            again = loaded(maker({**columns(), "xx": texts})).x
            np.testing.assert_array_equal(np.delete(again, 7, axis=0), np.delete(MATRICES, 7, axis=0))
            assert not SPD(2).valid(again[7])


def test_numbers_come_in_many_types_and_nulls_are_invalid_records() -> None:
    whole = [1, 2, None, 4]
    expected = np.array([[1.0], [2.0], [np.nan], [4.0]])
    frames = [
        pandas.DataFrame({"a": pandas.array(whole, dtype="Int16")}),
        pandas.DataFrame({"a": pandas.array(whole, dtype="Float32")}),
        pandas.DataFrame({"a": pandas.Categorical([1.0, 2.0, None, 4.0])}),
        pandas.DataFrame({"a": pandas.Categorical(["1", "2", None, "4"])}),
        pandas.DataFrame({"a": pandas.array(whole, dtype="int64[pyarrow]")}),
        polars.DataFrame({"a": polars.Series(whole, dtype=polars.UInt8)}),
        polars.DataFrame({"a": polars.Series(["1", "2", None, "4"], dtype=polars.Categorical)}),
        polars.DataFrame({"a": polars.Series(whole, dtype=polars.Decimal(10, 2))}),
        pyarrow.table({"a": pyarrow.array(whole, pyarrow.int32()).dictionary_encode()}),
        pandas.Series(whole, name="a"),
        polars.Series("a", whole),
    ]
    for frame in frames:
        np.testing.assert_array_equal(loaded(frame, Euclidean(1)).x, expected)
    # a column of nothing has a type of its own, and its records are as invalid
    assert np.isnan(loaded(polars.DataFrame({"a": [None, None]}), Euclidean(1)).x).all()


def test_records_whose_label_is_missing_are_invalid_members() -> None:
    ids = [0, 0, 1, None, None]
    x = np.zeros((5, 1))
    for column in (
        pandas.array(ids, dtype="Int64"),
        ids,
        ["a", "a", "b", None, None],
        pandas.Categorical(["a", "a", "b", None, None]),
    ):
        frame = pandas.DataFrame({"x": x[:, 0]}).assign(person=column)
        assert private_mean(frame, Ball(Euclidean(1), [0.0], 1.0), 1.0, unit="person").n == 4
        counts = private_coverage(frame, Ball(Euclidean(1), [0.0], 1.0), 1e6, unit="person")
        assert (round(counts.valid), counts.n) == (2, 4)
    # numbers that one missing label made into floats are the same labels
    frame = pandas.DataFrame({"x": x[:, 0], "site": [1.0, 2.0, 2.0, 2.0, None]})
    grouped = private_mean(frame, Ball(Euclidean(1), [0.0], 1.0), 1.0, by="site", groups=[1, 2], labels="private")
    assert list(grouped) == [1, 2]


def test_times_of_day_are_read_from_types_of_times() -> None:
    times = [datetime.time(6), datetime.time(18, 30), None]
    stamps = [None if time is None else datetime.datetime.combine(datetime.date(2024, 5, 1), time) for time in times]
    spans = [None if stamp is None else stamp - datetime.datetime(2024, 5, 1) for stamp in stamps]
    texts = ["06:00", "6:30 pm", "noon"]
    turns = np.array([0.25, 18.5 / 24.0])
    expected = np.stack([np.sin(2.0 * np.pi * turns), np.cos(2.0 * np.pi * turns)], axis=-1)
    for maker in MAKERS.values():
        for cells in (times, stamps, spans, texts):
            points = loaded(maker({"when": cells}), Sphere(1), layout="clock").x
            np.testing.assert_allclose(points[:2], expected, atol=1e-15)
            assert np.isnan(points[2]).all()
    # the type of a column is public, what its texts hold is not
    np.testing.assert_allclose(loaded(polars.DataFrame({"when": times}), Sphere(1)).x[:2], expected, atol=1e-15)
    with pytest.raises(FileError, match="name the layout, clock or hours or degrees or radians"):
        loaded(polars.DataFrame({"when": texts}), Sphere(1))
    np.testing.assert_allclose(loaded(polars.DataFrame({"time": texts}), Sphere(1)).x[:2], expected, atol=1e-15)


def test_a_type_that_holds_no_numbers_is_refused_and_no_cell_is_quoted() -> None:
    day = datetime.date(2024, 5, 1)
    bad: list[tuple[Any, dict[str, Any], str]] = [
        (
            polars.DataFrame({"a": [True, False]}),
            {},
            "the column a of the data frame has the type Boolean, but this layout is read",
        ),
        (polars.DataFrame({"a": [day]}), {}, "the type Date, but this layout is read from numbers"),
        (polars.DataFrame({"a": [datetime.datetime(2024, 5, 1)]}), {}, "Datetime"),
        (polars.DataFrame({"a": [["x"]]}), {}, "List"),
        (pandas.DataFrame({"a": [1.0]}), {"layout": "no such"}, "has no layout 'no such'"),
        (pandas.DataFrame([[1.0, SECRET]], columns=["a", "a"]), {}, "several columns of the same name"),
        (pandas.DataFrame({"a": [SECRET], "b": [1.0]}), {}, "has 2 columns (a, b), but Euclidean(1) is read from 1 column"),
        (pandas.DataFrame({"a": [SECRET]}), {"header": True}, "header, mask and atlas are for files"),
        (np.full((3, 1), SECRET), {"unit": "a"}, "x is of type ndarray, whose columns have no names: give one label"),
    ]
    for frame, who, sentence in bad:
        with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
            loaded(frame, Euclidean(1), **who)
        assert "12345" not in str(caught.value)
    with pytest.raises(FileError, match="the type Float64, but this layout is read from clock times"):
        loaded(pandas.DataFrame({"a": [SECRET]}), Sphere(1), layout="clock")


def test_points_may_stand_in_lists() -> None:
    rows = UPPER.tolist()
    frames = [
        polars.DataFrame({"tensor": polars.Series(rows, dtype=polars.Array(polars.Float64, 3))}),
        polars.DataFrame({"tensor": polars.Series(MATRICES.tolist(), dtype=polars.Array(polars.Float64, (2, 2)))}),
        polars.DataFrame({"tensor": MATRICES.tolist()}),
    ]
    for frame in frames:
        np.testing.assert_array_equal(loaded(frame).x, MATRICES)
    for frame in (pandas.DataFrame({"tensor": rows}), polars.DataFrame({"tensor": rows}), pyarrow.table({"tensor": rows})):
        np.testing.assert_array_equal(loaded(frame, layout="upper").x, MATRICES)
        with pytest.raises(
            FileError, match="so nothing public says how many numbers a record has: name the layout, full or upper"
        ):
            loaded(frame)
    # a list of another length is one invalid record
    broken = [*rows[:4], [1.0], *rows[5:]]
    for frame in (pandas.DataFrame({"tensor": broken}), polars.DataFrame({"tensor": broken})):
        points = loaded(frame, layout="upper").x
        np.testing.assert_array_equal(np.delete(points, 4, axis=0), np.delete(MATRICES, 4, axis=0))
        assert np.isnan(points[4]).all()


def test_numbers_may_be_the_names_of_columns() -> None:
    frame = pandas.DataFrame(UPPER, columns=[5, 6, 7]).assign(person=PERSONS)
    np.testing.assert_array_equal(loaded(frame, columns=[5, 6, 7]).x, MATRICES)
    np.testing.assert_array_equal(loaded(frame, columns=[0, 1, 2], unit="person").x, MATRICES)


def test_data_frames_may_come_in_chunks() -> None:
    frame = pandas.DataFrame(columns(person=PERSONS, site=SITES))

    def chunks() -> Any:
        return (frame[start : start + 25] for start in range(0, 60, 25))

    whole = frechet_mean(MATRICES, BALL)
    for x in (chunks, list(chunks())):
        found = frechet_mean(x, BALL, columns="xx, xy, yy")
        assert BALL.manifold.dist(found.point, whole.point) <= found.error_bound + whole.error_bound < 1e-11
    grouped = private_mean(chunks, BALL, 1.0, unit="person", by="site", groups=["east", "west"])
    assert {name: release.n for name, release in grouped.items()} == {"east": 10, "west": 10}


def test_rows_of_a_plain_array_need_a_layout() -> None:
    da = pytest.importorskip("dask.array")
    sources = (UPPER, UPPER.tolist(), UPPER.astype(np.float32), [UPPER[:20], UPPER[20:]], lambda: iter([UPPER[:20], UPPER[20:]]))
    expected = frechet_mean(MATRICES, BALL).point
    for x in (*sources, da.from_array(UPPER, chunks=(17, 2))):
        point = frechet_mean(x, BALL, layout="upper").point
        np.testing.assert_allclose(point, expected, rtol=1e-6)
        assert private_mean(x, BALL, 1.0, layout="upper").n == 60
    with pytest.raises(ValueError, match=r": if its rows are records, say how with layout=, upper or lower or diagonal$"):
        private_mean(UPPER, BALL, 1.0)
    with pytest.raises(FileError, match=r"the layout full of SPD\(2\) is read from 4 columns"):
        private_mean(UPPER, BALL, 1.0, layout="full")
    np.testing.assert_array_equal(loaded(np.column_stack([PERSONS, UPPER]), columns=[1, 2, 3]).x, MATRICES)


def test_rotations_of_scipy_are_points() -> None:
    rotations = Rotation.from_rotvec(0.3 * np.random.default_rng(1).normal(size=(50, 3)))
    ball = Ball(Rotations(3), np.eye(3), 1.0)
    point = frechet_mean(rotations, ball).point
    np.testing.assert_allclose(point, rotations.mean().as_matrix(), atol=0.02)  # SciPy has the chordal mean
    np.testing.assert_array_equal(point, frechet_mean(rotations.as_matrix(), ball).point)
    assert private_projected_mean(rotations, Rotations(3), 1.0).n == 50
    with pytest.raises(TypeError, match=r"^x holds SciPy rotations, which are points of Rotations\(3\) and not of SPD\(2\)$"):
        private_mean(rotations, BALL, 1.0)


def test_what_a_data_frame_raises_is_told_by_its_kind_only() -> None:
    def fail(cell: float) -> float:
        raise ValueError(f"cannot read {cell}")

    frame = polars.LazyFrame({"a": [SECRET]}).with_columns(polars.col("a").map_elements(fail, return_dtype=polars.Float64))
    with pytest.raises(ValueError, match="reading the records failed with") as caught:
        private_mean(frame, Ball(Euclidean(1), [0.0], 1.0), 1.0)
    assert "12345" not in str(caught.value)


def test_an_estimator_takes_data_frames_and_layouts() -> None:
    pytest.importorskip("sklearn")
    from geodp.estimator import PrivateFrechetMean

    named = pandas.DataFrame(columns())
    for x, layout in ((named, None), (UPPER, "upper"), (polars.DataFrame(columns()), None)):
        model = PrivateFrechetMean("SPD(2)", radius=3.0, epsilon=1e12, layout=layout).fit(x)
        np.testing.assert_allclose(model.location_, frechet_mean(MATRICES, BALL).point, atol=1e-8)
        assert model.n_features_in_ == 3
        assert model.transform(x).shape == (60, 3)
        with pytest.raises(ValueError, match="is expecting 3 features"):
            model.transform(pandas.DataFrame(MATRICES.reshape(60, 4)))


def test_those_who_have_arrays_load_no_library_of_data_frames() -> None:
    program = (
        "import sys, numpy as np, geodp; geodp.private_mean(np.eye(2)[None], geodp.Ball(geodp.SPD(2), np.eye(2), 1.0), 99.0)\n"
        "print(*sorted({'narwhals', 'pandas', 'polars', 'pyarrow', 'openpyxl', 'nibabel'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")


@pytest.mark.parametrize("lists", [False, True])
def test_frames_without_records_are_refused_only_if_their_number_is_public(lists: bool) -> None:
    """Neighbours with 1 and with 0 records must fail alike, or not at all."""
    points = {"p": [[0.1, 0.2]] * 3} if lists else {"a": [0.1] * 3, "b": [0.2] * 3}
    polar, ball = polars.DataFrame({**points, "who": ["u", "u", "v"]}), Ball(Euclidean(2), [0.0, 0.0], 1.0)
    panda = pandas.DataFrame({**points, "who": ["u", "u", "v"]})
    for x in (polar[:0], polar.lazy().head(0), panda[:0], [panda, panda[:0]], [panda[:0]], polar.to_arrow()[:0]):
        for who in ({"unit": "who"}, {"by": "who", "groups": ["u", "v"], "labels": "private"}):
            private_mean(x, ball, epsilon=1.0, neighbours="add-remove", columns=list(points), **who)
    with pytest.raises(ValueError, match=r"^the number of records n must be at least 1 but is 0$"):
        private_mean(panda[:0], ball, epsilon=1.0, unit="who", columns=list(points))
