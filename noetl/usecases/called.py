"""What a task hands over to the playbook that it calls."""

from __future__ import annotations

from typing import Final

from noetl.engine.admission import Admitted, admit
from noetl.engine.plan import Plan
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import is_reference, open_references
from noetl.usecases.runtime import Runtime

#: Up to how many bytes a value that comes by reference is looked into.
_SMALL: Final = 65_536


def admit_call(rt: Runtime, plan: Plan, payload: JsonMap) -> Admitted:
    """`payload` as the playbook of `plan` takes it. A small value is read by the type of its input
    however it comes; a large one that comes by reference stays what it is.

    Raises InputsInvalid, and NotFound where a small value is gone.
    """
    if plan.net.inputs:
        payload = {name: _open_small(rt, value) for name, value in payload.items()}
    return admit(plan, payload, {})


def _open_small(rt: Runtime, value: Json) -> Json:
    if not isinstance(value, dict) or not is_reference(value):
        return value
    size = (value.get("meta") or {}).get("bytes")
    return open_references(value, rt.load) if size is not None and size <= _SMALL else value
