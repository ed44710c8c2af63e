"""Templates rendered before the execution, as far as their names are known.

That is done in two worlds that differ in what only a run knows: its id, and the instant at which it
begins. A template that says the same in both, but for the id and the instant themselves, will say
that in any run; one that does not makes something else of them, and is left as it is. So there is
no need to guess what a filter does to a placeholder.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from noetl.engine.inputs import Inputs
from noetl.engine.state import State
from noetl.engine.workload import render_keys, request_names
from noetl.errors import NoetlError, TemplateError, TemplateLimit, TemplateSecurity
from noetl.expressions import Absence, QuotedText, evaluate, names_used, pieces, sentence, truth
from noetl.expressions.scope import layer_names
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import MARK, Keychain, describe_secret, is_secret, omit_seal, replace_markers
from noetl.forecast.model import Rendered, errors_of, needs_of, warnings_of
from noetl.net.model import Net, Template

Chain = tuple[str, ...]

EXECUTION_ID: Final = "<execution_id>"
NOW: Final = "<now>"


@dataclass(frozen=True, slots=True)
class AssumedWorld:
    """An id and an instant, of different length in every world."""

    execution_id: str
    now: datetime

    def describe(self, value: Json) -> str:
        """`value` as JSON text with placeholders for the id, the instant, and secrets. Raises
        ValueError, RecursionError or NoetlError where it cannot be written so."""
        text = json.dumps(value, typed=True, ensure_ascii=False, sort_keys=True)
        if MARK in text:
            text = replace_markers(text, lambda reference: f"<{describe_secret(reference)}>")
        if "secret_ref" in text:
            text = json.dumps(
                json.loads(text, object_hook=_name_secret), typed=True, ensure_ascii=False, sort_keys=True
            )
        return text.replace(self.execution_id, EXECUTION_ID).replace(self.now.isoformat(), NOW)


WORLDS: Final = (
    AssumedWorld("100000000000000001", datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)),
    AssumedWorld("9223372036854775000", datetime(2034, 11, 12, 13, 14, 15, 161718, tzinfo=UTC)),
)


def _name_secret(mapping: JsonMap) -> Json:
    return f"<{describe_secret(mapping)}>" if is_secret(mapping) else mapping


@dataclass(frozen=True, slots=True)
class WorldRequest:
    """The request in one world. Of every key of the workload there is its value, or why it has
    none."""

    state: State
    inputs: Inputs
    workload: Mapping[str, Json | TemplateError]

    @property
    def values(self) -> JsonMap:
        """The workload, as far as it has values."""
        return {key: value for key, value in self.workload.items() if not isinstance(value, TemplateError)}

    @property
    def early(self) -> Mapping[str, Any]:
        """The names that the start of ctx and the keychain see."""
        own = {"workload": self.values, "keychain": self.inputs.keychain}
        return layer_names(own, request_names(self.state, self.inputs), self.values)

    @property
    def fixed(self) -> Mapping[str, Any]:
        """The names that win over args in every step."""
        known = request_names(self.state, self.inputs)
        early = {name: known[name] for name in ("execution_id", "job", "env")}
        return {**early, "workload": self.values, "keychain": self.inputs.keychain}


def make_requests(
    net: Net, payload: JsonMap, overrides: JsonMap, env: Mapping[str, str]
) -> tuple[WorldRequest, ...]:
    """The request in each world."""
    made = []
    for world in WORLDS:
        state = State(world.execution_id, payload=payload, overrides=overrides)
        # No key seals the references of this keychain, so they cannot be opened.
        keychain = Keychain(net.keychain, world.execution_id, omit_seal)
        inputs = Inputs(now=world.now, env=env, keychain=keychain)
        made.append(WorldRequest(state, inputs, render_keys(net, state, inputs)))
    return tuple(made)


#: Names that only a run can answer for: at any place of a step, and at its end besides.
DURING: Final = frozenset({"iter", "loop_index", "step", "_prev", "_task", "_attempt", "_run", "_worker"})
AT_THE_END: Final = frozenset({"event", "outcome", "output", "result", "response", "error"})
#: Names that are known whatever the playbook says.
_GIVEN: Final = frozenset({"env", "execution_id", "job", "keychain"})
#: What is missing where a template makes something else of the id or the instant than a text with
#: it in it.
THE_RUN: Final = "the run itself"
#: Makes a text of a template that is one expression.
_TEXT: Final = "{{ '' }}"


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names that a template of one place sees, in each of the worlds.

    `workload` and `args` say of every key whether its value is known. `steps` and `hidden` are
    names that the run answers for before the args do, `assigned` those of ctx, which answers behind
    them; `ctx` says which of these still hold what they began with, and whether that is known.
    """

    names: tuple[Mapping[str, Any], ...]
    workload: Mapping[str, bool]
    args: Mapping[str, bool] = field(default_factory=dict)
    steps: Container[str] = ()
    hidden: frozenset[str] = frozenset()
    assigned: frozenset[str] = frozenset()
    ctx: Mapping[str, bool] = field(default_factory=dict)

    def knows(self, chain: Chain) -> bool:
        """Whether the value of `chain` is known before the execution."""
        head = chain[0]
        if head == "workload":
            return _all(self.workload, chain)
        if head in _GIVEN:
            return True
        if head in ("args", "input"):
            return _all(self.args, chain)
        if head in ("ctx", "vars"):
            # What it has not begun with may be put into it from outside.
            return len(chain) > 1 and self.ctx.get(chain[1], False)
        if head in self.hidden or head in self.steps:
            return False
        if head in self.args:
            return self.args[head]
        if head in self.assigned:
            return self.ctx.get(head, False)
        return self.workload.get(head, False)


