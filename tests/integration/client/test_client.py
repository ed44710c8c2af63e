"""Programs use the API through `noetl.client`, over real HTTP, with requests and with httpx alike."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from noetl.client import BatchItem, Client, ExecutionFailed, Started
from noetl.client.aio import AsyncClient
from noetl.errors import BadRequest, Conflict, NotFound, PlaybookInvalid, Unavailable

from .conftest import FAILING, GATE, PLAYBOOK
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
    assert client.run("client/double", {"n": 3}, timeout_s=30) == {"double": 6}


def test_an_execution_that_did_not_complete_has_no_value(client: Client) -> None:
    with pytest.raises(ExecutionFailed, match="is failed") as caught:
        client.run("client/failing")

    assert caught.value.outcome.status == "failed"


def test_who_waits_with_a_timeout_is_told_where_the_execution_stands(client: Client) -> None:
    started = client.start("client/gate")

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
            with pytest.raises(NotFound):
                await client.start("no/where")

    asyncio.run(use())


def test_both_clients_have_the_same_methods() -> None:
    def methods(cls: type) -> set[str]:
        return {name for name in vars(cls) if not name.startswith("_")}

    assert methods(Client) == methods(AsyncClient)


def test_the_client_needs_no_other_part_of_noetl() -> None:
    code = (
        "import json, sys, noetl.client\n"
        "print(json.dumps([m for m in sys.modules if m.startswith(('noetl', 'sqlalchemy', 'celery', 'flask'))]))"
    )

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    loaded = json.loads(out)
    assert "noetl.client" in loaded
    ours = ("noetl.client", "noetl.facts", "noetl.errors")
    own = ("noetl", "noetl._version")
    assert [name for name in loaded if name not in own and not name.startswith(ours)] == []
