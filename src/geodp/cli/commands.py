"""The command line: ``geodp --help``."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, cast

import typer

from geodp._version import __version__
from geodp.cli import evidence, planning, receipt, releasing
from geodp.cli.budget import budget
from geodp.cli.common import say
from geodp.table import TABLE, Entry

#: The error for a command line that the parser refuses. typer exports only a subclass of it.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


class _Commands(typer.core.TyperGroup):
    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Reports errors of the parser in one sentence, like all others."""
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _UsageError as error:
            if not standalone_mode:
                raise
            if type(error).__name__ != "NoArgsIsHelpError":  # the help has already been printed
                say(_usage(error))
            code = 2
        except typer.Abort:
            if not standalone_mode:
                raise
            code = 2
        if standalone_mode:
            sys.exit(code)
        return code


#: The commands that release nothing.
_OTHERS: dict[str, Callable[..., None]] = {
    "demo": releasing.demo,
    "compare": receipt.compare,
    "plan": planning.plan,
    "receipt": receipt.receipt,
    "audit": evidence.audit,
    "check": evidence.check,
    "layouts": releasing.layouts,
}


def program(asked: str | None = None) -> typer.Typer:
    """The program; if the name of a command is ``asked``, with this one alone, because to prepare all of them takes long.

    For ``--help`` commands have no options, because those of releases are known only after their modules are imported.
    """
    return _program(asked, tuple(entry for entry in TABLE.values() if entry.place != "value"))


@cache
def _program(asked: str | None, entries: tuple[Entry, ...]) -> typer.Typer:
    app = typer.Typer(
        cls=_Commands,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        pretty_exceptions_show_locals=False,
        help="Release summaries of data on curved spaces with differential privacy.",
    )
    app.callback()(_main)
    releases = {entry.name.replace("_", "-"): entry for entry in entries}
    names = ["demo", *releases, *(name for name in _OTHERS if name != "demo"), "budget"]
    for name in [asked] if asked in names else names:
        if name == "budget":
            app.add_typer(budget, name=name)
        elif name in _OTHERS:
            app.command(name)(_OTHERS[name])
        else:
            entry = releases[name]
            app.command(name, help=entry.text)(_listed if asked == "--help" else releasing.release_command(entry))
    return app


def _listed() -> None:
    """Stands for a command where only its name and help are shown."""


def _usage(error: Any) -> str:
    sentence = re.sub(r"\. Did you mean (.*)\?$", r" (did you mean \1?)", " ".join(error.format_message().split()).rstrip("."))
    if isinstance(option := getattr(error, "option_name", None), str):
        known = [name for parameter in error.ctx.command.params for name in (*parameter.opts, *parameter.secondary_opts)]
        near = get_close_matches(option, known, 1)
        sentence = f"no such option: {option}{f' (did you mean {near[0]}?)' if near else ''}"
    option = re.match(r"Invalid value for .*?(--[\w-]+)", sentence)
    for python, kind in {"valid (number|float)": "a number", "valid int(eger)?": "a whole number"}.items():
        if option and re.search(python, sentence):
            sentence = f"{option[1]} must be {kind}"
    command = error.ctx.command_path if error.ctx is not None else "geodp"
    return f"{sentence[:1].lower()}{sentence[1:]}; see {command} --help"


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"geodp {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    # a character that the terminal cannot show must not stop a receipt: by then the budget is spent
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