def _all(known: Mapping[str, bool], chain: Chain) -> bool:
    # A key that is not there is known to be undefined.
    return known.get(chain[1], True) if len(chain) > 1 else all(known.values())


def render(template: Template, scope: KnownNames) -> Rendered:
    """`template` as far as `scope` goes."""
    match template:
        case str():
            return _text(template, scope)
        case Mapping():
            return _mapping(template, scope)
        case list() | tuple():
            return _together([render(item, scope) for item in template], list)
        case _:
            return render_constant(template)


def render_all(templates: Mapping[str, Template], scope: KnownNames) -> dict[str, Rendered]:
    return {name: render(template, scope) for name, template in templates.items()}


def _mapping(template: Mapping[str, Template], scope: KnownNames) -> Rendered:
    parts = [render(part, scope) for part in (*template, *template.values())]
    size = len(template)
    return _together(parts, lambda both: dict(zip(map(str, both[:size]), both[size:], strict=True)))


def render_constant(value: Template) -> Rendered:
    """What is the same in any run."""
    return Rendered(value, worlds=(value,) * len(WORLDS))


def _together(parts: list[Rendered], made: Callable[[list[Json]], Json]) -> Rendered:
    worlds: tuple[Json, ...] = ()
    if all(part.known for part in parts):
        worlds = tuple(made([part.worlds[world] for part in parts]) for world in range(len(WORLDS)))
    value = made([part.value for part in parts])
    error, warning = "".join(errors_of(parts)[:1]), "".join(warnings_of(parts)[:1])
    return Rendered(value, needs_of(parts), error, warning, worlds)


def _text(template: str, scope: KnownNames) -> Rendered:
    needs = find_missing(template, scope)
    if not needs:
        return _evaluate_text(template, scope)
    # How a value is quoted depends on what stands around it.
    parts = [str(template)] if isinstance(template, QuotedText) else pieces(template)
    return Rendered("".join(_piece(part, scope) for part in parts), needs)


def _piece(part: str, scope: KnownNames) -> str:
    if find_missing(part, scope):
        return part
    found = _evaluate_text(part + _TEXT, scope) if part.startswith("{{") else render_constant(part)
    return str(found.value) if found.known else part


def find_missing(template: Template, scope: KnownNames, *, guard: bool = False) -> tuple[str, ...]:
    """The names of `template` that are not known."""
    chains = sorted(names_used(template, guard=guard))
    return tuple(dict.fromkeys(".".join(chain) for chain in chains if not scope.knows(chain)))


def _evaluate_text(template: str, scope: KnownNames) -> Rendered:
    warnings: list[Absence] = []
    found = _in_all(template, scope, lambda names: evaluate(template, names, warn=warnings.append))
    return replace(found, warning=sentence(warnings[0])) if warnings else found


def decide_guard(when: Template, scope: KnownNames) -> Rendered:
    """Whether a guard holds: `value` is true or false where that is known."""
    if not isinstance(when, str):
        return render_constant(bool(when))
    needs = find_missing(when, scope, guard=True)
    if needs:
        return Rendered(when, needs)
    return _in_all(when, scope, lambda names: truth(when, names))


def _in_all(template: str, scope: KnownNames, attempt: Callable[[Mapping[str, Any]], Json]) -> Rendered:
    """What every world says, where they agree."""
    values: list[Json] = []
    errors: list[str] = []
    for names in scope.names:
        try:
            values.append(attempt(names))
        except NoetlError as error:
            errors.append(error.message)
            if isinstance(error, TemplateLimit | TemplateSecurity):
                break  # it is as costly, or as forbidden, in every world
    if errors and not values:
        return Rendered(template, error=errors[0])
    # An error in one world alone leaves fewer values than there are worlds.
    return render_worlds(template, tuple(values))


def render_worlds(template: Template, values: tuple[Json, ...]) -> Rendered:
    """`template`, which has `values` in the worlds. Where they differ in more than the id and the
    instant it is known to the run alone."""
    unknown = Rendered(template, (THE_RUN,))
    try:
        texts = [world.describe(value) for world, value in zip(WORLDS, values, strict=True)]
        value = json.loads(texts[0])
    except (ValueError, RecursionError, NoetlError):
        return unknown
    return Rendered(value, worlds=values) if len(set(texts)) == 1 else unknown
