"""References to results that are too large for the log.

A *ResultRef* stands for one object of the result store: `{kind: result_ref, ref:
noetl://<store>/<place>/<sha256>, store, location, scope, expires_at, meta: {content_type, bytes,
sha256, compression}, extracted, aliases, preview}`. A *Manifest* stands for the parts of a list,
one behind the other, without merging them: `{kind: manifest, count, parts: [{count, items: [...]} |
{count, ref: {kind: result_ref, ...}}]}`; it is a value like any other, and large ones are kept by
reference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol, TypeAlias

from noetl.facts.json import Json, JsonMap, set_path

#: The value of `kind` in the mapping that stands for a result kept outside of the log.
RESULT_REF: Final = "result_ref"
#: The same in the mapping that stands for the parts of a list.
MANIFEST: Final = "manifest"

#: What templates read of a reference itself: its text, where the store lies, what the log keeps of
#: the value.
OF_REFERENCES: Final = {"_ref": "ref", "_store": "location", "_preview": "preview"}

#: Digits of the hours since 1970 that an instant can have.
_HOUR_DIGITS: Final = 7

#: `step`: until its execution has ended. `execution`: as long as the execution, those that it calls
#: and those that called it are kept. `permanent`: for good.
ResultScope: TypeAlias = Literal["step", "execution", "permanent"]


@dataclass(frozen=True, slots=True)
class Retention:
    """For whom a value that leaves the log is kept. From `until` (UTC) on it may be removed,
    whatever its scope."""

    execution_id: str
    scope: ResultScope = "execution"
    until: datetime | None = None

    @classmethod
    def of_place(cls, place: str) -> Retention | None:
        """What is kept in the folder `place`; None where that is none."""
        kind, _, name = place.partition("/")
        match kind:
            case "until" if name.isdecimal() and len(name) <= _HOUR_DIGITS:
                return cls("", until=datetime.fromtimestamp(int(name) * 3600, UTC))
            case "running" if name:
                return cls(name, "step")
            case "executions" if name:
                return cls(name)
            case "permanent" if not name:
                return cls("", "permanent")
            case _:
                return None

    @property
    def place(self) -> str:
        """The folder of a result store: what is kept for the same lies together, and goes
        together."""
        if self.until is not None:
            # Rounded up to the hour, so that there are few of them; nothing goes before its time.
            hour = int(-(-self.until.timestamp() // 3600))
            return f"until/{hour}"
        match self.scope:
            case "step":
                return f"running/{self.execution_id}"
            case "execution":
                return f"executions/{self.execution_id}"
            case "permanent":
                return "permanent"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `type` is DuckDB's name of it: `BIGINT`, `DECIMAL(18,4)`, `TIMESTAMPTZ`,
    ..."""

    name: str
    type: str


class Lazy(Sequence[Json], ABC):
    """A list that is read where it is looked into: what a large reference loads to."""

    __slots__ = ()

    @abstractmethod
    def pages(self) -> Iterator[list[Json]]:
        """All of it in order, a bounded part at a time."""

    def __iter__(self) -> Iterator[Json]:
        for page in self.pages():
            yield from page

    def whole(self) -> list[Json]:
        """All of it as a plain list."""
        return [item for page in self.pages() for item in page]


def is_reference(value: Json) -> bool:
    """Whether `value` is `{kind: result_ref, ref: noetl://…, …}` or `{kind: manifest, parts: [...],
    …}`."""
    if not isinstance(value, Mapping):
        return False
    kind = value.get("kind")
    if kind == RESULT_REF:
        return isinstance(value.get("ref"), str)
    return kind == MANIFEST and isinstance(value.get("parts"), list)


class Load(Protocol):
    """Fetches what a reference stands for. Content-addressed, hence the same at every replay. A
    list may be `Lazy`, and what is inside of a mapping or list may be references again."""

    def __call__(self, reference: Mapping[str, Any], /) -> Json: ...


def load_value(value: Json, load: Load) -> Json:
    """`value`, or what it stands for where it is a reference: a list may be `Lazy`, and what is
    inside stays as it is.

    Raises what `load` raises.
    """
    # What lies in the store may be a manifest, which is a reference again.
    while is_reference(value):
        value = load(value)
    return value


def as_items(value: Json, load: Load | None) -> tuple[int, Json]:
    """How many items a collection has, and the list of them or its reference: null is empty, a
    scalar or a mapping is one element. A list that is kept by reference stays where it is. Raises
    what `load` raises."""
    whole = value if load is None else load_value(value, load)
    if whole is None:
        return 0, []
    if isinstance(whole, list | Lazy):
        return len(whole), value
    return 1, [value]


def open_references(value: Json, load: Load) -> Json:
    """`value` with every reference in it, at any depth, replaced by what it stands for.

    What holds no reference is handed back as it is, not copied. Raises what `load` raises.
    """
    return _replace(value, load) if holds_reference(value) else value


def find_references(value: Json) -> Iterator[JsonMap]:
    """Every reference to one object that stands in `value`, however deep (without recursion)."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, Mapping):
            if current.get("kind") == RESULT_REF and is_reference(current):
                yield dict(current)
            pending.extend(current.values())
        elif isinstance(current, list | tuple):
            pending.extend(current)


def holds_reference(value: Json) -> bool:
    """Whether a reference stands anywhere in `value`, however deep (without recursion)."""
    return next(references_in(value), None) is not None


def references_in(value: Json) -> Iterator[JsonMap]:
    """Every reference in `value`, at any depth; not those behind them."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, Mapping):
            if is_reference(current):
                yield current
            else:
                pending.extend(current.values())
        elif isinstance(current, list | tuple):
            pending.extend(current)


def plain(value: Json) -> Json:
    """`value`, a list that is read lazily as a whole one."""
    return value.whole() if isinstance(value, Lazy) else value


def _replace(value: Json, load: Load) -> Json:
    if isinstance(value, Mapping):
        if is_reference(value):
            return open_references(plain(load_value(value, load)), load)
        return {key: _replace(item, load) for key, item in value.items()}
    if isinstance(value, list | tuple):
        kind = list if isinstance(value, list) else tuple
        return kind(_replace(item, load) for item in value)
    return value


def assign_below(
    store: JsonMap,
    name: str,
    value: Json,
    load: Load | None,
    is_large: Callable[[Json], bool] = lambda _: False,
) -> tuple[str, Json]:
    """The assignment `name = value` to `store`, where `name` is dotted: what it changes a part of
    is opened if it is a reference, and assigned as a whole if it is one or will be. Raises what
    `load` raises."""
    parts = name.split(".")
    inner: Json = store
    for depth, part in enumerate(parts[:-1], 1):
        inner = inner.get(part) if isinstance(inner, Mapping) else None
        if not isinstance(inner, Mapping) or not (is_reference(inner) or is_large(inner)):
            continue
        whole = inner if load is None else load_value(inner, load)
        rest = ".".join(parts[depth:])
        return ".".join(parts[:depth]), set_path(whole if isinstance(whole, Mapping) else {}, rest, value)
    return name, value
