"""How events move a loop and its iterations, and what the loop yields: results, and writes to ctx
folded by their reducers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

from noetl.engine.changes import replace
from noetl.engine.inputs import Inputs
from noetl.engine.run_state import CursorState, LockedCall, LoopState, SparseValues
from noetl.errors import TemplateError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.facts.reference import load_value, plain


def new_loop(fact: e.LoopStarted) -> LoopState:
    empty = SparseValues(fact.count)
    cursor = CursorState() if fact.cursor else None
    return LoopState(
        fact.count,
        fact.items,
        fact.mode,
        fact.max_in_flight,
        empty,
        empty,
        empty,
        cursor=cursor,
        stays_open=fact.open,
    )


def fold_iteration(
    loop: LoopState,
    index: int,
    fact: e.IterationFact,
) -> LoopState:
    match fact:
        case e.LoopClaimed():
            return _add_claim(loop, fact)
        case e.LoopGrown():
            return _add_items(loop, fact)
        case e.LoopDone():
            return replace(cut_short(loop) if fact.cut else loop, closed=True)
        case e.IterationStarted():
            return replace(loop, started=loop.started | 1 << index)
        case e.IterationResumed():
            return replace(loop, locked=_without(loop.locked, index)) if index in loop.locked else loop
        case e.IterationSuspended():
            return _suspend(loop, index, fact)
        case e.IterationDone():
            return _end_iteration(loop, index, fact)
        case e.IterationFailed():
            loop = _close(loop, index)
            bit = 1 << index
            return replace(loop, failed=loop.failed | bit, errors={**loop.errors, index: fact.error})
        case e.IterationCancelled():
            loop = _close(loop, index)
            calling = tuple(one for one in loop.calling if one != index)
            return replace(loop, cancelled=loop.cancelled | 1 << index, calling=calling)
        case _:
            assert_never(fact)


def _suspend(loop: LoopState, index: int, fact: e.IterationSuspended) -> LoopState:
    call = LockedCall.of(fact)
    locked = loop.locked if call is None else {**loop.locked, index: call}
    return replace(loop, suspended={**loop.suspended, index: fact.due_at}, locked=locked)


def _add_claim(loop: LoopState, fact: e.LoopClaimed) -> LoopState:
    """Rows bring lanes: one to each that waits, and one that looks for more."""
    before = loop.cursor or CursorState()
    cursor = CursorState(
        drained=not fact.count and fact.error is None,
        wanted=max(fact.waiting, min(fact.count, 1)),
        error=before.error or fact.error,
        lost=before.lost,
    )
    return replace(_longer(loop, fact.count), cursor=cursor)


def _add_items(loop: LoopState, fact: e.LoopGrown) -> LoopState:
    """What an iteration that has ended brought."""
    added = (*loop.added, (loop.count, fact.items)) if fact.count else loop.added
    return replace(_longer(loop, fact.count), asked=loop.asked | 1 << fact.from_index, added=added)


def _longer(loop: LoopState, more: int) -> LoopState:
    count = loop.count + more
    return replace(
        loop,
        count=count,
        results=SparseValues(count, loop.results.chunks),
        writes=SparseValues(count, loop.writes.chunks),
        ended_at=SparseValues(count, loop.ended_at.chunks),
    )


def with_lanes(loop: LoopState, generation: int) -> LoopState:
    """A lane was issued: the lanes that were wanted are on their way."""
    cursor = replace(loop.cursor, wanted=0) if loop.cursor else None
    return replace(loop, generation=generation, cursor=cursor)


def reset_drained(loop: LoopState) -> LoopState:
    """There may be rows again: an iteration has ended, which may have added some."""
    if loop.cursor is None or not loop.cursor.drained:
        return loop
    return replace(loop, cursor=replace(loop.cursor, drained=False))


def lose_lane(loop: LoopState) -> LoopState:
    """A lane was given up, perhaps with rows of which nobody has heard: the next generation asks
    for them."""
    if loop.cursor is None:
        return loop
    return replace(loop, cursor=replace(loop.cursor, lost=loop.generation))


def _end_iteration(loop: LoopState, index: int, fact: e.IterationDone) -> LoopState:
    result = loop.partial.get(index, {}).get(fact.task) if fact.task is not None else None
    loop = replace(_close(loop, index), results=loop.results.put(index, result))
    if not fact.writes:
        return loop
    return replace(loop, writes=loop.writes.put(index, [list(write) for write in fact.writes]))


def _close(loop: LoopState, index: int) -> LoopState:
    return replace(
        reset_drained(loop),
        ended=loop.ended | 1 << index,
        partial=_without(loop.partial, index),
        suspended=_without(loop.suspended, index),
        locked=_without(loop.locked, index),
        unwanted=_without(loop.unwanted, index),
    )


def cut_short(loop: LoopState) -> LoopState:
    """The loop with every iteration cancelled that has not ended."""
    left = ~loop.ended & (1 << loop.count) - 1
    return replace(
        loop,
        ended=loop.ended | left,
        cancelled=loop.cancelled | left,
        partial={},
        suspended={},
        locked={},
        calling=(),
        unwanted={},
        closed=True,
    )


def find_begun(run_issues: Iterable[str], loop: LoopState) -> list[int]:
    """The iterations that have begun, as far as that is known, and not ended. `run_issues` are the
    parts of its run that commands were issued for."""
    resumed = (int(part[1:]) for part in run_issues if part.startswith("i"))
    begun = {*loop.partial, *loop.suspended, *loop.calling, *resumed, *members(loop.started & ~loop.ended)}
    return sorted(index for index in begun if not loop.ended >> index & 1)


def note_begun(run_issues: Container[str], loop: LoopState, index: int) -> LoopState:
    """What is known of an iteration that is about to end without an outcome: whether it had
    begun."""
    waits = index in loop.partial or index in loop.suspended or index in loop.calling
    begun = waits or f"i{index}" in run_issues
    return replace(loop, started=loop.started | 1 << index) if begun else loop


def item_at(items: Json, added: Sequence[tuple[int, Json]], index: int, inputs: Inputs) -> Json:
    """The item of that index, of the collection or of what was added to it; null where neither has
    it: each row of a cursor is only in the event that claimed it."""
    first, chunk = next((one for one in reversed(added) if one[0] <= index), (0, items))
    found = chunk if inputs.load is None else load_value(chunk, inputs.load)
    return found[index - first] if isinstance(found, Sequence) and index - first < len(found) else None


def members(bits: int) -> Iterator[int]:
    """The indices that a bit set holds."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _without(mapping: Mapping[int, Any], key: int) -> dict[int, Any]:
    return {other: value for other, value in mapping.items() if other != key}


