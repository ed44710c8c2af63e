"""Gates are closed: each gets an arc, which never fires, from wherever its branch may end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from noetl.dsl.dialects.rules.context import Gate, RewriteContext
from noetl.dsl.dialects.rules.drafts import Route, Workflow


def close_gates(context: RewriteContext) -> None:
    """As long as the branch can reach its gate, the gate waits."""
    closing = _Closing(context.workflow)
    for gate in context.gates:
        closing.close(gate)


class _Closing:
    """Takes the gates of one rule from the last to the first: what comes after one comes after
    those before it as well, and is walked once for all of them."""

    def __init__(self, workflow: Workflow) -> None:
        self._drafts = {draft.name: draft for draft in workflow.drafts}
        self._targets = {
            name: [route.step for route in draft.onward.routes if route.step]
            if draft.onward is not None
            else []
            for name, draft in self._drafts.items()
        }
        self._gate: Gate | None = None
        #: The steps that come after the gate, and those before it that lead to it.
        self._later: dict[str, None] = {}
        self._reaching: set[str] = set()

    def close(self, gate: Gate) -> None:
        self._turn_to(gate)
        branch: dict[str, None] = {}
        self._walk(
            [gate.branch],
            branch,
            lambda name: name == gate.source or name in self._reaching or name in self._later,
        )
        for name in reversed(branch):
            if self._reaching.isdisjoint(self._targets[name]):
                choice = [Route(gate.path, gate.name, gate.path, when=False, when_path=gate.path)]
                self._drafts[name].lead().choices.insert(0, choice)
                self._targets[name].append(gate.name)
            self._reaching.add(name)

    def _turn_to(self, gate: Gate) -> None:
        before, self._gate = self._gate, gate
        if before is not None and (before.name, before.source) == (gate.name, gate.source):
            return
        starts = self._targets[gate.name]
        if before is None or before.source != gate.source or before.name not in starts:
            self._later = {}
        self._reaching = {gate.name}
        self._walk(starts, self._later, lambda name: name in (gate.source, gate.name))

    def _walk(self, starts: Iterable[str], found: dict[str, None], closed: Callable[[str], bool]) -> None:
        """Adds to `found` the steps that are reached from `starts` (which are among them), the
        nearest first; those that are `closed` are not entered."""
        waiting = deque(starts)
        while waiting:
            name = waiting.popleft()
            if name in found or name not in self._targets or closed(name):
                continue
            found[name] = None
            waiting.extend(self._targets[name])
