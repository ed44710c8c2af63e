"""The gate sets that circuits are rewritten for, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import cirq

from noetl.errors import ToolError
from noetl.facts.distribution import install_line
from noetl.facts.nearest import did_you_mean

#: How often an optimizing rewrite is repeated at most; it ends before where nothing becomes smaller.
_PASSES: Final = 10


def _ionq() -> cirq.CompilationTargetGateset:
    from cirq_ionq import IonQTargetGateset  # an extra

    target: cirq.CompilationTargetGateset = IonQTargetGateset()
    return target


def _ionq_aria() -> cirq.CompilationTargetGateset:
    from cirq_ionq import AriaNativeGateset  # an extra

    target: cirq.CompilationTargetGateset = AriaNativeGateset()
    return target


def _ionq_forte() -> cirq.CompilationTargetGateset:
    from cirq_ionq import ForteNativeGateset  # an extra

    target: cirq.CompilationTargetGateset = ForteNativeGateset()
    return target


def _aqt() -> cirq.CompilationTargetGateset:
    from cirq_aqt.aqt_target_gateset import AQTTargetGateset  # an extra

    target: cirq.CompilationTargetGateset = AQTTargetGateset()
    return target


def _google_cz() -> cirq.CompilationTargetGateset:
    from cirq_google import GoogleCZTargetGateset  # an extra, and a heavy one

    return GoogleCZTargetGateset()


def _google_sycamore() -> cirq.CompilationTargetGateset:
    from cirq_google import SycamoreTargetGateset  # an extra, and a heavy one

    return SycamoreTargetGateset()


_GATESETS: Final[Mapping[str, Callable[[], cirq.CompilationTargetGateset]]] = {
    "cz": cirq.CZTargetGateset,
    "sqrt_iswap": cirq.SqrtIswapTargetGateset,
    "ionq": _ionq,
    "ionq_aria": _ionq_aria,
    "ionq_forte": _ionq_forte,
    "aqt": _aqt,
    "google_cz": _google_cz,
    "google_sycamore": _google_sycamore,
}


def gateset(name: str) -> cirq.CompilationTargetGateset:
    """The gate set of that name. Raises ToolError where there is none, or where its extra is not installed."""
    make = _GATESETS.get(name)
    if make is None:
        raise ToolError(
            "client_error",
            f"compile.gateset: there is no {name!r}; there are {', '.join(_GATESETS)}.{did_you_mean(name, _GATESETS)}",
            type="CompileError",
        )
    try:
        return make()
    except ImportError:
        raise ToolError(
            "client_error",
            f"compile.gateset: {name} is not installed here: {install_line(name.partition('_')[0])}.",
            type="NotInstalled",
        ) from None


def rewritten(
    circuit: cirq.Circuit, target: cirq.CompilationTargetGateset, *, optimize: bool
) -> cirq.Circuit:
    """`circuit` in gates of `target`. Without `optimize` each gate is rewritten by itself, so that none of them is merged
    with another or dropped. Raises ValueError where a gate cannot be rewritten."""
    for op in circuit.all_operations():
        if not (cirq.is_measurement(op) or cirq.is_parameterized(op) or cirq.has_unitary(op)):
            raise _no_form(op)
    whole = _merged(circuit, target) if optimize else _gate_by_gate(circuit, target)
    # A phase of the whole state is never measured, and some gate sets write it without having a gate for it.
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


def _merged(circuit: cirq.Circuit, target: cirq.CompilationTargetGateset) -> cirq.Circuit:
    # What could not be rewritten is found, and named, afterwards.
    return cirq.optimize_for_target_gateset(
        circuit, gateset=target, ignore_failures=True, max_num_passes=_PASSES
    )


def _gate_by_gate(circuit: cirq.Circuit, target: cirq.CompilationTargetGateset) -> cirq.Circuit:
    small = cirq.expand_composite(circuit, no_decomp=lambda op: op in target or cirq.num_qubits(op) <= 2)
    return cirq.map_operations_and_unroll(small, lambda op, _: _in_target(op, target)).unfreeze()


def _in_target(op: cirq.Operation, target: cirq.CompilationTargetGateset) -> cirq.OP_TREE:
    if op in target or isinstance(op.gate, cirq.GlobalPhaseGate):
        return op
    found = target.decompose_to_target_gateset(op, 0)
    if found is None or found is NotImplemented:
        raise _no_form(op)
    # What a gate of two qubits is made of may still be gates of one qubit that the set writes in another way.
    return [
        part if part in target or part == op else _in_target(part, target)
        for part in cirq.flatten_to_ops(found)
    ]
