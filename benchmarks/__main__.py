"""All suites, or the named ones: ``python -m benchmarks [geometry] [mean] [noise]``."""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from importlib.metadata import version

SUITES = ("geometry", "mean", "noise")


def main() -> None:
    chosen = sys.argv[1:] or list(SUITES)
    unknown = [name for name in chosen if name not in SUITES]
    if unknown:
        sys.exit(f"no suite called {', '.join(unknown)}: choose from {', '.join(SUITES)}")
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba", "python-flint", "pyriemann"))
    print(f"geodp {version('geodp')}, Python {platform.python_version()} on {platform.machine()}, {libraries}")
    for name in chosen:
        import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
