"""What a template can be told before the execution, and templates rendered with it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl.errors import NoetlError, TemplateLimit, TemplateSecurity
from noetl.expressions import QuotedText, evaluate, names_used, pieces, sentence, truth
from noetl.facts.json import Json
from noetl.forecast.model import Rendered, errors_of, needs_of, warnings_of
from noetl.forecast.worlds import WORLDS, agreed
from noetl.net.model import Template

Chain = tuple[str, ...]

#: Names that only a run can answer for: at any place of a step, and at its end besides.
DURING: Final = frozenset({"iter", "loop_index", "step", "_prev", "_task", "_attempt", "_run", "_worker"})
AT_THE_END: Final = frozenset({"event", "outcome", "output", "result", "response", "error"})
#: Names that are known whatever the playbook says.
_GIVEN: Final = frozenset({"env", "execution_id", "job", "keychain"})
#: What is missing where a template makes something else of the id or the instant than a text with it in it.
THE_RUN: Final = "the run itself"
#: Makes a text of a template that is one expression.
_TEXT: Final = "{{ '' }}"


@dataclass(frozen=True, slots=True)
class Sight:
    """The names that a template of one place sees, in each of the worlds.

    `workload` and `args` say of every key whether its value is known. `steps` and `hidden` are names that the
    run answers for before the args do, `assigned` those of ctx, which answers behind them; `ctx` says which of these still
    hold what they began with, and whether that is known.
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


def rendered(template: Template, sight: Sight) -> Rendered:
    """`template` as far as `sight` goes."""
    match template:
        case str():
            return _text(template, sight)
        case Mapping():
            return _mapping(template, sight)
        case list() | tuple():
            return _together([rendered(item, sight) for item in template], list)
        case _:
            return Rendered(template, worlds=(template,) * len(WORLDS))


def rendered_all(templates: Mapping[str, Template], sight: Sight) -> dict[str, Rendered]:
    return {name: rendered(template, sight) for name, template in templates.items()}


def _mapping(template: Mapping[str, Template], sight: Sight) -> Rendered:
    keys = [rendered(key, sight) for key in template]
    names = [key.value if isinstance(key.value, str) else str(key.value) for key in keys]
    values = _together(
        [rendered(value, sight) for value in template.values()],
        lambda items: dict(zip(names, items, strict=True)),
    )
    both = (*keys, values)
    worlds = values.worlds if all(key.known for key in keys) else ()
    return Rendered(values.value, needs_of(both), _first(errors_of(both)), _first(warnings_of(both)), worlds)


def _first(sentences: tuple[str, ...]) -> str:
    return next(iter(sentences), "")


def _together(parts: list[Rendered], made: Callable[[list[Json]], Json]) -> Rendered:
    every = tuple(parts)
    worlds: tuple[Json, ...] = ()
    if all(part.known for part in every):
        worlds = tuple(made([part.worlds[world] for part in every]) for world in range(len(WORLDS)))
    value = made([part.value for part in every])
    return Rendered(value, needs_of(every), _first(errors_of(every)), _first(warnings_of(every)), worlds)


def _text(template: str, sight: Sight) -> Rendered:
    needs = missing(template, sight)
    if not needs:
        return _evaluated(template, sight)
    if isinstance(template, QuotedText):
        # How a value is quoted depends on what stands around it.
        return Rendered(str(template), needs)
    parts = pieces(template)
    return Rendered("".join(_piece(part, sight) for part in parts), needs)


def _piece(part: str, sight: Sight) -> str:
    if missing(part, sight):
        return part
    found = (
        _evaluated(part + _TEXT, sight)
        if part.startswith("{{")
        else Rendered(part, worlds=("",) * len(WORLDS))
    )
    return str(found.value) if found.known else part


def missing(template: Template, sight: Sight, *, guard: bool = False) -> tuple[str, ...]:
    """The names of `template` that are not known."""
    chains = sorted(names_used(template, guard=guard))
    return tuple(dict.fromkeys(".".join(chain) for chain in chains if not sight.knows(chain)))


def _evaluated(template: str, sight: Sight) -> Rendered:
    warnings: list[str] = []
    found = _in_all(template, sight, lambda names: evaluate(template, names, warn=warnings.append))
    return replace(found, warning=sentence(warnings[0])) if warnings else found


def verdict(when: Template, sight: Sight) -> Rendered:
    """Whether a guard holds: `value` is true or false where that is known."""
    if not isinstance(when, str):
        return Rendered(bool(when), worlds=(bool(when),) * len(WORLDS))
    needs = missing(when, sight, guard=True)
    if needs:
        return Rendered(when, needs)
    return _in_all(when, sight, lambda names: truth(when, names))


def _in_all(template: str, sight: Sight, attempt: Callable[[Mapping[str, Any]], Json]) -> Rendered:
    """What every world says, where they agree."""
    values: list[Json] = []
    errors: list[str] = []
    for names in sight.names:
        try:
            values.append(attempt(names))
        except NoetlError as error:
            errors.append(error.message)
            if isinstance(error, TemplateLimit | TemplateSecurity):
                break  # it is as costly, or as forbidden, in every world
    if errors:
        return Rendered(template, error=errors[0]) if not values else Rendered(template, (THE_RUN,))
    same, value = agreed(tuple(values))
    return Rendered(value, worlds=tuple(values)) if same else Rendered(template, (THE_RUN,))
