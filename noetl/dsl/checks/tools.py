"""The configuration of tasks: `spec`, the keys that their kind knows and needs, and values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pydantic_core import ErrorDetails

from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.context import CompiledCall
from noetl.dsl.compile.specs import config_from_spec, takes_timeout
from noetl.dsl.document import (
    CallSpec,
    Cursor,
    DocumentPart,
    Executor,
    ExecutorSpec,
    Loop,
    Policy,
    Step,
    StepSpec,
    Tool,
    canonical_keys,
    known_keys,
)
from noetl.dsl.document.base import keys_near, place_of
from noetl.dsl.document.misspelt import unknown_key
from noetl.dsl.document.regions import RegionSpec
from noetl.dsl.document.texts import holds_template, is_template
from noetl.dsl.document.validation import by_place, fault_of, real_path
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.dsl.read.origins import value_at
from noetl.facts.durations import seconds
from noetl.net.model import KindInfo, Template

#: Keys of policies that are said of some of those that have one.
_STEPS_ALONE: Final = {"admit": "steps"}
_EXECUTOR_ALONE: Final = {"retry": "executions as a whole"}
#: Where each of them belongs.
_PLACES: Final = {
    "admit": "spec.policy of the step",
    "failure": "spec.policy of the step",
    "retry": "executor.spec.policy, or for its calls beside kind:, of a step beside tool:",
}
_DURATIONS: Final = "write seconds above zero, 500ms, 10s, 5m, 2h, or a template"


@dataclass(frozen=True)
class _Spec:
    """A spec, where it stands, and of a task the kind."""

    subject: Subject
    model: type[DocumentPart]
    path: Path
    kind: KindInfo | None = None

    @cached_property
    def known(self) -> Set[str] | None:
        """The keys that it may have besides its model's; None where that is not known."""
        kinds = self.subject.kinds.values()
        if self.kind is None:
            return {"after"}.union(*(kind.defaults for kind in kinds))
        if self.kind.schema.get("additionalProperties") is not False:
            return None
        moved = config_from_spec(self.subject.raw(self.path), self.kind)
        return {*self.kind.schema.get("properties", {}), *moved, *self.kind.defaults}

    def place_beside(self, key: str) -> str:
        """Where a key belongs that its task or step has; empty where those have none of that
        name."""
        if self.model is ExecutorSpec:
            return ""
        owner, place = (Step, "beside tool:") if self.kind is None else (Tool, "beside kind:")
        return place if key in canonical_keys(owner) else ""

    @property
    def idle(self) -> Mapping[str, str]:
        """The keys of a policy that have no effect in it, and whom they are said of."""
        if self.kind is not None:
            return {**_STEPS_ALONE, "failure": "steps, their loops and the executor", **_EXECUTOR_ALONE}
        if self.model is ExecutorSpec:
            return _STEPS_ALONE
        return _EXECUTOR_ALONE if self.model is StepSpec else {**_STEPS_ALONE, **_EXECUTOR_ALONE}


def _specs_around(subject: Subject) -> Iterator[_Spec]:
    for part, path in subject.parts:
        # `check_loops_of_tasks` looks at the specs of loops of tasks.
        if isinstance(part, Executor | Step | Loop) and part.spec is not None:
            yield _Spec(subject, type(part.spec), (*path, "spec"))


def _specs(subject: Subject) -> Iterator[_Spec]:
    yield from _specs_around(subject)
    for call in subject.notes.calls:
        for path in call.parts:
            if subject.raw((*path, "spec")):
                yield _Spec(subject, CallSpec, (*path, "spec"), call.kind)


def check_timeouts(subject: Subject) -> Iterator[Finding]:
    """A timeout that is no duration above zero, nor the parts of one that the tool has."""
    for spec in _specs(subject):
        timeout, at = subject.raw(spec.path).get("timeout"), (*spec.path, "timeout")
        if isinstance(timeout, Mapping) and spec.kind is not None and not takes_timeout(spec.kind):
            yield Finding(Code.VALUE, at, "this tool has one timeout, without parts", _DURATIONS)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float | str) or is_template(timeout):
            continue
        with contextlib.suppress(ValueError):
            if seconds(timeout) > 0:
                continue
        yield Finding(Code.VALUE, at, f"timeout is {quote_value(timeout)}", _DURATIONS)


