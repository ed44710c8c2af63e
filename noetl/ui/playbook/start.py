"""The form that starts a playbook: made of the inputs that it declares, and read when it comes
back."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from noetl.dsl.read.dump import dump
from noetl.dsl.read.mapping import read_mapping
from noetl.engine.admission import admit, make_invalid
from noetl.engine.plan import Plan
from noetl.errors import BadRequest, Conflict, InputsInvalid, KeyTaken, NoetlError
from noetl.facts import json as canonical
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.net.input_values import InputFault
from noetl.net.model import Net
from noetl.ui.forms import (
    TICKED,
    FormField,
    find_field,
    find_text,
    join_faults,
    make_fields_of,
    read_fields_of,
)
from noetl.ui.plans import ShownPlan, make_plan
from noetl.ui.playbook.copied import CopiedInputs, copy_inputs
from noetl.ui.playbook.look import PlaybookLook
from noetl.ui.playbook.takes import find_computed, find_defaults, find_free_defaults
from noetl.ui.site import here
from noetl.usecases.business_keys import check_key
from noetl.usecases.facets import merge_labels
from noetl.usecases.start import StartRequest, start

#: Tells two presses of one button from two starts.
_NONCE: Final = re.compile(r"[\w-]{16,64}", re.ASCII)
_NONCE_BYTES: Final = 15
_PLAN: Final = "plan"


@dataclass(frozen=True)
class StartForm:
    """The form, with what somebody has typed. `faults` are by the names of inputs, `faults_beside`
    by those of the other fields; `refused` says what else is wrong, and `taken` is the execution
    that has the key. `nonce` is sent with it, so that a form that is sent twice starts one
    execution. `copied` are inputs of an earlier one, with which it begins."""

    look: PlaybookLook
    fields: Sequence[FormField]
    sent: Mapping[str, str]
    nonce: str
    faults: Mapping[str, Sequence[str]] = field(default_factory=dict)
    faults_beside: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""
    taken: str = ""
    plan: ShownPlan | None = None
    copied: CopiedInputs | None = None

    @classmethod
    def read(cls, look: PlaybookLook, sent: Mapping[str, str]) -> Self:
        """The form of the playbook, empty but for its defaults, or with what was `sent`."""
        net = look.net
        fields = [] if net is None else make_fields_of(net.inputs, find_defaults(net), sent or None)
        nonce = sent.get("once", "")
        return cls(look, fields, sent, nonce if _NONCE.fullmatch(nonce) else _draw_nonce())

    @classmethod
    def copy(cls, look: PlaybookLook, copied: CopiedInputs) -> Self:
        """The form with the inputs of an earlier execution over the defaults."""
        inputs = () if look.net is None else look.net.inputs
        values = deep_merge({} if look.net is None else find_defaults(look.net), copied.values)
        lost = [one for one in copied.values if inputs and one not in {known.name for known in inputs}]
        copied = replace(copied, left_out=[*copied.left_out, *lost])
        return cls(look, make_fields_of(inputs, values), {}, _draw_nonce(), copied=copied)

    @property
    def wants_plan(self) -> bool:
        return self.sent.get("do") == _PLAN

    @property
    def is_free(self) -> bool:
        """Whether any keys may be given, because the playbook declares none."""
        return not self.fields

    @property
    def payload(self) -> str:
        """The text of a playbook that declares no inputs: what was typed, or its defaults, over
        which an earlier execution's inputs lie, as YAML."""
        if "payload" in self.sent or self.look.net is None:
            return self.sent.get("payload", "")
        copied = {} if self.copied is None else self.copied.values
        values = deep_merge(find_free_defaults(self.look.net), copied)
        return dump(values) if values else ""

    @property
    def computed(self) -> Mapping[str, str]:
        """The defaults that are known once an execution has begun, as the playbook has them."""
        return {} if self.look.net is None else find_computed(self.look.net)

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
        beside = self._find_faults_beside()
        for fault in error.faults if isinstance(error, InputsInvalid) else ():
            path = str(fault["path"])
            name = find_field(path)
            said = str(fault["message"]) if path == name else f"{path} {fault['message']}"
            if name in known:
                faults.setdefault(name, []).append(said)
            else:
                others.append(f"{path} {fault['message']}")
        return replace(
            self,
            faults=faults,
            faults_beside=beside,
            refused="; ".join(others if faults or error.message in beside.values() else [error.message]),
            taken=error.execution_id if isinstance(error, KeyTaken) else "",
            # What was sent under this one before was something else.
            nonce=_draw_nonce() if isinstance(error, Conflict) else self.nonce,
        )

    def _find_faults_beside(self) -> dict[str, str]:
        """What is wrong with fields that are no inputs, all at once."""
        found = dict[str, str]()
        for name, read in _READERS.items():
            try:
                if text := self.sent.get(name, "").strip():
                    read(text)
            except BadRequest as error:
                found[name] = error.message
        return found

    def _read_payload(self) -> JsonMap:
        """What was typed, without what still is as it was. Raises InputsInvalid, BadRequest."""
        net = self.look.net
        if self.is_free:
            values = _read_free(self.sent.get("payload", ""))
            known = {} if net is None else find_free_defaults(net)
            # In Python true equals 1.
            return {
                name: one
                for name, one in values.items()
                if name not in known or canonical.dumps(known[name]) != canonical.dumps(one)
            }
        assert net is not None, "it has fields"
        plain = make_fields_of(net.inputs, find_defaults(net))
        given = [one for one in plain if not self._is_untouched(one)]
        values, faults = read_fields_of(given, self.sent)
        if faults:
            raise make_invalid(net, join_faults(faults, _find_faults(net, values)))
        return values

    def _is_untouched(self, one: FormField) -> bool:
        """Whether its default stands in the field, or nothing, so that nothing has to be given."""
        text = find_text(one.input, self.sent)
        if one.widget == "checkbox" and one.input.required:
            return False
        return text == (one.text if one.widget != "checkbox" or one.value == TICKED else "")

    def _sum_up(self) -> str:
        """What tells one form from another with the same nonce, without secrets: a sum of one could
        be guessed."""
        hidden = {one.key for one in self.fields if one.input.secret} | {"once", "form_key", "do"}
        plain = {name: text for name, text in sorted(self.sent.items()) if name not in hidden}
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]


