"""A deployer's `celeryconfig.py`: what it may say holds, and what contradicts a promise lets no
process begin."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from noetl.dispatch.naming import SCHEDULER_QUEUE, TURN
from tests import zygote
from tests.waiting import GUARD_S, until

from .stack import environment, kill_trees

pytestmark = pytest.mark.acceptance

HELLO = "metadata: {path: settings/hello}\nworkflow: [{step: start, tool: {kind: noop}}]\n"

_ALSO = pytest.mark.full("the same check, in one more process")
#: What starts a process of NoETL, and the exit code of one that must not begin.
PROCESSES = [
    pytest.param("noetl up --run hello.yaml --no-flower", 2, id="up"),
    pytest.param("noetl server", 2, id="server", marks=_ALSO),
    pytest.param("noetl sweeper", 2, id="sweeper", marks=_ALSO),
    pytest.param("noetl doctor", 1, id="doctor"),
    pytest.param("celery -A noetl worker -Q default -P solo", 2, id="worker"),
    pytest.param("celery -A noetl flower", 2, id="flower", marks=_ALSO),
    pytest.param("gunicorn noetl.wsgi:app --bind 127.0.0.1:0", 4, id="gunicorn"),
]


def run(folder: Path, *argv: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """`python -m ARGV` in `folder`, to its end."""
    return zygote.run(
        argv,
        cwd=folder,
        env=environment({"home": folder / "home", **settings}),
        capture_output=True,
        text=True,
        timeout=GUARD_S,
    )


@pytest.mark.parametrize(("command", "code"), PROCESSES)
def test_no_process_begins_with_settings_that_contradict_a_promise(
    tmp_path: Path, command: str, code: int
) -> None:
    (tmp_path / "hello.yaml").write_text(HELLO)
    config = tmp_path / "celeryconfig.py"
    config.write_text("task_serializer = 'pickle'\nCELERY_ACKS_LATE = False\n")
    expected = (
        f"{config} contradicts what NoETL promises: task_acks_late is False and has to be True; "
        "task_serializer is 'pickle' and has to be 'json'; change it there, or start in a directory "
        "without that file."
    )
    ended = run(tmp_path, *command.split(), broker_url="redis://127.0.0.1:9/0")
    said = ended.stdout + ended.stderr
    assert (ended.returncode, said.count(expected)) == (code, 1), said
    assert "Traceback" not in said, said


def test_a_run_without_a_broker_does_not_mind_what_celery_is_given(tmp_path: Path) -> None:
    (tmp_path / "hello.yaml").write_text(HELLO)
    (tmp_path / "celeryconfig.py").write_text("task_serializer = 'pickle'\n")
    assert run(tmp_path, "noetl", "run", "hello.yaml", "-q").returncode == 0


def test_what_a_deployer_may_say_lies_over_the_settings_of_noetl_wherever_the_file_is(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder, number in ((here, 7), (elsewhere, 8)):
        folder.mkdir()
        (folder / "celeryconfig.py").write_text(
            f"from __future__ import annotations\nimport os\nCELERYD_MAX_TASKS_PER_CHILD = {number}\n"
            "broker_transport_options = {'socket_timeout': 11}\n"
        )
    code = (
        "from noetl.celery import app; c = app.conf; o = c.broker_transport_options; "
        "print(c.worker_max_tasks_per_child, c.task_acks_late, o['socket_timeout'], o['visibility_timeout'])"
    )
    for folder, number in ((here, 7), (tmp_path, 8)):
        settings = {**environment({"home": tmp_path / "home"}), "PYTHONPATH": str(elsewhere)}
        argv = [sys.executable, "-c", code]
        shown = subprocess.run(
            argv, cwd=folder, env=settings, capture_output=True, text=True, check=True
        ).stdout
        assert shown.split() == [str(number), "True", "11", "604800"]


@contextmanager
def scheduler(folder: Path, broker: str) -> Iterator[None]:
    """The worker of the scheduler's queue, on a database of its own."""
    argv = ["celery", "-A", "noetl", "worker", "-Q", SCHEDULER_QUEUE, "-P", "solo", "-l", "INFO"]
    settings = environment({"home": folder / "home", "broker_url": broker, "log_level": "INFO"})
    log = folder / "scheduler.log"
    with log.open("wb") as out:
        process = zygote.Popen(argv, stdout=out, stderr=out, cwd=folder, env=settings)
    try:
        until(lambda: " ready." in log.read_text(), "the scheduler")
        yield
    finally:
        kill_trees([process.pid])
        process.wait()


@pytest.mark.redis
@pytest.mark.full("a scheduler of its own")
def test_what_a_scheduler_refuses_wakes_it_behind_the_last(tmp_path: Path, redis_url: str) -> None:
    """Whoever wanted a turn while a refused message lay in the queue sent none. That it is one wake
    for many is in tests/unit/dispatch/test_debounce.py."""
    with (
        scheduler(tmp_path, redis_url),
        redis.Redis.from_url(redis_url) as client,
        redis.Redis.from_url(redis_url) as other,
        other.monitor() as monitor,
    ):
        for number in range(20):
            client.lpush(SCHEDULER_QUEUE, f"no message {number}")
        pushed = (one["command"] for one in monitor.listen() if one["command"].startswith("LPUSH"))
        assert any(one.endswith("no message 19") for one in pushed)
        # Or this never ends.
        assert any(one.startswith(f"LPUSH {SCHEDULER_QUEUE} ") and TURN in one for one in pushed)
