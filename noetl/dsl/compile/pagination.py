"""`pagination` of an http task: which request follows which page, and what is kept of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from noetl.dsl.compile.context import Context, Site
from noetl.dsl.compile.entries import Entry
from noetl.dsl.compile.policies import seconds_at
from noetl.dsl.compile.repetition import (
    MOST_CALLS,
    Repetition,
    again,
    expression,
    in_braces,
    is_cut,
    number,
    sets,
    subscripts,
)
from noetl.dsl.document import Pagination
from noetl.dsl.document.texts import is_template
from noetl.dsl.document.validation import warn_unknown
from noetl.dsl.problems import Code, Path, shown
from noetl.facts.json import Json
from noetl.net.model import Assignment, Task, Template

#: A pipeline ends at most 10,000 tasks, two for each page.
_MOST_PAGES: Final = 4_000
#: What each type knows besides `type, items, stop_when, max_pages, collect, delay`.
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "page": frozenset({"param", "start", "size"}),
    "offset": frozenset({"param", "start", "limit"}),
    "cursor": frozenset({"param", "path", "start"}),
    "link": frozenset(),
}
_OF_ALL: Final = frozenset({"type", "items", "stop_when", "max_pages", "collect", "delay"})
_NEEDED: Final[Mapping[str, str]] = {"offset": "limit", "cursor": "path"}


def paged(context: Context, entry: Entry, task: Task, site: Site, store: str) -> Repetition | None:
    """What the task's pagination stands for; None where it has none that can be used."""
    given = [
        (tool.pagination, (*path, "pagination")) for tool, path in entry.parts if tool.pagination is not None
    ]
    if not given:
        return None
    # The innermost one: a call of the workbook may replace that of the task.
    form = _checked(context, task, *given[-1], site)
    return None if form is None else _Pages(task, form, store).repetition()


# --- checks -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    """A pagination that makes sense; numbers are numbers or templates."""

    given: Pagination
    type: str
    max_pages: Template
    delay: Template


def _checked(context: Context, task: Task, given: Pagination, at: Path, site: Site) -> _Form | None:
    """None where it cannot be used; problems say why."""
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
    return _Form(given, given.type, MOST_CALLS if given.max_pages is None else given.max_pages, delay)


def _fits(context: Context, task: Task, given: Pagination, at: Path) -> bool:
    numbers = [("start", 0, None), ("size", 1, None), ("limit", 1, None), ("max_pages", 1, _MOST_PAGES)]
    fine = [
        _is_number(context, getattr(given, key), (*at, key), low, high)
        for key, low, high in numbers
        if key in _OF_ALL | _KEYS[given.type or ""] and (key, given.type) != ("start", "cursor")
    ]
    params = task.config.get("params")
    if given.type == "link":
        return all(fine) and _can_be_dropped(context, params, at)
    if params is not None and not isinstance(params, dict):
        message = f"pagination by {given.type} adds to `params`, which is {shown(params)}"
        context.report.add(Code.VALUE, at, message, "write params: as a mapping", at_key=True)
        return False
    return all(fine)


def _is_number(context: Context, value: Json, at: Path, low: int, high: int | None) -> bool:
    if value is None or expression(value) is not None:
        return True
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and value >= low
        and (high is None or value <= high)
    ):
        return True
    wanted = f"a whole number from {low}" + (f" to {high:,}" if high else "")
    context.report.add(
        Code.VALUE, at, f"{at[-1]} is {shown(value)}", f"write {wanted}, or a template that is one expression"
    )
    return False


def _can_be_dropped(context: Context, params: Json, at: Path) -> bool:
    """The link of the next page brings its own parameters, so those of the first one must be expressions."""
    if params is None or (isinstance(params, dict) and all(map(_is_simple, params.values()))):
        return True
    hint = "write params: as a mapping of plain values and of templates that are one expression each"
    context.report.add(
        Code.VALUE,
        at,
        "the link of the next page replaces `params`, which cannot be left out",
        hint,
        at_key=True,
    )
    return False


def _is_simple(value: Template) -> bool:
    if isinstance(value, list | dict):
        return False
    return not is_template(value) or expression(value) is not None


# --- tasks ------------------------------------------------------------------------------------------


class _Pages:
    """The calls of one paged task. `store` is the variable in which it keeps what it knows between pages."""

    def __init__(self, task: Task, form: _Form, store: str) -> None:
        self._task = task
        self._form = form
        self._given = form.given
        self._store = store

    def repetition(self) -> Repetition:
        store = self._store
        first, later = self._requests()
        result = {
            "data": in_braces(f"({store}.parts | default({{}})).values() | flatten"),
            "pages": in_braces(f"{store}.count | default(0)"),
            "truncated": in_braces(is_cut(store)),
        }
        return Repetition(
            task=replace(self._task, config={**self._task.config, **first}),
            store=store,
            call="page",
            most=self._form.max_pages,
            delay=self._form.delay,
            backoff="fixed",
            kept=tuple(self._kept()),
            then=(again(store, in_braces(f"{store}.more and not {store}.stop"), later),),
            result=result,
            pages=self._form.type,
            until=self._given.stop_when,
        )

    # --- the request ---

    def _requests(self) -> tuple[dict[str, Template], dict[str, Template]]:
        """What the pagination adds to the first request, and what differs in a later one."""
        given, config = self._given, self._task.config
        params = config.get("params") or {}
        following = in_braces(f"{self._store}.next")
        match self._form.type:
            case "page":
                name, first = given.param or "page", self._start(1)
            case "offset":
                name, first = given.param or "offset", self._start(0)
                params = {**params, "limit": given.limit}
            case "cursor":
                name, first = given.param or "cursor", given.start
            case _:
                key = "url" if "url" in config else "endpoint"
                # Nulls are left out: the link brings its own parameters.
                return {}, {key: following, "params": dict.fromkeys(params)}
        return {"params": {**params, name: first}}, {"params": {name: following}}

    def _start(self, default: int) -> Template:
        first = default if self._given.start is None else self._given.start
        return in_braces(number(first))

    def _position(self, start: int) -> str:
        first = start if self._given.start is None else self._given.start
        return f"{self._store}.next | default({number(first)})"

    # --- what a page leaves ---

    def _kept(self) -> list[Assignment]:
        """The values see `output`, the answer, and the store as it was before this page."""
        store, replaces = self._store, self._given.collect == "replace"
        items = in_braces(f"[] + {self._items}")
        return [
            Assignment("local", f"{store}.parts{'.1' if replaces else ''}", items, append=not replaces),
            sets(store, "next", in_braces(self._next)),
            sets(store, "more", in_braces(self._is_more)),
            sets(store, "stop", self._stop),
        ]

    @property
    def _stop(self) -> Template:
        stop = self._given.stop_when
        if isinstance(stop, str) and not is_template(stop):
            return in_braces(stop)
        return bool(stop) if stop is None else stop

    @property
    def _items(self) -> str:
        return f"output.data{subscripts(self._given.items)}"

    @property
    def _next(self) -> str:
        match self._form.type:
            case "page":
                return f"({self._position(1)}) + 1"
            case "offset":
                return f"({self._position(0)}) + {number(self._given.limit)}"
            case "cursor":
                return f"output.data{subscripts(self._given.path)} | default(none)"
            case _:
                return "output.links.next | default(none)"

    @property
    def _is_more(self) -> str:
        full = self._given.size if self._form.type == "page" else self._given.limit
        match self._form.type:
            case "page" | "offset":
                return f"({self._items} | length) >= {1 if full is None else number(full)}"
            case _:
                return f"true if ({self._next}) else false"
