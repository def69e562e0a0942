"""The page of measurements, from the results of the suites."""

from __future__ import annotations

from typing import Any

from benchmarks.timing import markdown

HEAD = """# Performance

After this page you can say how fast releases are, beside other libraries and beside what the machine could do at best.

This page is made by programs. To measure on your machine, and to write the page anew:

```
python -m benchmarks --json docs/performance.json
python -m benchmarks --page docs/performance.md
```

## Method

- What is compared is measured in turns in the same run, and the best of several rounds counts: a busy machine slows everybody.
  Where a peer takes many seconds it is measured once. Ratios carry over to other machines; absolute times do not. The load before
  each run is given: above the number of cores, others were using the machine, and single numbers may be twice too large.
- "2x" beside a peer means that the peer takes twice our time. The peers do less: they do not clip, and they do not certify.
- Linear algebra libraries are held to one thread for everybody; our own passes use all cores.
- *Memory bandwidth* is what one core reads in a scalar product of 256 MB with themselves, in the same run. The *kernel* is the
  compiled loop of a pass on a chunk that is in the cache, on one core. The *floor* of a pass is the larger of reading the
  records once at that bandwidth and the kernel; a mean takes passes times floor at least, on one core.
- *Compiled code* is used for means of 100,000 numbers or more: a rule of sizes, so the same call gives the same bits in every
  process. The first such call of a process loads it, which takes half a second, and the first after installation compiles it,
  which takes some seconds more: "A release, and what comes before it" has both. A server that computes many small means
  calls `geodp.compile()` when it starts, or sets the environment variable `GEODP_COMPILE` to `always`; `never` does without.
"""

ABOUT = {
    "geometry": "## Geometry",
    "mean": "## Fréchet means",
    "small": "## Small and many",
    "noise": "## Noise",
    "release": "## A release, and what comes before it",
    "scale": "## Scale\n\nWhat follows from this for larger clusters: [scale](scale.md).",
}


def page(results: dict[str, dict[str, Any]]) -> str:
    parts = [HEAD.strip()]
    for suite, result in results.items():
        quick = " (a quick run: fewer rounds, smaller data)" if result["quick"] else ""
        parts += [ABOUT[suite], f"{result['machine']['date']}{quick}: {result['described']}.", *map(markdown, result["tables"])]
    return "\n\n".join(parts) + "\n"
