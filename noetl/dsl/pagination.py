"""`pagination` of an http task, in the words of tasks and policies.

    fetch.page    the request of one page; its `set` keeps the page's items and finds the mark of the next one
    fetch.more    asks whether there is another page: jumps back, after a delay, or goes on
    fetch         yields {data, pages, truncated}, and forgets

What is known between pages stands in one variable of the pipeline. Every page ends a task, so it is in the log before the
next one is asked for, and a pipeline that lost its worker goes on with the page that is due. Policies of the task are
those of its pages: a retry repeats one page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from noetl.dsl.context import Context, Site, is_template
from noetl.dsl.document import Pagination
from noetl.dsl.entries import Entry
from noetl.dsl.policies import seconds_at
from noetl.dsl.problems import Code, Path, shown
from noetl.dsl.validation import warn_unknown
from noetl.facts.json import Json
from noetl.net.model import Assignment, Directive, Rule, Task, Template

MAX_PAGES: Final = 100
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


def paged(context: Context, tasks: Sequence[tuple[Entry, Task]], site: Site) -> tuple[Task, ...]:
    """The pipeline, with the tasks that `pagination` stands for. Jumps to such a task lead to its first page."""
    made: list[Task] = []
    moved: dict[str, str] = {}
    for entry, task in tasks:
        given = _given(entry)
        if given is None:
            made.append(task)
            continue
        form = _checked(context, task, *given, site)
        if form is not None:
            made += _Pages(task, form, f"_pages_{len(made)}").tasks()
            moved[task.name] = f"{task.name}.page"
    return tuple(_redirected(task, moved) for task in made)


def _given(entry: Entry) -> tuple[Pagination, Path] | None:
    """The innermost one: a call of the workbook may replace that of the task."""
    found = [
        (tool.pagination, (*path, "pagination")) for tool, path in entry.parts if tool.pagination is not None
    ]
    return found[-1] if found else None


def _redirected(task: Task, moved: Mapping[str, str]) -> Task:
    if not moved or task.rules is None:
        return task
    rules = tuple(
        replace(rule, then=replace(rule.then, to=moved.get(rule.then.to or "", rule.then.to)))
        for rule in task.rules
    )
    return replace(task, rules=rules)


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
    return _Form(given, given.type, MAX_PAGES if given.max_pages is None else given.max_pages, delay)


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
    if value is None or _expression(value) is not None:
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
    return not is_template(value) or _expression(value) is not None


# --- tasks ------------------------------------------------------------------------------------------


class _Pages:
    """The tasks of one paged task. `store` is the variable in which it keeps what it knows between pages."""

    def __init__(self, task: Task, form: _Form, store: str) -> None:
        self._task = task
        self._form = form
        self._given = form.given
        self._store = store

    def tasks(self) -> list[Task]:
        return [self._page(), self._more(), self._whole()]

    def _page(self) -> Task:
        task = self._task
        return replace(
            task,
            name=f"{task.name}.page",
            config={**task.config, **self._asked()},
            set=tuple(self._kept()),
            # What `spec.result` selects is of the whole.
            result=replace(task.result, select=()),
        )

    def _more(self) -> Task:
        again = self._in_braces(self._wanted)
        rules = [
            Rule(again, Directive("jump", to=f"{self._task.name}.page", set=(self._sets("asked", True),)))
        ]
        if self._form.delay:
            first = self._in_braces(f"{self._wanted} and _attempt == 1")
            rules.insert(
                0, Rule(first, Directive("retry", attempts=2, backoff="fixed", delay=self._form.delay))
            )
        task = self._task
        return Task(f"{task.name}.more", "noop", rules=tuple(rules), line=task.line, after=task.after)

    def _whole(self) -> Task:
        store = self._store
        result = {
            "data": self._in_braces(f"({store}.parts | default({{}})).values() | flatten"),
            "pages": self._in_braces(f"{store}.count | default(0)"),
            # A page that failed, where a policy went on after it, is missing as well.
            "truncated": self._in_braces(
                f"({store}.asked | default(true)) or ({store}.more and not {store}.stop)"
            ),
        }
        forget = Assignment("local", store, None)
        task = self._task
        sets = (forget, *task.set)
        return Task(
            task.name,
            "noop",
            config={"result": result},
            set=sets,
            line=task.line,
            result=task.result,
            after=task.after,
        )

    @property
    def _wanted(self) -> str:
        store, most = self._store, self._number(self._form.max_pages)
        return f"not ({store}.asked | default(true)) and {store}.more and not {store}.stop and {store}.count < {most}"

    # --- the request ---

    def _asked(self) -> dict[str, Template]:
        """What differs from page to page."""
        given, config = self._given, self._task.config
        params = dict(config.get("params") or {})
        match self._form.type:
            case "page":
                params[given.param or "page"] = self._in_braces(self._position(1))
            case "offset":
                params[given.param or "offset"] = self._in_braces(self._position(0))
                params["limit"] = given.limit
            case "cursor":
                first = _expression(given.start) or json.dumps(given.start)
                params[given.param or "cursor"] = self._in_braces(f"{self._store}.next | default({first})")
            case _:
                return self._linked(params)
        return {"params": params}

    def _linked(self, params: Mapping[str, Template]) -> dict[str, Template]:
        key = "url" if "url" in self._task.config else "endpoint"
        first, later = self._task.config[key], f"{self._store}.next"
        url = f"{{% if {later} %}}{{{{ {later} }}}}{{% else %}}{first}{{% endif %}}"
        dropped = {
            name: self._in_braces(f"none if {later} else ({_expression(value) or json.dumps(value)})")
            for name, value in params.items()
        }
        return {key: url} | ({"params": dropped} if dropped else {})

    def _position(self, start: int) -> str:
        first = start if self._given.start is None else self._given.start
        return f"{self._store}.next | default({self._number(first)})"

    # --- what a page leaves ---

    def _kept(self) -> list[Assignment]:
        """The values see `output`, the answer, and the store as it was before this page."""
        store, replaces = self._store, self._given.collect == "replace"
        items = self._in_braces(f"[] + {self._items}")
        return [
            Assignment("local", f"{store}.parts{'.1' if replaces else ''}", items, append=not replaces),
            self._sets("count", f"{{{{ ({store}.count | default(0)) + 1 }}}}"),
            self._sets("next", self._in_braces(self._next)),
            self._sets("more", self._in_braces(self._is_more)),
            self._sets("stop", False if self._given.stop_when is None else self._given.stop_when),
            self._sets("asked", False),
        ]

    @property
    def _items(self) -> str:
        return f"output.data{_subscripts(self._given.items)}"

    @property
    def _next(self) -> str:
        match self._form.type:
            case "page":
                return f"({self._position(1)}) + 1"
            case "offset":
                return f"({self._position(0)}) + {self._number(self._given.limit)}"
            case "cursor":
                return f"output.data{_subscripts(self._given.path)} | default(none)"
            case _:
                return "output.links.next | default(none)"

    @property
    def _is_more(self) -> str:
        full = self._given.size if self._form.type == "page" else self._given.limit
        match self._form.type:
            case "page" | "offset":
                return f"({self._items} | length) >= {1 if full is None else self._number(full)}"
            case _:
                return f"true if ({self._next}) else false"

    # --- small things ---

    def _sets(self, name: str, value: Template) -> Assignment:
        return Assignment("local", f"{self._store}.{name}", value)

    def _in_braces(self, expression: str) -> str:
        return f"{{{{ {expression} }}}}"

    def _number(self, value: Template) -> str:
        """A number, or what a template yields, in an expression."""
        return f"(({_expression(value)}) | int)" if isinstance(value, str) else str(value)


def _subscripts(path: str | None) -> str:
    """`meta.next` as `["meta"]["next"]`: keys of any spelling; digits are indices."""
    parts = path.split(".") if path else []
    return "".join(f"[{part if part.isdecimal() else json.dumps(part)}]" for part in parts)


def _expression(value: Template) -> str | None:
    """What stands inside of the braces of a template that is one expression; None for anything else."""
    text = value.strip() if isinstance(value, str) else ""
    if not (text.startswith("{{") and text.endswith("}}")) or text.count("{{") != 1 or "{%" in text:
        return None
    return text[2:-2].strip("-").strip()
