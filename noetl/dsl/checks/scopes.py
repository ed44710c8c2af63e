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
    does = f"step {quote_value(name)} {net.role_of(name)}"
    if name in (net.entry, net.final_step) or net.incoming[name]:
        message = f"{does}, and runs in the flow as well"
        yield Finding(Code.HANDLER, at, message, "make it a step of its own that no arc leads to")
    if step.ways:
        message = f"{does}: what it leads to would never run"
        yield Finding(Code.HANDLER, at, message, "leave out its next")
    if step.compensate is not None or step.cleanup is not None:
        message = f"{does}, and has a handler itself"
        yield Finding(Code.HANDLER, at, message, "leave out its compensate and finally")
    inside = next((region.name for region in net.regions if name in region.steps), None)
    if inside is not None:
        message = f"{does}, and is in region {quote_value(inside)}"
        yield Finding(Code.HANDLER, at, message, "take it out of the region, which it does not belong to")


def _place(net: Net, step: str) -> Path:
    return "workflow", list(net.steps).index(step), "step"
