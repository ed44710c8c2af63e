"""One attempt of one task: renders its templates, opens its references, and calls its tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl.errors import NoetlError
from noetl.expressions.scope import layer_names, value_of
from noetl.facts.brief import brief
from noetl.facts.events import TaskKeyKept
from noetl.facts.fingerprint import fingerprint
from noetl.facts.ids import idempotency_key
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.facts.reference import holds_reference, load_value, open_references
from noetl.facts.secret import SealedNames
from noetl.facts.warnings import Warned
from noetl.net.deferred import without_guards
from noetl.net.model import Repeat, Task
from noetl.pipeline import older
from noetl.pipeline.caching import identify
from noetl.pipeline.deadline import CallDeadline, bound_wait, deadline_of
from noetl.pipeline.deferring import with_guards
from noetl.pipeline.demands import check_inputs, check_outcome
from noetl.pipeline.failures import CannotGoOn, blame, line_in_file, locate
from noetl.pipeline.model import (
    CachedCall,
    Call,
    Later,
    PipelinePorts,
    PipelineProgress,
    PipelineSpec,
    Suspension,
    Where,
)
from noetl.pipeline.names import OuterScope, TemplateScope, before, scope_of
from noetl.pipeline.repeating import changed_inputs, changed_keys, first_page, inputs_of_each
from noetl.pipeline.templates import Prepared, prepare_task, render


@dataclass(slots=True)
class Attempt:
    """What an attempt saw and what followed from it. `sight` has the task's own args in the place
    of the step's, as they are in the log: references among them are opened by who looks into them.
    Where the task waits there is `suspension`, and the outcome means nothing yet; `deadline_s` is
    that of the call, and `since` when the attempt was first called, where it has a deadline.
    `request` is that of the call of a task that repeats."""

    outcome: Outcome
    sight: TemplateScope
    args: JsonMap
    suspension: Suspension | None = None
    deadline_s: float | None = None
    since: str | None = None
    request: JsonMap = field(default_factory=dict)
    warnings: list[Warned] = field(default_factory=list)
    #: Digest of the call and the key of its effect, where it was made.
    call: str = ""
    key: str = ""
    #: What the cache knows it by, where it was made and may stand in for others.
    cached: CachedCall | None = None


_PENDING: Final = Outcome("ok")
#: In `Task.by_reference`: the args.
EVERY_INPUT: Final = "*"


@dataclass(slots=True)
class TaskCaller:
    """Makes the calls of one pipeline."""

    program: PipelineSpec
    around: OuterScope
    ports: PipelinePorts
    _prepared: dict[int, Prepared] = field(default_factory=dict)
    #: The step's inputs without references, by name: opened once for the whole pipeline.
    _inputs: dict[str, Json] = field(default_factory=dict)
    #: The collection of a task's own loop as it is recorded, and as it was loaded.
    _items: tuple[Json, Sequence[Json]] = (None, ())

    def attempt(self, progress: PipelineProgress) -> Attempt:
        """Runs the task that is due, once. Whatever goes wrong on the way is an error outcome."""
        ready, attempt = self._begin(progress)
        task = ready.task
        try:
            self._enter(attempt, ready, progress)
            attempt.request = self._request(attempt, ready, progress)
            if progress.answer is None:
                self._call(attempt, ready, progress)
        except CannotGoOn as fault:
            attempt.outcome = failed(fault.error)
        # What a called playbook has come to is a fact, whatever its input is made of by now.
        outcome = progress.answer or attempt.outcome
        if attempt.suspension is None:
            outcome = check_outcome(task, self.program.where.step, outcome, self.ports.load)
        outcome = self.ports.kept(outcome, task)
        error = outcome.error if outcome.error is None else self.locate(outcome.error, task, progress)
        outcome = replace(outcome, error=error, meta={**outcome.meta, "attempt": progress.attempt})
        attempt.outcome = with_warnings(outcome, attempt.warnings)
        return attempt

    def inputs(self, progress: PipelineProgress) -> JsonMap:
        """What the task that is due is handed, which is not called. Raises CannotGoOn."""
        ready, attempt = self._begin(progress)
        self._enter(attempt, ready, progress)
        return attempt.args

    def _begin(self, progress: PipelineProgress) -> tuple[Prepared, Attempt]:
        ready, args = self.prepare(progress.pc), self.around.names.args
        return ready, Attempt(_PENDING, before(self.around, progress, ready.task, args), args)

    def sight(self, progress: PipelineProgress, task: Task, args: JsonMap) -> TemplateScope:
        """The names at an attempt of `task`. Raises what `load` raises for the items of its
        loop."""
        return before(self.around, progress, task, args, self.item(progress, task))

    def item(self, progress: PipelineProgress, task: Task) -> JsonMap | None:
        """The scope of the item that the task's own loop has come to. Raises what `load` raises."""
        items, loop = progress.items, task.loop
        if items is None or loop is None or items.index >= items.count:
            return None
        if self._items[0] is not items.items:
            self._items = items.items, load_value(items.items, self.ports.load)
        return scope_of(self.around, progress, loop, self._items[1][items.index])

    def locate(self, error: ErrorInfo, task: Task, progress: PipelineProgress) -> ErrorInfo:
        """`error` with its place in the playbook, and the item that was at work."""
        return locate(error, self.program.where, task, progress.attempt, self._item_text(task, progress))

    def _item_text(self, task: Task, progress: PipelineProgress) -> str | None:
        try:
            if task.loop is not None and (own := self.item(progress, task)) is not None:
                return brief(own[task.loop.iterator])
        except NoetlError:
            # The items cannot be loaded, which is what the error says.
            return None
        iteration, name = self.around.names.iter, self.program.iterator
        return brief(iteration[name]) if iteration is not None and name in iteration else None

    def _enter(self, attempt: Attempt, ready: Prepared, progress: PipelineProgress) -> None:
        """What the task sees, its inputs with it, and those of them that earlier calls have come
        to. Raises CannotGoOn."""
        task, given, outside = ready.task, ready.given, attempt.sight
        what = "items" if task.loop is not None else "inputs"
        with blame(f"The {what} of task '{task.name}'", task.line or None):
            item = self.item(progress, task)
            handed, calls, reached = self.each_inputs(progress), progress.calls, dict[str, Json]()
            if task.repeat is not None and calls is not None:
                # What earlier calls have come to.
                reached = open_references(calls.request.get("args", {}), self.ports.load)
        if item is not None:
            attempt.sight = before(self.around, progress, task, attempt.args, item)
        if given is not None:
            own = render(ready, given.templates, outside, attempt.warnings, self.ports.load, "input")
            attempt.args = {**attempt.args, **given.args, **own}
        if given is not None or handed:
            attempt.args = {**attempt.args, **handed}
            attempt.sight = before(self.around, progress, task, attempt.args, item)
        for stage in ready.stages:
            templates = {name: one for name, one in stage.templates.items() if name not in reached}
            own = render(ready, templates, attempt.sight, attempt.warnings, self.ports.load, "input")
            kept = {name: reached[name] for name in stage.args if name in reached}
            attempt.args = {**attempt.args, **stage.args, **own, **kept}
            attempt.sight = before(self.around, progress, task, attempt.args, item)

    def each_inputs(self, progress: PipelineProgress) -> JsonMap:
        """The inputs of a task that runs after every call of another one. Raises what `load`
        raises."""
        owner = self.program.owner(progress.pc)
        if owner is None or progress.calls is None:
            return {}
        return inputs_of_each(self.program.tasks[owner], progress.calls, self.ports.load)

    def _request(self, attempt: Attempt, ready: Prepared, progress: PipelineProgress) -> JsonMap:
        """In what the request of the call differs from what the task says: keys of the tool, and
        `args`. Raises CannotGoOn."""
        task, load = ready.task, self.ports.load
        if task.older is None and task.repeat is None:
            return {}
        with blame(f"The request of task '{task.name}'", task.line or None):
            if task.older is not None:
                return older.request(task.older, attempt.sight, self.ports)
            assert task.repeat is not None
            if progress.calls is not None:
                request: JsonMap = open_references(progress.calls.request, load)
                return request
            if task.repeat.pages is not None:
                return first_page(task.repeat.pages, attempt.sight, load)
        return self._first_request(attempt, ready, task.repeat)

    def _first_request(self, attempt: Attempt, ready: Prepared, repeat: Repeat) -> JsonMap:
        """What of the first request later ones build upon: they say what differs, and the rest
        stays."""
        task, keys = ready.task, changed_keys(repeat)
        templates = {key: ready.config[key] for key in keys if key in ready.config}
        rendered = render(ready, templates, attempt.sight, attempt.warnings, self.ports.load)
        written = {key: task.config[key] for key in keys if key in task.config}
        inputs = {name: attempt.args[name] for name in sorted(changed_inputs(repeat) & task.args.keys())}
        return {**written, **rendered, **({"args": inputs} if inputs else {})}

    def prepare(self, pc: int) -> Prepared:
        """The task at `pc`, under the name that its calls have in messages."""
        if pc not in self._prepared:
            self._prepared[pc] = prepare_task(self.program.tasks[pc], self.ports.quoting)
        return self._prepared[pc]

    def _open_inputs(self, task: Task, args: JsonMap) -> JsonMap:
        """The args as the tool is handed them. What its code cannot read is left out rather than
        fetched. Raises CannotGoOn."""
        if task.reads is not None:
            args = {k: v for k, v in args.items() if k in task.reads or not holds_reference(v)}
        if EVERY_INPUT in task.by_reference:
            return args
        found: dict[str, Json] = {}
        for name, value in args.items():
            place, line = f"The '{name}' of task '{task.name}'", task.lines.get(f"input.{name}")
            if name not in task.args:
                place, line = f"The input of step '{self.program.where.step}'", None
            with blame(place, line):
                found[name] = self._open_input(name, value)
        return found

    def _open_input(self, name: str, value: Json) -> Json:
        if value is not self.around.names.args.get(name):
            return open_references(value, self.ports.load)
        if name not in self._inputs:
            self._inputs[name] = open_references(value, self.ports.load)
        return self._inputs[name]

    def _call(self, attempt: Attempt, ready: Prepared, progress: PipelineProgress) -> None:
        """Calls the tool. Raises CannotGoOn where it is not called, or asks for what cannot be."""
        task, request = ready.task, attempt.request
        if request.get("args"):
            attempt.args = deep_merge(attempt.args, request["args"])
            attempt.sight = self.sight(progress, task, attempt.args)
        check_inputs(task, self.program.where.step, attempt.args, self.ports.load)
        deadline = deadline_of(task, attempt.sight, progress.since, self.ports)
        call = self._make_call(attempt, ready, progress, deadline)
        attempt.key = call.idempotency_key
        attempt.deadline_s, attempt.since = call.deadline_s, deadline.since
        came = self._look_up(attempt, ready, call, progress) or self.ports.tool.run(call)
        if isinstance(came, Outcome):
            attempt.outcome = came
            if (error := came.error) is not None:
                error = replace(error, line=line_in_file(task, error.line))
                attempt.outcome = replace(came, error=error)
        else:
            attempt.suspension = bound_wait(task, came, deadline) if isinstance(came, Later) else came

    def _look_up(
        self, attempt: Attempt, ready: Prepared, call: Call, progress: PipelineProgress
    ) -> Outcome | Later | None:
        """What an equal call has come to, or a wait for one; None where the call is to be made.
        Raises CannotGoOn."""
        cache, port = ready.task.cache, self.ports.cache
        if cache is None or port is None:
            return None
        found = identify(ready, cache, call, attempt.call, attempt.sight, attempt.warnings, self.ports.load)
        # What the tool has begun elsewhere it goes on with.
        came = port.find(found) if found is not None and progress.checkpoint is None else None
        attempt.cached = found if came is None else None
        return came

    def _make_call(
        self, attempt: Attempt, ready: Prepared, progress: PipelineProgress, deadline: CallDeadline
    ) -> Call:
        task, due, where = ready.task, self.program.tasks[progress.pc], self.program.where
        # What later requests change was rendered for the first one.
        known = changed_keys(task.repeat) if task.repeat is not None else ()
        config = {key: value for key, value in task.config.items() if key not in known}
        templates = {key: value for key, value in ready.config.items() if key not in known}
        config |= render(ready, templates, attempt.sight, attempt.warnings, self.ports.load)
        config |= self._close_guards(attempt, ready, config)
        over = {key: value for key, value in attempt.request.items() if key != "args"}
        inputs = self._open_inputs(task, attempt.args)
        with blame(f"The checkpoint of task '{task.name}'"):
            checkpoint = open_references(progress.checkpoint, self.ports.load)
        config = deep_merge(config, over)
        attempt.call = call_digest(task, config, attempt.args, where)
        return Call(
            kind=task.kind,
            config=config,
            args=inputs,
            spec=task.spec,
            where=where,
            task=due.name,
            attempt=progress.attempt,
            idempotency_key=self._key(occasion(due, progress), progress.kept_key, attempt.call),
            deadline_s=deadline.timeout if progress.since is None else deadline.left(),
            context=self._context(attempt.sight) if task.wants_context else None,
            # A copy: one that the tool changes and hands back must differ from what is in the log.
            checkpoint=deepcopy(checkpoint),
            secrets=progress.secrets,
            result=task.result,
            log=self.ports.log,
        )

    def _close_guards(self, attempt: Attempt, ready: Prepared, config: JsonMap) -> JsonMap:
        """The keys in which guards stand that are asked later, with what those see of the names of
        the call."""
        keys = ready.task.deferred
        if not ready.guarded:
            return {}
        rendered = {key: config[key] for key in ready.guarded if key in ready.config}
        bare = {**without_guards(ready.guarded, keys), **rendered}
        closed: JsonMap = with_guards(ready.guarded, bare, keys, attempt.sight)
        return closed

    def _key(self, occasion: str, kept: TaskKeyKept | None, call: str) -> str:
        """The key of the call's effect: that of the same call of the execution that is run again,
        where nobody knows whether it had one."""
        where = self.program.where
        if kept is None or kept.call not in ("", call):
            return idempotency_key(where.execution_id, where.run_id, where.iteration, occasion, where.claim)
        return kept.key or idempotency_key(kept.execution_id, kept.of_run, kept.of_iteration, occasion)

    def _context(self, sight: TemplateScope) -> Callable[[], Mapping[str, Any]]:
        everything, load = self.ports.context, self.ports.load

        def context() -> Mapping[str, Any]:
            names = sight if everything is None else layer_names(sight, everything())
            # To code, results are what templates see: values, not references to them.
            # Secrets get to code only as inputs.
            return {
                name: open_references(value_of(names[name]), load)
                for name in names
                if not isinstance(names[name], SealedNames)
            }

        return context


