"""Values that templates see in more than one way."""

from __future__ import annotations

from dataclasses import dataclass, field

from noetl.facts.json import Json, JsonMap


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step left behind. Under its name templates see `value`; `<step>.results.<task>` finds the
    tasks of its pipeline, and `<step>.data` is `value` itself, where `value` has no such keys."""

    value: Json
    results: JsonMap = field(default_factory=dict)
