"""Whether services elsewhere can call the addresses that they are handed."""

from __future__ import annotations

from noetl import bootstrap
from noetl.api.loopback import is_loopback
from noetl.config import Settings
from noetl.errors import NoetlError
from noetl.net.callbacks import CALLBACK, tasks_with_address
from noetl.net.codec import from_json


def describe_callbacks(settings: Settings) -> tuple[bool, str, str]:
    """Whether all is well, what there is to say, and what to do where it is not."""
    shown = f"services are handed addresses below {settings.outer_url}"
    if settings.public_url or is_loopback(settings.host):
        return True, shown, ""
    try:
        waiting = _find_waiting(settings)
    except NoetlError:
        return True, f"{shown}; the database cannot be read", ""
    if not waiting:
        return True, f"{shown}, and no playbook waits for a call", ""
    detail = f"{shown}, which may lead nowhere from elsewhere, and {waiting[0]} waits for a call"
    return False, detail, "Set NOETL_PUBLIC_URL to the address under which services reach the API."


def _find_waiting(settings: Settings) -> list[str]:
    """The paths of playbooks in which a task waits for a call of its address. Raises
    NoetlError."""
    with bootstrap.read_database(settings) as tx:
        if tx is None:
            return []
        rows = [row for row in tx.playbooks.newest() if CALLBACK in row.content]
        nets = {row.path: tx.nets.get(row.digest) for row in rows}
    return [
        path
        for path, body in nets.items()
        if body is not None and any(map(tasks_with_address, from_json(body).transitions))
    ]
