"""The calls of SQL tools: what each asks for, how its errors are explained, and what its statements
yield."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from noetl.errors import TemplateError, ToolError
from noetl.expressions import evaluate
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.facts.values import as_dicts
from noetl.net.model import Effects
from noetl.pipeline.model import Call
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.calls import RunningCalls, StopSignal
from noetl.tools.kit.columns import plain_type, settle, types_of
from noetl.tools.kit.large import RowSpool, TableStore, shelf_of
from noetl.tools.kit.scripts import Script, Scripts
from noetl.tools.sql.config import SqlConfig, all_texts
from noetl.tools.sql.rows import TableWrite, write_of
from noetl.tools.sql.text import BoundStatement

#: More rows than this in one answer are a limit error.
MAX_ROWS = 1_000_000
#: Seconds that a call may take where `spec.timeout` says nothing.
DEADLINE_S: Final = 300.0
#: How errors begin that are not about a statement.
ROWS: Final = "The rows cannot be written"
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class StatementResult:
    """What one statement left: `row_count` is rows returned or changed, `rows` a reference where
    they are too many."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Json]] | JsonMap
    row_count: int
    status: str
    #: Of the columns, in their order (see `noetl.tools.kit.columns`).
    types: Sequence[str] = ()

    def as_json(self) -> dict[str, Json]:
        return {
            "rows": self.rows if isinstance(self.rows, Mapping) else list(self.rows),
            "row_count": self.row_count,
            "columns": list(self.columns),
            "types": list(self.types),
            "status": self.status,
        }


@dataclass(frozen=True, slots=True)
class ResultBounds:
    """What an answer may be: at most about `most_bytes` of text where it is in memory; where there
    is a shelf, rows above its inline limit go there. `notes` gets what was left out of values."""

    most_bytes: int
    notes: set[str]
    shelf: TableStore | None = None


class RowCollector:
    """The rows of one answer as they come: in a list, and from the inline limit on in a table of
    the result store (`types`: what is known of its columns). Where there is no such place, adding
    raises ToolError(limit) at more than `MAX_ROWS` rows or too much text, so that what is too large
    is not read to its end."""

    def __init__(
        self, place: str, names: Sequence[str], bounds: ResultBounds, types: Mapping[str, str] | None = None
    ) -> None:
        self.size = 0
        self._place, self._names, self._bounds = place, names, bounds
        self._types = types
        self._shelf = bounds.shelf if bounds.shelf is not None and bounds.shelf.takes(names) else None
        self._count = 0
        #: Rows are here, or in the spool, or (where there is no shelf) in the dicts.
        self._raw: list[Sequence[object]] = []
        self._spool: RowSpool | None = None
        self._dicts: list[dict[str, Json]] = []

    def add(self, rows: Sequence[Sequence[object]]) -> None:
        self._count += len(rows)
        if self._spool is not None:
            self._spool.add(rows, self._bounds.notes)
            return
        self.size += sum(map(_weight, rows))
        if self._shelf is None:
            self._dicts += as_dicts(self._names, rows, self._bounds.notes)
            refuse_too_many(self._place, self._count)
            refuse_too_large(self._place, self.size, self._bounds.most_bytes)
            return
        self._raw += rows
        if self.size > self._shelf.inline_bytes:
            self._spool = RowSpool(self._shelf, self._names, self._types)
            self._spool.add(self._raw, self._bounds.notes)
            self._raw = []

    @property
    def is_large(self) -> bool:
        """Whether the rows go to a table."""
        return self._spool is not None

    def answer(self, status: str, known: Mapping[str, str] | None = None) -> StatementResult:
        """Once all rows have come (`known`: the types of few). Raises ToolError where they cannot
        be kept."""
        self.add([])  # where nothing is to stay inline that holds of no rows, too
        if self._spool is not None:
            return kept_rows(self._names, self._spool.store(), self._count, status)
        rows = self._dicts or as_dicts(self._names, self._raw, self._bounds.notes)
        raw = self._raw or [tuple(row.values()) for row in self._dicts]
        known = {**(self._types or {}), **(known or {})}
        types = types_of(self._names, raw, known)
        for name in types.keys() - known.keys():
            settle(rows, name, types[name])
        return StatementResult(self._names, rows, self._count, status, list(types.values()))

    def close(self) -> None:
        """Drops what was not asked for."""
        if self._spool is not None:
            self._spool.close()


def kept_rows(names: Sequence[str], reference: JsonMap, count: int, status: str) -> StatementResult:
    """The answer whose rows are a table of the result store."""
    columns = reference["preview"]["columns"]
    return StatementResult(names, reference, count, status, [plain_type(one["type"]) for one in columns])


def refuse_too_many(place: str, count: int) -> None:
    """Raises ToolError(limit) at more rows than an answer in memory may have."""
    if count > MAX_ROWS:
        raise ToolError(
            "limit", f"{place} returned more than {MAX_ROWS} rows; add a LIMIT.", type="TooManyRows"
        )


def refuse_too_large(place: str, size: int, most: int) -> None:
    """Raises ToolError(limit) at more bytes of text than `most`."""
    if size > most:
        raise ToolError(
            "limit",
            f"{place} returned more than the {most:,} bytes that a result may have; "
            "select less, or write it to a table or a file.",
            type="TooManyBytes",
        )


def _weight(values: Iterable[object]) -> int:
    """About how many bytes `values` have as text, never too many."""
    size = 0
    for value in values:
        if isinstance(value, str | bytes | bytearray | memoryview):
            size += len(value)
        elif isinstance(value, list | tuple):
            size += _weight(value)
        elif isinstance(value, dict):
            size += _weight(value.values())
        else:
            size += 1
    return size


def result_of(answers: Sequence[StatementResult]) -> dict[str, Json]:
    """`{rows, row_count, columns, types, command_0, command_1, ...}`; the top level is the last
    statement's."""
    commands = [answer.as_json() for answer in answers]
    last = commands[-1]
    top = {name: last[name] for name in ("rows", "row_count", "columns", "types")}
    return top | {f"command_{index}": command for index, command in enumerate(commands)}


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

    @classmethod
    def only_asks(cls, text: str, with_params: bool) -> bool:  # noqa: ARG003 - see `Tool.touches`
        """Whether a text of its SQL, in which no template stands, only asks for rows."""
        return False

    @classmethod
    def effects_of(cls, config: Mapping[str, Json]) -> Effects | None:
        if config.get("table") is not None:
            return "idempotent" if config.get("mode") in ("upsert", "replace") else None
        return "none" if all_texts(config, cls.only_asks) else None

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
