"""Names that exist, in places where they mean nothing; misspelt ones are found by `templates`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from noetl.dsl.checks.members import is_in_task
from noetl.dsl.checks.subject import Subject
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.facts.nearest import nearest
from noetl.net.checks import descendants
from noetl.net.model import Net, Transition, find_assigned_names

#: Built-ins that win over every other name wherever a template stands. Of those that only some
#: places know (`result`, `error`...) nothing is said: a step that handles errors may well be called
#: `error`.
EVERYWHERE: Final = frozenset(
    {
        *("workload", "ctx", "vars", "args", "input", "iter", "step", "keychain", "env", "job"),
        "execution_id",
    }
)
#: Those that only what is rendered before the first step knows. In steps a workload value of that
#: name is read.
AT_THE_START: Final = frozenset({"payload"})
#: What `iter` has outside of loops: the iteration that called the playbook.
_OF_THE_CALLER: Final = frozenset({"parent"})
#: What it has in every loop, beside the item and what tasks assign.
_OF_ITERATIONS: Final = frozenset({"index", "parent"})
#: The parts of a step that are rendered once its loop is over.
_BEHIND_LOOPS: Final = (("set",), ("next",))
#: What a loop asks of all its iterations while it runs.
_OF_ALL_ITERATIONS: Final = (("loop", "enough"), ("loop", "close"))
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")

Chain = tuple[str, ...]
#: Code, message, hint.
Fault = tuple[Code, str, str]


@dataclass(frozen=True)
class NameReader:
    """What is known of the net before templates are looked at."""

    subject: Subject
    net: Net
    _behind: dict[str, frozenset[str]] = field(default_factory=dict)

    def faults(self, step: str, path: Path, chain: Chain, named: frozenset[str]) -> Iterator[Fault]:
        """What is wrong with reading `chain` in a template of `step` at `path`. `named` are the
        names that something else than a built-in or a step gives a value there."""
        if chain[0] in named:
            return
        here = self.net.steps[step]
        yield from self._iteration(here, path, chain)
        if chain[0] == "_prev" and self._is_first(here, path):
            yield (
                Code.NOTHING_BEFORE,
                "`_prev` is the result of the task before, and this is the first one",
                "read a step by its name, or args",
            )
        # Inputs of a step that read the item are those of its tasks.
        handed = path[2:3] in (("input",), ("args",)) and any(path[3] in task.given for task in here.tasks)
        is_clock = chain[0] == "now" and "now" not in self.net.steps
        if is_clock and (handed or is_in_task(self.subject, path)):
            yield (
                Code.NO_CLOCK,
                "now() is not there in a task: each attempt would see another instant",
                'write input: {at: "{{ now() }}"} at the step, and read at',
            )
        if chain[0] in self.net.steps:
            yield from self._step(here, self.net.steps[chain[0]], chain)

    def unreadable(self, text: str, unknown: frozenset[str]) -> str | None:
        """The step or task with `-`, blanks or the like in its name that a template with `unknown`
        names means."""
        for name in self._odd_names:
            begin = _IDENTIFIER.match(name)
            if begin is not None and begin[0] in unknown and name in text:
                return name
        return None

    def sections(self, step: str | None) -> frozenset[str] | None:
        """What the outcomes of the tasks of `step`, and so its own, have besides what all have;
        None where a tool does not tell."""
        if step is None or step not in self.net.steps:
            return None
        known = [self.subject.kinds[task.kind].sections for task in self.net.steps[step].tasks]
        return frozenset().union(*(some or () for some in known)) if None not in known else None

    @cached_property
    def _odd_names(self) -> tuple[str, ...]:
        names = {task.name for step in self.net.transitions for task in step.tasks} | self.net.steps.keys()
        return tuple(sorted(name for name in names if not _IDENTIFIER.fullmatch(name)))

    def _iteration(self, here: Transition, path: Path, chain: Chain) -> Iterator[Fault]:
        name = chain[1] if chain[0] == "iter" and len(chain) > 1 else None
        if here.iteration or any("loop" in self.subject.raw(path[:size]) for size in range(4, len(path))):
            return
        if is_behind_loops(path) and (here.loop is not None or chain[0] in iterators(here)):
            if chain[0] in iterators(here) | {"loop_index"} or (
                name is not None and name not in _OF_THE_CALLER
            ):
                undefined = f"{quote_value('.'.join(chain[:2]))} is undefined"
                if _is_of_all(path):
                    about = f"this is asked of all iterations of step {quote_value(here.name)}"
                    yield Code.OUTSIDE_OF_LOOP, f"{about}: {undefined}", "read results, or ctx"
                    return
                yield (
                    Code.OUTSIDE_OF_LOOP,
                    f"the loop of step {quote_value(here.name)} is over here: {undefined}",
                    f"read {here.name}.results, or assign to ctx in the loop",
                )
        elif here.loop is not None:
            known = {here.loop.iterator, *_OF_ITERATIONS, *find_assigned_names(here.assigns, "iter")}
            if name is not None and name not in known:
                yield (
                    Code.UNDEFINED,
                    f"nothing defines {quote_value(f'iter.{name}')}",
                    self.subject.names.suggest(
                        name, sorted(known), f"assign it with set: {{iter.{name}: ...}}"
                    ),
                )
        elif chain[0] == "loop_index" or (name is not None and name not in _OF_THE_CALLER):
            yield (
                Code.OUTSIDE_OF_LOOP,
                f"step {quote_value(here.name)} has no loop: {quote_value('.'.join(chain[:2]))} is undefined",
                "add loop: to the step, or read args or ctx",
            )

    def _is_first(self, here: Transition, path: Path) -> bool:
        """Whether `path` stands in the first task of the step, and nothing jumps there."""
        if path[:1] != ("workflow",) or path[2:3] != ("tool",) or not here.tasks:
            return False
        if any(isinstance(part, int) and part > 0 for part in path[3:4]):
            return False
        targets = {rule.then.to for task in here.tasks for rule in task.rules or ()}
        return here.tasks[0].name not in targets

    def _step(self, here: Transition, there: Transition, chain: Chain) -> Iterator[Fault]:
        if self._is_later(here.name, there.name):
            yield (
                Code.TOO_EARLY,
                f"step {quote_value(there.name)} only runs after {quote_value(here.name)}: here it has "
                "no result",
                "read it in a step behind it",
            )
        elif chain[1:2] == ("results",) and len(chain) > 2 and there.loop is None:
            tasks = [task.name for task in there.tasks]
            # A result may have a key `results` as well: only what looks like a task was meant to
            # be one.
            close = None if chain[2] in tasks else nearest(chain[2], tasks)
            if close is not None:
                yield (
                    Code.UNKNOWN_RESULT,
                    f"step {quote_value(there.name)} has no task {quote_value(chain[2])}",
                    f"did you mean {close!r}?",
                )

    def _is_later(self, here: str, there: str) -> bool:
        graph, behind = self.subject.graph, {there, self.net.final_step, *self.net.handlers}
        if graph is None or here in behind or not graph.dominates(here, there):
            return False
        if there not in self._behind:
            self._behind[there] = descendants(self.net, [arc.step for arc in self.net.steps[there].ways])
        return here not in self._behind[there]


def is_behind_loops(path: Path) -> bool:
    """Whether what stands at `path` is rendered once the loop of its step is over, or for all of
    its iterations together."""
    return path[:1] == ("workflow",) and (path[2:3] in _BEHIND_LOOPS or _is_of_all(path))


def _is_of_all(path: Path) -> bool:
    return path[2:4] in _OF_ALL_ITERATIONS


def iterators(step: Transition) -> frozenset[str]:
    """What the items of the step's loop and of those of its tasks are called."""
    loops = (step.loop, *(task.loop for task in step.tasks))
    return frozenset(loop.iterator for loop in loops if loop is not None)


