"""Data out: everything that is known as rows of tables (`noetl.projection.tables`).

A later export gets what is new. Where the last one stood is kept for each execution by
itself: versions have no gaps within an execution, while positions over all of them do for a moment.
A transaction that takes long commits a lower position behind a higher one, and a reader that only
went forward would never see it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from noetl.facts.events import Event
from noetl.facts.logs import LogChunk, LogFilter
from noetl.projection.fold import Projection
from noetl.projection.references import find_reference_rows, make_net_rows
from noetl.projection.rows import ProjectionRow
from noetl.projection.tables import FOLDED, REFERENCES, needs_executions
from noetl.usecases import logs
from noetl.usecases.ports import ExecutionRow, PlaybookRow
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import chunk_view, envelope

#: Executions that are looked at, and events that are read, at a time.
PAGE: Final = 200
BATCH: Final = 1_000
#: Tables with rows that an event has by itself.
_PLAIN: Final = REFERENCES | {"event_log"}


@dataclass(frozen=True, slots=True)
class ExportedHead:
    """All rows of the execution up to `version`, and up to chunk `log` of what it printed, have
    been given."""

    execution_id: str
    version: int = 0
    log: int = 0


@dataclass(frozen=True, slots=True)
class ExportedBefore:
    """Where an export begins. `head` tells what is known of an execution; it is asked for falling
    ids, each once. `playbooks` are the newest versions known of each path, `nets` digests."""

    head: Callable[[str], ExportedHead] = ExportedHead
    playbooks: Mapping[str, int] = field(default_factory=dict)
    nets: Collection[str] = ()


Item: TypeAlias = ProjectionRow | ExportedHead


def rows(
    rt: Runtime, tables: Collection[str], known: ExportedBefore, last: int | None = None
) -> Iterator[Item]:
    """The rows of `tables` that are not `known`: definitions, then executions from the newest to
    the oldest, a `ExportedHead` behind each of them. `last` bounds how many executions are looked
    at.

    Reads in many short transactions, so each execution is as of its own moment: a version that
    was its head. Raises NoetlError where an event cannot be read.
    """
    return _Export(rt, tables, known, last).items()


class _Export:
    def __init__(self, rt: Runtime, tables: Collection[str], known: ExportedBefore, last: int | None) -> None:
        self._rt = rt
        self._tables = frozenset(tables)
        self._known = known
        self._left = last
        self._nets = set(known.nets)

    def items(self) -> Iterator[Item]:
        yield from self._filter(self._playbooks())
        if not needs_executions(self._tables):
            return
        before: str | None = None
        while page := self._page(before):
            for row in page:
                yield from self._execution(row)
            before = page[-1].execution_id

    def _page(self, before: str | None) -> list[ExecutionRow]:
        size = PAGE if self._left is None else min(PAGE, self._left)
        if size == 0:
            return []
        with self._rt.store.read() as tx:
            found = tx.executions.find(before=before, limit=size)
        if self._left is not None:
            self._left -= len(found)
        return found

    def _filter(self, items: Iterator[ProjectionRow]) -> Iterator[ProjectionRow]:
        return (item for item in items if item.table in self._tables)

    # --- definitions ------------------------------------------------------------------------------

    def _playbooks(self) -> Iterator[ProjectionRow]:
        with self._rt.store.read() as tx:
            paths = [one.path for one in tx.playbooks.heads()]
        for path in paths:
            yield from self._versions(path)

    def _versions(self, path: str) -> Iterator[ProjectionRow]:
        with self._rt.store.read() as tx:
            versions = tx.playbooks.versions(path)
        for row in reversed(versions):
            if row.version > self._known.playbooks.get(path, 0):
                yield _playbook(row)
                yield from self._net(row.digest)

    def _net(self, digest: str) -> Iterator[ProjectionRow]:
        if digest in self._nets:
            return
        self._nets.add(digest)
        with self._rt.store.read() as tx:
            net = self._rt.plan(tx, digest).net
        yield from make_net_rows(digest, net)

    # --- executions -------------------------------------------------------------------------------

    def _execution(self, row: ExecutionRow) -> Iterator[Item]:
        since = self._known.head(row.execution_id)
        if row.head_version > since.version:
            yield from self._filter(self._net(row.digest))
            yield from self._filter(self._changed_since(row, since.version))
        log = since.log
        if "log" in self._tables:
            for chunk in self._read_chunks(row.execution_id, log):
                log = chunk.seq
                yield ProjectionRow("log", {"execution_id": row.execution_id, **chunk_view(chunk)})
        yield ExportedHead(row.execution_id, max(row.head_version, since.version), log)

    def _read_chunks(self, execution_id: str, after: int) -> Iterator[LogChunk]:
        more: int | None = after
        while more is not None:
            page = logs.page(self._rt, execution_id, LogFilter(), more, PAGE)
            yield from page.chunks
            more = page.next

    def _changed_since(self, row: ExecutionRow, since: int) -> Iterator[ProjectionRow]:
        if self._tables & FOLDED:
            yield from self._fold(row, since)
        elif self._tables & _PLAIN:
            for event in self._events(row, since):
                yield from self._rows_of(event)

    def _fold(self, row: ExecutionRow, since: int) -> Iterator[ProjectionRow]:
        """The fold begins at the first event: rows know of earlier ones. What those settled was
        given before."""
        with self._rt.store.read() as tx:
            projection = Projection(row.execution_id, self._rt.plan(tx, row.digest).net)
        for event in self._events(row, 0):
            settled = list(projection.take(event))
            if event.version > since:
                yield from self._rows_of(event)
                yield from settled
        yield from (one for one in projection.rest() if one.values["as_of"] > since)

    def _rows_of(self, event: Event) -> Iterator[ProjectionRow]:
        if self._tables.isdisjoint(_PLAIN):
            return
        view = envelope(event)
        yield ProjectionRow("event_log", view)
        if self._tables & REFERENCES:
            yield from find_reference_rows(event, view["payload"])

    def _events(self, row: ExecutionRow, after: int) -> Iterator[Event]:
        """Behind `after`, up to the version that was the head when the execution was looked at."""
        while after < row.head_version:
            with self._rt.store.read() as tx:
                size = min(BATCH, row.head_version - after)
                batch = tx.events.read(row.execution_id, after=after, limit=size)
            yield from batch
            after = batch[-1].version


def _playbook(row: PlaybookRow) -> ProjectionRow:
    return ProjectionRow(
        "playbook",
        {
            "path": row.path,
            "version": row.version,
            "name": row.name,
            "description": row.description,
            "content_sha256": row.content_sha256,
            "digest": row.digest,
            "created_at": row.created_at.isoformat(),
        },
    )
