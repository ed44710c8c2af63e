"""What the configurations of SQL tools share: the command under each of its names, parameters,
rows, and what a call has effects on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.pipeline.templates import has_template
from noetl.tools.kit.declaration import ToolConfig
from noetl.tools.kit.effects import address, as_list, first, one_line
from noetl.tools.kit.scripts import Script
from noetl.tools.sql.text import BoundStatement, Statement, bind, split

NAMES = ("command", "commands", "query", "sql", "script")
#: Of these a task needs one: something to run, or a table to write to.
WORK = (*NAMES, "table")
_SAME = "The same as `command`."
#: Verbs that are shown with the word behind them: `create table`.
_WITH_OBJECT: Final = frozenset({"create", "drop", "alter"})
#: Words between such a verb and what it is about.
_BETWEEN: Final = frozenset({"or", "replace", "temp", "temporary", "unique", "unlogged", "global", "local"})
#: What becomes of a column that a row does not name, and others do.
Missing: TypeAlias = Literal["keep", "null", "default", "fail"]
_WRITES: Final = ("insert", "update", "delete", "merge")


class SqlConfig(ToolConfig):
    """SQL text under one of five names and what is bound into it, or rows and the table they go
    to."""

    command: str | list[str] | None = Field(default=None, description="SQL: one or several statements.")
    commands: str | list[str] | None = Field(default=None, description=_SAME)
    query: str | list[str] | None = Field(default=None, description=_SAME)
    sql: str | list[str] | None = Field(default=None, description=_SAME)
    script: str | list[str] | Script | None = Field(
        default=None,
        description="The same as `command`; or where its text is: `{file | ref | url, sha256}`, as written "
        "unless `spec.render: true`.",
    )
    params: dict[str, Json] | list[Json] | None = Field(
        default=None, description="A mapping binds `:name`, a list `$1`, `$2`."
    )
    transaction: bool = Field(default=False, description="Run all statements in one transaction.")
    table: str | None = Field(
        default=None, description="Table that `rows` are written to, in one transaction; instead of SQL."
    )
    rows: Json = Field(
        default=None,
        description="Rows to write: a list of mappings, one mapping, a SQL task's result, or a reference to "
        "one of these; what lies behind a reference is read in pieces.",
        repr=False,
    )
    mode: Literal["insert", "upsert", "copy", "replace"] = Field(
        default="insert",
        description="How rows are written: added, added or changed by `key`, added in bulk, or instead of "
        "all others.",
    )
    key: str | list[str] | None = Field(
        default=None, description="Columns that tell rows apart, for `mode: upsert`."
    )
    missing: Missing = Field(
        default="keep",
        description="What becomes of a column that a row does not name and others do: it stays as it is in a "
        "row that is there, and gets its default in one that is added (`keep`); it is null; it gets its "
        "default in both; or the task fails.",
    )

    @model_validator(mode="after")
    def _one_command(self) -> SqlConfig:
        given = [name for name in NAMES if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(
                f"`{given[0]}` and `{given[1]}` are two names of the same thing; give one of them"
            )
        return self

    @model_validator(mode="after")
    def _sql_or_rows(self) -> SqlConfig:
        if self.table is None:
            stray = next(
                (name for name in ("rows", "mode", "key", "missing") if name in self.model_fields_set), None
            )
            if stray is not None:
                raise ValueError(f"`{stray}` is about writing rows; name the `table` that they go to")
            return self
        other = next((name for name in (*NAMES, "params") if getattr(self, name) is not None), None)
        if other is not None:
            raise ValueError(f"`table` writes rows and `{other}` runs SQL; make them two tasks")
        if "rows" not in self.model_fields_set:
            raise ValueError("`table` needs `rows`, a list of mappings")
        if (self.mode == "upsert") != bool(self.key):
            raise ValueError("`mode: upsert` and `key` (columns of a unique constraint) go together")
        return self

    @property
    def texts(self) -> list[str]:
        value = next((text for name in NAMES if (text := getattr(self, name)) is not None), None)
        if isinstance(value, Script):
            raise ToolError("internal", "The text of the script was not read.")
        return [value] if isinstance(value, str) else list(value or [])

    @property
    def is_one_text(self) -> bool:
        """Whether lines of statements are lines of the command."""
        return len(self.texts) == 1 and not isinstance(self.script, Script)

    @property
    def keys(self) -> tuple[str, ...]:
        """`key` as column names."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key or ())

    def bind(self) -> list[BoundStatement]:
        """The statements with their parameters, none where rows are written. Raises
        ToolError(sql)."""
        if self.table is not None:
            return []
        statements: list[Statement] = [statement for text in self.texts for statement in split(text)]
        if not statements:
            raise ToolError("sql", "`command` holds no statement; give at least one.", type="EmptyCommand")
        return bind(statements, self.params)


class WrittenSql(BaseModel):
    """What can be checked of SQL as it is written: whether each parameter that it names is there,
    and each that is there is named. Values are not looked at: they may be templates. Without
    `params` nothing is bound."""

    params: Any = None
    command: Any = None
    commands: Any = None
    query: Any = None
    sql: Any = None
    script: Any = None

    @field_validator(*NAMES)
    @classmethod
    def _binds(cls, command: Any, info: ValidationInfo) -> Any:
        params = info.data["params"]
        texts = [command] if isinstance(command, str) else command
        are_texts = isinstance(texts, list) and all(isinstance(one, str) for one in texts)
        if isinstance(params, dict | list) and are_texts:
            try:
                bind([statement for text in texts for statement in split(text)], params)
            except ToolError as error:
                raise ValueError(error.message) from error
        return command


def all_texts(config: Mapping[str, Json], holds: Callable[[str, bool], bool]) -> bool:
    """Whether `holds` of each text of SQL in `config`, given whether `params` are bound; False
    where one is not known before the run: a script, or one with a template in it."""
    texts = as_list(first(config, *NAMES))
    with_params = config.get("params") is not None
    return bool(texts) and all(
        isinstance(text, str) and not has_template(text) and holds(text, with_params) for text in texts
    )


def describe_file(what: str, name: Json, config: Mapping[str, Json]) -> str:
    """A database that is a file."""
    return f"{what} file {one_line(name)}{' (read only)' if config.get('read_only') is True else ''}"


def describe_sql(config: Mapping[str, Json], place: str) -> tuple[str, ...]:
    """What a SQL task does at `place`: the kinds of its statements, or the rows that it writes.

    A look at the first words, no parser: a `select` may call a function that writes.
    """
    if (table := config.get("table")) is not None:
        return (f"SQL on {place}: {config.get('mode', 'insert')} rows, table {one_line(table)}",)
    if isinstance(script := config.get("script"), Mapping):
        return (f"SQL of {address(first(script, 'file', 'path', 'url', 'uri', 'ref'))} on {place}",)
    texts = as_list(first(config, *NAMES))
    verbs = Counter(_verb(statement) for text in texts for statement in split(str(text)))
    shown = [verb if count == 1 else f"{verb} ×{count}" for verb, count in verbs.items()]
    return (f"SQL on {place}: {', '.join(shown) or 'no statement'}",)


def _verb(statement: Statement) -> str:
    if statement.text[statement.lead :].startswith("{"):
        return "what a template yields"
    words = statement.words
    verb = words[0] if words else "?"
    if verb == "with":
        return next((word for word in words if word in _WRITES), "select")
    if verb in _WITH_OBJECT:
        return f"{verb} {next((word for word in words[1:] if word not in _BETWEEN), '')}".strip()
    return verb
