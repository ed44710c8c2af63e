"""How a loop moves: what each event of it and of its iterations changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from noetl.engine.slots import Slots
from noetl.engine.state import LoopState
from noetl.facts import events as e
from noetl.facts.json import Json


def new_loop(fact: e.LoopStarted) -> LoopState:
    empty = Slots.empty(fact.count)
    return LoopState(fact.count, fact.items, fact.mode, fact.max_in_flight, empty, empty)


def moved(
    loop: LoopState,
    index: int,
    fact: e.LoopDone
    | e.IterationStarted
    | e.IterationSuspended
    | e.IterationResumed
    | e.IterationDone
    | e.IterationFailed,
) -> LoopState:
    match fact:
        case e.LoopDone():
            return replace(loop, closed=True)
        case e.IterationStarted() | e.IterationResumed():
            return loop
        case e.IterationSuspended():
            return replace(loop, suspended={**loop.suspended, index: fact.due_at})
        case e.IterationDone():
            return _iteration_done(loop, index, fact)
        case e.IterationFailed():
            loop = _closed(loop, index)
            bit = 1 << index
            return replace(loop, failed=loop.failed | bit, errors={**loop.errors, index: fact.error})
        case _:
            assert_never(fact)


def _iteration_done(loop: LoopState, index: int, fact: e.IterationDone) -> LoopState:
    result = loop.partial.get(index, {}).get(fact.task) if fact.task is not None else None
    loop = replace(_closed(loop, index), results=loop.results.put(index, result))
    if not fact.writes:
        return loop
    return replace(loop, writes=loop.writes.put(index, [list(write) for write in fact.writes]))


def _closed(loop: LoopState, index: int) -> LoopState:
    loop = replace(loop, ended=loop.ended | 1 << index)
    if index in loop.partial:
        loop = replace(loop, partial=_without(loop.partial, index))
    if index in loop.suspended:
        loop = replace(loop, suspended=_without(loop.suspended, index))
    return loop


def _without(mapping: Mapping[int, Any], key: int) -> dict[int, Any]:
    return {other: value for other, value in mapping.items() if other != key}


def loop_result(loop: LoopState, paged: Callable[[Iterable[Json]], Json] = list) -> dict[str, Json]:
    """What a loop step yields: results in item order, the counts, and errors where there are any. `paged` makes
    the lists."""
    result: dict[str, Json] = {"results": paged(loop.results), "stats": loop_stats(loop)}
    if loop.errors:
        failed = (loop.errors.get(index) for index in range(loop.count))
        result["errors"] = paged(error.as_json() if error else None for error in failed)
    return result


def loop_stats(loop: LoopState) -> dict[str, int]:
    return {"total": loop.count, "completed": loop.completed_count, "failed": loop.failed_count}
