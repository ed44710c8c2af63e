"""Guards that are asked later than the call that names them: what stays of their templates, and
what they see of the call's names.

A guard closes over what it reads. What changes meanwhile (ctx), what only comes then (`signal`),
and what the engine knows anyhow is read when it is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from noetl.expressions import names_used
from noetl.expressions.scope import value_of
from noetl.facts.json import Json, JsonMap
from noetl.net.deferred import DATA, SIGNAL
from noetl.net.model import Template
from noetl.pipeline.names import TemplateScope

_READ_LATER: Final = frozenset(
    {"ctx", "vars", "workload", "env", "keychain", "execution_id", "job", "now", SIGNAL}
)


def with_guards(template: Template, rendered: Json, keys: Collection[str], sight: TemplateScope) -> Any:
    """`rendered`, what `template` without its guards came to, with `{when, names}` in their
    places."""
    match template:
        case Mapping() if isinstance(rendered, Mapping):
            return {
                key: _with_guard(key, value, rendered.get(key), keys, sight)
                for key, value in template.items()
            }
        case list() | tuple() if isinstance(rendered, list):
            pairs = zip(template, rendered, strict=True)
            return [with_guards(one, value, keys, sight) for one, value in pairs]
        case _:
            return rendered


def _with_guard(
    key: str, value: Template, rendered: Json, keys: Collection[str], sight: TemplateScope
) -> Any:
    if key in DATA:
        return rendered
    is_guard = key in keys and isinstance(value, str)
    return close_over(value, sight) if is_guard else with_guards(value, rendered, keys, sight)


def close_over(guard: str, sight: TemplateScope) -> JsonMap:
    """`{when, names}`: the guard, and what it reads of `sight` that is not read later."""
    heads = {chain[0] for chain in names_used(guard, guard=True)} - _READ_LATER
    return {"when": guard, "names": {name: value_of(sight[name]) for name in sorted(heads) if name in sight}}
