"""Tables on pages that programs write, between two comments. The first comment names the program."""

from __future__ import annotations

from pathlib import Path


def write_table(page: Path, program: str, table: str) -> None:
    start, end = f"<!-- table of {program} -->", "<!-- end of the table -->"
    head, rest = page.read_text().split(start)
    page.write_text(f"{head}{start}\n{table}\n{end}{rest.split(end, 1)[1]}")
