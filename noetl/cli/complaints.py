"""How errors and warnings are shown on a terminal, and the exit code of each."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
from collections.abc import Iterable, Iterator

import click

from noetl.errors import (
    BadRequest,
    ConfigError,
    Forbidden,
    InputsInvalid,
    NoetlError,
    NotFound,
    PlaybookInvalid,
    PrerequisitesMissing,
    Unauthenticated,
    tell_cause,
)
from noetl.facts.json import JsonMap
from noetl.facts.prerequisites import place_of

log = logging.getLogger(__name__)

#: The caller's input was wrong: nothing was done.
INVALID = 2
_INPUT = (BadRequest, ConfigError, NotFound, PlaybookInvalid, Unauthenticated, Forbidden)
FAILED = 1
INTERRUPTED = 130


def report_error(error: Exception) -> int:
    """Prints an error to standard error; returns the exit code."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return error.exit_code
        case click.ClickException():
            if isinstance(error, click.UsageError) and error.ctx is not None:
                click.echo(error.ctx.get_usage(), err=True)
                click.echo(f"Try '{error.ctx.command_path} --help' for help.\n", err=True)
            _show_error(error.format_message())
            return error.exit_code
        case NoetlError():
            _show_error(_describe(error))
            return INVALID if isinstance(error, _INPUT) else FAILED
        case OSError():
            # A full disk above all; what has no name is the output.
            name = error.filename
            what = f"{str(name)!r} cannot be used" if name else "The output cannot be written"
            cure = "; make room there" if error.errno == errno.ENOSPC else ""
            _show_error(f"{what}: {error.strerror or error}{cure}.")
        case _:
            # A traceback says nothing to people who made no mistake.
            log.debug("A defect", exc_info=error)
            _show_error(tell_cause(error))
    return FAILED


def _describe(error: NoetlError) -> str:
    """The sentence that ends what is printed: what is told one by one stands before it."""
    match error:
        case PlaybookInvalid():
            return _list_problems(error)
        case InputsInvalid(faults=faults) if faults:
            for fault in faults:
                click.echo(f"{fault['path']}: {fault['message']}", err=True)
            number = f"{len(faults)} input{'' if len(faults) == 1 else 's'}"
            return f"Nothing was started: {number} cannot be used."
        case PrerequisitesMissing(faults=faults) if faults:
            for fault in faults:
                click.echo(f"{place_of(fault)}: {fault['message']}", err=True)
            number = "1 thing is" if len(faults) == 1 else f"{len(faults)} things are"
            return (
                f"Nothing was started: {number} missing that the playbook names. What comes only while it "
                "runs is declared under `provides`."
            )
        case Unauthenticated():
            return (
                f"{error.message} Set NOETL_TOKEN to a token that is good there (`noetl token create` makes "
                "one where its database is); without it, servers on this machine are sent the one in the "
                "file `token` of the home."
            )
        case _:
            return error.message


@contextlib.contextmanager
def naming(file: str | None) -> Iterator[None]:
    """Names the file here in which what is missing stands that a server tells of; None: as it
    does. Raises PrerequisitesMissing."""
    try:
        yield
    except PrerequisitesMissing as error:
        if file is None:
            raise
        raise PrerequisitesMissing(error.message, [{**one, "file": file} for one in error.faults]) from error


def _list_problems(error: PlaybookInvalid) -> str:
    """Prints every problem of a playbook on its own line; returns the sentence that counts them."""
    for problem in error.problems:
        click.echo(str(problem), err=True)
    number = sum(1 for problem in error.problems if problem.severity == "error")
    if not error.problems:
        return error.message
    return f"{error.problems[0].file} cannot be run: {number} error{'' if number == 1 else 's'}."


def warn_of_playbook(warnings: Iterable[JsonMap], file: str) -> None:
    """Prints what the compiler warned of (see `catalog.warnings_of`) to standard error, as `noetl
    validate` would for `file`."""
    for one in warnings:
        place = f"{file}:{one['line']}:{one['column']}" if one.get("line") else file
        code = f"[{one['code']}]" if one.get("code") else ""
        hint = f" ({one['hint']})" if one.get("hint") else ""
        severity = word("note", "cyan") if _is_note(one) else word("warning", "yellow")
        click.echo(f"{place}: {severity}{code}: {one['message']}{hint}", err=True)


def _is_note(warning: JsonMap) -> bool:
    from noetl.dsl.problems import severity_of  # the language is slow to import, and most starts need none

    code = warning.get("code")
    return code is not None and severity_of(code) == "note"


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
