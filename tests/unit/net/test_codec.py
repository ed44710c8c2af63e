from __future__ import annotations

import json
from dataclasses import replace

import pytest

from noetl.errors import NoetlError
from noetl.facts.json import Json
from noetl.net.codec import SCHEMA, digest, from_json, same_net, to_json
from noetl.net.model import (
    Admission,
    AdmitRule,
    Arc,
    Assignment,
    CollectPolicy,
    Directive,
    Failure,
    Join,
    Loop,
    Net,
    NextRequest,
    OlderRepeat,
    Pages,
    Repeat,
    Rule,
    Task,
    Transition,
)

_TASK = Task(
    name="get",
    kind="http",
    config={"url": "{{ base }}", "params": {"z": 1, "a": [1.0, None, True]}},
    args={"x": 1},
    rules=(
        Rule("{{ error }}", Directive("retry", attempts="{{ n }}", backoff="fixed", delay=0.5)),
        Rule(
            None,
            Directive("jump", to="get", set=(Assignment("ctx", "a.b", [1]), Assignment("iter", "c", None))),
        ),
    ),
    set=(Assignment("local", "x", "{{ result }}"), Assignment("step", "y", 2)),
    spec={"timeout": 5},
    line=7,
    lines={"url": 8},
    verbatim=("url",),
    quoted=("params",),
    wants_context=True,
    after="{{ outcome.status == 'ok' }}",
)
NET = Net(
    name="n",
    path="p/n",
    entry="a",
    transitions=(
        Transition(
            name="a",
            tasks=(_TASK,),
            arcs=(
                Arc("a->b", "a", "b", when=True, args={"k": "v"}, set=(Assignment("ctx", "m", 1),), line=9),
                Arc("a->b#2", "a", "b", also=True),
                Arc("a->", "a", "", set=(Assignment("ctx", "m", 2),)),
            ),
            router="inclusive",
            loop=Loop(
                [1, {"x": 2}], "i", "parallel", 4, Failure("best_effort", 1, 12.5), {"t": "sum"}, "each"
            ),
            admit=Admission((AdmitRule("{{ ctx.x }}", True), AdmitRule(None, False)), "skip"),
            no_next_is_error=False,
        ),
        Transition(name="b", join=Join("count", 2, True)),
    ),
    workload={"b": 1, "a": {"c": 1e100, "d": 10**30}},
    workbook={"get": _TASK},
    keychain=({"name": "k", "kind": "token"},),
    final_step="b",
    file="f.yaml",
    ctx={"z": 1, "a": "{{ b }}"},
)


def test_a_net_survives_json_exactly() -> None:
    again = from_json(json.loads(json.dumps(to_json(NET))))
    assert again == NET
    assert list(again.workload) == ["b", "a"]
    assert isinstance(again.steps["a"].tasks[0].set, tuple)
    assert isinstance(again.workload["a"]["c"], float)
    assert digest(again) == digest(NET)


def test_a_body_that_was_stored_before_there_was_more_to_say_is_the_net_that_it_was() -> None:
    plain = replace(
        NET,
        ctx={},
        workbook={},
        transitions=(Transition("a", (Task("t", "noop"),), (Arc("x", "a", "b"),)), Transition("b")),
    )
    body = json.loads(json.dumps(to_json(plain)))
    del body["ctx"]
    for step in body["transitions"]:
        for part, key in [(task, "after") for task in step["tasks"]] + [
            (arc, "also") for arc in step["arcs"]
        ]:
            del part[key]
        for task in step["tasks"]:
            del task["effects"]
    assert from_json(body) == plain


def test_the_digest_covers_everything_but_the_order_of_keys() -> None:
    reordered = replace(NET, workload=dict(reversed(NET.workload.items())))
    assert digest(reordered) == digest(NET)
    moved = replace(NET, transitions=(replace(NET.transitions[0], line=99), NET.transitions[1]))
    renamed = replace(NET, name="other")
    assert len({digest(NET), digest(moved), digest(renamed)}) == 3


def test_nets_that_differ_in_positions_only_are_the_same() -> None:
    first, second = NET.transitions
    moved_task = replace(_TASK, line=1, lines={}, set=tuple(reversed(_TASK.set)))
    moved = replace(first, line=99, tasks=(moved_task,))
    assert same_net(NET, replace(NET, file="g", transitions=(moved, second)))
    assert not same_net(NET, replace(NET, transitions=(replace(first, router="exclusive"), second)))
    assert not same_net(NET, replace(NET, transitions=(second, first)))


def test_what_repeats_survives_json_with_the_number_of_the_schema() -> None:
    into = Assignment("ctx", "rows", None)
    repeat = Repeat(
        (NextRequest("{{ more }}", {"args": {"n": 1}}),), collect=CollectPolicy("a.b", "merge", into)
    )
    paged = Repeat(pages=Pages("offset", "at", 0, "{{ n }}", until="{{ done }}"), max=5, delay="{{ d }}")
    tasks = (
        Task("t", "http", repeat=repeat),
        Task("e", "noop", each_of="t"),
        Task("p", "http", repeat=paged),
    )
    net = Net("n", "p", "a", (Transition("a", tasks),))
    assert to_json(net)["schema"] == SCHEMA == 2
    assert from_json(json.loads(json.dumps(to_json(net)))) == net


def test_what_a_task_of_schema_1_said_besides_is_kept_apart() -> None:
    rule = {"when": "{{ more }}", "then": {"set": [_set("calls.request", merge=True)]}}
    task = {
        "name": "t",
        "kind": "http",
        "set": [_set("calls.parts", append=True), _set("x")],
        "over": "{{ o }}",
    }
    step = {"name": "a", "tasks": [{**task, "then": [rule], "again": {"task": "t", "most": 3}}]}
    net = from_json({"name": "n", "path": "p", "entry": "a", "transitions": [step]})
    (found,) = net.steps["a"].tasks
    then = (Rule("{{ more }}", Directive(set=(Assignment("local", "calls.request", 1),))),)
    assert found.older == OlderRepeat("{{ o }}", then, ("calls.parts",), ("calls.request",))
    assert found.set == (Assignment("local", "calls.parts", 1), Assignment("local", "x", 1))


def _set(name: str, *, append: bool = False, merge: bool = False) -> dict[str, Json]:
    return {"scope": "local", "name": name, "value": 1, "append": append, "merge": merge}


@pytest.mark.parametrize("schema", [0, 3, "2", None])
def test_a_net_of_a_schema_that_nobody_knows_is_an_error_that_names_it(schema: Json) -> None:
    with pytest.raises(
        NoetlError, match=rf"playbook 'p/n' is of schema {schema}, .* the version that stored it"
    ):
        from_json({**to_json(NET), "schema": schema})


@pytest.mark.parametrize("number", [True, False])
def test_a_field_that_nobody_knows_is_an_error_that_names_it(number: bool) -> None:
    body = to_json(NET)
    body["transitions"][0]["tasks"][0]["colour"] = "red"
    if not number:
        del body["schema"]
        for task in (*body["transitions"][0]["tasks"], *body["workbook"].values()):
            del task["repeat"], task["each_of"], task["older"]
    with pytest.raises(NoetlError, match=r"playbook 'p/n' cannot be read: transitions\.0\.tasks\.0\.colour"):
        from_json(body)


def test_a_body_that_is_not_a_net_is_named() -> None:
    with pytest.raises(NoetlError, match="entry"):
        from_json({"name": "n", "path": "p", "transitions": []})
