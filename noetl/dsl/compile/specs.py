"""The effective `spec` of a task, and how its result is kept; inner specs win over outer ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from noetl.dsl.compile.context import Context, PipelineSite
from noetl.dsl.document import (
    CallSpec,
    DocumentPart,
    Policy,
    PolicyRule,
    Step,
    TaskRetry,
    TaskSpec,
    Tool,
    canonical_keys,
    is_result,
)
from noetl.dsl.document.base import reserved_keys, structure_keys
from noetl.dsl.document.identifiers import readable
from noetl.dsl.document.specs import MOST_INLINE
from noetl.dsl.problems import Code, Path, quote_value
from noetl.expressions import path_of, path_text
from noetl.facts.durations import seconds
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.reference import ResultScope
from noetl.net.model import KindInfo, OnLarge, ResultPolicy, Selected

_STRUCTURE = structure_keys(TaskSpec)
_POLICY_STRUCTURE = frozenset(canonical_keys(Policy))


def effective_spec(context: Context, kind: KindInfo, site: PipelineSite, tools: Sequence[Path]) -> JsonMap:
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


def specs_of(site: PipelineSite, tools: Sequence[Path]) -> tuple[Path, ...]:
    """Where the specs stand around the task at `tools`, and its own; the innermost last."""
    return (*site.specs, *((*tool, "spec") for tool in tools))


def use_timeouts(context: Context, site: PipelineSite, tools: Sequence[Path]) -> None:
    """Remembers the templates that say how long a call may take, of the task and around it."""
    for path in specs_of(site, tools):
        context.use((*path, "timeout"), context.raw(path).get("timeout"), site.step)


def timeout_around(context: Context, kind: KindInfo, site: PipelineSite) -> Path | None:
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
        if (key in known or key in required) and key not in reserved_keys(CallSpec)
    }


def rules_of(spec: TaskSpec | None) -> list[PolicyRule] | None:
    """The policy rules of a spec; None where it has none."""
    return spec.policy.rules if spec is not None and spec.policy is not None else None


@dataclass(frozen=True, slots=True)
class SaidPolicy:
    """What follows from an attempt of a task, as the document says it at `path`: rules, or a
    `retry`."""

    said: list[PolicyRule] | int | str | TaskRetry
    path: Path


def policy_at(part: DocumentPart | None, path: Path) -> SaidPolicy | None:
    """That of a part with a spec, which stands at `path`; None where it has none. That one says
    both is found by a check."""
    spec = getattr(part, "spec", None)
    if isinstance(spec, TaskSpec) and (rules := rules_of(spec)) is not None:
        return SaidPolicy(rules, (*path, "spec", "policy", "rules"))
    retry = part.retry if isinstance(part, Step | Tool) else None
    return SaidPolicy(retry, (*path, "retry")) if isinstance(retry, int | str | TaskRetry) else None


def policies_around(context: Context, site: PipelineSite) -> Iterator[SaidPolicy]:
    """What the parts around a task say of it, the innermost last."""
    for path in site.specs:
        part: Any = context.document
        for key in path[:-1]:
            part = part and (part[key] if isinstance(key, int) else getattr(part, key))
        if (said := policy_at(part, path[:-1])) is not None:
            yield said


def queue_of(context: Context, site: PipelineSite, tool: Any, path: Path) -> str | None:
    """The queue that the first task of `tool`, which stands at `path`, or the innermost spec around
    the pipeline, asks for."""
    for at in (_spec_of_first(tool, path), *reversed(site.specs)):
        queue = context.raw(at).get("queue")
        if isinstance(queue, str) and queue:
            context.use((*at, "queue"), queue, site.step)
            return queue
    return None


def _spec_of_first(tool: Any, path: Path) -> Path:
    """Where the spec of the first task stands."""
    if isinstance(tool, list) and tool:
        return _spec_of_first(tool[0], (*path, 0))
    label = next(iter(tool)) if isinstance(tool, dict) and tool else None
    return (*path, "spec") if label is None else (*path, label, "spec")


def _without_structure(merged: Json) -> JsonMap:
    spec = {key: value for key, value in merged.items() if key not in _STRUCTURE}
    policy = spec.pop("policy", None)
    if isinstance(policy, dict):
        rest = {key: value for key, value in policy.items() if key not in _POLICY_STRUCTURE}
        if rest:
            spec["policy"] = rest
    return spec


#: Parts of one result that are kept with its reference.
MOST_SELECTED: Final = 32


def result_policy(context: Context, site: PipelineSite, tools: Sequence[Path]) -> ResultPolicy:
    """What the specs around a task and its own say of its result, the inner over the outer."""
    how = ResultPolicy()
    for path in specs_of(site, tools):
        output: Path = (*path[:-1], "output")
        # `output` is a key of steps and tasks, not of their loops or the executor.
        if (len(path) == 3 or path not in site.specs) and is_result(context.raw(output)):
            how = _overlay(context, how, output)
        how = _overlay(context, how, (*path, "result"))
    for path in tools:
        if isinstance(select := context.raw(path).get("output_select"), list):
            parts = _select(context, select, (*path, "output_select"))
            how = replace(how, select=parts, on_large="fail")
    return how


def _overlay(context: Context, how: ResultPolicy, path: Path) -> ResultPolicy:
    if not (given := context.raw(path)):
        return how
    for key in ("inline", "inline_bytes"):
        if isinstance(given.get(key), int):
            how = replace(how, inline_bytes=_inline(context, given[key], (*path, key)))
    if given.get("scope") in get_args(ResultScope):
        how = replace(how, scope=given["scope"])
    if (ttl := given.get("ttl")) is not None:
        how = replace(how, ttl_s=_ttl(context, ttl, (*path, "ttl")))
    if (select := given.get("select")) is not None:
        how = replace(how, select=_select(context, select, (*path, "select")), on_large="fail")
    if given.get("on_large") in get_args(OnLarge):
        how = replace(how, on_large=given["on_large"])
    return how


def _inline(context: Context, value: int, path: Path) -> int | None:
    if not isinstance(value, bool) and 0 <= value <= MOST_INLINE:
        return value
    context.report.add(
        Code.VALUE,
        path,
        f"{path[-1]} is {quote_value(value)}",
        f"write a number of bytes from 0 to {MOST_INLINE:,}",
    )
    return None


def _ttl(context: Context, value: Json, path: Path) -> float | None:
    with contextlib.suppress(ValueError):
        if (length := seconds(value)) > 0:
            return length
    context.report.add(
        Code.VALUE, path, f"ttl is {quote_value(value)}", "write seconds above zero, 500ms, 10s, 5m, 2h or 7d"
    )
    return None


def _select(context: Context, given: Json, path: Path) -> tuple[Selected, ...]:
    found: dict[str, Selected] = {}
    for part, at in _parts(context, given if isinstance(given, list) else [], path):
        if part.name in found:
            context.report.add(
                Code.DUPLICATE_NAME, at, f"{quote_value(part.name)} is selected twice", "keep one"
            )
        found[part.name] = part
    if len(found) > MOST_SELECTED:
        context.report.add(
            Code.VALUE,
            path,
            f"{len(found)} parts are selected",
            f"at most {MOST_SELECTED} are kept with a reference",
        )
    return tuple(found.values())


def _parts(context: Context, given: list[Json], path: Path) -> Iterator[tuple[Selected, Path]]:
    for number, part in enumerate(given):
        at: Path = (*path, number)
        named = part if isinstance(part, dict) else {"path": part}
        text, alias = named.get("path"), named.get("as")
        if not isinstance(text, str):
            if named is part:
                context.report.missing(
                    at, "path", "it does not say what to select", "add path: data.rows[0].id"
                )
            continue
        if (steps := path_of(text)) is None:
            context.report.add(
                Code.VALUE,
                at,
                f"{quote_value(text)} is no path",
                "write names and places from the result on: data.rows[0].id",
            )
            continue
        if isinstance(alias, str) and not readable(context.report, alias, (*at, "as"), "a part"):
            continue
        canonical = path_text(steps)
        yield Selected(canonical, alias if isinstance(alias, str) else canonical), at
