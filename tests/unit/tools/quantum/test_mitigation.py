"""Mitigation: what is known of readout errors is taken out, and pulses change nothing but the
noise."""

from __future__ import annotations

import cirq
import numpy as np
import pytest

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.quantum.backends.local import simulator
from noetl.quantum.circuits.observables import KEY, Basis, bases, measure_in
from noetl.quantum.circuits.observables import parse as observables_of
from noetl.quantum.config.task import Backend
from noetl.quantum.model import CircuitRun, Measurement, Samples
from noetl.quantum.simulation.means import from_samples
from noetl.quantum.simulation.mitigation import (
    Calibrate,
    ConfusionMatrices,
    MitigationPlan,
    calibrations,
    decouple,
    mitigate,
    parse,
    read_calibration,
)
from noetl.quantum.simulation.noise import add_noise
from noetl.quantum.simulation.sampling import seed_of

QUBITS = cirq.LineQubit.range(3)
MISREAD = {"readout": {"p01": 0.08, "p10": 0.2}}
#: Unequal populations, and correlations.
CIRCUIT = cirq.Circuit(cirq.ry(1.0).on(QUBITS[0]), cirq.CX(*QUBITS[:2]), cirq.ry(0.4).on(QUBITS[2]))
WHOLE = CIRCUIT + cirq.measure(*QUBITS, key="m")


def sampled(circuit: cirq.Circuit, repetitions: int, place: int = 0) -> Samples:
    backend = simulator(Backend())
    assert backend is not None
    return backend.sample(CircuitRun("p0", 0, add_noise(circuit, MISREAD), repetitions, seed_of(11, place)))


def readout_of(spec: Json) -> ConfusionMatrices:
    found = parse({"readout": spec}).readout
    assert isinstance(found, ConfusionMatrices)
    return found


def exact() -> dict[str, float]:
    chances = abs(CIRCUIT.final_state_vector()) ** 2
    return {f"{place:03b}": float(chance) for place, chance in enumerate(chances)}


def distance(found: dict[str, float]) -> float:
    """Total variation."""
    return sum(abs(found.get(text, 0) - chance) for text, chance in exact().items()) / 2


def test_a_known_confusion_matrix_gives_the_distribution_back() -> None:
    samples = sampled(WHOLE, 20000)

    raw = {text: count / 20000 for text, count in samples.counts.items()}
    found = mitigate(samples, readout_of({"p01": 0.08, "p10": 0.2}))

    assert distance(raw) > 0.1
    assert distance(found) < 0.02
    assert sum(found.values()) == pytest.approx(1)
    assert min(found.values()) > 0


def test_what_is_exact_is_given_back_exactly() -> None:
    matrix = np.array([[0.9, 0.1], [0.25, 0.75]])
    true = np.array([0.5, 0.125, 0.0, 0.375])
    read = true @ np.kron(matrix, matrix)
    samples = Samples(
        (Measurement("m", ("a", "b")),),
        {f"{place:02b}": round(chance * 64000) for place, chance in enumerate(read)},
    )

    found = mitigate(samples, readout_of({"matrix": matrix.tolist()}))

    assert [found.get(f"{place:02b}", 0) for place in range(4)] == pytest.approx(true, abs=1e-4)


def test_quasi_probabilities_below_zero_go_to_the_nearest_distribution() -> None:
    # The inverse of [[0.8, 0.2], [0.2, 0.8]] on (1, 0): (4/3, -1/3).
    samples = Samples((Measurement("m", ("a",)),), {"0": 10})

    assert mitigate(samples, readout_of({"p01": 0.2, "p10": 0.2})) == {"0": 1.0}


def test_each_qubit_has_its_own_matrix() -> None:
    samples = Samples((Measurement("x", ("a",)), Measurement("y", ("b",))), {"10": 4})
    swapped = [[0.0, 1.0], [1.0, 0.0]]
    kept = [[1.0, 0.0], [0.0, 1.0]]

    assert mitigate(samples, readout_of({"matrix": {"a": swapped, "b": kept}})) == {"00": 1.0}
    with pytest.raises(ToolError, match="no matrix of the qubit b; there are those of a"):
        mitigate(samples, readout_of({"matrix": {"a": swapped}}))


def test_calibration_finds_the_errors_of_every_measured_qubit() -> None:
    zeros, ones = calibrations(WHOLE)

    found = read_calibration(sampled(zeros, 20000, 1), sampled(ones, 20000, 2))

    assert list(found.by_qubit) == ["q(0)", "q(1)", "q(2)"]
    for matrix in found.by_qubit.values():
        assert matrix == pytest.approx(np.array([[0.92, 0.08], [0.2, 0.8]]), abs=5 * np.sqrt(0.16 / 20000))
    assert distance(mitigate(sampled(WHOLE, 20000), found)) < 0.02
    assert readout_of(dict(found.as_json())).signs("q(0)") == pytest.approx(found.signs("q(0)"))


def test_expectation_values_are_mitigated_with_honest_errors() -> None:
    observables = observables_of({"zz": "Z0 Z1", "e": {"X0 X1 Z2": 0.5, "Z2": -1, "Z0": 0.3, "I": 2}}, 3)
    backend = simulator(Backend(precision="double"))
    assert backend is not None
    truth = backend.expect(CIRCUIT, observables)
    taken = [
        (basis, sampled(measure_in(CIRCUIT, basis, QUBITS), 20000, number))
        for number, basis in enumerate(bases(observables))
    ]

    raw = from_samples(observables, taken)
    found = from_samples(observables, taken, readout_of({"p01": 0.08, "p10": 0.2}))

    for true, one, before in zip(truth, found, raw, strict=True):
        assert one.stderr is not None
        assert before.stderr is not None
        assert abs(before.mean - true) > 10 * before.stderr
        assert abs(one.mean - true) < 4 * one.stderr
        assert one.stderr > before.stderr


