"""Run the audits, the fuzzing and the attacks, and write docs/trust.md from what they found: ``python docs/trust.py``.

What was found is kept in docs/trust.json. ``--only SECTION`` runs a part again and keeps the rest, ``--only`` with nothing
after it only writes the page again. ``--new --only simulator exact`` audits the manifolds that have no rows there yet.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # cores are shared out here

import auditors  # noqa: E402 - in the folder of the tests, put on the path above
import numpy as np  # noqa: E402 - its threads are set above
from broken import BATTERY, SECRETS, TWINS  # noqa: E402 - in the folder of the tests
from cases import MANIFOLDS  # noqa: E402 - likewise

from geodp import SPD, Ball, Manifold, Sphere, audit  # noqa: E402 - loads linear algebra
from geodp.auditing import DRAWS, AuditResult, worst_case_pair  # noqa: E402 - likewise
from geodp.noise.exact import NotPrivate  # noqa: E402 - likewise
from geodp.noise.flat import Family  # noqa: E402 - likewise
from geodp.noise.mechanism import Kind  # noqa: E402 - likewise
from geodp.privacy.cost import Cost  # noqa: E402 - likewise
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP  # noqa: E402 - likewise
from geodp.programs.ball import plan_search, private_ball  # noqa: E402 - likewise
from geodp.request import Plan, Request  # noqa: E402 - likewise
from geodp.statistics.mean import Mean  # noqa: E402 - likewise

SEED = 2021
EPSILONS = (0.1, 1.0, 5.0)
CONFIDENCE = 0.99
N = 100
#: Test files whose subject is an attack or a promise about privacy.
ATTACKS = (
    "test_attacks*.py", "test_exact_traps.py", "test_no_leaks.py", "test_ledger_race.py", "test_properties*.py",
    "test_fuzz*.py", "test_sensitivity.py", "test_mean_certificate.py", "test_same_work.py", "test_keys.py", "test_refuted.py",
    "test_lengths.py", "test_far_hyperbolic.py", "test_chain.py",
)  # fmt: skip


class Budget:
    """How much is run. The quick one is for trying this program out; its numbers are not published."""

    def __init__(self, quick: bool, fuzz_cases: int | None) -> None:
        self.power = {"float": 20_000, "exact": 1000} if quick else {"float": DRAWS["float"], "exact": DRAWS["exact"]}
        self.grid = {"float": 1000, "exact": 100} if quick else {"float": 100_000, "exact": 2000}
        self.manifolds = MANIFOLDS[:4] if quick else MANIFOLDS
        self.known: set[int] = set()
        self.slow_cases = not quick
        self.independent = {"mean": 400, "ball": 200} if quick else {"mean": 6000, "ball": 3000}
        self.fuzz = fuzz_cases or (200 if quick else 100_000)
        self.attacks = ATTACKS[:2] if quick else ATTACKS


def ball_of(manifold: Manifold) -> Ball:
    return Ball(manifold, manifold.origin, min(0.5, 0.5 * Ball(manifold, manifold.origin, 1e-3).max_radius))


def row(result: AuditResult) -> dict[str, Any]:
    """What the page needs of a result."""
    stored = json.loads(result.to_json())
    return {name: stored[name] for name in stored if not name.startswith("loss_")}


# ------------------------------------------------------------------------------------------ sections


def power(budget: Budget) -> dict[str, Any]:
    """The worst case at epsilon 1 on the two manifolds of the paper, with the default number of draws."""
    rows = []
    for manifold in (Sphere(2), SPD(2)):
        for path, draws in budget.power.items():
            ball = Ball(manifold, manifold.origin, math.pi / 8)
            say(f"power: {manifold}, {path}")
            rows.append(row(audit(ball, N, 1.0, path=path, draws=draws, seed=SEED, confidence=CONFIDENCE)))
    return {"rows": rows}


def simulator(budget: Budget) -> dict[str, Any]:
    """Every manifold of the tests and every epsilon, with the simulator."""
    return grid(budget, "float")


def exact(budget: Budget) -> dict[str, Any]:
    """Every manifold of the tests and every epsilon, with the exact sampler."""
    return grid(budget, "exact")


def grid(budget: Budget, path: str) -> dict[str, Any]:
    jobs = [(i, epsilon, path, budget.grid[path]) for epsilon in EPSILONS for i in order(budget) if i not in budget.known]
    return {"rows": in_parallel(f"grid, {path}", audited, jobs)}


def order(budget: Budget) -> range:
    return range(len(budget.manifolds) - 1, -1, -1)  # the slow ones come first, so that no core is idle at the end


def audited(job: tuple[int, float, Any, int]) -> dict[str, Any]:
    i, epsilon, path, draws = job
    return row(
        audit(ball_of(MANIFOLDS[i]), N, epsilon, path=path, draws=draws, seed=SEED + i, confidence=CONFIDENCE, processes=1)
    )


CASES = [*BATTERY, *TWINS, *SECRETS]


def battery(budget: Budget) -> dict[str, Any]:
    """Every broken mechanism, and the same without its fault."""
    chosen = [i for i, case in enumerate(CASES) if budget.slow_cases or not case.slow]
    return {"rows": in_parallel("battery", tried, [(i, faulty) for i in chosen for faulty in (True, False)])}


def tried(job: tuple[int, bool]) -> dict[str, Any]:
    i, faulty = job
    return row(CASES[i].audited(faulty, seed=SEED)) | {"fault": CASES[i].fault, "faulty": faulty}


# ------------------------------------------------------------------------------------------ independent auditors


@dataclass(frozen=True)
class Examined:
    """A mechanism for the independent auditors, with its exact sampler; ``ball`` is None for the search of one."""

    kind: Kind
    law: Family
    ball: Ball | None
    privacy: Privacy

    @property
    def name(self) -> str:
        return "search for a ball" if self.ball is None else f"{self.kind} {self.law.capitalize()}"

    @property
    def manifold(self) -> Manifold:
        return Sphere(2) if self.ball is None else self.ball.manifold

    @property
    def cost(self) -> Cost:
        return plan_search(self.manifold, N, self.privacy).cost if self.ball is None else self.measurement.noise.cost

    @property
    def measurement(self) -> Plan:
        assert self.ball is not None
        return Request(Mean(self.ball), self.privacy, mechanism=self.kind, law=self.law).plan(N)

    def outputs(self, draws: int, faulty: bool, seed: int) -> list[Any]:
        """Outputs on two neighbouring data sets, and simulated ones of the claimed law on the first, if that can be had.

        With the fault the noise is half of what the claim asks for; a search spends ten times its epsilon.
        """
        entropy = NotPrivate(seed)
        if self.ball is None:
            spent = self.privacy.parameters()["epsilon"] * (10.0 if faulty else 1.0)
            records = np.tile([0.0, 0.0, 1.0], (2, N, 1))
            records[:, -1] = [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]
            return [np.stack([searched(x, self.manifold, spent, entropy) for _ in range(draws)]) for x in records] + [None]
        noise, statistic = self.measurement.noise, Mean(self.ball)
        used = replace(noise, scale=0.5 * noise.scale) if faulty else noise
        means = [statistic.compute(x, N) for x in worst_case_pair(self.ball, N)]
        drawn = [np.stack([used.draw(mean, entropy).value for _ in range(draws)]) for mean in means]
        return [*drawn, noise.simulate(means[0], draws, np.random.default_rng(seed))]


def searched(x: Any, manifold: Manifold, epsilon: float, entropy: NotPrivate) -> Any:
    """The centre of a ball found privately and the logarithm of its radius."""
    ball = private_ball(x, manifold, epsilon, simulate=np.random.default_rng(entropy.read(entropy.open(), 0, 64))).ball
    return np.append(ball.center, math.log(ball.radius))


CAP, TENSORS = Ball(Sphere(2), [0.0, 0.0, 1.0], math.pi / 8), Ball(SPD(2), np.eye(2), 1.0)
EXAMINED = [
    Examined("intrinsic", "laplace", CAP, PureDP(1.0)),
    Examined("intrinsic", "gaussian", CAP, ZeroConcentratedDP(0.5)),
    Examined("tangent", "laplace", TENSORS, PureDP(1.0)),
    Examined("tangent", "laplace", TENSORS, ApproximateDP(1.0, 1e-6)),
    Examined("tangent", "gaussian", TENSORS, GaussianDP(1.0)),
    Examined("tangent", "laplace", None, PureDP(1.0)),
]


def independent(budget: Budget) -> dict[str, Any]:
    """Auditors that share no code with the library's, on outputs of the exact sampler; and on the same with too little noise."""
    jobs = [
        (i, faulty, budget.independent["ball" if EXAMINED[i].ball is None else "mean"])
        for i in range(len(EXAMINED))
        for faulty in (False, True)
    ]
    return {"rows": in_parallel("independent", examined, jobs)}


