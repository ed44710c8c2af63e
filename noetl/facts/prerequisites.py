"""What is not there that a playbook names, as errors and answers have it."""

from __future__ import annotations

from noetl.facts.json import JsonMap

_POSITION = ("file", "line", "column")


def place_of(fault: JsonMap) -> str:
    """Where the playbook names it: `file:line:column, step 'load'`."""
    position = ":".join(str(fault[key]) for key in _POSITION if fault.get(key) is not None)
    who = f"step {fault['step']!r}" if fault.get("step") else f"keychain entry {fault.get('entry')!r}"
    return f"{position}, {who}"