def loop_result(loop: LoopState, paged: Callable[[Iterable[Json]], Json] = list) -> dict[str, Json]:
    """What a loop step yields: results in item order, the counts, and errors where there are any.
    `paged` makes the lists."""
    result: dict[str, Json] = {"results": paged(loop.results), "stats": loop_stats(loop)}
    if loop.errors:
        failed = (loop.errors.get(index) for index in range(loop.count))
        result["errors"] = paged(error.as_json() if error else None for error in failed)
    return result


def loop_stats(loop: LoopState) -> dict[str, int]:
    stats = {"total": loop.count, "completed": loop.completed_count, "failed": loop.failed_count}
    return {**stats, "cancelled": loop.cancelled.bit_count()} if loop.cancelled else stats


def reduce_writes(
    reducers: Mapping[str, str], writes: Iterable[Json], ctx: Json, inputs: Inputs
) -> dict[str, Json]:
    """ctx name → value: what the iterations wrote ((name, value) pairs for each), folded onto what
    ctx has. What comes to nothing else is the neutral value of its reducer.

    Raises TemplateError where values do not fit their reducer.
    """
    folded: dict[str, Json] = {}
    for pairs in writes:
        for name, value in pairs or ():
            before = folded[name] if name in folded else _load(_at(ctx, name), inputs)
            folded[name] = reduce_value(reducers[name], before, _load(value, inputs), name)
    for name, reducer in reducers.items():
        if (folded[name] if name in folded else _at(ctx, name)) is None:
            folded[name] = neutral(reducer)
    return {name: inputs.hold(value) for name, value in folded.items()}


def _at(ctx: Json, path: str) -> Json:
    for key in path.split("."):
        ctx = ctx.get(key) if isinstance(ctx, Mapping) else None
    return ctx


def _load(value: Json, inputs: Inputs) -> Json:
    return value if inputs.load is None else plain(load_value(value, inputs.load))


def neutral(reducer: str) -> Json:
    """What a reducer comes to over nothing: null where no value would do."""
    match reducer:
        case "sum":
            return 0
        case "append":
            return []
        case "merge":
            return {}
    return None


def reduce_value(reducer: str, before: Json, value: Json, name: str = "x") -> Json:
    """One write folded onto what was there; null counts as nothing (but `append` and `last` keep
    it). Raises TemplateError where the two cannot be folded."""
    match reducer:
        case "last":
            return value
        case "append":
            return [*_as(list, reducer, name, before), value]
        case "merge":
            return {**_as(dict, reducer, name, before), **_as(dict, reducer, name, value)}
    if before is None or value is None:
        return value if before is None else before
    try:
        return _NUMERIC[reducer](before, value)
    except TypeError as error:
        message = f"The reducer `{reducer}` of ctx.{name} cannot fold {value!r:.60} onto {before!r:.60}."
        raise TemplateError(message) from error


_NUMERIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "sum": lambda before, value: before + value,
    "min": min,
    "max": max,
}


def _as(kind: type[Any], reducer: str, name: str, value: Json) -> Any:
    """`value` as the list or mapping that the reducer works on; null is an empty one."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        wanted = "a list" if kind is list else "mappings"
        raise TemplateError(f"The reducer `{reducer}` of ctx.{name} needs {wanted}, not {value!r:.60}.")
    return value
