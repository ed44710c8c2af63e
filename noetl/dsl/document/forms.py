"""Forms in the configuration of tools: where they stand, and the declarations that they are made
of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from noetl.dsl.document import DocumentPart, InputDeclaration, Tool
from noetl.dsl.document.base import Parts, parts_of
from noetl.dsl.document.inputs import InputForms
from noetl.dsl.document.validation import read_with
from noetl.dsl.problems import Finding, Path
from noetl.dsl.read.origins import value_at
from noetl.dsl.read.report import DottedNames
from noetl.facts.json import Json
from noetl.net.model import KindInfo


def find_forms(config: Mapping[str, Any], places: Sequence[str]) -> Iterator[Path]:
    """Where the forms stand in the configuration of a tool whose kind `declares` these places."""
    for place in places:
        yield from _follow(config, place.split("."))


def _follow(value: Any, way: Sequence[str]) -> Iterator[Path]:
    if not way:
        yield ()
        return
    keys: Sequence[str | int] = [way[0]]
    if way[0] == "*":
        keys = list(value) if isinstance(value, Mapping) else range(len(value) if _is_list(value) else 0)
    for key in keys:
        if (inner := value_at(value, (key,))) is not None:
            yield from ((key, *rest) for rest in _follow(inner, way[1:]))


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def read_declarations(form: Json, names: DottedNames, keep: Callable[[Finding], None]) -> Any:
    """The declarations in a form, as those of a playbook are read; what is faulty in it is handed
    to `keep`, with its path inside of the form."""
    found = read_with(_adapter().validate_python, form, names, keep)
    return None if found is None else found[0]


def parts_of_form(declarations: Any, path: Path) -> Iterator[tuple[DocumentPart, Path]]:
    """All declarations of a form that stands at `path`, each with where it stands."""
    entries = declarations.items() if isinstance(declarations, dict) else enumerate(declarations or ())
    for key, one in entries:
        if isinstance(one, InputDeclaration):
            yield from ((part, (*path, key, *inner)) for part, inner in parts_of(one))


def parts_of_forms(kinds: Mapping[str, KindInfo], parts: Parts, data: Mapping[str, Json]) -> Parts:
    """The declarations in the forms of all tools among `parts`, of the document whose data is
    `data`."""
    found: list[tuple[DocumentPart, Path]] = []
    for part, path in parts:
        kind = kinds.get(part.kind) if isinstance(part, Tool) and part.kind else None
        for place in (path, (*path, "spec")) if kind is not None and kind.declares else ():
            around = value_at(data, place)
            if kind is not None and isinstance(around, Mapping):
                found += _parts_below(around, place, kind.declares)
    return found


def _parts_below(
    around: Mapping[str, Any], place: Path, places: Sequence[str]
) -> Iterator[tuple[DocumentPart, Path]]:
    for way in find_forms(around, places):
        # The compiler reports what is faulty.
        said = read_declarations(value_at(around, way), DottedNames(), _pass_over)
        yield from parts_of_form(said, (*place, *way))


def _pass_over(_finding: Finding) -> None:
    """Faults that somebody else reports."""


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(InputForms)
