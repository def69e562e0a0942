"""The command line: ``geodp --help``."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer

from geodp._version import __version__
from geodp.cli import evidence, releasing, spread
from geodp.cli.budget import budget
from geodp.cli.common import say
from geodp.cli.planning import plan_command
from geodp.cli.receipt import receipt_command

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


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    help="Release summaries of data on curved spaces with differential privacy.",
)
app.command()(releasing.demo)
app.command()(releasing.ball)
app.command()(releasing.mean)
app.command()(releasing.coverage)
app.command()(spread.variance)
app.command()(spread.covariance)
app.command(name="compare")(spread.compare_command)
app.command(name="plan")(plan_command)
app.add_typer(budget, name="budget")
app.command(name="receipt")(receipt_command)
app.command(name="audit")(evidence.audit_command)
app.command()(releasing.check)
app.command()(releasing.layouts)


def leave_only(name: str) -> None:
    """Leaves the command of this name, if there is one, in the program: to prepare all the others takes a tenth of a second."""
    named = [each for each in app.registered_commands if name == (each.name or getattr(each.callback, "__name__", None))]
    if named:
        app.registered_commands, app.registered_groups = named, []


def _usage(error: Any) -> str:
    sentence = " ".join(error.format_message().split()).rstrip(".")
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


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    # a character that the terminal cannot show must not stop a receipt: by then the budget is spent
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
