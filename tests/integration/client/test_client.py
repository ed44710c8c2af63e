"""Programs use the API through `noetl.client`, over real HTTP, with requests and with httpx
alike."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from noetl.client import BatchItem, Client, EventPage, ExecutionFailed, Started, sync
from noetl.client.aio import AsyncClient
from noetl.config import Settings
from noetl.errors import BadRequest, Conflict, InputsInvalid, KeyTaken, NotFound, PlaybookInvalid, Unavailable
from noetl.usecases import waiting
from noetl.usecases.inspect import NewEvents
from tests import zygote
from tests.gates import Gate
from tests.waiting import GUARD_S

from .conftest import FAILING, GATE, PLAYBOOK, PRINTING, TYPED, served
from .proxy import losing_the_first_answer


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as opened:
        for text in (PLAYBOOK, GATE, FAILING):
            opened.register(text)
        yield opened


def test_a_playbook_is_registered_started_and_waited_for(client: Client) -> None:
    assert client.register(PLAYBOOK).path == "client/double"

    started = client.start("client/double", {"n": 21})
    found = client.wait(started.execution_id)

    assert (found.status, found.result) == ("completed", {"double": 42})
    assert client.result(started.execution_id) == found
    assert client.report(started.execution_id)["steps"]["double"]["status"] == "done"
    assert client.run("client/double", {"n": 3}, timeout_s=GUARD_S) == {"double": 6}


def test_numbers_that_no_float_holds_keep_their_digits_on_their_way(client: Client, url: str) -> None:
    given, doubled = {"n": Decimal("0.1234567890123456789")}, {"double": Decimal("0.2469135780246913578")}

    async def run_awaited() -> Any:
        async with AsyncClient(url) as opened:
            return await opened.run("client/double", given, timeout_s=GUARD_S)

    assert client.run("client/double", given, timeout_s=GUARD_S) == doubled
    assert asyncio.run(run_awaited()) == doubled


def test_executions_are_run_again_and_forked(client: Client) -> None:
    run = client.start("client/double", {"n": 21}).execution_id
    client.wait(run)
    assert [one["verdict"] for one in client.plan_retry(run, overrides={"n": 2})["runs"]] == ["rerun"]
    assert client.wait(client.retry(run, overrides={"n": 2})).result == {"double": 4}
    assert client.wait(client.retry(run)).result == {"double": 42}
    assert client.wait(client.fork(run, before="double")).result == {"double": 42}
    with pytest.raises(BadRequest, match="Did you mean 'double'"):
        client.retry(run, **{"from": "dubble"})
    with pytest.raises(NotFound):
        client.fork("42", at=1)


def test_many_executions_are_run_again_as_one_operation(client: Client) -> None:
    runs = [client.start("client/double", {"n": n}).execution_id for n in (1, 2)]
    for run in runs:
        client.wait(run)
    where = f"path = 'client/double' and id in ({', '.join(runs)})"
    assert [one["execution_id"] for one in client.executions(where=where)] == list(reversed(runs))
    assert client.failures(where)["groups"] == []
    assert client.plan_retries(where, overrides={"n": 4})["groups"][0]["runs"] == {"rerun": 2}
    name = client.retry_all(where, overrides={"n": 4}, concurrency=1)
    assert client.operation(name)["items"]["total"] == 2
    assert [one["operation_id"] for one in client.list_operations(limit=1)] == [name]
    assert [one["execution_id"] for one in client.operation_items(name)] == runs
    assert client.operation_items(name, state="refused") == []
    with suppress(Conflict):  # its server has ended it already
        assert client.pause_operation(name, "lunch") == "paused"
        assert client.resume_operation(name) == "running"
        assert client.cancel_operation(name, "enough") in ("cancelling", "cancelled")
    with pytest.raises(NotFound):
        client.cancel_operation("12")
    with pytest.raises(BadRequest, match="there is no field 'x'"):
        client.retry_all("x = 1")
    with pytest.raises(NotFound):
        client.operation("12")


def test_a_service_calls_the_address_that_it_was_handed(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "address"
    text = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: asks, path: client/asks}}
workflow:
  - step: start
    tool:
      - tell: {{kind: python, input: {{to: "{{{{ callback.answer.url }}}}"}}, code: "open({str(file)!r}, 'x').write(to)"}}
      - answer: {{kind: wait, callback: {{}}}}
"""
    client.register(text)
    run = client.start("client/asks").execution_id
    next(event for event in client.events(run) if event.type == "step.suspended")
    address = file.read_text()
    first = client.call_back(address, {"paid": 7})
    assert first["accepted"]
    assert client.wait(run).result["payload"] == {"paid": 7}
    assert client.call_back(address, 8) == first
    with pytest.raises(NotFound):
        client.call_back(address + "x")


