"""The configuration of tasks: keys that their kind does not know, and those that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.document import Cursor, Step, Tool, known_keys
from noetl.dsl.document.base import keys_near
from noetl.dsl.document.misspelt import unknown_key
from noetl.dsl.problems import Code, Finding, shown

#: Keys of steps that are no tool's: written one indentation too far in.
_OF_STEPS: Final = frozenset(known_keys(Step)) - frozenset(known_keys(Tool)) - {"step", "tool"}
#: Those of a cursor that are the language's, and come to the tool under other names.
_OF_CURSORS: Final = frozenset({"command", "params"})


def check_keys_of_tools(subject: Subject) -> Iterator[Finding]:
    """Keys that mean nothing to the kind of a task."""
    for call in subject.notes.calls:
        if call.kind.schema.get("additionalProperties") is not False:
            continue
        known, model = call.kind.schema.get("properties", {}), Cursor if call.claims else Tool
        fine = {*known, "policy", *(_OF_CURSORS if call.claims else ())}
        for key, path in call.paths.items():
            if key in fine:
                continue
            hint = subject.names.suggest(key, [*known, *known_keys(model)], _known_to(known))
            near = {*known, *keys_near(model)}
            if key in _OF_STEPS:
                hint, near = "put it beside tool:", set()
            message = f"the key {shown(key)} means nothing to {call.kind.kind}"
            yield from unknown_key(path, message, hint, near, call.paths)


def _known_to(keys: Iterable[str]) -> str:
    names = ", ".join(keys)
    return f"known here: {names}" if names else "hand values over with input:"


def check_required_keys(subject: Subject) -> Iterator[Finding]:
    """Keys that the kind of a task needs, and that neither it nor the workbook says."""
    for call in subject.notes.calls:
        for first, *others in call.kind.required:
            if all(call.task.config.get(key) in (None, "", [], {}) for key in (first, *others)):
                or_else = f" (or {', '.join(others)})" if others else ""
                message = f"{call.kind.kind} needs {first}{or_else}"
                yield Finding(Code.MISSING, call.path, message, f"add {first}:", lacks=first)
