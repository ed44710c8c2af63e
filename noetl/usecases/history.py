"""Why an execution went as it did, and in what two of them differ. Each answer is read in one
transaction."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.errors import NotFound
from noetl.facts.events import Event
from noetl.facts.nearest import did_you_mean
from noetl.history import compare as history
from noetl.history.accounts import Explanation, OpenCommand
from noetl.history.differences import Comparison
from noetl.history.explain import explain as explain_log
from noetl.net.model import Net
from noetl.usecases import moment
from noetl.usecases.ports import ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime


def explain(
    rt: Runtime, execution_id: str, step: str | None = None, version: int | None = None
) -> Explanation:
    """Why each step ran, did not run or waits, or `step` alone, as of `version` or now.

    Raises NotFound, with the nearest name for a step, and BadRequest for a version beyond the head.
    """
    with rt.store.read() as tx:
        row = moment.find(tx, execution_id)
        moment.check_version(row, version)
        plan = rt.plan(tx, row.digest)
        log = _log(tx, execution_id, version)
        held = list(_held(tx, row)) if version in (None, row.head_version) else []
    if step is not None and step not in plan.net.steps:
        raise _unknown(plan.net, execution_id, step)
    return explain_log(plan, log, held, step)


def _unknown(net: Net, execution_id: str, step: str) -> NotFound:
    return NotFound(
        f"Execution {execution_id} of playbook {net.path!r} has no step {step[:80]!r}."
        f"{did_you_mean(step, net.steps)}"
    )


def _log(tx: Transaction, execution_id: str, version: int | None = None) -> list[Event]:
    return tx.events.read(execution_id, limit=version) if version != 0 else []


def _held(tx: Transaction, row: ExecutionRow) -> Iterator[OpenCommand]:
    for one in tx.commands.open_of(row.execution_id):
        owner = one.owner if one.state == "claimed" else None
        yield OpenCommand(one.command_id, one.sent_at is not None, owner, one.lease_until if owner else None)


def compare(rt: Runtime, execution_id: str, other: str, most: int = history.MOST) -> Comparison:
    """In what the execution `other` differs from `execution_id`, as both are now; at most `most`
    differences of each kind. Raises NotFound."""
    with rt.store.read() as tx:
        logs = [_log(tx, moment.find(tx, one).execution_id) for one in (execution_id, other)]
    return history.compare(logs[0], logs[1], most)
