"""The examples of all routes."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.api.examples.access import ACCESS
from noetl.api.examples.approvals import APPROVALS
from noetl.api.examples.catalog import CATALOG
from noetl.api.examples.example import Example
from noetl.api.examples.executions import EXECUTIONS
from noetl.api.examples.history import HISTORY
from noetl.api.examples.operations import OPERATIONS
from noetl.api.examples.results import RESULTS
from noetl.api.examples.slots import SLOTS
from noetl.api.examples.specimens import specimens
from noetl.api.examples.starts import STARTS
from noetl.api.examples.system import SYSTEM


def examples() -> Mapping[str, Example]:
    """By method and path."""
    return {
        **ACCESS,
        **APPROVALS,
        **CATALOG,
        **EXECUTIONS,
        **HISTORY,
        **OPERATIONS,
        **RESULTS,
        **SLOTS,
        **specimens(),
        **STARTS,
        **SYSTEM,
    }
