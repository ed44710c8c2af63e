"""The JSON data model, as far as static types can say it; and its text, in which exact numbers keep
their digits.

An exact number is a `Decimal` with a point, and an `int` without one. In text it is a number with
all of its digits. Where that text comes back to us (`typed`), it also has the exponent `E0`, which
changes nothing and which no float is written with: so `loads` knows it, and reads all others as it
always did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, Final, TypeAlias

#: null, booleans, numbers, strings, lists and mappings with string keys.
Json: TypeAlias = Any
#: A JSON object.
JsonMap: TypeAlias = Mapping[str, Any]
#: The JSON form of what JSON does not know. Raises TypeError where there is none.
Convert: TypeAlias = Callable[[Any], Any]
#: What turns a value into text. Raises ValueError, TypeError or RecursionError where it is no JSON.
Encode: TypeAlias = Callable[[Any], str]

#: What an exact number ends with in text that comes back to us.
MARK: Final = "E0"
#: Digits before and behind the point beyond which a number is not exact: those of PostgreSQL behind
#: it, and of a float before it (to read what is longer takes Python for ever).
MAX_WHOLE: Final = 309
MAX_SCALE: Final = 16_383
#: Characters up to which the text of a number has no more digits than any float holds.
_SURE: Final = 15
_COMPACT: Final = (",", ":")
_SPACED: Final = (", ", ": ")


class _Literal(str):
    """Text of JSON that is written as it is."""

    __slots__ = ()


class _HoldsDecimal(Exception):
    """A value has exact numbers in it: the encoder of C cannot write them by itself."""


def exact(number: Decimal) -> Decimal | int | None:
    """An exact number as it is in values: an int where it has no point. None where it has more
    digits than are kept, or is not finite."""
    scale = number.as_tuple().exponent
    if not isinstance(scale, int) or number.adjusted() >= MAX_WHOLE or scale < -MAX_SCALE:
        return None
    return number if scale < 0 else int(number)


def whole(value: Json) -> int | None:
    """The integer that a number without a fraction is; None for all else."""
    if isinstance(value, float | Decimal):
        return int(value) if isfinite(value) and value == int(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def align_numbers(left: Any, right: Any) -> tuple[Any, Any]:
    """Two values to be compared or computed with: a float beside an exact number as the exact
    number that it is written as."""
    if isinstance(left, Decimal) and type(right) is float:
        return left, Decimal(repr(right))
    if isinstance(right, Decimal) and type(left) is float:
        return Decimal(repr(left)), right
    return left, right


def digits(number: Decimal) -> str:
    """All digits of a number that `exact` keeps, without an exponent. Raises ValueError for
    others."""
    kept = exact(number)
    if kept is None:
        raise ValueError(f"{str(number)[:40]} is no number that JSON can hold")
    return format(kept, "f") if isinstance(kept, Decimal) else str(kept)


def _typed_digits(number: Decimal) -> str:
    text = digits(number)
    return f"{text}{MARK}" if "." in text else text


def encoder(
    convert: Convert | None = None,
    *,
    typed: bool = False,
    sort_keys: bool = False,
    separators: tuple[str, str] = _COMPACT,
    ensure_ascii: bool = False,
    allow_nan: bool = False,
    markers: dict[int, Any] | None = None,
) -> Encode:
    """What writes values on one line; `typed`: for `loads`. Values without exact numbers are
    written by C alone. With `markers` a value that contains itself is a ValueError."""
    item, key = separators
    text = json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring
    write = _typed_digits if typed else digits

    def refuse(value: Any) -> Any:
        if isinstance(value, Decimal):
            raise _HoldsDecimal
        return _convert(value, convert)

    def put(value: Any) -> Any:
        return _Literal(write(value)) if isinstance(value, Decimal) else _convert(value, convert)

    def quote(value: str) -> str:
        return value if type(value) is _Literal else text(value)

    def make(default: Convert, quoted: Callable[[str], str]) -> Callable[[Any, int], Any]:
        made: Callable[[Any, int], Any] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
            markers, default, quoted, None, key, item, sort_keys, False, allow_nan
        )
        return made

    fast = make(refuse, text)

    def encode(value: Any) -> str:
        try:
            return "".join(fast(value, 0))
        except _HoldsDecimal:
            if markers is not None:
                markers.clear()
            return "".join(make(put, quote)(value, 0))

    return encode


def _convert(value: Any, convert: Convert | None) -> Any:
    if convert is None:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return convert(value)


def dumps(
    value: Json,
    *,
    default: Convert | None = None,
    typed: bool = False,
    sort_keys: bool = False,
    separators: tuple[str, str] = _SPACED,
    ensure_ascii: bool = True,
    allow_nan: bool = True,
    indent: int | None = None,
) -> str:
    """As `json.dumps`, with all digits of exact numbers; `typed`: for `loads`."""
    if indent is not None:
        return _indented(value, indent, default, ensure_ascii, allow_nan)
    encode = encoder(
        default,
        typed=typed,
        sort_keys=sort_keys,
        separators=separators,
        ensure_ascii=ensure_ascii,
        allow_nan=allow_nan,
        markers={},
    )
    return encode(value)


def _indented(value: Json, indent: int, default: Convert | None, ensure_ascii: bool, allow_nan: bool) -> str:
    """On several lines, for people: what Python's module does in Python as well."""
    quoted = json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring

    def put(one: Any) -> Any:
        return _Literal(digits(one)) if isinstance(one, Decimal) else _convert(one, default)

    chunks = json.encoder._make_iterencode(  # type: ignore[attr-defined]
        {},
        put,
        lambda text: text if type(text) is _Literal else quoted(text),
        " " * indent,
        lambda number: json.dumps(number, allow_nan=allow_nan),
        ": ",
        ",",
        False,
        False,
        True,
    )
    return "".join(chunks(value, 0))


