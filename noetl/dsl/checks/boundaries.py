"""What guards ask of the event that ended their step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from noetl.dsl.checks.members import unseen
from noetl.dsl.checks.subject import Subject
from noetl.dsl.document.texts import texts_in
from noetl.dsl.problems import Code, Finding, quote_value
from noetl.expressions import texts_compared
from noetl.facts.event_names import ALIASES, ENDS, TYPES

_NAME: Final = ("event", "name")


def check_event_names(subject: Subject) -> Iterator[Finding]:
    """Names that `event.name` is compared with, and never has."""
    for use in subject.notes.uses:
        if unseen(subject, "event", use.path) is not None:
            # Here it is what the author calls so.
            continue
        for path, text in texts_in(use.template, use.path, guard=use.guard):
            for name in sorted(texts_compared(text, _NAME, guard=use.guard) - ENDS):
                message, hint = _explain(subject, name)
                within = text, text.find(name)
                yield Finding(Code.EVENT_NAME, path, message, hint, within)


def _explain(subject: Subject, name: str) -> tuple[str, str]:
    """The message and the hint."""
    if name in TYPES or name in ALIASES:
        message = f"event.name is never {quote_value(name)} here: it says how the step ended"
        return message, "write step.done, step.failed, or step.exit for both"
    hint = subject.names.suggest(name, ENDS, f"write one of {', '.join(sorted(ENDS))}")
    return f"no event is called {quote_value(name)}: event.name never has that name", hint
