"""Exact means of Pauli strings in the states of Clifford circuits, many strings at once.

Aaronson, Gottesman, Phys. Rev. A 70, 052328 (2004): a string that does not commute with every stabilizer of the state has the
mean 0; any other is, but for its sign, the product of those stabilizers whose destabilizers it does not commute with.
"""

from __future__ import annotations

from collections.abc import Sequence

import cirq
import numpy as np
from numpy.typing import NDArray

from noetl.quantum.circuits.observables import Factors, Observable

Bits = NDArray[np.int64]


def means(
    circuit: cirq.Circuit, observables: Sequence[Observable], qubits: Sequence[cirq.Qid]
) -> list[float]:
    """The means of observables in the state that a circuit of Clifford gates makes of zeros. Raises TypeError where Cirq cannot
    take a gate of it for one."""
    tableau = cirq.CliffordGate.from_op_list(list(circuit.all_operations()), qubits).clifford_tableau
    strings = list(dict.fromkeys(factors for one in observables for _, factors in one.terms))
    signs = dict(zip(strings, _signs(tableau, *_rows(strings, len(qubits))).tolist(), strict=True))
    return [
        float(sum(coefficient * signs[factors] for coefficient, factors in one.terms)) for one in observables
    ]


def _rows(strings: Sequence[Factors], qubits: int) -> tuple[Bits, Bits]:
    """Where each string has X, and where it has Z; Y is both. Shape (strings, qubits)."""
    xs, zs = (np.zeros((len(strings), qubits), dtype=np.int64) for _ in "XZ")
    for row, factors in enumerate(strings):
        for place, letter in factors:
            xs[row, place] = letter != "Z"
            zs[row, place] = letter != "X"
    return xs, zs


def _signs(tableau: cirq.CliffordTableau, xs: Bits, zs: Bits) -> Bits:
    """The mean of each string: 1, -1 or 0."""
    n = tableau.n
    all_xs, all_zs, minus = (one.astype(np.int64) for one in (tableau.xs, tableau.zs, tableau.rs))
    # Which of the 2n generators, destabilizers first, each string does not commute with.
    against = (xs @ all_zs.T + zs @ all_xs.T) % 2
    chosen, x, z = against[:, :n], all_xs[n:], all_zs[n:]
    # Phases as powers of i, with every string as i^k X^x Z^z: Y is i·X·Z, and Z·X is -X·Z.
    own = 2 * minus[n:] + (x * z).sum(axis=1)
    crossed = ((chosen @ np.triu(z @ x.T, 1)) * chosen).sum(axis=1)
    phase = (xs * zs).sum(axis=1) - chosen @ own - 2 * crossed
    return np.where(against[:, n:].any(axis=1), 0, 1 - phase % 4)
