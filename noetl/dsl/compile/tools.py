"""All forms of `tool`, to the tasks of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from noetl.dsl.compile.caching import cache_lines, compile_cache
from noetl.dsl.compile.code import keep_counting, names_read, verbatim_keys, wants_context
from noetl.dsl.compile.context import WORKBOOK, CompiledCall, Context, PipelineSite, assignments
from noetl.dsl.compile.demands import expectation_of, find_demands
from noetl.dsl.compile.entries import (
    Siblings,
    ToolEntry,
    entries_of,
    siblings,
    tool_inputs,
    workbook_entry,
)
from noetl.dsl.compile.forms import compile_forms
from noetl.dsl.compile.loops import task_loop
from noetl.dsl.compile.policies import policy
from noetl.dsl.compile.repeat import add_repeats
from noetl.dsl.compile.retries import compile_retry
from noetl.dsl.compile.specs import (
    config_from_spec,
    effective_spec,
    policies_around,
    policy_at,
    result_policy,
    timeout_around,
    use_timeouts,
)
from noetl.dsl.document import PolicyRule
from noetl.dsl.document.misspelt import is_free
from noetl.dsl.document.texts import holds_template
from noetl.dsl.problems import Code, Path, quote_value
from noetl.facts.nearest import nearest
from noetl.net.deferred import SIGNAL, find_guards, without_guards
from noetl.net.model import Effects, KindInfo, Rule, Task, Template


def pipeline(context: Context, form: Any, path: Path, site: PipelineSite) -> tuple[Task, ...]:
    """The tasks of a step's `tool`, which stands at `path`."""
    return add_repeats(context, _compile_tasks(context, form, path, site), site, _compile_tasks)


def _compile_tasks(
    context: Context, form: Any, path: Path, site: PipelineSite
) -> list[tuple[ToolEntry, Task]]:
    entries = list(entries_of(context, form, path))
    around = siblings(entries)
    made = [(entry, _task(context, entry, around, site, path)) for entry in entries]
    return [(entry, task) for entry, task in made if task is not None]


def workbook_tasks(context: Context) -> dict[str, Task]:
    """The workbook, compiled by itself."""
    made = {}
    for name in context.workbook:
        entry = workbook_entry(context, name)
        site = PipelineSite(WORKBOOK, (("executor", "spec"),))
        task = _task(context, entry, siblings([entry]), site, entry.path) if entry else None
        if task is not None:
            made[name] = task
    return made


def _task(
    context: Context, entry: ToolEntry, around: Siblings, site: PipelineSite, pipeline: Path
) -> Task | None:
    kind = _kind(context, entry)
    shared = [*site.specs, *(path for _, path in entry.parts[:-1] or entry.parts if path[0] == "workbook")]
    if kind is None or not context.may_share(shared, entry.path):
        return None
    given = _args(context, entry, site)
    configured, bare = compile_forms(context, kind, _config(context, entry, kind, site), site.step)
    config = {key: value for key, (value, _) in configured.items()}
    paths = {key: path for key, (_, path) in configured.items()}
    tools = [path for _, path in entry.parts]
    spec = effective_spec(context, kind, site, tools)
    verbatim = verbatim_keys(kind, config, spec)
    for key, (value, path) in bare.items():
        if key not in verbatim:
            _use_config(context, kind, key, value, path, site.step)
    if "timeout" not in config:
        use_timeouts(context, site, tools)
    demands = find_demands(context, entry)
    if site.step and demands.expects:
        context.notes.expecting.append(expectation_of(entry, demands.expects, site.step))
    loop = task_loop(context, entry, site)
    # Each item has its own scope, which rules may write to.
    inside = site if loop is None else replace(site, iterating=True)
    rules, rules_at = _rules(context, kind, entry, around, inside)
    after, after_at = entry.after or (None, ())
    context.use(after_at, after, site.step, guard=True)
    task = Task(
        name=entry.name,
        kind=kind.kind,
        config=config,
        args={name: _declare(name, value, path) for name, (value, path) in given.items()},
        rules=rules,
        unmatched="continue" if rules is None else "fail",
        set=tuple(one for part in entry.parts for one in assignments(context, *part, site)),
        spec=spec,
        line=context.report.source.mark(entry.path).line,
        lines=_find_lines(context, entry, {name: path for name, (_, path) in given.items()}, paths),
        verbatim=verbatim,
        deferred=kind.deferred,
        quoted=tuple(key for key in kind.quoted if key in config and spec.get("quote") is not False),
        wants_context=wants_context(kind, config, spec),
        by_reference=kind.by_reference,
        takes_rows=tuple(key for key in kind.takes_rows if key in config),
        reads=names_read(kind, config, verbatim),
        result=result_policy(context, site, tools),
        loop=loop,
        expects=demands.expects,
        returns=demands.returns,
        stages=_stages(entry, {name: path for name, (_, path) in given.items()}),
        after=after,
        effects=_effects(entry, kind, config),
        cache=compile_cache(context, entry, site),
    )
    step = site.step or WORKBOOK
    context.notes.calls.append(
        CompiledCall(step, pipeline, entry.path, kind, task, tuple(tools), paths, rules_at)
    )
    return task


