"""What the configurations of SQL tools share: the command under each of its names, parameters, and
rows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.kit.declaration import ToolConfig
from noetl.tools.kit.scripts import Script
from noetl.tools.sql.text import BoundStatement, Statement, bind, split

NAMES = ("command", "commands", "query", "sql", "script")
#: Of these a task needs one: something to run, or a table to write to.
WORK = (*NAMES, "table")
_SAME = "The same as `command`."


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
        description="Rows to write: a list of mappings, a SQL task's result, or a reference to either; what "
        "lies behind a reference is read in pieces.",
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
            stray = next((name for name in ("rows", "mode", "key") if name in self.model_fields_set), None)
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
        value = next((v for name in NAMES if (v := getattr(self, name)) is not None), None)
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
        if isinstance(params, dict | list) and _are_texts(texts):
            try:
                bind([statement for text in texts for statement in split(text)], params)
            except ToolError as error:
                raise ValueError(error.message) from error
        return command


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
