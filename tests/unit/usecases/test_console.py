"""Expressions are asked of an execution as it was, with what templates see, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import NotFound
from noetl.facts.json import JsonMap
from noetl.facts.reference import Retention
from noetl.testing import Simulation
from noetl.trial.simulation import Outside
from noetl.usecases.access import Grant, Principal
from noetl.usecases.console import ConsoleAnswer, ask, load_for, names_at

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sums, path: tests/sums}
workload: {n: 3, region: eu}
ctx: {total: 1}
keychain:
  - {name: shop, credential: shop_api}
workflow:
  - step: load
    tool: {kind: python, input: {n: "{{ n }}"}, code: "result = {'double': n * 2}"}
    set: {ctx.total: "{{ result.double }}"}
"""


@pytest.fixture
def sim() -> Simulation:
    return Simulation(PLAYBOOK, outside=Outside(env={"TOKEN": "hidden"}))


@pytest.fixture
def run(sim: Simulation) -> str:
    run = sim.start()
    sim.settle()
    return run


def asked(sim: Simulation, run: str, expression: str, version: int | None = None) -> ConsoleAnswer:
    return ask(names_at(sim.rt, run, version), expression, sim.rt.load)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("ctx.total + workload.n", 9),
        ("load.double", 6),
        ("total", 6),
        ("'{} of {}'.format(total, region)", "6 of eu"),
        ("{{ region }}/{{ n }}", "eu/3"),
        ("{% for one in range(3) %}{{ one }}{% endfor %}", "012"),
        ("[1, 2] | sum", 3),
    ],
)
def test_an_expression_sees_what_templates_see(
    sim: Simulation, run: str, expression: str, value: Any
) -> None:
    assert asked(sim, run, expression) == ConsoleAnswer(value)


def test_an_earlier_version_has_what_was_true_then(sim: Simulation, run: str) -> None:
    begin = sim.types(run).index("workflow.started") + 1
    assert asked(sim, run, "ctx.total", begin).value == 1
    assert asked(sim, run, "load.double", begin).missing != ()
    assert asked(sim, run, "execution_id", begin).value == run


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("ctx.totl", ("ctx has no 'totl'. Did you mean 'total'?",)),
        ("workloda.n", ("There is no name 'workloda' here. Did you mean 'workload'?",)),
        ("ctx.total + ctx.x.y", ("ctx has no 'x'.",)),
        ("ctx.x | default(1)", ()),
        ("load.double.more", ()),
    ],
)
def test_names_that_there_are_not_are_said(
    sim: Simulation, run: str, expression: str, said: tuple[str, ...]
) -> None:
    assert asked(sim, run, expression).missing == said


def test_a_fault_is_a_sentence_and_has_its_place(sim: Simulation, run: str) -> None:
    found = asked(sim, run, "ctx.total | uper")
    assert found.fault == (
        "The template `{{ ctx.total | uper }}` names the filter 'uper', which does not exist. "
        "Did you mean 'upper'?"
    )
    assert "ctx.total | uper"[found.place :] == "uper"
    assert "syntax error" in asked(sim, run, "ctx.total +").fault
    assert "a range of more than" in asked(sim, run, "range(10 ** 9) | list").fault
    assert asked(sim, run, "''.__class__").fault


def test_the_environment_is_not_to_be_seen_and_secrets_cannot_be_used(sim: Simulation, run: str) -> None:
    assert asked(sim, run, "env").missing == ("There is no name 'env' here.",)
    found = asked(sim, run, "keychain.shop")
    assert found.value["keychain"] == "shop"
    assert found.value["seal"] == ""
    assert "hidden" not in str(asked(sim, run, "keychain"))


def reference_of(sim: Simulation, run: str) -> JsonMap:
    return sim.rt.results.put(["kept"] * 10, Retention(run))


def test_what_is_kept_for_others_is_not_opened(sim: Simulation, run: str) -> None:
    other = sim.start()
    own, theirs = reference_of(sim, run), reference_of(sim, other)
    nobody = Principal("eve", (Grant("read", "elsewhere/*"),))
    everybody = Principal("ada", (Grant("read", "tests/*"),))
    assert load_for(sim.rt, nobody, run)(own) == ["kept"] * 10
    assert load_for(sim.rt, everybody, run)(theirs) == ["kept"] * 10
    with pytest.raises(NotFound, match="of this execution"):
        load_for(sim.rt, nobody, run)(theirs)
    made_up = f"[{{'kind': 'result_ref', 'ref': '{theirs['ref']}'}}][0][0]"
    found = ask(names_at(sim.rt, run), made_up, load_for(sim.rt, nobody, run))
    assert "There is no result" in found.fault
