"""Simulators of the worker: the same seed yields the same bits wherever it runs, and refusals are
clear."""

from __future__ import annotations

import hashlib
import itertools
from concurrent.futures import ThreadPoolExecutor

import cirq
import numpy as np
import pytest

from noetl.errors import ToolError
from noetl.quantum.backends.local import PROVIDERS, Simulator, simulator
from noetl.quantum.circuits.observables import parse
from noetl.quantum.config.task import Backend
from noetl.quantum.model import CircuitRun
from noetl.quantum.simulation.noise import add_noise

# Names hash differently in each process.
QUBITS = [cirq.NamedQubit(name) for name in ("alice", "bob", "carol", "dave")]
A, B, C, D = QUBITS


def opened(provider: str, **keys: object) -> Simulator:
    found = simulator(Backend(provider=provider, **keys))  # type: ignore[arg-type]
    assert found is not None
    return found


def clifford_circuit() -> cirq.Circuit:
    return cirq.Circuit(
        cirq.H(A),
        cirq.CX(A, B),
        cirq.H(C),
        cirq.CX(C, D),
        cirq.CZ(B, C),
        cirq.H(D),
        cirq.measure(*QUBITS, key="m"),
    )


def circuits() -> dict[str, tuple[str, cirq.Circuit]]:
    """By name: the provider, and a circuit in which something is random beyond the last
    measurement."""
    plain = clifford_circuit()
    rotated = cirq.Circuit(cirq.rx(0.3).on_each(*QUBITS), plain)
    early = cirq.Circuit(cirq.H(A), cirq.measure(A, key="k"), cirq.H(A), cirq.measure(A, key="k"))
    controlled = cirq.Circuit(
        cirq.H(A),
        cirq.measure(A, key="k"),
        cirq.X(B).with_classical_controls("k"),
        cirq.H(C),
        cirq.measure(B, C, key="m"),
    )
    noise = {"depolarize": 0.1, "readout": {"p01": 0.1, "p10": 0.3}}
    return {
        "pure": ("simulator", rotated),
        "pure, early": ("simulator", early),
        "pure, controlled": ("simulator", controlled),
        "pure, noisy": ("simulator", add_noise(rotated, [noise, {"amplitude_damping": 0.2}])),
        "pure, noisy, controlled": ("simulator", add_noise(controlled, noise)),
        "density": ("density_matrix", add_noise(rotated, [noise, {"amplitude_damping": 0.2}])),
        "density, controlled": ("density_matrix", add_noise(controlled, noise)),
        "clifford": ("clifford", plain),
        "clifford, noisy": ("clifford", add_noise(plain, noise)),
        "clifford, controlled": ("clifford", add_noise(controlled, noise)),
        "qsim": ("qsim", rotated),
        "qsim, early": ("qsim", early),
        "qsim, noisy": ("qsim", add_noise(rotated, [noise, {"amplitude_damping": 0.2}])),
    }


def digest(name: str) -> str:
    provider, circuit = circuits()[name]
    samples = opened(provider).sample(CircuitRun("p0", 0, circuit, 20, 2**62 + 11))
    assert samples.bits is not None
    return hashlib.sha256(samples.bits.tobytes()).hexdigest()


def all_digests() -> dict[str, str]:
    return {name: digest(name) for name in circuits()}


def test_the_same_seed_yields_the_same_bits_in_every_thread() -> None:
    here = all_digests()
    with ThreadPoolExecutor(4) as pool:
        threads = list(pool.map(digest, here))

    assert threads == list(here.values())


def test_the_generator_of_the_process_is_neither_used_nor_changed() -> None:
    np.random.seed(1)
    before = np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]

    first = all_digests()

    assert np.random.get_state()[1].tolist() == before  # type: ignore[index, union-attr]
    np.random.seed(2)
    assert all_digests() == first


