"""What an example of a route is, and what the examples share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from noetl.facts.json import Json

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
YAML: Final = "application/yaml"
#: An execution, when it began, and when it had ended.
ID: Final = "186824917024604161"
AT: Final = "2026-11-24T09:00:00+00:00"
END: Final = "2026-11-24T09:00:00.041000+00:00"
#: A playbook, and where it stands.
PATH: Final = "examples/double"
PLAYBOOK: Final = f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: double, path: {PATH}}}
workload: {{n: 2}}
workflow:
  - step: double
    tool: {{kind: noop, input: {{double: "{{{{ n * 2 }}}}"}}}}
"""
_HERE: Final = f"/api/executions/{ID}"
LINKS: Final = {
    "self": _HERE,
    **{part: f"{_HERE}/{part}" for part in ("events", "logs", "state", "result", "graph")},
    "children": f"/api/executions?parent={ID}",
}


@dataclass(frozen=True, slots=True)
class Example:
    """What is sent and what is answered, by media type."""

    sent: Mapping[str, Json] = field(default_factory=dict)
    answered: Mapping[str, Json] = field(default_factory=dict)


def in_json(answered: Json = None, sent: Json = None) -> Example:
    """What is sent and answered as JSON, where anything is."""
    return Example({} if sent is None else {JSON: sent}, {} if answered is None else {JSON: answered})
