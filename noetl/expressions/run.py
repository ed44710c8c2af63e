"""One rendering: its names, its references, its budgets; and how values are reached into.

Keys of mappings win over methods. A reference is replaced by what it stands for before anything else
looks at it. What is not there is `Undefined`; what is not allowed is `Forbidden`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, TypeAlias

from jinja2.sandbox import ImmutableSandboxedEnvironment

from noetl.expressions.chains import Chain, path_of, path_text
from noetl.expressions.limits import Meter
from noetl.expressions.refusals import Broken, Forbidden, OverLimit
from noetl.expressions.results import Result, body_of, is_response, value_of
from noetl.expressions.strings import TEXT_METHODS, format_text
from noetl.expressions.time_filters import OF_DURATIONS, OF_INSTANTS, TIME_FILTERS, part_of_time
from noetl.expressions.undefined import Undefined
from noetl.expressions.values import ATOMS, comparable, kind_of, listed, measure
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import OF_REFERENCES, Lazy, Load, is_reference, loaded, opened
from noetl.facts.secret import MARK, deeper, is_secret

#: A filter or test: `(run, value, *args, **kwargs)`.
Verb: TypeAlias = Callable[..., Any]

#: Jinja reads the templates; its sandbox judges attributes of objects that are not JSON (an instant).
SANDBOX = ImmutableSandboxedEnvironment(keep_trailing_newline=True, autoescape=False, optimized=False)


class Run(Meter):
    """The state of one rendering. `filters` and `tests` are the vocabulary, for `map` and `select`."""

    __slots__ = ("_load", "_names", "_origins", "filters", "tests")

    def __init__(
        self,
        names: Mapping[str, Any],
        load: Load | None,
        filters: Mapping[str, Verb],
        tests: Mapping[str, Verb],
    ) -> None:
        super().__init__()
        self._names = names
        self._load = load
        #: What each lazy list was loaded from, by its identity; the list is kept so that this stays its own.
        self._origins: dict[int, tuple[Lazy, Json]] | None = None
        self.filters = filters
        self.tests = tests

    def name(self, name: str) -> Any:
        """The value of a name that the template does not bind itself."""
        return self.resolve(find(self._names, name))

    def resolve(self, value: Any) -> Any:
        """`value`, or what it stands for when it is a reference."""
        if type(value) is Result:
            value = value.value
        found = _loaded(value, self._load)
        if found is not value and isinstance(found, Lazy):
            self._origins = self._origins or {}
            self._origins[id(found)] = (found, value)
        return found

    def opened(self, value: Json) -> Json:
        """`value`, every reference inside of it replaced by what it stands for."""
        if self._load is None:
            return value
        return opened(self._listed(value) if self._origins else value, self._whole)

    def _listed(self, value: Any) -> Any:
        """`value`, in which the template itself may have put lists that are read lazily."""
        if isinstance(value, Mapping):
            return {key: self._listed(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            kind = list if isinstance(value, list) else tuple
            return kind(self._listed(item) for item in value)
        return listed(value, self)

    def _whole(self, reference: Mapping[str, Any], /) -> Json:
        return listed(loaded(reference, self._load), self) if self._load is not None else reference

    def closed(self, value: Lazy) -> Json:
        """The reference that a lazy list came from; all of it as a plain list where there is none."""
        _, reference = (self._origins or {}).get(id(value), (value, None))
        return listed(value, self) if reference is None else reference

    def chain(self, chain: Chain) -> Any:
        """The value of a name with attributes, resolved."""
        return self.resolve(follow(self._names, chain, self._load))

    def item(self, value: Any, key: Any) -> Any:
        """`value.key` or `value[key]`; `key` may be a slice."""
        if isinstance(key, slice):
            return self._slice(self.resolve(value), key)
        return self.resolve(reach(self.resolve(value), key))

    def _slice(self, value: Any, part: slice) -> Any:
        if isinstance(value, Undefined):
            return value
        if not isinstance(value, str | list | tuple | range | Lazy):
            raise Broken(f"cannot be computed: {kind_of(value)} has no slices")
        if isinstance(value, str):
            refuse_marked(value)
            self.text(len(value))
        else:
            # Of a list that is read lazily no more than this is read.
            self.items(len(range(*part.indices(len(value)))))
        return value[part]

    def elements(self, value: Any) -> Sequence[Any]:
        """What a loop or filter over `value` meets, each reference resolved when it is reached."""
        value = self.resolve(value)
        if isinstance(value, str):
            self.read(len(value))
            return value
        if isinstance(value, list | tuple | range | Lazy):
            return value
        if isinstance(value, Undefined):
            return ()
        if isinstance(value, Mapping):
            refuse_secret(value, "loops over")
            self.items(len(value))
            return list(value)
        if isinstance(value, set | frozenset):
            raise Broken("cannot loop over a set, whose order is left to chance")
        return self._drain(value)

    def _drain(self, value: Any) -> list[Any]:
        if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray):
            raise Broken(f"cannot loop over {kind_of(value)}")
        found = []
        for item in value:
            self.work(1)
            found.append(item)
        return found

    def call(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """`function(*args, **kwargs)`."""
        self.work(1)
        if isinstance(function, Callee):
            return self.resolve(function.call(self, args, kwargs))
        if isinstance(function, Undefined):
            raise Broken(_uncallable(function.path))
        if not callable(function):
            raise Broken(f"cannot call {kind_of(function)}")
        if isinstance(function, type) or not SANDBOX.is_safe_callable(function):
            raise Forbidden("calls something outside of the sandbox")
        positional = [_outward(value) for value in args]
        return self.resolve(function(*positional, **{key: _outward(value) for key, value in kwargs.items()}))


def _uncallable(path: str) -> str:
    if path == "now":
        places = "the workload, `set`, the input of a step, its arcs"
        return f"calls now(), which is there only where its value is recorded: {places}"
    return f"cannot call '{path}', which is undefined"


def _outward(value: Any) -> Any:
    return None if isinstance(value, Undefined) else value


class Callee(ABC):
    """Something of ours that a template may call: a method of a value."""

    __slots__ = ()

    @abstractmethod
    def call(self, run: Run, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any: ...


class Members(ABC):
    """Something of ours with attributes: the `loop` of a loop."""

    __slots__ = ()

    @abstractmethod
    def member(self, name: str) -> Any:
        """The attribute, or `Undefined`."""


class Namespace(Members):
    """What `namespace()` makes: the one thing whose attributes a template may assign."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def member(self, name: str) -> Any:
        return self.values.get(name, Undefined(name))


