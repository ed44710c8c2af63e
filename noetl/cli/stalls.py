"""How a process ends that runs executions itself and cannot go on with them: an error says why, and
what goes on with them later."""

from __future__ import annotations

from collections.abc import Callable

from noetl.dispatch.local import LocalDispatcher
from noetl.errors import Unavailable
from noetl.usecases.runtime import Runtime


def leave_execution(execution_id: str, why: str) -> Unavailable:
    """The error of a process that leaves an execution as it is."""
    return Unavailable(
        f"{why} Execution {execution_id} is left as it is. Once that is mended, "
        f"`noetl execution resume {execution_id}` goes on with it, and `noetl execution cancel "
        f"{execution_id}` ends it."
    )


def leave_operation(operation_id: str, why: str) -> Unavailable:
    """The same of an operation."""
    return Unavailable(
        f"{why} Operation {operation_id} is left as it is. Once that is mended, "
        f"`noetl operation resume {operation_id}` goes on with it."
    )


def check_progress(rt: Runtime, leave: Callable[[str], Unavailable]) -> None:
    """Raises what `leave` makes of the reason, where something that is due in this process fails
    again and again."""
    stall = rt.dispatcher.find_stall() if isinstance(rt.dispatcher, LocalDispatcher) else None
    if stall is not None:
        raise leave(stall)
