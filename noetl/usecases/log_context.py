"""What a thread works on, for what it logs: a service's log says of each line which execution it is
about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from noetl.pipeline.model import Call
from noetl.usecases.ports import CommandRow

_request: Final[ContextVar[str | None]] = ContextVar("noetl_request", default=None)
_command_id: Final[ContextVar[str | None]] = ContextVar("noetl_command_id", default=None)
_command: Final[ContextVar[CommandRow | None]] = ContextVar("noetl_command", default=None)
#: That of the tool at work; set and reset for each call, and so kept as it is.
at_work: Final[ContextVar[Call | None]] = ContextVar("noetl_call", default=None)


def set_request(request_id: str | None) -> None:
    """This thread answers that request; None: it has answered."""
    _request.set(request_id)


def request_id() -> str | None:
    return _request.get()


@contextmanager
def about_command(command_id: str) -> Iterator[str]:
    """This thread was handed that command, and has not claimed it yet."""
    handed, claimed = _command_id.set(command_id), _command.set(None)
    try:
        yield command_id
    finally:
        _command.reset(claimed)
        _command_id.reset(handed)


def set_claim(command: CommandRow) -> None:
    """The command that this thread was handed is its own, for as long as `about_command` lasts."""
    _command.set(command)


def ids() -> dict[str, str | int]:
    """What is known, in the order of the keys: `request`, `command`, `execution`, `step`, `run`,
    `delivery`, `iteration`, `task`, `attempt`."""
    handed, call = _command_id.get(), at_work.get()
    # A claim that was made outside of `about_command` does not count any more.
    command = None if handed is None else _command.get()
    known: dict[str, str | int | None] = {"request": _request.get(), "command": handed}
    if command is not None:
        known |= {
            "execution": command.execution_id,
            "step": command.step,
            "run": command.run_id,
            "delivery": command.attempt,
            "iteration": command.iteration,
        }
    if call is not None:
        known |= {"iteration": call.where.iteration, "task": call.task, "attempt": call.attempt}
    return {name: value for name, value in known.items() if value is not None}
