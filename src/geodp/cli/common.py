"""Shared parts of the command line: where it prints, and how it refuses."""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

DEFAULT_LEDGER = "sqlite:///geodp-budget.db"


class _Screen(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Ends with code 2, like other errors. The console itself would end with 1, which means that a claim does not hold."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


screen = _Screen()
errors = Console(stderr=True)


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turns errors about public input into one sentence and exit code 2."""
    try:
        with _stdout_flushed(), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: say(str(message), "warning")
            yield
    except (ValueError, TypeError, OSError) as error:
        refuse(_plain(error))
    except typer.Exit:
        raise
    except Exception as error:  # its text, and a traceback, may hold records
        refuse(f"geodp failed inside with {type(error).__name__}; its text is hidden because it may hold data: please report it")


@contextmanager
def _stdout_flushed() -> Iterator[None]:
    """Flush stdout on exit and raise if that fails."""
    try:
        yield
    finally:
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise


def refuse(sentence: str) -> NoReturn:
    """Prints a sentence on the error stream and ends with exit code 2."""
    say(sentence)
    raise typer.Exit(2) from None


def say(sentence: str, kind: str = "error") -> None:
    """Prints a sentence on the error stream."""
    errors.print(f"[bold red]{kind}:[/] {escape(sentence)}", highlight=False, soft_wrap=True)


def _plain(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    sentence = str(error)
    if sentence.startswith(("give exactly one of epsilon", "give the privacy to spend", "a delta goes with")):
        sentence = re.sub(r"\b(epsilon|delta|rho|mu)\b", r"--\1", sentence)
    for python, option in _PYTHON_NAMES.items():
        sentence = re.sub(python, option, sentence)
    return sentence


#: Rewrites Python argument names as command-line options.
_PYTHON_NAMES = {
    r"\b\w+=('[^']*') \((?:or )?(--[\w-]+)\)": r"\2 \1",  # columns='lat, lon' (or --columns)
    r"\b\w+=\w* \((?:or )?(--[\w-]+)\)": r"\1",  # columns= (or --columns)
    r"\bbound='(\w+)'": r"--bound \1",
    r"\bpass what to_json returned\b": "give a file that geodp mean --out wrote",
    r"\bleave n out\b": "leave --records out",
    r"^n is (\d+)": r"--records is \1",
    r"\bname the layout, ": "name the layout with --layout, ",
    r"\bopen (it|a data set) with its total budget( first)?$": r"open \1 with geodp budget open\2",
    r"\bcompose='(\w+)'": r"--compose \1",
    r"^compose (is|must)\b": r"--compose \1",
    r"\bmechanism='(\w+)'": r"--mechanism \1",
    r"\blaw='(\w+)'": r"--law \1",
    r"\bstart from a wide ball, such as one of radius=": "start from a wide --radius, such as ",
}
