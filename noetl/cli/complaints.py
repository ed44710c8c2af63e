"""How errors and warnings are shown on a terminal, and the exit code of each."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
from collections.abc import Iterable

import click

from noetl.errors import BadRequest, ConfigError, NoetlError, NotFound, PlaybookInvalid
from noetl.facts.json import JsonMap

log = logging.getLogger(__name__)

#: The caller's input was wrong: nothing was done.
INVALID = 2
FAILED = 1
INTERRUPTED = 130


def complain(error: NoetlError) -> int:
    """Prints the error to standard error, every problem of a playbook on its own line; returns the
    exit code."""
    message = error.message
    if isinstance(error, PlaybookInvalid) and error.problems:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        number = sum(1 for problem in error.problems if problem.severity == "error")
        file = error.problems[0].file
        message = f"{file} cannot be run: {number} error{'' if number == 1 else 's'}."
    _show_error(message)
    return INVALID if isinstance(error, BadRequest | ConfigError | NotFound | PlaybookInvalid) else FAILED


def warn_of_playbook(warnings: Iterable[JsonMap], file: str) -> None:
    """Prints what the compiler warned of (see `catalog.warnings_of`) to standard error, as `noetl
    validate` would for `file`."""
    for one in warnings:
        place = f"{file}:{one['line']}:{one['column']}" if one.get("line") else file
        code = f"[{one['code']}]" if one.get("code") else ""
        hint = f" ({one['hint']})" if one.get("hint") else ""
        click.echo(f"{place}: {word('warning', 'yellow')}{code}: {one['message']}{hint}", err=True)


def complain_of_usage(error: click.ClickException) -> int:
    """Shows what was typed wrongly as all errors are shown; returns the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(error.ctx.get_usage(), err=True)
        click.echo(f"Try '{error.ctx.command_path} --help' for help.\n", err=True)
    _show_error(error.format_message())
    return error.exit_code


def complain_of_file(error: OSError) -> int:
    """Shows what the system refused, like a full disk; without a file name it is the output."""
    what = f"{str(error.filename)!r} cannot be used" if error.filename else "The output cannot be written"
    cure = "; make room there" if error.errno == errno.ENOSPC else ""
    _show_error(f"{what}: {error.strerror or error}{cure}.")
    return FAILED


def report_internal_error(error: Exception) -> int:
    """Says in one line that NoETL is at fault, and logs the traceback for DEBUG; returns the exit
    code."""
    log.debug("A defect", exc_info=error)
    _show_error(
        f"NoETL has a defect here: {type(error).__name__}: {error}. "
        "Set NOETL_LOG_LEVEL=DEBUG for its traceback, and report it."
    )
    return FAILED


def _show_error(message: str) -> None:
    click.echo(f"{word('error', 'red')}: {message}", err=True)


def warn(message: str) -> None:
    """Prints a warning to standard error."""
    click.echo(f"{word('warning', 'yellow')}: {message}", err=True)


def word(text: str, colour: str) -> str:
    """`text` in bold and colour, where the terminal shows it."""
    return click.style(text, fg=colour, bold=True)


def hush() -> None:
    """Writes nothing more to streams whose reader has gone, also not when the interpreter flushes
    them."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
