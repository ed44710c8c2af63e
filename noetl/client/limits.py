"""Slots of keys, and pause of keys and queues."""

from __future__ import annotations

from urllib.parse import quote

from noetl.client.core import Operation, Request, ask, make_params
from noetl.facts.json import JsonMap


def queues() -> Operation[JsonMap]:
    """What waits in queues and since when, who serves them, and what workers are at, as `GET
    /api/queues` answers."""
    return ask(Request("GET", "/api/queues"))


def limits(key: str | None = None, limit: int = 100) -> Operation[JsonMap]:
    """Who has slots and who waits for them, and what is paused, as `GET /api/limits` answers."""
    return ask(Request("GET", "/api/limits", make_params(key=key, limit=limit)))


def pause_key(key: str, reason: str = "") -> Operation[bool]:
    """Gives nobody a slot of the key until it is resumed; returns whether it is paused."""
    return _steer("limits", key, "pause", {"reason": reason})


def resume_key(key: str) -> Operation[bool]:
    """Gives slots of the key again; returns whether it is paused."""
    return _steer("limits", key, "resume", None)


def pause_queue(queue: str, reason: str = "") -> Operation[bool]:
    """Has workers take nothing of the queue until it is resumed; returns whether it is paused."""
    return _steer("queues", queue, "pause", {"reason": reason})


def resume_queue(queue: str) -> Operation[bool]:
    """Has workers take work of the queue again; returns whether it is paused."""
    return _steer("queues", queue, "resume", None)


def _steer(what: str, name: str, verb: str, body: JsonMap | None) -> Operation[bool]:
    path = f"/api/{what}/{quote(name, safe='')}/{verb}"
    said = yield from ask(Request("POST", path, body=body, again=False))
    return bool(said["paused"])