def examined(job: tuple[int, bool, int]) -> dict[str, Any]:
    i, faulty, draws = job
    mechanism = EXAMINED[i]
    first, second, simulated = mechanism.outputs(draws, faulty, SEED + i)
    epsilon = mechanism.privacy.parameters().get("epsilon", 1.0)
    delta = mechanism.privacy.parameters().get("delta", 0.0 if isinstance(mechanism.privacy, PureDP) else None)
    said = auditors.opinions(
        first,
        second,
        simulated,
        mechanism.cost.delta_at,
        epsilon,
        mechanism.cost.delta_at(epsilon) if delta is None else delta,
        SEED,
        1.0 - CONFIDENCE,
    )
    return {
        "mechanism": mechanism.name,
        "manifold": repr(mechanism.manifold),
        "claim": str(mechanism.privacy),
        "draws": draws,
        "faulty": faulty,
        "opinions": [opinion.to_dict() for opinion in said],
    }


def fuzz(budget: Budget) -> dict[str, Any]:
    """The fuzzing of the whole public surface, by its own program."""
    say(f"fuzz: {budget.fuzz:,} cases")
    command = [sys.executable, "-m", "tests.fuzz", "--cases", str(budget.fuzz), "--seed", str(SEED), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if not done.stdout.strip():
        raise SystemExit(f"the fuzzing did not run:\n{done.stderr}")
    return json.loads(done.stdout)


def attacks(budget: Budget) -> dict[str, Any]:
    """The test files about attacks, run with the slow ones left out."""
    rows = []
    for path in sorted({path for pattern in budget.attacks for path in (ROOT / "tests").glob(pattern)}):
        say(f"attacks: {path.name}")
        with TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(path)]
            subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            suite = ElementTree.parse(report).getroot().find("testsuite")
        if suite is None:
            raise SystemExit(f"{path.name} did not run")
        counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
        subject = path.read_text().split('"""')[1].strip().split("\n")[0]
        rows.append({"file": path.name, "subject": subject, **counts})
    return {"rows": rows}


