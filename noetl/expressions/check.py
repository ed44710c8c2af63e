"""What is wrong with a template before it meets any data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from noetl.expressions.grammar import is_template
from noetl.expressions.places import place_of_line, place_of_word
from noetl.expressions.program import faults_of, shorten
from noetl.expressions.refusals import Refusal
from noetl.facts.json import Json


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `path` within the value that was checked, `offset` within the string `source` found there."""

    path: tuple[str | int, ...]
    source: str
    offset: int
    message: str
    hint: str


def check(template: Json, *, guard: bool = False) -> list[Fault]:
    """Syntax errors, unknown filters and tests, tags that are not allowed, in every string of `template`.

    With `guard`, a string without a template is an expression, as in `truth`.
    """
    return [
        _fault(path, source, bare, refusal)
        for path, source, bare in _sources((), template, guard)
        for refusal in faults_of(source, bare)
    ]


def _fault(path: tuple[str | int, ...], source: str, bare: bool, refusal: Refusal) -> Fault:
    offset = place_of_word(source, refusal.word, guard=bare) if refusal.word else None
    if offset is None:
        offset = place_of_line(source, refusal.line or 1)
    message = f"The template `{shorten(source)}` {refusal.cause}."
    return Fault(path, source, offset, message, refusal.hint)


def _sources(
    path: tuple[str | int, ...], template: Json, guard: bool
) -> Iterator[tuple[tuple[str | int, ...], str, bool]]:
    if isinstance(template, str):
        if is_template(template):
            yield path, template, False
        elif guard and template.strip():
            yield path, template, True
    elif isinstance(template, Mapping):
        for key, value in template.items():
            yield from _sources((*path, str(key)), str(key), False)
            yield from _sources((*path, str(key)), value, False)
    elif isinstance(template, list | tuple):
        for index, item in enumerate(template):
            yield from _sources((*path, index), item, False)
