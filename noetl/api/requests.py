"""What callers may send in paths, queries and headers, checked by pydantic. Unknown parameters of
a query are refused before (`queries`).

The types that bodies have too stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError
from werkzeug.http import parse_dict_header

from noetl.api.answers import JsonObject
from noetl.api.context import services
from noetl.api.models import ApiModel
from noetl.api.segments import decode_segment
from noetl.errors import BadRequest
from noetl.facts.business_key import OnConflict
from noetl.facts.durations import read_instant
from noetl.usecases.address import resolve
from noetl.usecases.ports import ExecutionStatus, ItemState
from noetl.usecases.where import LONGEST

#: Seconds that a request may wait.
MAX_WAIT_S: Final = 60
#: Versions are kept in 32 bits.
MAX_VERSION: Final = 2**31 - 1
GraphFormat = Literal["mermaid", "dot", "json"]
PlaybookPath = Annotated[
    str, Field(min_length=1, max_length=512, description="`metadata.path` of the playbook")
]
PlaybookVersion = Annotated[int, Field(ge=1, le=MAX_VERSION, description="version; the newest by default")]


def _say_version(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        # One sentence, and not one for each of the two forms.
        told = f"it is a number from 1 to {MAX_VERSION}, or 'latest'"
        raise PydanticCustomError("version", "{told}", {"told": told}) from None


VersionOrLatest = Annotated[PlaybookVersion | Literal["latest"], WrapValidator(_say_version)]
IdempotencyKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=255,
        pattern=r"^[\x20-\x7e]+$",
        description="the same key and request yield the same execution, however often they are sent",
    ),
]
WHERE: Final = "only those of which this is true: `status = 'failed' and error ~ 'timed out'`"
BusinessKey = Annotated[
    str | None,
    Field(
        description="the business key, unique among the open executions of the playbook; by default what "
        "`key` of the playbook makes"
    ),
]
Labels = Annotated[
    JsonObject,
    Field(
        description="what it is told apart by besides, `{team: data}`: names and texts, over "
        "`metadata.labels` of the playbook"
    ),
]
ConflictPolicy = Annotated[
    OnConflict | None,
    Field(
        description="where an open execution has the key: refuse this one (409), answer with that one, or "
        "cancel that one; by default as the playbook says, else `reject`"
    ),
]
Reason = Annotated[str, Field(max_length=1000, description="why; kept in the event")]


class Parameters(ApiModel):
    """Base of queries and headers."""

    model_config = ConfigDict(extra="ignore")
    #: Headers that are meant by parameters that other routes have in their query.
    instead: ClassVar[Mapping[str, str]] = {}

    @classmethod
    @cache
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """As pydantic's, made once: the framework asks for it at every request, where making it
        would take a quarter of the time that a start takes."""
        return super().model_json_schema(*args, **kwargs)


def _resolve(segment: str) -> str:
    # No ValueError: what names no execution is a 404, not a 400.
    return _resolve_given(decode_segment(segment))


def _resolve_given(address: str) -> str:
    here = services()
    return resolve(here.rt, address, partial(here.principal.may, "read"))


#: Handlers are given the id.
ExecutionAddress = Annotated[str, AfterValidator(_resolve)]
#: The same in queries and bodies.
GivenAddress = Annotated[str, AfterValidator(_resolve_given)]


def _read_instant(text: Any) -> datetime:
    try:
        return read_instant(str(text), services().rt.clock())
    except (ValueError, OverflowError):
        raise ValueError("it is an instant: 2026-01-31T12:00:00Z, or -2h for two hours ago") from None


GivenInstant = Annotated[datetime, BeforeValidator(_read_instant)]


class ExecutionPath(ApiModel):
    execution_id: ExecutionAddress = Field(
        description="the execution's id; or its business key, or `<path of the playbook>:<key>`, "
        "percent-encoded: the open execution with that key, else the last one"
    )


class DiffPath(ExecutionPath):
    other: ExecutionAddress = Field(description="the id or the key of the other execution")


class VariablePath(ExecutionPath):
    name: Annotated[str, AfterValidator(decode_segment)] = Field(
        max_length=512, description="a name in ctx, dotted: `a` or `a.b`"
    )


class ResultPath(ApiModel):
    name: str = Field(max_length=200, description="what follows `noetl://results/` in the reference")


class ResultQuery(Parameters):
    offset: int | None = Field(None, ge=0, le=2**53, description="the first item of a list, from 0")
    limit: int = Field(1000, ge=1, le=10_000, description="how many items")
    raw: bool = Field(False, description="the bytes as they were kept")


class CatalogPath(ApiModel):
    path: PlaybookPath


class CredentialPath(ApiModel):
    name: str = Field(max_length=128, description="the credential's name")


class CredentialQuery(Parameters):
    path: str | None = Field(None, max_length=512, description="the one for this path")
    execution: GivenAddress | None = Field(None, max_length=1024, description="the one for this execution")


class VersionQuery(Parameters):
    version: PlaybookVersion | None = None


class FailuresQuery(Parameters):
    where: str | None = Field(None, max_length=LONGEST, description=WHERE)


class ExecutionsQuery(FailuresQuery):
    status: ExecutionStatus | None = Field(None, description="only those in this status")
    path: str | None = Field(None, max_length=512, description="only those of this playbook")
    parent: GivenAddress | None = Field(
        None, max_length=1024, description="only those that this execution (id or key) called"
    )
    source: GivenAddress | None = Field(
        None,
        max_length=1024,
        description="only those that run this execution (id or key) again, or are forks of it",
    )
    key: str | None = Field(None, max_length=200, description="only those with this business key")
    principal: str | None = Field(None, max_length=200, description="only those that this one asked for")
    limit: int = Field(50, ge=1, le=1000, description="how many at most")
    before: str | None = Field(None, max_length=19, description="go on behind this execution id")


class OperationPath(ApiModel):
    operation_id: str = Field(max_length=100, description="the operation's id")


class OperationsQuery(Parameters):
    limit: int = Field(50, ge=1, le=1000, description="how many at most")
    before: str | None = Field(None, max_length=19, description="go on behind this operation id")


class OperationItemsQuery(Parameters):
    state: ItemState | None = Field(None, description="only those in this state")
    limit: int = Field(100, ge=1, le=1000, description="how many at most")
    after: int = Field(-1, ge=-1, le=MAX_VERSION, description="only those behind this position")


class RetryQuery(Parameters):
    dry_run: bool = Field(False, description="answer the plan, and start nothing")
    confirm: bool = Field(False, description="calls that may have had effects may be made again")


class ReportQuery(Parameters):
    resolve: bool = Field(False, description="replace references to large results by the results")


class WaitQuery(Parameters):
    wait: float = Field(
        0,
        ge=0,
        le=MAX_WAIT_S,
        allow_inf_nan=False,
        description="seconds that the answer may wait for news; without news it tells what is so then",
    )
    until: Literal["end", "idle"] = Field(
        "end", description="with `wait`, what ends it: that the execution has ended, or that it is `idle`"
    )


class EventsQuery(WaitQuery):
    after: int = Field(0, ge=0, le=MAX_VERSION, description="only events behind this version")
    limit: int = Field(100, ge=1, le=1000, description="how many at most")
    type: list[str] = Field([], max_length=50, description="only these types; repeat it or use commas")

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(name.strip() for text in self.type for name in text.split(",") if name.strip())


class LogsQuery(Parameters):
    step: str | None = Field(None, max_length=200, description="only what this step printed")
    iteration: int | None = Field(None, ge=0, le=MAX_VERSION, description="only this iteration, from 0")
    attempt: int | None = Field(None, ge=1, le=MAX_VERSION, description="only this attempt of a task, from 1")
    after: int = Field(0, ge=0, le=MAX_VERSION, description="only chunks behind this number")
    limit: int = Field(100, ge=1, le=1000, description="how many at most")
    last: int | None = Field(None, ge=1, le=1000, description="the chunks that hold so many last lines")


class StateQuery(Parameters):
    version: int | None = Field(None, ge=0, le=MAX_VERSION, description="the state as of this version")


class ExplainQuery(Parameters):
    step: str | None = Field(None, max_length=200, description="only this step, and more of it")
    version: int | None = Field(None, ge=0, le=MAX_VERSION, description="as of this version")


class DiffQuery(Parameters):
    limit: int = Field(20, ge=1, le=1000, description="how many differences of each kind at most")


class GraphQuery(Parameters):
    format: GraphFormat = Field("mermaid", description="text for Mermaid or Graphviz, or the net itself")


class StartHeader(Parameters):
    instead: ClassVar[Mapping[str, str]] = {"wait": "Prefer: wait={}"}

    idempotency_key: IdempotencyKey | None = Field(None, alias="Idempotency-Key")
    prefer: str | None = Field(
        None,
        alias="Prefer",
        max_length=1000,
        description="`wait=N` (RFC 7240): answer with the result if it is there within N seconds, at "
        f"most {MAX_WAIT_S}",
    )

    @property
    def wait_s(self) -> int | None:
        """The seconds of `Prefer: wait`, as far as they are granted. Preferences that are not
        understood do not count."""
        wanted = parse_dict_header((self.prefer or "").lower().replace(";", ",")).get("wait") or ""
        if not (wanted.isascii() and wanted.isdigit()) or int(wanted[:9]) == 0:
            return None
        return min(int(wanted[:9]), MAX_WAIT_S)


class PatchHeader(Parameters):
    if_match: str | None = Field(
        None, alias="If-Match", max_length=40, description="version that the execution must be at (an ETag)"
    )

    @property
    def expected_version(self) -> int | None:
        """Raises BadRequest."""
        if self.if_match is None or self.if_match.strip() == "*":
            return None
        text = self.if_match.strip().removeprefix("W/").strip('"')
        if not (text.isascii() and text.isdigit()) or int(text) > MAX_VERSION:
            raise BadRequest(
                f'If-Match is {self.if_match!r}; give the version of the execution, for instance "12".'
            )
        return int(text)


class EventsHeader(Parameters):
    last_event_id: str | None = Field(
        None,
        alias="Last-Event-Id",
        max_length=10,
        pattern="^[0-9]*$",
        description="id of the last event that a stream delivered; wins over `after`",
    )

    def after(self, query: EventsQuery | LogsQuery) -> int:
        """The number that a stream begins behind."""
        return int(self.last_event_id) if self.last_event_id else query.after
