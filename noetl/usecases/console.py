"""Expressions that somebody asks of an execution as it was at a version: with the language and the
limits of playbooks' templates, and the names that these would have seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from noetl.engine.names import step_names
from noetl.errors import NotFound, TemplateError, Unavailable
from noetl.expressions import check, evaluate, names_optional, names_used, value_at
from noetl.expressions.scope import hide_names
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import Load, Retention
from noetl.facts.secret import Keychain, omit_seal
from noetl.net.model import Transition
from noetl.usecases import kept_moments, moment
from noetl.usecases.access import Principal
from noetl.usecases.decision_inputs import inputs_of
from noetl.usecases.results import owner_of
from noetl.usecases.runtime import Runtime

#: Not to be asked for: the inputs of a step are those of one run, and what the environment of the
#: program was then is not recorded.
_HIDDEN: Final = frozenset({"args", "input", "env"})
#: What stands around an expression that is no template.
_OPENS, _CLOSES = "{{ ", " }}"
_NO_STEP: Final = Transition("")


@dataclass(frozen=True, slots=True)
class ConsoleAnswer:
    """What an expression comes to; or why it cannot be evaluated, with the place in it (from 0)
    where that is known. `missing` are sentences about names that there are not."""

    value: Json = None
    fault: str = ""
    place: int | None = None
    missing: tuple[str, ...] = ()


def names_at(rt: Runtime, execution_id: str, version: int | None = None) -> Mapping[str, Any]:
    """What templates between two steps would have seen at the version. No secret can be opened with
    what is there. Raises as `moment.look` does."""
    with rt.store.read() as tx:
        here = kept_moments.look(rt, tx, moment.find(tx, execution_id), version)
        plan = rt.plan(tx, here.row.digest)
        inputs = inputs_of(rt, tx, plan, execution_id, rt.clock(), Retention(execution_id))
    names = step_names(here.state(version), inputs, _NO_STEP, {}, {"keychain": _close(plan.net.keychain)})
    return hide_names(names, _HIDDEN)


def _close(entries: tuple[Mapping[str, Json], ...]) -> Keychain:
    """The keychain with references that nothing accepts."""
    return Keychain(entries, "", omit_seal)


def load_for(rt: Runtime, principal: Principal, execution_id: str) -> Load:
    """Opens references for somebody: an expression can make up any, so that none is opened which
    is kept for an execution that is not for the principal to see."""

    def load(reference: Mapping[str, Json], /) -> Json:
        owner = owner_of(str(reference.get("ref")))
        if owner not in (None, execution_id):
            with rt.store.read() as tx:
                row = tx.executions.get(owner)
            if row is None or not principal.may("read", row.path):
                raise NotFound(f"There is no result {str(reference.get('ref'))[:200]!r} of this execution.")
        return rt.load(reference)

    return load


def ask(names: Mapping[str, Any], expression: str, load: Load) -> ConsoleAnswer:
    """Evaluates an expression, or a template, over `names`."""
    is_template = "{{" in expression or "{%" in expression
    template = expression if is_template else f"{_OPENS}{expression}{_CLOSES}"
    shift = 0 if is_template else len(_OPENS)
    try:
        value = evaluate(template, names, load=load)
    except (TemplateError, NotFound, Unavailable) as error:
        faults = check(template)
        place = faults[0].offset - shift if faults and faults[0].offset > shift else None
        return ConsoleAnswer(fault=error.message, place=place, missing=tuple(_find_missing(template, names)))
    return ConsoleAnswer(value, missing=tuple(_find_missing(template, names)))


def _find_missing(template: str, names: Mapping[str, Any]) -> Iterator[str]:
    """What is said of names that are used, and are not there."""
    said = set[tuple[str, ...]]()
    for chain in sorted(names_used(template) - names_optional(template)):
        if chain[0] not in names:
            if chain[:1] not in said:
                yield f"There is no name {chain[0]!r} here.{did_you_mean(chain[0], names)}"
            said.add(chain[:1])
            continue
        for end in range(1, len(chain)):
            around, part = value_at(chain[:end], names), chain[end]
            if value_at(chain[: end + 1], names) is not None:
                continue
            if isinstance(around, Mapping) and part not in around and chain[: end + 1] not in said:
                said.add(chain[: end + 1])
                yield f"{'.'.join(chain[:end])} has no {part!r}.{did_you_mean(part, map(str, around))}"
            break
