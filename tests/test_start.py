"""What a new process has to load: little for what needs little."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(program: str) -> set[str]:
    """The modules that a new process has loaded at its end."""
    code = f"import sys\n{program}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    return set(done.stderr.split())


RUN = """
import geodp.cli
sys.argv = ["geodp", *{}]
try:
    geodp.cli.main()
except SystemExit as end:
    assert end.code in (0, None)
"""
MEAN = """
import geodp
x = [[0.0, 0.0, 1.0]] * 50
geodp.private_mean(x, geodp.Ball(geodp.Sphere(2), x[0], 0.5), epsilon=5.0)
"""
PLAN = ["plan", "--manifold", "Sphere(2)", "--radius", "0.39", "--records", "1000", "--epsilon", "1"]


@pytest.mark.parametrize(
    ("program", "without"),
    [
        ("import geodp", {"numpy", "scipy", "numba", "flint", "typer"}),
        (RUN.format(["--version"]), {"numpy", "typer", "rich"}),
        (RUN.format(["--help"]), {"scipy", "sqlalchemy", "numba", "flint", "matplotlib", "sklearn", "dask"}),
        (RUN.format(PLAN), {"scipy", "numpy.ma", "sqlalchemy", "numba", "matplotlib", "sklearn", "dask"}),
        (MEAN, {"scipy", "sqlalchemy", "numba", "matplotlib", "typer"}),
    ],
    ids=["import", "version", "help", "plan", "a small mean"],
)
def test_a_new_process_loads_no_more_than_it_needs(program: str, without: set[str]) -> None:
    assert loaded_by(program) & without == set()


def test_every_name_of_the_package_is_found_when_it_is_used() -> None:
    program = "import geodp\nfor name in geodp.__all__:\n    assert getattr(geodp, name) is not None, name\nassert dir(geodp)"
    assert "geodp.manifolds.spd" in loaded_by(program)


def test_what_tells_the_version_agrees_with_the_program() -> None:
    quick, slow = (
        subprocess.run(
            [sys.executable, "-m", "geodp", *arguments], capture_output=True, text=True, check=True, timeout=300
        ).stdout
        for arguments in (["--version"], ["--version", "plan"])
    )
    assert quick == slow
