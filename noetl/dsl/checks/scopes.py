"""Handlers: steps that are run when something ends, and not by tokens."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.checks.subject import Subject
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.net.model import Net


def check_handlers(subject: Subject) -> Iterator[Finding]:
    """Handlers that arcs lead to, that lead on, or that belong to the flow in another way."""
    net = subject.net
    if net is None or not subject.notes.is_whole:
        return
    for name in net.steps:
        if name in net.handlers:
            yield from _check_handler(net, name)


def _check_handler(net: Net, name: str) -> Iterator[Finding]:
    step, at = net.steps[name], _place(net, name)
    whose = _owner_of(net, name)
    if name in (net.entry, net.final_step) or net.incoming[name]:
        message = f"step {quote_value(name)} is {whose}, and runs in the flow as well"
        yield Finding(Code.HANDLER, at, message, "make it a step of its own that no arc leads to")
    if step.ways:
        message = f"step {quote_value(name)} is {whose}: what it leads to would never run"
        yield Finding(Code.HANDLER, at, message, "leave out its next")
    if step.compensate is not None or step.cleanup is not None:
        message = f"step {quote_value(name)} is {whose}, and has a handler itself"
        yield Finding(Code.HANDLER, at, message, "leave out its compensate and finally")
    inside = next((region.name for region in net.regions if name in region.steps), None)
    if inside is not None:
        message = f"step {quote_value(name)} is {whose}, and is in region {quote_value(inside)}"
        yield Finding(Code.HANDLER, at, message, "take it out of the region, which it does not belong to")


def _owner_of(net: Net, handler: str) -> str:
    """What the step is run for, in words."""
    for step in net.transitions:
        if step.compensate is not None and step.compensate.step == handler:
            return f"what undoes {quote_value(step.name)}"
        if step.cleanup == handler:
            return f"the `finally` of step {quote_value(step.name)}"
    for region in net.regions:
        if region.cleanup == handler:
            return f"the `finally` of region {quote_value(region.name)}"
    return "the `on_cancel` of the execution"


def _place(net: Net, step: str) -> Path:
    return "workflow", list(net.steps).index(step), "step"
