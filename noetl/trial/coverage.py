"""Which steps, arcs and rules of playbooks the tests have met."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from noetl.facts.events import AdmitEvaluated, Event, NextEvaluated, PolicyEvaluated, StepScheduled
from noetl.net.model import Net
from noetl.trial.play import Trace

#: What is counted, and what names one of it.
Kind: TypeAlias = Literal["steps", "arcs", "rules"]
Name: TypeAlias = tuple[Kind, str]
KINDS: tuple[Kind, ...] = ("steps", "arcs", "rules")


@dataclass(frozen=True, slots=True)
class CoveredPart:
    """A step, an arc or a rule: where it stands, and what to say where nothing met it."""

    kind: Kind
    line: int
    missed: str


@dataclass(slots=True)
class PlaybookCoverage:
    """One playbook: all of its parts, and those that were met."""

    file: str
    parts: dict[Name, CoveredPart]
    met: set[Name] = field(default_factory=set)

    def count(self, kind: Kind) -> tuple[int, int]:
        """How many parts of that kind were met, of how many."""
        names = [name for name in self.parts if name[0] == kind]
        return sum(1 for name in names if name in self.met), len(names)

    def missed(self) -> list[CoveredPart]:
        """In the order of their lines."""
        found = [part for name, part in self.parts.items() if name not in self.met]
        return sorted(found, key=lambda part: part.line)


class Coverage:
    """Of all playbooks that tests were about, or that these called, by their files."""

    def __init__(self) -> None:
        self.playbooks: dict[str, PlaybookCoverage] = {}

    def know(self, net: Net) -> PlaybookCoverage:
        """Counts the parts of a playbook, whether or not anything meets them."""
        # A called playbook is found by another name than the one that the command was given.
        file = str(Path(net.file).resolve())
        if file not in self.playbooks:
            self.playbooks[file] = PlaybookCoverage(_relative(net.file), dict(_parts(net)))
        return self.playbooks[file]

    def add(self, traces: Iterable[Trace]) -> None:
        """Counts what executions met."""
        for trace in traces:
            covered = self.know(trace.net)
            for event in trace.events:
                covered.met.update(_met(trace.net, event))

    @property
    def percent(self) -> float:
        """Of all parts of all playbooks; 100 where there are none."""
        counts = [one.count(kind) for one in self.playbooks.values() for kind in KINDS]
        total = sum(every for _, every in counts)
        return 100.0 * sum(met for met, _ in counts) / total if total else 100.0


def _relative(file: str) -> str:
    """From the working directory, where it is below that."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _parts(net: Net) -> Iterator[tuple[Name, CoveredPart]]:
    for step in net.transitions:
        yield ("steps", step.name), CoveredPart("steps", step.line, f"step {step.name!r} never ran")
        for arc in step.ways:
            when = f" (when {arc.when})" if arc.when is not None else ""
            missed = f"the arc from {step.name!r} to {arc.step!r}{when} was never taken"
            yield ("arcs", arc.id), CoveredPart("arcs", arc.line or step.line, missed)
        for number, rule in enumerate(step.admit.rules if step.admit else ()):
            missed = f"rule {number + 1} of the admission to {step.name!r} ({_when(rule.when)}) never matched"
            yield ("rules", f"{step.name}/{number}"), CoveredPart("rules", step.line, missed)
        for task in step.tasks:
            for number, one in enumerate(task.rules or ()):
                missed = (
                    f"rule {number + 1} of task '{step.name}.{task.name}' ({_when(one.when)}) never matched"
                )
                yield ("rules", f"{step.name}.{task.name}/{number}"), CoveredPart("rules", task.line, missed)


def _when(when: object) -> str:
    return "else" if when is None else f"when {when}"


def _met(net: Net, event: Event) -> Iterator[Name]:
    step = event.draft.step or ""
    match event.fact:
        case StepScheduled():
            yield "steps", step
        case NextEvaluated(arcs=arcs):
            yield from (("arcs", one.arc) for one in arcs if one.chosen)
        case PolicyEvaluated(task=task, rule=int() as rule):
            yield "rules", f"{step}.{task}/{rule}"
        case AdmitEvaluated() as fact:
            yield from _admitted(net, step, fact)
        case _:
            return


def _admitted(net: Net, step: str, fact: AdmitEvaluated) -> Iterator[Name]:
    """The rule that decided: the first one with its guard."""
    admit = net.steps[step].admit
    for number, rule in enumerate(admit.rules if admit else ()):
        if (None if rule.when is None else str(rule.when)) == fact.when:
            yield "rules", f"{step}/{number}"
            return