SECTIONS: dict[str, Callable[[Budget], dict[str, Any]]] = {
    "power": power, "simulator": simulator, "exact": exact, "battery": battery, "independent": independent,
    "attacks": attacks, "fuzz": fuzz,
}  # fmt: skip


def in_parallel(title: str, work: Callable[[Any], dict[str, Any]], jobs: list[Any]) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(work, job): i for i, job in enumerate(jobs)}
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            say(f"{title}: {len(found)} of {len(jobs)}")
    return [found[i] for i in range(len(jobs))]


def processor_seconds() -> float:
    """Of this process and of those that it started and that ended: other programs on the machine do not count."""
    return sum(os.times()[:4])


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------ the page


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def verdict(result: dict[str, Any]) -> str:
    return "consistent" if result["consistent"] else "**refuted**"


def bounded(result: dict[str, Any]) -> str:
    """The name of the bound on the number that the claim is about."""
    return next(name for name in ("epsilon_lower", "delta_lower", "rho_lower", "mu_lower") if name in result)


def best(result: dict[str, Any]) -> dict[str, Any]:
    return max(result["directions"], key=lambda direction: direction[bounded(result)])


def power_page(found: dict[str, Any]) -> str:
    head = ["manifold", "sampler", "runs on each data set", "first/second", "second/first", "bound on epsilon", "of the claim"]
    rows = [
        [
            result["manifold"], result["path"], f"{result['draws']:,}",
            *(f"{way['epsilon_lower']:.3f}" for way in result["directions"]), f"{result['epsilon_lower']:.3f}",
            f"{result['epsilon_lower'] / result['epsilon']:.0%}",
        ]
        for result in found["rows"]
    ]  # fmt: skip
    return table(head, rows)


