"""One call of a tool from the terminal: waited for, and ended by Ctrl-C."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from noetl import bootstrap
from noetl.cli.run import GRACE_S, POLL_S, ended_like_by_hand
from noetl.errors import BadRequest
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.pipeline.deadline import Deadline, begun
from noetl.pipeline.model import Call, Later, Suspension, ToolPort


def outcome_of(tools: ToolPort, call: Call) -> Outcome:
    """Calls until there is an outcome: a tool that wants to be called again later is, with its
    checkpoint. As in a playbook its deadline is one for all calls and the waits between them.

    Raises BadRequest where it asks for an execution, KeyboardInterrupt (the call has then been
    ended) at Ctrl-C.
    """
    deadline = begun(call.deadline_s, None, lambda: bootstrap.now().isoformat())
    with ended_like_by_hand():
        while not isinstance(came := _came(tools, call), Outcome):
            if not isinstance(came, Later):
                raise BadRequest(
                    f"A call of kind '{call.kind}' asks for an execution of its own; try it with `noetl run`."
                )
            left = deadline.left()
            time.sleep(came.seconds if left is None else min(came.seconds, left))
            if not deadline.has_some():
                return _late(call, deadline)
            call = replace(call, checkpoint=came.checkpoint, deadline_s=deadline.left())
    return came


def _late(call: Call, deadline: Deadline) -> Outcome:
    said = f"The {call.kind} task had not ended after {deadline.timeout:g} s (--timeout)."
    error = ErrorInfo("timeout", said, type="TaskTimeout", retryable=True)
    return failed(error, {"duration_ms": (deadline.timeout or 0.0) * 1000})


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
