"""What to type where an execution waits for a slot or the end of a pause."""

from __future__ import annotations

import shlex

from noetl.facts.json import JsonMap


def commands_for(execution_id: str, wait: JsonMap) -> list[str]:
    """Who has the slots that `wait` is for, or what ends the pause; empty for other waits.

    `wait` is as `engine.awaited.find_awaited` has it."""
    match wait["kind"]:
        case "slot":
            slots = [one["slot"] for one in wait["for"]]
            # How many are taken is known of this moment alone: of earlier ones nothing can be done.
            return [_command_for_key(slot) for slot in slots if slot["taken"] is not None]
        case "pause" if wait["run_id"] is None:
            return [f"noetl execution resume {execution_id} --step {shlex.quote(wait['step'])}"]
        case "pause":
            return [f"noetl limits resume {shlex.quote(one['name'])} --queue" for one in wait["for"]]
        case _:
            return []


def _command_for_key(slot: JsonMap) -> str:
    key = shlex.quote(slot["key"])
    return f"noetl limits --key {key}" if slot["paused"] is None else f"noetl limits resume {key}"