def check_deadlines(subject: Subject) -> Iterator[Finding]:
    """A deadline that is no duration above zero."""
    steps = [spec.path for spec in _specs_around(subject) if spec.model is StepSpec]
    regions = [path for _, path in subject.parts_that_are(RegionSpec)]
    for path in (*steps, *regions):
        given, at = subject.raw(path).get("deadline"), (*path, "deadline")
        if given is None or is_template(given):
            continue
        with contextlib.suppress(ValueError):
            if seconds(given) > 0:
                continue
        yield Finding(Code.VALUE, at, f"deadline is {quote_value(given)}", _DURATIONS)


def check_keys_of_policies(subject: Subject) -> Iterator[Finding]:
    """Keys of a policy that mean nothing, or have no effect where it stands."""
    known = canonical_keys(Policy)
    for spec in _specs(subject):
        given = subject.raw((*spec.path, "policy"))
        for key in given:
            at = (*spec.path, "policy", key)
            if key not in known:
                yield from unknown_key(
                    at,
                    f"the key {quote_value(key)} means nothing here",
                    subject.names.suggest(key, known, f"known here: {', '.join(known)}"),
                    keys_near(Policy),
                    given,
                )
            if key in spec.idle:
                yield Finding(
                    Code.IGNORED,
                    at,
                    f"`{key}` has no effect here: it is said of {spec.idle[key]}",
                    f"put it under {_PLACES[key]}",
                    at_key=True,
                )


def check_keys_of_specs(subject: Subject) -> Iterator[Finding]:
    """Keys of a spec that neither its model nor a tool knows."""
    for spec in _specs(subject):
        keys, given = canonical_keys(spec.model), subject.raw(spec.path)
        # What kinds have defaults for may be said around their tasks. Asking them imports all of
        # them.
        if given.keys() <= {*keys, "after"} or spec.known is None:
            continue
        for key in given:
            if key in keys or key in spec.known:
                continue
            under = place_of(key)
            place = spec.place_beside(key) or (f"under {under}" if under else "")
            otherwise = subject.names.suggest(key, [*keys, *spec.known], f"known here: {', '.join(keys)}")
            hint = f"put it {place}" if place else otherwise
            near = () if place else {*keys_near(spec.model), *spec.known}
            yield from unknown_key(
                (*spec.path, key), f"the key {quote_value(key)} means nothing here", hint, near, given
            )


def check_after_around_tasks(subject: Subject) -> Iterator[Finding]:
    """`after` in a spec that is not a task's."""
    for spec in _specs_around(subject):
        if "after" in subject.raw(spec.path):
            yield Finding(
                Code.MISPLACED,
                (*spec.path, "after"),
                "`after` means nothing here: it is said of a task",
                "put it under the spec: of each task that runs once the pipeline has ended",
                at_key=True,
            )


#: Keys of steps that are no tool's: written one indentation too far in.
_OF_STEPS: Final = frozenset(known_keys(Step)) - frozenset(known_keys(Tool)) - {"step", "tool"}
#: Those of a cursor that are the language's, and come to the tool under other names.
_OF_CURSORS: Final = frozenset({"command", "params"})


def check_keys_of_tools(subject: Subject) -> Iterator[Finding]:
    """Keys that mean nothing to the kind of a task."""
    for call in subject.notes.calls:
        if call.kind.schema.get("additionalProperties") is not False:
            continue
        known, model = call.kind.schema.get("properties", {}), Cursor if call.claims else Tool
        fine = {*known, "policy", *(_OF_CURSORS if call.claims else ())}
        for key, path in call.paths.items():
            if key in fine:
                continue
            otherwise = f"known here: {', '.join(known)}" if known else "hand values over with input:"
            hint = subject.names.suggest(key, [*known, *known_keys(model)], otherwise)
            # Nobody is sent to an older spelling.
            near = {*known, *keys_near(model)} - call.kind.spellings.keys()
            if key in _OF_STEPS:
                hint, near = "put it beside tool:", set()
            yield from unknown_key(
                path, f"the key {quote_value(key)} means nothing to {call.kind.kind}", hint, near, call.paths
            )


