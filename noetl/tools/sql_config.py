"""What the configurations of SQL tools share: the command under each of its names, and parameters."""

from __future__ import annotations

from pydantic import Field, model_validator

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.base import ToolConfig
from noetl.tools.sql import Bound, Statement, bind, split

NAMES = ("command", "commands", "query", "sql")


class SqlConfig(ToolConfig):
    """SQL text under one of four names, and what is bound into it."""

    command: str | list[str] | None = Field(default=None, description="SQL: one or several statements.")
    commands: str | list[str] | None = Field(default=None, description="The same as `command`.")
    query: str | list[str] | None = Field(default=None, description="The same as `command`.")
    sql: str | list[str] | None = Field(default=None, description="The same as `command`.")
    params: dict[str, Json] | list[Json] | None = Field(
        default=None, description="A mapping binds `:name`, a list `$1`, `$2`."
    )

    @model_validator(mode="after")
    def _one_command(self) -> SqlConfig:
        given = [name for name in NAMES if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(
                f"`{given[0]}` and `{given[1]}` are two names of the same thing; give one of them"
            )
        return self

    @property
    def texts(self) -> list[str]:
        value = next((v for name in NAMES if (v := getattr(self, name)) is not None), None)
        return [value] if isinstance(value, str) else list(value or [])

    @property
    def is_one_text(self) -> bool:
        """Whether lines of statements are lines of the command."""
        return len(self.texts) == 1

    def bound(self) -> list[Bound]:
        """The statements with their parameters. Raises ToolError(sql) where there is none."""
        statements: list[Statement] = [statement for text in self.texts for statement in split(text)]
        if not statements:
            raise ToolError("sql", "`command` holds no statement; give at least one.", type="EmptyCommand")
        return bind(statements, self.params)
