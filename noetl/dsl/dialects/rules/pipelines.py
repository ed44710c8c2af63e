"""One pipeline out of a step's tool and the actions of its rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl.dsl.dialects.guards import heads
from noetl.dsl.dialects.rules.actions import RuleAction, action
from noetl.dsl.dialects.rules.context import RewriteContext
from noetl.dsl.dialects.rules.drafts import Guard, StepDraft, names_of
from noetl.dsl.dialects.rules.transitions import WENT_WELL, both
from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Moved, Tree
from noetl.facts.boundaries import BOUNDARY

_FAILED: Final = "{{ outcome.status == 'error' }}"


@dataclass(frozen=True, slots=True)
class PipelineChoice:
    """What follows where `when` holds: `actions`, after `assigned`."""

    when: Guard
    path: Path
    actions: tuple[RuleAction, ...]
    assigned: Mapping[str, Tree]


@dataclass(slots=True)
class _Names:
    """What the tasks of one pipeline are called."""

    taken: set[str] = field(default_factory=set)

    def given(self, actions: Sequence[RuleAction], at: int) -> list[RuleAction]:
        """Each under a name of its own. One that another rule runs as well gets a second name, and
        its result the first one too."""
        made: list[RuleAction] = []
        for group in _runs(actions):
            made += self._given(group, at + len(made))
        return made

    def _given(self, actions: Sequence[RuleAction], at: int) -> list[RuleAction]:
        renamed: dict[str, str] = {}
        made = []
        for number, one in enumerate(actions, at):
            wanted = one.name or f"task_{number}"
            name = self.fresh(wanted)
            known = one
            if name != wanted and one.name:
                renamed[wanted] = name
                known = _known_as(one, wanted)
            made.append(known.called(name))
        return [_jumping(one, renamed) for one in made] if renamed else made

    def fresh(self, name: str) -> str:
        found, number = name, 2
        while found in self.taken:
            found, number = f"{name}_{number}", number + 1
        self.taken.add(found)
        return found


def _runs(actions: Sequence[RuleAction]) -> Iterator[list[RuleAction]]:
    """Apart where a task is run once more: jumps stay in their own run of it."""
    group: dict[Path, RuleAction] = {}
    for one in actions:
        if one.path in group:
            yield list(group.values())
            group = {}
        group[one.path] = one
    yield list(group.values())


def _known_as(one: RuleAction, name: str) -> RuleAction:
    own = {key: Moved(value, (*one.path, "set", key)) for key, value in names_of(one.body.get("set")).items()}
    return replace(one, body={**one.body, "set": {name: "{{ result }}", **own}})


def _jumping(one: RuleAction, renamed: Mapping[str, str]) -> RuleAction:
    spec = names_of(one.body.get("spec"))
    if "policy" not in spec:
        return one
    policy = _retargeted(spec["policy"], renamed)
    return replace(one, body={**one.body, "spec": Moved({**spec, "policy": policy}, (*one.path, "spec"))})


def _retargeted(value: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_retargeted(item, renamed) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: _retargeted(inner, renamed) for key, inner in value.items()}
    if made.get("do") == "jump" and made.get("to") in renamed:
        made["to"] = renamed[made["to"]]
    return made


def plain_pipeline(draft: StepDraft, actions: Sequence[RuleAction]) -> list[Tree]:
    """The tool, then `actions`."""
    before, after = _tool(draft)
    if not before and not after and len(actions) == 1:
        return [actions[0].tree()]
    names = _Names({one.name for one in before + after})
    return [one.tree() for one in (*before, *names.given(actions, len(before)), *after)]


def pipeline(
    context: RewriteContext, draft: StepDraft, decisions: Sequence[PipelineChoice], *, ruled: bool
) -> list[Tree]:
    """The tool, whoever decides, and the actions of all rules. `ruled`: something around has rules
    for all tasks."""
    before, after = _tool(draft)
    names = _Names({one.name for one in before + after})
    at = len(before)
    entries: list[str] = []
    actions: list[RuleAction] = []
    last = max((number for number, one in enumerate(decisions) if one.actions), default=0)
    for number, one in enumerate(decisions):
        named = names.given(one.actions, at + len(actions))
        entries.append(named[0].name if named else "")
        actions += named if number == last else list(_ending(named, names, ruled=ruled))
    if before and not before[-1].ruled and not ruled:
        decided = _policy(context, decisions, entries, of_tool=True)
        before[-1] = _with_rules(before[-1], decided)
    else:
        before.append(_chooser(context, draft, decisions, entries, names, behind=bool(before)))
    return [one.tree() for one in (*before, *actions, *after)]


def _tool(draft: StepDraft) -> tuple[list[RuleAction], list[RuleAction]]:
    """The tasks of the step's own tool, those that run behind the end of the pipeline apart."""
    form = draft.body.get("tool")
    path = (*draft.path, "tool")
    if isinstance(form, list):
        found = [_numbered(action(item, (*path, index)), index) for index, item in enumerate(form)]
    else:
        found = [] if form is None else [_numbered(action(form, path), 0)]
    proper = [one for one in found if names_of(one.body.get("spec")).get("after") in (None, False)]
    return proper, [one for one in found if one not in proper]


