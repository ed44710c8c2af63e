"""What is no message, on real transports and in a real consumer: it is read past, told of, and
never raised."""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kombu
import pytest
import redis
from amqp.basic_message import Message as AmqpMessage
from celery import Celery
from celery.contrib.testing.worker import start_worker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kombu import Consumer, Queue
from kombu.transport import pyamqp

from noetl.dispatch import consumer, transports
from noetl.dispatch.celery import make_app
from noetl.dispatch.dead_letters import ROOM, DeadLetter, DeadLetterQueue
from noetl.dispatch.envelope import find_flaw_in_bytes, find_flaw_in_envelope, find_flaw_in_message
from noetl.dispatch.refused import refuse, refused
from noetl.dispatch.transports import Connection
from noetl.errors import Unavailable
from noetl.tasks.commands import register
from tests import services
from tests.budget import examples
from tests.garbage import args, envelope, forged_messages, no_messages
from tests.ports import free_port
from tests.waiting import GUARD_S, until

QUEUE = "python"
#: Seconds of one look into a queue in which there may be nothing; whoever waits looks again.
MOMENT_S = 0.2
TASKS = ("noetl.step", "noetl.lane", "noetl.iteration", "noetl.turn", "celery.map")
GOOD = envelope("noetl.step", args("1/start#1/-/1"), QUEUE)


@pytest.fixture
def told() -> Iterator[list[tuple[str, str, str]]]:
    """What was refused: (queue, reason, body)."""
    with telling() as found:
        yield found


@contextmanager
def telling() -> Iterator[list[tuple[str, str, str]]]:
    found: list[tuple[str, str, str]] = []

    def listen(queue: str, reason: str, body: str, **_: object) -> None:
        found.append((queue, reason, body))

    refused.connect(listen)
    yield found
    refused.disconnect(listen)


# --- transports ---


class Broker:
    """One queue of a broker into which anything can be put."""

    def __init__(self, url: str, put: Callable[[bytes], None], **options: Any) -> None:
        self.put = put
        self.connection = Connection(url, transport_options=options)
        self.received: list[Any] = []
        self.channel = self.connection.channel()
        self.consumer = Consumer(self.channel, [Queue(QUEUE)], on_message=self._receive, accept=["json"])
        self.consumer.consume()

    def _receive(self, message: Any) -> None:
        message.ack()
        self.received.append(message.delivery_tag)

    def read(self) -> None:
        """Reads until a good message, put behind everything else, has come."""
        good = envelope("noetl.step", args("1/start#1/-/1"), QUEUE)
        tag = json.loads(good)["properties"]["delivery_tag"]
        self.put(good)
        while tag not in self.received:
            self.connection.drain_events(timeout=GUARD_S)
        assert self.received[-1] == tag

    def look(self) -> None:
        """Reads what comes in a moment, if anything does."""
        with suppress(TimeoutError):
            self.connection.drain_events(timeout=MOMENT_S)


@contextmanager
def on_redis(url: str, _: Path) -> Iterator[Broker]:
    with redis.Redis.from_url(url) as client:
        broker = Broker(url, lambda raw: client.lpush(QUEUE, raw) and None)
        with broker.connection:
            yield broker


@contextmanager
def on_files(_: str, folder: Path) -> Iterator[Broker]:
    (folder / "control").mkdir()
    (folder / "messages").mkdir()
    numbers = iter(range(100_000, 1_000_000))

    def put(raw: bytes) -> None:
        (folder / "messages" / f"{next(numbers)}.{QUEUE}.msg").write_bytes(raw)

    folders = {"data_folder_in": str(folder / "messages"), "data_folder_out": str(folder / "messages")}
    broker = Broker(
        "filesystem://", put, control_folder=str(folder / "control"), polling_interval=0.01, **folders
    )
    with broker.connection:
        yield broker


PLACES = {"redis": on_redis, "files": on_files}


