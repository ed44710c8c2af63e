"""Diagrams in the provenance of results: they are there to be looked at, and nothing depends on
them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from noetl.facts.reference import RESULT_REF
from noetl.pipeline.model import Call, Later, Where
from noetl.quantum.circuits.drawing import MOST_QUBITS
from noetl.quantum.config.task import QuantumConfig
from noetl.quantum.experiments.reading import INLINE_CIRCUIT
from noetl.quantum.tool import Quantum
from noetl.results import open_results
from noetl.tools.kit.base import Services

BELL = """OPENQASM 3.0;
include "stdgates.inc";
input float theta;
qubit[2] q;
bit[2] c;
rx(theta) q[0];
cx q[0], q[1];
c = measure q;
"""
WIDE: dict[str, Any] = {"builder": {"name": "random", "qubits": 10, "depth": 30, "seed": 3}, "repetitions": 5}
LARGE: dict[str, Any] = {
    "builder": {"name": "ghz", "qubits": MOST_QUBITS + 1},
    "backend": "clifford",
    "repetitions": 5,
}
SWEPT: dict[str, Any] = {
    "qasm": BELL,
    "params": {"zip": {"theta": [0.1, 0.2, 0.3]}},
    "repetitions": 20,
    "seed": 1,
}


#: Of no other tests: a worker remembers what an execution has kept, whatever store that is in.
EXECUTION = "70991"


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quantum]:
    tmp_path = tmp_path_factory.mktemp("diagrams")
    made = Quantum(Services(results=open_results(str(tmp_path / "results")), scratch=tmp_path / "scratch"))
    yield made
    made.close()


def run(tool: Quantum, **config: Any) -> Any:
    call = Call("quantum", {}, {}, {}, Where(EXECUTION, "s#1", "s"), "t", 1, "k")
    given = QuantumConfig.model_validate(config)
    while isinstance(came := tool.run(call, given), Later):
        call = replace(call, checkpoint=json.loads(json.dumps(came.checkpoint)))
    return came.result  # type: ignore[union-attr]  # it does not wait for anything else


def drawn(tool: Quantum, **config: Any) -> Any:
    return run(tool, **config)["provenance"]["diagram"]


def test_a_result_has_the_diagram_of_its_circuit(tool: Quantum) -> None:
    assert drawn(tool, **SWEPT) == {
        "qubits": 2,
        "operations": 4,
        "depth": 3,
        "text": "q_0: ───Rx(theta)───@───M('c_0')───\n"
        "                    │\n"
        "q_1: ───────────────X───M('c_1')───",
    }


@pytest.mark.parametrize(
    "more",
    [
        {"noise": {"depolarize": 0.1}},
        {"mitigation": {"readout": {"p01": 0.1, "p10": 0.1}, "dynamical_decoupling": True}},
        {"compile": {"gateset": "cz", "placement": "line"}},
        {"limits": {"max_points": 1}},
        {"action": "submit"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_it_is_of_the_circuit_as_it_was_given(tool: Quantum, more: dict[str, Any]) -> None:
    assert drawn(tool, **SWEPT, **more) == drawn(tool, **SWEPT)


def test_a_long_one_is_kept_by_reference_once_for_all_results(tool: Quantum) -> None:
    first, second = drawn(tool, **WIDE), drawn(tool, **WIDE, seed=4)
    results = tool.services.results
    assert results is not None
    assert first == second
    assert (first["text"]["kind"], "preview" in first["text"]) == (RESULT_REF, False)
    text = results.load(first["text"])
    assert len(text.encode()) > INLINE_CIRCUIT
    assert text.splitlines()[1].startswith("0: ───")


def test_a_circuit_that_is_too_large_is_only_counted(tool: Quantum) -> None:
    assert drawn(tool, **LARGE) == {
        "qubits": MOST_QUBITS + 1,
        "operations": MOST_QUBITS + 2,
        "depth": MOST_QUBITS + 2,
        "text": None,
    }


@pytest.mark.parametrize("asked", [SWEPT, WIDE, LARGE], ids=["inline", "reference", "too large"])
@pytest.mark.parametrize("was", ["drawn", "unknown", "other"])
def test_no_two_results_are_told_apart_by_it(tool: Quantum, asked: dict[str, Any], was: str) -> None:
    result = run(tool, **asked)
    if was == "unknown":
        del result["provenance"]["diagram"]
    elif was == "other":
        result["provenance"]["diagram"] = {"text": "another"}
    assert run(tool, action="verify", of=result)["verified"] is True


def test_a_sweep_that_began_without_one_goes_on(tool: Quantum) -> None:
    begun = run(tool, **SWEPT, limits={"max_points": 1})
    del begun["provenance"]["diagram"]
    whole = run(tool, **SWEPT, resume=begun)
    assert whole["complete"]
    assert whole["points"] == run(tool, **SWEPT)["points"]
