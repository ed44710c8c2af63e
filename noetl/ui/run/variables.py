"""The variables of an execution and the results of its steps, as of one version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.ui.run.look import RunLook
from noetl.usecases import inspect


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/moment.html` shows: `ctx`, and `steps` with their results."""
    found = inspect.state_view(look.visitor.rt, look.execution_id, look.at)
    return {"ctx": found["ctx"], "steps": found["steps"], "moment_status": found["status"]}
