"""What is published with the code: citation, types, bounds of dependencies, sites of versions. ``.ci/package`` builds it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import geodp

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_is_about_this_version_and_names_the_paper() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", text, re.MULTILINE)[1] == geodp.__version__  # type: ignore[index]
    assert "name: The geodp developers" in text
    assert "Differential Privacy Over Riemannian Manifolds" in text
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    read = yaml.safe_load(text)
    assert {"cff-version", "message", "title", "authors"} <= set(read)
    assert [author["family-names"] for author in read["references"][0]["authors"]] == ["Reimherr", "Bharath", "Soto"]


def test_types_are_published() -> None:
    assert (Path(geodp.__file__).parent / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_every_dependency_has_a_lower_bound() -> None:
    wanted = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    others = [line for line in wanted if not line.startswith("geodp[")]
    assert len(others) > 20
    assert [line for line in others if not re.fullmatch(r"[\w-]+(\[\w+\])?>=[\d.]+(,<[\d.]+)?", line)] == []


def test_the_tested_versions_of_python_are_those_that_are_promised() -> None:
    promised = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    tested = re.search(r"^for version in (.*); do$", (ROOT / ".ci" / "package").read_text(), re.MULTILINE)
    assert tested is not None
    assert tested[1].split() == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


def test_the_index_of_sites_lists_versions_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    import versions

    for version in ("0.9.0", "0.10.0", "1.0.0rc1", "1.0.0", "0.1.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").touch()
    versions.write_index(tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert re.findall(r'<li><a href="(.*?)/index.html">', page) == ["1.0.0", "1.0.0rc1", "0.10.0", "0.9.0", "0.1.0"]
    assert "The newest version, 1.0.0" in page
