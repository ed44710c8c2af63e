"""The tool `duckdb`: SQL over files and rows, inside of the worker."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call, Later, Suspension
from noetl.tools.base import Services, Tool, ToolConfig
from noetl.tools.duckdb_config import DuckDbConfig
from noetl.tools.duckdb_files import Busy, FileLocks, Wait, database_path, held
from noetl.tools.duckdb_open import Database
from noetl.tools.duckdb_tables import opened_tables
from noetl.tools.duckdb_work import Order, Work
from noetl.tools.large import scratch_folder, shelf_of
from noetl.tools.sql_calls import Running
from noetl.tools.sql_config import NAMES, WORK
from noetl.tools.sql_rows import write_of
from noetl.tools.sql_values import Bounds

if TYPE_CHECKING:
    pass

#: Seconds that a call may take where `spec.timeout` says nothing.
DEADLINE_S = 300.0
#: How long a call waits in the worker for a database that others have; then it waits outside, at most so long a time.
PATIENCE_S = 1.0
_LONGEST_PAUSE_S = 15.0


class DuckDb(Tool):
    """Runs SQL in DuckDB. A database file is opened for each call and closed after it."""

    kind = "duckdb"
    queue = "duckdb"
    effects = "internal"
    description = (
        "Runs SQL in DuckDB over files and rows and yields {rows, row_count, columns, command_0, ...}."
    )
    config_model: ClassVar[type[ToolConfig]] = DuckDbConfig
    required = (WORK,)
    verbatim_with_params = NAMES
    suspends = True
    by_reference = ("rows", "tables")

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._files = FileLocks(services.scratch / "leases")
        self._running = Running()

    def run(self, call: Call, config: DuckDbConfig) -> Outcome | Suspension:
        deadline_s = call.deadline_s or DEADLINE_S
        waited_s = float((call.checkpoint or {}).get("waited_s", 0.0))
        ends = time.monotonic() + max(deadline_s - waited_s, 0.0)
        try:
            return self._run(call, config, deadline_s, ends)
        except Busy as busy:
            pause_s = min(max(waited_s, PATIENCE_S), _LONGEST_PAUSE_S)
            waited_s += PATIENCE_S + pause_s
            if waited_s >= deadline_s:
                raise held(busy.path, busy.who) from None
            # Whoever waits longer holds no worker.
            return Later(pause_s, {"waited_s": waited_s})

    def _run(self, call: Call, config: DuckDbConfig, deadline_s: float, ends: float) -> Outcome:
        bounds = Bounds(self.services.result_limit, set(), shelf_of(call, self.services))
        statements = config.bound()
        path = database_path(config.database, self.services.base_dir)
        with contextlib.ExitStack() as stack:
            stop = stack.enter_context(self._running.enter(call))
            write = write_of(config, self.services.results)
            patience = min(time.monotonic() + PATIENCE_S, ends)
            wait = Wait(patience, config.read_only, stop.refuse_cancelled)
            stack.enter_context(self._files.hold(path, wait))
            tables = stack.enter_context(opened_tables(config.tables, self.services.results))
            folder = Path(stack.enter_context(scratch_folder(bounds.shelf)))
            database = Database(path, config, self.services, tables, folder)
            connection = stack.enter_context(database.opened(wait))
            order = Order(statements, write, config.transaction, config.is_one_text, bounds, folder)
            with stop.watch(ends - time.monotonic(), connection.interrupt):
                try:
                    result = Work(connection, order, stop).run()
                except ToolError as error:
                    stop.refuse_cancelled()
                    raise _late(deadline_s) if stop.late else error from error
        warnings = sorted(bounds.notes) + (write.warnings() if write else [])
        meta: dict[str, Json] = {"warnings": warnings} if warnings else {}
        return succeeded(result, meta, duckdb={"statements": len(statements)})

    def interrupt(self, call: Call) -> None:
        self._running.interrupt(call)


def _late(deadline_s: float) -> ToolError:
    return ToolError(
        "timeout",
        f"The command did not end within {deadline_s:g} s and was interrupted; raise `spec.timeout`.",
        retryable=True,
        type="Interrupted",
    )
