"""Secrets inside of a tool call: opened just before it, known to it alone, and out of sight in what
it reports."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never

from noetl.errors import BadRequest, ToolError
from noetl.facts.children import ChildCall
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome
from noetl.facts.secret import MARK, describe_secret, holds_secret, is_secret, replace_markers
from noetl.facts.waits import Wait
from noetl.pipeline.model import Call, Later, Suspension
from noetl.tools.kit.masking import SecretMask, texts_of
from noetl.usecases.credential_types import PUBLIC
from noetl.usecases.safe import Safe
from noetl.usecases.secret_fields import base_name
from noetl.usecases.secrets import Secret

#: Every secret that this process has opened lately: for its log.
_seen: Final = SecretMask(most=20_000)


@dataclass(slots=True)
class CallSecrets:
    """What one call has opened. `versions`: those of its secrets, where their providers keep
    versions."""

    safe: Safe | None
    execution_id: str
    known: Mapping[str, str]
    black: SecretMask = field(default_factory=SecretMask)
    versions: dict[str, str] = field(default_factory=dict)
    #: What is being opened: a secret may be made of others.
    within: list[str] = field(default_factory=list)

    def open_call(self, call: Call) -> Call:
        """`call` with every reference and marker in its configuration and args replaced by the
        secret; the very object where there is none. Raises ToolError."""
        if not (holds_secret(call.config) or holds_secret(call.args)):
            return call
        return replace(call, config=self.values(call.config), args=self.values(call.args))

    def hide(self, secrets: Iterable[str], params: Iterable[str] = ()) -> None:
        """Keeps `secrets` out of what the call reports and the process logs."""
        kept = list(secrets)
        self.black.add(kept, params)
        _seen.add(kept)

    def mask_outcome(self, came: Outcome | Suspension) -> Outcome | Suspension:
        """The outcome of the call without its secrets, as it may be reported."""
        if self.versions and isinstance(came, Outcome):
            came = replace(came, meta={**came.meta, "secret_versions": dict(self.versions)})
        if not self.black:
            return came
        match came:
            case Outcome():
                return self.black.outcome(came)
            case Later():
                return replace(came, checkpoint=self.black.value(came.checkpoint))
            case ChildCall():
                return replace(came, payload=self.black.value(came.payload))
            case Wait():
                # Its tool opens no secrets.
                return came
            case _:
                assert_never(came)

    def values(self, value: Any) -> Any:
        """`value` with secrets in the place of what stands for them. Raises ToolError."""
        match value:
            case str():
                return self._text(value) if MARK in value else value
            case Mapping():
                if is_secret(value):
                    return self._secret(value)
                return {self.values(key): self.values(inner) for key, inner in value.items()}
            case list():
                return [self.values(inner) for inner in value]
            case _:
                return value

    def _text(self, text: str) -> str:
        try:
            return replace_markers(text, self._secret)
        except BadRequest as error:
            raise ToolError("client_error", error.message, type="UnusableSecret") from None

    def _secret(self, reference: JsonMap) -> Json:
        if self.safe is None:
            raise ToolError("auth", "A secret is wanted, and this process opens none.", type="NoSecrets")
        found = self.safe.open(reference, self.known)
        if found.version is not None:
            self.versions[base_name(reference)] = found.version
        value = self._open_inner(describe_secret(reference), found.value)
        if str(reference.get("field") or "").rpartition(".")[2] not in PUBLIC:
            texts = list(texts_of(value))
            # Of an address its token is the secret, however it is reached.
            tokens = [text.rpartition("/")[2] for text in texts] if "callback" in reference else []
            self.hide([*texts, *tokens])
        return value

    def _open_inner(self, name: str, value: Json) -> Json:
        """`value` of the secret `name` with those opened that it refers to."""
        if not holds_secret(value):
            return value
        if name in self.within:
            circle = " → ".join([*self.within[self.within.index(name) :], name])
            raise ToolError("auth", f"Secrets refer to each other in a circle: {circle}.", type="Circle")
        self.within.append(name)
        try:
            opened: Json = self.values(value)
        finally:
            self.within.pop()
        return opened


_current: ContextVar[CallSecrets | None] = ContextVar("noetl_opening", default=None)


@contextmanager
def open_secrets(call: Call, safe: Safe | None) -> Iterator[CallSecrets]:
    """The secrets of `call`, for as long as the block runs in this thread."""
    opened = CallSecrets(safe, call.where.execution_id, call.secrets)
    token = _current.set(opened)
    try:
        yield opened
    finally:
        _current.reset(token)


def credential(safe: Safe, name: str) -> Mapping[str, Json]:
    """The fields of a credential, for the call that this thread is in. Raises ToolError(auth)."""
    now = _current.get()
    data = open_data(safe.credential(name, now.execution_id if now is not None else ""))
    hide(texts_of(data))
    return data


def open_data(data: Mapping[str, Json]) -> Mapping[str, Json]:
    """`data` of a secret with those opened that it refers to, for the call that this thread is in.
    Raises ToolError."""
    now = _current.get()
    return now.values(data) if now is not None and holds_secret(data) else data


def find_secret(safe: Safe, provider: str, name: str, version: str | None) -> Secret:
    """What a provider has under a name, for the call that this thread is in. Raises ToolError."""
    now = _current.get()
    secret = safe.find(provider, name, version, now.execution_id if now is not None else "")
    hide(texts_of(secret.value))
    return secret


def hide(secrets: Iterable[str], params: Iterable[str] = ()) -> None:
    """Keeps `secrets` (and the values of the parameters of addresses called `params`) out of what
    the call that this thread is in reports, and out of the log."""
    now = _current.get()
    if now is not None:
        now.hide(secrets, params)
    else:
        _seen.add(secrets)


def current_mask() -> SecretMask:
    """What hides the secrets of the call that this thread is in."""
    now = _current.get()
    return now.black if now is not None else SecretMask()


class MaskedLogRecord(logging.LogRecord):
    """A record of the log that tells none of the secrets which this process has opened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.exc_info and _seen:
            # Formatters take the text where there is one, and do not look at the exception again.
            self.exc_text = _seen.cut(logging.Formatter().formatException(self.exc_info))

    def getMessage(self) -> str:  # noqa: N802 - the name is that of the library
        message = super().getMessage()
        return _seen.cut(message) if _seen else message


def mask_log() -> None:
    """Keeps opened secrets out of everything that is logged in this process, by any handler."""
    logging.setLogRecordFactory(MaskedLogRecord)