def call_digest(task: Task, config: JsonMap, args: JsonMap, where: Where) -> str:
    """What tells a call from others: its kind, its rendered configuration, and its inputs as they
    are in the log."""
    if task.reads is not None:
        args = {name: value for name, value in args.items() if name in task.reads}
    return fingerprint([task.kind, config, args], where.execution_id, short=0)


def with_warnings(outcome: Outcome, warnings: list[Warned]) -> Outcome:
    """`outcome` with `warnings` behind those that its `meta` has already."""
    if not warnings:
        return outcome
    return replace(outcome, meta={**outcome.meta, "warnings": [*outcome.meta.get("warnings", ()), *warnings]})


def occasion(task: Task, progress: PipelineProgress) -> str:
    """Names the call whose effect is to happen once: retries after errors share it, while a task
    that a jump returned to, or that is asked again after a success, is meant to act again."""
    name, visit = task.name, progress.visits.get(task.name, 0)
    if progress.items is not None:
        name = f"{name}[{progress.items.index}]"
    if task.repeat is not None:
        name = f"{name}.{task.repeat.call}" + (f"[{visit}]" if visit else "")
        visit = progress.calls.count if progress.calls is not None else 0
    return f"{name}#{visit}.{progress.repeats}" if visit or progress.repeats else name
