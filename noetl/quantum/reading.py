"""The circuit of a call: read once for all calls of a worker that have the same one, and pinned where code made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from noetl.facts.json import Json, JsonMap
from noetl.quantum.circuits import canonical
from noetl.quantum.circuits import load as circuits
from noetl.quantum.model import Loaded
from noetl.quantum.recent import Recent
from noetl.quantum.results import bare
from noetl.quantum.session import Session
from noetl.tools.kit.large import kept_for
from noetl.tools.kit.references import loaded

#: Circuits that a worker remembers.
_MOST: Final = 16
#: Bytes of a circuit's text that stand in a result or checkpoint; larger ones are kept by reference.
INLINE_CIRCUIT: Final = 4 * 1024
#: The key of a checkpoint under which code's circuit is.
_PIN: Final = "code"


@dataclass(frozen=True, slots=True)
class Read:
    """A circuit and its canonical JSON. What runs is what that says, down to the order of the operations of a moment: whoever
    repeats it reads no more."""

    loaded: Loaded
    text: str


_read: Final = Recent[Read](_MOST)
#: References to circuits by place and hash.
_kept: Final = Recent[JsonMap](_MOST)


def read(session: Session) -> Read:
    """The circuit that a task names. Raises ToolError."""
    config = session.config
    form = config.circuit_form()
    if form == "code":
        return _of_code(session)
    key = json.dumps([form, getattr(config, form or "ref"), config.measure], sort_keys=True)
    return _read.get(canonical.sha256(key), lambda: _made(session))


def _made(session: Session) -> Read:
    found = circuits.load(session.config, session.call, session.services, session.held.runners)
    circuit = canonical.settled(found.circuit)
    return Read(replace(found, circuit=circuit), canonical.text(circuit))


def _of_code(session: Session) -> Read:
    """What the code yields in the first call of its task, and in all later ones: run again, it may yield another."""
    checkpoint = session.call.checkpoint
    if isinstance(checkpoint, Mapping) and _PIN in checkpoint:
        session.pins[_PIN] = checkpoint[_PIN]
        said = json.loads(checkpoint[_PIN])
        text = loaded(said["circuit"], session.services.results, "The checkpoint")
        return Read(Loaded(canonical.read(text), "code", said["sha256"]), text)
    found = _made(session)
    said = {"sha256": found.loaded.sha256, "circuit": kept_text(session, found.text)}
    # As text: references in a checkpoint are opened.
    session.pins[_PIN] = json.dumps(said)
    return found


def kept_text(session: Session, text: str) -> Json:
    """A circuit's text as a result or a checkpoint holds it: itself, or a reference to it where it is long."""
    if len(text) <= INLINE_CIRCUIT or session.services.results is None:
        return text
    results, keep = session.services.results, kept_for(session.call)
    # The iterations of a loop have one circuit, and it is written once.
    return _kept.get(f"{keep.place}/{canonical.sha256(text)}", lambda: bare(results.put(text, keep)))
