"""What the interpreter knows for nets of schema 1 alone (`noetl.net.older`, which says until when
it is needed)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from noetl.expressions import evaluate
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.reference import open_references
from noetl.net.model import Assignment, OlderRepeat
from noetl.pipeline.assignments import Changes, target
from noetl.pipeline.model import PipelinePorts
from noetl.pipeline.names import TemplateScope
from noetl.pipeline.policy import holds


def request(older: OlderRepeat, sight: TemplateScope, ports: PipelinePorts) -> JsonMap:
    """What lies over the request of a call. Raises TemplateError and what `load` raises."""
    found = open_references(evaluate(older.over, sight, load=ports.load), ports.load)
    return found if isinstance(found, Mapping) else {}


def assign(
    changes: Changes, assignments: Iterable[Assignment], older: OlderRepeat, sight: TemplateScope
) -> None:
    """As `Changes.apply`, where values may be further entries of mappings, or merged into them."""
    for assignment, value in changes.evaluate(assignments, sight):
        one, held = assignment, _held_value(assignment, sight)
        if one.name in older.appended:
            # The next entry of the mapping; the first one where there is none yet.
            number = len(held) + 1 if isinstance(held, Mapping) else 1
            one = replace(one, name=f"{one.name}.{number}")
        if assignment.name in older.merged:
            changes.keep(one, deep_merge(open_references(held, changes.ports.load), value), sight)
        else:
            changes.keep(one, value, sight)


def then(older: OlderRepeat, sight: TemplateScope, ports: PipelinePorts) -> tuple[Assignment, ...]:
    """What the first rule that holds assigns. Raises TemplateError."""
    return next((rule.then.set for rule in older.then if holds(rule.when, sight, ports.load)), ())


def _held_value(assignment: Assignment, sight: TemplateScope) -> Json:
    """What the name holds before the assignment; null where it holds nothing."""
    root, *parts = target(assignment).split(".")
    held: Json = sight.get(root)
    for part in parts:
        held = held.get(part) if isinstance(held, Mapping) else None
    return held
