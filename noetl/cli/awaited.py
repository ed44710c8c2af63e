"""What an execution waits for, as lines for people: of tasks, of slots, of what is paused and of
what is left to be done at an end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from noetl.engine.awaited import EXECUTION, who_waits
from noetl.engine.waits import join_awaited
from noetl.facts.json import JsonMap
from noetl.history.ways_on import commands_for


def wait_line(wait: JsonMap) -> str:
    """`hold waits for signal 'paid', since …, until …`."""
    since = f", since {wait['since']}" if wait["since"] else ""
    until = f", until {wait['until']}" if wait["until"] else ""
    return f"{who_waits(wait)} waits for {join_awaited(wait)}{since}{until}"


def ways_on(execution_id: str, wait: JsonMap) -> Iterator[str]:
    """The commands with which one looks further, or lets it go on."""
    yield from (f"  {command}" for command in commands_for(execution_id, wait))


# --- while it runs --------------------------------------------------------------------------------


class WaitLines:
    """One look after another in, lines out: one where something begins to wait, where what it waits
    for is paused or resumed, and where it waits no more. How many slots are taken may change with
    every look."""

    def __init__(self) -> None:
        #: Who waits, by what for.
        self._known: dict[str, str] = {}

    def lines(self, execution_id: str, waits: Sequence[JsonMap]) -> Iterator[str]:
        """`load: waits for a slot of 'k' (1 of 1 taken): noetl limits --key k`, `load: waits no
        more`."""
        now = {_wait_key(wait): wait for wait in waits}
        waiting = {who_waits(wait) for wait in waits}
        gone = [who for key, who in self._known.items() if key not in now]
        yield from (_say(who, "waits no more") for who in dict.fromkeys(gone) if who not in waiting)
        for wait in (wait for key, wait in now.items() if key not in self._known):
            commands = "; ".join(commands_for(execution_id, wait))
            yield _say(who_waits(wait), f"waits for {join_awaited(wait)}: {commands}")
        self._known = {key: who_waits(wait) for key, wait in now.items()}


def _say(who: str, text: str) -> str:
    return text if who == EXECUTION else f"{who}: {text}"


def _wait_key(wait: JsonMap) -> str:
    """What has to change for a wait to be another one."""
    what = [(one["name"], bool(one.get("slot") and one["slot"]["paused"])) for one in wait["for"]]
    return f"{who_waits(wait)}/{wait['run_id']}/{wait['kind']}/{what}"
