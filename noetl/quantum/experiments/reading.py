"""The circuit of a call: read once for all calls of a worker that have the same one, and pinned
where code made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from noetl.facts.json import Json, JsonMap
from noetl.quantum.circuits import canonical
from noetl.quantum.circuits import load as circuits
from noetl.quantum.experiments.recent import RecentCache
from noetl.quantum.experiments.results import bare
from noetl.quantum.model import LoadedCircuit
from noetl.quantum.session import TaskSession
from noetl.tools.kit.large import retention_of
from noetl.tools.kit.references import load_reference

#: Circuits that a worker remembers.
_MOST: Final = 16
#: Bytes of a circuit's text that stand in a result or checkpoint; larger ones are kept by
#: reference.
INLINE_CIRCUIT: Final = 4 * 1024
#: The key of a checkpoint under which code's circuit is.
_PIN: Final = "code"


@dataclass(frozen=True, slots=True)
class SettledCircuit:
    """A circuit and its canonical JSON. What runs is what that says, down to the order of the
    operations of a moment: whoever repeats it reads no more."""

    loaded: LoadedCircuit
    text: str


_read: Final = RecentCache[SettledCircuit](_MOST)
#: References to circuits by place and hash.
_kept: Final = RecentCache[JsonMap](_MOST)


def read_circuit(session: TaskSession) -> SettledCircuit:
    """The circuit that a task names. Raises ToolError."""
    config = session.config
    form = config.circuit_form()
    if form == "code":
        return _of_code(session)
    key = json.dumps([form, getattr(config, form or "ref"), config.measure], sort_keys=True)
    return _read.get(canonical.sha256(key), lambda: _make(session))


def _make(session: TaskSession) -> SettledCircuit:
    found = circuits.load(session.config, session.call, session.services, session.held.runners)
    circuit = canonical.sort_moments(found.circuit)
    return SettledCircuit(replace(found, circuit=circuit), canonical.text(circuit))


def _of_code(session: TaskSession) -> SettledCircuit:
    """What the code yields in the first call of its task, and in all later ones: run again, it may
    yield another."""
    checkpoint = session.call.checkpoint
    if isinstance(checkpoint, Mapping) and _PIN in checkpoint:
        session.pins[_PIN] = checkpoint[_PIN]
        said = json.loads(checkpoint[_PIN])
        text = load_reference(said["circuit"], session.services.results, "The checkpoint")
        return SettledCircuit(LoadedCircuit(canonical.read(text), "code", said["sha256"]), text)
    found = _make(session)
    said = {"sha256": found.loaded.sha256, "circuit": keep_text(session, found.text)}
    # As text: references in a checkpoint are opened.
    session.pins[_PIN] = json.dumps(said)
    return found


def keep_text(session: TaskSession, text: str) -> Json:
    """A circuit's text as a result or a checkpoint holds it: itself, or a reference to it where it
    is long."""
    if len(text) <= INLINE_CIRCUIT or session.services.results is None:
        return text
    results, keep = session.services.results, retention_of(session.call)
    # The iterations of a loop have one circuit, and it is written once.
    return _kept.get(f"{keep.place}/{canonical.sha256(text)}", lambda: bare(results.put(text, keep)))
