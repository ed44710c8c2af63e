"""Runs a pipeline: one task after another, as their policies say.

`run` neither sleeps nor commits. It yields what is to be made durable, and goes on when asked for
more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, Literal, assert_never

from noetl.errors import NoetlError
from noetl.facts.children import ChildCall
from noetl.facts.events import (
    AttemptFailed,
    Draft,
    Fact,
    PolicyEvaluated,
    TaskCallDone,
    TaskCallFailed,
    TaskCheckpointed,
    TaskDone,
    TaskFailed,
)
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.facts.reference import opened
from noetl.net.model import Loop, Older, Repeat, Task
from noetl.pipeline import items, older, repeating
from noetl.pipeline.assignments import Changes, apply, keep
from noetl.pipeline.calls import Attempt, Caller, with_warnings
from noetl.pipeline.failures import described
from noetl.pipeline.fold import begun, evolve
from noetl.pipeline.model import (
    Calls,
    Failed,
    Finished,
    Later,
    Move,
    Names,
    PipelinePorts,
    Program,
    Progress,
    Recorded,
    Sleep,
    Suspend,
)
from noetl.pipeline.names import TemplateScope, before, in_policy, in_set, surroundings
from noetl.pipeline.policy import Case, Verdict, guarded, judge, rule_of

#: Waits up to this many seconds are slept through in the worker; longer ones leave it.
LONGEST_SLEEP_S: Final = 1.0
#: Ends of tasks in one pipeline, over all its slices: beyond that, jumps go round for ever. Of
#: tasks that run after every call of another one only those behind the last call count.
MOST_TASK_ENDS: Final = 10_000


def run(program: Program, names: Names, progress: Progress, hands: PipelinePorts) -> Iterator[Move]:
    """Goes on from `progress` to the end, or to a wait of more than a second.

    The last item is `Finished` or `Suspend`; their drafts were not yielded before. The owner comes
    back (with the progress folded from the log) when a wait is over, so a `progress` that still
    owes one (`wait_s`) is not waited for again. Raises nothing for what playbooks, templates or
    tools did.
    """
    progress = begun(program, progress)
    machine = _Machine(program, Caller(program, surroundings(program, names), hands), hands)
    drafts: tuple[Draft, ...] = ()
    while progress.ending is None:
        asked, progress = machine.entered(progress)
        if progress.ending is not None:
            drafts = asked
            break
        task = program.tasks[progress.pc].name
        attempt = machine.caller.attempt(progress)
        reason: Literal["retry", "later"] = "retry"
        match attempt.suspension:
            case ChildCall() as child:
                wait = None if child.detached else attempt.deadline_s
                yield Suspend(asked, progress, task, "child", wait, machine.called(child, progress))
                return
            case Later() as later:
                reason, drafts = "later", machine.checkpoint(later, attempt.since, progress)
            case None:
                drafts = machine.boundary(attempt, progress)
            case _:
                assert_never(attempt.suspension)
        progress, drafts = machine.folded(progress, drafts), (*asked, *drafts)
        if progress.ending is not None:
            break
        wait = attempt.suspension.seconds if attempt.suspension else progress.wait_s
        if wait > LONGEST_SLEEP_S:
            yield Suspend(drafts, progress, program.tasks[progress.pc].name, reason, wait)
            return
        if drafts:
            yield Recorded(drafts, progress)
        if wait > 0.0:
            yield Sleep(wait)
    yield Finished(drafts, progress, progress.ending)


@dataclass(frozen=True, slots=True)
class _Machine:
    """From one boundary to the next: an attempt, its judgement, what it assigned, and their
    drafts."""

    program: Program
    caller: Caller
    hands: PipelinePorts

    def entered(self, progress: Progress) -> tuple[tuple[Draft, ...], Progress]:
        """`progress` at the next call, and what was said on the way there: by guards, and by loops
        that begin. It is recorded with what comes of that call: it is asked again where it got
        lost, and says the same."""
        asked: tuple[Draft, ...] = ()
        while progress.ending is None and (drafts := self._entering(progress)):
            progress, asked = self.folded(progress, drafts), (*asked, *drafts)
        return asked, progress

    def _entering(self, progress: Progress) -> tuple[Draft, ...]:
        task = self.program.tasks[progress.pc]
        if isinstance(task.after, str) and not progress.entered:
            return self._drafts([self._guarded(task, progress)], task, None, progress, "/after")
        if task.loop is not None and progress.items is None:
            return self._opening(task, task.loop, progress)
        return ()

    def _opening(self, task: Task, loop: Loop, progress: Progress) -> tuple[Draft, ...]:
        """The beginning of a task with a loop; its end as well, where there is nothing to loop
        over."""
        around = self.caller.around
        try:
            args = {**around.names.args, **self.caller.handed(progress)}
        except NoetlError as error:
            return self._closing(
                task, failed(described(error, f"The inputs of task '{task.name}'")), progress
            )
        fact = items.begun(task, loop, before(around, progress, task, args), self.hands.load)
        if isinstance(fact, ErrorInfo):
            return self._closing(task, failed(fact), progress)
        drafts = self._drafts([fact], task, None, progress)
        seen = self.folded(progress, drafts)
        return drafts if fact.count else (*drafts, *self._all(task, loop, seen))

    def called(self, child: ChildCall, progress: Progress) -> ChildCall:
        """The call, with the scope of the item that makes it."""
        return replace(child, iter=self.caller.item(progress, self.program.tasks[progress.pc]))

    def checkpoint(self, later: Later, since: str | None, progress: Progress) -> tuple[Draft, ...]:
        """Nothing where the tool only wants to be asked again, and the log knows `since` when it
        was asked."""
        since = None if progress.since else since
        if since is None and later.checkpoint == opened(progress.checkpoint, self.hands.load):
            return ()
        task = self.program.tasks[progress.pc]
        fact = TaskCheckpointed(task.name, later.checkpoint, since)
        return self._drafts([fact], task, None, progress, f"/{progress.checkpoints}")

    def _guarded(self, task: Task, progress: Progress) -> PolicyEvaluated | TaskFailed:
        around = self.caller.around
        try:
            return guarded(task, before(around, progress, task, around.names.args), self.hands.load)
        except NoetlError as broken:
            error = described(broken, f"The `after` of task '{task.name}'")
            error = self.caller.placed(error, task, progress)
            return TaskFailed(task.name, error, fatal=True, after=True)

    def boundary(self, attempt: Attempt, progress: Progress) -> tuple[Draft, ...]:
        task, called = self.program.tasks[progress.pc], self.caller.called(progress)
        verdict = self._judged(called, attempt, progress)
        # That of a task with a loop, or that repeats, is about the whole.
        own = progress.items is None and task.repeat is None
        verdict, changes = self._assigned(called, attempt, verdict, progress, own=own)
        fact: TaskCallDone | TaskCallFailed | None = None
        if task.repeat is not None and verdict.do == "continue":
            verdict, changes, fact = self._call_end(called, task.repeat, attempt, verdict, changes, progress)
        if verdict.error is not None:
            verdict = replace(verdict, error=self.caller.placed(verdict.error, called, progress))
        outcome = with_warnings(attempt.outcome, changes.warnings)
        if task.loop is not None:
            drafts = self._item(task, task.loop, outcome, verdict, changes, progress)
        else:
            end: Fact | None = _end(task, outcome, verdict)
            if fact is not None:
                end = replace(fact, task=task.name, meta=outcome.meta)
            drafts = self._drafts(self._facts(task, end, verdict, changes), task, outcome, progress)
        return drafts if task.repeat is None and not task.each_of else self._and_whole(progress, drafts)

    def _call_end(
        self,
        task: Task,
        repeat: Repeat,
        attempt: Attempt,
        verdict: Verdict,
        changes: Changes,
        progress: Progress,
    ) -> tuple[Verdict, Changes, TaskCallDone | TaskCallFailed | None]:
        """The end of a call, which sees what its rule has assigned. Where what follows cannot be
        told, the task fails."""
        outcome, calls = attempt.outcome, progress.calls or Calls()
        if not outcome.ok:
            return verdict, changes, repeating.failed_call(task, calls, outcome)
        try:
            sight = self._seeing(changes, task, attempt, progress)
            answer = repeating.CallAnswer(
                opened(outcome.result, self.hands.load),
                attempt.request,
                in_policy(sight, outcome),
                in_set(sight, outcome),
                self.hands.load,
                changes.warnings,
            )
            return verdict, changes, repeating.call_end(task, repeat, calls, answer, outcome)
        except NoetlError as error:
            failing = verdict.failing(described(error, f"The `{repeat.key}` of task '{task.name}'"))
            return failing, Changes(), None

    def _and_whole(self, progress: Progress, drafts: tuple[Draft, ...]) -> tuple[Draft, ...]:
        """`drafts`, and behind them the end of a task whose last call they have ended."""
        seen = self.folded(progress, drafts)
        task = self.program.tasks[seen.pc] if seen.ending is None else None
        if task is None or task.repeat is None or seen.calls is None or not seen.calls.over:
            return drafts
        outcome, data = repeating.whole(task, task.repeat, seen.calls, self.hands.load)
        return (*drafts, *self._closing(task, outcome, seen, data))

    def _facts(self, task: Task, end: Fact | None, verdict: Verdict, changes: Changes) -> list[Fact]:
        facts: list[Fact] = [] if end is None else [end]
        if (decision := _decision(task, verdict)) is not None:
            facts.append(decision)
        facts.extend(changes.facts(task.name))
        return facts

    def _item(
        self,
        task: Task,
        loop: Loop,
        outcome: Outcome,
        verdict: Verdict,
        changes: Changes,
        progress: Progress,
    ) -> tuple[Draft, ...]:
        """What an attempt of an item leaves, and the end of its task behind the last one. What it
        assigned comes first: with its end the scope of the next item begins. A jump comes last: it
        leaves the loop."""
        assert progress.items is not None, "the loop has begun"
        if verdict.do == "retry":
            end = _end(task, outcome, verdict)
            return self._drafts(self._facts(task, end, verdict, changes), task, outcome, progress)
        decision = [fact] if (fact := _decision(task, verdict)) is not None else []
        ended = items.item_end(task, progress.items.index, outcome, verdict)
        said = [ended, *(() if verdict.do == "jump" else decision)]
        drafts = self._drafts(changes.facts(task.name), task, None, progress)
        drafts += self._drafts(said, task, outcome, progress)
        seen = self.folded(progress, drafts)
        if seen.items is None or not items.is_over(loop, seen.items, verdict):
            return drafts
        drafts = (*drafts, *self._all(task, loop, seen))
        if verdict.do != "jump" or isinstance(self.folded(progress, drafts).ending, Failed):
            return drafts
        return (*drafts, *self._drafts(decision, task, None, progress))

    def _all(self, task: Task, loop: Loop, progress: Progress) -> tuple[Draft, ...]:
        """The end of a task whose items have ended."""
        assert progress.items is not None, "the loop has begun"
        return self._closing(task, items.whole(loop, progress.items), progress)

    def _closing(
        self, task: Task, outcome: Outcome, progress: Progress, data: Json = None
    ) -> tuple[Draft, ...]:
        """The end of a task with a loop, or that repeats, and what its `set` assigns; `data` is
        what that collected."""
        progress = replace(progress, items=None)
        outcome = self.hands.kept(outcome, task)
        args = self.caller.around.names.args
        attempt = Attempt(outcome, before(self.caller.around, progress, task, args), args)
        verdict = Verdict("continue") if outcome.ok else Verdict("fail", error=outcome.error)
        verdict, changes = self._assigned(task, attempt, verdict, progress, own=True, data=data)
        if verdict.error is not None and verdict.error.task is None:
            verdict = replace(verdict, error=self.caller.placed(verdict.error, task, progress))
        outcome = with_warnings(outcome, changes.warnings)
        facts = self._facts(task, _end(task, outcome, verdict), verdict, changes)
        return self._drafts(facts, task, None, progress, "/whole" if task.repeat is not None else "")

    def folded(self, progress: Progress, drafts: tuple[Draft, ...]) -> Progress:
        return reduce(lambda seen, draft: evolve(self.program, seen, draft), drafts, progress)

    def _judged(self, task: Task, attempt: Attempt, progress: Progress) -> Verdict:
        outcome = attempt.outcome
        sight = in_policy(attempt.sight, outcome) if task.rules else attempt.sight
        verdict = judge(Case(task, outcome, sight, progress.attempt, self.hands.load, self.hands.random))
        if verdict.do != "jump":
            return verdict
        refusal = self._refused_jump(task, verdict, progress)
        return verdict if refusal is None else verdict.failing(refusal)

    def _refused_jump(self, task: Task, verdict: Verdict, progress: Progress) -> ErrorInfo | None:
        if not any(verdict.to == other.name for other in self.program.tasks):
            place = rule_of(task, verdict.rule or 0)
            return ErrorInfo(
                "client_error", f"{place} jumps to {verdict.to!r}, which is no task of this step."
            )
        if progress.ends + 1 < MOST_TASK_ENDS:
            return None
        message = (
            f"Task '{task.name}' jumps back for ever: its pipeline has ended {MOST_TASK_ENDS} tasks; "
            f"give the jump to '{verdict.to}' a condition that comes to an end."
        )
        return ErrorInfo("limit", message, type="EndlessPipeline")

    def _assigned(
        self,
        task: Task,
        attempt: Attempt,
        verdict: Verdict,
        progress: Progress,
        *,
        own: bool,
        data: Json = None,
    ) -> tuple[Verdict, Changes]:
        """The verdict after `set` of the rule and then of the task. A `set` that fails, fails the
        task.

        A task's own `set` reads its raw result, so it applies where the task ended well: not after
        a failure (it would overwrite variables with null), nor before another attempt.
        """
        changes = Changes()
        place = rule_of(task, verdict.rule or 0)
        try:
            if verdict.set:
                sight = in_policy(attempt.sight, attempt.outcome)
                written = f"policy.rules[{verdict.rule}].set"
                apply(changes, self.program, verdict.set, sight, self.hands, written)
            if own and attempt.outcome.ok and verdict.do not in ("retry", "fail"):
                place = f"The `set` of task '{task.name}'"
                self._assign_own(task, attempt, progress, changes, data)
        except NoetlError as error:
            # What failed first is what people need to know.
            return verdict.failing(verdict.error or described(error, place)), Changes()
        return verdict, changes

    def _assign_own(
        self, task: Task, attempt: Attempt, progress: Progress, changes: Changes, data: Json
    ) -> None:
        if task.older is not None:
            self._assign_older(task, task.older, attempt, progress, changes)
            return
        into = task.repeat.into if task.repeat is not None else None
        if not (task.set or into):
            return
        sight = in_set(self._seeing(changes, task, attempt, progress), attempt.outcome)
        if into is not None:
            keep(changes, self.program, into, data, sight, self.hands)
        apply(changes, self.program, task.set, sight, self.hands)

    def _assign_older(
        self, task: Task, said: Older, attempt: Attempt, progress: Progress, changes: Changes
    ) -> None:
        sight = in_set(self._seeing(changes, task, attempt, progress), attempt.outcome)
        older.assign(changes, self.program, task.set, said, sight, self.hands)
        if said.then:
            sight = in_policy(self._seeing(changes, task, attempt, progress), attempt.outcome)
            chosen = older.then(said, sight, self.hands)
            older.assign(changes, self.program, chosen, said, sight, self.hands)

    def _seeing(self, changes: Changes, task: Task, attempt: Attempt, progress: Progress) -> TemplateScope:
        """What the attempt saw, and what its rule has assigned since."""
        facts = changes.facts(task.name)
        if not facts:
            return attempt.sight
        seen = self.folded(progress, tuple(Draft(fact) for fact in facts))
        return self.caller.sight(seen, task, attempt.args)

    def _drafts(
        self, facts: Sequence[Fact], task: Task, outcome: Outcome | None, progress: Progress, part: str = ""
    ) -> tuple[Draft, ...]:
        where = self.program.where
        iteration = "-" if where.iteration is None else where.iteration
        visit = progress.visits.get(task.name, 0) + 1
        item = "" if progress.items is None else f".{progress.items.index}"
        item += "" if progress.calls is None or task.repeat is None else f".{progress.calls.count}"
        place = f"{where.run_id}/{iteration}/{task.name}/{visit}{item}/{progress.attempt}/"
        took = outcome.meta.get("duration_ms") if outcome else None
        return tuple(
            Draft(
                fact,
                source="worker",
                step=where.step,
                run_id=where.run_id,
                iteration=where.iteration,
                attempt=progress.attempt,
                duration_ms=took if number == 0 else None,
                dedup_key=place + fact.type + part,
            )
            for number, fact in enumerate(facts)
        )


def _end(task: Task, outcome: Outcome, verdict: Verdict) -> TaskDone | TaskFailed | AttemptFailed | None:
    """How the attempt is recorded. One that went well and is repeated leaves only its policy's
    event."""
    meta, extras, after = outcome.meta, outcome.extras, task.after is not None
    match verdict.do:
        case "fail":
            error = verdict.error or outcome.error
            assert error is not None, "a verdict that fails carries its error"
            return TaskFailed(task.name, error, meta, extras, fatal=True, after=after)
        case "retry":
            return AttemptFailed(task.name, outcome.error, meta, extras) if outcome.error else None
        case "continue" | "jump" | "break":
            if outcome.error is not None:
                return TaskFailed(task.name, outcome.error, meta, extras, after=after)
            return TaskDone(task.name, outcome.result, meta, extras, after)
        case _:
            assert_never(verdict.do)


def _decision(task: Task, verdict: Verdict) -> PolicyEvaluated | None:
    if verdict.rule is None:
        return None
    return PolicyEvaluated(
        task.name, verdict.rule, verdict.when, verdict.names, verdict.do, verdict.to, verdict.delay
    )
