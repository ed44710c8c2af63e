"""Plain data to the document model. Type faults become problems; what is faulty is taken out and
the rest is still read, so that everything is reported at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from noetl.dsl.document import Document, DocumentPart, canonical_keys, spellings_of
from noetl.dsl.document.base import examples, given_keys, keys_near, keys_of_spec
from noetl.dsl.document.misspelt import unknown_key
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.dsl.read.origins import value_at
from noetl.dsl.read.report import DottedNames, ProblemReport
from noetl.facts.json import Json

Read = TypeVar("Read", bound=DocumentPart)
Made = TypeVar("Made")

_WORDS: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "duration_parsing": "a duration (30, 500ms, 10s, 5m)",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
}

#: Taking faulty parts out may uncover others (a union's other branch); it settles in two rounds.
_MAX_ROUNDS = 4


@dataclass(slots=True)
class TypeFault:
    """What pydantic says about one place, all branches together."""

    expected: list[str] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)


def to_document(data: dict[str, Json], report: ProblemReport) -> tuple[Document, dict[str, Json]] | None:
    """The document without its faulty parts, and the data that it was made of; None where nothing
    could be made."""
    return read_as(Document, data, report)


def read_as(
    model: type[Read], data: dict[str, Json], report: ProblemReport
) -> tuple[Read, dict[str, Json]] | None:
    """`data` as that part, as `to_document` has it."""
    return read_with(model.model_validate, data, report.names, report.keep)


def read_with(
    validate: Callable[[Any], Made], data: Any, names: DottedNames, keep: Callable[[Finding], None]
) -> tuple[Made, Any] | None:
    """What `validate` makes of `data` without its faulty parts, which are handed to `keep`, and the
    data that it was made of; None where nothing could be made."""
    for _ in range(_MAX_ROUNDS):
        try:
            return validate(data), data
        except ValidationError as error:
            faults = by_place(error.errors(include_url=False, include_context=True), data)
        for path, fault in faults.items():
            keep(fault_of(path, fault, value_at(data, path), names))
        for path in sorted(faults, key=lambda p: (len(p), str(p)), reverse=True):
            data = _without(data, path)
    return None


def warn_unknown(part: DocumentPart, path: Path, report: ProblemReport) -> None:
    """Warns of keys that mean nothing in this part; keys of other dialects are not its business."""
    for finding in unknown_keys(part, path, report.names):
        report.keep(finding)


def unknown_keys(
    part: DocumentPart,
    path: Path,
    names: DottedNames,
    *,
    except_for: Set[str] = frozenset(),
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Finding]:
    """The keys that mean nothing in this part. `elsewhere` are keys that belong to another part,
    with the hint that says to which."""
    model = type(part)
    known, given, extra = canonical_keys(model), given_keys(part), list(part.model_extra or {})
    # Other spellings that are left have values with which they mean nothing.
    for key in (*extra, *(key for key in given if key in spellings_of(model))):
        if key in except_for:
            continue
        misplaced = "put it under spec:" if key in keys_of_spec(model) else elsewhere.get(key)
        hint = misplaced or names.suggest(key, known, f"known here: {', '.join(known)}")
        message = f"the key {quote_value(key)} means nothing here"
        near = () if misplaced else keys_near(model)
        yield from unknown_key((*path, key), message, hint, near, {*given, *extra})


def by_place(errors: Iterable[ErrorDetails], data: Json) -> dict[Path, TypeFault]:
    """The faults that pydantic found in `data`, by the path of what is faulty."""
    places: dict[Path, TypeFault] = {}
    for error in errors:
        path = real_path(error["loc"], data)
        fault = places.setdefault(path, TypeFault())
        context = error.get("ctx") or {}
        if error["type"] == "literal_error":
            fault.choices.append(str(context.get("expected", "")))
            continue
        words = _WORDS.get(error["type"], error["msg"].removeprefix("Input should be "))
        if error["type"] == "string_pattern_mismatch":
            words = f"text that matches {context['pattern']}"
        if words not in fault.expected:
            fault.expected.append(words)
    return places


def real_path(loc: tuple[int | str, ...], data: Json) -> Path:
    """`loc` without the names of union branches that pydantic puts in."""
    path: list[str | int] = []
    for part in loc:
        if isinstance(data, dict) and part in data:
            data = data[str(part)]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        path.append(part)
    return tuple(path)


def fault_of(
    path: Path, fault: TypeFault, value: Json, names: DottedNames, *, may_be_secret: bool = False
) -> Finding:
    """What is wrong with `value`, which stands at `path`. Of what may be a secret only the type is
    said."""
    name = f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this item"
    if fault.choices and isinstance(value, str):
        texts = ",".join(fault.choices).replace(" or ", ",")
        choices = [word.strip(" '") for word in texts.split(",")]
        hint = names.suggest(value, choices, "")
        return Finding(
            Code.VALUE, path, f"{name} is {quote_value(value)}, not one of {', '.join(choices)}", hint
        )
    expected = " or ".join([*fault.expected, *(f"one of {text}" for text in fault.choices)])
    found = f", not {_type_of(value) if may_be_secret else _kind_of(value)}"
    if may_be_secret and not set(fault.expected) <= set(_WORDS.values()):
        # It is of the right type.
        found = ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    hint = "quote it" if is_number and "text" in fault.expected else ""
    hint = f'{hint}: "{value}"' if hint and not may_be_secret else hint
    key = str(path[-1]) if path else ""
    hint = hint or (f"write {key}: {examples()[key]}" if key in examples() else "")
    return Finding(Code.TYPE, path, f"{name} must be {expected}{found}", hint)


def _kind_of(value: Json) -> str:
    return quote_value(value) if isinstance(value, bool | int | float | str) else _type_of(value)


def _type_of(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _without(data: Any, path: Path) -> Any:
    """A copy without what is at `path`; in lists an empty mapping takes its place, so that paths
    stay true."""
    if not path:
        return {}
    head, rest = path[0], path[1:]
    if isinstance(data, list) and isinstance(head, int):
        items = list(data)
        items[head] = _without(items[head], rest)
        return items
    if not rest:
        return {key: value for key, value in data.items() if key != head}
    return {**data, head: _without(data[head], rest)} if head in data else data
