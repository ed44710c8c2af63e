"""The corpus: playbooks with what they promise, one file for each part of the language.

A file is a list of cases:

    - case: what it promises
      playbook: |                 # the root keys; the head is put before them
        workflow: [...]
      others: {path: |...}        # optional: playbooks that may be called; a list holds the versions of one
      payload: {...}              # optional, as are `overrides`
      status: completed           # how it ends (completed unless told otherwise; null: it is refused)
      path: [start, end]          # the steps in the order in which they fired
      result, ctx, steps, error   # what the report says; of mappings, the keys that are named
      problems: [NOETL211]        # codes of all problems that the compiler finds
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent

#: What a case may say of a report.
EXPECTED = ("status", "path", "result", "ctx", "steps", "error", "problems")
_KEYS = {"case", "playbook", "others", "payload", "overrides", *EXPECTED}


@dataclass(frozen=True)
class Case:
    """One playbook and what is to come of it."""

    name: str
    body: str
    payload: dict[str, Any]
    overrides: dict[str, Any]
    #: Path and body of the playbooks that are registered besides, in this order.
    others: list[tuple[str, str]]
    expected: dict[str, Any] = field(default_factory=dict)


def cases() -> Iterator[Case]:
    """Every case of every file of this folder."""
    for file in sorted(HERE.glob("*.yaml")):
        for raw in yaml.safe_load(file.read_text(encoding="utf-8")):
            yield _case(file, raw)


def _case(file: Path, raw: Mapping[str, Any]) -> Case:
    unknown = raw.keys() - _KEYS
    assert not unknown, f"{file.name}: {raw.get('case')}: {unknown}"
    expected = {"status": "completed"} | {key: raw[key] for key in EXPECTED if key in raw}
    name = f"{file.stem}: {raw['case']}"
    others = [
        (path, body)
        for path, bodies in (raw.get("others") or {}).items()
        for body in ([bodies] if isinstance(bodies, str) else bodies)
    ]
    return Case(name, raw["playbook"], raw.get("payload") or {}, raw.get("overrides") or {}, others, expected)


def differences(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """Where `found` is not what was expected; mappings may have further keys unless they are results."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key, value in expected.items():
            yield from differences(value, found.get(key, "<missing>"), f"{where}.{key}")
    elif type(expected) is not type(found) or expected != found:
        yield f"{where}: expected {expected!r}, found {found!r}"
