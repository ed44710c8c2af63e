"""From where a join can still be reached: what it has to know to say whether it goes on waiting.

The engine asks this of a net, and `noetl.net.soundness` of one that was made smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from noetl.net.graphs import ROOT, Dominators
from noetl.net.model import Net, Transition


@dataclass(frozen=True, slots=True)
class Reachability:
    """From where a join can still be reached: `runs` are steps whose active run can send a token on
    its way, `tokens` steps whose waiting token can."""

    runs: frozenset[str]
    tokens: frozenset[str]


def is_or_join(net: Net, step: Transition) -> bool:
    """Whether it fires once, when no other token can still come."""
    return step.join.mode == "auto" and len(net.incoming[step.name]) > 1


@dataclass(frozen=True)
class StepGraph:
    """Steps and where they lead. `leads` keeps the order of the document; `or_joins` are those that
    wait for all that can come, `waiting` all before which a token may wait for one of another arc.
    """

    entry: str
    leads: Mapping[str, AbstractSet[str]]
    or_joins: frozenset[str]
    waiting: frozenset[str]

    @classmethod
    def of(cls, net: Net) -> StepGraph:
        """That of a whole net."""
        leads = {step.name: {arc.step for arc in step.ways} for step in net.transitions}
        several = [step for step in net.transitions if len(net.incoming[step.name]) > 1]
        merging = [step for step in net.transitions if step.join.mode == "tokens" and step.join.count > 1]
        return cls(
            net.entry,
            leads,
            frozenset(step.name for step in several if step.join.mode == "auto"),
            frozenset(step.name for step in several if step.join.mode in ("auto", "all", "count"))
            | frozenset(step.name for step in merging),
        )

    def reach(self, join: str) -> Reachability:
        """Paths to `join`, guards ignored, that pass neither the join itself (a cycle does not wait
        for itself) nor another join that waits for this one (of the two, neither could ever fire
        first)."""
        mutual = self.mutual(join)
        before = frozenset(_walk(join, self._predecessors, mutual | {join})) - {join}
        return Reachability(before, before - mutual)

    def mutual(self, join: str) -> frozenset[str]:
        """The joins behind `join` that would wait for it, so that it does not wait for them."""
        waiting = self._after(join) & self.waiting - {join}
        return frozenset(name for name in waiting if not self._goes_first(name, join))

    def _goes_first(self, name: str, join: str) -> bool:
        """Whether of two OR-joins the one called `name`, to which `join` leads, does not wait for
        it. Where they lead to each other and neither dominates the other (a cycle with several
        entries), the first in the document begins."""
        return (
            self._order[name] < self._order[join]
            and name in self.or_joins
            and join in self._after(name)
            and not self._dominators.dominates(join, name)
            and not self._dominators.dominates(name, join)
        )

    def _after(self, join: str) -> frozenset[str]:
        """What `join` leads to. What comes after a step that dominates it is its next round: joins
        there do not wait for it."""
        if join not in self._behind:
            self._behind[join] = frozenset(_walk(join, self.leads, self._above(join)))
        return self._behind[join]

    def _above(self, name: str) -> frozenset[str]:
        """The steps that every path from the entry to `name` passes, itself included."""
        return frozenset({name, *self._dominators.above(name)}) - {ROOT}

    @cached_property
    def _behind(self) -> dict[str, frozenset[str]]:
        return {}

    @cached_property
    def _order(self) -> Mapping[str, int]:
        return {name: position for position, name in enumerate(self.leads)}

    @cached_property
    def _dominators(self) -> Dominators:
        return Dominators({ROOT: [self.entry], **self.leads})

    @cached_property
    def _predecessors(self) -> Mapping[str, AbstractSet[str]]:
        edges: dict[str, set[str]] = {name: set() for name in self.leads}
        for name, following in self.leads.items():
            for one in following:
                edges[one].add(name)
        return edges


def _walk(start: str, edges: Mapping[str, AbstractSet[str]], closed: frozenset[str]) -> set[str]:
    """All that can be reached from `start`; what is in `closed` is entered but not left."""
    seen: set[str] = set()
    todo = list(edges[start])
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in closed:
            todo.extend(edges[name])
    return seen
