"""SQL texts: taking them apart into statements, and binding parameters where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.nearest import nearest

#: `{name: value}` for `:name`, or a list for `$1`, `$2`.
Params: TypeAlias = Mapping[str, Json] | Sequence[Json]

_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*+)
    | (?P<block>/\*)
    | (?P<quoted>[eE]'(?:[^'\\]++|\\.|'')*+'? | '(?:[^']++|'')*+'? | "(?:[^"]++|"")*+"?)
    | (?P<dollar>\$(?:[^\W\d]\w*+)?\$)
    | (?P<position>\$\d++)
    | (?P<cast>::)
    | (?P<name>(?<![\w$'")\]]):[^\W\d]\w*+)
    | (?P<word>[\w$]++)
    | (?P<space>\s++)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
_JSON_CAST = re.compile(r"\s*(?:::|\bas\b)\s*jsonb?\b(?!\s*\[)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A stretch of SQL: `kind` is a group of the pattern above, `start` and `end` are offsets."""

    kind: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement without its semicolon. `offset` is where `text` begins in the command
    (characters from 0), `line` the line of its first word (from 1), `lead` the length of the
    comments before that."""

    text: str
    offset: int
    line: int
    lead: int = 0

    def line_at(self, offset: int) -> int:
        """The line in the command of a character of `text`."""
        return self.line + self.text.count("\n", self.lead, offset)

    @property
    def tokens(self) -> list[SqlToken]:
        """All but space and comments."""
        return [token for token in tokens(self.text) if token.kind not in ("space", "comment")]

    @property
    def words(self) -> list[str]:
        """Its words in small letters, without what stands in quotes."""
        return [token.text.lower() for token in tokens(self.text) if token.kind == "word"]


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A parameter in its place. `is_json`: a cast to json or jsonb follows. `source` is what was
    written."""

    key: str
    source: str
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """A statement and the values that it uses. Values never become part of its text."""

    statement: Statement
    pieces: tuple[str | Placeholder, ...]
    values: Mapping[str, Json] = field(default_factory=dict)

    @property
    def has_values(self) -> bool:
        return any(isinstance(piece, Placeholder) for piece in self.pieces)

    def pyformat(self) -> str:
        """For drivers that read `%(name)s`: every other `%` is doubled."""
        return "".join(
            piece.replace("%", "%%") if isinstance(piece, str) else f"%({piece.key})s"
            for piece in self.pieces
        )

    def dollar(self) -> str:
        """For drivers that read `$name`."""
        return "".join(piece if isinstance(piece, str) else f"${piece.key}" for piece in self.pieces)


def tokens(sql: str) -> Iterator[SqlToken]:
    """Every stretch of `sql`, in order, without gaps. What is not closed reaches to the end."""
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        assert found is not None  # the last alternative takes any character
        kind, end = str(found.lastgroup), found.end()
        if kind == "block":
            kind, end = "comment", _comment_end(sql, end)
        elif kind == "dollar":
            close = sql.find(found[0], end)
            kind, end = "quoted", len(sql) if close < 0 else close + len(found[0])
        yield SqlToken(kind, at, end, sql[at:end])
        at = end


def _comment_end(sql: str, at: int) -> int:
    depth = 1
    for mark in _COMMENT_MARK.finditer(sql, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)


class _Nesting:
    """Where a semicolon does not end a statement: in parentheses, and in the body of a routine."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._parentheses = 0
        self._blocks = 0

    @property
    def is_open(self) -> bool:
        return self._parentheses > 0 or self._blocks > 0

    def see(self, token: SqlToken) -> None:
        if token.text == "(":
            self._parentheses += 1
        elif token.text == ")":
            self._parentheses = max(self._parentheses - 1, 0)
        elif token.kind == "word":
            self._see_word(token.text.lower())

    def _see_word(self, word: str) -> None:
        if len(self._words) < 4:
            self._words.append(word)
        is_created = self._words[0] == "create"
        is_routine = is_created and {"function", "procedure"} & set(self._words)
        # The body of a trigger, as SQLite writes it.
        is_trigger = is_created and "trigger" in self._words[:3]
        opens = (is_routine and word == "atomic") or (is_trigger and word == "begin")
        if opens or (self._blocks and word == "case"):
            self._blocks += 1
        elif word == "end":
            self._blocks = max(self._blocks - 1, 0)


def split(sql: str) -> list[Statement]:
    """The statements of `sql`, without those that hold only space and comments."""
    found: list[Statement] = []
    start, first, nesting = 0, -1, _Nesting()
    for token in tokens(sql):
        if token.kind in ("space", "comment"):
            continue
        if token.text == ";" and not nesting.is_open:
            found += _statement(sql, start, token.start, first)
            start, first, nesting = token.end, -1, _Nesting()
            continue
        first = token.start if first < 0 else first
        nesting.see(token)
    return found + _statement(sql, start, len(sql), first)


def _statement(sql: str, start: int, end: int, first: int) -> list[Statement]:
    if first < 0:
        return []
    text = sql[start:end]
    offset = start + len(text) - len(text.lstrip())
    return [Statement(text.strip(), offset, sql.count("\n", 0, first) + 1, first - offset)]


def bind(statements: Sequence[Statement], params: Params | None) -> list[BoundStatement]:
    """Each statement with the parameters that it uses; without `params` nothing is looked for.

    A mapping binds `:name`, a list `$1`, `$2`. Quotes, comments and `::` casts are never touched.
    Raises ToolError(sql) for a parameter that is missing, and for one that no statement uses.
    """
    if params is None:
        return [BoundStatement(statement, (statement.text,)) for statement in statements]
    binder = _Binder(params)
    bound = [binder.bind(statement) for statement in statements]
    binder.refuse_unused()
    return bound


class _Binder:
    def __init__(self, params: Params) -> None:
        self._by_name = isinstance(params, Mapping)
        self._values: dict[str, Json] = (
            {f":{name}": value for name, value in params.items()}
            if isinstance(params, Mapping)
            else {f"${index}": value for index, value in enumerate(params, 1)}
        )
        self._keys = {source: f"p{index}" for index, source in enumerate(self._values, 1)}
        self._unused = dict.fromkeys(self._values)

    def bind(self, statement: Statement) -> BoundStatement:
        pieces: list[str | Placeholder] = []
        values: dict[str, Json] = {}
        sql, done = statement.text, 0
        for token in tokens(sql):
            if token.kind != ("name" if self._by_name else "position"):
                continue
            if token.text not in self._values:
                line = statement.line_at(token.start)
                raise ToolError("sql", self._missing(token.text), line=line, type="MissingParameter")
            self._unused.pop(token.text, None)
            is_json = _JSON_CAST.match(sql, token.end) is not None
            # A value may stand in one place as it is and in another as JSON: these are two for a
            # driver.
            key = self._keys[token.text] + ("j" if is_json else "")
            values[key] = self._values[token.text]
            pieces += [sql[done : token.start], Placeholder(key, token.text, is_json)]
            done = token.end
        return BoundStatement(statement, (*pieces, sql[done:]), values)

    def _missing(self, source: str) -> str:
        near = nearest(source, self._values)
        have = ", ".join(list(self._values)[:10]) or "none"
        hint = f"did you mean {near}?" if near else f"`params` has {have}."
        return f"Parameter {source} is used but not given; {hint}"

    def refuse_unused(self) -> None:
        for source in self._unused:
            kind = "`:name`" if self._by_name else "`$1`, `$2`"
            raise ToolError(
                "sql",
                f"Parameter {source} is given but no statement uses it; write it as {kind} outside of "
                "quotes, or leave it out.",
                type="UnusedParameter",
            )
