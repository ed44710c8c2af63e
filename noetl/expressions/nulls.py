"""Which templates came out undefined and became null, and where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from noetl.expressions.evaluate import evaluate
from noetl.expressions.program import shorten
from noetl.facts.json import Json
from noetl.facts.reference import Load
from noetl.facts.warnings import Warned


def evaluate_at(
    place: str,
    template: Json,
    names: Mapping[str, Any],
    warnings: list[Warned],
    *,
    load: Load | None = None,
) -> Json:
    """`evaluate`, with every template in it that became null added to `warnings`; `place` is where it stands."""
    sources: list[str] = []
    value = evaluate(template, names, load=load, warn=sources.append)
    if sources:
        warnings += nulls(sources, template, place)
    return value


def nulls(sources: Sequence[str], template: Json, place: str) -> Iterable[Warned]:
    """`{template, place}` of each text in `template` that is one of `sources`."""
    wanted = frozenset(sources)
    return [
        {"template": shorten(text), "place": where}
        for where, text in _texts(template, place)
        if text in wanted
    ]


def _texts(template: Json, place: str) -> Iterator[tuple[str, str]]:
    match template:
        case str():
            yield place, template
        case Mapping():
            for key, value in template.items():
                inner = f"{place}.{key}" if place else str(key)
                yield inner, str(key)
                yield from _texts(value, inner)
        case list() | tuple():
            for index, item in enumerate(template):
                yield from _texts(item, f"{place}[{index}]")


def sentence(source: str) -> str:
    """What is to be said of a template that became null, where nothing more is known of its place."""
    return f"The template `{shorten(source)}` is undefined and became null."
