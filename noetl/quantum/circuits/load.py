"""The circuit of a task, in whatever form it was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import cirq

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.quantum.circuits import builders, canonical, checks, qasm
from noetl.quantum.config import QuantumConfig
from noetl.quantum.model import Loaded
from noetl.tools.code import user_code
from noetl.tools.code.runner.requests import PythonRequest
from noetl.tools.kit.base import Services
from noetl.tools.kit.references import loaded

#: Keys of a mapping that a circuit is looked for under, the first that is there.
_KEYS: Final = ("circuit", "cirq_json", "qasm")


def load(config: QuantumConfig, call: Call, services: Services, runners: user_code.Runners) -> Loaded:
    """The circuit, checked to be one of qubits with at least one operation. Raises ToolError."""
    found = _loaded(config, call, services, runners)
    checks.check_sound(found.circuit)
    if not config.measure or cirq.is_measurement(found.circuit):
        return found
    qubits = sorted({*found.circuit.all_qubits(), *found.idle})
    measured = found.circuit + cirq.Circuit(cirq.measure(*qubits, key=builders.MEASURED))
    return replace(found, circuit=measured, idle=())


def _loaded(config: QuantumConfig, call: Call, services: Services, runners: user_code.Runners) -> Loaded:
    if config.qasm is not None:
        circuit, form = qasm.read(config.qasm)
        return Loaded(circuit, form, canonical.sha256(config.qasm), qasm.idle(config.qasm))
    if config.cirq_json is not None:
        text = _as_text(config.cirq_json)
        return Loaded(canonical.read(text), "cirq_json", canonical.sha256(text))
    if config.builder is not None:
        text = canonical.as_text(config.builder)
        circuit = builders.build(config.builder)
        return Loaded(circuit, "builder", canonical.sha256(text), builders.idle(config.builder, circuit))
    if config.code is not None:
        return _of_code(config.code, call, services, runners)
    if config.ref is not None:
        circuit, text = _of_value(config.ref, services, "ref")
        return Loaded(circuit, "ref", canonical.sha256(text), _idle(text))
    raise ToolError("client_error", f"{config.action} needs a circuit.", type="NoCircuit")


def _as_text(given: str | Mapping[str, Json]) -> str:
    return given if isinstance(given, str) else canonical.as_text(given)


def _of_value(given: Json, services: Services, place: str) -> tuple[cirq.Circuit, str]:
    """The circuit of a value, and its text: OpenQASM or Cirq's JSON, as it is or in a mapping or a reference."""
    value = loaded(given, services.results, place)
    if isinstance(value, Mapping) and "cirq_type" not in value:
        key = next((key for key in _KEYS if value.get(key) is not None), None)
        if key is None:
            known = ", ".join(map(str, list(value)[:5])) or "nothing"
            raise _no_circuit(place, f"a mapping without `circuit` (it has {known})")
        place = f"{place}.{key}"
        value = loaded(value[key], services.results, place)
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
    """Of a text that was read: Cirq's JSON has no other qubits than those on which something acts."""
    return () if text.lstrip().startswith("{") else qasm.idle(text)


def _no_circuit(place: str, what: str) -> ToolError:
    message = f"{place} is no circuit but {what}; it must be a cirq.Circuit, its JSON, or OpenQASM."
    return ToolError("client_error", message, type="NoCircuit")


def _of_code(code: str, call: Call, services: Services, runners: user_code.Runners) -> Loaded:
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
        return Loaded(circuit, "code", canonical.sha256(code), _idle(text))
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
