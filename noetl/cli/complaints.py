"""How errors are told on a terminal, and the exit code of each."""

from __future__ import annotations

import click

from noetl.errors import BadRequest, ConfigError, NoetlError, NotFound, PlaybookInvalid

#: The caller's input was wrong: nothing was done.
INVALID = 2
FAILED = 1


def complain(error: NoetlError) -> int:
    """Prints the error to standard error, every problem of a playbook on its own line; returns the exit code."""
    match error:
        case PlaybookInvalid() if error.problems:
            for problem in error.problems:
                click.echo(str(problem), err=True)
        case _:
            pass
    click.echo(f"{click.style('error', fg='red', bold=True)}: {error.message}", err=True)
    return INVALID if isinstance(error, BadRequest | ConfigError | NotFound | PlaybookInvalid) else FAILED
