"""What SQL tasks touch, in words (see `noetl.tools.kit.effects`). Configurations here are not
checked yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from noetl.facts.json import Json
from noetl.tools.kit.effects import address, as_list, first, one_line
from noetl.tools.sql.config import NAMES
from noetl.tools.sql.text import Statement, split

#: Verbs that are told with the word behind them: `create table`.
_WITH_OBJECT: Final = frozenset({"create", "drop", "alter"})
#: Words between such a verb and what it is about.
_BETWEEN: Final = frozenset({"or", "replace", "temp", "temporary", "unique", "unlogged", "global", "local"})
_WRITES: Final = ("insert", "update", "delete", "merge")


def file(what: str, name: Json, config: Mapping[str, Json]) -> str:
    """A database that is a file."""
    return f"{what} file {one_line(name)}{' (read only)' if config.get('read_only') is True else ''}"


def sql(config: Mapping[str, Json], place: str) -> tuple[str, ...]:
    """What a SQL task does at `place`: the kinds of its statements, or the rows that it writes.

    A look at the first words, no parser: a `select` may call a function that writes.
    """
    if (table := config.get("table")) is not None:
        return (f"SQL on {place}: {config.get('mode', 'insert')} rows, table {one_line(table)}",)
    if isinstance(script := config.get("script"), Mapping):
        return (f"SQL of {address(first(script, 'file', 'path', 'url', 'uri', 'ref'))} on {place}",)
    verbs = Counter(verb for text in as_list(first(config, *NAMES)) for verb in _verbs(str(text)))
    told = [verb if count == 1 else f"{verb} ×{count}" for verb, count in verbs.items()]
    return (f"SQL on {place}: {', '.join(told) or 'no statement'}",)


def _verbs(text: str) -> Iterator[str]:
    for statement in split(text):
        # A statement that begins with a template is whatever that yields.
        yield (
            "what a template yields" if statement.text[statement.lead :].startswith("{") else _verb(statement)
        )


def _verb(statement: Statement) -> str:
    words = statement.words
    verb = words[0] if words else "?"
    if verb == "with":
        return next((word for word in words if word in _WRITES), "select")
    if verb in _WITH_OBJECT:
        return f"{verb} {next((word for word in words[1:] if word not in _BETWEEN), '')}".strip()
    return verb
