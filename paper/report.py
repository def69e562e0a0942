"""The report: one self-contained HTML file with text, tables and figures."""

from __future__ import annotations

import base64
import inspect
import io
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

import matplotlib
import pandas as pd

from paper import figures
from paper.experiment import Settings
from paper.run import Result, versions

#: Longer tables are shown in part; the CSV file has all rows.
ROWS_SHOWN = 24
TITLE = "Differential Privacy Over Riemannian Manifolds, run again"

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.55 system-ui, sans-serif; color: #1a1a1a; margin: 0 auto; max-width: 62rem; padding: 1.5rem; }}
h1 {{ line-height: 1.2; }} h2 {{ margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1.2rem; }} p {{ max-width: 50rem; }}
table {{ border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }}
th, td {{ padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }}
figure {{ margin: 1.2rem 0; }} img {{ max-width: 100%; height: auto; }} figcaption {{ font-size: .85rem; color: #444; }}
</style></head><body>
<h1>{title}</h1>
<p>The experiments and theorems of Reimherr, Bharath and Soto, <i>Differential Privacy Over Riemannian Manifolds</i> (2021),
computed again and compared with the sharp sensitivity bound and the exact noise of geodp. Every number below comes from the CSV
files next to this report; each section says how. Simulations use floating-point draws and seeds; a release never does.</p>
<p>Made by <code>{command}</code>. The same seed and version give the same tables, whatever the number of cores; only measured
times differ.</p>
{facts}
<h2>What it must show: {held} of {total} hold</h2>
{claims}
{sections}
</body></html>
"""


def claims_of(results: Sequence[Result]) -> pd.DataFrame:
    """All claims, with what was measured."""
    rows = [(result.name, *claim) for result in results for claim in result.claims()]
    return pd.DataFrame(rows, columns=["experiment", "claim", "measured", "holds"])


def write_report(results: Sequence[Result], settings: Settings, seed: int, out: Path) -> bool:
    """Draws all figures, writes them and ``report.html`` to ``out``, and returns whether every claim holds."""
    names = " ".join(result.name for result in results)
    facts = {"seed": seed, "settings": settings.name, "experiments": names, **versions()}
    (out / "study.json").write_text(json.dumps(facts, indent=2) + "\n")
    claims = claims_of(results)
    page = _PAGE.format(
        title=TITLE,
        command=f"python -m paper {names} --{settings.name} --seed {seed}",
        facts=_html(pd.DataFrame(facts.items()), header=False),
        held=claims["holds"].sum(),
        total=len(claims),
        claims=_html(claims),
        sections="\n".join(_section(result, claims, out) for result in results),
    )
    (out / "report.html").write_text(page)
    return bool(claims["holds"].all())


def _section(result: Result, claims: pd.DataFrame, out: Path) -> str:
    title, about, how = (" ".join(part.split()) for part in inspect.getdoc(result.experiment).split("\n\n"))  # type: ignore[union-attr]  # every experiment has a docstring
    parts = [f'<h2 id="{result.name}">{escape(title)}</h2>', f"<p>{escape(about)}</p>", *_figures(result, out)]
    parts.append(_html(claims[claims["experiment"] == result.name].drop(columns="experiment")))
    notes = result.experiment.notes(result.tables) if hasattr(result.experiment, "notes") else []
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    parts.append(f"<h3>How these numbers were obtained</h3><p>{escape(how)}</p>")
    parts.append(f"<p>Processor time of all tasks: {result.seconds:.1f} s.</p>")
    for name, table in result.tables.items():
        first = f"the first {ROWS_SHOWN} of " if len(table) > ROWS_SHOWN else ""
        summary = f"<summary>{result.name}-{name}.csv: {first}{len(table)} rows</summary>"
        parts.append(f"<details>{summary}{_html(table.head(ROWS_SHOWN))}</details>")
    return "\n".join(parts)


def _figures(result: Result, out: Path) -> list[str]:
    """Writes the figures as PNG and SVG, and returns them with their captions."""
    parts = []
    with matplotlib.rc_context(figures.STYLE):
        for name, (figure, caption) in getattr(figures, result.name)(result.tables).items():
            file, drawing = out / f"{result.name}-{name}", io.BytesIO()
            figure.savefig(file.with_suffix(".png"), dpi=160)
            figure.savefig(drawing, format="svg", metadata={"Date": None})
            file.with_suffix(".svg").write_bytes(drawing.getvalue())
            data = base64.b64encode(drawing.getvalue()).decode()
            image = f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(caption, quote=True)}">'
            parts.append(f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>")
    return parts


def _html(table: pd.DataFrame, header: bool = True) -> str:
    if "holds" in table:
        table = table.assign(holds=["yes" if holds else "no" for holds in table["holds"]])
    with pd.option_context("display.max_colwidth", None):
        return str(table.to_html(index=False, header=header, border=0, na_rep="", float_format="{:.5g}".format))
