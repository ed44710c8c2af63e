"""What bounds how much runs at once, how often something begins, and who comes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from noetl.facts.json import Json
from noetl.facts.limits import OnFull

#: A JSON value that may hold expressions.
_Template: TypeAlias = Json


@dataclass(frozen=True, slots=True)
class Concurrency:
    """At most `limit` of those with the same `key` run at once. `key` None: that of the place."""

    limit: _Template
    key: _Template = None
    on_full: OnFull = "wait"


@dataclass(frozen=True, slots=True)
class StartRate:
    """At most `limit` of those with the same `key` begin in any `per`, a time."""

    limit: _Template
    per: _Template
    key: _Template = None


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Of a step or of a playbook. `priority`, from 0 to 9, which comes first; None: as around
    it."""

    concurrency: tuple[Concurrency, ...] = ()
    rate: StartRate | None = None
    priority: int | None = None

    @property
    def asks(self) -> bool:
        """Whether anything has to be asked for."""
        return bool(self.concurrency) or self.rate is not None
