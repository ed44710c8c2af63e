"""The inputs of an earlier execution, for the form that starts another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from noetl.errors import NotFound
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.reference import holds_reference
from noetl.facts.secret import holds_secret, is_secret_name
from noetl.ui.playbook.look import PlaybookLook
from noetl.usecases import moment


@dataclass(frozen=True, slots=True)
class CopiedInputs:
    """What an execution was given. `left_out` names what is not copied: secrets, and what is kept
    outside of the log."""

    execution_id: str
    values: JsonMap = field(default_factory=dict)
    left_out: Sequence[str] = ()


def copy_inputs(look: PlaybookLook, execution_id: str) -> CopiedInputs:
    """Raises NotFound for an execution that is not one of the playbook, or that the visitor may not
    know of."""
    with look.visitor.rt.store.read() as tx:
        row = tx.executions.get(execution_id) if moment.is_id(execution_id) else None
        if row is None or not look.visitor.principal.may("read", row.path):
            raise moment.no_execution(execution_id)
        if row.path != look.path:
            raise NotFound(f"Execution {execution_id} ran {row.path!r}: start that playbook again.")
        first = moment.requested(tx, execution_id)
    given = deep_merge(first.payload, first.overrides)
    kept = {name: value for name, value in given.items() if _is_plain(name, value)}
    return CopiedInputs(execution_id, kept, [name for name in given if name not in kept])


def _is_plain(name: str, value: Json) -> bool:
    return not (is_secret_name(name) or holds_secret(value) or holds_reference(value))
