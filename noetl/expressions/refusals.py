"""Why a template is refused, before its source is known. `compile_template` turns these into
`TemplateError`s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from noetl.errors import TemplateError, TemplateLimit, TemplateSecurity
from noetl.facts.secret import MARK, is_secret


class Refusal(Exception):
    """Becomes an `error`. `cause` completes the sentence "The template … "; `line` counts from 1
    within the template. `word` is the filter, the test or the tag that it is about."""

    error: ClassVar[type[TemplateError]] = TemplateError

    def __init__(self, cause: str, line: int | None = None, hint: str = "", word: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.line = line
        self.hint = hint
        self.word = word


class Broken(Refusal):
    """The template cannot be read, or does not fit its data."""


class OverLimit(Refusal):
    """The template asks for too many steps, characters or digits."""

    error = TemplateLimit


class Forbidden(Refusal):
    """The template reaches out of the sandbox."""

    error = TemplateSecurity


def refuse_secret(value: Any, verb: str) -> None:
    """Raises Forbidden for a secret, whose value could answer alone. `verb` as in "The template
    `...` compares a secret"."""
    if isinstance(value, Mapping) and is_secret(value):
        raise Forbidden(f"{verb} a secret, whose value is known only inside of a tool call")


def refuse_marked(value: Any) -> None:
    """Raises Forbidden for a text that a secret will be put into."""
    if isinstance(value, str) and MARK in value:
        raise Forbidden("changes a text with a secret in it, whose value is known only inside of a tool call")
