"""What failures have in common: the same fault of two executions has the same fingerprint, whatever
ids, numbers and names stand in its message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from noetl.facts.fingerprint import digest
from noetl.facts.json import JsonMap

#: Characters of a message that are looked at, and of what is left of it.
_LOOKED_AT: Final = 2_000
LONGEST: Final = 300
#: Hexadecimal digits of a fingerprint: it takes millions of faults before two share one.
DIGITS: Final = 12

#: What varies, by the word that takes its place. A quote inside of a word is an apostrophe, and a
#: number behind a letter part of a name (`utf8`). UUIDs and hexadecimal digits are numbers too:
#: some have no letters.
_VARYING: Final = re.compile(
    r"""
      (?P<quoted>   (?<!\w)'[^'\n]*'(?!\w) | "[^"\n]*" | `[^`\n]*` )
    | (?P<instant>  \b\d{4}-\d\d-\d\d(?:[T\ ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b )
    | (?P<path>     (?:\b[a-z][a-z0-9+.-]{0,20}:/ | (?<![\w/~.])[~.]{0,2}/)[^\s'"`<>(),;]*[^\s'"`<>(),;:.] )
    | (?P<number>   \b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b
                  | \b0x[0-9a-f]+\b | \b(?=[a-f]*\d)[0-9a-f]{8,}\b
                  | (?<![A-Za-z0-9])\d+(?:[.,:]\d+)* )
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FailurePattern:
    """What failures of one fault have in common. `shape` is the message, with `<number>` and the
    like where it varies."""

    kind: str
    type: str
    step: str
    task: str
    shape: str

    @property
    def fingerprint(self) -> str:
        """12 hexadecimal digits that no other one has."""
        return digest("\0".join((self.kind, self.type, self.step, self.task, self.shape)))[:DIGITS]


def failure_of(error: JsonMap) -> FailurePattern:
    """What the `error` of an execution has in common with others."""
    kind, kind_of, step, task = (str(error.get(name) or "") for name in ("kind", "type", "step", "task"))
    return FailurePattern(kind, kind_of, step, task, shape_of(str(error.get("message") or "")))


def shape_of(message: str) -> str:
    """`message` on one line, with a word in the place of all that varies: `order <number> is
    <quoted>`."""
    shape = _VARYING.sub(lambda found: f"<{found.lastgroup}>", message[:_LOOKED_AT])
    return " ".join(shape.split())[:LONGEST]
