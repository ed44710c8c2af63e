"""What calls touch, in words: what `touches` of the tools is made of. Configurations here are not checked yet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from noetl.facts.json import Json
from noetl.tools.kit.blackout import MASK
from noetl.tools.sql.config import NAMES
from noetl.tools.sql.text import Statement, split, tokens

#: Characters of a command or an address that are told.
_SHOWN: Final = 120
_USER_INFO: Final = re.compile(r"(?<=//)[^/@\s]*:[^/@\s]*(?=@)")
#: Verbs that are told with the word behind them: `create table`.
_WITH_OBJECT: Final = frozenset({"create", "drop", "alter"})
#: Words between such a verb and what it is about.
_BETWEEN: Final = frozenset({"or", "replace", "temp", "temporary", "unique", "unlogged", "global", "local"})
_WRITES: Final = ("insert", "update", "delete", "merge")


def one_line(text: Json) -> str:
    """`text` without line ends, cut where it is long."""
    line = " ".join(str(text)[: 8 * _SHOWN].split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def address(url: Json) -> str:
    """`url` without the password in it."""
    return one_line(_USER_INFO.sub(MASK, str(url)))


def credential(auth: Json) -> str | None:
    """The name of the credential in `auth`, where that is one."""
    name = auth.get("credential") if isinstance(auth, Mapping) else auth
    return one_line(name) if isinstance(name, str) and name else None


def first(config: Mapping[str, Json], *names: str) -> Json:
    """The value of the first of `names` that has one."""
    return next((config[name] for name in names if config.get(name) not in (None, "")), None)


def listed(value: Json) -> list[Json]:
    """`value` as a list: null is empty, anything else than a list its only element."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def file(what: str, name: Json, config: Mapping[str, Json]) -> str:
    """A database that is a file."""
    return f"{what} file {one_line(name)}{' (read only)' if config.get('read_only') is True else ''}"


def command(value: Json) -> str:
    """A line for a shell, or a program with its arguments."""
    return one_line(" ".join(map(str, value)) if isinstance(value, list | tuple) else value)


def store(end: Json) -> str:
    """One end of a transfer."""
    if not isinstance(end, Mapping):
        return one_line(end)
    place = credential(end.get("auth")) or first(end, "database", "url", "file")
    table = f", table {one_line(end['table'])}" if end.get("table") is not None else ""
    return (
        " ".join(filter(None, (one_line(end.get("kind")), address(place) if place is not None else "")))
        + table
    )


def sql(config: Mapping[str, Json], place: str) -> tuple[str, ...]:
    """What a SQL task does at `place`: the kinds of its statements, or the rows that it writes.

    A look at the first words, no parser: a `select` may call a function that writes.
    """
    if (table := config.get("table")) is not None:
        return (f"SQL on {place}: {config.get('mode', 'insert')} rows, table {one_line(table)}",)
    if isinstance(script := config.get("script"), Mapping):
        return (f"SQL of {address(first(script, 'file', 'path', 'url', 'uri', 'ref'))} on {place}",)
    verbs = Counter(verb for text in listed(first(config, *NAMES)) for verb in _verbs(str(text)))
    told = [verb if count == 1 else f"{verb} ×{count}" for verb, count in verbs.items()]
    return (f"SQL on {place}: {', '.join(told) or 'no statement'}",)


def _verbs(text: str) -> Iterator[str]:
    for statement in split(text):
        # A statement that begins with a template is whatever that yields.
        yield (
            "what a template yields" if statement.text[statement.lead :].startswith("{") else _verb(statement)
        )


def _verb(statement: Statement) -> str:
    words = [word.lower() for word in _words(statement.text)]
    verb = words[0] if words else "?"
    if verb == "with":
        return next((word for word in words if word in _WRITES), "select")
    if verb in _WITH_OBJECT:
        return f"{verb} {next((word for word in words[1:] if word not in _BETWEEN), '')}".strip()
    return verb


def _words(text: str) -> Iterator[str]:
    return (text[token.start : token.end] for token in tokens(text) if token.kind == "word")
