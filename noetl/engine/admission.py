"""What a request hands over, held against the inputs that its playbook declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from noetl.engine.plan import Plan
from noetl.engine.request import ADDS, check_overrides, split_added, unknown_keys
from noetl.errors import InputsInvalid
from noetl.facts.json import JsonMap, deep_merge
from noetl.facts.outcome import ErrorInfo
from noetl.net.input_values import (
    LATER,
    MOST,
    InputFault,
    find_faults,
    read_values,
    settle,
)
from noetl.net.model import Net
from noetl.net.secret_inputs import find_open_secrets


@dataclass(frozen=True, slots=True)
class Admitted:
    """Payload and overrides as the playbook takes them: texts are read by the declared type, and
    overrides have no marks of keys that they add."""

    payload: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)


def admit(plan: Plan, payload: JsonMap, overrides: JsonMap, *, foreseen: bool = False) -> Admitted:
    """What is given, as the playbook takes it; `foreseen` does not ask for what is required.

    Raises InputsInvalid with everything that is wrong, and for a playbook without inputs BadRequest
    for an override that nothing declares or reads.
    """
    net = plan.net
    if not net.inputs:
        return Admitted(payload, check_overrides(plan, payload, overrides) if overrides else {})
    plain, added = split_added(overrides)
    given = Admitted(read_values(net.inputs, payload), read_values(net.inputs, deep_merge(plain, added)))
    missing = {one.name: LATER for one in net.inputs if one.required} if foreseen else {}
    settled = {**settle(net.workload), **missing}
    whole = deep_merge(deep_merge(settled, given.payload), given.overrides)
    found = [
        *islice(find_faults(net.inputs, whole, also={*net.workload, *added}), MOST),
        *_find_unset(plan, given.payload, plain),
    ]
    if found:
        raise make_invalid(net, found)
    return given


def _find_unset(plan: Plan, payload: JsonMap, plain: JsonMap) -> Iterator[InputFault]:
    """Overrides inside of values that are in the workload alone, and do not have such a key."""
    declared = {one.name for one in plan.net.inputs}
    of_workload = {key: value for key, value in plain.items() if key in plan.net.workload.keys() - declared}
    for path in unknown_keys(plan, of_workload, deep_merge(plan.net.workload, payload)):
        name = ".".join(path)
        yield InputFault(name, f"is not there to be set; write {ADDS + name!r} to add a new key")


def find_wrong_defaults(net: Net, workload: JsonMap) -> ErrorInfo | None:
    """What is wrong with what templates of defaults came to; what was given was looked at
    before."""
    faults = list(find_faults(net.inputs, workload, also=workload))
    faults += [
        InputFault(path, "is a secret, and its default would stand in the log; name one of the keychain")
        for path in find_open_secrets(net.inputs, workload)
    ]
    if not faults:
        return None
    error = make_invalid(net, faults)
    return ErrorInfo("client_error", error.message, type=type(error).__name__)


def make_invalid(net: Net, found: Sequence[InputFault]) -> InputsInvalid:
    """The error that tells of all that is wrong."""
    told = "; ".join(map(str, found))
    end = "" if told.endswith("?") else "."
    return InputsInvalid(
        f"Playbook {net.path!r} cannot be given this: {told}{end}", [one.as_json() for one in found]
    )
