"""The variables of an execution and the results of its steps, as of one version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.ui.json_text import make_visible
from noetl.ui.run.again import find_agains
from noetl.ui.run.look import RunLook
from noetl.ui.values import ShownValue, has_more, read_page, show_value
from noetl.usecases import inspect

#: Variables, and results, that one page shows; characters of each, and of its name.
MOST: Final = 200
_LONGEST: Final = 4_000
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A variable, or the result of a step. `key` is what the field `open` of the address calls it:
    the one that is open is shown page by page, the others in short. `address` leads there, or back;
    empty: all of it is shown."""

    key: str
    name: str
    value: ShownValue
    is_open: bool
    address: str


@dataclass(frozen=True, slots=True)
class NamedValues:
    """The first `MOST` of them, and how many more there are."""

    shown: list[NamedValue]
    more: int


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/moment.html` shows: `inputs`, `variables`, and `results` of steps; of a version
    that was chosen its event, and whether the visitor may go on from there."""
    found = inspect.state_view(look.visitor.rt, look.execution_id, look.at)
    results = {name: step["result"] for name, step in found["steps"].items() if step["result"] is not None}
    return {
        "inputs": _show_all(look, "inputs", look.report.inputs),
        "variables": _show_all(look, "ctx", found["ctx"]),
        "results": _show_all(look, "steps", results),
        "moment": None if look.at is None else _find_event(look, look.at),
        "may_fork": look.at is not None and "fork" in find_agains(look),
    }


def _find_event(look: RunLook, version: int) -> Event | None:
    """The event of a version; before the first one there is none."""
    found = inspect.events(look.visitor.rt, look.execution_id, version - 1, 1) if version else []
    return found[0] if found else None


def _show_all(look: RunLook, within: str, values: JsonMap) -> NamedValues:
    # The one that is open is shown, wherever it stands.
    opened = look.asked.get("open", "").removeprefix(f"{within}.")
    names = [*islice(values, MOST), *([opened] if opened in list(values)[MOST:] else [])]
    shown = [_show(look, f"{within}.{name}", name, values[name]) for name in names]
    return NamedValues(shown, len(values) - len(names))


def _show(look: RunLook, key: str, name: str, value: Json) -> NamedValue:
    named = make_visible(name[:_LONGEST_NAME])
    place = f"#{quote(key)}"
    if look.asked.get("open") != key:
        # What is kept outside of the log is read where it is asked for.
        shown = show_value(value, most=_LONGEST, name=name)
        more = look.here(open=key, page=None) + place if has_more(shown) else ""
        return NamedValue(key, named, shown, is_open=False, address=more)
    page = read_page(look.asked.get("page"))
    shown = show_value(
        value, look.visitor.rt.load, page, lambda number: look.here(page=number or None) + place, name=name
    )
    return NamedValue(key, named, shown, is_open=True, address=look.here(open=None, page=None) + place)
