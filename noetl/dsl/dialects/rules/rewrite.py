"""The pass: a document with keys of the rules dialect to one without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl.dsl.dialects.parts import NewNames, workbook_of
from noetl.dsl.dialects.rules.choosing import choose
from noetl.dsl.dialects.rules.cycles import close_loops
from noetl.dsl.dialects.rules.drafts import RULES, RewriteContext, StepDraft, Workflow, entries_at, names_of
from noetl.dsl.dialects.rules.loop_regions import open_loops
from noetl.dsl.dialects.rules.parsing import has_rules, onward, tasks_of
from noetl.dsl.dialects.rules.sequence import close_gates
from noetl.dsl.document import Action, Arc, Document, DocumentPart, NamedActions, Rule, Step
from noetl.dsl.document.base import Parts, given_keys
from noetl.dsl.document.validation import warn_unknown
from noetl.dsl.problems import Code, Path, quote_value
from noetl.dsl.read.origins import Origins, Rewritten, Tree, settle
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json

#: Keys of each part, and what the canonical form writes instead.
_WORDS: Final[Mapping[type[DocumentPart], Mapping[str, str]]] = {
    Document: {
        "environment": "write workload: {<name>: ...}",
        "variables": "write ctx: {<name>: ...}",
        "tasks": "write the actions into tool: of the steps that run them",
    },
    Step: {
        **dict.fromkeys(
            RULES, "write next: {arcs: [{step, when}]}, and spec.policy.rules where tasks are run"
        ),
        "run": "write tool: for actions and next: for steps",
        "pass": "write spec.policy.admit with on_deny: pass",
        "parallel": "write one arc for each branch in next: {arcs: [[...]]}",
        "end_loop": "write loop: {in, iterator} on the step that repeats",
        "result": "write set: {ctx.<name>: ...}",
    },
    Rule: {"case": "write when:"},
    Arc: {
        "then": "write a list of arcs {step, when} as one item of next.arcs",
        "else": "write a last item of next.arcs without when",
    },
}
#: Root key → the older key that it is made of as well, and the canonical one.
_SCOPES: Final = {
    **dict.fromkeys(("environment", "workload"), ("environment", "workload")),
    **dict.fromkeys(("variables", "ctx"), ("variables", "ctx")),
}
#: Of a step, what is rewritten.
_TAKEN: Final = frozenset({"step", "next", *_WORDS[Step]})


def rewrite(
    parts: Parts, data: dict[str, Json], report: ProblemReport
) -> tuple[dict[str, Json], Origins] | None:
    """`data`, whose document has these `parts`, without the dialect; None where it has none of
    it."""
    found = [(key, path) for part, path in parts for key in _foreign(part)]
    workflow: Any = data.get("workflow") or []
    if not found and not open_loops(workflow):
        return None
    for part, path in parts:
        if isinstance(part, Rule | NamedActions):
            warn_unknown(part, path, report)
    for key, path in found:
        hint = next((words[key] for words in _WORDS.values() if key in words), "write kind:")
        hint = f"{hint}; `noetl migrate` does"
        report.add(Code.DEPRECATED, (*path, key), f"`{key}` is of the rules dialect", hint, at_key=True)
    return settle(_rewrite_data(data, report))


def _foreign(part: DocumentPart) -> list[str]:
    """The keys of `part` that are of the dialect, as documents write them."""
    if isinstance(part, Action) and part.kind is None:
        given = [key for key in ("action", "type") if key in part.model_fields_set]
        return list(given[:1])
    words = next((words for kind, words in _WORDS.items() if isinstance(part, kind)), None)
    if words is None:
        return []
    names = given_keys(part)
    return [key for key in words if key in names]


def _rewrite_data(data: Mapping[str, Any], report: ProblemReport) -> Tree:
    raws: list[Mapping[str, Any]] = list(data.get("workflow") or [])
    steps = {raw["step"] for raw in raws if isinstance(raw.get("step"), str)}
    context = RewriteContext(
        report,
        steps,
        set(workbook_of(data)),
        tasks_of(data, steps, report),
        Workflow(NewNames(set(steps), ".")),
        ruled=has_rules(names_of(data.get("executor")).get("spec")),
    )
    drafts = [_draft(raw, index, report) for index, raw in enumerate(raws)]
    for index in open_loops(raws):
        del drafts[index].body["loop"]
    context.workflow.drafts.extend(drafts)
    for draft, raw in zip(drafts, raws, strict=True):
        if any(raw.get(key) is not None for key in (*RULES, "run")):
            context.workflow.behind(draft, choose(context, draft, raw))
        _pass(context, draft, raw)
    close_loops(context, raws)
    close_gates(context)
    for name in context.tasks.works.keys() - context.tasks.used:
        path = context.tasks.works[name].path
        report.add(
            Code.IGNORED,
            path,
            f"no step runs the task {quote_value(name)}",
            "name it in run:, or remove it",
            at_key=True,
        )
    return _roots(data, [draft.tree() for draft in context.workflow.drafts])


def _draft(raw: Mapping[str, Any], index: int, report: ProblemReport) -> StepDraft:
    path: Path = ("workflow", index)
    body = {key: value for key, value in raw.items() if key not in _TAKEN}
    if raw.get("result") is not None and raw.get("end_loop") is None:
        report.add(
            Code.IGNORED,
            (*path, "result"),
            "`result` has no effect on a step that ends no loop",
            "assign with set:",
            at_key=True,
        )
    after = onward(raw.get("next"), (*path, "next"), report)
    return StepDraft(raw.get("step") or "", path, body, after, place=index)


def _pass(context: RewriteContext, draft: StepDraft, raw: Mapping[str, Any]) -> None:
    """`pass: expr` to an admission that denies and passes on."""
    if raw.get("pass") is None:
        return
    at = (*draft.path, "pass")
    spec = names_of(draft.body.get("spec"))
    policy = names_of(spec.get("policy"))
    if policy.get("admit") is not None:
        context.report.add(
            Code.MISPLACED, at, "`pass` stands beside spec.policy.admit", "write one of them", at_key=True
        )
        return
    rules = [
        {"when": Rewritten(raw["pass"], at), "then": {"allow": False}},
        {"else": {"then": {"allow": True}}},
    ]
    admit = Rewritten({"rules": rules, "on_deny": "pass"}, at)
    draft.body["spec"] = {**spec, "policy": {**policy, "admit": admit}}


def _roots(data: Mapping[str, Any], workflow: list[Tree]) -> Tree:
    """The other root keys: `environment` goes below `workload`, `variables` are what ctx begins
    with. What stands in the canonical key wins."""
    made: dict[str, Tree] = {}
    for key, value in data.items():
        match key:
            case "tasks":
                continue
            case "environment" | "workload" | "variables" | "ctx":
                lower, upper = _SCOPES[key]
                made[upper] = {
                    **entries_at(data.get(lower), (lower,)),
                    **entries_at(data.get(upper), (upper,)),
                }
            case _:
                made[key] = workflow if key == "workflow" else value
    return made
