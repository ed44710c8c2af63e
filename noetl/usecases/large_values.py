"""Values that are too large for the log leave it before they enter it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final, NoReturn

from noetl.errors import BadRequest, LimitExceeded, NotFound, Unavailable
from noetl.expressions import selected
from noetl.facts.events import (
    ChildCall,
    CtxPatched,
    Draft,
    IterationSuspended,
    StepSuspended,
    TaskCallDone,
    TaskCheckpointed,
    TaskLoopStarted,
    VariablesSet,
)
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.facts.reference import MANIFEST, Retention, is_reference
from noetl.net.model import ResultPolicy, Selected
from noetl.usecases.runtime import Runtime

#: Bytes of JSON of one part that is kept with a reference.
LARGEST_SELECTED: Final = 4096


def hold_draft(rt: Runtime, draft: Draft, keep: Retention) -> Draft:
    """The draft with every value above the inline limit replaced by its reference. Results of tasks
    are kept when they come (`keep_outcome`)."""
    match draft.fact:
        case TaskCheckpointed() as fact:
            return replace(draft, fact=replace(fact, checkpoint=rt.hold(fact.checkpoint, keep)))
        case TaskLoopStarted() as fact:
            return replace(draft, fact=replace(fact, items=rt.hold(fact.items, keep)))
        case TaskCallDone() as fact:
            request = None if fact.request is None else _each(rt, fact.request, keep)
            return replace(draft, fact=replace(fact, kept=rt.hold(fact.kept, keep), request=request))
        case CtxPatched(patch=patch) as fact:
            return replace(draft, fact=replace(fact, patch=_each(rt, patch, keep)))
        case VariablesSet() as fact:
            local, iteration, step = (_each(rt, part, keep) for part in (fact.local, fact.iter, fact.step))
            writes = tuple((name, rt.hold(value, keep)) for name, value in fact.writes)
            return replace(draft, fact=replace(fact, local=local, iter=iteration, step=step, writes=writes))
        case StepSuspended(child=ChildCall() as call) | IterationSuspended(child=ChildCall() as call) as fact:
            scope = None if call.iter is None else _each(rt, call.iter, keep)
            held = replace(call, payload=_each(rt, call.payload, keep), iter=scope)
            return replace(draft, fact=replace(fact, child=held))
        case _:
            return draft


def _each(rt: Runtime, values: JsonMap, keep: Retention) -> JsonMap:
    return {key: rt.hold(value, keep) for key, value in values.items()}


# --- results of tasks -----------------------------------------------------------------------------


def keep_outcome(rt: Runtime, outcome: Outcome, how: ResultPolicy, execution_id: str) -> Outcome:
    """The outcome with its result as the log will hold it: large ones leave the worker's memory
    here. A store that takes nothing fails the task, with its reason; for the worker it would be a
    command that no delivery can end."""
    if not outcome.ok:
        return outcome
    try:
        held = _keep_result(rt, outcome.result, how, execution_id)
    except (Unavailable, BadRequest, NotFound, LimitExceeded) as error:
        kind = "connection" if isinstance(error, Unavailable) else "limit"
        info = ErrorInfo(kind, error.message, type="ResultNotKept", retryable=kind == "connection")
        return failed(info, outcome.meta, **outcome.extras)
    return outcome if held is outcome.result else replace(outcome, result=held)


def _keep_result(rt: Runtime, result: Json, how: ResultPolicy, execution_id: str) -> Json:
    held = result
    if not is_reference(result):
        if not (how.aliased or rt.is_large(result, how.inline_bytes)):
            return result
        held = rt.results.put(result, how.keep(execution_id, rt.clock()))
    return {**held, **_select(rt, result, how)} if how.select else held


def _select(rt: Runtime, result: Json, how: ResultPolicy) -> dict[str, dict[str, Json]]:
    """What is kept with the reference. `extracted`: name → value; an alias is there whether its
    path names something or not: it is nobody else's name. `aliases`: name → path of parts that are
    too large for that, where the names differ. Raises LimitExceeded for such parts unless they may
    be fetched."""
    parts = selected(result, {part.name: part.path for part in how.select}, rt.load)
    large = {part.name: part for part in how.select if _size(parts.get(part.name)) > LARGEST_SELECTED}
    if large and how.on_large == "fail":
        _refuse(next(iter(large.values())), parts)
    known = {part.name: None for part in how.select if part.name != part.path} | parts
    extracted = {name: value for name, value in known.items() if name not in large}
    aliases: dict[str, Json] = {name: part.path for name, part in large.items() if name != part.path}
    return {"extracted": extracted} | ({"aliases": aliases} if aliases else {})


def _refuse(part: Selected, parts: JsonMap) -> NoReturn:
    size = _size(parts[part.name])
    raise LimitExceeded(
        f"'{part.path}', which spec.result.select names, has {size:,} bytes; at most {LARGEST_SELECTED:,} "
        "are kept with a reference: select less of it, or write on_large: fetch beside it."
    )


# --- lists ----------------------------------------------------------------------------------------


def keep_pages(rt: Runtime, items: Iterable[Json], keep: Retention) -> Json:
    """`items` as a list; where that is too large for the log, as a manifest of pages that are kept
    by reference, or the reference to one. Items that are references stay references."""
    # With the comma behind each.
    sized = ((item, _size(item) + 2) for item in items)
    first: list[tuple[Json, int]] = []
    total = 2
    for pair in sized:
        first.append(pair)
        total += pair[1]
        if total > rt.limits.inline_bytes:
            break
    else:
        return [item for item, _ in first]
    pages = _pages(chain(first, sized), rt.limits.page_bytes)
    parts = [{"count": len(page), "ref": _page(rt, page, keep)} for page in pages]
    manifest = {"kind": MANIFEST, "count": sum(part["count"] for part in parts), "parts": parts}
    return rt.results.put(manifest, keep) if _size(manifest) + 2 > rt.limits.inline_bytes else manifest


def _page(rt: Runtime, page: list[Json], keep: Retention) -> Json:
    """Nobody looks at one page by itself: without its preview the manifest stays short."""
    return {key: value for key, value in rt.results.put(page, keep).items() if key != "preview"}


def _pages(sized: Iterable[tuple[Json, int]], limit: int) -> Iterator[list[Json]]:
    page: list[Json] = []
    size = 0
    for item, bytes_ in sized:
        if page and size + bytes_ > limit:
            yield page
            page, size = [], 0
        page.append(item)
        size += bytes_
    yield page


def _size(value: Json) -> int:
    """Bytes of its JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
