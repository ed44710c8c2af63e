"""One call of a tool from the terminal: waited for, and ended by Ctrl-C."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from noetl.cli.run import GRACE_S, POLL_S, ended_like_by_hand
from noetl.errors import BadRequest
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Later, Suspension, ToolPort


def outcome_of(tools: ToolPort, call: Call) -> Outcome:
    """Calls until there is an outcome: a tool that wants to be called again later is, with its checkpoint.

    Raises BadRequest where it asks for an execution, KeyboardInterrupt (the call has then been ended) at Ctrl-C.
    """
    with ended_like_by_hand():
        while not isinstance(came := _came(tools, call), Outcome):
            if not isinstance(came, Later):
                raise BadRequest(
                    f"A call of kind '{call.kind}' asks for an execution of its own; try it with `noetl run`."
                )
            time.sleep(came.seconds)
            call = replace(call, checkpoint=came.checkpoint)
    return came


def _came(tools: ToolPort, call: Call) -> Outcome | Suspension:
    came: list[Outcome | Suspension] = []
    # In a thread of its own: whatever the tool waits for, this one hears Ctrl-C.
    thread = threading.Thread(target=lambda: came.append(tools.run(call)), daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_S)
    except KeyboardInterrupt:
        tools.interrupt(call)
        thread.join(GRACE_S)
        raise
    return came[0]
