"""What the type of a column says about the numbers in it, however deep they are: in lists,
structures and maps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias, assert_never

from noetl.facts.json import Json

_FIXED: Final = re.compile(
    r"smallint|integer|bigint|U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|BIGNUM|(?P<money>money)|"
    r"(?:numeric|DECIMAL)\([0-9]+,(?P<scale>-?[0-9]+)\)"
)
_MONEY_SCALE: Final = 2
#: What DuckDB calls texts.
TEXT: Final = "VARCHAR"
_FLOATS: Final = {"real": 24, "FLOAT": 24, "double precision": 53, "DOUBLE": 53}
_LIST: Final = re.compile(r"(.+)\[\d*\]", re.DOTALL)
_NESTED: Final = re.compile(r"(STRUCT|MAP)\((.*)\)", re.DOTALL)
#: Quoted names and values may have commas and brackets of their own.
_PIECE: Final = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'|[(),]|[^"'(),]+""")
_FIELD: Final = re.compile(r"""("(?:[^"]|"")*"|\S+)\s+(.+)""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Numbers with so many digits behind the point."""

    scale: int


@dataclass(frozen=True, slots=True)
class Floating:
    """Floats of so many bits."""

    bits: int


@dataclass(frozen=True, slots=True)
class Text:
    """Texts of DuckDB, which reads a number in JSON as a float before it becomes one."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A structure: the types of its fields by their names."""

    types: tuple[tuple[str, NumberType], ...]


@dataclass(frozen=True, slots=True)
class Pairs:
    """A map of keys to values."""

    key: NumberType
    value: NumberType


@dataclass(frozen=True, slots=True)
class Other:
    """Whatever is no number, or has its own number of digits."""


Leaf: TypeAlias = Fixed | Floating | Text | Other
NumberType: TypeAlias = Leaf | Fields | Pairs


@lru_cache(maxsize=1024)
def number_type(kind: str) -> NumberType:
    """The type of the numbers in a column of a type. A list has those of its items: PostgreSQL does
    not tell how deep a list is."""
    if (items := _LIST.fullmatch(kind)) is not None:
        return number_type(items[1])
    if (nested := _NESTED.fullmatch(kind)) is not None:
        return _nested_type(nested[1], _parts(nested[2]))
    if (fixed := _FIXED.fullmatch(kind)) is not None:
        return Fixed(_MONEY_SCALE if fixed["money"] else int(fixed["scale"] or 0))
    if (bits := _FLOATS.get(kind)) is not None:
        return Floating(bits)
    return Text() if kind == TEXT else Other()


def _nested_type(word: str, parts: list[str]) -> NumberType:
    if word == "MAP" and len(parts) == 2:
        return Pairs(*map(number_type, parts))
    fields = [_FIELD.fullmatch(part) for part in parts]
    return Fields(tuple((_unquoted(field[1]), number_type(field[2])) for field in fields if field))


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _parts(text: str) -> list[str]:
    """What commas divide outside of brackets and quotes."""
    parts, depth = [""], 0
    for piece in _PIECE.findall(text):
        depth += {"(": 1, ")": -1}.get(piece, 0)
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def leaves(kind: NumberType) -> Iterator[Leaf]:
    """The types of all numbers in a column."""
    match kind:
        case Fixed() | Floating() | Text() | Other():
            yield kind
        case Fields(types):
            for _, inner in types:
                yield from leaves(inner)
        case Pairs(key, value):
            yield from leaves(key)
            yield from leaves(value)
        case _:
            assert_never(kind)


def cells_of(kind: NumberType, value: Json) -> Iterator[tuple[Leaf, Json]]:
    """Every value that is no list, structure or map, with its type. What is not of the form of its
    type is left to the database, which refuses it."""
    match kind, value:
        case _, list():
            for item in value:
                yield from cells_of(kind, item)
        case Fields(types), Mapping():
            for name, inner in types:
                yield from cells_of(inner, value.get(name))
        case Pairs(key, inner), Mapping():
            for name, item in value.items():
                yield from cells_of(key, name)
                yield from cells_of(inner, item)
        case (Fixed() | Floating() | Text() | Other()) as leaf, _:
            yield leaf, value