class Method(Callee):
    """A method that is bound to its value."""

    __slots__ = ("_function", "_value")

    def __init__(self, function: Verb, value: Any) -> None:
        self._function = function
        self._value = value

    def call(self, run: Run, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        refuse_marked(self._value)
        return self._function(run, self._value, *args, **kwargs)


class MissingKey(Undefined, Callee):
    """A key that a mapping does not have, called like one of its methods: undefined, unless it is called."""

    __slots__ = ("_method",)

    def __init__(self, name: str, method: Method) -> None:
        super().__init__(name)
        self._method = method

    def call(self, run: Run, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._method.call(run, args, kwargs)


def follow(names: Mapping[str, Any], chain: Chain, load: Load | None) -> Any:
    """The value at the end of a chain, a reference left as it is where it is the end."""
    value, parts, at = find(names, chain.head), chain.parts, 0
    while at < len(parts):
        kept = value.value if type(value) is Result else value
        if type(kept) is dict and "extracted" in kept and (end := _known(kept, parts, at, load)):
            value, at = kept["extracted"][path_text(parts[at:end])], end
        else:
            if (path := _alias(kept, parts[at])) is not None:
                parts, at = (*path, *parts[at + 1 :]), 0
            value, at = into(value, parts[at], load), at + 1
    return value.value if type(value) is Result else value


def _known(kept: JsonMap, parts: tuple[str | int, ...], at: int, load: Load | None) -> int | None:
    """Where the longest path from `at` on ends that the reference `kept` knows the value of."""
    if load is None or not is_reference(kept):
        return None
    ends = range(len(parts), at, -1)
    return next((end for end in ends if path_text(parts[at:end]) in kept["extracted"]), None)


def _alias(kept: Any, part: str | int) -> tuple[str | int, ...] | None:
    """The path that the reference `kept` has another name for, and whose value it does not know."""
    if type(kept) is not dict or "aliases" not in kept or not is_reference(kept):
        return None
    path = kept["aliases"].get(part)
    return None if path is None else path_of(path)


def into(value: Any, part: str | int, load: Load | None) -> Any:
    """One step of a chain, through references and results."""
    kept = value_of(value)
    if part in OF_REFERENCES and type(kept) is dict and is_reference(kept) and not _has_key(kept, part):
        return reach(kept, OF_REFERENCES[str(part)])
    inner = _loaded(kept, load)
    if type(value) is not Result:
        return _from_envelope(inner, load) if part == "body" else reach(inner, part)
    return _from_result(value, inner, part, load)


def _from_result(result: Result, inner: Any, part: str | int, load: Load | None) -> Any:
    """A part of what a step or task left behind, whose value is `inner`."""
    own = _absent(inner, part) if part == "body" and is_response(inner) else reach(inner, part)
    if not isinstance(own, Undefined):
        return own
    if part in result.also:
        return result.also[str(part)]
    if part == "data":
        return result.value
    body = _loaded(body_of(inner), load)
    if isinstance(body, Mapping) and part in body:
        return body[part]
    return reach(inner, part) if part == "body" else own


def _from_envelope(value: Any, load: Load | None) -> Any:
    """`body` of an outcome: that of its result, where that is the result of an http task."""
    if (
        isinstance(value, dict)
        and "body" not in value
        and "http" in value
        and type(value.get("data")) is Result
    ):
        return into(value["data"], "body", load)
    return reach(value, "body")


def _has_key(reference: JsonMap, key: str | int) -> bool:
    """Whether what `reference` stands for has the key itself, as far as its preview tells."""
    preview = reference.get("preview")
    return isinstance(preview, Mapping) and key in preview.get("keys", ())


def _loaded(value: Any, load: Load | None) -> Any:
    return value if type(value) in ATOMS or load is None else loaded(value, load)


def find(names: Mapping[str, Any], name: str) -> Any:
    """The value that `names` has for `name`, or `Undefined`."""
    try:
        return names[name]
    except KeyError:
        return Undefined(name)


def reach(value: Any, key: Any) -> Any:
    """One step of a chain, `value.key` or `value[key]`, references left alone."""
    found: Any
    if not isinstance(key, str | int | float | None):
        # Not even looked up: hashing or printing what a template built may take for ever.
        found = Undefined(f"[{kind_of(key)}]")
    elif isinstance(value, Mapping):
        # What stands for a secret has the secret's names, known only inside of a tool call.
        found = deeper(value, str(key)) if is_secret(value) else _from_mapping(value, key)
    elif isinstance(value, str | list | tuple | range | Lazy) and isinstance(key, int):
        found = value[key] if -len(value) <= key < len(value) else _absent(value, key)
    elif isinstance(key, str):
        found = _from_object(value, key)
    else:
        found = _absent(value, key)
    return found


def refuse_secret(value: Any, verb: str) -> None:
    """Refuses what only the value of a secret could answer. `verb` as in "The template `...` compares a secret"."""
    if isinstance(value, Mapping) and is_secret(value):
        raise Forbidden(f"{verb} a secret, whose value is known only inside of a tool call")


def refuse_marked(value: Any) -> None:
    """Refuses to change a text that a secret will be put into."""
    if isinstance(value, str) and MARK in value:
        raise Forbidden("changes a text with a secret in it, whose value is known only inside of a tool call")


def _from_mapping(value: Mapping[Any, Any], key: Any) -> Any:
    try:
        return value[key]
    except KeyError:
        if key == "body" and is_response(value):
            return value["data"]
        return _from_object(value, key) if isinstance(key, str) else _absent(value, key)


def _from_object(value: Any, name: str) -> Any:
    if name.startswith("__"):
        raise Forbidden(f"reaches for '{name}', which is outside of the sandbox")
    if isinstance(value, Undefined):
        return Undefined(f"{value.path}.{name}")
    method = _methods(value).get(name)
    if method is not None:
        bound = Method(method, value)
        return MissingKey(name, bound) if isinstance(value, Mapping) else bound
    if isinstance(value, Members):
        return value.member(name)
    if isinstance(value, tuple) and name in getattr(value, "_fields", ()):
        return getattr(value, name)
    if isinstance(value, date | timedelta) and (part := part_of_time(value, name)) is not None:
        return part
    return _absent(value, name)


def _absent(value: Any, key: Any) -> Undefined:
    shown = key[:60] if isinstance(key, str) else f"[{key}]"
    return Undefined(f"{value.path}.{shown}" if isinstance(value, Undefined) else shown)


def _methods(value: Any) -> Mapping[str, Verb]:
    if isinstance(value, str):
        return _OF_TEXTS
    if isinstance(value, Mapping):
        return _OF_MAPPINGS
    if isinstance(value, list | tuple | range | Lazy):
        return _OF_LISTS
    if isinstance(value, date | timedelta):
        return OF_INSTANTS if isinstance(value, date) else OF_DURATIONS
    return _OF_NUMBERS if isinstance(value, float) else {}


def _format(run: Run, value: str, *args: Any, **kwargs: Any) -> str:
    return format_text(run, lambda item, key: _field(run, item, key), value, args, kwargs)


def _field(run: Run, value: Any, key: str) -> Any:
    return run.item(value, int(key) if key.isdecimal() and len(key) < 10 else key)


def _keys(run: Run, value: Mapping[str, Any]) -> list[str]:
    run.items(len(value))
    return list(value)


def _values(run: Run, value: Mapping[str, Any]) -> list[Any]:
    run.items(len(value))
    return list(value.values())


def items(run: Run, value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """`value.items()`."""
    run.items(len(value))
    return list(value.items())


def _get(_: Run, value: Mapping[str, Any], key: Any, default: Any = None) -> Any:
    if not isinstance(key, str | int | float | None):
        return default
    return value.get(key, default)  # type: ignore[arg-type]  # a key of another type is absent


def _position(run: Run, value: Sequence[Any], *args: Any) -> int:
    value = comparable(list(value) if isinstance(value, range) else value, run)
    return value.index(*comparable(list(args), run))


def _count(run: Run, value: Sequence[Any], item: Any) -> int:
    number: int = comparable(value, run).count(comparable(item, run))
    return number


def _copy(run: Run, value: Any) -> Any:
    run.items(len(value))
    return dict(value) if isinstance(value, Mapping) else list(listed(value, run))


def _is_integer(_: Run, value: float) -> bool:
    return value.is_integer()


_OF_TEXTS: Mapping[str, Verb] = {**TEXT_METHODS, "format": _format}
_OF_MAPPINGS: Mapping[str, Verb] = {
    "copy": _copy,
    "get": _get,
    "items": items,
    "keys": _keys,
    "values": _values,
}
_OF_LISTS: Mapping[str, Verb] = {"copy": _copy, "count": _count, "index": _position}
_OF_NUMBERS: Mapping[str, Verb] = {"is_integer": _is_integer}

#: Most elements of a `range`.
MAX_RANGE = 100_000


def _range(_: Run, *args: Any) -> range:
    numbers = range(*args)
    # Comparing first and last instead of `len`, which fails beyond the size of a machine word.
    step = numbers.step
    if abs(numbers.stop - numbers.start) // abs(step) > MAX_RANGE:
        raise OverLimit(f"makes a range of more than {MAX_RANGE} numbers")
    return numbers


def _dict(run: Run, *args: Any, **kwargs: Any) -> dict[str, Any]:
    measure(list(args), run)
    return dict(*args, **kwargs)


def _namespace(run: Run, *args: Any, **kwargs: Any) -> Namespace:
    return Namespace(_dict(run, *args, **kwargs))


#: Functions that every template may call. As plain names they mean nothing: `{{ range }}` is a name.
GLOBALS: Mapping[str, Verb] = {
    "range": _range,
    "dict": _dict,
    "namespace": _namespace,
    "timedelta": TIME_FILTERS["timedelta"],
}
