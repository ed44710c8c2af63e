"""Bitstrings, their order, and seeds."""

from __future__ import annotations

import itertools

import cirq
import numpy as np
import pytest

from noetl.errors import ToolError
from noetl.quantum.circuits.measurements import measurements_of
from noetl.quantum.model import Measurement, Samples
from noetl.quantum.simulation.sampling import (
    count_bitstrings,
    draw_seed,
    histogram,
    merge,
    samples_of,
    seed_of,
)

A, B, C = cirq.LineQubit.range(3)


def test_bits_are_in_the_order_of_keys_not_of_moments() -> None:
    # c_1 is measured first, and c_10 would come before c_2 as text.
    circuit = cirq.Circuit(
        cirq.measure(B, key="c_1"), cirq.X(A), cirq.measure(A, key="c_10"), cirq.measure(C, key="c_2")
    )

    assert [one.key for one in measurements_of(circuit)] == ["c_1", "c_2", "c_10"]
    samples = samples_of(circuit, cirq.Simulator(seed=1).run(circuit, repetitions=3).records)
    assert samples.counts == {"001": 3}
    assert samples.measured == measurements_of(circuit)


def test_a_key_that_is_measured_twice_has_a_number() -> None:
    circuit = cirq.Circuit(cirq.measure(A, key="m"), cirq.X(A), cirq.measure(A, key="m"))

    assert measurements_of(circuit) == (Measurement("m[0]", ("q(0)",)), Measurement("m[1]", ("q(0)",)))
    samples = samples_of(circuit, cirq.Simulator(seed=1).run(circuit, repetitions=5).records)
    assert samples.counts == {"01": 5}
    assert samples.measured == measurements_of(circuit)


def test_measurements_of_subcircuits_and_of_pauli_products_are_reported() -> None:
    inner = cirq.CircuitOperation(
        cirq.FrozenCircuit(cirq.X(A), cirq.measure(A, key="m")), repetitions=2, use_repetition_ids=False
    )
    circuit = cirq.Circuit(inner, cirq.PauliMeasurementGate([cirq.Z, cirq.Z], key="parity").on(B, C))

    assert measurements_of(circuit) == (
        Measurement("m[0]", ("q(0)",)),
        Measurement("m[1]", ("q(0)",)),
        Measurement("parity", ("q(1)*q(2)",)),
    )
    samples = samples_of(circuit, cirq.Simulator(seed=1).run(circuit, repetitions=2).records)
    assert samples.counts == {"100": 2}
    assert samples.measured == measurements_of(circuit)


def test_a_loop_until_a_condition_holds_is_refused() -> None:
    # Cirq pads its shorter records with zeros that nobody measured.
    until = cirq.CircuitOperation(
        cirq.FrozenCircuit(cirq.H(A), cirq.measure(A, key="m")),
        use_repetition_ids=False,
        repeat_until=cirq.KeyCondition(cirq.MeasurementKey("m")),
    )

    with pytest.raises(ToolError, match="not known before it runs"):
        measurements_of(cirq.Circuit(until))


def test_counts_are_sorted_and_those_of_more_than_64_bits_are_right() -> None:
    bits = np.zeros((4, 70), dtype=np.uint8)
    bits[1:, 0] = 1
    bits[3, 69] = 1

    assert count_bitstrings(bits) == {"0" * 70: 1, "1" + "0" * 69: 2, "1" + "0" * 68 + "1": 1}


def test_parts_add_up_in_their_order() -> None:
    parts = [
        Samples((Measurement("m", ("a",)),), count_bitstrings(bits), bits)
        for bits in (np.array([[1], [0]], dtype=np.uint8), np.array([[1]], dtype=np.uint8))
    ]

    whole = merge(parts)

    assert histogram(whole) == {"0": 1, "1": 2}
    assert whole.repetitions == 3
    assert whole.bits is not None
    assert whole.bits.tolist() == [[1], [0], [1]]
    assert merge([parts[0], Samples(parts[1].measured, {"1": 1, "0": 0})]).bits is None


def test_a_histogram_leaves_out_what_never_came() -> None:
    assert list(histogram(Samples((), {"11": 2, "01": 0, "00": 1})).items()) == [("00", 1), ("11", 2)]


def test_seeds_of_places_differ_and_are_pinned() -> None:
    places = [(), *itertools.product(range(20)), *itertools.product(range(20), range(20))]
    seeds = [seed_of(seed, *place) for seed in (0, 1, 2**62) for place in places]

    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    # Results that were recorded long ago are verified with these.
    assert seed_of(7, 3, 1, 0) == 3904798815498249407
    assert draw_seed("x") == 4041862298048792005
