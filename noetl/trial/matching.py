"""What is expected, held against what came.

A mapping says of the keys that it has; what is not there is null. A text that begins with `~ ` is a
regular expression, searched for in a text. Lists have as many items. Everything else is equal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from noetl.dsl.checks.trials import PATTERN
from noetl.dsl.problems import Path
from noetl.facts.json import Json, align_numbers


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where something else was expected: `path` leads there, from the expectation on."""

    path: Path
    expected: Json
    got: Json


def mismatches(expected: Json, got: Json, path: Path = ()) -> Iterator[Mismatch]:
    """In what `got` is not as `expected`."""
    match expected:
        case Mapping() if isinstance(got, Mapping):
            for key, inner in expected.items():
                yield from mismatches(inner, got.get(key), (*path, key))
        case list() if isinstance(got, list) and len(got) == len(expected):
            for index, (inner, found) in enumerate(zip(expected, got, strict=True)):
                yield from mismatches(inner, found, (*path, index))
        case _:
            if not _fits(expected, got):
                yield Mismatch(path, expected, got)


def renew(expected: Json, got: Json) -> Json:
    """`expected`, with what came in the place of all that differs."""
    match expected:
        case Mapping() if isinstance(got, Mapping):
            return {key: renew(inner, got.get(key)) for key, inner in expected.items()}
        case list() if isinstance(got, list) and len(got) == len(expected):
            return [renew(inner, found) for inner, found in zip(expected, got, strict=True)]
        case _:
            return expected if _fits(expected, got) else got


def _fits(expected: Json, got: Json) -> bool:
    if isinstance(expected, str) and expected.startswith(PATTERN):
        return isinstance(got, str) and re.search(expected.removeprefix(PATTERN), got) is not None
    wanted, found = align_numbers(expected, got)
    # To Python true is 1.
    return isinstance(wanted, bool) == isinstance(found, bool) and bool(wanted == found)
