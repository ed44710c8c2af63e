"""What `noetl validate` tells of a quantum task without Cirq, and that it knows the names that the
tool knows."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from noetl.quantum.circuits import params
from noetl.quantum.config import written
from noetl.quantum.config.task import LOCAL, REMOTE
from noetl.quantum.tool import Quantum
from noetl.tools.kit.declaration import faults

GHZ = {"name": "ghz", "qubits": 2}


def told(**config: Any) -> list[tuple[tuple[int | str, ...], str]]:
    return [(fault["loc"], fault["msg"]) for fault in faults(Quantum.declaration, {"builder": GHZ, **config})]


def test_the_providers_are_those_that_the_tool_knows_when_it_runs() -> None:
    assert set(get_args(written.Provider)) == {*LOCAL, *REMOTE}
    assert tuple(params._FORMS) == written.FORMS


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"builder": {"name": "gzh"}}, ("builder", "name")),
        ({"builder": {"name": "ghz"}}, ("builder", "ghz", "qubits")),
        ({"builder": {"name": "ghz", "qbits": 3}}, ("builder", "ghz", "qbits")),
        ({"builder": {"name": "grover", "marked": "102"}}, ("builder", "grover", "marked", 0)),
        ({"backend": "simulater"}, ("backend", "provider")),
        ({"backend": {"provider": "ionk"}}, ("backend", "provider")),
        ({"backend": {"target": "qpu.aria-1", "auth": "ionq"}}, ("backend",)),
        ({"noise": {"depolarise": 0.1}}, ("noise", "Noise", "depolarise")),
        ({"noise": [{"bit_flop": 0.1}]}, ("noise", "list[Noise]", 0, "bit_flop")),
        ({"compile": {"gate_set": "cz"}}, ("compile", "gate_set")),
        ({"compile": {"gateset": "ionqq"}}, ("compile", "gateset")),
        ({"mitigation": {"redout": {}}}, ("mitigation", "redout")),
        ({"params": {"prodcut": {"a": [1]}}}, ("params",)),
        ({"params": {"a": [1, 2]}}, ("params",)),
        ({"limits": {"max_shot": 1}}, ("limits", "max_shot")),
        ({"limits": {"max_queue": "6 hourss"}}, ("limits", "max_queue")),
        ({"limits": {"max_queue": -1}}, ("limits", "max_queue")),
        ({"action": "expect"}, ("action",)),
        ({"action": "poll"}, ("action",)),
        ({"action": "verify", "of": None}, ("action",)),
    ],
)
def test_what_only_the_call_would_find_wrong_is_reported_at_its_place(
    config: dict[str, Any], place: tuple[int | str, ...]
) -> None:
    assert place in [where for where, _ in told(**config)]


def test_a_machine_elsewhere_without_a_key_learns_how_to_set_one() -> None:
    [(place, message)] = told(backend="ionq")

    assert place == ("backend", "provider")
    assert "noetl credential set ionq --type bearer" in message


def test_an_unknown_key_comes_with_those_that_are_known_there() -> None:
    [fault] = faults(Quantum.declaration, {"builder": GHZ, "limits": {"max_shot": 1}})

    assert "max_shots" in fault["ctx"]["known"]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"backend": {"precision": "double"}},
        {"backend": {"provider": "ionq", "auth": "main"}},
        {"action": "expect", "observables": ["ZZ"]},
        {"action": "fetch", "builder": None, "job": {"job": {}}},
        {"params": {"a": "pi/4"}},
        {"params": {"zip": {"a": [1]}}},
        {"noise": [{"depolarize": 0.1}, {"readout": 0.1}]},
        {"compile": {"gateset": "cz", "placement": {"line": 3}, "optimize": False}},
        {"mitigation": {"dynamical_decoupling": True, "vendor": {"debias": True}}},
        {"limits": {"max_queue": 3}},
        {"limits": {"max_queue": "6h"}},
    ],
)
def test_what_is_right_is_not_told(config: dict[str, Any]) -> None:
    assert told(**config) == []


def test_a_circuit_that_came_to_nothing_is_named() -> None:
    [(_, message)] = told(builder=None, ref=None)

    assert "its `ref` is null" in message or "its `builder` is null" in message
