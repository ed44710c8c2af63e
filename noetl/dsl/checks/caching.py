"""`cache` of tasks: calls that nothing can stand in for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.context import CompiledCall
from noetl.dsl.document import CacheSpec, Tool
from noetl.dsl.problems import Code, Finding, Path, quote_value

_KEY: Final = "add key: with a template of what the result depends on"


def check_caches(subject: Subject) -> Iterator[Finding]:
    """Tasks whose calls have effects, are made by other executions, or depend on more than can be
    told."""
    tools = {path: tool for tool, path in subject.parts_that_are(Tool)}
    for call in subject.notes.calls:
        given = [(tools[path].cache, (*path, "cache")) for path in call.parts if path in tools]
        said = next((one for one in reversed(given) if one[0] is not None), None)
        if said is not None:
            yield from _check_cache(call, *said)


def _check_cache(call: CompiledCall, form: object, path: Path) -> Iterator[Finding]:
    task, part = call.task, form if isinstance(form, CacheSpec) else None
    name = quote_value(task.name)
    if call.claims:
        message = "rows that a loop claims cannot come from the cache"
        yield Finding(Code.MISPLACED, path, message, "remove cache:", at_key=True)
    elif task.kind == "playbook":
        yield Finding(
            Code.MISPLACED,
            path,
            f"task {name} calls a playbook, whose result cannot come from the cache",
            "put cache: on the tasks of that playbook",
            at_key=True,
        )
    elif task.effects == "external" and not (part is not None and part.allow_effects):
        yield Finding(
            Code.VALUE,
            path,
            f"calls of task {name} may change something outside of NoETL, which a cached result would not",
            "write effects: none on the task where they change nothing, else cache.allow_effects: true",
            at_key=True,
        )
    if task.wants_context and (part is None or part.key is None):
        yield Finding(
            Code.VALUE,
            path,
            f"the code of task {name} names `context`, so its result may depend on anything",
            _KEY,
            at_key=True,
        )
