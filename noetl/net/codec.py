"""Nets as JSON: exact both ways, named by the digest of what they say, and compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from noetl.errors import NoetlError
from noetl.facts.json import Json, canonical
from noetl.net.model import Assignment, Net
from noetl.net.older import from_schema_1

#: What `limits` says where nothing does.
_UNLIMITED: Final[Mapping[str, Any]] = {"concurrency": [], "rate": None, "priority": None}

#: Of the nets that this version writes. A net that an older version would not understand has
#: another one.
SCHEMA: Final = 2


#: What a net, a task, a rule, a loop, a step and an arc say that earlier versions did not know, and
#: what it is of one that does not say it.
_LATER: Final[Mapping[str, Json]] = {
    "inputs": [],
    "key": None,
    "retry": None,
    "on_cancel": None,
    "regions": [],
    "labels": {},
    "provides": {"credentials": [], "playbooks": []},
}
_LATER_OF_TASKS: Final[Mapping[str, Json]] = {"cache": None, "unmatched": "continue", "takes_rows": []}
_LATER_OF_LOOPS: Final[Mapping[str, Json]] = {
    "sync": True,
    "enough": None,
    "grow": None,
    "close": None,
    "concurrency": [],
}
_LATER_OF_STEPS: Final[Mapping[str, Json]] = {
    "terminate": None,
    "completes": [],
    "milestone": None,
    "compensate": None,
    "cleanup": None,
}
_LATER_OF_DIRECTIVES: Final[Mapping[str, Json]] = {"count": "all"}
_LATER_OF_ARCS: Final[Mapping[str, Json]] = {"times": 1}


def to_json(net: Net) -> dict[str, Json]:
    """The net as JSON data, with its schema and positions."""
    body: dict[str, Json] = _adapter().dump_python(net, mode="json")
    # Nets that do not say what earlier versions did not know have the digests that they had there.
    _leave_out(body, _LATER)
    _leave_out_limits(body)
    for task in _tasks_of(body):
        _leave_out(task, _LATER_OF_TASKS)
        for rule in (*(task["rules"] or ()), *(task["older"]["then"] if task["older"] else ())):
            _leave_out(rule["then"], _LATER_OF_DIRECTIVES)
    for loop in _loops_of(body):
        _leave_out(loop, _LATER_OF_LOOPS)
    for step in body["transitions"]:
        _leave_out(step, _LATER_OF_STEPS)
        for arc in step["arcs"]:
            _leave_out(arc, _LATER_OF_ARCS)
    return {"schema": SCHEMA, **body}


def _leave_out(part: dict[str, Json], later: Mapping[str, Json]) -> None:
    for key, value in later.items():
        if part[key] == value:
            del part[key]


def _leave_out_limits(body: dict[str, Any]) -> None:
    """Those of what has none."""
    for part in (body, *body["transitions"]):
        if part["limits"] == _UNLIMITED:
            del part["limits"]


def _loops_of(body: Mapping[str, Any]) -> Iterator[dict[str, Json]]:
    """The loops of steps, and of tasks."""
    owners = (*body["transitions"], *_tasks_of(body))
    return (owner["loop"] for owner in owners if owner["loop"] is not None)


def _tasks_of(body: Mapping[str, Any]) -> Iterator[dict[str, Json]]:
    yield from body["workbook"].values()
    for step in body["transitions"]:
        yield from step["tasks"]
        if step["loop"] is not None and step["loop"]["cursor"] is not None:
            yield step["loop"]["cursor"]


def from_json(body: Mapping[str, Json]) -> Net:
    """The net that `to_json` gave, in this version or an earlier one.

    Raises NoetlError where `body` is none, says what no net says, or is of a schema that this
    version does not know."""
    said = dict(body)
    schema = said.pop("schema", 1)
    if schema == 1:
        said = from_schema_1(said)
    elif schema != SCHEMA:
        raise NoetlError(
            f"The stored net of playbook '{body.get('path')}' is of schema {schema}, and this version of "
            "NoETL knows "
            f"schemas up to {SCHEMA}: run its executions with the version that stored it, or a later one."
        )
    try:
        return _adapter().validate_python(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise NoetlError(
            f"The stored net of playbook '{body.get('path')}' cannot be read: {place}: {first['msg']}; "
            "run its "
            "executions with the version that stored it, or register the playbook and start it again."
        ) from None


def digest(net: Net) -> str:
    """SHA-256 (hex) of the body in canonical JSON: equal bodies have equal digests and no others
    do."""
    return digest_of(to_json(net))


def digest_of(body: Mapping[str, Json]) -> str:
    """The digest of a net whose body is that one."""
    return hashlib.sha256(canonical(body).encode()).hexdigest()


@cache
def _adapter() -> TypeAdapter[Net]:
    # Built at first use: nets are compiled in places that never store them.
    return TypeAdapter(Net)


#: Fields that say where something stands in its file, not what it is.
_POSITIONS: Final = frozenset({"line", "lines", "file"})


def same_net(one: Net, other: Net) -> bool:
    """Whether two nets say the same, wherever it stands in their files.

    The order in which one `set` assigns different names does not count either: keys have no order.
    """
    return bool(meaning(one) == meaning(other))


def meaning(value: Any) -> Any:
    """What a part of a net says, as JSON data, without where it stands in its file."""
    if isinstance(value, tuple):
        items = [meaning(item) for item in value]
        if value and all(isinstance(item, Assignment) for item in value):
            items.sort(key=lambda item: (item["scope"], item["name"]))
        return items
    if isinstance(value, Mapping):
        return {key: meaning(item) for key, item in value.items()}
    if is_dataclass(value):
        return {
            field.name: meaning(getattr(value, field.name))
            for field in fields(value)
            if field.name not in _POSITIONS
        }
    return value
