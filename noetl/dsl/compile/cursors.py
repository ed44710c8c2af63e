"""`loop.cursor`: the call that claims rows, compiled like a task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from noetl.dsl.compile.code import verbatim_keys
from noetl.dsl.compile.context import CompiledCall, Context, PipelineSite, whole_number
from noetl.dsl.compile.specs import effective_spec
from noetl.dsl.document import Cursor, FrameSpec
from noetl.dsl.document.misspelt import is_free
from noetl.dsl.problems import Code, Path, quote_value
from noetl.expressions import inside
from noetl.net.model import Directive, KindInfo, Rule, Task, Template

#: The task's name: what errors and events call it.
NAME: Final = "claim"
#: The key of the kind that the claim is handed over as. Kinds that bind `params` into it can be
#: cursors.
_COMMAND: Final = "command"
MAX_ROWS: Final = 100
#: What `:max_rows` is called in the templates of a claim.
ROWS: Final = "__frame_max_rows"
#: What can be bound besides `params`: name → template.
_BOUND: Final[Mapping[str, Template]] = {
    "execution_id": "{{ execution_id }}",
    "run": "{{ _run }}",
    "worker": "{{ _worker }}",
}
_RETRYABLE: Final = "{{ outcome.status == 'error' and outcome.error.retryable }}"
#: A claim that may go well the next time is made three times in all. It never leaves its worker for
#: that.
_RULES: Final = (
    Rule(_RETRYABLE, Directive("retry", attempts=3, backoff="exponential", delay=0.5)),
    Rule("{{ outcome.status == 'error' }}", Directive("fail")),
)
#: What of a statement is no code: comments, texts, templates.
NO_CODE: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def cursor(
    context: Context, part: Cursor, path: Path, site: PipelineSite, frame: FrameSpec | None
) -> Task | None:
    """The claim of the cursor at `path`; None where it cannot be made."""
    kind = _kind(context, part, path)
    if part.claim is None or not part.claim.strip():
        context.report.missing(
            path, "claim", "the cursor does not say how rows are claimed", "add claim: UPDATE ... RETURNING *"
        )
    if kind is None or part.claim is None:
        return None
    at = (*path, "claim")
    config: dict[str, Template] = {
        key: value
        for key, value in (part.model_extra or {}).items()
        if not is_free(key) and key not in kind.verbatim_with_params
    }
    paths: dict[str, Path] = {key: (*path, key) for key in config}
    for key, value in config.items():
        context.use(paths[key], value, site.step)
    rows = _rows_per_claim(context, frame, site)
    params = {**_bind_names(part.claim, rows), **(part.params or {})}
    for name, value in (part.params or {}).items():
        context.use((*path, "params", name), value, site.step)
    spec = effective_spec(context, kind, site, [path])
    verbatim = verbatim_keys(kind, {_COMMAND: part.claim, "params": part.params}, spec)
    args: dict[str, Template] = {}
    if not verbatim:
        context.use(at, part.claim, site.step)
        args = _read(part.claim, rows)
    paths |= {_COMMAND: at, "params": (*path, "params")}
    config |= {_COMMAND: part.claim, **({"params": params} if params else {})}
    claim = Task(
        name=NAME,
        kind=kind.kind,
        config=config,
        args=args,
        rules=_RULES,
        spec=spec,
        line=context.report.source.mark(path).line,
        lines={key: context.line(where) for key, where in paths.items()},
        verbatim=verbatim,
        effects=kind.effects_with(config),
    )
    context.notes.calls.append(
        CompiledCall(site.step or "", path, path, kind, claim, (path,), paths, claims=True)
    )
    return claim


def _kind(context: Context, part: Cursor, path: Path) -> KindInfo | None:
    able = sorted(name for name, kind in context.kinds.items() if _COMMAND in kind.verbatim_with_params)
    if part.kind is None:
        context.report.missing(
            path, "kind", "the cursor has no kind", f"add kind: with one of {', '.join(able)}"
        )
        return None
    if part.kind in able:
        return context.kinds[part.kind]
    context.report.add(
        Code.UNKNOWN_KIND,
        (*path, "kind"),
        f"rows cannot be claimed with kind {quote_value(part.kind)}",
        context.report.suggest(part.kind, able, f"one of {', '.join(able)}"),
    )
    return None


def _bind_names(claim: str, rows: Template) -> dict[str, Template]:
    """What the claim asks for by name. A parameter that no statement uses would be an error of the
    tool."""
    given: dict[str, Template] = {**_BOUND, "max_rows": rows}
    bare = NO_CODE.sub(" ", claim)
    return {name: value for name, value in given.items() if re.search(rf"(?<![\w:]):{name}\b", bare)}


def _read(claim: str, rows: Template) -> dict[str, Template]:
    """What the templates of a claim that is rendered may read besides: a number, whatever a
    template comes to."""
    if ROWS not in claim:
        return {}
    inner = inside(rows) if isinstance(rows, str) else None
    return {ROWS: f"{{{{ ({inner}) | int }}}}" if inner else rows}


def _rows_per_claim(context: Context, frame: FrameSpec | None, site: PipelineSite) -> Template:
    if frame is None or frame.max_rows is None:
        return MAX_ROWS
    at: Path = (*site.specs[-1], "frame", "max_rows")
    rows = whole_number(context, frame.max_rows, at, MAX_ROWS)
    context.use(at, rows, site.step)
    return rows
