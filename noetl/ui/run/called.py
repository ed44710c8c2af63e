"""The executions that an execution has called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.ui.run.look import RunLook


def gather(look: RunLook) -> Mapping[str, Any]:
    """`children`, as reports have them."""
    return {"children": look.report.children}
