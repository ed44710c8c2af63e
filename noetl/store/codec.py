"""Facts to JSON text and back, and the upcasting of older payloads.

Payloads are compact JSON text. NaN and infinities are refused; NUL is escaped by JSON itself; lone
surrogates, which no database can hold, become U+FFFD. Both directions are hand-made because they
are the hot path of every replay.

Processes of two versions share a log while one takes the place of the other. So a reader passes
over fields that it does not know, and a field that was added later is left out where it says
nothing. What a reader must not pass over is a type of its own, or another schema: what it means for
the state nobody can guess, and an execution that waits is better than one that goes on wrongly. So
a new type is read by one release, and written by the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints

from noetl.errors import BadRequest, NoetlError
from noetl.facts import json
from noetl.facts.events import SCHEMA, Fact, ResultDiscarded, SignalReceived, StepScheduled
from noetl.facts.json import Json

#: One step from `(type, schema)` to the next schema: takes and returns (type, payload).
Upcaster: TypeAlias = Callable[[str, dict[str, Json]], tuple[str, dict[str, Json]]]

#: The steps known, by the type and schema that they start from. Types that are absent did not
#: change.
UPCASTERS: Final[Mapping[tuple[str, int], Upcaster]] = {}

#: What facts, and the records in them, say that earlier versions did not know, and what it is of
#: one that does not say it: then it is left out, and versions that pass over nothing read it.
LATER: Final[Mapping[type[Any], Mapping[str, Json]]] = {
    SignalReceived: {"about": None},
    StepScheduled: {"queue": ""},
}

#: Types that were written between two releases, and what they are today.
RETIRED: Final[Mapping[str, Callable[[Any], Fact]]] = {
    "command.delivery.lost": lambda said: ResultDiscarded.by_loss(**said),
}

#: Class of every type in the log.
FACTS: Final[Mapping[str, type[Fact]]] = {fact.type: fact for fact in get_args(Fact)}


# --- JSON ---


def _plain(value: object) -> Json:
    """What `json` does not know by itself: the small records inside facts, and mappings that are no
    dict."""
    if is_dataclass(value) and not isinstance(value, type):
        said = {name: getattr(value, name) for name in _names(type(value))}
        return _leave_out(said, type(value))
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _leave_out(said: dict[str, Json], record: type[Any]) -> dict[str, Json]:
    """What the record says, without what says nothing and was not known earlier."""
    later = LATER.get(record)
    if later is None:
        return said
    return {name: value for name, value in said.items() if name not in later or value != later[name]}


# Made once: that is a third of the time of a small payload.
_encode: Final = json.encoder(_plain, typed=True)


def dumps(value: Json, what: str = "value") -> str:
    """Compact JSON that any database can hold. Raises BadRequest, naming `what`, where it is not
    JSON."""
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"This {what} cannot be stored, as it is not JSON: {error}.") from error
    return text if text.isascii() else clean(text)


def clean(text: str) -> str:
    """`text` with lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def loads(text: str) -> Any:
    """What `dumps` wrote (no blanks around it)."""
    return json.scan(text)


# --- records ---


def _names(record: type[Any]) -> tuple[str, ...]:
    found = _NAMES.get(record)
    if found is None:
        found = _NAMES[record] = tuple(field.name for field in fields(record))
    return found


_NAMES: dict[type[Any], tuple[str, ...]] = {}

Reader: TypeAlias = Callable[[Any], Any]


def _record_reader(record: type[Any]) -> Reader:
    """Builds a record from its mapping, with readers for those fields that are not JSON as they
    are."""
    hints = get_type_hints(record)
    readers = {name: _reader(hints[name]) for name in _names(record)}
    special = [(name, reader) for name, reader in readers.items() if reader is not None]

    def read(value: Any) -> Any:
        for name, reader in special:
            if name in value:
                value[name] = reader(value[name])
        try:
            return record(**value)
        except TypeError:
            if not isinstance(value, dict) or value.keys() <= readers.keys():
                raise
            return record(**{name: value[name] for name in readers if name in value})

    return read


def _reader(hint: Any) -> Reader | None:
    """How a field of that type comes out of JSON; None where it is JSON already."""
    if is_dataclass(hint) and isinstance(hint, type):
        return _record_reader(hint)
    if get_origin(hint) is tuple:
        return _tuple_reader(_reader(get_args(hint)[0]))
    inner = next((found for arm in _optional(hint) if (found := _reader(arm))), None)
    return None if inner is None else lambda value: None if value is None else inner(value)


def _tuple_reader(inner: Reader | None) -> Reader:
    return tuple if inner is None else lambda value: tuple(map(inner, value))


def _optional(hint: Any) -> Sequence[Any]:
    """The arms of `X | None`; nothing for other types."""
    arms = get_args(hint)
    return [arm for arm in arms if arm is not type(None)] if type(None) in arms else ()


def _values_of(record: type[Any]) -> tuple[tuple[str, ...], Callable[[Any], tuple[Json, ...]]]:
    """The names of a record's fields, and what reads all of them at once."""
    names = _names(record)
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda value: tuple(getattr(value, name) for name in names)


_VALUES: Final = {fact: _values_of(fact) for fact in FACTS.values()}
_READERS: Final[Mapping[str, Reader]] = {kind: _record_reader(fact) for kind, fact in FACTS.items()}


def payload(fact: Fact) -> str:
    """The fact's fields as JSON text."""
    names, values = _VALUES[type(fact)]
    said = dict(zip(names, values(fact), strict=True))
    return dumps(_leave_out(said, type(fact)), fact.type)


def fact(kind: str, schema: int, text: str) -> Fact:
    """The fact that `payload` wrote, under whatever schema. Raises NoetlError where it cannot be
    read."""
    value = loads(text)
    if schema != SCHEMA:
        kind, value = upcast(kind, schema, value)
    reader = _READERS.get(kind) or RETIRED.get(kind)
    if reader is None:
        raise NoetlError(
            f"The log holds an event of type {kind!r}, which this version does not know; upgrade."
        )
    try:
        found: Fact = reader(value)
    except (TypeError, AttributeError) as error:
        raise NoetlError(
            f"The payload of a {kind} event (schema {schema}) cannot be read: {error}."
        ) from error
    return found


def upcast(
    kind: str,
    schema: int,
    value: dict[str, Json],
    steps: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
    target: int = SCHEMA,
) -> tuple[str, dict[str, Json]]:
    """Brings a payload from `schema` to `target`, one step at a time. Raises NoetlError for a newer
    one."""
    if schema > target:
        raise NoetlError(
            f"A {kind} event has schema {schema}, but this version reads up to {target}; upgrade NoETL."
        )
    for step in range(schema, target):
        change = steps.get((kind, step))
        if change is not None:
            kind, value = change(kind, value)
    return kind, value


# --- identifiers ---


def number(execution_id: str) -> int:
    """The number of a decimal id; -1, which no execution has, for anything else (`07`, `x`,
    2**63)."""
    if not (execution_id.isascii() and execution_id.isdecimal() and len(execution_id) <= 19):
        return -1
    value = int(execution_id)
    return value if value < 1 << 63 and str(value) == execution_id else -1
