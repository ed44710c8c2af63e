"""A loop that calls playbooks, eight at a time, beside two worker processes: measured by the work
itself."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from noetl.usecases import catalog
from tests import services
from tests.waiting import GUARD_S, until

from .playbooks import TWO_STEPS, head
from .stack import CORE, Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

WIDTH = 8

CALLS = (
    head("calls")
    + f"""
workload: {{items: 30, url: ""}}
workflow:
  - step: start
    loop: {{in: "{{{{ range(workload.items) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: {WIDTH}}}}}
    tool: {{kind: playbook, path: acceptance/called, input: {{n: "{{{{ iter.n }}}}", url: "{{{{ workload.url }}}}"}}}}
"""
)

#: A worker of code is busy with it before the call, and again behind it.
CALLER = (
    head("caller")
    + """
workload: {n: 0, url: ""}
workflow:
  - step: start
    tool:
      - before: {kind: python, code: "result = 1"}
      - call: {kind: playbook, path: acceptance/called, input: {n: "{{ workload.n }}", url: "{{ workload.url }}"}}
      - after: {kind: python, input: {n: "{{ call.n }}"}, code: result = n}
"""
)

#: It lives from its first request to its second.
CALLED = (
    head("called")
    + """
workload: {n: 0, url: ""}
workflow:
  - step: start
    tool: {kind: http, url: "{{ workload.url }}/begin/{{ workload.n }}"}
    next: end
  - step: end
    tool:
      - leave: {kind: http, url: "{{ workload.url }}/end/{{ workload.n }}"}
      - square: {kind: noop, input: {n: "{{ workload.n * workload.n }}"}}
"""
)


class Register:
    """Counts who is there: each enters at `/begin/n` and leaves at `/end/n`. Nobody who entered is
    answered while it is not `open`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open = threading.Event()
        self.open.set()
        self.begun: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()
        self.here: set[int] = set()
        self.most = 0
        self.url = ""

    def sign(self, verb: str, number: int) -> None:
        with self.lock:
            if verb == "begin":
                self.begun[number] += 1
                if not self.ended[number]:
                    self.here.add(number)
                self.most = max(self.most, len(self.here))
            else:
                self.ended[number] += 1
                self.here.discard(number)


@pytest.fixture
def register() -> Iterator[Register]:
    found = Register()

    class Desk(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, verb, number = self.path.split("/")
            found.sign(verb, int(number))
            if verb == "begin":
                found.open.wait(GUARD_S)
            with contextlib.suppress(OSError):  # whoever asked may be dead
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Desk) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_port}"
        yield found
        server.shutdown()
        thread.join()


def begin(stack: Stack, register: Register, items: int) -> str:
    catalog.register(stack.rt, CALLED)
    return stack.begin(CALLS, {"items": items, "url": register.url})


def check(stack: Stack, execution: str, items: int) -> None:
    """Every child was made once, ended well, and was heard once; results stand in the order of
    items."""
    report = stack.report(execution)
    assert report.result["stats"] == {"total": items, "completed": items, "failed": 0}
    assert report.result["results"] == [{"n": n * n} for n in range(items)]
    stack.check_log_of(execution)
    number = int(execution)
    rows = stack.sql("SELECT execution_id, status FROM execution WHERE parent_id = :id", id=number)
    assert Counter(status for _, status in rows) == {"completed": items}
    for fact in ("child.requested", "child.ended"):
        told = stack.sql(
            "SELECT count(*), count(DISTINCT entity_id) FROM event WHERE execution_id = :id AND type = :type",
            id=number,
            type=fact,
        )
        assert tuple(told[0]) == (items, items), f"{fact}: {told[0]}"
    still = stack.sql(
        "SELECT command_id FROM command WHERE state <> 'closed' AND (execution_id = :id OR execution_id IN"
        " (SELECT execution_id FROM execution WHERE parent_id = :id))",
        id=number,
    )
    assert still == []


def heard(stack: Stack, execution: str) -> int:
    """How many children the caller has heard of."""
    statement = "SELECT count(*) FROM event WHERE execution_id = :id AND type = 'child.ended'"
    return int(stack.sql(statement, id=int(execution))[0][0])


@pytest.mark.full("calls of processes are in tests/integration/cli/test_cli_children.py")
def test_children_eight_at_a_time_hold_no_worker(stack: Stack, register: Register) -> None:
    """Two processes serve the calls; had waiting held them, two would be the most there ever
    are."""
    register.open.clear()
    execution = begin(stack, register, 40)
    until(lambda: len(register.here) == WIDTH, "children to begin")
    assert stack.run(TWO_STEPS).result == 2
    assert stack.row(execution).status == "running", "the other work was to run beside it"
    register.open.set()
    stack.wait([execution])
    check(stack, execution, 40)
    assert register.most == WIDTH
    assert set(register.begun.values()) == set(register.ended.values()) == {1}


# --- faults --------------------------------------------------------------------------------------

#: Short, so that what died is missed within seconds.
FAST = {"lease_s": 2, "heartbeat_s": 0.4, "resend_s": 3, "sweep_s": 0.3, "max_deliveries": 20}


@pytest.fixture(scope="module")
def faulty(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
    broker_of_module: str,
) -> Iterator[Stack]:
    url = postgres_server.create(postgres_template)
    with Stack(
        tmp_path_factory.mktemp("callers"), url, broker_of_module, (*CORE, "sweeper"), FAST
    ) as running:
        yield running
    postgres_server.drop(url)


@pytest.mark.full("a fault of test_faults.py, with calls")
def test_children_survive_the_sudden_death_of_scheduler_and_workers(
    faulty: Stack, register: Register
) -> None:
    execution = begin(faulty, register, 40)
    for count, part in ((6, "scheduler"), (14, "code"), (22, "io")):
        until(lambda least=count: heard(faulty, execution) >= least, f"{count} children to end")
        faulty.restart(part)
    faulty.wait([execution])
    check(faulty, execution, 40)
    assert register.most <= WIDTH
    assert set(register.begun) == set(register.ended) == set(range(40))
    faulty.check_logs()


@pytest.mark.full("a fault of test_faults.py, with calls")
def test_a_child_whose_callers_worker_dies_runs_once(faulty: Stack, register: Register) -> None:
    """The worker of the callers is killed again and again, before and behind the calls; that of the
    children is not."""
    callers = 12
    catalog.register(faulty.rt, CALLED)
    executions = [faulty.begin(CALLER, {"n": n, "url": register.url}) for n in range(callers)]
    for least in (1, 4, 8):
        until(lambda least=least: len(register.begun) >= least, f"{least} children to begin")
        faulty.restart("code")
    faulty.wait(executions)
    assert [faulty.report(one).result for one in executions] == [n * n for n in range(callers)]
    assert register.begun == register.ended == Counter(range(callers))
    made = faulty.sql(
        "SELECT count(*), count(DISTINCT parent_id) FROM execution WHERE parent_id = ANY(:ids)",
        ids=[int(one) for one in executions],
    )
    assert tuple(made[0]) == (callers, callers)
    for one in executions:
        faulty.check_log_of(one)
    faulty.check_logs()