def check_built_in_names(
    net: Net, read: Mapping[str, set[Chain]], early: Mapping[str, set[Chain]]
) -> Iterator[Finding]:
    """Steps and iterators that a built-in hides, and workload values that templates take for it.
    `read` has the chains that the playbook's templates read, by their first name; `early` those
    read before the first step."""
    for index, transition in enumerate(net.transitions):
        if transition.name in EVERYWHERE:
            yield Finding(
                Code.BUILT_IN,
                ("workflow", index, "step"),
                f"templates cannot read step {quote_value(transition.name)}: the name is a built-in",
                "call it otherwise",
            )
        if transition.loop is not None and (name := transition.loop.iterator) in EVERYWHERE:
            yield Finding(
                Code.BUILT_IN,
                ("workflow", index, "loop", "iterator"),
                f"templates that read {quote_value(name)} get the built-in, not the item",
                f"call it otherwise, or read iter.{name}",
            )
    by_its_path = {chain[1] for chain in read.get("workload", ()) if len(chain) > 1}
    bare = {name: early.get(name, set()) for name in AT_THE_START}
    bare |= {name: read.get(name, set()) for name in EVERYWHERE}
    for key in (net.workload.keys() & bare.keys()) - by_its_path:
        value = net.workload[key]
        inner = value.keys() if isinstance(value, dict) else frozenset()
        if any(len(chain) == 1 or chain[1] in inner for chain in bare[key]):
            yield Finding(
                Code.BUILT_IN,
                ("workload", key),
                f"templates that read {quote_value(key)} get the built-in, not this value",
                f"read workload.{key}",
                at_key=True,
            )
