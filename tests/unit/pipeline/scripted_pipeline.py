"""A tool that does as it is told, and the shortest ways to write a pipeline down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noetl.errors import NotFound
from noetl.facts.events import Draft, Fact
from noetl.facts.outcome import ErrorInfo, Outcome, failed, succeeded
from noetl.net.model import Assignment, Directive, Rule, Task
from noetl.pipeline.interpreter import run
from noetl.pipeline.model import (
    Call,
    Ending,
    Finished,
    Move,
    Names,
    PipelinePorts,
    PipelineProgress,
    PipelineSpec,
    Recorded,
    Sleep,
    Suspend,
    Suspension,
    Where,
)

WHERE = Where("77", "load#1", "load")

Script = Callable[[Call], Outcome | Suspension] | Sequence[Outcome | Suspension]


@dataclass
class ScriptedTool:
    """Answers each task's calls from its script; the last outcome repeats. No script: yields its
    args."""

    scripts: Mapping[str, Script] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def run(self, call: Call) -> Outcome | Suspension:
        self.calls.append(call)
        script = self.scripts.get(call.task)
        if script is None:
            return succeeded(dict(call.args))
        if callable(script):
            return script(call)
        past = sum(1 for other in self.calls if other.task == call.task)
        return script[min(past, len(script)) - 1]

    def order(self) -> list[str]:
        return [call.task for call in self.calls]

    def of(self, task: str) -> list[Call]:
        return [call for call in self.calls if call.task == task]


@dataclass
class Story:
    """What a pipeline did: its moves, the drafts it recorded, how it ended and what its tool was
    asked."""

    program: PipelineSpec
    moves: list[Move]
    tool: ScriptedTool

    @property
    def drafts(self) -> list[Draft]:
        return [draft for move in self.moves for draft in drafts_of(move)]

    @property
    def facts(self) -> list[Fact]:
        return [draft.fact for draft in self.drafts]

    @property
    def types(self) -> list[str]:
        return [fact.type for fact in self.facts]

    @property
    def progress(self) -> PipelineProgress:
        last = self.moves[-1]
        assert not isinstance(last, Sleep)
        return last.progress

    @property
    def ending(self) -> Ending:
        last = self.moves[-1]
        assert isinstance(last, Finished)
        return last.ending

    @property
    def error(self) -> ErrorInfo:
        ending = self.ending
        assert not hasattr(ending, "task")
        return ending.error

    @property
    def sleeps(self) -> list[float]:
        return [move.seconds for move in self.moves if isinstance(move, Sleep)]

    def facts_of(self, kind: type) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


def drafts_of(move: Move) -> tuple[Draft, ...]:
    match move:
        case Recorded(drafts, _) | Suspend(drafts=drafts) | Finished(drafts, _, _):
            return drafts
        case Sleep():
            return ()


def no_references(reference: Mapping[str, Any], /) -> Any:
    raise NotFound(f"{reference['ref']} is gone.")


def play(
    *tasks: Task,
    scripts: Mapping[str, Script] | None = None,
    names: Names | None = None,
    progress: PipelineProgress | None = None,
    load: Callable[..., Any] = no_references,
    random: float = 0.0,
    context: Callable[[], Mapping[str, Any]] | None = None,
    **program: Any,
) -> Story:
    """Runs a pipeline of `tasks` to its end, or to where it leaves its worker."""
    tool = ScriptedTool(scripts or {})
    whole = PipelineSpec(tasks, program.pop("where", WHERE), **program)
    hands = PipelinePorts(tool, load, lambda: random, context)
    return Story(whole, list(run(whole, names or Names(), progress or PipelineProgress(), hands)), tool)


def task(name: str, *rules: Rule, **fields: Any) -> Task:
    """A task; its own `set` as a mapping, its policy as rules (none: no policy)."""
    fields["set"] = sets(fields.pop("set", {}))
    kind = fields.pop("kind", "noop")
    return Task(name, kind, rules=rules or fields.pop("rules", None), **fields)


def when(guard: Any, do: str, **then: Any) -> Rule:
    then["set"] = sets(then.pop("set", {}))
    return Rule(guard, Directive(do, **then))  # type: ignore[arg-type]


def otherwise(do: str, **then: Any) -> Rule:
    return when(None, do, **then)


def sets(assigned: Mapping[str, Any]) -> tuple[Assignment, ...]:
    """`{"ctx.a": 1, "b": 2}` as the compiler writes it."""
    result = []
    for target, value in assigned.items():
        scope, _, name = target.partition(".")
        if scope in ("ctx", "iter", "step") and name:
            result.append(Assignment(scope, name, value))  # type: ignore[arg-type]
        else:
            result.append(Assignment("local", target, value))
    return tuple(result)


def ok(result: Any = None, **extras: Any) -> Outcome:
    return succeeded(result, **extras)


def err(message: str = "boom", kind: str = "server_error", **extras: Any) -> Outcome:
    line = extras.pop("line", None)
    return failed(ErrorInfo(kind, message, line=line), **extras)
