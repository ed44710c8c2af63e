"""What calls of tasks with `cache` came to: listed, and cleared away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.json import JsonMap
from noetl.usecases.ports import CachedRow
from noetl.usecases.runtime import Runtime

#: Results among which those are looked for that a caller may see who may not see all.
MOST: Final = 10_000


def cached(
    rt: Runtime,
    path: str | None = None,
    limit: int = 100,
    may_read: Callable[[str], bool] | None = None,
) -> list[CachedRow]:
    """The newest results that count, of one playbook where a `path` is given. Of the newest `MOST`
    those of the playbooks that `may_read` is true of; None: of all."""
    with rt.store.read() as tx:
        rows = tx.cached.find(path, limit if may_read is None else MOST)
    now = rt.clock()
    found = [row for row in rows if row.expires_at > now and (may_read is None or may_read(row.path))]
    return found[:limit]


def clear(rt: Runtime, path: str | None = None, key: str | None = None, *, everything: bool = False) -> int:
    """Removes what is kept of one playbook, or of one call; how many results that were. Calls that
    are being made still add theirs. Raises BadRequest where it is not said which."""
    if everything is bool(path or key):
        raise BadRequest(
            "Say what to clear: what is kept of a playbook (path), of one call (key), or all of it (all)."
        )
    with rt.store.begin() as tx:
        count = tx.cached.remove(path, key)
        rt.record(tx, "cache.cleared", path or key or "*", {"count": count})
        return count


def describe(row: CachedRow) -> JsonMap:
    """`{key, path, scope, kind, execution_id, run_id, iteration, task, bytes, created_at,
    expires_at}`: the call that was made, and how large its result is in the log."""
    site = row.site
    return {
        "key": row.key,
        "path": row.path,
        "scope": row.scope,
        "kind": row.kind,
        "execution_id": site.execution_id,
        "run_id": site.run_id,
        "iteration": site.iteration,
        "task": site.task,
        "bytes": len(json.dumps(row.outcome["result"], ensure_ascii=False).encode("utf-8", "replace")),
        "created_at": row.created_at.isoformat(),
        "expires_at": row.expires_at.isoformat(),
    }
