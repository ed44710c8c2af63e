"""How errors are told on a terminal, and the exit code of each."""

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
    click.echo(f"{word('error', 'red')}: {message}", err=True)
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
    """What was typed wrongly, in the words of all our errors; returns the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(error.ctx.get_usage(), err=True)
        click.echo(f"Try '{error.ctx.command_path} --help' for help.\n", err=True)
    click.echo(f"{word('error', 'red')}: {error.format_message()}", err=True)
    return error.exit_code


def complain_of_file(error: OSError) -> int:
    """What the system refused, a full disk above all. What has no name is our own output."""
    what = f"{str(error.filename)!r} cannot be used" if error.filename else "The output cannot be written"
    cure = "; make room there" if error.errno == errno.ENOSPC else ""
    click.echo(f"{word('error', 'red')}: {what}: {error.strerror or error}{cure}.", err=True)
    return FAILED


def report_internal_error(error: Exception) -> int:
    """Says in one line that this is our fault; the traceback is logged for whoever asks for it."""
    log.debug("A defect", exc_info=error)
    click.echo(
        f"{word('error', 'red')}: NoETL has a defect here: {type(error).__name__}: {error}. "
        "Set NOETL_LOG_LEVEL=DEBUG for its traceback, and report it.",
        err=True,
    )
    return FAILED


def word(text: str, colour: str) -> str:
    """`text` in bold and colour, where the terminal shows it."""
    return click.style(text, fg=colour, bold=True)


def hush() -> None:
    """Says nothing more on streams whose reader has gone, also not when the interpreter flushes
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
