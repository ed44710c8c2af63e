"""Checks of messages before kombu and Celery read them: both end their worker over malformed
ones."""

from __future__ import annotations

import base64
from collections.abc import Container, Mapping
from typing import Any, Final

from kombu.utils.json import loads

#: Bytes of the largest message that is read: ours carry ids, and measure a kilobyte or two.
LARGEST: Final = 1_000_000

#: How deep headers may nest: what can be read can be too deep to be written again.
DEEPEST: Final = 20

#: Characters of the longest id of a message.
LONGEST_ID: Final = 255

#: The parts of every envelope of kombu, with their types.
_PARTS = {"body": str, "headers": dict, "properties": dict}

_TEXT, _NUMBER = (str, type(None)), (int, type(None))

#: Headers that Celery takes to be of a type.
_HEADERS: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("root_id", "parent_id", "group", "shadow", "argsrepr", "kwargsrepr"), _TEXT),
    **dict.fromkeys(("origin", "lang", "compression"), _TEXT),
    **dict.fromkeys(("retries", "group_index", "replaced_task_nesting"), _NUMBER),
    "timelimit": (list, tuple, type(None)),
    "stamps": (dict, type(None)),
    "stamped_headers": (list, tuple, type(None)),
}

#: What follows the arguments in a body.
_EMBEDDED: Final[Mapping[str, tuple[type, ...]]] = {
    "callbacks": (list, type(None)),
    "errbacks": (list, type(None)),
    "chain": (list, type(None)),
    "chord": (dict, type(None)),
}


def find_flaw_in_bytes(raw: bytes | str) -> str | None:
    """Why kombu cannot read `raw` as JSON, if so."""
    if len(raw) > LARGEST:
        return f"no message, for it has more than {LARGEST} bytes"
    if not raw:
        return "no message: nothing at all"
    try:
        loads(raw)
    except Exception as error:  # noqa: BLE001 (kombu makes values of what it reads: anything may be raised)
        return f"no message, for it is not JSON: {type(error).__name__}: {error}"
    return None


def find_flaw_in_envelope(raw: object) -> str | None:
    """Why kombu cannot make a message of `raw` (JSON that was read from a queue), if so."""
    if not isinstance(raw, dict):
        return f"no message, but a JSON {type(raw).__name__}"
    wrong = [name for name, kind in _PARTS.items() if not isinstance(raw.get(name), kind)]
    if wrong:
        return f"no message: no {' and no '.join(wrong)} of the right type"
    if not all(isinstance(raw.get(name), _TEXT) for name in ("content-type", "content-encoding")):
        return "no message: content-type or content-encoding is not text"
    if not (_is_writable(raw["headers"], DEEPEST) and _is_writable(raw["properties"], DEEPEST)):
        return "no message: headers or properties nest too deeply, or hold text that is not Unicode"
    return _find_flaw_in_properties(raw["properties"]) or _find_flaw_in_coding(raw["body"], raw["properties"])


def _find_flaw_in_properties(properties: Mapping[str, Any]) -> str | None:
    tag, delivery = properties.get("delivery_tag"), properties.get("delivery_info")
    if not isinstance(tag, str) or not 0 < len(tag) <= LONGEST_ID:
        return "no message: no delivery_tag"
    if not isinstance(delivery, dict) or any(
        not isinstance(delivery.get(name), str) for name in ("exchange", "routing_key")
    ):
        return "no message: no delivery_info with exchange and routing_key"
    return None


def _find_flaw_in_coding(body: str, properties: Mapping[str, Any]) -> str | None:
    match properties.get("body_encoding"):
        case None | "" | "utf-8":
            return None
        case "base64":
            try:
                base64.b64decode(body)
            except ValueError as error:
                return f"the body is not base64: {error}"
            return None
        case coding:
            return f"the body is encoded in an unknown way: {coding!r}"


def _is_writable(value: object, deepest: int) -> bool:
    """Whether `value` can be written again as JSON in UTF-8."""
    match value:
        case str():
            return value.isascii() or _is_unicode(value)
        case dict() | list() if deepest == 0:
            return False
        case dict():
            return all(_is_writable(key, 1) and _is_writable(one, deepest - 1) for key, one in value.items())
        case list():
            return all(_is_writable(one, deepest - 1) for one in value)
    return True


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- Celery's messages, on any broker ---


def find_flaw_in_message(message: Any, tasks: Container[str]) -> str | None:
    """Why a message of kombu is not an order to run one of `tasks`, if so."""
    headers = message.headers
    if not isinstance(headers, dict):
        return "the headers are not a mapping"
    return _find_flaw_in_headers(headers, tasks) or _find_flaw_in_body(message)


def _find_flaw_in_headers(headers: Mapping[str, Any], tasks: Container[str]) -> str | None:
    name = headers.get("task")
    if name is None:
        return (
            "it names no task: nothing of ours, or of a version of Celery's protocol that is not spoken here"
        )
    if not isinstance(name, str) or name.startswith("celery.") or name not in tasks:
        return f"not a task of NoETL: {name!r}"
    number = headers.get("id")
    if not isinstance(number, str) or not 0 < len(number) <= LONGEST_ID:
        return "it has no id"
    wrong = [one for one, kinds in _HEADERS.items() if not isinstance(headers.get(one), kinds)]
    if wrong:
        return f"headers of a wrong type: {', '.join(wrong)}"
    if headers.get("eta") is not None or headers.get("expires") is not None:
        return "it bears a date: what is to wait waits in the tables, and never in a broker"
    return _find_flaw_in_limits(headers.get("timelimit") or ())


def _find_flaw_in_limits(limits: list[object] | tuple[object, ...]) -> str | None:
    if len(limits) in (0, 2) and all(one is None or isinstance(one, int | float) for one in limits):
        return None
    return "the header timelimit is not a pair of numbers"


def _find_flaw_in_body(message: Any) -> str | None:
    try:
        body = message.decode()
    except Exception as error:  # noqa: BLE001 (of forged bodies anything may come)
        return f"the body cannot be read: {type(error).__name__}: {error}"
    match body:
        case [list(), dict() as named, dict() as embedded]:
            if named:
                return f"arguments by name, which no task of NoETL takes: {', '.join(map(repr, named))}"
            wrong = [one for one, kinds in _EMBEDDED.items() if not isinstance(embedded.get(one), kinds)]
            return f"parts of the body are of a wrong type: {', '.join(wrong)}" if wrong else None
    return "the body is not [arguments, named arguments, parts] of Celery's protocol 2"
