"""A net with what the engine derives from it once: reachability of joins, names that steps depend
on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final, TypeAlias

from noetl.engine.digests import TaskReads, code_of
from noetl.engine.prerequisites import Prerequisite, find_prerequisites
from noetl.expressions import names_used
from noetl.facts.json import Json
from noetl.net.joins import Reachability, StepGraph, is_or_join
from noetl.net.model import Assignment, KindInfo, Net, Task, Transition
from noetl.net.tasks import file_of

#: `ctx.rows.id`, name by name.
Path: TypeAlias = tuple[str, ...]
#: Names below which templates find what an execution was given.
_INPUTS: Final = frozenset({"workload", "payload", "input", "args"})


@dataclass(frozen=True)
class Needs:
    """The names that the templates of a step's pipeline use; `everything` where code names
    `context`."""

    chains: frozenset[Path]
    everything: bool

    @cached_property
    def heads(self) -> frozenset[str]:
        return frozenset(path[0] for path in self.chains)


class Plan:
    """What `decide` works with. Build it once for each net and keep it."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self._needs: dict[str, Needs] = {}
        self._behind: dict[str, frozenset[str]] = {}
        self._code: dict[str, Mapping[str, str]] = {}
        self._reads: dict[str, Mapping[str, TaskReads]] = {}
        self._prerequisites: tuple[Prerequisite, ...] | None = None

    def step(self, name: str) -> Transition:
        return self.net.steps[name]

    @cached_property
    def order(self) -> Mapping[str, int]:
        """Position of each step in the document."""
        return {step.name: position for position, step in enumerate(self.net.transitions)}

    @cached_property
    def reach(self) -> Mapping[str, Reachability]:
        """For each join that has to know whether another token can still come."""
        graph = StepGraph.of(self.net)
        return {
            step.name: graph.reach(step.name)
            for step in self.net.transitions
            if self.is_or_join(step) or step.join.mode in ("first", "count")
        }

    def needs(self, step: str) -> Needs:
        """Names used by the templates of the step's tasks, and of its loop's cursor."""
        if step not in self._needs:
            tasks = self.net.steps[step].calls
            chains = frozenset[Path]().union(*map(_names_of_task, tasks))
            self._needs[step] = Needs(chains, any(task.wants_context for task in tasks))
        return self._needs[step]

    def names_in(self, step: str) -> frozenset[Path]:
        """Names used by any template of the step."""
        return self.needs(step).chains | _names_around(self.net.steps[step])

    def prerequisites(self, kinds: Mapping[str, KindInfo]) -> tuple[Prerequisite, ...]:
        """What has to be there before an execution begins; `kinds` are those of this process."""
        if self._prerequisites is None:
            self._prerequisites = find_prerequisites(self.net, self.names_in, kinds)
        return self._prerequisites

    def code(self, step: str) -> Mapping[str, str]:
        """Digests of what the tasks of a step do, and its cursor, by their names."""
        if step not in self._code:
            self._code[step] = {task.name: code_of(task) for task in self.net.steps[step].calls}
        return self._code[step]

    def reads(self, step: str) -> Mapping[str, TaskReads]:
        """What each of them reads."""
        if step not in self._reads:
            self._reads[step] = {
                task.name: TaskReads(
                    tuple(sorted(_names_of_task(task))), task.reads, task.wants_context, file_of(task.config)
                )
                for task in self.net.steps[step].calls
            }
        return self._reads[step]

    @cached_property
    def names_read(self) -> frozenset[Path]:
        """The chains that any template of the playbook reads, as they are written."""
        key = None if self.net.key is None else self.net.key.value
        return _names([self.net.workload, self.net.ctx, self.net.keychain, key]).union(
            _names_of_retry(self.net),
            *map(_names_around, self.net.transitions),
            *(_names_of_task(task) for step in self.net.transitions for task in step.calls),
        )

    @cached_property
    def inputs_read(self) -> frozenset[Path] | None:
        """What templates read below `workload`, `payload`, `input` and `args`; None where something
        reads all of it."""
        if any(task.wants_context for step in self.net.transitions for task in step.calls):
            return None
        if any(path in self.names_read for path in (("workload",), ("payload",))):
            return None
        return frozenset(path[1:] for path in self.names_read if path[0] in _INPUTS and len(path) > 1)

    def is_or_join(self, step: Transition) -> bool:
        return is_or_join(self.net, step)


def _names(
    templates: Iterable[Json], guards: Iterable[Json] = (), assignments: Iterable[Assignment] = ()
) -> frozenset[Path]:
    assigned = list(assignments)
    # Who assigns a part of what ctx holds reads it.
    changed = (one.name.partition(".")[0] for one in assigned if one.scope == "ctx" and "." in one.name)
    return names_used([*templates, *(one.value for one in assigned)]).union(
        *(names_used(guard, guard=True) for guard in guards if isinstance(guard, str)),
        (("ctx", name) for name in changed),
    )


def _names_of_retry(net: Net) -> frozenset[Path]:
    retry = net.retry
    return frozenset() if retry is None else _names([retry.attempts, retry.delay], [retry.when])


def _names_around(step: Transition) -> frozenset[Path]:
    """Of the templates of a step that are not its tasks'."""
    rules = step.admit.rules if step.admit else ()
    looped = [step.loop.collection, step.loop.max_in_flight, step.loop.grow] if step.loop else []
    guards = step.loop.guards if step.loop else ()
    return _names(
        [step.args, *looped, *(arc.args for arc in step.arcs), *(arc.times for arc in step.arcs)],
        [*(rule.when for rule in rules), *(arc.when for arc in step.arcs), *guards],
        chain(step.set, *(arc.set for arc in step.arcs)),
    )


def _names_of_task(task: Task) -> frozenset[Path]:
    rendered = {key: value for key, value in task.config.items() if key not in task.verbatim}
    collection = task.loop.collection if task.loop else None
    rules = task.rules or ()
    thens = [rule.then for rule in rules]
    cache = [] if task.cache is None else [task.cache.ttl, task.cache.key]
    own = _names(
        [rendered, task.args, task.spec.get("timeout"), collection, task.given, *cache]
        + [[then.attempts, then.delay, then.jitter] for then in thens],
        [task.after, *(rule.when for rule in rules)],
        chain(task.set, *(then.set for then in thens)),
    )
    return own | _names_between_calls(task)


def _names_between_calls(task: Task) -> frozenset[Path]:
    found: frozenset[Path] = frozenset()
    if task.repeat is not None:
        into = () if task.repeat.into is None else (task.repeat.into,)
        found |= _names(task.repeat.values, task.repeat.guards, into)
    if task.older is not None:
        rules = task.older.then
        sets = chain.from_iterable(rule.then.set for rule in rules)
        found |= _names([task.older.over], (rule.when for rule in rules), sets)
    return found
