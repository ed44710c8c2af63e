"""The file of an exported execution: JSON lines, each with a hash that covers all lines before it.

    {format, version, execution_id, …, hash}      what it is of: `Header`
    {playbook: {path, version, content} | null, hash}
    {net: {…}, hash}                               the compiled playbook
    {event: {…}, hash}                             as `noetl.usecases.views.envelope`, one each
    {printed: {…}, hash}                           as `noetl.usecases.views.chunk_view`, one each
    {result: {ref, content_type, base64}, hash}    what events refer to
    {end: {events, results, left_out}, hash}

Pure: lines in, parts out. What the hashes are is said in `noetl.usecases.specimen_chain`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from noetl.errors import BadRequest
from noetl.facts.json import Json, JsonMap
from noetl.facts.logs import LogChunk, LogPosition, Stream
from noetl.facts.reference import Retention
from noetl.net.codec import digest_of
from noetl.usecases.ports import ExecutionStatus
from noetl.usecases.specimen_chain import FORMAT, PARTS, VERSION, name_of, read_linked

_REF: Final = re.compile(r"noetl://[^/]+/(?P<place>.+)/(?P<sha256>[0-9a-f]{64})\.[a-z]+")
#: Identifiers and versions as databases keep them.
_MOST_ID: Final = 2**63 - 1
_Id = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,18})$")]
_Number = Annotated[int, Field(ge=0, lt=2**31)]

M = TypeVar("M", bound=BaseModel)


class _Part(BaseModel):
    """Base of what lines hold. Later versions may say more."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class Header(_Part):
    """Whose file it is: the execution's row, and when it was exported."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=False)

    execution_id: _Id
    path: str
    playbook_version: _Number
    digest: str
    status: ExecutionStatus
    #: How many there are in the file: all that there were.
    events: Annotated[int, Field(ge=1, lt=2**31)]
    created_at: AwareDatetime
    updated_at: AwareDatetime
    ended_at: AwareDatetime | None
    parent_id: _Id | None
    error: dict[str, Any] | None
    errors_passed_over: _Number
    warnings_count: _Number
    #: Its business key. Files of earlier versions say nothing of one.
    key: str | None = None
    exported_at: AwareDatetime
    #: The version of NoETL that wrote it.
    noetl: str


class _Playbook(_Part):
    path: str
    version: _Number
    content: str


class _Envelope(_Part):
    """An event, as far as it can be told before its payload is read."""

    execution_id: str
    version: _Number
    type: str
    schema_: _Number = Field(alias="schema")
    step: str | None
    step_run_id: str | None
    iteration: _Number | None
    attempt: _Number | None
    source: Literal["server", "worker", "client"]
    payload: dict[str, Any]
    recorded_at: str
    duration_ms: float | None
    dedup_key: str | None


class _Printed(_Part):
    """A chunk of what a task printed."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=False)

    step: str
    run_id: str
    iteration: _Number | None
    task: str
    attempt: _Number
    delivery: _Number
    stream: Stream
    start: Annotated[int, Field(ge=0, le=_MOST_ID)]
    text: str
    recorded_at: AwareDatetime

    def chunk(self, execution_id: str) -> LogChunk:
        place = LogPosition(
            execution_id, self.step, self.run_id, self.iteration, self.task, self.attempt, self.delivery
        )
        return LogChunk(place, self.stream, self.start, self.text, self.recorded_at)


class _Result(_Part):
    ref: str
    content_type: str
    base64: str


class _End(_Part):
    left_out: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class KeptResult:
    """The bytes of an object of a result store, and for whom they were kept."""

    ref: str
    content_type: str
    content: bytes
    keep: Retention


@dataclass(frozen=True, slots=True)
class Specimen:
    """A file that holds together: its chain, its versions, its net's digest and its objects were
    checked. `left_out` is what it does not have: references to results, or what was printed, as
    `{ref, why}`."""

    header: Header
    playbook: JsonMap | None
    net: JsonMap
    events: Sequence[JsonMap]
    printed: Sequence[LogChunk]
    results: Sequence[KeptResult]
    left_out: Sequence[JsonMap]


def head(header: Header) -> JsonMap:
    """The first part of a file."""
    return {"format": FORMAT, "version": VERSION, **header.model_dump(mode="json")}


def result_part(ref: str, content_type: str, content: bytes) -> JsonMap:
    """The part of an object."""
    said = {"ref": ref, "content_type": content_type, "base64": base64.b64encode(content).decode()}
    return {"result": said}


