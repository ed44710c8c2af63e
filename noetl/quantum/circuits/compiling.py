"""Compilation: a circuit in the gates of a machine, on the qubits of a machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import cirq

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.quantum.circuits.canonical import settled
from noetl.quantum.circuits.figures import reason, shown
from noetl.quantum.circuits.gatesets import gateset, rewritten
from noetl.quantum.circuits.placing import Placed, placed
from noetl.quantum.circuits.shapes import Compile
from noetl.quantum.model import Capabilities
from noetl.quantum.simulation.sampling import unrolled

_KEYS: Final = tuple(Compile.model_fields)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What would be sent. `qubits` are where the circuit's qubits, in their order, are at its end. `report`: `gateset`,
    `placement`, `optimize`; `before` and `after`, as `counted` has it; `mapping`, where it was placed: `initial` and `final`
    by qubit."""

    circuit: cirq.Circuit
    report: JsonMap
    qubits: tuple[cirq.Qid, ...]


def compiled(
    circuit: cirq.AbstractCircuit, spec: Mapping[str, Json] | None, capabilities: Capabilities
) -> Compiled:
    """`circuit`, resolved, as `spec` has it: placed first, then rewritten for `gateset`, which is that of the backend
    where `spec` names none. Gates are merged unless `optimize` is false. Raises ToolError (`CompileError`,
    `PlacementError`, `NotInstalled`)."""
    keys = spec or {}
    _check(keys)
    named = keys.get("gateset")
    name = capabilities.gateset if named is None else str(named)
    optimize = keys.get("optimize") is not False
    before = unrolled(circuit)
    on = placed(before, keys["placement"]) if keys.get("placement") is not None else _as_it_is(before)
    after = _in_gates(on.circuit, name, optimize) if name else on.circuit
    qubits = tuple(on.final[qubit] for qubit in sorted(before.all_qubits()))
    report = {
        "gateset": name or None,
        "placement": keys.get("placement"),
        "optimize": optimize,
        "before": counted(before),
        "after": counted(after),
        "mapping": _mapping(on),
    }
    return Compiled(after, report, qubits)


def _check(keys: Mapping[str, Json]) -> None:
    for key in keys:
        if key not in _KEYS:
            raise _wrong(
                f"compile.{key}: is unknown; there are {', '.join(_KEYS)}.{did_you_mean(key, _KEYS)}"
            )
    name, optimize = keys.get("gateset"), keys.get("optimize")
    if name is not None and not (isinstance(name, str) and name):
        raise _wrong(f"compile.gateset: is the name of a gate set, not {shown(name)}.")
    if optimize is not None and not isinstance(optimize, bool):
        raise _wrong(f"compile.optimize: is true or false, not {shown(optimize)}.")


def _wrong(message: str) -> ToolError:
    return ToolError("client_error", message, type="CompileError")


def _as_it_is(circuit: cirq.Circuit) -> Placed:
    same = {qubit: qubit for qubit in circuit.all_qubits()}
    return Placed(circuit, same, same)


def _in_gates(circuit: cirq.Circuit, name: str, optimize: bool) -> cirq.Circuit:
    target = gateset(name)
    try:
        return settled(rewritten(circuit, target, optimize=optimize))
    except (ValueError, TypeError) as error:
        raise _wrong(
            f"compile.gateset: the circuit cannot be rewritten for {name}: {reason(error)}."
        ) from error


def counted(circuit: cirq.Circuit) -> JsonMap:
    """What is told of the size of an unrolled circuit: `operations`, with measurements; `depth`, in moments; `two_qubit`,
    gates of two qubits or more, and `two_qubit_depth`, moments with such gates; `gates`, operations of each kind."""
    ops = list(circuit.all_operations())
    gates = Counter(type(op.without_classical_controls().gate or op).__name__ for op in ops)
    entangling = [sum(map(_joins_qubits, moment)) for moment in circuit]
    return {
        "operations": len(ops),
        "depth": len(circuit),
        "two_qubit": sum(entangling),
        "two_qubit_depth": sum(1 for gates in entangling if gates),
        "gates": {name: gates[name] for name in sorted(gates)},
    }


def _joins_qubits(op: cirq.Operation) -> bool:
    return len(op.qubits) > 1 and not cirq.is_measurement(op)


def _mapping(on: Placed) -> JsonMap | None:
    if all(qubit == place for qubit, place in on.initial.items()) and on.initial == on.final:
        return None
    return {
        "initial": {str(qubit): str(on.initial[qubit]) for qubit in sorted(on.initial)},
        "final": {str(qubit): str(on.final[qubit]) for qubit in sorted(on.final)},
    }
