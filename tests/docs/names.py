"""Which names templates see at which place: a playbook that asks for all of them everywhere, and
what it found."""

from __future__ import annotations

from functools import cache
from typing import Final

import yaml

from noetl.dsl import compile_playbook
from noetl.facts.events import Evaluated
from noetl.facts.json import Json, JsonMap
from noetl.testing import KINDS, Simulation

#: Name, as the page writes it → what the playbook below asks for.
NAMES: Final = {
    "workload.x": "workload.w",
    "x of the workload": "w",
    "payload.x": "payload.p",
    "ctx.x, vars.x": "vars.c",
    "x of ctx": "c",
    "args.x, input.x": "input.a",
    "x of args": "a",
    "<step>": "earlier",
    "<step>.results.<task>": "earlier.results.t",
    "<task>": "first",
    "x of a task's set": "own",
    "step.x": "step.s",
    "iter.x": "iter.item",
    "the bare iterator": "item",
    "loop_index": "loop_index",
    "_prev": "_prev",
    "_task": "_task",
    "_attempt": "_attempt",
    "outcome": "outcome",
    "output": "output",
    "result, response": "response",
    "error": "error",
    "event": "event.name",
    "execution_id": "execution_id",
    "job.uuid": "job.uuid",
    "env.X": "env",
    "keychain.x": "keychain.k",
    "now()": "now",
}
PLACES: Final = ("workload", "keychain", "ctx", "before", "task", "rules", "set", "after", "end")


def matrix() -> dict[str, dict[str, str]]:
    """Name → place → `yes`, `loop` (only in loops) or `-`."""
    plain = [_seen(loops=False, fails=fails) for fails in (False, True)]
    looped = [_seen(loops=True, fails=fails) for fails in (False, True)]
    return {
        name: {
            place: "yes"
            if any(name in seen.get(place, ()) for seen in plain)
            else "loop"
            if any(name in seen.get(place, ()) for seen in looped)
            else "-"
            for place in PLACES
        }
        for name in NAMES
    }


def _seen(*, loops: bool, fails: bool) -> dict[str, set[str]]:
    """Place → the names that were there."""
    simulation = Simulation(_playbook(loops=loops, fails=fails))
    execution_id = simulation.start({"p": 1})
    simulation.settle()
    report = simulation.report(execution_id)
    assert report.row.status == "completed", report.row.error
    found = {place: _names(report.ctx[place]) for place in PLACES if place in report.ctx}
    return {**found, "keychain": set(_keychain(simulation, execution_id))}


def _names(probe: JsonMap) -> set[str]:
    return {name for name, there in probe.items() if there}


def _probe() -> dict[str, Json]:
    return {name: f"{{{{ ({asked}) is defined }}}}" for name, asked in NAMES.items()}


def _keychain(simulation: Simulation, execution_id: str) -> set[str]:
    """The names that entries of the keychain found: what they came to is in the log."""
    begun = next(event.fact for event in simulation.events(execution_id) if isinstance(event.fact, Evaluated))
    return {name for name in NAMES if begun.keychain.get(_entry(name), {}).get("path") == "there"}


def _entry(name: str) -> str:
    return f"k{list(NAMES).index(name)}"


def _playbook(*, loops: bool, fails: bool) -> str:
    """`probing` asks for every name, its second task well or badly, in a loop of one item or in
    none."""
    # An input that reads the item is one of each iteration, unless the collection is made of it.
    loop = {"loop": {"in": "{{ [7] if args.before else [] }}", "iterator": "item"}} if loops else {}
    assigned = {"own": 1, "step.s": 1, **({"iter.i": 1} if loops else {})}
    kept = _kept(rules=_probe(), before="{{ args.before }}", task="{{ args.task }}")
    second = {
        "name": "second",
        "kind": "python",
        "code": "raise ValueError" if fails else "result = {}",
        "input": {"task": _probe()},
        "spec": {"policy": {"rules": [{"else": {"do": "fail" if fails else "continue", "set": kept}}]}},
        "set": _kept(set=_probe()),
    }
    behind = {"name": "behind", "kind": "noop", "input": _probe(), "spec": {"after": True}}
    probing = {
        "step": "probing",
        **loop,
        "input": {"before": _probe()},
        "tool": [
            {"name": "first", "kind": "noop", "set": assigned},
            second,
            {**behind, "set": _kept(after="{{ output }}")},
        ],
        "next": {
            "arcs": [{"step": "end", "when": "{{ event.name is defined }}", "set": _kept(end=_probe())}]
        },
    }
    earlier = {
        "step": "earlier",
        "tool": [{"name": "t", "kind": "noop", "input": {"r": 1}}],
        "set": {"ctx.c": 1},
        "next": {"step": "probing", "args": {"a": 1}},
    }
    whole = {
        "metadata": {"name": "names", "path": "docs/names"},
        "workload": {"w": 1, "probe": _probe()},
        "ctx": {"workload": "{{ workload.probe }}", "ctx": _probe()},
        "keychain": dict(_entries()),
        "workflow": [earlier, probing, {"step": "end"}],
    }
    return yaml.safe_dump(whole, sort_keys=False)


def _kept(**values: Json) -> dict[str, Json]:
    """Assignments that keep what was found under the name of its place."""
    return {f"ctx.{place}": value for place, value in values.items()}


@cache
def _entries() -> JsonMap:
    """An entry for each name that one may ask for; the others are refused."""
    entries: dict[str, Json] = {"k": {"kind": "secret", "provider": "env"}}
    for name, asked in NAMES.items():
        path = f"{{{{ 'there' if {asked} is defined else 'missing' }}}}"
        entry: Json = {"kind": "secret", "provider": "env", "path": path}
        steps: Json = [{"step": "earlier", "next": "end"}, {"step": "end"}]
        text = yaml.safe_dump({"workload": {"w": 1}, "keychain": {"k": entry}, "workflow": steps})
        if compile_playbook(text, file="names", kinds=KINDS).net:
            entries[_entry(name)] = entry
    return entries
