"""One attempt of one task: its templates rendered, its references opened, its outcome put in
place."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl.errors import BadRequest, NoetlError
from noetl.expressions import BeginQuoting, QuotedText, evaluate, evaluate_at
from noetl.expressions.results import value_of
from noetl.expressions.scope import layered
from noetl.facts.brief import brief
from noetl.facts.durations import seconds
from noetl.facts.ids import idempotency_key
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.facts.reference import Load, holds_reference, loaded, opened
from noetl.facts.warnings import Warned
from noetl.net.model import Repeat, Task, Template
from noetl.pipeline import older
from noetl.pipeline.deadline import Deadline, begun
from noetl.pipeline.demands import kept_promise, missing_input
from noetl.pipeline.failures import described, line_in_file, placed
from noetl.pipeline.model import Call, Later, PipelinePorts, Program, Progress, Suspension
from noetl.pipeline.names import OuterScope, TemplateScope, before, scope_of
from noetl.pipeline.repeating import changed_inputs, changed_keys, first_page, inputs_of_each


@dataclass(frozen=True, slots=True)
class Stage:
    """Inputs that are rendered at once, and those of them that hold templates."""

    args: JsonMap
    templates: Mapping[str, Template]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task, and those of its values that hold templates: found once, rendered at every attempt.
    `whole` are the keys of its configuration that are handed over without references."""

    task: Task
    config: Mapping[str, Template]
    #: The inputs over those of the step, which the task's own ones see.
    given: Stage | None
    stages: tuple[Stage, ...]
    whole: frozenset[str]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt saw and what came of it. `sight` has the task's own args in the place of the
    step's, as they are in the log: references among them are opened by who looks into them. Where
    the task waits there is `suspension`, and the outcome means nothing yet; `deadline_s` is that of
    the call, and `since` when the attempt was first called, where it has a deadline. `request` is
    that of the call of a task that repeats."""

    outcome: Outcome
    sight: TemplateScope
    args: JsonMap
    suspension: Suspension | None = None
    deadline_s: float | None = None
    since: str | None = None
    request: JsonMap = field(default_factory=dict)


_PENDING: Final = Outcome("ok")
#: In `Task.by_reference`: the args.
EVERY_INPUT: Final = "*"
#: A hundred years: what is due later than that cannot be written as an instant.
LONGEST_WAIT_S: Final = 3.2e9


@dataclass(slots=True)
class Caller:
    """Makes the calls of one pipeline."""

    program: Program
    around: OuterScope
    hands: PipelinePorts
    _prepared: dict[int, Prepared] = field(default_factory=dict)
    #: The step's inputs without references, by name: opened once for the whole pipeline.
    _inputs: dict[str, Json] = field(default_factory=dict)
    #: The collection of a task's own loop as it is recorded, and as it was loaded.
    _items: tuple[Json, Sequence[Json]] = (None, ())

    def attempt(self, progress: Progress) -> Attempt:
        """Runs the task that is due, once. Whatever goes wrong on the way is an error outcome."""
        prepared, warnings = self._task(progress.pc), list[Warned]()
        tried = self._tried(prepared, progress, warnings)
        outcome = tried.outcome
        if tried.suspension is None:
            outcome = kept_promise(prepared.task, self.program.where.step, outcome, self.hands.load)
        outcome = self.hands.kept(outcome, prepared.task)
        return replace(tried, outcome=self._stamped(outcome, prepared.task, progress, warnings))

    def sight(self, progress: Progress, task: Task, args: JsonMap) -> TemplateScope:
        """The names at an attempt of `task`. Raises what `load` raises for the items of its
        loop."""
        return before(self.around, progress, task, args, self.item(progress, task))

    def item(self, progress: Progress, task: Task) -> JsonMap | None:
        """The scope of the item that the task's own loop has come to. Raises what `load` raises."""
        items, loop = progress.items, task.loop
        if items is None or loop is None or items.index >= items.count:
            return None
        if self._items[0] is not items.items:
            self._items = items.items, loaded(items.items, self.hands.load)
        return scope_of(self.around, progress, loop, self._items[1][items.index])

    def placed(self, error: ErrorInfo, task: Task, progress: Progress) -> ErrorInfo:
        """`error` with its place in the playbook, and the item that was at work."""
        return placed(error, self.program.where, task, progress.attempt, self._item_text(task, progress))

    def _item_text(self, task: Task, progress: Progress) -> str | None:
        try:
            if task.loop is not None and (own := self.item(progress, task)) is not None:
                return brief(own[task.loop.iterator])
        except NoetlError:
            # The items cannot be loaded, which is what the error says.
            return None
        iteration, name = self.around.names.iter, self.program.iterator
        return brief(iteration[name]) if iteration is not None and name in iteration else None

    def _tried(self, prepared: Prepared, progress: Progress, warnings: list[Warned]) -> Attempt:
        task = prepared.task
        sight, args, broken = self._entered(prepared, progress, warnings)
        if broken is not None:
            # What a called playbook has come to is a fact, whatever its input is made of by now.
            return Attempt(progress.answer or failed(broken), sight, args)
        request = self._request(prepared, progress, args, sight, warnings)
        if progress.answer is not None:
            known = {} if isinstance(request, ErrorInfo) else request
            return Attempt(progress.answer, sight, args, request=known)
        if isinstance(request, ErrorInfo):
            return Attempt(failed(request), sight, args)
        if request.get("args"):
            args = deep_merge(args, request["args"])
            sight = self.sight(progress, task, args)
        if (fault := missing_input(task, self.program.where.step, args, self.hands.load)) is not None:
            return Attempt(failed(fault), sight, args)
        time = self._time(task, sight, progress)
        if isinstance(time, ErrorInfo):
            return Attempt(failed(time), sight, args)
        deadline = time.timeout if progress.since is None else time.left()
        call = self._call(prepared, progress, args, request, sight, warnings, deadline)
        if isinstance(call, ErrorInfo):
            return Attempt(failed(call), sight, args)
        came = self._ran(task, call)
        if isinstance(came, Later):
            came = _bounded(task, came, time)
        if isinstance(came, Outcome):
            return Attempt(came, sight, args, request=request)
        return Attempt(_PENDING, sight, args, came, call.deadline_s, time.since)

    def _entered(
        self, prepared: Prepared, progress: Progress, warnings: list[Warned]
    ) -> tuple[TemplateScope, JsonMap, ErrorInfo | None]:
        """What the task sees, its inputs with it, and those of them that earlier calls have come
        to; or why not."""
        task, args = prepared.task, self.around.names.args
        try:
            sight = self.sight(progress, task, args)
            handed, reached = self.handed(progress), self._reached(task, progress)
        except NoetlError as error:
            what = "items" if task.loop is not None else "inputs"
            info = described(error, f"The {what} of task '{task.name}'", task.line or None)
            return before(self.around, progress, task, args), args, info
        if prepared.given is not None:
            seen = before(self.around, progress, task, args) if task.loop is not None else sight
            own = self._rendered(task, prepared.given.templates, (), seen, warnings, "input")
            if isinstance(own, ErrorInfo):
                return sight, args, own
            args = {**args, **prepared.given.args, **own}
        if prepared.given is not None or handed:
            args = {**args, **handed}
            sight = self.sight(progress, task, args)
        for stage in prepared.stages:
            templates = {name: one for name, one in stage.templates.items() if name not in reached}
            own = self._rendered(task, templates, (), sight, warnings, "input")
            if isinstance(own, ErrorInfo):
                return sight, args, own
            kept = {name: reached[name] for name in stage.args if name in reached}
            args = {**args, **stage.args, **own, **kept}
            sight = self.sight(progress, task, args)
        return sight, args, None

    def _reached(self, task: Task, progress: Progress) -> JsonMap:
        """The inputs that earlier calls of a task that repeats have come to."""
        if task.repeat is None or progress.calls is None:
            return {}
        found: JsonMap = opened(progress.calls.request.get("args", {}), self.hands.load)
        return found

    def handed(self, progress: Progress) -> JsonMap:
        """The inputs of a task that runs after every call of another one. Raises what `load`
        raises."""
        owner = self.program.owner(progress.pc)
        if owner is None or progress.calls is None:
            return {}
        return inputs_of_each(self.program.tasks[owner], progress.calls, self.hands.load)

    def _request(
        self,
        prepared: Prepared,
        progress: Progress,
        args: JsonMap,
        sight: TemplateScope,
        warnings: list[Warned],
    ) -> JsonMap | ErrorInfo:
        """In what the request of the call differs from what the task says: keys of the tool, and
        `args`."""
        task = prepared.task
        try:
            if task.older is not None:
                return older.request(task.older, sight, self.hands)
            if task.repeat is None:
                return {}
            if progress.calls is not None:
                request: JsonMap = opened(progress.calls.request, self.hands.load)
                return request
            if task.repeat.pages is not None:
                return first_page(task.repeat.pages, sight, self.hands.load)
        except NoetlError as error:
            return described(error, f"The request of task '{task.name}'", task.line or None)
        return self._first_request(prepared, task.repeat, args, sight, warnings)

    def _first_request(
        self, prepared: Prepared, repeat: Repeat, args: JsonMap, sight: TemplateScope, warnings: list[Warned]
    ) -> JsonMap | ErrorInfo:
        """What of the first request later ones build upon: they are told what differs, and the rest
        stays."""
        task, keys = prepared.task, changed_keys(repeat)
        templates = {key: prepared.config[key] for key in keys if key in prepared.config}
        rendered = self._rendered(task, templates, prepared.whole, sight, warnings)
        if isinstance(rendered, ErrorInfo):
            return rendered
        written = {key: task.config[key] for key in keys if key in task.config}
        inputs = {name: args[name] for name in sorted(changed_inputs(repeat) & task.args.keys())}
        return {**written, **rendered, **({"args": inputs} if inputs else {})}

    def _task(self, pc: int) -> Prepared:
        if pc not in self._prepared:
            self._prepared[pc] = prepared(self.program.tasks[pc], self.hands.quoting)
        return self._prepared[pc]

    def called(self, progress: Progress) -> Task:
        """The task that is due, under the name that its calls have in messages."""
        return self._task(progress.pc).task

    def _inputs_of(self, task: Task, args: JsonMap) -> JsonMap | ErrorInfo:
        """The args as the tool is handed them. What its code cannot read is left out rather than
        fetched."""
        if task.reads is not None:
            args = {k: v for k, v in args.items() if k in task.reads or not holds_reference(v)}
        if EVERY_INPUT in task.by_reference:
            return args
        found: dict[str, Json] = {}
        for name, value in args.items():
            try:
                found[name] = self._input(name, value)
            except NoetlError as error:
                return self._unreadable(task, name, error)
        return found

    def _unreadable(self, task: Task, name: str, error: NoetlError) -> ErrorInfo:
        if name not in task.args:
            return described(error, f"The input of step '{self.program.where.step}'")
        return described(error, f"The '{name}' of task '{task.name}'", task.lines.get(f"input.{name}"))

    def _input(self, name: str, value: Json) -> Json:
        if value is not self.around.names.args.get(name):
            return opened(value, self.hands.load)
        if name not in self._inputs:
            self._inputs[name] = opened(value, self.hands.load)
        return self._inputs[name]

    def _rendered(
        self,
        task: Task,
        templates: Mapping[str, Template],
        whole: Container[str],
        sight: TemplateScope,
        warnings: list[Warned],
        below: str = "",
    ) -> JsonMap | ErrorInfo:
        if not templates:
            return {}
        try:
            rendered: JsonMap = evaluate_at(below, templates, sight, warnings, load=self.hands.load)
            return {k: opened(v, self.hands.load) if k in whole else v for k, v in rendered.items()}
        except NoetlError as error:
            return _culprit(task, templates, whole, sight, self.hands.load, error, below)

    def _time(self, task: Task, sight: TemplateScope, progress: Progress) -> Deadline | ErrorInfo:
        """What the attempt has, or that nothing of it is left."""
        try:
            timeout = self._timeout(task, sight)
        except NoetlError as error:
            return described(error, f"The timeout of task '{task.name}'")
        time = begun(timeout, progress.since, self.hands.now)
        if progress.since is None or time.has_some():
            return time
        message = (
            f"Task '{task.name}' did not end within its timeout of {timeout:g} s: the calls of its tool "
            "and the "
            "waits between them took longer."
        )
        return ErrorInfo("timeout", message, type="TaskTimeout", retryable=True)

    def _call(
        self,
        prepared: Prepared,
        progress: Progress,
        args: JsonMap,
        request: JsonMap,
        sight: TemplateScope,
        warnings: list[Warned],
        deadline: float | None,
    ) -> Call | ErrorInfo:
        task, due, where = prepared.task, self.program.tasks[progress.pc], self.program.where
        # What later requests change was rendered for the first one.
        known = changed_keys(task.repeat) if task.repeat is not None else ()
        templates = {key: value for key, value in prepared.config.items() if key not in known}
        config = self._rendered(task, templates, prepared.whole, sight, warnings)
        if isinstance(config, ErrorInfo):
            return config
        own = {key: value for key, value in task.config.items() if key not in known}
        over = {key: value for key, value in request.items() if key != "args"}
        inputs = self._inputs_of(task, args)
        if isinstance(inputs, ErrorInfo):
            return inputs
        try:
            checkpoint = opened(progress.checkpoint, self.hands.load)
        except NoetlError as error:
            return described(error, f"The checkpoint of task '{task.name}'")
        return Call(
            kind=task.kind,
            config=deep_merge({**own, **config}, over),
            args=inputs,
            spec=task.spec,
            where=where,
            task=due.name,
            attempt=progress.attempt,
            idempotency_key=idempotency_key(
                where.execution_id, where.run_id, where.iteration, occasion(due, progress), where.claim
            ),
            deadline_s=deadline,
            context=self._context(sight) if task.wants_context else None,
            # A copy: one that the tool changes and hands back must differ from what is in the log.
            checkpoint=deepcopy(checkpoint),
            secrets=progress.secrets,
            result=task.result,
            log=self.hands.log,
        )

    def _timeout(self, task: Task, sight: TemplateScope) -> float | None:
        if (timeout := task.spec.get("timeout")) is None:
            return None
        try:
            return seconds(evaluate(timeout, sight, load=self.hands.load))
        except ValueError as error:
            raise BadRequest(str(error)) from error

    def _context(self, sight: TemplateScope) -> Callable[[], Mapping[str, Any]]:
        everything, load = self.hands.context, self.hands.load

        def context() -> Mapping[str, Any]:
            names = sight if everything is None else layered(sight, everything())
            # To code, results are what templates see: values, not references to them.
            # Secrets get to code only as inputs.
            return {name: opened(value_of(names[name]), load) for name in names if name != "keychain"}

        return context

    def _ran(self, task: Task, call: Call) -> Outcome | Suspension:
        outcome = self.hands.tool.run(call)
        if not isinstance(outcome, Outcome) or outcome.error is None:
            return outcome
        return replace(outcome, error=replace(outcome.error, line=line_in_file(task, outcome.error.line)))

    def _stamped(self, outcome: Outcome, task: Task, progress: Progress, warnings: list[Warned]) -> Outcome:
        error = outcome.error
        if error is not None:
            error = self.placed(error, task, progress)
        meta = {**outcome.meta, "attempt": progress.attempt}
        stamped = Outcome(outcome.status, outcome.result, error, meta, outcome.extras)
        return with_warnings(stamped, warnings)


