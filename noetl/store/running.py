"""The stack that `noetl up` runs on a home: who holds the home, and where its parts are found.

Whoever runs a stack holds a lock on a file of the home for as long as the process lives, however it
ends. The note beside it counts only while somebody holds that lock: what a killed process left
behind is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from noetl.errors import Conflict
from noetl.store import file_lock
from noetl.store.file_lock import LockState, hold_lock

_LOCK: Final = "up.lock"
_NOTE: Final = "up.json"


@dataclass(frozen=True, slots=True)
class RunningStack:
    """Where the parts of a running stack are. `flower` is None where there is none; `database` is
    shown without its password, and the URL of the `broker` may hold one. `pids` are by service.
    `token` is the file with the first token, None where it began in another home; `needs_token`:
    requests from this machine need one."""

    api: str
    flower: str | None
    database: str
    broker: str
    broker_about: str
    logs: str
    pids: Mapping[str, int]
    token: str | None = None
    needs_token: bool = False


def find(home: Path) -> RunningStack | None:
    """The stack that runs on `home` and answers already, if there is one."""
    if not is_held(home):
        return None
    try:
        return RunningStack(**json.loads((home / _NOTE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def is_held(home: Path) -> bool:
    """Whether a stack runs on `home`, also one that is just starting or stopping."""
    return file_lock.is_held(home / _LOCK)


@contextmanager
def hold_home(home: Path) -> Iterator[None]:
    """Holds `home` for this process while the block runs. Raises Conflict where another stack
    does."""
    with hold_lock(home / _LOCK) as lock:
        if lock.found is LockState.BUSY:
            running = find(home)
            where = f" ({running.api})" if running is not None else ""
            raise Conflict(
                f"Another `noetl up` uses {home}{where}; stop it with `noetl down`, or set NOETL_HOME to "
                "another directory."
            )
        _remove_note(home)
        try:
            yield
        finally:
            _remove_note(home)


def write_note(home: Path, stack: RunningStack) -> None:
    """Tells other programs where the parts are; readers see the old note or the new one, never half
    of it."""
    text = json.dumps(asdict(stack))
    path = home / _NOTE
    if path.exists() and path.read_text() == text:
        return
    # The broker's URL may hold a password.
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


def _remove_note(home: Path) -> None:
    (home / _NOTE).unlink(missing_ok=True)
