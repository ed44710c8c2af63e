"""Request bodies: JSON as strict as the log needs it, read once and bounded.

Python's own reader takes NaN, `1e999`, duplicate keys and any depth; none of them survives a log
that is read by other programs, so they are answered here, where their sender can see it.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final, NoReturn

from flask import Request
from flask.json.provider import DefaultJSONProvider
from werkzeug.exceptions import RequestEntityTooLarge

from noetl.errors import BadRequest
from noetl.facts.json import Json, dumps, float_or_exact

#: Lists and objects within one another.
MAX_DEPTH: Final = 100
#: What JSON is called that is not an object.
_KINDS: Final = {type(None): "null", bool: "a boolean", str: "a text", list: "a list"}
#: Digits of one number.
MAX_DIGITS: Final = 1000

# Possessive, so that a body of quotes costs linear time.
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


class StrictRequest(Request):
    """A request whose JSON body is an object that NoETL can keep; an absent body is an empty
    one."""

    def get_json(self, force: bool = False, silent: bool = False, cache: bool = True) -> Any:  # noqa: ARG002
        """The arguments are those of Flask and change nothing. Raises BadRequest."""
        raw = body_of(self)
        if not raw.strip():
            return {}
        value = parse(raw)
        if not isinstance(value, dict):
            raise BadRequest(f"The body must be a JSON object, not {_KINDS.get(type(value), 'a number')}.")
        return value


class ExactJson(DefaultJSONProvider):
    """Answers as JSON, with all digits of exact numbers. Steps and names stay in the order in which
    they came to be."""

    def dumps(self, obj: Any, **options: Any) -> str:
        """See `noetl.facts.json.dumps`."""
        return dumps(obj, default=self.default, **options)


def body_of(request: Request) -> bytes:
    """The whole body. Raises RequestEntityTooLarge."""
    raw = request.get_data()
    limit = request.max_content_length
    # A body without a length is cut off at the limit, silently: what fills it may have been longer.
    if limit is not None and request.content_length is None and len(raw) >= limit:
        raise RequestEntityTooLarge
    return raw


def parse(raw: bytes) -> Json:
    """The value of a JSON text. Raises BadRequest that names the fault and its place."""
    text = decode(raw)
    _check_depth(text)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise BadRequest(
            f"The body is not JSON: {error.msg}, line {error.lineno} column {error.colno}."
        ) from error
    check_text(value)
    return value


def decode(raw: bytes) -> str:
    """UTF-8, with or without a byte order mark. Raises BadRequest."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(f"The body is not UTF-8: {error.reason} at byte {error.start}.") from error


def _check_depth(text: str) -> None:
    depth = 0
    for match in _TOKENS.finditer(text):
        first = match.group()[0]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise BadRequest(f"The body is nested deeper than {MAX_DEPTH} levels.")
        elif first in "]}":
            depth -= 1


def check_text(value: Json) -> None:
    """Raises BadRequest for NUL and lone surrogates in keys and values: no database keeps them."""
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text:
                _check_string(text)
            case list() as items:
                todo.extend(items)
            case dict() as items:
                todo.extend(items)
                todo.extend(items.values())


def _check_string(text: str) -> None:
    if text.isascii():
        bad = text.find("\0")
    else:
        bad = next((at for at, char in enumerate(text) if char == "\0" or "\ud800" <= char <= "\udfff"), -1)
    if bad >= 0:
        what = "NUL" if text[bad] == "\0" else "a lone surrogate"
        shown = text[max(0, bad - 20) : bad]
        raise BadRequest(f"The body holds {what} (\\u{ord(text[bad]):04x}) in a text, after {shown!r}.")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise BadRequest(f"The body holds a number of {len(text)} digits; at most {MAX_DIGITS} are allowed.")
    return int(text)


def _number(text: str) -> float | int | Decimal:
    value = float_or_exact(text) if len(text) <= MAX_DIGITS else math.inf
    if isinstance(value, float) and math.isinf(value):
        raise BadRequest(f"The body holds a number that is too large or too long: {text[:40]}.")
    return value


def _constant(name: str) -> NoReturn:
    raise BadRequest(f"The body holds {name}, which is not JSON; use null or a text.")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise BadRequest(f"The body holds the key {twice[:80]!r} twice in one object.")
    return value


_DECODER: Final = json.JSONDecoder(
    parse_int=_integer, parse_float=_number, parse_constant=_constant, object_pairs_hook=_object
)
