"""Statements that make a database server run a program of its machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from noetl.errors import ToolError
from noetl.tools.sql.text import BoundStatement, SqlToken, Statement, split

#: Statements whose body, in quotes, holds further statements.
_WITH_BODY = frozenset({"do", "create"})


def refuse_programs(bound: Iterable[BoundStatement]) -> None:
    """Raises ToolError(sql) at the first `COPY ... PROGRAM`, also in the body of a routine.

    What a routine puts together while it runs is the server's to refuse: see
    docs/tools/postgres.md."""
    for one in bound:
        if _runs_program(one.statement):
            raise ToolError(
                "sql",
                "COPY ... PROGRAM runs a program on the database server and is refused; "
                "fetch the data in another task and insert it.",
                line=one.statement.line,
                type="ProgramRefused",
            )


def _runs_program(statement: Statement) -> bool:
    tokens = statement.tokens
    first = tokens[0].text.lower()
    if first == "copy":
        return _names_program(tokens)
    # A body begins behind a word in capitals or not: DO $$ BEGIN COPY ... END $$
    bodies = (_unquote(token.text) for token in tokens if token.kind == "quoted")
    return first in _WITH_BODY and any(
        # Behind BEGIN, THEN or LOOP a statement is not the first word of what semicolons part.
        "copy" in inner.words and _names_program(inner.tokens)
        for body in bodies
        for inner in split(body)
    )


def _names_program(tokens: Sequence[SqlToken]) -> bool:
    """`FROM PROGRAM '...'` or `TO PROGRAM '...'`: a table called program is followed by no text."""
    return any(
        one.text.lower() in ("from", "to")
        and (two.kind, two.text.lower()) == ("word", "program")
        and three.kind == "quoted"
        for one, two, three in zip(tokens, tokens[1:], tokens[2:], strict=False)
    )


def _unquote(text: str) -> str:
    if text.startswith("$"):
        mark = text[: text.index("$", 1) + 1]
        return text.removeprefix(mark).removesuffix(mark)
    return text.strip("'").replace("''", "'")
