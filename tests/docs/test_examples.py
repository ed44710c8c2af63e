"""The examples of the documentation do what the text beside them says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from pages import HEADER, page, playbooks, rows, sections, steps

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import catalog
from noetl.usecases.control import patch_ctx
from noetl.usecases.inspect import report

Tools = Mapping[str, Callable[[Call], Json]]


def whole(path: str, tools: Tools | None = None) -> Simulation:
    """The playbook with that `metadata.path`."""
    return Simulation(next(block.text for block in playbooks() if f"path: {path}}}" in block.text), tools)


def part(place: str, step: str, tools: Tools | None = None, workload: str = "{}") -> Simulation:
    """The list of steps that has that step, on that page."""
    named = re.compile(rf"^- step: {step}$", re.MULTILINE)
    text = next(block.text for block in steps() if f"{place}:" in block.place and named.search(block.text))
    return Simulation(f"workload: {workload}\n{HEADER}{text}", tools)


def response(url: str, body: Json, elapsed: float = 0.1) -> Json:
    return {"status_code": 200, "headers": {}, "url": url, "elapsed": elapsed, "data": body}


SQUARE: Tools = {"python": lambda call: call.args["n"] ** 2}


def test_the_journey_of_a_call_is_the_one_that_both_executions_make() -> None:
    told = rows(sections("docs/architecture.md")["The journey of a call"])
    simulation = whole("docs/caller")
    register(simulation, "docs/called")
    caller = simulation.run().row.execution_id
    child = report(simulation.rt, caller).children[0]["execution_id"]
    for column, execution_id in ((2, caller), (3, child)):
        types = [name for cells in told for name in re.findall(r"`([a-z.]+)`", cells[column])]
        assert types == simulation.types(execution_id)
    assert simulation.report(caller).result == {"twice": 12}


def test_a_loop_of_calls_sees_its_iterations() -> None:
    simulation = whole("docs/days")
    register(simulation, "docs/day")
    days = [{"value": 10, "at": 0}, {"value": 20, "at": 1}, {"value": 30, "at": 2}]
    assert simulation.run().result == {"days": days}


def test_a_step_of_a_child_is_returned() -> None:
    simulation = part("tools/playbook.md", "nightly", workload="{day: 3}")
    steps = (
        "{step: start, next: totals}, {step: totals, tool: {kind: noop, input: {d: '{{ day }}'}}, "
        "next: x}, {step: x, tool: {kind: noop}}"
    )
    catalog.register(simulation.rt, f"metadata: {{path: sales/load_day}}\nworkflow: [{steps}]\n")
    assert simulation.run().result == {"totals": {"d": 3}}


def register(simulation: Simulation, path: str) -> None:
    catalog.register(simulation.rt, next(one.text for one in playbooks() if f"path: {path}}}" in one.text))


def test_the_journey_is_the_one_that_an_execution_makes() -> None:
    told = [
        (cells[1], re.findall(r"`([a-z.]+)`", cells[3]))
        for cells in rows(sections("docs/architecture.md")["The journey of one event"])
        if re.fullmatch(r"\d+", cells[0])
    ]
    simulation = whole("docs/journey")
    execution_id = simulation.start()
    seen = [("API", simulation.types(execution_id))]
    messages = 1
    while simulation.mailbox.messages:
        before = len(simulation.events(execution_id))
        message = simulation.mailbox.messages[0]
        who = "worker" if message.command else "scheduler"
        messages += len(simulation.mailbox.messages) - 1
        simulation.deliver()
        messages += len(simulation.mailbox.messages)
        seen.append((who, simulation.types(execution_id)[before:]))
    assert [(who, types) for who, types in told if types] == seen
    assert len(simulation.events(execution_id)) == sum(len(types) for _, types in told) == 14
    assert messages == 3
    assert simulation.report(execution_id).row.status == "completed"


def test_the_loop_fans_out_into_lanes_and_in_again_as_told() -> None:
    simulation = whole("docs/fan", SQUARE)
    execution_id = simulation.start()
    simulation.settle()
    counts = Counter(simulation.types(execution_id))
    assert counts["loop.started"] == counts["loop.done"] == counts["step.done"] == 1
    assert counts["command.issued"] == 2
    assert counts["task.done"] == counts["loop.iteration.done"] == 3
    assert simulation.report(execution_id).result["results"] == [1, 4, 9]


def test_the_example_of_a_workbook_does_what_it_says() -> None:
    report = whole("docs/book").run()
    assert report.result == 8


def test_the_example_of_a_workload_does_what_it_says() -> None:
    assert whole("docs/greet").run().result == {"text": "Hello, world!"}
    assert whole("docs/greet").run(name="Ada").result == {"text": "Hello, Ada!"}


def test_the_playbook_of_the_readme_yields_what_it_says() -> None:
    text = page("README.md")
    assert '{"sum": 30}' in text
    assert whole("examples/squares", SQUARE).run().result == {"sum": 30}


def test_a_final_step_learns_how_it_ended() -> None:
    def broken(_: Call) -> Json:
        raise ToolError("shell", "It ended with exit status 1.")

    report = whole("docs/nightly", {"shell": broken}).run()
    assert report.row.status == "partial"
    assert report.result["status"] == "partial"
    assert report.result["failed"] == 1


def test_retries_and_jumps_fetch_every_page() -> None:
    seen: list[int] = []

    def get(call: Call) -> Json:
        number = int(call.config["params"]["page"])
        seen.append(number)
        if seen.count(number) == 1 and number == 2:
            raise ToolError("server_error", "Busy.", retryable=True)
        return response("u", {"next": number + 1 if number < 3 else None, "rows": [number]})

    report = part("reference/policy.md", "fetch", {"http": get}, "{url: u}").run()
    assert report.steps["fetch"]["result"] == {"rows": [1, 2, 3]}
    assert seen == [1, 2, 2, 3]


def test_a_paged_task_collects_orders_and_repeats_a_page_that_was_refused() -> None:
    seen: list[Json] = []

    def get(call: Call) -> Json:
        mark = call.config["params"]["cursor"]
        seen.append(mark)
        if seen.count("b") == 1 and mark == "b":
            raise ToolError("server_error", "Busy.", retryable=True)
        return response("u", {"orders": [mark], "meta": {"next": {None: "a", "a": "b"}.get(mark)}})

    report = part("reference/repeating.md", "all_orders", {"http": get}, "{base_url: u, day: monday}").run()
    assert report.result == {"data": [None, "a", "b"], "pages": 3, "truncated": False}
    assert report.ctx == {"orders": 3}
    assert seen == [None, "a", "b", "b"]


def test_a_pipeline_hands_on_bodies_and_names() -> None:
    rows_ = [{"value": 1}, {"value": 3}]
    report = part(
        "reference/task.md", "pages", {"http": lambda _: response("u", {"rows": rows_})}, "{base_url: u}"
    ).run()
    assert report.result["mean"] == 2


def test_a_denied_token_waits_until_ctx_changes() -> None:
    simulation = part("reference/policy.md", "publish")
    execution_id = simulation.start()
    simulation.settle()
    assert simulation.report(execution_id).row.status == "waiting"
    patch_ctx(simulation.rt, execution_id, {"approved": True})
    simulation.settle()
    assert simulation.report(execution_id).row.status == "completed"


def test_a_guard_that_names_the_outcome_handles_a_failure() -> None:
    report = part("reference/policy.md", "risky").run()
    assert report.row.status == "completed"
    assert report.result == {"why": "no"}


def test_a_join_merges_the_args_of_its_branches() -> None:
    assert part("reference/next.md", "both").run().result["sum"] == 3


@pytest.mark.parametrize(("failing", "status"), [(1, "completed"), (2, "failed")])
def test_a_loop_tolerates_some_failures_and_reduces_in_item_order(failing: int, status: str) -> None:
    def get(call: Call) -> Json:
        url = call.config["url"]
        if url.startswith("bad"):
            raise ToolError("client_error", "No.")
        return response(url, {}, elapsed=2.0 if url.startswith("slow") else 0.1)

    fine = ["slow1", "fast", "slow2", *"abcdef"][: 10 - failing]
    urls = [*fine, *(f"bad{number}" for number in range(failing))]
    report = part("reference/loop.md", "visits", {"http": get}, f"{{urls: [{', '.join(urls)}]}}").run()
    assert report.row.status == status
    if status == "completed":
        assert report.result["slow"] == ["slow1", "slow2"]
        assert report.result["visits"][-1] is None