@pytest.mark.parametrize("name", list(circuits()))
def test_another_seed_yields_other_bits(name: str) -> None:
    provider, circuit = circuits()[name]
    one, other = (opened(provider).sample(CircuitRun("p0", 0, circuit, 40, seed)) for seed in (1, 2))

    assert one.counts != other.counts
    assert one.repetitions == other.repetitions == 40


def test_bits_of_qsim_do_not_depend_on_other_circuits_that_it_ran() -> None:
    backend = opened("qsim", options={"cpu_threads": 2})
    order = CircuitRun("p0", 0, circuits()["qsim"][1], 60, 5)

    first = backend.sample(order).counts
    backend.sample(CircuitRun("p1", 1, circuits()["qsim, early"][1], 7, 6))

    assert backend.sample(order).counts == first


@pytest.mark.parametrize("provider", list(PROVIDERS))
def test_all_simulators_agree_on_a_clifford_circuit(provider: str) -> None:
    circuit = clifford_circuit()
    observables = parse(
        {
            "a": "X0 X1",
            "b": "Z0 Z1 Z2",
            "c": {"Y0 X1 Y2 Z3": 0.3, "Z2 X3": -1, "X0 X1 Z2": 2, "I": 0.5},
            "d": "Z3",
        },
        4,
    )
    exact = opened("simulator", precision="double").expect(circuit, observables)

    assert opened(provider).expect(circuit, observables) == pytest.approx(exact, abs=1e-5)
    state = opened(provider).state(circuit)
    pure = opened("simulator").state(circuit)
    assert state.shape == ((16, 16) if provider == "density_matrix" else (16,))
    overlap = pure.conj() @ state @ pure if state.ndim == 2 else abs(pure.conj() @ state) ** 2
    assert overlap == pytest.approx(1, abs=1e-5)


def test_exact_means_of_clifford_circuits_are_those_of_the_state_vector() -> None:
    gates = [cirq.H, cirq.S, cirq.X**0.5, cirq.Y**-0.5, cirq.S**-1, cirq.CX, cirq.CZ, cirq.ISWAP, cirq.SWAP]
    rng = np.random.RandomState(3)
    observables = parse(["XXXX", "YZXI", "ZZII", "IYYI", "ZIIZ", "IXIY", "ZIII", "IIYI"], 4)
    seen: set[int] = set()
    for _ in range(10):
        circuit = cirq.Circuit(cirq.I.on_each(*QUBITS))
        for _ in range(12):
            gate = gates[rng.randint(len(gates))]
            picked = [QUBITS[place] for place in rng.permutation(4)[: cirq.num_qubits(gate)]]
            circuit.append(gate.on(*picked))
        exact = opened("simulator", precision="double").expect(circuit, observables)
        assert opened("clifford").expect(circuit, observables) == pytest.approx(exact, abs=1e-6)
        seen |= {round(value) for value in exact}
    assert seen == {-1, 0, 1}


def test_the_clifford_simulator_takes_circuits_no_state_vector_could_hold() -> None:
    qubits = cirq.LineQubit.range(80)
    circuit = cirq.Circuit(
        cirq.H(qubits[0]),
        [cirq.CX(*pair) for pair in itertools.pairwise(qubits)],
        cirq.measure(*qubits, key="m"),
    )

    assert opened("clifford").expect(circuit, parse(["Z0 Z79", "Z0", "X" * 80], 80)) == [1, 0, 1]
    assert set(opened("clifford").sample(CircuitRun("p0", 0, circuit, 10, 3)).counts) == {"0" * 80, "1" * 80}


def test_observables_number_the_qubits_that_they_are_given() -> None:
    circuit = cirq.Circuit(cirq.X(A), cirq.measure(A, B, key="m"))

    for provider in PROVIDERS:
        # B is measured only, and goes with its measurement: it still has its number.
        assert opened(provider).expect(circuit, parse(["Z0", "Z1"], 2)) == pytest.approx([-1, 1])
        assert opened(provider).expect(circuit, parse(["Z0", "Z1"], 2), [B, A]) == pytest.approx([1, -1])


