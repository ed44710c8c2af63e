"""The value of what is not there."""

from __future__ import annotations

from jinja2 import runtime


class Undefined(runtime.Undefined):
    """Absent: false, empty, equal to null, neither smaller nor larger than anything, no number.

    `path` is the expression that came out as nothing, for messages. Jinja's own class is the base,
    so that filters borrowed from Jinja know it.
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        super().__init__(hint=f"'{path}' is undefined")
        self.path = path

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Undefined)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(None)

    def __lt__(self, other: object) -> bool:  # type: ignore[override]
        return False

    __le__ = __gt__ = __ge__ = __lt__  # type: ignore[assignment]
