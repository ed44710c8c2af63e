"""What must be there: credentials, entries of the keychain, variables of the environment. By name;
none is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from noetl.engine.plan import Plan
from noetl.engine.prerequisites import credentials_in, is_fixed, source_of
from noetl.engine.request import render_keychain
from noetl.errors import NoetlError
from noetl.expressions import names_used
from noetl.facts.json import JsonMap
from noetl.facts.secret import STORE, describe_secret
from noetl.forecast.model import SecretForecast, StepForecast, Variable, errors_of, needs_of
from noetl.forecast.tasks import place_of
from noetl.forecast.worlds import KnownNames, WorldRequest, render_all
from noetl.net.model import KindInfo, Net

#: Where an execution keeps what its keychain brings.
OWN: Final = "execution"
#: Keys of an entry that are no templates.
_FIXED: Final = frozenset({"name", "kind"})


@dataclass(frozen=True, slots=True)
class KeychainForecast:
    """An entry of the keychain as the execution would render it, as far as that is known. With an
    `error` no execution would begin."""

    values: JsonMap
    needs: tuple[str, ...] = ()
    error: str = ""


def render_entry(net: Net, entry: JsonMap, request: WorldRequest, scope: KnownNames) -> KeychainForecast:
    """An `entry` of the keychain of `net`: with what `scope` knows, and as `request` would."""
    own = render_all({key: value for key, value in entry.items() if key not in _FIXED}, scope)
    # The values that it brings are not shown.
    values = {**entry, **{key: value.value for key, value in own.items()}, "data": "data" in entry}
    if needs := needs_of(own.values()):
        return KeychainForecast(values, needs)
    if errors := errors_of(own.values()):
        return KeychainForecast(values, error=errors[0])
    try:
        # An entry may be refused for the values that it has once rendered.
        render_keychain(replace(net, keychain=(entry,)), request.state, request.inputs, request.values, [])
    except NoetlError as error:
        return KeychainForecast(values, error=error.message)
    return KeychainForecast(values)


def find_secrets(
    net: Net,
    entries: Mapping[str, KeychainForecast],
    steps: tuple[StepForecast, ...],
    kinds: Mapping[str, KindInfo],
) -> tuple[SecretForecast, ...]:
    """The entries of the keychain, used or not, and then the credentials that tasks name."""
    named = list(_find_credentials(steps, kinds))
    users = _mentions(net, steps, "keychain")
    found: dict[str, SecretForecast] = {}
    for name, entry in entries.items():
        used = dict.fromkeys((*users.get(name, ()), *(place for place, value, _ in named if value == name)))
        found[name] = _entry(name, entry, tuple(used))
    for place, value, needs in named:
        if value in entries or value.startswith("<keychain."):
            continue
        users_of = (*(found[value].used_by if value in found else ()), place)
        found[value] = SecretForecast(value, "credential", STORE, tuple(dict.fromkeys(users_of)), needs)
    return tuple(found.values())


def _entry(name: str, found: KeychainForecast, used_by: tuple[str, ...]) -> SecretForecast:
    entry = found.values
    kind = str(entry.get("kind"))
    provider, source = source_of(entry)
    if entry.get("data"):
        provider, source = OWN, describe_secret({"keychain": name})
    return SecretForecast(name, kind, provider, used_by, found.needs, source, found.error)


def _find_credentials(
    steps: Iterable[StepForecast], kinds: Mapping[str, KindInfo]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Every credential that a task names: where, its name, and what is missing of that."""
    for step in steps:
        for task in step.tasks:
            info = kinds.get(task.kind)
            config = {key: value.value for key, value in task.config.items()}
            for at, name in credentials_in(config, info):
                needs = task.config[at.partition(".")[0]].needs
                yield place_of(step, task), name, () if is_fixed(name) else needs


def find_variables(net: Net, steps: tuple[StepForecast, ...], env: Mapping[str, str]) -> tuple[Variable, ...]:
    """The variables of the environment that templates name."""
    mentions = _mentions(net, steps, "env")
    return tuple(Variable(name, users, name in env) for name, users in sorted(mentions.items()))


def _mentions(net: Net, steps: tuple[StepForecast, ...], head: str) -> dict[str, tuple[str, ...]]:
    """What is named below `head`, and by which steps."""
    plan, found = Plan(net), dict[str, dict[str, None]]()
    places = [
        ("workload", names_used(dict(net.workload))),
        ("ctx", names_used(dict(net.ctx))),
        ("keychain", names_used(list(net.keychain))),
        ("key", names_used([] if net.key is None else net.key.value)),
    ]
    places += [(step.name, plan.names_in(step.name)) for step in steps]
    for place, chains in places:
        for chain in chains:
            if chain[0] == head and len(chain) > 1:
                found.setdefault(chain[1], {})[place] = None
    return {name: tuple(users) for name, users in found.items()}