@pytest.mark.parametrize("provider", ["simulator", "qsim"])
@pytest.mark.parametrize(
    "circuit",
    [
        cirq.Circuit(cirq.H(A), cirq.depolarize(0.1).on(A)),
        cirq.Circuit(cirq.H(A), cirq.measure(A, key="k"), cirq.H(A)),
        cirq.Circuit(cirq.measure(A, key="k"), cirq.X(B).with_classical_controls("k")),
        cirq.Circuit(cirq.H(A), cirq.reset(A)),
    ],
)
def test_a_pure_simulator_has_no_exact_mean_of_a_mixed_state(provider: str, circuit: cirq.Circuit) -> None:
    with pytest.raises(ToolError, match="density_matrix") as caught:
        opened(provider).expect(circuit, parse(["Z0"], 1))

    assert (caught.value.kind, caught.value.type) == ("client_error", "NotPure")


def test_a_density_matrix_averages_over_measurements_before_the_end() -> None:
    circuit = cirq.Circuit(cirq.H(A), cirq.measure(A, key="k"), cirq.H(A))

    assert opened("density_matrix").expect(circuit, parse(["X0", "Z0"], 1)) == pytest.approx([0, 0], abs=1e-6)
    controlled = cirq.Circuit(cirq.measure(A, key="k"), cirq.X(B).with_classical_controls("k"))
    with pytest.raises(ToolError, match="estimator: sampled"):
        opened("density_matrix").expect(controlled, parse(["Z0"], 2))


def test_what_measures_before_the_end_is_averaged_as_what_it_is() -> None:
    product = cirq.measure_single_paulistring(cirq.X(A) * cirq.X(B), key="k")
    flips = [np.sqrt(0.75) * np.eye(2), np.sqrt(0.25) * cirq.unitary(cirq.X)]
    bell = cirq.Circuit(cirq.H(A), cirq.CX(A, B))
    backend = opened("density_matrix")

    # A Bell state is an eigenstate of XX, and stays; from zeros ZZ stays and Z does not.
    assert backend.expect(bell + product, parse(["XX", "ZZ"], 2)) == pytest.approx([1, 1], abs=1e-6)
    zeros = cirq.Circuit(cirq.I.on_each(A, B), product, cirq.I(A))
    assert backend.expect(zeros, parse(["ZZ", "Z0", "XX"], 2)) == pytest.approx([1, 0, 0], abs=1e-6)
    keyed = cirq.Circuit(cirq.KrausChannel(flips, key="k").on(A), cirq.H(A), cirq.H(A))
    assert backend.expect(keyed, parse(["Z0"], 1)) == pytest.approx([0.5], abs=1e-6)


@pytest.mark.parametrize("provider", ["simulator", "density_matrix", "clifford"])
def test_pauli_products_are_measured(provider: str) -> None:
    product = cirq.measure_single_paulistring(cirq.X(A) * cirq.X(B), key="k")
    circuit = cirq.Circuit(cirq.H(A), cirq.CX(A, B), cirq.Z(A), product)

    samples = opened(provider).sample(CircuitRun("p0", 0, circuit, 5, 1))

    assert samples.counts == {"1": 5}


def test_a_simulator_that_passes_over_a_key_refuses() -> None:
    channel = cirq.KrausChannel([np.sqrt(0.5) * np.eye(2), np.sqrt(0.5) * np.diag([1, -1])], key="k")
    circuit = cirq.Circuit(cirq.H(A), channel.on(A), cirq.measure(A, key="m"))

    with pytest.raises(ToolError, match="density_matrix does not tell what was measured as k"):
        opened("density_matrix").sample(CircuitRun("p0", 0, circuit, 5, 1))


