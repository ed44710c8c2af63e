"""`repeat` and `pagination` of tasks: what they lack, keys and numbers that they cannot have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.context import CompiledCall
from noetl.dsl.compile.repeat import CHANGING, is_expression, key_of, next_calls
from noetl.dsl.document import NextCall, Pagination, Repeat, Tool
from noetl.dsl.document.misspelt import unknown_key
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.facts.json import Json

#: What every pagination knows, and what each type knows besides.
_OF_ALL: Final = frozenset({"type", "items", "stop_when", "max_pages", "collect", "delay"})
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "page": _OF_ALL | {"param", "start", "size"},
    "offset": _OF_ALL | {"param", "start", "limit"},
    "cursor": _OF_ALL | {"param", "path", "start"},
    "link": _OF_ALL,
}
_NEEDED: Final[Mapping[str, str]] = {"offset": "limit", "cursor": "path"}
#: The least that numbers of a pagination can be.
_LEAST: Final[Mapping[str, int]] = {"start": 0, "size": 1, "limit": 1, "max_pages": 1}


def check_repeats(subject: Subject) -> Iterator[Finding]:
    """Tasks that cannot be called again as they say."""
    tools = {path: tool for tool, path in subject.parts_that_are(Tool)}
    for call in subject.notes.calls:
        if not call.step or call.claims:
            continue
        given = {
            key: (part, (*path, key))
            for path in call.parts
            for key in ("loop", "repeat", "pagination")
            if (part := getattr(tools[path], key)) is not None
        }
        if "repeat" in given or "pagination" in given:
            yield from _check_repeat(subject, call, given)


def _check_repeat(
    subject: Subject, call: CompiledCall, given: Mapping[str, tuple[Any, Path]]
) -> Iterator[Finding]:
    if call.pipeline[-2:] == ("repeat", "each"):
        yield Finding(
            Code.MISPLACED,
            call.path,
            "a task that runs after every call cannot be repeated itself",
            "call a playbook that repeats it",
        )
    elif len(given) > 1:
        yield Finding(
            Code.MISPLACED,
            call.path,
            f"task {quote_value(call.task.name)} has two of `loop`, `repeat` and `pagination`",
            "keep one; a step can loop over such a task",
        )
    elif "repeat" in given:
        yield from _check_calls(subject, call, *given["repeat"])
    else:
        yield from _check_pages(call, *given["pagination"])


def _check_calls(subject: Subject, call: CompiledCall, part: Repeat, path: Path) -> Iterator[Finding]:
    if not part.next:
        yield Finding(
            Code.MISSING,
            path,
            "the repetition does not say which call is next",
            "add next: {when, params} with what differs in the next call",
            lacks="next",
        )
    for entry, at in next_calls(part, path):
        yield from _check_keys(subject, call, entry, at)
    if part.max is not None:
        yield from _check_number(part.max, (*path, "max"), 1)
    if is_template(part.delay) and not is_expression(part.delay):
        yield Finding(
            Code.VALUE,
            (*path, "delay"),
            f"delay is {quote_value(part.delay)}",
            "write a template that is one expression, or a duration",
        )


def _check_keys(subject: Subject, call: CompiledCall, entry: NextCall, path: Path) -> Iterator[Finding]:
    """The keys of the next call that the tool of the task has not."""
    schema, named = call.kind.schema, [key for key in CHANGING if key in subject.raw(path)]
    fine = list(CHANGING)
    if schema.get("additionalProperties") is False:
        fine = [key for key in CHANGING if key_of(call.task, key) in schema.get("properties", {})]
    given, known = [*(entry.model_extra or {}), *named], [*fine, "args", "when"]
    for key in (key for key in given if key not in fine):
        yield from unknown_key(
            (*path, key),
            f"the key {quote_value(key)} means nothing to the next call of {call.task.kind}",
            subject.names.suggest(key, known, f"known here: {', '.join(known)}"),
            known,
            given,
        )


def _check_pages(call: CompiledCall, part: Pagination, path: Path) -> Iterator[Finding]:
    if call.task.kind != "http":
        yield Finding(
            Code.MISPLACED,
            path,
            f"`pagination` means nothing to {call.task.kind}",
            "it belongs to http tasks",
            at_key=True,
        )
        return
    if part.type is None:
        yield Finding(
            Code.MISSING,
            path,
            "the pagination has no type",
            f"add type: with one of {', '.join(_KEYS)}",
            lacks="type",
        )
        return
    keys, needed = _KEYS[part.type], _NEEDED.get(part.type)
    for key in sorted((part.model_fields_set & Pagination.model_fields.keys()) - keys):
        yield Finding(
            Code.IGNORED,
            (*path, key),
            f"`{key}` means nothing to pagination by {part.type}",
            f"known here: {', '.join(sorted(keys))}",
            at_key=True,
        )
    if needed is not None and not getattr(part, needed):
        yield Finding(
            Code.MISSING, path, f"pagination by {part.type} needs {needed}", f"add {needed}:", lacks=needed
        )
        return
    for key in keys & _LEAST.keys():
        if getattr(part, key) is not None and (key, part.type) != ("start", "cursor"):
            yield from _check_number(getattr(part, key), (*path, key), _LEAST[key])
    yield from _check_params(part, path, call.task.config.get("params"))


def _check_params(part: Pagination, path: Path, params: Json) -> Iterator[Finding]:
    if params is None:
        return
    if part.type == "link":
        # The link of the next page brings its own parameters instead of the first ones.
        plain = isinstance(params, dict) and not any(isinstance(one, list | dict) for one in params.values())
        texts = filter(is_template, params.values() if isinstance(params, dict) else ())
        if not plain or not all(map(is_expression, texts)):
            yield Finding(
                Code.VALUE,
                path,
                "the link of the next page replaces `params`, which cannot be left out",
                "write params: as a mapping of plain values and of templates that are one expression each",
                at_key=True,
            )
    elif not isinstance(params, dict):
        yield Finding(
            Code.VALUE,
            path,
            f"pagination by {part.type} adds to `params`, which is {quote_value(params)}",
            "write params: as a mapping",
            at_key=True,
        )


def _check_number(value: Json, path: Path, least: int) -> Iterator[Finding]:
    if not is_expression(value) and not (isinstance(value, int) and value >= least):
        yield Finding(
            Code.VALUE,
            path,
            f"{path[-1]} is {quote_value(value)}",
            f"write a whole number from {least}, or a template that is one expression",
        )
