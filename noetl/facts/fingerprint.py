"""What tells values apart across executions: a short text for each, equal for equal values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from noetl.errors import BadRequest
from noetl.facts.json import Json, encoder
from noetl.facts.reference import RESULT_REF, Lazy, is_reference
from noetl.facts.secret import MARK, SECRET_REF, describe_secret, is_secret, replace_markers

#: Characters of JSON up to which the text is the value itself, so that people can read it.
SHORT: Final = 40
#: What stands for the id of the execution that a value belongs to.
_OWN: Final = "@execution"
#: Digits of an id below which it is a number like any other.
_DRAWN: Final = 12
#: Where none of these is in the JSON, nothing is in the value that differs between executions.
_VARYING: Final = (f'"{RESULT_REF}"', f'"{SECRET_REF}"', MARK)


def fingerprint(value: Json, own_id: str = "", short: int = SHORT) -> str:
    """The JSON of `value` where that has up to `short` characters, else `#` and 32 hexadecimal
    digits (BLAKE2b).

    A result that is kept by reference counts as its content, a secret as its name, or as the
    keyed hash that it was given with. Where `own_id`, the id of the execution, stands in the value
    it counts as unchanged. What cannot be JSON counts as its type.
    """
    try:
        text = _encode(value)
    except RecursionError:
        return f"#{digest(''.join(_flatten(value)))}"
    if any(word in text for word in _VARYING):
        text = _encode(_settle(value))
    if len(own_id) >= _DRAWN and own_id in text:
        text = text.replace(own_id, _OWN)
    return text if len(text) <= short else f"#{digest(text)}"


def digest(text: str) -> str:
    """32 hexadecimal digits that no other text has."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _plain(value: object) -> Json:
    if isinstance(value, Mapping):
        return dict(value)
    return value.whole() if isinstance(value, Lazy) else f"<{type(value).__name__}>"


_encode = encoder(_plain, typed=True, sort_keys=True, allow_nan=True)


def _flatten(value: Json) -> Iterator[str]:
    """The parts of a value that is too deep to be encoded, in one order, without recursion."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, Mapping):
            yield f"{{{len(one)}"
            for key in sorted(one):
                pending += [one[key], key]
        elif isinstance(one, list | tuple):
            yield f"[{len(one)}"
            pending += one
        else:
            yield _encode(one)


def _settle(value: Json) -> Json:
    """`value` without what differs between executions though it means the same."""
    if isinstance(value, Mapping):
        if is_secret(value):
            # One that was given says by a keyed hash whether it is the same.
            return [SECRET_REF, describe_secret(value), value.get("hash")]
        if is_reference(value) and value["kind"] == RESULT_REF:
            meta = value.get("meta")
            return [RESULT_REF, (meta.get("sha256") if isinstance(meta, Mapping) else None) or value["ref"]]
        return {key: _settle(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_settle(inner) for inner in value]
    if isinstance(value, str) and MARK in value:
        with suppress(BadRequest):
            return replace_markers(value, describe_secret)
    return value
