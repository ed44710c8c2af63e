"""`cache` of tasks: what tells a call from others, so that an equal one may stand in for it."""

from __future__ import annotations

from noetl.errors import BadRequest
from noetl.facts.durations import seconds
from noetl.facts.fingerprint import fingerprint
from noetl.facts.json import JsonMap
from noetl.facts.reference import Load
from noetl.facts.warnings import Warned
from noetl.net.tasks import Caching, Task, file_of
from noetl.pipeline.failures import blame
from noetl.pipeline.model import CachedCall, Call
from noetl.pipeline.names import TemplateScope
from noetl.pipeline.templates import Prepared, render


def identify(
    ready: Prepared,
    cache: Caching,
    call: Call,
    digest: str,
    sight: TemplateScope,
    warnings: list[Warned],
    load: Load,
) -> CachedCall | None:
    """The call as the cache knows it; `digest` covers its kind, its rendered configuration and its
    inputs. None where what it comes to counts for no time. Raises CannotGoOn where its `ttl` or
    its `key` cannot be had."""
    task = ready.task
    said = render(ready, {"ttl": cache.ttl, "key": cache.key}, sight, warnings, load, "cache")
    with blame(f"The cache of task '{task.name}'", task.lines.get("cache.ttl")):
        ttl = _ttl(said)
        if cache.key is not None:
            digest = _digest_of_key(task, call, said)
    if not ttl:
        return None
    return CachedCall(
        digest, call.where, call.task, call.kind, ttl, cache.scope, cache.lock, file_of(call.config)
    )


def _ttl(said: JsonMap) -> float:
    try:
        return seconds(said["ttl"])
    except ValueError as error:
        raise BadRequest(f"`ttl`: {error}") from error


def _digest_of_key(task: Task, call: Call, said: JsonMap) -> str:
    if said["key"] is None:
        raise BadRequest("`key` comes out as null, which tells no call from another.")
    written = [task.kind, dict(task.config), dict(task.args), said["key"]]
    return fingerprint(written, call.where.execution_id, short=0)
