from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import BadRequest, NoetlError
from noetl.facts import events
from noetl.facts.events import SCHEMA, CtxPatched, Draft, Fact
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.warnings import Warned
from noetl.store import codec, envelope

#: Texts that survive as they are: everything but lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_maps = st.dictionaries(texts, json_values, max_size=3)


def _strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, as far as facts use types."""
    known: dict[Any, st.SearchStrategy[Any]] = {
        Json: json_values,
        JsonMap: json_maps,
        str: texts,
        Warned: texts | json_maps,
    }
    if hint in known:
        return known[hint]
    if is_dataclass(hint):
        return _records(hint)
    arms = get_args(hint)
    if str(hint).startswith("tuple[tuple["):
        return st.lists(st.tuples(texts, json_values), max_size=2).map(tuple)
    if str(hint).startswith("tuple["):
        return st.lists(_strategy(arms[0]), max_size=2).map(tuple)
    if type(None) in arms:
        return st.one_of(st.none(), *(_strategy(arm) for arm in arms if arm is not type(None)))
    if str(hint).startswith("typing.Literal"):
        return st.sampled_from(arms)
    if hint is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    return st.from_type(hint)


def _records(record: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(record)
    return st.builds(record, **{field.name: _strategy(hints[field.name]) for field in fields(record)})


@pytest.mark.parametrize("kind", codec.FACTS)
def test_every_fact_survives_the_log(kind: str) -> None:
    @given(_records(codec.FACTS[kind]))
    @settings(max_examples=15, deadline=None, database=None)
    def survives(fact: Fact) -> None:
        assert codec.fact(kind, SCHEMA, codec.payload(fact)) == fact

    survives()


def _with_more(value: Any, fact: Any) -> Any:
    """The JSON of `fact`, in which it and each record in it say something more."""
    if is_dataclass(fact):
        own = {name: _with_more(one, getattr(fact, name)) for name, one in value.items()}
        return {**own, "said_by_later_versions": {"n": 1}}
    if isinstance(fact, tuple) and fact and is_dataclass(fact[0]):
        return [_with_more(one, record) for one, record in zip(value, fact, strict=True)]
    return value


@pytest.mark.parametrize("kind", codec.FACTS)
def test_every_fact_that_a_later_version_wrote_is_read_without_what_that_knows_more(kind: str) -> None:
    @given(_records(codec.FACTS[kind]))
    @settings(max_examples=15, deadline=None, database=None)
    def survives(fact: Fact) -> None:
        said = codec.dumps(_with_more(codec.loads(codec.payload(fact)), fact))
        assert codec.fact(kind, SCHEMA, said) == fact

    survives()


def test_what_says_nothing_and_was_added_later_is_left_out() -> None:
    signal = events.SignalReceived("paid", "s1", "2026-01-01T00:00:00+00:00")
    assert "about" not in codec.loads(codec.payload(signal))
    assert codec.loads(codec.payload(replace(signal, about="7")))["about"] == "7"


def test_every_fact_has_an_entity() -> None:
    assert set(envelope._ENTITY_OF) == set(codec.FACTS)


@pytest.mark.parametrize(
    ("fact", "place", "entity"),
    [
        (events.Requested("p", 1, "d"), {}, ("playbook", "100", None)),
        (events.WorkflowStarted(()), {}, ("workflow", "100", "100")),
        (events.StepDone(), {"run_id": "s#1"}, ("step", "s#1", "100")),
        (events.StepSkipped((), ""), {"step": "s"}, ("step", "s", "100")),
        (events.NextEvaluated("step.done"), {"run_id": "s#1"}, ("step", "s#1", "100")),
        (events.TaskDone("t"), {"run_id": "s#1"}, ("task", "s#1/t", "s#1")),
        (events.TaskDone("t"), {"run_id": "s#1", "iteration": 0}, ("task", "s#1/0/t", "s#1/0")),
        (events.IterationDone(), {"run_id": "s#1", "iteration": 4}, ("iteration", "s#1/4", "s#1")),
        (events.LoopDone(1, 1, 0), {"run_id": "s#1"}, ("loop", "s#1", "s#1")),
        (events.CommandLost("c", 3, ""), {"run_id": "s#1"}, ("command", "c", "s#1")),
        (events.ResultDiscarded("c", "x", ""), {"run_id": "s#1"}, ("result", "c", "s#1")),
        (events.AdmitEvaluated("t1", True, "skip", None, {}, 0), {}, ("policy", "t1", "100")),
        (events.PolicyEvaluated("t", 0, None, {}, "retry"), {"run_id": "s#1"}, ("policy", "s#1/t", "s#1")),
        (CtxPatched({}, "task"), {}, ("ctx", "100", "100")),
        (events.JoinUnsatisfied((), ErrorInfo("join", "")), {"step": "s"}, ("join", "s", "100")),
        (events.ChildRequested("t", "7", "p", 1, "d"), {"run_id": "s#1"}, ("child", "7", "s#1")),
        (events.ChildEnded("t", "7", "completed"), {"run_id": "s#1"}, ("child", "7", "s#1")),
        (events.ChildEnded("t", None, "failed"), {"run_id": "s#1"}, ("child", "s#1/t", "s#1")),
        (events.TaskCheckpointed("t", 1), {"run_id": "s#1"}, ("task", "s#1/t", "s#1")),
    ],
    ids=lambda value: value.type if hasattr(value, "type") else "",
)
def test_the_entity_of_an_event_is_what_it_is_about(fact: Fact, place: Any, entity: Any) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    row = envelope.row("100", 100, 1, Draft(fact, **place), now)
    assert (row["entity_type"], row["entity_id"], row["parent_id"]) == entity


def test_a_type_that_nobody_knows_is_named() -> None:
    with pytest.raises(NoetlError, match=r"'step\.teleported'.*upgrade"):
        codec.fact("step.teleported", SCHEMA, "{}")


@pytest.mark.parametrize("text", ['{"nonsense":1}', "[]", "{}", "null", "3"])
def test_a_payload_that_does_not_fit_is_named(text: str) -> None:
    with pytest.raises(NoetlError, match=r"task\.done"):
        codec.fact("task.done", SCHEMA, text)


@pytest.mark.parametrize("text", ["[1]", '"text"', "3", "null"])
def test_a_payload_that_is_no_mapping_is_refused_where_nothing_has_to_be_said(text: str) -> None:
    with pytest.raises(NoetlError, match=r"playbook\.paused"):
        codec.fact("playbook.paused", SCHEMA, text)


def test_a_loss_that_was_recorded_as_a_type_of_its_own_is_what_it_is_today() -> None:
    text = codec.dumps({"command_id": "1/s#1/-/1", "delivery": 2, "worker": "w"})
    read = codec.fact("command.delivery.lost", 1, text)
    assert read == events.ResultDiscarded.by_loss("1/s#1/-/1", delivery=2, worker="w")


def test_payloads_are_upcast_one_step_at_a_time() -> None:
    def rename(kind: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return "tool.ended", {"task": payload["name"]}

    def settle(kind: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return "task.done", {**payload, "result": None}

    steps = {("tool.done", 1): rename, ("tool.ended", 3): settle}
    assert codec.upcast("tool.done", 1, {"name": "t"}, steps, 4) == (
        "task.done",
        {"task": "t", "result": None},
    )
    assert codec.upcast("tool.ended", 2, {"task": "t"}, steps, 3) == ("tool.ended", {"task": "t"})
    assert codec.upcast("other", 1, {"a": 1}, steps, 4) == ("other", {"a": 1})


def test_a_payload_of_a_newer_schema_is_refused() -> None:
    with pytest.raises(NoetlError, match="upgrade"):
        codec.fact("task.done", SCHEMA + 1, "{}")


def test_cycles_and_bottomless_values_are_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(BadRequest, match="not JSON"):
        codec.dumps(cycle)


def test_a_result_of_depth_500_survives() -> None:
    value: Any = 1
    for _ in range(500):
        value = [value]
    assert codec.loads(codec.dumps(value)) == value


@given(st.text(st.characters(), max_size=8))
@settings(max_examples=100, deadline=None, database=None)
def test_any_text_can_be_stored(text: str) -> None:
    stored = codec.dumps(text)
    stored.encode()
    assert "\0" not in stored
    assert codec.loads(stored) == codec.clean(text)


@given(st.integers(0, 2**63 - 1))
@settings(max_examples=50, deadline=None, database=None)
def test_ids_are_decimal_numbers(number: int) -> None:
    assert codec.number(str(number)) == number
    assert codec.number(f"0{number}") == -1
