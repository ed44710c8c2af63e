"""What a template can be told before the execution, and templates rendered with it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl.errors import NoetlError, TemplateLimit, TemplateSecurity
from noetl.expressions import QuotedText, evaluate, names_used, pieces, sentence, truth
from noetl.facts.json import Json
from noetl.forecast.model import Rendered, errors_of, needs_of, warnings_of
from noetl.forecast.worlds import WORLDS, agree
from noetl.net.model import Template

Chain = tuple[str, ...]

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
    args: Mapping[str, bool]
    steps: Container[str]
    hidden: frozenset[str]
    assigned: frozenset[str]
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
            return fixed(template)


def render_all(templates: Mapping[str, Template], scope: KnownNames) -> dict[str, Rendered]:
    return {name: render(template, scope) for name, template in templates.items()}


def _mapping(template: Mapping[str, Template], scope: KnownNames) -> Rendered:
    parts = [render(part, scope) for part in (*template, *template.values())]
    size = len(template)
    return _together(parts, lambda both: dict(zip(map(_key, both[:size]), both[size:], strict=True)))


def _key(value: Json) -> str:
    return value if isinstance(value, str) else str(value)


def fixed(value: Template) -> Rendered:
    """What is the same in any run."""
    return Rendered(value, worlds=(value,) * len(WORLDS))


def _first(sentences: tuple[str, ...]) -> str:
    return next(iter(sentences), "")


def _together(parts: list[Rendered], made: Callable[[list[Json]], Json]) -> Rendered:
    worlds: tuple[Json, ...] = ()
    if all(part.known for part in parts):
        worlds = tuple(made([part.worlds[world] for part in parts]) for world in range(len(WORLDS)))
    value = made([part.value for part in parts])
    return Rendered(value, needs_of(parts), _first(errors_of(parts)), _first(warnings_of(parts)), worlds)


def _text(template: str, scope: KnownNames) -> Rendered:
    needs = find_missing(template, scope)
    if not needs:
        return _evaluated(template, scope)
    if isinstance(template, QuotedText):
        # How a value is quoted depends on what stands around it.
        return Rendered(str(template), needs)
    parts = pieces(template)
    return Rendered("".join(_piece(part, scope) for part in parts), needs)


def _piece(part: str, scope: KnownNames) -> str:
    if find_missing(part, scope):
        return part
    found = _evaluated(part + _TEXT, scope) if part.startswith("{{") else fixed(part)
    return str(found.value) if found.known else part


def find_missing(template: Template, scope: KnownNames, *, guard: bool = False) -> tuple[str, ...]:
    """The names of `template` that are not known."""
    chains = sorted(names_used(template, guard=guard))
    return tuple(dict.fromkeys(".".join(chain) for chain in chains if not scope.knows(chain)))


def _evaluated(template: str, scope: KnownNames) -> Rendered:
    warnings: list[str] = []
    found = _in_all(template, scope, lambda names: evaluate(template, names, warn=warnings.append))
    return replace(found, warning=sentence(warnings[0])) if warnings else found


def decide_guard(when: Template, scope: KnownNames) -> Rendered:
    """Whether a guard holds: `value` is true or false where that is known."""
    if not isinstance(when, str):
        return fixed(bool(when))
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
    if errors:
        return Rendered(template, error=errors[0]) if not values else Rendered(template, (THE_RUN,))
    same, value = agree(tuple(values))
    return Rendered(value, worlds=tuple(values)) if same else Rendered(template, (THE_RUN,))
