"""``python -m benchmarks [suite ...] [--quick] [--json FILE] [--page FILE]``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import warnings
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.page import page
from benchmarks.timing import bytes_per_second, markdown

SUITES = ("geometry", "mean", "small", "noise", "release", "scale")
LIBRARIES = ("numpy", "scipy", "numba", "python-flint", "pyriemann", "dask", "distributed")
RESULTS = Path("docs/performance.json")


def machine() -> dict[str, Any]:
    """What the numbers of a run depend on."""
    models = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "geodp": version("geodp"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": models[0] if models else platform.processor() or "unknown",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "gigabytes a second": round(bytes_per_second() / 1e9, 1),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def described(found: dict[str, Any]) -> str:
    libraries = ", ".join(f"{name} {number}" for name, number in found["libraries"].items())
    return (
        f"geodp {found['geodp']}, Python {found['python']}, {libraries}; {found['system']}, {found['processor']}, "
        f"{found['cores']} cores, load {found['load']} before the run; one core reads {found['gigabytes a second']} GB/s"
    )


def run(suite: str, quick: bool) -> dict[str, Any]:
    found = machine()
    print(f"\n## {suite}\n\n{described(found)}")
    tables = []
    # one BLAS thread for everybody: on small matrices more of them only wait for each other
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore")
        for table in import_module(f"benchmarks.{suite}").tables(quick):
            tables.append(table.to_dict())
            print(f"\n{markdown(tables[-1])}", flush=True)
    return {"machine": found, "described": described(found), "quick": quick, "tables": tables}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Time geodp beside its peers and beside the machine."
    )
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"all, or some of: {', '.join(SUITES)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller data")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the results there, beside those of other suites")
    parser.add_argument("--page", type=Path, metavar="FILE", help=f"only write this page from {RESULTS} (or --json)")
    options = parser.parse_args()
    unknown = [name for name in options.suites if name not in SUITES]
    if unknown:
        parser.error(f"no suite called {', '.join(unknown)}: choose from {', '.join(SUITES)}")
    if options.page is not None:
        results = json.loads((options.json or RESULTS).read_text())
        options.page.write_text(page({suite: results[suite] for suite in SUITES if suite in results}))
        return
    for suite in options.suites or SUITES:
        result = run(suite, options.quick)
        if options.json is not None:
            kept = json.loads(options.json.read_text()) if options.json.exists() else {}
            options.json.write_text(json.dumps({**kept, suite: result}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
