"""The classic dialect: `vars`, `case`, `sink` and `retry`, of steps and of tools."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Set
from typing import Final

from noetl.dsl.dialects.classic import cases
from noetl.dsl.dialects.classic.retries import RetryEntry, policy_rules, repetition
from noetl.dsl.dialects.classic.sinks import SinkTasks, step_behind
from noetl.dsl.dialects.parts import SUCCEEDED, Guards, Item, Located, NewNames, items_of, workbook_of
from noetl.dsl.document import Classic, DocumentPart, Sink, Step, Tool
from noetl.dsl.document.base import Parts, given_keys
from noetl.dsl.document.identifiers import in_ctx, readable
from noetl.dsl.document.retries import is_classic_retry
from noetl.dsl.document.validation import warn_unknown
from noetl.dsl.problems import SINCE, Code, Path
from noetl.dsl.read.origins import Origins, Rewritten, Tree, settle, value_at
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json
from noetl.net.model import KindInfo

#: Key → what the canonical form has for it.
_CANONICAL: Final[Mapping[str, str]] = {
    "vars": "set: {ctx.<name>: ...}",
    "case": "next: {spec: {mode: first}, arcs: [{step, when, set}]}",
    "sink": "a task with spec.after behind the others",
    "retry": "retry: {attempts, delay, backoff, jitter, when} after errors, and repeat: after successes",
}
_SCOPED: Final = ("ctx.", "vars.")


def rewrite(
    kinds: Mapping[str, KindInfo], parts: Parts, data: dict[str, Json], report: ProblemReport
) -> tuple[dict[str, Json], Origins] | None:
    """`data`, whose document has these `parts`, without this dialect; None where it has none of
    it."""
    found = [_of_this_dialect(part, path, report) for part, path in parts]
    if not any(found):
        return None
    root = Located(data, ())
    book = {name: value_at(data, path) for name, path in workbook_of(data).items()}
    rewriter = _Rewriter(SinkTasks(kinds, book), report)
    tree: dict[str, Tree] = dict(data)
    if (workbook := root.get("workbook")) is not None:
        tree["workbook"] = rewriter.workbook(workbook)
    if (workflow := root.get("workflow")) is not None:
        tree["workflow"] = [step for one in workflow.items() for step in rewriter.steps(one)]
    return settle(tree)


def _of_this_dialect(part: DocumentPart, path: Path, report: ProblemReport) -> bool:
    """Whether a part has keys of this dialect; warns of each, and of keys that mean nothing inside
    of them."""
    if isinstance(part, Classic):
        warn_unknown(part, path, report)
    if isinstance(part, Sink):
        for key in _classic_keys(part.model_extra or {}):
            hint = "say it in the canonical form" if key == "retry" else "put it at the step"
            report.add(Code.MISPLACED, (*path, key), f"`{key}` stands inside of a sink", hint, at_key=True)
    if not isinstance(part, Step | Tool):
        return False
    found = _classic_keys({key: getattr(part, key) for key in _CANONICAL.keys() & set(given_keys(part))})
    if ("repeat", "each") in itertools.pairwise(path):
        # What is rewritten are the tasks of steps.
        for key in sorted(found):
            hint = "make it a further task of each" if key == "sink" else "say it in the canonical form"
            report.add(Code.MISPLACED, (*path, key), f"`{key}` stands at a task of `each`", hint, at_key=True)
        return False
    for key in found:
        message = f"`{key}` belongs to the classic dialect"
        hint = f"write {_CANONICAL[key]}; `noetl migrate` does"
        report.add(Code.DEPRECATED, (*path, key), message, hint, at_key=True)
    misplaced = _CANONICAL.keys() & (part.model_extra or {}).keys()
    for key in misplaced:
        report.add(
            Code.MISPLACED, (*path, key), f"`{key}` is said of a step", "put it beside tool:", at_key=True
        )
    return bool(found or misplaced)


def _classic_keys(part: object) -> Set[str]:
    """The keys of a part that are of this dialect: a `retry` is in some of its forms."""
    if not isinstance(part, Mapping):
        return set()
    found = _CANONICAL.keys() & part.keys()
    return found if is_classic_retry(part.get("retry")) else found - {"retry"}


def _retry_of_last_task(step: Located) -> Located | None:
    """The `retry` of a step of this dialect; that of another one is the default of each task."""
    return step.get("retry") if _classic_keys(step.value) else None


class _Rewriter:
    """Rewrites what has a key of this dialect; everything else stays as it is."""

    def __init__(self, sinks: SinkTasks, report: ProblemReport) -> None:
        self._sinks = sinks
        self._report = report
        self._guards = Guards(report)

    def workbook(self, book: Located) -> Tree:
        if isinstance(book.value, list):
            return [self._of_workbook(one) for one in book.items()]
        return {name: self._of_workbook(one) for name, one in book.entries().items()}

    def _of_workbook(self, entry: Located) -> Tree:
        inner = entry.get("tool") if "kind" not in entry.value else None
        tool = entry if inner is None else inner
        if (sink := tool.get("sink")) is not None:
            message = "a sink takes the result of a step, and this task belongs to none"
            self._report.add(Code.MISPLACED, sink.path, message, "put it at the steps that call the task")
        made = self._item(Item("", None, tool), None, NewNames(set()))
        return made if inner is None else Rewritten({**entry.value, "tool": made}, entry.path)

    def steps(self, step: Located) -> list[Tree]:
        """A step, and the one that it takes besides."""
        items = items_of(step.get("tool"))
        if not any(_classic_keys(part.value) for part in (step, *(item.tool for item in items))):
            return [step.moved]
        routes, found, further = self._routes(step)
        rewritten = _classic_keys(step.value) and _CANONICAL.keys()
        made: dict[str, Tree] = {key: value for key, value in step.value.items() if key not in rewritten}
        labels = NewNames({item.name for item in items})
        behind_it, assigned = self._behind(step, items, found, labels)
        if behind_it or items:
            made["tool"] = self._tool(step, items, behind_it, labels)
        elif (retry := _retry_of_last_task(step)) is not None:
            self._report.add(
                Code.MISPLACED, retry.path, "there is no tool that could be called again", "add tool:"
            )
        if assigned:
            made["set"] = assigned | step.mapping("set")
        if routes is not None:
            made["next"] = routes.tree
        return [Rewritten(made, step.path), *further]

    # --- tasks ---

    def _tool(self, step: Located, items: list[Item], behind_it: list[Tree], labels: NewNames) -> Tree:
        retry = _retry_of_last_task(step)
        trees = [self._item(item, retry if item is items[-1] else None, labels) for item in items]
        if retry is not None and trees:
            self._refuse_second(step, ("spec", "policy", "rules"), retry.path)
        form = step.get("tool")
        if form is not None and not isinstance(form.value, list) and not behind_it:
            return trees[0]
        return [*trees, *behind_it]

    def _item(self, item: Item, of_step: Located | None, labels: NewNames) -> Tree:
        """A task, with what its own `retry` says, and the one of its step."""
        said = [retry for retry in (item.get("retry"), of_step) if retry is not None]
        kept = [retry for retry in said if not is_classic_retry(retry.value)]
        found = [entry for retry in said if retry not in kept for entry in retry.items()]
        entries = [RetryEntry(entry, self._guards) for entry in found]
        changes: dict[str, Tree] = {}
        rules = policy_rules(entries, self._report)
        if kept and (rules is None or said[0] is kept[0]):
            # What the step says is for a task that says nothing itself.
            if kept[0] is of_step:
                self._refuse_second(item.tool, ("spec", "policy", "rules"), of_step.path)
            changes["retry"] = kept[0].moved
        elif rules is not None:
            self._refuse_second(item.tool, ("spec", "policy", "rules"), found[0].path)
            spec = given.value if (given := item.get("spec")) is not None else {}
            policy = {**(spec.get("policy") or {}), "rules": Rewritten(rules, found[0].path)}
            changes["spec"] = {**spec, "policy": policy}
        if (repeat := repetition(entries, self._sinks, labels, self._report)) is not None:
            self._refuse_second(item.tool, ("repeat",), found[0].path)
            changes["repeat"] = repeat
        return item.tree(changes, _CANONICAL.keys())

    def _refuse_second(self, part: Located, keys: tuple[str, ...], retry: Path) -> None:
        value = part.value
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            name = ".".join(keys)
            message = f"`{name}` stands beside a retry, and says the same"
            self._report.add(Code.MISPLACED, retry, message, f"keep {name}, which is the canonical form")

    def _behind(
        self, step: Located, items: list[Item], found: list[cases.ClassicRule], labels: NewNames
    ) -> tuple[list[Tree], dict[str, Tree]]:
        """The tasks that run once the pipeline has ended, and what the step assigns: `vars` come
        first."""
        assigned = _variables(step)
        given: list[Tree] = []
        sinks = list(self._own_sinks(step, items))
        sinking = bool(sinks) or any(rule.sinks for rule in found)
        if assigned and sinking and step.get("loop") is None:
            given.append({labels.new("vars"): _assign(assigned, (*step.path, "vars"), SUCCEEDED)})
            assigned = {}
        for sink, data in sinks:
            given += self._sinks.of(sink, labels, data, SUCCEEDED)
        for rule in found:
            given += self._tasks_of(rule, labels)
        return given, assigned

    def _own_sinks(self, step: Located, items: list[Item]) -> Iterator[tuple[Located, str]]:
        """The sinks of a step and of its tasks, and what each takes."""
        for item in items:
            if (own := item.get("sink")) is None:
                continue
            if item is items[-1]:
                yield own, "{{ result }}"
            elif readable(self._report, item.name, own.path, "a task"):
                yield own, f"{{{{ {item.name} }}}}"
        if (sink := step.get("sink")) is not None:
            yield sink, "{{ result }}"

    def _tasks_of(self, rule: cases.ClassicRule, labels: NewNames) -> Iterator[Tree]:
        """The sinks of a rule, then what it assigns for each iteration."""
        assigned = {in_ctx(target): value for target, value in rule.assigned.items()} if rule.each else {}
        if not (rule.sinks or assigned):
            return
        after = cases.guard_of_sinks(rule, self._guards).moved
        for sink in rule.sinks:
            # After a failure there is no result, which is no reason to warn.
            yield from self._sinks.of(sink, labels, "{{ result | default(none) }}", after)
        if assigned:
            yield {labels.new("set"): _assign(assigned, rule.path, after)}

    # --- routes ---

    def _routes(
        self, step: Located
    ) -> tuple[cases.ClassicRouter | None, list[cases.ClassicRule], list[Tree]]:
        """How the step routes (None: as it says itself), the rules whose sinks are its own tasks, a
        step behind it."""
        case, in_loop = step.get("case"), step.get("loop") is not None
        found = cases.rules(case, self._report, in_loop=in_loop) if case is not None else []
        for rule in found:
            self._note_iterations(rule)
        once = [rule for rule in found if in_loop and rule.sinks and rule.of_the_whole]
        routes = cases.router_of(found, self._guards)
        if not routes.choices and not once:
            return None, found, []
        default, name = cases.router(step.get("next")), step.get("step")
        if not once or name is None:
            return cases.behind(routes, default, self._guards), found, []
        routes, further = step_behind(name.value, once, (routes, default), self._sinks, self._guards)
        return routes, [rule for rule in found if rule not in once], [further]

    def _note_iterations(self, rule: cases.ClassicRule) -> None:
        if rule.each and (rule.assigned or (rule.sinks and rule.names_exit)):
            message = f"the rule acts for each iteration {SINCE}: its sinks and set were those of the loop"
            hint = "ask for event.name == 'loop.done' where they are meant for the whole"
            self._report.add(Code.CHANGED, rule.when.path, message, hint)


def _variables(step: Located) -> dict[str, Tree]:
    given = step.get("vars")
    found = given.entries() if given is not None else {}
    return {name if name.startswith(_SCOPED) else f"ctx.{name}": one.moved for name, one in found.items()}


def _assign(assigned: dict[str, Tree], path: Path, after: Tree) -> Tree:
    """A task behind the pipeline that assigns values of it: it evaluates them first, for in its own
    `set` `result` is what it yields."""
    names = {target: target.removeprefix("ctx.").removeprefix("vars.") for target in assigned}
    return Rewritten(
        {
            "kind": "noop",
            "result": {names[target]: value for target, value in assigned.items()},
            "set": {
                target: Rewritten(f"{{{{ output{_subscript(names[target])} }}}}", value.path)
                for target, value in assigned.items()
            },
            "spec": {"after": after},
        },
        path,
    )


def _subscript(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{json.dumps(name)}]"
