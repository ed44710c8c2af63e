"""Problems: what is wrong with a playbook, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from noetl.facts.json import Json

Severity = Literal["error", "warning", "note"]

#: Keys and indices that lead from the root of a document to one of its parts.
Path: TypeAlias = tuple[str | int, ...]


class Code(StrEnum):
    """Stable codes: 1xx the text, 2xx structure, 3xx references, 4xx templates and code, 5xx flow.

    From 50 on, within each hundred, they are warnings; from 90 on notes, about what need not be
    wrong.
    """

    SYNTAX = "NOETL101"
    ENCODING = "NOETL102"
    CHARACTER = "NOETL103"
    TOO_LARGE = "NOETL104"
    TOO_DEEP = "NOETL105"
    TOO_MANY_NODES = "NOETL106"
    ALIAS = "NOETL107"
    DUPLICATE_KEY = "NOETL108"
    KEY_TYPE = "NOETL109"
    TAG = "NOETL110"
    NUMBER = "NOETL111"
    ROOT = "NOETL112"
    MERGE = "NOETL113"
    FILE = "NOETL114"
    YAML_1_1 = "NOETL150"
    TYPE = "NOETL201"
    MISSING = "NOETL202"
    VALUE = "NOETL203"
    NAME = "NOETL204"
    DUPLICATE_NAME = "NOETL205"
    TOO_MANY_STEPS = "NOETL206"
    # 207 was given once, and means nothing else now.
    UNSUPPORTED = "NOETL208"
    MISPLACED = "NOETL209"
    SCOPE = "NOETL210"
    UNREDUCED = "NOETL211"
    MISSPELT_KEY = "NOETL212"
    NO_CLOCK = "NOETL213"
    INPUT = "NOETL216"
    REGION = "NOETL217"
    HANDLER = "NOETL218"
    UNKNOWN_KEY = "NOETL250"
    IGNORED = "NOETL251"
    HEADER = "NOETL252"
    IN_PLAIN_TEXT = "NOETL253"
    DEPRECATED = "NOETL254"
    UNKNOWN_STEP = "NOETL301"
    UNKNOWN_KIND = "NOETL302"
    UNKNOWN_TASK = "NOETL303"
    UNKNOWN_KEYCHAIN = "NOETL304"
    UNKNOWN_RESULT = "NOETL350"
    TEMPLATE = "NOETL401"
    PYTHON = "NOETL402"
    UNDECLARED = "NOETL420"
    UNDEFINED = "NOETL450"
    TEMPLATE_IN_CODE = "NOETL451"
    SQL_INTERPOLATION = "NOETL452"
    GUARD_IS_TEXT = "NOETL453"
    OUTSIDE_OF_LOOP = "NOETL454"
    NOTHING_BEFORE = "NOETL455"
    TOO_EARLY = "NOETL456"
    UNREADABLE = "NOETL457"
    BUILT_IN = "NOETL458"
    CIRCLE = "NOETL459"
    LOOP_OVER_NAME = "NOETL460"
    UNDEFINED_IN_CODE = "NOETL465"
    SQL_SYNTAX = "NOETL466"
    UNNAMED_RESULT = "NOETL469"
    EVENT_NAME = "NOETL470"
    NO_RESULT = "NOETL471"
    NO_PREVIOUS = "NOETL501"
    UNREACHABLE = "NOETL550"
    SELF_LOOP = "NOETL551"
    ENDLESS = "NOETL552"
    # 553 was given once, and means nothing else now.
    JOIN_COUNT = "NOETL554"
    SHADOWED_ARC = "NOETL555"
    JOIN_UNFILLED = "NOETL556"
    ENDLESS_JUMP = "NOETL557"
    RETRY_ONCE = "NOETL558"
    CLAIM = "NOETL559"
    UNSOUND = "NOETL560"
    CHANGED = "NOETL590"


#: What each code means, for the reference.
MEANING: Mapping[Code, str] = {
    Code.SYNTAX: "the text is not YAML",
    Code.ENCODING: "the text is not UTF-8",
    Code.CHARACTER: "a character that no playbook may contain (NUL, control, lone surrogate)",
    Code.TOO_LARGE: "the document is larger than 256 kB",
    Code.TOO_DEEP: "the document is nested deeper than 64 levels",
    Code.TOO_MANY_NODES: "the document has more than 20,000 values after aliases and merges",
    Code.ALIAS: "an alias without anchor, or one that contains itself",
    Code.DUPLICATE_KEY: "a key occurs twice in one mapping",
    Code.KEY_TYPE: "a key that is not text",
    Code.TAG: "a YAML tag outside of the core schema, or one that its value does not fit",
    Code.NUMBER: "a number that JSON cannot hold",
    Code.ROOT: "the text is not one document that is a mapping",
    Code.MERGE: "a merge key (`<<`) whose value is not a mapping or a list of mappings",
    Code.FILE: "a file that is not there or cannot be read",
    Code.YAML_1_1: "a word that older YAML reads as a boolean; here it is text",
    Code.TYPE: "a value of the wrong type",
    Code.MISSING: "something that must be there is not",
    Code.VALUE: "a value that is not one of those allowed",
    Code.NAME: "a name that cannot be used",
    Code.DUPLICATE_NAME: "two steps or two tasks of a step with the same name",
    Code.TOO_MANY_STEPS: "more than 1,000 steps",
    Code.UNSUPPORTED: "a feature that this version does not run",
    Code.MISPLACED: "a key that stands in the wrong place",
    Code.SCOPE: "a target of `set` that cannot be assigned here",
    Code.UNREDUCED: "a parallel loop writes ctx without a reducer",
    Code.MISSPELT_KEY: "a key that is likely misspelt, and would have no effect",
    Code.NO_CLOCK: "a template of a task asks for the time",
    Code.INPUT: "an input that contradicts itself: two defaults, bounds that no value keeps",
    Code.REGION: "a region that shares steps with another one, or is inside of itself",
    Code.HANDLER: "a step that is run when something ends, and belongs to the flow as well",
    Code.UNKNOWN_KEY: "a key that means nothing here",
    Code.IGNORED: "a key that has no effect here",
    Code.HEADER: "`apiVersion` or `kind` is missing",
    Code.IN_PLAIN_TEXT: "a secret stands in the playbook as plain text",
    Code.DEPRECATED: "an older spelling, or a key of another dialect, which `noetl migrate` rewrites",
    Code.UNKNOWN_STEP: "a step is named that does not exist",
    Code.UNKNOWN_KIND: "a tool kind that is not installed",
    Code.UNKNOWN_TASK: "a task is named that does not exist",
    Code.UNKNOWN_KEYCHAIN: "a template names an entry that the keychain does not have",
    Code.UNKNOWN_RESULT: "a template asks for the result of a task that a step does not have",
    Code.TEMPLATE: "a template that cannot be parsed, or names an unknown filter",
    Code.PYTHON: "python code that cannot be parsed",
    Code.UNDECLARED: "a template reads a key of the workload that the declared inputs do not have",
    Code.UNDEFINED: "a template names something that nothing defines",
    Code.TEMPLATE_IN_CODE: "a template in code that is handed over as written",
    Code.SQL_INTERPOLATION: "a template stands in SQL where a value is meant",
    Code.GUARD_IS_TEXT: "a guard compares outside of its braces, where nothing is computed",
    Code.OUTSIDE_OF_LOOP: "a template reads the iteration where there is no loop",
    Code.NOTHING_BEFORE: "the first task reads the result of the task before it",
    Code.TOO_EARLY: "a template reads a step that can only run later",
    Code.UNREADABLE: "a template reads a name that is no identifier, which subtracts",
    Code.BUILT_IN: "a name that templates cannot read because a built-in has it",
    Code.CIRCLE: "values of the workload name each other in a circle",
    Code.LOOP_OVER_NAME: "a loop over a text that is the name of a value",
    Code.UNDEFINED_IN_CODE: "a name in python code that nothing defines",
    Code.SQL_SYNTAX: "SQL that its database could not parse",
    Code.UNNAMED_RESULT: "a template reads a result by a name that does not say whose it is",
    Code.EVENT_NAME: "a guard compares the name of the event with one that it never has",
    Code.NO_RESULT: "python code that yields nothing, where its result is read or ends the playbook",
    Code.NO_PREVIOUS: "a jump to `previous` from the first task",
    Code.UNREACHABLE: "no path leads to a step",
    Code.SELF_LOOP: "a step leads to itself without a condition",
    Code.ENDLESS: "a cycle of steps that nothing can leave",
    Code.JOIN_COUNT: "a join waits for more tokens than arcs lead to it",
    Code.SHADOWED_ARC: "an arc behind one that is always taken",
    Code.JOIN_UNFILLED: "a join waits for tokens that cannot come together",
    Code.ENDLESS_JUMP: "tasks that jump back whatever happens",
    Code.RETRY_ONCE: "a retry that allows only one attempt",
    Code.CLAIM: "a cursor whose claim does not mark rows, or does not return them",
    Code.UNSOUND: "some run, as far as its shape shows, comes to no proper end",
    Code.CHANGED: "what means something else than in earlier releases",
}


#: The release that notes on a changed meaning speak of.
SINCE: Final = "since NoETL 0.1.0"

#: Errors that older versions did not find: a playbook that is registered runs, or fails, as it did.
NEWER: frozenset[Code] = frozenset({Code.MISSPELT_KEY, Code.NO_CLOCK, Code.UNDECLARED})


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `line` and `column` count from 1; `path` reads like `workflow[2].tool.kind`."""

    code: Code
    severity: Severity
    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def as_json(self) -> dict[str, Json]:
        """`{file, line, column, severity, code, path, message, hint}`."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "severity": self.severity,
            "code": str(self.code),
            "path": self.path,
            "message": self.message,
            "hint": self.hint,
        }

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.file}:{self.line}:{self.column}: {self.severity}[{self.code}]: {self.message}{hint}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault as the language finds it: a report places it in the text and makes a Problem of it.

    `path` leads to the part at fault; `within` says at which character of the text there, `at_key`
    that its key is meant.
    """

    code: Code
    path: Path
    message: str
    hint: str = ""
    within: tuple[str, int] | None = None
    at_key: bool = False
    #: The key that is missing in the part: nothing is said where another problem explains it.
    lacks: str = ""
    #: The part that is missing because of this.
    explains: Path | None = None
    #: The texts at or below these parts are secrets.
    hides: tuple[Path, ...] = ()


def severity_of(code: str) -> Severity:
    """By the place of the code within its hundred; of one that no release gives any more as
    well."""
    place = int(code[-2:])
    return "error" if place < 50 else "warning" if place < 90 else "note"


def format_path(path: Path) -> str:
    """`("workflow", 2, "tool")` as `workflow[2].tool`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def quote_value(value: Json, limit: int = 60) -> str:
    """A value as messages quote it: short, on one line."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
