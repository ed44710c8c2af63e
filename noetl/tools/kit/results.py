"""The check that every result passes: JSON, not too deep, not too large."""

from __future__ import annotations

import json
import math
from typing import Any

from noetl.facts.json import Json
from noetl.tools.code.runner import plain

#: Bytes that a value costs beside its text; an estimate, so that results are not serialised twice.
_EACH = 4


class ResultRefused(Exception):
    """A result that cannot be kept; `message` names the value by path."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.too_large = too_large


def checked(result: Json, limit: int) -> Json:
    """`result` as plain JSON data. Raises ResultRefused."""
    size, exact = 0, True
    level: list[Any] = [result]
    for _ in range(plain.MAX_DEPTH + 2):
        if not level:
            break
        inner: list[Any] = []
        for value in level:
            kind = type(value)
            if kind is str:
                size += len(value)
                exact = exact and (value.isascii() or plain.encodable(value))
            elif kind is list:
                inner += value
            elif kind is dict:
                exact = exact and _text_keys(value)
                size += sum(map(len, filter(_is_text, value)))
                inner += value.values()
            else:
                exact = exact and _plain_scalar(value)
        size += _EACH * len(level)
        level = inner
        if size > limit:
            raise ResultRefused(
                f"The result is larger than the {limit:,} bytes that are allowed.", too_large=True
            )
    return result if exact and not level else _converted(result)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _text_keys(value: dict[Any, Any]) -> bool:
    return all(type(key) is str and (key.isascii() or plain.encodable(key)) for key in value)


def _plain_scalar(value: Any) -> bool:
    if value is None or value is True or value is False:
        return True
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is int and value.bit_length() < plain.MAX_DIGITS


def _converted(result: Json) -> Json:
    """The slow way, for what is not plain yet: says which value is to blame."""
    try:
        return json.loads(plain.dumps(result))
    except plain.NotJson as error:
        raise ResultRefused(str(error)) from None
