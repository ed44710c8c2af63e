"""`metadata.labels`: what all executions of a playbook are told apart by."""

from __future__ import annotations

from itertools import islice
from typing import Final

from noetl.dsl.compile.context import Context
from noetl.dsl.problems import Code, Path
from noetl.facts.json import Json
from noetl.facts.labels import MOST, read_label

_AT: Final[Path] = ("metadata", "labels")


def compile_labels(context: Context, given: Json) -> dict[str, str]:
    """Those that can be used. Anything could be written there before it meant something: the others
    are left out, with a warning."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        hint = "write a mapping of names to texts: {team: billing}"
        context.report.add(Code.IGNORED, _AT, "`labels` has no effect: it is no mapping", hint)
        return {}
    found: dict[str, str] = {}
    for name, value in given.items():
        try:
            found[name] = read_label(name, value)
        except ValueError as error:
            hint = "write one text, up to 200 characters, under a name of up to 63"
            at = (*_AT, name)
            context.report.add(Code.IGNORED, at, f"this label is left out: labels {error}", hint, at_key=True)
    for name in islice(found, MOST, None):
        told = f"this label is left out: an execution has up to {MOST}"
        context.report.add(Code.IGNORED, (*_AT, name), told, "remove some", at_key=True)
    return dict(islice(found.items(), MOST))
