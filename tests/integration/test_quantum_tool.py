"""The quantum tool on simulators: results, sweeps that go on, limits, provenance, and what is
refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Later, Where
from noetl.quantum.config.task import QuantumConfig
from noetl.quantum.experiments import sweep
from noetl.quantum.tool import Quantum
from noetl.results import open_results
from noetl.tools.kit.base import Services
from noetl.tools.kit.declaration import configure
from noetl.tools.kit.files import FilePolicy
from noetl.tools.kit.registry import touches
from tests.waiting import until

BELL = """OPENQASM 2.0;
include "qelib1.inc";
qreg q[2];
creg c[2];
h q[0];
cx q[0], q[1];
measure q -> c;
"""


@pytest.fixture(scope="module")
def turned() -> str:
    """One qubit, turned around X by the symbol t, and measured."""
    import cirq
    import sympy

    q = cirq.q(0)
    return cirq.to_json(cirq.Circuit(cirq.rx(sympy.Symbol("t"))(q), cirq.measure(q, key="m")))


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Services:
    folder = tmp_path_factory.mktemp("services")
    return Services(
        results=open_results(str(folder / "results")),
        files=FilePolicy(as_user=True, directories=(folder,)),
        scratch=folder / "scratch",
    )


@pytest.fixture(scope="module")
def tool(services: Services) -> Iterator[Quantum]:
    tool = Quantum(services)
    yield tool
    tool.close()


def call(key: str = "k", **more: Any) -> Call:
    return Call("quantum", {}, {}, {}, Where("7", "s#1", "s"), "t", 1, key, **more)


def calls(tool: Quantum, key: str = "k", **config: Any) -> Iterator[Any]:
    """What comes of each call of a task, the last one's result among them; checkpoints go through
    JSON."""
    order, given = call(key), QuantumConfig.model_validate(config)
    while isinstance(came := tool.run(order, given), Later):
        yield came.checkpoint
        order = replace(order, checkpoint=json.loads(json.dumps(came.checkpoint)))
    assert isinstance(came, Outcome)
    yield came.result


def run(tool: Quantum, key: str = "k", **config: Any) -> Any:
    *_, result = calls(tool, key, **config)
    return result


def refused(tool: Quantum, key: str = "k", **config: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(tool, key, **config)
    return caught.value


def sweep_of(turned: str, points: int = 6, **more: Any) -> dict[str, Any]:
    axis = {"linspace": [0, "pi", points]}
    return {"cirq_json": turned, "params": {"product": {"t": axis}}, "repetitions": 50, "seed": 5, **more}


def histograms(result: Any) -> list[Any]:
    return [point["histogram"] for point in result["points"]]


# --- results -------------------------------------------------------------------------------------


def test_a_bell_pair_has_equal_bits_and_says_how_to_read_them(tool: Quantum) -> None:
    result = run(tool, qasm=BELL, seed=7, repetitions=200, observables={"zz": "Z0 Z1"})

    assert set(result["histogram"]) == {"00", "11"}
    assert sum(result["histogram"].values()) == 200
    assert result["bits"]["order"] == "big-endian"
    assert [one["key"] for one in result["bits"]["measured"]] == ["c_0", "c_1"]
    assert result["means"] == {"zz": pytest.approx(1.0)}
    assert [point["histogram"] for point in result["points"]] == [result["histogram"]]
    assert (result["complete"], result["next"], result["stopped"], result["seed"]) == (True, None, None, 7)
    assert result["job"]["provider"] == "simulator"
    json.dumps(result)


def test_every_result_says_what_ran(tool: Quantum) -> None:
    story = run(tool, qasm=BELL, seed=7)["provenance"]

    assert story["source"]["form"] == "qasm2"
    assert len({story["source"]["sha256"], story["resolved_sha256"], story["sweep_sha256"]}) == 3
    assert story["compiled_sha256"] == story["resolved_sha256"]
    assert (story["seed"], story["repetitions"], story["provider"]) == (7, 1000, "simulator")
    assert {"cirq", "numpy", "python", "noetl"} <= set(story["versions"])
    assert (story["execution_id"], story["run_id"], story["step"], story["task"]["name"]) == (
        "7",
        "s#1",
        "s",
        "t",
    )


def test_hashes_of_the_circuit_do_not_depend_on_how_it_was_written(tool: Quantum) -> None:
    first = run(tool, qasm=BELL, seed=7)["provenance"]
    other = run(tool, qasm="\n" + BELL.replace("h q", "h  q"), seed=7)["provenance"]

    assert first["resolved_sha256"] == other["resolved_sha256"]
    assert first["source"]["sha256"] != other["source"]["sha256"]


def test_expectation_values_are_exact_unless_samples_are_asked_for(tool: Quantum, turned: str) -> None:
    asked = {"cirq_json": turned, "params": {"t": "pi/3"}, "action": "expect", "observables": ["Z0", "Y0"]}

    exact = run(tool, **asked)
    sampled = run(tool, **asked, repetitions=4000, seed=2)

    assert exact["means"] == {
        "Z0": pytest.approx(0.5, abs=1e-6),
        "Y0": pytest.approx(-(3**0.5) / 2, abs=1e-6),
    }
    assert [one["stderr"] for one in exact["expectation"]] == [0.0, 0.0]
    assert (exact["histogram"], exact["repetitions"]) == (None, 0)
    assert sampled["repetitions"] == 8000
    for one in sampled["expectation"]:
        assert one["stderr"] > 0
        assert abs(one["mean"] - exact["means"][one["observable"]]) < 5 * one["stderr"]


def test_sampling_goes_on_until_the_standard_error_is_small_enough(tool: Quantum, turned: str) -> None:
    asked = {
        "cirq_json": turned,
        "params": {"t": "pi/3"},
        "action": "expect",
        "observables": {"z": "Z0"},
        "seed": 2,
    }

    enough = run(tool, **asked, repetitions=100, target_stderr=0.01)
    short = run(tool, **asked, repetitions=100, target_stderr=0.01, limits={"max_shots": 500})

    assert enough["expectation"][0]["stderr"] <= 0.01
    assert enough["repetitions"] > 5000
    assert short["repetitions"] == 500
    assert short["expectation"][0]["stderr"] > 0.01


def test_a_noisy_state_is_computed_where_the_backend_is_mixed(tool: Quantum) -> None:
    asked = {"qasm": BELL, "action": "expect", "observables": {"zz": "Z0 Z1"}, "noise": {"bit_flip": 0.1}}

    assert 0 < run(tool, **asked, backend="density_matrix")["means"]["zz"] < 0.9
    assert refused(tool, **asked).type == "NotPure"


def test_errors_of_readout_are_calibrated_and_taken_out(tool: Quantum) -> None:
    asked = {"qasm": BELL, "seed": 4, "repetitions": 4000, "noise": {"readout": 0.1}}
    result = run(
        tool,
        **asked,
        mitigation={"readout": {"calibrate": 4000}},
        observables={"zz": "Z0 Z1"},
        estimator="sampled",
    )

    raw = (result["histogram"]["01"] + result["histogram"]["10"]) / 4000
    assert raw == pytest.approx(0.18, abs=0.03)
    assert sum(result["mitigated"].get(bits, 0.0) for bits in ("01", "10")) < 0.05
    assert result["means"]["zz"] == pytest.approx(1.0, abs=0.1)


def test_circuits_are_compiled_before_they_run_and_measure_the_same(tool: Quantum) -> None:
    plain = run(tool, qasm=BELL, seed=7)
    placed = run(
        tool,
        qasm=BELL,
        seed=7,
        compile={"gateset": "cz", "placement": {"grid": [2, 2]}},
        observables=["X0 X1"],
    )

    assert set(placed["histogram"]) == {"00", "11"}
    assert placed["means"]["X0 X1"] == pytest.approx(1.0, abs=1e-5)
    assert placed["provenance"]["compiled_sha256"] != plain["provenance"]["compiled_sha256"]
    assert placed["provenance"]["resolved_sha256"] == plain["provenance"]["resolved_sha256"]
    assert placed["provenance"]["compiler"]["gateset"] == "cz"


def test_what_is_compiled_is_a_circuit_for_another_task(tool: Quantum) -> None:
    compiled = run(tool, action="compile", qasm=BELL, compile={"gateset": "sqrt_iswap"})

    assert compiled["report"]["before"]["two_qubit"] == 1
    assert compiled["operations"] > 0
    assert set(run(tool, ref=compiled, seed=1)["histogram"]) == {"00", "11"}


def test_the_circuit_of_compile_is_the_one_that_runs_with_its_pulses(tool: Quantum) -> None:
    waiting = BELL.replace("h q[0];", "h q[0]; h q[1];" + "x q[0];" * 6)
    asked = {"qasm": waiting, "mitigation": {"dynamical_decoupling": "XX_PAIR"}}

    compiled = run(tool, action="compile", **asked)
    told = run(tool, action="estimate", **asked)

    assert compiled["sha256"] == run(tool, **asked, seed=1)["provenance"]["compiled_sha256"]
    assert compiled["report"]["after"] == told["report"]["after"]
    assert compiled["report"]["after"]["operations"] > compiled["report"]["before"]["operations"] == 11
    assert compiled["operations"] == told["operations"] == compiled["report"]["after"]["operations"]


def test_an_estimate_says_what_a_run_would_take(tool: Quantum, turned: str) -> None:
    asked = sweep_of(turned, 100, observables=["Z0", "X0"], estimator="sampled", limits={"max_shots": 1500})
    told = run(tool, action="estimate", **asked)

    assert (told["points"], told["orders"], told["repetitions"]) == (100, 300, 15_000)
    assert (told["qubits"], told["bytes"], told["cost"], told["fits"]) == (1, 16, 0.0, 10)
    assert told["stopped"] == {"limit": "max_shots", "at": 1500, "of": 15_000}


# --- sweeps and seeds ----------------------------------------------------------------------------


def test_a_small_sweep_leaves_no_checkpoint(tool: Quantum, turned: str) -> None:
    assert len(list(calls(tool, **sweep_of(turned)))) == 1


def test_a_sweep_in_parts_is_the_same_as_one_at_once(
    tool: Quantum, turned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = sweep_of(turned, keep=["samples", "state_vector"], observables=["Z0"])
    whole = run(tool, **asked)
    monkeypatch.setattr(sweep, "KEEP_EVERY_S", 0.0)
    monkeypatch.setattr(sweep, "_PART", 0.0)

    *parts, result = calls(tool, **asked)

    assert [(part["done"], part["of"]) for part in parts] == [(done, 6) for done in range(1, 6)]
    assert result["points"] == whole["points"]
    assert rows(tool, result["samples"]) == rows(tool, whole["samples"])
    assert rows(tool, result["state_vector"]) == rows(tool, whole["state_vector"])


def rows(tool: Quantum, reference: Any) -> list[Any]:
    results = tool.services.results
    assert results is not None
    return list(results.load(reference))


def test_a_worker_that_died_loses_only_what_was_not_kept(
    tool: Quantum, turned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = QuantumConfig.model_validate(sweep_of(turned))
    whole = run(tool, **sweep_of(turned))
    monkeypatch.setattr(sweep, "KEEP_EVERY_S", 0.0)
    first = tool.run(call(), asked)
    assert isinstance(first, Later)
    second = tool.run(call(checkpoint=first.checkpoint), asked)
    assert isinstance(second, Later)
    monkeypatch.setattr(sweep, "KEEP_EVERY_S", 100.0)

    # What came of the second call never reached the log.
    again = Quantum(tool.services)
    ended = again.run(call(checkpoint=first.checkpoint), asked)
    again.close()

    assert isinstance(ended, Outcome)
    assert histograms(ended.result) == histograms(whole)


def test_a_checkpoint_of_another_experiment_is_none(
    tool: Quantum, turned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "KEEP_EVERY_S", 0.0)
    first = tool.run(call(), QuantumConfig.model_validate(sweep_of(turned)))
    assert isinstance(first, Later)
    monkeypatch.setattr(sweep, "KEEP_EVERY_S", 100.0)

    other = sweep_of(turned, seed=6)
    ended = tool.run(call(checkpoint=first.checkpoint), QuantumConfig.model_validate(other))

    assert isinstance(ended, Outcome)
    assert histograms(ended.result) == histograms(run(tool, **other))


def test_without_a_seed_each_command_draws_its_own_and_says_which(tool: Quantum) -> None:
    first, again, other = (run(tool, key, qasm=BELL) for key in ("a", "a", "b"))

    assert first["seed"] == again["seed"] != other["seed"]
    assert first["histogram"] == again["histogram"]
    assert run(tool, "c", qasm=BELL, seed=first["seed"])["histogram"] == first["histogram"]


def test_points_draw_from_streams_of_their_own(tool: Quantum) -> None:
    same = {"list": [{}, {}, {}]}
    result = run(tool, qasm=BELL, seed=1, repetitions=1000, params=same)

    assert len({json.dumps(one) for one in histograms(result)}) == 3


def test_parts_of_the_repetitions_add_up(tool: Quantum) -> None:
    result = run(tool, qasm=BELL, seed=1, repetitions=1000, split={"max_per_job": 300}, keep=["samples"])

    assert sum(result["histogram"].values()) == result["repetitions"] == 1000
    assert {row["order"] for row in rows(tool, result["samples"])} == {"p0", "p0/1", "p0/2", "p0/3"}


def test_more_points_than_a_result_may_be_are_pages_in_the_store(services: Services, turned: str) -> None:
    tool = Quantum(replace(services, result_limit=20_000))
    asked = sweep_of(turned, 40)
    result = run(tool, **asked)

    assert result["points"]["count"] == 40
    assert rows(tool, result["points"]) == run(Quantum(services), **asked)["points"]
    assert run(tool, action="verify", of=result)["verified"] is True


def test_samples_that_are_kept_add_up_to_the_histogram(tool: Quantum) -> None:
    result = run(tool, qasm=BELL, seed=3, repetitions=100, keep=["samples"])
    kept = rows(tool, result["samples"])

    assert set(kept[0]) == {"point", "order", "key", "repetition", "bits"}
    for value in "01":
        ones = [row for row in kept if row["key"] == "c_0" and row["bits"] == value]
        assert len(ones) == result["histogram"][value * 2]


def test_density_matrices_are_kept_by_row_and_column(tool: Quantum) -> None:
    asked = {"qasm": BELL, "action": "expect", "observables": ["Z0"], "backend": "density_matrix"}
    kept = rows(tool, run(tool, **asked, keep=["density_matrix"])["density_matrix"])

    assert sum(row["re"] for row in kept if row["row_state"] == row["column_state"]) == pytest.approx(1.0)
    assert len(kept) == 16


def test_code_yields_one_circuit_for_all_calls_of_its_task(
    tool: Quantum, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import cirq, random, sympy\n"
        "q = cirq.LineQubit.range(2)\n"
        "result = cirq.Circuit(cirq.rx(random.random())(q[0]), cirq.rx(sympy.Symbol('t'))(q[1]), "
        "cirq.measure(*q))"
    )
    monkeypatch.setattr(sweep, "KEEP_EVERY_S", 0.0)
    monkeypatch.setattr(sweep, "_PART", 0.0)
    asked = {"code": code, "params": {"list": [{"t": 0}, {"t": 1}, {"t": 2}]}, "seed": 1, "repetitions": 20}

    *parts, result = calls(tool, **asked)

    assert [part["done"] for part in parts] == [1, 2]
    assert result["provenance"]["source"]["form"] == "code"
    assert run(tool, action="verify", of=result)["verified"] is True


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "stopped"),
    [
        ({"max_points": 2}, {"limit": "max_points", "at": 2, "of": 6}),
        ({"max_shots": 149}, {"limit": "max_shots", "at": 149, "of": 300}),
    ],
)
def test_a_sweep_that_meets_a_limit_keeps_its_points_and_goes_on_later(
    tool: Quantum, turned: str, limits: Any, stopped: Any
) -> None:
    whole = run(tool, **sweep_of(turned, keep=["samples"]))
    first = run(tool, **sweep_of(turned, keep=["samples"], limits=limits))

    assert (first["complete"], first["next"], first["stopped"]) == (False, 2, stopped)
    rest = run(tool, "other", **sweep_of(turned, seed=None, keep=["samples"], resume=first))
    assert (rest["complete"], rest["points"]) == (True, whole["points"])
    assert rows(tool, rest["samples"]) == rows(tool, whole["samples"])


def test_going_on_counts_the_limits_anew(tool: Quantum, turned: str) -> None:
    asked = sweep_of(turned, limits={"max_points": 2})
    second = run(tool, **asked, resume=run(tool, **asked))

    assert (second["next"], len(second["points"]), second["complete"]) == (4, 4, False)


def test_only_the_same_experiment_goes_on(tool: Quantum, turned: str) -> None:
    first = run(tool, **sweep_of(turned, limits={"max_points": 2}))

    other = refused(tool, **sweep_of(turned, 7, resume=first))
    assert (other.type, "sweep_sha256" in other.message) == ("OtherExperiment", True)
    finer = refused(tool, **sweep_of(turned, resume=first, backend={"precision": "double"}))
    assert (finer.type, "precision" in finer.message) == ("OtherExperiment", True)
    assert refused(tool, **sweep_of(turned, resume=run(tool, **sweep_of(turned)))).type == "Complete"
    assert refused(tool, **sweep_of(turned, resume={"rows": []})).type == "NotAResult"


@pytest.mark.parametrize(
    ("config", "type_"),
    [
        ({"limits": {"max_shots": 10}}, "OverShots"),
        ({"limits": {"max_qubits": 1}}, "TooManyQubits"),
        ({"limits": {"max_memory_mb": 0.00001}}, "TooMuchMemory"),
    ],
)
def test_a_limit_that_not_even_one_point_keeps_is_an_error(tool: Quantum, config: Any, type_: str) -> None:
    error = refused(tool, qasm=BELL, **config)

    assert (error.kind, error.type) == ("limit", type_)


# --- jobs of simulators --------------------------------------------------------------------------


def test_a_simulator_has_no_queue_and_runs_when_it_is_fetched(tool: Quantum, turned: str) -> None:
    submitted = run(tool, "first", action="submit", **sweep_of(turned, limits={"max_points": 3}))
    assert submitted["points"] == 3

    assert run(tool, action="poll", job=submitted)["ready"] is True
    assert run(tool, action="cancel", job=submitted["job"])["status"] == "cancelled"
    fetched = run(tool, "second", action="fetch", job=submitted)

    assert histograms(fetched) == histograms(run(tool, **sweep_of(turned)))[:3]
    assert refused(tool, action="fetch", job={"id": "x"}).type == "NotAJob"
    for key in ("verify", "run"):
        asked = (
            {"action": "verify", "of": submitted} if key == "verify" else {"qasm": BELL, "resume": submitted}
        )
        assert "no result of a quantum task with points" in refused(tool, **asked).message


# --- verify --------------------------------------------------------------------------------------


def test_a_result_is_verified_by_running_it_again(tool: Quantum, turned: str) -> None:
    for asked in (
        sweep_of(turned),
        {
            "qasm": BELL,
            "measure": True,
            "repetitions": 20,
            "noise": {"depolarize": 0.05},
            "observables": ["Z0 Z1"],
            "estimator": "sampled",
        },
        {"qasm": BELL, "compile": {"gateset": "cz"}},
        {"cirq_json": turned, "params": {"t": 0.4}, "action": "expect", "observables": ["Z0"]},
    ):
        told = run(tool, "other", action="verify", of=run(tool, **asked))
        assert (told["verified"], told["repeated"], told["differences"]) == (True, True, [])


DRAWN: dict[str, Any] = {"builder": {"name": "random", "qubits": 5, "depth": 8, "seed": 3}}


@pytest.mark.parametrize(
    "asked",
    [
        {"noise": {"depolarize": 0.2}, "repetitions": 200},
        *(
            pytest.param(asked, marks=pytest.mark.full("another circuit in a child of its own"))
            for asked in (
                {**DRAWN, "compile": {"gateset": "cz", "placement": "line"}},
                {**DRAWN, "observables": ["Z4", "X0 Y3"], "target_stderr": 0.02},
                {
                    "mitigation": {"dynamical_decoupling": True},
                    "noise": {"bit_flip": 0.1},
                    "backend": "density_matrix",
                },
            )
        ),
    ],
)
def test_operations_of_a_moment_in_any_order_are_verified(tool: Quantum, asked: Any) -> None:
    """What was written down has one order, and what ran has to have the same: noise draws in it,
    and compilers follow it."""
    code = (
        "import cirq\na, b, c, d = cirq.LineQubit.range(4)\n"
        "result = cirq.Circuit(\n"
        "    cirq.Moment(cirq.H(d), cirq.T(b), cirq.X(c) ** 0.3, cirq.Y(a) ** 0.7),\n"
        "    cirq.Moment(cirq.CNOT(d, b), cirq.CNOT(c, a)), cirq.Moment(cirq.CNOT(d, a)),\n"
        "    cirq.Moment(cirq.H(c), cirq.H(b)), cirq.measure(d, c, b, a, key='m'),\n)"
    )
    found = run(tool, seed=3, **({} if "builder" in asked else {"code": code}), **asked)

    assert run(tool, "other", action="verify", of=found)["verified"] is True


def test_a_result_by_reference_is_verified_too(tool: Quantum, turned: str) -> None:
    from noetl.facts.reference import Retention

    results = tool.services.results
    assert results is not None
    reference = results.put(run(tool, **sweep_of(turned)), Retention("7"))

    assert run(tool, action="verify", of=reference)["verified"] is True


def test_a_result_that_differs_is_an_error_that_says_where(tool: Quantum, turned: str) -> None:
    result = run(tool, **sweep_of(turned, limits={"max_points": 3}))
    result["points"][1]["histogram"] = {"0": 50}
    result["provenance"]["versions"]["cirq"] = "0.1"

    error = refused(tool, action="verify", of=result)
    told = run(tool, action="verify", of=result, on_difference="report")

    assert (error.kind, error.type) == ("client_error", "Differs")
    assert "points[1].histogram" in error.message
    assert "cirq 0.1 then" in error.message
    assert (told["verified"], told["differing"], told["points"]) == (False, 1, 3)
    assert told["differences"][0]["was"] == {"0": 50}


def test_another_version_that_yields_the_same_is_reported_and_no_difference(tool: Quantum) -> None:
    result = run(tool, qasm=BELL)
    result["provenance"]["versions"]["noetl"] = "0.0.1"
    told = run(tool, action="verify", of=result)

    assert told["verified"] is True
    assert [one["name"] for one in told["versions_differ"]] == ["noetl"]


# --- ends, errors, costs -------------------------------------------------------------------------


def test_a_sweep_ends_at_its_deadline_and_when_it_is_cancelled(tool: Quantum, turned: str) -> None:
    with pytest.raises(ToolError) as late:
        tool.run(call(deadline_s=0.0), QuantumConfig.model_validate(sweep_of(turned, 1000)))
    assert (late.value.kind, late.value.retryable) == ("timeout", True)

    order = call()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tool.run, order, QuantumConfig.model_validate(sweep_of(turned, 50_000)))
        until(lambda: tool.interrupt(order) or running.done(), "the sweep to end")
        error = running.exception()
    assert isinstance(error, ToolError)
    assert error.kind == "cancelled"


@pytest.mark.parametrize(
    ("config", "type_"),
    [
        ({"qasm": "OPENQASM 2.0;\nqreg q[1];\nnonsense q[0];\n"}, "QasmError"),
        ({"qasm": BELL.replace("measure q -> c;", "")}, "NoMeasurement"),
        ({"qasm": BELL.replace("h q[0]", "t q[0]"), "backend": "clifford"}, "NotClifford"),
        ({"qasm": BELL, "params": {"theta": 1}}, "UnknownSymbols"),
        ({"qasm": BELL, "backend": "simulatr"}, "NoBackend"),
        ({"qasm": BELL, "action": "expect"}, "NoObservables"),
        ({"qasm": BELL, "observables": ["Z7"]}, "ObservableError"),
        ({"qasm": BELL, "target_stderr": 0.1}, "Estimator"),
        (
            {
                "qasm": BELL.replace("measure q -> c;", ""),
                "action": "expect",
                "observables": ["ZZ"],
                "mitigation": {"readout": {"calibrate": 9}},
            },
            "MitigationError",
        ),
        ({"qasm": BELL, "keep": ["density_matrix"]}, "NoState"),
        ({"action": "verify", "of": {"points": [1], "provenance": {}}}, "NotAResult"),
        ({"action": "verify", "of": {"points": [], "provenance": 3}}, "NotAResult"),
        ({"qasm": BELL, "noise": {"depolarise": 0.1}}, "NoiseError"),
    ],
)
def test_what_the_author_can_mend_is_one_sentence(tool: Quantum, config: Any, type_: str) -> None:
    error = refused(tool, **config)

    assert (error.kind, error.type, error.traceback) == ("client_error", type_, None)
    assert error.message.endswith((".", "?"))
    assert "\n" not in error.message


IDLE = 'OPENQASM 3.0;\ninclude "stdgates.inc";\nqubit[4] q;\nx q[1];\nrx(pi/3) q[3];\ncx q[1], q[3];\n'


def test_all_qubits_that_were_declared_are_measured_and_counted(tool: Quantum) -> None:
    """<Z3> = -cos(pi/3), for the CNOT turns the qubit over."""
    asked: dict[str, Any] = {
        "qasm": IDLE,
        "measure": True,
        "observables": ["Z0", "Z1", "Z2", "Z3"],
        "estimator": "exact",
    }
    found = run(tool, seed=1, repetitions=100, **asked)

    assert set(found["histogram"]) == {"0100", "0101"}
    for placed in ({}, {"compile": {"gateset": "cz", "placement": "line"}}, {"backend": "density_matrix"}):
        means = run(tool, **{**asked, **placed})["means"]
        assert list(means.values()) == pytest.approx([1, -1, 1, -0.5], abs=1e-6)
    assert run(tool, action="verify", of=found)["verified"] is True


@pytest.mark.parametrize(
    "circuit",
    [
        {"qasm": IDLE},
        {"ref": IDLE},
        {"code": f"result = {IDLE!r}"},
        {"builder": {"name": "random", "qubits": 6, "depth": 2, "density": 0.3, "seed": 3, "measure": False}},
    ],
)
def test_numbers_that_would_pass_over_a_qubit_are_refused(tool: Quantum, circuit: Any) -> None:
    error = refused(tool, action="expect", observables=["Z0"], **circuit)

    assert (error.kind, error.type) == ("client_error", "ObservableError")
    assert error.message.startswith("observables: nothing acts on 'q")
    assert run(tool, action="expect", observables=["Z0"], measure=True, **circuit)["complete"] is True


def test_qubits_behind_the_last_one_that_is_used_change_no_number(tool: Quantum) -> None:
    found = run(
        tool,
        qasm=BELL.replace("q[2]", "q[5]").replace("measure q -> c;", ""),
        action="expect",
        observables=["Z0 Z1"],
    )

    assert found["means"] == {"Z0 Z1": pytest.approx(1)}


@pytest.mark.parametrize(
    ("angle", "value"),
    [("1/t", 0), ("sqrt(t)", -1), ("t**0.5", -2), ("t**400", 1000), ("t/(t - t**2)", 1)],
)
@pytest.mark.parametrize(
    "asked", [{}, {"action": "expect", "observables": ["Z0"]}, {"compile": {"gateset": "cz"}}]
)
def test_a_point_at_which_an_angle_is_none_is_named(
    tool: Quantum, angle: str, value: float, asked: Any
) -> None:
    qasm = f'OPENQASM 3.0;\ninclude "stdgates.inc";\ninput float t;\nqubit q;\nrx({angle}) q;\n'
    error = refused(tool, qasm=qasm, measure=True, params={"list": [{"t": 0.5}, {"t": value}]}, **asked)

    assert (error.kind, error.type) == ("client_error", "NotFinite")
    assert error.message.startswith("At point 1 of `params` the circuit's ")


@pytest.mark.parametrize(
    ("config", "type_"),
    [
        ({"split": {"max_per_job": 1}, "repetitions": 10**9}, "TooManyJobs"),
        ({"mitigation": {"readout": {"calibrate": 10**9}}}, "TooManyRepetitions"),
    ],
)
def test_what_would_fill_the_memory_is_refused_before_it_does(tool: Quantum, config: Any, type_: str) -> None:
    error = refused(tool, qasm=BELL, **config)

    assert (error.kind, error.type) == ("limit", type_)


@pytest.mark.parametrize("repetitions", [0, -1, 10**9 + 1, "many", 1.5])
def test_repetitions_that_are_no_number_of_them_are_refused(repetitions: Any) -> None:
    with pytest.raises(ToolError, match="'repetitions' of the quantum task is not usable"):
        configure(Quantum.declaration, {"qasm": BELL, "repetitions": repetitions})


def test_a_task_needs_just_one_circuit() -> None:
    with pytest.raises(ToolError, match="only one of") as two:
        configure(Quantum.declaration, {"qasm": BELL, "code": "result = 1"})
    assert two.value.kind == "client_error"
    with pytest.raises(ToolError, match="run needs a circuit"):
        configure(Quantum.declaration, {"action": "run"})


def test_a_plan_says_which_machines_a_task_reaches() -> None:
    assert touches("quantum", {"qasm": BELL}) == ()
    assert touches("quantum", {"code": "x", "backend": "qsim"}) == ("code",)
    assert touches("quantum", {"backend": {"provider": "ionq", "target": "qpu.aria-1"}}) == (
        "jobs on ionq qpu.aria-1",
    )
    assert touches(
        "quantum", {"action": "fetch", "backend": {"provider": "aqt", "host": "https://u:p@h"}}
    ) == ("asks for a job of aqt at https://***@h",)


def test_cirq_is_imported_by_the_first_call_and_not_before(tmp_path: Path) -> None:
    playbook = tmp_path / "bell.yaml"
    playbook.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: b, path: b}\n"
        "workflow: [{step: start, tool: {kind: quantum, builder: {name: ghz, qubits: 2}, spec: {queue: "
        "quantum.ionq}}}]\n"
    )
    script = (
        "import sys\n"
        "from noetl.cli.main import main\n"
        f"for command in ('validate', 'plan'):\n"
        f"    try: main([command, {str(playbook)!r}])\n"
        "    except SystemExit as ended: assert not ended.code, command\n"
        "from noetl.tools.kit.base import Services\n"
        "from noetl.tools.kit.registry import load\n"
        "kind = load('quantum'); kind.info(); kind(Services())\n"
        "print([m for m in ('cirq', 'numpy', 'sympy', 'requests') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "[]"
    assert "queue quantum.ionq" in told.stdout
