"""What is offered at a place: keys with what they mean, values, and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from noetl.dsl.completion.outline import CursorSpot, find_place, node_at
from noetl.dsl.completion.shapes import KeyShape, Shapes
from noetl.dsl.completion.templates import (
    TemplateSpot,
    find_named,
    find_steps,
    find_template,
    find_template_names,
)
from noetl.dsl.document.base import Key, canonical_keys, declared_keys, parts_by_name
from noetl.dsl.document.keychain import SECRET
from noetl.dsl.document.schema import json_schema
from noetl.dsl.document.schema_forms import REF, Schema
from noetl.dsl.problems import Path
from noetl.net.model import KindInfo

What: TypeAlias = Literal[
    "key", "value", "step", "credential", "playbook", "task", "name", "function", "filter"
]

#: Keys that name steps, by the part that they belong to.
_OF_STEPS: Final = frozenset(
    {
        ("Arc", "step"),
        ("CompensateSpec", "step"),
        ("Destination", "step"),
        ("ExecutorSpec", "entry_step"),
        ("ExecutorSpec", "final_step"),
        ("ExecutorSpec", "finally"),
        ("MilestoneSpec", "after"),
        ("MilestoneSpec", "before"),
        ("RegionSpec", "finally"),
        ("RegionSpec", "steps"),
        ("Step", "compensate"),
        ("Step", "finally"),
        ("Step", "next"),
        ("Target", "step"),
    }
)
#: Keys that name credentials, whatever they belong to.
_OF_CREDENTIALS: Final = frozenset({"auth", "credential"})
#: By the kind of a task the key that names something else than its part tells.
_OF_KINDS: Final[Mapping[tuple[str, str], What]] = {
    ("playbook", "path"): "playbook",
    ("workbook", "name"): "task",
}
#: Parts that are no models: what kinds of tools add, and entries of the keychain.
_KIND: Final = "kind."
_ENTRIES: Final = frozenset({"KeychainEntry", "NamedEntry"})
#: How far a key of what is a mapping or a list is indented below it.
_STEP_IN: Final = 2
#: What a mapping begins with that mostly stands under a key, although a text may.
_BEGINNINGS: Final[Mapping[str, str]] = {"tool": "kind: "}
_NESTED: Final = frozenset({"array", "object", "null"})


@dataclass(frozen=True, slots=True)
class InstalledNames:
    """Names that the installation has, as far as whoever writes may know them."""

    credentials: tuple[str, ...] = ()
    playbooks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """`text` takes the place of what was typed, `about` is one sentence, or nothing."""

    label: str
    text: str
    what: What
    about: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """What is offered for the characters from column `begin`, from 0, to the cursor."""

    begin: int
    offers: tuple[Offer, ...] = ()


class Completer:
    """Completes playbooks that may use the tools of `kinds`."""

    def __init__(self, kinds: Mapping[str, KindInfo]) -> None:
        self._kinds = kinds
        self._shapes = Shapes(json_schema(kinds))

    def complete(self, text: str, line: int, column: int, known: InstalledNames) -> Completion:
        """What may be written in front of the character `column` of `line`, both from 0. `text` may
        be anything."""
        template = find_template(text, line, column)
        if template is not None:
            return _complete_template(text, line, template)
        place = find_place(text, line, column)
        if place is None:
            return Completion(column)
        found = [] if place.is_value else list(self._keys(place))
        if place.is_value or place.may_be_both:
            found += self._values(place, known)
        return Completion(place.begin, tuple(_keep_near(found, place.typed)))

    # --- keys -------------------------------------------------------------------------------------

    def _keys(self, place: CursorSpot) -> Iterator[Offer]:
        node = node_at(place.root, place.path)
        there = node if isinstance(node, dict) else {}
        found: dict[str, list[tuple[str, Schema]]] = {}
        shapes = self._shapes.at(place.root, place.path)
        # What only this kind of tool has comes before what all have.
        for shape in sorted(shapes, key=lambda one: not one.part.startswith(_KIND)):
            for key, schema in shape.schema.get("properties", {}).items():
                if key not in there and _is_offered(shape.part, key, schema):
                    found.setdefault(key, []).append((shape.part, schema))
        offers = [
            Offer(key, _written(key, schemas, place.indent), "key", self._about(key, schemas))
            for key, schemas in found.items()
        ]
        yield from sorted(offers, key=_is_other_spelling)

    def _about(self, key: str, schemas: list[tuple[str, Schema]]) -> str:
        said = (schema.get("description", "") for _, schema in schemas)
        refs = (name for _, schema in schemas for name in _refs(schema))
        about = next(filter(None, (*said, *map(self._shapes.describe, refs))), "")
        declared = (_declared(part).get(key, Key()).example for part, _ in schemas)
        example = next(filter(None, declared), "")
        return f"{about} Such as `{example}`.".strip() if example else about

    # --- values -----------------------------------------------------------------------------------

    def _values(self, place: CursorSpot, known: InstalledNames) -> Iterator[Offer]:
        holder, key = _split(place.path)
        yield from _names(place, holder, key, self._shapes.at(place.root, holder), known)
        yield from self._constants(key, self._shapes.at(place.root, place.path, as_text=True))

    def _constants(self, key: str, shapes: Iterable[KeyShape]) -> Iterator[Offer]:
        seen: set[str] = set()
        for shape in shapes:
            for text in _constants(shape.schema):
                if text not in seen:
                    seen.add(text)
                    info = self._kinds.get(text) if key == "kind" else None
                    yield Offer(
                        text, text, "value", "" if info is None else _first_sentence(info.description)
                    )


def _split(path: Path) -> tuple[Path, str]:
    """The mapping and the key in it that the path leads to, or to an item of."""
    for index in range(len(path) - 1, -1, -1):
        if isinstance(key := path[index], str):
            return path[:index], key
    return (), ""


def _keep_near(offers: Iterable[Offer], typed: str) -> Iterator[Offer]:
    return (one for one in offers if typed.lower() in one.label.lower())


def _complete_template(text: str, line: int, spot: TemplateSpot) -> Completion:
    names: dict[str, What] = {}
    for name, what in find_template_names(text, line, spot):
        names.setdefault(name, what)
    offers = (Offer(name, name, what) for name, what in names.items())
    return Completion(spot.begin, tuple(_keep_near(offers, spot.typed)))


def _is_other_spelling(offer: Offer) -> bool:
    """Whether there is another key that says the same, which its description begins with."""
    return offer.about.startswith("The same as `")


def _is_offered(part: str, key: str, schema: Schema) -> bool:
    """Other spellings of a key, and those that have no effect, are known and not offered."""
    model = parts_by_name().get(part or "Document")
    if model is not None:
        return key in canonical_keys(model) and not schema.get("deprecated")
    if part in _ENTRIES:
        return key not in SECRET | {"scope"}
    return bool(schema)


def _declared(part: str) -> Mapping[str, Key]:
    model = parts_by_name().get(part or "Document")
    return {} if model is None else declared_keys(model)


def _refs(node: Any) -> Iterator[str]:
    """The parts that a schema names, outer ones first."""
    match node:
        case {"$ref": str(ref)}:
            yield ref.removeprefix(REF)
        case dict():
            for key, inner in node.items():
                if key != "if":
                    yield from _refs(inner)
        case list():
            for inner in node:
                yield from _refs(inner)


def _written(key: str, schemas: list[tuple[str, Schema]], indent: int | None) -> str:
    """The key with what comes behind it: a space, or a line for what can only be a mapping or a
    list."""
    types = {name for _, schema in schemas for name in _types(schema)}
    if indent is not None and key in _BEGINNINGS:
        return f"{key}:\n{' ' * (indent + _STEP_IN)}{_BEGINNINGS[key]}"
    if indent is None or not types or types - _NESTED:
        return f"{key}: "
    dash = "- " if "object" not in types else ""
    return f"{key}:\n{' ' * (indent + _STEP_IN)}{dash}"


def _types(schema: Schema) -> list[str]:
    found = schema.get("type")
    if found is None:
        # Any value, unless it says more.
        return [] if not schema else ["string"]
    return [found] if isinstance(found, str) else found


def _constants(schema: Schema) -> Iterator[str]:
    """The texts that a value may be; those in capitals mean the same as the others."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    texts = [value for value in values if isinstance(value, str)]
    yield from (text for text in texts if not (text.isupper() and text.lower() in texts))
    if "boolean" in _types(schema) and "type" in schema:
        yield from ("true", "false")


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0]


# --- names ----------------------------------------------------------------------------------------


def _names(
    place: CursorSpot, holder: Path, key: str, around: list[KeyShape], known: InstalledNames
) -> Iterator[Offer]:
    """Names of what the key is about."""
    parts = {shape.part for shape in around}
    node = node_at(place.root, holder)
    kind = node.get("kind") if isinstance(node, dict) else None
    if any((part, key) in _OF_STEPS for part in parts):
        yield from _offer("step", find_steps(place.root))
    if key in _OF_CREDENTIALS:
        yield from _offer("credential", (*find_named(place.root.get("keychain")), *known.credentials))
    match _OF_KINDS.get((kind, key)) if isinstance(kind, str) else None:
        case "playbook":
            yield from _offer("playbook", known.playbooks)
        case "task":
            yield from _offer("task", find_named(place.root.get("workbook")))


def _offer(what: What, names: Iterable[str]) -> Iterator[Offer]:
    return (Offer(name, name, what) for name in dict.fromkeys(names))