def loads(text: str | bytes | bytearray, **options: Any) -> Any:
    """What `dumps` wrote, exact numbers as such where it was `typed`. `options` are those of
    `json.loads`."""
    said = text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass")
    if MARK in said:
        options.setdefault("parse_float", _marked_number)
    return json.loads(said, **options)


def scan(text: str) -> Any:
    """`loads` without its care for blanks, encodings and what follows: for texts that are ours."""
    return (_scan_marked if MARK in text else _scan)(text, 0)[0]


def _marked_number(text: str) -> float | Decimal:
    return Decimal(text.removesuffix(MARK)) if text.endswith(MARK) else float(text)


_scan: Final[Callable[[str, int], Any]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_scan_marked: Final[Callable[[str, int], Any]] = json.JSONDecoder(  # type: ignore[attr-defined]
    parse_float=_marked_number
).scan_once


def loads_exactly(text: str | bytes, **options: Any) -> Any:
    """JSON of others, who mark nothing: a number that no float holds is exact, all others are
    floats."""
    if isinstance(text, str) and not options:
        return _exact_decoder.decode(text)
    return json.loads(text, parse_float=float_or_exact, **options)


def float_or_exact(text: str) -> float | int | Decimal:
    """The number that `text` says: a float where that is the same number."""
    number = float(text)
    if len(text) <= _SURE or not isfinite(number):
        return number
    said = Decimal(text)
    kept = exact(said)
    return number if kept is None or said == Decimal(repr(number)) else kept


#: One for all texts: to make it takes as long as to read a short one.
_exact_decoder: Final = json.JSONDecoder(parse_float=float_or_exact)


def deep_merge(base: Json, over: Json) -> Json:
    """`over` on top of `base`: mappings merge key by key, everything else is replaced."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        merged = dict(base)
        for key, value in over.items():
            merged[key] = deep_merge(base[key], value) if key in base else value
        return merged
    return over


def set_path(target: JsonMap, path: str, value: Json) -> dict[str, Json]:
    """A copy of `target` in which the dotted `path` holds `value`; missing mappings are made."""
    head, _, rest = path.partition(".")
    copy = dict(target)
    inner = copy.get(head)
    copy[head] = set_path(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value
    return copy


def assign(target: JsonMap, patch: JsonMap) -> JsonMap:
    """`target` after the assignments of `patch` (dotted name → value), in order."""
    for path, value in patch.items():
        target = set_path(target, path, value)
    return target


def canonical(value: Json) -> str:
    """The one text that equal values have: compact, keys in order. Raises ValueError for what no
    JSON holds, such as NaN."""
    return dumps(value, typed=True, sort_keys=True, separators=_COMPACT, ensure_ascii=False, allow_nan=False)
