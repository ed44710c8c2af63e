"""What happened in an execution, without what differs between two that did the same."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from noetl.facts.events import Event
from noetl.usecases.views import envelope

#: Which execution an event is of, and which version of its playbook; keys are made of its id.
_WHOSE = frozenset({"event_id", "execution_id", "version", "playbook_version", "key"})
#: When it was, and how long it took; an answer of a server tells that too.
_WHEN = frozenset({"recorded_at", "started_at", "due_at", "duration_ms", "elapsed", "date"})
#: Where something stands in its file; the digest of a net depends on that.
_WHERE = frozenset({"line", "digest"})
_BY_CHANCE = _WHOSE | _WHEN | _WHERE
#: What depends on the order of work that is done side by side: the version of the log that a
#: command sees.
_BY_ORDER = frozenset({"ctx_version"})


def history(events: Iterable[Event]) -> list[Any]:
    """The events as JSON, in their order."""
    return [_lasting(envelope(event), event.execution_id) for event in events]


def in_any_order(told: Iterable[Any]) -> list[Any]:
    """A history in an order that does not depend on which of two branches was faster."""
    return sorted((_unordered(event) for event in told), key=_text)


def _unordered(event: Any) -> Any:
    payload = {key: value for key, value in event["payload"].items() if key not in _BY_ORDER}
    if "tokens" in payload:
        payload["tokens"] = sorted(payload["tokens"], key=_text)
    return {**event, "payload": payload}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _is_digest(key: str, value: Any) -> bool:
    """Whether it is the digest of a call: an answer that the call is given tells when it was."""
    return key == "call" and isinstance(value, str) and value.startswith("#")


def _lasting(value: Any, execution_id: str) -> Any:
    match value:
        case dict():
            return {
                key: _lasting(item, execution_id)
                for key, item in value.items()
                if key not in _BY_CHANCE and not _is_digest(key, item)
            }
        case list():
            return [_lasting(item, execution_id) for item in value]
        case str():
            return value.replace(execution_id, "ID")
        case _:
            return value
