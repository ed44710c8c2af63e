"""All forms of `tool`, to the tasks of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from noetl.dsl.compile.code import as_written, names_context, names_read, renders_script
from noetl.dsl.compile.context import WORKBOOK, CompiledCall, Context, Site, assignments, task_level
from noetl.dsl.compile.demands import asserted, expecting
from noetl.dsl.compile.entries import (
    Siblings,
    ToolEntry,
    after,
    check_order,
    entries_of,
    inputs_of,
    siblings,
    workbook_entry,
)
from noetl.dsl.compile.loops import task_loop
from noetl.dsl.compile.policies import policy
from noetl.dsl.compile.repeat import add_repeats
from noetl.dsl.compile.specs import (
    config_from_spec,
    effective_spec,
    keeping,
    rules_around,
    rules_of,
    timeout_around,
    use_timeouts,
)
from noetl.dsl.document import PolicyRule, Tool
from noetl.dsl.document.misspelt import is_free
from noetl.dsl.document.texts import holds_template
from noetl.dsl.problems import Code, Path, shown
from noetl.facts.nearest import nearest
from noetl.net.model import Assignment, KindInfo, Rule, Task, Template

#: Kinds that the language knows and this version cannot run, whatever is installed.
_LATER = frozenset({"wait"})


def pipeline(context: Context, form: Any, path: Path, site: Site) -> tuple[Task, ...]:
    """The tasks of a step's `tool`, which stands at `path`."""
    return add_repeats(context, _compile_tasks(context, form, path, site), site, _compile_tasks)


def _compile_tasks(context: Context, form: Any, path: Path, site: Site) -> list[tuple[ToolEntry, Task]]:
    """The tasks as they are written."""
    entries = list(entries_of(context, form, path))
    check_order(context, entries)
    around = siblings(entries)
    made = [(entry, _task(context, entry, around, site, path)) for entry in entries]
    return [(entry, task) for entry, task in made if task is not None]


def workbook_tasks(context: Context) -> dict[str, Task]:
    """The workbook, compiled by itself."""
    made = {}
    for name in context.workbook:
        entry = workbook_entry(context, name)
        site = Site(WORKBOOK, (("executor", "spec"),))
        task = _task(context, entry, siblings([entry]), site, entry.path) if entry else None
        if task is not None:
            made[name] = task
    return made


def _task(context: Context, entry: ToolEntry, around: Siblings, site: Site, pipeline: Path) -> Task | None:
    kind = _kind(context, entry)
    shared = [*site.specs, *(path for _, path in entry.parts[:-1] or entry.parts if path[0] == "workbook")]
    if kind is None or not context.may_share(shared, entry.path):
        return None
    config, paths = _config(context, entry, kind, site)
    tools = [path for _, path in entry.parts]
    spec = effective_spec(context, kind, site, tools)
    verbatim = as_written(kind, config, spec)
    for key, value in config.items():
        if key not in verbatim:
            context.use(paths[key], value, site.step)
    if "timeout" not in config:
        use_timeouts(context, site, tools)
    args, args_paths = _args(context, entry, site)
    stages = _stages(entry, args_paths)
    demands = asserted(context, entry)
    if site.step and demands.expects:
        context.notes.expecting.append(expecting(entry, demands.expects, site.step))
    lines = {f"input.{key}": path for key, path in args_paths.items()} | paths
    loop = task_loop(context, entry, site)
    # Each item has a scope of its own, which rules may write to.
    inside = site if loop is None else replace(site, iterating=True)
    rules, rules_at = _rules(context, kind, entry, around, inside)
    task = Task(
        name=entry.name,
        kind=kind.kind,
        config=config,
        args=args,
        rules=rules,
        set=_set(context, entry, site),
        spec=spec,
        line=context.report.source.mark(entry.path).line,
        lines={key: context.line(path) for key, path in lines.items()},
        verbatim=verbatim,
        quoted=tuple(key for key in kind.quoted if key in config and spec.get("quote") is not False),
        wants_context=names_context(kind, config) or renders_script(kind, config, spec),
        by_reference=kind.by_reference,
        reads=names_read(kind, config, verbatim),
        result=keeping(context, site, tools),
        loop=loop,
        expects=demands.expects,
        returns=demands.returns,
        stages=stages,
        after=after(context, entry, site.step),
    )
    call = CompiledCall(
        site.step or WORKBOOK, pipeline, entry.path, kind, task, tuple(tools), paths, rules_at
    )
    context.notes.calls.append(call)
    return task