@pytest.mark.parametrize("scheme", ["redis", "rediss", "filesystem", "memory"])
def test_connections_of_our_app_have_our_transports_and_those_of_others_have_kombus(
    scheme: str, tmp_path: Path
) -> None:
    theirs = kombu.Connection(f"{scheme}://")
    assert not issubclass(theirs.get_transport_cls(), transports.Careful)
    app = make_app(f"{scheme}://{tmp_path if scheme == 'filesystem' else ''}", None)
    with app.connection_or_acquire() as pooled, app.producer_pool.connections.acquire() as of_producers:
        # The pools' connections are those that send: kombu makes them of a class of its own.
        ours = [app.connection_for_write(), app.connection_for_read().clone(), pooled, of_producers]
        for connection in ours:
            assert issubclass(connection.get_transport_cls(), transports.Careful)


@pytest.fixture(params=[pytest.param("redis", marks=pytest.mark.redis), "files"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    url = request.getfixturevalue("redis_url") if request.param == "redis" else ""
    with PLACES[request.param](url, tmp_path) as opened:
        yield opened


def test_anything_but_a_message_is_skipped_and_reported_with_its_queue_and_its_reason(
    broker: Broker, told: list[tuple[str, str, str]]
) -> None:
    bad = no_messages(QUEUE)
    for raw, _ in bad.values():
        broker.put(raw)
    broker.read()
    assert [queue for queue, *_ in told] == [QUEUE] * len(bad)
    for (_, part), (_, reason, body) in zip(bad.values(), told, strict=True):
        assert part in reason
        assert len(body) <= 2000
        assert body.isprintable()


@pytest.mark.redis
def test_a_key_that_is_not_a_list_makes_room_for_the_queue_and_is_lost_to_nobody(
    redis_url: str, tmp_path: Path, told: list[tuple[str, str, str]]
) -> None:
    with on_redis(redis_url, tmp_path) as broker, redis.Redis.from_url(redis_url) as client:
        client.set(QUEUE, "somebody's text")
        until(lambda: broker.look() or client.keys("*.refused"), "the text to be put aside")
        broker.read()
        (aside,) = client.keys("*.refused")
        assert client.get(aside) == b"somebody's text"
    ((queue, reason, _),) = told
    assert (queue, aside.decode() in reason, "of the type string" in reason) == (QUEUE, True, True)


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.text(max_size=5),
    st.builds(list),
    st.builds(dict),
    st.builds(lambda: {"a": [1]}),
)


def test_a_worker_outlives_a_broker_that_dies_while_it_waits_and_has_work(tmp_path: Path) -> None:
    port = free_port()
    server = [services.redis_binary(), "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    connection = Connection(f"redis://127.0.0.1:{port}/0")
    with services.started(server, tmp_path / "log", signal.SIGKILL):
        connection.ensure_connection(interval_start=0.05, interval_step=0.05, max_retries=100)
        taken: list[Any] = []
        channels = [connection.default_channel, connection.channel(), connection.channel()]
        for number, channel in enumerate(channels):
            name = f"{QUEUE}{number}"
            queue = Queue(name)
            connection.Producer(channel).publish({}, routing_key=name, declare=[queue])
            Consumer(channel, queue, callbacks=[lambda _, message: taken.append(message)]).consume()
        while len(taken) < len(channels):
            connection.drain_events(timeout=GUARD_S)
        with suppress(TimeoutError):  # from here on it waits, and nothing comes
            connection.drain_events(timeout=MOMENT_S)
    # As Celery does in the process that takes messages. What the pool has done is reported
    # afterwards.
    connection.collect()
    assert all(channel.closed for channel in channels)
    connection.close()
    with pytest.raises(connection.connection_errors):
        taken[0].ack()


@st.composite
def odd_envelopes(draw: st.DrawFn) -> bytes:
    """A message of which one to three parts are anything at all, or missing."""
    parts = json.loads(GOOD)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from([parts, parts["properties"], parts["headers"]]))
        if not isinstance(place, dict) or not place:
            continue
        name = draw(st.sampled_from(sorted(place)))
        place[name] = draw(ODD)
        if not all(isinstance(parts.get(one), dict) for one in ("properties", "headers")):
            break
    return json.dumps(parts).encode()


@given(pile=st.lists(st.one_of(st.binary(max_size=20), odd_envelopes()), min_size=1, max_size=5))
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_nothing_that_is_put_on_a_queue_is_raised_at_who_reads_it(broker: Broker, pile: list[bytes]) -> None:
    with telling() as told:
        before = len(broker.received)
        for raw in pile:
            broker.put(raw)
        broker.read()
    # Everything was either delivered or told of.
    assert len(broker.received) - before - 1 + len(told) == len(pile)


@given(raw=odd_envelopes())
@settings(max_examples=examples(200), deadline=None)
def test_what_passes_as_an_envelope_can_be_made_a_message_of(raw: bytes) -> None:
    if find_flaw_in_bytes(raw) is None and find_flaw_in_envelope(json.loads(raw)) is None:
        with Connection("memory://") as connection:
            message = connection.channel().message_to_python(json.loads(raw))
            message.accept = {"application/json"}
            assert find_flaw_in_message(message, TASKS) is None or message.body is not None


@pytest.mark.parametrize(
    "make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["folder", "pipe", "link"]
)
def test_anything_but_a_file_is_put_aside(
    tmp_path: Path, told: list[tuple[str, str, str]], make: Callable[[Path], None]
) -> None:
    with on_files("", tmp_path) as broker:
        for _ in range(2):
            make(tmp_path / "messages" / f"1.{QUEUE}.msg")
            broker.read()
    assert [reason.partition(":")[0] for _, reason, _ in told] == ["the file cannot be read"] * 2
    remains = [path.name for path in (tmp_path / "messages").iterdir()]
    assert [name.startswith(f"1.{QUEUE}.msg.") and name.endswith(".refused") for name in remains] == [
        True
    ] * 2


def test_half_a_message_is_never_seen_in_a_folder(tmp_path: Path) -> None:
    """Whoever reads while somebody writes finds the whole of it, or nothing."""
    with on_files("", tmp_path) as broker:
        big = {"body": "x" * 900_000, "headers": {}, "properties": {}}
        stop = threading.Event()
        seen: list[int] = []

        def look() -> None:
            while not stop.is_set():
                names = os.listdir(tmp_path / "messages")
                mine = [name for name in names if name.partition(".")[2] == f"other.{QUEUE}.msg"]
                seen.extend((tmp_path / "messages" / name).stat().st_size for name in mine)

        looking = threading.Thread(target=look)
        looking.start()
        for _ in range(20):
            broker.channel._put("other." + QUEUE, big)
        stop.set()
        looking.join()
        assert seen
        assert len(set(seen)) == 1


@pytest.mark.parametrize("garbage", [b"", b"{", b"\xff", b"5", b'[["a"]]', b'{"a": 1}'])
def test_a_table_of_bindings_that_cannot_be_read_is_written_again(tmp_path: Path, garbage: bytes) -> None:
    with on_files("", tmp_path) as broker:
        file = tmp_path / "control" / "python.exchange"
        queue = Queue(QUEUE, exchange="python", routing_key=QUEUE)(broker.channel)
        broker.channel.exchange_declare("python")
        queue.queue_declare()
        queue.queue_bind()
        file.write_bytes(garbage)
        with telling() as told:
            broker.connection.Producer(broker.channel).publish({}, exchange="python", routing_key=QUEUE)
        assert json.loads(file.read_bytes()) == [[QUEUE, "", QUEUE]]
        assert [queue for queue, *_ in told] == ["python.exchange"]
        assert len(list((tmp_path / "messages").iterdir())) == 1


# --- the consumer ---


@pytest.fixture
def log_as_before() -> Iterator[None]:
    """A worker sets the level of the root, and leaves it so."""
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


@pytest.mark.usefixtures("log_as_before")
def test_a_worker_on_any_broker_refuses_anything_but_an_order_to_a_task_of_ours(
    told: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    """The broker in memory brings no protection of its own: what is seen here holds for AMQP as
    well."""
    bad = forged_messages(QUEUE, tmp_path / "trap")
    app = make_app("memory://", None)

    def nobody() -> Any:
        raise AssertionError("a bad message reached a use case")

    register(app, nobody)
    app.conf.update(task_queues=[Queue(QUEUE)], task_default_queue=QUEUE)
    with start_worker(app, pool="solo", perform_ping_check=False, loglevel="CRITICAL") as worker:
        with app.connection_for_write() as connection:
            channel = connection.default_channel
            for raw, _ in bad.values():
                channel._put(QUEUE, json.loads(raw))
        until(lambda: len(told) >= len(bad), "all of them to be told of")
        assert worker.consumer.blueprint.state == 1, "the worker ended"
    assert len(told) == len(bad)
    for (name, (_, part)), (queue, reason, _) in zip(bad.items(), told, strict=True):
        assert (name, queue) == (name, QUEUE)
        assert part in reason, name
    assert not (tmp_path / "trap").exists()


def amqp(raw: bytes) -> pyamqp.Message:
    """The same message as RabbitMQ would hand it over."""
    parts = json.loads(raw)
    found = AmqpMessage(
        base64.b64decode(parts["body"]),
        content_type=parts["content-type"],
        content_encoding=parts["content-encoding"],
        application_headers=parts["headers"],
    )
    found.delivery_info = {"routing_key": QUEUE, "consumer_tag": "tag", "delivery_tag": "7"}
    message = pyamqp.Message(found, channel=None)
    message.accept = {"application/json"}
    return message


def test_messages_of_amqp_are_looked_at_in_the_same_way(tmp_path: Path) -> None:
    assert find_flaw_in_message(amqp(GOOD), TASKS) is None
    for name, (raw, part) in forged_messages(QUEUE, tmp_path / "trap").items():
        message = amqp(raw)
        if message.errors or "not the arguments" in part:  # found by kombu, and by the task
            continue
        assert part in str(find_flaw_in_message(message, TASKS)), name


class Channel:
    """Notes what is rejected, as a channel of AMQP."""

    def __init__(self, *no_ack: str) -> None:
        self.no_ack_consumers = set(no_ack)
        self.rejected: list[object] = []

    def basic_reject(self, tag: object, requeue: bool) -> None:
        assert not requeue
        self.rejected.append(tag)


@pytest.mark.parametrize(("no_ack", "rejected"), [((), ["7"]), (("tag",), [])])
def test_what_a_queue_has_forgotten_is_not_rejected_for_amqp_would_close_the_channel(
    told: list[tuple[str, str, str]], no_ack: tuple[str, ...], rejected: list[str]
) -> None:
    message = amqp(GOOD)
    message.channel = Channel(*no_ack)
    ours = consumer.Consumer.__new__(consumer.Consumer)
    ours.connection_errors = ()
    ours._refuse(message, "for a test")
    assert message.channel.rejected == rejected
    assert [(queue, reason) for queue, reason, _ in told] == [(QUEUE, "for a test")]


def test_a_broken_pool_is_not_blamed_on_the_message(told: list[tuple[str, str, str]]) -> None:
    """A worker that cannot work must end, and not refuse everything from then on."""
    app = Celery("broken", broker="memory://", set_as_current=False)
    app.config_from_object("noetl.dispatch.settings")
    ours = consumer.Consumer.__new__(consumer.Consumer)
    ours.strategies, ours.app, ours.connection_errors = {"noetl.step": _broken}, app, ()
    ours.on_task_message, ours._maximum_prefetch_restored = (), True
    with pytest.raises(RuntimeError, match="shutdown"):
        ours.create_task_handler()(amqp(GOOD))
    ours.strategies = {"noetl.step": _stumbling}
    message = amqp(GOOD)
    message.channel = Channel()
    ours.create_task_handler()(message)
    assert [reason for _, reason, _ in told] == ["Celery cannot work with it: KeyError: 'id'"]


def _broken(*_: object) -> None:
    raise RuntimeError("cannot schedule new futures after shutdown")


def _stumbling(*_: object) -> None:
    raise KeyError("id")


# --- dead letters ---


def letter(text: str) -> DeadLetter:
    return DeadLetter("broker:test", "for a test", text, datetime.now(UTC))


def test_nobody_waits_for_a_database_that_hangs_and_letters_beyond_the_room_are_let_go() -> None:
    back = threading.Event()
    written: list[str] = []

    def write(letters: Any) -> None:
        back.wait()
        written.extend(one.body for one in letters)

    letters = DeadLetterQueue(write)
    letters.keep(letter("first"))
    until(lambda: not letters._waiting, "the first to be written")
    for number in range(ROOM + 10):
        letters.keep(letter(str(number)))
    back.set()
    letters.flush(GUARD_S)
    assert written == ["first", *map(str, range(ROOM))]


@pytest.mark.parametrize("error", [Unavailable("away"), ValueError("a defect")])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_letters_are_kept_again_once_the_database_is_back(error: Exception) -> None:
    errors = [error]
    written: list[str] = []

    def write(letters: Any) -> None:
        if errors:
            raise errors.pop()
        written.extend(one.body for one in letters)

    letters = DeadLetterQueue(write)
    for text in ("lost", "kept"):
        letters.keep(letter(text))
        letters.flush(GUARD_S)
    assert written == ["kept"]


FORK = """
import os, sys, threading, warnings
from datetime import UTC, datetime
from noetl.dispatch.dead_letters import DeadLetter, DeadLetterQueue
warnings.simplefilter("ignore", DeprecationWarning)
lock = threading.Lock()
begun, forks, forked = (threading.Event() for _ in range(3))
def write(letters):
    with lock:                      # as libpq and OpenSSL have, for the whole of the process
        begun.set()
        forks.wait()
        forked.wait(0.3)            # it is not, unless somebody forks while this is written
        os.write(1, b"".join(one.body.encode() for one in letters))
letters = DeadLetterQueue(write)
os.register_at_fork(before=forks.set, after_in_parent=forked.set)
def letter(text):
    return DeadLetter("test", "test", text, datetime.now(UTC))
letters.keep(letter("parent "))
begun.wait()
letters.keep(letter("waiting "))
letters._lock.acquire()             # as another thread may hold it at that moment
child = os.fork()
if not child:
    letters.keep(letter("child "))
    letters.flush(300)
    os._exit(0)
letters._lock.release()
os.waitpid(child, 0)
letters.keep(letter("again "))
letters.flush(300)
"""


def test_a_process_that_is_forked_while_letters_are_written_keeps_its_own() -> None:
    """A prefork pool's parent forks whenever a child has died."""
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=GUARD_S, check=False
    )
    assert (sorted(done.stdout.split()), done.stderr) == (["again", "child", "parent", "waiting"], "")


def test_what_is_reported_is_bounded_and_obeyed_by_no_terminal(told: list[tuple[str, str, str]]) -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    for body in (b"\x1b[2J\x00" + b"\xff" * 5000, "\ud800\u202e", nested, {"a": 1}):
        refuse("q" * 5000, "r\n" * 5000, body)
    bodies = [body for *_, body in told]
    assert bodies[0].startswith(r"\x1b[2J\x00\xff\xff")
    assert bodies[1:] == [r"\ud800\u202e", "<list, nested too deeply to be shown>", "{'a': 1}"]
    for queue, reason, body in told:
        assert (len(queue), len(reason)) == (300, 300)
        assert len(body) <= 2000
        assert (queue + reason + body).isprintable()
    while nested:  # let go of piece by piece: Python 3.11 frees it by recursion
        nested = nested.pop()
