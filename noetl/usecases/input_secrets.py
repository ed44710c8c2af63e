"""Secret inputs: sealed before anything is recorded, and kept as long as what their executions
left.

In the place of the value the log has a reference, `{kind: secret_ref, execution, input, hash,
seal}`. `hash` is made of the value with the installation's key: two executions were given the same
where it is the same, and who has the log alone learns no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noetl.engine.admission import Admitted
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import SECRET_REF
from noetl.net.model import Net
from noetl.net.secret_inputs import has_secrets, replace_secrets
from noetl.usecases.ports import CredentialRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.secret_fields import KEPT_AS, kept_name


@dataclass(frozen=True, slots=True)
class Sealed:
    """What an execution is given, without the values of secrets, and what they are kept as."""

    given: Admitted
    kept: Sequence[CredentialRow] = ()


def keep_given(rt: Runtime, tx: Transaction, net: Net, given: Admitted, execution_id: str) -> Admitted:
    """`given` as the log may have it. What its secrets are is kept for the execution of that id
    until its results go (`noetl.usecases.results.collect`). Raises ConfigError where there is no
    key."""
    sealed = seal_given(rt, net, given, execution_id)
    for row in sealed.kept:
        tx.credentials.save(row)
    return sealed.given


def seal_given(rt: Runtime, net: Net, given: Admitted, execution_id: str) -> Sealed:
    """The same, without keeping anything."""
    if not has_secrets(net.inputs):
        return Sealed(given)
    found: dict[str, Json] = {}

    def make(path: str, value: Json) -> Json:
        reference = _make_reference(rt, execution_id, path, value)
        found[kept_name(reference)] = value
        return reference

    sealed = Admitted(
        replace_secrets(net.inputs, given.payload, make), replace_secrets(net.inputs, given.overrides, make)
    )
    return Sealed(sealed, [_make_row(rt, execution_id, name, value) for name, value in found.items()])


def _make_reference(rt: Runtime, execution_id: str, path: str, value: Json) -> JsonMap:
    digest = rt.seal({"kind": "input", "input": path, "value": value})["seal"]
    return rt.seal({"kind": SECRET_REF, "execution": execution_id, "input": path, "hash": digest})


def _make_row(rt: Runtime, execution_id: str, name: str, value: Json) -> CredentialRow:
    now = rt.clock()
    data = rt.encrypt({KEPT_AS: value})
    return CredentialRow(name, "generic", data, now, now, "lineage", execution_id)
