"""Secrets, and what gives them: providers, those among them that can do more, and who fetches
tokens. `noetl.usecases.safe` asks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from noetl.facts.json import Json


@dataclass(frozen=True, slots=True)
class Secret:
    """What was opened: a text, or a mapping of fields. `version` where its provider keeps
    versions."""

    value: Json
    version: str | None = None

    def __repr__(self) -> str:
        return f"Secret(version={self.version})"


class Provider(Protocol):
    """Somewhere that secrets are kept. `keep_s`: seconds that a worker may use what it read without
    asking again."""

    keep_s: float

    def read(self, name: str, version: str | None) -> Secret:
        """Raises ToolError, of kind `auth` where the secret cannot be had, `connection` or
        `timeout` where its server does not answer. Messages never quote a value."""


@runtime_checkable
class Inspectable(Protocol):
    """A provider that can tell what it has without reading it, and without a network. No provider
    has to."""

    def has(self, name: str) -> bool:
        """Raises ToolError where the provider gives nothing at all."""


@runtime_checkable
class Asking(Protocol):
    """A provider that can be asked in the name of another credential than its settings'. No
    provider has to."""

    def asking_with(self, credential: Mapping[str, Json]) -> Provider:
        """Raises ToolError where the fields of that credential are of no use."""


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A token that is wanted: from whom (`auth` as tasks write it, with its credential opened), and
    for how long.

    `place` is how messages name it. `ttl` bounds the seconds that a token is used. Without `renew`
    the first token is the only one that `execution_id` gets from a worker.
    """

    place: str
    auth: Mapping[str, Json]
    ttl: float | None
    renew: bool
    execution_id: str


@dataclass(frozen=True, slots=True)
class Sources:
    """Where secrets come from besides the store. `provider` raises ToolError for a name that there
    is not."""

    provider: Callable[[str], Provider]
    token: Callable[[TokenRequest], str]
