"""The layers of the package, as CONTRIBUTING.md draws them: imports point downwards, and private names stay at home.

One module alone draws for releases and charges budgets.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "geodp"


def layers() -> list[set[str]]:
    """The picture in CONTRIBUTING.md, from the bottom up: the folders and files of one line are one layer."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    picture = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert picture is not None
    rows = [re.match(r"  ([\w/ .]+?)(?:  |$)", line) for line in picture[1].splitlines()]
    return [set(row[1].split()) for row in reversed(rows) if row is not None]


def part(module: str) -> str:
    """The folder or file right below the package that a module is in."""
    first = module.split(".")[1]
    return f"{first}/" if (PACKAGE / first).is_dir() else f"{first}.py"


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        names = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(names[:-1] if names[-1] == "__init__" else names), path


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def imported(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports when it is loaded or run, not those it needs for types alone."""
    for_types = {
        id(inner)
        for node in nodes(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in nodes(path):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "geodp":
            for alias in node.names:
                inner = PACKAGE.parent.joinpath(*node.module.split("."), alias.name)
                yield f"{node.module}.{alias.name}" if inner.is_dir() or inner.with_suffix(".py").is_file() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "geodp")


def test_every_part_of_the_package_has_its_place_in_the_picture() -> None:
    drawn = set.union(*layers())
    there = {part(f"geodp.{path.stem}") for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert there - drawn == {"__init__.py", "__main__.py", "_version.py"}
    assert drawn <= there


def test_imports_point_downwards() -> None:
    height = {name: i for i, layer in enumerate(layers()) for name in layer} | {"_version.py": -1}
    upward = [
        f"{module} imports {target}"
        for module, path in modules()
        if module not in ("geodp", "geodp.__main__")
        for target in imported(path)
        # the package itself is what users import: only its outermost parts may
        if target != "geodp" and module != "geodp._version"
        if part(module) != part(target) and height[part(target)] >= height[part(module)]
    ]
    assert upward == []


def test_the_inner_layers_do_not_import_the_package_as_users_do() -> None:
    outer = set.union(*layers()[-3:])
    assert [module for module, path in modules() if "geodp" in set(imported(path)) and part(module) not in outer] == []


def test_no_module_uses_a_private_name_of_another() -> None:
    found = []
    for module, path in modules():
        own = {node.name for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        own |= {node.target.id for node in nodes(path) if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
        own |= {node.attr for node in nodes(path) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
        own |= {"_exit", "_replace", "_asdict", "_mapping", "_version"}  # of os, named tuples, rows, and the one that builds read
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("geodp"):
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Attribute):
                names = [node.attr]
            else:
                continue
            found += [f"{module}: {name}" for name in names if re.match(r"_[^_]", name) and name not in own]
    assert found == []


#: Methods that draw or charge.
SPENDING = {"charge", "draw", "draws", "draw_each", "floats", "simulate", "simulations", "attach"}
#: Who may call them besides ``release.py``, and why; all of ``noise/`` is what they are made of.
EXCUSED = {
    "auditing/mechanisms.py": "attacks draw a mechanism of their own data again and again",
    "integrations/accounting.py": "charges what another library computed and drew",
    "programs/clusters.py": "a noise made of several: its draws are theirs",
    "statistics/summary.py": "one draw with known bits, which is thrown away: it fails now rather than after the charge",
}


def spending(path: Path) -> set[str]:
    """The drawing and charging methods that a module calls."""
    calls = [node.func for node in nodes(path) if isinstance(node, ast.Call)]
    return {call.attr for call in calls if isinstance(call, ast.Attribute) and call.attr in SPENDING}


def test_one_module_alone_draws_for_releases_and_charges_budgets() -> None:
    found = {str(path.relative_to(PACKAGE)): spending(path) for _, path in modules()}
    callers = {name for name, calls in found.items() if calls and not name.startswith("noise/")}
    assert callers == {"release.py", *EXCUSED}
    assert {"charge", "attach", "draws", "simulations"} <= found["release.py"]
    # in it each is called once: no second path
    text = (PACKAGE / "release.py").read_text()
    for method in ("draws", "simulations"):
        assert text.count(f".{method}(") == 1
    assert text.count("ledger.charge(") == 1


def test_a_module_that_draws_or_charges_is_noticed(tmp_path: Path) -> None:
    for line in ("noise.draws([value])", "x = self.ledger.charge(1)", "release(plan.noise.simulate(mean, 3, rng))"):
        path = tmp_path / f"{len(line)}.py"
        path.write_text(f"def more():\n    {line}\n")
        assert spending(path)
