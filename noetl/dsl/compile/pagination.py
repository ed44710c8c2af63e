"""`pagination` of an http task: from the document to the net."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.dsl.compile.context import Context, Site
from noetl.dsl.compile.entries import ToolEntry
from noetl.dsl.compile.policies import seconds_at
from noetl.dsl.document import Pagination
from noetl.dsl.document.texts import is_template
from noetl.dsl.document.validation import warn_unknown
from noetl.dsl.problems import Code, Path, shown
from noetl.facts.json import Json
from noetl.net.model import CollectPolicy, PageKind, Pages, Repeat, Task, Template

#: Pages unless the playbook says how many.
_MOST_PAGES: Final = 100
#: What each type knows besides `type, items, stop_when, max_pages, collect, delay`.
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "page": frozenset({"param", "start", "size"}),
    "offset": frozenset({"param", "start", "limit"}),
    "cursor": frozenset({"param", "path", "start"}),
    "link": frozenset(),
}
_OF_ALL: Final = frozenset({"type", "items", "stop_when", "max_pages", "collect", "delay"})
_NEEDED: Final[Mapping[str, str]] = {"offset": "limit", "cursor": "path"}


def paged(context: Context, entry: ToolEntry, task: Task, site: Site) -> Repeat | None:
    """The task's pagination; None where it has none that can be used, and problems say why."""
    given = [
        (tool.pagination, (*path, "pagination")) for tool, path in entry.parts if tool.pagination is not None
    ]
    # The innermost one: a call of the workbook may replace that of the task.
    return _paged(context, task, *given[-1], site) if given else None


# --- checks --------------------------------------------------------------------------------------


def _paged(context: Context, task: Task, given: Pagination, at: Path, site: Site) -> Repeat | None:
    report = context.report
    warn_unknown(given, at, report)
    if task.kind != "http":
        report.add(
            Code.MISPLACED,
            at,
            f"`pagination` means nothing to {task.kind}",
            "it belongs to http tasks",
            at_key=True,
        )
        return None
    if given.type is None:
        report.missing(at, "type", "the pagination has no type", f"add type: with one of {', '.join(_KEYS)}")
        return None
    named = given.model_fields_set & Pagination.model_fields.keys()
    for key in sorted(named - _OF_ALL - _KEYS[given.type]):
        known = ", ".join(sorted(_OF_ALL | _KEYS[given.type]))
        report.add(
            Code.IGNORED,
            (*at, key),
            f"`{key}` means nothing to pagination by {given.type}",
            f"known here: {known}",
            at_key=True,
        )
    needed = _NEEDED.get(given.type)
    if needed is not None and not getattr(given, needed):
        report.missing(at, needed, f"pagination by {given.type} needs {needed}", f"add {needed}:")
        return None
    if not _fits(context, task, given, at):
        return None
    for key in ("start", "size", "limit", "max_pages", "delay"):
        context.use((*at, key), getattr(given, key), site.step)
    context.use((*at, "stop_when"), given.stop_when, site.step, guard=True)
    delay = 0.0 if given.delay is None else seconds_at(context, given.delay, (*at, "delay"))
    most = _MOST_PAGES if given.max_pages is None else given.max_pages
    collect = CollectPolicy(given.items or "", given.collect or "append")
    return Repeat((), _pages(given, given.type), most, delay, "fixed", collect)


def _pages(given: Pagination, by: PageKind) -> Pages:
    return Pages(
        by,
        param=given.param or ("" if by == "link" else by),
        start=given.start,
        size=given.limit if by == "offset" else given.size,
        path=given.path or "",
        until=given.stop_when,
    )


def _fits(context: Context, task: Task, given: Pagination, at: Path) -> bool:
    numbers = [("start", 0), ("size", 1), ("limit", 1), ("max_pages", 1)]
    fine = [
        _is_number(context, getattr(given, key), (*at, key), low)
        for key, low in numbers
        if key in _OF_ALL | _KEYS[given.type or ""] and (key, given.type) != ("start", "cursor")
    ]
    params = task.config.get("params")
    if given.type == "link":
        return all(fine) and _can_be_dropped(context, params, at)
    if params is not None and not isinstance(params, dict):
        context.report.add(
            Code.VALUE,
            at,
            f"pagination by {given.type} adds to `params`, which is {shown(params)}",
            "write params: as a mapping",
            at_key=True,
        )
        return False
    return all(fine)


def _is_number(context: Context, value: Json, at: Path, low: int) -> bool:
    if value is None or is_expression(value):
        return True
    if isinstance(value, int) and not isinstance(value, bool) and value >= low:
        return True
    context.report.add(
        Code.VALUE,
        at,
        f"{at[-1]} is {shown(value)}",
        f"write a whole number from {low}, or a template that is one expression",
    )
    return False


def _can_be_dropped(context: Context, params: Json, at: Path) -> bool:
    """The link of the next page brings its own parameters, so those of the first one must be
    expressions."""
    if params is None or (isinstance(params, dict) and all(map(_is_simple, params.values()))):
        return True
    context.report.add(
        Code.VALUE,
        at,
        "the link of the next page replaces `params`, which cannot be left out",
        "write params: as a mapping of plain values and of templates that are one expression each",
        at_key=True,
    )
    return False


def _is_simple(value: Template) -> bool:
    if isinstance(value, list | dict):
        return False
    return not is_template(value) or is_expression(value)


def is_expression(value: Template) -> bool:
    """Whether a template is one expression in braces and nothing else."""
    text = value.strip() if isinstance(value, str) else ""
    return text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1 and "{%" not in text
