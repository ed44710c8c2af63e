"""Why a template is refused, before its source is known. `program` turns these into `TemplateError`s."""

from __future__ import annotations


class Refusal(Exception):
    """`cause` completes the sentence "The template … "; `line` counts from 1 within the template. `verb` is the filter or
    test that it is about."""

    def __init__(self, cause: str, line: int | None = None, hint: str = "", verb: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.line = line
        self.hint = hint
        self.verb = verb


class Broken(Refusal):
    """The template cannot be read, or does not fit its data."""


class OverLimit(Refusal):
    """The template asks for too many steps, characters or digits."""


class Forbidden(Refusal):
    """The template reaches out of the sandbox."""