def gather(look: PlaybookLook) -> Mapping[str, Any]:
    """What `playbook/start.html` shows. Raises NotFound where inputs of an execution are asked for
    that is not there."""
    source = look.asked.get("from", "")
    return {"form": StartForm.copy(look, copy_inputs(look, source)) if source else StartForm.read(look, {})}


def _draw_nonce() -> str:
    return secrets.token_urlsafe(_NONCE_BYTES)


def _read_labels(text: str) -> dict[str, Json]:
    """`name=value`, one to a line. Raises BadRequest."""
    parts = [line.strip().partition("=") for line in text.splitlines() if line.strip()]
    bare = next((name for name, equals, _ in parts if not equals), None)
    if bare is not None:
        raise BadRequest(f"The label {bare[:80]!r} has no value: write name=value, one to a line.")
    return {name.strip(): value.strip() for name, _, value in parts}


def _read_free(text: str) -> JsonMap:
    """Raises BadRequest."""
    return read_mapping(text, "The payload") if text.strip() else {}


def _find_faults(net: Net, values: JsonMap) -> list[InputFault]:
    """What is wrong with values that could be read."""
    try:
        admit(Plan(net), values, {})
    except InputsInvalid as error:
        return [InputFault(str(one["path"]), str(one["message"])) for one in error.faults]
    return []


#: How fields are read that are no inputs.
_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "key": check_key,
    "labels": lambda text: merge_labels({}, _read_labels(text)),
    "payload": _read_free,
}