def test_expectation_values_of_many_qubits_are_mitigated_without_all_bitstrings() -> None:
    names = tuple(f"q{number}" for number in range(40))
    samples = Samples((Measurement(KEY, names),), {"0" * 40: 3, "1" * 40: 3})
    basis = Basis(tuple((number, "Z") for number in range(40)))
    readout = readout_of({"p01": 0.1, "p10": 0.1})

    (mean,) = from_samples(observables_of(["Z0 Z39"], 40), [(basis, samples)], readout)

    assert mean.mean == pytest.approx(1 / 0.8**2)
    with pytest.raises(ToolError, match="40 bits is too large") as caught:
        mitigate(samples, readout)
    assert caught.value.kind == "limit"


@pytest.mark.parametrize("schema", ["DEFAULT", "XX_PAIR", "X_XINV", "YY_PAIR", "Y_YINV"])
def test_dynamical_decoupling_fills_gaps_and_changes_no_state(schema: str) -> None:
    a, b, c = QUBITS
    circuit = cirq.Circuit(
        cirq.Moment(cirq.H.on_each(a, b, c)),
        cirq.Moment(cirq.CZ(a, b)),
        *(cirq.Moment(cirq.ry(0.3).on(a)) for _ in range(4)),
        cirq.Moment(cirq.CZ(b, c), cirq.H(a)),
        cirq.Moment(cirq.H.on_each(a, b, c)),
        cirq.Moment(cirq.measure(a, b, c, key="m")),
    )

    filled = decouple(circuit, parse({"dynamical_decoupling": schema}).decoupling)

    assert len(list(filled.all_operations())) > len(list(circuit.all_operations()))
    states = [
        cirq.drop_terminal_measurements(one).final_state_vector(qubit_order=QUBITS)
        for one in (circuit, filled)
    ]
    assert abs(np.vdot(*states)) == pytest.approx(1, abs=1e-5)
    assert decouple(circuit, None) == circuit


def test_a_decoupled_circuit_keeps_what_constant_dephasing_takes() -> None:
    a, b = QUBITS[:2]
    waits = [cirq.Moment(cirq.X(b)) for _ in range(4)]
    circuit = cirq.Circuit(cirq.Moment(cirq.H.on_each(a, b)), *waits, cirq.Moment(cirq.H.on_each(a, b)))
    drift = cirq.Z(a) ** 0.1

    def kept(whole: cirq.Circuit) -> float:
        drifting = cirq.Circuit(one for moment in whole for one in (moment, cirq.Moment(drift)))
        return float(abs(drifting.final_state_vector(qubit_order=[a, b]).reshape(2, 2)[0]).max())

    assert kept(decouple(circuit, "XX_PAIR")) > kept(circuit) + 0.1


def test_a_spec_is_read() -> None:
    assert parse({}) == MitigationPlan()
    assert parse(
        {"readout": {"calibrate": 500}, "dynamical_decoupling": True, "vendor": {"debias": True}}
    ) == MitigationPlan(Calibrate(500), "DEFAULT", {"debias": True})
    assert parse({"dynamical_decoupling": False}).decoupling is None


def test_nothing_that_is_measured_is_nothing_to_calibrate() -> None:
    with pytest.raises(ToolError, match="nothing is measured; exact expectation values have no errors"):
        calibrations(cirq.Circuit(cirq.X(cirq.LineQubit(0))))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"readouts": {}}, r"mitigation.readouts: is unknown.*Did you mean 'readout'"),
        ({"readout": 0.1}, "mitigation.readout: is {matrix}"),
        ({"readout": {"matrix": [[1, 0], [0, 1]], "p01": 0.1}}, "mitigation.readout: is {matrix}"),
        ({"readout": {"p01": 1.5}}, "mitigation.readout.p01: a probability"),
        ({"readout": {"p01": 0.5, "p10": 0.5}}, "0 and 1 are read alike"),
        ({"readout": {"calibrate": 0}}, "mitigation.readout.calibrate: is a number of repetitions"),
        ({"readout": {"matrix": [[0.9, 0.2], [0.1, 0.8]]}}, "do not add up to 1"),
        ({"readout": {"matrix": {"a": [[1, 0]]}}}, "mitigation.readout.matrix.a: is"),
        ({"readout": {"matrix": {}}}, "mitigation.readout.matrix: is"),
        ({"readout": {"matrix": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}}, "mitigation.readout.matrix: is"),
        (
            {"readout": {"matrix": [[float("nan"), 0], [0, 1]]}},
            "a probability is a number from 0 to 1, not nan",
        ),
        ({"readout": {"matrix": [[1.1, -0.1], [0, 1]]}}, "a probability is a number from 0 to 1, not 1.1"),
        ({"readout": {"calibrate": True}}, "is a number of repetitions, from 1 on, not True"),
        ({"readout": {"calibrate": 1.5}}, "is a number of repetitions, from 1 on, not 1.5"),
        ({"readout": {"matrix": "x"}}, "mitigation.readout.matrix: is"),
        ({"dynamical_decoupling": "XY4"}, "mitigation.dynamical_decoupling: is one of DEFAULT, XX_PAIR"),
        ({"dynamical_decoupling": ["X"]}, "mitigation.dynamical_decoupling: is one of"),
        ({"vendor": True}, "mitigation.vendor: is a mapping"),
    ],
)
def test_anything_but_mitigation_is_refused_with_its_key(spec: dict[str, Json], message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        parse(spec)

    assert (caught.value.kind, caught.value.type) == ("client_error", "MitigationError")
