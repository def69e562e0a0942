"""Manifolds by name: the library's own, and those of packages that it has never heard of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from cases import MANIFOLDS, every_manifold

import geodp
from geodp.files import parse_manifold
from geodp.manifolds import register
from geodp.manifolds.registry import find, form, forms, registered

#: A manifold by the public API alone: the sphere of half the size, by delegation to the library's own.
PACKAGE = """
from dataclasses import dataclass
from functools import cached_property

from geodp.manifolds import Manifold, Sphere


@dataclass(frozen=True, repr=False)
class Marble(Manifold):
    d: int

    @cached_property
    def sphere(self):
        return Sphere(self.d, curvature=4.0)

    roots = property(lambda self: self.sphere.roots)
    point_shape = property(lambda self: self.sphere.point_shape)
    origin = property(lambda self: self.sphere.origin)
    chart_units = property(lambda self: self.sphere.chart_units)
    embedding = property(lambda self: self.sphere.embedding)


def delegated(name):
    return lambda self, *arguments: getattr(self.sphere, name)(*arguments)


for name in (
    "raw_exp raw_log raw_dist raw_tangent raw_coordinates raw_move_origin raw_project "
    "log_rounding requirements exact_chart from_chart"
).split():
    setattr(Marble, name, delegated(name))
Marble.__abstractmethods__ = frozenset()
"""

#: What one who installed that package can do without importing it.
USE = """
import numpy as np

import geodp
from geodp.files import LAYOUTS, parse_manifold
from geodp.testing import check_manifold

marble = parse_manifold("product(Marble(2), Euclidean(1))").factors[0]
print(repr(marble), marble.curvature, "Marble(d)" in LAYOUTS)
check_manifold(marble)
ball = geodp.Ball(marble, marble.origin, 0.3)
release = geodp.private_mean(np.tile(marble.origin, (50, 1)), ball, epsilon=1.0)
print(release.private, marble.check_point(release.value))
anywhere = geodp.private_projected_mean(np.tile(marble.origin, (5000, 1)), marble, epsilon=1.0)
print(marble.dist(anywhere.value, marble.origin) < 0.1)
"""


def test_every_class_of_the_library_is_known_by_name_and_written_as_its_signature_says():
    names = {kind.__name__ for kind in registered()}
    assert names >= {type(manifold).__name__ for manifold in MANIFOLDS}
    exported = {name for name in geodp.__all__ if isinstance(getattr(geodp, name), type)}
    assert names >= {name for name in exported if issubclass(getattr(geodp, name), geodp.Manifold)} - {"Manifold"}
    assert form(geodp.Grassmann) == "Grassmann(p, m)"
    assert form(geodp.Sphere) == "Sphere(d, curvature=1)"
    assert "Torus(d)" in forms()


@every_manifold
def test_the_text_of_a_manifold_names_it(manifold):
    assert parse_manifold(repr(manifold)) == manifold
    assert find(type(manifold).__name__.upper()) is type(manifold)


def test_a_name_that_is_taken_is_refused():
    other = type("Sphere", (geodp.Manifold,), {"__module__": "elsewhere"})
    with pytest.raises(ValueError, match=r"the name Sphere is taken by geodp\.manifolds\.sphere\.Sphere"):
        register(other)
    assert register(geodp.Sphere) is geodp.Sphere


@pytest.mark.slow
def test_an_installed_package_adds_a_manifold_through_its_entry_point_alone(tmp_path: Path):
    """Pip installs a wheel of it, to a folder of its own; Python and the command line then know its manifold by name."""
    wheel, information, site = tmp_path / "marbles-1.0-py3-none-any.whl", "marbles-1.0.dist-info", tmp_path / "site"
    files = {
        "marbles.py": textwrap.dedent(PACKAGE),
        f"{information}/METADATA": "Metadata-Version: 2.1\nName: marbles\nVersion: 1.0\n",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{information}/entry_points.txt": "[geodp.manifolds]\nMarble = marbles:Marble\n",
    }
    files[f"{information}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{information}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)

    def run(*arguments: str) -> list[str]:
        search = os.pathsep.join([str(site), str(Path(geodp.__file__).parent.parent)])
        environment = os.environ | {"PYTHONPATH": search}
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    run("-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile", "--target", str(site), str(wheel))
    assert run("-c", USE) == ["Marble(2) 4.0 True", "True None", "True"]
    (tmp_path / "points.csv").write_text("x,y,z\n" + "0,0,0.5\n" * 50)
    told = run("-m", "geodp", "mean", "points.csv", "-m", "Marble(2)", "-c", "[0, 0, 0.5]", "-r", "0.3", "-e", "1")
    assert told[0] == "PRIVATE MEAN"
    assert any(line.split() == ["manifold", "Marble(2)"] for line in told)


def test_an_entry_point_that_cannot_be_loaded_is_a_warning_and_the_others_work(tmp_path: Path):
    information = tmp_path / "broken-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[geodp.manifolds]\nGone = no_such_module:Gone\n")
    path = [str(tmp_path), str(Path(geodp.__file__).parent.parent)]
    program = f"import sys; sys.path[:0] = {path!r}\nfrom geodp.manifolds.registry import forms\nprint(len(forms()) > 10)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "True\n"
    assert "the manifold Gone of no_such_module:Gone could not be loaded" in done.stderr


def test_the_guide_lists_the_whole_contract_and_says_what_must_be_written():
    guide = (Path(__file__).parent.parent / "docs" / "manifold.md").read_text()
    rows = [row.split("|")[1:3] for row in guide.splitlines() if row.startswith("| `")]
    listed = {name: when.strip() for names, when in rows for name in re.findall(r"`(\w+)`", names)}
    members = {name for name, member in vars(geodp.Manifold).items() if not name.startswith("_")}
    used = {name for name, member in vars(geodp.Manifold).items() if getattr(member, "__final__", False)} | {
        "read_points",
        "all_requirements",
    }
    derived = {"dim", "rank", "curvature", "lowest_curvature", "injectivity_radius", "diameter", "volume_bound", "volume_entropy"}
    assert set(listed) == members - used - derived
    assert {name for name, when in listed.items() if when == "always"} == geodp.Manifold.__abstractmethods__
