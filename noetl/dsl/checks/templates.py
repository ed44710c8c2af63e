"""Checks of all templates of a playbook: syntax, filters, names that nothing defines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from noetl import expressions
from noetl.dsl.checks.callbacks import reads_addresses
from noetl.dsl.checks.members import Fault, Members, is_envelope, unseen
from noetl.dsl.checks.reading import (
    Chain,
    NameReader,
    check_built_in_names,
    is_behind_loops,
    iterators,
)
from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.context import KEYCHAIN, RETRY, TemplateUse
from noetl.dsl.document.texts import is_template, texts_in
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.net.callbacks import CALLBACK, tasks_with_address
from noetl.net.inputs import fill_keys
from noetl.net.model import Net, Transition, find_assigned_names

#: Names that the language defines wherever it evaluates a template, and the functions of Jinja.
BUILTINS = frozenset(
    {
        *("workload", "ctx", "vars", "args", "input", "iter", "step", "keychain", "env", "job"),
        *("execution_id", "event", "outcome", "output", "result", "response", "error"),
        *("_prev", "_task", "_attempt", "loop_index", "now"),
        *("range", "dict", "namespace", "timedelta"),
    }
)
#: Names that are never suggested.
_OF_JINJA = frozenset({"cycler", "joiner", "lipsum", "loop", "caller", "varargs", "kwargs", "self"})
#: What other languages have, and how it is written here.
_ELSEWHERE: Mapping[str, str] = {
    "null": "write none",
    "nil": "write none",
    "undefined": "write x is undefined",
    **{name: f"{name} is a filter: write x | {name}" for name in ("abs", "float", "int", "round")},
    "len": "write x | length",
    "sorted": "write x | sort",
    CALLBACK: "tasks read it, of a step in which one waits for a call of its address",
    "str": "write x | string",
}
#: What a workload value may name besides the other workload values.
FOR_WORKLOAD = frozenset(
    {
        *("workload", "payload", "keychain", "execution_id", "job", "env", "now"),
        *("range", "dict", "namespace", "timedelta"),
    }
)
#: What the policy that retries an execution may name besides that.
FOR_RETRY = frozenset({"error", "attempt", "ctx", "vars"})
_IN_BRACES = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_COMPARES = re.compile(r"[=!<>]=|[<>]|\b(and|or|not|in|is)\b")
_DOTTED = re.compile(r"[^\W\d]\w*(\.\w+)*")

#: Names reported of one template; looking at each costs a search of the whole text.
_MAX_NAMES = 20


def check_syntax(subject: Subject) -> Iterator[Finding]:
    """Templates that cannot be parsed, or that name an unknown filter."""
    for use in subject.notes.uses:
        for fault in _faults(use):
            yield Finding(
                Code.TEMPLATE,
                (*use.path, *fault.path),
                f"template: {fault.message}",
                fault.hint,
                (fault.source, fault.offset),
            )


def _faults(use: TemplateUse) -> Sequence[expressions.TemplateFault]:
    if not any(True for _ in texts_in(use.template, (), guard=use.guard)):
        return ()
    return expressions.check(use.template, guard=use.guard)


def check_guards(subject: Subject) -> Iterator[Finding]:
    """`{{ a }} == 1` is text, and text is true: what was meant stands inside of the braces."""
    for use in subject.notes.uses if subject.net is not None else ():
        text = use.template
        if (
            use.guard
            and is_template(text)
            and _COMPARES.search(_IN_BRACES.sub("", text))
            and not _faults(use)
        ):
            yield Finding(
                Code.GUARD_IS_TEXT,
                use.path,
                "outside of the braces nothing is compared: this is a text, and holds whatever the "
                "values are",
                'write the whole expression inside: "{{ a == 1 and b }}"',
            )


def check_names(subject: Subject) -> Iterator[Finding]:
    """Names that nothing defines, or that are something else where they stand."""
    if subject.net is None:
        return
    names = _Names(subject, subject.net)
    for use in subject.notes.uses:
        if not _faults(use):
            yield from names.check(use)
    yield from check_built_in_names(subject.net, names.read, names.early)


class _Names:
    """The names that a playbook gives values, held against those that its templates read."""

    def __init__(self, subject: Subject, net: Net) -> None:
        self._subject = subject
        self._net = net
        self._scopes = _scopes(net)
        self._secrets = [str(entry["name"]) for entry in net.keychain]
        self._readings = NameReader(subject, net)
        self._steps = frozenset(net.steps)
        self._addressed = {step.name for step in net.transitions if tasks_with_address(step)}
        self._members = Members(
            subject.names, fill_keys(net.inputs, net.workload), net.variables, bool(net.inputs)
        )
        #: The chains that were met, by their first name; and those of them that are read before the
        #: first step.
        self.read: dict[str, set[Chain]] = {}
        self.early: dict[str, set[Chain]] = {}

    def check(self, use: TemplateUse) -> Iterator[Finding]:
        """What is wrong with the names in one template."""
        yield from self._check_collection(use)
        for path, text in texts_in(use.template, use.path, guard=use.guard):
            chains = expressions.names_used(text, guard=use.guard)
            for chain in chains:
                self.read.setdefault(chain[0], set()).add(chain)
                if use.step != RETRY and use.step not in self._steps:
                    self.early.setdefault(chain[0], set()).add(chain)
            spot = _Spot(path, text, use.guard)
            yield from self._check_secrets(spot, chains)
            optional = expressions.names_optional(text, guard=use.guard)
            scope = self._scopes.get(use.step)
            also = use.also | ({CALLBACK} if self._reads_addresses(use) else frozenset())
            if scope is not None and also:
                scope = replace(scope, all=scope.all | also, named=scope.named | also)
            if scope is not None:
                asked = {chain[0] for chain in optional}
                yield from self._check_read(
                    use, spot, [chain for chain in chains if chain[0] not in asked], scope
                )
            for chain in sorted(chains - optional)[:_MAX_NAMES]:
                for fault in self._member_faults(use.step, path, chain, scope):
                    yield spot.finding(*fault, chain)

    def _reads_addresses(self, use: TemplateUse) -> bool:
        return use.step in self._addressed and reads_addresses(use.path)

    def _check_collection(self, use: TemplateUse) -> Iterator[Finding]:
        """`in: workload.rows` is one item, a text."""
        scope = self._scopes.get(use.step)
        if scope is None or use.path[-2:] != ("loop", "in") or not isinstance(use.template, str):
            return
        if _DOTTED.fullmatch(use.template) and use.template.partition(".")[0] in scope.all - _OF_JINJA:
            yield Finding(
                Code.LOOP_OVER_NAME,
                use.path,
                f"the loop has one item, the text {quote_value(use.template)}",
                f'write in: "{{{{ {use.template} }}}}"',
            )

    def _check_secrets(self, spot: _Spot, chains: frozenset[Chain]) -> Iterator[Finding]:
        asked = {chain[:2] for chain in chains if chain[0] == "keychain" and len(chain) > 1}
        for chain in sorted(asked)[:_MAX_NAMES]:
            if chain[1] not in self._secrets:
                yield spot.finding(
                    Code.UNKNOWN_KEYCHAIN,
                    f"the keychain has no entry {quote_value(chain[1])}",
                    self._subject.names.suggest(chain[1], self._secrets, "add it to keychain:"),
                    chain,
                )

    def _member_faults(
        self, step: str | None, path: Path, chain: Chain, scope: _Scope | None
    ) -> Iterator[Fault]:
        name = chain[0]
        named = name in self._steps or (scope is not None and name in scope.named)
        if not named and (fault := unseen(self._subject, name, path)) is not None:
            yield fault
        elif not named:
            sections = self._readings.sections(step) if is_envelope(name, path) else None
            yield from self._members.faults(chain, sections)
        elif scope is not None and name in self._members.workload and name not in scope.hiding:
            yield from self._members.of_workload(chain, 0)

    def _check_read(
        self, use: TemplateUse, spot: _Spot, chains: list[Chain], scope: _Scope
    ) -> Iterator[Finding]:
        unknown = frozenset(chain[0] for chain in chains) - scope.all
        odd = self._readings.unreadable(spot.text, unknown) if unknown else None
        if odd is not None:
            yield spot.finding(
                Code.UNREADABLE,
                f"templates cannot read {quote_value(odd)} by its name: this subtracts",
                "use letters, digits and _ in names that templates read",
                (re.split(r"\W", odd)[0],),
            )
            unknown -= frozenset(re.findall(r"\w+", odd))
        for name in sorted(unknown)[:_MAX_NAMES]:
            yield spot.finding(
                Code.UNDEFINED,
                f"nothing defines {quote_value(name)}",
                _ELSEWHERE.get(name)
                or self._subject.names.suggest(
                    name, scope.all - _OF_JINJA, "define it in workload, set or input"
                ),
                (name,),
            )
        if use.step and use.step not in (KEYCHAIN, RETRY):
            named = scope.named - scope.items if is_behind_loops(spot.path) else scope.named
            for chain in sorted(chains)[:_MAX_NAMES]:
                for fault in self._readings.faults(use.step, spot.path, chain, named):
                    yield spot.finding(*fault, chain)


@dataclass(frozen=True, slots=True)
class _Spot:
    """A text with templates, and where it stands."""

    path: Path
    text: str
    guard: bool

    def finding(self, code: Code, message: str, hint: str, chain: Chain) -> Finding:
        """One that points at `chain`."""
        place = expressions.place_of_name(self.text, chain, guard=self.guard)
        within = None if place is None else (self.text, place)
        return Finding(code, self.path, message, hint, within)


@dataclass(frozen=True, slots=True)
class _Scope:
    """`all` names that a template may use; `named` are those that are neither built-in nor a step,
    `hiding` those that win over values of the workload, `items` those that only loops have."""

    all: frozenset[str]
    named: frozenset[str]
    hiding: frozenset[str]
    items: frozenset[str] = frozenset()


def _scopes(net: Net) -> Mapping[str | None, _Scope]:
    """Step → the names that its templates may use; None → those of workload values."""
    shared = net.variables.union(*(arc.args for arc in net.arcs.values()))
    named = shared | net.workload.keys()
    early = FOR_WORKLOAD | net.workload.keys()
    hiding = BUILTINS | net.steps.keys() | shared
    everywhere = hiding | named | _OF_JINJA
    # Checks of the keychain report names that exist later than its entries are rendered.
    scopes: dict[str | None, _Scope] = {
        None: _Scope(early, named, hiding),
        KEYCHAIN: _Scope(early | BUILTINS | _OF_JINJA | net.steps.keys(), named, hiding),
    }
    behind = early | FOR_RETRY | net.variables | _OF_JINJA
    scopes[RETRY] = _Scope(behind, named, hiding)
    for transition in net.transitions:
        own = frozenset(_own(transition))
        own |= net.given_by_engine(transition.name)
        items = iterators(transition) - own - named
        own |= items
        scopes[transition.name] = _Scope(everywhere | own, named | own, hiding | own, items)
    return scopes


def _own(transition: Transition) -> set[str]:
    names = {task.name for task in transition.tasks} | set(transition.args)
    for task in transition.tasks:
        names |= task.args.keys() | set(task.handed)
    if transition.loop is not None and transition.loop.cursor is not None:
        names |= transition.loop.cursor.args.keys()
    return names | find_assigned_names(transition.assigns, "local")
