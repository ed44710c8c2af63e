"""Scalars of the YAML 1.2 core schema: `no` and `22:22` are text, `010` is ten."""

from __future__ import annotations

import re
from math import isinf

from noetl.facts.json import Json

NULL = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
#: Words that YAML 1.1 read as booleans; people who write them may still expect that.
ONCE_BOOLEANS = frozenset({"yes", "no", "on", "off"})

_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

#: Python refuses to print integers with more digits than this.
MAX_DIGITS = 4_300
_TAG = "tag:yaml.org,2002:"


class ScalarFault(ValueError):
    """The scalar has no value in JSON. `tag` says that its tag is what is wrong."""

    def __init__(self, message: str, hint: str = "", *, tag: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.tag = tag


def plain(text: str) -> Json:
    """The value of an unquoted scalar. Raises ScalarFault for what JSON cannot hold."""
    if text in NULL:
        return None
    if text in BOOLEANS:
        return BOOLEANS[text]
    return _number(text) if text[0] in "+-.0123456789" else text


def read_tagged(text: str, tag: str) -> Json:
    """The value of a scalar with an explicit tag of the core schema. Raises ScalarFault where the
    text is not of that tag."""
    kind = tag.removeprefix(_TAG)
    if tag == "!" or (kind == "str" and kind != tag):
        return text
    expected = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}.get(kind)
    if expected is None or kind == tag:
        raise ScalarFault(
            f"the tag {tag_text(tag)} is not allowed",
            "only !!str, !!int, !!float, !!bool and !!null are",
            tag=True,
        )
    value = plain(text)
    if not isinstance(value, expected) or (kind in ("int", "float") and isinstance(value, bool)):  # type: ignore[arg-type]
        raise ScalarFault(f"{text[:40]!r} is not a value of !!{kind}", tag=True)
    return float(value) if kind == "float" else value


def collection_tag_allowed(tag: str | None, kind: str) -> bool:
    """Whether a mapping (`map`) or list (`seq`) may carry `tag`."""
    return tag in (None, "!", f"{_TAG}{kind}")


def tag_text(tag: str) -> str:
    """A tag the way people write it."""
    text = f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag
    return text if len(text) <= 60 else text[:59] + "…"


def _number(text: str) -> Json:
    if _INTEGER.fullmatch(text):
        return _integer(text, 10)
    if _OCTAL.fullmatch(text):
        return _integer(text[2:], 8)
    if _HEX.fullmatch(text):
        return _integer(text[2:], 16)
    if _NOT_FINITE.fullmatch(text):
        raise ScalarFault(f"{text} is not a number that JSON can hold", "quote it if text is meant")
    if not _FLOAT.fullmatch(text):
        return text
    value = float(text)
    if isinf(value):
        raise ScalarFault(f"{text[:40]} is too large for a number", "quote it if text is meant")
    return value


def _integer(digits: str, base: int) -> int:
    # Hexadecimal digits are worth 1.21 decimal ones: half of the limit is safe for every base.
    if len(digits) > (MAX_DIGITS if base == 10 else MAX_DIGITS // 2):
        raise ScalarFault(
            f"an integer of {len(digits)} digits is too long",
            f"at most {MAX_DIGITS:,} decimal digits; or quote it",
        )
    return int(digits, base)
