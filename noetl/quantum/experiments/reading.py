"""Reads the circuit of a task, in whatever form it was given: once for all calls of a worker that
have the same one. A circuit that code made is pinned in the checkpoint."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Generic, TypeVar

import cirq

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.pipeline.model import Call
from noetl.quantum.circuits import builders, canonical, checks, qasm
from noetl.quantum.config.task import QuantumConfig
from noetl.quantum.model import LoadedCircuit
from noetl.quantum.session import TaskSession
from noetl.tools.code import user_code
from noetl.tools.code.runner.requests import PythonRequest
from noetl.tools.kit.base import Services
from noetl.tools.kit.large import retention_of
from noetl.tools.kit.references import load_reference

T = TypeVar("T")

#: Circuits that a worker remembers.
_MOST: Final = 16
#: Bytes of a circuit's text, or of its diagram, that stand in a result or checkpoint; larger ones
#: are kept by reference.
INLINE_CIRCUIT: Final = 4 * 1024
#: The key of a checkpoint under which code's circuit is.
_PIN: Final = "code"


class RecentCache(Generic[T]):
    """The last `most` things by key. Safe for threads; what is missing is made outside of the
    lock."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._found: OrderedDict[str, T] = OrderedDict()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """What is known under `key`, else what `make` makes. Raises what that raises."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        made = make()
        with self._lock:
            self._found[key] = made
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        return made


_read: Final = RecentCache[LoadedCircuit](_MOST)
#: References to circuits by place and hash.
_kept: Final = RecentCache[JsonMap](_MOST)


def read_circuit(session: TaskSession) -> LoadedCircuit:
    """The circuit that a task names. Raises ToolError."""
    config = session.config
    form = config.circuit_form()
    if form == "code":
        return _pin_code(session)
    key = json.dumps([form, getattr(config, form or "ref"), config.measure], sort_keys=True)
    return _read.get(canonical.sha256(key), lambda: _make(session))


def _make(session: TaskSession) -> LoadedCircuit:
    found = load(session.config, session.call, session.services, session.held.runners)
    circuit = canonical.sort_moments(found.circuit)
    return replace(found, circuit=circuit, text=canonical.text(circuit))


def _pin_code(session: TaskSession) -> LoadedCircuit:
    """What the code yields in the first call of its task, and in all later ones: run again, it may
    yield another."""
    checkpoint = session.call.checkpoint
    if isinstance(checkpoint, Mapping) and _PIN in checkpoint:
        session.pins[_PIN] = checkpoint[_PIN]
        said = json.loads(checkpoint[_PIN])
        text = load_reference(said["circuit"], session.services.results, "The checkpoint")
        return LoadedCircuit(canonical.read(text), "code", said["sha256"], text=text)
    found = _make(session)
    said = {"sha256": found.sha256, "circuit": keep_text(session, found.text)}
    # As text: references in a checkpoint are opened.
    session.pins[_PIN] = json.dumps(said)
    return found


def keep_text(session: TaskSession, text: str) -> Json:
    """A circuit's text, or its diagram, as a result or a checkpoint holds it: itself, or a
    reference to it where it is long."""
    if len(text.encode("utf-8", "surrogatepass")) <= INLINE_CIRCUIT or session.services.results is None:
        return text
    results, keep = session.services.results, retention_of(session.call, session.services)
    # The iterations of a loop have one circuit, and it is written once.
    return _kept.get(
        f"{keep.place}/{canonical.sha256(text)}", lambda: without_preview(results.put(text, keep))
    )


def without_preview(value: JsonMap) -> JsonMap:
    """A reference as a checkpoint may hold it: without what only people look at."""
    return {name: part for name, part in value.items() if name != "preview"}


#: Keys of a mapping that a circuit is looked for under, the first that is there.
_KEYS: Final = ("circuit", "cirq_json", "qasm")


def load(config: QuantumConfig, call: Call, services: Services, runners: user_code.Runners) -> LoadedCircuit:
    """The circuit, checked to be one of qubits with at least one operation. Raises ToolError."""
    found = _load(config, call, services, runners)
    checks.check_sound(found.circuit)
    if not config.measure or cirq.is_measurement(found.circuit):
        return found
    qubits = sorted({*found.circuit.all_qubits(), *found.idle})
    measured = found.circuit + cirq.Circuit(cirq.measure(*qubits, key=builders.MEASURED))
    return replace(found, circuit=measured, idle=())


