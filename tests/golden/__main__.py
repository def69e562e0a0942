"""Golden releases: what the library released with seeded entropy when they were recorded, compared with what it releases now.

    python -m tests.golden record
    python -m tests.golden compare [PART OF A NAME ...]

They show whether a change of the code behind the public names changes any number, any charge or any word of a charge. They say
nothing about whether the numbers are right, and they hold for the versions of NumPy and SciPy they were recorded with; so they
are not part of the tests. Receipts are compared by the names that they still have.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from . import entropy

GOLDEN = Path(__file__).with_name("golden.json")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("only", nargs="*", help="parts of the names of cases: those alone")
    parser.add_argument("--file", type=Path, default=GOLDEN, help="the file of the records")
    parser.add_argument("--ignore", nargs="+", default=[], metavar="TEXT", help="leave out differences whose lines hold this")
    parser.add_argument("--times", action="store_true", help="print how long each case takes")
    given = parser.parse_intermixed_args()
    old = json.loads(given.file.read_text()) if given.file.exists() else {}
    new = run(given.only, given.times)
    for name, found in new.items():
        if "raises" in found and "refused" not in name:
            print(f"{name}: raises {found['raises']}", file=sys.stderr)
    if given.action == "record":
        kept = {**old, **new} if given.only else new
        lines = (f"{json.dumps(name)}: {json.dumps(kept[name], sort_keys=True)}" for name in sorted(kept))
        given.file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{len(new)} cases recorded")
        return 0
    lines = [line for name in new for line in differences(name, old.get(name), new[name])]
    lines += [f"{name}: this case is gone" for name in old if name not in new and not given.only]
    lines = [line for line in lines if not any(text in line for text in given.ignore)]
    print("\n".join([*lines, f"{len(lines)} differences in {len(new)} cases"]))
    return 1 if lines else 0


def run(only: list[str], times: bool) -> dict[str, Any]:
    """The records of the cases whose names hold one of these parts, or of all."""
    sys.modules["numba"] = None  # type: ignore[assignment]  # whether loops are compiled depends on what ran before
    entropy.install()
    from .cases import CASES  # after that: it imports the library
    from .record import recorded

    found = {}
    for name, case in CASES.items():
        if only and not any(part in name for part in only):
            continue
        begin = time.perf_counter()
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            found[name] = recorded(name, case)
        if times:
            print(f"{time.perf_counter() - begin:7.2f} s  {name}", flush=True)
    return found


# ---------------------------------------------------------------------- comparing


def differences(name: str, old: Any, new: Any) -> Iterator[str]:
    """One line for each difference. Names that a receipt has no longer, or did not have, are none."""
    if old is None:
        yield f"{name}: this case is new"
        return
    receipt, now = old.pop("receipt"), new.pop("receipt")
    first, second = dict(leaves(old)), dict(leaves(new))
    for place in [*first, *(place for place in second if place not in first)]:
        one, other = first.get(place, "nothing"), second.get(place, "nothing")
        if one != other:
            yield f"{name}: {place}: {one} -> {other}{how_far(one, other)}"
    for place, stored in receipt.items():
        fields = by_name(now.get(place, {}))
        for field, values in by_name(stored).items():
            if field in fields and not agree(values, fields[field]):
                yield f"{name}: receipt {place}: {field}: {shortened(values)} -> {shortened(fields[field])}"


def leaves(thing: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(thing, dict) and thing:
        for name, each in thing.items():
            yield from leaves(each, f"{place}.{name}" if place else name)
    elif isinstance(thing, list) and thing:
        for i, each in enumerate(thing):
            yield from leaves(each, f"{place}[{i}]")
    else:
        yield place, thing


def agree(values: list[Any], now: list[Any]) -> bool:
    """Whether a name has the same values, in any order; a receipt may say them in fewer places than before, or in more."""
    if len(values) == len(now):
        return Counter(map(str, values)) == Counter(map(str, now))
    return set(map(str, values)) <= set(map(str, now)) or set(map(str, now)) <= set(map(str, values))


def by_name(receipt: Any) -> dict[str, list[Any]]:
    """All values under a name, wherever in the receipt it is."""
    found: dict[str, list[Any]] = {}
    for place, value in leaves(receipt):
        name = place.rpartition(".")[2].partition("[")[0]
        found.setdefault(name, []).append(value)
    return found


def shortened(values: list[Any]) -> str:
    text = ", ".join(map(str, values))
    return text if len(text) <= 100 else f"{text[:100]}..."


def how_far(one: Any, other: Any) -> str:
    try:
        first, second = float.fromhex(one), float.fromhex(other)
    except (TypeError, ValueError):
        return ""
    return "" if first == second else f" (relative {abs(first - second) / max(abs(first), abs(second), math.ulp(0.0)):.1e})"


if __name__ == "__main__":
    sys.exit(main())