def _find_lines(
    context: Context, entry: ToolEntry, inputs: Mapping[str, Path], keys: Mapping[str, Path]
) -> dict[str, int]:
    """Where the inputs and the keys of a task stand."""
    return (
        {f"input.{name}": context.line(path) for name, path in inputs.items()}
        | cache_lines(context, entry)
        | {key: context.line(path) for key, path in keys.items()}
    )


def _use_config(
    context: Context, kind: KindInfo, key: str, value: Template, path: Path, step: str | None
) -> None:
    """Remembers the templates of a key; of guards that are asked later, that they see a signal."""
    whole = {key: value}
    context.use(path, without_guards(whole, kind.deferred)[key], step)
    for (_, *way), guard in find_guards(whole, kind.deferred):
        context.use((*path, *way), guard, step, guard=True, also=frozenset({SIGNAL}))


def _kind(context: Context, entry: ToolEntry) -> KindInfo | None:
    tool, path = entry.parts[0]
    if tool.kind is None:
        hint = f"add kind: with one of {', '.join(sorted(context.kinds))}"
        for key in tool.model_extra or {}:
            near = "kind" if key in ("type", "action") else nearest(key, ("kind", "tool"))
            if near is not None:
                hint = f"did you mean {near!r} by {key!r}?"
                break
        context.report.missing(path, "kind", f"task {quote_value(entry.name)} has no kind", hint)
        return None
    found = context.kinds.get(tool.kind)
    if found is not None:
        return found
    available = f"available: {', '.join(sorted(context.kinds))}"
    hint = context.report.suggest(tool.kind, [*context.kinds, "workbook"])
    context.report.add(
        Code.UNKNOWN_KIND,
        (*path, "kind"),
        f"no tool of kind {quote_value(tool.kind)} is installed",
        f"{hint} {available}".strip(),
    )
    return None


def _config(
    context: Context, entry: ToolEntry, kind: KindInfo, site: PipelineSite
) -> dict[str, tuple[Template, Path]]:
    """The tool's own keys, each with its value and where it stands."""
    found: dict[str, tuple[Template, Path]] = {}
    if (around := timeout_around(context, kind, site)) is not None:
        found["timeout"] = context.raw(around[:-1])["timeout"], around
    for tool, path in entry.parts:
        below = config_from_spec(context.raw((*path, "spec")), kind)
        found |= {key: (value, (*path, "spec", key)) for key, value in below.items()}
        for key, value in (tool.model_extra or {}).items():
            if not is_free(key) and (key != "task" or tool.kind != "workbook"):
                found[key] = value, (*path, key)
        if tool.name is not None and tool.kind == kind.kind and "name" in kind.schema.get("properties", {}):
            found["name"] = tool.name, (*path, "name")
    commands = {key: (keep_counting(found[key][0]), found[key][1]) for key in kind.quoted if key in found}
    return found | commands


def _args(context: Context, entry: ToolEntry, site: PipelineSite) -> dict[str, tuple[Template, Path]]:
    """The task's own inputs, each with its value and where it stands."""
    found: dict[str, tuple[Template, Path]] = {}
    for tool, path in entry.parts:
        for key, names in tool_inputs(tool).items():
            for name, value in names.items():
                found[name] = value, (*path, key, name)
                context.use((*path, key, name), value, site.step)
    return found


def _effects(entry: ToolEntry, kind: KindInfo, config: Mapping[str, Template]) -> Effects:
    """What its calls change; whoever wrote the task knows best."""
    said = entry.part("effects")
    return said[0] if said is not None else kind.effects_with(dict(config))


def _stages(entry: ToolEntry, paths: Mapping[str, Path]) -> tuple[tuple[str, ...], ...]:
    """The inputs by the part of the entry that says them, the call first: what the workbook says
    may name what its caller gives. One stage is as good where the workbook says no templates."""
    said: list[list[str]] = []
    for _, path in reversed(entry.parts):
        names = sorted(name for name, at in paths.items() if at[: len(path)] == path)
        said += [names] if names else []
    booked = [
        names for tool, path in entry.parts if path[0] == "workbook" for names in tool_inputs(tool).values()
    ]
    return tuple(map(tuple, said)) if len(said) > 1 and any(map(holds_template, booked)) else ()


def _declare(name: str, value: Template, path: Path) -> Template:
    """An input that the workbook declares as null is for the caller to give: its step may do so as
    well."""
    if value is not None or path[0] != "workbook" or "'" in name or "\\" in name:
        return value
    return f"{{{{ args['{name}'] | default(none) }}}}"


def _rules(
    context: Context, kind: KindInfo, entry: ToolEntry, around: Siblings, site: PipelineSite
) -> tuple[tuple[Rule, ...] | None, Path | None]:
    """The rules that hold for a task, and where they, or the `retry` that they are, stand in the
    document."""
    own = [one for part, path in entry.parts if (one := policy_at(part, path)) is not None]
    found = own[-1] if own else next(reversed([*policies_around(context, site)]), None)
    if found is not None:
        said, path = found.said, found.path
        if isinstance(said, list):
            return policy(context, said, path, entry.name, around, site), path
        return compile_retry(context, said, path, site), path
    given = (kind.defaults.get("policy") or {}).get("rules")
    if not given:
        return None, None
    # Problems in the rules that a kind brings along point at the task.
    rules = [PolicyRule.model_validate(rule) for rule in given]
    return policy(context, rules, entry.path, entry.name, around, site), None
