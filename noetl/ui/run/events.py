"""The log of an execution: its events by page, narrowed by their type, step and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any, Final

from noetl.facts.event_names import ALIASES, STATUS_OF, TYPES
from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.ui.json_text import make_visible, write_json
from noetl.ui.run.look import RunLook
from noetl.usecases import inspect
from noetl.usecases.access import ANONYMOUS
from noetl.usecases.inspect import EventPage
from noetl.usecases.ports import EventFilter
from noetl.usecases.views import envelope

#: Events of one page.
PAGE: Final = 200
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
    newest_first = look.asked.get("order") != "oldest"
    asked = look.asked.get("type", "")
    known = ALIASES.get(asked, asked)
    fault = "" if known in ("", FAILURES, *TYPES) else _say_unknown(asked)
    page = EventPage([], False, False) if fault else _find_page(look, known, newest_first=newest_first)
    shown = _show_all(look, page.events)
    return {
        "events": shown[::-1] if newest_first else shown,
        "newest_first": newest_first,
        "fault": fault,
        "type": known,
        "types": TYPE_GROUPS,
        "failures": FAILURES,
        "step_names": list(look.report.steps),
        "filtered": any(look.asked.get(name) for name in ("type", "step", "run", "iteration")),
        "links": _make_links(look, page, newest_first=newest_first),
    }


def _say_unknown(asked: str) -> str:
    return f"{asked[:80]!r} is not a type of event.{did_you_mean(asked[:80], TYPES)}"


def _find_page(look: RunLook, kind: str, *, newest_first: bool) -> EventPage:
    types = _FAILED if kind == FAILURES else (kind,) if kind else ()
    run = look.run if look.run and "#" in look.run else None
    where = EventFilter(types, look.step, run, look.iteration)
    after, before = look.number("after"), look.number("before")
    # What came behind the version that is looked at had not happened then.
    end = look.version + 1
    rt = look.visitor.rt
    if after is None and (before is not None or newest_first):
        page = inspect.last_events(rt, look.execution_id, where, min(before or end, end), PAGE)
        return EventPage(page.events, page.has_before, before is not None and before < end)
    page = inspect.first_events(rt, look.execution_id, where, after or 0, PAGE)
    events = [one for one in page.events if one.version < end]
    return EventPage(events, page.has_before, page.has_behind and len(events) == PAGE)


def _make_links(look: RunLook, page: EventPage, *, newest_first: bool) -> dict[str, str]:
    """Words of links, and where they lead."""
    links: dict[str, str] = {}
    if look.asked.get("before") or look.asked.get("after"):
        links["Newest" if newest_first else "Oldest"] = look.here(after=None, before=None, open=None)
    if not page.events:
        return links
    first, last = page.events[0].version, page.events[-1].version
    newer = look.here(after=last, before=None, open=None) if page.has_behind else ""
    older = look.here(before=first, after=None, open=None) if page.has_before else ""
    both = (("Newer", newer), ("Older", older))
    return links | {word: where for word, where in (both if newest_first else both[::-1]) if where}


# --- rows -----------------------------------------------------------------------------------------


def _show_all(look: RunLook, events: Sequence[Event]) -> list[ShownEvent]:
    opened, left = look.number("open"), _ALL_SMALL
    shown: list[ShownEvent] = []
    for event in events:
        row = _show(look, event, is_open=event.version == opened, is_room=left > 0)
        left -= 0 if row.is_open else len(escape(row.payload or ""))
        shown.append(row)
    return shown


def _show(look: RunLook, event: Event, *, is_open: bool, is_room: bool) -> ShownEvent:
    payload: JsonMap = envelope(event)["payload"]
    status = STATUS_OF.get(type(event.fact), "completed")
    address = look.here(open=None if is_open else event.version) + f"#v{event.version}"
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
