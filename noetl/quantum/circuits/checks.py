"""What is found out about a circuit before it costs anything: one clear error each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import cirq

from noetl.errors import ToolError
from noetl.facts.nearest import did_you_mean, nearest
from noetl.quantum.circuits.figures import shorten
from noetl.quantum.config.task import Limits
from noetl.quantum.model import Capabilities, Point

_NAMED: Final = 5
_MB: Final = 1024 * 1024


def check_sound(circuit: cirq.AbstractCircuit) -> None:
    """Raises ToolError where a circuit has no operations, or acts on anything but qubits."""
    if not any(circuit):
        raise _refusal("EmptyCircuit", "The circuit has no operations; nothing can be run.")
    for qubit in circuit.all_qubits():
        if qubit.dimension != 2:
            raise _refusal(
                "Qudits",
                f"The circuit acts on {qubit}, which has {qubit.dimension} levels; only qubits, "
                "with 2, are known.",
            )


def check_symbols(circuit: cirq.AbstractCircuit, points: Sequence[Point]) -> None:
    """Every symbol has a value at every point, and every value a symbol. Raises ToolError that
    names them."""
    symbols = cirq.parameter_names(circuit)
    for point in points:
        given = point.params.keys()
        if given == symbols:
            continue
        if missing := sorted(symbols - given):
            raise _explain_missing(missing, sorted(given - symbols), point, len(points))
        raise _explain_needless(sorted(given - symbols), symbols)


def _explain_missing(missing: Sequence[str], others: Collection[str], point: Point, of: int) -> ToolError:
    where = f" at point {point.index} of `params`" if of > 1 else " in `params`"
    if len(missing) > 1:
        return _refusal("UnresolvedSymbols", f"The circuit's symbols {_join(missing)} have no value{where}.")
    near = nearest(missing[0], others)
    hint = f" Is '{near}' of `params` meant for it?" if near else ""
    return _refusal("UnresolvedSymbols", f"The circuit's symbol {_join(missing)} has no value{where}.{hint}")


def _explain_needless(names: Sequence[str], symbols: Collection[str]) -> ToolError:
    hint = did_you_mean(names[0], symbols)
    if not hint:
        hint = f" It has {_join(sorted(symbols))}." if symbols else " It has no symbols at all."
    listed = _join(names)
    return _refusal("UnknownSymbols", f"`params` has {listed}, and the circuit has no such symbol.{hint}")


def _join(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"'{name}'" for name in names[:_NAMED]) + more


def check_numbering(circuit: cirq.AbstractCircuit, idle: Sequence[cirq.Qid]) -> None:
    """Numbers in observables are places among the qubits on which a circuit acts. Raises ToolError
    (`ObservableError`) where one on which nothing acts stands before another, so that the author
    may have counted it."""
    last = max(circuit.all_qubits())
    if before := [str(qubit) for qubit in idle if qubit < last]:
        raise _refusal(
            "ObservableError",
            f"observables: nothing acts on {_join(before)}, so the numbers of the qubits behind "
            "would be others than those"
            " that were written; measure all qubits (`measure: true`), or leave those out.",
        )


def check_measures(circuit: cirq.AbstractCircuit) -> None:
    """Raises ToolError where a circuit measures nothing, or measures twice under one key."""
    keys = Counter(name for op in circuit.all_operations() for name in cirq.measurement_key_names(op))
    if not keys:
        raise _refusal(
            "NoMeasurement",
            "The circuit measures nothing, so nothing can be sampled; `measure: true` measures "
            "all qubits at its end.",
        )
    key, times = keys.most_common(1)[0]
    if times > 1:
        raise _refusal(
            "RepeatedKey",
            f"The circuit measures {times} times under the key '{key}'; give each measurement another key.",
        )


def check_clifford(circuit: cirq.AbstractCircuit) -> None:
    """Raises ToolError that names the first operation of a resolved circuit which no stabilizer
    simulation knows."""
    for number, moment in enumerate(circuit, 1):
        for op in moment:
            if not cirq.CliffordSimulator.is_supported_operation(op):
                raise _refusal(
                    "NotClifford",
                    f"{shorten(str(op))} in moment {number} is no Clifford operation, and the clifford "
                    "simulator knows no others;"
                    " use `backend: simulator`.",
                )


def check_size(
    circuit: cirq.AbstractCircuit, capabilities: Capabilities, limits: Limits, memory_mb: float | None = None
) -> None:
    """Raises ToolError(limit) where a circuit has more qubits than the task, the backend or the
    memory allows.

    `memory_mb` is what a state may take where `limits.max_memory_mb` does not say.
    """
    qubits = len(circuit.all_qubits())
    if limits.max_qubits is not None and qubits > limits.max_qubits:
        raise _too_many(qubits, f"{limits.max_qubits} are allowed (limits.max_qubits)")
    if capabilities.max_qubits is not None and qubits > capabilities.max_qubits:
        raise _too_many(qubits, f"{capabilities.provider} has {capabilities.max_qubits}")
    allowed = memory_mb if limits.max_memory_mb is None else limits.max_memory_mb
    needed = state_bytes(qubits, capabilities)
    if allowed is not None and needed is not None and needed > allowed * _MB:
        form = f"4^{qubits}" if capabilities.mixed else f"2^{qubits}"
        raise ToolError(
            "limit",
            f"The state of {qubits} qubits takes {form} × {capabilities.bytes_per_amplitude} bytes ="
            f" {_size(needed)}, and {_size(int(allowed * _MB))} are allowed (limits.max_memory_mb).",
            type="TooMuchMemory",
        )


def _too_many(qubits: int, bound: str) -> ToolError:
    return ToolError("limit", f"The circuit has {qubits} qubits, and {bound}.", type="TooManyQubits")


def state_bytes(qubits: int, capabilities: Capabilities) -> int | None:
    """What a simulated state takes in memory; None where there is none."""
    if capabilities.bytes_per_amplitude is None:
        return None
    return int(capabilities.bytes_per_amplitude) << (2 * qubits if capabilities.mixed else qubits)


def _size(count: int) -> str:
    size, unit = float(count), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if size < 1024 or unit == "EiB":
            break
        size /= 1024
    return f"{size:,.4g} {unit}" if size < 1e6 else f"{size:.3g} {unit}"


def _refusal(type: str, message: str) -> ToolError:
    return ToolError("client_error", message, type=type)
