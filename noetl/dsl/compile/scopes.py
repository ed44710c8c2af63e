"""Scopes of the document: regions, and the steps that are run when something ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from noetl.dsl.compile.context import Context
from noetl.dsl.compile.limits import compile_concurrency
from noetl.dsl.document import Step
from noetl.dsl.document.regions import RegionSpec
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path, quote_value
from noetl.net.model import Compensation, Directive, Region, Rule, Task, Transition

#: How often an undoing is tried that has no policy of its own: a few seconds apart.
_AGAIN: Final = Rule(
    "{{ outcome.status == 'error' }}", Directive("retry", attempts=3, backoff="exponential", delay=1.0)
)
_HINT = "name a step of this workflow"


def compile_compensation(context: Context, step: Step, path: Path) -> Compensation | None:
    """What undoes a step; None where it says nothing, or nothing that can be used."""
    said, at = step.compensate, (*path, "compensate")
    if said is None:
        return None
    if isinstance(said, str):
        name = find_step(context, said, at)
        return None if name is None else Compensation(name)
    if said.step is None:
        context.report.missing(at, "step", "it is not said which step undoes it", "add step: <name>")
        return None
    name = find_step(context, said.step, (*at, "step"))
    return None if name is None else Compensation(name, said.when or "done")


def find_step(context: Context, name: str | None, at: Path) -> str | None:
    """`name` where a step is called so; else None, with a problem."""
    if name is None or name in context.step_names:
        return name
    hint = context.report.suggest(name, context.step_names, _HINT)
    context.report.add(Code.UNKNOWN_STEP, at, f"there is no step {quote_value(name)}", hint)
    context.notes.is_whole = False
    return None


def try_undoing_again(transitions: tuple[Transition, ...]) -> tuple[Transition, ...]:
    """Tasks of steps that undo others are tried several times where they have no policy of their
    own: nobody else makes good what they leave."""
    undoing = {one.compensate.step for one in transitions if one.compensate is not None}
    return tuple(
        replace(step, tasks=tuple(map(_try_again, step.tasks))) if step.name in undoing else step
        for step in transitions
    )


def _try_again(task: Task) -> Task:
    return task if task.rules is not None else replace(task, rules=(_AGAIN,))


def compile_regions(context: Context) -> tuple[Region, ...]:
    """The regions, those inside of others first."""
    said = context.document.regions or {}
    members = _find_members(context, said)
    made = [_compile_region(context, name, said[name], steps) for name, steps in members.items()]
    return tuple(sorted(made, key=lambda region: len(region.steps)))


def _compile_region(context: Context, name: str, said: RegionSpec, steps: tuple[str, ...]) -> Region:
    path: Path = ("regions", name)
    context.use((*path, "deadline"), said.deadline, steps[0])
    cancel_on, guard = _find_causes(context, said, (*path, "cancel_on"), steps[0])
    on_cancel = find_step(context, said.on_cancel, (*path, "on_cancel"))
    if on_cancel in steps:
        context.report.add(
            Code.VALUE,
            (*path, "on_cancel"),
            f"step {quote_value(on_cancel)} is a part of the region that was cancelled then",
            "name a step outside of it",
        )
    return Region(
        name,
        steps,
        deadline=said.deadline,
        cancel_on=cancel_on,
        cancel_when=guard,
        compensate=bool(said.compensate),
        on_cancel=on_cancel,
        cleanup=find_step(context, said.finally_, (*path, "finally")),
        concurrency=compile_concurrency(context, said.concurrency, (*path, "concurrency"), steps[0]),
        line=context.line(path),
    )


def _find_causes(
    context: Context, said: RegionSpec, at: Path, step: str
) -> tuple[tuple[str, ...], str | None]:
    """The steps whose end cancels the region, and the guard that does."""
    given = said.cancel_on
    if given is None:
        return (), None
    if isinstance(given, str) and is_template(given):
        context.use(at, given, step, guard=True)
        return (), given
    names = [(given, at)] if isinstance(given, str) else [(one, (*at, i)) for i, one in enumerate(given)]
    found = (find_step(context, name, place) for name, place in names)
    return tuple(name for name in found if name is not None), None


# --- what is in them ------------------------------------------------------------------------------


def _find_members(context: Context, said: Mapping[str, RegionSpec]) -> dict[str, tuple[str, ...]]:
    """The steps of each region that can be used, in the order of the document."""
    found: dict[str, tuple[str, ...]] = {}
    for name, region in said.items():
        steps = set(_flatten(context, said, name, ()))
        if name in context.step_names:
            at: Path = ("regions", name)
            message = f"a step is called {quote_value(name)} as well"
            context.report.add(Code.DUPLICATE_NAME, at, message, "give the region its own name", at_key=True)
        elif steps:
            order = (step.step for step in context.document.workflow or [])
            found[name] = tuple(step for step in order if step in steps)
        elif region.steps is None or not region.steps:
            hint = "add steps: with the names of those that belong together"
            context.report.missing(("regions", name), "steps", "the region has no steps", hint)
    _check_overlaps(context, found)
    return found


def _flatten(
    context: Context, said: Mapping[str, RegionSpec], name: str, above: tuple[str, ...]
) -> Iterator[str]:
    for index, inner in enumerate(said[name].steps or ()):
        at: Path = ("regions", name, "steps", index)
        if inner in context.step_names:
            yield inner
        elif inner in (name, *above):
            message = f"region {quote_value(inner)} is inside of itself"
            context.report.add(Code.REGION, at, message, "take it out of its own steps")
        elif inner in said:
            yield from _flatten(context, said, inner, (*above, name))
        elif not above:
            known = [*context.step_names, *said]
            hint = context.report.suggest(inner, known, "name a step or a region of this playbook")
            message = f"there is no step or region {quote_value(inner)}"
            context.report.add(Code.UNKNOWN_STEP, at, message, hint)


def _check_overlaps(context: Context, members: dict[str, tuple[str, ...]]) -> None:
    """Of two regions one is inside of the other, or they have nothing in common."""
    names = list(members)
    for place, name in enumerate(names):
        for other in names[:place]:
            one, two = set(members[name]), set(members[other])
            if one & two and not (one < two or two < one):
                shared = next(step for step in members[name] if step in two)
                message = (
                    f"regions {quote_value(name)} and {quote_value(other)} share step {quote_value(shared)}"
                )
                hint = "put one of them inside of the other, or take the step out of one"
                context.report.add(Code.REGION, ("regions", name), message, hint, at_key=True)