def check_required_keys(subject: Subject) -> Iterator[Finding]:
    """Keys that the kind of a task needs, and that neither it nor the workbook says."""
    for call in subject.notes.calls:
        for first, *others in call.kind.required:
            if not any(call.kind.says(call.task.config, key) for key in (first, *others)):
                or_else = f" (or {', '.join(others)})" if others else ""
                yield Finding(
                    Code.MISSING,
                    call.path,
                    f"{call.kind.kind} needs {first}{or_else}",
                    f"add {first}:",
                    lacks=first,
                )


_Faults = Mapping[Path, list[ErrorDetails]]


def check_values(subject: Subject) -> Iterator[Finding]:
    """Values that a kind cannot take, of those that are no templates."""
    for call in subject.notes.calls:
        if call.step or call.claims:  # what the workbook says may lack what its callers say
            yield from _check_call(subject, call)


def _check_call(subject: Subject, call: CompiledCall) -> Iterator[Finding]:
    config = call.task.config
    rendered = {
        key for key, value in config.items() if key not in call.task.verbatim and holds_template(value)
    }
    faults: dict[Path, list[ErrorDetails]] = {}
    for error in call.kind.faults(config):
        path = real_path(error["loc"], config)
        # What concerns several keys may be well once they are rendered.
        if path or not rendered or error["type"] == "missing":
            faults.setdefault(path, []).append(error)
    # Where a part is at fault as well, that is the likelier one of the forms that a value may have.
    inner = {path[:size] for path in faults for size in range(1, len(path))}
    faults = {path: errors for path, errors in faults.items() if path not in inner}
    # Templates at fault may turn out to fit, and to be of another form than the rest under their
    # key is checked for.
    unknown = {
        path[0]
        for path, errors in faults.items()
        if path and path[0] in rendered and holds_template(value_at(config, path)) and not _is_sure(errors)
    }
    for path, errors in faults.items():
        if not path or path[0] not in unknown or _is_sure(errors):
            at = (*call.paths[str(path[0])], *path[1:]) if path else call.path
            yield from _describe(subject, call.kind, at, errors, config)


def _is_sure(errors: Iterable[ErrorDetails]) -> bool:
    """Whether no template can mend this: a key that no mapping there has."""
    return any(
        error["type"] == "extra_forbidden"
        and error["loc"][-1] not in (error.get("ctx") or {}).get("known", ())
        for error in errors
    )


def _describe(
    subject: Subject, kind: KindInfo, at: Path, errors: list[ErrorDetails], config: Mapping[str, Template]
) -> Iterator[Finding]:
    first = errors[0]
    name = str(first["loc"][-1]) if first["loc"] else ""
    match first["type"]:
        case "missing":
            if all(first["loc"] != (key,) for group in kind.required for key in group):
                yield Finding(
                    Code.MISSING,
                    at,
                    f"{kind.kind} needs {quote_value(name)} here",
                    f"add {name}:",
                    lacks=name,
                )
        case "extra_forbidden":
            yield Finding(
                Code.VALUE,
                at,
                f"the key {quote_value(name)} means nothing here to {kind.kind}",
                subject.names.suggest(name, (first.get("ctx") or {}).get("known", ()), "remove it"),
                at_key=True,
            )
        case "value_error":
            reason = first["msg"].removeprefix("Value error, ")
            yield Finding(Code.VALUE, at, f"{kind.kind} cannot take this: {reason}")
        case _:
            for path, fault in by_place(errors, config).items():
                value = value_at(config, path)
                yield fault_of(at, fault, value, subject.names, may_be_secret=True)
