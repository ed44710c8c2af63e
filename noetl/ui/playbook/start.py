"""The form that starts a playbook: made of the inputs that it declares, and read when it comes
back."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from noetl.dsl.read.dump import dump
from noetl.dsl.read.mapping import read_mapping
from noetl.engine.admission import make_invalid
from noetl.errors import BadRequest, Conflict, InputsInvalid, KeyTaken, NoetlError
from noetl.facts.json import Json, JsonMap
from noetl.ui.forms import TICKED, FormField, make_fields_of, read_fields_of
from noetl.ui.plans import ShownPlan, make_plan
from noetl.ui.playbook.look import PlaybookLook
from noetl.ui.playbook.takes import find_defaults
from noetl.ui.site import here
from noetl.usecases.start import StartRequest, start

#: Tells two presses of one button from two starts.
_NONCE: Final = re.compile(r"[\w-]{16,64}", re.ASCII)
_NONCE_BYTES: Final = 15
_PLAN: Final = "plan"


@dataclass(frozen=True)
class StartForm:
    """The form, with what somebody has typed. `faults` are by the names of fields; `refused` says
    what else is wrong, and `taken` is the execution that has the key. `nonce` is sent with it, so
    that a form that is sent twice starts one execution."""

    look: PlaybookLook
    fields: Sequence[FormField]
    sent: Mapping[str, str]
    nonce: str
    faults: Mapping[str, Sequence[str]] = field(default_factory=dict)
    refused: str = ""
    taken: str = ""
    plan: ShownPlan | None = None

    @classmethod
    def read(cls, look: PlaybookLook, sent: Mapping[str, str]) -> Self:
        """The form of the playbook, empty but for its defaults, or with what was `sent`."""
        net = look.net
        fields = [] if net is None else make_fields_of(net.inputs, find_defaults(net), sent or None)
        nonce = sent.get("once", "")
        return cls(look, fields, sent, nonce if _NONCE.fullmatch(nonce) else _draw_nonce())

    @property
    def wants_plan(self) -> bool:
        return self.sent.get("do") == _PLAN

    @property
    def is_free(self) -> bool:
        """Whether any keys may be given, because the playbook declares none."""
        return not self.fields

    @property
    def workload(self) -> str:
        """What a playbook that declares no inputs has by itself, as YAML."""
        net = self.look.net
        return dump(dict(net.workload)) if net is not None and net.workload and self.is_free else ""

    # --- what is asked for -----------------------------------------------------------------------

    def start(self) -> str:
        """Starts it, as the form says. The execution's id; of a form that was sent twice, that of
        the first time. Raises what `usecases.start.start` raises, and TooManyRequests."""
        here().admit_start()
        sent = self.sent
        request = StartRequest(
            self.look.path,
            self.look.row.version,
            self._read_payload(),
            idempotency_key=f"page-{self.nonce}-{self._sum_up()}",
            key=sent.get("key", "").strip() or None,
            labels=_read_labels(sent.get("labels", "")),
        )
        return start(self.look.visitor.rt, request).execution_id

    def with_plan(self) -> Self:
        """The same, with what would run. Raises InputsInvalid, BadRequest."""
        net = self.look.net
        if net is None:
            raise BadRequest("This version of NoETL cannot run this version of the playbook.")
        return replace(self, plan=make_plan(self.look.visitor, net, self._read_payload()))

    def refused_with(self, error: NoetlError) -> Self:
        """The same, with what is wrong, each fault beside its field."""
        known, faults, others = {one.name for one in self.fields}, dict[str, list[str]](), list[str]()
        for fault in error.faults if isinstance(error, InputsInvalid) else ():
            path = str(fault["path"])
            name = re.split(r"[.\[]", path, maxsplit=1)[0]
            said = str(fault["message"]) if path == name else f"{path} {fault['message']}"
            if name in known:
                faults.setdefault(name, []).append(said)
            else:
                others.append(f"{path} {fault['message']}")
        return replace(
            self,
            faults=faults,
            refused="; ".join(others) if faults else error.message,
            taken=error.execution_id if isinstance(error, KeyTaken) else "",
            # What was sent under this one before was something else.
            nonce=_draw_nonce() if isinstance(error, Conflict) else self.nonce,
        )

    def _read_payload(self) -> JsonMap:
        """What was typed, without what still is as it was. Raises InputsInvalid, BadRequest."""
        if self.is_free:
            text = self.sent.get("payload", "").strip()
            return read_mapping(text, "The payload") if text else {}
        assert self.look.net is not None, "it has fields"
        plain = make_fields_of(self.look.net.inputs, find_defaults(self.look.net))
        given = [one for one in plain if not self._is_untouched(one)]
        values, faults = read_fields_of(given, self.sent)
        if faults:
            raise make_invalid(self.look.net, faults)
        return values

    def _is_untouched(self, one: FormField) -> bool:
        """Whether its default stands in the field, or nothing, so that nothing has to be given."""
        text = self.sent.get(one.key, "").replace("\r\n", "\n")
        if one.widget == "checkbox" and one.input.required:
            return False
        return text == (one.value if one.widget != "checkbox" or one.value == TICKED else "")

    def _sum_up(self) -> str:
        """What tells one form from another with the same nonce, without secrets: a sum of one could
        be guessed."""
        hidden = {one.key for one in self.fields if one.input.secret} | {"once", "form_key", "do"}
        plain = {name: text for name, text in sorted(self.sent.items()) if name not in hidden}
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]


def gather(look: PlaybookLook) -> Mapping[str, Any]:
    """What `playbook/start.html` shows."""
    return {"form": StartForm.read(look, {})}


def _draw_nonce() -> str:
    return secrets.token_urlsafe(_NONCE_BYTES)


def _read_labels(text: str) -> dict[str, Json]:
    """`name=value`, one to a line. Raises BadRequest."""
    parts = [line.strip().partition("=") for line in text.splitlines() if line.strip()]
    bare = next((name for name, equals, _ in parts if not equals), None)
    if bare is not None:
        raise BadRequest(f"The label {bare[:80]!r} has no value: write name=value, one to a line.")
    return {name.strip(): value.strip() for name, _, value in parts}
