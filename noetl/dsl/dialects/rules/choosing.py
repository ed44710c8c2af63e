"""`rules`, `cases` and `run` of a step: to guards on its arcs where they only route, else to one
pipeline.

That pipeline is what the step's `tool` says, then the actions of the first rule, those of the
second... Who decides is the last task of the tool, or a noop behind it: its policy jumps to the
first action of the rule that acts, and keeps the number of the rule in `step.rule`, over which the
arcs are guarded. The last action of each rule breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from noetl.dsl.dialects.parts import heads
from noetl.dsl.dialects.rules.drafts import (
    RULES,
    Choice,
    Mode,
    NextRoutes,
    RewriteContext,
    RuleDraft,
    StepDraft,
    Work,
    entries_at,
    names_of,
)
from noetl.dsl.dialects.rules.loop_regions import repeats_nothing
from noetl.dsl.dialects.rules.parsing import branches, has_retry, has_rules, onward, under
from noetl.dsl.dialects.rules.pipelines import pipeline, plain_pipeline
from noetl.dsl.dialects.rules.sequence import SequenceBuilder
from noetl.dsl.problems import Code, Path

_SCOPES: Final = ("ctx.", "vars.", "step.", "iter.")


def choose(context: RewriteContext, draft: StepDraft, raw: Mapping[str, Any]) -> list[StepDraft]:
    """Rewrites `draft`, whose step was `raw`; the steps that it takes besides."""
    rules = list(_rules(context, draft, raw))
    arranger_steps: list[StepDraft] = []
    for rule in rules:
        arranger = SequenceBuilder(context, draft, rule.path)
        after = rule.onward if rule.onward is not None else draft.onward
        rule.course = arranger.arrange(rule.branches, after, parallel=raw.get("parallel") is True)
        arranger_steps += arranger.added
    if not rules or (draft.body.get("loop") is not None and not _fits_loop(context, rules)):
        return arranger_steps
    if len(rules) == 1 and rules[0].always and not rules[0].assigned:
        course = rules[0].course
        draft.onward = course.tail
        if course.head:
            draft.body["tool"] = plain_pipeline(draft, course.head)
    elif all(rule.only_routes for rule in rules):
        _route(draft, rules)
    else:
        _decide(context, draft, rules)
    if draft.body.get("loop") is not None and not draft.body.get("tool"):
        # What it runs are steps, and those are behind the loop.
        repeats_nothing(context, draft.place, raw)
    return arranger_steps


def _rules(context: RewriteContext, draft: StepDraft, raw: Mapping[str, Any]) -> Iterator[RuleDraft]:
    given = [key for key in (*RULES, "run") if raw.get(key) is not None]
    if len(given) > 1:
        message = f"`{given[1]}` stands beside `{given[0]}`: which of them acts is not clear"
        context.report.add(Code.MISPLACED, (*draft.path, given[1]), message, "write one of them", at_key=True)
        return
    key = given[0]
    if key == "run":
        yield RuleDraft(None, draft.path, branches(context, raw["run"], (*draft.path, "run")), None, {})
        return
    for index, form in enumerate(raw[key]):
        rule = _rule(context, form, (*draft.path, key, index))
        yield rule
        if rule.always and index + 1 < len(raw[key]):
            context.report.add(
                Code.IGNORED,
                (*draft.path, key, index + 1),
                "this rule never acts: the one before it always does",
                "give that one a when:, or put it last",
            )
            return


def _rule(context: RewriteContext, form: Mapping[str, Any], at: Path) -> RuleDraft:
    if form.keys().isdisjoint({"run", "next", "set"}):
        context.report.missing(at, "run", "the rule does not say what to do", "add run:, next: or set:")
    assigned = entries_at(form.get("set"), (*at, "set"))
    found = branches(context, form.get("run"), (*at, "run"))
    after = onward(form.get("next"), (*at, "next"), context.report)
    asked = "case" if form.get("when") is None and form.get("case") is not None else "when"
    if asked == "when" and form.get("case") is not None:
        message = "`case` stands beside `when`: which of them is asked is not clear"
        context.report.add(Code.MISPLACED, (*at, "case"), message, "write one of them", at_key=True)
    return RuleDraft(form.get(asked), at, found, after, assigned, key=asked)


def _fits_loop(context: RewriteContext, rules: Sequence[RuleDraft]) -> bool:
    """In a loop rules that run actions act for each iteration: they cannot route."""
    acting = any(isinstance(branch, Work) for rule in rules for branch in rule.branches)
    for rule in rules:
        forks = any(isinstance(branch, Work) and branch.parallel for branch in rule.branches)
        routes = rule.onward is not None or any(not isinstance(branch, Work) for branch in rule.branches)
        if forks or (acting and routes):
            what = "runs a task with parallel: true" if forks else "routes"
            context.report.add(
                Code.MISPLACED,
                rule.path,
                f"this rule {what}, but it acts for each iteration of the step's loop",
                "put it on a step behind the loop",
            )
            return False
    return True


def _route(draft: StepDraft, rules: Sequence[RuleDraft]) -> None:
    made = NextRoutes(draft.path)
    for rule in rules:
        assert rule.course.tail is not None
        (choice,) = rule.course.tail.choices
        routes = [route.with_guard(None if rule.always else rule.when, rule.when_path) for route in choice]
        if rule.assigned:
            routes[0].body["set"] = {**rule.assigned, **(routes[0].body.get("set") or {})}
        made.choices.append(routes)
    if draft.onward is not None and not rules[-1].always:
        made.choices += _choices(draft.onward)
        made.mode = _mode([draft.onward])
    draft.onward = made


def _decide(context: RewriteContext, draft: StepDraft, rules: Sequence[RuleDraft]) -> None:
    for rule in rules:
        if "event" in heads(rule.when):
            message = "`event` is not known where rules run actions: the step has not ended"
            hint = "ask for outcome.status or error"
            context.report.add(Code.VALUE, rule.when_path, message, hint)
    looping = draft.body.get("loop") is not None
    numbered = not looping and any(rule.course.tail is not draft.onward for rule in rules)
    for number, rule in enumerate(rules):
        # At rules of steps, as at arcs, a plain name means ctx.
        named = {
            name if name.startswith(_SCOPES) else f"ctx.{name}": value
            for name, value in rule.assigned.items()
        }
        rule.assigned = {"step.rule": number, **named} if numbered else named
    ruled = (
        context.ruled
        or has_retry(draft.body.get("retry"))
        or has_rules(draft.body.get("spec"))
        or has_rules(names_of(draft.body.get("loop")).get("spec"))
    )
    draft.body["tool"] = pipeline(context, draft, rules, ruled=ruled)
    if not numbered:
        return
    default = draft.onward
    tails = [(f"{{{{ step.rule == {n} }}}}", rule.path, rule.course.tail) for n, rule in enumerate(rules)]
    made = NextRoutes(draft.path, _mode([tail for _, _, tail in tails] + [default]))
    if default is not None and not rules[-1].always:
        tails.append(("{{ step.rule is not defined }}", default.path, default))
    for guard, path, tail in tails:
        for choice in _choices(tail) if tail is not None else ():
            made.choices.append(under(guard, path, choice, context.report))
    draft.onward = made


def _mode(onwards: Sequence[NextRoutes | None]) -> Mode:
    return "first" if any(one is not None and one.mode == "first" for one in onwards) else "exclusive"


def _choices(tail: NextRoutes) -> list[Choice]:
    """As choices of which the first counts: where all routes count, they are one."""
    copies = tail.copy().choices
    if tail.mode != "inclusive" or not copies:
        return copies
    return [[route for choice in copies for route in choice]]
