"""The guard-free net: steps with the ways in which a run of them can end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Final, Literal, TypeAlias

from noetl.net.graphs import components
from noetl.net.joins import StepGraph
from noetl.net.model import Arc, Net, Transition
from noetl.net.soundness.guards import Assumed, read_guard
from noetl.net.soundness.verdict import Move, Trail

#: What is known of an arc's guard where the run has failed or not: that it holds, that it does not,
#: or (None) neither.
Holds: TypeAlias = Callable[[Arc, bool], bool | None]
#: How tokens make a step run: each by itself, all that can come, one of every arc, so many arcs, or
#: so many tokens.
Kind = Literal["each", "or", "all", "counted", "merged"]

#: A step whose routers can choose in more ways is not looked at.
MOST_WAYS: Final = 256
#: Nor is an arc that puts down more tokens at once, or a join that takes more.
MOST_TOKENS: Final = 16


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run can end: the places that get a token, as often as they get one, and what happened.
    `ends`: all else ends with it."""

    places: tuple[str, ...]
    trail: Trail
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A step, or several that were made one. `leads` are the steps to which any arc leads, `needed`
    is that of a counted join, which with 1 drops the rest of its round, or of one that merges.

    `instant`: a run of it ends before anything else happens. `cancels` what is under way when it
    fires. `late`: admission may keep its tokens waiting for somebody outside. `waits`: a token may
    have to wait for one of another arc.
    """

    name: str
    kind: Kind
    places: tuple[str, ...]
    ways: tuple[RunEnd, ...]
    leads: frozenset[str]
    needed: int = 0
    instant: bool = False
    cancels: bool = False
    late: bool = False
    waits: bool = False

    @property
    def races(self) -> bool:
        """Whether it matters which of its tokens comes first."""
        return self.kind == "counted" or self.cancels


@dataclass(frozen=True)
class FreeNet:
    """Nodes in the order of the document. `hosts` names the node that a step became a part of."""

    entry: str
    nodes: Mapping[str, Node]
    hosts: Mapping[str, str]

    @cached_property
    def graph(self) -> StepGraph:
        """What leads where."""
        return StepGraph(
            self.entry,
            {name: node.leads & self.nodes.keys() for name, node in self.nodes.items()},
            frozenset(name for name, node in self.nodes.items() if node.kind == "or"),
            frozenset(name for name, node in self.nodes.items() if node.waits),
        )

    @cached_property
    def circular(self) -> frozenset[str]:
        """The nodes that lead to themselves."""
        leads = self.graph.leads
        found = (one for one in components(leads) if len(one) > 1 or one[0] in leads[one[0]])
        return frozenset(name for one in found for name in one)

    @cached_property
    def counts_tokens(self) -> bool:
        """Whether it matters how many tokens there are before a step, or how a run elsewhere ends:
        then no part of the net stands for itself."""
        ways = (way for node in self.nodes.values() for way in node.ways)
        merges = any(node.kind == "merged" for node in self.nodes.values())
        return merges or any(way.ends or len(set(way.places)) < len(way.places) for way in ways)

    @property
    def is_safe(self) -> bool:
        """Whether the shape alone shows that nothing runs twice: there is no cycle, and no step
        runs for each of several tokens."""
        several = (node for node in self.nodes.values() if node.kind == "each" and len(node.places) > 1)
        return not self.circular and not any(several)

    def host(self, step: str) -> str:
        """The node that stands for a step."""
        while step in self.hosts:
            step = self.hosts[step]
        return step


@dataclass(frozen=True, slots=True)
class TooWide:
    """A step that can go on in too many ways: `why` says which."""

    step: str
    why: str


def _find_too_wide(net: Net, step: Transition, ways: Sequence[RunEnd]) -> TooWide | None:
    if len(ways) > MOST_WAYS:
        return TooWide(step.name, f"the router of {step.name!r} can choose in too many ways")
    if step.join.mode == "tokens" and step.join.count > MOST_TOKENS:
        return TooWide(step.name, f"the join of {step.name!r} takes {step.join.count} tokens")
    for arc in step.ways:
        if arc.step != net.final_step and not (isinstance(arc.times, int) and arc.times <= MOST_TOKENS):
            return TooWide(step.name, f"an arc of {step.name!r} puts down too many tokens")
    return None


def shape_of(net: Net, holds: Holds) -> FreeNet | TooWide:
    """The guard-free net of `net`, without its final step, which runs when all has ended, and
    without handlers, which no token reaches; one that an arc leads to is a fault of its own."""
    nodes: dict[str, Node] = {}
    for step in net.transitions:
        if step.name == net.final_step or (step.name in net.handlers and not net.incoming[step.name]):
            continue
        ways = list(islice(_ways(net, step, holds), MOST_WAYS + 1))
        if (wide := _find_too_wide(net, step, ways)) is not None:
            return wide
        nodes[step.name] = _node(net, step, ways)
    return FreeNet(net.entry, nodes, {})


def _node(net: Net, step: Transition, ways: Sequence[RunEnd]) -> Node:
    places, join = net.incoming[step.name], step.join
    several = len(places) > 1
    return Node(
        step.name,
        _kind(step, several=several),
        places,
        merge_ways(ways),
        frozenset(arc.step for arc in step.ways if arc.step != net.final_step),
        needed=join.count if join.mode in ("count", "tokens") else 1,
        instant=not step.tasks and step.loop is None,
        cancels=join.cancel_rest and (join.mode in ("first", "count") or (several and join.mode == "auto")),
        late=_may_be_late(step),
        waits=(several and join.mode in ("auto", "all", "count")) or _merges(step),
    )


def _may_be_late(step: Transition) -> bool:
    denied = step.admit is not None and step.admit.on_deny == "pending" and _may_deny(step)
    return denied or step.milestone is not None


def _merges(step: Transition) -> bool:
    return step.join.mode == "tokens" and step.join.count > 1


def _may_deny(step: Transition) -> bool:
    return step.admit is not None and not all(rule.allow for rule in step.admit.rules)


def _kind(step: Transition, *, several: bool) -> Kind:
    join = step.join
    match join.mode:
        case "auto" if several:
            return "or"
        case "all" if several:
            return "all"
        case "first" if several or join.cancel_rest:
            return "counted"
        case "count" if several or join.count > 1 or join.cancel_rest:
            return "counted"
        case "tokens" if join.count > 1:
            return "merged"
        case _:
            return "each"


def merge_ways(ways: Sequence[RunEnd]) -> tuple[RunEnd, ...]:
    """The first of those that fill the same places: fusion of parallel transitions (Murata, "Petri
    nets: properties, analysis and applications", Proc. IEEE 77, 1989, fig. 22 d)."""
    found: dict[tuple[bool, tuple[str, ...]], RunEnd] = {}
    for way in ways:
        found.setdefault((way.ends, tuple(sorted(way.places))), way)
    return tuple(found.values())


def _ways(net: Net, step: Transition, holds: Holds) -> Iterator[RunEnd]:
    """How a run of `step` can end. A branch that fails is a failure that is reported: what follows
    from it is not looked at."""
    instant = not step.tasks and step.loop is None
    denied = step.admit.on_deny if step.admit is not None and _may_deny(step) else ""
    strict = net.no_next_is_error if step.no_next_is_error is None else step.no_next_is_error
    if step.terminate is not None:
        yield RunEnd((), Move(step.name, ()), ends=True)
    if step.terminate is None or denied == "pass":
        for arcs in _routes(step, holds, failed=False):
            if arcs or not (strict and step.ways):
                yield _way(net, step, arcs, failed=False)
    if not instant or denied == "fail":
        for arcs in _routes(step, holds, failed=True):
            if arcs:
                yield _way(net, step, arcs, failed=True)
    if denied == "skip" or step.milestone is not None:
        yield _way(net, step, (), failed=False)


def _way(net: Net, step: Transition, arcs: Sequence[Arc], *, failed: bool) -> RunEnd:
    places = tuple(arc.id for arc in arcs if arc.step != net.final_step for _ in range(_times(arc)))
    return RunEnd(places, Move(step.name, tuple(arc.step for arc in arcs), failed))


def _times(arc: Arc) -> int:
    """How many tokens it puts down; what is not known makes the net one that is not looked at."""
    return min(arc.times, MOST_TOKENS) if isinstance(arc.times, int) else 1


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a router has chosen so far, and what it has assumed for that."""

    taken: tuple[Arc, ...] = ()
    assumed: Assumed = field(default_factory=Assumed)

    def ask(self, arc: Arc, held: bool | None) -> Iterator[_Asked]:
        """What comes of it where the guard of `arc` holds or not."""
        found = self.assumed.ask(read_guard(arc.when)) if held is None else [(held, self.assumed)]
        for holds, assumed in found:
            yield _Asked((*self.taken, arc) if holds else self.taken, assumed)


def _routes(step: Transition, holds: Holds, *, failed: bool) -> Iterator[tuple[Arc, ...]]:
    """The sets of arcs that its router can take together; not all of more than MOST_WAYS."""
    asking = [_Asked()]
    for choice in step.choices:
        if step.router != "inclusive":
            yield from (one.taken for one in asking if one.taken)
            asking = [one for one in asking if not one.taken]
        for arc in choice:
            if not failed or arc.boundary:
                held = holds(arc, failed)
                asking = list(islice((now for one in asking for now in one.ask(arc, held)), MOST_WAYS + 1))
    yield from (one.taken for one in asking)


def producers_of(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Place → the node whose runs fill it. Those that nothing fills have none."""
    return {place: node.name for node in nodes.values() for way in node.ways for place in way.places}


def consumers_of(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Place → the node that takes tokens from it."""
    return {place: node.name for node in nodes.values() for place in node.places}
