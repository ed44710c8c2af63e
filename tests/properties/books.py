"""Random playbooks: nested sequences, forks and joins, cycles, loops, retries, handled failures.

A *calm* book has one outcome, however its messages are mixed: what a step computes depends only on
what is settled when it runs. A *wild* one may also race (first and count joins, withdrawn branches,
failures that stop everything, ctx that branches fight over); of it only safety can be asked.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.pipeline.model import Call

#: A source of choices: `pick(n)` is a number below n.
Pick = Any


def tool(call: Call) -> Json:
    """A number that depends on the place and the inputs of the call and on nothing else.

    `fails` attempts fail first; an item whose index is in `bad` fails for good.
    """
    if call.attempt <= call.args.get("fails", 0):
        raise ToolError("server_error", "not yet", retryable=True)
    if call.where.iteration in call.args.get("bad", ()) or call.args.get("broken"):
        raise ToolError("client_error", f"no {call.where.iteration}")
    inputs = {key: value for key, value in call.args.items() if key not in ("fails", "bad", "broken")}
    text = json.dumps([call.where.step, call.where.iteration, call.task, inputs], sort_keys=True)
    return zlib.crc32(text.encode()) % 9973


@dataclass
class Book:
    """A playbook under construction, and what its runs must respect."""

    steps: list[dict[str, Json]] = field(default_factory=list)
    widths: dict[str, int] = field(default_factory=dict)
    sequential: set[str] = field(default_factory=set)
    best_effort: bool = False
    final: bool = False
    wild: bool = False
    names: Counter[str] = field(default_factory=Counter)
    path: str = "tests/random"
    #: Books that this one calls.
    others: list[Book] = field(default_factory=list)
    regions: dict[str, dict[str, Json]] = field(default_factory=dict)

    def width_of(self, run: str) -> int:
        """How many calls a run of this book, or of one that it calls, may make at once."""
        widths = {name: width for book in (self, *self.others) for name, width in book.widths.items()}
        return widths.get(run.split("#")[0], 1)

    @property
    def all_sequential(self) -> set[str]:
        return self.sequential.union(*(book.sequential for book in self.others))

    @property
    def text(self) -> str:
        spec: dict[str, Json] = {
            "policy": {"failure": {"mode": "best_effort" if self.best_effort else "fail_fast"}}
        }
        if self.final:
            spec["final_step"] = "final"
        root = {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": {"name": "random", "path": self.path},
            "executor": {"spec": spec},
            **({"regions": self.regions} if self.regions else {}),
            "workflow": self.steps,
        }
        return json.dumps(root, indent=1)

    def new(self, kind: str) -> str:
        self.names[kind] += 1
        return f"{kind}{self.names[kind]}"

    def add(self, name: str, **body: Json) -> dict[str, Json]:
        step: dict[str, Json] = {"step": name, **body}
        self.steps.append(step)
        return step

    def __repr__(self) -> str:
        return "\n".join(f"Book(\n{book.text}\n)" for book in (self, *self.others))


def kid(width: int = 2, delay: float = 0) -> Book:
    """A book to be called: a step and a small loop over what it is given. Fails where it is given
    `broken`."""
    book = Book(path="tests/kid", widths={"kid_loop": width})
    given = {"n": "{{ workload.n | default(0) }}", "broken": "{{ workload.broken | default(false) }}"}
    book.add("kid", tool=[{"name": "t0", "kind": "python", "code": "x", "input": given}], next="kid_loop")
    task = {
        "name": "t0",
        "kind": "python",
        "code": "x",
        "input": {"fails": 1 if delay else 0, "item": "{{ item }}"},
    }
    book.add(
        "kid_loop",
        loop={
            "in": "{{ [kid, 1, 2] }}",
            "iterator": "item",
            "spec": {"mode": "parallel", "max_in_flight": width},
        },
        tool=[{**task, "spec": _retry(delay)}],
    )
    return book


def call_of_kid(name: str = "t0", **inputs: Json) -> dict[str, Json]:
    """A task that calls `kid`."""
    return {"name": name, "kind": "playbook", "path": "tests/kid", "input": inputs}


def _retry(delay: float) -> Json:
    error = {
        "when": "{{ outcome.status == 'error' }}",
        "then": {"do": "retry", "attempts": 4, "delay": delay},
    }
    return {"policy": {"rules": [error, {"else": {"then": {"do": "continue"}}}]}}


class Builder:
    """Blocks of steps. Each method adds a block and returns (its first step, its last step)."""

    def __init__(self, pick: Pick, *, wild: bool, calls: bool = False) -> None:
        self.pick = pick
        self.calls = calls
        self.book = Book(wild=wild)
        self.budget = 5

    def build(self) -> Book:
        book = self.book
        if self.calls:
            self.budget = 3
            book.others.append(kid(self.pick(2) + 1, (0, 5)[self.pick(2)]))
        first, last = self.sequence("start", depth=1 if self.calls else 2)
        if book.wild:
            book.best_effort = self.pick(2) == 0
        if self.pick(4) == 0:
            book.final = True
            book.add("final", tool={"kind": "python", "code": "x", "input": {"n": 1}})
        names = [step["step"] for step in book.steps]
        book.steps.insert(0, book.steps.pop(names.index(first)))
        assert last in names
        return book

    def block(self, before: str | None, depth: int) -> tuple[str, str]:
        self.budget -= 1
        kinds = [self.plain, self.plain, self.loop, self.loop]
        if depth > 0 and self.budget > 0:
            kinds += [self.fork, self.fork, self.cycle, self.handled]
        if self.calls:
            kinds += [self.call, self.call_loop, self.call_loop]
        return kinds[self.pick(len(kinds))](before, depth)

    def sequence(self, before: str | None, depth: int) -> tuple[str, str]:
        first, last = self.block(None if before == "start" else before, depth)
        for _ in range(self.pick(2) + (before == "start")):
            head, tail = self.block(last, depth)
            self.link(last, head)
            last = tail
        return first, last

    def link(self, source: str, target: str, **arc: Json) -> None:
        step = next(step for step in self.book.steps if step["step"] == source)
        mode = "inclusive" if source.startswith("fork") else "exclusive"
        router = step.setdefault("next", {"spec": {"mode": mode}, "arcs": []})
        router["arcs"].append({"step": target, **arc})

    # --- blocks ----------------------------------------------------------------------------------

    def task(self, name: str, **inputs: Json) -> dict[str, Json]:
        fails = (0, 0, 0, 1, 2)[self.pick(5)]
        return {
            "name": name,
            "kind": "python",
            "code": "x",
            "input": {"fails": fails, **inputs},
            "spec": _retry((0, 5)[self.pick(2)]),
        }

    def pipeline(self, before: str | None, **inputs: Json) -> list[dict[str, Json]]:
        given = {"before": f"{{{{ {before} }}}}"} if before else {}
        tasks = [self.task("t0", **given, **inputs)]
        more = (
            self.task(f"t{n}", previous=f"{{{{ t{n - 1} }}}}", **inputs) for n in range(1, 1 + self.pick(3))
        )
        return [*tasks, *more, *self.behind()]

    def behind(self) -> list[dict[str, Json]]:
        """Tasks that run once the pipeline has ended: of two with opposite guards one, and then
        another one."""
        if self.pick(3) != 0:
            return []
        guards: list[Json] = ["{{ outcome.status == 'ok' }}", "event.name == 'call.error'", True]
        tasks = [
            self.task(f"after{number}", was="{{ [outcome.status, result, error.message, _prev] }}")
            for number in range(3)
        ]
        for task, guard in zip(tasks, guards, strict=True):
            task["spec"] = {**task["spec"], "after": guard}
        return tasks

    def plain(self, before: str | None, _depth: int) -> tuple[str, str]:
        name = self.book.new("plain")
        tasks = self.pipeline(before)
        if self.pick(3) == 0:
            tasks[0]["set"] = {f"ctx.{name}": "{{ result }}"}
        if self.book.wild and self.pick(4) == 0:
            tasks[-1]["set"] = {"ctx.shared": "{{ result }}"}
        if self.book.wild and self.pick(6) == 0:
            tasks[-1]["input"]["broken"] = True
        step = self.book.add(name, tool=tasks)
        if self.pick(4) == 0:
            step["set"] = {f"ctx.of.{name}": "{{ result }}"}
        return name, name

    def loop(self, before: str | None, _depth: int) -> tuple[str, str]:
        name = self.book.new("loop")
        count, width = self.pick(6), self.pick(3) + 1
        mode = ("parallel", "parallel", "sequential")[self.pick(3)]
        spec: dict[str, Json] = {"mode": mode, "max_in_flight": width}
        self.book.widths[name] = width if mode == "parallel" else 1
        bad = [self.pick(6)] if self.pick(3) == 0 else []
        if bad and not self.book.wild:
            spec["policy"] = {"failure": {"mode": "best_effort"}}
        tasks = self.pipeline(before, item="{{ iter.item }}", bad=bad)
        if mode == "sequential":
            self.book.sequential.add(name)
            if self.pick(2) == 0:
                tasks[0]["input"]["seen"] = f"{{{{ ctx.{name}_last }}}}"
                tasks[-1]["set"] = {f"ctx.{name}_last": "{{ result }}"}
        elif self.pick(2) == 0:
            spec["reduce"] = {f"ctx.{name}_all": "append", f"ctx.{name}_sum": "sum"}
            tasks[-1]["set"] = {f"ctx.{name}_all": "{{ result }}", f"ctx.{name}_sum": "{{ result }}"}
        self.book.add(
            name, loop={"in": list(range(100, 100 + count)), "iterator": "item", "spec": spec}, tool=tasks
        )
        return name, name

    def call(self, before: str | None, _depth: int) -> tuple[str, str]:
        name = self.book.new("call")
        given = {"n": f"{{{{ {before} }}}}"} if before else {}
        if self.book.wild and self.pick(4) == 0:
            given["broken"] = "yes"
        after = self.task("t1", previous="{{ t0 }}")
        self.book.add(name, tool=[call_of_kid(**given), after])
        return name, name

    def call_loop(self, before: str | None, _depth: int) -> tuple[str, str]:
        name = self.book.new("calls")
        count, width = self.pick(4) + 1, self.pick(2) + 1
        mode = ("parallel", "parallel", "sequential")[self.pick(3)]
        spec: dict[str, Json] = {"mode": mode, "max_in_flight": width}
        self.book.widths[name] = width if mode == "parallel" else 1
        if mode == "sequential":
            self.book.sequential.add(name)
        given: dict[str, Json] = {"n": "{{ item }}"}
        if self.book.wild and self.pick(3) == 0:
            given["broken"] = "{{ 'yes' if item == 101 else '' }}"
        tasks = [call_of_kid(**given)]
        if self.pick(2) == 0:
            tasks = [self.task("t1", item="{{ item }}"), *tasks, self.task("t2", was="{{ t0 }}")]
        items = list(range(100, 100 + count))
        self.book.add(name, loop={"in": items, "iterator": "item", "spec": spec}, tool=tasks)
        return name, name

    def fork(self, before: str | None, depth: int) -> tuple[str, str]:
        fork, join = self.book.new("fork"), self.book.new("join")
        self.book.add(fork, tool={"kind": "noop"})
        lasts = []
        for number in range(self.pick(2) + 2):
            head, tail = self.sequence(before, depth - 1)
            guard = {"when": "{{ false }}"} if number > 1 and self.pick(4) == 0 else {}
            self.link(fork, head, **guard)
            lasts.append((tail, bool(guard)))
        join_spec: Json = "auto" if any(guarded for _, guarded in lasts) or self.pick(2) == 0 else "all"
        if self.book.wild:
            count = {"mode": "count", "count": 2}
            first = {"mode": "first", "cancel_rest": self.pick(2) == 0}
            join_spec = (join_spec, "all", "any", "first", count, first)[self.pick(6)]
        if self.pick(2) == 0 and join_spec in ("auto", "all"):
            inputs = {f"b{n}": f"{{{{ {tail} }}}}" for n, (tail, _) in enumerate(lasts)}
            self.book.add(join, spec={"join": join_spec}, tool=[self.task("t0", **inputs)])
        else:
            self.book.add(join, spec={"join": join_spec}, tool={"kind": "noop"})
        for tail, _ in lasts:
            self.link(tail, join)
        return fork, join

    def cycle(self, before: str | None, depth: int) -> tuple[str, str]:
        head, tail = self.book.new("head"), self.book.new("tail")
        counter = f"ctx.n_{head}"
        count = {counter: f"{{{{ {counter} | default(0) + 1 }}}}"}
        self.book.add(head, tool=self.pipeline(before, n=f"{{{{ {counter} }}}}"), set=count)
        first, last = self.sequence(head, depth - 1)
        self.link(head, first)
        after = self.book.new("after")
        self.book.add(tail, tool={"kind": "noop"})
        self.link(last, tail)
        self.link(tail, head, when=f"{{{{ {counter} < {self.pick(2) + 2} }}}}")
        self.book.add(after, tool={"kind": "noop"})
        self.link(tail, after)
        return head, after

    def handled(self, before: str | None, _depth: int) -> tuple[str, str]:
        name, handler, after = self.book.new("fails"), self.book.new("handler"), self.book.new("after")
        self.book.add(name, tool=[{"name": "t0", "kind": "python", "code": "x", "input": {"broken": True}}])
        self.book.add(handler, tool=self.pipeline(before, why="{{ args.why }}"))
        self.book.add(after, tool={"kind": "noop"})
        self.link(name, handler, when="{{ outcome.status == 'error' }}", args={"why": "{{ error.message }}"})
        self.link(name, after)
        self.link(handler, after)
        return name, after


@st.composite
def books(draw: st.DrawFn, *, wild: bool = False, calls: bool = False) -> Book:
    """A random book."""
    numbers = draw(st.lists(st.integers(0, 59), min_size=30, max_size=120))
    stream = iter(numbers)
    return Builder(lambda n: next(stream, 0) % n, wild=wild, calls=calls).build()


@st.composite
def tangles(draw: st.DrawFn) -> Book:
    """Steps without tools or with one, arcs anywhere, joins of any kind; a counter ends every
    cycle."""
    size = draw(st.integers(3, 6))
    book = Book(wild=True, best_effort=draw(st.booleans()))
    joins: list[Json] = ["auto", "auto", "all", "any", "first", {"mode": "count", "count": 2}]
    joins.append({"mode": "first", "cancel_rest": True})
    for number in range(size):
        least = 2 if number == 0 else 1 if number < size - 1 else 0
        others = st.sampled_from([other for other in range(size) if other != number])
        targets = draw(st.lists(others, min_size=least, max_size=3, unique=True))
        arcs = [{"step": f"s{target}", "when": "{{ ctx.n < 12 }}"} for target in targets]
        mode = draw(st.sampled_from(["inclusive", "inclusive", "inclusive", "exclusive"]))
        body: dict[str, Json] = {"set": {"ctx.n": "{{ ctx.n | default(0) + 1 }}"}}
        body["next"] = {"spec": {"mode": mode}, "arcs": arcs}
        if not arcs or draw(st.booleans()):
            body["tool"] = {"kind": "python", "code": "x", "input": {"fails": 0}}
        body["spec"] = {"join": draw(st.sampled_from(joins)) if number else "auto"}
        book.add(f"s{number}", **body)
    return book