def test_clifford_refuses_anything_else() -> None:
    circuit = cirq.Circuit(cirq.T(A), cirq.measure(A, key="m"))

    with pytest.raises(ToolError, match="T") as caught:
        opened("clifford").sample(CircuitRun("p0", 0, circuit, 1, 1))
    assert caught.value.type == "NotClifford"
    with pytest.raises(ToolError, match="moment 1 is no Clifford gate"):
        opened("clifford").expect(circuit, parse(["Z0"], 1))
    damped = add_noise(cirq.Circuit(cirq.X(A), cirq.measure(A, key="m")), {"amplitude_damping": 0.1})
    with pytest.raises(ToolError, match="amplitude_damp") as caught:
        opened("clifford").sample(CircuitRun("p0", 0, damped, 1, 1))
    assert caught.value.type == "NotClifford"


def test_qsim_says_what_it_cannot_run() -> None:
    controlled = cirq.Circuit(
        cirq.measure(A, key="k"), cirq.X(B).with_classical_controls("k"), cirq.measure(B, key="m")
    )

    with pytest.raises(ToolError, match="depends on a measurement, which qsim cannot do"):
        opened("qsim").sample(CircuitRun("p0", 0, controlled, 1, 1))


def test_options_and_precision_are_checked() -> None:
    with pytest.raises(
        ToolError, match=r"backend.options.cpu_thread: qsim knows no such option.*'cpu_threads'"
    ):
        opened("qsim", options={"cpu_thread": 2})
    with pytest.raises(ToolError, match="simulator knows no such option; it has none"):
        opened("simulator", options={"cpu_threads": 2})
    for value in (0, True, "2", 10**6):
        with pytest.raises(ToolError, match="whole number from 1 to"):
            opened("qsim", options={"cpu_threads": value})
    with pytest.raises(ToolError, match="single precision only"):
        opened("qsim", precision="double")


def test_capabilities_tell_memory_and_versions() -> None:
    assert opened("simulator").capabilities().bytes_per_amplitude == 8
    assert opened("simulator", precision="double").capabilities().bytes_per_amplitude == 16
    assert opened("density_matrix").capabilities().mixed
    assert opened("clifford").capabilities().clifford_only
    assert opened("clifford").capabilities().bytes_per_amplitude is None
    assert set(opened("qsim").capabilities().versions) == {"cirq", "numpy", "qsim"}
    assert simulator(Backend(provider="ionq")) is None


@pytest.mark.parametrize("provider", list(PROVIDERS))
@pytest.mark.parametrize("early", [False, True])
def test_readout_errors_are_of_the_bit_before_its_inversion(provider: str, early: bool) -> None:
    inverted = cirq.measure(A, key="m", invert_mask=(True,))
    circuit = add_noise(
        cirq.Circuit(inverted, [cirq.X(A)] if early else []), {"readout": {"p01": 0.25, "p10": 0}}
    )

    samples = opened(provider).sample(CircuitRun("p0", 0, circuit, 1000, 9))

    # The bit is 0, read as 1 a quarter of the time, and then inverted: 5 deviations.
    assert samples.counts["0"] / 1000 == pytest.approx(0.25, abs=5 * np.sqrt(0.25 * 0.75 / 1000))


def test_a_gate_sees_the_readout_error_that_it_depends_on() -> None:
    circuit = add_noise(
        cirq.Circuit(
            cirq.measure(A, key="k"), cirq.X(B).with_classical_controls("k"), cirq.measure(B, key="m")
        ),
        {"readout": {"p01": 1, "p10": 1}},
    )

    assert opened("simulator").sample(CircuitRun("p0", 0, circuit, 20, 1)).counts == {"10": 20}


def test_errors_of_several_bits_at_once_are_read_big_endian() -> None:
    swapped = np.eye(4)[[0, 2, 1, 3]]
    gate = cirq.MeasurementGate(3, key="m", confusion_map={(2, 0): swapped})
    circuit = cirq.Circuit(cirq.X(A), gate.on(A, B, C))

    for provider in PROVIDERS:
        assert opened(provider).sample(CircuitRun("p0", 0, circuit, 5, 1)).counts == {"001": 5}
