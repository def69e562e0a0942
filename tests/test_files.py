"""Records come out of files as they went in, whoever wrote them, and nothing a cell holds raises or is quoted."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import time
from pathlib import Path

import numpy as np
import pytest
from cases import MANIFOLDS, every_manifold, random_points
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Manifold,
    PlanarShapes,
    Product,
    Rotations,
    SPDLogEuclidean,
    Sphere,
    data,
    private_mean,
)
from geodp.files import LAYOUTS, FileError, layouts, parse_center, parse_manifold, read_records
from geodp.inputs import Array

pandas = pytest.importorskip("pandas", reason="pandas writes the files of these tests")
pytest.importorskip("pyarrow", reason="pyarrow reads and writes Parquet")

FORMATS = ["npy", "npz", "csv", "parquet"]
every_format = pytest.mark.parametrize("extension", FORMATS)


def write(path: Path, rows: Array, names: list[str] | None = None) -> Path:
    """One row of numbers a record, in the way that users of NumPy and pandas write them."""
    names = names or [f"c{i}" for i in range(rows.shape[1])]
    match path.suffix:
        case ".npy":
            np.save(path, rows)
        case ".npz":
            np.savez(path, rows)
        case ".csv":
            pandas.DataFrame(rows, columns=names).to_csv(path, index=False)
        case ".parquet":
            pandas.DataFrame(rows, columns=names).to_parquet(path)
    return path


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


# ---------------------------------------------------------------------- layouts


@every_format
@every_manifold
def test_points_written_entry_by_entry_are_read_back(manifold: Manifold, extension: str, tmp_path: Path) -> None:
    points = random_points(manifold, 7, rng())
    read = read_records(write(tmp_path / f"x.{extension}", points.reshape(7, -1)), manifold)
    assert read.dtype == np.float64
    assert read.shape == points.shape
    # only shapes are touched: they are moved and scaled
    np.testing.assert_allclose(read, points, rtol=0.0, atol=4e-16 if "PlanarShapes" in repr(manifold) else 0.0)


@every_manifold
def test_arrays_of_points_are_read_as_they_are(manifold: Manifold, tmp_path: Path) -> None:
    points = random_points(manifold, 4, rng())
    for order in ("C", "F"):
        np.save(tmp_path / "x.npy", np.asarray(points, order=order))
        np.testing.assert_allclose(read_records(tmp_path / "x.npy", manifold), points, rtol=0.0, atol=4e-16)
    np.savez_compressed(tmp_path / "x.npz", labels=np.arange(4), records=points.astype(np.float32))
    np.testing.assert_allclose(read_records(tmp_path / "x.npz", manifold), points, rtol=1e-6, atol=1e-6)


@every_format
@pytest.mark.parametrize("manifold", [SPD(1), SPD(2), SPD(3), SPD(5), SPDLogEuclidean(4)], ids=repr)
def test_matrices_are_read_from_their_upper_triangle(manifold: SPD, extension: str, tmp_path: Path) -> None:
    points = random_points(manifold, 5, rng())
    upper = points[:, *np.triu_indices(manifold.k)]
    np.testing.assert_array_equal(read_records(write(tmp_path / f"x.{extension}", upper), manifold), points)


@pytest.mark.parametrize(
    "names",
    ["Dxx Dxy Dxz Dyy Dyz Dzz", "D11 D22 D33 D12 D13 D23", "xx yx yy zx zy zz", "c_0_0 c_1_1 c_2_2 c_0_1 c_0_2 c_1_2"],
)
def test_the_header_gives_the_order_of_matrix_entries(names: str, tmp_path: Path) -> None:
    points = random_points(SPD(3), 5, rng())
    places = [
        tuple("xyz0".find(c) if c in "xyz" else int(c) - ("_0" not in names) for c in n[-3:].replace("_", "")[-2:])
        for n in names.split()
    ]
    rows = np.stack([points[:, i, j] for i, j in places], axis=-1)
    for extension in ("csv", "parquet"):
        path = write(tmp_path / f"x.{extension}", rows, names.split())
        np.testing.assert_array_equal(read_records(path, SPD(3)), points)


def test_the_header_of_a_matrix_written_by_columns_is_obeyed(tmp_path: Path) -> None:
    points = random_points(Rotations(3), 5, rng())
    names = [f"r{i}{j}" for j in (1, 2, 3) for i in (1, 2, 3)]
    path = write(tmp_path / "x.csv", points.swapaxes(1, 2).reshape(5, 9), names)
    np.testing.assert_array_equal(read_records(path, Rotations(3)), points)


@every_format
@pytest.mark.parametrize("layout", ["matrix", "quaternion", "rotvec"])
def test_rotations_of_scipy_are_read_in_every_form(layout: str, extension: str, tmp_path: Path) -> None:
    rotations = Rotation.from_rotvec(np.random.default_rng(3).normal(size=(20, 3)))
    rotations = Rotation.concatenate([rotations, Rotation.identity(), Rotation.from_rotvec([0.0, np.pi, 0.0])])
    rows = {"matrix": rotations.as_matrix(), "quaternion": 3.0 * rotations.as_quat(), "rotvec": rotations.as_rotvec()}[layout]
    path = write(tmp_path / f"x.{extension}", rows.reshape(22, -1))
    for name in ("auto", layout):
        read = read_records(path, Rotations(3), layout=name)
        np.testing.assert_allclose(read, rotations.as_matrix(), rtol=0.0, atol=1e-15)
        assert Rotations(3).valid(read).all()


@pytest.mark.parametrize("names", ["qw qx qy qz", "w x y z", "x y z w", "qz qx qw qy"])
def test_the_header_gives_the_order_of_a_quaternion(names: str, tmp_path: Path) -> None:
    rotations = Rotation.from_rotvec(np.random.default_rng(4).normal(size=(9, 3)))
    rows = rotations.as_quat()[:, ["xyzw".index(name[-1]) for name in names.split()]]
    read = read_records(write(tmp_path / "x.csv", rows, names.split()), Rotations(3))
    np.testing.assert_allclose(read, rotations.as_matrix(), rtol=0.0, atol=1e-15)


@pytest.mark.parametrize("names", [["lat", "lon"], ["Longitude", "Latitude"], ["lng", "lat"], None])
@pytest.mark.parametrize("curvature", [1.0, 4.0])
def test_latitude_and_longitude_are_directions(names: list[str] | None, curvature: float, tmp_path: Path) -> None:
    sphere = Sphere(2, curvature=curvature)
    expected = {
        (90, 17): [0, 0, 1],
        (0, 0): [1, 0, 0],
        (0, 90): [0, 1, 0],
        (0, -180): [-1, 0, 0],
        (-30, 450): [0, 0.75**0.5, -0.5],
    }
    rows = np.array(list(expected), dtype=np.float64)
    flip = names is not None and names[0].lower() in ("lng", "longitude")
    path = write(tmp_path / "x.csv", rows[:, ::-1] if flip else rows, names)
    read = read_records(path, sphere, layout="auto" if names else "latlon")
    np.testing.assert_allclose(read, np.array(list(expected.values())) / curvature**0.5, rtol=0.0, atol=1e-15)
    assert sphere.valid(read).all()


def test_a_latitude_past_the_pole_is_an_invalid_record(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", np.array([[90.5, 0.0], [12.0, 3.0]]), ["lat", "lon"])
    assert np.isnan(read_records(path, Sphere(2))).all(axis=1).tolist() == [True, False]


CLOCK = {
    "00:00": [0, 1],
    "06:00": [1, 0],
    "12:00:00": [0, -1],
    "18:00:00.0": [-1, 0],
    "24:00": [0, 1],
    "3:00": [0.5**0.5, 0.5**0.5],
    " 01:00:00 ": [np.sin(np.pi / 12), np.cos(np.pi / 12)],
}
NO_CLOCK = ["24:01", "12:60", "7", "", "noon", "13:00 PM", "-1:00", "1:2:3", "٠٦:00"]


@pytest.mark.parametrize("header", ["time", "when", ""])
def test_clock_times_run_round_the_circle_from_midnight(header: str, tmp_path: Path) -> None:
    cells = [*CLOCK, *NO_CLOCK, "00:00"]
    (tmp_path / "x.csv").write_text("\n".join([header, *cells] if header else cells), encoding="utf-8")
    said = {"header": None if header else False, "layout": "auto" if header == "time" else "clock"}
    read = read_records(tmp_path / "x.csv", Sphere(1), **said)
    np.testing.assert_allclose(read[: len(CLOCK)], list(CLOCK.values()), rtol=0.0, atol=1e-15)
    assert np.isnan(read[len(CLOCK) : -1]).all()
    assert read[-1].tolist() == [0.0, 1.0]


def test_clock_times_are_read_from_every_format(tmp_path: Path) -> None:
    expected = 0.5 * np.array(list(CLOCK.values())[:5])
    circle = Sphere(1, curvature=4.0)
    np.save(tmp_path / "text.npy", np.array(list(CLOCK)[:5]))
    np.save(tmp_path / "bytes.npy", np.array(list(CLOCK)[:5]).astype("S"))
    pandas.DataFrame({"at": list(CLOCK)[:5]}).to_parquet(tmp_path / "text.parquet")
    pandas.DataFrame({"at": list(CLOCK)[:5]}, dtype="category").to_parquet(tmp_path / "category.parquet")
    for name in ("text.npy", "bytes.npy", "text.parquet", "category.parquet"):
        np.testing.assert_allclose(read_records(tmp_path / name, circle), expected, rtol=0.0, atol=1e-15)
    pandas.DataFrame({"at": [time(0), time(6), None, time(18, 0, 0, 500000)]}).to_parquet(tmp_path / "time.parquet")
    read = read_records(tmp_path / "time.parquet", circle)
    np.testing.assert_allclose(read[:2], expected[:2], rtol=0.0, atol=1e-15)
    assert np.isnan(read[2]).all()
    assert circle.dist(read[3], [-0.5, 0.0]) == pytest.approx(0.5 * 2.0 * np.pi * 0.5 / 86400.0, rel=1e-9)


def test_numbers_in_lists_are_no_clock_times(tmp_path: Path) -> None:
    path = tmp_path / "times.parquet"
    pandas.DataFrame({"time": [[6.0], [12.0]]}).to_parquet(path)
    with pytest.raises(FileError, match=r"the column time .* but this layout is read from clock times"):
        read_records(path, Sphere(1), layout="clock")


@every_format
def test_angles_are_read_when_their_unit_is_named_and_only_then(extension: str, tmp_path: Path) -> None:
    angles = np.array([0.0, 30.0, 90.0, 180.0, -90.0, 750.0])
    expected = np.stack([np.sin(np.deg2rad(angles)), np.cos(np.deg2rad(angles))], axis=-1)
    path = write(tmp_path / f"x.{extension}", angles[:, None])
    np.testing.assert_allclose(read_records(path, Sphere(1), layout="degrees"), expected, rtol=0.0, atol=1e-14)
    path = write(tmp_path / f"y.{extension}", np.deg2rad(angles)[:, None])
    np.testing.assert_allclose(read_records(path, Sphere(1), layout="radians"), expected, rtol=0.0, atol=1e-14)
    with pytest.raises(FileError, match="name the layout, clock or hours or degrees or radians"):
        read_records(path, Sphere(1))


@every_format
def test_compositions_are_square_roots_of_shares(extension: str, tmp_path: Path) -> None:
    parts = np.array(
        [[1.0, 1.0, 2.0], [0.0, 5e307, 1.5e308], [0.0, 0.0, 0.0], [1.0, -1e-9, 1.0], [0.0, 0.0, 3e-320], [np.inf, 1.0, 1.0]]
    )
    read = read_records(write(tmp_path / f"x.{extension}", parts), Sphere(2), layout="composition")
    expected = [[0.5, 0.5, 0.5**0.5], [0.0, 0.5, 0.75**0.5], [np.nan] * 3, [np.nan] * 3, [0.0, 0.0, 1.0], [np.nan] * 3]
    np.testing.assert_allclose(read, expected, rtol=1e-15)
    assert (read[[0, 1, 4]] >= 0.0).all()


@every_format
def test_subspaces_are_read_from_any_basis(extension: str, tmp_path: Path) -> None:
    manifold = Grassmann(2, 5)
    points = random_points(manifold, 6, rng())
    bases = points @ np.array([[3.0, 1e6], [-1.0, 2e6]])
    bases[3, :, 1] = -2.5 * bases[3, :, 0]
    bases[4] = 0.0
    path = write(tmp_path / f"x.{extension}", bases.reshape(6, 10))
    read = read_records(path, manifold, layout="basis")
    assert np.isnan(read).all(axis=(1, 2)).tolist() == [False, False, False, True, True, False]
    good = [0, 1, 2, 5]
    np.testing.assert_allclose(manifold.dist(read[good], points[good]), 0.0, atol=1e-9)
    # without its name the same file holds no orthonormal bases, and none is made of them
    np.testing.assert_array_equal(read_records(path, manifold), bases)


@every_format
def test_raw_landmarks_become_shapes(extension: str, tmp_path: Path) -> None:
    manifold = PlanarShapes(4)
    points = random_points(manifold, 6, rng())
    raw = points * np.array([1e-200, 1e200, 1.0, 7.0, 1.0, 1.0])[:, None, None]
    raw[2:4] += [[3.0, -40.0]]
    raw[4], raw[5] = [0.1, 0.7], 0.1 + 1e-17 * np.arange(8.0).reshape(4, 2)
    read = read_records(write(tmp_path / f"x.{extension}", raw.reshape(6, 8)), manifold)
    np.testing.assert_allclose(read[:4], points[:4], rtol=0.0, atol=1e-13)
    assert np.isnan(read[4:]).all()


def test_landmarks_named_x_first_then_y_are_put_in_order(tmp_path: Path) -> None:
    points = random_points(PlanarShapes(3), 6, rng())
    path = write(
        tmp_path / "x.csv", np.concatenate([points[..., 0], points[..., 1]], axis=1), ["x1", "x2", "x3", "y1", "y2", "y3"]
    )
    np.testing.assert_allclose(read_records(path, PlanarShapes(3)), points, rtol=0.0, atol=4e-16)


@every_format
@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_time_coordinate_of_hyperbolic_points_may_be_left_out(d: int, extension: str, tmp_path: Path) -> None:
    points = random_points(Hyperbolic(d), 6, rng(), spread=3.0)
    path = write(tmp_path / f"x.{extension}", points[:, 1:])
    np.testing.assert_allclose(read_records(path, Hyperbolic(d)), points, rtol=1e-15)


def test_lists_in_parquet_are_rows_and_a_list_of_another_length_is_an_invalid_record(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    points = random_points(SPD(3), 5, rng())
    nested: list[object] = [*points.tolist()]
    nested[1], nested[3] = None, points[3, :2].tolist()
    bad = [False, True, False, True, False]
    for kind in (pa.list_(pa.list_(pa.float64())), pa.large_list(pa.list_(pa.float64()))):
        pq.write_table(pa.table({"tensor": pa.array(nested, kind)}), tmp_path / "x.parquet", row_group_size=2)
        read = read_records(tmp_path / "x.parquet", SPD(3))
        np.testing.assert_array_equal(read[[0, 2, 4]], points[[0, 2, 4]])
        assert np.isnan(read).all(axis=(1, 2)).tolist() == bad
    flat = [None if i == 1 else row for i, row in enumerate(points.reshape(5, 9).tolist())]
    flat[3] = [None, *flat[3][1:]]
    for kind in (pa.list_(pa.float64(), 9), pa.list_(pa.float64())):
        try:
            pq.write_table(pa.table({"id": range(5), "tensor": pa.array(flat, kind)}), tmp_path / "x.parquet")
        except pa.ArrowNotImplementedError:  # older versions cannot write null among lists of a fixed length
            assert kind != pa.list_(pa.float64())
            continue
        layout = "auto" if pa.types.is_fixed_size_list(kind) else "full"
        read = read_records(tmp_path / "x.parquet", SPD(3), columns=["tensor"], layout=layout)
        np.testing.assert_array_equal(read[[0, 2, 4]], points[[0, 2, 4]])
        assert np.isnan(read).any(axis=(1, 2)).tolist() == bad


def test_parquet_columns_of_every_number_type_and_with_nulls_are_read(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(30, 2), pa.null()]
    columns = {str(kind): pa.array([1, None], pa.int64()).cast(kind) if kind != pa.null() else pa.nulls(2) for kind in kinds}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    read = read_records(tmp_path / "x.parquet", Euclidean(6))
    np.testing.assert_array_equal(read, [[1, 1, 1, 1, 1, np.nan], [np.nan] * 6])


def test_the_table_in_the_documentation_names_every_layout() -> None:
    assert LAYOUTS.startswith("====")
    documented = {tuple(re.findall(r"\w+", re.sub(r"\(.*?\)", "", line))[:2]) for line in LAYOUTS.splitlines()}
    for manifold in MANIFOLDS:
        for layout in layouts(manifold):
            assert (type(manifold).__name__, layout.name) in documented
        assert layouts(manifold)[0].columns == np.prod(manifold.point_shape)


# ---------------------------------------------------------------------- formats


def test_a_large_array_of_doubles_stays_on_disk(tmp_path: Path) -> None:
    points = random_points(SPD(3), 50, rng())
    for rows in (points, points.reshape(50, 9)):
        np.save(tmp_path / "x.npy", rows)
        read = read_records(tmp_path / "x.npy", SPD(3))
        assert isinstance(read, np.memmap)
        assert read.shape == (50, 3, 3)
        np.testing.assert_array_equal(read, points)


@pytest.mark.parametrize("kind", ["<f4", ">f8", "<i2", "|u1", "<f2", np.longdouble])
def test_every_real_type_becomes_float64(kind: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2).astype(kind))
    read = read_records(tmp_path / "x.npy", Euclidean(2))
    assert read.dtype == np.dtype(np.float64)
    assert read.dtype.isnative
    np.testing.assert_array_equal(read, np.arange(6.0).reshape(3, 2))


ROWS = np.array([[0.5, -1.25, 3.0], [1e-3, 2.5e10, -7.0]])


DIALECTS = {
    "header": "a,b,c\n0.5,-1.25,3\n1e-3,2.5e10,-7",
    "excel": "a;b;c\r\n0,5;-1,25;3\r\n1e-3;2,5e10;-7\r\n",
    "tabs": "a\tb\tc\n0.5\t-1.25\t3\n0.001\t2.5e10\t-7\n",
    "savetxt": "# a b c\n0.5 -1.25 3\n1e-3   2.5e10 -7\n",
    "quotes": '"a","b","c"\n"0.5","-1.25","3"\n" 1e-3",2.5e10,"-7 "\n',
    "index": ",a,b,c\n0,0.5,-1.25,3\n1,1e-3,2.5e10,-7\n",
    "numbered": ",0,1,2\n0,0.5,-1.25,3\n1,1e-3,2.5e10,-7\n",
    "trailing": "a,b,c,\r0.5,-1.25,3,\r1e-3,2.5e10,-7,\r",
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_csv_dialects_hold_the_same_numbers(dialect: str, encoding: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(DIALECTS[dialect].encode(encoding))
    np.testing.assert_array_equal(read_records(tmp_path / "x.csv", Euclidean(3)), ROWS)


# without a header the mark of UTF-16 would be part of a record
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_csv_without_a_header_holds_the_same_numbers(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes("0.5,-1.25,3\n1e-3,2.5e10,-7\n".encode(encoding))
    np.testing.assert_array_equal(read_records(tmp_path / "x.csv", Euclidean(3), header=False), ROWS)


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"])
def test_a_record_that_begins_like_an_encoding_leaves_the_others_alone(mark: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(mark + b"\n" + b"0.1,0.2,0.3\n" * 19)
    read = read_records(tmp_path / "x.csv", Euclidean(3), header=False)
    assert np.isnan(read[0]).all()
    np.testing.assert_array_equal(read[1:], np.tile([0.1, 0.2, 0.3], (19, 1)))


def test_files_of_numpy_savetxt_are_read(tmp_path: Path) -> None:
    points = random_points(SPD(3), 5, rng())
    for arguments in ({}, {"delimiter": ","}, {"delimiter": ",", "header": "a,b,c,d,e,f,g,h,i"}):
        np.savetxt(tmp_path / "x.csv", points.reshape(5, 9), **arguments)
        said = {} if "header" in arguments else {"header": False, "layout": "full"}
        np.testing.assert_allclose(read_records(tmp_path / "x.csv", SPD(3), **said), points, rtol=1e-15)


@pytest.mark.parametrize("columns", [["y", "x"], "y, x", [2, 1], "2,1", ["2", "x"], [np.int64(2), 1]])
def test_columns_are_chosen_by_name_or_position(columns: list[str | int] | str, tmp_path: Path) -> None:
    frame = pandas.DataFrame({"id": ["p1", "p2"], "x": [1.0, 2.0], "y": [3.0, 4.0]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", np.array([[0.0, 1.0, 3.0], [0.0, 2.0, 4.0]]))
    by_position = not any(name in str(columns) for name in "xy")
    for name in ("x.csv", "x.parquet", *(["x.npy"] if by_position else [])):
        np.testing.assert_array_equal(read_records(tmp_path / name, Euclidean(2), columns=columns), [[3.0, 1.0], [4.0, 2.0]])


def test_a_header_with_numbers_in_it_is_one_when_columns_are_chosen_by_its_names(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,0,1\na,1,2\nb,3,4\n")
    with pytest.raises(FileError, match=r"x\.csv must name the columns.*header=False \(--no-header\) if it is a record"):
        read_records(tmp_path / "x.csv", Euclidean(1), columns=["0"])
    assert read_records(tmp_path / "x.csv", Euclidean(1), columns=["0"], header=False).shape == (3, 1)
    np.testing.assert_array_equal(read_records(tmp_path / "x.csv", Euclidean(1), columns=["0"], header=True), [[1.0], [3.0]])
    (tmp_path / "x.csv").write_text("u,0,v\n1,9,2\n3,9,4\n")
    np.testing.assert_array_equal(read_records(tmp_path / "x.csv", Euclidean(2), columns="v,u"), [[2.0, 1.0], [4.0, 3.0]])


# ---------------------------------------------------------------------- values never raise


NO_RECORDS = [
    "",
    "  ",
    "1,2",
    "1,2,3,4",
    ",,",
    "x,2,3",
    "1,2,NA",
    '"1,2,3',
    '1,2,"',
    "1,2,3,",
    "\x00",
    "∞,1,2",
    "1;2;3",
    '""',
    "#",
    "word",
]


@pytest.mark.parametrize("line", [*NO_RECORDS, "a,b,c", "NA,NA,"])
@pytest.mark.parametrize("where", [0, 1, 3])
@pytest.mark.parametrize("header", ["", "a,b,c\n"])
def test_a_line_that_is_no_record_is_one_invalid_record_and_changes_no_other(
    line: str, where: int, header: str, tmp_path: Path
) -> None:
    if not header and line == "1;2;3":
        pytest.skip("without a header every line says what separates its cells")
    lines = [f"{i},{i + 0.25},{i + 0.5}" for i in range(5)]
    lines[where] = line
    (tmp_path / "x.csv").write_text(header + "\n".join(lines) + "\n", encoding="utf-8")
    read = read_records(tmp_path / "x.csv", Euclidean(3), header=None if header else False)
    expected = np.arange(5.0)[:, None] + [0.0, 0.25, 0.5]
    others = np.arange(5) != where
    np.testing.assert_array_equal(read[others], expected[others])
    assert np.isnan(read[where]).any()


def test_bytes_that_are_no_text_are_an_invalid_record(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"a,b\n1,2\n\xff\xfe\xfa,3\n4,5\n")
    np.testing.assert_array_equal(read_records(tmp_path / "x.csv", Euclidean(2)), [[1, 2], [np.nan, 3], [4, 5]])


def test_missing_cells_of_pandas_are_invalid_records(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"a": [1.0, np.nan, 3.0, np.nan]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        np.testing.assert_array_equal(read_records(tmp_path / name, Euclidean(1))[:, 0], [1.0, np.nan, 3.0, np.nan])


@every_manifold
def test_any_numbers_are_records_of_every_layout(manifold: Manifold, tmp_path: Path) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, np.nan, np.inf, -np.inf])
    random = rng()
    for layout in layouts(manifold):
        rows = np.concatenate([np.tile(values[:, None], layout.columns), random.choice(values, size=(200, layout.columns))])
        np.save(tmp_path / "x.npy", rows)
        if layout.clock:
            continue
        read = read_records(tmp_path / "x.npy", manifold, layout=layout.name)
        assert read.shape == (210, *manifold.point_shape)
        # each record is read by itself
        np.save(tmp_path / "y.npy", rows[::-1])
        np.testing.assert_array_equal(read_records(tmp_path / "y.npy", manifold, layout=layout.name)[::-1], read)


# ---------------------------------------------------------------------- one record decides nothing about the others


def outcome(path: Path, manifold: Manifold, **said: object) -> Array | str:
    try:
        return read_records(path, manifold, **said)
    except FileError as error:
        return str(error)


#: What one person may put into a line: every one of them once turned a vote about all lines.
LINES = [
    *NO_RECORDS,
    "06:00",
    "12",
    "1.5",
    "1;2",
    "1\t2",
    "1 2",
    "a,b",
    "lat,lon",
    "0,5;1,5",
    '"06:00"',
    "\ufeff1,2",
    "1,2,3,4,5,6,7,8,9",
]

TEXTS: dict[str, tuple[str, Manifold, list[str], dict[str, object]]] = {
    "clock": ("when", Sphere(1), ["06:00", "07:00"], {}),
    "clock, named": ("when", Sphere(1), ["06:00", "07:00"], {"layout": "clock"}),
    "time": ("time", Sphere(1), ["06:00", "07:00"], {}),
    "degrees": ("angle", Sphere(1), ["90", "180"], {"layout": "degrees"}),
    "semicolons": ("a;b", Euclidean(2), ["0,5;1,5", "1;2"], {}),
    "tabs": ("a\tb", Euclidean(2), ["1\t2", "3\t4"], {}),
    "blanks": ("# a b", Euclidean(2), ["1 2", "3 4"], {}),
    "commas": ("a,b,c", Euclidean(3), ["1,2,3", "4,5,6"], {}),
    "latlon": ("lat,lon", Sphere(2), ["10,20", "30,40"], {}),
    "id and point": ("id,a,b,c", Euclidean(3), ["p1,2,3,4", "p2,5,6,7"], {"columns": "a,b,c"}),
    "wrong": ("a,b", Euclidean(3), ["1,2", "3,4"], {}),
    "upper": ("xx,xy,yy", SPD(2), ["1,0,1", "2,0,2"], {}),
    "undeclared": ("1,2,3", Euclidean(3), ["1,2,3", "4,5,6"], {}),
    "headless": ("", Euclidean(3), ["1,2,3", "4,5,6"], {"header": False}),
    "headless, several layouts": ("", SPD(2), ["1,0,1", "2,0,2"], {"header": False}),
    "headless, named": ("", SPD(2), ["1,0,1", "2,0,2"], {"header": False, "layout": "upper"}),
    "headless, picked": ("", Euclidean(2), ["9,1,2", "9;3;4"], {"header": False, "columns": [1, 2]}),
}


@pytest.mark.parametrize("records", [1, 2, 3])
@pytest.mark.parametrize("content", TEXTS)
def test_no_line_decides_how_the_others_are_read_or_whether(content: str, records: int, tmp_path: Path) -> None:
    """Neighbouring files: the same sentence or as many records, of which all but the replaced one are the same."""
    header, manifold, kinds, said = TEXTS[content]
    lines = [kinds[i % 2] for i in range(records)]
    path = tmp_path / "x.csv"

    def read(content: list[str]) -> Array | str:
        path.write_text("".join(f"{line}\n" for line in ([header] if header else []) + content), encoding="utf-8")
        return outcome(path, manifold, **said)

    usual = read(lines)
    assert isinstance(usual, str) == (content in ("clock", "wrong", "undeclared", "headless, several layouts"))
    for line in LINES:
        for where in range(records):
            found = read([*lines[:where], line, *lines[where + 1 :]])
            if isinstance(usual, str):
                assert found == usual, (line, where)
            else:
                assert not isinstance(found, str), (line, where, found)
                assert found.shape == usual.shape, (line, where)
                others = np.arange(records) != where
                np.testing.assert_array_equal(found[others], usual[others], err_msg=f"{line!r} in line {where}")


@pytest.mark.parametrize("bad", [b"\xff", b"\xf0", b"\xc3", b"\xed\xa0\x80", b"\xe2\x82", b"\xff\xfe", b"\xfe\xff1"])
def test_bytes_that_are_no_text_leave_the_other_lines_alone(bad: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"a\n1\n" + bad + b"\n3\n")
    np.testing.assert_array_equal(read_records(tmp_path / "x.csv", Euclidean(1))[[0, 2]], [[1.0], [3.0]])
    for unit in (b"\x00\xd8", b"\x00\xdc", b"\xff\xff", b"\x00\x00"):
        text = "a\n1\n".encode("utf-16") + unit + "\n3\n".encode("utf-16")[2:]
        (tmp_path / "x.csv").write_bytes(text)
        np.testing.assert_array_equal(read_records(tmp_path / "x.csv", Euclidean(1))[[0, 2]], [[1.0], [3.0]])


def test_the_number_of_records_is_the_number_of_lines(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n\n3,4\n\n  \n")
    read = read_records(tmp_path / "x.csv", Euclidean(2))
    np.testing.assert_array_equal(read, [[1, 2], [np.nan] * 2, [3, 4], [np.nan] * 2, [np.nan] * 2])


@pytest.mark.parametrize("layout", ["full", "upper", "auto"])
@pytest.mark.parametrize("nested", [False, True])
def test_no_list_in_parquet_decides_how_long_the_others_should_be(layout: str, nested: bool, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if nested and layout == "upper":
        pytest.skip("lists of lists are whole matrices")
    kind = pa.list_(pa.list_(pa.float64())) if nested else pa.list_(pa.float64())
    usual: list[object] = (
        [[[2.0, 0.0], [0.0, 2.0]]] if nested else [[2.0, 0.0, 0.0, 2.0] if layout != "upper" else [2.0, 0.0, 2.0]]
    )
    others: list[object] = [[[1.0]], [[1.0, 2.0, 3.0]] * 3, [], None] if nested else [[1.0, 2.0, 3.0], [1.0] * 4, [1.0], [], None]
    for other in others:
        for rows in ([*usual, other], [other, *usual]):
            pq.write_table(pa.table({"m": pa.array(rows, kind)}), tmp_path / "x.parquet")
            found = outcome(tmp_path / "x.parquet", SPD(2), layout=layout)
            if layout == "auto" and not nested:
                assert isinstance(found, str)
                assert "name the layout, full or upper" in found
            else:
                np.testing.assert_array_equal(found[rows.index(usual[0])], 2.0 * np.eye(2))


def test_bytes_that_are_no_text_are_an_invalid_clock_time_in_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = pa.array([b"06:00", b"\xff\xfe", None], pa.binary()).view(pa.string())
    for column in (texts, texts.cast(pa.large_binary()).view(pa.large_string()), texts.dictionary_encode()):
        pq.write_table(pa.table({"time": column}), tmp_path / "x.parquet")
        np.testing.assert_allclose(
            read_records(tmp_path / "x.parquet", Sphere(1)), [[1, 0], [np.nan] * 2, [np.nan] * 2], atol=1e-15
        )


def test_how_long_the_longest_text_is_stays_untold(tmp_path: Path) -> None:
    said = set()
    for cell in ("1", "1234567890123"):
        np.save(tmp_path / "x.npy", np.array([["1", cell]]))
        said.add(outcome(tmp_path / "x.npy", Euclidean(2)))
    assert len(said) == 1


# ---------------------------------------------------------------------- headers that are nearly right


@pytest.mark.parametrize(
    ("names", "manifold", "sentence"),
    [
        ("Dxx,Dyy,Dzz,Dxy,Dxz,Dyx", SPD(3), "names Dxx, Dyy, Dzz, Dxy, Dxz but not Dyz: name each of the 6 numbers"),
        ("Dxx,Dyy,Dzz,Dxy,Dxz,Foo", SPD(3), "names Dxx, Dyy, Dzz, Dxy, Dxz but not Dyz"),
        ("DXX,DYY,DZZ,DXY,DXZ,D", SPDLogEuclidean(3), "names DXX, DYY, DZZ, DXY, DXZ but not DYZ"),
        ("s11,s12,s2", SPD(2), "names s11, s12 but not s22"),
        ("c_0_0,c_0_1,c_1_0,c_2_2", SPD(2), "names c_0_0, c_0_1, c_1_0 but not c11"),
        ("xx,b,c", SPD(2), "names xx but not xy, yy"),
        ("angle,x,y,z", Rotations(3), "names x, y, z but not w: name each of the 4 numbers of the layout quaternion"),
        ("qs,qx,qy,qz", Rotations(3), "names qx, qy, qz but not qw"),
        ("r11,r12,r13,r21,r22,r23,r31,r32,det", Rotations(3), "but not r33"),
        ("x1,y1,x2,y2,x3,z3", PlanarShapes(3), "names x1, y1, x2, y2, x3 but not y3"),
    ],
)
def test_a_header_that_names_some_numbers_and_not_all_is_refused(
    names: str, manifold: Manifold, sentence: str, tmp_path: Path
) -> None:
    rows = np.ones((4, names.count(",") + 1))
    for extension in ("csv", "parquet"):
        path = write(tmp_path / f"x.{extension}", rows, names.split(","))
        with pytest.raises(FileError, match=re.escape(sentence)):
            read_records(path, manifold)
    name = next(layout.name for layout in layouts(manifold) if layout.columns == rows.shape[1])
    with pytest.raises(FileError, match=re.escape(sentence)):
        read_records(path, manifold, layout=name)


@pytest.mark.parametrize(
    ("names", "manifold"),
    [
        ([f"c{i}" for i in range(16)], SPD(4)),
        ([f"feature {i}" for i in range(1, 26)], SPD(5)),
        (["v10", "v11", "v12"], SPD(2)),
        ([f"x{i}" for i in range(1, 7)], PlanarShapes(3)),
        (["proxy", "b", "c"], SPD(2)),
        (["x", "y", "z"], Rotations(3)),
        (["x", "y", "z"], SPD(2)),
        (["yaw", "b", "c", "d"], Rotations(3)),
        (["time", "b"], Sphere(1)),
    ],
)
def test_a_header_that_names_no_number_leaves_them_in_their_order(names: list[str], manifold: Manifold, tmp_path: Path) -> None:
    rows = rng().uniform(0.1, 1.0, size=(3, len(names)))
    if names[0] == "time":
        with pytest.raises(FileError, match="among them those of the layout clock"):
            read_records(write(tmp_path / "x.csv", rows, names), manifold)
        return
    expected = read_records(write(tmp_path / "x.npy", rows), manifold)
    np.testing.assert_array_equal(read_records(write(tmp_path / "x.csv", rows, names), manifold), expected)


def test_columns_beside_those_that_the_header_names_are_told_apart(tmp_path: Path) -> None:
    """Nine columns, of which six are a tensor: they are no whole matrix."""
    names = ["id", "age", "sex", "Dxx", "Dyy", "Dzz", "Dxy", "Dxz", "Dyz"]
    path = write(tmp_path / "x.csv", np.ones((3, 9)), names)
    with pytest.raises(FileError, match=r"among them those of the layout upper.*with columns=\S.* \(or --columns\)"):
        read_records(path, SPD(3))


@pytest.mark.parametrize(
    ("shape", "manifold", "sentence"),
    [
        ((3, 3, 500), SPD(3), "it looks transposed; numpy.moveaxis(x, 2, 0) has the shape (500, 3, 3)"),
        ((3, 500, 3), SPD(3), "it looks transposed; numpy.moveaxis(x, 1, 0) has the shape (500, 3, 3)"),
        ((9, 500), SPD(3), "with 9 rows and 500 columns it looks transposed; write one record a row"),
        ((3, 500), Sphere(2), "it looks transposed"),
        ((500, 10), SPD(3), "choose the columns of a record with columns= (or --columns)"),
    ],
)
def test_transposed_arrays_and_columns_too_many_are_told(
    shape: tuple[int, ...], manifold: Manifold, sentence: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.zeros(shape))
    with pytest.raises(FileError, match=re.escape(sentence)):
        read_records(tmp_path / "x.npy", manifold)
    if len(shape) == 2:
        path = write(tmp_path / "x.csv", np.zeros(shape))
        with pytest.raises(FileError, match=re.escape(sentence)):
            read_records(path, manifold)
    if len(shape) == 2 and shape[0] < 10:
        np.savetxt(tmp_path / "x.csv", np.zeros(shape), delimiter=",")
        with pytest.raises(FileError, match=f"with {shape[0]} lines of 500 cells it looks transposed"):
            read_records(tmp_path / "x.csv", manifold)


# ---------------------------------------------------------------------- files that cannot be read

SECRET = 7.7318231


def _text(text: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(text) and None


def _array(array: np.ndarray, **more: np.ndarray) -> Callable[[Path], None]:
    def save(path: Path) -> None:
        if path.suffix == ".npz":
            np.savez(path, array=array, **more)
        else:
            np.save(path, array, allow_pickle=True)

    return save


def _frame(**columns: object) -> Callable[[Path], None]:
    return lambda path: pandas.DataFrame(columns).to_parquet(path)


BAD_FILES: list[tuple[str, Callable[[Path], object], Manifold, dict[str, object], str]] = [
    ("x.csv", lambda path: None, SPD(2), {}, "there is no file"),
    ("x.csv", lambda path: path.mkdir(), SPD(2), {}, "is a folder"),
    ("x", _text("1,2,3\n"), SPD(2), {}, "must be a .npy, .npz, .csv, .csv.gz, .tsv, .tsv.gz, .parquet, "),
    ("x.zip", _text("PK"), SPD(2), {}, "x.zip as it is: unpack it first"),
    ("x.npy.gz", _text("1,2,3\n"), SPD(2), {}, "x.npy.gz as it is: unpack it first"),
    ("x.xls", _text("1,2,3\n"), SPD(2), {}, "x.xls as it is: save it as CSV or as .xlsx"),
    ("x.txt", _text("1,2,3\n"), SPD(2), {}, "if its lines are records, call it .csv"),
    ("x.json", _text("[[1, 2, 3]]"), SPD(2), {}, "write one record a line and call it .jsonl"),
    ("x.csv", _text("xx,xy,yy\n1,2,3\n"), SPD(2), {"mask": "m.nii"}, "a mask is for images"),
    ("x.csv", _text(""), SPD(2), {}, "is empty"),
    ("x.npy", _text(""), SPD(2), {}, "is empty"),
    ("x.parquet", _text(""), SPD(2), {}, "is empty"),
    ("x.csv", _text("\n \n\n"), SPD(2), {}, "must name the columns"),
    ("x.csv", _text(f"id,a,b,c,d\n{SECRET},1,2,3,4\n"), SPD(2), {}, "has 5 columns (id, a, b, c, d), but SPD(2) is read from"),
    ("x.csv", _text(f"{SECRET},1\n" * 3), SPD(2), {}, "must name the columns, but it has a number or an empty cell"),
    ("x.csv", _text(f"{SECRET},1\n" * 3), SPD(2), {"header": False}, "has no header, so nothing public says"),
    ("x.csv", _text(f"a,b,c\n{SECRET},1,2\n"), SPD(2), {"layout": "full"}, "the layout full of SPD(2) is read from 4 columns"),
    ("x.csv", _text(f"a,b,c\n{SECRET},1,2\n"), SPD(2), {"layout": "half"}, "'half': name one of auto, full, upper, "),
    ("x.csv", _text(f"a,b,c\n{SECRET},1,2\n"), SPD(2), {"columns": "a,d"}, "(a, b, c) and no single one called 'd'"),
    ("x.csv", _text(f"a,b,c\n{SECRET},1,2\n"), SPD(2), {"columns": [0, 1, 3]}, "(a, b, c) and no single one called '3'"),
    ("x.csv", _text(f"a,b,c\n{SECRET},1,2\n"), SPD(2), {"columns": [0, 1, -1]}, "no single one called '-1'"),
    ("x.csv", _text(f"{SECRET},1,2\n"), SPD(2), {"columns": "a,b,c"}, "must name the columns"),
    ("x.csv", _text(f"{SECRET},1,2\n"), SPD(2), {"columns": "0,b", "header": False}, "by position from 0, not 'b'"),
    ("x.csv", _text(f"{SECRET},1,2\n"), SPD(2), {"columns": [0, 1, -1], "header": False}, "by position from 0, not '-1'"),
    ("x.csv", _text(f"{SECRET},1,2\n"), SPD(2), {"columns": [0, 10**9], "header": False}, "not '1000000000'"),
    ("x.csv", _text(f"a,a\n{SECRET},1\n"), Euclidean(1), {"columns": "a"}, "no single one called 'a'"),
    ("x.csv", _text(f"p{SECRET},q\nr,s\n"), SPD(2), {}, "has 2 columns, but"),
    ("x.csv", _text(f"id,lat,lon\n3,{SECRET},8\n"), Sphere(2), {}, "among them those of the layout latlon"),
    ("x.csv", _text("id,time\n3,12:30\n"), Sphere(1), {}, "among them those of the layout clock"),
    ("x.csv", _text(f"u,v\n{SECRET},8\n"), Sphere(2), {}, "reads only when told how: name the layout, latlon"),
    ("x.csv", _text(f"u v\n{SECRET}\n"), Sphere(1), {}, "may name 2 columns, or one column whose name has blanks"),
    ("x.csv", _text(f"angle\n{SECRET}\n"), Sphere(1), {}, "name the layout, clock or hours or degrees or radians"),
    ("x.npy", _text(f"{SECRET},1,2\n"), SPD(2), {}, "without unpickling objects"),
    ("x.npz", _text(f"{SECRET},1,2\n"), SPD(2), {}, "without unpickling objects"),
    ("x.npy", _array(np.array([[SECRET, None, 1.0]], dtype=object)), SPD(2), {}, "without unpickling objects"),
    ("x.npz", _array(np.array([[SECRET, None, 1.0]], dtype=object)), SPD(2), {}, "without unpickling objects"),
    ("x.npy", _array(np.array([[SECRET, 1j, 1.0]])), SPD(2), {}, "dtype complex128"),
    ("x.npy", _array(np.array([[True, True, False]])), SPD(2), {}, "dtype bool"),
    ("x.npy", _array(np.array([(SECRET, 1)], dtype=[("a", "f8"), ("b", "f8")])), Euclidean(2), {}, "dtype [('a'"),
    ("x.npy", _array(np.array([[str(SECRET), "1", "2"]])), SPD(2), {}, "dtype str, but this layout is read from numbers"),
    ("x.npy", _array(np.array([[SECRET]])), Sphere(1), {"layout": "clock"}, "read from clock times as text"),
    ("x.npy", _array(np.array(SECRET)), Euclidean(1), {}, "shape (), which has no records"),
    ("x.npy", _array(np.full((4, 5), SECRET)), SPD(2), {}, "5 columns in an array of shape (4, 5)"),
    ("x.npy", _array(np.full((4, 5, 2), SECRET)), SPD(2), {}, "arrays of shape (n, 2, 2)"),
    ("x.npy", _array(np.full((4, 2, 2), SECRET)), SPD(2), {"columns": [0, 1, 2]}, "shape (4, 2, 2)"),
    ("x.npy", _array(np.full((4, 3), SECRET)), SPD(2), {"columns": "a,b,c"}, "no single one called 'a'"),
    ("x.npz", _array(np.full((4, 3), SECRET), other=np.ones(2)), SPD(2), {}, "2 arrays (array, other): call"),
    ("x.parquet", _text(f"{SECRET},1,2\n"), SPD(2), {}, "not a Parquet file"),
    ("x.parquet", _frame(a=[SECRET], b=[1.0]), SPD(2), {}, "has 2 columns (a, b), but SPD(2) is read from"),
    ("x.parquet", _frame(a=[str(SECRET)], b=["u"], c=["v"]), SPD(2), {}, "the column a of"),
    ("x.parquet", _frame(a=[True], b=[True], c=[True]), SPD(2), {}, "has the type bool"),
    ("x.parquet", _frame(a=[SECRET]), Sphere(1), {"layout": "clock"}, "type double, but this layout is read from clock times"),
    ("x.parquet", _frame(a=[[SECRET, 1.0]]), SPD(2), {}, "lists without a fixed length in its column a, so nothing public"),
    ("x.parquet", _frame(a=[[SECRET, 1.0]], b=[1.0]), SPD(2), {"layout": "upper"}, "column a besides other columns: choose"),
    ("x.parquet", _frame(a=[[[SECRET, 1.0]]]), Euclidean(2), {}, "2 deep, but a point of Euclidean(2) has shape (2,)"),
    ("x.parquet", _frame(a=[[str(SECRET), "b", "c"]]), Euclidean(1), {}, "has the type list<"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "make", "manifold", "options", "sentence"), BAD_FILES, ids=[f"{i}-{bad[4][:40]}" for i, bad in enumerate(BAD_FILES)]
)
def test_a_bad_file_gets_one_sentence_without_a_cell_of_it(
    name: str, make: Callable[[Path], object], manifold: Manifold, options: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    with pytest.raises(FileError, match=re.escape(sentence)) as caught:
        read_records(tmp_path / name, manifold, **options)
    message = str(caught.value)
    assert name in message or "has no layout" in message
    assert str(SECRET)[:5] not in message
    assert "\n" not in message
    # a traceback must not bring back what the sentence left out
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_what_the_library_behind_a_format_says_is_not_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import ArrowInvalid

    def invalid(*_: object) -> None:
        raise ArrowInvalid("Could not convert '0.1234567' with type str")

    path = write(tmp_path / "x.parquet", np.ones((2, 1)))
    monkeypatch.setattr("geodp.files.parquet.ParquetTable.numbers", invalid)
    with pytest.raises(FileError, match=r"x\.parquet cannot be read: ArrowInvalid$"):
        read_records(path, Euclidean(1))


def test_a_file_without_permission_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").write_text("1,2\n")

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileError, match=r"x\.csv cannot be read: Permission denied"):
        read_records(tmp_path / "x.csv", Euclidean(2))


def test_without_pyarrow_the_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.parquet", np.ones((2, 2)))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileError, match=re.escape("pip install 'geodp[parquet]'")):
        read_records(path, Euclidean(2))


def _saved(write: Callable[[io.BytesIO], object]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


SEEDS = {
    "npy": _saved(lambda f: np.save(f, ROWS)),
    "npz": _saved(lambda f: np.savez_compressed(f, x=ROWS)),
    "csv": b"a,b,c\n0.5,-1.25,3\n1e-3,2.5e10,-7\n",
    "parquet": _saved(lambda f: pandas.DataFrame(ROWS, columns=list("abc")).to_parquet(f)),
}


@every_format
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(noise=st.binary(max_size=300), cut=st.integers(0, 3000), at=st.integers(0, 3000))
def test_random_bytes_and_damaged_files_raise_nothing_but_file_errors(
    extension: str, noise: bytes, cut: int, at: int, tmp_path: Path
) -> None:
    path, seed = tmp_path / f"x.{extension}", SEEDS[extension]
    for content in (noise, seed[:cut] + noise, seed[:at] + noise[:4] + seed[at + len(noise[:4]) :]):
        path.write_bytes(content)
        for manifold in (Euclidean(3), Sphere(1), Rotations(3)):
            with suppress(FileError):
                assert read_records(path, manifold).shape[1:] == manifold.point_shape
            with suppress(ValueError):
                assert parse_center(path, manifold).shape == manifold.point_shape


# ---------------------------------------------------------------------- manifolds from text


@every_manifold
def test_a_manifold_is_read_from_what_it_prints(manifold: Manifold) -> None:
    assert parse_manifold(repr(manifold)) == manifold
    assert parse_manifold(repr(manifold).lower().replace("(", " (\n ").replace(",", " ,\t")) == manifold


def test_arguments_may_be_named() -> None:
    assert parse_manifold("Sphere(d=2, curvature=4)") == Sphere(2, curvature=4.0)
    assert parse_manifold("Grassmann(m=5, p=2)") == Grassmann(2, 5)
    assert parse_manifold("Product(SPD(2), Product(sphere(1)),)") == Product(SPD(2), Product(Sphere(1)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "do not fit together"),
        ("SPD(3", "do not fit together"),
        ("SPD 3", "do not fit together"),
        ("SPD\0(3)", "do not fit together"),
        ("SPD", "a name with its sizes in parentheses"),
        ("3", "a name with its sizes in parentheses"),
        ("SPD(3) and None", "a name with its sizes in parentheses"),
        ("os.system('ls')", "a name with its sizes in parentheses"),
        ("__import__('os')", "no manifold '__import__'"),
        ("Klein(2)", "no manifold 'Klein'"),
        ("SPD(three)", "only numbers"),
        ("SPD('3')", "only numbers"),
        ("SPD(True)", "only numbers"),
        ("SPD(1 + 2)", "only numbers"),
        ("SPD(*[3])", "only numbers"),
        ("SPD(Sphere(2))", "only numbers"),
        ("SPD()", "SPD takes other arguments"),
        ("SPD(2, 3)", "SPD takes other arguments"),
        ("SPD(k=2, **3)", "SPD takes other arguments"),
        ("Sphere(2, radius=1)", "Sphere takes other arguments"),
        ("SPD(0)", "at least 1 but is 0"),
        ("SPD(-1)", "at least 1 but is -1"),
        ("SPD(2.5)", "whole number but is 2.5"),
        ("SPD([2])", "whole number but is of type list"),
        ("Sphere(2, curvature=-1)", "positive and finite but is -1"),
        ("Sphere(2, curvature=1e999)", "positive and finite but is inf"),
        (f"Sphere(2, curvature=1{'0' * 400})", "too large"),
        ("Grassmann(3, 5)", "orthogonal complements"),
        ("Product()", "at least one factor"),
        ("Product(3)", "a name with its sizes in parentheses"),
        ("Product(" * 300 + ")" * 300, "do not fit together"),
        ("-" * 15_000 + "1", "cannot be read"),
        ("[" * 30_000, "longer than 20000 characters"),
    ],
)
def test_no_manifold_is_one_sentence_with_all_the_forms(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        parse_manifold(text)
    message = str(caught.value)
    written = re.findall(r"\w+\([^()]*\)", message.rpartition("write one of ")[2])
    assert {"Euclidean(d)", "Sphere(d, curvature=1)", "Grassmann(p, m)", "Product(M1, M2, ...)"} < set(written)
    assert {form.partition("(")[0] for form in written} >= {type(manifold).__name__ for manifold in MANIFOLDS}
    assert "\n" not in message
    assert len(message) < 500


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.text(max_size=40) | st.text("SPDspdroductGa(),=.0123456789 -*[]'", max_size=40))
def test_any_text_is_a_manifold_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert isinstance(parse_manifold(text), Manifold)


# ---------------------------------------------------------------------- centres


@every_manifold
def test_a_center_is_the_origin_or_its_numbers_or_a_file_of_it(manifold: Manifold, tmp_path: Path) -> None:
    point = random_points(manifold, 1, rng())[0]
    np.testing.assert_array_equal(parse_center(" Origin", manifold), manifold.origin)
    tolerance = 4e-16 if "PlanarShapes" in repr(manifold) else 0.0
    flat = ", ".join(map(repr, point.ravel().tolist()))
    np.save(tmp_path / "array.npy", point)
    np.save(tmp_path / "batch.npy", point[None])
    np.savetxt(tmp_path / "printed.csv", point.reshape(len(point), -1), fmt="%.17g", delimiter=",")
    np.savetxt(tmp_path / "row.csv", point.reshape(1, -1), fmt="%.17g", delimiter=";")
    write(tmp_path / "row.parquet", point.reshape(1, -1))
    for text in (f"{point.tolist()}", flat, f"({flat},)", *map(str, tmp_path.iterdir())):
        read = parse_center(text, manifold)
        np.testing.assert_allclose(read, point, rtol=0.0, atol=tolerance)
        assert Ball(manifold, read, 0.1).center.shape == manifold.point_shape
    np.testing.assert_allclose(parse_center(tmp_path / "row.csv", manifold), point, rtol=0.0, atol=tolerance)


def test_a_center_is_read_in_the_other_layouts_too(tmp_path: Path) -> None:
    np.testing.assert_array_equal(parse_center("2, 0.5, 1", SPD(2)), [[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(parse_center("0, 0, 0.6, 0.8", Rotations(3)), Rotation.from_quat([0, 0, 0.6, 0.8]).as_matrix())
    np.testing.assert_allclose(parse_center("[0.1, 2, -1]", Rotations(3)), Rotation.from_rotvec([0.1, 2, -1]).as_matrix())
    np.testing.assert_allclose(parse_center("[3, 4]", Hyperbolic(2)), [26**0.5, 3.0, 4.0])
    np.testing.assert_allclose(parse_center("90, 0", Sphere(2), layout="latlon"), [0.0, 0.0, 1.0], atol=1e-15)
    np.testing.assert_array_equal(parse_center("0, 0, 1", Sphere(2), layout="latlon"), [0.0, 0.0, 1.0])
    np.testing.assert_allclose(parse_center("1, 1, 2", Sphere(2), layout="composition"), [0.5, 0.5, 0.5**0.5])
    np.testing.assert_allclose(parse_center("18:00", Sphere(1, curvature=4.0)), [-0.5, 0.0], atol=1e-15)
    np.testing.assert_allclose(parse_center("180", Sphere(1), layout="degrees"), [0.0, -1.0], atol=1e-15)
    (tmp_path / "c.csv").write_text("time\n06:00\n")
    np.testing.assert_allclose(parse_center(tmp_path / "c.csv", Sphere(1)), [1.0, 0.0], atol=1e-15)
    (tmp_path / "c.csv").write_text("lon,lat\n90,0\n")
    np.testing.assert_allclose(parse_center(tmp_path / "c.csv", Sphere(2)), [0.0, 1.0, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    ("text", "manifold", "sentence"),
    [
        ("centre", Sphere(2), "neither origin nor numbers nor a file: write origin"),
        ("[1, 0", Sphere(2), "neither origin nor numbers"),
        ("[1, [0]]", Sphere(2), "neither origin nor numbers"),
        ("[1, 0, x]", Sphere(2), "neither origin nor numbers"),
        ("[1, 0, True]", Sphere(2), "neither origin nor numbers"),
        (f"1{'0' * 400}", Euclidean(1), "neither origin nor numbers"),
        ("06:00", Sphere(2), "neither origin nor numbers"),
        ("[" * 100 + "]" * 100, Sphere(2), "neither origin nor numbers"),
        ("1", Sphere(1), "has 1 number, which Sphere(1) reads only when told how: name the layout, clock or hours"),
        ("1, 0, 0, 0", Sphere(2), "has 4 numbers, but Sphere(2) is read from 3 columns"),
        ("[]", Sphere(2), "has 0 numbers"),
        ("[[1, 0, 0]]", Sphere(2), "has shape (1, 3), but one point of Sphere(2) has shape (3,)"),
        ("1, 1, 1", Sphere(2), "is not a point of Sphere(2): the norm must be 1 but is 1.73205080757"),
        ("0, 0, 0, 0", Rotations(3), "every entry must be finite"),
        ("25:00", Sphere(1), "every entry must be finite"),
        ("1e999", Euclidean(1), "every entry must be finite"),
        ("nowhere.npy", Sphere(2), "there is no file nowhere.npy"),
    ],
)  # fmt: skip
def test_no_center_is_one_sentence(text: str, manifold: Manifold, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        parse_center(text, manifold)
    assert "\n" not in str(caught.value)


def test_a_file_of_records_given_as_the_center_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"x,y,z\n{SECRET},0,1\n")
    with pytest.raises(ValueError, match=r"x\.csv is not a point of Sphere\(2\): the norm must be 1$"):
        parse_center(tmp_path / "x.csv", Sphere(2))
    (tmp_path / "x.csv").write_text(f"x,y,z\n{SECRET},0,1\n0,1,0\n")
    with pytest.raises(FileError, match=r"x\.csv holds 2 records, but the centre is one point of Sphere\(2\)$"):
        parse_center(tmp_path / "x.csv", Sphere(2))


# ---------------------------------------------------------------------- shipped data


def test_the_shipped_tensors_are_positive_definite_matrices() -> None:
    tensors = data.load("dti_tensors")
    assert tensors.shape == (965, 3, 3)
    assert SPD(3).valid(tensors).all()
    table = pandas.read_csv(Path(data.__file__).parent / "dti_tensors.csv")
    np.testing.assert_array_equal(tensors[:, 0, 2], table["Dxz"])
    np.testing.assert_array_equal(tensors[:, 2, 1], table["Dyz"])


def test_the_shipped_arrivals_are_points_of_the_circle() -> None:
    arrivals = data.load("icu_arrivals")
    assert arrivals.shape == (254, 2)
    assert Sphere(1).valid(arrivals).all()
    table = pandas.read_csv(Path(data.__file__).parent / "icu_arrivals.csv")
    minutes = pandas.to_timedelta(table["time"] + ":00").dt.total_seconds().to_numpy() / 60.0
    angle = np.arctan2(arrivals[:, 0], arrivals[:, 1]) % (2.0 * np.pi)
    np.testing.assert_allclose(angle * 720.0 / np.pi, minutes, atol=1e-9)


def test_an_unknown_data_set_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="no data set 'iris': name one of dti_tensors, icu_arrivals"):
        data.load("iris")
    assert (Path(data.__file__).parent / "README.md").read_text(encoding="utf-8").count("Licence") == 2


@pytest.mark.parametrize("name", [*(f"x.{extension}" for extension in FORMATS), "x.xlsx", "x.jsonl", "bare.csv"])
def test_a_file_without_records_is_refused_only_if_their_number_is_public(name: str, tmp_path: Path) -> None:
    path, ball = tmp_path / name, Ball(Euclidean(2), [0.0, 0.0], 1.0)
    how = {"header": False} if name == "bare.csv" else {"columns": "a, b"} if name == "x.jsonl" else {}
    if name == "x.xlsx":
        pytest.importorskip("openpyxl", reason="openpyxl writes spreadsheets")
        pandas.DataFrame({"a": [], "b": []}).to_excel(path, index=False)
    elif name in ("x.jsonl", "bare.csv"):
        path.touch()
    else:
        write(path, np.zeros((0, 2)))
    assert private_mean(path, ball, epsilon=1.0, neighbours="add-remove", **how).n >= 1
    with pytest.raises(ValueError, match=r"^the number of records n must be at least 1 but is 0$"):
        private_mean(path, ball, epsilon=1.0, **how)