def grid_page(rows_found: list[dict[str, Any]]) -> str:
    cells = {(r["manifold"], r["path"], r["epsilon"]): r for r in rows_found}
    manifolds = sorted({r["manifold"] for r in rows_found}, key=[repr(m) for m in MANIFOLDS].index)
    head = ["manifold", *(f"{path}, {epsilon:g}" for path in ("float", "exact") for epsilon in EPSILONS)]
    rows = [
        [name, *(f"{cells[name, path, epsilon]['epsilon_lower']:.3f}" for path in ("float", "exact") for epsilon in EPSILONS)]
        for name in manifolds
    ]
    return table(head, rows)


def grid_summary(rows_found: list[dict[str, Any]]) -> str:
    audits, runs = len(rows_found), sum(2 * r["draws"] for r in rows_found)
    refuted = [r for r in rows_found if not r["consistent"]]
    highest = max(rows_found, key=lambda r: r["epsilon_lower"] / r["epsilon"])
    at = f"{highest['manifold']}, epsilon {highest['epsilon']:g}, {highest['path']} sampler"
    return (
        f"{audits} audits, {runs:,} releases, {len(refuted)} refuted. The highest bound is "
        f"{highest['epsilon_lower'] / highest['epsilon']:.0%} of its claim ({at})."
    )


def battery_page(found: dict[str, Any]) -> str:
    rows = []
    for i in range(0, len(found["rows"]), 2):
        faulty, repaired = found["rows"][i], found["rows"][i + 1]
        asked = ", ".join(f"{name} {faulty[name]:g}" for name in ("epsilon", "delta", "rho", "mu") if name in faulty)
        claim, bound = f"{faulty['manifold']}, n = {faulty['n']}, {asked}", bounded(faulty)
        event = best(faulty)
        rows.append(
            [
                faulty["fault"], claim, f"{faulty['draws']:,}", f"{bound.removesuffix('_lower')} {faulty[bound]:.3g}",
                verdict(faulty), f"{event['event']} ({event['hits']:,} to {event['others']:,} of {event['draws']:,})",
                f"{repaired[bound]:.3g}, {verdict(repaired)}",
            ]
        )  # fmt: skip
    return table(["fault", "claim", "runs", "bound", "verdict", "the event that gave it away", "without the fault"], rows)


def independent_page(found: dict[str, Any]) -> str:
    rows = []
    for i in range(0, len(found["rows"]), 2):
        sound, faulty = found["rows"][i], found["rows"][i + 1]
        for opinion, other in zip(sound["opinions"], faulty["opinions"], strict=True):
            rows.append(
                [
                    f"{sound['mechanism']}, {sound['manifold']}, {sound['claim']}", f"{sound['draws']:,}", opinion["auditor"],
                    *(
                        f"{said['number']} {said['found']:.3g} (claim {said['claimed']:.3g}), "
                        f"{'**refuted**' if said['convicts'] else 'consistent'}"
                        for said in (opinion, other)
                    ),
                ]
            )  # fmt: skip
    return table(["mechanism", "runs", "auditor", "found", "with too little noise"], rows)


def attacks_page(found: dict[str, Any]) -> str:
    rows = [
        [f"`{r['file']}`", r["subject"].split(". ")[0], str(r["tests"]), str(r["failures"] + r["errors"]), str(r["skipped"])]
        for r in found["rows"]
    ]
    return table(["tests", "subject", "run", "failed", "skipped"], rows)


def fuzz_page(found: dict[str, Any]) -> str:
    failures = found["failures"]
    lines = [f"{found['cases']:,} cases, {len(failures)} failures.", ""]
    lines.append(table(["surface", "cases"], [[name, f"{count:,}"] for name, count in found["surfaces"].items()]))
    lines += ["", *(f"- {failure['surface']}: {failure['failure']}" for failure in failures)] if failures else []
    return "\n".join(lines)


