"""The effective `spec` of a task: kind defaults, executor, step, loop, task; the inner wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from noetl.dsl.compile.context import Context, Site
from noetl.dsl.document import (
    CallSpec,
    ExecutorSpec,
    LoopSpec,
    Part,
    Policy,
    PolicyRule,
    StepSpec,
    TaskSpec,
    Tool,
    canonical_keys,
)
from noetl.dsl.document.keys import keys_near
from noetl.dsl.document.misspelt import add_unknown_key
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path, shown
from noetl.facts.durations import seconds
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.net.model import KindInfo

#: What is compiled into the net elsewhere and means nothing to a task.
_STRUCTURE = frozenset(
    {
        "join",
        "queue",
        "entry_step",
        "final_step",
        "no_next_is_error",
        "mode",
        "max_in_flight",
        "reduce",
        "commit",
        "frame",
        "result",
        "after",
    }
)
#: Who the keys of a policy are said of.
_OF_STEPS = "steps"
_OF_BRANCHES = "steps, their loops and the executor"
_POLICY_STRUCTURE = frozenset({"rules", "admit", "failure"})
#: Where each key of a spec belongs that not every spec has.
_ELSEWHERE: Mapping[type[Part], str] = {
    CallSpec: "the spec of a task",
    LoopSpec: "the spec of the loop",
    StepSpec: "the spec of the step",
    ExecutorSpec: "executor.spec",
    Policy: "policy:",
}
#: Keys of a task's spec that its pipeline reads: never handed to the tool alone.
_OF_THE_PIPELINE = frozenset({"policy", "render", "quote", "queue", "result", "after"})


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
        at = (*path, "spec")
        check_timeout(context, at, takes_parts=_takes_timeout(kind))
        _check_policy(context, at, {"admit": _OF_STEPS, "failure": _OF_BRANCHES})
        if kind.schema.get("additionalProperties") is False:
            _check_keys(context, at, CallSpec, {*kind.schema.get("properties", {}), *moved, *kind.defaults})
    return _without_structure(merged)


def _is_plain(key: str, value: Json) -> bool:
    """Not the parts of a timeout (`{connect, read}`), which are the tool's own."""
    return key != "timeout" or not isinstance(value, Mapping)


def _takes_timeout(kind: KindInfo) -> bool:
    return "timeout" in kind.schema.get("properties", {})


def use_timeouts(context: Context, site: Site, tools: Sequence[Path]) -> None:
    """Remembers the templates that say how long a call may take, of the task and around it."""
    for path in (*site.specs, *((*tool, "spec") for tool in tools)):
        context.use((*path, "timeout"), context.raw(path).get("timeout"), site.step)


def timeout_around(context: Context, kind: KindInfo, site: Site) -> Path | None:
    """Where the innermost spec around a task gives a tool that has them the parts of its timeout."""
    for path in reversed(site.specs):
        if (given := context.raw(path).get("timeout")) is not None:
            return (*path, "timeout") if _takes_timeout(kind) and not _is_plain("timeout", given) else None
    return None


def config_from_spec(spec: JsonMap, kind: KindInfo) -> dict[str, Json]:
    """The tool's own keys that stand under `spec`."""
    known = kind.schema.get("properties", {})
    required = {key for group in kind.required for key in group}
    return {
        key: value
        for key, value in spec.items()
        if (key in known or key in required) and key not in _OF_THE_PIPELINE
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
    """The queue that the first task of `tool`, or the innermost spec around the pipeline, asks for."""
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


def check_spec(context: Context, path: Path) -> None:
    """Checks the spec at `path`, which is one around tasks."""
    check_timeout(context, path)
    of_step = path[0] == "workflow" and len(path) == 3
    _check_policy(context, path, {} if of_step else {"admit": _OF_STEPS})
    model = StepSpec if of_step else ExecutorSpec if path[0] == "executor" else LoopSpec
    if not context.raw(path).keys() <= {*canonical_keys(model), "after"}:
        # What kinds have defaults for may be said around their tasks. Asking them imports all of them.
        _check_keys(
            context, path, model, {"after"}.union(*(kind.defaults for kind in context.kinds.values()))
        )
    if "after" in context.raw(path):
        message = "`after` means nothing here: it is said of a task"
        hint = "put it under the spec: of each task that runs once the pipeline has ended"
        context.report.add(Code.MISPLACED, (*path, "after"), message, hint, at_key=True)


def _check_keys(context: Context, path: Path, model: type[Part], known: Set[str]) -> None:
    """Warns of keys of the spec at `path` that neither its model nor a tool knows."""
    keys = canonical_keys(model)
    for key in context.raw(path):
        if key not in keys and key not in known:
            place = next((where for part, where in _ELSEWHERE.items() if key in canonical_keys(part)), None)
            otherwise = context.report.suggest(key, [*keys, *known], f"known here: {', '.join(keys)}")
            hint = otherwise if place is None else f"put it under {place}"
            message = f"the key {shown(key)} means nothing here"
            near = () if place else {*keys_near(model), *known}
            add_unknown_key(context.report, (*path, key), message, hint, near, context.raw(path))


def _check_policy(context: Context, path: Path, idle: Mapping[str, str]) -> None:
    """Warns of keys of the policy in the spec at `path` that have no effect there: those of `idle`, which says why."""
    known = canonical_keys(Policy)
    for key in context.raw((*path, "policy")):
        if key not in known:
            message = f"the key {shown(key)} means nothing here"
            hint = context.report.suggest(key, known, f"known here: {', '.join(known)}")
            at = (*path, "policy", key)
            add_unknown_key(context.report, at, message, hint, keys_near(Policy), context.raw(at[:-1]))
        if key in idle:
            message = f"`{key}` has no effect here: it is said of {idle[key]}"
            context.report.add(
                Code.IGNORED,
                (*path, "policy", key),
                message,
                "put it under spec.policy of the step",
                at_key=True,
            )


def check_timeout(context: Context, path: Path, *, takes_parts: bool = True) -> None:
    """Adds a problem where the timeout of the spec at `path` is no duration above zero, nor parts that the tool has."""
    timeout = context.raw(path).get("timeout")
    if isinstance(timeout, Mapping) and not takes_parts:
        hint = "write seconds above zero, 500ms, 10s, 5m, 2h, or a template"
        context.report.add(Code.VALUE, (*path, "timeout"), "this tool has one timeout, without parts", hint)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float | str) or is_template(timeout):
        return
    try:
        fault = seconds(timeout) <= 0
    except ValueError:
        fault = True
    if fault:
        hint = "write seconds above zero, 500ms, 10s, 5m, 2h, or a template"
        context.report.add(Code.VALUE, (*path, "timeout"), f"timeout is {shown(timeout)}", hint)
