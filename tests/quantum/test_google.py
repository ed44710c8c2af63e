"""Google's processors as they are simulated in the worker."""

from __future__ import annotations

import cirq
import pytest

from noetl.errors import ToolError
from noetl.quantum.backends.google import Google
from noetl.quantum.config.task import Backend
from noetl.quantum.model import CircuitRun

A, B = cirq.GridQubit(4, 1), cirq.GridQubit(4, 2)
TURN = cirq.PhasedXPowGate(phase_exponent=0.5, exponent=0.5)
BELL = cirq.Circuit(TURN(A), TURN(B), cirq.CZ(A, B), (TURN**-1)(B), cirq.measure(A, B, key="m"))


def backend(**more: object) -> Google:
    return Google(Backend.model_validate({"provider": "google", "target": "rainbow", **more}))


def test_a_processor_samples_with_its_noise_and_the_same_seed_yields_the_same() -> None:
    order = CircuitRun("p0", 0, BELL, 400, 7)
    first, again = backend().sample(order), backend().sample(order)
    assert first.counts == again.counts
    assert first.repetitions == 400
    # Noise as of a real machine: most repetitions agree, and some do not.
    assert 300 < first.counts["00"] + first.counts["11"] < 400


def test_what_it_can_and_when_it_was_calibrated_is_reported() -> None:
    told = backend().capabilities()
    assert (told.local, told.exact, told.gateset) == (True, False, "google_cz")
    assert told.versions["calibration"].startswith("2021-11-16")


@pytest.mark.parametrize(
    ("circuit", "said"),
    [
        (cirq.Circuit(cirq.CZ(*cirq.LineQubit.range(2)), cirq.measure(cirq.q(0))), "not on device"),
        (cirq.Circuit(cirq.CCZ(A, B, cirq.GridQubit(5, 1)), cirq.measure(A)), "gate"),
    ],
)
def test_a_circuit_that_is_not_made_for_the_processor_is_refused(circuit: cirq.Circuit, said: str) -> None:
    with pytest.raises(ToolError, match=said) as refused:
        backend().sample(CircuitRun("p0", 0, circuit, 1, 1))
    assert refused.value.type == "NotOnDevice"


def test_exact_values_unknown_processors_and_accounts_are_refused() -> None:
    with pytest.raises(ToolError, match="samples only"):
        backend().state(BELL)
    with pytest.raises(ToolError, match="Did you mean 'weber'"):
        backend(target="webber")
    with pytest.raises(ToolError, match="reaches no machine"):
        backend(auth="main")
