"""Running groups of failures again: first it is shown what that means, then it begins as one
operation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import parse_qsl

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as AnyResponse

from noetl.errors import BadRequest
from noetl.ui.filters import Filters
from noetl.ui.fleet.operations import lead_to
from noetl.ui.site import Visitor, here, show
from noetl.usecases.fleet import operations, planning
from noetl.usecases.fleet.planning import CONCURRENCY, LIMIT, MOST_AT_ONCE, MOST_CHOSEN, FleetRequest
from noetl.usecases.retry import NEWEST, RetryRequest

#: Groups that are chosen at once.
MOST: Final = 50
#: Under which version each runs again, as the form has it, and in words.
VERSIONS: Final[Mapping[str, str]] = {"": "the one that it ran", "newest": "the newest one"}
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{12}")
_FAILED: Final = "status in ('failed', 'partial')"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the form says, as text. `query` is the address of the groups that are chosen from."""

    fingerprints: Sequence[str]
    query: str
    version: str
    from_step: str
    concurrency: str
    limit: str
    reason: str
    confirmed: bool

    @classmethod
    def read(cls, sent: MultiDict[str, str]) -> Self:
        """Raises BadRequest where no group was chosen, or too many."""
        only = sent.get("only")
        chosen = [only] if only else list(dict.fromkeys(sent.getlist("id")))
        if not chosen:
            raise BadRequest("No failure was chosen: mark those to retry, then press the button again.")
        if len(chosen) > MOST or not all(map(_FINGERPRINT.fullmatch, chosen)):
            raise BadRequest(f"Up to {MOST} groups of failures are retried at once, by their fingerprints.")
        texts = {name: sent.get(name, "").strip() for name in ("query", "version", "from_step", "reason")}
        return cls(
            chosen,
            concurrency=sent.get("concurrency", str(CONCURRENCY)),
            limit=sent.get("limit", str(LIMIT)),
            confirmed=sent.get("confirmed") == "yes",
            **texts,
        )

    def as_request(self, visitor: Visitor) -> FleetRequest:
        """Raises BadRequest for what cannot be meant."""
        if self.version not in VERSIONS:
            raise BadRequest(f"{self.version[:40]!r} is no version: {' or '.join(VERSIONS.values())}.")
        how = RetryRequest(
            "", self.from_step, version=NEWEST if self.version else None, confirmed=self.confirmed
        )
        return FleetRequest(
            self.as_where(),
            how,
            _read_count("at once", self.concurrency, MOST_AT_ONCE),
            _read_count("at most", self.limit, MOST_CHOSEN),
            visitor.principal.reach("operate"),
            self.reason,
        )

    def as_where(self) -> str:
        """Which executions are meant: those of the groups, as far as filters let them through."""
        filters = Filters.read(MultiDict(parse_qsl(self.query)))
        named = ", ".join(f"'{one}'" for one in self.fingerprints)
        parts = [f"fingerprint in ({named})", "" if filters.status else _FAILED]
        if given := filters.as_where():
            parts.append(f"({given})" if filters.where else given)
        return " and ".join(filter(None, parts))


def retry_groups() -> AnyResponse:
    """Asks whether that is meant, with the plan for all of them, or begins the operation and shows
    it.

    Raises BadRequest where nothing is meant, and Conflict where calls that may have had effects
    would be made again and the form does not say that they may.
    """
    visitor, wanted = here().find_visitor(), Wanted.read(request.form)
    asked = wanted.as_request(visitor)
    if request.form.get("sure") == "yes":
        return lead_to(operations.begin(visitor.rt, asked).row.operation_id)
    plan = planning.plan(visitor.rt, asked)
    return show(
        "fleet/plan.html",
        plan=plan,
        wanted=wanted,
        where=asked.where,
        versions=VERSIONS,
        most=(MOST_AT_ONCE, MOST_CHOSEN),
    )


def _read_count(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
        raise BadRequest(f"How many {name}? {text[:40]!r} is no number from 1 to {most:,}.")
    return int(text)
