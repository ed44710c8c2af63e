"""What has to be there before an execution begins: the credentials and the playbooks that a net
names as they are. Names that are templates are known only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from noetl.expressions import names_used
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import STORE
from noetl.net.checks import descendants
from noetl.net.model import KindInfo, Net, Task

#: The kind of the tasks that call playbooks.
CALL: Final = "playbook"
#: The kind of the tasks that find a secret, of the credentials or elsewhere.
SECRETS: Final = "secrets"
#: In the place of a step: what comes before the first one.
BEFORE: Final = ""

#: The chains of names that the templates of a step read.
NamesIn: TypeAlias = Callable[[str], frozenset[tuple[str, ...]]]
PrerequisiteKind: TypeAlias = Literal["credential", "playbook"]


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """Something that `steps` need, the first of which names it on that `line`, or by `entry`, which
    is one of the keychain. `version` is that of a playbook; None: the newest."""

    kind: PrerequisiteKind
    name: str
    version: int | None = None
    steps: tuple[str, ...] = ()
    entry: str = ""
    line: int = 0


def find_prerequisites(
    net: Net, names_in: NamesIn, kinds: Mapping[str, KindInfo]
) -> tuple[Prerequisite, ...]:
    """Each once, in the order of the net, without those that come while it runs, as the playbook
    says."""
    entries = {str(entry["name"]): entry for entry in net.keychain}
    provided = net.provides
    found: dict[tuple[str, str, int | None], Prerequisite] = {}
    for use in _uses(net, names_in, kinds):
        one = _open_entry(use, entries)
        later = provided.credentials if one.kind == "credential" else provided.playbooks
        if not is_fixed(one.name) or one.name in later:
            continue
        key = (one.kind, one.name, one.version)
        known = found.setdefault(key, one)
        found[key] = replace(known, steps=tuple(dict.fromkeys((*known.steps, *one.steps))))
    return tuple(found.values())


def is_fixed(name: str) -> bool:
    """Whether `name` is the same in any run."""
    return bool(name) and "{" not in name


def _uses(net: Net, names_in: NamesIn, kinds: Mapping[str, KindInfo]) -> Iterator[Prerequisite]:
    """What may be named more than once. Credentials may be entries of the keychain."""
    early = [net.workload, net.ctx, net.keychain, None if net.key is None else net.key.value]
    yield from _mentioned(names_used([part for part in early if part]), BEFORE)
    reached = descendants(net, net.beginnings)
    for step in net.transitions:
        if step.name not in reached:
            continue
        for task in step.calls:
            yield from _named_by(task, step.name, kinds.get(task.kind))
        if net.keychain:
            yield from _mentioned(names_in(step.name), step.name)


def _mentioned(chains: frozenset[tuple[str, ...]], step: str) -> Iterator[Prerequisite]:
    for chain in sorted(chains):
        if chain[0] == "keychain" and len(chain) > 1:
            yield Prerequisite("credential", "", steps=(step,), entry=chain[1])


def _named_by(task: Task, step: str, info: KindInfo | None) -> Iterator[Prerequisite]:
    for place, name in credentials_in(task.config, info):
        yield Prerequisite("credential", name, steps=(step,), line=_line(task, place))
    called = called_by(task)
    if called is not None:
        yield replace(called, steps=(step,), line=_line(task, "path"))


def called_by(task: Task) -> Prerequisite | None:
    """The playbook that the task calls."""
    path = task.config.get("path")
    if task.kind != CALL or not isinstance(path, str):
        return None
    version = str(task.config.get("version"))
    return Prerequisite("playbook", path, int(version) if version.isdecimal() else None)


def credentials_in(config: Mapping[str, Json], info: KindInfo | None) -> Iterator[tuple[str, str]]:
    """Where tasks of a kind name credentials, dotted, and their names as they are written."""
    if info is None:
        return
    for place in (*info.credentials, *_of_store(config, info)):
        found = _values_at(config, place) if _takes(info, place.partition(".")[0]) else ()
        for at, value in found:
            name = value.get("credential") if isinstance(value, Mapping) else value
            if isinstance(name, str) and name:
                yield at, name


def _of_store(config: Mapping[str, Json], info: KindInfo) -> tuple[str, ...]:
    """Where a task that finds a secret says its name, where that is one of a credential."""
    if info.kind != SECRETS or config.get("provider", STORE) != STORE:
        return ()
    return ("path",) if config.get("path") else ("name",)


def _takes(info: KindInfo, key: str) -> bool:
    """Whether tasks of the kind read that key."""
    is_closed = info.schema.get("additionalProperties") is False
    return not is_closed or key in info.schema.get("properties", {})


def _values_at(config: Mapping[str, Json], place: str) -> Iterator[tuple[str, Json]]:
    """The values at a dotted place, in which `*` stands for any key."""
    head, _, rest = place.partition(".")
    for key in config if head == "*" else (head,):
        value = config.get(key)
        if not rest:
            yield key, value
        elif isinstance(value, Mapping):
            yield from ((f"{key}.{at}", inner) for at, inner in _values_at(value, rest))


def _line(task: Task, place: str) -> int:
    return next((task.lines[at] for at in _around(place) if at in task.lines), task.line)


def _around(place: str) -> Iterator[str]:
    while place:
        yield place
        place = place.rpartition(".")[0]


def _open_entry(use: Prerequisite, entries: Mapping[str, JsonMap]) -> Prerequisite:
    """What is needed for it: of an entry of the keychain the credential behind it."""
    entry = entries.get(use.entry or use.name) if use.kind == "credential" else None
    if entry is None:
        return use
    provider, source = source_of(entry)
    name = source if provider == STORE and not entry.get("data") else ""
    return replace(use, name=name, entry=str(entry["name"]), line=0)


def source_of(entry: JsonMap) -> tuple[str, str]:
    """Who keeps what an entry of the keychain stands for, and what it is called there; of what the
    playbook brings itself nobody does."""
    match entry.get("kind"):
        case "credential":
            return STORE, _text(entry.get("credential"))
        case "secret":
            return _text(entry.get("provider")), _text(entry.get("path"))
        case "token":
            auth = entry.get("auth")
            return STORE, _text(auth.get("credential") if isinstance(auth, Mapping) else auth)
        case _:
            return "", ""


def _text(value: Json) -> str:
    return "" if value is None else str(value)
