"""One pipeline out of a step's tool and the actions of its rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from noetl.dsl.dialects.parts import FAILED, SUCCEEDED, NewNames, asks_how_it_ended
from noetl.dsl.dialects.rules.drafts import RewriteContext, RuleAction, RuleDraft, StepDraft, names_of
from noetl.dsl.dialects.rules.parsing import actions_of, both
from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Rewritten, Tree


def _name_actions(names: NewNames, actions: Sequence[RuleAction], at: int) -> list[RuleAction]:
    """Each under another name. One that another rule runs as well gets a second name, and its
    result the first one too."""
    made: list[RuleAction] = []
    for group in _runs(actions):
        made += _name_run(names, group, at + len(made))
    return made


def _name_run(names: NewNames, actions: Sequence[RuleAction], at: int) -> list[RuleAction]:
    renamed: dict[str, str] = {}
    made = []
    for number, one in enumerate(actions, at):
        wanted = one.name or f"task_{number}"
        name = names.new(wanted)
        another = one.under(name)
        if name != wanted and one.name:
            renamed[wanted] = name
            known = {wanted: "{{ result }}", **one.entries("set")}
            another = replace(another, body={**one.body, "set": known})
        made.append(another)
    return [_retarget_jumps(one, renamed) for one in made] if renamed else made


def _runs(actions: Sequence[RuleAction]) -> Iterator[list[RuleAction]]:
    """Apart where a task is run once more: jumps stay in their own run of it."""
    group: dict[Path, RuleAction] = {}
    for one in actions:
        if one.path in group:
            yield list(group.values())
            group = {}
        group[one.path] = one
    yield list(group.values())


def _retarget_jumps(one: RuleAction, renamed: Mapping[str, str]) -> RuleAction:
    spec = names_of(one.body.get("spec"))
    if "policy" not in spec:
        return one
    policy = _retarget(spec["policy"], renamed)
    return replace(one, body={**one.body, "spec": Rewritten({**spec, "policy": policy}, (*one.path, "spec"))})


def _retarget(value: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_retarget(item, renamed) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: _retarget(inner, renamed) for key, inner in value.items()}
    if made.get("do") == "jump" and made.get("to") in renamed:
        made["to"] = renamed[made["to"]]
    return made


def plain_pipeline(draft: StepDraft, actions: Sequence[RuleAction]) -> list[Tree]:
    """The tool, then `actions`."""
    before, after = _tool(draft)
    if not before and not after and len(actions) == 1:
        return [actions[0].tree()]
    names = NewNames({one.name for one in before + after})
    return [one.tree() for one in (*before, *_name_actions(names, actions, len(before)), *after)]


def pipeline(
    context: RewriteContext, draft: StepDraft, choices: Sequence[RuleDraft], *, ruled: bool
) -> list[Tree]:
    """The tool, whoever decides, and the actions of all rules. `ruled`: something around has rules
    for all tasks."""
    before, after = _tool(draft)
    names = NewNames({one.name for one in before + after})
    at = len(before)
    entries: list[str] = []
    actions: list[RuleAction] = []
    last = max((number for number, one in enumerate(choices) if one.course.head), default=0)
    for number, one in enumerate(choices):
        named = _name_actions(names, one.course.head, at + len(actions))
        entries.append(named[0].name if named else "")
        actions += named if number == last else list(_end(named, names, ruled=ruled))
    if before and not before[-1].ruled and not ruled:
        decided = _policy(context, choices, entries, of_tool=True)
        before[-1] = _with_rules(before[-1], decided)
    else:
        result = {"result": "{{ _prev }}"} if before else {}
        rules = _policy(context, choices, entries, of_tool=False)
        body = {"kind": "noop", **result, "spec": {"policy": {"rules": rules}}}
        before.append(RuleAction(names.new("choose"), choices[0].path if choices else draft.path, body))
    return [one.tree() for one in (*before, *actions, *after)]


def _tool(draft: StepDraft) -> tuple[list[RuleAction], list[RuleAction]]:
    """The tasks of the step's own tool, those that run behind the end of the pipeline apart."""
    tasks = actions_of(draft.body.get("tool"), (*draft.path, "tool"))
    found = [one if one.name else one.under(f"task_{index}") for index, one in enumerate(tasks)]
    proper = [one for one in found if names_of(one.body.get("spec")).get("after") in (None, False)]
    return proper, [one for one in found if one not in proper]


def _end(actions: Sequence[RuleAction], names: NewNames, *, ruled: bool) -> Iterator[RuleAction]:
    """The last of them ends the pipeline; a noop does where it already has rules."""
    if not actions:
        return
    last = actions[-1]
    yield from actions[:-1]
    if not ruled and not last.ruled:
        yield _with_rules(last, [{"when": FAILED, "then": {"do": "fail"}}, {"else": {"do": "break"}}])
        return
    yield last
    name = names.new(f"{last.name}_end")
    stop = {
        "kind": "noop",
        "result": "{{ _prev }}",
        "spec": {"policy": {"rules": [{"else": {"do": "break"}}]}},
    }
    yield RuleAction(name, last.path, stop)


def _with_rules(one: RuleAction, rules: list[Tree]) -> RuleAction:
    policy = {**one.entries("spec", "policy"), "rules": rules}
    return replace(one, body={**one.body, "spec": {**one.entries("spec"), "policy": policy}})


def _policy(
    context: RewriteContext, choices: Sequence[RuleDraft], entries: Sequence[str], *, of_tool: bool
) -> list[Tree]:
    rules: list[Tree] = []
    for rule, entry in zip(choices, entries, strict=True):
        at = rule.when_path
        guard = rule.when
        if of_tool and not asks_how_it_ended(guard):
            # What does not ask how the tool ended is for success only.
            guard = both(context.report, at, SUCCEEDED, guard)
        then: dict[str, Tree] = {"do": "jump", "to": entry} if entry else {"do": "break"}
        if rule.assigned:
            then["set"] = dict(rule.assigned)
        always = guard is None or guard is True
        made = {"else": then} if always else {"when": Rewritten(guard, at), "then": then}
        rules.append(Rewritten(made, rule.path))
        if always:
            return rules
    if of_tool:
        rules.append({"when": FAILED, "then": {"do": "fail"}})
    return [*rules, {"else": {"do": "break"}}]
