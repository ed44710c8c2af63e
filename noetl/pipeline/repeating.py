"""Tasks that are called again after a success: which request is next, what is kept, and what the
whole yields.

The requests of `next` build upon the first one as it was rendered, so what later calls change is
rendered once. Pages render the task anew, and lay their own parameter over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from noetl.errors import BadRequest, TemplateError
from noetl.expressions import evaluate, evaluate_at, truth
from noetl.facts.events import TaskCallDone
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.outcome import Outcome, failed, succeeded
from noetl.facts.reference import Lazy, Load, load_value, open_references, plain
from noetl.facts.warnings import Warned
from noetl.net.attempts import grow_delay
from noetl.net.model import EACH_INPUTS, Backoff, CollectPolicy, Pages, Repeat, Task, Template
from noetl.pipeline.failures import CannotGoOn, blame
from noetl.pipeline.model import Calls
from noetl.pipeline.names import TemplateScope
from noetl.pipeline.policy import holds, read_seconds
from noetl.pipeline.standstill import refuse_standstill

#: The kind whose results are responses: paths lead into their body.
_HTTP: Final = "http"


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """A call that went well: its result, opened, and its `request`; what rules and what `set` see
    of it."""

    result: Json
    request: JsonMap
    in_rules: TemplateScope
    in_set: TemplateScope
    load: Load
    warnings: list[Warned]

    def body(self, task: Task) -> Json:
        return _body(task, self.result)


# --- the request ---------------------------------------------------------------------------------


def changed_keys(repeat: Repeat) -> tuple[str, ...]:
    """The keys of the tool (and `args`) in which requests of `next` differ from the first one."""
    return tuple(dict.fromkeys(key for one in repeat.next for key in one.changes))


def changed_inputs(repeat: Repeat) -> frozenset[str]:
    """The inputs in which requests of `next` differ from the first one."""
    return frozenset(name for one in repeat.next for name in _mapping(one.changes.get("args")))


def first_params(pages: Pages) -> dict[str, Template]:
    """The query parameters that the first page is asked for with, besides those of the task."""
    match pages.by:
        case "page":
            return {pages.param: 1 if pages.start is None else pages.start}
        case "offset":
            return {pages.param: 0 if pages.start is None else pages.start, "limit": pages.size}
        case "cursor":
            return {pages.param: pages.start}
        case "link":
            return {}


def first_page(pages: Pages, sight: TemplateScope, load: Load) -> JsonMap:
    """What lies over the request of the first page. Raises TemplateError and BadRequest."""
    params = {name: evaluate(value, sight, load=load) for name, value in first_params(pages).items()}
    if pages.by in ("page", "offset"):
        params[pages.param] = whole_number("start", params[pages.param], sight, load)
    return {"params": params} if params else {}


# --- after a call --------------------------------------------------------------------------------


def call_end(task: Task, repeat: Repeat, calls: Calls, answer: CallAnswer, outcome: Outcome) -> TaskCallDone:
    """What is recorded of a call that went well, and whether another one follows.

    Raises TemplateError, BadRequest, LimitExceeded and what `load` raises."""
    number = calls.count + 1
    kept = _collect_call(task, repeat, answer)
    wanted = _request(task, repeat, answer)
    if wanted is not None:
        refuse_standstill(repeat, calls, (answer.request, wanted), kept, answer.load)
    follows = wanted is not None and number < whole_number("max", repeat.max, answer.in_rules, answer.load)
    delay = 0.0
    if follows:
        first = read_seconds("delay", repeat.delay, answer.in_rules, answer.load)
        delay = grown(first, repeat.backoff, number)
    elif wanted is not None:
        answer.warnings.append(_truncation(repeat, number))
    return TaskCallDone(
        task.name,
        number,
        outcome.result,
        kept,
        wanted if follows else None,
        wanted is not None and not follows,
        delay,
        outcome.meta,
        outcome.extras,
    )


def _truncation(repeat: Repeat, number: int) -> str:
    key = "max" if repeat.pages is None else "max_pages"
    return (
        f"The last answer asks for another {repeat.call}, and `{key}` of `{repeat.key}` allows {number}: "
        "what would follow is left out."
    )


def _request(task: Task, repeat: Repeat, answer: CallAnswer) -> JsonMap | None:
    """The request of the call that the answer asks for."""
    if repeat.pages is not None:
        return _next_page(task, repeat.pages, repeat.collect or CollectPolicy(), answer)
    for number, one in enumerate(repeat.next):
        if holds(one.when, answer.in_rules, answer.load):
            place = f"repeat.next[{number}]" if len(repeat.next) > 1 else "repeat.next"
            changes = evaluate_at(
                place, dict(one.changes), answer.in_rules, answer.warnings, load=answer.load
            )
            following: JsonMap = deep_merge(answer.request, changes)
            return following
    return None


def _next_page(task: Task, pages: Pages, collect: CollectPolicy, answer: CallAnswer) -> JsonMap | None:
    params = _mapping(answer.request.get("params"))
    following: Json
    match pages.by:
        case "page" | "offset":
            size = 1 if pages.size is None else whole_number("size", pages.size, answer.in_rules, answer.load)
            more = len(_items(answer, collect.path)) >= size
            following = params[pages.param] + (size if pages.by == "offset" else 1)
        case "cursor":
            following = _at(answer.body(task), pages.path, None)
            more = bool(following)
        case "link":
            following = _at(answer.result, "links.next", None)
            more = bool(following)
    if not more or (pages.until is not None and truth(pages.until, answer.in_set, load=answer.load)):
        return None
    if pages.by == "link":
        # The link brings its own parameters: nulls are left out.
        return {address_key(task): following, "params": dict.fromkeys(_mapping(task.config.get("params")))}
    return {**answer.request, "params": {**params, pages.param: following}}


def address_key(task: Task) -> str:
    """What the task calls its URL."""
    return "url" if "url" in task.config else "endpoint"


def grown(first: float, how: Backoff, number: int) -> float:
    """Seconds between call `number` (from 1) and the next one, where the first delay is `first`."""
    return first if how in ("none", "fixed") else grow_delay(how, first, number)


# --- what is kept --------------------------------------------------------------------------------


def _collect_call(task: Task, repeat: Repeat, answer: CallAnswer) -> Json:
    collect = repeat.collect
    if collect is None:
        return None
    if repeat.pages is not None:
        return _items(answer, collect.path)
    found = _find(task, collect.path, answer.result)
    if collect.strategy == "append" and not isinstance(found, list):
        return [] if found is None else [found]
    return found


def _items(answer: CallAnswer, path: str) -> list[Json]:
    """The items of a page: none where it, or its body, is null. Raises TemplateError where there is
    no list."""
    body = _mapping(answer.result).get("data")
    found = None if body is None else _at(body, path, _MISSING)
    if found is None or isinstance(found, list):
        return found or []
    what = "is undefined" if found is _MISSING else "is no list, which pages are made of"
    raise TemplateError(f"'output.data{_subscripts(path)}' {what}.")


def _find(task: Task, path: str, result: Json) -> Json:
    """What stands at `path`: of http in the body, else in the response. Raises TemplateError."""
    for place in (_body(task, result), result) if path else (_body(task, result),):
        if (found := _at(place, path, _MISSING)) is not _MISSING:
            return found
    raise TemplateError(f"'output{_subscripts(path)}' is undefined: the answer has nothing at {path!r}.")


# --- the whole -----------------------------------------------------------------------------------


def whole(task: Task, repeat: Repeat, calls: Calls, load: Load) -> tuple[Outcome, Json]:
    """What the task has come to, and what was collected of all calls."""
    try:
        with blame(f"The `{repeat.key}` of task '{task.name}'"):
            data = _collect(repeat.collect, calls, load)
            return succeeded(_result(repeat, calls, data, load)), data
    except CannotGoOn as fault:
        return failed(fault.error), None


def _collect(collect: CollectPolicy | None, calls: Calls, load: Load) -> Json:
    parts = [open_references(part, load) for part in calls.parts]
    match collect.strategy if collect is not None else "append":
        case "replace":
            return parts[-1] if parts else None
        case "merge":
            return evaluate("{{ parts | merge }}", {"parts": parts}, load=load)
        case "append":
            return [item for part in parts for item in part]


def _result(repeat: Repeat, calls: Calls, data: Json, load: Load) -> Json:
    more: dict[str, Json] = {"pages": calls.count, "truncated": calls.truncated}
    if repeat.pages is not None:
        return {"data": data, **more}
    page = plain(load_value(calls.page, load))
    if repeat.collect is None and not calls.truncated:
        return page
    whole: dict[str, Json] = {**page} if isinstance(page, Mapping) else {"data": page}
    if repeat.collect is not None and repeat.collect.into is None:
        whole["data"] = data
    return whole | more


def inputs_of_each(owner: Task, calls: Calls, load: Load) -> JsonMap:
    """What tasks that run after every call of `owner` are handed. Raises what `load` raises."""
    data = _body(owner, plain(load_value(calls.page, load))) if owner.kind == _HTTP else calls.page
    return dict(zip(EACH_INPUTS, (data, calls.page, calls.page), strict=True))


# --- paths and numbers ---------------------------------------------------------------------------

#: Nothing stands there.
_MISSING: Final[Any] = object()


def whole_number(name: str, value: Template, sight: TemplateScope, load: Load) -> int:
    """A number, or what a template yields. Raises TemplateError, and BadRequest for anything
    else."""
    found = evaluate(value, sight, load=load)
    try:
        return int(found)
    except (TypeError, ValueError, OverflowError):
        raise BadRequest(f"'{name}' must be a whole number, not {str(found)[:40]!r}.") from None


def _body(task: Task, result: Json) -> Json:
    return _mapping(result).get("data") if task.kind == _HTTP else result


def _mapping(value: Json) -> JsonMap:
    return value if isinstance(value, Mapping) else {}


def _at(value: Json, path: str, default: Any) -> Any:
    """What `path` (`meta.next`, `rows.0`) leads to; digits are indices of lists."""
    for part in _parts(path):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | Lazy) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return default
    return value


def _parts(path: str) -> Iterable[str]:
    return path.split(".") if path else ()


def _subscripts(path: str) -> str:
    return "".join(f"[{part}]" if part.isdecimal() else f'["{part}"]' for part in _parts(path))
