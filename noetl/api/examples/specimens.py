"""Examples of the routes that take an execution out, as a file or as a test, and bring files in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from noetl.api.examples.example import AT, END, ID, JSON, LINES, LINKS, PATH, PLAYBOOK, YAML, Example
from noetl.facts.events import Draft, Event, Requested
from noetl.facts.json import JsonMap
from noetl.net.codec import digest, to_json
from noetl.net.model import Net, Transition
from noetl.usecases.specimen_chain import FORMAT, VERSION, write
from noetl.usecases.views import envelope


def _file() -> str:
    """The shortest file of an execution: it was asked for, and that was all."""
    net = Net("double", PATH, "double", (Transition("double"),))
    asked = Event(ID, 1, datetime.fromisoformat(AT), Draft(Requested(PATH, 1, digest(net), {"n": 21})))
    head = {
        "execution_id": ID,
        "path": PATH,
        "playbook_version": 1,
        "digest": digest(net),
        "status": "pending",
        "events": 1,
        "created_at": AT,
        "updated_at": AT,
        "ended_at": None,
        "parent_id": None,
        "error": None,
        "errors_passed_over": 0,
        "warnings_count": 0,
        "exported_at": END,
        "noetl": "1.0.0",
    }
    parts: list[JsonMap] = [
        {"format": FORMAT, "version": VERSION, **head},
        {"playbook": {"path": PATH, "version": 1, "content": PLAYBOOK}},
        {"net": to_json(net)},
        {"event": envelope(asked)},
        {"end": {"events": 1, "results": 0, "left_out": []}},
    ]
    return "".join(write(parts))


_SPECIMEN: Final[JsonMap] = {
    "execution_id": ID,
    "status": "pending",
    "path": PATH,
    "version": 1,
    "events": 1,
    "results": 0,
    "left_out": 0,
    "is_new": True,
    "links": LINKS,
}
_TEST: Final = f"""\
# Made of execution {ID} of {PATH}@1.
playbook: double.yaml
tests:
- name: as execution {ID} went
  inputs:
    n: 21
  stand_ins:
    double:
      recorded:
        total: 42
  expect:
    status: completed
    path:
    - double
    result:
      total: 42
"""


def specimens() -> Mapping[str, Example]:
    """By the route. The file is written when it is asked for: writing it takes a start 30 ms."""
    file = _file()
    return {
        "GET /api/executions/{execution_id}/export": Example(answered={LINES: file}),
        "GET /api/executions/{execution_id}/fixture": Example(answered={YAML: _TEST}),
        "POST /api/executions/import": Example({LINES: file}, {JSON: _SPECIMEN}),
    }
