"""What theory says that the quantum examples find, computed without NoETL, without Cirq, and from
nothing but their workloads.

python examples/quantum/figures.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from math import erf, exp, hypot, pi, sqrt
from typing import Any, Final

Edges = Sequence[Sequence[int]]

# --- CHSH ----------------------------------------------------------------------------------------


def one_qubit(p: float) -> float:
    """What a depolarizing channel on one qubit leaves of every Pauli matrix: `p` is the probability
    that one of X, Y, Z happens."""
    return 1 - 4 * p / 3


def two_qubits(p: float) -> float:
    """The same of the channel on two qubits, where one of 15 Pauli products happens."""
    return 1 - 16 * p / 15


def chsh(p: float) -> float:
    """S of a Bell state made by H and CNOT and measured behind one rotation each, every gate
    followed by its depolarizing channel. The channel behind H takes from XX and not from ZZ; the
    others take from both."""
    common = two_qubits(p) * one_qubit(p) ** 2
    return sqrt(2) * common * (1 + one_qubit(p))


# --- H2 ------------------------------------------------------------------------------------------

#: In angstrom.
BOHR: Final = 0.52917721090
#: STO-3G of hydrogen (zeta 1.24): exponents and coefficients (Szabo, Ostlund, Modern Quantum
#: Chemistry, table 3.8).
EXPONENTS: Final = (3.42525091, 0.62391373, 0.16885540)
COEFFICIENTS: Final = (0.15432897, 0.53532814, 0.44463454)

#: One Gaussian: factor, exponent, place on the axis.
Gauss = tuple[float, float, float]


def _boys(t: float) -> float:
    return 1 - t / 3 if t < 1e-9 else 0.5 * sqrt(pi / t) * erf(sqrt(t))


def _overlap(p: Gauss, q: Gauss) -> float:
    (c, a, x), (d, b, y) = p, q
    return c * d * (pi / (a + b)) ** 1.5 * exp(-a * b / (a + b) * (x - y) ** 2)


def _core(p: Gauss, q: Gauss, nuclei: Sequence[float]) -> float:
    """Kinetic energy, and attraction by the nuclei."""
    (c, a, x), (d, b, y) = p, q
    total, reduced = a + b, a * b / (a + b)
    kinetic = reduced * (3 - 2 * reduced * (x - y) ** 2) * _overlap(p, q)
    middle = (a * x + b * y) / total
    near = sum(_boys(total * (middle - z) ** 2) for z in nuclei)
    return kinetic - c * d * 2 * pi / total * exp(-reduced * (x - y) ** 2) * near


def _repulsion(p: Gauss, q: Gauss, r: Gauss, s: Gauss) -> float:
    """(pq|rs), in the order of chemists."""
    (c1, a, x1), (c2, b, x2), (c3, c, x3), (c4, d, x4) = p, q, r, s
    g, h = a + b, c + d
    left, right = (a * x1 + b * x2) / g, (c * x3 + d * x4) / h
    fall = exp(-a * b / g * (x1 - x2) ** 2 - c * d / h * (x3 - x4) ** 2)
    factor = c1 * c2 * c3 * c4 * 2 * pi**2.5 / (g * h * sqrt(g + h))
    return factor * fall * _boys(g * h / (g + h) * (left - right) ** 2)


def _summed(function: Callable[..., float], *shells: Sequence[Gauss]) -> float:
    return sum(function(*chosen) for chosen in product(*shells))


def h2(bond: float = 0.735) -> dict[str, float]:
    """The Hamiltonian of H2 in STO-3G at a bond length in angstrom, in hartree: the coefficients on
    two qubits (parity mapping, both symmetries taken out), the repulsion of the nuclei, and the
    exact energy of the ground state.

    Symmetry makes the orbitals, (1 + 2) and (1 - 2), and leaves a 2 x 2 matrix of full
    configuration interaction.
    """
    nuclei = (0.0, bond / BOHR)
    atoms = [
        [(c * (2 * a / pi) ** 0.75, a, place) for a, c in zip(EXPONENTS, COEFFICIENTS, strict=True)]
        for place in nuclei
    ]
    overlap = _summed(_overlap, *atoms)
    norms = (1 / sqrt(2 * (1 + overlap)), 1 / sqrt(2 * (1 - overlap)))
    orbitals = [
        [(sign * norm * c, a, x) for sign, atom in zip((1, sign), atoms, strict=True) for c, a, x in atom]
        for norm, sign in zip(norms, (1, -1), strict=True)
    ]
    lower, upper = orbitals
    one = [_summed(lambda p, q: _core(p, q, nuclei), orbital, orbital) for orbital in orbitals]
    both_low = 2 * one[0] + _summed(_repulsion, lower, lower, lower, lower)
    both_high = 2 * one[1] + _summed(_repulsion, upper, upper, upper, upper)
    apart = sum(one) + _summed(_repulsion, lower, lower, upper, upper)
    exchange = _summed(_repulsion, lower, upper, lower, upper)
    middle = (both_low + both_high) / 2
    electrons = middle - hypot((both_high - both_low) / 2, exchange)
    return {
        "I": (middle + apart) / 2,
        "Z0": (both_high - both_low) / 4,
        "Z1": -(both_high - both_low) / 4,
        "Z0 Z1": (apart - middle) / 2,
        "X0 X1": exchange,
        "repulsion": 1 / nuclei[1],
        "energy": electrons + 1 / nuclei[1],
    }


# --- MaxCut --------------------------------------------------------------------------------------


def largest_cut(edges: Edges) -> int:
    """Over all partitions."""
    size = max(max(edge) for edge in edges) + 1
    return max(cut(edges, bits) for bits in product("01", repeat=size))


def cut(edges: Edges, bits: Sequence[str]) -> int:
    return sum(bits[one] != bits[other] for one, other in edges)


def qaoa_mean(edges: Edges, degree: int) -> float:
    """The largest mean cut of QAOA at depth one on a regular graph without triangles (Wang,
    Hadfield, Jiang, Rieffel, Phys. Rev. A 97, 022304 (2018), equation 25)."""
    return len(edges) * (0.5 + 0.5 / sqrt(degree) * (1 - 1 / degree) ** ((degree - 1) / 2))


# --- noise ---------------------------------------------------------------------------------------


def survival(rate: float, length: int) -> float:
    """How likely a benchmarking sequence of `length` Clifford gates and their inverse ends where it
    began."""
    return 0.5 + 0.5 * one_qubit(rate) ** (length + 1)


def correlation(p: float, depth: int) -> float:
    """<ZZ> of two qubits behind `depth` CNOT gates, each with its depolarizing channel."""
    return two_qubits(p) ** depth


# --- all of it -----------------------------------------------------------------------------------

PETERSEN: Final = [
    *([one, (one + 1) % 5] for one in range(5)),
    *([one, one + 5] for one in range(5)),
    *([5 + one, 5 + (one + 2) % 5] for one in range(5)),
]


def all_of_it() -> dict[str, Any]:
    return {
        "chsh": {str(p): chsh(p) for p in (0, 0.05, 0.15)},
        "h2": h2(),
        "petersen": {"largest_cut": largest_cut(PETERSEN), "qaoa_mean": qaoa_mean(PETERSEN, 3)},
        "survival": {str(length): survival(0.01, length) for length in (1, 5, 10, 20, 40, 80)},
        "least_correlation": correlation(0.05, 20),
    }


if __name__ == "__main__":
    print(json.dumps(all_of_it(), indent=2))