def _numbered(one: RuleAction, index: int) -> RuleAction:
    return one if one.name else one.called(f"task_{index}")


def _ending(actions: Sequence[RuleAction], names: _Names, *, ruled: bool) -> Iterator[RuleAction]:
    """The last of them ends the pipeline; a noop does where it has rules of its own."""
    if not actions:
        return
    last = actions[-1]
    yield from actions[:-1]
    if not ruled and not last.ruled:
        yield _with_rules(last, [{"when": _FAILED, "then": {"do": "fail"}}, {"else": {"do": "break"}}])
        return
    yield last
    name = names.fresh(f"{last.name}_end")
    stop = {
        "kind": "noop",
        "result": "{{ _prev }}",
        "spec": {"policy": {"rules": [{"else": {"do": "break"}}]}},
    }
    yield RuleAction(name, last.path, stop)


def _chooser(
    context: RewriteContext,
    draft: StepDraft,
    decisions: Sequence[PipelineChoice],
    entries: Sequence[str],
    names: _Names,
    *,
    behind: bool,
) -> RuleAction:
    rules = _policy(context, decisions, entries, of_tool=False)
    yields = {"result": "{{ _prev }}"} if behind else {}
    body = {"kind": "noop", **yields, "spec": {"policy": {"rules": rules}}}
    return RuleAction(names.fresh("choose"), decisions[0].path if decisions else draft.path, body)


def _with_rules(one: RuleAction, rules: list[Tree]) -> RuleAction:
    spec = names_of(one.body.get("spec"))
    policy = names_of(spec.get("policy"))
    made = {key: Moved(value, (*one.path, "spec", key)) for key, value in spec.items()}
    own = {key: Moved(value, (*one.path, "spec", "policy", key)) for key, value in policy.items()}
    return replace(one, body={**one.body, "spec": {**made, "policy": {**own, "rules": rules}}})


def _policy(
    context: RewriteContext, decisions: Sequence[PipelineChoice], entries: Sequence[str], *, of_tool: bool
) -> list[Tree]:
    rules: list[Tree] = []
    for decision, entry in zip(decisions, entries, strict=True):
        at = (*decision.path, "when")
        guard = decision.when
        if of_tool and BOUNDARY.isdisjoint(heads(guard)):
            # What does not ask how the tool ended is for success only.
            guard = both(context.report, at, WENT_WELL, guard)
        then: dict[str, Tree] = {"do": "jump", "to": entry} if entry else {"do": "break"}
        if decision.assigned:
            then["set"] = dict(decision.assigned)
        always = guard is None or guard is True
        rule = {"else": then} if always else {"when": Moved(guard, at), "then": then}
        rules.append(Moved(rule, decision.path))
        if always:
            return rules
    if of_tool:
        rules.append({"when": _FAILED, "then": {"do": "fail"}})
    return [*rules, {"else": {"do": "break"}}]
