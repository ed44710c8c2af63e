"""Playbooks that call others, and what there is to know about the executions that come of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from textwrap import dedent, indent
from typing import TypeVar

from playbooks import playbook

from noetl.engine.evolve import evolve
from noetl.engine.state import initial_state
from noetl.facts import events as e
from noetl.facts.json import Json, JsonMap
from noetl.pipeline.model import Call
from noetl.testing import Scripted, Simulation
from noetl.usecases import catalog, snapshots
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import RuntimeLimits

Kind = TypeVar("Kind")

#: A child that yields ten times its `n`.
TENFOLD = """
- step: start
  tool: {kind: python, code: "result = n * 10", input: {n: "{{ workload.n }}"}}
"""
#: A child that stays where it is until the test sets ctx.go.
STAYS = """
- step: start
  next: end
- step: end
  spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  tool: {kind: noop, input: {n: "{{ workload.n }}"}}
"""
#: A caller of `tests/child` with `n: 7`.
CALLS = """
- step: start
  tool: {kind: playbook, path: tests/child, input: {n: 7}}
"""
BROKEN = """
- step: start
  tool: {kind: python, code: "raise ValueError('no luck')"}
"""


def called(path: str, workflow: str, root: str = "workload: {n: 1}") -> str:
    """A playbook under `path`."""
    return playbook(workflow, root).replace("path: tests/test", f"path: {path}")


def loop_of_calls(
    items: str = "[1, 2, 3, 4]", spec: str = "mode: parallel, max_in_flight: 2", tasks: str = ""
) -> str:
    """A loop whose iterations call `tests/child` with their item."""
    call = '{kind: playbook, path: tests/child, input: {n: "{{ item }}"}}'
    return f"""
- step: start
  loop: {{in: {items}, iterator: item, spec: {{{spec}}}}}
  tool:{indent(dedent(tasks), "    ") if tasks else " " + call}
"""


class Family:
    """One caller and those that it calls, with every message in the hands of the test."""

    def __init__(
        self,
        caller: str = CALLS,
        child: str = TENFOLD,
        tools: Mapping[str, Scripted] | None = None,
        *,
        root: str = "",
        child_root: str = "workload: {n: 1}",
        limits: RuntimeLimits | None = None,
        **others: str,
    ) -> None:
        self.sim = Simulation(playbook(caller, root), tools, limits=limits)
        for name, text in {"child": child, **others}.items():
            catalog.register(self.sim.rt, called(f"tests/{name}", text, child_root))

    def start(self, payload: JsonMap | None = None) -> str:
        """Starts the caller and delivers all that moves."""
        run = self.sim.start(payload)
        self.sim.settle()
        return run

    def later(self, seconds: float = 61) -> None:
        self.sim.pass_time(seconds)
        self.sim.settle()

    def children(self, run: str) -> list[str]:
        """The executions that `run` has called so far, in that order."""
        return [fact.child_id for fact in self.facts(run, e.ChildRequested)]

    def facts(self, run: str, kind: type[Kind]) -> list[Kind]:
        return [one.fact for one in self.sim.events(run) if isinstance(one.fact, kind)]

    def status(self, run: str) -> str:
        return self.sim.report(run).row.status

    def result(self, run: str) -> Json:
        return self.sim.report(run).result

    def alive(self, runs: list[str]) -> list[str]:
        return [run for run in runs if self.status(run) not in ENDED]

    def everybody(self, run: str) -> Iterator[str]:
        """`run` and all below it."""
        yield run
        for child in self.children(run):
            yield from self.everybody(child)

    def messages(self, purpose: str) -> list[int]:
        """The places of messages of a purpose in the mailbox."""
        return [
            place
            for place, message in enumerate(self.sim.mailbox.messages)
            if message.command is not None and message.command.purpose == purpose
        ]

    def settle_but(self, purpose: str) -> None:
        """Delivers everything except messages of this purpose."""
        for _ in range(10_000):
            held = set(self.messages(purpose))
            free = [place for place in range(len(self.sim.mailbox.messages)) if place not in held]
            if not free:
                return
            self.sim.deliver(free[0])
        raise AssertionError("messages are still moving")

    def check_log(self, run: str) -> None:
        """Folding the log of everybody gives what the scheduler kept, and every cut survives its
        snapshot."""
        for one in self.everybody(run):
            state, cuts = initial_state(one), []
            for event in self.sim.events(one):
                state = evolve(state, event.draft)
                cuts.append(state)
            for number, cut in enumerate(cuts):
                again = snapshots.from_json(json.loads(json.dumps(snapshots.to_json(cut))))
                assert again == cut, f"version {number + 1} of {one} does not survive its snapshot"
            kept = self.sim.rt.states.get(one)
            assert kept is not None
            assert kept == cuts[kept.version - 1]


def retried(task: str, attempts: int = 3, delay: float = 0) -> str:
    """A task with a policy that tries again after errors."""
    rule = (
        f"{{when: \"{{{{ outcome.status == 'error' }}}}\", then: {{do: retry, attempts: {attempts}, "
        f"delay: {delay}}}}}"
    )
    return f"{{{task}, spec: {{policy: {{rules: [{rule}, {{else: {{then: {{do: continue}}}}}}]}}}}}}"


def item_of(call: Call) -> Json:
    return call.args["n"]
