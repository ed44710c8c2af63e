"""Runs that come to no proper end: joins that may wait for ever, steps that never run, tokens that
pile up, cycles that nothing leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

from noetl import expressions
from noetl.dsl.checks.flow import always
from noetl.dsl.checks.subject import Subject
from noetl.dsl.problems import Code, Finding, quote_value
from noetl.errors import TemplateError
from noetl.facts.event_names import DONE, FAILED, LOOP_DONE, BoundaryName
from noetl.net.checks import (
    endless_cycles,
    endless_steps,
    find_arcs_behind_ends,
    find_shadowed_arcs,
    unfillable_joins,
)
from noetl.net.model import Arc, Net
from noetl.net.soundness import (
    Move,
    NotDecided,
    Sound,
    SoundnessBounds,
    Unsound,
    Unsoundness,
    Verdict,
    decide,
)

#: How a step ended, as guards ask for it.
_OF_ENDS: Final = frozenset(
    {("outcome", "status"), ("output", "status"), ("outcome", "ok"), ("output", "ok"), ("event", "name")}
)
#: The moves of a witness that are shown: of a longer one its beginning and its end.
_FIRST: Final = 3
_LAST: Final = 7
#: Where a router that has many arcs leads.
_MOST_TARGETS: Final = 5
_HINT: Final = "unless guards exclude this, "


def check_soundness(subject: Subject) -> Iterator[Finding]:
    """What can go wrong whatever the guards say, where no other check explains it."""
    net, graph = subject.net, subject.graph
    if net is None or graph is None:
        return
    verdict = _decide(net, subject.bounds)
    if isinstance(verdict, Unsound):
        explained = _explained(net, {one.join for one in unfillable_joins(net, graph)})
        positions = {name: index for index, name in enumerate(net.steps)}
        for fault in _worth_saying(net, verdict):
            if explained.isdisjoint(_at_fault(fault)):
                yield Finding(Code.UNSOUND, ("workflow", positions[fault.step], "step"), *_say(fault))


def why_undecided(net: Net, bounds: SoundnessBounds) -> str | None:
    """Why it was not found out whether every run of `net` can come to an end; None where it was,
    and where a fault was found."""
    verdict = _decide(net, bounds)
    return verdict.reason if isinstance(verdict, NotDecided) else None


def _decide(net: Net, bounds: SoundnessBounds) -> Verdict:
    def holds(arc: Arc, failed: bool) -> bool | None:
        return _holds(net, arc, failed)

    return decide(net, holds, bounds) if _may_be_unsound(net) else Sound(0)


def _worth_saying(net: Net, verdict: Unsound) -> Iterator[Unsoundness]:
    """Without steps that never run because another fault ends every run before, and without what
    the items of a loop around several steps bound."""
    others = any(fault.kind != "dead" for fault in verdict.faults)
    for fault in verdict.faults:
        in_loop = any(net.steps[move.step].iteration for move in fault.witness)
        if not (fault.kind == "dead" and others) and not (fault.kind == "piles_up" and in_loop):
            yield fault


def _may_be_unsound(net: Net) -> bool:
    """Whether it has anything that can: a step to which several arcs lead. Of a tree every branch
    ends."""
    return any(
        len(places) > 1 or net.steps[name].join.mode in ("count", "tokens")
        for name, places in net.incoming.items()
    ) or any(arc.when is not None for arc in net.arcs.values())


def _at_fault(fault: Unsoundness) -> set[str]:
    """The steps of which another check may have said the same."""
    match fault.kind:
        case "waits" | "dead":
            return {fault.step}
        case "piles_up":
            return {move.step for move in fault.witness}
        case "endless":
            return set(fault.steps)
        case _:
            assert_never(fault.kind)


def _explained(net: Net, unfillable: set[str]) -> set[str]:
    """The steps that other checks name."""
    shadowed = {arc.id for arc, _ in find_shadowed_arcs(net, always)}
    shadowed |= {arc.id for arc in net.arcs.values() if always(arc.when) is False}
    shadowed |= {arc.id for arc in find_arcs_behind_ends(net)}
    counted = (
        step.name
        for step in net.transitions
        if step.join.mode == "count" and step.join.count > len(net.incoming[step.name])
    )
    never = (name for name, places in net.incoming.items() if places and shadowed.issuperset(places))
    cycles = (step for cycle in endless_cycles(net, always) for step in cycle)
    return unfillable.union(counted, never, cycles, endless_steps(net, always))


def _holds(net: Net, arc: Arc, failed: bool) -> bool | None:
    """What is known of a guard: it is constant, or asks for nothing but how the step ended."""
    known = always(arc.when)
    if known is not None or not arc.boundary or not isinstance(arc.when, str):
        return known
    done = LOOP_DONE if net.steps[arc.source].loop is not None else DONE
    outcome = {"status": "error" if failed else "ok", "ok": not failed}
    event = {"name": BoundaryName(FAILED if failed else done)}
    return _truth(arc.when, {"outcome": outcome, "output": outcome, "event": event})


def _truth(when: str, names: Mapping[str, Any]) -> bool | None:
    if expressions.check(when, guard=True) or not expressions.names_used(when, guard=True) <= _OF_ENDS:
        return None
    try:
        return expressions.truth(when, names)
    except TemplateError:
        return None


def _say(fault: Unsoundness) -> tuple[str, str]:
    """The message and the hint."""
    name, witness = quote_value(fault.step), _tell(fault.witness)
    match fault.kind:
        case "waits":
            return (
                f"the join of {name} can wait for ever: {witness}",
                f"{_HINT}leave join out: then it waits only for what can still come",
            )
        case "dead":
            return (
                f"step {name} never runs, though an arc leads to it",
                "change what leads to it, or remove it",
            )
        case "piles_up":
            return (
                f"tokens can pile up before {name} without a bound: {witness}",
                f"{_HINT}let a join collect what the cycle sends out before it goes on",
            )
        case "endless":
            cycle = ", ".join(fault.steps)
            behind = f": {witness}" if witness else ""
            return (
                f"no choice leads out of the cycle of {cycle}{behind}",
                f"{_HINT}give one of its steps an arc that leads to an end",
            )
        case _:
            assert_never(fault.kind)


def _tell(witness: Sequence[Move]) -> str:
    """`start → a, b; a → nothing; b → meet`."""
    told = [_tell_move(move) for move in witness]
    if len(told) > _FIRST + _LAST:
        told = [*told[:_FIRST], "…", *told[-_LAST:]]
    return "; ".join(told)


def _tell_move(move: Move) -> str:
    if len(move.targets) <= _MOST_TARGETS:
        return str(move)
    return str(Move(move.step, (*move.targets[:_MOST_TARGETS], "…"), move.failed))
