"""Checks of all templates of a playbook: syntax, filters, names that nothing defines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from noetl import expressions
from noetl.dsl.context import KEYCHAIN, Context, Use, is_template
from noetl.dsl.problems import Code, shown
from noetl.facts.json import Json
from noetl.net.model import Assignment, Net, Transition

#: Names that the language defines wherever it evaluates a template, and the functions of Jinja.
BUILTINS = frozenset(
    {
        *("workload", "ctx", "vars", "args", "input", "iter", "step", "keychain", "env", "job"),
        *("execution_id", "event", "outcome", "output", "result", "response", "error"),
        *("_prev", "_task", "_attempt", "loop_index", "now"),
        *(
            "range",
            "dict",
            "namespace",
            "cycler",
            "joiner",
            "lipsum",
            "loop",
            "caller",
            "varargs",
            "kwargs",
            "self",
        ),
    }
)
#: Args that the final step is given.
OF_FINAL_STEP = frozenset({"status", "steps", "errors"})
#: What a workload value may name besides the other workload values.
FOR_WORKLOAD = frozenset(
    {"workload", "payload", "keychain", "execution_id", "job", "env", "now", "range", "dict", "namespace"}
)

_IN_BRACES = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_COMPARES = re.compile(r"[=!<>]=|[<>]|\b(and|or|not|in|is)\b")

#: Names reported of one template; looking at each costs a search of the whole text.
_MAX_NAMES = 20


def check_templates(context: Context, net: Net | None) -> None:
    """Adds the problems of every template that the compilation met."""
    scopes = _scopes(net) if net is not None else {}
    secrets = [] if net is None else [str(entry["name"]) for entry in net.keychain]
    for use in context.uses:
        faults = _check_syntax(context, use)
        if use.guard and not faults:
            _check_guard(context, use)
        if not faults and net is not None and use.step != KEYCHAIN:
            _check_secrets(context, use, secrets)
        known = scopes.get(use.step)
        if faults or known is None:
            continue
        for text in _texts(use.template, guard=use.guard):
            _check_names(context, use, text, context.heads(text, guard=use.guard) - known, known)


def _check_syntax(context: Context, use: Use) -> bool:
    if not use.guard and not any(True for _ in _texts(use.template, guard=False)):
        return False
    faults = expressions.check(use.template, guard=use.guard)
    for fault in faults:
        path = (*use.path, *fault.path)
        line = context.line(path) + max(fault.line, 1) - 1
        context.report.add(Code.TEMPLATE, path, f"template: {fault.message}", fault.hint, line=line)
    return bool(faults)


def _check_guard(context: Context, use: Use) -> None:
    """`{{ a }} == 1` is text, and text is true: what was meant stands inside of the braces."""
    text = use.template
    if is_template(text) and _COMPARES.search(_IN_BRACES.sub("", text)):
        context.report.add(
            Code.GUARD_IS_TEXT,
            use.path,
            "outside of the braces nothing is compared: this is a text, and holds whatever the values are",
            'write the whole expression inside: "{{ a == 1 and b }}"',
        )


def _texts(template: Json, *, guard: bool) -> Iterable[str]:
    match template:
        case str():
            if guard or is_template(template):
                yield template
        case list():
            for item in template:
                yield from _texts(item, guard=False)
        case dict():
            for item in template.values():
                yield from _texts(item, guard=False)


def _check_names(
    context: Context, use: Use, text: str, unknown: frozenset[str], known: frozenset[str]
) -> None:
    for name in sorted(unknown)[:_MAX_NAMES]:
        if not _is_expected_to_miss(text, name):
            hint = context.report.suggest(name, known, "define it in workload, set or input")
            context.report.add(Code.UNDEFINED, use.path, f"nothing defines {shown(name)}", hint)


def _check_secrets(context: Context, use: Use, known: list[str]) -> None:
    texts = [text for text in _texts(use.template, guard=use.guard) if "keychain" in text]
    chains = [chain for text in texts for chain in expressions.names_used(text, guard=use.guard)]
    asked = {chain[1] for chain in chains if chain[0] == "keychain" and len(chain) > 1}
    for name in sorted(asked - set(known))[:_MAX_NAMES]:
        hint = context.report.suggest(name, known, "add it to keychain:")
        context.report.add(Code.UNKNOWN_KEYCHAIN, use.path, f"the keychain has no entry {shown(name)}", hint)


def _is_expected_to_miss(text: str, name: str) -> bool:
    """Whether the template asks for the name's absence: `x is defined`, `x | default(1)`."""
    asked = rf"(?<![\w.]){re.escape(name)}\b[\w.\[\]'\"]*\s*(\|\s*(default|d)\b|is\s+(not\s+)?(defined|undefined|none)\b)"
    return re.search(asked, text) is not None


def _scopes(net: Net) -> Mapping[str | None, frozenset[str]]:
    """Step → every name that its templates may use; None → those of workload values."""
    shared = BUILTINS | net.workload.keys() | net.ctx.keys() | net.steps.keys()
    for transition in net.transitions:
        shared |= _shared_by(transition)
    early = FOR_WORKLOAD | net.workload.keys()
    # What an entry of the keychain names besides is told where the entry is compiled.
    scopes: dict[str | None, frozenset[str]] = {None: early, KEYCHAIN: early | BUILTINS | net.steps.keys()}
    for transition in net.transitions:
        scopes[transition.name] = shared | _own(transition)
    if net.final_step in scopes:
        scopes[net.final_step] |= OF_FINAL_STEP
    return scopes


def _shared_by(transition: Transition) -> set[str]:
    names = {name for arc in transition.arcs for name in arc.args}
    names |= _heads(transition.set, "ctx")
    for arc in transition.arcs:
        names |= _heads(arc.set, "ctx")
    return names | _heads(_all_sets(transition), "ctx")


def _own(transition: Transition) -> set[str]:
    names = {task.name for task in transition.tasks} | set(transition.args)
    for task in transition.tasks:
        names |= task.args.keys() | task.given.keys()
        if task.loop is not None:
            names.add(task.loop.iterator)
    names |= _heads(_all_sets(transition), "local")
    if transition.loop is not None:
        names.add(transition.loop.iterator)
    return names


def _all_sets(transition: Transition) -> list[Assignment]:
    return [
        one
        for task in transition.tasks
        for group in (task.set, *(rule.then.set for rule in (*(task.rules or ()), *task.then)))
        for one in group
    ]


def _heads(assignments: Iterable[Assignment], scope: str) -> set[str]:
    return {one.name.partition(".")[0] for one in assignments if one.scope == scope}
