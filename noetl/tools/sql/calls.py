"""The calls of SQL tools: what each asks for, how its errors are explained, and what it yields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from noetl.errors import TemplateError, ToolError
from noetl.expressions import evaluate
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.calls import RunningCalls, StopSignal
from noetl.tools.kit.large import shelf_of
from noetl.tools.kit.scripts import Script, Scripts
from noetl.tools.sql.config import SqlConfig
from noetl.tools.sql.rows import TableWrite, write_of
from noetl.tools.sql.text import BoundStatement
from noetl.tools.sql.values import ResultBounds

#: Seconds that a call may take where `spec.timeout` says nothing.
DEADLINE_S: Final = 300.0
#: How errors begin that are not about a statement.
ROWS: Final = "The rows cannot be written"
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class SqlCall:
    """What a call asks for: `bound` statements, or rows to `write`; in one `transaction` or each
    statement in its own."""

    call: Call
    bound: Sequence[BoundStatement]
    write: TableWrite | None
    transaction: bool
    #: Whether lines of statements are lines of the command.
    has_lines: bool
    bounds: ResultBounds
    deadline_s: float

    @property
    def last(self) -> int | str:
        """What an error at the end is about: the last statement, or the rows."""
        return len(self.bound) - 1 if self.bound else ROWS

    def outcome(self, result: Json, meta: Mapping[str, Json] | None = None, **extras: Json) -> Outcome:
        """The call went well; `meta` gets warnings of what was left out."""
        warnings = sorted(self.bounds.notes) + (self.write.warnings() if self.write else [])
        return succeeded(result, {**(meta or {}), **({"warnings": warnings} if warnings else {})}, **extras)


class SqlTool(Tool):
    """A tool that runs SQL: reads scripts, and can be interrupted."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._scripts = Scripts(services)
        self.running = RunningCalls()

    def sql_call(self, call: Call, config: SqlConfig) -> SqlCall:
        """What `config` asks for, its script read. Raises ToolError."""
        deadline_s = call.deadline_s or DEADLINE_S
        if isinstance(config.script, Script):
            text = self._read_script(call, config.script, deadline_s)
            config = config.model_copy(update={"command": text})
        return SqlCall(
            call,
            config.bind(),
            write_of(config, self.services.results),
            config.transaction or config.table is not None,
            config.is_one_text,
            ResultBounds(self.services.result_limit, set(), shelf_of(call, self.services)),
            deadline_s,
        )

    def _read_script(self, call: Call, script: Script, deadline_s: float) -> str:
        source = self._scripts.source(script, self.services.files_of(call), deadline_s)
        if call.spec.get("render") is not True:
            return source.text
        # Templates in it see the whole context, and the inputs of the task.
        names = {**(call.context() if call.context is not None else {}), **call.args}
        load = self.services.results.load if self.services.results is not None else None
        try:
            return str(evaluate(source.text, names, load=load))
        except TemplateError as error:
            raise ToolError("template", f"{source.name}: {error.message}") from error

    def interrupt(self, call: Call) -> None:
        self.running.interrupt(call)

    def close(self) -> None:
        self._scripts.close()


class SqlErrors:
    """Turns errors of a driver into ToolErrors that name the statement and its line."""

    #: Field of the outcome that holds the details.
    section: ClassVar[str]

    def __init__(self, bound: Sequence[BoundStatement] = (), has_lines: bool = False) -> None:
        self.bound = bound
        self._has_lines = has_lines

    def place(self, index: int) -> str:
        return f"Statement {index + 1} of {len(self.bound)}" if len(self.bound) > 1 else "The statement"

    def show(self, text: str) -> str:
        """The beginning of a statement, for the details."""
        return text[:_SHOWN]

    def failure(
        self,
        place: int | str,
        error: Exception,
        cause: str,
        about: Mapping[str, Json],
        *,
        kind: str = "sql",
        retryable: bool = False,
        line: int | None = None,
    ) -> ToolError:
        """What `error` of the statement at index `place` is to its author; a text begins the
        sentence where it is about no statement."""
        message, extras = f"{place}: {cause}", dict(about)
        if isinstance(place, int):
            statement = self.bound[place].statement
            line = line or statement.line
            message = f"{self.place(place)} failed at line {line}: {cause}"
            extras |= {"statement_index": place, "statement": self.show(statement.text)}
        return ToolError(
            kind,
            message,
            retryable=retryable,
            type=type(error).__name__,
            line=line if self._has_lines else None,
            extras={self.section: extras},
        )


def refuse_interrupted(stop: StopSignal) -> None:
    """Raises ToolError where the call was ended from outside."""
    if stop.pulled:
        raise ToolError("sql", "The statement was interrupted.", type="Interrupted")