def test_executions_are_explained_and_compared(client: Client) -> None:
    one, other = (client.start("client/double", {"n": n}).execution_id for n in (1, 2))
    for execution_id in (one, other):
        client.wait(execution_id)
    (step,) = client.explain(one, "double")["steps"]
    assert (step["standing"], step["why"]) == ("done", "It ran as the entry.")
    assert client.explain(one, version=1)["steps"][0]["standing"] == "not_run"
    with pytest.raises(NotFound, match="Did you mean 'double'"):
        client.explain(one, "dubble")
    found = client.diff(one, other, limit=1)
    assert (found["same"], len(found["inputs"]["shown"])) == (False, 1)


def test_an_execution_is_looked_at_on_another_server(client: Client, tmp_path: Path) -> None:
    run = client.start("client/double", {"n": 21}).execution_id
    client.wait(run)
    file = client.export_execution(run)
    with served(Settings(home=tmp_path / "elsewhere")) as there, Client(there) as other:
        assert [other.import_execution(file)["is_new"] for _ in range(2)] == [True, False]
        assert other.result(run) == client.result(run)
        with pytest.raises(Conflict, match="was imported on"):
            other.cancel(run)
        with pytest.raises(BadRequest, match=r"it is cut off"):
            other.import_execution(file[: file.rindex('{"end"')])
        with pytest.raises(NotFound):
            other.export_execution("42")

        async def again() -> tuple[str, bool]:
            async with AsyncClient(there) as one:
                return await one.export_execution(run), (await one.import_execution(file))["is_new"]

        exported, is_new = asyncio.run(again())
    assert is_new is False
    assert len(exported.splitlines()) == len(file.splitlines())


def test_a_test_is_made_of_an_execution(client: Client) -> None:
    run = client.start("client/double", {"n": 21}).execution_id
    client.wait(run)
    assert f"name: as execution {run} went" in client.fixture(run)
    with pytest.raises(NotFound):
        client.fixture("42")


def test_an_execution_that_did_not_complete_has_no_value(client: Client) -> None:
    with pytest.raises(ExecutionFailed, match="is failed") as caught:
        client.run("client/failing")

    assert caught.value.outcome.status == "failed"


def wait_for_idle(client: Client, execution_id: str) -> EventPage:
    """The first page of events from which on nothing happens by itself."""
    page = client.event_page(execution_id, wait_s=20, until_idle=True)
    while not page.idle:
        page = client.event_page(execution_id, after=page.version, wait_s=20, until_idle=True)
    return page


def test_who_waits_with_a_timeout_learns_where_the_execution_stands(client: Client) -> None:
    started = client.start("client/gate")
    wait_for_idle(client, started.execution_id)

    with pytest.raises(TimeoutError, match=r"waiting after 0\.3 s"):
        client.wait(started.execution_id, timeout_s=0.3)
    assert client.cancel(started.execution_id, "the test is over") in ("waiting", "cancelled")
    assert client.wait(started.execution_id).status == "cancelled"
    with pytest.raises(Conflict):
        client.cancel(started.execution_id)


def test_events_are_read_to_the_end_of_the_execution(client: Client) -> None:
    started = client.start("client/double")

    events = list(client.events(started.execution_id))

    assert [event.version for event in events] == list(range(1, len(events) + 1))
    assert events[-1].type == "playbook.processed"
    behind = list(client.events(started.execution_id, after=3, types=["step.done"]))
    assert [event.type for event in behind] == ["step.done"]


def test_a_batch_answers_each_of_its_items(client: Client) -> None:
    good, wrong, again = client.start_batch(
        [
            BatchItem("client/double", {"n": 5}, idempotency_key="batch-1"),
            BatchItem("client/duoble"),
            BatchItem("client/double", {"n": 5}, idempotency_key="batch-1"),
        ]
    )

    assert isinstance(good, Started)
    assert good == again
    assert isinstance(wrong, NotFound)
    assert client.wait(good.execution_id).value() == {"double": 10}


