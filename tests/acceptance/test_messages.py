"""What stands between NoETL and its broker: whatever is put there, workers live on, and it is kept
for people."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from sqlalchemy import make_url

from tests import services, zygote
from tests.garbage import empty_handed, forged_messages, no_messages
from tests.waiting import until

from .playbooks import LOOP, THREADED_LOOP, squares
from .stack import CORE, ROOT, Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres]

#: A queue of each pool: solo, prefork, threads.
QUEUES = ("scheduler", "python", "default")


def letters(stack: Stack, after: int = 0) -> list[tuple[str, str, str]]:
    """(source, reason, body) of the dead letters, oldest first."""
    statement = "SELECT source, reason, body FROM dead_letter WHERE id > :after ORDER BY id"
    return [tuple(row) for row in stack.sql(statement, after=after)]


def newest(stack: Stack) -> int:
    return int(stack.sql("SELECT coalesce(max(id), 0) FROM dead_letter")[0][0])


def settled(stack: Stack, count: int, after: int = 0) -> list[tuple[str, str, str]]:
    """The dead letters once there are so many."""
    until(
        lambda: len(letters(stack, after)) >= count,
        lambda: f"{count} dead letters: {[reason for _, reason, _ in letters(stack, after)]}",
    )
    return letters(stack, after)


def pids(stack: Stack) -> dict[str, int]:
    """Of the workers, which must be alive."""
    for name in CORE:
        process = stack.running[name].process
        assert process is not None
        assert process.poll() is None, f"{name} ended"
    return {name: stack.running[name].pid for name in CORE}


def everything(queue: str, trap: Path) -> dict[str, tuple[bytes, str]]:
    return no_messages(queue) | forged_messages(queue, trap)


def check_kept(found: list[tuple[str, str, str]], queue: str, bad: Mapping[str, tuple[bytes, str]]) -> None:
    """One letter for each bad message, from its queue and with its reason."""
    open_ = [reason for source, reason, _ in found if source == f"broker:{queue}"]
    missing = []
    # The longest first: parts of reasons may be parts of others.
    for name, (_, part) in sorted(bad.items(), key=lambda one: -len(one[1][1])):
        hit = next((reason for reason in open_ if part in reason), None)
        if hit is None:
            missing.append(f"{name}: {part}")
        else:
            open_.remove(hit)
    assert missing == [], f"in {queue}; left over: {open_}"
    assert open_ == [], queue


def check_legible(found: list[tuple[str, str, str]]) -> None:
    for letter in found:
        assert all(text.isprintable() for text in letter), letter
        assert len(letter[1]) <= 300
        assert len(letter[2]) <= 2000


def test_whatever_is_put_on_a_queue_of_redis_the_workers_live_on_and_each_piece_is_kept_with_its_reason(
    stack: Stack, tmp_path: Path
) -> None:
    trap = tmp_path / "unpickled"
    bad = {queue: everything(queue, trap) for queue in QUEUES}
    before, since = pids(stack), newest(stack)
    log = stack.sql("SELECT count(*) FROM event")[0][0]
    with redis.Redis.from_url(stack.broker) as client:
        for queue, messages in bad.items():
            client.lpush(queue, *(raw for raw, _ in messages.values()), *empty_handed(queue))
        # What stands behind the garbage is done.
        assert stack.run(LOOP, {"items": 4, "width": 2}).result == squares(4)
        assert stack.run(THREADED_LOOP, {"items": 4, "width": 2}).result == squares(4)
        assert not any(client.llen(queue) for queue in QUEUES)
    found = settled(stack, sum(map(len, bad.values())), since)
    for queue, messages in bad.items():
        check_kept(found, queue, messages)
    check_legible(found)
    assert not trap.exists(), "a pickle was opened"
    assert pids(stack) == before
    assert stack.sql("SELECT count(*) FROM event WHERE execution_id IN (1, 99)")[0][0] == 0
    assert stack.sql("SELECT count(*) FROM event")[0][0] > log


def test_people_are_shown_what_was_refused(stack: Stack) -> None:
    with redis.Redis.from_url(stack.broker) as client:
        client.lpush("python", b"\x1b[31mgarbage that people shall see")
    until(lambda: any("shall see" in body for *_, body in letters(stack)), "the dead letter")
    shown = noetl(stack, "doctor", "--letters")
    assert "broker:python: no message, for it is not JSON" in shown
    assert r"\x1b[31mgarbage that people shall see" in shown
    assert "\x1b[31mgarbage" not in shown


def noetl(stack: Stack, *words: str) -> str:
    done = zygote.run(["noetl", *words], cwd=ROOT, env=stack.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


# --- files as a broker ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: services.Postgres, postgres_template: str
) -> Iterator[Stack]:
    """A stack whose messages are files. Nothing is ever delivered again there but by the
    sweeper."""
    url = postgres_server.create(postgres_template)
    home = tmp_path_factory.mktemp("files")
    settings = {"lease_s": 2, "heartbeat_s": 0.4, "resend_s": 1.5, "sweep_s": 0.3}
    with Stack(home, url, f"filesystem://{home}/broker", (*CORE, "sweeper"), settings) as running:
        yield running
    postgres_server.drop(url)


@pytest.fixture
def put(files: Stack) -> Callable[[str, str], Path]:
    """The path of a message's file in the folder of the broker: `put("python", "name")`."""
    folder = Path(files.broker.removeprefix("filesystem://")) / "messages"
    # Before everything that was sent since the machine started.
    return lambda queue, name: folder / f"0_{name.replace(' ', '_')}.{queue}.msg"


