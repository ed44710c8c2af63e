"""The log of an execution: its events block by block, narrowed by their type, step and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any, Final

from noetl.facts.event_names import STATUS_OF, TYPES, types_called
from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.ui.json_text import make_visible, write_json
from noetl.ui.run.look import RunLook
from noetl.usecases import inspect
from noetl.usecases.access import ANONYMOUS
from noetl.usecases.inspect import EventSlice
from noetl.usecases.ports import EventFilter
from noetl.usecases.views import envelope

#: Events of one block. Blocks are counted from the beginning of the log, so that one which is full
#: stays what it is, however the log grows.
BLOCK: Final = 100
#: Characters of a payload that is there to be unfolded, of all of them on a page, of the one that
#: was opened, and of the line that says what is in one.
_SMALL: Final = 600
_ALL_SMALL: Final = 80_000
_OPENED: Final = 60_000
_LINE: Final = 150
#: What the filter by type has besides types: all that say that something failed.
FAILURES: Final = "failures"
_FAILED: Final = tuple(sorted(one.type for one, status in STATUS_OF.items() if status == "failed"))


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """A row. `brief` is the beginning of the payload, empty where it has none; `payload` all of it,
    None where it has to be opened first, at `address`."""

    event: Event
    status: str
    brief: str
    payload: str | None
    is_open: bool
    is_whole: bool
    address: str

    @property
    def principal(self) -> str:
        caller = self.event.draft.caller
        return "" if caller is None or caller.principal == ANONYMOUS else make_visible(caller.principal)


@dataclass(frozen=True, slots=True)
class EventBlock:
    """Rows that are asked for together, in the order in which they are shown."""

    number: int
    rows: Sequence[ShownEvent]


@dataclass(frozen=True, slots=True)
class TypeGroup:
    """Types of events that begin with the same word."""

    name: str
    types: Sequence[str]


TYPE_GROUPS: Final = tuple(
    TypeGroup(name, tuple(types)) for name, types in groupby(TYPES, key=lambda one: one.partition(".")[0])
)


def count(look: RunLook) -> str:
    """How many there are."""
    return f"{look.version:,}"


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/events.html` shows."""
    types = _find_types(look)
    kind = types[0] if len(types) == 1 else look.asked.get("type", "")
    fault = "" if set(types) <= set(TYPES) else _say_unknown(kind)
    page = EventSlice([], 0, 0) if fault else _find_page(look)
    return {
        "blocks": _show_all(look, page),
        "count": page.count,
        "block_size": BLOCK,
        "more": look.here(first=None, open=None),
        "newest_first": _is_newest_first(look),
        "fault": fault,
        "type": kind,
        "is_listed": kind in ("", FAILURES, *TYPES),
        "types": TYPE_GROUPS,
        "failures": FAILURES,
        "step_names": list(look.report.steps),
        "filtered": any(look.asked.get(name) for name in ("type", "step", "run", "iteration")),
        "links": _make_links(look, page),
    }


def gather_rows(look: RunLook) -> Mapping[str, Any]:
    """What `run/event_rows.html` shows."""
    return {"blocks": _show_all(look, _find_page(look))}


def _find_types(look: RunLook) -> tuple[str, ...]:
    """The types that are asked for; none: all of them."""
    asked: str = look.asked.get("type", "")
    if asked == FAILURES:
        return _FAILED
    return types_called(asked) if asked else ()


def _is_newest_first(look: RunLook) -> bool:
    return look.asked.get("order") != "oldest"


def _say_unknown(asked: str) -> str:
    return f"{asked[:80]!r} is not a type of event.{did_you_mean(asked[:80], TYPES)}"


def _find_page(look: RunLook) -> EventSlice:
    run = look.run if look.run and "#" in look.run else None
    where = EventFilter(_find_types(look), look.step, run, look.iteration)
    # What came behind the version that is looked at had not happened then.
    return inspect.slice_events(
        look.visitor.rt, look.execution_id, where, look.version, lambda count: _find_range(look, count)
    )


def _find_range(look: RunLook, count: int) -> range:
    """The block that was asked for, or those that are shown first; of the last one what a page does
    not have yet that looks again."""
    if first := look.number("first"):
        return _find_block(count, first)
    if look.known is not None:
        last = _find_block(count, count)
        return range(min(max(last.start, look.known), last.stop), last.stop)
    return _find_end(count, newest_first=_is_newest_first(look))


def _find_block(count: int, first: int) -> range:
    """The block that has the event of that number, from 1; the last one, where there are fewer."""
    begin = max(0, min(first, count) - 1) // BLOCK * BLOCK
    return range(begin, min(begin + BLOCK, count))


def _find_end(count: int, *, newest_first: bool) -> range:
    """The two blocks that are shown first: the newest one may have begun just now."""
    last = _find_block(count, count).start
    begin = max(0, last - BLOCK) if newest_first else 0
    return range(begin, min(begin + 2 * BLOCK, count))


def _make_links(look: RunLook, page: EventSlice) -> dict[str, str]:
    """Words of links, and where they lead, for who has no scripts."""
    links: dict[str, str] = {}
    newest_first = _is_newest_first(look)
    if look.asked.get("first"):
        links["Newest" if newest_first else "Oldest"] = look.here(first=None, open=None)
    before, behind = page.skipped, page.skipped + len(page.events)
    older = look.here(first=before - BLOCK + 1, open=None) if before else ""
    newer = look.here(first=behind + 1, open=None) if behind < page.count else ""
    both = (("Newer", newer), ("Older", older))
    return links | {word: where for word, where in (both if newest_first else both[::-1]) if where}


# --- rows -----------------------------------------------------------------------------------------


def _show_all(look: RunLook, page: EventSlice) -> list[EventBlock]:
    opened, left = look.number("open"), _ALL_SMALL
    blocks: dict[int, list[ShownEvent]] = {}
    for number, event in enumerate(page.events, page.skipped):
        is_open = event.version == opened
        address = look.here(part=None, first=number + 1, open=None if is_open else event.version)
        row = _show(event, f"{address}#v{event.version}", is_open=is_open, is_room=left > 0)
        left -= 0 if row.is_open else len(escape(row.payload or ""))
        blocks.setdefault(number // BLOCK, []).append(row)
    step = -1 if _is_newest_first(look) else 1
    return [EventBlock(number, blocks[number][::step]) for number in list(blocks)[::step]]


def _show(event: Event, address: str, *, is_open: bool, is_room: bool) -> ShownEvent:
    payload: JsonMap = envelope(event)["payload"]
    status = STATUS_OF.get(type(event.fact), "completed")
    brief = _say_briefly(payload) if payload else ""
    written = write_json(payload, _OPENED if is_open else _SMALL)
    is_there = bool(payload) and (is_open or (written.is_whole and is_room))
    text = written.text if is_there else None
    return ShownEvent(event, status, brief, text, is_open and bool(payload), written.is_whole, address)


def _say_briefly(payload: JsonMap) -> str:
    said = {name: value for name, value in payload.items() if _is_said(value)}
    line = write_json(said, _LINE, indent=False)
    return (line.text if line.is_whole else f"{line.text}…") if said else "{…}"


def _is_said(value: Json) -> bool:
    """Whether a field of a payload says something: others are what they mostly are."""
    return value is not None and value is not False and value not in ("", [], {})
