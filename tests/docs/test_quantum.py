"""The playbooks of the tutorial of quantum experiments run as they stand, on real simulators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import pi, sin
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, page, playbooks, rows, sections

from noetl import bootstrap
from noetl.config import Settings
from noetl.quantum.circuits import compiling, drawing, qasm, qasm_angles, qasm_gates, qasm_tokens
from noetl.quantum.circuits.qasm_angles import FUNCTIONS
from noetl.quantum.circuits.qasm_gates import BASIC, LIBRARY
from noetl.quantum.circuits.qasm_tokens import UNKNOWN_WORDS, QasmError
from noetl.quantum.config.task import CIRCUITS, LOCAL, REMOTE, Limits
from noetl.quantum.simulation import mitigation, noise
from noetl.usecases import catalog, inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start
from tests.waiting import until

PAGE = "docs/quantum.md"


@pytest.fixture(scope="module")
def rt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with bootstrap.local(Settings(home=tmp_path_factory.mktemp("home"))) as opened:
        yield opened


def result(rt: Runtime, name: str) -> Any:
    """What the playbook of that name yields. It must complete."""
    found = next(one for one in playbooks() if f"path: docs/quantum/{name}}}" in one.text)
    row = catalog.register(rt, found.text, found.place)
    execution_id = start(rt, StartRequest(row.path, row.version, {})).execution_id
    until(
        lambda: inspect.execution(rt, execution_id).status in ENDED,
        lambda: f"the execution to end: {inspect.state_view(rt, execution_id)}",
    )
    report = inspect.report(rt, execution_id).as_json()
    assert report["status"] == "completed", report["error"]
    return report["result"]


def test_a_bell_state_is_read_as_00_or_11(rt: Runtime) -> None:
    found = result(rt, "bell")
    assert found["correlated"] == 1
    assert sum(found["histogram"].values()) == 1000
    assert found["histogram"]["00"] == pytest.approx(500, abs=80)


def test_circuits_of_a_python_step_are_handed_on(rt: Runtime) -> None:
    assert result(rt, "shapes") == {"seen": [{"11": 10}, {"111": 10}, {"1111": 10}]}


def test_a_sweep_runs_its_points_in_the_order_in_which_they_are_written(rt: Runtime) -> None:
    found = result(rt, "rabi")
    assert found["angles"] == pytest.approx([pi / 4 * number for number in range(9)])
    expected = [500 * sin(angle / 2) ** 2 for angle in found["angles"]]
    assert [seen.get("1", 0) for seen in found["histograms"]] == pytest.approx(expected, abs=60)


def test_means_are_exact_unless_repetitions_are_asked_for(rt: Runtime) -> None:
    found = result(rt, "means")
    assert found["exact"] == pytest.approx({"zz": 1, "energy": -1}, abs=1e-6)
    zz, energy = found["sampled"]
    assert (zz["observable"], zz["mean"], zz["stderr"]) == ("zz", 1, 0)
    assert energy["mean"] == pytest.approx(-1, abs=0.06)
    # Of the sum only Z0 varies: half of the deviation of a fair coin.
    assert energy["stderr"] == pytest.approx(0.5 / 2000**0.5, rel=0.1)


def test_a_depolarizing_channel_leaves_what_the_page_says(rt: Runtime) -> None:
    found = result(rt, "fading")["zz"]
    assert found == pytest.approx([1 - 16 / 15 * p for p in (0, 0.1, 0.2)], abs=1e-5)
    assert f"This yields 1, {found[1]:.3f} and {found[2]:.3f}" in page(PAGE)


def test_errors_of_the_readout_are_taken_out(rt: Runtime) -> None:
    found = result(rt, "misread")
    assert {"01", "10"} & set(found["read"])
    for bits, wanted in {"00": 0.5, "01": 0, "10": 0, "11": 0.5}.items():
        assert found["mitigated"].get(bits, 0) == pytest.approx(wanted, abs=0.05), bits


def test_a_circuit_is_rewritten_and_handed_on(rt: Runtime) -> None:
    found = result(rt, "compiled")
    assert found["gates"] == ["CZPowGate", "MeasurementGate", "PhasedXZGate"]
    assert found["after"] >= found["before"] > 0
    assert found["repetitions"] == 100


def test_a_sweep_that_met_a_limit_goes_on(rt: Runtime) -> None:
    assert result(rt, "in_parts") == {"first": 3, "stopped": "max_points", "all": 4, "complete": True}


def test_a_result_is_verified_by_nothing_but_itself(rt: Runtime) -> None:
    assert result(rt, "again") == {"verified": True, "differences": []}


def test_every_playbook_of_the_page_is_run_here() -> None:
    told = Path(__file__).read_text(encoding="utf-8")
    named = [one.text.split("docs/quantum/")[1].split("}")[0] for one in playbooks() if PAGE in one.place]
    assert named
    assert [name for name in named if f'"{name}"' not in told] == []


def words(section: str) -> set[str]:
    """What stands in backticks in the first cells of a section's tables."""
    return {
        word for cells in rows(sections(PAGE)[section]) for word in re.findall(r"`([a-z_0-9A-Z]+)`", cells[0])
    }


