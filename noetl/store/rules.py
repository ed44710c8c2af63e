"""What holds for every store, whatever keeps its rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from noetl.errors import BadRequest, Conflict, NoetlError, NotFound
from noetl.facts.event_names import ALIASES
from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.usecases.ports import LoopRow


def refused_write() -> NoetlError:
    return NoetlError("A write was tried in a transaction for reads; use begin().")


def unusable() -> NoetlError:
    return NoetlError("An earlier statement of this transaction failed; only its rollback is left.")


def aware(value: datetime) -> datetime:
    """`value` itself. Raises BadRequest where it has no time zone (a server would guess one)."""
    if value.tzinfo is None:
        raise BadRequest(f"The instant {value.isoformat()} has no time zone; instants are aware, in UTC.")
    return value


def missing(execution_id: str) -> NotFound:
    return NotFound(f"Execution {execution_id} does not exist.")


def not_later(row: LoopRow) -> Conflict:
    return Conflict(
        f"The loop of {row.run_id} in execution {row.execution_id} is at generation {row.generation} or "
        "later."
    )


def not_of_generation(execution_id: str, run_id: str, generation: int) -> Conflict:
    return Conflict(f"The loop of {run_id} in execution {execution_id} is not at generation {generation}.")


def known_types(types: Iterable[str]) -> list[str]:
    """The stored names of `types`, aliases resolved."""
    return sorted({ALIASES.get(name, name) for name in types})


def letter(number: int, source: str, reason: str, body: str, recorded_at: datetime) -> JsonMap:
    """A dead letter as JSON: `{id, source, reason, body, recorded_at}`, the instant in ISO 8601."""
    return {
        "id": number,
        "source": source,
        "reason": reason,
        "body": body,
        "recorded_at": recorded_at.isoformat(),
    }


def legible(text: str) -> str:
    """`text` (whatever the broker delivered) as any database can hold it: NUL becomes U+FFFD."""
    return codec.clean(text).replace("\0", "\ufffd")
