"""The tools of a test: what stands in for each call, and the real tools where it says so."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from noetl.dsl.checks.trials import IN_CALLED
from noetl.dsl.document import StandIn, StandInError
from noetl.errors import TemplateError, ToolError
from noetl.expressions import evaluate
from noetl.facts.children import ChildCall
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo, Outcome, failed, succeeded
from noetl.facts.waits import Wait
from noetl.pipeline.model import Call, Later, Suspension, ToolPort

#: Kinds that reach nothing outside of the simulation: they run unless something stands in for them.
INSIDE: Final = frozenset({"noop", "playbook"})
#: Kinds of errors after which trying again may help.
PASSING: Final = frozenset({"connection", "timeout", "rate_limit", "server_error"})

#: What stands in for one call: as tests are written, or a function of Python.
Answer: TypeAlias = StandIn | Callable[[Call], Any]
#: One for every call; or in a loop one for each item, elsewhere one for each call. An item may have
#: a list of its own, with one for each call.
Answers: TypeAlias = Answer | Sequence[Answer | Sequence[Answer]]


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call of the playbook, whatever answered it, and the names that tests may call it by: those
    that say more first."""

    names: tuple[str, ...]
    call: Call

    def as_json(self) -> JsonMap:
        """What tests may expect of it."""
        return {"args": dict(self.call.args), "config": dict(self.call.config), "attempt": self.call.attempt}


class CallMissed(Exception):
    """Nothing stands in for a call; the message says so."""


@dataclass
class StandIns(ToolPort):
    """Answers calls by `given`, else by `real` where that reaches nothing outside. `find_path`
    yields the path of a called playbook by the id of its execution; None for the one that is
    tested.

    `calls` are all calls in their order, `faults` is what is wrong with the test itself: calls that
    nothing stands in for, and stand-ins whose templates fail."""

    given: Mapping[str, Answers]
    real: ToolPort
    find_path: Callable[[str], str | None] = lambda _: None
    #: Of the playbook that is tested: a kind that is called like one of them is that step.
    steps: Container[str] = ()
    calls: list[SeenCall] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    _taken: dict[object, int] = field(default_factory=dict)
    _items: dict[str, dict[object, int]] = field(default_factory=dict)

    def run(self, call: Call) -> Outcome | Suspension:
        names = self._names(call)
        self.calls.append(SeenCall(names, call))
        key = next((name for name in names if name in self.given), None)
        if key is None and call.kind in INSIDE:
            return self.real.run(call)
        try:
            return self._ask(self._find(names, key, call), call)
        except CallMissed as fault:
            return self._miss(str(fault))
        except TemplateError as error:
            return self._miss(f"The stand-in of {key!r}: {error.message}")

    def _miss(self, fault: str) -> Outcome:
        self.faults.append(fault)
        return failed(ErrorInfo("internal", fault, type="UnexpectedCall"))

    def interrupt(self, call: Call) -> None:
        """Ends what really runs."""
        self.real.interrupt(call)

    def _names(self, call: Call) -> tuple[str, ...]:
        path = self.find_path(call.where.execution_id)
        step = call.where.step if path is None else f"{path}{IN_CALLED}{call.where.step}"
        of_step = () if call.where.claim else (step,)
        of_kind = () if call.kind in self.steps else (call.kind,)
        return f"{step}.{call.task}", *of_step, *of_kind

    def _find(self, names: Sequence[str], key: str | None, call: Call) -> Answer:
        """Raises CallMissed."""
        if key is None:
            raise CallMissed(
                f"Nothing stands in for the {call.kind} call of {names[0]!r}: add stand_ins: "
                f"{{{names[1]}: {{result: ...}}}}, or {{{names[1]}: {{run: true}}}} to really make it."
            )
        answers = self.given[key]
        if call.where.claim:
            return self._claim(key, answers)
        if not isinstance(answers, Sequence):
            return answers
        where = call.where
        if where.iteration is None:
            return self._next(_flat(answers), key, key)
        item = self._number(key, (where.run_id, where.iteration))
        if item >= len(answers):
            raise CallMissed(_too_few(key, len(answers), f"item {item}"))
        found = answers[item]
        return (
            self._next(found, (key, item), f"{key} (item {item})") if isinstance(found, Sequence) else found
        )

    def _claim(self, key: str, answers: Answers) -> Answer:
        """What a cursor's claim finds: behind the last stand-in no rows are left."""
        try:
            return self._next(_flat(answers), key, key)
        except CallMissed:
            return StandIn(recorded={"rows": []})

    def _number(self, key: str, item: object) -> int:
        """Which item of all that met the stand-in it is, from 0."""
        items = self._items.setdefault(key, {})
        return items.setdefault(item, len(items))

    def _next(self, answers: Sequence[Answer], of: object, name: str) -> Answer:
        number = self._taken.get(of, 0)
        if number >= len(answers):
            raise CallMissed(_too_few(name, len(answers), f"call {number + 1}"))
        self._taken[of] = number + 1
        return answers[number]

    def _ask(self, answer: Answer, call: Call) -> Outcome | Suspension:
        """Raises TemplateError where the templates of the stand-in fail."""
        if not isinstance(answer, StandIn):
            return ask_function(answer, call)
        if answer.run:
            return self.real.run(call)
        extras = dict(answer.extras or {})
        if answer.error is not None:
            return failed(_error(answer.error), **extras)
        if "recorded" in answer.model_fields_set:
            return succeeded(answer.recorded, **extras)
        return succeeded(_render(answer.result, call), **extras)


def _flat(answers: Answers) -> list[Answer]:
    """One for each call."""
    items = answers if isinstance(answers, Sequence) else [answers]
    return [one for item in items for one in (item if isinstance(item, Sequence) else [item])]


def _too_few(name: str, count: int, what: str) -> str:
    return f"Nothing stands in for {what} of {name!r}: its list has {count}."


def _error(said: str | StandInError) -> ErrorInfo:
    one = StandInError(message=said) if isinstance(said, str) else said
    retryable = one.kind in PASSING if one.retryable is None else one.retryable
    return ErrorInfo(one.kind, one.message, type=one.type, retryable=retryable, status=one.status)


def _render(result: Json, call: Call) -> Json:
    where = call.where
    names = {"args": call.args, "config": call.config, "attempt": call.attempt, "iteration": where.iteration}
    return evaluate(result, names)


def ask_function(function: Callable[[Call], Any], call: Call) -> Outcome | Suspension:
    """What a function answers: a result, an outcome or a wait; what it raises of ToolError is the
    call's error."""
    try:
        result = function(call)
    except ToolError as error:
        info = ErrorInfo(error.kind, error.message, type=error.type, retryable=error.retryable)
        return failed(info)
    return result if isinstance(result, Outcome | Later | ChildCall | Wait) else succeeded(result)
