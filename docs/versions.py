"""The sites of several versions side by side: ``python docs/versions.py FOLDER`` builds this one into ``FOLDER/<version>/``.

Versions that are there already stay as they are. ``FOLDER/index.html`` leads to the newest and lists all of them, newest first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import geodp

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>geodp</title>
<h1>geodp</h1>
<p><a href="{newest}/index.html">The newest version, {newest}</a></p>
<ul>
{rows}
</ul>
</html>
"""


def order(version: str) -> tuple[object, ...]:
    """Newer versions are larger: by their numbers, and one without a suffix after one with (1.0rc1 < 1.0)."""
    found = re.match(r"[\d.]*\d", version)
    numbers, suffix = (found[0], version[found.end() :]) if found else ("", version)
    return tuple(int(part) for part in numbers.split(".") if part), suffix == "", suffix


def write_index(folder: Path) -> None:
    versions = sorted((page.parent.name for page in folder.glob("*/index.html")), key=order, reverse=True)
    rows = "\n".join(f'<li><a href="{version}/index.html">{version}</a></li>' for version in versions)
    (folder / "index.html").write_text(PAGE.format(newest=versions[0], rows=rows), encoding="utf-8")


def main(folder: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    subprocess.run([*command, str(Path(__file__).parent), str(folder / geodp.__version__)], check=True)
    write_index(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/_build/versions"))
