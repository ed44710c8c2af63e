"""Statements that make a database server run a program of its machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from noetl.errors import ToolError
from noetl.tools.sql.text import Bound, split, tokens

#: Statements whose body, in quotes, holds further statements.
_WITH_BODY = frozenset({"do", "create"})


def refuse_programs(bound: Iterable[Bound]) -> None:
    """Raises ToolError(sql) at the first `COPY ... PROGRAM`, also in the body of a routine.

    What a routine puts together while it runs is the server's to refuse: see docs/tools/postgres.md.
    """
    for one in bound:
        if _runs_program(one.statement.text):
            raise ToolError(
                "sql",
                "COPY ... PROGRAM runs a program on the database server and is refused; "
                "fetch the data in another task and insert it.",
                line=one.statement.line,
                type="ProgramRefused",
            )


def _runs_program(sql: str) -> bool:
    seen = [(token.kind, sql[token.start : token.end]) for token in tokens(sql)]
    parts = [(kind, text.lower()) for kind, text in seen if kind not in ("space", "comment")]
    first = parts[0][1] if parts else ""
    if first == "copy":
        return _names_program(parts)
    # A body begins behind a word in capitals or not: DO $$ BEGIN COPY ... END $$
    return first in _WITH_BODY and any(_in_body(_unquoted(text)) for kind, text in seen if kind == "quoted")


def _in_body(body: str) -> bool:
    for statement in split(body):
        sql = statement.text
        parts = [
            (token.kind, sql[token.start : token.end].lower())
            for token in tokens(sql)
            if token.kind not in ("space", "comment")
        ]
        # Behind BEGIN, THEN or LOOP a statement is not the first word of what semicolons part.
        if ("word", "copy") in parts and _names_program(parts):
            return True
    return False


def _names_program(parts: Sequence[tuple[str, str]]) -> bool:
    """`FROM PROGRAM '...'` or `TO PROGRAM '...'`: a table called program is followed by no text."""
    return any(
        one[1] in ("from", "to") and two == ("word", "program") and three[0] == "quoted"
        for one, two, three in zip(parts, parts[1:], parts[2:], strict=False)
    )


def _unquoted(text: str) -> str:
    if text.startswith("$"):
        mark = text[: text.index("$", 1) + 1]
        return text.removeprefix(mark).removesuffix(mark)
    return text.strip("'").replace("''", "'")
