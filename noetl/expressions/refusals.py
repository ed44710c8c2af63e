"""Why a template is refused, before its source is known. `program` turns these into `TemplateError`s."""

from __future__ import annotations

from typing import ClassVar

from noetl.errors import TemplateError, TemplateLimit, TemplateSecurity


class Refusal(Exception):
    """Becomes an `error`. `cause` completes the sentence "The template … "; `line` counts from 1 within the template.
    `word` is the filter, the test or the tag that it is about."""

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
