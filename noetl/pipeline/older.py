"""What the interpreter knows for nets of schema 1 alone (`noetl.net.older`, which says until when
it is needed)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from noetl.expressions import evaluate
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.reference import opened
from noetl.net.model import Assignment, Older
from noetl.pipeline.assignments import Changes, evaluated, keep, target
from noetl.pipeline.model import PipelinePorts, Program
from noetl.pipeline.names import TemplateScope
from noetl.pipeline.policy import first


def request(older: Older, sight: TemplateScope, hands: PipelinePorts) -> JsonMap:
    """What lies over the request of a call. Raises TemplateError and what `load` raises."""
    found = opened(evaluate(older.over, sight, load=hands.load), hands.load)
    return found if isinstance(found, Mapping) else {}


def assign(
    changes: Changes,
    program: Program,
    assignments: Iterable[Assignment],
    older: Older,
    sight: TemplateScope,
    hands: PipelinePorts,
) -> None:
    """As `apply`, where values may be further entries of mappings, or merged into them."""
    for assignment, value in evaluated(changes, assignments, sight, hands):
        one = _numbered(assignment, sight) if assignment.name in older.appended else assignment
        whole = value
        if assignment.name in older.merged:
            whole = deep_merge(opened(_held(assignment, sight), hands.load), value)
        keep(changes, program, one, whole, sight, hands)


def then(older: Older, sight: TemplateScope, hands: PipelinePorts) -> tuple[Assignment, ...]:
    """What the first rule that holds assigns. Raises TemplateError."""
    chosen = first(older.then, sight, hands.load)
    return chosen.then.set if chosen else ()


def _numbered(assignment: Assignment, sight: TemplateScope) -> Assignment:
    """The assignment of the next entry of the mapping that it names; of the first one where there
    is none yet."""
    held = _held(assignment, sight)
    number = len(held) + 1 if isinstance(held, Mapping) else 1
    return replace(assignment, name=f"{assignment.name}.{number}")


def _held(assignment: Assignment, sight: TemplateScope) -> Json:
    """What the name holds before the assignment; null where it holds nothing."""
    root, *parts = target(assignment).split(".")
    held: Json = sight.get(root)
    for part in parts:
        held = held.get(part) if isinstance(held, Mapping) else None
    return held
