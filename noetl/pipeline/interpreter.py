"""Runs a pipeline: one task after another, as their policies say.

`run` neither sleeps nor commits. It yields what is to be made durable, and goes on when asked for
more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, assert_never

from noetl.errors import NoetlError
from noetl.facts.children import ChildCall
from noetl.facts.events import (
    Draft,
    Fact,
    PolicyEvaluated,
    TaskCallDone,
    TaskCallFailed,
    TaskCheckpointed,
    TaskFailed,
    Wait,
)
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, failed
from noetl.facts.reference import open_references
from noetl.net.model import Loop, OlderRepeat, Repeat, Task
from noetl.pipeline import items, older, repeating
from noetl.pipeline.assignments import Changes
from noetl.pipeline.calls import Attempt, TaskCaller, with_warnings
from noetl.pipeline.failures import CannotGoOn, blame, describe_failure
from noetl.pipeline.fold import begin, evolve
from noetl.pipeline.model import (
    Calls,
    Failed,
    Finished,
    Later,
    Move,
    Names,
    PipelinePorts,
    PipelineProgress,
    PipelineSpec,
    Recorded,
    Sleep,
    Suspend,
)
from noetl.pipeline.names import TemplateScope, before, in_policy, in_set, outer_scope
from noetl.pipeline.policy import Case, Verdict, ask_guard, check_jump, end_of, judge, rule_of

#: Waits up to this many seconds are slept through in the worker; longer ones leave it.
LONGEST_SLEEP_S: Final = 1.0


def run(
    program: PipelineSpec, names: Names, progress: PipelineProgress, ports: PipelinePorts
) -> Iterator[Move]:
    """Goes on from `progress` to the end, or to a wait of more than a second.

    The last item is `Finished` or `Suspend`; their drafts were not yielded before. The owner comes
    back (with the progress folded from the log) when a wait is over, so a `progress` that still
    owes one (`wait_s`) is not waited for again. Raises nothing for what playbooks, templates or
    tools did.
    """
    machine = _Machine(program, names, begin(program, progress), ports)
    while machine.enter():
        task, attempt = machine.task, machine.caller.attempt(machine.progress)
        reason = "retry"
        match attempt.suspension:
            case ChildCall() as child:
                wait = None if child.detached else attempt.deadline_s
                child = replace(child, iter=machine.caller.item(machine.progress, task))
                yield Suspend(machine.take_drafts(), machine.progress, task.name, "child", wait, child)
                return
            case Wait() as awaited:
                yield Suspend(
                    machine.take_drafts(),
                    machine.progress,
                    task.name,
                    "wait",
                    attempt.deadline_s,
                    wait=awaited,
                )
                return
            case Later() as later:
                reason = later.reason
                machine.record_checkpoint(later, attempt.since)
            case None:
                machine.record_attempt(attempt)
            case _:
                assert_never(attempt.suspension)
        if machine.progress.ending is not None:
            break
        wait = attempt.suspension.seconds if attempt.suspension else machine.progress.wait_s
        if wait > LONGEST_SLEEP_S:
            yield Suspend(machine.take_drafts(), machine.progress, machine.task.name, reason, wait)
            return
        if machine.drafts:
            yield Recorded(machine.take_drafts(), machine.progress)
        if wait > 0.0:
            yield Sleep(wait)
    assert machine.progress.ending is not None, "otherwise another task is due"
    yield Finished(machine.take_drafts(), machine.progress, machine.progress.ending)


class _Machine:
    """From one boundary to the next: an attempt, its judgement, and what it assigned. `drafts` are
    those that are not committed yet, and `progress` is what they have led to."""

    def __init__(
        self, program: PipelineSpec, names: Names, progress: PipelineProgress, ports: PipelinePorts
    ) -> None:
        self.program = program
        self.progress = progress
        self.ports = ports
        self.caller = TaskCaller(program, outer_scope(program, names), ports)
        self.drafts: tuple[Draft, ...] = ()

    @property
    def task(self) -> Task:
        """The task that is due."""
        return self.program.tasks[self.progress.pc]

    def take_drafts(self) -> tuple[Draft, ...]:
        """The drafts, which are committed now."""
        drafts, self.drafts = self.drafts, ()
        return drafts

    def enter(self) -> bool:
        """Goes to the next call, and records what guards and the beginnings of loops say on the way
        there; False where the pipeline ends before. They are committed with what follows from the
        call: they are asked again where that got lost, and say the same."""
        while self.progress.ending is None:
            task = self.task
            if isinstance(task.after, str) and not self.progress.entered:
                self._record([self._ask_guard(task)], task, part="/after")
            elif task.loop is not None and self.progress.items is None:
                self._begin_loop(task, task.loop)
            else:
                return True
        return False

    def _ask_guard(self, task: Task) -> PolicyEvaluated | TaskFailed:
        try:
            return ask_guard(task, self._sight_before(task, self.progress), self.ports.load)
        except NoetlError as broken:
            error = describe_failure(broken, f"The `after` of task '{task.name}'")
            error = self.caller.locate(error, task, self.progress)
            return TaskFailed(task.name, error, fatal=True, after=True)

    def _sight_before(self, task: Task, progress: PipelineProgress) -> TemplateScope:
        around = self.caller.around
        return before(around, progress, task, around.names.args)

    def _begin_loop(self, task: Task, loop: Loop) -> None:
        """The beginning of a task with a loop; its end as well, where there is nothing to loop
        over."""
        around = self.caller.around
        try:
            with blame(f"The inputs of task '{task.name}'"):
                args = {**around.names.args, **self.caller.each_inputs(self.progress)}
            fact = items.begin(task, loop, before(around, self.progress, task, args), self.ports.load)
        except CannotGoOn as fault:
            self._close(task, failed(fault.error))
            return
        self._record([fact], task)
        if not fact.count:
            self._close_loop(task, loop)

    def record_checkpoint(self, later: Later, since: str | None) -> None:
        """Records nothing where the tool only wants to be asked again, and the log knows `since`
        when it was asked."""
        progress = self.progress
        since = None if progress.since else since
        if since is None and later.checkpoint == open_references(progress.checkpoint, self.ports.load):
            return
        fact = TaskCheckpointed(self.task.name, later.checkpoint, since)
        self._record([fact], self.task, part=f"/{progress.checkpoints}")

    def record_attempt(self, attempt: Attempt) -> None:
        """Records the end of an attempt, and what follows from it."""
        task, called, progress = self.task, self.caller.prepare(self.progress.pc).task, self.progress
        verdict = self._judge(called, attempt)
        # That of a task with a loop, or that repeats, is about the whole.
        own = progress.items is None and task.repeat is None
        verdict, changes = self._assign(called, attempt, verdict, own=own)
        fact: TaskCallDone | TaskCallFailed | None = None
        if task.repeat is not None and verdict.do == "continue":
            try:
                fact = self._end_call(called, task.repeat, attempt, changes)
            except CannotGoOn as fault:
                verdict, changes = verdict.failing(fault.error), Changes(self.program, self.ports)
        if verdict.error is not None:
            verdict = replace(verdict, error=self.caller.locate(verdict.error, called, progress))
        self._settle_cache(attempt, verdict)
        outcome = with_warnings(attempt.outcome, changes.warnings)
        if task.loop is not None:
            self._end_item(task, task.loop, outcome, verdict, changes)
        elif fact is not None:
            self._record_end(
                task, replace(fact, task=task.name, meta=outcome.meta), verdict, changes, outcome
            )
        else:
            end = end_of(task, outcome, verdict, attempt.call, attempt.key)
            self._record_end(task, end, verdict, changes, outcome)
        if task.repeat is not None or task.each_of:
            self._close_repeat()

    def _settle_cache(self, attempt: Attempt, verdict: Verdict) -> None:
        """Only what the pipeline goes on with stands in for other calls."""
        if attempt.cached is not None and self.ports.cache is not None and verdict.do != "retry":
            went_well = attempt.outcome.ok and verdict.do != "fail"
            self.ports.cache.settle(attempt.cached, attempt.outcome if went_well else None)

    def _end_call(
        self, task: Task, repeat: Repeat, attempt: Attempt, changes: Changes
    ) -> TaskCallDone | TaskCallFailed:
        """The end of a call, which sees what its rule has assigned. Raises CannotGoOn where what
        follows cannot be told."""
        outcome, calls = attempt.outcome, self.progress.calls or Calls()
        if outcome.error is not None:
            return TaskCallFailed(task.name, calls.count + 1, outcome.error, outcome.meta, outcome.extras)
        with blame(f"The `{repeat.key}` of task '{task.name}'"):
            sight = self._sight_after(changes, task, attempt)
            answer = repeating.CallAnswer(
                open_references(outcome.result, self.ports.load),
                attempt.request,
                in_policy(sight, outcome),
                in_set(sight, outcome),
                self.ports.load,
                changes.warnings,
            )
            return repeating.call_end(task, repeat, calls, answer, outcome)

    def _close_repeat(self) -> None:
        """The end of a task whose last call has ended."""
        task, calls = None if self.progress.ending else self.task, self.progress.calls
        if task is not None and task.repeat is not None and calls is not None and calls.over:
            outcome, data = repeating.whole(task, task.repeat, calls, self.ports.load)
            self._close(task, outcome, data)

    def _end_item(self, task: Task, loop: Loop, outcome: Outcome, verdict: Verdict, changes: Changes) -> None:
        """What an attempt of an item leaves, and the end of its task behind the last one. What it
        assigned comes first: with its end the scope of the next item begins. A jump comes last: it
        leaves the loop."""
        progress = self.progress
        assert progress.items is not None, "the loop has begun"
        if verdict.do == "retry":
            self._record_end(task, end_of(task, outcome, verdict), verdict, changes, outcome)
            return
        decision, jumps = verdict.decisions(task.name), verdict.do == "jump"
        ended = items.item_end(task, progress.items.index, outcome, verdict)
        self._record(changes.facts(task.name), task)
        self._record([ended, *([] if jumps else decision)], task, outcome)
        if self.progress.items is None or not items.is_over(loop, self.progress.items, verdict):
            return
        self._close_loop(task, loop)
        if jumps and not isinstance(self.progress.ending, Failed):
            self._record(decision, task, at=progress)

    def _close_loop(self, task: Task, loop: Loop) -> None:
        """The end of a task whose items have ended."""
        assert self.progress.items is not None, "the loop has begun"
        self._close(task, items.whole(loop, self.progress.items))

    def _close(self, task: Task, outcome: Outcome, data: Json = None) -> None:
        """The end of a task with a loop, or that repeats, and what its `set` assigns; `data` is
        what that collected."""
        progress = replace(self.progress, items=None)
        outcome = self.ports.kept(outcome, task)
        attempt = Attempt(outcome, self._sight_before(task, progress), self.caller.around.names.args)
        verdict = Verdict("continue") if outcome.ok else Verdict("fail", error=outcome.error)
        verdict, changes = self._assign(task, attempt, verdict, own=True, data=data)
        if verdict.error is not None and verdict.error.task is None:
            verdict = replace(verdict, error=self.caller.locate(verdict.error, task, progress))
        outcome = with_warnings(outcome, changes.warnings)
        part = "/whole" if task.repeat is not None else ""
        self._record_end(task, end_of(task, outcome, verdict), verdict, changes, None, part, progress)

    def _judge(self, task: Task, attempt: Attempt) -> Verdict:
        outcome = attempt.outcome
        sight = in_policy(attempt.sight, outcome) if task.rules else attempt.sight
        progress = self.progress
        alike = 1 + (progress.repeats if outcome.ok else progress.failures)
        case = Case(task, outcome, sight, progress.attempt, alike, self.ports.load, self.ports.random)
        verdict = judge(case)
        if verdict.do != "jump":
            return verdict
        return check_jump(verdict, task, {one.name for one in self.program.tasks}, progress.ends)

    def _assign(
        self, task: Task, attempt: Attempt, verdict: Verdict, *, own: bool, data: Json = None
    ) -> tuple[Verdict, Changes]:
        """The verdict after `set` of the rule and then of the task. A `set` that fails, fails the
        task.

        A task's own `set` reads its raw result, so it applies where the task ended well: not after
        a failure (it would overwrite variables with null), nor before another attempt.
        """
        changes = Changes(self.program, self.ports)
        try:
            if verdict.set:
                with blame(rule_of(task, verdict.rule or 0)):
                    sight = in_policy(attempt.sight, attempt.outcome)
                    changes.apply(verdict.set, sight, f"policy.rules[{verdict.rule}].set")
            if own and attempt.outcome.ok and verdict.do not in ("retry", "fail"):
                with blame(f"The `set` of task '{task.name}'"):
                    self._assign_own(task, attempt, changes, data)
        except CannotGoOn as fault:
            # What failed first is what people need to know.
            return verdict.failing(verdict.error or fault.error), Changes(self.program, self.ports)
        return verdict, changes

    def _assign_own(self, task: Task, attempt: Attempt, changes: Changes, data: Json) -> None:
        if task.older is not None:
            self._assign_older(task, task.older, attempt, changes)
            return
        into = task.repeat.into if task.repeat is not None else None
        if not (task.set or into):
            return
        sight = in_set(self._sight_after(changes, task, attempt), attempt.outcome)
        if into is not None:
            changes.keep(into, data, sight)
        changes.apply(task.set, sight)

    def _assign_older(self, task: Task, said: OlderRepeat, attempt: Attempt, changes: Changes) -> None:
        sight = in_set(self._sight_after(changes, task, attempt), attempt.outcome)
        older.assign(changes, task.set, said, sight)
        if said.then:
            sight = in_policy(self._sight_after(changes, task, attempt), attempt.outcome)
            older.assign(changes, older.then(said, sight, self.ports), said, sight)

    def _sight_after(self, changes: Changes, task: Task, attempt: Attempt) -> TemplateScope:
        """What the attempt saw, and what its rule has assigned since."""
        facts = changes.facts(task.name)
        if not facts:
            return attempt.sight
        return self.caller.sight(self._fold(Draft(fact) for fact in facts), task, attempt.args)

    def _fold(self, drafts: Iterable[Draft]) -> PipelineProgress:
        return reduce(lambda seen, draft: evolve(self.program, seen, draft), drafts, self.progress)

    def _record_end(
        self,
        task: Task,
        end: Fact | None,
        verdict: Verdict,
        changes: Changes,
        outcome: Outcome | None,
        part: str = "",
        at: PipelineProgress | None = None,
    ) -> None:
        ends: list[Fact] = [] if end is None else [end]
        facts = [*ends, *verdict.decisions(task.name), *changes.facts(task.name)]
        self._record(facts, task, outcome, part, at)

    def _record(
        self,
        facts: Sequence[Fact],
        task: Task,
        outcome: Outcome | None = None,
        part: str = "",
        at: PipelineProgress | None = None,
    ) -> None:
        """Adds drafts of `facts`, whose keys name the place `at` which the pipeline had come."""
        at, where = at or self.progress, self.program.where
        iteration = "-" if where.iteration is None else where.iteration
        visit = at.visits.get(task.name, 0) + 1
        item = "" if at.items is None else f".{at.items.index}"
        item += "" if at.calls is None or task.repeat is None else f".{at.calls.count}"
        place = f"{where.run_id}/{iteration}/{task.name}/{visit}{item}/{at.attempt}/"
        took = outcome.meta.get("duration_ms") if outcome else None
        drafts = tuple(
            Draft(
                fact,
                source="worker",
                step=where.step,
                run_id=where.run_id,
                iteration=where.iteration,
                attempt=at.attempt,
                duration_ms=took if number == 0 else None,
                dedup_key=place + fact.type + part,
            )
            for number, fact in enumerate(facts)
        )
        self.drafts, self.progress = (*self.drafts, *drafts), self._fold(drafts)
