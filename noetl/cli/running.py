"""Finding the `noetl up` of a home, where one runs."""

from __future__ import annotations

import json
from pathlib import Path

from noetl.config import Settings
from noetl.facts.json import JsonMap
from noetl.store.file_lock import is_held


def lock_of(settings: Settings) -> Path:
    """What a running stack holds."""
    return settings.home_dir / "up.lock"


def note_of(settings: Settings) -> Path:
    """Where a running stack writes how it is found. A stack that was killed leaves it behind: see `running_stack`."""
    return settings.home_dir / "up.json"


def running_stack(settings: Settings) -> JsonMap | None:
    """`{api, flower, broker, pids}` of the stack that runs in this home; None where there is none, or it has not come so
    far."""
    if not is_held(lock_of(settings)):
        return None
    try:
        note: JsonMap = json.loads(note_of(settings).read_text())
    except (OSError, ValueError):
        return None
    return note
