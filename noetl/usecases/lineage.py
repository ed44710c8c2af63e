"""What executions descend from: the log of the one that is run again."""

from __future__ import annotations

from noetl.engine.source import SourceLog
from noetl.facts.lineage import RetryOf
from noetl.usecases.ports import ENDED, Transaction
from noetl.usecases.runtime import Runtime


def find_source(rt: Runtime, tx: Transaction, retry: RetryOf | None) -> SourceLog | None:
    """What `retry` runs again, as its log tells it; None where there is none, or it is gone. So it
    is where a child has not ended yet that its caller did not wait for any more."""
    if retry is None:
        return None
    found = rt.sources.get(retry)
    row = None if found is not None else tx.executions.get(retry.execution_id)
    if row is not None and row.status in ENDED:
        # Its log does not change any more.
        found = SourceLog(rt.plan(tx, row.digest), retry, tx.events.read(row.execution_id))
        rt.sources.put(retry, found)
    return found
