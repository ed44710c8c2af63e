"""Compiles circuits: into the gates and onto the qubits of a machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import cirq

from noetl.errors import ToolError
from noetl.facts.distribution import install_line
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.quantum.circuits.canonical import sort_moments
from noetl.quantum.circuits.figures import reason, show
from noetl.quantum.circuits.measurements import unroll
from noetl.quantum.circuits.placing import PlacedCircuit, place_circuit
from noetl.quantum.config.shapes import Compile
from noetl.quantum.model import Capabilities

_KEYS: Final = tuple(Compile.model_fields)


@dataclass(frozen=True, slots=True)
class CompiledCircuit:
    """What would be sent. `qubits` are where the circuit's qubits, in their order, are at its end.
    `report`: `gateset`, `placement`, `optimize`; `before` and `after`, as `size_report` has it;
    `mapping`, where it was placed: `initial` and `final` by qubit."""

    circuit: cirq.Circuit
    report: JsonMap
    qubits: tuple[cirq.Qid, ...]


def compile_circuit(
    circuit: cirq.AbstractCircuit, spec: Mapping[str, Json] | None, capabilities: Capabilities
) -> CompiledCircuit:
    """`circuit`, resolved, as `spec` has it: placed first, then rewritten for `gateset`, which is
    that of the backend where `spec` names none. Gates are merged unless `optimize` is false. Raises
    ToolError (`CompileError`, `PlacementError`, `NotInstalled`)."""
    keys = spec or {}
    _check(keys)
    named = keys.get("gateset")
    name = capabilities.gateset if named is None else str(named)
    optimize = keys.get("optimize") is not False
    before = unroll(circuit)
    same = {qubit: qubit for qubit in before.all_qubits()}
    placement = keys.get("placement")
    on = PlacedCircuit(before, same, same) if placement is None else place_circuit(before, placement)
    after = _in_gates(on.circuit, name, optimize) if name else on.circuit
    qubits = tuple(on.final[qubit] for qubit in sorted(before.all_qubits()))
    report = {
        "gateset": name or None,
        "placement": placement,
        "optimize": optimize,
        "before": size_report(before),
        "after": size_report(after),
        "mapping": _mapping(on),
    }
    return CompiledCircuit(after, report, qubits)


def _check(keys: Mapping[str, Json]) -> None:
    for key in keys:
        if key not in _KEYS:
            raise _wrong(
                f"compile.{key}: is unknown; there are {', '.join(_KEYS)}.{did_you_mean(key, _KEYS)}"
            )
    name, optimize = keys.get("gateset"), keys.get("optimize")
    if name is not None and not (isinstance(name, str) and name):
        raise _wrong(f"compile.gateset: is the name of a gate set, not {show(name)}.")
    if optimize is not None and not isinstance(optimize, bool):
        raise _wrong(f"compile.optimize: is true or false, not {show(optimize)}.")


def _wrong(message: str) -> ToolError:
    return ToolError("client_error", message, type="CompileError")


def _in_gates(circuit: cirq.Circuit, name: str, optimize: bool) -> cirq.Circuit:
    target = gateset(name)
    try:
        return sort_moments(rewrite(circuit, target, optimize=optimize))
    except (ValueError, TypeError) as error:
        raise _wrong(
            f"compile.gateset: the circuit cannot be rewritten for {name}: {reason(error)}."
        ) from error


def size_report(circuit: cirq.Circuit) -> JsonMap:
    """The size of an unrolled circuit: `operations`, with measurements; `depth`, in
    moments; `two_qubit`, gates of two qubits or more, and `two_qubit_depth`, moments with such
    gates; `gates`, operations of each kind."""
    ops = list(circuit.all_operations())
    gates = Counter(type(op.without_classical_controls().gate or op).__name__ for op in ops)
    entangling = [sum(len(op.qubits) > 1 and not cirq.is_measurement(op) for op in one) for one in circuit]
    return {
        "operations": len(ops),
        "depth": len(circuit),
        "two_qubit": sum(entangling),
        "two_qubit_depth": sum(1 for gates in entangling if gates),
        "gates": {name: gates[name] for name in sorted(gates)},
    }


def _mapping(on: PlacedCircuit) -> JsonMap | None:
    if all(qubit == place for qubit, place in on.initial.items()) and on.initial == on.final:
        return None
    return {
        "initial": {str(qubit): str(on.initial[qubit]) for qubit in sorted(on.initial)},
        "final": {str(qubit): str(on.final[qubit]) for qubit in sorted(on.final)},
    }


#: How often an optimizing rewrite is repeated at most; it ends before where nothing becomes
#: smaller.
_PASSES: Final = 10


#: Where each gate set is. All but Cirq's come with an extra, and are imported when they are used.
_GATESETS: Final[Mapping[str, tuple[str, str]]] = {
    "cz": ("cirq", "CZTargetGateset"),
    "sqrt_iswap": ("cirq", "SqrtIswapTargetGateset"),
    "ionq": ("cirq_ionq", "IonQTargetGateset"),
    "ionq_aria": ("cirq_ionq", "AriaNativeGateset"),
    "ionq_forte": ("cirq_ionq", "ForteNativeGateset"),
    "aqt": ("cirq_aqt.aqt_target_gateset", "AQTTargetGateset"),
    "google_cz": ("cirq_google", "GoogleCZTargetGateset"),
    "google_sycamore": ("cirq_google", "SycamoreTargetGateset"),
}


def gateset(name: str) -> cirq.CompilationTargetGateset:
    """The gate set of that name. Raises ToolError where there is none, or where its extra is not
    installed."""
    if name not in _GATESETS:
        raise ToolError(
            "client_error",
            f"compile.gateset: there is no {name!r}; there are "
            f"{', '.join(_GATESETS)}.{did_you_mean(name, _GATESETS)}",
            type="CompileError",
        )
    module, attribute = _GATESETS[name]
    try:
        found: cirq.CompilationTargetGateset = getattr(import_module(module), attribute)()
    except ImportError:
        raise ToolError(
            "client_error",
            f"compile.gateset: {name} is not installed here: {install_line(name.partition('_')[0])}.",
            type="NotInstalled",
        ) from None
    return found


def rewrite(circuit: cirq.Circuit, target: cirq.CompilationTargetGateset, *, optimize: bool) -> cirq.Circuit:
    """`circuit` in gates of `target`. Without `optimize` each gate is rewritten by itself, so that
    none of them is merged with another or dropped. Raises ValueError where a gate cannot be
    rewritten."""
    for op in circuit.all_operations():
        if not (cirq.is_measurement(op) or cirq.is_parameterized(op) or cirq.has_unitary(op)):
            raise _no_form(op)
    if optimize:
        # What could not be rewritten is found, and named, afterwards.
        whole = cirq.optimize_for_target_gateset(
            circuit, gateset=target, ignore_failures=True, max_num_passes=_PASSES
        )
    else:
        small = cirq.expand_composite(circuit, no_decomp=lambda op: op in target or cirq.num_qubits(op) <= 2)
        whole = cirq.map_operations_and_unroll(small, lambda op, _: _in_target(op, target)).unfreeze()
    # A phase of the whole state is never measured, and some gate sets write it without having a
    # gate for it.
    whole = cirq.drop_empty_moments(
        cirq.map_operations(whole, lambda op, _: () if isinstance(op.gate, cirq.GlobalPhaseGate) else op)
    ).unfreeze()
    for op in whole.all_operations():
        if op not in target:
            raise _no_form(op)
    return whole


def _no_form(op: cirq.Operation) -> ValueError:
    why = "symbols without values" if cirq.is_parameterized(op) else "no form in this gate set"
    return ValueError(f"{op} has {why}")


def _in_target(op: cirq.Operation, target: cirq.CompilationTargetGateset) -> cirq.OP_TREE:
    if op in target or isinstance(op.gate, cirq.GlobalPhaseGate):
        return op
    found = target.decompose_to_target_gateset(op, 0)
    if found is None or found is NotImplemented:
        raise _no_form(op)
    # What a gate of two qubits is made of may still be gates of one qubit that the set writes in
    # another way.
    return [
        part if part in target or part == op else _in_target(part, target)
        for part in cirq.flatten_to_ops(found)
    ]
