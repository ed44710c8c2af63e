"""Claims: how a lane of a loop over a cursor comes by its rows.

A claim is one call of the cursor's tool, made outside of any transaction of ours. What it yields is
recorded by the lane in the very next transaction, before a row of it runs. Between the two lies the
only moment in which a crash makes us forget rows that the user's table has as claimed; a tool that
repeats its answer to the same idempotency key (`exactly_once` of postgres) closes it: the lane's
next delivery asks under the same key, or the lane that comes after it (`claim_keys`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never, cast

from noetl.engine.loop_ends import too_many
from noetl.engine.plan import Plan
from noetl.errors import NoetlError
from noetl.facts.events import Draft, LoopClaimed, TaskKeyKept
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo, Outcome
from noetl.facts.reference import Retention, load_value
from noetl.net.model import Task
from noetl.pipeline.failures import describe_failure
from noetl.pipeline.fold import initial
from noetl.pipeline.interpreter import run
from noetl.pipeline.model import Failed, Finished, Names, PipelineSpec, Recorded, Sleep, Suspend, Where
from noetl.usecases.ports import CommandRow, LoopRow, Transaction
from noetl.usecases.work.claim_keys import LaneOrder, find_unheard
from noetl.usecases.work.leased_tools import LeasedTools
from noetl.usecases.work.leases import Worker
from noetl.usecases.work.pipelines import issuing_event, names, pipeline_ports

#: Between two looks at whether the lane is still wanted, in seconds.
_NAP_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Claim:
    """The rows that a claim yielded: `items` are the list of them or its reference. With an `error`
    there are none."""

    items: Json = field(default_factory=list)
    count: int = 0
    error: ErrorInfo | None = None
    meta: JsonMap = field(default_factory=dict)


@dataclass(slots=True)
class Claimer:
    """Makes the claims of one delivery of a lane."""

    worker: Worker
    command: CommandRow
    plan: Plan
    tools: LeasedTools
    cursor: Task
    #: How many claims of this lane are in the log.
    made: int
    #: The keys of those that it makes first: of lanes that are gone, of which nobody has heard.
    unheard: Sequence[str]
    #: Whether the claim that was recorded last ends the loop.
    failed: bool = False

    @staticmethod
    def of(
        tx: Transaction, worker: Worker, command: CommandRow, plan: Plan, tools: LeasedTools
    ) -> Claimer | None:
        """That of a lane; None where its loop has no cursor."""
        loop = plan.step(command.step).loop
        if loop is None or loop.cursor is None:
            return None
        made, unheard = LaneOrder.of(command).count_claims(tx), find_unheard(tx, command, loop.cursor)
        return Claimer(worker, command, plan, tools, loop.cursor, made, unheard)

    @property
    def owes(self) -> bool:
        """Whether there are claims to ask for of which nobody has heard."""
        return self.made < len(self.unheard)

    def claim(self, ctx: JsonMap) -> Claim:
        """Asks for rows; `ctx` is what templates see of it. Raises LeaseLost where the lane is not
        ours any more."""
        rt, command = self.worker.rt, self.command
        kept = TaskKeyKept(self.cursor.name, "", "", key=self.unheard[self.made]) if self.owes else None
        program = PipelineSpec((self.cursor,), self._where(), self.plan.net.file)
        # The rows are recorded by the lane, which keeps them by itself where they are large.
        using = replace(
            pipeline_ports(rt, command, self.tools, self.tools.log), kept=lambda outcome, _: outcome
        )
        progress = replace(initial(program), kept_key=kept)
        while progress.ending is None:
            for move in run(program, self._names(ctx), progress, using):
                progress = move.progress if not isinstance(move, Sleep) else progress
                match move:
                    case Recorded() | Finished():
                        pass
                    case Sleep() | Suspend():
                        self._rest(move.seconds or 0.0)
                    case _:
                        assert_never(move)
        outcome = progress.last
        if isinstance(progress.ending, Failed) or outcome is None or not outcome.ok:
            error = progress.ending.error if isinstance(progress.ending, Failed) else None
            return Claim(error=error, meta=outcome.meta if outcome else {})
        return self._rows(outcome)

    def record(self, tx: Transaction, claim: Claim, share: int) -> tuple[LoopRow, LoopClaimed]:
        """The loop's row with the rows of the claim among those that lanes take, and what says so.
        The lane itself is about to take `share` of them."""
        command, limits = self.command, self.worker.rt.limits
        row = self._extend(tx, claim)
        error = claim.error
        if row.count > limits.max_items:
            error = too_many(self.plan.step(command.step), row.count, limits.max_items)
        self.failed = error is not None
        waiting = max(0, row.size - row.next_index - share)
        return row, LoopClaimed(command.part, claim.count, claim.items, waiting, error, claim.meta)

    def draft(self, fact: LoopClaimed, row: LoopRow) -> Draft:
        """What was recorded, for the log; `row` is the loop's with its rows."""
        command = self.command
        return Draft(
            fact,
            source="worker",
            step=command.step,
            run_id=command.run_id,
            iteration=row.count - fact.count if fact.count else None,
            duration_ms=fact.meta.get("duration_ms"),
            dedup_key=LaneOrder.of(command).record_key(self.made),
        )

    def _extend(self, tx: Transaction, claim: Claim) -> LoopRow:
        command = self.command
        if claim.count:
            return tx.loops.extend(command.execution_id, command.run_id, command.generation, claim.count)
        row = tx.loops.get(command.execution_id, command.run_id)
        assert row is not None, "it was there when the lane began"
        return row

    def recorded(self) -> None:
        """The last claim is in the log."""
        self.made += 1

    def _where(self) -> Where:
        command = self.command
        number = LaneOrder.of(command).number(self.made)
        digest, event = command.context["digest"], issuing_event(command)
        return Where(command.execution_id, command.run_id, command.step, None, digest, number, event)

    def _names(self, ctx: JsonMap) -> Names:
        scope = names(self.worker.rt, self.plan, self.command)
        own = {"_worker": self.worker.name, "_run": self.command.run_id}
        return replace(scope, ctx=ctx, builtins={**scope.builtins, **own})

    def _rest(self, seconds: float) -> None:
        """A claim that waits keeps its worker: there is nothing yet that a pipeline could go on
        from."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.tools.check()
            time.sleep(min(left, _NAP_S))

    def _rows(self, outcome: Outcome) -> Claim:
        rt, command = self.worker.rt, self.command
        keep = Retention(command.execution_id)
        try:
            result = load_value(outcome.result, rt.load)
            rows = result.get("rows") if isinstance(result, dict) else None
            items = load_value(rows, rt.load)
            if fault := self._find_fault(result, items):
                return Claim(error=fault, meta=outcome.meta)
            loop = self.plan.step(command.step).loop
            if items and loop is not None and loop.process == "frame":
                # An iteration is all that a claim yielded.
                return Claim(rt.hold([rows], keep), 1, meta=outcome.meta)
            held = rows if items is not rows else rt.hold(items, keep)
        except NoetlError as error:
            return Claim(
                error=self._locate(describe_failure(error, "The rows of the claim")), meta=outcome.meta
            )
        return Claim(held, len(cast("Sequence[Json]", items)), meta=outcome.meta)

    def _find_fault(self, result: Json, items: Json) -> ErrorInfo | None:
        if not isinstance(items, Sequence) or isinstance(items, str):
            return self._locate(ErrorInfo("client_error", "The claim yields no rows.", type="NoRows"))
        if not items and isinstance(result, dict) and result.get("row_count") and not result.get("columns"):
            message = (
                f"The claim changed {result['row_count']} rows and returned none of them; "
                "end it with RETURNING *."
            )
            return self._locate(ErrorInfo("client_error", message, type="NoRows"))
        return None

    def _locate(self, error: ErrorInfo) -> ErrorInfo:
        cursor = self.cursor
        line = cursor.lines.get("command") or cursor.line or None
        return replace(error, step=self.command.step, task=cursor.name, line=line)
