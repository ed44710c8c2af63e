"""What is asked of a start, and which playbook it finds: read, admitted and keyed, before anything
is written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from noetl.engine.admission import Admitted, admit
from noetl.engine.plan import Plan
from noetl.errors import (
    BadRequest,
    ConfigError,
    NoetlError,
    NotFound,
    PlaybookInvalid,
    PrerequisitesMissing,
    Unavailable,
)
from noetl.facts import json
from noetl.facts.business_key import OnConflict
from noetl.facts.json import JsonMap
from noetl.net.model import Net
from noetl.usecases import catalog
from noetl.usecases.business_keys import WantedKey, render_key, want_key
from noetl.usecases.facets import merge_labels
from noetl.usecases.findings import start_warnings
from noetl.usecases.input_secrets import seal_given
from noetl.usecases.ports import PlaybookRow, Transaction
from noetl.usecases.prerequisites import find_missing
from noetl.usecases.runtime import Runtime
from noetl.usecases.signals import SignalRequest, check_name, check_signal


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What to run and with what. `payload` is merged over the workload, `overrides` over that:
    their keys are those of the workload, or begin with `+` and are added to it."""

    path: str
    version: int | None = None
    payload: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)
    idempotency_key: str | None = None
    #: Of a playbook that came with the request: what counts is then its text, not the version it
    #: got.
    content_sha256: str | None = None
    #: Where relative names of files start: absolute paths on the machine of the workers.
    directories: tuple[str, ...] = ()
    #: The business key, and what becomes of the request where an open execution has it; None: as
    #: the playbook says.
    key: str | None = None
    on_conflict: OnConflict | None = None
    #: What the execution is told in the same transaction: the new one, or the open one that has the
    #: business key.
    signal: SignalRequest | None = None
    #: Labels over those of the playbook: texts, numbers, true or false.
    labels: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundPlaybook:
    """The playbook of a request, with the digest of the net that it begins with today, what it is
    given as the playbook takes it, and what there is to be warned of. The fingerprint is that of
    the request without secrets."""

    row: PlaybookRow
    given: Admitted
    warnings: Sequence[JsonMap]
    fingerprint: str
    key: WantedKey | None
    labels: Mapping[str, str]
    #: Why no new execution of it can begin.
    missing: PrerequisitesMissing | None = None


class PlaybookFinder:
    """Finds the playbooks of the requests that one transaction records, each once."""

    def __init__(self, rt: Runtime, tx: Transaction, now: datetime) -> None:
        self._rt = rt
        self._tx = tx
        self._now = now
        self._known: dict[tuple[str, int | None], PlaybookRow] = {}
        self._missing: dict[str, PrerequisitesMissing | None] = {}

    def find(self, request: StartRequest, new_id: str) -> FoundPlaybook | NoetlError:
        """What the request asks for, or why it cannot be started. Raises Unavailable."""
        try:
            self._rt.check_payload([request.payload, request.overrides], "payload")
            row = self._look_up(request.path, request.version)
            plan = self._rt.plan(self._tx, row.digest)
            labels = merge_labels(plan.net.labels, request.labels)
            given = admit(plan, request.payload, request.overrides)
            warnings = start_warnings(row, plan, request.payload)
            asked = seal_given(self._rt, plan.net, given, "").given
            key = self._find_key(request, row, plan, asked, new_id)
            if request.signal is not None:
                check_signal(self._rt, request.signal)
                check_name(plan.net, request.signal.name)
            fingerprint = _fingerprint(request, plan.net, asked)
            missing = self._find_missing(row, plan)
            return FoundPlaybook(row, given, warnings, fingerprint, key, labels, missing)
        except (BadRequest, NotFound, PlaybookInvalid) as error:
            return error
        except ConfigError as error:
            return Unavailable(f"Playbook {request.path!r} is given a secret, which cannot be kept: {error}")

    def _find_key(
        self, request: StartRequest, row: PlaybookRow, plan: Plan, asked: Admitted, new_id: str
    ) -> WantedKey | None:
        """Raises BadRequest, NotFound."""
        made = None if request.key is not None else render_key(self._rt, plan, asked, new_id, self._now)
        return want_key(plan, row.path, made, request.key, request.on_conflict)

    def _find_missing(self, row: PlaybookRow, plan: Plan) -> PrerequisitesMissing | None:
        name = f"{row.path}#{row.version}"
        if name not in self._missing:
            self._missing[name] = find_missing(self._rt, self._tx, row, plan)
        return self._missing[name]

    def _look_up(self, path: str, version: int | None) -> PlaybookRow:
        """Raises NotFound, PlaybookInvalid."""
        name = (path, version)
        if name not in self._known:
            self._known[name] = catalog.renew(self._rt, self._tx, catalog.find(self._tx, path, version))
        return self._known[name]


def _fingerprint(request: StartRequest, net: Net, asked: Admitted) -> str:
    """Of a request with an idempotency key. `asked` is what is given to declared inputs, without
    secrets: a hash of one could be guessed."""
    if request.idempotency_key is None:
        return ""
    given = [asked.payload, asked.overrides] if net.inputs else [request.payload, request.overrides]
    body: list[object] = [request.path, request.content_sha256 or request.version, *given]
    if request.directories:
        body.append(request.directories)
    if request.key is not None or request.on_conflict is not None:
        body.append({"key": request.key, "on_conflict": request.on_conflict})
    if request.labels:
        body.append({"labels": dict(request.labels)})
    if request.signal is not None:
        body.append({"signal": request.signal.name, "payload": request.signal.payload})
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
