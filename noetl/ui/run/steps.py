"""The steps of an execution: the graph of the playbook beside the time that each took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.ui.run import drawer, waits
from noetl.ui.run.look import RunLook
from noetl.ui.values import as_text


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/steps.html` shows."""
    return {"result": as_text(look.report.result), **waits.gather(look), **drawer.gather(look)}
