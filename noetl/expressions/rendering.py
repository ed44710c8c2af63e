"""One rendering: its names, its references, its budgets; and how values are reached into.

Keys of mappings win over methods. A reference is replaced by what it stands for before anything
else looks at it. What is not there is `Undefined`; what is not allowed is `Barred`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from operator import methodcaller
from typing import Any, Final

from jinja2.sandbox import ImmutableSandboxedEnvironment

from noetl.expressions.limits import Barred, Broken, Meter, refuse_marked, refuse_secret
from noetl.expressions.members import Attributes, Method, MissingKey, Undefined, Verb
from noetl.expressions.methods import OF_DURATIONS, OF_INSTANTS, TEXT_METHODS, format_text, part_of_time
from noetl.expressions.scope import ResultView, is_response
from noetl.expressions.values import ATOMS, kind_of, to_comparable, to_list
from noetl.facts.json import Json
from noetl.facts.reference import Lazy, Load, load_value, open_references
from noetl.facts.secret import deeper, is_secret

#: Jinja reads the templates; its sandbox judges attributes of objects that are not JSON (an
#: instant).
SANDBOX = ImmutableSandboxedEnvironment(keep_trailing_newline=True, autoescape=False, optimized=False)

#: Paths that are undefined in one text and that are remembered.
_MOST_ABSENT: Final = 10


class Rendering(Meter):
    """The state of one rendering. `filters` and `tests` are the vocabulary, for `map` and
    `select`."""

    __slots__ = ("_origins", "absent", "filters", "load", "names", "tests")

    def __init__(
        self,
        names: Mapping[str, Any],
        load: Load | None,
        filters: Mapping[str, Verb],
        tests: Mapping[str, Verb],
    ) -> None:
        super().__init__()
        self.names = names
        self.load = load
        #: What each lazy list was loaded from, by its identity; the list is kept so that this stays
        #: its own.
        self._origins: dict[int, tuple[Lazy, Json]] | None = None
        self.absent: dict[str, None] = {}
        self.filters = filters
        self.tests = tests

    def miss(self, path: str) -> None:
        """Remembers what is undefined in a text."""
        if len(self.absent) < _MOST_ABSENT:
            self.absent[path] = None

    def name(self, name: str) -> Any:
        """The value of a name that the template does not bind itself."""
        return self.resolve(find(self.names, name))

    def resolve(self, value: Any) -> Any:
        """`value`, or what it stands for when it is a reference."""
        if type(value) is ResultView:
            value = value.value
        found = load_reference(value, self.load)
        if found is not value and isinstance(found, Lazy):
            self._origins = self._origins or {}
            self._origins[id(found)] = (found, value)
        return found

    def open_references(self, value: Json) -> Json:
        """`value`, every reference inside of it replaced by what it stands for."""
        if self.load is None:
            return value
        return open_references(self._list_lazy(value) if self._origins else value, self._load_whole)

    def _list_lazy(self, value: Any) -> Any:
        """`value`, in which the template itself may have put lists that are read lazily."""
        if isinstance(value, Mapping):
            return {key: self._list_lazy(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            kind = list if isinstance(value, list) else tuple
            return kind(self._list_lazy(item) for item in value)
        return to_list(value, self)

    def _load_whole(self, reference: Mapping[str, Any], /) -> Json:
        return to_list(load_value(reference, self.load), self) if self.load is not None else reference

    def close_list(self, value: Lazy) -> Json:
        """The reference that a lazy list came from; all of it as a plain list where there is
        none."""
        _, reference = (self._origins or {}).get(id(value), (value, None))
        return to_list(value, self) if reference is None else reference

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
        """What a loop or filter over `value` meets, each reference resolved when it is reached.
        Raises Broken."""
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
        raise Broken(f"cannot loop over {kind_of(value)}")

    def call(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """`function(*args, **kwargs)`. Raises Broken, and Barred outside of the sandbox."""
        self.work(1)
        if isinstance(function, MissingKey):
            function = function.method
        if isinstance(function, Method):
            return self.resolve(function.call(self, args, kwargs))
        if isinstance(function, Undefined):
            raise Broken(_explain_uncallable(function.path))
        if not callable(function):
            raise Broken(f"cannot call {kind_of(function)}")
        if isinstance(function, type) or not SANDBOX.is_safe_callable(function):
            raise Barred("calls something outside of the sandbox")
        positional = [_to_argument(value) for value in args]
        return self.resolve(
            function(*positional, **{key: _to_argument(value) for key, value in kwargs.items()})
        )


def _explain_uncallable(path: str) -> str:
    if path == "now":
        places = "the workload, `set`, the input of a step, its arcs"
        return f"calls now(), which is there only where its value is recorded: {places}"
    return f"cannot call '{path}', which is undefined"


def _to_argument(value: Any) -> Any:
    return None if isinstance(value, Undefined) else value


def load_reference(value: Any, load: Load | None) -> Any:
    """`value`, or what it stands for when it is a reference that `load` loads."""
    return value if type(value) in ATOMS or load is None else load_value(value, load)


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
        found = value[key] if -len(value) <= key < len(value) else make_undefined(value, key)
    elif isinstance(key, str):
        found = _from_object(value, key)
    else:
        found = make_undefined(value, key)
    return found


def _from_mapping(value: Mapping[Any, Any], key: Any) -> Any:
    try:
        return value[key]
    except KeyError:
        if key == "body" and is_response(value):
            return value["data"]
        return _from_object(value, key) if isinstance(key, str) else make_undefined(value, key)


def _from_object(value: Any, name: str) -> Any:
    if name.startswith("__"):
        raise Barred(f"reaches for '{name}', which is outside of the sandbox")
    if isinstance(value, Undefined):
        return Undefined(f"{value.path}.{name}")
    # mypy takes the hash of a class for that of its instances.
    method = _methods(type(value)).get(name)  # type: ignore[arg-type]
    if method is not None:
        bound = Method(method, value)
        return MissingKey(name, bound) if isinstance(value, Mapping) else bound
    if isinstance(value, Attributes):
        return value.member(name)
    if isinstance(value, tuple) and name in getattr(value, "_fields", ()):
        return getattr(value, name)
    if isinstance(value, date | timedelta) and (part := part_of_time(value, name)) is not None:
        return part
    return make_undefined(value, name)


def make_undefined(value: Any, key: Any) -> Undefined:
    """For a `key` that `value` does not have."""
    shown = key[:60] if isinstance(key, str) else f"[{key}]"
    return Undefined(f"{value.path}.{shown}" if isinstance(value, Undefined) else shown)


@cache
def _methods(kind: type) -> Mapping[str, Verb]:
    return next((methods for known, methods in _METHODS if issubclass(kind, known)), {})


def _format(run: Rendering, value: str, *args: Any, **kwargs: Any) -> str:
    return format_text(run, lambda item, key: _field(run, item, key), value, args, kwargs)


def _field(run: Rendering, value: Any, key: str | int) -> Any:
    return run.item(value, int(key) if isinstance(key, str) and key.isdecimal() and len(key) < 10 else key)


def make_listing(listing: Callable[[Any], Iterable[Any]]) -> Verb:
    """What `listing` finds in a mapping, as a list, paid for."""

    def method(run: Rendering, value: Mapping[str, Any]) -> list[Any]:
        run.items(len(value))
        return list(listing(value))

    return method


def _get(_: Rendering, value: Mapping[str, Any], key: Any, default: Any = None) -> Any:
    if not isinstance(key, str | int | float | None):
        return default
    return value.get(key, default)  # type: ignore[arg-type]  # a key of another type is absent


def _position(run: Rendering, value: Sequence[Any], *args: Any) -> int:
    value = to_comparable(list(value) if isinstance(value, range) else value, run)
    return value.index(*to_comparable(list(args), run))


def _count(run: Rendering, value: Sequence[Any], item: Any) -> int:
    number: int = to_comparable(value, run).count(to_comparable(item, run))
    return number


def _copy(run: Rendering, value: Any) -> Any:
    run.items(len(value))
    return dict(value) if isinstance(value, Mapping) else list(to_list(value, run))


#: The methods of each kind of value.
_METHODS: Final[tuple[tuple[Any, Mapping[str, Verb]], ...]] = (
    (str, {**TEXT_METHODS, "format": _format}),
    (
        Mapping,
        {
            "copy": _copy,
            "get": _get,
            "items": make_listing(methodcaller("items")),
            "keys": make_listing(iter),
            "values": make_listing(methodcaller("values")),
        },
    ),
    ((list, tuple, range, Lazy), {"copy": _copy, "count": _count, "index": _position}),
    (date, OF_INSTANTS),
    (timedelta, OF_DURATIONS),
    (float, {"is_integer": lambda _, value: value.is_integer()}),
)