@pytest.mark.parametrize(
    ("section", "known"),
    [
        ("Quantum experiments", (*LOCAL, *REMOTE)),
        ("Circuits", CIRCUITS),
        ("Noise", noise._KEYS),
        ("Mitigation", mitigation._KEYS),
        ("Compiling", compiling._KEYS),
        ("Limits and cost", Limits.model_fields),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_of_the_page_lists_what_there_is(section: str, known: Iterable[str]) -> None:
    assert words(section) == set(known)


# --- OpenQASM ------------------------------------------------------------------------------------

DECLARED = {
    "2": 'OPENQASM 2.0;\ninclude "qelib1.inc";\nqreg q[2]; qreg r[2]; creg c[2];',
    "3": 'OPENQASM 3.0;\ninclude "stdgates.inc";\nqubit[2] q; qubit[2] r; bit[2] c;',
}


def openqasm(header: str) -> list[list[str]]:
    """The rows of one of the tables about OpenQASM, by what its first column is called."""
    tables = sections(PAGE)["OpenQASM"].split("\n\n")
    return rows(next(table for table in tables if table.lstrip().startswith(f"| {header} |")))


def ticked(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


STATEMENTS = [
    (statement, version, version in cells[1].split(", "))
    for cells in openqasm("statement")
    for statement in ticked(cells[0])
    for version in DECLARED
]
GATES = [(name, int(cells[1]), int(cells[2])) for cells in openqasm("gates") for name in ticked(cells[0])]


@pytest.mark.parametrize(("statement", "version", "known"), STATEMENTS)
def test_a_statement_is_understood_in_the_versions_that_the_page_names(
    statement: str, version: str, known: bool
) -> None:
    measured = "\nmeasure q -> c;\n" if statement.startswith("if") else "\n"
    text = f"{DECLARED[version]}{measured}{statement}"
    if known:
        qasm.read(text)
    else:
        with pytest.raises(QasmError):
            qasm.read(text)


@pytest.mark.parametrize(("name", "angles", "qubits"), GATES)
def test_a_gate_takes_the_angles_and_qubits_that_the_page_names(name: str, angles: int, qubits: int) -> None:
    def call(angles: int, qubits: int) -> str:
        given = f"({', '.join(['0.5'] * angles)})" if angles else ""
        return f"{name}{given} {', '.join(f'a[{index}]' for index in range(qubits))};"

    for head in DECLARED.values():
        found, _ = qasm.read(f"{head} qreg a[6]; {call(angles, qubits)}")
        assert len(found.all_qubits()) == qubits
        for wrong in (call(angles + 1, qubits), call(angles, qubits + 1)):
            with pytest.raises(QasmError):
                qasm.read(f"{head} qreg a[6]; {wrong}")


def test_the_page_lists_all_gates_and_functions_of_openqasm() -> None:
    assert {name for name, *_ in GATES} == (BASIC.keys() | LIBRARY.keys()) - {"barrier"}
    told = sections(PAGE)["OpenQASM"].split("and the functions", 1)[1].split(". ", 1)[0]
    assert ticked(told) == [*dict.fromkeys(ticked(told))]
    assert set(ticked(told)) == FUNCTIONS.keys()


@pytest.mark.parametrize(
    ("angle", "versions"), [("pi", "23"), ("π", "3"), ("2^3", "2"), ("2**3", "3"), ("(1+2*3-4)/5", "23")]
)
def test_an_angle_is_written_as_the_page_says(angle: str, versions: str) -> None:
    for version, head in DECLARED.items():
        text = f"{head} rx({angle}) q;"
        if version in versions:
            qasm.read(text)
        else:
            with pytest.raises(QasmError):
                qasm.read(text)


def test_the_page_lists_all_words_that_are_refused() -> None:
    listed = [word for cells in openqasm("what is refused") for word in ticked(cells[0])]
    assert sorted(listed) == sorted(UNKNOWN_WORDS)
    for word in listed:
        with pytest.raises(QasmError, match=f"line 4, column 1: `{word}` is not known: "):
            qasm.read(f"{DECLARED['3']}\n{word} x;")


def test_the_page_lists_the_bounds_of_openqasm() -> None:
    bounds = [int(cells[0].replace(",", "")) for cells in openqasm("at most")]
    assert bounds == [
        qasm_tokens.MOST_TEXT,
        qasm_tokens.MOST_TOKENS,
        qasm_tokens.MOST_NAME,
        qasm_tokens.MOST_DIGITS,
        qasm.MOST_BITS,
        qasm_angles.MOST_INSIDE,
        qasm_angles.MOST_DEPTH,
        qasm_gates.MOST_IN_GATE,
        qasm_gates.MOST_OPERATIONS,
        qasm_gates.MOST_PARTS,
        qasm_gates.MOST_WORK,
    ]


def test_the_page_says_which_circuits_have_a_diagram() -> None:
    told = (
        sections(PAGE)["Provenance"].partition("Of a circuit of more than")[2].partition("`text` is null")[0]
    )
    bounds = [int(one.replace(",", "")) for one in re.findall(r"[\d,]*\d", told)]
    assert bounds == [drawing.MOST_QUBITS, drawing.MOST_OPERATIONS, drawing.MOST_CHARACTERS]


def test_every_gate_set_is_named() -> None:
    cell = next(cells[1] for cells in rows(sections(PAGE)["Compiling"]) if cells[0] == "`gateset`")
    assert set(re.findall(r"`(\w+)`", cell)) == set(compiling._GATESETS)


def test_the_errors_that_the_page_explains_are_raised_somewhere() -> None:
    folder = ROOT / "noetl/quantum"
    code = "".join(file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))
    assert [one for one in words("When something fails") if f'"{one}"' not in code] == []
