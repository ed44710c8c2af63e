"""Values that are too large for the log: kept elsewhere before they enter it, and put back in the
place of their references for those who look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final, NoReturn

from noetl.errors import BadRequest, LimitExceeded, NotFound, Unavailable
from noetl.expressions import select_parts
from noetl.facts import json
from noetl.facts.events import (
    ApprovalAnswered,
    CallbackReceived,
    ChildCall,
    CtxPatched,
    Draft,
    IterationSuspended,
    SignalReceived,
    StepSuspended,
    TaskCallDone,
    TaskCheckpointed,
    TaskLoopStarted,
    VariablesSet,
    Wait,
)
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.facts.reference import MANIFEST, Lazy, Retention, holds_reference, is_reference, load_value
from noetl.facts.waits import Awaited, LaterGuard
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
        case StepSuspended(wait=Wait() as wait) | IterationSuspended(wait=Wait() as wait) as fact:
            awaited = tuple(_hold_awaited(rt, one, keep) for one in wait.awaited)
            return replace(draft, fact=replace(fact, wait=replace(wait, awaited=awaited)))
        case SignalReceived() | CallbackReceived() as fact:
            return replace(draft, fact=replace(fact, payload=rt.hold(fact.payload, keep)))
        case ApprovalAnswered() as fact:
            return replace(draft, fact=replace(fact, values=_each(rt, fact.values, keep)))
        case _:
            return draft


def _hold_awaited(rt: Runtime, one: Awaited, keep: Retention) -> Awaited:
    signal, condition = one.signal, one.condition
    if signal is not None:
        match = _each(rt, signal.match, keep)
        signal = replace(signal, match=match, guard=_hold_guard(rt, signal.guard, keep))
    approval = one.approval
    if approval is not None:
        approval = replace(approval, show=rt.hold(approval.show, keep))
    return replace(one, signal=signal, condition=_hold_guard(rt, condition, keep), approval=approval)


def _hold_guard(rt: Runtime, guard: LaterGuard | None, keep: Retention) -> LaterGuard | None:
    return None if guard is None else replace(guard, names=_each(rt, guard.names, keep))


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
    path names something or not: the name stands for nothing else. `aliases`: name → path of parts
    that are too large for that, where the names differ. Raises LimitExceeded for such parts unless
    they may be fetched."""
    parts = select_parts(result, {part.name: part.path for part in how.select}, rt.load)
    large = {part.name: part for part in how.select if _json_bytes(parts.get(part.name)) > LARGEST_SELECTED}
    if large and how.on_large == "fail":
        _refuse(next(iter(large.values())), parts)
    known = {part.name: None for part in how.select if part.name != part.path} | parts
    extracted = {name: value for name, value in known.items() if name not in large}
    aliases: dict[str, Json] = {name: part.path for name, part in large.items() if name != part.path}
    return {"extracted": extracted} | ({"aliases": aliases} if aliases else {})


def _refuse(part: Selected, parts: JsonMap) -> NoReturn:
    size = _json_bytes(parts[part.name])
    raise LimitExceeded(
        f"'{part.path}', which spec.result.select names, has {size:,} bytes; at most {LARGEST_SELECTED:,} "
        "are kept with a reference: select less of it, or write on_large: fetch beside it."
    )


# --- lists ----------------------------------------------------------------------------------------


def keep_pages(rt: Runtime, items: Iterable[Json], keep: Retention) -> Json:
    """`items` as a list; where that is too large for the log, as a manifest of pages that are kept
    by reference, or the reference to one. Items that are references stay references."""
    # With the comma behind each.
    sized = ((item, _json_bytes(item) + 2) for item in items)
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
    return rt.results.put(manifest, keep) if _json_bytes(manifest) + 2 > rt.limits.inline_bytes else manifest


def _page(rt: Runtime, page: list[Json], keep: Retention) -> Json:
    """Pages are not looked at one by one: without their previews the manifest stays short."""
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


def _json_bytes(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


# --- values as people see them -------------------------------------------------------------------

#: Bytes of large results that one report shows in the place of their references.
SHOWN_BYTES = 8 * 1024 * 1024


def resolve(rt: Runtime, value: Json) -> Json:
    """What a value stands for where it is a reference, with those inside of it replaced as
    `Resolver` does."""
    whole = load_value(value, rt.load)
    return Resolver(rt)(value if isinstance(whole, Lazy) else whole)


class Resolver:
    """Replaces references, at any depth, by what they stand for, up to `SHOWN_BYTES` together. Each
    result counts once.

    Beyond that, and where a result is gone, the reference and its preview speak for it.
    """

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._left = SHOWN_BYTES
        self._known: dict[str, Json] = {}

    def __call__(self, value: Json) -> Json:
        return self._replace(value) if holds_reference(value) else value

    def _replace(self, value: Json) -> Json:
        if isinstance(value, Mapping):
            if is_reference(value):
                return self._load(value)
            return {key: self._replace(item) for key, item in value.items()}
        return [self._replace(item) for item in value] if isinstance(value, list) else value

    def _load(self, reference: JsonMap) -> Json:
        name = reference.get("ref")
        if name is None:
            return self._fetch(reference)
        if name not in self._known:
            self._known[name] = reference
            self._known[name] = self._fetch(reference)
        return self._known[name]

    def _fetch(self, reference: JsonMap) -> Json:
        if _read_size(reference) > self._left:
            return reference
        try:
            whole = load_value(reference, self._rt.load)
            if isinstance(whole, Lazy):
                return self._read_rows(reference, whole)
            self._left -= _read_size(reference)
            return self(whole)
        except (NotFound, Unavailable, BadRequest):
            # Gone, out of reach, or data of a tool that only looks like a reference.
            return reference

    def _read_rows(self, reference: JsonMap, rows: Lazy) -> Json:
        """The list where all of it fits, as far as its first pages tell: it is read until they tell
        that it will not."""
        before, size, found = self._left, 0, list[Json]()
        for page in rows.pages():
            # References among the items speak for themselves, or count as what they stand for.
            size += len(json.dumps([item for item in page if not is_reference(item)]))
            found += [self(item) for item in page]
            if size * len(rows) > self._left * len(found):
                self._left = before
                return reference
        self._left -= size
        return found


def _read_size(reference: JsonMap) -> int:
    """Bytes of what it stands for, as far as it says. A manifest tells of its parts while they are
    read."""
    meta = reference.get("meta")
    size = meta.get("bytes") if isinstance(meta, Mapping) else None
    if isinstance(size, int):
        return size
    return 0 if reference.get("kind") == MANIFEST else SHOWN_BYTES + 1
