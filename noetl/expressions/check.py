"""What is wrong with a template before it meets any data."""

from __future__ import annotations

from dataclasses import dataclass

from noetl.expressions.grammar import Path, is_template, texts
from noetl.expressions.places import place_of_line, place_of_word
from noetl.expressions.refusals import Refusal
from noetl.expressions.template import faults_of, shorten
from noetl.facts.json import Json


@dataclass(frozen=True, slots=True)
class TemplateFault:
    """One fault: `path` within the value that was checked, `offset` within the string `source`
    found there."""

    path: Path
    source: str
    offset: int
    message: str
    hint: str


def check(template: Json, *, guard: bool = False) -> list[TemplateFault]:
    """Syntax errors, unknown filters and tests, tags that are not allowed, in `template`.

    With `guard`, a string without a template is an expression, as in `truth`.
    """
    bare = guard and isinstance(template, str) and not is_template(template) and bool(template.strip())
    return [
        _fault(path, source, bare, refusal)
        for path, source in texts(template)
        if bare or is_template(source)
        for refusal in faults_of(source, bare)
    ]


def _fault(path: Path, source: str, bare: bool, refusal: Refusal) -> TemplateFault:
    offset = place_of_word(source, refusal.word, guard=bare) if refusal.word else None
    if offset is None:
        offset = place_of_line(source, refusal.line or 1)
    message = f"The template `{shorten(source)}` {refusal.cause}."
    return TemplateFault(path, source, offset, message, refusal.hint)