def in_short(found: dict[str, Any]) -> dict[str, str]:
    """What was found in half a sentence each, for the first page."""
    audits = found["simulator"]["rows"] + found["exact"]["rows"]
    runs, refuted = sum(2 * row["draws"] for row in audits), sum(not row["consistent"] for row in audits)
    pairs = list(zip(found["battery"]["rows"][::2], found["battery"]["rows"][1::2], strict=True))
    convicted, acquitted = (
        sum(row["consistent"] is sound for row in rows)
        for rows, sound in zip(zip(*pairs, strict=True), (False, True), strict=True)
    )
    return {
        "grid_short": f"{len(audits)} audits with {runs:,} releases refuted {refuted or 'none'}",
        "battery_short": f"convicted {convicted} of {len(pairs)}; without the fault, {acquitted} of {len(pairs)} passed",
        "fuzz_short": f"{found['fuzz']['cases']:,} cases",
    }


PAGES: dict[str, Callable[[dict[str, Any]], str]] = {
    "power": power_page, "battery": battery_page, "independent": independent_page, "attacks": attacks_page, "fuzz": fuzz_page
}  # fmt: skip


def versions_in_use() -> str:
    libraries = ", ".join(f"{name} {version(name)}" for name in ("geodp", "numpy", "scipy", "python-flint"))
    return f"Python {platform.python_version()}, {libraries}"


def page(found: dict[str, Any]) -> str:
    """The text of trust.md.in with what was found in place of its ``{{names}}``."""
    text = (ROOT / "docs" / "trust.md.in").read_text()
    for name, write in PAGES.items():
        text = text.replace("{{" + name + "}}", write(found[name]))
    both = found["simulator"]["rows"] + found["exact"]["rows"]
    text = text.replace("{{grid}}", grid_page(both)).replace("{{grid_summary}}", grid_summary(both))
    seconds = sum(found[name]["seconds"] for name in SECTIONS)
    versions = "; ".join(dict.fromkeys(found[name]["versions"] for name in SECTIONS))
    numbers = {"versions": versions, "seed": str(SEED), "minutes": f"{seconds / 60:.0f}"}
    for name, value in (numbers | in_short(found)).items():
        text = text.replace("{{" + name + "}}", value)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=SECTIONS, help="sections to run again; the others are kept")
    parser.add_argument("--new", action="store_true", help="keep the rows of simulator and exact, and add those of new manifolds")
    parser.add_argument("--quick", action="store_true", help="a tiny budget, to try this program out; needs --out")
    parser.add_argument("--fuzz-cases", type=int, help="how many fuzz cases (100,000)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="the folder for trust.md and trust.json")
    options = parser.parse_args()
    if options.quick and options.out == ROOT / "docs":
        parser.error("--quick needs --out: its numbers are not for publication")
    store = options.out / "trust.json"
    found = json.loads(store.read_text()) if options.only is not None and store.exists() else {}
    for name in options.only if options.only is not None else SECTIONS:
        started, budget = processor_seconds(), Budget(options.quick, options.fuzz_cases)
        kept = found[name] if options.new and name in ("simulator", "exact") else {"rows": [], "seconds": 0.0}
        budget.known = {i for i, manifold in enumerate(MANIFOLDS) if repr(manifold) in {row["manifold"] for row in kept["rows"]}}
        found[name] = SECTIONS[name](budget)
        seconds = round(kept["seconds"] + 0.5 * (processor_seconds() - started), 1)  # of two cores
        if kept["rows"]:
            found[name]["rows"] += kept["rows"]
        found[name] |= {"seconds": seconds, "versions": versions_in_use()}
        store.write_text(json.dumps(found, indent=1) + "\n")
    missing = [name for name in SECTIONS if name not in found]
    if missing:
        raise SystemExit(f"still to run: --only {' '.join(missing)}")
    (options.out / "trust.md").write_text(page(found))


if __name__ == "__main__":
    main()
