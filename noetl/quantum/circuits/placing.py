"""Placement: which qubit of a device each qubit of a circuit is on, and the swaps that bring them
together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeGuard

import cirq
import networkx as nx

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean
from noetl.quantum.circuits.figures import is_count, reason, show
from noetl.quantum.circuits.measurements import terminal_measurements, unroll
from noetl.quantum.config.shapes import Placement

#: Of gates that only keep a qubit in the circuit while it is routed.
_KEPT: Final = "noetl.kept"
#: Routing takes time that grows with the square of this.
_MOST_QUBITS: Final = 10_000
_KEYS: Final = tuple(Placement.model_fields)


@dataclass(frozen=True, slots=True)
class PlacedCircuit:
    """A circuit on a device, and where each of its qubits starts and ends."""

    circuit: cirq.Circuit
    initial: Mapping[cirq.Qid, cirq.Qid]
    final: Mapping[cirq.Qid, cirq.Qid]


def place_circuit(circuit: cirq.AbstractCircuit, spec: Json) -> PlacedCircuit:
    """`circuit` on `line`, `{line: n}`, `{grid: [rows, columns]}`, with `qubits` to say where each
    starts; with `qubits` alone they are only renamed. Keys, order and inversion of measured bits
    stay. Raises ToolError (`PlacementError`)."""
    whole = unroll(circuit)
    keys = {"line": len(whole.all_qubits())} if spec == "line" else spec
    if not isinstance(keys, Mapping) or not keys:
        raise _wrong("", f"is `line`, or a mapping of {', '.join(_KEYS)}, not {show(spec)}.")
    for key in keys:
        if key not in _KEYS:
            raise _wrong(f".{key}", f"is unknown; there are {', '.join(_KEYS)}.{did_you_mean(key, _KEYS)}")
    chosen = _choose(keys["qubits"], sorted(whole.all_qubits())) if "qubits" in keys else None
    device = _device(keys)
    if device is None:
        names = dict(chosen or {})
        return PlacedCircuit(whole.transform_qubits(names), names, names)
    return _route(whole, device, chosen)


def _wrong(place: str, what: str) -> ToolError:
    return ToolError("client_error", f"compile.placement{place}: {what}", type="PlacementError")


def _device(spec: Mapping[str, Json]) -> nx.Graph | None:
    if "line" in spec and "grid" in spec:
        raise _wrong("", "is a line or a grid, not both.")
    if "line" in spec:
        length = spec["line"]
        if not is_count(length):
            raise _wrong(".line", f"is a number of qubits, from 1 on, not {show(length)}.")
        _check_size("line", length)
        return nx.path_graph(cirq.LineQubit.range(length))
    if "grid" in spec:
        match spec["grid"]:
            case [rows, columns] if is_count(rows) and is_count(columns):
                _check_size("grid", rows * columns)
            case value:
                raise _wrong(".grid", f"is [rows, columns], from 1 on, not {show(value)}.")
        nodes = cirq.GridQubit.rect(rows, columns)
        edges = [(one, other) for one in nodes for other in one.neighbors()]
        graph = nx.Graph()
        graph.add_nodes_from(nodes)
        graph.add_edges_from(edge for edge in edges if edge[1] in graph)
        return graph
    return None


def _check_size(key: str, qubits: int) -> None:
    if qubits > _MOST_QUBITS:
        raise _wrong(f".{key}", f"has {qubits} qubits; {_MOST_QUBITS} is the most.")


def _choose(value: Json, qubits: Sequence[cirq.Qid]) -> dict[cirq.Qid, cirq.Qid]:
    """Where each qubit is said to be: by its name, or by its number in the order of the circuit's
    qubits."""
    names = {str(qubit): qubit for qubit in qubits}
    given = dict(zip(names, value, strict=False)) if isinstance(value, list) else value
    if not isinstance(given, Mapping) or set(given) != set(names) or len(value) != len(names):
        raise _wrong(".qubits", f"gives a place to each of {', '.join(names)}, and to nothing else.")
    found = {names[name]: _place(place) for name, place in given.items()}
    if len(set(found.values())) < len(found):
        raise _wrong(".qubits", "puts two qubits on one place.")
    return found


def _place(value: Json) -> cirq.Qid:
    match value:
        case _ if _is_place(value):
            return cirq.LineQubit(value)
        case [row, column] if _is_place(row) and _is_place(column):
            return cirq.GridQubit(row, column)
        case _:
            raise _wrong(
                ".qubits", f"a place is a number on a line or [row, column] on a grid, not {show(value)}."
            )


def _is_place(value: Json) -> TypeGuard[int]:
    return is_count(value, least=-_MOST_QUBITS) and value <= _MOST_QUBITS


def _route(
    circuit: cirq.Circuit, device: nx.Graph, chosen: Mapping[cirq.Qid, cirq.Qid] | None
) -> PlacedCircuit:
    qubits = sorted(circuit.all_qubits())
    _check_fits(qubits, device, chosen)
    last = terminal_measurements(circuit)
    body = _body(circuit, last)
    mapper = None if chosen is None else cirq.HardCodedInitialMapper(dict(chosen))
    try:
        routed, initial, moves = cirq.RouteCQC(device).route_circuit(body, initial_mapper=mapper)
    except (ValueError, nx.NetworkXException) as error:
        raise _wrong("", f"the circuit cannot be routed: {reason(error)}.") from error
    whole = cirq.Circuit(cirq.Moment(op for op in moment if _KEPT not in op.tags) for moment in routed)
    final = {qubit: moves[initial[qubit]] for qubit in qubits}
    # Measured where the qubits are in the end, in the order in which they were measured.
    whole.append([op.transform_qubits(final) for _, op in last], cirq.InsertStrategy.NEW_THEN_INLINE)
    return PlacedCircuit(cirq.drop_empty_moments(whole).unfreeze(), dict(initial), final)


def _check_fits(
    qubits: Sequence[cirq.Qid], device: nx.Graph, chosen: Mapping[cirq.Qid, cirq.Qid] | None
) -> None:
    if len(qubits) > len(device):
        raise _wrong("", f"the circuit has {len(qubits)} qubits, and the device {len(device)}.")
    for place in (chosen or {}).values():
        if place not in device:
            raise _wrong(".qubits", f"{place} is not on the device.")


def _body(circuit: cirq.Circuit, last: Sequence[tuple[int, cirq.Operation]]) -> cirq.Circuit:
    """The circuit in gates of at most two qubits, without its last measurements. Every qubit is in
    it."""
    body = circuit.copy()
    body.batch_remove(last)
    for op in body.all_operations():
        # The router keeps the order of gates on a qubit, not that of a measurement and what depends
        # on it.
        if cirq.is_measurement(op) or cirq.control_keys(op):
            keys = ", ".join(sorted(map(str, cirq.measurement_key_objs(op) | cirq.control_keys(op))))
            raise _wrong(
                "",
                f"the circuit measures {keys} before its end; only circuits that measure at "
                "their end are placed.",
            )
    kept = [cirq.I(qubit).with_tags(_KEPT) for qubit in sorted(circuit.all_qubits())]
    small = cirq.expand_composite(body, no_decomp=lambda op: cirq.num_qubits(op) <= 2)
    return cirq.Circuit(cirq.Moment(kept), small)
