"""Progress of long work: a bar in terminals and notebooks, gone when the work is done, and a line a minute in logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

#: ``progress(iteration, done, in_all_if_known)``: passes over records are counted from 1.
Progress = Callable[[int, int, int | None], None]


@contextmanager
def followed(progress: Progress | bool | None, title: str) -> Iterator[Progress | None]:
    """What is told how far the work has come: the caller's function, a bar if the caller says True, or nothing."""
    if progress is True:
        with progress_bar(title) as bar:
            yield bar
    else:
        yield progress or None


def progress_bar(title: str) -> AbstractContextManager[Progress]:
    """A bar in a notebook, or on the error stream if that is a terminal; elsewhere a line a minute, as in the log of a job.

    A bar counts the first pass over the records, and not the passes, which depend on the data. A log is kept, so a line has no
    number of records either, which may be private.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter:
        return _in_notebook(title)
    return _in_terminal(title, console) if console.is_terminal else _in_log(title)


@contextmanager
def _in_log(title: str) -> Iterator[Progress]:
    start, lines = time.monotonic(), 0

    def show(iteration: int, done: int, total: int | None) -> None:
        nonlocal lines
        minutes = int((time.monotonic() - start) // 60.0)
        if minutes > lines:
            lines = minutes
            where = "in the first pass over the records" if iteration == 1 else "the first pass is done"
            print(f"{title}: {minutes} min, {where}", file=sys.stderr, flush=True)

    yield show


@contextmanager
def _in_terminal(title: str, console: Console) -> Iterator[Progress]:
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Bars(*columns, console=console, transient=True) as bar:
        first, further = bar.add_task(title, total=None), bar.add_task(f"{title}: to the last digit", total=None, visible=False)

        def show(iteration: int, done: int, total: int | None) -> None:
            if iteration == 1 and (total is None or done < total):
                bar.update(first, description=f"{title}: {done:,}", completed=done, total=total)
            else:
                bar.update(first, visible=False)
                bar.update(further, visible=True)

        yield show


@contextmanager
def _in_notebook(title: str) -> Iterator[Progress]:
    """A bar without numbers: a notebook may be stored while it is shown."""
    notebook: Any = import_module("IPython.display")
    handle = notebook.display(notebook.HTML(_bar(title, None)), display_id=True)
    next_time = 0.0

    def show(iteration: int, done: int, total: int | None) -> None:
        nonlocal next_time
        if time.monotonic() >= next_time:
            next_time = time.monotonic() + 0.2
            part = done / total if iteration == 1 and total else None
            handle.update(notebook.HTML(_bar(title, part)))

    try:
        yield show
    finally:
        handle.update(notebook.HTML(""))


def _bar(title: str, part: float | None) -> str:
    value = "" if part is None else f' value="{part:.2f}"'
    return f"<label>{escape(title)} <progress{value}></progress></label>"
