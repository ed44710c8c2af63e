"""An execution with hundreds of iterations on their way ends when somebody cancels it: those that
wait, those that workers are at, and those that no worker has taken yet. How soon is measured by the
benchmarks.

`NOETL_TEST_CALLS` and `NOETL_TEST_WAITS` say how many call a server that does not answer, and how
many wait for a signal.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import httpd, services
from tests.budget import budget
from tests.waiting import until

from .playbooks import head
from .stack import Stack, worker
from .test_cancelling import ended

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

CALLS = budget("NOETL_TEST_CALLS", quick=100, full=200, long=5000)
WAITS = budget("NOETL_TEST_WAITS", quick=50, full=100, long=2000)
#: How many calls workers are at, each in a thread of its own.
AT_WORK = 30

PLAYBOOK = (
    head("many")
    + f"""
workload: {{url: ""}}
workflow:
  - {{step: start, next: [waits, calls]}}
  - step: waits
    loop: {{in: "{{{{ range({WAITS}) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: {WAITS}}}}}
    tool: {{kind: wait, signal: {{name: never, match: {{n: "{{{{ n }}}}"}}}}}}
  - step: calls
    loop: {{in: "{{{{ range({CALLS}) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: {CALLS}}}}}
    tool: {{kind: http, url: "{{{{ workload.url }}}}/hangs", spec: {{timeout: 3600}}}}
"""
)


@pytest.fixture
def hanging() -> Iterator[httpd.Server]:
    """A server that answers nobody."""
    server = httpd.started()
    server.routes["/hangs"] = lambda _: server.stopping.wait() and None
    yield server
    httpd.stopped(server)


@pytest.fixture
def wide(
    tmp_path: Path, postgres_server: services.Postgres, postgres_template: str, broker_of_module: str
) -> Iterator[Stack]:
    url = postgres_server.create(postgres_template)
    with Stack(tmp_path / "stack", url, broker_of_module, ("scheduler", "code", "sweeper", "api")) as running:
        running.launch("wide", worker("http", "threads", AT_WORK, "wide"))
        running.await_ready("wide")
        yield running
    postgres_server.drop(url)


def waiting(stack: Stack, execution: str) -> int:
    """How many iterations wait."""
    statement = "SELECT count(*) FROM event WHERE execution_id = :id AND type = 'loop.iteration.suspended'"
    return int(stack.sql(statement, id=int(execution))[0][0])


def test_iterations_are_cancelled_whatever_they_are_at(wide: Stack, hanging: httpd.Server) -> None:
    execution = wide.begin(PLAYBOOK, {"url": hanging.url})
    until(lambda: waiting(wide, execution) == WAITS, "all to wait")
    until(lambda: len(hanging.seen) == AT_WORK, "all threads to be at a call")
    wide.post(f"executions/{execution}/cancel")
    assert ended(wide, execution)["status"] == "cancelled"
    held = "SELECT 1 FROM command WHERE execution_id = :id AND state <> 'closed'"
    until(lambda: not wide.sql(held, id=int(execution)), "no worker to hold anything")
    assert len(hanging.seen) == AT_WORK, "calls began after the execution was cancelled"
    wide.check_logs()