def _kind(context: Context, entry: ToolEntry) -> KindInfo | None:
    tool, path = entry.parts[0]
    if tool.kind is None:
        hint = f"add kind: with one of {', '.join(sorted(context.kinds))}"
        if (meant := _meant_for_kind(tool)) is not None:
            hint = f"did you mean {meant[1]!r} by {meant[0]!r}?"
        context.report.missing(path, "kind", f"task {shown(entry.name)} has no kind", hint)
        return None
    found = context.kinds.get(tool.kind)
    if found is not None:
        return found
    available = f"available: {', '.join(sorted(context.kinds))}"
    if tool.kind in _LATER:
        context.report.add(
            Code.UNSUPPORTED, (*path, "kind"), f"kind: {tool.kind} is not supported yet", available
        )
        return None
    hint = context.report.suggest(tool.kind, [*context.kinds, "workbook"])
    context.report.add(
        Code.UNKNOWN_KIND,
        (*path, "kind"),
        f"no tool of kind {shown(tool.kind)} is installed",
        f"{hint} {available}".strip(),
    )
    return None


def _meant_for_kind(tool: Tool) -> tuple[str, str] | None:
    """A key of a task without kind, and what it is likely meant for."""
    for key in tool.model_extra or {}:
        near = "kind" if key in ("type", "action") else nearest(key, ("kind", "tool"))
        if near is not None:
            return key, near
    return None


def _config(
    context: Context, entry: ToolEntry, kind: KindInfo, site: Site
) -> tuple[dict[str, Template], dict[str, Path]]:
    """The tool's own keys and where each stands."""
    config: dict[str, Template] = {}
    paths: dict[str, Path] = {}
    if (around := timeout_around(context, kind, site)) is not None:
        config, paths = {"timeout": context.raw(around[:-1])["timeout"]}, {"timeout": around}
    for tool, path in entry.parts:
        own = {
            key: (value, (*path, key))
            for key, value in (tool.model_extra or {}).items()
            if _is_config(tool, key)
        }
        if tool.name is not None and tool.kind == kind.kind and "name" in kind.schema.get("properties", {}):
            own["name"] = (tool.name, (*path, "name"))
        below = config_from_spec(context.raw((*path, "spec")), kind)
        own = {key: (value, (*path, "spec", key)) for key, value in below.items()} | own
        config |= {key: value for key, (value, _) in own.items()}
        paths |= {key: at for key, (_, at) in own.items()}
    return config, paths


def _is_config(tool: Tool, key: str) -> bool:
    return not is_free(key) and (key != "task" or tool.kind != "workbook")


def _args(context: Context, entry: ToolEntry, site: Site) -> tuple[dict[str, Template], dict[str, Path]]:
    """The task's own inputs and where each stands."""
    args: dict[str, Template] = {}
    paths: dict[str, Path] = {}
    for tool, path in entry.parts:
        for key, names in inputs_of(tool).items():
            for name, value in names.items():
                args[name], paths[name] = _declared(name, value, path), (*path, key, name)
                context.use(paths[name], value, site.step)
    return args, paths


def _stages(entry: ToolEntry, paths: Mapping[str, Path]) -> tuple[tuple[str, ...], ...]:
    """The inputs by the part of the entry that says them, the call first: what the workbook says
    may name what its caller gives. One stage is as good where the workbook says no templates."""
    said: list[list[str]] = []
    for _, path in reversed(entry.parts):
        names = sorted(name for name, at in paths.items() if at[: len(path)] == path)
        said += [names] if names else []
    booked = [
        names for tool, path in entry.parts if path[0] == "workbook" for names in inputs_of(tool).values()
    ]
    return tuple(map(tuple, said)) if len(said) > 1 and any(map(holds_template, booked)) else ()


def _declared(name: str, value: Template, path: Path) -> Template:
    """An input that the workbook declares as null is for the caller to give: its step may do so as
    well."""
    if value is not None or path[0] != "workbook" or "'" in name or "\\" in name:
        return value
    return f"{{{{ args['{name}'] | default(none) }}}}"


def _set(context: Context, entry: ToolEntry, site: Site) -> tuple[Assignment, ...]:
    level = task_level(site)
    return tuple(one for tool, path in entry.parts for one in assignments(context, tool, path, level))


def _rules(
    context: Context, kind: KindInfo, entry: ToolEntry, around: Siblings, site: Site
) -> tuple[tuple[Rule, ...] | None, Path | None]:
    """The rules that hold for a task, and where they stand in the document."""
    own: list[tuple[list[PolicyRule], Path]] = []
    for tool, path in entry.parts:
        given = rules_of(tool.spec)
        if given is not None:
            own.append((given, (*path, "spec", "policy", "rules")))
    said = own or rules_around(context, site)
    found = said or _rules_of_kind(kind, entry.path)
    if not found:
        return None, None
    rules, path = found[-1]
    return policy(context, rules, path, entry.name, around, site), path if said else None


def _rules_of_kind(kind: KindInfo, path: Path) -> list[tuple[list[PolicyRule], Path]]:
    """The rules that a kind brings along; problems in them point at the task."""
    given = (kind.defaults.get("policy") or {}).get("rules")
    return [([PolicyRule.model_validate(rule) for rule in given], path)] if given else []