def _load(config: QuantumConfig, call: Call, services: Services, runners: user_code.Runners) -> LoadedCircuit:
    if config.qasm is not None:
        circuit, form = qasm.read(config.qasm)
        return LoadedCircuit(circuit, form, canonical.sha256(config.qasm), qasm.idle(config.qasm))
    if config.cirq_json is not None:
        text = _as_text(config.cirq_json)
        return LoadedCircuit(canonical.read(text), "cirq_json", canonical.sha256(text))
    if config.builder is not None:
        text = canonical.as_text(config.builder)
        circuit = builders.build(config.builder)
        return LoadedCircuit(
            circuit, "builder", canonical.sha256(text), builders.idle(config.builder, circuit)
        )
    if config.code is not None:
        return _of_code(config.code, call, services, runners)
    if config.ref is not None:
        circuit, text = _of_value(config.ref, services, "ref")
        return LoadedCircuit(circuit, "ref", canonical.sha256(text), _idle(text))
    raise ToolError("client_error", f"{config.action} needs a circuit.", type="NoCircuit")


def _as_text(given: str | Mapping[str, Json]) -> str:
    return given if isinstance(given, str) else canonical.as_text(given)


def _of_value(given: Json, services: Services, place: str) -> tuple[cirq.Circuit, str]:
    """The circuit of a value, and its text: OpenQASM or Cirq's JSON, as it is or in a mapping or a
    reference."""
    value = load_reference(given, services.results, place)
    if isinstance(value, Mapping) and "cirq_type" not in value:
        key = next((key for key in _KEYS if value.get(key) is not None), None)
        if key is None:
            known = ", ".join(map(str, list(value)[:5])) or "nothing"
            raise _no_circuit(place, f"a mapping without `circuit` (it has {known})")
        place = f"{place}.{key}"
        value = load_reference(value[key], services.results, place)
    if not isinstance(value, str | Mapping):
        raise _no_circuit(place, "null" if value is None else f"of type {type(value).__name__}")
    text = _as_text(value)
    return _of_text(text, place), text


def _of_text(text: str, place: str) -> cirq.Circuit:
    try:
        if text.lstrip().startswith("{"):
            return canonical.read(text, place)
        if "OPENQASM" not in text:
            raise _no_circuit(place, "text that is neither OpenQASM nor Cirq's JSON")
        return qasm.read(text)[0]
    except ToolError as error:
        # Its line is one of that text, and not of the playbook; the message names it.
        message = error.message if error.message.startswith(place) else f"{place}: {error.message}"
        raise ToolError(error.kind, message, type=error.type) from None


def _idle(text: str) -> tuple[cirq.Qid, ...]:
    """Of a text that was read: Cirq's JSON has no other qubits than those on which something
    acts."""
    return () if text.lstrip().startswith("{") else qasm.idle(text)


def _no_circuit(place: str, what: str) -> ToolError:
    message = f"{place} is no circuit but {what}; it must be a cirq.Circuit, its JSON, or OpenQASM."
    return ToolError("client_error", message, type="NoCircuit")


def _of_code(code: str, call: Call, services: Services, runners: user_code.Runners) -> LoadedCircuit:
    request = PythonRequest(
        code=code,
        inputs=call.args,
        context=user_code.context(call, code),
        owner=call.where.owner,
        limits=user_code.limits(services, call.spec),
    )
    deadline = services.default_deadline_s if call.deadline_s is None else call.deadline_s
    reply = user_code.ask_python(runners, services, call, request, deadline)
    if reply.status == "ok":
        circuit, text = _of_value(reply.value, services, "The result of `code`")
        return LoadedCircuit(circuit, "code", canonical.sha256(code), _idle(text))
    error = user_code.error(reply, "python", "The code")
    raise ToolError(
        error.kind,
        error.message,
        retryable=error.retryable,
        type=error.type,
        line=error.line,
        traceback=error.traceback,
        extras={"py": dict(reply.error)} if reply.error else None,
    )
