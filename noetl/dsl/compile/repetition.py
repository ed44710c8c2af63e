"""A task that is called again and again, in the words of tasks and policies.

    fetch.request  keeps those parts of the first request that later ones change (`repeat`)
    fetch.call     one call; what it leaves says whether there is another one, and what differs in its request
    fetch.each     leads past the tasks that run after every call, where the call has failed
    fetch.more     asks whether there is another call: jumps back, after a delay, or goes on
    fetch          yields the whole, and forgets

What is known between calls stands in one variable of the pipeline. Every call ends a task, so it is in the log before the
next one is made, and a pipeline that lost its worker goes on with the call that is due. Policies of the task are those
of its calls: a retry repeats one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from noetl.net.model import Again, Assignment, Backoff, Directive, Rule, Task, Template

#: Calls unless the playbook says how many.
MOST_CALLS: Final = 100
#: Growing delays grow no further than this, unless the first is already longer.
_LONGEST_GROWN_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Repetition:
    """What is special about one. Numbers are numbers or templates; `store` is the variable."""

    #: One call: what is known between calls is laid over it as `{<store>.request}`.
    task: Task
    store: str
    #: What one call is called: `<task>.<call>`.
    call: str
    most: Template
    delay: Template
    backoff: Backoff
    #: What every call leaves, besides what all leave.
    kept: tuple[Assignment, ...]
    #: When there is another call, and what differs in its request.
    then: tuple[Rule, ...]
    #: What the whole yields, and what it assigns.
    result: Template
    sets: tuple[Assignment, ...] = ()
    #: Keeps the parts of the first request that later ones change (`request_of`).
    first: Task | None = None
    each: tuple[Task, ...] = ()
    #: How it was written: `when` of `next`; or how pages follow, and when they end.
    when: tuple[Template, ...] = ()
    pages: str = ""
    until: Template = None
    #: What the first request says where later ones differ.
    config: Mapping[str, Template] = field(default_factory=dict)
    args: Mapping[str, Template] = field(default_factory=dict)

    def tasks(self) -> tuple[Task, ...]:
        """In the order of the pipeline; jumps to the task lead to the first of them. All stand where the task stood:
        in the pipeline proper, or behind its end."""
        first = () if self.first is None else (self.first,)
        each = (self._guard(), *self.each) if self.each else ()
        parts = (*first, *each[:1], self._more())
        every = (*first, self._call(tuple(part.name for part in parts)), *each, self._more(), self._whole())
        return tuple(replace(one, after=self.task.after) for one in every)

    def _call(self, parts: tuple[str, ...]) -> Task:
        store = self.store
        kept = (
            *self.kept,
            sets(store, "count", in_braces(f"{count(store)} + 1")),
            sets(store, "again", False),
            sets(store, "asked", False),
        )
        return replace(
            self.task,
            name=f"{self.task.name}.{self.call}",
            set=kept,
            then=self.then,
            over=in_braces(f"{store}.request | default({{}})"),
            # What `spec.result` selects is of the whole.
            result=replace(self.task.result, select=()),
            again=self._again(parts),
        )

    def _again(self, parts: tuple[str, ...]) -> Again:
        merged = (one.value for rule in self.then for one in rule.then.set if one.merge)
        return Again(
            self.task.name,
            self.most,
            self.when,
            self.pages,
            self.until,
            changes=tuple(dict.fromkeys(key for request in merged for key in request)),
            config=self.config,
            args=self.args,
            parts=(*parts, self.task.name),
            each=tuple(task.name for task in self.each),
        )

    def _guard(self) -> Task:
        name = self.task.name
        past = Rule(in_braces(was_asked(self.store)), Directive("jump", to=f"{name}.more"))
        return Task(f"{name}.each", "noop", rules=(past,), line=self.task.line)

    def _more(self) -> Task:
        store, name = self.store, self.task.name
        wanted = f"not ({was_asked(store)}) and {store}.again and {store}.count < {number(self.most)}"
        back = Directive("jump", to=f"{name}.{self.call}", set=(sets(store, "asked", True),))
        rules = [Rule(in_braces(wanted), back)]
        if self.delay:
            wait = Directive("retry", attempts=2, backoff="fixed", delay=self._delay())
            rules.insert(0, Rule(in_braces(f"{wanted} and _attempt == 1"), wait))
        return Task(f"{name}.more", "noop", rules=tuple(rules), line=self.task.line)

    def _delay(self) -> Template:
        made = self.store + ".count"
        match self.backoff:
            case "none" | "fixed":
                return self.delay
            case "linear":
                grown = f"{self._seconds()} * {made}"
            case "exponential":
                grown = f"{self._seconds()} * 2 ** ([{made} - 1, 30] | min)"
        return in_braces(f"[[{self._seconds()}, {_LONGEST_GROWN_S}] | max, {grown}] | min")

    def _seconds(self) -> str:
        inner = expression(self.delay)
        return json.dumps(self.delay) if inner is None else f"(({inner}) | float)"

    def _whole(self) -> Task:
        task = self.task
        forget = Assignment("local", self.store, None)
        return Task(
            task.name,
            "noop",
            config={"result": self.result},
            set=(*self.sets, forget, *task.set),
            line=task.line,
            result=task.result,
        )


def request_of(task: Task, store: str, config: Iterable[str], args: Iterable[str]) -> Task:
    """The task that keeps these keys of the configuration and these inputs of the first call of `task`, rendered."""
    kept = {key: task.config[key] for key in config}
    inputs = {name: in_braces(f"args[{json.dumps(name)}]") for name in args}
    begin = Assignment("local", store, {"request": {**kept, "args": inputs}})
    return Task(
        f"{task.name}.request",
        "noop",
        # What comes before the first call is not this task.
        config={"result": in_braces("_prev")},
        args=task.args,
        stages=task.stages,
        lines=task.lines,
        set=(begin,),
        line=task.line,
    )


def kept_inputs(store: str, names: Iterable[str]) -> dict[str, Template]:
    """These inputs as the last request had them: others may name them."""
    return {name: in_braces(f"{store}.request.args[{json.dumps(name)}]") for name in names}


def again(store: str, when: Template, request: Template) -> Rule:
    """Where `when` holds there is another call, with `request` merged into the last one."""
    follows = (
        sets(store, "again", True),
        Assignment("local", f"{store}.request", request, merge=True),
    )
    return Rule(when, Directive(set=follows))


def is_cut(store: str) -> str:
    """Whether there would have been another call. One that failed, where a policy went on after it, is missing as well."""
    return f"({was_asked(store)}) or {store}.again"


def was_asked(store: str) -> str:
    """Whether a call was asked for and has not ended well."""
    return f"{store}.asked | default(true)"


def count(store: str) -> str:
    """How many calls ended well."""
    return f"({store}.count | default(0))"


def sets(store: str, name: str, value: Template) -> Assignment:
    return Assignment("local", f"{store}.{name}", value)


# --- expressions ------------------------------------------------------------------------------------


def in_braces(inner: str) -> str:
    return f"{{{{ {inner} }}}}"


def number(value: Template) -> str:
    """A number, or what a template yields, in an expression."""
    return f"(({expression(value)}) | int)" if isinstance(value, str) else str(value)


def subscripts(path: str | None) -> str:
    """`meta.next` as `["meta"]["next"]`: keys of any spelling; digits are indices."""
    parts = path.split(".") if path else []
    return "".join(f"[{part if part.isdecimal() else json.dumps(part)}]" for part in parts)


def expression(value: Template) -> str | None:
    """What stands inside of the braces of a template that is one expression; None for anything else."""
    text = value.strip() if isinstance(value, str) else ""
    if not (text.startswith("{{") and text.endswith("}}")) or text.count("{{") != 1 or "{%" in text:
        return None
    return text[2:-2].strip("-").strip()
