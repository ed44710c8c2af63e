"""`cache` of tasks: from the document to the net."""

from __future__ import annotations

from noetl.dsl.compile.context import Context, PipelineSite
from noetl.dsl.compile.entries import ToolEntry
from noetl.dsl.compile.policies import seconds_at
from noetl.dsl.document import CacheSpec
from noetl.net.model import Caching


def compile_cache(context: Context, entry: ToolEntry, site: PipelineSite) -> Caching | None:
    """How long what the task's calls come to stands in for others; what is missing is reported."""
    said = entry.part("cache")
    if said is None:
        return None
    form, path = said
    if not isinstance(form, CacheSpec):
        context.use(path, form, site.step)
        return Caching(seconds_at(context, form, path))
    if form.ttl is None:
        context.report.missing(
            path, "ttl", "the cache does not say how long a result counts", "add ttl: 10m, or another time"
        )
        return None
    for key in ("ttl", "key"):
        context.use((*path, key), getattr(form, key), site.step)
    ttl = seconds_at(context, form.ttl, (*path, "ttl"))
    return Caching(ttl, form.key, form.scope or "playbook", bool(form.lock))


def cache_lines(context: Context, entry: ToolEntry) -> dict[str, int]:
    """Where its templates stand."""
    said = entry.part("cache")
    if said is None:
        return {}
    form, path = said
    keys = ("ttl", "key") if isinstance(form, CacheSpec) else ()
    places = {key: (*path, key) for key in keys if getattr(form, key) is not None} or {"ttl": path}
    return {f"cache.{key}": context.line(at) for key, at in places.items()}
