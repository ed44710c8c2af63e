"""Every error that NoETL raises on purpose, in one tree.

    NoetlError
    ├── PlaybookInvalid        the document has problems; carries all of them
    ├── TemplateError          an expression could not be evaluated
    │   ├── TemplateLimit      ... because it asked for too much time or memory
    │   └── TemplateSecurity   ... because it reached for something forbidden
    ├── NotFound               the thing named does not exist (404)
    ├── Conflict               the thing named is in another state (409)
    │   ├── VersionConflict    the stream moved on since it was read; try again
    │   └── KeyTaken           an open execution of the playbook has the business key
    ├── BadRequest             the caller's input cannot be used (400)
    │   ├── InputsInvalid      ... because a playbook declares others; carries all faults (422)
    │   ├── PrerequisitesMissing ... because what a playbook names is not there; carries all (422)
    │   └── LimitExceeded      ... because it is too large (413)
    ├── Unauthenticated        who asks has not said who it is, or not so that it is believed (401)
    ├── Forbidden              who asks may not do that (403)
    ├── TooManyRequests        not now: a limit of requests, or too much waits already (429)
    ├── ToolError              a tool call failed; becomes the error of its outcome
    ├── Unavailable            a server that is needed does not answer (503)
    ├── UnknownPurpose         a command is for something that this release cannot do
    └── ConfigError            a setting has a value that cannot be used

Messages are one sentence that names the place, the cause and, where there is one, the next move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class NoetlError(Exception):
    """Base of all. `str(error)` is fit for people; attributes are fit for programs."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def tell_cause(error: Exception) -> str:
    """`error` for people, in sentences: what was not raised on purpose is a defect."""
    if isinstance(error, NoetlError):
        return str(error)
    return (
        f"NoETL has a defect here: {type(error).__name__}: {error}. "
        "Set NOETL_LOG_LEVEL=DEBUG for its traceback, and report it."
    )


class PlaybookInvalid(NoetlError):
    """The document cannot be run. `problems` holds every fault found (see `noetl.dsl.problems`)."""

    def __init__(self, message: str, problems: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class TemplateError(NoetlError):
    """An expression failed. `source` is its text, `line` the line within that text (from 1)."""

    def __init__(self, message: str, source: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.source = source
        self.line = line


class TemplateLimit(TemplateError):
    """An expression asked for more steps, memory or output than is allowed."""


class TemplateSecurity(TemplateError):
    """An expression reached for an attribute or a name outside of the sandbox."""


class NotFound(NoetlError):
    """What was named does not exist."""


class Conflict(NoetlError):
    """What was named exists, but not in the state that the call needs."""


class VersionConflict(Conflict):
    """The stream was appended to since it was read. Read again and retry."""

    def __init__(self, execution_id: str, expected: int, actual: int) -> None:
        super().__init__(f"Execution {execution_id} is at version {actual}, not {expected}; read it again.")
        self.execution_id = execution_id
        self.expected = expected
        self.actual = actual


class KeyTaken(Conflict):
    """An open execution of the playbook, `execution_id`, has the business key."""

    def __init__(self, message: str, execution_id: str) -> None:
        super().__init__(message)
        self.execution_id = execution_id


class BadRequest(NoetlError):
    """The caller's input cannot be used as it is."""


class InputsInvalid(BadRequest):
    """What is given is not what a playbook declares. `faults` holds all that is wrong, as `{path,
    message}`."""

    def __init__(self, message: str, faults: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class PrerequisitesMissing(BadRequest):
    """Credentials or playbooks that a playbook names are not there. `faults` holds each, as `{kind,
    name, version, step, entry, file, line, column, message}`."""

    def __init__(self, message: str, faults: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class LimitExceeded(BadRequest):
    """The caller's input is larger than a limit allows."""


class Unauthenticated(NoetlError):
    """Who asks has to say who it is, and what it said is not so."""


class Forbidden(NoetlError):
    """Who asks may not do that."""


class TooManyRequests(NoetlError):
    """The caller asks too much, or at a bad time. Try again after so many seconds."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ToolError(NoetlError):
    """A tool call failed. Becomes `outcome.error` with the same fields.

    `kind` is one of `noetl.facts.outcome.ERROR_KINDS`; `extras` are merged into the outcome
    (for instance `{"http": {"status": 503}}`); `line` is a line of the task's code, from 1.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retryable: bool = False,
        type: str = "",
        line: int | None = None,
        traceback: str | None = None,
        result: Any = None,
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable
        self.type = type
        self.line = line
        self.traceback = traceback
        self.result = result
        self.extras = dict(extras or {})


class Unavailable(NoetlError):
    """A server that is needed (database, broker, API) does not answer."""


class UnknownPurpose(NoetlError):
    """A command was written for a `purpose` that this release has no handler of."""

    def __init__(self, command_id: str, purpose: str) -> None:
        super().__init__(
            f"Command {command_id} has the purpose {purpose!r}, which this release does not know; a "
            "later release "
            "wrote it, so let this process run that one too."
        )
        self.purpose = purpose


class ConfigError(NoetlError):
    """A setting has a value that cannot be used."""
