"""Who asked for something from outside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal, and the request in which it asked: `request_id` stands in the answer to that
    request, and in what is logged of it."""

    principal: str
    request_id: str
