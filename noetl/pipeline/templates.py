"""The templates of a task: found once, rendered at every attempt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from noetl.errors import NoetlError
from noetl.expressions import BeginQuoting, QuotedText, evaluate, evaluate_at
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Load, open_references
from noetl.facts.warnings import Warned
from noetl.net.deferred import without_guards
from noetl.net.model import Task, Template
from noetl.pipeline.failures import CannotGoOn, describe_failure
from noetl.pipeline.names import TemplateScope

#: A template that is the `rows` of something, which is a chain of names and items.
_ROWS: Final = re.compile(r"""\{\{-?\s*((?:\w+)(?:\.\w+|\[(?:\d+|'[^']*'|"[^"]*")\])*)\.rows\s*-?\}\}""")


@dataclass(frozen=True, slots=True)
class Stage:
    """Inputs that are rendered at once, and those of them that hold templates."""

    args: JsonMap
    templates: Mapping[str, Template]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task, and those of its values that hold templates. `whole` are the keys of its
    configuration that are handed over without references."""

    task: Task
    config: Mapping[str, Template]
    #: The inputs over those of the step, which the task's own ones see.
    given: Stage | None
    stages: tuple[Stage, ...]
    whole: frozenset[str]
    #: The configuration as it is written, of keys in which guards stand that are asked later.
    guarded: Mapping[str, Template] = field(default_factory=dict)


def prepare_task(task: Task, quoting: BeginQuoting) -> Prepared:
    """`task` with its templates told apart from what is handed over as written. `quoting` says how
    values are written into its command lines."""
    if task.loop is not None or task.repeat is not None:
        # What `spec.result` selects is of the whole, not of each item or call.
        task = replace(task, result=replace(task.result, select=()))
    if task.repeat is not None:
        task = replace(task, name=f"{task.name}.{task.repeat.call}")
    stages = task.stages or ((tuple(task.args),) if task.args else ())
    config = _without_guards(task)
    return Prepared(
        task,
        {
            k: _quote(v, quoting) if k in task.quoted else v
            for k, v in config.items()
            if k not in task.verbatim and has_template(v)
        },
        _stage(task.given) if task.given else None,
        tuple(_stage({name: task.args[name] for name in names}) for names in stages),
        frozenset(task.config) - frozenset(task.by_reference),
        {k: v for k, v in task.config.items() if config[k] is not v},
    )


def _without_guards(task: Task) -> Mapping[str, Template]:
    """The configuration with null in the place of guards that are asked later."""
    if not task.deferred:
        return task.config
    bare = without_guards(task.config, task.deferred)
    return {k: bare[k] if bare[k] != v else v for k, v in task.config.items()}


def _stage(args: Mapping[str, Template]) -> Stage:
    return Stage(dict(args), {k: v for k, v in args.items() if has_template(v)})


def _quote(value: Template, quoting: BeginQuoting) -> Template:
    """`value`, a command line or a list of them; lists inside are arguments, which no shell
    reads."""
    if isinstance(value, list | tuple):
        return [QuotedText(one, quoting) if isinstance(one, str) else one for one in value]
    return QuotedText(value, quoting) if isinstance(value, str) else value


def render(
    ready: Prepared,
    templates: Mapping[str, Template],
    sight: TemplateScope,
    warnings: list[Warned],
    load: Load,
    below: str = "",
) -> JsonMap:
    """The values of `templates`, which stand in the task's key `below`, or are its own keys.

    Raises CannotGoOn with the error of the first value that fails by itself, at its line."""
    if not templates:
        return {}
    task, whole = ready.task, frozenset[str]() if below else ready.whole
    try:
        rendered: JsonMap = evaluate_at(below, templates, sight, warnings, load=load)
        for key in () if below else task.takes_rows:
            if key in rendered:
                rendered = {**rendered, key: _with_types(templates[key], rendered[key], sight, load)}
        return {k: open_references(v, load) if k in whole else v for k, v in rendered.items()}
    except NoetlError as error:
        for key, value in templates.items():
            try:
                found = evaluate(value, sight, load=load)
                if key in whole:
                    open_references(found, load)
            except NoetlError as cause:
                line = _line(task, f"{below}.{key}" if below else key, value, cause)
                raise CannotGoOn(
                    describe_failure(cause, f"The '{key}' of task '{task.name}'", line)
                ) from cause
        raise CannotGoOn(describe_failure(error, f"The values of task '{task.name}'")) from error


def _with_types(template: Template, value: Json, sight: TemplateScope, load: Load) -> Json:
    """`value`, in which rows come with their types where `template` leads to those of a SQL
    result."""
    match template, value:
        case Mapping(), Mapping() if template.keys() == value.keys():
            return {k: _with_types(template[k], inner, sight, load) for k, inner in value.items()}
        case str(), list() if (chain := _ROWS.fullmatch(template)) is not None:
            types, columns = (
                evaluate(f"{{{{ {chain[1]}.{key} }}}}", sight, load=load) for key in ("types", "columns")
            )
            has_both = isinstance(types, list) and isinstance(columns, list)
            return {"rows": value, "columns": columns, "types": types} if has_both else value
        case _:
            return value


def _line(task: Task, key: str, value: Template, error: NoetlError) -> int | None:
    """The line of the file where the value of `key` fails with `error`."""
    if (line := task.lines.get(key)) is None:
        return None
    inside = getattr(error, "line", None)
    return line + inside - 1 if isinstance(value, str) and inside else line


def has_template(value: Template) -> bool:
    """Whether a brace stands anywhere in `value`; where none does, rendering yields `value`
    itself."""
    if isinstance(value, str):
        return "{" in value
    if isinstance(value, Mapping):
        return any(has_template(key) or has_template(inner) for key, inner in value.items())
    return isinstance(value, list | tuple) and any(has_template(inner) for inner in value)
