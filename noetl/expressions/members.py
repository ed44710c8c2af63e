"""What templates handle besides JSON: undefined values, methods, and objects with attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from jinja2 import runtime

from noetl.expressions.limits import Meter, refuse_marked


class Undefined(runtime.Undefined):
    """Absent: false, empty, equal to null, neither smaller nor larger than anything, no number.

    `path` is the expression that has no value, for messages. Jinja's own class is the base,
    so that filters borrowed from Jinja know it.
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        super().__init__(hint=f"'{path}' is undefined")
        self.path = path

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Undefined)

    def __hash__(self) -> int:
        return hash(None)

    def __lt__(self, other: object) -> bool:  # type: ignore[override]
        return False

    __le__ = __gt__ = __ge__ = __lt__  # type: ignore[assignment]


#: A filter or test: `(run, value, *args, **kwargs)`.
Verb: TypeAlias = Callable[..., Any]


class Attributes(ABC):
    """An object with attributes: the `loop` of a loop, a namespace."""

    __slots__ = ()

    @abstractmethod
    def member(self, name: str) -> Any:
        """The attribute, or `Undefined`."""


class Namespace(Attributes):
    """What `namespace()` makes: the one thing whose attributes a template may assign."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def member(self, name: str) -> Any:
        return self.values.get(name, Undefined(name))


class Method:
    """A method that is bound to its value."""

    __slots__ = ("_function", "_value")

    def __init__(self, function: Verb, value: Any) -> None:
        self._function = function
        self._value = value

    def call(self, run: Meter, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Raises Barred for a text that a secret will be put into."""
        refuse_marked(self._value)
        return self._function(run, self._value, *args, **kwargs)


class MissingKey(Undefined):
    """A key that a mapping does not have, named like one of its methods: undefined, until it is
    called."""

    __slots__ = ("method",)

    def __init__(self, name: str, method: Method) -> None:
        super().__init__(name)
        self.method = method
