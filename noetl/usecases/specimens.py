"""Specimens: executions that leave one database as a file, and enter another to be looked at.

A specimen has its events, its net and, as far as they are not too large, what its tasks printed and
the results that events refer to. It has no commands, timers or secrets, owes no turn, and nothing
is appended to it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from noetl import __version__
from noetl.engine.evolve import replay
from noetl.engine.state import initial_state
from noetl.errors import BadRequest, Conflict, NoetlError, NotFound, Unavailable
from noetl.facts import json
from noetl.facts.events import Event, Requested
from noetl.facts.json import Json, JsonMap
from noetl.facts.logs import LogChunk, LogFilter
from noetl.facts.reference import find_references
from noetl.net.codec import from_json
from noetl.usecases import logs, moment, specimen_file
from noetl.usecases.facets import write_facets, write_inputs
from noetl.usecases.ports import ExecutionRow, PlaybookRow, Results, Transaction
from noetl.usecases.results import is_value
from noetl.usecases.runtime import Runtime
from noetl.usecases.specimen_chain import write
from noetl.usecases.specimen_file import Header, KeptResult, Specimen
from noetl.usecases.views import chunk_view, envelope

#: Bytes of one result, and of all together, that a file takes along.
LARGEST_RESULT: Final = 4 << 20
ALL_RESULTS: Final = 16 << 20
#: Bytes of what tasks printed that a file takes along.
ALL_PRINTED: Final = 4 << 20
#: Events that are read at once.
_PAGE: Final = 1000


# --- out ------------------------------------------------------------------------------------------


def export(rt: Runtime, execution_id: str) -> Iterator[str]:
    """The lines of the file of an execution, as it is now. Raises NotFound, at the first line."""
    return write(_parts(rt, execution_id))


def _parts(rt: Runtime, execution_id: str) -> Iterator[JsonMap]:
    with rt.store.read() as tx:
        row = moment.find(tx, execution_id)
        net = tx.nets.get(row.digest)
        playbook = tx.playbooks.get(row.path, row.playbook_version) if row.imported_at is None else None
    if net is None:
        raise NotFound(f"The net {row.digest} of execution {execution_id} is not in the database any more.")
    yield specimen_file.head(_header(rt, row))
    yield {"playbook": _playbook(playbook)}
    yield {"net": net}
    results = _ResultParts(rt.results)
    for event in _events(rt, row):
        body = envelope(event)
        results.note(body["payload"])
        yield {"event": body}
    yield from _printed(rt, execution_id, results.left_out)
    yield from results.parts()
    yield {"end": {"events": row.head_version, "results": results.count, "left_out": results.left_out}}


def _header(rt: Runtime, row: ExecutionRow) -> Header:
    said = {name: getattr(row, name) for name in Header.model_fields if hasattr(row, name)}
    more = {"events": row.head_version, "exported_at": rt.clock(), "noetl": __version__}
    return Header.model_validate({**said, **more})


def _playbook(row: PlaybookRow | None) -> JsonMap | None:
    return None if row is None else {"path": row.path, "version": row.version, "content": row.content}


def _events(rt: Runtime, row: ExecutionRow) -> Iterator[Event]:
    """Those that there were when `row` was read, a page at a time."""
    after = 0
    while after < row.head_version:
        with rt.store.read() as tx:
            page = tx.events.read(row.execution_id, after, min(_PAGE, row.head_version - after))
        yield from page
        after = page[-1].version


def _printed(rt: Runtime, execution_id: str, left_out: list[JsonMap]) -> Iterator[JsonMap]:
    """What its tasks printed, from the beginning on, as far as it is not too much."""
    bytes_left = ALL_PRINTED
    for chunk in _chunks(rt, execution_id):
        bytes_left -= len(chunk.text.encode("utf-8", "replace"))
        if bytes_left < 0:
            why = f"Tasks printed more than the {ALL_PRINTED} bytes that a file takes."
            left_out.append({"ref": f"printed from chunk {chunk.seq} on", "why": why})
            return
        yield {"printed": chunk_view(chunk)}


def _chunks(rt: Runtime, execution_id: str) -> Iterator[LogChunk]:
    after: int | None = 0
    while after is not None:
        page = logs.page(rt, execution_id, LogFilter(), after)
        yield from page.chunks
        after = page.next


@dataclass(slots=True)
class _ResultParts:
    """The objects that references name, and those that stand in them, each once."""

    results: Results
    count: int = 0
    left_out: list[JsonMap] = field(default_factory=list)
    _bytes: int = 0
    _known: dict[str, JsonMap] = field(default_factory=dict)
    _waiting: list[JsonMap] = field(default_factory=list)

    def note(self, value: Json) -> None:
        """Remembers the references in `value`."""
        for reference in find_references(value):
            if self._known.setdefault(reference["ref"], reference) is reference:
                self._waiting.append(reference)

    def parts(self) -> Iterator[JsonMap]:
        while self._waiting:
            reference = self._waiting.pop(0)
            part = self._part(reference)
            if part is not None:
                self.count += 1
                yield part

    def _part(self, reference: JsonMap) -> JsonMap | None:
        ref: str = reference["ref"]
        try:
            with self.results.file(reference) as path:
                content = self._read(ref, path)
        except BadRequest:
            return None  # data that only looks like a reference
        except (NotFound, Unavailable) as error:
            self._leave_out(ref, error.message)
            return None
        if content is None:
            return None
        if is_value(reference):
            self.note(json.loads(content))
        return specimen_file.result_part(ref, _content_type(reference), content)

    def _read(self, ref: str, path: Path) -> bytes | None:
        size = path.stat().st_size
        if size > LARGEST_RESULT:
            self._leave_out(ref, f"It has {size} bytes, more than {LARGEST_RESULT}.")
            return None
        if self._bytes + size > ALL_RESULTS:
            self._leave_out(ref, f"All results of a file have {ALL_RESULTS} bytes at the most.")
            return None
        self._bytes += size
        return path.read_bytes()

    def _leave_out(self, ref: str, why: str) -> None:
        self.left_out.append({"ref": ref, "why": why})


def _content_type(reference: JsonMap) -> str:
    meta = reference.get("meta")
    said = meta.get("content_type") if isinstance(meta, dict) else None
    return said if isinstance(said, str) else "application/json"


# --- in -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Imported:
    """A specimen as it is here. `is_new`: it was not here before. `results` counts the objects of
    its file, `left_out` those that the file does not have."""

    row: ExecutionRow
    is_new: bool
    results: int
    left_out: int


def check(rt: Runtime, lines: Iterable[bytes]) -> Specimen:
    """The specimen in a file, which could be kept; nothing is written. Raises BadRequest that names
    what is wrong with it."""
    specimen = specimen_file.read(lines)
    with rt.store.read() as tx:
        _check(tx, specimen)
    return specimen


def keep(rt: Runtime, specimen: Specimen) -> Imported:
    """Makes a specimen that was checked an execution of this database, or finds that it is one.
    Raises Conflict where another execution has its id."""
    execution_id = specimen.header.execution_id
    with rt.store.begin() as tx:
        events = tx.events.decode(specimen.events)
        here = tx.executions.lock(execution_id)
        if here is None:
            _create(rt, tx, specimen, events)
            rt.record(tx, "execution.imported", execution_id)
        else:
            _refuse_other(here, specimen, events, tx.events.read(execution_id))
    # Behind the commit: what fails here is made up for by importing the file once more.
    for result in specimen.results:
        _keep_result(rt.results, result)
    with rt.store.read() as tx:
        row = moment.find(tx, execution_id)
    return Imported(row, here is None, len(specimen.results), len(specimen.left_out))


def _check(tx: Transaction, specimen: Specimen) -> None:
    """Raises BadRequest for a net that cannot be read, and for events that cannot be folded."""
    try:
        from_json(specimen.net)
    except NoetlError as error:
        raise BadRequest(error.message) from error
    state = initial_state(specimen.header.execution_id)
    for event in tx.events.decode(specimen.events):
        try:
            state = replay(state, [event])
        # Whoever can make a file can give it right hashes: its facts may contradict each other.
        except (NoetlError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise BadRequest(
                f"Event {event.version} ({event.fact.type}) does not fit those before it: {error!r}."
            ) from error


def _create(rt: Runtime, tx: Transaction, specimen: Specimen, events: Sequence[Event]) -> None:
    header, caller = specimen.header, events[0].draft.caller
    request = events[0].fact
    assert isinstance(request, Requested), "every log begins with it"
    tx.nets.put(header.digest, specimen.net)
    tx.executions.create(
        ExecutionRow(
            execution_id=header.execution_id,
            path=header.path,
            playbook_version=header.playbook_version,
            digest=header.digest,
            status=header.status,
            head_version=0,
            # It owes no turn, at any version.
            decided_version=header.events,
            created_at=header.created_at,
            updated_at=header.updated_at,
            ended_at=header.ended_at,
            error=header.error,
            parent_id=header.parent_id,
            errors_passed_over=header.errors_passed_over,
            warnings_count=header.warnings_count,
            imported_at=rt.clock(),
            key=header.key,
            principal=None if caller is None else caller.principal,
            labels=write_facets(request.labels),
            inputs=write_inputs(from_json(specimen.net), request),
        )
    )
    tx.events.restore(header.execution_id, events, header.updated_at)
    if specimen.printed:
        tx.logs.add(header.execution_id, specimen.printed)


def _refuse_other(
    here: ExecutionRow, specimen: Specimen, events: Sequence[Event], known: Sequence[Event]
) -> None:
    """Raises Conflict where what is here is not what the file holds."""
    different = next((one.version for one, other in zip(events, known, strict=False) if one != other), None)
    if different is not None:
        raise Conflict(
            f"Execution {here.execution_id} is here already, and its event {different} is another one."
        )
    if len(events) != len(known) or here.digest != specimen.header.digest:
        raise Conflict(
            f"Execution {here.execution_id} is here already, with {len(known)} events where the file has "
            f"{len(events)}."
        )


def _keep_result(results: Results, result: KeptResult) -> None:
    """Puts an object where its reference finds it."""
    with tempfile.NamedTemporaryFile(prefix="noetl-specimen-") as file:
        file.write(result.content)
        file.flush()
        results.put_file(Path(file.name), result.content_type, result.keep)