def _bounded(task: Task, later: Later, time: Deadline) -> Later | Outcome:
    """The wait that the tool asks for, at most until the time of its task is over."""
    if not 0.0 <= later.seconds <= LONGEST_WAIT_S:
        message = f"The {task.kind} tool asked to be called again in {later.seconds} seconds."
        return failed(ErrorInfo("internal", message, type="BadWait"))
    left = time.left()
    return later if left is None else replace(later, seconds=min(later.seconds, left))


def with_warnings(outcome: Outcome, warnings: list[Warned]) -> Outcome:
    """`outcome` with `warnings` behind those that its `meta` has already."""
    if not warnings:
        return outcome
    return replace(outcome, meta={**outcome.meta, "warnings": [*outcome.meta.get("warnings", ()), *warnings]})


def prepared(task: Task, quoting: BeginQuoting) -> Prepared:
    """`task` with its templates told apart from what is handed over as written. `quoting` says how
    values are written into its command lines."""
    if task.loop is not None or task.repeat is not None:
        # What `spec.result` selects is of the whole, not of each item or call.
        task = replace(task, result=replace(task.result, select=()))
    if task.repeat is not None:
        task = replace(task, name=f"{task.name}.{task.repeat.call}")
    return Prepared(
        task,
        {
            k: _quoted(v, quoting) if k in task.quoted else v
            for k, v in task.config.items()
            if k not in task.verbatim and has_template(v)
        },
        _stage(task.given) if task.given else None,
        _stages(task),
        frozenset(task.config) - frozenset(task.by_reference),
    )


