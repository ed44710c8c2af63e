"""The quantum examples, run as they stand: what they find is what theory says, as
`examples/quantum/figures.py` computes it without NoETL and without Cirq."""

from __future__ import annotations

import importlib.util
import json
import runpy
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import duckdb
import pytest
import yaml

from noetl import bootstrap
from noetl.config import Settings
from noetl.usecases import catalog, credentials, inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start
from tests.quantum.ionq import IonQServer
from tests.waiting import until

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "quantum"
#: Standard errors that a sampled figure may be off.
SIGMAS = 5

Example = Callable[..., Any]


@cache
def figures() -> ModuleType:
    """`examples/quantum/figures.py`: the folder is no package."""
    spec = importlib.util.spec_from_file_location("quantum_figures", FOLDER / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rt(settings: Settings) -> Iterator[Runtime]:
    """The engine of `noetl run` on a file of the examples."""
    with bootstrap.local(settings, base_dir=FOLDER) as opened:
        yield opened


@pytest.fixture
def example(rt: Runtime) -> Example:
    """`example(name, **workload)`: what the playbook yields. It must complete."""

    def ran(name: str, **payload: Any) -> Any:
        file = FOLDER / f"{name}.yaml"
        row = catalog.register(rt, file.read_text(encoding="utf-8"), str(file))
        execution_id = start(rt, StartRequest(row.path, row.version, payload)).execution_id
        until(
            lambda: inspect.execution(rt, execution_id).status in ENDED,
            lambda: f"the execution to end: {inspect.state_view(rt, execution_id)}",
        )
        report = inspect.report(rt, execution_id).as_json()
        assert report["status"] == "completed", report["error"]
        return report["result"]

    return ran


def workload(name: str) -> Any:
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))["workload"]


def test_a_bell_state_is_even_and_ghz_states_oscillate_once_for_each_qubit(example: Example) -> None:
    found = example("bell_ghz")
    assert set(found["bell"]) == {"00", "11"}
    repetitions = sum(found["bell"].values())
    assert found["bell"]["00"] == pytest.approx(repetitions / 2, abs=SIGMAS * repetitions**0.5 / 2)
    assert found["bell_parity"] == 1
    assert [one["qubits"] for one in found["ghz"]] == [2, 3, 4, 5]
    for one in found["ghz"]:
        assert one["oscillations"] == one["qubits"]
        assert one["off_theory"] < 1e-5


@pytest.mark.full("the Bell state is tried")
def test_chsh_is_violated_without_noise_and_kept_with_much(example: Example) -> None:
    found = example("chsh")["noise"]
    assert [one["p"] for one in found] == workload("chsh")["noise"]
    for one in found:
        assert one["S"] == pytest.approx(figures().chsh(one["p"]), abs=SIGMAS * one["stderr"])
    assert found[0]["S"] == pytest.approx(8**0.5, abs=SIGMAS * found[0]["stderr"])
    assert [one["violates"] for one in found] == [True, True, False]
    assert found[-1]["S"] + SIGMAS * found[-1]["stderr"] < 2


def test_the_energy_of_h2_is_within_chemical_accuracy(example: Example) -> None:
    found = example("vqe_h2")
    expected = figures().h2()
    assert found["exact"] == pytest.approx(expected["energy"], abs=1e-6)
    assert 0 <= found["error_mha"] < 1.6
    assert found["energy"] == pytest.approx(expected["energy"], abs=0.0016)
    assert found["turns"] > len(found["angles"]), "more than one round"


def test_the_hamiltonian_of_h2_is_that_of_its_integrals() -> None:
    expected, given = figures().h2(), workload("vqe_h2")
    assert given["repulsion"] == pytest.approx(expected["repulsion"], abs=1e-8)
    for term, coefficient in given["hamiltonian"].items():
        assert coefficient == pytest.approx(expected[term], abs=1e-8), term


