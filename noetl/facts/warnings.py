"""Warnings as events carry them, in `warnings` of a fact or of a task's `meta`, and as answers show
them."""

from __future__ import annotations

from typing import Final, TypeAlias

from noetl.facts.json import Json, JsonMap

#: An undefined template is `{"template", "place"}`: its text (shortened), and
#: where it stands in the playbook (`input.total`); `absent` besides, where it is a text in which
#: those paths are undefined, and `why` where that is known. What a tool has to say, and whatever an
#: earlier version recorded, is a sentence.
Warned: TypeAlias = str | JsonMap

#: The keys of a warning that an answer shows, whatever it is about.
KEYS: Final = (
    *("source", "code", "message", "hint", "file", "line", "column", "path"),
    *("step", "task", "place", "template", "count"),
)


def make_warning(**known: Json) -> JsonMap:
    """A warning for an answer: all of `KEYS`, null where nothing is known."""
    return {**dict.fromkeys(KEYS), **known}
