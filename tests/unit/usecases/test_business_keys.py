"""Business keys: who gets one, who gives way, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from families import Family
from playbooks import playbook

from noetl.errors import BadRequest, Conflict, KeyTaken, NoetlError, NotFound
from noetl.facts.events import CancelRequested, ChildRequested, Requested
from noetl.facts.json import JsonMap
from noetl.testing import Simulation
from noetl.usecases import catalog, control, inspect, specimens
from noetl.usecases.address import resolve
from noetl.usecases.fork import ForkRequest, fork
from noetl.usecases.ports import ExecutionRow, KeyOwner
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.start import StartedExecution, StartRequest, start, start_all

#: It stays open until ctx.go is set.
OPEN = """
- step: start
  tool: {kind: noop}
  next: [end]
- step: end
  spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  tool: {kind: noop}
"""
ORDER = "key: 'order-{{ order.id }}'\nworkload: {order: {id: null}}"
WITH_POLICY = "key: {{value: '{{{{ order.id }}}}', on_conflict: {}}}\nworkload: {{order: {{id: 7}}}}"


class Orders:
    """Executions of a playbook that stay open until they are told to go."""

    def __init__(self, root: str = ORDER) -> None:
        self.sim = Simulation(playbook(OPEN, root))
        self.rt = self.sim.rt

    def ask(self, payload: JsonMap | None = None, **more: Any) -> StartedExecution:
        return start(self.rt, StartRequest(self.sim.path, payload=payload or {}, **more))

    def start(self, number: object = 7, **more: Any) -> ExecutionRow:
        row = self.ask({"order": {"id": number}}, **more).row
        self.sim.settle()
        return inspect.execution(self.rt, row.execution_id)

    def end(self, execution_id: str) -> None:
        control.patch_ctx(self.rt, execution_id, {"go": True})
        self.sim.settle()
        assert inspect.execution(self.rt, execution_id).status == "completed"

    def status(self, execution_id: str) -> str:
        return inspect.execution(self.rt, execution_id).status

    def requested(self, execution_id: str) -> Requested:
        fact = self.sim.events(execution_id)[0].fact
        assert isinstance(fact, Requested)
        return fact


# --- where the key comes from ---------------------------------------------------------------------


def test_the_key_is_made_of_the_workload_and_stands_in_the_first_event_and_the_row() -> None:
    orders = Orders()
    row = orders.start()
    assert (row.key, row.status) == ("order-7", "waiting")
    assert orders.requested(row.execution_id).key == "order-7"
    assert orders.sim.report(row.execution_id).as_json()["key"] == "order-7"
    assert [one.key for one in inspect.executions(orders.rt, key="order-7")] == ["order-7"]
    assert inspect.executions(orders.rt, key="order-8") == []


def test_the_key_of_the_start_wins_and_is_no_template() -> None:
    row = Orders().start(key=" {{ order.id }} ")
    assert row.key == "{{ order.id }}"


def test_a_playbook_without_a_key_has_one_only_where_the_start_brings_it() -> None:
    orders = Orders("workload: {order: null}")
    assert (orders.start().key, orders.start(key="a").key) == (None, "a")


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ("{{ order.id }}", "7"),
        ("{{ payload.order.id }}/{{ workload.order.id }}", "7/7"),
        ("{{ order.id + 0.5 }}", "7.5"),
        ("nightly", "nightly"),
        ("{{ 'Größe ✓ %2F' }}", "Größe ✓ %2F"),
        ("{{ execution_id | length > 0 }}-{{ env | length }}", "true-0"),
        ("{{ order.part | default('whole') }}", "whole"),
    ],
)
def test_a_key_sees_what_values_of_the_workload_see(template: str, key: str) -> None:
    assert Orders(f'key: "{template}"\nworkload: {{order: null}}').start().key == key


NO_KEYS = {
    "{{ order.id }}": ({"id": None}, "reads order.id, which is null"),
    "{{ order.part | default(none) }}": ({"id": 1}, "is null"),
    "{{ order.id ~ '' }}": ({"id": ""}, "is empty"),
    "{{ order['id'] }}": ({"id": "x" * 201}, "has 201 characters, more than 200"),
    "{{ order }}": ({"id": 1}, "is a mapping, and has to be a text or a number"),
    "{{ [order.id] }}": ({"id": 1}, "is a list"),
    "{{ order.id == 1 }}": ({"id": 1}, "is true or false"),
    "a{{ order.id }}": ({"id": "\n b"}, r"cannot be printed \(U\+000A\)"),
    "{{ order . id }}": ({"id": ".."}, "means another thing in an address"),
    "o-{{ order.number }}": ({"id": 1}, "reads order.number, which is null; where it may be"),
    "{{ 1 // order.id }}": ({"id": 0}, "cannot be made"),
}


@pytest.mark.parametrize("template", NO_KEYS)
def test_what_is_no_key_is_refused_and_nothing_is_started(template: str) -> None:
    payload, message = NO_KEYS[template]
    orders = Orders(f'key: "{template}"\nworkload: {{order: null}}')
    with pytest.raises(BadRequest, match=message):
        orders.ask({"order": payload})
    assert inspect.executions(orders.rt) == []


def test_what_turns_out_to_be_a_secret_is_no_key() -> None:
    orders = Orders("key: 'k-{{ data }}'\nworkload: {data: '{{ token }}'}\ninputs: {token: {secret: true}}")
    with pytest.raises(BadRequest, match="The key of playbook 'tests/test' holds a secret"):
        orders.ask({"token": "hush"})
    assert inspect.executions(orders.rt) == []


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a\0b", ".", "\ud800"])
def test_a_start_with_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(BadRequest, match=r"^`key` "):
        Orders().ask(key=key)


def test_what_becomes_of_a_key_is_nothing_without_one() -> None:
    with pytest.raises(BadRequest, match="`on_conflict` is given without a key"):
        Orders("workload: {order: null}").ask(on_conflict="return")


# --- one open execution ---------------------------------------------------------------------------


def test_a_second_start_is_refused_with_the_id_of_the_open_one() -> None:
    orders = Orders()
    first = orders.start()
    with pytest.raises(KeyTaken, match=f"Execution {first.execution_id} of playbook 'tests/test'") as raised:
        orders.ask({"order": {"id": 7}})
    assert raised.value.execution_id == first.execution_id
    assert orders.start(8).key == "order-8"


def test_another_playbook_may_have_the_same_key() -> None:
    orders = Orders()
    orders.start(key="same")
    other = catalog.register(orders.rt, playbook(OPEN).replace("tests/test", "tests/other")).path
    assert start(orders.rt, StartRequest(other, key="same")).row.path == "tests/other"


def test_a_key_is_free_again_once_its_execution_has_ended() -> None:
    orders = Orders()
    first = orders.start().execution_id
    orders.end(first)
    second = orders.start().execution_id
    assert second != first
    with pytest.raises(KeyTaken, match=second):
        orders.ask({"order": {"id": 7}})


@pytest.mark.parametrize("root", [ORDER, WITH_POLICY.format("return")])
def test_return_answers_with_the_open_one(root: str) -> None:
    orders = Orders(root)
    first = orders.start()
    again = orders.ask({"order": {"id": 7}}, on_conflict=None if "return" in root else "return")
    assert (again.execution_id, again.existing) == (first.execution_id, True)
    assert len(inspect.executions(orders.rt)) == 1


def test_the_policy_of_the_start_wins_over_that_of_the_playbook() -> None:
    orders = Orders(WITH_POLICY.format("return"))
    orders.start()
    with pytest.raises(KeyTaken):
        orders.ask(on_conflict="reject")


def test_cancel_other_cancels_the_open_one_and_starts_at_once() -> None:
    orders = Orders(WITH_POLICY.format("cancel_other"))
    first, second = orders.start(), orders.start()
    assert (second.status, second.key) == ("waiting", "7")
    asked = next(
        event.fact
        for event in orders.sim.events(first.execution_id)
        if isinstance(event.fact, CancelRequested)
    )
    assert asked.reason == f"execution {second.execution_id} was started with its key '7'"
    assert orders.status(first.execution_id) == "cancelled"
    assert resolve(orders.rt, "tests/test:7") == second.execution_id


def test_while_the_other_one_still_ends_the_key_is_that_of_the_new_one() -> None:
    orders = Orders(WITH_POLICY.format("cancel_other"))
    first = orders.start().execution_id
    second = orders.ask().execution_id
    assert orders.status(first) == "waiting", "no turn was taken yet"
    with pytest.raises(KeyTaken, match=second):
        orders.ask(on_conflict="reject")
    third = orders.ask().execution_id
    orders.sim.settle()
    assert [orders.status(one) for one in (first, second, third)] == ["cancelled", "cancelled", "waiting"]


# --- with idempotency keys, and in batches --------------------------------------------------------


def test_the_same_request_is_answered_before_its_key_is_looked_at() -> None:
    orders = Orders()
    first = orders.start(idempotency_key="i")
    again = orders.ask({"order": {"id": 7}}, idempotency_key="i")
    assert (again.execution_id, again.existing) == (first.execution_id, True)
    orders.end(first.execution_id)
    assert orders.start(idempotency_key="i").execution_id == first.execution_id


def test_a_request_that_was_refused_may_be_sent_again_when_the_key_is_free() -> None:
    orders = Orders()
    first = orders.start().execution_id
    for _ in range(2):
        with pytest.raises(KeyTaken):
            orders.ask({"order": {"id": 7}}, idempotency_key="i")
    orders.end(first)
    assert orders.start(idempotency_key="i").execution_id != first


def test_a_request_that_was_answered_with_the_open_one_is_so_again_when_that_has_ended() -> None:
    orders = Orders()
    first = orders.start().execution_id
    asked: dict[str, Any] = {"idempotency_key": "i", "on_conflict": "return"}
    assert orders.start(**asked).execution_id == first
    orders.end(first)
    assert orders.start(**asked).execution_id == first
    with pytest.raises(Conflict, match="another request"):
        orders.ask({"order": {"id": 7}}, idempotency_key="i")


def test_of_a_batch_with_the_same_key_the_first_one_gets_it() -> None:
    orders = Orders("workload: {order: null}")
    path = orders.sim.path
    answers = start_all(
        orders.rt,
        [
            StartRequest(path, key="b", idempotency_key="1"),
            StartRequest(path, key="a"),
            StartRequest(path, key="b", idempotency_key="2"),
            StartRequest(path, key="b", idempotency_key="2"),
            StartRequest(path, key="b", on_conflict="return", idempotency_key="3"),
            StartRequest(path, key="b", on_conflict="return", idempotency_key="3"),
            StartRequest(path, key="a", on_conflict="cancel_other"),
            StartRequest(path, key="a\n\b"),
        ],
    )
    first, a, refused, twice, returned, once_more, instead, wrong = answers
    assert isinstance(first, StartedExecution)
    assert isinstance(a, StartedExecution)
    assert isinstance(instead, StartedExecution)
    assert [type(one) for one in (refused, twice, wrong)] == [KeyTaken, KeyTaken, BadRequest]
    for one in (returned, once_more):
        assert isinstance(one, StartedExecution)
        assert (one.execution_id, one.existing) == (first.execution_id, True)
    orders.sim.settle()
    assert orders.status(a.execution_id) == "cancelled"
    assert orders.status(instead.execution_id) == "waiting"
    with orders.rt.store.begin() as tx:
        mine = {"2": KeyOwner("new", "5")}
        assert tx.idempotency.claim(mine, orders.sim.now) == mine, "what was refused keeps no key"


# --- running again, forks, specimens --------------------------------------------------------------


def test_a_retry_has_the_key_of_its_source() -> None:
    orders = Orders()
    first = orders.start().execution_id
    orders.end(first)
    again = retry(orders.rt, RetryRequest(first))
    assert again.key == "order-7"
    assert orders.requested(again.execution_id).key == "order-7"
    assert resolve(orders.rt, "order-7") == again.execution_id


@pytest.mark.parametrize("policy", ["reject", "return", "cancel_other"])
def test_a_retry_is_refused_where_an_open_one_has_the_key(policy: str) -> None:
    orders = Orders(WITH_POLICY.format(policy))
    first = orders.start().execution_id
    orders.end(first)
    second = orders.start().execution_id
    with pytest.raises(KeyTaken, match=second):
        retry(orders.rt, RetryRequest(first))
    assert orders.status(second) == "waiting"


def test_a_fork_has_no_key() -> None:
    orders = Orders()
    first = orders.start().execution_id
    made = fork(orders.rt, ForkRequest(first, before="start"))
    assert (made.key, orders.requested(made.execution_id).key) == (None, None)
    assert resolve(orders.rt, "order-7") == first


def test_a_specimen_shows_its_key_and_takes_it_from_nobody() -> None:
    there, here = Orders(), Orders()
    lines = [line.encode() for line in specimens.export(there.rt, there.start().execution_id)]
    for _ in range(3):
        here.rt.entropy()  # so that both have other ids
    kept = specimens.keep(here.rt, specimens.check(here.rt, lines)).row
    assert (kept.key, kept.status) == ("order-7", "waiting")
    with pytest.raises(NotFound):
        resolve(here.rt, "order-7")
    assert here.start().key == "order-7"


# --- calls ----------------------------------------------------------------------------------------

KEYED = "key: {{value: 'c-{{{{ n }}}}', on_conflict: {}}}\nworkload: {{n: 1}}"


def _family(policy: str, calls: str) -> Family:
    return Family(calls, OPEN, child_root=KEYED.format(policy))


CALL = "- step: start\n  tool: {kind: playbook, path: tests/child, input: {n: 5}}"
TWO = """\
- step: start
  loop: {in: [5, 5], iterator: n, spec: {mode: parallel, policy: {failure: {mode: best_effort}}}}
  tool: {kind: playbook, path: tests/child, input: {n: "{{ n }}"}}"""


def test_a_called_playbook_gets_its_key_from_what_it_is_handed() -> None:
    family = _family("reject", CALL)
    run = family.start()
    (child,) = family.children(run)
    assert family.sim.report(child).row.key == "c-5"
    asked = next(one.fact for one in family.sim.events(run) if isinstance(one.fact, ChildRequested))
    assert asked.key == "c-5"
    assert resolve(family.sim.rt, "tests/child:c-5") == child


@pytest.mark.parametrize(("policy", "says"), [("reject", ""), ("return", "is not the call's to wait for")])
def test_a_call_fails_where_an_open_one_has_the_key(policy: str, says: str) -> None:
    family = _family(policy, CALL)
    (holder,) = family.children(family.start())
    second = family.start()
    error = family.sim.report(second).error
    assert family.status(second) == "failed"
    assert error is not None
    assert (error["kind"], error["type"]) == ("client_error", "KeyTaken")
    assert f"execution {holder}, which is open, has the key 'c-5'" in error["message"]
    assert says in error["message"]


def test_of_two_calls_in_one_turn_the_second_one_fails() -> None:
    family = _family("reject", TWO)
    run = family.start()
    (child,) = family.children(run)
    assert family.status(child) == "waiting"
    assert family.sim.types(run).count("child.requested") == 1
    assert family.sim.types(run).count("child.ended") == 1


def test_a_call_with_cancel_other_makes_the_open_one_give_way() -> None:
    family = _family("cancel_other", CALL)
    (holder,) = family.children(family.start())
    second = family.start()
    (child,) = family.children(second)
    assert (family.status(holder), family.status(child)) == ("cancelled", "waiting")
    assert resolve(family.sim.rt, "c-5") == child
    reasons = [one.fact.reason for one in family.sim.events(holder) if isinstance(one.fact, CancelRequested)]
    assert reasons == [f"execution {child} was started with its key 'c-5'"]


def test_of_two_calls_in_one_turn_with_cancel_other_the_first_one_gives_way() -> None:
    family = _family("cancel_other", TWO)
    run = family.start()
    statuses = sorted(family.status(child) for child in family.children(run))
    assert statuses == ["cancelled", "waiting"]


def test_a_playbook_that_calls_itself_does_not_cancel_itself() -> None:
    root = "key: {value: one, on_conflict: cancel_other}"
    sim = Simulation(playbook("- step: start\n  tool: {kind: playbook, path: tests/test}", root))
    report = sim.run()
    assert report.row.status == "failed"
    assert report.error is not None
    assert (
        f"execution {report.row.execution_id}, which calls it, has the key 'one'" in report.error["message"]
    )


def test_a_call_whose_key_cannot_be_made_fails() -> None:
    family = Family(CALL, OPEN, child_root="key: '{{ missing.part }}'")
    run = family.start()
    error = family.sim.report(run).error
    assert error is not None
    assert "The key of playbook 'tests/child' reads missing.part, which is null" in error["message"]


# --- addresses ------------------------------------------------------------------------------------


def test_a_key_means_the_open_execution_else_the_newest() -> None:
    orders = Orders()
    first = orders.start().execution_id
    assert resolve(orders.rt, "order-7") == first
    orders.end(first)
    assert resolve(orders.rt, "order-7") == first
    second = orders.start().execution_id
    assert resolve(orders.rt, "order-7") == second
    assert resolve(orders.rt, "tests/test:order-7") == second


def test_an_id_comes_before_a_key_and_digits_of_its_length_are_no_key() -> None:
    orders = Orders("workload: {order: null}")
    first = orders.start().execution_id
    second = orders.start(key=first).execution_id
    assert resolve(orders.rt, first) == first
    assert resolve(orders.rt, f"tests/test:{first}") == second
    long = "340123450000000018"
    third = orders.start(key=long).execution_id
    assert resolve(orders.rt, long) == long
    assert resolve(orders.rt, f"tests/test:{long}") == third


def test_keys_and_paths_may_hold_colons() -> None:
    orders = Orders("workload: {order: null}")
    found = {key: orders.start(key=key).execution_id for key in ("a:b", "b", ":", "tests/test:b")}
    assert resolve(orders.rt, "a:b") == found["a:b"]
    assert resolve(orders.rt, ":") == found[":"]
    with pytest.raises(Conflict, match=r"'tests/test:b', 'tests/test:tests/test:b'"):
        resolve(orders.rt, "tests/test:b")
    assert resolve(orders.rt, "tests/test:tests/test:b") == found["tests/test:b"]


def test_a_key_of_several_playbooks_needs_its_path() -> None:
    orders = Orders()
    first = orders.start(key="same").execution_id
    other = catalog.register(orders.rt, playbook(OPEN).replace("tests/test", "tests/other")).path
    start(orders.rt, StartRequest(other, key="same"))
    with pytest.raises(
        Conflict, match=r"name the one that you mean: 'tests/other:same', 'tests/test:same'\."
    ):
        resolve(orders.rt, "same")
    assert resolve(orders.rt, "tests/test:same") == first


@pytest.mark.parametrize("address", ["", "nothing", "a:b:c", "x\0", "y" * 5000, ":" * 900, "\ud800"])
def test_what_means_no_execution_is_not_found(address: str) -> None:
    with pytest.raises(NotFound, match="nothing has that id or business key"):
        resolve(Orders().rt, address)


def test_no_answer_of_a_batch_is_lost() -> None:
    orders = Orders("workload: {order: null}")
    answers = start_all(orders.rt, [StartRequest(orders.sim.path, key=f"k{n % 70}") for n in range(250)])
    taken = [one for one in answers if isinstance(one, StartedExecution)]
    assert len(taken) == 70
    assert all(isinstance(one, KeyTaken) for one in answers if isinstance(one, NoetlError))
