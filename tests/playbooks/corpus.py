"""The corpus: playbooks with what they promise, one file for each part of the language.

A file is a list of cases:

    - case: what it promises
      playbook: |                 # the root keys; the head is put before them
        workflow: [...]
      others: {path: |...}        # optional: playbooks that may be called; a list: versions of one
      payload: {...}              # optional, as are `overrides`
      status: completed           # how it ends (completed by default; null: it is refused)
      path: [start, end]          # the steps in the order in which they fired
      result, ctx, steps, error   # what the report says; of mappings, the keys that are named
      problems: [NOETL211]        # codes of all problems that the compiler finds

`coverage.yaml` is no file of cases: it names the cases, or the tests elsewhere, of every sentence
of the contract.

A file in `flows` is one such case, written several times: `dialects` stand in the place of
`playbook`. Their nets are the same, and so are the histories of their executions; the canonical one
gives its tasks the names that the other dialects' tasks are given. What a dialect has no word for
is said canonically in it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
#: Which sentences of the contract the cases are for.
COVERAGE = HERE / "coverage.yaml"

#: What a case may say of a report.
EXPECTED = ("status", "path", "result", "ctx", "steps", "error", "problems")
_KEYS = {"case", "playbook", "others", "payload", "overrides", *EXPECTED}
DIALECTS = ("canonical", "classic", "rules")


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


@cache
def cases() -> Sequence[Case]:
    """Every case of every file of this folder, those of the flows among them."""
    files = sorted(set(HERE.glob("*.yaml")) - {COVERAGE})
    found = [
        _case(file, raw)
        for file in files
        for raw in yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    ]
    return (*found, *(case for spelled in flows().values() for case in spelled.values()))


def flows() -> dict[str, dict[str, Case]]:
    """Flow → dialect → the case that says it so."""
    found = {}
    for file in sorted((HERE / "flows").glob("*.yaml")):
        raw = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
        spelled = raw.pop("dialects")
        assert spelled.keys() <= set(DIALECTS), f"{file.name}: {spelled.keys()}"
        found[file.stem] = {
            dialect: _case(file, {**raw, "case": f"{raw['case']}, {dialect}", "playbook": body})
            for dialect, body in spelled.items()
        }
    return found


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
    """Where `found` is not what was expected; mappings may have further keys unless they are
    results."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key, value in expected.items():
            yield from differences(value, found.get(key, "<missing>"), f"{where}.{key}")
    elif type(expected) is not type(found) or expected != found:
        yield f"{where}: expected {expected!r}, found {found!r}"
