"""Forms in the configuration of a task: what people fill in, declared as the inputs of a playbook
are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from noetl.dsl.compile.context import Context
from noetl.dsl.compile.inputs import compile_form
from noetl.dsl.document.forms import find_forms, parts_of_form, read_declarations
from noetl.dsl.document.texts import is_template
from noetl.dsl.document.validation import warn_unknown
from noetl.dsl.problems import Code, Finding, Path
from noetl.dsl.read.origins import value_at
from noetl.net.forms import form_to_json
from noetl.net.model import KindInfo, Template

#: The keys of a tool, each with its value and where it stands.
Configured: TypeAlias = dict[str, tuple[Template, Path]]


def compile_forms(
    context: Context, kind: KindInfo, configured: Configured, step: str | None
) -> tuple[Configured, Configured]:
    """The keys with `{inputs, defaults}` in the place of forms, and the same with nothing there:
    the templates in forms are known already."""
    config = {key: value for key, (value, _) in configured.items()}
    whole, bare = dict(configured), dict(configured)
    for key, *way in find_forms(config, kind.declares):
        at = (*configured[str(key)][1], *way)
        compiled = _compile(context, value_at(config, (key, *way)), at, step)
        for made, form in ((whole, compiled), (bare, None)):
            value, path = made[str(key)]
            made[str(key)] = _put(value, tuple(way), form), path
    return whole, bare


def _compile(context: Context, form: Any, at: Path, step: str | None) -> Template:
    if is_template(form):
        message = f"`{at[-1]}` is declared like `inputs`, and cannot be a template"
        context.report.add(Code.VALUE, at, message, "only what stands under `default` can be one")
        return None
    if not isinstance(form, dict | list):
        message = f"`{at[-1]}` must be a mapping from names to types, or a list of mappings with name"
        context.report.add(Code.TYPE, at, message, "declare it like `inputs`")
        return None

    def keep(finding: Finding) -> None:
        context.report.keep(replace(finding, path=(*at, *finding.path)))

    said = read_declarations(form, context.report.names, keep)
    for part, path in parts_of_form(said, at):
        warn_unknown(part, path, context.report)
    return form_to_json(*compile_form(context, said, at, step))


def _put(value: Any, way: Path, form: Template) -> Any:
    """A copy of `value` with `form` at `way`."""
    if not way:
        return form
    head, rest = way[0], way[1:]
    if isinstance(value, list) and isinstance(head, int):
        return [_put(inner, rest, form) if at == head else inner for at, inner in enumerate(value)]
    return {**value, head: _put(value[head], rest, form)}