def test_what_the_server_refuses_is_the_error_that_the_program_knows(client: Client) -> None:
    with pytest.raises(NotFound, match="Did you mean 'client/double'"):
        client.start("client/duoble")
    with pytest.raises(PlaybookInvalid):
        client.register("apiVersion: noetl.io/v2\nkind: Playbook\nworkflow: 1\n")
    with pytest.raises(NotFound):
        client.result("1")
    with pytest.raises(BadRequest, match="is not a URL"):
        Client("localhost:8642")


def test_inputs_that_do_not_fit_are_an_error_with_all_of_them(client: Client) -> None:
    client.register(TYPED)
    assert client.inputs("client/typed")["required"] == ["zip"]
    assert client.inputs("client/double") == {"type": "object"}
    with pytest.raises(InputsInvalid) as caught:
        client.start("client/typed", {"count": "10", "zpi": "1"})
    assert [fault["path"] for fault in caught.value.faults] == ["zip", "count", "zpi"]
    (answer,) = client.start_batch([BatchItem("client/typed", {"count": 1})])
    assert isinstance(answer, InputsInvalid)


def test_the_command_hands_text_to_a_server_as_it_is_declared(url: str, tmp_path: Path) -> None:
    file = tmp_path / "typed.yaml"
    file.write_text(TYPED)

    def run(*given: str) -> subprocess.CompletedProcess[bytes]:
        options = [f"--set={one}" for one in given]
        return zygote.run(["noetl", "run", file, "--server", url, "--json", *options], capture_output=True)

    done = run("zip=01234", "count=007", "token=0123")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == ["01234", 7, 4]
    refused = run("count=10")
    assert refused.returncode == 2
    assert refused.stderr.decode().splitlines() == [
        "zip: is required, and was not given",
        "count: must be at most 9, and is 10",
        "error: Nothing was started: 2 inputs cannot be used.",
    ]


def test_a_start_whose_answer_was_lost_is_sent_again_and_starts_one_execution(
    client: Client, url: str
) -> None:
    before = len(client.executions(path="client/double", limit=1000))
    with losing_the_first_answer(url) as lossy, Client(lossy) as careful:
        started = careful.start("client/double", {"n": 8})

    assert client.wait(started.execution_id).value() == {"double": 16}
    assert len(client.executions(path="client/double", limit=1000)) == before + 1


def test_a_server_that_is_away_is_unavailable() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        with Client(nobody) as client, pytest.raises(Unavailable, match="answer: Connection refused"):
            client.cancel("1")


def test_with_asyncio_the_same_calls_are_awaited(url: str) -> None:
    async def use() -> None:
        async with AsyncClient(url) as client:
            await client.register(PLAYBOOK)
            started = await client.start("client/double", {"n": 4})
            many = await asyncio.gather(*(client.run("client/double", {"n": n}) for n in range(10)))
            events = [event async for event in client.events(started.execution_id)]
            assert (await client.wait(started.execution_id)).value() == {"double": 8}
            assert many == [{"double": 2 * n} for n in range(10)]
            assert [event.version for event in events] == list(range(1, len(events) + 1))
            await client.register(PRINTING)
            talked = await client.start("client/printing")
            texts = [chunk.text async for chunk in client.logs(talked.execution_id)]
            assert "".join(texts).splitlines()[-1] == "behind"
            (page,) = [
                one
                for one in (await client.event_page(talked.execution_id)).events
                if one.type == "task.done"
            ][:1]
            ref = page.data["payload"]["result"]["ref"]
            assert json.loads(b"".join([block async for block in client.download(ref)])) == list(range(2000))
            with pytest.raises(NotFound):
                await client.start("no/where")

    asyncio.run(use())


@pytest.fixture
def printed(client: Client) -> str:
    """An execution whose steps print, and whose result is kept by reference."""
    client.register(PRINTING)
    started = client.start("client/printing")
    assert client.wait(started.execution_id, timeout_s=GUARD_S).status == "completed"
    return started.execution_id