@pytest.mark.full("garbage on Redis is tried")
def test_whatever_is_put_into_the_folder_of_a_filesystem_broker_the_workers_live_on_and_it_is_kept(
    files: Stack, put: Callable[[str, str], Path], tmp_path: Path
) -> None:
    trap = tmp_path / "unpickled"
    bad = {queue: everything(queue, trap) for queue in QUEUES}
    before = pids(files)
    for queue, messages in bad.items():
        for name, (raw, _) in messages.items():
            drop(put(queue, name), raw)
        for number, raw in enumerate(empty_handed(queue)):
            drop(put(queue, f"void{number}"), raw)
    for queue in QUEUES:
        put(queue, "a folder").mkdir()
        os.mkfifo(put(queue, "a pipe"))
        put(queue, "a link").symlink_to("/dev/zero")
    assert files.run(LOOP, {"items": 4, "width": 2}).result == squares(4)
    assert files.run(THREADED_LOOP, {"items": 4, "width": 2}).result == squares(4)
    odd = {f"odd {number}": (b"", "the file cannot be read") for number in range(3)}
    found = settled(files, sum(map(len, bad.values())) + len(QUEUES) * len(odd))
    for queue, messages in bad.items():
        check_kept(found, queue, messages | odd)
    check_legible(found)
    assert not trap.exists(), "a pickle was opened"
    assert pids(files) == before
    remains = Counter(path.suffix for path in put("python", "x").parent.iterdir())
    # What is no file is left for people to remove, under a name that no queue has.
    assert remains == {".refused": 3 * len(QUEUES)}
    files.check_logs()


def drop(path: Path, raw: bytes) -> None:
    """Puts a whole file there at once, as every other writer of the folder does."""
    made = path.with_name(f".{path.name}")
    made.write_bytes(raw)
    made.rename(path)


@contextmanager
def away(server: services.Postgres, url: str) -> Iterator[None]:
    """The server hangs up on everybody in the database, and lets nobody in for as long as the block
    runs."""
    name = make_url(url).database
    server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    try:
        server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        yield
    finally:
        server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


@pytest.mark.full("a rarer fault")
def test_a_worker_whose_database_is_away_reads_past_garbage_and_says_so_in_its_log(
    files: Stack, put: Callable[[str, str], Path], postgres_server: services.Postgres
) -> None:
    before = pids(files)
    files.disconnect()
    with away(postgres_server, files.database):
        for number in range(20):
            drop(put("python", f"lost {number}"), b"nobody can keep this")
        until(lambda: not put("python", "lost 19").exists(), "the files to be read")
        said = files.running["code"].said
        until(lambda: said().count("nobody can keep this") == 20, "the log to tell of each")
        until(lambda: "dead letters could not be kept" in said(), "the log to say so")
    assert pids(files) == before
    # Everybody who wanted the database meanwhile says so.
    files.expected.append(".")
    files.check_logs()
    assert files.run(LOOP, {"items": 4, "width": 2}).result == squares(4)
    drop(put("python", "kept"), b"this can be kept again")
    until(lambda: any("kept again" in body for *_, body in letters(files)), "a dead letter")