@pytest.mark.full("the Bell state is tried")
def test_qaoa_finds_the_largest_cut_of_the_petersen_graph(example: Example) -> None:
    found = example("qaoa_maxcut")
    edges = workload("qaoa_maxcut")["edges"]
    assert sorted(map(sorted, edges)) == sorted(map(sorted, figures().PETERSEN))
    assert found["cut"] == found["brute_force"] == figures().largest_cut(edges) == 12
    assert figures().cut(edges, found["partition"]) == 12
    best = figures().qaoa_mean(edges, 3)
    assert best - 0.01 < found["mean_cut"] <= best + 1e-4
    assert found["sampled_mean"] == pytest.approx(found["mean_cut"], abs=0.5)


@pytest.mark.full("the Bell state is tried")
def test_randomized_benchmarking_recovers_the_rate_that_was_put_in(example: Example) -> None:
    found = example("randomized_benchmarking")
    assert found["put_in"] == workload("randomized_benchmarking")["rate"]
    assert found["stderr"] < found["put_in"] / 10
    assert found["rate"] == pytest.approx(found["put_in"], abs=SIGMAS * found["stderr"])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The address and the token of IonQ's API as `server.py` serves it, in a thread: a process of
    its own would import Cirq once more."""
    main, printed, made = runpy.run_path(str(FOLDER / "server.py"))["main"], list[str](), list[IonQServer]()

    class Kept(IonQServer):
        def __init__(self, port: int) -> None:
            super().__init__(port)
            made.append(self)

    given = {"IonQServer": Kept, "print": lambda line, **_: printed.append(line)}
    main.__globals__.update(given)
    monkeypatch.setattr(sys, "argv", ["server.py", "--port", "0", "--queue", "0.5", "--run", "0.1"])
    thread = threading.Thread(target=main)
    thread.start()
    until(lambda: len(printed) == 2 or not thread.is_alive(), "the server's address")
    url, command = printed
    yield url, json.loads(shlex.split(command)[-1])["token"]
    made[0].stopping.set()
    made[0].shutdown()
    thread.join()


@pytest.mark.full("its job is one of tests/acceptance/test_quantum_examples.py, too")
def test_a_job_on_ionq_is_estimated_submitted_and_fetched(
    example: Example, rt: Runtime, settings: Settings, server: tuple[str, str]
) -> None:
    url, token = server
    credentials.save(rt, "ionq", "bearer", {"token": token})
    found = example("ionq_submit_poll", host=url)
    assert set(found["histogram"]) == {"000", "111"}
    assert sum(found["histogram"].values()) == workload("ionq_submit_poll")["repetitions"]
    assert found["job"]
    assert found["queue_s"] == pytest.approx(0.5, abs=0.1)
    assert len(found["circuit"]) == 64


@pytest.mark.parametrize(
    ("strengths", "depths"),
    [
        pytest.param(3, 4, marks=pytest.mark.full("the Bell state is tried")),
        pytest.param(
            20,
            20,
            marks=[
                pytest.mark.long("half a minute of simulation; a smaller grid keeps the promise"),
                pytest.mark.timeout(1800),
            ],
        ),
    ],
)
def test_noise_and_depth_fade_a_correlation_and_every_point_is_kept(
    example: Example, tmp_path: Path, strengths: int, depths: int
) -> None:
    found = example("noise_depth_sweep", out_dir=str(tmp_path), strengths=strengths, depths=depths)
    assert found["points"] == strengths * depths
    assert found["off_theory"] < 1e-4
    least = figures().correlation(workload("noise_depth_sweep")["strongest"], depths)
    assert found["least"] == pytest.approx(least, abs=1e-4)
    with duckdb.connect(str(tmp_path / "noise_depth.duckdb"), read_only=True) as database:
        kept = database.execute("SELECT p, depth, zz FROM fading").fetchall()
    assert len({(p, depth) for p, depth, _ in kept}) == len(kept) == strengths * depths
    for p, depth, zz in kept:
        assert zz == pytest.approx(figures().correlation(p, depth), abs=1e-4)
    if depths == workload("noise_depth_sweep")["depths"]:
        assert found["least"] == pytest.approx(figures().all_of_it()["least_correlation"], abs=1e-4)
    picture = ElementTree.parse(found["plot"]).getroot()
    assert picture.tag.endswith("svg")
