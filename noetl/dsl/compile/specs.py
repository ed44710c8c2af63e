"""The effective `spec` of a task: kind defaults, executor, step, loop, task; the inner wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl.dsl.compile.context import Context, Site
from noetl.dsl.document import CallSpec, Policy, PolicyRule, TaskSpec, Tool, canonical_keys
from noetl.dsl.document.base import reserved, structure
from noetl.dsl.problems import Path
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.net.model import KindInfo

_STRUCTURE = structure(TaskSpec)
_POLICY_STRUCTURE = frozenset(canonical_keys(Policy))


def effective_spec(context: Context, kind: KindInfo, site: Site, tools: Sequence[Path]) -> JsonMap:
    """The merged spec of the task whose tool mappings stand at `tools`, outermost first."""
    merged: Json = dict(kind.defaults)
    for path in site.specs:
        around = context.raw(path)
        merged = deep_merge(
            merged, {k: v for k, v in around.items() if k not in _STRUCTURE and _is_plain(k, v)}
        )
    for path in tools:
        own = context.raw((*path, "spec"))
        moved = config_from_spec(own, kind)
        kept = {k: v for k, v in own.items() if k not in moved or (k == "timeout" and _is_plain(k, v))}
        merged = deep_merge(merged, kept)
    return _without_structure(merged)


def _is_plain(key: str, value: Json) -> bool:
    """Not the parts of a timeout (`{connect, read}`), which are the tool's own."""
    return key != "timeout" or not isinstance(value, Mapping)


def takes_timeout(kind: KindInfo) -> bool:
    """Whether a timeout of the tool may have parts."""
    return "timeout" in kind.schema.get("properties", {})


def use_timeouts(context: Context, site: Site, tools: Sequence[Path]) -> None:
    """Remembers the templates that say how long a call may take, of the task and around it."""
    for path in (*site.specs, *((*tool, "spec") for tool in tools)):
        context.use((*path, "timeout"), context.raw(path).get("timeout"), site.step)


def timeout_around(context: Context, kind: KindInfo, site: Site) -> Path | None:
    """Where the innermost spec around a task gives a tool that has them the parts of its
    timeout."""
    for path in reversed(site.specs):
        if (given := context.raw(path).get("timeout")) is not None:
            return (*path, "timeout") if takes_timeout(kind) and not _is_plain("timeout", given) else None
    return None


def config_from_spec(spec: JsonMap, kind: KindInfo) -> dict[str, Json]:
    """The tool's own keys that stand under `spec`."""
    known = kind.schema.get("properties", {})
    required = {key for group in kind.required for key in group}
    return {
        key: value
        for key, value in spec.items()
        if (key in known or key in required) and key not in reserved(CallSpec)
    }


def rules_of(spec: TaskSpec | None) -> list[PolicyRule] | None:
    """The policy rules of a spec; None where it has none."""
    return spec.policy.rules if spec is not None and spec.policy is not None else None


def rules_around(context: Context, site: Site) -> list[tuple[list[PolicyRule], Path]]:
    """The rules that the specs around a task give it, the innermost last."""
    found = []
    for path in site.specs:
        part: Any = context.document
        for key in path:
            part = _step_into(part, key)
        given = rules_of(part)
        if given is not None:
            found.append((given, (*path, "policy", "rules")))
    return found


def _step_into(part: Any, key: str | int) -> Any:
    if part is None:
        return None
    return part[key] if isinstance(key, int) else getattr(part, key)


def queue_of(context: Context, site: Site, tool: Any) -> str | None:
    """The queue that the first task of `tool`, or the innermost spec around the pipeline, asks
    for."""
    first = tool[0] if isinstance(tool, list) and tool else tool
    if isinstance(first, dict):
        first = next(iter(first.values()))
    own = first.spec if isinstance(first, Tool) else None
    if own is not None and own.queue:
        return own.queue
    for path in reversed(site.specs):
        queue = context.raw(path).get("queue")
        if isinstance(queue, str) and queue:
            return queue
    return None


def _without_structure(merged: Json) -> JsonMap:
    spec = {key: value for key, value in merged.items() if key not in _STRUCTURE}
    policy = spec.pop("policy", None)
    if isinstance(policy, dict):
        rest = {key: value for key, value in policy.items() if key not in _POLICY_STRUCTURE}
        if rest:
            spec["policy"] = rest
    return spec