def test_what_tasks_print_is_streamed_paged_and_read_from_its_end(client: Client, printed: str) -> None:
    lines = [*(f"line {n}" for n in range(30)), "behind"]
    chunks = list(client.logs(printed))

    assert "".join(chunk.text for chunk in chunks).splitlines() == lines
    assert [chunk.seq for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert [chunk.step for chunk in client.logs(printed, step="whisper")] == ["whisper"]
    page = client.log_page(printed, limit=1)
    assert (page.chunks, page.next, page.status) == (chunks[:1], 1, "completed")
    assert client.log_page(printed, after=1).chunks == chunks[1:]
    assert client.last_lines(printed, 2) == ["line 29", "behind"]
    assert client.last_lines(printed, step="talk", attempt=1) == lines[20:30]


def test_logs_are_followed_while_the_execution_runs(client: Client, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    code = "print('line 0', flush=True)\n" + gate.python() + "print('line 1')"
    client.register(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: talking, path: client/talking}\n"
        f"workflow: [{{step: talk, tool: {{kind: python, code: {json.dumps(code)}}}}}]\n"
    )
    started = client.start("client/talking")

    first = next(iter(client.logs(started.execution_id)))

    assert first.text.startswith("line 0")
    assert not client.result(started.execution_id).ended
    gate.open()
    assert client.wait(started.execution_id, timeout_s=GUARD_S).status == "completed"


def test_a_page_of_events_waits_for_what_is_to_come(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = client.start("client/gate").execution_id
    page = wait_for_idle(client, execution_id)
    began, wait = threading.Event(), waiting.wait_for_news

    def noted(*args: Any, **options: Any) -> NewEvents:
        began.set()
        return wait(*args, **options)

    monkeypatch.setattr(waiting, "wait_for_news", noted)
    with ThreadPoolExecutor(1) as another:
        asked = another.submit(client.event_page, execution_id, after=page.version, wait_s=60)
        assert began.wait(GUARD_S)
        cancel(url, execution_id)
        news = asked.result(GUARD_S)

    assert news.events[0].type == "playbook.cancel.requested"
    assert (page.status, page.next) == ("waiting", None)


def cancel(url: str, execution_id: str) -> None:
    with Client(url) as another:
        another.cancel(execution_id)


def test_a_value_that_is_kept_by_reference_is_fetched_by_pages_and_whole(
    client: Client, printed: str
) -> None:
    events = client.event_page(printed, types=["task.done"]).events
    ref = next(event.data["payload"]["result"]["ref"] for event in events if event.data["step"] == "talk")

    page = client.result_page(ref, offset=1990, limit=5)

    assert (page.items, page.length, page.next) == ([1990, 1991, 1992, 1993, 1994], 2000, 1995)
    assert json.loads(b"".join(client.download(ref))) == list(range(2000))
    with pytest.raises(NotFound):
        list(client.download(ref.replace(printed, "1")))


def test_the_catalog_and_the_server_are_asked(client: Client) -> None:
    assert client.playbook("client/double") == PLAYBOOK
    with pytest.raises(NotFound):
        client.playbook("client/nothing")
    with pytest.raises(PlaybookInvalid, match="workflow"):
        client.register(PLAYBOOK + "workflwo: 1\n", strict=True)
    assert client.health()["status"] == "ok"
    assert "python" in client.runtime()["queues"]


def test_who_waits_where_no_place_is_free_asks_now_and_then(tmp_path: Path) -> None:
    with served(Settings(home=tmp_path, server_streams=0)) as full, Client(full) as client:
        client.register(PLAYBOOK)

        assert client.run("client/double", {"n": 4}, timeout_s=GUARD_S) == {"double": 8}
        with pytest.raises(Unavailable, match=r"The stream does not come back: All 0 places"):
            list(Client(full, tries=1).events(client.start("client/double").execution_id))


def test_a_server_that_has_no_database_says_so_in_its_health(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with served(settings) as url, Client(url, tries=1) as client:
        client.register(PLAYBOOK)
        Path(settings.database.removeprefix("sqlite:///")).write_bytes(b"this is no database" * 1000)

        assert client.health()["status"] == "down"
        with pytest.raises(Unavailable):
            client.executions()


def test_how_often_is_tried_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(sync, "time", SimpleNamespace(sleep=pauses.append))
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        for tries in (1, 2, 4):
            pauses.clear()
            with (
                Client(nobody, tries=tries) as client,
                pytest.raises(Unavailable, match=f"The server at {nobody} does"),
            ):
                client.executions()
            assert len(pauses) == tries - 1
            assert pauses == sorted(pauses)
            assert all(pause > 0 for pause in pauses)


def test_both_clients_have_the_same_methods_and_parameters() -> None:
    def methods(cls: type) -> dict[str, tuple[list[inspect.Parameter], str | None]]:
        found = {name: one for name, one in vars(cls).items() if not name.startswith("_")}
        return {
            name: (
                list(inspect.signature(one).parameters.values()),
                name in ("close", "download") or one.__doc__,
            )
            for name, one in found.items()
        }

    assert methods(Client) == methods(AsyncClient)
    assert str(inspect.signature(Client.wait)).startswith("(self, execution_id: ")


def test_every_method_of_the_client_is_documented() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "client.md").read_text()
    methods = {name for name in vars(Client) if not name.startswith("_")}

    assert [name for name in sorted(methods) if f"`{name}" not in page] == []


def test_the_client_needs_no_other_part_of_noetl() -> None:
    code = (
        "import json, sys, noetl.client\n"
        "print(json.dumps([m for m in sys.modules if m.startswith(('noetl', 'sqlalchemy', 'celery', "
        "'flask'))]))"
    )

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    loaded = json.loads(out)
    assert "noetl.client" in loaded
    ours = ("noetl.client", "noetl.facts", "noetl.errors")
    own = ("noetl", "noetl._version")
    assert [name for name in loaded if name not in own and not name.startswith(ours)] == []


@pytest.mark.parametrize(
    "key", ["order/7", "a b", "Größe ✓", "100%", "%2F", "?x=1#y", "a+b", "a:b", "//", "x/../y"]
)
def test_executions_are_started_with_keys_and_found_by_them(client: Client, key: str) -> None:
    run = client.start("client/gate", key=key)
    assert not run.existing
    for address in (key, f"client/gate:{key}"):
        assert client.report(address)["execution_id"] == run.execution_id
        assert client.result(address).execution_id == run.execution_id
        assert client.event_page(address).events[0].data["execution_id"] == run.execution_id
    assert [one["execution_id"] for one in client.executions(key=key)] == [run.execution_id]
    with pytest.raises(KeyTaken, match="of playbook 'client/gate' is open") as refused:
        client.start("client/gate", key=key)
    assert refused.value.execution_id == run.execution_id
    again = client.start("client/gate", key=key, on_conflict="return")
    assert (again.execution_id, again.existing) == (run.execution_id, True)
    client.cancel(key)
    assert client.wait(key, GUARD_S).status == "cancelled"


def test_executions_are_started_with_labels_and_found_by_them(client: Client) -> None:
    run = client.start("client/gate", labels={"team": "data", "tier": 1}).execution_id
    one, two = client.start_batch(
        [BatchItem("client/gate", labels={"team": "ops", "from": run}), BatchItem("client/gate")]
    )
    assert isinstance(one, Started)
    assert isinstance(two, Started)
    assert client.report(run)["labels"] == {"team": "data", "tier": "1"}
    assert client.report(two.execution_id)["labels"] == {}
    (found,) = client.executions(where=f"label.team = 'ops' and label.\"from\" = '{run}'")
    assert (found["execution_id"], found["labels"]["team"]) == (one.execution_id, "ops")
    with pytest.raises(BadRequest, match="The labels have no text as 'team', but null"):
        client.start("client/gate", labels={"team": None})
    for each in (run, one.execution_id, two.execution_id):
        client.cancel(each)


def test_items_of_a_batch_have_keys(client: Client) -> None:
    one, two, three = client.start_batch(
        [
            BatchItem("client/gate", key="batched"),
            BatchItem("client/gate", key="batched"),
            BatchItem("client/gate", key="batched", on_conflict="cancel_other"),
        ]
    )
    assert isinstance(one, Started)
    assert isinstance(two, KeyTaken)
    assert two.execution_id == one.execution_id
    assert isinstance(three, Started)
    assert client.wait(one.execution_id, GUARD_S).status == "cancelled"
    assert client.report("batched")["execution_id"] == three.execution_id
    client.cancel("batched")


def test_the_asynchronous_client_takes_keys_as_well(client: Client, url: str) -> None:
    run = client.start("client/double", {"n": 4}, key="a/b ✓").execution_id

    async def ask() -> str:
        async with AsyncClient(url) as opened:
            return (await opened.wait("a/b ✓", GUARD_S)).execution_id

    assert asyncio.run(ask()) == run
