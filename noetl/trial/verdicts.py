"""Whether an execution went as its test says, and if not, in what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noetl.dsl.document import Expectation
from noetl.facts.json import Json, JsonMap
from noetl.trial.matching import Mismatch, mismatches, renew
from noetl.trial.play import Played

#: Keys whose values are asked of the execution as they stand.
_PLAIN = ("path", "result", "ctx", "steps")


def expected_of(expect: Expectation | None) -> JsonMap:
    """What a test expects, as it is written, with the status that it expects where it says none."""
    said: dict[str, Any] = {} if expect is None else expect.model_dump(exclude_unset=True)
    ended = "failed" if said.get("error") is not None else "completed"
    return {"status": ended, **said}


def judge(expect: Expectation | None, played: Played) -> list[Mismatch]:
    """In what it went otherwise."""
    expected = expected_of(expect)
    came = facts_of(expected, played)
    found = list(mismatches({key: expected[key] for key in came}, came))
    return [*found, *_ran(expected.get("not_run") or [], played)]


def facts_of(expected: JsonMap, played: Played) -> JsonMap:
    """What came, in the form of what is `expected`."""
    came: dict[str, Json] = {"status": played.status}
    for key in _PLAIN:
        if expected.get(key) is not None or (key == "result" and key in expected):
            came[key] = getattr(played, key)
    if expected.get("error") is not None:
        error = played.error or {}
        came["error"] = error if isinstance(expected["error"], dict) else error.get("message")
    if expected.get("calls") is not None:
        came["calls"] = {name: _calls(one, played, name) for name, one in expected["calls"].items()}
    return came


def _calls(expected: Json, played: Played, name: str) -> Json:
    found = played.calls_of(name)
    return len(found) if isinstance(expected, int) else found


def _ran(steps: list[str], played: Played) -> Iterator[Mismatch]:
    for index, step in enumerate(steps):
        if (runs := played.path.count(step)) > 0:
            yield Mismatch(("not_run", index), step, f"it ran {'once' if runs == 1 else f'{runs} times'}")


def renewed(expect: Expectation | None, played: Played) -> JsonMap:
    """What the test would have to expect. One that expects nothing yet expects the status, the
    path, and the result or the error."""
    if expect is None or not expect.model_fields_set:
        error = {key: (played.error or {}).get(key) for key in ("kind", "message")}
        end = {"error": error} if played.error else {"result": played.result}
        return {"status": played.status, "path": played.path, **end}
    said = expect.model_dump(exclude_unset=True)
    expected = expected_of(expect)
    came = facts_of(expected, played)
    fresh = {key: renew(expected[key], came[key]) for key in came}
    status = {} if "status" in said or fresh["status"] == expected["status"] else {"status": fresh["status"]}
    kept = {key: fresh.get(key, value) for key, value in said.items()}
    if said.get("not_run"):
        kept["not_run"] = [step for step in said["not_run"] if step not in played.path]
    return {**status, **kept}
