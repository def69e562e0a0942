"""The report: one self-contained HTML file with text, tables and figures."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from geodp.files.writing import write_whole
from geodp.study.experiment import Claim, Settings
from geodp.study.figures import Drawing, draw
from geodp.study.runner import Result, code_digest, versions
from geodp.study.table import Cell, ResultTable

#: Longer tables are shown in part; the CSV file has all rows.
ROWS_SHOWN = 24

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1a1a1a; margin: 0 auto; max-width: 62rem; padding: 1.5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1.2rem; }
h3 { margin-bottom: .3rem; } p, li { max-width: 50rem; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
.wide { overflow-x: auto; } figure { margin: 1.2rem 0; } figure img { max-width: 100%; height: auto; }
figcaption, .small { font-size: .85rem; color: #444; } details { margin: .6rem 0; } summary { cursor: pointer; }
.yes { color: #00674b; font-weight: 600; } .no { color: #b03a00; font-weight: 600; }
"""


def write_report(results: Sequence[Result], settings: Settings, seed: int, out: Path) -> bool:
    """Draws all figures, writes them and ``report.html`` to ``out``, and returns whether every claim holds."""
    sections, summary = [], []
    for result in results:
        drawings = draw(result.experiment.name, result.tables)
        for drawing in drawings:
            for kind, content in (("svg", drawing.svg), ("png", drawing.png)):
                write_whole(out / f"{result.experiment.name}-{drawing.name}.{kind}", content)
        claims = result.experiment.claims(result.tables)
        summary.append((result, claims))
        sections.append(_section(result, claims, drawings))
    body = "\n".join([_head(settings, seed, results), _claims_table(summary), *sections])
    title = "geodp study: Differential Privacy Over Riemannian Manifolds, run again"
    page = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head>'
    write_whole(out / "report.html", f"{page}\n<body>\n<h1>{title}</h1>\n{body}\n</body></html>\n".encode())
    facts = {"seed": seed, "settings": settings.name, "experiments": [r.experiment.name for r in results]}
    write_whole(out / "study.json", (json.dumps({**facts, "code": code_digest(), **versions()}, indent=2) + "\n").encode())
    return all(claim.holds for _, claims in summary for claim in claims)


def _head(settings: Settings, seed: int, results: Sequence[Result]) -> str:
    names = " ".join(r.experiment.name for r in results)
    facts = {"seed": str(seed), "settings": settings.name, "experiments": names, "source code": code_digest(), **versions()}
    facts["processor time"] = f"{sum(r.seconds for r in results):.0f} s"
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    command = f"geodp study {names} --{settings.name} --seed {seed}"
    return (
        "<p>The experiments and theorems of Reimherr, Bharath and Soto, <i>Differential Privacy Over Riemannian Manifolds</i> "
        "(2021), computed again and compared with the sharp sensitivity bound and the exact noise of geodp. Every number "
        "below comes from the CSV files next to this report; each section says how. Simulations use floating-point draws and "
        "seeds; a release never does.</p>\n"
        f"<p>Made by <code>{escape(command)}</code>. The same seed and version give the same tables, whatever the number of "
        "cores; only measured times differ.</p>\n"
        f'<div class="wide"><table>{rows}</table></div>'
    )


def _claims_table(summary: Sequence[tuple[Result, list[Claim]]]) -> str:
    rows = []
    for result, claims in summary:
        link = f'<a href="#{result.experiment.name}">{escape(result.experiment.name)}</a>'
        rows += [_claim_row(claim, f"<td>{link}</td>") for claim in claims]
    held = sum(claim.holds for _, claims in summary for claim in claims)
    heading = "<tr><th>experiment</th><th>claim</th><th>measured</th><th>verdict</th></tr>"
    total = sum(len(claims) for _, claims in summary)
    return f'<h2>What it must show: {held} of {total} hold</h2>\n<div class="wide"><table>{heading}{"".join(rows)}</table></div>'


def _claim_row(claim: Claim, first: str = "") -> str:
    verdict = '<td class="yes">holds</td>' if claim.holds else '<td class="no">does not hold</td>'
    return f"<tr>{first}<td>{escape(claim.sentence)}</td><td>{escape(claim.measured)}</td>{verdict}</tr>"


def _section(result: Result, claims: list[Claim], drawings: list[Drawing]) -> str:
    experiment = result.experiment
    parts = [f'<h2 id="{experiment.name}">{escape(experiment.title)}</h2>', f"<p>{escape(experiment.about)}</p>"]
    parts += [_figure(drawing) for drawing in drawings]
    heading = "<tr><th>claim</th><th>measured</th><th>verdict</th></tr>"
    parts.append(f'<div class="wide"><table>{heading}{"".join(map(_claim_row, claims))}</table></div>')
    parts += [f"<p>{escape(note)}</p>" for note in experiment.notes(result.tables)]
    parts.append(f"<h3>How these numbers were obtained</h3><p>{escape(experiment.how)}</p>")
    parts.append(f'<p class="small">Processor time of all tasks: {result.seconds:.1f} s.</p>')
    parts += [_table(f"{experiment.name}-{name}.csv", table) for name, table in result.tables.items()]
    return "\n".join(parts)


def _figure(drawing: Drawing) -> str:
    data = base64.b64encode(drawing.svg).decode()
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(drawing.caption, quote=True)}">'
    return f"<figure>{image}<figcaption>{escape(drawing.caption)}</figcaption></figure>"


def _table(file: str, table: ResultTable) -> str:
    numeric = [all(not isinstance(row[i], str) for row in table.rows) for i in range(len(table.columns))]
    kinds = [' class="number"' if number else "" for number in numeric]
    heading = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(table.columns, kinds, strict=True))
    rows = [
        "<tr>" + "".join(f"<td{kind}>{escape(_shown(cell))}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in table.rows[:ROWS_SHOWN]
    ]
    count = f"{len(table)} rows" if len(table) <= ROWS_SHOWN else f"the first {ROWS_SHOWN} of {len(table)} rows"
    return (
        f"<details><summary>{escape(file)}: {count}</summary>"
        f'<div class="wide"><table><tr>{heading}</tr>{"".join(rows)}</table></div></details>'
    )


def _shown(cell: Cell) -> str:
    if isinstance(cell, float):
        return "" if cell != cell else f"{cell:.5g}"
    return str(cell)
