"""What commands share about their process: the runtime, the signals, the log."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from noetl import bootstrap
from noetl.config import Settings
from noetl.facts.callers import Caller
from noetl.local_access import local_caller
from noetl.store.migrate import upgrade
from noetl.usecases.runtime import Runtime

#: Where a command keeps who gives it.
_CALLER: Final = "noetl.caller"

#: Seconds after which a line that repeats is logged again.
REPEAT_S: Final = 60.0


@contextmanager
def open_runtime(base_dir: Path | None = None) -> Iterator[Runtime]:
    """A runtime over the settings' database, for commands that read and steer. Where no broker is
    set, the scheduler of another process finds in the tables what was asked for.

    `base_dir` is where relative file names of tools start, which reach what this machine's user
    does. It asks as that user.
    """
    settings = Settings.from_env()
    bootstrap.open_log(settings)
    settings.make_home()
    if not settings.database_url:
        upgrade(settings.database, settings.database_schema)
    files = settings.file_policy(() if base_dir is None else (base_dir,), started_by_user=True)
    rt = bootstrap.runtime(settings, bootstrap.dispatcher_of(settings), files=files)
    try:
        yield rt.acting_for(_caller())
    finally:
        bootstrap.close(rt)


def _caller() -> Caller:
    """Who gives this command, in one request for all of it."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return local_caller()
    caller: Caller = ctx.meta.setdefault(_CALLER, local_caller())
    return caller


@contextmanager
def run_here(base_dir: Path | None = None, shard: str | None = None) -> Iterator[Runtime]:
    """This process as the whole of NoETL, as for `noetl run`; `shard` takes the place of another
    such process. Without a directory, names of files start where those of the other execution
    did."""
    settings = Settings.from_env()
    # A traceback says nothing to people who made no mistake.
    bootstrap.open_log(settings, is_brief=settings.log_level != "DEBUG")
    drop_repeats()
    with cancel_on_signals(), bootstrap.local(settings, base_dir=base_dir, shard=shard) as rt:
        yield rt.acting_for(_caller())


def handle_signals(handler: Callable[[int, Any], object], *numbers: signal.Signals) -> dict[int, Any]:
    """Has `handler` called for those of `numbers` that this process was not started to ignore;
    returns their handlers of before.

    `nohup` has its command ignore SIGHUP, and a script's `&` SIGINT: a handler would undo that.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    handled: dict[int, Any] = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in handled:
        signal.signal(number, handler)
    return handled


@contextmanager
def cancel_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP cancel as Ctrl-C does: no other process ends what this one began."""
    before = handle_signals(signal.default_int_handler, signal.SIGTERM, signal.SIGHUP)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def drop_repeats() -> None:
    """Has this process log the same line once in `REPEAT_S` seconds: what fails in a sweep fails in
    each of them."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(one, _RepeatFilter) for one in handler.filters):
            handler.addFilter(_RepeatFilter())


class _RepeatFilter(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._recent: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = (record.name, record.getMessage())
        recent = {one: at for one, at in self._recent.items() if record.created - at < REPEAT_S}
        self._recent = {line: record.created, **recent}
        return line not in recent
