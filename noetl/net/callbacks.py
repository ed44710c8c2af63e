"""Which tasks of a step have an address of their own, that somebody outside calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl.net.model import Transition
from noetl.net.tasks import Task

#: What templates of such a step's tasks find the addresses under, and the key that makes them.
CALLBACK: Final = "callback"


def tasks_with_address(step: Transition) -> tuple[str, ...]:
    """The names of the tasks of `step` that wait for a call of their address, in their order."""
    return tuple(task.name for task in step.tasks if has_address(task))


def has_address(task: Task) -> bool:
    """Whether the task waits for a call of its address, alone or among other things."""
    return task.kind == "wait" and any(
        branch.get(CALLBACK) is not None for branch in (task.config, *_branches(task.config))
    )


def _branches(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in ("any", "all"):
        match config.get(key):
            case Mapping() as named:
                several = list(named.values())
            case list() | tuple() as listed:
                several = list(listed)
            case _:
                several = []
        yield from (one for one in several if isinstance(one, Mapping))
