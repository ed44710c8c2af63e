"""Calls that leave out an input which their task expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.problems import Code, Finding, shown
from noetl.expressions import path_of
from noetl.net.model import EACH_INPUTS, Demand, Net, Template, Transition

#: Args that the final step is given.
OF_FINAL_STEP: Final = frozenset({"status", "steps", "errors"})


def check_inputs(subject: Subject) -> Iterator[Finding]:
    """Inputs that a task expects, and that neither it nor its step nor an arc gives."""
    net, notes = subject.net, subject.notes
    if net is None or not notes.is_whole or not notes.expecting:
        return
    arcs = _given_by_arcs(net)
    for one in notes.expecting:
        around = arcs.get(one.step, set()) | _given_by_step(net, net.steps[one.step])
        for demand in one.expects:
            head = _head(demand)
            if not one.given.get(head, head in around):
                who = f"workbook task {shown(demand.of)}" if demand.of else "the task"
                message = f"{who} expects the input {shown(demand.path)}, and nothing gives it"
                spare = (one.own | around) - {_head(other) for other in one.expects}
                hint = subject.names.suggest(head, sorted(spare), f"add input: {{{head}: ...}}")
                yield Finding(Code.MISSING, one.path, message, hint)


def inputs_around(net: Net) -> Mapping[str, set[str]]:
    """Step → the names of the inputs that it and the arcs to it give to its tasks."""
    arcs = _given_by_arcs(net)
    return {
        step.name: arcs.get(step.name, set()) | _given_by_step(net, step, of_nothing=True)
        for step in net.transitions
    }


def _head(demand: Demand) -> str:
    return str((path_of(demand.path) or ("",))[0])


def _given_by_arcs(net: Net) -> Mapping[str, set[str]]:
    """Step → the names that any arc to it hands over."""
    given: dict[str, set[str]] = {}
    for arc in net.arcs.values():
        given.setdefault(arc.step, set()).update(arc.args)
    return given


def _given_by_step(net: Net, step: Transition, *, of_nothing: bool = False) -> set[str]:
    """`of_nothing`: those that are null as well."""
    handed: tuple[Mapping[str, Template], ...] = (step.args, *(task.given for task in step.tasks))
    given = {name for names in handed for name, value in names.items() if of_nothing or value is not None}
    given |= {name for task in step.tasks if task.each_of for name in EACH_INPUTS}
    return given | OF_FINAL_STEP if step.name == net.final_step else given