def _stages(task: Task) -> tuple[Stage, ...]:
    groups = task.stages or ((tuple(task.args),) if task.args else ())
    return tuple(_stage({name: task.args[name] for name in names}) for names in groups)


def _stage(args: Mapping[str, Template]) -> Stage:
    return Stage(dict(args), {k: v for k, v in args.items() if has_template(v)})


def _quoted(value: Template, quoting: BeginQuoting) -> Template:
    """`value`, a command line or a list of them; lists inside are arguments, which no shell
    reads."""
    if isinstance(value, list | tuple):
        return [QuotedText(one, quoting) if isinstance(one, str) else one for one in value]
    return QuotedText(value, quoting) if isinstance(value, str) else value


def has_template(value: Template) -> bool:
    """Whether a brace stands anywhere in `value`; where none does, rendering yields `value`
    itself."""
    if isinstance(value, str):
        return "{" in value
    if isinstance(value, Mapping):
        return any(has_template(key) or has_template(inner) for key, inner in value.items())
    return isinstance(value, list | tuple) and any(has_template(inner) for inner in value)


def occasion(task: Task, progress: Progress) -> str:
    """Names the call whose effect is to happen once: retries after errors share it, while a task
    that a jump returned to, or that is asked again after a success, is meant to act again."""
    name, visit = task.name, progress.visits.get(task.name, 0)
    if progress.items is not None:
        name = f"{name}[{progress.items.index}]"
    if task.repeat is not None:
        name = f"{name}.{task.repeat.call}" + (f"[{visit}]" if visit else "")
        visit = progress.calls.count if progress.calls is not None else 0
    return f"{name}#{visit}.{progress.repeats}" if visit or progress.repeats else name


def _culprit(
    task: Task,
    templates: Mapping[str, Template],
    whole: Container[str],
    sight: TemplateScope,
    load: Load,
    error: NoetlError,
    below: str,
) -> ErrorInfo:
    """The error of the first value that fails by itself, at its line of the file. `below` is where
    the templates stand in the task (and its table of lines): nowhere, where they are its own
    keys."""
    for key, value in templates.items():
        try:
            found = evaluate(value, sight, load=load)
            if key in whole:
                opened(found, load)
        except NoetlError as cause:
            return described(
                cause,
                f"The '{key}' of task '{task.name}'",
                _line(task, f"{below}.{key}" if below else key, value, cause),
            )
    return described(error, f"The values of task '{task.name}'")


def _line(task: Task, key: str, value: Template, error: NoetlError) -> int | None:
    if (line := task.lines.get(key)) is None:
        return None
    inside = getattr(error, "line", None)
    return line + inside - 1 if isinstance(value, str) and inside else line
