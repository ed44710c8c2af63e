"""The steps of an execution: the graph of the playbook beside the time that each took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.ui.run import waits
from noetl.ui.run.look import RunLook
from noetl.ui.values import ShownValue, read_page, show_value


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/steps.html` shows."""
    return {"result": _show_result(look), **waits.gather(look)}


def _show_result(look: RunLook) -> ShownValue | None:
    result = look.report.result
    if result is None:
        return None
    page = read_page(look.asked.get("page"))
    return show_value(result, look.visitor.rt.load, page, lambda number: look.here(page=number or None))
