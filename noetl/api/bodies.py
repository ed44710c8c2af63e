"""What callers may send as bodies of requests, checked by pydantic.

Bodies are strict: an unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, RootModel, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from noetl.api.answers import JsonObject
from noetl.api.models import ApiModel
from noetl.api.requests import (
    MAX_VERSION,
    WHERE,
    GivenAddress,
    Reason,
    VersionOrLatest,
)
from noetl.facts.durations import seconds
from noetl.facts.nearest import did_you_mean
from noetl.usecases.fleet.planning import CONCURRENCY, LIMIT, MOST_AT_ONCE, MOST_CHOSEN
from noetl.usecases.ports import OperationKind
from noetl.usecases.signals import LONGEST as LONGEST_NAME
from noetl.usecases.signals import LONGEST_VALUE, SignalRequest
from noetl.usecases.where import LONGEST


class Body(ApiModel):
    """Base of JSON bodies."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        unknown = [key for key in data if key not in known] if isinstance(data, Mapping) else []
        if unknown:
            name = str(unknown[0])[:80]
            near = did_you_mean(name, known) or f" Known are {', '.join(known)}."
            text = f"{name!r} is not known here.{near}"
            raise PydanticCustomError("unknown_key", "{text}", {"text": text.rstrip(".")})
        return data


Deliver = Annotated[
    Literal["one", "all"],
    Field(description="to the oldest that waits for it, or to all that wait for it then"),
]


def _read_duration(value: Any) -> float:
    return seconds(value)


_Duration: TypeAlias = Annotated[
    float,
    BeforeValidator(_read_duration),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]}),
    Field(description="for how long it is kept where nothing waits for it: seconds, `10m`, `2h`"),
]


class SignalBody(Body):
    """What is said besides the name. Two signals with one `id` are one."""

    payload: Any = Field(None, description="any JSON")
    id: str | None = Field(None, min_length=1, max_length=LONGEST_NAME)
    expires: _Duration | None = None
    deliver: Deliver = "one"

    def named(self, name: str) -> SignalRequest:
        """The signal of that name."""
        return SignalRequest(name, self.payload, self.id, self.expires, self.deliver == "all")


class OptionalSignalBody(SignalBody):
    model_config = ConfigDict(openapi_extra={"required": False})  # type: ignore[typeddict-unknown-key]


class CorrelatedSignalBody(SignalBody):
    correlate: str = Field(
        min_length=1, max_length=LONGEST_VALUE, description="the value that is waited for (`correlate`)"
    )


class CatalogBody(Body):
    content: str = Field(min_length=1, description="the playbook's YAML text")
    strict: bool = Field(False, description="refuse it where there are warnings")


class ReasonBody(Body):
    model_config = ConfigDict(openapi_extra={"required": False})  # type: ignore[typeddict-unknown-key]

    reason: Reason = ""


class PauseBody(ReasonBody):
    """What is paused, or resumed: the execution, or a step of it."""

    step: str | None = Field(None, max_length=256)


class CancelBody(ReasonBody):
    """What is cancelled: the execution, or a step of it (`step`, or one run, `step#k`), or one
    iteration of that, or a region."""

    step: str | None = Field(
        None, min_length=1, max_length=200, description="a step, or one run of it: `step#k`"
    )
    iteration: int | None = Field(None, ge=0, le=MAX_VERSION, description="of that step: its index, from 0")
    region: str | None = Field(None, min_length=1, max_length=200, description="a region of the playbook")

    @model_validator(mode="after")
    def _iteration_of_step(self) -> CancelBody:
        if self.iteration is not None and self.step is None:
            raise ValueError("`iteration` belongs to a `step`")
        if self.region is not None and self.step is not None:
            raise ValueError("either a `step` is cancelled, or a `region`")
        return self


class MigrateBody(Body):
    """To which version an execution is migrated: the newest, where nothing is said; with
    `playbook`, YAML text, that is registered."""

    model_config = ConfigDict(openapi_extra={"required": False})  # type: ignore[typeddict-unknown-key]

    version: VersionOrLatest | None = None
    playbook: str | None = Field(None, min_length=1, description="YAML text")
    directories: list[str] = Field(default_factory=list, max_length=8, description="as in a start")

    @model_validator(mode="after")
    def _one_version(self) -> MigrateBody:
        if self.playbook is not None and self.version is not None:
            raise ValueError("the text of a `playbook` is its own version")
        return self


class RetryBody(Body):
    """How an execution is run again. `version` is the one that it ran, where nothing is said; with
    `playbook`, YAML text, that is registered and run."""

    model_config = ConfigDict(openapi_extra={"required": False})  # type: ignore[typeddict-unknown-key]

    from_step: str = Field(
        "",
        alias="from",
        max_length=200,
        description="run this step again, and all that followed from it, whatever is equal; `step#2` is "
        "its second run, its name alone the last one",
    )
    iterations: Literal["failed", "all"] | None = Field(
        None, description="of loops that failed: only those that failed, whatever has changed; or all"
    )
    payload: JsonObject = Field(default_factory=dict, description="merged deeply over what it was given")
    overrides: JsonObject = Field(default_factory=dict, description="merged over the payload")
    version: VersionOrLatest | None = None
    playbook: str | None = Field(None, min_length=1, description="YAML text")
    directories: list[str] = Field(default_factory=list, max_length=8, description="as in a start")

    @model_validator(mode="after")
    def _one_version(self) -> RetryBody:
        if self.playbook is not None and self.version is not None:
            raise ValueError("the text of a `playbook` is its own version")
        return self


class OperationBody(RetryBody):
    """What is done to many executions. All but the first keys say how each of them is run again, as
    for one."""

    model_config = ConfigDict(openapi_extra={"required": True})  # type: ignore[typeddict-unknown-key]

    kind: OperationKind = "retry"
    where: str = Field(min_length=1, max_length=LONGEST, description=WHERE)
    concurrency: int = Field(
        CONCURRENCY, ge=1, le=MOST_AT_ONCE, description="how many are under way at once, at most"
    )
    limit: int = Field(LIMIT, ge=1, le=MOST_CHOSEN, description="how many at most, the newest ones")
    reason: Reason = ""


class ForkBody(Body):
    """From where: the version `at`, or `before` a run of a step."""

    at: int | None = Field(None, ge=0, le=MAX_VERSION, description="a version of the log")
    before: str = Field(
        "", max_length=200, description="before this step ran last; `step#2`: for the second time"
    )
    patch: JsonObject = Field(default_factory=dict, description="dotted names in ctx, and their values there")


class PatchBody(RootModel[JsonObject]):
    """Dotted names in ctx and the values they get."""

    model_config = ConfigDict(defer_build=True)


class ValueBody(Body):
    value: Any = Field(description="any JSON value")


class CredentialBody(Body):
    name: str = Field(description="letters, digits, `-`, `_`, `.` and `/`")
    type: str = Field(description="postgres, http, basic, bearer, api_key, oauth2 or generic")
    data: JsonObject = Field(description="the secret fields; encrypted, never shown again")
    path: str | None = Field(None, max_length=512, description="for playbooks with this path, and below it")
    execution: GivenAddress | None = Field(None, max_length=1024, description="for this execution alone")


class RenderBody(Body):
    template: Any = Field(description="JSON in which texts may hold expressions")
    context: JsonObject = Field(default_factory=dict, description="the names that the template sees")