def read(lines: Iterable[bytes]) -> Specimen:
    """The specimen that a file holds. Raises BadRequest that names the first line at fault."""
    parts = read_linked(lines)
    first = next(parts, None)
    if first is None:
        raise BadRequest("The file is empty: `noetl execution export ID` writes one.")
    found = _Reader(_header(first[1]))
    for number, part in parts:
        found.take(number, part)
    return found.specimen()


def _header(part: JsonMap) -> Header:
    header = _validate(Header, 1, part)
    if int(header.execution_id) > _MOST_ID:
        raise BadRequest(f"Line 1: {header.execution_id} is no id of an execution.")
    return header


def _validate(model: type[M], number: int, part: Json) -> M:
    try:
        return model.model_validate(part)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"])) or "it"
        raise BadRequest(f"Line {number} cannot be read: `{place}`: {fault['msg']}.") from None


@dataclass(slots=True)
class _Reader:
    """Takes the parts behind the header one by one."""

    header: Header
    kind: str = ""
    last: int = 1
    playbook: JsonMap | None = None
    net: JsonMap | None = None
    events: list[JsonMap] = field(default_factory=list)
    printed: list[LogChunk] = field(default_factory=list)
    results: list[KeptResult] = field(default_factory=list)
    end: _End | None = None

    def take(self, number: int, part: JsonMap) -> None:
        """Raises BadRequest for a part that does not belong there."""
        kind = next(iter(part), "")
        many = kind in ("event", "printed", "result") and kind == self.kind
        if len(part) != 1 or kind not in PARTS or not (many or self._is_behind(kind)):
            raise BadRequest(
                f"Line {number}{name_of(part)} does not belong there: behind its header a file has "
                f"{', '.join(PARTS)}, in this order."
            )
        self.kind, self.last = kind, number
        self._take(number, kind, part[kind])

    def _is_behind(self, kind: str) -> bool:
        return not self.kind or PARTS.index(kind) > PARTS.index(self.kind)

    def _take(self, number: int, kind: str, said: Json) -> None:
        match kind:
            case "playbook":
                self.playbook = said if said is None else _validate(_Playbook, number, said).model_dump()
            case "net":
                self.net = self._net(number, said)
            case "event":
                self.events.append(self._event(number, said))
            case "printed":
                self.printed.append(_validate(_Printed, number, said).chunk(self.header.execution_id))
            case "result":
                self.results.append(_result(number, said))
            case _:
                self.end = _validate(_End, number, said)

    def _net(self, number: int, said: Json) -> JsonMap:
        if not isinstance(said, Mapping) or digest_of(said) != self.header.digest:
            raise BadRequest(f"Line {number}: the net is not the one that the header names by its digest.")
        return said

    def _event(self, number: int, said: Json) -> JsonMap:
        event = _validate(_Envelope, number, said)
        expected = len(self.events) + 1
        if event.version != expected:
            raise BadRequest(f"Line {number} is event {event.version}, where event {expected} is due.")
        if event.execution_id != self.header.execution_id:
            raise BadRequest(f"Line {number} (event {event.version}) is of another execution.")
        whole: JsonMap = said
        return whole

    def specimen(self) -> Specimen:
        """What was taken. Raises BadRequest where something is missing."""
        if self.end is None:
            raise BadRequest(
                f"The file ends behind line {self.last}, before its end: it is cut off. Export the execution "
                "again."
            )
        if self.net is None:
            raise BadRequest("The file has no net: nothing says what its events are about.")
        if len(self.events) != self.header.events:
            raise BadRequest(
                f"The file holds {len(self.events)} events, and its header says {self.header.events}."
            )
        taken = self.events, self.printed, self.results
        return Specimen(self.header, self.playbook, self.net, *taken, self.end.left_out)


def _result(number: int, said: Json) -> KeptResult:
    result = _validate(_Result, number, said)
    name = _REF.fullmatch(result.ref)
    keep = Retention.of_place(name["place"]) if name is not None else None
    try:
        content = base64.b64decode(result.base64, validate=True)
    except ValueError:
        content = b""
    if name is None or keep is None or hashlib.sha256(content).hexdigest() != name["sha256"]:
        raise BadRequest(f"Line {number}: the result {result.ref[:200]} is not what its name says.")
    return KeptResult(result.ref, result.content_type, content, keep)
