"""Circuits in whatever form a task gives them, also out of user code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import cirq
import pytest

from noetl.errors import ToolError
from noetl.facts.reference import Retention
from noetl.pipeline.model import Call, Where
from noetl.quantum.circuits import canonical
from noetl.quantum.config.task import QuantumConfig
from noetl.quantum.experiments.reading import load
from noetl.quantum.model import LoadedCircuit
from noetl.results import open_results
from noetl.tools.code.user_code import Runners
from noetl.tools.kit.base import Services
from noetl.tools.kit.registry import Registry
from tests.waiting import GUARD_S

Q = cirq.LineQubit.range(2)
BELL = cirq.Circuit(cirq.H(Q[0]), cirq.CNOT(*Q))
MEASURED = BELL + cirq.Circuit(cirq.measure(*Q, key="m"))
QASM = 'OPENQASM 2.0;\ninclude "qelib1.inc";\nqreg q[2];\nh q[0];\ncx q[0], q[1];\n'
IN_QASM = BELL.transform_qubits(dict(zip(Q, cirq.NamedQubit.range(2, prefix="q_"), strict=True)))
TEXT = canonical.text(BELL)
BELL_CODE = "import cirq\nq = cirq.LineQubit.range(2)\nbell = cirq.Circuit(cirq.H(q[0]), cirq.CNOT(*q))\n"


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Services:
    folder = tmp_path_factory.mktemp("services")
    (folder / "scratch").mkdir()
    return Services(
        scratch=folder / "scratch", results=open_results(f"file://{folder}/results"), python_inline=True
    )


@pytest.fixture(scope="module")
def runners(services: Services) -> Iterator[Runners]:
    made = Runners(services)
    yield made
    made.close()


@pytest.fixture(scope="module")
def registry(services: Services) -> Iterator[Registry]:
    made = Registry(services)
    yield made
    made.close()


def call(
    kind: str = "quantum", isolation: str = "process", config: Any = None, execution: str = "7", **args: Any
) -> Call:
    where = Where(execution, "r", "s")
    return Call(kind, config or {}, args, {"isolation": isolation}, where, "t", 1, "key", GUARD_S)


def loaded(
    services: Services, runners: Runners, *, args: Any = None, isolation: str = "process", **config: Any
) -> LoadedCircuit:
    return load(
        QuantumConfig.model_validate(config), call(isolation=isolation, **(args or {})), services, runners
    )


@pytest.mark.parametrize(
    ("config", "form", "expected"),
    [
        ({"qasm": QASM}, "qasm2", IN_QASM),
        ({"qasm": QASM.replace("2.0", "3.0").replace("qreg q[2]", "qubit[2] q")}, "qasm3", IN_QASM),
        ({"cirq_json": TEXT}, "cirq_json", BELL),
        ({"cirq_json": json.loads(TEXT)}, "cirq_json", BELL),
        ({"cirq_json": cirq.to_json(BELL.freeze())}, "cirq_json", BELL),
        ({"ref": TEXT}, "ref", BELL),
        ({"ref": QASM}, "ref", IN_QASM),
        ({"ref": json.loads(TEXT)}, "ref", BELL),
        ({"ref": {"circuit": TEXT, "other": 1}}, "ref", BELL),
        ({"ref": {"cirq_json": json.loads(TEXT)}}, "ref", BELL),
        ({"ref": {"qasm": QASM}}, "ref", IN_QASM),
        ({"builder": {"name": "ghz", "qubits": 2}}, "builder", MEASURED),
        ({"builder": {"name": "ghz", "qubits": 2, "measure": False}, "measure": True}, "builder", MEASURED),
        ({"cirq_json": TEXT, "measure": True}, "cirq_json", MEASURED),
        ({"cirq_json": canonical.text(MEASURED), "measure": True}, "cirq_json", MEASURED),
    ],
)
def test_a_circuit_is_read_from_every_form(
    services: Services, runners: Runners, config: dict[str, Any], form: str, expected: cirq.Circuit
) -> None:
    found = loaded(services, runners, **config)

    assert (found.form, found.circuit) == (form, expected)


def test_the_hash_is_of_the_text_as_given(services: Services, runners: Runners) -> None:
    spaced = json.dumps(json.loads(TEXT), indent=2)
    hashes = [
        loaded(services, runners, **config).sha256
        for config in (
            {"cirq_json": TEXT},
            {"cirq_json": json.loads(TEXT)},
            {"ref": {"circuit": TEXT}},
            {"cirq_json": spaced},
            {"qasm": QASM},
            {"builder": {"qubits": 2, "name": "ghz"}},
        )
    ]

    assert hashes[0] == hashes[1] == hashes[2] == canonical.sha256(TEXT)
    assert hashes[3:] == [canonical.sha256(text) for text in (spaced, QASM, '{"name":"ghz","qubits":2}')]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_large_circuit_comes_by_reference(services: Services, runners: Runners, wrapped: bool) -> None:
    assert services.results is not None
    reference = services.results.put({"circuit": TEXT} if wrapped else TEXT, Retention("7"))

    assert loaded(services, runners, ref=reference).circuit == BELL
    if not wrapped:
        assert loaded(services, runners, ref={"circuit": reference}).circuit == BELL


@pytest.mark.parametrize("isolation", ["process", "sandbox", "inline"])
def test_code_yields_a_circuit_of_its_inputs(services: Services, runners: Runners, isolation: str) -> None:
    if isolation == "sandbox" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    code = "import cirq\nreturn cirq.Circuit(cirq.X.on_each(*cirq.LineQubit.range(n)))"

    found = loaded(services, runners, code=code, args={"n": 2}, isolation=isolation)

    assert (found.form, found.circuit) == ("code", cirq.Circuit(cirq.X.on_each(*Q)))
    assert found.sha256 == canonical.sha256(code)


@pytest.mark.parametrize(
    ("config", "type", "said"),
    [
        ({"qasm": "OPENQASM 2.0;\nqreg q[1];"}, "EmptyCircuit", "has no operations"),
        ({"cirq_json": "{"}, "CirqJsonError", "cirq_json is no JSON at line 1"),
        ({"cirq_json": {"moments": float("nan")}}, "NotFinite", "NaN"),
        (
            {"ref": "hello"},
            "NoCircuit",
            "ref is no circuit but text that is neither OpenQASM nor Cirq's JSON",
        ),
        ({"ref": {"a": 1}}, "NoCircuit", "ref is no circuit but a mapping without `circuit` (it has a)"),
        ({"ref": {"circuit": 3}}, "NoCircuit", "ref.circuit is no circuit but of type int"),
        ({"ref": [TEXT]}, "NoCircuit", "ref is no circuit but of type list"),
        ({"ref": {"circuit": "{"}}, "CirqJsonError", "ref.circuit is no JSON at line 1"),
        ({"ref": QASM + "foo q;"}, "QasmError", "ref: The OpenQASM is refused at line 6, column 1"),
        ({"ref": {"kind": "result_ref", "ref": "noetl://x/y/z"}}, "BadReference", "ref cannot be read"),
    ],
)
def test_anything_but_a_circuit_is_refused(
    services: Services, runners: Runners, config: dict[str, Any], type: str, said: str
) -> None:
    with pytest.raises(ToolError) as caught:
        loaded(services, runners, **config)

    assert (caught.value.kind, caught.value.type) == ("client_error", type)
    assert said in caught.value.message
    assert caught.value.line is None or "cirq_json" in config


@pytest.mark.parametrize(
    ("code", "kind", "type", "said"),
    [
        ("x = 1", "client_error", "NoCircuit", "The result of `code` is no circuit but null"),
        ("result = {'a': 1}", "client_error", "NoCircuit", "a mapping without `circuit`"),
        (
            "import cirq\nresult = cirq.H(cirq.q(0))",
            "client_error",
            "CirqJsonError",
            "but of type GateOperation",
        ),
        (
            BELL_CODE + "class Own(cirq.Gate):\n    def _num_qubits_(self): return 1\nresult = "
            "cirq.Circuit(Own()(q[0]))",
            "python",
            "NotJson",
            "result is a Circuit, which Cirq cannot write as JSON",
        ),
    ],
)
def test_code_that_yields_no_circuit_fails_clearly(
    services: Services, runners: Runners, code: str, kind: str, type: str, said: str
) -> None:
    with pytest.raises(ToolError) as caught:
        loaded(services, runners, code=code)

    assert (caught.value.kind, caught.value.type) == (kind, type)
    assert said in caught.value.message


def test_an_error_of_the_code_names_its_line(services: Services, runners: Runners) -> None:
    with pytest.raises(ToolError) as caught:
        loaded(services, runners, code="x = 1\nraise ValueError('no')")

    assert (caught.value.line, caught.value.extras["py"]["type"]) == (2, "ValueError")


def test_python_tasks_hand_circuits_on(services: Services, runners: Runners, registry: Registry) -> None:
    code = BELL_CODE + "result = {'circuit': bell, 'all': [bell, bell.freeze()], 'qubit': q[1]}"

    outcome = registry.run(call("python", config={"code": code}))

    assert outcome.error is None
    assert (outcome.result["circuit"], outcome.result["qubit"]) == (TEXT, '{"cirq_type":"LineQubit","x":1}')
    assert [canonical.read(text) for text in outcome.result["all"]] == [BELL, BELL]
    assert loaded(services, runners, ref=outcome.result).circuit == BELL


def test_a_result_without_cirq_has_no_json_of_its_own(registry: Registry) -> None:
    code = "class Own:\n    def _json_dict_(self): return {}\nresult = Own()"

    # Of an execution of its own: in the children of the others Cirq has been imported.
    outcome = registry.run(call("python", config={"code": code}, execution="8"))

    assert outcome.error is not None
    assert "which has no JSON form" in outcome.error.message


def test_an_exact_number_in_a_circuit_is_the_float_of_it(registry: Registry) -> None:
    written = json.loads(canonical.text(cirq.Circuit(cirq.X(Q[0]) ** 0.25, cirq.measure(Q[0], key="m"))))
    written["moments"][0]["operations"][0]["gate"]["exponent"] = Decimal("0.2500")

    outcomes = [
        registry.run(call("quantum", config={"cirq_json": given, "shots": 10, "seed": 1}, execution="9"))
        for given in (written, json.dumps(written, default=float))
    ]

    assert [outcome.error for outcome in outcomes] == [None, None]
    exact, floats = (outcome.result["provenance"]["resolved_sha256"] for outcome in outcomes)
    assert exact == floats
