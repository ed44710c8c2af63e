"""`spec`: keys that mean nothing in one, and timeouts that are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.specs import config_from_spec, takes_timeout
from noetl.dsl.document import (
    CallSpec,
    ExecutorSpec,
    Loop,
    LoopSpec,
    Part,
    Policy,
    Step,
    StepSpec,
    canonical_keys,
)
from noetl.dsl.document.base import keys_near, place_of
from noetl.dsl.document.misspelt import unknown_key
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Finding, Path, shown
from noetl.facts.durations import seconds
from noetl.net.model import KindInfo

#: Who the keys of a policy are said of.
_OF_STEPS: Final = "steps"
_OF_BRANCHES: Final = "steps, their loops and the executor"
_DURATIONS: Final = "write seconds above zero, 500ms, 10s, 5m, 2h, or a template"


@dataclass(frozen=True)
class _Spec:
    """A spec, where it stands, and of a task the kind."""

    subject: Subject
    model: type[Part]
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

    @property
    def idle(self) -> Mapping[str, str]:
        """The keys of a policy that have no effect in it, and whom they are said of."""
        if self.kind is not None:
            return {"admit": _OF_STEPS, "failure": _OF_BRANCHES}
        return {} if self.model is StepSpec else {"admit": _OF_STEPS}


def _around(subject: Subject) -> Iterator[_Spec]:
    """The specs around tasks."""
    if subject.document.executor is not None and subject.document.executor.spec is not None:
        yield _Spec(subject, ExecutorSpec, ("executor", "spec"))
    for part, path in subject.parts:
        if isinstance(part, Step) and part.spec is not None:
            yield _Spec(subject, StepSpec, (*path, "spec"))
        elif isinstance(part, Loop) and part.spec is not None:
            yield _Spec(subject, LoopSpec, (*path, "spec"))


def _specs(subject: Subject) -> Iterator[_Spec]:
    yield from _around(subject)
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
        if not _is_duration(timeout):
            yield Finding(Code.VALUE, at, f"timeout is {shown(timeout)}", _DURATIONS)


def _is_duration(timeout: float | str) -> bool:
    try:
        return seconds(timeout) > 0
    except ValueError:
        return False


def check_keys_of_policies(subject: Subject) -> Iterator[Finding]:
    """Keys of a policy that mean nothing, or have no effect where it stands."""
    known = canonical_keys(Policy)
    for spec in _specs(subject):
        given = subject.raw((*spec.path, "policy"))
        for key in given:
            at = (*spec.path, "policy", key)
            if key not in known:
                message = f"the key {shown(key)} means nothing here"
                hint = subject.names.suggest(key, known, f"known here: {', '.join(known)}")
                yield from unknown_key(at, message, hint, keys_near(Policy), given)
            if key in spec.idle:
                message = f"`{key}` has no effect here: it is said of {spec.idle[key]}"
                hint = "put it under spec.policy of the step"
                yield Finding(Code.IGNORED, at, message, hint, at_key=True)


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
            place = place_of(key)
            otherwise = subject.names.suggest(key, [*keys, *spec.known], f"known here: {', '.join(keys)}")
            hint = f"put it under {place}" if place else otherwise
            message = f"the key {shown(key)} means nothing here"
            near = () if place else {*keys_near(spec.model), *spec.known}
            yield from unknown_key((*spec.path, key), message, hint, near, given)


def check_after_around_tasks(subject: Subject) -> Iterator[Finding]:
    """`after` in a spec that is not a task's."""
    for spec in _around(subject):
        if "after" in subject.raw(spec.path):
            message = "`after` means nothing here: it is said of a task"
            hint = "put it under the spec: of each task that runs once the pipeline has ended"
            yield Finding(Code.MISPLACED, (*spec.path, "after"), message, hint, at_key=True)
